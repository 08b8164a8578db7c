/* SPDX-License-Identifier: MIT */
/*
 * The text side of a model: its vocabulary and its chat template, which hang on the SluiceModel.
 * Implements what sluice.h says about text.
 */
#pragma once

#include "src/model/model.h"
#include "src/sluice.h"
#include "src/text/tokenizer.h"

G_BEGIN_DECLS

/* (transfer none): the vocabulary; every opened model has one. */
const SluiceTokenizer *sluice_model_text_tokenizer(const SluiceModel *model);
/* Bytes of its tables. */
size_t sluice_model_text_bytes(const SluiceModel *model);
/* (transfer full): int32 ids; `untrusted` holds SluiceTextSpan, or is NULL. */
GArray *sluice_model_text_encode(const SluiceModel *model, const char *text, gsize n_bytes,
                                 SluiceEncodeFlags flags, const GArray *untrusted, GError **error);

G_END_DECLS
