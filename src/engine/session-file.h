/* SPDX-License-Identifier: MIT */
/*
 * A session on disk. The file is one run of little-endian fields and ends in a checksum of all of
 * them:
 *
 *   "SLUSESS\0", version, fingerprint of the model, sizes, counts
 *   for each page table: first and last entry, bytes of a page
 *   tokens, logits where there are any, pages of each table in order
 *
 * Parsing looks at every field before anything is allocated or touched by it.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

G_BEGIN_DECLS

#define SLUICE_SESSION_FILE_MAX_TABLES 8

/* One page table of the session: pages for entries [begin, end). */
typedef struct {
    int32_t begin;
    int32_t end;
    uint64_t page_bytes;
} SluiceSessionFileTable;

/* What a file says, or shall say. */
typedef struct {
    uint64_t fingerprint;
    int32_t n_vocab;
    int32_t n_tables;
    int32_t k_type; /* SluiceKvType; so the next */
    int32_t v_type;
    int32_t n_tokens;
    int32_t n_cached;
    bool has_logits;
    SluiceSessionFileTable tables[SLUICE_SESSION_FILE_MAX_TABLES];
} SluiceSessionFile;

/* What it must agree with. */
typedef struct {
    uint64_t fingerprint;
    int32_t n_vocab;
    int32_t n_ctx;
    int32_t n_tables;
    int32_t k_type;
    int32_t v_type;
    uint64_t page_bytes[SLUICE_SESSION_FILE_MAX_TABLES];
    int32_t windows[SLUICE_SESSION_FILE_MAX_TABLES];
    int32_t max_held[SLUICE_SESSION_FILE_MAX_TABLES];
} SluiceSessionFileLimits;

/* Where things lie in the bytes of a file. */
typedef struct {
    SluiceSessionFile file;
    const uint8_t *tokens;
    const uint8_t *logits; /* NULL: there are none */
    const uint8_t *pages[SLUICE_SESSION_FILE_MAX_TABLES];
} SluiceSessionFileView;

/* A running checksum; length and content both count. */
typedef struct {
    uint64_t hash;
    uint64_t word; /* bytes that do not make a whole word yet */
    uint64_t n_bytes;
} SluiceSessionFileSum;

void sluice_session_file_sum_add(SluiceSessionFileSum *sum, const void *data, size_t n_bytes);
uint64_t sluice_session_file_sum_end(const SluiceSessionFileSum *sum);

/* (transfer full): everything before the tokens. */
GByteArray *sluice_session_file_head(const SluiceSessionFile *file);
/* The size of a whole file, or of the longest one that limits allow. */
uint64_t sluice_session_file_bytes(const SluiceSessionFile *file);
uint64_t sluice_session_file_max_bytes(const SluiceSessionFileLimits *limits);
gboolean sluice_session_file_parse(SluiceSessionFileView *view, const uint8_t *data, size_t n_bytes,
                                   const SluiceSessionFileLimits *limits, GError **error);

G_END_DECLS
