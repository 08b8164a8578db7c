/* SPDX-License-Identifier: MIT */
/*
 * Running tokens of several sessions through the model in micro-batches.
 */
#pragma once

#include "src/engine/session.h"

G_BEGIN_DECLS

/* What one session wants: its tokens [n_cached, end) evaluated. */
typedef struct {
    SluiceSession *session;
    int32_t end;
    int32_t first_out; /* logits are wanted of tokens with this index and later ones; the last
                          token's are always kept in the session */
    float *logits;     /* [end - first_out, n_vocab], or NULL */
} SluiceStepItem;

/* One session's part of a micro-batch. */
struct SluiceStepSeq {
    const SluiceStepItem *item;
    int32_t n_rows;
    int32_t out_begin; /* among the batch's rows with logits */
    int32_t n_out;
};

gboolean sluice_step_run(SluiceEngine *engine, const SluiceStepItem *items, gsize n_items,
                         GError **error);

G_END_DECLS
