/* SPDX-License-Identifier: MIT */
/* Half precision and bfloat16 in plain C. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline float
sluice_float_from_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t
sluice_float_bits(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Exact. */
static inline float
sluice_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t) (h & 0x8000) << 16;
    uint32_t exponent = h >> 10 & 31;
    uint32_t mantissa = h & 1023;

    if (exponent == 31)
        return sluice_float_from_bits(sign | 0x7f800000 | mantissa << 13);
    if (exponent != 0)
        return sluice_float_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    /* Zero or subnormal: mantissa * 2^-24, which float32 holds exactly. */
    float value = (float) mantissa * 0x1p-24f;
    return sign ? -value : value;
}

/* Rounds half to even; too large becomes infinity; NaN stays NaN. */
static inline uint16_t
sluice_half_from_float(float f)
{
    uint32_t bits = sluice_float_bits(f);
    uint16_t sign = (uint16_t) (bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;

    if (magnitude > 0x7f800000)
        return (uint16_t) (sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    if (magnitude >= 0x47800000)
        return sign | 0x7c00;
    if (magnitude < 0x38800000) {
        /* Adding 0.5 puts the last bit of the result at the last bit of the half: the addition
         * rounds for us. */
        float shifted = sluice_float_from_bits(magnitude) + 0.5f;
        return (uint16_t) (sign | (sluice_float_bits(shifted) - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t) (sign | ((magnitude - 0x38000000) >> 13));
}

static inline float
sluice_bf16_to_float(uint16_t h)
{
    return sluice_float_from_bits((uint32_t) h << 16);
}
