/* SPDX-License-Identifier: MIT */
/* sluice inspect: what is in a model file, without running it. */
#include "config.h"

#include "src/cli/input.h"
#include "src/cli/inspect-report.h"
#include "src/cli/terminal.h"
#include "src/core/error.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Reads all tensors in the order of the table, which is the order of the file mostly. */
static gboolean
verify(const SluiceGguf *gguf, uint64_t n_bytes, GError **error)
{
    static char what[] = "verifying";
    uint64_t n_done = 0;

    for (size_t i = 0; i < sluice_gguf_n_tensors(gguf); i++) {
        if (!sluice_gguf_verify_tensor(gguf, i, error))
            return FALSE;
        n_done += sluice_gguf_tensor(gguf, i)->n_bytes;
        sluice_terminal_progress(n_done, n_bytes, what);
    }
    sluice_terminal_progress_end();
    return TRUE;
}

/* Why the model cannot be run, without the path, which stands above; NULL: it can. */
static char *
find_problem(const SluiceGguf *gguf)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceModel) model = sluice_model_open(sluice_gguf_path(gguf), &error);
    g_autofree char *path = sluice_error_printable(sluice_gguf_path(gguf), -1);

    if (model != NULL)
        return NULL;
    const char *message = error->message;
    if (g_str_has_prefix(message, path) && g_str_has_prefix(message + strlen(path), ": "))
        message += strlen(path) + 2;
    return g_strdup(message);
}

/* By itself, not by sluice_terminal_write(), which would escape the report's own colours; what
 * comes from the file is escaped already. */
static void
print_report(const SluiceOptions *options, const SluiceInspectReport *report)
{
    SluiceReportStyle style = {sluice_terminal_style(STDOUT_FILENO, SLUICE_STYLE_BOLD),
                               sluice_terminal_style(STDOUT_FILENO, SLUICE_STYLE_DIM),
                               sluice_terminal_style(STDOUT_FILENO, SLUICE_STYLE_PLAIN)};
    g_autofree char *text = options->json ? sluice_inspect_report_json(report)
                                          : sluice_inspect_report_text(report, &style);

    fputs(text, stdout);
}

/**
 * sluice_cmd_inspect:
 * @options: parsed
 *
 * Returns: the exit status: a file that is damaged is %SLUICE_EXIT_BAD_MODEL, one of a family that
 *   cannot be run is not
 */
int
sluice_cmd_inspect(const SluiceOptions *options)
{
    guint n_args = options->args->len;
    const char *path =
        n_args > 0 ? g_ptr_array_index(options->args, 0) : sluice_options_model(options);
    g_auto(SluiceModelSummary) summary = {0};
    g_autoptr(GError) error = NULL;

    if (path == NULL || n_args > 1) {
        sluice_terminal_complain(path == NULL ? "inspect needs a model file"
                                              : "inspect takes one model file");
        return SLUICE_EXIT_USAGE;
    }
    g_autofree char *found = sluice_input_find_model(path);
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open(found != NULL ? found : path, &error);
    if (gguf == NULL) {
        int status = sluice_terminal_fail(error);
        return g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_FILE) ? SLUICE_EXIT_NO_MODEL
                                                                       : status;
    }
    sluice_model_summary_init(&summary, gguf);
    if (options->verify && !verify(gguf, summary.n_bytes, &error))
        return sluice_terminal_fail(error);
    g_autofree char *problem = find_problem(gguf);
    SluiceInspectReport report = {gguf, &summary, problem, options->tensors, options->verify};
    print_report(options, &report);
    return SLUICE_EXIT_OK;
}
