/* SPDX-License-Identifier: MIT */
/*
 * libedit, or getline() without it. Prompts go to standard error: standard output is for answers.
 */
#include "config.h"

#include "src/cli/line-reader.h"
#include "src/cli/interrupt.h"
#include "src/cli/terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_LIBEDIT
#include <histedit.h>
#endif

#define HISTORY_LINES 1000

struct _SluiceLineReader {
    char *prompt;
#ifdef HAVE_LIBEDIT
    EditLine *editor;
    History *history;
    char *history_path; /* or NULL: the folder cannot be made */
#else
    char *buffer;
    size_t n_buffer;
#endif
};

/* libedit counts columns by the locale; text is UTF-8 whatever that says. */
static void
set_character_type(void)
{
    if (setlocale(LC_CTYPE, "") == NULL || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

#ifdef HAVE_LIBEDIT

static char *
history_path(void)
{
    g_autofree char *folder = g_build_filename(g_get_user_state_dir(), "sluice", NULL);

    if (g_mkdir_with_parents(folder, 0700) != 0) {
        sluice_terminal_note("no history is kept: cannot make '%s': %s", folder, g_strerror(errno));
        return NULL;
    }
    return g_build_filename(folder, "history", NULL);
}

/* One character of the terminal. libedit's own reader goes on after a signal; this one does not,
 * so that Ctrl-C ends the line. */
static int
read_character(EditLine *editor, wchar_t *character)
{
    static const guchar n_more[16] = {[12] = 1, [13] = 1, [14] = 2, [15] = 3};
    char bytes[8];
    gsize n = 0, n_all = 1;
    gunichar c;

    (void) editor;
    while (n < n_all) {
        ssize_t n_read;

        if (!sluice_interrupt_await_input(STDIN_FILENO))
            return -1;
        n_read = read(STDIN_FILENO, bytes + n, 1);
        if (n_read <= 0)
            return (int) n_read;
        if (n == 0)
            n_all += n_more[(guchar) bytes[0] >> 4];
        n++;
    }
    c = g_utf8_get_char_validated(bytes, (gssize) n);
    *character = bytes[0] == '\0' ? L'\0' : c >= 0x110000 ? (wchar_t) 0xfffd : (wchar_t) c;
    return 1;
}

static char *
show_prompt(EditLine *editor)
{
    SluiceLineReader *reader = NULL;

    el_get(editor, EL_CLIENTDATA, &reader);
    return reader->prompt;
}

/**
 * sluice_line_reader_new:
 *
 * Returns: (transfer full): a reader of standard input, with the history of earlier chats
 */
SluiceLineReader *
sluice_line_reader_new(void)
{
    SluiceLineReader *reader = g_new0(SluiceLineReader, 1);
    HistEvent event;

    set_character_type();
    reader->history = history_init();
    history(reader->history, &event, H_SETSIZE, HISTORY_LINES);
    history(reader->history, &event, H_SETUNIQUE, 1);
    reader->history_path = history_path();
    if (reader->history_path != NULL)
        history(reader->history, &event, H_LOAD, reader->history_path);
    reader->editor = el_init("sluice", stdin, stderr, stderr);
    el_set(reader->editor, EL_CLIENTDATA, reader);
    el_set(reader->editor, EL_PROMPT_ESC, show_prompt, '\1');
    el_set(reader->editor, EL_GETCFN, read_character);
    el_set(reader->editor, EL_EDITOR, "emacs");
    el_set(reader->editor, EL_HIST, history, reader->history);
    el_source(reader->editor, NULL);
    return reader;
}

/**
 * sluice_line_reader_free:
 * @reader: (nullable): a reader
 */
void
sluice_line_reader_free(SluiceLineReader *reader)
{
    if (reader == NULL)
        return;
    el_end(reader->editor);
    history_end(reader->history);
    g_free(reader->history_path);
    g_free(reader->prompt);
    g_free(reader);
}

/* \1 brackets what takes no column. */
static void
set_prompt(SluiceLineReader *reader, const char *prompt)
{
    const char *style = sluice_terminal_style(STDERR_FILENO, SLUICE_STYLE_PROMPT);
    const char *plain = sluice_terminal_style(STDERR_FILENO, SLUICE_STYLE_PLAIN);

    g_free(reader->prompt);
    reader->prompt = style[0] != '\0' ? g_strdup_printf("\1%s\1%s\1%s\1", style, prompt, plain)
                                      : g_strdup(prompt);
}

/**
 * sluice_line_reader_read:
 * @reader: a reader
 * @prompt: what stands in front of the line
 * @line: what was typed, without its end
 *
 * Returns: whether a line came, or why not
 */
SluiceLineResult
sluice_line_reader_read(SluiceLineReader *reader, const char *prompt, GString *line)
{
    const char *text;
    int n = 0;

    set_prompt(reader, prompt);
    sluice_interrupt_hold();
    el_resize(reader->editor);
    text = el_gets(reader->editor, &n);
    if (text == NULL || n <= 0) {
        if (sluice_interrupt_came()) {
            const LineInfo *info = el_line(reader->editor);
            bool had_text = info->lastchar > info->buffer;

            el_reset(reader->editor);
            fputs("\n", stderr);
            return had_text ? SLUICE_LINE_INTERRUPTED : SLUICE_LINE_LEFT;
        }
        fputs("\n", stderr);
        return SLUICE_LINE_END;
    }
    g_string_assign(line, text);
    if (line->len > 0 && line->str[line->len - 1] == '\n')
        g_string_truncate(line, line->len - 1);
    return SLUICE_LINE_READ;
}

/**
 * sluice_line_reader_remember:
 * @reader: a reader
 * @text: something that was typed
 *
 * Adds @text to the history, here and in the file.
 */
void
sluice_line_reader_remember(SluiceLineReader *reader, const char *text)
{
    HistEvent event;
    bool existed;

    history(reader->history, &event, H_ENTER, text);
    if (reader->history_path == NULL)
        return;
    existed = g_file_test(reader->history_path, G_FILE_TEST_EXISTS);
    if (!existed) {
        /* Made here first: libedit would create it readable for others. */
        g_file_set_contents_full(reader->history_path, "", 0, G_FILE_SET_CONTENTS_NONE, 0600, NULL);
    }
    if (history(reader->history, &event, H_SAVE, reader->history_path) < 0) {
        sluice_terminal_note("no history is kept: cannot write '%s'", reader->history_path);
        g_clear_pointer(&reader->history_path, g_free);
    }
}

#else

SluiceLineReader *
sluice_line_reader_new(void)
{
    set_character_type();
    return g_new0(SluiceLineReader, 1);
}

void
sluice_line_reader_free(SluiceLineReader *reader)
{
    if (reader == NULL)
        return;
    free(reader->buffer);
    g_free(reader);
}

SluiceLineResult
sluice_line_reader_read(SluiceLineReader *reader, const char *prompt, GString *line)
{
    ssize_t n;

    fprintf(stderr, "%s%s%s", sluice_terminal_style(STDERR_FILENO, SLUICE_STYLE_PROMPT), prompt,
            sluice_terminal_style(STDERR_FILENO, SLUICE_STYLE_PLAIN));
    fflush(stderr);
    sluice_interrupt_hold();
    n = sluice_interrupt_await_input(STDIN_FILENO)
            ? getline(&reader->buffer, &reader->n_buffer, stdin)
            : -1;
    if (n < 0) {
        clearerr(stdin);
        fputs("\n", stderr);
        return sluice_interrupt_came() ? SLUICE_LINE_LEFT : SLUICE_LINE_END;
    }
    g_string_truncate(line, 0);
    g_string_append_len(line, reader->buffer, n);
    if (line->len > 0 && line->str[line->len - 1] == '\n')
        g_string_truncate(line, line->len - 1);
    return SLUICE_LINE_READ;
}

void
sluice_line_reader_remember(SluiceLineReader *reader, const char *text)
{
    (void) reader;
    (void) text;
}

#endif
