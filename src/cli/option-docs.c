/* SPDX-License-Identifier: MIT */
/*
 * Texts made from the table of options. Pure functions from the table to strings: where the
 * strings go is the caller's business.
 */
#include "config.h"

#include "src/cli/option-docs.h"

#include <string.h>

#define HELP_COLUMN 26 /* where descriptions begin */
#define HELP_WIDTH 80

/* The forms of an option, short ones first: people read those. Ends with NULL. */
static char **
ordered_forms(const SluiceOption *row)
{
    g_auto(GStrv) forms = g_strsplit(row->forms, " ", -1);
    GPtrArray *ordered = g_ptr_array_new();

    for (char **form = forms; *form != NULL; form++)
        if (!g_str_has_prefix(*form, "--"))
            g_ptr_array_add(ordered, g_strdup(*form));
    for (char **form = forms; *form != NULL; form++)
        if (g_str_has_prefix(*form, "--"))
            g_ptr_array_add(ordered, g_strdup(*form));
    g_ptr_array_add(ordered, NULL);
    return (char **) g_ptr_array_free(ordered, FALSE);
}

static char *
range_text(const SluiceOption *row)
{
    switch (row->kind) {
    case SLUICE_OPTION_INT:
    case SLUICE_OPTION_SEED:
    case SLUICE_OPTION_FLOAT:
    case SLUICE_OPTION_PAIRS:
        if (row->max == G_MAXINT32)
            return g_strdup_printf("at least %.15g", row->min);
        return g_strdup_printf("%.15g to %.15g", row->min, row->max);
    case SLUICE_OPTION_INTS:
        return g_strdup_printf("a list of %.15g to %.15g", row->min, row->max);
    case SLUICE_OPTION_CHOICE:
    case SLUICE_OPTION_CHOICES: {
        g_autofree char *all = g_strjoinv(", ", (char **) row->choices);

        return g_strconcat(row->kind == SLUICE_OPTION_CHOICES ? "a list of " : "", all, NULL);
    }
    case SLUICE_OPTION_FLAG:
    case SLUICE_OPTION_COUNT:
    case SLUICE_OPTION_STRING:
    case SLUICE_OPTION_STRINGS:
        break;
    }
    return NULL;
}

/* What an option does, which values it takes and what stands without it. */
static char *
describe(const SluiceOption *row)
{
    g_autofree char *range = range_text(row);
    GString *text = g_string_new(row->help);

    if (range != NULL || row->deflt != NULL) {
        g_string_append_printf(text, " (%s%s%s%s)", range != NULL ? range : "",
                               range != NULL && row->deflt != NULL ? "; " : "",
                               row->deflt != NULL ? "default: " : "",
                               row->deflt != NULL ? row->deflt : "");
    }
    return g_string_free(text, FALSE);
}

/* Appends @text in lines of HELP_WIDTH that begin at @indent; the cursor is at @column. */
static void
append_wrapped(GString *out, const char *text, size_t column, size_t indent)
{
    if (column > indent) {
        g_string_append_c(out, '\n');
        column = 0;
    }
    while (*text != '\0') {
        size_t n = strcspn(text, " ");

        if (column > indent && column + 1 + n > HELP_WIDTH) {
            g_string_append_c(out, '\n');
            column = 0;
        }
        if (column < indent) {
            g_string_append_printf(out, "%*s", (int) (indent - column), "");
            column = indent;
        } else if (column > indent) {
            g_string_append_c(out, ' ');
            column++;
        }
        g_string_append_len(out, text, (gssize) n);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    g_string_append_c(out, '\n');
}

static void
append_help_row(GString *out, const SluiceOption *row)
{
    g_auto(GStrv) forms = ordered_forms(row);
    g_autofree char *joined = g_strjoinv(", ", forms);
    g_autofree char *text = describe(row);
    size_t begin = out->len;

    g_string_append_printf(out, "  %s", joined);
    if (row->value != NULL)
        g_string_append_printf(out, row->value_optional ? " [%s]" : " %s", row->value);
    g_string_append_c(out, ' ');
    append_wrapped(out, text, out->len - begin, HELP_COLUMN);
}

static bool
has_group(const SluiceCommandInfo *command, SluiceOptionGroup group)
{
    for (size_t i = 0; i < sluice_option_table_n; i++)
        if ((sluice_option_table[i].commands & command->id) != 0 &&
            sluice_option_table[i].group == group)
            return true;
    return false;
}

/* Calls @append for every option of @command, behind @append_title for each group. */
static void
for_each_option(GString *out, const SluiceCommandInfo *command,
                void (*append_title)(GString *out, const char *title),
                void (*append)(GString *out, const SluiceOption *row))
{
    for (int group = 0; group < SLUICE_OPTION_GROUP_COUNT; group++) {
        if (!has_group(command, (SluiceOptionGroup) group))
            continue;
        append_title(out, sluice_option_group_names[group]);
        for (size_t i = 0; i < sluice_option_table_n; i++)
            if ((sluice_option_table[i].commands & command->id) != 0 &&
                (int) sluice_option_table[i].group == group)
                append(out, &sluice_option_table[i]);
    }
}

static void
append_help_title(GString *out, const char *title)
{
    g_string_append_printf(out, "\n%s:\n", title);
}

/**
 * sluice_option_docs_help:
 * @command: of the table
 *
 * Returns: (transfer full): what "sluice COMMAND --help" prints
 */
char *
sluice_option_docs_help(const SluiceCommandInfo *command)
{
    GString *out = g_string_new(NULL);

    g_string_append_printf(out, "Usage: sluice %s %s\n\n  ", command->name, command->synopsis);
    g_string_append_c(out, g_ascii_toupper(command->summary[0]));
    g_string_append_printf(out, "%s.\n", command->summary + 1);
    for_each_option(out, command, append_help_title, append_help_row);
    g_string_append_printf(out, "\nMore in the manual: man sluice-%s\n", command->name);
    return g_string_free(out, FALSE);
}

/**
 * sluice_option_docs_overview:
 *
 * Returns: (transfer full): what "sluice --help" prints
 */
char *
sluice_option_docs_overview(void)
{
    GString *out = g_string_new("Usage: sluice COMMAND [options]\n\n"
                                "  Runs language models from GGUF files.\n\nCommands:\n");

    for (size_t i = 0; i < sluice_command_table_n; i++)
        g_string_append_printf(out, "  %-12s %s\n", sluice_command_table[i].name,
                               sluice_command_table[i].summary);
    g_string_append(out, "  help         show the options of a command: sluice help run\n"
                         "  version      show the version (also: --version)\n\n"
                         "Try: sluice run MODEL.gguf \"Why is the sky blue?\"\n"
                         "More in the manual: man sluice\n");
    return g_string_free(out, FALSE);
}

/* ---- manual pages --------------------------------------------------------------------------- */

/* Escapes what scdoc would take for markup. */
static void
append_scdoc(GString *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("_*\\#[]|<>", *text) != NULL)
            g_string_append_c(out, '\\');
        g_string_append_c(out, *text);
    }
}

static void
append_man_title(GString *out, const char *title)
{
    g_string_append_printf(out, "## %s\n\n", title);
}

static void
append_man_row(GString *out, const SluiceOption *row)
{
    g_auto(GStrv) forms = ordered_forms(row);
    g_autofree char *text = describe(row);

    for (char **form = forms; *form != NULL; form++) {
        g_string_append(out, form == forms ? "*" : ", *");
        append_scdoc(out, *form);
        g_string_append_c(out, '*');
        if (row->value != NULL) {
            g_string_append(out, row->value_optional ? " \\[_" : " _");
            append_scdoc(out, row->value);
            g_string_append(out, row->value_optional ? "_\\]" : "_");
        }
    }
    g_string_append(out, "\n\t");
    append_scdoc(out, text);
    g_string_append(out, "\n\n");
}

/**
 * sluice_option_docs_man:
 * @command: of the table
 *
 * Returns: (transfer full): the options of @command as groups of a scdoc page
 */
char *
sluice_option_docs_man(const SluiceCommandInfo *command)
{
    GString *out = g_string_new(NULL);

    for_each_option(out, command, append_man_title, append_man_row);
    return g_string_free(out, FALSE);
}

/**
 * sluice_option_docs_man_commands:
 *
 * Returns: (transfer full): all commands as a list of a scdoc page
 */
char *
sluice_option_docs_man_commands(void)
{
    GString *out = g_string_new(NULL);

    for (size_t i = 0; i < sluice_command_table_n; i++) {
        const SluiceCommandInfo *command = &sluice_command_table[i];

        g_string_append_printf(out, "*sluice %s* ", command->name);
        append_scdoc(out, command->synopsis);
        g_string_append(out, "\n\t");
        g_string_append_c(out, g_ascii_toupper(command->summary[0]));
        append_scdoc(out, command->summary + 1);
        g_string_append_printf(out, "; see *sluice-%s*(1).\n\n", command->name);
    }
    return g_string_free(out, FALSE);
}

/* ---- completion ----------------------------------------------------------------------------- */

static bool
takes_file(const SluiceOption *row)
{
    return row->value != NULL && strcmp(row->value, "FILE") == 0;
}

/* A case of the words after @row's options: what can stand there. */
static void
append_value_case(GString *out, const SluiceCommandInfo *command, const SluiceOption *row)
{
    g_auto(GStrv) forms = g_strsplit(row->forms, " ", -1);

    if (row->value == NULL)
        return;
    g_string_append(out, "        ");
    for (char **form = forms; *form != NULL; form++)
        g_string_append_printf(out, "%s%s:%s", form == forms ? "" : "|", command->name, *form);
    if (row->choices != NULL) {
        g_autofree char *choices = g_strjoinv(" ", (char **) row->choices);

        g_string_append_printf(out, ") words='%s' ;;\n", choices);
    } else if (g_str_has_prefix(row->forms, "--model ")) {
        g_string_append(out, ") words=$models files=1 ;;\n");
    } else if (takes_file(row)) {
        g_string_append(out, ") files=1 ;;\n");
    } else {
        g_string_append(out, ") return ;;\n");
    }
}

/**
 * sluice_option_docs_completion:
 *
 * Returns: (transfer full): a file for bash's completions folder
 */
char *
sluice_option_docs_completion(void)
{
    GString *out =
        g_string_new("# shellcheck shell=bash\n"
                     "# bash completion for sluice, made from its table of options\n"
                     "_sluice()\n{\n"
                     "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
                     "    local words='' files='' options='' models='' command=${COMP_WORDS[1]}\n"
                     "    local folder=${XDG_DATA_HOME:-$HOME/.local/share}/sluice/models path\n\n"
                     "    COMPREPLY=()\n"
                     "    for path in \"$folder\"/*.gguf; do\n"
                     "        [[ -f $path ]] && models+=\" ${path##*/}\"\n"
                     "    done\n"
                     "    if ((COMP_CWORD == 1)); then\n"
                     "        words='");

    for (size_t i = 0; i < sluice_command_table_n; i++)
        g_string_append_printf(out, "%s ", sluice_command_table[i].name);
    g_string_append(out, "help version --help --version'\n"
                         "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                         "        return\n"
                         "    fi\n"
                         "    if [[ $command == help ]]; then\n"
                         "        words='");
    for (size_t i = 0; i < sluice_command_table_n; i++)
        g_string_append_printf(out, "%s%s", i > 0 ? " " : "", sluice_command_table[i].name);
    g_string_append(out, "'\n"
                         "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                         "        return\n"
                         "    fi\n"
                         "    case $command in\n");
    for (size_t i = 0; i < sluice_command_table_n; i++) {
        g_string_append_printf(out, "        %s) options='", sluice_command_table[i].name);
        for (size_t j = 0; j < sluice_option_table_n; j++)
            if ((sluice_option_table[j].commands & sluice_command_table[i].id) != 0)
                g_string_append_printf(out, "%s ", sluice_option_table[j].forms);
        g_string_truncate(out, out->len - 1);
        g_string_append(out, "' ;;\n");
    }
    g_string_append(out, "        *) return ;;\n    esac\n    case $command:$prev in\n");
    for (size_t i = 0; i < sluice_command_table_n; i++)
        for (size_t j = 0; j < sluice_option_table_n; j++)
            if ((sluice_option_table[j].commands & sluice_command_table[i].id) != 0)
                append_value_case(out, &sluice_command_table[i], &sluice_option_table[j]);
    g_string_append(out,
                    "        *) words=\"$options $models\" files=1 ;;\n"
                    "    esac\n"
                    "    if [[ $cur == -* ]]; then\n"
                    "        words=$options files=''\n"
                    "    fi\n"
                    "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                    "    if [[ -n $files ]]; then\n"
                    "        compopt -o filenames 2>/dev/null\n"
                    "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$cur\")\n"
                    "    fi\n"
                    "}\n"
                    "complete -F _sluice sluice\n");
    return g_string_free(out, FALSE);
}
