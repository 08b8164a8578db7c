/* SPDX-License-Identifier: MIT */
/*
 * The GGUF reader: what it gives from a good file, and that nothing in a bad one can make it do
 * anything but say so. Bad files are read out of memory that ends at a page nobody may touch.
 */
#include "config.h"

#include "src/format/gguf-private.h"

#include "src/core/error.h"
#include "tests/gguf_writer.h"
#include "tests/suite.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- help ------------------------------------------------------------------------------- */

/* Bytes whose end is the end of what may be read. */
typedef struct {
    uint8_t *map;
    size_t map_bytes;
    const uint8_t *data;
    size_t n_bytes;
} Guarded;

static Guarded
guard_bytes(const void *data, size_t n_bytes)
{
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    size_t used = (n_bytes + page - 1) / page * page;
    Guarded g = {.map_bytes = used + page, .n_bytes = n_bytes};

    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(g.map != MAP_FAILED);
    ck_assert_int_eq(mprotect(g.map + used, page, PROT_NONE), 0);
    if (n_bytes > 0)
        memcpy(g.map + used - n_bytes, data, n_bytes);
    g.data = g.map + used - n_bytes;
    return g;
}

static void
free_guarded(Guarded *g)
{
    munmap(g->map, g->map_bytes);
}

/* Everything a caller could ask for, so that a sanitizer or the guard page sees it. */
static uint64_t
walk(const SluiceGguf *gguf)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < sluice_gguf_n_entries(gguf); i++) {
        const SluiceGgufEntry *entry = sluice_gguf_entry(gguf, i);
        g_autofree char *key = g_strndup(entry->key.data, entry->key.n_bytes);
        uint64_t u = 0;
        double f = 0;
        bool b = false;
        size_t n_items;
        SluiceGgufString s = {NULL, 0};
        sluice_gguf_uint(gguf, key, UINT64_MAX, &u, NULL);
        sluice_gguf_float(gguf, key, &f, NULL);
        sluice_gguf_bool(gguf, key, &b, NULL);
        sluice_gguf_string(gguf, key, &s, NULL);
        for (size_t j = 0; j < s.n_bytes; j++)
            sum += (uint8_t) s.data[j];
        g_autofree int64_t *ints = sluice_gguf_int_array(gguf, key, &n_items, NULL);
        g_autofree float *floats = sluice_gguf_float_array(gguf, key, &n_items, NULL);
        g_autofree SluiceGgufString *strings = sluice_gguf_string_array(gguf, key, &n_items, NULL);
        for (size_t j = 0; j < n_items; j++) {
            for (size_t k = 0; k < strings[j].n_bytes; k++)
                sum += (uint8_t) strings[j].data[k];
        }
    }
    for (size_t i = 0; i < sluice_gguf_n_tensors(gguf); i++) {
        const SluiceGgufTensor *tensor = sluice_gguf_tensor(gguf, i);
        ck_assert_uint_gt(tensor->n_bytes, 0);
        ck_assert_int_eq(sluice_gguf_tensor_find(gguf, tensor->name), (int64_t) i);
        sum += tensor->data[0] + tensor->data[tensor->n_bytes - 1];
    }
    return sum;
}

/* Opens from memory and walks; the message of the failure, or NULL if it opened. */
static char *
open_memory(const void *data, size_t n_bytes)
{
    Guarded g = guard_bytes(data, n_bytes);
    GError *error = NULL;
    SluiceGguf *gguf = sluice_gguf_open_bytes(g.data, g.n_bytes, &error);
    char *message = NULL;

    if (gguf != NULL) {
        ck_assert_ptr_null(error);
        walk(gguf);
        sluice_gguf_unref(gguf);
    } else {
        ck_assert_ptr_nonnull(error);
        ck_assert(error->domain == SLUICE_ERROR);
        ck_assert(g_str_has_prefix(error->message, "(memory): "));
        message = g_strdup(error->message + strlen("(memory): "));
        g_error_free(error);
    }
    free_guarded(&g);
    return message;
}

static void
assert_refused(const void *data, size_t n_bytes, const char *expected)
{
    g_autofree char *message = open_memory(data, n_bytes);

    ck_assert_msg(message != NULL, "opened, expected: %s", expected);
    ck_assert_str_eq(message, expected);
}

static void
assert_writer_refused(GgufWriter *w, const char *expected)
{
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
    assert_refused(bytes->data, bytes->len, expected);
}

static void
assert_opens(GgufWriter *w)
{
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
    g_autofree char *message = open_memory(bytes->data, bytes->len);
    ck_assert_msg(message == NULL, "%s", message);
}

/* The nth field of a kind, counted from 0. */
static GgufMark
find_mark(const GgufWriter *w, GgufMarkKind kind, int nth)
{
    for (guint i = 0; i < w->marks->len; i++) {
        GgufMark m = g_array_index(w->marks, GgufMark, i);
        if (m.kind == kind && nth-- == 0)
            return m;
    }
    ck_abort_msg("no such field");
    return (GgufMark){0};
}

static void
put_number(uint8_t *data, GgufMark m, uint64_t value)
{
    for (size_t i = 0; i < m.n_bytes; i++)
        data[m.at + i] = (uint8_t) (value >> (8 * i));
}

static void
assert_patch_refused(GgufWriter *w, GgufMarkKind kind, int nth, uint64_t value,
                     const char *expected)
{
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
    put_number(bytes->data, find_mark(w, kind, nth), value);
    assert_refused(bytes->data, bytes->len, expected);
}

/* A file with a value of every type and tensors of several, and no byte too many. */
static GgufWriter *
new_small_file(void)
{
    static const uint8_t u8s[] = {1, 2, 255};
    static const int32_t i32s[] = {-1, 0, INT32_MAX};
    static const float f32s[] = {0.5f, -2, 1e30f};
    GgufWriter *w = gguf_writer_new();

    gguf_writer_string(w, "general.architecture", "llama");
    gguf_writer_u8(w, "u8", 200);
    gguf_writer_i8(w, "i8", -100);
    gguf_writer_u16(w, "u16", 60000);
    gguf_writer_i16(w, "i16", -30000);
    gguf_writer_u32(w, "u32", 4000000000u);
    gguf_writer_i32(w, "i32", -2000000000);
    gguf_writer_u64(w, "u64", UINT64_MAX);
    gguf_writer_i64(w, "i64", INT64_MIN);
    gguf_writer_f32(w, "f32", 1.5f);
    gguf_writer_f64(w, "f64", 1e-300);
    gguf_writer_bool(w, "bool", true);
    gguf_writer_string(w, "empty", "");
    gguf_writer_array(w, "array.u8", SLUICE_GGUF_U8, 3, u8s, sizeof u8s);
    gguf_writer_array(w, "array.i32", SLUICE_GGUF_I32, 3, i32s, sizeof i32s);
    gguf_writer_array(w, "array.f32", SLUICE_GGUF_F32, 3, f32s, sizeof f32s);
    gguf_writer_array(w, "array.none", SLUICE_GGUF_F64, 0, "", 0);
    gguf_writer_strings(w, "array.string", 3);
    gguf_writer_item(w, "one", -1);
    gguf_writer_item(w, "", -1);
    gguf_writer_item(w, "t\0wo", 4);
    gguf_writer_tensor(w, "a.weight", SLUICE_DTYPE_F32, 1, (const int64_t[]){5});
    gguf_writer_tensor(w, "b.weight", SLUICE_DTYPE_Q4_K, 2, (const int64_t[]){512, 3});
    gguf_writer_tensor(w, "c.weight", SLUICE_DTYPE_Q8_0, 3, (const int64_t[]){32, 2, 2});
    gguf_writer_tensor(w, "d.weight", SLUICE_DTYPE_F16, 4, (const int64_t[]){3, 1, 2, 2});
    return w;
}

/* ---- good files ------------------------------------------------------------------------- */

START_TEST(a_good_file_gives_what_was_written)
{
    g_autoptr(GgufWriter) w = new_small_file();
    w->version = (uint32_t) _i;
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open_bytes(bytes->data, bytes->len, &error);
    const SluiceGgufTensor *t;

    ck_assert_msg(gguf != NULL, "%s", error ? error->message : "");
    walk(gguf);
    ck_assert_uint_eq(sluice_gguf_version(gguf), _i);
    ck_assert_uint_eq(sluice_gguf_n_entries(gguf), w->n_kv);
    ck_assert_uint_eq(sluice_gguf_n_tensors(gguf), 4);
    ck_assert_int_eq(sluice_gguf_n_files(gguf), 1);
    ck_assert_int_eq(sluice_gguf_tensor_find(gguf, "nothing"), -1);
    ck_assert_int_eq(sluice_gguf_tensor_find(gguf, ""), -1);

    t = sluice_gguf_tensor(gguf, 1);
    ck_assert_str_eq(t->name, "b.weight");
    ck_assert_int_eq(t->dtype, SLUICE_DTYPE_Q4_K);
    ck_assert_int_eq(t->n_dims, 2);
    ck_assert_int_eq(t->ne[0], 512);
    ck_assert_int_eq(t->ne[1], 3);
    ck_assert_int_eq(t->ne[2], 1);
    ck_assert_int_eq(t->ne[3], 1);
    ck_assert_uint_eq(t->n_bytes, 2 * 144 * 3);
    ck_assert_int_eq(t->file_idx, 0);
    ck_assert_uint_eq(t->offset % 32, 0);
    ck_assert_ptr_eq(t->data, bytes->data + t->offset);
    t = sluice_gguf_tensor(gguf, 3);
    ck_assert_int_eq(t->n_dims, 4);
    ck_assert_uint_eq(t->n_bytes, 3 * 2 * 2 * 2);
    ck_assert_uint_eq(t->offset + t->n_bytes, bytes->len);
}
END_TEST

START_TEST(a_file_without_tensors_or_metadata_opens)
{
    g_autoptr(GgufWriter) empty = gguf_writer_new();
    g_autoptr(GgufWriter) vocabulary = gguf_writer_new();

    assert_opens(empty);
    gguf_writer_string(vocabulary, "general.architecture", "llama");
    assert_opens(vocabulary);
}
END_TEST

START_TEST(alignment_moves_the_data)
{
    static const uint32_t alignments[] = {1, 2, 8, 64, 4096, 1 << 20};

    for (size_t i = 0; i < G_N_ELEMENTS(alignments); i++) {
        g_autoptr(GgufWriter) w = gguf_writer_new();
        gguf_writer_alignment(w, alignments[i]);
        gguf_writer_tensor(w, "a", SLUICE_DTYPE_I8, 1, (const int64_t[]){3});
        gguf_writer_tensor(w, "b", SLUICE_DTYPE_I8, 1, (const int64_t[]){3});
        g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
        g_autoptr(SluiceGguf) gguf = sluice_gguf_open_bytes(bytes->data, bytes->len, NULL);
        ck_assert_ptr_nonnull(gguf);
        ck_assert_uint_eq(sluice_gguf_tensor(gguf, 1)->offset % alignments[i], 0);
        ck_assert_uint_eq(sluice_gguf_tensor(gguf, 1)->offset + 3, bytes->len);
    }
}
END_TEST

START_TEST(many_names_are_all_found)
{
    g_autoptr(GgufWriter) w = gguf_writer_new();
    enum { N = 3000 };

    for (int i = 0; i < N; i++) {
        g_autofree char *name = g_strdup_printf("blk.%d.weight", i);
        gguf_writer_u32(w, name, (uint32_t) i);
        gguf_writer_tensor(w, name, SLUICE_DTYPE_I8, 1, (const int64_t[]){1});
    }
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open_bytes(bytes->data, bytes->len, NULL);
    ck_assert_ptr_nonnull(gguf);
    for (int i = 0; i < N; i++) {
        g_autofree char *name = g_strdup_printf("blk.%d.weight", i);
        uint64_t value = 0;
        ck_assert_int_eq(sluice_gguf_tensor_find(gguf, name), i);
        ck_assert(sluice_gguf_uint(gguf, name, N, &value, NULL));
        ck_assert_uint_eq(value, (uint64_t) i);
    }
    ck_assert_int_eq(sluice_gguf_tensor_find(gguf, "blk.3000.weight"), -1);
}
END_TEST

START_TEST(offsets_need_not_follow_the_table)
{
    g_autoptr(GgufWriter) w = gguf_writer_new();

    gguf_writer_tensor(w, "a", SLUICE_DTYPE_F32, 1, (const int64_t[]){8});
    gguf_writer_tensor(w, "b", SLUICE_DTYPE_F32, 1, (const int64_t[]){8});
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
    put_number(bytes->data, find_mark(w, GGUF_MARK_OFFSET, 0), 32);
    put_number(bytes->data, find_mark(w, GGUF_MARK_OFFSET, 1), 0);
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open_bytes(bytes->data, bytes->len, NULL);
    ck_assert_ptr_nonnull(gguf);
    ck_assert_ptr_eq(sluice_gguf_tensor(gguf, 0)->data, sluice_gguf_tensor(gguf, 1)->data + 32);
}
END_TEST

/* ---- values ----------------------------------------------------------------------------- */

static SluiceGguf *
open_small_file(GByteArray **bytes)
{
    g_autoptr(GgufWriter) w = new_small_file();
    SluiceGguf *gguf;

    *bytes = gguf_writer_bytes(w);
    gguf = sluice_gguf_open_bytes((*bytes)->data, (*bytes)->len, NULL);
    ck_assert_ptr_nonnull(gguf);
    return gguf;
}

START_TEST(integers_of_every_width_are_taken_if_they_fit)
{
    static const struct {
        const char *key;
        uint64_t max;
        uint64_t expected;
        const char *message; /* NULL: it is taken */
    } cases[] = {
        {"u8", 200, 200, NULL},
        {"u8", 199, 0, "key 'u8' is 200, expected an integer from 0 to 199"},
        {"i8", 1000, 0, "key 'i8' is -100, expected an integer from 0 to 1000"},
        {"u16", UINT16_MAX, 60000, NULL},
        {"i16", 1000, 0, "key 'i16' is -30000, expected an integer from 0 to 1000"},
        {"u32", UINT32_MAX, 4000000000u, NULL},
        {"u32", INT32_MAX, 0, "key 'u32' is 4000000000, expected an integer from 0 to 2147483647"},
        {"i32", 1000, 0, "key 'i32' is -2000000000, expected an integer from 0 to 1000"},
        {"u64", UINT64_MAX, UINT64_MAX, NULL},
        {"u64", INT64_MAX, 0,
         "key 'u64' is 18446744073709551615, expected an integer from 0 to 9223372036854775807"},
        {"i64", UINT64_MAX, 0,
         "key 'i64' is -9223372036854775808, expected an integer from 0 to "
         "18446744073709551615"},
        {"bool", 1, 1, NULL},
        {"f32", 10, 0, "key 'f32' is 1.5, expected an integer from 0 to 10"},
        {"f64", 10, 0, "key 'f64' is 1e-300, expected an integer from 0 to 10"},
        {"empty", 10, 0, "key 'empty' has type string, expected an integer"},
        {"array.i32", 10, 0, "key 'array.i32' has type array of i32, expected an integer"},
        {"absent", 10, 77, NULL},
    };
    g_autoptr(GByteArray) bytes = NULL;
    g_autoptr(SluiceGguf) gguf = open_small_file(&bytes);

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        uint64_t value = 77;
        bool is_taken = sluice_gguf_uint(gguf, cases[i].key, cases[i].max, &value, &error);
        ck_assert_int_eq(is_taken, cases[i].message == NULL);
        ck_assert_uint_eq(value, is_taken ? cases[i].expected : 77);
        if (!is_taken) {
            ck_assert_str_eq(error->message + strlen("(memory): "), cases[i].message);
            ck_assert(g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_FORMAT));
        }
    }
}
END_TEST

START_TEST(whole_floats_count_as_integers)
{
    static const struct {
        double value;
        bool is_taken;
    } cases[] = {{0, true},
                 {7, true},
                 {-0.0, true},
                 {4294967296.0, true},
                 {0.5, false},
                 {-1, false},
                 {1e300, false},
                 {-1e300, false},
                 {(double) NAN, false},
                 {(double) INFINITY, false},
                 {9007199254740992.0, true}};

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GgufWriter) w = gguf_writer_new();
        gguf_writer_f64(w, "n", cases[i].value);
        g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
        g_autoptr(SluiceGguf) gguf = sluice_gguf_open_bytes(bytes->data, bytes->len, NULL);
        uint64_t value = 1;
        ck_assert_int_eq(sluice_gguf_uint(gguf, "n", UINT64_MAX, &value, NULL), cases[i].is_taken);
        if (cases[i].is_taken)
            ck_assert_uint_eq(value, (uint64_t) cases[i].value);
    }
}
END_TEST

START_TEST(floats_bools_and_strings_are_typed)
{
    g_autoptr(GByteArray) bytes = NULL;
    g_autoptr(SluiceGguf) gguf = open_small_file(&bytes);
    g_autoptr(GError) error = NULL;
    double number = 0;
    bool flag = false;
    SluiceGgufString text = {NULL, 7};

    ck_assert(sluice_gguf_float(gguf, "f32", &number, &error) && number == 1.5);
    ck_assert(sluice_gguf_float(gguf, "f64", &number, &error) && number == 1e-300);
    ck_assert(sluice_gguf_float(gguf, "i8", &number, &error) && number == -100);
    ck_assert(sluice_gguf_float(gguf, "absent", &number, &error) && number == -100);
    ck_assert(!sluice_gguf_float(gguf, "empty", &number, &error) && number == -100);
    ck_assert_str_eq(error->message, "(memory): key 'empty' has type string, expected a number");
    g_clear_error(&error);

    ck_assert(sluice_gguf_bool(gguf, "bool", &flag, &error) && flag);
    flag = false;
    ck_assert(sluice_gguf_bool(gguf, "i64", &flag, &error) && flag);
    ck_assert(!sluice_gguf_bool(gguf, "f32", &flag, &error));
    ck_assert_str_eq(error->message, "(memory): key 'f32' has type f32, expected bool");
    g_clear_error(&error);

    ck_assert(sluice_gguf_string(gguf, "general.architecture", &text, &error));
    ck_assert_uint_eq(text.n_bytes, 5);
    ck_assert(memcmp(text.data, "llama", 5) == 0);
    ck_assert(sluice_gguf_string(gguf, "empty", &text, &error) && text.n_bytes == 0);
    ck_assert(!sluice_gguf_string(gguf, "array.string", &text, &error));
    ck_assert_str_eq(error->message,
                     "(memory): key 'array.string' has type array of string, expected string");
    g_clear_error(&error);

    ck_assert(sluice_gguf_require(gguf, "u8", &error));
    ck_assert(!sluice_gguf_require(gguf, "llama.block_count", &error));
    ck_assert_str_eq(error->message, "(memory): missing metadata key 'llama.block_count'");
}
END_TEST

START_TEST(a_float_that_is_not_finite_is_refused)
{
    g_autoptr(GgufWriter) w = gguf_writer_new();
    g_autoptr(GError) error = NULL;
    double number = 3;

    gguf_writer_f32(w, "eps", NAN);
    gguf_writer_f64(w, "inf", -(double) INFINITY);
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open_bytes(bytes->data, bytes->len, NULL);
    ck_assert(!sluice_gguf_float(gguf, "eps", &number, NULL));
    ck_assert(!sluice_gguf_float(gguf, "inf", &number, &error));
    ck_assert_str_eq(error->message, "(memory): key 'inf' is -inf, expected a finite number");
    ck_assert(number == 3);
}
END_TEST

START_TEST(arrays_are_converted_whole)
{
    g_autoptr(GByteArray) bytes = NULL;
    g_autoptr(SluiceGguf) gguf = open_small_file(&bytes);
    g_autoptr(GError) error = NULL;
    size_t n_items = 9;

    g_autofree int64_t *small = sluice_gguf_int_array(gguf, "array.u8", &n_items, &error);
    ck_assert_uint_eq(n_items, 3);
    ck_assert(small[0] == 1 && small[1] == 2 && small[2] == 255);
    g_autofree int64_t *ints = sluice_gguf_int_array(gguf, "array.i32", &n_items, &error);
    ck_assert_uint_eq(n_items, 3);
    ck_assert(ints[0] == -1 && ints[1] == 0 && ints[2] == INT32_MAX);
    g_autofree float *floats = sluice_gguf_float_array(gguf, "array.f32", &n_items, &error);
    ck_assert_uint_eq(n_items, 3);
    ck_assert(floats[0] == 0.5f && floats[1] == -2 && floats[2] == 1e30f);
    g_autofree float *none = sluice_gguf_float_array(gguf, "array.none", &n_items, &error);
    ck_assert(none != NULL && n_items == 0);
    g_autofree SluiceGgufString *strings =
        sluice_gguf_string_array(gguf, "array.string", &n_items, &error);
    ck_assert_uint_eq(n_items, 3);
    ck_assert(strings[0].n_bytes == 3 && strings[1].n_bytes == 0 && strings[2].n_bytes == 4);
    ck_assert(memcmp(strings[2].data, "t\0wo", 4) == 0);
    ck_assert_ptr_null(error);

    ck_assert_ptr_null(sluice_gguf_int_array(gguf, "absent", &n_items, &error));
    ck_assert(error == NULL && n_items == 0);
    ck_assert_ptr_null(sluice_gguf_int_array(gguf, "array.f32", &n_items, &error));
    ck_assert_str_eq(error->message,
                     "(memory): key 'array.f32' has type array of f32, expected array of integers");
    g_clear_error(&error);
    ck_assert_ptr_null(sluice_gguf_int_array(gguf, "u8", &n_items, &error));
    ck_assert_str_eq(error->message, "(memory): key 'u8' has type u8, expected array of integers");
    g_clear_error(&error);
    ck_assert_ptr_null(sluice_gguf_float_array(gguf, "array.string", &n_items, &error));
    ck_assert_ptr_nonnull(error);
    g_clear_error(&error);
    ck_assert_ptr_null(sluice_gguf_string_array(gguf, "array.u8", &n_items, &error));
    ck_assert_ptr_nonnull(error);
}
END_TEST

START_TEST(an_integer_beyond_63_bits_is_refused_in_an_array)
{
    static const uint64_t items[] = {1, 1ull << 63};
    static const int64_t least[] = {INT64_MIN, INT64_MAX};
    g_autoptr(GgufWriter) w = gguf_writer_new();
    g_autoptr(GError) error = NULL;
    size_t n_items;

    gguf_writer_array(w, "a", SLUICE_GGUF_U64, 2, items, sizeof items);
    gguf_writer_array(w, "b", SLUICE_GGUF_I64, 2, least, sizeof least);
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open_bytes(bytes->data, bytes->len, NULL);
    ck_assert_ptr_null(sluice_gguf_int_array(gguf, "a", &n_items, &error));
    ck_assert_str_eq(error->message, "(memory): key 'a', item 1 is 9223372036854775808, limit "
                                     "9223372036854775807");
    g_autofree int64_t *b = sluice_gguf_int_array(gguf, "b", &n_items, NULL);
    ck_assert(b != NULL && b[0] == INT64_MIN && b[1] == INT64_MAX);
}
END_TEST

/* ---- the checklist: header -------------------------------------------------------------- */

START_TEST(foreign_files_are_named)
{
    static const struct {
        const char *start;
        const char *message;
    } cases[] = {
        {"GGUX", "not a GGUF file (magic is 'GGUX', expected 'GGUF')"},
        {"\x7f"
         "ELF",
         "not a GGUF file (magic is 7f 45 4c 46, expected 'GGUF')"},
        {"\x1b[2J", "not a GGUF file (magic is 1b 5b 32 4a, expected 'GGUF')"},
        {"FUGG", "not a GGUF file (magic is 'FUGG', expected 'GGUF')"},
        {"ggml", "not a GGUF file (magic is 'ggml', expected 'GGUF'): legacy GGML file; convert "
                 "it to GGUF"},
        {"fmgg", "not a GGUF file (magic is 'fmgg', expected 'GGUF'): legacy GGML file; convert "
                 "it to GGUF"},
        {"tjgg", "not a GGUF file (magic is 'tjgg', expected 'GGUF'): legacy GGML file; convert "
                 "it to GGUF"},
        {"PK\x03\x04", "not a GGUF file (magic is 50 4b 03 04, expected 'GGUF'): this is a "
                       "PyTorch/zip archive"},
        {"version https://git-lfs.github.com/spec/v1",
         "not a GGUF file (magic is 'vers', expected 'GGUF'): this is a Git-LFS pointer, the real "
         "file was not downloaded"},
        {"version 1 of something else", "not a GGUF file (magic is 'vers', expected 'GGUF')"},
        {"{\"a\": 1}", "not a GGUF file (magic is '{\"a\"', expected 'GGUF'): this looks like "
                       "safetensors or JSON"},
        {"<!DOCTYPE html>", "not a GGUF file (magic is '<!DO', expected 'GGUF'): this is an HTML "
                            "page, the download failed"},
        {"<html>", "not a GGUF file (magic is '<htm', expected 'GGUF'): this is an HTML page, the "
                   "download failed"},
    };
    static const char safetensors[64] = {0x38, 0, 0, 0, 0, 0, 0, 0, '{', '"'};

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char data[64] = {0};
        memcpy(data, cases[i].start, strlen(cases[i].start));
        assert_refused(data, sizeof data, cases[i].message);
        /* Shortest that is looked at. */
        if (strlen(cases[i].start) <= 24)
            assert_refused(data, 24, cases[i].message);
    }
    assert_refused(safetensors, sizeof safetensors,
                   "not a GGUF file (magic is 38 00 00 00, expected 'GGUF'): this looks like "
                   "safetensors");
}
END_TEST

START_TEST(files_shorter_than_a_header_are_refused)
{
    static const uint8_t data[24] = "GGUF\3";

    for (size_t n = 0; n < 24; n++) {
        g_autofree char *expected =
            g_strdup_printf("file is too small to be a GGUF model (%zu bytes)", n);
        assert_refused(data, n, expected);
    }
    ck_assert_ptr_null(open_memory(data, 24));
}
END_TEST

START_TEST(versions_but_2_and_3_are_refused)
{
    static const struct {
        uint32_t version;
        const char *message;
    } cases[] = {
        {0, "file has the wrong byte order for this machine"},
        {0x02000000, "file has the wrong byte order for this machine"},
        {0x03000000, "file has the wrong byte order for this machine"},
        {0x00010000, "file has the wrong byte order for this machine"},
        {1, "GGUF v1 is no longer supported; re-convert the model"},
        {4, "GGUF version 4 is newer than supported (3); update the program"},
        {UINT32_MAX, "GGUF version 4294967295 is newer than supported (3); update the program"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GgufWriter) w = new_small_file();
        w->version = cases[i].version;
        assert_writer_refused(w, cases[i].message);
    }
}
END_TEST

START_TEST(counts_are_held_against_the_file)
{
    static const uint64_t values[] = {3,          INT32_MAX,  1ull << 31,
                                      UINT32_MAX, 1ull << 32, (1ull << 32) + 1,
                                      INT64_MAX,  1ull << 63, UINT64_MAX};

    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        for (int nth = 0; nth < 2; nth++) {
            uint8_t data[24 + 25] = "GGUF\3";
            GgufMark m = {GGUF_MARK_COUNT, nth == 0 ? 8 : 16, 8};
            put_number(data, m, values[i]);
            g_autofree char *expected =
                g_strdup_printf("corrupt header: %" G_GUINT64_FORMAT " tensors / %" G_GUINT64_FORMAT
                                " metadata entries cannot fit in 25 bytes",
                                nth == 0 ? values[i] : 0, nth == 0 ? 0 : values[i]);
            assert_refused(data, sizeof data, expected);
        }
    }
}
END_TEST

START_TEST(counts_have_a_limit_in_a_file_of_any_size)
{
    size_t n_bytes = 24 + ((1u << 20) + 1) * 32ul;
    uint8_t *data = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    g_autoptr(GError) error = NULL;

    ck_assert(data != MAP_FAILED);
    memcpy(data, "GGUF\3", 5);
    put_number(data, (GgufMark){GGUF_MARK_COUNT, 8, 8}, (1u << 20) + 1);
    ck_assert_ptr_null(sluice_gguf_open_bytes(data, n_bytes, &error));
    ck_assert_str_eq(error->message, "(memory): corrupt header: 1048577 tensors / 0 metadata "
                                     "entries exceed the limit of 1048576");
    munmap(data, n_bytes);
}
END_TEST

/* ---- the checklist: metadata ------------------------------------------------------------ */

START_TEST(a_string_past_the_end_is_refused_before_it_is_read)
{
    static const uint64_t lengths[] = {1ull << 30, (1ull << 30) - 1, 4};

    for (size_t i = 0; i < G_N_ELEMENTS(lengths); i++) {
        g_autoptr(GgufWriter) w = gguf_writer_new();
        gguf_writer_string(w, "k", "abc");
        /* 24 + key (8 + 1) + type 4: the value's length is at 37. */
        g_autofree char *expected =
            g_strdup_printf("corrupt metadata: string length %" G_GUINT64_FORMAT
                            " at offset 37 exceeds the 3 bytes left in the file, while reading a "
                            "string value",
                            lengths[i]);
        assert_patch_refused(w, GGUF_MARK_LENGTH, 1, lengths[i], expected);
    }
    g_autoptr(GgufWriter) w = gguf_writer_new();
    gguf_writer_string(w, "k", "abc");
    assert_patch_refused(w, GGUF_MARK_LENGTH, 1, UINT64_MAX,
                         "corrupt metadata: string length 18446744073709551615 at offset 37 "
                         "exceeds the limit of 1073741824 for a string value");
    assert_patch_refused(w, GGUF_MARK_LENGTH, 0, 65536,
                         "metadata entry #0: corrupt metadata: string length 65536 at offset 24 "
                         "exceeds the limit of 65535 for a metadata key");
    assert_patch_refused(w, GGUF_MARK_LENGTH, 0, 17,
                         "metadata entry #0: corrupt metadata: string length 17 at offset 24 "
                         "exceeds the 16 bytes left in the file, while reading a metadata key");
}
END_TEST

START_TEST(keys_are_of_any_bytes_but_not_empty_and_not_twice)
{
    g_autoptr(GgufWriter) longest = gguf_writer_new();
    g_autoptr(GgufWriter) empty = gguf_writer_new();
    g_autoptr(GgufWriter) twice = gguf_writer_new();
    g_autoptr(GgufWriter) escape = gguf_writer_new();
    g_autofree char *key = g_strnfill(65535, 'k');

    gguf_writer_u8(longest, key, 1);
    gguf_writer_key(longest, "a\0b", 3, SLUICE_GGUF_BOOL);
    gguf_writer_raw(longest, "\1", 1);
    assert_opens(longest);
    gguf_writer_u8(empty, "first", 1);
    gguf_writer_u8(empty, "", 1);
    assert_writer_refused(empty, "metadata key #1 is empty");
    gguf_writer_u8(twice, "again", 1);
    gguf_writer_string(twice, "between", "");
    gguf_writer_u32(twice, "again", 1);
    assert_writer_refused(twice, "duplicate metadata key 'again'");
    gguf_writer_u8(escape, "\x1b]0;x\x07\r\n", 1);
    gguf_writer_u8(escape, "\x1b]0;x\x07\r\n", 1);
    assert_writer_refused(escape, "duplicate metadata key '\\x1B]0;x\\x07\\x0D\\x0A'");
}
END_TEST

START_TEST(unknown_value_types_are_refused)
{
    g_autoptr(GgufWriter) scalar = gguf_writer_new();
    g_autoptr(GgufWriter) array = gguf_writer_new();

    gguf_writer_u32(scalar, "k", 1);
    assert_patch_refused(scalar, GGUF_MARK_TYPE, 0, 13, "key 'k' has unknown value type 13");
    assert_patch_refused(scalar, GGUF_MARK_TYPE, 0, UINT32_MAX,
                         "key 'k' has unknown value type 4294967295");
    gguf_writer_array(array, "k", SLUICE_GGUF_U8, 4, "abcd", 4);
    assert_patch_refused(array, GGUF_MARK_TYPE, 1, 9, "key 'k': nested arrays are not supported");
    assert_patch_refused(array, GGUF_MARK_TYPE, 1, 13,
                         "key 'k' has unknown value type 13 in its array");
}
END_TEST

START_TEST(an_array_past_the_end_is_refused)
{
    static const struct {
        SluiceGgufType type;
        uint64_t n_items;
    } cases[] = {{SLUICE_GGUF_U8, 25},          {SLUICE_GGUF_U16, 13},
                 {SLUICE_GGUF_U64, 4},          {SLUICE_GGUF_STRING, 4},
                 {SLUICE_GGUF_U32, 1ull << 62}, {SLUICE_GGUF_F64, 1ull << 61},
                 {SLUICE_GGUF_U64, UINT64_MAX}, {SLUICE_GGUF_STRING, 1ull << 61},
                 {SLUICE_GGUF_U8, UINT64_MAX},  {SLUICE_GGUF_BOOL, 1ull << 31}};
    static const uint8_t zeros[24];

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GgufWriter) w = gguf_writer_new();
        gguf_writer_array(w, "k", cases[i].type, cases[i].n_items, zeros, sizeof zeros);
        g_autofree char *expected = g_strdup_printf(
            "key 'k': array of %" G_GUINT64_FORMAT
            " elements does not fit in the file (24 bytes left, limit 1073741824 elements)",
            cases[i].n_items);
        assert_writer_refused(w, expected);
    }
    g_autoptr(GgufWriter) fits = gguf_writer_new();
    gguf_writer_array(fits, "k", SLUICE_GGUF_STRING, 3, zeros, sizeof zeros);
    assert_opens(fits);
}
END_TEST

START_TEST(a_string_inside_an_array_is_checked_by_itself)
{
    g_autoptr(GgufWriter) w = gguf_writer_new();

    gguf_writer_strings(w, "tokens", 2);
    gguf_writer_item(w, "ab", -1);
    gguf_writer_item(w, "cd", -1);
    /* 24 + key (8 + 6) + types 4 + 4 + count 8 + the first item 10 */
    assert_patch_refused(w, GGUF_MARK_LENGTH, 2, 3,
                         "key 'tokens', item 1: corrupt metadata: string length 3 at offset 64 "
                         "exceeds the 2 bytes left in the file, while reading an array of strings");
}
END_TEST

START_TEST(alignment_must_be_a_power_of_two_in_range)
{
    static const struct {
        uint32_t value;
        const char *message;
    } cases[] = {
        {0, "general.alignment = 0 is not a power of two"},
        {3, "general.alignment = 3 is not a power of two"},
        {UINT32_MAX, "general.alignment = 4294967295 is not a power of two"},
        {1u << 31, "general.alignment = 2147483648 exceeds the limit of 1048576"},
        {1u << 21, "general.alignment = 2097152 exceeds the limit of 1048576"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GgufWriter) w = gguf_writer_new();
        gguf_writer_u32(w, "general.alignment", cases[i].value);
        gguf_writer_tensor(w, "a", SLUICE_DTYPE_F32, 1, (const int64_t[]){1});
        assert_writer_refused(w, cases[i].message);
    }
    g_autoptr(GgufWriter) wide = gguf_writer_new();
    gguf_writer_u64(wide, "general.alignment", 32);
    assert_writer_refused(wide, "key 'general.alignment' has type u64, expected u32");
    g_autoptr(GgufWriter) text = gguf_writer_new();
    gguf_writer_string(text, "general.alignment", "32");
    assert_writer_refused(text, "key 'general.alignment' has type string, expected u32");
}
END_TEST

/* ---- the checklist: tensors ------------------------------------------------------------- */

static GgufWriter *
new_one_tensor(const char *name, uint32_t type, int n_dims, const int64_t *ne)
{
    GgufWriter *w = gguf_writer_new();

    gguf_writer_tensor(w, name, type, n_dims, ne);
    return w;
}

START_TEST(tensor_names_are_checked)
{
    g_autofree char *longest = g_strnfill(63, 'n');
    g_autofree char *longer = g_strnfill(64, 'n');
    g_autoptr(GgufWriter) fits = new_one_tensor(longest, 0, 1, (const int64_t[]){1});
    g_autoptr(GgufWriter) long_one = new_one_tensor(longer, 0, 1, (const int64_t[]){1});
    g_autoptr(GgufWriter) empty = new_one_tensor("", 0, 1, (const int64_t[]){1});
    g_autoptr(GgufWriter) nul = new_one_tensor("abc", 0, 1, (const int64_t[]){1});
    g_autoptr(GgufWriter) twice = new_one_tensor("a\x1b", 0, 1, (const int64_t[]){1});

    assert_opens(fits);
    assert_writer_refused(long_one, "tensor name #0 is too long (64 bytes, limit 63)");
    assert_patch_refused(nul, GGUF_MARK_LENGTH, 0, UINT64_MAX,
                         "tensor name #0 is too long (18446744073709551615 bytes, limit 63)");
    assert_writer_refused(empty, "tensor name #0 is empty");
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(nul);
    bytes->data[24 + 8 + 1] = 0;
    assert_refused(bytes->data, bytes->len, "tensor name #0 contains a NUL byte");
    gguf_writer_tensor(twice, "b", 0, 1, (const int64_t[]){1});
    gguf_writer_tensor(twice, "a\x1b", 0, 1, (const int64_t[]){1});
    assert_writer_refused(twice, "duplicate tensor 'a\\x1B'");
}
END_TEST

START_TEST(shapes_are_checked_before_they_are_multiplied)
{
    static const struct {
        int n_dims;
        int64_t ne[4];
        const char *message;
    } cases[] = {
        {1, {0}, "tensor 'a': invalid shape {0}"},
        {2, {256, 0}, "tensor 'a': invalid shape {256, 0}"},
        {2, {-1, 4}, "tensor 'a': invalid shape {-1, 4}"},
        {3, {4, 4, INT64_MIN}, "tensor 'a': invalid shape {4, 4, -9223372036854775808}"},
        {4, {0, 0, 0, 0}, "tensor 'a': invalid shape {0, 0, 0, 0}"},
        {2,
         {1ll << 32, 1ll << 31},
         "tensor 'a': element count overflows, shape {4294967296, 2147483648}"},
        {2,
         {1ll << 32, 1ll << 32},
         "tensor 'a': element count overflows, shape {4294967296, 4294967296}"},
        {4,
         {1ll << 16, 1ll << 16, 1ll << 16, 1ll << 16},
         "tensor 'a': element count overflows, shape {65536, 65536, 65536, 65536}"},
        {2,
         {INT64_MAX, INT64_MAX},
         "tensor 'a': element count overflows, shape {9223372036854775807, 9223372036854775807}"},
        {1, {INT64_MAX}, "tensor 'a' is too large: F32 of shape {9223372036854775807}"},
        {2,
         {1ll << 32, 1ll << 30},
         "tensor 'a' is too large: F32 of shape {4294967296, 1073741824}"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        /* Written with another shape: the writer would have to make room for this one. */
        g_autoptr(GgufWriter) w =
            new_one_tensor("a", 0, cases[i].n_dims, (const int64_t[]){1, 1, 1, 1});
        g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
        for (int d = 0; d < cases[i].n_dims; d++)
            put_number(bytes->data, find_mark(w, GGUF_MARK_DIM, d), (uint64_t) cases[i].ne[d]);
        assert_refused(bytes->data, bytes->len, cases[i].message);
    }
}
END_TEST

START_TEST(only_one_to_four_dimensions_are_taken)
{
    static const uint64_t values[] = {0, 5, INT32_MAX, 1u << 31, UINT32_MAX};

    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        g_autoptr(GgufWriter) w = new_one_tensor("a", 0, 4, (const int64_t[]){1, 1, 1, 1});
        g_autofree char *expected = g_strdup_printf(
            "tensor 'a' has %" G_GUINT64_FORMAT " dimensions (supported: 1-4)", values[i]);
        assert_patch_refused(w, GGUF_MARK_N_DIMS, 0, values[i], expected);
    }
}
END_TEST

START_TEST(types_that_are_no_types_are_named)
{
    static const struct {
        uint32_t type;
        const char *message;
    } cases[] = {
        {4, "tensor 'a' uses removed type Q4_2; re-quantise (use Q4_0)"},
        {5, "tensor 'a' uses removed type Q4_3; re-quantise (use Q4_0)"},
        {31, "tensor 'a' uses removed type Q4_0_4_4; re-quantise (use Q4_0)"},
        {33, "tensor 'a' uses removed type Q4_0_8_8; re-quantise (use Q4_0)"},
        {36, "tensor 'a' uses removed type IQ4_NL_4_4; re-quantise (use Q4_0)"},
        {38, "tensor 'a' uses removed type IQ4_NL_8_8; re-quantise (use Q4_0)"},
        {9, "tensor 'a' uses Q8_1 (id 9), which is for activations and not a type of weights"},
        {15, "tensor 'a' uses Q8_K (id 15), which is for activations and not a type of weights"},
        {139, "tensor 'a' uses IQ4_K (id 139), a fork-only quantisation not supported"},
        {97, "tensor 'a' uses a type (id 97), a fork-only quantisation not supported"},
        {399, "tensor 'a' uses a type (id 399), a fork-only quantisation not supported"},
        {43, "tensor 'a' has unknown type 43"},
        {400, "tensor 'a' has unknown type 400"},
        {UINT32_MAX, "tensor 'a' has unknown type 4294967295"},
        {1u << 31, "tensor 'a' has unknown type 2147483648"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GgufWriter) w = new_one_tensor("a", cases[i].type, 1, (const int64_t[]){256});
        assert_writer_refused(w, cases[i].message);
    }
}
END_TEST

START_TEST(every_known_type_opens_with_its_size)
{
    int n_types = 0;

    for (int type = 0; type < SLUICE_DTYPE_COUNT; type++) {
        const SluiceDtypeInfo *info = sluice_dtype_info((SluiceDtype) type);
        if (info == NULL)
            continue;
        const int64_t ne[] = {info->block_len * 3, 5};
        g_autoptr(GgufWriter) w = new_one_tensor("a", (uint32_t) type, 2, ne);
        assert_opens(w);
        n_types++;
        if (info->block_len == 1)
            continue;
        g_autoptr(GgufWriter) odd =
            new_one_tensor("a", (uint32_t) type, 2, (const int64_t[]){info->block_len + 1, 1});
        g_autofree char *expected =
            g_strdup_printf("tensor 'a' (%s): row length %d is not a multiple of block size %d",
                            info->name, info->block_len + 1, info->block_len);
        assert_writer_refused(odd, expected);
    }
    ck_assert_int_eq(n_types, 33);
}
END_TEST

START_TEST(offsets_are_aligned_and_inside)
{
    g_autoptr(GgufWriter) w = new_one_tensor("a", 0, 1, (const int64_t[]){8});

    gguf_writer_tensor(w, "b", 0, 1, (const int64_t[]){8});
    assert_patch_refused(w, GGUF_MARK_OFFSET, 1, 31, "tensor 'b': offset 31 is not aligned to 32");
    assert_patch_refused(w, GGUF_MARK_OFFSET, 1, UINT64_MAX,
                         "tensor 'b': offset 18446744073709551615 is not aligned to 32");
    assert_patch_refused(w, GGUF_MARK_OFFSET, 1, UINT64_MAX - 31,
                         "tensor 'b': offset and 32 bytes exceed any file");
    assert_patch_refused(w, GGUF_MARK_OFFSET, 1, 64,
                         "model file is incomplete: tensor 'b' ends at 192 but the file has 160 "
                         "bytes (missing 0.0 MiB) \u2014 re-download it");
    assert_patch_refused(w, GGUF_MARK_OFFSET, 1, 3u << 20,
                         "model file is incomplete: tensor 'b' ends at 3145856 but the file has "
                         "160 bytes (missing 3.0 MiB) \u2014 re-download it");
    assert_patch_refused(w, GGUF_MARK_OFFSET, 1, 0, "tensors 'a' and 'b' overlap");
    assert_patch_refused(w, GGUF_MARK_DIM, 0, 9, "tensors 'a' and 'b' overlap");
}
END_TEST

START_TEST(the_tensor_that_ends_last_says_what_is_missing)
{
    g_autoptr(GgufWriter) w = new_one_tensor("a", 0, 1, (const int64_t[]){8});

    gguf_writer_tensor(w, "b", 0, 1, (const int64_t[]){1 << 20});
    gguf_writer_tensor(w, "c", 0, 1, (const int64_t[]){8});
    g_autoptr(GByteArray) bytes = gguf_writer_head(w);
    assert_refused(bytes->data, bytes->len,
                   "model file is incomplete: tensor 'c' ends at 4194496 but the file has 128 "
                   "bytes (missing 4.0 MiB) \u2014 re-download it");
}
END_TEST

/* ---- everywhere ------------------------------------------------------------------------- */

START_TEST(a_file_cut_at_any_byte_is_refused)
{
    g_autoptr(GgufWriter) w = new_small_file();
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);

    ck_assert_ptr_null(open_memory(bytes->data, bytes->len));
    for (guint n = 0; n < bytes->len; n++) {
        g_autofree char *message = open_memory(bytes->data, n);
        ck_assert_msg(message != NULL, "opened with %u of %u bytes", n, bytes->len);
    }
}
END_TEST

static const uint64_t boundaries[] = {0,
                                      1,
                                      (1ull << 31) - 1,
                                      1ull << 31,
                                      (1ull << 31) + 1,
                                      (1ull << 32) - 1,
                                      1ull << 32,
                                      (1ull << 32) + 1,
                                      (1ull << 63) - 1,
                                      1ull << 63,
                                      (1ull << 63) + 1,
                                      UINT64_MAX - 1,
                                      UINT64_MAX};

START_TEST(no_number_in_a_file_is_believed)
{
    g_autoptr(GgufWriter) w = new_small_file();
    g_autoptr(GByteArray) good = gguf_writer_bytes(w);
    int n_refused = 0;

    for (guint i = 0; i < w->marks->len; i++) {
        GgufMark m = g_array_index(w->marks, GgufMark, i);
        for (size_t j = 0; j < G_N_ELEMENTS(boundaries); j++) {
            uint64_t value = boundaries[j];
            if (m.n_bytes == 4 && value > UINT32_MAX)
                continue;
            g_autofree uint8_t *data = g_memdup2(good->data, good->len);
            put_number(data, m, value);
            g_autofree char *message = open_memory(data, good->len);
            n_refused += message != NULL;
            ck_assert_msg(message != NULL || value < INT32_MAX,
                          "opened with %" G_GUINT64_FORMAT " at %zu", value, m.at);
        }
    }
    ck_assert_int_gt(n_refused, 400);
}
END_TEST

START_TEST(no_pair_of_dimensions_wraps)
{
    g_autoptr(GgufWriter) w =
        new_one_tensor("a", SLUICE_DTYPE_Q4_K, 3, (const int64_t[]){256, 1, 1});
    g_autoptr(GByteArray) good = gguf_writer_bytes(w);
    GgufMark marks[3];

    for (int d = 0; d < 3; d++)
        marks[d] = find_mark(w, GGUF_MARK_DIM, d);
    for (size_t i = 0; i < G_N_ELEMENTS(boundaries); i++) {
        for (size_t j = 0; j < G_N_ELEMENTS(boundaries); j++) {
            for (size_t k = 0; k < G_N_ELEMENTS(boundaries); k++) {
                put_number(good->data, marks[0], boundaries[i] * 256);
                put_number(good->data, marks[1], boundaries[j]);
                put_number(good->data, marks[2], boundaries[k]);
                g_autofree char *message = open_memory(good->data, good->len);
                ck_assert_int_eq(message == NULL, boundaries[i] * 256 == 256 &&
                                                      boundaries[j] == 1 && boundaries[k] == 1);
            }
        }
    }
}
END_TEST

START_TEST(random_damage_is_survived)
{
    g_autoptr(GgufWriter) w = new_small_file();
    g_autoptr(GByteArray) good = gguf_writer_bytes(w);
    const char *text = g_getenv("SLUICE_TEST_SEED");
    guint32 seed = text != NULL ? (guint32) g_ascii_strtoull(text, NULL, 10) : 1;
    GRand *rand = g_rand_new_with_seed(seed);

    printf("seed %u\n", seed);
    for (int i = 0; i < 3000; i++) {
        g_autofree uint8_t *data = g_memdup2(good->data, good->len);
        int n_changes = g_rand_int_range(rand, 1, 6);
        for (int j = 0; j < n_changes; j++)
            data[g_rand_int_range(rand, 0, (gint32) good->len)] = (uint8_t) g_rand_int(rand);
        g_autofree char *message = open_memory(data, good->len);
        ck_assert(message == NULL || *message != '\0');
    }
    g_rand_free(rand);
}
END_TEST

/* ---- files on disk ---------------------------------------------------------------------- */

static char *folder;

static void
make_folder(void)
{
    folder = g_dir_make_tmp("sluice-gguf-XXXXXX", NULL);
    ck_assert_ptr_nonnull(folder);
}

static void
remove_folder(void)
{
    GDir *dir = g_dir_open(folder, 0, NULL);
    const char *name;

    while (dir != NULL && (name = g_dir_read_name(dir)) != NULL) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        if (g_remove(path) != 0)
            g_rmdir(path);
    }
    if (dir != NULL)
        g_dir_close(dir);
    g_rmdir(folder);
    g_clear_pointer(&folder, g_free);
}

static char *
path_in_folder(const char *name)
{
    return g_build_filename(folder, name, NULL);
}

static void
assert_path_refused(const char *path, SluiceError code, const char *expected)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open(path, &error);

    ck_assert_msg(gguf == NULL, "opened, expected: %s", expected);
    ck_assert_str_eq(error->message, expected);
    ck_assert_int_eq(error->code, code);
}

START_TEST(only_regular_files_are_opened)
{
    g_autofree char *fifo = path_in_folder("fifo");
    g_autofree char *link = path_in_folder("link");
    g_autofree char *absent = path_in_folder("absent");
    g_autofree char *hidden = path_in_folder("hidden");
    g_autofree char *empty = path_in_folder("empty");
    g_autofree char *e1 = g_strdup_printf("%s: cannot open model file: not a regular file", fifo);
    g_autofree char *e2 =
        g_strdup_printf("%s: cannot open model file: No such file or directory", link);
    g_autofree char *e3 =
        g_strdup_printf("%s: cannot open model file: No such file or directory", absent);
    g_autofree char *e4 = g_strdup_printf("%s: cannot open model file: Is a directory", folder);
    g_autofree char *e5 = g_strdup_printf("%s: cannot open model file: Permission denied", hidden);
    g_autofree char *e6 =
        g_strdup_printf("%s: file is too small to be a GGUF model (0 bytes)", empty);

    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    ck_assert_int_eq(symlink(absent, link), 0);
    ck_assert(g_file_set_contents(hidden, "GGUF", 4, NULL));
    ck_assert_int_eq(g_chmod(hidden, 0), 0);
    ck_assert(g_file_set_contents(empty, "", 0, NULL));
    assert_path_refused(fifo, SLUICE_ERROR_FILE, e1);
    assert_path_refused(link, SLUICE_ERROR_FILE, e2);
    assert_path_refused(absent, SLUICE_ERROR_FILE, e3);
    assert_path_refused(folder, SLUICE_ERROR_FILE, e4);
    assert_path_refused("/dev/zero", SLUICE_ERROR_FILE,
                        "/dev/zero: cannot open model file: not a regular file");
    assert_path_refused("", SLUICE_ERROR_FILE,
                        ": cannot open model file: No such file or directory");
    if (geteuid() != 0)
        assert_path_refused(hidden, SLUICE_ERROR_FILE, e5);
    assert_path_refused(empty, SLUICE_ERROR_FORMAT, e6);
}
END_TEST

START_TEST(a_path_with_control_bytes_is_escaped)
{
    g_autofree char *path = path_in_folder("\x1b[31m.gguf");
    g_autofree char *expected = g_strdup_printf(
        "%s/\\x1B[31m.gguf: file is too small to be a GGUF model (3 bytes)", folder);

    ck_assert(g_file_set_contents(path, "abc", 3, NULL));
    assert_path_refused(path, SLUICE_ERROR_FORMAT, expected);
}
END_TEST

START_TEST(a_file_gives_its_descriptor_and_bytes)
{
    g_autoptr(GgufWriter) w = new_small_file();
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
    g_autofree char *path = path_in_folder("m.gguf");
    uint8_t byte = 1;

    bytes->data[bytes->len - 1] = 0x5a;
    ck_assert(g_file_set_contents(path, (const char *) bytes->data, bytes->len, NULL));
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open(path, NULL);
    ck_assert_ptr_nonnull(gguf);
    const SluiceGgufTensor *t = sluice_gguf_tensor(gguf, 3);
    ck_assert_str_eq(sluice_gguf_path(gguf), path);
    ck_assert_str_eq(sluice_gguf_file_path(gguf, 0), path);
    ck_assert_uint_eq(sluice_gguf_file_bytes(gguf, 0), bytes->len);
    ck_assert_uint_eq(t->data[t->n_bytes - 1], 0x5a);
    ck_assert_int_eq(
        pread(sluice_gguf_file_fd(gguf, 0), &byte, 1, (off_t) (t->offset + t->n_bytes - 1)), 1);
    ck_assert_uint_eq(byte, 0x5a);
    SluiceGguf *second = sluice_gguf_ref(gguf);
    sluice_gguf_unref(second);
    walk(gguf);
}
END_TEST

START_TEST(a_file_that_changed_is_noticed)
{
    g_autoptr(GgufWriter) w = new_small_file();
    g_autofree char *path = path_in_folder("m.gguf");
    g_autofree char *other = path_in_folder("other.gguf");
    g_autoptr(GError) error = NULL;

    gguf_writer_save(w, path);
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open(path, NULL);
    ck_assert(sluice_gguf_check_unchanged(gguf, &error));
    /* Another file in its place: ours lives on. */
    gguf_writer_save(w, other);
    ck_assert_int_eq(g_rename(other, path), 0);
    ck_assert(sluice_gguf_check_unchanged(gguf, &error));

    g_autoptr(SluiceGguf) again = sluice_gguf_open(path, NULL);
    uint64_t n_bytes = sluice_gguf_file_bytes(again, 0);
    ck_assert_int_eq(truncate(path, 100), 0);
    ck_assert(!sluice_gguf_check_unchanged(again, &error));
    g_autofree char *expected = g_strdup_printf(
        "%s: the file changed while in use: 100 bytes, it had %" G_GUINT64_FORMAT, path, n_bytes);
    ck_assert_str_eq(error->message, expected);
    g_clear_error(&error);

    gguf_writer_save(w, other);
    g_autoptr(SluiceGguf) third = sluice_gguf_open(other, NULL);
    struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    ck_assert_int_eq(utimensat(AT_FDCWD, other, times, 0), 0);
    ck_assert(!sluice_gguf_check_unchanged(third, &error));
    g_autofree char *written =
        g_strdup_printf("%s: the file changed while in use: it was written to", other);
    ck_assert_str_eq(error->message, written);
    ck_assert(g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_FILE));
}
END_TEST

/* ---- split sets ------------------------------------------------------------------------- */

typedef struct {
    int idx;            /* split.no */
    int count;          /* split.count */
    int n_total;        /* split.tensors.count; -1: no such key */
    const char *tensor; /* NULL: none */
} SplitSpec;

static void
save_split(const char *name, SplitSpec spec)
{
    g_autoptr(GgufWriter) w = gguf_writer_new();
    g_autofree char *path = path_in_folder(name);

    if (spec.idx == 0)
        gguf_writer_string(w, "general.architecture", "llama");
    gguf_writer_u16(w, "split.no", (uint16_t) spec.idx);
    gguf_writer_u16(w, "split.count", (uint16_t) spec.count);
    if (spec.n_total >= 0)
        gguf_writer_i32(w, "split.tensors.count", spec.n_total);
    if (spec.idx == 2)
        gguf_writer_alignment(w, 256);
    if (spec.tensor != NULL)
        gguf_writer_tensor(w, spec.tensor, SLUICE_DTYPE_F32, 1, (const int64_t[]){spec.idx + 1});
    gguf_writer_save(w, path);
}

static void
save_good_set(void)
{
    save_split("m-00001-of-00003.gguf", (SplitSpec){0, 3, 2, NULL});
    save_split("m-00002-of-00003.gguf", (SplitSpec){1, 3, 2, "b"});
    save_split("m-00003-of-00003.gguf", (SplitSpec){2, 3, 2, "c"});
}

static void
assert_set_refused(const char *name, const char *message_name, const char *message)
{
    g_autofree char *path = path_in_folder(name);
    g_autofree char *expected = g_strdup_printf("%s/%s: %s", folder, message_name, message);

    assert_path_refused(path, SLUICE_ERROR_FORMAT, expected);
}

START_TEST(a_split_set_opens_from_any_of_its_files)
{
    static const char *names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                  "m-00003-of-00003.gguf"};
    g_autofree char *first = path_in_folder(names[0]);
    g_autofree char *third = path_in_folder(names[2]);

    save_good_set();
    for (int i = 0; i < 3; i++) {
        g_autofree char *path = path_in_folder(names[i]);
        g_autoptr(GError) error = NULL;
        g_autoptr(SluiceGguf) gguf = sluice_gguf_open(path, &error);
        ck_assert_msg(gguf != NULL, "%s", error ? error->message : "");
        walk(gguf);
        ck_assert_int_eq(sluice_gguf_n_files(gguf), 3);
        ck_assert_str_eq(sluice_gguf_path(gguf), first);
        ck_assert_str_eq(sluice_gguf_file_path(gguf, 2), third);
        ck_assert(sluice_gguf_has(gguf, "general.architecture"));
        ck_assert_uint_eq(sluice_gguf_n_tensors(gguf), 2);
        ck_assert_str_eq(sluice_gguf_tensor(gguf, 0)->name, "b");
        ck_assert_int_eq(sluice_gguf_tensor(gguf, 0)->file_idx, 1);
        ck_assert_int_eq(sluice_gguf_tensor(gguf, 1)->file_idx, 2);
        ck_assert_uint_eq(sluice_gguf_tensor(gguf, 1)->offset % 256, 0);
        ck_assert(sluice_gguf_check_unchanged(gguf, NULL));
    }
}
END_TEST

START_TEST(a_missing_split_is_named)
{
    g_autofree char *second = path_in_folder("m-00002-of-00003.gguf");
    g_autofree char *first = path_in_folder("m-00001-of-00003.gguf");
    g_autofree char *expected = g_strdup_printf("missing split 2 of 3: %s", second);
    g_autofree char *expected_first = g_strdup_printf("missing split 1 of 3: %s", first);

    save_good_set();
    ck_assert_int_eq(g_remove(second), 0);
    assert_set_refused("m-00001-of-00003.gguf", "m-00001-of-00003.gguf", expected);
    ck_assert_int_eq(g_remove(first), 0);
    assert_set_refused("m-00003-of-00003.gguf", "m-00003-of-00003.gguf", expected_first);
}
END_TEST

START_TEST(splits_that_do_not_belong_together_are_refused)
{
    save_good_set();
    save_split("m-00002-of-00003.gguf", (SplitSpec){2, 3, 2, "b"});
    assert_set_refused("m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                       "split file has index 2, expected 1");
    save_split("m-00002-of-00003.gguf", (SplitSpec){1, 4, 2, "b"});
    assert_set_refused("m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                       "split file belongs to a set of 4, the first one to 3");
    save_split("m-00002-of-00003.gguf", (SplitSpec){1, 3, 2, "c"});
    assert_set_refused("m-00001-of-00003.gguf", "m-00003-of-00003.gguf", "duplicate tensor 'c'");
    save_split("m-00002-of-00003.gguf", (SplitSpec){1, 3, 2, NULL});
    assert_set_refused("m-00001-of-00003.gguf", "m-00001-of-00003.gguf",
                       "corrupt model: 2 tensors expected, 1 found");
    save_split("m-00002-of-00003.gguf", (SplitSpec){1, 3, 2, "b"});
    save_split("m-00001-of-00003.gguf", (SplitSpec){0, 2, 2, NULL});
    assert_set_refused("m-00001-of-00003.gguf", "m-00001-of-00003.gguf",
                       "this is the first of 2 splits, so its name must end in "
                       "'-00001-of-00002.gguf'");
    save_split("m-00001-of-00003.gguf", (SplitSpec){1, 3, 2, NULL});
    assert_set_refused("m-00003-of-00003.gguf", "m-00001-of-00003.gguf",
                       "split file has index 1 of 3, expected 0 of 3");
    save_split("m-00001-of-00003.gguf", (SplitSpec){0, 3, -1, NULL});
    g_autofree char *path = path_in_folder("m-00001-of-00003.gguf");
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open(path, NULL);
    ck_assert_ptr_nonnull(gguf);
}
END_TEST

START_TEST(a_damaged_sibling_is_named_with_its_number)
{
    g_autofree char *path = path_in_folder("m-00003-of-00003.gguf");
    g_autofree char *first = path_in_folder("m-00001-of-00003.gguf");
    g_autofree char *expected =
        g_strdup_printf("split 3 of 3: %s: file is too small to be a GGUF model (4 bytes)", path);

    save_good_set();
    ck_assert(g_file_set_contents(path, "GGUF", 4, NULL));
    assert_path_refused(first, SLUICE_ERROR_FORMAT, expected);
}
END_TEST

START_TEST(a_renamed_split_says_what_to_do)
{
    save_split("second.gguf", (SplitSpec){1, 3, 2, "b"});
    assert_set_refused("second.gguf", "second.gguf",
                       "this is split 2 of 3, and its name does not say where the first one is; "
                       "load the first split");
    save_split("first.gguf", (SplitSpec){0, 65535, 2, "b"});
    assert_set_refused("first.gguf", "first.gguf",
                       "this is the first of 65535 splits, so its name must end in "
                       "'-00001-of-65535.gguf'");
    save_split("whole.gguf", (SplitSpec){0, 1, 1, "b"});
    g_autofree char *path = path_in_folder("whole.gguf");
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open(path, NULL);
    ck_assert_ptr_nonnull(gguf);
}
END_TEST

START_TEST(a_set_of_65535_stops_at_the_first_that_is_missing)
{
    g_autofree char *second = path_in_folder("m-00002-of-65535.gguf");
    g_autofree char *expected = g_strdup_printf("missing split 2 of 65535: %s", second);

    save_split("m-00001-of-65535.gguf", (SplitSpec){0, 65535, 2, "b"});
    assert_set_refused("m-00001-of-65535.gguf", "m-00001-of-65535.gguf", expected);
}
END_TEST

START_TEST(split_keys_of_a_wrong_type_are_refused)
{
    g_autoptr(GgufWriter) w = gguf_writer_new();
    g_autofree char *path = path_in_folder("x.gguf");

    gguf_writer_string(w, "split.count", "3");
    gguf_writer_save(w, path);
    assert_set_refused("x.gguf", "x.gguf",
                       "key 'split.count' has type string, expected an integer");
    g_autoptr(GgufWriter) v = gguf_writer_new();
    gguf_writer_u32(v, "split.count", 65536);
    gguf_writer_save(v, path);
    assert_set_refused("x.gguf", "x.gguf",
                       "key 'split.count' is 65536, expected an integer from 0 to 65535");
}
END_TEST

/* ---- verify ----------------------------------------------------------------------------- */

/* Where a block of a type can hold something that is no number, and the smallest such bytes. */
static const struct {
    SluiceDtype dtype;
    int at;
    int n_bytes;
    uint8_t bytes[8];
} bad_scales[] = {
    {SLUICE_DTYPE_F32, 0, 4, {0, 0, 0x80, 0x7f}},
    {SLUICE_DTYPE_F32, 0, 4, {1, 0, 0x80, 0xff}},
    {SLUICE_DTYPE_F64, 0, 8, {0, 0, 0, 0, 0, 0, 0xf0, 0x7f}},
    {SLUICE_DTYPE_F16, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_BF16, 0, 2, {0x80, 0x7f}},
    {SLUICE_DTYPE_Q4_0, 0, 2, {0, 0xfc}},
    {SLUICE_DTYPE_Q4_1, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q4_1, 2, 2, {0, 0x7e}},
    {SLUICE_DTYPE_Q5_0, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q5_1, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q5_1, 2, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q8_0, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q2_K, 80, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q2_K, 82, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q3_K, 108, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q4_K, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q4_K, 2, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q5_K, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q5_K, 2, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q6_K, 208, 2, {0, 0x7c}},
    {SLUICE_DTYPE_IQ2_XXS, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_IQ2_XS, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_IQ2_S, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_IQ3_XXS, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_IQ3_S, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_IQ1_S, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_IQ1_M, 48, 8, {0, 0, 0, 0, 0, 0xc0, 0, 0x70}},
    {SLUICE_DTYPE_IQ4_NL, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_IQ4_XS, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_TQ1_0, 52, 2, {0, 0x7c}},
    {SLUICE_DTYPE_TQ2_0, 64, 2, {0, 0x7c}},
    {SLUICE_DTYPE_MXFP4, 0, 1, {0xff}},
    {SLUICE_DTYPE_MXFP4, 0, 2, {0xfd, 0x60}},
    {SLUICE_DTYPE_Q1_0, 0, 2, {0, 0x7c}},
    {SLUICE_DTYPE_Q2_0, 0, 2, {0, 0x7c}},
};

/* Two tensors of 3 rows of 5 blocks: the second one is looked at, its bytes at *at. */
static GByteArray *
make_blocks(SluiceDtype dtype, size_t *at)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);
    const int64_t ne[] = {5 * info->block_len, 3};
    g_autoptr(GgufWriter) w = gguf_writer_new();

    gguf_writer_tensor(w, "a", dtype, 2, ne);
    gguf_writer_tensor(w, "b", dtype, 2, ne);
    GByteArray *bytes = gguf_writer_bytes(w);
    *at = bytes->len - 15 * (size_t) info->block_bytes;
    return bytes;
}

START_TEST(a_scale_that_is_no_number_is_found)
{
    SluiceDtype dtype = bad_scales[_i].dtype;
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);
    g_autofree char *path = path_in_folder("m.gguf");
    g_autoptr(GError) error = NULL;
    size_t at;
    g_autoptr(GByteArray) bytes = make_blocks(dtype, &at);

    g_autoptr(SluiceGguf) good = sluice_gguf_open_bytes(bytes->data, bytes->len, NULL);
    ck_assert(sluice_gguf_verify_tensor(good, 1, &error));
    memcpy(bytes->data + at + 7 * info->block_bytes + bad_scales[_i].at, bad_scales[_i].bytes,
           (size_t) bad_scales[_i].n_bytes);
    ck_assert(g_file_set_contents(path, (const char *) bytes->data, bytes->len, NULL));
    g_autoptr(SluiceGguf) bad = sluice_gguf_open(path, NULL);
    ck_assert(sluice_gguf_verify_tensor(bad, 0, &error));
    ck_assert(!sluice_gguf_verify_tensor(bad, 1, &error));
    g_autofree char *expected = g_strdup_printf(
        "%s: tensor 'b': a weight in row 1, elements %d to %d of %d (%s), is not a finite number",
        path, 2 * info->block_len, 3 * info->block_len - 1, 5 * info->block_len, info->name);
    ck_assert_str_eq(error->message, expected);
}
END_TEST

START_TEST(the_largest_numbers_pass)
{
    static const struct {
        SluiceDtype dtype;
        int at;
        int n_bytes;
        uint8_t bytes[8];
    } cases[] = {
        {SLUICE_DTYPE_F32, 0, 4, {0xff, 0xff, 0x7f, 0xff}},
        {SLUICE_DTYPE_F16, 0, 2, {0xff, 0x7b}},
        {SLUICE_DTYPE_BF16, 0, 2, {0x7f, 0x7f}},
        {SLUICE_DTYPE_Q4_K, 0, 4, {0xff, 0xfb, 0xff, 0x7b}},
        {SLUICE_DTYPE_IQ1_M, 48, 8, {0xff, 0xff, 0xff, 0xff, 0xff, 0xbf, 0xff, 0x7f}},
        {SLUICE_DTYPE_MXFP4, 0, 3, {0xfc, 0x77, 0x77}},
        {SLUICE_DTYPE_MXFP4, 0, 2, {0xfd, 0x55}},
        {SLUICE_DTYPE_NVFP4, 0, 4, {0xff, 0x7f, 0xff, 0x7f}},
        {SLUICE_DTYPE_I64, 0, 8, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        size_t at;
        g_autoptr(GByteArray) bytes = make_blocks(cases[i].dtype, &at);
        g_autoptr(GError) error = NULL;
        memcpy(bytes->data + at + cases[i].at, cases[i].bytes, (size_t) cases[i].n_bytes);
        g_autoptr(SluiceGguf) gguf = sluice_gguf_open_bytes(bytes->data, bytes->len, NULL);
        ck_assert_msg(sluice_gguf_verify_tensor(gguf, 1, &error), "%s",
                      error ? error->message : "");
    }
}
END_TEST

START_TEST(a_file_cut_after_opening_is_an_error_when_read)
{
    g_autofree char *path = path_in_folder("m.gguf");
    g_autoptr(GError) error = NULL;
    size_t at;
    g_autoptr(GByteArray) bytes = make_blocks(SLUICE_DTYPE_F32, &at);

    ck_assert(g_file_set_contents(path, (const char *) bytes->data, bytes->len, NULL));
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open(path, NULL);
    ck_assert_int_eq(truncate(path, (off_t) at), 0);
    ck_assert(sluice_gguf_verify_tensor(gguf, 0, &error));
    ck_assert(!sluice_gguf_verify_tensor(gguf, 1, &error));
    ck_assert(g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_FILE));
    g_autofree char *expected = g_strdup_printf(
        "%s: tensor 'b': cannot read 60 bytes at offset %zu: the file ends there", path, at);
    ck_assert_str_eq(error->message, expected);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("gguf");
    TCase *good = tcase_create("good files");
    TCase *values = tcase_create("values");
    TCase *checklist = tcase_create("checklist");
    TCase *damage = tcase_create("damage");
    TCase *disk = tcase_create("files");

    tcase_add_loop_test(good, a_good_file_gives_what_was_written, 2, 4);
    tcase_add_test(good, a_file_without_tensors_or_metadata_opens);
    tcase_add_test(good, alignment_moves_the_data);
    tcase_add_test(good, many_names_are_all_found);
    tcase_add_test(good, offsets_need_not_follow_the_table);
    tcase_add_test(values, integers_of_every_width_are_taken_if_they_fit);
    tcase_add_test(values, whole_floats_count_as_integers);
    tcase_add_test(values, floats_bools_and_strings_are_typed);
    tcase_add_test(values, a_float_that_is_not_finite_is_refused);
    tcase_add_test(values, arrays_are_converted_whole);
    tcase_add_test(values, an_integer_beyond_63_bits_is_refused_in_an_array);
    tcase_add_test(checklist, foreign_files_are_named);
    tcase_add_test(checklist, files_shorter_than_a_header_are_refused);
    tcase_add_test(checklist, versions_but_2_and_3_are_refused);
    tcase_add_test(checklist, counts_are_held_against_the_file);
    tcase_add_test(checklist, counts_have_a_limit_in_a_file_of_any_size);
    tcase_add_test(checklist, a_string_past_the_end_is_refused_before_it_is_read);
    tcase_add_test(checklist, keys_are_of_any_bytes_but_not_empty_and_not_twice);
    tcase_add_test(checklist, unknown_value_types_are_refused);
    tcase_add_test(checklist, an_array_past_the_end_is_refused);
    tcase_add_test(checklist, a_string_inside_an_array_is_checked_by_itself);
    tcase_add_test(checklist, alignment_must_be_a_power_of_two_in_range);
    tcase_add_test(checklist, tensor_names_are_checked);
    tcase_add_test(checklist, shapes_are_checked_before_they_are_multiplied);
    tcase_add_test(checklist, only_one_to_four_dimensions_are_taken);
    tcase_add_test(checklist, types_that_are_no_types_are_named);
    tcase_add_test(checklist, every_known_type_opens_with_its_size);
    tcase_add_test(checklist, offsets_are_aligned_and_inside);
    tcase_add_test(checklist, the_tensor_that_ends_last_says_what_is_missing);
    tcase_add_test(damage, a_file_cut_at_any_byte_is_refused);
    tcase_add_test(damage, no_number_in_a_file_is_believed);
    tcase_add_test(damage, no_pair_of_dimensions_wraps);
    tcase_add_test(damage, random_damage_is_survived);
    tcase_set_timeout(damage, 60);
    tcase_add_checked_fixture(disk, make_folder, remove_folder);
    tcase_add_test(disk, only_regular_files_are_opened);
    tcase_add_test(disk, a_path_with_control_bytes_is_escaped);
    tcase_add_test(disk, a_file_gives_its_descriptor_and_bytes);
    tcase_add_test(disk, a_file_that_changed_is_noticed);
    tcase_add_test(disk, a_split_set_opens_from_any_of_its_files);
    tcase_add_test(disk, a_missing_split_is_named);
    tcase_add_test(disk, splits_that_do_not_belong_together_are_refused);
    tcase_add_test(disk, a_damaged_sibling_is_named_with_its_number);
    tcase_add_test(disk, a_renamed_split_says_what_to_do);
    tcase_add_test(disk, a_set_of_65535_stops_at_the_first_that_is_missing);
    tcase_add_test(disk, split_keys_of_a_wrong_type_are_refused);
    tcase_add_loop_test(disk, a_scale_that_is_no_number_is_found, 0, G_N_ELEMENTS(bad_scales));
    tcase_add_test(disk, the_largest_numbers_pass);
    tcase_add_test(disk, a_file_cut_after_opening_is_an_error_when_read);
    suite_add_tcase(suite, good);
    suite_add_tcase(suite, values);
    suite_add_tcase(suite, checklist);
    suite_add_tcase(suite, damage);
    suite_add_tcase(suite, disk);
    return sluice_test_run(suite);
}
