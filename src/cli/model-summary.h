/* SPDX-License-Identifier: MIT */
/*
 * What a person wants to know about a model file, from its metadata and its table of tensors
 * alone: no weight is read, and the family need not be one that can be run.
 */
#pragma once

#include "src/format/gguf.h"

G_BEGIN_DECLS

typedef enum {
    SLUICE_TENSOR_EMBEDDING,
    SLUICE_TENSOR_HEAD,
    SLUICE_TENSOR_ATTENTION,
    SLUICE_TENSOR_DELTANET,
    SLUICE_TENSOR_DENSE_FFN,
    SLUICE_TENSOR_EXPERTS,
    SLUICE_TENSOR_SHARED_EXPERTS,
    SLUICE_TENSOR_ROUTER,
    SLUICE_TENSOR_NORMS,
    SLUICE_TENSOR_PREDICTION, /* blocks that guess tokens ahead, with all that they hold */
    SLUICE_TENSOR_OTHER,
    SLUICE_TENSOR_CLASS_COUNT,
} SluiceTensorClass;

typedef struct {
    size_t n_tensors;
    uint64_t n_bytes;
} SluiceTensorSum;

/* Strings are printable UTF-8, NULL where the file says nothing; numbers are then 0. */
typedef struct {
    char *arch;
    char *name;
    char *kind; /* general.type: "model", "adapter", ... */
    uint64_t n_file_bytes;
    uint64_t n_bytes;         /* of all tensors, without padding */
    uint64_t n_params;        /* elements of all tensors */
    uint64_t n_active_params; /* of those, used for a token: not the experts that it passes by */
    SluiceTensorSum classes[SLUICE_TENSOR_CLASS_COUNT];
    SluiceTensorSum types[SLUICE_DTYPE_COUNT];

    uint32_t n_layers; /* without prediction blocks */
    uint32_t n_attention_layers;
    uint32_t n_recurrent_layers;
    uint64_t n_experts;
    uint64_t n_experts_used;
    uint64_t n_context;             /* that the model was made for */
    uint64_t kv_token_bytes;        /* keys and values of a token in f16, layers that see all */
    uint64_t kv_window_token_bytes; /* the same of layers that see only a window */
    uint64_t n_window;              /* in tokens */
    uint64_t recurrent_bytes;       /* of a sequence, whatever its length */

    char *tokenizer;
    char *pretokenizer;
    uint64_t n_tokens;
    char *template_line;         /* its first line that is not empty */
    const char *template_family; /* by the markers in it; NULL: none that is known */
    uint64_t n_template_bytes;
} SluiceModelSummary;

void sluice_model_summary_init(SluiceModelSummary *summary, const SluiceGguf *gguf);
void sluice_model_summary_clear(SluiceModelSummary *summary);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SluiceModelSummary, sluice_model_summary_clear)

const char *sluice_tensor_class_name(SluiceTensorClass tensor_class);
/* Keys and values of @n_tokens in f16, counting a window as full where it is. */
uint64_t sluice_model_summary_kv_bytes(const SluiceModelSummary *summary, uint64_t n_tokens);
/* 0 without tensors. */
double sluice_model_summary_bits(const SluiceModelSummary *summary);

G_END_DECLS
