/* SPDX-License-Identifier: MIT */
/*
 * Matrix products and the feed-forward network. The input of a product with quantised weights is
 * quantised once and kept while it is unchanged, so that the projections of one input share it.
 * In the network each chunk of the hidden layer is activated and quantised by the thread that
 * computed it: the hidden layer is never written as float32 unless `down` is a float tensor.
 */
#include "config.h"

#include "cpu/backend-private.h"

#include "src/core/tensor.h"

enum {
    /* A chunk that takes less time than this many bytes is not worth the trip to the counter. */
    MIN_CHUNK_BYTES = 16 << 10,
    /* Chunks per thread: half are dealt out at once, the others even out the threads' speeds. */
    CHUNKS_PER_THREAD = 8,
};

/* ---- quantised inputs ----------------------------------------------------------------------- */

typedef struct {
    SluiceAct x;
    SluiceCpuQ8 q8;
} QuantiseArgs;

static void
run_quantise(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end,
             int member)
{
    const QuantiseArgs *q = stage->args;
    SluiceCpuQ8 q8 = q->q8;

    sluice_cpu_q8_quantise(&b->kernels, &q8, sluice_cpu_act_row(b, q->x, 0),
                           sluice_cpu_act_ld(b, q->x), begin, end);
}

static bool
acts_are_equal(SluiceAct a, SluiceAct b)
{
    return a.id == b.id && a.offset == b.offset &&
           sluice_cpu_act_width(a) == sluice_cpu_act_width(b);
}

static int
find_q8_slot(SluiceCpuBackend *b, SluiceAct x, SluiceRows rows, bool *is_hit)
{
    int oldest = 0;

    for (int i = 0; i < SLUICE_CPU_Q8_SLOTS; i++) {
        const SluiceCpuQ8Slot *slot = &b->q8_slots[i];
        if (slot->is_valid && slot->rows == rows && acts_are_equal(slot->act, x) &&
            slot->version == b->act_versions[x.id]) {
            *is_hit = true;
            return i;
        }
        if (slot->last_used < b->q8_slots[oldest].last_used)
            oldest = i;
    }
    *is_hit = false;
    return oldest;
}

/* The quantised form of x, from the cache or by a stage that is enqueued. */
static bool
prepare_q8(SluiceCpuBackend *b, SluiceOpTag tag, SluiceAct x, const SluiceBatch *batch,
           SluiceCpuQ8 *q8, int *q8_slot)
{
    int64_t n_rows = sluice_cpu_n_rows(batch, tag.rows);
    int64_t n_cols = sluice_cpu_act_width(x);
    bool is_hit;
    int index = find_q8_slot(b, x, tag.rows, &is_hit);
    SluiceCpuQ8Slot *slot = &b->q8_slots[index];
    QuantiseArgs *args;
    SluiceCpuStage stage;

    if (n_cols % 32 != 0 || sluice_cpu_q8_bytes(n_rows, n_cols) > b->layout.q8_slot) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "%" G_GINT64_FORMAT " values of layer %d are to be quantised, "
                                "expected a multiple of 32 up to %" G_GINT64_FORMAT,
                                n_cols, tag.layer, b->layout.max_width);
        return false;
    }
    sluice_cpu_q8_place(q8, n_rows, n_cols, slot->memory);
    *q8_slot = index;
    slot->last_used = ++b->n_q8_uses;
    if (is_hit)
        return true;
    slot->act = x;
    slot->rows = tag.rows;
    slot->version = b->act_versions[x.id];
    slot->is_valid = true;
    args = sluice_cpu_program_alloc(b, sizeof *args);
    *args = (QuantiseArgs){x, *q8};
    stage =
        sluice_cpu_stage(run_quantise, args, batch, n_rows, sluice_cpu_is_small(n_rows, n_cols));
    sluice_cpu_stage_act(&stage, x, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_Q8 + (uint32_t) index, true);
    sluice_cpu_program_add(b, &stage);
    return true;
}

/* The input of a product, quantised where the weight wants that; *q8_slot is -1 otherwise. */
bool
sluice_cpu_matmul_prepare_input(SluiceCpuBackend *b, SluiceOpTag tag, SluiceAct x,
                                const SluiceBatch *batch, bool wants_q8,
                                SluiceCpuMatmulInput *input, int *q8_slot)
{
    *q8_slot = -1;
    if (!sluice_cpu_act_is_plain(x)) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "the input of a product of layer %d is cut into heads %d apart",
                                tag.layer, x.stride);
        return false;
    }
    memset(input, 0, sizeof *input);
    input->x = sluice_cpu_act_row(b, x, 0);
    input->ldx = sluice_cpu_act_ld(b, x);
    input->n_rows = sluice_cpu_n_rows(batch, tag.rows);
    return !wants_q8 || prepare_q8(b, tag, x, batch, &input->q8, q8_slot);
}

/* Quantises n values into columns [col, col + n) of a row; both are multiples of 32. */
void
sluice_cpu_quantise_part(const SluiceCpuKernels *k, const SluiceCpuQ8 *q8, int64_t row, int64_t col,
                         const float *x, int64_t n)
{
    int64_t at = row * q8->n_cols + col;
    SluiceCpuQ8 part = {1, n, q8->q + at, q8->d + at / 32, q8->s32 + at / 32, q8->s16 + at / 16};

    sluice_cpu_q8_quantise(k, &part, x, n, 0, 1);
}

static int64_t
round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Output rows per unit: few enough units that each is worth its trip, and a multiple of what the
 * kernels like. n_rows is the output rows in all. */
int64_t
sluice_cpu_matmul_chunk(const SluiceCpuBackend *b, const SluiceBatch *batch,
                        const SluiceWeightView *view, int64_t n_rows, int64_t multiple)
{
    int64_t granule = sluice_cpu_matmul_granule(view->dtype, batch->n_rows);
    int64_t n_threads = sluice_cpu_n_threads(b, batch);
    int64_t chunk = n_rows / (n_threads * CHUNKS_PER_THREAD);
    int64_t worth =
        (int64_t) (MIN_CHUNK_BYTES / (view->row_stride * (size_t) batch->n_rows + 1)) + 1;

    while (granule % multiple != 0)
        granule += sluice_cpu_matmul_granule(view->dtype, batch->n_rows);
    chunk = MIN(chunk, SLUICE_CPU_CHUNK_COLS);
    chunk = round_up(MAX(MAX(chunk, worth), 1), granule);
    return MAX(granule, MIN(chunk, SLUICE_CPU_CHUNK_COLS / granule * granule));
}

/* ---- matmul --------------------------------------------------------------------------------- */

typedef struct {
    SluiceWeightView view;
    SluiceCpuMatmulInput input;
    float *y; /* row 0, the first column that is written */
    int64_t ldy;
    const float *bias;
    const float *scale;
    int64_t n;     /* columns in all */
    int64_t chunk; /* columns per unit */
    bool accumulate;
} MatmulArgs;

/* y = y * scale + bias, for `n` columns. */
static void
finish_columns(const SluiceCpuKernels *k, float *y, int64_t ldy, int64_t n_rows, int64_t n,
               const float *scale, const float *bias)
{
    for (int64_t t = 0; t < n_rows; t++) {
        if (scale != NULL)
            k->scale(y + t * ldy, y + t * ldy, *scale, n);
        if (bias != NULL)
            k->add(y + t * ldy, y + t * ldy, bias, n);
    }
}

static void
run_matmul(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const MatmulArgs *m = stage->args;
    const SluiceCpuKernels *k = &b->kernels;
    uint8_t *scratch = sluice_cpu_thread_scratch(b, member);
    float *sums = (float *) (scratch + b->layout.thread_product);
    int64_t last = MIN(end * m->chunk, m->n);
    int64_t n_rows = m->input.n_rows;
    /* What is added to goes through scratch, which has room for one chunk. */
    int64_t step = m->accumulate ? m->chunk : last;

    for (int64_t col = begin * m->chunk; col < last; col += step) {
        int64_t n = MIN(step, last - col);
        float *out = m->accumulate ? sums : m->y + col;
        int64_t ld = m->accumulate ? n : m->ldy;
        sluice_cpu_matmul_rows(k, m->view.dtype, m->view.data, m->view.row_stride, m->view.n_cols,
                               col, col + n, &m->input, NULL, 0, out, ld, scratch);
        if (m->scale != NULL || m->bias != NULL)
            finish_columns(k, out, ld, n_rows, n, m->scale, m->bias != NULL ? m->bias + col : NULL);
        for (int64_t t = 0; m->accumulate && t < n_rows; t++)
            k->add(m->y + t * m->ldy + col, m->y + t * m->ldy + col, sums + t * n, n);
    }
}

/* Whether a weight has the shape that an operation needs and a type that can be multiplied. */
bool
sluice_cpu_matmul_check(SluiceCpuBackend *b, SluiceOpTag tag, SluiceWeight weight,
                        const SluiceWeightView *view, int64_t n_cols, int64_t n_rows)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(view->dtype);

    if (view->n_cols == n_cols && view->n_rows == n_rows &&
        sluice_cpu_matmul_supports(view->dtype, view->n_cols))
        return true;
    sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                            "weight %u of layer %d is %s [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
                            "], expected [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT "]",
                            weight, tag.layer, info != NULL ? info->name : "unknown", view->n_rows,
                            view->n_cols, n_rows, n_cols);
    return false;
}

void
sluice_cpu_op_matmul(SluiceBackend *base, const SluiceMatmulArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    MatmulArgs *m = sluice_cpu_program_alloc(b, sizeof *m);
    int64_t width = sluice_cpu_act_width(a->y);
    int64_t n = a->part.end > 0 ? a->part.end - a->part.begin : width;
    SluiceAct written = sluice_act_cols(sluice_act(a->y.id, (int32_t) width),
                                        a->y.offset + a->part.begin, (int32_t) n);
    SluiceCpuStage stage;
    int q8_slot;

    if (!sluice_cpu_backend_view(b, a->tag, a->weight, SLUICE_AXIS_ROWS, a->part, &m->view) ||
        !sluice_cpu_matmul_check(b, a->tag, a->weight, &m->view, sluice_cpu_act_width(a->x), n))
        return;
    if (!sluice_cpu_act_is_plain(a->y)) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "the output of a product of layer %d is cut into heads %d apart",
                                a->tag.layer, a->y.stride);
        return;
    }
    if (!sluice_cpu_matmul_prepare_input(
            b, a->tag, a->x, batch, sluice_cpu_matmul_wants_q8(m->view.dtype), &m->input, &q8_slot))
        return;
    m->y = sluice_cpu_act_row(b, written, 0);
    m->ldy = sluice_cpu_act_ld(b, a->y);
    m->bias = sluice_cpu_backend_vector(b, a->tag, a->bias, a->part.begin, n);
    m->scale = sluice_cpu_backend_vector(b, a->tag, a->scale, 0, 1);
    m->n = n;
    m->chunk = sluice_cpu_matmul_chunk(b, batch, &m->view, n, 1);
    m->accumulate = a->accumulate;
    if (m->input.n_rows == 0)
        return;
    stage = sluice_cpu_stage(run_matmul, m, batch, (n + m->chunk - 1) / m->chunk, false);
    if (q8_slot >= 0)
        sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_Q8 + (uint32_t) q8_slot, false);
    else
        sluice_cpu_stage_act(&stage, a->x, false);
    sluice_cpu_stage_act(&stage, written, true);
    sluice_cpu_program_add(b, &stage);
}

/* ---- ffn ------------------------------------------------------------------------------------ */

typedef struct {
    SluiceWeightView gate;
    SluiceWeightView up;
    SluiceCpuMatmulInput input;
    const float *gate_bias;
    const float *up_bias;
    SluiceActivation activation;
    int64_t n;     /* hidden width of this part */
    int64_t chunk; /* of the hidden layer, per unit */
    bool hides_q8; /* whether the hidden layer is kept quantised */
    SluiceCpuQ8 q8;
    float *hidden;
} FfnArgs;

/* Gate, up and activation for columns [begin, end) of the hidden layer. */
static void
compute_hidden(SluiceCpuBackend *b, const FfnArgs *f, int64_t begin, int64_t end, uint8_t *scratch)
{
    const SluiceCpuKernels *k = &b->kernels;
    int64_t n = end - begin;
    int64_t n_rows = f->input.n_rows;
    float *g = (float *) (scratch + b->layout.thread_product);
    float *u = g + n_rows * n;

    sluice_cpu_matmul_rows(k, f->gate.dtype, f->gate.data, f->gate.row_stride, f->gate.n_cols,
                           begin, end, &f->input, NULL, 0, g, n, scratch);
    sluice_cpu_matmul_rows(k, f->up.dtype, f->up.data, f->up.row_stride, f->up.n_cols, begin, end,
                           &f->input, NULL, 0, u, n, scratch);
    if (f->gate_bias != NULL)
        finish_columns(k, g, n, n_rows, n, NULL, f->gate_bias + begin);
    if (f->up_bias != NULL)
        finish_columns(k, u, n, n_rows, n, NULL, f->up_bias + begin);
    for (int64_t t = 0; t < n_rows; t++) {
        float *h = f->hides_q8 ? g + t * n : f->hidden + t * f->n + begin;
        k->glu[f->activation](h, g + t * n, u + t * n, n);
        if (f->hides_q8)
            sluice_cpu_quantise_part(k, &f->q8, t, begin, h, n);
    }
}

static void
run_hidden(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const FfnArgs *f = stage->args;
    uint8_t *scratch = sluice_cpu_thread_scratch(b, member);

    for (int64_t u = begin; u < end; u++)
        compute_hidden(b, f, u * f->chunk, MIN((u + 1) * f->chunk, f->n), scratch);
}

/* The views of gate and up, whether they are two tensors or one; *width is the hidden width of
 * the whole tensor where they are one. */
bool
sluice_cpu_ffn_views(SluiceCpuBackend *b, SluiceOpTag tag, SluiceWeight gate, SluiceWeight up,
                     SluicePart part, SluiceWeightView *gate_view, SluiceWeightView *up_view,
                     int64_t *width)
{
    const SluicePart whole = {0, 0};
    SluiceWeightView both;

    *width = 0;
    if (gate != 0)
        return sluice_cpu_backend_view(b, tag, gate, SLUICE_AXIS_ROWS, part, gate_view) &&
               sluice_cpu_backend_view(b, tag, up, SLUICE_AXIS_ROWS, part, up_view);
    if (!sluice_cpu_backend_view(b, tag, up, SLUICE_AXIS_ROWS, whole, &both))
        return false;
    *width = both.n_rows / 2;
    *gate_view = both;
    gate_view->n_rows = part.end > 0 ? part.end - part.begin : *width;
    *up_view = *gate_view;
    if (both.data != NULL) {
        gate_view->data = (const uint8_t *) both.data + (size_t) part.begin * both.row_stride;
        up_view->data = (const uint8_t *) gate_view->data + (size_t) *width * both.row_stride;
    }
    return true;
}

/* Where the hidden layer of n_rows rows lies: quantised, or as it is. */
bool
sluice_cpu_place_hidden(SluiceCpuBackend *b, int64_t n_rows, int64_t n_cols, bool is_q8,
                        SluiceCpuQ8 *q8, float **hidden)
{
    size_t n_bytes = is_q8 ? sluice_cpu_q8_bytes(n_rows, n_cols)
                           : (size_t) n_rows * (size_t) n_cols * sizeof(float);

    if (!sluice_cpu_backend_reserve(b, &b->hidden, n_bytes))
        return false;
    if (is_q8)
        sluice_cpu_q8_place(q8, n_rows, n_cols, b->hidden.data);
    *hidden = b->hidden.data;
    return true;
}

static bool
prepare_ffn(SluiceCpuBackend *b, const SluiceFfnArgs *a, const SluiceBatch *batch, FfnArgs *f,
            MatmulArgs *down, int *q8_slot)
{
    int64_t n_in = sluice_cpu_act_width(a->x);
    int64_t n_rows = sluice_cpu_n_rows(batch, a->tag.rows);
    int64_t width;

    if (!sluice_cpu_ffn_views(b, a->tag, a->gate, a->up, a->part, &f->gate, &f->up, &width) ||
        !sluice_cpu_backend_view(b, a->tag, a->down, SLUICE_AXIS_COLS, a->part, &down->view))
        return false;
    f->n = f->up.n_rows;
    if (!sluice_cpu_matmul_check(b, a->tag, a->up, &f->up, n_in, f->n) ||
        !sluice_cpu_matmul_check(b, a->tag, a->gate != 0 ? a->gate : a->up, &f->gate, n_in, f->n) ||
        !sluice_cpu_matmul_check(b, a->tag, a->down, &down->view, f->n, sluice_cpu_act_width(a->y)))
        return false;
    f->activation = a->activation;
    if (a->gate == 0 && a->up_bias != 0) {
        /* One bias for both halves, as the weight is. */
        f->gate_bias = sluice_cpu_backend_vector(b, a->tag, a->up_bias, a->part.begin, f->n);
        f->up_bias = sluice_cpu_backend_vector(b, a->tag, a->up_bias, width + a->part.begin, f->n);
    } else {
        f->gate_bias = sluice_cpu_backend_vector(b, a->tag, a->gate_bias, a->part.begin, f->n);
        f->up_bias = sluice_cpu_backend_vector(b, a->tag, a->up_bias, a->part.begin, f->n);
    }
    f->hides_q8 = sluice_cpu_matmul_wants_q8(down->view.dtype);
    f->chunk = sluice_cpu_matmul_chunk(b, batch, &f->up, f->n, f->hides_q8 ? 32 : 1);
    return sluice_cpu_place_hidden(b, n_rows, f->n, f->hides_q8, &f->q8, &f->hidden) &&
           sluice_cpu_matmul_prepare_input(b, a->tag, a->x, batch,
                                           sluice_cpu_matmul_wants_q8(f->up.dtype) ||
                                               sluice_cpu_matmul_wants_q8(f->gate.dtype),
                                           &f->input, q8_slot);
}

void
sluice_cpu_op_ffn(SluiceBackend *base, const SluiceFfnArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    FfnArgs *f = sluice_cpu_program_alloc(b, sizeof *f);
    MatmulArgs *down = sluice_cpu_program_alloc(b, sizeof *down);
    SluiceCpuStage stage;
    int q8_slot;

    memset(f, 0, sizeof *f);
    memset(down, 0, sizeof *down);
    if (!prepare_ffn(b, a, batch, f, down, &q8_slot) || f->input.n_rows == 0)
        return;
    stage = sluice_cpu_stage(run_hidden, f, batch, (f->n + f->chunk - 1) / f->chunk, false);
    sluice_cpu_stage_act(&stage, a->x, false);
    if (q8_slot >= 0)
        sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_Q8 + (uint32_t) q8_slot, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_HIDDEN, true);
    sluice_cpu_program_add(b, &stage);

    down->input.x = f->hidden;
    down->input.ldx = f->n;
    down->input.q8 = f->q8;
    down->input.n_rows = f->input.n_rows;
    down->y = sluice_cpu_act_row(b, a->y, 0);
    down->ldy = sluice_cpu_act_ld(b, a->y);
    if (a->part.begin == 0)
        down->bias =
            sluice_cpu_backend_vector(b, a->tag, a->down_bias, 0, sluice_cpu_act_width(a->y));
    down->n = down->view.n_rows;
    down->chunk = sluice_cpu_matmul_chunk(b, batch, &down->view, down->n, 1);
    down->accumulate = a->accumulate;
    stage =
        sluice_cpu_stage(run_matmul, down, batch, (down->n + down->chunk - 1) / down->chunk, false);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_HIDDEN, false);
    sluice_cpu_stage_act(&stage, a->y, true);
    sluice_cpu_program_add(b, &stage);
}
