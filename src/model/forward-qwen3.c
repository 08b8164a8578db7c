/* SPDX-License-Identifier: MIT */
/*
 * qwen3: the dense models of Qwen3.
 *
 *   x  = E[token]
 *   x += W_o attention(rope(rms_norm(W_q h)), rope(rms_norm(W_k h)), W_v h)  with h = rms_norm(x)
 *   x += W_down (silu(W_gate h) * W_up h)                                    with h = rms_norm(x)
 *   logits = W_out rms_norm(x)
 *
 * The norms on queries and keys are per head, with one weight for all heads; a head's width is a
 * key of its own and need not be n_embd / n_head. Rotary pairs lie half a head apart.
 */
#include "config.h"

#include "src/model/layers.h"

static void
bind_layer(SluiceBinder *b, SluiceLayer *layer, int32_t layer_idx)
{
    int64_t k_dim = b->model->params.k_dim;

    sluice_layers_bind_attention(b, layer, layer_idx);
    sluice_bind_vector(b, SLUICE_BIND_REQUIRED, "attn_q_norm.weight", k_dim, &layer->attn_q_norm);
    sluice_bind_vector(b, SLUICE_BIND_REQUIRED, "attn_k_norm.weight", k_dim, &layer->attn_k_norm);
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

const SluiceFamily sluice_family_qwen3 = {
    .name = "qwen3",
    .is_neox = true,
    .bind = bind_layer,
    .forward = forward,
};
