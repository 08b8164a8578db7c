/* SPDX-License-Identifier: MIT */
/*
 * A model: hyper-parameters, and the file's tensors bound once to named fields with their shapes
 * and types checked. Holds no weight; a handle is a tensor's index in the file plus one, and
 * residency makes it an address. The vocabulary hangs on a model but belongs to the engine
 * layer, which alone sees src/text/.
 */
#pragma once

#include "src/core/backend.h"
#include "src/format/gguf.h"
#include "src/model/params.h"
#include "src/sluice.h"

G_BEGIN_DECLS

typedef struct _SluiceFamily SluiceFamily;

/* The weights of one layer; 0 where the family or the file has none. */
typedef struct {
    SluiceWeight attn_norm;
    SluiceWeight attn_qkv, attn_qkv_bias; /* q, k and v in one, or 0 and the three: */
    SluiceWeight attn_q, attn_q_bias;
    SluiceWeight attn_k, attn_k_bias;
    SluiceWeight attn_v, attn_v_bias;
    SluiceWeight attn_q_norm, attn_k_norm; /* per head, before the rotation */
    SluiceWeight attn_output, attn_output_bias;
    SluiceWeight attn_post_norm; /* on the sublayer's output, before the residual */

    SluiceWeight ffn_norm;
    SluiceWeight ffn_gate, ffn_gate_bias;
    SluiceWeight ffn_up, ffn_up_bias; /* holds the gate too where ffn_gate is 0 */
    SluiceWeight ffn_down, ffn_down_bias;
    SluiceWeight ffn_post_norm;

    SluiceWeight router, router_bias;
    SluiceWeight gate_exps, up_exps, down_exps;
    SluiceWeight gate_shexp, up_shexp, down_shexp, router_shexp;
} SluiceLayer;

struct _SluiceModel {
    gatomicrefcount n_refs;
    SluiceGguf *gguf;
    const SluiceFamily *family;
    SluiceModelParams params;
    SluiceLayer *layers; /* [params.n_layer] */
    SluiceWeight token_embd;
    SluiceWeight output_norm;
    SluiceWeight output; /* token_embd where the head is tied */
    SluiceWeight rope_freqs;
    uint64_t n_params;
    uint64_t n_bytes;
    char *name;       /* printable */
    uint8_t *is_used; /* [n_tensors]: bound by the family; residency leaves the others out */
    gpointer text;    /* the vocabulary, owned, set by whoever opens the model */
    GDestroyNotify text_free;
};

/* One forward pass over one micro-batch. */
typedef struct {
    const SluiceModel *model;
    SluiceBackend *backend;
    const SluiceBatch *batch;
} SluiceForward;

/* Binds tensors by name while a model is opened; the first failure stands. */
typedef struct {
    SluiceModel *model;
    int32_t layer; /* names are "blk.<layer>.<name>"; -1: as given */
    GError *error;
} SluiceBinder;

typedef enum {
    SLUICE_BIND_REQUIRED,
    SLUICE_BIND_OPTIONAL,
} SluiceBindMode;

/*
 * A family of models: how it reads its own keys, which tensors it has, and its forward pass. Code
 * that is not about the maths of one family never asks for the name.
 */
struct _SluiceFamily {
    const char *name; /* general.architecture */
    bool is_neox;
    void (*read)(SluiceModelParams *params, SluiceParamReader *r); /* or NULL */
    void (*bind)(SluiceBinder *b, SluiceLayer *layer, int32_t layer_idx);
    void (*forward)(const SluiceForward *f);
};

extern const SluiceFamily sluice_family_llama;
extern const SluiceFamily sluice_family_qwen2;
extern const SluiceFamily sluice_family_qwen3;
extern const SluiceFamily sluice_family_gemma3;

void sluice_bind_vector(SluiceBinder *b, SluiceBindMode mode, const char *name, int64_t n,
                        SluiceWeight *weight);
void sluice_bind_matrix(SluiceBinder *b, SluiceBindMode mode, const char *name, int64_t n_in,
                        int64_t n_out, SluiceWeight *weight);
void sluice_bind_stack(SluiceBinder *b, SluiceBindMode mode, const char *name, int64_t n_in,
                       int64_t n_out, int64_t n_slabs, SluiceWeight *weight);
bool sluice_bind_has(const SluiceBinder *b, const char *name);

SluiceModel *sluice_model_new(SluiceGguf *gguf, GError **error);

/* What an executor is configured with, as far as the model decides it. */
GArray *sluice_model_kv_groups(const SluiceModel *model, SluiceDtype k_type, SluiceDtype v_type);
int32_t sluice_model_n_kv_tables(const SluiceModel *model);
int32_t sluice_model_window(const SluiceModel *model, int32_t table);

G_END_DECLS
