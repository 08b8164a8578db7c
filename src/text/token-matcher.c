/* SPDX-License-Identifier: MIT */
/*
 * The candidates are kept in the order of their bytes, so that those that begin alike lie together
 * and the longest one at a position is found by narrowing a range; each knows the longest shorter
 * one that it begins with.
 *
 * One pass notes the longest candidate at every position. The notes are then settled in the order
 * of the rule: longest first. A note whose place is partly taken falls back to the next shorter
 * candidate at its position and waits for that one's turn. So the work is linear in the text for
 * any ordinary vocabulary, where trying every candidate in turn is not, with the same outcome.
 */
#include "config.h"

#include "src/text/token-matcher.h"

#include <string.h>

#include "src/core/error.h"
#include "src/text/token-heap.h"

#define NONE UINT32_MAX

typedef struct {
    SluiceGgufString text;
    SluiceTokenCandidate token;
    uint32_t order;   /* turn by the rule */
    uint32_t shorter; /* the longest candidate that this one begins with, or NONE */
} Entry;

struct _SluiceTokenMatcher {
    Entry *entries; /* [n], ascending by bytes, equal ones descending by id */
    size_t n;
    uint32_t *by_order;  /* [n] */
    uint32_t first[257]; /* entries that begin with byte b are first[b] to first[b + 1] */
};

/* What one search works with. */
typedef struct {
    const SluiceTokenMatcher *matcher;
    const char *text;
    size_t n_bytes;
    bool parses_guarded;
    const SluiceTextSpan *untrusted;
    size_t n_untrusted;
    uint8_t *taken; /* one bit per byte of the text */
} Search;

static int
compare_texts(const void *a, const void *b)
{
    const Entry *left = a, *right = b;
    size_t n_common = MIN(left->text.n_bytes, right->text.n_bytes);
    int order = memcmp(left->text.data, right->text.data, n_common);

    if (order != 0)
        return order;
    if (left->text.n_bytes != right->text.n_bytes)
        return left->text.n_bytes < right->text.n_bytes ? -1 : 1;
    return left->token.id > right->token.id ? -1 : 1;
}

static int
compare_turns(const void *a, const void *b, void *entries)
{
    const Entry *left = (const Entry *) entries + *(const uint32_t *) a;
    const Entry *right = (const Entry *) entries + *(const uint32_t *) b;

    if (left->text.n_bytes != right->text.n_bytes)
        return left->text.n_bytes > right->text.n_bytes ? -1 : 1;
    return left->token.id < right->token.id ? -1 : 1;
}

static bool
begins_with(const Entry *entry, const Entry *shorter)
{
    return entry->text.n_bytes >= shorter->text.n_bytes &&
           memcmp(entry->text.data, shorter->text.data, shorter->text.n_bytes) == 0;
}

/* A chain leads from turn to later turn. Tokens of equal text are in it as well, the one with the
 * lowest id first: the others stand in where it must not match. */
static void
link_shorter(SluiceTokenMatcher *matcher)
{
    Entry *entries = matcher->entries;

    for (size_t i = 0; i < matcher->n; i++) {
        uint32_t up = i == 0 ? NONE : (uint32_t) i - 1;
        while (up != NONE && !begins_with(&entries[i], &entries[up]))
            up = entries[up].shorter;
        entries[i].shorter = up;
    }
}

/**
 * sluice_token_matcher_new:
 * @texts: the texts of the vocabulary, which must outlive the matcher
 * @candidates: the tokens to look for; those without text are left out
 * @n_candidates: how many
 *
 * Cost: O(n log n). Returns: (transfer full): the matcher
 * Since: 0.1
 */
SluiceTokenMatcher *
sluice_token_matcher_new(const SluiceGgufString *texts, const SluiceTokenCandidate *candidates,
                         size_t n_candidates)
{
    SluiceTokenMatcher *matcher = g_new0(SluiceTokenMatcher, 1);
    size_t n = 0;

    matcher->entries = g_new(Entry, n_candidates);
    matcher->by_order = g_new(uint32_t, n_candidates);
    for (size_t i = 0; i < n_candidates; i++) {
        const SluiceGgufString *text = &texts[candidates[i].id];
        if (text->n_bytes > 0)
            matcher->entries[n++] = (Entry){.text = *text, .token = candidates[i]};
    }
    matcher->n = n;
    if (n > 1)
        qsort(matcher->entries, n, sizeof(Entry), compare_texts);
    link_shorter(matcher);
    for (size_t i = 0; i < n; i++) {
        matcher->by_order[i] = (uint32_t) i;
        matcher->first[(uint8_t) matcher->entries[i].text.data[0] + 1]++;
    }
    for (size_t b = 0; b < 256; b++)
        matcher->first[b + 1] += matcher->first[b];
    g_qsort_with_data(matcher->by_order, (int) n, sizeof(uint32_t), compare_turns,
                      matcher->entries);
    for (size_t i = 0; i < n; i++)
        matcher->entries[matcher->by_order[i]].order = (uint32_t) i;
    return matcher;
}

void
sluice_token_matcher_free(SluiceTokenMatcher *matcher)
{
    if (matcher == NULL)
        return;
    g_free(matcher->entries);
    g_free(matcher->by_order);
    g_free(matcher);
}

/* ---- one search ----------------------------------------------------------------------------- */

static bool
is_taken(const Search *search, size_t pos)
{
    return (search->taken[pos / 8] >> (pos % 8) & 1) != 0;
}

static bool
is_untrusted(const Search *search, size_t begin, size_t end)
{
    size_t low = 0, high = search->n_untrusted;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (search->untrusted[middle].end <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low < search->n_untrusted && search->untrusted[low].begin < end;
}

static bool
may_match(const Search *search, const Entry *entry, size_t pos)
{
    return !entry->token.is_guarded ||
           (search->parses_guarded && !is_untrusted(search, pos, pos + entry->text.n_bytes));
}

/* The first of the entries in [*low, *high) whose byte at @depth is @byte or more; all of them
 * agree before @depth and are longer than it. */
static uint32_t
lower_bound(const Entry *entries, uint32_t low, uint32_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uint8_t) entries[middle].text.data[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The last entry in byte order, and so the longest, that is spelt out at @pos. */
static uint32_t
longest_at(const Search *search, size_t pos)
{
    const SluiceTokenMatcher *matcher = search->matcher;
    const Entry *entries = matcher->entries;
    const char *text = search->text + pos;
    size_t n_left = search->n_bytes - pos;
    uint32_t low = matcher->first[(uint8_t) text[0]];
    uint32_t high = matcher->first[(uint8_t) text[0] + 1];
    uint32_t found = NONE;

    for (size_t depth = 1; low < high; depth++) {
        while (low < high && entries[low].text.n_bytes == depth)
            found = low++;
        if (depth == n_left)
            break;
        low = lower_bound(entries, low, high, depth, (uint8_t) text[depth]);
        high = lower_bound(entries, low, high, depth, (uint8_t) text[depth] + 1u);
    }
    return found;
}

/* The longest candidate from @entry down its chain that may stand at @pos and whose place is free.
 * Whatever is taken so far is at least as long, so that looking at both ends is enough. */
static uint32_t
longest_free(const Search *search, uint32_t entry, size_t pos)
{
    const Entry *entries = search->matcher->entries;

    if (is_taken(search, pos))
        return NONE;
    while (entry != NONE && (is_taken(search, pos + entries[entry].text.n_bytes - 1) ||
                             !may_match(search, &entries[entry], pos)))
        entry = entries[entry].shorter;
    return entry;
}

static bool
note_positions(const Search *search, SluiceTokenHeap *heap)
{
    const SluiceTokenMatcher *matcher = search->matcher;

    for (size_t pos = 0; pos < search->n_bytes; pos++) {
        uint8_t byte = (uint8_t) search->text[pos];
        uint32_t entry;
        if (matcher->first[byte] == matcher->first[byte + 1])
            continue;
        entry = longest_free(search, longest_at(search, pos), pos);
        if (entry == NONE)
            continue;
        if (heap->n == heap->n_cap && !sluice_token_heap_reserve(heap, heap->n + 64))
            return false;
        heap->keys[heap->n++] = sluice_token_heap_key(matcher->entries[entry].order, pos);
    }
    return true;
}

static bool
is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static SluiceTokenMatch
take_match(const Search *search, const Entry *entry, size_t pos)
{
    size_t end = pos + entry->text.n_bytes;

    if (entry->token.eats_spaces)
        while (end < search->n_bytes && !is_taken(search, end) && is_space(search->text[end]))
            end++;
    for (size_t i = pos; i < end; i++)
        search->taken[i / 8] |= (uint8_t) (1u << (i % 8));
    return (SluiceTokenMatch){(uint32_t) pos, (uint32_t) end, entry->token.id};
}

static void
settle_notes(const Search *search, SluiceTokenHeap *heap, GArray *matches)
{
    const SluiceTokenMatcher *matcher = search->matcher;

    sluice_token_heap_build(heap);
    while (heap->n > 0) {
        uint64_t key = sluice_token_heap_pop(heap);
        size_t pos = (uint32_t) key;
        uint32_t noted = matcher->by_order[key >> 32];
        uint32_t entry = longest_free(search, noted, pos);
        if (entry == noted) {
            SluiceTokenMatch match = take_match(search, &matcher->entries[entry], pos);
            g_array_append_val(matches, match);
        } else if (entry != NONE) {
            sluice_token_heap_push(heap, sluice_token_heap_key(matcher->entries[entry].order, pos));
        }
    }
}

static int
compare_matches(const void *a, const void *b)
{
    const SluiceTokenMatch *left = a, *right = b;

    return left->begin < right->begin ? -1 : left->begin > right->begin;
}

/**
 * sluice_token_matcher_find:
 * @matcher: the matcher
 * @text: the text
 * @n_bytes: its length, below 2^32
 * @parses_guarded: whether guarded candidates are looked for
 * @untrusted: where they are not, in ascending order
 * @n_untrusted: how many spans
 * @matches: (element-type SluiceTokenMatch): where to put the matches, in ascending order; empty
 * @error: return location, or %NULL
 *
 * Returns: %FALSE with %SLUICE_ERROR_MEMORY
 * Since: 0.1
 */
gboolean
sluice_token_matcher_find(const SluiceTokenMatcher *matcher, const char *text, size_t n_bytes,
                          bool parses_guarded, const SluiceTextSpan *untrusted, size_t n_untrusted,
                          GArray *matches, GError **error)
{
    g_autofree uint8_t *taken = NULL;
    Search search = {matcher, text, n_bytes, parses_guarded, untrusted, n_untrusted, NULL};
    SluiceTokenHeap heap = {NULL, 0, 0};
    gboolean is_done;

    if (matcher->n == 0 || n_bytes == 0)
        return TRUE;
    search.taken = taken = g_try_malloc0(n_bytes / 8 + 1);
    is_done = taken != NULL && note_positions(&search, &heap);
    if (is_done) {
        settle_notes(&search, &heap, matches);
        g_array_sort(matches, compare_matches);
    } else {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "no memory to look for special tokens in a text of %zu bytes", n_bytes);
    }
    g_free(heap.keys);
    return is_done;
}
