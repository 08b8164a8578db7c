/* SPDX-License-Identifier: MIT */
/*
 * Sampling: each stage against values worked out by hand, whole chains against
 * tests/reference/make_sampler_golden.py, seeds, limits, and the time of a large vocabulary.
 */
#include "config.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/candidates.h"
#include "src/engine/repetition.h"
#include "src/sluice.h"
#include "tests/suite.h"

#define N_VOCAB 256

static SluiceModel *
open_model(void)
{
    g_autofree char *path = g_strdup_printf("%s/models/llama.gguf", g_getenv("SLUICE_TEST_DATA"));
    GError *error = NULL;
    SluiceModel *model = sluice_model_open(path, &error);

    ck_assert_msg(model != NULL, "%s", error != NULL ? error->message : "");
    ck_assert_int_eq(sluice_model_n_vocab(model), N_VOCAB);
    return model;
}

/* The script makes the same numbers. */
static void
fill_logits(float *logits, int n, uint32_t seed, double scale)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        logits[i] = (float) (((seed >> 8) / 0x1p24 - 0.5) * scale);
    }
}

/* ---- stages by hand ------------------------------------------------------------------------- */

/* Probabilities 0.5, 0.25, 0.125 and two of 0.0625, in an order that is not theirs. */
static const float halves[] = {-3.0f, -1.0f, -4.0f, -2.0f, -4.0f};
static SluiceCandidate items[8];

static SluiceCandidates
load_halves(void)
{
    SluiceCandidates c = {.items = items};
    float logits[G_N_ELEMENTS(halves)];

    for (size_t i = 0; i < G_N_ELEMENTS(halves); i++)
        logits[i] = halves[i] * (float) G_LN2;
    sluice_candidates_load(&c, logits, G_N_ELEMENTS(halves));
    return c;
}

/* Ids in the order of falling logits. */
static void
assert_ids(SluiceCandidates *c, int n, ...)
{
    va_list ids;

    ck_assert_int_eq(c->n, n);
    sluice_candidates_sort(c, n);
    va_start(ids, n);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(c->items[i].id, va_arg(ids, int));
    va_end(ids);
}

START_TEST(softmax_gives_the_probabilities)
{
    SluiceCandidates c = load_halves();
    const float expected[] = {0.125f, 0.5f, 0.0625f, 0.25f, 0.0625f};

    sluice_candidates_softmax(&c);
    for (int i = 0; i < c.n; i++)
        ck_assert_float_eq_tol(c.items[i].p, expected[i], 1e-6);
}
END_TEST

START_TEST(top_k_keeps_the_k_best_ties_to_the_lower_id)
{
    SluiceCandidates c = load_halves();

    sluice_candidates_top_k(&c, 4);
    assert_ids(&c, 4, 1, 3, 0, 2);
    sluice_candidates_top_k(&c, 0);
    ck_assert_int_eq(c.n, 4);
    sluice_candidates_top_k(&c, 9);
    ck_assert_int_eq(c.n, 4);
    sluice_candidates_top_k(&c, 1);
    assert_ids(&c, 1, 1);
}
END_TEST

START_TEST(top_p_includes_the_one_that_crosses)
{
    SluiceCandidates c = load_halves();

    sluice_candidates_top_p(&c, 1.0f);
    ck_assert_int_eq(c.n, 5);
    sluice_candidates_top_p(&c, 0.7f);
    assert_ids(&c, 2, 1, 3);
    c = load_halves();
    sluice_candidates_top_p(&c, 0.8f);
    assert_ids(&c, 3, 1, 3, 0);
    c = load_halves();
    sluice_candidates_top_p(&c, 0.0f);
    assert_ids(&c, 1, 1);
}
END_TEST

START_TEST(min_p_is_a_share_of_the_largest)
{
    SluiceCandidates c = load_halves();

    sluice_candidates_min_p(&c, 0.24f); /* 0.12 */
    assert_ids(&c, 3, 1, 3, 0);
    sluice_candidates_min_p(&c, 0.26f);
    assert_ids(&c, 2, 1, 3);
    sluice_candidates_min_p(&c, 1.0f);
    assert_ids(&c, 1, 1);
}
END_TEST

/* Entropy 1.875 bits: surprises 1, 2, 3, 4, 4 are 0.875, 0.125, 1.125, 2.125, 2.125 away. */
START_TEST(typical_p_keeps_the_expected_surprise)
{
    SluiceCandidates c = load_halves();

    sluice_candidates_typical(&c, 0.2f);
    assert_ids(&c, 1, 3);
    c = load_halves();
    sluice_candidates_typical(&c, 0.7f);
    assert_ids(&c, 2, 1, 3);
    c = load_halves();
    sluice_candidates_typical(&c, 0.8f);
    assert_ids(&c, 3, 1, 3, 0);
}
END_TEST

/* Logits -1 ... -4, in units of ln 2: mean -2.8, deviation sqrt(1.36) = 1.1662. */
START_TEST(top_n_sigma_measures_from_the_largest)
{
    SluiceCandidates c = load_halves();

    sluice_candidates_top_n_sigma(&c, -1.0f);
    ck_assert_int_eq(c.n, 5);
    sluice_candidates_top_n_sigma(&c, 1.72f); /* -3.006 */
    assert_ids(&c, 3, 1, 3, 0);
    c = load_halves();
    sluice_candidates_top_n_sigma(&c, 1.71f); /* -2.994 */
    assert_ids(&c, 2, 1, 3);
}
END_TEST

START_TEST(xtc_leaves_the_least_probable_of_the_top)
{
    SluiceCandidates c = load_halves();

    sluice_candidates_xtc(&c, 0.2f);
    assert_ids(&c, 4, 3, 0, 2, 4);
    c = load_halves();
    sluice_candidates_xtc(&c, 0.4f); /* one alone stays */
    ck_assert_int_eq(c.n, 5);
}
END_TEST

/* Entropy over ln 5 is 1.875 / log2(5) = 0.80752. */
START_TEST(temperature_follows_the_entropy)
{
    SluiceCandidates c = load_halves();

    sluice_candidates_temperature(&c, 0.5f, 0.0f, 1.0f);
    ck_assert_float_eq_tol(c.items[1].logit, -2.0 * G_LN2, 1e-6);
    c = load_halves();
    sluice_candidates_temperature(&c, 1.0f, 0.5f, 2.0f);
    ck_assert_float_eq_tol(c.items[0].logit, -3.0 * G_LN2 / (0.5 + 0.80752 * 0.80752), 1e-4);
    sluice_candidates_temperature(&c, 0.0f, 0.0f, 1.0f);
    assert_ids(&c, 1, 1);
}
END_TEST

START_TEST(pick_takes_the_first_that_reaches_u)
{
    SluiceCandidates c = load_halves();

    sluice_candidates_sort(&c, 5);
    sluice_candidates_softmax(&c);
    ck_assert_int_eq(sluice_candidates_pick(&c, 0.0)->id, 1);
    ck_assert_int_eq(sluice_candidates_pick(&c, 0.499)->id, 1);
    ck_assert_int_eq(sluice_candidates_pick(&c, 0.501)->id, 3);
    ck_assert_int_eq(sluice_candidates_pick(&c, 0.76)->id, 0);
    ck_assert_int_eq(sluice_candidates_pick(&c, 0.9999999)->id, 4);
}
END_TEST

START_TEST(hopeless_logits_still_give_a_token)
{
    SluiceCandidates c = {.items = items};
    float logits[] = {NAN, -INFINITY, NAN};

    sluice_candidates_load(&c, logits, 3);
    sluice_candidates_top_p(&c, 0.9f);
    sluice_candidates_min_p(&c, 0.1f);
    sluice_candidates_softmax(&c);
    ck_assert_int_ge(c.n, 1);
    ck_assert_int_lt(sluice_candidates_pick(&c, 0.5)->id, 3);
    logits[2] = INFINITY;
    sluice_candidates_load_top_k(&c, logits, 3, 2);
    sluice_candidates_softmax(&c);
    ck_assert_int_eq(sluice_candidates_pick(&c, 0.5)->id, 2);
}
END_TEST

START_TEST(loading_with_top_k_is_loading_then_top_k)
{
    static float logits[1000];
    static SluiceCandidate a_items[1000], b_items[1000];
    SluiceCandidates a = {.items = a_items}, b = {.items = b_items};

    for (uint32_t k = 1; k < 400; k = k * 3 + 1) {
        fill_logits(logits, 1000, k, 10.0);
        for (int i = 0; i < 1000; i++)
            logits[i] = roundf(logits[i] * 4.0f); /* many ties */
        logits[k] = NAN;
        sluice_candidates_load_top_k(&a, logits, 1000, (int32_t) k);
        sluice_candidates_load(&b, logits, 1000);
        sluice_candidates_top_k(&b, (int32_t) k);
        ck_assert_int_eq(a.n, (int) k);
        ck_assert_int_eq(b.n, (int) k);
        for (int i = 0; i < a.n; i++) {
            ck_assert_int_eq(a.items[i].id, b.items[i].id);
            ck_assert(
                i == 0 || a.items[i - 1].logit > a.items[i].logit ||
                (a.items[i - 1].logit == a.items[i].logit && a.items[i - 1].id < a.items[i].id));
        }
    }
}
END_TEST

START_TEST(penalties_count_occurrences)
{
    SluiceCandidates c = {.items = items};
    const float logits[] = {2.0f, -2.0f, 1.0f, 0.5f};
    const int32_t history[] = {0, 1, 1, 0, 0};
    int32_t counts[4] = {0};

    sluice_candidates_load(&c, logits, 4);
    sluice_repetition_penalise(&c, history, 5, counts, 2.0f, 0.25f, 0.125f);
    ck_assert_float_eq(c.items[0].logit, 1.0f - 0.75f - 0.125f);
    ck_assert_float_eq(c.items[1].logit, -4.0f - 0.5f - 0.125f);
    ck_assert_float_eq(c.items[2].logit, 1.0f);
    ck_assert_float_eq(c.items[3].logit, 0.5f);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(counts[i], 0);
}
END_TEST

/* Source: the paper's program for init_genrand(5489) gives 4123659995 as its 10000th number. */
START_TEST(twister_gives_the_published_number)
{
    SluiceMt19937 mt;
    uint32_t x = 0;

    sluice_mt19937_init(&mt, 5489);
    for (int i = 0; i < 10000; i++)
        x = sluice_mt19937_next(&mt);
    ck_assert_uint_eq(x, 4123659995u);
}
END_TEST

/* ---- golden --------------------------------------------------------------------------------- */

typedef struct {
    SluiceSamplerParams params;
    uint32_t first;
    double scale;
    char *order;
} ChainCase;

static void
set_float(void *p, const char *text)
{
    *(float *) p = (float) g_ascii_strtod(text, NULL);
}

static void
set_int(void *p, const char *text)
{
    *(int32_t *) p = (int32_t) g_ascii_strtoll(text, NULL, 10);
}

static void
set_field(ChainCase *c, const char *key, const char *value)
{
#define FIELD(name, set)                                                                           \
    {                                                                                              \
#name, offsetof(SluiceSamplerParams, name), set                                            \
    }
    static const struct {
        const char *name;
        size_t offset;
        void (*set)(void *p, const char *text);
    } fields[] = {
        FIELD(temperature, set_float),
        FIELD(dynatemp_range, set_float),
        FIELD(dynatemp_exponent, set_float),
        FIELD(top_k, set_int),
        FIELD(top_p, set_float),
        FIELD(min_p, set_float),
        FIELD(typical_p, set_float),
        FIELD(top_n_sigma, set_float),
        FIELD(xtc_probability, set_float),
        FIELD(xtc_threshold, set_float),
        FIELD(repeat_penalty, set_float),
        FIELD(frequency_penalty, set_float),
        FIELD(presence_penalty, set_float),
        FIELD(penalty_last_n, set_int),
        FIELD(mirostat, set_int),
        FIELD(mirostat_tau, set_float),
        FIELD(mirostat_eta, set_float),
    };
#undef FIELD

    for (size_t i = 0; i < G_N_ELEMENTS(fields); i++) {
        if (strcmp(fields[i].name, key) == 0) {
            fields[i].set((uint8_t *) &c->params + fields[i].offset, value);
            return;
        }
    }
    if (strcmp(key, "seed") == 0)
        c->params.seed = (uint32_t) g_ascii_strtoull(value, NULL, 10);
    else if (strcmp(key, "first") == 0)
        c->first = (uint32_t) g_ascii_strtoull(value, NULL, 10);
    else if (strcmp(key, "scale") == 0)
        c->scale = g_ascii_strtod(value, NULL);
    else if (strcmp(key, "order") == 0)
        c->order = g_strdup(value);
    else
        ck_abort_msg("unknown key %s", key);
}

static void
check_chain(const SluiceModel *model, char **words, const char *line)
{
    ChainCase c = {.first = 1, .scale = 10.0};
    g_autoptr(SluiceSampler) sampler = NULL;
    GError *error = NULL;
    float logits[N_VOCAB];
    int i = 1;

    sluice_sampler_params_init(&c.params, NULL);
    c.params.seed = 1;
    for (; strcmp(words[i], ":") != 0; i++) {
        char *value = strchr(words[i], '=');

        *value = '\0';
        set_field(&c, words[i], value + 1);
    }
    c.params.order = c.order;
    sampler = sluice_sampler_new(model, &c.params, &error);
    ck_assert_msg(sampler != NULL, "%s", error != NULL ? error->message : "");
    g_clear_pointer(&c.order, g_free); /* the sampler needs it no more */
    ck_assert_uint_eq(sluice_sampler_seed(sampler), c.params.seed);
    for (int k = 0; k < 4; k++)
        sluice_sampler_accept(sampler, (const int32_t[]){7, 9, 7, 11}[k]);
    for (int n = 0; words[i + 1 + n] != NULL; n++) {
        int32_t expected = (int32_t) g_ascii_strtoll(words[i + 1 + n], NULL, 10), drawn;

        fill_logits(logits, N_VOCAB, c.first + (uint32_t) n, c.scale);
        drawn = sluice_sampler_draw(sampler, logits);
        ck_assert_msg(drawn == expected, "draw %d gave %d, expected %d: %s", n, drawn, expected,
                      line);
        sluice_sampler_accept(sampler, drawn);
    }
}

static int32_t
parse_list(const char *text, const char *separator, int32_t *out)
{
    g_auto(GStrv) parts = g_strsplit(text, separator, -1);
    int32_t n = 0;

    for (; parts[n] != NULL; n++)
        out[n] = (int32_t) g_ascii_strtoll(parts[n], NULL, 10);
    return n;
}

static gint
compare_heads(gconstpointer a, gconstpointer b)
{
    return ((const SluiceDryBreaker *) a)->head - ((const SluiceDryBreaker *) b)->head;
}

static void
check_dry(char **words, const char *line)
{
    SluiceDry dry = {0};
    SluiceDryBreaker breakers[8] = {0};
    g_auto(GStrv) texts = g_strsplit(strchr(words[4], '=') + 1, ",", -1);
    int32_t history[512], lengths[512], longest[16] = {0};
    int32_t n_history = parse_list(strchr(words[5], '=') + 1, ",", history);
    float logits[16] = {0}, expected[16] = {0};
    SluiceCandidate list[16];
    SluiceCandidates c = {.items = list};

    dry.multiplier = (float) g_ascii_strtod(strchr(words[1], '=') + 1, NULL);
    dry.base = (float) g_ascii_strtod(strchr(words[2], '=') + 1, NULL);
    dry.allowed_length = (int32_t) g_ascii_strtoll(strchr(words[3], '=') + 1, NULL, 10);
    for (; texts[dry.n_breakers] != NULL && *texts[dry.n_breakers] != '\0'; dry.n_breakers++) {
        int32_t ids[8], n = parse_list(texts[dry.n_breakers], "+", ids);

        breakers[dry.n_breakers].head = ids[0];
        breakers[dry.n_breakers].n_tail = n - 1;
        memcpy(breakers[dry.n_breakers].tail, ids + 1, (size_t) (n - 1) * sizeof ids[0]);
    }
    qsort(breakers, (size_t) dry.n_breakers, sizeof breakers[0], compare_heads);
    dry.breakers = breakers;
    for (int i = 7; words[i] != NULL; i++)
        expected[atoi(words[i])] = (float) g_ascii_strtod(strchr(words[i], '=') + 1, NULL);
    sluice_candidates_load(&c, logits, 16);
    sluice_repetition_dry(&c, &dry, history, n_history, longest, lengths);
    for (int i = 0; i < 16; i++) {
        ck_assert_msg(fabsf(-c.items[i].logit - expected[i]) <= 1e-5f * expected[i],
                      "token %d lost %g, expected %g: %s", i, -c.items[i].logit, expected[i], line);
        ck_assert_int_eq(longest[i], 0);
    }
}

START_TEST(chains_draw_what_the_reference_draws)
{
    g_autofree char *path = g_strdup_printf("%s/sampler.txt", g_getenv("SLUICE_TEST_DATA"));
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;
    g_autoptr(SluiceModel) model = open_model();
    int n_chains = 0, n_dry = 0;

    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    lines = g_strsplit(g_strchomp(text), "\n", -1);
    for (int i = 0; lines[i] != NULL; i++) {
        g_autofree char *line = g_strchomp(g_strdup(lines[i]));
        g_auto(GStrv) words = g_strsplit(line, " ", -1);

        if (strcmp(words[0], "chain") == 0) {
            check_chain(model, words, lines[i]);
            n_chains++;
        } else {
            check_dry(words, lines[i]);
            n_dry++;
        }
    }
    ck_assert_int_ge(n_chains, 20);
    ck_assert_int_ge(n_dry, 10);
}
END_TEST

/* ---- the sampler ---------------------------------------------------------------------------- */

static SluiceSampler *
new_sampler(const SluiceModel *model, const SluiceSamplerParams *params)
{
    GError *error = NULL;
    SluiceSampler *s = sluice_sampler_new(model, params, &error);

    ck_assert_msg(s != NULL, "%s", error != NULL ? error->message : "");
    return s;
}

START_TEST(seeds_are_reproducible_and_reported)
{
    g_autoptr(SluiceModel) model = open_model();
    SluiceSamplerParams params;
    int32_t ids[2][50];
    float logits[N_VOCAB];
    int n_same = 0;

    sluice_sampler_params_init(&params, model);
    params.top_k = 0;
    params.min_p = 0.0f;
    g_autoptr(SluiceSampler) drawn = new_sampler(model, &params);

    params.seed = sluice_sampler_seed(drawn);
    ck_assert_uint_ne(params.seed, SLUICE_SEED_RANDOM);
    g_autoptr(SluiceSampler) again = new_sampler(model, &params);
    params.seed++;
    g_autoptr(SluiceSampler) other = new_sampler(model, &params);

    for (uint32_t i = 0; i < 50; i++) {
        fill_logits(logits, N_VOCAB, i, 3.0);
        ids[0][i] = sluice_sampler_draw(drawn, logits);
        ids[1][i] = sluice_sampler_draw(again, logits);
        n_same += sluice_sampler_draw(other, logits) == ids[0][i];
    }
    ck_assert_mem_eq(ids[0], ids[1], sizeof ids[0]);
    ck_assert_int_lt(n_same, 25);
}
END_TEST

START_TEST(ends_are_never_drawn_when_ignored)
{
    g_autoptr(SluiceModel) model = open_model();
    SluiceSamplerParams params;
    float logits[N_VOCAB] = {0};
    int32_t end = -1;

    for (int32_t i = 0; i < N_VOCAB; i++) {
        if (sluice_model_is_end(model, i))
            end = i;
    }
    ck_assert_int_ge(end, 0);
    logits[end] = 50.0f;
    logits[3] = 40.0f;
    sluice_sampler_params_init(&params, model);
    params.temperature = 0.0f;
    g_autoptr(SluiceSampler) plain = new_sampler(model, &params);

    params.ignore_end = TRUE;
    g_autoptr(SluiceSampler) endless = new_sampler(model, &params);

    ck_assert_int_eq(sluice_sampler_draw(plain, logits), end);
    ck_assert_int_eq(sluice_sampler_draw(endless, logits), 3);
    ck_assert_float_eq(logits[end], 50.0f); /* the caller's are only read */
}
END_TEST

START_TEST(history_is_forgotten_on_reset)
{
    g_autoptr(SluiceModel) model = open_model();
    SluiceSamplerParams params;
    float logits[N_VOCAB] = {0};

    logits[5] = 1.0f;
    logits[6] = 0.9f;
    sluice_sampler_params_init(&params, model);
    params.temperature = 0.0f;
    params.presence_penalty = 0.5f;
    params.penalty_last_n = 2;
    g_autoptr(SluiceSampler) s = new_sampler(model, &params);

    ck_assert_int_eq(sluice_sampler_draw(s, logits), 5);
    sluice_sampler_accept(s, 5);
    ck_assert_int_eq(sluice_sampler_draw(s, logits), 6);
    sluice_sampler_accept(s, 1);
    ck_assert_int_eq(sluice_sampler_draw(s, logits), 6);
    sluice_sampler_accept(s, 1); /* 5 has left the last two */
    ck_assert_int_eq(sluice_sampler_draw(s, logits), 5);
    sluice_sampler_accept(s, 5);
    sluice_sampler_reset(s);
    ck_assert_int_eq(sluice_sampler_draw(s, logits), 5);
}
END_TEST

START_TEST(bad_parameters_name_field_value_and_limit)
{
    static const struct {
        size_t offset;
        float value;
        const char *message;
    } floats[] = {
        {offsetof(SluiceSamplerParams, top_p), 1.5f, "top_p is 1.5, expected 0 to 1"},
        {offsetof(SluiceSamplerParams, top_p), NAN, "top_p is nan, expected 0 to 1"},
        {offsetof(SluiceSamplerParams, min_p), -0.1f, "min_p is -0.1, expected 0 to 1"},
        {offsetof(SluiceSamplerParams, typical_p), 2.0f, "typical_p is 2, expected 0 to 1"},
        {offsetof(SluiceSamplerParams, temperature), INFINITY, "temperature is inf"},
        {offsetof(SluiceSamplerParams, repeat_penalty), 0.0f, "repeat_penalty is 0"},
        {offsetof(SluiceSamplerParams, frequency_penalty), NAN, "frequency_penalty is nan"},
        {offsetof(SluiceSamplerParams, xtc_threshold), 1.1f, "xtc_threshold is 1.1"},
        {offsetof(SluiceSamplerParams, dry_base), -1.0f, "dry_base is -1"},
    };
    static const char *const orders[] = {"top_k;nonsense", "top_k;top_k", ";", "top_k;"};
    g_autoptr(SluiceModel) model = open_model();
    SluiceSamplerParams params;

    for (size_t i = 0; i < G_N_ELEMENTS(floats); i++) {
        g_autoptr(GError) error = NULL;

        sluice_sampler_params_init(&params, model);
        *(float *) (void *) ((uint8_t *) &params + floats[i].offset) = floats[i].value;
        ck_assert_ptr_null(sluice_sampler_new(model, &params, &error));
        ck_assert(g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT));
        ck_assert_msg(strstr(error->message, floats[i].message) != NULL, "%s", error->message);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(orders); i++) {
        g_autoptr(GError) error = NULL;

        sluice_sampler_params_init(&params, model);
        params.order = orders[i];
        ck_assert_ptr_null(sluice_sampler_new(model, &params, &error));
        ck_assert(g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT));
    }
    {
        g_autoptr(GError) error = NULL;

        sluice_sampler_params_init(&params, model);
        params.mirostat = 3;
        ck_assert_ptr_null(sluice_sampler_new(model, &params, &error));
        ck_assert_str_eq(error->message, "mirostat is 3, expected 0 to 2");
    }
}
END_TEST

/* Repeats of a line end at the newline: what comes before it is no repetition. */
START_TEST(dry_knows_the_breakers_of_the_vocabulary)
{
    g_autoptr(SluiceModel) model = open_model();
    SluiceSamplerParams params;
    float logits[N_VOCAB] = {0};
    static const char *const texts[] = {"abcabc", "abc\nabc"};

    sluice_sampler_params_init(&params, model);
    params.temperature = 0.0f;
    params.dry_multiplier = 5.0f;
    for (int k = 0; k < 2; k++) {
        g_autoptr(SluiceSampler) s = new_sampler(model, &params);
        g_autoptr(GArray) ids = sluice_model_tokenize(model, texts[k], -1, 0, NULL);
        g_autoptr(GArray) a = sluice_model_tokenize(model, "a", -1, 0, NULL);
        g_autoptr(GArray) nl = sluice_model_tokenize(model, "\n", -1, 0, NULL);

        ck_assert_uint_ge(ids->len, 5);
        ck_assert_uint_eq(nl->len, 1);
        memset(logits, 0, sizeof logits);
        /* What came after "abc" the first time. */
        logits[g_array_index(k == 0 ? a : nl, int32_t, 0)] = 2.0f;
        for (guint i = 0; i < ids->len; i++)
            sluice_sampler_accept(s, g_array_index(ids, int32_t, i));
        ck_assert_int_eq(
            sluice_sampler_draw(s, logits) == g_array_index(k == 0 ? a : nl, int32_t, 0), k == 1);
    }
}
END_TEST

/* The bound is ten times what an idle processor takes: it catches a sort of everything. */
START_TEST(a_large_vocabulary_is_quick)
{
    enum { N = 262144 };
    g_autofree float *logits = g_new(float, N);
    g_autofree SluiceCandidate *list = g_new(SluiceCandidate, N);
    SluiceCandidates c = {.items = list};
    gint64 best = G_MAXINT64;

    fill_logits(logits, N, 1, 30.0);
    for (int i = 0; i < 20; i++) {
        gint64 begin = g_get_monotonic_time();

        sluice_candidates_load_top_k(&c, logits, N, 40);
        sluice_candidates_top_p(&c, 0.95f);
        sluice_candidates_min_p(&c, 0.05f);
        sluice_candidates_softmax(&c);
        best = MIN(best, g_get_monotonic_time() - begin);
    }
    ck_assert_msg(best < 3000, "%d microseconds", (int) best);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("sampler");
    TCase *stages = tcase_create("stages");
    TCase *chains = tcase_create("chains");

    tcase_add_test(stages, softmax_gives_the_probabilities);
    tcase_add_test(stages, top_k_keeps_the_k_best_ties_to_the_lower_id);
    tcase_add_test(stages, top_p_includes_the_one_that_crosses);
    tcase_add_test(stages, min_p_is_a_share_of_the_largest);
    tcase_add_test(stages, typical_p_keeps_the_expected_surprise);
    tcase_add_test(stages, top_n_sigma_measures_from_the_largest);
    tcase_add_test(stages, xtc_leaves_the_least_probable_of_the_top);
    tcase_add_test(stages, temperature_follows_the_entropy);
    tcase_add_test(stages, pick_takes_the_first_that_reaches_u);
    tcase_add_test(stages, hopeless_logits_still_give_a_token);
    tcase_add_test(stages, loading_with_top_k_is_loading_then_top_k);
    tcase_add_test(stages, penalties_count_occurrences);
    tcase_add_test(stages, twister_gives_the_published_number);
    tcase_add_test(stages, a_large_vocabulary_is_quick);
    tcase_add_test(chains, chains_draw_what_the_reference_draws);
    tcase_add_test(chains, seeds_are_reproducible_and_reported);
    tcase_add_test(chains, ends_are_never_drawn_when_ignored);
    tcase_add_test(chains, history_is_forgotten_on_reset);
    tcase_add_test(chains, bad_parameters_name_field_value_and_limit);
    tcase_add_test(chains, dry_knows_the_breakers_of_the_vocabulary);
    suite_add_tcase(suite, stages);
    suite_add_tcase(suite, chains);
    return sluice_test_run(suite);
}
