/* SPDX-License-Identifier: MIT */
/* The streaming side of decoding. */
#include "config.h"

#include "src/text/detokenizer.h"

#include "src/text/unicode.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

struct _SluiceDetokenizer {
    SluiceTokenizer *tokenizer;
    SluiceDecodeFlags flags;
    GString *pending; /* bytes that are no whole character yet, at most 3 between two calls */
    GString *out;     /* what the last call returned */
};

/**
 * sluice_detokenizer_new:
 * @tokenizer: a tokenizer; the detokenizer keeps a reference
 * @flags: whether control tokens show
 *
 * Returns: (transfer full): a detokenizer at the start of a text
 * Since: 0.1
 */
SluiceDetokenizer *
sluice_detokenizer_new(SluiceTokenizer *tokenizer, SluiceDecodeFlags flags)
{
    SluiceDetokenizer *detokenizer = g_new0(SluiceDetokenizer, 1);

    detokenizer->tokenizer = sluice_tokenizer_ref(tokenizer);
    detokenizer->flags = flags;
    /* Room for any ordinary token: nothing is allocated between two of them. */
    detokenizer->pending = g_string_sized_new(512);
    detokenizer->out = g_string_sized_new(2048);
    return detokenizer;
}

/**
 * sluice_detokenizer_free:
 * @detokenizer: (nullable): a detokenizer
 *
 * Since: 0.1
 */
void
sluice_detokenizer_free(SluiceDetokenizer *detokenizer)
{
    if (detokenizer == NULL)
        return;
    sluice_tokenizer_unref(detokenizer->tokenizer);
    g_string_free(detokenizer->pending, TRUE);
    g_string_free(detokenizer->out, TRUE);
    g_free(detokenizer);
}

/* The bytes of the longest start of a valid sequence at @bytes, which holds no whole one: what one
 * U+FFFD replaces. */
static size_t
broken_bytes(const uint8_t *bytes, size_t n_bytes)
{
    size_t n = 1;
    bool is_prefix;

    for (; n < n_bytes; n++) {
        sluice_utf8_check(bytes, n + 1, &is_prefix);
        if (!is_prefix)
            break;
    }
    return n;
}

/* Moves what can be said for certain from pending to out; at the end of a text, all. */
static const char *
drain(SluiceDetokenizer *detokenizer, bool is_end, gsize *n_bytes)
{
    const uint8_t *bytes = (const uint8_t *) detokenizer->pending->str;
    size_t n = detokenizer->pending->len, pos = 0;

    g_string_truncate(detokenizer->out, 0);
    while (pos < n) {
        bool is_prefix;
        size_t length = sluice_utf8_check(bytes + pos, n - pos, &is_prefix);
        if (length > 0) {
            g_string_append_len(detokenizer->out, (const char *) bytes + pos, (gssize) length);
            pos += length;
        } else if (is_prefix && !is_end) {
            break;
        } else {
            g_string_append(detokenizer->out, REPLACEMENT);
            pos += broken_bytes(bytes + pos, n - pos);
        }
    }
    g_string_erase(detokenizer->pending, 0, (gssize) pos);
    *n_bytes = detokenizer->out->len;
    return detokenizer->out->str;
}

/**
 * sluice_detokenizer_push:
 * @detokenizer: a detokenizer
 * @id: the next token
 * @n_bytes: (out): length of the result
 *
 * Takes a token and gives the text that is now certain. The first bytes of an unfinished character
 * are held back, at most three; bytes that can no longer become one are U+FFFD at once.
 *
 * Returns: (transfer none): valid UTF-8, perhaps none; good until the next call
 * Since: 0.1
 */
const char *
sluice_detokenizer_push(SluiceDetokenizer *detokenizer, int32_t id, gsize *n_bytes)
{
    sluice_tokenizer_append_bytes(detokenizer->tokenizer, id, detokenizer->flags,
                                  detokenizer->pending);
    return drain(detokenizer, false, n_bytes);
}

/**
 * sluice_detokenizer_flush:
 * @detokenizer: a detokenizer
 * @n_bytes: (out): length of the result
 *
 * Ends the text: an unfinished character is U+FFFD. The detokenizer is then at the start of
 * another.
 *
 * Returns: (transfer none): valid UTF-8, perhaps none; good until the next call
 * Since: 0.1
 */
const char *
sluice_detokenizer_flush(SluiceDetokenizer *detokenizer, gsize *n_bytes)
{
    return drain(detokenizer, true, n_bytes);
}
