/* SPDX-License-Identifier: MIT */
/*
 * A conversation: its tokens, which of them are in the cache, and the logits behind the last one.
 * Cutting it back keeps the cache where everything that the next row reads is still held;
 * otherwise the text is kept and read again, so that an answer is slower but never another one.
 */
#include "config.h"

#include "src/engine/session.h"

#include <string.h>

#include "src/core/error.h"
#include "src/engine/step.h"

/**
 * sluice_session_new:
 * @engine: an engine; it stays in memory as long as its sessions
 * @error: return location, or %NULL
 *
 * Returns: (transfer full): an empty session, or %NULL if the engine has as many as it was made for
 * Since: 0.1
 */
SluiceSession *
sluice_session_new(SluiceEngine *engine, GError **error)
{
    SluiceSession *s;

    g_return_val_if_fail(engine != NULL, NULL);
    if (engine->n_sessions >= engine->params.n_sessions) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "the engine has %d sessions, its limit is %d", engine->n_sessions,
                    engine->params.n_sessions);
        return NULL;
    }
    s = g_new0(SluiceSession, 1);
    s->tokens = g_try_new(int32_t, engine->params.n_ctx);
    s->logits = g_try_new(float, engine->model->params.n_vocab);
    if (s->tokens == NULL || s->logits == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "cannot allocate a session of %d tokens and %d logits", engine->params.n_ctx,
                    engine->model->params.n_vocab);
        g_free(s->tokens);
        g_free(s->logits);
        g_free(s);
        return NULL;
    }
    s->engine = sluice_engine_ref(engine);
    s->kv = sluice_kv_cache_seq_new(&engine->cache);
    engine->n_sessions++;
    return s;
}

/**
 * sluice_session_free:
 * @session: (nullable): a session
 *
 * Since: 0.1
 */
void
sluice_session_free(SluiceSession *session)
{
    if (session == NULL)
        return;
    sluice_kv_cache_seq_free(&session->engine->cache, session->kv);
    session->engine->n_sessions--;
    sluice_engine_free(session->engine);
    g_free(session->tokens);
    g_free(session->logits);
    g_free(session);
}

/**
 * sluice_session_engine:
 * @session: a session
 *
 * Returns: (transfer none): its engine
 * Since: 0.1
 */
SluiceEngine *
sluice_session_engine(SluiceSession *session)
{
    g_return_val_if_fail(session != NULL, NULL);
    return session->engine;
}

static gboolean
check_tokens(const SluiceSession *s, const int32_t *tokens, gsize n, gsize n_before, GError **error)
{
    int32_t n_vocab = s->engine->model->params.n_vocab;

    if (n > (gsize) s->engine->params.n_ctx - n_before) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_CONTEXT,
                    "%zu tokens do not fit the context of %d tokens", n_before + n,
                    s->engine->params.n_ctx);
        return FALSE;
    }
    for (gsize i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= n_vocab) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                        "token id %d is outside the vocabulary of %d", tokens[i], n_vocab);
            return FALSE;
        }
    }
    return TRUE;
}

gboolean
sluice_session_check(const SluiceSession *session, const int32_t *tokens, gsize n, GError **error)
{
    return check_tokens(session, tokens, n, (gsize) session->n_tokens, error);
}

void
sluice_session_append(SluiceSession *session, const int32_t *tokens, gsize n)
{
    if (n > 0)
        memmove(session->tokens + session->n_tokens, tokens, n * sizeof tokens[0]);
    session->n_tokens += (int32_t) n;
}

/* Keeps the first n_tokens of the text, and as much of the cache as is still of use. */
static void
cut_back(SluiceSession *s, int32_t n_tokens)
{
    int32_t n_cached = MIN(s->n_cached, n_tokens);

    if (!sluice_kv_cache_covers(&s->engine->cache, s->kv, n_cached))
        n_cached = 0;
    sluice_kv_cache_truncate(&s->engine->cache, s->kv, n_cached);
    if (n_tokens != s->n_tokens)
        s->has_logits = false;
    s->n_cached = n_cached;
    s->n_tokens = n_tokens;
}

/**
 * sluice_session_eval:
 * @session: a session
 * @tokens: [n]: what is appended
 * @n: their number
 * @error: return location, or %NULL
 *
 * Appends tokens and evaluates them in micro-batches. On failure or cancellation the session holds
 * what was evaluated in full micro-batches.
 *
 * Returns: false with %SLUICE_ERROR_CONTEXT and both numbers if they do not fit: then nothing has
 *   changed; %SLUICE_ERROR_ARGUMENT for an id that the model does not have; or
 *   %SLUICE_ERROR_CANCELLED
 * Since: 0.1
 */
gboolean
sluice_session_eval(SluiceSession *session, const int32_t *tokens, gsize n, GError **error)
{
    SluiceStepItem item = {.session = session};

    g_return_val_if_fail(session != NULL && (tokens != NULL || n == 0), FALSE);
    if (!sluice_session_check(session, tokens, n, error))
        return FALSE;
    sluice_session_append(session, tokens, n);
    item.end = item.first_out = session->n_tokens;
    return sluice_step_run(session->engine, &item, 1, error);
}

/**
 * sluice_session_eval_logits:
 * @session: a session
 * @tokens: [n]: what is appended
 * @n: their number
 * @first: index in @tokens of the first one whose logits are wanted
 * @logits: (out): [n - first, n_vocab]
 * @error: return location, or %NULL
 *
 * As sluice_session_eval(), handing over the logits of all tokens from @first on. Each step gives
 * the logits of at most n_out rows (see #SluiceEngineParams): make that large for speed.
 *
 * Since: 0.1
 */
gboolean
sluice_session_eval_logits(SluiceSession *session, const int32_t *tokens, gsize n, gsize first,
                           float *logits, GError **error)
{
    SluiceStepItem item = {.session = session, .logits = logits};

    g_return_val_if_fail(session != NULL && (tokens != NULL || n == 0), FALSE);
    g_return_val_if_fail(first <= n && (logits != NULL || first == n), FALSE);
    if (!sluice_session_check(session, tokens, n, error))
        return FALSE;
    item.first_out = session->n_tokens + (int32_t) first;
    sluice_session_append(session, tokens, n);
    item.end = session->n_tokens;
    return sluice_step_run(session->engine, &item, 1, error);
}

/**
 * sluice_session_prompt:
 * @session: a session
 * @tokens: [n]: all that it shall hold
 * @n: their number, at least 1
 * @n_evaluated: (out) (optional): tokens that had to be evaluated
 * @error: return location, or %NULL
 *
 * Keeps what @tokens have in common with the session's text and evaluates the rest, at least the
 * last one.
 *
 * Returns: as sluice_session_eval()
 * Since: 0.1
 */
gboolean
sluice_session_prompt(SluiceSession *session, const int32_t *tokens, gsize n, gsize *n_evaluated,
                      GError **error)
{
    SluiceStepItem item = {.session = session};
    gsize n_common = 0;

    g_return_val_if_fail(session != NULL && tokens != NULL && n > 0, FALSE);
    if (!check_tokens(session, tokens, n, 0, error))
        return FALSE;
    while (n_common < n - 1 && n_common < (gsize) session->n_tokens &&
           tokens[n_common] == session->tokens[n_common])
        n_common++;
    cut_back(session, (int32_t) n_common);
    if (n_evaluated != NULL)
        *n_evaluated = n - (gsize) session->n_cached;
    sluice_session_append(session, tokens + n_common, n - n_common);
    item.end = item.first_out = session->n_tokens;
    return sluice_step_run(session->engine, &item, 1, error);
}

/**
 * sluice_session_logits:
 * @session: a session
 *
 * Returns: (nullable): [n_vocab]: the logits behind the last token, valid until the session is
 *   evaluated or cut back; %NULL where there are none
 * Since: 0.1
 */
const float *
sluice_session_logits(const SluiceSession *session)
{
    g_return_val_if_fail(session != NULL, NULL);
    return session->has_logits ? session->logits : NULL;
}

/**
 * sluice_session_tokens:
 * @session: a session
 * @n: (out): their number
 *
 * Returns: (transfer none): the text so far, valid until the session changes
 * Since: 0.1
 */
const int32_t *
sluice_session_tokens(const SluiceSession *session, gsize *n)
{
    g_return_val_if_fail(session != NULL && n != NULL, NULL);
    *n = (gsize) session->n_tokens;
    return session->tokens;
}

/**
 * sluice_session_truncate:
 * @session: a session
 * @n_tokens: how many of its tokens it keeps
 * @error: return location, or %NULL
 *
 * Forgets the end of the text. Where a window has already let go of what comes before it, the text
 * kept is evaluated again together with what is appended next.
 *
 * Returns: false with %SLUICE_ERROR_ARGUMENT if the session is shorter than that
 * Since: 0.1
 */
gboolean
sluice_session_truncate(SluiceSession *session, gsize n_tokens, GError **error)
{
    g_return_val_if_fail(session != NULL, FALSE);
    if (n_tokens > (gsize) session->n_tokens) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "the session has %d tokens, it cannot be cut to %zu", session->n_tokens,
                    n_tokens);
        return FALSE;
    }
    cut_back(session, (int32_t) n_tokens);
    return TRUE;
}

/**
 * sluice_session_fork:
 * @session: a session
 * @error: return location, or %NULL
 *
 * Returns: (transfer full): another one with the same text; both share their pages until one of
 *   them writes
 * Since: 0.1
 */
SluiceSession *
sluice_session_fork(SluiceSession *session, GError **error)
{
    SluiceSession *fork;

    g_return_val_if_fail(session != NULL, NULL);
    fork = sluice_session_new(session->engine, error);
    if (fork == NULL)
        return NULL;
    memcpy(fork->tokens, session->tokens, (size_t) session->n_tokens * sizeof fork->tokens[0]);
    fork->n_tokens = session->n_tokens;
    fork->n_cached = session->n_cached;
    fork->has_logits = session->has_logits;
    if (session->has_logits)
        memcpy(fork->logits, session->logits,
               (size_t) session->engine->model->params.n_vocab * sizeof fork->logits[0]);
    sluice_kv_cache_share(&session->engine->cache, session->kv, fork->kv);
    return fork;
}

/**
 * sluice_session_cancel:
 * @session: a session
 *
 * Stops the evaluation in progress, or else the next one, which returns %SLUICE_ERROR_CANCELLED.
 * Threads: any; also from a signal handler.
 *
 * Since: 0.1
 */
void
sluice_session_cancel(SluiceSession *session)
{
    g_return_if_fail(session != NULL);
    g_atomic_int_set(&session->cancel, 1);
    g_atomic_int_set(&session->engine->cancel, 1);
}
