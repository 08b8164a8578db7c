/* SPDX-License-Identifier: MIT */
/*
 * Layouts of the quantised blocks that a GGUF file holds. No functions, valid C and C++: the
 * kernels of every processor include this file. Halfs are raw bits in uint16_t; all fields are
 * little-endian. Structs are packed: a block may start at any byte.
 *
 * "Half-split" nibbles: byte j of 16 holds element j in its low and element j + 16 in its high
 * half. What the fields mean is written once, in cpu/dequant.c.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
#define SLUICE_BLOCK_SIZE(type, n_bytes) static_assert(sizeof(type) == (n_bytes), #type)
#else
#define SLUICE_BLOCK_SIZE(type, n_bytes) _Static_assert(sizeof(type) == (n_bytes), #type)
#endif
#define SLUICE_PACKED __attribute__((packed))

/* Elements in a block of the K, IQ1 to IQ3, IQ4_XS and TQ types. */
#define SLUICE_SUPER_LEN 256

/* ---- 32 elements ---------------------------------------------------------------------------- */

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint8_t qs[16]; /* half-split */
} SluiceBlockQ4_0;
SLUICE_BLOCK_SIZE(SluiceBlockQ4_0, 18);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint16_t m;
    uint8_t qs[16]; /* half-split */
} SluiceBlockQ4_1;
SLUICE_BLOCK_SIZE(SluiceBlockQ4_1, 20);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint32_t qh;    /* bit e is bit 4 of element e */
    uint8_t qs[16]; /* half-split */
} SluiceBlockQ5_0;
SLUICE_BLOCK_SIZE(SluiceBlockQ5_0, 22);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint16_t m;
    uint32_t qh;
    uint8_t qs[16]; /* half-split */
} SluiceBlockQ5_1;
SLUICE_BLOCK_SIZE(SluiceBlockQ5_1, 24);

typedef struct SLUICE_PACKED {
    uint16_t d;
    int8_t qs[32];
} SluiceBlockQ8_0;
SLUICE_BLOCK_SIZE(SluiceBlockQ8_0, 34);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint8_t qs[16]; /* half-split */
} SluiceBlockIQ4_NL;
SLUICE_BLOCK_SIZE(SluiceBlockIQ4_NL, 18);

typedef struct SLUICE_PACKED {
    uint8_t e;      /* E8M0 */
    uint8_t qs[16]; /* half-split */
} SluiceBlockMXFP4;
SLUICE_BLOCK_SIZE(SluiceBlockMXFP4, 17);

/* ---- 64 and 128 elements -------------------------------------------------------------------- */

typedef struct SLUICE_PACKED {
    uint8_t d[4];   /* UE4M3, one per 16 */
    uint8_t qs[32]; /* per 16 elements: 8 bytes, element j low and j + 8 high */
} SluiceBlockNVFP4;
SLUICE_BLOCK_SIZE(SluiceBlockNVFP4, 36);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint8_t qs[16];
} SluiceBlockQ2_0;
SLUICE_BLOCK_SIZE(SluiceBlockQ2_0, 18);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint8_t qs[16];
} SluiceBlockQ1_0;
SLUICE_BLOCK_SIZE(SluiceBlockQ1_0, 18);

/* ---- 256 elements --------------------------------------------------------------------------- */

typedef struct SLUICE_PACKED {
    uint8_t scales[16]; /* per 16: scale low, minimum high */
    uint8_t qs[64];
    uint16_t d;
    uint16_t dmin;
} SluiceBlockQ2_K;
SLUICE_BLOCK_SIZE(SluiceBlockQ2_K, 84);

typedef struct SLUICE_PACKED {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12]; /* 16 of 6 bits */
    uint16_t d;
} SluiceBlockQ3_K;
SLUICE_BLOCK_SIZE(SluiceBlockQ3_K, 110);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12]; /* eight pairs of 6 bits */
    uint8_t qs[128];
} SluiceBlockQ4_K;
SLUICE_BLOCK_SIZE(SluiceBlockQ4_K, 144);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
} SluiceBlockQ5_K;
SLUICE_BLOCK_SIZE(SluiceBlockQ5_K, 176);

typedef struct SLUICE_PACKED {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
} SluiceBlockQ6_K;
SLUICE_BLOCK_SIZE(SluiceBlockQ6_K, 210);

typedef struct SLUICE_PACKED {
    uint8_t qs[48];
    uint8_t qh[4];
    uint16_t d;
} SluiceBlockTQ1_0;
SLUICE_BLOCK_SIZE(SluiceBlockTQ1_0, 54);

typedef struct SLUICE_PACKED {
    uint8_t qs[64];
    uint16_t d;
} SluiceBlockTQ2_0;
SLUICE_BLOCK_SIZE(SluiceBlockTQ2_0, 66);

typedef struct SLUICE_PACKED {
    uint16_t d;
    struct SLUICE_PACKED {
        uint8_t idx[4];
        uint32_t signs_scale; /* four 7-bit sign codes, then a scale of 4 bits */
    } group[8];
} SluiceBlockIQ2_XXS;
SLUICE_BLOCK_SIZE(SluiceBlockIQ2_XXS, 66);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint16_t qs[32]; /* 9-bit index, 7-bit sign code */
    uint8_t scales[8];
} SluiceBlockIQ2_XS;
SLUICE_BLOCK_SIZE(SluiceBlockIQ2_XS, 74);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint8_t idx[32];
    uint8_t signs[32];
    uint8_t qh[8];
    uint8_t scales[8];
} SluiceBlockIQ2_S;
SLUICE_BLOCK_SIZE(SluiceBlockIQ2_S, 82);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint8_t idx[64];
    uint32_t signs_scale[8];
} SluiceBlockIQ3_XXS;
SLUICE_BLOCK_SIZE(SluiceBlockIQ3_XXS, 98);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint8_t idx[64];
    uint8_t qh[8];
    uint8_t signs[32];
    uint8_t scales[4];
} SluiceBlockIQ3_S;
SLUICE_BLOCK_SIZE(SluiceBlockIQ3_S, 110);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint8_t idx[32];
    uint16_t qh[8]; /* four times 3 index bits, a scale of 3 bits, the sign of the shift */
} SluiceBlockIQ1_S;
SLUICE_BLOCK_SIZE(SluiceBlockIQ1_S, 50);

typedef struct SLUICE_PACKED {
    uint8_t idx[32];
    uint8_t qh[16];
    uint16_t scales[4]; /* 12 bits of scales; the top nibbles are the half d */
} SluiceBlockIQ1_M;
SLUICE_BLOCK_SIZE(SluiceBlockIQ1_M, 56);

typedef struct SLUICE_PACKED {
    uint16_t d;
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128]; /* half-split per 32 */
} SluiceBlockIQ4_XS;
SLUICE_BLOCK_SIZE(SluiceBlockIQ4_XS, 136);
