/* SPDX-License-Identifier: MIT */
/*
 * Python's two ways to format: "%s" % value and "{}".format(value). The values keep their trust,
 * and the format keeps its own.
 */
#include "config.h"

#include "src/text/template-private.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "src/core/error.h"

typedef SluiceTplEval Eval;
typedef SluiceTplCall Call;
typedef SluiceTplValue Value;
typedef SluiceTplString String;

enum { MAX_WIDTH = 100000, MAX_PRECISION = 300 };

/* What both mini languages can ask for. */
typedef struct {
    char align; /* < > ^ = or 0 */
    gunichar fill;
    char sign; /* + blank or 0: only minus */
    bool is_alternate;
    char grouping; /* , _ or 0 */
    int64_t width;
    int64_t precision; /* -1: none */
    char type;
} Spec;

/* ---- one value ------------------------------------------------------------------------------ */

/* The digits of a whole number without sign, the prefix of alternate forms included. */
static void
print_integer(int64_t value, const Spec *spec, char text[96])
{
    uint64_t x = value < 0 ? 0 - (uint64_t) value : (uint64_t) value;
    char digits[72];
    char *p = digits + sizeof digits - 1;

    *p = '\0';
    if (spec->type == 'b') {
        do
            *--p = (char) ('0' + (x & 1));
        while (x >>= 1);
    } else {
        g_snprintf(digits, sizeof digits,
                   spec->type == 'x'   ? "%" PRIx64
                   : spec->type == 'X' ? "%" PRIX64
                   : spec->type == 'o' ? "%" PRIo64
                                       : "%" PRIu64,
                   x);
        p = digits;
    }
    g_snprintf(text, 96, "%s%s",
               !spec->is_alternate ? ""
               : spec->type == 'x' ? "0x"
               : spec->type == 'X' ? "0X"
               : spec->type == 'o' ? "0o"
               : spec->type == 'b' ? "0b"
                                   : "",
               p);
}

/* The digits of a float without sign. */
static void
print_float(double x, const Spec *spec, char text[700])
{
    char format[16];
    char type = spec->type ? spec->type : 'r';
    int precision = spec->precision < 0 ? 6 : (int) spec->precision;

    x = fabs(x);
    if (isnan(x) || isinf(x)) {
        bool is_upper = g_ascii_isupper(type);
        strcpy(text, isnan(x) ? (is_upper ? "NAN" : "nan") : (is_upper ? "INF" : "inf"));
        return;
    }
    if (type == 'r' && spec->precision < 0) {
        sluice_tpl_float_repr(x, text);
        return;
    }
    if (type == '%') {
        x *= 100;
        type = 'f';
    }
    if (type == 'r')
        type = 'g';
    g_snprintf(format, sizeof format, "%%%s.%d%c", spec->is_alternate ? "#" : "", precision, type);
    g_ascii_formatd(text, 690, format, x);
    if (spec->type == '%')
        strcat(text, "%");
}

/* Thousands set apart in the whole part of @digits. */
static void
group_digits(const char *digits, char separator, GString *out)
{
    gsize n_whole = strspn(digits, "0123456789");

    for (gsize i = 0; i < n_whole; i++) {
        if (i > 0 && (n_whole - i) % 3 == 0)
            g_string_append_c(out, separator);
        g_string_append_c(out, digits[i]);
    }
    g_string_append(out, digits + n_whole);
}

static void
add_fill(SluiceTplBuilder *b, gunichar fill, int64_t n)
{
    char piece[8] = {0};

    g_unichar_to_utf8(fill, piece);
    if (n > 0)
        sluice_tpl_builder_fill(b, piece, (gsize) n);
}

static void
add_number(SluiceTplBuilder *b, const char *sign, const char *digits, const Spec *spec)
{
    g_autoptr(GString) grouped = g_string_new(NULL);
    int64_t n_pad;
    char align = spec->align ? spec->align : '>';

    if (spec->grouping)
        group_digits(digits, spec->grouping, grouped);
    else
        g_string_append(grouped, digits);
    n_pad = MAX(spec->width - (int64_t) (strlen(sign) + grouped->len), 0);
    if (align == '>' || align == '^')
        add_fill(b, spec->fill, align == '>' ? n_pad : n_pad / 2);
    sluice_tpl_builder_literal(b, sign);
    if (align == '=')
        add_fill(b, spec->fill, n_pad);
    sluice_tpl_builder_literal(b, grouped->str);
    if (align == '<' || align == '^')
        add_fill(b, spec->fill, align == '<' ? n_pad : n_pad - n_pad / 2);
}

static const char *
sign_of(bool is_negative, const Spec *spec)
{
    return is_negative ? "-" : spec->sign == '+' ? "+" : spec->sign == ' ' ? " " : "";
}

static void
add_integer(SluiceTplBuilder *b, int64_t value, const Spec *spec)
{
    char digits[96];
    g_autoptr(GString) padded = NULL;

    print_integer(value, spec, digits);
    if (spec->precision > (int64_t) strlen(digits)) {
        padded = g_string_new(NULL);
        while ((int64_t) (padded->len + strlen(digits)) < spec->precision)
            g_string_append_c(padded, '0');
        g_string_append(padded, digits);
    }
    add_number(b, sign_of(value < 0, spec), padded ? padded->str : digits, spec);
}

static void
add_float(SluiceTplBuilder *b, double x, const Spec *spec)
{
    char digits[700];

    print_float(x, spec, digits);
    add_number(b, sign_of(signbit(x) && !isnan(x), spec), digits, spec);
}

static void
add_text(SluiceTplBuilder *b, const String *s, const Spec *spec)
{
    gsize n_chars = sluice_tpl_string_n_chars(s);
    gsize n = s->n;
    int64_t n_pad;
    char align = spec->align ? spec->align : '<';

    if (spec->precision >= 0 && (gsize) spec->precision < n_chars) {
        n_chars = (gsize) spec->precision;
        n = sluice_tpl_string_offset(s, n_chars);
    }
    n_pad = MAX(spec->width - (int64_t) n_chars, 0);
    if (align != '<')
        add_fill(b, spec->fill, align == '^' ? n_pad / 2 : n_pad);
    sluice_tpl_builder_slice(b, s, 0, n);
    if (align != '>')
        add_fill(b, spec->fill, align == '^' ? n_pad - n_pad / 2 : n_pad);
}

static bool
whole_value(Eval *ev, const Value *v, char type, int64_t *out)
{
    if (v->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, v);
    if (v->type == SLUICE_TPL_FLOAT && (type == 'd' || type == 'i' || type == 'u')) {
        if (!isfinite(v->real) || fabs(v->real) >= 0x1p63)
            return sluice_tpl_fail(ev, "format: the number does not fit 64 bits");
        *out = (int64_t) v->real;
        return true;
    }
    if (v->type != SLUICE_TPL_INT && v->type != SLUICE_TPL_BOOL)
        return sluice_tpl_fail(ev, "format: %%%c needs an integer, not %s", type,
                               sluice_tpl_type_name(v));
    *out = v->type == SLUICE_TPL_BOOL ? v->boolean : v->integer;
    return true;
}

/* ---- "…" % values --------------------------------------------------------------------------- */

typedef struct {
    const Value *args;
    gsize n_args;
    gsize n_used;
    const SluiceTplDict *mapping; /* or NULL */
} Source;

static bool
next_argument(Eval *ev, Source *source, Value *out)
{
    if (source->n_used >= source->n_args)
        return sluice_tpl_fail(ev, "not enough arguments for format string");
    *out = source->args[source->n_used++];
    return true;
}

static bool
read_size(Eval *ev, const String *format, gsize *at, Source *source, int64_t max, int64_t *out)
{
    Value v;

    *out = 0;
    if (*at < format->n && format->data[*at] == '*') {
        ++*at;
        if (!next_argument(ev, source, &v) || !sluice_tpl_to_int(ev, &v, "format", out))
            return false;
    }
    while (*at < format->n && g_ascii_isdigit(format->data[*at]) && *out <= max)
        *out = *out * 10 + (format->data[(*at)++] - '0');
    if (*out > max || *out < -max)
        return sluice_tpl_fail(ev, "format: a width or precision is above %" PRId64, max);
    return true;
}

/* %(name) */
static bool
read_mapping_key(Eval *ev, const String *format, gsize *at, const Source *source, Value *out)
{
    const char *end = memchr(format->data + *at, ')', format->n - *at);
    const Value *found;

    if (!source->mapping)
        return sluice_tpl_fail(ev, "format requires a mapping");
    if (!end)
        return sluice_tpl_fail(ev, "incomplete format key");
    found = sluice_tpl_dict_find(source->mapping, format->data + *at + 1,
                                 (gsize) (end - format->data) - *at - 1);
    if (!found)
        return sluice_tpl_fail(ev, "format: the key is not in the mapping");
    *out = *found;
    *at = (gsize) (end - format->data) + 1;
    return true;
}

static bool
add_percent_value(Eval *ev, SluiceTplBuilder *b, const Value *v, Spec *spec)
{
    SluiceTplBuilder text_builder;
    Value text;
    const String *s;
    int64_t whole;

    switch (spec->type) {
    case 's':
    case 'r':
    case 'a':
        sluice_tpl_builder_init(&text_builder, &ev->arena);
        if (spec->type == 's' ? !sluice_tpl_str(ev, v, &s)
                              : !sluice_tpl_add_repr(ev, &text_builder, v) ||
                                    !sluice_tpl_string_end(ev, &text_builder, &text))
            return false;
        if (spec->type != 's')
            s = text.string;
        spec->align = spec->align == '<' ? '<' : '>';
        spec->fill = ' ';
        if (b->is_markup && !(s = sluice_tpl_string_escape(ev, s)))
            return false;
        add_text(b, s, spec);
        return true;
    case 'c':
        spec->align = spec->align == '<' ? '<' : '>';
        spec->fill = ' ';
        if (v->type != SLUICE_TPL_STRING || sluice_tpl_string_n_chars(v->string) != 1)
            return sluice_tpl_fail(ev, "%%c requires a character");
        add_text(b, v->string, spec);
        return true;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        if (!whole_value(ev, v, spec->type, &whole))
            return false;
        add_integer(b, whole, spec);
        return true;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (!sluice_tpl_is_number(v))
            return sluice_tpl_fail(ev, "format: %%%c needs a number, not %s", spec->type,
                                   sluice_tpl_type_name(v));
        add_float(b, sluice_tpl_to_double(v), spec);
        return true;
    default:
        return sluice_tpl_fail(ev, "unsupported format character");
    }
}

/* One conversion; @at is behind its percent sign. */
static bool
add_conversion(Eval *ev, SluiceTplBuilder *b, const String *format, gsize *at, Source *source)
{
    Spec spec = {.fill = ' ', .precision = -1};
    Value v = {.type = SLUICE_TPL_ABSENT};

    if (*at < format->n && format->data[*at] == '(' &&
        !read_mapping_key(ev, format, at, source, &v))
        return false;
    for (; *at < format->n && format->data[*at] && strchr("-+ #0", format->data[*at]); ++*at) {
        char c = format->data[*at];
        if (c == '-')
            spec.align = '<';
        else if (c == '#')
            spec.is_alternate = true;
        else if (c == '0' && spec.align != '<') {
            spec.align = '=';
            spec.fill = '0';
        } else if (c != '0' && spec.sign != '+')
            spec.sign = c;
    }
    if (spec.align == '<')
        spec.fill = ' ';
    if (!read_size(ev, format, at, source, MAX_WIDTH, &spec.width))
        return false;
    if (spec.width < 0) {
        spec.align = '<';
        spec.fill = ' ';
        spec.width = -spec.width;
    }
    if (*at < format->n && format->data[*at] == '.') {
        ++*at;
        if (!read_size(ev, format, at, source, MAX_PRECISION, &spec.precision))
            return false;
        spec.precision = MAX(spec.precision, 0);
    }
    while (*at < format->n && strchr("hlL", format->data[*at]) && format->data[*at])
        ++*at;
    if (*at >= format->n)
        return sluice_tpl_fail(ev, "incomplete format");
    spec.type = format->data[(*at)++];
    if (spec.type == '%') {
        sluice_tpl_builder_slice(b, format, *at - 1, 1);
        return true;
    }
    if (v.type == SLUICE_TPL_ABSENT && !next_argument(ev, source, &v))
        return false;
    return add_percent_value(ev, b, &v, &spec);
}

bool
sluice_tpl_format_percent(SluiceTplEval *ev, const SluiceTplString *format,
                          const SluiceTplValue *args, SluiceTplValue *out)
{
    Source source = {.args = args, .n_args = 1};
    SluiceTplBuilder b;
    gsize at = 0;

    if (args->type == SLUICE_TPL_TUPLE) {
        source.args = args->list->items;
        source.n_args = args->list->n;
    }
    if (args->type == SLUICE_TPL_DICT)
        source.mapping = args->dict;
    sluice_tpl_builder_init(&b, &ev->arena);
    b.is_markup = format->is_markup;
    while (at < format->n) {
        const char *percent = memchr(format->data + at, '%', format->n - at);
        gsize end = percent ? (gsize) (percent - format->data) : format->n;

        sluice_tpl_builder_slice(&b, format, at, end - at);
        at = end + 1;
        if (percent && (!sluice_tpl_step(ev, 1) || !add_conversion(ev, &b, format, &at, &source)))
            return false;
    }
    /* A mapping, and a list for Python, may have what the format does not use. */
    if (source.n_used < source.n_args && args->type != SLUICE_TPL_DICT &&
        args->type != SLUICE_TPL_LIST)
        return sluice_tpl_fail(ev, "not all arguments converted during string formatting");
    return sluice_tpl_string_end(ev, &b, out);
}

/* ---- "{}".format(…) ------------------------------------------------------------------------- */

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static bool
parse_spec(Eval *ev, const char *p, const char *end, Spec *spec)
{
    const char *after;

    *spec = (Spec){.fill = ' ', .precision = -1};
    after = p < end ? g_utf8_next_char(p) : p;
    if (after < end && *after && strchr("<>^=", *after)) {
        spec->fill = g_utf8_get_char(p);
        spec->align = *after;
        p = after + 1;
    } else if (p < end && *p && strchr("<>^=", *p)) {
        spec->align = *p++;
    }
    if (p < end && *p && strchr("+- ", *p))
        spec->sign = *p++;
    if (p < end && *p == '#') {
        spec->is_alternate = true;
        p++;
    }
    if (p < end && *p == '0') {
        if (!spec->align) {
            spec->align = '=';
            spec->fill = '0';
        }
        p++;
    }
    while (p < end && g_ascii_isdigit(*p) && spec->width <= MAX_WIDTH)
        spec->width = spec->width * 10 + (*p++ - '0');
    if (p < end && (*p == ',' || *p == '_'))
        spec->grouping = *p++;
    if (p < end && *p == '.') {
        spec->precision = 0;
        if (++p == end || !g_ascii_isdigit(*p))
            return sluice_tpl_fail(ev, "format specifier is missing its precision");
        while (p < end && g_ascii_isdigit(*p) && spec->precision <= MAX_PRECISION)
            spec->precision = spec->precision * 10 + (*p++ - '0');
    }
    if (spec->width > MAX_WIDTH || spec->precision > MAX_PRECISION)
        return sluice_tpl_fail(ev, "format: a width is above %d or a precision above %d", MAX_WIDTH,
                               MAX_PRECISION);
    if (p < end)
        spec->type = *p++;
    return p == end || sluice_tpl_fail(ev, "invalid format specifier");
}

static bool
add_formatted(Eval *ev, SluiceTplBuilder *b, const Value *v, Spec *spec, bool has_spec)
{
    const String *s;
    int64_t whole;

    if (!has_spec || (v->type == SLUICE_TPL_STRING && (!spec->type || spec->type == 's'))) {
        if (!sluice_tpl_str(ev, v, &s))
            return false;
        if (spec->align == '=' && spec->fill == '0')
            spec->align = '<';
        if (b->is_markup && !(s = sluice_tpl_string_escape(ev, s)))
            return false;
        add_text(b, s, spec);
        return true;
    }
    if ((v->type == SLUICE_TPL_INT || v->type == SLUICE_TPL_BOOL) &&
        (!spec->type || strchr("dxXobn", spec->type))) {
        if (spec->precision >= 0)
            return sluice_tpl_fail(ev, "precision not allowed in integer format specifier");
        if (!whole_value(ev, v, 'd', &whole))
            return false;
        add_integer(b, whole, spec);
        return true;
    }
    if (sluice_tpl_is_number(v) && (!spec->type || strchr("eEfFgG%", spec->type))) {
        add_float(b, sluice_tpl_to_double(v), spec);
        return true;
    }
    return sluice_tpl_fail(ev, "unsupported format string passed to %s.__format__",
                           sluice_tpl_type_name(v));
}

/* A value by name or number, then .attribute and [item] parts. */
static bool
get_field(Eval *ev, const Call *call, const String *format, gsize begin, gsize end, gsize *n_auto,
          Value *out)
{
    const char *p = format->data + begin;
    const char *limit = format->data + end;
    const char *name = p;
    int64_t idx;
    bool is_too_big;
    gsize n;

    while (p < limit && *p != '.' && *p != '[')
        p++;
    n = (gsize) (p - name);
    if (n == 0 || sluice_tpl_parse_int(name, n, 10, &idx, &is_too_big)) {
        if (n == 0)
            idx = (int64_t) (*n_auto)++;
        if (idx < 0 || (gsize) idx >= call->n_args)
            return sluice_tpl_fail(ev, "replacement index %" PRId64 " out of range", idx);
        *out = call->args[idx];
    } else {
        gsize i = 0;
        while (i < call->n_keywords && (call->keywords[i].name->n != n ||
                                        memcmp(call->keywords[i].name->data, name, n) != 0))
            i++;
        if (i == call->n_keywords)
            return sluice_tpl_fail(ev, "format: no argument named '%.*s'", (int) MIN(n, 100), name);
        *out = call->keywords[i].value;
    }
    while (p < limit) {
        bool is_item = *p++ == '[';
        Value key;
        Value found;

        name = p;
        while (p < limit && (is_item ? *p != ']' : *p != '.' && *p != '['))
            p++;
        n = (gsize) (p - name);
        if (n == 0 || (is_item && p++ == limit))
            return sluice_tpl_fail(ev, "empty attribute in format string");
        if (is_item && sluice_tpl_parse_int(name, n, 10, &idx, &is_too_big))
            key = SLUICE_TPL_INT_VALUE(idx);
        else if (!sluice_tpl_string_slice(ev, format, (gsize) (name - format->data), n, &key))
            return false;
        if (is_item ? !sluice_tpl_item(ev, out, &key, &found)
                    : !sluice_tpl_attribute(ev, out, key.string, &found))
            return false;
        if (found.type == SLUICE_TPL_UNDEFINED)
            return sluice_tpl_fail_undefined(ev, &found);
        *out = found;
    }
    return true;
}

/* {field!conversion:spec}, without its braces. */
static bool
add_replacement(Eval *ev, SluiceTplBuilder *b, const Call *call, gsize begin, gsize end,
                gsize *n_auto)
{
    const String *format = call->subject.string;
    const char *limit = format->data + end;
    const char *colon = memchr(format->data + begin, ':', end - begin);
    const char *name_end = colon ? colon : limit;
    const char *mark = memchr(format->data + begin, '!', (gsize) (name_end - format->data) - begin);
    Value v;
    Spec spec = {.fill = ' ', .precision = -1};

    if (memchr(format->data + begin, '{', end - begin))
        return sluice_tpl_fail(ev, "fields inside a format specifier are not supported");
    if (!get_field(ev, call, format, begin, (gsize) ((mark ? mark : name_end) - format->data),
                   n_auto, &v))
        return false;
    if (mark) {
        SluiceTplBuilder text;
        if (mark + 2 != name_end || (mark[1] != 'r' && mark[1] != 's'))
            return sluice_tpl_fail(ev, "unknown conversion specifier in a format string");
        sluice_tpl_builder_init(&text, &ev->arena);
        if (!(mark[1] == 'r' ? sluice_tpl_add_repr(ev, &text, &v)
                             : sluice_tpl_add_str(ev, &text, &v)) ||
            !sluice_tpl_string_end(ev, &text, &v))
            return false;
    }
    if (colon && !parse_spec(ev, colon + 1, limit, &spec))
        return false;
    return add_formatted(ev, b, &v, &spec, colon && colon + 1 < limit);
}

bool
sluice_tpl_format_braces(SluiceTplEval *ev, const SluiceTplCall *call, SluiceTplValue *out)
{
    const String *format = call->subject.string;
    SluiceTplBuilder b;
    gsize n_auto = 0;

    sluice_tpl_builder_init(&b, &ev->arena);
    b.is_markup = format->is_markup;
    for (gsize i = 0; i < format->n; i++) {
        char c = format->data[i];
        const char *end;

        if ((c == '{' || c == '}') && i + 1 < format->n && format->data[i + 1] == c) {
            sluice_tpl_builder_slice(&b, format, i++, 1);
            continue;
        }
        if (c == '}')
            return sluice_tpl_fail(ev, "single '}' encountered in format string");
        if (c != '{') {
            sluice_tpl_builder_slice(&b, format, i, 1);
            continue;
        }
        if (!(end = memchr(format->data + i, '}', format->n - i)))
            return sluice_tpl_fail(ev, "expected '}' before end of string");
        if (!sluice_tpl_step(ev, 1) ||
            !add_replacement(ev, &b, call, i + 1, (gsize) (end - format->data), &n_auto))
            return false;
        i = (gsize) (end - format->data);
    }
    return sluice_tpl_string_end(ev, &b, out);
}
