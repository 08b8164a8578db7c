/* SPDX-License-Identifier: MIT */
/*
 * "sluice perplexity": how well a model foresees a text. The text is cut into chunks of the
 * context's size, each is evaluated on its own, and the positions of its second half are scored,
 * so that every scored token has at least half a context in front of it.
 */
#include "config.h"

#include "src/cli/input.h"
#include "src/cli/interrupt.h"
#include "src/cli/load.h"
#include "src/cli/terminal.h"
#include "src/core/error.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_CTX 512

/* Logits of so many bytes are asked for at once: enough rows for full speed, and no need to hold
 * those of a whole chunk, which can be hundreds of MiB. */
#define PIECE_BYTES ((gsize) 64 << 20)

typedef struct {
    const SluiceOptions *options;
    SluiceEngine *engine;
    SluiceSession *session;
    GArray *tokens; /* of the whole text */
    gsize n_ctx;
    gsize n_vocab;
    gsize n_chunks;
    gsize n_piece;  /* rows of @logits */
    float *logits;  /* [n_piece, n_vocab] */
    FILE *npy;      /* or NULL */
    char *npy_part; /* the name while it is being written */
    double nll;     /* sums over all scored positions, natural logarithm */
    double nll2;
    gsize n_scored;
} Perplexity;

/* -log of the probability that the softmax of @logits gives to @target. */
static double
negative_log_likelihood(const float *logits, gsize n_vocab, int32_t target)
{
    double max = -INFINITY, sum = 0;

    for (gsize i = 0; i < n_vocab; i++)
        max = MAX(max, (double) logits[i]);
    for (gsize i = 0; i < n_vocab; i++)
        sum += exp((double) logits[i] - max);
    return log(sum) + max - (double) logits[target];
}

/* ---- the file of logits --------------------------------------------------------------------- */

static gboolean
set_npy_error(Perplexity *p, GError **error)
{
    g_autofree char *shown = sluice_error_printable(p->options->logits, -1);

    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "cannot write '%s': %s", shown,
                g_strerror(errno));
    return FALSE;
}

/* Format version 1.0: magic, length, a Python dictionary, padded so that data begins at a
 * multiple of 64. */
static gboolean
npy_begin(Perplexity *p, gsize n_rows, GError **error)
{
    g_autoptr(GString) header = g_string_new(NULL);
    const gsize n_front = 10;
    gsize n_padded;

    p->npy_part = g_strconcat(p->options->logits, ".part", NULL);
    p->npy = fopen(p->npy_part, "wbe");
    if (p->npy == NULL)
        return set_npy_error(p, error);
    g_string_printf(header, "{'descr': '%cf4', 'fortran_order': False, 'shape': (%zu, %zu), }",
                    G_BYTE_ORDER == G_LITTLE_ENDIAN ? '<' : '>', n_rows, p->n_vocab);
    n_padded = (n_front + header->len + 1 + 63) / 64 * 64 - n_front;
    while (header->len + 1 < n_padded)
        g_string_append_c(header, ' ');
    g_string_append_c(header, '\n');
    if (fwrite("\x93NUMPY\x01\x00", 1, 8, p->npy) < 8 ||
        fputc((int) (n_padded & 0xff), p->npy) == EOF ||
        fputc((int) (n_padded >> 8), p->npy) == EOF ||
        fwrite(header->str, 1, n_padded, p->npy) < n_padded)
        return set_npy_error(p, error);
    return TRUE;
}

/* Only a complete file gets its name. */
static gboolean
npy_end(Perplexity *p, gboolean is_complete, GError **error)
{
    gboolean ok = is_complete;

    if (p->npy == NULL)
        return ok;
    errno = 0;
    if (fclose(p->npy) != 0 && ok)
        ok = set_npy_error(p, error);
    p->npy = NULL;
    if (ok && rename(p->npy_part, p->options->logits) != 0)
        ok = set_npy_error(p, error);
    if (!ok)
        unlink(p->npy_part);
    return ok;
}

/* ---- chunks --------------------------------------------------------------------------------- */

static gboolean
score_rows(Perplexity *p, gsize n_rows, const int32_t *targets, GError **error)
{
    for (gsize i = 0; i < n_rows; i++) {
        const float *row = p->logits + i * p->n_vocab;
        double nll = negative_log_likelihood(row, p->n_vocab, targets[i]);

        if (!isfinite(nll)) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                        "the model's logits are not numbers at scored position %zu", p->n_scored);
            return FALSE;
        }
        p->nll += nll;
        p->nll2 += nll * nll;
        p->n_scored++;
    }
    if (p->npy != NULL && fwrite(p->logits, p->n_vocab * sizeof(float), n_rows, p->npy) < n_rows)
        return set_npy_error(p, error);
    return TRUE;
}

/* The logits of position j foresee token j + 1; the last one of a chunk foresees nothing in it. */
static gboolean
score_chunk(Perplexity *p, gsize chunk_idx, GError **error)
{
    const int32_t *chunk = &g_array_index(p->tokens, int32_t, chunk_idx * p->n_ctx);
    const SluiceModel *model = sluice_engine_model(p->engine);
    g_autofree int32_t *input = g_memdup2(chunk, p->n_ctx * sizeof *chunk);
    gsize first = p->n_ctx / 2, end = p->n_ctx - 1;

    if (sluice_model_adds_bos(model) && sluice_model_bos(model) >= 0)
        input[0] = sluice_model_bos(model);
    if (!sluice_session_truncate(p->session, 0, error) ||
        !sluice_session_eval(p->session, input, first, error))
        return FALSE;
    for (gsize at = first; at < end; at += p->n_piece) {
        gsize n = MIN(p->n_piece, end - at);

        if (!sluice_session_eval_logits(p->session, input + at, n, 0, p->logits, error) ||
            !score_rows(p, n, chunk + at + 1, error))
            return FALSE;
    }
    return TRUE;
}

static double
estimate(const Perplexity *p)
{
    return exp(p->nll / (double) p->n_scored);
}

static double
estimate_error(const Perplexity *p)
{
    double n = (double) p->n_scored;
    double mean = p->nll / n;
    double variance = p->nll2 / n - mean * mean;

    return n > 1 && variance > 0 ? estimate(p) * sqrt(variance / (n - 1)) : 0;
}

static gboolean
print_chunk(const Perplexity *p, gsize chunk_idx, json_t *values, GError **error)
{
    g_autofree char *text = NULL;

    if (p->options->json)
        return json_array_append_new(values, json_real(estimate(p))) == 0;
    text = g_strdup_printf("[%zu]%.4f,", chunk_idx + 1, estimate(p));
    return sluice_terminal_write(text, strlen(text), error);
}

static gboolean
print_estimate(const Perplexity *p, json_t *values, GError **error)
{
    g_autofree char *text = NULL;

    if (p->options->json) {
        json_t *all = json_pack("{s:f, s:f, s:I, s:I, s:I, s:O}", "perplexity", estimate(p),
                                "error", estimate_error(p), "n_ctx", (json_int_t) p->n_ctx,
                                "n_chunks", (json_int_t) p->n_chunks, "n_scored",
                                (json_int_t) p->n_scored, "cumulative", values);
        char *json = json_dumps(all, JSON_INDENT(2));

        text = g_strdup_printf("%s\n", json);
        free(json);
        json_decref(all);
    } else {
        text = g_strdup_printf("\nFinal estimate: PPL = %.4f +/- %.5f\n", estimate(p),
                               estimate_error(p));
    }
    return sluice_terminal_write(text, strlen(text), error);
}

static gboolean
score_all(Perplexity *p, GError **error)
{
    json_t *values = json_array();
    gint64 begin = g_get_monotonic_time();
    gboolean ok = TRUE;

    for (gsize i = 0; ok && i < p->n_chunks; i++) {
        ok = score_chunk(p, i, error);
        /* Ahead of the first figure: the figures share a line, which nothing else may break. */
        if (ok && i == 0 && p->n_chunks > 1)
            sluice_terminal_note("%.1f s for the first of %zu chunks",
                                 (double) (g_get_monotonic_time() - begin) / 1e6, p->n_chunks);
        ok = ok && print_chunk(p, i, values, error);
    }
    ok = ok && print_estimate(p, values, error);
    json_decref(values);
    return ok;
}

/* ---- set-up --------------------------------------------------------------------------------- */

static gboolean
count_chunks(Perplexity *p, GError **error)
{
    gsize n_all = p->tokens->len / p->n_ctx;

    if (n_all == 0) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "the text has %u tokens, but a chunk (--ctx-size) needs %zu", p->tokens->len,
                    p->n_ctx);
        return FALSE;
    }
    if (p->options->n_chunks == 0) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "option '--chunks' is '0', which leaves nothing to score");
        return FALSE;
    }
    p->n_chunks = p->options->n_chunks < 0 ? n_all : MIN(n_all, (gsize) p->options->n_chunks);
    return TRUE;
}

static int
load_and_score(Perplexity *p, SluiceModel *model)
{
    SluiceEngineParams params = p->options->engine;
    gsize n_rows = p->n_chunks * (p->n_ctx - 1 - p->n_ctx / 2);
    g_autoptr(GError) error = NULL;
    double seconds = 0;
    gboolean ok;
    int status;

    p->n_vocab = (gsize) sluice_model_n_vocab(model);
    p->n_piece = CLAMP(PIECE_BYTES / (p->n_vocab * sizeof(float)), 1, p->n_ctx);
    params.n_ctx = (int32_t) p->n_ctx;
    params.n_out = (int32_t) p->n_piece;
    status = sluice_load_engine(model, &params, p->n_piece * p->n_vocab * sizeof(float), &p->engine,
                                &seconds);
    if (status != SLUICE_EXIT_OK)
        return status;
    p->logits = g_try_new(float, p->n_piece * p->n_vocab);
    if (p->logits == NULL) {
        sluice_terminal_complain("no memory for the logits");
        return SLUICE_EXIT_NO_ROOM;
    }
    p->session = sluice_session_new(p->engine, &error);
    if (p->session == NULL)
        return sluice_terminal_fail(error);
    sluice_interrupt_watch(p->session);
    ok = p->options->logits == NULL || npy_begin(p, n_rows, &error);
    ok = ok && score_all(p, &error);
    if (!npy_end(p, ok, &error) && ok)
        ok = FALSE;
    sluice_interrupt_release();
    return ok ? SLUICE_EXIT_OK : sluice_terminal_fail(error);
}

static void
perplexity_clear(Perplexity *p)
{
    g_clear_pointer(&p->session, sluice_session_free);
    g_clear_pointer(&p->engine, sluice_engine_free);
    g_clear_pointer(&p->tokens, g_array_unref);
    g_free(p->logits);
    g_free(p->npy_part);
}

/**
 * sluice_cmd_perplexity:
 * @options: parsed
 *
 * Returns: a #SluiceExit
 */
int
sluice_cmd_perplexity(const SluiceOptions *options)
{
    Perplexity p = {.options = options};
    g_autoptr(SluiceModel) model = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *path = NULL;
    guint n_used = 0;
    int status;

    p.n_ctx =
        sluice_options_given(options, "--ctx-size") ? (gsize) options->engine.n_ctx : DEFAULT_CTX;
    if (!sluice_input_model(options, &path, &n_used, &error)) {
        sluice_terminal_fail(error);
        return SLUICE_EXIT_NO_MODEL;
    }
    if (options->file == NULL || options->args->len > n_used) {
        sluice_terminal_complain("the text to score is named with --file, and nothing else is");
        return SLUICE_EXIT_USAGE;
    }
    if (!sluice_input_read(options->file, text, &error))
        return sluice_terminal_fail(error);
    status = sluice_load_model(path, &model);
    if (status != SLUICE_EXIT_OK)
        return status;
    p.tokens = sluice_model_tokenize(model, text->str, (gssize) text->len,
                                     SLUICE_TOKENIZE_ADD_SPECIAL, &error);
    if (p.tokens == NULL || !count_chunks(&p, &error))
        status = sluice_terminal_fail(error);
    else
        status = load_and_score(&p, model);
    perplexity_clear(&p);
    return status;
}
