/* SPDX-License-Identifier: MIT */
/* dump_gguf FILE: what the reader finds in a file, a line for each entry and tensor, for
 * tests/reference/compare_gguf.py to hold against another reader. */
#include "config.h"

#include "src/format/gguf-private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FNV_START 0xcbf29ce484222325u

static uint64_t
hash(uint64_t h, const void *data, size_t n_bytes)
{
    const uint8_t *p = data;

    for (size_t i = 0; i < n_bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* A number as Python prints it. */
static void
print_number(const SluiceGguf *gguf, const SluiceGgufEntry *entry, const char *key)
{
    double real = 0;
    int64_t value = 0;
    uint64_t u = 0;

    switch (entry->type) {
    case SLUICE_GGUF_F32:
    case SLUICE_GGUF_F64:
        sluice_gguf_float(gguf, key, &real, NULL);
        printf(" %.17g\n", real);
        return;
    case SLUICE_GGUF_I8:
    case SLUICE_GGUF_I16:
    case SLUICE_GGUF_I32:
    case SLUICE_GGUF_I64:
        memcpy(&value, entry->data, sluice_gguf_type_bytes(entry->type));
        if (entry->type == SLUICE_GGUF_I8)
            value = (int8_t) value;
        else if (entry->type == SLUICE_GGUF_I16)
            value = (int16_t) value;
        else if (entry->type == SLUICE_GGUF_I32)
            value = (int32_t) value;
        printf(" %" PRId64 "\n", value);
        return;
    default:
        sluice_gguf_uint(gguf, key, UINT64_MAX, &u, NULL);
        printf(" %" PRIu64 "\n", u);
    }
}

static void
print_array(const SluiceGguf *gguf, const SluiceGgufEntry *entry, const char *key)
{
    size_t n_items;
    uint64_t h = FNV_START;

    if (entry->item_type == SLUICE_GGUF_STRING) {
        g_autofree SluiceGgufString *items = sluice_gguf_string_array(gguf, key, &n_items, NULL);
        for (size_t i = 0; i < n_items; i++) {
            h = hash(h, items[i].data, items[i].n_bytes);
            h = hash(h, "", 1);
        }
    } else {
        h = hash(h, entry->data, entry->n_items * sluice_gguf_type_bytes(entry->item_type));
    }
    printf(" %s %" PRIu64 " %016" PRIx64 "\n",
           entry->n_items > 0 ? sluice_gguf_type_name(entry->item_type) : "?", entry->n_items, h);
}

static void
print_entry(const SluiceGguf *gguf, const SluiceGgufEntry *entry)
{
    g_autofree char *key = g_strndup(entry->key.data, entry->key.n_bytes);
    SluiceGgufString text = {NULL, 0};

    printf("key %s %s", key, sluice_gguf_type_name(entry->type));
    if (entry->type == SLUICE_GGUF_STRING) {
        sluice_gguf_string(gguf, key, &text, NULL);
        printf(" %016" PRIx64 "\n", hash(FNV_START, text.data, text.n_bytes));
    } else if (entry->type == SLUICE_GGUF_ARRAY) {
        print_array(gguf, entry, key);
    } else {
        print_number(gguf, entry, key);
    }
}

/* Both ends, and every 4099th byte between. */
static uint64_t
hash_sample(const SluiceGgufTensor *t)
{
    size_t n_end = MIN(t->n_bytes, 256);
    uint64_t h = hash(FNV_START, t->data, n_end);

    for (size_t i = 0; i < t->n_bytes; i += 4099)
        h = hash(h, t->data + i, 1);
    return hash(h, t->data + t->n_bytes - n_end, n_end);
}

int
main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceGguf) gguf = argc == 2 ? sluice_gguf_open(argv[1], &error) : NULL;

    if (gguf == NULL) {
        fprintf(stderr, "%s\n", error != NULL ? error->message : "usage: dump_gguf FILE");
        return 2;
    }
    for (size_t i = 0; i < sluice_gguf_n_entries(gguf); i++)
        print_entry(gguf, sluice_gguf_entry(gguf, i));
    for (size_t i = 0; i < sluice_gguf_n_tensors(gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(gguf, i);
        printf("tensor %s %d ", t->name, t->dtype);
        for (int d = 0; d < t->n_dims; d++)
            printf("%s%" PRId64, d > 0 ? "," : "", t->ne[d]);
        printf(" %zu %" PRIu64 " %016" PRIx64 "\n", t->n_bytes, t->offset, hash_sample(t));
    }
    return 0;
}
