/* SPDX-License-Identifier: MIT */
/*
 * Stop strings in a text that arrives in pieces. What could still become a stop string is held
 * back, so that no part of one is ever shown.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

G_BEGIN_DECLS

typedef struct {
    const char *const *stops; /* none empty; borrowed */
    size_t n_stops;
    GString *pending; /* arrived, not released: a proper prefix of some stop string */
    bool has_matched;
} SluiceStopMatch;

void sluice_stop_match_init(SluiceStopMatch *match, const char *const *stops, size_t n_stops);
void sluice_stop_match_clear(SluiceStopMatch *match);
bool sluice_stop_match_push(SluiceStopMatch *match, const char *text, gsize n_bytes, GString *out);
void sluice_stop_match_end(SluiceStopMatch *match, GString *out);

G_END_DECLS
