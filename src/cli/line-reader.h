/* SPDX-License-Identifier: MIT */
/*
 * Lines from the terminal, with editing and a history where libedit is built in.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

G_BEGIN_DECLS

typedef enum {
    SLUICE_LINE_READ,
    SLUICE_LINE_INTERRUPTED, /* Ctrl-C with something typed: that is dropped */
    SLUICE_LINE_LEFT,        /* Ctrl-C with nothing typed */
    SLUICE_LINE_END,         /* Ctrl-D, or the terminal is gone */
} SluiceLineResult;

typedef struct _SluiceLineReader SluiceLineReader;

SluiceLineReader *sluice_line_reader_new(void);
void sluice_line_reader_free(SluiceLineReader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceLineReader, sluice_line_reader_free)
SluiceLineResult sluice_line_reader_read(SluiceLineReader *reader, const char *prompt,
                                         GString *line);
void sluice_line_reader_remember(SluiceLineReader *reader, const char *text);

G_END_DECLS
