/* SPDX-License-Identifier: MIT */
/*
 * Texts that come in: files, standard input, and the words that name a model.
 */
#pragma once

#include "src/cli/options.h"

G_BEGIN_DECLS

gboolean sluice_input_read(const char *path, GString *text, GError **error);
bool sluice_input_is_piped(void);
gboolean sluice_input_prompt(const SluiceOptions *options, guint n_used, char **prompt,
                             GError **error);

char *sluice_input_models_folder(void);
gboolean sluice_input_model(const SluiceOptions *options, char **path, guint *n_used,
                            GError **error);
char *sluice_input_find_model(const char *name);

G_END_DECLS
