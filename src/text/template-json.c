/* SPDX-License-Identifier: MIT */
/*
 * JSON into values and back. The tojson filter is that of transformers: json.dumps() without
 * escapes beyond ASCII, keys in their order, options for indent, separators and sorting.
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

typedef struct {
    SluiceTplBuilder b;
    bool is_ascii;
    bool is_sorted;
    const String *indent; /* of one level, or NULL: one line */
    const String *item_separator;
    const String *key_separator;
} Writer;

static bool write_value(Eval *ev, Writer *w, const Value *v, gsize level);

/* ---- out ------------------------------------------------------------------------------------ */

static void
write_string(Writer *w, const String *s)
{
    static const char escaped[] = "\"\\\n\r\t\f\b";
    static const char letters[] = "\"\\nrtfb";

    sluice_tpl_builder_literal(&w->b, "\"");
    for (gsize i = 0; i < s->n;) {
        gsize n = (gsize) g_utf8_skip[(guchar) s->data[i]];
        gunichar c = g_utf8_get_char(s->data + i);
        const char *at = c && c < 0x80 ? strchr(escaped, (int) c) : NULL;
        bool is_tainted = s->taint ? s->taint[i] : s->is_tainted;
        char text[16];

        if (at)
            g_snprintf(text, sizeof text, "\\%c", letters[at - escaped]);
        else if (c < 0x20 || (w->is_ascii && c >= 0x7f && c < 0x10000))
            g_snprintf(text, sizeof text, "\\u%04x", c);
        else if (w->is_ascii && c >= 0x10000)
            g_snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                       0xdc00 + ((c - 0x10000) & 0x3ff));
        else
            text[0] = '\0';
        if (text[0])
            sluice_tpl_builder_bytes(&w->b, text, strlen(text), is_tainted);
        else
            sluice_tpl_builder_slice(&w->b, s, i, n);
        i += n;
    }
    sluice_tpl_builder_literal(&w->b, "\"");
}

static void
write_float(Writer *w, double x)
{
    char text[SLUICE_TPL_MAX_NUMBER];

    sluice_tpl_float_repr(x, text);
    sluice_tpl_builder_literal(&w->b, isnan(x)   ? "NaN"
                                      : isinf(x) ? (x > 0 ? "Infinity" : "-Infinity")
                                                 : text);
}

static void
write_newline(Writer *w, gsize level)
{
    if (!w->indent)
        return;
    sluice_tpl_builder_literal(&w->b, "\n");
    for (gsize i = 0; i < level; i++)
        sluice_tpl_builder_string(&w->b, w->indent);
}

static bool
write_list(Eval *ev, Writer *w, const SluiceTplList *list, gsize level)
{
    sluice_tpl_builder_literal(&w->b, "[");
    for (gsize i = 0; i < list->n; i++) {
        if (i > 0)
            sluice_tpl_builder_string(&w->b, w->item_separator);
        write_newline(w, level + 1);
        if (!write_value(ev, w, &list->items[i], level + 1))
            return false;
    }
    if (list->n > 0)
        write_newline(w, level);
    sluice_tpl_builder_literal(&w->b, "]");
    return true;
}

/* Keys become texts, as JSON wants them. */
static bool
write_key(Eval *ev, Writer *w, const Value *key)
{
    switch (key->type) {
    case SLUICE_TPL_STRING:
        write_string(w, key->string);
        return true;
    case SLUICE_TPL_NONE:
    case SLUICE_TPL_BOOL:
    case SLUICE_TPL_INT:
    case SLUICE_TPL_FLOAT:
        sluice_tpl_builder_literal(&w->b, "\"");
        if (!write_value(ev, w, key, 0))
            return false;
        sluice_tpl_builder_literal(&w->b, "\"");
        return true;
    default:
        return sluice_tpl_fail(ev, "keys must be str, int, float, bool or None, not %s",
                               sluice_tpl_type_name(key));
    }
}

static bool
write_dict(Eval *ev, Writer *w, const SluiceTplDict *dict, gsize level)
{
    Value order;

    if (!sluice_tpl_dict_view(ev, dict, "dict_keys", &order))
        return false;
    if (w->is_sorted) {
        Value case_sensitive[2] = {SLUICE_TPL_BOOL_VALUE(false), SLUICE_TPL_BOOL_VALUE(true)};
        Call call = {.what = "sort", .subject = order, .args = case_sensitive, .n_args = 2};
        if (!sluice_tpl_filter_find("sort")->func(ev, &call, &order))
            return false;
    }
    sluice_tpl_builder_literal(&w->b, "{");
    for (gsize i = 0; i < order.list->n; i++) {
        const Value *key = &order.list->items[i];
        if (i > 0)
            sluice_tpl_builder_string(&w->b, w->item_separator);
        write_newline(w, level + 1);
        if (!write_key(ev, w, key))
            return false;
        sluice_tpl_builder_string(&w->b, w->key_separator);
        if (!write_value(ev, w, sluice_tpl_dict_get(dict, key), level + 1))
            return false;
    }
    if (dict->n > 0)
        write_newline(w, level);
    sluice_tpl_builder_literal(&w->b, "}");
    return true;
}

static bool
write_value(Eval *ev, Writer *w, const Value *v, gsize level)
{
    char text[SLUICE_TPL_MAX_NUMBER];
    bool has_passed = true;

    if (!sluice_tpl_step(ev, 1))
        return false;
    switch (v->type) {
    case SLUICE_TPL_NONE:
        sluice_tpl_builder_literal(&w->b, "null");
        return true;
    case SLUICE_TPL_BOOL:
        sluice_tpl_builder_literal(&w->b, v->boolean ? "true" : "false");
        return true;
    case SLUICE_TPL_INT:
        g_snprintf(text, sizeof text, "%" PRId64, v->integer);
        sluice_tpl_builder_literal(&w->b, text);
        return true;
    case SLUICE_TPL_FLOAT:
        write_float(w, v->real);
        return true;
    case SLUICE_TPL_STRING:
        write_string(w, v->string);
        return sluice_tpl_step(ev, v->string->n / 64);
    case SLUICE_TPL_LIST:
    case SLUICE_TPL_TUPLE:
    case SLUICE_TPL_DICT:
        if (w->b.has_failed)
            return sluice_tpl_fail_memory(ev);
        if (!sluice_tpl_enter(ev))
            return false;
        has_passed = v->type == SLUICE_TPL_DICT ? write_dict(ev, w, v->dict, level)
                                                : write_list(ev, w, v->list, level);
        sluice_tpl_leave(ev);
        return has_passed;
    default:
        return sluice_tpl_fail(ev, "tojson: object of type %s is not JSON serializable",
                               sluice_tpl_type_name(v));
    }
}

/* A number of blanks, or the text itself; None means one line. */
static bool
read_indent(Eval *ev, const Value *v, const String **indent)
{
    SluiceTplBuilder b;
    Value text;
    int64_t n;

    *indent = NULL;
    if (v->type == SLUICE_TPL_ABSENT || v->type == SLUICE_TPL_NONE)
        return true;
    if (v->type == SLUICE_TPL_STRING) {
        *indent = v->string;
        return true;
    }
    if (!sluice_tpl_to_int(ev, v, "tojson", &n))
        return false;
    if (n > 1000)
        return sluice_tpl_fail(ev, "tojson: the indent is %" PRId64 ", the limit 1000", n);
    sluice_tpl_builder_init(&b, &ev->arena);
    sluice_tpl_builder_fill(&b, " ", (gsize) MAX(n, 0));
    if (!sluice_tpl_string_end(ev, &b, &text))
        return false;
    *indent = text.string;
    return true;
}

static bool
read_separators(Eval *ev, const Value *v, Writer *w)
{
    const Value *items;
    gsize n;

    if (v->type == SLUICE_TPL_ABSENT || v->type == SLUICE_TPL_NONE)
        return true;
    if (!sluice_tpl_items(ev, v, &items, &n))
        return false;
    if (n != 2 || items[0].type != SLUICE_TPL_STRING || items[1].type != SLUICE_TPL_STRING)
        return sluice_tpl_fail(ev, "tojson: the separators must be two texts");
    w->item_separator = items[0].string;
    w->key_separator = items[1].string;
    return true;
}

bool
sluice_tpl_to_json(SluiceTplEval *ev, const SluiceTplCall *call, SluiceTplValue *out)
{
    static const char *const names[] = {"ensure_ascii", "indent", "separators", "sort_keys", NULL};
    static const String comma = {.data = ",", .n = 1};
    static const String comma_blank = {.data = ", ", .n = 2};
    static const String colon_blank = {.data = ": ", .n = 2};
    Value args[4];
    Writer w = {.key_separator = &colon_blank};

    if (!sluice_tpl_bind(ev, call, names, 0, args) || !read_indent(ev, &args[1], &w.indent))
        return false;
    w.item_separator = w.indent ? &comma : &comma_blank;
    if (!read_separators(ev, &args[2], &w))
        return false;
    w.is_ascii = args[0].type != SLUICE_TPL_ABSENT && sluice_tpl_is_true(&args[0]);
    w.is_sorted = args[3].type != SLUICE_TPL_ABSENT && sluice_tpl_is_true(&args[3]);
    sluice_tpl_builder_init(&w.b, &ev->arena);
    return write_value(ev, &w, &call->subject, 0) && sluice_tpl_string_end(ev, &w.b, out);
}

/* ---- in ------------------------------------------------------------------------------------- */

/* Texts go on living in @json. */
static bool
read_text(Eval *ev, const char *data, gsize n, bool is_tainted, Value *out)
{
    return sluice_tpl_string_new(ev, data, n, is_tainted, out);
}

static bool
read_dict(Eval *ev, const json_t *json, bool is_tainted, Value *out)
{
    json_t *object = (json_t *) json; /* jansson iterates over mutable objects only */

    if (!sluice_tpl_dict_new(ev, SLUICE_TPL_DICT, out))
        return false;
    for (void *iter = json_object_iter(object); iter; iter = json_object_iter_next(object, iter)) {
        Value key;
        Value value;
        if (!read_text(ev, json_object_iter_key(iter), json_object_iter_key_len(iter), is_tainted,
                       &key) ||
            !sluice_tpl_from_json(ev, json_object_iter_value(iter), is_tainted, &value) ||
            !sluice_tpl_dict_set(ev, out->dict, &key, &value))
            return false;
    }
    return true;
}

static bool
read_list(Eval *ev, const json_t *json, bool is_tainted, Value *out)
{
    gsize n = json_array_size(json);

    if (!sluice_tpl_list_new(ev, SLUICE_TPL_LIST, n, out))
        return false;
    for (gsize i = 0; i < n; i++) {
        Value item;
        if (!sluice_tpl_from_json(ev, json_array_get(json, i), is_tainted, &item) ||
            !sluice_tpl_list_add(ev, out, &item))
            return false;
    }
    return true;
}

bool
sluice_tpl_from_json(SluiceTplEval *ev, const json_t *json, bool is_tainted, SluiceTplValue *out)
{
    bool has_passed;

    switch (json_typeof(json)) {
    case JSON_NULL:
        *out = SLUICE_TPL_NONE_VALUE;
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = SLUICE_TPL_BOOL_VALUE(json_is_true(json));
        return true;
    case JSON_INTEGER:
        *out = SLUICE_TPL_INT_VALUE(json_integer_value(json));
        return true;
    case JSON_REAL:
        *out = SLUICE_TPL_FLOAT_VALUE(json_real_value(json));
        return true;
    case JSON_STRING:
        return read_text(ev, json_string_value(json), json_string_length(json), is_tainted, out);
    case JSON_ARRAY:
    case JSON_OBJECT:
        if (!sluice_tpl_enter(ev))
            return false;
        has_passed = json_is_array(json) ? read_list(ev, json, is_tainted, out)
                                         : read_dict(ev, json, is_tainted, out);
        sluice_tpl_leave(ev);
        return has_passed;
    }
    g_assert_not_reached();
}

/* A copy of @json's texts into the rendering's memory. */
static bool
own_texts(Eval *ev, Value *v)
{
    SluiceTplBuilder b;

    switch (v->type) {
    case SLUICE_TPL_STRING:
        sluice_tpl_builder_init(&b, &ev->arena);
        sluice_tpl_builder_string(&b, v->string);
        return sluice_tpl_string_end(ev, &b, v);
    case SLUICE_TPL_LIST:
        for (gsize i = 0; i < v->list->n; i++)
            if (!own_texts(ev, &v->list->items[i]))
                return false;
        return true;
    case SLUICE_TPL_DICT:
        for (gsize i = 0; i < v->dict->n; i++)
            if (!own_texts(ev, &v->dict->entries[i].key) ||
                !own_texts(ev, &v->dict->entries[i].value))
                return false;
        return true;
    default:
        return true;
    }
}

/* The from_json filter, which llama.cpp's templates use and jinja2 does not have. */
bool
sluice_tpl_from_json_text(SluiceTplEval *ev, const SluiceTplCall *call, SluiceTplValue *out)
{
    static const char *const names[] = {NULL};
    const String *s = call->subject.string;
    Value nothing[1];
    json_error_t why;
    json_t *json;
    bool is_tainted = false;
    bool has_passed;

    if (!sluice_tpl_bind(ev, call, names, 0, nothing))
        return false;
    if (call->subject.type != SLUICE_TPL_STRING)
        return sluice_tpl_fail(ev, "from_json: expected str, got %s",
                               sluice_tpl_type_name(&call->subject));
    if (s->n > ev->limits.n_memory_bytes / 16 || !sluice_tpl_step(ev, s->n / 16))
        return sluice_tpl_fail_memory(ev);
    json = json_loadb(s->data, s->n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (!json)
        return sluice_tpl_fail(ev, "from_json: the text is not JSON (at byte %d)", why.position);
    is_tainted = s->is_tainted;
    has_passed = sluice_tpl_from_json(ev, json, is_tainted, out) && own_texts(ev, out);
    json_decref(json);
    return has_passed;
}
