/* SPDX-License-Identifier: MIT */
/*
 * The CPU executor against formulas in double precision that are written here anew, on the scalar
 * reference and on every level that this machine has. Activations are written and read behind the
 * executor's back, since the table of operations has no way in but tokens.
 */
#include "config.h"

#include <math.h>

#include "cpu/backend-private.h"
#include "cpu/half.h"
#include "src/core/tensor.h"
#include "tests/suite.h"

/* ---- fixture -------------------------------------------------------------------------------- */

enum {
    MAX_WEIGHTS = 64,
    MAX_ACTS = 24,
    TABLE_PAGES = 24,
};

/* The levels that tests loop over: the reference, then what the machine has. */
static SluiceCpuFeatures levels[4];
static int n_levels;

typedef struct {
    SluiceResidency residency; /* first: view() gets a pointer to it */
    SluiceWeightView weights[MAX_WEIGHTS];
    const void **slabs[MAX_WEIGHTS];
    void *owned[MAX_WEIGHTS];
    float *values[MAX_WEIGHTS]; /* what random weights stand for */
    int n_weights;
    SluiceActSpec acts[MAX_ACTS];
    SluiceBackendConfig config;
    SluiceKvGroup groups[8];
    SluiceKvTable tables[2];
    SluiceStateGroup states[4];
    SluiceBackend *backend;
    GRand *rand;
    SluiceBatch batch;
    int32_t tokens[512];
    int32_t positions[512];
    int32_t seq_of_row[512];
    int32_t out_rows[512];
    SluiceBatchSeq seqs[8];
    int32_t pages[2 * 8 * TABLE_PAGES];
} Fixture;

static bool
view_weight(const SluiceResidency *residency, SluiceWeight weight, SluiceAxis axis, SluicePart part,
            SluiceWeightView *view)
{
    const Fixture *f = (const Fixture *) residency;
    const SluiceDtypeInfo *info;

    if (weight == 0 || weight > (SluiceWeight) f->n_weights)
        return false;
    *view = f->weights[weight - 1];
    info = sluice_dtype_info(view->dtype);
    if (part.end == 0)
        return true;
    if (axis == SLUICE_AXIS_ROWS) {
        view->n_rows = part.end - part.begin;
        if (view->data != NULL)
            view->data = (const uint8_t *) view->data + (size_t) part.begin * view->row_stride;
    } else if (axis == SLUICE_AXIS_SLABS) {
        view->n_slabs = part.end - part.begin;
        view->slabs += part.begin;
    } else {
        view->n_cols = part.end - part.begin;
        view->data =
            (const uint8_t *) view->data + part.begin / info->block_len * info->block_bytes;
    }
    return true;
}

static void
fixture_init(Fixture *f)
{
    const char *seed = g_getenv("SLUICE_TEST_SEED");

    memset(f, 0, sizeof *f);
    f->residency.view = view_weight;
    f->rand = g_rand_new_with_seed(seed != NULL ? (guint32) g_ascii_strtoull(seed, NULL, 10) : 1);
    f->config.acts = f->acts;
    f->config.kv_groups = f->groups;
    f->config.kv_tables = f->tables;
    f->config.state_groups = f->states;
    f->config.max_rows = 160;
    f->config.max_out = 160;
    f->config.max_seqs = 4;
    f->config.n_table_pages = TABLE_PAGES;
}

static void
fixture_start(Fixture *f, SluiceCpuFeatures features, int n_threads)
{
    SluiceCpuOptions options = {.n_threads = n_threads,
                                .n_threads_batch = n_threads,
                                .has_float_matrices = TRUE,
                                .residency = &f->residency};
    g_autoptr(GError) error = NULL;

    f->backend = sluice_cpu_backend_new_with_features(&f->config, &options, features, &error);
    ck_assert_msg(f->backend != NULL, "%s", error != NULL ? error->message : "no message");
}

static void
fixture_stop(Fixture *f)
{
    if (f->backend != NULL)
        f->backend->ops->destroy(f->backend);
    f->backend = NULL;
}

static void
fixture_clear(Fixture *f)
{
    fixture_stop(f);
    for (int i = 0; i < f->n_weights; i++) {
        g_free(f->owned[i]);
        g_free(f->slabs[i]);
        g_free(f->values[i]);
    }
    g_rand_free(f->rand);
}

static float
normal(GRand *rand)
{
    double u = g_rand_double(rand) + 1e-9;

    return (float) (sqrt(-2 * log(u)) * cos(2 * G_PI * g_rand_double(rand)));
}

static float *
random_floats(GRand *rand, int64_t n, float scale)
{
    float *x = g_new(float, n);

    for (int64_t i = 0; i < n; i++)
        x[i] = scale * normal(rand);
    return x;
}

/* A new activation buffer; only before start. */
static SluiceAct
add_act(Fixture *f, int32_t width, SluiceRows rows)
{
    int id = f->config.n_acts++;

    f->acts[id] = (SluiceActSpec){width, rows};
    return sluice_act((uint16_t) id, width);
}

static SluiceWeight
add_weight(Fixture *f, SluiceDtype dtype, int64_t n_slabs, int64_t n_rows, int64_t n_cols,
           const void *data, size_t n_bytes)
{
    SluiceWeightView *w = &f->weights[f->n_weights];
    void *copy = g_memdup2(data, n_bytes);

    w->dtype = dtype;
    w->n_cols = n_cols;
    w->n_rows = n_rows;
    w->n_slabs = n_slabs;
    ck_assert(sluice_dtype_row_bytes(dtype, n_cols, &w->row_stride));
    ck_assert_uint_eq(n_bytes, w->row_stride * (size_t) (n_rows * n_slabs));
    f->owned[f->n_weights] = copy;
    if (n_slabs == 1) {
        w->data = copy;
    } else {
        const void **slabs = g_new(const void *, n_slabs);
        for (int64_t i = 0; i < n_slabs; i++)
            slabs[i] = (uint8_t *) copy + (size_t) (i * n_rows) * w->row_stride;
        f->slabs[f->n_weights] = slabs;
        w->slabs = slabs;
    }
    return (SluiceWeight) ++f->n_weights;
}

/* Random weights of a type; *values are what they stand for, [n_slabs * n_rows, n_cols]. */
static SluiceWeight
add_random(Fixture *f, SluiceDtype dtype, int64_t n_slabs, int64_t n_rows, int64_t n_cols,
           float scale, float **values)
{
    int64_t n = n_slabs * n_rows * n_cols;
    float *x = random_floats(f->rand, n, scale);
    g_autofree uint8_t *packed = NULL;
    size_t row_bytes;

    ck_assert(sluice_dtype_row_bytes(dtype, n_cols, &row_bytes));
    packed = g_malloc0(row_bytes * (size_t) (n_slabs * n_rows));
    if (dtype == SLUICE_DTYPE_F32) {
        memcpy(packed, x, (size_t) n * sizeof *x);
    } else if (dtype == SLUICE_DTYPE_F16) {
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *) (void *) packed)[i] = sluice_half_from_float(x[i]);
    } else if (dtype == SLUICE_DTYPE_BF16) {
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *) (void *) packed)[i] = (uint16_t) (sluice_float_bits(x[i]) >> 16);
    } else {
        ck_assert_int_eq(dtype, SLUICE_DTYPE_Q8_0);
        for (int64_t i = 0; i < n; i += 32) {
            uint8_t *block = packed + i / 32 * 34;
            uint16_t d = sluice_half_from_float(scale / 32);
            memcpy(block, &d, 2);
            for (int j = 0; j < 32; j++)
                block[2 + j] = (uint8_t) (int8_t) CLAMP(lrintf(x[i + j] * 32 / scale), -127, 127);
        }
    }
    if (dtype != SLUICE_DTYPE_F32)
        ck_assert(sluice_cpu_dequantise(dtype, packed, x, n));
    *values = f->values[f->n_weights] = x;
    return add_weight(f, dtype, n_slabs, n_rows, n_cols, packed,
                      row_bytes * (size_t) (n_slabs * n_rows));
}

static float *
act_values(Fixture *f, SluiceAct a, int64_t row)
{
    return sluice_cpu_act_row((SluiceCpuBackend *) f->backend, a, row);
}

/* Fills n_rows whole rows and returns a copy, [n_rows, width]. */
static float *
fill_act(Fixture *f, SluiceAct a, int64_t n_rows, float scale)
{
    float *copy = random_floats(f->rand, n_rows * a.dim, scale);

    for (int64_t t = 0; t < n_rows; t++)
        memcpy(act_values(f, a, t), copy + t * a.dim, (size_t) a.dim * sizeof *copy);
    return copy;
}

static void
fill_nan(Fixture *f, SluiceAct a, int64_t n_rows)
{
    for (int64_t t = 0; t < n_rows; t++) {
        for (int32_t i = 0; i < a.dim; i++)
            act_values(f, a, t)[i] = NAN;
    }
}

/* A batch of one sequence at `position`. */
static void
set_batch(Fixture *f, int32_t n_rows, int32_t position)
{
    SluiceBatch *b = &f->batch;

    memset(b, 0, sizeof *b);
    b->n_rows = n_rows;
    b->n_seqs = 1;
    b->n_out = n_rows;
    b->tokens = f->tokens;
    b->positions = f->positions;
    b->seq_of_row = f->seq_of_row;
    b->out_rows = f->out_rows;
    b->seqs = f->seqs;
    b->pages = f->pages;
    f->seqs[0] = (SluiceBatchSeq){0, n_rows, position, 0};
    for (int32_t t = 0; t < n_rows; t++) {
        f->positions[t] = position + t;
        f->seq_of_row[t] = 0;
        f->out_rows[t] = t;
    }
}

static void
sync_ok(Fixture *f)
{
    char text[256] = "";
    SluiceStatus status = f->backend->ops->sync(f->backend, text, sizeof text);

    ck_assert_msg(status == SLUICE_STATUS_OK, "%s", text);
}

/* Fails the test unless sum((ref-got)^2) <= bound * sum(ref^2). */
static void
check_nmse(const double *ref, const float *got, int64_t n, double bound, const char *what)
{
    double error = 0;
    double total = 0;

    for (int64_t i = 0; i < n; i++) {
        ck_assert_msg(isfinite(got[i]), "%s: value %d is not finite", what, (int) i);
        error += (ref[i] - (double) got[i]) * (ref[i] - (double) got[i]);
        total += ref[i] * ref[i];
    }
    ck_assert_msg(error <= bound * total, "%s: nmse %g, at most %g", what, error / total, bound);
}

/* Compares whole rows of an activation with ref [n_rows, width]. */
static void
check_act(Fixture *f, SluiceAct a, const double *ref, int64_t n_rows, double bound,
          const char *what)
{
    g_autofree float *got = g_new(float, n_rows *a.dim);

    for (int64_t t = 0; t < n_rows; t++)
        memcpy(got + t * a.dim, act_values(f, a, t), (size_t) a.dim * sizeof *got);
    check_nmse(ref, got, n_rows * a.dim, bound, what);
}

static const SluiceOpTag all_rows = {3, SLUICE_ROWS_ALL};

/* Activations as products with quantised weights see them. */
static void
quantise_naively(const float *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i += 32) {
        float amax = 0;
        for (int j = 0; j < 32; j++)
            amax = fmaxf(amax, fabsf(x[i + j]));
        float d = amax / 127.0f;
        for (int j = 0; j < 32; j++)
            y[i + j] = d > 0 ? (double) d * nearbyint((double) (x[i + j] * (1.0f / d))) : 0;
    }
}

/* y [n_rows, n] = x [n_rows, k] . w [n, k]^T */
static double *
multiply(const double *x, const float *w, int64_t n_rows, int64_t n, int64_t k)
{
    double *y = g_new0(double, n_rows *n);

    for (int64_t t = 0; t < n_rows; t++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++)
                sum += x[t * k + i] * (double) w[j * k + i];
            y[t * n + j] = sum;
        }
    }
    return y;
}

static double *
widen(const float *x, int64_t n, bool is_quantised)
{
    double *y = g_new(double, n);

    if (is_quantised) {
        quantise_naively(x, y, n);
        return y;
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = (double) x[i];
    return y;
}

/* ---- products ------------------------------------------------------------------------------- */

static void
check_matmul(SluiceCpuFeatures features, SluiceDtype dtype, int n_rows, int n, int k, int n_threads)
{
    Fixture f;
    float *w = NULL;
    float *bias = NULL;
    float *scale = NULL;
    g_autofree float *x = NULL;
    g_autofree double *wide = NULL;
    g_autofree double *ref = NULL;
    SluiceMatmulArgs args = {.tag = all_rows};

    fixture_init(&f);
    args.x = add_act(&f, k, SLUICE_ROWS_ALL);
    args.y = add_act(&f, n, SLUICE_ROWS_ALL);
    args.weight = add_random(&f, dtype, 1, n, k, 1, &w);
    args.bias = add_random(&f, SLUICE_DTYPE_F32, 1, 1, n, 1, &bias);
    args.scale = add_random(&f, SLUICE_DTYPE_F32, 1, 1, 1, 1, &scale);
    fixture_start(&f, features, n_threads);
    set_batch(&f, n_rows, 0);
    x = fill_act(&f, args.x, n_rows, 1);
    fill_nan(&f, args.y, n_rows);
    wide = widen(x, (int64_t) n_rows * k, dtype == SLUICE_DTYPE_Q8_0);
    ref = multiply(wide, w, n_rows, n, k);
    for (int64_t i = 0; i < (int64_t) n_rows * n; i++)
        ref[i] = ref[i] * (double) scale[0] + (double) bias[i % n];
    f.backend->ops->matmul(f.backend, &args, &f.batch);
    sync_ok(&f);
    check_act(&f, args.y, ref, n_rows, 1e-9, "matmul");

    /* Once more in two parts, added to what is there. */
    args.accumulate = true;
    args.part = (SluicePart){0, n / 3};
    f.backend->ops->matmul(f.backend, &args, &f.batch);
    args.part = (SluicePart){n / 3, n};
    f.backend->ops->matmul(f.backend, &args, &f.batch);
    sync_ok(&f);
    for (int64_t i = 0; i < (int64_t) n_rows * n; i++)
        ref[i] *= 2;
    check_act(&f, args.y, ref, n_rows, 1e-9, "matmul in parts");
    fixture_clear(&f);
}

START_TEST(matmul_matches_formula)
{
    static const SluiceDtype dtypes[] = {SLUICE_DTYPE_F32, SLUICE_DTYPE_F16, SLUICE_DTYPE_BF16,
                                         SLUICE_DTYPE_Q8_0};
    static const int shapes[][3] = {{1, 3, 32},  {1, 576, 192}, {2, 70, 64},
                                    {5, 33, 96}, {17, 100, 64}, {64, 257, 32}};

    for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++) {
        for (size_t s = 0; s < G_N_ELEMENTS(shapes); s++)
            check_matmul(levels[_i], dtypes[d], shapes[s][0], shapes[s][1], shapes[s][2],
                         1 + (int) s % 2);
    }
}
END_TEST

/* Depths beyond one widened tile; columns that end inside a tile; rows on both sides of the number
 * from which OpenBLAS is called. */
START_TEST(prompts_over_float_weights_match_formula)
{
    static const SluiceDtype dtypes[] = {SLUICE_DTYPE_F32, SLUICE_DTYPE_F16, SLUICE_DTYPE_BF16};
    static const int rows[] = {
        1,  2, SLUICE_CPU_BLAS_MIN_ROWS - 1, SLUICE_CPU_BLAS_MIN_ROWS, SLUICE_CPU_BLAS_MIN_ROWS + 1,
        40, 65};

    for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++) {
        for (size_t r = 0; r < G_N_ELEMENTS(rows); r++)
            check_matmul(levels[_i], dtypes[d], rows[r], 3 * SLUICE_CPU_BLAS_COLS + 5,
                         SLUICE_CPU_BLAS_DEPTH + 37, 1 + (int) r % 2);
    }
}
END_TEST

/* A value here and there is off by one part in a hundred. */
static void
miscompute(float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, int64_t ldw,
           int64_t n_x, int64_t n, int64_t depth, bool accumulate)
{
    for (int64_t t = 0; t < n_x; t++) {
        for (int64_t j = 0; j < n; j++) {
            float sum = accumulate ? y[t * ldy + j] : 0;
            for (int64_t i = 0; i < depth; i++)
                sum += x[t * ldx + i] * w[j * ldw + i];
            y[t * ldy + j] = j % 16 == 15 ? sum * 1.01f : sum;
        }
    }
}

/* Right, but writes one column too many. */
static void
overrun(float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, int64_t ldw,
        int64_t n_x, int64_t n, int64_t depth, bool accumulate)
{
    sluice_cpu_blas()->sgemm(y, ldy, x, ldx, w, ldw, n_x, n, depth, accumulate);
    for (int64_t t = 0; t < n_x; t++)
        y[t * ldy + n] = 0;
}

START_TEST(a_library_that_miscomputes_is_left_out)
{
    enum { ROWS = 40, N = 70, K = 96 };
    const SluiceCpuSgemmFn wrong[] = {miscompute, overrun};
    Fixture f;
    SluiceMatmulArgs args = {.tag = all_rows};
    float *w = NULL;
    g_autofree float *x = NULL;
    g_autofree double *wide = NULL;
    g_autofree double *ref = NULL;

    ck_assert_msg(sluice_cpu_blas()->sgemm != NULL, "%s", sluice_cpu_blas()->reason);
    fixture_init(&f);
    args.x = add_act(&f, K, SLUICE_ROWS_ALL);
    args.y = add_act(&f, N, SLUICE_ROWS_ALL);
    args.weight = add_random(&f, SLUICE_DTYPE_F16, 1, N, K, 1, &w);
    fixture_start(&f, levels[n_levels - 1], 2);
    set_batch(&f, ROWS, 0);
    x = fill_act(&f, args.x, ROWS, 1);
    wide = widen(x, ROWS * K, false);
    ref = multiply(wide, w, ROWS, N, K);
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        SluiceCpuBlas blas = {wrong[i], "a library", NULL};
        g_autofree char *words = NULL;
        sluice_cpu_backend_adopt_blas((SluiceCpuBackend *) f.backend, &blas);
        words = sluice_cpu_backend_describe(f.backend);
        ck_assert_msg(strstr(words, "no OpenBLAS (its products differ from ours)") != NULL, "%s",
                      words);
        fill_nan(&f, args.y, ROWS);
        f.backend->ops->matmul(f.backend, &args, &f.batch);
        sync_ok(&f);
        check_act(&f, args.y, ref, ROWS, 1e-9, "without the library");
    }
    fixture_clear(&f);
}
END_TEST

START_TEST(openblas_is_named_where_it_is_used)
{
    Fixture f;
    g_autofree char *words = NULL;

    fixture_init(&f);
    add_act(&f, 8, SLUICE_ROWS_ALL);
    fixture_start(&f, levels[n_levels - 1], 1);
    words = sluice_cpu_backend_describe(f.backend);
    if (levels[n_levels - 1] == 0)
        ck_assert_msg(strstr(words, "no OpenBLAS") != NULL, "%s", words);
    else
        ck_assert_msg(strstr(words, ", OpenBLAS ") != NULL, "%s", words);
    fixture_clear(&f);
}
END_TEST

static double
activate(SluiceActivation activation, double g, double u)
{
    double clamped = fmin(g, 7);

    switch (activation) {
    case SLUICE_ACTIVATION_SILU:
        return g / (1 + exp(-g)) * u;
    case SLUICE_ACTIVATION_GELU_TANH:
        return 0.5 * g * (1 + tanh(sqrt(2 / G_PI) * g * (1 + 0.044715 * g * g))) * u;
    case SLUICE_ACTIVATION_SIGMOID:
        return u / (1 + exp(-g));
    case SLUICE_ACTIVATION_SWIGLU_OAI:
        return clamped / (1 + exp(-1.702 * clamped)) * (fmax(fmin(u, 7), -7) + 1);
    }
    ck_abort();
}

/* A feed-forward network: ref [n_rows, n] += factor * (down . act(gate . x, up . x) + bias). */
static void
naive_ffn(const double *x, const float *gate, const float *up, const float *down,
          const float *gate_bias, const float *up_bias, const float *down_bias, int64_t k,
          int64_t hidden, int64_t n, SluiceActivation activation, bool is_q8, double factor,
          double *ref)
{
    g_autofree double *g = multiply(x, gate, 1, hidden, k);
    g_autofree double *u = multiply(x, up, 1, hidden, k);
    g_autofree float *h = g_new(float, hidden);
    g_autofree double *wide = NULL;
    g_autofree double *y = NULL;

    for (int64_t i = 0; i < hidden; i++)
        h[i] = (float) activate(activation, g[i] + (gate_bias != NULL ? (double) gate_bias[i] : 0),
                                u[i] + (up_bias != NULL ? (double) up_bias[i] : 0));
    wide = widen(h, hidden, is_q8);
    y = multiply(wide, down, 1, n, hidden);
    for (int64_t j = 0; j < n; j++)
        ref[j] += factor * (y[j] + (down_bias != NULL ? (double) down_bias[j] : 0));
}

static void
check_ffn(SluiceCpuFeatures features, SluiceDtype dtype, SluiceActivation activation, int n_rows,
          bool is_fused)
{
    enum { K = 64, HIDDEN = 160, N = 48 };
    Fixture f;
    SluiceFfnArgs args = {.tag = all_rows, .activation = activation};
    float *gate_up = NULL;
    float *down = NULL;
    float *bias = NULL;
    float *down_bias = NULL;
    g_autofree float *x = NULL;
    g_autofree double *wide = NULL;
    g_autofree double *ref = g_new0(double, n_rows *N);
    size_t row_bytes;
    const uint8_t *packed;
    bool is_q8 = dtype == SLUICE_DTYPE_Q8_0;

    fixture_init(&f);
    args.x = add_act(&f, K, SLUICE_ROWS_ALL);
    args.y = add_act(&f, N, SLUICE_ROWS_ALL);
    args.up = add_random(&f, dtype, 1, 2 * HIDDEN, K, 0.3f, &gate_up);
    args.down = add_random(&f, dtype, 1, N, HIDDEN, 0.3f, &down);
    args.up_bias = add_random(&f, SLUICE_DTYPE_F32, 1, 1, 2 * HIDDEN, 0.5f, &bias);
    args.down_bias = add_random(&f, SLUICE_DTYPE_F32, 1, 1, N, 1, &down_bias);
    if (!is_fused) {
        ck_assert(sluice_dtype_row_bytes(dtype, K, &row_bytes));
        packed = f.weights[args.up - 1].data;
        args.gate = add_weight(&f, dtype, 1, HIDDEN, K, packed, row_bytes * HIDDEN);
        args.up =
            add_weight(&f, dtype, 1, HIDDEN, K, packed + row_bytes * HIDDEN, row_bytes * HIDDEN);
        args.gate_bias = add_weight(&f, SLUICE_DTYPE_F32, 1, 1, HIDDEN, bias, HIDDEN * 4);
        args.up_bias = add_weight(&f, SLUICE_DTYPE_F32, 1, 1, HIDDEN, bias + HIDDEN, HIDDEN * 4);
    }
    fixture_start(&f, features, 2);
    set_batch(&f, n_rows, 0);
    x = fill_act(&f, args.x, n_rows, 1);
    fill_nan(&f, args.y, n_rows);
    wide = widen(x, (int64_t) n_rows * K, is_q8);
    for (int t = 0; t < n_rows; t++)
        naive_ffn(wide + t * K, gate_up, gate_up + HIDDEN * K, down, bias, bias + HIDDEN, down_bias,
                  K, HIDDEN, N, activation, is_q8, 1, ref + t * N);
    f.backend->ops->ffn(f.backend, &args, &f.batch);
    sync_ok(&f);
    /* A hidden value on the edge of two steps of 1/127 may round either way: one step in a few
     * thousand values. */
    check_act(&f, args.y, ref, n_rows, is_q8 ? 1e-5 : 1e-9, "ffn");

    args.accumulate = true;
    args.part = (SluicePart){0, 64};
    f.backend->ops->ffn(f.backend, &args, &f.batch);
    args.part = (SluicePart){64, HIDDEN};
    f.backend->ops->ffn(f.backend, &args, &f.batch);
    sync_ok(&f);
    for (int i = 0; i < n_rows * N; i++)
        ref[i] *= 2;
    check_act(&f, args.y, ref, n_rows, is_q8 ? 1e-5 : 1e-9, "ffn in parts");
    fixture_clear(&f);
}

START_TEST(ffn_matches_formula)
{
    static const SluiceDtype dtypes[] = {SLUICE_DTYPE_F32, SLUICE_DTYPE_Q8_0};
    static const int rows[] = {1, 3, 40};

    for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++) {
        for (size_t r = 0; r < G_N_ELEMENTS(rows); r++) {
            for (int a = 0; a <= SLUICE_ACTIVATION_SWIGLU_OAI; a++)
                check_ffn(levels[_i], dtypes[d], (SluiceActivation) a, rows[r], (a + r) % 2 == 0);
        }
    }
}
END_TEST

/* ---- rows ----------------------------------------------------------------------------------- */

START_TEST(rms_norm_adds_and_normalises_each_head)
{
    enum { HEADS = 3, DIM = 40, ROWS = 7, WIDTH = HEADS * DIM };
    Fixture f;
    float *w = NULL;
    g_autofree float *x = NULL;
    g_autofree float *r = NULL;
    double ref[ROWS * WIDTH];
    double sums[ROWS * WIDTH];
    SluiceRmsNormArgs args = {.tag = all_rows, .eps = 1e-5f};
    SluiceAct ax, ar, as, ay;

    fixture_init(&f);
    ax = add_act(&f, WIDTH, SLUICE_ROWS_ALL);
    ar = add_act(&f, WIDTH, SLUICE_ROWS_ALL);
    as = add_act(&f, WIDTH, SLUICE_ROWS_ALL);
    ay = add_act(&f, WIDTH, SLUICE_ROWS_ALL);
    args.weight = add_random(&f, SLUICE_DTYPE_F32, 1, 1, DIM, 1, &w);
    fixture_start(&f, levels[_i], 2);
    set_batch(&f, ROWS, 0);
    x = fill_act(&f, ax, ROWS, 2);
    r = fill_act(&f, ar, ROWS, 1);
    args.x = sluice_act_heads(ax, HEADS);
    args.residual = sluice_act_heads(ar, HEADS);
    args.sum = sluice_act_heads(as, HEADS);
    args.y = sluice_act_heads(ay, HEADS);
    f.backend->ops->rms_norm(f.backend, &args, &f.batch);
    sync_ok(&f);
    for (int i = 0; i < ROWS * HEADS; i++) {
        double squares = 0;
        for (int j = 0; j < DIM; j++) {
            sums[i * DIM + j] = (double) x[i * DIM + j] + (double) r[i * DIM + j];
            squares += sums[i * DIM + j] * sums[i * DIM + j];
        }
        for (int j = 0; j < DIM; j++)
            ref[i * DIM + j] = sums[i * DIM + j] / sqrt(squares / DIM + 1e-5) * (double) w[j];
    }
    check_act(&f, as, sums, ROWS, 1e-12, "sum");
    check_act(&f, ay, ref, ROWS, 1e-12, "norm");

    /* In place, and the sum over the residual. */
    args.sum = args.residual;
    args.y = args.x;
    f.backend->ops->rms_norm(f.backend, &args, &f.batch);
    sync_ok(&f);
    check_act(&f, ar, sums, ROWS, 1e-12, "sum over the residual");
    check_act(&f, ax, ref, ROWS, 1e-12, "norm in place");
    fixture_clear(&f);
}
END_TEST

START_TEST(values_are_added_scaled_capped_and_gated)
{
    enum { DIM = 77, ROWS = 3 };
    Fixture f;
    SluiceAct a, b, y[6];
    g_autofree float *va = NULL;
    g_autofree float *vb = NULL;
    double ref[ROWS * DIM];
    static const SluiceActivation gates[] = {SLUICE_ACTIVATION_SILU, SLUICE_ACTIVATION_GELU_TANH,
                                             SLUICE_ACTIVATION_SIGMOID};

    fixture_init(&f);
    a = add_act(&f, DIM, SLUICE_ROWS_ALL);
    b = add_act(&f, DIM, SLUICE_ROWS_ALL);
    for (int i = 0; i < 6; i++)
        y[i] = add_act(&f, DIM, SLUICE_ROWS_ALL);
    fixture_start(&f, levels[_i], 2);
    set_batch(&f, ROWS, 0);
    va = fill_act(&f, a, ROWS, 20);
    vb = fill_act(&f, b, ROWS, 20);
    f.backend->ops->add(f.backend, &(SluiceAddArgs){all_rows, a, b, y[0]}, &f.batch);
    f.backend->ops->scale(f.backend, &(SluiceScaleArgs){all_rows, a, y[1], 0.25f}, &f.batch);
    f.backend->ops->soft_cap(f.backend, &(SluiceSoftCapArgs){all_rows, a, y[2], 30}, &f.batch);
    for (int i = 0; i < 3; i++)
        f.backend->ops->gate(f.backend, &(SluiceGateArgs){all_rows, a, b, y[3 + i], gates[i]},
                             &f.batch);
    sync_ok(&f);
    for (int i = 0; i < ROWS * DIM; i++)
        ref[i] = (double) va[i] + (double) vb[i];
    check_act(&f, y[0], ref, ROWS, 1e-13, "add");
    for (int i = 0; i < ROWS * DIM; i++)
        ref[i] = (double) va[i] / 4;
    check_act(&f, y[1], ref, ROWS, 1e-13, "scale");
    for (int i = 0; i < ROWS * DIM; i++)
        ref[i] = 30 * tanh((double) va[i] / 30);
    check_act(&f, y[2], ref, ROWS, 1e-12, "soft cap");
    for (int g = 0; g < 3; g++) {
        for (int i = 0; i < ROWS * DIM; i++)
            ref[i] = activate(gates[g], (double) vb[i], (double) va[i]);
        check_act(&f, y[3 + g], ref, ROWS, 1e-12, "gate");
    }
    fixture_clear(&f);
}
END_TEST

START_TEST(rope_rotates_as_the_formula_says)
{
    enum { HEADS = 2, DIM = 48, ROT = 32, ROWS = 5, WIDTH = HEADS * DIM };
    Fixture f;
    SluiceAct ax;
    float *factors = NULL;
    SluiceWeight weight;

    fixture_init(&f);
    ax = add_act(&f, WIDTH, SLUICE_ROWS_ALL);
    weight = add_random(&f, SLUICE_DTYPE_F32, 1, 1, ROT / 2, 1, &factors);
    for (int i = 0; i < ROT / 2; i++)
        ((float *) f.owned[0])[i] = factors[i] = 1 + fabsf(factors[i]);
    fixture_start(&f, levels[_i], 2);
    for (int variant = 0; variant < 8; variant++) {
        SluiceRopeArgs args = {.tag = all_rows, .x = sluice_act_heads(ax, HEADS)};
        g_autofree float *x = NULL;
        double ref[ROWS * WIDTH];
        bool has_yarn = variant & 2;
        args.rope = (SluiceRope){.n_rot = ROT,
                                 .is_neox = variant & 1,
                                 .base = 10000,
                                 .freq_scale = has_yarn ? 0.25f : 1,
                                 .ext_factor = has_yarn ? 1 : 0,
                                 .corr_low = 3,
                                 .corr_high = 11,
                                 .magnitude = has_yarn ? 1.1386f : 1,
                                 .factors = variant & 4 ? weight : 0};
        set_batch(&f, ROWS, 4090 + variant);
        x = fill_act(&f, ax, ROWS, 1);
        f.backend->ops->rope(f.backend, &args, &f.batch);
        sync_ok(&f);
        for (int i = 0; i < ROWS * WIDTH; i++)
            ref[i] = (double) x[i];
        for (int t = 0; t < ROWS; t++) {
            for (int h = 0; h < HEADS; h++) {
                for (int i = 0; i < ROT / 2; i++) {
                    double *row = ref + t * WIDTH + h * DIM;
                    double far = f.positions[t] * pow(10000, -2.0 * i / ROT) /
                                 (variant & 4 ? (double) factors[i] : 1);
                    double near = has_yarn ? far / 4 : far;
                    double ramp = has_yarn ? 1 - fmin(1, fmax(0, (i - 3) / 8.0)) : 0;
                    double angle = near * (1 - ramp) + far * ramp;
                    double m = (double) args.rope.magnitude;
                    double *a = args.rope.is_neox ? row + i : row + 2 * i;
                    double *b = args.rope.is_neox ? row + i + ROT / 2 : row + 2 * i + 1;
                    double old = *a;
                    *a = m * (old * cos(angle) - *b * sin(angle));
                    *b = m * (old * sin(angle) + *b * cos(angle));
                }
            }
        }
        check_act(&f, ax, ref, ROWS, 1e-12, "rope");
    }
    fixture_clear(&f);
}
END_TEST

START_TEST(embed_select_top_and_read_bring_data_in_and_out)
{
    enum { VOCAB = 50, DIM = 64, ROWS = 6, K = 5 };
    Fixture f;
    SluiceAct x, y, ids, values;
    float *table = NULL;
    SluiceWeight weight;
    SluiceOpTag out = {-1, SLUICE_ROWS_OUT};
    static const int32_t listed[] = {7, 0};
    int32_t got_ids[2 * (K + 2)];
    float got_values[2 * (K + 2)];
    double ref[2 * DIM];

    fixture_init(&f);
    x = add_act(&f, DIM, SLUICE_ROWS_ALL);
    y = add_act(&f, DIM, SLUICE_ROWS_OUT);
    ids = add_act(&f, K + 2, SLUICE_ROWS_OUT);
    values = add_act(&f, K + 2, SLUICE_ROWS_OUT);
    weight = add_random(&f, SLUICE_DTYPE_Q8_0, 1, VOCAB, DIM, 1, &table);
    fixture_start(&f, levels[_i], 2);
    set_batch(&f, ROWS, 0);
    f.batch.n_out = 2;
    f.out_rows[0] = 1;
    f.out_rows[1] = 4;
    for (int i = 0; i < ROWS; i++)
        f.tokens[i] = (i * 11 + 3) % VOCAB;
    f.backend->ops->embed(f.backend, &(SluiceEmbedArgs){all_rows, weight, x, 3.0f}, &f.batch);
    f.backend->ops->select_rows(f.backend, &(SluiceSelectRowsArgs){out, x, y}, &f.batch);
    f.backend->ops->top_k(f.backend, &(SluiceTopKArgs){out, y, ids, values, K, listed, 2},
                          &f.batch);
    f.backend->ops->read(f.backend, &(SluiceReadArgs){out, ids, 0, 2, got_ids});
    f.backend->ops->read(f.backend, &(SluiceReadArgs){out, values, 0, 2, got_values});
    sync_ok(&f);
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < DIM; i++)
            ref[t * DIM + i] = 3 * (double) table[f.tokens[f.out_rows[t]] * DIM + i];
    }
    check_act(&f, y, ref, 2, 1e-12, "selected embeddings");
    for (int t = 0; t < 2; t++) {
        const float *row = act_values(&f, y, t);
        for (int i = 0; i < K + 2; i++) {
            int32_t id = got_ids[t * (K + 2) + i];
            int n_before = 0;
            ck_assert_float_eq(got_values[t * (K + 2) + i], row[id]);
            for (int j = 0; j < DIM && i < K; j++)
                n_before += row[j] > row[id] || (row[j] == row[id] && j < id);
            ck_assert_int_eq(i < K ? n_before : id, i < K ? i : listed[i - K]);
        }
    }
    f.tokens[2] = VOCAB;
    f.backend->ops->embed(f.backend, &(SluiceEmbedArgs){all_rows, weight, x, 1}, &f.batch);
    char text[256];
    ck_assert_int_eq(f.backend->ops->sync(f.backend, text, sizeof text), SLUICE_STATUS_UNSUPPORTED);
    ck_assert_str_eq(text, "token 50, expected less than 50");
    sync_ok(&f);
    fixture_clear(&f);
}
END_TEST

/* ---- attention ------------------------------------------------------------------------------ */

typedef struct {
    int n_head;
    int n_head_kv;
    int k_dim;
    int v_dim;
    SluiceDtype type;
    int window;
    float soft_cap;
    bool has_sinks;
    int n_tokens;
} AttentionCase;

/* What the KV type makes of one row. */
static void
store_naively(SluiceDtype type, const float *x, double *y, int n)
{
    SluiceCpuKernels k;
    uint8_t row[2048];
    float back[512];

    if (type == SLUICE_DTYPE_F32) {
        for (int i = 0; i < n; i++)
            y[i] = (double) x[i];
        return;
    }
    sluice_cpu_kernels_init(&k, 0);
    k.kv_store[type == SLUICE_DTYPE_F16    ? SLUICE_CPU_KV_F16
               : type == SLUICE_DTYPE_Q8_0 ? SLUICE_CPU_KV_Q8_0
                                           : SLUICE_CPU_KV_Q4_0](row, x, n);
    ck_assert(sluice_cpu_dequantise(type, row, back, n));
    for (int i = 0; i < n; i++)
        y[i] = (double) back[i];
}

static void
naive_attention(const AttentionCase *c, const float *q, const float *k, const float *v,
                const float *sinks, double scale, double *ref)
{
    int k_width = c->n_head_kv * c->k_dim;
    int v_width = c->n_head_kv * c->v_dim;
    g_autofree double *keys = g_new(double, c->n_tokens *k_width);
    g_autofree double *values = g_new(double, c->n_tokens *v_width);
    g_autofree double *p = g_new(double, c->n_tokens);

    for (int i = 0; i < c->n_tokens * c->n_head_kv; i++) {
        store_naively(c->type, k + i * c->k_dim, keys + i * c->k_dim, c->k_dim);
        store_naively(c->type, v + i * c->v_dim, values + i * c->v_dim, c->v_dim);
    }
    for (int t = 0; t < c->n_tokens; t++) {
        for (int h = 0; h < c->n_head; h++) {
            int hk = h / (c->n_head / c->n_head_kv);
            int first = c->window > 0 ? MAX(0, t - c->window + 1) : 0;
            double max = c->has_sinks ? (double) sinks[h] : -INFINITY;
            double sum = 0;
            double *y = ref + (t * c->n_head + h) * c->v_dim;
            for (int j = first; j <= t; j++) {
                double dot = 0;
                for (int i = 0; i < c->k_dim; i++)
                    dot += (double) q[(t * c->n_head + h) * c->k_dim + i] *
                           keys[j * k_width + hk * c->k_dim + i];
                dot *= scale;
                if (c->soft_cap != 0)
                    dot = (double) c->soft_cap * tanh(dot / (double) c->soft_cap);
                p[j] = dot;
                max = fmax(max, dot);
            }
            if (c->has_sinks)
                sum = exp((double) sinks[h] - max);
            for (int j = first; j <= t; j++)
                sum += p[j] = exp(p[j] - max);
            memset(y, 0, (size_t) c->v_dim * sizeof *y);
            for (int j = first; j <= t; j++) {
                for (int i = 0; i < c->v_dim; i++)
                    y[i] += p[j] / sum * values[j * v_width + hk * c->v_dim + i];
            }
        }
    }
}

/* Feeds the tokens in batches of the given sizes (0 ends) and compares every row. */
static void
check_attention(SluiceCpuFeatures features, const AttentionCase *c, const int *sizes, int n_threads,
                bool in_parts)
{
    Fixture f;
    SluiceAct aq, ak, av, ay;
    SluiceAttentionArgs args = {.tag = all_rows, .soft_cap = c->soft_cap, .window = c->window};
    g_autofree float *q = NULL;
    g_autofree float *k = NULL;
    g_autofree float *v = NULL;
    float *sinks = NULL;
    g_autofree double *ref = g_new(double, c->n_tokens * c->n_head * c->v_dim);
    int at = 0;

    fixture_init(&f);
    aq = add_act(&f, c->n_head * c->k_dim, SLUICE_ROWS_ALL);
    ak = add_act(&f, c->n_head_kv * c->k_dim, SLUICE_ROWS_ALL);
    av = add_act(&f, c->n_head_kv * c->v_dim, SLUICE_ROWS_ALL);
    ay = add_act(&f, c->n_head * c->v_dim, SLUICE_ROWS_ALL);
    args.sinks = add_random(&f, SLUICE_DTYPE_F32, 1, 1, c->n_head, 1, &sinks);
    if (!c->has_sinks)
        args.sinks = 0;
    f.tables[0] = (SluiceKvTable){TABLE_PAGES, 0};
    f.config.n_kv_tables = 1;
    /* Two groups where the heads allow it: a layer's heads may lie in two places. */
    f.groups[0] =
        (SluiceKvGroup){3, 0, (c->n_head_kv + 1) / 2, 0, c->k_dim, c->v_dim, c->type, c->type};
    f.groups[1] = f.groups[0];
    f.groups[1].head_begin = f.groups[0].head_end;
    f.groups[1].head_end = c->n_head_kv;
    f.config.n_kv_groups = f.groups[1].head_end > f.groups[1].head_begin ? 2 : 1;
    f.config.max_rows = 512;
    fixture_start(&f, features, n_threads);
    args.q = sluice_act_heads(aq, c->n_head);
    args.k = sluice_act_heads(ak, c->n_head_kv);
    args.v = sluice_act_heads(av, c->n_head_kv);
    args.y = sluice_act_heads(ay, c->n_head);
    args.scale = (float) (1 / sqrt(c->k_dim));
    q = random_floats(f.rand, c->n_tokens * aq.dim, 1.5f);
    k = random_floats(f.rand, c->n_tokens * ak.dim, 1.5f);
    v = random_floats(f.rand, c->n_tokens * av.dim, 1);
    naive_attention(c, q, k, v, sinks, (double) args.scale, ref);
    /* Pages in an order that is not that of positions. */
    for (int i = 0; i < TABLE_PAGES; i++)
        f.pages[i] = (i * 7 + 5) % TABLE_PAGES;
    for (int s = 0; at < c->n_tokens; s++) {
        int n = sizes[s] > 0 ? MIN(sizes[s], c->n_tokens - at) : 1;
        if (sizes[s] == 0)
            s--;
        set_batch(&f, n, at);
        for (int t = 0; t < n; t++) {
            memcpy(act_values(&f, aq, t), q + (at + t) * aq.dim, (size_t) aq.dim * 4);
            memcpy(act_values(&f, ak, t), k + (at + t) * ak.dim, (size_t) ak.dim * 4);
            memcpy(act_values(&f, av, t), v + (at + t) * av.dim, (size_t) av.dim * 4);
        }
        fill_nan(&f, ay, n);
        if (in_parts) {
            args.part = (SluicePart){0, 1};
            f.backend->ops->attention(f.backend, &args, &f.batch);
            args.part = (SluicePart){1, c->n_head_kv};
        }
        f.backend->ops->attention(f.backend, &args, &f.batch);
        sync_ok(&f);
        check_act(&f, ay, ref + at * ay.dim, n, 1e-10, "attention");
        at += n;
    }
    fixture_clear(&f);
}

static const int at_once[] = {512, 0};
static const int in_pieces[] = {1, 100, 3, 64, 17, 0};
static const int one_by_one[] = {0};

START_TEST(attention_matches_formula)
{
    static const AttentionCase cases[] = {
        {9, 3, 64, 64, SLUICE_DTYPE_F16, 0, 0, false, 200},
        {4, 4, 40, 40, SLUICE_DTYPE_F32, 0, 0, false, 130},
        {4, 1, 256, 256, SLUICE_DTYPE_F16, 50, 0, false, 150},
        {8, 2, 96, 32, SLUICE_DTYPE_Q8_0, 0, 20, false, 150},
        {6, 2, 128, 128, SLUICE_DTYPE_Q4_0, 70, 0, true, 150},
        {16, 2, 80, 80, SLUICE_DTYPE_F16, 0, 0, true, 400},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        check_attention(levels[_i], &cases[i], at_once, 2, false);
        check_attention(levels[_i], &cases[i], in_pieces, 2, cases[i].n_head_kv > 1);
    }
    check_attention(levels[_i], &cases[0], one_by_one, 2, true);
    check_attention(levels[_i], &cases[4], one_by_one, 1, false);
}
END_TEST

START_TEST(sequences_of_one_batch_do_not_see_each_other)
{
    enum { DIM = 32, HEADS = 2, ROWS = 40 };
    static const AttentionCase one = {HEADS, 1, DIM, DIM, SLUICE_DTYPE_F16, 0, 0, false, ROWS};
    Fixture f;
    SluiceAct aq, ak, av, ay;
    SluiceAttentionArgs args = {.tag = all_rows, .scale = 0.25f};
    g_autofree float *q = NULL;
    g_autofree float *k = NULL;
    g_autofree float *v = NULL;
    g_autofree double *ref = g_new(double, 2 * ROWS * HEADS * DIM);

    fixture_init(&f);
    aq = add_act(&f, HEADS * DIM, SLUICE_ROWS_ALL);
    ak = add_act(&f, DIM, SLUICE_ROWS_ALL);
    av = add_act(&f, DIM, SLUICE_ROWS_ALL);
    ay = add_act(&f, HEADS * DIM, SLUICE_ROWS_ALL);
    f.tables[0] = (SluiceKvTable){TABLE_PAGES, 0};
    f.config.n_kv_tables = 1;
    f.groups[0] = (SluiceKvGroup){3, 0, 1, 0, DIM, DIM, SLUICE_DTYPE_F16, SLUICE_DTYPE_F16};
    f.config.n_kv_groups = 1;
    fixture_start(&f, levels[_i], 2);
    args.q = sluice_act_heads(aq, HEADS);
    args.k = ak;
    args.v = av;
    args.y = sluice_act_heads(ay, HEADS);
    set_batch(&f, 2 * ROWS, 0);
    f.batch.n_seqs = 2;
    f.seqs[0] = (SluiceBatchSeq){0, ROWS, 0, 0};
    f.seqs[1] = (SluiceBatchSeq){ROWS, ROWS, 0, 1};
    for (int t = 0; t < 2 * ROWS; t++) {
        f.positions[t] = t % ROWS;
        f.seq_of_row[t] = t / ROWS;
    }
    f.pages[0] = 9;
    f.pages[TABLE_PAGES] = 2;
    q = fill_act(&f, aq, 2 * ROWS, 2);
    k = fill_act(&f, ak, 2 * ROWS, 2);
    v = fill_act(&f, av, 2 * ROWS, 2);
    for (int s = 0; s < 2; s++)
        naive_attention(&one, q + s * ROWS * HEADS * DIM, k + s * ROWS * DIM, v + s * ROWS * DIM,
                        NULL, 0.25, ref + s * ROWS * HEADS * DIM);
    f.backend->ops->attention(f.backend, &args, &f.batch);
    sync_ok(&f);
    check_act(&f, ay, ref, 2 * ROWS, 1e-10, "two sequences");
    fixture_clear(&f);
}
END_TEST

/* ---- experts -------------------------------------------------------------------------------- */

START_TEST(moe_route_chooses_and_weighs)
{
    enum { N = 24, K = 32, USED = 5, ROWS = 9 };
    Fixture f;
    SluiceAct x, ids, weights;
    float *router = NULL;
    float *bias = NULL;
    SluiceMoeRouteArgs args = {.tag = all_rows, .n_expert = N, .n_used = USED};

    fixture_init(&f);
    x = add_act(&f, K, SLUICE_ROWS_ALL);
    ids = add_act(&f, USED, SLUICE_ROWS_ALL);
    weights = add_act(&f, USED, SLUICE_ROWS_ALL);
    args.router = add_random(&f, SLUICE_DTYPE_F32, 1, N, K, 0.3f, &router);
    args.router_bias = add_random(&f, SLUICE_DTYPE_F32, 1, 1, N, 1, &bias);
    args.x = x;
    args.ids = ids;
    args.weights = weights;
    fixture_start(&f, levels[_i], 2);
    for (int variant = 0; variant < 6; variant++) {
        int n_rows = variant % 2 == 0 ? 1 : ROWS;
        g_autofree float *vx = NULL;
        g_autofree double *wide = NULL;
        g_autofree double *logits = NULL;
        double ref[ROWS * USED];
        args.gating = (SluiceGating) (variant / 2);
        args.renormalise = variant % 2;
        args.weights_scale = variant == 3 ? 2.5f : 1;
        set_batch(&f, n_rows, 0);
        vx = fill_act(&f, x, n_rows, 1);
        wide = widen(vx, n_rows * K, false);
        logits = multiply(wide, router, n_rows, N, K);
        f.backend->ops->moe_route(f.backend, &args, &f.batch);
        sync_ok(&f);
        for (int t = 0; t < n_rows; t++) {
            double *l = logits + t * N;
            const int32_t *got = (const int32_t *) act_values(&f, ids, t);
            double all = 0;
            double chosen = 0;
            for (int i = 0; i < N; i++)
                l[i] += (double) bias[i];
            for (int i = 0; i < USED; i++) {
                int n_before = 0;
                for (int j = 0; j < N; j++)
                    n_before += l[j] > l[got[i]];
                ck_assert_int_eq(n_before, i);
            }
            for (int i = 0; i < N; i++)
                all += exp(l[i]);
            for (int i = 0; i < USED; i++)
                chosen += exp(l[got[i]]);
            for (int i = 0; i < USED; i++)
                ref[t * USED + i] =
                    args.gating == SLUICE_GATING_SIGMOID
                        ? 1 / (1 + exp(-l[got[i]]))
                        : exp(l[got[i]]) / (args.gating == SLUICE_GATING_SOFTMAX ? all : chosen);
            chosen = 0;
            for (int i = 0; i < USED; i++)
                chosen += ref[t * USED + i];
            for (int i = 0; i < USED; i++)
                ref[t * USED + i] *= (double) args.weights_scale / (args.renormalise ? chosen : 1);
        }
        check_act(&f, weights, ref, n_rows, 1e-11, "weights of experts");
    }
    fixture_clear(&f);
}
END_TEST

static void
check_moe(SluiceCpuFeatures features, SluiceDtype dtype, int n_rows, bool is_fused, bool is_oai)
{
    enum { EXPERTS = 6, USED = 2, K = 64, HIDDEN = 96, SHARED = 32, N = 40 };
    Fixture f;
    SluiceMoeExpertsArgs args = {.tag = all_rows, .n_expert = EXPERTS, .n_used = USED};
    SluiceMoeExpertsArgs part;
    SluiceAct ids, weights;
    float *gate_up = NULL;
    float *down = NULL;
    float *shared[4] = {NULL};
    float *biases[3] = {NULL};
    g_autofree float *x = NULL;
    g_autofree double *wide = NULL;
    g_autofree double *plain = NULL;
    g_autofree double *ref = g_new0(double, n_rows *N);
    bool is_q8 = dtype == SLUICE_DTYPE_Q8_0;
    double bound = is_q8 ? 1e-5 : 1e-9;
    uint8_t skip[EXPERTS] = {0, 0, 1, 0, 0, 1};
    uint8_t keep[EXPERTS] = {1, 1, 0, 1, 1, 0};
    float all_biases[2][EXPERTS * HIDDEN];

    fixture_init(&f);
    args.activation = is_oai ? SLUICE_ACTIVATION_SWIGLU_OAI : SLUICE_ACTIVATION_SILU;
    args.x = add_act(&f, K, SLUICE_ROWS_ALL);
    args.ids = ids = add_act(&f, USED, SLUICE_ROWS_ALL);
    args.weights = weights = add_act(&f, USED, SLUICE_ROWS_ALL);
    args.y = add_act(&f, N, SLUICE_ROWS_ALL);
    args.up = add_random(&f, dtype, EXPERTS, 2 * HIDDEN, K, 0.3f, &gate_up);
    args.down = add_random(&f, dtype, EXPERTS, N, HIDDEN, 0.3f, &down);
    args.shared_gate = add_random(&f, dtype, 1, SHARED, K, 0.3f, &shared[0]);
    args.shared_up = add_random(&f, dtype, 1, SHARED, K, 0.3f, &shared[1]);
    args.shared_down = add_random(&f, dtype, 1, N, SHARED, 0.3f, &shared[2]);
    args.shared_router = add_random(&f, SLUICE_DTYPE_F32, 1, 1, K, 0.3f, &shared[3]);
    args.gate_bias = add_random(&f, SLUICE_DTYPE_F32, 1, EXPERTS, HIDDEN, 0.3f, &biases[0]);
    args.up_bias = add_random(&f, SLUICE_DTYPE_F32, 1, EXPERTS, HIDDEN, 0.3f, &biases[1]);
    args.down_bias = add_random(&f, SLUICE_DTYPE_F32, 1, EXPERTS, N, 0.3f, &biases[2]);
    memcpy(all_biases[0], biases[0], sizeof all_biases[0]);
    memcpy(all_biases[1], biases[1], sizeof all_biases[1]);
    if (!is_fused) {
        /* The halves of every slab as tensors of their own. */
        for (int half = 0; half < 2; half++) {
            size_t slab_bytes = f.weights[args.up - 1].row_stride * HIDDEN;
            g_autofree uint8_t *packed = g_malloc(slab_bytes * EXPERTS);
            SluiceWeight weight;
            for (int e = 0; e < EXPERTS; e++)
                memcpy(packed + (size_t) e * slab_bytes,
                       (const uint8_t *) f.weights[args.up - 1].slabs[e] +
                           (size_t) half * slab_bytes,
                       slab_bytes);
            weight = add_weight(&f, dtype, EXPERTS, HIDDEN, K, packed, slab_bytes * EXPERTS);
            if (half == 0)
                args.gate = weight;
            else
                args.up = weight;
        }
    }
    if (!is_oai)
        args.gate_bias = args.up_bias = args.down_bias = 0;
    fixture_start(&f, features, 2);
    set_batch(&f, n_rows, 0);
    x = fill_act(&f, args.x, n_rows, 1);
    wide = widen(x, n_rows * K, is_q8);
    plain = widen(x, n_rows * K, false);
    fill_nan(&f, args.y, n_rows);
    for (int t = 0; t < n_rows; t++) {
        int32_t *id = (int32_t *) act_values(&f, ids, t);
        double dot = 0;
        id[0] = (t * 5) % EXPERTS;
        id[1] = (t * 5 + 2) % EXPERTS;
        for (int i = 0; i < USED; i++) {
            const float *gu = gate_up + id[i] * 2 * HIDDEN * K;
            float w = act_values(&f, weights, t)[i] = 0.3f + 0.1f * (float) i;
            naive_ffn(wide + t * K, gu, gu + HIDDEN * K, down + id[i] * N * HIDDEN,
                      is_oai ? all_biases[0] + id[i] * HIDDEN : NULL,
                      is_oai ? all_biases[1] + id[i] * HIDDEN : NULL,
                      is_oai ? biases[2] + id[i] * N : NULL, K, HIDDEN, N, args.activation, is_q8,
                      (double) w, ref + t * N);
        }
        for (int i = 0; i < K; i++)
            dot += plain[t * K + i] * (double) shared[3][i];
        naive_ffn(wide + t * K, shared[0], shared[1], shared[2], NULL, NULL, NULL, K, SHARED, N,
                  SLUICE_ACTIVATION_SILU, is_q8, 1 / (1 + exp(-dot)), ref + t * N);
    }
    f.backend->ops->moe_experts(f.backend, &args, &f.batch);
    sync_ok(&f);
    check_act(&f, args.y, ref, n_rows, bound, "experts");

    /* Once more, as two ranges of which the first is cut by masks too. */
    part = args;
    part.accumulate = true;
    part.part = (SluicePart){0, 4};
    part.skip = skip;
    f.backend->ops->moe_experts(f.backend, &part, &f.batch);
    part.skip = keep;
    part.shared_up = 0;
    f.backend->ops->moe_experts(f.backend, &part, &f.batch);
    part.part = (SluicePart){4, EXPERTS};
    part.skip = NULL;
    f.backend->ops->moe_experts(f.backend, &part, &f.batch);
    sync_ok(&f);
    for (int i = 0; i < n_rows * N; i++)
        ref[i] *= 2;
    check_act(&f, args.y, ref, n_rows, bound, "experts in parts");
    fixture_clear(&f);
}

START_TEST(moe_experts_match_formula)
{
    for (int i = 0; i < 8; i++)
        check_moe(levels[_i], i & 1 ? SLUICE_DTYPE_Q8_0 : SLUICE_DTYPE_F32, i & 2 ? 1 : 30, i & 4,
                  i % 3 == 0);
}
END_TEST

/* ---- recurrent layers ----------------------------------------------------------------------- */

START_TEST(short_conv_carries_its_state)
{
    enum { CHANNELS = 300, KERNEL = 4, ROWS = 23 };
    static const int sizes[] = {1, 9, 2, 11};
    Fixture f;
    SluiceAct ax, ay;
    float *w = NULL;
    g_autofree float *x = NULL;
    double ref[ROWS * CHANNELS];
    int at = 0;

    fixture_init(&f);
    ax = add_act(&f, CHANNELS, SLUICE_ROWS_ALL);
    ay = add_act(&f, CHANNELS, SLUICE_ROWS_ALL);
    f.states[0] = (SluiceStateGroup){1, 5, 7};
    f.states[1] = (SluiceStateGroup){3, (KERNEL - 1) * CHANNELS, 10};
    f.config.n_state_groups = 2;
    f.config.n_state_slots = 3;
    SluiceShortConvArgs args = {all_rows, ax, ay, 0, KERNEL};
    args.weight = add_random(&f, SLUICE_DTYPE_F32, 1, CHANNELS, KERNEL, 1, &w);
    fixture_start(&f, levels[_i], 2);
    x = random_floats(f.rand, ROWS * CHANNELS, 1);
    for (int t = 0; t < ROWS; t++) {
        for (int c = 0; c < CHANNELS; c++) {
            double sum = 0;
            for (int i = 0; i < KERNEL; i++) {
                int from = t - KERNEL + 1 + i;
                if (from >= 0)
                    sum += (double) w[c * KERNEL + i] * (double) x[from * CHANNELS + c];
            }
            ref[t * CHANNELS + c] = sum / (1 + exp(-sum));
        }
    }
    for (size_t s = 0; s < G_N_ELEMENTS(sizes); s++) {
        set_batch(&f, sizes[s], at);
        f.seqs[0].state_slot = 2;
        for (int t = 0; t < sizes[s]; t++)
            memcpy(act_values(&f, ax, t), x + (at + t) * CHANNELS, CHANNELS * sizeof *x);
        args.y = s % 2 == 0 ? ay : ax; /* in place too */
        f.backend->ops->short_conv(f.backend, &args, &f.batch);
        sync_ok(&f);
        check_act(&f, args.y, ref + at * CHANNELS, sizes[s], 1e-11, "convolution");
        at += sizes[s];
    }
    fixture_clear(&f);
}
END_TEST

/* One value head by the formula, over all rows. */
static void
naive_delta(const float *q, const float *k, const float *v, const float *z, int q_stride,
            int v_stride, const float *alpha, const float *beta, int head_stride, double a,
            double dt, const float *norm, int dim, int n_rows, double *ref)
{
    g_autofree double *m = g_new0(double, dim *dim);
    g_autofree double *o = g_new(double, dim);

    for (int t = 0; t < n_rows; t++) {
        double decay = exp(a * log(1 + exp((double) alpha[t * head_stride] + dt)));
        double rate = 1 / (1 + exp(-(double) beta[t * head_stride]));
        double qq = 0, kk = 0, squares = 0;
        for (int i = 0; i < dim; i++) {
            qq += (double) q[t * q_stride + i] * (double) q[t * q_stride + i];
            kk += (double) k[t * q_stride + i] * (double) k[t * q_stride + i];
        }
        for (int j = 0; j < dim; j++) {
            double p = 0;
            o[j] = 0;
            for (int i = 0; i < dim; i++)
                p += decay * m[j * dim + i] * (double) k[t * q_stride + i] / sqrt(kk);
            for (int i = 0; i < dim; i++) {
                double *cell = &m[j * dim + i];
                *cell = decay * *cell + rate * ((double) v[t * v_stride + j] - p) *
                                            (double) k[t * q_stride + i] / sqrt(kk);
                o[j] += *cell * (double) q[t * q_stride + i] / sqrt(qq) / sqrt(dim);
            }
            squares += o[j] * o[j];
        }
        for (int j = 0; j < dim; j++) {
            double g = (double) z[t * v_stride + j];
            ref[t * v_stride + j] =
                o[j] / sqrt(squares / dim + 1e-6) * (double) norm[j] * g / (1 + exp(-g));
        }
    }
}

START_TEST(delta_rule_matches_formula)
{
    enum { DIM = 24, K_HEADS = 2, V_HEADS = 6, ROWS = 19, QW = K_HEADS * DIM, VW = V_HEADS * DIM };
    static const int sizes[] = {1, 12, 6};

    for (int is_tiled = 0; is_tiled < 2; is_tiled++) {
        Fixture f;
        SluiceAct in[6], ay;
        static const int widths[6] = {QW, QW, VW, VW, V_HEADS, V_HEADS};
        float *x[6];
        float *w[3] = {NULL};
        double ref[ROWS * VW];
        int at = 0;
        SluiceDeltaRuleArgs args = {.tag = all_rows, .eps = 1e-6f, .is_tiled = is_tiled};

        fixture_init(&f);
        for (int i = 0; i < 6; i++)
            in[i] = add_act(&f, widths[i], SLUICE_ROWS_ALL);
        ay = add_act(&f, VW, SLUICE_ROWS_ALL);
        f.states[0] = (SluiceStateGroup){3, 11, V_HEADS * DIM * DIM};
        f.config.n_state_groups = 1;
        f.config.n_state_slots = 2;
        args.a = add_random(&f, SLUICE_DTYPE_F32, 1, 1, V_HEADS, 1, &w[0]);
        args.dt_bias = add_random(&f, SLUICE_DTYPE_F32, 1, 1, V_HEADS, 1, &w[1]);
        args.norm = add_random(&f, SLUICE_DTYPE_F32, 1, 1, DIM, 1, &w[2]);
        for (int h = 0; h < V_HEADS; h++)
            ((float *) f.owned[0])[h] = w[0][h] = -fabsf(w[0][h]);
        args.q = sluice_act_heads(in[0], K_HEADS);
        args.k = sluice_act_heads(in[1], K_HEADS);
        args.v = sluice_act_heads(in[2], V_HEADS);
        args.z = sluice_act_heads(in[3], V_HEADS);
        args.alpha = sluice_act_heads(in[4], V_HEADS);
        args.beta = sluice_act_heads(in[5], V_HEADS);
        args.y = sluice_act_heads(ay, V_HEADS);
        fixture_start(&f, levels[_i], 2);
        for (int i = 0; i < 6; i++)
            x[i] = random_floats(f.rand, ROWS * widths[i], 1);
        for (int h = 0; h < V_HEADS; h++) {
            int kh = is_tiled ? h % K_HEADS : h / (V_HEADS / K_HEADS);
            naive_delta(x[0] + kh * DIM, x[1] + kh * DIM, x[2] + h * DIM, x[3] + h * DIM, QW, VW,
                        x[4] + h, x[5] + h, V_HEADS, (double) w[0][h], (double) w[1][h], w[2], DIM,
                        ROWS, ref + h * DIM);
        }
        for (size_t s = 0; s < G_N_ELEMENTS(sizes); s++) {
            set_batch(&f, sizes[s], at);
            f.seqs[0].state_slot = 1;
            for (int i = 0; i < 6; i++) {
                for (int t = 0; t < sizes[s]; t++)
                    memcpy(act_values(&f, in[i], t), x[i] + (at + t) * widths[i],
                           (size_t) widths[i] * sizeof(float));
            }
            fill_nan(&f, ay, sizes[s]);
            args.part = (SluicePart){0, 2};
            f.backend->ops->delta_rule(f.backend, &args, &f.batch);
            args.part = (SluicePart){2, V_HEADS};
            f.backend->ops->delta_rule(f.backend, &args, &f.batch);
            sync_ok(&f);
            check_act(&f, ay, ref + at * VW, sizes[s], 1e-10, "delta rule");
            at += sizes[s];
        }
        for (int i = 0; i < 6; i++)
            g_free(x[i]);
        fixture_clear(&f);
    }
}
END_TEST

START_TEST(pages_and_slots_are_copied_saved_and_zeroed)
{
    Fixture f;
    SluiceBackend *b;
    SluiceCpuBackend *cpu;
    g_autofree uint8_t *host = NULL;
    g_autofree uint8_t *again = NULL;
    static const SluiceStateKind kinds[] = {SLUICE_STATE_PAGE, SLUICE_STATE_SLOT};

    fixture_init(&f);
    add_act(&f, 8, SLUICE_ROWS_ALL);
    f.tables[0] = (SluiceKvTable){4, 0};
    f.tables[1] = (SluiceKvTable){4, 16};
    f.groups[0] = (SluiceKvGroup){0, 0, 2, 1, 32, 64, SLUICE_DTYPE_F16, SLUICE_DTYPE_Q8_0};
    f.groups[1] = (SluiceKvGroup){1, 0, 2, 0, 32, 32, SLUICE_DTYPE_F16, SLUICE_DTYPE_F16};
    f.groups[2] = (SluiceKvGroup){2, 0, 1, 1, 32, 32, SLUICE_DTYPE_F32, SLUICE_DTYPE_Q4_0};
    f.config.n_kv_groups = 3;
    f.config.n_kv_tables = 2;
    f.states[0] = (SluiceStateGroup){3, 5, 9};
    f.states[1] = (SluiceStateGroup){4, 2, 70};
    f.config.n_state_groups = 2;
    f.config.n_state_slots = 4;
    fixture_start(&f, levels[_i], 2);
    b = f.backend;
    cpu = (SluiceCpuBackend *) b;
    ck_assert_uint_eq(b->ops->page_bytes(b, 1),
                      2 * 64 * (32 * 2 + 64 / 32 * 34) + 64 * (32 * 4 + 18));
    ck_assert_uint_eq(b->ops->slot_bytes(b), (5 + 9 + 2 + 70) * 4);
    for (size_t i = 0; i < cpu->kv.n_bytes; i++)
        ((uint8_t *) cpu->kv.data)[i] = (uint8_t) g_rand_int(f.rand);
    for (size_t i = 0; i < cpu->state.n_bytes; i++)
        ((uint8_t *) cpu->state.data)[i] = (uint8_t) g_rand_int(f.rand);
    for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++) {
        size_t n = kinds[k] == SLUICE_STATE_PAGE ? b->ops->page_bytes(b, 1) : b->ops->slot_bytes(b);
        SluiceStateCopyArgs args = {all_rows, kinds[k], 1, 2, -1, NULL};
        g_free(host);
        g_free(again);
        host = g_malloc(n);
        again = g_malloc(n);
        args.host = host;
        b->ops->state_copy(b, &args); /* save 2 */
        args = (SluiceStateCopyArgs){all_rows, kinds[k], 1, 2, 0, NULL};
        b->ops->state_copy(b, &args); /* 2 to 0 */
        args = (SluiceStateCopyArgs){all_rows, kinds[k], 1, -1, 2, NULL};
        b->ops->state_copy(b, &args); /* zero 2 */
        args = (SluiceStateCopyArgs){all_rows, kinds[k], 1, 0, -1, again};
        b->ops->state_copy(b, &args); /* save 0 */
        sync_ok(&f);
        ck_assert_mem_eq(host, again, n);
        args = (SluiceStateCopyArgs){all_rows, kinds[k], 1, 2, -1, again};
        b->ops->state_copy(b, &args);
        sync_ok(&f);
        for (size_t i = 0; i < n; i++)
            ck_assert_uint_eq(again[i], 0);
        args = (SluiceStateCopyArgs){all_rows, kinds[k], 1, -1, 3, host};
        b->ops->state_copy(b, &args); /* restore into 3 */
        args = (SluiceStateCopyArgs){all_rows, kinds[k], 1, 3, -1, again};
        b->ops->state_copy(b, &args);
        sync_ok(&f);
        ck_assert_mem_eq(host, again, n);
    }
    fixture_clear(&f);
}
END_TEST

START_TEST(flags_hold_and_release_in_order)
{
    Fixture f;
    SluiceAct x;
    SluiceFlag in = {7};
    SluiceFlag out = {0};

    fixture_init(&f);
    x = add_act(&f, 8, SLUICE_ROWS_ALL);
    fixture_start(&f, levels[_i], 2);
    set_batch(&f, 40, 0);
    g_free(fill_act(&f, x, 40, 1));
    f.backend->ops->stream_wait(f.backend, &in, 6);
    f.backend->ops->scale(f.backend, &(SluiceScaleArgs){all_rows, x, x, 0}, &f.batch);
    f.backend->ops->stream_post(f.backend, &out, 3);
    ck_assert_uint_eq(out.value, 0);
    sync_ok(&f);
    ck_assert_uint_eq(out.value, 3);
    ck_assert_float_eq(act_values(&f, x, 39)[7], 0);
    fixture_clear(&f);
}
END_TEST

START_TEST(results_do_not_depend_on_the_number_of_threads)
{
    enum { K = 96, N = 200, ROWS = 21 };
    static const int threads[] = {1, 2, 3, 4};
    g_autofree float *first = g_new(float, ROWS *N);

    for (size_t i = 0; i < 2 * G_N_ELEMENTS(threads); i++) {
        SluiceDtype dtype = i < G_N_ELEMENTS(threads) ? SLUICE_DTYPE_Q8_0 : SLUICE_DTYPE_F16;
        Fixture f;
        SluiceFfnArgs args = {.tag = all_rows};
        float *w[3] = {NULL};
        fixture_init(&f);
        args.x = add_act(&f, K, SLUICE_ROWS_ALL);
        args.y = add_act(&f, N, SLUICE_ROWS_ALL);
        args.gate = add_random(&f, dtype, 1, 320, K, 1, &w[0]);
        args.up = add_random(&f, dtype, 1, 320, K, 1, &w[1]);
        args.down = add_random(&f, dtype, 1, N, 320, 1, &w[2]);
        fixture_start(&f, levels[_i], threads[i % G_N_ELEMENTS(threads)]);
        set_batch(&f, ROWS, 0);
        g_free(fill_act(&f, args.x, ROWS, 1));
        f.backend->ops->ffn(f.backend, &args, &f.batch);
        sync_ok(&f);
        for (int t = 0; t < ROWS; t++) {
            if (i % G_N_ELEMENTS(threads) == 0)
                memcpy(first + t * N, act_values(&f, args.y, t), N * sizeof *first);
            else
                ck_assert_mem_eq(first + t * N, act_values(&f, args.y, t), N * sizeof *first);
        }
        fixture_clear(&f);
    }
}
END_TEST

/* ---- the whole ------------------------------------------------------------------------------ */

START_TEST(cancel_stops_and_is_forgotten)
{
    Fixture f;
    SluiceAct x;
    int cancel = 1;
    char text[256];

    fixture_init(&f);
    x = add_act(&f, 8, SLUICE_ROWS_ALL);
    fixture_start(&f, levels[_i], 2);
    set_batch(&f, 2, 0);
    g_free(fill_act(&f, x, 2, 1));
    float before = act_values(&f, x, 1)[3];
    f.batch.cancel = &cancel;
    f.backend->ops->scale(f.backend, &(SluiceScaleArgs){all_rows, x, x, 2}, &f.batch);
    ck_assert_int_eq(f.backend->ops->sync(f.backend, text, sizeof text), SLUICE_STATUS_CANCELLED);
    ck_assert_str_eq(text, "cancelled");
    ck_assert_float_eq(act_values(&f, x, 1)[3], before);
    cancel = 0;
    f.backend->ops->scale(f.backend, &(SluiceScaleArgs){all_rows, x, x, 2}, &f.batch);
    sync_ok(&f);
    ck_assert_float_eq(act_values(&f, x, 1)[3], 2 * before);
    fixture_clear(&f);
}
END_TEST

START_TEST(configurations_that_cannot_work_are_refused_with_numbers)
{
    Fixture f;
    SluiceCpuOptions options = {.n_threads = 1, .n_threads_batch = 1};
    SluiceCpuMemory memory;
    size_t scratch;
    g_autoptr(GError) error = NULL;

    fixture_init(&f);
    add_act(&f, 8, SLUICE_ROWS_ALL);
    f.config.n_kv_tables = 1;
    f.config.n_kv_groups = 1;
    f.tables[0] = (SluiceKvTable){4, 0};
    f.groups[0] = (SluiceKvGroup){0, 0, 1, 0, 80, 80, SLUICE_DTYPE_Q8_0, SLUICE_DTYPE_Q8_0};
    options.residency = &f.residency;
    ck_assert(!sluice_cpu_memory(&f.config, &options, &memory, &error));
    ck_assert_str_eq(error->message,
                     "keys of 80 values cannot be kept as Q8_0, whose blocks have 32");
    g_clear_error(&error);
    f.groups[0].k_type = f.groups[0].v_type = SLUICE_DTYPE_F16;
    ck_assert(sluice_cpu_memory(&f.config, &options, &memory, &error));
    ck_assert_uint_eq(memory.kv, 4 * 64 * 2 * 80 * 2);
    scratch = memory.scratch;
    f.config.n_experts_used = 8;
    ck_assert(sluice_cpu_memory(&f.config, &options, &memory, &error));
    ck_assert_uint_ge(memory.scratch, scratch + (size_t) f.config.max_rows * 8 * 2 * 4);
    f.config.n_experts_used = SLUICE_MAX_EXPERTS_USED + 1;
    ck_assert(!sluice_cpu_memory(&f.config, &options, &memory, &error));
    ck_assert_msg(strstr(error->message, "65 experts") != NULL, "%s", error->message);
    fixture_clear(&f);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("backend");
    TCase *tc = tcase_create("operations");
    SluiceCpuFeatures host = sluice_cpu_features();

    levels[n_levels++] = 0;
    if (host & SLUICE_CPU_AVX2)
        levels[n_levels++] = SLUICE_CPU_AVX2;
    if (host & SLUICE_CPU_AVX_VNNI)
        levels[n_levels++] = SLUICE_CPU_AVX2 | SLUICE_CPU_AVX_VNNI;
    if (host & SLUICE_CPU_AVX512)
        levels[n_levels++] = host;
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, matmul_matches_formula, 0, n_levels);
    tcase_add_loop_test(tc, prompts_over_float_weights_match_formula, 0, n_levels);
    tcase_add_test(tc, a_library_that_miscomputes_is_left_out);
    tcase_add_test(tc, openblas_is_named_where_it_is_used);
    tcase_add_loop_test(tc, ffn_matches_formula, 0, n_levels);
    tcase_add_loop_test(tc, rms_norm_adds_and_normalises_each_head, 0, n_levels);
    tcase_add_loop_test(tc, values_are_added_scaled_capped_and_gated, 0, n_levels);
    tcase_add_loop_test(tc, rope_rotates_as_the_formula_says, 0, n_levels);
    tcase_add_loop_test(tc, embed_select_top_and_read_bring_data_in_and_out, 0, n_levels);
    tcase_add_loop_test(tc, attention_matches_formula, 0, n_levels);
    tcase_add_loop_test(tc, sequences_of_one_batch_do_not_see_each_other, 0, n_levels);
    tcase_add_loop_test(tc, moe_route_chooses_and_weighs, 0, n_levels);
    tcase_add_loop_test(tc, moe_experts_match_formula, 0, n_levels);
    tcase_add_loop_test(tc, short_conv_carries_its_state, 0, n_levels);
    tcase_add_loop_test(tc, delta_rule_matches_formula, 0, n_levels);
    tcase_add_loop_test(tc, pages_and_slots_are_copied_saved_and_zeroed, 0, n_levels);
    tcase_add_loop_test(tc, flags_hold_and_release_in_order, 0, n_levels);
    tcase_add_loop_test(tc, results_do_not_depend_on_the_number_of_threads, 0, n_levels);
    tcase_add_loop_test(tc, cancel_stops_and_is_forgotten, 0, n_levels);
    tcase_add_test(tc, configurations_that_cannot_work_are_refused_with_numbers);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
