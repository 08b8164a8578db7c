/* SPDX-License-Identifier: MIT */
/* AVX2 forms of the unpack functions of cpu/dequant.c, which say what the bits mean. */
#include "config.h"

#include "cpu/quant-load.h"

/* ---- unpacking ------------------------------------------------------------------------------ */

#define UNPACK_SIMPLE(name, Block, load, flip, scale, has_min)                                     \
    static void unpack_##name(const void *block, uint8_t *q, float *d, float *m)                   \
    {                                                                                              \
        const __m256i v = load((const Block *) block);                                             \
        const __m128 dm = scale(block);                                                            \
                                                                                                   \
        _mm256_storeu_si256((__m256i *) q, _mm256_xor_si256(v, _mm256_set1_epi8((char) flip)));    \
        d[0] = _mm_cvtss_f32(dm);                                                                  \
        if (has_min)                                                                               \
            m[0] = -_mm_cvtss_f32(_mm_movehdup_ps(dm));                                            \
    }

UNPACK_SIMPLE(q4_0, SluiceBlockQ4_0, bytes_q4_0, 0, half_scale, false)
UNPACK_SIMPLE(q4_1, SluiceBlockQ4_1, bytes_q4_1, 0, half_pair, true)
UNPACK_SIMPLE(q5_0, SluiceBlockQ5_0, bytes_q5_0, 0, half_scale, false)
UNPACK_SIMPLE(q5_1, SluiceBlockQ5_1, bytes_q5_1, 0, half_pair, true)
UNPACK_SIMPLE(q8_0, SluiceBlockQ8_0, bytes_q8_0, 0x80, half_scale, false)
UNPACK_SIMPLE(iq4_nl, SluiceBlockIQ4_NL, signed_iq4_nl, 0x80, half_scale, false)
UNPACK_SIMPLE(mxfp4, SluiceBlockMXFP4, bytes_mxfp4, 0, e8m0_scale, false)

#define UNPACK_SUPER32(name, Block, open, load, flip, has_min)                                     \
    static void unpack_##name(const void *block, uint8_t *q, float *d, float *m)                   \
    {                                                                                              \
        __m256 sc, mn;                                                                             \
                                                                                                   \
        open((const Block *) block, &sc, &mn);                                                     \
        _mm256_storeu_ps(d, sc);                                                                   \
        if (has_min)                                                                               \
            _mm256_storeu_ps(m, mn);                                                               \
        UNROLL for (int i = 0; i < 8; i++) _mm256_storeu_si256(                                    \
            (__m256i *) (q + 32 * i),                                                              \
            _mm256_xor_si256(load((const Block *) block, i), _mm256_set1_epi8((char) flip)));      \
    }

UNPACK_SUPER32(q4_k, SluiceBlockQ4_K, open_q4_k, bytes_q4_k, 0, true)
UNPACK_SUPER32(q5_k, SluiceBlockQ5_K, open_q5_k, bytes_q5_k, 0, true)
UNPACK_SUPER32(iq4_xs, SluiceBlockIQ4_XS, open_iq4_xs, signed_iq4_xs, 0x80, false)

#define UNPACK_SUPER16(name, Block, scales, load)                                                  \
    static void unpack_##name(const void *block, uint8_t *q, float *d, float *m)                   \
    {                                                                                              \
        const Block *b = block;                                                                    \
                                                                                                   \
        scales(b, d, m);                                                                           \
        UNROLL for (int i = 0; i < 8; i++)                                                         \
            _mm256_storeu_si256((__m256i *) (q + 32 * i), load(b, i));                             \
    }

INLINE void
store_scales(__m128i bytes, uint16_t factor, float *out)
{
    __m256 v[2];

    scale_floats(bytes, half_broadcast(factor), v);
    _mm256_storeu_ps(out, v[0]);
    _mm256_storeu_ps(out + 8, v[1]);
}

INLINE void
floats_q6_k(const SluiceBlockQ6_K *b, float *d, float *m)
{
    store_scales(load128(b->scales), b->d, d);
}

INLINE void
floats_q3_k(const SluiceBlockQ3_K *b, float *d, float *m)
{
    store_scales(scales_q3_k(b), b->d, d);
}

INLINE void
floats_q2_k(const SluiceBlockQ2_K *b, float *d, float *m)
{
    const __m128i v = load128(b->scales);
    const __m128i mask = _mm_set1_epi8(15);

    store_scales(_mm_and_si128(v, mask), b->d, d);
    store_scales(_mm_and_si128(_mm_srli_epi16(v, 4), mask), b->dmin, m);
}

UNPACK_SUPER16(q6_k, SluiceBlockQ6_K, floats_q6_k, bytes_q6_k)
UNPACK_SUPER16(q3_k, SluiceBlockQ3_K, floats_q3_k, bytes_q3_k)
UNPACK_SUPER16(q2_k, SluiceBlockQ2_K, floats_q2_k, bytes_q2_k)

/* ---- codebooks ------------------------------------------------------------------------------ */

/* 32 magnitudes with a sign bit each, moved up by the type's offset. */
INLINE void
store_signed(uint8_t *q, __m256i values, uint32_t signs, const int offset)
{
    const __m256i negative = spread_bits(signs, (char) 0xff);

    values = _mm256_sub_epi8(_mm256_xor_si256(values, negative), negative);
    _mm256_storeu_si256((__m256i *) q, _mm256_add_epi8(values, _mm256_set1_epi8((char) offset)));
}

/* Four 7-bit sign codes as 32 bits. */
INLINE uint32_t
signs_of_codes(const SluiceCpuIqTables *t, uint32_t codes)
{
    return t->signs[codes & 127] | (uint32_t) t->signs[(codes >> 7) & 127] << 8 |
           (uint32_t) t->signs[(codes >> 14) & 127] << 16 |
           (uint32_t) t->signs[(codes >> 21) & 127] << 24;
}

INLINE __m256i
four_entries(const uint64_t *grid, unsigned i0, unsigned i1, unsigned i2, unsigned i3)
{
    return _mm256_setr_epi64x((long long) grid[i0], (long long) grid[i1], (long long) grid[i2],
                              (long long) grid[i3]);
}

INLINE __m256i
eight_entries(const uint32_t *grid, const uint8_t *idx, unsigned high)
{
    int v[8];

    UNROLL for (int i = 0; i < 8; i++) v[i] = (int) grid[idx[i] | ((high >> i) & 1) << 8];
    return _mm256_setr_epi32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
}

/* factor * (2 s + 1) for the 16 scales s of 4 bits in eight bytes, low nibble first. */
INLINE void
store_odd_scales(const uint8_t *scales, float factor, float *d)
{
    for (int k = 0; k < 16; k++)
        d[k] = factor * (float) (2 * ((scales[k / 2] >> (4 * (k % 2))) & 15) + 1);
}

INLINE float
half_float(uint16_t h)
{
    return _mm_cvtss_f32(half_scale(&h));
}

static void
unpack_iq2_xxs(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ2_XXS *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    const float scale = half_float(b->d) * 0.125f;

    for (int i = 0; i < 8; i++) {
        const uint8_t *idx = b->group[i].idx;
        const uint32_t a = b->group[i].signs_scale;

        store_signed(q + 32 * i, four_entries(t->iq2_xxs, idx[0], idx[1], idx[2], idx[3]),
                     signs_of_codes(t, a), 43);
        d[i] = scale * (float) (2 * (int) (a >> 28) + 1);
    }
}

static void
unpack_iq2_xs(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ2_XS *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();

    for (int i = 0; i < 8; i++) {
        uint16_t w[4];

        memcpy(w, (const uint8_t *) block + 2 + 8 * i, sizeof w);
        store_signed(
            q + 32 * i, four_entries(t->iq2_xs, w[0] & 511, w[1] & 511, w[2] & 511, w[3] & 511),
            t->signs[w[0] >> 9] | (uint32_t) t->signs[w[1] >> 9] << 8 |
                (uint32_t) t->signs[w[2] >> 9] << 16 | (uint32_t) t->signs[w[3] >> 9] << 24,
            43);
    }
    store_odd_scales(b->scales, half_float(b->d) * 0.125f, d);
}

static void
unpack_iq2_s(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ2_S *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();

    for (int i = 0; i < 8; i++) {
        const uint8_t *idx = b->idx + 4 * i;
        const unsigned high = b->qh[i];
        uint32_t signs;

        memcpy(&signs, b->signs + 4 * i, sizeof signs);
        store_signed(q + 32 * i,
                     four_entries(t->iq2_s, idx[0] | (high & 3) << 8, idx[1] | (high & 12) << 6,
                                  idx[2] | (high & 48) << 4, idx[3] | (high & 192) << 2),
                     signs, 43);
    }
    store_odd_scales(b->scales, half_float(b->d) * 0.125f, d);
}

static void
unpack_iq3_xxs(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ3_XXS *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    const float scale = half_float(b->d) * 0.25f;

    for (int i = 0; i < 8; i++) {
        const uint32_t a = b->signs_scale[i];

        store_signed(q + 32 * i, eight_entries(t->iq3_xxs, b->idx + 8 * i, 0), signs_of_codes(t, a),
                     62);
        d[i] = scale * (float) (2 * (int) (a >> 28) + 1);
    }
}

static void
unpack_iq3_s(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ3_S *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    const float scale = half_float(b->d);

    for (int i = 0; i < 8; i++) {
        uint32_t signs;

        memcpy(&signs, b->signs + 4 * i, sizeof signs);
        store_signed(q + 32 * i, eight_entries(t->iq3_s, b->idx + 8 * i, b->qh[i]), signs, 15);
        d[i] = scale * (float) (1 + 2 * ((b->scales[i / 2] >> (4 * (i % 2))) & 15));
    }
}

static void
unpack_iq1_s(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ1_S *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    const float scale = half_float(b->d) * 0.125f;

    for (int i = 0; i < 8; i++) {
        const uint8_t *idx = b->idx + 4 * i;
        const unsigned w = b->qh[i];
        const __m256i v = four_entries(t->iq1, idx[0] | (w & 7) << 8, idx[1] | (w & 0x38) << 5,
                                       idx[2] | (w & 0x1c0) << 2, idx[3] | ((w >> 9) & 7) << 8);

        _mm256_storeu_si256((__m256i *) (q + 32 * i),
                            _mm256_add_epi8(v, _mm256_set1_epi8(w >> 15 ? 8 : 10)));
        d[i] = scale * (float) (2 * (int) ((w >> 12) & 7) + 1);
    }
}

static void
unpack_iq1_m(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockIQ1_M *b = block;
    const SluiceCpuIqTables *t = sluice_cpu_iq_tables();
    uint64_t w;
    float scale;

    memcpy(&w, b->scales, sizeof w);
    scale = half_float((uint16_t) (((w >> 12) & 0x000f) | ((w >> 24) & 0x00f0) |
                                   ((w >> 36) & 0x0f00) | ((w >> 48) & 0xf000))) *
            0.125f;
    for (int i = 0; i < 8; i++) {
        const uint8_t *idx = b->idx + 4 * i;
        unsigned h[4];
        long long shift[4];

        UNROLL for (int l = 0; l < 4; l++)
        {
            h[l] = (b->qh[2 * i + l / 2] >> (4 * (l % 2))) & 15;
            shift[l] = h[l] & 8 ? 0x0808080808080808 : 0x0a0a0a0a0a0a0a0a;
        }
        _mm256_storeu_si256(
            (__m256i *) (q + 32 * i),
            _mm256_add_epi8(four_entries(t->iq1, idx[0] | (h[0] & 7) << 8, idx[1] | (h[1] & 7) << 8,
                                         idx[2] | (h[2] & 7) << 8, idx[3] | (h[3] & 7) << 8),
                            _mm256_setr_epi64x(shift[0], shift[1], shift[2], shift[3])));
    }
    for (int k = 0; k < 16; k++)
        d[k] = scale * (float) (2 * (int) ((w >> (16 * (k / 4) + 3 * (k % 4))) & 7) + 1);
}

/* ---- bits and ternary ----------------------------------------------------------------------- */

static void
unpack_tq2_0(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockTQ2_0 *b = block;

    UNROLL for (int i = 0; i < 8; i++) _mm256_storeu_si256(
        (__m256i *) (q + 32 * i), move_bits(load256(b->qs + 32 * (i / 4)), 2 * (i % 4), 0, 3));
    _mm256_storeu_ps(d, half_broadcast(b->d));
}

static void
unpack_q1_0(const void *block, uint8_t *q, float *d, float *m)
{
    const SluiceBlockQ1_0 *b = block;

    for (int i = 0; i < 4; i++) {
        uint32_t bits;

        memcpy(&bits, b->qs + 4 * i, sizeof bits);
        _mm256_storeu_si256((__m256i *) (q + 32 * i), spread_bits(bits, 2));
    }
    _mm_storeu_ps(d, _mm256_castps256_ps128(half_broadcast(b->d)));
}

/* ---- the table ------------------------------------------------------------------------------ */

void
sluice_cpu_quant_unpack_init_avx2(SluiceCpuQuantKernels *k)
{
    static const struct {
        SluiceDtype dtype;
        SluiceCpuUnpackFn unpack;
    } fast[] = {
        {SLUICE_DTYPE_Q4_0, unpack_q4_0},       {SLUICE_DTYPE_Q4_1, unpack_q4_1},
        {SLUICE_DTYPE_Q5_0, unpack_q5_0},       {SLUICE_DTYPE_Q5_1, unpack_q5_1},
        {SLUICE_DTYPE_Q8_0, unpack_q8_0},       {SLUICE_DTYPE_IQ4_NL, unpack_iq4_nl},
        {SLUICE_DTYPE_MXFP4, unpack_mxfp4},     {SLUICE_DTYPE_Q2_K, unpack_q2_k},
        {SLUICE_DTYPE_Q3_K, unpack_q3_k},       {SLUICE_DTYPE_Q4_K, unpack_q4_k},
        {SLUICE_DTYPE_Q5_K, unpack_q5_k},       {SLUICE_DTYPE_Q6_K, unpack_q6_k},
        {SLUICE_DTYPE_IQ4_XS, unpack_iq4_xs},   {SLUICE_DTYPE_IQ2_XXS, unpack_iq2_xxs},
        {SLUICE_DTYPE_IQ2_XS, unpack_iq2_xs},   {SLUICE_DTYPE_IQ2_S, unpack_iq2_s},
        {SLUICE_DTYPE_IQ3_XXS, unpack_iq3_xxs}, {SLUICE_DTYPE_IQ3_S, unpack_iq3_s},
        {SLUICE_DTYPE_IQ1_S, unpack_iq1_s},     {SLUICE_DTYPE_IQ1_M, unpack_iq1_m},
        {SLUICE_DTYPE_TQ2_0, unpack_tq2_0},     {SLUICE_DTYPE_Q1_0, unpack_q1_0},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(fast); i++)
        k->types[fast[i].dtype].unpack = fast[i].unpack;
}
