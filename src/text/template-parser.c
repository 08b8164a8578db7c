/* SPDX-License-Identifier: MIT */
/*
 * Statements of a template, and the parser's tools. Inheritance, includes and imports reach for
 * other templates and are refused.
 */
#include "config.h"

#include "src/text/template-parser-private.h"

#include <string.h>

#include "src/core/error.h"

typedef SluiceTplNode Node;
typedef SluiceTplBody Body;
typedef SluiceTplParser Parser;

static Body *parse_body(Parser *p, const char *const *until, const char *tag);

/* ---- tools ---------------------------------------------------------------------------------- */

void *
sluice_tpl_parser_fail(SluiceTplParser *p, int line, const char *format, ...)
{
    va_list args;
    g_autofree char *message = NULL;

    va_start(args, format);
    message = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(p->error, SLUICE_ERROR, SLUICE_ERROR_TEMPLATE, "chat template, line %d: %s", line,
                message);
    return NULL;
}

static char *
describe_token(const SluiceTplToken *token)
{
    switch (token->type) {
    case SLUICE_TPL_TOKEN_END:
        return g_strdup("end of template");
    case SLUICE_TPL_TOKEN_VARIABLE_BEGIN:
        return g_strdup("{{");
    case SLUICE_TPL_TOKEN_VARIABLE_END:
        return g_strdup("}}");
    case SLUICE_TPL_TOKEN_BLOCK_BEGIN:
        return g_strdup("{%");
    case SLUICE_TPL_TOKEN_BLOCK_END:
        return g_strdup("%}");
    case SLUICE_TPL_TOKEN_INTEGER:
    case SLUICE_TPL_TOKEN_FLOAT:
        return g_strdup("number");
    case SLUICE_TPL_TOKEN_OPERATOR:
        return g_strdup(token->op);
    default:
        return sluice_error_printable(token->text->data, (gssize) token->text->n);
    }
}

void *
sluice_tpl_parser_fail_token(SluiceTplParser *p, const char *expected)
{
    const SluiceTplToken *token = sluice_tpl_parser_look(p);
    g_autofree char *met = describe_token(token);

    return sluice_tpl_parser_fail(p, token->line, "expected %s, got '%s'", expected, met);
}

void *
sluice_tpl_parser_alloc(SluiceTplParser *p, gsize n_items, gsize n_item_bytes)
{
    void *memory = sluice_tpl_arena_alloc(&p->template->arena, n_items, n_item_bytes);

    return memory ? memory
                  : sluice_tpl_parser_fail(p, sluice_tpl_parser_look(p)->line,
                                           "the template needs more than %zu bytes",
                                           p->template->arena.n_max_bytes);
}

/* The pointers of a non-empty @array. */
void *
sluice_tpl_parser_copy(SluiceTplParser *p, GPtrArray *array)
{
    void *memory = sluice_tpl_parser_alloc(p, array->len, sizeof(gpointer));

    if (memory)
        memcpy(memory, array->pdata, array->len * sizeof(gpointer));
    return memory;
}

const SluiceTplToken *
sluice_tpl_parser_look(const SluiceTplParser *p)
{
    return &p->tokens[p->pos];
}

const SluiceTplToken *
sluice_tpl_parser_next(SluiceTplParser *p)
{
    const SluiceTplToken *token = &p->tokens[p->pos];

    p->pos += token->type != SLUICE_TPL_TOKEN_END;
    return token;
}

bool
sluice_tpl_parser_is_op(const SluiceTplParser *p, const char *op)
{
    const SluiceTplToken *token = sluice_tpl_parser_look(p);

    return token->type == SLUICE_TPL_TOKEN_OPERATOR && strcmp(token->op, op) == 0;
}

static bool
is_text(const SluiceTplString *s, const char *text)
{
    return s->n == strlen(text) && memcmp(s->data, text, s->n) == 0;
}

bool
sluice_tpl_parser_is_name(const SluiceTplParser *p, const char *name)
{
    const SluiceTplToken *token = sluice_tpl_parser_look(p);

    return token->type == SLUICE_TPL_TOKEN_NAME && is_text(token->text, name);
}

bool
sluice_tpl_parser_skip_op(SluiceTplParser *p, const char *op)
{
    bool is_op = sluice_tpl_parser_is_op(p, op);

    p->pos += is_op;
    return is_op;
}

bool
sluice_tpl_parser_skip_name(SluiceTplParser *p, const char *name)
{
    bool is_name = sluice_tpl_parser_is_name(p, name);

    p->pos += is_name;
    return is_name;
}

bool
sluice_tpl_parser_expect_op(SluiceTplParser *p, const char *op)
{
    char expected[8];

    if (sluice_tpl_parser_skip_op(p, op))
        return true;
    g_snprintf(expected, sizeof expected, "'%s'", op);
    return sluice_tpl_parser_fail_token(p, expected);
}

const SluiceTplToken *
sluice_tpl_parser_expect_name(SluiceTplParser *p)
{
    if (sluice_tpl_parser_look(p)->type != SLUICE_TPL_TOKEN_NAME)
        return sluice_tpl_parser_fail_token(p, "a name");
    return sluice_tpl_parser_next(p);
}

/* Undone by p->depth--; after a failure nobody looks at the depth again. */
bool
sluice_tpl_parser_enter(SluiceTplParser *p)
{
    if (++p->depth <= SLUICE_TPL_MAX_PARSE_DEPTH)
        return true;
    return sluice_tpl_parser_fail(p, sluice_tpl_parser_look(p)->line,
                                  "the template is nested more than %d deep",
                                  SLUICE_TPL_MAX_PARSE_DEPTH);
}

SluiceTplNode *
sluice_tpl_parser_node(SluiceTplParser *p, SluiceTplNodeType type, int line)
{
    Node *node = sluice_tpl_parser_alloc(p, 1, sizeof *node);

    if (node) {
        node->type = type;
        node->line = line;
    }
    return node;
}

/* ---- statements ----------------------------------------------------------------------------- */

/* What a statement keeps from its surroundings while its own scope is parsed. */
typedef struct {
    gsize n_conditions;
    int n_loops;
} Outside;

static Outside
enter_scope(Parser *p, bool is_function)
{
    Outside outside = {p->n_conditions, p->n_loops};

    p->n_conditions = 0;
    if (is_function)
        p->n_loops = 0;
    return outside;
}

static void
leave_scope(Parser *p, Outside outside)
{
    p->n_conditions = outside.n_conditions;
    p->n_loops = outside.n_loops;
}

static Body *
parse_scope(Parser *p, const char *const *until, const char *tag, bool is_function)
{
    Outside outside = enter_scope(p, is_function);
    Body *body = parse_body(p, until, tag);

    leave_scope(p, outside);
    return body;
}

static Node *
parse_if(Parser *p, int line)
{
    static const char *const branch_ends[] = {"elif", "else", "endif", NULL};
    static const char *const ends[] = {"endif", NULL};
    g_autoptr(GPtrArray) tests = g_ptr_array_new();
    g_autoptr(GPtrArray) bodies = g_ptr_array_new();
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_IF, line);

    p->n_conditions++;
    while (node) {
        Node *test = sluice_tpl_parser_tuple(p, false, NULL, false);
        Body *body = test ? parse_body(p, branch_ends, "if") : NULL;

        if (!body)
            return NULL;
        g_ptr_array_add(tests, test);
        g_ptr_array_add(bodies, body);
        if (sluice_tpl_parser_skip_name(p, "elif"))
            continue;
        if (sluice_tpl_parser_skip_name(p, "else") && !(node->body2 = parse_body(p, ends, "if")))
            return NULL;
        break;
    }
    p->n_conditions--;
    /* The last body ended before its end tag. */
    sluice_tpl_parser_skip_name(p, "endif");
    if (!node || !(node->list = sluice_tpl_parser_copy(p, tests)) ||
        !(node->bodies = sluice_tpl_parser_copy(p, bodies)))
        return NULL;
    node->n_list = tests->len;
    return node;
}

static Node *
parse_for(Parser *p, int line)
{
    static const char *const loop_ends[] = {"else", "endfor", NULL};
    static const char *const ends[] = {"endfor", NULL};
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_FOR, line);
    gsize n_macros = p->n_macros;
    gsize n_loop;
    Outside outside;

    if (!node || !(node->a = sluice_tpl_parser_target(p, "in", false)))
        return NULL;
    if (!sluice_tpl_parser_skip_name(p, "in"))
        return sluice_tpl_parser_fail_token(p, "'in'");
    if (!(node->b = sluice_tpl_parser_tuple(p, false, "recursive", false)))
        return NULL;
    outside = enter_scope(p, false);
    if (sluice_tpl_parser_skip_name(p, "if") && !(node->c = sluice_tpl_parser_expression(p, true)))
        return NULL;
    node->is_extended = sluice_tpl_parser_skip_name(p, "recursive");
    p->n_loops++;
    n_loop = p->n_loop;
    if (!(node->body = parse_body(p, loop_ends, "for")))
        return NULL;
    node->uses_loop = p->n_loop != n_loop || node->is_extended;
    leave_scope(p, outside);
    if (sluice_tpl_parser_skip_name(p, "else") &&
        !(node->body2 = parse_scope(p, ends, "for", false)))
        return NULL;
    sluice_tpl_parser_skip_name(p, "endfor");
    node->has_closure = p->n_macros != n_macros;
    return node;
}

static Node *
parse_set(Parser *p, int line)
{
    static const char *const ends[] = {"endset", NULL};
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_SET, line);

    if (!node || !(node->a = sluice_tpl_parser_target(p, NULL, true)))
        return NULL;
    if (sluice_tpl_parser_skip_op(p, "="))
        return (node->b = sluice_tpl_parser_tuple(p, true, NULL, false)) ? node : NULL;
    node->type = SLUICE_TPL_NODE_SET_BLOCK;
    if (sluice_tpl_parser_is_op(p, "|") && !(node->b = sluice_tpl_parser_filters(p, NULL, false)))
        return NULL;
    if (!(node->body = parse_scope(p, ends, "set", false)))
        return NULL;
    sluice_tpl_parser_next(p);
    return node;
}

/* Parameters with their defaults, in brackets. */
static bool
parse_signature(Parser *p, Node *node)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    g_autoptr(GPtrArray) defaults = g_ptr_array_new();
    bool has_default = false;

    if (!sluice_tpl_parser_expect_op(p, "("))
        return false;
    while (!sluice_tpl_parser_is_op(p, ")")) {
        const SluiceTplToken *token;
        Node *name;
        Node *value = NULL;

        if (names->len > 0 && !sluice_tpl_parser_expect_op(p, ","))
            return false;
        if (!(token = sluice_tpl_parser_expect_name(p)) ||
            !(name = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_NAME, token->line)))
            return false;
        name->name = sluice_tpl_name_id(p->template, token->text->data, token->text->n);
        name->text = token->text;
        if (sluice_tpl_parser_skip_op(p, "=")) {
            if (!(value = sluice_tpl_parser_expression(p, true)))
                return false;
            has_default = true;
        } else if (has_default) {
            return sluice_tpl_parser_fail(p, token->line,
                                          "non-default argument follows default argument");
        }
        g_ptr_array_add(names, name);
        g_ptr_array_add(defaults, value);
    }
    sluice_tpl_parser_next(p);
    node->n_list = names->len;
    return names->len == 0 || ((node->list = sluice_tpl_parser_copy(p, names)) &&
                               (node->defaults = sluice_tpl_parser_copy(p, defaults)));
}

/* The body of a macro or call block, and which of the special variables it uses. */
static bool
parse_macro_body(Parser *p, Node *node, const char *const *ends, const char *tag)
{
    gsize n_caller = p->n_caller;
    gsize n_varargs = p->n_varargs;
    gsize n_kwargs = p->n_kwargs;

    p->n_macros++;
    if (!(node->body = parse_scope(p, ends, tag, true)))
        return false;
    node->is_extended = p->n_caller != n_caller;
    node->uses_varargs = p->n_varargs != n_varargs;
    node->uses_kwargs = p->n_kwargs != n_kwargs;
    sluice_tpl_parser_next(p);
    return true;
}

static Node *
parse_macro(Parser *p, int line)
{
    static const char *const ends[] = {"endmacro", NULL};
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_MACRO, line);
    const SluiceTplToken *token = node ? sluice_tpl_parser_expect_name(p) : NULL;
    Outside outside;

    if (!token)
        return NULL;
    node->text = token->text;
    node->name = sluice_tpl_name_id(p->template, token->text->data, token->text->n);
    outside = enter_scope(p, false);
    if (!parse_signature(p, node) || !parse_macro_body(p, node, ends, "macro"))
        return NULL;
    leave_scope(p, outside);
    return node;
}

static Node *
parse_call_block(Parser *p, int line)
{
    static const char *const ends[] = {"endcall", NULL};
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_CALL_BLOCK, line);
    Outside outside;

    if (!node)
        return NULL;
    if (sluice_tpl_parser_is_op(p, "(") && !parse_signature(p, node))
        return NULL;
    if (!(node->a = sluice_tpl_parser_expression(p, true)))
        return NULL;
    if (node->a->type != SLUICE_TPL_NODE_CALL)
        return sluice_tpl_parser_fail(p, line, "expected a call after 'call'");
    outside = enter_scope(p, false);
    if (!parse_macro_body(p, node, ends, "call"))
        return NULL;
    leave_scope(p, outside);
    return node;
}

static Node *
parse_filter_block(Parser *p, int line)
{
    static const char *const ends[] = {"endfilter", NULL};
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_FILTER_BLOCK, line);

    if (!node || !(node->b = sluice_tpl_parser_filters(p, NULL, true)) ||
        (sluice_tpl_parser_is_op(p, "|") &&
         !(node->b = sluice_tpl_parser_filters(p, node->b, false))) ||
        !(node->body = parse_scope(p, ends, "filter", false)))
        return NULL;
    sluice_tpl_parser_next(p);
    return node;
}

static Node *
parse_with(Parser *p, int line)
{
    static const char *const ends[] = {"endwith", NULL};
    g_autoptr(GPtrArray) targets = g_ptr_array_new();
    g_autoptr(GPtrArray) values = g_ptr_array_new();
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_WITH, line);

    while (node && sluice_tpl_parser_look(p)->type != SLUICE_TPL_TOKEN_BLOCK_END) {
        Node *target;
        Node *value;
        if (targets->len > 0 && !sluice_tpl_parser_expect_op(p, ","))
            return NULL;
        if (!(target = sluice_tpl_parser_target(p, NULL, false)) ||
            !sluice_tpl_parser_expect_op(p, "=") ||
            !(value = sluice_tpl_parser_expression(p, true)))
            return NULL;
        g_ptr_array_add(targets, target);
        g_ptr_array_add(values, value);
    }
    if (!node || (targets->len > 0 && (!(node->list = sluice_tpl_parser_copy(p, targets)) ||
                                       !(node->defaults = sluice_tpl_parser_copy(p, values)))))
        return NULL;
    node->n_list = targets->len;
    if (!(node->body = parse_scope(p, ends, "with", false)))
        return NULL;
    sluice_tpl_parser_next(p);
    return node;
}

/* Training marks with it what the assistant wrote; rendering passes it through. */
static Node *
parse_generation(Parser *p, int line)
{
    static const char *const ends[] = {"endgeneration", NULL};
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_GENERATION, line);

    p->n_macros++;
    if (!node || !(node->body = parse_scope(p, ends, "generation", true)))
        return NULL;
    sluice_tpl_parser_next(p);
    return node;
}

/* {% print a, b %} */
static Node *
parse_print(Parser *p, int line)
{
    g_autoptr(GPtrArray) values = g_ptr_array_new();
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_OUTPUT, line);
    Node *concat = node ? sluice_tpl_parser_node(p, SLUICE_TPL_NODE_CONCAT, line) : NULL;

    while (concat && sluice_tpl_parser_look(p)->type != SLUICE_TPL_TOKEN_BLOCK_END) {
        Node *value;
        if (values->len > 0 && !sluice_tpl_parser_expect_op(p, ","))
            return NULL;
        if (!(value = sluice_tpl_parser_expression(p, true)))
            return NULL;
        g_ptr_array_add(values, value);
    }
    if (!concat || (values->len > 0 && !(concat->list = sluice_tpl_parser_copy(p, values))))
        return NULL;
    concat->n_list = values->len;
    node->a = concat;
    return node;
}

static Node *
parse_loop_control(Parser *p, int line, SluiceTplNodeType type, const char *name)
{
    if (p->n_loops == 0)
        return sluice_tpl_parser_fail(p, line, "'%s' outside of a loop", name);
    return sluice_tpl_parser_node(p, type, line);
}

static Node *
fail_tag(Parser *p, const SluiceTplToken *token)
{
    static const char *const refused[] = {"extends", "include", "import",
                                          "from",    "block",   "autoescape"};
    g_autofree char *name = sluice_error_printable(token->text->data, (gssize) token->text->n);
    g_autoptr(GString) awaited = g_string_new(NULL);

    for (gsize i = 0; i < G_N_ELEMENTS(refused); i++)
        if (strcmp(name, refused[i]) == 0)
            return sluice_tpl_parser_fail(p, token->line, "the tag '%s' is not supported", name);
    if (!p->until)
        return sluice_tpl_parser_fail(p, token->line, "unknown tag '%s'", name);
    for (gsize i = 0; p->until[i]; i++)
        g_string_append_printf(awaited, "%s'%s'", i > 0 ? " or " : "", p->until[i]);
    return sluice_tpl_parser_fail(p, token->line, "unknown tag '%s'; '%s' waits for %s", name,
                                  p->tag, awaited->str);
}

static Node *
parse_statement(Parser *p)
{
    static const struct {
        const char *name;
        Node *(*parse)(Parser *p, int line);
    } tags[] = {
        {"if", parse_if},           {"for", parse_for},
        {"set", parse_set},         {"macro", parse_macro},
        {"call", parse_call_block}, {"filter", parse_filter_block},
        {"with", parse_with},       {"generation", parse_generation},
        {"print", parse_print},
    };
    const SluiceTplToken *token = sluice_tpl_parser_look(p);

    if (token->type != SLUICE_TPL_TOKEN_NAME)
        return sluice_tpl_parser_fail_token(p, "the name of a tag");
    sluice_tpl_parser_next(p);
    for (gsize i = 0; i < G_N_ELEMENTS(tags); i++)
        if (is_text(token->text, tags[i].name)) {
            Node *node = sluice_tpl_parser_enter(p) ? tags[i].parse(p, token->line) : NULL;
            p->depth--;
            return node;
        }
    if (is_text(token->text, "break"))
        return parse_loop_control(p, token->line, SLUICE_TPL_NODE_BREAK, "break");
    if (is_text(token->text, "continue"))
        return parse_loop_control(p, token->line, SLUICE_TPL_NODE_CONTINUE, "continue");
    return fail_tag(p, token);
}

static Node *
parse_output(Parser *p)
{
    int line = sluice_tpl_parser_next(p)->line;
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_OUTPUT, line);

    if (!node || !(node->a = sluice_tpl_parser_tuple(p, true, NULL, false)))
        return NULL;
    if (sluice_tpl_parser_look(p)->type != SLUICE_TPL_TOKEN_VARIABLE_END)
        return sluice_tpl_parser_fail_token(p, "'}}'");
    sluice_tpl_parser_next(p);
    return node;
}

static bool
is_end(const Parser *p, const char *const *until)
{
    for (gsize i = 0; until && until[i]; i++)
        if (sluice_tpl_parser_is_name(p, until[i]))
            return true;
    return false;
}

static bool
expect_block_end(Parser *p)
{
    if (sluice_tpl_parser_look(p)->type != SLUICE_TPL_TOKEN_BLOCK_END)
        return sluice_tpl_parser_fail_token(p, "'%}'");
    sluice_tpl_parser_next(p);
    return true;
}

/* Statements and text up to one of the tags of @until, whose name is next then. */
static bool
parse_list_until(Parser *p, const char *const *until, GPtrArray *nodes)
{
    for (;;) {
        const SluiceTplToken *token = sluice_tpl_parser_look(p);
        Node *node;

        switch (token->type) {
        case SLUICE_TPL_TOKEN_END:
            if (!until)
                return true;
            return sluice_tpl_parser_fail(p, token->line,
                                          "unexpected end of template: '%s' waits for '%s'", p->tag,
                                          until[g_strv_length((char **) until) - 1]);
        case SLUICE_TPL_TOKEN_DATA:
            if (!(node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_DATA, token->line)))
                return false;
            node->text = token->text;
            sluice_tpl_parser_next(p);
            break;
        case SLUICE_TPL_TOKEN_VARIABLE_BEGIN:
            if (!(node = parse_output(p)))
                return false;
            break;
        default:
            sluice_tpl_parser_next(p);
            if (is_end(p, until))
                return true;
            if (!(node = parse_statement(p)) || !expect_block_end(p))
                return false;
            break;
        }
        g_ptr_array_add(nodes, node);
    }
}

/* From the end of the opening tag, or the begin of the template without @until. */
static Body *
parse_body(Parser *p, const char *const *until, const char *tag)
{
    g_autoptr(GPtrArray) nodes = g_ptr_array_new();
    const char *const *outer_until = p->until;
    const char *outer_tag = p->tag;
    Body *body = sluice_tpl_parser_alloc(p, 1, sizeof *body);

    if (!body)
        return NULL;
    if (until) {
        sluice_tpl_parser_skip_op(p, ":");
        if (!expect_block_end(p))
            return NULL;
    }
    p->until = until;
    p->tag = tag;
    if (!parse_list_until(p, until, nodes) ||
        (nodes->len > 0 && !(body->list = sluice_tpl_parser_copy(p, nodes))))
        return NULL;
    body->n_list = nodes->len;
    p->until = outer_until;
    p->tag = outer_tag;
    return body;
}

gboolean
sluice_tpl_parse(SluiceTemplate *t, const SluiceTplToken *tokens, GError **error)
{
    g_autoptr(GPtrArray) unknown = g_ptr_array_new();
    Parser p = {.template = t, .tokens = tokens, .unknown = unknown, .error = error};

    if (!(t->body = parse_body(&p, NULL, NULL)))
        return FALSE;
    if (unknown->len > 0) {
        const Node *node = g_ptr_array_index(unknown, 0);
        g_autofree char *name = sluice_error_printable(node->text->data, (gssize) node->text->n);
        sluice_tpl_parser_fail(&p, node->line, "no %s named '%s'",
                               node->type == SLUICE_TPL_NODE_FILTER ? "filter" : "test", name);
        return FALSE;
    }
    return TRUE;
}
