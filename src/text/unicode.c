/* SPDX-License-Identifier: MIT */
/* Validation of UTF-8, one character at a time; the tables are in unicode-tables.c. */
#include "config.h"

#include "src/text/unicode.h"

/* The length that a lead byte promises and the range of the byte behind it, which alone keeps
 * out overlong forms, surrogates and values beyond U+10FFFF. Source: Unicode, table 3-7. */
static size_t
sequence_length(uint8_t lead, uint8_t *low, uint8_t *high)
{
    *low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    *high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/**
 * sluice_utf8_check:
 * @bytes: text in any state
 * @n_bytes: its length, at least 1
 * @is_prefix: (out): whether the bytes end inside a sequence that is valid so far
 *
 * Judges the first sequence of @bytes.
 *
 * Returns: the length of a complete valid sequence; or 0, and then @is_prefix tells whether more
 *   bytes could complete it
 * Since: 0.1
 */
size_t
sluice_utf8_check(const uint8_t *bytes, size_t n_bytes, bool *is_prefix)
{
    uint8_t low, high;
    size_t length = sequence_length(bytes[0], &low, &high);

    *is_prefix = false;
    for (size_t i = 1; i < length; i++) {
        if (i == n_bytes) {
            *is_prefix = true;
            return 0;
        }
        if (bytes[i] < low || bytes[i] > high)
            return 0;
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

/* The part of sluice_utf8_decode() that is not about ASCII. */
uint32_t
sluice_utf8_decode_slow(const uint8_t *bytes, size_t n_bytes, size_t *n_used)
{
    bool is_prefix;
    size_t length = sluice_utf8_check(bytes, n_bytes, &is_prefix);
    uint32_t c;

    if (length == 0) {
        *n_used = 1;
        return SLUICE_UNICODE_REPLACEMENT;
    }
    c = length == 1 ? bytes[0] : bytes[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (bytes[i] & 0x3Fu);
    *n_used = length;
    return c;
}
