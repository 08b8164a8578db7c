/* SPDX-License-Identifier: MIT */
/*
 * Sublayers that families share, written over the operation table. A forward pass is a sequence
 * of these on one SluiceStream: the rows that are still of interest and what is pending on them.
 */
#pragma once

#include "src/model/model.h"

G_BEGIN_DECLS

/*
 * The buffers of a forward pass. Each of the first four has a twin for the rows whose logits are
 * wanted: behind the last attention only those go on.
 */
typedef enum {
    SLUICE_ACT_X,    /* the residual stream */
    SLUICE_ACT_H,    /* normalised input of a sublayer */
    SLUICE_ACT_Y,    /* output of a sublayer */
    SLUICE_ACT_ATTN, /* heads side by side, before the output projection */
    SLUICE_ACT_X_OUT,
    SLUICE_ACT_H_OUT,
    SLUICE_ACT_Y_OUT,
    SLUICE_ACT_QKV, /* queries, keys and values side by side */
    SLUICE_ACT_EXPERT_IDS,
    SLUICE_ACT_EXPERT_WEIGHTS,
    SLUICE_ACT_LOGITS,
    SLUICE_ACT_COUNT,
} SluiceActId;

/* Where a forward pass is. x + y is the residual stream when has_y is set: the addition is left
 * to the next normalisation, which does both in one operation. */
typedef struct {
    SluiceAct x;
    SluiceAct h;
    SluiceAct y;
    SluiceRows rows;
    bool has_y;
} SluiceStream;

/* The widths of those buffers. */
void sluice_layers_acts(const SluiceModel *model, SluiceActSpec specs[SLUICE_ACT_COUNT]);

/* The widest hidden layer that a row needs at once. */
int32_t sluice_layers_max_hidden(const SluiceModel *model);

/* x = embed_scale * embedding of each token. */
SluiceStream sluice_layers_embed(const SluiceForward *f);
/* x += y; h = rms_norm(x) * weight. */
void sluice_layers_norm(const SluiceForward *f, SluiceStream *s, int32_t layer,
                        SluiceWeight weight);
/* y = rms_norm(y) * weight: for families that normalise what a sublayer gives. */
void sluice_layers_post_norm(const SluiceForward *f, SluiceStream *s, int32_t layer,
                             SluiceWeight weight);
/* y = W_o attention(h). In the last layer the stream is then narrowed to the rows whose logits
 * are wanted; false: there are none, and the pass is done. */
bool sluice_layers_attention(const SluiceForward *f, SluiceStream *s, int32_t layer);
/* y = FFN(h), dense or routed, as the layer has it. */
void sluice_layers_ffn(const SluiceForward *f, SluiceStream *s, int32_t layer,
                       SluiceActivation activation);
/* logits = W_out rms_norm(x + y), soft-capped where the model says so. */
void sluice_layers_logits(const SluiceForward *f, SluiceStream *s);

/* The tensors of those sublayers. */
void sluice_layers_bind_attention(SluiceBinder *b, SluiceLayer *layer, int32_t layer_idx);
void sluice_layers_bind_ffn(SluiceBinder *b, SluiceLayer *layer, int32_t layer_idx);
void sluice_layers_bind_moe(SluiceBinder *b, SluiceLayer *layer, int32_t layer_idx);

G_END_DECLS
