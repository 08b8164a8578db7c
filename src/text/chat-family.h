/* SPDX-License-Identifier: MIT */
/*
 * Turn formats of model families, for models without a usable template. A family is recognised by
 * marks: texts in its template, or tokens of its vocabulary.
 */
#pragma once

#include "src/text/chat.h"

G_BEGIN_DECLS

typedef struct _SluiceChatFamily SluiceChatFamily;

/* (transfer none), never NULL; @source may be. */
const SluiceChatFamily *sluice_chat_family_find(const char *source, gsize n_bytes,
                                                const char *architecture,
                                                SluiceChatHasTokenFunc has_token,
                                                gpointer user_data);
const char *sluice_chat_family_name(const SluiceChatFamily *family);
/* The text that ends a turn. */
const char *sluice_chat_family_end(const SluiceChatFamily *family);
gboolean sluice_chat_family_render(const SluiceChatFamily *family, const SluiceChatInput *input,
                                   SluiceTemplateOutput *out, GError **error);

G_END_DECLS
