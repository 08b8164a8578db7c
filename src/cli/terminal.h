/* SPDX-License-Identifier: MIT */
/*
 * What the program says and where: the answer goes to standard output, everything else to
 * standard error; colours, the progress bar and the escaping of control characters depend on
 * which of the two is a terminal.
 */
#pragma once

#include "src/cli/options.h"

G_BEGIN_DECLS

/* The exit statuses of the program; sluice(1) lists them for the user. */
typedef enum {
    SLUICE_EXIT_OK = 0,
    SLUICE_EXIT_FAILURE = 1,
    SLUICE_EXIT_USAGE = 2,
    SLUICE_EXIT_NO_MODEL = 3,
    SLUICE_EXIT_BAD_MODEL = 4,
    SLUICE_EXIT_NO_ROOM = 5,
    SLUICE_EXIT_DEVICE = 6,
    SLUICE_EXIT_INTERRUPTED = 130,
} SluiceExit;

typedef enum {
    SLUICE_STYLE_PLAIN,
    SLUICE_STYLE_DIM,
    SLUICE_STYLE_BOLD,
    SLUICE_STYLE_PROMPT,
    SLUICE_STYLE_ERROR,
} SluiceStyle;

void sluice_terminal_init(const SluiceOptions *options);
bool sluice_terminal_is_quiet(void);
bool sluice_terminal_is_verbose(void);
const char *sluice_terminal_style(int fd, SluiceStyle style);

void sluice_terminal_note(const char *format, ...) G_GNUC_PRINTF(1, 2);
void sluice_terminal_complain(const char *message);
int sluice_terminal_fail(const GError *error);

void sluice_terminal_progress(uint64_t n_bytes_done, uint64_t n_bytes, gpointer what);
void sluice_terminal_progress_end(void);

char *sluice_terminal_escape(const char *text, gsize n_bytes);
gboolean sluice_terminal_write(const char *text, gsize n_bytes, GError **error);
gboolean sluice_terminal_finish(GError **error);
bool sluice_terminal_reader_left(void);

char *sluice_terminal_bytes(uint64_t n_bytes);

G_END_DECLS
