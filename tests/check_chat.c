/* SPDX-License-Identifier: MIT */
/* Prompts of conversations: templates and their variables, formats of families, thoughts. */
#include "config.h"

#include <string.h>

#include "src/core/error.h"
#include "src/text/chat.h"
#include "tests/suite.h"

static const char TALK[] = "[{\"role\":\"system\",\"content\":\"S\"},"
                           "{\"role\":\"user\",\"content\":\" U \"},"
                           "{\"role\":\"assistant\",\"content\":\"A\"},"
                           "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"V\"}]}]";

static gboolean
has_token(const char *text, gpointer user_data)
{
    return g_strv_contains(user_data, text);
}

/* The prompt, or the error's message. */
static char *
prompt_of(const SluiceChatTemplate *chat, const char *messages, const char *tools,
          const char *extra, int enable_thinking, SluiceTemplateOutput *out)
{
    g_autoptr(GError) error = NULL;
    json_t *m = json_loads(messages, 0, NULL);
    json_t *t = tools ? json_loads(tools, 0, NULL) : NULL;
    json_t *e = extra ? json_loads(extra, 0, NULL) : NULL;
    const SluiceChatInput input = {.messages = m,
                                   .tools = t,
                                   .extra = e,
                                   .add_generation_prompt = TRUE,
                                   .enable_thinking = enable_thinking,
                                   .bos_token = "<s>"};
    gboolean has_passed = sluice_chat_template_render(chat, &input, out, &error);

    json_decref(m);
    json_decref(t);
    json_decref(e);
    return has_passed ? g_strndup(out->text, out->n_bytes) : g_strdup(error->message);
}

static const struct {
    const char *name;
    const char *tokens[3];
    const char *source; /* does not parse, so that the format of the family is used; or NULL */
    const char *prompt;
} families[] = {
    {"chatml",
     {"<|im_start|>", "<|im_end|>"},
     NULL,
     "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n U <|im_end|>\n"
     "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
    {"chatml",
     {NULL},
     NULL,
     "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n U <|im_end|>\n"
     "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
    {"llama3",
     {"<|start_header_id|>", "<|eot_id|>"},
     NULL,
     "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nV<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"llama2",
     {NULL},
     "{% [INST] <<SYS>>",
     "[INST] <<SYS>>\nS\n<</SYS>>\n\n U  [/INST]A</s>[INST] V [/INST]"},
    {"mistral-v1", {NULL}, "{% ' [INST] '", " [INST] S\n\n U  [/INST] A</s> [INST] V [/INST]"},
    {"mistral-v3", {NULL}, "{% '[INST] '", "[INST] S\n\n U [/INST] A</s>[INST] V[/INST]"},
    {"mistral-v3-tekken", {"[INST]"}, NULL, "[INST]S\n\n U [/INST]A</s>[INST]V[/INST]"},
    {"mistral-v7",
     {NULL},
     "{% [INST][SYSTEM_PROMPT]",
     "[SYSTEM_PROMPT] S[/SYSTEM_PROMPT][INST]  U [/INST] A</s>[INST] V[/INST]"},
    {"gemma",
     {"<start_of_turn>"},
     NULL,
     "<start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n"
     "<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n"},
    {"phi3",
     {"<|assistant|>", "<|end|>"},
     NULL,
     "<|system|>\nS<|end|>\n<|user|>\n U <|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nV<|end|>\n"
     "<|assistant|>\n"},
    {"gpt-oss",
     {"<|start|>", "<|channel|>"},
     NULL,
     "<|start|>system<|message|>S<|end|><|start|>user<|message|> U <|end|>"
     "<|start|>assistant<|channel|>final<|message|>A<|end|><|start|>user<|message|>V<|end|>"
     "<|start|>assistant"},
    {"deepseek",
     {"<｜Assistant｜>"},
     NULL,
     "S<｜User｜> U <｜Assistant｜>A<｜end▁of▁sentence｜><｜User｜>V<｜Assistant｜>"},
};

START_TEST(families_have_their_formats)
{
    const char *tokens[4] = {families[_i].tokens[0], families[_i].tokens[1], NULL, NULL};
    g_autoptr(SluiceChatTemplate) chat =
        sluice_chat_template_new(families[_i].source, -1, "llama", has_token, tokens);
    g_auto(SluiceTemplateOutput) out = {0};
    g_autofree char *prompt = prompt_of(chat, TALK, NULL, NULL, -1, &out);
    gsize n_untrusted = 0;

    ck_assert_str_eq(sluice_chat_template_family(chat), families[_i].name);
    ck_assert_str_eq(prompt, families[_i].prompt);
    ck_assert_ptr_nonnull(sluice_chat_template_note(chat));
    for (guint i = 0; i < out.untrusted->len; i++) {
        const SluiceTextSpan *span = &g_array_index(out.untrusted, SluiceTextSpan, i);
        g_autofree char *text = g_strndup(out.text + span->begin, span->end - span->begin);
        n_untrusted += span->end - span->begin;
        ck_assert_msg(strstr("S/system U /user A/assistant V", text) != NULL, "%s", text);
    }
    ck_assert_uint_ge(n_untrusted, 4);
}
END_TEST

START_TEST(architecture_decides_last)
{
    g_autoptr(SluiceChatTemplate) chat = sluice_chat_template_new(NULL, 0, "gemma3", NULL, NULL);

    ck_assert_str_eq(sluice_chat_template_family(chat), "gemma");
}
END_TEST

START_TEST(a_text_stops_where_no_token_does)
{
    const char *none[] = {NULL};
    const char *both[] = {"<|im_start|>", "<|im_end|>", NULL};
    g_autoptr(SluiceChatTemplate) bare = sluice_chat_template_new(NULL, 0, "x", has_token, none);
    g_autoptr(SluiceChatTemplate) full = sluice_chat_template_new(NULL, 0, "x", has_token, both);

    ck_assert_str_eq(sluice_chat_template_stop(bare), "<|im_end|>");
    ck_assert_ptr_null(sluice_chat_template_stop(full));
}
END_TEST

START_TEST(formats_refuse_tools)
{
    g_autoptr(SluiceChatTemplate) chat = sluice_chat_template_new(NULL, 0, "x", NULL, NULL);
    g_auto(SluiceTemplateOutput) out = {0};
    g_autofree char *message = prompt_of(chat, TALK, "[{\"type\":\"function\"}]", NULL, -1, &out);

    ck_assert_ptr_nonnull(strstr(message, "tools need the model's own chat template"));
}
END_TEST

/* Templates and the prompt for {"role": "assistant"} with odd entries. */
static const struct {
    const char *source;
    const char *prompt;
} variable_cases[] = {
    {"{{ messages[0].content is defined }}", "False"},
    {"{{ messages[0].reasoning_content }}{{ messages[0].thinking }}", "RR"},
    {"{{ messages[0].tool_calls[0].function.arguments.a }}", "1"},
    {"{{ messages[0].tool_calls[1].function.arguments }}", "not json"},
    {"{{ tools is none }}{{ documents is none }}{{ eos_token is defined }}{{ bos_token }}",
     "TrueTrueFalse<s>"},
    {"{{ enable_thinking }}{{ thinking }}{{ add_generation_prompt }}", "FalseFalseTrue"},
    {"{{ reasoning_effort }}", "high"},
};

START_TEST(templates_get_the_usual_variables)
{
    const char *messages = "[{\"role\":\"assistant\",\"content\":null,\"reasoning\":\"R\","
                           "\"tool_calls\":[{\"function\":{\"arguments\":\"{\\\"a\\\": 1}\"}},"
                           "{\"function\":{\"arguments\":\"not json\"}}]}]";
    g_autoptr(SluiceChatTemplate) chat =
        sluice_chat_template_new(variable_cases[_i].source, -1, NULL, NULL, NULL);
    g_auto(SluiceTemplateOutput) out = {0};
    g_autofree char *prompt =
        prompt_of(chat, messages, NULL, "{\"reasoning_effort\":\"high\"}", 0, &out);

    ck_assert_str_eq(prompt, variable_cases[_i].prompt);
    ck_assert_ptr_null(sluice_chat_template_note(chat));
}
END_TEST

START_TEST(refusals_reach_the_caller)
{
    g_autoptr(SluiceChatTemplate) chat = sluice_chat_template_new(
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}",
        -1, NULL, NULL, NULL);
    g_auto(SluiceTemplateOutput) out = {0};
    g_autofree char *message = prompt_of(chat, TALK, NULL, NULL, -1, &out);

    ck_assert_ptr_nonnull(strstr(message, "no system role"));
}
END_TEST

static const struct {
    const char *source;
    bool is_open;
} thought_cases[] = {
    {"<think></think>{{ messages[3].content[0].text }}<think>\n", true},
    {"<think>\n\n</think>\n\n", false},
    {"{# <think> #}a", false},
    {"<seed:think>", true},
    {"[THINK]x[/THINK]", false},
    {"<|START_THINKING|>", true},
    {"<|channel>thought\n\n", true},
    {"<|start|>assistant<|channel|>analysis<|message|>", true},
    {"<|start|>assistant{# <|channel|> #}", false},
    {"plain", false},
};

START_TEST(an_open_thought_is_seen)
{
    g_autoptr(SluiceChatTemplate) chat =
        sluice_chat_template_new(thought_cases[_i].source, -1, NULL, NULL, NULL);
    g_auto(SluiceTemplateOutput) out = {0};
    g_autofree char *prompt = prompt_of(chat, TALK, NULL, NULL, -1, &out);

    ck_assert_msg(sluice_chat_thinking_is_open(sluice_chat_template_thinking(chat), &out) ==
                      thought_cases[_i].is_open,
                  "%s", prompt);
}
END_TEST

START_TEST(a_message_opens_no_thought)
{
    g_autoptr(SluiceChatTemplate) chat =
        sluice_chat_template_new("{{ messages[0].content }}{# <think> #}", -1, NULL, NULL, NULL);
    g_auto(SluiceTemplateOutput) out = {0};
    g_autofree char *prompt =
        prompt_of(chat, "[{\"role\":\"user\",\"content\":\"say <think>\"}]", NULL, NULL, -1, &out);

    ck_assert_str_eq(prompt, "say <think>");
    ck_assert_ptr_nonnull(sluice_chat_template_thinking(chat));
    ck_assert(!sluice_chat_thinking_is_open(sluice_chat_template_thinking(chat), &out));
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("chat");
    TCase *tc = tcase_create("chat");

    tcase_add_loop_test(tc, families_have_their_formats, 0, G_N_ELEMENTS(families));
    tcase_add_test(tc, architecture_decides_last);
    tcase_add_test(tc, a_text_stops_where_no_token_does);
    tcase_add_test(tc, formats_refuse_tools);
    tcase_add_loop_test(tc, templates_get_the_usual_variables, 0, G_N_ELEMENTS(variable_cases));
    tcase_add_test(tc, refusals_reach_the_caller);
    tcase_add_loop_test(tc, an_open_thought_is_seen, 0, G_N_ELEMENTS(thought_cases));
    tcase_add_test(tc, a_message_opens_no_thought);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
