/* SPDX-License-Identifier: MIT */
/*
 * A binary min-heap of 64-bit keys: what the merges and the search for special tokens take their
 * next step from. The upper half of a key is its priority, the lower half a position, so that equal
 * priorities come out from left to right.
 */
#pragma once

#include <glib.h>

#include "src/core/types.h"

G_BEGIN_DECLS

typedef struct {
    uint64_t *keys; /* [n_cap] */
    size_t n, n_cap;
} SluiceTokenHeap;

static inline uint64_t
sluice_token_heap_key(uint32_t priority, size_t pos)
{
    return (uint64_t) priority << 32 | (uint32_t) pos;
}

static inline bool
sluice_token_heap_reserve(SluiceTokenHeap *heap, size_t n_cap)
{
    uint64_t *keys;

    if (n_cap <= heap->n_cap)
        return true;
    n_cap = MAX(n_cap, heap->n_cap * 2);
    keys = g_try_realloc_n(heap->keys, n_cap, sizeof *keys);
    if (keys == NULL)
        return false;
    heap->keys = keys;
    heap->n_cap = n_cap;
    return true;
}

static inline void
sluice_token_heap_sift_down(SluiceTokenHeap *heap, size_t i)
{
    uint64_t key = heap->keys[i];

    for (size_t child; (child = 2 * i + 1) < heap->n; i = child) {
        if (child + 1 < heap->n && heap->keys[child + 1] < heap->keys[child])
            child++;
        if (key <= heap->keys[child])
            break;
        heap->keys[i] = heap->keys[child];
    }
    heap->keys[i] = key;
}

/* The caller has reserved the room. */
static inline void
sluice_token_heap_push(SluiceTokenHeap *heap, uint64_t key)
{
    size_t i = heap->n++;

    for (; i > 0 && heap->keys[(i - 1) / 2] > key; i = (i - 1) / 2)
        heap->keys[i] = heap->keys[(i - 1) / 2];
    heap->keys[i] = key;
}

static inline uint64_t
sluice_token_heap_pop(SluiceTokenHeap *heap)
{
    uint64_t key = heap->keys[0];

    heap->keys[0] = heap->keys[--heap->n];
    if (heap->n > 0)
        sluice_token_heap_sift_down(heap, 0);
    return key;
}

/* Orders keys that were written into the array in any order. */
static inline void
sluice_token_heap_build(SluiceTokenHeap *heap)
{
    for (size_t i = heap->n / 2; i-- > 0;)
        sluice_token_heap_sift_down(heap, i);
}

G_END_DECLS
