/* SPDX-License-Identifier: MIT */
/*
 * The CPU executor: its memory, the table of operations, and the way in and out. What each
 * operation does stands in the backend-*.c of its family.
 */
#include "config.h"

#define G_LOG_DOMAIN "Sluice-CPU"

#include "cpu/backend-private.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include "src/core/error.h"
#include "src/core/tensor.h"

enum {
    ALIGNMENT = 64,
    HUGE_BYTES = 2 << 20,
};

/* ---- sizes ---------------------------------------------------------------------------------- */

/* *total += n * size, rounded up to a cache line; false on overflow. */
static bool
add_bytes(size_t *total, int64_t n, size_t size)
{
    size_t bytes;

    return n >= 0 && !__builtin_mul_overflow((size_t) n, size, &bytes) &&
           !__builtin_add_overflow(bytes, (size_t) (ALIGNMENT - 1), &bytes) &&
           !__builtin_add_overflow(*total, bytes & ~(size_t) (ALIGNMENT - 1), total);
}

static bool
kv_type_of(SluiceDtype dtype, SluiceCpuKvType *type)
{
    switch ((int) dtype) {
    case SLUICE_DTYPE_F32:
        *type = SLUICE_CPU_KV_F32;
        return true;
    case SLUICE_DTYPE_F16:
        *type = SLUICE_CPU_KV_F16;
        return true;
    case SLUICE_DTYPE_Q8_0:
        *type = SLUICE_CPU_KV_Q8_0;
        return true;
    case SLUICE_DTYPE_Q4_0:
        *type = SLUICE_CPU_KV_Q4_0;
        return true;
    default:
        return false;
    }
}

static gboolean
check_head(const SluiceKvGroup *group, const char *what, SluiceDtype dtype, int32_t dim,
           SluiceCpuKvType *type, size_t *row_bytes, GError **error)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);

    if (!kv_type_of(dtype, type)) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "%ss cannot be kept as '%s', expected F32, F16, Q8_0 or Q4_0", what,
                    info != NULL ? info->name : "unknown");
        return FALSE;
    }
    if (dim < 1 || dim > SLUICE_CPU_MAX_HEAD_DIM) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                    "heads of layer %d have %d %s values, expected 1 to %d", group->layer, dim,
                    what, SLUICE_CPU_MAX_HEAD_DIM);
        return FALSE;
    }
    if (!sluice_dtype_row_bytes(dtype, dim, row_bytes)) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "%ss of %d values cannot be kept as %s, whose blocks have %d", what, dim,
                    info->name, info->block_len);
        return FALSE;
    }
    return TRUE;
}

static gboolean
lay_out_kv(const SluiceBackendConfig *config, SluiceCpuKvPool *pools, size_t *n_bytes,
           GError **error)
{
    *n_bytes = 0;
    for (int32_t i = 0; i < config->n_kv_groups; i++) {
        const SluiceKvGroup *group = &config->kv_groups[i];
        SluiceCpuKvPool *pool = &pools[i];
        int64_t n_heads = (int64_t) group->head_end - group->head_begin;
        pool->group = *group;
        if (!check_head(group, "key", group->k_type, group->k_dim, &pool->k_type,
                        &pool->k_row_bytes, error) ||
            !check_head(group, "value", group->v_type, group->v_dim, &pool->v_type,
                        &pool->v_row_bytes, error))
            return FALSE;
        if (group->table < 0 || group->table >= config->n_kv_tables || n_heads < 1) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                        "key and value group %d has table %d of %d and heads %d to %d", i,
                        group->table, config->n_kv_tables, group->head_begin, group->head_end);
            return FALSE;
        }
        pool->offset = *n_bytes;
        pool->page_bytes =
            (size_t) n_heads * SLUICE_CPU_PAGE * (pool->k_row_bytes + pool->v_row_bytes);
        if (!add_bytes(n_bytes, config->kv_tables[group->table].n_pages, pool->page_bytes)) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                        "%d pages of %zu bytes are more than can be addressed",
                        config->kv_tables[group->table].n_pages, pool->page_bytes);
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean
lay_out_state(const SluiceBackendConfig *config, SluiceCpuStatePool *pools, size_t *n_bytes,
              GError **error)
{
    *n_bytes = 0;
    for (int32_t i = 0; i < config->n_state_groups; i++) {
        const SluiceStateGroup *group = &config->state_groups[i];
        SluiceCpuStatePool *pool = &pools[i];
        int64_t n = 0;
        pool->group = *group;
        pool->offset = *n_bytes / sizeof(float);
        if (group->n_conv < 0 || group->n_delta < 0 ||
            __builtin_add_overflow(group->n_conv, group->n_delta, &n) || n > INT32_MAX ||
            !add_bytes(n_bytes, config->n_state_slots, (size_t) n * sizeof(float))) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                        "%d slots of the state of layer %d are more than can be addressed",
                        config->n_state_slots, group->layer);
            return FALSE;
        }
        pool->slot_floats = (size_t) n;
    }
    return TRUE;
}

static gboolean
lay_out_acts(const SluiceBackendConfig *config, SluiceCpuLayout *l, GError **error)
{
    for (int32_t i = 0; i < config->n_acts; i++) {
        const SluiceActSpec *spec = &config->acts[i];
        int64_t n_rows = spec->rows == SLUICE_ROWS_OUT ? config->max_out : config->max_rows;
        /* Rows begin on cache lines. */
        l->act_strides[i] = ((int64_t) spec->width + 15) & ~(int64_t) 15;
        l->act_offsets[i] = l->activations;
        if (spec->width < 1 ||
            !add_bytes(&l->activations, n_rows, (size_t) l->act_strides[i] * sizeof(float))) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                        "activation %d of %d values by %" G_GINT64_FORMAT " rows cannot be held", i,
                        spec->width, n_rows);
            return FALSE;
        }
        if (spec->rows == SLUICE_ROWS_ALL)
            l->max_width = MAX(l->max_width, spec->width);
    }
    return TRUE;
}

/* Bytes of scratch of one thread: what the hungriest operation wants. */
static size_t
thread_bytes(const SluiceBackendConfig *config, SluiceCpuLayout *l)
{
    size_t product = 0;
    size_t attention = 0;
    size_t rows = (size_t) MAX(config->max_rows, config->max_out);
    size_t dim = (size_t) ((l->max_head_dim + 15) & ~(int64_t) 15);

    /* Two chunks of output (gate and up) beside the product's own. */
    product = sluice_cpu_matmul_scratch_bytes((int64_t) rows, MAX(l->max_width, l->max_hidden));
    if (l->has_float_matrices) {
        product = MAX(product, sluice_cpu_blas_scratch_bytes());
        l->thread_blas = sluice_cpu_blas_work_bytes((int64_t) rows);
    }
    product = (product + ALIGNMENT - 1) & ~(size_t) (ALIGNMENT - 1);
    l->thread_product = product;
    product += 2 * rows * SLUICE_CPU_CHUNK_COLS * sizeof(float);
    /* Queries, output, keys as stored and transposed, values, scores. */
    attention = (2 * SLUICE_CPU_TILE_QUERIES * dim + 3 * SLUICE_CPU_PAGE * dim +
                 SLUICE_CPU_TILE_QUERIES * (SLUICE_CPU_PAGE + 2)) *
                    sizeof(float) +
                8 * ALIGNMENT;
    return (MAX(product, attention) + ALIGNMENT - 1) & ~(size_t) (ALIGNMENT - 1);
}

static void
lay_out_scratch(const SluiceBackendConfig *config, int n_threads, SluiceCpuLayout *l)
{
    int64_t n_rows = MAX(config->max_rows, config->max_out);
    int64_t width = (l->max_width + 255) & ~(int64_t) 255;

    for (int32_t i = 0; i < config->n_kv_groups; i++)
        l->max_head_dim =
            MAX(l->max_head_dim, MAX(config->kv_groups[i].k_dim, config->kv_groups[i].v_dim));
    l->max_hidden = config->max_hidden;
    l->q8_slot = (sluice_cpu_q8_bytes(n_rows, width) + ALIGNMENT - 1) & ~(size_t) (ALIGNMENT - 1);
    /* A frequency is a double, and stands for a row of two floats. */
    l->rope_table = (size_t) (n_rows + 1) * SLUICE_CPU_MAX_HEAD_DIM * sizeof(float);
    l->partials = 0;
    if (config->n_kv_groups > 0)
        l->partials = (size_t) config->max_seqs * SLUICE_CPU_MAX_PIECES * SLUICE_CPU_PIECE_QUERIES *
                      (size_t) (l->max_head_dim + 2) * sizeof(float);
    l->hidden = (size_t) n_rows * (size_t) ((l->max_hidden + 255) & ~(int64_t) 255) * sizeof(float);
    l->routes =
        config->n_experts_used > 0 ? sluice_cpu_route_bytes(n_rows, config->n_experts_used) : 0;
    l->thread = thread_bytes(config, l);
    l->scratch = l->q8_slot * SLUICE_CPU_Q8_SLOTS + l->rope_table * SLUICE_CPU_ROPE_TABLES +
                 ((l->partials + ALIGNMENT - 1) & ~(size_t) (ALIGNMENT - 1)) +
                 l->thread * (size_t) n_threads;
}

/* The one place where sizes are computed. The arrays are the caller's, of the right lengths. */
static gboolean
lay_out(const SluiceBackendConfig *config, int n_threads, SluiceCpuLayout *l,
        SluiceCpuKvPool *kv_pools, SluiceCpuStatePool *state_pools, GError **error)
{
    if (config->max_rows < 1 || config->max_out < 1 || config->max_seqs < 1 || config->n_acts < 1 ||
        config->max_hidden < 0 || config->n_experts_used < 0 ||
        config->n_experts_used > SLUICE_MAX_EXPERTS_USED) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "a batch of %d rows, %d outputs and %d sequences, expected 1 or more, and %d "
                    "experts for each row, expected at most %d",
                    config->max_rows, config->max_out, config->max_seqs, config->n_experts_used,
                    SLUICE_MAX_EXPERTS_USED);
        return FALSE;
    }
    if (!lay_out_acts(config, l, error) || !lay_out_kv(config, kv_pools, &l->kv, error) ||
        !lay_out_state(config, state_pools, &l->state, error))
        return FALSE;
    lay_out_scratch(config, n_threads, l);
    return TRUE;
}

static void
clear_layout(SluiceCpuLayout *l)
{
    g_clear_pointer(&l->act_offsets, g_free);
    g_clear_pointer(&l->act_strides, g_free);
}

static void
init_layout(SluiceCpuLayout *l, const SluiceBackendConfig *config, const SluiceCpuOptions *options)
{
    memset(l, 0, sizeof *l);
    l->has_float_matrices = options->has_float_matrices;
    l->act_offsets = g_new0(size_t, MAX(1, config->n_acts));
    l->act_strides = g_new0(int64_t, MAX(1, config->n_acts));
}

static gboolean
count_threads(const SluiceCpuOptions *options, SluiceCpuPlacement *placement, int *n_threads,
              int *n_threads_batch, GError **error)
{
    if (options->n_threads > SLUICE_CPU_TEAM_MAX ||
        options->n_threads_batch > SLUICE_CPU_TEAM_MAX) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "%d threads are wanted, at most %d are supported",
                    MAX(options->n_threads, options->n_threads_batch), SLUICE_CPU_TEAM_MAX);
        return FALSE;
    }
    if (!sluice_cpu_placement_init_host(placement, error))
        return FALSE;
    *n_threads = options->n_threads > 0 ? options->n_threads : placement->n_default;
    *n_threads_batch = options->n_threads_batch > 0 ? options->n_threads_batch : *n_threads;
    return TRUE;
}

/**
 * sluice_cpu_memory:
 * @config: what the executor shall hold
 * @options: threads count: each has scratch memory of its own
 * @memory: (out): bytes by use
 * @error: return location, or %NULL
 *
 * Computes what sluice_cpu_backend_new() will allocate for the same arguments.
 *
 * Returns: %FALSE with %SLUICE_ERROR_MODEL, %SLUICE_ERROR_ARGUMENT or %SLUICE_ERROR_MEMORY if
 *   @config cannot be held
 * Since: 0.1
 */
gboolean
sluice_cpu_memory(const SluiceBackendConfig *config, const SluiceCpuOptions *options,
                  SluiceCpuMemory *memory, GError **error)
{
    g_autofree SluiceCpuKvPool *kv_pools = g_new0(SluiceCpuKvPool, MAX(1, config->n_kv_groups));
    g_autofree SluiceCpuStatePool *state_pools =
        g_new0(SluiceCpuStatePool, MAX(1, config->n_state_groups));
    g_auto(SluiceCpuPlacement) placement = {0};
    SluiceCpuLayout l;
    int n_threads, n_threads_batch;
    gboolean is_ok;

    if (!count_threads(options, &placement, &n_threads, &n_threads_batch, error))
        return FALSE;
    init_layout(&l, config, options);
    is_ok = lay_out(config, MAX(n_threads, n_threads_batch), &l, kv_pools, state_pools, error);
    clear_layout(&l);
    if (!is_ok)
        return FALSE;
    memory->activations = l.activations;
    memory->kv = l.kv;
    memory->state = l.state;
    memory->scratch = l.scratch + l.hidden + l.routes + sluice_cpu_program_bytes(config) +
                      l.thread_blas * (size_t) MAX(n_threads, n_threads_batch);
    return TRUE;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Pages from the system, zero until written. */
bool
sluice_cpu_region_map(SluiceCpuRegion *region, size_t n_bytes)
{
    void *data;

    region->data = NULL;
    region->n_bytes = 0;
    if (n_bytes == 0)
        return true;
    data = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return false;
#ifdef MADV_HUGEPAGE
    /* A wish: where the system has none to give, small pages work as well. */
    if (n_bytes >= HUGE_BYTES)
        (void) madvise(data, n_bytes, MADV_HUGEPAGE);
#endif
    region->data = data;
    region->n_bytes = n_bytes;
    return true;
}

void
sluice_cpu_region_unmap(SluiceCpuRegion *region)
{
    if (region->data != NULL)
        munmap(region->data, region->n_bytes);
    region->data = NULL;
    region->n_bytes = 0;
}

static gpointer
populate_main(gpointer data)
{
    const SluiceCpuRegion *part = data;

    /* A system that does not know the wish gives pages as they are touched. */
    return GINT_TO_POINTER(madvise(part->data, part->n_bytes, MADV_POPULATE_WRITE) != 0 &&
                           errno == ENOMEM);
}

/*
 * Takes the pages now: what was counted is then ours before the first token, and none of them is
 * cleared in the middle of one. Two threads, because clearing is bound by one processor. False:
 * there is no memory.
 */
static bool
populate(const SluiceCpuRegion *region)
{
    size_t n_first = region->n_bytes / 2 / HUGE_BYTES * HUGE_BYTES;
    SluiceCpuRegion first = {region->data, n_first};
    SluiceCpuRegion second = {(uint8_t *) region->data + n_first, region->n_bytes - n_first};
    GThread *thread =
        n_first > 0 ? g_thread_try_new("sluice-pages", populate_main, &first, NULL) : NULL;
    bool has_failed = region->n_bytes > 0 && GPOINTER_TO_INT(populate_main(&second)) != 0;

    if (thread != NULL)
        has_failed |= GPOINTER_TO_INT(g_thread_join(thread)) != 0;
    return !has_failed;
}

static gboolean
map_region(SluiceCpuRegion *region, size_t n_bytes, const char *what, GError **error)
{
    if (sluice_cpu_region_map(region, n_bytes) && populate(region))
        return TRUE;
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY, "no memory for %s: %zu bytes", what,
                n_bytes);
    return FALSE;
}

/*
 * Makes a region at least so large; only `hidden` and `routes`, whose contents last from one
 * stage to the next. The old memory stays until sync, for the stages that have its address.
 */
bool
sluice_cpu_backend_reserve(SluiceCpuBackend *b, SluiceCpuRegion *region, size_t n_bytes)
{
    SluiceCpuRegion larger;

    if (region->n_bytes >= n_bytes)
        return true;
    if (!sluice_cpu_region_map(&larger, n_bytes)) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_MEMORY,
                                "no memory for the hidden layer: %zu bytes", n_bytes);
        return false;
    }
    g_array_append_val(b->outgrown, *region);
    *region = larger;
    return true;
}

static void
free_outgrown(SluiceCpuBackend *b)
{
    for (guint i = 0; i < b->outgrown->len; i++)
        sluice_cpu_region_unmap(&g_array_index(b->outgrown, SluiceCpuRegion, i));
    g_array_set_size(b->outgrown, 0);
}

static void
place_scratch(SluiceCpuBackend *b)
{
    const SluiceCpuLayout *l = &b->layout;
    uint8_t *p = b->scratch.data;

    for (int i = 0; i < SLUICE_CPU_Q8_SLOTS; i++, p += l->q8_slot)
        b->q8_slots[i].memory = p;
    for (int i = 0; i < SLUICE_CPU_ROPE_TABLES; i++, p += l->rope_table) {
        SluiceCpuRopeTable *table = &b->rope_tables[i];
        int64_t n_rows = MAX(b->config.max_rows, b->config.max_out);
        table->frequencies = (double *) p;
        table->cosines = (float *) (p + SLUICE_CPU_MAX_HEAD_DIM / 2 * sizeof(double));
        table->sines = table->cosines + n_rows * (SLUICE_CPU_MAX_HEAD_DIM / 2);
    }
    b->partials = p;
    p += (l->partials + ALIGNMENT - 1) & ~(size_t) (ALIGNMENT - 1);
    b->thread_scratch = p;
}

/* ---- the way in and out --------------------------------------------------------------------- */

/* Keeps the first failure. */
void
sluice_cpu_backend_fail(SluiceCpuBackend *b, SluiceStatus status, const char *format, ...)
{
    va_list args;

    if (b->status != SLUICE_STATUS_OK)
        return;
    b->status = status;
    va_start(args, format);
    g_vsnprintf(b->failure, sizeof b->failure, format, args);
    va_end(args);
}

/* Resolves a weight, or fails and returns false. */
bool
sluice_cpu_backend_view(SluiceCpuBackend *b, SluiceOpTag tag, SluiceWeight weight, SluiceAxis axis,
                        SluicePart part, SluiceWeightView *view)
{
    if (b->residency->view(b->residency, weight, axis, part, view))
        return true;
    sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                            "weight %u of layer %d, part %d to %d, is in no memory that the "
                            "processor reads",
                            weight, tag.layer, part.begin, part.end);
    return false;
}

/* Values [begin, begin + n) of a float32 vector; NULL for weight 0, or after a failure. */
const float *
sluice_cpu_backend_vector(SluiceCpuBackend *b, SluiceOpTag tag, SluiceWeight weight, int64_t begin,
                          int64_t n)
{
    const SluicePart whole = {0, 0};
    SluiceWeightView view;

    if (weight == 0 || !sluice_cpu_backend_view(b, tag, weight, SLUICE_AXIS_ROWS, whole, &view))
        return NULL;
    if (view.dtype != SLUICE_DTYPE_F32 || view.n_cols < begin + n) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "weight %u of layer %d has type %d and %" G_GINT64_FORMAT
                                " values, expected F32 and %" G_GINT64_FORMAT,
                                weight, tag.layer, (int) view.dtype, view.n_cols, begin + n);
        return NULL;
    }
    return (const float *) view.data + begin;
}

static SluiceStep
begin_step(SluiceBackend *base, const SluiceStepKey *key, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;

    /* Recording costs less than comparing what a recording depends on: positions decide how
     * attention is cut. */
    b->cancel = batch->cancel;
#ifdef SLUICE_DEBUG
    if (b->n_stages == 0)
        memset(b->activations.data, 0xff, b->activations.n_bytes);
#endif
    return SLUICE_STEP_RECORD;
}

static void
end_step(SluiceBackend *base)
{
    /* What was enqueued runs at sync, together with the reads that follow. */
}

static SluiceStatus
sync_backend(SluiceBackend *base, char *text, size_t n_text)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    SluiceStatus status;

    sluice_cpu_program_run(b);
    sluice_cpu_program_reset(b);
    free_outgrown(b);
    status = b->status;
    if (status != SLUICE_STATUS_OK && text != NULL && n_text > 0)
        g_strlcpy(text, b->failure, n_text);
    b->status = SLUICE_STATUS_OK;
    return status;
}

static size_t
page_bytes(SluiceBackend *base, int32_t table)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    size_t total = 0;

    for (int32_t i = 0; i < b->config.n_kv_groups; i++) {
        if (b->kv_pools[i].group.table == table)
            total += b->kv_pools[i].page_bytes;
    }
    return total;
}

static size_t
slot_bytes(SluiceBackend *base)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    size_t total = 0;

    for (int32_t i = 0; i < b->config.n_state_groups; i++)
        total += b->state_pools[i].slot_floats * sizeof(float);
    return total;
}

/* ---- flags ---------------------------------------------------------------------------------- */

typedef struct {
    SluiceFlag *flag;
    uint32_t value;
} FlagArgs;

static void
run_post(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const FlagArgs *args = stage->args;

    __atomic_store_n(&args->flag->value, args->value, __ATOMIC_RELEASE);
}

static void
run_wait(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const FlagArgs *args = stage->args;
    unsigned n_pauses = 0;

    while ((int32_t) (__atomic_load_n(&args->flag->value, __ATOMIC_ACQUIRE) - args->value) < 0) {
        if (b->cancel != NULL && __atomic_load_n(b->cancel, __ATOMIC_RELAXED) != 0)
            return;
        sluice_cpu_team_pause(&n_pauses);
    }
}

static void
add_flag_stage(SluiceCpuBackend *b, SluiceCpuStageFn run, SluiceFlag *flag, uint32_t value)
{
    FlagArgs *args = sluice_cpu_program_alloc(b, sizeof *args);
    SluiceCpuStage stage = sluice_cpu_stage(run, args, NULL, 1, true);

    *args = (FlagArgs){flag, value};
    stage.is_fence = true;
    sluice_cpu_program_add(b, &stage);
}

static void
stream_post(SluiceBackend *base, SluiceFlag *flag, uint32_t value)
{
    add_flag_stage((SluiceCpuBackend *) base, run_post, flag, value);
}

static void
stream_wait(SluiceBackend *base, SluiceFlag *flag, uint32_t value)
{
    add_flag_stage((SluiceCpuBackend *) base, run_wait, flag, value);
}

/* ---- what is supported ---------------------------------------------------------------------- */

static const char *
supports(SluiceBackend *base, SluiceOpKind kind, const void *any)
{
    switch (kind) {
    case SLUICE_OP_ROPE: {
        const SluiceRopeArgs *a = any;
        if (a->rope.n_rot > SLUICE_CPU_MAX_HEAD_DIM || a->rope.n_rot > a->x.dim ||
            a->rope.n_rot % 2 != 0)
            return "rotated values must be even in number and at most the head's";
        return NULL;
    }
    case SLUICE_OP_ATTENTION: {
        const SluiceAttentionArgs *a = any;
        if (a->q.dim > SLUICE_CPU_MAX_HEAD_DIM || a->v.dim > SLUICE_CPU_MAX_HEAD_DIM)
            return "heads have at most 512 values";
        if (a->k.n_head == 0 || a->q.n_head % a->k.n_head != 0)
            return "query heads must be a multiple of key heads";
        return NULL;
    }
    case SLUICE_OP_GATE: {
        const SluiceGateArgs *a = any;
        return a->activation == SLUICE_ACTIVATION_SWIGLU_OAI ? "a gate takes silu, gelu or sigmoid"
                                                             : NULL;
    }
    case SLUICE_OP_MOE_ROUTE: {
        const SluiceMoeRouteArgs *a = any;
        if (a->n_expert > SLUICE_MAX_EXPERTS || a->n_used > SLUICE_MAX_EXPERTS_USED ||
            a->n_used > a->n_expert)
            return "at most 512 experts, of which 64 are used";
        return NULL;
    }
    default:
        return NULL;
    }
}

static void destroy(SluiceBackend *base);

static const SluiceBackendOps cpu_ops = {
    .name = "cpu",
    .step_begin = begin_step,
    .step_end = end_step,
    .sync = sync_backend,
    .supports = supports,
    .destroy = destroy,
    .embed = sluice_cpu_op_embed,
    .rms_norm = sluice_cpu_op_rms_norm,
    .add = sluice_cpu_op_add,
    .scale = sluice_cpu_op_scale,
    .soft_cap = sluice_cpu_op_soft_cap,
    .rope = sluice_cpu_op_rope,
    .gate = sluice_cpu_op_gate,
    .select_rows = sluice_cpu_op_select_rows,
    .matmul = sluice_cpu_op_matmul,
    .attention = sluice_cpu_op_attention,
    .ffn = sluice_cpu_op_ffn,
    .moe_route = sluice_cpu_op_moe_route,
    .moe_experts = sluice_cpu_op_moe_experts,
    .short_conv = sluice_cpu_op_short_conv,
    .delta_rule = sluice_cpu_op_delta_rule,
    .top_k = sluice_cpu_op_top_k,
    .state_copy = sluice_cpu_op_state_copy,
    .read = sluice_cpu_op_read,
    .stream_post = stream_post,
    .stream_wait = stream_wait,
    .page_bytes = page_bytes,
    .slot_bytes = slot_bytes,
};

/* ---- life ----------------------------------------------------------------------------------- */

static void
destroy(SluiceBackend *base)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;

    sluice_cpu_team_free(b->team);
    sluice_cpu_placement_clear(&b->placement);
    sluice_cpu_program_clear(b);
    if (b->outgrown != NULL)
        free_outgrown(b);
    g_clear_pointer(&b->outgrown, g_array_unref);
    sluice_cpu_region_unmap(&b->activations);
    sluice_cpu_region_unmap(&b->kv);
    sluice_cpu_region_unmap(&b->state);
    sluice_cpu_region_unmap(&b->scratch);
    sluice_cpu_region_unmap(&b->hidden);
    sluice_cpu_region_unmap(&b->routes);
    clear_layout(&b->layout);
    g_free(b->kv_pools);
    g_free(b->state_pools);
    g_free(b->act_versions);
    g_free((void *) b->config.acts);
    g_free((void *) b->config.kv_groups);
    g_free((void *) b->config.kv_tables);
    g_free((void *) b->config.state_groups);
    free(b);
}

static void
copy_config(SluiceCpuBackend *b, const SluiceBackendConfig *config)
{
    SluiceBackendConfig *c = &b->config;

    *c = *config;
    c->acts = g_memdup2(config->acts, (gsize) config->n_acts * sizeof *config->acts);
    c->kv_groups =
        g_memdup2(config->kv_groups, (gsize) config->n_kv_groups * sizeof *config->kv_groups);
    c->kv_tables =
        g_memdup2(config->kv_tables, (gsize) config->n_kv_tables * sizeof *config->kv_tables);
    c->state_groups = g_memdup2(config->state_groups,
                                (gsize) config->n_state_groups * sizeof *config->state_groups);
}

/* The first pool of each layer. */
static void
index_layers(SluiceCpuBackend *b)
{
    for (int i = 0; i < SLUICE_MAX_LAYERS; i++)
        b->layer_pools[i] = -1;
    for (int32_t i = b->config.n_kv_groups - 1; i >= 0; i--) {
        int32_t layer = b->kv_pools[i].group.layer;
        if (layer >= 0 && layer < SLUICE_MAX_LAYERS)
            b->layer_pools[layer] = i;
    }
}

/* Takes OpenBLAS, or says once why our own product serves. */
void
sluice_cpu_backend_adopt_blas(SluiceCpuBackend *b, const SluiceCpuBlas *blas)
{
    b->blas_name = blas->name;
    b->blas_reason = blas->reason;
    if (blas->sgemm != NULL && b->n_threads_batch > SLUICE_CPU_BLAS_MAX_THREADS)
        b->blas_reason = "more threads call it than it has work areas";
    else if (blas->sgemm != NULL && !sluice_cpu_blas_is_right(blas->sgemm, &b->kernels))
        b->blas_reason = "its products differ from ours";
    b->has_blas = b->blas_reason == NULL;
    b->kernels.sgemm = b->has_blas ? blas->sgemm : NULL;
    if (!b->has_blas)
        g_info("OpenBLAS is not used for prompts: %s; our own product serves", b->blas_reason);
}

static void
init_blas(SluiceCpuBackend *b, const SluiceCpuOptions *options)
{
    b->blas_reason = "no float matrices";
#ifdef HAVE_X86
    /* Who asks for the reference wants the definition, and nothing of others. */
    if (b->kernels.features == 0) {
        b->blas_reason = "the reference was asked for";
        return;
    }
#endif
    if (options->has_float_matrices)
        sluice_cpu_backend_adopt_blas(b, sluice_cpu_blas());
}

static gboolean
init_backend(SluiceCpuBackend *b, const SluiceBackendConfig *config,
             const SluiceCpuOptions *options, GError **error)
{
    int n_threads;

    if (!count_threads(options, &b->placement, &b->n_threads, &b->n_threads_batch, error))
        return FALSE;
    n_threads = MAX(b->n_threads, b->n_threads_batch);
    b->is_pinned = options->pin_threads && n_threads <= b->placement.n_cpus;
    b->residency = options->residency;
    copy_config(b, config);
    b->kv_pools = g_new0(SluiceCpuKvPool, MAX(1, config->n_kv_groups));
    b->state_pools = g_new0(SluiceCpuStatePool, MAX(1, config->n_state_groups));
    b->act_versions = g_new0(uint32_t, MAX(1, config->n_acts));
    init_layout(&b->layout, config, options);
    if (!lay_out(&b->config, n_threads, &b->layout, b->kv_pools, b->state_pools, error))
        return FALSE;
    if (!map_region(&b->activations, b->layout.activations, "activations", error) ||
        !map_region(&b->kv, b->layout.kv, "keys and values", error) ||
        !map_region(&b->state, b->layout.state, "recurrent state", error) ||
        !map_region(&b->scratch, b->layout.scratch, "scratch", error) ||
        !map_region(&b->hidden, b->layout.hidden, "the hidden layer", error) ||
        !map_region(&b->routes, b->layout.routes, "the rows of experts", error))
        return FALSE;
    place_scratch(b);
    index_layers(b);
    sluice_cpu_program_init(b);
    sluice_cpu_program_reset(b);
    init_blas(b, options);
    b->team = sluice_cpu_team_new(&b->placement, n_threads, options->pin_threads, error);
    return b->team != NULL;
}

/* As sluice_cpu_backend_new(), with the levels given: for tests. */
SluiceBackend *
sluice_cpu_backend_new_with_features(const SluiceBackendConfig *config,
                                     const SluiceCpuOptions *options, SluiceCpuFeatures features,
                                     GError **error)
{
    SluiceCpuBackend *b;
    void *memory = NULL;

    if (posix_memalign(&memory, 128, sizeof *b) != 0) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY, "no memory: %zu bytes", sizeof *b);
        return NULL;
    }
    b = memory;
    memset(b, 0, sizeof *b);
    b->base.ops = &cpu_ops;
    b->outgrown = g_array_new(FALSE, FALSE, sizeof(SluiceCpuRegion));
    sluice_cpu_kernels_init(&b->kernels, features);
    if (!init_backend(b, config, options, error)) {
        destroy(&b->base);
        return NULL;
    }
    return &b->base;
}

/**
 * sluice_cpu_backend_new:
 * @config: what to hold; borrowed for the call
 * @options: threads, and where weights are; the residency must outlive the backend
 * @error: return location, or %NULL
 *
 * Makes the executor that computes on the processor. All memory that it will need is allocated
 * here; sluice_cpu_memory() says how much.
 *
 * Returns: (transfer full): the backend, or %NULL with %SLUICE_ERROR_MEMORY,
 *   %SLUICE_ERROR_ARGUMENT, %SLUICE_ERROR_MODEL or %SLUICE_ERROR_DEVICE
 * Since: 0.1
 */
SluiceBackend *
sluice_cpu_backend_new(const SluiceBackendConfig *config, const SluiceCpuOptions *options,
                       GError **error)
{
    return sluice_cpu_backend_new_with_features(config, options, sluice_cpu_features(), error);
}

/**
 * sluice_cpu_backend_n_threads:
 * @backend: a CPU executor
 *
 * Returns: the threads of a step of one row, the caller's included
 * Since: 0.1
 */
int
sluice_cpu_backend_n_threads(SluiceBackend *backend)
{
    return ((SluiceCpuBackend *) backend)->n_threads;
}

static char *
processor_name(void)
{
    g_autofree char *text = NULL;
    char *line;

    if (!g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL))
        return g_strdup("processor");
    line = strstr(text, "model name");
    line = line != NULL ? strchr(line, ':') : NULL;
    if (line == NULL)
        return g_strdup("processor");
    line++;
    line[strcspn(line, "\n")] = '\0';
    return g_strdup(g_strstrip(line));
}

/**
 * sluice_cpu_backend_describe:
 * @backend: a CPU executor
 *
 * Returns: (transfer full): one line: processor, level, threads and where they are
 * Since: 0.1
 */
char *
sluice_cpu_backend_describe(SluiceBackend *backend)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) backend;
    g_autofree char *name = processor_name();
    GString *text = g_string_new(name);
    int n_threads = MAX(b->n_threads, b->n_threads_batch);

    g_string_append_printf(text, ", %s, %d thread%s", sluice_cpu_features_name(b->kernels.features),
                           b->n_threads, b->n_threads == 1 ? "" : "s");
    if (b->n_threads_batch != b->n_threads)
        g_string_append_printf(text, " (%d for prompts)", b->n_threads_batch);
    if (b->is_pinned) {
        g_string_append(text, " on processors");
        for (int i = 0; i < n_threads; i++)
            g_string_append_printf(text, "%s%u", i > 0 ? "," : " ", b->placement.cpus[i]);
    } else {
        g_string_append(text, " not bound");
    }
    g_string_append_printf(text, " of %d usable", b->placement.n_cpus);
    if (b->placement.quota > 0)
        g_string_append_printf(text, ", quota %.1f", b->placement.quota);
    if (b->has_blas)
        g_string_append_printf(text, ", %s", b->blas_name);
    else
        g_string_append_printf(text, ", no OpenBLAS (%s)", b->blas_reason);
    return g_string_free(text, FALSE);
}
