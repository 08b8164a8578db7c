/* SPDX-License-Identifier: MIT */
/*
 * The blocked product of quantised weights with many input rows, which every level of 256 bits
 * and more makes out of its own micro-kernels.
 *
 * 16 rows of the weight by up to 1024 columns are unpacked once into a panel of bytes,
 *
 *     q[column / 4][row][column % 4],   d[sub-block][row],   m[sub-block][row],
 *
 * and the panel, which stays in the first-level cache, meets all input rows, a few at a time.
 * Lanes are weight rows: four activation bytes are broadcast to all of them, so that sums need
 * no adding across lanes, and scales are vectors over rows as well. A value is d q - m with
 * unsigned q; the type's offset has moved into m.
 *
 * The wide panel, for levels that lack a product of unsigned by signed bytes without saturation,
 * has q - offset in 16 bits, [column / 2][row][column % 2], and no m. A level may fill panels in
 * a way of its own for a type that gains by it.
 */
#pragma once

#include "cpu/quant-load.h"

enum {
    PANEL_ROWS = SLUICE_CPU_PANEL_ROWS,
    PANEL_COLS = SLUICE_CPU_PANEL_COLS,
    PANEL_TILE = 8, /* input rows that a micro-kernel takes at most */
    /* Input rows that pay for filling the panel: with fewer, few-row products win. Measured with
     * AVX2 on weights of 2048 columns; a wide panel costs twice as much. */
    PANEL_MIN_ROWS = 12,
    PANEL_MIN_ROWS_WIDE = 24,
};

typedef struct {
    int n_blocks;    /* of 32 columns */
    uint8_t *q;      /* or int16_t, wide */
    float *d;        /* [n_blocks * n_subs, PANEL_ROWS] */
    float *m;        /* the same */
    int32_t *scales; /* of panels that a level fills itself: the memory behind d per 256, and m's */
    int16_t *inputs; /* [PANEL_TILE, PANEL_COLS], for micro-kernels that widen */
} Panel;

/* tile [n_x, PANEL_ROWS] = panel . x, for the number of input rows of the function's place. x
 * begins at the panel's first column. */
typedef void (*MicroFn)(const Panel *panel, const SluiceCpuQ8Row *x, float *tile);

/* Fills the panel with columns [0, n_cols) of n_rows <= PANEL_ROWS rows. */
typedef void (*FillFn)(Panel *panel, const SluiceCpuQuantType *type, const uint8_t *rows,
                       size_t row_stride, int n_rows, int64_t n_cols);

typedef struct {
    int tile_rows;  /* as many fns */
    int panel_cols; /* at most PANEL_COLS */
    FillFn fill;
    MicroFn fns[PANEL_TILE];
} Micro;

/* ---- filling a panel ------------------------------------------------------------------------ */

/* v[i] dword j becomes v[j] dword i. */
INLINE void
transpose_dwords(__m256i *v)
{
    __m256i a[8], b[8];

    UNROLL for (int i = 0; i < 4; i++)
    {
        a[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

/* 32 columns of eight rows, n_stride bytes apart, to row_base 0 or 8 of panel block b. */
INLINE void
fill_block(Panel *panel, const bool is_wide, int offset, int64_t b, int row_base,
           const uint8_t *rows, size_t n_stride)
{
    __m256i v[8];

    UNROLL for (int r = 0; r < 8; r++) v[r] = load256(rows + (size_t) r * n_stride);
    transpose_dwords(v);
    if (!is_wide) {
        uint8_t *q = panel->q + b * 32 * PANEL_ROWS + 4 * row_base;

        UNROLL for (int k = 0; k < 8; k++)
            _mm256_store_si256((__m256i *) (q + k * 4 * PANEL_ROWS), v[k]);
        return;
    }
    /* Each byte goes to the upper half of 16 bits and is shifted down with its sign. */
    const __m256i first = _mm256_set1_epi32(0x01800080);
    const __m256i second = _mm256_set1_epi32(0x03800280);
    const __m256i lanes = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404,
                                            0x08080808, 0x0c0c0c0c);
    uint8_t *q = panel->q + 2 * (b * 32 * PANEL_ROWS) + 4 * row_base;

    UNROLL for (int k = 0; k < 8; k++)
    {
        const __m256i s = _mm256_sub_epi8(v[k], _mm256_set1_epi8((char) offset));
        const __m256i s0 = _mm256_shuffle_epi8(s, _mm256_or_si256(first, lanes));
        const __m256i s1 = _mm256_shuffle_epi8(s, _mm256_or_si256(second, lanes));

        _mm256_store_si256((__m256i *) (q + (2 * k) * 4 * PANEL_ROWS), _mm256_srai_epi16(s0, 8));
        _mm256_store_si256((__m256i *) (q + (2 * k + 1) * 4 * PANEL_ROWS),
                           _mm256_srai_epi16(s1, 8));
    }
}

/* Columns [0, n_cols) of eight rows from row_base on; missing rows become zero. The last two
 * arguments are constants of the type. */
INLINE void
fill_rows(Panel *panel, const SluiceCpuQuantType *type, const bool is_wide, const uint8_t *rows,
          size_t row_stride, int row_base, int n_rows, int64_t n_cols, const int block_len,
          const int n_subs)
{
    const float offset = type->offset;
    uint8_t q[8 * SLUICE_CPU_BLOCK_MAX] __attribute__((aligned(32)));
    float ds[8][SLUICE_CPU_BLOCK_MAX / 16];
    float ms[8][SLUICE_CPU_BLOCK_MAX / 16];

    memset(ms, 0, sizeof ms); /* types without minimums leave it so */
    for (int r = MAX(n_rows - row_base, 0); r < 8; r++) {
        memset(ds[r], 0, sizeof ds[r]);
        memset(q + r * block_len, type->offset, (size_t) block_len);
    }
    for (int64_t i = 0; i < n_cols / block_len; i++) {
        float *d = panel->d + i * n_subs * PANEL_ROWS + row_base;
        float *m = panel->m + i * n_subs * PANEL_ROWS + row_base;

        for (int r = 0; r < 8 && row_base + r < n_rows; r++)
            type->unpack(rows + (size_t) (row_base + r) * row_stride +
                             (size_t) i * (size_t) type->block_bytes,
                         q + r * block_len, ds[r], ms[r]);
        for (int s = 0; s < n_subs; s++) {
            for (int r = 0; r < 8; r++) {
                d[s * PANEL_ROWS + r] = ds[r][s];
                m[s * PANEL_ROWS + r] = ms[r][s] + offset * ds[r][s];
            }
        }
        for (int b = 0; b < block_len / 32; b++)
            fill_block(panel, is_wide, type->offset, i * (block_len / 32) + b, row_base, q + 32 * b,
                       (size_t) block_len);
    }
}

INLINE void
fill_panel(Panel *panel, const SluiceCpuQuantType *type, const bool is_wide, const uint8_t *rows,
           size_t row_stride, int n_rows, int64_t n_cols)
{
    panel->n_blocks = (int) (n_cols / 32);
    for (int base = 0; base < PANEL_ROWS; base += 8) {
        if (type->block_len == 32)
            fill_rows(panel, type, is_wide, rows, row_stride, base, n_rows, n_cols, 32, 1);
        else
            fill_rows(panel, type, is_wide, rows, row_stride, base, n_rows, n_cols, type->block_len,
                      type->block_len / type->sub_len);
    }
}

static void
fill_bytes(Panel *panel, const SluiceCpuQuantType *type, const uint8_t *rows, size_t row_stride,
           int n_rows, int64_t n_cols)
{
    fill_panel(panel, type, false, rows, row_stride, n_rows, n_cols);
}

/* ---- the product ---------------------------------------------------------------------------- */

INLINE void
store_tile(const float *tile, int n_x, int n_rows, bool is_first, float *y, int64_t ldy)
{
    for (int t = 0; t < n_x; t++, tile += PANEL_ROWS, y += ldy) {
        if (n_rows == PANEL_ROWS) {
            UNROLL for (int r = 0; r < PANEL_ROWS; r += 8)
            {
                __m256 v = _mm256_load_ps(tile + r);

                if (!is_first)
                    v = _mm256_add_ps(v, _mm256_loadu_ps(y + r));
                _mm256_storeu_ps(y + r, v);
            }
        } else {
            for (int r = 0; r < n_rows; r++)
                y[r] = is_first ? tile[r] : y[r] + tile[r];
        }
    }
}

INLINE void
run_gemm(const SluiceCpuQuantType *type, const Micro *micro, const uint8_t *rows, size_t row_stride,
         int64_t n_rows, int64_t n_cols, const SluiceCpuQ8 *q8, const int32_t *row_idx, int64_t n_x,
         float *y, int64_t ldy, void *scratch)
{
    const int64_t panel_cols = micro->panel_cols;
    float tile[PANEL_TILE * PANEL_ROWS] __attribute__((aligned(64)));
    Panel panel;

    panel.q = scratch;
    panel.d = (float *) (panel.q + PANEL_ROWS * PANEL_COLS);
    panel.m = panel.d + PANEL_ROWS * PANEL_COLS / 16;
    panel.scales = (int32_t *) (panel.d + PANEL_ROWS * PANEL_COLS / 256);
    panel.inputs = (int16_t *) (panel.m + PANEL_ROWS * PANEL_COLS / 16);
    for (int64_t j = 0; j < n_rows; j += PANEL_ROWS) {
        const int n_panel = (int) (n_rows - j < PANEL_ROWS ? n_rows - j : PANEL_ROWS);

        for (int64_t i = 0; i < n_cols; i += panel_cols) {
            const uint8_t *first = rows + (size_t) j * row_stride +
                                   (size_t) (i / type->block_len) * (size_t) type->block_bytes;

            micro->fill(&panel, type, first, row_stride, n_panel,
                        n_cols - i < panel_cols ? n_cols - i : panel_cols);
            for (int64_t t = 0; t < n_x; t += micro->tile_rows) {
                const int n = (int) (n_x - t < micro->tile_rows ? n_x - t : micro->tile_rows);
                SluiceCpuQ8Row x[PANEL_TILE];

                for (int u = 0; u < n; u++) {
                    x[u] = sluice_cpu_q8_row(q8, row_idx != NULL ? row_idx[t + u] : t + u);
                    x[u].q += i;
                    x[u].d += i / 32;
                    x[u].s32 += i / 32;
                    x[u].s16 += i / 16;
                }
                micro->fns[n - 1](&panel, x, tile);
                store_tile(tile, n, n_panel, i == 0, y + t * ldy + j, ldy);
            }
        }
    }
}

#define GEMM(name, micro)                                                                          \
    static void gemm_##name(const SluiceCpuQuantType *type, const uint8_t *rows,                   \
                            size_t row_stride, int64_t n_rows, int64_t n_cols,                     \
                            const SluiceCpuQ8 *q8, const int32_t *row_idx, int64_t n_x, float *y,  \
                            int64_t ldy, void *scratch)                                            \
    {                                                                                              \
        run_gemm(type, &(micro), rows, row_stride, n_rows, n_cols, q8, row_idx, n_x, y, ldy,       \
                 scratch);                                                                         \
    }
