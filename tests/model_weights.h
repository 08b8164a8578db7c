/* SPDX-License-Identifier: MIT */
/*
 * Random weights drawn directly in packed form, repeatable anywhere: integers from a counter, and
 * floating-point steps that IEEE 754 rounds in one way. tests/reference/make_model_weights.py
 * draws the same bytes, so that a seed stands for a model.
 *
 * The 64-bit word i of a tensor is mix(s + (i + 1) * 0x9e3779b97f4a7c15), with s = FNV-1a-64 of the
 * tensor's name, xor the seed, and mix the output function of SplitMix64 (Steele, Lea and Flood
 * 2014). Element i of a tensor of floats is made of word i; a packed tensor is the words as
 * little-endian bytes, in which the scales of every block are then overwritten.
 */
#pragma once

#include <glib.h>

#include "src/core/tensor.h"

typedef enum {
    MODEL_WEIGHTS_NORMAL, /* about N(0, std): the sum of the word's four 16-bit parts */
    MODEL_WEIGHTS_ONES,   /* 1 + N(0, 0.1): norms */
    MODEL_WEIGHTS_DECAY,  /* -0.25 to -2.25: the decay of a recurrence */
    MODEL_WEIGHTS_RAMP,   /* 1 to 8 in even steps: frequency factors */
} ModelWeightsKind;

typedef struct {
    SluiceDtype dtype;
    ModelWeightsKind kind;
    double std;
    int64_t n_elements;
    uint64_t state;
} ModelWeights;

/* Kind and deviation follow from the name, so that a reader of the file can know them. */
void model_weights_init(ModelWeights *m, const char *name, SluiceDtype dtype, int64_t row_len,
                        int64_t n_elements, bool is_tied, uint64_t seed);
/* Elements [first, first + n) into @out; @first is a multiple of 8 blocks, @n of one. */
void model_weights_fill(const ModelWeights *m, int64_t first, int64_t n, uint8_t *out);
