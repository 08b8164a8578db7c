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
find_slot(const SluiceTokenTable *table, uint64_t hash, const void *text, size_t n_bytes,
          SluiceTokenPlane plane, uint32_t *tag)
{
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

/* Enters the tokens @first_id to @first_id + @n - 1, at most SLUICE_TOKEN_TABLE_BATCH, each into
 * the plane at its place in @planes; those without text stay out. A token gives way to one that has
 * the same text in the same plane; @shadowed tells which did: tokens, or -1. */
void
sluice_token_table_insert_batch(SluiceTokenTable *table, int32_t first_id, size_t n,
                                const SluiceTokenPlane *planes, int32_t *shadowed)
{
    const SluiceGgufString *texts = table->texts + first_id;
    uint64_t hashes[SLUICE_TOKEN_TABLE_BATCH];

    for (size_t i = 0; i < n; i++) {
        hashes[i] = hash_text(table, (const uint8_t *) texts[i].data, texts[i].n_bytes);
        __builtin_prefetch(&table->slots[hashes[i] & table->mask], 1);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t tag;
        size_t slot;
        shadowed[i] = -1;
        if (texts[i].n_bytes == 0)
            continue;
        slot = find_slot(table, hashes[i], texts[i].data, texts[i].n_bytes, planes[i], &tag);
        shadowed[i] = (int32_t) table->slots[slot].id_up1 - 1;
        table->slots[slot].tag = tag;
        table->slots[slot].id_up1 = (uint32_t) first_id + (uint32_t) i + 1;
    }
}

/* The token with that text, or -1. */
int32_t
sluice_token_table_find(const SluiceTokenTable *table, const void *text, size_t n_bytes,
                        SluiceTokenPlane plane)
{
    uint64_t hash = hash_text(table, text, n_bytes);
    uint32_t tag;

    return (int32_t) table->slots[find_slot(table, hash, text, n_bytes, plane, &tag)].id_up1 - 1;
}

/* The same for @n texts, at most SLUICE_TOKEN_TABLE_BATCH. A look-up waits for memory three times,
 * one after the other; in a batch the waits of all texts overlap. */
void
sluice_token_table_find_batch(const SluiceTokenTable *table, const SluiceGgufString *texts,
                              size_t n, SluiceTokenPlane plane, int32_t *ids)
{
    uint64_t hashes[SLUICE_TOKEN_TABLE_BATCH];
    uint32_t likely[SLUICE_TOKEN_TABLE_BATCH];
    uint32_t tag;

    for (size_t i = 0; i < n; i++) {
        hashes[i] = hash_text(table, (const uint8_t *) texts[i].data, texts[i].n_bytes);
        __builtin_prefetch(&table->slots[hashes[i] & table->mask]);
    }
    for (size_t i = 0; i < n; i++) {
        likely[i] = table->slots[hashes[i] & table->mask].id_up1;
        __builtin_prefetch(&table->texts[likely[i] > 0 ? likely[i] - 1 : 0]);
    }
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(table->texts[likely[i] > 0 ? likely[i] - 1 : 0].data);
    for (size_t i = 0; i < n; i++) {
        size_t slot = find_slot(table, hashes[i], texts[i].data, texts[i].n_bytes, plane, &tag);
        ids[i] = (int32_t) table->slots[slot].id_up1 - 1;
    }
}
