/* SPDX-License-Identifier: MIT */
/*
 * Products of quantised weights with few input rows, for every level of 256 bits and more.
 *
 * A block of 32 values is one register of unsigned bytes q. dot_bytes() multiplies them with the
 * activations and adds fours; the eight 32-bit sums are scaled in float32. Offsets and minimums
 * meet the activations' ready-made sums once per block. int8 weights are given as magnitudes,
 * their signs moved to the activations: at most 2 * 128 * 127, which 16 bits hold.
 */
#pragma once

#include "cpu/quant-load.h"

/* ---- types of 32 elements ------------------------------------------------------------------- */

/*
 * One row of a type whose blocks have 32 elements. `load` gives the block's bytes; is_signed says
 * that they are int8 and need the sign trick, otherwise `off` is taken off by the sums. scale gives
 * d in lane 0 and, with has_min, m in lane 1. Blocks go to two accumulators in turn.
 */
#define SIMPLE_STEP(load, is_signed, scale, b, i)                                                  \
    do {                                                                                           \
        const __m256i q = load(&block[b]);                                                         \
        const __m128 dm = scale(&block[b]);                                                        \
        const __m256i q_abs = is_signed ? _mm256_abs_epi8(q) : q;                                  \
                                                                                                   \
        UNROLL for (int t = 0; t < n_x; t++)                                                       \
        {                                                                                          \
            const __m256i a = load256(x[t].q + 32 * (b));                                          \
            const __m256i s = is_signed ? _mm256_sign_epi8(a, q) : a;                              \
            const __m128 w = _mm_mul_ss(dm, _mm_load_ss(x[t].d + (b)));                            \
                                                                                                   \
            acc[t][i] = _mm256_fmadd_ps(dot_bytes(q_abs, s), _mm256_broadcastss_ps(w), acc[t][i]); \
            if (!is_signed)                                                                        \
                acc_m[t] = _mm_fmadd_ps(dm, _mm_set1_ps(x[t].s32[b]), acc_m[t]);                   \
        }                                                                                          \
    } while (0)

/*
 * Nibble types take eight blocks at a time: registers hold halves of block i and block i + 4, so
 * that sums of four blocks end up side by side, and scales are vectors over the eight blocks.
 * `quads` gives elements 0-15 (half 0) or 16-31 (half 1) of blocks i and i + 4 as unsigned bytes
 * of at most 31; scale8 gives eight scales and, with has_min, minimums.
 */
#define NIBBLE_BATCH(quads, has_min, scale8)                                                       \
    do {                                                                                           \
        __m256i sum[4][4];                                                                         \
        __m256 mn = _mm256_setzero_ps();                                                           \
        const __m256 d = scale8(block + b, &mn);                                                   \
                                                                                                   \
        prefetch_block(block + b, 8 * sizeof *block);                                              \
        UNROLL for (int i = 0; i < 4; i++)                                                         \
        {                                                                                          \
            __m256i q[2];                                                                          \
                                                                                                   \
            quads(block + b + i, block + b + i + 4, q);                                            \
            UNROLL for (int t = 0; t < n_x; t++)                                                   \
            {                                                                                      \
                const int8_t *a = x[t].q + 32 * (b + i);                                           \
                                                                                                   \
                sum[t][i] = dot_pairs(q, load_halves(a, a + 128), load_halves(a + 16, a + 144));   \
            }                                                                                      \
        }                                                                                          \
        UNROLL for (int t = 0; t < n_x; t++)                                                       \
        {                                                                                          \
            const __m256 w = _mm256_mul_ps(d, _mm256_loadu_ps(x[t].d + b));                        \
                                                                                                   \
            acc[t][0] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(add_across(sum[t])), w, acc[t][0]);     \
            acc_8[t] = _mm256_fmadd_ps(has_min ? mn : d, _mm256_loadu_ps(x[t].s32 + b), acc_8[t]); \
        }                                                                                          \
    } while (0)

#define DOT_NIBBLES(name, Block, load, off, has_min, scale, quads, scale8)                         \
    INLINE void dot_##name(const uint8_t *row, int64_t n_cols, const SluiceCpuQ8Row *x,            \
                           const int n_x, float *out)                                              \
    {                                                                                              \
        const Block *block = (const Block *) row;                                                  \
        const int64_t n_blocks = n_cols / 32;                                                      \
        __m256 acc[4][1], acc_8[4];                                                                \
        __m128 acc_m[4];                                                                           \
        int64_t b;                                                                                 \
                                                                                                   \
        UNROLL for (int t = 0; t < n_x; t++)                                                       \
        {                                                                                          \
            acc[t][0] = acc_8[t] = _mm256_setzero_ps();                                            \
            acc_m[t] = _mm_setzero_ps();                                                           \
        }                                                                                          \
        for (b = 0; b + 8 <= n_blocks; b += 8)                                                     \
            NIBBLE_BATCH(quads, has_min, scale8);                                                  \
        for (; b < n_blocks; b++)                                                                  \
            SIMPLE_STEP(load, false, scale, b, 0);                                                 \
        UNROLL for (int t = 0; t < n_x; t++)                                                       \
        {                                                                                          \
            const float sum = sum_floats(acc[t][0]);                                               \
            const float sum_8 = sum_floats(acc_8[t]);                                              \
                                                                                                   \
            out[t] = has_min ? sum + sum_8 + _mm_cvtss_f32(_mm_movehdup_ps(acc_m[t]))              \
                             : sum - (float) (off) * (sum_8 + _mm_cvtss_f32(acc_m[t]));            \
        }                                                                                          \
    }

#define DOT_SIMPLE(name, Block, load, is_signed, off, has_min, scale)                              \
    INLINE void dot_##name(const uint8_t *row, int64_t n_cols, const SluiceCpuQ8Row *x,            \
                           const int n_x, float *out)                                              \
    {                                                                                              \
        const Block *block = (const Block *) row;                                                  \
        const int64_t n_blocks = n_cols / 32;                                                      \
        __m256 acc[4][2];                                                                          \
        __m128 acc_m[4];                                                                           \
        int64_t b;                                                                                 \
                                                                                                   \
        UNROLL for (int t = 0; t < n_x; t++)                                                       \
        {                                                                                          \
            acc[t][0] = acc[t][1] = _mm256_setzero_ps();                                           \
            acc_m[t] = _mm_setzero_ps();                                                           \
        }                                                                                          \
        for (b = 0; b + 2 <= n_blocks; b += 2) {                                                   \
            _mm_prefetch((const char *) (block + b) + PREFETCH_BYTES, _MM_HINT_T0);                \
            SIMPLE_STEP(load, is_signed, scale, b, 0);                                             \
            SIMPLE_STEP(load, is_signed, scale, b + 1, 1);                                         \
        }                                                                                          \
        if (b < n_blocks)                                                                          \
            SIMPLE_STEP(load, is_signed, scale, b, 0);                                             \
        UNROLL for (int t = 0; t < n_x; t++)                                                       \
        {                                                                                          \
            float sum = sum_floats(_mm256_add_ps(acc[t][0], acc[t][1]));                           \
                                                                                                   \
            if (!is_signed && has_min)                                                             \
                sum += _mm_cvtss_f32(_mm_movehdup_ps(acc_m[t]));                                   \
            else if (!is_signed)                                                                   \
                sum -= (float) (off) *_mm_cvtss_f32(acc_m[t]);                                     \
            out[t] = sum;                                                                          \
        }                                                                                          \
    }

DOT_NIBBLES(q4_0, SluiceBlockQ4_0, bytes_q4_0, 8, false, half_scale, quads_q4_0, scales_q4_0)
DOT_NIBBLES(q4_1, SluiceBlockQ4_1, bytes_q4_1, 0, true, half_pair, quads_q4_1, scales_q4_1)
DOT_NIBBLES(q5_0, SluiceBlockQ5_0, bytes_q5_0, 16, false, half_scale, quads_q5_0, scales_q5_0)
DOT_NIBBLES(q5_1, SluiceBlockQ5_1, bytes_q5_1, 0, true, half_pair, quads_q5_1, scales_q5_1)
DOT_SIMPLE(q8_0, SluiceBlockQ8_0, bytes_q8_0, true, 0, false, half_scale)
DOT_SIMPLE(iq4_nl, SluiceBlockIQ4_NL, signed_iq4_nl, true, 0, false, half_scale)
DOT_NIBBLES(mxfp4, SluiceBlockMXFP4, bytes_mxfp4, 12, false, e8m0_scale, quads_mxfp4, scales_mxfp4)

/* ---- types of 256 elements, scales per 32 --------------------------------------------------- */

/*
 * `open` writes eight scales (float32, d included) to sc and, with has_min, eight minimums to mn;
 * `load` gives bytes of the sub-block i, a constant. is_signed and off as above.
 */
#define DOT_SUPER32(name, Block, open, load, is_signed, off, has_min)                              \
    INLINE void dot_##name(const uint8_t *row, int64_t n_cols, const SluiceCpuQ8Row *x,            \
                           const int n_x, float *out)                                              \
    {                                                                                              \
        const Block *block = (const Block *) row;                                                  \
        __m256 acc[4][2], acc_m[4];                                                                \
                                                                                                   \
        UNROLL for (int t = 0; t < n_x; t++) acc[t][0] = acc[t][1] = acc_m[t] =                    \
            _mm256_setzero_ps();                                                                   \
        for (int64_t b = 0; b < n_cols / 32; b += 8, block++) {                                    \
            float w[4][8];                                                                         \
            __m256 sc, mn;                                                                         \
                                                                                                   \
            open(block, &sc, &mn);                                                                 \
            prefetch_block(block, sizeof *block);                                                  \
            UNROLL for (int t = 0; t < n_x; t++)                                                   \
            {                                                                                      \
                const __m256 sums = _mm256_loadu_ps(x[t].s32 + b);                                 \
                                                                                                   \
                _mm256_storeu_ps(w[t], _mm256_mul_ps(sc, _mm256_loadu_ps(x[t].d + b)));            \
                if (has_min)                                                                       \
                    acc_m[t] = _mm256_fnmadd_ps(mn, sums, acc_m[t]);                               \
                else if (!is_signed)                                                               \
                    acc_m[t] =                                                                     \
                        _mm256_fnmadd_ps(_mm256_mul_ps(sc, _mm256_set1_ps(off)), sums, acc_m[t]);  \
            }                                                                                      \
            UNROLL for (int i = 0; i < 8; i++)                                                     \
            {                                                                                      \
                const __m256i q = load(block, i);                                                  \
                const __m256i q_abs = is_signed ? _mm256_abs_epi8(q) : q;                          \
                                                                                                   \
                UNROLL for (int t = 0; t < n_x; t++)                                               \
                {                                                                                  \
                    const __m256i a = load256(x[t].q + 32 * (b + i));                              \
                    const __m256i s = is_signed ? _mm256_sign_epi8(a, q) : a;                      \
                                                                                                   \
                    acc[t][i & 1] = _mm256_fmadd_ps(dot_bytes(q_abs, s), _mm256_set1_ps(w[t][i]),  \
                                                    acc[t][i & 1]);                                \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        UNROLL for (int t = 0; t < n_x; t++) out[t] =                                              \
            sum_floats(_mm256_add_ps(_mm256_add_ps(acc[t][0], acc[t][1]), acc_m[t]));              \
    }

/*
 * Q4_K adds in 16 bits while it brings the eight sub-blocks side by side: 8 * 2 * 15 * 127 at
 * most. One conversion then serves all of them.
 */
INLINE void
dot_q4_k(const uint8_t *row, int64_t n_cols, const SluiceCpuQ8Row *x, const int n_x, float *out)
{
    const SluiceBlockQ4_K *block = (const SluiceBlockQ4_K *) row;
    __m256 acc[4], acc_m[4];

    UNROLL for (int t = 0; t < n_x; t++) acc[t] = acc_m[t] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n_cols / 32; b += 8, block++) {
        __m256i p[4][8];
        __m256 sc, mn;

        open_q4_k(block, &sc, &mn);
        prefetch_block(block, sizeof *block);
        UNROLL for (int i = 0; i < 8; i++)
        {
            const __m256i q = bytes_q4_k(block, i);

            UNROLL for (int t = 0; t < n_x; t++) p[t][i] =
                _mm256_maddubs_epi16(q, load256(x[t].q + 32 * (b + i)));
        }
        UNROLL for (int t = 0; t < n_x; t++)
        {
            const __m256 w = _mm256_mul_ps(sc, _mm256_loadu_ps(x[t].d + b));

            acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(add_words_across(p[t])), w, acc[t]);
            acc_m[t] = _mm256_fnmadd_ps(mn, _mm256_loadu_ps(x[t].s32 + b), acc_m[t]);
        }
    }
    UNROLL for (int t = 0; t < n_x; t++) out[t] = sum_floats(_mm256_add_ps(acc[t], acc_m[t]));
}

DOT_SUPER32(q5_k, SluiceBlockQ5_K, open_q5_k, bytes_q5_k, false, 0, true)
DOT_SUPER32(iq4_xs, SluiceBlockIQ4_XS, open_iq4_xs, signed_iq4_xs, true, 0, false)

/* ---- types of 256 elements, scales per 16 --------------------------------------------------- */

/*
 * `open` gives the 16 integer scales as 16-bit values, those of even sub-blocks in the lower half;
 * the products are scaled before they leave the integers. The greatest sum is Q6_K's,
 * 2 * 2 * 63 * 127 * 128, far below 2^31. mn gives 16 float32 minimums in order, d included.
 */
#define DOT_SUPER16(name, Block, open, load)                                                       \
    INLINE void dot_##name(const uint8_t *row, int64_t n_cols, const SluiceCpuQ8Row *x,            \
                           const int n_x, float *out)                                              \
    {                                                                                              \
        const Block *block = (const Block *) row;                                                  \
        __m256 acc[4][2], acc_m[4];                                                                \
                                                                                                   \
        UNROLL for (int t = 0; t < n_x; t++) acc[t][0] = acc[t][1] = acc_m[t] =                    \
            _mm256_setzero_ps();                                                                   \
        for (int64_t b = 0; b < n_cols / 32; b += 8, block++) {                                    \
            float w[4][8];                                                                         \
            __m256i sc;                                                                            \
            __m256 mn[2];                                                                          \
            const __m256 d = open(block, &sc, mn);                                                 \
                                                                                                   \
            prefetch_block(block, sizeof *block);                                                  \
            UNROLL for (int t = 0; t < n_x; t++)                                                   \
            {                                                                                      \
                _mm256_storeu_ps(w[t], _mm256_mul_ps(d, _mm256_loadu_ps(x[t].d + b)));             \
                acc_m[t] = _mm256_fnmadd_ps(mn[0], _mm256_loadu_ps(x[t].s16 + 2 * b), acc_m[t]);   \
                acc_m[t] =                                                                         \
                    _mm256_fnmadd_ps(mn[1], _mm256_loadu_ps(x[t].s16 + 2 * b + 8), acc_m[t]);      \
            }                                                                                      \
            UNROLL for (int i = 0; i < 8; i++)                                                     \
            {                                                                                      \
                const __m256i q = load(block, i);                                                  \
                const __m256i scale =                                                              \
                    _mm256_shuffle_epi8(sc, _mm256_set1_epi16(0x0100 + 0x202 * i));                \
                                                                                                   \
                UNROLL for (int t = 0; t < n_x; t++)                                               \
                {                                                                                  \
                    const __m256i a = load256(x[t].q + 32 * (b + i));                              \
                    const __m256i p = _mm256_madd_epi16(_mm256_maddubs_epi16(q, a), scale);        \
                                                                                                   \
                    acc[t][i & 1] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(p),                         \
                                                    _mm256_set1_ps(w[t][i]), acc[t][i & 1]);       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        UNROLL for (int t = 0; t < n_x; t++) out[t] =                                              \
            sum_floats(_mm256_add_ps(_mm256_add_ps(acc[t][0], acc[t][1]), acc_m[t]));              \
    }

DOT_SUPER16(q6_k, SluiceBlockQ6_K, open_q6_k, bytes_q6_k)
DOT_SUPER16(q3_k, SluiceBlockQ3_K, open_q3_k, bytes_q3_k)
DOT_SUPER16(q2_k, SluiceBlockQ2_K, open_q2_k, bytes_q2_k)

/* ---- every other type ----------------------------------------------------------------------- */

/* Unpacked bytes, made signed; the two halves of a register have their own scale. */
INLINE void
dot_unpacked(const SluiceCpuQuantType *type, const uint8_t *row, int64_t n_cols,
             const SluiceCpuQ8Row *x, const int n_x, float *out)
{
    const __m256i offset = _mm256_set1_epi8((char) type->offset);
    const int n_subs = type->sub_len == 16 ? 2 : 1;
    uint8_t q[SLUICE_CPU_BLOCK_MAX];
    float d[SLUICE_CPU_BLOCK_MAX / 16];
    float m[SLUICE_CPU_BLOCK_MAX / 16];
    __m256 acc[4];

    UNROLL for (int t = 0; t < n_x; t++) acc[t] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n_cols / 32; b += type->block_len / 32, row += type->block_bytes) {
        type->unpack(row, q, d, m);
        prefetch_block(row, type->block_bytes);
        for (int i = 0; i < type->block_len / 32; i++) {
            const __m256i w = _mm256_sub_epi8(load256(q + 32 * i), offset);
            const __m256i w_abs = _mm256_abs_epi8(w);
            const float *ds = d + i * n_subs;
            const __m256 scale =
                _mm256_set_m128(_mm_broadcast_ss(ds + n_subs - 1), _mm_broadcast_ss(ds));

            UNROLL for (int t = 0; t < n_x; t++)
            {
                const __m256i a = _mm256_sign_epi8(load256(x[t].q + 32 * (b + i)), w);

                acc[t] = _mm256_fmadd_ps(dot_bytes(w_abs, a),
                                         _mm256_mul_ps(scale, _mm256_broadcast_ss(x[t].d + b + i)),
                                         acc[t]);
            }
        }
    }
    UNROLL for (int t = 0; t < n_x; t++) out[t] = sum_floats(acc[t]);
}

#define DOT_GENERIC(row, n_cols, x, n_x, out) dot_unpacked(type, row, n_cols, x, n_x, out)

/* ---- gemv ----------------------------------------------------------------------------------- */

/*
 * Input rows in fours: the row of weights is then read from the first-level cache again. Each
 * number of input rows is a function of its own, so that the compiler keeps its registers apart.
 */
#define GEMV(name, dot)                                                                            \
    GEMV_ROW(name, dot, 1)                                                                         \
    GEMV_ROW(name, dot, 2)                                                                         \
    GEMV_ROW(name, dot, 3)                                                                         \
    GEMV_ROW(name, dot, 4)                                                                         \
    static void gemv_##name(const SluiceCpuQuantType *type, const uint8_t *rows,                   \
                            size_t row_stride, int64_t n_rows, int64_t n_cols,                     \
                            const SluiceCpuQ8Row *x, int n_x, float *y, int64_t ldy)               \
    {                                                                                              \
        static const RowFn fns[4] = {row_##name##_1, row_##name##_2, row_##name##_3,               \
                                     row_##name##_4};                                              \
                                                                                                   \
        run_rows(fns, type, rows, row_stride, n_rows, n_cols, x, n_x, y, ldy);                     \
    }

typedef void (*RowFn)(const SluiceCpuQuantType *type, const uint8_t *row, int64_t n_cols,
                      const SluiceCpuQ8Row *x, float *out);

#define GEMV_ROW(name, dot, n_x)                                                                   \
    static void row_##name##_##n_x(const SluiceCpuQuantType *type, const uint8_t *row,             \
                                   int64_t n_cols, const SluiceCpuQ8Row *x, float *out)            \
    {                                                                                              \
        dot(row, n_cols, x, n_x, out);                                                             \
    }

static void
run_rows(const RowFn *fns, const SluiceCpuQuantType *type, const uint8_t *rows, size_t row_stride,
         int64_t n_rows, int64_t n_cols, const SluiceCpuQ8Row *x, int n_x, float *y, int64_t ldy)
{
    for (int64_t j = 0; j < n_rows; j++, rows += row_stride) {
        for (int t = 0; t < n_x; t += 4) {
            const int n = n_x - t < 4 ? n_x - t : 4;
            float out[4];

            fns[n - 1](type, rows, n_cols, x + t, out);
            for (int i = 0; i < n; i++)
                y[(t + i) * ldy + j] = out[i];
        }
    }
}

GEMV(q4_0, dot_q4_0)
GEMV(q4_1, dot_q4_1)
GEMV(q5_0, dot_q5_0)
GEMV(q5_1, dot_q5_1)
GEMV(q8_0, dot_q8_0)
GEMV(iq4_nl, dot_iq4_nl)
GEMV(mxfp4, dot_mxfp4)
GEMV(q2_k, dot_q2_k)
GEMV(q3_k, dot_q3_k)
GEMV(q4_k, dot_q4_k)
GEMV(q5_k, dot_q5_k)
GEMV(q6_k, dot_q6_k)
GEMV(iq4_xs, dot_iq4_xs)
GEMV(unpacked, DOT_GENERIC)

/* ---- the table ------------------------------------------------------------------------------ */

/* Every quantised type; those without a kernel of their own have no minimums. */
static void
install_gemv(SluiceCpuQuantKernels *k)
{
    static const struct {
        SluiceDtype dtype;
        SluiceCpuQuantGemvFn gemv;
    } hot[] = {
        {SLUICE_DTYPE_Q4_0, gemv_q4_0},     {SLUICE_DTYPE_Q4_1, gemv_q4_1},
        {SLUICE_DTYPE_Q5_0, gemv_q5_0},     {SLUICE_DTYPE_Q5_1, gemv_q5_1},
        {SLUICE_DTYPE_Q8_0, gemv_q8_0},     {SLUICE_DTYPE_IQ4_NL, gemv_iq4_nl},
        {SLUICE_DTYPE_MXFP4, gemv_mxfp4},   {SLUICE_DTYPE_Q2_K, gemv_q2_k},
        {SLUICE_DTYPE_Q3_K, gemv_q3_k},     {SLUICE_DTYPE_Q4_K, gemv_q4_k},
        {SLUICE_DTYPE_Q5_K, gemv_q5_k},     {SLUICE_DTYPE_Q6_K, gemv_q6_k},
        {SLUICE_DTYPE_IQ4_XS, gemv_iq4_xs},
    };

    for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
        if (k->types[i].block_len != 0 && !k->types[i].has_min)
            k->types[i].gemv = gemv_unpacked;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(hot); i++)
        k->types[hot[i].dtype].gemv = hot[i].gemv;
}
