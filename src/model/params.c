/* SPDX-License-Identifier: MIT */
/*
 * The hyper-parameters that families share. Every figure has a range here and is checked against
 * the others before anything is sized by it; kernels and allocators trust what this file let by.
 * Source: the metadata keys of the GGUF description; YaRN, Peng et al. 2023, arXiv:2309.00071.
 */
#include "config.h"

#include "src/model/params.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "src/core/error.h"

/* Far above any model in existence, and low enough that products of two fit 64 bits. */
#define MAX_EMBD (1 << 20)
#define MAX_FF (1 << 24)
#define MAX_HEADS 4096
#define MAX_HEAD_DIM 8192
#define MAX_CTX (1 << 30)

/**
 * sluice_params_fail:
 * @r: the reader
 * @format: what is wrong, with the value and its limit
 *
 * Records a failure, unless an earlier one stands.
 */
void
sluice_params_fail(SluiceParamReader *r, const char *format, ...)
{
    va_list args;

    if (r->error != NULL)
        return;
    va_start(args, format);
    r->error = g_error_new_valist(SLUICE_ERROR, SLUICE_ERROR_MODEL, format, args);
    va_end(args);
}

static char *
full_key(const SluiceParamReader *r, const char *key)
{
    return g_strdup_printf("%s.%s", r->family, key);
}

/* True when the key should be read: no failure yet, and it is there; absence of a required one is
 * recorded. */
static bool
wants_key(SluiceParamReader *r, const char *key, bool is_required)
{
    if (r->error != NULL)
        return false;
    if (is_required)
        return sluice_gguf_require(r->gguf, key, &r->error);
    return sluice_gguf_has(r->gguf, key);
}

/**
 * sluice_params_int:
 * @r: the reader
 * @key: the key behind the family's prefix
 * @min: the least value allowed
 * @max: the largest value allowed; at most %G_MAXINT32
 * @is_required: absence is a failure
 * @value: where the value goes
 *
 * Reads an integer of any stored width.
 */
void
sluice_params_int(SluiceParamReader *r, const char *key, int64_t min, int64_t max, bool is_required,
                  int32_t *value)
{
    g_autofree char *name = full_key(r, key);
    uint64_t v = 0;

    if (!wants_key(r, name, is_required) ||
        !sluice_gguf_uint(r->gguf, name, G_MAXUINT64, &v, &r->error))
        return;
    if (v < (uint64_t) min || v > (uint64_t) max) {
        sluice_params_fail(r,
                           "invalid hyper-parameter '%s': %" G_GUINT64_FORMAT
                           " is outside %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
                           name, v, min, max);
        return;
    }
    *value = (int32_t) v;
}

/**
 * sluice_params_float:
 * @r: the reader
 * @key: the key behind the family's prefix
 * @is_required: absence is a failure
 * @value: where the value goes; it is finite
 */
void
sluice_params_float(SluiceParamReader *r, const char *key, bool is_required, float *value)
{
    g_autofree char *name = full_key(r, key);
    double v = 0.0;

    if (!wants_key(r, name, is_required) || !sluice_gguf_float(r->gguf, name, &v, &r->error))
        return;
    if (!isfinite((float) v)) {
        sluice_params_fail(r, "invalid hyper-parameter '%s': %g is not a finite number", name, v);
        return;
    }
    *value = (float) v;
}

/**
 * sluice_params_per_layer:
 * @r: the reader
 * @key: the key behind the family's prefix
 * @min: the least value allowed
 * @max: the largest value allowed
 * @n_layer: how many values are wanted
 * @values: [n_layer]
 *
 * Reads one number for all layers, or an array of at least @n_layer of them.
 */
void
sluice_params_per_layer(SluiceParamReader *r, const char *key, int64_t min, int64_t max,
                        int32_t n_layer, int32_t *values)
{
    g_autofree char *name = full_key(r, key);
    const SluiceGgufEntry *entry = r->error == NULL ? sluice_gguf_find(r->gguf, name) : NULL;
    g_autofree int64_t *items = NULL;
    size_t n_items = 0;

    if (entry == NULL)
        return;
    if (entry->type != SLUICE_GGUF_ARRAY) {
        int32_t value = values[0];

        sluice_params_int(r, key, min, max, false, &value);
        for (int32_t i = 0; i < n_layer; i++)
            values[i] = value;
        return;
    }
    items = sluice_gguf_int_array(r->gguf, name, &n_items, &r->error);
    if (r->error != NULL)
        return;
    if (n_items < (size_t) n_layer) {
        sluice_params_fail(r, "key '%s' has %zu values, expected one for each of %d layers", name,
                           n_items, n_layer);
        return;
    }
    for (int32_t i = 0; i < n_layer; i++) {
        if (items[i] < min || items[i] > max) {
            sluice_params_fail(r,
                               "invalid hyper-parameter '%s': %" G_GINT64_FORMAT
                               " for layer %d is outside %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
                               name, items[i], i, min, max);
            return;
        }
        values[i] = (int32_t) items[i];
    }
}

/* The dimension whose wavelength turns `n_turns` times within the original context. */
static double
yarn_corr_dim(int32_t n_rot, double n_ctx, double n_turns, double base)
{
    return n_rot * log(n_ctx / (n_turns * 2.0 * G_PI)) / (2.0 * log(base));
}

static void
read_yarn(SluiceParamReader *r, SluiceRope *rope, float factor, int32_t n_ctx_orig)
{
    float ext_factor = -1.0f, attn_factor = 1.0f, yarn_attn_factor = 1.0f;
    float beta_fast = 32.0f, beta_slow = 1.0f;

    sluice_params_float(r, "rope.scaling.yarn_ext_factor", false, &ext_factor);
    sluice_params_float(r, "rope.scaling.attn_factor", false, &attn_factor);
    sluice_params_float(r, "rope.scaling.yarn_attn_factor", false, &yarn_attn_factor);
    sluice_params_float(r, "rope.scaling.yarn_beta_fast", false, &beta_fast);
    sluice_params_float(r, "rope.scaling.yarn_beta_slow", false, &beta_slow);
    if (r->error != NULL)
        return;
    if (!(beta_fast > 0.0f) || !(beta_slow > 0.0f) || !(rope->base > 1.0f)) {
        sluice_params_fail(r,
                           "invalid YaRN parameters: beta_fast %g and beta_slow %g must be "
                           "positive, rope.freq_base %g above 1",
                           beta_fast, beta_slow, rope->base);
        return;
    }
    rope->ext_factor = ext_factor < 0.0f ? 1.0f : ext_factor;
    rope->corr_low =
        (float) fmax(0.0, floor(yarn_corr_dim(rope->n_rot, n_ctx_orig, beta_fast, rope->base)));
    rope->corr_high = (float) fmin(
        rope->n_rot - 1, ceil(yarn_corr_dim(rope->n_rot, n_ctx_orig, beta_slow, rope->base)));
    rope->magnitude = attn_factor * yarn_attn_factor * (1.0f + 0.1f * logf(factor));
}

static void
read_sections(SluiceParamReader *r, SluiceRope *rope)
{
    g_autofree char *name = full_key(r, "rope.dimension_sections");
    g_autofree int64_t *items = NULL;
    size_t n_items = 0;
    int64_t n_pairs = 0;

    if (r->error != NULL || !sluice_gguf_has(r->gguf, name))
        return;
    items = sluice_gguf_int_array(r->gguf, name, &n_items, &r->error);
    if (r->error != NULL)
        return;
    for (size_t i = 0; i < MIN(n_items, 4); i++) {
        if (items[i] < 0 || items[i] > rope->n_rot / 2 || n_items > 4) {
            sluice_params_fail(r, "key '%s' is not four pair counts of at most %d", name,
                               rope->n_rot / 2);
            return;
        }
        rope->sections[i] = (int32_t) items[i];
        n_pairs += items[i];
    }
    if (n_pairs > rope->n_rot / 2)
        sluice_params_fail(r, "key '%s' adds up to %" G_GINT64_FORMAT " pairs, expected at most %d",
                           name, n_pairs, rope->n_rot / 2);
}

static bool
is_string(const SluiceGgufString *s, const char *text)
{
    return s->n_bytes == strlen(text) && memcmp(s->data, text, s->n_bytes) == 0;
}

static void
read_rope(const SluiceModelParams *p, SluiceParamReader *r, bool is_neox, SluiceRope *rope)
{
    g_autofree char *type_key = full_key(r, "rope.scaling.type");
    SluiceGgufString type = {"linear", 6};
    float factor = 0.0f;
    int32_t n_ctx_orig = p->n_ctx_train;
    bool is_none, is_linear, is_yarn;

    *rope = (SluiceRope){.n_rot = p->k_dim,
                         .is_neox = is_neox,
                         .base = 10000.0f,
                         .freq_scale = 1.0f,
                         .magnitude = 1.0f};
    sluice_params_int(r, "rope.dimension_count", 2, p->k_dim, false, &rope->n_rot);
    sluice_params_float(r, "rope.freq_base", false, &rope->base);
    sluice_params_float(r, "rope.scale_linear", false, &factor);
    sluice_params_float(r, "rope.scaling.factor", false, &factor);
    sluice_params_int(r, "rope.scaling.original_context_length", 1, MAX_CTX, false, &n_ctx_orig);
    if (r->error == NULL)
        sluice_gguf_string(r->gguf, type_key, &type, &r->error);
    if (r->error != NULL)
        return;
    if (rope->n_rot % 2 != 0) {
        sluice_params_fail(r, "invalid hyper-parameter '%s.rope.dimension_count': %d is odd",
                           r->family, rope->n_rot);
        return;
    }
    if (!(rope->base > 0.0f) || factor < 0.0f) {
        sluice_params_fail(r,
                           "invalid hyper-parameter '%s.rope': base %g must be positive and "
                           "scaling factor %g not negative",
                           r->family, rope->base, factor);
        return;
    }
    read_sections(r, rope);
    is_none = is_string(&type, "none");
    is_linear = is_string(&type, "linear");
    is_yarn = is_string(&type, "yarn");
    if (!is_none && !is_linear && !is_yarn) {
        g_autofree char *shown = sluice_error_printable(type.data, (gssize) MIN(type.n_bytes, 64));

        sluice_params_fail(r, "key '%s' is '%s', expected none, linear or yarn", type_key, shown);
        return;
    }
    if (factor == 0.0f || is_none)
        return;
    rope->freq_scale = 1.0f / factor;
    if (is_yarn)
        read_yarn(r, rope, factor, n_ctx_orig);
}

static void
read_moe(SluiceModelParams *p, SluiceParamReader *r)
{
    SluiceMoeParams *moe = &p->moe;
    int32_t n_ff = p->layers[0].n_ff;

    *moe = (SluiceMoeParams){
        .gating = SLUICE_GATING_SOFTMAX, .renormalise = true, .weights_scale = 1.0f};
    sluice_params_int(r, "expert_count", 0, SLUICE_MAX_EXPERTS, false, &moe->n_expert);
    if (r->error != NULL || moe->n_expert == 0)
        return;
    sluice_params_int(r, "expert_used_count", 1, MIN(moe->n_expert, SLUICE_MAX_EXPERTS_USED), true,
                      &moe->n_used);
    if (r->error != NULL)
        return;
    moe->n_ff = n_ff;
    sluice_params_int(r, "expert_feed_forward_length", 1, MAX_FF, false, &moe->n_ff);
    sluice_params_int(r, "expert_shared_feed_forward_length", 0, MAX_FF, false, &moe->n_ff_shared);
    sluice_params_float(r, "expert_weights_scale", false, &moe->weights_scale);
    if (moe->weights_scale == 0.0f)
        moe->weights_scale = 1.0f;
    if (r->error == NULL && moe->n_ff <= 0)
        sluice_params_fail(r, "missing metadata key '%s.expert_feed_forward_length'", r->family);
}

static void
read_heads(SluiceModelParams *p, SluiceParamReader *r)
{
    g_autofree int32_t *n_head = g_new0(int32_t, p->n_layer);
    g_autofree int32_t *n_head_kv = g_new0(int32_t, p->n_layer);
    g_autofree int32_t *n_ff = g_new0(int32_t, p->n_layer);
    g_autofree char *head_key = full_key(r, "attention.head_count");

    if (!wants_key(r, head_key, true))
        return;
    sluice_params_per_layer(r, "attention.head_count", 1, MAX_HEADS, p->n_layer, n_head);
    memcpy(n_head_kv, n_head, sizeof n_head[0] * (size_t) p->n_layer);
    sluice_params_per_layer(r, "attention.head_count_kv", 1, MAX_HEADS, p->n_layer, n_head_kv);
    sluice_params_per_layer(r, "feed_forward_length", 0, MAX_FF, p->n_layer, n_ff);
    for (int32_t i = 0; i < p->n_layer && r->error == NULL; i++) {
        if (n_head[i] % n_head_kv[i] != 0)
            sluice_params_fail(r,
                               "invalid hyper-parameter '%s': %d heads of layer %d are not a "
                               "multiple of its %d KV heads",
                               head_key, n_head[i], i, n_head_kv[i]);
        p->layers[i].n_head = n_head[i];
        p->layers[i].n_head_kv = n_head_kv[i];
        p->layers[i].n_ff = n_ff[i];
    }
}

static void
read_head_dims(SluiceModelParams *p, SluiceParamReader *r)
{
    if (r->error != NULL)
        return;
    p->k_dim = p->n_embd / p->layers[0].n_head;
    p->v_dim = p->k_dim;
    sluice_params_int(r, "attention.key_length", 2, MAX_HEAD_DIM, false, &p->k_dim);
    sluice_params_int(r, "attention.value_length", 1, MAX_HEAD_DIM, false, &p->v_dim);
    if (r->error == NULL && (p->k_dim < 2 || p->k_dim > MAX_HEAD_DIM || p->k_dim % 2 != 0))
        sluice_params_fail(r,
                           "invalid hyper-parameter '%s.attention.key_length': %d is not an even "
                           "number from 2 to %d",
                           r->family, p->k_dim, MAX_HEAD_DIM);
    if (r->error == NULL && (p->v_dim < 1 || p->v_dim > MAX_HEAD_DIM))
        sluice_params_fail(r,
                           "invalid hyper-parameter '%s.attention.value_length': %d is outside "
                           "1 to %d",
                           r->family, p->v_dim, MAX_HEAD_DIM);
}

/* The embedding has a row for each token; its tensor is the authority, and is checked for its
 * width when it is bound. */
static void
read_vocab(SluiceModelParams *p, SluiceParamReader *r)
{
    gssize idx = sluice_gguf_tensor_find(r->gguf, "token_embd.weight");
    const SluiceGgufTensor *t;

    if (r->error != NULL)
        return;
    if (idx < 0) {
        sluice_params_fail(r, "missing tensor 'token_embd.weight'");
        return;
    }
    t = sluice_gguf_tensor(r->gguf, (size_t) idx);
    if (t->ne[1] < 1 || t->ne[1] > 1 << 24) {
        sluice_params_fail(
            r, "tensor 'token_embd.weight' has %" G_GINT64_FORMAT " rows, expected 1 to %d",
            t->ne[1], 1 << 24);
        return;
    }
    p->n_vocab = (int32_t) t->ne[1];
}

static void
read_scales(SluiceModelParams *p, SluiceParamReader *r)
{
    sluice_params_float(r, "attention.layer_norm_rms_epsilon", true, &p->eps);
    if (r->error == NULL && !(p->eps > 0.0f && p->eps < 1.0f))
        sluice_params_fail(r,
                           "invalid hyper-parameter '%s.attention.layer_norm_rms_epsilon': %g is "
                           "not between 0 and 1",
                           r->family, p->eps);
    p->attn_scale = 0.0f;
    sluice_params_float(r, "attention.scale", false, &p->attn_scale);
    if (p->attn_scale == 0.0f)
        p->attn_scale = 1.0f / sqrtf((float) p->k_dim);
    p->embed_scale = 1.0f;
}

/**
 * sluice_params_read:
 * @params: (out): the figures that families share; clear it afterwards even on failure
 * @r: a reader with file and family set and no failure
 * @is_neox: rotary pairs lie n_rot / 2 apart, else next to each other
 *
 * Returns: false when @r has an error
 */
gboolean
sluice_params_read(SluiceModelParams *params, SluiceParamReader *r, bool is_neox)
{
    SluiceRope rope;

    memset(params, 0, sizeof *params);
    sluice_params_int(r, "block_count", 1, SLUICE_MAX_LAYERS, true, &params->n_layer);
    sluice_params_int(r, "context_length", 1, MAX_CTX, true, &params->n_ctx_train);
    sluice_params_int(r, "embedding_length", 1, MAX_EMBD, true, &params->n_embd);
    if (r->error != NULL)
        return FALSE;
    params->layers = g_new0(SluiceLayerParams, params->n_layer);
    read_vocab(params, r);
    read_heads(params, r);
    read_head_dims(params, r);
    if (r->error != NULL)
        return FALSE;
    read_scales(params, r);
    read_rope(params, r, is_neox, &rope);
    read_moe(params, r);
    for (int32_t i = 0; i < params->n_layer; i++)
        params->layers[i].rope = rope;
    for (int32_t i = 0; i < params->n_layer && r->error == NULL; i++) {
        if (params->layers[i].n_ff == 0 && params->moe.n_expert == 0)
            sluice_params_fail(r, "invalid hyper-parameter '%s.feed_forward_length': 0 in layer %d",
                               r->family, i);
    }
    return r->error == NULL;
}

/**
 * sluice_params_windows:
 * @params: parameters whose layers get their windows
 * @r: the reader
 * @pattern: the family's period: every pattern-th layer sees everything
 *
 * Reads the sliding window and which layers have one.
 */
void
sluice_params_windows(SluiceModelParams *params, SluiceParamReader *r, int32_t pattern)
{
    g_autofree char *key = full_key(r, "attention.sliding_window_pattern");
    const SluiceGgufEntry *entry = r->error == NULL ? sluice_gguf_find(r->gguf, key) : NULL;
    g_autofree int32_t *is_windowed = g_new0(int32_t, params->n_layer);
    int32_t window = 0;

    sluice_params_int(r, "attention.sliding_window", 0, MAX_CTX, false, &window);
    if (entry != NULL && entry->type == SLUICE_GGUF_ARRAY) {
        sluice_params_per_layer(r, "attention.sliding_window_pattern", 0, 1, params->n_layer,
                                is_windowed);
    } else {
        sluice_params_int(r, "attention.sliding_window_pattern", 1, SLUICE_MAX_LAYERS, false,
                          &pattern);
        for (int32_t i = 0; i < params->n_layer; i++)
            is_windowed[i] = i % pattern < pattern - 1;
    }
    if (r->error != NULL)
        return;
    for (int32_t i = 0; i < params->n_layer; i++)
        params->layers[i].window = is_windowed[i] ? window : 0;
}

/**
 * sluice_params_clear:
 * @params: what sluice_params_read() filled
 */
void
sluice_params_clear(SluiceModelParams *params)
{
    g_clear_pointer(&params->layers, g_free);
}
