/* SPDX-License-Identifier: MIT */
/* The table of token texts. */
#include "config.h"

#include "src/text/token-table.h"

#include <string.h>

#include "src/core/error.h"

/* Odd numbers with no pattern in their bits (the golden ratio's and pi's). */
#define MULTIPLIER 0x9E3779B97F4A7C15u
#define LAST_MULTIPLIER 0x243F6A8885A308D3u

static inline uint64_t
load_up_to_8(const uint8_t *bytes, size_t n)
{
    uint64_t value = 0;
    uint32_t low, high;

    if (n >= 8) {
        memcpy(&value, bytes, 8);
    } else if (n >= 4) {
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + n - 4, 4);
        value = (uint64_t) high << 32 | low;
    } else if (n > 0) {
        value = (uint64_t) bytes[0] | (uint64_t) bytes[n / 2] << 8 | (uint64_t) bytes[n - 1] << 16;
    }
    return value;
}

static inline uint64_t
hash_text(const SluiceTokenTable *table, const uint8_t *text, size_t n_bytes)
{
    uint64_t hash = table->seed ^ n_bytes * MULTIPLIER;

    for (; n_bytes > 8; n_bytes -= 8, text += 8)
        hash = sluice_token_table_mix(hash ^ load_up_to_8(text, 8), table->seed | 1);
    return sluice_token_table_mix(hash ^ load_up_to_8(text, n_bytes),
                                  LAST_MULTIPLIER ^ (table->seed << 1));
}

static inline uint32_t
tag_of(uint64_t hash, SluiceTokenPlane plane)
{
    return ((uint32_t) (hash >> 32) & ~1u) | (uint32_t) plane;
}

/* The slot of a text, or the empty one where it would go. */
static inline size_t
find_slot(const SluiceTokenTable *table, const void *text, size_t n_bytes, SluiceTokenPlane plane,
          uint32_t *tag)
{
    uint64_t hash = hash_text(table, text, n_bytes);
    size_t i = (size_t) hash & table->mask;

    *tag = tag_of(hash, plane);
    for (; table->slots[i].id_up1 != 0; i = (i + 1) & table->mask) {
        const SluiceGgufString *other = &table->texts[table->slots[i].id_up1 - 1];
        if (table->slots[i].tag == *tag && other->n_bytes == n_bytes &&
            memcmp(other->data, text, n_bytes) == 0)
            break;
    }
    return i;
}

/**
 * sluice_token_table_init:
 * @table: (out caller-allocates): an empty table
 * @texts: the texts of all tokens, which must outlive @table
 * @n_tokens: how many
 * @error: return location, or %NULL
 *
 * Returns: %FALSE with %SLUICE_ERROR_MEMORY
 * Since: 0.1
 */
gboolean
sluice_token_table_init(SluiceTokenTable *table, const SluiceGgufString *texts, size_t n_tokens,
                        GError **error)
{
    size_t n_slots = 16;

    while (n_slots < n_tokens * 2)
        n_slots *= 2;
    table->texts = texts;
    table->mask = n_slots - 1;
    table->seed = (uint64_t) g_random_int() << 32 | g_random_int();
    table->slots = g_try_malloc0_n(n_slots, sizeof *table->slots);
    if (table->slots == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "no memory for a table of %zu tokens (%zu bytes)", n_tokens,
                    n_slots * sizeof *table->slots);
        return FALSE;
    }
    return TRUE;
}

void
sluice_token_table_clear(SluiceTokenTable *table)
{
    g_clear_pointer(&table->slots, g_free);
}

/* Enters token @id; a token with the same text in the same plane gives way. Returns the one that
 * did, or -1. */
int32_t
sluice_token_table_insert(SluiceTokenTable *table, int32_t id, SluiceTokenPlane plane)
{
    const SluiceGgufString *text = &table->texts[id];
    uint32_t tag;
    size_t i = find_slot(table, text->data, text->n_bytes, plane, &tag);
    int32_t old_id = (int32_t) table->slots[i].id_up1 - 1;

    table->slots[i].tag = tag;
    table->slots[i].id_up1 = (uint32_t) id + 1;
    return old_id;
}

/* The token with that text, or -1. */
int32_t
sluice_token_table_find(const SluiceTokenTable *table, const void *text, size_t n_bytes,
                        SluiceTokenPlane plane)
{
    uint32_t tag;

    return (int32_t) table->slots[find_slot(table, text, n_bytes, plane, &tag)].id_up1 - 1;
}
