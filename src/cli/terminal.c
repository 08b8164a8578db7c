/* SPDX-License-Identifier: MIT */
/*
 * One place for all output of the program. The state is global because the two streams are.
 */
#include "config.h"

#include "src/cli/terminal.h"
#include "src/core/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Redrawing the bar costs a write; ten times a second looks smooth. */
#define PROGRESS_INTERVAL_US 100000

static struct {
    bool is_quiet;
    bool is_verbose;
    bool out_is_terminal;
    bool has_color[3]; /* by file descriptor */
    bool has_progress;
    bool progress_shown;
    gint64 progress_time; /* of the last drawing, in microseconds */
    bool reader_left;     /* standard output is a pipe that nobody reads any more */
} state;

static bool
wants_color(int mode, int fd)
{
    const char *no_color = g_getenv("NO_COLOR");

    switch ((SluiceColorMode) mode) {
    case SLUICE_COLOR_ALWAYS:
        return true;
    case SLUICE_COLOR_NEVER:
        return false;
    case SLUICE_COLOR_AUTO:
        break;
    }
    return isatty(fd) && (no_color == NULL || no_color[0] == '\0') &&
           g_strcmp0(g_getenv("TERM"), "dumb") != 0;
}

/* What the library reports: fallbacks (info) are for the user, warnings too; the rest is for
 * developers and follows G_MESSAGES_DEBUG, as GLib's own writer does. */
static GLogWriterOutput
write_log(GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer user_data)
{
    const char *message = NULL;

    if ((level & (G_LOG_LEVEL_INFO | G_LOG_LEVEL_MESSAGE | G_LOG_LEVEL_WARNING)) == 0)
        return g_log_writer_default(level, fields, n_fields, user_data);
    for (gsize i = 0; i < n_fields; i++)
        if (strcmp(fields[i].key, "MESSAGE") == 0)
            message = fields[i].value;
    if (message != NULL)
        sluice_terminal_note("%s%s", (level & G_LOG_LEVEL_WARNING) != 0 ? "warning: " : "",
                             message);
    return G_LOG_WRITER_HANDLED;
}

/**
 * sluice_terminal_init:
 * @options: parsed
 *
 * Decides on colours and the progress bar, once, before anything is said.
 */
void
sluice_terminal_init(const SluiceOptions *options)
{
    state.is_quiet = options->quiet;
    state.is_verbose = options->verbose > 0;
    state.out_is_terminal = isatty(STDOUT_FILENO);
    state.has_color[STDOUT_FILENO] = wants_color(options->color, STDOUT_FILENO);
    state.has_color[STDERR_FILENO] = wants_color(options->color, STDERR_FILENO);
    state.has_progress =
        !state.is_quiet && isatty(STDERR_FILENO) && g_strcmp0(g_getenv("TERM"), "dumb") != 0;
    g_log_set_writer_func(write_log, NULL, NULL);
}

/**
 * sluice_terminal_is_quiet:
 *
 * Returns: whether only failures are to be said
 */
bool
sluice_terminal_is_quiet(void)
{
    return state.is_quiet;
}

/**
 * sluice_terminal_is_verbose:
 *
 * Returns: whether -v was given, and -q was not
 */
bool
sluice_terminal_is_verbose(void)
{
    return state.is_verbose && !state.is_quiet;
}

/**
 * sluice_terminal_style:
 * @fd: STDOUT_FILENO or STDERR_FILENO
 * @style: %SLUICE_STYLE_PLAIN ends the others
 *
 * Returns: the escape sequence, or "" where colours are not wanted
 */
const char *
sluice_terminal_style(int fd, SluiceStyle style)
{
    static const char *const sequences[] = {
        [SLUICE_STYLE_PLAIN] = "\033[0m",    [SLUICE_STYLE_DIM] = "\033[2m",
        [SLUICE_STYLE_BOLD] = "\033[1m",     [SLUICE_STYLE_PROMPT] = "\033[1;32m",
        [SLUICE_STYLE_ERROR] = "\033[1;31m",
    };

    return state.has_color[fd] ? sequences[style] : "";
}

/**
 * sluice_terminal_note:
 * @format: as for printf(); a line without its end
 * @...: its values
 *
 * Says something on standard error, unless -q was given.
 */
void
sluice_terminal_note(const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list values;

    if (state.is_quiet)
        return;
    va_start(values, format);
    text = g_strdup_vprintf(format, values);
    va_end(values);
    sluice_terminal_progress_end();
    fprintf(stderr, "%s%s%s\n", sluice_terminal_style(STDERR_FILENO, SLUICE_STYLE_DIM), text,
            sluice_terminal_style(STDERR_FILENO, SLUICE_STYLE_PLAIN));
}

/**
 * sluice_terminal_complain:
 * @message: a line without its end
 *
 * Says what went wrong, whatever the options are.
 */
void
sluice_terminal_complain(const char *message)
{
    sluice_terminal_progress_end();
    fprintf(stderr, "%ssluice:%s %s\n", sluice_terminal_style(STDERR_FILENO, SLUICE_STYLE_ERROR),
            sluice_terminal_style(STDERR_FILENO, SLUICE_STYLE_PLAIN), message);
}

/**
 * sluice_terminal_fail:
 * @error: what went wrong
 *
 * Says it, and finds the exit status that tells a script the same.
 *
 * Returns: a #SluiceExit
 */
int
sluice_terminal_fail(const GError *error)
{
    if (state.reader_left)
        return SLUICE_EXIT_OK;
    if (g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_CANCELLED))
        return SLUICE_EXIT_INTERRUPTED;
    sluice_terminal_complain(error->message);
    if (error->domain != SLUICE_ERROR)
        return SLUICE_EXIT_FAILURE;
    switch ((SluiceError) error->code) {
    case SLUICE_ERROR_ARGUMENT:
        return SLUICE_EXIT_USAGE;
    case SLUICE_ERROR_FORMAT:
    case SLUICE_ERROR_MODEL:
    case SLUICE_ERROR_TEMPLATE:
        return SLUICE_EXIT_BAD_MODEL;
    case SLUICE_ERROR_MEMORY:
    case SLUICE_ERROR_CONTEXT:
        return SLUICE_EXIT_NO_ROOM;
    case SLUICE_ERROR_DEVICE:
        return SLUICE_EXIT_DEVICE;
    case SLUICE_ERROR_CANCELLED:
        return SLUICE_EXIT_INTERRUPTED;
    case SLUICE_ERROR_FILE:
        break;
    }
    return SLUICE_EXIT_FAILURE;
}

/* ---- progress ------------------------------------------------------------------------------- */

/**
 * sluice_terminal_progress:
 * @n_bytes_done: so far
 * @n_bytes: in the end
 * @what: (nullable): a word for what is going on
 *
 * A #SluiceProgressFunc: draws a bar over the current line, if standard error is a terminal.
 */
void
sluice_terminal_progress(uint64_t n_bytes_done, uint64_t n_bytes, gpointer what)
{
    static const char full[] = "########################################";
    gint64 now = g_get_monotonic_time();
    struct winsize size = {0};
    int width = 30, n_full;
    double share;

    if (!state.has_progress || n_bytes == 0)
        return;
    if (state.progress_shown && n_bytes_done < n_bytes &&
        now - state.progress_time < PROGRESS_INTERVAL_US)
        return;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        width = CLAMP(size.ws_col - 40, 5, (int) sizeof full - 1);
    share = CLAMP((double) n_bytes_done / (double) n_bytes, 0, 1);
    n_full = (int) (share * width);
    fprintf(stderr, "\r%s [%.*s%*s] %3d %% of %.1f MiB\033[K",
            what != NULL ? (const char *) what : "loading", n_full, full, width - n_full, "",
            (int) (share * 100), (double) n_bytes / 1048576);
    state.progress_shown = true;
    state.progress_time = now;
}

/**
 * sluice_terminal_progress_end:
 *
 * Wipes the bar away, if there is one.
 */
void
sluice_terminal_progress_end(void)
{
    if (state.progress_shown)
        fputs("\r\033[K", stderr);
    state.progress_shown = false;
}

/* ---- standard output ------------------------------------------------------------------------ */

/**
 * sluice_terminal_escape:
 * @text: UTF-8
 * @n_bytes: of @text
 *
 * Writes control characters, C0 but for newline and tab, DEL and C1, as \xNN, so that a model
 * cannot steer the terminal.
 *
 * Returns: (transfer full): the text to show
 */
char *
sluice_terminal_escape(const char *text, gsize n_bytes)
{
    GString *out = g_string_sized_new(n_bytes);

    for (gsize i = 0; i < n_bytes; i++) {
        guchar c = (guchar) text[i];

        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
            g_string_append_printf(out, "\\x%02X", c);
        } else if (c == 0xc2 && i + 1 < n_bytes && (guchar) text[i + 1] >= 0x80 &&
                   (guchar) text[i + 1] < 0xa0) {
            g_string_append_printf(out, "\\x%02X", (guchar) text[++i]);
        } else {
            g_string_append_c(out, (char) c);
        }
    }
    return g_string_free(out, FALSE);
}

static gboolean
set_write_error(GError **error)
{
    int code = errno;

    if (code == EPIPE)
        state.reader_left = true;
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "cannot write to standard output: %s",
                g_strerror(code));
    return FALSE;
}

/**
 * sluice_terminal_write:
 * @text: UTF-8, a part of the answer
 * @n_bytes: of @text
 * @error: return location, or %NULL
 *
 * Writes to standard output at once; escaped if that is a terminal.
 *
 * Returns: %FALSE if nothing can be written there any more
 */
gboolean
sluice_terminal_write(const char *text, gsize n_bytes, GError **error)
{
    g_autofree char *escaped = NULL;

    if (n_bytes == 0)
        return TRUE;
    sluice_terminal_progress_end();
    if (state.out_is_terminal) {
        escaped = sluice_terminal_escape(text, n_bytes);
        text = escaped;
        n_bytes = strlen(escaped);
    }
    if (fwrite(text, 1, n_bytes, stdout) < n_bytes || fflush(stdout) != 0)
        return set_write_error(error);
    return TRUE;
}

/**
 * sluice_terminal_finish:
 * @error: return location, or %NULL
 *
 * Closes standard output, which is when some file systems tell that the disk is full.
 *
 * Returns: %FALSE if something that was written did not arrive
 */
gboolean
sluice_terminal_finish(GError **error)
{
    bool had_error = ferror(stdout);

    errno = 0;
    if (fclose(stdout) != 0)
        return set_write_error(error);
    if (had_error && !state.reader_left) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE,
                    "not everything could be written to standard output");
        return FALSE;
    }
    return TRUE;
}

/**
 * sluice_terminal_reader_left:
 *
 * Returns: whether standard output is a pipe whose reader has gone: no failure, but a reason to
 *   stop
 */
bool
sluice_terminal_reader_left(void)
{
    return state.reader_left;
}

/**
 * sluice_terminal_bytes:
 * @n_bytes: a size
 *
 * Returns: (transfer full): the size in MiB or GiB, as people read it
 */
char *
sluice_terminal_bytes(uint64_t n_bytes)
{
    if (n_bytes >= (uint64_t) 1 << 30)
        return g_strdup_printf("%.2f GiB", (double) n_bytes / (1 << 30));
    return g_strdup_printf("%.1f MiB", (double) n_bytes / (1 << 20));
}
