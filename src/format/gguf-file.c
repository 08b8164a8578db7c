/* SPDX-License-Identifier: MIT */
/*
 * One file of a model: opened, mapped, its metadata and tensor table read and checked in the order
 * in which they stand. Nothing here believes a number before it has been held against the bytes
 * that are left. Sets of files are gguf-split.c's, values are gguf-value.c's.
 * Source: the GGUF format description, versions 2 and 3.
 */
#include "config.h"

#include "src/format/gguf-private.h"

#include "src/core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 24,
    MIN_ENTRY_BYTES = 8 + 4 + 1,          /* key length, type, a one-byte value */
    MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8, /* name length, n_dims, one dimension, type, offset */
};

/* Where reading stands. pos <= file->n_bytes always. */
typedef struct {
    const SluiceGgufFile *file;
    uint64_t pos;
} Cursor;

static void set_format_error(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void
set_format_error(GError **error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    g_autofree char *message = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error_literal(error, SLUICE_ERROR, SLUICE_ERROR_FORMAT, message);
}

/* ---- reading ---------------------------------------------------------------------------- */

static uint64_t
bytes_left(const Cursor *cursor)
{
    return cursor->file->n_bytes - cursor->pos;
}

static const uint8_t *
take(Cursor *cursor, uint64_t n_bytes, const char *what, GError **error)
{
    const uint8_t *p = cursor->file->data + cursor->pos;

    if (n_bytes > bytes_left(cursor)) {
        set_format_error(error,
                         "file is truncated: needed %" PRIu64 " bytes at offset %" PRIu64
                         " while reading %s, only %" PRIu64 " left",
                         n_bytes, cursor->pos, what, bytes_left(cursor));
        return NULL;
    }
    cursor->pos += n_bytes;
    return p;
}

static gboolean
take_u32(Cursor *cursor, const char *what, uint32_t *value, GError **error)
{
    const uint8_t *p = take(cursor, sizeof *value, what, error);

    if (p == NULL)
        return FALSE;
    *value = sluice_gguf_load_u32(p);
    return TRUE;
}

static gboolean
take_u64(Cursor *cursor, const char *what, uint64_t *value, GError **error)
{
    const uint8_t *p = take(cursor, sizeof *value, what, error);

    if (p == NULL)
        return FALSE;
    *value = sluice_gguf_load_u64(p);
    return TRUE;
}

static gboolean
take_string(Cursor *cursor, const char *what, uint64_t max_bytes, SluiceGgufString *string,
            GError **error)
{
    uint64_t at = cursor->pos;
    uint64_t n_bytes;

    if (!take_u64(cursor, what, &n_bytes, error))
        return FALSE;
    if (n_bytes > max_bytes) {
        set_format_error(error,
                         "corrupt metadata: string length %" PRIu64 " at offset %" PRIu64
                         " exceeds the limit of %" PRIu64 " for %s",
                         n_bytes, at, max_bytes, what);
        return FALSE;
    }
    if (n_bytes > bytes_left(cursor)) {
        set_format_error(error,
                         "corrupt metadata: string length %" PRIu64 " at offset %" PRIu64
                         " exceeds the %" PRIu64 " bytes left in the file, while reading %s",
                         n_bytes, at, bytes_left(cursor), what);
        return FALSE;
    }
    string->data = (const char *) cursor->file->data + cursor->pos;
    string->n_bytes = n_bytes;
    cursor->pos += n_bytes;
    return TRUE;
}

/* ---- the header ------------------------------------------------------------------------- */

/* What people hand us instead of a model, told by how it begins. */
static const char *
name_foreign_file(const uint8_t *data)
{
    static const struct {
        const char *start;
        const char *what;
    } kinds[] = {
        {"ggml", "legacy GGML file; convert it to GGUF"},
        {"lmgg", "legacy GGML file; convert it to GGUF"},
        {"ggmf", "legacy GGML file; convert it to GGUF"},
        {"fmgg", "legacy GGML file; convert it to GGUF"},
        {"ggjt", "legacy GGML file; convert it to GGUF"},
        {"tjgg", "legacy GGML file; convert it to GGUF"},
        {"PK\x03\x04", "this is a PyTorch/zip archive"},
        {"version https://git-lfs", "this is a Git-LFS pointer, the real file was not downloaded"},
        {"{", "this looks like safetensors or JSON"},
        {"<!DO", "this is an HTML page, the download failed"},
        {"<!do", "this is an HTML page, the download failed"},
        {"<htm", "this is an HTML page, the download failed"},
        {"<HTM", "this is an HTML page, the download failed"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (strncmp((const char *) data, kinds[i].start, strlen(kinds[i].start)) == 0)
            return kinds[i].what;
    }
    /* A safetensors file begins with the length of its JSON header. */
    if (memcmp(data + 8, "{\"", 2) == 0)
        return "this looks like safetensors";
    return NULL;
}

static gboolean
check_magic(const SluiceGgufFile *file, GError **error)
{
    const uint8_t *magic = file->data;
    const char *what;
    bool is_printable = true;

    if (memcmp(magic, "GGUF", 4) == 0)
        return TRUE;
    what = name_foreign_file(magic);
    for (int i = 0; i < 4; i++)
        is_printable = is_printable && g_ascii_isprint(magic[i]);
    g_autofree char *shown = is_printable ? g_strdup_printf("'%.4s'", (const char *) magic)
                                          : g_strdup_printf("%02x %02x %02x %02x", magic[0],
                                                            magic[1], magic[2], magic[3]);
    set_format_error(error, "not a GGUF file (magic is %s, expected 'GGUF')%s%s", shown,
                     what != NULL ? ": " : "", what != NULL ? what : "");
    return FALSE;
}

static gboolean
check_version(uint32_t version, GError **error)
{
    /* A file of the other byte order reads as 2 or 3 shifted up by 24 bits. */
    if ((version & 0xffff) == 0) {
        set_format_error(error, "file has the wrong byte order for this machine");
        return FALSE;
    }
    if (version == 1) {
        set_format_error(error, "GGUF v1 is no longer supported; re-convert the model");
        return FALSE;
    }
    if (version > 3) {
        set_format_error(error,
                         "GGUF version %" PRIu32 " is newer than supported (3); update the program",
                         version);
        return FALSE;
    }
    return TRUE;
}

static gboolean
check_counts(const Cursor *cursor, uint64_t n_tensors, uint64_t n_entries, GError **error)
{
    uint64_t left = bytes_left(cursor);

    if (n_entries > left / MIN_ENTRY_BYTES || n_tensors > left / MIN_TENSOR_BYTES) {
        set_format_error(error,
                         "corrupt header: %" PRIu64 " tensors / %" PRIu64
                         " metadata entries cannot fit in %" PRIu64 " bytes",
                         n_tensors, n_entries, left);
        return FALSE;
    }
    if (n_entries > SLUICE_GGUF_MAX_RECORDS || n_tensors > SLUICE_GGUF_MAX_RECORDS) {
        set_format_error(error,
                         "corrupt header: %" PRIu64 " tensors / %" PRIu64
                         " metadata entries exceed the limit of %u",
                         n_tensors, n_entries, SLUICE_GGUF_MAX_RECORDS);
        return FALSE;
    }
    return TRUE;
}

/* ---- metadata --------------------------------------------------------------------------- */

static char *
printable_key(const SluiceGgufEntry *entry)
{
    return sluice_error_printable(entry->key.data, entry->key.n_bytes);
}

/* Strings are of any length, so the only way past an array of them is through it. */
static gboolean
skip_strings(Cursor *cursor, const SluiceGgufEntry *entry, GError **error)
{
    SluiceGgufString string;

    for (uint64_t i = 0; i < entry->n_items; i++) {
        if (!take_string(cursor, "an array of strings", SLUICE_GGUF_MAX_STRING, &string, error)) {
            g_autofree char *key = printable_key(entry);
            g_prefix_error(error, "key '%s', item %" PRIu64 ": ", key, i);
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean
read_array(Cursor *cursor, SluiceGgufEntry *entry, GError **error)
{
    uint32_t item_type;
    uint64_t n_bytes;

    if (!take_u32(cursor, "an array's type", &item_type, error) ||
        !take_u64(cursor, "an array's length", &entry->n_items, error))
        return FALSE;
    if (item_type == SLUICE_GGUF_ARRAY) {
        g_autofree char *key = printable_key(entry);
        set_format_error(error, "key '%s': nested arrays are not supported", key);
        return FALSE;
    }
    if (item_type > SLUICE_GGUF_F64) {
        g_autofree char *key = printable_key(entry);
        set_format_error(error, "key '%s' has unknown value type %" PRIu32 " in its array", key,
                         item_type);
        return FALSE;
    }
    entry->item_type = (SluiceGgufType) item_type;
    entry->data = cursor->file->data + cursor->pos;

    bool is_string = item_type == SLUICE_GGUF_STRING;
    size_t item_bytes = is_string ? sizeof(uint64_t) : sluice_gguf_type_bytes(entry->item_type);
    if (entry->n_items > SLUICE_GGUF_MAX_ITEMS ||
        __builtin_mul_overflow(entry->n_items, (uint64_t) item_bytes, &n_bytes) ||
        n_bytes > bytes_left(cursor)) {
        g_autofree char *key = printable_key(entry);
        set_format_error(error,
                         "key '%s': array of %" PRIu64
                         " elements does not fit in the file (%" PRIu64
                         " bytes left, limit %u elements)",
                         key, entry->n_items, bytes_left(cursor), SLUICE_GGUF_MAX_ITEMS);
        return FALSE;
    }
    if (is_string)
        return skip_strings(cursor, entry, error);
    cursor->pos += n_bytes;
    return TRUE;
}

static gboolean
read_value(Cursor *cursor, SluiceGgufEntry *entry, GError **error)
{
    SluiceGgufString string;

    entry->item_type = entry->type;
    entry->n_items = 1;
    if (entry->type == SLUICE_GGUF_ARRAY)
        return read_array(cursor, entry, error);
    if (entry->type == SLUICE_GGUF_STRING) {
        entry->data = cursor->file->data + cursor->pos;
        return take_string(cursor, "a string value", SLUICE_GGUF_MAX_STRING, &string, error);
    }
    entry->data = take(cursor, sluice_gguf_type_bytes(entry->type), "a metadata value", error);
    return entry->data != NULL;
}

static gboolean
read_entry(Cursor *cursor, size_t entry_idx, SluiceGgufEntry *entry, GError **error)
{
    uint32_t type;

    if (!take_string(cursor, "a metadata key", SLUICE_GGUF_MAX_KEY, &entry->key, error)) {
        g_prefix_error(error, "metadata entry #%zu: ", entry_idx);
        return FALSE;
    }
    if (entry->key.n_bytes == 0) {
        set_format_error(error, "metadata key #%zu is empty", entry_idx);
        return FALSE;
    }
    if (!take_u32(cursor, "a value type", &type, error))
        return FALSE;
    if (type > SLUICE_GGUF_F64) {
        g_autofree char *key = printable_key(entry);
        set_format_error(error, "key '%s' has unknown value type %" PRIu32, key, type);
        return FALSE;
    }
    entry->type = (SluiceGgufType) type;
    return read_value(cursor, entry, error);
}

static SluiceGgufString
entry_name(const void *items, size_t item_idx)
{
    return ((const SluiceGgufEntry *) items)[item_idx].key;
}

static gboolean
read_entries(Cursor *cursor, SluiceGgufFile *file, GError **error)
{
    file->entries = g_try_new0(SluiceGgufEntry, MAX(file->n_entries, 1));
    if (file->entries == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "not enough memory for %zu metadata entries", file->n_entries);
        return FALSE;
    }
    if (!sluice_gguf_index_init(&file->entry_index, file->n_entries, error))
        return FALSE;
    for (size_t i = 0; i < file->n_entries; i++) {
        if (!read_entry(cursor, i, &file->entries[i], error))
            return FALSE;
        if (!sluice_gguf_index_add(&file->entry_index, i, entry_name, file->entries)) {
            g_autofree char *key = printable_key(&file->entries[i]);
            set_format_error(error, "duplicate metadata key '%s'", key);
            return FALSE;
        }
    }
    return TRUE;
}

/* The entry called @key, or NULL. */
const SluiceGgufEntry *
sluice_gguf_file_find(const SluiceGgufFile *file, const char *key)
{
    SluiceGgufString name = {key, strlen(key)};
    gssize entry_idx = sluice_gguf_index_find(&file->entry_index, name, entry_name, file->entries);

    return entry_idx < 0 ? NULL : &file->entries[entry_idx];
}

static gboolean
read_alignment(SluiceGgufFile *file, GError **error)
{
    const SluiceGgufEntry *entry = sluice_gguf_file_find(file, "general.alignment");

    file->alignment = SLUICE_GGUF_DEFAULT_ALIGNMENT;
    if (entry == NULL)
        return TRUE;
    if (entry->type != SLUICE_GGUF_U32) {
        set_format_error(error, "key 'general.alignment' has type %s, expected u32",
                         sluice_gguf_type_name(entry->type));
        return FALSE;
    }
    file->alignment = sluice_gguf_load_u32(entry->data);
    if (file->alignment == 0 || (file->alignment & (file->alignment - 1)) != 0) {
        set_format_error(error, "general.alignment = %" PRIu32 " is not a power of two",
                         file->alignment);
        return FALSE;
    }
    if (file->alignment > SLUICE_GGUF_MAX_ALIGNMENT) {
        set_format_error(error, "general.alignment = %" PRIu32 " exceeds the limit of %u",
                         file->alignment, SLUICE_GGUF_MAX_ALIGNMENT);
        return FALSE;
    }
    return TRUE;
}

/* ---- the tensor table ------------------------------------------------------------------- */

static const struct {
    uint32_t id;
    const char *name;
} removed_types[] =
    {
        {4, "Q4_2"},      {5, "Q4_3"},        {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
        {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
},
  fork_types[] = {
      {133, "Q6_0"},    {137, "IQ2_K"},  {138, "IQ3_K"},  {139, "IQ4_K"},
      {140, "IQ5_K"},   {141, "IQ6_K"},  {144, "IQ4_KS"}, {145, "IQ2_KS"},
      {146, "IQ4_KSS"}, {152, "IQ5_KS"}, {153, "IQ2_KT"}, {154, "IQ3_KT"},
      {155, "IQ4_KT"},  {156, "IQ3_KS"}, {157, "IQ2_KL"}, {158, "IQ1_KT"},
};

static void
set_type_error(GError **error, const char *tensor, uint32_t type)
{
    const char *name = "a type";

    for (size_t i = 0; i < G_N_ELEMENTS(removed_types); i++) {
        if (removed_types[i].id == type) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                        "tensor '%s' uses removed type %s; re-quantise (use Q4_0)", tensor,
                        removed_types[i].name);
            return;
        }
    }
    if (type == 9 || type == 15) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                    "tensor '%s' uses %s (id %" PRIu32
                    "), which is for activations and not a type of weights",
                    tensor, type == 9 ? "Q8_1" : "Q8_K", type);
        return;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(fork_types); i++) {
        if (fork_types[i].id == type)
            name = fork_types[i].name;
    }
    if ((type >= 97 && type <= 99) || (type >= 133 && type <= 158) ||
        (type >= 200 && type <= 399)) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                    "tensor '%s' uses %s (id %" PRIu32 "), a fork-only quantisation not supported",
                    tensor, name, type);
        return;
    }
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL, "tensor '%s' has unknown type %" PRIu32,
                tensor, type);
}

/* The name goes into storage of ours, terminated; until then it may hold anything. */
static gboolean
read_tensor_name(Cursor *cursor, SluiceGgufFile *file, size_t tensor_idx, const char **name,
                 GError **error)
{
    const uint8_t *p;
    uint64_t n_bytes;

    if (!take_u64(cursor, "a tensor name", &n_bytes, error))
        return FALSE;
    if (n_bytes == 0) {
        set_format_error(error, "tensor name #%zu is empty", tensor_idx);
        return FALSE;
    }
    if (n_bytes > SLUICE_GGUF_MAX_NAME) {
        set_format_error(error, "tensor name #%zu is too long (%" PRIu64 " bytes, limit %u)",
                         tensor_idx, n_bytes, SLUICE_GGUF_MAX_NAME);
        return FALSE;
    }
    p = take(cursor, n_bytes, "a tensor name", error);
    if (p == NULL)
        return FALSE;
    if (memchr(p, 0, n_bytes) != NULL) {
        set_format_error(error, "tensor name #%zu contains a NUL byte", tensor_idx);
        return FALSE;
    }
    *name = g_string_chunk_insert_len(file->names, (const char *) p, (gssize) n_bytes);
    return TRUE;
}

static char *
format_shape(const int64_t *ne, int n_dims)
{
    GString *text = g_string_new("{");

    for (int i = 0; i < n_dims; i++)
        g_string_append_printf(text, "%s%" PRId64, i > 0 ? ", " : "", ne[i]);
    g_string_append_c(text, '}');
    return g_string_free(text, FALSE);
}

static gboolean
read_shape(Cursor *cursor, SluiceGgufTensor *tensor, const char *shown, GError **error)
{
    uint32_t n_dims;
    uint64_t n_elements = 1;
    bool is_valid = true;
    bool has_overflow = false;

    if (!take_u32(cursor, "a tensor's number of dimensions", &n_dims, error))
        return FALSE;
    if (n_dims < 1 || n_dims > 4) {
        set_format_error(error, "tensor '%s' has %" PRIu32 " dimensions (supported: 1-4)", shown,
                         n_dims);
        return FALSE;
    }
    tensor->n_dims = (int) n_dims;
    for (int i = 0; i < 4; i++) {
        uint64_t ne = 1;
        if (i < tensor->n_dims && !take_u64(cursor, "a tensor's shape", &ne, error))
            return FALSE;
        tensor->ne[i] = (int64_t) ne;
        is_valid = is_valid && ne >= 1 && ne <= INT64_MAX;
        has_overflow = has_overflow || __builtin_mul_overflow(n_elements, ne, &n_elements) ||
                       n_elements > INT64_MAX;
    }
    if (!is_valid) {
        g_autofree char *shape = format_shape(tensor->ne, tensor->n_dims);
        set_format_error(error, "tensor '%s': invalid shape %s", shown, shape);
        return FALSE;
    }
    if (has_overflow) {
        g_autofree char *shape = format_shape(tensor->ne, tensor->n_dims);
        set_format_error(error, "tensor '%s': element count overflows, shape %s", shown, shape);
        return FALSE;
    }
    return TRUE;
}

/* From type and shape, both of which the tensor has. */
static gboolean
compute_bytes(SluiceGgufTensor *tensor, const char *shown, GError **error)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(tensor->dtype);
    size_t n_bytes;
    bool has_overflow;

    if (tensor->ne[0] % info->block_len != 0) {
        set_format_error(
            error, "tensor '%s' (%s): row length %" PRId64 " is not a multiple of block size %d",
            shown, info->name, tensor->ne[0], info->block_len);
        return FALSE;
    }
    has_overflow = !sluice_dtype_row_bytes(tensor->dtype, tensor->ne[0], &n_bytes);
    for (int i = 1; i < 4 && !has_overflow; i++)
        has_overflow = __builtin_mul_overflow(n_bytes, tensor->ne[i], &n_bytes);
    if (has_overflow) {
        g_autofree char *shape = format_shape(tensor->ne, tensor->n_dims);
        set_format_error(error, "tensor '%s' is too large: %s of shape %s", shown, info->name,
                         shape);
        return FALSE;
    }
    tensor->n_bytes = n_bytes;
    return TRUE;
}

/* Leaves the offset as the file has it, from the start of the data. */
static gboolean
read_tensor(Cursor *cursor, SluiceGgufFile *file, size_t tensor_idx, GError **error)
{
    SluiceGgufTensor *tensor = &file->tensors[tensor_idx];
    uint32_t type;

    if (!read_tensor_name(cursor, file, tensor_idx, &tensor->name, error))
        return FALSE;
    g_autofree char *shown = sluice_error_printable(tensor->name, -1);
    if (!read_shape(cursor, tensor, shown, error) ||
        !take_u32(cursor, "a tensor's type", &type, error) ||
        !take_u64(cursor, "a tensor's offset", &tensor->offset, error))
        return FALSE;
    tensor->dtype = (SluiceDtype) type;
    if (sluice_dtype_info(tensor->dtype) == NULL) {
        set_type_error(error, shown, type);
        return FALSE;
    }
    if (!compute_bytes(tensor, shown, error))
        return FALSE;
    if (tensor->offset % file->alignment != 0) {
        set_format_error(error, "tensor '%s': offset %" PRIu64 " is not aligned to %" PRIu32, shown,
                         tensor->offset, file->alignment);
        return FALSE;
    }
    return TRUE;
}

/* Makes offsets absolute, and holds every tensor's end against the end of the file. */
static gboolean
place_tensors(SluiceGgufFile *file, uint64_t table_end, GError **error)
{
    const SluiceGgufTensor *last = NULL;
    uint64_t last_end = 0;
    uint64_t mask = file->alignment - 1;

    if (file->n_tensors == 0)
        return TRUE;
    if (__builtin_add_overflow(table_end, mask, &file->data_start)) {
        set_format_error(error, "the tensor table ends at %" PRIu64 ", which is too large",
                         table_end);
        return FALSE;
    }
    file->data_start &= ~mask;
    for (size_t i = 0; i < file->n_tensors; i++) {
        SluiceGgufTensor *tensor = &file->tensors[i];
        uint64_t end;
        if (__builtin_add_overflow(file->data_start, tensor->offset, &tensor->offset) ||
            __builtin_add_overflow(tensor->offset, (uint64_t) tensor->n_bytes, &end)) {
            g_autofree char *shown = sluice_error_printable(tensor->name, -1);
            set_format_error(error, "tensor '%s': offset and %zu bytes exceed any file", shown,
                             tensor->n_bytes);
            return FALSE;
        }
        if (last == NULL || end > last_end) {
            last = tensor;
            last_end = end;
        }
    }
    /* The tensor that ends last says how much is missing in all. */
    if (last_end > file->n_bytes) {
        g_autofree char *shown = sluice_error_printable(last->name, -1);
        set_format_error(
            error,
            "model file is incomplete: tensor '%s' ends at %" PRIu64 " but the file has %" PRIu64
            " bytes (missing %.1f MiB) \xe2\x80\x94 re-download it",
            shown, last_end, file->n_bytes, (double) (last_end - file->n_bytes) / (1 << 20));
        return FALSE;
    }
    for (size_t i = 0; i < file->n_tensors; i++)
        file->tensors[i].data = file->data + file->tensors[i].offset;
    return TRUE;
}

static int
compare_offsets(const void *a, const void *b)
{
    const SluiceGgufTensor *x = *(const SluiceGgufTensor *const *) a;
    const SluiceGgufTensor *y = *(const SluiceGgufTensor *const *) b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

static gboolean
check_overlaps(const SluiceGgufFile *file, GError **error)
{
    g_autofree const SluiceGgufTensor **sorted =
        g_try_new(const SluiceGgufTensor *, MAX(file->n_tensors, 1));

    if (sorted == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "not enough memory to sort %zu tensors", file->n_tensors);
        return FALSE;
    }
    for (size_t i = 0; i < file->n_tensors; i++)
        sorted[i] = &file->tensors[i];
    qsort(sorted, file->n_tensors, sizeof *sorted, compare_offsets);
    for (size_t i = 1; i < file->n_tensors; i++) {
        if (sorted[i]->offset - sorted[i - 1]->offset >= sorted[i - 1]->n_bytes)
            continue;
        g_autofree char *first = sluice_error_printable(sorted[i - 1]->name, -1);
        g_autofree char *second = sluice_error_printable(sorted[i]->name, -1);
        set_format_error(error, "tensors '%s' and '%s' overlap", first, second);
        return FALSE;
    }
    return TRUE;
}

static gboolean
read_tensors(Cursor *cursor, SluiceGgufFile *file, GError **error)
{
    file->names = g_string_chunk_new(4096);
    file->tensors = g_try_new0(SluiceGgufTensor, MAX(file->n_tensors, 1));
    if (file->tensors == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY, "not enough memory for %zu tensors",
                    file->n_tensors);
        return FALSE;
    }
    for (size_t i = 0; i < file->n_tensors; i++) {
        if (!read_tensor(cursor, file, i, error))
            return FALSE;
    }
    return place_tensors(file, cursor->pos, error) && check_overlaps(file, error);
}

/* ---- the whole file --------------------------------------------------------------------- */

static gboolean
read_file(SluiceGgufFile *file, GError **error)
{
    Cursor cursor = {.file = file, .pos = 4};
    uint64_t n_tensors, n_entries;

    if (file->n_bytes < HEADER_BYTES) {
        set_format_error(error, "file is too small to be a GGUF model (%" PRIu64 " bytes)",
                         file->n_bytes);
        return FALSE;
    }
    if (!check_magic(file, error) || !take_u32(&cursor, "the version", &file->version, error) ||
        !check_version(file->version, error) ||
        !take_u64(&cursor, "the tensor count", &n_tensors, error) ||
        !take_u64(&cursor, "the metadata count", &n_entries, error) ||
        !check_counts(&cursor, n_tensors, n_entries, error))
        return FALSE;
    file->n_tensors = n_tensors;
    file->n_entries = n_entries;
    return read_entries(&cursor, file, error) && read_alignment(file, error) &&
           read_tensors(&cursor, file, error);
}

/* A device or a pipe could block for ever or never end, so only regular files are read. */
static gboolean
open_regular(SluiceGgufFile *file, GError **error)
{
    struct stat st;

    file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file->fd < 0 || fstat(file->fd, &st) != 0) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "cannot open model file: %s",
                    g_strerror(errno));
        return FALSE;
    }
    if (!S_ISREG(st.st_mode)) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "cannot open model file: %s",
                    S_ISDIR(st.st_mode) ? g_strerror(EISDIR) : "not a regular file");
        return FALSE;
    }
    file->n_bytes = (uint64_t) st.st_size;
    file->device = st.st_dev;
    file->inode = st.st_ino;
    file->modified = st.st_mtim;
    return TRUE;
}

static gboolean
map_file(SluiceGgufFile *file, GError **error)
{
    void *data;

    if (file->n_bytes < HEADER_BYTES)
        return TRUE; /* read_file() refuses it; an empty file cannot be mapped */
    if (file->n_bytes > SIZE_MAX) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "%" PRIu64 " bytes are more than this machine can address", file->n_bytes);
        return FALSE;
    }
    data = mmap(NULL, file->n_bytes, PROT_READ, MAP_SHARED, file->fd, 0);
    if (data == MAP_FAILED) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY, "cannot map %" PRIu64 " bytes: %s",
                    file->n_bytes, g_strerror(errno));
        return FALSE;
    }
    file->data = data;
    return TRUE;
}

/* Opens, maps and checks one file. */
SluiceGgufFile *
sluice_gguf_file_open(const char *path, GError **error)
{
    g_autoptr(SluiceGgufFile) file = g_new0(SluiceGgufFile, 1);

    file->path = g_strdup(path);
    if (open_regular(file, error) && map_file(file, error) && read_file(file, error))
        return g_steal_pointer(&file);
    g_autofree char *shown = sluice_error_printable(path, -1);
    g_prefix_error(error, "%s: ", shown);
    return NULL;
}

/* The same over bytes that the caller keeps. */
SluiceGgufFile *
sluice_gguf_file_open_bytes(const void *data, size_t n_bytes, GError **error)
{
    g_autoptr(SluiceGgufFile) file = g_new0(SluiceGgufFile, 1);

    file->path = g_strdup("(memory)");
    file->fd = -1;
    file->data = data;
    file->n_bytes = n_bytes;
    if (read_file(file, error))
        return g_steal_pointer(&file);
    g_prefix_error(error, "%s: ", file->path);
    return NULL;
}

void
sluice_gguf_file_free(SluiceGgufFile *file)
{
    if (file == NULL)
        return;
    if (file->fd >= 0) {
        if (file->data != NULL)
            munmap((void *) file->data, file->n_bytes);
        close(file->fd);
    }
    sluice_gguf_index_clear(&file->entry_index);
    g_free(file->entries);
    g_free(file->tensors);
    if (file->names != NULL)
        g_string_chunk_free(file->names);
    g_free(file->path);
    g_free(file);
}
