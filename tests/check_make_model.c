/* SPDX-License-Identifier: MIT */
/* The random models that other tests stand on: the weights are those that Python draws, the types
 * and sizes are those of published files, and every family opens. */
#include "config.h"

#include "src/format/gguf.h"
#include "tests/model_builder.h"
#include "tests/model_weights.h"
#include "tests/suite.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t
checksum(const uint8_t *data, size_t n_bytes)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ data[i]) * 0x100000001b3u;
    return hash;
}

static char *folder;

static void
make_folder(void)
{
    folder = g_dir_make_tmp("sluice-model-XXXXXX", NULL);
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
    ck_assert_msg(gguf != NULL, "%s: %s", spec->arch, error ? error->message : "");
    return gguf;
}

/* One line of the data file: name type ne0 ne1 tied seed sum. */
static void
check_line(const char *line)
{
    g_auto(GStrv) f = g_strsplit(line, " ", 0);
    ModelWeights m;

    ck_assert_uint_eq(g_strv_length(f), 7);
    SluiceDtype dtype = (SluiceDtype) sluice_dtype_from_name(f[1]);
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);
    int64_t ne0 = g_ascii_strtoll(f[2], NULL, 10);
    int64_t n = ne0 * g_ascii_strtoll(f[3], NULL, 10);
    size_t n_bytes = (size_t) (n / info->block_len * info->block_bytes);
    int64_t step = 8 * info->block_len;
    g_autofree uint8_t *data = g_malloc(n_bytes);

    model_weights_init(&m, f[0], dtype, ne0, n, f[4][0] == '1', g_ascii_strtoull(f[5], NULL, 10));
    model_weights_fill(&m, 0, n, data);
    ck_assert_msg(checksum(data, n_bytes) == g_ascii_strtoull(f[6], NULL, 16), "%s", line);
    /* In pieces, as files are written. */
    memset(data, 0x55, n_bytes);
    for (int64_t i = 0; i < n; i += step)
        model_weights_fill(&m, i, MIN(step, n - i), data + i / info->block_len * info->block_bytes);
    ck_assert_msg(checksum(data, n_bytes) == g_ascii_strtoull(f[6], NULL, 16), "%s", line);
}

START_TEST(weights_are_those_that_python_draws)
{
    g_autofree char *path =
        g_build_filename(g_getenv("SLUICE_TEST_DATA"), "model-weights.txt", NULL);
    g_autofree char *text = NULL;
    int n_lines = 0;

    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", 0);
    for (char **line = lines; *line != NULL; line++) {
        if (**line == '\0' || **line == '#')
            continue;
        check_line(*line);
        n_lines++;
    }
    ck_assert_int_eq(n_lines, 207);
}
END_TEST

static uint64_t
sum_bytes(const SluiceGguf *gguf, bool with_nextn, int n_layers)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < sluice_gguf_n_tensors(gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(gguf, i);
        int layer = 0;
        sscanf(t->name, "blk.%d.", &layer);
        if (with_nextn || layer < n_layers)
            sum += t->n_bytes;
    }
    return sum;
}

/* Source: sizes of published Q4_K_M files, spec of the quantiser's rules. */
START_TEST(the_stock_mix_has_the_sizes_of_published_files)
{
    static const struct {
        const char *preset;
        uint64_t n_bytes;
    } cases[] = {
        {"qwen2-1.5b", 980097536},       {"qwen2-7b", 4677120000}, {"qwen3-30b-a3b", 18550716416},
        {"qwen36-35b-a3b", 21155768832}, {"smollm2", 103668480},   {"gemma3-270m", 246587904},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        ModelSpec spec;
        ck_assert(model_spec_preset(&spec, cases[i].preset));
        spec.is_q4_k_m = true;
        spec.is_hollow = true;
        g_autoptr(SluiceGguf) gguf = write_and_open(&spec);
        ck_assert_msg(sum_bytes(gguf, false, spec.n_layers) == cases[i].n_bytes,
                      "%s: %" G_GUINT64_FORMAT ", expected %" G_GUINT64_FORMAT, cases[i].preset,
                      sum_bytes(gguf, false, spec.n_layers), cases[i].n_bytes);
    }
}
END_TEST

static const char *const archs[] = {"llama",     "qwen2",  "qwen3",     "gemma2",
                                    "gemma3",    "phi3",   "qwen2moe",  "qwen3moe",
                                    "qwen3next", "qwen35", "qwen35moe", "gpt-oss"};

START_TEST(every_family_is_written_with_the_weights_of_its_names)
{
    ModelSpec spec;

    ck_assert(model_spec_init(&spec, archs[_i]));
    spec.seed = 77;
    spec.has_rope_factors = true;
    g_autoptr(SluiceGguf) gguf = write_and_open(&spec);
    for (size_t i = 0; i < sluice_gguf_n_tensors(gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(gguf, i);
        ModelWeights m;
        int64_t n = t->ne[0] * t->ne[1] * t->ne[2];
        g_autofree uint8_t *expected = g_malloc(t->n_bytes);
        model_weights_init(&m, t->name, t->dtype, t->ne[0], n, spec.is_tied, 77);
        model_weights_fill(&m, 0, n, expected);
        ck_assert_msg(memcmp(expected, t->data, t->n_bytes) == 0, "%s %s", archs[_i], t->name);
    }
    ck_assert_int_eq(sluice_gguf_tensor_find(gguf, "output.weight") < 0, spec.is_tied);
}
END_TEST

START_TEST(every_type_can_be_asked_for)
{
    for (int type = 0; type < SLUICE_DTYPE_COUNT; type++) {
        if (sluice_dtype_info((SluiceDtype) type) == NULL)
            continue;
        ModelSpec spec;
        ck_assert(model_spec_init(&spec, "llama"));
        spec.type = type;
        spec.n_layers = 1;
        g_autoptr(SluiceGguf) gguf = write_and_open(&spec);
        gssize at = sluice_gguf_tensor_find(gguf, "blk.0.attn_k.weight");
        ck_assert_int_ge(at, 0);
        ck_assert_int_eq(sluice_gguf_tensor(gguf, (size_t) at)->dtype, type);
        at = sluice_gguf_tensor_find(gguf, "blk.0.attn_norm.weight");
        ck_assert_int_eq(sluice_gguf_tensor(gguf, (size_t) at)->dtype, SLUICE_DTYPE_F32);
    }
}
END_TEST

START_TEST(shapes_that_do_not_fit_are_refused)
{
    g_autofree char *path = g_build_filename(folder, "m.gguf", NULL);
    g_autoptr(GError) error = NULL;
    ModelSpec spec;

    ck_assert(!model_spec_init(&spec, "mamba"));
    ck_assert(!model_spec_preset(&spec, "gpt-5"));
    ck_assert(model_spec_init(&spec, "qwen3moe"));
    spec.n_expert_used = spec.n_expert + 1;
    ck_assert(!model_write(&spec, path, &error));
    ck_assert(!g_file_test(path, G_FILE_TEST_EXISTS));
    g_clear_error(&error);
    ck_assert(model_spec_init(&spec, "llama"));
    ck_assert(!model_write(&spec, "/nonexistent/m.gguf", &error));
    ck_assert_str_eq(error->message,
                     "cannot write '/nonexistent/m.gguf': No such file or directory");
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("make_model");
    TCase *weights = tcase_create("weights");
    TCase *files = tcase_create("files");

    tcase_add_test(weights, weights_are_those_that_python_draws);
    tcase_set_timeout(weights, 60);
    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(files, the_stock_mix_has_the_sizes_of_published_files);
    tcase_add_loop_test(files, every_family_is_written_with_the_weights_of_its_names, 0,
                        G_N_ELEMENTS(archs));
    tcase_add_test(files, every_type_can_be_asked_for);
    tcase_add_test(files, shapes_that_do_not_fit_are_refused);
    tcase_set_timeout(files, 60);
    suite_add_tcase(suite, weights);
    suite_add_tcase(suite, files);
    return sluice_test_run(suite);
}
