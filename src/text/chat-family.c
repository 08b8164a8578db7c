/* SPDX-License-Identifier: MIT */
/*
 * One table of turn formats and one function that walks it. A turn is prefix, role, separator,
 * text, end; where a family has no system turn, the system text goes before the first user's.
 * The beginning-of-sequence token is left to the tokenizer.
 */
#include "config.h"

#include "src/text/chat-family.h"

#include <string.h>

#include "src/core/error.h"

struct _SluiceChatFamily {
    const char *name;
    const char *marks[2];     /* all must be there */
    const char *user[2];      /* what stands before and behind a user's text */
    const char *assistant[2]; /* likewise; behind is also the end of an answer */
    const char *system[2];    /* likewise; NULL: inside the first user turn */
    const char *inner[2];     /* around a system text inside a user turn */
    const char *prompt;       /* where an answer begins */
    bool is_trimmed;          /* texts lose white space around them */
    bool has_roles;           /* other roles are written as they are, between these two */
    const char *role[2];
};

/* Ordered: the first whose marks are found is it. */
static const SluiceChatFamily families[] = {
    {.name = "chatml",
     .marks = {"<|im_start|>"},
     .user = {"<|im_start|>user\n", "<|im_end|>\n"},
     .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n"},
     .system = {"<|im_start|>system\n", "<|im_end|>\n"},
     .prompt = "<|im_start|>assistant\n",
     .has_roles = true,
     .role = {"<|im_start|>", "\n"}},
    {.name = "llama3",
     .marks = {"<|start_header_id|>"},
     .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     .assistant = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
     .system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
     .prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .is_trimmed = true,
     .has_roles = true,
     .role = {"<|start_header_id|>", "<|end_header_id|>\n\n"}},
    {.name = "mistral-v7",
     .marks = {"[INST]", "[SYSTEM_PROMPT]"},
     .user = {"[INST] ", "[/INST]"},
     .assistant = {" ", "</s>"},
     .system = {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"},
     .prompt = ""},
    {.name = "llama2",
     .marks = {"[INST]", "<<SYS>>"},
     .user = {"[INST] ", " [/INST]"},
     .assistant = {"", "</s>"},
     .inner = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .prompt = ""},
    {.name = "mistral-v1",
     .marks = {" [INST] "},
     .user = {" [INST] ", " [/INST]"},
     .assistant = {" ", "</s>"},
     .inner = {"", "\n\n"},
     .prompt = ""},
    {.name = "mistral-v3",
     .marks = {"[INST] "},
     .user = {"[INST] ", "[/INST]"},
     .assistant = {" ", "</s>"},
     .inner = {"", "\n\n"},
     .prompt = ""},
    {.name = "mistral-v3-tekken",
     .marks = {"[INST]"},
     .user = {"[INST]", "[/INST]"},
     .assistant = {"", "</s>"},
     .inner = {"", "\n\n"},
     .prompt = ""},
    {.name = "gemma",
     .marks = {"<start_of_turn>"},
     .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
     .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n"},
     .inner = {"", "\n\n"},
     .prompt = "<start_of_turn>model\n",
     .is_trimmed = true},
    {.name = "gpt-oss",
     .marks = {"<|start|>", "<|channel|>"},
     .user = {"<|start|>user<|message|>", "<|end|>"},
     .assistant = {"<|start|>assistant<|channel|>final<|message|>", "<|end|>"},
     .system = {"<|start|>system<|message|>", "<|end|>"},
     .prompt = "<|start|>assistant",
     .has_roles = true,
     .role = {"<|start|>", "<|message|>"}},
    {.name = "phi3",
     .marks = {"<|assistant|>", "<|end|>"},
     .user = {"<|user|>\n", "<|end|>\n"},
     .assistant = {"<|assistant|>\n", "<|end|>\n"},
     .system = {"<|system|>\n", "<|end|>\n"},
     .prompt = "<|assistant|>\n"},
    {.name = "deepseek",
     .marks = {"<｜Assistant｜>"},
     .user = {"<｜User｜>", ""},
     .assistant = {"<｜Assistant｜>", "<｜end▁of▁sentence｜>"},
     .system = {"", ""},
     .prompt = "<｜Assistant｜>"},
};

/* The prompt while it is written. */
typedef struct {
    GString *text;
    GArray *untrusted;
} Prompt;

static bool
has_marks(const SluiceChatFamily *family, const char *source, gsize n_bytes)
{
    for (gsize i = 0; i < G_N_ELEMENTS(family->marks) && family->marks[i]; i++)
        if (!memmem(source, n_bytes, family->marks[i], strlen(family->marks[i])))
            return false;
    return true;
}

static bool
has_tokens(const SluiceChatFamily *family, SluiceChatHasTokenFunc has_token, gpointer user_data)
{
    for (gsize i = 0; i < G_N_ELEMENTS(family->marks) && family->marks[i]; i++)
        if (!has_token(family->marks[i], user_data))
            return false;
    return true;
}

static const SluiceChatFamily *
find_by_name(const char *name)
{
    for (gsize i = 0; i < G_N_ELEMENTS(families); i++)
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
    g_assert_not_reached();
}

/* By the template's text if there is one, then by tokens, then by what the architecture is. */
const SluiceChatFamily *
sluice_chat_family_find(const char *source, gsize n_bytes, const char *architecture,
                        SluiceChatHasTokenFunc has_token, gpointer user_data)
{
    for (gsize i = 0; source && i < G_N_ELEMENTS(families); i++)
        if (has_marks(&families[i], source, n_bytes))
            return &families[i];
    for (gsize i = 0; has_token && i < G_N_ELEMENTS(families); i++)
        if (has_tokens(&families[i], has_token, user_data))
            return &families[i];
    if (architecture && g_str_has_prefix(architecture, "gemma"))
        return find_by_name("gemma");
    if (architecture && g_str_has_prefix(architecture, "phi3"))
        return find_by_name("phi3");
    return find_by_name("chatml");
}

const char *
sluice_chat_family_name(const SluiceChatFamily *family)
{
    return family->name;
}

const char *
sluice_chat_family_end(const SluiceChatFamily *family)
{
    return family->assistant[1];
}

static void
add_own(Prompt *p, const char *text)
{
    g_string_append(p->text, text);
}

static void
add_foreign(Prompt *p, const char *data, gsize n)
{
    SluiceTextSpan span = {p->text->len, p->text->len + n};
    SluiceTextSpan *last = p->untrusted->len > 0
                               ? &g_array_index(p->untrusted, SluiceTextSpan, p->untrusted->len - 1)
                               : NULL;

    g_string_append_len(p->text, data, (gssize) n);
    if (last && last->end == span.begin)
        last->end = span.end;
    else if (n > 0)
        g_array_append_val(p->untrusted, span);
}

/* A text, nothing, or a list of parts of which the texts count. Freed by the caller. */
static GString *
content_of(const json_t *message, bool is_trimmed)
{
    const json_t *content = json_object_get(message, "content");
    GString *text = g_string_new(NULL);
    gsize n = json_is_array(content) ? json_array_size(content) : 0;

    if (json_is_string(content))
        g_string_append_len(text, json_string_value(content), (gssize) json_string_length(content));
    for (gsize i = 0; i < n; i++) {
        const json_t *part = json_object_get(json_array_get(content, i), "text");
        if (json_is_string(part))
            g_string_append_len(text, json_string_value(part), (gssize) json_string_length(part));
    }
    if (is_trimmed) {
        gsize begin = 0;
        while (begin < text->len && g_ascii_isspace(text->str[begin]))
            begin++;
        g_string_erase(text, 0, (gssize) begin);
        while (text->len > 0 && g_ascii_isspace(text->str[text->len - 1]))
            g_string_truncate(text, text->len - 1);
    }
    return text;
}

static void
add_turn(Prompt *p, const SluiceChatFamily *family, const char *role, const GString *text,
         GString *system)
{
    const char *const *around = strcmp(role, "assistant") == 0 ? family->assistant : family->user;

    if (family->has_roles && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0) {
        add_own(p, family->role[0]);
        add_foreign(p, role, strlen(role));
        add_own(p, family->role[1]);
    } else {
        add_own(p, around[0]);
    }
    if (system->len > 0 && around == family->user) {
        add_own(p, family->inner[0]);
        add_foreign(p, system->str, system->len);
        add_own(p, family->inner[1]);
        g_string_truncate(system, 0);
    }
    add_foreign(p, text->str, text->len);
    add_own(p, around[1]);
}

/* Messages in order. A system text without a turn of its own waits for the next user turn. */
static gboolean
add_messages(Prompt *p, const SluiceChatFamily *family, const json_t *messages, GError **error)
{
    g_autoptr(GString) system = g_string_new(NULL);
    const GString nothing = {.str = (char *) ""};

    for (gsize i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        const char *role = json_string_value(json_object_get(message, "role"));
        GString *text;

        if (!role) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "message %zu has no role", i);
            return FALSE;
        }
        text = content_of(message, family->is_trimmed);
        if (strcmp(role, "system") != 0 && strcmp(role, "developer") != 0) {
            add_turn(p, family, role, text, system);
        } else if (family->system[0]) {
            add_own(p, family->system[0]);
            add_foreign(p, text->str, text->len);
            add_own(p, family->system[1]);
        } else {
            g_string_append_len(system, text->str, (gssize) text->len);
        }
        g_string_free(text, TRUE);
    }
    if (system->len > 0)
        add_turn(p, family, "user", &nothing, system);
    return TRUE;
}

/* Sets @out to the prompt; tools have no place in these formats and are refused. */
gboolean
sluice_chat_family_render(const SluiceChatFamily *family, const SluiceChatInput *input,
                          SluiceTemplateOutput *out, GError **error)
{
    g_autoptr(GString) text = NULL;
    g_autoptr(GArray) untrusted = NULL;
    Prompt p;

    if (json_array_size(input->tools) > 0) {
        g_set_error(
            error, SLUICE_ERROR, SLUICE_ERROR_TEMPLATE,
            "tools need the model's own chat template, and the format '%s' stands in for it",
            family->name);
        return FALSE;
    }
    p.text = text = g_string_new(NULL);
    p.untrusted = untrusted = g_array_new(FALSE, FALSE, sizeof(SluiceTextSpan));
    if (!add_messages(&p, family, input->messages, error))
        return FALSE;
    if (input->add_generation_prompt)
        add_own(&p, family->prompt);
    out->n_bytes = text->len;
    out->text = g_string_free(g_steal_pointer(&text), FALSE);
    out->untrusted = g_steal_pointer(&untrusted);
    return TRUE;
}
