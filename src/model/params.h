/* SPDX-License-Identifier: MIT */
/*
 * The hyper-parameters of a model: read from the metadata and checked in one pass, before
 * anything is allocated or computed from them. Families add what they have of their own.
 */
#pragma once

#include "src/core/backend.h"
#include "src/format/gguf.h"

G_BEGIN_DECLS

/* What can differ from layer to layer. */
typedef struct {
    int32_t n_head;
    int32_t n_head_kv;
    int32_t n_ff;   /* hidden width of the dense FFN; 0 where the layer has experts instead */
    int32_t window; /* positions that attention sees, itself included; 0: all */
    SluiceRope rope;
} SluiceLayerParams;

/* Routed experts; n_expert 0: the model has none. */
typedef struct {
    int32_t n_expert;
    int32_t n_used;
    int32_t n_ff;        /* hidden width of one expert */
    int32_t n_ff_shared; /* of the shared expert; 0: there is none */
    SluiceGating gating;
    bool renormalise;
    float weights_scale; /* 1: none */
} SluiceMoeParams;

typedef struct {
    int32_t n_layer;
    int32_t n_ctx_train;
    int32_t n_embd;
    int32_t n_vocab; /* rows of the embedding; ids from the tokenizer are below it */
    int32_t k_dim;   /* of a head's keys and queries */
    int32_t v_dim;   /* of a head's values */
    float eps;
    float embed_scale;
    float attn_scale;
    float attn_soft_cap;  /* 0: none */
    float logit_soft_cap; /* 0: none */
    SluiceMoeParams moe;
    SluiceLayerParams *layers; /* [n_layer] */
} SluiceModelParams;

/* Reads keys of one family; the first failure stands and later reads do nothing. */
typedef struct {
    const SluiceGguf *gguf;
    const char *family; /* the prefix of the keys */
    GError *error;
} SluiceParamReader;

/* Each leaves its result alone where the key is absent, unless the reader demands it. */
void sluice_params_int(SluiceParamReader *r, const char *key, int64_t min, int64_t max,
                       bool is_required, int32_t *value);
void sluice_params_float(SluiceParamReader *r, const char *key, bool is_required, float *value);
/* A number for all layers or an array with one for each. */
void sluice_params_per_layer(SluiceParamReader *r, const char *key, int64_t min, int64_t max,
                             int32_t n_layer, int32_t *values);
void sluice_params_fail(SluiceParamReader *r, const char *format, ...) G_GNUC_PRINTF(2, 3);

gboolean sluice_params_read(SluiceModelParams *params, SluiceParamReader *r, bool is_neox);
void sluice_params_clear(SluiceModelParams *params);
/* Window w on layers where i mod pattern < pattern - 1, or where an array says so. */
void sluice_params_windows(SluiceModelParams *params, SluiceParamReader *r, int32_t pattern);

G_END_DECLS
