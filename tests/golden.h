/* SPDX-License-Identifier: MIT */
/*
 * Golden logits: what independent code computed from a model file for a fixed row of tokens, as
 * tests/reference/golden_file.py writes it, and the comparison of our own logits with it.
 */
#pragma once

#include <glib.h>

#include "src/sluice.h"

G_BEGIN_DECLS

typedef struct {
    int n_tokens;
    int n_vocab;
    int n_rows;            /* positions of which logits are kept */
    int n_kept;            /* logits kept of each, n_vocab when ids is NULL */
    double noise;          /* NMSE that int8 activations make here; 0: no weight is quantised */
    const int32_t *tokens; /* [n_tokens] */
    const int32_t *best;   /* [n_tokens], the largest logit behind each token */
    const float *margin;   /* [n_tokens], its distance to the runner-up */
    const int32_t *rows;   /* [n_rows] */
    const int32_t *ids;    /* [n_rows, n_kept], or NULL */
    const float *logits;   /* [n_rows, n_kept] */
    char *contents;
} SluiceGolden;

typedef struct {
    double nmse;         /* over all rows kept; infinite where a value is not finite */
    double worst_nmse;   /* of one row */
    int worst_pos;       /* its position */
    int n_best_differ;   /* positions above the margin whose argmax is another token */
    int first_differ;    /* the first of them, or -1 */
    int n_below_margin;  /* positions that were left out for a margin below the bound */
    double margin_bound; /* in logits */
} SluiceGoldenResult;

SluiceGolden *sluice_golden_load(const char *path, GError **error);
void sluice_golden_free(SluiceGolden *golden);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceGolden, sluice_golden_free)

void sluice_golden_compare(const SluiceGolden *golden, const float *logits, double nmse_bound,
                           SluiceGoldenResult *result);

gboolean sluice_golden_eval(SluiceEngine *engine, const SluiceGolden *golden, int n_split,
                            float *logits, GError **error);

G_END_DECLS
