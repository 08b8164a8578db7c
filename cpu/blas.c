/* SPDX-License-Identifier: MIT */
/*
 * OpenBLAS, opened by name when the first model with float matrices asks for it. Linked in it
 * would cost every start of the program: 3 ms for its relocations and its choice of kernels, and
 * threads that spin for a while before they park, beside a first token that takes 7 ms.
 *
 * Some builds miscompute on some processors, so that a product is compared with our own before
 * any is believed.
 */
#include "config.h"

#define G_LOG_DOMAIN "Sluice-CPU"

#include "cpu/blas.h"

#include <cblas.h>
#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include "cpu/half.h"
#include "cpu/kernels.h"

/* ---- loading -------------------------------------------------------------------------------- */

static __typeof__(cblas_sgemm) *library_sgemm;
static SluiceCpuBlas loaded;

static void
call_sgemm(float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, int64_t ldw,
           int64_t n_x, int64_t n, int64_t depth, bool accumulate)
{
    library_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint) n_x, (blasint) n,
                  (blasint) depth, 1, x, (blasint) ldx, w, (blasint) ldw, accumulate ? 1 : 0, y,
                  (blasint) ldy);
}

/* "OpenBLAS 0.3.21" of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
static char *
name_library(const char *config)
{
    const char *end = strchr(config, ' ');

    end = end != NULL ? strchr(end + 1, ' ') : NULL;
    return end != NULL ? g_strndup(config, (gsize) (end - config)) : g_strdup(config);
}

static void
load_library(void)
{
    /* Never closed: its threads live as long as the process. */
    void *library = dlopen(OPENBLAS_SONAME, RTLD_NOW | RTLD_LOCAL);
    __typeof__(openblas_set_num_threads) *set_threads;
    __typeof__(openblas_get_parallel) *get_parallel;
    __typeof__(openblas_get_config) *get_config;
    __typeof__(cblas_sgemm) *sgemm;

    loaded.reason = "'" OPENBLAS_SONAME "' cannot be opened";
    if (library == NULL)
        return;
    *(void **) &set_threads = dlsym(library, "openblas_set_num_threads");
    *(void **) &get_parallel = dlsym(library, "openblas_get_parallel");
    *(void **) &get_config = dlsym(library, "openblas_get_config");
    *(void **) &sgemm = dlsym(library, "cblas_sgemm");
    loaded.reason = "'" OPENBLAS_SONAME "' lacks a function";
    if (set_threads == NULL || get_parallel == NULL || get_config == NULL || sgemm == NULL)
        return;
    /* A build without threads may have no locks around its work areas either. */
    loaded.reason = "'" OPENBLAS_SONAME "' was built without threads";
    if (get_parallel() == OPENBLAS_SEQUENTIAL)
        return;
    set_threads(1);
    library_sgemm = sgemm;
    loaded = (SluiceCpuBlas){call_sgemm, name_library(get_config()), NULL};
}

/**
 * sluice_cpu_blas:
 *
 * Opens OpenBLAS where no caller has yet, and sets it to one thread.
 *
 * Threads: any.
 *
 * Returns: (transfer none): what there is
 * Since: 0.1
 */
const SluiceCpuBlas *
sluice_cpu_blas(void)
{
    static gsize is_done = 0;

    if (g_once_init_enter(&is_done)) {
        load_library();
        g_once_init_leave(&is_done, 1);
    }
    return &loaded;
}

/**
 * sluice_cpu_blas_is_right:
 * @sgemm: the function to try
 * @k: what it is compared with
 *
 * Computes a product of odd sizes, larger than a tile of any kernel, in two pieces of its depth,
 * over an output that is not a number beforehand.
 *
 * Returns: whether every value is what our own kernel computes, but for rounding
 * Since: 0.1
 */
bool
sluice_cpu_blas_is_right(SluiceCpuSgemmFn sgemm, const struct SluiceCpuKernels *k)
{
    enum { N_X = 23, N = 37, DEPTH = 451, FIRST = 389, LDX = DEPTH + 2, LDW = DEPTH + 3, LDY = 41 };
    g_autofree float *x = g_new(float, N_X *LDX);
    g_autofree float *w = g_new(float, N *LDW);
    g_autofree float *y = g_new(float, N_X *LDY);
    uint32_t state = 1;
    double error = 0;
    double sum = 0;

    /* Numerical Recipes' generator: any values serve that do not cancel. */
    for (int i = 0; i < N_X * LDX; i++)
        x[i] = (float) (int32_t) (state = state * 1664525u + 1013904223u) * 0x1p-31f;
    for (int i = 0; i < N * LDW; i++)
        w[i] = (float) (int32_t) (state = state * 1664525u + 1013904223u) * 0x1p-31f;
    for (int i = 0; i < N_X * LDY; i++)
        y[i] = NAN;
    sgemm(y, LDY, x, LDX, w, LDW, N_X, N, FIRST, false);
    sgemm(y, LDY, x + FIRST, LDX, w + FIRST, LDW, N_X, N, DEPTH - FIRST, true);
    for (int t = 0; t < N_X; t++) {
        for (int j = 0; j < N; j++) {
            double want = k->dot_f32(x + t * LDX, w + j * LDW, DEPTH);
            error += (want - y[t * LDY + j]) * (want - y[t * LDY + j]);
            sum += want * want;
        }
        for (int j = N; j < LDY; j++) {
            if (!isnan(y[t * LDY + j]))
                return false;
        }
    }
    return error <= 1e-10 * sum; /* false for NaN too */
}

/* ---- products ------------------------------------------------------------------------------- */

/**
 * sluice_cpu_blas_scratch_bytes:
 *
 * Returns: the scratch that each thread must bring to sluice_cpu_blas_rows()
 * Since: 0.1
 */
size_t
sluice_cpu_blas_scratch_bytes(void)
{
    return (size_t) SLUICE_CPU_BLAS_COLS * SLUICE_CPU_BLAS_DEPTH * sizeof(float);
}

/**
 * sluice_cpu_blas_work_bytes:
 * @max_rows: input rows of the largest product
 *
 * Returns: what OpenBLAS touches of the work area of one thread: input and tile, packed to a
 *   depth that is at most 512 in its float kernels
 * Since: 0.1
 */
size_t
sluice_cpu_blas_work_bytes(int64_t max_rows)
{
    return (size_t) (max_rows + SLUICE_CPU_BLAS_COLS) * 512 * sizeof(float);
}

/* The inner loop has a fixed length: compilers make vectors of it without being asked to. */
static void
load_bf16(float *to, const uint8_t *from, int64_t n)
{
    enum { N_AT_ONCE = 16 };
    int64_t i = 0;

    for (; i + N_AT_ONCE <= n; i += N_AT_ONCE) {
        uint16_t in[N_AT_ONCE];
        uint32_t out[N_AT_ONCE];
        memcpy(in, from + 2 * i, sizeof in);
        for (int j = 0; j < N_AT_ONCE; j++)
            out[j] = (uint32_t) in[j] << 16;
        memcpy(to + i, out, sizeof out);
    }
    for (; i < n; i++) {
        uint16_t in;
        memcpy(&in, from + 2 * i, sizeof in);
        to[i] = sluice_float_from_bits((uint32_t) in << 16);
    }
}

/* n values of each of n_rows rows from column `col` on; rows of `to` are n apart. */
static void
widen_tile(const SluiceCpuKernels *k, SluiceDtype dtype, float *to, const uint8_t *rows,
           size_t row_stride, int64_t n_rows, int64_t col, int64_t n)
{
    for (int64_t j = 0; j < n_rows; j++, to += n) {
        const uint8_t *row = rows + (size_t) j * row_stride;
        if (dtype == SLUICE_DTYPE_F16)
            k->kv_load[SLUICE_CPU_KV_F16](to, row + 2 * col, n);
        else if (dtype == SLUICE_DTYPE_BF16)
            load_bf16(to, row + 2 * col, n);
        else
            memcpy(to, row + 4 * col, (size_t) n * sizeof(float));
    }
}

/**
 * sluice_cpu_blas_rows:
 * @k: the kernels, sgemm among them
 * @dtype: F32, F16 or BF16
 * @rows: the first weight row, at any address
 * @row_stride: bytes from row to row
 * @n_cols: columns of the weight
 * @n_rows: rows of the weight, columns of the output
 * @x: the input
 * @ldx: floats from input row to input row
 * @n_x: input rows
 * @y: the output
 * @ldy: floats from output row to output row
 * @scratch: sluice_cpu_blas_scratch_bytes() bytes of this thread
 *
 * Shapes: y[t, j] = x[t] . W[j].
 * Aliasing: none.
 * Tolerance: NMSE 1e-10 to the reference.
 * Since: 0.1
 */
void
sluice_cpu_blas_rows(const struct SluiceCpuKernels *k, SluiceDtype dtype, const void *rows,
                     size_t row_stride, int64_t n_cols, int64_t n_rows, const float *x, int64_t ldx,
                     int64_t n_x, float *y, int64_t ldy, void *scratch)
{
    bool is_direct =
        dtype == SLUICE_DTYPE_F32 && ((uintptr_t) rows | row_stride) % sizeof(float) == 0;

    for (int64_t j = 0; j < n_rows; j += SLUICE_CPU_BLAS_COLS) {
        const uint8_t *tile = (const uint8_t *) rows + (size_t) j * row_stride;
        int64_t n = MIN(SLUICE_CPU_BLAS_COLS, n_rows - j);

        if (is_direct) {
            k->sgemm(y + j, ldy, x, ldx, (const float *) (const void *) tile,
                     (int64_t) (row_stride / sizeof(float)), n_x, n, n_cols, false);
            continue;
        }
        for (int64_t col = 0; col < n_cols; col += SLUICE_CPU_BLAS_DEPTH) {
            int64_t depth = MIN(SLUICE_CPU_BLAS_DEPTH, n_cols - col);
            widen_tile(k, dtype, scratch, tile, row_stride, n, col, depth);
            k->sgemm(y + j, ldy, x + col, ldx, scratch, depth, n_x, n, depth, col > 0);
        }
    }
}
