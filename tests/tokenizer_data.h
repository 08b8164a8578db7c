/* SPDX-License-Identifier: MIT */
/* The committed strings, vocabularies and digests that the tests of the tokenizers share; their
 * form is described in tests/reference/make_tokenizer_golden.py. */
#pragma once

#include "src/text/tokenizer.h"

G_BEGIN_DECLS

/* Begins and ends of the shared strings in one buffer. */
typedef struct {
    char *buffer;
    size_t n;
    const char **texts; /* [n] */
    size_t *n_bytes;    /* [n] */
} TestStrings;

void test_strings_load(TestStrings *strings);
void test_strings_clear(TestStrings *strings);

uint32_t *test_digests_load(const char *prefix, const char *name, size_t *n_digests);
uint32_t test_digest(uint32_t digest, const uint32_t *values, size_t n_values);
#define TEST_DIGEST_START 0x811C9DC5u

void test_vocab_load(const char *name, SluiceVocabData *data);
void test_vocab_parse(const char *text, size_t n_bytes, SluiceVocabData *data);

G_END_DECLS
