/* SPDX-License-Identifier: MIT */
/*
 * Stages that look at what was said before: penalties on tokens, and DRY ("don't repeat
 * yourself") on sequences.
 */
#pragma once

#include "src/engine/candidates.h"

G_BEGIN_DECLS

/* logit *= or /= repeat, whichever lowers it, then -= count * frequency + presence, for tokens of
 * the history. counts: [n_vocab] zeros, and zeros again afterwards. */
void sluice_repetition_penalise(SluiceCandidates *c, const int32_t *history, int32_t n_history,
                                int32_t *counts, float repeat, float frequency, float presence);

#define SLUICE_DRY_MAX_TAIL 20

/* A token at which repetitions end when the tail follows it. */
typedef struct {
    int32_t head;
    int32_t n_tail;
    int32_t tail[SLUICE_DRY_MAX_TAIL];
} SluiceDryBreaker;

typedef struct {
    float multiplier;
    float base;
    int32_t allowed_length;
    const SluiceDryBreaker *breakers; /* by rising head */
    int32_t n_breakers;
} SluiceDry;

/* longest: [n_vocab] zeros, and zeros again afterwards; lengths: [n_history]. */
void sluice_repetition_dry(SluiceCandidates *c, const SluiceDry *dry, const int32_t *history,
                           int32_t n_history, int32_t *longest, int32_t *lengths);

G_END_DECLS
