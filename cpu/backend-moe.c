/* SPDX-License-Identifier: MIT */
/*
 * Mixtures of experts. Rows are grouped by expert first; then the hidden layer of every pair of
 * row and expert is computed in units of expert and chunk, and last each chunk of output columns
 * goes through all experts, so that the sums of one value are made by one thread and in the order
 * of experts. The shared expert runs beside the others as one that every row has chosen.
 */
#include "config.h"

#include "cpu/backend-private.h"

#include <math.h>

/* ---- the router ----------------------------------------------------------------------------- */

typedef struct {
    SluiceMoeRouteArgs a;
    SluiceWeightView view;
    SluiceCpuMatmulInput input;
    const float *bias;
    float *logits; /* [n_rows, n_expert] */
    int64_t chunk;
} RouteArgs;

static void
run_router(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const RouteArgs *r = stage->args;
    int64_t first = begin * r->chunk;
    int64_t last = MIN(end * r->chunk, r->a.n_expert);

    sluice_cpu_matmul_rows(&b->kernels, r->view.dtype, r->view.data, r->view.row_stride,
                           r->view.n_cols, first, last, &r->input, NULL, 0, r->logits + first,
                           r->a.n_expert, sluice_cpu_thread_scratch(b, member));
}

static float
sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* The weights of the experts chosen; logits is overwritten. */
static void
weigh_experts(const SluiceCpuKernels *k, const SluiceMoeRouteArgs *a, float *logits,
              const int32_t *ids, float *weights)
{
    float max = -INFINITY;
    float sum = 0;
    float chosen = 0;

    for (int i = 0; i < a->n_used; i++)
        weights[i] = logits[ids[i]];
    switch (a->gating) {
    case SLUICE_GATING_SOFTMAX:
        k->softmax(logits, a->n_expert, &max, &sum);
        for (int i = 0; i < a->n_used; i++)
            weights[i] = logits[ids[i]] / sum;
        break;
    case SLUICE_GATING_SIGMOID:
        for (int i = 0; i < a->n_used; i++)
            weights[i] = sigmoid(weights[i]);
        break;
    case SLUICE_GATING_SOFTMAX_SELECTED:
        k->softmax(weights, a->n_used, &max, &sum);
        k->scale(weights, weights, 1 / sum, a->n_used);
        break;
    }
    for (int i = 0; i < a->n_used; i++)
        chosen += weights[i];
    if (a->renormalise)
        k->scale(weights, weights, 1 / fmaxf(chosen, 6.1e-5f), a->n_used);
    if (a->weights_scale != 1)
        k->scale(weights, weights, a->weights_scale, a->n_used);
}

static void
run_choose(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const RouteArgs *r = stage->args;

    for (int64_t t = begin; t < end; t++) {
        float *logits = r->logits + t * r->a.n_expert;
        int32_t *ids = (int32_t *) sluice_cpu_act_row(b, r->a.ids, t);
        if (r->bias != NULL)
            b->kernels.add(logits, logits, r->bias, r->a.n_expert);
        sluice_cpu_select_top(&b->kernels, logits, r->a.n_expert, r->a.n_used, ids,
                              sluice_cpu_thread_scratch(b, member));
        weigh_experts(&b->kernels, &r->a, logits, ids, sluice_cpu_act_row(b, r->a.weights, t));
    }
}

void
sluice_cpu_op_moe_route(SluiceBackend *base, const SluiceMoeRouteArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    RouteArgs *r = sluice_cpu_program_alloc(b, sizeof *r);
    const SluicePart whole = {0, 0};
    int64_t n_rows = sluice_cpu_n_rows(batch, a->tag.rows);
    SluiceCpuStage stage;
    int q8_slot;

    if (a->n_used < 1 || a->n_used > a->n_expert || a->n_expert > SLUICE_MAX_EXPERTS ||
        a->n_used > SLUICE_MAX_EXPERTS_USED || a->ids.dim < a->n_used ||
        a->weights.dim < a->n_used) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "layer %d uses %d of %d experts, expected at most %d of %d",
                                a->tag.layer, a->n_used, a->n_expert, SLUICE_MAX_EXPERTS_USED,
                                SLUICE_MAX_EXPERTS);
        return;
    }
    r->a = *a;
    if (!sluice_cpu_backend_view(b, a->tag, a->router, SLUICE_AXIS_ROWS, whole, &r->view) ||
        !sluice_cpu_matmul_check(b, a->tag, a->router, &r->view, sluice_cpu_act_width(a->x),
                                 a->n_expert) ||
        !sluice_cpu_backend_reserve(b, &b->hidden,
                                    (size_t) n_rows * (size_t) a->n_expert * sizeof(float)) ||
        !sluice_cpu_matmul_prepare_input(b, a->tag, a->x, batch,
                                         sluice_cpu_matmul_wants_q8(r->view.dtype), &r->input,
                                         &q8_slot) ||
        n_rows == 0)
        return;
    r->logits = b->hidden.data;
    r->bias = sluice_cpu_backend_vector(b, a->tag, a->router_bias, 0, a->n_expert);
    r->chunk = sluice_cpu_matmul_chunk(b, batch, &r->view, a->n_expert, 1);
    stage = sluice_cpu_stage(run_router, r, batch, (a->n_expert + r->chunk - 1) / r->chunk, false);
    sluice_cpu_stage_act(&stage, a->x, false);
    if (q8_slot >= 0)
        sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_Q8 + (uint32_t) q8_slot, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_HIDDEN, true);
    sluice_cpu_program_add(b, &stage);

    stage = sluice_cpu_stage(run_choose, r, batch, n_rows, n_rows <= 2);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_HIDDEN, true);
    sluice_cpu_stage_act(&stage, a->ids, true);
    sluice_cpu_stage_act(&stage, a->weights, true);
    sluice_cpu_program_add(b, &stage);
}

/* ---- the experts ---------------------------------------------------------------------------- */

/* An expert that some row has chosen, and its pairs [begin, end). */
typedef struct {
    int32_t expert;
    int32_t begin;
    int32_t end;
} ActiveExpert;

/* Rows grouped by expert. In the executor's memory, written by the first stage. */
typedef struct {
    int32_t n_active;
    ActiveExpert active[SLUICE_MAX_EXPERTS];
    int32_t *rows;         /* [n_rows * n_used]: the row of each pair */
    float *weights;        /* [n_rows * n_used] */
    float *shared_weights; /* [n_rows] */
} Routes;

/* The three matrices of the experts, or of the shared one. */
typedef struct {
    SluiceWeightView gate;
    SluiceWeightView up;
    SluiceWeightView down;
    size_t up_offset; /* bytes from a slab's start, where gate and up are one tensor */
    int64_t n;        /* hidden width */
    int64_t chunk;    /* of the hidden width, per unit */
    bool hides_q8;
    SluiceCpuQ8 q8;
    float *hidden;
} Network;

typedef struct {
    SluiceMoeExpertsArgs a;
    int32_t begin; /* experts of this part */
    int32_t end;
    Network experts;
    Network shared; /* n 0: none */
    const float *gate_bias;
    const float *up_bias;
    const float *down_bias;
    const float *shared_router;
    SluiceCpuMatmulInput input;
    Routes *routes;
    int64_t n_out;
    int64_t chunk; /* of the output, per unit */
} ExpertsArgs;

static void
run_group(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const ExpertsArgs *e = stage->args;
    const SluiceMoeExpertsArgs *a = &e->a;
    Routes *routes = e->routes;
    int32_t counts[SLUICE_MAX_EXPERTS] = {0};
    int32_t at = 0;

    for (int64_t t = 0; t < e->input.n_rows; t++) {
        const int32_t *ids = (const int32_t *) sluice_cpu_act_row(b, a->ids, t);
        for (int i = 0; i < a->n_used; i++)
            counts[ids[i]]++;
    }
    routes->n_active = 0;
    for (int32_t x = 0; x < a->n_expert; x++) {
        bool is_ours = x >= e->begin && x < e->end && (a->skip == NULL || a->skip[x] == 0);
        if (counts[x] > 0 && is_ours) {
            routes->active[routes->n_active++] = (ActiveExpert){x, at, at + counts[x]};
            at += counts[x];
            counts[x] = at - counts[x];
        } else {
            counts[x] = -1;
        }
    }
    for (int64_t t = 0; t < e->input.n_rows; t++) {
        const int32_t *ids = (const int32_t *) sluice_cpu_act_row(b, a->ids, t);
        const float *weights = sluice_cpu_act_row(b, a->weights, t);
        for (int i = 0; i < a->n_used; i++) {
            int32_t pair = counts[ids[i]];
            if (pair < 0)
                continue;
            routes->rows[pair] = (int32_t) t;
            routes->weights[pair] = weights[i];
            counts[ids[i]]++;
        }
    }
}

static void
run_shared_weights(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end,
                   int member)
{
    const ExpertsArgs *e = stage->args;

    for (int64_t t = begin; t < end; t++)
        e->routes->shared_weights[t] =
            e->shared_router == NULL
                ? 1
                : sigmoid(b->kernels.dot_f32(e->shared_router, sluice_cpu_act_row(b, e->a.x, t),
                                             sluice_cpu_act_width(e->a.x)));
}

static const void *
slab_of(const SluiceWeightView *view, int32_t slab)
{
    return view->slabs != NULL ? view->slabs[slab] : view->data;
}

static void
add_bias(const SluiceCpuKernels *k, float *y, int64_t n_rows, int64_t n, const float *bias)
{
    for (int64_t i = 0; bias != NULL && i < n_rows; i++)
        k->add(y + i * n, y + i * n, bias, n);
}

/*
 * Columns [begin, end) of the hidden layer of some rows: those of row_idx, or all. The rows of
 * the hidden layer are first_row and those after it.
 */
static void
compute_hidden(SluiceCpuBackend *b, const ExpertsArgs *e, const Network *net, int32_t slab,
               const float *gate_bias, const float *up_bias, int64_t begin, int64_t end,
               const int32_t *row_idx, int64_t n_rows, int64_t first_row,
               SluiceActivation activation, int member)
{
    const SluiceCpuKernels *k = &b->kernels;
    uint8_t *scratch = sluice_cpu_thread_scratch(b, member);
    const uint8_t *up = (const uint8_t *) slab_of(&net->up, slab) + net->up_offset;
    int64_t n = end - begin;
    float *g = (float *) (scratch + b->layout.thread_product);
    float *u = g + n_rows * n;

    sluice_cpu_matmul_rows(k, net->gate.dtype, slab_of(&net->gate, slab), net->gate.row_stride,
                           net->gate.n_cols, begin, end, &e->input, row_idx, n_rows, g, n, scratch);
    sluice_cpu_matmul_rows(k, net->up.dtype, up, net->up.row_stride, net->up.n_cols, begin, end,
                           &e->input, row_idx, n_rows, u, n, scratch);
    add_bias(k, g, n_rows, n, gate_bias != NULL ? gate_bias + begin : NULL);
    add_bias(k, u, n_rows, n, up_bias != NULL ? up_bias + begin : NULL);
    for (int64_t i = 0; i < n_rows; i++) {
        float *h = net->hides_q8 ? g + i * n : net->hidden + (first_row + i) * net->n + begin;
        k->glu[activation](h, g + i * n, u + i * n, n);
        if (net->hides_q8)
            sluice_cpu_quantise_part(k, &net->q8, first_row + i, begin, h, n);
    }
}

static int64_t
n_chunks(int64_t n, int64_t chunk)
{
    return (n + chunk - 1) / chunk;
}

static int64_t
count_hidden(SluiceCpuBackend *b, const SluiceCpuStage *stage)
{
    const ExpertsArgs *e = stage->args;

    return e->routes->n_active * n_chunks(e->experts.n, e->experts.chunk);
}

static void
run_hidden(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const ExpertsArgs *e = stage->args;
    const Network *net = &e->experts;
    int64_t per_expert = n_chunks(net->n, net->chunk);

    for (int64_t u = begin; u < end; u++) {
        const ActiveExpert *x = &e->routes->active[u / per_expert];
        int64_t from = u % per_expert * net->chunk;
        const float *gate_bias =
            e->gate_bias != NULL ? e->gate_bias + (int64_t) x->expert * net->n : NULL;
        const float *up_bias =
            e->up_bias != NULL ? e->up_bias + (int64_t) x->expert * net->n : NULL;
        compute_hidden(b, e, net, x->expert - e->begin, gate_bias, up_bias, from,
                       MIN(from + net->chunk, net->n), e->routes->rows + x->begin,
                       x->end - x->begin, x->begin, e->a.activation, member);
    }
}

static void
run_shared_hidden(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end,
                  int member)
{
    const ExpertsArgs *e = stage->args;
    const Network *net = &e->shared;

    for (int64_t u = begin; u < end; u++)
        compute_hidden(b, e, net, 0, NULL, NULL, u * net->chunk, MIN((u + 1) * net->chunk, net->n),
                       NULL, e->input.n_rows, 0, SLUICE_ACTIVATION_SILU, member);
}

/* sums [n_rows, n] = columns [begin, begin + n) of down . hidden, for rows first_row and on. */
static void
multiply_down(SluiceCpuBackend *b, const Network *net, int32_t slab, int64_t begin, int64_t n,
              int64_t first_row, int64_t n_rows, float *sums, uint8_t *scratch)
{
    SluiceCpuMatmulInput input = {.ldx = net->n, .n_rows = n_rows};

    if (net->hides_q8) {
        int64_t at = first_row * net->n;
        input.q8 = (SluiceCpuQ8){n_rows,
                                 net->n,
                                 net->q8.q + at,
                                 net->q8.d + at / 32,
                                 net->q8.s32 + at / 32,
                                 net->q8.s16 + at / 16};
    } else {
        input.x = net->hidden + first_row * net->n;
    }
    sluice_cpu_matmul_rows(&b->kernels, net->down.dtype, slab_of(&net->down, slab),
                           net->down.row_stride, net->down.n_cols, begin, begin + n, &input, NULL,
                           0, sums, n, scratch);
}

/* Columns [begin, begin + n) of the output. */
static void
compute_down(SluiceCpuBackend *b, const ExpertsArgs *e, int64_t begin, int64_t n, int member)
{
    const SluiceCpuKernels *k = &b->kernels;
    const Routes *routes = e->routes;
    uint8_t *scratch = sluice_cpu_thread_scratch(b, member);
    float *sums = (float *) (scratch + b->layout.thread_product);

    for (int64_t t = 0; t < e->input.n_rows && !e->a.accumulate; t++)
        memset(sluice_cpu_act_row(b, e->a.y, t) + begin, 0, (size_t) n * sizeof *sums);
    for (int32_t i = 0; i < routes->n_active; i++) {
        const ActiveExpert *x = &routes->active[i];
        multiply_down(b, &e->experts, x->expert - e->begin, begin, n, x->begin, x->end - x->begin,
                      sums, scratch);
        if (e->down_bias != NULL)
            add_bias(k, sums, x->end - x->begin, n,
                     e->down_bias + (int64_t) x->expert * e->n_out + begin);
        for (int32_t p = x->begin; p < x->end; p++)
            k->axpy(sluice_cpu_act_row(b, e->a.y, routes->rows[p]) + begin,
                    sums + (int64_t) (p - x->begin) * n, routes->weights[p], n);
    }
    if (e->shared.n == 0)
        return;
    multiply_down(b, &e->shared, 0, begin, n, 0, e->input.n_rows, sums, scratch);
    for (int64_t t = 0; t < e->input.n_rows; t++)
        k->axpy(sluice_cpu_act_row(b, e->a.y, t) + begin, sums + t * n, routes->shared_weights[t],
                n);
}

static void
run_down(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const ExpertsArgs *e = stage->args;

    for (int64_t u = begin; u < end; u++)
        compute_down(b, e, u * e->chunk, MIN(e->chunk, e->n_out - u * e->chunk), member);
}

/* ---- lowering ------------------------------------------------------------------------------- */

/* Resolves a network's weights; `part` is a range of experts. */
static bool
view_network(SluiceCpuBackend *b, const SluiceMoeExpertsArgs *a, SluiceWeight gate, SluiceWeight up,
             SluiceWeight down, SluicePart part, const SluiceBatch *batch, Network *net)
{
    int64_t n_in = sluice_cpu_act_width(a->x);
    SluiceWeightView down_row;

    if (!sluice_cpu_backend_view(b, a->tag, up, SLUICE_AXIS_SLABS, part, &net->up) ||
        !sluice_cpu_backend_view(b, a->tag, down, SLUICE_AXIS_SLABS, part, &net->down))
        return false;
    net->n = net->up.n_rows;
    net->gate = net->up;
    if (gate == 0) {
        net->n /= 2;
        net->up_offset = (size_t) net->n * net->up.row_stride;
        net->gate.n_rows = net->up.n_rows = net->n;
    } else if (!sluice_cpu_backend_view(b, a->tag, gate, SLUICE_AXIS_SLABS, part, &net->gate)) {
        return false;
    }
    down_row = net->down;
    if (!sluice_cpu_matmul_check(b, a->tag, up, &net->up, n_in, net->n) ||
        !sluice_cpu_matmul_check(b, a->tag, gate != 0 ? gate : up, &net->gate, n_in, net->n) ||
        !sluice_cpu_matmul_check(b, a->tag, down, &down_row, net->n, sluice_cpu_act_width(a->y)))
        return false;
    net->hides_q8 = sluice_cpu_matmul_wants_q8(net->down.dtype);
    net->chunk = sluice_cpu_matmul_chunk(b, batch, &net->up, net->n, net->hides_q8 ? 32 : 1);
    return true;
}

static size_t
hidden_bytes(const Network *net, int64_t n_rows)
{
    size_t n_bytes = net->hides_q8 ? sluice_cpu_q8_bytes(n_rows, net->n)
                                   : (size_t) n_rows * (size_t) net->n * sizeof(float);

    return (n_bytes + 63) & ~(size_t) 63;
}

static void
place_hidden(Network *net, int64_t n_rows, uint8_t *memory)
{
    net->hidden = (float *) (void *) memory;
    if (net->hides_q8)
        sluice_cpu_q8_place(&net->q8, n_rows, net->n, memory);
}

size_t
sluice_cpu_route_bytes(int64_t max_rows, int64_t n_used)
{
    return sizeof(Routes) + (size_t) max_rows * (size_t) (2 * n_used + 1) * 4;
}

/* The hidden layers of the pairs, then that of the shared expert. */
static bool
reserve_moe(SluiceCpuBackend *b, ExpertsArgs *e, int64_t n_rows)
{
    int64_t n_pairs = n_rows * e->a.n_used;
    size_t expert_bytes = hidden_bytes(&e->experts, n_pairs);
    size_t shared_bytes = e->shared.n > 0 ? hidden_bytes(&e->shared, n_rows) : 0;
    int64_t max_rows = MAX(b->config.max_rows, b->config.max_out);
    size_t route_bytes = sluice_cpu_route_bytes(max_rows, e->a.n_used);

    if (!sluice_cpu_backend_reserve(b, &b->hidden, expert_bytes + shared_bytes) ||
        !sluice_cpu_backend_reserve(b, &b->routes, route_bytes))
        return false;
    place_hidden(&e->experts, n_pairs, b->hidden.data);
    place_hidden(&e->shared, n_rows, (uint8_t *) b->hidden.data + expert_bytes);
    e->routes = b->routes.data;
    e->routes->rows = (int32_t *) (e->routes + 1);
    e->routes->weights = (float *) (e->routes->rows + max_rows * e->a.n_used);
    e->routes->shared_weights = e->routes->weights + max_rows * e->a.n_used;
    return true;
}

static const float *
expert_bias(SluiceCpuBackend *b, const SluiceMoeExpertsArgs *a, SluiceWeight weight, int64_t n)
{
    const SluicePart whole = {0, 0};
    SluiceWeightView view;

    if (weight == 0 || !sluice_cpu_backend_view(b, a->tag, weight, SLUICE_AXIS_ROWS, whole, &view))
        return NULL;
    if (view.dtype != SLUICE_DTYPE_F32 || view.n_cols != n || view.n_rows != a->n_expert) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "bias %u of layer %d is [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
                                "], expected F32 [%d, %" G_GINT64_FORMAT "]",
                                weight, a->tag.layer, view.n_rows, view.n_cols, a->n_expert, n);
        return NULL;
    }
    return view.data;
}

static bool
prepare_experts(SluiceCpuBackend *b, const SluiceMoeExpertsArgs *a, const SluiceBatch *batch,
                ExpertsArgs *e, int *q8_slot)
{
    const SluicePart whole = {0, 0};
    bool has_shared = a->shared_up != 0 && a->part.begin == 0;
    bool wants_q8;

    memset(e, 0, sizeof *e);
    e->a = *a;
    e->begin = a->part.begin;
    e->end = a->part.end > 0 ? a->part.end : a->n_expert;
    if (a->n_expert > SLUICE_MAX_EXPERTS || a->n_used > SLUICE_MAX_EXPERTS_USED) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "layer %d uses %d of %d experts, expected at most %d of %d",
                                a->tag.layer, a->n_used, a->n_expert, SLUICE_MAX_EXPERTS_USED,
                                SLUICE_MAX_EXPERTS);
        return false;
    }
    if (!view_network(b, a, a->gate, a->up, a->down, a->part, batch, &e->experts) ||
        (has_shared && !view_network(b, a, a->shared_gate, a->shared_up, a->shared_down, whole,
                                     batch, &e->shared)))
        return false;
    e->n_out = sluice_cpu_act_width(a->y);
    e->gate_bias = expert_bias(b, a, a->gate_bias, e->experts.n);
    e->up_bias = expert_bias(b, a, a->up_bias, e->experts.n);
    e->down_bias = expert_bias(b, a, a->down_bias, e->n_out);
    if (has_shared)
        e->shared_router =
            sluice_cpu_backend_vector(b, a->tag, a->shared_router, 0, sluice_cpu_act_width(a->x));
    e->chunk = sluice_cpu_matmul_chunk(b, batch, &e->experts.down, e->n_out, 1);
    wants_q8 = sluice_cpu_matmul_wants_q8(e->experts.up.dtype) ||
               sluice_cpu_matmul_wants_q8(e->experts.gate.dtype) ||
               (has_shared && (sluice_cpu_matmul_wants_q8(e->shared.up.dtype) ||
                               sluice_cpu_matmul_wants_q8(e->shared.gate.dtype)));
    return reserve_moe(b, e, sluice_cpu_n_rows(batch, a->tag.rows)) &&
           sluice_cpu_matmul_prepare_input(b, a->tag, a->x, batch, wants_q8, &e->input, q8_slot);
}

void
sluice_cpu_op_moe_experts(SluiceBackend *base, const SluiceMoeExpertsArgs *a,
                          const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    ExpertsArgs *e = sluice_cpu_program_alloc(b, sizeof *e);
    SluiceCpuStage stage;
    int q8_slot;

    if (!prepare_experts(b, a, batch, e, &q8_slot) || e->input.n_rows == 0)
        return;
    stage = sluice_cpu_stage(run_group, e, batch, 1, true);
    sluice_cpu_stage_act(&stage, a->ids, false);
    sluice_cpu_stage_act(&stage, a->weights, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_ROUTES, true);
    sluice_cpu_program_add(b, &stage);
    if (e->shared.n > 0) {
        stage = sluice_cpu_stage(run_shared_weights, e, batch, e->input.n_rows,
                                 sluice_cpu_is_small(e->input.n_rows, a->x.dim));
        sluice_cpu_stage_act(&stage, a->x, false);
        sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_SHARED_WEIGHTS, true);
        sluice_cpu_program_add(b, &stage);
    }

    stage = sluice_cpu_stage(run_hidden, e, batch, 0, false);
    stage.count = count_hidden;
    sluice_cpu_stage_act(&stage, a->x, false);
    if (q8_slot >= 0)
        sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_Q8 + (uint32_t) q8_slot, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_ROUTES, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_HIDDEN, true);
    sluice_cpu_program_add(b, &stage);
    if (e->shared.n > 0) {
        /* Beside the others: its part of the hidden memory is its own. */
        stage = sluice_cpu_stage(run_shared_hidden, e, batch,
                                 n_chunks(e->shared.n, e->shared.chunk), false);
        sluice_cpu_stage_act(&stage, a->x, false);
        if (q8_slot >= 0)
            sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_Q8 + (uint32_t) q8_slot, false);
        sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_SHARED_HIDDEN, true);
        sluice_cpu_program_add(b, &stage);
    }

    stage = sluice_cpu_stage(run_down, e, batch, n_chunks(e->n_out, e->chunk), false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_ROUTES, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_SHARED_WEIGHTS, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_HIDDEN, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_SHARED_HIDDEN, false);
    sluice_cpu_stage_act(&stage, a->y, true);
    sluice_cpu_program_add(b, &stage);
}
