/* SPDX-License-Identifier: MIT */
/* The operations that work value by value or row by row, and what comes back to the host. */
#include "config.h"

#include "cpu/backend-private.h"

#include <math.h>
#include <string.h>

/* A stage over the rows of an operation: serial where that is quicker. */
static SluiceCpuStage
row_stage(SluiceCpuStageFn run, const void *args, const SluiceBatch *batch, SluiceOpTag tag,
          int64_t width)
{
    int64_t n_rows = sluice_cpu_n_rows(batch, tag.rows);

    return sluice_cpu_stage(run, args, batch, n_rows, sluice_cpu_is_small(n_rows, width));
}

/* ---- embed ---------------------------------------------------------------------------------- */

typedef struct {
    SluiceEmbedArgs a;
    SluiceWeightView table;
} EmbedArgs;

static void
run_embed(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const EmbedArgs *e = stage->args;

    for (int64_t t = begin; t < end; t++) {
        const uint8_t *row = (const uint8_t *) e->table.data +
                             (size_t) stage->batch->tokens[t] * e->table.row_stride;
        float *y = sluice_cpu_act_row(b, e->a.y, t);
        sluice_cpu_dequantise(e->table.dtype, row, y, e->a.y.dim);
        if (e->a.factor != 1.0f)
            b->kernels.scale(y, y, e->a.factor, e->a.y.dim);
    }
}

void
sluice_cpu_op_embed(SluiceBackend *base, const SluiceEmbedArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    EmbedArgs *e = sluice_cpu_program_alloc(b, sizeof *e);
    const SluicePart whole = {0, 0};
    SluiceCpuStage stage;

    e->a = *a;
    if (!sluice_cpu_backend_view(b, a->tag, a->table, SLUICE_AXIS_ROWS, whole, &e->table))
        return;
    if (e->table.n_cols != a->y.dim) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "embedding rows have %" G_GINT64_FORMAT " values, expected %d",
                                e->table.n_cols, a->y.dim);
        return;
    }
    for (int32_t t = 0; t < batch->n_rows; t++) {
        if (batch->tokens[t] < 0 || batch->tokens[t] >= e->table.n_rows) {
            sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                    "token %d, expected less than %" G_GINT64_FORMAT,
                                    batch->tokens[t], e->table.n_rows);
            return;
        }
    }
    /* Unpacking is slower than copying: a row is shared out sooner than other rows are. */
    stage = sluice_cpu_stage(run_embed, e, batch, batch->n_rows, batch->n_rows == 1);
    sluice_cpu_stage_act(&stage, a->y, true);
    sluice_cpu_program_add(b, &stage);
}

/* ---- rms_norm ------------------------------------------------------------------------------- */

typedef struct {
    SluiceRmsNormArgs a;
    const float *weight;
} NormArgs;

static void
run_rms_norm(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end,
             int member)
{
    const NormArgs *n = stage->args;
    const SluiceRmsNormArgs *a = &n->a;

    for (int64_t t = begin; t < end; t++) {
        const float *x = sluice_cpu_act_row(b, a->x, t);
        float *y = sluice_cpu_act_row(b, a->y, t);
        for (int h = 0; h < a->x.n_head; h++) {
            const float *s = x + (int64_t) h * a->x.stride;
            float *out = y + (int64_t) h * a->y.stride;
            if (a->residual.n_head != 0) {
                float *sum = a->sum.n_head != 0
                                 ? sluice_cpu_act_row(b, a->sum, t) + (int64_t) h * a->sum.stride
                                 : out;
                b->kernels.add(sum, s,
                               sluice_cpu_act_row(b, a->residual, t) +
                                   (int64_t) h * a->residual.stride,
                               a->x.dim);
                s = sum;
            } else if (a->sum.n_head != 0) {
                memmove(sluice_cpu_act_row(b, a->sum, t) + (int64_t) h * a->sum.stride, s,
                        (size_t) a->x.dim * sizeof *s);
            }
            b->kernels.rms_norm(out, s, n->weight, a->x.dim, a->eps);
        }
    }
}

void
sluice_cpu_op_rms_norm(SluiceBackend *base, const SluiceRmsNormArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    NormArgs *n = sluice_cpu_program_alloc(b, sizeof *n);
    SluiceCpuStage stage;

    n->a = *a;
    n->weight = sluice_cpu_backend_vector(b, a->tag, a->weight, 0, a->x.dim);
    stage = row_stage(run_rms_norm, n, batch, a->tag, sluice_cpu_act_width(a->x));
    sluice_cpu_stage_act(&stage, a->x, false);
    if (a->residual.n_head != 0)
        sluice_cpu_stage_act(&stage, a->residual, false);
    if (a->sum.n_head != 0)
        sluice_cpu_stage_act(&stage, a->sum, true);
    sluice_cpu_stage_act(&stage, a->y, true);
    sluice_cpu_program_add(b, &stage);
}

/* ---- add, scale, soft_cap ------------------------------------------------------------------- */

static void
run_add(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const SluiceAddArgs *a = stage->args;

    for (int64_t t = begin; t < end; t++) {
        for (int h = 0; h < a->y.n_head; h++)
            b->kernels.add(sluice_cpu_act_row(b, a->y, t) + (int64_t) h * a->y.stride,
                           sluice_cpu_act_row(b, a->a, t) + (int64_t) h * a->a.stride,
                           sluice_cpu_act_row(b, a->b, t) + (int64_t) h * a->b.stride, a->y.dim);
    }
}

void
sluice_cpu_op_add(SluiceBackend *base, const SluiceAddArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    SluiceAddArgs *copy = sluice_cpu_program_alloc(b, sizeof *copy);
    SluiceCpuStage stage = row_stage(run_add, copy, batch, a->tag, sluice_cpu_act_width(a->y));

    *copy = *a;
    sluice_cpu_stage_act(&stage, a->a, false);
    sluice_cpu_stage_act(&stage, a->b, false);
    sluice_cpu_stage_act(&stage, a->y, true);
    sluice_cpu_program_add(b, &stage);
}

static void
run_scale(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const SluiceScaleArgs *a = stage->args;

    for (int64_t t = begin; t < end; t++) {
        for (int h = 0; h < a->y.n_head; h++)
            b->kernels.scale(sluice_cpu_act_row(b, a->y, t) + (int64_t) h * a->y.stride,
                             sluice_cpu_act_row(b, a->x, t) + (int64_t) h * a->x.stride, a->factor,
                             a->y.dim);
    }
}

void
sluice_cpu_op_scale(SluiceBackend *base, const SluiceScaleArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    SluiceScaleArgs *copy = sluice_cpu_program_alloc(b, sizeof *copy);
    SluiceCpuStage stage = row_stage(run_scale, copy, batch, a->tag, sluice_cpu_act_width(a->y));

    *copy = *a;
    sluice_cpu_stage_act(&stage, a->x, false);
    sluice_cpu_stage_act(&stage, a->y, true);
    sluice_cpu_program_add(b, &stage);
}

/* A hyperbolic tangent is dear and rows of logits are long: units are pieces of rows. */
enum { SOFT_CAP_COLS = 8192 };

static int64_t
n_soft_cap_pieces(const SluiceSoftCapArgs *a)
{
    return (a->y.dim + SOFT_CAP_COLS - 1) / SOFT_CAP_COLS;
}

static void
run_soft_cap(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end,
             int member)
{
    const SluiceSoftCapArgs *a = stage->args;
    int64_t n_pieces = n_soft_cap_pieces(a);

    for (int64_t u = begin; u < end; u++) {
        int64_t t = u / n_pieces;
        int64_t col = u % n_pieces * SOFT_CAP_COLS;
        int64_t n = MIN(SOFT_CAP_COLS, a->y.dim - col);
        for (int h = 0; h < a->y.n_head; h++)
            b->kernels.soft_cap(sluice_cpu_act_row(b, a->y, t) + (int64_t) h * a->y.stride + col,
                                sluice_cpu_act_row(b, a->x, t) + (int64_t) h * a->x.stride + col,
                                a->cap, n);
    }
}

void
sluice_cpu_op_soft_cap(SluiceBackend *base, const SluiceSoftCapArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    SluiceSoftCapArgs *copy = sluice_cpu_program_alloc(b, sizeof *copy);
    int64_t n_rows = sluice_cpu_n_rows(batch, a->tag.rows);
    SluiceCpuStage stage = sluice_cpu_stage(
        run_soft_cap, copy, batch, n_rows * n_soft_cap_pieces(a), n_rows * a->y.dim <= 4096);

    *copy = *a;
    sluice_cpu_stage_act(&stage, a->x, false);
    sluice_cpu_stage_act(&stage, a->y, true);
    sluice_cpu_program_add(b, &stage);
}

/* ---- rope ----------------------------------------------------------------------------------- */

typedef struct {
    SluiceAct x;
    bool is_neox;
    const SluiceCpuRopeTable *table;
} RopeArgs;

static uint32_t
rope_resource(const SluiceCpuBackend *b, const SluiceCpuRopeTable *table)
{
    return SLUICE_CPU_RES_ROPE + (uint32_t) (table - b->rope_tables);
}

static void
run_rope_table(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end,
               int member)
{
    const SluiceCpuRopeTable *table = stage->args;
    int64_t n = table->rope.n_rot / 2;
    double magnitude = (double) table->rope.magnitude;

    for (int64_t t = begin; t < end; t++) {
        int64_t row = table->rows == SLUICE_ROWS_OUT ? stage->batch->out_rows[t] : t;
        double position = (double) stage->batch->positions[row];
        for (int64_t i = 0; i < n; i++) {
            double angle = position * table->frequencies[i];
            table->cosines[t * n + i] = (float) (cos(angle) * magnitude);
            table->sines[t * n + i] = (float) (sin(angle) * magnitude);
        }
    }
}

static void
run_rope(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const RopeArgs *r = stage->args;
    int64_t n = r->table->rope.n_rot / 2;
    SluiceCpuRopeFn rotate = r->is_neox ? b->kernels.rope_neox : b->kernels.rope_norm;

    for (int64_t t = begin; t < end; t++) {
        float *x = sluice_cpu_act_row(b, r->x, t);
        for (int h = 0; h < r->x.n_head; h++)
            rotate(x + (int64_t) h * r->x.stride, r->table->cosines + t * n,
                   r->table->sines + t * n, n);
    }
}

/* Whether the angles are the same; how values are paired does not matter to them. */
static bool
ropes_are_equal(const SluiceRope *a, const SluiceRope *b)
{
    return a->n_rot == b->n_rot && a->base == b->base && a->freq_scale == b->freq_scale &&
           a->ext_factor == b->ext_factor && a->corr_low == b->corr_low &&
           a->corr_high == b->corr_high && a->magnitude == b->magnitude && a->factors == b->factors;
}

static void
compute_frequencies(SluiceCpuRopeTable *table, const float *factors)
{
    const SluiceRope *r = &table->rope;
    double span = fmax(0.001, (double) r->corr_high - (double) r->corr_low);

    for (int i = 0; i < r->n_rot / 2; i++) {
        double extrapolated = pow((double) r->base, -2.0 * i / r->n_rot);
        double interpolated;
        double ramp;
        if (factors != NULL)
            extrapolated /= (double) factors[i];
        interpolated = (double) r->freq_scale * extrapolated;
        ramp = 1.0 - CLAMP((i - (double) r->corr_low) / span, 0.0, 1.0);
        ramp *= (double) r->ext_factor;
        table->frequencies[i] = interpolated * (1.0 - ramp) + extrapolated * ramp;
    }
}

/* The table with these parameters, else one that this program has no use for yet, else NULL. */
static SluiceCpuRopeTable *
choose_rope_table(SluiceCpuBackend *b, const SluiceRopeArgs *a)
{
    SluiceCpuRopeTable *free_table = NULL;

    for (int i = 0; i < SLUICE_CPU_ROPE_TABLES; i++) {
        SluiceCpuRopeTable *t = &b->rope_tables[i];
        if (t->has_frequencies && t->rows == a->tag.rows && ropes_are_equal(&t->rope, &a->rope))
            return t;
        if (!t->is_current && (free_table == NULL || !t->has_frequencies))
            free_table = t;
    }
    if (free_table != NULL)
        free_table->has_frequencies = false;
    return free_table;
}

/* The table of these parameters; the stage that computes it is enqueued where need be. */
static const SluiceCpuRopeTable *
find_rope_table(SluiceCpuBackend *b, const SluiceRopeArgs *a, const SluiceBatch *batch)
{
    SluiceCpuRopeTable *table = choose_rope_table(b, a);
    int64_t n_rows = sluice_cpu_n_rows(batch, a->tag.rows);
    const float *factors;
    SluiceCpuStage stage;

    if (table == NULL) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED, "a step rotates in more than %d ways",
                                SLUICE_CPU_ROPE_TABLES);
        return NULL;
    }
    if (table->is_current)
        return table;
    factors = sluice_cpu_backend_vector(b, a->tag, a->rope.factors, 0, a->rope.n_rot / 2);
    if (!table->has_frequencies || table->factors != factors) {
        table->rope = a->rope;
        table->rows = a->tag.rows;
        table->factors = factors;
        compute_frequencies(table, factors);
        table->has_frequencies = true;
    }
    table->is_current = true;
    stage = sluice_cpu_stage(run_rope_table, table, batch, n_rows, n_rows <= 4);
    sluice_cpu_stage_access(&stage, rope_resource(b, table), true);
    sluice_cpu_program_add(b, &stage);
    return table;
}

void
sluice_cpu_op_rope(SluiceBackend *base, const SluiceRopeArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    RopeArgs *r = sluice_cpu_program_alloc(b, sizeof *r);
    SluiceCpuStage stage;

    if (a->rope.n_rot < 2 || a->rope.n_rot % 2 != 0 || a->rope.n_rot > a->x.dim ||
        a->rope.n_rot > SLUICE_CPU_MAX_HEAD_DIM) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "%d of %d values are to be rotated, expected an even number up to "
                                "%d",
                                a->rope.n_rot, a->x.dim, MIN(a->x.dim, SLUICE_CPU_MAX_HEAD_DIM));
        return;
    }
    r->x = a->x;
    r->is_neox = a->rope.is_neox;
    r->table = find_rope_table(b, a, batch);
    if (r->table == NULL)
        return;
    stage = row_stage(run_rope, r, batch, a->tag, sluice_cpu_act_width(a->x));
    sluice_cpu_stage_access(&stage, rope_resource(b, r->table), false);
    sluice_cpu_stage_act(&stage, a->x, true);
    sluice_cpu_program_add(b, &stage);
}

/* ---- gate, select_rows ---------------------------------------------------------------------- */

static void
run_gate(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const SluiceGateArgs *a = stage->args;

    for (int64_t t = begin; t < end; t++) {
        for (int h = 0; h < a->y.n_head; h++)
            b->kernels.glu[a->activation](
                sluice_cpu_act_row(b, a->y, t) + (int64_t) h * a->y.stride,
                sluice_cpu_act_row(b, a->g, t) + (int64_t) h * a->g.stride,
                sluice_cpu_act_row(b, a->x, t) + (int64_t) h * a->x.stride, a->y.dim);
    }
}

void
sluice_cpu_op_gate(SluiceBackend *base, const SluiceGateArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    SluiceGateArgs *copy = sluice_cpu_program_alloc(b, sizeof *copy);
    SluiceCpuStage stage = row_stage(run_gate, copy, batch, a->tag, sluice_cpu_act_width(a->y));

    *copy = *a;
    sluice_cpu_stage_act(&stage, a->x, false);
    sluice_cpu_stage_act(&stage, a->g, false);
    sluice_cpu_stage_act(&stage, a->y, true);
    sluice_cpu_program_add(b, &stage);
}

static void
run_select_rows(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end,
                int member)
{
    const SluiceSelectRowsArgs *a = stage->args;

    for (int64_t t = begin; t < end; t++) {
        for (int h = 0; h < a->y.n_head; h++)
            memcpy(sluice_cpu_act_row(b, a->y, t) + (int64_t) h * a->y.stride,
                   sluice_cpu_act_row(b, a->x, stage->batch->out_rows[t]) +
                       (int64_t) h * a->x.stride,
                   (size_t) a->y.dim * sizeof(float));
    }
}

void
sluice_cpu_op_select_rows(SluiceBackend *base, const SluiceSelectRowsArgs *a,
                          const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    SluiceSelectRowsArgs *copy = sluice_cpu_program_alloc(b, sizeof *copy);
    SluiceCpuStage stage =
        sluice_cpu_stage(run_select_rows, copy, batch, batch->n_out,
                         sluice_cpu_is_small(batch->n_out, sluice_cpu_act_width(a->y)));

    *copy = *a;
    sluice_cpu_stage_act(&stage, a->x, false);
    sluice_cpu_stage_act(&stage, a->y, true);
    sluice_cpu_program_add(b, &stage);
}

/* ---- top_k ---------------------------------------------------------------------------------- */

typedef struct {
    float value;
    int32_t id;
} Candidate;

/* Whether x comes before y: the larger value, then the lower index. */
static inline bool
is_before(Candidate x, Candidate y)
{
    return x.value > y.value || (x.value == y.value && x.id < y.id);
}

/* A heap whose root is the last in order: what the next better value replaces. */
static void
sift_down(Candidate *heap, int n, int i)
{
    Candidate moved = heap[i];

    for (int child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && is_before(heap[child], heap[child + 1]))
            child++;
        if (!is_before(moved, heap[child]))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

/* The ids of the k first in order of x [n]; k is at most n. */
void
sluice_cpu_select_top(const SluiceCpuKernels *kernels, const float *x, int64_t n, int k,
                      int32_t *ids, void *scratch)
{
    Candidate *heap = scratch;
    int n_heap = 0;
    int64_t i;

    /* NaN takes part as the least of all, so that k values are always found. */
    for (i = 0; i < n && n_heap < k; i++)
        heap[n_heap++] = (Candidate){isnan(x[i]) ? -INFINITY : x[i], (int32_t) i};
    for (int j = n_heap / 2 - 1; j >= 0; j--)
        sift_down(heap, n_heap, j);
    /* Equal values of a higher index come after, so only greater ones matter. */
    while (n_heap > 0 && (i = kernels->find_above(x, i, n, heap[0].value)) < n) {
        heap[0] = (Candidate){x[i], (int32_t) i};
        sift_down(heap, n_heap, 0);
        i++;
    }
    for (int last = n_heap - 1; last > 0; last--) {
        Candidate root = heap[0];
        heap[0] = heap[last];
        heap[last] = root;
        sift_down(heap, last, 0);
    }
    for (int j = 0; j < n_heap; j++)
        ids[j] = heap[j].id;
}

static void
run_top_k(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const SluiceTopKArgs *a = stage->args;

    for (int64_t t = begin; t < end; t++) {
        const float *x = sluice_cpu_act_row(b, a->x, t);
        int32_t *ids = (int32_t *) sluice_cpu_act_row(b, a->ids, t);
        float *values = sluice_cpu_act_row(b, a->values, t);
        sluice_cpu_select_top(&b->kernels, x, a->x.dim, a->k, ids,
                              sluice_cpu_thread_scratch(b, member));
        for (int i = 0; i < a->k; i++)
            values[i] = x[ids[i]];
        for (int i = 0; i < a->n_listed; i++) {
            ids[a->k + i] = a->listed[i];
            values[a->k + i] = x[a->listed[i]];
        }
    }
}

void
sluice_cpu_op_top_k(SluiceBackend *base, const SluiceTopKArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    SluiceTopKArgs *copy = sluice_cpu_program_alloc(b, sizeof *copy);
    int64_t n_rows = sluice_cpu_n_rows(batch, a->tag.rows);
    SluiceCpuStage stage = sluice_cpu_stage(run_top_k, copy, batch, n_rows, n_rows == 1);

    *copy = *a;
    if (a->k < 0 || a->k > a->x.dim || (size_t) a->k * sizeof(Candidate) > b->layout.thread ||
        a->k + a->n_listed > a->ids.dim || a->k + a->n_listed > a->values.dim) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "the largest %d and %d listed of %d values are wanted, in rows of "
                                "%d",
                                a->k, a->n_listed, a->x.dim, a->ids.dim);
        return;
    }
    for (int i = 0; i < a->n_listed; i++) {
        if (a->listed[i] < 0 || a->listed[i] >= a->x.dim) {
            sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                    "value %d is wanted, expected less than %d", a->listed[i],
                                    a->x.dim);
            return;
        }
    }
    sluice_cpu_stage_act(&stage, a->x, false);
    sluice_cpu_stage_act(&stage, a->ids, true);
    sluice_cpu_stage_act(&stage, a->values, true);
    sluice_cpu_program_add(b, &stage);
}

/* ---- read ----------------------------------------------------------------------------------- */

static void
run_read(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const SluiceReadArgs *a = stage->args;
    int64_t width = sluice_cpu_act_width(a->x);

    for (int64_t t = begin; t < end; t++) {
        float *to = (float *) a->host + t * width;
        for (int h = 0; h < a->x.n_head; h++)
            memcpy(to + (int64_t) h * a->x.dim,
                   sluice_cpu_act_row(b, a->x, a->row_begin + t) + (int64_t) h * a->x.stride,
                   (size_t) a->x.dim * sizeof(float));
    }
}

void
sluice_cpu_op_read(SluiceBackend *base, const SluiceReadArgs *a)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    SluiceReadArgs *copy = sluice_cpu_program_alloc(b, sizeof *copy);
    SluiceCpuStage stage =
        sluice_cpu_stage(run_read, copy, NULL, a->n_rows,
                         sluice_cpu_is_small(a->n_rows, sluice_cpu_act_width(a->x)));

    *copy = *a;
    sluice_cpu_stage_act(&stage, a->x, false);
    sluice_cpu_program_add(b, &stage);
}
