/* SPDX-License-Identifier: MIT */
/*
 * From a conversation to a prompt: the model's own chat template when it has one that parses, and
 * the turn format of its family otherwise; and where in the prompt and the answer the model thinks.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "src/format/gguf.h"
#include "src/text/template.h"

G_BEGIN_DECLS

typedef struct _SluiceChatTemplate SluiceChatTemplate;

/* Whether the vocabulary has a token of exactly this text. */
typedef gboolean (*SluiceChatHasTokenFunc)(const char *text, gpointer user_data);

/**
 * SluiceChatInput:
 * @messages: array of {role, content, …}, as OpenAI's interface has them
 * @tools: (nullable): array of tools, likewise
 * @documents: (nullable): array of {title, text}
 * @extra: (nullable): object of further variables of the template, such as reasoning_effort
 * @add_generation_prompt: the prompt ends where the assistant's answer begins
 * @enable_thinking: 0 or 1, or -1: as the template likes
 * @bos_token: (nullable): text of that token
 * @eos_token: (nullable): likewise
 * @limits: (nullable): of the rendering
 */
typedef struct {
    const json_t *messages;
    const json_t *tools;
    const json_t *documents;
    const json_t *extra;
    gboolean add_generation_prompt;
    int enable_thinking;
    const char *bos_token;
    const char *eos_token;
    const SluiceTemplateLimits *limits;
} SluiceChatInput;

/* What a family writes around its thoughts. */
typedef struct {
    const char *open;
    const char *close;
} SluiceChatThinking;

SluiceChatTemplate *sluice_chat_template_new(const char *source, gssize n_bytes,
                                             const char *architecture,
                                             SluiceChatHasTokenFunc has_token, gpointer user_data);
SluiceChatTemplate *sluice_chat_template_new_from_gguf(const SluiceGguf *gguf,
                                                       SluiceChatHasTokenFunc has_token,
                                                       gpointer user_data, GError **error);
void sluice_chat_template_free(SluiceChatTemplate *chat);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceChatTemplate, sluice_chat_template_free)

gboolean sluice_chat_template_render(const SluiceChatTemplate *chat, const SluiceChatInput *input,
                                     SluiceTemplateOutput *out, GError **error);
const char *sluice_chat_template_note(const SluiceChatTemplate *chat);
const char *sluice_chat_template_family(const SluiceChatTemplate *chat);
const char *sluice_chat_template_stop(const SluiceChatTemplate *chat);
const SluiceChatThinking *sluice_chat_template_thinking(const SluiceChatTemplate *chat);
bool sluice_chat_thinking_is_open(const SluiceChatThinking *thinking,
                                  const SluiceTemplateOutput *prompt);

G_END_DECLS
