/* SPDX-License-Identifier: MIT */
/*
 * Statements of a template carried out: scopes, loops, macros and captured output. Every step is
 * counted and every nesting too, for a template may be written to never end.
 */
#include "config.h"

#include "src/text/template-private.h"

#include <string.h>

#include "src/core/error.h"

typedef SluiceTplEval Eval;
typedef SluiceTplNode Node;
typedef SluiceTplScope Scope;
typedef SluiceTplValue Value;

/* ---- failures and limits -------------------------------------------------------------------- */

/* Once, with the line at work. */
void
sluice_tpl_set_error(SluiceTplEval *ev, const char *format, ...)
{
    va_list args;
    g_autofree char *message = NULL;

    if (ev->error)
        return;
    va_start(args, format);
    message = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(&ev->error, SLUICE_ERROR, SLUICE_ERROR_TEMPLATE, "chat template, line %d: %s",
                ev->line, message);
}

bool
sluice_tpl_fail_memory(SluiceTplEval *ev)
{
    return sluice_tpl_fail(ev, "rendering needs more than %zu bytes of memory",
                           ev->limits.n_memory_bytes);
}

bool
sluice_tpl_fail_undefined(SluiceTplEval *ev, const SluiceTplValue *v)
{
    const SluiceTplUndefined *why = v->undefined;
    g_autofree char *name = sluice_error_printable(why->name, -1);

    if (why->is_unsafe)
        return sluice_tpl_fail(ev, "access to attribute '%s' of '%s' object is unsafe", name,
                               why->owner);
    if (why->is_sentence)
        return sluice_tpl_fail(ev, "%s", name);
    if (why->owner)
        return sluice_tpl_fail(ev, "'%s object' has no attribute '%s'", why->owner, name);
    return sluice_tpl_fail(ev, "'%s' is undefined", name);
}

bool
sluice_tpl_step(SluiceTplEval *ev, gsize n_steps)
{
    ev->n_steps += n_steps;
    if (ev->n_steps <= ev->limits.n_steps)
        return true;
    return sluice_tpl_fail(ev, "rendering takes more than %" G_GUINT64_FORMAT " steps",
                           ev->limits.n_steps);
}

bool
sluice_tpl_enter(SluiceTplEval *ev)
{
    if (ev->depth < ev->limits.n_depth) {
        ev->depth++;
        return true;
    }
    return sluice_tpl_fail(ev, "rendering is nested more than %d deep", ev->limits.n_depth);
}

void
sluice_tpl_leave(SluiceTplEval *ev)
{
    ev->depth--;
}

/* Zeroed; never NULL without an error set, not even for no items. */
void *
sluice_tpl_alloc(SluiceTplEval *ev, gsize n_items, gsize n_item_bytes)
{
    void *memory = sluice_tpl_arena_alloc(&ev->arena, MAX(n_items, 1), n_item_bytes);

    if (!memory)
        sluice_tpl_fail_memory(ev);
    return memory;
}

static bool
make_undefined(Eval *ev, const char *text, gsize n, SluiceTplUndefined why, Value *out)
{
    SluiceTplUndefined *undefined = sluice_tpl_alloc(ev, 1, sizeof *undefined);
    char *copy = undefined ? sluice_tpl_alloc(ev, n + 1, 1) : NULL;

    if (!copy)
        return false;
    memcpy(copy, text, n);
    *undefined = why;
    undefined->name = copy;
    *out = (Value){.type = SLUICE_TPL_UNDEFINED, .undefined = undefined};
    return true;
}

/* @owner: the name of the type that has no such attribute, or NULL: a variable. */
bool
sluice_tpl_undefined(SluiceTplEval *ev, const char *name, gsize n, const char *owner,
                     SluiceTplValue *out)
{
    return make_undefined(ev, name, MIN(n, 200), (SluiceTplUndefined){.owner = owner}, out);
}

bool
sluice_tpl_undefined_sentence(SluiceTplEval *ev, const char *sentence, SluiceTplValue *out)
{
    return make_undefined(ev, sentence, strlen(sentence), (SluiceTplUndefined){.is_sentence = true},
                          out);
}

/* ---- scopes --------------------------------------------------------------------------------- */

static Scope *
new_scope(Eval *ev, Scope *parent)
{
    Scope *scope = sluice_tpl_alloc(ev, 1, sizeof *scope);

    if (scope)
        scope->parent = parent;
    return scope;
}

bool
sluice_tpl_bind_name(SluiceTplEval *ev, SluiceTplScope *scope, int name,
                     const SluiceTplValue *value)
{
    for (gsize i = 0; i < scope->n; i++)
        if (scope->bindings[i].name == name) {
            scope->bindings[i].value = *value;
            return true;
        }
    if (scope->n == scope->n_cap) {
        gsize n_cap = MAX(4, scope->n_cap * 2);
        SluiceTplBinding *bindings = sluice_tpl_alloc(ev, n_cap, sizeof *bindings);
        if (!bindings)
            return false;
        if (scope->n > 0)
            memcpy(bindings, scope->bindings, scope->n * sizeof *bindings);
        scope->bindings = bindings;
        scope->n_cap = n_cap;
    }
    scope->bindings[scope->n++] = (SluiceTplBinding){name, *value};
    return true;
}

/* Names that the scope assigns hide those outside from its begin on. */
static bool
bind_unset(Eval *ev, Scope *scope, const SluiceTplBody *body)
{
    const Value absent = {.type = SLUICE_TPL_ABSENT};

    for (gsize i = 0; i < body->n_unset; i++)
        if (!sluice_tpl_bind_name(ev, scope, body->unset[i], &absent))
            return false;
    return true;
}

bool
sluice_tpl_lookup(SluiceTplEval *ev, int name, SluiceTplValue *out)
{
    const char *text = g_ptr_array_index(ev->template->names, name);
    int global;

    *out = (Value){.type = SLUICE_TPL_ABSENT};
    for (const Scope *scope = ev->scope; scope; scope = scope->parent)
        for (gsize i = 0; i < scope->n; i++)
            if (scope->bindings[i].name == name) {
                *out = scope->bindings[i].value;
                return out->type != SLUICE_TPL_ABSENT ||
                       sluice_tpl_undefined(ev, text, strlen(text), NULL, out);
            }
    if (ev->context[name].type != SLUICE_TPL_ABSENT) {
        *out = ev->context[name];
        return true;
    }
    if ((global = sluice_tpl_global_find(text)) >= 0) {
        *out = (Value){.type = SLUICE_TPL_FUNCTION, .function = global};
        return true;
    }
    return sluice_tpl_undefined(ev, text, strlen(text), NULL, out);
}

static bool assign(Eval *ev, const Node *target, const Value *value);

static bool
assign_tuple(Eval *ev, const Node *target, const Value *value)
{
    const Value *items;
    gsize n;

    if (!sluice_tpl_items(ev, value, &items, &n))
        return false;
    if (n < target->n_list)
        return sluice_tpl_fail(ev, "not enough values to unpack (expected %zu, got %zu)",
                               target->n_list, n);
    if (n > target->n_list)
        return sluice_tpl_fail(ev, "too many values to unpack (expected %zu)", target->n_list);
    for (gsize i = 0; i < n; i++)
        if (!assign(ev, target->list[i], &items[i]))
            return false;
    return true;
}

static bool
assign_attribute(Eval *ev, const Node *target, const Value *value)
{
    Value namespace;
    Value key = SLUICE_TPL_STRING_VALUE(target->text);

    if (!sluice_tpl_lookup(ev, target->name, &namespace))
        return false;
    if (namespace.type != SLUICE_TPL_NAMESPACE)
        return sluice_tpl_fail(ev, "cannot assign attribute on non-namespace object");
    if (target->text->data[0] == '_')
        return sluice_tpl_fail(ev, "a namespace cannot have the attribute '%.*s'",
                               (int) MIN(target->text->n, 100), target->text->data);
    return sluice_tpl_dict_set(ev, namespace.dict, &key, value);
}

static bool
assign(Eval *ev, const Node *target, const Value *value)
{
    switch (target->type) {
    case SLUICE_TPL_NODE_NAME:
        return sluice_tpl_bind_name(ev, ev->scope, target->name, value);
    case SLUICE_TPL_NODE_NSREF:
        return assign_attribute(ev, target, value);
    default:
        return assign_tuple(ev, target, value);
    }
}

/* ---- output --------------------------------------------------------------------------------- */

static bool
check_output(Eval *ev)
{
    if (ev->out->has_failed)
        return sluice_tpl_fail_memory(ev);
    if (ev->out->n > ev->limits.n_output_bytes - MIN(ev->n_captured, ev->limits.n_output_bytes))
        return sluice_tpl_fail(ev, "the rendered text is longer than %zu bytes",
                               ev->limits.n_output_bytes);
    return true;
}

static bool
write_value(Eval *ev, const Value *v)
{
    return sluice_tpl_add_str(ev, ev->out, v) && check_output(ev);
}

/* Runs @body in @scope and keeps what it prints. Breaks and continues pass through. */
static SluiceTplFlow
capture(Eval *ev, const SluiceTplBody *body, Scope *scope, Value *out)
{
    SluiceTplBuilder builder;
    SluiceTplBuilder *outer_out = ev->out;
    Scope *outer_scope = ev->scope;
    gsize n_captured = ev->n_captured;
    SluiceTplFlow flow = SLUICE_TPL_FLOW_FAILED;

    sluice_tpl_builder_init(&builder, &ev->arena);
    ev->n_captured += outer_out->n;
    ev->out = &builder;
    ev->scope = scope;
    if (bind_unset(ev, scope, body))
        flow = sluice_tpl_run(ev, body);
    ev->out = outer_out;
    ev->scope = outer_scope;
    ev->n_captured = n_captured;
    if (flow == SLUICE_TPL_FLOW_NEXT && !sluice_tpl_string_end(ev, &builder, out))
        flow = SLUICE_TPL_FLOW_FAILED;
    return flow;
}

/* ---- macros --------------------------------------------------------------------------------- */

static const Value *
find_keyword(const SluiceTplCall *call, const SluiceTplString *name)
{
    for (gsize i = 0; i < call->n_keywords; i++)
        if (call->keywords[i].name->n == name->n &&
            memcmp(call->keywords[i].name->data, name->data, name->n) == 0)
            return &call->keywords[i].value;
    return NULL;
}

static bool
is_parameter(const Node *node, gsize n_given, const SluiceTplString *name)
{
    for (gsize i = n_given; i < node->n_list; i++)
        if (node->list[i]->text->n == name->n &&
            memcmp(node->list[i]->text->data, name->data, name->n) == 0)
            return true;
    return false;
}

/* Arguments beyond the parameters: for varargs and kwargs, or an error. */
static bool
bind_rest(Eval *ev, const Node *node, const SluiceTplCall *call, Scope *scope)
{
    Value varargs;
    Value kwargs;

    if (!sluice_tpl_list_new(ev, SLUICE_TPL_TUPLE, 0, &varargs) ||
        !sluice_tpl_dict_new(ev, SLUICE_TPL_DICT, &kwargs))
        return false;
    for (gsize i = node->n_list; i < call->n_args; i++)
        if (!sluice_tpl_list_add(ev, &varargs, &call->args[i]))
            return false;
    for (gsize i = 0; i < call->n_keywords; i++) {
        Value key = SLUICE_TPL_STRING_VALUE(call->keywords[i].name);

        if (is_parameter(node, call->n_args, key.string) ||
            (node->is_extended && sluice_tpl_is_string(&key, "caller")))
            continue;
        if (!node->uses_kwargs)
            return sluice_tpl_fail(ev, "macro '%s' takes no keyword argument '%.*s'", call->what,
                                   (int) MIN(key.string->n, 100), key.string->data);
        if (!sluice_tpl_dict_set(ev, kwargs.dict, &key, &call->keywords[i].value))
            return false;
    }
    if (varargs.list->n > 0 && !node->uses_varargs)
        return sluice_tpl_fail(ev, "macro '%s' takes not more than %zu arguments, got %zu",
                               call->what, node->n_list, call->n_args);
    return (!node->uses_varargs ||
            sluice_tpl_bind_name(ev, scope, SLUICE_TPL_NAME_VARARGS, &varargs)) &&
           (!node->uses_kwargs || sluice_tpl_bind_name(ev, scope, SLUICE_TPL_NAME_KWARGS, &kwargs));
}

static bool
bind_caller(Eval *ev, const SluiceTplCall *call, Scope *scope)
{
    const SluiceTplString name = {.data = "caller", .n = 6};
    const Value *given = find_keyword(call, &name);
    Value caller;

    if (given)
        caller = *given;
    else if (!sluice_tpl_undefined_sentence(ev, "no caller defined", &caller))
        return false;
    return sluice_tpl_bind_name(ev, scope, SLUICE_TPL_NAME_CALLER, &caller);
}

/* Parameters in order; a default may use those before it. */
static bool
bind_parameters(Eval *ev, const Node *node, const SluiceTplCall *call, Scope *scope)
{
    const Value absent = {.type = SLUICE_TPL_ABSENT};

    for (gsize i = 0; i < node->n_list; i++) {
        const Value *given =
            i < call->n_args ? &call->args[i] : find_keyword(call, node->list[i]->text);
        if (!sluice_tpl_bind_name(ev, scope, node->list[i]->name, given ? given : &absent))
            return false;
    }
    if (!bind_rest(ev, node, call, scope) || (node->is_extended && !bind_caller(ev, call, scope)))
        return false;
    for (gsize i = 0; i < node->n_list; i++) {
        Value value;

        if (i < call->n_args || find_keyword(call, node->list[i]->text))
            continue;
        if (node->defaults[i]) {
            if (!sluice_tpl_expr(ev, node->defaults[i], &value))
                return false;
        } else {
            g_autofree char *text =
                g_strdup_printf("parameter '%.*s' was not provided",
                                (int) MIN(node->list[i]->text->n, 100), node->list[i]->text->data);
            if (!sluice_tpl_undefined_sentence(ev, text, &value))
                return false;
        }
        if (!sluice_tpl_bind_name(ev, scope, node->list[i]->name, &value))
            return false;
    }
    return true;
}

bool
sluice_tpl_call_macro(SluiceTplEval *ev, const SluiceTplMacro *macro, const SluiceTplCall *call,
                      SluiceTplValue *out)
{
    Scope *outer = ev->scope;
    Scope *scope = new_scope(ev, macro->scope);
    int line = ev->line;
    bool has_passed;

    if (!scope || !sluice_tpl_enter(ev))
        return false;
    ev->scope = scope;
    has_passed = bind_parameters(ev, macro->node, call, scope);
    ev->scope = outer;
    has_passed = has_passed && capture(ev, macro->node->body, scope, out) == SLUICE_TPL_FLOW_NEXT;
    sluice_tpl_leave(ev);
    ev->line = line;
    return has_passed;
}

static bool
new_macro(Eval *ev, const Node *node, Value *out)
{
    SluiceTplMacro *macro = sluice_tpl_alloc(ev, 1, sizeof *macro);

    if (!macro)
        return false;
    *macro = (SluiceTplMacro){.node = node, .scope = ev->scope};
    *out = (Value){.type = SLUICE_TPL_MACRO, .macro = macro};
    return true;
}

/* ---- loops ---------------------------------------------------------------------------------- */

typedef struct {
    const Node *node;
    Scope *outer; /* where the loop stands */
    Scope *scope; /* of the iteration */
    SluiceTplLoop *loop;
} Loop;

/* A fresh scope for an iteration; it is the last one's, if nothing can have kept that. */
static bool
begin_iteration(Eval *ev, Loop *lp, const Value *item)
{
    if (!lp->scope || lp->node->has_closure) {
        if (!(lp->scope = new_scope(ev, lp->outer)))
            return false;
    }
    lp->scope->n = 0;
    ev->scope = lp->scope;
    if (!bind_unset(ev, lp->scope, lp->node->body) || !assign(ev, lp->node->a, item))
        return false;
    if (lp->loop) {
        Value loop = {.type = SLUICE_TPL_LOOP, .loop = lp->loop};
        return sluice_tpl_bind_name(ev, lp->scope, SLUICE_TPL_NAME_LOOP, &loop);
    }
    return true;
}

static bool
passes_test(Eval *ev, Loop *lp, const Value *item, bool *has_passed)
{
    Scope *scope = new_scope(ev, lp->outer);
    Value value;

    if (!scope)
        return false;
    ev->scope = scope;
    if (!assign(ev, lp->node->a, item) || !sluice_tpl_expr(ev, lp->node->c, &value))
        return false;
    *has_passed = sluice_tpl_is_true(&value);
    return true;
}

/* Those items that pass the test of the loop. */
static bool
filter_items(Eval *ev, Loop *lp, const Value **items, gsize *n)
{
    Value kept;

    if (!sluice_tpl_list_new(ev, SLUICE_TPL_LIST, 0, &kept))
        return false;
    for (gsize i = 0; i < *n; i++) {
        bool has_passed;
        if (!passes_test(ev, lp, &(*items)[i], &has_passed) ||
            (has_passed && !sluice_tpl_list_add(ev, &kept, &(*items)[i])))
            return false;
    }
    *items = kept.list->items;
    *n = kept.list->n;
    return true;
}

static SluiceTplFlow
iterate(Eval *ev, Loop *lp, const Value *items, gsize n, gsize *n_run)
{
    bool is_lazy = lp->node->c && !lp->loop;

    for (gsize i = 0; i < n; i++) {
        bool has_passed = true;
        SluiceTplFlow flow;

        if (!sluice_tpl_step(ev, 1))
            return SLUICE_TPL_FLOW_FAILED;
        if (lp->loop)
            lp->loop->idx = i;
        /* As jinja2's generator: a test may look at what the body before it has set. */
        if (is_lazy && !passes_test(ev, lp, &items[i], &has_passed))
            return SLUICE_TPL_FLOW_FAILED;
        if (!has_passed)
            continue;
        if (!begin_iteration(ev, lp, &items[i]))
            return SLUICE_TPL_FLOW_FAILED;
        flow = sluice_tpl_run(ev, lp->node->body);
        if (flow == SLUICE_TPL_FLOW_FAILED)
            return flow;
        if (flow == SLUICE_TPL_FLOW_BREAK)
            break;
        /* As in jinja2, only an iteration that reaches its end keeps the else from running. */
        *n_run += flow == SLUICE_TPL_FLOW_NEXT;
    }
    return SLUICE_TPL_FLOW_NEXT;
}

static SluiceTplFlow
run_loop(Eval *ev, const Node *node, const Value *iterable, int depth0)
{
    Scope *outer = ev->scope;
    Loop lp = {.node = node, .outer = outer};
    const Value *items;
    gsize n;
    gsize n_run = 0;
    SluiceTplFlow flow = SLUICE_TPL_FLOW_FAILED;

    if (!sluice_tpl_items(ev, iterable, &items, &n))
        return flow;
    if (node->uses_loop) {
        if (!(lp.loop = sluice_tpl_alloc(ev, 1, sizeof *lp.loop)))
            return flow;
        if (node->c && !filter_items(ev, &lp, &items, &n)) {
            ev->scope = outer;
            return flow;
        }
        *lp.loop = (SluiceTplLoop){.items = items,
                                   .n = n,
                                   .depth0 = depth0,
                                   .recursive = node->is_extended ? node : NULL,
                                   .scope = outer};
    }
    flow = iterate(ev, &lp, items, n, &n_run);
    ev->scope = outer;
    if (flow == SLUICE_TPL_FLOW_NEXT && n_run == 0 && node->body2) {
        Scope *scope = new_scope(ev, outer);
        if (!scope || !bind_unset(ev, scope, node->body2))
            return SLUICE_TPL_FLOW_FAILED;
        ev->scope = scope;
        flow = sluice_tpl_run(ev, node->body2);
        ev->scope = outer;
    }
    return flow;
}

/* loop(items) in a recursive loop: the same loop over other items, as text. */
bool
sluice_tpl_call_loop(SluiceTplEval *ev, const SluiceTplLoop *loop, const SluiceTplCall *call,
                     SluiceTplValue *out)
{
    SluiceTplBuilder builder;
    SluiceTplBuilder *outer_out = ev->out;
    Scope *outer = ev->scope;
    gsize n_captured = ev->n_captured;
    SluiceTplFlow flow;

    if (!loop->recursive)
        return sluice_tpl_fail(ev, "the loop must have the 'recursive' marker to be called");
    if (call->n_args != 1 || call->n_keywords > 0)
        return sluice_tpl_fail(ev, "loop() takes one argument");
    if (!sluice_tpl_enter(ev))
        return false;
    sluice_tpl_builder_init(&builder, &ev->arena);
    ev->n_captured += outer_out->n;
    ev->out = &builder;
    ev->scope = loop->scope;
    flow = run_loop(ev, loop->recursive, &call->args[0], loop->depth0 + 1);
    ev->out = outer_out;
    ev->scope = outer;
    ev->n_captured = n_captured;
    sluice_tpl_leave(ev);
    return flow == SLUICE_TPL_FLOW_NEXT && sluice_tpl_string_end(ev, &builder, out);
}

/* ---- statements ----------------------------------------------------------------------------- */

static SluiceTplFlow
run_if(Eval *ev, const Node *node)
{
    for (gsize i = 0; i < node->n_list; i++) {
        Value test;
        if (!sluice_tpl_expr(ev, node->list[i], &test))
            return SLUICE_TPL_FLOW_FAILED;
        if (sluice_tpl_is_true(&test))
            return sluice_tpl_run(ev, node->bodies[i]);
    }
    return node->body2 ? sluice_tpl_run(ev, node->body2) : SLUICE_TPL_FLOW_NEXT;
}

/* Applies the filters of a block to what it printed. */
static bool
apply_filters(Eval *ev, const Node *filters, Value *text)
{
    const Value *outer = ev->block_subject;
    Value subject = *text;
    bool has_passed;

    ev->block_subject = &subject;
    has_passed = sluice_tpl_expr(ev, filters, text);
    ev->block_subject = outer;
    return has_passed;
}

/* Blocks that print into a text: set, filter, generation, and the caller's part of call. */
static SluiceTplFlow
run_captured(Eval *ev, const Node *node)
{
    Scope *scope = new_scope(ev, ev->scope);
    Value text;
    SluiceTplFlow flow;

    if (!scope)
        return SLUICE_TPL_FLOW_FAILED;
    flow = capture(ev, node->body, scope, &text);
    if (flow != SLUICE_TPL_FLOW_NEXT)
        return flow;
    if (node->b && !apply_filters(ev, node->b, &text))
        return SLUICE_TPL_FLOW_FAILED;
    return (node->type == SLUICE_TPL_NODE_SET_BLOCK ? assign(ev, node->a, &text)
                                                    : write_value(ev, &text))
               ? SLUICE_TPL_FLOW_NEXT
               : SLUICE_TPL_FLOW_FAILED;
}

static bool
run_call_block(Eval *ev, const Node *node)
{
    Value caller;
    Value result;

    return new_macro(ev, node, &caller) &&
           sluice_tpl_call_node(ev, node->a, NULL, &caller, &result) && write_value(ev, &result);
}

static SluiceTplFlow
run_with(Eval *ev, const Node *node)
{
    Scope *outer = ev->scope;
    Scope *scope = new_scope(ev, outer);
    SluiceTplFlow flow = SLUICE_TPL_FLOW_FAILED;

    if (!scope || !bind_unset(ev, scope, node->body))
        return flow;
    for (gsize i = 0; i < node->n_list; i++) {
        Value value;
        bool has_passed = sluice_tpl_expr(ev, node->defaults[i], &value);

        ev->scope = scope;
        has_passed = has_passed && assign(ev, node->list[i], &value);
        ev->scope = outer;
        if (!has_passed)
            return flow;
    }
    ev->scope = scope;
    flow = sluice_tpl_run(ev, node->body);
    ev->scope = outer;
    return flow;
}

static bool
run_simple(Eval *ev, const Node *node)
{
    Value value;

    switch (node->type) {
    case SLUICE_TPL_NODE_DATA:
        sluice_tpl_builder_string(ev->out, node->text);
        return check_output(ev);
    case SLUICE_TPL_NODE_OUTPUT:
        return sluice_tpl_expr(ev, node->a, &value) && write_value(ev, &value);
    case SLUICE_TPL_NODE_SET:
        return sluice_tpl_expr(ev, node->b, &value) && assign(ev, node->a, &value);
    case SLUICE_TPL_NODE_MACRO:
        return new_macro(ev, node, &value) &&
               sluice_tpl_bind_name(ev, ev->scope, node->name, &value);
    case SLUICE_TPL_NODE_CALL_BLOCK:
        return run_call_block(ev, node);
    default:
        g_assert_not_reached();
    }
}

static SluiceTplFlow
run_statement(Eval *ev, const Node *node)
{
    Value value;

    ev->line = node->line;
    switch (node->type) {
    case SLUICE_TPL_NODE_IF:
        return run_if(ev, node);
    case SLUICE_TPL_NODE_FOR:
        return sluice_tpl_expr(ev, node->b, &value) ? run_loop(ev, node, &value, 0)
                                                    : SLUICE_TPL_FLOW_FAILED;
    case SLUICE_TPL_NODE_WITH:
        return run_with(ev, node);
    case SLUICE_TPL_NODE_SET_BLOCK:
    case SLUICE_TPL_NODE_FILTER_BLOCK:
    case SLUICE_TPL_NODE_GENERATION:
        return run_captured(ev, node);
    case SLUICE_TPL_NODE_BREAK:
        return SLUICE_TPL_FLOW_BREAK;
    case SLUICE_TPL_NODE_CONTINUE:
        return SLUICE_TPL_FLOW_CONTINUE;
    default:
        return run_simple(ev, node) ? SLUICE_TPL_FLOW_NEXT : SLUICE_TPL_FLOW_FAILED;
    }
}

SluiceTplFlow
sluice_tpl_run(SluiceTplEval *ev, const SluiceTplBody *body)
{
    SluiceTplFlow flow = SLUICE_TPL_FLOW_NEXT;

    if (!sluice_tpl_enter(ev))
        return SLUICE_TPL_FLOW_FAILED;
    for (gsize i = 0; i < body->n_list && flow == SLUICE_TPL_FLOW_NEXT; i++)
        flow = sluice_tpl_step(ev, 1) ? run_statement(ev, body->list[i]) : SLUICE_TPL_FLOW_FAILED;
    sluice_tpl_leave(ev);
    return flow;
}
