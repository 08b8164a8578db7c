/* SPDX-License-Identifier: MIT */
/*
 * Micro-batches: rows of several sequences side by side, pages for them, one pass of the model,
 * and the logits that were asked for. Sequences move on only when a step has succeeded.
 */
#include "config.h"

#include "src/engine/step.h"

#include <string.h>

#include "src/core/error.h"

typedef struct {
    SluiceEngine *engine;
    SluiceBatch batch;
    SluiceStepSeq *seqs; /* [n_sessions] */
} Step;

/* Rows of `item` that fit beside what the batch already has. */
static void
choose_rows(const Step *step, const SluiceStepItem *item, SluiceStepSeq *seq)
{
    const SluiceEngineParams *p = &step->engine->params;
    int32_t begin = item->session->n_cached;
    int32_t n_rows = MIN(item->end - begin, p->n_ubatch - step->batch.n_rows);
    int32_t n_out = begin + n_rows - MAX(begin, MIN(item->first_out, item->end - 1));
    int32_t room = p->n_out - step->batch.n_out;

    if (n_out > room) {
        n_rows -= n_out - room;
        n_out = room;
    }
    *seq = (SluiceStepSeq){.item = item, .n_rows = n_rows, .n_out = MAX(0, n_out)};
}

static void
add_rows(Step *step, SluiceStepSeq *seq)
{
    SluiceEngine *e = step->engine;
    SluiceBatch *b = &step->batch;
    int32_t begin = seq->item->session->n_cached;

    seq->out_begin = b->n_out;
    e->seqs[b->n_seqs] = (SluiceBatchSeq){
        .row_begin = b->n_rows, .n_rows = seq->n_rows, .pos_begin = begin, .state_slot = -1};
    for (int32_t i = 0; i < seq->n_rows; i++) {
        int32_t row = b->n_rows + i;

        e->tokens[row] = seq->item->session->tokens[begin + i];
        e->positions[row] = begin + i;
        e->seq_of_row[row] = b->n_seqs;
        if (i >= seq->n_rows - seq->n_out)
            e->out_rows[b->n_out++] = row;
    }
    step->seqs[b->n_seqs++] = *seq;
    b->n_rows += seq->n_rows;
}

static void
fill_batch(Step *step, const SluiceStepItem *items, gsize n_items)
{
    SluiceEngine *e = step->engine;

    step->batch = (SluiceBatch){.tokens = e->tokens,
                                .positions = e->positions,
                                .seq_of_row = e->seq_of_row,
                                .out_rows = e->out_rows,
                                .seqs = e->seqs,
                                .pages = e->pages,
                                .cancel = &e->cancel};
    for (gsize i = 0; i < n_items && step->batch.n_rows < e->params.n_ubatch; i++) {
        SluiceStepSeq seq;

        if (items[i].session->n_cached >= items[i].end)
            continue;
        choose_rows(step, &items[i], &seq);
        if (seq.n_rows > 0)
            add_rows(step, &seq);
    }
}

static void
copy_page(int32_t table, int32_t src, int32_t dst, gpointer user_data)
{
    SluiceEngine *e = user_data;

    e->backend->ops->state_copy(e->backend, &(SluiceStateCopyArgs){.tag = {.layer = -1},
                                                                   .kind = SLUICE_STATE_PAGE,
                                                                   .table = table,
                                                                   .src = src,
                                                                   .dst = dst});
}

/* Pages for the rows of the batch, and the page tables that the executor reads. */
static gboolean
prepare_pages(Step *step, GError **error)
{
    SluiceEngine *e = step->engine;
    size_t n_entries = (size_t) e->cache.n_table_pages;
    int32_t n_seqs = step->batch.n_seqs;

    for (int32_t s = 0; s < n_seqs; s++) {
        SluiceSession *session = step->seqs[s].item->session;

        if (!sluice_kv_cache_reserve(&e->cache, session->kv, session->n_cached,
                                     session->n_cached + step->seqs[s].n_rows, copy_page, e)) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_CONTEXT,
                        "no KV page is left for %d tokens at position %d", step->seqs[s].n_rows,
                        session->n_cached);
            return FALSE;
        }
        for (int32_t t = 0; t < e->cache.n_tables; t++)
            memcpy(e->pages + ((size_t) t * (size_t) n_seqs + (size_t) s) * n_entries,
                   session->kv[t].pages, n_entries * sizeof e->pages[0]);
    }
    return TRUE;
}

static void
read_logits(Step *step, const SluiceStepSeq *seq)
{
    SluiceEngine *e = step->engine;
    int32_t n_vocab = e->model->params.n_vocab;
    SluiceSession *session = seq->item->session;
    int32_t end = session->n_cached + seq->n_rows;
    SluiceReadArgs a = {.tag = {.layer = -1, .rows = SLUICE_ROWS_OUT},
                        .x = sluice_act(SLUICE_ACT_LOGITS, n_vocab)};

    if (seq->n_out == 0)
        return;
    if (seq->item->logits != NULL && end > seq->item->first_out) {
        a.n_rows = MIN(seq->n_out, end - seq->item->first_out);
        a.row_begin = seq->out_begin + seq->n_out - a.n_rows;
        a.host =
            seq->item->logits + (size_t) (end - a.n_rows - seq->item->first_out) * (size_t) n_vocab;
        e->backend->ops->read(e->backend, &a);
    }
    if (end == seq->item->end) {
        a.n_rows = 1;
        a.row_begin = seq->out_begin + seq->n_out - 1;
        a.host = session->logits;
        e->backend->ops->read(e->backend, &a);
    }
}

static SluiceStatus
run_batch(Step *step, char *text, size_t n_text)
{
    SluiceEngine *e = step->engine;
    SluiceBackend *b = e->backend;
    SluiceStepKey key = {
        .n_rows = step->batch.n_rows, .n_seqs = step->batch.n_seqs, .n_out = step->batch.n_out};

    for (int32_t s = 0; s < step->batch.n_seqs; s++) {
        int32_t n_positions = e->seqs[s].pos_begin + e->seqs[s].n_rows;

        key.max_len_pages =
            MAX(key.max_len_pages, (n_positions + SLUICE_PAGE_TOKENS - 1) / SLUICE_PAGE_TOKENS);
    }
    if (b->ops->step_begin(b, &key, &step->batch) == SLUICE_STEP_RECORD)
        e->model->family->forward(
            &(SluiceForward){.model = e->model, .backend = b, .batch = &step->batch});
    b->ops->step_end(b);
    for (int32_t s = 0; s < step->batch.n_seqs; s++)
        read_logits(step, &step->seqs[s]);
    return b->ops->sync(b, text, n_text);
}

static void
advance(Step *step)
{
    for (int32_t s = 0; s < step->batch.n_seqs; s++) {
        SluiceSession *session = step->seqs[s].item->session;

        session->n_cached += step->seqs[s].n_rows;
        session->has_logits = session->n_cached == step->seqs[s].item->end;
    }
}

/* Whether one of these sessions was cancelled; the wish is then used up. */
static bool
take_cancellation(const SluiceStepItem *items, gsize n_items)
{
    bool is_cancelled = false;

    for (gsize i = 0; i < n_items; i++)
        is_cancelled |= g_atomic_int_exchange(&items[i].session->cancel, 0) != 0;
    return is_cancelled;
}

static void
set_status_error(SluiceStatus status, const char *text, GError **error)
{
    static const int codes[] = {
        [SLUICE_STATUS_OK] = SLUICE_ERROR_DEVICE,
        [SLUICE_STATUS_CANCELLED] = SLUICE_ERROR_CANCELLED,
        [SLUICE_STATUS_MEMORY] = SLUICE_ERROR_MEMORY,
        [SLUICE_STATUS_DEVICE] = SLUICE_ERROR_DEVICE,
        [SLUICE_STATUS_UNSUPPORTED] = SLUICE_ERROR_MODEL,
    };

    g_set_error_literal(error, SLUICE_ERROR, codes[status],
                        status == SLUICE_STATUS_CANCELLED ? "cancelled" : text);
}

static gboolean
run_batches(Step *step, const SluiceStepItem *items, gsize n_items, GError **error)
{
    SluiceEngine *e = step->engine;

    for (;;) {
        char text[256] = "";
        SluiceStatus status;

        /* The engine's flag first: whoever cancels sets it last, and is then seen either here or
         * by the executor. */
        g_atomic_int_set(&e->cancel, 0);
        fill_batch(step, items, n_items);
        if (step->batch.n_rows == 0)
            return TRUE;
        if (take_cancellation(items, n_items)) {
            set_status_error(SLUICE_STATUS_CANCELLED, text, error);
            return FALSE;
        }
        if (!prepare_pages(step, error))
            return FALSE;
        status = run_batch(step, text, sizeof text);
        if (status == SLUICE_STATUS_OK) {
            advance(step);
        } else if (status != SLUICE_STATUS_CANCELLED || take_cancellation(items, n_items)) {
            set_status_error(status, text, error);
            return FALSE;
        } /* else a session that is not in this batch was meant: once more. */
    }
}

/* Sessions forget what did not get into the cache. */
static void
settle(const SluiceStepItem *items, gsize n_items)
{
    for (gsize i = 0; i < n_items; i++) {
        SluiceSession *s = items[i].session;

        s->n_tokens = s->n_cached;
        sluice_kv_cache_truncate(&s->engine->cache, s->kv, s->n_cached);
    }
}

/**
 * sluice_step_run:
 * @engine: the engine of all the sessions
 * @items: what each session wants; every session once, its tokens up to @end in place
 * @n_items: their number
 * @error: return location, or %NULL
 *
 * Afterwards each session holds what was evaluated: all of it on success, the full micro-batches
 * otherwise.
 *
 * Returns: false with %SLUICE_ERROR_CANCELLED, or what the executor reported
 */
gboolean
sluice_step_run(SluiceEngine *engine, const SluiceStepItem *items, gsize n_items, GError **error)
{
    Step step = {.engine = engine, .seqs = engine->step_seqs};
    gboolean is_done;

    for (gsize i = 0; i < n_items; i++) {
        if (items[i].session->n_cached < items[i].end)
            items[i].session->has_logits = false;
    }
    is_done = run_batches(&step, items, n_items, error);
    settle(items, n_items);
    return is_done;
}
