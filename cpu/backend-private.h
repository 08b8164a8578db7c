/* SPDX-License-Identifier: MIT */
/*
 * Inside the CPU executor. An enqueued operation is lowered at once into stages; sync runs all
 * stages of a step in one launch of the team.
 *
 * A stage is serial (one thread runs it whole) or parallel (its units are shared out). Stages are
 * put into phases:
 *
 *     phase = serial stages in order, then parallel stages in any order, then a barrier
 *
 * The serial stages of a phase are run by the member that arrives last at the barrier before it,
 * while the others wait there anyway; so a small operation costs its own time and no barrier.
 * A stage joins the current phase where nothing that it reads or writes is in conflict with the
 * parallel stages there, which is how the projections of one input come to share a barrier.
 *
 * Every output value is computed whole by one thread, and how work is cut depends on shapes
 * alone wherever sums are cut: results do not depend on the number of threads.
 */
#pragma once

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels.h"
#include "cpu/matmul.h"
#include "cpu/sluice-cpu.h"
#include "cpu/team.h"

G_BEGIN_DECLS

typedef struct SluiceCpuBackend SluiceCpuBackend;
typedef struct SluiceCpuStage SluiceCpuStage;

/* What stages can conflict over. Activations are their own ids. */
enum {
    SLUICE_CPU_RES_Q8 = 0x10000,       /* + slot of the cache of quantised activations */
    SLUICE_CPU_RES_ROPE = 0x10100,     /* + table */
    SLUICE_CPU_RES_HIDDEN = 0x10200,   /* between the two halves of a feed-forward network */
    SLUICE_CPU_RES_PARTIALS = 0x10201, /* of attention that is cut over keys */
    SLUICE_CPU_RES_ROUTES = 0x10202,   /* rows grouped by expert */
    SLUICE_CPU_RES_SHARED_WEIGHTS = 0x10203,
    SLUICE_CPU_RES_SHARED_HIDDEN = 0x10204,
    SLUICE_CPU_RES_KV = 0x20000,    /* + layer */
    SLUICE_CPU_RES_STATE = 0x30000, /* + layer */
};

typedef struct {
    uint32_t resource;
    bool is_write;
    int32_t begin; /* columns of an activation; 0, 1 for anything else */
    int32_t end;
} SluiceCpuAccess;

enum { SLUICE_CPU_MAX_ACCESSES = 12 };

/* Runs units [begin, end) on the given member of the team. */
typedef void (*SluiceCpuStageFn)(SluiceCpuBackend *b, const SluiceCpuStage *stage, int64_t begin,
                                 int64_t end, int member);
/* Units of a stage whose number is known only when the phase begins. */
typedef int64_t (*SluiceCpuCountFn)(SluiceCpuBackend *b, const SluiceCpuStage *stage);

struct SluiceCpuStage {
    SluiceCpuStageFn run;
    SluiceCpuCountFn count; /* NULL: n_units holds */
    const void *args;       /* of the stage's own type, in the program's memory */
    const SluiceBatch *batch;
    int64_t n_units;
    bool is_serial;
    bool is_fence; /* everything enqueued before is done when it runs */
    int8_t n_accesses;
    int32_t next; /* stage of the same phase and kind, or -1 */
    SluiceCpuAccess accesses[SLUICE_CPU_MAX_ACCESSES];
};

typedef struct {
    int32_t serial_first;
    int32_t serial_last;
    int32_t parallel_first;
    int32_t parallel_last;
} SluiceCpuPhase;

enum {
    SLUICE_CPU_Q8_SLOTS = 3,
    SLUICE_CPU_ROPE_TABLES = 4,
    SLUICE_CPU_PAGE = SLUICE_PAGE_TOKENS,
    SLUICE_CPU_MAX_HEAD_DIM = 512,
    /* Attention cut over keys: at most so many pieces and query vectors per sequence. */
    SLUICE_CPU_MAX_PIECES = 64,
    SLUICE_CPU_PIECE_QUERIES = 16,
    /* Query vectors of one tile: a multiple of the 6 and 12 rows that the kernels take at once. */
    SLUICE_CPU_TILE_QUERIES = 60,
    /* Output columns of one call where the result goes through scratch. */
    SLUICE_CPU_CHUNK_COLS = 128,
};

/* One quantised input that later products may take again. */
typedef struct {
    SluiceAct act;
    SluiceRows rows;
    uint32_t version; /* of act when it was quantised */
    bool is_valid;
    uint32_t last_used;
    void *memory;
} SluiceCpuQ8Slot;

typedef struct {
    SluiceRope rope;
    SluiceRows rows;
    bool has_frequencies; /* stays true from step to step */
    bool is_current;      /* the table is computed in this program */
    double *frequencies;  /* [n_rot / 2], with factors and scaling */
    float *cosines;       /* [max_rows, n_rot / 2] */
    float *sines;
    const void *factors; /* what `frequencies` was made with */
} SluiceCpuRopeTable;

typedef struct {
    SluiceKvGroup group;
    SluiceCpuKvType k_type;
    SluiceCpuKvType v_type;
    size_t k_row_bytes;
    size_t v_row_bytes;
    size_t page_bytes;
    size_t offset; /* of the pool in the KV memory */
} SluiceCpuKvPool;

typedef struct {
    SluiceStateGroup group;
    size_t offset; /* in floats, of slot 0 of the convolution; delta state follows per slot */
    size_t slot_floats;
} SluiceCpuStatePool;

/* One allocation of pages from the system. */
typedef struct {
    void *data;
    size_t n_bytes;
} SluiceCpuRegion;

/* Sizes that memory() reports and new() allocates. */
typedef struct {
    size_t *act_offsets;  /* [n_acts], bytes */
    int64_t *act_strides; /* [n_acts], floats from row to row */
    size_t activations;
    size_t kv;
    size_t state;
    size_t q8_slot;
    size_t rope_table;
    size_t partials;
    size_t hidden;
    size_t routes; /* 0: the model has no experts */
    size_t thread_product; /* the products' own part of a thread's scratch; chunks follow */
    size_t thread;
    size_t scratch;    /* all of the above that is not activations, kv, state */
    int64_t max_width; /* of an activation that can be a product's input */
    int64_t max_head_dim;
    int64_t max_hidden;
    size_t thread_blas; /* of OpenBLAS' own memory, which it allocates */
    bool has_float_matrices;
} SluiceCpuLayout;

struct SluiceCpuBackend {
    SluiceBackend base;
    SluiceCpuKernels kernels;
    const SluiceResidency *residency;

    SluiceBackendConfig config; /* its arrays are ours */
    SluiceCpuLayout layout;
    SluiceCpuKvPool *kv_pools;              /* [n_kv_groups] */
    SluiceCpuStatePool *state_pools;        /* [n_state_groups] */
    int32_t layer_pools[SLUICE_MAX_LAYERS]; /* first KV pool of a layer, or -1 */
    SluiceCpuRegion activations;
    SluiceCpuRegion kv;
    SluiceCpuRegion state;
    SluiceCpuRegion scratch;
    SluiceCpuRegion hidden; /* grows in the first step where config named no width */
    SluiceCpuRegion routes; /* rows grouped by expert */
    GArray *outgrown;       /* of SluiceCpuRegion, until sync */

    SluiceCpuTeam *team;
    SluiceCpuPlacement placement;
    int n_threads;       /* for steps of one row */
    int n_threads_batch; /* for others */
    bool is_pinned;
    bool has_blas;           /* kernels.sgemm is there */
    const char *blas_name;
    const char *blas_reason; /* why not */

    uint32_t *act_versions; /* [n_acts]: how often this program has written it */
    SluiceCpuQ8Slot q8_slots[SLUICE_CPU_Q8_SLOTS];
    uint32_t n_q8_uses;
    SluiceCpuRopeTable rope_tables[SLUICE_CPU_ROPE_TABLES];
    uint32_t n_rope_uses;
    uint8_t *partials;
    uint8_t *thread_scratch; /* layout.thread bytes per member */

    /* The program. */
    SluiceCpuStage *stages;
    int32_t n_stages;
    int32_t n_stages_cap;
    SluiceCpuPhase *phases;
    int32_t n_phases;
    int32_t n_phases_cap;
    GPtrArray *blocks; /* memory of args; never moves */
    size_t block_bytes;
    size_t n_blocks_used;
    size_t block_used;
    const int *cancel;
    int32_t max_rows_seen;

    /* Of the run. */
    _Atomic int64_t next_unit __attribute__((aligned(128)));
    int64_t n_total __attribute__((aligned(128)));
    int64_t n_share; /* units that each member takes without asking */
    bool is_cancelled;

    SluiceStatus status;
    char failure[256];
};

/* ---- the program ---------------------------------------------------------------------------- */

size_t sluice_cpu_program_bytes(const SluiceBackendConfig *config);
void sluice_cpu_program_init(SluiceCpuBackend *b);
void sluice_cpu_program_clear(SluiceCpuBackend *b);
void sluice_cpu_program_reset(SluiceCpuBackend *b);
void sluice_cpu_program_run(SluiceCpuBackend *b);
void *sluice_cpu_program_alloc(SluiceCpuBackend *b, size_t n_bytes);
void sluice_cpu_program_add(SluiceCpuBackend *b, const SluiceCpuStage *stage);

void sluice_cpu_backend_fail(SluiceCpuBackend *b, SluiceStatus status, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
bool sluice_cpu_backend_view(SluiceCpuBackend *b, SluiceOpTag tag, SluiceWeight weight,
                             SluiceAxis axis, SluicePart part, SluiceWeightView *view);
const float *sluice_cpu_backend_vector(SluiceCpuBackend *b, SluiceOpTag tag, SluiceWeight weight,
                                       int64_t begin, int64_t n);
bool sluice_cpu_backend_reserve(SluiceCpuBackend *b, SluiceCpuRegion *region, size_t n_bytes);
bool sluice_cpu_region_map(SluiceCpuRegion *region, size_t n_bytes);
void sluice_cpu_region_unmap(SluiceCpuRegion *region);
SluiceBackend *sluice_cpu_backend_new_with_features(const SluiceBackendConfig *config,
                                                    const SluiceCpuOptions *options,
                                                    SluiceCpuFeatures features, GError **error);
void sluice_cpu_backend_adopt_blas(SluiceCpuBackend *b, const SluiceCpuBlas *blas);

/* Describes a stage step by step: begin, reads and writes, then add. */
static inline SluiceCpuStage
sluice_cpu_stage(SluiceCpuStageFn run, const void *args, const SluiceBatch *batch, int64_t n_units,
                 bool is_serial)
{
    SluiceCpuStage s;

    s.run = run;
    s.count = NULL;
    s.args = args;
    s.batch = batch;
    s.n_units = n_units;
    s.is_serial = is_serial;
    s.is_fence = false;
    s.n_accesses = 0;
    s.next = -1;
    return s;
}

static inline void
sluice_cpu_stage_access(SluiceCpuStage *s, uint32_t resource, bool is_write)
{
    g_assert(s->n_accesses < SLUICE_CPU_MAX_ACCESSES);
    s->accesses[s->n_accesses++] = (SluiceCpuAccess){resource, is_write, 0, 1};
}

static inline int64_t
sluice_cpu_act_width(SluiceAct a)
{
    return (int64_t) a.n_head * a.dim;
}

/* Heads lie one behind the other, so that the view is one run of values. */
static inline bool
sluice_cpu_act_is_plain(SluiceAct a)
{
    return a.n_head == 1 || a.stride == a.dim;
}

static inline void
sluice_cpu_stage_act(SluiceCpuStage *s, SluiceAct a, bool is_write)
{
    int32_t last = a.n_head > 1 ? (a.n_head - 1) * a.stride : 0;

    g_assert(s->n_accesses < SLUICE_CPU_MAX_ACCESSES);
    s->accesses[s->n_accesses++] =
        (SluiceCpuAccess){a.id, is_write, a.offset, a.offset + last + a.dim};
}

static inline int64_t
sluice_cpu_act_ld(const SluiceCpuBackend *b, SluiceAct a)
{
    return b->layout.act_strides[a.id];
}

/* The first value of the view in a row. */
static inline float *
sluice_cpu_act_row(const SluiceCpuBackend *b, SluiceAct a, int64_t row)
{
    float *base = (float *) ((uint8_t *) b->activations.data + b->layout.act_offsets[a.id]);

    return base + row * b->layout.act_strides[a.id] + a.offset;
}

static inline int64_t
sluice_cpu_n_rows(const SluiceBatch *batch, SluiceRows rows)
{
    return rows == SLUICE_ROWS_OUT ? batch->n_out : batch->n_rows;
}

static inline int
sluice_cpu_n_threads(const SluiceCpuBackend *b, const SluiceBatch *batch)
{
    return batch->n_rows > 1 ? b->n_threads_batch : b->n_threads;
}

static inline void *
sluice_cpu_thread_scratch(const SluiceCpuBackend *b, int member)
{
    return b->thread_scratch + (size_t) member * b->layout.thread;
}

/* Values that one thread works through in about the time of a barrier or two. */
#define SLUICE_CPU_SERIAL_VALUES 16384

static inline bool
sluice_cpu_is_small(int64_t n_rows, int64_t width)
{
    return n_rows == 1 || n_rows * width <= SLUICE_CPU_SERIAL_VALUES;
}

/* ---- operations, by family ------------------------------------------------------------------ */

void sluice_cpu_op_embed(SluiceBackend *b, const SluiceEmbedArgs *a, const SluiceBatch *batch);
void sluice_cpu_op_rms_norm(SluiceBackend *b, const SluiceRmsNormArgs *a, const SluiceBatch *batch);
void sluice_cpu_op_add(SluiceBackend *b, const SluiceAddArgs *a, const SluiceBatch *batch);
void sluice_cpu_op_scale(SluiceBackend *b, const SluiceScaleArgs *a, const SluiceBatch *batch);
void sluice_cpu_op_soft_cap(SluiceBackend *b, const SluiceSoftCapArgs *a, const SluiceBatch *batch);
void sluice_cpu_op_rope(SluiceBackend *b, const SluiceRopeArgs *a, const SluiceBatch *batch);
void sluice_cpu_op_gate(SluiceBackend *b, const SluiceGateArgs *a, const SluiceBatch *batch);
void sluice_cpu_op_select_rows(SluiceBackend *b, const SluiceSelectRowsArgs *a,
                               const SluiceBatch *batch);
void sluice_cpu_op_matmul(SluiceBackend *b, const SluiceMatmulArgs *a, const SluiceBatch *batch);
void sluice_cpu_op_attention(SluiceBackend *b, const SluiceAttentionArgs *a,
                             const SluiceBatch *batch);
void sluice_cpu_op_ffn(SluiceBackend *b, const SluiceFfnArgs *a, const SluiceBatch *batch);
void sluice_cpu_op_moe_route(SluiceBackend *b, const SluiceMoeRouteArgs *a,
                             const SluiceBatch *batch);
void sluice_cpu_op_moe_experts(SluiceBackend *b, const SluiceMoeExpertsArgs *a,
                               const SluiceBatch *batch);
void sluice_cpu_op_short_conv(SluiceBackend *b, const SluiceShortConvArgs *a,
                              const SluiceBatch *batch);
void sluice_cpu_op_delta_rule(SluiceBackend *b, const SluiceDeltaRuleArgs *a,
                              const SluiceBatch *batch);
void sluice_cpu_op_top_k(SluiceBackend *b, const SluiceTopKArgs *a, const SluiceBatch *batch);
void sluice_cpu_op_state_copy(SluiceBackend *b, const SluiceStateCopyArgs *a);
void sluice_cpu_op_read(SluiceBackend *b, const SluiceReadArgs *a);

/* The k first of x [n], falling, ties to the lower index; scratch has 8 bytes for each. */
void sluice_cpu_select_top(const SluiceCpuKernels *kernels, const float *x, int64_t n, int k,
                           int32_t *ids, void *scratch);

/* Of the memory in which max_rows rows are grouped by n_used experts each. */
size_t sluice_cpu_route_bytes(int64_t max_rows, int64_t n_used);

/* Shared by matmul, ffn and moe_experts. */
bool sluice_cpu_matmul_check(SluiceCpuBackend *b, SluiceOpTag tag, SluiceWeight weight,
                             const SluiceWeightView *view, int64_t n_cols, int64_t n_rows);
bool sluice_cpu_matmul_prepare_input(SluiceCpuBackend *b, SluiceOpTag tag, SluiceAct x,
                                     const SluiceBatch *batch, bool wants_q8,
                                     SluiceCpuMatmulInput *input, int *q8_slot);
int64_t sluice_cpu_matmul_chunk(const SluiceCpuBackend *b, const SluiceBatch *batch,
                                const SluiceWeightView *view, int64_t n_rows, int64_t multiple);
bool sluice_cpu_ffn_views(SluiceCpuBackend *b, SluiceOpTag tag, SluiceWeight gate, SluiceWeight up,
                          SluicePart part, SluiceWeightView *gate_view, SluiceWeightView *up_view,
                          int64_t *width);
bool sluice_cpu_place_hidden(SluiceCpuBackend *b, int64_t n_rows, int64_t n_cols, bool is_q8,
                             SluiceCpuQ8 *q8, float **hidden);
void sluice_cpu_quantise_part(const SluiceCpuKernels *k, const SluiceCpuQ8 *q8, int64_t row,
                              int64_t col, const float *x, int64_t n);

G_END_DECLS
