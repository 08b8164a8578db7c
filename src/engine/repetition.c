/* SPDX-License-Identifier: MIT */
/*
 * Repetition. Sources: the repetition penalty, Keskar et al. 2019, arXiv:1909.05858; the Z
 * function, Gusfield 1997, Algorithms on Strings, Trees, and Sequences, chapter 1.
 */
#include "config.h"

#include "src/engine/repetition.h"

#include <math.h>

/* exp(88.72) is the largest that float32 holds. */
#define MAX_LOG 88.72

/* Edited logits are in a new order. */
static void
edit(SluiceCandidates *c, int32_t i, float logit)
{
    c->items[i].logit = logit;
    c->n_sorted = 0;
}

/**
 * sluice_repetition_penalise:
 * @c: candidates
 * @history: [n_history]: the tokens that count
 * @n_history: their number
 * @counts: [n_vocab] scratch, all 0
 * @repeat: above 0; 1: none
 * @frequency: for each occurrence
 * @presence: once
 */
void
sluice_repetition_penalise(SluiceCandidates *c, const int32_t *history, int32_t n_history,
                           int32_t *counts, float repeat, float frequency, float presence)
{
    for (int32_t i = 0; i < n_history; i++)
        counts[history[i]]++;
    for (int32_t i = 0; i < c->n; i++) {
        int32_t count = counts[c->items[i].id];
        float logit = c->items[i].logit;

        if (count == 0)
            continue;
        logit = logit <= 0.0f ? logit * repeat : logit / repeat;
        edit(c, i, logit - ((float) count * frequency + presence));
    }
    for (int32_t i = 0; i < n_history; i++)
        counts[history[i]] = 0;
}

static bool
tail_follows(const SluiceDryBreaker *b, const int32_t *history, int32_t n_history, int32_t at)
{
    if (b->n_tail > n_history - 1 - at)
        return false;
    for (int32_t i = 0; i < b->n_tail; i++) {
        if (history[at + 1 + i] != b->tail[i])
            return false;
    }
    return true;
}

/* The first of the breakers with this head, or n_breakers. */
static int32_t
find_head(const SluiceDry *dry, int32_t head)
{
    int32_t low = 0, high = dry->n_breakers;

    while (low < high) {
        int32_t mid = low + (high - low) / 2;

        if (dry->breakers[mid].head < head)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The longest breaker that begins at `at`, in tokens; 0: none does. */
static int32_t
breaker_length(const SluiceDry *dry, const int32_t *history, int32_t n_history, int32_t at)
{
    int32_t longest = 0;

    for (int32_t i = find_head(dry, history[at]);
         i < dry->n_breakers && dry->breakers[i].head == history[at]; i++) {
        if (tail_follows(&dry->breakers[i], history, n_history, at))
            longest = MAX(longest, dry->breakers[i].n_tail + 1);
    }
    return longest;
}

/* Tokens behind the last breaker: no repetition reaches further back. */
static int32_t
repetition_limit(const SluiceDry *dry, const int32_t *history, int32_t n_history)
{
    for (int32_t at = n_history - 1; at >= 0; at--) {
        int32_t n = breaker_length(dry, history, n_history, at);

        if (n > 0)
            return n_history - at - n;
    }
    return n_history;
}

static bool
is_lone_breaker(const SluiceDry *dry, int32_t token)
{
    for (int32_t i = find_head(dry, token); i < dry->n_breakers && dry->breakers[i].head == token;
         i++) {
        if (dry->breakers[i].n_tail == 0)
            return true;
    }
    return false;
}

/* lengths[k] for k >= 1: how many tokens before position n - k agree with those before the end,
 * going backwards: the Z function of the reversed history. */
static void
find_suffix_lengths(const int32_t *history, int32_t n, int32_t *lengths)
{
    const int32_t *end = history + n - 1; /* reversed: element i is end[-i] */
    int32_t left = 0, right = 0;

    for (int32_t k = 1; k < n; k++) {
        int32_t z = k < right ? MIN(right - k, lengths[k - left]) : 0;

        while (k + z < n && end[-z] == end[-(k + z)])
            z++;
        if (k + z > right) {
            left = k;
            right = k + z;
        }
        lengths[k] = z;
    }
}

/**
 * sluice_repetition_dry:
 * @c: candidates
 * @dry: strength and breakers
 * @history: [n_history]: the tokens that count
 * @n_history: their number
 * @longest: [n_vocab] scratch, all 0
 * @lengths: [n_history] scratch
 *
 * A token that would make the end of the history repeat n >= allowed_length earlier tokens loses
 * multiplier * base^(n - allowed_length). Cost: O(n_history + n).
 */
void
sluice_repetition_dry(SluiceCandidates *c, const SluiceDry *dry, const int32_t *history,
                      int32_t n_history, int32_t *longest, int32_t *lengths)
{
    int32_t limit = repetition_limit(dry, history, n_history);
    double max_exponent = dry->base > 1.000001f ? MAX_LOG / log(dry->base) : INFINITY;

    if (limit < dry->allowed_length || limit == 0)
        return;
    find_suffix_lengths(history, n_history, lengths);
    for (int32_t k = 1; k < n_history; k++) {
        int32_t n = MIN(lengths[k], limit);
        int32_t next = history[n_history - k];

        /* Length 0 would be repeated by every token. */
        if (n >= MAX(1, dry->allowed_length) && !is_lone_breaker(dry, next))
            longest[next] = MAX(longest[next], n);
    }
    for (int32_t i = 0; i < c->n; i++) {
        int32_t n = longest[c->items[i].id];

        if (n > 0)
            edit(c, i,
                 (float) (c->items[i].logit -
                          dry->multiplier *
                              pow(dry->base, MIN(n - dry->allowed_length, max_exponent))));
    }
    for (int32_t k = 1; k < n_history; k++)
        longest[history[n_history - k]] = 0;
}
