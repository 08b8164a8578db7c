/* SPDX-License-Identifier: MIT */
/*
 * The scalar reference of every slot but the quantised products: the definition that each faster
 * kernel is tested against. Sums run in index order.
 */
#include "config.h"

#include "cpu/half.h"
#include "cpu/kernels.h"

#include <math.h>

static void
add_ref(float *y, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void
scale_ref(float *y, const float *x, float factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = factor * x[i];
}

static void
axpy_ref(float *y, const float *x, float factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

static float
dot_f32_ref(const float *a, const float *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double) a[i] * (double) b[i];
    return (float) sum;
}

static void
soft_cap_ref(float *y, const float *x, float cap, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = cap * tanhf(x[i] / cap);
}

static void
rms_norm_ref(float *y, const float *x, const float *weight, int64_t n, float eps)
{
    double sum = 0;
    float factor;

    for (int64_t i = 0; i < n; i++)
        sum += (double) x[i] * (double) x[i];
    factor = 1.0f / sqrtf((float) (sum / (double) n) + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = weight != NULL ? x[i] * factor * weight[i] : x[i] * factor;
}

static float
sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static void
glu_silu_ref(float *y, const float *g, const float *u, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = g[i] * sigmoid(g[i]) * u[i];
}

static void
glu_gelu_tanh_ref(float *y, const float *g, const float *u, int64_t n)
{
    const float root = 0.79788456080286535588f; /* sqrt(2 / pi) */

    for (int64_t i = 0; i < n; i++) {
        float x = g[i];
        y[i] = 0.5f * x * (1.0f + tanhf(root * x * (1.0f + 0.044715f * x * x))) * u[i];
    }
}

static void
glu_sigmoid_ref(float *y, const float *g, const float *u, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = sigmoid(g[i]) * u[i];
}

static void
glu_oai_ref(float *y, const float *g, const float *u, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float gate = fminf(g[i], 7.0f);
        float up = fmaxf(fminf(u[i], 7.0f), -7.0f);
        y[i] = gate * sigmoid(1.702f * gate) * (up + 1.0f);
    }
}

static void
rope_norm_ref(float *x, const float *cosines, const float *sines, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float a = x[2 * i];
        float b = x[2 * i + 1];
        x[2 * i] = a * cosines[i] - b * sines[i];
        x[2 * i + 1] = a * sines[i] + b * cosines[i];
    }
}

static void
rope_neox_ref(float *x, const float *cosines, const float *sines, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float a = x[i];
        float b = x[i + n];
        x[i] = a * cosines[i] - b * sines[i];
        x[i + n] = a * sines[i] + b * cosines[i];
    }
}

static int64_t
find_above_ref(const float *x, int64_t begin, int64_t n, float bound)
{
    for (int64_t i = begin; i < n; i++) {
        if (x[i] > bound)
            return i;
    }
    return n;
}

/* ---- rows of a KV page ---------------------------------------------------------------------- */

static void
kv_store_f32_ref(void *row, const float *x, int64_t n)
{
    memcpy(row, x, (size_t) n * sizeof *x);
}

static void
kv_load_f32_ref(float *x, const void *row, int64_t n)
{
    memcpy(x, row, (size_t) n * sizeof *x);
}

static void
kv_store_f16_ref(void *row, const float *x, int64_t n)
{
    uint16_t *h = row;

    for (int64_t i = 0; i < n; i++)
        h[i] = sluice_half_from_float(x[i]);
}

static void
kv_load_f16_ref(float *x, const void *row, int64_t n)
{
    const uint16_t *h = row;

    for (int64_t i = 0; i < n; i++)
        x[i] = sluice_half_to_float(h[i]);
}

/* A block of 32 values as the file format has them: a half-precision scale, then the values. */
enum {
    KV_BLOCK = 32,
    KV_Q8_0_BYTES = 34,
    KV_Q4_0_BYTES = 18,
};

static float
block_scale(const uint8_t *block)
{
    uint16_t h;

    memcpy(&h, block, sizeof h);
    return sluice_half_to_float(h);
}

static void
kv_store_q8_0_ref(void *row, const float *x, int64_t n)
{
    uint8_t *block = row;

    for (int64_t i = 0; i < n; i += KV_BLOCK, block += KV_Q8_0_BYTES) {
        float amax = 0;
        for (int j = 0; j < KV_BLOCK; j++)
            amax = fmaxf(amax, fabsf(x[i + j]));
        float scale = amax / 127.0f;
        float inverse = scale > 0 ? 1.0f / scale : 0;
        uint16_t h = sluice_half_from_float(scale);
        memcpy(block, &h, sizeof h);
        for (int j = 0; j < KV_BLOCK; j++)
            block[2 + j] = (uint8_t) (int8_t) lrintf(x[i + j] * inverse);
    }
}

static void
kv_load_q8_0_ref(float *x, const void *row, int64_t n)
{
    const uint8_t *block = row;

    for (int64_t i = 0; i < n; i += KV_BLOCK, block += KV_Q8_0_BYTES) {
        float scale = block_scale(block);
        for (int j = 0; j < KV_BLOCK; j++)
            x[i + j] = scale * (float) (int8_t) block[2 + j];
    }
}

/* The value of greatest magnitude becomes -8, so that the sixteen steps are all used. */
static void
kv_store_q4_0_ref(void *row, const float *x, int64_t n)
{
    uint8_t *block = row;

    for (int64_t i = 0; i < n; i += KV_BLOCK, block += KV_Q4_0_BYTES) {
        float extreme = 0;
        for (int j = 0; j < KV_BLOCK; j++) {
            if (fabsf(x[i + j]) > fabsf(extreme))
                extreme = x[i + j];
        }
        float scale = extreme / -8.0f;
        float inverse = scale != 0 ? 1.0f / scale : 0;
        uint16_t h = sluice_half_from_float(scale);
        memcpy(block, &h, sizeof h);
        for (int j = 0; j < KV_BLOCK / 2; j++) {
            int low = (int) (x[i + j] * inverse + 8.5f);
            int high = (int) (x[i + j + KV_BLOCK / 2] * inverse + 8.5f);
            block[2 + j] = (uint8_t) (MIN(low, 15) | MIN(high, 15) << 4);
        }
    }
}

static void
kv_load_q4_0_ref(float *x, const void *row, int64_t n)
{
    const uint8_t *block = row;

    for (int64_t i = 0; i < n; i += KV_BLOCK, block += KV_Q4_0_BYTES) {
        float scale = block_scale(block);
        for (int j = 0; j < KV_BLOCK / 2; j++) {
            x[i + j] = scale * (float) ((block[2 + j] & 15) - 8);
            x[i + j + KV_BLOCK / 2] = scale * (float) ((block[2 + j] >> 4) - 8);
        }
    }
}

/* ---- attention ------------------------------------------------------------------------------ */

enum { MAX_HEAD_DIM = 1024 };

static void
scores_any_ref(float *scores, int64_t ld_scores, const float *queries, int64_t n_queries,
               const void *keys, int64_t n_keys, int64_t dim, SluiceCpuKvLoadFn load,
               size_t row_bytes)
{
    float key[MAX_HEAD_DIM];

    for (int64_t j = 0; j < n_keys; j++) {
        load(key, (const uint8_t *) keys + (size_t) j * row_bytes, dim);
        for (int64_t i = 0; i < n_queries; i++)
            scores[i * ld_scores + j] = dot_f32_ref(queries + i * dim, key, dim);
    }
}

static void
values_any_ref(float *out, const float *probs, int64_t ld_probs, int64_t n_queries,
               const void *values, int64_t n_values, int64_t dim, SluiceCpuKvLoadFn load,
               size_t row_bytes)
{
    float value[MAX_HEAD_DIM];

    for (int64_t j = 0; j < n_values; j++) {
        load(value, (const uint8_t *) values + (size_t) j * row_bytes, dim);
        for (int64_t i = 0; i < n_queries; i++)
            axpy_ref(out + i * dim, value, probs[i * ld_probs + j], dim);
    }
}

#define DEFINE_KV_REF(type, bytes)                                                                 \
    static void scores_##type##_ref(float *scores, int64_t ld_scores, const float *queries,        \
                                    int64_t n_queries, const void *keys, int64_t n_keys,           \
                                    int64_t dim)                                                   \
    {                                                                                              \
        scores_any_ref(scores, ld_scores, queries, n_queries, keys, n_keys, dim,                   \
                       kv_load_##type##_ref, (size_t) (bytes));                                    \
    }                                                                                              \
    static void values_##type##_ref(float *out, const float *probs, int64_t ld_probs,              \
                                    int64_t n_queries, const void *values, int64_t n_values,       \
                                    int64_t dim)                                                   \
    {                                                                                              \
        values_any_ref(out, probs, ld_probs, n_queries, values, n_values, dim,                     \
                       kv_load_##type##_ref, (size_t) (bytes));                                    \
    }

DEFINE_KV_REF(f32, dim * 4)
DEFINE_KV_REF(f16, dim * 2)
DEFINE_KV_REF(q8_0, dim / KV_BLOCK * KV_Q8_0_BYTES)
DEFINE_KV_REF(q4_0, dim / KV_BLOCK * KV_Q4_0_BYTES)

static float
softmax_ref(float *s, int64_t n, float *max, float *sum)
{
    float top = *max;
    float factor;
    double added = 0;

    for (int64_t i = 0; i < n; i++)
        top = fmaxf(top, s[i]);
    if (top == -INFINITY) {
        memset(s, 0, (size_t) n * sizeof *s);
        return 1;
    }
    factor = expf(*max - top);
    for (int64_t i = 0; i < n; i++) {
        s[i] = expf(s[i] - top);
        added += (double) s[i];
    }
    *sum = *sum * factor + (float) added;
    *max = top;
    return factor;
}

static void
gemm_ref(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb, int64_t m,
         int64_t n, int64_t k, bool accumulate)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = accumulate ? (double) c[i * ldc + j] : 0;
            for (int64_t l = 0; l < k; l++)
                sum += (double) a[i * lda + l] * (double) b[l * ldb + j];
            c[i * ldc + j] = (float) sum;
        }
    }
}

static void
transpose_ref(float *y, int64_t ldy, const float *x, int64_t ldx, int64_t n_rows, int64_t n_cols)
{
    for (int64_t i = 0; i < n_rows; i++) {
        for (int64_t j = 0; j < n_cols; j++)
            y[j * ldy + i] = x[i * ldx + j];
    }
}

/* ---- recurrent layers ----------------------------------------------------------------------- */

static void
delta_step_ref(float *out, float *m, const float *q, const float *k, const float *v, float decay,
               float beta, int64_t dim)
{
    for (int64_t j = 0; j < dim; j++) {
        float *row = m + j * dim;
        double p = 0;
        double o = 0;
        for (int64_t i = 0; i < dim; i++) {
            row[i] *= decay;
            p += (double) row[i] * (double) k[i];
        }
        float delta = beta * (v[j] - (float) p);
        for (int64_t i = 0; i < dim; i++) {
            row[i] += delta * k[i];
            o += (double) row[i] * (double) q[i];
        }
        out[j] = (float) o;
    }
}

static void
conv_ref(float *y, const float *w, const float *const *inputs, int64_t n_kernel, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        float sum = 0;
        for (int64_t i = 0; i < n_kernel; i++)
            sum += w[c * n_kernel + i] * inputs[i][c];
        y[c] = sum * sigmoid(sum);
    }
}

/* Fills every slot of this file's kinds. */
void
sluice_cpu_ops_init_ref(SluiceCpuKernels *k)
{
    k->add = add_ref;
    k->scale = scale_ref;
    k->axpy = axpy_ref;
    k->dot_f32 = dot_f32_ref;
    k->soft_cap = soft_cap_ref;
    k->rms_norm = rms_norm_ref;
    k->glu[SLUICE_ACTIVATION_SILU] = glu_silu_ref;
    k->glu[SLUICE_ACTIVATION_GELU_TANH] = glu_gelu_tanh_ref;
    k->glu[SLUICE_ACTIVATION_SIGMOID] = glu_sigmoid_ref;
    k->glu[SLUICE_ACTIVATION_SWIGLU_OAI] = glu_oai_ref;
    k->rope_norm = rope_norm_ref;
    k->rope_neox = rope_neox_ref;
    k->find_above = find_above_ref;
    k->kv_store[SLUICE_CPU_KV_F32] = kv_store_f32_ref;
    k->kv_store[SLUICE_CPU_KV_F16] = kv_store_f16_ref;
    k->kv_store[SLUICE_CPU_KV_Q8_0] = kv_store_q8_0_ref;
    k->kv_store[SLUICE_CPU_KV_Q4_0] = kv_store_q4_0_ref;
    k->kv_load[SLUICE_CPU_KV_F32] = kv_load_f32_ref;
    k->kv_load[SLUICE_CPU_KV_F16] = kv_load_f16_ref;
    k->kv_load[SLUICE_CPU_KV_Q8_0] = kv_load_q8_0_ref;
    k->kv_load[SLUICE_CPU_KV_Q4_0] = kv_load_q4_0_ref;
    k->scores[SLUICE_CPU_KV_F32] = scores_f32_ref;
    k->scores[SLUICE_CPU_KV_F16] = scores_f16_ref;
    k->scores[SLUICE_CPU_KV_Q8_0] = scores_q8_0_ref;
    k->scores[SLUICE_CPU_KV_Q4_0] = scores_q4_0_ref;
    k->values[SLUICE_CPU_KV_F32] = values_f32_ref;
    k->values[SLUICE_CPU_KV_F16] = values_f16_ref;
    k->values[SLUICE_CPU_KV_Q8_0] = values_q8_0_ref;
    k->values[SLUICE_CPU_KV_Q4_0] = values_q4_0_ref;
    k->softmax = softmax_ref;
    k->gemm = gemm_ref;
    k->transpose = transpose_ref;
    k->delta_step = delta_step_ref;
    k->conv = conv_ref;
}
