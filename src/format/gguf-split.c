/* SPDX-License-Identifier: MIT */
/*
 * Sets of split files, `<prefix>-00001-of-00003.gguf`: their names, and that they belong together.
 * Siblings are looked for beside the file that was given and nowhere else.
 */
#include "config.h"

#include "src/format/gguf-private.h"

#include "src/core/error.h"

#include <inttypes.h>
#include <string.h>

/* "-00001-of-00003.gguf" */
enum { SUFFIX_BYTES = 20 };

static bool
is_split_suffix(const char *suffix)
{
    static const char pattern[] = "-00000-of-00000.gguf";

    G_STATIC_ASSERT(sizeof pattern - 1 == SUFFIX_BYTES);
    for (int i = 0; i < SUFFIX_BYTES; i++) {
        if (pattern[i] == '0' ? !g_ascii_isdigit(suffix[i]) : suffix[i] != pattern[i])
            return false;
    }
    return true;
}

char *
sluice_gguf_split_path(const char *path, uint64_t split_idx, uint64_t n_splits)
{
    size_t n_bytes = strlen(path);

    if (n_bytes <= SUFFIX_BYTES || !is_split_suffix(path + n_bytes - SUFFIX_BYTES))
        return NULL;
    return g_strdup_printf("%.*s-%05" PRIu64 "-of-%05" PRIu64 ".gguf",
                           (int) (n_bytes - SUFFIX_BYTES), path, split_idx + 1, n_splits);
}

/* One of the three keys of a split; absent counts as 0. */
static gboolean
read_split_key(const SluiceGgufFile *file, const char *key, uint64_t max, uint64_t *value,
               GError **error)
{
    const SluiceGgufEntry *entry = sluice_gguf_file_find(file, key);

    *value = 0;
    if (entry == NULL || sluice_gguf_entry_uint(entry, max, value, error))
        return TRUE;
    g_autofree char *shown = sluice_error_printable(file->path, -1);
    g_prefix_error(error, "%s: ", shown);
    return FALSE;
}

static gboolean
read_split_keys(const SluiceGgufFile *file, uint64_t *split_idx, uint64_t *n_splits, GError **error)
{
    return read_split_key(file, "split.no", UINT16_MAX, split_idx, error) &&
           read_split_key(file, "split.count", UINT16_MAX, n_splits, error);
}

static void set_split_error(GError **error, const SluiceGgufFile *file, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

static void
set_split_error(GError **error, const SluiceGgufFile *file, const char *format, ...)
{
    g_autofree char *shown = sluice_error_printable(file->path, -1);
    va_list args;

    va_start(args, format);
    g_autofree char *message = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FORMAT, "%s: %s", shown, message);
}

/* Puts the first file of the set in place of the one that was given. */
static gboolean
go_to_first(GPtrArray *files, uint64_t split_idx, uint64_t n_splits, GError **error)
{
    SluiceGgufFile *given = g_ptr_array_index(files, 0);
    g_autofree char *path = sluice_gguf_split_path(given->path, 0, n_splits);
    SluiceGgufFile *first;

    if (path == NULL) {
        set_split_error(error, given,
                        "this is split %" PRIu64 " of %" PRIu64
                        ", and its name does not say where the first one is; load the first split",
                        split_idx + 1, n_splits);
        return FALSE;
    }
    if (!g_file_test(path, G_FILE_TEST_EXISTS)) {
        g_autofree char *shown = sluice_error_printable(path, -1);
        set_split_error(error, given, "missing split 1 of %" PRIu64 ": %s", n_splits, shown);
        return FALSE;
    }
    first = sluice_gguf_file_open(path, error);
    if (first == NULL)
        return FALSE;
    sluice_gguf_file_free(given);
    g_ptr_array_index(files, 0) = first;
    return TRUE;
}

static gboolean
open_sibling(GPtrArray *files, uint64_t split_idx, uint64_t n_splits, GError **error)
{
    const SluiceGgufFile *first = g_ptr_array_index(files, 0);
    g_autofree char *path = sluice_gguf_split_path(first->path, split_idx, n_splits);
    SluiceGgufFile *file;
    uint64_t found_idx, found_count;

    if (!g_file_test(path, G_FILE_TEST_EXISTS)) {
        g_autofree char *shown = sluice_error_printable(path, -1);
        set_split_error(error, first, "missing split %" PRIu64 " of %" PRIu64 ": %s", split_idx + 1,
                        n_splits, shown);
        return FALSE;
    }
    file = sluice_gguf_file_open(path, error);
    if (file == NULL) {
        g_prefix_error(error, "split %" PRIu64 " of %" PRIu64 ": ", split_idx + 1, n_splits);
        return FALSE;
    }
    g_ptr_array_add(files, file);
    if (!read_split_keys(file, &found_idx, &found_count, error))
        return FALSE;
    if (sluice_gguf_file_find(file, "split.no") == NULL || found_idx != split_idx) {
        set_split_error(error, file, "split file has index %" PRIu64 ", expected %" PRIu64,
                        found_idx, split_idx);
        return FALSE;
    }
    if (found_count != n_splits) {
        set_split_error(error, file,
                        "split file belongs to a set of %" PRIu64 ", the first one to %" PRIu64,
                        found_count, n_splits);
        return FALSE;
    }
    return TRUE;
}

static gboolean
check_total(GPtrArray *files, GError **error)
{
    const SluiceGgufFile *first = g_ptr_array_index(files, 0);
    uint64_t n_expected;
    uint64_t n_found = 0;

    if (sluice_gguf_file_find(first, "split.tensors.count") == NULL)
        return TRUE;
    if (!read_split_key(first, "split.tensors.count", INT32_MAX, &n_expected, error))
        return FALSE;
    for (guint i = 0; i < files->len; i++)
        n_found += ((const SluiceGgufFile *) g_ptr_array_index(files, i))->n_tensors;
    if (n_found != n_expected) {
        set_split_error(error, first,
                        "corrupt model: %" PRIu64 " tensors expected, %" PRIu64 " found",
                        n_expected, n_found);
        return FALSE;
    }
    return TRUE;
}

gboolean
sluice_gguf_split_open(GPtrArray *files, GError **error)
{
    uint64_t split_idx, n_splits;

    if (!read_split_keys(g_ptr_array_index(files, 0), &split_idx, &n_splits, error))
        return FALSE;
    if (n_splits <= 1)
        return TRUE;
    if (split_idx != 0) {
        uint64_t n_first;
        if (!go_to_first(files, split_idx, n_splits, error) ||
            !read_split_keys(g_ptr_array_index(files, 0), &split_idx, &n_first, error))
            return FALSE;
        if (split_idx != 0 || n_first != n_splits) {
            set_split_error(error, g_ptr_array_index(files, 0),
                            "split file has index %" PRIu64 " of %" PRIu64
                            ", expected 0 of %" PRIu64,
                            split_idx, n_first, n_splits);
            return FALSE;
        }
    }
    const SluiceGgufFile *first = g_ptr_array_index(files, 0);
    g_autofree char *own_path = sluice_gguf_split_path(first->path, 0, n_splits);
    if (own_path == NULL || strcmp(own_path, first->path) != 0) {
        set_split_error(error, first,
                        "this is the first of %" PRIu64
                        " splits, so its name must end in '-00001-of-%05" PRIu64 ".gguf'",
                        n_splits, n_splits);
        return FALSE;
    }
    for (uint64_t i = 1; i < n_splits; i++) {
        if (!open_sibling(files, i, n_splits, error))
            return FALSE;
    }
    return check_total(files, error);
}
