/* SPDX-License-Identifier: MIT */
/* Expressions of a template, by recursive descent; the order of precedence is jinja2's. */
#include "config.h"

#include "src/text/template-parser-private.h"

#include <string.h>

typedef SluiceTplNode Node;
typedef SluiceTplParser Parser;

static Node *parse_unary(Parser *p, bool with_filters);
static Node *parse_or(Parser *p);
static Node *parse_primary(Parser *p, bool with_namespace);
static Node *parse_postfix(Parser *p, Node *node);

static int
height_of(const Node *node)
{
    return node ? node->height : 0;
}

/* Every finished node of an expression goes through here: evaluation recurses over the tree. */
static Node *
finish(Parser *p, Node *node)
{
    int height = MAX(MAX(height_of(node->a), height_of(node->b)), height_of(node->c));

    for (gsize i = 0; i < node->n_list; i++)
        height = MAX(height, height_of(node->list[i]));
    if (node->call) {
        for (gsize i = 0; i < node->call->n_args; i++)
            height = MAX(height, height_of(node->call->args[i]));
        for (gsize i = 0; i < node->call->n_keywords; i++)
            height = MAX(height, height_of(node->call->keywords[i].value));
        height = MAX(height, height_of(node->call->star));
        height = MAX(height, height_of(node->call->star_star));
    }
    node->height = height + 1;
    if (node->height > SLUICE_TPL_MAX_HEIGHT)
        return sluice_tpl_parser_fail(p, node->line, "an expression is nested more than %d deep",
                                      SLUICE_TPL_MAX_HEIGHT);
    return node;
}

static bool
set_list(Parser *p, Node *node, GPtrArray *array)
{
    node->n_list = array->len;
    return array->len == 0 || (node->list = sluice_tpl_parser_copy(p, array));
}

static Node *
binary(Parser *p, SluiceTplNodeType type, int line, char op, Node *a, Node *b)
{
    Node *node = sluice_tpl_parser_node(p, type, line);

    if (!node || !a || !b)
        return NULL;
    node->op = op;
    node->a = a;
    node->b = b;
    return finish(p, node);
}

static Node *
constant(Parser *p, int line, SluiceTplValue value)
{
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_CONST, line);

    if (!node)
        return NULL;
    node->value = value;
    return finish(p, node);
}

/* ---- primary expressions -------------------------------------------------------------------- */

static Node *
parse_name(Parser *p, bool with_namespace)
{
    const SluiceTplToken *token = sluice_tpl_parser_next(p);
    const SluiceTplString *s = token->text;
    SluiceTplValue text = SLUICE_TPL_STRING_VALUE(s);
    Node *node;

    if (sluice_tpl_is_string(&text, "true") || sluice_tpl_is_string(&text, "True"))
        return constant(p, token->line, SLUICE_TPL_BOOL_VALUE(true));
    if (sluice_tpl_is_string(&text, "false") || sluice_tpl_is_string(&text, "False"))
        return constant(p, token->line, SLUICE_TPL_BOOL_VALUE(false));
    if (sluice_tpl_is_string(&text, "none") || sluice_tpl_is_string(&text, "None"))
        return constant(p, token->line, SLUICE_TPL_NONE_VALUE);
    p->n_caller += sluice_tpl_is_string(&text, "caller");
    p->n_varargs += sluice_tpl_is_string(&text, "varargs");
    p->n_kwargs += sluice_tpl_is_string(&text, "kwargs");
    p->n_loop += sluice_tpl_is_string(&text, "loop");
    if (!(node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_NAME, token->line)))
        return NULL;
    node->name = sluice_tpl_name_id(p->template, s->data, s->n);
    if (with_namespace && sluice_tpl_parser_skip_op(p, ".")) {
        const SluiceTplToken *attribute = sluice_tpl_parser_expect_name(p);
        if (!attribute)
            return NULL;
        node->type = SLUICE_TPL_NODE_NSREF;
        node->text = attribute->text;
    }
    return finish(p, node);
}

/* Adjacent literals are one. */
static Node *
parse_string(Parser *p)
{
    int line = sluice_tpl_parser_look(p)->line;
    const SluiceTplString *s = sluice_tpl_parser_next(p)->text;
    SluiceTplBuilder b;

    if (sluice_tpl_parser_look(p)->type == SLUICE_TPL_TOKEN_STRING) {
        sluice_tpl_builder_init_from(&b, &p->template->arena, s);
        while (sluice_tpl_parser_look(p)->type == SLUICE_TPL_TOKEN_STRING)
            sluice_tpl_builder_string(&b, sluice_tpl_parser_next(p)->text);
        if (!(s = sluice_tpl_builder_end(&b)))
            return sluice_tpl_parser_fail(p, line, "the strings are too long");
    }
    return constant(p, line, SLUICE_TPL_STRING_VALUE(s));
}

static Node *
parse_list(Parser *p)
{
    g_autoptr(GPtrArray) items = g_ptr_array_new();
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_LIST, sluice_tpl_parser_next(p)->line);

    while (node && !sluice_tpl_parser_is_op(p, "]")) {
        Node *item;
        if (items->len > 0 && !sluice_tpl_parser_expect_op(p, ","))
            return NULL;
        if (sluice_tpl_parser_is_op(p, "]"))
            break;
        if (!(item = sluice_tpl_parser_expression(p, true)))
            return NULL;
        g_ptr_array_add(items, item);
    }
    if (!node || !sluice_tpl_parser_expect_op(p, "]") || !set_list(p, node, items))
        return NULL;
    return finish(p, node);
}

static Node *
parse_dict(Parser *p)
{
    g_autoptr(GPtrArray) items = g_ptr_array_new();
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_DICT, sluice_tpl_parser_next(p)->line);

    while (node && !sluice_tpl_parser_is_op(p, "}")) {
        Node *key;
        Node *value;
        if (items->len > 0 && !sluice_tpl_parser_expect_op(p, ","))
            return NULL;
        if (sluice_tpl_parser_is_op(p, "}"))
            break;
        if (!(key = sluice_tpl_parser_expression(p, true)) ||
            !sluice_tpl_parser_expect_op(p, ":") ||
            !(value = sluice_tpl_parser_expression(p, true)))
            return NULL;
        g_ptr_array_add(items, key);
        g_ptr_array_add(items, value);
    }
    if (!node || !sluice_tpl_parser_expect_op(p, "}") || !set_list(p, node, items))
        return NULL;
    return finish(p, node);
}

static Node *
parse_primary(Parser *p, bool with_namespace)
{
    const SluiceTplToken *token = sluice_tpl_parser_look(p);
    Node *node;

    switch (token->type) {
    case SLUICE_TPL_TOKEN_NAME:
        return parse_name(p, with_namespace);
    case SLUICE_TPL_TOKEN_STRING:
        return parse_string(p);
    case SLUICE_TPL_TOKEN_INTEGER:
        sluice_tpl_parser_next(p);
        return constant(p, token->line, SLUICE_TPL_INT_VALUE(token->integer));
    case SLUICE_TPL_TOKEN_FLOAT:
        sluice_tpl_parser_next(p);
        return constant(p, token->line, SLUICE_TPL_FLOAT_VALUE(token->real));
    default:
        break;
    }
    if (!sluice_tpl_parser_is_op(p, "(") && !sluice_tpl_parser_is_op(p, "[") &&
        !sluice_tpl_parser_is_op(p, "{"))
        return sluice_tpl_parser_fail_token(p, "an expression");
    if (!sluice_tpl_parser_enter(p))
        return NULL;
    if (sluice_tpl_parser_skip_op(p, "(")) {
        node = sluice_tpl_parser_tuple(p, true, NULL, true);
        if (node && !sluice_tpl_parser_expect_op(p, ")"))
            return NULL;
    } else {
        node = sluice_tpl_parser_is_op(p, "[") ? parse_list(p) : parse_dict(p);
    }
    p->depth--;
    return node;
}

/* ---- calls, subscripts, filters, tests ------------------------------------------------------ */

static bool
parse_argument(Parser *p, SluiceTplArgs *call, GPtrArray *args, GArray *keywords)
{
    const SluiceTplToken *token = sluice_tpl_parser_look(p);
    const SluiceTplToken *after = token->type == SLUICE_TPL_TOKEN_END ? token : token + 1;
    bool is_keyword = token->type == SLUICE_TPL_TOKEN_NAME &&
                      after->type == SLUICE_TPL_TOKEN_OPERATOR && strcmp(after->op, "=") == 0;
    Node **star = sluice_tpl_parser_is_op(p, "*")    ? &call->star
                  : sluice_tpl_parser_is_op(p, "**") ? &call->star_star
                                                     : NULL;
    Node *value;

    if (call->star_star || (call->star && !is_keyword && star != &call->star_star) ||
        (!is_keyword && !star && keywords->len > 0))
        return sluice_tpl_parser_fail(p, token->line,
                                      "invalid syntax for function call expression");
    if (star)
        sluice_tpl_parser_next(p);
    if (is_keyword) {
        sluice_tpl_parser_next(p);
        sluice_tpl_parser_next(p);
    }
    if (!(value = sluice_tpl_parser_expression(p, true)))
        return false;
    if (star) {
        *star = value;
    } else if (is_keyword) {
        SluiceTplNamedNode keyword = {token->text, value};
        g_array_append_val(keywords, keyword);
    } else {
        g_ptr_array_add(args, value);
    }
    return true;
}

/* From the opening bracket to the closing one. */
static SluiceTplArgs *
parse_arguments(Parser *p)
{
    g_autoptr(GPtrArray) args = g_ptr_array_new();
    g_autoptr(GArray) keywords = g_array_new(FALSE, FALSE, sizeof(SluiceTplNamedNode));
    SluiceTplArgs *call = sluice_tpl_parser_alloc(p, 1, sizeof *call);
    bool needs_comma = false;

    if (!call || !sluice_tpl_parser_enter(p))
        return NULL;
    sluice_tpl_parser_next(p);
    while (!sluice_tpl_parser_is_op(p, ")")) {
        if (needs_comma && !sluice_tpl_parser_expect_op(p, ","))
            return NULL;
        if (needs_comma && sluice_tpl_parser_is_op(p, ")"))
            break;
        if (!parse_argument(p, call, args, keywords))
            return NULL;
        needs_comma = true;
    }
    p->depth--;
    call->n_args = args->len;
    call->n_keywords = keywords->len;
    if (!sluice_tpl_parser_expect_op(p, ")") ||
        (args->len > 0 && !(call->args = sluice_tpl_parser_copy(p, args))))
        return NULL;
    if (keywords->len > 0) {
        call->keywords = sluice_tpl_parser_alloc(p, keywords->len, sizeof *call->keywords);
        if (!call->keywords)
            return NULL;
        memcpy(call->keywords, keywords->data, keywords->len * sizeof *call->keywords);
    }
    return call;
}

static Node *
parse_call(Parser *p, Node *callee)
{
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_CALL, sluice_tpl_parser_look(p)->line);

    if (!node || !(node->call = parse_arguments(p)))
        return NULL;
    node->a = callee;
    return finish(p, node);
}

/* One of the three parts of a slice: absent before a colon, a comma or the end. */
static bool
parse_bound(Parser *p, Node **bound)
{
    *bound = NULL;
    if (sluice_tpl_parser_is_op(p, ":") || sluice_tpl_parser_is_op(p, "]") ||
        sluice_tpl_parser_is_op(p, ","))
        return true;
    return (*bound = sluice_tpl_parser_expression(p, true)) != NULL;
}

/* An index or a slice; @subject[…] is made of it by the caller. */
static Node *
parse_subscribed(Parser *p, Node *subject, int line)
{
    Node *node;
    Node *first = NULL;

    if (!sluice_tpl_parser_is_op(p, ":")) {
        if (!(first = sluice_tpl_parser_expression(p, true)))
            return NULL;
        if (!sluice_tpl_parser_is_op(p, ":"))
            return binary(p, SLUICE_TPL_NODE_ITEM, line, 0, subject, first);
    }
    sluice_tpl_parser_next(p);
    if (!(node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_SLICE, line)) ||
        !(node->list = sluice_tpl_parser_alloc(p, 3, sizeof *node->list)))
        return NULL;
    node->a = subject;
    node->n_list = 3;
    node->list[0] = first;
    if (!parse_bound(p, &node->list[1]) ||
        (sluice_tpl_parser_skip_op(p, ":") && !parse_bound(p, &node->list[2])))
        return NULL;
    return finish(p, node);
}

static Node *
parse_subscript(Parser *p, Node *subject)
{
    const SluiceTplToken *token = sluice_tpl_parser_next(p);
    Node *node;

    if (token->op[0] == '.') {
        const SluiceTplToken *attribute = sluice_tpl_parser_look(p);
        if (attribute->type == SLUICE_TPL_TOKEN_INTEGER) {
            sluice_tpl_parser_next(p);
            return binary(p, SLUICE_TPL_NODE_ITEM, token->line, 0, subject,
                          constant(p, attribute->line, SLUICE_TPL_INT_VALUE(attribute->integer)));
        }
        if (!(attribute = sluice_tpl_parser_expect_name(p)) ||
            !(node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_ATTRIBUTE, token->line)))
            return NULL;
        node->a = subject;
        node->text = attribute->text;
        return finish(p, node);
    }
    if (!sluice_tpl_parser_enter(p))
        return NULL;
    if (sluice_tpl_parser_is_op(p, "]"))
        return sluice_tpl_parser_fail_token(p, "an index");
    node = parse_subscribed(p, subject, token->line);
    p->depth--;
    if (!node)
        return NULL;
    if (sluice_tpl_parser_is_op(p, ","))
        return sluice_tpl_parser_fail(p, token->line, "an index of several parts is not supported");
    return sluice_tpl_parser_expect_op(p, "]") ? node : NULL;
}

static Node *
parse_postfix(Parser *p, Node *node)
{
    while (node) {
        if (sluice_tpl_parser_is_op(p, ".") || sluice_tpl_parser_is_op(p, "["))
            node = parse_subscript(p, node);
        else if (sluice_tpl_parser_is_op(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* The name of a filter or test, whose parts may be separated by dots. */
static const SluiceTplString *
parse_dotted_name(Parser *p)
{
    const SluiceTplToken *token = sluice_tpl_parser_expect_name(p);
    const SluiceTplString *s = token ? token->text : NULL;
    SluiceTplBuilder b;

    if (!token || !sluice_tpl_parser_is_op(p, "."))
        return s;
    sluice_tpl_builder_init_from(&b, &p->template->arena, s);
    while (sluice_tpl_parser_skip_op(p, ".")) {
        if (!(token = sluice_tpl_parser_expect_name(p)))
            return NULL;
        sluice_tpl_builder_literal(&b, ".");
        sluice_tpl_builder_string(&b, token->text);
    }
    if (!(s = sluice_tpl_builder_end(&b)))
        return sluice_tpl_parser_fail(p, token->line, "the name is too long");
    return s;
}

/*
 * Gives a filter or test its function. jinja2 lets an unknown name stand in the branch of an if,
 * where it fails only when it is reached; templates that test for a feature rely on it.
 */
static void
resolve_function(Parser *p, Node *node, const SluiceTplString *name)
{
    bool is_filter = node->type == SLUICE_TPL_NODE_FILTER;
    g_autofree char *text = g_strndup(name->data, name->n);

    node->text = name;
    node->func = is_filter ? sluice_tpl_filter_find(text) : sluice_tpl_test_find(text);
    if (!node->func && p->n_conditions == 0)
        g_ptr_array_add(p->unknown, node);
}

SluiceTplNode *
sluice_tpl_parser_filters(SluiceTplParser *p, SluiceTplNode *subject, bool is_inline)
{
    while (is_inline || sluice_tpl_parser_skip_op(p, "|")) {
        Node *node =
            sluice_tpl_parser_node(p, SLUICE_TPL_NODE_FILTER, sluice_tpl_parser_look(p)->line);
        const SluiceTplString *name = node ? parse_dotted_name(p) : NULL;

        if (!name)
            return NULL;
        resolve_function(p, node, name);
        if (sluice_tpl_parser_is_op(p, "(") && !(node->call = parse_arguments(p)))
            return NULL;
        node->a = subject;
        if (!(subject = finish(p, node)))
            return NULL;
        is_inline = false;
    }
    return subject;
}

/* Whether the argument of a test follows without brackets. */
static bool
is_bare_argument(const Parser *p)
{
    switch (sluice_tpl_parser_look(p)->type) {
    case SLUICE_TPL_TOKEN_NAME:
        return !sluice_tpl_parser_is_name(p, "else") && !sluice_tpl_parser_is_name(p, "or") &&
               !sluice_tpl_parser_is_name(p, "and");
    case SLUICE_TPL_TOKEN_STRING:
    case SLUICE_TPL_TOKEN_INTEGER:
    case SLUICE_TPL_TOKEN_FLOAT:
        return true;
    default:
        return sluice_tpl_parser_is_op(p, "[") || sluice_tpl_parser_is_op(p, "{");
    }
}

static Node *
parse_test(Parser *p, Node *subject)
{
    int line = sluice_tpl_parser_next(p)->line;
    bool is_negated = sluice_tpl_parser_skip_name(p, "not");
    Node *node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_TEST, line);
    Node *negation;
    const SluiceTplString *name = node ? parse_dotted_name(p) : NULL;

    if (!name)
        return NULL;
    resolve_function(p, node, name);
    node->a = subject;
    if (sluice_tpl_parser_is_op(p, "(")) {
        if (!(node->call = parse_arguments(p)))
            return NULL;
    } else if (is_bare_argument(p)) {
        Node **argument = sluice_tpl_parser_alloc(p, 1, sizeof(Node *));
        if (sluice_tpl_parser_is_name(p, "is"))
            return sluice_tpl_parser_fail(p, line, "you cannot chain multiple tests with is");
        if (!argument || !(node->call = sluice_tpl_parser_alloc(p, 1, sizeof *node->call)) ||
            !(*argument = parse_postfix(p, parse_primary(p, false))))
            return NULL;
        node->call->args = argument;
        node->call->n_args = 1;
    }
    if (!(node = finish(p, node)) || !is_negated)
        return node;
    if (!(negation = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_NOT, line)))
        return NULL;
    negation->a = node;
    return finish(p, negation);
}

static Node *
parse_filters_and_tests(Parser *p, Node *node)
{
    while (node) {
        if (sluice_tpl_parser_is_op(p, "|"))
            node = sluice_tpl_parser_filters(p, node, false);
        else if (sluice_tpl_parser_is_name(p, "is"))
            node = parse_test(p, node);
        else if (sluice_tpl_parser_is_op(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* ---- operators ------------------------------------------------------------------------------ */

static Node *
parse_unary(Parser *p, bool with_filters)
{
    const SluiceTplToken *token = sluice_tpl_parser_look(p);
    Node *node;

    if (sluice_tpl_parser_is_op(p, "-") || sluice_tpl_parser_is_op(p, "+")) {
        if (!sluice_tpl_parser_enter(p) ||
            !(node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_UNARY, token->line)))
            return NULL;
        sluice_tpl_parser_next(p);
        node->op = token->op[0];
        if (!(node->a = parse_unary(p, false)))
            return NULL;
        p->depth--;
        node = finish(p, node);
    } else {
        node = parse_primary(p, false);
    }
    node = node ? parse_postfix(p, node) : NULL;
    return node && with_filters ? parse_filters_and_tests(p, node) : node;
}

static Node *
parse_power(Parser *p)
{
    Node *left = parse_unary(p, true);

    while (left && sluice_tpl_parser_is_op(p, "**")) {
        int line = sluice_tpl_parser_next(p)->line;
        left = binary(p, SLUICE_TPL_NODE_BINARY, line, 'p', left, parse_unary(p, true));
    }
    return left;
}

static Node *
parse_product(Parser *p)
{
    static const char *const ops[] = {"*", "/", "//", "%"};
    Node *left = parse_power(p);

    while (left) {
        gsize i = 0;
        int line = sluice_tpl_parser_look(p)->line;

        while (i < G_N_ELEMENTS(ops) && !sluice_tpl_parser_is_op(p, ops[i]))
            i++;
        if (i == G_N_ELEMENTS(ops))
            break;
        sluice_tpl_parser_next(p);
        left = binary(p, SLUICE_TPL_NODE_BINARY, line, ops[i][1] ? 'f' : ops[i][0], left,
                      parse_power(p));
    }
    return left;
}

static Node *
parse_concat(Parser *p)
{
    g_autoptr(GPtrArray) parts = NULL;
    Node *node = parse_product(p);
    Node *concat;

    if (!node || !sluice_tpl_parser_is_op(p, "~"))
        return node;
    parts = g_ptr_array_new();
    g_ptr_array_add(parts, node);
    if (!(concat = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_CONCAT, node->line)))
        return NULL;
    while (sluice_tpl_parser_skip_op(p, "~")) {
        if (!(node = parse_product(p)))
            return NULL;
        g_ptr_array_add(parts, node);
    }
    return set_list(p, concat, parts) ? finish(p, concat) : NULL;
}

static Node *
parse_sum(Parser *p)
{
    Node *left = parse_concat(p);

    while (left && (sluice_tpl_parser_is_op(p, "+") || sluice_tpl_parser_is_op(p, "-"))) {
        const SluiceTplToken *token = sluice_tpl_parser_next(p);
        left = binary(p, SLUICE_TPL_NODE_BINARY, token->line, token->op[0], left, parse_concat(p));
    }
    return left;
}

/* The letter of the comparison that comes next, consumed, or 0. */
static char
skip_comparison(Parser *p)
{
    static const struct {
        const char *op;
        char letter;
    } ops[] = {{"==", '='}, {"!=", '!'}, {"<", '<'}, {"<=", 'l'}, {">", '>'}, {">=", 'g'}};

    for (gsize i = 0; i < G_N_ELEMENTS(ops); i++)
        if (sluice_tpl_parser_skip_op(p, ops[i].op))
            return ops[i].letter;
    if (sluice_tpl_parser_skip_name(p, "in"))
        return 'i';
    if (sluice_tpl_parser_is_name(p, "not")) {
        p->pos++;
        if (sluice_tpl_parser_skip_name(p, "in"))
            return 'n';
        p->pos--;
    }
    return '\0';
}

static Node *
parse_compare(Parser *p)
{
    g_autoptr(GPtrArray) operands = NULL;
    g_autoptr(GString) ops = NULL;
    int line = sluice_tpl_parser_look(p)->line;
    Node *first = parse_sum(p);
    Node *node;
    char letter;
    char *letters;

    if (!first || !(letter = skip_comparison(p)))
        return first;
    operands = g_ptr_array_new();
    ops = g_string_new(NULL);
    do {
        if (!(node = parse_sum(p)))
            return NULL;
        g_ptr_array_add(operands, node);
        g_string_append_c(ops, letter);
    } while ((letter = skip_comparison(p)));
    if (!(node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_COMPARE, line)) ||
        !(letters = sluice_tpl_parser_alloc(p, ops->len, 1)) || !set_list(p, node, operands))
        return NULL;
    memcpy(letters, ops->str, ops->len);
    node->ops = letters;
    node->a = first;
    return finish(p, node);
}

static Node *
parse_not(Parser *p)
{
    Node *node;

    if (!sluice_tpl_parser_is_name(p, "not"))
        return parse_compare(p);
    if (!sluice_tpl_parser_enter(p) ||
        !(node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_NOT, sluice_tpl_parser_next(p)->line)) ||
        !(node->a = parse_not(p)))
        return NULL;
    p->depth--;
    return finish(p, node);
}

static Node *
parse_and(Parser *p)
{
    Node *left = parse_not(p);

    while (left && sluice_tpl_parser_is_name(p, "and")) {
        int line = sluice_tpl_parser_next(p)->line;
        left = binary(p, SLUICE_TPL_NODE_AND, line, 0, left, parse_not(p));
    }
    return left;
}

static Node *
parse_or(Parser *p)
{
    Node *left = parse_and(p);

    while (left && sluice_tpl_parser_is_name(p, "or")) {
        int line = sluice_tpl_parser_next(p)->line;
        left = binary(p, SLUICE_TPL_NODE_OR, line, 0, left, parse_and(p));
    }
    return left;
}

SluiceTplNode *
sluice_tpl_parser_expression(SluiceTplParser *p, bool with_condition)
{
    guint n_unknown = p->unknown->len;
    Node *value;

    if (!sluice_tpl_parser_enter(p) || !(value = parse_or(p)))
        return NULL;
    while (value && with_condition && sluice_tpl_parser_is_name(p, "if")) {
        Node *node =
            sluice_tpl_parser_node(p, SLUICE_TPL_NODE_COND, sluice_tpl_parser_next(p)->line);

        /* Only now it shows that what stands before the "if" is a branch. */
        g_ptr_array_set_size(p->unknown, (gint) n_unknown);
        p->n_conditions++;
        if (!node || !(node->a = parse_or(p)))
            return NULL;
        node->b = value;
        if (sluice_tpl_parser_skip_name(p, "else") &&
            !(node->c = sluice_tpl_parser_expression(p, true)))
            return NULL;
        p->n_conditions--;
        value = finish(p, node);
    }
    p->depth--;
    return value;
}

static bool
is_tuple_end(const Parser *p, const char *extra_end)
{
    SluiceTplTokenType type = sluice_tpl_parser_look(p)->type;

    return type == SLUICE_TPL_TOKEN_VARIABLE_END || type == SLUICE_TPL_TOKEN_BLOCK_END ||
           sluice_tpl_parser_is_op(p, ")") ||
           (extra_end && sluice_tpl_parser_is_name(p, extra_end));
}

static Node *
parse_tuple_of(Parser *p, bool is_target, bool flag, const char *extra_end, bool in_brackets)
{
    g_autoptr(GPtrArray) items = g_ptr_array_new();
    int line = sluice_tpl_parser_look(p)->line;
    bool is_tuple = false;
    Node *node;

    while (!is_tuple_end(p, extra_end)) {
        node = is_target ? parse_primary(p, flag) : sluice_tpl_parser_expression(p, flag);
        if (!node)
            return NULL;
        g_ptr_array_add(items, node);
        if (!sluice_tpl_parser_skip_op(p, ","))
            break;
        is_tuple = true;
    }
    if (!is_tuple && items->len == 1)
        return g_ptr_array_index(items, 0);
    if (!is_tuple && !in_brackets)
        return sluice_tpl_parser_fail_token(p, "an expression");
    if (!(node = sluice_tpl_parser_node(p, SLUICE_TPL_NODE_TUPLE, line)) ||
        !set_list(p, node, items))
        return NULL;
    return finish(p, node);
}

SluiceTplNode *
sluice_tpl_parser_tuple(SluiceTplParser *p, bool with_condition, const char *extra_end,
                        bool in_brackets)
{
    return parse_tuple_of(p, false, with_condition, extra_end, in_brackets);
}

static bool
is_assignable(const Node *node)
{
    if (node->type == SLUICE_TPL_NODE_NAME || node->type == SLUICE_TPL_NODE_NSREF)
        return true;
    if (node->type != SLUICE_TPL_NODE_TUPLE)
        return false;
    for (gsize i = 0; i < node->n_list; i++)
        if (!is_assignable(node->list[i]))
            return false;
    return true;
}

SluiceTplNode *
sluice_tpl_parser_target(SluiceTplParser *p, const char *extra_end, bool with_namespace)
{
    int line = sluice_tpl_parser_look(p)->line;
    gsize counts[] = {p->n_caller, p->n_varargs, p->n_kwargs};
    Node *node = parse_tuple_of(p, true, with_namespace, extra_end, false);

    /* Assigning a name is not using it. */
    p->n_caller = counts[0];
    p->n_varargs = counts[1];
    p->n_kwargs = counts[2];
    if (node && !is_assignable(node))
        return sluice_tpl_parser_fail(p, line, "cannot assign to an expression");
    return node;
}
