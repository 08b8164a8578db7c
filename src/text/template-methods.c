/* SPDX-License-Identifier: MIT */
/*
 * Python's methods of texts, dicts and sequences. Those that change a list or a dict exist only to
 * be refused by name, as the immutable sandbox of jinja2 does.
 */
#include "config.h"

#include "src/text/template-private.h"

#include <string.h>

typedef SluiceTplEval Eval;
typedef SluiceTplCall Call;
typedef SluiceTplValue Value;
typedef SluiceTplString String;

static bool
is_given(const Value *v)
{
    return v->type != SLUICE_TPL_ABSENT && v->type != SLUICE_TPL_NONE;
}

static bool
no_arguments(Eval *ev, const Call *call)
{
    static const char *const names[] = {NULL};
    Value nothing[1];

    return sluice_tpl_bind(ev, call, names, 0, nothing);
}

static bool
need_text(Eval *ev, const Call *call, const Value *v, const String **out)
{
    if (v->type != SLUICE_TPL_STRING)
        return sluice_tpl_fail(ev, "%s: expected str, got %s", call->what, sluice_tpl_type_name(v));
    *out = v->string;
    return true;
}

/* ---- shared with the filters ---------------------------------------------------------------- */

static bool
in_set(const String *set, gunichar c)
{
    if (!set)
        return sluice_tpl_is_space(c);
    for (gsize i = 0; i < set->n; i += (gsize) g_utf8_skip[(guchar) set->data[i]])
        if (g_utf8_get_char(set->data + i) == c)
            return true;
    return false;
}

/* Without the characters of @chars, or white space if that is NULL, at one end or both. */
bool
sluice_tpl_strip(SluiceTplEval *ev, const SluiceTplString *s, const SluiceTplString *chars,
                 bool at_begin, bool at_end, SluiceTplValue *out)
{
    const char *begin = s->data;
    const char *end = s->data + s->n;
    gsize n_steps = 0;

    for (; at_begin && begin < end && in_set(chars, g_utf8_get_char(begin)); n_steps++)
        begin = g_utf8_next_char(begin);
    for (; at_end && begin < end; n_steps++) {
        const char *last = g_utf8_prev_char(end);
        if (!in_set(chars, g_utf8_get_char(last)))
            break;
        end = last;
    }
    return sluice_tpl_step(ev, chars ? n_steps * (chars->n + 1) / 64 : n_steps / 64) &&
           sluice_tpl_string_slice(ev, s, (gsize) (begin - s->data), (gsize) (end - begin), out);
}

/* At most @n_max times, or all if that is negative. */
bool
sluice_tpl_replace(SluiceTplEval *ev, const SluiceTplString *s, const SluiceTplString *old,
                   const SluiceTplString *new_text, int64_t n_max, SluiceTplValue *out)
{
    SluiceTplBuilder b;
    gsize at = 0;

    sluice_tpl_builder_init(&b, &ev->arena);
    b.is_markup = s->is_markup;
    if (s->n < old->n) {
        *out = SLUICE_TPL_STRING_VALUE(s);
        return true;
    }
    for (; n_max != 0; n_max -= n_max > 0) {
        gssize found = sluice_tpl_string_find(s, at, old);
        gsize n_char;

        if (found < 0 || b.has_failed)
            break;
        sluice_tpl_builder_slice(&b, s, at, (gsize) found - at);
        sluice_tpl_builder_string(&b, new_text);
        at = (gsize) found + old->n;
        if (old->n > 0)
            continue;
        /* Nothing is found before every character and at the end. */
        if (at == s->n)
            break;
        n_char = (gsize) g_utf8_skip[(guchar) s->data[at]];
        sluice_tpl_builder_slice(&b, s, at, n_char);
        at += n_char;
    }
    sluice_tpl_builder_slice(&b, s, at, s->n - at);
    return sluice_tpl_string_end(ev, &b, out);
}

/* Letters whose case is more than one letter come through GLib's mapping of texts. */
static void
add_mapped(SluiceTplBuilder *b, const String *s, gsize i, bool to_upper)
{
    gsize n = (gsize) g_utf8_skip[(guchar) s->data[i]];
    bool is_tainted = s->taint ? s->taint[i] : s->is_tainted;
    guchar byte = (guchar) s->data[i];
    g_autofree char *mapped = NULL;

    if (byte < 0x80) {
        char c = to_upper ? g_ascii_toupper((char) byte) : g_ascii_tolower((char) byte);
        sluice_tpl_builder_bytes(b, &c, 1, is_tainted);
        return;
    }
    mapped =
        to_upper ? g_utf8_strup(s->data + i, (gssize) n) : g_utf8_strdown(s->data + i, (gssize) n);
    sluice_tpl_builder_bytes(b, mapped, strlen(mapped), is_tainted);
}

/* @how: u upper, l lower, c capitalize, t title, s swapcase. */
bool
sluice_tpl_map_case(SluiceTplEval *ev, const SluiceTplString *s, char how, SluiceTplValue *out)
{
    SluiceTplBuilder b;
    bool is_inside = false;

    sluice_tpl_builder_init(&b, &ev->arena);
    b.is_markup = s->is_markup;
    for (gsize i = 0; i < s->n; i += (gsize) g_utf8_skip[(guchar) s->data[i]]) {
        gunichar c = g_utf8_get_char(s->data + i);
        bool to_upper = how == 'u' || (how == 'c' && i == 0) || (how == 't' && !is_inside) ||
                        (how == 's' && g_unichar_islower(c));

        add_mapped(&b, s, i, to_upper);
        is_inside = g_unichar_isupper(c) || g_unichar_islower(c) || g_unichar_istitle(c);
    }
    return sluice_tpl_step(ev, s->n / 32) && sluice_tpl_string_end(ev, &b, out);
}

/* Line ends are those of str.splitlines(). */
static gsize
match_line_end(const String *s, gsize i)
{
    gunichar c = g_utf8_get_char(s->data + i);

    if (c == '\r')
        return i + 1 < s->n && s->data[i + 1] == '\n' ? 2 : 1;
    if ((c >= '\n' && c <= '\f') || (c >= 0x1c && c <= 0x1e))
        return 1;
    return c == 0x85 ? 2 : c == 0x2028 || c == 0x2029 ? 3 : 0;
}

bool
sluice_tpl_split_lines(SluiceTplEval *ev, const SluiceTplString *s, bool keeps_ends,
                       SluiceTplValue *out)
{
    gsize begin = 0;
    gsize i = 0;
    Value line;

    if (!sluice_tpl_list_new(ev, SLUICE_TPL_LIST, 0, out) || !sluice_tpl_step(ev, s->n / 64))
        return false;
    while (i < s->n) {
        gsize n_end = match_line_end(s, i);
        if (n_end == 0) {
            i += (gsize) g_utf8_skip[(guchar) s->data[i]];
            continue;
        }
        if (!sluice_tpl_string_slice(ev, s, begin, i - begin + (keeps_ends ? n_end : 0), &line) ||
            !sluice_tpl_list_add(ev, out, &line))
            return false;
        begin = i += n_end;
    }
    if (begin == s->n)
        return true;
    return sluice_tpl_string_slice(ev, s, begin, s->n - begin, &line) &&
           sluice_tpl_list_add(ev, out, &line);
}

/* ---- texts ---------------------------------------------------------------------------------- */

static bool
strip(Eval *ev, const Call *call, bool at_begin, bool at_end, Value *out)
{
    static const char *const names[] = {"chars", NULL};
    const String *set = NULL;
    Value chars;

    if (!sluice_tpl_bind(ev, call, names, 0, &chars) ||
        (is_given(&chars) && !need_text(ev, call, &chars, &set)))
        return false;
    return sluice_tpl_strip(ev, call->subject.string, set, at_begin, at_end, out);
}

static bool
method_strip(Eval *ev, const Call *call, Value *out)
{
    return strip(ev, call, true, true, out);
}

static bool
method_lstrip(Eval *ev, const Call *call, Value *out)
{
    return strip(ev, call, true, false, out);
}

static bool
method_rstrip(Eval *ev, const Call *call, Value *out)
{
    return strip(ev, call, false, true, out);
}

static bool
add_part(Eval *ev, const String *s, gsize begin, gsize end, Value *list)
{
    Value part;

    return sluice_tpl_string_slice(ev, s, begin, end - begin, &part) &&
           sluice_tpl_list_add(ev, list, &part);
}

/* Runs of white space separate; none at the ends. */
static bool
split_space(Eval *ev, const String *s, int64_t n_max, Value *list)
{
    gsize i = 0;

    for (;;) {
        gsize begin;
        while (i < s->n && sluice_tpl_is_space(g_utf8_get_char(s->data + i)))
            i += (gsize) g_utf8_skip[(guchar) s->data[i]];
        if (i >= s->n)
            return true;
        begin = i;
        if (n_max >= 0 && list->list->n >= (gsize) n_max) {
            return add_part(ev, s, begin, s->n, list);
        }
        while (i < s->n && !sluice_tpl_is_space(g_utf8_get_char(s->data + i)))
            i += (gsize) g_utf8_skip[(guchar) s->data[i]];
        if (!add_part(ev, s, begin, i, list))
            return false;
    }
}

static bool
split_separator(Eval *ev, const String *s, const String *separator, int64_t n_max, Value *list)
{
    gsize begin = 0;

    for (;;) {
        gssize found = n_max >= 0 && list->list->n >= (gsize) n_max
                           ? -1
                           : sluice_tpl_string_find(s, begin, separator);
        if (found < 0)
            return add_part(ev, s, begin, s->n, list);
        if (!add_part(ev, s, begin, (gsize) found, list))
            return false;
        begin = (gsize) found + separator->n;
    }
}

/* The last place where @needle begins before @end, or -1. */
static gssize
find_last(const String *s, gsize end, const String *needle)
{
    if (needle->n > end)
        return -1;
    for (gsize i = end - needle->n + 1; i-- > 0;)
        if (memcmp(s->data + i, needle->data, needle->n) == 0)
            return (gssize) i;
    return -1;
}

/* From the right: the parts are found last first. */
static bool
rsplit(Eval *ev, const String *s, const String *separator, int64_t n_max, Value *list)
{
    gsize end = s->n;
    gsize n;

    for (;;) {
        bool is_done = n_max >= 0 && list->list->n >= (gsize) n_max;

        if (separator) {
            gssize found = is_done ? -1 : find_last(s, end, separator);
            if (!add_part(ev, s, found < 0 ? 0 : (gsize) found + separator->n, end, list))
                return false;
            if (found < 0)
                break;
            end = (gsize) found;
        } else {
            Value head;
            Value stripped;
            gsize begin;

            if (!sluice_tpl_string_slice(ev, s, 0, end, &head) ||
                !sluice_tpl_strip(ev, head.string, NULL, false, true, &stripped))
                return false;
            begin = end = stripped.string->n;
            if (end == 0)
                break;
            while (!is_done && begin > 0) {
                const char *last = g_utf8_prev_char(s->data + begin);
                if (sluice_tpl_is_space(g_utf8_get_char(last)))
                    break;
                begin = (gsize) (last - s->data);
            }
            if (is_done)
                begin = 0;
            if (!add_part(ev, s, begin, end, list))
                return false;
            end = begin;
            if (is_done)
                break;
        }
    }
    n = list->list->n;
    for (gsize i = 0; i < n / 2; i++) {
        Value other = list->list->items[i];
        list->list->items[i] = list->list->items[n - 1 - i];
        list->list->items[n - 1 - i] = other;
    }
    return true;
}

static bool
split(Eval *ev, const Call *call, bool from_right, Value *out)
{
    static const char *const names[] = {"sep", "maxsplit", NULL};
    const String *s = call->subject.string;
    const String *separator = NULL;
    Value args[2];
    int64_t n_max = -1;

    if (!sluice_tpl_bind(ev, call, names, 0, args) ||
        (is_given(&args[0]) && !need_text(ev, call, &args[0], &separator)) ||
        (args[1].type != SLUICE_TPL_ABSENT && !sluice_tpl_to_int(ev, &args[1], call->what, &n_max)))
        return false;
    if (separator && separator->n == 0)
        return sluice_tpl_fail(ev, "%s: empty separator", call->what);
    if (!sluice_tpl_list_new(ev, SLUICE_TPL_LIST, 4, out) || !sluice_tpl_step(ev, s->n / 64))
        return false;
    if (from_right)
        return rsplit(ev, s, separator, n_max, out);
    return separator ? split_separator(ev, s, separator, n_max, out)
                     : split_space(ev, s, n_max, out);
}

static bool
method_split(Eval *ev, const Call *call, Value *out)
{
    return split(ev, call, false, out);
}

static bool
method_rsplit(Eval *ev, const Call *call, Value *out)
{
    return split(ev, call, true, out);
}

static bool
method_splitlines(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"keepends", NULL};
    Value keeps;

    return sluice_tpl_bind(ev, call, names, 0, &keeps) &&
           sluice_tpl_split_lines(ev, call->subject.string,
                                  keeps.type != SLUICE_TPL_ABSENT && sluice_tpl_is_true(&keeps),
                                  out);
}

static bool
partition(Eval *ev, const Call *call, bool from_right, Value *out)
{
    static const char *const names[] = {"sep", NULL};
    const String *s = call->subject.string;
    const String *separator;
    Value sep;
    Value empty;
    gssize found;

    if (!sluice_tpl_bind(ev, call, names, 1, &sep) || !need_text(ev, call, &sep, &separator))
        return false;
    if (separator->n == 0)
        return sluice_tpl_fail(ev, "%s: empty separator", call->what);
    found = from_right ? find_last(s, s->n, separator) : sluice_tpl_string_find(s, 0, separator);
    if (!sluice_tpl_step(ev, s->n / 64) || !sluice_tpl_list_new(ev, SLUICE_TPL_TUPLE, 3, out) ||
        !sluice_tpl_string_static(ev, "", &empty))
        return false;
    if (found >= 0)
        return add_part(ev, s, 0, (gsize) found, out) && sluice_tpl_list_add(ev, out, &sep) &&
               add_part(ev, s, (gsize) found + separator->n, s->n, out);
    return sluice_tpl_list_add(ev, out, from_right ? &empty : &call->subject) &&
           sluice_tpl_list_add(ev, out, &empty) &&
           sluice_tpl_list_add(ev, out, from_right ? &call->subject : &empty);
}

static bool
method_partition(Eval *ev, const Call *call, Value *out)
{
    return partition(ev, call, false, out);
}

static bool
method_rpartition(Eval *ev, const Call *call, Value *out)
{
    return partition(ev, call, true, out);
}

/* The bytes between the optional character indices @args[0] and @args[1], as slices take them. */
static bool
resolve_span(Eval *ev, const Call *call, const Value *args, gsize *begin, gsize *end,
             bool *is_beyond)
{
    const String *s = call->subject.string;
    int64_t n = (int64_t) sluice_tpl_string_n_chars(s);
    int64_t bounds[2] = {0, n};

    for (int i = 0; i < 2; i++) {
        if (is_given(&args[i]) && !sluice_tpl_to_int(ev, &args[i], call->what, &bounds[i]))
            return false;
        if (bounds[i] < 0)
            bounds[i] = MAX(bounds[i] + n, 0);
    }
    *is_beyond = bounds[0] > n || bounds[0] > bounds[1];
    *begin = sluice_tpl_string_offset(s, (gsize) MIN(bounds[0], n));
    *end = sluice_tpl_string_offset(s, (gsize) MIN(bounds[1], n));
    return sluice_tpl_step(ev, s->n / 64);
}

static bool
has_affix(const String *s, gsize begin, gsize end, const String *affix, bool at_end)
{
    if (affix->n > end - begin)
        return false;
    return memcmp(s->data + (at_end ? end - affix->n : begin), affix->data, affix->n) == 0;
}

/* startswith() and endswith(): one text, or any of a tuple. */
static bool
test_affix(Eval *ev, const Call *call, bool at_end, Value *out)
{
    static const char *const names[] = {"prefix", "start", "end", NULL};
    Value args[3];
    const Value *affixes = &args[0];
    gsize n = 1;
    gsize begin;
    gsize end;
    bool is_beyond;
    bool result = false;

    if (!sluice_tpl_bind(ev, call, names, 1, args) ||
        !resolve_span(ev, call, args + 1, &begin, &end, &is_beyond))
        return false;
    if (args[0].type == SLUICE_TPL_TUPLE) {
        affixes = args[0].list->items;
        n = args[0].list->n;
    }
    for (gsize i = 0; i < n; i++) {
        const String *affix;
        if (!need_text(ev, call, &affixes[i], &affix))
            return false;
        result =
            result || (!is_beyond && has_affix(call->subject.string, begin, end, affix, at_end));
    }
    *out = SLUICE_TPL_BOOL_VALUE(result);
    return true;
}

static bool
method_startswith(Eval *ev, const Call *call, Value *out)
{
    return test_affix(ev, call, false, out);
}

static bool
method_endswith(Eval *ev, const Call *call, Value *out)
{
    return test_affix(ev, call, true, out);
}

static bool
remove_affix(Eval *ev, const Call *call, bool at_end, Value *out)
{
    static const char *const names[] = {"prefix", NULL};
    const String *s = call->subject.string;
    const String *affix;
    Value arg;
    gsize n;

    if (!sluice_tpl_bind(ev, call, names, 1, &arg) || !need_text(ev, call, &arg, &affix))
        return false;
    n = has_affix(s, 0, s->n, affix, at_end) ? affix->n : 0;
    return sluice_tpl_string_slice(ev, s, at_end ? 0 : n, s->n - n, out);
}

static bool
method_removeprefix(Eval *ev, const Call *call, Value *out)
{
    return remove_affix(ev, call, false, out);
}

static bool
method_removesuffix(Eval *ev, const Call *call, Value *out)
{
    return remove_affix(ev, call, true, out);
}

/* The character index of a text inside another, or -1; @must_exist makes that an error. */
static bool
find(Eval *ev, const Call *call, bool from_right, bool must_exist, Value *out)
{
    static const char *const names[] = {"sub", "start", "end", NULL};
    const String *s = call->subject.string;
    const String *needle;
    Value args[3];
    gsize begin;
    gsize end;
    bool is_beyond;
    gssize found = -1;

    if (!sluice_tpl_bind(ev, call, names, 1, args) || !need_text(ev, call, &args[0], &needle) ||
        !resolve_span(ev, call, args + 1, &begin, &end, &is_beyond))
        return false;
    if (!is_beyond && from_right) {
        found = find_last(s, end, needle);
        if (found >= 0 && (gsize) found < begin)
            found = -1;
    } else if (!is_beyond) {
        const String span = {.data = s->data, .n = end};
        found = sluice_tpl_string_find(&span, begin, needle);
    }
    if (found < 0 && must_exist)
        return sluice_tpl_fail(ev, "substring not found");
    if (found >= 0) {
        const String before = {.data = s->data, .n = (gsize) found};
        found = (gssize) sluice_tpl_string_n_chars(&before);
    }
    *out = SLUICE_TPL_INT_VALUE(found);
    return sluice_tpl_step(ev, from_right ? s->n / 8 : s->n / 64);
}

static bool
method_find(Eval *ev, const Call *call, Value *out)
{
    return find(ev, call, false, false, out);
}

static bool
method_rfind(Eval *ev, const Call *call, Value *out)
{
    return find(ev, call, true, false, out);
}

static bool
method_index(Eval *ev, const Call *call, Value *out)
{
    return find(ev, call, false, true, out);
}

static bool
method_rindex(Eval *ev, const Call *call, Value *out)
{
    return find(ev, call, true, true, out);
}

static bool
method_count(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"sub", "start", "end", NULL};
    const String *s = call->subject.string;
    const String *needle;
    Value args[3];
    gsize begin;
    gsize end;
    bool is_beyond;
    int64_t n = 0;

    if (!sluice_tpl_bind(ev, call, names, 1, args) || !need_text(ev, call, &args[0], &needle) ||
        !resolve_span(ev, call, args + 1, &begin, &end, &is_beyond))
        return false;
    if (!is_beyond && needle->n == 0) {
        const String span = {.data = s->data + begin, .n = end - begin};
        n = (int64_t) sluice_tpl_string_n_chars(&span) + 1;
    } else if (!is_beyond) {
        const String span = {.data = s->data, .n = end};
        for (gssize at = (gssize) begin;
             (at = sluice_tpl_string_find(&span, (gsize) at, needle)) >= 0;
             at += (gssize) needle->n)
            n++;
    }
    *out = SLUICE_TPL_INT_VALUE(n);
    return true;
}

static bool
method_replace(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"old", "new", "count", NULL};
    const String *old;
    const String *new_text;
    Value args[3];
    int64_t count = -1;

    if (!sluice_tpl_bind(ev, call, names, 2, args) || !need_text(ev, call, &args[0], &old) ||
        !need_text(ev, call, &args[1], &new_text) ||
        (args[2].type != SLUICE_TPL_ABSENT && !sluice_tpl_to_int(ev, &args[2], call->what, &count)))
        return false;
    if (call->subject.string->is_markup && !(new_text = sluice_tpl_string_escape(ev, new_text)))
        return false;
    return sluice_tpl_replace(ev, call->subject.string, old, new_text, count, out);
}

static bool
method_join(Eval *ev, const Call *call, Value *out)
{
    static const char *const names[] = {"iterable", NULL};
    const String *separator = call->subject.string;
    const Value *items;
    Value arg;
    SluiceTplBuilder b;
    gsize n;

    if (!sluice_tpl_bind(ev, call, names, 1, &arg) || !sluice_tpl_items(ev, &arg, &items, &n))
        return false;
    sluice_tpl_builder_init(&b, &ev->arena);
    b.is_markup = separator->is_markup;
    for (gsize i = 0; i < n; i++) {
        const String *item;
        if (items[i].type != SLUICE_TPL_STRING)
            return sluice_tpl_fail(ev, "sequence item %zu: expected str instance, %s found", i,
                                   sluice_tpl_type_name(&items[i]));
        item = items[i].string;
        if (!sluice_tpl_step(ev, 1) ||
            (b.is_markup && !(item = sluice_tpl_string_escape(ev, item))))
            return false;
        if (i > 0)
            sluice_tpl_builder_string(&b, separator);
        sluice_tpl_builder_string(&b, item);
    }
    return sluice_tpl_string_end(ev, &b, out);
}

/* ljust, rjust, center and zfill. */
static bool
pad(Eval *ev, const Call *call, char how, Value *out)
{
    static const char *const names[] = {"width", "fillchar", NULL};
    const String *s = call->subject.string;
    const String *fill = &(const String){.data = how == 'z' ? "0" : " ", .n = 1};
    Value args[2];
    SluiceTplBuilder b;
    int64_t width;
    int64_t n = (int64_t) sluice_tpl_string_n_chars(s);
    int64_t n_pad;
    int64_t n_left;
    gsize n_sign = how == 'z' && s->n > 0 && (s->data[0] == '+' || s->data[0] == '-');

    if (!sluice_tpl_bind(ev, call, names, 1, args) ||
        !sluice_tpl_to_int(ev, &args[0], call->what, &width) ||
        (args[1].type != SLUICE_TPL_ABSENT && !need_text(ev, call, &args[1], &fill)))
        return false;
    if (sluice_tpl_string_n_chars(fill) != 1 || (how == 'z' && call->n_args > 1))
        return sluice_tpl_fail(ev, "%s: the fill character must be one character", call->what);
    n_pad = width > n ? width - n : 0;
    if ((uint64_t) n_pad > ev->limits.n_memory_bytes)
        return sluice_tpl_fail_memory(ev);
    n_left = how == 'l' ? 0 : how == 'c' ? n_pad / 2 + (n_pad & width & 1) : n_pad;
    sluice_tpl_builder_init(&b, &ev->arena);
    b.is_markup = s->is_markup;
    sluice_tpl_builder_slice(&b, s, 0, n_sign);
    for (int64_t i = 0; i < n_left; i++)
        sluice_tpl_builder_string(&b, fill);
    sluice_tpl_builder_slice(&b, s, n_sign, s->n - n_sign);
    for (int64_t i = n_left; i < n_pad; i++)
        sluice_tpl_builder_string(&b, fill);
    return sluice_tpl_string_end(ev, &b, out);
}

static bool
method_ljust(Eval *ev, const Call *call, Value *out)
{
    return pad(ev, call, 'l', out);
}

static bool
method_rjust(Eval *ev, const Call *call, Value *out)
{
    return pad(ev, call, 'r', out);
}

static bool
method_center(Eval *ev, const Call *call, Value *out)
{
    return pad(ev, call, 'c', out);
}

static bool
method_zfill(Eval *ev, const Call *call, Value *out)
{
    return pad(ev, call, 'z', out);
}

#define CASE_METHOD(name, how)                                                                     \
    static bool method_##name(Eval *ev, const Call *call, Value *out)                              \
    {                                                                                              \
        return no_arguments(ev, call) && sluice_tpl_map_case(ev, call->subject.string, how, out);  \
    }

CASE_METHOD(upper, 'u')
CASE_METHOD(lower, 'l')
CASE_METHOD(capitalize, 'c')
CASE_METHOD(title, 't')
CASE_METHOD(swapcase, 's')

static bool
method_casefold(Eval *ev, const Call *call, Value *out)
{
    const String *s = call->subject.string;
    SluiceTplBuilder b;

    if (!no_arguments(ev, call) || !sluice_tpl_step(ev, s->n / 32))
        return false;
    sluice_tpl_builder_init(&b, &ev->arena);
    for (gsize i = 0; i < s->n;) {
        gsize n = (gsize) g_utf8_skip[(guchar) s->data[i]];
        g_autofree char *folded = g_utf8_casefold(s->data + i, (gssize) n);
        sluice_tpl_builder_bytes(&b, folded, strlen(folded),
                                 s->taint ? s->taint[i] : s->is_tainted);
        i += n;
    }
    return sluice_tpl_string_end(ev, &b, out);
}

/* Whether all characters, and at least one, are of a class. */
static bool
all_of(Eval *ev, const Call *call, gboolean (*is_member)(gunichar c), Value *out)
{
    const String *s = call->subject.string;
    bool result = s->n > 0;

    for (gsize i = 0; i < s->n && result; i += (gsize) g_utf8_skip[(guchar) s->data[i]])
        result = is_member(g_utf8_get_char(s->data + i));
    *out = SLUICE_TPL_BOOL_VALUE(result);
    return no_arguments(ev, call) && sluice_tpl_step(ev, s->n / 64);
}

static gboolean
is_space(gunichar c)
{
    return sluice_tpl_is_space(c);
}

static gboolean
is_decimal(gunichar c)
{
    return g_unichar_type(c) == G_UNICODE_DECIMAL_NUMBER;
}

/* Superscripts are digits that are not decimal. */
static gboolean
is_digit(gunichar c)
{
    return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
           (c >= 0x2460 && c <= 0x2468);
}

static gboolean
is_numeric(gunichar c)
{
    return g_unichar_type(c) == G_UNICODE_DECIMAL_NUMBER ||
           g_unichar_type(c) == G_UNICODE_LETTER_NUMBER ||
           g_unichar_type(c) == G_UNICODE_OTHER_NUMBER;
}

static gboolean
is_alnum(gunichar c)
{
    return g_unichar_isalpha(c) || is_numeric(c);
}

#define CLASS_METHOD(name, is_member)                                                              \
    static bool method_##name(Eval *ev, const Call *call, Value *out)                              \
    {                                                                                              \
        return all_of(ev, call, is_member, out);                                                   \
    }

CLASS_METHOD(isspace, is_space)
CLASS_METHOD(isdigit, is_digit)
CLASS_METHOD(isdecimal, is_decimal)
CLASS_METHOD(isnumeric, is_numeric)
CLASS_METHOD(isalpha, g_unichar_isalpha)
CLASS_METHOD(isalnum, is_alnum)

static bool
method_islower(Eval *ev, const Call *call, Value *out)
{
    return sluice_tpl_test_find("lower")->func(ev, call, out);
}

static bool
method_isupper(Eval *ev, const Call *call, Value *out)
{
    return sluice_tpl_test_find("upper")->func(ev, call, out);
}

static const SluiceTplFuncEntry string_methods[] = {
    {"capitalize", method_capitalize},
    {"casefold", method_casefold},
    {"center", method_center},
    {"count", method_count},
    {"endswith", method_endswith},
    {"find", method_find},
    {"format", sluice_tpl_format_braces},
    {"index", method_index},
    {"isalnum", method_isalnum},
    {"isalpha", method_isalpha},
    {"isdecimal", method_isdecimal},
    {"isdigit", method_isdigit},
    {"islower", method_islower},
    {"isnumeric", method_isnumeric},
    {"isspace", method_isspace},
    {"isupper", method_isupper},
    {"join", method_join},
    {"ljust", method_ljust},
    {"lower", method_lower},
    {"lstrip", method_lstrip},
    {"partition", method_partition},
    {"removeprefix", method_removeprefix},
    {"removesuffix", method_removesuffix},
    {"replace", method_replace},
    {"rfind", method_rfind},
    {"rindex", method_rindex},
    {"rjust", method_rjust},
    {"rpartition", method_rpartition},
    {"rsplit", method_rsplit},
    {"rstrip", method_rstrip},
    {"split", method_split},
    {"splitlines", method_splitlines},
    {"startswith", method_startswith},
    {"strip", method_strip},
    {"swapcase", method_swapcase},
    {"title", method_title},
    {"upper", method_upper},
    {"zfill", method_zfill},
};

/* ---- dicts, sequences, loops ---------------------------------------------------------------- */

static bool
method_items(Eval *ev, const Call *call, Value *out)
{
    return no_arguments(ev, call) &&
           sluice_tpl_dict_view(ev, call->subject.dict, "dict_items", out);
}

static bool
method_keys(Eval *ev, const Call *call, Value *out)
{
    return no_arguments(ev, call) && sluice_tpl_dict_view(ev, call->subject.dict, "dict_keys", out);
}

static bool
method_values(Eval *ev, const Call *call, Value *out)
{
    return no_arguments(ev, call) &&
           sluice_tpl_dict_view(ev, call->subject.dict, "dict_values", out);
}

static bool
method_get(Eval *ev, const Call *call, Value *out)
{
    const Value *found;

    /* dict.get() takes no keywords. */
    if (call->n_keywords > 0 || call->n_args < 1 || call->n_args > 2)
        return sluice_tpl_fail(ev, "get expects 1 or 2 arguments, got %zu",
                               call->n_args + call->n_keywords);
    if (!sluice_tpl_is_hashable(&call->args[0]))
        return sluice_tpl_fail(ev, "unhashable type: '%s'", sluice_tpl_type_name(&call->args[0]));
    found = sluice_tpl_dict_get(call->subject.dict, &call->args[0]);
    *out = found ? *found : call->n_args == 2 ? call->args[1] : SLUICE_TPL_NONE_VALUE;
    return true;
}

static bool
method_copy(Eval *ev, const Call *call, Value *out)
{
    const Value *v = &call->subject;

    /* Nothing changes a value, so that it is its own copy. */
    *out = *v;
    return no_arguments(ev, call);
}

/* Stands in the tables for what the sandbox hides; never called. */
static bool
method_refused(Eval *ev, const Call *call, Value *out)
{
    return sluice_tpl_fail(ev, "access to attribute '%s' of '%s' object is unsafe", call->what,
                           sluice_tpl_type_name(&call->subject));
}

bool
sluice_tpl_method_is_refused(const SluiceTplFuncEntry *entry)
{
    return entry->func == method_refused;
}

/* The index or the number of items equal to the argument. */
static bool
search_list(Eval *ev, const Call *call, bool counts, Value *out)
{
    static const char *const names[] = {"value", NULL};
    const Value *items;
    Value wanted;
    gsize n;
    int64_t result = 0;

    if (!sluice_tpl_bind(ev, call, names, 1, &wanted) ||
        !sluice_tpl_items(ev, &call->subject, &items, &n))
        return false;
    for (gsize i = 0; i < n; i++) {
        bool is_equal;
        if (!sluice_tpl_step(ev, 1) || !sluice_tpl_equal(ev, &items[i], &wanted, &is_equal))
            return false;
        if (is_equal && !counts) {
            *out = SLUICE_TPL_INT_VALUE((int64_t) i);
            return true;
        }
        result += is_equal;
    }
    if (!counts)
        return sluice_tpl_fail(ev, "the value is not in the %s",
                               sluice_tpl_type_name(&call->subject));
    *out = SLUICE_TPL_INT_VALUE(result);
    return true;
}

static bool
method_list_index(Eval *ev, const Call *call, Value *out)
{
    return search_list(ev, call, false, out);
}

static bool
method_list_count(Eval *ev, const Call *call, Value *out)
{
    return search_list(ev, call, true, out);
}

static bool
method_cycle(Eval *ev, const Call *call, Value *out)
{
    if (call->n_args == 0)
        return sluice_tpl_fail(ev, "no items for cycling given");
    *out = call->args[call->subject.loop->idx % call->n_args];
    return true;
}

static bool
method_changed(Eval *ev, const Call *call, Value *out)
{
    SluiceTplLoop *loop = call->subject.loop;
    Value args;
    bool is_equal = false;

    if (!sluice_tpl_list_new(ev, SLUICE_TPL_TUPLE, call->n_args, &args))
        return false;
    for (gsize i = 0; i < call->n_args; i++)
        if (!sluice_tpl_list_add(ev, &args, &call->args[i]))
            return false;
    if (loop->last_changed.type != SLUICE_TPL_ABSENT &&
        !sluice_tpl_equal(ev, &loop->last_changed, &args, &is_equal))
        return false;
    loop->last_changed = args;
    *out = SLUICE_TPL_BOOL_VALUE(!is_equal);
    return true;
}

static bool
method_next(Eval *ev, const Call *call, Value *out)
{
    SluiceTplList *list = call->subject.list;

    *out = list->items[list->position];
    list->position = (list->position + 1) % list->n;
    return no_arguments(ev, call);
}

static bool
method_reset(Eval *ev, const Call *call, Value *out)
{
    call->subject.list->position = 0;
    *out = SLUICE_TPL_NONE_VALUE;
    return no_arguments(ev, call);
}

static const SluiceTplFuncEntry dict_methods[] = {
    {"clear", method_refused},   {"copy", method_copy},          {"get", method_get},
    {"items", method_items},     {"keys", method_keys},          {"pop", method_refused},
    {"popitem", method_refused}, {"setdefault", method_refused}, {"update", method_refused},
    {"values", method_values},
};

static const SluiceTplFuncEntry list_methods[] = {
    {"append", method_refused},   {"clear", method_refused},  {"copy", method_copy},
    {"count", method_list_count}, {"extend", method_refused}, {"index", method_list_index},
    {"insert", method_refused},   {"pop", method_refused},    {"remove", method_refused},
    {"reverse", method_refused},  {"sort", method_refused},
};

static const SluiceTplFuncEntry tuple_methods[] = {
    {"count", method_list_count},
    {"index", method_list_index},
};

static const SluiceTplFuncEntry loop_methods[] = {
    {"changed", method_changed},
    {"cycle", method_cycle},
};

static const SluiceTplFuncEntry cycler_methods[] = {
    {"next", method_next},
    {"reset", method_reset},
};

static const SluiceTplFuncEntry *
find_in(const SluiceTplFuncEntry *entries, gsize n, const char *name)
{
    for (gsize i = 0; i < n; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}

const SluiceTplFuncEntry *
sluice_tpl_string_method_find(const char *name)
{
    return find_in(string_methods, G_N_ELEMENTS(string_methods), name);
}

const SluiceTplFuncEntry *
sluice_tpl_box_method_find(const SluiceTplValue *v, const char *name)
{
    switch (v->type) {
    case SLUICE_TPL_DICT:
        return find_in(dict_methods, G_N_ELEMENTS(dict_methods), name);
    case SLUICE_TPL_LIST:
        return find_in(list_methods, G_N_ELEMENTS(list_methods), name);
    case SLUICE_TPL_TUPLE:
    case SLUICE_TPL_RANGE:
        return find_in(tuple_methods, G_N_ELEMENTS(tuple_methods), name);
    case SLUICE_TPL_LOOP:
        return find_in(loop_methods, G_N_ELEMENTS(loop_methods), name);
    case SLUICE_TPL_CYCLER:
        return find_in(cycler_methods, G_N_ELEMENTS(cycler_methods), name);
    default:
        return NULL;
    }
}
