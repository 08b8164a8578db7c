/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of the GGUF reader: opens the input as a file in memory and, if that works, asks for
 * everything that a caller could ask for. An input is the file itself, except that integers may be
 * aimed better than by chance: see the custom mutator, which libFuzzer finds by its name.
 */
#include "config.h"

#include "src/format/gguf-private.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t max_bytes, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n_bytes, size_t max_bytes) __attribute__((weak));

/* Kept where the compiler must write it, so that the reads before it happen. */
static volatile uint64_t sink;

static void
read_entry(const SluiceGguf *gguf, size_t entry_idx)
{
    const SluiceGgufEntry *entry = sluice_gguf_entry(gguf, entry_idx);
    g_autofree char *key = g_strndup(entry->key.data, entry->key.n_bytes);
    uint64_t u = 0, sum = 0;
    double f = 0;
    bool b = false;
    SluiceGgufString s = {NULL, 0};
    size_t n_items;

    sluice_gguf_uint(gguf, key, UINT64_MAX, &u, NULL);
    sluice_gguf_float(gguf, key, &f, NULL);
    sluice_gguf_bool(gguf, key, &b, NULL);
    sluice_gguf_string(gguf, key, &s, NULL);
    for (size_t i = 0; i < s.n_bytes; i++)
        sum += (uint8_t) s.data[i];
    g_free(sluice_gguf_int_array(gguf, key, &n_items, NULL));
    g_free(sluice_gguf_float_array(gguf, key, &n_items, NULL));
    g_autofree SluiceGgufString *strings = sluice_gguf_string_array(gguf, key, &n_items, NULL);
    for (size_t i = 0; i < n_items; i++) {
        for (size_t j = 0; j < strings[i].n_bytes; j++)
            sum += (uint8_t) strings[i].data[j];
    }
    sink += sum + u + b + (f > 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open_bytes(data, n_bytes, &error);

    if (gguf == NULL) {
        g_assert(error != NULL && g_utf8_validate(error->message, -1, NULL));
        return 0;
    }
    for (size_t i = 0; i < sluice_gguf_n_entries(gguf); i++)
        read_entry(gguf, i);
    for (size_t i = 0; i < sluice_gguf_n_tensors(gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(gguf, i);
        g_assert(sluice_gguf_tensor_find(gguf, t->name) == (gssize) i);
        g_assert(t->data >= data && t->n_bytes <= (size_t) (data + n_bytes - t->data));
        sink += t->data[0] + t->data[t->n_bytes - 1];
        sink += (uint64_t) sluice_gguf_verify_tensor(gguf, i, NULL);
    }
    return 0;
}

/* Numbers at which arithmetic goes wrong, with some noise around them. */
static uint64_t
draw_number(unsigned *seed)
{
    static const int shifts[] = {0, 1, 5, 8, 16, 20, 30, 31, 32, 61, 62, 63};
    unsigned choice = *seed % G_N_ELEMENTS(shifts);
    uint64_t noise = *seed / 16 % 5;

    *seed = *seed * 1103515245u + 12345u;
    return (1ull << shifts[choice]) + noise - 2;
}

/*
 * One mutation in two writes such a number over four or eight bytes anywhere, which a mutator of
 * single bytes rarely does; the other is libFuzzer's own. The header stays a header mostly.
 */
size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t max_bytes, unsigned seed)
{
    if (seed % 2 == 0 || n_bytes < 32)
        return LLVMFuzzerMutate != NULL ? LLVMFuzzerMutate(data, n_bytes, max_bytes) : n_bytes;
    unsigned state = seed * 2654435761u;
    uint64_t value = GUINT64_TO_LE(draw_number(&state));
    size_t width = state % 3 == 0 ? 4 : 8;
    size_t at = 8 + (state >> 8) % (n_bytes - 8 - width + 1);

    memcpy(data + at, &value, width);
    return n_bytes;
}
