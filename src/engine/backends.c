/* SPDX-License-Identifier: MIT */
/*
 * From a model and the user's wishes to an executor that can read its weights: the table of
 * tensors that residency wants, the choice of places, and the processor.
 */
#include "config.h"

#include "src/engine/backends.h"

#include "cpu/sluice-cpu.h"
#include "offload/sluice-offload.h"

/* Residency's view of the model's files. */
typedef struct {
    SluiceResidencySpec spec;
    SluiceResidencyFile *files;
    SluiceResidencyTensor *tensors;
} Placement;

static void
placement_clear(Placement *p)
{
    g_free(p->files);
    g_free(p->tensors);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Placement, placement_clear)

static void
placement_init(Placement *p, const SluiceModel *model, const SluiceEngineParams *params,
               uint64_t other_bytes)
{
    const SluiceGguf *gguf = model->gguf;
    static const SluiceResidencyMode modes[] = {
        [SLUICE_LOAD_AUTO] = SLUICE_RESIDENCY_AUTO,
        [SLUICE_LOAD_MEMORY] = SLUICE_RESIDENCY_MEMORY,
        [SLUICE_LOAD_MAP] = SLUICE_RESIDENCY_MAP,
    };

    p->spec = (SluiceResidencySpec){.n_files = sluice_gguf_n_files(gguf),
                                    .n_tensors = sluice_gguf_n_tensors(gguf),
                                    .mode = modes[params->load_mode],
                                    .lock_memory = params->lock_memory,
                                    .other_bytes = other_bytes,
                                    .progress = params->progress,
                                    .progress_data = params->progress_data};
    p->files = g_new(SluiceResidencyFile, p->spec.n_files);
    for (int i = 0; i < p->spec.n_files; i++)
        p->files[i] =
            (SluiceResidencyFile){sluice_gguf_file_path(gguf, i), sluice_gguf_file_fd(gguf, i),
                                  sluice_gguf_file_bytes(gguf, i)};
    p->tensors = g_new(SluiceResidencyTensor, p->spec.n_tensors + 1);
    for (size_t i = 0; i < p->spec.n_tensors; i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(gguf, i);

        p->tensors[i] = (SluiceResidencyTensor){.dtype = t->dtype,
                                                .n_dims = t->n_dims,
                                                .ne = {t->ne[0], t->ne[1], t->ne[2], t->ne[3]},
                                                .n_bytes = t->n_bytes,
                                                .file_idx = t->file_idx,
                                                .offset = t->offset,
                                                .mapped = t->data,
                                                .is_used = model->is_used[i] != 0};
    }
    p->spec.files = p->files;
    p->spec.tensors = p->tensors;
}

/* Whether a matrix in use is kept in floats; a table that is only looked up may count as one. */
static bool
has_float_matrices(const SluiceModel *model)
{
    for (size_t i = 0; i < sluice_gguf_n_tensors(model->gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(model->gguf, i);

        if (model->is_used[i] != 0 && t->n_dims == 2 &&
            (t->dtype == SLUICE_DTYPE_F32 || t->dtype == SLUICE_DTYPE_F16 ||
             t->dtype == SLUICE_DTYPE_BF16))
            return true;
    }
    return false;
}

static SluiceCpuOptions
cpu_options(const SluiceModel *model, const SluiceEngineParams *params,
            const SluiceResidency *residency)
{
    return (SluiceCpuOptions){.n_threads = params->n_threads,
                              .n_threads_batch = params->n_threads_batch,
                              .pin_threads = TRUE,
                              .has_float_matrices = has_float_matrices(model),
                              .residency = residency};
}

/* Sizes of the executor, and the places of the weights given those. */
static gboolean
plan_all(Placement *placement, SluiceResidencyPlan *plan, SluiceCpuMemory *cpu,
         const SluiceModel *model, const SluiceBackendConfig *config,
         const SluiceEngineParams *params, GError **error)
{
    SluiceCpuOptions options = cpu_options(model, params, NULL);

    if (!sluice_cpu_memory(config, &options, cpu, error))
        return FALSE;
    placement_init(placement, model, params,
                   (uint64_t) cpu->activations + cpu->kv + cpu->state + cpu->scratch);
    return sluice_residency_plan(&placement->spec, plan, error);
}

/**
 * sluice_backends_memory:
 * @model: the model
 * @config: what the executor will hold
 * @params: the user's wishes, defaults filled in
 * @memory: (inout): gets weights, mapped, kv, state, activations and scratch
 * @error: return location, or %NULL
 */
gboolean
sluice_backends_memory(const SluiceModel *model, const SluiceBackendConfig *config,
                       const SluiceEngineParams *params, SluiceMemory *memory, GError **error)
{
    g_auto(Placement) placement = {0};
    SluiceResidencyPlan plan;
    SluiceCpuMemory cpu;

    if (!plan_all(&placement, &plan, &cpu, model, config, params, error))
        return FALSE;
    memory->weights = plan.is_mapped ? 0 : plan.n_bytes;
    memory->mapped = plan.is_mapped ? plan.n_bytes : 0;
    memory->kv = cpu.kv;
    memory->state = cpu.state;
    memory->activations = cpu.activations;
    memory->scratch = cpu.scratch + sluice_residency_table_bytes(&placement.spec);
    return TRUE;
}

/**
 * sluice_backends_open:
 * @backends: (out): residency and executor
 * @model: the model
 * @config: what the executor must hold
 * @params: the user's wishes, defaults filled in
 * @error: return location, or %NULL
 *
 * Puts the weights in their places and starts the executor.
 */
gboolean
sluice_backends_open(SluiceBackends *backends, const SluiceModel *model,
                     const SluiceBackendConfig *config, const SluiceEngineParams *params,
                     GError **error)
{
    g_auto(Placement) placement = {0};
    SluiceResidencyPlan plan;
    SluiceCpuMemory cpu;
    SluiceCpuOptions options;

    *backends = (SluiceBackends){NULL, NULL};
    if (!plan_all(&placement, &plan, &cpu, model, config, params, error) ||
        !sluice_gguf_check_unchanged(model->gguf, error))
        return FALSE;
    backends->residency = sluice_residency_new(&placement.spec, &plan, error);
    if (backends->residency == NULL)
        return FALSE;
    options = cpu_options(model, params, backends->residency);
    backends->backend = sluice_cpu_backend_new(config, &options, error);
    /* Read first, compared afterwards: a file that was replaced meanwhile is not half believed. */
    if (backends->backend == NULL || !sluice_gguf_check_unchanged(model->gguf, error)) {
        sluice_backends_close(backends);
        return FALSE;
    }
    return TRUE;
}

void
sluice_backends_close(SluiceBackends *backends)
{
    if (backends->backend != NULL)
        backends->backend->ops->destroy(backends->backend);
    backends->backend = NULL;
    g_clear_pointer(&backends->residency, sluice_residency_free);
}

int
sluice_backends_n_threads(const SluiceBackends *backends)
{
    return sluice_cpu_backend_n_threads(backends->backend);
}

/**
 * sluice_backends_describe:
 * @backends: open backends
 *
 * Returns: (transfer full): words for -v
 */
char *
sluice_backends_describe(const SluiceBackends *backends)
{
    return sluice_cpu_backend_describe(backends->backend);
}
