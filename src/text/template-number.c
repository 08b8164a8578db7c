/* SPDX-License-Identifier: MIT */
/*
 * Numbers as Python has them: floats printed by their shortest exact form, division that rounds
 * down, text times number. Integers have 64 bits; a result beyond is an error, not a wrong number.
 */
#include "config.h"

#include "src/text/template-private.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* repr() of a float: the fewest digits that read back as the same number. */
void
sluice_tpl_float_repr(double x, char text[SLUICE_TPL_MAX_NUMBER])
{
    char digits[40];
    char mantissa[24];
    const char *exponent_text;
    int exponent;
    int n_digits = 0;
    char *p = text;

    if (isnan(x) || isinf(x)) {
        strcpy(text, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    for (int precision = 0; precision < 17; precision++) {
        char format[8];
        g_snprintf(format, sizeof format, "%%.%de", precision);
        g_ascii_formatd(digits, sizeof digits, format, x);
        if (g_ascii_strtod(digits, NULL) == x)
            break;
    }
    for (const char *d = digits; *d != 'e'; d++)
        if (g_ascii_isdigit(*d))
            mantissa[n_digits++] = *d;
    exponent_text = strchr(digits, 'e') + 1;
    exponent = (int) strtol(exponent_text, NULL, 10);
    if (digits[0] == '-')
        *p++ = '-';
    if (exponent < -4 || exponent >= 16) {
        *p++ = mantissa[0];
        if (n_digits > 1) {
            *p++ = '.';
            memcpy(p, mantissa + 1, (size_t) n_digits - 1);
            p += n_digits - 1;
        }
        g_snprintf(p, 8, "e%c%02d", exponent < 0 ? '-' : '+', ABS(exponent));
        return;
    }
    if (exponent < 0) {
        *p++ = '0';
        *p++ = '.';
        for (int i = -1; i > exponent; i--)
            *p++ = '0';
        memcpy(p, mantissa, (size_t) n_digits);
        p[n_digits] = '\0';
        return;
    }
    for (int i = 0; i <= exponent || i < n_digits; i++) {
        if (i == exponent + 1)
            *p++ = '.';
        *p++ = i < n_digits ? mantissa[i] : '0';
    }
    if (n_digits <= exponent + 1) {
        *p++ = '.';
        *p++ = '0';
    }
    *p = '\0';
}

/* Without the white space around it, and without underscores between digits. NULL: malformed. */
static char *
clean_number(const char *text, gsize n)
{
    GString *clean;

    while (n > 0 && sluice_tpl_is_space((guchar) text[0]) && (guchar) text[0] < 0x80) {
        text++;
        n--;
    }
    while (n > 0 && sluice_tpl_is_space((guchar) text[n - 1]) && (guchar) text[n - 1] < 0x80)
        n--;
    if (n == 0 || n > 4096)
        return NULL;
    clean = g_string_sized_new(n);
    for (gsize i = 0; i < n; i++) {
        bool is_between =
            i > 0 && i + 1 < n && g_ascii_isalnum(text[i - 1]) && g_ascii_isalnum(text[i + 1]);
        if (text[i] == '\0' || (text[i] == '_' && !is_between)) {
            g_string_free(clean, TRUE);
            return NULL;
        }
        if (text[i] != '_')
            g_string_append_c(clean, text[i]);
    }
    return g_string_free(clean, FALSE);
}

/* int(text, base). */
bool
sluice_tpl_parse_int(const char *text, gsize n, int base, int64_t *value, bool *is_too_big)
{
    g_autofree char *clean = clean_number(text, n);
    const char *p = clean;
    bool is_negative = false;
    uint64_t limit = (uint64_t) INT64_MAX;
    uint64_t x = 0;

    *is_too_big = false;
    if (!clean)
        return false;
    if (*p == '+' || *p == '-') {
        is_negative = *p++ == '-';
        limit += is_negative;
    }
    if (p[0] == '0' && g_ascii_isalpha(p[1])) {
        char letter = g_ascii_tolower(p[1]);
        int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
        if (prefix != 0 && (base == prefix || base == 0)) {
            base = prefix;
            p += 2;
        }
    }
    if (base == 0)
        base = 10;
    if (*p == '\0')
        return false;
    for (; *p; p++) {
        int digit = g_ascii_isdigit(*p)   ? *p - '0'
                    : g_ascii_isalpha(*p) ? g_ascii_tolower(*p) - 'a' + 10
                                          : 99;
        if (digit >= base)
            return false;
        if (x > (limit - (uint64_t) digit) / (uint64_t) base)
            *is_too_big = true;
        else
            x = x * (uint64_t) base + (uint64_t) digit;
    }
    *value = is_negative ? (int64_t) (0 - x) : (int64_t) x;
    return !*is_too_big;
}

/* float(text). */
bool
sluice_tpl_parse_float(const char *text, gsize n, double *value)
{
    g_autofree char *clean = clean_number(text, n);
    const char *p = clean;
    char *end;

    if (!clean)
        return false;
    if (*p == '+' || *p == '-')
        p++;
    if (g_ascii_strcasecmp(p, "inf") == 0 || g_ascii_strcasecmp(p, "infinity") == 0) {
        *value = clean[0] == '-' ? -INFINITY : INFINITY;
        return true;
    }
    if (g_ascii_strcasecmp(p, "nan") == 0) {
        *value = NAN;
        return true;
    }
    /* strtod() would take hexadecimal forms too, Python does not. */
    if (strspn(p, "0123456789.eE+-") != strlen(p) || !strpbrk(p, "0123456789"))
        return false;
    *value = g_ascii_strtod(clean, &end);
    return *end == '\0' && end != clean;
}

double
sluice_tpl_to_double(const SluiceTplValue *v)
{
    return v->type == SLUICE_TPL_FLOAT  ? v->real
           : v->type == SLUICE_TPL_BOOL ? (double) v->boolean
                                        : (double) v->integer;
}

/* An integer where Python accepts nothing else; booleans are integers. */
bool
sluice_tpl_to_int(SluiceTplEval *ev, const SluiceTplValue *v, const char *what, int64_t *out)
{
    if (v->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, v);
    if (v->type != SLUICE_TPL_INT && v->type != SLUICE_TPL_BOOL)
        return sluice_tpl_fail(ev, "%s: '%s' object cannot be interpreted as an integer", what,
                               sluice_tpl_type_name(v));
    *out = v->type == SLUICE_TPL_BOOL ? v->boolean : v->integer;
    return true;
}

static bool
fail_overflow(SluiceTplEval *ev)
{
    return sluice_tpl_fail(ev, "integer result does not fit 64 bits");
}

/* Rounds down, as // does; the remainder has the sign of @b. */
static void
divide_floor(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder)
{
    *quotient = a / b;
    *remainder = a % b;
    if (*remainder != 0 && (*remainder < 0) != (b < 0)) {
        *quotient -= 1;
        *remainder += b;
    }
}

static bool
int_power(SluiceTplEval *ev, int64_t base, int64_t exponent, SluiceTplValue *out)
{
    int64_t result = 1;

    if (exponent < 0) {
        if (base == 0)
            return sluice_tpl_fail(ev, "0.0 cannot be raised to a negative power");
        *out = SLUICE_TPL_FLOAT_VALUE(pow((double) base, (double) exponent));
        return true;
    }
    while (exponent > 0) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return fail_overflow(ev);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
            return fail_overflow(ev);
        }
    }
    *out = SLUICE_TPL_INT_VALUE(result);
    return true;
}

static bool
int_arithmetic(SluiceTplEval *ev, char op, int64_t a, int64_t b, SluiceTplValue *out)
{
    int64_t result = 0;
    int64_t rest;
    bool is_too_big = false;

    if (b == 0 && (op == '/' || op == 'f' || op == '%'))
        return sluice_tpl_fail(ev, "division by zero");
    switch (op) {
    case '+':
        is_too_big = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        is_too_big = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        is_too_big = __builtin_mul_overflow(a, b, &result);
        break;
    case '/':
        *out = SLUICE_TPL_FLOAT_VALUE((double) a / (double) b);
        return true;
    case 'p':
        return int_power(ev, a, b, out);
    default:
        if (b == -1)
            is_too_big = op == 'f' && __builtin_sub_overflow((int64_t) 0, a, &result);
        else if (op == 'f')
            divide_floor(a, b, &result, &rest);
        else
            divide_floor(a, b, &rest, &result);
        break;
    }
    if (is_too_big)
        return fail_overflow(ev);
    *out = SLUICE_TPL_INT_VALUE(result);
    return true;
}

/* The same for floats, with Python's care for signed zeros and rounding. */
static void
divide_floats(double a, double b, double *quotient, double *remainder)
{
    double rest = fmod(a, b);
    double ratio = (a - rest) / b;

    if (rest == 0) {
        rest = copysign(0.0, b);
    } else if ((rest < 0) != (b < 0)) {
        rest += b;
        ratio -= 1;
    }
    *remainder = rest;
    *quotient = ratio == 0 ? copysign(0.0, a / b) : floor(ratio);
    if (ratio - *quotient > 0.5)
        *quotient += 1;
}

static bool
float_arithmetic(SluiceTplEval *ev, char op, double a, double b, SluiceTplValue *out)
{
    double quotient;
    double rest;

    if (b == 0 && (op == '/' || op == 'f' || op == '%'))
        return sluice_tpl_fail(ev, "float division by zero");
    switch (op) {
    case '+':
        *out = SLUICE_TPL_FLOAT_VALUE(a + b);
        return true;
    case '-':
        *out = SLUICE_TPL_FLOAT_VALUE(a - b);
        return true;
    case '*':
        *out = SLUICE_TPL_FLOAT_VALUE(a * b);
        return true;
    case '/':
        *out = SLUICE_TPL_FLOAT_VALUE(a / b);
        return true;
    case 'p':
        if (a == 0 && b < 0)
            return sluice_tpl_fail(ev, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b) && !isinf(b))
            return sluice_tpl_fail(ev, "a negative number has no real power with a fraction");
        rest = pow(a, b);
        if (isinf(rest) && !isinf(a) && !isinf(b))
            return sluice_tpl_fail(ev, "float result is too large");
        *out = SLUICE_TPL_FLOAT_VALUE(rest);
        return true;
    default:
        divide_floats(a, b, &quotient, &rest);
        *out = SLUICE_TPL_FLOAT_VALUE(op == '%' ? rest : quotient);
        return true;
    }
}

static bool
repeat(SluiceTplEval *ev, const SluiceTplValue *v, int64_t n_times, SluiceTplValue *out)
{
    if (n_times < 0)
        n_times = 0;
    if (v->type == SLUICE_TPL_STRING) {
        const SluiceTplString *s = v->string;
        SluiceTplBuilder b;

        sluice_tpl_builder_init(&b, &ev->arena);
        b.is_markup = s->is_markup;
        if (s->n > 0 && (uint64_t) n_times > ev->limits.n_memory_bytes / s->n)
            return sluice_tpl_fail_memory(ev);
        for (int64_t i = 0; i < n_times && s->n > 0 && !b.has_failed; i++)
            sluice_tpl_builder_string(&b, s);
        return sluice_tpl_string_end(ev, &b, out);
    }
    if (!sluice_tpl_list_new(ev, v->type, 0, out))
        return false;
    for (int64_t i = 0; i < n_times && v->list->n > 0; i++)
        for (gsize k = 0; k < v->list->n; k++)
            if (!sluice_tpl_step(ev, 1) || !sluice_tpl_list_add(ev, out, &v->list->items[k]))
                return false;
    return true;
}

static bool
join_lists(SluiceTplEval *ev, const SluiceTplValue *a, const SluiceTplValue *b, SluiceTplValue *out)
{
    gsize n = a->list->n + b->list->n;

    if (!sluice_tpl_step(ev, n / 8) || !sluice_tpl_list_new(ev, a->type, n, out))
        return false;
    if (a->list->n > 0)
        memcpy(out->list->items, a->list->items, a->list->n * sizeof *a->list->items);
    if (b->list->n > 0)
        memcpy(out->list->items + a->list->n, b->list->items, b->list->n * sizeof *b->list->items);
    out->list->n = n;
    return true;
}

static bool
is_repeatable(const SluiceTplValue *v)
{
    return v->type == SLUICE_TPL_STRING || v->type == SLUICE_TPL_LIST ||
           v->type == SLUICE_TPL_TUPLE;
}

static bool
is_whole(const SluiceTplValue *v)
{
    return v->type == SLUICE_TPL_INT || v->type == SLUICE_TPL_BOOL;
}

static int64_t
whole_of(const SluiceTplValue *v)
{
    return v->type == SLUICE_TPL_BOOL ? v->boolean : v->integer;
}

/* @op: + - * / % and f for //, p for **. */
bool
sluice_tpl_arithmetic(SluiceTplEval *ev, char op, const SluiceTplValue *a, const SluiceTplValue *b,
                      SluiceTplValue *out)
{
    static const struct {
        char op;
        const char *sign;
    } signs[] = {{'+', "+"}, {'-', "-"}, {'*', "*"}, {'/', "/"}, {'%', "%"}, {'f', "//"}};
    const char *sign = "**";

    if (is_whole(a) && is_whole(b))
        return int_arithmetic(ev, op, whole_of(a), whole_of(b), out);
    if (sluice_tpl_is_number(a) && sluice_tpl_is_number(b))
        return float_arithmetic(ev, op, sluice_tpl_to_double(a), sluice_tpl_to_double(b), out);
    if (op == '%' && a->type == SLUICE_TPL_STRING)
        return sluice_tpl_format_percent(ev, a->string, b, out);
    if (a->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, a);
    if (b->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, b);
    if (op == '+' && a->type == SLUICE_TPL_STRING && b->type == SLUICE_TPL_STRING)
        return sluice_tpl_string_concat(ev, a->string, b->string, out);
    if (op == '+' && a->type == b->type &&
        (a->type == SLUICE_TPL_LIST || a->type == SLUICE_TPL_TUPLE))
        return join_lists(ev, a, b, out);
    if (op == '*' && is_repeatable(a) && is_whole(b))
        return repeat(ev, a, whole_of(b), out);
    if (op == '*' && is_repeatable(b) && is_whole(a))
        return repeat(ev, b, whole_of(a), out);
    for (gsize i = 0; i < G_N_ELEMENTS(signs); i++)
        if (signs[i].op == op)
            sign = signs[i].sign;
    return sluice_tpl_fail(ev, "unsupported operand types for %s: '%s' and '%s'", sign,
                           sluice_tpl_type_name(a), sluice_tpl_type_name(b));
}

/* @op: + or -. */
bool
sluice_tpl_negate(SluiceTplEval *ev, char op, const SluiceTplValue *a, SluiceTplValue *out)
{
    if (a->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, a);
    if (a->type == SLUICE_TPL_FLOAT) {
        *out = SLUICE_TPL_FLOAT_VALUE(op == '-' ? -a->real : a->real);
        return true;
    }
    if (!is_whole(a))
        return sluice_tpl_fail(ev, "bad operand type for unary %c: '%s'", op,
                               sluice_tpl_type_name(a));
    if (op == '-' && whole_of(a) == INT64_MIN)
        return fail_overflow(ev);
    *out = SLUICE_TPL_INT_VALUE(op == '-' ? -whole_of(a) : whole_of(a));
    return true;
}
