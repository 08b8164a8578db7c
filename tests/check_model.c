/* SPDX-License-Identifier: MIT */
/*
 * Opening models: what a family has is bound, and what is missing, absurd or of the wrong shape is
 * refused with its name, its value and what was expected. Files are the tiny models of
 * tests/data/models with single fields changed.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "src/format/gguf-private.h"
#include "src/model/layers.h"
#include "src/sluice.h"
#include "tests/suite.h"

/* A file in memory. */
static GByteArray *
read_model(const char *name)
{
    g_autofree char *path =
        g_strdup_printf("%s/models/%s.gguf", g_getenv("SLUICE_TEST_DATA"), name);
    char *text = NULL;
    gsize n = 0;

    ck_assert_msg(g_file_get_contents(path, &text, &n, NULL), "%s", path);
    return g_byte_array_new_take((guint8 *) text, n);
}

/* A length and that many bytes, as the file spells strings. */
static guint8 *
find_string(GByteArray *file, const char *text)
{
    size_t n = strlen(text);
    g_autofree guint8 *spelt = g_malloc(n + 8);
    guint64 length = GUINT64_TO_LE(n);
    guint8 *at;

    memcpy(spelt, &length, 8);
    memcpy(spelt + 8, text, n);
    at = memmem(file->data, file->len, spelt, n + 8);
    ck_assert_msg(at != NULL, "no '%s' in the file", text);
    return at + 8;
}

static void
rename_string(GByteArray *file, const char *from, const char *to)
{
    ck_assert_uint_eq(strlen(from), strlen(to));
    memcpy(find_string(file, from), to, strlen(to));
}

/* The four bytes of a number behind its key and type. */
static void
set_u32(GByteArray *file, const char *key, guint32 value)
{
    guint8 *at = find_string(file, key) + strlen(key) + 4;

    value = GUINT32_TO_LE(value);
    memcpy(at, &value, 4);
}

static void
set_f32(GByteArray *file, const char *key, float value)
{
    guint32 bits;

    memcpy(&bits, &value, 4);
    set_u32(file, key, bits);
}

/* Swaps the dimensions of a matrix: behind the name come their number and they. */
static void
transpose(GByteArray *file, const char *name)
{
    guint8 *at = find_string(file, name) + strlen(name) + 4, first[8];

    memcpy(first, at, 8);
    memmove(at, at + 8, 8);
    memcpy(at + 8, first, 8);
}

static SluiceModel *
open_bytes(GByteArray *file, GError **error)
{
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open_bytes(file->data, file->len, error);

    return gguf != NULL ? sluice_model_new(gguf, error) : NULL;
}

static SluiceModel *
open_named(const char *name)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path =
        g_strdup_printf("%s/models/%s.gguf", g_getenv("SLUICE_TEST_DATA"), name);
    SluiceModel *model = sluice_model_open(path, &error);

    ck_assert_msg(model != NULL, "%s: %s", name, error != NULL ? error->message : "");
    return model;
}

static void
assert_refused(GByteArray *file, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceModel) model = open_bytes(file, &error);

    ck_assert_msg(model == NULL, "accepted, expected: %s", message);
    ck_assert(error->domain == SLUICE_ERROR);
    ck_assert_msg(strstr(error->message, message) != NULL, "'%s' lacks '%s'", error->message,
                  message);
}

/* ---- what is bound -------------------------------------------------------------------------- */

START_TEST(every_tensor_of_the_tiny_models_is_used)
{
    static const char *const names[] = {"llama", "llama3", "qwen2",        "qwen2-yarn",
                                        "qwen3", "gemma3", "gemma3-scaled"};
    g_autoptr(SluiceModel) m = open_named(names[_i]);
    size_t n = sluice_gguf_n_tensors(m->gguf);
    uint64_t n_bytes = 0;

    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(m->is_used[i], "%s: '%s'", names[_i], sluice_gguf_tensor(m->gguf, i)->name);
        n_bytes += sluice_gguf_tensor(m->gguf, i)->n_bytes;
    }
    ck_assert_uint_eq(n_bytes, sluice_model_n_bytes(m));
    ck_assert_int_ne((int) m->token_embd, 0);
    for (int32_t i = 0; i < m->params.n_layer; i++) {
        const SluiceLayer *l = &m->layers[i];
        bool is_gemma = g_str_has_prefix(names[_i], "gemma3");
        bool has_norms = is_gemma || strcmp(names[_i], "qwen3") == 0;

        ck_assert(l->attn_norm != 0 && l->attn_output != 0 && l->ffn_down != 0);
        ck_assert(l->attn_qkv != 0 || (l->attn_q != 0 && l->attn_k != 0 && l->attn_v != 0));
        ck_assert_int_eq(l->attn_q_norm != 0, has_norms);
        ck_assert_int_eq(l->attn_k_norm != 0, has_norms);
        ck_assert_int_eq(l->ffn_post_norm != 0, is_gemma);
        ck_assert_int_eq(l->attn_q_bias != 0, g_str_has_prefix(names[_i], "qwen2"));
    }
}
END_TEST

START_TEST(llama_reads_its_parameters)
{
    g_autoptr(SluiceModel) m = open_named("llama");
    const SluiceModelParams *p = &m->params;

    ck_assert_str_eq(sluice_model_family(m), "llama");
    ck_assert_int_eq(p->n_layer, 2);
    ck_assert_int_eq(p->n_embd, 32);
    ck_assert_int_eq(p->layers[1].n_head, 4);
    ck_assert_int_eq(p->layers[1].n_head_kv, 2);
    ck_assert_int_eq(p->layers[1].n_ff, 80);
    ck_assert_int_eq(p->layers[1].window, 0);
    ck_assert_int_eq(p->k_dim, 8);
    ck_assert_int_eq(sluice_model_n_ctx_train(m), 4096);
    ck_assert_int_eq(sluice_model_n_vocab(m), 256);
    ck_assert(!p->layers[0].rope.is_neox);
    ck_assert_float_eq(p->attn_scale, 1.0f / sqrtf(8.0f));
    ck_assert_float_eq(p->embed_scale, 1.0f);
    ck_assert_int_eq(sluice_model_n_kv_tables(m), 1);
    ck_assert_int_eq(sluice_model_window(m, 0), 0);
}
END_TEST

START_TEST(llama3_has_rope_factors)
{
    g_autoptr(SluiceModel) plain = open_named("llama");
    g_autoptr(SluiceModel) scaled = open_named("llama3");

    ck_assert_uint_eq(plain->rope_freqs, 0);
    ck_assert_uint_ne(scaled->rope_freqs, 0);
}
END_TEST

/* The pattern's sixth layer sees everything and has a base of its own. */
START_TEST(gemma3_layers_alternate)
{
    g_autoptr(SluiceModel) m = open_named("gemma3");
    const SluiceModelParams *p = &m->params;
    g_autoptr(GArray) groups = sluice_model_kv_groups(m, SLUICE_DTYPE_F16, SLUICE_DTYPE_Q8_0);

    ck_assert_int_eq(p->n_layer, 6);
    ck_assert_uint_eq(groups->len, 6);
    for (int32_t i = 0; i < 6; i++) {
        const SluiceKvGroup *g = &g_array_index(groups, SluiceKvGroup, i);

        ck_assert_int_eq(p->layers[i].window, i < 5 ? 24 : 0);
        ck_assert_float_eq(p->layers[i].rope.base, i < 5 ? 10000.0f : 1e6f);
        ck_assert_int_eq(g->table, i < 5 ? 1 : 0);
        ck_assert_int_eq(g->layer, i);
        ck_assert_int_eq(g->head_end, 1);
        ck_assert_int_eq((int) g->k_type, SLUICE_DTYPE_F16);
        ck_assert_int_eq((int) g->v_type, SLUICE_DTYPE_Q8_0);
    }
    ck_assert_int_eq(sluice_model_n_kv_tables(m), 2);
    ck_assert_int_eq(sluice_model_window(m, 0), 0);
    ck_assert_int_eq(sluice_model_window(m, 1), 24);
    ck_assert_float_eq(p->embed_scale, sqrtf(32.0f));
    ck_assert_uint_eq(m->output, m->token_embd);
}
END_TEST

START_TEST(gemma3_scales_full_layers_alone)
{
    g_autoptr(SluiceModel) m = open_named("gemma3-scaled");
    const SluiceModelParams *p = &m->params;

    for (int32_t i = 0; i < p->n_layer; i++)
        ck_assert_int_eq(p->layers[i].rope.freq_scale < 1.0f, p->layers[i].window == 0);
}
END_TEST

/* By the formulas of the paper, from the file's own keys. */
START_TEST(yarn_follows_the_paper)
{
    g_autoptr(SluiceModel) m = open_named("qwen2-yarn");
    const SluiceRope *r = &m->params.layers[0].rope;
    double factor = 0.0, base = 10000.0, pairs;
    uint64_t n_ctx = 0;

    ck_assert(sluice_gguf_float(m->gguf, "qwen2.rope.scaling.factor", &factor, NULL));
    ck_assert(sluice_gguf_float(m->gguf, "qwen2.rope.freq_base", &base, NULL));
    ck_assert(sluice_gguf_uint(m->gguf, "qwen2.rope.scaling.original_context_length", 1 << 30,
                               &n_ctx, NULL));
    ck_assert(factor > 1.0 && n_ctx > 0);
    ck_assert_float_eq_tol(r->freq_scale, 1.0 / factor, 1e-6);
    ck_assert_float_eq(r->ext_factor, 1.0f);
    ck_assert_float_eq_tol(r->magnitude, 1.0 + 0.1 * log(factor), 1e-6);
    pairs = r->n_rot * log((double) n_ctx / (32.0 * 2.0 * G_PI)) / (2.0 * log(base));
    ck_assert_float_eq(r->corr_low, (float) fmax(0.0, floor(pairs)));
    pairs = r->n_rot * log((double) n_ctx / (2.0 * G_PI)) / (2.0 * log(base));
    ck_assert_float_eq(r->corr_high, (float) fmin(r->n_rot - 1, ceil(pairs)));
}
END_TEST

START_TEST(widths_cover_every_layer)
{
    g_autoptr(SluiceModel) m = open_named("llama");
    SluiceActSpec specs[SLUICE_ACT_COUNT];

    sluice_layers_acts(m, specs);
    ck_assert_int_eq(specs[SLUICE_ACT_X].width, 32);
    ck_assert_int_eq(specs[SLUICE_ACT_QKV].width, 4 * 8 + 2 * 8 + 2 * 8);
    ck_assert_int_eq(specs[SLUICE_ACT_ATTN].width, 32);
    ck_assert_int_eq(specs[SLUICE_ACT_LOGITS].width, 256);
    ck_assert_int_eq((int) specs[SLUICE_ACT_LOGITS].rows, SLUICE_ROWS_OUT);
    ck_assert_int_eq(sluice_layers_max_hidden(m), 80);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------ */

START_TEST(unknown_families_are_named_with_the_nearest)
{
    g_autoptr(GByteArray) file = read_model("llama");

    rename_string(file, "llama", "lalma");
    assert_refused(file, "unsupported architecture 'lalma' (nearest: 'llama'; supported: ");
    rename_string(file, "lalma", "qw\033n2");
    {
        g_autoptr(GError) error = NULL;

        ck_assert_ptr_null(open_bytes(file, &error));
        ck_assert_msg(strchr(error->message, '\033') == NULL, "escape reaches the terminal");
    }
}
END_TEST

START_TEST(hyper_parameters_have_limits)
{
    static const struct {
        const char *key;
        guint32 value;
        const char *message;
    } cases[] = {
        {"llama.block_count", 0, "'llama.block_count': 0 is outside 1 to 512"},
        {"llama.block_count", 513, "513 is outside 1 to 512"},
        {"llama.block_count", G_MAXUINT32, "4294967295 is outside 1 to 512"},
        {"llama.block_count", 3, "missing tensor 'blk.2.attn_norm.weight'"},
        {"llama.context_length", 0, "0 is outside 1 to"},
        {"llama.context_length", G_MAXUINT32, "4294967295 is outside 1 to"},
        {"llama.embedding_length", 0, "'llama.embedding_length': 0"},
        {"llama.embedding_length", G_MAXUINT32, "'llama.embedding_length': 4294967295"},
        {"llama.embedding_length", 64,
         "'token_embd.weight' has shape [32, 256], expected [64, 256]"},
        {"llama.feed_forward_length", 0, "'llama.feed_forward_length': 0 in layer 0"},
        {"llama.feed_forward_length", G_MAXUINT32, "is outside 0 to"},
        {"llama.feed_forward_length", 96,
         "tensor 'blk.0.ffn_gate.weight' has shape [32, 80], expected [32, 96]"},
        {"llama.attention.head_count", 0, "'llama.attention.head_count': 0 is outside 1 to 4096"},
        {"llama.attention.head_count", 5, "5 heads of layer 0 are not a multiple of its 2 KV"},
        {"llama.attention.head_count_kv", 0, "'llama.attention.head_count_kv': 0"},
        {"llama.attention.head_count_kv", 3, "are not a multiple of its 3 KV heads"},
        {"llama.attention.key_length", 7, "7 is not an even number"},
        {"llama.attention.key_length", 0, "0 is outside 2 to"},
        {"llama.attention.value_length", G_MAXUINT32, "'llama.attention.value_length'"},
        {"llama.rope.dimension_count", 7, "'llama.rope.dimension_count': 7 is odd"},
        {"llama.rope.dimension_count", 10, "10 is outside 2 to 8"},
        {"llama.rope.dimension_count", 6, "6, expected the head's width 8"},
    };
    g_autoptr(GByteArray) file = read_model("llama");

    set_u32(file, cases[_i].key, cases[_i].value);
    assert_refused(file, cases[_i].message);
}
END_TEST
#define N_LIMITS 22

START_TEST(floats_are_finite_and_positive)
{
    static const struct {
        const char *key;
        float value;
        const char *message;
    } cases[] = {
        {"llama.attention.layer_norm_rms_epsilon", 0.0f, "0 is not between 0 and 1"},
        {"llama.attention.layer_norm_rms_epsilon", -1.0f, "-1 is not between 0 and 1"},
        {"llama.attention.layer_norm_rms_epsilon", NAN, "'llama.attention.layer_norm_rms_epsilon'"},
        {"llama.rope.freq_base", INFINITY, "'llama.rope.freq_base'"},
        {"llama.rope.freq_base", 0.0f, "base 0 must be positive"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GByteArray) file = read_model("llama");

        set_f32(file, cases[i].key, cases[i].value);
        assert_refused(file, cases[i].message);
    }
}
END_TEST

/* Scaling that is not computed would give wrong answers far into a text, and no sign of it. */
START_TEST(unknown_rope_scaling_is_refused)
{
    g_autoptr(GByteArray) file = read_model("qwen2-yarn");

    rename_string(file, "yarn", "long");
    assert_refused(file, "'qwen2.rope.scaling.type' is 'long', expected none, linear or yarn");
}
END_TEST

START_TEST(missing_keys_are_named)
{
    static const char *const keys[] = {"llama.block_count", "llama.context_length",
                                       "llama.embedding_length", "llama.attention.head_count",
                                       "llama.attention.layer_norm_rms_epsilon"};

    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        g_autoptr(GByteArray) file = read_model("llama");
        g_autofree char *other = g_strdup(keys[i]);
        g_autoptr(GError) error = NULL;

        other[0] = 'L';
        rename_string(file, keys[i], other);
        ck_assert_ptr_null(open_bytes(file, &error));
        ck_assert_msg(strstr(error->message, keys[i]) != NULL, "%s", error->message);
        ck_assert_msg(strstr(error->message, "missing") != NULL, "%s", error->message);
    }
}
END_TEST

START_TEST(missing_and_misshapen_tensors_are_named)
{
    g_autoptr(GByteArray) file = read_model("qwen3");

    rename_string(file, "blk.1.ffn_up.weight", "blk.1.ffn_uq.weight");
    assert_refused(file, "missing tensor 'blk.1.ffn_up.weight'");
    rename_string(file, "blk.1.ffn_uq.weight", "blk.1.ffn_up.weight");
    transpose(file, "blk.1.ffn_up.weight");
    assert_refused(file, "tensor 'blk.1.ffn_up.weight' has shape [64, 32], expected [32, 64]");
    transpose(file, "blk.1.ffn_up.weight");
    rename_string(file, "blk.0.attn_k_norm.weight", "blk.0.attn_k_narm.weight");
    assert_refused(file, "missing tensor 'blk.0.attn_k_norm.weight'");
    rename_string(file, "blk.0.attn_k_narm.weight", "blk.0.attn_k_norm.weight");
    rename_string(file, "output_norm.weight", "output_narm.weight");
    assert_refused(file, "missing tensor 'output_norm.weight'");
    rename_string(file, "output_narm.weight", "output_norm.weight");
    rename_string(file, "token_embd.weight", "token_embt.weight");
    assert_refused(file, "missing tensor 'token_embd.weight'");
}
END_TEST

/* A head that is not there is the embedding; what nobody asks for is left out of memory. */
START_TEST(tied_heads_and_extra_tensors)
{
    g_autoptr(GByteArray) file = read_model("qwen3");
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceModel) m = NULL;
    gssize idx;

    rename_string(file, "output.weight", "outpud.weight");
    m = open_bytes(file, &error);
    ck_assert_msg(m != NULL, "%s", error != NULL ? error->message : "");
    ck_assert_uint_eq(m->output, m->token_embd);
    idx = sluice_gguf_tensor_find(m->gguf, "outpud.weight");
    ck_assert_int_ge((int) idx, 0);
    ck_assert(!m->is_used[idx]);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("model");
    TCase *bound = tcase_create("what is bound");
    TCase *refused = tcase_create("what is refused");

    tcase_add_loop_test(bound, every_tensor_of_the_tiny_models_is_used, 0, 7);
    tcase_add_test(bound, llama_reads_its_parameters);
    tcase_add_test(bound, llama3_has_rope_factors);
    tcase_add_test(bound, gemma3_layers_alternate);
    tcase_add_test(bound, gemma3_scales_full_layers_alone);
    tcase_add_test(bound, yarn_follows_the_paper);
    tcase_add_test(bound, widths_cover_every_layer);
    tcase_add_test(refused, unknown_families_are_named_with_the_nearest);
    tcase_add_loop_test(refused, hyper_parameters_have_limits, 0, N_LIMITS);
    tcase_add_test(refused, floats_are_finite_and_positive);
    tcase_add_test(refused, unknown_rope_scaling_is_refused);
    tcase_add_test(refused, missing_keys_are_named);
    tcase_add_test(refused, missing_and_misshapen_tensors_are_named);
    tcase_add_test(refused, tied_heads_and_extra_tensors);
    suite_add_tcase(suite, bound);
    suite_add_tcase(suite, refused);
    return sluice_test_run(suite);
}
