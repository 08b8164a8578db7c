/* SPDX-License-Identifier: MIT */
/*
 * The merge loop that BPE and SentencePiece share: of all adjacent pairs of symbols that may merge,
 * the one with the lowest priority does, the leftmost of equals first, until none is left.
 *
 * Inlined into its two users, because the pair function is nearly all of the work. Short pieces
 * look through their symbols for the next pair; long ones keep a heap. A key of the heap is stale
 * when the pair at its position has another priority by now.
 */
#pragma once

#include "src/text/token-heap.h"

G_BEGIN_DECLS

#define SLUICE_TOKEN_MERGE_NONE UINT32_MAX
/* Symbols up to which looking through all of them is faster than the heap. */
#define SLUICE_TOKEN_MERGE_SHORT 24

typedef struct {
    uint32_t begin, n_bytes; /* in the text of the piece */
    uint32_t prev, next;     /* neighbours, SLUICE_TOKEN_MERGE_NONE at the ends */
    int32_t id;              /* token, or negative if the symbol is none */
    int32_t merged_id;       /* of this symbol and the next, while priority is not NONE */
    uint32_t priority;
} SluiceTokenSymbol;

/* Working memory of one call to the encoder. */
typedef struct {
    SluiceTokenSymbol *symbols; /* [n_cap] */
    size_t n_cap;
    SluiceTokenHeap heap;
    uint8_t *text; /* [n_text_cap] */
    size_t n_text_cap;
} SluiceTokenScratch;

static inline bool
sluice_token_scratch_reserve(SluiceTokenScratch *scratch, size_t n_symbols)
{
    SluiceTokenSymbol *symbols;

    if (n_symbols <= scratch->n_cap)
        return true;
    n_symbols = MAX(n_symbols, scratch->n_cap * 2);
    symbols = g_try_realloc_n(scratch->symbols, n_symbols, sizeof *symbols);
    if (symbols == NULL)
        return false;
    scratch->symbols = symbols;
    scratch->n_cap = n_symbols;
    return true;
}

static inline bool
sluice_token_scratch_reserve_text(SluiceTokenScratch *scratch, size_t n_bytes)
{
    uint8_t *text;

    if (n_bytes <= scratch->n_text_cap)
        return true;
    text = g_try_realloc_n(scratch->text, n_bytes, 1);
    if (text == NULL)
        return false;
    scratch->text = text;
    scratch->n_text_cap = n_bytes;
    return true;
}

static inline void
sluice_token_scratch_clear(SluiceTokenScratch *scratch)
{
    g_free(scratch->symbols);
    g_free(scratch->heap.keys);
    g_free(scratch->text);
}

/* Priority of the pair of two neighbours, and the token that they make. */
typedef uint32_t (*SluiceTokenPairFn)(const void *context, const SluiceTokenSymbol *left,
                                      const SluiceTokenSymbol *right, int32_t *merged_id);

static inline void
sluice_token_merge_update(SluiceTokenSymbol *symbols, uint32_t i, SluiceTokenPairFn pair,
                          const void *context)
{
    SluiceTokenSymbol *left = &symbols[i];

    left->priority = left->next == SLUICE_TOKEN_MERGE_NONE
                         ? SLUICE_TOKEN_MERGE_NONE
                         : pair(context, left, &symbols[left->next], &left->merged_id);
}

/* Joins symbol @i and the one behind it. */
static inline void
sluice_token_merge_at(SluiceTokenSymbol *symbols, uint32_t i, SluiceTokenPairFn pair,
                      const void *context)
{
    SluiceTokenSymbol *left = &symbols[i];
    SluiceTokenSymbol *right = &symbols[left->next];

    left->id = left->merged_id;
    left->n_bytes += right->n_bytes;
    left->next = right->next;
    right->priority = SLUICE_TOKEN_MERGE_NONE;
    if (left->next != SLUICE_TOKEN_MERGE_NONE)
        symbols[left->next].prev = i;
    sluice_token_merge_update(symbols, i, pair, context);
    if (left->prev != SLUICE_TOKEN_MERGE_NONE)
        sluice_token_merge_update(symbols, left->prev, pair, context);
}

static inline void
sluice_token_merge_short(SluiceTokenSymbol *symbols, SluiceTokenPairFn pair, const void *context)
{
    for (;;) {
        uint32_t best = SLUICE_TOKEN_MERGE_NONE, best_priority = SLUICE_TOKEN_MERGE_NONE;
        for (uint32_t i = 0; i != SLUICE_TOKEN_MERGE_NONE; i = symbols[i].next) {
            if (symbols[i].priority < best_priority) {
                best = i;
                best_priority = symbols[i].priority;
            }
        }
        if (best == SLUICE_TOKEN_MERGE_NONE)
            return;
        sluice_token_merge_at(symbols, best, pair, context);
    }
}

static inline void
sluice_token_merge_push(SluiceTokenScratch *scratch, uint32_t i)
{
    if (i != SLUICE_TOKEN_MERGE_NONE && scratch->symbols[i].priority != SLUICE_TOKEN_MERGE_NONE)
        sluice_token_heap_push(&scratch->heap,
                               sluice_token_heap_key(scratch->symbols[i].priority, i));
}

static inline void
sluice_token_merge_long(SluiceTokenScratch *scratch, SluiceTokenPairFn pair, const void *context)
{
    SluiceTokenHeap *heap = &scratch->heap;
    SluiceTokenSymbol *symbols = scratch->symbols;

    heap->n = 0;
    for (uint32_t i = 0; i != SLUICE_TOKEN_MERGE_NONE; i = symbols[i].next)
        if (symbols[i].priority != SLUICE_TOKEN_MERGE_NONE)
            heap->keys[heap->n++] = sluice_token_heap_key(symbols[i].priority, i);
    sluice_token_heap_build(heap);
    while (heap->n > 0) {
        uint64_t key = sluice_token_heap_pop(heap);
        uint32_t i = (uint32_t) key;
        if (symbols[i].priority != key >> 32)
            continue;
        sluice_token_merge_at(symbols, i, pair, context);
        sluice_token_merge_push(scratch, i);
        sluice_token_merge_push(scratch, symbols[i].prev);
    }
}

/* Merges the @n symbols at the front of @scratch, whose begin, n_bytes and id are set. What is left
 * hangs together by next, from symbol 0. FALSE when there is no memory. */
static inline bool
sluice_token_merge(SluiceTokenScratch *scratch, size_t n, SluiceTokenPairFn pair,
                   const void *context)
{
    SluiceTokenSymbol *symbols = scratch->symbols;

    for (size_t i = 0; i < n; i++) {
        symbols[i].prev = i == 0 ? SLUICE_TOKEN_MERGE_NONE : (uint32_t) i - 1;
        symbols[i].next = i + 1 == n ? SLUICE_TOKEN_MERGE_NONE : (uint32_t) i + 1;
    }
    for (size_t i = 0; i < n; i++)
        sluice_token_merge_update(symbols, (uint32_t) i, pair, context);
    if (n <= SLUICE_TOKEN_MERGE_SHORT) {
        sluice_token_merge_short(symbols, pair, context);
        return true;
    }
    /* A merge takes one key out and puts at most two in, and there are at most n - 1. */
    if (!sluice_token_heap_reserve(&scratch->heap, 2 * n))
        return false;
    sluice_token_merge_long(scratch, pair, context);
    return true;
}

G_END_DECLS
