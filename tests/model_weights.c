/* SPDX-License-Identifier: MIT */
/* The generator behind model_weights.h. */
#include "config.h"

#include "tests/model_weights.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---------------------------------------------------------------------------- */

#define GOLDEN 0x9e3779b97f4a7c15u

static uint64_t
hash_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t) *name) * 0x100000001b3u;
    return hash;
}

static inline uint64_t
draw_word(uint64_t state, uint64_t i)
{
    uint64_t z = state + (i + 1) * GOLDEN;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t
float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Round to nearest even, as IEEE 754 and numpy do. Weights are finite and small. */
static uint16_t
to_f16(float x)
{
    uint32_t bits = float_bits(x);
    uint16_t sign = (uint16_t) (bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;

    if (magnitude >= 0x477ff000)
        return sign | 0x7c00;
    if (magnitude < 0x38800000) {
        /* Subnormal: the sum aligns the mantissa to steps of 2^-24, rounding on the way. */
        float shifted = fabsf(x) + 0.5f;
        return sign | (uint16_t) (float_bits(shifted) - 0x3f000000);
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return sign | (uint16_t) ((magnitude - 0x38000000) >> 13);
}

static uint16_t
to_bf16(float x)
{
    uint32_t bits = float_bits(x);

    return (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void
put_u16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t) value;
    out[1] = (uint8_t) (value >> 8);
}

/* ---- tensors of floats ------------------------------------------------------------------ */

/* Four 16-bit parts have this deviation, 65536 / sqrt(3). */
#define PARTS_STD 37837.22

static float
draw_float(const ModelWeights *m, float scale, int64_t i)
{
    uint64_t word = draw_word(m->state, (uint64_t) i);
    int32_t parts =
        (int32_t) ((word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48));

    switch (m->kind) {
    case MODEL_WEIGHTS_NORMAL:
        return (float) (parts - 131070) * scale;
    case MODEL_WEIGHTS_ONES: {
        /* Two statements, so that no compiler makes one rounding of the two. */
        volatile float step = (float) (parts - 131070) * scale;
        return 1.0f + step;
    }
    case MODEL_WEIGHTS_DECAY: {
        volatile float step = (float) (word & 0xffff) * (2.0f / 65536);
        return -(0.25f + step);
    }
    case MODEL_WEIGHTS_RAMP:
        return m->n_elements == 1 ? 1.0f : (float) (1.0 + 7.0 * i / (m->n_elements - 1));
    }
    g_assert_not_reached();
}

static void
fill_floats(const ModelWeights *m, int64_t first, int64_t n, uint8_t *out)
{
    float scale = (float) (m->std / PARTS_STD);

    for (int64_t i = 0; i < n; i++) {
        float x = draw_float(m, scale, first + i);
        double wide = x;
        if (m->dtype == SLUICE_DTYPE_F32)
            memcpy(out + 4 * i, &x, 4);
        else if (m->dtype == SLUICE_DTYPE_F64)
            memcpy(out + 8 * i, &wide, 8);
        else
            put_u16(out + 2 * i, m->dtype == SLUICE_DTYPE_F16 ? to_f16(x) : to_bf16(x));
    }
}

/* ---- packed tensors --------------------------------------------------------------------- */

/*
 * Where a block's scale lies and what it is for weights of deviation 1. Two random bits vary the
 * scale from block to block, so that one taken from the wrong block is noticed; a random sign
 * makes up for levels that are not symmetrical, in the types whose quantisers use it.
 */
typedef struct {
    int d_at;     /* -1: no such scale */
    int min_at;   /* the scale of the minima, or the minimum; -1: none */
    double min_d; /* in units of d */
    double rms;   /* of the block's values at d = 1, measured */
    bool is_signed;
} PackedType;

static const PackedType packed_types[SLUICE_DTYPE_COUNT] = {
    [SLUICE_DTYPE_Q4_0] = {0, -1, 0, 4.64, true},
    [SLUICE_DTYPE_Q4_1] = {0, 2, -7.5, 4.61, false},
    [SLUICE_DTYPE_Q5_0] = {0, -1, 0, 9.24, true},
    [SLUICE_DTYPE_Q5_1] = {0, 2, -15.5, 9.23, false},
    [SLUICE_DTYPE_Q8_0] = {0, -1, 0, 73.9, true},
    [SLUICE_DTYPE_Q2_K] = {80, 82, 1.5, 13.96, false},
    [SLUICE_DTYPE_Q3_K] = {108, -1, 0, 43.5, true},
    [SLUICE_DTYPE_Q4_K] = {0, 2, 7.5, 243.7, false},
    [SLUICE_DTYPE_Q5_K] = {0, 2, 15.5, 490.2, false},
    [SLUICE_DTYPE_Q6_K] = {208, -1, 0, 1367, true},
    [SLUICE_DTYPE_IQ2_XXS] = {0, -1, 0, 53.5, false},
    [SLUICE_DTYPE_IQ2_XS] = {0, -1, 0, 55.9, false},
    [SLUICE_DTYPE_IQ2_S] = {0, -1, 0, 56.4, false},
    [SLUICE_DTYPE_IQ3_XXS] = {0, -1, 0, 142.2, false},
    [SLUICE_DTYPE_IQ3_S] = {0, -1, 0, 140.4, false},
    [SLUICE_DTYPE_IQ1_S] = {0, -1, 0, 7.22, false},
    [SLUICE_DTYPE_IQ1_M] = {-1, -1, 0, 7.2, false},
    [SLUICE_DTYPE_IQ4_NL] = {0, -1, 0, 67.5, true},
    [SLUICE_DTYPE_IQ4_XS] = {0, -1, 0, 1245, true},
    [SLUICE_DTYPE_TQ1_0] = {52, -1, 0, 0.817, false},
    [SLUICE_DTYPE_TQ2_0] = {64, -1, 0, 1.224, true},
    [SLUICE_DTYPE_MXFP4] = {-1, -1, 0, 5.85, false},
    [SLUICE_DTYPE_NVFP4] = {-1, -1, 0, 5.85, false},
    [SLUICE_DTYPE_Q1_0] = {0, -1, 0, 1, false},
    [SLUICE_DTYPE_Q2_0] = {0, -1, 0, 1.224, true},
};

/* The scales that the two random bits choose from. */
typedef struct {
    uint16_t d[4];
    uint16_t min[4];
} Scales;

static Scales
compute_scales(const ModelWeights *m, const PackedType *type)
{
    static const double factors[4] = {0.75, 0.875, 1.125, 1.25};
    Scales scales;

    for (int i = 0; i < 4; i++) {
        double d = m->std / type->rms * factors[i];
        scales.d[i] = to_f16((float) d);
        scales.min[i] = to_f16((float) (d * type->min_d));
    }
    return scales;
}

static void
fix_bytes(uint8_t *bytes, int n, uint8_t set)
{
    for (int i = 0; i < n; i++)
        bytes[i] |= set;
}

/* Sub-block scales and minima are kept in the upper half of their range, as in real files, and a
 * level that no quantiser writes (-128 of Q8_0) is kept out. */
static void
fix_levels(SluiceDtype dtype, uint8_t *block)
{
    if (dtype == SLUICE_DTYPE_Q2_K)
        fix_bytes(block, 16, 0x88);
    else if (dtype == SLUICE_DTYPE_Q4_K || dtype == SLUICE_DTYPE_Q5_K)
        fix_bytes(block + 4, 8, 0xa0);
    else if (dtype == SLUICE_DTYPE_Q8_0) {
        for (int i = 2; i < 34; i++)
            block[i] = block[i] == 0x80 ? 0x81 : block[i];
    }
}

static void
fix_block(SluiceDtype dtype, const PackedType *type, const Scales *scales, uint8_t *block)
{
    int choice = block[type->d_at] & 3;
    uint16_t sign = type->is_signed ? (uint16_t) ((block[type->d_at + 1] & 0x80) << 8) : 0;

    put_u16(block + type->d_at, scales->d[choice] | sign);
    if (type->min_at >= 0)
        put_u16(block + type->min_at, scales->min[choice]);
    fix_levels(dtype, block);
}

/* The half is spread over the top nibbles of the four 16-bit words at 48. */
static void
fix_iq1_m(const Scales *scales, uint8_t *block)
{
    uint16_t d = scales->d[block[49] >> 4 & 3];

    for (int i = 0; i < 4; i++)
        block[49 + 2 * i] = (uint8_t) ((block[49 + 2 * i] & 15) | (d >> (4 * i) & 15) << 4);
}

/* 2^(E - 128) with E one of two neighbours around the deviation. */
static void
fix_mxfp4(const ModelWeights *m, const PackedType *type, uint8_t *block)
{
    int exponent;

    frexp(m->std / type->rms, &exponent);
    block[0] = (uint8_t) (128 + exponent - 1 + (block[0] & 1));
}

/* The value of an unsigned E4M3 byte, halved as the type's levels are doubled. */
static double
ue4m3(int x)
{
    int exponent = x >> 3 & 15;

    return 0.5 * (exponent == 0 ? ldexp(x & 7, -9) : ldexp(8 + (x & 7), exponent - 10));
}

static void
fix_nvfp4(int code, uint8_t *block)
{
    for (int i = 0; i < 4; i++)
        block[i] = (uint8_t) (code + (block[i] & 1));
}

/* The largest code that is not above the deviation; the first one that is not 0 at least. */
static int
choose_nvfp4_code(const ModelWeights *m, const PackedType *type)
{
    int code = 1;

    while (code < 0x7d && ue4m3(code + 1) * type->rms <= m->std)
        code++;
    return code;
}

static void
fix_blocks(const ModelWeights *m, int64_t n_blocks, uint8_t *out)
{
    const PackedType *type = &packed_types[m->dtype];
    size_t block_bytes = (size_t) sluice_dtype_info(m->dtype)->block_bytes;
    Scales scales = compute_scales(m, type);
    int code = m->dtype == SLUICE_DTYPE_NVFP4 ? choose_nvfp4_code(m, type) : 0;

    for (int64_t i = 0; i < n_blocks; i++, out += block_bytes) {
        if (m->dtype == SLUICE_DTYPE_IQ1_M)
            fix_iq1_m(&scales, out);
        else if (m->dtype == SLUICE_DTYPE_MXFP4)
            fix_mxfp4(m, type, out);
        else if (m->dtype == SLUICE_DTYPE_NVFP4)
            fix_nvfp4(code, out);
        else
            fix_block(m->dtype, type, &scales, out);
    }
}

static void
fill_bytes(uint64_t state, uint64_t first_word, size_t n_bytes, uint8_t *out)
{
    size_t n_words = n_bytes / 8;

    for (size_t i = 0; i < n_words; i++) {
        uint64_t word = GUINT64_TO_LE(draw_word(state, first_word + i));
        memcpy(out + 8 * i, &word, 8);
    }
    if (n_bytes % 8 != 0) {
        uint64_t word = GUINT64_TO_LE(draw_word(state, first_word + n_words));
        memcpy(out + 8 * n_words, &word, n_bytes % 8);
    }
}

/* ---- the way in ------------------------------------------------------------------------- */

static void
choose_kind(ModelWeights *m, const char *name, int64_t row_len, bool is_tied)
{
    m->kind = MODEL_WEIGHTS_NORMAL;
    m->std = 1 / sqrt((double) row_len);
    if (g_str_has_suffix(name, "norm.weight")) {
        m->kind = MODEL_WEIGHTS_ONES;
        m->std = 0.1;
    } else if (g_str_has_suffix(name, "ssm_a")) {
        m->kind = MODEL_WEIGHTS_DECAY;
    } else if (g_str_has_prefix(name, "rope_")) {
        m->kind = MODEL_WEIGHTS_RAMP;
    } else if (g_str_has_suffix(name, "ssm_dt.bias")) {
        m->std = 0.5;
    } else if (g_str_has_suffix(name, ".bias")) {
        m->std = 0.1;
    } else if (g_str_has_suffix(name, "ssm_conv1d.weight")) {
        m->std = 0.3;
    } else if (g_str_has_suffix(name, "attn_sinks.weight")) {
        m->std = 1;
    } else if (strcmp(name, "token_embd.weight") == 0 && !is_tied) {
        m->std = 0.5;
    } else if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "output.weight") == 0) {
        m->std = 3 / sqrt((double) row_len); /* logits of deviation 3 */
    }
}

void
model_weights_init(ModelWeights *m, const char *name, SluiceDtype dtype, int64_t row_len,
                   int64_t n_elements, bool is_tied, uint64_t seed)
{
    *m = (ModelWeights){.dtype = dtype, .n_elements = n_elements, .state = hash_name(name) ^ seed};
    choose_kind(m, name, row_len, is_tied);
}

void
model_weights_fill(const ModelWeights *m, int64_t first, int64_t n, uint8_t *out)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(m->dtype);
    int64_t n_blocks = n / info->block_len;
    uint64_t first_byte = (uint64_t) (first / info->block_len) * (uint64_t) info->block_bytes;

    g_assert(first % (8 * info->block_len) == 0 && n % info->block_len == 0);
    switch (m->dtype) {
    case SLUICE_DTYPE_F32:
    case SLUICE_DTYPE_F16:
    case SLUICE_DTYPE_BF16:
    case SLUICE_DTYPE_F64:
        fill_floats(m, first, n, out);
        return;
    default:
        fill_bytes(m->state, first_byte / 8, (size_t) (n_blocks * info->block_bytes), out);
        if (info->is_quantised)
            fix_blocks(m, n_blocks, out);
    }
}
