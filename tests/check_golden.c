/* SPDX-License-Identifier: MIT */
/*
 * The whole forward pass of each family against independent code: tiny random models under
 * tests/data/models, and larger ones of every block type that are drawn here, whose logits
 * `transformers` computed (tests/reference/make_tiny_models.py and make_drawn_logits.py).
 */
#include "config.h"

#include "src/core/tensor.h"
#include "tests/golden.h"
#include "tests/model_builder.h"
#include "tests/suite.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static const char *const models[] = {
    "llama", "llama3", "qwen2", "qwen2-yarn", "qwen3", "gemma3", "gemma3-scaled",
};

/* Two rows of pages meet at 64; 7 leaves a rest; 0 is everything at once. */
static const int splits[] = {0, 64, 7, 2, 1};

/*
 * Float32 on both sides, sums of at most 96 products in another order: 1e-7 relative, 1e-14 as
 * NMSE, grown by the softmax and by angles of positions up to 200 in float32. 1e-9 leaves room for
 * a platform's own exp and sin. The fast kernels may approximate exp and gelu.
 */
#define BOUND_REFERENCE 1e-9
#define BOUND_FAST 1e-6

static char *
data_path(const char *folder, const char *name, const char *suffix)
{
    const char *dir = g_getenv("SLUICE_TEST_DATA");

    ck_assert_msg(dir != NULL, "SLUICE_TEST_DATA is not set");
    return g_strdup_printf("%s/%s/%s%s", dir, folder, name, suffix);
}

static SluiceGolden *
load_golden(const char *folder, const char *name, const char *suffix)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = data_path(folder, name, suffix);
    SluiceGolden *golden = sluice_golden_load(path, &error);

    ck_assert_msg(golden != NULL, "%s", error != NULL ? error->message : "");
    return golden;
}

/* Keys and values in float32, so that nothing is rounded that the reference does not round. */
static SluiceEngine *
open_engine(const char *path, int n_ubatch)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceModel) model = sluice_model_open(path, &error);
    SluiceEngineParams params;
    SluiceEngine *engine;

    ck_assert_msg(model != NULL, "%s", error != NULL ? error->message : "");
    sluice_engine_params_init(&params);
    params.n_ctx = 256;
    params.n_ubatch = n_ubatch;
    params.n_threads = 2;
    params.type_k = SLUICE_KV_F32;
    params.type_v = SLUICE_KV_F32;
    engine = sluice_engine_new(model, &params, &error);
    ck_assert_msg(engine != NULL, "%s", error != NULL ? error->message : "");
    return engine;
}

static void
check_split(const char *name, SluiceEngine *engine, const SluiceGolden *golden, int n_split,
            double bound)
{
    g_autoptr(GError) error = NULL;
    gsize n = (gsize) golden->n_tokens * (gsize) golden->n_vocab;
    g_autofree float *logits = g_new(float, n);
    SluiceGoldenResult r;

    for (gsize i = 0; i < n; i++)
        logits[i] = NAN;
    ck_assert_msg(sluice_golden_eval(engine, golden, n_split, logits, &error), "%s, split %d: %s",
                  name, n_split, error != NULL ? error->message : "");
    sluice_golden_compare(golden, logits, bound, &r);
    g_print(
        "%s, split %d: NMSE %.2g (worst row %.2g at %d), %d of %d argmax below the margin %.2g\n",
        name, n_split, r.nmse, r.worst_nmse, r.worst_pos, r.n_below_margin, golden->n_tokens,
        r.margin_bound);
    ck_assert_msg(r.nmse <= bound, "%s, split %d: NMSE %g, at most %g; worst at position %d (%g)",
                  name, n_split, r.nmse, bound, r.worst_pos, r.worst_nmse);
    ck_assert_msg(r.n_best_differ == 0, "%s, split %d: %d argmax differ, first at position %d",
                  name, n_split, r.n_best_differ, r.first_differ);
    /* The margin must not excuse everything. */
    ck_assert_int_lt(r.n_below_margin, golden->n_tokens * 7 / 8);
}

static void
check_model(const char *name, int n_ubatch, double bound)
{
    g_autoptr(SluiceGolden) golden = load_golden("models", name, ".gold");
    g_autofree char *path = data_path("models", name, ".gguf");
    g_autoptr(SluiceEngine) engine = open_engine(path, n_ubatch);

    for (size_t i = 0; i < G_N_ELEMENTS(splits); i++)
        check_split(name, engine, golden, splits[i], bound);
}

START_TEST(reference_kernels_give_the_golden_logits)
{
    g_setenv("SLUICE_CPU_FEATURES", "ref", TRUE);
    check_model(models[_i], 512, BOUND_REFERENCE);
}
END_TEST

START_TEST(fast_kernels_give_the_golden_logits)
{
    check_model(models[_i], 512, BOUND_FAST);
}
END_TEST

/* A micro-batch that divides neither the text nor a page. */
START_TEST(small_micro_batches_give_the_golden_logits)
{
    check_model(models[_i], 48, BOUND_FAST);
}
END_TEST

/* The table of make_drawn_logits.py; a model's seed is its place in it. */
static const struct {
    const char *arch;
    const char *type; /* or the stock mix */
} drawn[] = {
    {"llama", "q4_k_m"},  {"qwen2", "q4_k_m"}, {"qwen3", "q4_k_m"}, {"gemma3", "q4_k_m"},
    {"llama", "f16"},     {"llama", "bf16"},   {"llama", "q4_0"},   {"llama", "q4_1"},
    {"llama", "q5_0"},    {"llama", "q5_1"},   {"llama", "q8_0"},   {"llama", "q2_k"},
    {"llama", "q3_k"},    {"llama", "q4_k"},   {"llama", "q5_k"},   {"llama", "q6_k"},
    {"llama", "iq2_xxs"}, {"llama", "iq2_xs"}, {"llama", "iq2_s"},  {"llama", "iq3_xxs"},
    {"llama", "iq3_s"},   {"llama", "iq1_s"},  {"llama", "iq1_m"},  {"llama", "iq4_nl"},
    {"llama", "iq4_xs"},  {"llama", "tq1_0"},  {"llama", "tq2_0"},  {"llama", "mxfp4"},
    {"llama", "nvfp4"},
};

/* (transfer full): the path of a file that the caller unlinks. */
static char *
draw_model(size_t i)
{
    g_autoptr(GError) error = NULL;
    char *path = NULL;
    ModelSpec spec;
    int fd = g_file_open_tmp("sluice-golden-XXXXXX.gguf", &path, &error);

    ck_assert_msg(fd >= 0, "%s", error != NULL ? error->message : "");
    close(fd);
    ck_assert(model_spec_init(&spec, drawn[i].arch));
    spec.is_q4_k_m = strcmp(drawn[i].type, "q4_k_m") == 0;
    spec.n_layers = spec.is_q4_k_m ? 6 : 2;
    if (!spec.is_q4_k_m)
        spec.type = sluice_dtype_from_name(drawn[i].type);
    spec.seed = i + 1;
    ck_assert_msg(model_write(&spec, path, &error), "%s", error != NULL ? error->message : "");
    return path;
}

/*
 * The reference reads activations in float32: all of the distance is the noise that int8 makes, as
 * the reference measured it. Twice that leaves room for which values the noise falls on.
 */
static void
check_drawn(size_t i)
{
    g_autofree char *name = g_strdup_printf("%s-%s", drawn[i].arch, drawn[i].type);
    g_autoptr(SluiceGolden) golden = load_golden("golden", name, ".gold");
    g_autofree char *path = draw_model(i);
    g_autoptr(SluiceEngine) engine = open_engine(path, 512);
    double bound = golden->noise > 0.0 ? 2.0 * golden->noise : BOUND_FAST;

    g_unlink(path);
    check_split(name, engine, golden, 0, bound);
    check_split(name, engine, golden, 5, bound);
}

START_TEST(reference_kernels_give_golden_logits_of_every_type)
{
    g_setenv("SLUICE_CPU_FEATURES", "ref", TRUE);
    check_drawn((size_t) _i);
}
END_TEST

START_TEST(fast_kernels_give_golden_logits_of_every_type)
{
    check_drawn((size_t) _i);
}
END_TEST

START_TEST(comparison_sees_errors)
{
    g_autoptr(SluiceGolden) golden = load_golden("models", "llama", ".gold");
    gsize n = (gsize) golden->n_tokens * (gsize) golden->n_vocab;
    g_autofree float *logits = g_new0(float, n);
    SluiceGoldenResult r;
    int pos = 0, n_differ;

    for (int i = 0; i < golden->n_tokens; i++)
        logits[i * golden->n_vocab + golden->best[i]] = 100.0f;
    for (int i = 0; i < golden->n_rows; i++)
        memcpy(logits + golden->rows[i] * golden->n_vocab, golden->logits + i * golden->n_vocab,
               sizeof(float) * (gsize) golden->n_vocab);
    sluice_golden_compare(golden, logits, BOUND_FAST, &r);
    ck_assert_double_eq(r.nmse, 0.0);
    ck_assert_int_eq(r.n_best_differ, 0);

    /* One logit of one row, off by a hundredth. */
    logits[golden->rows[3] * golden->n_vocab + 7] += 0.01f * sqrtf((float) golden->n_vocab);
    sluice_golden_compare(golden, logits, BOUND_FAST, &r);
    ck_assert_double_gt(r.nmse, 1e-8);
    ck_assert_int_eq(r.worst_pos, golden->rows[3]);

    logits[golden->rows[5] * golden->n_vocab + 9] = NAN;
    sluice_golden_compare(golden, logits, BOUND_FAST, &r);
    ck_assert(isinf(r.nmse));
    ck_assert_int_eq(r.worst_pos, golden->rows[5]);

    while (golden->margin[pos] < 1.0f)
        pos++;
    n_differ = r.n_best_differ;
    logits[pos * golden->n_vocab + golden->best[pos]] = -100.0f;
    sluice_golden_compare(golden, logits, BOUND_FAST, &r);
    ck_assert_int_eq(r.n_best_differ, n_differ + 1);
    ck_assert_int_eq(r.first_differ, pos);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("golden");
    TCase *tiny = tcase_create("tiny models");
    TCase *types = tcase_create("drawn models");
    TCase *tool = tcase_create("comparison");

    tcase_set_timeout(tiny, 60);
    tcase_add_loop_test(tiny, reference_kernels_give_the_golden_logits, 0, G_N_ELEMENTS(models));
    tcase_add_loop_test(tiny, fast_kernels_give_the_golden_logits, 0, G_N_ELEMENTS(models));
    tcase_add_loop_test(tiny, small_micro_batches_give_the_golden_logits, 0, G_N_ELEMENTS(models));
    suite_add_tcase(suite, tiny);
    tcase_set_timeout(types, 60);
    tcase_add_loop_test(types, reference_kernels_give_golden_logits_of_every_type, 0,
                        G_N_ELEMENTS(drawn));
    tcase_add_loop_test(types, fast_kernels_give_golden_logits_of_every_type, 0,
                        G_N_ELEMENTS(drawn));
    suite_add_tcase(suite, types);
    tcase_add_test(tool, comparison_sees_errors);
    suite_add_tcase(suite, tool);
    return sluice_test_run(suite);
}
