/* SPDX-License-Identifier: MIT */
/* The generator that the header names; constants and order of operations are the paper's. */
#include "config.h"

#include "src/engine/mt19937.h"

#include <math.h>

#define N SLUICE_MT19937_N
#define M 397
#define MATRIX 0x9908b0dfu
#define UPPER 0x80000000u
#define LOWER 0x7fffffffu

/**
 * sluice_mt19937_init:
 * @mt: (out): caller storage
 * @seed: any number
 */
void
sluice_mt19937_init(SluiceMt19937 *mt, uint32_t seed)
{
    mt->state[0] = seed;
    for (uint32_t i = 1; i < N; i++)
        mt->state[i] = 1812433253u * (mt->state[i - 1] ^ (mt->state[i - 1] >> 30)) + i;
    mt->next = N;
}

static void
twist(SluiceMt19937 *mt)
{
    for (uint32_t i = 0; i < N; i++) {
        uint32_t y = (mt->state[i] & UPPER) | (mt->state[(i + 1) % N] & LOWER);

        mt->state[i] = mt->state[(i + M) % N] ^ (y >> 1) ^ ((y & 1u) != 0 ? MATRIX : 0);
    }
    mt->next = 0;
}

/**
 * sluice_mt19937_next:
 * @mt: a generator
 *
 * Returns: the next 32 bits
 */
uint32_t
sluice_mt19937_next(SluiceMt19937 *mt)
{
    uint32_t y;

    if (mt->next >= N)
        twist(mt);
    y = mt->state[mt->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

double
sluice_mt19937_double(SluiceMt19937 *mt)
{
    double low = sluice_mt19937_next(mt);
    double high = sluice_mt19937_next(mt);
    double u = (low + high * 0x1p32) * 0x1p-64;

    /* The sum above may round up to 1. */
    return u < 1.0 ? u : nextafter(1.0, 0.0);
}

float
sluice_mt19937_float(SluiceMt19937 *mt)
{
    float u = (float) sluice_mt19937_next(mt) * 0x1p-32f;

    return u < 1.0f ? u : nextafterf(1.0f, 0.0f);
}
