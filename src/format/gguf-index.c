/* SPDX-License-Identifier: MIT */
/* A hash index from names to positions. It owns its slots; names and items are its caller's. */
#include "config.h"

#include "src/format/gguf-private.h"

#include "src/core/error.h"

#include <string.h>

#define ROTL(x, n) (((x) << (n)) | ((x) >> (64 - (n))))

typedef struct {
    uint64_t v[4];
} SipState;

static void
sip_round(SipState *s)
{
    uint64_t *v = s->v;

    v[0] += v[1];
    v[2] += v[3];
    v[1] = ROTL(v[1], 13) ^ v[0];
    v[3] = ROTL(v[3], 16) ^ v[2];
    v[0] = ROTL(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = ROTL(v[1], 17) ^ v[2];
    v[3] = ROTL(v[3], 21) ^ v[0];
    v[2] = ROTL(v[2], 32);
}

/* Source: SipHash-1-3, Aumasson and Bernstein 2012. The value never leaves the process, so the
 * order of bytes does not matter. */
static uint64_t
hash_name(const uint64_t seed[2], SluiceGgufString name)
{
    SipState s = {{seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
                   seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u}};
    const char *p = name.data;
    size_t n_left = name.n_bytes;
    uint64_t word;

    for (; n_left >= 8; p += 8, n_left -= 8) {
        memcpy(&word, p, 8);
        s.v[3] ^= word;
        sip_round(&s);
        s.v[0] ^= word;
    }
    word = 0;
    memcpy(&word, p, n_left);
    word ^= (uint64_t) name.n_bytes << 56;
    s.v[3] ^= word;
    sip_round(&s);
    s.v[0] ^= word;
    s.v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(&s);
    return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}

/* The slot that holds @name, or the free one where it would go. */
static uint32_t *
find_slot(const SluiceGgufIndex *index, SluiceGgufString name, SluiceGgufNameFn name_of,
          const void *items)
{
    uint32_t at = (uint32_t) hash_name(index->seed, name) & index->mask;

    for (;; at = (at + 1) & index->mask) {
        uint32_t *slot = &index->slots[at];
        if (*slot == 0)
            return slot;
        SluiceGgufString other = name_of(items, *slot - 1);
        if (other.n_bytes == name.n_bytes && memcmp(other.data, name.data, name.n_bytes) == 0)
            return slot;
    }
}

/* An empty index with room for @n_items, which is at most 2^30. */
gboolean
sluice_gguf_index_init(SluiceGgufIndex *index, size_t n_items, GError **error)
{
    size_t n_slots = 4;

    g_assert(n_items <= 1u << 30);
    while (n_slots < 2 * n_items)
        n_slots *= 2;
    index->slots = g_try_new0(uint32_t, n_slots);
    if (index->slots == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "not enough memory for an index of %zu names", n_items);
        return FALSE;
    }
    index->mask = (uint32_t) (n_slots - 1);
    for (int i = 0; i < 2; i++)
        index->seed[i] = (uint64_t) g_random_int() << 32 | g_random_int();
    return TRUE;
}

void
sluice_gguf_index_clear(SluiceGgufIndex *index)
{
    g_clear_pointer(&index->slots, g_free);
}

/* The position of the item called @name, or -1. */
gssize
sluice_gguf_index_find(const SluiceGgufIndex *index, SluiceGgufString name,
                       SluiceGgufNameFn name_of, const void *items)
{
    return (gssize) *find_slot(index, name, name_of, items) - 1;
}

/* Adds the item at @item_idx; %FALSE if another one has its name. */
gboolean
sluice_gguf_index_add(SluiceGgufIndex *index, size_t item_idx, SluiceGgufNameFn name_of,
                      const void *items)
{
    uint32_t *slot = find_slot(index, name_of(items, item_idx), name_of, items);

    if (*slot != 0)
        return FALSE;
    *slot = (uint32_t) item_idx + 1;
    return TRUE;
}
