/* SPDX-License-Identifier: MIT */
/* Matrix products of the CPU executor: picks the kernel for a type and a number of rows. */
#include "config.h"

#include "cpu/kernels.h"
#include "cpu/matmul.h"
#include "cpu/quant.h"
#include "src/core/tensor.h"

/* Arrays start on cache lines. */
static size_t
align_bytes(size_t n_bytes)
{
    return (n_bytes + 63) & ~(size_t) 63;
}

/**
 * sluice_cpu_q8_bytes:
 * @n_rows: rows
 * @n_cols: values in each, a multiple of 32
 *
 * Returns: the bytes that so many quantised activations take
 * Since: 0.1
 */
size_t
sluice_cpu_q8_bytes(int64_t n_rows, int64_t n_cols)
{
    size_t n = (size_t) n_rows * (size_t) n_cols;

    return align_bytes(n) + 2 * align_bytes(n / 32 * sizeof(float)) +
           align_bytes(n / 16 * sizeof(float));
}

/**
 * sluice_cpu_q8_place:
 * @q8: (out): the arrays
 * @n_rows: rows
 * @n_cols: values in each, a multiple of 32
 * @memory: sluice_cpu_q8_bytes() bytes, 64-byte aligned, which stay the caller's
 *
 * Since: 0.1
 */
void
sluice_cpu_q8_place(SluiceCpuQ8 *q8, int64_t n_rows, int64_t n_cols, void *memory)
{
    size_t n = (size_t) n_rows * (size_t) n_cols;
    char *at = memory;

    g_assert(n_cols % 32 == 0);
    q8->n_rows = n_rows;
    q8->n_cols = n_cols;
    q8->q = (int8_t *) at;
    at += align_bytes(n);
    q8->d = (float *) at;
    at += align_bytes(n / 32 * sizeof(float));
    q8->s32 = (float *) at;
    at += align_bytes(n / 32 * sizeof(float));
    q8->s16 = (float *) at;
}

/**
 * sluice_cpu_q8_quantise:
 * @k: the kernels
 * @q8: where the rows go
 * @x: row 0 of the input
 * @ldx: floats from row to row
 * @row_begin: first row
 * @row_end: first row that is left alone
 *
 * Threads: any, on ranges that do not overlap.
 * Since: 0.1
 */
void
sluice_cpu_q8_quantise(const struct SluiceCpuKernels *k, SluiceCpuQ8 *q8, const float *x,
                       int64_t ldx, int64_t row_begin, int64_t row_end)
{
    int64_t n = q8->n_cols;

    for (int64_t i = row_begin; i < row_end; i++)
        k->quant.quantise(x + i * ldx, n, q8->q + i * n, q8->d + i * (n / 32),
                          q8->s32 + i * (n / 32), q8->s16 + i * (n / 16));
}

/**
 * sluice_cpu_matmul_wants_q8:
 * @dtype: a weight's type
 *
 * Returns: whether products with @dtype read the quantised form of their input
 * Since: 0.1
 */
bool
sluice_cpu_matmul_wants_q8(SluiceDtype dtype)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);

    return info != NULL && info->is_quantised;
}

/**
 * sluice_cpu_matmul_supports:
 * @dtype: a weight's type
 * @n_cols: its columns
 *
 * Returns: whether sluice_cpu_matmul_rows() can multiply it
 * Since: 0.1
 */
bool
sluice_cpu_matmul_supports(SluiceDtype dtype, int64_t n_cols)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);

    if (info == NULL || n_cols <= 0 || n_cols % info->block_len != 0)
        return false;
    return info->is_quantised || dtype == SLUICE_DTYPE_F32 || dtype == SLUICE_DTYPE_F16 ||
           dtype == SLUICE_DTYPE_BF16;
}

/**
 * sluice_cpu_matmul_scratch_bytes:
 * @max_rows: input rows of the largest product
 * @max_cols: its columns
 *
 * Returns: the scratch that each thread must bring
 * Since: 0.1
 */
size_t
sluice_cpu_matmul_scratch_bytes(int64_t max_rows, int64_t max_cols)
{
    size_t n_panel = SLUICE_CPU_PANEL_ROWS * SLUICE_CPU_PANEL_COLS;

    /* Panel values (up to two bytes each), its scales and offsets per 16, and what the largest
     * tile of input rows needs in 16 bits. */
    return 2 * n_panel + 2 * (n_panel / 16) * sizeof(float) +
           SLUICE_CPU_GEMV_MAX * SLUICE_CPU_PANEL_COLS * sizeof(int16_t);
}

/**
 * sluice_cpu_matmul_granule:
 * @dtype: the weight's type
 * @n_rows: input rows
 *
 * Returns: the number of output rows of which a caller's range should be a multiple
 * Since: 0.1
 */
int64_t
sluice_cpu_matmul_granule(SluiceDtype dtype, int64_t n_rows)
{
    if (!sluice_cpu_matmul_wants_q8(dtype) && n_rows >= SLUICE_CPU_BLAS_MIN_ROWS)
        return SLUICE_CPU_BLAS_COLS;
    return n_rows > 1 ? SLUICE_CPU_PANEL_ROWS : 4;
}

static void
rows_quantised(const SluiceCpuQuantType *type, const uint8_t *rows, size_t row_stride,
               int64_t n_rows, const SluiceCpuQ8 *q8, const int32_t *row_idx, int64_t n_x, float *y,
               int64_t ldy, void *scratch)
{
    int64_t n = q8->n_cols;

    if (type->gemm != NULL && n_x >= type->gemm_min_rows) {
        type->gemm(type, rows, row_stride, n_rows, n, q8, row_idx, n_x, y, ldy, scratch);
        return;
    }
    for (int64_t t = 0; t < n_x; t += SLUICE_CPU_GEMV_MAX) {
        SluiceCpuQ8Row x[SLUICE_CPU_GEMV_MAX];
        int n_group = (int) MIN(n_x - t, SLUICE_CPU_GEMV_MAX);

        for (int i = 0; i < n_group; i++)
            x[i] = sluice_cpu_q8_row(q8, row_idx != NULL ? row_idx[t + i] : t + i);
        type->gemv(type, rows, row_stride, n_rows, n, x, n_group, y + t * ldy, ldy);
    }
}

static void
rows_float(const SluiceCpuQuantType *type, const uint8_t *rows, size_t row_stride, int64_t n_rows,
           int64_t n_cols, const SluiceCpuMatmulInput *input, const int32_t *row_idx, int64_t n_x,
           float *y, int64_t ldy)
{
    for (int64_t t = 0; t < n_x; t += SLUICE_CPU_GEMV_MAX) {
        const float *x[SLUICE_CPU_GEMV_MAX];
        int n_group = (int) MIN(n_x - t, SLUICE_CPU_GEMV_MAX);

        for (int i = 0; i < n_group; i++)
            x[i] = input->x + (row_idx != NULL ? row_idx[t + i] : t + i) * input->ldx;
        type->gemv_float(rows, row_stride, n_rows, n_cols, x, n_group, y + t * ldy, ldy);
    }
}

/**
 * sluice_cpu_matmul_rows:
 * @k: the kernels
 * @dtype: the weight's type
 * @rows: weight row 0, at any address
 * @row_stride: bytes from row to row
 * @n_cols: columns of the weight
 * @begin: first output row
 * @end: first output row that is left alone
 * @input: the activations, quantised where the type wants that
 * @row_idx: (nullable): which rows of @input take part
 * @n_idx: how many @row_idx lists
 * @y: the output; column @begin comes first
 * @ldy: floats from output row to output row
 * @scratch: sluice_cpu_matmul_scratch_bytes() bytes, 64-byte aligned, of this thread
 *
 * Shapes: y[t, j - begin] = x[t] . W[j].
 * Aliasing: none.
 * Tolerance: integer sums of sub-blocks are exact; NMSE 1e-9 to the reference.
 * Since: 0.1
 */
void
sluice_cpu_matmul_rows(const struct SluiceCpuKernels *k, SluiceDtype dtype, const void *rows,
                       size_t row_stride, int64_t n_cols, int64_t begin, int64_t end,
                       const SluiceCpuMatmulInput *input, const int32_t *row_idx, int64_t n_idx,
                       float *y, int64_t ldy, void *scratch)
{
    const SluiceCpuQuantType *type = &k->quant.types[dtype];
    const uint8_t *first = (const uint8_t *) rows + (size_t) begin * row_stride;
    int64_t n_x = row_idx != NULL ? n_idx : input->n_rows;

    g_assert(sluice_cpu_matmul_supports(dtype, n_cols));
    if (type->block_len == 0 && k->sgemm != NULL && row_idx == NULL &&
        n_x >= SLUICE_CPU_BLAS_MIN_ROWS) {
        sluice_cpu_blas_rows(k, dtype, first, row_stride, n_cols, end - begin, input->x, input->ldx,
                             n_x, y, ldy, scratch);
        return;
    }
    if (type->block_len == 0) {
        rows_float(type, first, row_stride, end - begin, n_cols, input, row_idx, n_x, y, ldy);
        return;
    }
    g_assert(input->q8.n_cols == n_cols);
    rows_quantised(type, first, row_stride, end - begin, &input->q8, row_idx, n_x, y, ldy, scratch);
}
