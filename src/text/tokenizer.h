/* SPDX-License-Identifier: MIT */
/*
 * Tokenizers: text to token ids and back, by the vocabulary of a model file. Byte-level BPE
 * ("gpt2"), BPE over characters ("gemma4") and the score merges of SentencePiece ("llama").
 *
 * Texts carry their length; NUL bytes and malformed UTF-8 are data like any other. A tokenizer is
 * immutable: any number of threads may use one.
 */
#pragma once

#include <glib.h>

#include "src/format/gguf.h"
#include "src/text/span.h"

G_BEGIN_DECLS

typedef struct _SluiceTokenizer SluiceTokenizer;

/* Longer texts are refused; ids then fit in 32 bits with room, and so do escaped texts. */
#define SLUICE_TOKENIZER_MAX_TEXT_BYTES ((size_t) 512 << 20)

/* The values are the format's. */
typedef enum {
    SLUICE_TOKEN_UNDEFINED = 0,
    SLUICE_TOKEN_NORMAL = 1,
    SLUICE_TOKEN_UNKNOWN = 2,
    SLUICE_TOKEN_CONTROL = 3,
    SLUICE_TOKEN_USER_DEFINED = 4,
    SLUICE_TOKEN_UNUSED = 5,
    SLUICE_TOKEN_BYTE = 6,
} SluiceTokenType;

/* Tokens with a part to play; FIM is "fill in the middle". */
typedef enum {
    SLUICE_SPECIAL_BOS,
    SLUICE_SPECIAL_EOS,
    SLUICE_SPECIAL_EOT,
    SLUICE_SPECIAL_EOM,
    SLUICE_SPECIAL_UNKNOWN,
    SLUICE_SPECIAL_SEPARATOR,
    SLUICE_SPECIAL_PAD,
    SLUICE_SPECIAL_MASK,
    SLUICE_SPECIAL_FIM_PREFIX,
    SLUICE_SPECIAL_FIM_SUFFIX,
    SLUICE_SPECIAL_FIM_MIDDLE,
    SLUICE_SPECIAL_FIM_PAD,
    SLUICE_SPECIAL_FIM_REPO,
    SLUICE_SPECIAL_FIM_FILE,
    SLUICE_SPECIAL_COUNT,
} SluiceSpecial;

typedef enum {
    SLUICE_ENCODE_PLAIN = 0,
    SLUICE_ENCODE_ADD_SPECIAL = 1 << 0,   /* BOS and EOS where the model wants them */
    SLUICE_ENCODE_PARSE_SPECIAL = 1 << 1, /* control tokens spelt out in the text count as such */
} SluiceEncodeFlags;

typedef enum {
    SLUICE_DECODE_PLAIN = 0,
    SLUICE_DECODE_SHOW_SPECIAL = 1 << 0, /* control tokens appear as their text */
} SluiceDecodeFlags;

/*
 * A vocabulary as a model file has it. The arrays are allocated by GLib and belong to the struct;
 * the bytes of the texts belong to @owner. Zeroed, with -1 in @special_ids, it is empty:
 * sluice_vocab_data_init().
 */
typedef struct {
    SluiceGgufString model;   /* tokenizer.ggml.model */
    SluiceGgufString pre;     /* tokenizer.ggml.pre; data is NULL if the file has none */
    SluiceGgufString name;    /* general.name; may be NULL */
    SluiceGgufString *tokens; /* [n_tokens] */
    size_t n_tokens;
    float *scores; /* [n_scores], or NULL */
    size_t n_scores;
    int64_t *types; /* [n_types], or NULL: all normal */
    size_t n_types;
    SluiceGgufString *merges; /* [n_merges], "left right" */
    size_t n_merges;
    int64_t special_ids[SLUICE_SPECIAL_COUNT]; /* -1: not in the file */
    int add_bos, add_eos, add_space_prefix;    /* -1: not in the file */
    gpointer owner;
    GDestroyNotify owner_free;
} SluiceVocabData;

void sluice_vocab_data_init(SluiceVocabData *data);
void sluice_vocab_data_clear(SluiceVocabData *data);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SluiceVocabData, sluice_vocab_data_clear)

SluiceTokenizer *sluice_tokenizer_new(const SluiceGguf *gguf, GError **error);
SluiceTokenizer *sluice_tokenizer_new_from_data(SluiceVocabData *data, GError **error);
SluiceTokenizer *sluice_tokenizer_ref(SluiceTokenizer *tokenizer);
void sluice_tokenizer_unref(SluiceTokenizer *tokenizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceTokenizer, sluice_tokenizer_unref)

const char *const *sluice_tokenizer_notes(const SluiceTokenizer *tokenizer);
size_t sluice_tokenizer_bytes(const SluiceTokenizer *tokenizer);
size_t sluice_tokenizer_n_tokens(const SluiceTokenizer *tokenizer);
const char *sluice_tokenizer_text(const SluiceTokenizer *tokenizer, int32_t id, size_t *n_bytes);
SluiceTokenType sluice_tokenizer_type(const SluiceTokenizer *tokenizer, int32_t id);
int32_t sluice_tokenizer_find(const SluiceTokenizer *tokenizer, const char *text, gssize n_bytes);
int32_t sluice_tokenizer_special(const SluiceTokenizer *tokenizer, SluiceSpecial special);
bool sluice_tokenizer_is_eog(const SluiceTokenizer *tokenizer, int32_t id);
const int32_t *sluice_tokenizer_eog_ids(const SluiceTokenizer *tokenizer, size_t *n_ids);
bool sluice_tokenizer_adds_bos(const SluiceTokenizer *tokenizer);
bool sluice_tokenizer_adds_eos(const SluiceTokenizer *tokenizer);

gboolean sluice_tokenizer_encode(const SluiceTokenizer *tokenizer, const char *text, gsize n_bytes,
                                 SluiceEncodeFlags flags, const SluiceTextSpan *untrusted,
                                 gsize n_untrusted, GArray *ids, GError **error);
void sluice_tokenizer_append_bytes(const SluiceTokenizer *tokenizer, int32_t id,
                                   SluiceDecodeFlags flags, GString *out);
char *sluice_tokenizer_decode(const SluiceTokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                              SluiceDecodeFlags flags, gsize *n_bytes);

G_END_DECLS
