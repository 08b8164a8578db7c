/* SPDX-License-Identifier: MIT */
/*
 * The report's two forms. Nothing of the file reaches either but through the summary's printable
 * strings or sluice_error_printable(): names in a model file may hold escape sequences.
 */
#include "config.h"

#include "src/cli/inspect-report.h"

#include "src/core/error.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

enum { LABEL_WIDTH = 13, BAR_WIDTH = 30 };

/* ---- numbers for people ----------------------------------------------------------------- */

static char *
format_bytes(uint64_t n_bytes)
{
    if (n_bytes < 1 << 10)
        return g_strdup_printf("%" PRIu64 " B", n_bytes);
    if (n_bytes < 1 << 20)
        return g_strdup_printf("%.1f KiB", (double) n_bytes / (1 << 10));
    if (n_bytes < 1 << 30)
        return g_strdup_printf("%.1f MiB", (double) n_bytes / (1 << 20));
    return g_strdup_printf("%.2f GiB", (double) n_bytes / (1 << 30));
}

static char *
format_params(uint64_t n)
{
    if (n < 1000000)
        return g_strdup_printf("%" PRIu64, n);
    if (n < 1000000000)
        return g_strdup_printf("%.1f million", (double) n / 1e6);
    return g_strdup_printf("%.2f billion", (double) n / 1e9);
}

static char *
format_shape(const SluiceGgufTensor *t)
{
    GString *shape = g_string_new("{");

    for (int i = 0; i < t->n_dims; i++)
        g_string_append_printf(shape, "%s%" PRId64, i > 0 ? ", " : "", t->ne[i]);
    g_string_append_c(shape, '}');
    return g_string_free(shape, FALSE);
}

/* ---- text ------------------------------------------------------------------------------- */

typedef struct {
    GString *out;
    const SluiceReportStyle *style;
} Page;

static void put_line(const Page *page, const char *label, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

static void
put_line(const Page *page, const char *label, const char *format, ...)
{
    va_list args;

    g_string_append_printf(page->out, "%s%-*s%s", page->style->dim, LABEL_WIDTH, label,
                           page->style->plain);
    va_start(args, format);
    g_string_append_vprintf(page->out, format, args);
    va_end(args);
    g_string_append_c(page->out, '\n');
}

static void
put_heading(const Page *page, const char *text)
{
    g_string_append_printf(page->out, "\n%s%s%s\n", page->style->bold, text, page->style->plain);
}

static void
put_files(const Page *page, const SluiceInspectReport *report)
{
    g_autofree char *size = format_bytes(report->summary->n_file_bytes);
    g_autofree char *path = sluice_error_printable(sluice_gguf_path(report->gguf), -1);
    int n_files = sluice_gguf_n_files(report->gguf);

    if (n_files == 1)
        put_line(page, "file", "%s, %s, GGUF version %u", path, size,
                 sluice_gguf_version(report->gguf));
    else
        put_line(page, "files", "%s and %d more, %s, GGUF version %u", path, n_files - 1, size,
                 sluice_gguf_version(report->gguf));
}

static void
put_size(const Page *page, const SluiceModelSummary *s)
{
    g_autofree char *params = format_params(s->n_params);
    g_autofree char *active = format_params(s->n_active_params);
    g_autofree char *size = format_bytes(s->n_bytes);

    if (s->n_experts > 0)
        put_line(page, "parameters",
                 "%s, %s of them for a token (%" PRIu64 " of %" PRIu64 " experts)", params, active,
                 s->n_experts_used, s->n_experts);
    else
        put_line(page, "parameters", "%s", params);
    put_line(page, "weights", "%s, %.2f bits each", size, sluice_model_summary_bits(s));
}

static void
put_memory(const Page *page, const SluiceModelSummary *s)
{
    g_autofree char *full = format_bytes(sluice_model_summary_kv_bytes(s, s->n_context));
    g_autofree char *state = format_bytes(s->recurrent_bytes);

    if (s->n_recurrent_layers > 0)
        put_line(page, "layers", "%u: %u with attention, %u recurrent", s->n_layers,
                 s->n_attention_layers, s->n_recurrent_layers);
    else
        put_line(page, "layers", "%u", s->n_layers);
    if (s->n_context > 0)
        put_line(page, "context", "%" PRIu64 " tokens", s->n_context);
    if (s->kv_window_token_bytes > 0)
        put_line(page, "KV cache",
                 "%" PRIu64 " bytes a token in f16, and %" PRIu64 " for each of the last %" PRIu64
                 "; %s in all",
                 s->kv_token_bytes, s->kv_window_token_bytes, s->n_window, full);
    else if (s->kv_token_bytes > 0)
        put_line(page, "KV cache", "%" PRIu64 " bytes a token in f16; %s in all", s->kv_token_bytes,
                 full);
    if (s->recurrent_bytes > 0)
        put_line(page, "state", "%s for a conversation of any length", state);
}

static void
put_text(const Page *page, const SluiceModelSummary *s)
{
    if (s->tokenizer != NULL)
        put_line(page, "tokenizer", "%s%s%s%s, %" PRIu64 " tokens", s->tokenizer,
                 s->pretokenizer != NULL ? " (" : "",
                 s->pretokenizer != NULL ? s->pretokenizer : "", s->pretokenizer != NULL ? ")" : "",
                 s->n_tokens);
    else
        put_line(page, "tokenizer", "none");
    if (s->template_line != NULL)
        put_line(page, "template", "%s, %" PRIu64 " bytes: %s",
                 s->template_family != NULL ? s->template_family : "of its own kind",
                 s->n_template_bytes, s->template_line);
    else
        put_line(page, "template", "none");
}

/* A share as a bar, so that the eye finds the largest. */
static void
put_share(const Page *page, const char *name, SluiceTensorSum sum, uint64_t n_all)
{
    g_autofree char *size = format_bytes(sum.n_bytes);
    double share = n_all > 0 ? (double) sum.n_bytes / (double) n_all : 0;
    int n_full = (int) (share * BAR_WIDTH + 0.5);
    g_autofree char *bar = g_strnfill((gsize) n_full, '#');

    if (sum.n_tensors == 0)
        return;
    g_string_append_printf(page->out, "  %-15s %12s %5.1f %%  %5zu tensor%s %s%s%s\n", name, size,
                           100 * share, sum.n_tensors, sum.n_tensors == 1 ? " " : "s",
                           page->style->dim, bar, page->style->plain);
}

static void
put_tensors(const Page *page, const SluiceGguf *gguf)
{
    int n_files = sluice_gguf_n_files(gguf);

    put_heading(page, "tensors");
    for (size_t i = 0; i < sluice_gguf_n_tensors(gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(gguf, i);
        g_autofree char *name = sluice_error_printable(t->name, -1);
        g_autofree char *shape = format_shape(t);
        g_autofree char *file = n_files > 1 ? g_strdup_printf("  file %d", t->file_idx + 1) : NULL;
        g_string_append_printf(page->out, "  %-36s %-8s %-22s %12zu bytes at %" PRIu64 "%s\n", name,
                               sluice_dtype_info(t->dtype)->name, shape, t->n_bytes, t->offset,
                               file != NULL ? file : "");
    }
}

/**
 * sluice_inspect_report_text:
 * @report: what to say
 * @style: escape sequences, or ""
 *
 * Returns: (transfer full): a page for a terminal, ending with a newline
 */
char *
sluice_inspect_report_text(const SluiceInspectReport *report, const SluiceReportStyle *style)
{
    const SluiceModelSummary *s = report->summary;
    Page page = {g_string_new(NULL), style};

    g_string_append_printf(page.out, "%s%s%s\n", style->bold,
                           s->name != NULL ? s->name : "(no name)", style->plain);
    put_files(&page, report);
    put_line(&page, "family", "%s", s->arch != NULL ? s->arch : "unknown");
    put_line(&page, "runs", "%s%s", report->problem != NULL ? "no: " : "yes",
             report->problem != NULL ? report->problem : "");
    put_size(&page, s);
    put_memory(&page, s);
    put_text(&page, s);
    if (report->is_verified)
        put_line(&page, "verified", "every byte was read, every weight is a finite number");
    put_heading(&page, "where the bytes are");
    for (int i = 0; i < SLUICE_TENSOR_CLASS_COUNT; i++)
        put_share(&page, sluice_tensor_class_name((SluiceTensorClass) i), s->classes[i],
                  s->n_bytes);
    put_heading(&page, "types");
    for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
        if (s->types[i].n_tensors > 0)
            put_share(&page, sluice_dtype_info((SluiceDtype) i)->name, s->types[i], s->n_bytes);
    }
    if (report->has_tensors)
        put_tensors(&page, report->gguf);
    return g_string_free(page.out, FALSE);
}

/* ---- JSON ------------------------------------------------------------------------------- */

static json_t *
text_or_null(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

static json_t *
number(uint64_t value)
{
    return json_integer((json_int_t) MIN(value, (uint64_t) INT64_MAX));
}

static json_t *
sum_object(SluiceTensorSum sum)
{
    json_t *object = json_object();

    json_object_set_new(object, "n_tensors", number(sum.n_tensors));
    json_object_set_new(object, "bytes", number(sum.n_bytes));
    return object;
}

static json_t *
files_array(const SluiceGguf *gguf)
{
    json_t *files = json_array();

    for (int i = 0; i < sluice_gguf_n_files(gguf); i++) {
        json_t *file = json_object();
        g_autofree char *path = sluice_error_printable(sluice_gguf_file_path(gguf, i), -1);
        json_object_set_new(file, "path", json_string(path));
        json_object_set_new(file, "bytes", number(sluice_gguf_file_bytes(gguf, i)));
        json_array_append_new(files, file);
    }
    return files;
}

static json_t *
classes_object(const SluiceModelSummary *s)
{
    json_t *classes = json_object();

    for (int i = 0; i < SLUICE_TENSOR_CLASS_COUNT; i++) {
        g_autofree char *key =
            g_strdelimit(g_strdup(sluice_tensor_class_name((SluiceTensorClass) i)), " ", '_');
        json_object_set_new(classes, key, sum_object(s->classes[i]));
    }
    return classes;
}

static json_t *
types_object(const SluiceModelSummary *s)
{
    json_t *types = json_object();

    for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
        if (s->types[i].n_tensors > 0)
            json_object_set_new(types, sluice_dtype_info((SluiceDtype) i)->name,
                                sum_object(s->types[i]));
    }
    return types;
}

static json_t *
tensors_array(const SluiceGguf *gguf)
{
    json_t *tensors = json_array();

    for (size_t i = 0; i < sluice_gguf_n_tensors(gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(gguf, i);
        g_autofree char *name = sluice_error_printable(t->name, -1);
        json_t *tensor = json_object();
        json_t *shape = json_array();
        for (int d = 0; d < t->n_dims; d++)
            json_array_append_new(shape, json_integer(t->ne[d]));
        json_object_set_new(tensor, "name", json_string(name));
        json_object_set_new(tensor, "type", json_string(sluice_dtype_info(t->dtype)->name));
        json_object_set_new(tensor, "shape", shape);
        json_object_set_new(tensor, "bytes", number(t->n_bytes));
        json_object_set_new(tensor, "file", json_integer(t->file_idx));
        json_object_set_new(tensor, "offset", number(t->offset));
        json_array_append_new(tensors, tensor);
    }
    return tensors;
}

static json_t *
memory_object(const SluiceModelSummary *s)
{
    json_t *memory = json_object();

    json_object_set_new(memory, "context_length", number(s->n_context));
    json_object_set_new(memory, "kv_bytes_per_token", number(s->kv_token_bytes));
    json_object_set_new(memory, "kv_window_bytes_per_token", number(s->kv_window_token_bytes));
    json_object_set_new(memory, "window", number(s->n_window));
    json_object_set_new(memory, "kv_bytes_at_context",
                        number(sluice_model_summary_kv_bytes(s, s->n_context)));
    json_object_set_new(memory, "recurrent_state_bytes", number(s->recurrent_bytes));
    return memory;
}

static json_t *
text_object(const SluiceModelSummary *s)
{
    json_t *tokenizer = json_object();

    json_object_set_new(tokenizer, "model", text_or_null(s->tokenizer));
    json_object_set_new(tokenizer, "pre", text_or_null(s->pretokenizer));
    json_object_set_new(tokenizer, "n_tokens", number(s->n_tokens));
    return tokenizer;
}

static json_t *
template_object(const SluiceModelSummary *s)
{
    json_t *template = json_object();

    if (s->template_line == NULL) {
        json_decref(template);
        return json_null();
    }
    json_object_set_new(template, "family", text_or_null(s->template_family));
    json_object_set_new(template, "bytes", number(s->n_template_bytes));
    json_object_set_new(template, "first_line", text_or_null(s->template_line));
    return template;
}

/**
 * sluice_inspect_report_json:
 * @report: what to say
 *
 * Keys are only ever added. What the file does not say is null where it is text and 0 where it is
 * a number.
 *
 * Returns: (transfer full): an object, indented, ending with a newline
 */
char *
sluice_inspect_report_json(const SluiceInspectReport *report)
{
    const SluiceModelSummary *s = report->summary;
    json_t *root = json_object();

    json_object_set_new(root, "files", files_array(report->gguf));
    json_object_set_new(root, "gguf_version", json_integer(sluice_gguf_version(report->gguf)));
    json_object_set_new(root, "kind", text_or_null(s->kind));
    json_object_set_new(root, "name", text_or_null(s->name));
    json_object_set_new(root, "family", text_or_null(s->arch));
    json_object_set_new(root, "runs", json_boolean(report->problem == NULL));
    json_object_set_new(root, "problem", text_or_null(report->problem));
    json_object_set_new(root, "n_params", number(s->n_params));
    json_object_set_new(root, "n_active_params", number(s->n_active_params));
    json_object_set_new(root, "weight_bytes", number(s->n_bytes));
    json_object_set_new(root, "bits_per_weight", json_real(sluice_model_summary_bits(s)));
    json_object_set_new(root, "n_layers", number(s->n_layers));
    json_object_set_new(root, "n_attention_layers", number(s->n_attention_layers));
    json_object_set_new(root, "n_recurrent_layers", number(s->n_recurrent_layers));
    json_object_set_new(root, "n_experts", number(s->n_experts));
    json_object_set_new(root, "n_experts_used", number(s->n_experts_used));
    json_object_set_new(root, "memory", memory_object(s));
    json_object_set_new(root, "tokenizer", text_object(s));
    json_object_set_new(root, "chat_template", template_object(s));
    json_object_set_new(root, "classes", classes_object(s));
    json_object_set_new(root, "types", types_object(s));
    json_object_set_new(root, "verified", json_boolean(report->is_verified));
    if (report->has_tensors)
        json_object_set_new(root, "tensors", tensors_array(report->gguf));

    char *dumped = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    char *text = g_strconcat(dumped != NULL ? dumped : "{}", "\n", NULL);
    free(dumped);
    json_decref(root);
    return text;
}
