/* SPDX-License-Identifier: MIT */
/*
 * Works on bytes behind the detokenizer, which hands out whole characters only: a stop string is
 * UTF-8, so a match begins and ends between characters. Stop strings are few and short; comparing
 * each of them at each place costs less than evaluating a token by orders of magnitude.
 */
#include "config.h"

#include "src/cli/stop-match.h"

#include <string.h>

/**
 * sluice_stop_match_init:
 * @match: storage of the caller
 * @stops: the strings, none empty; must outlive @match
 * @n_stops: how many
 *
 * Begins a text.
 */
void
sluice_stop_match_init(SluiceStopMatch *match, const char *const *stops, size_t n_stops)
{
    match->stops = stops;
    match->n_stops = n_stops;
    match->pending = g_string_new(NULL);
    match->has_matched = false;
    for (size_t i = 0; i < n_stops; i++)
        g_assert(stops[i][0] != '\0');
}

/**
 * sluice_stop_match_clear:
 * @match: from sluice_stop_match_init()
 *
 * Frees what @match holds.
 */
void
sluice_stop_match_clear(SluiceStopMatch *match)
{
    if (match->pending != NULL)
        g_string_free(match->pending, TRUE);
    match->pending = NULL;
}

/* Whether the text from @at on is, as far as it goes, a stop string; *is_whole if it is all of
 * one. */
static bool
could_stop_at(const SluiceStopMatch *match, gsize at, bool *is_whole)
{
    const char *text = match->pending->str + at;
    gsize n_text = match->pending->len - at;
    bool could = false;

    *is_whole = false;
    for (size_t i = 0; i < match->n_stops; i++) {
        gsize n_stop = strlen(match->stops[i]);

        if (memcmp(match->stops[i], text, MIN(n_stop, n_text)) == 0) {
            could = true;
            *is_whole |= n_stop <= n_text;
        }
    }
    return could;
}

/**
 * sluice_stop_match_push:
 * @match: in the middle of a text, or at its begin
 * @text: what follows
 * @n_bytes: of @text
 * @out: what can be shown is appended here
 *
 * The stop string that begins first ends the text; neither it nor anything behind it is shown.
 *
 * Returns: whether the text has ended
 */
bool
sluice_stop_match_push(SluiceStopMatch *match, const char *text, gsize n_bytes, GString *out)
{
    gsize hold = G_MAXSIZE; /* where the part to hold back begins */

    if (match->has_matched)
        return true;
    g_string_append_len(match->pending, text, (gssize) n_bytes);
    for (gsize at = 0; at < match->pending->len; at++) {
        bool is_whole;

        if (!could_stop_at(match, at, &is_whole))
            continue;
        if (is_whole) {
            g_string_append_len(out, match->pending->str, (gssize) at);
            g_string_truncate(match->pending, 0);
            match->has_matched = true;
            return true;
        }
        hold = MIN(hold, at);
    }
    hold = MIN(hold, match->pending->len);
    g_string_append_len(out, match->pending->str, (gssize) hold);
    g_string_erase(match->pending, 0, (gssize) hold);
    return false;
}

/**
 * sluice_stop_match_end:
 * @match: at the end of its text
 * @out: what was held back is appended here
 *
 * No more text comes, so nothing can become a stop string any more.
 */
void
sluice_stop_match_end(SluiceStopMatch *match, GString *out)
{
    g_string_append_len(out, match->pending->str, (gssize) match->pending->len);
    g_string_truncate(match->pending, 0);
}
