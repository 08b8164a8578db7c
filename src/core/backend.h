/* SPDX-License-Identifier: MIT */
/*
 * SluiceBackend: the table of operations that every executor fills, and the data that its
 * operations name. A family's forward pass is a sequence of calls over this table; nothing in it
 * knows where a weight is or which processor computes.
 *
 * Calls enqueue in order and return nothing; the first failure is kept and returned by sync.
 * An executor may run an operation at once, at sync, or record it: what an operation reads is
 * therefore named by handle (weights, activations) or lives in the SluiceBatch, which must stay
 * as it is until the sync that follows.
 *
 * Header-only and free of GLib, so that executors built as modules can use it.
 */
#pragma once

#include "src/core/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- weights ------------------------------------------------------------------------------- */

/* A tensor of the model by handle: its index in the model's table plus one. 0 is "none". */
typedef uint32_t SluiceWeight;

/* The direction in which a part of a weight is cut. */
typedef enum {
    SLUICE_AXIS_ROWS,  /* output features */
    SLUICE_AXIS_COLS,  /* input features; begin and end are multiples of the block length */
    SLUICE_AXIS_SLABS, /* experts */
} SluiceAxis;

/*
 * Where a weight, or a part of one, can be read. Shapes are [n_slabs, n_rows, n_cols], last
 * contiguous: a matrix product takes n_cols values in and gives n_rows out.
 */
typedef struct {
    SluiceDtype dtype;
    int64_t n_cols;
    int64_t n_rows;
    int64_t n_slabs;           /* 1 for a matrix or vector */
    size_t row_stride;         /* in bytes */
    const void *data;          /* the first row; NULL when n_slabs > 1 */
    const void *const *slabs;  /* n_slabs addresses, one per expert; NULL when n_slabs is 1 */
} SluiceWeightView;

/* Resolves handles for one executor. Views stay valid until the residency is changed, which
 * never happens between step_begin and sync. */
typedef struct SluiceResidency SluiceResidency;
struct SluiceResidency {
    /* False when the weight, or that part of it, has no place that this executor can read. */
    bool (*view)(const SluiceResidency *residency, SluiceWeight weight, SluiceAxis axis,
                 SluicePart part, SluiceWeightView *view);
};

/* ---- activations ---------------------------------------------------------------------------- */

/* Which rows an operation runs over. */
typedef enum {
    SLUICE_ROWS_ALL, /* every row of the batch */
    SLUICE_ROWS_OUT, /* the rows whose logits are wanted, gathered by select_rows */
} SluiceRows;

/*
 * A view of one activation buffer by handle. Buffer `id` is [rows, width] of float32 (int32 for
 * expert ids and top-k ids); element (head h, i) of a row lies at offset + h * stride + i.
 * A plain row has one head. n_head 0 means "none".
 */
typedef struct {
    uint16_t id;
    uint16_t n_head;
    int32_t dim;    /* values per head */
    int32_t offset; /* in values from the start of the row */
    int32_t stride; /* in values from head to head; unused with one head */
} SluiceAct;

/* One buffer of the executor's arena: [rows, width], 4 bytes a value. */
typedef struct {
    int32_t width;
    SluiceRows rows;
} SluiceActSpec;

/* The whole row of a buffer. */
static inline SluiceAct
sluice_act(uint16_t id, int32_t width)
{
    SluiceAct a = {id, 1, width, 0, width};
    return a;
}

/* Columns [begin, begin + n) of a one-head view. */
static inline SluiceAct
sluice_act_cols(SluiceAct x, int32_t begin, int32_t n)
{
    SluiceAct a = {x.id, 1, n, x.offset + begin, n};
    return a;
}

/* A one-head view taken as n_head heads of equal size, one behind the other. */
static inline SluiceAct
sluice_act_heads(SluiceAct x, int32_t n_head)
{
    SluiceAct a = {x.id, (uint16_t) n_head, x.dim / n_head, x.offset, x.dim / n_head};
    return a;
}

/* ---- per-sequence memory -------------------------------------------------------------------- */

/* Positions in a KV page. Also the distance between checkpoints of recurrent state. */
#define SLUICE_PAGE_TOKENS 64

/* Upper bounds that executors may size stack arrays by; a model beyond them is refused. */
#define SLUICE_MAX_LAYERS 512
#define SLUICE_MAX_EXPERTS 512
#define SLUICE_MAX_EXPERTS_USED 64

/*
 * The keys and values of one layer, or of a range of its KV heads, in one place. A page of a
 * group is K [n_head, SLUICE_PAGE_TOKENS, k_dim] followed by V [.., v_dim]. Groups with the same
 * `table` share page numbers: page p of the table is page p of each of them.
 */
typedef struct {
    int32_t layer;
    int32_t head_begin;
    int32_t head_end;
    int32_t table;
    int32_t k_dim;
    int32_t v_dim;
    SluiceDtype k_type; /* F32, F16, Q8_0 or Q4_0 */
    SluiceDtype v_type;
} SluiceKvGroup;

/* The pages of one table: windowed layers need few, full ones as many as the context. */
typedef struct {
    int32_t n_pages; /* in the pool */
    int32_t window;  /* 0: every earlier position is read */
} SluiceKvTable;

/* The recurrent state of one layer, per slot: float32. */
typedef struct {
    int32_t layer;
    int64_t n_conv;  /* [n_kernel - 1, n_channels], oldest first */
    int64_t n_delta; /* [n_v_head, head_dim (value), head_dim (key)] */
} SluiceStateGroup;

/* What an executor must hold besides weights. Arrays are borrowed for the call only. */
typedef struct {
    const SluiceActSpec *acts;
    int32_t n_acts;
    int32_t max_rows; /* of a batch: the micro-batch */
    int32_t max_out;  /* rows whose logits can be wanted at once */
    int32_t max_seqs; /* in one batch */
    int32_t max_hidden; /* widest hidden layer of an ffn; with experts also n_used times theirs;
                           0: executors learn it from the first step */
    int32_t n_experts_used; /* per row; 0: no experts, or as above */
    const SluiceKvGroup *kv_groups;
    int32_t n_kv_groups;
    const SluiceKvTable *kv_tables;
    int32_t n_kv_tables;
    int32_t n_table_pages; /* entries in a page-table row: ceil(context / SLUICE_PAGE_TOKENS) */
    const SluiceStateGroup *state_groups;
    int32_t n_state_groups;
    int32_t n_state_slots;
} SluiceBackendConfig;

/* One sequence of a batch: its rows are contiguous and their positions consecutive. */
typedef struct {
    int32_t row_begin;
    int32_t n_rows;
    int32_t pos_begin;
    int32_t state_slot; /* -1: the model has no recurrent state */
} SluiceBatchSeq;

/* One micro-batch. Borrowed until sync. */
typedef struct {
    int32_t n_rows;
    int32_t n_seqs;
    int32_t n_out;
    const int32_t *tokens;      /* [n_rows] */
    const int32_t *positions;   /* [n_rows] */
    const int32_t *seq_of_row;  /* [n_rows], indices into seqs */
    const int32_t *out_rows;    /* [n_out], ascending */
    const SluiceBatchSeq *seqs; /* [n_seqs] */
    const int32_t *pages;       /* [n_kv_tables, n_seqs, n_table_pages]; position p lies in entry
                                   p / SLUICE_PAGE_TOKENS; -1 where no page is held */
    const int *cancel;          /* read atomically between operations; non-zero: stop; or NULL */
} SluiceBatch;

/* ---- operations ----------------------------------------------------------------------------- */

typedef enum {
    SLUICE_OP_EMBED,
    SLUICE_OP_RMS_NORM,
    SLUICE_OP_ADD,
    SLUICE_OP_SCALE,
    SLUICE_OP_SOFT_CAP,
    SLUICE_OP_ROPE,
    SLUICE_OP_GATE,
    SLUICE_OP_SELECT_ROWS,
    SLUICE_OP_MATMUL,
    SLUICE_OP_ATTENTION,
    SLUICE_OP_FFN,
    SLUICE_OP_MOE_ROUTE,
    SLUICE_OP_MOE_EXPERTS,
    SLUICE_OP_SHORT_CONV,
    SLUICE_OP_DELTA_RULE,
    SLUICE_OP_TOP_K,
    SLUICE_OP_STATE_COPY,
    SLUICE_OP_READ,
    SLUICE_OP_COUNT,
} SluiceOpKind;

/* What every operation carries: for records, placement and error messages. */
typedef struct {
    int16_t layer; /* -1: outside the layers */
    SluiceRows rows;
} SluiceOpTag;

typedef enum {
    SLUICE_ACTIVATION_SILU,
    SLUICE_ACTIVATION_GELU_TANH,
    SLUICE_ACTIVATION_SIGMOID,
    SLUICE_ACTIVATION_SWIGLU_OAI, /* min(g, 7) * sigmoid(1.702 min(g, 7)) * (clamp(u, +-7) + 1) */
} SluiceActivation;

/* y[t] = factor * table[token t]. */
typedef struct {
    SluiceOpTag tag;
    SluiceWeight table;
    SluiceAct y;
    float factor;
} SluiceEmbedArgs;

/*
 * s = x + residual (or x); y = s / sqrt(mean(s^2) + eps) * weight, over each head of x by itself.
 * Where `sum` is given s is written to it; it may be x or residual. y may be x.
 */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    SluiceAct residual; /* or none */
    SluiceAct sum;      /* or none */
    SluiceAct y;
    SluiceWeight weight; /* [dim] float32, or 0 */
    float eps;
} SluiceRmsNormArgs;

/* y = a + b. y may be either. */
typedef struct {
    SluiceOpTag tag;
    SluiceAct a;
    SluiceAct b;
    SluiceAct y;
} SluiceAddArgs;

/* y = factor * x. y may be x. */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    SluiceAct y;
    float factor;
} SluiceScaleArgs;

/* y = cap * tanh(x / cap). y may be x. */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    SluiceAct y;
    float cap;
} SluiceSoftCapArgs;

/*
 * Rotary embedding of each head, in place. For pair i of n_rot / 2:
 *   extrapolated = position * base^(-2 i / n_rot) / factor_i, interpolated = freq_scale * that,
 *   angle = interpolated (1 - ramp_i ext_factor) + extrapolated ramp_i ext_factor,
 *   ramp_i = 1 - clamp((i - corr_low) / max(0.001, corr_high - corr_low), 0, 1);
 * sine and cosine are multiplied by magnitude.
 */
typedef struct {
    int32_t n_rot;
    bool is_neox; /* pairs (i, i + n_rot / 2), else (2 i, 2 i + 1) */
    float base;
    float freq_scale;
    float ext_factor; /* 0: no YaRN */
    float corr_low;
    float corr_high;
    float magnitude;
    SluiceWeight factors; /* [n_rot / 2] float32, or 0 */
    int32_t sections[4];  /* pairs per position stream; text gives every stream one position */
} SluiceRope;

typedef struct {
    SluiceOpTag tag;
    SluiceAct x; /* heads */
    SluiceRope rope;
} SluiceRopeArgs;

/* y = x * f(g), per head with any strides. y may be x. */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    SluiceAct g;
    SluiceAct y;
    SluiceActivation activation; /* SILU, GELU_TANH or SIGMOID */
} SluiceGateArgs;

/* y[i] = x[out_rows[i]]: from SLUICE_ROWS_ALL to SLUICE_ROWS_OUT. */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    SluiceAct y;
} SluiceSelectRowsArgs;

/*
 * y[t, n] = x[t, k] . W[n, k]^T + bias. part: output rows; y is then the whole row all the same,
 * and only columns [begin, end) are written. accumulate adds to what is there.
 */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    SluiceAct y;
    SluiceWeight weight;
    SluiceWeight bias;  /* [n] float32, or 0 */
    SluiceWeight scale; /* [1] float32 on the product, before the bias, or 0 */
    SluicePart part;
    bool accumulate;
} SluiceMatmulArgs;

/*
 * Appends this batch's keys and values to the pages of `layer`, then attends. q [n_head, k_dim],
 * k [n_head_kv, k_dim], v [n_head_kv, v_dim], y [n_head, v_dim]; query head h reads KV head
 * h / (n_head / n_head_kv). Logits: scale * q.k, then cap * tanh(logit / cap) where soft_cap is
 * not 0; the row at position p sees positions q <= p with p - q < window (0: all).
 * sinks [n_head]: exp(sink) joins the softmax's denominator. part: KV heads; y's other heads are
 * left alone.
 */
typedef struct {
    SluiceOpTag tag;
    SluiceAct q;
    SluiceAct k;
    SluiceAct v;
    SluiceAct y;
    SluiceWeight sinks; /* float32, or 0 */
    float scale;
    float soft_cap;
    int32_t window;
    SluicePart part;
} SluiceAttentionArgs;

/*
 * y = down . (f(gate . x) * (up . x)). Without a gate weight, `up` holds both: the first half of
 * its rows is the gate. part: a slice of the hidden width, whose partial sums add up.
 */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    SluiceAct y;
    SluiceWeight gate;
    SluiceWeight up;
    SluiceWeight down;
    SluiceWeight gate_bias; /* float32, or 0; so below */
    SluiceWeight up_bias;
    SluiceWeight down_bias; /* added by the part that begins at 0 */
    SluiceActivation activation;
    SluicePart part;
    bool accumulate;
} SluiceFfnArgs;

typedef enum {
    SLUICE_GATING_SOFTMAX,          /* softmax over all experts, then the n_used largest */
    SLUICE_GATING_SIGMOID,          /* sigmoid of each, then the n_used largest */
    SLUICE_GATING_SOFTMAX_SELECTED, /* the n_used largest logits, then softmax over those */
} SluiceGating;

/*
 * ids[t, n_used] (int32, by falling weight, ties to the lower index) and weights[t, n_used].
 * Everything in float32.
 */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    SluiceAct ids;
    SluiceAct weights;
    SluiceWeight router;      /* [n_expert, k] */
    SluiceWeight router_bias; /* [n_expert] float32, or 0 */
    int32_t n_expert;
    int32_t n_used;
    SluiceGating gating;
    bool renormalise;    /* weights /= max(their sum, 6.1e-5) */
    float weights_scale; /* 1: none */
} SluiceMoeRouteArgs;

/*
 * y[t] = sum over the row's experts of weight * FFN_expert(x[t]) + the shared expert. part: a range
 * of experts; skip, where given, leaves single ones out; partial sums add up. The shared expert
 * and its gate belong to the part that begins at 0.
 */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    SluiceAct ids;
    SluiceAct weights;
    SluiceAct y;
    SluiceWeight gate; /* 0: `up` holds both, gate rows first */
    SluiceWeight up;
    SluiceWeight down;
    SluiceWeight gate_bias; /* [n_expert, rows] float32, or 0; so below */
    SluiceWeight up_bias;
    SluiceWeight down_bias;
    SluiceWeight shared_gate; /* the shared expert's SwiGLU; up 0: there is none */
    SluiceWeight shared_up;
    SluiceWeight shared_down;
    SluiceWeight shared_router; /* [k] float32: y += sigmoid(r . x) * shared(x); 0: plain sum */
    SluiceActivation activation;
    int32_t n_expert;
    int32_t n_used;
    SluicePart part;
    const uint8_t *skip; /* [n_expert], non-zero leaves out; or NULL */
    bool accumulate;
} SluiceMoeExpertsArgs;

/*
 * Causal depthwise convolution over time with silu, carrying the last n_kernel - 1 inputs in the
 * sequence's state slot: y[t, c] = silu(sum_i w[c, i] * input[t - n_kernel + 1 + i, c]).
 */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    SluiceAct y;
    SluiceWeight weight; /* [n_channels, n_kernel] float32 */
    int32_t n_kernel;
} SluiceShortConvArgs;

/*
 * The gated delta rule. Per value head, with q and k of its key head L2-normalised and q divided
 * by sqrt(head_dim): M *= exp(a softplus(alpha + dt_bias)); delta = sigmoid(beta) (v - M k);
 * M += delta k^T; o = M q; y = rms_norm(o) * norm * silu(z). M is [value, key] in the state slot.
 * part: value heads.
 */
typedef struct {
    SluiceOpTag tag;
    SluiceAct q; /* [n_k_head, head_dim] */
    SluiceAct k; /* [n_k_head, head_dim] */
    SluiceAct v; /* [n_v_head, head_dim] */
    SluiceAct z; /* [n_v_head, head_dim] */
    SluiceAct alpha; /* [n_v_head]: heads of dim 1 */
    SluiceAct beta;  /* [n_v_head]: heads of dim 1 */
    SluiceAct y;     /* [n_v_head, head_dim] */
    SluiceWeight a;       /* [n_v_head] float32, <= 0 */
    SluiceWeight dt_bias; /* [n_v_head] float32 */
    SluiceWeight norm;    /* [head_dim] float32 */
    float eps;
    bool is_tiled; /* value head h uses key head h % n_k_head, else h / (n_v_head / n_k_head) */
    SluicePart part;
} SluiceDeltaRuleArgs;

/*
 * The k largest of each row, falling, ties to the lower index, then the listed ids in their
 * order: ids[rows, k + n_listed] int32, values[rows, k + n_listed].
 */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    SluiceAct ids;
    SluiceAct values;
    int32_t k;
    const int32_t *listed; /* [n_listed], borrowed until sync */
    int32_t n_listed;
} SluiceTopKArgs;

typedef enum {
    SLUICE_STATE_PAGE, /* a page of a table: K and V of every group of that table, in group order */
    SLUICE_STATE_SLOT, /* a slot: convolution and delta state of every state group, in order */
} SluiceStateKind;

/*
 * Copies a page or a slot: to another one (fork, checkpoint), to host memory (save), or from it
 * (restore). src -1 with host given reads host, src -1 without fills with zero; dst -1 writes
 * host. Host layout: as the kinds say, without padding; its size is page_bytes or slot_bytes.
 */
typedef struct {
    SluiceOpTag tag;
    SluiceStateKind kind;
    int32_t table; /* of a page */
    int32_t src;
    int32_t dst;
    void *host; /* borrowed until sync */
} SluiceStateCopyArgs;

/* Rows [row_begin, row_begin + n_rows) of x to host memory, valid after sync. */
typedef struct {
    SluiceOpTag tag;
    SluiceAct x;
    int32_t row_begin;
    int32_t n_rows;
    void *host; /* [n_rows, dim] of 4 bytes */
} SluiceReadArgs;

/* ---- hand-offs ------------------------------------------------------------------------------ */

/* A counter that one side raises and another waits for; alone on its cache line. */
typedef struct {
    uint32_t value __attribute__((aligned(128))); /* atomic; wraps are compared as differences */
} SluiceFlag;

/* ---- the table ------------------------------------------------------------------------------ */

/* What a step's shape is: equal keys can be replayed from a recording. */
typedef struct {
    int32_t n_rows;
    int32_t n_seqs;
    int32_t n_out;
    int32_t max_len_pages; /* longest sequence, in pages, rounded up as the executor likes */
    uint64_t plan_epoch;
} SluiceStepKey;

typedef enum {
    SLUICE_STEP_RECORD, /* call forward */
    SLUICE_STEP_REPLAY, /* do not: the recording runs with the new batch */
} SluiceStep;

typedef enum {
    SLUICE_STATUS_OK,
    SLUICE_STATUS_CANCELLED,
    SLUICE_STATUS_MEMORY,
    SLUICE_STATUS_DEVICE,
    SLUICE_STATUS_UNSUPPORTED,
} SluiceStatus;

typedef struct SluiceBackend SluiceBackend;

typedef struct {
    const char *name;

    SluiceStep (*step_begin)(SluiceBackend *b, const SluiceStepKey *key, const SluiceBatch *batch);
    void (*step_end)(SluiceBackend *b);
    /* Waits for everything enqueued. On failure the text (at least 256 bytes) says what failed;
     * the failure is then forgotten. */
    SluiceStatus (*sync)(SluiceBackend *b, char *text, size_t n_text);
    /* NULL: yes; otherwise a reason in words. */
    const char *(*supports)(SluiceBackend *b, SluiceOpKind kind, const void *args);
    void (*destroy)(SluiceBackend *b);

    void (*embed)(SluiceBackend *b, const SluiceEmbedArgs *a, const SluiceBatch *batch);
    void (*rms_norm)(SluiceBackend *b, const SluiceRmsNormArgs *a, const SluiceBatch *batch);
    void (*add)(SluiceBackend *b, const SluiceAddArgs *a, const SluiceBatch *batch);
    void (*scale)(SluiceBackend *b, const SluiceScaleArgs *a, const SluiceBatch *batch);
    void (*soft_cap)(SluiceBackend *b, const SluiceSoftCapArgs *a, const SluiceBatch *batch);
    void (*rope)(SluiceBackend *b, const SluiceRopeArgs *a, const SluiceBatch *batch);
    void (*gate)(SluiceBackend *b, const SluiceGateArgs *a, const SluiceBatch *batch);
    void (*select_rows)(SluiceBackend *b, const SluiceSelectRowsArgs *a, const SluiceBatch *batch);
    void (*matmul)(SluiceBackend *b, const SluiceMatmulArgs *a, const SluiceBatch *batch);
    void (*attention)(SluiceBackend *b, const SluiceAttentionArgs *a, const SluiceBatch *batch);
    void (*ffn)(SluiceBackend *b, const SluiceFfnArgs *a, const SluiceBatch *batch);
    void (*moe_route)(SluiceBackend *b, const SluiceMoeRouteArgs *a, const SluiceBatch *batch);
    void (*moe_experts)(SluiceBackend *b, const SluiceMoeExpertsArgs *a, const SluiceBatch *batch);
    void (*short_conv)(SluiceBackend *b, const SluiceShortConvArgs *a, const SluiceBatch *batch);
    void (*delta_rule)(SluiceBackend *b, const SluiceDeltaRuleArgs *a, const SluiceBatch *batch);
    void (*top_k)(SluiceBackend *b, const SluiceTopKArgs *a, const SluiceBatch *batch);
    void (*state_copy)(SluiceBackend *b, const SluiceStateCopyArgs *a);
    void (*read)(SluiceBackend *b, const SluiceReadArgs *a);

    /* Enqueued: raise a flag once everything before it is done; hold what follows until it is
     * at least the value. */
    void (*stream_post)(SluiceBackend *b, SluiceFlag *flag, uint32_t value);
    void (*stream_wait)(SluiceBackend *b, SluiceFlag *flag, uint32_t value);

    /* Host sizes of state_copy. */
    size_t (*page_bytes)(SluiceBackend *b, int32_t table);
    size_t (*slot_bytes)(SluiceBackend *b);
} SluiceBackendOps;

/* An executor's own struct begins with this one. */
struct SluiceBackend {
    const SluiceBackendOps *ops;
};

#ifdef __cplusplus
}
#endif
