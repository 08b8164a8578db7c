/* SPDX-License-Identifier: MIT */
/*
 * A range of bytes in a text. The template engine reports with it which bytes of a prompt came
 * from messages, tools or documents, and the tokenizer matches no control token inside one.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * SluiceTextSpan:
 * @begin: index of the first byte
 * @end: index behind the last byte; above @begin
 *
 * Arrays of spans are in ascending order, and their members neither overlap nor touch.
 */
typedef struct {
    gsize begin;
    gsize end;
} SluiceTextSpan;

G_END_DECLS
