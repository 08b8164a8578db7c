/* SPDX-License-Identifier: MIT */
/*
 * The table of kernels: one slot per hot loop, filled with the scalar reference first and then by
 * each instruction set level that the machine has. The scalar reference is the definition.
 *
 * Unless a slot says otherwise: pointers need no alignment beyond their type's, n may be any
 * number, outputs may be an input but not overlap one in part, and float32 results agree with the
 * reference to NMSE 1e-7.
 */
#pragma once

#include "cpu/blas.h"
#include "cpu/matmul.h"
#include "cpu/quant.h"
#include "cpu/sluice-cpu.h"

G_BEGIN_DECLS

typedef struct SluiceCpuKernels SluiceCpuKernels;

/* y = a + b. */
typedef void (*SluiceCpuAddFn)(float *y, const float *a, const float *b, int64_t n);
/* y = factor * x. */
typedef void (*SluiceCpuScaleFn)(float *y, const float *x, float factor, int64_t n);
/* y += factor * x. */
typedef void (*SluiceCpuAxpyFn)(float *y, const float *x, float factor, int64_t n);
/* The sum of a * b. */
typedef float (*SluiceCpuDotF32Fn)(const float *a, const float *b, int64_t n);
/* y = cap * tanh(x / cap). */
typedef void (*SluiceCpuSoftCapFn)(float *y, const float *x, float cap, int64_t n);
/* y = x / sqrt(mean(x^2) + eps) * weight; weight NULL: ones. */
typedef void (*SluiceCpuRmsNormFn)(float *y, const float *x, const float *weight, int64_t n,
                                   float eps);
/* y = f(g) * u, where f is the slot's activation; clamps as SLUICE_ACTIVATION_SWIGLU_OAI says. */
typedef void (*SluiceCpuGluFn)(float *y, const float *g, const float *u, int64_t n);
/* Rotates n pairs of x by the angles whose cosines and sines are given, in place. */
typedef void (*SluiceCpuRopeFn)(float *x, const float *cosines, const float *sines, int64_t n);
/* The first index >= begin with x[index] > bound, or n. NaN is not greater. */
typedef int64_t (*SluiceCpuFindAboveFn)(const float *x, int64_t begin, int64_t n, float bound);

/* The element types that a KV page can have, as indices of slot arrays. */
typedef enum {
    SLUICE_CPU_KV_F32,
    SLUICE_CPU_KV_F16,
    SLUICE_CPU_KV_Q8_0,
    SLUICE_CPU_KV_Q4_0,
    SLUICE_CPU_KV_COUNT,
} SluiceCpuKvType;

/* Packs n floats into a page's row. n is a multiple of 32 for Q8_0 and Q4_0. */
typedef void (*SluiceCpuKvStoreFn)(void *row, const float *x, int64_t n);
/* Unpacks n values of a page's row; exact. */
typedef void (*SluiceCpuKvLoadFn)(float *x, const void *row, int64_t n);
/*
 * scores[i * ld_scores + j] = queries[i * dim] . key j, for n_queries queries and n_keys keys that
 * lie one behind the other.
 */
typedef void (*SluiceCpuScoresFn)(float *scores, int64_t ld_scores, const float *queries,
                                  int64_t n_queries, const void *keys, int64_t n_keys, int64_t dim);
/* out[i * dim] += sum over j of probs[i * ld_probs + j] * value j. */
typedef void (*SluiceCpuValuesFn)(float *out, const float *probs, int64_t ld_probs,
                                  int64_t n_queries, const void *values, int64_t n_values,
                                  int64_t dim);
/*
 * One step of a softmax that sees its row in pieces: *max becomes the greatest so far, s becomes
 * exp(s - *max), *sum is rescaled and gains the sum of s. Returns the factor that earlier pieces
 * are to be scaled by. -INFINITY counts as masked; a piece may be masked whole.
 */
typedef float (*SluiceCpuSoftmaxFn)(float *s, int64_t n, float *max, float *sum);
/* c[m, n] = a[m, k] . b[k, n], or += with accumulate; ld are row lengths. No aliasing. */
typedef void (*SluiceCpuGemmFn)(float *c, int64_t ldc, const float *a, int64_t lda, const float *b,
                                int64_t ldb, int64_t m, int64_t n, int64_t k, bool accumulate);
/* y[j * ldy + i] = x[i * ldx + j] for n_rows rows of n_cols of x. No aliasing. */
typedef void (*SluiceCpuTransposeFn)(float *y, int64_t ldy, const float *x, int64_t ldx,
                                     int64_t n_rows, int64_t n_cols);
/*
 * One token of the delta rule for one head: m [dim, dim] *= decay; delta = beta (v - m k);
 * m += delta k^T; out = m q. Rows of m are value positions.
 */
typedef void (*SluiceCpuDeltaFn)(float *out, float *m, const float *q, const float *k,
                                 const float *v, float decay, float beta, int64_t dim);
/*
 * y[c] = silu(sum over i of w[c * n_kernel + i] * inputs[i][c]) for n channels.
 */
typedef void (*SluiceCpuConvFn)(float *y, const float *w, const float *const *inputs,
                                int64_t n_kernel, int64_t n);

struct SluiceCpuKernels {
    SluiceCpuFeatures features;

    SluiceCpuAddFn add;
    SluiceCpuScaleFn scale;
    SluiceCpuAxpyFn axpy;
    SluiceCpuDotF32Fn dot_f32;
    SluiceCpuSoftCapFn soft_cap;
    SluiceCpuRmsNormFn rms_norm;
    SluiceCpuGluFn glu[4]; /* by SluiceActivation */
    SluiceCpuRopeFn rope_norm;
    SluiceCpuRopeFn rope_neox;
    SluiceCpuFindAboveFn find_above;
    SluiceCpuKvStoreFn kv_store[SLUICE_CPU_KV_COUNT];
    SluiceCpuKvLoadFn kv_load[SLUICE_CPU_KV_COUNT];
    SluiceCpuScoresFn scores[SLUICE_CPU_KV_COUNT];
    SluiceCpuValuesFn values[SLUICE_CPU_KV_COUNT];
    SluiceCpuSoftmaxFn softmax;
    SluiceCpuGemmFn gemm;
    SluiceCpuTransposeFn transpose;
    SluiceCpuDeltaFn delta_step;
    SluiceCpuConvFn conv;
    SluiceCpuSgemmFn sgemm;      /* OpenBLAS where an executor has it, else NULL */
    SluiceCpuQuantKernels quant; /* what cpu/matmul.c calls */
};

void sluice_cpu_kernels_init(SluiceCpuKernels *k, SluiceCpuFeatures features);

/* Each fills the slots that its file has. */
void sluice_cpu_ops_init_ref(SluiceCpuKernels *k);
void sluice_cpu_ops_init_avx2(SluiceCpuKernels *k);
void sluice_cpu_ops_init_avx512(SluiceCpuKernels *k);
/* The same source for AVX2, each vector as two halves; only in the tests. */
void sluice_cpu_ops_init_avx512_halves(SluiceCpuKernels *k);

G_END_DECLS
