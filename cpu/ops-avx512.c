/* SPDX-License-Identifier: MIT */
/* The operations with AVX-512; built for AVX2 with SLUICE_HALVES, for tests on other machines. */
#include "config.h"

#define VL 16
#ifdef SLUICE_HALVES
#define LEVEL avx512_halves
#else
#define LEVEL avx512
#endif
#include "cpu/ops-simd.h"
