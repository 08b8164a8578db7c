/* SPDX-License-Identifier: MIT */
/* The tests of a template: x is defined, x is string, … */
#include "config.h"

#include "src/text/template-private.h"

#include <string.h>

typedef SluiceTplEval Eval;
typedef SluiceTplCall Call;
typedef SluiceTplValue Value;

static bool
no_arguments(Eval *ev, const Call *call)
{
    static const char *const names[] = {NULL};
    Value nothing[1];

    return sluice_tpl_bind(ev, call, names, 0, nothing);
}

/* The one argument of a comparison. */
static bool
one_argument(Eval *ev, const Call *call, Value *other)
{
    static const char *const names[] = {"other", NULL};

    return sluice_tpl_bind(ev, call, names, 1, other);
}

static bool
answer(Eval *ev, const Call *call, bool result, Value *out)
{
    *out = SLUICE_TPL_BOOL_VALUE(result);
    return no_arguments(ev, call);
}

#define TYPE_TEST(name, condition)                                                                 \
    static bool test_##name(Eval *ev, const Call *call, Value *out)                                \
    {                                                                                              \
        const SluiceTplType type = call->subject.type;                                             \
        return answer(ev, call, (condition), out);                                                 \
    }

TYPE_TEST(defined, type != SLUICE_TPL_UNDEFINED)
TYPE_TEST(undefined, type == SLUICE_TPL_UNDEFINED)
TYPE_TEST(none, type == SLUICE_TPL_NONE)
TYPE_TEST(boolean, type == SLUICE_TPL_BOOL)
TYPE_TEST(true, type == SLUICE_TPL_BOOL && call->subject.boolean)
TYPE_TEST(false, type == SLUICE_TPL_BOOL && !call->subject.boolean)
TYPE_TEST(integer, type == SLUICE_TPL_INT)
TYPE_TEST(float, type == SLUICE_TPL_FLOAT)
TYPE_TEST(number, sluice_tpl_is_number(&call->subject) && type != SLUICE_TPL_ABSENT)
TYPE_TEST(string, type == SLUICE_TPL_STRING)
TYPE_TEST(mapping, type == SLUICE_TPL_DICT)
TYPE_TEST(sequence, type == SLUICE_TPL_STRING || type == SLUICE_TPL_LIST ||
                        type == SLUICE_TPL_TUPLE || type == SLUICE_TPL_DICT ||
                        type == SLUICE_TPL_RANGE || type == SLUICE_TPL_UNDEFINED)
TYPE_TEST(iterable,
          type == SLUICE_TPL_STRING || type == SLUICE_TPL_LIST || type == SLUICE_TPL_TUPLE ||
              type == SLUICE_TPL_DICT || type == SLUICE_TPL_RANGE || type == SLUICE_TPL_UNDEFINED ||
              type == SLUICE_TPL_VIEW || type == SLUICE_TPL_ITERATOR || type == SLUICE_TPL_LOOP)
TYPE_TEST(callable, type == SLUICE_TPL_FUNCTION || type == SLUICE_TPL_METHOD ||
                        type == SLUICE_TPL_MACRO || type == SLUICE_TPL_LOOP ||
                        type == SLUICE_TPL_JOINER || type == SLUICE_TPL_UNDEFINED)
TYPE_TEST(escaped, type == SLUICE_TPL_STRING && call->subject.string->is_markup)

static bool
remainder_is(Eval *ev, const Call *call, const Value *divisor, int64_t expected, Value *out)
{
    Value rest;
    Value wanted = SLUICE_TPL_INT_VALUE(expected);
    bool is_equal;

    if (!sluice_tpl_arithmetic(ev, '%', &call->subject, divisor, &rest) ||
        !sluice_tpl_equal(ev, &rest, &wanted, &is_equal))
        return false;
    *out = SLUICE_TPL_BOOL_VALUE(is_equal);
    return true;
}

static bool
test_odd(Eval *ev, const Call *call, Value *out)
{
    const Value two = SLUICE_TPL_INT_VALUE(2);

    return no_arguments(ev, call) && remainder_is(ev, call, &two, 1, out);
}

static bool
test_even(Eval *ev, const Call *call, Value *out)
{
    const Value two = SLUICE_TPL_INT_VALUE(2);

    return no_arguments(ev, call) && remainder_is(ev, call, &two, 0, out);
}

static bool
test_divisibleby(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"num", NULL};
    Value divisor;

    return sluice_tpl_bind(ev, call, names, 1, &divisor) &&
           remainder_is(ev, call, &divisor, 0, out);
}

/* str.islower() or str.isupper() of the printed value. */
static bool
test_case(Eval *ev, const Call *call, bool is_upper, Value *out)
{
    const SluiceTplString *s;
    bool has_cased = false;
    bool result = true;

    if (!no_arguments(ev, call) || !sluice_tpl_str(ev, &call->subject, &s))
        return false;
    for (gsize i = 0; i < s->n; i += (gsize) g_utf8_skip[(guchar) s->data[i]]) {
        gunichar c = g_utf8_get_char(s->data + i);
        has_cased |= g_unichar_isupper(c) || g_unichar_islower(c);
        result = result && !(is_upper ? g_unichar_islower(c) : g_unichar_isupper(c)) &&
                 !g_unichar_istitle(c);
    }
    *out = SLUICE_TPL_BOOL_VALUE(result && has_cased);
    return sluice_tpl_step(ev, s->n / 64);
}

static bool
test_lower(Eval *ev, const Call *call, Value *out)
{
    return test_case(ev, call, false, out);
}

static bool
test_upper(Eval *ev, const Call *call, Value *out)
{
    return test_case(ev, call, true, out);
}

static bool
test_eq(Eval *ev, const Call *call, Value *out)
{
    Value other;
    bool is_equal;

    if (!one_argument(ev, call, &other) || !sluice_tpl_equal(ev, &call->subject, &other, &is_equal))
        return false;
    *out = SLUICE_TPL_BOOL_VALUE(is_equal);
    return true;
}

static bool
test_ne(Eval *ev, const Call *call, Value *out)
{
    if (!test_eq(ev, call, out))
        return false;
    out->boolean = !out->boolean;
    return true;
}

static bool
test_order(Eval *ev, const Call *call, const char *op, Value *out)
{
    Value other;
    int order;

    if (!one_argument(ev, call, &other) ||
        !sluice_tpl_order(ev, &call->subject, &other, op, &order))
        return false;
    *out = SLUICE_TPL_BOOL_VALUE(
        order != 2 && ((op[0] == '<' ? order < 0 : order > 0) || (op[1] == '=' && order == 0)));
    return true;
}

static bool
test_lt(Eval *ev, const Call *call, Value *out)
{
    return test_order(ev, call, "<", out);
}

static bool
test_le(Eval *ev, const Call *call, Value *out)
{
    return test_order(ev, call, "<=", out);
}

static bool
test_gt(Eval *ev, const Call *call, Value *out)
{
    return test_order(ev, call, ">", out);
}

static bool
test_ge(Eval *ev, const Call *call, Value *out)
{
    return test_order(ev, call, ">=", out);
}

static bool
test_in(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"seq", NULL};
    Value box;
    bool is_in;

    if (!sluice_tpl_bind(ev, call, names, 1, &box) ||
        !sluice_tpl_contains(ev, &box, &call->subject, &is_in))
        return false;
    *out = SLUICE_TPL_BOOL_VALUE(is_in);
    return true;
}

/* Identity: scalars that Python shares are the same when they are equal and of one type. */
static bool
test_sameas(Eval *ev, const Call *call, Value *out)
{
    Value other;
    bool is_same;

    if (!one_argument(ev, call, &other))
        return false;
    switch (call->subject.type) {
    case SLUICE_TPL_NONE:
        is_same = other.type == SLUICE_TPL_NONE;
        break;
    case SLUICE_TPL_BOOL:
    case SLUICE_TPL_INT:
        is_same = other.type == call->subject.type;
        if (is_same && !sluice_tpl_equal(ev, &call->subject, &other, &is_same))
            return false;
        break;
    default:
        is_same = other.type == call->subject.type && other.list == call->subject.list;
        break;
    }
    *out = SLUICE_TPL_BOOL_VALUE(is_same);
    return true;
}

static bool
test_name(Eval *ev, const Call *call, bool is_filter, Value *out)
{
    g_autofree char *name = NULL;

    if (!no_arguments(ev, call))
        return false;
    if (call->subject.type == SLUICE_TPL_STRING)
        name = g_strndup(call->subject.string->data, call->subject.string->n);
    *out = SLUICE_TPL_BOOL_VALUE(name && (is_filter ? sluice_tpl_filter_find(name) != NULL
                                                    : sluice_tpl_test_find(name) != NULL));
    return true;
}

static bool
test_filter(Eval *ev, const Call *call, Value *out)
{
    return test_name(ev, call, true, out);
}

static bool
test_test(Eval *ev, const Call *call, Value *out)
{
    return test_name(ev, call, false, out);
}

static const SluiceTplFuncEntry tests[] = {
    {"!=", test_ne},
    {"<", test_lt},
    {"<=", test_le},
    {"==", test_eq},
    {">", test_gt},
    {">=", test_ge},
    {"boolean", test_boolean},
    {"callable", test_callable},
    {"defined", test_defined},
    {"divisibleby", test_divisibleby},
    {"eq", test_eq},
    {"equalto", test_eq},
    {"escaped", test_escaped},
    {"even", test_even},
    {"false", test_false},
    {"filter", test_filter},
    {"float", test_float},
    {"ge", test_ge},
    {"greaterthan", test_gt},
    {"gt", test_gt},
    {"in", test_in},
    {"integer", test_integer},
    {"iterable", test_iterable},
    {"le", test_le},
    {"lessthan", test_lt},
    {"lower", test_lower},
    {"lt", test_lt},
    {"mapping", test_mapping},
    {"ne", test_ne},
    {"none", test_none},
    {"number", test_number},
    {"odd", test_odd},
    {"sameas", test_sameas},
    {"sequence", test_sequence},
    {"string", test_string},
    {"test", test_test},
    {"true", test_true},
    {"undefined", test_undefined},
    {"upper", test_upper},
};

const SluiceTplFuncEntry *
sluice_tpl_test_find(const char *name)
{
    for (gsize i = 0; i < G_N_ELEMENTS(tests); i++)
        if (strcmp(tests[i].name, name) == 0)
            return &tests[i];
    return NULL;
}
