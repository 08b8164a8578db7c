/* SPDX-License-Identifier: MIT */
/*
 * Unicode 16.0 as the tokenizers need it: the class of a character, and steps through UTF-8 that
 * survive any bytes. The tables are read off the regular expressions that made the published token
 * ids, so a later version of Unicode must not be put in their place without a reason.
 */
#pragma once

#include <glib.h>

#include "src/core/types.h"

G_BEGIN_DECLS

/* Classes are single bits, so that a set of them is one mask. */
#define SLUICE_UNICODE_BIT(letter) (1u << ((letter) &31))
#define SLUICE_UNICODE_LU SLUICE_UNICODE_BIT('U')
#define SLUICE_UNICODE_LL SLUICE_UNICODE_BIT('L')
#define SLUICE_UNICODE_LT SLUICE_UNICODE_BIT('T')
#define SLUICE_UNICODE_LM SLUICE_UNICODE_BIT('D')
#define SLUICE_UNICODE_LO SLUICE_UNICODE_BIT('O')
#define SLUICE_UNICODE_MARK SLUICE_UNICODE_BIT('M')
#define SLUICE_UNICODE_NUMBER SLUICE_UNICODE_BIT('N')
#define SLUICE_UNICODE_PUNCTUATION SLUICE_UNICODE_BIT('P')
#define SLUICE_UNICODE_SYMBOL SLUICE_UNICODE_BIT('S')
#define SLUICE_UNICODE_SPACE SLUICE_UNICODE_BIT('W') /* the property White_Space */
#define SLUICE_UNICODE_OTHER SLUICE_UNICODE_BIT('_') /* controls, format, unassigned */
#define SLUICE_UNICODE_LETTER                                                                      \
    (SLUICE_UNICODE_LU | SLUICE_UNICODE_LL | SLUICE_UNICODE_LT | SLUICE_UNICODE_LM |               \
     SLUICE_UNICODE_LO)

#define SLUICE_UNICODE_BLOCK 128 /* characters per row of the second table */
#define SLUICE_UNICODE_REPLACEMENT 0xFFFDu

extern const uint8_t sluice_unicode_index[];
extern const char sluice_unicode_blocks[][SLUICE_UNICODE_BLOCK + 1];

uint32_t sluice_utf8_decode_slow(const uint8_t *bytes, size_t n_bytes, size_t *n_used);
size_t sluice_utf8_check(const uint8_t *bytes, size_t n_bytes, bool *is_prefix);

/* The class of @c, one bit; any value is allowed, those beyond Unicode are OTHER. */
static inline uint32_t
sluice_unicode_class(uint32_t c)
{
    if (c >= 0x110000)
        return SLUICE_UNICODE_OTHER;
    return SLUICE_UNICODE_BIT(sluice_unicode_blocks[sluice_unicode_index[c / SLUICE_UNICODE_BLOCK]]
                                                   [c % SLUICE_UNICODE_BLOCK]);
}

/* The character at the start of @n_bytes >= 1 bytes. A byte that does not begin a complete, valid
 * sequence counts as one U+FFFD of one byte. */
static inline uint32_t
sluice_utf8_decode(const uint8_t *bytes, size_t n_bytes, size_t *n_used)
{
    if (bytes[0] < 0x80) {
        *n_used = 1;
        return bytes[0];
    }
    return sluice_utf8_decode_slow(bytes, n_bytes, n_used);
}

G_END_DECLS
