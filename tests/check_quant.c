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

/* ---- levels --------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    SluiceCpuFeatures features;                   /* of a level of this processor, or */
    void (*init)(SluiceCpuQuantKernels *kernels); /* an emulated one, over the reference */
} Level;

static const Level levels[] = {
    {"avx2", SLUICE_CPU_AVX2, NULL},
    {"avx-vnni", SLUICE_CPU_AVX2 | SLUICE_CPU_AVX_VNNI, NULL},
    {"avx512", SLUICE_CPU_AVX2 | SLUICE_CPU_AVX512, NULL},
#ifdef HAVE_SIMDE
    {"emulated avx-vnni", SLUICE_CPU_AVX2, sluice_cpu_quant_init_avxvnni_simde},
    {"emulated avx512", SLUICE_CPU_AVX2, sluice_cpu_quant_init_avx512_simde},
#endif
};

/* Fills the table; false when this processor lacks the level. */
static bool
level_init(const Level *level, SluiceCpuKernels *k)
{
    if ((level->features & ~sluice_cpu_features()) != 0)
        return false;
    sluice_cpu_kernels_init(k, level->features);
    if (level->init != NULL)
        level->init(&k->quant);
    return true;
}

/* Shapes in blocks of the type: odd numbers of rows, one block, real sizes. */
static const struct {
    int16_t n_rows;
    int16_t n_cols; /* at least one block */
    int16_t n_x;
} shapes[] = {
    {1, 32, 1},   {2, 64, 1},   {3, 96, 2},    {5, 256, 3},   {7, 512, 1},
    {17, 576, 1}, {16, 288, 4}, {33, 768, 8},  {15, 1024, 9}, {16, 1536, 5},
    {31, 640, 7}, {4, 4096, 1}, {17, 2304, 6}, {32, 256, 64}, {48, 1280, 37},
};

/* Both products on the same quantised input; the reference's output is kept. */
static double
compare_products(Product *p, const SluiceCpuKernels *ref, const SluiceCpuKernels *k,
                 const int32_t *row_idx, int64_t n_x)
{
    g_autofree double *want = g_new(double, n_x * p->n_rows);

    product_run(p, ref, row_idx, n_x);
    for (int64_t t = 0; t < n_x; t++) {
        for (int64_t j = 0; j < p->n_rows; j++)
            want[t * p->n_rows + j] = p->y[t * p->ldy + j];
    }
    product_run(p, k, row_idx, n_x);
    return product_nmse(p, want, n_x);
}

static void
check_shape(const Level *level, const SluiceCpuKernels *k, SluiceDtype dtype, int64_t n_rows,
            int64_t n_cols, int64_t n_x, GRand *rand)
{
    int64_t block_len = sluice_dtype_info(dtype)->block_len;
    SluiceCpuKernels ref;
    Product p;
    double nmse;

    sluice_cpu_kernels_init(&ref, 0);
    n_cols = MAX(n_cols / block_len * block_len, block_len);
    product_init(&p, dtype, n_rows, n_cols, n_x, rand);
    if (p.q8_memory != NULL)
        sluice_cpu_q8_quantise(&ref, &p.input.q8, p.x, n_cols, 0, n_x);
    nmse = compare_products(&p, &ref, k, NULL, n_x);
    /* Floats are summed in another order over many more terms: the bound of float kernels. */
    ck_assert_msg(nmse < (p.q8_memory != NULL ? 1e-9 : 1e-7), "%s %s [%d, %d] x %d: nmse %g",
                  level->name, sluice_dtype_info(dtype)->name, (int) n_rows, (int) n_cols,
                  (int) n_x, nmse);
    product_clear(&p);
}

START_TEST(levels_match_the_reference)
{
    const Level *level = &levels[_i];
    GRand *rand = test_rand();
    SluiceCpuKernels k;

    if (level_init(level, &k)) {
        for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
            for (size_t s = 0; is_product_type(i) && s < G_N_ELEMENTS(shapes); s++)
                check_shape(level, &k, (SluiceDtype) i, shapes[s].n_rows, shapes[s].n_cols,
                            shapes[s].n_x, rand);
        }
    }
    g_rand_free(rand);
}
END_TEST

START_TEST(every_number_of_rows_matches)
{
    static const SluiceDtype dtypes[] = {SLUICE_DTYPE_Q4_1, SLUICE_DTYPE_Q8_0, SLUICE_DTYPE_Q6_K,
                                         SLUICE_DTYPE_Q4_K, SLUICE_DTYPE_IQ2_XXS};
    const Level *level = &levels[_i];
    GRand *rand = test_rand();
    SluiceCpuKernels k;

    if (level_init(level, &k)) {
        for (size_t i = 0; i < G_N_ELEMENTS(dtypes); i++) {
            for (int n_x = 1; n_x <= 40; n_x++)
                check_shape(level, &k, dtypes[i], 1 + (n_x * 7) % 19, 256, n_x, rand);
        }
    }
    g_rand_free(rand);
}
END_TEST

/* Weights of all ones and of all zeros, activations at both ends of their range. */
START_TEST(extreme_blocks_do_not_saturate)
{
    const Level *level = &levels[_i];
    GRand *rand = test_rand();
    SluiceCpuKernels k, ref;

    sluice_cpu_kernels_init(&ref, 0);
    for (int i = 0; level_init(level, &k) && i < SLUICE_DTYPE_COUNT; i++) {
        for (int n_x = 1; is_product_type(i) && n_x <= 24; n_x += 23) {
            for (int pattern = 0; pattern < 6; pattern++) {
                static const uint8_t fills[6] = {0xff, 0x80, 0x7f, 0x00, 0x88, 0xf0};
                const SluiceDtypeInfo *info = sluice_dtype_info((SluiceDtype) i);
                Product p;
                double nmse;

                product_init(&p, (SluiceDtype) i, 16, 512, n_x, rand);
                for (size_t b = 0; b < 16 * p.row_stride; b++) {
                    /* Keep what fill_blocks did for the halfs: bytes of small exponent. */
                    size_t at = b % (size_t) info->block_bytes;
                    bool is_scale =
                        info->is_quantised && (at < 4 || at + 4 >= (size_t) info->block_bytes);

                    if (info->is_quantised && !is_scale)
                        p.weight[b] = fills[pattern];
                }
                if (p.q8_memory == NULL) {
                    product_clear(&p);
                    continue;
                }
                for (int64_t e = 0; e < n_x * 512; e++)
                    p.x[e] = pattern % 2 == 0 || e % 3 != 0 ? 1.0f : -1.0f;
                sluice_cpu_q8_quantise(&ref, &p.input.q8, p.x, 512, 0, n_x);
                nmse = compare_products(&p, &ref, &k, NULL, n_x);
                ck_assert_msg(nmse < 1e-9, "%s %s fill %02x x %d: nmse %g", level->name, info->name,
                              fills[pattern], n_x, nmse);
                product_clear(&p);
            }
        }
    }
    g_rand_free(rand);
}
END_TEST

START_TEST(listed_rows_are_those_of_the_list)
{
    static const int32_t row_idx[] = {11, 3, 3, 0, 12, 7, 1, 2, 9, 10, 4, 5, 6, 8, 11, 0, 1, 2, 4};
    const Level *level = &levels[_i];
    GRand *rand = test_rand();
    SluiceCpuKernels k, ref;

    sluice_cpu_kernels_init(&ref, 0);
    if (level_init(level, &k)) {
        for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
            for (int n_idx = 1; is_product_type(i) && n_idx <= 13; n_idx += 4) {
                Product p;

                product_init(&p, (SluiceDtype) i, 9, 256, 13, rand);
                if (p.q8_memory != NULL)
                    sluice_cpu_q8_quantise(&ref, &p.input.q8, p.x, 256, 0, 13);
                ck_assert_double_lt(compare_products(&p, &ref, &k, row_idx, n_idx), 1e-9);
                product_clear(&p);
            }
        }
    }
    g_rand_free(rand);
}
END_TEST

START_TEST(levels_quantise_to_the_same_bits)
{
    enum { N = 4096 };
    const Level *level = &levels[_i];
    GRand *rand = test_rand();
    size_t n_bytes = sluice_cpu_q8_bytes(1, N);
    uint8_t *want_memory = alloc_aligned(n_bytes);
    uint8_t *got_memory = alloc_aligned(n_bytes);
    float *memory = g_new(float, N + 1);
    float *x = memory + 1;
    SluiceCpuKernels k, ref;
    SluiceCpuQ8 want, got;

    sluice_cpu_kernels_init(&ref, 0);
    sluice_cpu_q8_place(&want, 1, N, want_memory);
    sluice_cpu_q8_place(&got, 1, N, got_memory);
    for (int round = 0; level_init(level, &k) && round < 20; round++) {
        for (int e = 0; e < N; e++) {
            x[e] = (float) g_rand_double_range(rand, -1, 1) * powf(10, (float) (e / 32 % 70 - 35));
            if (round == 1)
                x[e] = (float) (g_rand_int_range(rand, -254, 255)) * 0.5f; /* ties */
            else if (round == 2)
                x[e] = e % 64 < 32 ? 0 : 1e-41f;
        }
        sluice_cpu_q8_quantise(&ref, &want, x, N, 0, 1);
        sluice_cpu_q8_quantise(&k, &got, x, N, 0, 1);
        ck_assert_mem_eq(want.q, got.q, N);
        ck_assert_mem_eq(want.d, got.d, N / 32 * sizeof(float));
        ck_assert_mem_eq(want.s32, got.s32, N / 32 * sizeof(float));
        ck_assert_mem_eq(want.s16, got.s16, N / 16 * sizeof(float));
    }
    g_free(memory);
    free(want_memory);
    free(got_memory);
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
    tc = tcase_create("levels");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, levels_quantise_to_the_same_bits, 0, G_N_ELEMENTS(levels));
    tcase_add_loop_test(tc, levels_match_the_reference, 0, G_N_ELEMENTS(levels));
    tcase_add_loop_test(tc, every_number_of_rows_matches, 0, G_N_ELEMENTS(levels));
    tcase_add_loop_test(tc, extreme_blocks_do_not_saturate, 0, G_N_ELEMENTS(levels));
    tcase_add_loop_test(tc, listed_rows_are_those_of_the_list, 0, G_N_ELEMENTS(levels));
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
