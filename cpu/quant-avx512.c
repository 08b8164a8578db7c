/* SPDX-License-Identifier: MIT */
/*
 * The AVX-512 level with VNNI. Products of few rows are bound by memory and stay at 256 bits, with
 * vpdpbusd; the blocked product has all 16 rows of a panel in one register and up to eight input
 * rows in flight.
 */
#include "config.h"

#define SLUICE_LEVEL_VNNI
#include "cpu/quant-gemm.h"
#include "cpu/quant-gemv.h"

INLINE void
micro_dpbusd(const Panel *panel, const SluiceCpuQ8Row *x, float *tile, const int n_x,
             const int n_subs)
{
    const int n_steps = 8 / n_subs;
    __m512 acc[8];

    UNROLL for (int t = 0; t < n_x; t++) acc[t] = _mm512_setzero_ps();
    for (int64_t s = 0; s < (int64_t) panel->n_blocks * n_subs; s++) {
        const __m512 d = _mm512_loadu_ps(panel->d + s * PANEL_ROWS);
        const __m512 m = _mm512_loadu_ps(panel->m + s * PANEL_ROWS);
        __m512i sum[8];

        UNROLL for (int t = 0; t < n_x; t++) sum[t] = _mm512_setzero_si512();
        UNROLL for (int k = 0; k < n_steps; k++)
        {
            const __m512i w = _mm512_loadu_si512(panel->q + (s * n_steps + k) * 4 * PANEL_ROWS);

            UNROLL for (int t = 0; t < n_x; t++)
            {
                int32_t a;

                memcpy(&a, x[t].q + 4 * (s * n_steps + k), sizeof a);
                sum[t] = _mm512_dpbusd_epi32(sum[t], w, _mm512_set1_epi32(a));
            }
        }
        UNROLL for (int t = 0; t < n_x; t++)
        {
            const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(x[t].d[s / n_subs]));
            const __m512 a = _mm512_set1_ps(n_subs == 2 ? x[t].s16[s] : x[t].s32[s]);

            acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[t]), scale, acc[t]);
            acc[t] = _mm512_fnmadd_ps(m, a, acc[t]);
        }
    }
    UNROLL for (int t = 0; t < n_x; t++) _mm512_storeu_ps(tile + t * PANEL_ROWS, acc[t]);
}

#define MICRO(n_subs, n_x)                                                                         \
    static void micro_##n_subs##_##n_x(const Panel *panel, const SluiceCpuQ8Row *x, float *tile)   \
    {                                                                                              \
        micro_dpbusd(panel, x, tile, n_x, n_subs);                                                 \
    }

#define MICROS(n_subs)                                                                             \
    MICRO(n_subs, 1)                                                                               \
    MICRO(n_subs, 2)                                                                               \
    MICRO(n_subs, 3)                                                                               \
    MICRO(n_subs, 4)                                                                               \
    MICRO(n_subs, 5)                                                                               \
    MICRO(n_subs, 6)                                                                               \
    MICRO(n_subs, 7)                                                                               \
    MICRO(n_subs, 8)                                                                               \
    static const Micro micro_##n_subs = {                                                          \
        8,                                                                                         \
        PANEL_COLS,                                                                                \
        fill_bytes,                                                                                \
        {micro_##n_subs##_1, micro_##n_subs##_2, micro_##n_subs##_3, micro_##n_subs##_4,           \
         micro_##n_subs##_5, micro_##n_subs##_6, micro_##n_subs##_7, micro_##n_subs##_8}};         \
    GEMM(n_subs, micro_##n_subs)

MICROS(1)
MICROS(2)

void
SLUICE_LEVEL_NAME(sluice_cpu_quant_init_avx512)(SluiceCpuQuantKernels *k)
{
    install_gemv(k);
    for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
        SluiceCpuQuantType *type = &k->types[i];

        if (type->block_len == 0)
            continue;
        type->gemm = type->sub_len == 16 ? gemm_2 : gemm_1;
        type->gemm_min_rows = PANEL_MIN_ROWS;
    }
}
