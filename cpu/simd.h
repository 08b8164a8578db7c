/* SPDX-License-Identifier: MIT */
/*
 * Vector intrinsics for the level files. With SLUICE_SIMDE the same names come from SIMDe, so that
 * a level can be tested on a processor that lacks it.
 */
#pragma once

#ifdef SLUICE_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

/* SIMDe 0.7 lacks this one. Intel's definition: each 32-bit integer becomes the nearest float. */
static inline simde__m512
sluice_simde_cvtepi32_ps(simde__m512i v)
{
    int32_t in[16];
    float out[16];

    simde_mm512_storeu_si512(in, v);
    for (int i = 0; i < 16; i++)
        out[i] = (float) in[i];
    return simde_mm512_loadu_ps(out);
}
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(v) sluice_simde_cvtepi32_ps(v)
#else
#include <immintrin.h>
#endif

/* Adds four products of unsigned by signed bytes to each 32-bit sum; AVX-VNNI and AVX-512 VNNI
 * have it under two names. */
#if defined(SLUICE_SIMDE)
#define sluice_dpbusd_256 simde_mm256_dpbusd_epi32
#elif defined(__AVX512VNNI__)
#define sluice_dpbusd_256 _mm256_dpbusd_epi32
#elif defined(__AVXVNNI__)
#define sluice_dpbusd_256 _mm256_dpbusd_avx_epi32
#endif

/* Level files are built a second time for the tests with SLUICE_SIMDE: under another name. */
#ifdef SLUICE_SIMDE
#define SLUICE_LEVEL_NAME(name) name##_simde
#else
#define SLUICE_LEVEL_NAME(name) name
#endif
