/* SPDX-License-Identifier: MIT */
/*
 * Texts as Python has them, counted in code points, and the printed forms of all values. Whatever
 * is made from a text keeps for each byte whether it is trusted.
 */
#include "config.h"

#include "src/text/template-private.h"

#include <inttypes.h>
#include <string.h>

bool
sluice_tpl_string_new(SluiceTplEval *ev, const char *data, gsize n, bool is_tainted,
                      SluiceTplValue *out)
{
    SluiceTplString *s = sluice_tpl_alloc(ev, 1, sizeof *s);

    if (!s)
        return false;
    *s = (SluiceTplString){.data = data, .n = n, .is_tainted = is_tainted && n > 0};
    *out = SLUICE_TPL_STRING_VALUE(s);
    return true;
}

/* @text outlives the rendering. */
bool
sluice_tpl_string_static(SluiceTplEval *ev, const char *text, SluiceTplValue *out)
{
    return sluice_tpl_string_new(ev, text, strlen(text), false, out);
}

bool
sluice_tpl_string_slice(SluiceTplEval *ev, const SluiceTplString *s, gsize begin, gsize n,
                        SluiceTplValue *out)
{
    SluiceTplString *slice;

    g_assert(begin <= s->n && n <= s->n - begin);
    if (n == s->n) {
        *out = SLUICE_TPL_STRING_VALUE(s);
        return true;
    }
    if (!(slice = sluice_tpl_alloc(ev, 1, sizeof *slice)))
        return false;
    *slice = *s;
    slice->data += begin;
    slice->n = n;
    if (s->taint)
        slice->taint += begin;
    *out = SLUICE_TPL_STRING_VALUE(slice);
    return true;
}

bool
sluice_tpl_string_end(SluiceTplEval *ev, SluiceTplBuilder *b, SluiceTplValue *out)
{
    const SluiceTplString *s = sluice_tpl_builder_end(b);

    if (!s)
        return sluice_tpl_fail_memory(ev);
    *out = SLUICE_TPL_STRING_VALUE(s);
    return sluice_tpl_step(ev, s->n / 256);
}

/* a + b: if one of them is markup, the other is escaped. */
bool
sluice_tpl_string_concat(SluiceTplEval *ev, const SluiceTplString *a, const SluiceTplString *b,
                         SluiceTplValue *out)
{
    SluiceTplBuilder builder;
    bool is_markup = a->is_markup || b->is_markup;

    if (is_markup &&
        (!(a = sluice_tpl_string_escape(ev, a)) || !(b = sluice_tpl_string_escape(ev, b))))
        return false;
    sluice_tpl_builder_init_from(&builder, &ev->arena, a);
    sluice_tpl_builder_string(&builder, b);
    builder.is_markup = is_markup;
    return sluice_tpl_string_end(ev, &builder, out);
}

/* Markup stays as it is; the result is markup. */
const SluiceTplString *
sluice_tpl_string_escape(SluiceTplEval *ev, const SluiceTplString *s)
{
    static const struct {
        char byte;
        const char *entity;
    } entities[] = {
        {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"},
    };
    SluiceTplBuilder b;
    SluiceTplValue out = {0};

    if (s->is_markup)
        return s;
    sluice_tpl_builder_init(&b, &ev->arena);
    b.is_markup = true;
    for (gsize i = 0; i < s->n; i++) {
        gsize k = 0;
        while (k < G_N_ELEMENTS(entities) && entities[k].byte != s->data[i])
            k++;
        if (k == G_N_ELEMENTS(entities))
            sluice_tpl_builder_slice(&b, s, i, 1);
        else
            sluice_tpl_builder_bytes(&b, entities[k].entity, strlen(entities[k].entity),
                                     s->taint ? s->taint[i] : s->is_tainted);
    }
    return sluice_tpl_string_end(ev, &b, &out) ? out.string : NULL;
}

gsize
sluice_tpl_string_n_chars(const SluiceTplString *s)
{
    gsize n = 0;

    for (gsize i = 0; i < s->n; i++)
        n += ((uint8_t) s->data[i] & 0xc0) != 0x80;
    return n;
}

gsize
sluice_tpl_string_offset(const SluiceTplString *s, gsize idx)
{
    gsize offset = 0;

    while (idx > 0 && offset < s->n) {
        offset += (gsize) g_utf8_skip[(uint8_t) s->data[offset]];
        idx--;
    }
    return MIN(offset, s->n);
}

gssize
sluice_tpl_string_find(const SluiceTplString *s, gsize from, const SluiceTplString *needle)
{
    const char *found;

    if (from > s->n || needle->n > s->n - from)
        return -1;
    if (needle->n == 0)
        return (gssize) from;
    found = memmem(s->data + from, s->n - from, needle->data, needle->n);
    return found ? found - s->data : -1;
}

/* What str.isspace() and the \s of regular expressions accept. */
bool
sluice_tpl_is_space(gunichar c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Python writes as an escape what it does not call printable. */
static bool
is_printable(gunichar c)
{
    switch (g_unichar_type(c)) {
    case G_UNICODE_CONTROL:
    case G_UNICODE_FORMAT:
    case G_UNICODE_SURROGATE:
    case G_UNICODE_PRIVATE_USE:
    case G_UNICODE_UNASSIGNED:
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
        return false;
    case G_UNICODE_SPACE_SEPARATOR:
        return c == ' ';
    default:
        return true;
    }
}

static void
add_escaped_char(SluiceTplBuilder *b, gunichar c, char quote, bool is_tainted)
{
    char text[16];

    if (c == '\n' || c == '\r' || c == '\t')
        g_snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (c == '\\' || c == (gunichar) quote)
        g_snprintf(text, sizeof text, "\\%c", (char) c);
    else if (is_printable(c)) {
        sluice_tpl_builder_unichar(b, c, is_tainted);
        return;
    } else if (c < 0x100)
        g_snprintf(text, sizeof text, "\\x%02x", c);
    else if (c < 0x10000)
        g_snprintf(text, sizeof text, "\\u%04x", c);
    else
        g_snprintf(text, sizeof text, "\\U%08x", c);
    sluice_tpl_builder_bytes(b, text, strlen(text), is_tainted);
}

static void
add_quoted(SluiceTplBuilder *b, const SluiceTplString *s)
{
    bool has_single = memchr(s->data, '\'', s->n) != NULL;
    bool has_double = memchr(s->data, '"', s->n) != NULL;
    char quote = has_single && !has_double ? '"' : '\'';
    gsize i = 0;

    sluice_tpl_builder_bytes(b, &quote, 1, false);
    while (i < s->n) {
        gsize n = (gsize) g_utf8_skip[(uint8_t) s->data[i]];
        add_escaped_char(b, g_utf8_get_char(s->data + i), quote,
                         s->taint ? s->taint[i] : s->is_tainted);
        i += n;
    }
    sluice_tpl_builder_bytes(b, &quote, 1, false);
}

static bool
add_list(SluiceTplEval *ev, SluiceTplBuilder *b, const SluiceTplValue *v)
{
    const SluiceTplList *list = v->list;
    bool is_tuple = v->type == SLUICE_TPL_TUPLE;

    sluice_tpl_builder_literal(b, is_tuple ? "(" : "[");
    for (gsize i = 0; i < list->n; i++) {
        if (i > 0)
            sluice_tpl_builder_literal(b, ", ");
        if (!sluice_tpl_add_repr(ev, b, &list->items[i]))
            return false;
    }
    if (is_tuple && list->n == 1)
        sluice_tpl_builder_literal(b, ",");
    sluice_tpl_builder_literal(b, is_tuple ? ")" : "]");
    return true;
}

static bool
add_dict(SluiceTplEval *ev, SluiceTplBuilder *b, const SluiceTplDict *dict)
{
    sluice_tpl_builder_literal(b, "{");
    for (gsize i = 0; i < dict->n; i++) {
        if (i > 0)
            sluice_tpl_builder_literal(b, ", ");
        if (!sluice_tpl_add_repr(ev, b, &dict->entries[i].key))
            return false;
        sluice_tpl_builder_literal(b, ": ");
        if (!sluice_tpl_add_repr(ev, b, &dict->entries[i].value))
            return false;
    }
    sluice_tpl_builder_literal(b, "}");
    return true;
}

static void
add_range(SluiceTplBuilder *b, const SluiceTplRange *range)
{
    char text[96];

    if (range->step == 1)
        g_snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ")", range->start, range->stop);
    else
        g_snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", range->start,
                   range->stop, range->step);
    sluice_tpl_builder_literal(b, text);
}

static bool
add_container(SluiceTplEval *ev, SluiceTplBuilder *b, const SluiceTplValue *v)
{
    bool has_passed;

    if (!sluice_tpl_enter(ev))
        return false;
    switch (v->type) {
    case SLUICE_TPL_NAMESPACE:
        sluice_tpl_builder_literal(b, "<Namespace ");
        has_passed = add_dict(ev, b, v->dict);
        sluice_tpl_builder_literal(b, ">");
        break;
    case SLUICE_TPL_DICT:
        has_passed = add_dict(ev, b, v->dict);
        break;
    case SLUICE_TPL_VIEW:
        sluice_tpl_builder_literal(b, v->list->kind);
        sluice_tpl_builder_literal(b, "(");
        has_passed = add_list(ev, b, v);
        sluice_tpl_builder_literal(b, ")");
        break;
    default:
        has_passed = add_list(ev, b, v);
        break;
    }
    sluice_tpl_leave(ev);
    if (b->has_failed)
        return sluice_tpl_fail_memory(ev);
    return has_passed;
}

bool
sluice_tpl_add_repr(SluiceTplEval *ev, SluiceTplBuilder *b, const SluiceTplValue *v)
{
    if (!sluice_tpl_step(ev, 1))
        return false;
    if (v->type == SLUICE_TPL_STRING && v->string->is_markup) {
        sluice_tpl_builder_literal(b, "Markup(");
        add_quoted(b, v->string);
        sluice_tpl_builder_literal(b, ")");
    } else if (v->type == SLUICE_TPL_STRING) {
        add_quoted(b, v->string);
        return sluice_tpl_step(ev, v->string->n / 64);
    } else if (v->type == SLUICE_TPL_UNDEFINED) {
        sluice_tpl_builder_literal(b, "Undefined");
    } else {
        return sluice_tpl_add_str(ev, b, v);
    }
    return true;
}

bool
sluice_tpl_add_str(SluiceTplEval *ev, SluiceTplBuilder *b, const SluiceTplValue *v)
{
    char text[SLUICE_TPL_MAX_NUMBER];

    switch (v->type) {
    case SLUICE_TPL_ABSENT:
    case SLUICE_TPL_UNDEFINED:
        break;
    case SLUICE_TPL_NONE:
        sluice_tpl_builder_literal(b, "None");
        break;
    case SLUICE_TPL_BOOL:
        sluice_tpl_builder_literal(b, v->boolean ? "True" : "False");
        break;
    case SLUICE_TPL_INT:
        g_snprintf(text, sizeof text, "%" PRId64, v->integer);
        sluice_tpl_builder_literal(b, text);
        break;
    case SLUICE_TPL_FLOAT:
        sluice_tpl_float_repr(v->real, text);
        sluice_tpl_builder_literal(b, text);
        break;
    case SLUICE_TPL_STRING:
        sluice_tpl_builder_string(b, v->string);
        break;
    case SLUICE_TPL_LIST:
    case SLUICE_TPL_TUPLE:
    case SLUICE_TPL_DICT:
    case SLUICE_TPL_VIEW:
    case SLUICE_TPL_NAMESPACE:
        return add_container(ev, b, v);
    case SLUICE_TPL_RANGE:
        add_range(b, v->range);
        break;
    default:
        /* Python prints an address here, so that nobody can depend on it. */
        sluice_tpl_builder_literal(b, "<");
        sluice_tpl_builder_literal(b, sluice_tpl_type_name(v));
        sluice_tpl_builder_literal(b, " object>");
        break;
    }
    return true;
}

bool
sluice_tpl_str(SluiceTplEval *ev, const SluiceTplValue *v, const SluiceTplString **out)
{
    SluiceTplBuilder b;
    SluiceTplValue text = {0};

    if (v->type == SLUICE_TPL_STRING) {
        *out = v->string;
        return true;
    }
    sluice_tpl_builder_init(&b, &ev->arena);
    if (!sluice_tpl_add_str(ev, &b, v) || !sluice_tpl_string_end(ev, &b, &text))
        return false;
    *out = text.string;
    return true;
}
