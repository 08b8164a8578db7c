/* SPDX-License-Identifier: MIT */
/*
 * Writes the head of a GGUF file into memory: metadata in the order of the calls, then the tensor
 * table with offsets in the same order. It checks nothing, so that tests can write what a reader
 * must refuse; it notes where every count, length, type and offset lies, so that they can spoil it.
 */
#pragma once

#include "src/format/gguf.h"

typedef enum {
    GGUF_MARK_COUNT,  /* of tensors or entries in the header */
    GGUF_MARK_LENGTH, /* of a string */
    GGUF_MARK_TYPE,   /* of a value, an array's items or a tensor */
    GGUF_MARK_ITEMS,  /* of an array */
    GGUF_MARK_N_DIMS,
    GGUF_MARK_DIM,
    GGUF_MARK_OFFSET,
} GgufMarkKind;

/* Where a number lies whose value drives the reader. */
typedef struct {
    GgufMarkKind kind;
    size_t at;      /* from the start of the file */
    size_t n_bytes; /* 4 or 8 */
} GgufMark;

typedef struct {
    char *name;
    uint32_t type;
    uint32_t n_dims;
    uint64_t ne[4];
    uint64_t offset;
    uint64_t n_bytes; /* 0 for a type that has no size */
} GgufWriterTensor;

typedef struct {
    uint32_t version;   /* 3 */
    uint32_t alignment; /* 32; set it with gguf_writer_alignment() */
    GByteArray *kv;
    uint64_t n_kv;
    GArray *tensors; /* of GgufWriterTensor */
    uint64_t data_bytes;
    GArray *marks; /* of GgufMark */
} GgufWriter;

GgufWriter *gguf_writer_new(void);
void gguf_writer_free(GgufWriter *w);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(GgufWriter, gguf_writer_free)

void gguf_writer_alignment(GgufWriter *w, uint32_t alignment);
void gguf_writer_u8(GgufWriter *w, const char *key, uint8_t value);
void gguf_writer_u16(GgufWriter *w, const char *key, uint16_t value);
void gguf_writer_u32(GgufWriter *w, const char *key, uint32_t value);
void gguf_writer_u64(GgufWriter *w, const char *key, uint64_t value);
void gguf_writer_i8(GgufWriter *w, const char *key, int8_t value);
void gguf_writer_i16(GgufWriter *w, const char *key, int16_t value);
void gguf_writer_i32(GgufWriter *w, const char *key, int32_t value);
void gguf_writer_i64(GgufWriter *w, const char *key, int64_t value);
void gguf_writer_f32(GgufWriter *w, const char *key, float value);
void gguf_writer_f64(GgufWriter *w, const char *key, double value);
void gguf_writer_bool(GgufWriter *w, const char *key, bool value);
void gguf_writer_string(GgufWriter *w, const char *key, const char *value);
/* A key whose value follows by gguf_writer_raw(), in whatever form. */
void gguf_writer_key(GgufWriter *w, const char *key, gssize n_bytes, uint32_t type);
void gguf_writer_raw(GgufWriter *w, const void *data, size_t n_bytes);
/* An array of any fixed-size type, from numbers that lie in memory as in the file. */
void gguf_writer_array(GgufWriter *w, const char *key, SluiceGgufType item_type, uint64_t n_items,
                       const void *items, size_t n_bytes);
/* An array of strings, begun with its length and then given item by item. */
void gguf_writer_strings(GgufWriter *w, const char *key, uint64_t n_items);
void gguf_writer_item(GgufWriter *w, const char *item, gssize n_bytes);

/* Returns the tensor's offset from the start of the data; ne has n_dims items, at most 4. */
uint64_t gguf_writer_tensor(GgufWriter *w, const char *name, uint32_t type, int n_dims,
                            const int64_t *ne);

/* Everything before the data, padded to the alignment. Marks are complete after it. */
GByteArray *gguf_writer_head(GgufWriter *w);
/* A whole file whose data are zeros; the padding behind the last tensor is left out. */
GByteArray *gguf_writer_bytes(GgufWriter *w);
/* The same into a new file; stops the program if it cannot. */
void gguf_writer_save(GgufWriter *w, const char *path);
