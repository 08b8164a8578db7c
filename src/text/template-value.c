/* SPDX-License-Identifier: MIT */
/*
 * Values as Python has them: truth, equality, order, membership, iteration, and the two
 * containers, lists and dicts in order of insertion.
 */
#include "config.h"

#include "src/text/template-private.h"

#include <math.h>
#include <string.h>

/* Below this a walk over the entries is faster than hashing. */
enum { MAX_UNINDEXED = 8 };

/* The name of Python's type, for messages. */
const char *
sluice_tpl_type_name(const SluiceTplValue *v)
{
    switch (v->type) {
    case SLUICE_TPL_ABSENT:
    case SLUICE_TPL_UNDEFINED:
        return "Undefined";
    case SLUICE_TPL_NONE:
        return "NoneType";
    case SLUICE_TPL_BOOL:
        return "bool";
    case SLUICE_TPL_INT:
        return "int";
    case SLUICE_TPL_FLOAT:
        return "float";
    case SLUICE_TPL_STRING:
        return "str";
    case SLUICE_TPL_LIST:
        return "list";
    case SLUICE_TPL_TUPLE:
        return "tuple";
    case SLUICE_TPL_DICT:
        return "dict";
    case SLUICE_TPL_VIEW:
    case SLUICE_TPL_ITERATOR:
        return v->list->kind;
    case SLUICE_TPL_RANGE:
        return "range";
    case SLUICE_TPL_NAMESPACE:
        return "namespace";
    case SLUICE_TPL_LOOP:
        return "loop";
    case SLUICE_TPL_MACRO:
        return "macro";
    case SLUICE_TPL_FUNCTION:
        return "function";
    case SLUICE_TPL_METHOD:
        return "method";
    case SLUICE_TPL_CYCLER:
        return "cycler";
    case SLUICE_TPL_JOINER:
        return "joiner";
    }
    g_assert_not_reached();
}

bool
sluice_tpl_is_true(const SluiceTplValue *v)
{
    switch (v->type) {
    case SLUICE_TPL_ABSENT:
    case SLUICE_TPL_UNDEFINED:
    case SLUICE_TPL_NONE:
        return false;
    case SLUICE_TPL_BOOL:
        return v->boolean;
    case SLUICE_TPL_INT:
        return v->integer != 0;
    case SLUICE_TPL_FLOAT:
        return v->real != 0;
    case SLUICE_TPL_STRING:
        return v->string->n > 0;
    case SLUICE_TPL_LIST:
    case SLUICE_TPL_TUPLE:
    case SLUICE_TPL_VIEW:
        return v->list->n > 0;
    case SLUICE_TPL_DICT:
        return v->dict->n > 0;
    case SLUICE_TPL_RANGE:
        return v->range->n > 0;
    case SLUICE_TPL_LOOP:
        return v->loop->n > 0;
    default:
        return true;
    }
}

bool
sluice_tpl_is_number(const SluiceTplValue *v)
{
    return v->type == SLUICE_TPL_BOOL || v->type == SLUICE_TPL_INT || v->type == SLUICE_TPL_FLOAT;
}

bool
sluice_tpl_is_string(const SluiceTplValue *v, const char *text)
{
    return v->type == SLUICE_TPL_STRING && v->string->n == strlen(text) &&
           memcmp(v->string->data, text, v->string->n) == 0;
}

static int64_t
integer_of(const SluiceTplValue *v)
{
    return v->type == SLUICE_TPL_BOOL ? v->boolean : v->integer;
}

/* Exact, as Python's: an integer is not rounded to the float it is compared with. 2: unordered. */
static int
order_numbers(const SluiceTplValue *a, const SluiceTplValue *b)
{
    bool is_swapped = false;
    int order;
    double real;
    int64_t integer;

    if (a->type == SLUICE_TPL_FLOAT && b->type == SLUICE_TPL_FLOAT)
        return a->real < b->real ? -1 : a->real > b->real ? 1 : a->real == b->real ? 0 : 2;
    if (a->type != SLUICE_TPL_FLOAT && b->type != SLUICE_TPL_FLOAT) {
        int64_t x = integer_of(a);
        int64_t y = integer_of(b);
        return (x > y) - (x < y);
    }
    if (a->type != SLUICE_TPL_FLOAT) {
        const SluiceTplValue *other = a;
        a = b;
        b = other;
        is_swapped = true;
    }
    real = a->real;
    integer = integer_of(b);
    if (isnan(real))
        return 2;
    if (real >= 0x1p63)
        order = 1;
    else if (real < -0x1p63)
        order = -1;
    else {
        int64_t whole = (int64_t) real;
        double rest = real - (double) whole;
        order = (whole > integer) - (whole < integer);
        if (order == 0)
            order = (rest > 0) - (rest < 0);
    }
    return is_swapped ? -order : order;
}

static int
order_strings(const SluiceTplString *a, const SluiceTplString *b)
{
    /* The order of UTF-8's bytes is that of code points. */
    int order = memcmp(a->data, b->data, MIN(a->n, b->n));

    if (order == 0)
        return (a->n > b->n) - (a->n < b->n);
    return order < 0 ? -1 : 1;
}

static bool
is_sequence_pair(const SluiceTplValue *a, const SluiceTplValue *b)
{
    return a->type == b->type && (a->type == SLUICE_TPL_LIST || a->type == SLUICE_TPL_TUPLE);
}

static bool
lists_equal(SluiceTplEval *ev, const SluiceTplList *a, const SluiceTplList *b, bool *is_equal)
{
    *is_equal = a->n == b->n;
    for (gsize i = 0; i < a->n && *is_equal; i++)
        if (!sluice_tpl_equal(ev, &a->items[i], &b->items[i], is_equal))
            return false;
    return true;
}

static bool
dicts_equal(SluiceTplEval *ev, const SluiceTplDict *a, const SluiceTplDict *b, bool *is_equal)
{
    *is_equal = a->n == b->n;
    for (gsize i = 0; i < a->n && *is_equal; i++) {
        const SluiceTplValue *other = sluice_tpl_dict_get(b, &a->entries[i].key);
        if (!other)
            *is_equal = false;
        else if (!sluice_tpl_equal(ev, &a->entries[i].value, other, is_equal))
            return false;
    }
    return true;
}

bool
sluice_tpl_equal(SluiceTplEval *ev, const SluiceTplValue *a, const SluiceTplValue *b,
                 bool *is_equal)
{
    bool has_passed = true;

    if (sluice_tpl_is_number(a) && sluice_tpl_is_number(b)) {
        *is_equal = order_numbers(a, b) == 0;
        return true;
    }
    *is_equal = false;
    if (a->type != b->type)
        return true;
    switch (a->type) {
    case SLUICE_TPL_UNDEFINED:
    case SLUICE_TPL_NONE:
        *is_equal = true;
        return true;
    case SLUICE_TPL_STRING:
        *is_equal = a->string->n == b->string->n &&
                    memcmp(a->string->data, b->string->data, a->string->n) == 0;
        return sluice_tpl_step(ev, a->string->n / 256);
    case SLUICE_TPL_RANGE:
        *is_equal = a->range->n == b->range->n &&
                    (a->range->n == 0 || (a->range->start == b->range->start &&
                                          (a->range->n == 1 || a->range->step == b->range->step)));
        return true;
    case SLUICE_TPL_FUNCTION:
        *is_equal = a->function == b->function;
        return true;
    case SLUICE_TPL_LIST:
    case SLUICE_TPL_TUPLE:
    case SLUICE_TPL_DICT:
        if (!sluice_tpl_enter(ev))
            return false;
        has_passed = a->type == SLUICE_TPL_DICT ? dicts_equal(ev, a->dict, b->dict, is_equal)
                                                : lists_equal(ev, a->list, b->list, is_equal);
        sluice_tpl_leave(ev);
        return has_passed;
    default:
        *is_equal = a->list == b->list; /* the same object */
        return true;
    }
}

bool
sluice_tpl_order(SluiceTplEval *ev, const SluiceTplValue *a, const SluiceTplValue *b,
                 const char *op, int *order)
{
    if (sluice_tpl_is_number(a) && sluice_tpl_is_number(b)) {
        *order = order_numbers(a, b);
        return true;
    }
    if (a->type == SLUICE_TPL_STRING && b->type == SLUICE_TPL_STRING) {
        *order = order_strings(a->string, b->string);
        return sluice_tpl_step(ev, MIN(a->string->n, b->string->n) / 256);
    }
    if (is_sequence_pair(a, b)) {
        gsize n = MIN(a->list->n, b->list->n);
        bool has_passed = true;

        if (!sluice_tpl_enter(ev))
            return false;
        *order = (a->list->n > b->list->n) - (a->list->n < b->list->n);
        for (gsize i = 0; i < n; i++) {
            bool is_equal;
            has_passed = sluice_tpl_equal(ev, &a->list->items[i], &b->list->items[i], &is_equal);
            if (has_passed && is_equal)
                continue;
            has_passed = has_passed &&
                         sluice_tpl_order(ev, &a->list->items[i], &b->list->items[i], op, order);
            break;
        }
        sluice_tpl_leave(ev);
        return has_passed;
    }
    if (a->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, a);
    if (b->type == SLUICE_TPL_UNDEFINED)
        return sluice_tpl_fail_undefined(ev, b);
    return sluice_tpl_fail(ev, "'%s' not supported between instances of '%s' and '%s'", op,
                           sluice_tpl_type_name(a), sluice_tpl_type_name(b));
}

static bool
range_contains(const SluiceTplRange *range, const SluiceTplValue *item)
{
    int64_t x;

    if (!sluice_tpl_is_number(item) || range->n == 0)
        return false;
    if (item->type == SLUICE_TPL_FLOAT) {
        if (item->real != floor(item->real) || fabs(item->real) >= 0x1p63)
            return false;
        x = (int64_t) item->real;
    } else {
        x = integer_of(item);
    }
    for (int64_t i = 0; i < range->n; i++)
        if (range->start + i * range->step == x)
            return true;
    return false;
}

bool
sluice_tpl_contains(SluiceTplEval *ev, const SluiceTplValue *box, const SluiceTplValue *item,
                    bool *is_in)
{
    const SluiceTplValue *items;
    gsize n;

    *is_in = false;
    switch (box->type) {
    case SLUICE_TPL_STRING:
        if (item->type != SLUICE_TPL_STRING)
            return sluice_tpl_fail(ev, "'in <string>' requires string as left operand, not %s",
                                   sluice_tpl_type_name(item));
        *is_in = sluice_tpl_string_find(box->string, 0, item->string) >= 0;
        return sluice_tpl_step(ev, box->string->n / 64);
    case SLUICE_TPL_DICT:
        if (!sluice_tpl_is_hashable(item))
            return sluice_tpl_fail(ev, "unhashable type: '%s'", sluice_tpl_type_name(item));
        *is_in = sluice_tpl_dict_get(box->dict, item) != NULL;
        return true;
    case SLUICE_TPL_RANGE:
        *is_in = range_contains(box->range, item);
        return sluice_tpl_step(ev, (gsize) box->range->n / 8);
    case SLUICE_TPL_UNDEFINED:
        return true; /* it iterates as an empty sequence */
    case SLUICE_TPL_LIST:
    case SLUICE_TPL_TUPLE:
    case SLUICE_TPL_VIEW:
    case SLUICE_TPL_ITERATOR:
        if (!sluice_tpl_items(ev, box, &items, &n))
            return false;
        for (gsize i = 0; i < n && !*is_in; i++)
            if (!sluice_tpl_step(ev, 1) || !sluice_tpl_equal(ev, &items[i], item, is_in))
                return false;
        return true;
    default:
        return sluice_tpl_fail(ev, "argument of type '%s' is not iterable",
                               sluice_tpl_type_name(box));
    }
}

bool
sluice_tpl_length(SluiceTplEval *ev, const SluiceTplValue *v, gsize *n)
{
    switch (v->type) {
    case SLUICE_TPL_UNDEFINED:
        *n = 0;
        return true;
    case SLUICE_TPL_STRING:
        *n = sluice_tpl_string_n_chars(v->string);
        return sluice_tpl_step(ev, v->string->n / 64);
    case SLUICE_TPL_LIST:
    case SLUICE_TPL_TUPLE:
    case SLUICE_TPL_VIEW:
        *n = v->list->n;
        return true;
    case SLUICE_TPL_DICT:
        *n = v->dict->n;
        return true;
    case SLUICE_TPL_RANGE:
        *n = (gsize) v->range->n;
        return true;
    case SLUICE_TPL_LOOP:
        *n = v->loop->n;
        return true;
    default:
        return sluice_tpl_fail(ev, "object of type '%s' has no len()", sluice_tpl_type_name(v));
    }
}

static bool
characters_of(SluiceTplEval *ev, const SluiceTplString *s, const SluiceTplValue **items, gsize *n)
{
    gsize n_chars = sluice_tpl_string_n_chars(s);
    SluiceTplValue *list = sluice_tpl_alloc(ev, n_chars, sizeof *list);
    const char *p = s->data;

    if (!list || !sluice_tpl_step(ev, n_chars / 8))
        return false;
    for (gsize i = 0; i < n_chars; i++) {
        const char *next = g_utf8_next_char(p);
        if (!sluice_tpl_string_slice(ev, s, (gsize) (p - s->data), (gsize) (next - p), &list[i]))
            return false;
        p = next;
    }
    *items = list;
    *n = n_chars;
    return true;
}

bool
sluice_tpl_items(SluiceTplEval *ev, const SluiceTplValue *v, const SluiceTplValue **items, gsize *n)
{
    SluiceTplValue *list;

    *items = NULL;
    *n = 0;
    switch (v->type) {
    case SLUICE_TPL_UNDEFINED:
        return true;
    case SLUICE_TPL_LIST:
    case SLUICE_TPL_TUPLE:
    case SLUICE_TPL_VIEW:
        *items = v->list->items;
        *n = v->list->n;
        return true;
    case SLUICE_TPL_ITERATOR:
        *items = v->list->items + v->list->position;
        *n = v->list->n - v->list->position;
        v->list->position = v->list->n;
        return true;
    case SLUICE_TPL_STRING:
        return characters_of(ev, v->string, items, n);
    case SLUICE_TPL_DICT:
        if (!(list = sluice_tpl_alloc(ev, v->dict->n, sizeof *list)))
            return false;
        for (gsize i = 0; i < v->dict->n; i++)
            list[i] = v->dict->entries[i].key;
        *items = list;
        *n = v->dict->n;
        return sluice_tpl_step(ev, *n / 8);
    case SLUICE_TPL_RANGE:
        if (!(list = sluice_tpl_alloc(ev, (gsize) v->range->n, sizeof *list)))
            return false;
        for (int64_t i = 0; i < v->range->n; i++)
            list[i] = SLUICE_TPL_INT_VALUE(v->range->start + i * v->range->step);
        *items = list;
        *n = (gsize) v->range->n;
        return sluice_tpl_step(ev, *n / 8);
    default:
        return sluice_tpl_fail(ev, "'%s' object is not iterable", sluice_tpl_type_name(v));
    }
}

bool
sluice_tpl_list_new(SluiceTplEval *ev, SluiceTplType type, gsize n_cap, SluiceTplValue *out)
{
    SluiceTplList *list = sluice_tpl_alloc(ev, 1, sizeof *list);

    if (!list || (n_cap > 0 && !(list->items = sluice_tpl_alloc(ev, n_cap, sizeof *list->items))))
        return false;
    list->n_cap = n_cap;
    *out = (SluiceTplValue){.type = type, .list = list};
    return true;
}

bool
sluice_tpl_list_add(SluiceTplEval *ev, SluiceTplValue *value, const SluiceTplValue *item)
{
    SluiceTplList *list = value->list;

    if (list->n == list->n_cap) {
        gsize n_cap = MAX(4, list->n_cap * 2);
        SluiceTplValue *items = sluice_tpl_alloc(ev, n_cap, sizeof *items);
        if (!items)
            return false;
        if (list->n > 0)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->n_cap = n_cap;
    }
    list->items[list->n++] = *item;
    return true;
}

bool
sluice_tpl_dict_new(SluiceTplEval *ev, SluiceTplType type, SluiceTplValue *out)
{
    SluiceTplDict *dict = sluice_tpl_alloc(ev, 1, sizeof *dict);

    if (!dict)
        return false;
    *out = (SluiceTplValue){.type = type, .dict = dict};
    return true;
}

bool
sluice_tpl_is_hashable(const SluiceTplValue *v)
{
    switch (v->type) {
    case SLUICE_TPL_LIST:
    case SLUICE_TPL_DICT:
        return false;
    case SLUICE_TPL_TUPLE:
        /* A tuple of tuples stops at this depth: it is not worth a key. */
        for (gsize i = 0; i < v->list->n; i++)
            if (v->list->items[i].type == SLUICE_TPL_TUPLE ||
                !sluice_tpl_is_hashable(&v->list->items[i]))
                return false;
        return true;
    default:
        return true;
    }
}

/* Equal keys hash alike, 1 and 1.0 and true among them. */
static uint32_t
hash_key(const SluiceTplValue *key)
{
    uint64_t x = 0;

    switch (key->type) {
    case SLUICE_TPL_STRING:
        x = 0xcbf29ce484222325u;
        for (gsize i = 0; i < key->string->n; i++)
            x = (x ^ (uint8_t) key->string->data[i]) * 0x100000001b3u;
        break;
    case SLUICE_TPL_BOOL:
    case SLUICE_TPL_INT:
        x = (uint64_t) integer_of(key);
        break;
    case SLUICE_TPL_FLOAT:
        if (fabs(key->real) < 0x1p62 && key->real == floor(key->real))
            x = (uint64_t) (int64_t) key->real;
        break;
    case SLUICE_TPL_TUPLE:
        for (gsize i = 0; i < key->list->n; i++)
            x = x * 31 + hash_key(&key->list->items[i]);
        break;
    default:
        break;
    }
    x *= 0x9e3779b97f4a7c15u;
    return (uint32_t) (x >> 32);
}

/* Keys are flat, so that this needs no evaluation that could fail. */
static bool
keys_equal(const SluiceTplValue *a, const SluiceTplValue *b)
{
    if (sluice_tpl_is_number(a) && sluice_tpl_is_number(b))
        return order_numbers(a, b) == 0;
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case SLUICE_TPL_STRING:
        return a->string->n == b->string->n &&
               memcmp(a->string->data, b->string->data, a->string->n) == 0;
    case SLUICE_TPL_UNDEFINED:
    case SLUICE_TPL_NONE:
        return true;
    case SLUICE_TPL_TUPLE:
        if (a->list->n != b->list->n)
            return false;
        for (gsize i = 0; i < a->list->n; i++)
            if (!keys_equal(&a->list->items[i], &b->list->items[i]))
                return false;
        return true;
    default:
        return a->list == b->list;
    }
}

static bool
index_dict(SluiceTplEval *ev, SluiceTplDict *dict)
{
    gsize n_index = 32;

    while (n_index < dict->n_cap * 2)
        n_index *= 2;
    if (n_index != dict->n_index) {
        if (!(dict->index = sluice_tpl_alloc(ev, n_index, sizeof *dict->index)))
            return false;
        dict->n_index = n_index;
    }
    for (gsize i = 0; i < dict->n; i++) {
        gsize slot = hash_key(&dict->entries[i].key) & (n_index - 1);
        while (dict->index[slot])
            slot = (slot + 1) & (n_index - 1);
        dict->index[slot] = (uint32_t) i + 1;
    }
    return true;
}

const SluiceTplValue *
sluice_tpl_dict_get(const SluiceTplDict *dict, const SluiceTplValue *key)
{
    if (!sluice_tpl_is_hashable(key))
        return NULL;
    if (!dict->index) {
        for (gsize i = 0; i < dict->n; i++)
            if (keys_equal(&dict->entries[i].key, key))
                return &dict->entries[i].value;
        return NULL;
    }
    for (gsize slot = hash_key(key) & (dict->n_index - 1); dict->index[slot];
         slot = (slot + 1) & (dict->n_index - 1)) {
        SluiceTplEntry *entry = &dict->entries[dict->index[slot] - 1];
        if (keys_equal(&entry->key, key))
            return &entry->value;
    }
    return NULL;
}

const SluiceTplValue *
sluice_tpl_dict_find(const SluiceTplDict *dict, const char *name, gsize n)
{
    SluiceTplString s = {.data = name, .n = n};
    SluiceTplValue key = SLUICE_TPL_STRING_VALUE(&s);

    return sluice_tpl_dict_get(dict, &key);
}

bool
sluice_tpl_dict_set(SluiceTplEval *ev, SluiceTplDict *dict, const SluiceTplValue *key,
                    const SluiceTplValue *value)
{
    SluiceTplValue *old;

    if (!sluice_tpl_is_hashable(key))
        return sluice_tpl_fail(ev, "unhashable type: '%s'", sluice_tpl_type_name(key));
    if ((old = (SluiceTplValue *) sluice_tpl_dict_get(dict, key))) {
        *old = *value;
        return true;
    }
    if (dict->n == dict->n_cap) {
        gsize n_cap = MAX(4, dict->n_cap * 2);
        SluiceTplEntry *entries;

        if (n_cap > G_MAXUINT32 / 4)
            return sluice_tpl_fail_memory(ev);
        if (!(entries = sluice_tpl_alloc(ev, n_cap, sizeof *entries)))
            return false;
        if (dict->n > 0)
            memcpy(entries, dict->entries, dict->n * sizeof *entries);
        dict->entries = entries;
        dict->n_cap = n_cap;
        dict->index = NULL;
        dict->n_index = 0;
    }
    dict->entries[dict->n++] = (SluiceTplEntry){*key, *value};
    if (dict->n <= MAX_UNINDEXED)
        return true;
    if (!dict->index)
        return index_dict(ev, dict);
    for (gsize slot = hash_key(key) & (dict->n_index - 1);; slot = (slot + 1) & (dict->n_index - 1))
        if (!dict->index[slot]) {
            dict->index[slot] = (uint32_t) dict->n;
            return true;
        }
}

/* @kind is dict_keys, dict_values or dict_items. */
bool
sluice_tpl_dict_view(SluiceTplEval *ev, const SluiceTplDict *dict, const char *kind,
                     SluiceTplValue *out)
{
    bool has_keys = strcmp(kind, "dict_values") != 0;
    bool has_values = strcmp(kind, "dict_keys") != 0;

    if (!sluice_tpl_list_new(ev, SLUICE_TPL_VIEW, dict->n, out))
        return false;
    out->list->kind = kind;
    for (gsize i = 0; i < dict->n; i++) {
        const SluiceTplEntry *entry = &dict->entries[i];
        SluiceTplValue item = has_keys ? entry->key : entry->value;

        if (has_keys && has_values &&
            (!sluice_tpl_list_new(ev, SLUICE_TPL_TUPLE, 2, &item) ||
             !sluice_tpl_list_add(ev, &item, &entry->key) ||
             !sluice_tpl_list_add(ev, &item, &entry->value)))
            return false;
        if (!sluice_tpl_list_add(ev, out, &item))
            return false;
    }
    return sluice_tpl_step(ev, dict->n / 8);
}
