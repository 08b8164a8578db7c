/* SPDX-License-Identifier: MIT */
/*
 * Results to text. JSON, JSON lines and CSV are three spellings of one record; the table is for
 * people and leaves out what nobody changed.
 */
#include "config.h"

#include "src/cli/bench-report.h"
#include "src/cli/commit.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BATCH 2048
#define DEFAULT_UBATCH 512

static const char *const kv_names[] = {
    [SLUICE_KV_F16] = "f16",
    [SLUICE_KV_Q8_0] = "q8_0",
    [SLUICE_KV_Q4_0] = "q4_0",
    [SLUICE_KV_F32] = "f32",
};

/* 0.1.0 is 100: grows with every release, as a build number does. */
static int
build_number(void)
{
    g_auto(GStrv) parts = g_strsplit(PACKAGE_VERSION, ".", -1);
    int number = 0;

    for (char **part = parts; *part != NULL; part++)
        number = number * 100 + atoi(*part);
    return number;
}

/* ---- statistics ----------------------------------------------------------------------------- */

typedef struct {
    double mean;
    double deviation; /* of the sample; 0 for a single one */
} Summary;

static Summary
summarize(const double *values, guint n)
{
    Summary s = {0};

    for (guint i = 0; i < n; i++)
        s.mean += values[i] / n;
    for (guint i = 0; n > 1 && i < n; i++)
        s.deviation += (values[i] - s.mean) * (values[i] - s.mean) / (n - 1);
    s.deviation = sqrt(s.deviation);
    return s;
}

/* Tokens per second of every repetition. */
static double *
rates(const SluiceBenchResult *result)
{
    double *ts = g_new(double, result->samples_ns->len);

    for (guint i = 0; i < result->samples_ns->len; i++)
        ts[i] =
            1e9 * (result->n_prompt + result->n_gen) / g_array_index(result->samples_ns, double, i);
    return ts;
}

/* ---- records -------------------------------------------------------------------------------- */

static char *
read_cpu_info(void)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;

    if (!g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL))
        return g_strdup("");
    lines = g_strsplit(text, "\n", 64);
    for (char **line = lines; *line != NULL; line++) {
        const char *colon = strchr(*line, ':');

        if (g_str_has_prefix(*line, "model name") && colon != NULL)
            return g_strstrip(g_utf8_make_valid(colon + 1, -1));
    }
    return g_strdup("");
}

static json_t *
numbers(const double *values, guint n, bool are_whole)
{
    json_t *list = json_array();

    for (guint i = 0; i < n; i++)
        json_array_append_new(list, are_whole ? json_integer((json_int_t) values[i])
                                              : json_real(values[i]));
    return list;
}

static void
set_text(json_t *record, const char *key, const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);

    json_object_set_new(record, key, json_string(valid));
}

static void
set_integer(json_t *record, const char *key, gint64 value)
{
    json_object_set_new(record, key, json_integer(value));
}

static json_t *
new_record(const SluiceBenchReport *report, const SluiceBenchResult *result)
{
    const double *ns = (const double *) (void *) result->samples_ns->data;
    guint n = result->samples_ns->len;
    g_autofree double *ts = rates(result);
    Summary in_ns = summarize(ns, n), in_ts = summarize(ts, n);
    g_autoptr(GDateTime) time = g_date_time_new_from_unix_utc(result->test_time);
    g_autofree char *when = g_date_time_format(time, "%Y-%m-%dT%H:%M:%SZ");
    json_t *record = json_object();

    set_text(record, "build_commit", SLUICE_COMMIT);
    set_integer(record, "build_number", build_number());
    set_text(record, "cpu_info", report->cpu_info);
    set_text(record, "gpu_info", "");
    set_text(record, "backends", "CPU");
    set_text(record, "model_filename", result->model_filename);
    set_text(record, "model_type", result->model_type);
    set_integer(record, "model_size", (gint64) result->model_size);
    set_integer(record, "model_n_params", (gint64) result->model_n_params);
    set_integer(record, "n_batch", result->n_batch);
    set_integer(record, "n_ubatch", result->n_ubatch);
    set_integer(record, "n_threads", result->n_threads);
    set_integer(record, "n_threads_batch", result->n_threads_batch);
    set_text(record, "type_k", kv_names[result->type_k]);
    set_text(record, "type_v", kv_names[result->type_v]);
    set_integer(record, "n_gpu_layers", 0);
    json_object_set_new(record, "flash_attn", json_true());
    json_object_set_new(record, "use_mmap", json_boolean(result->use_mmap));
    set_integer(record, "n_prompt", result->n_prompt);
    set_integer(record, "n_gen", result->n_gen);
    set_integer(record, "n_depth", result->n_depth);
    set_text(record, "test_time", when);
    set_integer(record, "avg_ns", (gint64) in_ns.mean);
    set_integer(record, "stddev_ns", (gint64) in_ns.deviation);
    json_object_set_new(record, "avg_ts", json_real(in_ts.mean));
    json_object_set_new(record, "stddev_ts", json_real(in_ts.deviation));
    json_object_set_new(record, "samples_ns", numbers(ns, n, true));
    json_object_set_new(record, "samples_ts", numbers(ts, n, false));
    return record;
}

static void
append_json(GString *out, const json_t *record, size_t flags)
{
    char *text = json_dumps(record, flags | JSON_REAL_PRECISION(9));

    g_string_append(out, text);
    free(text);
}

static void
append_csv_value(GString *out, const json_t *value)
{
    g_string_append_c(out, '"');
    if (json_is_string(value)) {
        for (const char *c = json_string_value(value); *c != '\0'; c++) {
            if (*c == '"')
                g_string_append_c(out, '"');
            g_string_append_c(out, *c);
        }
    } else if (json_is_boolean(value)) {
        g_string_append_c(out, json_is_true(value) ? '1' : '0');
    } else if (json_is_integer(value)) {
        g_string_append_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else {
        g_string_append_printf(out, "%f", json_real_value(value));
    }
    g_string_append_c(out, '"');
}

/* Samples are lists, which have no place in a line of CSV. */
static void
append_csv(GString *out, json_t *record, bool is_header)
{
    const char *key;
    json_t *value;
    gsize begin = out->len;

    json_object_foreach(record, key, value)
    {
        if (json_is_array(value))
            continue;
        if (out->len > begin)
            g_string_append_c(out, ',');
        if (is_header)
            g_string_append(out, key);
        else
            append_csv_value(out, value);
    }
    g_string_append_c(out, '\n');
}

/* ---- the table ------------------------------------------------------------------------------ */

typedef struct {
    GString *out;
    GString *rule; /* the line between head and rows; NULL below it */
} Row;

/* A cell of @width columns; text to the left if @width < 0. */
static void
append_cell(Row *row, int width, const char *head, const char *text)
{
    int n_columns = ABS(width);

    g_string_append_printf(row->out, "| %*s ", width, row->rule != NULL ? head : text);
    if (row->rule != NULL) {
        g_string_append(row->rule, "| ");
        for (int i = 0; i < n_columns - (width > 0); i++)
            g_string_append_c(row->rule, '-');
        g_string_append(row->rule, width > 0 ? ": " : " ");
    }
}

static void
append_number(Row *row, int width, const char *head, gint64 value)
{
    g_autofree char *text = g_strdup_printf("%" G_GINT64_FORMAT, value);

    append_cell(row, width, head, text);
}

static char *
test_name(const SluiceBenchResult *result)
{
    g_autofree char *test = result->n_gen == 0 ? g_strdup_printf("pp%d", result->n_prompt)
                            : result->n_prompt == 0
                                ? g_strdup_printf("tg%d", result->n_gen)
                                : g_strdup_printf("pp%d+tg%d", result->n_prompt, result->n_gen);

    return result->n_depth > 0 ? g_strdup_printf("%s @ d%d", test, result->n_depth)
                               : g_steal_pointer(&test);
}

/* printf counts bytes and "±" has two: one more column than it looks. */
static void
append_table_row(const SluiceBenchReport *report, const SluiceBenchResult *result, Row *row)
{
    g_autofree double *ts = rates(result);
    Summary in_ts = summarize(ts, result->samples_ns->len);
    bool is_big = result->model_size >= (uint64_t) 1 << 30;
    bool is_large = result->model_n_params >= 1000000000;
    g_autofree char *size =
        g_strdup_printf("%.2f %s", (double) result->model_size / (is_big ? 1 << 30 : 1 << 20),
                        is_big ? "GiB" : "MiB");
    g_autofree char *params = g_strdup_printf(
        "%.2f %s", (double) result->model_n_params / (is_large ? 1e9 : 1e6), is_large ? "B" : "M");
    g_autofree char *test = test_name(result);
    g_autofree char *speed = g_strdup_printf("%.2f ± %.2f", in_ts.mean, in_ts.deviation);

    append_cell(row, -30, "model", result->model_type);
    append_cell(row, 10, "size", size);
    append_cell(row, 10, "params", params);
    append_cell(row, -10, "backend", "CPU");
    append_number(row, 7, "threads", result->n_threads);
    if (report->has_threads_batch)
        append_number(row, 13, "threads_batch", result->n_threads_batch);
    if (report->has_batch)
        append_number(row, 7, "n_batch", result->n_batch);
    if (report->has_ubatch)
        append_number(row, 8, "n_ubatch", result->n_ubatch);
    if (report->has_type_k)
        append_cell(row, 6, "type_k", kv_names[result->type_k]);
    if (report->has_type_v)
        append_cell(row, 6, "type_v", kv_names[result->type_v]);
    if (report->has_mmap)
        append_number(row, 10, "mmap", result->use_mmap);
    append_cell(row, 15, "test", test);
    append_cell(row, row->rule != NULL ? 20 : 21, "t/s", speed);
    g_string_append(row->out, "|\n");
    if (row->rule != NULL)
        g_string_append(row->rule, "|\n");
}

static void
append_table(const SluiceBenchReport *report, const SluiceBenchResult *result, GString *out)
{
    g_autoptr(GString) rule = g_string_new(NULL);
    Row head = {out, rule}, body = {out, NULL};

    if (report->n_written == 0) {
        append_table_row(report, result, &head);
        g_string_append(out, rule->str);
    }
    append_table_row(report, result, &body);
}

/* ---- the report ----------------------------------------------------------------------------- */

static bool
has_other(const GArray *list, int32_t deflt)
{
    for (guint i = 0; i < list->len; i++)
        if (g_array_index(list, int32_t, i) != deflt)
            return true;
    return false;
}

/**
 * sluice_bench_report_init:
 * @report: storage of the caller
 * @options: parsed: which columns the table has
 */
void
sluice_bench_report_init(SluiceBenchReport *report, const SluiceOptions *options)
{
    memset(report, 0, sizeof *report);
    report->format = (SluiceOutputFormat) options->output;
    report->has_batch = has_other(options->batches, DEFAULT_BATCH);
    report->has_ubatch = has_other(options->ubatches, DEFAULT_UBATCH);
    report->has_threads_batch = has_other(options->threads_batch, 0);
    report->has_type_k = has_other(options->types_k, SLUICE_KV_F16);
    report->has_type_v = has_other(options->types_v, SLUICE_KV_F16);
    report->has_mmap = options->mmaps->len > 0;
    report->cpu_info = read_cpu_info();
}

/**
 * sluice_bench_report_clear:
 * @report: from sluice_bench_report_init()
 */
void
sluice_bench_report_clear(SluiceBenchReport *report)
{
    g_clear_pointer(&report->cpu_info, g_free);
}

/**
 * sluice_bench_report_begin:
 * @report: a report
 * @out: what stands in front of all results is appended here
 */
void
sluice_bench_report_begin(SluiceBenchReport *report, GString *out)
{
    if (report->format == SLUICE_OUTPUT_JSON)
        g_string_append(out, "[\n");
}

/**
 * sluice_bench_report_add:
 * @report: a report
 * @result: of one test
 * @out: its text is appended here
 */
void
sluice_bench_report_add(SluiceBenchReport *report, const SluiceBenchResult *result, GString *out)
{
    json_t *record = new_record(report, result);

    switch (report->format) {
    case SLUICE_OUTPUT_MD:
        append_table(report, result, out);
        break;
    case SLUICE_OUTPUT_CSV:
        if (report->n_written == 0)
            append_csv(out, record, true);
        append_csv(out, record, false);
        break;
    case SLUICE_OUTPUT_JSON:
        if (report->n_written > 0)
            g_string_append(out, ",\n");
        append_json(out, record, JSON_INDENT(2));
        break;
    case SLUICE_OUTPUT_JSONL:
        append_json(out, record, JSON_COMPACT);
        g_string_append_c(out, '\n');
        break;
    }
    json_decref(record);
    report->n_written++;
}

/**
 * sluice_bench_report_end:
 * @report: a report
 * @out: what stands behind all results is appended here
 */
void
sluice_bench_report_end(SluiceBenchReport *report, GString *out)
{
    if (report->format == SLUICE_OUTPUT_JSON)
        g_string_append(out, report->n_written > 0 ? "\n]\n" : "]\n");
    else if (report->format == SLUICE_OUTPUT_MD)
        g_string_append_printf(out, "\nbuild: %s (%d)\n", SLUICE_COMMIT, build_number());
}
