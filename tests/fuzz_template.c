/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a chat template: parsed, and rendered with a conversation under small limits. What
 * it answers does not matter, as long as spans lie in the text and every failure has an error.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/text/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char variables_text[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"},"
    " {\"role\": \"user\", \"content\": \"U \\u00e9\\ud83d\\ude42 <b>\"},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\":"
    " {\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, null, true]}}}]}],"
    " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}],"
    " \"s\": \"Hello\", \"n\": 7, \"f\": -2.5, \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"a\": {}},"
    " \"bos_token\": \"<s>\", \"add_generation_prompt\": true}";

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static json_t *variables;
    const SluiceTemplateLimits limits = {
        .n_steps = 20000, .n_output_bytes = 1 << 20, .n_memory_bytes = 16 << 20, .n_depth = 100};
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceTemplate) t = sluice_template_new((const char *) data, n_bytes, &error);
    g_auto(SluiceTemplateOutput) out = {0};
    gsize end = 0;

    if (!variables)
        variables = json_loads(variables_text, 0, NULL);
    if (!variables || (!t && !error))
        abort();
    if (!t)
        return 0;
    if (!sluice_template_render(t, variables, &limits, &out, &error)) {
        if (!error)
            abort();
        return 0;
    }
    for (guint i = 0; i < out.untrusted->len; i++) {
        const SluiceTextSpan *span = &g_array_index(out.untrusted, SluiceTextSpan, i);
        if (span->begin >= span->end || span->end > out.n_bytes || (i > 0 && span->begin <= end))
            abort();
        end = span->end;
    }
    if (!g_utf8_validate_len(out.text, out.n_bytes, NULL) && !memchr(out.text, 0, out.n_bytes))
        abort();
    return 0;
}
