/* SPDX-License-Identifier: MIT */
/* Fills the table of kernels, level over level. */
#include "config.h"

#include "cpu/kernels.h"

/**
 * sluice_cpu_kernels_init:
 * @k: the table to fill
 * @features: the levels that may be used; the machine must have them
 *
 * Threads: any.
 * Since: 0.1
 */
void
sluice_cpu_kernels_init(SluiceCpuKernels *k, SluiceCpuFeatures features)
{
    sluice_cpu_ops_init_ref(k);
    sluice_cpu_quant_init(&k->quant, features);
    k->sgemm = NULL;
    k->features = features;
#ifdef HAVE_X86
    if (features & SLUICE_CPU_AVX2)
        sluice_cpu_ops_init_avx2(k);
    if (features & SLUICE_CPU_AVX512)
        sluice_cpu_ops_init_avx512(k);
#endif
}
