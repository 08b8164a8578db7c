/* SPDX-License-Identifier: MIT */
/*
 * The one error domain of the library. Codes group what a caller can do about a failure; the
 * message carries the subject, the value and its limit.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define SLUICE_ERROR (sluice_error_quark())

/**
 * SluiceError:
 * @SLUICE_ERROR_FILE: a file cannot be opened, read or written
 * @SLUICE_ERROR_FORMAT: a file is not what it should be: truncated, hostile or foreign
 * @SLUICE_ERROR_MODEL: a well-formed file whose model cannot be used: family, tensor, shape, type
 * @SLUICE_ERROR_MEMORY: memory is not to be had; the message has the size
 * @SLUICE_ERROR_CONTEXT: the prompt or the answer does not fit the context
 * @SLUICE_ERROR_ARGUMENT: a value given by the user is out of range or not understood
 * @SLUICE_ERROR_TEMPLATE: a chat template does not parse, does not render, or hits a limit
 * @SLUICE_ERROR_DEVICE: a device or its driver failed
 * @SLUICE_ERROR_CANCELLED: the caller asked to stop
 */
typedef enum {
    SLUICE_ERROR_FILE,
    SLUICE_ERROR_FORMAT,
    SLUICE_ERROR_MODEL,
    SLUICE_ERROR_MEMORY,
    SLUICE_ERROR_CONTEXT,
    SLUICE_ERROR_ARGUMENT,
    SLUICE_ERROR_TEMPLATE,
    SLUICE_ERROR_DEVICE,
    SLUICE_ERROR_CANCELLED,
} SluiceError;

GQuark sluice_error_quark(void);
char *sluice_error_printable(const char *bytes, gssize n_bytes);

G_END_DECLS
