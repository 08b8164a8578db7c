/* SPDX-License-Identifier: MIT */
/*
 * A tokenizer's life: what the metadata mean, special tokens, and the frame of encoding and
 * decoding that the algorithms in tokenizer-bpe.c and tokenizer-spm.c fill.
 */
#include "config.h"

#include "src/text/tokenizer-private.h"

#include <string.h>

#include "src/core/error.h"

/* Ids are kept in 32 bits; no vocabulary comes near this. */
#define MAX_TOKENS (1u << 28)

/* ---- tables of names ------------------------------------------------------------------------ */

/* Tokens that end a turn or a text whatever the metadata say. */
static const char *const EOG_TEXTS[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81"
    "of\xE2\x96\x81"
    "sentence\xEF\xBD\x9C>",
    "[e~[",
};

/* Texts of tokens with a part to play, for files that do not name them; the first found counts. */
static const struct {
    SluiceSpecial special;
    const char *text;
} SPECIAL_TEXTS[] = {
    {SLUICE_SPECIAL_EOT, "<|eot_id|>"},
    {SLUICE_SPECIAL_EOT, "<|im_end|>"},
    {SLUICE_SPECIAL_EOT, "<|end|>"},
    {SLUICE_SPECIAL_EOT, "<end_of_turn>"},
    {SLUICE_SPECIAL_EOT, "<turn|>"},
    {SLUICE_SPECIAL_EOT, "<|endoftext|>"},
    {SLUICE_SPECIAL_EOT, "<|end_of_text|>"},
    {SLUICE_SPECIAL_EOT, "<EOT>"},
    {SLUICE_SPECIAL_EOT, "_<EOT>"},
    {SLUICE_SPECIAL_EOT, "[EOT]"},
    {SLUICE_SPECIAL_EOT, "<end_of_utterance>"},
    {SLUICE_SPECIAL_EOM, "<|eom_id|>"},
    {SLUICE_SPECIAL_FIM_PREFIX, "<|fim_prefix|>"},
    {SLUICE_SPECIAL_FIM_PREFIX, "<fim_prefix>"},
    {SLUICE_SPECIAL_FIM_PREFIX, "<fim-prefix>"},
    {SLUICE_SPECIAL_FIM_PREFIX, "<PRE>"},
    {SLUICE_SPECIAL_FIM_SUFFIX, "<|fim_suffix|>"},
    {SLUICE_SPECIAL_FIM_SUFFIX, "<fim_suffix>"},
    {SLUICE_SPECIAL_FIM_SUFFIX, "<fim-suffix>"},
    {SLUICE_SPECIAL_FIM_SUFFIX, "<SUF>"},
    {SLUICE_SPECIAL_FIM_MIDDLE, "<|fim_middle|>"},
    {SLUICE_SPECIAL_FIM_MIDDLE, "<fim_middle>"},
    {SLUICE_SPECIAL_FIM_MIDDLE, "<fim-middle>"},
    {SLUICE_SPECIAL_FIM_MIDDLE, "<MID>"},
    {SLUICE_SPECIAL_FIM_PAD, "<|fim_pad|>"},
    {SLUICE_SPECIAL_FIM_REPO, "<|fim_repo|>"},
    {SLUICE_SPECIAL_FIM_REPO, "<|repo_name|>"},
    {SLUICE_SPECIAL_FIM_FILE, "<|file_sep|>"},
};

/* ---- small things that the parts share ------------------------------------------------------ */

/* Keeps a sentence that the user should see, and logs it. */
void
sluice_tokenizer_note(SluiceTokenizer *tokenizer, const char *format, ...)
{
    va_list args;
    char *note;

    va_start(args, format);
    note = g_strdup_vprintf(format, args);
    va_end(args);
    g_info("%s", note);
    g_ptr_array_insert(tokenizer->notes, (int) tokenizer->notes->len - 1, note);
}

/* Which tokens a merge may make, and which only their own spelling. */
SluiceTokenPlane
sluice_tokenizer_plane(const SluiceTokenizer *tokenizer, int32_t id)
{
    uint8_t type = tokenizer->types[id];

    return type == SLUICE_TOKEN_CONTROL || type == SLUICE_TOKEN_UNKNOWN || type == SLUICE_TOKEN_BYTE
               ? SLUICE_TOKEN_PLANE_SPECIAL
               : SLUICE_TOKEN_PLANE_TEXT;
}

int32_t
sluice_tokenizer_find_text(const SluiceTokenizer *tokenizer, const void *text, size_t n_bytes)
{
    return sluice_token_table_find(&tokenizer->table, text, n_bytes, SLUICE_TOKEN_PLANE_TEXT);
}

static bool
is_string(const SluiceGgufString *string, const char *text)
{
    return string->n_bytes == strlen(text) && memcmp(string->data, text, string->n_bytes) == 0;
}

static bool
is_token(const SluiceTokenizer *tokenizer, int64_t id)
{
    return id >= 0 && (uint64_t) id < tokenizer->n_tokens;
}

/* ---- construction --------------------------------------------------------------------------- */

static gboolean
choose_algorithm(SluiceTokenizer *tokenizer, const SluiceVocabData *data, GError **error)
{
    g_autofree char *name = NULL;

    if (is_string(&data->model, "llama")) {
        tokenizer->kind = SLUICE_TOKENIZER_SPM;
        return TRUE;
    }
    if (is_string(&data->model, "gemma4")) {
        tokenizer->kind = SLUICE_TOKENIZER_BPE_CHAR;
        tokenizer->pretokenizer = sluice_pretokenizer_find("gemma4", -1);
        return TRUE;
    }
    name = sluice_error_printable(data->model.data != NULL ? data->model.data : "",
                                  (gssize) data->model.n_bytes);
    if (!is_string(&data->model, "gpt2")) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                    "tokenizer model '%s' is not supported, only 'gpt2', 'llama' and 'gemma4' are",
                    name);
        return FALSE;
    }
    tokenizer->kind = SLUICE_TOKENIZER_BPE;
    if (data->pre.data == NULL) {
        tokenizer->pretokenizer = sluice_pretokenizer_find("default", -1);
        sluice_tokenizer_note(tokenizer, "the file has no 'tokenizer.ggml.pre'; texts are split by "
                                         "the default rule, and the answers may suffer");
        return TRUE;
    }
    tokenizer->pretokenizer = sluice_pretokenizer_find(data->pre.data, (gssize) data->pre.n_bytes);
    if (tokenizer->pretokenizer == NULL) {
        g_autofree char *pre = sluice_error_printable(data->pre.data, (gssize) data->pre.n_bytes);
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL, "unknown pre-tokenizer '%s'", pre);
        return FALSE;
    }
    /* Such a file is meant for characters, whatever its model says. */
    if (tokenizer->pretokenizer == sluice_pretokenizer_find("gemma4", -1))
        tokenizer->kind = SLUICE_TOKENIZER_BPE_CHAR;
    return TRUE;
}

static gboolean
check_sizes(const SluiceVocabData *data, GError **error)
{
    if (data->n_tokens == 0 || data->n_tokens > MAX_TOKENS) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                    "'tokenizer.ggml.tokens' has %zu entries, expected 1 to %u", data->n_tokens,
                    MAX_TOKENS);
        return FALSE;
    }
    if (data->types != NULL && data->n_types != data->n_tokens) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                    "'tokenizer.ggml.token_type' has %zu entries, expected %zu", data->n_types,
                    data->n_tokens);
        return FALSE;
    }
    for (size_t i = 0; i < data->n_tokens; i++) {
        if (data->tokens[i].n_bytes > SLUICE_TOKENIZER_MAX_TEXT_BYTES) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                        "token %zu has a text of %zu bytes, at most %zu are supported", i,
                        data->tokens[i].n_bytes, SLUICE_TOKENIZER_MAX_TEXT_BYTES);
            return FALSE;
        }
    }
    return TRUE;
}

static bool
is_eog_text(const SluiceGgufString *text)
{
    /* Nearly every text fails here. */
    if (text->n_bytes < 4 || (text->data[0] != '<' && text->data[0] != '[' && text->data[0] != '_'))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(EOG_TEXTS); i++)
        if (is_string(text, EOG_TEXTS[i]))
            return true;
    return false;
}

/* Tokens that end a turn are control tokens, even in files that call them something else: else any
 * text could hold one. */
static gboolean
read_types(SluiceTokenizer *tokenizer, const SluiceVocabData *data, GError **error)
{
    tokenizer->types = g_try_malloc_n(tokenizer->n_tokens, 1);
    tokenizer->flags = g_try_malloc0_n(tokenizer->n_tokens, 1);
    if (tokenizer->types == NULL || tokenizer->flags == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY, "no memory for %zu tokens",
                    tokenizer->n_tokens);
        return FALSE;
    }
    for (size_t i = 0; i < tokenizer->n_tokens; i++) {
        int64_t type = data->types != NULL ? data->types[i] : SLUICE_TOKEN_NORMAL;
        if (type < SLUICE_TOKEN_UNDEFINED || type > SLUICE_TOKEN_BYTE) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                        "token %zu has type %" G_GINT64_FORMAT ", expected 0 to %d", i, type,
                        SLUICE_TOKEN_BYTE);
            return FALSE;
        }
        tokenizer->types[i] = is_eog_text(&data->tokens[i]) ? SLUICE_TOKEN_CONTROL : (uint8_t) type;
    }
    return TRUE;
}

static gboolean
enter_texts(SluiceTokenizer *tokenizer, GError **error)
{
    if (!sluice_token_table_init(&tokenizer->table, tokenizer->data.tokens, tokenizer->n_tokens,
                                 error))
        return FALSE;
    for (size_t first = 0; first < tokenizer->n_tokens; first += SLUICE_TOKEN_TABLE_BATCH) {
        SluiceTokenPlane planes[SLUICE_TOKEN_TABLE_BATCH];
        int32_t shadowed[SLUICE_TOKEN_TABLE_BATCH];
        size_t n = MIN(SLUICE_TOKEN_TABLE_BATCH, tokenizer->n_tokens - first);
        for (size_t i = 0; i < n; i++) {
            size_t n_bytes = tokenizer->data.tokens[first + i].n_bytes;
            planes[i] = sluice_tokenizer_plane(tokenizer, (int32_t) (first + i));
            if (planes[i] == SLUICE_TOKEN_PLANE_TEXT)
                tokenizer->n_max_text_bytes = MAX(tokenizer->n_max_text_bytes, n_bytes);
        }
        sluice_token_table_insert_batch(&tokenizer->table, (int32_t) first, n, planes, shadowed);
        for (size_t i = 0; i < n; i++)
            if (shadowed[i] >= 0)
                tokenizer->flags[shadowed[i]] |= SLUICE_TOKEN_IS_SHADOWED;
    }
    return TRUE;
}

static void
read_special_ids(SluiceTokenizer *tokenizer, const SluiceVocabData *data)
{
    static const int64_t spm_ids[] = {1, 2, 0}, bpe_ids[] = {11, 11, -1};
    static const SluiceSpecial defaulted[] = {SLUICE_SPECIAL_BOS, SLUICE_SPECIAL_EOS,
                                              SLUICE_SPECIAL_UNKNOWN};
    const int64_t *ids = tokenizer->kind == SLUICE_TOKENIZER_SPM ? spm_ids : bpe_ids;

    for (int i = 0; i < SLUICE_SPECIAL_COUNT; i++) {
        tokenizer->special_ids[i] = -1;
        if (is_token(tokenizer, data->special_ids[i]))
            tokenizer->special_ids[i] = (int32_t) data->special_ids[i];
        else if (data->special_ids[i] >= 0)
            sluice_tokenizer_note(tokenizer,
                                  "special token %" G_GINT64_FORMAT
                                  " is left out: the vocabulary ends at %zu",
                                  data->special_ids[i], tokenizer->n_tokens - 1);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(defaulted); i++)
        if (data->special_ids[defaulted[i]] < 0 && is_token(tokenizer, ids[i]) &&
            tokenizer->kind != SLUICE_TOKENIZER_BPE_CHAR)
            tokenizer->special_ids[defaulted[i]] = (int32_t) ids[i];
    for (size_t i = 0; i < G_N_ELEMENTS(SPECIAL_TEXTS); i++) {
        int32_t *id = &tokenizer->special_ids[SPECIAL_TEXTS[i].special];
        if (*id < 0)
            *id = sluice_tokenizer_find(tokenizer, SPECIAL_TEXTS[i].text, -1);
    }
}

static void
add_eog(SluiceTokenizer *tokenizer, int32_t id)
{
    if (id >= 0)
        tokenizer->flags[id] |= SLUICE_TOKEN_IS_EOG;
}

static void
drop_eog(SluiceTokenizer *tokenizer, const char *text)
{
    int32_t id = sluice_tokenizer_find(tokenizer, text, -1);

    if (id >= 0)
        tokenizer->flags[id] &= (uint8_t) ~SLUICE_TOKEN_IS_EOG;
}

/* The format of gpt-oss: a turn ends in <|return|> or <|call|>, <|end|> only ends a message, and
 * the parser of answers must see the marks between their parts. The marks stay control tokens, so
 * that no user can write them. */
static void
apply_harmony(SluiceTokenizer *tokenizer)
{
    static const char *const marks[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

    if (sluice_tokenizer_find(tokenizer, "<|return|>", -1) < 0 ||
        sluice_tokenizer_find(tokenizer, "<|call|>", -1) < 0)
        return;
    drop_eog(tokenizer, "<|end|>");
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        int32_t id = sluice_tokenizer_find(tokenizer, marks[i], -1);
        if (id >= 0)
            tokenizer->flags[id] |= SLUICE_TOKEN_IS_VISIBLE;
    }
}

static void
find_eog(SluiceTokenizer *tokenizer)
{
    static const SluiceSpecial specials[] = {
        SLUICE_SPECIAL_EOS,     SLUICE_SPECIAL_EOT,      SLUICE_SPECIAL_EOM,
        SLUICE_SPECIAL_FIM_PAD, SLUICE_SPECIAL_FIM_REPO, SLUICE_SPECIAL_FIM_FILE,
    };

    for (size_t i = 0; i < G_N_ELEMENTS(specials); i++)
        add_eog(tokenizer, tokenizer->special_ids[specials[i]]);
    for (size_t i = 0; i < G_N_ELEMENTS(EOG_TEXTS); i++) {
        int32_t id = sluice_tokenizer_find(tokenizer, EOG_TEXTS[i], -1);
        add_eog(tokenizer, id);
    }
    apply_harmony(tokenizer);
    if (sluice_tokenizer_find(tokenizer, "<|tool_response>", -1) >= 0)
        drop_eog(tokenizer, "</s>");
    for (size_t i = 0; i < tokenizer->n_tokens; i++) {
        int32_t id = (int32_t) i;
        if ((tokenizer->flags[i] & SLUICE_TOKEN_IS_EOG) != 0)
            g_array_append_val(tokenizer->eog_ids, id);
    }
}

static bool
contains_no_case(const SluiceGgufString *string, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = 0; i + n <= string->n_bytes; i++)
        if (g_ascii_strncasecmp(string->data + i, word, n) == 0)
            return true;
    return false;
}

static bool
is_special_type(uint8_t type)
{
    return type == SLUICE_TOKEN_CONTROL || type == SLUICE_TOKEN_UNKNOWN ||
           type == SLUICE_TOKEN_USER_DEFINED;
}

/* In the tokenizers of Phi-3 the special tokens, but for three, take the white space behind them
 * along; the files do not say so. */
static void
apply_phi3(SluiceTokenizer *tokenizer, const SluiceVocabData *data)
{
    static const char *const exceptions[] = {"<unk>", "<s>", "<|endoftext|>"};

    if (!contains_no_case(&data->name, "phi-3") && !contains_no_case(&data->name, "phi3"))
        return;
    for (size_t i = 0; i < tokenizer->n_tokens; i++) {
        bool eats_spaces = is_special_type(tokenizer->types[i]);
        for (size_t j = 0; j < G_N_ELEMENTS(exceptions); j++)
            eats_spaces = eats_spaces && !is_string(&data->tokens[i], exceptions[j]);
        if (eats_spaces)
            tokenizer->flags[i] |= SLUICE_TOKEN_EATS_SPACES;
    }
}

static void
build_matcher(SluiceTokenizer *tokenizer)
{
    g_autoptr(GArray) candidates = g_array_new(FALSE, FALSE, sizeof(SluiceTokenCandidate));

    for (size_t i = 0; i < tokenizer->n_tokens; i++) {
        uint8_t type = tokenizer->types[i];
        SluiceTokenCandidate candidate = {(int32_t) i, type != SLUICE_TOKEN_USER_DEFINED,
                                          (tokenizer->flags[i] & SLUICE_TOKEN_EATS_SPACES) != 0};
        if (is_special_type(type))
            g_array_append_val(candidates, candidate);
    }
    tokenizer->matcher = sluice_token_matcher_new(
        tokenizer->data.tokens, (const SluiceTokenCandidate *) (gpointer) candidates->data,
        candidates->len);
}

static void
read_defaults(SluiceTokenizer *tokenizer, const SluiceVocabData *data)
{
    bool is_spm = tokenizer->kind == SLUICE_TOKENIZER_SPM;
    bool adds_bos = is_spm || tokenizer->kind == SLUICE_TOKENIZER_BPE_CHAR ||
                    (tokenizer->pretokenizer != NULL && tokenizer->pretokenizer->adds_bos);

    tokenizer->adds_bos = data->add_bos >= 0 ? data->add_bos != 0 : adds_bos;
    if (tokenizer->kind == SLUICE_TOKENIZER_BPE_CHAR && is_string(&data->model, "gemma4"))
        tokenizer->adds_bos = true;
    tokenizer->adds_eos = data->add_eos > 0;
    tokenizer->adds_space = is_spm && data->add_space_prefix != 0;
}

static gboolean
build(SluiceTokenizer *tokenizer, const SluiceVocabData *data, GError **error)
{
    if (!choose_algorithm(tokenizer, data, error) || !check_sizes(data, error) ||
        !read_types(tokenizer, data, error) || !enter_texts(tokenizer, error))
        return FALSE;
    read_special_ids(tokenizer, data);
    find_eog(tokenizer);
    apply_phi3(tokenizer, data);
    build_matcher(tokenizer);
    read_defaults(tokenizer, data);
    return tokenizer->kind == SLUICE_TOKENIZER_SPM
               ? sluice_tokenizer_spm_init(tokenizer, data, error)
               : sluice_tokenizer_bpe_init(tokenizer, data, error);
}

/**
 * sluice_tokenizer_new_from_data:
 * @data: the vocabulary; on return it is empty, whether or not there is a tokenizer
 * @error: return location, or %NULL
 *
 * Builds a tokenizer from a vocabulary in memory.
 *
 * Cost: one pass over tokens and merges, no allocation per token.
 *
 * Returns: (transfer full): the tokenizer; or %NULL with %SLUICE_ERROR_MODEL or
 *   %SLUICE_ERROR_MEMORY
 * Since: 0.1
 */
SluiceTokenizer *
sluice_tokenizer_new_from_data(SluiceVocabData *data, GError **error)
{
    g_autoptr(SluiceTokenizer) tokenizer = g_new0(SluiceTokenizer, 1);

    g_atomic_ref_count_init(&tokenizer->n_refs);
    tokenizer->eog_ids = g_array_new(FALSE, FALSE, sizeof(int32_t));
    tokenizer->notes = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(tokenizer->notes, NULL);
    tokenizer->data = *data;
    tokenizer->n_tokens = data->n_tokens;
    sluice_vocab_data_init(data);
    if (!build(tokenizer, &tokenizer->data, error))
        return NULL;
    g_clear_pointer(&tokenizer->data.scores, g_free);
    g_clear_pointer(&tokenizer->data.types, g_free);
    g_clear_pointer(&tokenizer->data.merges, g_free);
    return g_steal_pointer(&tokenizer);
}

/**
 * sluice_tokenizer_ref:
 * @tokenizer: a tokenizer
 *
 * Returns: (transfer full): @tokenizer
 * Since: 0.1
 */
SluiceTokenizer *
sluice_tokenizer_ref(SluiceTokenizer *tokenizer)
{
    g_atomic_ref_count_inc(&tokenizer->n_refs);
    return tokenizer;
}

/**
 * sluice_tokenizer_unref:
 * @tokenizer: (nullable): a tokenizer
 *
 * Since: 0.1
 */
void
sluice_tokenizer_unref(SluiceTokenizer *tokenizer)
{
    if (tokenizer == NULL || !g_atomic_ref_count_dec(&tokenizer->n_refs))
        return;
    sluice_token_matcher_free(tokenizer->matcher);
    sluice_token_table_clear(&tokenizer->table);
    g_free(tokenizer->types);
    g_free(tokenizer->flags);
    g_free(tokenizer->pairs);
    g_free(tokenizer->priorities);
    g_free(tokenizer->joins);
    g_array_unref(tokenizer->eog_ids);
    g_ptr_array_unref(tokenizer->notes);
    sluice_vocab_data_clear(&tokenizer->data);
    g_free(tokenizer);
}

/* ---- what a tokenizer tells ----------------------------------------------------------------- */

/**
 * sluice_tokenizer_notes:
 * @tokenizer: a tokenizer
 *
 * What the user should know about the file: a rule that had to be guessed, parts that had to be
 * left out.
 *
 * Returns: (transfer none): sentences, the last followed by %NULL
 * Since: 0.1
 */
const char *const *
sluice_tokenizer_notes(const SluiceTokenizer *tokenizer)
{
    return (const char *const *) tokenizer->notes->pdata;
}

/**
 * sluice_tokenizer_bytes:
 * @tokenizer: a tokenizer
 *
 * Returns: bytes of its tables; texts lie in the file's mapping and are not among them
 */
size_t
sluice_tokenizer_bytes(const SluiceTokenizer *tokenizer)
{
    size_t n = sizeof *tokenizer;

    n += tokenizer->n_tokens * (sizeof(SluiceGgufString) + 2);
    n += (tokenizer->table.mask + 1) * sizeof(SluiceTokenSlot);
    if (tokenizer->pairs != NULL)
        n += (tokenizer->pair_mask + 1) * sizeof(SluiceTokenPair);
    if (tokenizer->priorities != NULL)
        n += tokenizer->n_tokens * sizeof(uint32_t);
    if (tokenizer->joins != NULL)
        n += 256 * 256 / 8;
    return n;
}

/**
 * sluice_tokenizer_n_tokens:
 * @tokenizer: a tokenizer
 *
 * Returns: how many tokens there are; ids are below it
 * Since: 0.1
 */
size_t
sluice_tokenizer_n_tokens(const SluiceTokenizer *tokenizer)
{
    return tokenizer->n_tokens;
}

/**
 * sluice_tokenizer_text:
 * @tokenizer: a tokenizer
 * @id: any number
 * @n_bytes: (out): length of the text
 *
 * The text of a token as the vocabulary spells it, which is not what it decodes to; see
 * sluice_tokenizer_append_bytes(). It may hold any bytes.
 *
 * Returns: (transfer none) (nullable): the text, not terminated; %NULL if there is no such token
 * Since: 0.1
 */
const char *
sluice_tokenizer_text(const SluiceTokenizer *tokenizer, int32_t id, size_t *n_bytes)
{
    if (!is_token(tokenizer, id)) {
        *n_bytes = 0;
        return NULL;
    }
    *n_bytes = tokenizer->data.tokens[id].n_bytes;
    return tokenizer->data.tokens[id].data;
}

/**
 * sluice_tokenizer_type:
 * @tokenizer: a tokenizer
 * @id: any number
 *
 * Returns: the type of the token, %SLUICE_TOKEN_UNDEFINED if there is no such token
 * Since: 0.1
 */
SluiceTokenType
sluice_tokenizer_type(const SluiceTokenizer *tokenizer, int32_t id)
{
    return is_token(tokenizer, id) ? (SluiceTokenType) tokenizer->types[id]
                                   : SLUICE_TOKEN_UNDEFINED;
}

/**
 * sluice_tokenizer_find:
 * @tokenizer: a tokenizer
 * @text: the text of a token as the vocabulary spells it
 * @n_bytes: its length, or -1 if it is terminated by NUL
 *
 * Returns: the token, special or not; -1 if there is none. Of several the special ones come first,
 *   then the highest id
 * Since: 0.1
 */
int32_t
sluice_tokenizer_find(const SluiceTokenizer *tokenizer, const char *text, gssize n_bytes)
{
    size_t length = n_bytes < 0 ? strlen(text) : (size_t) n_bytes;
    int32_t id =
        sluice_token_table_find(&tokenizer->table, text, length, SLUICE_TOKEN_PLANE_SPECIAL);

    return id >= 0 ? id : sluice_tokenizer_find_text(tokenizer, text, length);
}

/**
 * sluice_tokenizer_special:
 * @tokenizer: a tokenizer
 * @special: a part
 *
 * Returns: the token that plays it, or -1
 * Since: 0.1
 */
int32_t
sluice_tokenizer_special(const SluiceTokenizer *tokenizer, SluiceSpecial special)
{
    g_return_val_if_fail((unsigned) special < SLUICE_SPECIAL_COUNT, -1);
    return tokenizer->special_ids[special];
}

/**
 * sluice_tokenizer_is_eog:
 * @tokenizer: a tokenizer
 * @id: any number
 *
 * Returns: whether generation ends with the token
 * Since: 0.1
 */
bool
sluice_tokenizer_is_eog(const SluiceTokenizer *tokenizer, int32_t id)
{
    return is_token(tokenizer, id) && (tokenizer->flags[id] & SLUICE_TOKEN_IS_EOG) != 0;
}

/**
 * sluice_tokenizer_eog_ids:
 * @tokenizer: a tokenizer
 * @n_ids: (out): how many
 *
 * Returns: (transfer none) (array length=n_ids): all tokens that end generation, ascending
 * Since: 0.1
 */
const int32_t *
sluice_tokenizer_eog_ids(const SluiceTokenizer *tokenizer, size_t *n_ids)
{
    *n_ids = tokenizer->eog_ids->len;
    return (const int32_t *) (gpointer) tokenizer->eog_ids->data;
}

/**
 * sluice_tokenizer_adds_bos:
 * @tokenizer: a tokenizer
 *
 * Returns: whether %SLUICE_ENCODE_ADD_SPECIAL puts BOS in front
 * Since: 0.1
 */
bool
sluice_tokenizer_adds_bos(const SluiceTokenizer *tokenizer)
{
    return tokenizer->adds_bos && tokenizer->special_ids[SLUICE_SPECIAL_BOS] >= 0;
}

/**
 * sluice_tokenizer_adds_eos:
 * @tokenizer: a tokenizer
 *
 * Returns: whether %SLUICE_ENCODE_ADD_SPECIAL puts EOS at the end
 * Since: 0.1
 */
bool
sluice_tokenizer_adds_eos(const SluiceTokenizer *tokenizer)
{
    return tokenizer->adds_eos && tokenizer->special_ids[SLUICE_SPECIAL_EOS] >= 0;
}

/* ---- encoding ------------------------------------------------------------------------------- */

static int
compare_spans(const void *a, const void *b)
{
    const SluiceTextSpan *left = a, *right = b;

    return left->begin < right->begin ? -1 : left->begin > right->begin;
}

/* A mistake in the spans must not open a door: they are put in order and joined where they meet. */
static SluiceTextSpan *
normalise_spans(const SluiceTextSpan *spans, size_t *n_spans)
{
    SluiceTextSpan *sorted = g_memdup2(spans, *n_spans * sizeof *spans);
    size_t n = 0;

    if (*n_spans > 1)
        qsort(sorted, *n_spans, sizeof *sorted, compare_spans);
    for (size_t i = 0; i < *n_spans; i++) {
        if (sorted[i].begin >= sorted[i].end)
            continue;
        if (n > 0 && sorted[i].begin <= sorted[n - 1].end)
            sorted[n - 1].end = MAX(sorted[n - 1].end, sorted[i].end);
        else
            sorted[n++] = sorted[i];
    }
    *n_spans = n;
    return sorted;
}

static bool
encode_raw(const SluiceTokenizer *tokenizer, const char *text, size_t n_bytes, bool adds_space,
           SluiceTokenScratch *scratch, GArray *ids)
{
    const uint8_t *bytes = (const uint8_t *) text;

    if (n_bytes == 0)
        return true;
    return tokenizer->kind == SLUICE_TOKENIZER_SPM
               ? sluice_tokenizer_spm_encode(tokenizer, bytes, n_bytes, adds_space, scratch, ids)
               : sluice_tokenizer_bpe_encode(tokenizer, bytes, n_bytes, scratch, ids);
}

/* The text between the special tokens, and these. SentencePiece's leading space belongs to the
 * first text and to every one behind a special token. */
static bool
encode_parts(const SluiceTokenizer *tokenizer, const char *text, size_t n_bytes,
             const GArray *matches, SluiceTokenScratch *scratch, GArray *ids)
{
    size_t pos = 0;

    for (guint i = 0; i < matches->len; i++) {
        const SluiceTokenMatch *match = &g_array_index(matches, SluiceTokenMatch, i);
        if (!encode_raw(tokenizer, text + pos, match->begin - pos, tokenizer->adds_space, scratch,
                        ids))
            return false;
        g_array_append_val(ids, match->id);
        pos = match->end;
    }
    return encode_raw(tokenizer, text + pos, n_bytes - pos, tokenizer->adds_space, scratch, ids);
}

static bool
begins_with_token(const GArray *matches, int32_t id)
{
    const SluiceTokenMatch *first;

    if (matches->len == 0)
        return false;
    first = &g_array_index(matches, SluiceTokenMatch, 0);
    return first->begin == 0 && first->id == id;
}

/**
 * sluice_tokenizer_encode:
 * @tokenizer: a tokenizer
 * @text: the text, in any state; may be %NULL if @n_bytes is 0
 * @n_bytes: its length, at most %SLUICE_TOKENIZER_MAX_TEXT_BYTES
 * @flags: which special tokens to add and to recognise
 * @untrusted: (array length=n_untrusted): parts of @text in which no control token is recognised
 * @n_untrusted: how many
 * @ids: (element-type gint32): array that the ids are appended to
 * @error: return location, or %NULL
 *
 * Turns a text into token ids. User-defined tokens are recognised everywhere; control tokens only
 * with %SLUICE_ENCODE_PARSE_SPECIAL, and only where no byte of theirs lies in a span of @untrusted.
 * The spans have no other effect: text inside and outside merges as if there were none. If BOS is
 * to be added and the text already begins with it, it stays one.
 *
 * Cost: linear in ordinary text, n log n in a run without a place to split. Threads: any.
 *
 * Returns: %FALSE with %SLUICE_ERROR_ARGUMENT or %SLUICE_ERROR_MEMORY; @ids is then as before
 * Since: 0.1
 */
gboolean
sluice_tokenizer_encode(const SluiceTokenizer *tokenizer, const char *text, gsize n_bytes,
                        SluiceEncodeFlags flags, const SluiceTextSpan *untrusted, gsize n_untrusted,
                        GArray *ids, GError **error)
{
    g_autoptr(GArray) matches = g_array_new(FALSE, FALSE, sizeof(SluiceTokenMatch));
    g_autofree SluiceTextSpan *spans = normalise_spans(untrusted, &n_untrusted);
    SluiceTokenScratch scratch = {0};
    bool adds_special = (flags & SLUICE_ENCODE_ADD_SPECIAL) != 0, is_done;
    int32_t bos = tokenizer->special_ids[SLUICE_SPECIAL_BOS];
    guint n_before = ids->len;

    g_return_val_if_fail(g_array_get_element_size(ids) == sizeof(int32_t), FALSE);
    if (n_bytes > SLUICE_TOKENIZER_MAX_TEXT_BYTES) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "the text has %zu bytes, at most %zu can be tokenized at once", n_bytes,
                    SLUICE_TOKENIZER_MAX_TEXT_BYTES);
        return FALSE;
    }
    if (!sluice_token_matcher_find(tokenizer->matcher, text, n_bytes,
                                   (flags & SLUICE_ENCODE_PARSE_SPECIAL) != 0, spans, n_untrusted,
                                   matches, error))
        return FALSE;
    if (adds_special && sluice_tokenizer_adds_bos(tokenizer)) {
        if (begins_with_token(matches, bos))
            g_debug("the text begins with the token that would be put in front; it stays one");
        else
            g_array_append_val(ids, bos);
    }
    is_done = encode_parts(tokenizer, n_bytes > 0 ? text : "", n_bytes, matches, &scratch, ids);
    sluice_token_scratch_clear(&scratch);
    if (!is_done) {
        g_array_set_size(ids, n_before);
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "no memory to tokenize a text of %zu bytes", n_bytes);
        return FALSE;
    }
    if (adds_special && sluice_tokenizer_adds_eos(tokenizer))
        g_array_append_val(ids, tokenizer->special_ids[SLUICE_SPECIAL_EOS]);
    return TRUE;
}

/* ---- decoding ------------------------------------------------------------------------------- */

/**
 * sluice_tokenizer_append_bytes:
 * @tokenizer: a tokenizer
 * @id: any number
 * @flags: whether control tokens show
 * @out: string that the bytes are appended to
 *
 * The bytes that a token stands for: often not whole characters. A number that is no token stands
 * for none.
 *
 * Since: 0.1
 */
void
sluice_tokenizer_append_bytes(const SluiceTokenizer *tokenizer, int32_t id, SluiceDecodeFlags flags,
                              GString *out)
{
    const SluiceGgufString *text;
    int byte = -1;

    if (!is_token(tokenizer, id))
        return;
    text = &tokenizer->data.tokens[id];
    switch ((SluiceTokenType) tokenizer->types[id]) {
    case SLUICE_TOKEN_CONTROL:
    case SLUICE_TOKEN_UNKNOWN:
        if ((flags & SLUICE_DECODE_SHOW_SPECIAL) == 0 &&
            (tokenizer->flags[id] & SLUICE_TOKEN_IS_VISIBLE) == 0)
            return;
        g_string_append_len(out, text->data, (gssize) text->n_bytes);
        return;
    case SLUICE_TOKEN_USER_DEFINED:
        g_string_append_len(out, text->data, (gssize) text->n_bytes);
        return;
    case SLUICE_TOKEN_BYTE:
        byte = sluice_tokenizer_parse_byte(text);
        break;
    case SLUICE_TOKEN_UNDEFINED:
    case SLUICE_TOKEN_NORMAL:
    case SLUICE_TOKEN_UNUSED:
        break;
    }
    if (byte >= 0)
        g_string_append_c(out, (char) byte);
    else if (tokenizer->kind == SLUICE_TOKENIZER_BPE)
        sluice_tokenizer_bpe_append_bytes(text, out);
    else
        sluice_tokenizer_spm_append_bytes(text, out);
}

/**
 * sluice_tokenizer_decode:
 * @tokenizer: a tokenizer
 * @ids: (array length=n_ids): tokens of a whole text
 * @n_ids: how many
 * @flags: whether control tokens show
 * @n_bytes: (out) (optional): length of the result
 *
 * The text that the tokens spell: for a text that was encoded, its bytes again. The space that
 * SentencePiece models put in front of a text is taken off. For a text that arrives token by token
 * there is #SluiceDetokenizer.
 *
 * Returns: (transfer full): the bytes, and a NUL behind them
 * Since: 0.1
 */
char *
sluice_tokenizer_decode(const SluiceTokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                        SluiceDecodeFlags flags, gsize *n_bytes)
{
    GString *out = g_string_new(NULL);
    bool is_at_start = tokenizer->adds_space;

    for (size_t i = 0; i < n_ids; i++) {
        gsize before = out->len;
        bool is_text = is_token(tokenizer, ids[i]) && !is_special_type(tokenizer->types[ids[i]]);
        sluice_tokenizer_append_bytes(tokenizer, ids[i], flags, out);
        if (is_at_start && is_text) {
            if (out->len > before && out->str[before] == ' ')
                g_string_erase(out, (gssize) before, 1);
            is_at_start = false;
        }
    }
    if (n_bytes != NULL)
        *n_bytes = out->len;
    return g_string_free(out, FALSE);
}
