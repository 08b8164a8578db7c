/* SPDX-License-Identifier: MIT */
/*
 * Each instruction set level against the scalar reference, slot by slot. AVX-512 is also tested
 * as a level of two halves per vector where the machine has AVX2 alone.
 */
#include "config.h"

#include <math.h>

#include "cpu/kernels.h"
#include "tests/suite.h"

enum { MAX_N = 1040 };

static SluiceCpuKernels reference;
static SluiceCpuKernels tables[3];
static int n_tables;

static const int lengths[] = {1, 7, 8, 15, 16, 17, 33, 64, 100, 128, 513, 1024};

static GRand *
test_rand(void)
{
    const char *seed = g_getenv("SLUICE_TEST_SEED");

    return g_rand_new_with_seed(seed != NULL ? (guint32) g_ascii_strtoull(seed, NULL, 10) : 7);
}

static void
fill(GRand *rand, float *x, int64_t n, double scale)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float) g_rand_double_range(rand, -scale, scale);
}

static void
check_close(const float *ref, const float *got, int64_t n, double bound, const char *what)
{
    double error = 0;
    double total = 0;

    for (int64_t i = 0; i < n; i++) {
        ck_assert_msg(isfinite(got[i]), "%s: value %d is not finite", what, (int) i);
        error += ((double) ref[i] - (double) got[i]) * ((double) ref[i] - (double) got[i]);
        total += (double) ref[i] * (double) ref[i];
    }
    ck_assert_msg(error <= bound * total, "%s of %d: nmse %g, at most %g", what, (int) n,
                  error / total, bound);
}

/* An output of n values between guards that must survive. */
typedef struct {
    float memory[MAX_N + 64];
    float *values; /* 4 bytes off any vector's alignment */
    int64_t n;
} Guarded;

static void
guard(Guarded *g, int64_t n)
{
    for (size_t i = 0; i < G_N_ELEMENTS(g->memory); i++)
        g->memory[i] = NAN;
    g->values = g->memory + 17;
    g->n = n;
    g->values[-1] = 4242;
    g->values[n] = 4243;
}

static void
check_guards(const Guarded *g)
{
    ck_assert_float_eq(g->values[-1], 4242);
    ck_assert_float_eq(g->values[g->n], 4243);
}

START_TEST(values_match_ref)
{
    const SluiceCpuKernels *k = &tables[_i];
    GRand *rand = test_rand();
    static Guarded got, ref;
    float a[MAX_N], b[MAX_N];

    for (size_t l = 0; l < G_N_ELEMENTS(lengths); l++) {
        int n = lengths[l];
        fill(rand, a, n, 40);
        fill(rand, b, n, 40);
        a[0] = -200; /* far out: sigmoid must come to 0, not to NaN */
        a[n - 1] = 100;
#define CHECK_VALUES(call_ref, call_got, what)                                                     \
    guard(&ref, n);                                                                                \
    guard(&got, n);                                                                                \
    call_ref;                                                                                      \
    call_got;                                                                                      \
    check_guards(&got);                                                                            \
    check_close(ref.values, got.values, n, 1e-12, what)
        CHECK_VALUES(reference.add(ref.values, a, b, n), k->add(got.values, a, b, n), "add");
        CHECK_VALUES(reference.scale(ref.values, a, 0.3f, n), k->scale(got.values, a, 0.3f, n),
                     "scale");
        CHECK_VALUES(reference.soft_cap(ref.values, a, 30, n), k->soft_cap(got.values, a, 30, n),
                     "soft cap");
        CHECK_VALUES(reference.soft_cap(ref.values, a, 5000, n),
                     k->soft_cap(got.values, a, 5000, n), "soft cap near zero");
        CHECK_VALUES(reference.rms_norm(ref.values, a, b, n, 1e-5f),
                     k->rms_norm(got.values, a, b, n, 1e-5f), "norm");
        CHECK_VALUES(reference.rms_norm(ref.values, a, NULL, n, 1e-5f),
                     k->rms_norm(got.values, a, NULL, n, 1e-5f), "norm without weight");
        for (int f = 0; f < 4; f++) {
            CHECK_VALUES(reference.glu[f](ref.values, a, b, n), k->glu[f](got.values, a, b, n),
                         "glu");
        }
        CHECK_VALUES((memcpy(ref.values, b, (size_t) n * 4), reference.axpy(ref.values, a, 2, n)),
                     (memcpy(got.values, b, (size_t) n * 4), k->axpy(got.values, a, 2, n)), "axpy");
        float d = reference.dot_f32(a, b, n);
        ck_assert_float_eq_tol(d, k->dot_f32(a, b, n), 1e-5f * 1600 * sqrtf((float) n));
    }
    g_rand_free(rand);
}
END_TEST

START_TEST(rope_and_search_match_ref)
{
    const SluiceCpuKernels *k = &tables[_i];
    GRand *rand = test_rand();
    static Guarded got, ref;
    float x[2 * MAX_N], c[MAX_N], s[MAX_N];

    for (size_t l = 0; l < G_N_ELEMENTS(lengths) && 2 * lengths[l] <= MAX_N; l++) {
        int n = lengths[l];
        fill(rand, x, 2 * n, 3);
        fill(rand, c, n, 1);
        fill(rand, s, n, 1);
        for (int is_neox = 0; is_neox < 2; is_neox++) {
            guard(&got, 2 * n);
            guard(&ref, 2 * n);
            memcpy(got.values, x, (size_t) (2 * n) * 4);
            memcpy(ref.values, x, (size_t) (2 * n) * 4);
            (is_neox ? k->rope_neox : k->rope_norm)(got.values, c, s, n);
            (is_neox ? reference.rope_neox : reference.rope_norm)(ref.values, c, s, n);
            check_guards(&got);
            check_close(ref.values, got.values, 2 * n, 1e-12, "rope");
        }
        for (int i = 0; i < 20; i++) {
            int begin = g_rand_int_range(rand, 0, 2 * n + 1);
            float bound = x[g_rand_int_range(rand, 0, 2 * n)];
            ck_assert_int_eq(reference.find_above(x, begin, 2 * n, bound),
                             k->find_above(x, begin, 2 * n, bound));
        }
        x[n] = NAN;
        ck_assert_int_eq(k->find_above(x, 0, 2 * n, 5), 2 * n);
    }
    g_rand_free(rand);
}
END_TEST

static const size_t block_lens[] = {1, 1, 32, 32};
static const size_t block_bytes[] = {4, 2, 34, 18};

START_TEST(pages_match_ref_exactly)
{
    const SluiceCpuKernels *k = &tables[_i];
    GRand *rand = test_rand();
    static const int dims[] = {32, 40, 64, 80, 96, 128, 256, 512};
    float x[512];
    static Guarded got, ref;

    for (int type = 0; type < SLUICE_CPU_KV_COUNT; type++) {
        for (size_t d = 0; d < G_N_ELEMENTS(dims); d++) {
            int n = dims[d];
            size_t n_bytes = (size_t) n / block_lens[type] * block_bytes[type];
            uint8_t row[4096], row_ref[4096];
            if ((size_t) n % block_lens[type] != 0)
                continue;
            fill(rand, x, n, 5);
            if (d % 2 == 0)
                memset(x, 0, 32 * sizeof *x);
            memset(row, 0xaa, sizeof row);
            memset(row_ref, 0xaa, sizeof row_ref);
            k->kv_store[type](row + 2, x, n);
            reference.kv_store[type](row_ref + 2, x, n);
            ck_assert_mem_eq(row, row_ref, n_bytes + 4);
            guard(&got, n);
            guard(&ref, n);
            k->kv_load[type](got.values, row + 2, n);
            reference.kv_load[type](ref.values, row + 2, n);
            check_guards(&got);
            ck_assert_mem_eq(got.values, ref.values, (size_t) n * 4);
        }
    }
    g_rand_free(rand);
}
END_TEST

START_TEST(scores_and_values_match_ref)
{
    enum { LD = 64, MAX_QUERIES = 8 };
    const SluiceCpuKernels *k = &tables[_i];
    GRand *rand = test_rand();
    static const int dims[] = {32, 40, 64, 80, 96, 256};
    static const int keys[] = {1, 3, 4, 23, 64};
    float *queries = g_new(float, MAX_QUERIES * 256);
    uint8_t *page = g_malloc(64 * 256 * 4);
    float *row = g_new(float, 256);
    float scores[2][MAX_QUERIES * LD];
    float *out[2] = {g_new(float, MAX_QUERIES * 256), g_new(float, MAX_QUERIES * 256)};

    fill(rand, queries, MAX_QUERIES * 256, 2);
    for (int type = 0; type < SLUICE_CPU_KV_COUNT; type++) {
        for (size_t d = 0; d < G_N_ELEMENTS(dims); d++) {
            int dim = dims[d];
            size_t row_bytes = (size_t) dim / block_lens[type] * block_bytes[type];
            if ((size_t) dim % block_lens[type] != 0)
                continue;
            for (int j = 0; j < 64; j++) {
                fill(rand, row, dim, 2);
                reference.kv_store[type](page + (size_t) j * row_bytes, row, dim);
            }
            for (size_t n = 0; n < G_N_ELEMENTS(keys); n++) {
                for (int q = 1; q <= MAX_QUERIES; q++) {
                    for (int i = 0; i < MAX_QUERIES * LD; i++)
                        scores[0][i] = scores[1][i] = 77;
                    reference.scores[type](scores[0], LD, queries, q, page, keys[n], dim);
                    k->scores[type](scores[1], LD, queries, q, page, keys[n], dim);
                    check_close(scores[0], scores[1], MAX_QUERIES * LD, 1e-12, "scores");
                    fill(rand, out[0], q * dim, 1);
                    memcpy(out[1], out[0], (size_t) (q * dim) * 4);
                    reference.values[type](out[0], scores[0], LD, q, page, keys[n], dim);
                    k->values[type](out[1], scores[0], LD, q, page, keys[n], dim);
                    check_close(out[0], out[1], q * dim, 1e-11, "values");
                }
            }
        }
    }
    g_free(queries);
    g_free(page);
    g_free(row);
    g_free(out[0]);
    g_free(out[1]);
    g_rand_free(rand);
}
END_TEST

START_TEST(softmax_matches_ref_in_pieces)
{
    const SluiceCpuKernels *k = &tables[_i];
    GRand *rand = test_rand();
    float a[64], b[64];
    float max[2] = {-INFINITY, -INFINITY};
    float sum[2] = {0, 0};

    for (int piece = 0; piece < 40; piece++) {
        int n = g_rand_int_range(rand, 1, 65);
        float factors[2];
        fill(rand, a, n, 8 + piece);
        for (int i = 0; i < n; i++) {
            if (piece == 0 || piece == 7 || g_rand_int_range(rand, 0, 4) == 0)
                a[i] = -INFINITY;
        }
        memcpy(b, a, sizeof a);
        factors[0] = reference.softmax(a, n, &max[0], &sum[0]);
        factors[1] = k->softmax(b, n, &max[1], &sum[1]);
        ck_assert(max[0] == max[1]);
        ck_assert_float_eq_tol(factors[0], factors[1], 1e-6f);
        ck_assert_float_eq_tol(sum[0], sum[1], 1e-5f * fmaxf(1, sum[0]));
        if (piece == 0 || piece == 7)
            ck_assert_mem_eq(a, b, (size_t) n * 4);
        else
            check_close(a, b, n, 1e-12, "softmax");
    }
    g_rand_free(rand);
}
END_TEST

START_TEST(gemm_and_transpose_match_ref)
{
    const SluiceCpuKernels *k = &tables[_i];
    GRand *rand = test_rand();
    static const int shapes[][3] = {{1, 1, 1},    {6, 16, 64},   {12, 32, 40}, {60, 64, 64},
                                    {13, 50, 9},  {59, 33, 100}, {5, 7, 3},    {17, 80, 64},
                                    {60, 23, 64}, {30, 96, 1}};
    float *a = g_new(float, 64 * 128);
    float *b = g_new(float, 128 * 128);
    float *c[2] = {g_new(float, 64 * 128), g_new(float, 64 * 128)};

    for (size_t s = 0; s < G_N_ELEMENTS(shapes); s++) {
        int m = shapes[s][0], n = shapes[s][1], depth = shapes[s][2];
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            fill(rand, a, 64 * 128, 1);
            fill(rand, b, 128 * 128, 1);
            fill(rand, c[0], 64 * 128, 1);
            memcpy(c[1], c[0], 64 * 128 * 4);
            reference.gemm(c[0], 100, a, 101, b, 102, m, n, depth, accumulate);
            k->gemm(c[1], 100, a, 101, b, 102, m, n, depth, accumulate);
            /* The whole of c: what lies between rows must be left alone. */
            check_close(c[0], c[1], 64 * 128, 1e-12, "gemm");
        }
        memcpy(c[1], c[0], 64 * 128 * 4);
        reference.transpose(c[0], 64, b, 101, m, n);
        k->transpose(c[1], 64, b, 101, m, n);
        ck_assert_mem_eq(c[0], c[1], 64 * 128 * 4);
    }
    g_free(a);
    g_free(b);
    g_free(c[0]);
    g_free(c[1]);
    g_rand_free(rand);
}
END_TEST

START_TEST(recurrent_steps_match_ref)
{
    const SluiceCpuKernels *k = &tables[_i];
    GRand *rand = test_rand();
    static const int dims[] = {8, 24, 64, 128};

    for (size_t d = 0; d < G_N_ELEMENTS(dims); d++) {
        int n = dims[d];
        float *m[2] = {g_new(float, n *n), g_new(float, n *n)};
        float q[128], key[128], v[128], out[2][128], inputs[4][128], w[512];
        const float *rows[4] = {inputs[0], inputs[1], inputs[2], inputs[3]};
        fill(rand, m[0], n * n, 1);
        memcpy(m[1], m[0], (size_t) (n * n) * 4);
        fill(rand, q, n, 1);
        fill(rand, key, n, 1);
        fill(rand, v, n, 1);
        reference.delta_step(out[0], m[0], q, key, v, 0.9f, 0.4f, n);
        k->delta_step(out[1], m[1], q, key, v, 0.9f, 0.4f, n);
        check_close(out[0], out[1], n, 1e-11, "delta step");
        check_close(m[0], m[1], n * n, 1e-11, "delta state");
        fill(rand, inputs[0], 4 * 128, 2);
        fill(rand, w, 512, 2);
        for (int n_kernel = 1; n_kernel <= 4; n_kernel++) {
            reference.conv(out[0], w, rows, n_kernel, n - 3);
            k->conv(out[1], w, rows, n_kernel, n - 3);
            check_close(out[0], out[1], n - 3, 1e-11, "convolution");
        }
        g_free(m[0]);
        g_free(m[1]);
    }
    g_rand_free(rand);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("ops");
    TCase *tc = tcase_create("levels");

    sluice_cpu_kernels_init(&reference, 0);
#ifdef HAVE_X86
    if (sluice_cpu_features() & SLUICE_CPU_AVX2) {
        sluice_cpu_kernels_init(&tables[n_tables++], SLUICE_CPU_AVX2);
        tables[n_tables] = reference;
        sluice_cpu_ops_init_avx512_halves(&tables[n_tables++]);
    }
    if (sluice_cpu_features() & SLUICE_CPU_AVX512)
        sluice_cpu_kernels_init(&tables[n_tables++], sluice_cpu_features());
#endif
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, values_match_ref, 0, n_tables);
    tcase_add_loop_test(tc, rope_and_search_match_ref, 0, n_tables);
    tcase_add_loop_test(tc, pages_match_ref_exactly, 0, n_tables);
    tcase_add_loop_test(tc, scores_and_values_match_ref, 0, n_tables);
    tcase_add_loop_test(tc, softmax_matches_ref_in_pieces, 0, n_tables);
    tcase_add_loop_test(tc, gemm_and_transpose_match_ref, 0, n_tables);
    tcase_add_loop_test(tc, recurrent_steps_match_ref, 0, n_tables);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
