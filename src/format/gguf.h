/* SPDX-License-Identifier: MIT */
/*
 * A GGUF file, or a set of split files, over read-only mappings: typed metadata and a table of
 * tensors, every one of them checked before anybody can ask for it. Source: the GGUF format
 * description, versions 2 and 3.
 */
#pragma once

#include <glib.h>

#include "src/core/tensor.h"

G_BEGIN_DECLS

typedef struct _SluiceGguf SluiceGguf;

/* The values are the format's. */
typedef enum {
    SLUICE_GGUF_U8 = 0,
    SLUICE_GGUF_I8 = 1,
    SLUICE_GGUF_U16 = 2,
    SLUICE_GGUF_I16 = 3,
    SLUICE_GGUF_U32 = 4,
    SLUICE_GGUF_I32 = 5,
    SLUICE_GGUF_F32 = 6,
    SLUICE_GGUF_BOOL = 7,
    SLUICE_GGUF_STRING = 8,
    SLUICE_GGUF_ARRAY = 9,
    SLUICE_GGUF_U64 = 10,
    SLUICE_GGUF_I64 = 11,
    SLUICE_GGUF_F64 = 12,
} SluiceGgufType;

/* Bytes of a string inside the mapping: not terminated, not known to be UTF-8. */
typedef struct {
    const char *data;
    size_t n_bytes;
} SluiceGgufString;

/* One metadata entry; everything points into the mapping. */
typedef struct {
    SluiceGgufString key;
    SluiceGgufType type;
    SluiceGgufType item_type; /* of an array */
    uint64_t n_items;         /* of an array; 1 otherwise */
    const uint8_t *data;      /* the value, or the array's first item, unaligned little-endian */
} SluiceGgufEntry;

/* One tensor as its file describes it; the shape is in the file's order, ne[0] contiguous. */
typedef struct {
    const char *name; /* terminated, owned by the SluiceGguf */
    SluiceDtype dtype;
    int n_dims;          /* 1 to 4 */
    int64_t ne[4];       /* dimensions beyond n_dims are 1 */
    size_t n_bytes;      /* without the padding behind it */
    int file_idx;        /* which split */
    uint64_t offset;     /* from the start of that file */
    const uint8_t *data; /* in the mapping */
} SluiceGgufTensor;

SluiceGguf *sluice_gguf_open(const char *path, GError **error);
SluiceGguf *sluice_gguf_ref(SluiceGguf *gguf);
void sluice_gguf_unref(SluiceGguf *gguf);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceGguf, sluice_gguf_unref)

const char *sluice_gguf_path(const SluiceGguf *gguf);
uint32_t sluice_gguf_version(const SluiceGguf *gguf);

/* Files of the set; the first one holds the metadata. */
int sluice_gguf_n_files(const SluiceGguf *gguf);
const char *sluice_gguf_file_path(const SluiceGguf *gguf, int file_idx);
int sluice_gguf_file_fd(const SluiceGguf *gguf, int file_idx);
uint64_t sluice_gguf_file_bytes(const SluiceGguf *gguf, int file_idx);
gboolean sluice_gguf_check_unchanged(const SluiceGguf *gguf, GError **error);

/* Metadata. Getters accept every integer type whose value fits, and bool as an integer;
 * a wrong type or an out-of-range value is an error that names the key, absence is not:
 * they return TRUE and leave @value alone, so that the caller's default stands. */
size_t sluice_gguf_n_entries(const SluiceGguf *gguf);
const SluiceGgufEntry *sluice_gguf_entry(const SluiceGguf *gguf, size_t entry_idx);
const SluiceGgufEntry *sluice_gguf_find(const SluiceGguf *gguf, const char *key);
gboolean sluice_gguf_has(const SluiceGguf *gguf, const char *key);
gboolean sluice_gguf_uint(const SluiceGguf *gguf, const char *key, uint64_t max, uint64_t *value,
                          GError **error);
gboolean sluice_gguf_float(const SluiceGguf *gguf, const char *key, double *value, GError **error);
gboolean sluice_gguf_bool(const SluiceGguf *gguf, const char *key, bool *value, GError **error);
gboolean sluice_gguf_string(const SluiceGguf *gguf, const char *key, SluiceGgufString *value,
                            GError **error);
/* Whole arrays, converted; (transfer full). NULL and *n_items 0 without an error: no such key. */
int64_t *sluice_gguf_int_array(const SluiceGguf *gguf, const char *key, size_t *n_items,
                               GError **error);
float *sluice_gguf_float_array(const SluiceGguf *gguf, const char *key, size_t *n_items,
                               GError **error);
SluiceGgufString *sluice_gguf_string_array(const SluiceGguf *gguf, const char *key, size_t *n_items,
                                           GError **error);
/* The "R" keys of the specification: absence is an error too. */
gboolean sluice_gguf_require(const SluiceGguf *gguf, const char *key, GError **error);

/* Tensors of all files, in file order. */
size_t sluice_gguf_n_tensors(const SluiceGguf *gguf);
const SluiceGgufTensor *sluice_gguf_tensor(const SluiceGguf *gguf, size_t tensor_idx);
/* The index of the tensor called @name, or -1. */
gssize sluice_gguf_tensor_find(const SluiceGguf *gguf, const char *name);
/* Whether every weight of it, read from the file, is a finite number. */
gboolean sluice_gguf_verify_tensor(const SluiceGguf *gguf, size_t tensor_idx, GError **error);

G_END_DECLS
