/* SPDX-License-Identifier: MIT */
/*
 * Conversations through the model's own template, in which nothing that a user typed can become a
 * control token.
 */
#include "config.h"

#include <jansson.h>

#include "src/core/error.h"
#include "src/engine/model-text.h"
#include "src/text/template.h"

static SluiceTemplate *
open_template(const SluiceModel *model, bool has_tools, GError **error)
{
    static const char with_tools[] = "tokenizer.chat_template.tool_use";
    static const char standard[] = "tokenizer.chat_template";
    const char *key = has_tools && sluice_gguf_has(model->gguf, with_tools) ? with_tools : standard;
    SluiceGgufString source = {NULL, 0};

    if (!sluice_gguf_string(model->gguf, key, &source, error))
        return NULL;
    if (source.data == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_TEMPLATE, "the model has no chat template");
        return NULL;
    }
    return sluice_template_new(source.data, source.n_bytes, error);
}

static json_t *
parse_json(const char *what, const char *text, GError **error)
{
    json_error_t e;
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &e);

    if (value == NULL) {
        g_autofree char *shown = sluice_error_printable(e.text, -1);

        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "%s: line %d column %d: %s", what,
                    e.line, e.column, shown);
    } else if (!json_is_array(value)) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "%s: expected a JSON array", what);
        g_clear_pointer(&value, json_decref);
    }
    return value;
}

static json_t *
special_text(const SluiceModel *model, SluiceSpecial special)
{
    const SluiceTokenizer *t = sluice_model_text_tokenizer(model);
    int32_t id = sluice_tokenizer_special(t, special);
    size_t n_bytes = 0;
    const char *text = id >= 0 ? sluice_tokenizer_text(t, id, &n_bytes) : NULL;
    json_t *value = text != NULL ? json_stringn(text, n_bytes) : NULL;

    return value != NULL ? value : json_string("");
}

/* (transfer full): what the template sees. */
static json_t *
chat_variables(const SluiceModel *model, const SluiceChatRequest *request, GError **error)
{
    json_t *messages = parse_json("messages", request->messages_json, error);
    json_t *tools = NULL;
    json_t *variables;

    if (messages == NULL)
        return NULL;
    if (request->tools_json != NULL) {
        tools = parse_json("tools", request->tools_json, error);
        if (tools == NULL) {
            json_decref(messages);
            return NULL;
        }
    }
    variables = json_object();
    json_object_set_new(variables, "messages", messages);
    json_object_set_new(variables, "tools", tools != NULL ? tools : json_null());
    json_object_set_new(variables, "add_generation_prompt",
                        json_boolean(request->add_generation_prompt));
    if (request->enable_thinking >= 0)
        json_object_set_new(variables, "enable_thinking",
                            json_boolean(request->enable_thinking != 0));
    json_object_set_new(variables, "bos_token", special_text(model, SLUICE_SPECIAL_BOS));
    json_object_set_new(variables, "eos_token", special_text(model, SLUICE_SPECIAL_EOS));
    return variables;
}

static gboolean
render(const SluiceModel *model, const SluiceChatRequest *request, SluiceTemplateOutput *out,
       GError **error)
{
    g_autoptr(SluiceTemplate) t = open_template(model, request->tools_json != NULL, error);
    json_t *variables = t != NULL ? chat_variables(model, request, error) : NULL;
    gboolean is_done;

    if (variables == NULL)
        return FALSE;
    is_done = sluice_template_render(t, variables, NULL, out, error);
    json_decref(variables);
    return is_done;
}

/**
 * sluice_model_chat_tokens:
 * @model: a model
 * @request: the conversation
 * @rendered: (out) (optional) (transfer full): the text that was tokenized
 * @error: return location, or %NULL
 *
 * Renders a conversation in the model's own template and tokenizes it. Control tokens count in the
 * template's text alone. The model's BOS is put in front where the template does not do it.
 *
 * Returns: (transfer full) (element-type gint32): ids, or %NULL with %SLUICE_ERROR_TEMPLATE or
 *   %SLUICE_ERROR_ARGUMENT
 * Since: 0.1
 */
GArray *
sluice_model_chat_tokens(const SluiceModel *model, const SluiceChatRequest *request,
                         char **rendered, GError **error)
{
    g_auto(SluiceTemplateOutput) out = {0};
    g_autoptr(GArray) ids = NULL;
    int32_t bos;

    g_return_val_if_fail(model != NULL && request != NULL && request->messages_json != NULL, NULL);
    if (!render(model, request, &out, error))
        return NULL;
    ids = sluice_model_text_encode(model, out.text, out.n_bytes, SLUICE_ENCODE_PARSE_SPECIAL,
                                   out.untrusted, error);
    if (ids == NULL)
        return NULL;
    bos = sluice_model_bos(model);
    if (sluice_model_adds_bos(model) && bos >= 0 &&
        (ids->len == 0 || g_array_index(ids, int32_t, 0) != bos))
        g_array_prepend_val(ids, bos);
    if (rendered != NULL)
        *rendered = g_steal_pointer(&out.text);
    return g_steal_pointer(&ids);
}
