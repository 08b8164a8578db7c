/* SPDX-License-Identifier: MIT */
/*
 * Which page of a pool holds which positions of which sequence. Pages are counted, so that forks
 * share them until one side writes; a table with a window lets go of what nobody will read. Only
 * numbers live here: the keys and values are the executor's.
 */
#pragma once

#include "src/core/backend.h"

#include <glib.h>

G_BEGIN_DECLS

/* The pages of one table. */
typedef struct {
    int32_t n_pages;
    int32_t n_free;
    int32_t *free_pages; /* [n_pages], the first n_free are free */
    uint32_t *n_refs;    /* [n_pages] */
    int32_t window;      /* 0: every earlier position is read */
    int32_t n_max_held;  /* entries that one sequence may hold */
} SluiceKvPool;

typedef struct {
    int32_t n_tables;
    int32_t n_table_pages; /* entries for a whole context */
    SluiceKvPool *pools;   /* [n_tables] */
} SluiceKvCache;

/* One sequence's pages of one table: entries [begin, end) are held, the others are -1. */
typedef struct {
    int32_t *pages; /* [n_table_pages] */
    int32_t begin;
    int32_t end;
} SluiceKvSeq;

/* A page that must be copied before its sequence is written. */
typedef void (*SluiceKvCopyFunc)(int32_t table, int32_t src, int32_t dst, gpointer user_data);

/* Entries that a sequence needs: all of them, or a window and a micro-batch. */
int32_t sluice_kv_cache_max_held(int32_t n_ctx, int32_t n_ubatch, int32_t window);
size_t sluice_kv_cache_bytes(int32_t n_tables, const int32_t *n_pages);

void sluice_kv_cache_init(SluiceKvCache *cache, int32_t n_tables, const int32_t *windows,
                          int32_t n_ctx, int32_t n_ubatch, int32_t n_seqs);
void sluice_kv_cache_clear(SluiceKvCache *cache);

SluiceKvSeq *sluice_kv_cache_seq_new(const SluiceKvCache *cache);
void sluice_kv_cache_seq_free(SluiceKvCache *cache, SluiceKvSeq *seq);

/* Makes positions [begin, end) of every table writable. False: no page is left. */
bool sluice_kv_cache_reserve(SluiceKvCache *cache, SluiceKvSeq *seq, int32_t begin, int32_t end,
                             SluiceKvCopyFunc copy, gpointer user_data);
/* Whether what a row at position `pos` reads is still held. */
bool sluice_kv_cache_covers(const SluiceKvCache *cache, const SluiceKvSeq *seq, int32_t pos);
/* Drops positions from `pos` on. */
void sluice_kv_cache_truncate(SluiceKvCache *cache, SluiceKvSeq *seq, int32_t pos);
/* Fresh pages for entries [begin, end) of one table of an empty sequence. */
bool sluice_kv_cache_take(SluiceKvCache *cache, SluiceKvSeq *seq, int32_t table, int32_t begin,
                          int32_t end);
/* dst, which is empty, gets src's pages. */
void sluice_kv_cache_share(SluiceKvCache *cache, const SluiceKvSeq *src, SluiceKvSeq *dst);

G_END_DECLS
