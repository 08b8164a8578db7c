/* SPDX-License-Identifier: MIT */
/*
 * Every question renders the whole conversation anew; the session keeps the tokens that are the
 * same as before, so that only what is new is evaluated.
 */
#include "config.h"

#include "src/cli/conversation.h"
#include "src/cli/interrupt.h"
#include "src/cli/load.h"
#include "src/cli/terminal.h"
#include "src/core/error.h"

#include <string.h>

static bool
append_message(json_t *messages, const char *role, const char *content)
{
    return json_array_append_new(messages,
                                 json_pack("{s:s, s:s}", "role", role, "content", content)) == 0;
}

/* The messages of a conversation in which nothing has been said. */
static json_t *
new_messages(const char *system)
{
    json_t *messages = json_array();

    if (system != NULL && system[0] != '\0')
        append_message(messages, "system", system);
    return messages;
}

static gboolean
check_template(SluiceConversation *c, GError **error)
{
    if (!c->options->raw) {
        if (sluice_model_has_chat_template(c->model))
            return TRUE;
        sluice_terminal_note("this model has no chat template: the prompt is continued as plain "
                             "text, as with --raw");
    }
    if (c->options->system != NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "--system needs a chat template, and plain text is continued here");
        return FALSE;
    }
    c->raw = g_string_new(NULL);
    return TRUE;
}

static gboolean
open_session(SluiceConversation *c, GError **error)
{
    SluiceSamplerParams params;

    sluice_sampler_params_init(&params, c->model);
    sluice_options_sampler(c->options, &params);
    c->sampler = sluice_sampler_new(c->model, &params, error);
    if (c->sampler == NULL)
        return FALSE;
    c->session = sluice_session_new(c->engine, error);
    if (c->session == NULL)
        return FALSE;
    if (sluice_terminal_is_verbose())
        sluice_terminal_note("seed: %u", sluice_sampler_seed(c->sampler));
    return TRUE;
}

/**
 * sluice_conversation_open:
 * @c: storage of the caller
 * @options: parsed; must outlive @c
 * @path: of the model
 *
 * Loads the model. sluice_conversation_close() is due whatever comes back.
 *
 * Returns: a #SluiceExit; what went wrong has been said
 */
int
sluice_conversation_open(SluiceConversation *c, const SluiceOptions *options, const char *path)
{
    g_autoptr(GError) error = NULL;
    int status;

    memset(c, 0, sizeof *c);
    c->options = options;
    c->path = g_strdup(path);
    c->messages = new_messages(options->system);
    status = sluice_load_model(path, &c->model);
    if (status != SLUICE_EXIT_OK)
        return status;
    if (sluice_terminal_is_verbose()) {
        g_autofree char *type = sluice_model_type(c->model);

        sluice_terminal_note("model: %s", type);
    }
    if (!check_template(c, &error))
        return sluice_terminal_fail(error);
    status = sluice_load_engine(c->model, &options->engine, 0, &c->engine, &c->load_seconds);
    if (status != SLUICE_EXIT_OK)
        return status;
    return open_session(c, &error) ? SLUICE_EXIT_OK : sluice_terminal_fail(error);
}

/**
 * sluice_conversation_close:
 * @c: from sluice_conversation_open()
 *
 * Frees what @c holds.
 */
void
sluice_conversation_close(SluiceConversation *c)
{
    sluice_interrupt_release();
    g_clear_pointer(&c->session, sluice_session_free);
    g_clear_pointer(&c->sampler, sluice_sampler_free);
    g_clear_pointer(&c->engine, sluice_engine_free);
    g_clear_pointer(&c->model, sluice_model_unref);
    g_clear_pointer(&c->messages, json_decref);
    g_clear_pointer(&c->path, g_free);
    if (c->raw != NULL)
        g_string_free(c->raw, TRUE);
    c->raw = NULL;
}

static GArray *
chat_tokens(SluiceConversation *c, GError **error)
{
    g_autofree char *rendered = NULL;
    char *text = json_dumps(c->messages, JSON_COMPACT);
    SluiceChatRequest request = {.messages_json = text,
                                 .add_generation_prompt = TRUE,
                                 .enable_thinking =
                                     c->options->thinking == SLUICE_THINKING_AUTO
                                         ? -1
                                         : c->options->thinking == SLUICE_THINKING_ON};
    GArray *tokens = sluice_model_chat_tokens(c->model, &request, &rendered, error);

    free(text);
    if (tokens != NULL && c->options->verbose > 1) {
        g_autofree char *shown = sluice_error_printable(rendered, -1);

        sluice_terminal_note("prompt: %s", shown);
    }
    return tokens;
}

/**
 * sluice_conversation_ask:
 * @c: a conversation
 * @text: what the user says; UTF-8
 * @is_shown: whether the answer is written to standard output while it is made
 * @answer: from sluice_answer_init()
 * @error: return location, or %NULL
 *
 * Ctrl-C cancels the answer; what there is of it becomes part of the conversation.
 *
 * Returns: %FALSE if there is no answer; the conversation is then as it was
 */
gboolean
sluice_conversation_ask(SluiceConversation *c, const char *text, bool is_shown,
                        SluiceAnswer *answer, GError **error)
{
    SluiceAnswerParams params = {.engine = c->engine,
                                 .session = c->session,
                                 .sampler = c->sampler,
                                 .stops = (const char *const *) c->options->stops->pdata,
                                 .n_stops = c->options->stops->len,
                                 .n_predict = c->options->n_predict,
                                 .is_shown = is_shown,
                                 .trims_begin = c->raw == NULL};
    gsize n_messages = json_array_size(c->messages);
    gsize n_raw = c->raw != NULL ? c->raw->len : 0;
    g_autoptr(GArray) tokens = NULL;
    gboolean ok;

    sluice_interrupt_watch(c->session);
    if (c->raw != NULL) {
        g_string_append(c->raw, text);
        tokens = sluice_model_tokenize(c->model, c->raw->str, (gssize) c->raw->len,
                                       SLUICE_TOKENIZE_ADD_SPECIAL | SLUICE_TOKENIZE_PARSE_SPECIAL,
                                       error);
    } else {
        append_message(c->messages, "user", text);
        tokens = chat_tokens(c, error);
    }
    ok = tokens != NULL &&
         sluice_answer_make(answer, &params, (const int32_t *) (void *) tokens->data, tokens->len,
                            error);
    if (!ok) {
        while (json_array_size(c->messages) > n_messages)
            json_array_remove(c->messages, json_array_size(c->messages) - 1);
        if (c->raw != NULL)
            g_string_truncate(c->raw, n_raw);
    } else if (c->raw != NULL) {
        g_string_append(c->raw, answer->text->str);
    } else {
        append_message(c->messages, "assistant", answer->text->str);
    }
    return ok;
}

/**
 * sluice_conversation_reset:
 * @c: a conversation
 * @system: (nullable): the system message of the new one
 * @error: return location, or %NULL
 *
 * Forgets everything that was said.
 *
 * Returns: %FALSE if the session cannot be emptied
 */
gboolean
sluice_conversation_reset(SluiceConversation *c, const char *system, GError **error)
{
    json_t *messages = new_messages(system);

    json_decref(c->messages);
    c->messages = messages;
    if (c->raw != NULL)
        g_string_truncate(c->raw, 0);
    return sluice_session_truncate(c->session, 0, error);
}

/**
 * sluice_conversation_system:
 * @c: a conversation
 *
 * Returns: (nullable): the system message
 */
const char *
sluice_conversation_system(const SluiceConversation *c)
{
    const json_t *first = json_array_get(c->messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));

    if (g_strcmp0(role, "system") != 0)
        return NULL;
    return json_string_value(json_object_get(first, "content"));
}

/* ---- files ---------------------------------------------------------------------------------- */

static char *
messages_path(const char *path)
{
    return g_strconcat(path, ".json", NULL);
}

/**
 * sluice_conversation_save:
 * @c: a conversation
 * @path: where the session goes; the messages go to @path.json
 * @error: return location, or %NULL
 *
 * Returns: %FALSE if one of the files cannot be written
 */
gboolean
sluice_conversation_save(SluiceConversation *c, const char *path, GError **error)
{
    g_autofree char *beside = messages_path(path);
    json_t *all =
        json_pack("{s:O, s:s}", "messages", c->messages, "raw", c->raw != NULL ? c->raw->str : "");
    char *text = json_dumps(all, JSON_INDENT(2));
    g_autoptr(GError) own_error = NULL;
    gboolean ok;

    ok = sluice_session_save(c->session, path, error);
    if (ok) {
        /* Written beside and renamed, so that a full disk leaves the old file whole. */
        ok = g_file_set_contents_full(beside, text, -1, G_FILE_SET_CONTENTS_CONSISTENT, 0600,
                                      &own_error);
        if (!ok)
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "%s", own_error->message);
    }
    free(text);
    json_decref(all);
    return ok;
}

static bool
are_messages(const json_t *messages)
{
    size_t idx;
    json_t *message;

    if (!json_is_array(messages))
        return false;
    json_array_foreach(messages, idx, message)
    {
        if (!json_is_string(json_object_get(message, "role")) ||
            !json_is_string(json_object_get(message, "content")))
            return false;
    }
    return true;
}

/**
 * sluice_conversation_load:
 * @c: a conversation
 * @path: as it was given to sluice_conversation_save()
 * @error: return location, or %NULL
 *
 * Returns: %FALSE if there is no such conversation, or it was one with another model; the
 *   messages are then as they were
 */
gboolean
sluice_conversation_load(SluiceConversation *c, const char *path, GError **error)
{
    g_autofree char *beside = messages_path(path);
    g_autofree char *text = NULL;
    g_autoptr(GError) own_error = NULL;
    json_error_t json_error;
    json_t *all, *messages;
    const char *raw;

    if (!g_file_get_contents(beside, &text, NULL, &own_error)) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "%s", own_error->message);
        return FALSE;
    }
    all = json_loads(text, 0, &json_error);
    messages = json_object_get(all, "messages");
    raw = json_string_value(json_object_get(all, "raw"));
    if (!are_messages(messages) || raw == NULL) {
        g_autofree char *shown = sluice_error_printable(beside, -1);

        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FORMAT, "'%s' holds no conversation", shown);
        json_decref(all);
        return FALSE;
    }
    if (!sluice_session_load(c->session, path, error)) {
        json_decref(all);
        return FALSE;
    }
    json_decref(c->messages);
    c->messages = json_incref(messages);
    if (c->raw != NULL)
        g_string_assign(c->raw, raw);
    json_decref(all);
    return TRUE;
}

/* ---- figures -------------------------------------------------------------------------------- */

static double
rate(gsize n, double seconds)
{
    return seconds > 0 ? (double) n / seconds : 0;
}

/**
 * sluice_conversation_say_figures:
 * @c: a conversation
 * @answer: (nullable): the last answer
 *
 * One line: how long loading took, the rates of the answer, the memory that was used.
 */
void
sluice_conversation_say_figures(const SluiceConversation *c, const SluiceAnswer *answer)
{
    g_autoptr(GString) line = g_string_new(NULL);
    g_autofree char *peak = sluice_terminal_bytes(sluice_load_peak_bytes());

    g_string_printf(line, "load %.2f s", c->load_seconds);
    if (answer != NULL) {
        g_string_append_printf(line, "; prompt %zu token%s", answer->n_prompt,
                               answer->n_prompt == 1 ? "" : "s");
        if (answer->n_evaluated < answer->n_prompt)
            g_string_append_printf(line, " (%zu new)", answer->n_evaluated);
        g_string_append_printf(line, ", %.1f t/s; answer %zu token%s",
                               rate(answer->n_evaluated, answer->prompt_seconds),
                               answer->n_generated, answer->n_generated == 1 ? "" : "s");
        /* The first token comes with the prompt: alone it has no interval to rate. */
        if (answer->n_steps > 0)
            g_string_append_printf(line, ", %.1f t/s",
                                   rate(answer->n_steps, answer->decode_seconds));
    }
    sluice_terminal_note("%s; memory %s", line->str, peak);
}
