/* SPDX-License-Identifier: MIT */
/* The builder behind model_builder.h. Source: the families' tensors and keys as converters write
 * them, and the stock quantiser's choice of types for Q4_K_M. */
#include "config.h"

#include "tests/model_builder.h"

#include "src/core/error.h"
#include "tests/gguf_writer.h"
#include "tests/model_weights.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- families --------------------------------------------------------------------------- */

enum {
    QKV_BIAS = 1 << 0,
    QK_NORM = 1 << 1,
    MOE = 1 << 2,
    SHARED = 1 << 3,    /* with a gate of its own */
    HYBRID = 1 << 4,    /* recurrent layers, gated attention */
    GEMMA = 1 << 5,     /* norms behind attention and FFN, too */
    FUSED = 1 << 6,     /* attn_qkv, and gate and up in one */
    OSS = 1 << 7,       /* sinks, biases everywhere */
    SPM = 1 << 8,       /* vocabulary with scores */
    POST_NORM = 1 << 9, /* the norm before the FFN is called post_attention_norm */
    SECTIONS = 1 << 10, /* rope.dimension_sections, alpha and beta apart */
    SOFT_CAP = 1 << 11,
    WINDOW = 1 << 12,
};

typedef struct {
    const char *arch;
    int traits;
    const char *pre;
    double rope_base;
    double rms_eps;
} Family;

static const Family families[] = {
    {"llama", 0, "llama-bpe", 1e4, 1e-5},
    {"qwen2", QKV_BIAS, "qwen2", 1e6, 1e-6},
    {"qwen3", QK_NORM, "qwen2", 1e6, 1e-6},
    {"gemma2", GEMMA | SPM | SOFT_CAP | WINDOW, "default", 1e4, 1e-6},
    {"gemma3", GEMMA | QK_NORM | SPM | WINDOW, "default", 1e6, 1e-6},
    {"phi3", FUSED | SPM, "default", 1e4, 1e-5},
    {"qwen2moe", QKV_BIAS | MOE | SHARED, "qwen2", 1e6, 1e-6},
    {"qwen3moe", QK_NORM | MOE, "qwen2", 1e6, 1e-6},
    {"qwen3next", QK_NORM | MOE | SHARED | HYBRID | POST_NORM, "qwen2", 1e7, 1e-6},
    {"qwen35", QK_NORM | HYBRID | POST_NORM | SECTIONS, "qwen35", 1e7, 1e-6},
    {"qwen35moe", QK_NORM | MOE | SHARED | HYBRID | POST_NORM | SECTIONS, "qwen35", 1e7, 1e-6},
    {"gpt-oss", MOE | OSS | POST_NORM | WINDOW, "gpt-4o", 150000, 1e-5},
};

static const Family *
find_family(const char *arch)
{
    for (size_t i = 0; i < G_N_ELEMENTS(families); i++) {
        if (strcmp(families[i].arch, arch) == 0)
            return &families[i];
    }
    return NULL;
}

gboolean
model_spec_init(ModelSpec *spec, const char *arch)
{
    const Family *family = find_family(arch);

    if (family == NULL)
        return FALSE;
    *spec = (ModelSpec){
        .arch = family->arch,
        .n_layers = 4,
        .n_embd = 256,
        .n_head = 4,
        .n_head_kv = 2,
        .head_dim = 64,
        .n_ff = 512,
        .n_vocab = 512,
        .n_context = 4096,
        .rope_base = family->rope_base,
        .rms_eps = family->rms_eps,
        .is_tied = (family->traits & GEMMA) != 0,
        .type = SLUICE_DTYPE_Q4_K,
        .down_type = -1,
        .head_type = -1,
        .embd_type = -1,
        .expert_type = -1,
        .seed = 1,
        .pre = family->pre,
    };
    if (family->traits & MOE) {
        spec->n_expert = 8;
        spec->n_expert_used = 2;
        spec->n_expert_ff = 256;
    }
    if (family->traits & SHARED)
        spec->n_shared_ff = 256;
    if (family->traits & HYBRID) {
        spec->ssm_state = 64;
        spec->ssm_groups = 2;
        spec->ssm_heads = 4;
        spec->ssm_conv = 4;
        spec->interval = 4;
        spec->n_rot = 16;
    }
    if (family->traits & WINDOW)
        spec->n_window = 64;
    return TRUE;
}

typedef struct {
    const char *name;
    const char *arch;
    const char *pre;
    int n_layers, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab;
    int n_expert, n_expert_used, n_expert_ff, n_shared_ff;
    int n_window, n_context;
    double rope_base;
    bool is_tied;
} Preset;

/* Source: the metadata of the published files. */
static const Preset presets[] = {
    {"smollm2", "llama", "smollm", 30, 576, 9, 3, 64, 1536, 49152, 0, 0, 0, 0, 0, 8192, 1e5, true},
    {"gemma3-270m", "gemma3", "default", 18, 640, 4, 1, 256, 2048, 262144, 0, 0, 0, 0, 512, 32768,
     1e6, true},
    {"llama-8b", "llama", "llama-bpe", 32, 4096, 32, 8, 128, 14336, 128256, 0, 0, 0, 0, 0, 8192,
     5e5, false},
    {"qwen2-1.5b", "qwen2", "qwen2", 28, 1536, 12, 2, 128, 8960, 151936, 0, 0, 0, 0, 0, 32768, 1e6,
     true},
    {"qwen2-7b", "qwen2", "qwen2", 28, 3584, 28, 4, 128, 18944, 152064, 0, 0, 0, 0, 0, 32768, 1e6,
     false},
    {"qwen3-30b-a3b", "qwen3moe", "qwen2", 48, 2048, 32, 4, 128, 6144, 151936, 128, 8, 768, 0, 0,
     40960, 1e6, false},
    {"qwen36-35b-a3b", "qwen35moe", "qwen35", 40, 2048, 16, 2, 256, 0, 248320, 256, 8, 512, 512, 0,
     262144, 1e7, false},
    {"gpt-oss-20b", "gpt-oss", "gpt-4o", 24, 2880, 64, 8, 64, 2880, 201088, 32, 4, 2880, 0, 128,
     131072, 150000, false},
};

gboolean
model_spec_preset(ModelSpec *spec, const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(presets); i++) {
        const Preset *p = &presets[i];
        if (strcmp(p->name, name) != 0)
            continue;
        model_spec_init(spec, p->arch);
        spec->pre = p->pre;
        spec->n_layers = p->n_layers;
        spec->n_embd = p->n_embd;
        spec->n_head = p->n_head;
        spec->n_head_kv = p->n_head_kv;
        spec->head_dim = p->head_dim;
        spec->n_ff = p->n_ff;
        spec->n_vocab = p->n_vocab;
        spec->n_expert = p->n_expert;
        spec->n_expert_used = p->n_expert_used;
        spec->n_expert_ff = p->n_expert_ff;
        spec->n_shared_ff = p->n_shared_ff;
        spec->n_window = p->n_window;
        spec->n_context = p->n_context;
        spec->rope_base = p->rope_base;
        spec->is_tied = p->is_tied;
        if (spec->ssm_state > 0) {
            spec->ssm_state = 128;
            spec->ssm_groups = 16;
            spec->ssm_heads = 32;
            spec->n_rot = 64;
        }
        return TRUE;
    }
    return FALSE;
}

static int
rotated(const ModelSpec *spec)
{
    return spec->n_rot > 0 ? spec->n_rot : spec->head_dim;
}

/* ---- tensors ---------------------------------------------------------------------------- */

typedef struct {
    char *name;
    int n_dims;
    int64_t ne[4];
    SluiceDtype dtype;
} Tensor;

typedef struct {
    const ModelSpec *spec;
    int traits;
    GArray *tensors; /* of Tensor */
} Builder;

static void
clear_tensor(gpointer tensor)
{
    g_free(((Tensor *) tensor)->name);
}

/* @suffix is the tensor's name within its block, or the whole name if @layer is negative; a
 * dimension of 0 ends the shape. */
static void
add(Builder *b, int layer, const char *suffix, int64_t ne0, int64_t ne1, int64_t ne2)
{
    Tensor t = {.n_dims = ne1 == 0   ? 1
                          : ne2 == 0 ? 2
                                     : 3,
                .ne = {ne0, MAX(ne1, 1), MAX(ne2, 1), 1}};

    t.name = layer < 0 ? g_strdup(suffix) : g_strdup_printf("blk.%d.%s", layer, suffix);
    g_array_append_val(b->tensors, t);
}

static void
add_attention(Builder *b, int i)
{
    const ModelSpec *s = b->spec;
    int64_t d = s->n_embd;
    int64_t q = (int64_t) s->n_head * s->head_dim;
    int64_t kv = (int64_t) s->n_head_kv * s->head_dim;

    if (b->traits & FUSED) {
        add(b, i, "attn_qkv.weight", d, q + 2 * kv, 0);
    } else {
        add(b, i, "attn_q.weight", d, b->traits & HYBRID ? 2 * q : q, 0);
        add(b, i, "attn_k.weight", d, kv, 0);
        add(b, i, "attn_v.weight", d, kv, 0);
    }
    if (b->traits & (QKV_BIAS | OSS)) {
        add(b, i, "attn_q.bias", q, 0, 0);
        add(b, i, "attn_k.bias", kv, 0, 0);
        add(b, i, "attn_v.bias", kv, 0, 0);
    }
    if (b->traits & QK_NORM) {
        add(b, i, "attn_q_norm.weight", s->head_dim, 0, 0);
        add(b, i, "attn_k_norm.weight", s->head_dim, 0, 0);
    }
    add(b, i, "attn_output.weight", q, d, 0);
    if (b->traits & OSS) {
        add(b, i, "attn_output.bias", d, 0, 0);
        add(b, i, "attn_sinks.weight", s->n_head, 0, 0);
    }
}

static void
add_recurrent(Builder *b, int i)
{
    const ModelSpec *s = b->spec;
    int64_t d = s->n_embd;
    int64_t keys = (int64_t) s->ssm_groups * s->ssm_state;
    int64_t inner = (int64_t) s->ssm_heads * s->ssm_state;

    add(b, i, "attn_qkv.weight", d, 2 * keys + inner, 0);
    add(b, i, "attn_gate.weight", d, inner, 0);
    add(b, i, "ssm_conv1d.weight", s->ssm_conv, 2 * keys + inner, 0);
    add(b, i, "ssm_dt.bias", s->ssm_heads, 0, 0);
    add(b, i, "ssm_a", s->ssm_heads, 0, 0);
    if (b->traits & SECTIONS) {
        add(b, i, "ssm_beta.weight", d, s->ssm_heads, 0);
        add(b, i, "ssm_alpha.weight", d, s->ssm_heads, 0);
    } else {
        add(b, i, "ssm_ba.weight", d, 2 * (int64_t) s->ssm_heads, 0);
    }
    add(b, i, "ssm_norm.weight", s->ssm_state, 0, 0);
    add(b, i, "ssm_out.weight", inner, d, 0);
}

static void
add_experts(Builder *b, int i)
{
    const ModelSpec *s = b->spec;
    int64_t d = s->n_embd;
    int64_t ff = s->n_expert_ff;
    int64_t n = s->n_expert;

    add(b, i, "ffn_gate_inp.weight", d, n, 0);
    add(b, i, "ffn_gate_exps.weight", d, ff, n);
    add(b, i, "ffn_up_exps.weight", d, ff, n);
    add(b, i, "ffn_down_exps.weight", ff, d, n);
    if (b->traits & OSS) {
        add(b, i, "ffn_gate_inp.bias", n, 0, 0);
        add(b, i, "ffn_gate_exps.bias", ff, n, 0);
        add(b, i, "ffn_up_exps.bias", ff, n, 0);
        add(b, i, "ffn_down_exps.bias", d, n, 0);
    }
    if (s->n_shared_ff > 0) {
        add(b, i, "ffn_gate_inp_shexp.weight", d, 0, 0);
        add(b, i, "ffn_gate_shexp.weight", d, s->n_shared_ff, 0);
        add(b, i, "ffn_up_shexp.weight", d, s->n_shared_ff, 0);
        add(b, i, "ffn_down_shexp.weight", s->n_shared_ff, d, 0);
    }
}

static void
add_ffn(Builder *b, int i)
{
    const ModelSpec *s = b->spec;

    if (s->n_expert > 0) {
        add_experts(b, i);
        return;
    }
    if (!(b->traits & FUSED))
        add(b, i, "ffn_gate.weight", s->n_embd, s->n_ff, 0);
    add(b, i, "ffn_up.weight", s->n_embd, b->traits & FUSED ? 2 * (int64_t) s->n_ff : s->n_ff, 0);
    add(b, i, "ffn_down.weight", s->n_ff, s->n_embd, 0);
}

static void
add_block(Builder *b, int i)
{
    const ModelSpec *s = b->spec;
    bool is_nextn = i >= s->n_layers - s->n_nextn;

    add(b, i, "attn_norm.weight", s->n_embd, 0, 0);
    if ((b->traits & HYBRID) && !is_nextn && (i + 1) % s->interval != 0)
        add_recurrent(b, i);
    else
        add_attention(b, i);
    if (b->traits & (GEMMA | POST_NORM))
        add(b, i, "post_attention_norm.weight", s->n_embd, 0, 0);
    if (!(b->traits & POST_NORM))
        add(b, i, "ffn_norm.weight", s->n_embd, 0, 0);
    add_ffn(b, i);
    if (b->traits & GEMMA)
        add(b, i, "post_ffw_norm.weight", s->n_embd, 0, 0);
    if (is_nextn) {
        add(b, i, "nextn.eh_proj.weight", 2 * (int64_t) s->n_embd, s->n_embd, 0);
        add(b, i, "nextn.enorm.weight", s->n_embd, 0, 0);
        add(b, i, "nextn.hnorm.weight", s->n_embd, 0, 0);
        add(b, i, "nextn.shared_head_norm.weight", s->n_embd, 0, 0);
    }
}

static void
add_tensors(Builder *b)
{
    const ModelSpec *s = b->spec;

    add(b, -1, "token_embd.weight", s->n_embd, s->n_vocab, 0);
    add(b, -1, "output_norm.weight", s->n_embd, 0, 0);
    if (!s->is_tied)
        add(b, -1, "output.weight", s->n_embd, s->n_vocab, 0);
    if (s->has_rope_factors && (b->traits & FUSED)) {
        add(b, -1, "rope_factors_long.weight", rotated(s) / 2, 0, 0);
        add(b, -1, "rope_factors_short.weight", rotated(s) / 2, 0, 0);
    } else if (s->has_rope_factors && b->traits == 0) {
        /* Only llama has them. */
        add(b, -1, "rope_freqs.weight", rotated(s) / 2, 0, 0);
    }
    for (int i = 0; i < s->n_layers; i++)
        add_block(b, i);
}

/* ---- types ------------------------------------------------------------------------------ */

static bool
is_attn_v(const Tensor *t)
{
    return strstr(t->name, "attn_v.weight") != NULL || strstr(t->name, "attn_qkv.weight") != NULL;
}

/* The layers that the stock quantiser gives more bits. */
static bool
has_more_bits(int i, int n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static SluiceDtype
choose_q4_k_m(const ModelSpec *spec, const Tensor *t, int layer, int v_idx, int n_v)
{
    if (strcmp(t->name, "output.weight") == 0 ||
        (strcmp(t->name, "token_embd.weight") == 0 && spec->is_tied))
        return SLUICE_DTYPE_Q6_K;
    if (spec->n_expert == 8) {
        if (strstr(t->name, "attn_k.weight") != NULL || strstr(t->name, "attn_v.weight") != NULL)
            return SLUICE_DTYPE_Q8_0;
        if (strstr(t->name, "attn_output.weight") != NULL)
            return SLUICE_DTYPE_Q5_K;
    }
    if (is_attn_v(t) && has_more_bits(v_idx, n_v))
        return SLUICE_DTYPE_Q6_K;
    if (strstr(t->name, "ffn_down") != NULL && has_more_bits(layer, spec->n_layers))
        return SLUICE_DTYPE_Q6_K;
    return SLUICE_DTYPE_Q4_K;
}

static int
choose_plain(const ModelSpec *spec, const Tensor *t)
{
    if (strcmp(t->name, "output.weight") == 0 && spec->head_type >= 0)
        return spec->head_type;
    if (strcmp(t->name, "token_embd.weight") == 0 && spec->embd_type >= 0)
        return spec->embd_type;
    if (strstr(t->name, "ffn_down") != NULL && spec->down_type >= 0)
        return spec->down_type;
    return spec->type;
}

/* The type that the stock quantiser takes where a row is no whole number of blocks. */
static SluiceDtype
fall_back(SluiceDtype dtype, const Tensor *t, bool is_tied)
{
    int32_t block_len = sluice_dtype_info(dtype)->block_len;
    bool is_head = strcmp(t->name, "output.weight") == 0 ||
                   (strcmp(t->name, "token_embd.weight") == 0 && is_tied);

    if (t->ne[0] % block_len == 0)
        return dtype;
    if (t->ne[0] % 32 != 0)
        return SLUICE_DTYPE_F16;
    if (is_head)
        return SLUICE_DTYPE_Q8_0;
    switch (dtype) {
    case SLUICE_DTYPE_Q4_K:
        return SLUICE_DTYPE_Q5_0;
    case SLUICE_DTYPE_Q5_K:
        return SLUICE_DTYPE_Q5_1;
    case SLUICE_DTYPE_Q6_K:
        return SLUICE_DTYPE_Q8_0;
    case SLUICE_DTYPE_Q2_K:
    case SLUICE_DTYPE_Q3_K:
    case SLUICE_DTYPE_TQ1_0:
    case SLUICE_DTYPE_TQ2_0:
    case SLUICE_DTYPE_Q1_0:
    case SLUICE_DTYPE_Q2_0:
    case SLUICE_DTYPE_NVFP4:
        return SLUICE_DTYPE_Q4_0;
    default:
        return SLUICE_DTYPE_IQ4_NL;
    }
}

static bool
is_never_quantised(const Tensor *t)
{
    return t->n_dims == 1 || g_str_has_suffix(t->name, "norm.weight") ||
           g_str_has_suffix(t->name, ".bias") || strstr(t->name, "ffn_gate_inp.weight") != NULL ||
           strstr(t->name, "ssm_conv1d") != NULL;
}

static void
choose_types(Builder *b)
{
    const ModelSpec *spec = b->spec;
    int n_v = 0;
    int v_idx = 0;

    for (guint i = 0; i < b->tensors->len; i++)
        n_v += is_attn_v(&g_array_index(b->tensors, Tensor, i));
    for (guint i = 0; i < b->tensors->len; i++) {
        Tensor *t = &g_array_index(b->tensors, Tensor, i);
        int layer = 0;
        sscanf(t->name, "blk.%d.", &layer);
        if (is_never_quantised(t)) {
            t->dtype = SLUICE_DTYPE_F32;
            continue;
        }
        if (spec->expert_type >= 0 && strstr(t->name, "_exps.") != NULL)
            t->dtype = (SluiceDtype) spec->expert_type;
        else if (spec->is_q4_k_m)
            t->dtype = choose_q4_k_m(spec, t, layer, v_idx, n_v);
        else
            t->dtype = (SluiceDtype) choose_plain(spec, t);
        t->dtype = fall_back(t->dtype, t, spec->is_tied);
        v_idx += is_attn_v(t);
    }
}

/* ---- metadata --------------------------------------------------------------------------- */

/* "<architecture>.<key>" in a buffer that the next call overwrites. */
static const char *
hyper(const ModelSpec *spec, const char *key)
{
    static char buffer[128];

    g_snprintf(buffer, sizeof buffer, "%s.%s", spec->arch, key);
    return buffer;
}

static void
put_hyper(GgufWriter *w, const ModelSpec *spec, const char *key, int value)
{
    gguf_writer_u32(w, hyper(spec, key), (uint32_t) value);
}

static void
put_sections(GgufWriter *w, const ModelSpec *spec)
{
    int pairs = rotated(spec) / 2;
    int32_t sections[4] = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};

    gguf_writer_array(w, hyper(spec, "rope.dimension_sections"), SLUICE_GGUF_I32, 4, sections,
                      sizeof sections);
}

static void
put_family_keys(GgufWriter *w, const ModelSpec *spec, int traits)
{
    if (spec->n_expert > 0) {
        put_hyper(w, spec, "expert_count", spec->n_expert);
        put_hyper(w, spec, "expert_used_count", spec->n_expert_used);
        put_hyper(w, spec, "expert_feed_forward_length", spec->n_expert_ff);
    }
    if (spec->n_shared_ff > 0)
        put_hyper(w, spec, "expert_shared_feed_forward_length", spec->n_shared_ff);
    if (traits & HYBRID) {
        put_hyper(w, spec, "ssm.conv_kernel", spec->ssm_conv);
        put_hyper(w, spec, "ssm.state_size", spec->ssm_state);
        put_hyper(w, spec, "ssm.group_count", spec->ssm_groups);
        put_hyper(w, spec, "ssm.time_step_rank", spec->ssm_heads);
        put_hyper(w, spec, "ssm.inner_size", spec->ssm_heads * spec->ssm_state);
        put_hyper(w, spec, "full_attention_interval", spec->interval);
    }
    if (spec->n_nextn > 0)
        put_hyper(w, spec, "nextn_predict_layers", spec->n_nextn);
    if (traits & SECTIONS)
        put_sections(w, spec);
    if (spec->n_window > 0)
        put_hyper(w, spec, "attention.sliding_window", spec->n_window);
    if (traits & SOFT_CAP) {
        gguf_writer_f32(w, hyper(spec, "attn_logit_softcapping"), 50);
        gguf_writer_f32(w, hyper(spec, "final_logit_softcapping"), 30);
    }
    if (traits & OSS) {
        gguf_writer_string(w, hyper(spec, "rope.scaling.type"), "yarn");
        gguf_writer_f32(w, hyper(spec, "rope.scaling.factor"), 32);
        put_hyper(w, spec, "rope.scaling.original_context_length", 4096);
    }
    if ((traits & FUSED) && spec->has_rope_factors) {
        put_hyper(w, spec, "rope.scaling.original_context_length", spec->n_context / 2);
        gguf_writer_f32(w, hyper(spec, "rope.scaling.attn_factor"), 1.19f);
    }
}

static void
put_hypers(GgufWriter *w, const ModelSpec *spec, int traits)
{
    put_hyper(w, spec, "block_count", spec->n_layers);
    put_hyper(w, spec, "context_length", spec->n_context);
    put_hyper(w, spec, "embedding_length", spec->n_embd);
    if (spec->n_ff > 0)
        put_hyper(w, spec, "feed_forward_length", spec->n_ff);
    put_hyper(w, spec, "attention.head_count", spec->n_head);
    put_hyper(w, spec, "attention.head_count_kv", spec->n_head_kv);
    put_hyper(w, spec, "attention.key_length", spec->head_dim);
    put_hyper(w, spec, "attention.value_length", spec->head_dim);
    gguf_writer_f32(w, hyper(spec, "attention.layer_norm_rms_epsilon"), (float) spec->rms_eps);
    put_hyper(w, spec, "rope.dimension_count", rotated(spec));
    gguf_writer_f32(w, hyper(spec, "rope.freq_base"), (float) spec->rope_base);
    put_hyper(w, spec, "vocab_size", spec->n_vocab);
    put_family_keys(w, spec, traits);
}

/* ---- vocabulary ------------------------------------------------------------------------- */

enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_UNUSED = 5, TOKEN_BYTE = 6 };

typedef struct {
    GPtrArray *texts;
    GArray *types;  /* of int32_t */
    GArray *scores; /* of float */
    int n_vocab;
} Vocabulary;

static void add_token(Vocabulary *v, int32_t type, float score, const char *format, ...)
    G_GNUC_PRINTF(4, 5);

static void
add_token(Vocabulary *v, int32_t type, float score, const char *format, ...)
{
    va_list args;

    if ((int) v->texts->len >= v->n_vocab)
        return;
    va_start(args, format);
    g_ptr_array_add(v->texts, g_strdup_vprintf(format, args));
    va_end(args);
    g_array_append_val(v->types, type);
    g_array_append_val(v->scores, score);
}

/* The byte alphabet of GPT-2: printable Latin-1 as it is, the others from U+0100 on. */
static gunichar
byte_char(int byte)
{
    gunichar next = 256;

    for (int b = 0; b < 256; b++) {
        bool is_plain = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
        if (b == byte)
            return is_plain ? (gunichar) b : next;
        next += !is_plain;
    }
    g_assert_not_reached();
}

static const char *const merges[] = {"t h",      "i n",        "e r",      "a n",
                                     "o n",      "th e",       "in g",     "\u0120 th",
                                     "\u0120 a", "\u0120th e", "\u0120 i", "o u"};

static void
add_bpe_tokens(Vocabulary *v)
{
    for (int b = 0; b < 256; b++) {
        char text[8] = {0};
        g_unichar_to_utf8(byte_char(b), text);
        add_token(v, TOKEN_NORMAL, 0, "%s", text);
    }
    /* No merge may name a token that is not there. */
    if (v->n_vocab < 256 + (int) G_N_ELEMENTS(merges) + 3)
        return;
    for (size_t i = 0; i < G_N_ELEMENTS(merges); i++) {
        const char *space = strchr(merges[i], ' ');
        add_token(v, TOKEN_NORMAL, 0, "%.*s%s", (int) (space - merges[i]), merges[i], space + 1);
    }
    while ((int) v->texts->len < v->n_vocab - 3)
        add_token(v, TOKEN_UNUSED, 0, "<|unused_%u|>", v->texts->len);
    add_token(v, TOKEN_CONTROL, 0, "<|endoftext|>");
    add_token(v, TOKEN_CONTROL, 0, "<|im_start|>");
    add_token(v, TOKEN_CONTROL, 0, "<|im_end|>");
}

/* The special tokens that come first. Some programs look for those of phi3 by name. */
enum { N_SPECIAL = 6 };
static const char *const gemma_specials[N_SPECIAL] = {"<pad>", "<eos>",           "<bos>",
                                                      "<unk>", "<start_of_turn>", "<end_of_turn>"};
static const char *const phi3_specials[N_SPECIAL] = {"<unk>",         "<s>",           "</s>",
                                                     "<|endoftext|>", "<|assistant|>", "<|end|>"};

static void
add_spm_tokens(Vocabulary *v, const char *const *specials)
{
    static const char *const pieces[] = {"\u2581",  "th",       "in",  "er",        "\u2581t",
                                         "\u2581a", "\u2581th", "the", "\u2581the", "ing"};

    for (size_t i = 0; i < N_SPECIAL; i++)
        add_token(v, strcmp(specials[i], "<unk>") == 0 ? TOKEN_UNKNOWN : TOKEN_CONTROL, 0, "%s",
                  specials[i]);
    if (v->n_vocab >= 400) {
        for (int b = 0; b < 256; b++)
            add_token(v, TOKEN_BYTE, 0, "<0x%02X>", b);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(pieces); i++)
        add_token(v, TOKEN_NORMAL, -(float) (i + 1), "%s", pieces[i]);
    for (int c = '!'; c <= '~'; c++)
        add_token(v, TOKEN_NORMAL, -(float) c, "%c", c);
    add_token(v, TOKEN_NORMAL, -200, "\n");
    while ((int) v->texts->len < v->n_vocab)
        add_token(v, TOKEN_UNUSED, -1000, "<unused%u>", v->texts->len);
}

static const char bpe_template[] =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
static const char gemma_template[] =
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message.role == 'assistant' else message.role }}\n{{ message.content }}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";

static const char phi3_template[] = "{% for message in messages %}<|{{ message.role }}|>\n{{ "
                                    "message.content }}<|end|>\n{% endfor %}"
                                    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

static void
put_vocabulary(GgufWriter *w, const ModelSpec *spec, int traits)
{
    Vocabulary v = {.texts = g_ptr_array_new_with_free_func(g_free),
                    .types = g_array_new(FALSE, FALSE, sizeof(int32_t)),
                    .scores = g_array_new(FALSE, FALSE, sizeof(float)),
                    .n_vocab = spec->n_vocab};
    bool is_spm = (traits & SPM) != 0;
    bool is_phi3 = (traits & FUSED) != 0;
    uint32_t n = (uint32_t) spec->n_vocab;

    if (is_spm)
        add_spm_tokens(&v, is_phi3 ? phi3_specials : gemma_specials);
    else
        add_bpe_tokens(&v);
    gguf_writer_string(w, "tokenizer.ggml.model", is_spm ? "llama" : "gpt2");
    gguf_writer_string(w, "tokenizer.ggml.pre", spec->pre);
    gguf_writer_strings(w, "tokenizer.ggml.tokens", v.texts->len);
    for (guint i = 0; i < v.texts->len; i++)
        gguf_writer_item(w, g_ptr_array_index(v.texts, i), -1);
    if (is_spm)
        gguf_writer_array(w, "tokenizer.ggml.scores", SLUICE_GGUF_F32, v.scores->len,
                          v.scores->data, v.scores->len * sizeof(float));
    gguf_writer_array(w, "tokenizer.ggml.token_type", SLUICE_GGUF_I32, v.types->len, v.types->data,
                      v.types->len * sizeof(int32_t));
    if (!is_spm) {
        bool has_merges = v.texts->len > 256;
        gguf_writer_strings(w, "tokenizer.ggml.merges", has_merges ? G_N_ELEMENTS(merges) : 0);
        for (size_t i = 0; has_merges && i < G_N_ELEMENTS(merges); i++)
            gguf_writer_item(w, merges[i], -1);
    }
    if (is_spm) {
        gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", is_phi3 ? 1 : 2);
        gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", is_phi3 ? 2 : 1);
        gguf_writer_u32(w, "tokenizer.ggml.unknown_token_id", is_phi3 ? 0 : 3);
        gguf_writer_u32(w, "tokenizer.ggml.padding_token_id", is_phi3 ? 3 : 0);
        gguf_writer_u32(w, "tokenizer.ggml.eot_token_id", 5);
    } else {
        gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", n >= 3 ? n - 3 : 0);
        gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", n - 1);
    }
    gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", is_spm);
    gguf_writer_bool(w, "tokenizer.ggml.add_eos_token", false);
    gguf_writer_bool(w, "tokenizer.ggml.add_space_prefix", false);
    gguf_writer_string(w, "tokenizer.chat_template",
                       is_phi3  ? phi3_template
                       : is_spm ? gemma_template
                                : bpe_template);
    g_ptr_array_unref(v.texts);
    g_array_unref(v.types);
    g_array_unref(v.scores);
}

/* ---- the file --------------------------------------------------------------------------- */

/* Elements drawn at a time; whole numbers of 8 blocks of any type. */
enum { CHUNK = 1 << 19 };

static bool
write_tensor(FILE *file, const ModelSpec *spec, const Tensor *t, uint32_t alignment,
             uint8_t *buffer)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(t->dtype);
    int64_t n_elements = t->ne[0] * t->ne[1] * t->ne[2];
    size_t n_written = 0;
    ModelWeights m;
    static const uint8_t zeros[64];

    model_weights_init(&m, t->name, t->dtype, t->ne[0], n_elements, spec->is_tied, spec->seed);
    for (int64_t i = 0; i < n_elements; i += CHUNK) {
        int64_t n = MIN(CHUNK, n_elements - i);
        size_t n_bytes = (size_t) (n / info->block_len * info->block_bytes);
        model_weights_fill(&m, i, n, buffer);
        if (fwrite(buffer, 1, n_bytes, file) != n_bytes)
            return false;
        n_written += n_bytes;
    }
    size_t n_pad = (alignment - n_written % alignment) % alignment;
    return fwrite(zeros, 1, n_pad, file) == n_pad;
}

static bool
write_data(FILE *file, const Builder *b, const GgufWriter *w, size_t n_head)
{
    g_autofree uint8_t *buffer = NULL;

    if (b->spec->is_hollow)
        return fflush(file) == 0 && ftruncate(fileno(file), (off_t) (n_head + w->data_bytes)) == 0;
    buffer = g_malloc(CHUNK * sizeof(double));
    for (guint i = 0; i < b->tensors->len; i++) {
        if (!write_tensor(file, b->spec, &g_array_index(b->tensors, Tensor, i), w->alignment,
                          buffer))
            return false;
    }
    return true;
}

static gboolean
check_spec(const ModelSpec *s, GError **error)
{
    const char *wrong = NULL;

    if (s->n_layers < 1 || s->n_embd < 1 || s->n_head < 1 || s->head_dim < 1 || s->n_vocab < 1 ||
        s->n_context < 1 || s->n_ff < 0 || s->n_nextn < 0)
        wrong = "a size is not positive";
    else if (s->n_head_kv < 1 || s->n_head % s->n_head_kv != 0)
        wrong = "the heads are no multiple of the KV heads";
    else if (rotated(s) % 2 != 0 || rotated(s) > s->head_dim)
        wrong = "the rotated elements are odd or more than a head has";
    else if (s->n_expert > 0 &&
             (s->n_expert_ff < 1 || s->n_expert_used < 1 || s->n_expert_used > s->n_expert))
        wrong = "the experts do not fit together";
    else if (s->n_expert == 0 && s->n_ff < 1)
        wrong = "a dense model needs a feed-forward width";
    else if (s->ssm_state > 0 && (s->ssm_groups < 1 || s->ssm_heads % s->ssm_groups != 0 ||
                                  s->ssm_conv < 1 || s->interval < 1))
        wrong = "the recurrent heads do not fit together";
    else if (s->n_nextn >= s->n_layers)
        wrong = "there are no layers but prediction blocks";
    if (wrong == NULL)
        return TRUE;
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "no such model: %s", wrong);
    return FALSE;
}

gboolean
model_write(const ModelSpec *spec, const char *path, GError **error)
{
    Builder b = {.spec = spec, .traits = find_family(spec->arch)->traits};
    g_autoptr(GgufWriter) w = gguf_writer_new();
    g_autofree char *name = g_strdup_printf("random %s", spec->arch);
    bool is_done = false;
    FILE *file;

    if (!check_spec(spec, error))
        return FALSE;
    b.tensors = g_array_new(FALSE, TRUE, sizeof(Tensor));
    g_array_set_clear_func(b.tensors, clear_tensor);
    add_tensors(&b);
    choose_types(&b);
    gguf_writer_string(w, "general.architecture", spec->arch);
    gguf_writer_string(w, "general.type", "model");
    gguf_writer_string(w, "general.name", name);
    gguf_writer_u32(w, "general.quantization_version", 2);
    gguf_writer_alignment(w, 32);
    put_hypers(w, spec, b.traits);
    put_vocabulary(w, spec, b.traits);
    for (guint i = 0; i < b.tensors->len; i++) {
        const Tensor *t = &g_array_index(b.tensors, Tensor, i);
        gguf_writer_tensor(w, t->name, t->dtype, t->n_dims, t->ne);
    }
    g_autoptr(GByteArray) head = gguf_writer_head(w);
    file = fopen(path, "wb");
    if (file != NULL) {
        is_done = fwrite(head->data, 1, head->len, file) == head->len &&
                  write_data(file, &b, w, head->len);
        is_done = fclose(file) == 0 && is_done;
    }
    if (!is_done) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "cannot write '%s': %s", path,
                    g_strerror(errno));
        if (file != NULL)
            g_unlink(path);
    }
    g_array_unref(b.tensors);
    return is_done;
}
