/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of the tokenizers. An input is a vocabulary in the text form of
 * tests/data/tokenizer/vocab-*.txt, a line "%", three bytes, and a text to encode with it: the
 * first byte has the flags, the others begin and end a span of the text that is not trusted.
 *
 * Whatever the vocabulary: ids are tokens, there is a bound on how many, text that is not trusted
 * makes no control token, and what is streamed is UTF-8.
 */
#include "config.h"

#include <string.h>

#include "src/text/detokenizer.h"
#include "tests/tokenizer_data.h"

/* Enough for any rule to show; longer inputs only slow the search down. */
#define MAX_BYTES (1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void
must(bool holds, const char *what)
{
    if (!holds)
        g_error("broken: %s", what);
}

static bool
is_utf8(const char *text, gsize n_bytes)
{
    const char *end = text + n_bytes;

    while (text < end) {
        const char *nul = memchr(text, '\0', (size_t) (end - text));
        const char *stop = nul != NULL ? nul : end;
        if (!g_utf8_validate(text, stop - text, NULL))
            return false;
        text = nul != NULL ? nul + 1 : end;
    }
    return true;
}

static void
stream(SluiceTokenizer *tokenizer, const GArray *ids, SluiceDecodeFlags flags)
{
    g_autoptr(SluiceDetokenizer) detokenizer = sluice_detokenizer_new(tokenizer, flags);
    const char *text;
    gsize n_bytes;

    for (guint i = 0; i < ids->len; i++) {
        text = sluice_detokenizer_push(detokenizer, g_array_index(ids, int32_t, i), &n_bytes);
        must(is_utf8(text, n_bytes), "a push gives UTF-8");
    }
    text = sluice_detokenizer_flush(detokenizer, &n_bytes);
    must(is_utf8(text, n_bytes) && n_bytes <= 9, "a flush gives at most three replacements");
}

static void
encode(SluiceTokenizer *tokenizer, const char *text, size_t n_bytes, const SluiceTextSpan *span,
       SluiceEncodeFlags flags)
{
    g_autoptr(GArray) ids = g_array_new(FALSE, FALSE, sizeof(int32_t));
    bool is_all_untrusted = span->begin == 0 && span->end >= n_bytes;

    if (!sluice_tokenizer_encode(tokenizer, text, n_bytes, flags, span, 1, ids, NULL))
        return;
    must(ids->len <= 3 * n_bytes + 5, "a byte gives at most three ids");
    for (guint i = 0; i < ids->len; i++) {
        int32_t id = g_array_index(ids, int32_t, i);
        must(id >= 0 && (size_t) id < sluice_tokenizer_n_tokens(tokenizer), "an id is a token");
        if (is_all_untrusted && (flags & SLUICE_ENCODE_ADD_SPECIAL) == 0)
            must(sluice_tokenizer_type(tokenizer, id) != SLUICE_TOKEN_CONTROL ||
                     id == sluice_tokenizer_special(tokenizer, SLUICE_SPECIAL_UNKNOWN),
                 "no control token comes from a user");
    }
    g_free(sluice_tokenizer_decode(tokenizer, (const int32_t *) (gpointer) ids->data, ids->len,
                                   SLUICE_DECODE_PLAIN, NULL));
    stream(tokenizer, ids,
           (flags & SLUICE_ENCODE_PARSE_SPECIAL) != 0 ? SLUICE_DECODE_SHOW_SPECIAL
                                                      : SLUICE_DECODE_PLAIN);
}

static void
ask(SluiceTokenizer *tokenizer)
{
    size_t n_tokens = sluice_tokenizer_n_tokens(tokenizer), n_eog, n_found = 0;
    const int32_t *eog = sluice_tokenizer_eog_ids(tokenizer, &n_eog);

    for (size_t i = 0; i < n_tokens; i++) {
        size_t n_bytes;
        const char *text = sluice_tokenizer_text(tokenizer, (int32_t) i, &n_bytes);
        int32_t found = sluice_tokenizer_find(tokenizer, text, (gssize) n_bytes);
        must((found >= 0) == (n_bytes > 0), "every text is found");
        n_found += sluice_tokenizer_is_eog(tokenizer, (int32_t) i);
    }
    must(n_found == n_eog, "the list of ends is complete");
    for (size_t i = 0; i < n_eog; i++)
        must(sluice_tokenizer_is_eog(tokenizer, eog[i]), "the list has ends only");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    g_auto(SluiceVocabData) vocabulary;
    g_autoptr(SluiceTokenizer) tokenizer = NULL;
    const char *input = (const char *) data;
    const char *split;
    SluiceTextSpan span;
    size_t n_text;
    int flags;

    sluice_vocab_data_init(&vocabulary);
    if (n_bytes > MAX_BYTES || (split = g_strstr_len(input, (gssize) n_bytes, "\n%\n")) == NULL)
        return 0;
    test_vocab_parse(input, (size_t) (split - input), &vocabulary);
    tokenizer = sluice_tokenizer_new_from_data(&vocabulary, NULL);
    split += 3;
    n_text = n_bytes - (size_t) (split - input);
    if (tokenizer == NULL || n_text < 3)
        return 0;
    flags = split[0];
    span = (SluiceTextSpan){(uint8_t) split[1], (uint8_t) split[2]};
    /* The last value stands for everything. */
    if (span.end == 255)
        span = (SluiceTextSpan){0, n_bytes};
    ask(tokenizer);
    encode(tokenizer, split + 3, n_text - 3, &span,
           (SluiceEncodeFlags) (flags & (SLUICE_ENCODE_ADD_SPECIAL | SLUICE_ENCODE_PARSE_SPECIAL)));
    return 0;
}
