/* SPDX-License-Identifier: MIT */
/* Filters on sequences and mappings: join, map, select, sort, groupby, … */
#include "config.h"

#include "src/text/template-private.h"

#include <string.h>

typedef SluiceTplEval Eval;
typedef SluiceTplCall Call;
typedef SluiceTplValue Value;
typedef SluiceTplString String;

static bool
no_arguments(Eval *ev, const Call *call)
{
    static const char *const names[] = {NULL};
    Value nothing[1];

    return sluice_tpl_bind(ev, call, names, 0, nothing);
}

static bool
is_given(const Value *v)
{
    return v->type != SLUICE_TPL_ABSENT && v->type != SLUICE_TPL_NONE;
}

/* A given flag; absent is @otherwise. */
static bool
flag(const Value *v, bool otherwise)
{
    return v->type == SLUICE_TPL_ABSENT ? otherwise : sluice_tpl_is_true(v);
}

/* ---- attributes by path --------------------------------------------------------------------- */

/* item["a"]["b"][0] for the path a.b.0; a number is an index, nothing is the item itself. */
static bool
get_path(Eval *ev, const Value *item, const Value *path, const Value *otherwise, Value *out)
{
    gsize begin = 0;
    const String *s;

    *out = *item;
    if (!is_given(path))
        return true;
    if (path->type != SLUICE_TPL_STRING) {
        if (!sluice_tpl_item(ev, item, path, out))
            return false;
        if (otherwise && out->type == SLUICE_TPL_UNDEFINED)
            *out = *otherwise;
        return true;
    }
    s = path->string;
    while (begin <= s->n) {
        const char *dot = memchr(s->data + begin, '.', s->n - begin);
        gsize end = dot ? (gsize) (dot - s->data) : s->n;
        Value key;
        Value next;
        bool is_number = end > begin;

        for (gsize i = begin; i < end; i++)
            is_number = is_number && g_ascii_isdigit(s->data[i]);
        if (is_number) {
            int64_t idx;
            bool is_too_big;
            if (!sluice_tpl_parse_int(s->data + begin, end - begin, 10, &idx, &is_too_big))
                return sluice_tpl_fail(ev, "the index in a path does not fit 64 bits");
            key = SLUICE_TPL_INT_VALUE(idx);
        } else if (!sluice_tpl_string_slice(ev, s, begin, end - begin, &key)) {
            return false;
        }
        if (!sluice_tpl_item(ev, out, &key, &next))
            return false;
        *out = otherwise && next.type == SLUICE_TPL_UNDEFINED ? *otherwise : next;
        begin = end + 1;
    }
    return true;
}

/* What sorting and grouping compare: the attribute, texts without their case. */
static bool
get_key(Eval *ev, const Value *item, const Value *path, const Value *otherwise,
        bool is_case_sensitive, Value *out)
{
    if (!get_path(ev, item, path, otherwise, out))
        return false;
    if (!is_case_sensitive && out->type == SLUICE_TPL_STRING)
        return sluice_tpl_map_case(ev, out->string, 'l', out);
    return true;
}

/* ---- whole sequences ------------------------------------------------------------------------ */

static bool
filter_length(Eval *ev, const Call *call, Value *out)
{
    gsize n;

    if (!no_arguments(ev, call) || !sluice_tpl_length(ev, &call->subject, &n))
        return false;
    *out = SLUICE_TPL_INT_VALUE((int64_t) n);
    return true;
}

static bool
copy_items(Eval *ev, const Value *source, SluiceTplType type, Value *out)
{
    const Value *items;
    gsize n;

    if (!sluice_tpl_items(ev, source, &items, &n) || !sluice_tpl_step(ev, n / 8) ||
        !sluice_tpl_list_new(ev, type, n, out))
        return false;
    if (n > 0)
        memcpy(out->list->items, items, n * sizeof *items);
    out->list->n = n;
    return true;
}

static bool
filter_list(Eval *ev, const Call *call, Value *out)
{
    return no_arguments(ev, call) && copy_items(ev, &call->subject, SLUICE_TPL_LIST, out);
}

static bool
filter_first(Eval *ev, const Call *call, Value *out)
{
    const Value *items;
    gsize n;

    if (!no_arguments(ev, call) || !sluice_tpl_items(ev, &call->subject, &items, &n))
        return false;
    if (n == 0)
        return sluice_tpl_undefined_sentence(ev, "no first item, sequence was empty", out);
    *out = items[0];
    return true;
}

static bool
filter_last(Eval *ev, const Call *call, Value *out)
{
    const Value *items;
    gsize n;

    if (!no_arguments(ev, call))
        return false;
    if (call->subject.type == SLUICE_TPL_ITERATOR)
        return sluice_tpl_fail(ev, "'%s' object is not reversible",
                               sluice_tpl_type_name(&call->subject));
    if (!sluice_tpl_items(ev, &call->subject, &items, &n))
        return false;
    if (n == 0)
        return sluice_tpl_undefined_sentence(ev, "no last item, sequence was empty", out);
    *out = items[n - 1];
    return true;
}

static bool
filter_reverse(Eval *ev, const Call *call, Value *out)
{
    const Value minus_one[3] = {SLUICE_TPL_NONE_VALUE, SLUICE_TPL_NONE_VALUE,
                                SLUICE_TPL_INT_VALUE(-1)};

    if (!no_arguments(ev, call))
        return false;
    if (call->subject.type == SLUICE_TPL_STRING)
        return sluice_tpl_slice(ev, &call->subject, minus_one, out);
    if (!copy_items(ev, &call->subject, SLUICE_TPL_ITERATOR, out))
        return false;
    out->list->kind = "list_reverseiterator";
    for (gsize i = 0; i < out->list->n / 2; i++) {
        Value other = out->list->items[i];
        out->list->items[i] = out->list->items[out->list->n - 1 - i];
        out->list->items[out->list->n - 1 - i] = other;
    }
    return true;
}

static bool
filter_join(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"d", "attribute", NULL};
    const String *separator = NULL;
    const Value *items;
    Value args[2];
    SluiceTplBuilder b;
    gsize n;

    if (!sluice_tpl_bind(ev, call, names, 0, args) ||
        (args[0].type != SLUICE_TPL_ABSENT && !sluice_tpl_str(ev, &args[0], &separator)) ||
        !sluice_tpl_items(ev, &call->subject, &items, &n))
        return false;
    sluice_tpl_builder_init(&b, &ev->arena);
    for (gsize i = 0; i < n; i++) {
        Value item;
        if (!sluice_tpl_step(ev, 1) || !get_path(ev, &items[i], &args[1], NULL, &item))
            return false;
        if (i > 0 && separator)
            sluice_tpl_builder_string(&b, separator);
        if (!sluice_tpl_add_str(ev, &b, &item))
            return false;
    }
    return sluice_tpl_string_end(ev, &b, out);
}

static bool
filter_sum(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"attribute", "start", NULL};
    const Value *items;
    Value args[2];
    gsize n;

    if (!sluice_tpl_bind(ev, call, names, 0, args) ||
        !sluice_tpl_items(ev, &call->subject, &items, &n))
        return false;
    *out = args[1].type == SLUICE_TPL_ABSENT ? SLUICE_TPL_INT_VALUE(0) : args[1];
    if (out->type == SLUICE_TPL_STRING)
        return sluice_tpl_fail(ev, "sum() cannot sum strings");
    for (gsize i = 0; i < n; i++) {
        Value item;
        Value total;
        if (!sluice_tpl_step(ev, 1) || !get_path(ev, &items[i], &args[0], NULL, &item) ||
            !sluice_tpl_arithmetic(ev, '+', out, &item, &total))
            return false;
        *out = total;
    }
    return true;
}

/* ---- mappings ------------------------------------------------------------------------------- */

static bool
filter_items(Eval *ev, const Call *call, Value *out)
{
    if (!no_arguments(ev, call))
        return false;
    if (call->subject.type == SLUICE_TPL_UNDEFINED) {
        if (!sluice_tpl_list_new(ev, SLUICE_TPL_ITERATOR, 0, out))
            return false;
    } else if (call->subject.type != SLUICE_TPL_DICT) {
        return sluice_tpl_fail(ev, "can only get item pairs from a mapping, not from '%s'",
                               sluice_tpl_type_name(&call->subject));
    } else if (!sluice_tpl_dict_view(ev, call->subject.dict, "dict_items", out)) {
        return false;
    }
    out->type = SLUICE_TPL_ITERATOR;
    out->list->kind = "generator";
    return true;
}

/* Sorts stably, lowest first; equal items keep their order when reversed too, as in Python. */
typedef struct {
    Value item;
    Value *keys;
} Sortable;

static bool
compare_keys(Eval *ev, const Sortable *a, const Sortable *b, gsize n_keys, bool *is_less)
{
    int order = 0;

    for (gsize i = 0; i < n_keys; i++) {
        bool is_equal = false;
        /* As with tuples: equal keys are passed over, even if they cannot be ordered. */
        if (n_keys > 1 && !sluice_tpl_equal(ev, &a->keys[i], &b->keys[i], &is_equal))
            return false;
        if (is_equal)
            continue;
        if (!sluice_tpl_order(ev, &a->keys[i], &b->keys[i], "<", &order))
            return false;
        break;
    }
    *is_less = order == -1;
    return sluice_tpl_step(ev, 1);
}

static bool
merge_sort(Eval *ev, Sortable *items, Sortable *scratch, gsize n, gsize n_keys, bool is_reversed)
{
    gsize half = n / 2;
    gsize i = 0;
    gsize k = half;

    if (n < 2)
        return true;
    if (!merge_sort(ev, items, scratch, half, n_keys, is_reversed) ||
        !merge_sort(ev, items + half, scratch, n - half, n_keys, is_reversed))
        return false;
    for (gsize at = 0; at < n; at++) {
        bool takes_right = i == half;
        if (i < half && k < n &&
            !(is_reversed ? compare_keys(ev, &items[i], &items[k], n_keys, &takes_right)
                          : compare_keys(ev, &items[k], &items[i], n_keys, &takes_right)))
            return false;
        scratch[at] = takes_right ? items[k++] : items[i++];
    }
    memcpy(items, scratch, n * sizeof *items);
    return true;
}

/* @out: a list of @items in the order of their keys. */
static bool
sort_by_keys(Eval *ev, Sortable *items, gsize n, gsize n_keys, bool is_reversed, Value *out)
{
    Sortable *scratch = sluice_tpl_alloc(ev, n, sizeof *scratch);

    if (!scratch || !merge_sort(ev, items, scratch, n, n_keys, is_reversed) ||
        !sluice_tpl_list_new(ev, SLUICE_TPL_LIST, n, out))
        return false;
    for (gsize i = 0; i < n; i++)
        out->list->items[i] = items[i].item;
    out->list->n = n;
    return true;
}

static bool
filter_dictsort(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"case_sensitive", "by", "reverse", NULL};
    Value args[3];
    Value view;
    Sortable *items;
    bool by_value;

    if (!sluice_tpl_bind(ev, call, names, 0, args))
        return false;
    if (call->subject.type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, &call->subject);
    if (call->subject.type != SLUICE_TPL_DICT)
        return sluice_tpl_fail(ev, "'%s' object has no attribute 'items'",
                               sluice_tpl_type_name(&call->subject));
    by_value = args[1].type != SLUICE_TPL_ABSENT && sluice_tpl_is_string(&args[1], "value");
    if (args[1].type != SLUICE_TPL_ABSENT && !by_value && !sluice_tpl_is_string(&args[1], "key"))
        return sluice_tpl_fail(ev, "dictsort: you can only sort by either 'key' or 'value'");
    if (!sluice_tpl_dict_view(ev, call->subject.dict, "dict_items", &view) ||
        !(items = sluice_tpl_alloc(ev, view.list->n, sizeof *items)))
        return false;
    for (gsize i = 0; i < view.list->n; i++) {
        const Value nothing = SLUICE_TPL_NONE_VALUE;
        items[i].item = view.list->items[i];
        if (!(items[i].keys = sluice_tpl_alloc(ev, 1, sizeof(Value))) ||
            !get_key(ev, &items[i].item.list->items[by_value], &nothing, NULL,
                     flag(&args[0], false), items[i].keys))
            return false;
    }
    return sort_by_keys(ev, items, view.list->n, 1, flag(&args[2], false), out);
}

/* The paths of "a,b.c"; a single one otherwise. */
static bool
split_paths(Eval *ev, const Value *attribute, Value *out)
{
    gsize begin = 0;

    if (!sluice_tpl_list_new(ev, SLUICE_TPL_LIST, 1, out))
        return false;
    if (attribute->type != SLUICE_TPL_STRING)
        return sluice_tpl_list_add(ev, out, attribute);
    while (begin <= attribute->string->n) {
        const String *s = attribute->string;
        const char *comma = memchr(s->data + begin, ',', s->n - begin);
        gsize end = comma ? (gsize) (comma - s->data) : s->n;
        Value path;
        if (!sluice_tpl_string_slice(ev, s, begin, end - begin, &path) ||
            !sluice_tpl_list_add(ev, out, &path))
            return false;
        begin = end + 1;
    }
    return true;
}

static bool
filter_sort(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"reverse", "case_sensitive", "attribute", NULL};
    const Value *items;
    Value args[3];
    Value paths;
    Sortable *sortables;
    gsize n;

    if (!sluice_tpl_bind(ev, call, names, 0, args) || !split_paths(ev, &args[2], &paths) ||
        !sluice_tpl_items(ev, &call->subject, &items, &n) ||
        !(sortables = sluice_tpl_alloc(ev, n, sizeof *sortables)))
        return false;
    for (gsize i = 0; i < n; i++) {
        sortables[i].item = items[i];
        if (!(sortables[i].keys = sluice_tpl_alloc(ev, paths.list->n, sizeof(Value))))
            return false;
        for (gsize k = 0; k < paths.list->n; k++)
            if (!get_key(ev, &items[i], &paths.list->items[k], NULL, flag(&args[1], false),
                         &sortables[i].keys[k]))
                return false;
    }
    return sort_by_keys(ev, sortables, n, paths.list->n, flag(&args[0], false), out);
}

static bool
filter_groupby(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"attribute", "default", "case_sensitive", NULL};
    const Value *items;
    Value args[3];
    Sortable *sortables;
    const Value *otherwise;
    Value ordered;
    Value group = SLUICE_TPL_NONE_VALUE;
    gsize n;

    if (!sluice_tpl_bind(ev, call, names, 1, args) ||
        !sluice_tpl_items(ev, &call->subject, &items, &n) ||
        !(sortables = sluice_tpl_alloc(ev, n, sizeof *sortables)))
        return false;
    otherwise = is_given(&args[1]) ? &args[1] : NULL;
    for (gsize i = 0; i < n; i++) {
        sortables[i].item = items[i];
        if (!(sortables[i].keys = sluice_tpl_alloc(ev, 1, sizeof(Value))) ||
            !get_key(ev, &items[i], &args[0], otherwise, flag(&args[2], false), sortables[i].keys))
            return false;
    }
    if (!sort_by_keys(ev, sortables, n, 1, false, &ordered) ||
        !sluice_tpl_list_new(ev, SLUICE_TPL_LIST, 0, out))
        return false;
    for (gsize i = 0; i < n; i++) {
        bool is_equal = false;
        if (i > 0 && !sluice_tpl_equal(ev, sortables[i - 1].keys, sortables[i].keys, &is_equal))
            return false;
        if (!is_equal) {
            Value key;
            Value members;
            if (!get_path(ev, &sortables[i].item, &args[0], otherwise, &key) ||
                !sluice_tpl_list_new(ev, SLUICE_TPL_TUPLE, 2, &group) ||
                !sluice_tpl_list_new(ev, SLUICE_TPL_LIST, 1, &members) ||
                !sluice_tpl_list_add(ev, &group, &key) ||
                !sluice_tpl_list_add(ev, &group, &members) || !sluice_tpl_list_add(ev, out, &group))
                return false;
            group.list->is_group = true;
        }
        if (!sluice_tpl_list_add(ev, &group.list->items[1], &sortables[i].item))
            return false;
    }
    return true;
}

static bool
filter_unique(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"case_sensitive", "attribute", NULL};
    const Value *items;
    Value args[2];
    Value seen;
    gsize n;

    if (!sluice_tpl_bind(ev, call, names, 0, args) ||
        !sluice_tpl_items(ev, &call->subject, &items, &n) ||
        !sluice_tpl_dict_new(ev, SLUICE_TPL_DICT, &seen) ||
        !sluice_tpl_list_new(ev, SLUICE_TPL_ITERATOR, 0, out))
        return false;
    out->list->kind = "generator";
    for (gsize i = 0; i < n; i++) {
        Value key;
        if (!sluice_tpl_step(ev, 1) ||
            !get_key(ev, &items[i], &args[1], NULL, flag(&args[0], false), &key))
            return false;
        if (sluice_tpl_dict_get(seen.dict, &key))
            continue;
        if (!sluice_tpl_dict_set(ev, seen.dict, &key, &key) ||
            !sluice_tpl_list_add(ev, out, &items[i]))
            return false;
    }
    return true;
}

static bool
extreme(Eval *ev, const Call *call, bool is_max, Value *out)
{
    static const char *const names[] = {"case_sensitive", "attribute", NULL};
    const Value *items;
    Value args[2];
    Value best;
    gsize n;

    if (!sluice_tpl_bind(ev, call, names, 0, args) ||
        !sluice_tpl_items(ev, &call->subject, &items, &n))
        return false;
    if (n == 0)
        return sluice_tpl_undefined_sentence(ev, "no aggregated item, sequence was empty", out);
    for (gsize i = 0; i < n; i++) {
        Value key;
        int order = 0;
        if (!sluice_tpl_step(ev, 1) ||
            !get_key(ev, &items[i], &args[1], NULL, flag(&args[0], false), &key) ||
            (i > 0 && !sluice_tpl_order(ev, &key, &best, is_max ? ">" : "<", &order)))
            return false;
        if (i == 0 || order == (is_max ? 1 : -1)) {
            best = key;
            *out = items[i];
        }
    }
    return true;
}

static bool
filter_min(Eval *ev, const Call *call, Value *out)
{
    return extreme(ev, call, false, out);
}

static bool
filter_max(Eval *ev, const Call *call, Value *out)
{
    return extreme(ev, call, true, out);
}

/* ---- map, select and reject ----------------------------------------------------------------- */

/* The name of a filter or test given as an argument; freed by the caller. */
static char *
function_name(Eval *ev, const Call *call, const Value *v)
{
    if (v->type == SLUICE_TPL_STRING)
        return g_strndup(v->string->data, v->string->n);
    sluice_tpl_set_error(ev, "%s: the name must be str, not %s", call->what,
                         sluice_tpl_type_name(v));
    return NULL;
}

static bool
map_attribute(Eval *ev, const Call *call, const Value *items, gsize n, Value *out)
{
    static const char *const names[] = {"attribute", "default", NULL};
    Value args[2];

    if (!sluice_tpl_bind(ev, call, names, 1, args))
        return false;
    for (gsize i = 0; i < n; i++) {
        Value item;
        if (!sluice_tpl_step(ev, 1) ||
            !get_path(ev, &items[i], &args[0], is_given(&args[1]) ? &args[1] : NULL, &item) ||
            !sluice_tpl_list_add(ev, out, &item))
            return false;
    }
    return true;
}

static bool
filter_map(Eval *ev, const Call *call, Value *out)
{
    g_autofree char *name = NULL;
    const Value *items;
    Call inner = *call;
    gsize n;

    if (!sluice_tpl_items(ev, &call->subject, &items, &n) ||
        !sluice_tpl_list_new(ev, SLUICE_TPL_ITERATOR, n, out))
        return false;
    out->list->kind = "generator";
    if (call->n_args == 0 && call->n_keywords > 0)
        return map_attribute(ev, call, items, n, out);
    if (call->n_args == 0)
        return sluice_tpl_fail(ev, "map requires a filter argument");
    if (!(name = function_name(ev, call, &call->args[0])))
        return false;
    inner.what = name;
    inner.args = call->args + 1;
    inner.n_args = call->n_args - 1;
    if (!sluice_tpl_enter(ev))
        return false;
    for (gsize i = 0; i < n; i++) {
        Value item;
        inner.subject = items[i];
        if (!sluice_tpl_step(ev, 1) || !sluice_tpl_call_by_name(ev, false, &inner, &item) ||
            !sluice_tpl_list_add(ev, out, &item))
            return false;
    }
    sluice_tpl_leave(ev);
    return true;
}

/* select, reject and, with a path before the test, selectattr and rejectattr. */
static bool
choose(Eval *ev, const Call *call, bool has_path, bool wanted, Value *out)
{
    g_autofree char *name = NULL;
    const Value nothing = SLUICE_TPL_NONE_VALUE;
    const Value *items;
    Call inner = *call;
    gsize n;

    if (!sluice_tpl_list_new(ev, SLUICE_TPL_ITERATOR, 0, out))
        return false;
    out->list->kind = "generator";
    if (!sluice_tpl_is_true(&call->subject))
        return true;
    if (!sluice_tpl_items(ev, &call->subject, &items, &n))
        return false;
    if (has_path && call->n_args == 0)
        return sluice_tpl_fail(ev, "%s: missing parameter for attribute name", call->what);
    if (call->n_args > has_path && !(name = function_name(ev, call, &call->args[has_path])))
        return false;
    inner.what = name;
    inner.args = call->args + has_path + 1;
    inner.n_args = name ? call->n_args - has_path - 1 : 0;
    for (gsize i = 0; i < n; i++) {
        Value answer;
        if (!sluice_tpl_step(ev, 1) ||
            !get_path(ev, &items[i], has_path ? &call->args[0] : &nothing, NULL, &inner.subject))
            return false;
        answer = inner.subject;
        if (name && !sluice_tpl_call_by_name(ev, true, &inner, &answer))
            return false;
        if (sluice_tpl_is_true(&answer) == wanted && !sluice_tpl_list_add(ev, out, &items[i]))
            return false;
    }
    return true;
}

static bool
filter_select(Eval *ev, const Call *call, Value *out)
{
    return choose(ev, call, false, true, out);
}

static bool
filter_reject(Eval *ev, const Call *call, Value *out)
{
    return choose(ev, call, false, false, out);
}

static bool
filter_selectattr(Eval *ev, const Call *call, Value *out)
{
    return choose(ev, call, true, true, out);
}

static bool
filter_rejectattr(Eval *ev, const Call *call, Value *out)
{
    return choose(ev, call, true, false, out);
}

/* ---- pieces --------------------------------------------------------------------------------- */

static bool
add_piece(Eval *ev, Value *out, const Value *items, gsize n, const Value *fill, gsize n_fill)
{
    Value piece;

    if (!sluice_tpl_step(ev, 1) || !sluice_tpl_list_new(ev, SLUICE_TPL_LIST, n, &piece))
        return false;
    for (gsize i = 0; i < n; i++)
        if (!sluice_tpl_list_add(ev, &piece, &items[i]))
            return false;
    for (gsize i = 0; i < n_fill; i++)
        if (!sluice_tpl_step(ev, 1) || !sluice_tpl_list_add(ev, &piece, fill))
            return false;
    return sluice_tpl_list_add(ev, out, &piece);
}

static bool
filter_batch(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"linecount", "fill_with", NULL};
    const Value *items;
    Value args[2];
    int64_t size;
    gsize n;

    if (!sluice_tpl_bind(ev, call, names, 1, args) ||
        !sluice_tpl_to_int(ev, &args[0], call->what, &size) ||
        !sluice_tpl_items(ev, &call->subject, &items, &n) ||
        !sluice_tpl_list_new(ev, SLUICE_TPL_ITERATOR, 0, out))
        return false;
    out->list->kind = "generator";
    /* jinja2 compares the size before it adds: nothing is as long as 0 but the first batch. */
    if (size == 0 && n > 0 && !add_piece(ev, out, NULL, 0, NULL, 0))
        return false;
    if (size < 1)
        return n == 0 || add_piece(ev, out, items, n, NULL, 0);
    for (gsize i = 0; i < n; i += MIN((gsize) size, n - i)) {
        gsize n_piece = MIN((gsize) size, n - i);
        gsize n_fill = is_given(&args[1]) ? (gsize) size - n_piece : 0;
        if (!add_piece(ev, out, items + i, n_piece, &args[1], n_fill))
            return false;
    }
    return true;
}

static bool
filter_slice(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"slices", "fill_with", NULL};
    const Value *items;
    Value args[2];
    int64_t n_slices;
    gsize n;
    gsize at = 0;

    if (!sluice_tpl_bind(ev, call, names, 1, args) ||
        !sluice_tpl_to_int(ev, &args[0], call->what, &n_slices) ||
        !sluice_tpl_items(ev, &call->subject, &items, &n) ||
        !sluice_tpl_list_new(ev, SLUICE_TPL_ITERATOR, 0, out))
        return false;
    out->list->kind = "generator";
    if (n_slices < 1)
        return sluice_tpl_fail(ev, "slice: the number must be 1 or more, got %" G_GINT64_FORMAT,
                               n_slices);
    for (gsize i = 0; i < (gsize) n_slices; i++) {
        bool has_extra = i < n % (gsize) n_slices;
        gsize n_piece = n / (gsize) n_slices + has_extra;
        if (!add_piece(ev, out, items ? items + at : NULL, n_piece, &args[1],
                       is_given(&args[1]) && !has_extra))
            return false;
        at += n_piece;
    }
    return true;
}

static bool
filter_attr(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"name", NULL};
    Value name;
    Value found;

    if (!sluice_tpl_bind(ev, call, names, 1, &name))
        return false;
    if (name.type != SLUICE_TPL_STRING)
        return sluice_tpl_fail(ev, "attr: the name must be str, not %s",
                               sluice_tpl_type_name(&name));
    if (!sluice_tpl_attribute(ev, &call->subject, name.string, &found))
        return false;
    /* Attributes only, no entries. */
    if (call->subject.type == SLUICE_TPL_DICT && found.type != SLUICE_TPL_METHOD)
        return sluice_tpl_undefined(ev, name.string->data, name.string->n, "dict", out);
    *out = found;
    return true;
}

static const SluiceTplFuncEntry filters[] = {
    {"attr", filter_attr},
    {"batch", filter_batch},
    {"count", filter_length},
    {"dictsort", filter_dictsort},
    {"first", filter_first},
    {"groupby", filter_groupby},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"map", filter_map},
    {"max", filter_max},
    {"min", filter_min},
    {"reject", filter_reject},
    {"rejectattr", filter_rejectattr},
    {"reverse", filter_reverse},
    {"select", filter_select},
    {"selectattr", filter_selectattr},
    {"slice", filter_slice},
    {"sort", filter_sort},
    {"sum", filter_sum},
    {"unique", filter_unique},
};

const SluiceTplFuncEntry *
sluice_tpl_sequence_filter_find(const char *name)
{
    for (gsize i = 0; i < G_N_ELEMENTS(filters); i++)
        if (strcmp(filters[i].name, name) == 0)
            return &filters[i];
    return NULL;
}
