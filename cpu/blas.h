/* SPDX-License-Identifier: MIT */
/*
 * OpenBLAS below the products of the CPU executor: many rows of activations by F32, F16 or BF16
 * weights. It is called on the team's own threads, a tile of output columns at a time, and never
 * shares work out by itself.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "src/core/types.h"

G_BEGIN_DECLS

struct SluiceCpuKernels;

enum {
    /* Output columns of one call. Ranges begin at multiples of it, so that a value's place in its
     * tile, and with it its bits, do not depend on the number of threads. */
    SLUICE_CPU_BLAS_COLS = 64,
    /* Columns of the weight that are widened at a time: a tile of 256 KiB stays in a core's own
     * cache until OpenBLAS has packed it. */
    SLUICE_CPU_BLAS_DEPTH = 1024,
    /* Input rows from which OpenBLAS is not behind our own product: on one Zen 3 core 47 to 28
     * GFLOP/s for F32, 42 to 39 for F16 and 34 to 36 for BF16 at 24 rows; 69 to 34, 50 to 37 and
     * 61 to 37 at 512. */
    SLUICE_CPU_BLAS_MIN_ROWS = 24,
    /* A build of OpenBLAS has at least 50 work areas, one of which a call holds. */
    SLUICE_CPU_BLAS_MAX_THREADS = 48,
};

/* y[t * ldy + j] (+)= x[t * ldx + i] . w[j * ldw + i], for n_x rows t, n columns j and depth i. */
typedef void (*SluiceCpuSgemmFn)(float *y, int64_t ldy, const float *x, int64_t ldx, const float *w,
                                 int64_t ldw, int64_t n_x, int64_t n, int64_t depth,
                                 bool accumulate);

/* What is loaded, once per process. */
typedef struct {
    SluiceCpuSgemmFn sgemm; /* NULL: not there */
    const char *name;       /* such as "OpenBLAS 0.3.21" */
    const char *reason;     /* why sgemm is NULL */
} SluiceCpuBlas;

const SluiceCpuBlas *sluice_cpu_blas(void);
bool sluice_cpu_blas_is_right(SluiceCpuSgemmFn sgemm, const struct SluiceCpuKernels *k);

size_t sluice_cpu_blas_scratch_bytes(void);
size_t sluice_cpu_blas_work_bytes(int64_t max_rows);
void sluice_cpu_blas_rows(const struct SluiceCpuKernels *k, SluiceDtype dtype, const void *rows,
                          size_t row_stride, int64_t n_cols, int64_t n_rows, const float *x,
                          int64_t ldx, int64_t n_x, float *y, int64_t ldy, void *scratch);

G_END_DECLS
