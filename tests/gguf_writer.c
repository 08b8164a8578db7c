/* SPDX-License-Identifier: MIT */
/* The writer behind gguf_writer.h. It knows the format from its description, not from the reader.
 */
#include "config.h"

#include "tests/gguf_writer.h"

#include "src/core/tensor.h"

#include <string.h>

enum { HEADER_BYTES = 24 };

GgufWriter *
gguf_writer_new(void)
{
    GgufWriter *w = g_new0(GgufWriter, 1);

    w->version = 3;
    w->alignment = 32;
    w->kv = g_byte_array_new();
    w->tensors = g_array_new(FALSE, TRUE, sizeof(GgufWriterTensor));
    w->marks = g_array_new(FALSE, TRUE, sizeof(GgufMark));
    return w;
}

void
gguf_writer_free(GgufWriter *w)
{
    if (w == NULL)
        return;
    for (guint i = 0; i < w->tensors->len; i++)
        g_free(g_array_index(w->tensors, GgufWriterTensor, i).name);
    g_array_unref(w->tensors);
    g_array_unref(w->marks);
    g_byte_array_unref(w->kv);
    g_free(w);
}

static void
put_u32(GByteArray *out, uint32_t value)
{
    uint32_t le = GUINT32_TO_LE(value);
    g_byte_array_append(out, (const guint8 *) &le, sizeof le);
}

static void
put_u64(GByteArray *out, uint64_t value)
{
    uint64_t le = GUINT64_TO_LE(value);
    g_byte_array_append(out, (const guint8 *) &le, sizeof le);
}

static void
mark(GgufWriter *w, GgufMarkKind kind, size_t at, size_t n_bytes)
{
    GgufMark m = {kind, at, n_bytes};
    g_array_append_val(w->marks, m);
}

/* ---- metadata --------------------------------------------------------------------------- */

static void
put_string(GgufWriter *w, const char *text, gssize n_bytes)
{
    size_t n = n_bytes < 0 ? strlen(text) : (size_t) n_bytes;

    mark(w, GGUF_MARK_LENGTH, HEADER_BYTES + w->kv->len, 8);
    put_u64(w->kv, n);
    g_byte_array_append(w->kv, (const guint8 *) text, (guint) n);
}

void
gguf_writer_key(GgufWriter *w, const char *key, gssize n_bytes, uint32_t type)
{
    put_string(w, key, n_bytes);
    mark(w, GGUF_MARK_TYPE, HEADER_BYTES + w->kv->len, 4);
    put_u32(w->kv, type);
    w->n_kv++;
}

void
gguf_writer_raw(GgufWriter *w, const void *data, size_t n_bytes)
{
    g_byte_array_append(w->kv, data, (guint) n_bytes);
}

/* The value's bytes lie in memory as on disk: little-endian hosts only, as the reader. */
static void
put_scalar(GgufWriter *w, const char *key, SluiceGgufType type, const void *value, size_t n_bytes)
{
    gguf_writer_key(w, key, -1, type);
    gguf_writer_raw(w, value, n_bytes);
}

void
gguf_writer_u8(GgufWriter *w, const char *key, uint8_t value)
{
    put_scalar(w, key, SLUICE_GGUF_U8, &value, sizeof value);
}

void
gguf_writer_u16(GgufWriter *w, const char *key, uint16_t value)
{
    put_scalar(w, key, SLUICE_GGUF_U16, &value, sizeof value);
}

void
gguf_writer_u32(GgufWriter *w, const char *key, uint32_t value)
{
    put_scalar(w, key, SLUICE_GGUF_U32, &value, sizeof value);
}

void
gguf_writer_u64(GgufWriter *w, const char *key, uint64_t value)
{
    put_scalar(w, key, SLUICE_GGUF_U64, &value, sizeof value);
}

void
gguf_writer_i8(GgufWriter *w, const char *key, int8_t value)
{
    put_scalar(w, key, SLUICE_GGUF_I8, &value, sizeof value);
}

void
gguf_writer_i16(GgufWriter *w, const char *key, int16_t value)
{
    put_scalar(w, key, SLUICE_GGUF_I16, &value, sizeof value);
}

void
gguf_writer_i32(GgufWriter *w, const char *key, int32_t value)
{
    put_scalar(w, key, SLUICE_GGUF_I32, &value, sizeof value);
}

void
gguf_writer_i64(GgufWriter *w, const char *key, int64_t value)
{
    put_scalar(w, key, SLUICE_GGUF_I64, &value, sizeof value);
}

void
gguf_writer_f32(GgufWriter *w, const char *key, float value)
{
    put_scalar(w, key, SLUICE_GGUF_F32, &value, sizeof value);
}

void
gguf_writer_f64(GgufWriter *w, const char *key, double value)
{
    put_scalar(w, key, SLUICE_GGUF_F64, &value, sizeof value);
}

void
gguf_writer_bool(GgufWriter *w, const char *key, bool value)
{
    uint8_t byte = value;
    put_scalar(w, key, SLUICE_GGUF_BOOL, &byte, sizeof byte);
}

void
gguf_writer_string(GgufWriter *w, const char *key, const char *value)
{
    gguf_writer_key(w, key, -1, SLUICE_GGUF_STRING);
    put_string(w, value, -1);
}

void
gguf_writer_alignment(GgufWriter *w, uint32_t alignment)
{
    w->alignment = alignment;
    gguf_writer_u32(w, "general.alignment", alignment);
}

static void
begin_array(GgufWriter *w, const char *key, SluiceGgufType item_type, uint64_t n_items)
{
    gguf_writer_key(w, key, -1, SLUICE_GGUF_ARRAY);
    mark(w, GGUF_MARK_TYPE, HEADER_BYTES + w->kv->len, 4);
    put_u32(w->kv, item_type);
    mark(w, GGUF_MARK_ITEMS, HEADER_BYTES + w->kv->len, 8);
    put_u64(w->kv, n_items);
}

void
gguf_writer_array(GgufWriter *w, const char *key, SluiceGgufType item_type, uint64_t n_items,
                  const void *items, size_t n_bytes)
{
    begin_array(w, key, item_type, n_items);
    gguf_writer_raw(w, items, n_bytes);
}

void
gguf_writer_strings(GgufWriter *w, const char *key, uint64_t n_items)
{
    begin_array(w, key, SLUICE_GGUF_STRING, n_items);
}

void
gguf_writer_item(GgufWriter *w, const char *item, gssize n_bytes)
{
    put_string(w, item, n_bytes);
}

/* ---- tensors ---------------------------------------------------------------------------- */

uint64_t
gguf_writer_tensor(GgufWriter *w, const char *name, uint32_t type, int n_dims, const int64_t *ne)
{
    const SluiceDtypeInfo *info = sluice_dtype_info((SluiceDtype) type);
    GgufWriterTensor t = {.name = g_strdup(name),
                          .type = type,
                          .n_dims = (uint32_t) n_dims,
                          .ne = {1, 1, 1, 1},
                          .offset = w->data_bytes};

    for (int i = 0; i < n_dims; i++)
        t.ne[i] = (uint64_t) ne[i];
    if (info != NULL)
        t.n_bytes = t.ne[0] / (uint64_t) info->block_len * (uint64_t) info->block_bytes * t.ne[1] *
                    t.ne[2] * t.ne[3];
    w->data_bytes += (t.n_bytes + w->alignment - 1) / w->alignment * w->alignment;
    g_array_append_val(w->tensors, t);
    return t.offset;
}

GByteArray *
gguf_writer_head(GgufWriter *w)
{
    GByteArray *out = g_byte_array_new();

    g_byte_array_append(out, (const guint8 *) "GGUF", 4);
    put_u32(out, w->version);
    mark(w, GGUF_MARK_COUNT, out->len, 8);
    put_u64(out, w->tensors->len);
    mark(w, GGUF_MARK_COUNT, out->len, 8);
    put_u64(out, w->n_kv);
    g_byte_array_append(out, w->kv->data, w->kv->len);
    for (guint i = 0; i < w->tensors->len; i++) {
        const GgufWriterTensor *t = &g_array_index(w->tensors, GgufWriterTensor, i);
        mark(w, GGUF_MARK_LENGTH, out->len, 8);
        put_u64(out, strlen(t->name));
        g_byte_array_append(out, (const guint8 *) t->name, (guint) strlen(t->name));
        mark(w, GGUF_MARK_N_DIMS, out->len, 4);
        put_u32(out, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++) {
            mark(w, GGUF_MARK_DIM, out->len, 8);
            put_u64(out, t->ne[d]);
        }
        mark(w, GGUF_MARK_TYPE, out->len, 4);
        put_u32(out, t->type);
        mark(w, GGUF_MARK_OFFSET, out->len, 8);
        put_u64(out, t->offset);
    }
    if (w->tensors->len > 0) {
        guint n = out->len;
        guint padded = (guint) ((n + w->alignment - 1) / w->alignment * w->alignment);
        g_byte_array_set_size(out, padded);
        memset(out->data + n, 0, padded - n);
    }
    return out;
}

GByteArray *
gguf_writer_bytes(GgufWriter *w)
{
    GByteArray *out = gguf_writer_head(w);
    guint n_head = out->len;

    if (w->tensors->len > 0) {
        const GgufWriterTensor *t =
            &g_array_index(w->tensors, GgufWriterTensor, w->tensors->len - 1);
        g_byte_array_set_size(out, (guint) (n_head + t->offset + t->n_bytes));
        memset(out->data + n_head, 0, out->len - n_head);
    }
    return out;
}

void
gguf_writer_save(GgufWriter *w, const char *path)
{
    g_autoptr(GByteArray) bytes = gguf_writer_bytes(w);
    g_autoptr(GError) error = NULL;

    if (!g_file_set_contents(path, (const char *) bytes->data, bytes->len, &error))
        g_error("%s", error->message);
}
