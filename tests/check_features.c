/* SPDX-License-Identifier: MIT */
/* Which levels are seen, and how the environment masks them. */
#include "config.h"

#include <string.h>

#include "cpu/kernels.h"
#include "tests/suite.h"

/* Flags of the first processor as the kernel lists them, or NULL. */
static char *
kernel_flags(void)
{
    char *text = NULL;
    char *line;
    char *copy;

    if (!g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL))
        return NULL;
    line = strstr(text, "\nflags");
    copy = line != NULL ? g_strndup(line + 1, strcspn(line + 1, "\n")) : NULL;
    g_free(text);
    return copy;
}

static bool
lists(const char *flags, const char *name)
{
    g_auto(GStrv) words = g_strsplit(flags, " ", -1);

    return g_strv_contains((const char *const *) words, name);
}

/* The kernel lists a flag only where it also saves the registers. */
START_TEST(levels_agree_with_the_kernel)
{
    g_autofree char *flags = kernel_flags();
    uint32_t features = sluice_cpu_features();
    bool has_avx2;

    if (flags == NULL)
        return;
    has_avx2 = lists(flags, "avx2") && lists(flags, "fma") && lists(flags, "f16c");
    ck_assert_int_eq((features & SLUICE_CPU_AVX2) != 0, has_avx2);
    ck_assert_int_eq((features & SLUICE_CPU_AVX_VNNI) != 0, has_avx2 && lists(flags, "avx_vnni"));
    ck_assert_int_eq((features & SLUICE_CPU_AVX512) != 0,
                     has_avx2 && lists(flags, "avx512f") && lists(flags, "avx512bw") &&
                         lists(flags, "avx512dq") && lists(flags, "avx512vl") &&
                         lists(flags, "avx512_vnni"));
}
END_TEST

/* Each test runs in a process of its own, so that the probe happens anew. */
START_TEST(ref_masks_everything)
{
    g_setenv("SLUICE_CPU_FEATURES", "ref", TRUE);
    ck_assert_int_eq(sluice_cpu_features(), 0);
    ck_assert_str_eq(sluice_cpu_features_name(sluice_cpu_features()), "ref");
}
END_TEST

START_TEST(avx2_masks_what_is_above)
{
    g_setenv("SLUICE_CPU_FEATURES", "avx2", TRUE);
    ck_assert_int_eq(sluice_cpu_features() & ~(uint32_t) SLUICE_CPU_AVX2, 0);
}
END_TEST

START_TEST(unknown_masks_are_not_heeded)
{
    g_setenv("SLUICE_CPU_FEATURES", "quantum", TRUE);
    uint32_t features = sluice_cpu_features();
    SluiceCpuKernels k;

    sluice_cpu_kernels_init(&k, (SluiceCpuFeatures) features);
    ck_assert_int_eq(k.features, features);
    ck_assert_str_eq(sluice_cpu_features_name((SluiceCpuFeatures) features),
                     features & SLUICE_CPU_AVX512     ? "avx512"
                     : features & SLUICE_CPU_AVX_VNNI ? "avx-vnni"
                     : features & SLUICE_CPU_AVX2     ? "avx2"
                                                      : "ref");
}
END_TEST

START_TEST(tables_have_no_empty_slot)
{
    SluiceCpuKernels k;
    SluiceCpuKernels ref;

    memset(&ref, 0, sizeof ref);
    sluice_cpu_kernels_init(&ref, 0);
    sluice_cpu_kernels_init(&k, sluice_cpu_features());
    ck_assert_ptr_nonnull(ref.add);
    ck_assert_ptr_nonnull(ref.conv);
    if (sluice_cpu_features() & SLUICE_CPU_AVX2) {
        ck_assert_ptr_ne(k.gemm, ref.gemm);
        ck_assert_ptr_ne(k.softmax, ref.softmax);
    } else {
        ck_assert_ptr_eq(k.gemm, ref.gemm);
    }
    for (int i = 0; i < SLUICE_CPU_KV_COUNT; i++) {
        ck_assert_ptr_nonnull(k.kv_store[i]);
        ck_assert_ptr_nonnull(k.scores[i]);
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("features");
    TCase *tc = tcase_create("levels");

    g_unsetenv("SLUICE_CPU_FEATURES");
    tcase_add_test(tc, levels_agree_with_the_kernel);
    tcase_add_test(tc, ref_masks_everything);
    tcase_add_test(tc, avx2_masks_what_is_above);
    tcase_add_test(tc, unknown_masks_are_not_heeded);
    tcase_add_test(tc, tables_have_no_empty_slot);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
