/* SPDX-License-Identifier: MIT */
/* Expressions of a template evaluated, and calls of everything that can be called. */
#include "config.h"

#include "src/text/template-private.h"

#include <string.h>

#include "src/core/error.h"

typedef SluiceTplEval Eval;
typedef SluiceTplNode Node;
typedef SluiceTplValue Value;

/* Arguments of one call; most calls have few. */
typedef struct {
    Value few_args[4];
    SluiceTplKeyword few_keywords[3];
    Value *args;
    gsize n_args;
    SluiceTplKeyword *keywords;
    gsize n_keywords;
} Arguments;

/* ---- arguments ------------------------------------------------------------------------------ */

/* *args and **kwargs, and the caller of a call block. */
static bool
extend_arguments(Eval *ev, const SluiceTplArgs *call, const Value *caller, Arguments *a)
{
    const Value *items = NULL;
    gsize n = 0;
    Value star;
    Value star_star = SLUICE_TPL_NONE_VALUE;
    gsize n_extra = caller != NULL;
    SluiceTplKeyword *keywords;

    if (call && call->star) {
        Value *args;
        if (!sluice_tpl_expr(ev, call->star, &star) || !sluice_tpl_items(ev, &star, &items, &n) ||
            !sluice_tpl_step(ev, n) || !(args = sluice_tpl_alloc(ev, a->n_args + n, sizeof *args)))
            return false;
        memcpy(args, a->args, a->n_args * sizeof *args);
        if (n > 0)
            memcpy(args + a->n_args, items, n * sizeof *args);
        a->args = args;
        a->n_args += n;
    }
    if (call && call->star_star) {
        if (!sluice_tpl_expr(ev, call->star_star, &star_star))
            return false;
        if (star_star.type != SLUICE_TPL_DICT)
            return sluice_tpl_fail(ev, "argument after ** must be a mapping, not %s",
                                   sluice_tpl_type_name(&star_star));
        n_extra += star_star.dict->n;
    }
    if (n_extra == 0)
        return true;
    if (!(keywords = sluice_tpl_alloc(ev, a->n_keywords + n_extra, sizeof *keywords)))
        return false;
    memcpy(keywords, a->keywords, a->n_keywords * sizeof *keywords);
    a->keywords = keywords;
    for (gsize i = 0; star_star.type == SLUICE_TPL_DICT && i < star_star.dict->n; i++) {
        const SluiceTplEntry *entry = &star_star.dict->entries[i];
        if (entry->key.type != SLUICE_TPL_STRING)
            return sluice_tpl_fail(ev, "keywords must be strings");
        keywords[a->n_keywords++] = (SluiceTplKeyword){entry->key.string, entry->value};
    }
    if (caller) {
        SluiceTplString *name = sluice_tpl_alloc(ev, 1, sizeof *name);
        if (!name)
            return false;
        *name = (SluiceTplString){.data = "caller", .n = 6};
        keywords[a->n_keywords++] = (SluiceTplKeyword){name, *caller};
    }
    return true;
}

static bool
evaluate_arguments(Eval *ev, const SluiceTplArgs *call, const Value *caller, Arguments *a)
{
    a->args = a->few_args;
    a->keywords = a->few_keywords;
    a->n_args = a->n_keywords = 0;
    if (call) {
        if (call->n_args > G_N_ELEMENTS(a->few_args) &&
            !(a->args = sluice_tpl_alloc(ev, call->n_args, sizeof *a->args)))
            return false;
        if (call->n_keywords > G_N_ELEMENTS(a->few_keywords) &&
            !(a->keywords = sluice_tpl_alloc(ev, call->n_keywords, sizeof *a->keywords)))
            return false;
        for (; a->n_args < call->n_args; a->n_args++)
            if (!sluice_tpl_expr(ev, call->args[a->n_args], &a->args[a->n_args]))
                return false;
        for (; a->n_keywords < call->n_keywords; a->n_keywords++) {
            const SluiceTplNamedNode *keyword = &call->keywords[a->n_keywords];
            a->keywords[a->n_keywords].name = keyword->name;
            if (!sluice_tpl_expr(ev, keyword->value, &a->keywords[a->n_keywords].value))
                return false;
        }
    }
    if ((call && (call->star || call->star_star)) || caller)
        return extend_arguments(ev, call, caller, a);
    return true;
}

bool
sluice_tpl_bind(SluiceTplEval *ev, const SluiceTplCall *call, const char *const *names,
                gsize n_needed, SluiceTplValue *values)
{
    gsize n = g_strv_length((char **) names);

    if (call->n_args > n)
        return sluice_tpl_fail(ev, "%s takes at most %zu arguments, got %zu", call->what, n,
                               call->n_args);
    for (gsize i = 0; i < n; i++)
        values[i] = i < call->n_args ? call->args[i] : (Value){.type = SLUICE_TPL_ABSENT};
    for (gsize k = 0; k < call->n_keywords; k++) {
        const SluiceTplString *name = call->keywords[k].name;
        gsize i = 0;

        while (i < n && (strlen(names[i]) != name->n || memcmp(names[i], name->data, name->n) != 0))
            i++;
        if (i == n)
            return sluice_tpl_fail(ev, "%s has no argument named '%.*s'", call->what,
                                   (int) MIN(name->n, 100), name->data);
        if (values[i].type != SLUICE_TPL_ABSENT)
            return sluice_tpl_fail(ev, "%s got the argument '%s' twice", call->what, names[i]);
        values[i] = call->keywords[k].value;
    }
    for (gsize i = 0; i < n_needed; i++)
        if (values[i].type == SLUICE_TPL_ABSENT)
            return sluice_tpl_fail(ev, "%s needs the argument '%s'", call->what, names[i]);
    return true;
}

/* ---- calls ---------------------------------------------------------------------------------- */

bool
sluice_tpl_call(SluiceTplEval *ev, const SluiceTplValue *callee, const SluiceTplCall *call,
                SluiceTplValue *out)
{
    SluiceTplCall named = *call;
    const SluiceTplFuncEntry *entry;
    g_autofree char *name = NULL;

    switch (callee->type) {
    case SLUICE_TPL_UNDEFINED:
        return sluice_tpl_fail_undefined(ev, callee);
    case SLUICE_TPL_FUNCTION:
        entry = sluice_tpl_global(callee->function);
        named.what = entry->name;
        return entry->func(ev, &named, out);
    case SLUICE_TPL_METHOD:
        entry = callee->method->entry;
        named.what = entry->name;
        named.subject = callee->method->subject;
        return entry->func(ev, &named, out);
    case SLUICE_TPL_MACRO:
        if (callee->macro->node->text)
            name = g_strndup(callee->macro->node->text->data, callee->macro->node->text->n);
        named.what = name ? name : "caller";
        return sluice_tpl_call_macro(ev, callee->macro, &named, out);
    case SLUICE_TPL_LOOP:
        return sluice_tpl_call_loop(ev, callee->loop, call, out);
    case SLUICE_TPL_JOINER:
        if (callee->list->position++ == 0)
            return sluice_tpl_string_static(ev, "", out);
        *out = callee->list->items[0];
        return true;
    default:
        return sluice_tpl_fail(ev, "'%s' object is not callable", sluice_tpl_type_name(callee));
    }
}

/* A CALL node; @caller is what a call block passes on, or NULL. */
bool
sluice_tpl_call_node(SluiceTplEval *ev, const SluiceTplNode *node, const SluiceTplValue *subject,
                     const SluiceTplValue *caller, SluiceTplValue *out)
{
    Arguments a;
    Value callee;
    SluiceTplCall call;

    if (!sluice_tpl_expr(ev, node->a, &callee) || !evaluate_arguments(ev, node->call, caller, &a))
        return false;
    ev->line = node->line;
    call = (SluiceTplCall){
        .args = a.args, .n_args = a.n_args, .keywords = a.keywords, .n_keywords = a.n_keywords};
    if (subject)
        call.subject = *subject;
    return sluice_tpl_call(ev, &callee, &call, out);
}

/* A filter or test whose name is only known now: the argument of map, select and the like. */
bool
sluice_tpl_call_by_name(SluiceTplEval *ev, bool is_test, const SluiceTplCall *call,
                        SluiceTplValue *out)
{
    const SluiceTplFuncEntry *entry =
        is_test ? sluice_tpl_test_find(call->what) : sluice_tpl_filter_find(call->what);
    g_autofree char *name = NULL;

    if (entry)
        return entry->func(ev, call, out);
    name = sluice_error_printable(call->what, -1);
    return sluice_tpl_fail(ev, "no %s named '%s'", is_test ? "test" : "filter", name);
}

static bool
eval_filter(Eval *ev, const Node *node, Value *out)
{
    Arguments a;
    SluiceTplCall call = {0};

    if (node->a ? !sluice_tpl_expr(ev, node->a, &call.subject) : !ev->block_subject)
        return false;
    if (!node->a)
        call.subject = *ev->block_subject;
    if (!evaluate_arguments(ev, node->call, NULL, &a))
        return false;
    ev->line = node->line;
    if (!node->func)
        return sluice_tpl_fail(ev, "no %s named '%.*s'",
                               node->type == SLUICE_TPL_NODE_TEST ? "test" : "filter",
                               (int) MIN(node->text->n, 100), node->text->data);
    call.what = node->func->name;
    call.args = a.args;
    call.n_args = a.n_args;
    call.keywords = a.keywords;
    call.n_keywords = a.n_keywords;
    return node->func->func(ev, &call, out);
}

/* ---- operators ------------------------------------------------------------------------------ */

static bool
compare(Eval *ev, char op, const Value *a, const Value *b, bool *result)
{
    static const char *const signs[] = {['<'] = "<", ['>'] = ">", ['l'] = "<=", ['g'] = ">="};
    int order;

    switch (op) {
    case '=':
        return sluice_tpl_equal(ev, a, b, result);
    case '!':
        if (!sluice_tpl_equal(ev, a, b, result))
            return false;
        *result = !*result;
        return true;
    case 'i':
        return sluice_tpl_contains(ev, b, a, result);
    case 'n':
        if (!sluice_tpl_contains(ev, b, a, result))
            return false;
        *result = !*result;
        return true;
    default:
        if (!sluice_tpl_order(ev, a, b, signs[(guchar) op], &order))
            return false;
        *result = order != 2 && (op == '<'   ? order < 0
                                 : op == '>' ? order > 0
                                 : op == 'l' ? order <= 0
                                             : order >= 0);
        return true;
    }
}

/* a < b < c is a < b and b < c, with b evaluated once. */
static bool
eval_compare(Eval *ev, const Node *node, Value *out)
{
    Value left;
    Value right;
    bool result = true;

    if (!sluice_tpl_expr(ev, node->a, &left))
        return false;
    for (gsize i = 0; i < node->n_list && result; i++) {
        if (!sluice_tpl_expr(ev, node->list[i], &right) ||
            !compare(ev, node->ops[i], &left, &right, &result))
            return false;
        left = right;
    }
    *out = SLUICE_TPL_BOOL_VALUE(result);
    return true;
}

static bool
eval_concat(Eval *ev, const Node *node, Value *out)
{
    SluiceTplBuilder b;
    Value value;
    gsize i = 0;

    sluice_tpl_builder_init(&b, &ev->arena);
    if (node->n_list > 0) {
        if (!sluice_tpl_expr(ev, node->list[0], &value))
            return false;
        i = 1;
        if (value.type == SLUICE_TPL_STRING)
            sluice_tpl_builder_init_from(&b, &ev->arena, value.string);
        else if (!sluice_tpl_add_str(ev, &b, &value))
            return false;
    }
    for (; i < node->n_list; i++)
        if (!sluice_tpl_expr(ev, node->list[i], &value) || !sluice_tpl_add_str(ev, &b, &value))
            return false;
    b.is_markup = false;
    return sluice_tpl_string_end(ev, &b, out);
}

static bool
eval_sequence(Eval *ev, const Node *node, SluiceTplType type, Value *out)
{
    Value item;

    if (!sluice_tpl_list_new(ev, type, node->n_list, out))
        return false;
    for (gsize i = 0; i < node->n_list; i++)
        if (!sluice_tpl_expr(ev, node->list[i], &item) || !sluice_tpl_list_add(ev, out, &item))
            return false;
    return true;
}

static bool
eval_dict(Eval *ev, const Node *node, Value *out)
{
    Value key;
    Value value;

    if (!sluice_tpl_dict_new(ev, SLUICE_TPL_DICT, out))
        return false;
    for (gsize i = 0; i < node->n_list; i += 2)
        if (!sluice_tpl_expr(ev, node->list[i], &key) ||
            !sluice_tpl_expr(ev, node->list[i + 1], &value) ||
            !sluice_tpl_dict_set(ev, out->dict, &key, &value))
            return false;
    return true;
}

static bool
eval_cond(Eval *ev, const Node *node, Value *out)
{
    char text[120];
    Value test;

    if (!sluice_tpl_expr(ev, node->a, &test))
        return false;
    if (sluice_tpl_is_true(&test))
        return sluice_tpl_expr(ev, node->b, out);
    if (node->c)
        return sluice_tpl_expr(ev, node->c, out);
    g_snprintf(text, sizeof text,
               "the inline if-expression on line %d evaluated to false and no else was given",
               node->line);
    return sluice_tpl_undefined_sentence(ev, text, out);
}

static bool
eval_slice(Eval *ev, const Node *node, Value *out)
{
    Value subject;
    Value bounds[3];

    if (!sluice_tpl_expr(ev, node->a, &subject))
        return false;
    for (int i = 0; i < 3; i++) {
        bounds[i] = SLUICE_TPL_NONE_VALUE;
        if (node->list[i] && !sluice_tpl_expr(ev, node->list[i], &bounds[i]))
            return false;
    }
    ev->line = node->line;
    return sluice_tpl_slice(ev, &subject, bounds, out);
}

static bool
eval_binary(Eval *ev, const Node *node, Value *out)
{
    Value a;
    Value b;

    if (!sluice_tpl_expr(ev, node->a, &a) || !sluice_tpl_expr(ev, node->b, &b))
        return false;
    ev->line = node->line;
    return node->type == SLUICE_TPL_NODE_ITEM ? sluice_tpl_item(ev, &a, &b, out)
                                              : sluice_tpl_arithmetic(ev, node->op, &a, &b, out);
}

static bool
eval_unary(Eval *ev, const Node *node, Value *out)
{
    Value a;

    if (!sluice_tpl_expr(ev, node->a, &a))
        return false;
    ev->line = node->line;
    switch (node->type) {
    case SLUICE_TPL_NODE_NOT:
        *out = SLUICE_TPL_BOOL_VALUE(!sluice_tpl_is_true(&a));
        return true;
    case SLUICE_TPL_NODE_ATTRIBUTE:
        return sluice_tpl_attribute(ev, &a, node->text, out);
    case SLUICE_TPL_NODE_AND:
        if (!sluice_tpl_is_true(&a)) {
            *out = a;
            return true;
        }
        return sluice_tpl_expr(ev, node->b, out);
    case SLUICE_TPL_NODE_OR:
        if (sluice_tpl_is_true(&a)) {
            *out = a;
            return true;
        }
        return sluice_tpl_expr(ev, node->b, out);
    default:
        return sluice_tpl_negate(ev, node->op, &a, out);
    }
}

static bool
eval_node(Eval *ev, const Node *node, Value *out)
{
    switch (node->type) {
    case SLUICE_TPL_NODE_TUPLE:
        return eval_sequence(ev, node, SLUICE_TPL_TUPLE, out);
    case SLUICE_TPL_NODE_LIST:
        return eval_sequence(ev, node, SLUICE_TPL_LIST, out);
    case SLUICE_TPL_NODE_DICT:
        return eval_dict(ev, node, out);
    case SLUICE_TPL_NODE_UNARY:
    case SLUICE_TPL_NODE_NOT:
    case SLUICE_TPL_NODE_ATTRIBUTE:
    case SLUICE_TPL_NODE_AND:
    case SLUICE_TPL_NODE_OR:
        return eval_unary(ev, node, out);
    case SLUICE_TPL_NODE_BINARY:
    case SLUICE_TPL_NODE_ITEM:
        return eval_binary(ev, node, out);
    case SLUICE_TPL_NODE_CONCAT:
        return eval_concat(ev, node, out);
    case SLUICE_TPL_NODE_COMPARE:
        return eval_compare(ev, node, out);
    case SLUICE_TPL_NODE_COND:
        return eval_cond(ev, node, out);
    case SLUICE_TPL_NODE_SLICE:
        return eval_slice(ev, node, out);
    case SLUICE_TPL_NODE_CALL:
        return sluice_tpl_call_node(ev, node, NULL, NULL, out);
    case SLUICE_TPL_NODE_FILTER:
    case SLUICE_TPL_NODE_TEST:
        return eval_filter(ev, node, out);
    default:
        g_assert_not_reached();
    }
}

bool
sluice_tpl_expr(SluiceTplEval *ev, const SluiceTplNode *node, SluiceTplValue *out)
{
    bool has_passed;

    if (node->type == SLUICE_TPL_NODE_CONST) {
        *out = node->value;
        return true;
    }
    if (!sluice_tpl_step(ev, 1))
        return false;
    ev->line = node->line;
    if (node->type == SLUICE_TPL_NODE_NAME)
        return sluice_tpl_lookup(ev, node->name, out);
    if (!sluice_tpl_enter(ev))
        return false;
    has_passed = eval_node(ev, node, out);
    sluice_tpl_leave(ev);
    return has_passed;
}
