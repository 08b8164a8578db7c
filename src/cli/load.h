/* SPDX-License-Identifier: MIT */
/*
 * From the name of a model to an engine, with everything that is said on the way: what it will
 * take, how far it is, why it failed.
 */
#pragma once

#include "src/cli/options.h"

G_BEGIN_DECLS

int sluice_load_model(const char *path, SluiceModel **model);
int sluice_load_engine(SluiceModel *model, const SluiceEngineParams *params, uint64_t n_own_bytes,
                       SluiceEngine **engine, double *seconds);
uint64_t sluice_load_peak_bytes(void);

G_END_DECLS
