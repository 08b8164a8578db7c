/* SPDX-License-Identifier: MIT */
/*
 * The AVX-VNNI level: 256-bit registers and vpdpbusd, which multiplies unsigned by signed bytes
 * and adds fours without saturation. All types share one micro-kernel per number of scales.
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
    __m256 acc[4][2];

    UNROLL for (int t = 0; t < n_x; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (int64_t s = 0; s < (int64_t) panel->n_blocks * n_subs; s++) {
        const float *d = panel->d + s * PANEL_ROWS;
        const float *m = panel->m + s * PANEL_ROWS;
        __m256i sum[4][2];

        UNROLL for (int t = 0; t < n_x; t++) sum[t][0] = sum[t][1] = _mm256_setzero_si256();
        UNROLL for (int k = 0; k < n_steps; k++)
        {
            const uint8_t *q = panel->q + (s * n_steps + k) * 4 * PANEL_ROWS;
            const __m256i w0 = load256(q);
            const __m256i w1 = load256(q + 32);

            UNROLL for (int t = 0; t < n_x; t++)
            {
                const __m256i a = broadcast_dword(x[t].q + 4 * (s * n_steps + k));

                sum[t][0] = sluice_dpbusd_256(sum[t][0], w0, a);
                sum[t][1] = sluice_dpbusd_256(sum[t][1], w1, a);
            }
        }
        UNROLL for (int t = 0; t < n_x; t++)
        {
            const __m256 scale = _mm256_set1_ps(x[t].d[s / n_subs]);
            const __m256 a = _mm256_set1_ps(n_subs == 2 ? x[t].s16[s] : x[t].s32[s]);

            UNROLL for (int h = 0; h < 2; h++)
            {
                acc[t][h] =
                    _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[t][h]),
                                    _mm256_mul_ps(_mm256_loadu_ps(d + 8 * h), scale), acc[t][h]);
                acc[t][h] = _mm256_fnmadd_ps(_mm256_loadu_ps(m + 8 * h), a, acc[t][h]);
            }
        }
    }
    UNROLL for (int t = 0; t < n_x; t++)
    {
        _mm256_storeu_ps(tile + t * PANEL_ROWS, acc[t][0]);
        _mm256_storeu_ps(tile + t * PANEL_ROWS + 8, acc[t][1]);
    }
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
    static const Micro micro_##n_subs = {                                                          \
        4,                                                                                         \
        PANEL_COLS,                                                                                \
        fill_bytes,                                                                                \
        {micro_##n_subs##_1, micro_##n_subs##_2, micro_##n_subs##_3, micro_##n_subs##_4}};         \
    GEMM(n_subs, micro_##n_subs)

MICROS(1)
MICROS(2)

void
SLUICE_LEVEL_NAME(sluice_cpu_quant_init_avxvnni)(SluiceCpuQuantKernels *k)
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
