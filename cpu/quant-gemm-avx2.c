/* SPDX-License-Identifier: MIT */
/*
 * AVX2 micro-kernels of the blocked product. vpmaddubsw gives sums of two products in 16 bits,
 * and as many of them as the type's bits allow are added there before they are widened: eight
 * for 4 bits (8 * 2 * 15 * 127 = 30480), four for 5, two for 6, one for 7. Types of 8 bits would
 * saturate and take vpmaddwd over a wide panel.
 */
#include "config.h"

#include "cpu/quant-gemm.h"

/* depth: sums that 16 bits hold; n_subs: scales per block of 32. All are constants. */
INLINE void
micro_bytes(const Panel *panel, const SluiceCpuQ8Row *x, float *tile, const int n_x,
            const int depth, const int n_subs)
{
    const int n_steps = 8 / n_subs;
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 acc[4][2];

    UNROLL for (int t = 0; t < n_x; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (int64_t b = 0; b < panel->n_blocks; b++) {
        UNROLL for (int s = 0; s < n_subs; s++)
        {
            const float *d = panel->d + (b * n_subs + s) * PANEL_ROWS;
            const float *m = panel->m + (b * n_subs + s) * PANEL_ROWS;
            __m256i sum[4][2];

            UNROLL for (int g = 0; g < n_steps; g += depth)
            {
                __m256i p[4][2];

                UNROLL for (int k = g; k < g + depth; k++)
                {
                    const uint8_t *q = panel->q + (b * 8 + s * n_steps + k) * 4 * PANEL_ROWS;
                    const __m256i w0 = _mm256_load_si256((const __m256i *) q);
                    const __m256i w1 = _mm256_load_si256((const __m256i *) q + 1);

                    UNROLL for (int t = 0; t < n_x; t++)
                    {
                        const __m256i a = broadcast_dword(x[t].q + 32 * b + 4 * (s * n_steps + k));
                        const __m256i p0 = _mm256_maddubs_epi16(w0, a);
                        const __m256i p1 = _mm256_maddubs_epi16(w1, a);

                        p[t][0] = k == g ? p0 : _mm256_add_epi16(p[t][0], p0);
                        p[t][1] = k == g ? p1 : _mm256_add_epi16(p[t][1], p1);
                        KEEP(p[t][0]);
                        KEEP(p[t][1]);
                    }
                }
                UNROLL for (int t = 0; t < n_x; t++)
                {
                    const __m256i s0 = _mm256_madd_epi16(p[t][0], ones);
                    const __m256i s1 = _mm256_madd_epi16(p[t][1], ones);

                    sum[t][0] = g == 0 ? s0 : _mm256_add_epi32(sum[t][0], s0);
                    sum[t][1] = g == 0 ? s1 : _mm256_add_epi32(sum[t][1], s1);
                    KEEP(sum[t][0]);
                    KEEP(sum[t][1]);
                }
            }
            UNROLL for (int t = 0; t < n_x; t++)
            {
                const __m256 scale = _mm256_set1_ps(x[t].d[b]);
                const __m256 a = _mm256_set1_ps(n_subs == 2 ? x[t].s16[2 * b + s] : x[t].s32[b]);

                UNROLL for (int h = 0; h < 2; h++)
                {
                    acc[t][h] =
                        _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[t][h]),
                                        _mm256_mul_ps(_mm256_load_ps(d + 8 * h), scale), acc[t][h]);
                    acc[t][h] = _mm256_fnmadd_ps(_mm256_load_ps(m + 8 * h), a, acc[t][h]);
                }
            }
        }
    }
    UNROLL for (int t = 0; t < n_x; t++)
    {
        _mm256_store_ps(tile + t * PANEL_ROWS, acc[t][0]);
        _mm256_store_ps(tile + t * PANEL_ROWS + 8, acc[t][1]);
    }
}

/* Wide panels, one scale per block. */
INLINE void
micro_wide(const Panel *panel, const SluiceCpuQ8Row *x, float *tile, const int n_x)
{
    const int64_t n_cols = 32 * (int64_t) panel->n_blocks;
    __m256 acc[4][2];

    UNROLL for (int t = 0; t < n_x; t++)
    {
        int16_t *inputs = panel->inputs + t * PANEL_COLS;

        for (int64_t i = 0; i < n_cols; i += 16)
            _mm256_store_si256((__m256i *) (inputs + i), _mm256_cvtepi8_epi16(load128(x[t].q + i)));
        acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    }
    for (int64_t b = 0; b < panel->n_blocks; b++) {
        const float *d = panel->d + b * PANEL_ROWS;
        __m256i sum[4][2];

        UNROLL for (int k = 0; k < 16; k++)
        {
            const uint8_t *q = panel->q + (b * 16 + k) * 4 * PANEL_ROWS;
            const __m256i w0 = _mm256_load_si256((const __m256i *) q);
            const __m256i w1 = _mm256_load_si256((const __m256i *) q + 1);

            UNROLL for (int t = 0; t < n_x; t++)
            {
                const __m256i a = broadcast_dword(panel->inputs + t * PANEL_COLS + 32 * b + 2 * k);
                const __m256i p0 = _mm256_madd_epi16(w0, a);
                const __m256i p1 = _mm256_madd_epi16(w1, a);

                sum[t][0] = k == 0 ? p0 : _mm256_add_epi32(sum[t][0], p0);
                sum[t][1] = k == 0 ? p1 : _mm256_add_epi32(sum[t][1], p1);
                KEEP(sum[t][0]);
                KEEP(sum[t][1]);
            }
        }
        UNROLL for (int t = 0; t < n_x; t++)
        {
            const __m256 scale = _mm256_set1_ps(x[t].d[b]);

            UNROLL for (int h = 0; h < 2; h++) acc[t][h] =
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[t][h]),
                                _mm256_mul_ps(_mm256_load_ps(d + 8 * h), scale), acc[t][h]);
        }
    }
    UNROLL for (int t = 0; t < n_x; t++)
    {
        _mm256_store_ps(tile + t * PANEL_ROWS, acc[t][0]);
        _mm256_store_ps(tile + t * PANEL_ROWS + 8, acc[t][1]);
    }
}

/* ---- one function per depth, scales per block and number of input rows ---------------------- */

#define MICRO_BYTES(depth, n_subs, n_x)                                                            \
    static void micro_##depth##_##n_subs##_##n_x(const Panel *panel, const SluiceCpuQ8Row *x,      \
                                                 float *tile)                                      \
    {                                                                                              \
        micro_bytes(panel, x, tile, n_x, depth, n_subs);                                           \
    }

#define GEMM_BYTES_4(depth, n_subs)                                                                \
    MICRO_BYTES(depth, n_subs, 1)                                                                  \
    MICRO_BYTES(depth, n_subs, 2)                                                                  \
    MICRO_BYTES(depth, n_subs, 3)                                                                  \
    MICRO_BYTES(depth, n_subs, 4)                                                                  \
    static const Micro micro_##depth##_##n_subs = {                                                \
        4,                                                                                         \
        false,                                                                                     \
        {micro_##depth##_##n_subs##_1, micro_##depth##_##n_subs##_2, micro_##depth##_##n_subs##_3, \
         micro_##depth##_##n_subs##_4}};                                                           \
    GEMM(depth##_##n_subs, micro_##depth##_##n_subs, false)

#define GEMM_BYTES_2(depth, n_subs)                                                                \
    MICRO_BYTES(depth, n_subs, 1)                                                                  \
    MICRO_BYTES(depth, n_subs, 2)                                                                  \
    static const Micro micro_##depth##_##n_subs = {                                                \
        2, false, {micro_##depth##_##n_subs##_1, micro_##depth##_##n_subs##_2}};                   \
    GEMM(depth##_##n_subs, micro_##depth##_##n_subs, false)

/* Where each sum is widened at once, two input rows fill the registers. */
GEMM_BYTES_4(8, 1)
GEMM_BYTES_4(4, 1)
GEMM_BYTES_4(4, 2)
GEMM_BYTES_2(2, 2)
GEMM_BYTES_2(1, 1)
GEMM_BYTES_2(1, 2)

#define MICRO_WIDE(n_x)                                                                            \
    static void micro_wide_##n_x(const Panel *panel, const SluiceCpuQ8Row *x, float *tile)         \
    {                                                                                              \
        micro_wide(panel, x, tile, n_x);                                                           \
    }

MICRO_WIDE(1)
MICRO_WIDE(2)
MICRO_WIDE(3)
MICRO_WIDE(4)
static const Micro micro_16 = {4, true, {micro_wide_1, micro_wide_2, micro_wide_3, micro_wide_4}};
GEMM(wide, micro_16, true)

/* ---- unpacking ------------------------------------------------------------------------------ */

#define UNPACK_SIMPLE(name, Block, load, flip, scale, has_min)                                     \
    static void unpack_##name(const void *block, uint8_t *q, float *d, float *m)                   \
    {                                                                                              \
        const __m256i v = load((const Block *) block);                                             \
        const __m128 dm = scale(block);                                                            \
                                                                                                   \
        _mm256_storeu_si256((__m256i *) q, _mm256_xor_si256(v, _mm256_set1_epi8((char) flip)));    \
        d[0] = _mm_cvtss_f32(dm);                                                                  \
        if (has_min)                                                                               \
            m[0] = -_mm_cvtss_f32(_mm_movehdup_ps(dm));                                            \
    }

UNPACK_SIMPLE(q4_0, SluiceBlockQ4_0, bytes_q4_0, 0, half_scale, false)
UNPACK_SIMPLE(q4_1, SluiceBlockQ4_1, bytes_q4_1, 0, half_pair, true)
UNPACK_SIMPLE(q5_0, SluiceBlockQ5_0, bytes_q5_0, 0, half_scale, false)
UNPACK_SIMPLE(q5_1, SluiceBlockQ5_1, bytes_q5_1, 0, half_pair, true)
UNPACK_SIMPLE(q8_0, SluiceBlockQ8_0, bytes_q8_0, 0x80, half_scale, false)
UNPACK_SIMPLE(iq4_nl, SluiceBlockIQ4_NL, signed_iq4_nl, 0x80, half_scale, false)
UNPACK_SIMPLE(mxfp4, SluiceBlockMXFP4, bytes_mxfp4, 0, e8m0_scale, false)

#define UNPACK_SUPER32(name, Block, open, load, flip, has_min)                                     \
    static void unpack_##name(const void *block, uint8_t *q, float *d, float *m)                   \
    {                                                                                              \
        __m256 sc, mn;                                                                             \
                                                                                                   \
        open((const Block *) block, &sc, &mn);                                                     \
        _mm256_storeu_ps(d, sc);                                                                   \
        if (has_min)                                                                               \
            _mm256_storeu_ps(m, mn);                                                               \
        UNROLL for (int i = 0; i < 8; i++) _mm256_storeu_si256(                                    \
            (__m256i *) (q + 32 * i),                                                              \
            _mm256_xor_si256(load((const Block *) block, i), _mm256_set1_epi8((char) flip)));      \
    }

UNPACK_SUPER32(q4_k, SluiceBlockQ4_K, open_q4_k, bytes_q4_k, 0, true)
UNPACK_SUPER32(q5_k, SluiceBlockQ5_K, open_q5_k, bytes_q5_k, 0, true)
UNPACK_SUPER32(iq4_xs, SluiceBlockIQ4_XS, open_iq4_xs, signed_iq4_xs, 0x80, false)

#define UNPACK_SUPER16(name, Block, scales, load)                                                  \
    static void unpack_##name(const void *block, uint8_t *q, float *d, float *m)                   \
    {                                                                                              \
        const Block *b = block;                                                                    \
                                                                                                   \
        scales(b, d, m);                                                                           \
        UNROLL for (int i = 0; i < 8; i++)                                                         \
            _mm256_storeu_si256((__m256i *) (q + 32 * i), load(b, i));                             \
    }

INLINE void
store_scales(__m128i bytes, uint16_t factor, float *out)
{
    __m256 v[2];

    scale_floats(bytes, half_broadcast(factor), v);
    _mm256_storeu_ps(out, v[0]);
    _mm256_storeu_ps(out + 8, v[1]);
}

INLINE void
floats_q6_k(const SluiceBlockQ6_K *b, float *d, float *m)
{
    store_scales(load128(b->scales), b->d, d);
}

INLINE void
floats_q3_k(const SluiceBlockQ3_K *b, float *d, float *m)
{
    store_scales(scales_q3_k(b), b->d, d);
}

INLINE void
floats_q2_k(const SluiceBlockQ2_K *b, float *d, float *m)
{
    const __m128i v = load128(b->scales);
    const __m128i mask = _mm_set1_epi8(15);

    store_scales(_mm_and_si128(v, mask), b->d, d);
    store_scales(_mm_and_si128(_mm_srli_epi16(v, 4), mask), b->dmin, m);
}

UNPACK_SUPER16(q6_k, SluiceBlockQ6_K, floats_q6_k, bytes_q6_k)
UNPACK_SUPER16(q3_k, SluiceBlockQ3_K, floats_q3_k, bytes_q3_k)
UNPACK_SUPER16(q2_k, SluiceBlockQ2_K, floats_q2_k, bytes_q2_k)

/* ---- the table ------------------------------------------------------------------------------ */

void
sluice_cpu_quant_unpack_init_avx2(SluiceCpuQuantKernels *k)
{
    static const struct {
        SluiceDtype dtype;
        SluiceCpuUnpackFn unpack;
    } fast[] = {
        {SLUICE_DTYPE_Q4_0, unpack_q4_0},     {SLUICE_DTYPE_Q4_1, unpack_q4_1},
        {SLUICE_DTYPE_Q5_0, unpack_q5_0},     {SLUICE_DTYPE_Q5_1, unpack_q5_1},
        {SLUICE_DTYPE_Q8_0, unpack_q8_0},     {SLUICE_DTYPE_IQ4_NL, unpack_iq4_nl},
        {SLUICE_DTYPE_MXFP4, unpack_mxfp4},   {SLUICE_DTYPE_Q2_K, unpack_q2_k},
        {SLUICE_DTYPE_Q3_K, unpack_q3_k},     {SLUICE_DTYPE_Q4_K, unpack_q4_k},
        {SLUICE_DTYPE_Q5_K, unpack_q5_k},     {SLUICE_DTYPE_Q6_K, unpack_q6_k},
        {SLUICE_DTYPE_IQ4_XS, unpack_iq4_xs},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(fast); i++)
        k->types[fast[i].dtype].unpack = fast[i].unpack;
}

/* The product for so many bits and scales per block. */
static SluiceCpuQuantGemmFn
pick_gemm(const SluiceCpuQuantType *type)
{
    if (type->n_bits == 8)
        return gemm_wide;
    if (type->sub_len == 32)
        return type->n_bits <= 4 ? gemm_8_1 : type->n_bits == 5 ? gemm_4_1 : gemm_1_1;
    return type->n_bits <= 5 ? gemm_4_2 : type->n_bits == 6 ? gemm_2_2 : gemm_1_2;
}

void
sluice_cpu_quant_gemm_init_avx2(SluiceCpuQuantKernels *k)
{
    for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
        if (k->types[i].block_len != 0)
            k->types[i].gemm = pick_gemm(&k->types[i]);
    }
}
