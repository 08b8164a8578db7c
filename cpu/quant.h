/* SPDX-License-Identifier: MIT */
/*
 * Kernels of the quantised matrix products, as a table that the instruction set levels fill.
 *
 * Every quantised type is seen as one form: a value is d (q - offset) - m, with q of at most
 * n_bits bits, and d and m constant over sub-blocks of 16 or 32 elements. A type's unpack
 * function writes that form; all generic code (dequantisation, the reference product, the
 * panels of prompt products) stands on it, and the hot types have a kernel of their own for
 * products of few rows.
 */
#pragma once

#include "cpu/matmul.h"
#include "cpu/sluice-cpu.h"

G_BEGIN_DECLS

/* Longest block of any type, in elements. */
#define SLUICE_CPU_BLOCK_MAX 256
/* Input rows that one gemv call takes at most. */
#define SLUICE_CPU_GEMV_MAX 8

/* A prompt product works on panels of this many weight rows by this many columns; see
 * cpu/quant-gemm.h. */
#define SLUICE_CPU_PANEL_ROWS 16
#define SLUICE_CPU_PANEL_COLS 1024

typedef struct SluiceCpuQuantType SluiceCpuQuantType;

/* One quantised activation row. */
typedef struct {
    const int8_t *q;
    const float *d;   /* per 32 */
    const float *s32; /* d * sum of 32 */
    const float *s16; /* d * sum of 16 */
} SluiceCpuQ8Row;

/* A block whose greatest magnitude is less is all zero, so that no scale is subnormal. */
#define SLUICE_CPU_Q8_MIN 0x1p-119f

/*
 * Quantises n values, a multiple of 32; none of the arrays overlap. Per 32 with greatest
 * magnitude amax, each operation rounded to float32: d = amax / 127, q = x * (127 / amax) rounded
 * half to even. Every implementation gives the same bits. q is never -128.
 */
typedef void (*SluiceCpuQuantiseFn)(const float *x, int64_t n, int8_t *q, float *d, float *s32,
                                    float *s16);

/* Writes block_len values q, and block_len / sub_len values d and, if has_min, m. */
typedef void (*SluiceCpuUnpackFn)(const void *block, uint8_t *q, float *d, float *m);

/*
 * y[t * ldy + j] = x[t] . rows[j], t < n_x <= SLUICE_CPU_GEMV_MAX, j < n_rows. n_cols is a
 * multiple of block_len. Integer sums of a sub-block are exact; NMSE to the reference 1e-9.
 */
typedef void (*SluiceCpuQuantGemvFn)(const SluiceCpuQuantType *type, const uint8_t *rows,
                                     size_t row_stride, int64_t n_rows, int64_t n_cols,
                                     const SluiceCpuQ8Row *x, int n_x, float *y, int64_t ldy);

/* The same for any number of input rows: row i is row_idx[i], or i, of q8. Scratch: 64-byte
 * aligned, sluice_cpu_matmul_scratch_bytes(). */
typedef void (*SluiceCpuQuantGemmFn)(const SluiceCpuQuantType *type, const uint8_t *rows,
                                     size_t row_stride, int64_t n_rows, int64_t n_cols,
                                     const SluiceCpuQ8 *q8, const int32_t *row_idx, int64_t n_x,
                                     float *y, int64_t ldy, void *scratch);

/* Unquantised weights against float rows. n_x as in gemv. */
typedef void (*SluiceCpuFloatGemvFn)(const void *rows, size_t row_stride, int64_t n_rows,
                                     int64_t n_cols, const float *const *x, int n_x, float *y,
                                     int64_t ldy);

struct SluiceCpuQuantType {
    int16_t block_len; /* 0: not a quantised type */
    int16_t block_bytes;
    int16_t sub_len;
    uint8_t n_bits; /* q < 1 << n_bits */
    uint8_t offset;
    bool has_min;
    uint8_t gemm_min_rows; /* input rows from which gemm is the faster */
    SluiceCpuUnpackFn unpack;
    SluiceCpuQuantGemvFn gemv;
    SluiceCpuQuantGemmFn gemm;       /* NULL: gemv is used for any number of rows */
    SluiceCpuFloatGemvFn gemv_float; /* of F32, F16 and BF16 instead */
};

typedef struct {
    SluiceCpuQuantiseFn quantise;
    SluiceCpuQuantType types[SLUICE_DTYPE_COUNT];
} SluiceCpuQuantKernels;

/* Fills the whole table for the given levels. */
void sluice_cpu_quant_init(SluiceCpuQuantKernels *k, SluiceCpuFeatures features);

/* Each replaces what its level has. */
void sluice_cpu_quant_init_avx2(SluiceCpuQuantKernels *k);
void sluice_cpu_quant_init_avxvnni(SluiceCpuQuantKernels *k);
void sluice_cpu_quant_init_avx512(SluiceCpuQuantKernels *k);
/* The same levels over emulated instructions, in the tests' own library. */
void sluice_cpu_quant_init_avxvnni_simde(SluiceCpuQuantKernels *k);
void sluice_cpu_quant_init_avx512_simde(SluiceCpuQuantKernels *k);

/* The figures and reference unpack functions of every quantised type. */
extern const SluiceCpuQuantType sluice_cpu_quant_types[SLUICE_DTYPE_COUNT];

static inline SluiceCpuQ8Row
sluice_cpu_q8_row(const SluiceCpuQ8 *q8, int64_t row)
{
    int64_t n = q8->n_cols;
    SluiceCpuQ8Row x = {q8->q + row * n, q8->d + row * (n / 32), q8->s32 + row * (n / 32),
                        q8->s16 + row * (n / 16)};

    return x;
}

G_END_DECLS
