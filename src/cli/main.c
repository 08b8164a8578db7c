/* SPDX-License-Identifier: MIT */
/*
 * The program: finds the command, parses its options, runs it, and makes sure in the end that
 * what it wrote has arrived.
 */
#include "config.h"

#include "src/cli/commit.h"
#include "src/cli/interrupt.h"
#include "src/cli/option-docs.h"
#include "src/cli/terminal.h"
#include "src/core/error.h"

#include <stdio.h>
#include <string.h>

static int
run_command(const SluiceOptions *options)
{
    switch (options->command) {
    case SLUICE_COMMAND_RUN:
        return sluice_cmd_run(options);
    case SLUICE_COMMAND_BENCH:
        return sluice_cmd_bench(options);
    case SLUICE_COMMAND_PERPLEXITY:
        return sluice_cmd_perplexity(options);
    case SLUICE_COMMAND_TOKENIZE:
        return sluice_cmd_tokenize(options);
    case SLUICE_COMMAND_INSPECT:
        return sluice_cmd_inspect(options);
    }
    g_assert_not_reached();
}

static int
show_help(const SluiceCommandInfo *command)
{
    g_autofree char *text =
        command != NULL ? sluice_option_docs_help(command) : sluice_option_docs_overview();

    fputs(text, stdout);
    return SLUICE_EXIT_OK;
}

static int
show_version(void)
{
    printf("sluice %s (%s)\n", PACKAGE_VERSION, SLUICE_COMMIT);
    return SLUICE_EXIT_OK;
}

static int
refuse_command(const char *word)
{
    const char *names[8] = {NULL};
    size_t n = 0;
    g_autofree char *shown = sluice_error_printable(word, -1);
    g_autofree char *closest = NULL;
    g_autofree char *message = NULL;

    g_assert(sluice_command_table_n + 3 <= G_N_ELEMENTS(names));
    for (size_t i = 0; i < sluice_command_table_n; i++)
        names[n++] = sluice_command_table[i].name;
    names[n++] = "help";
    names[n++] = "version";
    closest = sluice_options_closest(word, names);
    message =
        closest != NULL
            ? g_strdup_printf("'%s' is not a command; did you mean '%s'?", shown, closest)
            : g_strdup_printf("'%s' is not a command; 'sluice help' shows the commands", shown);
    sluice_terminal_complain(message);
    return SLUICE_EXIT_USAGE;
}

static int
help_command(int argc, char **argv)
{
    const SluiceCommandInfo *command = argc > 2 ? sluice_command_find(argv[2]) : NULL;

    if (argc > 2 && command == NULL)
        return refuse_command(argv[2]);
    return show_help(command);
}

static int
parse_and_run(const SluiceCommandInfo *command, int argc, char **argv)
{
    g_auto(SluiceOptions) options = {0};
    g_autoptr(GError) error = NULL;
    gboolean parsed;

    sluice_options_init(&options, command->id);
    parsed = sluice_options_parse(&options, argc - 2, argv + 2, &error);
    sluice_terminal_init(&options);
    if (!parsed)
        return sluice_terminal_fail(error);
    if (options.help)
        return show_help(command);
    return run_command(&options);
}

static int
dispatch(int argc, char **argv)
{
    const SluiceCommandInfo *command;

    if (argc < 2) {
        g_autofree char *text = sluice_option_docs_overview();

        fputs(text, stderr);
        return SLUICE_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0 ||
        strcmp(argv[1], "version") == 0)
        return show_version();
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return show_help(NULL);
    if (strcmp(argv[1], "help") == 0)
        return help_command(argc, argv);
    command = sluice_command_find(argv[1]);
    return command != NULL ? parse_and_run(command, argc, argv) : refuse_command(argv[1]);
}

int
main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    int status;

    sluice_interrupt_init();
    status = dispatch(argc, argv);
    if (!sluice_terminal_finish(&error) && status == SLUICE_EXIT_OK)
        status = sluice_terminal_fail(error);
    return status;
}
