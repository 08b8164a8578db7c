/* SPDX-License-Identifier: MIT */
/*
 * Names of the element types that a tensor can have. No functions, valid C and C++: kernels on
 * every side include this file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values are the type ids of the GGUF format; gaps are ids that the format has withdrawn. */
typedef enum {
    SLUICE_DTYPE_F32 = 0,
    SLUICE_DTYPE_F16 = 1,
    SLUICE_DTYPE_Q4_0 = 2,
    SLUICE_DTYPE_Q4_1 = 3,
    SLUICE_DTYPE_Q5_0 = 6,
    SLUICE_DTYPE_Q5_1 = 7,
    SLUICE_DTYPE_Q8_0 = 8,
    SLUICE_DTYPE_Q2_K = 10,
    SLUICE_DTYPE_Q3_K = 11,
    SLUICE_DTYPE_Q4_K = 12,
    SLUICE_DTYPE_Q5_K = 13,
    SLUICE_DTYPE_Q6_K = 14,
    SLUICE_DTYPE_IQ2_XXS = 16,
    SLUICE_DTYPE_IQ2_XS = 17,
    SLUICE_DTYPE_IQ3_XXS = 18,
    SLUICE_DTYPE_IQ1_S = 19,
    SLUICE_DTYPE_IQ4_NL = 20,
    SLUICE_DTYPE_IQ3_S = 21,
    SLUICE_DTYPE_IQ2_S = 22,
    SLUICE_DTYPE_IQ4_XS = 23,
    SLUICE_DTYPE_I8 = 24,
    SLUICE_DTYPE_I16 = 25,
    SLUICE_DTYPE_I32 = 26,
    SLUICE_DTYPE_I64 = 27,
    SLUICE_DTYPE_F64 = 28,
    SLUICE_DTYPE_IQ1_M = 29,
    SLUICE_DTYPE_BF16 = 30,
    SLUICE_DTYPE_TQ1_0 = 34,
    SLUICE_DTYPE_TQ2_0 = 35,
    SLUICE_DTYPE_MXFP4 = 39,
    SLUICE_DTYPE_NVFP4 = 40,
    SLUICE_DTYPE_Q1_0 = 41,
    SLUICE_DTYPE_Q2_0 = 42,
    SLUICE_DTYPE_COUNT = 43,
} SluiceDtype;

/* A range [begin, end) of whatever an operation can be cut into; end = 0 is the whole. */
typedef struct {
    int32_t begin;
    int32_t end;
} SluicePart;
