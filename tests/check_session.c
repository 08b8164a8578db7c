/* SPDX-License-Identifier: MIT */
/*
 * Sessions over the tiny models of tests/data/models: however a text gets into the cache, the
 * logits behind it are the same; and what cannot be is refused with the session as it was.
 */
#include "config.h"

#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/engine/session.h"
#include "tests/suite.h"

/* Keys and values in float32: what is left between two ways to the same text is the order of
 * float32 sums in products of different shapes. 1e-9 is 3e-5 of the logits' size, a hundred times
 * what those sums lose in six layers. */
#define MAX_NMSE 1e-9
/* Cells of f16: each is rounded to 2^-11 of its size, and a last-bit difference before that may
 * round it to the neighbour. */
#define MAX_NMSE_F16 1e-6

#define N_VOCAB 256

typedef struct {
    SluiceModel *model;
    SluiceEngine *engine;
} Fixture;

static const char *const models[] = {"llama", "qwen2", "qwen3", "gemma3"};

static char *
data_path(const char *name)
{
    const char *folder = g_getenv("SLUICE_TEST_DATA");

    ck_assert_ptr_nonnull(folder);
    return g_strdup_printf("%s/models/%s.gguf", folder, name);
}

static SluiceEngineParams
test_params(void)
{
    SluiceEngineParams p;

    sluice_engine_params_init(&p);
    p.n_ctx = 512;
    p.n_ubatch = 64;
    p.n_sessions = 4;
    p.n_out = 64;
    p.n_threads = 1;
    p.type_k = p.type_v = SLUICE_KV_F32;
    return p;
}

static Fixture
open_fixture(const char *name, const SluiceEngineParams *params)
{
    g_autofree char *path = data_path(name);
    GError *error = NULL;
    Fixture f;

    f.model = sluice_model_open(path, &error);
    ck_assert_msg(f.model != NULL, "%s", error != NULL ? error->message : "");
    ck_assert_int_eq(sluice_model_n_vocab(f.model), N_VOCAB);
    f.engine = sluice_engine_new(f.model, params, &error);
    ck_assert_msg(f.engine != NULL, "%s", error != NULL ? error->message : "");
    return f;
}

static void
close_fixture(Fixture *f)
{
    sluice_engine_free(f->engine);
    sluice_model_unref(f->model);
}

static SluiceSession *
new_session(SluiceEngine *engine)
{
    GError *error = NULL;
    SluiceSession *s = sluice_session_new(engine, &error);

    ck_assert_msg(s != NULL, "%s", error != NULL ? error->message : "");
    return s;
}

/* The same ids in every run. */
static void
fill_tokens(int32_t *tokens, int n, uint32_t seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        tokens[i] = (int32_t) (seed >> 16) % 250;
    }
}

static void
eval(SluiceSession *s, const int32_t *tokens, gsize n)
{
    GError *error = NULL;
    gboolean ok = sluice_session_eval(s, tokens, n, &error);

    ck_assert_msg(ok, "%s", error != NULL ? error->message : "");
    ck_assert_ptr_nonnull(sluice_session_logits(s));
}

static double
nmse(const float *ref, const float *got, int n)
{
    double error = 0.0, size = 0.0;

    for (int i = 0; i < n; i++) {
        ck_assert(isfinite(ref[i]) && isfinite(got[i]));
        error += ((double) ref[i] - got[i]) * ((double) ref[i] - got[i]);
        size += (double) ref[i] * ref[i];
    }
    ck_assert(size > 0.0);
    return error / size;
}

/* The logits behind a text evaluated in one go in a session of its own. */
static void
reference_logits(SluiceEngine *engine, const int32_t *tokens, gsize n, float *logits)
{
    g_autoptr(SluiceSession) s = new_session(engine);

    eval(s, tokens, n);
    memcpy(logits, sluice_session_logits(s), N_VOCAB * sizeof logits[0]);
}

static void
assert_logits(SluiceSession *s, double max_nmse)
{
    float expected[N_VOCAB];
    gsize n = 0;
    const int32_t *tokens = sluice_session_tokens(s, &n);
    double e;

    reference_logits(s->engine, tokens, n, expected);
    ck_assert_ptr_nonnull(sluice_session_logits(s));
    e = nmse(expected, sluice_session_logits(s), N_VOCAB);
    ck_assert_msg(e <= max_nmse, "nmse %g behind %zu tokens", e, n);
}

static void
assert_error(gboolean ok, GError **error, int code, const char *part)
{
    ck_assert(!ok);
    ck_assert_ptr_nonnull(*error);
    ck_assert_msg(g_error_matches(*error, SLUICE_ERROR, code), "code %d: %s", (*error)->code,
                  (*error)->message);
    ck_assert_msg(strstr((*error)->message, part) != NULL, "'%s' lacks '%s'", (*error)->message,
                  part);
    g_clear_error(error);
}

/* ---- one text, many ways -------------------------------------------------------------------- */

START_TEST(pieces_give_the_logits_of_the_whole)
{
    static const int sizes[] = {1, 2, 7, 64, 200};
    SluiceEngineParams params = test_params();
    int32_t tokens[200];

    fill_tokens(tokens, 200, 1);
    for (int type = 0; type < 2; type++) {
        params.type_k = params.type_v = type == 0 ? SLUICE_KV_F32 : SLUICE_KV_F16;
        Fixture f = open_fixture(models[_i], &params);

        for (size_t k = 0; k < G_N_ELEMENTS(sizes); k++) {
            g_autoptr(SluiceSession) s = new_session(f.engine);

            for (int at = 0; at < 200; at += sizes[k])
                eval(s, tokens + at, (gsize) MIN(sizes[k], 200 - at));
            assert_logits(s, type == 0 ? MAX_NMSE : MAX_NMSE_F16);
        }
        close_fixture(&f);
    }
}
END_TEST

START_TEST(every_row_of_eval_logits_is_right)
{
    SluiceEngineParams params = test_params();
    int32_t tokens[100];
    g_autofree float *logits = g_new(float, 100 * N_VOCAB);
    float expected[N_VOCAB];

    params.n_out = 5; /* fewer than the rows that are wanted */
    fill_tokens(tokens, 100, 2);
    Fixture f = open_fixture(models[_i], &params);
    g_autoptr(SluiceSession) s = new_session(f.engine);

    ck_assert(sluice_session_eval_logits(s, tokens, 100, 30, logits, NULL));
    for (int i = 30; i < 100; i += 23) {
        reference_logits(f.engine, tokens, (gsize) i + 1, expected);
        ck_assert_double_le(nmse(expected, logits + (size_t) (i - 30) * N_VOCAB, N_VOCAB),
                            MAX_NMSE);
    }
    ck_assert_mem_eq(sluice_session_logits(s), logits + 69 * N_VOCAB, N_VOCAB * sizeof(float));
    g_clear_pointer(&s, sluice_session_free);
    close_fixture(&f);
}
END_TEST

START_TEST(sequences_in_one_batch_do_not_mix)
{
    SluiceEngineParams params = test_params();
    Fixture f = open_fixture(models[_i], &params);
    g_autoptr(SluiceSession) a = new_session(f.engine);
    g_autoptr(SluiceSession) b = new_session(f.engine);
    int32_t x[150], y[150];

    fill_tokens(x, 150, 3);
    fill_tokens(y, 150, 4);
    for (int at = 0, n = 1; at < 100; at += n, n = n % 40 + 7) {
        SluiceEvalItem items[] = {{a, x + at, (gsize) n}, {b, y + at, (gsize) (n + 1) / 2}};

        ck_assert(sluice_engine_eval(f.engine, items, 2, NULL));
        assert_logits(a, MAX_NMSE);
        assert_logits(b, MAX_NMSE);
    }
    g_clear_pointer(&a, sluice_session_free);
    g_clear_pointer(&b, sluice_session_free);
    close_fixture(&f);
}
END_TEST

START_TEST(forks_go_their_own_ways)
{
    SluiceEngineParams params = test_params();
    Fixture f = open_fixture(models[_i], &params);
    g_autoptr(SluiceSession) a = new_session(f.engine);
    g_autoptr(SluiceSession) b = NULL;
    int32_t x[150], y[40];

    fill_tokens(x, 150, 5);
    fill_tokens(y, 40, 6);
    eval(a, x, 100);
    b = sluice_session_fork(a, NULL);
    ck_assert_ptr_nonnull(b);
    ck_assert_mem_eq(sluice_session_logits(a), sluice_session_logits(b), N_VOCAB * sizeof(float));
    eval(b, y, 40);
    eval(a, x + 100, 50);
    assert_logits(a, MAX_NMSE);
    assert_logits(b, MAX_NMSE);
    /* Back into a page that both still share. */
    ck_assert(sluice_session_truncate(b, 70, NULL));
    eval(b, y, 3);
    assert_logits(b, MAX_NMSE);
    ck_assert(sluice_session_truncate(a, 90, NULL));
    eval(a, y + 3, 1);
    assert_logits(a, MAX_NMSE);
    g_clear_pointer(&a, sluice_session_free);
    g_clear_pointer(&b, sluice_session_free);
    close_fixture(&f);
}
END_TEST

START_TEST(truncation_behind_a_window_reads_the_text_again)
{
    SluiceEngineParams params = test_params();
    int32_t tokens[400];

    params.n_ubatch = 16;
    params.n_out = 1;
    fill_tokens(tokens, 400, 7);
    Fixture f = open_fixture("gemma3", &params);
    g_autoptr(SluiceSession) s = new_session(f.engine);

    ck_assert_int_eq(f.engine->cache.n_tables, 2);
    ck_assert_int_gt(f.engine->cache.pools[1].window, 0);
    ck_assert_int_lt(f.engine->cache.pools[1].n_max_held, f.engine->cache.pools[0].n_max_held);
    eval(s, tokens, 400);
    ck_assert_int_gt(s->kv[1].begin, 0);
    assert_logits(s, MAX_NMSE);
    /* A little: everything is still held. */
    ck_assert(sluice_session_truncate(s, 390, NULL));
    ck_assert_int_eq(s->n_cached, 390);
    ck_assert_ptr_null(sluice_session_logits(s));
    eval(s, tokens, 5);
    assert_logits(s, MAX_NMSE);
    /* A lot: the window's pages are gone, the text stays. */
    ck_assert(sluice_session_truncate(s, 100, NULL));
    ck_assert_int_eq(s->n_cached, 0);
    ck_assert_int_eq(s->n_tokens, 100);
    eval(s, tokens, 5);
    ck_assert_int_eq(s->n_cached, 105);
    assert_logits(s, MAX_NMSE);
    g_clear_pointer(&s, sluice_session_free);
    close_fixture(&f);
}
END_TEST

START_TEST(prompt_evaluates_what_is_new)
{
    SluiceEngineParams params = test_params();
    Fixture f = open_fixture(models[_i], &params);
    g_autoptr(SluiceSession) s = new_session(f.engine);
    int32_t tokens[120];
    gsize n = 0;

    fill_tokens(tokens, 120, 8);
    ck_assert(sluice_session_prompt(s, tokens, 80, &n, NULL));
    ck_assert_uint_eq(n, 80);
    ck_assert(sluice_session_prompt(s, tokens, 120, &n, NULL));
    ck_assert_uint_eq(n, 40);
    assert_logits(s, MAX_NMSE);
    ck_assert(sluice_session_prompt(s, tokens, 120, &n, NULL));
    ck_assert_uint_eq(n, 1);
    assert_logits(s, MAX_NMSE);
    tokens[100] ^= 1;
    ck_assert(sluice_session_prompt(s, tokens, 110, &n, NULL));
    ck_assert_uint_eq(n, 10);
    assert_logits(s, MAX_NMSE);
    g_clear_pointer(&s, sluice_session_free);
    close_fixture(&f);
}
END_TEST

/* Any order of operations on sessions that share pages gives the logits of the plain way. */
START_TEST(random_walks_stay_right)
{
    SluiceEngineParams params = test_params();
    SluiceSession *s[3] = {NULL};
    g_autoptr(GRand) r = NULL;
    const char *seed_text = g_getenv("SLUICE_TEST_SEED");
    guint32 seed =
        seed_text != NULL ? (guint32) g_ascii_strtoull(seed_text, NULL, 10) : 20u + (guint32) _i;
    int32_t tokens[100];

    r = g_rand_new_with_seed(seed);
    params.n_ctx = 320;
    params.n_ubatch = 16;
    params.n_out = 2;
    Fixture f = open_fixture(models[_i], &params);

    for (int step = 0; step < 80; step++) {
        int i = g_rand_int_range(r, 0, 3), j = (i + 1) % 3;
        int n = g_rand_int_range(r, 1, 70);

        if (s[i] == NULL)
            s[i] = new_session(f.engine);
        switch (g_rand_int_range(r, 0, 5)) {
        case 0:
            sluice_session_free(s[j]);
            s[j] = sluice_session_fork(s[i], NULL);
            ck_assert_ptr_nonnull(s[j]);
            break;
        case 1:
            ck_assert(sluice_session_truncate(
                s[i], (gsize) g_rand_int_range(r, 0, s[i]->n_tokens + 1), NULL));
            break;
        case 2:
            g_clear_pointer(&s[i], sluice_session_free);
            break;
        default:
            fill_tokens(tokens, n, g_rand_int(r));
            if (s[i]->n_tokens + n > params.n_ctx)
                ck_assert(sluice_session_truncate(s[i], (gsize) n, NULL));
            eval(s[i], tokens, (gsize) n);
            assert_logits(s[i], MAX_NMSE);
        }
    }
    for (int i = 0; i < 3; i++)
        sluice_session_free(s[i]);
    for (int32_t t = 0; t < f.engine->cache.n_tables; t++)
        ck_assert_int_eq(f.engine->cache.pools[t].n_free, f.engine->cache.pools[t].n_pages);
    close_fixture(&f);
}
END_TEST

START_TEST(greedy_answers_do_not_depend_on_threads_or_pieces)
{
    int32_t answers[2][24], prompt[50];

    fill_tokens(prompt, 50, 9);
    for (int k = 0; k < 2; k++) {
        SluiceEngineParams params = test_params();
        SluiceSamplerParams sampler_params;

        params.n_threads = k + 1;
        params.n_ubatch = k == 0 ? 64 : 9;
        Fixture f = open_fixture(models[_i], &params);
        g_autoptr(SluiceSession) s = new_session(f.engine);
        g_autoptr(SluiceSampler) sampler = NULL;

        sluice_sampler_params_init(&sampler_params, f.model);
        sampler_params.temperature = 0.0f;
        sampler = sluice_sampler_new(f.model, &sampler_params, NULL);
        eval(s, prompt, 50);
        for (int i = 0; i < 24; i++) {
            answers[k][i] = sluice_sampler_draw(sampler, sluice_session_logits(s));
            eval(s, &answers[k][i], 1);
        }
        g_clear_pointer(&s, sluice_session_free);
        close_fixture(&f);
    }
    ck_assert_mem_eq(answers[0], answers[1], sizeof answers[0]);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------ */

START_TEST(context_limit_names_both_numbers)
{
    SluiceEngineParams params = test_params();
    int32_t tokens[130];
    GError *error = NULL;

    params.n_ctx = 128;
    fill_tokens(tokens, 130, 10);
    Fixture f = open_fixture("llama", &params);
    g_autoptr(SluiceSession) s = new_session(f.engine);

    eval(s, tokens, 100);
    assert_error(sluice_session_eval(s, tokens, 29, &error), &error, SLUICE_ERROR_CONTEXT, "129");
    assert_error(sluice_session_eval(s, tokens, 30, &error), &error, SLUICE_ERROR_CONTEXT, "128");
    ck_assert_int_eq(s->n_tokens, 100);
    assert_logits(s, MAX_NMSE);
    assert_error(sluice_session_prompt(s, tokens, 130, NULL, &error), &error, SLUICE_ERROR_CONTEXT,
                 "130");
    ck_assert_int_eq(s->n_tokens, 100);
    eval(s, tokens, 28);
    assert_logits(s, MAX_NMSE);
    g_clear_pointer(&s, sluice_session_free);
    close_fixture(&f);
}
END_TEST

START_TEST(foreign_ids_are_refused)
{
    SluiceEngineParams params = test_params();
    int32_t tokens[] = {1, 256, 2}, negative = -1;
    GError *error = NULL;
    Fixture f = open_fixture("llama", &params);
    g_autoptr(SluiceSession) s = new_session(f.engine);
    SluiceEvalItem twice[] = {{s, tokens, 1}, {s, tokens, 1}};

    assert_error(sluice_session_eval(s, tokens, 3, &error), &error, SLUICE_ERROR_ARGUMENT, "256");
    assert_error(sluice_session_eval(s, &negative, 1, &error), &error, SLUICE_ERROR_ARGUMENT, "-1");
    assert_error(sluice_engine_eval(f.engine, twice, 2, &error), &error, SLUICE_ERROR_ARGUMENT,
                 "twice");
    assert_error(sluice_session_truncate(s, 1, &error), &error, SLUICE_ERROR_ARGUMENT, "0 tokens");
    ck_assert_int_eq(s->n_tokens, 0);
    ck_assert_ptr_null(sluice_session_logits(s));
    g_clear_pointer(&s, sluice_session_free);
    close_fixture(&f);
}
END_TEST

START_TEST(sessions_are_limited)
{
    SluiceEngineParams params = test_params();
    GError *error = NULL;

    params.n_sessions = 1;
    Fixture f = open_fixture("llama", &params);
    SluiceSession *s = new_session(f.engine);

    assert_error(sluice_session_fork(s, &error) != NULL, &error, SLUICE_ERROR_ARGUMENT, "limit");
    sluice_session_free(s);
    s = new_session(f.engine);
    /* The engine outlives its user's reference. */
    sluice_engine_free(f.engine);
    eval(s, (const int32_t[]){1, 2, 3}, 3);
    sluice_session_free(s);
    sluice_model_unref(f.model);
}
END_TEST

START_TEST(engine_parameters_are_checked)
{
    SluiceEngineParams params = test_params(), p;
    GError *error = NULL;
    SluiceMemory memory;
    Fixture f = open_fixture("llama", &params);

    p = params;
    p.n_ctx = -5;
    assert_error(sluice_engine_new(f.model, &p, &error) != NULL, &error, SLUICE_ERROR_ARGUMENT,
                 "n_ctx is -5");
    p = params;
    p.n_ctx = G_MAXINT32;
    assert_error(sluice_engine_memory(f.model, &p, &memory, &error), &error, SLUICE_ERROR_ARGUMENT,
                 "2147483647");
    p = params;
    p.n_ctx = 1 << 24;
    p.n_sessions = 1024;
    assert_error(sluice_engine_new(f.model, &p, &error) != NULL, &error, SLUICE_ERROR_ARGUMENT,
                 "1024 sessions");
    p = params;
    p.type_k = SLUICE_KV_Q8_0; /* heads of 8 */
    assert_error(sluice_engine_new(f.model, &p, &error) != NULL, &error, SLUICE_ERROR_ARGUMENT,
                 "Q8_0");
    p = params;
    p.n_ubatch = 100000;
    assert_error(sluice_engine_new(f.model, &p, &error) != NULL, &error, SLUICE_ERROR_ARGUMENT,
                 "n_ubatch is 100000");
    ck_assert(sluice_engine_memory(f.model, &params, &memory, NULL));
    ck_assert_uint_eq(memory.total, memory.weights + memory.kv + memory.state + memory.activations +
                                        memory.scratch + memory.vocabulary + memory.process);
    ck_assert_uint_gt(memory.weights, 0);
    ck_assert_uint_eq(memory.mapped, 0);
    close_fixture(&f);
}
END_TEST

START_TEST(mapped_weights_give_the_same_bits)
{
    SluiceEngineParams params = test_params();
    float logits[2][N_VOCAB];
    int32_t tokens[30];

    fill_tokens(tokens, 30, 11);
    for (int k = 0; k < 2; k++) {
        params.load_mode = k == 0 ? SLUICE_LOAD_MEMORY : SLUICE_LOAD_MAP;
        Fixture f = open_fixture(models[_i], &params);

        reference_logits(f.engine, tokens, 30, logits[k]);
        close_fixture(&f);
    }
    ck_assert_mem_eq(logits[0], logits[1], sizeof logits[0]);
}
END_TEST

/* ---- cancellation --------------------------------------------------------------------------- */

static gpointer
cancel_soon(gpointer data)
{
    g_usleep(2000);
    sluice_session_cancel(data);
    return NULL;
}

START_TEST(cancellation_keeps_full_micro_batches)
{
    SluiceEngineParams params = test_params();
    int32_t tokens[1000];
    GError *error = NULL;

    params.n_ctx = 100000;
    params.n_ubatch = 8;
    params.n_out = 1;
    fill_tokens(tokens, 1000, 12);
    Fixture f = open_fixture("gemma3", &params);
    g_autoptr(SluiceSession) s = new_session(f.engine);
    GThread *thread = g_thread_new("cancel", cancel_soon, s);
    gboolean ok = TRUE;

    for (int k = 0; k < 90 && ok; k++)
        ok = sluice_session_eval(s, tokens, 1000, &error);
    g_thread_join(thread);
    assert_error(ok, &error, SLUICE_ERROR_CANCELLED, "cancelled");
    ck_assert_int_eq(s->n_tokens % 8, 0);
    ck_assert_int_eq(s->n_tokens, s->n_cached);
    ck_assert_int_lt(s->n_tokens, 90000);
    /* The wish is used up: the session goes on. */
    eval(s, tokens, 1);
    g_clear_pointer(&s, sluice_session_free);
    close_fixture(&f);
}
END_TEST

START_TEST(cancellation_between_evaluations_stops_the_next)
{
    SluiceEngineParams params = test_params();
    int32_t tokens[10];
    GError *error = NULL;

    fill_tokens(tokens, 10, 13);
    Fixture f = open_fixture("llama", &params);
    g_autoptr(SluiceSession) s = new_session(f.engine);
    g_autoptr(SluiceSession) other = new_session(f.engine);

    sluice_session_cancel(s);
    eval(other, tokens, 10); /* not meant */
    assert_error(sluice_session_eval(s, tokens, 10, &error), &error, SLUICE_ERROR_CANCELLED,
                 "cancelled");
    ck_assert_int_eq(s->n_tokens, 0);
    eval(s, tokens, 10);
    assert_logits(s, MAX_NMSE);
    g_clear_pointer(&s, sluice_session_free);
    g_clear_pointer(&other, sluice_session_free);
    close_fixture(&f);
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

/* (transfer full): a folder of this test's own. */
static char *
make_folder(void)
{
    char *folder = g_dir_make_tmp("sluice-session-XXXXXX", NULL);

    ck_assert_ptr_nonnull(folder);
    return folder;
}

static int
n_files(const char *folder)
{
    GDir *dir = g_dir_open(folder, 0, NULL);
    int n = 0;

    while (g_dir_read_name(dir) != NULL)
        n++;
    g_dir_close(dir);
    return n;
}

START_TEST(restored_sessions_go_on_with_the_same_bits)
{
    SluiceEngineParams params = test_params();
    g_autofree char *folder = make_folder();
    g_autofree char *path = g_build_filename(folder, "s", NULL);
    int32_t tokens[300];

    params.type_k = params.type_v = SLUICE_KV_F16;
    params.n_ubatch = 32;
    fill_tokens(tokens, 300, 14);
    Fixture f = open_fixture(models[_i], &params);
    g_autoptr(SluiceSession) a = new_session(f.engine);
    g_autoptr(SluiceSession) b = new_session(f.engine);
    GError *error = NULL;

    eval(a, tokens, 250);
    eval(b, tokens + 40, 3);
    ck_assert_msg(sluice_session_save(a, path, &error), "%s", error != NULL ? error->message : "");
    ck_assert_int_eq(n_files(folder), 1);
    ck_assert_msg(sluice_session_load(b, path, &error), "%s", error != NULL ? error->message : "");
    ck_assert_int_eq(b->n_tokens, 250);
    ck_assert_mem_eq(a->tokens, b->tokens, 250 * sizeof a->tokens[0]);
    ck_assert_mem_eq(sluice_session_logits(a), sluice_session_logits(b), N_VOCAB * sizeof(float));
    eval(a, tokens + 250, 50);
    eval(b, tokens + 250, 50);
    ck_assert_mem_eq(sluice_session_logits(a), sluice_session_logits(b), N_VOCAB * sizeof(float));
    /* An empty one, over a full one. */
    ck_assert(sluice_session_truncate(a, 0, NULL));
    ck_assert(sluice_session_save(a, path, NULL));
    ck_assert(sluice_session_load(b, path, NULL));
    ck_assert_int_eq(b->n_tokens, 0);
    ck_assert_ptr_null(sluice_session_logits(b));
    g_clear_pointer(&a, sluice_session_free);
    g_clear_pointer(&b, sluice_session_free);
    close_fixture(&f);
    g_unlink(path);
    g_rmdir(folder);
}
END_TEST

START_TEST(damaged_files_leave_the_session_alone)
{
    SluiceEngineParams params = test_params();
    g_autofree char *folder = make_folder();
    g_autofree char *path = g_build_filename(folder, "s", NULL);
    g_autofree char *bytes = NULL;
    gsize n_bytes = 0;
    int32_t tokens[70];

    fill_tokens(tokens, 70, 15);
    Fixture f = open_fixture("gemma3", &params);
    g_autoptr(SluiceSession) s = new_session(f.engine);

    eval(s, tokens, 70);
    ck_assert(sluice_session_save(s, path, NULL));
    ck_assert(g_file_get_contents(path, &bytes, &n_bytes, NULL));
    /* Cut anywhere in the fields, and at some places behind them. */
    for (gsize n = 0; n < n_bytes; n += n < 128 ? 1 : 4999) {
        GError *error = NULL;

        ck_assert(g_file_set_contents(path, bytes, (gssize) n, NULL));
        ck_assert(!sluice_session_load(s, path, &error));
        ck_assert(error->domain == SLUICE_ERROR);
        g_error_free(error);
    }
    /* One bit wrong. */
    for (gsize at = 0; at < n_bytes; at += at < 128 ? 1 : 5003) {
        GError *error = NULL;

        bytes[at] ^= 16;
        ck_assert(g_file_set_contents(path, bytes, (gssize) n_bytes, NULL));
        ck_assert_msg(!sluice_session_load(s, path, &error), "byte %zu", at);
        ck_assert(error->domain == SLUICE_ERROR);
        g_error_free(error);
        bytes[at] ^= 16;
    }
    ck_assert_int_eq(s->n_tokens, 70);
    assert_logits(s, MAX_NMSE);
    g_clear_pointer(&s, sluice_session_free);
    close_fixture(&f);
    g_unlink(path);
    g_rmdir(folder);
}
END_TEST

START_TEST(files_of_others_are_refused)
{
    SluiceEngineParams params = test_params();
    g_autofree char *folder = make_folder();
    g_autofree char *path = g_build_filename(folder, "s", NULL);
    g_autofree char *absent = g_build_filename(folder, "none", "s", NULL);
    GError *error = NULL;
    int32_t tokens[200];

    fill_tokens(tokens, 200, 16);
    Fixture f = open_fixture("llama", &params);
    SluiceSession *s = new_session(f.engine);

    eval(s, tokens, 200);
    ck_assert(sluice_session_save(s, path, NULL));
    assert_error(sluice_session_save(s, absent, &error), &error, SLUICE_ERROR_FILE, "none");
    assert_error(sluice_session_load(s, absent, &error), &error, SLUICE_ERROR_FILE, "none");
    assert_error(sluice_session_load(s, folder, &error), &error, SLUICE_ERROR_FILE, "regular");
    sluice_session_free(s);
    close_fixture(&f);

    f = open_fixture("llama3", &params);
    s = new_session(f.engine);
    assert_error(sluice_session_load(s, path, &error), &error, SLUICE_ERROR_FORMAT,
                 "another model");
    sluice_session_free(s);
    close_fixture(&f);

    params.type_k = SLUICE_KV_F16;
    f = open_fixture("llama", &params);
    s = new_session(f.engine);
    assert_error(sluice_session_load(s, path, &error), &error, SLUICE_ERROR_FORMAT, "cache types");
    sluice_session_free(s);
    close_fixture(&f);

    params = test_params();
    params.n_ctx = 199;
    f = open_fixture("llama", &params);
    s = new_session(f.engine);
    assert_error(sluice_session_load(s, path, &error), &error, SLUICE_ERROR_CONTEXT, "199");
    sluice_session_free(s);
    close_fixture(&f);
    g_unlink(path);
    g_rmdir(folder);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("session");
    TCase *same = tcase_create("one text, many ways");
    TCase *refused = tcase_create("what is refused");
    TCase *cancel = tcase_create("cancellation");
    TCase *files = tcase_create("files");
    const int n = G_N_ELEMENTS(models);

    tcase_set_timeout(same, 60);
    tcase_add_loop_test(same, pieces_give_the_logits_of_the_whole, 0, n);
    tcase_add_loop_test(same, every_row_of_eval_logits_is_right, 0, n);
    tcase_add_loop_test(same, sequences_in_one_batch_do_not_mix, 0, n);
    tcase_add_loop_test(same, forks_go_their_own_ways, 0, n);
    tcase_add_loop_test(same, prompt_evaluates_what_is_new, 0, n);
    tcase_add_loop_test(same, random_walks_stay_right, 0, n);
    tcase_add_loop_test(same, greedy_answers_do_not_depend_on_threads_or_pieces, 0, n);
    tcase_add_loop_test(same, mapped_weights_give_the_same_bits, 0, n);
    tcase_add_test(same, truncation_behind_a_window_reads_the_text_again);
    tcase_add_test(refused, context_limit_names_both_numbers);
    tcase_add_test(refused, foreign_ids_are_refused);
    tcase_add_test(refused, sessions_are_limited);
    tcase_add_test(refused, engine_parameters_are_checked);
    tcase_set_timeout(cancel, 60);
    tcase_add_test(cancel, cancellation_keeps_full_micro_batches);
    tcase_add_test(cancel, cancellation_between_evaluations_stops_the_next);
    tcase_set_timeout(files, 60);
    tcase_add_loop_test(files, restored_sessions_go_on_with_the_same_bits, 0, n);
    tcase_add_test(files, damaged_files_leave_the_session_alone);
    tcase_add_test(files, files_of_others_are_refused);
    suite_add_tcase(suite, same);
    suite_add_tcase(suite, refused);
    suite_add_tcase(suite, cancel);
    suite_add_tcase(suite, files);
    return sluice_test_run(suite);
}
