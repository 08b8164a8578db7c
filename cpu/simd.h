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
#else
#include <immintrin.h>
#endif
