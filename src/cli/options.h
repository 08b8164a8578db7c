/* SPDX-License-Identifier: MIT */
/*
 * The command line, parsed: what every command of the program gets to see. The options themselves
 * stand in option-table.c, once; the parser, the help texts, the manual pages and the completion
 * are all made from that table.
 */
#pragma once

#include "src/sluice.h"

G_BEGIN_DECLS

typedef enum {
    SLUICE_COMMAND_RUN = 1 << 0,
    SLUICE_COMMAND_BENCH = 1 << 1,
    SLUICE_COMMAND_PERPLEXITY = 1 << 2,
    SLUICE_COMMAND_TOKENIZE = 1 << 3,
    SLUICE_COMMAND_INSPECT = 1 << 4,
} SluiceCommandId;

typedef enum {
    SLUICE_COLOR_AUTO,
    SLUICE_COLOR_ALWAYS,
    SLUICE_COLOR_NEVER,
} SluiceColorMode;

typedef enum {
    SLUICE_OUTPUT_MD,
    SLUICE_OUTPUT_CSV,
    SLUICE_OUTPUT_JSON,
    SLUICE_OUTPUT_JSONL,
} SluiceOutputFormat;

typedef enum {
    SLUICE_THINKING_AUTO, /* as the template has it */
    SLUICE_THINKING_ON,
    SLUICE_THINKING_OFF,
} SluiceThinking;

/* A prompt and the answer to it, timed as one (-pg). */
typedef struct {
    int32_t n_prompt;
    int32_t n_gen;
} SluicePromptGen;

/* More rows than the table will ever have; the table asserts it. */
#define SLUICE_OPTIONS_MAX 128

typedef struct {
    SluiceCommandId command;
    bool given[SLUICE_OPTIONS_MAX]; /* by row of the table */
    GPtrArray *args;                /* char *: what is not an option, in order */

    /* general */
    int help;
    int json;
    int quiet;
    int verbose; /* how often -v was given */
    int color;   /* SluiceColorMode */

    /* the model and the processor */
    GPtrArray *models;         /* char *: bench takes several, the others the last one */
    SluiceEngineParams engine; /* 0 where nothing was said; see sluice_engine_params_init() */
    int type_k;                /* SluiceKvType */
    int type_v;
    int load_mode; /* SluiceLoadMode */
    int flash_attn;

    /* run, tokenize */
    char *prompt;
    char *file;
    char *system;
    int raw;
    int interactive;
    int n_predict;               /* -1: no limit of its own, -2: until the context is full */
    GPtrArray *stops;            /* char *, none empty */
    int thinking;                /* SluiceThinking */
    SluiceSamplerParams sampler; /* only what was given: sluice_options_sampler() */

    /* bench */
    GArray *prompts;  /* int32_t: -p */
    GArray *gens;     /* int32_t: -n */
    GArray *pgs;      /* SluicePromptGen: -pg */
    GArray *depths;   /* int32_t: -d */
    GArray *batches;  /* int32_t: -b */
    GArray *ubatches; /* int32_t: -ub */
    GArray *threads;  /* int32_t: -t */
    GArray *threads_batch;
    GArray *types_k; /* int: SluiceKvType */
    GArray *types_v;
    GArray *mmaps; /* int: 0 or 1 */
    int repetitions;
    int output; /* SluiceOutputFormat */
    int no_warmup;

    /* perplexity */
    int n_chunks; /* -1: all */
    char *logits;

    /* tokenize */
    int ids;
    int count;
    int special;
    int no_special;

    /* inspect */
    int tensors;
    int verify;
} SluiceOptions;

void sluice_options_init(SluiceOptions *options, SluiceCommandId command);
void sluice_options_clear(SluiceOptions *options);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SluiceOptions, sluice_options_clear)

gboolean sluice_options_parse(SluiceOptions *options, int n_args, char **args, GError **error);
bool sluice_options_given(const SluiceOptions *options, const char *form);
void sluice_options_sampler(const SluiceOptions *options, SluiceSamplerParams *params);
const char *sluice_options_model(const SluiceOptions *options);

char *sluice_options_closest(const char *word, const char *const *candidates);

/* The commands; each returns the exit status of the program. */
int sluice_cmd_run(const SluiceOptions *options);
int sluice_cmd_bench(const SluiceOptions *options);
int sluice_cmd_perplexity(const SluiceOptions *options);
int sluice_cmd_tokenize(const SluiceOptions *options);
int sluice_cmd_inspect(const SluiceOptions *options);

G_END_DECLS
