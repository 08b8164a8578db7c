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

/* ---- the table ------------------------------------------------------------------------------ */

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
        SluiceCpuQuantType *type = &k->types[i];

        if (type->block_len == 0)
            continue;
        type->gemm = pick_gemm(type);
        type->gemm_min_rows = type->n_bits == 8 ? PANEL_MIN_ROWS_WIDE : PANEL_MIN_ROWS;
    }
}
