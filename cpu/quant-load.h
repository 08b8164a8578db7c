/* SPDX-License-Identifier: MIT */
/*
 * Vectors of 32 unsigned bytes out of every block that has a fast form, and its scales, for the
 * levels of 256 bits and more. Included by level files only.
 */
#pragma once

#include <string.h>

#include "cpu/iq-tables.h"
#include "cpu/quant.h"
#include "cpu/simd.h"
#include "src/core/blocks.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* The parts of sluice_cpu_quant_init_avx2() that lie in quant-gemm-avx2.c. */
void sluice_cpu_quant_unpack_init_avx2(SluiceCpuQuantKernels *k);
void sluice_cpu_quant_gemm_init_avx2(SluiceCpuQuantKernels *k);

/* Holds a sum in its register at this point: left alone, GCC re-associates long integer sums and
 * spills their terms. */
#ifdef SLUICE_SIMDE
#define KEEP(v) ((void) (v))
#else
#define KEEP(v) __asm__("" : "+x"(v))
#endif

/* How far ahead of the reading a line is asked for. The hardware follows a stream within a page
 * of 4 KiB but not into the next. */
#define PREFETCH_BYTES 2048

INLINE void
prefetch_block(const void *block, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += 64)
        _mm_prefetch((const char *) block + PREFETCH_BYTES + i, _MM_HINT_T0);
}

INLINE __m256i
load256(const void *at)
{
    return _mm256_loadu_si256((const __m256i *) at);
}

INLINE __m128i
load128(const void *at)
{
    return _mm_loadu_si128((const __m128i *) at);
}

INLINE float
sum_floats(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

INLINE __m256i
broadcast_dword(const void *at)
{
    int32_t v;

    memcpy(&v, at, sizeof v);
    return _mm256_set1_epi32(v);
}

/* Eight sums of four products each, as floats. */
INLINE __m256
dot_bytes(__m256i q, __m256i a)
{
#ifdef SLUICE_LEVEL_VNNI
    return _mm256_cvtepi32_ps(sluice_dpbusd_256(_mm256_setzero_si256(), q, a));
#else
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_maddubs_epi16(q, a), _mm256_set1_epi16(1)));
#endif
}

/* Words of a and b in turn, added to their neighbours. */
INLINE __m256i
add_words(__m256i a, __m256i b)
{
    return _mm256_add_epi16(_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b));
}

/* Dword i is the sum of the 16 words of p[i]; no partial sum of eight may exceed 16 bits. */
INLINE __m256i
add_words_across(const __m256i *p)
{
    const __m256i even = add_words(add_words(p[0], p[4]), add_words(p[2], p[6]));
    const __m256i odd = add_words(add_words(p[1], p[5]), add_words(p[3], p[7]));
    const __m256i all = add_words(even, odd);

    return _mm256_add_epi32(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(all)),
                            _mm256_cvtepi16_epi32(_mm256_extracti128_si256(all, 1)));
}

/* Dword i of each half is the sum of that half of p[i]. */
INLINE __m256i
add_across(const __m256i *p)
{
    const __m256i a =
        _mm256_add_epi32(_mm256_unpacklo_epi32(p[0], p[1]), _mm256_unpackhi_epi32(p[0], p[1]));
    const __m256i b =
        _mm256_add_epi32(_mm256_unpacklo_epi32(p[2], p[3]), _mm256_unpackhi_epi32(p[2], p[3]));

    return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

INLINE __m256i
load_halves(const void *low, const void *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(low)), load128(high), 1);
}

/* Sums of eight products, of q at most 31, so that 16 bits hold four of them. */
INLINE __m256i
dot_pairs(const __m256i *q, __m256i a0, __m256i a1)
{
#ifdef SLUICE_LEVEL_VNNI
    return sluice_dpbusd_256(sluice_dpbusd_256(_mm256_setzero_si256(), q[0], a0), q[1], a1);
#else
    return _mm256_madd_epi16(
        _mm256_add_epi16(_mm256_maddubs_epi16(q[0], a0), _mm256_maddubs_epi16(q[1], a1)),
        _mm256_set1_epi16(1));
#endif
}

/* ---- scales --------------------------------------------------------------------------------- */

INLINE __m128
half_scale(const void *block)
{
    uint16_t h;

    memcpy(&h, block, sizeof h);
    return _mm_cvtph_ps(_mm_cvtsi32_si128(h));
}

/* d in lane 0, m in lane 1. */
INLINE __m128
half_pair(const void *block)
{
    uint32_t h;

    memcpy(&h, block, sizeof h);
    return _mm_cvtph_ps(_mm_cvtsi32_si128((int) h));
}

INLINE __m128
e8m0_scale(const SluiceBlockMXFP4 *b)
{
    uint32_t bits = b->e < 2 ? 0x00200000u << b->e : (uint32_t) (b->e - 1) << 23;

    return _mm_castsi128_ps(_mm_cvtsi32_si128((int) bits));
}

INLINE __m256
half_broadcast(uint16_t h)
{
    return _mm256_cvtph_ps(_mm_set1_epi16((short) h));
}

INLINE __m256
bytes_to_floats(uint64_t bytes)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long) bytes)));
}

/* ---- 32 elements ---------------------------------------------------------------------------- */

/* Half-split nibbles in order of their elements. */
INLINE __m256i
nibbles(const uint8_t *qs)
{
    const __m128i v = load128(qs);
    const __m256i both =
        _mm256_inserti128_si256(_mm256_castsi128_si256(v), _mm_srli_epi16(v, 4), 1);

    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/* Bit e of bits as `value` in byte e. */
INLINE __m256i
spread_bits(uint32_t bits, char value)
{
    const __m256i bytes = _mm256_shuffle_epi8(
        _mm256_set1_epi32((int) bits), _mm256_setr_epi64x(0x0000000000000000, 0x0101010101010101,
                                                          0x0202020202020202, 0x0303030303030303));
    const __m256i mask = _mm256_set1_epi64x((long long) 0x8040201008040201);
    const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, mask), mask);

    return _mm256_and_si256(is_set, _mm256_set1_epi8(value));
}

INLINE __m256i
look_up(__m256i idx, const void *levels)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load128(levels)), idx);
}

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
static const uint8_t fp4_levels[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

INLINE __m256i
bytes_q4_0(const SluiceBlockQ4_0 *b)
{
    return nibbles(b->qs);
}

INLINE __m256i
bytes_q4_1(const SluiceBlockQ4_1 *b)
{
    return nibbles(b->qs);
}

INLINE __m256i
bytes_q5_0(const SluiceBlockQ5_0 *b)
{
    return _mm256_or_si256(nibbles(b->qs), spread_bits(b->qh, 16));
}

INLINE __m256i
bytes_q5_1(const SluiceBlockQ5_1 *b)
{
    return _mm256_or_si256(nibbles(b->qs), spread_bits(b->qh, 16));
}

INLINE __m256i
bytes_q8_0(const SluiceBlockQ8_0 *b)
{
    return load256(b->qs);
}

INLINE __m256i
signed_iq4_nl(const SluiceBlockIQ4_NL *b)
{
    return look_up(nibbles(b->qs), iq4_values);
}

INLINE __m256i
bytes_mxfp4(const SluiceBlockMXFP4 *b)
{
    return look_up(nibbles(b->qs), fp4_levels);
}

/* ---- 32 elements, eight blocks at a time ---------------------------------------------------- */

INLINE void
quad_nibbles(const uint8_t *qs0, const uint8_t *qs4, __m256i *q)
{
    const __m256i v = load_halves(qs0, qs4);
    const __m256i mask = _mm256_set1_epi8(15);

    q[0] = _mm256_and_si256(v, mask);
    q[1] = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
}

/* The fifth bits of both blocks. */
INLINE void
quad_fifths(uint32_t qh0, uint32_t qh4, __m256i *q)
{
    const __m256i bits =
        _mm256_blend_epi32(_mm256_set1_epi32((int) qh0), _mm256_set1_epi32((int) qh4), 0xf0);
    const __m256i mask = _mm256_set1_epi64x((long long) 0x8040201008040201);
    const __m256i order = _mm256_setr_epi64x(0x0000000000000000, 0x0101010101010101,
                                             0x0000000000000000, 0x0101010101010101);

    UNROLL for (int h = 0; h < 2; h++)
    {
        const __m256i idx = _mm256_add_epi8(order, _mm256_set1_epi8((char) (2 * h)));
        const __m256i bytes = _mm256_and_si256(_mm256_shuffle_epi8(bits, idx), mask);

        q[h] = _mm256_or_si256(
            q[h], _mm256_and_si256(_mm256_cmpeq_epi8(bytes, mask), _mm256_set1_epi8(16)));
    }
}

INLINE void
quads_q4_0(const SluiceBlockQ4_0 *b0, const SluiceBlockQ4_0 *b4, __m256i *q)
{
    quad_nibbles(b0->qs, b4->qs, q);
}

INLINE void
quads_q4_1(const SluiceBlockQ4_1 *b0, const SluiceBlockQ4_1 *b4, __m256i *q)
{
    quad_nibbles(b0->qs, b4->qs, q);
}

INLINE void
quads_q5_0(const SluiceBlockQ5_0 *b0, const SluiceBlockQ5_0 *b4, __m256i *q)
{
    quad_nibbles(b0->qs, b4->qs, q);
    quad_fifths(b0->qh, b4->qh, q);
}

INLINE void
quads_q5_1(const SluiceBlockQ5_1 *b0, const SluiceBlockQ5_1 *b4, __m256i *q)
{
    quad_nibbles(b0->qs, b4->qs, q);
    quad_fifths(b0->qh, b4->qh, q);
}

INLINE void
quads_mxfp4(const SluiceBlockMXFP4 *b0, const SluiceBlockMXFP4 *b4, __m256i *q)
{
    quad_nibbles(b0->qs, b4->qs, q);
    q[0] = look_up(q[0], fp4_levels);
    q[1] = look_up(q[1], fp4_levels);
}

#define SCALES_HALF(name, Block)                                                                   \
    INLINE __m256 name(const Block *b, __m256 *mn)                                                 \
    {                                                                                              \
        return _mm256_cvtph_ps(_mm_setr_epi16((short) b[0].d, (short) b[1].d, (short) b[2].d,      \
                                              (short) b[3].d, (short) b[4].d, (short) b[5].d,      \
                                              (short) b[6].d, (short) b[7].d));                    \
    }

SCALES_HALF(scales_q4_0, SluiceBlockQ4_0)
SCALES_HALF(scales_q5_0, SluiceBlockQ5_0)

INLINE int
half_bits(const void *block)
{
    int bits;

    memcpy(&bits, block, sizeof bits);
    return bits;
}

#define SCALES_PAIR(name, Block)                                                                   \
    INLINE __m256 name(const Block *b, __m256 *mn)                                                 \
    {                                                                                              \
        const __m256 x = _mm256_cvtph_ps(_mm_setr_epi32(half_bits(&b[0]), half_bits(&b[1]),        \
                                                        half_bits(&b[4]), half_bits(&b[5])));      \
        const __m256 y = _mm256_cvtph_ps(_mm_setr_epi32(half_bits(&b[2]), half_bits(&b[3]),        \
                                                        half_bits(&b[6]), half_bits(&b[7])));      \
                                                                                                   \
        *mn = _mm256_shuffle_ps(x, y, 0xdd);                                                       \
        return _mm256_shuffle_ps(x, y, 0x88);                                                      \
    }

SCALES_PAIR(scales_q4_1, SluiceBlockQ4_1)
SCALES_PAIR(scales_q5_1, SluiceBlockQ5_1)

/* 2^(e - 128); the two least of them are subnormal. */
INLINE __m256
scales_mxfp4(const SluiceBlockMXFP4 *b, __m256 *mn)
{
    const __m256i e =
        _mm256_setr_epi32(b[0].e, b[1].e, b[2].e, b[3].e, b[4].e, b[5].e, b[6].e, b[7].e);
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);

    return _mm256_castsi256_ps(_mm256_blendv_epi8(small, normal, _mm256_cmpgt_epi32(e, one)));
}

/* ---- 256 elements: bytes of sub-block i ----------------------------------------------------- */

INLINE __m256i
bytes_q4_k(const SluiceBlockQ4_K *b, const int i)
{
    const __m256i v = load256(b->qs + 32 * (i / 2));

    return _mm256_and_si256(i % 2 ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
}

/* Bits [from, from + 2^..) of every byte moved to bit `to`, under mask. */
INLINE __m256i
move_bits(__m256i v, const int from, const int to, const int mask)
{
    const __m256i moved =
        from > to ? _mm256_srli_epi16(v, from - to) : _mm256_slli_epi16(v, to - from);

    return _mm256_and_si256(moved, _mm256_set1_epi8((char) mask));
}

INLINE __m256i
bytes_q5_k(const SluiceBlockQ5_K *b, const int i)
{
    const __m256i v = load256(b->qs + 32 * (i / 2));
    const __m256i low = move_bits(v, i % 2 ? 4 : 0, 0, 15);

    return _mm256_or_si256(low, move_bits(load256(b->qh), i, 4, 16));
}

INLINE __m256i
bytes_q6_k(const SluiceBlockQ6_K *b, const int i)
{
    const int n = i / 4;
    const int k = i % 4;
    const __m256i low = move_bits(load256(b->ql + 64 * n + 32 * (k & 1)), k < 2 ? 0 : 4, 0, 15);

    return _mm256_or_si256(low, move_bits(load256(b->qh + 32 * n), 2 * k, 4, 0x30));
}

INLINE __m256i
bytes_q3_k(const SluiceBlockQ3_K *b, const int i)
{
    const __m256i low = move_bits(load256(b->qs + 32 * (i / 4)), 2 * (i % 4), 0, 3);

    return _mm256_or_si256(low, move_bits(load256(b->hmask), i, 2, 4));
}

INLINE __m256i
bytes_q2_k(const SluiceBlockQ2_K *b, const int i)
{
    return move_bits(load256(b->qs + 32 * (i / 4)), 2 * (i % 4), 0, 3);
}

INLINE __m256i
signed_iq4_xs(const SluiceBlockIQ4_XS *b, const int i)
{
    return look_up(nibbles(b->qs + 16 * i), iq4_values);
}

/* ---- 256 elements: scales ------------------------------------------------------------------- */

/* The 6-bit scales and minimums of Q4_K and Q5_K as eight bytes each. */
INLINE void
scales_k4(const uint8_t *s, uint64_t *sc, uint64_t *mn)
{
    uint32_t w[3];
    uint32_t sc_high, mn_high;

    memcpy(w, s, sizeof w);
    sc_high = (w[2] & 0x0f0f0f0f) | ((w[0] >> 2) & 0x30303030);
    mn_high = ((w[2] >> 4) & 0x0f0f0f0f) | ((w[1] >> 2) & 0x30303030);
    *sc = (w[0] & 0x3f3f3f3f) | (uint64_t) sc_high << 32;
    *mn = (w[1] & 0x3f3f3f3f) | (uint64_t) mn_high << 32;
}

#define OPEN_K4(name, Block)                                                                       \
    INLINE void name(const Block *b, __m256 *sc, __m256 *mn)                                       \
    {                                                                                              \
        uint64_t scales, mins;                                                                     \
                                                                                                   \
        scales_k4(b->scales, &scales, &mins);                                                      \
        *sc = _mm256_mul_ps(bytes_to_floats(scales), half_broadcast(b->d));                        \
        *mn = _mm256_mul_ps(bytes_to_floats(mins), half_broadcast(b->dmin));                       \
    }

OPEN_K4(open_q4_k, SluiceBlockQ4_K)
OPEN_K4(open_q5_k, SluiceBlockQ5_K)

INLINE void
open_iq4_xs(const SluiceBlockIQ4_XS *b, __m256 *sc, __m256 *mn)
{
    uint32_t low;
    __m256i scales;

    memcpy(&low, b->scales_l, sizeof low);
    scales = _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32((int) low),
                                                _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)),
                              _mm256_set1_epi32(15));
    scales = _mm256_or_si256(
        scales,
        _mm256_and_si256(
            _mm256_sllv_epi32(_mm256_srlv_epi32(_mm256_set1_epi32(b->scales_h),
                                                _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14)),
                              _mm256_set1_epi32(4)),
            _mm256_set1_epi32(0x30)));
    *sc = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(scales, _mm256_set1_epi32(32))),
                        half_broadcast(b->d));
    *mn = _mm256_setzero_ps();
}

/* 16 signed bytes as 16-bit values, those with even index in the lower half. */
INLINE __m256i
split_scales(__m128i bytes)
{
    const __m128i even_first = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);

    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(bytes, even_first));
}

/* factor times 16 signed bytes as floats in order. */
INLINE void
scale_floats(__m128i bytes, __m256 factor, __m256 *out)
{
    out[0] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), factor);
    out[1] =
        _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))), factor);
}

INLINE __m256
open_q6_k(const SluiceBlockQ6_K *b, __m256i *sc, __m256 *mn)
{
    const __m256 d = half_broadcast(b->d);
    const __m128i scales = load128(b->scales);

    *sc = split_scales(scales);
    scale_floats(scales, _mm256_mul_ps(d, _mm256_set1_ps(32)), mn);
    return d;
}

/* The 16 scales of 6 bits, less 32. */
INLINE __m128i
scales_q3_k(const SluiceBlockQ3_K *b)
{
    uint64_t low;
    uint32_t high;
    uint64_t first, second;

    memcpy(&low, b->scales, sizeof low);
    memcpy(&high, b->scales + 8, sizeof high);
    first = (uint64_t) ((high << 4) & 0x30303030) | (uint64_t) ((high << 2) & 0x30303030) << 32;
    second = (uint64_t) (high & 0x30303030) | (uint64_t) ((high >> 2) & 0x30303030) << 32;
    first |= low & 0x0f0f0f0f0f0f0f0f;
    second |= (low >> 4) & 0x0f0f0f0f0f0f0f0f;
    return _mm_sub_epi8(_mm_set_epi64x((long long) second, (long long) first), _mm_set1_epi8(32));
}

INLINE __m256
open_q3_k(const SluiceBlockQ3_K *b, __m256i *sc, __m256 *mn)
{
    const __m256 d = half_broadcast(b->d);
    const __m128i scales = scales_q3_k(b);

    *sc = split_scales(scales);
    scale_floats(scales, _mm256_mul_ps(d, _mm256_set1_ps(4)), mn);
    return d;
}

INLINE __m256
open_q2_k(const SluiceBlockQ2_K *b, __m256i *sc, __m256 *mn)
{
    const __m128i v = load128(b->scales);
    const __m128i mask = _mm_set1_epi8(15);

    *sc = split_scales(_mm_and_si128(v, mask));
    scale_floats(_mm_and_si128(_mm_srli_epi16(v, 4), mask), half_broadcast(b->dmin), mn);
    return half_broadcast(b->d);
}
