/* SPDX-License-Identifier: MIT */
/*
 * Times the matrix product kernels: median and spread of several rounds, beside the scalar
 * reference's and beside the rate at which all threads together can read memory.
 *
 *   bench_kernels [--op read|matvec|matmul|quantise|dequantise] [--type NAME] [--level NAME]
 *                 [--threads N] [--rows N] [--weight-rows N] [--cols N] [--cpu-time] [--csv]
 *                 [--tiny]
 *
 * --cpu-time takes the processor time of the busiest thread instead of the clock on the wall:
 * steadier where others use the machine, but blind to waiting.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cpu/kernels.h"
#include "cpu/matmul.h"
#include "src/core/tensor.h"

enum { MAX_THREADS = 256, N_ROUNDS = 7 };

static char *arg_op;
static char *arg_type;
static char *arg_level;
static int n_threads = 0;
static int n_input_rows = 0;
static int n_weight_rows = 0;
static int n_weight_cols = 0;
static gboolean is_cpu_time;
static gboolean is_csv;
static gboolean is_tiny;

static const GOptionEntry entries[] = {
    {"op", 0, 0, G_OPTION_ARG_STRING, &arg_op, "only read, matvec, matmul, quantise or dequantise",
     "OP"},
    {"type", 0, 0, G_OPTION_ARG_STRING, &arg_type, "only this element type", "NAME"},
    {"level", 0, 0, G_OPTION_ARG_STRING, &arg_level, "ref, avx2, avx-vnni or avx512", "NAME"},
    {"threads", 0, 0, G_OPTION_ARG_INT, &n_threads, "threads (default: all)", "N"},
    {"rows", 0, 0, G_OPTION_ARG_INT, &n_input_rows, "input rows (default: 1 and 512)", "N"},
    {"weight-rows", 0, 0, G_OPTION_ARG_INT, &n_weight_rows, "rows of the weight", "N"},
    {"cols", 0, 0, G_OPTION_ARG_INT, &n_weight_cols, "columns of the weight", "N"},
    {"cpu-time", 0, 0, G_OPTION_ARG_NONE, &is_cpu_time, "processor time, not wall time", NULL},
    {"csv", 0, 0, G_OPTION_ARG_NONE, &is_csv, "comma-separated", NULL},
    {"tiny", 0, 0, G_OPTION_ARG_NONE, &is_tiny, "sizes that only show that it runs", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* ---- threads -------------------------------------------------------------------------------- */

typedef void (*Work)(void *data, int thread_idx);

typedef struct {
    Work work;
    void *data;
    int idx;
    double cpu_seconds;
} Job;

static double
thread_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static gpointer
run_job(gpointer data)
{
    Job *job = data;
    double begin = thread_seconds();

    job->work(job->data, job->idx);
    job->cpu_seconds = thread_seconds() - begin;
    return NULL;
}

/* Threads are started anew for each round: a round lasts milliseconds. */
static double
time_work(Work work, void *data)
{
    GThread *threads[MAX_THREADS];
    Job jobs[MAX_THREADS];
    gint64 begin = g_get_monotonic_time();
    double cpu_seconds;

    for (int i = 0; i < n_threads; i++) {
        jobs[i] = (Job){work, data, i, 0};
        threads[i] = i == 0 ? NULL : g_thread_new("bench", run_job, &jobs[i]);
    }
    run_job(&jobs[0]);
    cpu_seconds = jobs[0].cpu_seconds;
    for (int i = 1; i < n_threads; i++) {
        g_thread_join(threads[i]);
        cpu_seconds = MAX(cpu_seconds, jobs[i].cpu_seconds);
    }
    if (is_cpu_time)
        return cpu_seconds;
    return (double) (g_get_monotonic_time() - begin) * 1e-6;
}

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *) a;
    double y = *(const double *) b;

    return (x > y) - (x < y);
}

/* Huge pages where the system gives them; never freed. */
static void *
alloc_large(size_t n_bytes)
{
    void *p = NULL;
    size_t n = (n_bytes + (2 << 20) - 1) & ~(size_t) ((2 << 20) - 1);

    if (posix_memalign(&p, 2 << 20, n) != 0) {
        fprintf(stderr, "bench_kernels: no memory for %zu bytes\n", n);
        exit(EXIT_FAILURE);
    }
#ifdef MADV_HUGEPAGE
    madvise(p, n, MADV_HUGEPAGE);
#endif
    return p;
}

/* ---- memory --------------------------------------------------------------------------------- */

typedef struct {
    uint64_t *memory;
    size_t n_words; /* per thread */
    uint64_t sums[MAX_THREADS * 8];
} Read;

typedef uint64_t Line __attribute__((vector_size(64), aligned(64)));

static void
read_memory(void *data, int idx)
{
    Read *read = data;
    const Line *at = (const Line *) (read->memory + (size_t) idx * read->n_words);
    Line sums[4] = {{0}};

    for (size_t i = 0; i < read->n_words / 8; i += 4) {
        for (size_t j = 0; j < 4; j++)
            sums[j] += at[i + j];
    }
    sums[0] += sums[1] + sums[2] + sums[3];
    for (int j = 0; j < 8; j++)
        read->sums[8 * idx] += sums[0][j];
}

/* Bytes per second, best round. */
static double
measure_read(void)
{
    size_t n_bytes = is_tiny ? 4 << 20 : (size_t) 1 << 30;
    Read *read = g_new0(Read, 1);
    double best = 0;

    read->n_words = n_bytes / sizeof(uint64_t) / (size_t) n_threads / 32 * 32;
    read->memory = alloc_large(n_bytes);
    memset(read->memory, 1, n_bytes);
    for (int i = 0; i < (is_tiny ? 1 : N_ROUNDS); i++) {
        double rate =
            (double) (read->n_words * 8 * (size_t) n_threads) / time_work(read_memory, read);

        best = MAX(best, rate);
    }
    free(read->memory);
    g_free(read);
    return best;
}

/* ---- products ------------------------------------------------------------------------------- */

typedef struct {
    const SluiceCpuKernels *k;
    SluiceDtype dtype;
    int64_t n_rows; /* of the weight */
    int64_t n_cols;
    size_t row_stride;
    uint8_t *weight;
    SluiceCpuMatmulInput input;
    float *x;
    float *y;
    void *scratch[MAX_THREADS];
    gint next; /* chunk, shared by the threads */
    int64_t chunk_rows;
} Product;

static void
run_product(void *data, int idx)
{
    Product *p = data;

    for (;;) {
        int64_t begin = g_atomic_int_add(&p->next, 1) * p->chunk_rows;

        if (begin >= p->n_rows)
            return;
        sluice_cpu_matmul_rows(p->k, p->dtype, p->weight, p->row_stride, p->n_cols, begin,
                               MIN(begin + p->chunk_rows, p->n_rows), &p->input, NULL, 0,
                               p->y + begin, p->n_rows, p->scratch[idx]);
    }
}

static void
run_dequantise(void *data, int idx)
{
    Product *p = data;

    for (;;) {
        int64_t j = g_atomic_int_add(&p->next, 1);

        if (j >= p->n_rows)
            return;
        sluice_cpu_dequantise(p->dtype, p->weight + (size_t) j * p->row_stride,
                              p->y + idx * p->n_cols, p->n_cols);
    }
}

static void
run_quantise(void *data, int idx)
{
    Product *p = data;
    int64_t per_thread = (p->input.n_rows + n_threads - 1) / n_threads;

    sluice_cpu_q8_quantise(p->k, &p->input.q8, p->x, p->n_cols,
                           MIN(idx * per_thread, p->input.n_rows),
                           MIN((idx + 1) * per_thread, p->input.n_rows));
}

/* The median of the rounds in seconds, after one to warm up; spread is (max - min) / median. */
static double
median_product(Product *p, Work work, double *spread)
{
    double seconds[N_ROUNDS + 1];
    int n = is_tiny ? 1 : N_ROUNDS;

    for (int i = -1; i < n; i++) {
        p->next = 0;
        seconds[i < 0 ? n : i] = time_work(work, p);
    }
    qsort(seconds, (size_t) n, sizeof *seconds, compare_doubles);
    *spread = (seconds[n - 1] - seconds[0]) / seconds[n / 2];
    return seconds[n / 2];
}

static void
product_init(Product *p, const SluiceCpuKernels *k, SluiceDtype dtype, int64_t n_rows,
             int64_t n_cols, int64_t n_x)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(1);
    size_t n_bytes;

    memset(p, 0, sizeof *p);
    p->k = k;
    p->dtype = dtype;
    p->n_rows = n_rows;
    p->n_cols = n_cols;
    sluice_dtype_row_bytes(dtype, n_cols, &p->row_stride);
    n_bytes = (size_t) n_rows * p->row_stride;
    p->weight = alloc_large(n_bytes);
    /* Any bytes do but those that would be infinite or NaN as halfs. */
    for (size_t i = 0; i < n_bytes; i++)
        p->weight[i] = (uint8_t) ((i * 2654435761u >> 13) & 0xbb);
    p->x = alloc_large((size_t) (n_x * n_cols) * sizeof(float));
    for (int64_t i = 0; i < n_x * n_cols; i++)
        p->x[i] = (float) g_rand_double_range(rand, -1, 1);
    p->y = alloc_large((size_t) (MAX(n_x * n_rows, n_threads * n_cols)) * sizeof(float));
    p->input.x = p->x;
    p->input.ldx = n_cols;
    p->input.n_rows = n_x;
    sluice_cpu_q8_place(&p->input.q8, n_x, n_cols, alloc_large(sluice_cpu_q8_bytes(n_x, n_cols)));
    sluice_cpu_q8_quantise(k, &p->input.q8, p->x, n_cols, 0, n_x);
    for (int i = 0; i < n_threads; i++)
        p->scratch[i] = alloc_large(sluice_cpu_matmul_scratch_bytes(n_x, n_cols));
    p->chunk_rows = n_x > 1 ? 64 : 256;
}

static void
product_clear(Product *p)
{
    free(p->weight);
    free(p->x);
    free(p->y);
    free(p->input.q8.q);
    for (int i = 0; i < n_threads; i++)
        free(p->scratch[i]);
}

/* ---- the runs ------------------------------------------------------------------------------- */

static double read_rate;

static void
print_line(const char *op, const char *type, const char *level, double seconds, double spread,
           double amount, const char *unit, double ref_seconds, double share)
{
    if (is_csv)
        printf("%s,%s,%s,%d,%.6f,%.3f,%.3f,%s,%.2f,%.3f\n", op, type, level, n_threads, seconds,
               spread, amount / seconds * 1e-9, unit, ref_seconds / seconds, share);
    else
        printf(
            "%-10s %-8s %-8s %2d thr %9.3f ms +-%4.1f%% %8.2f %-7s %6.1fx ref  %3.0f%% of read\n",
            op, type, level, n_threads, seconds * 1e3, spread * 50, amount / seconds * 1e-9, unit,
            ref_seconds / seconds, share * 100);
    fflush(stdout);
}

static bool
is_wanted(const char *op)
{
    return arg_op == NULL || strcmp(arg_op, op) == 0;
}

/* The reference on a share of the rows, as it is slow; its time scaled up. */
static double
reference_seconds(Product *p, Work work)
{
    SluiceCpuKernels ref;
    const SluiceCpuKernels *k = p->k;
    int64_t n_rows = p->n_rows;
    double seconds;

    sluice_cpu_kernels_init(&ref, 0);
    p->k = &ref;
    p->n_rows = MAX(n_rows / 64, 1);
    p->next = 0;
    seconds = time_work(work, p) * (double) n_rows / (double) p->n_rows;
    p->k = k;
    p->n_rows = n_rows;
    return seconds;
}

static void
bench_product(const SluiceCpuKernels *k, const char *level, SluiceDtype dtype, int64_t n_x)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);
    int64_t n_cols = n_weight_cols > 0 ? n_weight_cols : is_tiny ? 512 : 4096;
    int64_t n_rows = n_weight_rows > 0 ? n_weight_rows : is_tiny ? 64 : n_x == 1 ? 32768 : 4096;
    double seconds, spread, ref, n_bytes;
    Product p;

    product_init(&p, k, dtype, n_rows, n_cols, n_x);
    p.chunk_rows = MIN(p.chunk_rows, MAX(n_rows / n_threads / 16 * 16, 16));
    n_bytes = (double) p.row_stride * (double) n_rows;
    seconds = median_product(&p, run_product, &spread);
    ref = reference_seconds(&p, run_product);
    if (n_x == 1)
        print_line("matvec", info->name, level, seconds, spread, n_bytes, "GB/s", ref,
                   n_bytes / seconds / read_rate);
    else
        print_line("matmul", info->name, level, seconds, spread,
                   2.0 * (double) n_rows * (double) n_cols * (double) n_x, "GFLOP/s", ref,
                   n_bytes / seconds / read_rate);
    product_clear(&p);
}

static void
bench_type(const SluiceCpuKernels *k, const char *level, SluiceDtype dtype)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);
    double seconds, spread, n_bytes;
    Product p;

    if (is_wanted("matvec") && (n_input_rows == 0 || n_input_rows == 1))
        bench_product(k, level, dtype, 1);
    if (is_wanted("matmul") && n_input_rows != 1)
        bench_product(k, level, dtype, n_input_rows != 0 ? n_input_rows : is_tiny ? 20 : 512);
    if (is_wanted("dequantise") && info->is_quantised) {
        product_init(&p, k, dtype, is_tiny ? 16 : 2048, is_tiny ? 512 : 4096, 1);
        n_bytes = (double) (p.n_rows * p.n_cols) * sizeof(float);
        seconds = median_product(&p, run_dequantise, &spread);
        print_line("dequantise", info->name, "ref", seconds, spread, n_bytes, "GB/s", seconds,
                   n_bytes / seconds / read_rate);
        product_clear(&p);
    }
}

static void
bench_quantise(const SluiceCpuKernels *k, const char *level)
{
    double seconds, spread, n_bytes;
    Product p;

    product_init(&p, k, SLUICE_DTYPE_Q8_0, 64, is_tiny ? 512 : 4096, is_tiny ? 16 : 512);
    n_bytes = (double) (p.input.n_rows * p.n_cols) * sizeof(float);
    seconds = median_product(&p, run_quantise, &spread);
    print_line("quantise", "F32", level, seconds, spread, n_bytes, "GB/s",
               reference_seconds(&p, run_quantise) / 64, n_bytes / seconds / read_rate);
    product_clear(&p);
}

static SluiceCpuFeatures
parse_level(const char *name)
{
    static const SluiceCpuFeatures features[] = {
        0,
        SLUICE_CPU_AVX2,
        SLUICE_CPU_AVX2 | SLUICE_CPU_AVX_VNNI,
        SLUICE_CPU_AVX2 | SLUICE_CPU_AVX512,
    };
    static const char *const names[] = {"ref", "avx2", "avx-vnni", "avx512"};

    for (size_t i = 0; name != NULL && i < G_N_ELEMENTS(names); i++) {
        if (strcmp(names[i], name) != 0)
            continue;
        if ((features[i] & ~sluice_cpu_features()) == 0)
            return features[i];
        fprintf(stderr, "bench_kernels: this processor has no %s\n", name);
        exit(EXIT_FAILURE);
    }
    if (name != NULL) {
        fprintf(stderr, "bench_kernels: level is '%s', expected ref, avx2, avx-vnni or avx512\n",
                name);
        exit(EXIT_FAILURE);
    }
    return sluice_cpu_features();
}

int
main(int argc, char **argv)
{
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    g_autoptr(GError) error = NULL;
    SluiceCpuFeatures features;
    SluiceCpuKernels k;
    const char *level;
    int wanted = -1;

    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error)) {
        fprintf(stderr, "bench_kernels: %s\n", error->message);
        return EXIT_FAILURE;
    }
    if (n_threads <= 0)
        n_threads = (int) g_get_num_processors();
    n_threads = MIN(n_threads, MAX_THREADS);
    if (arg_type != NULL && (wanted = sluice_dtype_from_name(arg_type)) < 0) {
        fprintf(stderr, "bench_kernels: no type is named '%s'\n", arg_type);
        return EXIT_FAILURE;
    }
    features = parse_level(arg_level);
    level = sluice_cpu_features_name(features);
    sluice_cpu_kernels_init(&k, features);
    read_rate = measure_read();
    if (is_csv)
        printf("op,type,level,threads,seconds,spread,rate,unit,times_ref,share_of_read\n");
    if (is_wanted("read"))
        print_line("read", "-", "-", 1, 0, read_rate, "GB/s", 1, 1);
    if (is_wanted("quantise"))
        bench_quantise(&k, level);
    for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
        const SluiceDtypeInfo *info = sluice_dtype_info((SluiceDtype) i);

        if (info != NULL && (wanted < 0 || wanted == i) &&
            sluice_cpu_matmul_supports((SluiceDtype) i, info->block_len))
            bench_type(&k, level, (SluiceDtype) i);
    }
    return EXIT_SUCCESS;
}
