/* SPDX-License-Identifier: MIT */
/*
 * The chain of stages: parameters checked once, then for each token the same stages in the same
 * order over logits that are only read. One generator draws the token, a second one decides about
 * XTC, both from the same seed; a temperature of 0 or less draws nothing at all.
 */
#include "config.h"

#define G_LOG_DOMAIN "Sluice"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "src/core/error.h"
#include "src/engine/candidates.h"
#include "src/engine/model-text.h"
#include "src/engine/repetition.h"
#include "src/sluice.h"

typedef enum {
    STAGE_PENALTIES,
    STAGE_DRY,
    STAGE_TOP_N_SIGMA,
    STAGE_TOP_K,
    STAGE_TYPICAL_P,
    STAGE_TOP_P,
    STAGE_MIN_P,
    STAGE_XTC,
    STAGE_TEMPERATURE,
    STAGE_COUNT,
} Stage;

/* In the usual order, which is also the enumeration's. */
static const char *const stage_names[STAGE_COUNT] = {
    "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature",
};

/* Texts behind which a repetition is no fault: what lists and dialogues are made of. */
static const char *const dry_breakers[] = {"\n", ":", "\"", "*", NULL};
#define DRY_MAX_BREAKER_BYTES 40

struct _SluiceSampler {
    SluiceSamplerParams params;
    uint32_t seed;             /* the one in use */
    Stage stages[STAGE_COUNT]; /* only those that have something to do */
    int n_stages;
    int32_t n_vocab;  /* of the model */
    int32_t n_tokens; /* of the vocabulary: ids beyond it are padding */
    SluiceMt19937 rng;
    SluiceMt19937 xtc_rng;
    float mu; /* of mirostat */

    GArray *history; /* int32 */
    GArray *banned;  /* int32: never drawn */
    SluiceDry dry;
    GArray *breakers; /* SluiceDryBreaker */

    SluiceCandidates candidates; /* [n_vocab] items */
    float *logits;               /* [n_vocab], or NULL where nothing is banned */
    int32_t *counts;             /* [n_vocab] zeros, or NULL where nothing looks at history */
    GArray *lengths;             /* int32: DRY's scratch, as long as its history */
};

/* ---- parameters ----------------------------------------------------------------------------- */

static void
recommend_float(const SluiceModel *model, const char *key, float min, float max, float *value)
{
    double v = *value;

    if (!sluice_gguf_float(model->gguf, key, &v, NULL))
        return;
    if (v >= min && v <= max)
        *value = (float) v;
    else
        g_info("the model recommends %s = %g, which is outside %g to %g: %g is used", key, v, min,
               max, *value);
}

static void
recommend_int(const SluiceModel *model, const char *key, int32_t max, int32_t *value)
{
    uint64_t v = (uint64_t) *value;

    if (*value >= 0 && sluice_gguf_has(model->gguf, key) &&
        sluice_gguf_uint(model->gguf, key, (uint64_t) max, &v, NULL))
        *value = (int32_t) v;
}

/**
 * sluice_sampler_params_init:
 * @params: (out): the usual values
 * @model: (nullable): whose recommendations (general.sampling.*) are put over them
 *
 * Since: 0.1
 */
void
sluice_sampler_params_init(SluiceSamplerParams *params, const SluiceModel *model)
{
    g_return_if_fail(params != NULL);
    *params = (SluiceSamplerParams){
        .temperature = 0.8f,
        .dynatemp_exponent = 1.0f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .typical_p = 1.0f,
        .top_n_sigma = -1.0f,
        .xtc_threshold = 0.1f,
        .repeat_penalty = 1.0f,
        .penalty_last_n = 64,
        .dry_base = 1.75f,
        .dry_allowed_length = 2,
        .dry_last_n = 64,
        .mirostat_tau = 5.0f,
        .mirostat_eta = 0.1f,
        .seed = SLUICE_SEED_RANDOM,
    };
    if (model == NULL)
        return;
    recommend_int(model, "general.sampling.top_k", G_MAXINT32, &params->top_k);
    recommend_float(model, "general.sampling.top_p", 0.0f, 1.0f, &params->top_p);
    recommend_float(model, "general.sampling.min_p", 0.0f, 1.0f, &params->min_p);
    recommend_float(model, "general.sampling.temp", 0.0f, 100.0f, &params->temperature);
    recommend_float(model, "general.sampling.xtc_probability", 0.0f, 1.0f,
                    &params->xtc_probability);
    recommend_float(model, "general.sampling.xtc_threshold", 0.0f, 1.0f, &params->xtc_threshold);
    recommend_int(model, "general.sampling.penalty_last_n", G_MAXINT32, &params->penalty_last_n);
    recommend_float(model, "general.sampling.penalty_repeat", 0.01f, 100.0f,
                    &params->repeat_penalty);
    recommend_int(model, "general.sampling.mirostat", 2, &params->mirostat);
    recommend_float(model, "general.sampling.mirostat_tau", 0.0f, 100.0f, &params->mirostat_tau);
    recommend_float(model, "general.sampling.mirostat_eta", 0.0f, 100.0f, &params->mirostat_eta);
}

static gboolean
check_float(const char *name, float value, float min, float max, GError **error)
{
    if (value >= min && value <= max) /* not-a-number fails both */
        return TRUE;
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "%s is %g, expected %g to %g", name,
                value, min, max);
    return FALSE;
}

static gboolean
check_int(const char *name, int32_t value, int32_t min, int32_t max, GError **error)
{
    if (value >= min && value <= max)
        return TRUE;
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "%s is %d, expected %d to %d", name,
                value, min, max);
    return FALSE;
}

static gboolean
check_params(const SluiceSamplerParams *p, GError **error)
{
    const float huge = 1e6f;

    return check_float("temperature", p->temperature, -huge, huge, error) &&
           check_float("dynatemp_range", p->dynatemp_range, 0.0f, huge, error) &&
           check_float("dynatemp_exponent", p->dynatemp_exponent, 0.0f, huge, error) &&
           check_float("top_p", p->top_p, 0.0f, 1.0f, error) &&
           check_float("min_p", p->min_p, 0.0f, 1.0f, error) &&
           check_float("typical_p", p->typical_p, 0.0f, 1.0f, error) &&
           check_float("top_n_sigma", p->top_n_sigma, -huge, huge, error) &&
           check_float("xtc_probability", p->xtc_probability, 0.0f, 1.0f, error) &&
           check_float("xtc_threshold", p->xtc_threshold, 0.0f, 1.0f, error) &&
           check_float("repeat_penalty", p->repeat_penalty, 1.0f / huge, huge, error) &&
           check_float("frequency_penalty", p->frequency_penalty, -huge, huge, error) &&
           check_float("presence_penalty", p->presence_penalty, -huge, huge, error) &&
           check_int("penalty_last_n", p->penalty_last_n, -1, G_MAXINT32, error) &&
           check_float("dry_multiplier", p->dry_multiplier, 0.0f, huge, error) &&
           check_float("dry_base", p->dry_base, 0.0f, huge, error) &&
           check_int("dry_allowed_length", p->dry_allowed_length, 0, G_MAXINT32, error) &&
           check_int("dry_last_n", p->dry_last_n, -1, G_MAXINT32, error) &&
           check_int("mirostat", p->mirostat, 0, 2, error) &&
           check_float("mirostat_tau", p->mirostat_tau, 0.0f, huge, error) &&
           check_float("mirostat_eta", p->mirostat_eta, 0.0f, huge, error);
}

/* ---- the chain ------------------------------------------------------------------------------ */

static bool
has_work(const SluiceSamplerParams *p, Stage stage)
{
    switch (stage) {
    case STAGE_PENALTIES:
        return p->penalty_last_n != 0 &&
               (p->repeat_penalty != 1.0f || p->frequency_penalty != 0.0f ||
                p->presence_penalty != 0.0f);
    case STAGE_DRY:
        return p->dry_multiplier != 0.0f && p->dry_base >= 1.0f && p->dry_last_n != 0;
    case STAGE_TOP_N_SIGMA:
        return p->top_n_sigma > 0.0f;
    case STAGE_TOP_K:
        return p->top_k > 0;
    case STAGE_TYPICAL_P:
        return p->typical_p < 1.0f;
    case STAGE_TOP_P:
        return p->top_p < 1.0f;
    case STAGE_MIN_P:
        return p->min_p > 0.0f;
    case STAGE_XTC:
        return p->xtc_probability > 0.0f && p->xtc_threshold <= 0.5f;
    case STAGE_TEMPERATURE:
        return true;
    case STAGE_COUNT:
        break;
    }
    g_assert_not_reached();
}

/* Greedy sampling looks for the largest logit and mirostat brings its own filter: of the usual
 * stages only those that edit logits are then left, and the temperature. */
static bool
is_in_chain(const SluiceSamplerParams *p, Stage stage)
{
    bool edits = stage == STAGE_PENALTIES || stage == STAGE_DRY;

    if (!has_work(p, stage))
        return false;
    if (p->temperature <= 0.0f && p->dynatemp_range <= 0.0f)
        return edits;
    if (p->mirostat != 0)
        return stage == STAGE_TEMPERATURE;
    return true;
}

static gboolean
parse_order(SluiceSampler *s, GError **error)
{
    g_auto(GStrv) names = s->params.order != NULL ? g_strsplit(s->params.order, ";", -1) : NULL;
    unsigned seen = 0;

    for (int i = 0; names == NULL ? i < STAGE_COUNT : names[i] != NULL; i++) {
        int stage = i;

        if (names != NULL) {
            for (stage = 0; stage < STAGE_COUNT; stage++) {
                if (strcmp(names[i], stage_names[stage]) == 0)
                    break;
            }
        }
        if (stage == STAGE_COUNT || (seen & 1u << stage) != 0) {
            g_autofree char *shown = sluice_error_printable(names[i], -1);
            g_autofree char *known =
                g_strjoinv(", ", (char **) (gpointer) (const char *[]){
                                     stage_names[0], stage_names[1], stage_names[2], stage_names[3],
                                     stage_names[4], stage_names[5], stage_names[6], stage_names[7],
                                     stage_names[8], NULL});

            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                        "order: '%s' is %s (stages: %s)", shown,
                        stage == STAGE_COUNT ? "no stage" : "there twice", known);
            return FALSE;
        }
        seen |= 1u << stage;
        if (is_in_chain(&s->params, (Stage) stage))
            s->stages[s->n_stages++] = (Stage) stage;
    }
    return TRUE;
}

static bool
chain_has(const SluiceSampler *s, Stage stage)
{
    for (int i = 0; i < s->n_stages; i++) {
        if (s->stages[i] == stage)
            return true;
    }
    return false;
}

/* ---- construction --------------------------------------------------------------------------- */

static gboolean
ban_tokens(SluiceSampler *s, const SluiceModel *model, GError **error)
{
    const SluiceTokenizer *t = sluice_model_text_tokenizer(model);
    g_autofree int64_t *suppressed = NULL;
    size_t n_suppressed = 0, n_ends = 0;
    const int32_t *ends = sluice_tokenizer_eog_ids(t, &n_ends);
    g_autoptr(GError) local = NULL;

    suppressed =
        sluice_gguf_int_array(model->gguf, "tokenizer.ggml.suppress_tokens", &n_suppressed, &local);
    if (local != NULL) {
        g_propagate_error(error, g_steal_pointer(&local));
        return FALSE;
    }
    for (size_t i = 0; i < n_suppressed; i++) {
        if (suppressed[i] >= 0 && suppressed[i] < s->n_tokens) {
            int32_t id = (int32_t) suppressed[i];

            g_array_append_val(s->banned, id);
        }
    }
    if (s->params.ignore_end)
        g_array_append_vals(s->banned, ends, (guint) n_ends);
    return TRUE;
}

static gint
compare_heads(gconstpointer a, gconstpointer b)
{
    const SluiceDryBreaker *x = a, *y = b;

    return x->head < y->head ? -1 : x->head > y->head;
}

static const char *
find_bytes(const char *text, size_t n, const char *part, size_t n_part)
{
    return n_part <= n ? memmem(text, n, part, n_part) : NULL;
}

/* What must follow a token that ends with the first bytes of a breaker. */
static gboolean
add_tail_breaker(SluiceSampler *s, const SluiceTokenizer *t, int32_t head, const char *rest,
                 GError **error)
{
    g_autoptr(GArray) ids = g_array_new(FALSE, FALSE, sizeof(int32_t));
    SluiceDryBreaker b = {.head = head};

    if (!sluice_tokenizer_encode(t, rest, strlen(rest), SLUICE_ENCODE_PLAIN, NULL, 0, ids, error))
        return FALSE;
    b.n_tail = (int32_t) MIN(ids->len, SLUICE_DRY_MAX_TAIL);
    memcpy(b.tail, ids->data, (size_t) b.n_tail * sizeof b.tail[0]);
    g_array_append_val(s->breakers, b);
    return TRUE;
}

static gboolean
add_breaker(SluiceSampler *s, const SluiceTokenizer *t, const char *breaker, GError **error)
{
    size_t n_breaker = MIN(strlen(breaker), DRY_MAX_BREAKER_BYTES);
    g_autoptr(GString) text = g_string_new(NULL);

    for (int32_t id = 0; id < s->n_tokens; id++) {
        g_string_truncate(text, 0);
        sluice_tokenizer_append_bytes(t, id, SLUICE_DECODE_PLAIN, text);
        if (find_bytes(text->str, text->len, breaker, n_breaker) != NULL) {
            SluiceDryBreaker b = {.head = id};

            g_array_append_val(s->breakers, b);
            continue;
        }
        for (size_t k = MIN(text->len, n_breaker - 1); k > 0; k--) {
            if (memcmp(text->str + text->len - k, breaker, k) == 0 &&
                !add_tail_breaker(s, t, id, breaker + k, error))
                return FALSE;
        }
    }
    return TRUE;
}

static gboolean
make_dry(SluiceSampler *s, const SluiceModel *model, GError **error)
{
    const SluiceTokenizer *t = sluice_model_text_tokenizer(model);

    for (size_t i = 0; dry_breakers[i] != NULL; i++) {
        if (!add_breaker(s, t, dry_breakers[i], error))
            return FALSE;
    }
    g_array_sort(s->breakers, compare_heads);
    s->dry = (SluiceDry){.multiplier = s->params.dry_multiplier,
                         .base = s->params.dry_base,
                         .allowed_length = s->params.dry_allowed_length,
                         .breakers = (const SluiceDryBreaker *) (gpointer) s->breakers->data,
                         .n_breakers = (int32_t) s->breakers->len};
    return TRUE;
}

static uint32_t
random_seed(void)
{
    uint32_t seed;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t) sizeof seed)
        seed = g_random_int();
    return seed != SLUICE_SEED_RANDOM ? seed : 0;
}

static void
allocate(SluiceSampler *s)
{
    bool looks_back = chain_has(s, STAGE_PENALTIES) || chain_has(s, STAGE_DRY);

    s->candidates.items = g_new(SluiceCandidate, s->n_vocab);
    if (s->banned->len > 0)
        s->logits = g_new(float, s->n_vocab);
    if (looks_back)
        s->counts = g_new0(int32_t, s->n_vocab);
}

/**
 * sluice_sampler_new:
 * @model: a model; not kept
 * @params: how tokens are drawn
 * @error: return location, or %NULL
 *
 * Returns: (transfer full): the sampler, or %NULL with %SLUICE_ERROR_ARGUMENT and the field, its
 *   value and its limits
 * Since: 0.1
 */
SluiceSampler *
sluice_sampler_new(const SluiceModel *model, const SluiceSamplerParams *params, GError **error)
{
    g_autoptr(SluiceSampler) s = NULL;

    g_return_val_if_fail(model != NULL && params != NULL, NULL);
    if (!check_params(params, error))
        return NULL;
    s = g_new0(SluiceSampler, 1);
    s->params = *params;
    s->n_vocab = sluice_model_n_vocab(model);
    s->n_tokens = (int32_t) sluice_tokenizer_n_tokens(sluice_model_text_tokenizer(model));
    s->history = g_array_new(FALSE, FALSE, sizeof(int32_t));
    s->banned = g_array_new(FALSE, FALSE, sizeof(int32_t));
    s->breakers = g_array_new(FALSE, FALSE, sizeof(SluiceDryBreaker));
    s->lengths = g_array_new(FALSE, FALSE, sizeof(int32_t));
    if (!parse_order(s, error) || !ban_tokens(s, model, error))
        return NULL;
    s->params.order = NULL; /* the caller's string is not kept */
    if (chain_has(s, STAGE_DRY) && !make_dry(s, model, error))
        return NULL;
    s->seed = params->seed != SLUICE_SEED_RANDOM ? params->seed : random_seed();
    sluice_mt19937_init(&s->rng, s->seed);
    sluice_mt19937_init(&s->xtc_rng, s->seed);
    allocate(s);
    sluice_sampler_reset(s);
    return g_steal_pointer(&s);
}

/**
 * sluice_sampler_free:
 * @sampler: (nullable): a sampler
 *
 * Since: 0.1
 */
void
sluice_sampler_free(SluiceSampler *sampler)
{
    if (sampler == NULL)
        return;
    g_array_unref(sampler->history);
    g_array_unref(sampler->banned);
    g_array_unref(sampler->breakers);
    g_array_unref(sampler->lengths);
    g_free(sampler->candidates.items);
    g_free(sampler->logits);
    g_free(sampler->counts);
    g_free(sampler);
}

/**
 * sluice_sampler_seed:
 * @sampler: a sampler
 *
 * Returns: the seed in use, also where it was drawn
 * Since: 0.1
 */
uint32_t
sluice_sampler_seed(const SluiceSampler *sampler)
{
    g_return_val_if_fail(sampler != NULL, 0);
    return sampler->seed;
}

/* ---- drawing -------------------------------------------------------------------------------- */

/* The last n tokens, or all for -1. */
static const int32_t *
last_tokens(const SluiceSampler *s, int32_t n, int32_t *n_last)
{
    int32_t n_all = (int32_t) s->history->len;

    *n_last = n < 0 ? n_all : MIN(n, n_all);
    return &g_array_index(s->history, int32_t, n_all - *n_last);
}

static void
run_dry(SluiceSampler *s)
{
    int32_t n = 0;
    const int32_t *history = last_tokens(s, s->params.dry_last_n, &n);

    g_array_set_size(s->lengths, (guint) n);
    sluice_repetition_dry(&s->candidates, &s->dry, history, n, s->counts,
                          (int32_t *) (gpointer) s->lengths->data);
}

static void
run_stage(SluiceSampler *s, Stage stage)
{
    const SluiceSamplerParams *p = &s->params;
    SluiceCandidates *c = &s->candidates;
    int32_t n = 0;
    const int32_t *history;

    switch (stage) {
    case STAGE_PENALTIES:
        history = last_tokens(s, p->penalty_last_n, &n);
        sluice_repetition_penalise(c, history, n, s->counts, p->repeat_penalty,
                                   p->frequency_penalty, p->presence_penalty);
        break;
    case STAGE_DRY:
        run_dry(s);
        break;
    case STAGE_TOP_N_SIGMA:
        sluice_candidates_top_n_sigma(c, p->top_n_sigma);
        break;
    case STAGE_TOP_K:
        sluice_candidates_top_k(c, p->top_k);
        break;
    case STAGE_TYPICAL_P:
        sluice_candidates_typical(c, p->typical_p);
        break;
    case STAGE_TOP_P:
        sluice_candidates_top_p(c, p->top_p);
        break;
    case STAGE_MIN_P:
        sluice_candidates_min_p(c, p->min_p);
        break;
    case STAGE_XTC:
        if (sluice_mt19937_float(&s->xtc_rng) <= p->xtc_probability)
            sluice_candidates_xtc(c, p->xtc_threshold);
        break;
    case STAGE_TEMPERATURE:
        sluice_candidates_temperature(c, p->temperature, p->dynatemp_range, p->dynatemp_exponent);
        break;
    case STAGE_COUNT:
        g_assert_not_reached();
    }
}

/* Fills the candidates; true when that was the first stage's work as well. */
static bool
load(SluiceSampler *s, const float *logits)
{
    if (s->banned->len > 0) {
        memcpy(s->logits, logits, (size_t) s->n_tokens * sizeof logits[0]);
        for (guint i = 0; i < s->banned->len; i++)
            s->logits[g_array_index(s->banned, int32_t, i)] = -INFINITY;
        logits = s->logits;
    }
    if (s->n_stages > 0 && s->stages[0] == STAGE_TOP_K) {
        sluice_candidates_load_top_k(&s->candidates, logits, s->n_tokens, s->params.top_k);
        return true;
    }
    if (s->n_stages == 0) { /* greedy */
        sluice_candidates_load_top_k(&s->candidates, logits, s->n_tokens, 1);
        return true;
    }
    sluice_candidates_load(&s->candidates, logits, s->n_tokens);
    return false;
}

static int32_t
draw_mirostat(SluiceSampler *s)
{
    const SluiceSamplerParams *p = &s->params;
    const SluiceCandidate *drawn;

    if (p->mirostat == 1)
        sluice_candidates_mirostat_v1(&s->candidates, s->mu, s->n_vocab);
    else
        sluice_candidates_mirostat_v2(&s->candidates, s->mu);
    drawn = sluice_candidates_pick(&s->candidates, sluice_mt19937_double(&s->rng));
    s->mu -= p->mirostat_eta * (-log2f(drawn->p) - p->mirostat_tau);
    return drawn->id;
}

/**
 * sluice_sampler_draw:
 * @sampler: a sampler
 * @logits: [n_vocab]
 *
 * Draws a token. Moves the generator and mirostat's state on, but not the history:
 * sluice_sampler_accept() does.
 *
 * Returns: an id of the vocabulary, never of its padding
 * Since: 0.1
 */
int32_t
sluice_sampler_draw(SluiceSampler *sampler, const float *logits)
{
    SluiceSampler *s = sampler;

    g_return_val_if_fail(sampler != NULL && logits != NULL, 0);
    for (int i = load(s, logits) ? 1 : 0; i < s->n_stages; i++)
        run_stage(s, s->stages[i]);
    if (s->params.temperature <= 0.0f && s->params.dynatemp_range <= 0.0f) {
        sluice_candidates_top_k(&s->candidates, 1);
        return s->candidates.items[0].id;
    }
    if (s->params.mirostat != 0)
        return draw_mirostat(s);
    sluice_candidates_softmax(&s->candidates);
    return sluice_candidates_pick(&s->candidates, sluice_mt19937_double(&s->rng))->id;
}

/**
 * sluice_sampler_accept:
 * @sampler: a sampler
 * @token: what was said: of the prompt or drawn
 *
 * Adds a token to the history that penalties and DRY look at.
 *
 * Since: 0.1
 */
void
sluice_sampler_accept(SluiceSampler *sampler, int32_t token)
{
    g_return_if_fail(sampler != NULL && token >= 0 && token < sampler->n_vocab);
    g_array_append_val(sampler->history, token);
}

/**
 * sluice_sampler_reset:
 * @sampler: a sampler
 *
 * Forgets history and mirostat's state; the generators go on.
 *
 * Since: 0.1
 */
void
sluice_sampler_reset(SluiceSampler *sampler)
{
    g_return_if_fail(sampler != NULL);
    g_array_set_size(sampler->history, 0);
    sampler->mu = 2.0f * sampler->params.mirostat_tau;
}
