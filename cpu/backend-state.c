/* SPDX-License-Identifier: MIT */
/* Recurrent layers, and copies of pages and slots. */
#include "config.h"

#include "cpu/backend-private.h"

#include <math.h>

static const SluiceCpuStatePool *
find_state(SluiceCpuBackend *b, SluiceOpTag tag, const SluiceBatch *batch)
{
    const SluiceCpuStatePool *pool = NULL;

    for (int32_t i = 0; i < b->config.n_state_groups && pool == NULL; i++) {
        if (b->state_pools[i].group.layer == tag.layer)
            pool = &b->state_pools[i];
    }
    for (int32_t s = 0; s < batch->n_seqs && pool != NULL; s++) {
        if (batch->seqs[s].state_slot < 0 || batch->seqs[s].state_slot >= b->config.n_state_slots) {
            sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED, "state slot %d of %d",
                                    batch->seqs[s].state_slot, b->config.n_state_slots);
            return NULL;
        }
    }
    if (pool == NULL)
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED, "layer %d has no recurrent state",
                                tag.layer);
    return pool;
}

static float *
slot_at(const SluiceCpuBackend *b, const SluiceCpuStatePool *pool, int32_t slot)
{
    return (float *) b->state.data + pool->offset + (size_t) slot * pool->slot_floats;
}

/* ---- short_conv ----------------------------------------------------------------------------- */

enum {
    MAX_KERNEL = 8,
    CONV_COLS = 256, /* channels of a unit: its window stays in the first-level cache */
};

typedef struct {
    SluiceShortConvArgs a;
    const SluiceCpuStatePool *pool;
    const float *weight;
    int64_t n_channels;
} ConvArgs;

/*
 * Channels [begin, begin + n) of one sequence. The last n_kernel inputs are kept in a window of
 * our own, so that y may be x.
 */
static void
convolve(SluiceCpuBackend *b, const ConvArgs *c, const SluiceBatchSeq *seq, int64_t begin,
         int64_t n)
{
    float window[MAX_KERNEL][CONV_COLS];
    const float *inputs[MAX_KERNEL];
    int32_t n_kernel = c->a.n_kernel;
    float *state = slot_at(b, c->pool, seq->state_slot) + begin;
    size_t n_bytes = (size_t) n * sizeof(float);

    for (int32_t i = 0; i < n_kernel - 1; i++)
        memcpy(window[i], state + i * c->n_channels, n_bytes);
    for (int32_t t = 0; t < seq->n_rows; t++) {
        const float *x = sluice_cpu_act_row(b, c->a.x, seq->row_begin + t) + begin;
        memcpy(window[(t + n_kernel - 1) % n_kernel], x, n_bytes);
        for (int32_t i = 0; i < n_kernel; i++)
            inputs[i] = window[(t + i) % n_kernel];
        b->kernels.conv(sluice_cpu_act_row(b, c->a.y, seq->row_begin + t) + begin,
                        c->weight + begin * n_kernel, inputs, n_kernel, n);
    }
    for (int32_t i = 0; i < n_kernel - 1; i++)
        memcpy(state + i * c->n_channels, window[(seq->n_rows + i) % n_kernel], n_bytes);
}

static void
run_short_conv(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end,
               int member)
{
    const ConvArgs *c = stage->args;
    int64_t n_pieces = (c->n_channels + CONV_COLS - 1) / CONV_COLS;

    for (int64_t u = begin; u < end; u++) {
        int64_t col = u % n_pieces * CONV_COLS;
        convolve(b, c, &stage->batch->seqs[u / n_pieces], col, MIN(CONV_COLS, c->n_channels - col));
    }
}

void
sluice_cpu_op_short_conv(SluiceBackend *base, const SluiceShortConvArgs *a,
                         const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    ConvArgs *c = sluice_cpu_program_alloc(b, sizeof *c);
    const SluicePart whole = {0, 0};
    SluiceWeightView view;
    SluiceCpuStage stage;

    c->a = *a;
    c->n_channels = sluice_cpu_act_width(a->x);
    c->pool = find_state(b, a->tag, batch);
    if (c->pool == NULL ||
        !sluice_cpu_backend_view(b, a->tag, a->weight, SLUICE_AXIS_ROWS, whole, &view))
        return;
    if (view.dtype != SLUICE_DTYPE_F32 || view.n_rows != c->n_channels ||
        view.n_cols != a->n_kernel || a->n_kernel < 1 || a->n_kernel > MAX_KERNEL ||
        c->pool->group.n_conv != (a->n_kernel - 1) * c->n_channels) {
        sluice_cpu_backend_fail(
            b, SLUICE_STATUS_UNSUPPORTED,
            "the convolution of layer %d is [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
            "], expected F32 [%" G_GINT64_FORMAT ", %d], at most %d wide",
            a->tag.layer, view.n_rows, view.n_cols, c->n_channels, a->n_kernel, MAX_KERNEL);
        return;
    }
    c->weight = view.data;
    stage = sluice_cpu_stage(run_short_conv, c, batch,
                             batch->n_seqs * ((c->n_channels + CONV_COLS - 1) / CONV_COLS),
                             batch->n_rows * c->n_channels <= 2 * CONV_COLS);
    sluice_cpu_stage_act(&stage, a->x, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_STATE + (uint32_t) a->tag.layer, true);
    sluice_cpu_stage_act(&stage, a->y, true);
    sluice_cpu_program_add(b, &stage);
}

/* ---- delta_rule ----------------------------------------------------------------------------- */

typedef struct {
    SluiceDeltaRuleArgs a;
    const SluiceCpuStatePool *pool;
    const float *decay;
    const float *dt_bias;
    const float *norm;
    int32_t head_begin;
    int32_t n_heads;
    int32_t dim;
} DeltaArgs;

static float
softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

/* x / max(|x|, eps), times a factor. */
static void
normalise(const SluiceCpuKernels *k, float *y, const float *x, int64_t n, float eps, float factor)
{
    float length = sqrtf(k->dot_f32(x, x, n));

    k->scale(y, x, factor / fmaxf(length, eps), n);
}

static void
run_head(SluiceCpuBackend *b, const DeltaArgs *d, const SluiceBatchSeq *seq, int32_t head,
         float *scratch)
{
    const SluiceCpuKernels *k = &b->kernels;
    const SluiceDeltaRuleArgs *a = &d->a;
    int32_t n_mates = a->v.n_head / a->k.n_head;
    int32_t key_head = a->is_tiled ? head % a->k.n_head : head / n_mates;
    float *m = slot_at(b, d->pool, seq->state_slot) + d->pool->group.n_conv +
               (int64_t) head * d->dim * d->dim;
    float *q = scratch;
    float *key = scratch + SLUICE_CPU_MAX_HEAD_DIM;
    float *out = scratch + 2 * SLUICE_CPU_MAX_HEAD_DIM;

    for (int32_t t = seq->row_begin; t < seq->row_begin + seq->n_rows; t++) {
        float alpha = sluice_cpu_act_row(b, a->alpha, t)[(int64_t) head * a->alpha.stride];
        float beta = sluice_cpu_act_row(b, a->beta, t)[(int64_t) head * a->beta.stride];
        float decay = expf(d->decay[head] * softplus(alpha + d->dt_bias[head]));
        normalise(k, q, sluice_cpu_act_row(b, a->q, t) + (int64_t) key_head * a->q.stride, d->dim,
                  a->eps, 1 / sqrtf((float) d->dim));
        normalise(k, key, sluice_cpu_act_row(b, a->k, t) + (int64_t) key_head * a->k.stride, d->dim,
                  a->eps, 1);
        k->delta_step(out, m, q, key, sluice_cpu_act_row(b, a->v, t) + (int64_t) head * a->v.stride,
                      decay, 1 / (1 + expf(-beta)), d->dim);
        k->rms_norm(out, out, d->norm, d->dim, a->eps);
        k->glu[SLUICE_ACTIVATION_SILU](
            sluice_cpu_act_row(b, a->y, t) + (int64_t) head * a->y.stride,
            sluice_cpu_act_row(b, a->z, t) + (int64_t) head * a->z.stride, out, d->dim);
    }
}

static void
run_delta_rule(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end,
               int member)
{
    const DeltaArgs *d = stage->args;

    for (int64_t u = begin; u < end; u++)
        run_head(b, d, &stage->batch->seqs[u / d->n_heads],
                 d->head_begin + (int32_t) (u % d->n_heads), sluice_cpu_thread_scratch(b, member));
}

void
sluice_cpu_op_delta_rule(SluiceBackend *base, const SluiceDeltaRuleArgs *a,
                         const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    DeltaArgs *d = sluice_cpu_program_alloc(b, sizeof *d);
    int64_t n_state = (int64_t) a->v.n_head * a->v.dim * a->v.dim;
    SluiceCpuStage stage;

    d->a = *a;
    d->dim = a->v.dim;
    d->pool = find_state(b, a->tag, batch);
    if (d->pool == NULL)
        return;
    if (a->q.dim != d->dim || a->k.dim != d->dim || d->dim > SLUICE_CPU_MAX_HEAD_DIM ||
        a->k.n_head == 0 || a->v.n_head % a->k.n_head != 0 || d->pool->group.n_delta != n_state) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "layer %d has %d value heads of %d for %d key heads of %d, and a "
                                "state of %" G_GINT64_FORMAT " values, expected %" G_GINT64_FORMAT,
                                a->tag.layer, a->v.n_head, a->v.dim, a->k.n_head, a->k.dim,
                                d->pool->group.n_delta, n_state);
        return;
    }
    d->decay = sluice_cpu_backend_vector(b, a->tag, a->a, 0, a->v.n_head);
    d->dt_bias = sluice_cpu_backend_vector(b, a->tag, a->dt_bias, 0, a->v.n_head);
    d->norm = sluice_cpu_backend_vector(b, a->tag, a->norm, 0, d->dim);
    if (d->decay == NULL || d->dt_bias == NULL || d->norm == NULL) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "layer %d lacks a decay, a bias or a norm", a->tag.layer);
        return;
    }
    d->head_begin = a->part.begin;
    d->n_heads = (a->part.end > 0 ? a->part.end : a->v.n_head) - a->part.begin;
    stage = sluice_cpu_stage(run_delta_rule, d, batch, (int64_t) batch->n_seqs * d->n_heads, false);
    sluice_cpu_stage_act(&stage, a->q, false);
    sluice_cpu_stage_act(&stage, a->k, false);
    sluice_cpu_stage_act(&stage, a->v, false);
    sluice_cpu_stage_act(&stage, a->z, false);
    sluice_cpu_stage_act(&stage, a->alpha, false);
    sluice_cpu_stage_act(&stage, a->beta, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_STATE + (uint32_t) a->tag.layer, true);
    sluice_cpu_stage_act(&stage, a->y, true);
    sluice_cpu_program_add(b, &stage);
}

/* ---- state_copy ----------------------------------------------------------------------------- */

/* One contiguous piece; *host moves on where it takes part. */
static void
copy_piece(uint8_t *pool, size_t n_bytes, const SluiceStateCopyArgs *a, uint8_t **host)
{
    uint8_t *src = a->src >= 0 ? pool + (size_t) a->src * n_bytes : *host;
    uint8_t *dst = a->dst >= 0 ? pool + (size_t) a->dst * n_bytes : *host;

    if (src == NULL)
        memset(dst, 0, n_bytes);
    else
        memmove(dst, src, n_bytes);
    if (*host != NULL)
        *host += n_bytes;
}

static void
run_state_copy(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end,
               int member)
{
    const SluiceStateCopyArgs *a = stage->args;
    uint8_t *host = a->host;

    for (int32_t i = 0; i < b->config.n_kv_groups && a->kind == SLUICE_STATE_PAGE; i++) {
        const SluiceCpuKvPool *pool = &b->kv_pools[i];
        if (pool->group.table == a->table)
            copy_piece((uint8_t *) b->kv.data + pool->offset, pool->page_bytes, a, &host);
    }
    for (int32_t i = 0; i < b->config.n_state_groups && a->kind == SLUICE_STATE_SLOT; i++)
        copy_piece((uint8_t *) slot_at(b, &b->state_pools[i], 0),
                   b->state_pools[i].slot_floats * sizeof(float), a, &host);
}

void
sluice_cpu_op_state_copy(SluiceBackend *base, const SluiceStateCopyArgs *a)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    SluiceStateCopyArgs *copy = sluice_cpu_program_alloc(b, sizeof *copy);
    SluiceCpuStage stage = sluice_cpu_stage(run_state_copy, copy, NULL, 1, true);
    bool is_page = a->kind == SLUICE_STATE_PAGE;
    int32_t n;

    *copy = *a;
    if (is_page && (a->table < 0 || a->table >= b->config.n_kv_tables)) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED, "page table %d of %d", a->table,
                                b->config.n_kv_tables);
        return;
    }
    n = is_page ? b->config.kv_tables[a->table].n_pages : b->config.n_state_slots;
    if (a->src >= n || a->dst >= n || (a->dst < 0 && (a->host == NULL || a->src < 0))) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED, "a copy from %s %d to %d of %d",
                                is_page ? "page" : "slot", a->src, a->dst, n);
        return;
    }
    stage.is_fence = true;
    sluice_cpu_program_add(b, &stage);
}
