/* SPDX-License-Identifier: MIT */
/* What `sluice inspect` finds out about models of known sizes, and how it says it. */
#include "config.h"

#include "src/cli/inspect-report.h"

#include "src/format/gguf-private.h"
#include "tests/gguf_writer.h"
#include "tests/model_builder.h"
#include "tests/suite.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

static const SluiceReportStyle no_style = {"", "", ""};
static char *folder;

static void
make_folder(void)
{
    folder = g_dir_make_tmp("sluice-inspect-XXXXXX", NULL);
    ck_assert_ptr_nonnull(folder);
}

static void
remove_folder(void)
{
    g_autofree char *path = g_build_filename(folder, "m.gguf", NULL);

    g_unlink(path);
    g_rmdir(folder);
    g_clear_pointer(&folder, g_free);
}

static SluiceGguf *
write_and_open(const ModelSpec *spec)
{
    g_autofree char *path = g_build_filename(folder, "m.gguf", NULL);
    g_autoptr(GError) error = NULL;
    SluiceGguf *gguf = NULL;

    if (model_write(spec, path, &error))
        gguf = sluice_gguf_open(path, &error);
    ck_assert_msg(gguf != NULL, "%s", error ? error->message : "");
    return gguf;
}

static SluiceGguf *
open_preset(const char *name, int n_nextn)
{
    ModelSpec spec;

    ck_assert(model_spec_preset(&spec, name));
    spec.is_q4_k_m = true;
    spec.is_hollow = true;
    spec.n_nextn = n_nextn;
    spec.n_layers += n_nextn;
    return write_and_open(&spec);
}

/* ---- figures ---------------------------------------------------------------------------- */

/* Source: the published models' parameters and the bytes of their Q4_K_M files by class. */
static const struct {
    const char *preset;
    uint64_t n_params;
    uint64_t classes[SLUICE_TENSOR_CLASS_COUNT];
    uint64_t kv, kv_window, recurrent;
} known[] = {
    {"qwen2-1.5b",
     1543714304,
     {[SLUICE_TENSOR_EMBEDDING] = 191439360,
      [SLUICE_TENSOR_ATTENTION] = 88352768,
      [SLUICE_TENSOR_DENSE_FFN] = 699955200,
      [SLUICE_TENSOR_NORMS] = 350208},
     28672,
     0,
     0},
    {"qwen2-7b",
     7615616512,
     {[SLUICE_TENSOR_EMBEDDING] = 306561024,
      [SLUICE_TENSOR_HEAD] = 447068160,
      [SLUICE_TENSOR_ATTENTION] = 469561344,
      [SLUICE_TENSOR_DENSE_FFN] = 3453112320,
      [SLUICE_TENSOR_NORMS] = 817152},
     57344,
     0,
     0},
    {"qwen3-30b-a3b",
     30532122624,
     {[SLUICE_TENSOR_EMBEDDING] = 175030272,
      [SLUICE_TENSOR_HEAD] = 255252480,
      [SLUICE_TENSOR_ATTENTION] = 516145152,
      [SLUICE_TENSOR_ROUTER] = 50331648,
      [SLUICE_TENSOR_EXPERTS] = 17553162240,
      [SLUICE_TENSOR_NORMS] = 794624},
     98304,
     0,
     0},
    {"qwen36-35b-a3b",
     34660610688,
     {[SLUICE_TENSOR_EMBEDDING] = 286064640,
      [SLUICE_TENSOR_HEAD] = 417177600,
      [SLUICE_TENSOR_ATTENTION] = 154996736,
      [SLUICE_TENSOR_DELTANET] = 632953344,
      [SLUICE_TENSOR_SHARED_EXPERTS] = 76513280,
      [SLUICE_TENSOR_ROUTER] = 83886080,
      [SLUICE_TENSOR_EXPERTS] = 19503513600,
      [SLUICE_TENSOR_NORMS] = 663552},
     20480,
     0,
     65863680},
    {"smollm2",
     134515008,
     {[SLUICE_TENSOR_EMBEDDING] = 30081024,
      [SLUICE_TENSOR_ATTENTION] = 18828288,
      [SLUICE_TENSOR_DENSE_FFN] = 54618624,
      [SLUICE_TENSOR_NORMS] = 140544},
     23040,
     0,
     0},
    {"gemma3-270m",
     268098176,
     {[SLUICE_TENSOR_EMBEDDING] = 178257920,
      [SLUICE_TENSOR_ATTENTION] = 19390464,
      [SLUICE_TENSOR_DENSE_FFN] = 48752640,
      [SLUICE_TENSOR_NORMS] = 186880},
     3072,
     15360,
     0},
};

START_TEST(published_models_have_their_published_figures)
{
    g_autoptr(SluiceGguf) gguf = open_preset(known[_i].preset, 0);
    g_auto(SluiceModelSummary) s = {0};

    sluice_model_summary_init(&s, gguf);
    ck_assert_uint_eq(s.n_params, known[_i].n_params);
    for (int i = 0; i < SLUICE_TENSOR_CLASS_COUNT; i++)
        ck_assert_msg(s.classes[i].n_bytes == known[_i].classes[i],
                      "%s: %s has %" G_GUINT64_FORMAT " bytes, expected %" G_GUINT64_FORMAT,
                      known[_i].preset, sluice_tensor_class_name((SluiceTensorClass) i),
                      s.classes[i].n_bytes, known[_i].classes[i]);
    ck_assert_uint_eq(s.kv_token_bytes, known[_i].kv);
    ck_assert_uint_eq(s.kv_window_token_bytes, known[_i].kv_window);
    ck_assert_uint_eq(s.recurrent_bytes, known[_i].recurrent);
}
END_TEST

START_TEST(prediction_blocks_are_counted_apart)
{
    g_autoptr(SluiceGguf) gguf = open_preset("qwen36-35b-a3b", 1);
    g_auto(SluiceModelSummary) s = {0};

    sluice_model_summary_init(&s, gguf);
    ck_assert_uint_eq(s.n_layers, 40);
    ck_assert_uint_eq(s.n_attention_layers, 10);
    ck_assert_uint_eq(s.n_recurrent_layers, 30);
    ck_assert_uint_eq(s.n_params, 34660610688u + 844640768u);
    ck_assert_uint_eq(s.classes[SLUICE_TENSOR_PREDICTION].n_bytes, 546703360);
    ck_assert_uint_eq(s.kv_token_bytes, 20480);
    ck_assert_uint_eq(s.recurrent_bytes, 65863680);
}
END_TEST

START_TEST(a_token_passes_most_experts_by)
{
    g_autoptr(SluiceGguf) gguf = open_preset("qwen3-30b-a3b", 0);
    g_auto(SluiceModelSummary) s = {0};
    const uint64_t n_expert_params = 48ull * 128 * 3 * 2048 * 768;

    sluice_model_summary_init(&s, gguf);
    ck_assert_uint_eq(s.n_active_params, s.n_params - n_expert_params / 128 * 120);
}
END_TEST

START_TEST(a_window_stops_growing)
{
    SluiceModelSummary s = {.kv_token_bytes = 10, .kv_window_token_bytes = 100, .n_window = 512};

    ck_assert_uint_eq(sluice_model_summary_kv_bytes(&s, 0), 0);
    ck_assert_uint_eq(sluice_model_summary_kv_bytes(&s, 100), 11000);
    ck_assert_uint_eq(sluice_model_summary_kv_bytes(&s, 1000), 61200);
}
END_TEST

START_TEST(fused_projections_and_windows_are_understood)
{
    static const struct {
        const char *arch;
        uint64_t kv, kv_window;
    } cases[] = {
        /* 4 layers, 2 KV heads of 64, two bytes, keys and values: 512 a layer. */
        {"phi3", 4 * 512, 0},   {"llama", 4 * 512, 0},         {"gemma2", 2 * 512, 2 * 512},
        {"gemma3", 0, 4 * 512}, {"gpt-oss", 2 * 512, 2 * 512}, {"qwen3next", 512, 0},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        ModelSpec spec;
        g_auto(SluiceModelSummary) s = {0};
        ck_assert(model_spec_init(&spec, cases[i].arch));
        spec.is_hollow = true;
        g_autoptr(SluiceGguf) gguf = write_and_open(&spec);
        sluice_model_summary_init(&s, gguf);
        ck_assert_uint_eq(s.kv_token_bytes, cases[i].kv);
        ck_assert_uint_eq(s.kv_window_token_bytes, cases[i].kv_window);
    }
}
END_TEST

/* ---- odd files -------------------------------------------------------------------------- */

static SluiceGguf *
open_writer(GgufWriter *w, GByteArray **bytes)
{
    GError *error = NULL;

    *bytes = gguf_writer_bytes(w);
    SluiceGguf *gguf = sluice_gguf_open_bytes((*bytes)->data, (*bytes)->len, &error);
    ck_assert_msg(gguf != NULL, "%s", error ? error->message : "");
    return gguf;
}

START_TEST(templates_are_known_by_their_markers)
{
    static const struct {
        const char *text;
        const char *family;
        const char *line;
    } cases[] = {
        {"\n\n  {% if x %}\n<|im_start|>", "ChatML", "{% if x %}"},
        {"<start_of_turn>", "Gemma", "<start_of_turn>"},
        {"<|start_header_id|>\x1b[2J\n", "Llama 3", "<|start_header_id|>\\x1B[2J"},
        {"[INST] {{ x }}", "Mistral", "[INST] {{ x }}"},
        {"<|user|><|assistant|>", "Phi-3", "<|user|><|assistant|>"},
        {"<|start|>system", "Harmony (gpt-oss)", "<|start|>system"},
        {"{{ x }}", NULL, "{{ x }}"},
        {"", NULL, ""},
        {" \n ", NULL, ""},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GgufWriter) w = gguf_writer_new();
        g_autoptr(GByteArray) bytes = NULL;
        g_auto(SluiceModelSummary) s = {0};
        gguf_writer_string(w, "tokenizer.chat_template", cases[i].text);
        g_autoptr(SluiceGguf) gguf = open_writer(w, &bytes);
        sluice_model_summary_init(&s, gguf);
        ck_assert_str_eq(s.template_family != NULL ? s.template_family : "-",
                         cases[i].family != NULL ? cases[i].family : "-");
        ck_assert_str_eq(s.template_line, cases[i].line);
        ck_assert_uint_eq(s.n_template_bytes, strlen(cases[i].text));
    }
}
END_TEST

START_TEST(absurd_metadata_is_survived)
{
    static const char *const keys[] = {"block_count",
                                       "nextn_predict_layers",
                                       "context_length",
                                       "expert_count",
                                       "expert_used_count",
                                       "ssm.time_step_rank",
                                       "ssm.state_size",
                                       "ssm.conv_kernel",
                                       "attention.head_count",
                                       "attention.head_count_kv",
                                       "attention.key_length",
                                       "attention.sliding_window",
                                       "attention.sliding_window_pattern"};
    static const uint32_t values[] = {0, 1, INT32_MAX, UINT32_MAX};

    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        g_autoptr(GgufWriter) w = gguf_writer_new();
        g_autoptr(GByteArray) bytes = NULL;
        g_auto(SluiceModelSummary) s = {0};
        gguf_writer_string(w, "general.architecture", "gemma3");
        for (size_t j = 0; j < G_N_ELEMENTS(keys); j++) {
            g_autofree char *key = g_strdup_printf("gemma3.%s", keys[j]);
            gguf_writer_u32(w, key, values[i]);
        }
        gguf_writer_tensor(w, "blk.0.attn_qkv.weight", 0, 2, (const int64_t[]){4, 4});
        gguf_writer_tensor(w, "blk.1.ssm_conv1d.weight", 0, 2, (const int64_t[]){4, 4});
        gguf_writer_tensor(w, "blk.1.ssm_a", 0, 1, (const int64_t[]){4});
        gguf_writer_tensor(w, "blk.99999999999.attn_k.weight", 0, 1, (const int64_t[]){4});
        gguf_writer_tensor(w, "blk.-1.attn_k.weight", 0, 1, (const int64_t[]){4});
        gguf_writer_tensor(w, "blk.2.ffn_down_exps.weight", 0, 1, (const int64_t[]){4});
        g_autoptr(SluiceGguf) gguf = open_writer(w, &bytes);
        sluice_model_summary_init(&s, gguf);
        ck_assert_uint_le(s.n_layers, 3);
        ck_assert_uint_ge(s.n_params, s.n_active_params);
        ck_assert_uint_eq(s.classes[SLUICE_TENSOR_OTHER].n_tensors, 2);
        SluiceInspectReport report = {gguf, &s, NULL, true, false};
        g_autofree char *text = sluice_inspect_report_text(&report, &no_style);
        g_autofree char *json = sluice_inspect_report_json(&report);
        ck_assert(text != NULL && json != NULL);
    }
}
END_TEST

START_TEST(an_empty_file_has_a_report)
{
    g_autoptr(GgufWriter) w = gguf_writer_new();
    g_autoptr(GByteArray) bytes = NULL;
    g_auto(SluiceModelSummary) s = {0};
    g_autoptr(SluiceGguf) gguf = open_writer(w, &bytes);

    sluice_model_summary_init(&s, gguf);
    SluiceInspectReport report = {gguf, &s, "missing key 'general.architecture'", true, false};
    g_autofree char *text = sluice_inspect_report_text(&report, &no_style);
    ck_assert_str_eq(text, "(no name)\n"
                           "file         (memory), 24 B, GGUF version 3\n"
                           "family       unknown\n"
                           "runs         no: missing key 'general.architecture'\n"
                           "parameters   0\n"
                           "weights      0 B, 0.00 bits each\n"
                           "layers       0\n"
                           "tokenizer    none\n"
                           "template     none\n"
                           "\nwhere the bytes are\n"
                           "\ntypes\n"
                           "\ntensors\n");
}
END_TEST

/* ---- the two forms ---------------------------------------------------------------------- */

START_TEST(text_says_what_a_person_wants_to_know)
{
    g_autoptr(SluiceGguf) gguf = open_preset("qwen36-35b-a3b", 0);
    g_auto(SluiceModelSummary) s = {0};

    sluice_model_summary_init(&s, gguf);
    SluiceInspectReport report = {gguf, &s, NULL, false, true};
    g_autofree char *text = sluice_inspect_report_text(&report, &no_style);
    const char *lines[] = {
        "random qwen35moe\n",
        "\nfamily       qwen35moe\n",
        "\nruns         yes\n",
        "\nparameters   34.66 billion, 3.45 billion of them for a token (8 of 256 experts)\n",
        "\nweights      19.70 GiB, 4.88 bits each\n",
        "\nlayers       40: 10 with attention, 30 recurrent\n",
        "\ncontext      262144 tokens\n",
        "\nKV cache     20480 bytes a token in f16; 5.00 GiB in all\n",
        "\nstate        62.8 MiB for a conversation of any length\n",
        "\ntokenizer    gpt2 (qwen35), 248320 tokens\n",
        "\ntemplate     ChatML, ",
        "\nverified     every byte was read, every weight is a finite number\n",
        "\n  experts            18.16 GiB  92.2 %    120 tensors ############################\n",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++)
        ck_assert_msg(strstr(text, lines[i]) != NULL, "no '%s' in:\n%s", lines[i], text);
    ck_assert_ptr_null(strstr(text, "\ntensors\n"));
}
END_TEST

static void
write_hostile_names(GgufWriter *w)
{
    gguf_writer_string(w, "general.architecture",
                       "ll\x1b]52;c;x\x07"
                       "ama");
    gguf_writer_string(w, "general.name", "\x1b[31mred\r\nnext\xff");
    gguf_writer_string(w, "tokenizer.ggml.model", "\x1b[0m");
    gguf_writer_string(w, "tokenizer.ggml.pre", "\x7f\xc2\x9b");
    gguf_writer_string(w, "tokenizer.chat_template", "\x1b[2J{{ x }}");
    gguf_writer_tensor(w, "t\x1b[1m\n", 0, 1, (const int64_t[]){4});
}

START_TEST(control_bytes_of_a_file_do_not_come_out)
{
    g_autoptr(GgufWriter) w = gguf_writer_new();
    g_autoptr(GByteArray) bytes = NULL;
    g_auto(SluiceModelSummary) s = {0};
    json_error_t json_error;

    write_hostile_names(w);
    g_autoptr(SluiceGguf) gguf = open_writer(w, &bytes);
    sluice_model_summary_init(&s, gguf);
    SluiceInspectReport report = {gguf, &s, NULL, true, false};
    g_autofree char *text = sluice_inspect_report_text(&report, &no_style);
    g_autofree char *json = sluice_inspect_report_json(&report);
    for (const char *p = text; *p != '\0'; p++)
        ck_assert_msg(*p == '\n' || !g_ascii_iscntrl(*p), "byte %02x in:\n%s", *p, text);
    ck_assert_ptr_null(strstr(text, "\xc2\x9b"));
    ck_assert(g_utf8_validate(text, -1, NULL));
    ck_assert_ptr_nonnull(strstr(text, "\\x1B[31mred\\x0D\\x0Anext\\xFF"));
    json_t *root = json_loads(json, 0, &json_error);
    ck_assert_msg(root != NULL, "%s", json_error.text);
    ck_assert_str_eq(json_string_value(json_object_get(root, "name")),
                     "\\x1B[31mred\\x0D\\x0Anext\\xFF");
    json_decref(root);
}
END_TEST

START_TEST(styles_are_balanced)
{
    static const SluiceReportStyle style = {"<b>", "<d>", "</>"};
    g_autoptr(SluiceGguf) gguf = open_preset("smollm2", 0);
    g_auto(SluiceModelSummary) s = {0};
    bool is_open = false;

    sluice_model_summary_init(&s, gguf);
    SluiceInspectReport report = {gguf, &s, NULL, true, false};
    g_autofree char *text = sluice_inspect_report_text(&report, &style);
    ck_assert(g_str_has_prefix(text, "<b>random llama</>\n"));
    for (const char *p = text; *p != '\0'; p++) {
        if (g_str_has_prefix(p, "<b>") || g_str_has_prefix(p, "<d>")) {
            ck_assert(!is_open);
            is_open = true;
        } else if (g_str_has_prefix(p, "</>")) {
            ck_assert(is_open);
            is_open = false;
        }
    }
    ck_assert(!is_open);
}
END_TEST

START_TEST(json_has_its_keys)
{
    static const char *const keys[] = {"files",
                                       "gguf_version",
                                       "kind",
                                       "name",
                                       "family",
                                       "runs",
                                       "problem",
                                       "n_params",
                                       "n_active_params",
                                       "weight_bytes",
                                       "bits_per_weight",
                                       "n_layers",
                                       "n_attention_layers",
                                       "n_recurrent_layers",
                                       "n_experts",
                                       "n_experts_used",
                                       "memory",
                                       "tokenizer",
                                       "chat_template",
                                       "classes",
                                       "types",
                                       "verified",
                                       "tensors"};
    g_autoptr(SluiceGguf) gguf = open_preset("gemma3-270m", 0);
    g_auto(SluiceModelSummary) s = {0};

    sluice_model_summary_init(&s, gguf);
    SluiceInspectReport report = {gguf, &s, "no \"reason\"", true, false};
    g_autofree char *json = sluice_inspect_report_json(&report);
    json_t *root = json_loads(json, 0, NULL);
    ck_assert_ptr_nonnull(root);
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        ck_assert_msg(json_object_get(root, keys[i]) != NULL, "no key %s", keys[i]);
    ck_assert_uint_eq(json_object_size(root), G_N_ELEMENTS(keys));
    ck_assert_int_eq(json_integer_value(json_object_get(root, "n_params")), 268098176);
    ck_assert(json_is_false(json_object_get(root, "runs")));
    ck_assert_str_eq(json_string_value(json_object_get(root, "problem")), "no \"reason\"");
    json_t *memory = json_object_get(root, "memory");
    ck_assert_int_eq(json_integer_value(json_object_get(memory, "kv_bytes_per_token")), 3072);
    ck_assert_int_eq(json_integer_value(json_object_get(memory, "kv_window_bytes_per_token")),
                     15360);
    ck_assert_int_eq(json_integer_value(json_object_get(memory, "window")), 512);
    ck_assert_int_eq(json_integer_value(json_object_get(memory, "kv_bytes_at_context")),
                     3072 * 32768 + 15360 * 512);
    json_t *dense = json_object_get(json_object_get(root, "classes"), "dense_ffn");
    ck_assert_int_eq(json_integer_value(json_object_get(dense, "bytes")), 48752640);
    json_t *tensors = json_object_get(root, "tensors");
    ck_assert_uint_eq(json_array_size(tensors), sluice_gguf_n_tensors(gguf));
    json_t *first = json_array_get(tensors, 0);
    ck_assert_str_eq(json_string_value(json_object_get(first, "name")), "token_embd.weight");
    ck_assert_str_eq(json_string_value(json_object_get(first, "type")), "Q8_0");
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(first, "shape"), 1)),
                     262144);
    json_decref(root);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("inspect");
    TCase *figures = tcase_create("figures");
    TCase *odd = tcase_create("odd files");
    TCase *forms = tcase_create("forms");

    tcase_add_checked_fixture(figures, make_folder, remove_folder);
    tcase_add_loop_test(figures, published_models_have_their_published_figures, 0,
                        G_N_ELEMENTS(known));
    tcase_add_test(figures, prediction_blocks_are_counted_apart);
    tcase_add_test(figures, a_token_passes_most_experts_by);
    tcase_add_test(figures, a_window_stops_growing);
    tcase_add_test(figures, fused_projections_and_windows_are_understood);
    tcase_add_test(odd, templates_are_known_by_their_markers);
    tcase_add_test(odd, absurd_metadata_is_survived);
    tcase_add_test(odd, an_empty_file_has_a_report);
    /* Vocabularies of 250,000 tokens, under sanitizers on a busy machine. */
    tcase_set_timeout(figures, 60);
    tcase_set_timeout(forms, 60);
    tcase_add_checked_fixture(forms, make_folder, remove_folder);
    tcase_add_test(forms, text_says_what_a_person_wants_to_know);
    tcase_add_test(forms, control_bytes_of_a_file_do_not_come_out);
    tcase_add_test(forms, styles_are_balanced);
    tcase_add_test(forms, json_has_its_keys);
    suite_add_tcase(suite, figures);
    suite_add_tcase(suite, odd);
    suite_add_tcase(suite, forms);
    return sluice_test_run(suite);
}
