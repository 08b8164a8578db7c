/* SPDX-License-Identifier: MIT */
/*
 * "sluice tokenize": the tokens of a text, for people and for scripts. Reads the vocabulary only.
 */
#include "config.h"

#include "src/cli/input.h"
#include "src/cli/load.h"
#include "src/cli/terminal.h"
#include "src/core/error.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

static void
append_escaped_piece(GString *out, const char *bytes, gsize n_bytes)
{
    g_autofree char *printable = sluice_error_printable(bytes, (gssize) n_bytes);

    for (const char *c = printable; *c != '\0'; c++) {
        if (*c == '\'')
            g_string_append_c(out, '\\');
        g_string_append_c(out, *c);
    }
}

static void
append_lines(GString *out, const SluiceModel *model, const GArray *tokens)
{
    g_autoptr(GString) piece = g_string_new(NULL);

    for (guint i = 0; i < tokens->len; i++) {
        int32_t token = g_array_index(tokens, int32_t, i);

        g_string_truncate(piece, 0);
        sluice_model_append_token(model, token, TRUE, piece);
        g_string_append_printf(out, "%7d '", token);
        append_escaped_piece(out, piece->str, piece->len);
        g_string_append(out, "'\n");
    }
}

static void
append_ids(GString *out, const GArray *tokens)
{
    for (guint i = 0; i < tokens->len; i++)
        g_string_append_printf(out, "%s%d", i > 0 ? " " : "", g_array_index(tokens, int32_t, i));
    g_string_append_c(out, '\n');
}

/* Pieces are bytes, and JSON is UTF-8: a piece that is no text of its own has its bytes escaped
 * in "piece". */
static void
append_json(GString *out, const SluiceModel *model, const GArray *tokens)
{
    json_t *all = json_object();
    json_t *list = json_array();
    g_autoptr(GString) piece = g_string_new(NULL);
    char *text;

    for (guint i = 0; i < tokens->len; i++) {
        int32_t token = g_array_index(tokens, int32_t, i);
        json_t *one = json_object();

        g_string_truncate(piece, 0);
        sluice_model_append_token(model, token, TRUE, piece);
        json_object_set_new(one, "id", json_integer(token));
        if (g_utf8_validate_len(piece->str, piece->len, NULL)) {
            json_object_set_new(one, "piece", json_stringn(piece->str, piece->len));
        } else {
            g_autofree char *printable = sluice_error_printable(piece->str, (gssize) piece->len);

            json_object_set_new(one, "piece", json_string(printable));
            json_object_set_new(one, "is_partial", json_true());
        }
        json_array_append_new(list, one);
    }
    json_object_set_new(all, "n_tokens", json_integer(tokens->len));
    json_object_set_new(all, "tokens", list);
    text = json_dumps(all, JSON_INDENT(2));
    g_string_append_printf(out, "%s\n", text);
    free(text);
    json_decref(all);
}

static GArray *
tokenize(const SluiceOptions *options, const SluiceModel *model, const char *text, GError **error)
{
    guint flags = 0;

    if (!options->no_special)
        flags |= SLUICE_TOKENIZE_ADD_SPECIAL;
    if (options->special)
        flags |= SLUICE_TOKENIZE_PARSE_SPECIAL;
    return sluice_model_tokenize(model, text, (gssize) strlen(text), (SluiceTokenizeFlags) flags,
                                 error);
}

static int
print_tokens(const SluiceOptions *options, const SluiceModel *model, const char *text)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GArray) tokens = tokenize(options, model, text, &error);
    g_autoptr(GString) out = g_string_new(NULL);

    if (tokens == NULL)
        return sluice_terminal_fail(error);
    if (options->json)
        append_json(out, model, tokens);
    else if (options->count)
        g_string_printf(out, "%u\n", tokens->len);
    else if (options->ids)
        append_ids(out, tokens);
    else
        append_lines(out, model, tokens);
    if (!sluice_terminal_write(out->str, out->len, &error))
        return sluice_terminal_fail(error);
    if (!options->json && !options->count)
        sluice_terminal_note("%u tokens", tokens->len);
    return SLUICE_EXIT_OK;
}

/**
 * sluice_cmd_tokenize:
 * @options: parsed
 *
 * Returns: a #SluiceExit
 */
int
sluice_cmd_tokenize(const SluiceOptions *options)
{
    g_autoptr(SluiceModel) model = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *path = NULL;
    g_autofree char *text = NULL;
    guint n_used = 0;
    int status;

    if (!sluice_input_model(options, &path, &n_used, &error)) {
        sluice_terminal_fail(error);
        return SLUICE_EXIT_NO_MODEL;
    }
    if (!sluice_input_prompt(options, n_used, &text, &error))
        return sluice_terminal_fail(error);
    if (text == NULL) {
        sluice_terminal_complain("there is no text: give it as an argument, with --file, or on "
                                 "standard input");
        return SLUICE_EXIT_USAGE;
    }
    status = sluice_load_model(path, &model);
    return status == SLUICE_EXIT_OK ? print_tokens(options, model, text) : status;
}
