/* SPDX-License-Identifier: MIT */
/*
 * Filters on texts and single values, and the list of all filters. What filters share with the
 * methods of texts, such as trimming and replacing, is in template-methods.c.
 */
#include "config.h"

#include "src/text/template-private.h"

#include <math.h>
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
    return v->type != SLUICE_TPL_ABSENT;
}

/* An integer argument with a default. */
static bool
int_argument(Eval *ev, const Call *call, const Value *v, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    return !is_given(v) || sluice_tpl_to_int(ev, v, call->what, out);
}

/* A text argument; anything else is an error. */
static bool
text_argument(Eval *ev, const Call *call, const Value *v, const String **out)
{
    if (v->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, v);
    if (v->type != SLUICE_TPL_STRING)
        return sluice_tpl_fail(ev, "%s: expected str, got %s", call->what, sluice_tpl_type_name(v));
    *out = v->string;
    return true;
}

/* ---- case and white space ------------------------------------------------------------------- */

static bool
map_case(Eval *ev, const Call *call, char how, Value *out)
{
    const String *s;

    return no_arguments(ev, call) && sluice_tpl_str(ev, &call->subject, &s) &&
           sluice_tpl_map_case(ev, s, how, out);
}

static bool
filter_upper(Eval *ev, const Call *call, Value *out)
{
    return map_case(ev, call, 'u', out);
}

static bool
filter_lower(Eval *ev, const Call *call, Value *out)
{
    return map_case(ev, call, 'l', out);
}

static bool
filter_capitalize(Eval *ev, const Call *call, Value *out)
{
    return map_case(ev, call, 'c', out);
}

/* Words begin behind these and white space: not as str.title(), which takes every non-letter. */
static bool
begins_word(gunichar before)
{
    return sluice_tpl_is_space(before) ||
           (before < 0x80 && before && strchr("-({[<", (int) before));
}

static bool
filter_title(Eval *ev, const Call *call, Value *out)
{
    SluiceTplBuilder b;
    const String *s;
    gunichar before = ' ';

    if (!no_arguments(ev, call) || !sluice_tpl_str(ev, &call->subject, &s))
        return false;
    sluice_tpl_builder_init(&b, &ev->arena);
    for (gsize i = 0; i < s->n;) {
        gsize n = (gsize) g_utf8_skip[(guchar) s->data[i]];
        Value letter;
        Value mapped;

        if (!sluice_tpl_string_slice(ev, s, i, n, &letter) ||
            !sluice_tpl_map_case(ev, letter.string, begins_word(before) ? 'u' : 'l', &mapped))
            return false;
        sluice_tpl_builder_string(&b, mapped.string);
        before = g_utf8_get_char(s->data + i);
        i += n;
    }
    return sluice_tpl_string_end(ev, &b, out);
}

static bool
filter_trim(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"chars", NULL};
    Value chars;
    const String *s;
    const String *set = NULL;

    if (!sluice_tpl_bind(ev, call, names, 0, &chars) || !sluice_tpl_str(ev, &call->subject, &s))
        return false;
    if (is_given(&chars) && chars.type != SLUICE_TPL_NONE && !text_argument(ev, call, &chars, &set))
        return false;
    return sluice_tpl_strip(ev, s, set, true, true, out);
}

static bool
filter_string(Eval *ev, const Call *call, Value *out)
{
    const String *s;

    if (!no_arguments(ev, call) || !sluice_tpl_str(ev, &call->subject, &s))
        return false;
    *out = SLUICE_TPL_STRING_VALUE(s);
    return true;
}

static bool
filter_replace(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"old", "new", "count", NULL};
    Value v[3];
    const String *s;
    const String *old;
    const String *new_text;
    int64_t count = -1;

    if (!sluice_tpl_bind(ev, call, names, 2, v) || !sluice_tpl_str(ev, &call->subject, &s) ||
        !sluice_tpl_str(ev, &v[0], &old) || !sluice_tpl_str(ev, &v[1], &new_text))
        return false;
    if (is_given(&v[2]) && v[2].type != SLUICE_TPL_NONE &&
        !sluice_tpl_to_int(ev, &v[2], call->what, &count))
        return false;
    return sluice_tpl_replace(ev, s, old, new_text, count, out);
}

/* ---- layout --------------------------------------------------------------------------------- */

static bool
filter_indent(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"width", "first", "blank", NULL};
    const String newline = {.data = "\n", .n = 1};
    Value v[3];
    Value text;
    Value lines;
    const String *s = NULL;
    SluiceTplBuilder b;
    int64_t width = 4;

    if (!sluice_tpl_bind(ev, call, names, 0, v) || !text_argument(ev, call, &call->subject, &s))
        return false;
    if (v[0].type != SLUICE_TPL_STRING && !int_argument(ev, call, &v[0], 4, &width))
        return false;
    /* The added newline is what lets a text that ends with one keep it. */
    if (!sluice_tpl_string_concat(ev, s, &newline, &text) ||
        !sluice_tpl_split_lines(ev, text.string, false, &lines))
        return false;
    sluice_tpl_builder_init(&b, &ev->arena);
    b.is_markup = s->is_markup;
    for (gsize i = 0; i < lines.list->n && !b.has_failed; i++) {
        const String *line = lines.list->items[i].string;
        bool is_indented = i == 0 ? is_given(&v[1]) && sluice_tpl_is_true(&v[1])
                                  : line->n > 0 || (is_given(&v[2]) && sluice_tpl_is_true(&v[2]));

        if (i > 0)
            sluice_tpl_builder_literal(&b, "\n");
        if (is_indented && v[0].type == SLUICE_TPL_STRING)
            sluice_tpl_builder_string(&b, v[0].string);
        else if (is_indented && width > 0)
            sluice_tpl_builder_fill(&b, " ", (gsize) width);
        sluice_tpl_builder_string(&b, line);
    }
    return sluice_tpl_string_end(ev, &b, out);
}

static bool
filter_center(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"width", NULL};
    Value v;
    const String *s;
    SluiceTplBuilder b;
    int64_t width;
    int64_t n;
    int64_t n_left;

    if (!sluice_tpl_bind(ev, call, names, 0, &v) || !int_argument(ev, call, &v, 80, &width) ||
        !sluice_tpl_str(ev, &call->subject, &s))
        return false;
    n = (int64_t) sluice_tpl_string_n_chars(s);
    sluice_tpl_builder_init(&b, &ev->arena);
    b.is_markup = s->is_markup;
    if (width > n) {
        /* Python puts the odd blank left where the width is odd. */
        n_left = (width - n) / 2 + ((width - n) & width & 1);
        sluice_tpl_builder_fill(&b, " ", (gsize) n_left);
        sluice_tpl_builder_string(&b, s);
        sluice_tpl_builder_fill(&b, " ", (gsize) (width - n - n_left));
    } else {
        sluice_tpl_builder_string(&b, s);
    }
    return sluice_tpl_string_end(ev, &b, out);
}

static bool
filter_truncate(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"length", "killwords", "end", "leeway", NULL};
    Value v[4];
    Value end;
    Value head;
    const String *s = NULL;
    int64_t length;
    int64_t leeway;
    int64_t n_end;
    const char *blank = NULL;

    if (!sluice_tpl_bind(ev, call, names, 0, v) || !text_argument(ev, call, &call->subject, &s) ||
        !int_argument(ev, call, &v[0], 255, &length))
        return false;
    if (v[3].type == SLUICE_TPL_NONE)
        v[3].type = SLUICE_TPL_ABSENT;
    if (!int_argument(ev, call, &v[3], 5, &leeway) || !sluice_tpl_string_static(ev, "...", &end))
        return false;
    if (is_given(&v[2]) && !text_argument(ev, call, &v[2], &end.string))
        return false;
    n_end = (int64_t) sluice_tpl_string_n_chars(end.string);
    if (length < n_end || leeway < 0)
        return sluice_tpl_fail(ev,
                               "truncate: the length must be %" G_GINT64_FORMAT
                               " or more, and the leeway 0 or more",
                               n_end);
    if ((int64_t) sluice_tpl_string_n_chars(s) <= length + MIN(leeway, INT64_MAX - length)) {
        *out = SLUICE_TPL_STRING_VALUE(s);
        return true;
    }
    if (!sluice_tpl_string_slice(ev, s, 0, sluice_tpl_string_offset(s, (gsize) (length - n_end)),
                                 &head))
        return false;
    if (!is_given(&v[1]) || !sluice_tpl_is_true(&v[1]))
        blank = memrchr(head.string->data, ' ', head.string->n);
    if (blank &&
        !sluice_tpl_string_slice(ev, head.string, 0, (gsize) (blank - head.string->data), &head))
        return false;
    return sluice_tpl_string_concat(ev, head.string, end.string, out);
}

static bool
filter_wordcount(Eval *ev, const Call *call, Value *out)
{
    const String *s;
    int64_t n = 0;
    bool is_inside = false;

    if (!no_arguments(ev, call) || !sluice_tpl_str(ev, &call->subject, &s))
        return false;
    for (gsize i = 0; i < s->n; i += (gsize) g_utf8_skip[(guchar) s->data[i]]) {
        gunichar c = g_utf8_get_char(s->data + i);
        bool is_word = g_unichar_isalnum(c) || c == '_' || g_unichar_ismark(c);
        n += is_word && !is_inside;
        is_inside = is_word;
    }
    *out = SLUICE_TPL_INT_VALUE(n);
    return sluice_tpl_step(ev, s->n / 64);
}

static bool
filter_format(Eval *ev, const Call *call, Value *out)
{
    const String *s;
    Value args;

    if (call->n_args > 0 && call->n_keywords > 0)
        return sluice_tpl_fail(
            ev, "format: cannot handle positional and keyword arguments at the same time");
    if (!sluice_tpl_str(ev, &call->subject, &s))
        return false;
    if (call->n_keywords > 0) {
        if (!sluice_tpl_dict_new(ev, SLUICE_TPL_DICT, &args))
            return false;
        for (gsize i = 0; i < call->n_keywords; i++) {
            Value key = SLUICE_TPL_STRING_VALUE(call->keywords[i].name);
            if (!sluice_tpl_dict_set(ev, args.dict, &key, &call->keywords[i].value))
                return false;
        }
    } else {
        if (!sluice_tpl_list_new(ev, SLUICE_TPL_TUPLE, call->n_args, &args))
            return false;
        for (gsize i = 0; i < call->n_args; i++)
            if (!sluice_tpl_list_add(ev, &args, &call->args[i]))
                return false;
    }
    return sluice_tpl_format_percent(ev, s, &args, out);
}

/* ---- markup --------------------------------------------------------------------------------- */

static bool
filter_safe(Eval *ev, const Call *call, Value *out)
{
    const String *s;
    String *markup = sluice_tpl_alloc(ev, 1, sizeof *markup);

    if (!markup || !no_arguments(ev, call) || !sluice_tpl_str(ev, &call->subject, &s))
        return false;
    *markup = *s;
    markup->is_markup = true;
    *out = SLUICE_TPL_STRING_VALUE(markup);
    return true;
}

static bool
escape(Eval *ev, const Call *call, bool is_forced, Value *out)
{
    const String *s;
    String plain;

    if (!no_arguments(ev, call) || !sluice_tpl_str(ev, &call->subject, &s))
        return false;
    plain = *s;
    plain.is_markup = s->is_markup && !is_forced;
    if (!(s = sluice_tpl_string_escape(ev, plain.is_markup ? s : &plain)))
        return false;
    *out = SLUICE_TPL_STRING_VALUE(s);
    return true;
}

static bool
filter_escape(Eval *ev, const Call *call, Value *out)
{
    return escape(ev, call, false, out);
}

static bool
filter_forceescape(Eval *ev, const Call *call, Value *out)
{
    return escape(ev, call, true, out);
}

static bool
is_url_safe(guchar byte)
{
    return g_ascii_isalnum(byte) || (byte && strchr("_.-~/", byte));
}

static void
add_url_quoted(SluiceTplBuilder *b, const String *s, bool quotes_slash)
{
    for (gsize i = 0; i < s->n; i++) {
        guchar byte = (guchar) s->data[i];
        char text[4];

        if (is_url_safe(byte) && !(quotes_slash && byte == '/')) {
            sluice_tpl_builder_slice(b, s, i, 1);
            continue;
        }
        if (quotes_slash && byte == ' ')
            g_strlcpy(text, "+", sizeof text);
        else
            g_snprintf(text, sizeof text, "%%%02X", byte);
        sluice_tpl_builder_bytes(b, text, strlen(text), s->taint ? s->taint[i] : s->is_tainted);
    }
}

/* A text, or the pairs of a query. */
static bool
filter_urlencode(Eval *ev, const Call *call, Value *out)
{
    const Value *v = &call->subject;
    const String *s;
    SluiceTplBuilder b;
    Value view;
    const Value *pairs;
    gsize n;

    if (!no_arguments(ev, call))
        return false;
    sluice_tpl_builder_init(&b, &ev->arena);
    if (v->type == SLUICE_TPL_STRING ||
        (v->type != SLUICE_TPL_DICT && v->type != SLUICE_TPL_LIST && v->type != SLUICE_TPL_TUPLE &&
         v->type != SLUICE_TPL_VIEW)) {
        if (!sluice_tpl_str(ev, v, &s))
            return false;
        add_url_quoted(&b, s, false);
        return sluice_tpl_string_end(ev, &b, out);
    }
    if (v->type == SLUICE_TPL_DICT) {
        if (!sluice_tpl_dict_view(ev, v->dict, "dict_items", &view))
            return false;
        v = &view;
    }
    if (!sluice_tpl_items(ev, v, &pairs, &n))
        return false;
    for (gsize i = 0; i < n; i++) {
        const Value *pair;
        gsize n_pair;
        const String *value;

        if (!sluice_tpl_items(ev, &pairs[i], &pair, &n_pair))
            return false;
        if (n_pair != 2)
            return sluice_tpl_fail(ev, "urlencode: expected pairs, got %zu values", n_pair);
        if (!sluice_tpl_str(ev, &pair[0], &s) || !sluice_tpl_str(ev, &pair[1], &value))
            return false;
        if (i > 0)
            sluice_tpl_builder_literal(&b, "&");
        add_url_quoted(&b, s, true);
        sluice_tpl_builder_literal(&b, "=");
        add_url_quoted(&b, value, true);
    }
    return sluice_tpl_string_end(ev, &b, out);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool
float_to_int(Eval *ev, double x, const Value *otherwise, Value *out)
{
    if (isnan(x) || isinf(x)) {
        *out = *otherwise;
        return true;
    }
    x = trunc(x);
    if (x < -0x1p63 || x >= 0x1p63)
        return sluice_tpl_fail(ev, "int: the number does not fit 64 bits");
    *out = SLUICE_TPL_INT_VALUE((int64_t) x);
    return true;
}

static bool
filter_int(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"default", "base", NULL};
    const Value *v = &call->subject;
    Value args[2];
    int64_t base;
    int64_t parsed;
    bool is_too_big;
    double real;

    if (!sluice_tpl_bind(ev, call, names, 0, args) || !int_argument(ev, call, &args[1], 10, &base))
        return false;
    if (!is_given(&args[0]))
        args[0] = SLUICE_TPL_INT_VALUE(0);
    switch (v->type) {
    case SLUICE_TPL_UNDEFINED:
        return sluice_tpl_fail_undefined(ev, v);
    case SLUICE_TPL_BOOL:
    case SLUICE_TPL_INT:
        *out = SLUICE_TPL_INT_VALUE(v->type == SLUICE_TPL_BOOL ? v->boolean : v->integer);
        return true;
    case SLUICE_TPL_FLOAT:
        if (isinf(v->real))
            return sluice_tpl_fail(ev, "int: cannot convert float infinity to integer");
        return float_to_int(ev, v->real, &args[0], out);
    case SLUICE_TPL_STRING:
        if (base >= 0 && base != 1 && base <= 36 &&
            sluice_tpl_parse_int(v->string->data, v->string->n, (int) base, &parsed, &is_too_big)) {
            *out = SLUICE_TPL_INT_VALUE(parsed);
            return true;
        }
        if (sluice_tpl_parse_float(v->string->data, v->string->n, &real))
            return float_to_int(ev, real, &args[0], out);
        break;
    default:
        break;
    }
    *out = args[0];
    return true;
}

static bool
filter_float(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"default", NULL};
    const Value *v = &call->subject;
    Value otherwise;
    double real;

    if (!sluice_tpl_bind(ev, call, names, 0, &otherwise))
        return false;
    if (v->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, v);
    if (sluice_tpl_is_number(v))
        *out = SLUICE_TPL_FLOAT_VALUE(sluice_tpl_to_double(v));
    else if (v->type == SLUICE_TPL_STRING &&
             sluice_tpl_parse_float(v->string->data, v->string->n, &real))
        *out = SLUICE_TPL_FLOAT_VALUE(real);
    else
        *out = is_given(&otherwise) ? otherwise : SLUICE_TPL_FLOAT_VALUE(0.0);
    return true;
}

static bool
filter_abs(Eval *ev, const Call *call, Value *out)
{
    const Value *v = &call->subject;

    if (!no_arguments(ev, call))
        return false;
    if (v->type == SLUICE_TPL_FLOAT) {
        *out = SLUICE_TPL_FLOAT_VALUE(fabs(v->real));
        return true;
    }
    if (v->type == SLUICE_TPL_INT && v->integer < 0)
        return sluice_tpl_negate(ev, '-', v, out);
    return sluice_tpl_negate(ev, '+', v, out);
}

/* Halves go to the even neighbour of the exact binary value, as the printed digits do. */
static double
round_to(double x, int64_t precision)
{
    char format[16];
    char text[512];

    if (!isfinite(x) || precision > 300)
        return x;
    if (precision < 0) {
        double scale = pow(10, (double) -precision);
        return precision < -308 ? copysign(0.0, x) : nearbyint(x / scale) * scale;
    }
    g_snprintf(format, sizeof format, "%%.%df", (int) MIN(precision, 300));
    if (precision > 100)
        return x;
    return g_ascii_strtod(g_ascii_formatd(text, sizeof text, format, x), NULL);
}

static bool
filter_round(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"precision", "method", NULL};
    const Value *v = &call->subject;
    Value args[2];
    int64_t precision;
    double scale;
    double x;

    if (!sluice_tpl_bind(ev, call, names, 0, args) ||
        !int_argument(ev, call, &args[0], 0, &precision))
        return false;
    if (v->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, v);
    if (!sluice_tpl_is_number(v))
        return sluice_tpl_fail(ev, "round: '%s' object is not a number", sluice_tpl_type_name(v));
    x = sluice_tpl_to_double(v);
    if (!is_given(&args[1]) || sluice_tpl_is_string(&args[1], "common")) {
        /* An integer stays one. */
        if (v->type != SLUICE_TPL_FLOAT && precision >= 0)
            return sluice_tpl_negate(ev, '+', v, out);
        if (v->type != SLUICE_TPL_FLOAT)
            return float_to_int(ev, round_to(x, precision), v, out);
        *out = SLUICE_TPL_FLOAT_VALUE(round_to(x, precision));
        return true;
    }
    if (!sluice_tpl_is_string(&args[1], "ceil") && !sluice_tpl_is_string(&args[1], "floor"))
        return sluice_tpl_fail(ev, "round: the method must be common, ceil or floor");
    scale = pow(10, (double) precision);
    x = sluice_tpl_is_string(&args[1], "ceil") ? ceil(x * scale) : floor(x * scale);
    *out = SLUICE_TPL_FLOAT_VALUE(x / scale);
    return true;
}

static bool
filter_filesizeformat(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"binary", NULL};
    static const char letters[] = "kMGTPEZY";
    Value binary;
    Value subject = call->subject;
    Call as_float = {.what = call->what, .subject = subject};
    SluiceTplBuilder b;
    char number[64];
    char text[96];
    double base;
    double unit;
    int i = 0;

    if (!sluice_tpl_bind(ev, call, names, 0, &binary) || !filter_float(ev, &as_float, &subject))
        return false;
    base = is_given(&binary) && sluice_tpl_is_true(&binary) ? 1024 : 1000;
    sluice_tpl_builder_init(&b, &ev->arena);
    if (subject.real == 1) {
        g_strlcpy(text, "1 Byte", sizeof text);
    } else if (subject.real < base) {
        g_snprintf(text, sizeof text, "%.0f Bytes", trunc(subject.real));
    } else {
        for (unit = base * base; subject.real >= unit && i < 7; i++)
            unit *= base;
        g_ascii_formatd(number, sizeof number, "%.1f", base * subject.real / unit);
        g_snprintf(text, sizeof text, "%s %c%s", number,
                   base == 1024 ? g_ascii_toupper(letters[i]) : letters[i],
                   base == 1024 ? "iB" : "B");
    }
    sluice_tpl_builder_literal(&b, text);
    return sluice_tpl_string_end(ev, &b, out);
}

static bool
filter_default(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"default_value", "boolean", NULL};
    Value args[2];

    if (!sluice_tpl_bind(ev, call, names, 0, args))
        return false;
    if (call->subject.type == SLUICE_TPL_UNDEFINED ||
        (is_given(&args[1]) && sluice_tpl_is_true(&args[1]) &&
         !sluice_tpl_is_true(&call->subject))) {
        if (!is_given(&args[0]))
            return sluice_tpl_string_static(ev, "", out);
        *out = args[0];
        return true;
    }
    *out = call->subject;
    return true;
}

static bool
filter_pprint(Eval *ev, const Call *call, Value *out)
{
    SluiceTplBuilder b;

    if (!no_arguments(ev, call))
        return false;
    sluice_tpl_builder_init(&b, &ev->arena);
    return sluice_tpl_add_repr(ev, &b, &call->subject) && sluice_tpl_string_end(ev, &b, out);
}

static const SluiceTplFuncEntry filters[] = {
    {"abs", filter_abs},
    {"capitalize", filter_capitalize},
    {"center", filter_center},
    {"d", filter_default},
    {"default", filter_default},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"filesizeformat", filter_filesizeformat},
    {"float", filter_float},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"from_json", sluice_tpl_from_json_text},
    {"indent", filter_indent},
    {"int", filter_int},
    {"lower", filter_lower},
    {"pprint", filter_pprint},
    {"replace", filter_replace},
    {"round", filter_round},
    {"safe", filter_safe},
    {"string", filter_string},
    {"title", filter_title},
    {"tojson", sluice_tpl_to_json},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", filter_upper},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
};

const SluiceTplFuncEntry *
sluice_tpl_filter_find(const char *name)
{
    for (gsize i = 0; i < G_N_ELEMENTS(filters); i++)
        if (strcmp(filters[i].name, name) == 0)
            return &filters[i];
    return sluice_tpl_sequence_filter_find(name);
}
