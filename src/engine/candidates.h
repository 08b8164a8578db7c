/* SPDX-License-Identifier: MIT */
/*
 * Candidates for the next token and the stages that thin them out. Each stage does one thing to
 * the list, so that they can run in any order.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/engine/mt19937.h"

G_BEGIN_DECLS

typedef struct {
    int32_t id;
    float logit;
    float p; /* as of the last softmax */
} SluiceCandidate;

/*
 * What is left of the vocabulary. The first n_sorted items are the best ones, by falling logit
 * with ties to the lower id; the others follow in any order. Stages sort only as far as they look:
 * a vocabulary has a quarter of a million entries, an answer needs a few dozen.
 */
typedef struct {
    SluiceCandidate *items;
    int32_t n;
    int32_t n_sorted;
} SluiceCandidates;

/* All ids [0, n) with their logits; not-a-number counts as impossible. */
void sluice_candidates_load(SluiceCandidates *c, const float *logits, int32_t n);
/* The same followed by top_k, in one pass. */
void sluice_candidates_load_top_k(SluiceCandidates *c, const float *logits, int32_t n, int32_t k);

void sluice_candidates_sort(SluiceCandidates *c, int32_t n);
void sluice_candidates_softmax(SluiceCandidates *c);
float sluice_candidates_max(const SluiceCandidates *c);

void sluice_candidates_top_k(SluiceCandidates *c, int32_t k);
void sluice_candidates_top_p(SluiceCandidates *c, float top_p);
void sluice_candidates_min_p(SluiceCandidates *c, float min_p);
void sluice_candidates_typical(SluiceCandidates *c, float typical_p);
void sluice_candidates_top_n_sigma(SluiceCandidates *c, float n_sigma);
void sluice_candidates_xtc(SluiceCandidates *c, float threshold);
void sluice_candidates_temperature(SluiceCandidates *c, float temperature, float range,
                                   float exponent);
void sluice_candidates_mirostat_v1(SluiceCandidates *c, float mu, int32_t n_vocab);
void sluice_candidates_mirostat_v2(SluiceCandidates *c, float mu);
/* The item that u of [0, 1) points to, by the probabilities of the last softmax. */
const SluiceCandidate *sluice_candidates_pick(const SluiceCandidates *c, double u);

G_END_DECLS
