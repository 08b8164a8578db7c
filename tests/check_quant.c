/* SPDX-License-Identifier: MIT */
/*
 * Quantised types: the unpack functions against golden data from the Python package `gguf`, the
 * reference product against dequantised rows in double, and every level against the reference.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "cpu/kernels.h"
#include "cpu/matmul.h"
#include "src/core/tensor.h"
#include "tests/suite.h"

/* ---- golden data ---------------------------------------------------------------------------- */

static uint64_t
fnv1a(const void *data, size_t n)
{
    const uint8_t *bytes = data;
    uint64_t h = 0xcbf29ce484222325;

    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * 0x100000001b3;
    return h;
}

/* Checks one type's part of the file; returns the bytes it took. */
static size_t
check_golden_type(const char *at, size_t n_left)
{
    uint32_t head[4];
    size_t n_blocks, block_bytes, block_len, n_bytes;
    const SluiceDtypeInfo *info;
    float out[SLUICE_CPU_BLOCK_MAX];
    const char *hashes;

    ck_assert_uint_ge(n_left, sizeof head);
    memcpy(head, at, sizeof head);
    info = sluice_dtype_info((SluiceDtype) head[0]);
    ck_assert_ptr_nonnull(info);
    n_blocks = head[1];
    block_bytes = head[2];
    block_len = head[3];
    ck_assert_uint_eq(block_bytes, (size_t) info->block_bytes);
    ck_assert_uint_eq(block_len, (size_t) info->block_len);
    n_bytes = sizeof head + n_blocks * (block_bytes + sizeof(uint64_t)) + block_len * sizeof *out;
    ck_assert_uint_ge(n_left, n_bytes);
    hashes = at + sizeof head + n_blocks * block_bytes;
    for (size_t i = 0; i < n_blocks; i++) {
        uint64_t want;

        ck_assert(sluice_cpu_dequantise((SluiceDtype) head[0], at + sizeof head + i * block_bytes,
                                        out, (int64_t) block_len));
        if (i == 0) {
            const char *values = hashes + n_blocks * sizeof want;

            for (size_t e = 0; e < block_len; e++) {
                float value;

                memcpy(&value, values + e * sizeof value, sizeof value);
                ck_assert_msg(out[e] == value, "%s element %zu: %g, expected %g", info->name, e,
                              out[e], value);
            }
        }
        for (size_t e = 0; e < block_len; e++)
            out[e] += 0.0f; /* one zero, as the golden data has */
        memcpy(&want, hashes + i * sizeof want, sizeof want);
        ck_assert_msg(fnv1a(out, block_len * sizeof *out) == want, "%s block %zu", info->name, i);
    }
    return n_bytes;
}

START_TEST(blocks_mean_what_the_format_says)
{
    g_autofree char *path = g_build_filename(g_getenv("SLUICE_TEST_DATA"), "dequant.bin", NULL);
    g_autofree char *data = NULL;
    gsize n_bytes;
    int n_types = 0;

    ck_assert(g_file_get_contents(path, &data, &n_bytes, NULL));
    for (size_t at = 0; at < n_bytes; n_types++)
        at += check_golden_type(data + at, n_bytes - at);
    ck_assert_int_eq(n_types, 25);
}
END_TEST

/* ---- products ------------------------------------------------------------------------------- */

/* A product's operands and output, with an odd address for the weight and guards around y. */
typedef struct {
    SluiceDtype dtype;
    int64_t n_rows; /* of the weight */
    int64_t n_cols;
    int64_t n_x;
    size_t row_stride;
    uint8_t *weight_memory;
    uint8_t *weight;
    float *x;
    void *q8_memory;
    SluiceCpuMatmulInput input;
    float *y_memory;
    float *y;
    int64_t ldy;
    void *scratch;
} Product;

enum { N_GUARD = 8 };

static const float guard_value = 12345.678f;

static void *
alloc_aligned(size_t n_bytes)
{
    void *p = NULL;

    ck_assert_int_eq(posix_memalign(&p, 64, MAX(n_bytes, 64)), 0);
    return p;
}

static GRand *
test_rand(void)
{
    const char *seed = g_getenv("SLUICE_TEST_SEED");
    guint32 value = seed != NULL ? (guint32) g_ascii_strtoull(seed, NULL, 10) : 20261130;

    g_print("# seed %u\n", value);
    return g_rand_new_with_seed(value);
}

/* Bytes at random, and every half in them made a small finite number. */
static void
fill_blocks(SluiceDtype dtype, uint8_t *blocks, size_t n_blocks, GRand *rand)
{
    static const struct {
        SluiceDtype dtype;
        int8_t at[2];
    } halfs[] = {
        {SLUICE_DTYPE_Q4_0, {0, -1}},    {SLUICE_DTYPE_Q4_1, {0, 2}},
        {SLUICE_DTYPE_Q5_0, {0, -1}},    {SLUICE_DTYPE_Q5_1, {0, 2}},
        {SLUICE_DTYPE_Q8_0, {0, -1}},    {SLUICE_DTYPE_Q2_K, {80, 82}},
        {SLUICE_DTYPE_Q3_K, {108, -1}},  {SLUICE_DTYPE_Q4_K, {0, 2}},
        {SLUICE_DTYPE_Q5_K, {0, 2}},     {SLUICE_DTYPE_IQ2_XXS, {0, -1}},
        {SLUICE_DTYPE_IQ2_XS, {0, -1}},  {SLUICE_DTYPE_IQ2_S, {0, -1}},
        {SLUICE_DTYPE_IQ3_XXS, {0, -1}}, {SLUICE_DTYPE_IQ3_S, {0, -1}},
        {SLUICE_DTYPE_IQ1_S, {0, -1}},   {SLUICE_DTYPE_IQ4_NL, {0, -1}},
        {SLUICE_DTYPE_IQ4_XS, {0, -1}},  {SLUICE_DTYPE_TQ1_0, {52, -1}},
        {SLUICE_DTYPE_TQ2_0, {64, -1}},  {SLUICE_DTYPE_Q1_0, {0, -1}},
        {SLUICE_DTYPE_Q2_0, {0, -1}},    {SLUICE_DTYPE_F16, {0, -1}},
        {SLUICE_DTYPE_BF16, {0, -1}},
    };
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);
    size_t block_bytes = (size_t) info->block_bytes;

    for (size_t i = 0; i < n_blocks; i++) {
        uint8_t *b = blocks + i * block_bytes;

        for (size_t j = 0; j < block_bytes; j++)
            b[j] = (uint8_t) g_rand_int_range(rand, 0, 256);
        for (size_t h = 0; h < G_N_ELEMENTS(halfs); h++) {
            for (int j = 0; halfs[h].dtype == dtype && j < 2 && halfs[h].at[j] >= 0; j++)
                b[halfs[h].at[j] + 1] = (b[halfs[h].at[j] + 1] & 0x83) | 0x24;
        }
        if (dtype == SLUICE_DTYPE_Q6_K)
            b[209] = (b[209] & 0x83) | 0x24;
        else if (dtype == SLUICE_DTYPE_IQ1_M)
            b[55] = (b[55] & 0x8f) | 0x20;
        else if (dtype == SLUICE_DTYPE_MXFP4)
            b[0] = (uint8_t) g_rand_int_range(rand, 118, 130);
        else if (dtype == SLUICE_DTYPE_F32)
            b[3] = (b[3] & 0x80) | 0x3e;
        else if (dtype == SLUICE_DTYPE_BF16)
            b[1] = (b[1] & 0x80) | 0x3e;
    }
}

static void
product_init(Product *p, SluiceDtype dtype, int64_t n_rows, int64_t n_cols, int64_t n_x,
             GRand *rand)
{
    size_t n_bytes, n_blocks;

    memset(p, 0, sizeof *p);
    p->dtype = dtype;
    p->n_rows = n_rows;
    p->n_cols = n_cols;
    p->n_x = n_x;
    ck_assert(sluice_dtype_row_bytes(dtype, n_cols, &p->row_stride));
    n_blocks = p->row_stride / (size_t) sluice_dtype_info(dtype)->block_bytes;
    n_bytes = p->row_stride * (size_t) n_rows;
    p->weight_memory = g_malloc(n_bytes + 1);
    p->weight = p->weight_memory + 1;
    fill_blocks(dtype, p->weight, n_blocks * (size_t) n_rows, rand);
    p->x = g_new(float, n_x *n_cols);
    for (int64_t i = 0; i < n_x * n_cols; i++)
        p->x[i] = (float) g_rand_double_range(rand, -2, 2);
    p->input.x = p->x;
    p->input.ldx = n_cols;
    p->input.n_rows = n_x;
    if (sluice_cpu_matmul_wants_q8(dtype)) {
        p->q8_memory = alloc_aligned(sluice_cpu_q8_bytes(n_x, n_cols));
        sluice_cpu_q8_place(&p->input.q8, n_x, n_cols, p->q8_memory);
    }
    p->ldy = n_rows + 3;
    p->y_memory = g_new(float, n_x * p->ldy + 2 * N_GUARD);
    p->y = p->y_memory + N_GUARD;
    p->scratch = alloc_aligned(sluice_cpu_matmul_scratch_bytes(n_x, n_cols));
}

static void
product_clear(Product *p)
{
    g_free(p->weight_memory);
    g_free(p->x);
    free(p->q8_memory);
    g_free(p->y_memory);
    free(p->scratch);
}

/* Runs the product into fresh memory and checks that nothing else was written. */
static void
product_run(Product *p, const SluiceCpuKernels *k, const int32_t *row_idx, int64_t n_x)
{
    int64_t n_y = p->n_x * p->ldy;

    for (int64_t i = 0; i < n_y + 2 * N_GUARD; i++)
        p->y_memory[i] = guard_value;
    for (int64_t t = 0; t < n_x; t++) {
        for (int64_t j = 0; j < p->n_rows; j++)
            p->y[t * p->ldy + j] = NAN;
    }
    sluice_cpu_matmul_rows(k, p->dtype, p->weight, p->row_stride, p->n_cols, 0, p->n_rows,
                           &p->input, row_idx, n_x, p->y, p->ldy, p->scratch);
    for (int64_t i = -N_GUARD; i < n_y + N_GUARD; i++) {
        bool is_inside = i >= 0 && i < n_x * p->ldy && i % p->ldy < p->n_rows;

        if (!is_inside)
            ck_assert_msg(p->y[i] == guard_value, "%s [%d, %d] x %d: wrote at %d",
                          sluice_dtype_info(p->dtype)->name, (int) p->n_rows, (int) p->n_cols,
                          (int) n_x, (int) i);
    }
}

/* The same with dequantised weights and activations, in double. */
static void
product_want(const Product *p, const int32_t *row_idx, int64_t n_x, double *want)
{
    g_autofree float *row = g_new(float, p->n_cols);

    for (int64_t j = 0; j < p->n_rows; j++) {
        ck_assert(sluice_cpu_dequantise(p->dtype, p->weight + (size_t) j * p->row_stride, row,
                                        p->n_cols));
        for (int64_t t = 0; t < n_x; t++) {
            int64_t at = (row_idx != NULL ? row_idx[t] : t) * p->n_cols;
            double sum = 0;

            for (int64_t i = 0; i < p->n_cols; i++) {
                double a = p->q8_memory == NULL
                               ? p->x[at + i]
                               : (double) p->input.q8.q[at + i] * p->input.q8.d[(at + i) / 32];
                sum += (double) row[i] * a;
            }
            want[t * p->n_rows + j] = sum;
        }
    }
}

static double
product_nmse(const Product *p, const double *want, int64_t n_x)
{
    double error = 0, power = 0;

    for (int64_t t = 0; t < n_x; t++) {
        for (int64_t j = 0; j < p->n_rows; j++) {
            double got = p->y[t * p->ldy + j];
            double wanted = want[t * p->n_rows + j];

            ck_assert_msg(isfinite(got), "%s row %d of x %d is not finite",
                          sluice_dtype_info(p->dtype)->name, (int) j, (int) t);
            error += (wanted - got) * (wanted - got);
            power += wanted * wanted;
        }
    }
    if (power == 0)
        return error == 0 ? 0 : INFINITY;
    return error / power;
}

static void
check_product(const SluiceCpuKernels *k, SluiceDtype dtype, int64_t n_rows, int64_t n_cols,
              int64_t n_x, GRand *rand)
{
    g_autofree double *want = g_new(double, n_x *n_rows);
    Product p;
    double nmse;

    product_init(&p, dtype, n_rows, n_cols, n_x, rand);
    if (p.q8_memory != NULL)
        sluice_cpu_q8_quantise(k, &p.input.q8, p.x, n_cols, 0, n_x);
    product_want(&p, NULL, n_x, want);
    product_run(&p, k, NULL, n_x);
    nmse = product_nmse(&p, want, n_x);
    ck_assert_msg(nmse < 1e-9, "%s [%d, %d] x %d: nmse %g", sluice_dtype_info(dtype)->name,
                  (int) n_rows, (int) n_cols, (int) n_x, nmse);
    product_clear(&p);
}

/* Every type that products know. */
static bool
is_product_type(int dtype)
{
    const SluiceDtypeInfo *info = sluice_dtype_info((SluiceDtype) dtype);

    return info != NULL && sluice_cpu_matmul_supports((SluiceDtype) dtype, info->block_len);
}

START_TEST(reference_product_is_that_of_dequantised_rows)
{
    GRand *rand = test_rand();
    SluiceCpuKernels k;
    int n_types = 0;

    sluice_cpu_kernels_init(&k, 0);
    for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
        if (!is_product_type(i))
            continue;
        check_product(&k, (SluiceDtype) i, 5, 1024, 3, rand);
        n_types++;
    }
    ck_assert_int_eq(n_types, 28);
    g_rand_free(rand);
}
END_TEST

START_TEST(quantised_activations_are_within_half_a_step)
{
    enum { N = 256 };
    GRand *rand = test_rand();
    void *memory = alloc_aligned(sluice_cpu_q8_bytes(1, N));
    SluiceCpuKernels k;
    SluiceCpuQ8 q8;
    float x[N];

    sluice_cpu_kernels_init(&k, 0);
    sluice_cpu_q8_place(&q8, 1, N, memory);
    for (int e = 0; e < N; e++)
        x[e] = e / 32 == 1 ? 0.0f : (float) g_rand_double_range(rand, -3, 3);
    x[70] = -1e30f;
    for (int e = 96; e < 128; e++)
        x[e] = e == 100 ? 1e-42f : 0.0f;
    sluice_cpu_q8_quantise(&k, &q8, x, N, 0, 1);
    for (int e = 0; e < N; e++) {
        float d = q8.d[e / 32];

        ck_assert_int_ge(q8.q[e], -127);
        ck_assert_double_le(fabs((double) x[e] - (double) q8.q[e] * d), 0.5001 * d + 1e-40);
    }
    ck_assert(q8.d[1] == 0 && q8.s32[1] == 0 && q8.q[40] == 0);
    ck_assert(q8.d[3] == 0 && q8.s32[3] == 0 && q8.q[100] == 0);
    ck_assert_int_eq(q8.q[70], -127);
    for (int b = 0; b < N / 32; b++) {
        int sum = 0;

        for (int e = 0; e < 32; e++)
            sum += q8.q[32 * b + e];
        ck_assert(q8.s32[b] == q8.d[b] * (float) sum);
    }
    free(memory);
    g_rand_free(rand);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("quant");
    TCase *tc = tcase_create("dequantise");

    tcase_add_test(tc, blocks_mean_what_the_format_says);
    suite_add_tcase(suite, tc);
    tc = tcase_create("reference");
    tcase_add_test(tc, quantised_activations_are_within_half_a_step);
    tcase_add_test(tc, reference_product_is_that_of_dequantised_rows);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
