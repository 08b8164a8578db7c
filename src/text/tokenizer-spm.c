/* SPDX-License-Identifier: MIT */
/*
 * The merges of SentencePiece's BPE: among neighbours whose texts together are a token, those with
 * the highest score merge first. There is no pre-tokenizer; but where no token of the vocabulary
 * holds the two characters at a place side by side, no merge can cross it, and the text is cut
 * there: same ids, short pieces.
 */
#include "config.h"

#include "src/text/tokenizer-private.h"

#include <math.h>
#include <string.h>

#include "src/core/error.h"
#include "src/text/unicode.h"

/* Stands for U+2581 in the join table; neither begins nor ends a character of UTF-8. */
#define SPACE_MARK 0xFF

/* ---- what every vocabulary with byte tokens needs ------------------------------------------- */

/* The byte that a token `<0xHH>` stands for, or -1 if the text is anything else. */
int
sluice_tokenizer_parse_byte(const SluiceGgufString *text)
{
    const char *s = text->data;

    if (text->n_bytes != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>' || !g_ascii_isxdigit(s[3]) ||
        !g_ascii_isxdigit(s[4]))
        return -1;
    return g_ascii_xdigit_value(s[3]) * 16 + g_ascii_xdigit_value(s[4]);
}

/* A byte without a token `<0xHH>` may have one of its own. */
void
sluice_tokenizer_find_byte_tokens(SluiceTokenizer *tokenizer)
{
    for (int b = 0; b < 256; b++) {
        char text[8];
        uint8_t byte = (uint8_t) b;
        int32_t id;
        g_snprintf(text, sizeof text, "<0x%02X>", (unsigned) b);
        id = sluice_token_table_find(&tokenizer->table, text, 6, SLUICE_TOKEN_PLANE_SPECIAL);
        if (id < 0 || tokenizer->types[id] != SLUICE_TOKEN_BYTE)
            id = sluice_tokenizer_find_text(tokenizer, text, 6);
        if (id < 0)
            id = sluice_tokenizer_find_text(tokenizer, &byte, 1);
        tokenizer->byte_ids[b] = id;
    }
}

/* Ids of the bytes of a character that is no token. */
void
sluice_tokenizer_append_fallback(const SluiceTokenizer *tokenizer, const uint8_t *bytes,
                                 size_t n_bytes, GArray *ids)
{
    for (size_t i = 0; i < n_bytes; i++) {
        int32_t id = tokenizer->byte_ids[bytes[i]];
        if (id < 0)
            id = tokenizer->special_ids[SLUICE_SPECIAL_UNKNOWN];
        if (id >= 0)
            g_array_append_val(ids, id);
    }
}

/* Writes @text with every space as U+2581, and one in front if @adds_space, into @out, which has
 * room for three times its bytes and three more. Returns the length. */
size_t
sluice_tokenizer_escape(const uint8_t *text, size_t n_bytes, bool adds_space, uint8_t *out)
{
    size_t n = 0;

    if (adds_space) {
        memcpy(out, SLUICE_TOKENIZER_SPACE, SLUICE_TOKENIZER_SPACE_BYTES);
        n = SLUICE_TOKENIZER_SPACE_BYTES;
    }
    for (size_t i = 0; i < n_bytes; i++) {
        if (text[i] == ' ') {
            memcpy(out + n, SLUICE_TOKENIZER_SPACE, SLUICE_TOKENIZER_SPACE_BYTES);
            n += SLUICE_TOKENIZER_SPACE_BYTES;
        } else {
            out[n++] = text[i];
        }
    }
    return n;
}

/* The inverse. */
void
sluice_tokenizer_spm_append_bytes(const SluiceGgufString *text, GString *out)
{
    for (size_t i = 0; i < text->n_bytes;) {
        if (text->n_bytes - i >= SLUICE_TOKENIZER_SPACE_BYTES &&
            memcmp(text->data + i, SLUICE_TOKENIZER_SPACE, SLUICE_TOKENIZER_SPACE_BYTES) == 0) {
            g_string_append_c(out, ' ');
            i += SLUICE_TOKENIZER_SPACE_BYTES;
        } else {
            g_string_append_c(out, text->data[i++]);
        }
    }
}

/* ---- scores and joins ----------------------------------------------------------------------- */

/* Maps scores to integers so that a higher score is a lower number; equal scores stay equal, what
 * is no number comes last. */
static uint32_t
priority_of_score(float score)
{
    uint32_t bits;

    if (isnan(score))
        score = -INFINITY;
    score += 0.0f; /* -0 and 0 are one score */
    memcpy(&bits, &score, sizeof bits);
    return ~((bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u);
}

/* The character at the front of @text as the join table sees it: its length, first and last byte.
 * A malformed byte is a character of its own, so that what surrounds it is found all the same. */
static inline size_t
edge_bytes(const uint8_t *text, size_t n_bytes, uint8_t *first, uint8_t *last)
{
    size_t length;

    sluice_utf8_decode(text, n_bytes, &length);
    *first = text[0];
    *last = text[length - 1];
    if (length == SLUICE_TOKENIZER_SPACE_BYTES &&
        memcmp(text, SLUICE_TOKENIZER_SPACE, SLUICE_TOKENIZER_SPACE_BYTES) == 0)
        *first = *last = SPACE_MARK;
    return length;
}

static inline bool
may_join(const SluiceTokenizer *tokenizer, uint8_t last, uint8_t first)
{
    return (tokenizer->joins[last * 4 + first / 64] >> (first % 64) & 1) != 0;
}

static void
enter_joins(SluiceTokenizer *tokenizer, const SluiceGgufString *text)
{
    const uint8_t *bytes = (const uint8_t *) text->data;
    uint8_t first, last, next_last;
    size_t i;

    if (text->n_bytes == 0)
        return;
    i = edge_bytes(bytes, text->n_bytes, &first, &last);
    while (i < text->n_bytes) {
        i += edge_bytes(bytes + i, text->n_bytes - i, &first, &next_last);
        tokenizer->joins[last * 4 + first / 64] |= (uint64_t) 1 << (first % 64);
        last = next_last;
    }
}

/**
 * sluice_tokenizer_spm_init:
 * @tokenizer: a tokenizer whose table of texts is complete
 * @data: its vocabulary
 * @error: return location, or %NULL
 *
 * Builds what the merges by score need.
 *
 * Returns: %FALSE with %SLUICE_ERROR_MODEL or %SLUICE_ERROR_MEMORY
 * Since: 0.1
 */
gboolean
sluice_tokenizer_spm_init(SluiceTokenizer *tokenizer, const SluiceVocabData *data, GError **error)
{
    if (data->scores != NULL && data->n_scores != tokenizer->n_tokens) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                    "'tokenizer.ggml.scores' has %zu entries, expected %zu", data->n_scores,
                    tokenizer->n_tokens);
        return FALSE;
    }
    tokenizer->priorities = g_try_new(uint32_t, tokenizer->n_tokens);
    tokenizer->joins = g_new0(uint64_t, 256 * 4);
    if (tokenizer->priorities == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "no memory for the scores of %zu tokens", tokenizer->n_tokens);
        return FALSE;
    }
    for (size_t i = 0; i < tokenizer->n_tokens; i++) {
        tokenizer->priorities[i] = priority_of_score(data->scores != NULL ? data->scores[i] : 0);
        if (sluice_tokenizer_plane(tokenizer, (int32_t) i) == SLUICE_TOKEN_PLANE_TEXT)
            enter_joins(tokenizer, &data->tokens[i]);
    }
    sluice_tokenizer_find_byte_tokens(tokenizer);
    return TRUE;
}

/* ---- encoding ------------------------------------------------------------------------------- */

typedef struct {
    const SluiceTokenizer *tokenizer;
    const uint8_t *text;
} Piece;

static uint32_t
priority_of_pair(const void *context, const SluiceTokenSymbol *left, const SluiceTokenSymbol *right,
                 int32_t *merged_id)
{
    const Piece *piece = context;
    size_t n_bytes = (size_t) left->n_bytes + right->n_bytes;

    if (n_bytes > piece->tokenizer->n_max_text_bytes)
        return SLUICE_TOKEN_MERGE_NONE;
    *merged_id = sluice_tokenizer_find_text(piece->tokenizer, piece->text + left->begin, n_bytes);
    return *merged_id < 0 ? SLUICE_TOKEN_MERGE_NONE : piece->tokenizer->priorities[*merged_id];
}

/* A symbol that came of a merge has its token; one that did not is looked up only here. */
static void
append_symbols(const Piece *piece, const SluiceTokenScratch *scratch, GArray *ids)
{
    const SluiceTokenSymbol *symbols = scratch->symbols;

    for (uint32_t i = 0; i != SLUICE_TOKEN_MERGE_NONE; i = symbols[i].next) {
        const uint8_t *text = piece->text + symbols[i].begin;
        int32_t id = symbols[i].id;
        if (id < 0)
            id = sluice_tokenizer_find_text(piece->tokenizer, text, symbols[i].n_bytes);
        if (id >= 0)
            g_array_append_val(ids, id);
        else
            sluice_tokenizer_append_fallback(piece->tokenizer, text, symbols[i].n_bytes, ids);
    }
}

/* Appends the ids of a text without special tokens; false when there is no memory. */
bool
sluice_tokenizer_spm_encode(const SluiceTokenizer *tokenizer, const uint8_t *text, size_t n_bytes,
                            bool adds_space, SluiceTokenScratch *scratch, GArray *ids)
{
    Piece piece = {tokenizer, NULL};
    size_t n_text, pos = 0;

    if (!sluice_token_scratch_reserve_text(scratch, (n_bytes + 1) * SLUICE_TOKENIZER_SPACE_BYTES))
        return false;
    n_text = sluice_tokenizer_escape(text, n_bytes, adds_space, scratch->text);
    while (pos < n_text) {
        size_t begin = pos, n = 0;
        uint8_t first, last = 0;
        do {
            uint8_t next_last;
            size_t length = edge_bytes(scratch->text + pos, n_text - pos, &first, &next_last);
            if (n > 0 && !may_join(tokenizer, last, first))
                break;
            if (!sluice_token_scratch_reserve(scratch, n + 1))
                return false;
            scratch->symbols[n].begin = (uint32_t) (pos - begin);
            scratch->symbols[n].n_bytes = (uint32_t) length;
            scratch->symbols[n++].id = -1;
            last = next_last;
            pos += length;
        } while (pos < n_text);
        piece.text = scratch->text + begin;
        if (!sluice_token_merge(scratch, n, priority_of_pair, &piece))
            return false;
        append_symbols(&piece, scratch, ids);
    }
    return true;
}
