/* SPDX-License-Identifier: MIT */
/*
 * Metadata by key. Writers disagree about the width of a number, so that every integer type is
 * taken whose value fits; a key of the wrong kind is an error that names it, never a default.
 */
#include "config.h"

#include "src/format/gguf-private.h"

#include "src/core/error.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t n_bytes; /* 0: variable */
} types[] = {
    [SLUICE_GGUF_U8] = {"u8", 1},         [SLUICE_GGUF_I8] = {"i8", 1},
    [SLUICE_GGUF_U16] = {"u16", 2},       [SLUICE_GGUF_I16] = {"i16", 2},
    [SLUICE_GGUF_U32] = {"u32", 4},       [SLUICE_GGUF_I32] = {"i32", 4},
    [SLUICE_GGUF_F32] = {"f32", 4},       [SLUICE_GGUF_BOOL] = {"bool", 1},
    [SLUICE_GGUF_STRING] = {"string", 0}, [SLUICE_GGUF_ARRAY] = {"array", 0},
    [SLUICE_GGUF_U64] = {"u64", 8},       [SLUICE_GGUF_I64] = {"i64", 8},
    [SLUICE_GGUF_F64] = {"f64", 8},
};

const char *
sluice_gguf_type_name(SluiceGgufType type)
{
    g_assert((unsigned) type < G_N_ELEMENTS(types));
    return types[type].name;
}

size_t
sluice_gguf_type_bytes(SluiceGgufType type)
{
    g_assert((unsigned) type < G_N_ELEMENTS(types));
    return types[type].n_bytes;
}

SluiceGgufString
sluice_gguf_next_string(const uint8_t **data)
{
    SluiceGgufString string = {(const char *) *data + sizeof(uint64_t),
                               sluice_gguf_load_u64(*data)};

    *data += sizeof(uint64_t) + string.n_bytes;
    return string;
}

static const SluiceGgufFile *
metadata_file(const SluiceGguf *gguf)
{
    return g_ptr_array_index(gguf->files, 0);
}

/* Metadata errors name the file as well: a program may have several open. */
static void set_value_error(GError **error, const SluiceGguf *gguf, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

static void
set_value_error(GError **error, const SluiceGguf *gguf, const char *format, ...)
{
    g_autofree char *path = sluice_error_printable(sluice_gguf_path(gguf), -1);
    va_list args;

    va_start(args, format);
    g_autofree char *message = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FORMAT, "%s: %s", path, message);
}

/* ---- one number ------------------------------------------------------------------------- */

/* A number of the file: an integer as sign and magnitude, or a float. */
typedef struct {
    enum { NUMBER_NONE, NUMBER_INT, NUMBER_FLOAT } kind;
    bool is_negative;
    uint64_t magnitude;
    double real; /* the value, whatever the kind */
} Number;

static Number
int_number(int64_t value)
{
    bool is_negative = value < 0;

    return (Number){NUMBER_INT, is_negative, is_negative ? -(uint64_t) value : (uint64_t) value,
                    (double) value};
}

static Number
uint_number(uint64_t value)
{
    return (Number){NUMBER_INT, false, value, (double) value};
}

static double
load_f32(const uint8_t *p)
{
    uint32_t bits = sluice_gguf_load_u32(p);
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static double
load_f64(const uint8_t *p)
{
    uint64_t bits = sluice_gguf_load_u64(p);
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static Number
load_number(SluiceGgufType type, const uint8_t *p)
{
    switch (type) {
    case SLUICE_GGUF_U8:
        return uint_number(p[0]);
    case SLUICE_GGUF_I8:
        return int_number((int8_t) p[0]);
    case SLUICE_GGUF_U16:
        return uint_number((uint16_t) (p[0] | p[1] << 8));
    case SLUICE_GGUF_I16:
        return int_number((int16_t) (p[0] | p[1] << 8));
    case SLUICE_GGUF_U32:
        return uint_number(sluice_gguf_load_u32(p));
    case SLUICE_GGUF_I32:
        return int_number((int32_t) sluice_gguf_load_u32(p));
    case SLUICE_GGUF_U64:
        return uint_number(sluice_gguf_load_u64(p));
    case SLUICE_GGUF_I64:
        return int_number((int64_t) sluice_gguf_load_u64(p));
    case SLUICE_GGUF_BOOL:
        return uint_number(p[0] != 0);
    case SLUICE_GGUF_F32:
        return (Number){.kind = NUMBER_FLOAT, .real = load_f32(p)};
    case SLUICE_GGUF_F64:
        return (Number){.kind = NUMBER_FLOAT, .real = load_f64(p)};
    case SLUICE_GGUF_STRING:
    case SLUICE_GGUF_ARRAY:
        break;
    }
    return (Number){.kind = NUMBER_NONE};
}

/* Some converters write counts as floats; a whole number up to 2^53 is meant as one. */
static Number
whole_number(Number number)
{
    if (number.kind == NUMBER_FLOAT && fabs(number.real) <= 9007199254740992.0 &&
        number.real == trunc(number.real))
        return int_number((int64_t) number.real);
    return number;
}

static void
set_kind_error(GError **error, const SluiceGgufEntry *entry, const char *expected)
{
    g_autofree char *key = sluice_error_printable(entry->key.data, entry->key.n_bytes);

    g_set_error(
        error, SLUICE_ERROR, SLUICE_ERROR_FORMAT, "key '%s' has type %s%s%s, expected %s", key,
        sluice_gguf_type_name(entry->type), entry->type == SLUICE_GGUF_ARRAY ? " of " : "",
        entry->type == SLUICE_GGUF_ARRAY ? sluice_gguf_type_name(entry->item_type) : "", expected);
}

/* "-7", "12" or "2.5", for a message. */
static char *
show_number(Number number)
{
    if (number.kind == NUMBER_INT)
        return g_strdup_printf("%s%" PRIu64, number.is_negative ? "-" : "", number.magnitude);
    return g_strdup_printf("%g", number.real);
}

gboolean
sluice_gguf_entry_uint(const SluiceGgufEntry *entry, uint64_t max, uint64_t *value, GError **error)
{
    Number number = whole_number(load_number(entry->type, entry->data));

    if (number.kind == NUMBER_NONE) {
        set_kind_error(error, entry, "an integer");
        return FALSE;
    }
    if (number.kind == NUMBER_FLOAT || number.is_negative || number.magnitude > max) {
        g_autofree char *key = sluice_error_printable(entry->key.data, entry->key.n_bytes);
        g_autofree char *shown = show_number(number);
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FORMAT,
                    "key '%s' is %s, expected an integer from 0 to %" PRIu64, key, shown, max);
        return FALSE;
    }
    *value = number.magnitude;
    return TRUE;
}

static void
prefix_path(GError **error, const SluiceGguf *gguf)
{
    g_autofree char *path = sluice_error_printable(sluice_gguf_path(gguf), -1);

    g_prefix_error(error, "%s: ", path);
}

/* ---- entries ---------------------------------------------------------------------------- */

/**
 * sluice_gguf_n_entries:
 * @gguf: a model
 *
 * Returns: the number of metadata entries of its first file
 * Since: 0.1
 */
size_t
sluice_gguf_n_entries(const SluiceGguf *gguf)
{
    return metadata_file(gguf)->n_entries;
}

/**
 * sluice_gguf_entry:
 * @gguf: a model
 * @entry_idx: below sluice_gguf_n_entries()
 *
 * Returns: (transfer none): that entry, in the order of the file
 * Since: 0.1
 */
const SluiceGgufEntry *
sluice_gguf_entry(const SluiceGguf *gguf, size_t entry_idx)
{
    g_return_val_if_fail(entry_idx < metadata_file(gguf)->n_entries, NULL);

    return &metadata_file(gguf)->entries[entry_idx];
}

/**
 * sluice_gguf_find:
 * @gguf: a model
 * @key: a metadata key
 *
 * Cost: O(1).
 *
 * Returns: (transfer none) (nullable): the entry, or %NULL
 * Since: 0.1
 */
const SluiceGgufEntry *
sluice_gguf_find(const SluiceGguf *gguf, const char *key)
{
    return sluice_gguf_file_find(metadata_file(gguf), key);
}

/**
 * sluice_gguf_has:
 * @gguf: a model
 * @key: a metadata key
 *
 * Returns: whether there is such a key, of any type
 * Since: 0.1
 */
gboolean
sluice_gguf_has(const SluiceGguf *gguf, const char *key)
{
    return sluice_gguf_find(gguf, key) != NULL;
}

/**
 * sluice_gguf_require:
 * @gguf: a model
 * @key: a metadata key
 * @error: return location, or %NULL
 *
 * Returns: whether there is such a key; if not, the error names it
 * Since: 0.1
 */
gboolean
sluice_gguf_require(const SluiceGguf *gguf, const char *key, GError **error)
{
    if (sluice_gguf_has(gguf, key))
        return TRUE;
    g_autofree char *shown = sluice_error_printable(key, -1);
    set_value_error(error, gguf, "missing metadata key '%s'", shown);
    return FALSE;
}

/**
 * sluice_gguf_uint:
 * @gguf: a model
 * @key: a metadata key
 * @max: the largest value that the caller can use
 * @value: (inout): the value; stays as it is if there is no such key
 * @error: return location, or %NULL
 *
 * Returns: %FALSE with %SLUICE_ERROR_FORMAT if the value is no integer from 0 to @max
 * Since: 0.1
 */
gboolean
sluice_gguf_uint(const SluiceGguf *gguf, const char *key, uint64_t max, uint64_t *value,
                 GError **error)
{
    const SluiceGgufEntry *entry = sluice_gguf_find(gguf, key);

    if (entry == NULL || sluice_gguf_entry_uint(entry, max, value, error))
        return TRUE;
    prefix_path(error, gguf);
    return FALSE;
}

/**
 * sluice_gguf_float:
 * @gguf: a model
 * @key: a metadata key
 * @value: (inout): the value; stays as it is if there is no such key
 * @error: return location, or %NULL
 *
 * Returns: %FALSE with %SLUICE_ERROR_FORMAT if the value is no finite number
 * Since: 0.1
 */
gboolean
sluice_gguf_float(const SluiceGguf *gguf, const char *key, double *value, GError **error)
{
    const SluiceGgufEntry *entry = sluice_gguf_find(gguf, key);

    if (entry == NULL)
        return TRUE;
    Number number = load_number(entry->type, entry->data);
    if (number.kind == NUMBER_NONE) {
        set_kind_error(error, entry, "a number");
        prefix_path(error, gguf);
        return FALSE;
    }
    if (!isfinite(number.real)) {
        set_value_error(error, gguf, "key '%s' is %g, expected a finite number", key, number.real);
        return FALSE;
    }
    *value = number.real;
    return TRUE;
}

/**
 * sluice_gguf_bool:
 * @gguf: a model
 * @key: a metadata key
 * @value: (inout): the value, any integer but 0 being true; stays as it is without such a key
 * @error: return location, or %NULL
 *
 * Returns: %FALSE with %SLUICE_ERROR_FORMAT if the value is neither a bool nor an integer
 * Since: 0.1
 */
gboolean
sluice_gguf_bool(const SluiceGguf *gguf, const char *key, bool *value, GError **error)
{
    const SluiceGgufEntry *entry = sluice_gguf_find(gguf, key);

    if (entry == NULL)
        return TRUE;
    Number number = load_number(entry->type, entry->data);
    if (number.kind != NUMBER_INT) {
        set_kind_error(error, entry, "bool");
        prefix_path(error, gguf);
        return FALSE;
    }
    *value = number.magnitude != 0;
    return TRUE;
}

/**
 * sluice_gguf_string:
 * @gguf: a model
 * @key: a metadata key
 * @value: (inout): the bytes, in the mapping; stays as it is if there is no such key
 * @error: return location, or %NULL
 *
 * Returns: %FALSE with %SLUICE_ERROR_FORMAT if the value is no string
 * Since: 0.1
 */
gboolean
sluice_gguf_string(const SluiceGguf *gguf, const char *key, SluiceGgufString *value, GError **error)
{
    const SluiceGgufEntry *entry = sluice_gguf_find(gguf, key);

    if (entry == NULL)
        return TRUE;
    if (entry->type != SLUICE_GGUF_STRING) {
        set_kind_error(error, entry, "string");
        prefix_path(error, gguf);
        return FALSE;
    }
    const uint8_t *data = entry->data;
    *value = sluice_gguf_next_string(&data);
    return TRUE;
}

/* ---- arrays ----------------------------------------------------------------------------- */

static gpointer
alloc_items(const SluiceGguf *gguf, const char *key, uint64_t n_items, size_t item_bytes,
            GError **error)
{
    gpointer items = g_try_malloc_n(MAX(n_items, 1), item_bytes);

    if (items == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "not enough memory for the %" PRIu64 " items of key '%s', %" PRIu64 " bytes",
                    n_items, key, n_items * item_bytes);
        prefix_path(error, gguf);
    }
    return items;
}

/**
 * sluice_gguf_int_array:
 * @gguf: a model
 * @key: a metadata key
 * @n_items: (out): length of the array
 * @error: return location, or %NULL
 *
 * Returns: (transfer full) (nullable): the integers or bools of an array; %NULL without an error
 *   and 0 items if there is no such key, %NULL with one if it is no array of integers
 * Since: 0.1
 */
int64_t *
sluice_gguf_int_array(const SluiceGguf *gguf, const char *key, size_t *n_items, GError **error)
{
    const SluiceGgufEntry *entry = sluice_gguf_find(gguf, key);

    *n_items = 0;
    if (entry == NULL)
        return NULL;
    if (entry->type != SLUICE_GGUF_ARRAY ||
        load_number(entry->item_type, (const uint8_t[8]){0}).kind != NUMBER_INT) {
        set_kind_error(error, entry, "array of integers");
        prefix_path(error, gguf);
        return NULL;
    }
    g_autofree int64_t *items = alloc_items(gguf, key, entry->n_items, sizeof *items, error);
    if (items == NULL)
        return NULL;
    size_t item_bytes = sluice_gguf_type_bytes(entry->item_type);
    for (uint64_t i = 0; i < entry->n_items; i++) {
        Number number = load_number(entry->item_type, entry->data + i * item_bytes);
        if (!number.is_negative && number.magnitude > INT64_MAX) {
            set_value_error(error, gguf,
                            "key '%s', item %" PRIu64 " is %" PRIu64 ", limit %" PRId64, key, i,
                            number.magnitude, INT64_MAX);
            return NULL;
        }
        items[i] = (int64_t) (number.is_negative ? -number.magnitude : number.magnitude);
    }
    *n_items = entry->n_items;
    return g_steal_pointer(&items);
}

/**
 * sluice_gguf_float_array:
 * @gguf: a model
 * @key: a metadata key
 * @n_items: (out): length of the array
 * @error: return location, or %NULL
 *
 * Returns: (transfer full) (nullable): the numbers of an array, not necessarily finite; %NULL as
 *   for sluice_gguf_int_array()
 * Since: 0.1
 */
float *
sluice_gguf_float_array(const SluiceGguf *gguf, const char *key, size_t *n_items, GError **error)
{
    const SluiceGgufEntry *entry = sluice_gguf_find(gguf, key);

    *n_items = 0;
    if (entry == NULL)
        return NULL;
    if (entry->type != SLUICE_GGUF_ARRAY || entry->item_type == SLUICE_GGUF_STRING) {
        set_kind_error(error, entry, "array of numbers");
        prefix_path(error, gguf);
        return NULL;
    }
    float *items = alloc_items(gguf, key, entry->n_items, sizeof *items, error);
    if (items == NULL)
        return NULL;
    size_t item_bytes = sluice_gguf_type_bytes(entry->item_type);
    for (uint64_t i = 0; i < entry->n_items; i++)
        items[i] = (float) load_number(entry->item_type, entry->data + i * item_bytes).real;
    *n_items = entry->n_items;
    return items;
}

/**
 * sluice_gguf_string_array:
 * @gguf: a model
 * @key: a metadata key
 * @n_items: (out): length of the array
 * @error: return location, or %NULL
 *
 * Returns: (transfer full) (nullable): the strings of an array; the vector is the caller's, the
 *   bytes stay in the mapping. %NULL as for sluice_gguf_int_array()
 * Since: 0.1
 */
SluiceGgufString *
sluice_gguf_string_array(const SluiceGguf *gguf, const char *key, size_t *n_items, GError **error)
{
    const SluiceGgufEntry *entry = sluice_gguf_find(gguf, key);

    *n_items = 0;
    if (entry == NULL)
        return NULL;
    if (entry->type != SLUICE_GGUF_ARRAY || entry->item_type != SLUICE_GGUF_STRING) {
        set_kind_error(error, entry, "array of strings");
        prefix_path(error, gguf);
        return NULL;
    }
    SluiceGgufString *items = alloc_items(gguf, key, entry->n_items, sizeof *items, error);
    if (items == NULL)
        return NULL;
    const uint8_t *data = entry->data;
    for (uint64_t i = 0; i < entry->n_items; i++)
        items[i] = sluice_gguf_next_string(&data);
    *n_items = entry->n_items;
    return items;
}
