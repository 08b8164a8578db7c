/* SPDX-License-Identifier: MIT */
/*
 * Loading as the commands share it. Errors are said here, where it is known that a file that
 * cannot be opened is a model; callers pass the exit status on.
 */
#include "config.h"

#include "src/cli/load.h"
#include "src/cli/terminal.h"
#include "src/core/error.h"

#include <stdio.h>
#include <string.h>

static int
fail_to_load(const GError *error)
{
    int status = sluice_terminal_fail(error);

    return g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_FILE) ? SLUICE_EXIT_NO_MODEL : status;
}

/**
 * sluice_load_model:
 * @path: of a GGUF file
 * @model: (out) (transfer full): the model, without weights
 *
 * Returns: a #SluiceExit; what went wrong has been said
 */
int
sluice_load_model(const char *path, SluiceModel **model)
{
    g_autoptr(GError) error = NULL;

    *model = sluice_model_open(path, &error);
    return *model != NULL ? SLUICE_EXIT_OK : fail_to_load(error);
}

static void
append_part(GString *line, const char *name, uint64_t n_bytes)
{
    g_autofree char *size = sluice_terminal_bytes(n_bytes);

    if (n_bytes > 0)
        g_string_append_printf(line, "%s%s %s", line->len > 0 ? ", " : "", name, size);
}

static void
say_memory(const SluiceMemory *memory, uint64_t n_own_bytes)
{
    g_autoptr(GString) parts = g_string_new(NULL);
    g_autofree char *total = sluice_terminal_bytes(memory->total + n_own_bytes);

    append_part(parts, "weights", memory->weights);
    append_part(parts, "context", memory->kv);
    append_part(parts, "state", memory->state);
    append_part(parts, "activations", memory->activations);
    append_part(parts, "scratch", memory->scratch);
    append_part(parts, "vocabulary", memory->vocabulary);
    append_part(parts, "results", n_own_bytes);
    sluice_terminal_note("memory: %s (%s)", total, parts->str);
    if (memory->mapped > 0) {
        g_autofree char *mapped = sluice_terminal_bytes(memory->mapped);

        sluice_terminal_note("memory: %s of weights stay mapped from the file", mapped);
    }
}

/**
 * sluice_load_engine:
 * @model: from sluice_load_model()
 * @params: how to load it; progress is set here
 * @n_own_bytes: what the command itself will allocate, to be counted with the rest
 * @engine: (out) (transfer full): the engine
 * @seconds: (out): how long it took
 *
 * Says the sum of the memory first.
 *
 * Returns: a #SluiceExit; what went wrong has been said
 */
int
sluice_load_engine(SluiceModel *model, const SluiceEngineParams *params, uint64_t n_own_bytes,
                   SluiceEngine **engine, double *seconds)
{
    g_autoptr(GError) error = NULL;
    SluiceEngineParams own = *params;
    SluiceMemory memory = {0};
    gint64 begin = g_get_monotonic_time();

    own.progress = sluice_terminal_progress;
    own.progress_data = (gpointer) "loading";
    if (!sluice_engine_memory(model, &own, &memory, &error))
        return fail_to_load(error);
    say_memory(&memory, n_own_bytes);
    *engine = sluice_engine_new(model, &own, &error);
    sluice_terminal_progress_end();
    if (*engine == NULL)
        return fail_to_load(error);
    *seconds = (double) (g_get_monotonic_time() - begin) / 1e6;
    if (sluice_terminal_is_verbose()) {
        g_autofree char *words = sluice_engine_describe(*engine);

        sluice_terminal_note("%s", words);
    }
    return SLUICE_EXIT_OK;
}

/**
 * sluice_load_peak_bytes:
 *
 * Returns: the most memory that the process has had resident, less the pages of files it maps; 0
 *   if the kernel does not tell
 */
uint64_t
sluice_load_peak_bytes(void)
{
    g_autofree char *status = NULL;
    g_auto(GStrv) lines = NULL;
    guint64 peak = 0, mapped = 0;

    if (!g_file_get_contents("/proc/self/status", &status, NULL, NULL))
        return 0;
    lines = g_strsplit(status, "\n", -1);
    for (char **line = lines; *line != NULL; line++) {
        if (g_str_has_prefix(*line, "VmHWM:"))
            peak = g_ascii_strtoull(*line + strlen("VmHWM:"), NULL, 10);
        else if (g_str_has_prefix(*line, "RssFile:"))
            mapped = g_ascii_strtoull(*line + strlen("RssFile:"), NULL, 10);
    }
    return peak > mapped ? (peak - mapped) * 1024 : 0;
}
