/* SPDX-License-Identifier: MIT */
/*
 * The one header that a user of the library includes.
 *
 *   SluiceModel   a model file: hyper-parameters, vocabulary, chat template; no weights in memory
 *   SluiceEngine  a model's weights in memory and a processor to run it on
 *   SluiceSession one conversation: its tokens and its place in the engine's KV cache
 *   SluiceSampler how the next token is drawn
 *
 * An engine and its sessions belong to one thread at a time; sluice_session_cancel() alone may be
 * called from any thread, and from a signal handler.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

G_BEGIN_DECLS

#ifndef SLUICE_API
#define SLUICE_API __attribute__((visibility("default")))
#endif

#define SLUICE_ERROR (sluice_error_quark())
SLUICE_API GQuark sluice_error_quark(void);

/**
 * SluiceError:
 * @SLUICE_ERROR_FILE: a file cannot be opened, read or written
 * @SLUICE_ERROR_FORMAT: a file is not what it should be: truncated, hostile or foreign
 * @SLUICE_ERROR_MODEL: a well-formed file whose model cannot be used: family, tensor, shape, type
 * @SLUICE_ERROR_MEMORY: memory is not to be had; the message has the size
 * @SLUICE_ERROR_CONTEXT: the prompt or the answer does not fit the context
 * @SLUICE_ERROR_ARGUMENT: a value given by the user is out of range or not understood
 * @SLUICE_ERROR_TEMPLATE: a chat template does not parse, does not render, or hits a limit
 * @SLUICE_ERROR_DEVICE: a device or its driver failed
 * @SLUICE_ERROR_CANCELLED: the caller asked to stop
 *
 * Codes group what a caller can do about a failure; the message carries the subject, the value and
 * its limit.
 */
typedef enum {
    SLUICE_ERROR_FILE,
    SLUICE_ERROR_FORMAT,
    SLUICE_ERROR_MODEL,
    SLUICE_ERROR_MEMORY,
    SLUICE_ERROR_CONTEXT,
    SLUICE_ERROR_ARGUMENT,
    SLUICE_ERROR_TEMPLATE,
    SLUICE_ERROR_DEVICE,
    SLUICE_ERROR_CANCELLED,
} SluiceError;

/* ---- model ---------------------------------------------------------------------------------- */

typedef struct _SluiceModel SluiceModel;

SLUICE_API SluiceModel *sluice_model_open(const char *path, GError **error);
SLUICE_API SluiceModel *sluice_model_ref(SluiceModel *model);
SLUICE_API void sluice_model_unref(SluiceModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceModel, sluice_model_unref)

SLUICE_API const char *sluice_model_family(const SluiceModel *model);
SLUICE_API const char *sluice_model_name(const SluiceModel *model); /* printable; may be "" */
SLUICE_API char *sluice_model_type(const SluiceModel *model); /* as benches print: "llama 134.52M Q4_1" */
SLUICE_API uint64_t sluice_model_n_params(const SluiceModel *model);
SLUICE_API uint64_t sluice_model_n_bytes(const SluiceModel *model); /* of all tensors */
SLUICE_API int32_t sluice_model_n_vocab(const SluiceModel *model); /* rows of the output head */
SLUICE_API int32_t sluice_model_n_ctx_train(const SluiceModel *model);

/* ---- text ----------------------------------------------------------------------------------- */

typedef enum {
    SLUICE_TOKENIZE_ADD_SPECIAL = 1 << 0,   /* BOS and EOS where the model adds them */
    SLUICE_TOKENIZE_PARSE_SPECIAL = 1 << 1, /* control tokens written out in the text count */
} SluiceTokenizeFlags;

/* (transfer full): int32 ids. */
SLUICE_API GArray *sluice_model_tokenize(const SluiceModel *model, const char *text, gssize n_bytes,
                                         SluiceTokenizeFlags flags, GError **error);
/* (transfer full): the text of a whole sequence, valid UTF-8. */
SLUICE_API char *sluice_model_detokenize(const SluiceModel *model, const int32_t *tokens, gsize n,
                                         gboolean show_special, gsize *n_bytes);
/* The bytes of one token inside a text; a character may be spread over several tokens. */
SLUICE_API void sluice_model_append_token(const SluiceModel *model, int32_t token,
                                          gboolean show_special, GString *out);
/* FALSE: sluice_model_chat_tokens() has nothing to render with. */
SLUICE_API bool sluice_model_has_chat_template(const SluiceModel *model);
SLUICE_API bool sluice_model_is_end(const SluiceModel *model, int32_t token);
SLUICE_API int32_t sluice_model_bos(const SluiceModel *model); /* -1: none */
SLUICE_API bool sluice_model_adds_bos(const SluiceModel *model);

/*
 * Renders messages, a JSON array of {"role": …, "content": …}, in the model's own chat template
 * and tokenizes the result; markup that came with the messages is text, not control.
 */
typedef struct {
    const char *messages_json;
    const char *tools_json;   /* or NULL */
    gboolean add_generation_prompt;
    int enable_thinking;      /* -1: the template's own default */
} SluiceChatRequest;

SLUICE_API GArray *sluice_model_chat_tokens(const SluiceModel *model, const SluiceChatRequest *request,
                                            char **rendered, GError **error);

/* ---- engine --------------------------------------------------------------------------------- */

typedef enum {
    SLUICE_KV_F16,
    SLUICE_KV_Q8_0,
    SLUICE_KV_Q4_0,
    SLUICE_KV_F32,
} SluiceKvType;

typedef enum {
    SLUICE_LOAD_AUTO,   /* into memory of our own when it fits, mapped otherwise */
    SLUICE_LOAD_MEMORY, /* --no-mmap */
    SLUICE_LOAD_MAP,    /* --mmap */
} SluiceLoadMode;

typedef void (*SluiceProgressFunc)(uint64_t n_bytes_done, uint64_t n_bytes, gpointer user_data);

typedef struct {
    int32_t n_ctx;           /* per session; 0: the model's own, at most 8192 */
    int32_t n_batch;         /* tokens handed to eval at once; 0: 2048 */
    int32_t n_ubatch;        /* rows of a step; 0: 512 */
    int32_t n_sessions;      /* that can exist at once; 0: 1 */
    int32_t n_out;           /* rows whose logits one step can give; 0: a default */
    int n_threads;           /* 0: one per physical performance core */
    int n_threads_batch;     /* 0: as n_threads */
    SluiceKvType type_k;
    SluiceKvType type_v;
    SluiceLoadMode load_mode;
    gboolean lock_memory;    /* --mlock */
    SluiceProgressFunc progress; /* while weights are read; or NULL */
    gpointer progress_data;
} SluiceEngineParams;

/* What an engine takes, in bytes. Counted by the functions that allocate. */
typedef struct {
    uint64_t weights;     /* in memory of our own */
    uint64_t mapped;      /* weights that stay in the file's mapping */
    uint64_t kv;
    uint64_t state;       /* recurrent */
    uint64_t activations;
    uint64_t scratch;
    uint64_t vocabulary;  /* tokenizer tables, and the metadata that they point into */
    uint64_t process;     /* what the process has besides: code, libraries, its own heap */
    uint64_t total;       /* of all these but mapped */
} SluiceMemory;

typedef struct _SluiceEngine SluiceEngine;

SLUICE_API void sluice_engine_params_init(SluiceEngineParams *params);
/* Touches no weight. */
SLUICE_API gboolean sluice_engine_memory(SluiceModel *model, const SluiceEngineParams *params,
                                         SluiceMemory *memory, GError **error);
SLUICE_API SluiceEngine *sluice_engine_new(SluiceModel *model, const SluiceEngineParams *params,
                                           GError **error);
SLUICE_API void sluice_engine_free(SluiceEngine *engine);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceEngine, sluice_engine_free)
SLUICE_API SluiceModel *sluice_engine_model(SluiceEngine *engine);
SLUICE_API int32_t sluice_engine_n_ctx(const SluiceEngine *engine);
SLUICE_API int sluice_engine_n_threads(const SluiceEngine *engine);
SLUICE_API char *sluice_engine_describe(SluiceEngine *engine); /* words for -v */

/* ---- session -------------------------------------------------------------------------------- */

typedef struct _SluiceSession SluiceSession;

SLUICE_API SluiceSession *sluice_session_new(SluiceEngine *engine, GError **error);
SLUICE_API void sluice_session_free(SluiceSession *session);
SLUICE_API SluiceEngine *sluice_session_engine(SluiceSession *session);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceSession, sluice_session_free)

/* Appends tokens; afterwards the logits behind the last of them can be read. On failure or
 * cancellation the session holds what was evaluated in full micro-batches. */
SLUICE_API gboolean sluice_session_eval(SluiceSession *session, const int32_t *tokens, gsize n,
                                        GError **error);
/* Makes the session hold exactly these tokens: keeps the common prefix, drops what differs,
 * evaluates the rest (at least the last one). n_evaluated may be NULL. */
SLUICE_API gboolean sluice_session_prompt(SluiceSession *session, const int32_t *tokens, gsize n,
                                          gsize *n_evaluated, GError **error);
/* As eval, handing the logits of every token with index >= first to `logits`
 * [n - first, n_vocab]; for perplexity and tests. */
SLUICE_API gboolean sluice_session_eval_logits(SluiceSession *session, const int32_t *tokens,
                                               gsize n, gsize first, float *logits, GError **error);

/* Several sequences in one batch. */
typedef struct {
    SluiceSession *session;
    const int32_t *tokens;
    gsize n_tokens;
} SluiceEvalItem;
SLUICE_API gboolean sluice_engine_eval(SluiceEngine *engine, const SluiceEvalItem *items,
                                       gsize n_items, GError **error);

/* [n_vocab], valid until the next evaluation of the session; NULL before the first. */
SLUICE_API const float *sluice_session_logits(const SluiceSession *session);
SLUICE_API const int32_t *sluice_session_tokens(const SluiceSession *session, gsize *n);
SLUICE_API gboolean sluice_session_truncate(SluiceSession *session, gsize n_tokens, GError **error);
SLUICE_API SluiceSession *sluice_session_fork(SluiceSession *session, GError **error);
SLUICE_API gboolean sluice_session_save(SluiceSession *session, const char *path, GError **error);
SLUICE_API gboolean sluice_session_load(SluiceSession *session, const char *path, GError **error);
SLUICE_API void sluice_session_cancel(SluiceSession *session);

/* ---- sampling ------------------------------------------------------------------------------- */

typedef struct {
    float temperature;       /* 0.8; <= 0: the largest logit */
    float dynatemp_range;    /* 0 */
    float dynatemp_exponent; /* 1 */
    int32_t top_k;           /* 40; <= 0: all */
    float top_p;             /* 0.95 */
    float min_p;             /* 0.05 */
    float typical_p;         /* 1 */
    float top_n_sigma;       /* -1 */
    float xtc_probability;   /* 0 */
    float xtc_threshold;     /* 0.1 */
    float repeat_penalty;    /* 1 */
    float frequency_penalty; /* 0 */
    float presence_penalty;  /* 0 */
    int32_t penalty_last_n;  /* 64; -1: the whole context */
    float dry_multiplier;    /* 0 */
    float dry_base;          /* 1.75 */
    int32_t dry_allowed_length; /* 2 */
    int32_t dry_last_n;      /* 64 */
    int32_t mirostat;        /* 0, 1 or 2 */
    float mirostat_tau;      /* 5 */
    float mirostat_eta;      /* 0.1 */
    uint32_t seed;           /* SLUICE_SEED_RANDOM: drawn, see sluice_sampler_seed() */
    gboolean ignore_end;     /* end-of-generation tokens are never drawn */
    const char *order;       /* stages separated by ';', or NULL for the usual order */
} SluiceSamplerParams;

#define SLUICE_SEED_RANDOM G_MAXUINT32

typedef struct _SluiceSampler SluiceSampler;

/* The usual values, with those the model recommends (general.sampling.*) put over them. */
SLUICE_API void sluice_sampler_params_init(SluiceSamplerParams *params, const SluiceModel *model);
SLUICE_API SluiceSampler *sluice_sampler_new(const SluiceModel *model,
                                             const SluiceSamplerParams *params, GError **error);
SLUICE_API void sluice_sampler_free(SluiceSampler *sampler);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceSampler, sluice_sampler_free)
SLUICE_API uint32_t sluice_sampler_seed(const SluiceSampler *sampler);
/* Draws from logits [n_vocab]; does not change history: accept() does. */
SLUICE_API int32_t sluice_sampler_draw(SluiceSampler *sampler, const float *logits);
SLUICE_API void sluice_sampler_accept(SluiceSampler *sampler, int32_t token);
SLUICE_API void sluice_sampler_reset(SluiceSampler *sampler); /* forgets history, keeps the seed's stream */

G_END_DECLS
