/* SPDX-License-Identifier: MIT */
/* The front door of the CPU executor. */
#pragma once

#include <glib.h>

#include "src/core/backend.h"

G_BEGIN_DECLS

/* Instruction set levels, each including those before it; a bit is set when the processor has
 * the instructions and the operating system saves the registers. */
typedef enum {
    SLUICE_CPU_AVX2 = 1 << 0,     /* with FMA and F16C */
    SLUICE_CPU_AVX_VNNI = 1 << 1, /* 256-bit VEX form */
    SLUICE_CPU_AVX512 = 1 << 2,   /* F, BW, DQ, VL and VNNI */
} SluiceCpuFeatures;

/* What the executor is told besides SluiceBackendConfig. */
typedef struct {
    int n_threads;                    /* 0: one per physical performance core that we may use */
    int n_threads_batch;              /* for steps of more than one row; 0: as n_threads */
    gboolean pin_threads;             /* bind each thread to its core */
    gboolean has_float_matrices;      /* some weights of products are F32, F16 or BF16 */
    const SluiceResidency *residency; /* borrowed; must outlive the backend */
} SluiceCpuOptions;

/* Probed once, masked by SLUICE_CPU_FEATURES=ref|avx2|avx-vnni|avx512 in the environment. */
SluiceCpuFeatures sluice_cpu_features(void);
const char *sluice_cpu_features_name(SluiceCpuFeatures features);

/* Bytes that new() will allocate for this configuration: arena, KV pools, state, scratch. */
typedef struct {
    size_t activations;
    size_t kv;
    size_t state;
    size_t scratch;
} SluiceCpuMemory;

gboolean sluice_cpu_memory(const SluiceBackendConfig *config, const SluiceCpuOptions *options,
                           SluiceCpuMemory *memory, GError **error);
SluiceBackend *sluice_cpu_backend_new(const SluiceBackendConfig *config,
                                      const SluiceCpuOptions *options, GError **error);
/* Words for -v: processor, level, threads and where they are, OpenBLAS or why not. */
char *sluice_cpu_backend_describe(SluiceBackend *backend);
int sluice_cpu_backend_n_threads(SluiceBackend *backend);

/* float32 values of whole rows of a tensor, by the scalar reference. n is a multiple of the block
 * length. */
gboolean sluice_cpu_dequantise(SluiceDtype dtype, const void *row, float *out, int64_t n);

G_END_DECLS
