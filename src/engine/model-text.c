/* SPDX-License-Identifier: MIT */
/* Opening a model with its vocabulary; text to tokens and back. */
#include "config.h"

#include "src/engine/model-text.h"

#include <string.h>

#include "src/core/error.h"

typedef struct {
    SluiceTokenizer *tokenizer;
} ModelText;

static void
model_text_free(gpointer data)
{
    ModelText *text = data;

    sluice_tokenizer_unref(text->tokenizer);
    g_free(text);
}

const SluiceTokenizer *
sluice_model_text_tokenizer(const SluiceModel *model)
{
    return ((const ModelText *) model->text)->tokenizer;
}

/* The metadata is read in the mapping, and so are the tokens' texts: those pages are ours too. */
size_t
sluice_model_text_bytes(const SluiceModel *model)
{
    uint64_t n_head = sluice_gguf_file_bytes(model->gguf, 0);

    for (size_t i = 0; i < sluice_gguf_n_tensors(model->gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(model->gguf, i);

        if (t->file_idx == 0)
            n_head = MIN(n_head, t->offset);
    }
    return sluice_tokenizer_bytes(sluice_model_text_tokenizer(model)) + (size_t) n_head;
}

/* Ids of the tokenizer index rows of the embedding, which may have more of them as padding. */
static gboolean
check_vocabulary(const SluiceModel *model, const SluiceTokenizer *tokenizer, GError **error)
{
    size_t n_tokens = sluice_tokenizer_n_tokens(tokenizer);

    if (n_tokens <= (size_t) model->params.n_vocab)
        return TRUE;
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                "tokenizer has %zu tokens but the embedding has %d rows", n_tokens,
                model->params.n_vocab);
    return FALSE;
}

/**
 * sluice_model_open:
 * @path: a GGUF file, or the first of a split set
 * @error: return location, or %NULL
 *
 * Reads and checks hyper-parameters, the table of tensors and the vocabulary; loads no weight.
 *
 * Returns: (transfer full): the model, or %NULL with an error that names the file and what is
 *   wrong with it
 * Since: 0.1
 */
SluiceModel *
sluice_model_open(const char *path, GError **error)
{
    g_autoptr(SluiceGguf) gguf = NULL;
    g_autoptr(SluiceModel) model = NULL;
    g_autoptr(SluiceTokenizer) tokenizer = NULL;
    ModelText *text;

    g_return_val_if_fail(path != NULL, NULL);
    gguf = sluice_gguf_open(path, error);
    if (gguf == NULL)
        return NULL;
    model = sluice_model_new(gguf, error);
    if (model != NULL)
        tokenizer = sluice_tokenizer_new(gguf, error);
    if (tokenizer == NULL || !check_vocabulary(model, tokenizer, error)) {
        g_autofree char *shown = sluice_error_printable(path, -1);

        g_prefix_error(error, "%s: ", shown);
        return NULL;
    }
    text = g_new0(ModelText, 1);
    text->tokenizer = g_steal_pointer(&tokenizer);
    model->text = text;
    model->text_free = model_text_free;
    return g_steal_pointer(&model);
}

/* ---- tokens --------------------------------------------------------------------------------- */

GArray *
sluice_model_text_encode(const SluiceModel *model, const char *text, gsize n_bytes,
                         SluiceEncodeFlags flags, const GArray *untrusted, GError **error)
{
    g_autoptr(GArray) ids = g_array_new(FALSE, FALSE, sizeof(int32_t));
    const SluiceTextSpan *spans =
        untrusted != NULL ? (const SluiceTextSpan *) (gconstpointer) untrusted->data : NULL;

    if (!sluice_tokenizer_encode(sluice_model_text_tokenizer(model), text, n_bytes, flags, spans,
                                 untrusted != NULL ? untrusted->len : 0, ids, error))
        return NULL;
    return g_steal_pointer(&ids);
}

/**
 * sluice_model_tokenize:
 * @model: a model
 * @text: UTF-8; other bytes are data like any
 * @n_bytes: its length, or -1 up to the terminator
 * @flags: what is added and recognised
 * @error: return location, or %NULL
 *
 * Returns: (transfer full) (element-type gint32): ids, or %NULL if the text is too long
 * Since: 0.1
 */
GArray *
sluice_model_tokenize(const SluiceModel *model, const char *text, gssize n_bytes,
                      SluiceTokenizeFlags flags, GError **error)
{
    SluiceEncodeFlags encode_flags = SLUICE_ENCODE_PLAIN;

    g_return_val_if_fail(model != NULL && text != NULL, NULL);
    if (flags & SLUICE_TOKENIZE_ADD_SPECIAL)
        encode_flags |= SLUICE_ENCODE_ADD_SPECIAL;
    if (flags & SLUICE_TOKENIZE_PARSE_SPECIAL)
        encode_flags |= SLUICE_ENCODE_PARSE_SPECIAL;
    return sluice_model_text_encode(model, text, n_bytes < 0 ? strlen(text) : (gsize) n_bytes,
                                    encode_flags, NULL, error);
}

/**
 * sluice_model_detokenize:
 * @model: a model
 * @tokens: [n]
 * @n: their number
 * @show_special: control tokens appear as their text
 * @n_bytes: (out) (optional): length of the result, which may hold NUL bytes
 *
 * Returns: (transfer full): the text, valid UTF-8 and terminated
 * Since: 0.1
 */
char *
sluice_model_detokenize(const SluiceModel *model, const int32_t *tokens, gsize n,
                        gboolean show_special, gsize *n_bytes)
{
    gsize n_out = 0;
    char *text;

    g_return_val_if_fail(model != NULL && (tokens != NULL || n == 0), NULL);
    text = sluice_tokenizer_decode(sluice_model_text_tokenizer(model), tokens, n,
                                   show_special ? SLUICE_DECODE_SHOW_SPECIAL : SLUICE_DECODE_PLAIN,
                                   &n_out);
    if (n_bytes != NULL)
        *n_bytes = n_out;
    return text;
}

/**
 * sluice_model_append_token:
 * @model: a model
 * @token: an id
 * @show_special: control tokens appear as their text
 * @out: what the bytes are appended to
 *
 * The bytes of one token inside a text; a character may be spread over several tokens.
 *
 * Since: 0.1
 */
void
sluice_model_append_token(const SluiceModel *model, int32_t token, gboolean show_special,
                          GString *out)
{
    g_return_if_fail(model != NULL && out != NULL);
    sluice_tokenizer_append_bytes(sluice_model_text_tokenizer(model), token,
                                  show_special ? SLUICE_DECODE_SHOW_SPECIAL : SLUICE_DECODE_PLAIN,
                                  out);
}

/**
 * sluice_model_has_chat_template:
 * @model: a model
 *
 * Returns: whether sluice_model_chat_tokens() has something to render with
 * Since: 0.1
 */
bool
sluice_model_has_chat_template(const SluiceModel *model)
{
    g_return_val_if_fail(model != NULL, false);
    return sluice_gguf_has(model->gguf, "tokenizer.chat_template");
}

/**
 * sluice_model_is_end:
 * @model: a model
 * @token: an id
 *
 * Returns: whether that token ends a generation
 * Since: 0.1
 */
bool
sluice_model_is_end(const SluiceModel *model, int32_t token)
{
    g_return_val_if_fail(model != NULL, false);
    return sluice_tokenizer_is_eog(sluice_model_text_tokenizer(model), token);
}

/**
 * sluice_model_bos:
 * @model: a model
 *
 * Returns: the id that begins a text, or -1 if there is none
 * Since: 0.1
 */
int32_t
sluice_model_bos(const SluiceModel *model)
{
    g_return_val_if_fail(model != NULL, -1);
    return sluice_tokenizer_special(sluice_model_text_tokenizer(model), SLUICE_SPECIAL_BOS);
}

/**
 * sluice_model_adds_bos:
 * @model: a model
 *
 * Returns: whether texts for this model begin with its BOS
 * Since: 0.1
 */
bool
sluice_model_adds_bos(const SluiceModel *model)
{
    g_return_val_if_fail(model != NULL, false);
    return sluice_tokenizer_adds_bos(sluice_model_text_tokenizer(model));
}
