/* SPDX-License-Identifier: MIT */
/* Codebooks of the IQ types as data; cpu/dequant.c expands them once. */
#pragma once

#include <glib.h>
#include <stdint.h>

G_BEGIN_DECLS

extern const uint16_t sluice_cpu_codes_iq2_xxs[256];
extern const uint16_t sluice_cpu_codes_iq2_xs[512];
extern const uint16_t sluice_cpu_codes_iq2_s[1024];
extern const uint16_t sluice_cpu_codes_iq1[2048];
extern const uint16_t sluice_cpu_codes_iq3_xxs[256];
extern const uint16_t sluice_cpu_codes_iq3_s[512];

/* The same as bytes, element 0 lowest. IQ1 entries are 8 * value: -8, 0 or 8. */
typedef struct {
    uint64_t iq2_xxs[256];
    uint64_t iq2_xs[512];
    uint64_t iq2_s[1024];
    uint64_t iq1[2048];
    uint32_t iq3_xxs[256];
    uint32_t iq3_s[512];
    uint8_t signs[128]; /* 7-bit sign code to 8 bits of even parity */
} SluiceCpuIqTables;

/* Expanded at the first call; threads: any. */
const SluiceCpuIqTables *sluice_cpu_iq_tables(void);

G_END_DECLS
