/* SPDX-License-Identifier: MIT */
/* Inner side of the SluiceSession of sluice.h. */
#pragma once

#include "src/engine/engine.h"

G_BEGIN_DECLS

struct _SluiceSession {
    SluiceEngine *engine; /* a reference */
    int32_t *tokens;      /* [n_ctx] */
    int32_t n_tokens;     /* the text so far */
    int32_t n_cached;     /* of those, in the KV cache; less than all only between a truncation that
                             reaches behind a window and the next evaluation */
    SluiceKvSeq *kv;      /* [n_tables] */
    float *logits;        /* [n_vocab] */
    bool has_logits;
    bool is_listed; /* during a step: guards against the same session twice */
    int cancel;     /* atomic */
};

/* Whether these tokens exist and fit behind what the session holds. */
gboolean sluice_session_check(const SluiceSession *session, const int32_t *tokens, gsize n,
                              GError **error);
/* Adds checked tokens to the text; evaluating them is the step's business. */
void sluice_session_append(SluiceSession *session, const int32_t *tokens, gsize n);

G_END_DECLS
