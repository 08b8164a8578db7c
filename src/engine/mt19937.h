/* SPDX-License-Identifier: MIT */
/*
 * The Mersenne twister of 32 bits, so that a seed draws the same numbers here as elsewhere.
 * Source: Matsumoto and Nishimura 1998, ACM Transactions on Modeling and Computer Simulation 8(1).
 */
#pragma once

#include <glib.h>
#include <stdint.h>

G_BEGIN_DECLS

#define SLUICE_MT19937_N 624

typedef struct {
    uint32_t state[SLUICE_MT19937_N];
    uint32_t next; /* index of the next word of state; N: twist first */
} SluiceMt19937;

void sluice_mt19937_init(SluiceMt19937 *mt, uint32_t seed);
uint32_t sluice_mt19937_next(SluiceMt19937 *mt);
/* In [0, 1), of two words, the low one first. */
double sluice_mt19937_double(SluiceMt19937 *mt);
/* In [0, 1), of one word. */
float sluice_mt19937_float(SluiceMt19937 *mt);

G_END_DECLS
