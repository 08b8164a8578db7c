/* SPDX-License-Identifier: MIT */
/*
 * llama: Llama 2 and 3, Mistral 7B, SmolLM2, TinyLlama, Mixtral and what was merged from them.
 *
 *   x  = E[token]
 *   x += W_o attention(rope(W_q h), rope(W_k h), W_v h)    with h = rms_norm(x)
 *   x += W_down (silu(W_gate h) * W_up h)                  with h = rms_norm(x), or experts
 *   logits = W_out rms_norm(x)
 *
 * The file's rows of W_q and W_k are permuted so that rotary pairs lie next to each other.
 * Factors of Llama 3.1 divide the rotation's frequencies where the file has them.
 */
#include "config.h"

#include "src/model/layers.h"

static void
read_params(SluiceModelParams *params, SluiceParamReader *r)
{
    if (params->layers[0].rope.n_rot != params->k_dim)
        sluice_params_fail(r,
                           "invalid hyper-parameter 'llama.rope.dimension_count': %d, expected the "
                           "head's width %d",
                           params->layers[0].rope.n_rot, params->k_dim);
}

static void
bind_layer(SluiceBinder *b, SluiceLayer *layer, int32_t layer_idx)
{
    sluice_layers_bind_attention(b, layer, layer_idx);
    if (b->model->params.moe.n_expert > 0)
        sluice_layers_bind_moe(b, layer, layer_idx);
    else
        sluice_layers_bind_ffn(b, layer, layer_idx);
}

static void
forward(const SluiceForward *f)
{
    const SluiceModel *m = f->model;
    SluiceStream s = sluice_layers_embed(f);

    for (int32_t i = 0; i < m->params.n_layer; i++) {
        sluice_layers_norm(f, &s, i, m->layers[i].attn_norm);
        if (!sluice_layers_attention(f, &s, i))
            return;
        sluice_layers_norm(f, &s, i, m->layers[i].ffn_norm);
        sluice_layers_ffn(f, &s, i, SLUICE_ACTIVATION_SILU);
    }
    sluice_layers_logits(f, &s);
}

const SluiceFamily sluice_family_llama = {
    .name = "llama",
    .is_neox = false,
    .read = read_params,
    .bind = bind_layer,
    .forward = forward,
};
