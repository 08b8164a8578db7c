/* SPDX-License-Identifier: MIT */
/*
 * The figures of a model file. A key of a wrong type counts as absent here: what stands in the
 * way of running a model is said by whoever opens it to be run.
 * Source of names and rules: the families' tensors and keys as converters write them.
 */
#include "config.h"

#include "src/cli/model-summary.h"

#include "src/core/error.h"

#include <stdio.h>
#include <string.h>

/* Beyond any model, and small enough to keep a record of each. */
#define MAX_LAYERS 65536u

typedef struct {
    uint64_t k_width; /* elements of a token's keys; 0: no attention */
    uint64_t v_width;
    bool has_fused_qkv;
    bool is_recurrent;
    uint64_t conv_elements; /* taps times channels of the convolution */
} LayerFacts;

/* ---- metadata --------------------------------------------------------------------------- */

static char *
read_text(const SluiceGguf *gguf, const char *key)
{
    SluiceGgufString text = {NULL, 0};

    if (!sluice_gguf_string(gguf, key, &text, NULL) || text.data == NULL)
        return NULL;
    return sluice_error_printable(text.data, (gssize) text.n_bytes);
}

/* "<family>.<key>", 0 if there is no such number. */
static uint64_t
read_hyper(const SluiceGguf *gguf, const SluiceModelSummary *s, const char *key)
{
    g_autofree char *full = g_strdup_printf("%s.%s", s->arch != NULL ? s->arch : "", key);
    uint64_t value = 0;

    return sluice_gguf_uint(gguf, full, UINT32_MAX, &value, NULL) ? value : 0;
}

/* The same where a key may hold a number for each layer; the last layer's stands for later ones. */
static uint64_t
read_layer_hyper(const SluiceGguf *gguf, const SluiceModelSummary *s, const char *key,
                 uint32_t layer)
{
    g_autofree char *full = g_strdup_printf("%s.%s", s->arch != NULL ? s->arch : "", key);
    size_t n_items;
    g_autofree int64_t *items = sluice_gguf_int_array(gguf, full, &n_items, NULL);

    if (items == NULL || n_items == 0)
        return read_hyper(gguf, s, key);
    int64_t value = items[MIN(layer, n_items - 1)];
    return value > 0 && value <= UINT32_MAX ? (uint64_t) value : 0;
}

/* Sizes from a file may be anything; what overflows is not known, which is 0. */
static uint64_t
multiply(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? 0 : product;
}

/* ---- tensors by what they are for ------------------------------------------------------- */

/* The layer of "blk.<layer>.<rest>", with the rest, or -1 and the whole name. */
static int64_t
split_name(const char *name, const char **rest)
{
    char *end;
    guint64 layer;

    *rest = name;
    if (!g_str_has_prefix(name, "blk.") || !g_ascii_isdigit(name[4]))
        return -1;
    layer = g_ascii_strtoull(name + 4, &end, 10);
    if (*end != '.' || layer >= MAX_LAYERS)
        return -1;
    *rest = end + 1;
    return (int64_t) layer;
}

static SluiceTensorClass
classify_outside(const char *name)
{
    if (g_str_has_prefix(name, "token_embd."))
        return SLUICE_TENSOR_EMBEDDING;
    if (g_str_has_prefix(name, "output."))
        return SLUICE_TENSOR_HEAD;
    if (g_str_has_suffix(name, "_norm.weight"))
        return SLUICE_TENSOR_NORMS;
    return SLUICE_TENSOR_OTHER;
}

/* @name without its block. The norms inside attention and DeltaNet are counted with those. */
static SluiceTensorClass
classify_inside(const char *name, bool is_recurrent)
{
    if (g_str_has_prefix(name, "attn_norm.") || g_str_has_prefix(name, "ffn_norm.") ||
        g_str_has_prefix(name, "post_"))
        return SLUICE_TENSOR_NORMS;
    if (g_str_has_prefix(name, "ssm_"))
        return SLUICE_TENSOR_DELTANET;
    if (g_str_has_prefix(name, "attn_"))
        return is_recurrent ? SLUICE_TENSOR_DELTANET : SLUICE_TENSOR_ATTENTION;
    if (strstr(name, "_shexp.") != NULL)
        return SLUICE_TENSOR_SHARED_EXPERTS;
    if (strstr(name, "_exps.") != NULL)
        return SLUICE_TENSOR_EXPERTS;
    if (g_str_has_prefix(name, "ffn_gate_inp.") || g_str_has_prefix(name, "exp_probs_b"))
        return SLUICE_TENSOR_ROUTER;
    if (g_str_has_prefix(name, "ffn_"))
        return SLUICE_TENSOR_DENSE_FFN;
    return SLUICE_TENSOR_OTHER;
}

static uint64_t
count_elements(const SluiceGgufTensor *t)
{
    return (uint64_t) t->ne[0] * (uint64_t) t->ne[1] * (uint64_t) t->ne[2] * (uint64_t) t->ne[3];
}

static void
note_layer(LayerFacts *layer, const char *rest, const SluiceGgufTensor *t)
{
    if (strcmp(rest, "attn_k.weight") == 0)
        layer->k_width = (uint64_t) t->ne[1];
    else if (strcmp(rest, "attn_v.weight") == 0)
        layer->v_width = (uint64_t) t->ne[1];
    else if (strcmp(rest, "attn_qkv.weight") == 0)
        layer->has_fused_qkv = true;
    else if (strcmp(rest, "ssm_conv1d.weight") == 0)
        layer->conv_elements = count_elements(t);
    else if (strcmp(rest, "ssm_a") == 0 || strcmp(rest, "ssm_out.weight") == 0)
        layer->is_recurrent = true;
}

static GArray *
collect_layers(const SluiceGguf *gguf)
{
    GArray *layers = g_array_new(FALSE, TRUE, sizeof(LayerFacts));

    for (size_t i = 0; i < sluice_gguf_n_tensors(gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(gguf, i);
        const char *rest;
        int64_t layer = split_name(t->name, &rest);
        if (layer < 0)
            continue;
        if (layer >= layers->len)
            g_array_set_size(layers, (guint) layer + 1);
        note_layer(&g_array_index(layers, LayerFacts, layer), rest, t);
    }
    return layers;
}

static void
sum_tensors(SluiceModelSummary *s, const SluiceGguf *gguf, const GArray *layers)
{
    uint64_t n_expert_params = 0;

    for (size_t i = 0; i < sluice_gguf_n_tensors(gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(gguf, i);
        const char *rest;
        int64_t layer = split_name(t->name, &rest);
        SluiceTensorClass class;
        if (layer < 0)
            class = classify_outside(t->name);
        else if (layer >= s->n_layers)
            class = SLUICE_TENSOR_PREDICTION;
        else
            class = classify_inside(rest, g_array_index(layers, LayerFacts, layer).is_recurrent);
        s->classes[class].n_tensors++;
        s->classes[class].n_bytes += t->n_bytes;
        s->types[t->dtype].n_tensors++;
        s->types[t->dtype].n_bytes += t->n_bytes;
        s->n_bytes += t->n_bytes;
        s->n_params += count_elements(t);
        if (class == SLUICE_TENSOR_EXPERTS)
            n_expert_params += count_elements(t);
        else if (class != SLUICE_TENSOR_PREDICTION)
            s->n_active_params += count_elements(t);
    }
    if (s->n_experts > 0)
        s->n_active_params += n_expert_params / s->n_experts * MIN(s->n_experts_used, s->n_experts);
}

/* ---- memory of a conversation ----------------------------------------------------------- */

/* Layers that see a window only: all but every n-th, unless a key says which. */
static bool
is_windowed(const SluiceGguf *gguf, const SluiceModelSummary *s, uint32_t layer)
{
    static const struct {
        const char *arch;
        uint64_t period;
    } families[] = {{"gemma2", 2}, {"gemma3", 6}, {"gpt-oss", 2}};
    g_autofree char *key =
        g_strdup_printf("%s.attention.sliding_window_pattern", s->arch != NULL ? s->arch : "");
    const SluiceGgufEntry *entry = sluice_gguf_find(gguf, key);
    uint64_t period = 0;

    if (s->n_window == 0)
        return false;
    if (entry != NULL && entry->type == SLUICE_GGUF_ARRAY)
        return read_layer_hyper(gguf, s, "attention.sliding_window_pattern", layer) != 0;
    for (size_t i = 0; i < G_N_ELEMENTS(families); i++) {
        if (g_strcmp0(s->arch, families[i].arch) == 0)
            period = families[i].period;
    }
    /* Other families carry the key and ignore it. */
    if (period == 0)
        return false;
    if (entry != NULL)
        sluice_gguf_uint(gguf, key, MAX_LAYERS, &period, NULL);
    return period > 0 && layer % period != period - 1;
}

static void
count_attention(SluiceModelSummary *s, const SluiceGguf *gguf, const LayerFacts *facts,
                uint32_t layer)
{
    uint64_t width = facts->k_width + facts->v_width;

    if (facts->has_fused_qkv) {
        uint64_t n_head = read_layer_hyper(gguf, s, "attention.head_count", layer);
        uint64_t n_head_kv = read_layer_hyper(gguf, s, "attention.head_count_kv", layer);
        uint64_t key = read_hyper(gguf, s, "attention.key_length");
        uint64_t value = read_hyper(gguf, s, "attention.value_length");
        uint64_t derived = n_head > 0 ? read_hyper(gguf, s, "embedding_length") / n_head : 0;
        width = multiply(n_head_kv > 0 ? n_head_kv : n_head,
                         (key > 0 ? key : derived) + (value > 0 ? value : derived));
    }
    s->n_attention_layers++;
    /* Two bytes an element. */
    if (is_windowed(gguf, s, layer))
        s->kv_window_token_bytes += multiply(width, 2);
    else
        s->kv_token_bytes += multiply(width, 2);
}

static void
count_recurrent(SluiceModelSummary *s, const SluiceGguf *gguf, const LayerFacts *facts)
{
    uint64_t n_heads = read_hyper(gguf, s, "ssm.time_step_rank");
    uint64_t head = read_hyper(gguf, s, "ssm.state_size");
    uint64_t taps = read_hyper(gguf, s, "ssm.conv_kernel");
    uint64_t channels = taps > 0 ? facts->conv_elements / taps : 0;

    s->n_recurrent_layers++;
    /* A matrix per head, and the convolution's inputs but the current one, in float32. */
    s->recurrent_bytes += multiply(multiply(multiply(n_heads, head), head), sizeof(float));
    s->recurrent_bytes += multiply(multiply(taps > 0 ? taps - 1 : 0, channels), sizeof(float));
}

static void
count_memory(SluiceModelSummary *s, const SluiceGguf *gguf, const GArray *layers)
{
    for (uint32_t i = 0; i < s->n_layers; i++) {
        const LayerFacts *facts = &g_array_index(layers, LayerFacts, i);
        if (facts->is_recurrent)
            count_recurrent(s, gguf, facts);
        else if (facts->k_width > 0 || facts->has_fused_qkv)
            count_attention(s, gguf, facts, i);
    }
}

/* ---- text ------------------------------------------------------------------------------- */

/* Whether @marker occurs in text that need not be terminated. */
static bool
contains(SluiceGgufString text, const char *marker)
{
    return memmem(text.data, text.n_bytes, marker, strlen(marker)) != NULL;
}

static void
read_template(SluiceModelSummary *s, const SluiceGguf *gguf)
{
    static const struct {
        const char *marker;
        const char *family;
    } families[] = {
        {"<|start|>", "Harmony (gpt-oss)"},
        {"<|im_start|>", "ChatML"},
        {"<start_of_turn>", "Gemma"},
        {"<|start_header_id|>", "Llama 3"},
        {"[INST]", "Mistral"},
        {"<|assistant|>", "Phi-3"},
    };
    SluiceGgufString text = {NULL, 0};

    if (!sluice_gguf_string(gguf, "tokenizer.chat_template", &text, NULL) || text.data == NULL)
        return;
    s->n_template_bytes = text.n_bytes;
    for (size_t i = 0; i < G_N_ELEMENTS(families) && s->template_family == NULL; i++) {
        if (contains(text, families[i].marker))
            s->template_family = families[i].family;
    }
    const char *line = text.data;
    const char *end = text.data + text.n_bytes;
    while (line < end && g_ascii_isspace(*line))
        line++;
    const char *stop = memchr(line, '\n', (size_t) (end - line));
    s->template_line = sluice_error_printable(line, (stop != NULL ? stop : end) - line);
}

static uint64_t
count_items(const SluiceGguf *gguf, const char *key)
{
    const SluiceGgufEntry *entry = sluice_gguf_find(gguf, key);

    return entry != NULL && entry->type == SLUICE_GGUF_ARRAY ? entry->n_items : 0;
}

/* ---- the whole -------------------------------------------------------------------------- */

/**
 * sluice_model_summary_init:
 * @summary: (out): the figures
 * @gguf: a model file
 *
 * Gathers what sluice_model_summary_clear() later frees. Cost: O(number of tensors and layers).
 */
void
sluice_model_summary_init(SluiceModelSummary *summary, const SluiceGguf *gguf)
{
    SluiceModelSummary *s = summary;
    g_autoptr(GArray) layers = collect_layers(gguf);

    *s = (SluiceModelSummary){0};
    s->arch = read_text(gguf, "general.architecture");
    s->name = read_text(gguf, "general.name");
    s->kind = read_text(gguf, "general.type");
    for (int i = 0; i < sluice_gguf_n_files(gguf); i++)
        s->n_file_bytes += sluice_gguf_file_bytes(gguf, i);
    s->n_context = read_hyper(gguf, s, "context_length");
    s->n_window = read_hyper(gguf, s, "attention.sliding_window");
    s->n_experts = read_hyper(gguf, s, "expert_count");
    s->n_experts_used = read_hyper(gguf, s, "expert_used_count");

    uint64_t n_blocks = read_hyper(gguf, s, "block_count");
    uint64_t n_nextn = read_hyper(gguf, s, "nextn_predict_layers");
    s->n_layers = layers->len;
    if (n_nextn > 0 && n_nextn <= n_blocks && n_blocks - n_nextn < s->n_layers)
        s->n_layers = (uint32_t) (n_blocks - n_nextn);
    sum_tensors(s, gguf, layers);
    count_memory(s, gguf, layers);

    s->tokenizer = read_text(gguf, "tokenizer.ggml.model");
    s->pretokenizer = read_text(gguf, "tokenizer.ggml.pre");
    s->n_tokens = count_items(gguf, "tokenizer.ggml.tokens");
    read_template(s, gguf);
}

/**
 * sluice_model_summary_clear:
 * @summary: the figures
 *
 * Frees the strings in it.
 */
void
sluice_model_summary_clear(SluiceModelSummary *summary)
{
    g_clear_pointer(&summary->arch, g_free);
    g_clear_pointer(&summary->name, g_free);
    g_clear_pointer(&summary->kind, g_free);
    g_clear_pointer(&summary->tokenizer, g_free);
    g_clear_pointer(&summary->pretokenizer, g_free);
    g_clear_pointer(&summary->template_line, g_free);
}

/**
 * sluice_tensor_class_name:
 * @tensor_class: one of them
 *
 * Returns: its name for people; programs see it with underscores
 */
const char *
sluice_tensor_class_name(SluiceTensorClass tensor_class)
{
    static const char *const names[SLUICE_TENSOR_CLASS_COUNT] = {
        [SLUICE_TENSOR_EMBEDDING] = "embedding",
        [SLUICE_TENSOR_HEAD] = "head",
        [SLUICE_TENSOR_ATTENTION] = "attention",
        [SLUICE_TENSOR_DELTANET] = "deltanet",
        [SLUICE_TENSOR_DENSE_FFN] = "dense ffn",
        [SLUICE_TENSOR_EXPERTS] = "experts",
        [SLUICE_TENSOR_SHARED_EXPERTS] = "shared experts",
        [SLUICE_TENSOR_ROUTER] = "router",
        [SLUICE_TENSOR_NORMS] = "norms",
        [SLUICE_TENSOR_PREDICTION] = "prediction",
        [SLUICE_TENSOR_OTHER] = "other",
    };

    g_assert((unsigned) tensor_class < SLUICE_TENSOR_CLASS_COUNT);
    return names[tensor_class];
}

/**
 * sluice_model_summary_kv_bytes:
 * @summary: the figures
 * @n_tokens: length of a conversation
 *
 * Returns: the bytes of its keys and values in f16
 */
uint64_t
sluice_model_summary_kv_bytes(const SluiceModelSummary *summary, uint64_t n_tokens)
{
    return multiply(summary->kv_token_bytes, n_tokens) +
           multiply(summary->kv_window_token_bytes, MIN(n_tokens, summary->n_window));
}

/**
 * sluice_model_summary_bits:
 * @summary: the figures
 *
 * Returns: bits per weight over all tensors
 */
double
sluice_model_summary_bits(const SluiceModelSummary *summary)
{
    return summary->n_params > 0 ? 8.0 * (double) summary->n_bytes / (double) summary->n_params : 0;
}
