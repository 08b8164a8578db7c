/* SPDX-License-Identifier: MIT */
/*
 * What the bits of every quantised block mean: the scalar unpack functions, and with them
 * dequantisation. This file is the definition; faster forms are tested against it.
 * Source: the GGUF block layouts, checked against the Python package `gguf`.
 */
#include "config.h"

#include "cpu/half.h"
#include "cpu/iq-tables.h"
#include "cpu/quant.h"
#include "src/core/blocks.h"
#include "src/core/tensor.h"

/* 16 levels of IQ4_NL and IQ4_XS, and the doubled E2M1 values, plus their offsets. */
static const uint8_t iq4_levels[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                       129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t fp4_levels[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* ---- helpers -------------------------------------------------------------------------------- */

static void
unpack_nibbles(const uint8_t *qs, uint8_t *q)
{
    for (int j = 0; j < 16; j++) {
        q[j] = qs[j] & 15;
        q[j + 16] = qs[j] >> 4;
    }
}

static void
unpack_fifth_bits(uint32_t qh, uint8_t *q)
{
    for (int e = 0; e < 32; e++)
        q[e] |= ((qh >> e) & 1) << 4;
}

static void
look_up(const uint8_t *levels, uint8_t *q, int n)
{
    for (int e = 0; e < n; e++)
        q[e] = levels[q[e]];
}

/* The eight 6-bit scales and minimums of Q4_K and Q5_K. */
static void
unpack_scales_k4(const uint8_t *s, float d, float dmin, float *ds, float *ms)
{
    for (int j = 0; j < 8; j++) {
        int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4);
        int min = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | ((s[j] >> 6) << 4);

        ds[j] = d * (float) scale;
        ms[j] = dmin * (float) min;
    }
}

/* Eight (or four) codebook bytes with the signs of their elements, moved to unsigned. */
static void
put_signed(uint64_t values, int n, unsigned signs, int offset, uint8_t *q)
{
    for (int j = 0; j < n; j++) {
        int value = (int) ((values >> (8 * j)) & 255);

        q[j] = (uint8_t) (offset + ((signs >> j) & 1 ? -value : value));
    }
}

/* ---- codebooks ------------------------------------------------------------------------------ */

static void
expand_codes(const uint16_t *codes, int n, int width, int dims, const uint8_t *values,
             uint64_t *out64, uint32_t *out32)
{
    for (int i = 0; i < n; i++) {
        uint64_t entry = 0;

        for (int j = 0; j < dims; j++)
            entry |= (uint64_t) values[(codes[i] >> (width * j)) & ((1 << width) - 1)] << (8 * j);
        if (out64 != NULL)
            out64[i] = entry;
        else
            out32[i] = (uint32_t) entry;
    }
}

static void
expand_tables(SluiceCpuIqTables *t)
{
    static const uint8_t iq2[4] = {8, 25, 43, 0};
    static const uint8_t iq1[4] = {0xf8, 0, 8, 0};
    static const uint8_t iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    static const uint8_t iq3_s[8] = {1, 3, 5, 7, 9, 11, 13, 15};

    expand_codes(sluice_cpu_codes_iq2_xxs, 256, 2, 8, iq2, t->iq2_xxs, NULL);
    expand_codes(sluice_cpu_codes_iq2_xs, 512, 2, 8, iq2, t->iq2_xs, NULL);
    expand_codes(sluice_cpu_codes_iq2_s, 1024, 2, 8, iq2, t->iq2_s, NULL);
    expand_codes(sluice_cpu_codes_iq1, 2048, 2, 8, iq1, t->iq1, NULL);
    expand_codes(sluice_cpu_codes_iq3_xxs, 256, 3, 4, iq3_xxs, NULL, t->iq3_xxs);
    expand_codes(sluice_cpu_codes_iq3_s, 512, 3, 4, iq3_s, NULL, t->iq3_s);
    for (unsigned i = 0; i < 128; i++)
        t->signs[i] = (uint8_t) (i | (unsigned) __builtin_parity(i) << 7);
}

const SluiceCpuIqTables *
sluice_cpu_iq_tables(void)
{
    static SluiceCpuIqTables tables;
    static gsize is_ready;

    if (g_once_init_enter(&is_ready)) {
        expand_tables(&tables);
        g_once_init_leave(&is_ready, 1);
    }
    return &tables;
}

/* ---- 32 elements ---------------------------------------------------------------------------- */

static void
unpack_q4_0(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ4_0 *b = block;

    unpack_nibbles(b->qs, q);
    d[0] = sluice_half_to_float(b->d);
}

static void
unpack_q4_1(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ4_1 *b = block;

    unpack_nibbles(b->qs, q);
    d[0] = sluice_half_to_float(b->d);
    m[0] = -sluice_half_to_float(b->m);
}

static void
unpack_q5_0(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ5_0 *b = block;

    unpack_nibbles(b->qs, q);
    unpack_fifth_bits(b->qh, q);
    d[0] = sluice_half_to_float(b->d);
}

static void
unpack_q5_1(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ5_1 *b = block;

    unpack_nibbles(b->qs, q);
    unpack_fifth_bits(b->qh, q);
    d[0] = sluice_half_to_float(b->d);
    m[0] = -sluice_half_to_float(b->m);
}

static void
unpack_q8_0(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ8_0 *b = block;

    for (int e = 0; e < 32; e++)
        q[e] = (uint8_t) (b->qs[e] + 128);
    d[0] = sluice_half_to_float(b->d);
}

static void
unpack_iq4_nl(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ4_NL *b = block;

    unpack_nibbles(b->qs, q);
    look_up(iq4_levels, q, 32);
    d[0] = sluice_half_to_float(b->d);
}

static void
unpack_mxfp4(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockMXFP4 *b = block;

    unpack_nibbles(b->qs, q);
    look_up(fp4_levels, q, 32);
    /* 2^(e - 128): below 2 the result is subnormal. */
    d[0] = sluice_float_from_bits(b->e < 2 ? 0x00200000u << b->e : (uint32_t) (b->e - 1) << 23);
}

/* ---- 64 and 128 elements -------------------------------------------------------------------- */

static float
ue4m3_half(uint8_t x)
{
    int exponent = (x >> 3) & 15;
    int mantissa = x & 7;

    if (x == 0 || x == 0x7f)
        return 0;
    if (exponent == 0)
        return (float) mantissa * 0x1p-10f;
    return sluice_float_from_bits((uint32_t) (exponent + 119) << 23 | (uint32_t) mantissa << 20);
}

static void
unpack_nvfp4(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockNVFP4 *b = block;

    for (int s = 0; s < 4; s++) {
        for (int j = 0; j < 8; j++) {
            q[16 * s + j] = fp4_levels[b->qs[8 * s + j] & 15];
            q[16 * s + j + 8] = fp4_levels[b->qs[8 * s + j] >> 4];
        }
        d[s] = ue4m3_half(b->d[s]);
    }
}

static void
unpack_q2_0(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ2_0 *b = block;

    for (int e = 0; e < 64; e++)
        q[e] = (b->qs[e / 4] >> (2 * (e % 4))) & 3;
    d[0] = d[1] = sluice_half_to_float(b->d);
}

static void
unpack_q1_0(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ1_0 *b = block;

    for (int e = 0; e < 128; e++)
        q[e] = 2 * ((b->qs[e / 8] >> (e % 8)) & 1);
    d[0] = d[1] = d[2] = d[3] = sluice_half_to_float(b->d);
}

/* ---- 256 elements: K ------------------------------------------------------------------------ */

static void
unpack_q2_k(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ2_K *b = block;
    float scale = sluice_half_to_float(b->d);
    float min = sluice_half_to_float(b->dmin);

    for (int e = 0; e < 256; e++)
        q[e] = (b->qs[32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32))) & 3;
    for (int k = 0; k < 16; k++) {
        d[k] = scale * (float) (b->scales[k] & 15);
        m[k] = min * (float) (b->scales[k] >> 4);
    }
}

static void
unpack_q3_k(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ3_K *b = block;
    float scale = sluice_half_to_float(b->d);

    for (int e = 0; e < 256; e++) {
        int low = (b->qs[32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32))) & 3;

        q[e] = (uint8_t) (low | ((b->hmask[e % 32] >> (e / 32)) & 1) << 2);
    }
    for (int k = 0; k < 16; k++) {
        int low = (b->scales[k % 8] >> (4 * (k / 8))) & 15;
        int high = (b->scales[8 + k % 4] >> (2 * (k / 4))) & 3;

        d[k] = scale * (float) ((low | high << 4) - 32);
    }
}

static void
unpack_q4_k(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ4_K *b = block;

    for (int e = 0; e < 256; e++)
        q[e] = (b->qs[32 * (e / 64) + e % 32] >> (4 * (e / 32 % 2))) & 15;
    unpack_scales_k4(b->scales, sluice_half_to_float(b->d), sluice_half_to_float(b->dmin), d, m);
}

static void
unpack_q5_k(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ5_K *b = block;

    for (int e = 0; e < 256; e++) {
        int low = (b->qs[32 * (e / 64) + e % 32] >> (4 * (e / 32 % 2))) & 15;

        q[e] = (uint8_t) (low | ((b->qh[e % 32] >> (e / 32)) & 1) << 4);
    }
    unpack_scales_k4(b->scales, sluice_half_to_float(b->d), sluice_half_to_float(b->dmin), d, m);
}

static void
unpack_q6_k(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ6_K *b = block;
    float scale = sluice_half_to_float(b->d);

    for (int e = 0; e < 256; e++) {
        int n = e / 128;
        int k = e % 128 / 32;
        int l = e % 32;
        int low = (b->ql[64 * n + 32 * (k & 1) + l] >> (4 * (k / 2))) & 15;

        q[e] = (uint8_t) (low | ((b->qh[32 * n + l] >> (2 * k)) & 3) << 4);
    }
    for (int k = 0; k < 16; k++)
        d[k] = scale * (float) b->scales[k];
}

/* ---- 256 elements: ternary ------------------------------------------------------------------ */

/* Digit n, highest first, of a base-3 fraction in 8 bits. */
static uint8_t
trit(uint8_t x, int n)
{
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};

    return (uint8_t) (((x * powers[n]) & 255) * 3 >> 8);
}

static void
unpack_tq1_0(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockTQ1_0 *b = block;

    for (int e = 0; e < 160; e++)
        q[e] = trit(b->qs[e % 32], e / 32);
    for (int e = 0; e < 80; e++)
        q[160 + e] = trit(b->qs[32 + e % 16], e / 16);
    for (int e = 0; e < 16; e++)
        q[240 + e] = trit(b->qh[e % 4], e / 4);
    for (int k = 0; k < 8; k++)
        d[k] = sluice_half_to_float(b->d);
}

static void
unpack_tq2_0(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockTQ2_0 *b = block;

    for (int e = 0; e < 256; e++)
        q[e] = (b->qs[32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32))) & 3;
    for (int k = 0; k < 8; k++)
        d[k] = sluice_half_to_float(b->d);
}

/* ---- 256 elements: codebooks ---------------------------------------------------------------- */

/* IQ2: (0.5 + scale) / 4 in steps that float32 holds exactly. */
static float
iq2_scale(float d, int scale)
{
    return d * (float) (2 * scale + 1) * 0.125f;
}

static void
unpack_iq2_xxs(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ2_XXS *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    float scale = sluice_half_to_float(b->d);

    for (int ib = 0; ib < 8; ib++) {
        uint32_t a = b->group[ib].signs_scale;

        for (int l = 0; l < 4; l++)
            put_signed(t->iq2_xxs[b->group[ib].idx[l]], 8, t->signs[(a >> (7 * l)) & 127], 43,
                       q + 32 * ib + 8 * l);
        d[ib] = iq2_scale(scale, (int) (a >> 28));
    }
}

static void
unpack_iq2_xs(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ2_XS *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    float scale = sluice_half_to_float(b->d);

    for (int l = 0; l < 32; l++)
        put_signed(t->iq2_xs[b->qs[l] & 511], 8, t->signs[b->qs[l] >> 9], 43, q + 8 * l);
    for (int k = 0; k < 16; k++)
        d[k] = iq2_scale(scale, (b->scales[k / 2] >> (4 * (k % 2))) & 15);
}

static void
unpack_iq2_s(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ2_S *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    float scale = sluice_half_to_float(b->d);

    for (int l = 0; l < 32; l++) {
        int idx = b->idx[l] | ((b->qh[l / 4] >> (2 * (l % 4))) & 3) << 8;

        put_signed(t->iq2_s[idx], 8, b->signs[l], 43, q + 8 * l);
    }
    for (int k = 0; k < 16; k++)
        d[k] = iq2_scale(scale, (b->scales[k / 2] >> (4 * (k % 2))) & 15);
}

static void
unpack_iq3_xxs(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ3_XXS *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    float scale = sluice_half_to_float(b->d);

    for (int ib = 0; ib < 8; ib++) {
        uint32_t a = b->signs_scale[ib];

        for (int l = 0; l < 4; l++) {
            const uint8_t *idx = b->idx + 8 * ib + 2 * l;
            uint64_t values = t->iq3_xxs[idx[0]] | (uint64_t) t->iq3_xxs[idx[1]] << 32;

            put_signed(values, 8, t->signs[(a >> (7 * l)) & 127], 62, q + 32 * ib + 8 * l);
        }
        d[ib] = scale * (float) (2 * (a >> 28) + 1) * 0.25f;
    }
}

static void
unpack_iq3_s(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ3_S *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    float scale = sluice_half_to_float(b->d);

    for (int i = 0; i < 64; i++) {
        int idx = b->idx[i] | ((b->qh[i / 8] >> (i % 8)) & 1) << 8;

        put_signed(t->iq3_s[idx], 4, b->signs[i / 2] >> (4 * (i % 2)), 15, q + 4 * i);
    }
    for (int ib = 0; ib < 8; ib++)
        d[ib] = scale * (float) (1 + 2 * ((b->scales[ib / 2] >> (4 * (ib % 2))) & 15));
}

/* IQ1: eight times (value +- 1/8), which is a whole number, plus 9. */
static void
put_iq1(uint64_t values, bool is_shifted_down, uint8_t *q)
{
    for (int j = 0; j < 8; j++)
        q[j] = (uint8_t) ((int8_t) (values >> (8 * j)) + (is_shifted_down ? 8 : 10));
}

static void
unpack_iq1_s(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ1_S *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    float scale = sluice_half_to_float(b->d);

    for (int ib = 0; ib < 8; ib++) {
        int w = b->qh[ib];

        for (int l = 0; l < 4; l++)
            put_iq1(t->iq1[b->idx[4 * ib + l] | ((w >> (3 * l)) & 7) << 8], w >> 15 != 0,
                    q + 32 * ib + 8 * l);
        d[ib] = scale * (float) (2 * ((w >> 12) & 7) + 1) * 0.125f;
    }
}

static void
unpack_iq1_m(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ1_M *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    unsigned bits = 0;
    float scale;

    for (int i = 0; i < 4; i++)
        bits |= (unsigned) (b->scales[i] >> 12) << (4 * i);
    scale = sluice_half_to_float((uint16_t) bits);
    for (int l = 0; l < 32; l++) {
        int high = (b->qh[l / 2] >> (4 * (l % 2))) & 15;

        put_iq1(t->iq1[b->idx[l] | (high & 7) << 8], (high & 8) != 0, q + 8 * l);
    }
    for (int k = 0; k < 16; k++)
        d[k] = scale * (float) (2 * ((b->scales[k / 4] >> (3 * (k % 4))) & 7) + 1) * 0.125f;
}

static void
unpack_iq4_xs(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ4_XS *b = block;
    float scale = sluice_half_to_float(b->d);

    for (int ib = 0; ib < 8; ib++) {
        int low = (b->scales_l[ib / 2] >> (4 * (ib % 2))) & 15;
        int high = (b->scales_h >> (2 * ib)) & 3;

        unpack_nibbles(b->qs + 16 * ib, q + 32 * ib);
        d[ib] = scale * (float) ((low | high << 4) - 32);
    }
    look_up(iq4_levels, q, 256);
}

/* ---- the table ------------------------------------------------------------------------------ */

#define TYPE(struct_name, len, sub, bits, off, min, fn)                                            \
    {                                                                                              \
        .block_len = (len), .block_bytes = sizeof(SluiceBlock##struct_name), .sub_len = (sub),     \
        .n_bits = (bits), .offset = (off), .has_min = (min), .unpack = (fn)                        \
    }

const SluiceCpuQuantType sluice_cpu_quant_types[SLUICE_DTYPE_COUNT] = {
    [SLUICE_DTYPE_Q4_0] = TYPE(Q4_0, 32, 32, 4, 8, false, unpack_q4_0),
    [SLUICE_DTYPE_Q4_1] = TYPE(Q4_1, 32, 32, 4, 0, true, unpack_q4_1),
    [SLUICE_DTYPE_Q5_0] = TYPE(Q5_0, 32, 32, 5, 16, false, unpack_q5_0),
    [SLUICE_DTYPE_Q5_1] = TYPE(Q5_1, 32, 32, 5, 0, true, unpack_q5_1),
    [SLUICE_DTYPE_Q8_0] = TYPE(Q8_0, 32, 32, 8, 128, false, unpack_q8_0),
    [SLUICE_DTYPE_Q2_K] = TYPE(Q2_K, 256, 16, 2, 0, true, unpack_q2_k),
    [SLUICE_DTYPE_Q3_K] = TYPE(Q3_K, 256, 16, 3, 4, false, unpack_q3_k),
    [SLUICE_DTYPE_Q4_K] = TYPE(Q4_K, 256, 32, 4, 0, true, unpack_q4_k),
    [SLUICE_DTYPE_Q5_K] = TYPE(Q5_K, 256, 32, 5, 0, true, unpack_q5_k),
    [SLUICE_DTYPE_Q6_K] = TYPE(Q6_K, 256, 16, 6, 32, false, unpack_q6_k),
    [SLUICE_DTYPE_IQ2_XXS] = TYPE(IQ2_XXS, 256, 32, 7, 43, false, unpack_iq2_xxs),
    [SLUICE_DTYPE_IQ2_XS] = TYPE(IQ2_XS, 256, 16, 7, 43, false, unpack_iq2_xs),
    [SLUICE_DTYPE_IQ3_XXS] = TYPE(IQ3_XXS, 256, 32, 7, 62, false, unpack_iq3_xxs),
    [SLUICE_DTYPE_IQ1_S] = TYPE(IQ1_S, 256, 32, 5, 9, false, unpack_iq1_s),
    [SLUICE_DTYPE_IQ4_NL] = TYPE(IQ4_NL, 32, 32, 8, 128, false, unpack_iq4_nl),
    [SLUICE_DTYPE_IQ3_S] = TYPE(IQ3_S, 256, 32, 5, 15, false, unpack_iq3_s),
    [SLUICE_DTYPE_IQ2_S] = TYPE(IQ2_S, 256, 16, 7, 43, false, unpack_iq2_s),
    [SLUICE_DTYPE_IQ4_XS] = TYPE(IQ4_XS, 256, 32, 8, 128, false, unpack_iq4_xs),
    [SLUICE_DTYPE_IQ1_M] = TYPE(IQ1_M, 256, 16, 5, 9, false, unpack_iq1_m),
    [SLUICE_DTYPE_TQ1_0] = TYPE(TQ1_0, 256, 32, 2, 1, false, unpack_tq1_0),
    [SLUICE_DTYPE_TQ2_0] = TYPE(TQ2_0, 256, 32, 2, 1, false, unpack_tq2_0),
    [SLUICE_DTYPE_MXFP4] = TYPE(MXFP4, 32, 32, 5, 12, false, unpack_mxfp4),
    [SLUICE_DTYPE_NVFP4] = TYPE(NVFP4, 64, 16, 5, 12, false, unpack_nvfp4),
    [SLUICE_DTYPE_Q1_0] = TYPE(Q1_0, 128, 32, 2, 1, false, unpack_q1_0),
    [SLUICE_DTYPE_Q2_0] = TYPE(Q2_0, 64, 32, 2, 1, false, unpack_q2_0),
};

static void
dequantise_blocks(const SluiceCpuQuantType *type, const uint8_t *row, float *out, int64_t n)
{
    uint8_t q[SLUICE_CPU_BLOCK_MAX];
    float d[SLUICE_CPU_BLOCK_MAX / 16];
    float m[SLUICE_CPU_BLOCK_MAX / 16] = {0};

    for (int64_t i = 0; i < n; i += type->block_len, row += type->block_bytes) {
        type->unpack(row, q, d, m);
        for (int e = 0; e < type->block_len; e++) {
            int k = e / type->sub_len;
            float value = d[k] * (float) (q[e] - type->offset);

            out[i + e] = type->has_min ? value - m[k] : value;
        }
    }
}

/**
 * sluice_cpu_dequantise:
 * @dtype: a floating-point or quantised type
 * @row: the first block, at any address
 * @out: (out): @n values
 * @n: a multiple of the block length
 *
 * Returns: %FALSE if @dtype has no float32 values or @n is no multiple of its block length
 * Since: 0.1
 */
gboolean
sluice_cpu_dequantise(SluiceDtype dtype, const void *row, float *out, int64_t n)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);
    const uint8_t *bytes = row;

    if (info == NULL || n < 0 || n % info->block_len != 0)
        return FALSE;
    if (info->is_quantised) {
        dequantise_blocks(&sluice_cpu_quant_types[dtype], row, out, n);
        return TRUE;
    }
    if (dtype == SLUICE_DTYPE_F32) {
        memcpy(out, row, (size_t) n * sizeof *out);
        return TRUE;
    }
    if (dtype != SLUICE_DTYPE_F16 && dtype != SLUICE_DTYPE_BF16)
        return FALSE;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;

        memcpy(&h, bytes + 2 * i, sizeof h);
        out[i] = dtype == SLUICE_DTYPE_F16 ? sluice_half_to_float(h) : sluice_bf16_to_float(h);
    }
    return TRUE;
}
