/* SPDX-License-Identifier: MIT */
/*
 * The engine: a model's weights in their places, an executor, and the pages that its sessions
 * share. Inner side of the SluiceEngine of sluice.h.
 */
#pragma once

#include "src/core/backend.h"
#include "src/engine/backends.h"
#include "src/engine/kv-cache.h"
#include "src/model/layers.h"
#include "src/model/model.h"
#include "src/sluice.h"

G_BEGIN_DECLS

#define SLUICE_MAX_CTX (1 << 24)
#define SLUICE_MAX_UBATCH 8192
#define SLUICE_MAX_SESSIONS 1024

typedef struct SluiceStepSeq SluiceStepSeq;

struct _SluiceEngine {
    gatomicrefcount n_refs; /* the user's, and one of each session */
    SluiceModel *model;
    SluiceEngineParams params; /* with every default filled in */
    SluiceBackends backends;
    SluiceBackend *backend; /* backends.backend */
    SluiceKvCache cache;
    int32_t n_sessions; /* alive */

    /* One micro-batch; a step borrows these arrays until it is synchronised. */
    int32_t *tokens; /* [n_ubatch], and so the next three */
    int32_t *positions;
    int32_t *seq_of_row;
    int32_t *out_rows;
    SluiceBatchSeq *seqs;     /* [n_sessions] */
    int32_t *pages;           /* [n_tables, n_seqs, n_table_pages] */
    SluiceStepSeq *step_seqs; /* [n_sessions] */
    int cancel;               /* atomic: any session of this engine was cancelled */
};

/* An executor's configuration with the arrays that it points into. */
typedef struct {
    SluiceBackendConfig config;
    SluiceActSpec acts[SLUICE_ACT_COUNT];
    GArray *kv_groups;
    SluiceKvTable *kv_tables;
    int32_t *windows; /* [config.n_kv_tables] */
} SluiceEngineConfig;

SluiceEngine *sluice_engine_ref(SluiceEngine *engine);

G_END_DECLS
