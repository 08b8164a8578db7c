/* SPDX-License-Identifier: MIT */
/*
 * Which instruction set levels this machine can run: what CPUID lists and what XCR0 says that the
 * operating system saves. AMX is never looked for: the kernel must grant it to each process, and
 * nothing here uses it.
 */
#include "config.h"

#include "cpu/sluice-cpu.h"

#include <string.h>

#ifdef HAVE_X86
#include <cpuid.h>

enum {
    XCR0_AVX = 0x06,    /* SSE and the upper halves of ymm */
    XCR0_AVX512 = 0xe6, /* and opmask, upper halves of zmm, zmm16-31 */
};

static uint64_t
read_xcr0(void)
{
    uint32_t low, high;

    /* XGETBV by name needs -mxsave, which this file must not be built with. */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t) high << 32 | low;
}

static SluiceCpuFeatures
detect_features(void)
{
    uint32_t a, b, c, d, b7, c7, d7, a71 = 0, unused;
    uint32_t features = 0;
    uint64_t xcr0;

    if (!__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    if (!(c & bit_OSXSAVE) || !(c & bit_AVX) || !(c & bit_FMA) || !(c & bit_F16C))
        return 0;
    xcr0 = read_xcr0();
    if ((xcr0 & XCR0_AVX) != XCR0_AVX)
        return 0;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || !(b7 & bit_AVX2))
        return 0;
    features |= SLUICE_CPU_AVX2;
    if (a >= 1 && __get_cpuid_count(7, 1, &a71, &unused, &unused, &unused) && (a71 & 1u << 4))
        features |= SLUICE_CPU_AVX_VNNI;
    if ((xcr0 & XCR0_AVX512) == XCR0_AVX512 && (b7 & bit_AVX512F) && (b7 & bit_AVX512BW) &&
        (b7 & bit_AVX512DQ) && (b7 & bit_AVX512VL) && (c7 & bit_AVX512VNNI))
        features |= SLUICE_CPU_AVX512;
    return features;
}
#else
static SluiceCpuFeatures
detect_features(void)
{
    return 0;
}
#endif

static const struct {
    const char *name;
    uint32_t mask;
} levels[] = {
    {"ref", 0},
    {"avx2", SLUICE_CPU_AVX2},
    {"avx-vnni", SLUICE_CPU_AVX2 | SLUICE_CPU_AVX_VNNI},
    {"avx512", SLUICE_CPU_AVX2 | SLUICE_CPU_AVX_VNNI | SLUICE_CPU_AVX512},
};

static gpointer
probe_features(gpointer data)
{
    uint32_t features = detect_features();
    const char *wanted = g_getenv("SLUICE_CPU_FEATURES");
    size_t i;

    if (wanted == NULL || *wanted == '\0')
        return GUINT_TO_POINTER(features);
    for (i = 0; i < G_N_ELEMENTS(levels); i++) {
        if (strcmp(levels[i].name, wanted) == 0)
            break;
    }
    if (i == G_N_ELEMENTS(levels)) {
        g_info("SLUICE_CPU_FEATURES is '%s', expected ref, avx2, avx-vnni or avx512: not heeded",
               wanted);
        return GUINT_TO_POINTER(features);
    }
    if (levels[i].mask != 0 && (features & levels[i].mask) == 0)
        g_info("SLUICE_CPU_FEATURES asks for '%s', which this processor lacks", wanted);
    return GUINT_TO_POINTER(features & levels[i].mask);
}

/**
 * sluice_cpu_features:
 *
 * Returns: the levels that this machine can run and the environment allows; probed once
 * Since: 0.1
 */
SluiceCpuFeatures
sluice_cpu_features(void)
{
    static GOnce once = G_ONCE_INIT;

    return (SluiceCpuFeatures) GPOINTER_TO_UINT(g_once(&once, probe_features, NULL));
}

/**
 * sluice_cpu_features_name:
 * @features: a set of levels
 *
 * Returns: the name of the highest level in @features, as SLUICE_CPU_FEATURES takes it
 * Since: 0.1
 */
const char *
sluice_cpu_features_name(SluiceCpuFeatures features)
{
    if (features & SLUICE_CPU_AVX512)
        return "avx512";
    if (features & SLUICE_CPU_AVX_VNNI)
        return "avx-vnni";
    return features & SLUICE_CPU_AVX2 ? "avx2" : "ref";
}
