/* SPDX-License-Identifier: MIT */
/*
 * Random models of any family and shape, as GGUF files: the metadata, tensor names and shapes that
 * real files have, a small vocabulary, and weights from model_weights.h. Files are written as they
 * are drawn; a hollow one leaves the weights a hole, which takes no room and no time.
 */
#pragma once

#include <glib.h>

#include "src/core/tensor.h"

typedef struct {
    const char *arch; /* general.architecture */
    int n_layers;     /* with the n_nextn prediction blocks */
    int n_embd;
    int n_head;
    int n_head_kv;
    int head_dim;
    int n_ff; /* of a dense layer */
    int n_vocab;
    int n_expert; /* 0: dense */
    int n_expert_used;
    int n_expert_ff;
    int n_shared_ff; /* 0: no shared expert */
    int ssm_state;   /* head size of the recurrent layers */
    int ssm_groups;  /* key heads */
    int ssm_heads;   /* value heads */
    int ssm_conv;
    int interval; /* every interval-th layer has full attention */
    int n_nextn;
    int n_window; /* tokens; 0: none */
    int n_rot;    /* rotated elements of a head */
    int n_context;
    double rope_base;
    double rms_eps;
    bool is_tied;
    bool has_rope_factors; /* llama and phi3 */

    int type;        /* a SluiceDtype */
    int down_type;   /* of ffn_down*; -1: as type */
    int head_type;   /* of output; -1: as type */
    int embd_type;   /* of token_embd; -1: as type */
    int expert_type; /* of the routed experts; -1: as type */
    bool is_q4_k_m;  /* the stock mix; the types above but expert_type do not count */
    uint64_t seed;
    bool is_hollow;
    const char *pre; /* NULL: what the family uses */
} ModelSpec;

/* A tiny model of a family. %FALSE if nobody knows it. */
gboolean model_spec_init(ModelSpec *spec, const char *arch);
/* A real model's shape: smollm2, gemma3-270m, llama-8b, qwen2-1.5b, qwen2-7b, qwen3-30b-a3b,
 * qwen36-35b-a3b or gpt-oss-20b. */
gboolean model_spec_preset(ModelSpec *spec, const char *name);
gboolean model_write(const ModelSpec *spec, const char *path, GError **error);
