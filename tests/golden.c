/* SPDX-License-Identifier: MIT */
/* Reading golden logits and comparing our own with them. */
#include "config.h"

#include "tests/golden.h"

#include <math.h>
#include <string.h>

#define N_HEADER_BYTES 32

/* Takes n items of 4 bytes off the front of what is left; NULL when they are not there. */
static const void *
take_items(const char **at, const char *end, uint64_t n)
{
    const char *items = *at;

    if (n > (uint64_t) (end - items) / 4)
        return NULL;
    *at = items + 4 * n;
    return items;
}

static gboolean
parse(SluiceGolden *g, size_t n_bytes)
{
    const char *at = g->contents + N_HEADER_BYTES;
    const char *end = g->contents + n_bytes;
    uint32_t counts[4];

    if (n_bytes < N_HEADER_BYTES || memcmp(g->contents, "SLUGOLD1", 8) != 0)
        return FALSE;
    memcpy(counts, g->contents + 8, sizeof counts);
    memcpy(&g->noise, g->contents + 24, sizeof g->noise);
    for (size_t i = 0; i < G_N_ELEMENTS(counts); i++) {
        if (counts[i] > 1 << 24)
            return FALSE;
    }
    g->n_tokens = (int) counts[0];
    g->n_vocab = (int) counts[1];
    g->n_rows = (int) counts[2];
    g->n_kept = counts[3] != 0 ? (int) counts[3] : g->n_vocab;
    g->tokens = take_items(&at, end, counts[0]);
    g->best = take_items(&at, end, counts[0]);
    g->margin = take_items(&at, end, counts[0]);
    g->rows = take_items(&at, end, counts[2]);
    if (counts[3] != 0) {
        g->ids = take_items(&at, end, (uint64_t) counts[2] * counts[3]);
        if (g->ids == NULL)
            return FALSE;
    }
    g->logits = take_items(&at, end, (uint64_t) g->n_rows * (uint64_t) g->n_kept);
    return g->tokens != NULL && g->best != NULL && g->margin != NULL && g->rows != NULL &&
           g->logits != NULL && at == end;
}

/**
 * sluice_golden_load:
 * @path: a file written by tests/reference/golden_file.py
 * @error: return location, or %NULL
 *
 * Returns: (transfer full): the golden logits, or %NULL
 */
SluiceGolden *
sluice_golden_load(const char *path, GError **error)
{
    g_autoptr(SluiceGolden) golden = g_new0(SluiceGolden, 1);
    size_t n_bytes;

    if (!g_file_get_contents(path, &golden->contents, &n_bytes, error))
        return NULL;
    if (!parse(golden, n_bytes)) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL, "'%s' holds no golden logits", path);
        return NULL;
    }
    return g_steal_pointer(&golden);
}

void
sluice_golden_free(SluiceGolden *golden)
{
    if (golden == NULL)
        return;
    g_free(golden->contents);
    g_free(golden);
}

static int
argmax(const float *x, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++) {
        if (x[i] > x[best])
            best = i;
    }
    return best;
}

/**
 * sluice_golden_compare:
 * @golden: what is expected
 * @logits: [n_tokens, n_vocab], ours
 * @nmse_bound: the error that is allowed
 * @result: (out): what was found
 *
 * The margin below which an argmax does not count follows from @nmse_bound: an error of that size
 * is sqrt(@nmse_bound) times the root mean square of the logits in each of them, the difference of
 * two has a deviation sqrt(2) times that, and eight deviations are not reached by chance in a
 * vocabulary of any size.
 */
void
sluice_golden_compare(const SluiceGolden *golden, const float *logits, double nmse_bound,
                      SluiceGoldenResult *result)
{
    double sum_error = 0.0, sum_square = 0.0;
    SluiceGoldenResult r = {.first_differ = -1};

    for (int i = 0; i < golden->n_rows; i++) {
        const float *ref = golden->logits + (size_t) i * (size_t) golden->n_kept;
        const float *got = logits + (size_t) golden->rows[i] * (size_t) golden->n_vocab;
        const int32_t *ids =
            golden->ids != NULL ? golden->ids + (size_t) i * (size_t) golden->n_kept : NULL;
        double row_error = 0.0, row_square = 0.0;

        for (int j = 0; j < golden->n_kept; j++) {
            double ours = (double) got[ids != NULL ? ids[j] : j];
            row_error += ((double) ref[j] - ours) * ((double) ref[j] - ours);
            row_square += (double) ref[j] * (double) ref[j];
        }
        /* Written so that a NaN counts as the worst. */
        if (!(row_error / row_square <= r.worst_nmse)) {
            r.worst_nmse = isfinite(row_error) ? row_error / row_square : INFINITY;
            r.worst_pos = golden->rows[i];
        }
        sum_error += row_error;
        sum_square += row_square;
    }
    r.nmse = isfinite(sum_error) ? sum_error / sum_square : INFINITY;
    r.margin_bound = 8.0 * sqrt(2.0 * nmse_bound * sum_square /
                                ((double) golden->n_rows * (double) golden->n_kept));
    for (int i = 0; i < golden->n_tokens; i++) {
        const float *got = logits + (size_t) i * (size_t) golden->n_vocab;
        if ((double) golden->margin[i] < r.margin_bound)
            r.n_below_margin++;
        else if (argmax(got, golden->n_vocab) != golden->best[i]) {
            if (r.n_best_differ++ == 0)
                r.first_differ = i;
        }
    }
    *result = r;
}

/**
 * sluice_golden_eval:
 * @engine: an engine over the model that @golden was computed from
 * @golden: the tokens to evaluate
 * @n_split: tokens handed over at once; 0: all
 * @logits: (out caller-allocates): [n_tokens, n_vocab]
 * @error: return location, or %NULL
 *
 * Evaluates the tokens in a session of their own.
 */
gboolean
sluice_golden_eval(SluiceEngine *engine, const SluiceGolden *golden, int n_split, float *logits,
                   GError **error)
{
    g_autoptr(SluiceSession) session = sluice_session_new(engine, error);
    int step = n_split > 0 ? n_split : golden->n_tokens;

    if (session == NULL)
        return FALSE;
    for (int i = 0; i < golden->n_tokens; i += step) {
        int n = MIN(step, golden->n_tokens - i);
        if (!sluice_session_eval_logits(session, golden->tokens + i, (gsize) n, 0,
                                        logits + (size_t) i * (size_t) golden->n_vocab, error))
            return FALSE;
    }
    return TRUE;
}
