/* SPDX-License-Identifier: MIT */
/*
 * qwen2: Qwen2, Qwen2.5, QwQ and the Qwen distillations of DeepSeek-R1.
 *
 *   x  = E[token]
 *   x += W_o attention(rope(W_q h + b_q), rope(W_k h + b_k), W_v h + b_v)   with h = rms_norm(x)
 *   x += W_down (silu(W_gate h) * W_up h)                                   with h = rms_norm(x)
 *   logits = W_out rms_norm(x)
 *
 * Rotary pairs lie half a head apart.
 */
#include "config.h"

#include "src/model/layers.h"

static void
bind_layer(SluiceBinder *b, SluiceLayer *layer, int32_t layer_idx)
{
    sluice_layers_bind_attention(b, layer, layer_idx);
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

const SluiceFamily sluice_family_qwen2 = {
    .name = "qwen2",
    .is_neox = true,
    .bind = bind_layer,
    .forward = forward,
};
