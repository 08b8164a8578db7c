/* SPDX-License-Identifier: MIT */
/*
 * The scalar reference of the matrix products: quantisation of activations, and a row of any
 * type against a row of activations. Faster kernels are tested against these.
 */
#include "config.h"

#include <math.h>

#include "cpu/half.h"
#include "cpu/quant.h"

static void
quantise_ref(const float *x, int64_t n, int8_t *q, float *d, float *s32, float *s16)
{
    g_assert(n % 32 == 0);
    for (int64_t b = 0; b < n / 32; b++, x += 32, q += 32) {
        float amax = 0;
        float inverse;
        int sums[2] = {0, 0};

        for (int e = 0; e < 32; e++)
            amax = fmaxf(amax, fabsf(x[e]));
        if (amax < SLUICE_CPU_Q8_MIN)
            amax = 0;
        d[b] = amax / 127.0f;
        inverse = amax > 0 ? 127.0f / amax : 0;
        for (int e = 0; e < 32; e++) {
            float scaled = fminf(fmaxf(x[e] * inverse, -127), 127);

            q[e] = (int8_t) lrintf(scaled);
            sums[e / 16] += q[e];
        }
        s16[2 * b] = d[b] * (float) sums[0];
        s16[2 * b + 1] = d[b] * (float) sums[1];
        s32[b] = d[b] * (float) (sums[0] + sums[1]);
    }
}

/* One block against the activations that it meets; idx is its first element. */
static float
dot_block_ref(const SluiceCpuQuantType *type, const uint8_t *q, const float *d, const float *m,
              const SluiceCpuQ8Row *x, int64_t idx)
{
    float acc = 0;

    for (int k = 0; k < type->block_len / type->sub_len; k++) {
        int64_t first = idx + k * type->sub_len;
        float scale = x->d[first / 32];
        int product = 0;
        int sum = 0;

        for (int e = 0; e < type->sub_len; e++) {
            int a = x->q[first + e];

            product += (q[k * type->sub_len + e] - type->offset) * a;
            sum += a;
        }
        acc += d[k] * scale * (float) product;
        if (type->has_min)
            acc -= m[k] * scale * (float) sum;
    }
    return acc;
}

static void
gemv_ref(const SluiceCpuQuantType *type, const uint8_t *rows, size_t row_stride, int64_t n_rows,
         int64_t n_cols, const SluiceCpuQ8Row *x, int n_x, float *y, int64_t ldy)
{
    uint8_t q[SLUICE_CPU_BLOCK_MAX];
    float d[SLUICE_CPU_BLOCK_MAX / 16];
    float m[SLUICE_CPU_BLOCK_MAX / 16];

    g_assert(n_cols % type->block_len == 0 && n_x >= 1 && n_x <= SLUICE_CPU_GEMV_MAX);
    for (int64_t j = 0; j < n_rows; j++, rows += row_stride) {
        float acc[SLUICE_CPU_GEMV_MAX] = {0};
        const uint8_t *block = rows;

        for (int64_t i = 0; i < n_cols; i += type->block_len, block += type->block_bytes) {
            type->unpack(block, q, d, m);
            for (int t = 0; t < n_x; t++)
                acc[t] += dot_block_ref(type, q, d, m, &x[t], i);
        }
        for (int t = 0; t < n_x; t++)
            y[t * ldy + j] = acc[t];
    }
}

/* Float rows: four partial sums, so that long rows lose little. */
#define GEMV_FLOAT_REF(name, type, convert)                                                        \
    static void gemv_##name##_ref(const void *rows, size_t row_stride, int64_t n_rows,             \
                                  int64_t n_cols, const float *const *x, int n_x, float *y,        \
                                  int64_t ldy)                                                     \
    {                                                                                              \
        for (int64_t j = 0; j < n_rows; j++) {                                                     \
            const uint8_t *row = (const uint8_t *) rows + (size_t) j * row_stride;                 \
            for (int t = 0; t < n_x; t++) {                                                        \
                float acc[4] = {0, 0, 0, 0};                                                       \
                for (int64_t i = 0; i < n_cols; i++) {                                             \
                    type w;                                                                        \
                    memcpy(&w, row + (size_t) i * sizeof w, sizeof w);                             \
                    acc[i % 4] += convert(w) * x[t][i];                                            \
                }                                                                                  \
                y[t * ldy + j] = (acc[0] + acc[1]) + (acc[2] + acc[3]);                            \
            }                                                                                      \
        }                                                                                          \
    }

GEMV_FLOAT_REF(f32, float, )
GEMV_FLOAT_REF(f16, uint16_t, sluice_half_to_float)
GEMV_FLOAT_REF(bf16, uint16_t, sluice_bf16_to_float)

void
sluice_cpu_quant_init(SluiceCpuQuantKernels *k, SluiceCpuFeatures features)
{
    memset(k, 0, sizeof *k);
    k->quantise = quantise_ref;
    for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
        k->types[i] = sluice_cpu_quant_types[i];
        if (k->types[i].block_len != 0)
            k->types[i].gemv = gemv_ref;
    }
    k->types[SLUICE_DTYPE_F32].gemv_float = gemv_f32_ref;
    k->types[SLUICE_DTYPE_F16].gemv_float = gemv_f16_ref;
    k->types[SLUICE_DTYPE_BF16].gemv_float = gemv_bf16_ref;
#ifdef HAVE_X86
    if (features & SLUICE_CPU_AVX2)
        sluice_cpu_quant_init_avx2(k);
    if (features & SLUICE_CPU_AVX_VNNI)
        sluice_cpu_quant_init_avxvnni(k);
    if (features & SLUICE_CPU_AVX512)
        sluice_cpu_quant_init_avx512(k);
#endif
}
