/* SPDX-License-Identifier: MIT */
/*
 * Executors and places behind one door: backends.c is the only file of src/ that includes cpu/
 * and offload/.
 */
#pragma once

#include "src/core/backend.h"
#include "src/model/model.h"
#include "src/sluice.h"

G_BEGIN_DECLS

typedef struct {
    SluiceBackend *backend;
    SluiceResidency *residency;
} SluiceBackends;

/* Fills the fields of `memory` that executors and residency decide; leaves the others alone. */
gboolean sluice_backends_memory(const SluiceModel *model, const SluiceBackendConfig *config,
                                const SluiceEngineParams *params, SluiceMemory *memory,
                                GError **error);
gboolean sluice_backends_open(SluiceBackends *backends, const SluiceModel *model,
                              const SluiceBackendConfig *config, const SluiceEngineParams *params,
                              GError **error);
void sluice_backends_close(SluiceBackends *backends);
int sluice_backends_n_threads(const SluiceBackends *backends);
char *sluice_backends_describe(const SluiceBackends *backends);

G_END_DECLS
