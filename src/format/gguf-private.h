/* SPDX-License-Identifier: MIT */
/*
 * What the files of the GGUF reader share: the object itself, one file of a set, the hash index
 * over names, and the steps of opening. Nothing outside src/format and its tests includes this.
 */
#pragma once

#include "src/format/gguf.h"

#include <sys/types.h>
#include <time.h>

G_BEGIN_DECLS

/* Limits of the format as this reader takes it; each keeps a count from a file small. */
#define SLUICE_GGUF_MAX_RECORDS (1u << 20) /* tensors, and metadata entries, of one file */
#define SLUICE_GGUF_MAX_ITEMS (1u << 30)   /* items of one array */
#define SLUICE_GGUF_MAX_STRING (1u << 30)  /* bytes of one value */
#define SLUICE_GGUF_MAX_KEY 65535u         /* bytes of a metadata key */
#define SLUICE_GGUF_MAX_NAME 63u           /* bytes of a tensor name */
#define SLUICE_GGUF_MAX_ALIGNMENT (1u << 20)
#define SLUICE_GGUF_DEFAULT_ALIGNMENT 32u

/*
 * Names to positions: open addressing over positions + 1, at most half full. The hash is keyed
 * with random numbers, so that no file can be made whose names all fall into one slot.
 */
typedef struct {
    uint32_t *slots;
    uint32_t mask;
    uint64_t seed[2];
} SluiceGgufIndex;

/* The name of the item at @item_idx of whatever array an index is over. */
typedef SluiceGgufString (*SluiceGgufNameFn)(const void *items, size_t item_idx);

gboolean sluice_gguf_index_init(SluiceGgufIndex *index, size_t n_items, GError **error);
void sluice_gguf_index_clear(SluiceGgufIndex *index);
gssize sluice_gguf_index_find(const SluiceGgufIndex *index, SluiceGgufString name,
                              SluiceGgufNameFn name_of, const void *items);
gboolean sluice_gguf_index_add(SluiceGgufIndex *index, size_t item_idx, SluiceGgufNameFn name_of,
                               const void *items);

/* One file of a set. */
typedef struct {
    char *path;          /* as opened, not fit for a message */
    int fd;              /* -1 over borrowed bytes */
    uint64_t n_bytes;    /* at the time of opening */
    const uint8_t *data; /* the whole file */
    dev_t device;
    ino_t inode;
    struct timespec modified;
    uint32_t version;
    uint32_t alignment;
    uint64_t data_start; /* of the tensors' bytes; 0 in a file without tensors */

    SluiceGgufEntry *entries;
    size_t n_entries;
    SluiceGgufIndex entry_index;
    SluiceGgufTensor *tensors; /* moved into the set once all files are read */
    size_t n_tensors;
    GStringChunk *names;
} SluiceGgufFile;

struct _SluiceGguf {
    gatomicrefcount n_refs;
    GPtrArray *files; /* of SluiceGgufFile; the first holds the metadata */
    SluiceGgufTensor *tensors;
    size_t n_tensors;
    SluiceGgufIndex tensor_index;
};

SluiceGgufFile *sluice_gguf_file_open(const char *path, GError **error);
SluiceGgufFile *sluice_gguf_file_open_bytes(const void *data, size_t n_bytes, GError **error);
void sluice_gguf_file_free(SluiceGgufFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceGgufFile, sluice_gguf_file_free)

const SluiceGgufEntry *sluice_gguf_file_find(const SluiceGgufFile *file, const char *key);
/* The getter behind sluice_gguf_uint(), for one file of a set. */
gboolean sluice_gguf_entry_uint(const SluiceGgufEntry *entry, uint64_t max, uint64_t *value,
                                GError **error);
const char *sluice_gguf_type_name(SluiceGgufType type);
/* Bytes of one value of a type with a fixed size, else 0. */
size_t sluice_gguf_type_bytes(SluiceGgufType type);
/* The next string at *@data, which the reader has checked already; advances *@data. */
SluiceGgufString sluice_gguf_next_string(const uint8_t **data);

/* Reads the other files of the set that @first begins, appending them to @files. */
gboolean sluice_gguf_split_open(GPtrArray *files, GError **error);
/* The path of the file with @split_idx of a set of @n_splits, or NULL: not named like a split. */
char *sluice_gguf_split_path(const char *path, uint64_t split_idx, uint64_t n_splits);

SluiceGguf *sluice_gguf_open_bytes(const void *data, size_t n_bytes, GError **error);

static inline uint32_t
sluice_gguf_load_u32(const uint8_t *p)
{
    uint32_t v;
    __builtin_memcpy(&v, p, sizeof v);
    return GUINT32_FROM_LE(v);
}

static inline uint64_t
sluice_gguf_load_u64(const uint8_t *p)
{
    uint64_t v;
    __builtin_memcpy(&v, p, sizeof v);
    return GUINT64_FROM_LE(v);
}

G_END_DECLS
