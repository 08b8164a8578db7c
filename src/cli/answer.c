/* SPDX-License-Identifier: MIT */
/*
 * The token loop of the program: draw, show, evaluate. Text passes three stations: bytes of tokens
 * become whole characters, characters pass the stop strings, what is left is shown.
 */
#include "config.h"

#include "src/cli/answer.h"
#include "src/cli/interrupt.h"
#include "src/cli/stop-match.h"
#include "src/cli/terminal.h"
#include "src/core/error.h"
#include "src/engine/model-text.h"
#include "src/text/detokenizer.h"

#include <string.h>

/* The text on its way from tokens to standard output. */
typedef struct {
    SluiceDetokenizer *characters;
    SluiceStopMatch stops;
    GString *visible; /* what passed the stop strings */
    SluiceAnswer *answer;
    const SluiceAnswerParams *params;
} Stream;

/**
 * sluice_answer_init:
 * @answer: storage of the caller
 *
 * Makes it an empty answer.
 */
void
sluice_answer_init(SluiceAnswer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->text = g_string_new(NULL);
}

/**
 * sluice_answer_clear:
 * @answer: from sluice_answer_init()
 *
 * Frees what @answer holds.
 */
void
sluice_answer_clear(SluiceAnswer *answer)
{
    if (answer->text != NULL)
        g_string_free(answer->text, TRUE);
    answer->text = NULL;
}

/**
 * sluice_answer_finish_word:
 * @finish: why an answer ended
 *
 * Returns: the word for it in JSON, of the OpenAI interface where that has one
 */
const char *
sluice_answer_finish_word(SluiceFinish finish)
{
    switch (finish) {
    case SLUICE_FINISH_END:
    case SLUICE_FINISH_STOP:
        return "stop";
    case SLUICE_FINISH_LENGTH:
    case SLUICE_FINISH_CONTEXT:
        return "length";
    case SLUICE_FINISH_CANCELLED:
        return "cancelled";
    }
    g_assert_not_reached();
}

/* ---- text ----------------------------------------------------------------------------------- */

static gboolean
show(Stream *s, GError **error)
{
    gsize n_skip = 0;
    gboolean ok = TRUE;

    if (s->params->trims_begin && s->answer->text->len == 0)
        n_skip = strspn(s->visible->str, " \n");
    g_string_append_len(s->answer->text, s->visible->str + n_skip,
                        (gssize) (s->visible->len - n_skip));
    if (s->params->is_shown)
        ok = sluice_terminal_write(s->visible->str + n_skip, s->visible->len - n_skip, error);
    g_string_truncate(s->visible, 0);
    return ok;
}

/* The text of one more token; *has_stopped if a stop string is complete. */
static gboolean
stream_token(Stream *s, int32_t token, bool *has_stopped, GError **error)
{
    gsize n_bytes;
    const char *text = sluice_detokenizer_push(s->characters, token, &n_bytes);

    *has_stopped = sluice_stop_match_push(&s->stops, text, n_bytes, s->visible);
    return show(s, error);
}

static gboolean
stream_end(Stream *s, GError **error)
{
    gsize n_bytes;
    const char *text = sluice_detokenizer_flush(s->characters, &n_bytes);

    if (!sluice_stop_match_push(&s->stops, text, n_bytes, s->visible))
        sluice_stop_match_end(&s->stops, s->visible);
    return show(s, error);
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* Whether @error only says that the user asked to stop; then it is forgotten. */
static bool
was_cancelled(SluiceAnswer *answer, GError **error)
{
    if (!g_error_matches(*error, SLUICE_ERROR, SLUICE_ERROR_CANCELLED))
        return false;
    g_clear_error(error);
    answer->finish = SLUICE_FINISH_CANCELLED;
    return true;
}

static gboolean
generate(Stream *s, GError **error)
{
    const SluiceAnswerParams *params = s->params;
    SluiceAnswer *answer = s->answer;
    const SluiceModel *model = sluice_engine_model(params->engine);
    gsize n_ctx = (gsize) sluice_engine_n_ctx(params->engine);
    gsize n_held = 0;

    answer->finish = SLUICE_FINISH_LENGTH;
    while (params->n_predict < 0 || answer->n_generated < (gsize) params->n_predict) {
        bool has_stopped = false;
        int32_t token;

        if (sluice_interrupt_came()) {
            answer->finish = SLUICE_FINISH_CANCELLED;
            return TRUE;
        }
        token = sluice_sampler_draw(params->sampler, sluice_session_logits(params->session));
        if (sluice_model_is_end(model, token)) {
            answer->finish = SLUICE_FINISH_END;
            return TRUE;
        }
        sluice_sampler_accept(params->sampler, token);
        answer->n_generated++;
        if (!stream_token(s, token, &has_stopped, error))
            return FALSE;
        if (has_stopped) {
            answer->finish = SLUICE_FINISH_STOP;
            return TRUE;
        }
        if (params->n_predict >= 0 && answer->n_generated >= (gsize) params->n_predict)
            return TRUE;
        sluice_session_tokens(params->session, &n_held);
        if (n_held >= n_ctx) {
            answer->finish = SLUICE_FINISH_CONTEXT;
            return TRUE;
        }
        if (!sluice_session_eval(params->session, &token, 1, error))
            return FALSE;
        answer->n_steps++;
    }
    return TRUE;
}

static gboolean
answer_stream(Stream *s, const int32_t *tokens, gsize n_tokens, GError **error)
{
    const SluiceAnswerParams *params = s->params;
    SluiceAnswer *answer = s->answer;
    gint64 begin = g_get_monotonic_time(), decode_begin;
    gboolean ok;

    ok = sluice_session_prompt(params->session, tokens, n_tokens, &answer->n_evaluated, error);
    decode_begin = g_get_monotonic_time();
    answer->prompt_seconds = (double) (decode_begin - begin) / 1e6;
    if (!ok)
        return FALSE;
    sluice_sampler_reset(params->sampler);
    for (gsize i = 0; i < n_tokens; i++)
        sluice_sampler_accept(params->sampler, tokens[i]);
    ok = generate(s, error);
    answer->decode_seconds = (double) (g_get_monotonic_time() - decode_begin) / 1e6;
    return ok;
}

/**
 * sluice_answer_make:
 * @answer: from sluice_answer_init(), still empty
 * @params: how
 * @tokens: the whole conversation as the model is to see it
 * @n_tokens: at least 1
 * @error: return location, or %NULL
 *
 * Cancelling is no failure: the answer is then what there was.
 *
 * Returns: %FALSE if the prompt does not fit the context, or something broke
 */
gboolean
sluice_answer_make(SluiceAnswer *answer, const SluiceAnswerParams *params, const int32_t *tokens,
                   gsize n_tokens, GError **error)
{
    g_autoptr(GError) own_error = NULL;
    const SluiceModel *model = sluice_engine_model(params->engine);
    g_autoptr(SluiceDetokenizer) characters = sluice_detokenizer_new(
        (SluiceTokenizer *) sluice_model_text_tokenizer(model), SLUICE_DECODE_PLAIN);
    g_autoptr(GString) visible = g_string_new(NULL);
    Stream s = {.characters = characters, .visible = visible, .answer = answer, .params = params};
    gsize n_ctx = (gsize) sluice_engine_n_ctx(params->engine);
    gboolean ok;

    answer->n_prompt = n_tokens;
    if (n_tokens == 0 || n_tokens > n_ctx) {
        if (n_tokens == 0)
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "the prompt is empty");
        else
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_CONTEXT,
                        "the prompt has %zu tokens, but the context holds %zu; shorten it, or "
                        "raise --ctx-size",
                        n_tokens, n_ctx);
        return FALSE;
    }
    sluice_stop_match_init(&s.stops, params->stops, params->n_stops);
    ok = answer_stream(&s, tokens, n_tokens, &own_error) || was_cancelled(answer, &own_error);
    if (ok)
        ok = stream_end(&s, &own_error);
    sluice_stop_match_clear(&s.stops);
    if (!ok)
        g_propagate_error(error, g_steal_pointer(&own_error));
    return ok;
}
