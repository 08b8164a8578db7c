/* SPDX-License-Identifier: MIT */
/* The template engine against jinja2's answers, its limits, and what it says about trust. */
#include "config.h"

#include <string.h>

#include "src/core/error.h"
#include "src/text/template.h"
#include "tests/suite.h"

static json_t *
load_golden(void)
{
    g_autofree char *path =
        g_build_filename(g_getenv("SLUICE_TEST_DATA"), "template-golden.json", NULL);
    json_error_t why;
    json_t *golden = json_load_file(path, JSON_ALLOW_NUL, &why);

    ck_assert_msg(golden != NULL, "%s: %s", path, why.text);
    return golden;
}

/* The result, or NULL and an error. */
static char *
render(const char *source, const char *variables, const SluiceTemplateLimits *limits,
       SluiceTemplateOutput *out, GError **error)
{
    g_autoptr(SluiceTemplate) t = sluice_template_new(source, strlen(source), error);
    json_t *json = json_loads(variables, JSON_ALLOW_NUL, NULL);
    gboolean has_passed;

    ck_assert_ptr_nonnull(json);
    has_passed = t && sluice_template_render(t, json, limits, out, error);
    json_decref(json);
    return has_passed ? out->text : NULL;
}

START_TEST(results_are_those_of_jinja2)
{
    json_t *golden = load_golden();
    const json_t *cases = json_object_get(golden, "cases");
    g_autoptr(GDateTime) now =
        g_date_time_new_from_unix_utc(json_integer_value(json_object_get(golden, "now")));
    const SluiceTemplateLimits limits = {.now = now};

    ck_assert_uint_ge(json_array_size(cases), 1000);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *test = json_array_get(cases, i);
        const json_t *source = json_array_get(test, 0);
        const json_t *variables = json_array_get(test, 1);
        const json_t *expected = json_array_get(test, 2);
        g_autoptr(GError) error = NULL;
        g_autoptr(SluiceTemplate) t =
            sluice_template_new(json_string_value(source), json_string_length(source), &error);
        g_auto(SluiceTemplateOutput) out = {0};
        gboolean has_passed;

        if (!json_is_object(variables))
            variables = json_object_get(golden, "variables");
        has_passed = t && sluice_template_render(t, variables, &limits, &out, &error);
        ck_assert_msg(has_passed == json_is_string(expected), "%s: %s", json_string_value(source),
                      error ? error->message : "no error");
        if (!has_passed) {
            ck_assert(g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_TEMPLATE));
            continue;
        }
        ck_assert_msg(out.n_bytes == json_string_length(expected) &&
                          memcmp(out.text, json_string_value(expected), out.n_bytes) == 0,
                      "%s\nexpected: %s\ngot: %s", json_string_value(source),
                      json_string_value(expected), out.text);
    }
    json_decref(golden);
}
END_TEST

/* Untrusted bytes of the output, in order, each run in brackets. */
static char *
untrusted_text(const SluiceTemplateOutput *out)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < out->untrusted->len; i++) {
        const SluiceTextSpan *span = &g_array_index(out->untrusted, SluiceTextSpan, i);
        ck_assert_uint_lt(span->begin, span->end);
        ck_assert_uint_le(span->end, out->n_bytes);
        ck_assert(i == 0 || span[-1].end < span->begin);
        g_string_append_printf(text, "[%.*s]", (int) (span->end - span->begin),
                               out->text + span->begin);
    }
    return g_string_free(text, FALSE);
}

/* With messages [{"role": "user", "content": "aB c<d"}] and tools {"key": ["x\"y"]}. */
static const struct {
    const char *source;
    const char *untrusted;
} trust_cases[] = {
    {"<|x|>{{ messages[0].content }}<|y|>", "[aB c<d]"},
    {"{{ bos ~ messages[0].role ~ bos }}", "[user]"},
    {"{{ 'a' + messages[0].content[1:3] + 'b' }}", "[B ]"},
    {"{{ messages[0].content | upper }}", "[AB C<D]"},
    {"{{ messages[0].content | trim | lower }}!", "[ab c<d]"},
    {"{{ messages[0].content | replace(' ', '--') }}", "[aB][c<d]"},
    {"{{ 'x-y' | replace('-', messages[0].role) }}", "[user]"},
    {"{{ messages[0].content | e }}", "[aB c&lt;d]"},
    {"{{ messages | map(attribute='role') | join(',') }}", "[user]"},
    {"{{ messages[0].content.split(' ') | join('|') }}", "[aB][c<d]"},
    {"{{ tools | tojson }}", "[key][x\\\"y]"},
    {"{{ tools }}", "[key][x\"y]"},
    {"{% for k in tools %}{{ k }}{% endfor %}", "[key]"},
    {"{{ '%s|%s' % (messages[0].role, 'own') }}", "[user]"},
    {"{{ '{}|{}'.format('own', messages[0].role) }}", "[user]"},
    {"{% set x %}own{{ messages[0].role }}{% endset %}{{ x }}", "[user]"},
    {"{% macro f(a) %}({{ a }}){% endmacro %}{{ f(messages[0].role) }}", "[user]"},
    {"{{ messages[0].content[::-1] }}", "[d<c Ba]"},
    {"{{ messages[0].role * 2 }}", "[useruser]"},
    {"{{ messages[0].content | indent(2, true) }}", "[aB c<d]"},
    {"{{ ('own' ~ messages[0].role) | upper }}", "[USER]"},
    {"{{ messages[0].role | title | center(8) }}", "[User]"},
    {"{{ '{\"a\": 1}' | from_json }}{{ ('[\"' ~ messages[0].role ~ '\"]') | from_json | first }}",
     "[user]"},
    {"{{ other }}{{ messages | length }}{{ messages[0].role == 'user' }}", ""},
};

START_TEST(untrusted_bytes_stay_untrusted)
{
    const char *variables =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"aB c<d\"}],"
        " \"tools\": {\"key\": [\"x\\\"y\"]}, \"bos\": \"<s>\", \"other\": \"mine\"}";
    g_autoptr(GError) error = NULL;
    g_auto(SluiceTemplateOutput) out = {0};
    g_autofree char *untrusted = NULL;

    ck_assert_msg(render(trust_cases[_i].source, variables, NULL, &out, &error) != NULL, "%s: %s",
                  trust_cases[_i].source, error ? error->message : "");
    untrusted = untrusted_text(&out);
    ck_assert_str_eq(untrusted, trust_cases[_i].untrusted);
}
END_TEST

static const struct {
    const char *source;
    const char *message; /* a part of it */
} error_cases[] = {
    {"a\n{{ 1 | nope }}", "line 2: no filter named 'nope'"},
    {"\n\n{% if x is nope %}{% endif %}{{ 1 is nope2 }}", "line 3: no test named 'nope2'"},
    {"\n{% frob %}", "line 2: unknown tag 'frob'"},
    {"{% for x in y %}{% endif %}", "unknown tag 'endif'; 'for' waits for 'else' or 'endfor'"},
    {"{% if a %}\n\n", "'if' waits for 'endif'"},
    {"{% include 'x' %}", "the tag 'include' is not supported"},
    {"{{ raise_exception('roles must alternate') }}", "roles must alternate"},
    {"{{ raise_exception('a\\x1b[31m') }}", "a\\x1B[31m"},
    {"\n{{ nothing.here }}", "line 2: 'nothing' is undefined"},
    {"{{ x.y.z }}", "'dict object' has no attribute 'y'"},
    {"{{ [].append(1) }}", "access to attribute 'append' of 'list' object is unsafe"},
    {"{{ ''.__class__.__mro__ }}", "access to attribute '__class__' of 'str' object is unsafe"},
    {"{% if true %}{{ 1 | nope }}{% endif %}", "no filter named 'nope'"},
    {"{{ 9223372036854775807 + 1 }}", "does not fit 64 bits"},
    /* Limits. */
    {"{{ range(1000000000) }}", "range is longer than 100000"},
    {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
     "more than 20000000 steps"},
    {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested more than 600 deep"},
    {"{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
     "more than 536870912 bytes of memory"},
    {"{{ 'x' * 999999999999 }}", "bytes of memory"},
    {"{{ '%99999999d' % 1 }}", "above 100000"},
    {"{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "longer than 67108864 bytes"},
};

START_TEST(errors_name_the_matter)
{
    g_autoptr(GError) error = NULL;
    g_auto(SluiceTemplateOutput) out = {0};

    ck_assert_ptr_null(render(error_cases[_i].source, "{\"x\": {}}", NULL, &out, &error));
    ck_assert(g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_TEMPLATE));
    ck_assert_msg(strstr(error->message, error_cases[_i].message) != NULL, "%s: %s",
                  error_cases[_i].source, error->message);
}
END_TEST

START_TEST(deep_nesting_is_refused)
{
    static const char *const pieces[] = {
        "(",        "[",       "-",     "not ",  "{% if 1 %}", "{% for x in y %}",
        "{{ 1 if ", "{{ a.b(", "{{ a[", "{'a':", "1 + "};

    for (size_t i = 0; i < G_N_ELEMENTS(pieces); i++) {
        g_autoptr(GString) source =
            g_string_new(pieces[i][0] == '{' && pieces[i][1] != '\'' ? "" : "{{ ");
        g_autoptr(GError) error = NULL;
        g_autoptr(SluiceTemplate) t = NULL;

        for (int k = 0; k < 50000; k++)
            g_string_append(source, pieces[i]);
        t = sluice_template_new(source->str, source->len, &error);
        ck_assert_ptr_null(t);
        ck_assert_ptr_nonnull(error);
    }
}
END_TEST

START_TEST(own_limits_are_kept)
{
    const SluiceTemplateLimits few_steps = {.n_steps = 50};
    const SluiceTemplateLimits short_output = {.n_output_bytes = 10};
    const SluiceTemplateLimits flat = {.n_depth = 5};
    const char *source = "{% for i in range(20) %}{{ ((((i))) + 1) }}{% endfor %}";
    const SluiceTemplateLimits *limits[] = {&few_steps, &short_output, &flat};

    for (size_t i = 0; i < G_N_ELEMENTS(limits); i++) {
        g_autoptr(GError) error = NULL;
        g_auto(SluiceTemplateOutput) out = {0};
        bool is_flat = i == 2;
        ck_assert_ptr_null(render(is_flat ? "{{ 1 + (2 + (3 + (4 + (5 + 6)))) }}" : source, "{}",
                                  limits[i], &out, &error));
        ck_assert_ptr_nonnull(error);
    }
}
END_TEST

START_TEST(source_must_be_utf8)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceTemplate) t = sluice_template_new("ab\xff", 3, &error);

    ck_assert_ptr_null(t);
    ck_assert_msg(strstr(error->message, "byte 2 of 3 is 0xFF") != NULL, "%s", error->message);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("template");
    TCase *tc = tcase_create("template");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, results_are_those_of_jinja2);
    tcase_add_loop_test(tc, untrusted_bytes_stay_untrusted, 0, G_N_ELEMENTS(trust_cases));
    tcase_add_loop_test(tc, errors_name_the_matter, 0, G_N_ELEMENTS(error_cases));
    tcase_add_test(tc, deep_nesting_is_refused);
    tcase_add_test(tc, own_limits_are_kept);
    tcase_add_test(tc, source_must_be_utf8);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
