/* SPDX-License-Identifier: MIT */
/*
 * The loop of the chat. A table holds the slash commands; /help is printed from it.
 */
#include "config.h"

#include "src/cli/chat.h"
#include "src/cli/interrupt.h"
#include "src/cli/line-reader.h"
#include "src/cli/terminal.h"
#include "src/core/error.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    SluiceConversation *c;
    SluiceLineReader *reader;
    SluiceAnswer answer; /* the last one; its text is NULL before the first */
    bool is_over;
    int status;
} Chat;

typedef struct {
    const char *name;
    const char *value; /* in words, or NULL */
    const char *help;
    gboolean (*run)(Chat *chat, const char *value, GError **error);
} ChatCommand;

static gboolean run_help(Chat *chat, const char *value, GError **error);

/* Where a conversation is kept: the word behind /save and /load. */
static gboolean
check_path(const char *command, const char *value, GError **error)
{
    if (value[0] != '\0')
        return TRUE;
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "%s needs the name of a file", command);
    return FALSE;
}

static gboolean
run_clear(Chat *chat, const char *value, GError **error)
{
    g_autofree char *system = g_strdup(sluice_conversation_system(chat->c));

    (void) value;
    if (!sluice_conversation_reset(chat->c, system, error))
        return FALSE;
    fputs("forgotten\n", stderr);
    return TRUE;
}

static gboolean
run_system(Chat *chat, const char *value, GError **error)
{
    if (value[0] == '\0') {
        const char *system = sluice_conversation_system(chat->c);
        g_autofree char *shown = system != NULL ? sluice_terminal_escape(system, strlen(system))
                                                : g_strdup("there is no system message");

        fprintf(stderr, "%s\n", shown);
        return TRUE;
    }
    if (chat->c->raw != NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "/system needs a chat template, and plain text is continued here");
        return FALSE;
    }
    if (!sluice_conversation_reset(chat->c, value, error))
        return FALSE;
    fputs("set; the conversation begins anew\n", stderr);
    return TRUE;
}

static gboolean
run_save(Chat *chat, const char *value, GError **error)
{
    if (!check_path("/save", value, error) || !sluice_conversation_save(chat->c, value, error))
        return FALSE;
    fprintf(stderr, "saved in %s and %s.json\n", value, value);
    return TRUE;
}

static gboolean
run_load(Chat *chat, const char *value, GError **error)
{
    if (!check_path("/load", value, error) || !sluice_conversation_load(chat->c, value, error))
        return FALSE;
    fprintf(stderr, "loaded; %zu messages\n", json_array_size(chat->c->messages));
    return TRUE;
}

static gboolean
run_stats(Chat *chat, const char *value, GError **error)
{
    gsize n_tokens = 0;

    (void) value;
    (void) error;
    sluice_session_tokens(chat->c->session, &n_tokens);
    fprintf(stderr, "context: %zu of %d tokens\n", n_tokens, sluice_engine_n_ctx(chat->c->engine));
    sluice_conversation_say_figures(chat->c, chat->answer.text != NULL ? &chat->answer : NULL);
    return TRUE;
}

static gboolean
run_exit(Chat *chat, const char *value, GError **error)
{
    (void) value;
    (void) error;
    chat->is_over = true;
    return TRUE;
}

static const ChatCommand commands[] = {
    {"/help", NULL, "show these commands", run_help},
    {"/clear", NULL, "forget the conversation, keep the system message", run_clear},
    {"/system", "[TEXT]", "set the system message and begin anew, or show it", run_system},
    {"/save", "FILE", "write the conversation to FILE and FILE.json", run_save},
    {"/load", "FILE", "go on with a saved conversation", run_load},
    {"/stats", NULL, "figures of the last answer and the context", run_stats},
    {"/exit", NULL, "leave (also /quit, /bye, Ctrl-D)", run_exit},
    {"/quit", NULL, NULL, run_exit},
    {"/bye", NULL, NULL, run_exit},
};

static gboolean
run_help(Chat *chat, const char *value, GError **error)
{
    (void) chat;
    (void) value;
    (void) error;
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
        if (commands[i].help != NULL) {
            g_autofree char *form = g_strjoin(" ", commands[i].name, commands[i].value, NULL);

            fprintf(stderr, "  %-16s %s\n", form, commands[i].help);
        }
    fputs("A \\ at the end of a line goes on in the next one; \"\"\" begins and ends a text of\n"
          "several lines. Ctrl-C stops an answer, twice leaves the program.\n",
          stderr);
    return TRUE;
}

static void
run_command(Chat *chat, const char *line)
{
    g_autofree char *name = g_strndup(line, strcspn(line, " \t\n"));
    g_autofree char *value = g_strstrip(g_strdup(line + strlen(name)));
    g_autoptr(GError) error = NULL;
    const char *names[G_N_ELEMENTS(commands) + 1] = {NULL};
    g_autofree char *closest = NULL;
    g_autofree char *message = NULL;
    g_autofree char *shown = NULL;

    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        names[i] = commands[i].name;
        if (strcmp(commands[i].name, name) == 0) {
            if (!commands[i].run(chat, value, &error))
                sluice_terminal_complain(error->message);
            return;
        }
    }
    closest = sluice_options_closest(name, names);
    shown = sluice_error_printable(name, -1);
    message = closest != NULL
                  ? g_strdup_printf("'%s' is no command; did you mean '%s'?", shown, closest)
                  : g_strdup_printf("'%s' is no command; /help shows them", shown);
    sluice_terminal_complain(message);
}

/* ---- questions ------------------------------------------------------------------------------ */

static void
ask(Chat *chat, const char *text)
{
    g_autoptr(GError) error = NULL;

    sluice_answer_clear(&chat->answer);
    sluice_answer_init(&chat->answer);
    if (!sluice_conversation_ask(chat->c, text, true, &chat->answer, &error)) {
        chat->status = sluice_terminal_fail(error);
        /* Nobody reads the answers, or the machine fails: no use in going on. A question that does
         * not fit is another matter. */
        chat->is_over = !g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_CONTEXT) &&
                        !g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_TEMPLATE) &&
                        !g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT);
        return;
    }
    chat->status = SLUICE_EXIT_OK;
    if (!sluice_terminal_write("\n", 1, &error)) {
        chat->status = sluice_terminal_fail(error);
        chat->is_over = true;
    }
    if (chat->answer.finish == SLUICE_FINISH_CANCELLED)
        sluice_terminal_note("stopped");
    else if (chat->answer.finish == SLUICE_FINISH_CONTEXT)
        sluice_terminal_note("the context is full: %d tokens (--ctx-size); /clear begins anew",
                             sluice_engine_n_ctx(chat->c->engine));
}

/* Lines until the text is complete; continued lines are joined by newlines. */
static SluiceLineResult
read_text(Chat *chat, GString *text)
{
    static const char quotes[] = "\"\"\"";
    g_autoptr(GString) line = g_string_new(NULL);
    SluiceLineResult result = sluice_line_reader_read(chat->reader, "> ", line);
    bool is_quoted;

    g_string_truncate(text, 0);
    if (result != SLUICE_LINE_READ)
        return result;
    is_quoted = g_str_has_prefix(line->str, quotes);
    if (is_quoted)
        g_string_erase(line, 0, (gssize) strlen(quotes));
    for (;;) {
        bool goes_on;

        if (is_quoted) {
            goes_on = !g_str_has_suffix(line->str, quotes);
            if (!goes_on)
                g_string_truncate(line, line->len - strlen(quotes));
        } else {
            goes_on = g_str_has_suffix(line->str, "\\");
            if (goes_on)
                g_string_truncate(line, line->len - 1);
        }
        g_string_append(text, line->str);
        if (!goes_on)
            return SLUICE_LINE_READ;
        g_string_append_c(text, '\n');
        result = sluice_line_reader_read(chat->reader, ". ", line);
        if (result != SLUICE_LINE_READ)
            return result == SLUICE_LINE_LEFT ? SLUICE_LINE_INTERRUPTED : result;
    }
}

static void
handle_text(Chat *chat, GString *text)
{
    g_autofree char *stripped = g_strstrip(g_strdup(text->str));

    if (stripped[0] == '\0')
        return;
    if (!g_utf8_validate_len(text->str, text->len, NULL)) {
        sluice_terminal_complain("what was typed is not UTF-8 text");
        return;
    }
    sluice_line_reader_remember(chat->reader, text->str);
    if (stripped[0] == '/')
        run_command(chat, stripped);
    else
        ask(chat, text->str);
}

/**
 * sluice_chat_run:
 * @c: an open conversation
 * @first: (nullable): a prompt to answer before anything is typed
 *
 * Talks until the user leaves.
 *
 * Returns: a #SluiceExit
 */
int
sluice_chat_run(SluiceConversation *c, const char *first)
{
    g_autoptr(GString) text = g_string_new(NULL);
    Chat chat = {.c = c, .reader = sluice_line_reader_new()};

    sluice_terminal_note("%s; /help shows commands, Ctrl-D leaves",
                         sluice_model_name(c->model)[0] != '\0' ? sluice_model_name(c->model)
                                                                : sluice_model_family(c->model));
    if (first != NULL)
        ask(&chat, first);
    while (!chat.is_over) {
        switch (read_text(&chat, text)) {
        case SLUICE_LINE_READ:
            handle_text(&chat, text);
            break;
        case SLUICE_LINE_INTERRUPTED:
            break;
        case SLUICE_LINE_LEFT:
            chat.status = SLUICE_EXIT_INTERRUPTED;
            chat.is_over = true;
            break;
        case SLUICE_LINE_END:
            chat.status = SLUICE_EXIT_OK;
            chat.is_over = true;
            break;
        }
    }
    sluice_conversation_say_figures(c, chat.answer.text != NULL ? &chat.answer : NULL);
    sluice_answer_clear(&chat.answer);
    sluice_line_reader_free(chat.reader);
    return chat.status;
}
