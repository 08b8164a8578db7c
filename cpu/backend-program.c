/* SPDX-License-Identifier: MIT */
/* Stages, phases, and the loop that every member of the team runs. */
#include "config.h"

#include "cpu/backend-private.h"

#include <string.h>

enum {
    BLOCK_BYTES = 1 << 16,
    FIRST_STAGES = 2048, /* more than any step of a 40-layer model needs */
    FIRST_BLOCKS = 8,    /* as much for their args */
};

/* Bytes of one block of args: the largest args hold an entry per sequence. */
static size_t
block_bytes(const SluiceBackendConfig *config)
{
    return BLOCK_BYTES + (size_t) config->max_seqs * 64;
}

/* What sluice_cpu_program_init() allocates. */
size_t
sluice_cpu_program_bytes(const SluiceBackendConfig *config)
{
    return FIRST_STAGES * (sizeof(SluiceCpuStage) + sizeof(SluiceCpuPhase)) +
           FIRST_BLOCKS * block_bytes(config);
}

/* Needs config. */
void
sluice_cpu_program_init(SluiceCpuBackend *b)
{
    b->n_stages_cap = FIRST_STAGES;
    b->stages = g_new(SluiceCpuStage, b->n_stages_cap);
    b->n_phases_cap = FIRST_STAGES;
    b->phases = g_new(SluiceCpuPhase, b->n_phases_cap);
    b->block_bytes = block_bytes(&b->config);
    b->blocks = g_ptr_array_new_with_free_func(g_free);
    for (int i = 0; i < FIRST_BLOCKS; i++)
        g_ptr_array_add(b->blocks, g_malloc(b->block_bytes));
}

void
sluice_cpu_program_clear(SluiceCpuBackend *b)
{
    g_clear_pointer(&b->stages, g_free);
    g_clear_pointer(&b->phases, g_free);
    g_clear_pointer(&b->blocks, g_ptr_array_unref);
}

/* Forgets what was enqueued and what was remembered about activations; keeps the memory. */
void
sluice_cpu_program_reset(SluiceCpuBackend *b)
{
    b->n_stages = 0;
    b->n_phases = 0;
    b->n_blocks_used = 0;
    b->block_used = 0;
    b->cancel = NULL;
    b->max_rows_seen = 0;
    b->n_q8_uses = 0;
    for (int i = 0; i < SLUICE_CPU_Q8_SLOTS; i++) {
        b->q8_slots[i].is_valid = false;
        b->q8_slots[i].last_used = 0;
    }
    for (int i = 0; i < SLUICE_CPU_ROPE_TABLES; i++)
        b->rope_tables[i].is_current = false;
}

/* Memory that lasts until the program is reset; 16-byte aligned. */
void *
sluice_cpu_program_alloc(SluiceCpuBackend *b, size_t n_bytes)
{
    uint8_t *block;

    n_bytes = (n_bytes + 15) & ~(size_t) 15;
    g_assert(n_bytes <= b->block_bytes);
    if (b->block_used + n_bytes > b->block_bytes) {
        b->n_blocks_used++;
        b->block_used = 0;
    }
    if (b->n_blocks_used == b->blocks->len)
        g_ptr_array_add(b->blocks, g_malloc(b->block_bytes));
    block = g_ptr_array_index(b->blocks, b->n_blocks_used);
    block += b->block_used;
    b->block_used += n_bytes;
    return block;
}

static bool
accesses_conflict(const SluiceCpuAccess *x, const SluiceCpuAccess *y)
{
    return x->resource == y->resource && (x->is_write || y->is_write) && x->begin < y->end &&
           y->begin < x->end;
}

static bool
stages_conflict(const SluiceCpuStage *x, const SluiceCpuStage *y)
{
    for (int i = 0; i < x->n_accesses; i++) {
        for (int j = 0; j < y->n_accesses; j++) {
            if (accesses_conflict(&x->accesses[i], &y->accesses[j]))
                return true;
        }
    }
    return false;
}

static bool
joins_phase(const SluiceCpuBackend *b, const SluiceCpuPhase *phase, const SluiceCpuStage *stage)
{
    if (stage->is_fence)
        return phase->parallel_first < 0;
    for (int32_t i = phase->parallel_first; i >= 0; i = b->stages[i].next) {
        if (stages_conflict(&b->stages[i], stage))
            return false;
    }
    return true;
}

static SluiceCpuPhase *
open_phase(SluiceCpuBackend *b)
{
    SluiceCpuPhase *phase;

    if (b->n_phases == b->n_phases_cap) {
        b->n_phases_cap *= 2;
        b->phases = g_renew(SluiceCpuPhase, b->phases, b->n_phases_cap);
    }
    phase = &b->phases[b->n_phases++];
    *phase = (SluiceCpuPhase){-1, -1, -1, -1};
    return phase;
}

static void
append_stage(SluiceCpuBackend *b, int32_t *first, int32_t *last, int32_t index)
{
    if (*first < 0)
        *first = index;
    else
        b->stages[*last].next = index;
    *last = index;
}

/* Puts a stage into the current phase where it can run there, else into a new one. */
void
sluice_cpu_program_add(SluiceCpuBackend *b, const SluiceCpuStage *stage)
{
    SluiceCpuPhase *phase;
    int32_t index = b->n_stages;

    if (b->status != SLUICE_STATUS_OK)
        return;
    if (b->n_stages == b->n_stages_cap) {
        b->n_stages_cap *= 2;
        b->stages = g_renew(SluiceCpuStage, b->stages, b->n_stages_cap);
    }
    b->stages[b->n_stages++] = *stage;
    phase = b->n_phases > 0 ? &b->phases[b->n_phases - 1] : open_phase(b);
    if (!joins_phase(b, phase, stage))
        phase = open_phase(b);
    if (stage->is_serial)
        append_stage(b, &phase->serial_first, &phase->serial_last, index);
    else
        append_stage(b, &phase->parallel_first, &phase->parallel_last, index);
    for (int i = 0; i < stage->n_accesses; i++) {
        const SluiceCpuAccess *access = &stage->accesses[i];
        if (access->is_write && access->resource < (uint32_t) b->config.n_acts)
            b->act_versions[access->resource]++;
    }
    if (stage->batch != NULL) {
        b->cancel = stage->batch->cancel;
        b->max_rows_seen = MAX(b->max_rows_seen, stage->batch->n_rows);
    }
}

/* ---- running -------------------------------------------------------------------------------- */

/* By the member that arrived last, while the others wait. */
static void
begin_phase(SluiceCpuBackend *b, const SluiceCpuPhase *phase, int member, int n_members)
{
    int64_t total = 0;

    if (b->cancel != NULL && __atomic_load_n(b->cancel, __ATOMIC_RELAXED) != 0) {
        b->is_cancelled = true;
        return;
    }
    for (int32_t i = phase->serial_first; i >= 0; i = b->stages[i].next)
        b->stages[i].run(b, &b->stages[i], 0, b->stages[i].n_units, member);
    for (int32_t i = phase->parallel_first; i >= 0; i = b->stages[i].next) {
        SluiceCpuStage *stage = &b->stages[i];
        if (stage->count != NULL)
            stage->n_units = stage->count(b, stage);
        total += stage->n_units;
    }
    b->n_total = total;
    /* Half of the work is dealt out beforehand, in runs that the memory prefetcher likes; the
     * other half goes to whoever is ready, since cores are not equally fast. */
    b->n_share = n_members == 1 ? total : MAX(total / (2 * n_members), total >= n_members ? 1 : 0);
    atomic_store_explicit(&b->next_unit, b->n_share * n_members, memory_order_relaxed);
}

/* Units are numbered through all parallel stages of the phase. */
static void
run_units(SluiceCpuBackend *b, const SluiceCpuPhase *phase, int64_t begin, int64_t end, int member)
{
    int64_t base = 0;

    for (int32_t i = phase->parallel_first; i >= 0 && base < end; i = b->stages[i].next) {
        const SluiceCpuStage *stage = &b->stages[i];
        int64_t from = MAX(begin, base);
        int64_t to = MIN(end, base + stage->n_units);
        if (from < to)
            stage->run(b, stage, from - base, to - base, member);
        base += stage->n_units;
    }
}

static void
run_member(void *data, int member, int n_members)
{
    SluiceCpuBackend *b = data;

    for (int32_t i = 0; i < b->n_phases; i++) {
        const SluiceCpuPhase *phase = &b->phases[i];
        int64_t total;
        int64_t share;
        if (sluice_cpu_team_arrive(b->team)) {
            begin_phase(b, phase, member, n_members);
            sluice_cpu_team_release(b->team);
        }
        if (b->is_cancelled)
            return;
        total = b->n_total;
        share = b->n_share;
        if (share > 0)
            run_units(b, phase, member * share, (member + 1) * share, member);
        if (share * n_members == total)
            continue;
        for (;;) {
            int64_t unit = atomic_fetch_add_explicit(&b->next_unit, 1, memory_order_relaxed);
            if (unit >= total)
                break;
            run_units(b, phase, unit, unit + 1, member);
        }
    }
}

/* Runs everything enqueued; afterwards status says how it went. */
void
sluice_cpu_program_run(SluiceCpuBackend *b)
{
    if (b->n_phases == 0 || b->status != SLUICE_STATUS_OK)
        return;
    b->is_cancelled = false;
    sluice_cpu_team_run(b->team, b->max_rows_seen > 1 ? b->n_threads_batch : b->n_threads,
                        run_member, b);
    if (b->is_cancelled)
        sluice_cpu_backend_fail(b, SLUICE_STATUS_CANCELLED, "cancelled");
}
