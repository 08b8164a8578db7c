/* SPDX-License-Identifier: MIT */
/*
 * Where prompts and model files come from. Everything read here is checked to be UTF-8 text once,
 * so that nobody behind has to.
 */
#include "config.h"

#include "src/cli/input.h"
#include "src/cli/terminal.h"
#include "src/core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The model that ./setup of the source tree puts into the models folder. */
#define DEFAULT_MODEL "SmolLM2-135M-Instruct.Q4_1.gguf"

#define TEXT_MAX_BYTES ((gsize) 512 << 20)
#define READ_BYTES 65536

/* A pipe that stays silent this long is worth a word: whoever waits may not know for what. */
#define SILENCE_MS 2000

static const char *
input_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static gboolean
set_read_error(GError **error, const char *path, int code)
{
    g_autofree char *shown = sluice_error_printable(input_name(path), -1);

    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "cannot read '%s': %s", shown,
                g_strerror(code));
    return FALSE;
}

static void
say_if_silent(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    if (poll(&ready, 1, SILENCE_MS) == 0)
        sluice_terminal_note("waiting for standard input; </dev/null leaves it out");
}

static gboolean
read_all(int fd, const char *path, GString *text, GError **error)
{
    g_autofree char *buffer = g_malloc(READ_BYTES);

    for (;;) {
        ssize_t n = read(fd, buffer, READ_BYTES);

        if (n == 0)
            return TRUE;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return set_read_error(error, path, errno);
        if (text->len + (gsize) n > TEXT_MAX_BYTES) {
            g_autofree char *shown = sluice_error_printable(input_name(path), -1);

            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                        "'%s' has more than %zu bytes, the most that a text can have", shown,
                        TEXT_MAX_BYTES);
            return FALSE;
        }
        g_string_append_len(text, buffer, n);
    }
}

/**
 * sluice_input_read:
 * @path: of a file, or "-" for standard input
 * @text: what it holds is put here, less one newline at the end
 * @error: return location, or %NULL
 *
 * Returns: %FALSE if it cannot be read or is not UTF-8
 */
gboolean
sluice_input_read(const char *path, GString *text, GError **error)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    const char *valid_end;
    gboolean ok;

    if (fd < 0)
        return set_read_error(error, path, errno);
    if (is_stdin)
        say_if_silent(fd);
    g_string_truncate(text, 0);
    ok = read_all(fd, path, text, error);
    if (!is_stdin)
        close(fd);
    if (!ok)
        return FALSE;
    if (!g_utf8_validate_len(text->str, text->len, &valid_end)) {
        g_autofree char *shown = sluice_error_printable(input_name(path), -1);

        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "'%s' is not UTF-8 text: byte 0x%02X at offset %zu", shown, (guchar) *valid_end,
                    (gsize) (valid_end - text->str));
        return FALSE;
    }
    if (text->len > 0 && text->str[text->len - 1] == '\n')
        g_string_truncate(text, text->len - 1);
    return TRUE;
}

/**
 * sluice_input_is_piped:
 *
 * Returns: whether standard input is a file, a pipe or a socket: something that has a text to
 *   give. A terminal is asked, and /dev/null or a closed descriptor has nothing.
 */
bool
sluice_input_is_piped(void)
{
    struct stat info;

    return fstat(STDIN_FILENO, &info) == 0 &&
           (S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

static void
append_part(GString *prompt, const char *part)
{
    if (part[0] == '\0')
        return;
    if (prompt->len > 0)
        g_string_append(prompt, "\n\n");
    g_string_append(prompt, part);
}

/**
 * sluice_input_prompt:
 * @options: parsed
 * @n_used: arguments that are no part of the prompt
 * @prompt: (out) (transfer full) (nullable): the prompt, or %NULL: nobody gave one
 * @error: return location, or %NULL
 *
 * Puts the prompt together: --file, piped standard input, the other arguments or --prompt.
 *
 * Returns: %FALSE if a text cannot be read
 */
gboolean
sluice_input_prompt(const SluiceOptions *options, guint n_used, char **prompt, GError **error)
{
    g_autoptr(GString) whole = g_string_new(NULL);
    g_autoptr(GString) part = g_string_new(NULL);
    bool has_any = options->prompt != NULL || options->args->len > n_used;
    bool stdin_is_read = false;

    if (options->file != NULL) {
        if (!sluice_input_read(options->file, part, error))
            return FALSE;
        append_part(whole, part->str);
        stdin_is_read = strcmp(options->file, "-") == 0;
        has_any = true;
    }
    if (!stdin_is_read && sluice_input_is_piped()) {
        if (!sluice_input_read("-", part, error))
            return FALSE;
        append_part(whole, part->str);
        has_any |= part->len > 0;
    }
    g_string_truncate(part, 0);
    for (guint i = n_used; i < options->args->len; i++)
        g_string_append_printf(part, "%s%s", i > n_used ? " " : "",
                               (const char *) g_ptr_array_index(options->args, i));
    append_part(whole, part->str);
    if (options->prompt != NULL)
        append_part(whole, options->prompt);
    if (!g_utf8_validate_len(whole->str, whole->len, NULL)) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "the prompt on the command line is not UTF-8 text");
        return FALSE;
    }
    *prompt = has_any ? g_strdup(whole->str) : NULL;
    return TRUE;
}

/* ---- models --------------------------------------------------------------------------------- */

/**
 * sluice_input_models_folder:
 *
 * Returns: (transfer full): where models live that are named without a path
 */
char *
sluice_input_models_folder(void)
{
    return g_build_filename(g_get_user_data_dir(), "sluice", "models", NULL);
}

/**
 * sluice_input_find_model:
 * @name: a path, or the name of a file in the models folder with or without ".gguf"
 *
 * Returns: (transfer full) (nullable): the path of what exists under that name
 */
char *
sluice_input_find_model(const char *name)
{
    g_autofree char *folder = sluice_input_models_folder();
    g_autofree char *plain = NULL;
    g_autofree char *with_ending = NULL;

    if (g_file_test(name, G_FILE_TEST_EXISTS))
        return g_strdup(name);
    if (name[0] == '\0' || strchr(name, '/') != NULL)
        return NULL;
    plain = g_build_filename(folder, name, NULL);
    if (g_file_test(plain, G_FILE_TEST_IS_REGULAR))
        return g_steal_pointer(&plain);
    with_ending = g_strconcat(plain, ".gguf", NULL);
    if (g_file_test(with_ending, G_FILE_TEST_IS_REGULAR))
        return g_steal_pointer(&with_ending);
    return NULL;
}

/* Whether somebody who typed @word meant a file, though there is none. */
static bool
looks_like_model(const char *word)
{
    return g_str_has_suffix(word, ".gguf") ||
           (strchr(word, '/') != NULL && strpbrk(word, " \t\n") == NULL);
}

static gboolean
set_no_model_error(GError **error, const char *name)
{
    g_autofree char *folder = sluice_input_models_folder();
    g_autofree char *shown = sluice_error_printable(name, -1);

    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE,
                "there is no model '%s', neither as a file nor in '%s'", shown, folder);
    return FALSE;
}

/**
 * sluice_input_model:
 * @options: parsed
 * @path: (out) (transfer full): the file to open
 * @n_used: (out): how many arguments were used up by naming it: 0 or 1
 * @error: return location, or %NULL
 *
 * Finds the model that was named with --model or as the first argument; without either it is the
 * default model, which is then said.
 *
 * Returns: %FALSE with %SLUICE_ERROR_FILE if there is no such file
 */
gboolean
sluice_input_model(const SluiceOptions *options, char **path, guint *n_used, GError **error)
{
    const char *name = sluice_options_model(options);
    const char *first = options->args->len > 0 ? g_ptr_array_index(options->args, 0) : NULL;
    g_autofree char *folder = NULL;

    *n_used = 0;
    if (name == NULL && first != NULL) {
        g_autofree char *found = sluice_input_find_model(first);

        if (found != NULL || looks_like_model(first)) {
            name = first;
            *n_used = 1;
        }
    }
    if (name != NULL) {
        *path = sluice_input_find_model(name);
        return *path != NULL || set_no_model_error(error, name);
    }
    *path = sluice_input_find_model(DEFAULT_MODEL);
    folder = sluice_input_models_folder();
    if (*path == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE,
                    "no model is named, and '%s' has no '%s': name a file with --model, or run "
                    "./setup in the source tree",
                    folder, DEFAULT_MODEL);
        return FALSE;
    }
    sluice_terminal_note("model: %s (none was named)", *path);
    return TRUE;
}
