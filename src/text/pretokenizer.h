/* SPDX-License-Identifier: MIT */
/*
 * Pre-tokenizers: the regular expressions that cut a text into the pieces inside which a BPE
 * vocabulary merges, each written out as a scanner over UTF-8. No recursion, no allocation, and
 * time linear in the text whatever it holds.
 */
#pragma once

#include <glib.h>

#include "src/core/types.h"

G_BEGIN_DECLS

/* Every pre-tokenizer is a list of at most this many expressions: each splits all the pieces that
 * those before it left, at its matches; what lies between two matches is a piece as well. */
#define SLUICE_PRETOKENIZER_MAX_STAGES 6

/*
 * One expression. Tries a match at byte @pos < @n_bytes of @text. Returns where the match ends; or
 * @pos for none, and then *@resume, which the caller set to 0, may be raised to a position before
 * which no match begins.
 */
typedef size_t (*SluicePretokenizerStageFn)(const uint8_t *text, size_t n_bytes, size_t pos,
                                            size_t *resume);

typedef struct {
    SluicePretokenizerStageFn stages[SLUICE_PRETOKENIZER_MAX_STAGES];
    bool ignores_merges; /* a piece that is a token is taken whole, whatever the merges say */
    bool adds_bos;       /* unless the file says otherwise */
} SluicePretokenizer;

/* One level per stage: the part of its current piece that is still to be split. */
typedef struct {
    const SluicePretokenizer *pretokenizer;
    const uint8_t *text;
    size_t n_stages;
    struct {
        size_t pos, end;
        size_t match_begin, match_end; /* found, but not handed out before the gap in front of it */
    } levels[SLUICE_PRETOKENIZER_MAX_STAGES];
} SluicePretokenizerIter;

const SluicePretokenizer *sluice_pretokenizer_find(const char *name, gssize n_bytes);
const char *sluice_pretokenizer_name(size_t idx);
void sluice_pretokenizer_iter_init(SluicePretokenizerIter *iter,
                                   const SluicePretokenizer *pretokenizer, const uint8_t *text,
                                   size_t n_bytes);
bool sluice_pretokenizer_iter_next(SluicePretokenizerIter *iter, size_t *begin, size_t *end);

G_END_DECLS
