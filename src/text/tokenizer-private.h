/* SPDX-License-Identifier: MIT */
/* What the parts of the tokenizer share. */
#pragma once

#include "src/text/pretokenizer.h"
#include "src/text/token-matcher.h"
#include "src/text/token-merge.h"
#include "src/text/token-table.h"
#include "src/text/tokenizer.h"

G_BEGIN_DECLS

typedef enum {
    SLUICE_TOKENIZER_BPE,      /* over bytes, each spelt as one printable character */
    SLUICE_TOKENIZER_BPE_CHAR, /* over characters, U+2581 for the space */
    SLUICE_TOKENIZER_SPM,
} SluiceTokenizerKind;

/* Flags of a token. */
enum {
    SLUICE_TOKEN_IS_EOG = 1 << 0,
    SLUICE_TOKEN_IS_VISIBLE = 1 << 1,  /* a control token that decoding shows all the same */
    SLUICE_TOKEN_IS_SHADOWED = 1 << 2, /* a later token has the same text */
    SLUICE_TOKEN_EATS_SPACES = 1 << 3, /* white space behind it goes with it */
};

/* One merge: open addressing by the two ids. */
typedef struct {
    int32_t left, right;
    uint32_t rank; /* SLUICE_TOKEN_MERGE_NONE: the slot is empty */
    int32_t merged;
} SluiceTokenPair;

struct _SluiceTokenizer {
    gatomicrefcount n_refs;
    SluiceTokenizerKind kind;
    SluiceVocabData data; /* tokens; owns the texts. Scores, types and merges are gone */
    size_t n_tokens;
    uint8_t *types;          /* [n_tokens], SluiceTokenType */
    uint8_t *flags;          /* [n_tokens] */
    size_t n_max_text_bytes; /* of any token that a merge may make */
    SluiceTokenTable table;
    SluiceTokenMatcher *matcher;
    int32_t special_ids[SLUICE_SPECIAL_COUNT];
    int32_t byte_ids[256]; /* the token of each byte, or -1 */
    GArray *eog_ids;       /* of int32_t, ascending */
    GPtrArray *notes;      /* of char *, ends in NULL */
    bool adds_bos, adds_eos, adds_space;

    /* BPE */
    const SluicePretokenizer *pretokenizer;
    SluiceTokenPair *pairs;
    size_t pair_mask;
    uint64_t pair_seed;

    /* SentencePiece */
    uint32_t *priorities; /* [n_tokens], lower merges first */
    uint64_t *joins;      /* bit [last byte of a character][first byte of the next]: some token
                             holds the two side by side */
};

/* The character that stands for a space in the vocabularies that have no byte for it. */
#define SLUICE_TOKENIZER_SPACE "\xE2\x96\x81"
#define SLUICE_TOKENIZER_SPACE_BYTES 3

void sluice_tokenizer_note(SluiceTokenizer *tokenizer, const char *format, ...) G_GNUC_PRINTF(2, 3);
SluiceTokenPlane sluice_tokenizer_plane(const SluiceTokenizer *tokenizer, int32_t id);
int32_t sluice_tokenizer_find_text(const SluiceTokenizer *tokenizer, const void *text,
                                   size_t n_bytes);
void sluice_tokenizer_find_byte_tokens(SluiceTokenizer *tokenizer);

gboolean sluice_tokenizer_bpe_init(SluiceTokenizer *tokenizer, const SluiceVocabData *data,
                                   GError **error);
bool sluice_tokenizer_bpe_encode(const SluiceTokenizer *tokenizer, const uint8_t *text,
                                 size_t n_bytes, SluiceTokenScratch *scratch, GArray *ids);
void sluice_tokenizer_bpe_append_bytes(const SluiceGgufString *text, GString *out);

gboolean sluice_tokenizer_spm_init(SluiceTokenizer *tokenizer, const SluiceVocabData *data,
                                   GError **error);
bool sluice_tokenizer_spm_encode(const SluiceTokenizer *tokenizer, const uint8_t *text,
                                 size_t n_bytes, bool adds_space, SluiceTokenScratch *scratch,
                                 GArray *ids);
void sluice_tokenizer_spm_append_bytes(const SluiceGgufString *text, GString *out);
void sluice_tokenizer_append_fallback(const SluiceTokenizer *tokenizer, const uint8_t *bytes,
                                      size_t n_bytes, GArray *ids);
size_t sluice_tokenizer_escape(const uint8_t *text, size_t n_bytes, bool adds_space, uint8_t *out);
int sluice_tokenizer_parse_byte(const SluiceGgufString *text);

G_END_DECLS
