/* SPDX-License-Identifier: MIT */
/*
 * AVX2 micro-kernels of the blocked product. vpmaddubsw gives sums of two products in 16 bits,
 * and as many of them as the type's bits allow are added there before they are widened: eight
 * for 4 bits (8 * 2 * 15 * 127 = 30480), four for 5, one for 7. Types of 8 bits would saturate
 * and take vpmaddwd over a wide panel.
 *
 * Q6_K has a panel of signed bytes w = q - 32 and meets activations moved up to u = a + 128, of
 * which 16 bits hold two sums (2 * 2 * 32 * 255 = 32640). The same vpmaddwd that widens them
 * multiplies by the integer scale, so that one conversion serves a block of two scales. What u has
 * too much does not depend on the activations: the integer sum of a block starts from
 * -128 * scale * w, summed when the panel is filled, and no minimum is left.
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

static void
fill_wide(Panel *panel, const SluiceCpuQuantType *type, const uint8_t *rows, size_t row_stride,
          int n_rows, int64_t n_cols)
{
    fill_panel(panel, type, true, rows, row_stride, n_rows, n_cols);
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

/* ---- Q6_K ----------------------------------------------------------------------------------- */

/* Integer scales in both halves of 32 bits, [2 n_blocks, PANEL_ROWS]; behind them the sums from
 * which blocks start, [n_blocks, PANEL_ROWS]. panel->d is [n_blocks / 8, PANEL_ROWS]. */
INLINE int32_t *
q6_k_starts(const Panel *panel)
{
    return panel->scales + 2 * PANEL_ROWS * panel->n_blocks;
}

/* 32 columns of eight rows of 256 values, to block b of the panel. */
INLINE void
fill_q6_k_block(Panel *panel, int64_t b, int row_base, const uint8_t *rows)
{
    const __m256i ones = _mm256_set1_epi8(1);
    __m256i start = _mm256_setzero_si256();
    __m256i v[8];

    UNROLL for (int r = 0; r < 8; r++) v[r] =
        _mm256_sub_epi8(load256(rows + 256 * r), _mm256_set1_epi8(32));
    transpose_dwords(v);
    UNROLL for (int k = 0; k < 8; k++) _mm256_store_si256(
        (__m256i *) (panel->q + (b * 8 + k) * 4 * PANEL_ROWS + 4 * row_base), v[k]);
    UNROLL for (int s = 0; s < 2; s++)
    {
        __m256i sum = _mm256_maddubs_epi16(ones, v[4 * s]);

        UNROLL for (int k = 1; k < 4; k++) sum =
            _mm256_add_epi16(sum, _mm256_maddubs_epi16(ones, v[4 * s + k]));
        start = _mm256_sub_epi32(
            start,
            _mm256_madd_epi16(sum, load256(panel->scales + (2 * b + s) * PANEL_ROWS + row_base)));
    }
    _mm256_store_si256((__m256i *) (q6_k_starts(panel) + b * PANEL_ROWS + row_base),
                       _mm256_slli_epi32(start, 7));
}

static void
fill_q6_k(Panel *panel, const SluiceCpuQuantType *type, const uint8_t *rows, size_t row_stride,
          int n_rows, int64_t n_cols)
{
    uint8_t q[8 * 256] __attribute__((aligned(32)));
    float d[16];

    panel->n_blocks = (int) (n_cols / 32);
    memset(panel->d, 0, (size_t) (panel->n_blocks / 8) * PANEL_ROWS * sizeof *panel->d);
    memset(panel->scales, 0, (size_t) panel->n_blocks * 2 * PANEL_ROWS * sizeof *panel->scales);
    for (int base = 0; base < PANEL_ROWS; base += 8) {
        memset(q, type->offset, sizeof q); /* of missing rows */
        for (int64_t i = 0; i < panel->n_blocks / 8; i++) {
            int32_t *scales = panel->scales + i * 16 * PANEL_ROWS + base;

            for (int r = 0; r < 8 && base + r < n_rows; r++) {
                const SluiceBlockQ6_K *block =
                    (const SluiceBlockQ6_K *) (rows + (size_t) (base + r) * row_stride) + i;

                type->unpack(block, q + 256 * r, d, NULL);
                panel->d[i * PANEL_ROWS + base + r] = _mm_cvtss_f32(half_scale(&block->d));
                for (int s = 0; s < 16; s++)
                    scales[s * PANEL_ROWS + r] = (int32_t) ((uint16_t) block->scales[s] * 0x10001u);
            }
            for (int b = 0; b < 8; b++)
                fill_q6_k_block(panel, 8 * i + b, base, q + 32 * b);
        }
    }
}

INLINE void
micro_q6_k(const Panel *panel, const SluiceCpuQ8Row *x, float *tile, const int n_x)
{
    const int64_t n_cols = 32 * (int64_t) panel->n_blocks;
    uint8_t *inputs = (uint8_t *) panel->inputs;
    __m256 total[3][2];

    UNROLL for (int t = 0; t < n_x; t++)
    {
        for (int64_t i = 0; i < n_cols; i += 32)
            _mm256_store_si256(
                (__m256i *) (inputs + t * PANEL_COLS + i),
                _mm256_xor_si256(load256(x[t].q + i), _mm256_set1_epi8((char) 0x80)));
        total[t][0] = total[t][1] = _mm256_setzero_ps();
    }
    for (int64_t i = 0; i < panel->n_blocks / 8; i++) {
        __m256 acc[3][2];

        UNROLL for (int t = 0; t < n_x; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
        for (int64_t b = 8 * i; b < 8 * i + 8; b++) {
            const __m256i *start = (const __m256i *) (q6_k_starts(panel) + b * PANEL_ROWS);
            __m256i sum[3][2];

            UNROLL for (int t = 0; t < n_x; t++)
            {
                sum[t][0] = _mm256_load_si256(start);
                sum[t][1] = _mm256_load_si256(start + 1);
            }
            UNROLL for (int g = 0; g < 4; g++)
            {
                const __m256i *w = (const __m256i *) (panel->q + (b * 4 + g) * 8 * PANEL_ROWS);
                const __m256i *scale =
                    (const __m256i *) (panel->scales + (2 * b + g / 2) * PANEL_ROWS);

                UNROLL for (int t = 0; t < n_x; t++)
                {
                    const uint8_t *at = inputs + t * PANEL_COLS + 32 * b + 8 * g;
                    const __m256i a0 = broadcast_dword(at);
                    const __m256i a1 = broadcast_dword(at + 4);

                    UNROLL for (int h = 0; h < 2; h++)
                    {
                        const __m256i p = _mm256_add_epi16(
                            _mm256_maddubs_epi16(a0, _mm256_load_si256(w + h)),
                            _mm256_maddubs_epi16(a1, _mm256_load_si256(w + 2 + h)));

                        sum[t][h] = _mm256_add_epi32(
                            sum[t][h], _mm256_madd_epi16(p, _mm256_load_si256(scale + h)));
                        KEEP(sum[t][h]);
                    }
                }
            }
            UNROLL for (int t = 0; t < n_x; t++)
            {
                const __m256 d = _mm256_set1_ps(x[t].d[b]);

                UNROLL for (int h = 0; h < 2; h++) acc[t][h] =
                    _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[t][h]), d, acc[t][h]);
            }
        }
        UNROLL for (int t = 0; t < n_x; t++)
        {
            UNROLL for (int h = 0; h < 2; h++) total[t][h] = _mm256_fmadd_ps(
                acc[t][h], _mm256_load_ps(panel->d + i * PANEL_ROWS + 8 * h), total[t][h]);
        }
    }
    UNROLL for (int t = 0; t < n_x; t++)
    {
        _mm256_store_ps(tile + t * PANEL_ROWS, total[t][0]);
        _mm256_store_ps(tile + t * PANEL_ROWS + 8, total[t][1]);
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
        PANEL_COLS,                                                                                \
        fill_bytes,                                                                                \
        {micro_##depth##_##n_subs##_1, micro_##depth##_##n_subs##_2, micro_##depth##_##n_subs##_3, \
         micro_##depth##_##n_subs##_4}};                                                           \
    GEMM(depth##_##n_subs, micro_##depth##_##n_subs)

#define GEMM_BYTES_2(depth, n_subs)                                                                \
    MICRO_BYTES(depth, n_subs, 1)                                                                  \
    MICRO_BYTES(depth, n_subs, 2)                                                                  \
    static const Micro micro_##depth##_##n_subs = {                                                \
        2, PANEL_COLS, fill_bytes, {micro_##depth##_##n_subs##_1, micro_##depth##_##n_subs##_2}};  \
    GEMM(depth##_##n_subs, micro_##depth##_##n_subs)

/* Where each sum is widened at once, two input rows fill the registers. */
GEMM_BYTES_4(8, 1)
GEMM_BYTES_4(4, 1)
GEMM_BYTES_4(4, 2)
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
/* Half the columns take the same cache. */
static const Micro micro_16 = {
    4, PANEL_COLS / 2, fill_wide, {micro_wide_1, micro_wide_2, micro_wide_3, micro_wide_4}};
GEMM(wide, micro_16)

#define MICRO_Q6_K(n_x)                                                                            \
    static void micro_q6_k_##n_x(const Panel *panel, const SluiceCpuQ8Row *x, float *tile)         \
    {                                                                                              \
        micro_q6_k(panel, x, tile, n_x);                                                           \
    }

MICRO_Q6_K(1)
MICRO_Q6_K(2)
MICRO_Q6_K(3)
static const Micro micro_6 = {3, PANEL_COLS, fill_q6_k, {micro_q6_k_1, micro_q6_k_2, micro_q6_k_3}};
GEMM(q6_k, micro_6)

/* ---- the table ------------------------------------------------------------------------------ */

/* The product for a type, mostly by its bits and scales per block. */
static SluiceCpuQuantGemmFn
pick_gemm(SluiceDtype dtype, const SluiceCpuQuantType *type)
{
    if (dtype == SLUICE_DTYPE_Q6_K)
        return gemm_q6_k;
    if (type->n_bits == 8)
        return gemm_wide;
    if (type->sub_len == 32)
        return type->n_bits <= 4 ? gemm_8_1 : type->n_bits == 5 ? gemm_4_1 : gemm_1_1;
    return type->n_bits <= 5 ? gemm_4_2 : gemm_1_2;
}

void
sluice_cpu_quant_gemm_init_avx2(SluiceCpuQuantKernels *k)
{
    for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
        SluiceCpuQuantType *type = &k->types[i];

        if (type->block_len == 0)
            continue;
        type->gemm = pick_gemm((SluiceDtype) i, type);
        type->gemm_min_rows = type->n_bits == 8 ? PANEL_MIN_ROWS_WIDE : PANEL_MIN_ROWS;
    }
}
