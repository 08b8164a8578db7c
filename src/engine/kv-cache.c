/* SPDX-License-Identifier: MIT */
/*
 * Pages of positions. A sequence never holds more than max_held entries of a table, and a pool has
 * that many for each sequence; sharing only lowers the number of pages in use, so a reservation
 * within the context cannot run out.
 */
#include "config.h"

#include "src/engine/kv-cache.h"

static int32_t
n_pages_for(int32_t n_positions)
{
    return (int32_t) (((int64_t) n_positions + SLUICE_PAGE_TOKENS - 1) / SLUICE_PAGE_TOKENS);
}

/**
 * sluice_kv_cache_max_held:
 * @n_ctx: positions of a whole context
 * @n_ubatch: rows of a step
 * @window: positions that a row sees, itself included; 0: all
 *
 * A step of n rows under a window w reads and writes w - 1 + n positions, which begin anywhere in
 * a page.
 *
 * Returns: entries of a page-table row that one sequence holds at most
 */
int32_t
sluice_kv_cache_max_held(int32_t n_ctx, int32_t n_ubatch, int32_t window)
{
    int64_t span = (int64_t) window - 1 + n_ubatch;

    if (window == 0 || span >= n_ctx)
        return n_pages_for(n_ctx);
    return MIN(n_pages_for(n_ctx), n_pages_for((int32_t) span) + 1);
}

/**
 * sluice_kv_cache_bytes:
 * @n_tables: page tables of the model
 * @n_pages: [n_tables]: pages of each
 *
 * Returns: bytes that sluice_kv_cache_init() allocates
 */
size_t
sluice_kv_cache_bytes(int32_t n_tables, const int32_t *n_pages)
{
    size_t n = (size_t) n_tables * sizeof(SluiceKvPool);

    for (int32_t i = 0; i < n_tables; i++)
        n += (size_t) n_pages[i] * (sizeof(int32_t) + sizeof(uint32_t));
    return n;
}

/**
 * sluice_kv_cache_init:
 * @cache: (out): caller storage
 * @n_tables: page tables of the model
 * @windows: [n_tables]: window of each, 0 for none
 * @n_ctx: positions of a whole context
 * @n_ubatch: rows of a step
 * @n_seqs: sequences that can exist at once
 */
void
sluice_kv_cache_init(SluiceKvCache *cache, int32_t n_tables, const int32_t *windows, int32_t n_ctx,
                     int32_t n_ubatch, int32_t n_seqs)
{
    cache->n_tables = n_tables;
    cache->n_table_pages = n_pages_for(n_ctx);
    cache->pools = g_new0(SluiceKvPool, n_tables);
    for (int32_t i = 0; i < n_tables; i++) {
        SluiceKvPool *pool = &cache->pools[i];

        pool->window = windows[i];
        pool->n_max_held = sluice_kv_cache_max_held(n_ctx, n_ubatch, windows[i]);
        pool->n_pages = pool->n_max_held * n_seqs;
        pool->n_free = pool->n_pages;
        pool->free_pages = g_new(int32_t, pool->n_pages);
        pool->n_refs = g_new0(uint32_t, pool->n_pages);
        /* The last one is taken first: a lone sequence fills the pool from its start. */
        for (int32_t page = 0; page < pool->n_pages; page++)
            pool->free_pages[page] = pool->n_pages - 1 - page;
    }
}

void
sluice_kv_cache_clear(SluiceKvCache *cache)
{
    for (int32_t i = 0; i < cache->n_tables; i++) {
        g_free(cache->pools[i].free_pages);
        g_free(cache->pools[i].n_refs);
    }
    g_clear_pointer(&cache->pools, g_free);
    cache->n_tables = 0;
}

static int32_t
take_page(SluiceKvPool *pool)
{
    int32_t page;

    if (pool->n_free == 0)
        return -1;
    page = pool->free_pages[--pool->n_free];
    pool->n_refs[page] = 1;
    return page;
}

static void
drop_page(SluiceKvPool *pool, int32_t page)
{
    g_assert(page >= 0 && page < pool->n_pages && pool->n_refs[page] > 0);
    if (--pool->n_refs[page] == 0)
        pool->free_pages[pool->n_free++] = page;
}

/**
 * sluice_kv_cache_seq_new:
 * @cache: the cache
 *
 * Returns: (transfer full): [n_tables] empty rows; free with sluice_kv_cache_seq_free()
 */
SluiceKvSeq *
sluice_kv_cache_seq_new(const SluiceKvCache *cache)
{
    SluiceKvSeq *seq = g_new0(SluiceKvSeq, cache->n_tables);

    for (int32_t i = 0; i < cache->n_tables; i++) {
        seq[i].pages = g_new(int32_t, cache->n_table_pages);
        for (int32_t p = 0; p < cache->n_table_pages; p++)
            seq[i].pages[p] = -1;
    }
    return seq;
}

void
sluice_kv_cache_seq_free(SluiceKvCache *cache, SluiceKvSeq *seq)
{
    if (seq == NULL)
        return;
    sluice_kv_cache_truncate(cache, seq, 0);
    for (int32_t i = 0; i < cache->n_tables; i++)
        g_free(seq[i].pages);
    g_free(seq);
}

static void
drop_first(SluiceKvPool *pool, SluiceKvSeq *row)
{
    drop_page(pool, row->pages[row->begin]);
    row->pages[row->begin++] = -1;
}

/* The shared page that the first new position falls into gets a copy of its own. */
static bool
own_page(SluiceKvPool *pool, SluiceKvSeq *row, int32_t table, int32_t entry, SluiceKvCopyFunc copy,
         gpointer user_data)
{
    int32_t old = row->pages[entry];
    int32_t fresh;

    if (pool->n_refs[old] == 1)
        return true;
    fresh = take_page(pool);
    if (fresh < 0)
        return false;
    copy(table, old, fresh, user_data);
    drop_page(pool, old);
    row->pages[entry] = fresh;
    return true;
}

static bool
reserve_row(SluiceKvPool *pool, SluiceKvSeq *row, int32_t table, int32_t begin, int32_t end,
            SluiceKvCopyFunc copy, gpointer user_data)
{
    int32_t last = n_pages_for(end);

    if (row->begin == row->end)
        row->begin = row->end = begin / SLUICE_PAGE_TOKENS;
    /* Pages behind the window go only when their place is needed: until then a sequence can be cut
     * back a little without reading its text again. */
    while (last - row->begin > pool->n_max_held && row->begin < row->end)
        drop_first(pool, row);
    if (begin / SLUICE_PAGE_TOKENS < row->end &&
        !own_page(pool, row, table, begin / SLUICE_PAGE_TOKENS, copy, user_data))
        return false;
    while (row->end < last) {
        int32_t page = take_page(pool);

        if (page < 0)
            return false;
        row->pages[row->end++] = page;
    }
    return true;
}

/**
 * sluice_kv_cache_reserve:
 * @cache: the cache
 * @seq: the sequence
 * @begin: the first position that will be written; everything before it that is read is held
 * @end: one past the last one
 * @copy: called for each page that was shared and is now the sequence's own
 * @user_data: for @copy
 *
 * Returns: false if a pool is empty, which a cache of the right size never is
 */
bool
sluice_kv_cache_reserve(SluiceKvCache *cache, SluiceKvSeq *seq, int32_t begin, int32_t end,
                        SluiceKvCopyFunc copy, gpointer user_data)
{
    g_assert(0 <= begin && begin < end && n_pages_for(end) <= cache->n_table_pages);
    for (int32_t i = 0; i < cache->n_tables; i++) {
        if (!reserve_row(&cache->pools[i], &seq[i], i, begin, end, copy, user_data))
            return false;
    }
    return true;
}

/**
 * sluice_kv_cache_covers:
 * @cache: the cache
 * @seq: the sequence
 * @pos: a position
 *
 * Returns: whether every position before @pos that a row there reads is held, in every table
 */
bool
sluice_kv_cache_covers(const SluiceKvCache *cache, const SluiceKvSeq *seq, int32_t pos)
{
    for (int32_t i = 0; i < cache->n_tables; i++) {
        int32_t window = cache->pools[i].window;
        int32_t first = window > 0 ? MAX(0, pos - window + 1) : 0;

        if (first < pos &&
            (seq[i].begin > first / SLUICE_PAGE_TOKENS || seq[i].end < n_pages_for(pos)))
            return false;
    }
    return true;
}

/**
 * sluice_kv_cache_truncate:
 * @cache: the cache
 * @seq: the sequence
 * @pos: positions from here on are dropped
 */
void
sluice_kv_cache_truncate(SluiceKvCache *cache, SluiceKvSeq *seq, int32_t pos)
{
    for (int32_t i = 0; i < cache->n_tables; i++) {
        SluiceKvSeq *row = &seq[i];

        while (row->end > n_pages_for(pos) && row->end > row->begin) {
            drop_page(&cache->pools[i], row->pages[--row->end]);
            row->pages[row->end] = -1;
        }
        if (row->begin == row->end)
            row->begin = row->end = 0;
    }
}

/**
 * sluice_kv_cache_take:
 * @cache: the cache
 * @seq: a sequence that holds nothing of @table
 * @table: a page table
 * @begin: the first entry
 * @end: one past the last one; at most max_held behind @begin
 *
 * Returns: false if the pool is empty; what was taken is then held
 */
bool
sluice_kv_cache_take(SluiceKvCache *cache, SluiceKvSeq *seq, int32_t table, int32_t begin,
                     int32_t end)
{
    SluiceKvSeq *row = &seq[table];

    g_assert(row->begin == row->end && 0 <= begin && begin <= end);
    g_assert(end <= cache->n_table_pages && end - begin <= cache->pools[table].n_max_held);
    row->begin = row->end = begin;
    while (row->end < end) {
        int32_t page = take_page(&cache->pools[table]);

        if (page < 0)
            return false;
        row->pages[row->end++] = page;
    }
    return true;
}

/**
 * sluice_kv_cache_share:
 * @cache: the cache
 * @src: a sequence
 * @dst: an empty one
 *
 * Both hold the same pages afterwards; whoever writes first gets a copy.
 */
void
sluice_kv_cache_share(SluiceKvCache *cache, const SluiceKvSeq *src, SluiceKvSeq *dst)
{
    for (int32_t i = 0; i < cache->n_tables; i++) {
        g_assert(dst[i].begin == dst[i].end);
        dst[i].begin = src[i].begin;
        dst[i].end = src[i].end;
        for (int32_t p = src[i].begin; p < src[i].end; p++) {
            dst[i].pages[p] = src[i].pages[p];
            cache->pools[i].n_refs[src[i].pages[p]]++;
        }
    }
}
