/* SPDX-License-Identifier: MIT */
/*
 * From the text of a token to its id: one flat table with open addressing over texts that stay
 * where they are. Tokens that only their own spelling in trusted text may produce (control,
 * unknown, byte) live in a plane of their own, so that no merge can reach them.
 */
#pragma once

#include <glib.h>

#include "src/format/gguf.h"

G_BEGIN_DECLS

/* Enough requests in flight to hide the memory behind one another. */
#define SLUICE_TOKEN_TABLE_BATCH 32

typedef enum {
    SLUICE_TOKEN_PLANE_TEXT = 0,
    SLUICE_TOKEN_PLANE_SPECIAL = 1,
} SluiceTokenPlane;

typedef struct {
    uint32_t tag;    /* bits of the hash, the plane among them */
    uint32_t id_up1; /* id + 1; 0 is an empty slot */
} SluiceTokenSlot;

typedef struct {
    const SluiceGgufString *texts;
    SluiceTokenSlot *slots;
    size_t mask;
    uint64_t seed; /* random: a file cannot choose texts that collide */
} SluiceTokenTable;

gboolean sluice_token_table_init(SluiceTokenTable *table, const SluiceGgufString *texts,
                                 size_t n_tokens, GError **error);
void sluice_token_table_clear(SluiceTokenTable *table);
void sluice_token_table_insert_batch(SluiceTokenTable *table, int32_t first_id, size_t n,
                                     const SluiceTokenPlane *planes, int32_t *shadowed);
int32_t sluice_token_table_find(const SluiceTokenTable *table, const void *text, size_t n_bytes,
                                SluiceTokenPlane plane);
void sluice_token_table_find_batch(const SluiceTokenTable *table, const SluiceGgufString *texts,
                                   size_t n, SluiceTokenPlane plane, int32_t *ids);

/* Multiplies into 128 bits and folds: every bit of either argument reaches every bit of the rest.
 */
static inline uint64_t
sluice_token_table_mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 Wide;
    Wide product = (Wide) a * b;

    return (uint64_t) product ^ (uint64_t) (product >> 64);
}

G_END_DECLS
