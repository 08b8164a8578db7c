/* SPDX-License-Identifier: MIT */
/*
 * A conversation with a loaded model: the messages so far, and the session that holds their
 * tokens. `run` has one with a single question, the chat one with many.
 */
#pragma once

#include "src/cli/answer.h"
#include "src/cli/options.h"

#include <jansson.h>

G_BEGIN_DECLS

typedef struct {
    const SluiceOptions *options;
    char *path; /* of the model */
    SluiceModel *model;
    SluiceEngine *engine;
    SluiceSession *session;
    SluiceSampler *sampler;
    json_t *messages; /* {"role", "content"}, the system message first */
    GString *raw;     /* everything so far, when the chat template is not used; else NULL */
    double load_seconds;
} SluiceConversation;

int sluice_conversation_open(SluiceConversation *c, const SluiceOptions *options, const char *path);
void sluice_conversation_close(SluiceConversation *c);
gboolean sluice_conversation_ask(SluiceConversation *c, const char *text, bool is_shown,
                                 SluiceAnswer *answer, GError **error);
gboolean sluice_conversation_reset(SluiceConversation *c, const char *system, GError **error);
const char *sluice_conversation_system(const SluiceConversation *c);
gboolean sluice_conversation_save(SluiceConversation *c, const char *path, GError **error);
gboolean sluice_conversation_load(SluiceConversation *c, const char *path, GError **error);
void sluice_conversation_say_figures(const SluiceConversation *c, const SluiceAnswer *answer);

G_END_DECLS
