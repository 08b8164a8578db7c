/* SPDX-License-Identifier: MIT */
/* The functions that a template can call without a value: range(), namespace(), … */
#include "config.h"

#include "src/text/template-private.h"

#include <string.h>

#include "src/core/error.h"

typedef SluiceTplEval Eval;
typedef SluiceTplCall Call;
typedef SluiceTplValue Value;

static bool
make_range(Eval *ev, const Call *call, Value *out)
{
    int64_t bounds[3] = {0, 0, 1};
    int64_t distance;
    int64_t last;
    SluiceTplRange *range = sluice_tpl_alloc(ev, 1, sizeof *range);

    if (!range)
        return false;
    if (call->n_args < 1 || call->n_args > 3 || call->n_keywords > 0)
        return sluice_tpl_fail(ev, "range expects 1 to 3 arguments, got %zu",
                               call->n_args + call->n_keywords);
    for (gsize i = 0; i < call->n_args; i++)
        if (!sluice_tpl_to_int(ev, &call->args[i], "range", &bounds[call->n_args == 1 ? 1 : i]))
            return false;
    if (bounds[2] == 0)
        return sluice_tpl_fail(ev, "range() step must not be zero");
    *range = (SluiceTplRange){.start = bounds[0], .stop = bounds[1], .step = bounds[2]};
    if (__builtin_sub_overflow(bounds[1], bounds[0], &distance))
        distance = bounds[1] > bounds[0] ? INT64_MAX : -INT64_MAX;
    if (distance != 0 && (distance > 0) == (bounds[2] > 0)) {
        /* The two have the same sign, and the quotient is taken of what lies before the end. */
        distance -= distance > 0 ? 1 : -1;
        range->n = bounds[2] == INT64_MIN ? 0 : distance / bounds[2];
        if (range->n >= SLUICE_TEMPLATE_MAX_RANGE)
            return sluice_tpl_fail(ev, "range is longer than %d", SLUICE_TEMPLATE_MAX_RANGE);
        range->n++;
    }
    /* One step behind the last item must be a number too. */
    if (__builtin_mul_overflow(range->n, range->step, &last) ||
        __builtin_add_overflow(range->start, last, &last))
        return sluice_tpl_fail(ev, "range reaches beyond 64 bits");
    *out = (Value){.type = SLUICE_TPL_RANGE, .range = range};
    return true;
}

/* What dict() and namespace() take: a mapping or pairs, then keywords. */
static bool
fill_dict(Eval *ev, const Call *call, SluiceTplDict *dict)
{
    if (call->n_args > 1)
        return sluice_tpl_fail(ev, "%s expects at most 1 argument, got %zu", call->what,
                               call->n_args);
    if (call->n_args == 1 && (call->args[0].type == SLUICE_TPL_DICT)) {
        const SluiceTplDict *source = call->args[0].dict;
        for (gsize i = 0; i < source->n; i++)
            if (!sluice_tpl_dict_set(ev, dict, &source->entries[i].key, &source->entries[i].value))
                return false;
    } else if (call->n_args == 1) {
        const Value *pairs;
        gsize n;
        if (!sluice_tpl_items(ev, &call->args[0], &pairs, &n))
            return false;
        for (gsize i = 0; i < n; i++) {
            const Value *pair;
            gsize n_pair;
            if (!sluice_tpl_step(ev, 1) || !sluice_tpl_items(ev, &pairs[i], &pair, &n_pair))
                return false;
            if (n_pair != 2)
                return sluice_tpl_fail(ev, "%s: element %zu has length %zu, 2 is required",
                                       call->what, i, n_pair);
            if (!sluice_tpl_dict_set(ev, dict, &pair[0], &pair[1]))
                return false;
        }
    }
    for (gsize i = 0; i < call->n_keywords; i++) {
        Value key = SLUICE_TPL_STRING_VALUE(call->keywords[i].name);
        if (!sluice_tpl_dict_set(ev, dict, &key, &call->keywords[i].value))
            return false;
    }
    return true;
}

static bool
make_dict(Eval *ev, const Call *call, Value *out)
{
    return sluice_tpl_dict_new(ev, SLUICE_TPL_DICT, out) && fill_dict(ev, call, out->dict);
}

static bool
make_namespace(Eval *ev, const Call *call, Value *out)
{
    if (!sluice_tpl_dict_new(ev, SLUICE_TPL_NAMESPACE, out) || !fill_dict(ev, call, out->dict))
        return false;
    for (gsize i = 0; i < out->dict->n; i++) {
        const Value *key = &out->dict->entries[i].key;
        if (key->type == SLUICE_TPL_STRING && key->string->n > 0 && key->string->data[0] == '_')
            return sluice_tpl_fail(ev, "a namespace cannot have the attribute '%.*s'",
                                   (int) MIN(key->string->n, 100), key->string->data);
    }
    return true;
}

static bool
raise_exception(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"message", NULL};
    Value message;
    const SluiceTplString *text;
    g_autofree char *printable = NULL;

    if (!sluice_tpl_bind(ev, call, names, 1, &message) || !sluice_tpl_str(ev, &message, &text))
        return false;
    printable = sluice_error_printable(text->data, (gssize) text->n);
    return sluice_tpl_fail(ev, "%s", printable);
}

static bool
strftime_now(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"format", NULL};
    Value format;

    if (!sluice_tpl_bind(ev, call, names, 1, &format))
        return false;
    if (format.type != SLUICE_TPL_STRING)
        return sluice_tpl_fail(ev, "strftime_now: the format must be str, not %s",
                               sluice_tpl_type_name(&format));
    return sluice_tpl_strftime(ev, format.string, out);
}

static bool
make_cycler(Eval *ev, const Call *call, Value *out)
{
    if (call->n_args == 0 || call->n_keywords > 0)
        return sluice_tpl_fail(ev, "at least one item has to be provided to cycler()");
    if (!sluice_tpl_list_new(ev, SLUICE_TPL_CYCLER, call->n_args, out))
        return false;
    memcpy(out->list->items, call->args, call->n_args * sizeof *call->args);
    out->list->n = call->n_args;
    return true;
}

static bool
make_joiner(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"sep", NULL};
    Value sep;

    if (!sluice_tpl_bind(ev, call, names, 0, &sep) ||
        (sep.type == SLUICE_TPL_ABSENT && !sluice_tpl_string_static(ev, ", ", &sep)))
        return false;
    return sluice_tpl_list_new(ev, SLUICE_TPL_JOINER, 1, out) && sluice_tpl_list_add(ev, out, &sep);
}

static const SluiceTplFuncEntry globals[] = {
    {"cycler", make_cycler},
    {"dict", make_dict},
    {"joiner", make_joiner},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", make_range},
    {"strftime_now", strftime_now},
};

/* The number of the function called @name, or -1. */
int
sluice_tpl_global_find(const char *name)
{
    for (gsize i = 0; i < G_N_ELEMENTS(globals); i++)
        if (strcmp(globals[i].name, name) == 0)
            return (int) i;
    return -1;
}

const SluiceTplFuncEntry *
sluice_tpl_global(int function)
{
    return &globals[function];
}
