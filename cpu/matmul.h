/* SPDX-License-Identifier: MIT */
/*
 * Matrix products of the CPU executor: rows of a weight in the file's own layout against rows of
 * activations. One call computes a range of output rows on the calling thread; who calls for
 * which range is the backend's business.
 */
#pragma once

#include <glib.h>

#include "src/core/backend.h"

G_BEGIN_DECLS

/*
 * Activations as the design quantises them: int8 per 32 values, scale amax / 127, rounded half to
 * even, and the exact sums of 16 and 32 times the scale. All arrays are 64-byte aligned; rows lie
 * one behind the other.
 */
typedef struct {
    int64_t n_rows;
    int64_t n_cols; /* a multiple of 32 */
    int8_t *q;      /* [n_rows, n_cols] */
    float *d;       /* [n_rows, n_cols / 32] */
    float *s32;     /* [n_rows, n_cols / 32] */
    float *s16;     /* [n_rows, n_cols / 16] */
} SluiceCpuQ8;

struct SluiceCpuKernels;

size_t sluice_cpu_q8_bytes(int64_t n_rows, int64_t n_cols);
/* Lays a SluiceCpuQ8 out in memory of sluice_cpu_q8_bytes(), 64-byte aligned. */
void sluice_cpu_q8_place(SluiceCpuQ8 *q8, int64_t n_rows, int64_t n_cols, void *memory);
/* Quantises rows [begin, end) of x [n_rows, n_cols] with row stride ldx. */
void sluice_cpu_q8_quantise(const struct SluiceCpuKernels *k, SluiceCpuQ8 *q8, const float *x,
                            int64_t ldx, int64_t row_begin, int64_t row_end);

/* The input of a product: float rows, and their quantised form when the weight wants one. */
typedef struct {
    const float *x; /* [n_rows, n_cols] */
    int64_t ldx;    /* floats from row to row */
    SluiceCpuQ8 q8; /* filled when sluice_cpu_matmul_wants_q8() */
    int64_t n_rows;
} SluiceCpuMatmulInput;

bool sluice_cpu_matmul_wants_q8(SluiceDtype dtype);
/* Whether a weight of n_cols columns of that type can be multiplied at all. */
bool sluice_cpu_matmul_supports(SluiceDtype dtype, int64_t n_cols);

/* Scratch that one thread needs, 64-byte aligned, for products of up to max_rows input rows and
 * max_cols columns; where the kernels have sgemm, sluice_cpu_blas_scratch_bytes() if that is more.
 */
size_t sluice_cpu_matmul_scratch_bytes(int64_t max_rows, int64_t max_cols);

/* Output rows that one call should cover a multiple of, so that tiles are whole. */
int64_t sluice_cpu_matmul_granule(SluiceDtype dtype, int64_t n_rows);

/*
 * y[t * ldy + (j - begin)] = x[t] . W[j] for j in [begin, end) and every input row t.
 * `rows` is the address of weight row 0, row_stride bytes apart. `scratch` is the thread's own.
 * row_idx, where given, lists which rows of the input take part (experts); y row i then belongs
 * to input row row_idx[i] and n_idx is their number; without it n_idx is not read.
 */
void sluice_cpu_matmul_rows(const struct SluiceCpuKernels *k, SluiceDtype dtype, const void *rows,
                            size_t row_stride, int64_t n_cols, int64_t begin, int64_t end,
                            const SluiceCpuMatmulInput *input, const int32_t *row_idx,
                            int64_t n_idx, float *y, int64_t ldy, void *scratch);

G_END_DECLS
