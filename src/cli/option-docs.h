/* SPDX-License-Identifier: MIT */
/*
 * The table of options as text: the answer to --help, the OPTIONS section of a manual page, and
 * the completion for bash. One description serves them all, so that they cannot disagree.
 */
#pragma once

#include "src/cli/option-table.h"

G_BEGIN_DECLS

char *sluice_option_docs_help(const SluiceCommandInfo *command);
char *sluice_option_docs_overview(void);
char *sluice_option_docs_man(const SluiceCommandInfo *command);
char *sluice_option_docs_man_commands(void);
char *sluice_option_docs_completion(void);

G_END_DECLS
