/* SPDX-License-Identifier: MIT */
/*
 * "sluice bench": the clock around prompts and single tokens. All combinations of the lists in
 * the options are timed; an engine is made for each combination that needs its own.
 */
#include "config.h"

#include "src/cli/bench-report.h"
#include "src/cli/input.h"
#include "src/cli/load.h"
#include "src/cli/terminal.h"
#include "src/core/error.h"

#include <time.h>

/* Ids of the tokens; any will do, but the same in every run. */
#define TOKEN_SEED 1

typedef struct {
    const SluiceOptions *options;
    SluiceBenchReport report;
    SluiceModel *model;
    SluiceEngine *engine;
    SluiceSession *session;
    SluiceBenchResult result; /* of the test that runs; what the combination fixes is set */
    GRand *rand;
} Bench;

static gint64
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * G_GINT64_CONSTANT(1000000000) + t.tv_nsec;
}

/* ---- one test ------------------------------------------------------------------------------- */

static int32_t
random_token(Bench *b)
{
    return g_rand_int_range(b->rand, 0, sluice_model_n_vocab(b->model));
}

static int32_t *
random_prompt(Bench *b, gsize n)
{
    int32_t *tokens = g_new(int32_t, n);

    for (gsize i = 0; i < n; i++)
        tokens[i] = random_token(b);
    if (n > 0 && sluice_model_adds_bos(b->model) && sluice_model_bos(b->model) >= 0)
        tokens[0] = sluice_model_bos(b->model);
    return tokens;
}

/* @n tokens in batches; only the last row of each has its logits computed. */
static gboolean
eval_prompt(Bench *b, gsize n, GError **error)
{
    g_autofree int32_t *tokens = random_prompt(b, n);
    gsize n_batch = (gsize) b->result.n_batch;

    for (gsize at = 0; at < n; at += n_batch)
        if (!sluice_session_eval(b->session, tokens + at, MIN(n_batch, n - at), error))
            return FALSE;
    return TRUE;
}

/* @n tokens one by one; nothing is sampled, the next id is as random as the first. */
static gboolean
eval_singles(Bench *b, gsize n, GError **error)
{
    int32_t token = sluice_model_adds_bos(b->model) && sluice_model_bos(b->model) >= 0
                        ? sluice_model_bos(b->model)
                        : random_token(b);

    for (gsize i = 0; i < n; i++) {
        if (!sluice_session_eval(b->session, &token, 1, error))
            return FALSE;
        token = random_token(b);
    }
    return TRUE;
}

/* Brings the session to the depth of the test, from the last repetition's end or from nothing. */
static gboolean
go_to_depth(Bench *b, GError **error)
{
    gsize n_held = 0, n_depth = (gsize) b->result.n_depth;

    sluice_session_tokens(b->session, &n_held);
    if (n_held >= n_depth && n_depth > 0 && sluice_session_truncate(b->session, n_depth, NULL))
        return TRUE;
    return sluice_session_truncate(b->session, 0, error) && eval_prompt(b, n_depth, error);
}

static gboolean
repeat(Bench *b, double *ns, GError **error)
{
    gint64 begin;

    if (!go_to_depth(b, error))
        return FALSE;
    begin = now_ns();
    if (!eval_prompt(b, (gsize) b->result.n_prompt, error) ||
        !eval_singles(b, (gsize) b->result.n_gen, error))
        return FALSE;
    *ns = (double) (now_ns() - begin);
    return TRUE;
}

static gboolean
run_test(Bench *b, int32_t n_prompt, int32_t n_gen, int32_t n_depth, GError **error)
{
    g_autoptr(GArray) samples = g_array_new(FALSE, FALSE, sizeof(double));
    g_autoptr(GString) out = g_string_new(NULL);
    double ns;

    if (n_prompt + n_gen == 0)
        return TRUE;
    b->result.n_prompt = n_prompt;
    b->result.n_gen = n_gen;
    b->result.n_depth = n_depth;
    b->result.test_time = g_get_real_time() / G_USEC_PER_SEC;
    b->result.samples_ns = samples;
    /* A session that ran another test may hold other tokens below the depth. */
    if (!sluice_session_truncate(b->session, 0, error))
        return FALSE;
    if (!b->options->no_warmup && !repeat(b, &ns, error))
        return FALSE;
    for (int i = 0; i < b->options->repetitions; i++) {
        if (!repeat(b, &ns, error))
            return FALSE;
        g_array_append_val(samples, ns);
    }
    sluice_bench_report_add(&b->report, &b->result, out);
    return sluice_terminal_write(out->str, out->len, error);
}

static gboolean
run_tests(Bench *b, GError **error)
{
    const SluiceOptions *o = b->options;

    for (guint d = 0; d < o->depths->len; d++) {
        int32_t n_depth = g_array_index(o->depths, int32_t, d);

        for (guint i = 0; i < o->prompts->len; i++)
            if (!run_test(b, g_array_index(o->prompts, int32_t, i), 0, n_depth, error))
                return FALSE;
        for (guint i = 0; i < o->gens->len; i++)
            if (!run_test(b, 0, g_array_index(o->gens, int32_t, i), n_depth, error))
                return FALSE;
        for (guint i = 0; i < o->pgs->len; i++) {
            SluicePromptGen pg = g_array_index(o->pgs, SluicePromptGen, i);

            if (!run_test(b, pg.n_prompt, pg.n_gen, n_depth, error))
                return FALSE;
        }
    }
    return TRUE;
}

/* ---- combinations --------------------------------------------------------------------------- */

static int32_t
largest(const GArray *list)
{
    int32_t max = 0;

    for (guint i = 0; i < list->len; i++)
        max = MAX(max, g_array_index(list, int32_t, i));
    return max;
}

/* The context that the largest of all tests needs. */
static gint64
context_needed(const SluiceOptions *o)
{
    gint64 n = MAX(largest(o->prompts), largest(o->gens));

    for (guint i = 0; i < o->pgs->len; i++) {
        SluicePromptGen pg = g_array_index(o->pgs, SluicePromptGen, i);

        n = MAX(n, (gint64) pg.n_prompt + pg.n_gen);
    }
    return n + largest(o->depths);
}

static int
run_combination(Bench *b, const SluiceEngineParams *params)
{
    g_autoptr(GError) error = NULL;
    SluiceMemory memory = {0};
    double seconds;
    int status = sluice_load_engine(b->model, params, 0, &b->engine, &seconds);

    if (status != SLUICE_EXIT_OK)
        return status;
    b->session = sluice_session_new(b->engine, &error);
    b->result.n_batch = params->n_batch;
    b->result.n_ubatch = params->n_ubatch;
    b->result.n_threads = sluice_engine_n_threads(b->engine);
    b->result.n_threads_batch =
        params->n_threads_batch > 0 ? params->n_threads_batch : b->result.n_threads;
    b->result.type_k = params->type_k;
    b->result.type_v = params->type_v;
    if (b->session == NULL || !sluice_engine_memory(b->model, params, &memory, &error)) {
        status = sluice_terminal_fail(error);
    } else {
        b->result.use_mmap = memory.mapped > 0;
        if (!run_tests(b, &error))
            status = sluice_terminal_fail(error);
    }
    g_clear_pointer(&b->session, sluice_session_free);
    g_clear_pointer(&b->engine, sluice_engine_free);
    return status;
}

/* The lists that an engine is made from, outermost first, and how a value goes into its
 * parameters. */
static void
set_param(SluiceEngineParams *params, guint which, int32_t value)
{
    switch (which) {
    case 0:
        params->load_mode = value < 0    ? params->load_mode
                            : value == 0 ? SLUICE_LOAD_MEMORY
                                         : SLUICE_LOAD_MAP;
        break;
    case 1:
        params->n_batch = value;
        break;
    case 2:
        params->n_ubatch = value;
        break;
    case 3:
        params->type_k = (SluiceKvType) value;
        break;
    case 4:
        params->type_v = (SluiceKvType) value;
        break;
    case 5:
        params->n_threads = value;
        break;
    case 6:
        params->n_threads_batch = value;
        break;
    default:
        g_assert_not_reached();
    }
}

static int
run_model(Bench *b, const char *path)
{
    const SluiceOptions *o = b->options;
    const GArray *lists[] = {o->mmaps,   o->batches, o->ubatches,     o->types_k,
                             o->types_v, o->threads, o->threads_batch};
    guint at[G_N_ELEMENTS(lists)] = {0};
    g_autofree char *type = NULL;
    int status = sluice_load_model(path, &b->model);
    guint digit = 0;

    if (status != SLUICE_EXIT_OK)
        return status;
    type = sluice_model_type(b->model);
    b->result.model_filename = path;
    b->result.model_type = type;
    b->result.model_size = sluice_model_n_bytes(b->model);
    b->result.model_n_params = sluice_model_n_params(b->model);
    /* Counts through all combinations, the last list fastest. */
    do {
        SluiceEngineParams params = o->engine;

        params.n_ctx = (int32_t) context_needed(o);
        for (guint i = 0; i < G_N_ELEMENTS(lists); i++)
            set_param(&params, i, g_array_index(lists[i], int32_t, at[i]));
        status = run_combination(b, &params);
        for (digit = G_N_ELEMENTS(lists); digit > 0; digit--) {
            if (++at[digit - 1] < lists[digit - 1]->len)
                break;
            at[digit - 1] = 0;
        }
    } while (status == SLUICE_EXIT_OK && digit > 0);
    g_clear_pointer(&b->model, sluice_model_unref);
    return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

static void
set_default(GArray *list, int32_t value)
{
    if (list->len == 0)
        g_array_append_val(list, value);
}

static void
set_defaults(const SluiceOptions *o)
{
    set_default(o->prompts, 512);
    set_default(o->gens, 128);
    set_default(o->depths, 0);
    set_default(o->batches, 2048);
    set_default(o->ubatches, 512);
    set_default(o->threads, 0);
    set_default(o->threads_batch, 0);
    set_default(o->types_k, SLUICE_KV_F16);
    set_default(o->types_v, SLUICE_KV_F16);
    set_default(o->mmaps, -1);
}

static gboolean
find_models(const SluiceOptions *options, GPtrArray *paths, GError **error)
{
    for (guint i = 0; i < options->models->len || i == 0; i++) {
        g_autofree char *path = NULL;
        guint n_used = 0;

        if (options->models->len > 0) {
            const char *name = g_ptr_array_index(options->models, i);

            path = sluice_input_find_model(name);
            if (path == NULL) {
                g_autofree char *shown = sluice_error_printable(name, -1);

                g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "there is no model '%s'",
                            shown);
                return FALSE;
            }
        } else if (!sluice_input_model(options, &path, &n_used, error)) {
            return FALSE;
        }
        if (options->args->len > n_used) {
            g_autofree char *shown =
                sluice_error_printable(g_ptr_array_index(options->args, n_used), -1);

            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                        "'%s' is neither an option nor a model", shown);
            return FALSE;
        }
        g_ptr_array_add(paths, g_steal_pointer(&path));
    }
    return TRUE;
}

static int
run_all(Bench *b, const GPtrArray *paths)
{
    g_autoptr(GString) out = g_string_new(NULL);
    g_autoptr(GError) error = NULL;
    int status = SLUICE_EXIT_OK;

    sluice_bench_report_begin(&b->report, out);
    if (!sluice_terminal_write(out->str, out->len, &error))
        return sluice_terminal_fail(error);
    for (guint i = 0; i < paths->len && status == SLUICE_EXIT_OK; i++)
        status = run_model(b, g_ptr_array_index(paths, i));
    g_string_truncate(out, 0);
    sluice_bench_report_end(&b->report, out);
    if (!sluice_terminal_write(out->str, out->len, &error) && status == SLUICE_EXIT_OK)
        status = sluice_terminal_fail(error);
    return status;
}

/**
 * sluice_cmd_bench:
 * @options: parsed
 *
 * Returns: a #SluiceExit
 */
int
sluice_cmd_bench(const SluiceOptions *options)
{
    Bench b = {.options = options, .rand = g_rand_new_with_seed(TOKEN_SEED)};
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GError) error = NULL;
    int status;

    sluice_bench_report_init(&b.report, options);
    set_defaults(options);
    if (context_needed(options) > G_MAXINT32 / 2) {
        sluice_terminal_complain("the tests need a longer context than any model has");
        status = SLUICE_EXIT_USAGE;
    } else if (find_models(options, paths, &error)) {
        status = run_all(&b, paths);
    } else {
        status = sluice_terminal_fail(error);
        if (g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_FILE))
            status = SLUICE_EXIT_NO_MODEL;
    }
    sluice_bench_report_clear(&b.report);
    g_rand_free(b.rand);
    return status;
}
