/* SPDX-License-Identifier: MIT */
/*
 * A helper of the build, never installed: prints what is made from the table of options.
 *
 *   print-docs completion          the completion file for bash
 *   print-docs man NAME TEMPLATE   a scdoc page: TEMPLATE with its line @OPTIONS@ or @COMMANDS@
 *                                  replaced; NAME is "sluice" or "sluice-COMMAND"
 */
#include "config.h"

#include "src/cli/option-docs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
replace(GString *page, const char *mark, const char *text)
{
    if (g_string_replace(page, mark, text, 1) == 1)
        return true;
    fprintf(stderr, "print-docs: the page has no line %s", mark);
    return false;
}

static int
print_page(const char *name, const char *template_path)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *template = NULL;
    g_autofree char *text = NULL;
    g_autoptr(GString) page = NULL;

    if (!g_file_get_contents(template_path, &template, NULL, &error)) {
        fprintf(stderr, "print-docs: %s\n", error->message);
        return EXIT_FAILURE;
    }
    page = g_string_new(template);
    if (g_str_has_prefix(name, "sluice-")) {
        const SluiceCommandInfo *command = sluice_command_find(name + strlen("sluice-"));

        if (command == NULL) {
            fprintf(stderr, "print-docs: no command is called '%s'\n", name);
            return EXIT_FAILURE;
        }
        text = sluice_option_docs_man(command);
        if (!replace(page, "@OPTIONS@\n", text))
            return EXIT_FAILURE;
    } else {
        text = sluice_option_docs_man_commands();
        if (!replace(page, "@COMMANDS@\n", text))
            return EXIT_FAILURE;
    }
    fputs(page->str, stdout);
    return EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
    int status = EXIT_FAILURE;

    if (argc == 2 && strcmp(argv[1], "completion") == 0) {
        g_autofree char *text = sluice_option_docs_completion();

        fputs(text, stdout);
        status = EXIT_SUCCESS;
    } else if (argc == 4 && strcmp(argv[1], "man") == 0) {
        status = print_page(argv[2], argv[3]);
    } else {
        fputs("usage: print-docs completion | man NAME TEMPLATE\n", stderr);
    }
    if (fflush(stdout) != 0) {
        perror("print-docs");
        return EXIT_FAILURE;
    }
    return status;
}
