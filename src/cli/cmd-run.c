/* SPDX-License-Identifier: MIT */
/*
 * "sluice run": one question, or the chat.
 */
#include "config.h"

#include "src/cli/chat.h"
#include "src/cli/conversation.h"
#include "src/cli/input.h"
#include "src/cli/load.h"
#include "src/cli/terminal.h"
#include "src/core/error.h"

#include <unistd.h>

static gboolean
print_json(const SluiceConversation *c, const SluiceAnswer *answer, GError **error)
{
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I}", "model", c->path, "answer",
        answer->text->str, "finish_reason", sluice_answer_finish_word(answer->finish), "seed",
        (json_int_t) sluice_sampler_seed(c->sampler), "n_prompt", (json_int_t) answer->n_prompt,
        "n_evaluated", (json_int_t) answer->n_evaluated, "n_generated",
        (json_int_t) answer->n_generated, "load_seconds", c->load_seconds, "prompt_seconds",
        answer->prompt_seconds, "decode_seconds", answer->decode_seconds, "memory_bytes",
        (json_int_t) sluice_load_peak_bytes());
    g_autoptr(GString) line = g_string_new(NULL);
    char *text;

    if (all == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "the name of the model file is not UTF-8, which JSON must be");
        return FALSE;
    }
    text = json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    g_string_append(line, text);
    g_string_append_c(line, '\n');
    free(text);
    json_decref(all);
    return sluice_terminal_write(line->str, line->len, error);
}

static int
answer_once(SluiceConversation *c, const char *prompt)
{
    g_auto(SluiceAnswer) answer = {0};
    g_autoptr(GError) error = NULL;
    bool is_json = c->options->json;
    gboolean ok;

    sluice_answer_init(&answer);
    if (!sluice_conversation_ask(c, prompt, !is_json, &answer, &error))
        return sluice_terminal_fail(error);
    if (is_json)
        ok = print_json(c, &answer, &error);
    else
        ok = g_str_has_suffix(answer.text->str, "\n") || sluice_terminal_write("\n", 1, &error);
    if (!ok)
        return sluice_terminal_fail(error);
    if (answer.finish == SLUICE_FINISH_CONTEXT)
        sluice_terminal_note("the answer ends here: the context holds %d tokens (--ctx-size)",
                             sluice_engine_n_ctx(c->engine));
    sluice_conversation_say_figures(c, &answer);
    return answer.finish == SLUICE_FINISH_CANCELLED ? SLUICE_EXIT_INTERRUPTED : SLUICE_EXIT_OK;
}

/* What to do, as far as it can be told before anything is loaded. */
static gboolean
check_request(const SluiceOptions *options, const char *prompt, bool is_chat, GError **error)
{
    if (is_chat && !isatty(STDIN_FILENO))
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "--interactive needs a terminal as standard input");
    else if (is_chat && options->json)
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "--json needs a prompt: a chat has no end to wait for");
    else if (!is_chat && prompt == NULL)
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "there is no prompt: give it as an argument, with --prompt or --file, or on "
                    "standard input");
    else if (prompt != NULL && prompt[0] == '\0' && !options->raw)
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "the prompt is empty");
    else
        return TRUE;
    return FALSE;
}

/**
 * sluice_cmd_run:
 * @options: parsed
 *
 * Returns: a #SluiceExit
 */
int
sluice_cmd_run(const SluiceOptions *options)
{
    SluiceConversation c = {0};
    g_autoptr(GError) error = NULL;
    g_autofree char *path = NULL;
    g_autofree char *prompt = NULL;
    guint n_used = 0;
    bool is_chat;
    int status;

    if (!sluice_input_model(options, &path, &n_used, &error)) {
        sluice_terminal_fail(error);
        return SLUICE_EXIT_NO_MODEL;
    }
    if (!sluice_input_prompt(options, n_used, &prompt, &error))
        return sluice_terminal_fail(error);
    is_chat = options->interactive || (prompt == NULL && isatty(STDIN_FILENO));
    if (!check_request(options, prompt, is_chat, &error))
        return sluice_terminal_fail(error);
    status = sluice_conversation_open(&c, options, path);
    if (status == SLUICE_EXIT_OK)
        status = is_chat ? sluice_chat_run(&c, prompt) : answer_once(&c, prompt);
    sluice_conversation_close(&c);
    return status;
}
