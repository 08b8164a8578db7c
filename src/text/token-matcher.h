/* SPDX-License-Identifier: MIT */
/*
 * Finds the special tokens that a text spells out. The rule is that of the published tokenizers:
 * the longest token takes all its places first, from left to right, then the next longest takes
 * what is left, and so on; equal lengths go by id.
 */
#pragma once

#include <glib.h>

#include "src/format/gguf.h"
#include "src/text/span.h"

G_BEGIN_DECLS

typedef struct _SluiceTokenMatcher SluiceTokenMatcher;

/* A token that may be spelt out. */
typedef struct {
    int32_t id;
    bool is_guarded;  /* only where the text is trusted and special tokens are parsed */
    bool eats_spaces; /* white space behind it goes with it */
} SluiceTokenCandidate;

/* A place where one was: @begin to @end, eaten white space included. */
typedef struct {
    uint32_t begin, end;
    int32_t id;
} SluiceTokenMatch;

SluiceTokenMatcher *sluice_token_matcher_new(const SluiceGgufString *texts,
                                             const SluiceTokenCandidate *candidates,
                                             size_t n_candidates);
void sluice_token_matcher_free(SluiceTokenMatcher *matcher);
gboolean sluice_token_matcher_find(const SluiceTokenMatcher *matcher, const char *text,
                                   size_t n_bytes, bool parses_guarded,
                                   const SluiceTextSpan *untrusted, size_t n_untrusted,
                                   GArray *matches, GError **error);

G_END_DECLS
