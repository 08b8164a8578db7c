/* SPDX-License-Identifier: MIT */
/*
 * One answer: evaluates a prompt, draws tokens until something ends the answer, and shows the
 * text while it grows.
 */
#pragma once

#include "src/sluice.h"

G_BEGIN_DECLS

typedef enum {
    SLUICE_FINISH_END,     /* the model ended it */
    SLUICE_FINISH_STOP,    /* a stop string came */
    SLUICE_FINISH_LENGTH,  /* as many tokens as were asked for */
    SLUICE_FINISH_CONTEXT, /* the context is full */
    SLUICE_FINISH_CANCELLED,
} SluiceFinish;

/* How answers are made; everything is borrowed. */
typedef struct {
    SluiceEngine *engine;
    SluiceSession *session;
    SluiceSampler *sampler;
    const char *const *stops;
    size_t n_stops;
    int n_predict;    /* < 0: no limit */
    bool is_shown;    /* written to standard output as it grows */
    bool trims_begin; /* spaces in front of the text are dropped */
} SluiceAnswerParams;

typedef struct {
    GString *text; /* valid UTF-8 */
    SluiceFinish finish;
    gsize n_prompt;
    gsize n_evaluated; /* of the prompt; the rest was in the session */
    gsize n_generated;
    gsize n_steps; /* evaluations of single tokens */
    double prompt_seconds;
    double decode_seconds;
} SluiceAnswer;

void sluice_answer_init(SluiceAnswer *answer);
void sluice_answer_clear(SluiceAnswer *answer);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SluiceAnswer, sluice_answer_clear)

gboolean sluice_answer_make(SluiceAnswer *answer, const SluiceAnswerParams *params,
                            const int32_t *tokens, gsize n_tokens, GError **error);
const char *sluice_answer_finish_word(SluiceFinish finish);

G_END_DECLS
