/* SPDX-License-Identifier: MIT */
/*
 * A real model file against independent code, for check_models.sh:
 *
 *   compare_model logits MODEL GOLDEN   the logits that `transformers` computed
 *   compare_model greedy MODEL TOKENS   the tokens that llama.cpp chose
 *
 * Says what was found, and fails where it is worse than what is promised.
 */
#include "config.h"

#include "tests/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_CONTEXT 1024

/*
 * How often our argmax must be what llama.cpp chose, and how close the two must lie elsewhere. Both
 * programs round activations, each in its own way, and these continuations hold near ties: of 320
 * positions `transformers` in float32 agrees with llama.cpp's choice at 309 (SmolLM2) and 305
 * (Gemma), up to 0.39 nat apart elsewhere, and llama.cpp itself, handed its own text at once and
 * not token by token, at 320 and 311, up to 0.25 apart. Our instruction set levels reach 309 and
 * 301 to 308. 93 % is three deviations below the 96 % of exact arithmetic; a nat is eight
 * deviations of the noise between two logits.
 */
#define MIN_SAME 0.93
#define MAX_MARGIN 1.0

static SluiceEngine *
open_engine(const char *path, GError **error)
{
    g_autoptr(SluiceModel) model = sluice_model_open(path, error);
    SluiceEngineParams params;

    if (model == NULL)
        return NULL;
    sluice_engine_params_init(&params);
    params.n_ctx = N_CONTEXT;
    return sluice_engine_new(model, &params, error);
}

/* All the distance is the noise of int8 activations, as the reference measured it; the keys and
 * values, in float16 here, add a thousandth of that. Twice the noise is allowed. */
static gboolean
compare_logits(SluiceEngine *engine, const char *path, GError **error)
{
    g_autoptr(SluiceGolden) golden = sluice_golden_load(path, error);
    g_autofree float *logits = NULL;
    double bound;
    SluiceGoldenResult r;

    if (golden == NULL)
        return FALSE;
    if (golden->n_vocab != sluice_model_n_vocab(sluice_engine_model(engine))) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
                    "'%s' is of a model of %d tokens, not %d", path, golden->n_vocab,
                    sluice_model_n_vocab(sluice_engine_model(engine)));
        return FALSE;
    }
    logits = g_new(float, (gsize) golden->n_tokens *(gsize) golden->n_vocab);
    if (!sluice_golden_eval(engine, golden, 0, logits, error))
        return FALSE;
    bound = 2.0 * golden->noise;
    sluice_golden_compare(golden, logits, bound, &r);
    printf(
        "NMSE %.3g, at most %.3g (worst position %d: %.3g); argmax differs at %d positions of the "
        "%d with a margin above %.2f\n",
        r.nmse, bound, r.worst_pos, r.worst_nmse, r.n_best_differ,
        golden->n_tokens - r.n_below_margin, r.margin_bound);
    if (r.nmse <= bound && r.n_best_differ == 0)
        return TRUE;
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "the logits are not those of '%s'", path);
    return FALSE;
}

typedef struct {
    int n;
    int n_same;
    double worst_margin;
} Agreement;

/* One line: the number of tokens of the prompt, then those tokens and the continuation's. */
static gboolean
follow(SluiceEngine *engine, const char *line, Agreement *a, GError **error)
{
    g_autoptr(SluiceSession) session = sluice_session_new(engine, error);
    size_t n_vocab = (size_t) sluice_model_n_vocab(sluice_engine_model(engine));
    g_autofree float *logits = NULL;
    int32_t tokens[N_CONTEXT];
    int n_tokens = 0, n_prompt = atoi(line);
    const char *at = strchr(line, ' ');

    if (session == NULL)
        return FALSE;
    for (; at != NULL && n_tokens < N_CONTEXT; at = strchr(at + 1, ' '))
        tokens[n_tokens++] = atoi(at + 1);
    if (n_prompt < 1 || n_prompt >= n_tokens) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL, "'%s' is no line of tokens", line);
        return FALSE;
    }
    logits = g_new(float, (gsize) n_tokens *n_vocab);
    if (!sluice_session_eval_logits(session, tokens, (gsize) n_tokens, 0, logits, error))
        return FALSE;
    for (int i = n_prompt - 1; i < n_tokens - 1; i++) {
        const float *row = logits + (size_t) i * n_vocab;
        size_t best = 0;

        for (size_t j = 1; j < n_vocab; j++) {
            if (row[j] > row[best])
                best = j;
        }
        a->n++;
        if ((int32_t) best == tokens[i + 1])
            a->n_same++;
        else
            printf("  position %d: %d, not %d, %.3f nat apart\n", i, (int) best, tokens[i + 1],
                   (double) (row[best] - row[tokens[i + 1]]));
        a->worst_margin = MAX(a->worst_margin, (double) (row[best] - row[tokens[i + 1]]));
    }
    return TRUE;
}

static gboolean
compare_greedy(SluiceEngine *engine, const char *path, GError **error)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;
    Agreement a = {0};

    if (!g_file_get_contents(path, &text, NULL, error))
        return FALSE;
    lines = g_strsplit(g_strchomp(text), "\n", -1);
    for (int i = 0; lines[i] != NULL; i++) {
        if (lines[i][0] != '#' && !follow(engine, lines[i], &a, error))
            return FALSE;
    }
    printf("the same token at %d of %d positions (%.1f %%), elsewhere at most %.3f nat apart\n",
           a.n_same, a.n, 100.0 * a.n_same / a.n, a.worst_margin);
    if (a.n_same >= MIN_SAME * a.n && a.worst_margin < MAX_MARGIN)
        return TRUE;
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED,
                "promised are %.0f %% and less than %.1f nat", 100.0 * MIN_SAME, MAX_MARGIN);
    return FALSE;
}

int
main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceEngine) engine = NULL;
    gboolean is_greedy = argc > 1 && strcmp(argv[1], "greedy") == 0;

    if (argc != 4 || (!is_greedy && strcmp(argv[1], "logits") != 0)) {
        fputs("usage: compare_model logits|greedy MODEL FILE\n", stderr);
        return 2;
    }
    engine = open_engine(argv[2], &error);
    if (engine == NULL || !(is_greedy ? compare_greedy : compare_logits)(engine, argv[3], &error)) {
        fprintf(stderr, "compare_model: %s\n", error->message);
        return 1;
    }
    return 0;
}
