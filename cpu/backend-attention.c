/* SPDX-License-Identifier: MIT */
/*
 * Attention over paged keys and values.
 *
 * The query heads that share a KV head are taken together, with the rows of a sequence, as the
 * queries of a tile; a tile goes through the pages in order with a softmax that is corrected as it
 * goes (Milakov and Gimelshein 2018; Dao et al. 2022). Many queries: keys are unpacked and
 * transposed once per page and tile, and both products are small matrix products. Few queries, as
 * in decoding: dot products straight from the page, and the keys are cut into pieces whose
 * results are merged in order. How keys are cut depends on the shape alone, never on the number
 * of threads.
 */
#include "config.h"

#include "cpu/backend-private.h"

#include <math.h>
#include <string.h>

#include "src/core/tensor.h"

enum {
    PIECE_TOKENS = 128,    /* keys that make a piece worth its merge */
    MAX_PIECES = 16,       /* of one tile */
    MIN_GEMM_QUERIES = 12, /* from which transposing keys pays */
};

/* How one sequence is cut. */
typedef struct {
    int64_t unit_begin;
    int32_t n_tiles;
    int32_t n_pieces;
    int32_t piece_tokens; /* a multiple of the page */
    int32_t key_begin;    /* first key that any row of the sequence sees, cut down to a page */
} SeqPlan;

typedef struct {
    SluiceAttentionArgs a;
    const float *sinks;
    int32_t head_begin; /* KV heads */
    int32_t n_heads;
    int32_t n_mates;   /* query heads per KV head */
    int32_t tile_rows; /* rows of a tile */
    int32_t k_dim;
    int32_t v_dim;
    SeqPlan *plans; /* [n_seqs] */
} AttentionArgs;

/* The pool that holds a KV head of a layer. */
static const SluiceCpuKvPool *
find_pool(const SluiceCpuBackend *b, int32_t layer, int32_t head)
{
    for (int32_t i = b->layer_pools[layer]; i >= 0 && i < b->config.n_kv_groups; i++) {
        const SluiceCpuKvPool *pool = &b->kv_pools[i];
        if (pool->group.layer == layer && head >= pool->group.head_begin &&
            head < pool->group.head_end)
            return pool;
    }
    return NULL;
}

static uint8_t *
page_at(const SluiceCpuBackend *b, const SluiceCpuKvPool *pool, const SluiceBatch *batch,
        int32_t seq, int32_t position)
{
    int64_t row = (int64_t) pool->group.table * batch->n_seqs + seq;
    int32_t page = batch->pages[row * b->config.n_table_pages + position / SLUICE_CPU_PAGE];

    return (uint8_t *) b->kv.data + pool->offset + (size_t) page * pool->page_bytes;
}

/* Keys of one head in a page; values likewise. */
static uint8_t *
page_keys(const SluiceCpuKvPool *pool, uint8_t *page, int32_t head)
{
    return page + (size_t) (head - pool->group.head_begin) * SLUICE_CPU_PAGE * pool->k_row_bytes;
}

static uint8_t *
page_values(const SluiceCpuKvPool *pool, uint8_t *page, int32_t head)
{
    size_t n_heads = (size_t) (pool->group.head_end - pool->group.head_begin);

    return page + n_heads * SLUICE_CPU_PAGE * pool->k_row_bytes +
           (size_t) (head - pool->group.head_begin) * SLUICE_CPU_PAGE * pool->v_row_bytes;
}

/* ---- appending ------------------------------------------------------------------------------ */

static void
run_append(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const AttentionArgs *at = stage->args;
    const SluiceBatch *batch = stage->batch;

    for (int64_t t = begin; t < end; t++) {
        int32_t position = batch->positions[t];
        int32_t slot = position % SLUICE_CPU_PAGE;
        const float *k = sluice_cpu_act_row(b, at->a.k, t);
        const float *v = sluice_cpu_act_row(b, at->a.v, t);
        for (int32_t h = at->head_begin; h < at->head_begin + at->n_heads; h++) {
            const SluiceCpuKvPool *pool = find_pool(b, at->a.tag.layer, h);
            uint8_t *page = page_at(b, pool, batch, batch->seq_of_row[t], position);
            b->kernels.kv_store[pool->k_type](page_keys(pool, page, h) +
                                                  (size_t) slot * pool->k_row_bytes,
                                              k + (int64_t) h * at->a.k.stride, at->k_dim);
            b->kernels.kv_store[pool->v_type](page_values(pool, page, h) +
                                                  (size_t) slot * pool->v_row_bytes,
                                              v + (int64_t) h * at->a.v.stride, at->v_dim);
        }
    }
}

/* ---- one tile over some keys ---------------------------------------------------------------- */

/* The scratch of a thread, laid out. */
typedef struct {
    float *queries;    /* [n_queries, k_dim], scaled */
    float *out;        /* [n_queries, v_dim] */
    float *keys;       /* [page, k_dim] */
    float *transposed; /* [k_dim, page] */
    float *values;     /* [page, v_dim] */
    float *scores;     /* [n_queries, page] */
    float *max;        /* [n_queries] */
    float *sum;        /* [n_queries] */
} TileScratch;

static float *
take_floats(float **p, int64_t n)
{
    float *start = *p;

    *p += (n + 15) & ~(int64_t) 15;
    return start;
}

static TileScratch
lay_out_tile(const SluiceCpuBackend *b, const AttentionArgs *at, int member)
{
    float *p = sluice_cpu_thread_scratch(b, member);
    TileScratch s;

    s.queries = take_floats(&p, (int64_t) SLUICE_CPU_TILE_QUERIES * at->k_dim);
    s.out = take_floats(&p, (int64_t) SLUICE_CPU_TILE_QUERIES * at->v_dim);
    s.keys = take_floats(&p, (int64_t) SLUICE_CPU_PAGE * at->k_dim);
    s.transposed = take_floats(&p, (int64_t) SLUICE_CPU_PAGE * at->k_dim);
    s.values = take_floats(&p, (int64_t) SLUICE_CPU_PAGE * at->v_dim);
    s.scores = take_floats(&p, (int64_t) SLUICE_CPU_TILE_QUERIES * SLUICE_CPU_PAGE);
    s.max = take_floats(&p, SLUICE_CPU_TILE_QUERIES);
    s.sum = take_floats(&p, SLUICE_CPU_TILE_QUERIES);
    return s;
}

typedef struct {
    int32_t seq;
    int32_t head; /* KV head */
    int32_t row_begin;
    int32_t n_rows;
    int32_t key_begin;
    int32_t key_end;
    int32_t n_queries; /* n_rows * n_mates, a row's mates next to each other */
} Tile;

static void
gather_queries(const SluiceCpuBackend *b, const AttentionArgs *at, const Tile *tile, TileScratch *s)
{
    for (int32_t i = 0; i < tile->n_queries; i++) {
        int32_t row = tile->row_begin + i / at->n_mates;
        int64_t head = (int64_t) tile->head * at->n_mates + i % at->n_mates;
        const float *q = sluice_cpu_act_row(b, at->a.q, row) + head * at->a.q.stride;
        b->kernels.scale(s->queries + (int64_t) i * at->k_dim, q, at->a.scale, at->k_dim);
        s->max[i] = -INFINITY;
        s->sum[i] = 0;
    }
    memset(s->out, 0, (size_t) tile->n_queries * (size_t) at->v_dim * sizeof *s->out);
}

/* Hides keys [begin, begin + n) that a row must not see. */
static void
mask_scores(const AttentionArgs *at, const SluiceBatch *batch, const Tile *tile, int32_t begin,
            int32_t n, float *scores)
{
    for (int32_t i = 0; i < tile->n_queries; i++) {
        int32_t position = batch->positions[tile->row_begin + i / at->n_mates];
        int32_t first = at->a.window > 0 ? position - at->a.window + 1 : 0;
        float *s = scores + (int64_t) i * SLUICE_CPU_PAGE;
        for (int32_t j = 0; j < MIN(n, first - begin); j++)
            s[j] = -INFINITY;
        for (int32_t j = MAX(0, position + 1 - begin); j < n; j++)
            s[j] = -INFINITY;
    }
}

/* Whether some row of the tile may not see some of keys [begin, end). */
static bool
needs_mask(const AttentionArgs *at, const SluiceBatch *batch, const Tile *tile, int32_t begin,
           int32_t end)
{
    int32_t first = batch->positions[tile->row_begin];
    int32_t last = batch->positions[tile->row_begin + tile->n_rows - 1];

    return end - 1 > first || (at->a.window > 0 && last - begin >= at->a.window);
}

static void
score_page(const SluiceCpuBackend *b, const AttentionArgs *at, const SluiceCpuKvPool *pool,
           const uint8_t *keys, int32_t n, const Tile *tile, TileScratch *s)
{
    const SluiceCpuKernels *k = &b->kernels;
    const float *unpacked = s->keys;

    if (tile->n_queries < MIN_GEMM_QUERIES) {
        k->scores[pool->k_type](s->scores, SLUICE_CPU_PAGE, s->queries, tile->n_queries, keys, n,
                                at->k_dim);
        return;
    }
    if (pool->k_type == SLUICE_CPU_KV_F32)
        unpacked = (const float *) keys;
    else
        k->kv_load[pool->k_type](s->keys, keys, (int64_t) n * at->k_dim);
    k->transpose(s->transposed, SLUICE_CPU_PAGE, unpacked, at->k_dim, n, at->k_dim);
    k->gemm(s->scores, SLUICE_CPU_PAGE, s->queries, at->k_dim, s->transposed, SLUICE_CPU_PAGE,
            tile->n_queries, n, at->k_dim, false);
}

static void
add_page(const SluiceCpuBackend *b, const AttentionArgs *at, const SluiceCpuKvPool *pool,
         const uint8_t *values, int32_t n, const Tile *tile, TileScratch *s)
{
    const SluiceCpuKernels *k = &b->kernels;
    const float *unpacked = s->values;

    if (tile->n_queries < MIN_GEMM_QUERIES) {
        k->values[pool->v_type](s->out, s->scores, SLUICE_CPU_PAGE, tile->n_queries, values, n,
                                at->v_dim);
        return;
    }
    if (pool->v_type == SLUICE_CPU_KV_F32)
        unpacked = (const float *) values;
    else
        k->kv_load[pool->v_type](s->values, values, (int64_t) n * at->v_dim);
    k->gemm(s->out, at->v_dim, s->scores, SLUICE_CPU_PAGE, unpacked, at->v_dim, tile->n_queries,
            at->v_dim, n, true);
}

static void
attend_tile(SluiceCpuBackend *b, const AttentionArgs *at, const SluiceBatch *batch,
            const Tile *tile, TileScratch *s)
{
    const SluiceCpuKernels *k = &b->kernels;
    const SluiceCpuKvPool *pool = find_pool(b, at->a.tag.layer, tile->head);

    gather_queries(b, at, tile, s);
    for (int32_t key = tile->key_begin; key < tile->key_end;) {
        int32_t slot = key % SLUICE_CPU_PAGE;
        int32_t n = MIN(SLUICE_CPU_PAGE - slot, tile->key_end - key);
        uint8_t *page = page_at(b, pool, batch, tile->seq, key);
        score_page(b, at, pool,
                   page_keys(pool, page, tile->head) + (size_t) slot * pool->k_row_bytes, n, tile,
                   s);
        for (int32_t i = 0; i < tile->n_queries && at->a.soft_cap != 0; i++) {
            float *row = s->scores + (int64_t) i * SLUICE_CPU_PAGE;
            k->soft_cap(row, row, at->a.soft_cap, n);
        }
        if (needs_mask(at, batch, tile, key, key + n))
            mask_scores(at, batch, tile, key, n, s->scores);
        for (int32_t i = 0; i < tile->n_queries; i++) {
            float *out = s->out + (int64_t) i * at->v_dim;
            float factor =
                k->softmax(s->scores + (int64_t) i * SLUICE_CPU_PAGE, n, &s->max[i], &s->sum[i]);
            if (factor != 1)
                k->scale(out, out, factor, at->v_dim);
        }
        add_page(b, at, pool,
                 page_values(pool, page, tile->head) + (size_t) slot * pool->v_row_bytes, n, tile,
                 s);
        key += n;
    }
}

/* y = out / sum, where a sink joins the sum. */
static void
finish_query(const SluiceCpuBackend *b, const AttentionArgs *at, int32_t row, int64_t head,
             const float *out, float max, float sum)
{
    float *y = sluice_cpu_act_row(b, at->a.y, row) + head * at->a.y.stride;
    float factor = 1;

    if (at->sinks != NULL) {
        float top = fmaxf(max, at->sinks[head]);
        factor = expf(max - top);
        sum = sum * factor + expf(at->sinks[head] - top);
    }
    b->kernels.scale(y, out, factor / sum, at->v_dim);
}

/* ---- units ---------------------------------------------------------------------------------- */

/* What a piece leaves for the merge: maximum, sum, and the weighted values. */
static float *
partial_at(const SluiceCpuBackend *b, const AttentionArgs *at, int32_t seq, int32_t head_idx,
           int32_t piece, int32_t query)
{
    int64_t index = (int64_t) seq * SLUICE_CPU_MAX_PIECES +
                    (int64_t) head_idx * at->plans[seq].n_pieces + piece;

    return (float *) b->partials +
           (index * SLUICE_CPU_PIECE_QUERIES + query) * ((int64_t) at->v_dim + 2);
}

static void
run_unit(SluiceCpuBackend *b, const AttentionArgs *at, const SluiceBatch *batch, int32_t seq,
         int64_t unit, TileScratch *s)
{
    const SluiceBatchSeq *q = &batch->seqs[seq];
    const SeqPlan *plan = &at->plans[seq];
    /* Tiles with the most keys first, so that the last units are short. */
    int32_t tile_idx = plan->n_tiles - 1 - (int32_t) (unit / plan->n_pieces / at->n_heads);
    int32_t head_idx = (int32_t) (unit / plan->n_pieces % at->n_heads);
    int32_t piece = (int32_t) (unit % plan->n_pieces);
    Tile tile;
    int32_t first_position;

    tile.seq = seq;
    tile.head = at->head_begin + head_idx;
    tile.row_begin = q->row_begin + tile_idx * at->tile_rows;
    tile.n_rows = MIN(at->tile_rows, q->row_begin + q->n_rows - tile.row_begin);
    tile.n_queries = tile.n_rows * at->n_mates;
    first_position = batch->positions[tile.row_begin];
    tile.key_begin = at->a.window > 0 ? MAX(0, first_position - at->a.window + 1) : 0;
    tile.key_end = first_position + tile.n_rows;
    if (plan->n_pieces > 1) {
        int32_t from = plan->key_begin + piece * plan->piece_tokens;
        tile.key_begin = MAX(tile.key_begin, from);
        tile.key_end = MIN(tile.key_end, from + plan->piece_tokens);
    }
    attend_tile(b, at, batch, &tile, s);
    for (int32_t i = 0; i < tile.n_queries; i++) {
        const float *out = s->out + (int64_t) i * at->v_dim;
        if (plan->n_pieces == 1) {
            finish_query(b, at, tile.row_begin + i / at->n_mates,
                         (int64_t) tile.head * at->n_mates + i % at->n_mates, out, s->max[i],
                         s->sum[i]);
        } else {
            float *partial = partial_at(b, at, seq, head_idx, piece, i);
            partial[0] = s->max[i];
            partial[1] = s->sum[i];
            memcpy(partial + 2, out, (size_t) at->v_dim * sizeof *out);
        }
    }
}

static void
run_attention(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end,
              int member)
{
    const AttentionArgs *at = stage->args;
    TileScratch s = lay_out_tile(b, at, member);
    int32_t seq = 0;

    for (int64_t unit = begin; unit < end; unit++) {
        while (seq + 1 < stage->batch->n_seqs && unit >= at->plans[seq + 1].unit_begin)
            seq++;
        run_unit(b, at, stage->batch, seq, unit - at->plans[seq].unit_begin, &s);
    }
}

static void
merge_query(SluiceCpuBackend *b, const AttentionArgs *at, int32_t seq, int32_t head_idx,
            int32_t query, int32_t row, float *out)
{
    const SeqPlan *plan = &at->plans[seq];
    float max = -INFINITY;
    float sum = 0;

    for (int32_t p = 0; p < plan->n_pieces; p++)
        max = fmaxf(max, partial_at(b, at, seq, head_idx, p, query)[0]);
    memset(out, 0, (size_t) at->v_dim * sizeof *out);
    for (int32_t p = 0; p < plan->n_pieces; p++) {
        const float *partial = partial_at(b, at, seq, head_idx, p, query);
        float factor = expf(partial[0] - max);
        sum += partial[1] * factor;
        b->kernels.axpy(out, partial + 2, factor, at->v_dim);
    }
    finish_query(b, at, row,
                 (int64_t) (at->head_begin + head_idx) * at->n_mates + query % at->n_mates, out,
                 max, sum);
}

/* Units are sequence by KV head. */
static void
run_merge(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin, int64_t end, int member)
{
    const AttentionArgs *at = stage->args;
    float *out = sluice_cpu_thread_scratch(b, member);

    for (int64_t unit = begin; unit < end; unit++) {
        int32_t seq = (int32_t) (unit / at->n_heads);
        const SluiceBatchSeq *q = &stage->batch->seqs[seq];
        if (at->plans[seq].n_pieces == 1)
            continue;
        for (int32_t i = 0; i < q->n_rows * at->n_mates; i++)
            merge_query(b, at, seq, (int32_t) (unit % at->n_heads), i,
                        q->row_begin + i / at->n_mates, out);
    }
}

/* ---- lowering ------------------------------------------------------------------------------- */

/* Cuts one sequence; returns the number of its units. */
static int64_t
plan_seq(const AttentionArgs *at, const SluiceBatchSeq *q, SeqPlan *plan)
{
    int32_t last = q->pos_begin + q->n_rows;
    int32_t first = at->a.window > 0 ? MAX(0, q->pos_begin - at->a.window + 1) : 0;
    int32_t n_keys;

    plan->n_tiles = (q->n_rows + at->tile_rows - 1) / at->tile_rows;
    plan->n_pieces = 1;
    plan->key_begin = first / SLUICE_CPU_PAGE * SLUICE_CPU_PAGE;
    n_keys = last - plan->key_begin;
    plan->piece_tokens = n_keys;
    if (q->n_rows * at->n_mates <= SLUICE_CPU_PIECE_QUERIES) {
        int32_t n_pieces = MIN(MIN(MAX_PIECES, SLUICE_CPU_MAX_PIECES / at->n_heads),
                               (n_keys + PIECE_TOKENS - 1) / PIECE_TOKENS);
        if (n_pieces > 1) {
            int32_t tokens = (n_keys + n_pieces - 1) / n_pieces;
            tokens = (tokens + SLUICE_CPU_PAGE - 1) / SLUICE_CPU_PAGE * SLUICE_CPU_PAGE;
            plan->piece_tokens = tokens;
            plan->n_pieces = (n_keys + tokens - 1) / tokens;
        }
    }
    return (int64_t) plan->n_tiles * at->n_heads * plan->n_pieces;
}

static bool
check_pages(SluiceCpuBackend *b, const AttentionArgs *at, const SluiceBatch *batch)
{
    const SluiceCpuKvPool *pool = NULL;

    for (int32_t h = at->head_begin; h < at->head_begin + at->n_heads; h++) {
        if (pool != NULL && h < pool->group.head_end)
            continue;
        pool = find_pool(b, at->a.tag.layer, h);
        if (pool == NULL || pool->group.k_dim != at->k_dim || pool->group.v_dim != at->v_dim) {
            sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                    "layer %d has no pages for head %d with %d and %d values",
                                    at->a.tag.layer, h, at->k_dim, at->v_dim);
            return false;
        }
        for (int32_t t = 0; t < batch->n_rows; t++) {
            int64_t row = (int64_t) pool->group.table * batch->n_seqs + batch->seq_of_row[t];
            int32_t entry = batch->positions[t] / SLUICE_CPU_PAGE;
            int32_t n_pages = b->config.kv_tables[pool->group.table].n_pages;
            int32_t page = entry < b->config.n_table_pages
                               ? batch->pages[row * b->config.n_table_pages + entry]
                               : -1;
            if (page < 0 || page >= n_pages) {
                sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                        "position %d of layer %d has page %d of %d",
                                        batch->positions[t], at->a.tag.layer, page, n_pages);
                return false;
            }
        }
    }
    return true;
}

static bool
prepare_attention(SluiceCpuBackend *b, const SluiceAttentionArgs *a, const SluiceBatch *batch,
                  AttentionArgs *at)
{
    at->a = *a;
    at->k_dim = a->k.dim;
    at->v_dim = a->v.dim;
    if (a->tag.layer < 0 || a->tag.layer >= SLUICE_MAX_LAYERS || a->k.n_head == 0 ||
        a->q.n_head % a->k.n_head != 0 || a->q.n_head / a->k.n_head > SLUICE_CPU_TILE_QUERIES) {
        sluice_cpu_backend_fail(b, SLUICE_STATUS_UNSUPPORTED,
                                "layer %d has %d query heads for %d key heads", a->tag.layer,
                                a->q.n_head, a->k.n_head);
        return false;
    }
    at->n_mates = a->q.n_head / a->k.n_head;
    at->head_begin = a->part.begin;
    at->n_heads = (a->part.end > 0 ? a->part.end : a->k.n_head) - a->part.begin;
    at->tile_rows = SLUICE_CPU_TILE_QUERIES / at->n_mates;
    at->sinks = sluice_cpu_backend_vector(b, a->tag, a->sinks, 0, a->q.n_head);
    at->plans = sluice_cpu_program_alloc(b, (size_t) batch->n_seqs * sizeof *at->plans);
    return check_pages(b, at, batch);
}

/* The heads of an activation that the part touches. */
static void
access_heads(SluiceCpuStage *stage, SluiceAct act, int32_t begin, int32_t n, bool is_write)
{
    act.offset += begin * act.stride;
    act.n_head = (uint16_t) n;
    sluice_cpu_stage_act(stage, act, is_write);
}

void
sluice_cpu_op_attention(SluiceBackend *base, const SluiceAttentionArgs *a, const SluiceBatch *batch)
{
    SluiceCpuBackend *b = (SluiceCpuBackend *) base;
    AttentionArgs *at = sluice_cpu_program_alloc(b, sizeof *at);
    uint32_t kv = SLUICE_CPU_RES_KV + (uint32_t) a->tag.layer;
    int64_t n_units = 0;
    int32_t n_pieces = 1;
    SluiceCpuStage stage;

    if (!prepare_attention(b, a, batch, at))
        return;
    for (int32_t i = 0; i < batch->n_seqs; i++) {
        at->plans[i].unit_begin = n_units;
        n_units += plan_seq(at, &batch->seqs[i], &at->plans[i]);
        n_pieces = MAX(n_pieces, at->plans[i].n_pieces);
    }
    stage = sluice_cpu_stage(run_append, at, batch, batch->n_rows, batch->n_rows <= 2);
    access_heads(&stage, a->k, at->head_begin, at->n_heads, false);
    access_heads(&stage, a->v, at->head_begin, at->n_heads, false);
    sluice_cpu_stage_access(&stage, kv, true);
    sluice_cpu_program_add(b, &stage);

    stage = sluice_cpu_stage(run_attention, at, batch, n_units, false);
    sluice_cpu_stage_access(&stage, kv, false);
    access_heads(&stage, a->q, at->head_begin * at->n_mates, at->n_heads * at->n_mates, false);
    if (n_pieces > 1)
        sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_PARTIALS, true);
    access_heads(&stage, a->y, at->head_begin * at->n_mates, at->n_heads * at->n_mates, true);
    sluice_cpu_program_add(b, &stage);
    if (n_pieces == 1)
        return;

    n_units = (int64_t) batch->n_seqs * at->n_heads;
    stage = sluice_cpu_stage(run_merge, at, batch, n_units, batch->n_seqs == 1);
    sluice_cpu_stage_access(&stage, SLUICE_CPU_RES_PARTIALS, false);
    access_heads(&stage, a->y, at->head_begin * at->n_mates, at->n_heads * at->n_mates, true);
    sluice_cpu_program_add(b, &stage);
}
