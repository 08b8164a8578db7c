/* SPDX-License-Identifier: MIT */
/*
 * Byte-pair encoding: pieces of the pre-tokenizer, then merges by rank. The "gpt2" form spells each
 * byte as one printable character; the "gemma4" form works on characters, with U+2581 for the
 * space and byte tokens for characters it does not have.
 *
 * Merges are looked up by the ids of the two sides, so that no text is touched while encoding.
 */
#include "config.h"

#include "src/text/tokenizer-private.h"

#include <string.h>

#include "src/core/error.h"
#include "src/text/unicode.h"

/* ---- bytes as characters -------------------------------------------------------------------- */

/* Bytes 21-7E, A1-AC and AE-FF are their own characters; the other 68 are U+0100 and up, in order.
 * Source: the vocabulary of GPT-2, 2019. */
static uint32_t
char_of_byte(uint8_t byte)
{
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte >= 0x7F && byte <= 0xA0)
        return 0x121u + (byte - 0x7Fu);
    return byte == 0xAD ? 0x143 : byte;
}

/* The inverse, or -1. */
static int
byte_of_char(uint32_t c)
{
    if (c >= 0x100 && c <= 0x120)
        return (int) (c - 0x100);
    if (c >= 0x121 && c <= 0x142)
        return (int) (c - 0x121 + 0x7F);
    if (c == 0x143)
        return 0xAD;
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xFF && c != 0xAD) ? (int) c : -1;
}

static size_t
put_byte_char(uint8_t byte, uint8_t *out)
{
    uint32_t c = char_of_byte(byte);

    if (c < 0x80) {
        out[0] = (uint8_t) c;
        return 1;
    }
    out[0] = (uint8_t) (0xC0 | c >> 6);
    out[1] = (uint8_t) (0x80 | (c & 0x3F));
    return 2;
}

/* Appends the bytes that the text of a token stands for. Characters that stand for no byte occur
 * in added tokens and are meant literally. */
void
sluice_tokenizer_bpe_append_bytes(const SluiceGgufString *text, GString *out)
{
    const uint8_t *bytes = (const uint8_t *) text->data;
    size_t n_used;

    for (size_t i = 0; i < text->n_bytes; i += n_used) {
        int byte = byte_of_char(sluice_utf8_decode(bytes + i, text->n_bytes - i, &n_used));
        if (byte >= 0)
            g_string_append_c(out, (char) byte);
        else
            g_string_append_len(out, text->data + i, (gssize) n_used);
    }
}

/* ---- merges --------------------------------------------------------------------------------- */

static inline size_t
pair_slot(const SluiceTokenizer *tokenizer, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t) (uint32_t) left << 32 | (uint32_t) right;

    return (size_t) sluice_token_table_mix(key ^ tokenizer->pair_seed, 0x9E3779B97F4A7C15u) &
           tokenizer->pair_mask;
}

/* The slot of a pair, or the empty one where it would go. */
static inline size_t
find_pair(const SluiceTokenizer *tokenizer, int32_t left, int32_t right)
{
    size_t i = pair_slot(tokenizer, left, right);

    while (tokenizer->pairs[i].rank != SLUICE_TOKEN_MERGE_NONE &&
           (tokenizer->pairs[i].left != left || tokenizer->pairs[i].right != right))
        i = (i + 1) & tokenizer->pair_mask;
    return i;
}

/* One entry of the list of merges. */
typedef struct {
    const char *left, *right;
    size_t n_left, n_right;
    int32_t left_id, right_id; /* -1: no token */
    int32_t merged_id;
} Merge;

/* The texts are divided by the first space that is not the first character. */
static bool
parse_merge(const SluiceGgufString *text, Merge *merge)
{
    const char *space = text->n_bytes < 3 ? NULL : memchr(text->data + 1, ' ', text->n_bytes - 1);

    if (space == NULL)
        return false;
    merge->left = text->data;
    merge->n_left = (size_t) (space - text->data);
    merge->right = space + 1;
    merge->n_right = text->n_bytes - merge->n_left - 1;
    return true;
}

/* Most vocabularies are listed in the order of their merges, so that @guess, the token behind the
 * last merge's, is nearly always the one; comparing is cheaper than the table. */
static int32_t
find_merged(const SluiceTokenizer *tokenizer, const Merge *merge, int32_t guess, GByteArray *buffer)
{
    if (guess >= 0 && (size_t) guess < tokenizer->n_tokens &&
        (tokenizer->flags[guess] & SLUICE_TOKEN_IS_SHADOWED) == 0 &&
        sluice_tokenizer_plane(tokenizer, guess) == SLUICE_TOKEN_PLANE_TEXT) {
        const SluiceGgufString *text = &tokenizer->data.tokens[guess];
        if (text->n_bytes == merge->n_left + merge->n_right &&
            memcmp(text->data, merge->left, merge->n_left) == 0 &&
            memcmp(text->data + merge->n_left, merge->right, merge->n_right) == 0)
            return guess;
    }
    g_byte_array_set_size(buffer, 0);
    g_byte_array_append(buffer, (const guint8 *) merge->left, (guint) merge->n_left);
    g_byte_array_append(buffer, (const guint8 *) merge->right, (guint) merge->n_right);
    return sluice_tokenizer_find_text(tokenizer, buffer->data, buffer->len);
}

/* Finds the sides of up to half a batch of merges. */
static void
find_sides(const SluiceTokenizer *tokenizer, const SluiceGgufString *texts, Merge *merges, size_t n)
{
    SluiceGgufString sides[SLUICE_TOKEN_TABLE_BATCH];
    int32_t ids[SLUICE_TOKEN_TABLE_BATCH];

    for (size_t i = 0; i < n; i++) {
        /* What cannot be divided has empty sides, and those are no tokens. */
        if (texts[i].n_bytes > tokenizer->n_max_text_bytes + 1 ||
            !parse_merge(&texts[i], &merges[i]))
            merges[i] = (Merge){"", "", 0, 0, -1, -1, -1};
        sides[2 * i] = (SluiceGgufString){merges[i].left, merges[i].n_left};
        sides[2 * i + 1] = (SluiceGgufString){merges[i].right, merges[i].n_right};
    }
    sluice_token_table_find_batch(&tokenizer->table, sides, 2 * n, SLUICE_TOKEN_PLANE_TEXT, ids);
    for (size_t i = 0; i < n; i++) {
        merges[i].left_id = ids[2 * i];
        merges[i].right_id = ids[2 * i + 1];
    }
}

/* Enters the merges whose three texts are all tokens; of equal pairs the first counts. A merge
 * without a token can be in no result: the published implementations refuse such a vocabulary. */
static size_t
enter_merges(SluiceTokenizer *tokenizer, const SluiceVocabData *data)
{
    g_autoptr(GByteArray) buffer = g_byte_array_new();
    size_t n_skipped = 0, n;
    int32_t last = -1;

    for (size_t first = 0; first < data->n_merges; first += n) {
        Merge merges[SLUICE_TOKEN_TABLE_BATCH / 2];
        n = MIN(SLUICE_TOKEN_TABLE_BATCH / 2, data->n_merges - first);
        find_sides(tokenizer, data->merges + first, merges, n);
        for (size_t i = 0; i < n; i++) {
            Merge *merge = &merges[i];
            merge->merged_id = -1;
            if (merge->left_id < 0 || merge->right_id < 0)
                continue;
            __builtin_prefetch(
                &tokenizer->pairs[pair_slot(tokenizer, merge->left_id, merge->right_id)], 1);
            merge->merged_id = find_merged(tokenizer, merge, last + 1, buffer);
            if (merge->merged_id >= 0)
                last = merge->merged_id;
        }
        for (size_t i = 0; i < n; i++) {
            const Merge *merge = &merges[i];
            SluiceTokenPair *pair;
            if (merge->merged_id < 0) {
                n_skipped++;
                continue;
            }
            pair = &tokenizer->pairs[find_pair(tokenizer, merge->left_id, merge->right_id)];
            if (pair->rank == SLUICE_TOKEN_MERGE_NONE)
                *pair = (SluiceTokenPair){merge->left_id, merge->right_id, (uint32_t) (first + i),
                                          merge->merged_id};
        }
    }
    return n_skipped;
}

static uint32_t
rank_of_pair(const void *context, const SluiceTokenSymbol *left, const SluiceTokenSymbol *right,
             int32_t *merged_id)
{
    const SluiceTokenizer *tokenizer = context;
    const SluiceTokenPair *pair;

    if (left->id < 0 || right->id < 0)
        return SLUICE_TOKEN_MERGE_NONE;
    pair = &tokenizer->pairs[find_pair(tokenizer, left->id, right->id)];
    *merged_id = pair->merged;
    return pair->rank;
}

/**
 * sluice_tokenizer_bpe_init:
 * @tokenizer: a tokenizer whose table of texts is complete
 * @data: its vocabulary
 * @error: return location, or %NULL
 *
 * Builds what byte-pair encoding needs.
 *
 * Returns: %FALSE with %SLUICE_ERROR_MODEL or %SLUICE_ERROR_MEMORY
 * Since: 0.1
 */
gboolean
sluice_tokenizer_bpe_init(SluiceTokenizer *tokenizer, const SluiceVocabData *data, GError **error)
{
    size_t n_slots = 16, n_skipped;

    if (data->n_merges >= SLUICE_TOKEN_MERGE_NONE / 4) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                    "'tokenizer.ggml.merges' has %zu entries, at most %u are supported",
                    data->n_merges, SLUICE_TOKEN_MERGE_NONE / 4);
        return FALSE;
    }
    while (n_slots < data->n_merges * 2)
        n_slots *= 2;
    tokenizer->pair_mask = n_slots - 1;
    tokenizer->pair_seed = (uint64_t) g_random_int() << 32 | g_random_int();
    tokenizer->pairs = g_try_malloc_n(n_slots, sizeof *tokenizer->pairs);
    if (tokenizer->pairs == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "no memory for a table of %zu merges (%zu bytes)", data->n_merges,
                    n_slots * sizeof *tokenizer->pairs);
        return FALSE;
    }
    memset(tokenizer->pairs, 0xFF, n_slots * sizeof *tokenizer->pairs);
    n_skipped = enter_merges(tokenizer, data);
    if (n_skipped > 0)
        sluice_tokenizer_note(tokenizer,
                              "%zu of %zu entries of 'tokenizer.ggml.merges' name pieces that are "
                              "no tokens; they are left out",
                              n_skipped, data->n_merges);
    if (tokenizer->kind == SLUICE_TOKENIZER_BPE_CHAR) {
        sluice_tokenizer_find_byte_tokens(tokenizer);
        return TRUE;
    }
    for (int b = 0; b < 256; b++) {
        uint8_t text[2];
        size_t n_bytes = put_byte_char((uint8_t) b, text);
        tokenizer->byte_ids[b] = sluice_tokenizer_find_text(tokenizer, text, n_bytes);
    }
    return TRUE;
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* The token that a whole piece is spelt as, or -1. */
static int32_t
find_whole(const SluiceTokenizer *tokenizer, const uint8_t *piece, size_t n_bytes,
           SluiceTokenScratch *scratch)
{
    size_t n_text = 0;

    if (n_bytes > tokenizer->n_max_text_bytes ||
        !sluice_token_scratch_reserve_text(scratch, 2 * n_bytes))
        return -1;
    for (size_t i = 0; i < n_bytes; i++)
        n_text += put_byte_char(piece[i], scratch->text + n_text);
    return sluice_tokenizer_find_text(tokenizer, scratch->text, n_text);
}

static void
append_symbols(const SluiceTokenizer *tokenizer, const SluiceTokenScratch *scratch,
               const uint8_t *piece, GArray *ids)
{
    const SluiceTokenSymbol *symbols = scratch->symbols;

    for (uint32_t i = 0; i != SLUICE_TOKEN_MERGE_NONE; i = symbols[i].next) {
        if (symbols[i].id >= 0)
            g_array_append_val(ids, symbols[i].id);
        else if (tokenizer->kind == SLUICE_TOKENIZER_BPE_CHAR)
            sluice_tokenizer_append_fallback(tokenizer, piece + symbols[i].begin,
                                             symbols[i].n_bytes, ids);
    }
}

/* A byte that the vocabulary does not have leaves nothing, as in the published implementations. */
static bool
encode_byte_piece(const SluiceTokenizer *tokenizer, const uint8_t *piece, size_t n_bytes,
                  SluiceTokenScratch *scratch, GArray *ids)
{
    if (tokenizer->pretokenizer->ignores_merges) {
        int32_t id = find_whole(tokenizer, piece, n_bytes, scratch);
        if (id >= 0) {
            g_array_append_val(ids, id);
            return true;
        }
    }
    if (!sluice_token_scratch_reserve(scratch, n_bytes))
        return false;
    for (size_t i = 0; i < n_bytes; i++) {
        scratch->symbols[i].begin = (uint32_t) i;
        scratch->symbols[i].n_bytes = 1;
        scratch->symbols[i].id = tokenizer->byte_ids[piece[i]];
    }
    if (!sluice_token_merge(scratch, n_bytes, rank_of_pair, tokenizer))
        return false;
    append_symbols(tokenizer, scratch, piece, ids);
    return true;
}

/* A run of newlines that is a token is taken whole. */
static bool
encode_char_piece(const SluiceTokenizer *tokenizer, const uint8_t *piece, size_t n_bytes,
                  SluiceTokenScratch *scratch, GArray *ids)
{
    size_t n = 0, length;

    if (piece[0] == '\n') {
        int32_t id = sluice_tokenizer_find_text(tokenizer, piece, n_bytes);
        if (id >= 0) {
            g_array_append_val(ids, id);
            return true;
        }
    }
    if (!sluice_token_scratch_reserve(scratch, n_bytes))
        return false;
    for (size_t i = 0; i < n_bytes; i += length) {
        sluice_utf8_decode(piece + i, n_bytes - i, &length);
        scratch->symbols[n].begin = (uint32_t) i;
        scratch->symbols[n].n_bytes = (uint32_t) length;
        scratch->symbols[n++].id = sluice_tokenizer_find_text(tokenizer, piece + i, length);
    }
    if (!sluice_token_merge(scratch, n, rank_of_pair, tokenizer))
        return false;
    append_symbols(tokenizer, scratch, piece, ids);
    return true;
}

/* Appends the ids of a text without special tokens; false when there is no memory. */
bool
sluice_tokenizer_bpe_encode(const SluiceTokenizer *tokenizer, const uint8_t *text, size_t n_bytes,
                            SluiceTokenScratch *scratch, GArray *ids)
{
    SluicePretokenizerIter iter;
    size_t begin, end;

    if (tokenizer->kind == SLUICE_TOKENIZER_BPE_CHAR) {
        if (!sluice_token_scratch_reserve_text(scratch, n_bytes * SLUICE_TOKENIZER_SPACE_BYTES))
            return false;
        n_bytes = sluice_tokenizer_escape(text, n_bytes, false, scratch->text);
        text = scratch->text;
    }
    sluice_pretokenizer_iter_init(&iter, tokenizer->pretokenizer, text, n_bytes);
    while (sluice_pretokenizer_iter_next(&iter, &begin, &end)) {
        bool is_done = tokenizer->kind == SLUICE_TOKENIZER_BPE
                           ? encode_byte_piece(tokenizer, text + begin, end - begin, scratch, ids)
                           : encode_char_piece(tokenizer, text + begin, end - begin, scratch, ids);
        if (!is_done)
            return false;
    }
    return true;
}
