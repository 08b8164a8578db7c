/* SPDX-License-Identifier: MIT */
/*
 * What a template reaches inside a value: x.name (attribute first, then key), x['name'] (key
 * first), indices and slices. There is nothing behind an attribute but what is listed here: the
 * values are data, and what Python's sandbox would have to forbid does not exist.
 */
#include "config.h"

#include "src/text/template-private.h"

#include <string.h>

typedef SluiceTplEval Eval;
typedef SluiceTplValue Value;

static bool
bind_method(Eval *ev, const Value *subject, const SluiceTplFuncEntry *entry, Value *out)
{
    SluiceTplMethod *method = sluice_tpl_alloc(ev, 1, sizeof *method);

    if (!method)
        return false;
    *method = (SluiceTplMethod){entry, *subject};
    *out = (Value){.type = SLUICE_TPL_METHOD, .method = method};
    return true;
}

/* Undefined, and an error that says why when it is used. */
static bool
make_unsafe(Eval *ev, const Value *v, const char *name, gsize n, Value *out)
{
    if (!sluice_tpl_undefined(ev, name, n, sluice_tpl_type_name(v), out))
        return false;
    ((SluiceTplUndefined *) out->undefined)->is_unsafe = true;
    return true;
}

static bool
loop_neighbour(Eval *ev, const SluiceTplLoop *loop, bool is_next, Value *out)
{
    if (is_next ? loop->idx + 1 < loop->n : loop->idx > 0) {
        *out = loop->items[is_next ? loop->idx + 1 : loop->idx - 1];
        return true;
    }
    return sluice_tpl_undefined_sentence(
        ev, is_next ? "there is no next item" : "there is no previous item", out);
}

static bool
loop_attribute(Eval *ev, const SluiceTplLoop *loop, const char *name, bool *is_found, Value *out)
{
    const struct {
        const char *name;
        Value value;
    } attributes[] = {
        {"index", SLUICE_TPL_INT_VALUE((int64_t) loop->idx + 1)},
        {"index0", SLUICE_TPL_INT_VALUE((int64_t) loop->idx)},
        {"revindex", SLUICE_TPL_INT_VALUE((int64_t) (loop->n - loop->idx))},
        {"revindex0", SLUICE_TPL_INT_VALUE((int64_t) (loop->n - loop->idx) - 1)},
        {"first", SLUICE_TPL_BOOL_VALUE(loop->idx == 0)},
        {"last", SLUICE_TPL_BOOL_VALUE(loop->idx + 1 == loop->n)},
        {"length", SLUICE_TPL_INT_VALUE((int64_t) loop->n)},
        {"depth", SLUICE_TPL_INT_VALUE(loop->depth0 + 1)},
        {"depth0", SLUICE_TPL_INT_VALUE(loop->depth0)},
    };

    *is_found = true;
    for (gsize i = 0; i < G_N_ELEMENTS(attributes); i++)
        if (strcmp(name, attributes[i].name) == 0) {
            *out = attributes[i].value;
            return true;
        }
    if (strcmp(name, "previtem") == 0 || strcmp(name, "nextitem") == 0)
        return loop_neighbour(ev, loop, name[0] == 'n', out);
    *is_found = false;
    return true;
}

static bool
macro_attribute(Eval *ev, const SluiceTplMacro *macro, const char *name, bool *is_found, Value *out)
{
    const SluiceTplNode *node = macro->node;

    *is_found = true;
    if (strcmp(name, "name") == 0) {
        *out = SLUICE_TPL_NONE_VALUE;
        if (node->type == SLUICE_TPL_NODE_MACRO)
            *out = SLUICE_TPL_STRING_VALUE(node->text);
        return true;
    }
    if (strcmp(name, "arguments") == 0) {
        if (!sluice_tpl_list_new(ev, SLUICE_TPL_TUPLE, node->n_list, out))
            return false;
        for (gsize i = 0; i < node->n_list; i++) {
            Value item = SLUICE_TPL_STRING_VALUE(node->list[i]->text);
            if (!sluice_tpl_list_add(ev, out, &item))
                return false;
        }
        return true;
    }
    *is_found = strcmp(name, "caller") == 0 || strcmp(name, "catch_varargs") == 0 ||
                strcmp(name, "catch_kwargs") == 0;
    if (*is_found)
        *out = SLUICE_TPL_BOOL_VALUE(name[1] == 'a' && name[2] == 'l' ? node->is_extended
                                     : name[6] == 'v'                 ? node->uses_varargs
                                                                      : node->uses_kwargs);
    return true;
}

/* Attributes that are not entries: methods, and the fields of loops, groups and the like. */
static bool
own_attribute(Eval *ev, const Value *v, const char *name, bool *is_found, Value *out)
{
    const SluiceTplFuncEntry *entry = v->type == SLUICE_TPL_STRING
                                          ? sluice_tpl_string_method_find(name)
                                          : sluice_tpl_box_method_find(v, name);

    *is_found = entry != NULL;
    if (entry && sluice_tpl_method_is_refused(entry))
        return make_unsafe(ev, v, name, strlen(name), out);
    if (entry)
        return bind_method(ev, v, entry, out);
    switch (v->type) {
    case SLUICE_TPL_LOOP:
        return loop_attribute(ev, v->loop, name, is_found, out);
    case SLUICE_TPL_MACRO:
        return macro_attribute(ev, v->macro, name, is_found, out);
    case SLUICE_TPL_TUPLE:
        *is_found =
            v->list->is_group && (strcmp(name, "grouper") == 0 || strcmp(name, "list") == 0);
        if (*is_found)
            *out = v->list->items[name[0] == 'l'];
        return true;
    case SLUICE_TPL_CYCLER:
        *is_found = strcmp(name, "current") == 0;
        if (*is_found)
            *out = v->list->items[v->list->position];
        return true;
    case SLUICE_TPL_RANGE:
        *is_found =
            strcmp(name, "start") == 0 || strcmp(name, "stop") == 0 || strcmp(name, "step") == 0;
        if (*is_found)
            *out = SLUICE_TPL_INT_VALUE(name[2] == 'a'   ? v->range->start
                                        : name[2] == 'e' ? v->range->step
                                                         : v->range->stop);
        return true;
    default:
        return true;
    }
}

static bool
fail_attribute(Eval *ev, const Value *v, const SluiceTplString *name, Value *out)
{
    /* Behind such names Python keeps its machinery; saying so beats "no such attribute". */
    if (name->n >= 2 && memcmp(name->data, "__", 2) == 0)
        return make_unsafe(ev, v, name->data, name->n, out);
    return sluice_tpl_undefined(ev, name->data, name->n, sluice_tpl_type_name(v), out);
}

/* @name as text for the tables, or NULL if it is longer than all of them. */
static const char *
terminate(const SluiceTplString *name, char text[32])
{
    if (name->n >= 32)
        return NULL;
    memcpy(text, name->data, name->n);
    text[name->n] = '\0';
    return text;
}

static const Value *
entry_of(const Value *v, const SluiceTplString *name)
{
    if (v->type != SLUICE_TPL_DICT && v->type != SLUICE_TPL_NAMESPACE)
        return NULL;
    return sluice_tpl_dict_find(v->dict, name->data, name->n);
}

bool
sluice_tpl_attribute(SluiceTplEval *ev, const SluiceTplValue *v, const SluiceTplString *name,
                     SluiceTplValue *out)
{
    char text[32];
    bool is_found = false;
    const Value *entry;

    if (v->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, v);
    if (terminate(name, text) && !own_attribute(ev, v, text, &is_found, out))
        return false;
    if (is_found)
        return true;
    if ((entry = entry_of(v, name))) {
        *out = *entry;
        return true;
    }
    return fail_attribute(ev, v, name, out);
}

/* An index of Python: from the end when negative. */
static bool
resolve_index(int64_t idx, gsize n, gsize *resolved)
{
    if (idx < 0)
        idx += (int64_t) n;
    if (idx < 0 || (gsize) idx >= n)
        return false;
    *resolved = (gsize) idx;
    return true;
}

static bool
indexed(Eval *ev, const Value *v, int64_t idx, bool *is_found, Value *out)
{
    gsize n = 0;
    gsize i = 0;
    gsize begin;

    switch (v->type) {
    case SLUICE_TPL_LIST:
    case SLUICE_TPL_TUPLE:
        if ((*is_found = resolve_index(idx, v->list->n, &i)))
            *out = v->list->items[i];
        return true;
    case SLUICE_TPL_RANGE:
        if ((*is_found = resolve_index(idx, (gsize) v->range->n, &i)))
            *out = SLUICE_TPL_INT_VALUE(v->range->start + (int64_t) i * v->range->step);
        return true;
    case SLUICE_TPL_STRING:
        if (!sluice_tpl_length(ev, v, &n))
            return false;
        if (!(*is_found = resolve_index(idx, n, &i)))
            return true;
        begin = sluice_tpl_string_offset(v->string, i);
        return sluice_tpl_string_slice(ev, v->string, begin,
                                       (gsize) g_utf8_skip[(guchar) v->string->data[begin]], out);
    default:
        *is_found = false;
        return true;
    }
}

bool
sluice_tpl_item(SluiceTplEval *ev, const SluiceTplValue *v, const SluiceTplValue *key,
                SluiceTplValue *out)
{
    const SluiceTplString *name;
    const Value *entry;
    bool is_found = false;
    char text[32];

    if (v->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, v);
    if (v->type == SLUICE_TPL_DICT && (entry = sluice_tpl_dict_get(v->dict, key))) {
        *out = *entry;
        return true;
    }
    if (key->type == SLUICE_TPL_INT || key->type == SLUICE_TPL_BOOL) {
        int64_t idx = key->type == SLUICE_TPL_BOOL ? key->boolean : key->integer;
        if (!indexed(ev, v, idx, &is_found, out))
            return false;
        if (is_found)
            return true;
    }
    if (key->type == SLUICE_TPL_STRING) {
        if (terminate(key->string, text) && !own_attribute(ev, v, text, &is_found, out))
            return false;
        if (is_found)
            return true;
        if (v->type == SLUICE_TPL_NAMESPACE && (entry = entry_of(v, key->string))) {
            *out = *entry;
            return true;
        }
        return fail_attribute(ev, v, key->string, out);
    }
    return sluice_tpl_str(ev, key, &name) &&
           sluice_tpl_undefined(ev, name->data, name->n, sluice_tpl_type_name(v), out);
}

/* ---- slices --------------------------------------------------------------------------------- */

/* A slice of @n items, as slice.indices() computes it. */
typedef struct {
    int64_t start;
    int64_t step;
    int64_t n;
} Slice;

static bool
slice_bound(Eval *ev, const Value *v, int64_t *bound)
{
    if (v->type != SLUICE_TPL_INT && v->type != SLUICE_TPL_BOOL)
        return sluice_tpl_fail(ev, "slice indices must be integers or None, not %s",
                               sluice_tpl_type_name(v));
    *bound = v->type == SLUICE_TPL_BOOL ? v->boolean : v->integer;
    return true;
}

static bool
resolve_slice(Eval *ev, const Value bounds[3], int64_t n, Slice *slice)
{
    int64_t step = 1;
    int64_t limits[2];

    if (bounds[2].type != SLUICE_TPL_NONE && !slice_bound(ev, &bounds[2], &step))
        return false;
    if (step == 0)
        return sluice_tpl_fail(ev, "slice step cannot be zero");
    step = CLAMP(step, -INT64_MAX, INT64_MAX);
    for (int i = 0; i < 2; i++) {
        int64_t lowest = step < 0 ? -1 : 0;
        int64_t highest = step < 0 ? n - 1 : n;
        int64_t x = (i == 0) == (step > 0) ? lowest : highest;

        if (bounds[i].type != SLUICE_TPL_NONE) {
            if (!slice_bound(ev, &bounds[i], &x))
                return false;
            if (x < 0)
                x += n;
            x = CLAMP(x, lowest, highest);
        }
        limits[i] = x;
    }
    slice->start = limits[0];
    slice->step = step;
    if (step > 0)
        slice->n = limits[1] > limits[0] ? (limits[1] - limits[0] - 1) / step + 1 : 0;
    else
        slice->n = limits[0] > limits[1] ? (limits[0] - limits[1] - 1) / -step + 1 : 0;
    return true;
}

static bool
slice_string(Eval *ev, const SluiceTplString *s, const Slice *slice, Value *out)
{
    gsize n_chars = sluice_tpl_string_n_chars(s);
    SluiceTplBuilder b;
    gsize *offsets;

    if (!sluice_tpl_step(ev, s->n / 64))
        return false;
    if (slice->step == 1 || slice->n <= 1) {
        gsize begin = sluice_tpl_string_offset(s, (gsize) MAX(slice->start, 0));
        SluiceTplString rest = {.data = s->data + begin, .n = s->n - begin};
        return sluice_tpl_string_slice(ev, s, begin,
                                       sluice_tpl_string_offset(&rest, (gsize) slice->n), out);
    }
    if (!(offsets = sluice_tpl_alloc(ev, n_chars + 1, sizeof *offsets)))
        return false;
    for (gsize i = 0, at = 0; i < n_chars; i++) {
        offsets[i] = at;
        at += (gsize) g_utf8_skip[(guchar) s->data[at]];
    }
    offsets[n_chars] = s->n;
    sluice_tpl_builder_init(&b, &ev->arena);
    b.is_markup = s->is_markup;
    for (int64_t i = 0; i < slice->n; i++) {
        gsize at = (gsize) (slice->start + i * slice->step);
        sluice_tpl_builder_slice(&b, s, offsets[at], offsets[at + 1] - offsets[at]);
    }
    return sluice_tpl_string_end(ev, &b, out);
}

static bool
slice_list(Eval *ev, const Value *v, const Slice *slice, Value *out)
{
    if (!sluice_tpl_step(ev, (gsize) slice->n / 8) ||
        !sluice_tpl_list_new(ev, v->type, (gsize) slice->n, out))
        return false;
    for (int64_t i = 0; i < slice->n; i++)
        out->list->items[i] = v->list->items[slice->start + i * slice->step];
    out->list->n = (gsize) slice->n;
    return true;
}

static bool
slice_range(Eval *ev, const SluiceTplRange *range, const Slice *slice, Value *out)
{
    SluiceTplRange *part = sluice_tpl_alloc(ev, 1, sizeof *part);

    if (!part)
        return false;
    *part = (SluiceTplRange){.start = range->start + slice->start * range->step, .n = slice->n};
    if (__builtin_mul_overflow(range->step, slice->step, &part->step))
        part->step = range->step; /* a single item: the step says nothing */
    part->stop = part->start + part->n * part->step;
    *out = (Value){.type = SLUICE_TPL_RANGE, .range = part};
    return true;
}

/* @bounds: integers or None. */
bool
sluice_tpl_slice(SluiceTplEval *ev, const SluiceTplValue *v, const SluiceTplValue bounds[3],
                 SluiceTplValue *out)
{
    Slice slice = {0};
    gsize n;

    if (v->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, v);
    if (v->type != SLUICE_TPL_STRING && v->type != SLUICE_TPL_LIST && v->type != SLUICE_TPL_TUPLE &&
        v->type != SLUICE_TPL_RANGE)
        return sluice_tpl_fail(ev, "'%s' object cannot be sliced", sluice_tpl_type_name(v));
    if (!sluice_tpl_length(ev, v, &n) || !resolve_slice(ev, bounds, (int64_t) n, &slice))
        return false;
    if (v->type == SLUICE_TPL_STRING)
        return slice_string(ev, v->string, &slice, out);
    return v->type == SLUICE_TPL_RANGE ? slice_range(ev, v->range, &slice, out)
                                       : slice_list(ev, v, &slice, out);
}
