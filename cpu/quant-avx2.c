/* SPDX-License-Identifier: MIT */
/* The AVX2 level: quantisation of activations, products of few rows, float weights. The blocked
 * product is in quant-gemm-avx2.c. */
#include "config.h"

#include "cpu/quant-gemv.h"

/* ---- activations ---------------------------------------------------------------------------- */

static void
quantise_avx2(const float *x, int64_t n, int8_t *q, float *d, float *s32, float *s16)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i ones8 = _mm256_set1_epi8(1);
    const __m256i ones16 = _mm256_set1_epi16(1);

    for (int64_t b = 0; b < n / 32; b++, x += 32, q += 32) {
        __m256 v[4];
        __m256i r[4];
        __m256 amax = _mm256_setzero_ps();
        __m128 m;
        __m256i packed;
        __m256i sums;
        float max;
        float inverse;
        int sum[2];

        for (int i = 0; i < 4; i++) {
            v[i] = _mm256_loadu_ps(x + 8 * i);
            amax = _mm256_max_ps(amax, _mm256_andnot_ps(sign, v[i]));
        }
        m = _mm_max_ps(_mm256_castps256_ps128(amax), _mm256_extractf128_ps(amax, 1));
        m = _mm_max_ps(m, _mm_movehl_ps(m, m));
        m = _mm_max_ss(m, _mm_movehdup_ps(m));
        max = _mm_cvtss_f32(m);
        if (!(max >= SLUICE_CPU_Q8_MIN))
            max = 0;
        d[b] = max / 127.0f;
        inverse = max > 0 ? 127.0f / max : 0;
        for (int i = 0; i < 4; i++)
            r[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(inverse)));
        /* The packs work in halves of 128 bits; the permutation puts the fours in order. */
        packed = _mm256_packs_epi16(_mm256_packs_epi32(r[0], r[1]), _mm256_packs_epi32(r[2], r[3]));
        packed = _mm256_permutevar8x32_epi32(packed, order);
        /* Rounding can carry the greatest magnitude to 127 and no further, but -128 would
         * overflow the products: infinities and NaN must not make one. */
        packed = _mm256_max_epi8(packed, _mm256_set1_epi8(-127));
        _mm256_storeu_si256((__m256i *) q, packed);
        sums = _mm256_madd_epi16(_mm256_maddubs_epi16(ones8, packed), ones16);
        sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4e));
        sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xb1));
        sum[0] = _mm256_extract_epi32(sums, 0);
        sum[1] = _mm256_extract_epi32(sums, 4);
        s16[2 * b] = d[b] * (float) sum[0];
        s16[2 * b + 1] = d[b] * (float) sum[1];
        s32[b] = d[b] * (float) (sum[0] + sum[1]);
    }
}

/* ---- float weights -------------------------------------------------------------------------- */

INLINE __m256
floats_f32(const uint8_t *at)
{
    return _mm256_loadu_ps((const float *) at);
}

INLINE __m256
floats_f16(const uint8_t *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) at));
}

INLINE __m256
floats_bf16(const uint8_t *at)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) at));

    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* A copy of the last values behind zeros lets one loop do for any length. */
#define DOT_FLOAT(name, n_bytes)                                                                   \
    INLINE void dot_##name(const uint8_t *row, int64_t n_cols, const float *const *x,              \
                           const int n_x, float *out)                                              \
    {                                                                                              \
        const int64_t n_whole = n_cols & ~(int64_t) 15;                                            \
        __m256 acc[4][2];                                                                          \
                                                                                                   \
        UNROLL for (int t = 0; t < n_x; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();          \
        for (int64_t i = 0; i < n_whole; i += 16) {                                                \
            const __m256 w0 = floats_##name(row + i * (n_bytes));                                  \
            const __m256 w1 = floats_##name(row + (i + 8) * (n_bytes));                            \
                                                                                                   \
            _mm_prefetch((const char *) row + i * (n_bytes) + PREFETCH_BYTES, _MM_HINT_T0);        \
            UNROLL for (int t = 0; t < n_x; t++)                                                   \
            {                                                                                      \
                acc[t][0] = _mm256_fmadd_ps(w0, _mm256_loadu_ps(x[t] + i), acc[t][0]);             \
                acc[t][1] = _mm256_fmadd_ps(w1, _mm256_loadu_ps(x[t] + i + 8), acc[t][1]);         \
            }                                                                                      \
        }                                                                                          \
        if (n_whole < n_cols) {                                                                    \
            const size_t n_left = (size_t) (n_cols - n_whole);                                     \
            uint8_t tail[16 * (n_bytes)] = {0};                                                    \
                                                                                                   \
            memcpy(tail, row + n_whole * (n_bytes), n_left * (n_bytes));                           \
            UNROLL for (int t = 0; t < n_x; t++)                                                   \
            {                                                                                      \
                float last[16] = {0};                                                              \
                                                                                                   \
                memcpy(last, x[t] + n_whole, n_left * sizeof *last);                               \
                acc[t][0] =                                                                        \
                    _mm256_fmadd_ps(floats_##name(tail), _mm256_loadu_ps(last), acc[t][0]);        \
                acc[t][1] = _mm256_fmadd_ps(floats_##name(tail + 8 * (n_bytes)),                   \
                                            _mm256_loadu_ps(last + 8), acc[t][1]);                 \
            }                                                                                      \
        }                                                                                          \
        UNROLL for (int t = 0; t < n_x; t++) out[t] =                                              \
            sum_floats(_mm256_add_ps(acc[t][0], acc[t][1]));                                       \
    }                                                                                              \
    static void gemv_##name(const void *rows, size_t row_stride, int64_t n_rows, int64_t n_cols,   \
                            const float *const *x, int n_x, float *y, int64_t ldy)                 \
    {                                                                                              \
        const uint8_t *row = rows;                                                                 \
                                                                                                   \
        for (int64_t j = 0; j < n_rows; j++, row += row_stride) {                                  \
            for (int t = 0; t < n_x; t += 4) {                                                     \
                float out[4];                                                                      \
                const int n = n_x - t < 4 ? n_x - t : 4;                                           \
                                                                                                   \
                if (n == 1)                                                                        \
                    dot_##name(row, n_cols, x + t, 1, out);                                        \
                else if (n == 2)                                                                   \
                    dot_##name(row, n_cols, x + t, 2, out);                                        \
                else if (n == 3)                                                                   \
                    dot_##name(row, n_cols, x + t, 3, out);                                        \
                else                                                                               \
                    dot_##name(row, n_cols, x + t, 4, out);                                        \
                for (int i = 0; i < n; i++)                                                        \
                    y[(t + i) * ldy + j] = out[i];                                                 \
            }                                                                                      \
        }                                                                                          \
    }

DOT_FLOAT(f32, 4)
DOT_FLOAT(f16, 2)
DOT_FLOAT(bf16, 2)

/* ---- the table ------------------------------------------------------------------------------ */

void
sluice_cpu_quant_init_avx2(SluiceCpuQuantKernels *k)
{
    k->quantise = quantise_avx2;
    sluice_cpu_quant_unpack_init_avx2(k);
    sluice_cpu_quant_gemm_init_avx2(k);
    install_gemv(k);
    k->types[SLUICE_DTYPE_F32].gemv_float = gemv_f32;
    k->types[SLUICE_DTYPE_F16].gemv_float = gemv_f16;
    k->types[SLUICE_DTYPE_BF16].gemv_float = gemv_bf16;
}
