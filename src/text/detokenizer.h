/* SPDX-License-Identifier: MIT */
/*
 * Text that arrives token by token. Tokens end in the middle of characters; what comes out of here
 * is always whole, valid UTF-8.
 */
#pragma once

#include "src/text/tokenizer.h"

G_BEGIN_DECLS

typedef struct _SluiceDetokenizer SluiceDetokenizer;

SluiceDetokenizer *sluice_detokenizer_new(SluiceTokenizer *tokenizer, SluiceDecodeFlags flags);
void sluice_detokenizer_free(SluiceDetokenizer *detokenizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceDetokenizer, sluice_detokenizer_free)

const char *sluice_detokenizer_push(SluiceDetokenizer *detokenizer, int32_t id, gsize *n_bytes);
const char *sluice_detokenizer_flush(SluiceDetokenizer *detokenizer, gsize *n_bytes);

G_END_DECLS
