/* SPDX-License-Identifier: MIT */
/*
 * Sublayers of the forward pass and the tensors that they need. What a layer has decides what is
 * computed: a bias or a norm that the file does not hold is a handle of 0, and its operation is
 * left out. Nothing here reads a weight, an activation or a token.
 */
#include "config.h"

#include "src/model/layers.h"

/* ---- forward -------------------------------------------------------------------------------- */

static SluiceOpTag
tag(int32_t layer, SluiceRows rows)
{
    return (SluiceOpTag){.layer = (int16_t) layer, .rows = rows};
}

void
sluice_layers_acts(const SluiceModel *model, SluiceActSpec specs[SLUICE_ACT_COUNT])
{
    const SluiceModelParams *p = &model->params;
    int32_t n_attn = 0, n_qkv = 0;

    for (int32_t i = 0; i < p->n_layer; i++) {
        const SluiceLayerParams *lp = &p->layers[i];

        n_attn = MAX(n_attn, lp->n_head * p->v_dim);
        n_qkv = MAX(n_qkv, (lp->n_head + lp->n_head_kv) * p->k_dim + lp->n_head_kv * p->v_dim);
    }
    for (int id = 0; id < SLUICE_ACT_COUNT; id++)
        specs[id] = (SluiceActSpec){.width = p->n_embd, .rows = SLUICE_ROWS_ALL};
    specs[SLUICE_ACT_X_OUT].rows = SLUICE_ROWS_OUT;
    specs[SLUICE_ACT_H_OUT].rows = SLUICE_ROWS_OUT;
    specs[SLUICE_ACT_Y_OUT].rows = SLUICE_ROWS_OUT;
    specs[SLUICE_ACT_ATTN].width = n_attn;
    specs[SLUICE_ACT_QKV].width = n_qkv;
    specs[SLUICE_ACT_EXPERT_IDS].width = MAX(1, p->moe.n_used);
    specs[SLUICE_ACT_EXPERT_WEIGHTS].width = MAX(1, p->moe.n_used);
    specs[SLUICE_ACT_LOGITS] = (SluiceActSpec){.width = p->n_vocab, .rows = SLUICE_ROWS_OUT};
}

int32_t
sluice_layers_max_hidden(const SluiceModel *model)
{
    const SluiceModelParams *p = &model->params;
    int32_t n = p->moe.n_used * p->moe.n_ff;

    n = MAX(n, p->moe.n_ff_shared);
    for (int32_t i = 0; i < p->n_layer; i++)
        n = MAX(n, p->layers[i].n_ff);
    return n;
}

SluiceStream
sluice_layers_embed(const SluiceForward *f)
{
    const SluiceModelParams *p = &f->model->params;
    SluiceStream s = {.x = sluice_act(SLUICE_ACT_X, p->n_embd),
                      .h = sluice_act(SLUICE_ACT_H, p->n_embd),
                      .y = sluice_act(SLUICE_ACT_Y, p->n_embd),
                      .rows = SLUICE_ROWS_ALL};

    f->backend->ops->embed(f->backend,
                           &(SluiceEmbedArgs){.tag = tag(-1, s.rows),
                                              .table = f->model->token_embd,
                                              .y = s.x,
                                              .factor = p->embed_scale},
                           f->batch);
    return s;
}

void
sluice_layers_norm(const SluiceForward *f, SluiceStream *s, int32_t layer, SluiceWeight weight)
{
    SluiceRmsNormArgs a = {.tag = tag(layer, s->rows),
                           .x = s->x,
                           .y = s->h,
                           .weight = weight,
                           .eps = f->model->params.eps};

    if (s->has_y) {
        a.residual = s->y;
        a.sum = s->x;
        s->has_y = false;
    }
    f->backend->ops->rms_norm(f->backend, &a, f->batch);
}

void
sluice_layers_post_norm(const SluiceForward *f, SluiceStream *s, int32_t layer, SluiceWeight weight)
{
    f->backend->ops->rms_norm(f->backend,
                              &(SluiceRmsNormArgs){.tag = tag(layer, s->rows),
                                                   .x = s->y,
                                                   .y = s->y,
                                                   .weight = weight,
                                                   .eps = f->model->params.eps},
                              f->batch);
}

static void
project(const SluiceForward *f, int32_t layer, SluiceRows rows, SluiceAct x, SluiceAct y,
        SluiceWeight weight, SluiceWeight bias)
{
    f->backend->ops->matmul(
        f->backend,
        &(SluiceMatmulArgs){
            .tag = tag(layer, rows), .x = x, .y = y, .weight = weight, .bias = bias},
        f->batch);
}

/* Normalises where the layer has a norm, then rotates. */
static void
position_heads(const SluiceForward *f, int32_t layer, SluiceRows rows, SluiceAct heads,
               SluiceWeight norm)
{
    SluiceRope rope = f->model->params.layers[layer].rope;

    if (norm != 0)
        f->backend->ops->rms_norm(f->backend,
                                  &(SluiceRmsNormArgs){.tag = tag(layer, rows),
                                                       .x = heads,
                                                       .y = heads,
                                                       .weight = norm,
                                                       .eps = f->model->params.eps},
                                  f->batch);
    rope.factors = f->model->rope_freqs;
    f->backend->ops->rope(
        f->backend, &(SluiceRopeArgs){.tag = tag(layer, rows), .x = heads, .rope = rope}, f->batch);
}

static void
select_rows(const SluiceForward *f, int32_t layer, SluiceAct x, SluiceAct y)
{
    f->backend->ops->select_rows(
        f->backend, &(SluiceSelectRowsArgs){.tag = tag(layer, SLUICE_ROWS_OUT), .x = x, .y = y},
        f->batch);
}

static bool
keep_wanted_rows(const SluiceForward *f, SluiceStream *s, int32_t layer)
{
    int32_t d = f->model->params.n_embd;
    SluiceStream out = {.x = sluice_act(SLUICE_ACT_X_OUT, d),
                        .h = sluice_act(SLUICE_ACT_H_OUT, d),
                        .y = sluice_act(SLUICE_ACT_Y_OUT, d),
                        .rows = SLUICE_ROWS_OUT,
                        .has_y = s->has_y};

    if (f->batch->n_out == 0)
        return false;
    select_rows(f, layer, s->x, out.x);
    select_rows(f, layer, s->y, out.y);
    *s = out;
    return true;
}

bool
sluice_layers_attention(const SluiceForward *f, SluiceStream *s, int32_t layer)
{
    const SluiceModelParams *p = &f->model->params;
    const SluiceLayerParams *lp = &p->layers[layer];
    const SluiceLayer *l = &f->model->layers[layer];
    int32_t n_q = lp->n_head * p->k_dim;
    int32_t n_k = lp->n_head_kv * p->k_dim;
    int32_t n_v = lp->n_head_kv * p->v_dim;
    SluiceAct qkv = sluice_act(SLUICE_ACT_QKV, n_q + n_k + n_v);
    SluiceAct q = sluice_act_cols(qkv, 0, n_q);
    SluiceAct k = sluice_act_cols(qkv, n_q, n_k);
    SluiceAct v = sluice_act_cols(qkv, n_q + n_k, n_v);
    SluiceAct attn = sluice_act(SLUICE_ACT_ATTN, lp->n_head * p->v_dim);

    if (l->attn_qkv != 0) {
        project(f, layer, s->rows, s->h, qkv, l->attn_qkv, l->attn_qkv_bias);
    } else {
        project(f, layer, s->rows, s->h, q, l->attn_q, l->attn_q_bias);
        project(f, layer, s->rows, s->h, k, l->attn_k, l->attn_k_bias);
        project(f, layer, s->rows, s->h, v, l->attn_v, l->attn_v_bias);
    }
    q = sluice_act_heads(q, lp->n_head);
    k = sluice_act_heads(k, lp->n_head_kv);
    position_heads(f, layer, s->rows, q, l->attn_q_norm);
    position_heads(f, layer, s->rows, k, l->attn_k_norm);
    f->backend->ops->attention(f->backend,
                               &(SluiceAttentionArgs){.tag = tag(layer, s->rows),
                                                      .q = q,
                                                      .k = k,
                                                      .v = sluice_act_heads(v, lp->n_head_kv),
                                                      .y = sluice_act_heads(attn, lp->n_head),
                                                      .scale = p->attn_scale,
                                                      .soft_cap = p->attn_soft_cap,
                                                      .window = lp->window},
                               f->batch);
    project(f, layer, s->rows, attn, s->y, l->attn_output, l->attn_output_bias);
    s->has_y = true;
    return layer + 1 < p->n_layer || keep_wanted_rows(f, s, layer);
}

static void
route_to_experts(const SluiceForward *f, SluiceStream *s, int32_t layer,
                 SluiceActivation activation)
{
    const SluiceMoeParams *moe = &f->model->params.moe;
    const SluiceLayer *l = &f->model->layers[layer];
    SluiceAct ids = sluice_act(SLUICE_ACT_EXPERT_IDS, moe->n_used);
    SluiceAct weights = sluice_act(SLUICE_ACT_EXPERT_WEIGHTS, moe->n_used);

    f->backend->ops->moe_route(f->backend,
                               &(SluiceMoeRouteArgs){.tag = tag(layer, s->rows),
                                                     .x = s->h,
                                                     .ids = ids,
                                                     .weights = weights,
                                                     .router = l->router,
                                                     .router_bias = l->router_bias,
                                                     .n_expert = moe->n_expert,
                                                     .n_used = moe->n_used,
                                                     .gating = moe->gating,
                                                     .renormalise = moe->renormalise,
                                                     .weights_scale = moe->weights_scale},
                               f->batch);
    f->backend->ops->moe_experts(f->backend,
                                 &(SluiceMoeExpertsArgs){.tag = tag(layer, s->rows),
                                                         .x = s->h,
                                                         .ids = ids,
                                                         .weights = weights,
                                                         .y = s->y,
                                                         .gate = l->gate_exps,
                                                         .up = l->up_exps,
                                                         .down = l->down_exps,
                                                         .shared_gate = l->gate_shexp,
                                                         .shared_up = l->up_shexp,
                                                         .shared_down = l->down_shexp,
                                                         .shared_router = l->router_shexp,
                                                         .activation = activation,
                                                         .n_expert = moe->n_expert,
                                                         .n_used = moe->n_used},
                                 f->batch);
}

void
sluice_layers_ffn(const SluiceForward *f, SluiceStream *s, int32_t layer,
                  SluiceActivation activation)
{
    const SluiceLayer *l = &f->model->layers[layer];

    if (l->router != 0)
        route_to_experts(f, s, layer, activation);
    else
        f->backend->ops->ffn(f->backend,
                             &(SluiceFfnArgs){.tag = tag(layer, s->rows),
                                              .x = s->h,
                                              .y = s->y,
                                              .gate = l->ffn_gate,
                                              .up = l->ffn_up,
                                              .down = l->ffn_down,
                                              .gate_bias = l->ffn_gate_bias,
                                              .up_bias = l->ffn_up_bias,
                                              .down_bias = l->ffn_down_bias,
                                              .activation = activation},
                             f->batch);
    s->has_y = true;
}

void
sluice_layers_logits(const SluiceForward *f, SluiceStream *s)
{
    const SluiceModelParams *p = &f->model->params;
    SluiceAct logits = sluice_act(SLUICE_ACT_LOGITS, p->n_vocab);

    sluice_layers_norm(f, s, -1, f->model->output_norm);
    project(f, -1, s->rows, s->h, logits, f->model->output, 0);
    if (p->logit_soft_cap != 0.0f)
        f->backend->ops->soft_cap(
            f->backend,
            &(SluiceSoftCapArgs){
                .tag = tag(-1, s->rows), .x = logits, .y = logits, .cap = p->logit_soft_cap},
            f->batch);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/**
 * sluice_layers_bind_attention:
 * @b: the binder
 * @layer: whose fields are filled
 * @layer_idx: its index
 *
 * Binds the projections, fused or not, and biases where the file has them.
 */
void
sluice_layers_bind_attention(SluiceBinder *b, SluiceLayer *layer, int32_t layer_idx)
{
    const SluiceModelParams *p = &b->model->params;
    int64_t d = p->n_embd;
    int64_t n_q = (int64_t) p->layers[layer_idx].n_head * p->k_dim;
    int64_t n_k = (int64_t) p->layers[layer_idx].n_head_kv * p->k_dim;
    int64_t n_v = (int64_t) p->layers[layer_idx].n_head_kv * p->v_dim;
    int64_t n_o = (int64_t) p->layers[layer_idx].n_head * p->v_dim;
    const SluiceBindMode req = SLUICE_BIND_REQUIRED, opt = SLUICE_BIND_OPTIONAL;

    sluice_bind_vector(b, req, "attn_norm.weight", d, &layer->attn_norm);
    if (sluice_bind_has(b, "attn_qkv.weight")) {
        sluice_bind_matrix(b, req, "attn_qkv.weight", d, n_q + n_k + n_v, &layer->attn_qkv);
        sluice_bind_vector(b, opt, "attn_qkv.bias", n_q + n_k + n_v, &layer->attn_qkv_bias);
    } else {
        sluice_bind_matrix(b, req, "attn_q.weight", d, n_q, &layer->attn_q);
        sluice_bind_matrix(b, req, "attn_k.weight", d, n_k, &layer->attn_k);
        sluice_bind_matrix(b, req, "attn_v.weight", d, n_v, &layer->attn_v);
        sluice_bind_vector(b, opt, "attn_q.bias", n_q, &layer->attn_q_bias);
        sluice_bind_vector(b, opt, "attn_k.bias", n_k, &layer->attn_k_bias);
        sluice_bind_vector(b, opt, "attn_v.bias", n_v, &layer->attn_v_bias);
    }
    sluice_bind_matrix(b, req, "attn_output.weight", n_o, d, &layer->attn_output);
    sluice_bind_vector(b, opt, "attn_output.bias", d, &layer->attn_output_bias);
}

/**
 * sluice_layers_bind_ffn:
 * @b: the binder
 * @layer: whose fields are filled
 * @layer_idx: its index
 *
 * Binds a gated FFN, and biases where the file has them.
 */
void
sluice_layers_bind_ffn(SluiceBinder *b, SluiceLayer *layer, int32_t layer_idx)
{
    int64_t d = b->model->params.n_embd;
    int64_t n_ff = b->model->params.layers[layer_idx].n_ff;
    const SluiceBindMode req = SLUICE_BIND_REQUIRED, opt = SLUICE_BIND_OPTIONAL;

    sluice_bind_vector(b, req, "ffn_norm.weight", d, &layer->ffn_norm);
    sluice_bind_matrix(b, req, "ffn_gate.weight", d, n_ff, &layer->ffn_gate);
    sluice_bind_vector(b, opt, "ffn_gate.bias", n_ff, &layer->ffn_gate_bias);
    sluice_bind_matrix(b, req, "ffn_up.weight", d, n_ff, &layer->ffn_up);
    sluice_bind_vector(b, opt, "ffn_up.bias", n_ff, &layer->ffn_up_bias);
    sluice_bind_matrix(b, req, "ffn_down.weight", n_ff, d, &layer->ffn_down);
    sluice_bind_vector(b, opt, "ffn_down.bias", d, &layer->ffn_down_bias);
}

/**
 * sluice_layers_bind_moe:
 * @b: the binder
 * @layer: whose fields are filled
 * @layer_idx: its index
 *
 * Binds a router and stacked experts, with a shared expert where the parameters have one.
 */
void
sluice_layers_bind_moe(SluiceBinder *b, SluiceLayer *layer, int32_t layer_idx)
{
    const SluiceMoeParams *moe = &b->model->params.moe;
    int64_t d = b->model->params.n_embd;
    const SluiceBindMode req = SLUICE_BIND_REQUIRED;

    sluice_bind_vector(b, req, "ffn_norm.weight", d, &layer->ffn_norm);
    sluice_bind_matrix(b, req, "ffn_gate_inp.weight", d, moe->n_expert, &layer->router);
    if (sluice_bind_has(b, "ffn_gate_up_exps.weight")) {
        sluice_bind_stack(b, req, "ffn_gate_up_exps.weight", d, 2 * (int64_t) moe->n_ff,
                          moe->n_expert, &layer->up_exps);
    } else {
        sluice_bind_stack(b, req, "ffn_gate_exps.weight", d, moe->n_ff, moe->n_expert,
                          &layer->gate_exps);
        sluice_bind_stack(b, req, "ffn_up_exps.weight", d, moe->n_ff, moe->n_expert,
                          &layer->up_exps);
    }
    sluice_bind_stack(b, req, "ffn_down_exps.weight", moe->n_ff, d, moe->n_expert,
                      &layer->down_exps);
    if (moe->n_ff_shared == 0)
        return;
    sluice_bind_matrix(b, req, "ffn_gate_shexp.weight", d, moe->n_ff_shared, &layer->gate_shexp);
    sluice_bind_matrix(b, req, "ffn_up_shexp.weight", d, moe->n_ff_shared, &layer->up_shexp);
    sluice_bind_matrix(b, req, "ffn_down_shexp.weight", moe->n_ff_shared, d, &layer->down_shexp);
    sluice_bind_vector(b, SLUICE_BIND_OPTIONAL, "ffn_gate_inp_shexp.weight", d,
                       &layer->router_shexp);
}
