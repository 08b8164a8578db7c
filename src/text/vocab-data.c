/* SPDX-License-Identifier: MIT */
/* The vocabulary of a GGUF file, as the tokenizer's constructor takes it. */
#include "config.h"

#include "src/text/tokenizer.h"

#include <string.h>

#include "src/core/error.h"

#define KEY "tokenizer.ggml."

/* Keys of the tokens with a part to play; the format's own spelling of "separator" is one of two.
 */
static const struct {
    const char *key;
    SluiceSpecial special;
} SPECIAL_KEYS[] = {
    {KEY "bos_token_id", SLUICE_SPECIAL_BOS},
    {KEY "eos_token_id", SLUICE_SPECIAL_EOS},
    {KEY "eot_token_id", SLUICE_SPECIAL_EOT},
    {KEY "eom_token_id", SLUICE_SPECIAL_EOM},
    {KEY "unknown_token_id", SLUICE_SPECIAL_UNKNOWN},
    {KEY "separator_token_id", SLUICE_SPECIAL_SEPARATOR},
    {KEY "seperator_token_id", SLUICE_SPECIAL_SEPARATOR},
    {KEY "padding_token_id", SLUICE_SPECIAL_PAD},
    {KEY "mask_token_id", SLUICE_SPECIAL_MASK},
    {KEY "prefix_token_id", SLUICE_SPECIAL_FIM_PREFIX},
    {KEY "suffix_token_id", SLUICE_SPECIAL_FIM_SUFFIX},
    {KEY "middle_token_id", SLUICE_SPECIAL_FIM_MIDDLE},
    {KEY "fim_pre_token_id", SLUICE_SPECIAL_FIM_PREFIX},
    {KEY "fim_suf_token_id", SLUICE_SPECIAL_FIM_SUFFIX},
    {KEY "fim_mid_token_id", SLUICE_SPECIAL_FIM_MIDDLE},
    {KEY "fim_pad_token_id", SLUICE_SPECIAL_FIM_PAD},
    {KEY "fim_rep_token_id", SLUICE_SPECIAL_FIM_REPO},
    {KEY "fim_sep_token_id", SLUICE_SPECIAL_FIM_FILE},
};

/**
 * sluice_vocab_data_init:
 * @data: (out caller-allocates): an empty vocabulary
 *
 * Since: 0.1
 */
void
sluice_vocab_data_init(SluiceVocabData *data)
{
    *data = (SluiceVocabData){.add_bos = -1, .add_eos = -1, .add_space_prefix = -1};
    for (int i = 0; i < SLUICE_SPECIAL_COUNT; i++)
        data->special_ids[i] = -1;
}

/**
 * sluice_vocab_data_clear:
 * @data: a vocabulary
 *
 * Frees what @data owns and leaves it empty.
 *
 * Since: 0.1
 */
void
sluice_vocab_data_clear(SluiceVocabData *data)
{
    g_free(data->tokens);
    g_free(data->scores);
    g_free(data->types);
    g_free(data->merges);
    if (data->owner_free != NULL)
        data->owner_free(data->owner);
    sluice_vocab_data_init(data);
}

static gboolean
read_flag(const SluiceGguf *gguf, const char *key, int *value, GError **error)
{
    bool flag = false;

    if (!sluice_gguf_has(gguf, key))
        return TRUE;
    if (!sluice_gguf_bool(gguf, key, &flag, error))
        return FALSE;
    *value = flag;
    return TRUE;
}

/* A special id may be any number here; the constructor leaves out what is no token. Files with -1,
 * or with that number unsigned, for "none" exist. */
static void
read_special_ids(const SluiceGguf *gguf, SluiceVocabData *data)
{
    for (size_t i = 0; i < G_N_ELEMENTS(SPECIAL_KEYS); i++) {
        uint64_t value = UINT64_MAX;
        if (sluice_gguf_has(gguf, SPECIAL_KEYS[i].key) &&
            sluice_gguf_uint(gguf, SPECIAL_KEYS[i].key, INT64_MAX, &value, NULL) &&
            value <= INT64_MAX)
            data->special_ids[SPECIAL_KEYS[i].special] = (int64_t) value;
    }
}

static gboolean
read_arrays(const SluiceGguf *gguf, SluiceVocabData *data, GError **error)
{
    GError *inner = NULL;

    data->tokens = sluice_gguf_string_array(gguf, KEY "tokens", &data->n_tokens, &inner);
    if (inner == NULL)
        data->scores = sluice_gguf_float_array(gguf, KEY "scores", &data->n_scores, &inner);
    if (inner == NULL)
        data->types = sluice_gguf_int_array(gguf, KEY "token_type", &data->n_types, &inner);
    if (inner == NULL)
        data->merges = sluice_gguf_string_array(gguf, KEY "merges", &data->n_merges, &inner);
    if (inner != NULL) {
        g_propagate_error(error, inner);
        return FALSE;
    }
    return TRUE;
}

/**
 * sluice_tokenizer_new:
 * @gguf: an open model file; the tokenizer keeps a reference
 * @error: return location, or %NULL
 *
 * Reads the vocabulary out of a model file. Texts stay in its mapping.
 *
 * Returns: (transfer full): the tokenizer; or %NULL with %SLUICE_ERROR_MODEL, %SLUICE_ERROR_FORMAT
 *   or %SLUICE_ERROR_MEMORY
 * Since: 0.1
 */
SluiceTokenizer *
sluice_tokenizer_new(const SluiceGguf *gguf, GError **error)
{
    g_auto(SluiceVocabData) data;

    sluice_vocab_data_init(&data);
    if (!sluice_gguf_require(gguf, KEY "model", error) ||
        !sluice_gguf_string(gguf, KEY "model", &data.model, error) ||
        !sluice_gguf_string(gguf, KEY "pre", &data.pre, error) ||
        !read_flag(gguf, KEY "add_bos_token", &data.add_bos, error) ||
        !read_flag(gguf, KEY "add_eos_token", &data.add_eos, error) ||
        !read_flag(gguf, KEY "add_space_prefix", &data.add_space_prefix, error) ||
        !read_arrays(gguf, &data, error))
        return NULL;
    if (sluice_gguf_has(gguf, "general.name") &&
        !sluice_gguf_string(gguf, "general.name", &data.name, error))
        return NULL;
    read_special_ids(gguf, &data);
    /* Counting references changes nothing that a reader of the file can see. */
    data.owner = sluice_gguf_ref((SluiceGguf *) gguf);
    data.owner_free = (GDestroyNotify) sluice_gguf_unref;
    return sluice_tokenizer_new_from_data(&data, error);
}
