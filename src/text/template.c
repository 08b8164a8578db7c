/* SPDX-License-Identifier: MIT */
/* The front of the template engine: parsing once, rendering with variables as often as wanted. */
#include "config.h"

#include "src/text/template.h"

#include <string.h>

#include "src/core/error.h"
#include "src/text/template-private.h"

/* The tree takes some hundred bytes for a token; this is ample for the longest source. */
#define MAX_TREE_BYTES ((gsize) 256 << 20)

/* The number of a name; every use of a name in the template has the same. */
int
sluice_tpl_name_id(SluiceTemplate *t, const char *name, gsize n)
{
    char *copy = g_strndup(name, n);
    gpointer found = g_hash_table_lookup(t->name_ids, copy);

    if (found) {
        g_free(copy);
        return GPOINTER_TO_INT(found) - 1;
    }
    g_ptr_array_add(t->names, copy);
    g_hash_table_insert(t->name_ids, copy, GUINT_TO_POINTER(t->names->len));
    return (int) t->names->len - 1;
}

static SluiceTemplate *
template_alloc(void)
{
    static const char *const fixed[SLUICE_TPL_N_FIXED_NAMES] = {
        [SLUICE_TPL_NAME_LOOP] = "loop",
        [SLUICE_TPL_NAME_CALLER] = "caller",
        [SLUICE_TPL_NAME_VARARGS] = "varargs",
        [SLUICE_TPL_NAME_KWARGS] = "kwargs",
    };
    SluiceTemplate *t = g_new0(SluiceTemplate, 1);

    sluice_tpl_arena_init(&t->arena, MAX_TREE_BYTES);
    t->name_ids = g_hash_table_new(g_str_hash, g_str_equal);
    t->names = g_ptr_array_new_with_free_func(g_free);
    for (int i = 0; i < SLUICE_TPL_N_FIXED_NAMES; i++)
        sluice_tpl_name_id(t, fixed[i], strlen(fixed[i]));
    return t;
}

/**
 * sluice_template_new:
 * @source: the text of the template
 * @n_bytes: its length
 * @error: return location, or %NULL
 *
 * Parses a chat template. The result is immutable and may be rendered by several threads at once.
 * Cost: linear in @n_bytes. Threads: any.
 *
 * Returns: (transfer full): the template, or %NULL with %SLUICE_ERROR_TEMPLATE and a message that
 *   has the line and what was met there
 * Since: 0.1
 */
SluiceTemplate *
sluice_template_new(const char *source, gsize n_bytes, GError **error)
{
    g_autoptr(SluiceTemplate) t = NULL;
    g_autoptr(GArray) tokens = NULL;
    const char *end;

    g_return_val_if_fail(source != NULL || n_bytes == 0, NULL);

    if (n_bytes > SLUICE_TEMPLATE_MAX_SOURCE_BYTES) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_TEMPLATE,
                    "the chat template has %zu bytes, the limit is %zu", n_bytes,
                    SLUICE_TEMPLATE_MAX_SOURCE_BYTES);
        return NULL;
    }
    if (n_bytes > 0 && !g_utf8_validate_len(source, n_bytes, &end)) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_TEMPLATE,
                    "the chat template is not UTF-8 text: byte %zu of %zu is 0x%02X",
                    (gsize) (end - source), n_bytes, (guchar) *end);
        return NULL;
    }
    t = template_alloc();
    if (!(tokens = sluice_tpl_lex(t, source, n_bytes, error)) ||
        !sluice_tpl_parse(t, (const SluiceTplToken *) (gpointer) tokens->data, error) ||
        !sluice_tpl_resolve_scopes(t, error))
        return NULL;
    return g_steal_pointer(&t);
}

/**
 * sluice_template_free:
 * @t: (transfer full) (nullable): a template
 *
 * Since: 0.1
 */
void
sluice_template_free(SluiceTemplate *t)
{
    if (!t)
        return;
    sluice_tpl_arena_clear(&t->arena);
    g_hash_table_destroy(t->name_ids);
    g_ptr_array_unref(t->names);
    g_free(t);
}

/* What these hold was written by users, tools and web pages. */
static bool
is_untrusted(const char *name)
{
    return strcmp(name, "messages") == 0 || strcmp(name, "tools") == 0 ||
           strcmp(name, "documents") == 0;
}

/* Those of the variables that the template names. */
static bool
read_variables(SluiceTplEval *ev, const json_t *variables)
{
    const GPtrArray *names = ev->template->names;

    if (!(ev->context = sluice_tpl_alloc(ev, names->len, sizeof *ev->context)))
        return false;
    for (guint i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        const json_t *value = json_object_get(variables, name);

        ev->context[i].type = SLUICE_TPL_ABSENT;
        if (value && !sluice_tpl_from_json(ev, value, is_untrusted(name), &ev->context[i]))
            return false;
    }
    return true;
}

static GArray *
spans_of(const SluiceTplString *s)
{
    GArray *spans = g_array_new(FALSE, FALSE, sizeof(SluiceTextSpan));
    SluiceTextSpan span = {0, s->n};

    if (!s->taint && s->is_tainted && s->n > 0)
        g_array_append_val(spans, span);
    for (gsize i = 0; s->taint && i < s->n; i++) {
        if (!s->taint[i])
            continue;
        span.begin = i;
        while (i < s->n && s->taint[i])
            i++;
        span.end = i;
        g_array_append_val(spans, span);
    }
    return spans;
}

static void
set_limits(SluiceTplEval *ev, const SluiceTemplateLimits *limits)
{
    if (limits)
        ev->limits = *limits;
    if (ev->limits.n_steps == 0)
        ev->limits.n_steps = SLUICE_TEMPLATE_MAX_STEPS;
    if (ev->limits.n_output_bytes == 0)
        ev->limits.n_output_bytes = SLUICE_TEMPLATE_MAX_OUTPUT_BYTES;
    if (ev->limits.n_memory_bytes == 0)
        ev->limits.n_memory_bytes = SLUICE_TEMPLATE_MAX_MEMORY_BYTES;
    if (ev->limits.n_depth == 0)
        ev->limits.n_depth = SLUICE_TEMPLATE_MAX_DEPTH;
}

/**
 * sluice_template_render:
 * @t: a template
 * @variables: an object: `messages`, `tools`, `add_generation_prompt`, …
 * @limits: (nullable): limits and clock, or %NULL for the defaults
 * @out: (out caller-allocates): the text and which bytes of it are untrusted
 * @error: return location, or %NULL
 *
 * Renders as jinja2 would with the settings of transformers. Texts and keys inside `messages`,
 * `tools` and `documents` are untrusted, and stay so through every filter and method.
 * Cost: at most @limits. Threads: any.
 *
 * Returns: %TRUE, or %FALSE with %SLUICE_ERROR_TEMPLATE: the template called raise_exception(),
 *   whose message is in the error; it did what jinja2 refuses; or it hit a limit
 * Since: 0.1
 */
gboolean
sluice_template_render(const SluiceTemplate *t, const json_t *variables,
                       const SluiceTemplateLimits *limits, SluiceTemplateOutput *out,
                       GError **error)
{
    SluiceTplEval ev = {.template = t, .line = 1};
    SluiceTplScope root = {0};
    SluiceTplArena output; /* apart, so that the result grows where it is */
    SluiceTplBuilder builder;
    const SluiceTplString *text;
    const SluiceTplValue absent = {.type = SLUICE_TPL_ABSENT};
    bool has_passed;

    g_return_val_if_fail(t != NULL && out != NULL, FALSE);
    g_return_val_if_fail(json_is_object(variables), FALSE);

    set_limits(&ev, limits);
    sluice_tpl_arena_init(&ev.arena, ev.limits.n_memory_bytes);
    sluice_tpl_arena_init(&output, ev.limits.n_memory_bytes);
    sluice_tpl_builder_init(&builder, &output);
    ev.out = &builder;
    ev.scope = &root;
    has_passed = read_variables(&ev, variables);
    for (gsize i = 0; has_passed && i < t->body->n_unset; i++)
        has_passed = sluice_tpl_bind_name(&ev, &root, t->body->unset[i], &absent);
    has_passed = has_passed && sluice_tpl_run(&ev, t->body) != SLUICE_TPL_FLOW_FAILED;
    if (has_passed && !(text = sluice_tpl_builder_end(&builder)))
        has_passed = sluice_tpl_fail_memory(&ev);
    if (has_passed) {
        out->text = g_malloc(text->n + 1);
        memcpy(out->text, text->data, text->n);
        out->text[text->n] = '\0';
        out->n_bytes = text->n;
        out->untrusted = spans_of(text);
    } else {
        g_propagate_error(error, ev.error);
    }
    sluice_tpl_arena_clear(&output);
    sluice_tpl_arena_clear(&ev.arena);
    return has_passed;
}

/**
 * sluice_template_output_clear:
 * @out: what a rendering filled, or zeroes
 *
 * Since: 0.1
 */
void
sluice_template_output_clear(SluiceTemplateOutput *out)
{
    g_clear_pointer(&out->text, g_free);
    g_clear_pointer(&out->untrusted, g_array_unref);
    out->n_bytes = 0;
}
