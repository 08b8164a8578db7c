/* SPDX-License-Identifier: MIT */
/* The operations with AVX2, FMA and F16C. */
#include "config.h"

#define VL 8
#define LEVEL avx2
#include "cpu/ops-simd.h"
