/* SPDX-License-Identifier: MIT */
/*
 * Chat templates: a Jinja engine that renders as jinja2 does with the settings of transformers
 * (trim_blocks, lstrip_blocks, loop controls, an immutable sandbox), and that says which bytes of
 * its output came from messages, tools or documents. A template comes out of a model file and is
 * hostile until shown otherwise: no file, import or host object is within its reach, and steps,
 * memory, depth and output are limited.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "src/text/span.h"

G_BEGIN_DECLS

typedef struct _SluiceTemplate SluiceTemplate;

/**
 * SluiceTemplateLimits:
 * @n_steps: expressions and statements that may be evaluated; work on long texts counts too
 * @n_output_bytes: length of the result
 * @n_memory_bytes: everything that one rendering allocates
 * @n_depth: nesting of evaluation, calls of macros and values included
 * @now: the time that strftime_now() tells, or %NULL for the present local time
 *
 * A limit of 0 stands for the default.
 */
typedef struct {
    guint64 n_steps;
    gsize n_output_bytes;
    gsize n_memory_bytes;
    int n_depth;
    GDateTime *now;
} SluiceTemplateLimits;

#define SLUICE_TEMPLATE_MAX_STEPS G_GUINT64_CONSTANT(20000000)
#define SLUICE_TEMPLATE_MAX_OUTPUT_BYTES ((gsize) 64 << 20)
#define SLUICE_TEMPLATE_MAX_MEMORY_BYTES ((gsize) 512 << 20)
#define SLUICE_TEMPLATE_MAX_DEPTH 600
#define SLUICE_TEMPLATE_MAX_SOURCE_BYTES ((gsize) 1 << 20)

/* The sandbox of jinja2 refuses longer ranges. */
#define SLUICE_TEMPLATE_MAX_RANGE 100000

/**
 * SluiceTemplateOutput:
 * @text: the result, UTF-8; terminated, but it may hold NUL bytes of its own
 * @n_bytes: its length
 * @untrusted: (element-type SluiceTextSpan): the bytes of @text that came from `messages`,
 *   `tools` or `documents`
 */
typedef struct {
    char *text;
    gsize n_bytes;
    GArray *untrusted;
} SluiceTemplateOutput;

SluiceTemplate *sluice_template_new(const char *source, gsize n_bytes, GError **error);
void sluice_template_free(SluiceTemplate *t);
gboolean sluice_template_render(const SluiceTemplate *t, const json_t *variables,
                                const SluiceTemplateLimits *limits, SluiceTemplateOutput *out,
                                GError **error);
void sluice_template_output_clear(SluiceTemplateOutput *out);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceTemplate, sluice_template_free)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SluiceTemplateOutput, sluice_template_output_clear)

G_END_DECLS
