/* SPDX-License-Identifier: MIT */
/*
 * The vector kernels of every operation but the quantised products, written once over vectors of
 * VL floats. A level file sets VL and LEVEL and includes this file, which then defines
 * sluice_cpu_ops_init_<level>. Arithmetic is the compiler's own on vector types (it makes fused
 * multiply-adds of it); what has no operator is named below and spelled out for each width.
 * VL 16 without AVX-512 is made of two halves: that is how this level is tested everywhere.
 *
 * Source of the exponential: Cephes' expf, its coefficients and the split of ln 2.
 */
#pragma once

#ifdef VL

#include <immintrin.h>
#include <math.h>

#include "cpu/kernels.h"

#if VL != 8 && VL != 16
#error "VL is 8 or 16"
#endif

#define ALWAYS static inline __attribute__((always_inline))
#define NAME_OF(op, level) op##_##level
#define NAME_AT(op, level) NAME_OF(op, level)
#define NAME(op) NAME_AT(op, LEVEL)

typedef float vf __attribute__((vector_size(4 * VL), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * VL), may_alias));
typedef float vf_any __attribute__((vector_size(4 * VL), may_alias, aligned(4)));

/* ---- what has no operator ------------------------------------------------------------------- */

ALWAYS vf
v_load(const float *p)
{
    return *(const vf_any *) p;
}

ALWAYS void
v_store(float *p, vf x)
{
    *(vf_any *) p = x;
}

ALWAYS vf
v_all(float x)
{
    return x - (vf){0};
}

#if VL == 8

ALWAYS vf
v_max(vf a, vf b)
{
    return (vf) _mm256_max_ps((__m256) a, (__m256) b);
}

ALWAYS vf
v_min(vf a, vf b)
{
    return (vf) _mm256_min_ps((__m256) a, (__m256) b);
}

ALWAYS __m256
v_fold(vf x)
{
    return (__m256) x;
}

ALWAYS __m256
v_fold_max(vf x)
{
    return (__m256) x;
}

ALWAYS vf
v_load_f16(const uint16_t *p)
{
    return (vf) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p));
}

ALWAYS void
v_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *) p,
                     _mm256_cvtps_ph((__m256) x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

ALWAYS vf
v_load_i8(const void *p)
{
    return (vf) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) p)));
}

/* Lanes below n. */
ALWAYS __m256i
v_lanes(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int) n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* n values, then zeros; 0 < n < VL. */
ALWAYS vf
v_load_part(const float *p, int64_t n)
{
    return (vf) _mm256_maskload_ps(p, v_lanes(n));
}

ALWAYS void
v_store_part(float *p, int64_t n, vf x)
{
    _mm256_maskstore_ps(p, v_lanes(n), (__m256) x);
}

ALWAYS uint32_t
v_mask_bits(vi mask)
{
    return (uint32_t) _mm256_movemask_ps((__m256) mask);
}

#else /* VL == 16 */

ALWAYS __m256
v_low(vf x)
{
    return (__m256) __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
}

ALWAYS __m256
v_high(vf x)
{
    return (__m256) __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
}

ALWAYS vf
v_join(__m256 low, __m256 high)
{
    return (vf) __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                                        15);
}

ALWAYS __m256
v_fold(vf x)
{
    return _mm256_add_ps(v_low(x), v_high(x));
}

ALWAYS __m256
v_fold_max(vf x)
{
    return _mm256_max_ps(v_low(x), v_high(x));
}

#ifdef __AVX512F__

ALWAYS vf
v_max(vf a, vf b)
{
    return (vf) _mm512_max_ps((__m512) a, (__m512) b);
}

ALWAYS vf
v_min(vf a, vf b)
{
    return (vf) _mm512_min_ps((__m512) a, (__m512) b);
}

ALWAYS vf
v_load_part(const float *p, int64_t n)
{
    return (vf) _mm512_maskz_loadu_ps((__mmask16) ((1u << n) - 1), p);
}

ALWAYS void
v_store_part(float *p, int64_t n, vf x)
{
    _mm512_mask_storeu_ps(p, (__mmask16) ((1u << n) - 1), (__m512) x);
}

ALWAYS vf
v_load_f16(const uint16_t *p)
{
    return (vf) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p));
}

ALWAYS void
v_store_f16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *) p,
                        _mm512_cvtps_ph((__m512) x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#else

ALWAYS vf
v_max(vf a, vf b)
{
    return v_join(_mm256_max_ps(v_low(a), v_low(b)), _mm256_max_ps(v_high(a), v_high(b)));
}

ALWAYS vf
v_min(vf a, vf b)
{
    return v_join(_mm256_min_ps(v_low(a), v_low(b)), _mm256_min_ps(v_high(a), v_high(b)));
}

ALWAYS vf
v_load_part(const float *p, int64_t n)
{
    float lanes[VL] = {0};

    for (int64_t i = 0; i < n; i++)
        lanes[i] = p[i];
    return v_load(lanes);
}

ALWAYS void
v_store_part(float *p, int64_t n, vf x)
{
    float lanes[VL];

    v_store(lanes, x);
    for (int64_t i = 0; i < n; i++)
        p[i] = lanes[i];
}

ALWAYS vf
v_load_f16(const uint16_t *p)
{
    return v_join(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)),
                  _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) (p + 8))));
}

ALWAYS void
v_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *) p, _mm256_cvtps_ph(v_low(x), _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *) (p + 8), _mm256_cvtps_ph(v_high(x), _MM_FROUND_TO_NEAREST_INT));
}

#endif

ALWAYS vf
v_load_i8(const void *p)
{
    typedef int8_t vb __attribute__((vector_size(VL), may_alias, aligned(1)));

    return (vf) __builtin_convertvector(*(const vb *) p, vf);
}

ALWAYS uint32_t
v_mask_bits(vi mask)
{
    vf m = (vf) mask;

    return (uint32_t) _mm256_movemask_ps(v_low(m)) | (uint32_t) _mm256_movemask_ps(v_high(m)) << 8;
}

#endif

/* a where the mask is set, else b. */
ALWAYS vf
v_select(vi mask, vf a, vf b)
{
    return (vf) (((vi) a & mask) | ((vi) b & ~mask));
}

ALWAYS float
v_sum(vf x)
{
    __m256 h = v_fold(x);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

ALWAYS float
v_greatest(vf x)
{
    __m256 h = v_fold_max(x);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

/* The sums of four vectors. */
ALWAYS __m128
v_sum4(vf a, vf b, vf c, vf d)
{
    __m256 ab = _mm256_hadd_ps(v_fold(a), v_fold(b));
    __m256 cd = _mm256_hadd_ps(v_fold(c), v_fold(d));
    __m256 all = _mm256_hadd_ps(ab, cd);

    return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

/* e^x to 2 units in the last place; 0 below the smallest normal number, and at most 2^127.5. */
ALWAYS vf
v_exp(vf x)
{
    const vf magic = v_all(0x1.8p23f); /* adding it rounds to an integer, in the low bits */
    const vf low = v_all(-87.3365f);
    const vf high = v_all(88.3762f);
    vi is_tiny = x < low;
    vf t, n, r, p;

    /* With NaN in the second place min and max hand it on. */
    x = v_max(low, v_min(high, x));
    t = x * 1.44269504088896341f + magic;
    n = t - magic;
    r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    p = v_all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    p = (vf) ((vi) p + ((vi) t << 23));
    return (vf) ((vi) p & ~is_tiny);
}

ALWAYS vf
v_sigmoid(vf x)
{
    return 1.0f / (1.0f + v_exp(-x));
}

/* Near zero by its series: there 1 - 2 / (1 + e^2x) would cancel. */
ALWAYS vf
v_tanh(vf x)
{
    vf square = x * x;
    vf series = x + x * square *
                        (-0.33333333f +
                         square * (0.13333333f + square * (-0.05396825f + square * 0.0218695f)));
    vf far = 1.0f - 2.0f / (1.0f + v_exp(2.0f * x));

    return v_select(square < 0.0225f, series, far);
}

/* Runs `vector` on whole vectors and then on what is left: i is the index, part its length. */
#define FOR_VECTORS(n, whole, rest)                                                                \
    do {                                                                                           \
        int64_t i = 0;                                                                             \
        for (; i + VL <= (n); i += VL) {                                                           \
            whole;                                                                                 \
        }                                                                                          \
        if (i < (n)) {                                                                             \
            int64_t part = (n) -i;                                                                 \
            rest;                                                                                  \
        }                                                                                          \
    } while (0)

/* ---- value by value ------------------------------------------------------------------------- */

static void
NAME(add)(float *y, const float *a, const float *b, int64_t n)
{
    FOR_VECTORS(n, v_store(y + i, v_load(a + i) + v_load(b + i)),
                v_store_part(y + i, part, v_load_part(a + i, part) + v_load_part(b + i, part)));
}

static void
NAME(scale)(float *y, const float *x, float factor, int64_t n)
{
    FOR_VECTORS(n, v_store(y + i, v_load(x + i) * factor),
                v_store_part(y + i, part, v_load_part(x + i, part) * factor));
}

static void
NAME(axpy)(float *y, const float *x, float factor, int64_t n)
{
    FOR_VECTORS(
        n, v_store(y + i, v_load(y + i) + v_load(x + i) * factor),
        v_store_part(y + i, part, v_load_part(y + i, part) + v_load_part(x + i, part) * factor));
}

static void
NAME(soft_cap)(float *y, const float *x, float cap, int64_t n)
{
    float inverse = 1.0f / cap;

    FOR_VECTORS(n, v_store(y + i, v_tanh(v_load(x + i) * inverse) * cap),
                v_store_part(y + i, part, v_tanh(v_load_part(x + i, part) * inverse) * cap));
}

ALWAYS vf
glu_silu(vf g, vf u)
{
    return g * v_sigmoid(g) * u;
}

/* 0.5 (1 + tanh(z)) is sigmoid(2 z). */
ALWAYS vf
glu_gelu_tanh(vf g, vf u)
{
    const float twice_root = 1.59576912160573071f; /* 2 sqrt(2 / pi) */

    return g * v_sigmoid(g * twice_root * (1.0f + 0.044715f * g * g)) * u;
}

ALWAYS vf
glu_sigmoid(vf g, vf u)
{
    return v_sigmoid(g) * u;
}

ALWAYS vf
glu_oai(vf g, vf u)
{
    vf gate = v_min(g, v_all(7));
    vf up = v_max(v_min(u, v_all(7)), v_all(-7));

    return gate * v_sigmoid(1.702f * gate) * (up + 1.0f);
}

#define DEFINE_GLU(f)                                                                              \
    static void NAME(f)(float *y, const float *g, const float *u, int64_t n)                       \
    {                                                                                              \
        FOR_VECTORS(                                                                               \
            n, v_store(y + i, f(v_load(g + i), v_load(u + i))),                                    \
            v_store_part(y + i, part, f(v_load_part(g + i, part), v_load_part(u + i, part))));     \
    }

DEFINE_GLU(glu_silu)
DEFINE_GLU(glu_gelu_tanh)
DEFINE_GLU(glu_sigmoid)
DEFINE_GLU(glu_oai)

static float
NAME(dot_f32)(const float *a, const float *b, int64_t n)
{
    vf sums[4] = {{0}};
    int64_t at = 0;

    for (; at + 4 * VL <= n; at += 4 * VL) {
        for (int j = 0; j < 4; j++)
            sums[j] += v_load(a + at + j * VL) * v_load(b + at + j * VL);
    }
    a += at;
    b += at;
    FOR_VECTORS(n - at, sums[0] += v_load(a + i) * v_load(b + i),
                sums[1] += v_load_part(a + i, part) * v_load_part(b + i, part));
    return v_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

static void
NAME(rms_norm)(float *y, const float *x, const float *weight, int64_t n, float eps)
{
    float factor = 1.0f / sqrtf(NAME(dot_f32)(x, x, n) / (float) n + eps);

    if (weight == NULL) {
        NAME(scale)(y, x, factor, n);
        return;
    }
    FOR_VECTORS(n, v_store(y + i, v_load(x + i) * factor * v_load(weight + i)),
                v_store_part(y + i, part,
                             v_load_part(x + i, part) * factor * v_load_part(weight + i, part)));
}

static void
NAME(rope_neox)(float *x, const float *cosines, const float *sines, int64_t n)
{
    int64_t at = 0;

    for (; at + VL <= n; at += VL) {
        vf a = v_load(x + at);
        vf b = v_load(x + n + at);
        vf c = v_load(cosines + at);
        vf s = v_load(sines + at);
        v_store(x + at, a * c - b * s);
        v_store(x + n + at, a * s + b * c);
    }
    for (; at < n; at++) {
        float a = x[at];
        float b = x[n + at];
        x[at] = a * cosines[at] - b * sines[at];
        x[n + at] = a * sines[at] + b * cosines[at];
    }
}

/* Four pairs at a time at every level: the values lie in pairs, the angles do not. */
static void
NAME(rope_norm)(float *x, const float *cosines, const float *sines, int64_t n)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    int64_t at = 0;

    for (; at + 4 <= n; at += 4) {
        __m256 v = _mm256_loadu_ps(x + 2 * at);
        __m256 c = _mm256_castps128_ps256(_mm_loadu_ps(cosines + at));
        __m256 s = _mm256_castps128_ps256(_mm_loadu_ps(sines + at));
        c = _mm256_permutevar8x32_ps(c, twice);
        s = _mm256_permutevar8x32_ps(s, twice);
        v = _mm256_addsub_ps(_mm256_mul_ps(v, c), _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), s));
        _mm256_storeu_ps(x + 2 * at, v);
    }
    for (; at < n; at++) {
        float a = x[2 * at];
        float b = x[2 * at + 1];
        x[2 * at] = a * cosines[at] - b * sines[at];
        x[2 * at + 1] = a * sines[at] + b * cosines[at];
    }
}

static int64_t
NAME(find_above)(const float *x, int64_t begin, int64_t n, float bound)
{
    int64_t i = begin;

    for (; i + 4 * VL <= n; i += 4 * VL) {
        vi any = (v_load(x + i) > bound) | (v_load(x + i + VL) > bound) |
                 (v_load(x + i + 2 * VL) > bound) | (v_load(x + i + 3 * VL) > bound);
        if (v_mask_bits(any) != 0)
            break;
    }
    for (; i < n; i++) {
        if (x[i] > bound)
            return i;
    }
    return n;
}

/* ---- rows of a KV page ---------------------------------------------------------------------- */

static void
NAME(kv_store_f16)(void *row, const float *x, int64_t n)
{
    uint16_t *h = row;
    int64_t at = 0;

    for (; at + VL <= n; at += VL)
        v_store_f16(h + at, v_load(x + at));
    if (at < n) {
        uint16_t rest[VL];
        v_store_f16(rest, v_load_part(x + at, n - at));
        memcpy(h + at, rest, (size_t) (n - at) * sizeof *h);
    }
}

static void
NAME(kv_load_f16)(float *x, const void *row, int64_t n)
{
    const uint16_t *h = row;
    int64_t at = 0;

    for (; at + VL <= n; at += VL)
        v_store(x + at, v_load_f16(h + at));
    if (at < n) {
        uint16_t rest[VL] = {0};
        memcpy(rest, h + at, (size_t) (n - at) * sizeof *h);
        v_store_part(x + at, n - at, v_load_f16(rest));
    }
}

enum {
    BLOCK = 32,
    Q8_0_BYTES = 34,
    Q4_0_BYTES = 18,
};

ALWAYS float
block_scale(const uint8_t *block)
{
    uint16_t h;

    memcpy(&h, block, sizeof h);
    return _cvtsh_ss(h);
}

static void
NAME(kv_store_q8_0)(void *row, const float *x, int64_t n)
{
    uint8_t *block = row;

    for (int64_t i = 0; i < n; i += BLOCK, block += Q8_0_BYTES) {
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        vf amax = {0};
        __m256i q[4];
        for (int j = 0; j < BLOCK; j += VL)
            amax = v_max(amax, (vf) ((vi) v_load(x + i + j) & 0x7fffffff));
        float scale = v_greatest(amax) / 127.0f;
        float inverse = scale > 0 ? 1.0f / scale : 0;
        uint16_t h = (uint16_t) _cvtss_sh(scale, _MM_FROUND_TO_NEAREST_INT);
        memcpy(block, &h, sizeof h);
        for (int j = 0; j < 4; j++)
            q[j] = _mm256_cvtps_epi32(
                _mm256_mul_ps(_mm256_loadu_ps(x + i + 8 * j), _mm256_set1_ps(inverse)));
        /* The packs work within halves, which leaves groups of four out of order. */
        q[0] = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        _mm256_storeu_si256((__m256i *) (block + 2), _mm256_permutevar8x32_epi32(q[0], order));
    }
}

static void
NAME(kv_load_q8_0)(float *x, const void *row, int64_t n)
{
    const uint8_t *block = row;

    for (int64_t i = 0; i < n; i += BLOCK, block += Q8_0_BYTES) {
        float scale = block_scale(block);
        for (int j = 0; j < BLOCK; j += VL)
            v_store(x + i + j, v_load_i8(block + 2 + j) * scale);
    }
}

static void
NAME(kv_load_q4_0)(float *x, const void *row, int64_t n)
{
    const uint8_t *block = row;
    const __m128i low_bits = _mm_set1_epi8(15);
    const __m128i eight = _mm_set1_epi8(8);

    for (int64_t i = 0; i < n; i += BLOCK, block += Q4_0_BYTES) {
        float scale = block_scale(block);
        __m128i packed = _mm_loadu_si128((const __m128i *) (block + 2));
        int8_t q[BLOCK];
        _mm_storeu_si128((__m128i *) q, _mm_sub_epi8(_mm_and_si128(packed, low_bits), eight));
        _mm_storeu_si128((__m128i *) (q + 16),
                         _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(packed, 4), low_bits), eight));
        for (int j = 0; j < BLOCK; j += VL)
            v_store(x + i + j, v_load_i8(q + j) * scale);
    }
}

/* ---- few queries ---------------------------------------------------------------------------- */

enum {
    N_KEYS = 4,    /* keys of one block of scores */
    N_QUERIES = 3, /* queries of one: twelve sums, four keys and a query fill sixteen registers */
    MAX_DIM = 512,
};

ALWAYS vf
load_kv(const void *row, int64_t at, bool is_f16)
{
    return is_f16 ? v_load_f16((const uint16_t *) row + at) : v_load((const float *) row + at);
}

ALWAYS vf
load_kv_part(const void *row, int64_t at, int64_t n, bool is_f16)
{
    if (is_f16) {
        uint16_t rest[VL] = {0};
        memcpy(rest, (const uint16_t *) row + at, (size_t) n * sizeof *rest);
        return v_load_f16(rest);
    }
    return v_load_part((const float *) row + at, n);
}

/* nk keys against nq queries; both are constants where this is inlined. */
ALWAYS void
score_block(float *scores, int64_t ld, const float *queries, const uint8_t *keys, size_t row_bytes,
            int64_t dim, const int nk, const int nq, const bool is_f16)
{
    vf sums[N_QUERIES][N_KEYS] = {{{0}}};
    int64_t at = 0;

    for (; at + VL <= dim; at += VL) {
        vf key[N_KEYS];
#pragma GCC unroll 4
        for (int j = 0; j < nk; j++)
            key[j] = load_kv(keys + (size_t) j * row_bytes, at, is_f16);
#pragma GCC unroll 4
        for (int i = 0; i < nq; i++) {
            vf q = v_load(queries + i * dim + at);
#pragma GCC unroll 4
            for (int j = 0; j < nk; j++)
                sums[i][j] += q * key[j];
        }
    }
    if (at < dim) {
        for (int j = 0; j < nk; j++) {
            vf key = load_kv_part(keys + (size_t) j * row_bytes, at, dim - at, is_f16);
            for (int i = 0; i < nq; i++)
                sums[i][j] += v_load_part(queries + i * dim + at, dim - at) * key;
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < nq; i++) {
        if (nk == N_KEYS) {
            _mm_storeu_ps(scores + i * ld, v_sum4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]));
        } else {
            for (int j = 0; j < nk; j++)
                scores[i * ld + j] = v_sum(sums[i][j]);
        }
    }
}

ALWAYS void
score_queries(float *scores, int64_t ld, const float *queries, const void *keys, int64_t n_keys,
              int64_t dim, const int nq, const bool is_f16)
{
    size_t row_bytes = (size_t) dim * (is_f16 ? 2 : 4);
    const uint8_t *row = keys;
    int64_t j = 0;

    for (; j + N_KEYS <= n_keys; j += N_KEYS, row += N_KEYS * row_bytes)
        score_block(scores + j, ld, queries, row, row_bytes, dim, N_KEYS, nq, is_f16);
    for (; j < n_keys; j++, row += row_bytes)
        score_block(scores + j, ld, queries, row, row_bytes, dim, 1, nq, is_f16);
}

ALWAYS void
score_all(float *scores, int64_t ld, const float *queries, int64_t n_queries, const void *keys,
          int64_t n_keys, int64_t dim, const bool is_f16)
{
    int64_t i = 0;

    for (; i + 3 <= n_queries; i += 3)
        score_queries(scores + i * ld, ld, queries + i * dim, keys, n_keys, dim, 3, is_f16);
    if (n_queries - i == 2)
        score_queries(scores + i * ld, ld, queries + i * dim, keys, n_keys, dim, 2, is_f16);
    else if (n_queries - i == 1)
        score_queries(scores + i * ld, ld, queries + i * dim, keys, n_keys, dim, 1, is_f16);
}

static void
NAME(scores_f32)(float *scores, int64_t ld, const float *queries, int64_t n_queries,
                 const void *keys, int64_t n_keys, int64_t dim)
{
    score_all(scores, ld, queries, n_queries, keys, n_keys, dim, false);
}

static void
NAME(scores_f16)(float *scores, int64_t ld, const float *queries, int64_t n_queries,
                 const void *keys, int64_t n_keys, int64_t dim)
{
    score_all(scores, ld, queries, n_queries, keys, n_keys, dim, true);
}

/* Columns [at, at + nv * VL) of the values; with part > 0 one vector of `part` columns. */
ALWAYS void
value_block(float *out, const float *probs, int64_t ld, const void *values, int64_t n_values,
            int64_t dim, int64_t at, const int nv, int64_t part, const int nq, const bool is_f16)
{
    size_t row_bytes = (size_t) dim * (is_f16 ? 2 : 4);
    const uint8_t *row = values;
    vf sums[N_QUERIES][2];

    for (int i = 0; i < nq; i++) {
        for (int v = 0; v < nv; v++)
            sums[i][v] = part > 0 ? v_load_part(out + i * dim + at, part)
                                  : v_load(out + i * dim + at + v * VL);
    }
    for (int64_t j = 0; j < n_values; j++, row += row_bytes) {
        vf value[2];
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            value[v] =
                part > 0 ? load_kv_part(row, at, part, is_f16) : load_kv(row, at + v * VL, is_f16);
#pragma GCC unroll 4
        for (int i = 0; i < nq; i++) {
            float p = probs[i * ld + j];
#pragma GCC unroll 2
            for (int v = 0; v < nv; v++)
                sums[i][v] += value[v] * p;
        }
    }
    for (int i = 0; i < nq; i++) {
        for (int v = 0; v < nv; v++) {
            if (part > 0)
                v_store_part(out + i * dim + at, part, sums[i][v]);
            else
                v_store(out + i * dim + at + v * VL, sums[i][v]);
        }
    }
}

ALWAYS void
value_queries(float *out, const float *probs, int64_t ld, const void *values, int64_t n_values,
              int64_t dim, const int nq, const bool is_f16)
{
    int64_t at = 0;

    for (; at + 2 * VL <= dim; at += 2 * VL)
        value_block(out, probs, ld, values, n_values, dim, at, 2, 0, nq, is_f16);
    for (; at + VL <= dim; at += VL)
        value_block(out, probs, ld, values, n_values, dim, at, 1, 0, nq, is_f16);
    if (at < dim)
        value_block(out, probs, ld, values, n_values, dim, at, 1, dim - at, nq, is_f16);
}

ALWAYS void
value_all(float *out, const float *probs, int64_t ld, int64_t n_queries, const void *values,
          int64_t n_values, int64_t dim, const bool is_f16)
{
    int64_t i = 0;

    for (; i + 3 <= n_queries; i += 3)
        value_queries(out + i * dim, probs + i * ld, ld, values, n_values, dim, 3, is_f16);
    if (n_queries - i == 2)
        value_queries(out + i * dim, probs + i * ld, ld, values, n_values, dim, 2, is_f16);
    else if (n_queries - i == 1)
        value_queries(out + i * dim, probs + i * ld, ld, values, n_values, dim, 1, is_f16);
}

static void
NAME(values_f32)(float *out, const float *probs, int64_t ld, int64_t n_queries, const void *values,
                 int64_t n_values, int64_t dim)
{
    value_all(out, probs, ld, n_queries, values, n_values, dim, false);
}

static void
NAME(values_f16)(float *out, const float *probs, int64_t ld, int64_t n_queries, const void *values,
                 int64_t n_values, int64_t dim)
{
    value_all(out, probs, ld, n_queries, values, n_values, dim, true);
}

/* Quantised rows are unpacked a few at a time, once for all queries. */
enum { N_UNPACKED = 8 };

ALWAYS void
score_unpacked(float *scores, int64_t ld, const float *queries, int64_t n_queries, const void *keys,
               int64_t n_keys, int64_t dim, SluiceCpuKvLoadFn load, size_t row_bytes)
{
    float rows[N_UNPACKED * MAX_DIM];

    for (int64_t j = 0; j < n_keys; j += N_UNPACKED) {
        int64_t n = MIN(N_UNPACKED, n_keys - j);
        load(rows, (const uint8_t *) keys + (size_t) j * row_bytes, n * dim);
        NAME(scores_f32)(scores + j, ld, queries, n_queries, rows, n, dim);
    }
}

ALWAYS void
value_unpacked(float *out, const float *probs, int64_t ld, int64_t n_queries, const void *values,
               int64_t n_values, int64_t dim, SluiceCpuKvLoadFn load, size_t row_bytes)
{
    float rows[N_UNPACKED * MAX_DIM];

    for (int64_t j = 0; j < n_values; j += N_UNPACKED) {
        int64_t n = MIN(N_UNPACKED, n_values - j);
        load(rows, (const uint8_t *) values + (size_t) j * row_bytes, n * dim);
        NAME(values_f32)(out, probs + j, ld, n_queries, rows, n, dim);
    }
}

static void
NAME(scores_q8_0)(float *scores, int64_t ld, const float *queries, int64_t n_queries,
                  const void *keys, int64_t n_keys, int64_t dim)
{
    score_unpacked(scores, ld, queries, n_queries, keys, n_keys, dim, NAME(kv_load_q8_0),
                   (size_t) (dim / BLOCK) * Q8_0_BYTES);
}

static void
NAME(values_q8_0)(float *out, const float *probs, int64_t ld, int64_t n_queries, const void *values,
                  int64_t n_values, int64_t dim)
{
    value_unpacked(out, probs, ld, n_queries, values, n_values, dim, NAME(kv_load_q8_0),
                   (size_t) (dim / BLOCK) * Q8_0_BYTES);
}

static void
NAME(scores_q4_0)(float *scores, int64_t ld, const float *queries, int64_t n_queries,
                  const void *keys, int64_t n_keys, int64_t dim)
{
    score_unpacked(scores, ld, queries, n_queries, keys, n_keys, dim, NAME(kv_load_q4_0),
                   (size_t) (dim / BLOCK) * Q4_0_BYTES);
}

static void
NAME(values_q4_0)(float *out, const float *probs, int64_t ld, int64_t n_queries, const void *values,
                  int64_t n_values, int64_t dim)
{
    value_unpacked(out, probs, ld, n_queries, values, n_values, dim, NAME(kv_load_q4_0),
                   (size_t) (dim / BLOCK) * Q4_0_BYTES);
}

/* ---- softmax -------------------------------------------------------------------------------- */

static float
NAME(softmax)(float *s, int64_t n, float *max, float *sum)
{
    vf tops = v_all(*max);
    vf sums = {0};
    float top = *max;
    float factor;
    int64_t at = n - n % VL;

    for (int64_t i = 0; i < at; i += VL)
        tops = v_max(tops, v_load(s + i));
    top = v_greatest(tops);
    for (int64_t i = at; i < n; i++)
        top = fmaxf(top, s[i]);
    if (top == -INFINITY) {
        memset(s, 0, (size_t) n * sizeof *s);
        return 1;
    }
    factor = *max == top ? 1.0f : expf(*max - top);
    for (int64_t i = 0; i < at; i += VL) {
        vf e = v_exp(v_load(s + i) - top);
        v_store(s + i, e);
        sums += e;
    }
    *sum = *sum * factor + v_sum(sums);
    if (at < n) {
        v_store_part(s + at, n - at, v_exp(v_load_part(s + at, n - at) - top));
        for (int64_t i = at; i < n; i++)
            *sum += s[i];
    }
    *max = top;
    return factor;
}

/* ---- small products ------------------------------------------------------------------------- */

/* Rows of one tile of c: with two vectors of columns, the sums fill the registers. */
enum { TILE_ROWS = VL == 16 ? 12 : 6 };

/* mr and nv are constants where this is inlined; part > 0: one vector of `part` columns. */
ALWAYS void
gemm_tile(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,
          int64_t k, const bool accumulate, const int mr, const int nv, int64_t part)
{
    vf sums[TILE_ROWS][2];

#pragma GCC unroll 12
    for (int i = 0; i < mr; i++) {
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            sums[i][v] = (vf){0};
    }
    for (int64_t l = 0; l < k; l++) {
        vf row[2];
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            row[v] = part > 0 ? v_load_part(b + l * ldb, part) : v_load(b + l * ldb + v * VL);
#pragma GCC unroll 12
        for (int i = 0; i < mr; i++) {
            float x = a[i * lda + l];
#pragma GCC unroll 2
            for (int v = 0; v < nv; v++)
                sums[i][v] += row[v] * x;
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < mr; i++) {
        float *y = c + i * ldc;
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++) {
            if (accumulate)
                sums[i][v] += part > 0 ? v_load_part(y, part) : v_load(y + v * VL);
            if (part > 0)
                v_store_part(y, part, sums[i][v]);
            else
                v_store(y + v * VL, sums[i][v]);
        }
    }
}

ALWAYS void
gemm_columns(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,
             int64_t m, int64_t k, const bool accumulate, const int nv, int64_t part)
{
    int64_t i = 0;

    for (; i + TILE_ROWS <= m; i += TILE_ROWS)
        gemm_tile(c + i * ldc, ldc, a + i * lda, lda, b, ldb, k, accumulate, TILE_ROWS, nv, part);
    for (; i + 3 <= m; i += 3)
        gemm_tile(c + i * ldc, ldc, a + i * lda, lda, b, ldb, k, accumulate, 3, nv, part);
    for (; i < m; i++)
        gemm_tile(c + i * ldc, ldc, a + i * lda, lda, b, ldb, k, accumulate, 1, nv, part);
}

static void
NAME(gemm)(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,
           int64_t m, int64_t n, int64_t k, bool accumulate)
{
    int64_t j = 0;

    for (; j + 2 * VL <= n; j += 2 * VL)
        gemm_columns(c + j, ldc, a, lda, b + j, ldb, m, k, accumulate, 2, 0);
    for (; j + VL <= n; j += VL)
        gemm_columns(c + j, ldc, a, lda, b + j, ldb, m, k, accumulate, 1, 0);
    if (j < n)
        gemm_columns(c + j, ldc, a, lda, b + j, ldb, m, k, accumulate, 1, n - j);
}

/* Eight rows of eight at every level. */
ALWAYS void
transpose_8x8(float *y, int64_t ldy, const float *x, int64_t ldx)
{
    __m256 r[8], t[8];

#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(x + i * ldx);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(y + i * ldy, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(y + (i + 4) * ldy, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

static void
NAME(transpose)(float *y, int64_t ldy, const float *x, int64_t ldx, int64_t n_rows, int64_t n_cols)
{
    int64_t i = 0;

    for (; i + 8 <= n_rows; i += 8) {
        int64_t j = 0;
        for (; j + 8 <= n_cols; j += 8)
            transpose_8x8(y + j * ldy + i, ldy, x + i * ldx + j, ldx);
        for (; j < n_cols; j++) {
            for (int64_t r = i; r < i + 8; r++)
                y[j * ldy + r] = x[r * ldx + j];
        }
    }
    for (; i < n_rows; i++) {
        for (int64_t j = 0; j < n_cols; j++)
            y[j * ldy + i] = x[i * ldx + j];
    }
}

/* ---- recurrent layers ----------------------------------------------------------------------- */

/* One row of the state: its product with k, then the update and its product with q in one pass. */
ALWAYS float
delta_row(float *row, const float *q, const float *k, float v, float decay, float beta, int64_t dim)
{
    float delta = beta * (v - decay * NAME(dot_f32)(row, k, dim));
    vf sums = {0};

    FOR_VECTORS(
        dim,
        {
            vf m = v_load(row + i) * decay + v_load(k + i) * delta;
            v_store(row + i, m);
            sums += m * v_load(q + i);
        },
        {
            vf m = v_load_part(row + i, part) * decay + v_load_part(k + i, part) * delta;
            v_store_part(row + i, part, m);
            sums += m * v_load_part(q + i, part);
        });
    return v_sum(sums);
}

static void
NAME(delta_step)(float *out, float *m, const float *q, const float *k, const float *v, float decay,
                 float beta, int64_t dim)
{
    for (int64_t j = 0; j < dim; j++)
        out[j] = delta_row(m + j * dim, q, k, v[j], decay, beta, dim);
}

/* Weights lie channel by channel: eight channels are gathered at every level. */
static void
NAME(conv)(float *y, const float *w, const float *const *inputs, int64_t n_kernel, int64_t n)
{
    const __m256i lanes = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                             _mm256_set1_epi32((int) n_kernel));
    int64_t c = 0;

    for (; c + 8 <= n; c += 8) {
        __m256 sum = _mm256_setzero_ps();
        for (int64_t i = 0; i < n_kernel; i++)
            sum = _mm256_fmadd_ps(_mm256_i32gather_ps(w + c * n_kernel + i, lanes, 4),
                                  _mm256_loadu_ps(inputs[i] + c), sum);
        _mm256_storeu_ps(y + c, sum);
    }
    for (; c < n; c++) {
        float sum = 0;
        for (int64_t i = 0; i < n_kernel; i++)
            sum += w[c * n_kernel + i] * inputs[i][c];
        y[c] = sum;
    }
    FOR_VECTORS(n, v_store(y + i, v_load(y + i) * v_sigmoid(v_load(y + i))), {
        vf x = v_load_part(y + i, part);
        v_store_part(y + i, part, x * v_sigmoid(x));
    });
}

/* Overrides every slot that this level has. */
void
NAME(sluice_cpu_ops_init)(SluiceCpuKernels *k)
{
    k->add = NAME(add);
    k->scale = NAME(scale);
    k->axpy = NAME(axpy);
    k->dot_f32 = NAME(dot_f32);
    k->soft_cap = NAME(soft_cap);
    k->rms_norm = NAME(rms_norm);
    k->glu[SLUICE_ACTIVATION_SILU] = NAME(glu_silu);
    k->glu[SLUICE_ACTIVATION_GELU_TANH] = NAME(glu_gelu_tanh);
    k->glu[SLUICE_ACTIVATION_SIGMOID] = NAME(glu_sigmoid);
    k->glu[SLUICE_ACTIVATION_SWIGLU_OAI] = NAME(glu_oai);
    k->rope_norm = NAME(rope_norm);
    k->rope_neox = NAME(rope_neox);
    k->find_above = NAME(find_above);
    k->kv_store[SLUICE_CPU_KV_F16] = NAME(kv_store_f16);
    k->kv_store[SLUICE_CPU_KV_Q8_0] = NAME(kv_store_q8_0);
    k->kv_load[SLUICE_CPU_KV_F16] = NAME(kv_load_f16);
    k->kv_load[SLUICE_CPU_KV_Q8_0] = NAME(kv_load_q8_0);
    k->kv_load[SLUICE_CPU_KV_Q4_0] = NAME(kv_load_q4_0);
    k->scores[SLUICE_CPU_KV_F32] = NAME(scores_f32);
    k->scores[SLUICE_CPU_KV_F16] = NAME(scores_f16);
    k->scores[SLUICE_CPU_KV_Q8_0] = NAME(scores_q8_0);
    k->scores[SLUICE_CPU_KV_Q4_0] = NAME(scores_q4_0);
    k->values[SLUICE_CPU_KV_F32] = NAME(values_f32);
    k->values[SLUICE_CPU_KV_F16] = NAME(values_f16);
    k->values[SLUICE_CPU_KV_Q8_0] = NAME(values_q8_0);
    k->values[SLUICE_CPU_KV_Q4_0] = NAME(values_q4_0);
    k->softmax = NAME(softmax);
    k->gemm = NAME(gemm);
    k->transpose = NAME(transpose);
    k->delta_step = NAME(delta_step);
    k->conv = NAME(conv);
}

#endif /* VL */
