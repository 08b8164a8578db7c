/* SPDX-License-Identifier: MIT */
/*
 * Which names start a scope undefined. jinja2 decides at compile time where a name lives: one
 * that a scope assigns before it reads it, on all paths, belongs to the scope from its begin, and
 * is undefined until then even if a variable of that name was given. Evaluation looks names up
 * from the inside out, which agrees with jinja2 once those names are known.
 */
#include "config.h"

#include "src/text/template-private.h"

#include "src/core/error.h"

typedef SluiceTplNode Node;
typedef SluiceTplBody Body;

/* How a name gets its value when its scope begins. */
typedef enum { LOAD_RESOLVE = 1, LOAD_ALIAS, LOAD_PARAMETER, LOAD_UNDEFINED } Load;

enum { STORED = 0x10 };

/* Names of one scope. A branch of an if has a table of its own for what it adds. */
typedef struct _Symbols Symbols;
struct _Symbols {
    const Symbols *base;   /* the same scope outside of the branch */
    const Symbols *parent; /* the scope around, complete */
    GHashTable *names;     /* number + 1 of a name to Load, STORED or not */
};

typedef struct {
    SluiceTemplate *template;
    GError **error;
} Analysis;

static void visit_body(Analysis *an, Symbols *sym, const Body *body);
static gboolean enter_scopes(Analysis *an, const Symbols *sym, const Body *body);

static guint
flags_of(const Symbols *sym, int name)
{
    for (; sym; sym = sym->base) {
        guint flags = GPOINTER_TO_UINT(g_hash_table_lookup(sym->names, GINT_TO_POINTER(name + 1)));
        if (flags != 0)
            return flags;
    }
    return 0;
}

static bool
is_known(const Symbols *sym, int name)
{
    for (; sym; sym = sym->parent)
        if (flags_of(sym, name) != 0)
            return true;
    return false;
}

static void
set_flags(Symbols *sym, int name, guint flags)
{
    g_hash_table_insert(sym->names, GINT_TO_POINTER(name + 1), GUINT_TO_POINTER(flags));
}

static void
store(Symbols *sym, int name)
{
    guint flags = flags_of(sym, name);

    if (flags == 0)
        flags = is_known(sym->parent, name) ? LOAD_ALIAS : LOAD_UNDEFINED;
    set_flags(sym, name, flags | STORED);
}

static void
load(Symbols *sym, int name)
{
    if (!is_known(sym, name))
        set_flags(sym, name, LOAD_RESOLVE);
}

static void
visit_target(Symbols *sym, const Node *node, bool is_parameter)
{
    if (node->type == SLUICE_TPL_NODE_NAME && is_parameter)
        set_flags(sym, node->name, LOAD_PARAMETER | STORED);
    else if (node->type == SLUICE_TPL_NODE_NAME)
        store(sym, node->name);
    else if (node->type == SLUICE_TPL_NODE_NSREF)
        load(sym, node->name);
    for (gsize i = 0; i < node->n_list; i++)
        visit_target(sym, node->list[i], is_parameter);
}

static void
visit_expr(Symbols *sym, const Node *node)
{
    if (!node)
        return;
    if (node->type == SLUICE_TPL_NODE_NAME)
        load(sym, node->name);
    if (node->type == SLUICE_TPL_NODE_COND) {
        visit_expr(sym, node->a);
        visit_expr(sym, node->b);
        visit_expr(sym, node->c);
        return;
    }
    visit_expr(sym, node->a);
    visit_expr(sym, node->b);
    for (gsize i = 0; i < node->n_list; i++)
        visit_expr(sym, node->list[i]);
    if (!node->call)
        return;
    for (gsize i = 0; i < node->call->n_args; i++)
        visit_expr(sym, node->call->args[i]);
    for (gsize i = 0; i < node->call->n_keywords; i++)
        visit_expr(sym, node->call->keywords[i].value);
    visit_expr(sym, node->call->star);
    visit_expr(sym, node->call->star_star);
}

static void
symbols_init(Symbols *sym, const Symbols *base, const Symbols *parent)
{
    *sym = (Symbols){base, parent, g_hash_table_new(NULL, NULL)};
}

static void
symbols_clear(Symbols *sym)
{
    g_hash_table_destroy(sym->names);
}

/* A name that only some of the three branches assign is looked up when the scope begins. */
static void
merge_branches(Symbols *sym, Symbols branches[3])
{
    g_autoptr(GHashTable) counts = g_hash_table_new(NULL, NULL);
    GHashTableIter iter;
    gpointer name;
    gpointer flags;

    for (int i = 0; i < 3; i++) {
        g_hash_table_iter_init(&iter, branches[i].names);
        while (g_hash_table_iter_next(&iter, &name, &flags)) {
            guint before = flags_of(sym, GPOINTER_TO_INT(name) - 1);
            if ((GPOINTER_TO_UINT(flags) & STORED) && !(before & STORED))
                g_hash_table_insert(
                    counts, name,
                    GUINT_TO_POINTER(GPOINTER_TO_UINT(g_hash_table_lookup(counts, name)) + 1));
        }
    }
    for (int i = 0; i < 3; i++) {
        g_hash_table_iter_init(&iter, branches[i].names);
        while (g_hash_table_iter_next(&iter, &name, &flags)) {
            guint before = flags_of(sym, GPOINTER_TO_INT(name) - 1);
            set_flags(sym, GPOINTER_TO_INT(name) - 1, GPOINTER_TO_UINT(flags) | (before & STORED));
        }
    }
    g_hash_table_iter_init(&iter, counts);
    while (g_hash_table_iter_next(&iter, &name, &flags))
        if (GPOINTER_TO_UINT(flags) != 3)
            set_flags(
                sym, GPOINTER_TO_INT(name) - 1,
                (is_known(sym->parent, GPOINTER_TO_INT(name) - 1) ? LOAD_ALIAS : LOAD_RESOLVE) |
                    STORED);
}

/* The branches are the first body, all the elifs in a row, and the else. */
static void
visit_if(Analysis *an, Symbols *sym, const Node *node)
{
    Symbols branches[3];

    visit_expr(sym, node->list[0]);
    for (int i = 0; i < 3; i++)
        symbols_init(&branches[i], sym, sym->parent);
    visit_body(an, &branches[0], node->bodies[0]);
    for (gsize i = 1; i < node->n_list; i++) {
        Symbols inner[3];

        visit_expr(&branches[1], node->list[i]);
        for (int k = 0; k < 3; k++)
            symbols_init(&inner[k], &branches[1], sym->parent);
        visit_body(an, &inner[0], node->bodies[i]);
        merge_branches(&branches[1], inner);
        for (int k = 0; k < 3; k++)
            symbols_clear(&inner[k]);
    }
    visit_body(an, &branches[2], node->body2);
    merge_branches(sym, branches);
    for (int i = 0; i < 3; i++)
        symbols_clear(&branches[i]);
}

/* What a statement means for the scope that it stands in; the inner scopes come later. */
static void
visit_statement(Analysis *an, Symbols *sym, const Node *node)
{
    switch (node->type) {
    case SLUICE_TPL_NODE_OUTPUT:
        visit_expr(sym, node->a);
        break;
    case SLUICE_TPL_NODE_IF:
        visit_if(an, sym, node);
        break;
    case SLUICE_TPL_NODE_SET:
        visit_expr(sym, node->b);
        visit_target(sym, node->a, false);
        break;
    case SLUICE_TPL_NODE_SET_BLOCK:
        visit_target(sym, node->a, false);
        break;
    case SLUICE_TPL_NODE_MACRO:
        store(sym, node->name);
        break;
    case SLUICE_TPL_NODE_FOR:
    case SLUICE_TPL_NODE_FILTER_BLOCK:
        visit_expr(sym, node->b);
        break;
    case SLUICE_TPL_NODE_CALL_BLOCK:
        visit_expr(sym, node->a);
        break;
    case SLUICE_TPL_NODE_WITH:
        for (gsize i = 0; i < node->n_list; i++)
            visit_expr(sym, node->defaults[i]);
        break;
    default:
        break;
    }
}

static void
visit_body(Analysis *an, Symbols *sym, const Body *body)
{
    for (gsize i = 0; body && i < body->n_list; i++)
        visit_statement(an, sym, body->list[i]);
}

/* A scope of its own: @owner's parameters, then @body. */
static gboolean
analyze_scope(Analysis *an, const Symbols *parent, const Node *owner, Body *body)
{
    Symbols sym;
    GHashTableIter iter;
    gpointer name;
    gpointer flags;
    gsize n_unset = 0;
    gboolean has_passed;

    symbols_init(&sym, NULL, parent);
    if (owner && owner->type == SLUICE_TPL_NODE_FOR && body == owner->body)
        visit_target(&sym, owner->a, true);
    if (owner && (owner->type == SLUICE_TPL_NODE_MACRO ||
                  owner->type == SLUICE_TPL_NODE_CALL_BLOCK || owner->type == SLUICE_TPL_NODE_WITH))
        for (gsize i = 0; i < owner->n_list; i++)
            visit_target(&sym, owner->list[i], true);
    if (owner && owner->type != SLUICE_TPL_NODE_WITH)
        for (gsize i = 0; owner->defaults && i < owner->n_list; i++)
            visit_expr(&sym, owner->defaults[i]);
    visit_body(an, &sym, body);
    g_hash_table_iter_init(&iter, sym.names);
    while (g_hash_table_iter_next(&iter, &name, &flags))
        n_unset += GPOINTER_TO_UINT(flags) == (LOAD_UNDEFINED | STORED);
    if (n_unset > 0) {
        body->unset = sluice_tpl_arena_alloc(&an->template->arena, n_unset, sizeof *body->unset);
        g_hash_table_iter_init(&iter, sym.names);
        while (body->unset && g_hash_table_iter_next(&iter, &name, &flags))
            if (GPOINTER_TO_UINT(flags) == (LOAD_UNDEFINED | STORED))
                body->unset[body->n_unset++] = GPOINTER_TO_INT(name) - 1;
    }
    has_passed = n_unset == body->n_unset && enter_scopes(an, &sym, body);
    if (n_unset != body->n_unset)
        g_set_error(an->error, SLUICE_ERROR, SLUICE_ERROR_TEMPLATE,
                    "the chat template needs more than %zu bytes", an->template->arena.n_max_bytes);
    symbols_clear(&sym);
    return has_passed;
}

/* The scopes that begin directly in @body, branches of its ifs included. */
static gboolean
enter_scopes(Analysis *an, const Symbols *sym, const Body *body)
{
    gboolean has_passed = TRUE;

    for (gsize i = 0; body && i < body->n_list && has_passed; i++) {
        const Node *node = body->list[i];

        if (node->type == SLUICE_TPL_NODE_IF) {
            for (gsize k = 0; k < node->n_list && has_passed; k++)
                has_passed = enter_scopes(an, sym, node->bodies[k]);
            has_passed = has_passed && enter_scopes(an, sym, node->body2);
            continue;
        }
        if (node->body)
            has_passed = analyze_scope(an, sym, node, node->body);
        if (node->body2 && has_passed)
            has_passed = analyze_scope(an, sym, NULL, node->body2);
    }
    return has_passed;
}

gboolean
sluice_tpl_resolve_scopes(SluiceTemplate *t, GError **error)
{
    Analysis an = {t, error};

    return analyze_scope(&an, NULL, NULL, t->body);
}
