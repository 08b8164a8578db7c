/* SPDX-License-Identifier: MIT */
/*
 * Choosing a template, and giving it the variables that transformers would: absent tools and
 * documents are None, entries of a message that are null are left out, a call's arguments are an
 * object, and reasoning has all the names that templates know it by.
 */
#include "config.h"

#include "src/text/chat.h"

#include <string.h>

#include "src/core/error.h"
#include "src/text/chat-family.h"

struct _SluiceChatTemplate {
    SluiceTemplate *main;     /* or NULL: the family's format */
    SluiceTemplate *tool_use; /* used when there are tools, or NULL */
    const SluiceChatFamily *family;
    const SluiceChatThinking *thinking;
    const char *stop;
    GString *note; /* what is not as it should be, or empty */
};

/* ---- thinking ------------------------------------------------------------------------------- */

static const struct {
    const char *mark; /* in the template, or the text of a token */
    SluiceChatThinking thinking;
} thinkers[] = {
    {"<|channel>", {"<|channel>thought\n", "<channel|>"}},
    {"<|channel|>", {"<|channel|>analysis<|message|>", "<|end|>"}},
    {"<seed:think>", {"<seed:think>", "</seed:think>"}},
    {"<|START_THINKING|>", {"<|START_THINKING|>", "<|END_THINKING|>"}},
    {"[THINK]", {"[THINK]", "[/THINK]"}},
    {"<think>", {"<think>", "</think>"}},
    {"</think>", {"<think>", "</think>"}},
};

static const SluiceChatThinking *
find_thinking(const char *source, gsize n_bytes, SluiceChatHasTokenFunc has_token,
              gpointer user_data)
{
    for (gsize i = 0; source && i < G_N_ELEMENTS(thinkers); i++)
        if (memmem(source, n_bytes, thinkers[i].mark, strlen(thinkers[i].mark)))
            return &thinkers[i].thinking;
    for (gsize i = 0; has_token && i < G_N_ELEMENTS(thinkers); i++)
        if (has_token(thinkers[i].mark, user_data))
            return &thinkers[i].thinking;
    return NULL;
}

static bool
is_trusted(const GArray *untrusted, gsize begin, gsize end)
{
    for (guint i = 0; untrusted && i < untrusted->len; i++) {
        const SluiceTextSpan *span = &g_array_index(untrusted, SluiceTextSpan, i);
        if (span->begin < end && span->end > begin)
            return false;
    }
    return true;
}

/* The last place of @tag at or behind @from that the template itself wrote, or -1. */
static gssize
find_last(const SluiceTemplateOutput *prompt, const char *tag)
{
    gsize n = strlen(tag);

    for (gsize i = prompt->n_bytes >= n ? prompt->n_bytes - n + 1 : 0; i-- > 0;)
        if (memcmp(prompt->text + i, tag, n) == 0 && is_trusted(prompt->untrusted, i, i + n))
            return (gssize) i;
    return -1;
}

/**
 * sluice_chat_thinking_is_open:
 * @thinking: (nullable): the tags of the family
 * @prompt: a rendered prompt
 *
 * Whether the answer begins inside of a thought: the template has written the opening tag and
 * nothing behind it closes it. A tag that a message brought along does not open anything.
 *
 * Returns: %TRUE if so; %FALSE for a family without thoughts
 * Since: 0.1
 */
bool
sluice_chat_thinking_is_open(const SluiceChatThinking *thinking, const SluiceTemplateOutput *prompt)
{
    gssize open;
    gsize from;

    g_return_val_if_fail(prompt != NULL, false);
    if (!thinking || (open = find_last(prompt, thinking->open)) < 0)
        return false;
    from = (gsize) open + strlen(thinking->open);
    return !memmem(prompt->text + from, prompt->n_bytes - from, thinking->close,
                   strlen(thinking->close));
}

/* ---- choosing ------------------------------------------------------------------------------- */

/* A parsed template, or NULL and a word about it. */
static SluiceTemplate *
parse_source(SluiceChatTemplate *chat, const char *what, const char *source, gsize n_bytes)
{
    g_autoptr(GError) error = NULL;
    SluiceTemplate *t = sluice_template_new(source, n_bytes, &error);

    if (!t)
        g_string_append_printf(
            chat->note, "%s%s: %s; %s", chat->note->len > 0 ? "\n" : "", what, error->message,
            strcmp(what, "chat template") == 0 ? "the turn format of its family is used"
                                               : "the main template is used");
    return t;
}

/**
 * sluice_chat_template_new:
 * @source: (nullable): the model's template
 * @n_bytes: its length, or -1 up to the terminator
 * @architecture: (nullable): `general.architecture` of the model
 * @has_token: (nullable): looks a text up in the vocabulary
 * @user_data: for @has_token
 *
 * Prepares a template. One that is missing or does not parse is replaced by the turn format of the
 * family it looks like, and sluice_chat_template_note() says so. @has_token is not kept.
 *
 * Returns: (transfer full): the template; never %NULL
 * Since: 0.1
 */
SluiceChatTemplate *
sluice_chat_template_new(const char *source, gssize n_bytes, const char *architecture,
                         SluiceChatHasTokenFunc has_token, gpointer user_data)
{
    SluiceChatTemplate *chat = g_new0(SluiceChatTemplate, 1);
    gsize n = !source ? 0 : n_bytes < 0 ? strlen(source) : (gsize) n_bytes;

    chat->note = g_string_new(NULL);
    chat->family = sluice_chat_family_find(source, n, architecture, has_token, user_data);
    chat->thinking = find_thinking(source, n, has_token, user_data);
    if (source)
        chat->main = parse_source(chat, "chat template", source, n);
    else
        g_string_append_printf(chat->note,
                               "the model has no chat template; the format '%s' is used",
                               sluice_chat_family_name(chat->family));
    if (!chat->main && has_token) {
        /* Where no token ends a turn, its text must. */
        g_autofree char *end = g_strdup(sluice_chat_family_end(chat->family));
        if (!has_token(g_strstrip(end), user_data))
            chat->stop = g_intern_string(end);
    }
    if (chat->note->len > 0)
        g_info("%s", chat->note->str);
    return chat;
}

/**
 * sluice_chat_template_new_from_gguf:
 * @gguf: a model file
 * @has_token: (nullable): looks a text up in the vocabulary
 * @user_data: for @has_token
 * @error: return location, or %NULL
 *
 * As sluice_chat_template_new(), with the template in the file's metadata; the variant named
 * `tool_use` is kept for conversations with tools.
 *
 * Returns: (transfer full): the template, or %NULL if the metadata is of the wrong type
 * Since: 0.1
 */
SluiceChatTemplate *
sluice_chat_template_new_from_gguf(const SluiceGguf *gguf, SluiceChatHasTokenFunc has_token,
                                   gpointer user_data, GError **error)
{
    SluiceGgufString source = {0};
    SluiceGgufString tool_use = {0};
    SluiceGgufString architecture = {0};
    g_autofree char *name = NULL;
    SluiceChatTemplate *chat;

    g_return_val_if_fail(gguf != NULL, NULL);
    if (!sluice_gguf_string(gguf, "tokenizer.chat_template", &source, error) ||
        !sluice_gguf_string(gguf, "tokenizer.chat_template.tool_use", &tool_use, error) ||
        !sluice_gguf_string(gguf, "general.architecture", &architecture, error))
        return NULL;
    if (architecture.data)
        name = g_strndup(architecture.data, architecture.n_bytes);
    chat =
        sluice_chat_template_new(source.data, (gssize) source.n_bytes, name, has_token, user_data);
    if (tool_use.data)
        chat->tool_use =
            parse_source(chat, "chat template 'tool_use'", tool_use.data, tool_use.n_bytes);
    return chat;
}

/**
 * sluice_chat_template_free:
 * @chat: (transfer full) (nullable): a template
 *
 * Since: 0.1
 */
void
sluice_chat_template_free(SluiceChatTemplate *chat)
{
    if (!chat)
        return;
    sluice_template_free(chat->main);
    sluice_template_free(chat->tool_use);
    g_string_free(chat->note, TRUE);
    g_free(chat);
}

/**
 * sluice_chat_template_note:
 * @chat: a template
 *
 * Returns: (nullable): why something else than the model's template is used, for the user to
 *   read, or %NULL
 * Since: 0.1
 */
const char *
sluice_chat_template_note(const SluiceChatTemplate *chat)
{
    return chat->note->len > 0 ? chat->note->str : NULL;
}

/**
 * sluice_chat_template_family:
 * @chat: a template
 *
 * Returns: the name of the format that the template looks like, such as `chatml`
 * Since: 0.1
 */
const char *
sluice_chat_template_family(const SluiceChatTemplate *chat)
{
    return sluice_chat_family_name(chat->family);
}

/**
 * sluice_chat_template_stop:
 * @chat: a template
 *
 * Returns: (nullable): a text at which an answer ends, when the vocabulary has no token for it
 * Since: 0.1
 */
const char *
sluice_chat_template_stop(const SluiceChatTemplate *chat)
{
    return chat->stop;
}

/**
 * sluice_chat_template_thinking:
 * @chat: a template
 *
 * Returns: (nullable) (transfer none): the tags around thoughts, or %NULL: the model has none
 * Since: 0.1
 */
const SluiceChatThinking *
sluice_chat_template_thinking(const SluiceChatTemplate *chat)
{
    return chat->thinking;
}

/* ---- variables ------------------------------------------------------------------------------ */

/* Arguments of calls come as text in OpenAI's interface; templates walk over them. */
static void
parse_arguments(json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls");

    for (gsize i = 0; i < json_array_size(calls); i++) {
        json_t *function = json_object_get(json_array_get(calls, i), "function");
        const json_t *arguments = json_object_get(function, "arguments");
        json_t *object;

        if (!json_is_string(arguments))
            continue;
        object = json_loadb(json_string_value(arguments), json_string_length(arguments),
                            JSON_ALLOW_NUL, NULL);
        if (json_is_object(object))
            json_object_set_new(function, "arguments", object);
        else
            json_decref(object);
    }
}

static void
name_reasoning(json_t *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *reasoning = NULL;

    for (gsize i = 0; i < G_N_ELEMENTS(names) && !reasoning; i++)
        reasoning = json_object_get(message, names[i]);
    if (!reasoning)
        return;
    json_object_set(message, "reasoning_content", reasoning);
    if (!json_object_get(message, "thinking"))
        json_object_set(message, "thinking", reasoning);
}

static void
drop_nulls(json_t *message)
{
    void *next;

    for (void *iter = json_object_iter(message); iter; iter = next) {
        next = json_object_iter_next(message, iter);
        if (json_is_null(json_object_iter_value(iter)))
            json_object_deln(message, json_object_iter_key(iter), json_object_iter_key_len(iter));
    }
}

/* A copy of the messages as templates expect them, or NULL with an error. */
static json_t *
normalize_messages(const json_t *messages, GError **error)
{
    json_t *copy = json_deep_copy(messages);

    for (gsize i = 0; i < json_array_size(copy); i++) {
        json_t *message = json_array_get(copy, i);

        if (!json_is_object(message)) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "message %zu is not an object",
                        i);
            json_decref(copy);
            return NULL;
        }
        drop_nulls(message);
        name_reasoning(message);
        parse_arguments(message);
    }
    return copy;
}

/* A new reference to @json, or null. */
static json_t *
or_null(const json_t *json)
{
    return json ? json_incref((json_t *) json) : json_null();
}

static json_t *
make_variables(const SluiceChatInput *input, json_t *messages)
{
    json_t *variables = input->extra ? json_copy((json_t *) input->extra) : json_object();

    json_object_set_new(variables, "messages", messages);
    json_object_set_new(variables, "tools", or_null(input->tools));
    json_object_set_new(variables, "documents", or_null(input->documents));
    json_object_set_new(variables, "add_generation_prompt",
                        json_boolean(input->add_generation_prompt));
    if (input->enable_thinking >= 0) {
        json_object_set_new(variables, "enable_thinking", json_boolean(input->enable_thinking));
        json_object_set_new(variables, "thinking", json_boolean(input->enable_thinking));
    }
    if (input->bos_token)
        json_object_set_new(variables, "bos_token", json_string(input->bos_token));
    if (input->eos_token)
        json_object_set_new(variables, "eos_token", json_string(input->eos_token));
    return variables;
}

/**
 * sluice_chat_template_render:
 * @chat: a template
 * @input: the conversation and its options
 * @out: (out caller-allocates): the prompt, and which bytes of it may hold no control token
 * @error: return location, or %NULL
 *
 * Makes the prompt of a conversation. Templates write the beginning-of-sequence token themselves
 * if they want one: whoever adds it while tokenizing looks whether the prompt begins with it.
 *
 * Returns: %TRUE, or %FALSE: the template refuses the conversation and the error has its words
 *   (Gemma's, for instance, refuse roles that do not alternate), or it does not render
 * Since: 0.1
 */
gboolean
sluice_chat_template_render(const SluiceChatTemplate *chat, const SluiceChatInput *input,
                            SluiceTemplateOutput *out, GError **error)
{
    const SluiceTemplate *t;
    json_t *messages;
    json_t *variables;
    gboolean has_passed;

    g_return_val_if_fail(chat != NULL && input != NULL && out != NULL, FALSE);
    g_return_val_if_fail(json_is_array(input->messages), FALSE);

    t = chat->tool_use && json_array_size(input->tools) > 0 ? chat->tool_use : chat->main;
    if (!(messages = normalize_messages(input->messages, error)))
        return FALSE;
    if (!t) {
        SluiceChatInput normalized = *input;
        normalized.messages = messages;
        has_passed = sluice_chat_family_render(chat->family, &normalized, out, error);
        json_decref(messages);
        return has_passed;
    }
    variables = make_variables(input, messages);
    has_passed = sluice_template_render(t, variables, input->limits, out, error);
    json_decref(variables);
    return has_passed;
}
