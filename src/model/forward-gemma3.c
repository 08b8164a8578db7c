/* SPDX-License-Identifier: MIT */
/*
 * gemma3: the text part of Gemma 3.
 *
 *   x  = sqrt(n_embd) E[token]
 *   x += rms_norm(W_o attention(rope(rms_norm(W_q h)), rope(rms_norm(W_k h)), W_v h))
 *                                                                     with h = rms_norm(x)
 *   x += rms_norm(W_down (gelu(W_gate h) * W_up h))                   with h = rms_norm(x)
 *   logits = soft_cap(W_out rms_norm(x))
 *
 * Five layers of six see a sliding window and rotate with a base of their own and without the
 * context scaling of the others. The file's norms have their 1 already added.
 */
#include "config.h"

#include "src/model/layers.h"

#include <math.h>

#define WINDOW_PATTERN 6
/* Of the windowed layers, which are local: Gemma 3's report. */
#define WINDOW_ROPE_BASE 10000.0f
/* The 27B model alone scales by the width of the stream over its heads. */
#define N_LAYER_27B 62

static void
read_params(SluiceModelParams *params, SluiceParamReader *r)
{
    float window_base = WINDOW_ROPE_BASE, attn_scale = 0.0f;

    params->embed_scale = sqrtf((float) params->n_embd);
    sluice_params_float(r, "attention.scale", false, &attn_scale);
    if (attn_scale == 0.0f && params->n_layer == N_LAYER_27B)
        params->attn_scale = 1.0f / sqrtf((float) (params->n_embd / params->layers[0].n_head));
    sluice_params_float(r, "final_logit_softcapping", false, &params->logit_soft_cap);
    sluice_params_float(r, "rope.freq_base_swa", false, &window_base);
    sluice_params_windows(params, r, WINDOW_PATTERN);
    if (r->error == NULL && !(window_base > 0.0f))
        sluice_params_fail(r,
                           "invalid hyper-parameter 'gemma3.rope.freq_base_swa': %g must be "
                           "positive",
                           window_base);
    for (int32_t i = 0; i < params->n_layer; i++) {
        SluiceRope *rope = &params->layers[i].rope;

        if (params->layers[i].window == 0)
            continue;
        rope->base = window_base;
        rope->freq_scale = 1.0f;
        rope->ext_factor = 0.0f;
        rope->magnitude = 1.0f;
    }
}

static void
bind_layer(SluiceBinder *b, SluiceLayer *layer, int32_t layer_idx)
{
    const SluiceModelParams *p = &b->model->params;
    const SluiceBindMode req = SLUICE_BIND_REQUIRED;

    sluice_layers_bind_attention(b, layer, layer_idx);
    sluice_bind_vector(b, req, "attn_q_norm.weight", p->k_dim, &layer->attn_q_norm);
    sluice_bind_vector(b, req, "attn_k_norm.weight", p->k_dim, &layer->attn_k_norm);
    sluice_bind_vector(b, req, "post_attention_norm.weight", p->n_embd, &layer->attn_post_norm);
    sluice_layers_bind_ffn(b, layer, layer_idx);
    sluice_bind_vector(b, req, "post_ffw_norm.weight", p->n_embd, &layer->ffn_post_norm);
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
        sluice_layers_post_norm(f, &s, i, m->layers[i].attn_post_norm);
        sluice_layers_norm(f, &s, i, m->layers[i].ffn_norm);
        sluice_layers_ffn(f, &s, i, SLUICE_ACTIVATION_GELU_TANH);
        sluice_layers_post_norm(f, &s, i, m->layers[i].ffn_post_norm);
    }
    sluice_layers_logits(f, &s);
}

const SluiceFamily sluice_family_gemma3 = {
    .name = "gemma3",
    .is_neox = true,
    .read = read_params,
    .bind = bind_layer,
    .forward = forward,
};
