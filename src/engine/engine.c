/* SPDX-License-Identifier: MIT */
/*
 * Wishes to sizes, sizes to memory. Every size is computed by the functions that allocate, so that
 * what sluice_engine_memory() says is what sluice_engine_new() takes.
 */
#include "config.h"

#define G_LOG_DOMAIN "Sluice"

#include "src/engine/engine.h"

#include <string.h>
#include <unistd.h>

#include "src/core/error.h"
#include "src/engine/model-text.h"
#include "src/engine/step.h"

#define DEFAULT_CTX 8192
#define DEFAULT_BATCH 2048
#define DEFAULT_UBATCH 512

/* ---- parameters ----------------------------------------------------------------------------- */

/**
 * sluice_engine_params_init:
 * @params: (out): all defaults
 *
 * Since: 0.1
 */
void
sluice_engine_params_init(SluiceEngineParams *params)
{
    g_return_if_fail(params != NULL);
    *params = (SluiceEngineParams){.type_k = SLUICE_KV_F16, .type_v = SLUICE_KV_F16};
}

static gboolean
resolve_int(const char *name, int32_t value, int32_t standard, int32_t max, int32_t *result,
            GError **error)
{
    if (value < 0 || value > max) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "%s is %d, expected 1 to %d", name,
                    value, max);
        return FALSE;
    }
    *result = value > 0 ? value : MIN(standard, max);
    return TRUE;
}

static gboolean
resolve_params(const SluiceModel *model, const SluiceEngineParams *wishes, SluiceEngineParams *p,
               GError **error)
{
    int32_t n_ctx = MIN(model->params.n_ctx_train, DEFAULT_CTX);

    *p = *wishes;
    if (!resolve_int("n_ctx", wishes->n_ctx, n_ctx, SLUICE_MAX_CTX, &p->n_ctx, error) ||
        !resolve_int("n_batch", wishes->n_batch, DEFAULT_BATCH, SLUICE_MAX_CTX, &p->n_batch,
                     error) ||
        !resolve_int("n_ubatch", wishes->n_ubatch, DEFAULT_UBATCH, SLUICE_MAX_UBATCH, &p->n_ubatch,
                     error) ||
        !resolve_int("n_sessions", wishes->n_sessions, 1, SLUICE_MAX_SESSIONS, &p->n_sessions,
                     error))
        return FALSE;
    p->n_ubatch = MIN(MIN(p->n_ubatch, p->n_batch), p->n_ctx);
    if (!resolve_int("n_out", wishes->n_out, p->n_sessions, SLUICE_MAX_UBATCH, &p->n_out, error))
        return FALSE;
    p->n_out = MIN(p->n_out, p->n_ubatch);
    if ((int64_t) p->n_ctx * p->n_sessions > G_MAXINT32) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "%d sessions of %d tokens are more than %d positions", p->n_sessions, p->n_ctx,
                    G_MAXINT32);
        return FALSE;
    }
    if ((unsigned) p->type_k > SLUICE_KV_F32 || (unsigned) p->type_v > SLUICE_KV_F32 ||
        (unsigned) p->load_mode > SLUICE_LOAD_MAP) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "type_k %d, type_v %d or load_mode %d is not one of the enumeration",
                    (int) p->type_k, (int) p->type_v, (int) p->load_mode);
        return FALSE;
    }
    return TRUE;
}

/* A quantised row of keys or values is whole blocks. */
static gboolean
check_kv_type(const char *name, SluiceDtype dtype, int32_t dim, GError **error)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);

    if (dim % info->block_len == 0)
        return TRUE;
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                "%s %s needs heads of a multiple of %d values, this model's have %d", name,
                info->name, info->block_len, dim);
    return FALSE;
}

/* ---- configuration -------------------------------------------------------------------------- */

static void
config_clear(SluiceEngineConfig *c)
{
    g_clear_pointer(&c->kv_groups, g_array_unref);
    g_clear_pointer(&c->kv_tables, g_free);
    g_clear_pointer(&c->windows, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SluiceEngineConfig, config_clear)

static gboolean
config_init(SluiceEngineConfig *c, const SluiceModel *model, const SluiceEngineParams *p,
            GError **error)
{
    static const SluiceDtype dtypes[] = {
        [SLUICE_KV_F16] = SLUICE_DTYPE_F16,
        [SLUICE_KV_Q8_0] = SLUICE_DTYPE_Q8_0,
        [SLUICE_KV_Q4_0] = SLUICE_DTYPE_Q4_0,
        [SLUICE_KV_F32] = SLUICE_DTYPE_F32,
    };
    int32_t n_tables = sluice_model_n_kv_tables(model);

    if (!check_kv_type("type_k", dtypes[p->type_k], model->params.k_dim, error) ||
        !check_kv_type("type_v", dtypes[p->type_v], model->params.v_dim, error))
        return FALSE;
    sluice_layers_acts(model, c->acts);
    c->kv_groups = sluice_model_kv_groups(model, dtypes[p->type_k], dtypes[p->type_v]);
    c->kv_tables = g_new0(SluiceKvTable, n_tables);
    c->windows = g_new0(int32_t, n_tables);
    for (int32_t t = 0; t < n_tables; t++) {
        c->windows[t] = sluice_model_window(model, t);
        c->kv_tables[t].window = c->windows[t];
        c->kv_tables[t].n_pages =
            p->n_sessions * sluice_kv_cache_max_held(p->n_ctx, p->n_ubatch, c->windows[t]);
    }
    c->config = (SluiceBackendConfig){
        .acts = c->acts,
        .n_acts = SLUICE_ACT_COUNT,
        .max_rows = p->n_ubatch,
        .max_out = p->n_out,
        .max_seqs = p->n_sessions,
        .max_hidden = sluice_layers_max_hidden(model),
        .n_experts_used = model->params.moe.n_used,
        .kv_groups = (const SluiceKvGroup *) (gpointer) c->kv_groups->data,
        .n_kv_groups = (int32_t) c->kv_groups->len,
        .kv_tables = c->kv_tables,
        .n_kv_tables = n_tables,
        .n_table_pages = (p->n_ctx + SLUICE_PAGE_TOKENS - 1) / SLUICE_PAGE_TOKENS,
    };
    return TRUE;
}

/* ---- memory --------------------------------------------------------------------------------- */

static size_t
page_table_entries(const SluiceBackendConfig *config)
{
    return (size_t) config->n_kv_tables * (size_t) config->max_seqs *
           (size_t) config->n_table_pages;
}

/* What the engine and its sessions keep on the host besides what the executor counts. */
static size_t
bookkeeping_bytes(const SluiceModel *model, const SluiceBackendConfig *config,
                  const SluiceEngineParams *p)
{
    size_t n_sessions = (size_t) p->n_sessions;
    size_t n_step = (size_t) p->n_ubatch * 4 * sizeof(int32_t) +
                    n_sessions * (sizeof(SluiceBatchSeq) + sizeof(SluiceStepSeq)) +
                    page_table_entries(config) * sizeof(int32_t);
    size_t n_rows = page_table_entries(config) * sizeof(int32_t);
    size_t n_logits = n_sessions * (size_t) model->params.n_vocab * sizeof(float);
    size_t n_tokens = n_sessions * (size_t) p->n_ctx * sizeof(int32_t);
    size_t n_cache = 0;

    for (int32_t t = 0; t < config->n_kv_tables; t++)
        n_cache += sluice_kv_cache_bytes(1, &config->kv_tables[t].n_pages);
    return n_step + n_rows + n_logits + n_tokens + n_cache;
}

/* The resident set now, of which the vocabulary is a part; 0 where the system does not say. */
static uint64_t
resident_bytes(void)
{
    g_autofree char *text = NULL;
    char *resident;

    if (!g_file_get_contents("/proc/self/statm", &text, NULL, NULL) ||
        (resident = strchr(text, ' ')) == NULL)
        return 0;
    return g_ascii_strtoull(resident, NULL, 10) * (uint64_t) sysconf(_SC_PAGESIZE);
}

static gboolean
count_memory(const SluiceModel *model, const SluiceEngineConfig *config,
             const SluiceEngineParams *p, SluiceMemory *memory, GError **error)
{
    uint64_t resident = resident_bytes();

    *memory = (SluiceMemory){.vocabulary = sluice_model_text_bytes(model)};
    memory->process = resident - MIN(resident, memory->vocabulary);
    if (!sluice_backends_memory(model, &config->config, p, memory, error))
        return FALSE;
    memory->scratch += bookkeeping_bytes(model, &config->config, p);
    memory->total = memory->weights + memory->kv + memory->state + memory->activations +
                    memory->scratch + memory->vocabulary + memory->process;
    return TRUE;
}

/**
 * sluice_engine_memory:
 * @model: a model
 * @params: what an engine would be made with
 * @memory: (out): what it would take
 * @error: return location, or %NULL
 *
 * Counts with the functions that allocate; touches no weight. To be called before an engine exists:
 * what the process holds already is counted as its own.
 *
 * Returns: false with %SLUICE_ERROR_ARGUMENT for a value out of range, or %SLUICE_ERROR_MEMORY
 *   if weights must be in memory and do not fit
 * Since: 0.1
 */
gboolean
sluice_engine_memory(SluiceModel *model, const SluiceEngineParams *params, SluiceMemory *memory,
                     GError **error)
{
    SluiceEngineParams p;
    g_auto(SluiceEngineConfig) config = {0};
    SluiceMemory counted;

    g_return_val_if_fail(model != NULL && params != NULL && memory != NULL, FALSE);
    if (!resolve_params(model, params, &p, error) || !config_init(&config, model, &p, error) ||
        !count_memory(model, &config, &p, &counted, error))
        return FALSE;
    *memory = counted;
    return TRUE;
}

/* ---- the engine ----------------------------------------------------------------------------- */

static gboolean
allocate_step(SluiceEngine *e, const SluiceBackendConfig *config, GError **error)
{
    const SluiceEngineParams *p = &e->params;
    size_t n_entries = page_table_entries(config);

    e->tokens = g_new(int32_t, p->n_ubatch);
    e->positions = g_new(int32_t, p->n_ubatch);
    e->seq_of_row = g_new(int32_t, p->n_ubatch);
    e->out_rows = g_new(int32_t, p->n_ubatch);
    e->seqs = g_new(SluiceBatchSeq, p->n_sessions);
    e->step_seqs = g_new(SluiceStepSeq, p->n_sessions);
    e->pages = g_try_new(int32_t, n_entries);
    if (e->pages != NULL)
        return TRUE;
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY, "cannot allocate %zu bytes of page table",
                n_entries * sizeof(int32_t));
    return FALSE;
}

/**
 * sluice_engine_new:
 * @model: a model; a reference is taken
 * @params: sizes, threads, where the weights go
 * @error: return location, or %NULL
 *
 * Loads the weights and starts the executor.
 *
 * Returns: (transfer full): the engine, or %NULL with an error that names the value and its limit,
 *   or the size that was not to be had
 * Since: 0.1
 */
SluiceEngine *
sluice_engine_new(SluiceModel *model, const SluiceEngineParams *params, GError **error)
{
    SluiceEngineParams p;
    g_auto(SluiceEngineConfig) config = {0};
    g_autoptr(SluiceEngine) e = NULL;

    g_return_val_if_fail(model != NULL && params != NULL, NULL);
    if (!resolve_params(model, params, &p, error) || !config_init(&config, model, &p, error))
        return NULL;
    if (p.n_ctx > model->params.n_ctx_train)
        g_info("a context of %d tokens is longer than the %d that the model was made for", p.n_ctx,
               model->params.n_ctx_train);
    e = g_new0(SluiceEngine, 1);
    g_atomic_ref_count_init(&e->n_refs);
    e->model = sluice_model_ref(model);
    e->params = p;
    if (!allocate_step(e, &config.config, error) ||
        !sluice_backends_open(&e->backends, model, &config.config, &p, error))
        return NULL;
    e->backend = e->backends.backend;
    sluice_kv_cache_init(&e->cache, config.config.n_kv_tables, config.windows, p.n_ctx, p.n_ubatch,
                         p.n_sessions);
    return g_steal_pointer(&e);
}

SluiceEngine *
sluice_engine_ref(SluiceEngine *engine)
{
    g_atomic_ref_count_inc(&engine->n_refs);
    return engine;
}

/**
 * sluice_engine_free:
 * @engine: (nullable): an engine
 *
 * Lets go of it. Memory goes back when its last session is freed too.
 *
 * Since: 0.1
 */
void
sluice_engine_free(SluiceEngine *engine)
{
    if (engine == NULL || !g_atomic_ref_count_dec(&engine->n_refs))
        return;
    sluice_kv_cache_clear(&engine->cache);
    sluice_backends_close(&engine->backends);
    sluice_model_unref(engine->model);
    g_free(engine->tokens);
    g_free(engine->positions);
    g_free(engine->seq_of_row);
    g_free(engine->out_rows);
    g_free(engine->seqs);
    g_free(engine->step_seqs);
    g_free(engine->pages);
    g_free(engine);
}

/**
 * sluice_engine_model:
 * @engine: an engine
 *
 * Returns: (transfer none): its model
 * Since: 0.1
 */
SluiceModel *
sluice_engine_model(SluiceEngine *engine)
{
    g_return_val_if_fail(engine != NULL, NULL);
    return engine->model;
}

/**
 * sluice_engine_n_ctx:
 * @engine: an engine
 *
 * Returns: tokens that one session holds at most
 * Since: 0.1
 */
int32_t
sluice_engine_n_ctx(const SluiceEngine *engine)
{
    g_return_val_if_fail(engine != NULL, 0);
    return engine->params.n_ctx;
}

/**
 * sluice_engine_n_threads:
 * @engine: an engine
 *
 * Returns: threads that compute
 * Since: 0.1
 */
int
sluice_engine_n_threads(const SluiceEngine *engine)
{
    g_return_val_if_fail(engine != NULL, 0);
    return sluice_backends_n_threads(&engine->backends);
}

/**
 * sluice_engine_describe:
 * @engine: an engine
 *
 * Returns: (transfer full): processor, threads and what was chosen, in words
 * Since: 0.1
 */
char *
sluice_engine_describe(SluiceEngine *engine)
{
    g_return_val_if_fail(engine != NULL, NULL);
    return sluice_backends_describe(&engine->backends);
}

/**
 * sluice_engine_eval:
 * @engine: an engine
 * @items: sessions of this engine, each once, with the tokens that are appended to it
 * @n_items: their number
 * @error: return location, or %NULL
 *
 * Evaluates several sequences in common batches. Afterwards each session has the logits behind its
 * last token. On failure or cancellation every session holds what was evaluated in full
 * micro-batches.
 *
 * Returns: false with %SLUICE_ERROR_CONTEXT if a session's context is too small: then nothing has
 *   changed; %SLUICE_ERROR_ARGUMENT for an id that the model does not have; or
 *   %SLUICE_ERROR_CANCELLED
 * Since: 0.1
 */
gboolean
sluice_engine_eval(SluiceEngine *engine, const SluiceEvalItem *items, gsize n_items, GError **error)
{
    g_autofree SluiceStepItem *steps = NULL;
    gboolean is_sound = TRUE;

    g_return_val_if_fail(engine != NULL && (items != NULL || n_items == 0), FALSE);
    g_return_val_if_fail(n_items <= (gsize) engine->params.n_sessions, FALSE);
    steps = g_new0(SluiceStepItem, n_items + 1);
    for (gsize i = 0; i < n_items && is_sound; i++) {
        SluiceSession *s = items[i].session;

        if (s == NULL || s->engine != engine || s->is_listed) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                        "item %zu is no session of this engine, or is listed twice", i);
            is_sound = FALSE;
        } else {
            is_sound = sluice_session_check(s, items[i].tokens, items[i].n_tokens, error);
            s->is_listed = true;
        }
    }
    for (gsize i = 0; i < n_items; i++) {
        if (items[i].session != NULL)
            items[i].session->is_listed = false;
    }
    if (!is_sound)
        return FALSE;
    for (gsize i = 0; i < n_items; i++) {
        sluice_session_append(items[i].session, items[i].tokens, items[i].n_tokens);
        steps[i] = (SluiceStepItem){.session = items[i].session,
                                    .end = items[i].session->n_tokens,
                                    .first_out = items[i].session->n_tokens};
    }
    return sluice_step_run(engine, steps, n_items, error);
}
