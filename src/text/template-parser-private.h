/* SPDX-License-Identifier: MIT */
/* What the two halves of the parser, statements and expressions, share. */
#pragma once

#include "src/text/template-private.h"

G_BEGIN_DECLS

/* Of brackets and statements in each other, and of an expression's tree. */
enum { SLUICE_TPL_MAX_PARSE_DEPTH = 150, SLUICE_TPL_MAX_HEIGHT = 250 };

typedef struct {
    SluiceTemplate *template;
    const SluiceTplToken *tokens;
    gsize pos;
    int depth;
    int n_loops;        /* loops around, within the innermost macro or call block */
    gsize n_macros;     /* seen so far: macros, call blocks, generation blocks */
    gsize n_conditions; /* if branches and conditional expressions around, since the last scope */
    GPtrArray *unknown; /* nodes of filters and tests outside of conditions that do not exist */
    gsize n_caller;     /* uses of the name so far */
    gsize n_varargs;
    gsize n_kwargs;
    gsize n_loop;
    const char *const *until; /* the tags that the innermost open statement waits for */
    const char *tag;          /* that statement */
    GError **error;
} SluiceTplParser;

/* Sets the error and answers NULL. */
void *sluice_tpl_parser_fail(SluiceTplParser *p, int line, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
void *sluice_tpl_parser_fail_token(SluiceTplParser *p, const char *expected);
void *sluice_tpl_parser_alloc(SluiceTplParser *p, gsize n_items, gsize n_item_bytes);
void *sluice_tpl_parser_copy(SluiceTplParser *p, GPtrArray *array);

const SluiceTplToken *sluice_tpl_parser_look(const SluiceTplParser *p);
const SluiceTplToken *sluice_tpl_parser_next(SluiceTplParser *p);
bool sluice_tpl_parser_is_op(const SluiceTplParser *p, const char *op);
bool sluice_tpl_parser_is_name(const SluiceTplParser *p, const char *name);
bool sluice_tpl_parser_skip_op(SluiceTplParser *p, const char *op);
bool sluice_tpl_parser_skip_name(SluiceTplParser *p, const char *name);
bool sluice_tpl_parser_expect_op(SluiceTplParser *p, const char *op);
const SluiceTplToken *sluice_tpl_parser_expect_name(SluiceTplParser *p);
bool sluice_tpl_parser_enter(SluiceTplParser *p);

SluiceTplNode *sluice_tpl_parser_node(SluiceTplParser *p, SluiceTplNodeType type, int line);
SluiceTplNode *sluice_tpl_parser_expression(SluiceTplParser *p, bool with_condition);
SluiceTplNode *sluice_tpl_parser_tuple(SluiceTplParser *p, bool with_condition,
                                       const char *extra_end, bool in_brackets);
/* What may stand left of an assignment; @extra_end: the name that ends it, or NULL. */
SluiceTplNode *sluice_tpl_parser_target(SluiceTplParser *p, const char *extra_end,
                                        bool with_namespace);
/* Filters on @subject, which is NULL for a filter block; @is_inline: the first has no bar. */
SluiceTplNode *sluice_tpl_parser_filters(SluiceTplParser *p, SluiceTplNode *subject,
                                         bool is_inline);

G_END_DECLS
