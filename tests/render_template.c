/* SPDX-License-Identifier: MIT */
/*
 * Renders templates for tests/reference/compare_templates.py: every line of standard input is an
 * object {"template", "variables", "now"}, every line of standard output {"text", "spans"} or
 * {"error"}. The time is in seconds since 1970, and told as in UTC.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/text/template.h"

static json_t *
spans_to_json(const GArray *spans)
{
    json_t *list = json_array();

    for (guint i = 0; i < spans->len; i++) {
        const SluiceTextSpan *span = &g_array_index(spans, SluiceTextSpan, i);
        json_array_append_new(
            list, json_pack("[I, I]", (json_int_t) span->begin, (json_int_t) span->end));
    }
    return list;
}

static json_t *
render(const json_t *job)
{
    const json_t *source = json_object_get(job, "template");
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceTemplate) t =
        sluice_template_new(json_string_value(source), json_string_length(source), &error);
    g_autoptr(GDateTime) now =
        g_date_time_new_from_unix_utc(json_integer_value(json_object_get(job, "now")));
    g_auto(SluiceTemplateOutput) out = {0};
    const SluiceTemplateLimits limits = {.now = now};

    if (!t || !sluice_template_render(t, json_object_get(job, "variables"), &limits, &out, &error))
        return json_pack("{s:s}", "error", error->message);
    return json_pack("{s:s%, s:o}", "text", out.text, out.n_bytes, "spans",
                     spans_to_json(out.untrusted));
}

int
main(void)
{
    char *line = NULL;
    size_t n_cap = 0;
    ssize_t n;

    while ((n = getline(&line, &n_cap, stdin)) > 0) {
        json_error_t why;
        json_t *job = json_loadb(line, (size_t) n, JSON_ALLOW_NUL, &why);
        json_t *result;

        if (!job || !json_is_object(json_object_get(job, "variables")) ||
            !json_is_string(json_object_get(job, "template"))) {
            fprintf(stderr, "not a job: %s\n", why.text);
            return EXIT_FAILURE;
        }
        result = render(job);
        json_dumpf(result, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(result);
        json_decref(job);
    }
    free(line);
    return EXIT_SUCCESS;
}
