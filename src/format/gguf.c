/* SPDX-License-Identifier: MIT */
/*
 * A model as one object, whether it lies in one file or in several: opening, sharing, and the
 * table of tensors over all files. Reading a file is gguf-file.c's, metadata gguf-value.c's.
 */
#include "config.h"

#include "src/format/gguf-private.h"

#include "src/core/error.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

static const SluiceGgufFile *
file_at(const SluiceGguf *gguf, int file_idx)
{
    return g_ptr_array_index(gguf->files, (guint) file_idx);
}

static SluiceGgufString
tensor_name(const void *items, size_t item_idx)
{
    const char *name = ((const SluiceGgufTensor *) items)[item_idx].name;

    return (SluiceGgufString){name, strlen(name)};
}

/* Names may not repeat, across files either. */
static gboolean
index_tensors(SluiceGguf *gguf, GError **error)
{
    if (!sluice_gguf_index_init(&gguf->tensor_index, gguf->n_tensors, error))
        return FALSE;
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        if (sluice_gguf_index_add(&gguf->tensor_index, i, tensor_name, gguf->tensors))
            continue;
        const SluiceGgufFile *file = file_at(gguf, gguf->tensors[i].file_idx);
        g_autofree char *path = sluice_error_printable(file->path, -1);
        g_autofree char *name = sluice_error_printable(gguf->tensors[i].name, -1);
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FORMAT, "%s: duplicate tensor '%s'", path,
                    name);
        return FALSE;
    }
    return TRUE;
}

/* Moves the files' tables, each checked, into one. */
static gboolean
join_tensors(SluiceGguf *gguf, GError **error)
{
    size_t n_tensors = 0;

    for (guint i = 0; i < gguf->files->len; i++)
        n_tensors += file_at(gguf, (int) i)->n_tensors;
    if (n_tensors > SLUICE_GGUF_MAX_RECORDS) {
        g_autofree char *path = sluice_error_printable(file_at(gguf, 0)->path, -1);
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FORMAT,
                    "%s: %zu tensors in all files exceed the limit of %u", path, n_tensors,
                    SLUICE_GGUF_MAX_RECORDS);
        return FALSE;
    }
    gguf->tensors = g_try_new(SluiceGgufTensor, MAX(n_tensors, 1));
    if (gguf->tensors == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY, "not enough memory for %zu tensors",
                    n_tensors);
        return FALSE;
    }
    for (guint i = 0; i < gguf->files->len; i++) {
        SluiceGgufFile *file = g_ptr_array_index(gguf->files, i);
        for (size_t j = 0; j < file->n_tensors; j++) {
            gguf->tensors[gguf->n_tensors] = file->tensors[j];
            gguf->tensors[gguf->n_tensors++].file_idx = (int) i;
        }
        g_clear_pointer(&file->tensors, g_free);
    }
    return index_tensors(gguf, error);
}

static SluiceGguf *
new_with_file(SluiceGgufFile *file)
{
    SluiceGguf *gguf = g_new0(SluiceGguf, 1);

    g_atomic_ref_count_init(&gguf->n_refs);
    gguf->files = g_ptr_array_new_with_free_func((GDestroyNotify) sluice_gguf_file_free);
    g_ptr_array_add(gguf->files, file);
    return gguf;
}

/**
 * sluice_gguf_open:
 * @path: a GGUF file, or any file of a split set
 * @error: return location, or %NULL
 *
 * Maps a model's files read-only and checks all that can be checked without knowing the family:
 * that every count, string, shape and offset stays inside its file, that names are unique and
 * tensors do not overlap. Only regular files are opened, and only from the folder of @path.
 * No weight is read.
 * Cost: O(bytes of metadata). Threads: any.
 *
 * Returns: (transfer full): the model, or %NULL with %SLUICE_ERROR_FILE, %SLUICE_ERROR_FORMAT,
 *   %SLUICE_ERROR_MODEL (a tensor type that is not supported) or %SLUICE_ERROR_MEMORY
 * Since: 0.1
 */
SluiceGguf *
sluice_gguf_open(const char *path, GError **error)
{
    g_return_val_if_fail(path != NULL, NULL);

    SluiceGgufFile *file = sluice_gguf_file_open(path, error);
    if (file == NULL)
        return NULL;
    g_autoptr(SluiceGguf) gguf = new_with_file(file);
    if (!sluice_gguf_split_open(gguf->files, error) || !join_tensors(gguf, error))
        return NULL;
    return g_steal_pointer(&gguf);
}

/*
 * The same over bytes that stay the caller's and must outlive the model; a split is taken for a
 * whole. There is no descriptor: sluice_gguf_file_fd() is -1.
 */
SluiceGguf *
sluice_gguf_open_bytes(const void *data, size_t n_bytes, GError **error)
{
    SluiceGgufFile *file = sluice_gguf_file_open_bytes(data, n_bytes, error);

    if (file == NULL)
        return NULL;
    g_autoptr(SluiceGguf) gguf = new_with_file(file);
    if (!join_tensors(gguf, error))
        return NULL;
    return g_steal_pointer(&gguf);
}

/**
 * sluice_gguf_ref:
 * @gguf: a model
 *
 * Returns: (transfer full): @gguf, with one more owner
 * Since: 0.1
 */
SluiceGguf *
sluice_gguf_ref(SluiceGguf *gguf)
{
    g_return_val_if_fail(gguf != NULL, NULL);

    g_atomic_ref_count_inc(&gguf->n_refs);
    return gguf;
}

/**
 * sluice_gguf_unref:
 * @gguf: (nullable) (transfer full): a model
 *
 * Gives up one share; with the last one the mappings and everything that points into them go.
 *
 * Since: 0.1
 */
void
sluice_gguf_unref(SluiceGguf *gguf)
{
    if (gguf == NULL || !g_atomic_ref_count_dec(&gguf->n_refs))
        return;
    sluice_gguf_index_clear(&gguf->tensor_index);
    g_free(gguf->tensors);
    g_ptr_array_unref(gguf->files);
    g_free(gguf);
}

/**
 * sluice_gguf_path:
 * @gguf: a model
 *
 * Returns: the path of its first file, which need not be the one that was given to open; not fit
 *   for a terminal as it is
 * Since: 0.1
 */
const char *
sluice_gguf_path(const SluiceGguf *gguf)
{
    return file_at(gguf, 0)->path;
}

/**
 * sluice_gguf_version:
 * @gguf: a model
 *
 * Returns: the version of the container, 2 or 3
 * Since: 0.1
 */
uint32_t
sluice_gguf_version(const SluiceGguf *gguf)
{
    return file_at(gguf, 0)->version;
}

/**
 * sluice_gguf_n_files:
 * @gguf: a model
 *
 * Returns: the number of files it lies in, 1 unless it is split
 * Since: 0.1
 */
int
sluice_gguf_n_files(const SluiceGguf *gguf)
{
    return (int) gguf->files->len;
}

/**
 * sluice_gguf_file_path:
 * @gguf: a model
 * @file_idx: below sluice_gguf_n_files()
 *
 * Returns: the path of that file
 * Since: 0.1
 */
const char *
sluice_gguf_file_path(const SluiceGguf *gguf, int file_idx)
{
    g_return_val_if_fail(file_idx >= 0 && file_idx < sluice_gguf_n_files(gguf), NULL);

    return file_at(gguf, file_idx)->path;
}

/**
 * sluice_gguf_file_fd:
 * @gguf: a model
 * @file_idx: below sluice_gguf_n_files()
 *
 * Returns: a descriptor open for reading for as long as @gguf lives; use pread() only, its
 *   position is shared
 * Since: 0.1
 */
int
sluice_gguf_file_fd(const SluiceGguf *gguf, int file_idx)
{
    g_return_val_if_fail(file_idx >= 0 && file_idx < sluice_gguf_n_files(gguf), -1);

    return file_at(gguf, file_idx)->fd;
}

/**
 * sluice_gguf_file_bytes:
 * @gguf: a model
 * @file_idx: below sluice_gguf_n_files()
 *
 * Returns: the size of that file when it was opened
 * Since: 0.1
 */
uint64_t
sluice_gguf_file_bytes(const SluiceGguf *gguf, int file_idx)
{
    g_return_val_if_fail(file_idx >= 0 && file_idx < sluice_gguf_n_files(gguf), 0);

    return file_at(gguf, file_idx)->n_bytes;
}

static gboolean
check_file(const SluiceGgufFile *file, GError **error)
{
    g_autofree char *path = sluice_error_printable(file->path, -1);
    struct stat st;

    if (fstat(file->fd, &st) != 0) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "%s: %s", path, g_strerror(errno));
        return FALSE;
    }
    if ((uint64_t) st.st_size != file->n_bytes) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE,
                    "%s: the file changed while in use: %" PRIu64 " bytes, it had %" PRIu64, path,
                    (uint64_t) st.st_size, file->n_bytes);
        return FALSE;
    }
    if (st.st_mtim.tv_sec != file->modified.tv_sec ||
        st.st_mtim.tv_nsec != file->modified.tv_nsec || st.st_ino != file->inode ||
        st.st_dev != file->device) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE,
                    "%s: the file changed while in use: it was written to", path);
        return FALSE;
    }
    return TRUE;
}

/**
 * sluice_gguf_check_unchanged:
 * @gguf: a model
 * @error: return location, or %NULL
 *
 * Holds each open file against what it was when it was opened: size, time of modification, inode.
 * A file cut short under a mapping is a SIGBUS for whoever reads there, one overwritten gives
 * weights that nobody checked; ask before using the mapping after a pause. A new file put in the
 * old one's place by renaming is no change: the open one lives on.
 * Threads: any.
 *
 * Returns: %TRUE if nothing changed, else %SLUICE_ERROR_FILE
 * Since: 0.1
 */
gboolean
sluice_gguf_check_unchanged(const SluiceGguf *gguf, GError **error)
{
    for (guint i = 0; i < gguf->files->len; i++) {
        const SluiceGgufFile *file = file_at(gguf, (int) i);
        if (file->fd >= 0 && !check_file(file, error))
            return FALSE;
    }
    return TRUE;
}

/**
 * sluice_gguf_n_tensors:
 * @gguf: a model
 *
 * Returns: the number of tensors in all files
 * Since: 0.1
 */
size_t
sluice_gguf_n_tensors(const SluiceGguf *gguf)
{
    return gguf->n_tensors;
}

/**
 * sluice_gguf_tensor:
 * @gguf: a model
 * @tensor_idx: below sluice_gguf_n_tensors()
 *
 * Returns: (transfer none): that tensor, files in order and each in the order of its table
 * Since: 0.1
 */
const SluiceGgufTensor *
sluice_gguf_tensor(const SluiceGguf *gguf, size_t tensor_idx)
{
    g_return_val_if_fail(tensor_idx < gguf->n_tensors, NULL);

    return &gguf->tensors[tensor_idx];
}

/**
 * sluice_gguf_tensor_find:
 * @gguf: a model
 * @name: a tensor's full name
 *
 * Cost: O(1).
 *
 * Returns: the position of the tensor called @name, or -1
 * Since: 0.1
 */
gssize
sluice_gguf_tensor_find(const SluiceGguf *gguf, const char *name)
{
    SluiceGgufString string = {name, strlen(name)};

    return sluice_gguf_index_find(&gguf->tensor_index, string, tensor_name, gguf->tensors);
}
