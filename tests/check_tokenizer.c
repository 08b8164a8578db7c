/* SPDX-License-Identifier: MIT */
/*
 * Tokenizers: ids against those of the public libraries, the rules of special tokens and of trust,
 * and vocabularies that mean no good.
 */
#include "config.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "src/core/error.h"
#include "src/text/token-matcher.h"
#include "src/text/tokenizer.h"
#include "tests/gguf_writer.h"
#include "tests/suite.h"
#include "tests/tokenizer_data.h"

static const char *const VOCABULARIES[] = {
    "bailingmoe", "bloom",  "deepseek-coder", "deepseek-llm", "deepseek-v3",
    "default",    "falcon", "gemma4",         "gpt-2",        "gpt-4o",
    "llama-bpe",  "qwen2",  "qwen35",         "seed-coder",   "smollm",
    "tekken",     "viking", "spm-llama",      "spm-gemma",
};

/* ---- helpers -------------------------------------------------------------------------------- */

static SluiceTokenizer *
load(const char *name)
{
    g_auto(SluiceVocabData) data;
    g_autoptr(GError) error = NULL;
    SluiceTokenizer *tokenizer;

    test_vocab_load(name, &data);
    tokenizer = sluice_tokenizer_new_from_data(&data, &error);
    ck_assert_msg(tokenizer != NULL, "%s: %s", name, error != NULL ? error->message : "");
    return tokenizer;
}

static SluiceTokenizer *
parse(const char *vocabulary, GError **error)
{
    g_auto(SluiceVocabData) data;

    test_vocab_parse(vocabulary, strlen(vocabulary), &data);
    return sluice_tokenizer_new_from_data(&data, error);
}

static SluiceTokenizer *
parse_good(const char *vocabulary)
{
    g_autoptr(GError) error = NULL;
    SluiceTokenizer *tokenizer = parse(vocabulary, &error);

    ck_assert_msg(tokenizer != NULL, "%s", error != NULL ? error->message : "");
    return tokenizer;
}

static GArray *
encode_spans(const SluiceTokenizer *tokenizer, const char *text, size_t n_bytes, int flags,
             const SluiceTextSpan *spans, size_t n_spans)
{
    GArray *ids = g_array_new(FALSE, FALSE, sizeof(int32_t));
    g_autoptr(GError) error = NULL;
    gboolean is_done = sluice_tokenizer_encode(tokenizer, text, n_bytes, (SluiceEncodeFlags) flags,
                                               spans, n_spans, ids, &error);

    ck_assert_msg(is_done, "%s", error != NULL ? error->message : "");
    return ids;
}

static GArray *
encode(const SluiceTokenizer *tokenizer, const char *text, size_t n_bytes, int flags)
{
    return encode_spans(tokenizer, text, n_bytes, flags, NULL, 0);
}

static bool
are_equal(const GArray *a, const GArray *b)
{
    return a->len == b->len &&
           (a->len == 0 || memcmp(a->data, b->data, a->len * sizeof(int32_t)) == 0);
}

/* Encodes and compares with ids written as "1 2 3". */
static void
assert_ids(const SluiceTokenizer *tokenizer, const char *text, int flags, const char *expected)
{
    g_autoptr(GArray) ids = encode(tokenizer, text, strlen(text), flags);
    g_autoptr(GString) got = g_string_new(NULL);

    for (guint i = 0; i < ids->len; i++)
        g_string_append_printf(got, "%s%d", i > 0 ? " " : "", g_array_index(ids, int32_t, i));
    ck_assert_msg(strcmp(got->str, expected) == 0, "'%s': got %s, expected %s", text, got->str,
                  expected);
}

static GRand *
new_rand(void)
{
    const char *seed = g_getenv("SLUICE_TEST_SEED");

    return g_rand_new_with_seed(seed != NULL ? (guint32) g_ascii_strtoull(seed, NULL, 10) : 11);
}

/* ---- ids ------------------------------------------------------------------------------------ */

START_TEST(ids_are_those_of_the_public_libraries)
{
    static const uint32_t separator = UINT32_MAX;
    const char *name = VOCABULARIES[_i];
    int parsed = g_str_has_prefix(name, "spm-") ? SLUICE_ENCODE_PLAIN : SLUICE_ENCODE_PARSE_SPECIAL;
    g_autoptr(SluiceTokenizer) tokenizer = load(name);
    TestStrings strings;
    size_t n_digests, n_compared = 0;
    g_autofree uint32_t *digests = test_digests_load("ids", name, &n_digests);

    ck_assert_uint_eq(sluice_tokenizer_n_tokens(tokenizer), 4000);
    test_strings_load(&strings);
    ck_assert_uint_eq(n_digests, strings.n);
    for (size_t i = 0; i < strings.n; i++) {
        g_autoptr(GArray) plain =
            encode(tokenizer, strings.texts[i], strings.n_bytes[i], SLUICE_ENCODE_PLAIN);
        g_autoptr(GArray) special = encode(tokenizer, strings.texts[i], strings.n_bytes[i], parsed);
        uint32_t digest =
            test_digest(TEST_DIGEST_START, (const uint32_t *) (gpointer) plain->data, plain->len);
        digest = test_digest(digest, &separator, 1);
        digest = test_digest(digest, (const uint32_t *) (gpointer) special->data, special->len);
        n_compared += digests[i] != 0;
        if (digests[i] != 0 && digest != digests[i])
            ck_abort_msg("%s, string %zu", name, i);
    }
    ck_assert_uint_ge(n_compared, 2000);
    test_strings_clear(&strings);
}
END_TEST

START_TEST(decoding_gives_the_text_back)
{
    const char *name = VOCABULARIES[_i];
    bool is_lossy = g_str_has_prefix(name, "spm-") || strcmp(name, "gemma4") == 0;
    g_autoptr(SluiceTokenizer) tokenizer = load(name);
    TestStrings strings;

    test_strings_load(&strings);
    for (size_t i = 0; i < strings.n; i++) {
        g_autoptr(GArray) ids = NULL;
        g_autofree char *text = NULL;
        gsize n_bytes;
        /* These vocabularies cannot tell U+2581 from a space. */
        if (is_lossy &&
            g_strstr_len(strings.texts[i], (gssize) strings.n_bytes[i], "\xE2\x96\x81") != NULL)
            continue;
        ids = encode(tokenizer, strings.texts[i], strings.n_bytes[i], SLUICE_ENCODE_PLAIN);
        text = sluice_tokenizer_decode(tokenizer, (const int32_t *) (gpointer) ids->data, ids->len,
                                       SLUICE_DECODE_PLAIN, &n_bytes);
        ck_assert_msg(n_bytes == strings.n_bytes[i] && memcmp(text, strings.texts[i], n_bytes) == 0,
                      "%s, string %zu", name, i);
    }
    test_strings_clear(&strings);
}
END_TEST

START_TEST(bytes_of_any_kind_survive)
{
    static const char *const names[] = {"smollm", "qwen35", "spm-gemma", "gemma4"};
    g_autoptr(SluiceTokenizer) tokenizer = load(names[_i]);
    GRand *rand = new_rand();

    for (int round = 0; round < 300; round++) {
        char text[80];
        size_t n_bytes = (size_t) g_rand_int_range(rand, 0, sizeof text);
        g_autoptr(GArray) ids = NULL;
        g_autofree char *back = NULL;
        gsize n_back;
        for (size_t i = 0; i < n_bytes; i++)
            text[i] = (char) g_rand_int(rand);
        if (_i >= 2 && g_strstr_len(text, (gssize) n_bytes, "\xE2\x96\x81") != NULL)
            continue;
        ids = encode(tokenizer, text, n_bytes, SLUICE_ENCODE_PARSE_SPECIAL);
        back = sluice_tokenizer_decode(tokenizer, (const int32_t *) (gpointer) ids->data, ids->len,
                                       SLUICE_DECODE_SHOW_SPECIAL, &n_back);
        ck_assert_uint_eq(n_back, n_bytes);
        ck_assert_mem_eq(back, text, n_bytes);
    }
    g_rand_free(rand);
}
END_TEST

START_TEST(text_behind_a_nul_byte_is_not_lost)
{
    g_autoptr(SluiceTokenizer) tokenizer = load("smollm");
    g_autoptr(GArray) ids = encode(tokenizer, "ab\0cd", 5, SLUICE_ENCODE_PLAIN);
    gsize n_bytes;
    g_autofree char *text = sluice_tokenizer_decode(
        tokenizer, (const int32_t *) (gpointer) ids->data, ids->len, SLUICE_DECODE_PLAIN, &n_bytes);

    ck_assert_uint_eq(n_bytes, 5);
    ck_assert_mem_eq(text, "ab\0cd", 5);
}
END_TEST

/* A quarter of a megabyte without a place to split; quadratic merging would take hours. */
START_TEST(long_runs_finish)
{
    static const char *const names[] = {"llama-bpe", "smollm", "spm-llama", "spm-gemma", "gemma4"};
    static const char *const units[] = {"A", "ab",           " ", "\n",  "1",
                                        "!", "\xE4\xB8\x80", "<", "\xFF"};
    g_autoptr(SluiceTokenizer) tokenizer = load(names[_i]);
    size_t n_bytes = 1 << 18;
    g_autofree char *text = g_malloc(n_bytes);

    for (size_t u = 0; u < G_N_ELEMENTS(units); u++) {
        g_autoptr(GArray) ids = NULL;
        g_autofree char *back = NULL;
        gsize n_back;
        for (size_t i = 0; i < n_bytes; i++)
            text[i] = units[u][i % strlen(units[u])];
        ids = encode(tokenizer, text, n_bytes, SLUICE_ENCODE_PARSE_SPECIAL);
        back = sluice_tokenizer_decode(tokenizer, (const int32_t *) (gpointer) ids->data, ids->len,
                                       SLUICE_DECODE_PLAIN, &n_back);
        ck_assert_uint_eq(n_back, n_bytes);
        ck_assert_mem_eq(back, text, n_bytes);
    }
}
END_TEST

/* ---- special tokens and trust --------------------------------------------------------------- */

/* ids:       0        1    2           3           4   5 6  7  8   */
#define CHAT                                                                                       \
    "= model gpt2\n= pre gpt-2\n3 <|im_start|>\n3 <|im_end|>\n4 <tool>\n2 <unk>\n1 u\n1 s\n"       \
    "1 <\n1 t\n1 >\n1 \xC4\xA0\n+ u s\n"

START_TEST(control_tokens_need_trust)
{
    g_autoptr(SluiceTokenizer) tokenizer = parse_good(CHAT);
    const char *text = "<|im_end|>us<tool>";
    SluiceTextSpan all = {0, 18}, last_byte = {9, 12}, behind = {10, 18}, backwards = {7, 3};
    SluiceTextSpan unordered[] = {{12, 14}, {0, 1}};
    g_autoptr(GArray) trusted =
        encode_spans(tokenizer, text, 18, SLUICE_ENCODE_PARSE_SPECIAL, &behind, 1);
    g_autoptr(GArray) plain = encode(tokenizer, text, 18, SLUICE_ENCODE_PLAIN);
    const struct {
        const SluiceTextSpan *spans;
        size_t n_spans;
        bool is_control;
    } cases[] = {
        {NULL, 0, true},    {&all, 1, false},      {&last_byte, 1, false},
        {&behind, 1, true}, {&backwards, 1, true}, {unordered, 2, false},
    };

    ck_assert_int_eq(g_array_index(trusted, int32_t, 0), 1);
    ck_assert_int_eq(g_array_index(trusted, int32_t, 1), 10);
    ck_assert_int_eq(g_array_index(trusted, int32_t, 2), 2);
    ck_assert_int_ne(g_array_index(plain, int32_t, 0), 1);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GArray) ids = encode_spans(tokenizer, text, 18, SLUICE_ENCODE_PARSE_SPECIAL,
                                             cases[i].spans, cases[i].n_spans);
        ck_assert(are_equal(ids, cases[i].is_control ? trusted : plain));
        /* The user-defined token is one whoever wrote it. */
        ck_assert_int_eq(g_array_index(ids, int32_t, ids->len - 1), 2);
    }
}
END_TEST

START_TEST(spans_do_not_change_merges)
{
    g_autoptr(SluiceTokenizer) tokenizer = load("qwen35");
    TestStrings strings;

    test_strings_load(&strings);
    for (size_t i = 0; i < strings.n; i++) {
        size_t n = strings.n_bytes[i];
        SluiceTextSpan spans[] = {{0, n / 3}, {n / 2, n}};
        g_autoptr(GArray) plain = encode(tokenizer, strings.texts[i], n, SLUICE_ENCODE_PLAIN);
        g_autoptr(GArray) marked = NULL;
        if (memchr(strings.texts[i], '<', n) != NULL || memchr(strings.texts[i], '[', n) != NULL)
            continue;
        marked =
            encode_spans(tokenizer, strings.texts[i], n, SLUICE_ENCODE_PARSE_SPECIAL, spans, 2);
        ck_assert_msg(are_equal(plain, marked), "string %zu", i);
    }
    test_strings_clear(&strings);
}
END_TEST

static int
count_special(const SluiceTokenizer *tokenizer, const GArray *ids)
{
    int n = 0;

    for (guint i = 0; i < ids->len; i++) {
        SluiceTokenType type = sluice_tokenizer_type(tokenizer, g_array_index(ids, int32_t, i));
        n += type == SLUICE_TOKEN_CONTROL || type == SLUICE_TOKEN_UNKNOWN;
    }
    return n;
}

/* Whatever a user writes, even with control tokens cut across the edge of what is theirs. */
START_TEST(a_user_cannot_add_control_tokens)
{
    static const char *const names[] = {"llama-bpe", "smollm", "spm-gemma", "gemma4"};
    static const char *const parts[] = {"<|im_start|>",
                                        "<|im_end|>",
                                        "|>",
                                        "<|im_",
                                        "start",
                                        "end",
                                        "<s>",
                                        "</s>",
                                        "<",
                                        "s",
                                        ">",
                                        "[INST]",
                                        " ",
                                        "user",
                                        "<unk>",
                                        "<|endoftext|>",
                                        "<bos>",
                                        "<0x0A>",
                                        "\n"};
    static const char begin[] = "<s>[INST]<|im_end|><", end[] = "|im_start|></s><";
    g_autoptr(SluiceTokenizer) tokenizer = load(names[_i]);
    GRand *rand = new_rand();
    int n_own = -1;

    for (int round = 0; round < 2000; round++) {
        g_autoptr(GString) text = g_string_new(begin);
        SluiceTextSpan span = {text->len, 0};
        g_autoptr(GArray) ids = NULL;
        int n;
        /* The first user writes nothing that could be part of a token. */
        for (int i = round == 0 ? 0 : g_rand_int_range(rand, 1, 7); i > 0; i--)
            g_string_append(text, parts[g_rand_int_range(rand, 0, G_N_ELEMENTS(parts))]);
        if (round == 0)
            g_string_append(text, "?");
        span.end = text->len;
        g_string_append(text, end);
        ids = encode_spans(tokenizer, text->str, text->len, SLUICE_ENCODE_PARSE_SPECIAL, &span, 1);
        n = count_special(tokenizer, ids);
        if (n_own < 0)
            n_own = n;
        ck_assert_msg(n == n_own, "%s: %d control tokens, expected %d", text->str, n, n_own);
    }
    ck_assert_int_gt(n_own, 0);
    g_rand_free(rand);
}
END_TEST

START_TEST(no_merge_makes_a_control_token)
{
    g_autoptr(SluiceTokenizer) spm = parse_good("= model llama\n= add_space_prefix 0\n2 <unk> 0\n"
                                                "3 <s> 0\n1 < -1\n1 s -1\n1 > -1\n1 <s -2\n");
    g_autoptr(SluiceTokenizer) bpe =
        parse_good("= model gpt2\n= pre llama-bpe\n1 a\n1 b\n3 ab\n+ a b\n");

    assert_ids(spm, "<s>", SLUICE_ENCODE_PLAIN, "5 4");
    assert_ids(spm, "<s>", SLUICE_ENCODE_PARSE_SPECIAL, "1");
    assert_ids(bpe, "ab", SLUICE_ENCODE_PLAIN, "0 1");
    assert_ids(bpe, "ab", SLUICE_ENCODE_PARSE_SPECIAL, "2");
}
END_TEST

/* The rule said in the plainest way: every candidate in turn over what is left of the text. */
static void
match_naively(const SluiceGgufString *texts, const SluiceTokenCandidate *candidates, size_t n,
              const char *text, size_t n_bytes, bool parses, const SluiceTextSpan *span,
              int32_t *owner)
{
    for (size_t i = 0; i < n_bytes; i++)
        owner[i] = -1;
    for (size_t length = 16; length > 0; length--) {
        for (size_t c = 0; c < n; c++) {
            const SluiceGgufString *token = &texts[candidates[c].id];
            if (token->n_bytes != length || (candidates[c].is_guarded && !parses))
                continue;
            for (size_t pos = 0; pos + length <= n_bytes; pos++) {
                bool is_free = memcmp(text + pos, token->data, length) == 0 &&
                               !(candidates[c].is_guarded && span->begin < pos + length &&
                                 span->end > pos && span->begin < span->end);
                for (size_t i = pos; i < pos + length; i++)
                    is_free = is_free && owner[i] < 0;
                for (size_t i = pos; is_free && i < pos + length; i++)
                    owner[i] = candidates[c].id;
            }
        }
    }
}

START_TEST(the_longest_token_takes_its_places_first)
{
    GRand *rand = new_rand();

    for (int round = 0; round < 20000; round++) {
        SluiceGgufString texts[12];
        SluiceTokenCandidate candidates[12];
        char storage[12][6], text[24];
        int32_t expected[24], got[24];
        size_t n = (size_t) g_rand_int_range(rand, 0, 12);
        size_t n_bytes = (size_t) g_rand_int_range(rand, 0, sizeof text + 1);
        SluiceTextSpan span = {(gsize) g_rand_int_range(rand, 0, 25),
                               (gsize) g_rand_int_range(rand, 0, 25)};
        size_t n_spans = span.begin < span.end ? 1 : 0;
        g_autoptr(GArray) matches = g_array_new(FALSE, FALSE, sizeof(SluiceTokenMatch));
        SluiceTokenMatcher *matcher;
        bool parses = g_rand_boolean(rand);

        for (size_t c = 0; c < n; c++) {
            texts[c] = (SluiceGgufString){storage[c], (size_t) g_rand_int_range(rand, 0, 6)};
            for (size_t i = 0; i < texts[c].n_bytes; i++)
                storage[c][i] = (char) g_rand_int_range(rand, 'a', 'c');
            candidates[c] = (SluiceTokenCandidate){(int32_t) c, g_rand_boolean(rand), false};
        }
        for (size_t i = 0; i < n_bytes; i++)
            text[i] = (char) g_rand_int_range(rand, 'a', 'c');
        match_naively(texts, candidates, n, text, n_bytes, parses, &span, expected);
        matcher = sluice_token_matcher_new(texts, candidates, n);
        ck_assert(sluice_token_matcher_find(matcher, text, n_bytes, parses, &span, n_spans, matches,
                                            NULL));
        for (size_t i = 0; i < n_bytes; i++)
            got[i] = -1;
        for (guint m = 0; m < matches->len; m++) {
            SluiceTokenMatch match = g_array_index(matches, SluiceTokenMatch, m);
            ck_assert_uint_eq(match.end - match.begin, texts[match.id].n_bytes);
            for (uint32_t i = match.begin; i < match.end; i++)
                got[i] = match.id;
        }
        ck_assert_msg(memcmp(got, expected, n_bytes * sizeof *got) == 0, "round %d", round);
        sluice_token_matcher_free(matcher);
    }
    g_rand_free(rand);
}
END_TEST

START_TEST(bos_and_eos_follow_the_file)
{
    g_autoptr(SluiceTokenizer) both =
        parse_good("= model llama\n= add_eos 1\n2 <unk> 0\n3 <s> 0\n3 </s> 0\n1 \xE2\x96\x81"
                   "a -1\n"
                   "1 a -2\n1 \xE2\x96\x81 -3\n");
    g_autoptr(SluiceTokenizer) none =
        parse_good("= model gpt2\n= pre qwen2\n= bos 0\n= eos 0\n3 <|endoftext|>\n1 a\n");
    g_autoptr(SluiceTokenizer) llama3 =
        parse_good("= model gpt2\n= pre llama-bpe\n= bos 0\n3 <|begin|>\n1 a\n");
    g_autoptr(SluiceTokenizer) off =
        parse_good("= model gpt2\n= pre llama-bpe\n= bos 0\n= add_bos 0\n3 <|begin|>\n1 a\n");

    assert_ids(both, "a", SLUICE_ENCODE_ADD_SPECIAL, "1 3 2");
    assert_ids(both, "", SLUICE_ENCODE_ADD_SPECIAL, "1 2");
    assert_ids(both, "a", SLUICE_ENCODE_PLAIN, "3");
    ck_assert(sluice_tokenizer_adds_bos(both) && sluice_tokenizer_adds_eos(both));
    assert_ids(none, "a", SLUICE_ENCODE_ADD_SPECIAL, "1");
    ck_assert(!sluice_tokenizer_adds_bos(none));
    assert_ids(llama3, "a", SLUICE_ENCODE_ADD_SPECIAL, "0 1");
    assert_ids(off, "a", SLUICE_ENCODE_ADD_SPECIAL, "1");
}
END_TEST

START_TEST(a_text_that_begins_with_bos_keeps_one)
{
    g_autoptr(SluiceTokenizer) tokenizer =
        parse_good("= model gpt2\n= pre llama-bpe\n= bos 0\n3 <|begin|>\n1 a\n");
    int both = SLUICE_ENCODE_ADD_SPECIAL | SLUICE_ENCODE_PARSE_SPECIAL;

    assert_ids(tokenizer, "<|begin|>a", both, "0 1");
    assert_ids(tokenizer, "<|begin|><|begin|>a", both, "0 0 1");
    assert_ids(tokenizer, "a<|begin|>", both, "0 1 0");
}
END_TEST

START_TEST(spm_puts_a_space_behind_special_tokens)
{
    g_autoptr(SluiceTokenizer) tokenizer =
        parse_good("= model llama\n2 <unk> 0\n3 <s> 0\n3 </s> 0\n1 \xE2\x96\x81"
                   "a -1\n1 a -2\n"
                   "1 \xE2\x96\x81 -3\n4 <u> 0\n1 \xE2\x96\x81\xE2\x96\x81 -4\n");

    assert_ids(tokenizer, "aa</s>a", SLUICE_ENCODE_PARSE_SPECIAL, "3 4 2 3");
    assert_ids(tokenizer, "<u>a", SLUICE_ENCODE_PLAIN, "6 3");
    assert_ids(tokenizer, " a", SLUICE_ENCODE_PLAIN, "5 3");
    assert_ids(tokenizer, "", SLUICE_ENCODE_PLAIN, "");
}
END_TEST

START_TEST(phi3_swallows_space_behind_special_tokens)
{
#define PHI3                                                                                       \
    "= model llama\n= add_space_prefix 0\n2 <unk> 0\n3 <s> 0\n3 </s> 0\n1 a -1\n"                  \
    "1 \xE2\x96\x81 -3\n3 <|end|> 0\n1 \\x0A -4\n"
    g_autoptr(SluiceTokenizer) phi3 = parse_good("= name Phi-3\\x20mini\n" PHI3);
    g_autoptr(SluiceTokenizer) other = parse_good("= name Philip\n" PHI3);

    assert_ids(phi3, "<|end|> \n a", SLUICE_ENCODE_PARSE_SPECIAL, "5 3");
    assert_ids(phi3, "<|end|> \n <|end|>  ", SLUICE_ENCODE_PARSE_SPECIAL, "5 5");
    assert_ids(phi3, "<s> a", SLUICE_ENCODE_PARSE_SPECIAL, "1 4 3");
    assert_ids(other, "<|end|> \n a", SLUICE_ENCODE_PARSE_SPECIAL, "5 4 6 4 3");
}
END_TEST

START_TEST(spm_falls_back_to_bytes_then_to_unknown)
{
    g_autoptr(SluiceTokenizer) bytes =
        parse_good("= model llama\n= add_space_prefix 0\n2 <unk> 0\n3 <s> 0\n3 </s> 0\n"
                   "6 <0xC3> 0\n6 <0xA9> 0\n6 <0x-1> 0\n6 <0xZZ> 0\n6 <0x41 0\n1 B -1\n");

    assert_ids(bytes, "\xC3\xA9", SLUICE_ENCODE_PLAIN, "3 4");
    assert_ids(bytes, "AB", SLUICE_ENCODE_PLAIN, "0 8");
}
END_TEST

/* ---- what ends an answer -------------------------------------------------------------------- */

START_TEST(eog_has_ids_and_texts)
{
    g_autoptr(SluiceTokenizer) qwen = parse_good(
        "= model gpt2\n= pre qwen2\n= eos 1\n3 <|endoftext|>\n3 <|im_end|>\n3 <|im_start|>\n1 a\n"
        "4 </s>\n3 <|fim_pad|>\n3 <|repo_name|>\n3 <|file_sep|>\n3 <|fim_prefix|>\n");
    static const bool expected[] = {true, true, false, false, true, true, true, true, false};
    size_t n_ids;
    const int32_t *ids = sluice_tokenizer_eog_ids(qwen, &n_ids);

    ck_assert_uint_eq(n_ids, 6);
    for (int32_t id = 0; id < (int32_t) G_N_ELEMENTS(expected); id++)
        ck_assert_msg(sluice_tokenizer_is_eog(qwen, id) == expected[id], "token %d", id);
    for (size_t i = 0; i < n_ids; i++)
        ck_assert(sluice_tokenizer_is_eog(qwen, ids[i]));
    ck_assert(!sluice_tokenizer_is_eog(qwen, -1));
    ck_assert(!sluice_tokenizer_is_eog(qwen, 9));
    ck_assert_int_eq(sluice_tokenizer_type(qwen, 4), SLUICE_TOKEN_CONTROL);
    ck_assert_int_eq(sluice_tokenizer_special(qwen, SLUICE_SPECIAL_EOT), 1);
    ck_assert_int_eq(sluice_tokenizer_special(qwen, SLUICE_SPECIAL_FIM_PREFIX), 8);
    ck_assert_int_eq(sluice_tokenizer_special(qwen, SLUICE_SPECIAL_FIM_SUFFIX), -1);
}
END_TEST

START_TEST(gpt_oss_goes_on_behind_end)
{
#define OSS                                                                                        \
    "= model gpt2\n= pre gpt-4o\n= eos 0\n3 <|return|>\n3 <|end|>\n3 <|channel|>\n3 <|start|>\n"
    g_autoptr(SluiceTokenizer) with_call = parse_good(OSS "3 <|call|>\n");
    g_autoptr(SluiceTokenizer) without = parse_good(OSS);
    GString *out = g_string_new(NULL);

    ck_assert(!sluice_tokenizer_is_eog(with_call, 1));
    ck_assert(sluice_tokenizer_is_eog(with_call, 4));
    ck_assert(sluice_tokenizer_is_eog(without, 1));
    /* Its marks are seen in the answer, but a user cannot write them. */
    sluice_tokenizer_append_bytes(with_call, 2, SLUICE_DECODE_PLAIN, out);
    sluice_tokenizer_append_bytes(without, 2, SLUICE_DECODE_PLAIN, out);
    ck_assert_str_eq(out->str, "<|channel|>");
    assert_ids(with_call, "<|channel|>", SLUICE_ENCODE_PLAIN, "");
    g_string_free(out, TRUE);
}
END_TEST

START_TEST(gemma4_goes_on_behind_an_end_of_strike)
{
    g_autoptr(SluiceTokenizer) tokenizer =
        parse_good("= model gemma4\n= eos 0\n3 <eos>\n3 <turn|>\n3 <|tool_response>\n4 </s>\n");

    ck_assert(sluice_tokenizer_is_eog(tokenizer, 1));
    ck_assert(sluice_tokenizer_is_eog(tokenizer, 2));
    ck_assert(!sluice_tokenizer_is_eog(tokenizer, 3));
}
END_TEST

/* ---- decoding ------------------------------------------------------------------------------- */

START_TEST(control_tokens_show_on_request)
{
    g_autoptr(SluiceTokenizer) tokenizer = parse_good(CHAT);
    static const int32_t ids[] = {0, 10, 9, 2, 3, 1, -5, 999};
    g_autofree char *hidden =
        sluice_tokenizer_decode(tokenizer, ids, G_N_ELEMENTS(ids), SLUICE_DECODE_PLAIN, NULL);
    g_autofree char *shown = sluice_tokenizer_decode(tokenizer, ids, G_N_ELEMENTS(ids),
                                                     SLUICE_DECODE_SHOW_SPECIAL, NULL);

    ck_assert_str_eq(hidden, "us <tool>");
    ck_assert_str_eq(shown, "<|im_start|>us <tool><unk><|im_end|>");
}
END_TEST

START_TEST(one_leading_space_comes_off)
{
    g_autoptr(SluiceTokenizer) tokenizer =
        parse_good("= model llama\n2 <unk> 0\n3 <s> 0\n3 </s> 0\n1 \xE2\x96\x81"
                   "a -1\n"
                   "1 \xE2\x96\x81\xE2\x96\x81 -2\n");
    g_autoptr(SluiceTokenizer) bare =
        parse_good("= model llama\n= add_space_prefix 0\n2 <unk> 0\n3 <s> 0\n3 </s> 0\n"
                   "1 \xE2\x96\x81"
                   "a -1\n");
    static const int32_t ids[] = {1, 3, 3}, spaces[] = {4, 3};
    g_autofree char *text = sluice_tokenizer_decode(tokenizer, ids, 3, SLUICE_DECODE_PLAIN, NULL);
    g_autofree char *more =
        sluice_tokenizer_decode(tokenizer, spaces, 2, SLUICE_DECODE_PLAIN, NULL);
    g_autofree char *kept = sluice_tokenizer_decode(bare, ids, 3, SLUICE_DECODE_PLAIN, NULL);

    ck_assert_str_eq(text, "a a");
    ck_assert_str_eq(more, "  a");
    ck_assert_str_eq(kept, " a a");
}
END_TEST

START_TEST(malformed_byte_tokens_are_text)
{
    g_autoptr(SluiceTokenizer) tokenizer =
        parse_good("= model llama\n= add_space_prefix 0\n2 <unk> 0\n3 <s> 0\n3 </s> 0\n6 <0x41> 0\n"
                   "6 <0x-1> 0\n6 <0xZZ> 0\n6 <0x4> 0\n6 0x41 0\n1 <0x42> 0\n6 <0x4a> 0\n");
    static const int32_t ids[] = {3, 4, 5, 6, 7, 8, 9};
    g_autofree char *text =
        sluice_tokenizer_decode(tokenizer, ids, G_N_ELEMENTS(ids), SLUICE_DECODE_PLAIN, NULL);

    ck_assert_str_eq(text, "A<0x-1><0xZZ><0x4>0x41<0x42>J");
}
END_TEST

/* ---- vocabularies that mean no good --------------------------------------------------------- */

START_TEST(bad_vocabularies_are_refused_by_name)
{
    static const struct {
        const char *vocabulary, *message;
    } cases[] = {
        {"= model gpt2\n= pre gpt-9\x1b\n1 a\n", "unknown pre-tokenizer 'gpt-9\\x1B'"},
        {"= model bert\n1 a\n", "tokenizer model 'bert' is not supported, "
                                "only 'gpt2', 'llama' and 'gemma4' are"},
        {"1 a\n", "tokenizer model '' is not supported, only 'gpt2', 'llama' and 'gemma4' are"},
        {"= model gpt2\n= pre gpt-2\n",
         "'tokenizer.ggml.tokens' has 0 entries, expected 1 to 268435456"},
        {"= model gpt2\n= pre gpt-2\n1 a\n7 b\n", "token 1 has type 7, expected 0 to 6"},
        {"= model gpt2\n= pre gpt-2\n-1 a\n", "token 0 has type -1, expected 0 to 6"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        ck_assert_ptr_null(parse(cases[i].vocabulary, &error));
        ck_assert(g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_MODEL));
        ck_assert_str_eq(error->message, cases[i].message);
    }
}
END_TEST

START_TEST(arrays_of_other_lengths_are_refused)
{
    g_autoptr(GError) error = NULL;
    SluiceVocabData data;

    test_vocab_load("spm-llama", &data);
    data.n_types--;
    ck_assert_ptr_null(sluice_tokenizer_new_from_data(&data, &error));
    ck_assert_str_eq(error->message, "'tokenizer.ggml.token_type' has 3999 entries, expected 4000");
    ck_assert_ptr_null(data.tokens);
    g_clear_error(&error);
    test_vocab_load("spm-llama", &data);
    data.n_scores++;
    ck_assert_ptr_null(sluice_tokenizer_new_from_data(&data, &error));
    ck_assert_str_eq(error->message, "'tokenizer.ggml.scores' has 4001 entries, expected 4000");
}
END_TEST

START_TEST(special_ids_out_of_range_are_left_out)
{
    g_autoptr(SluiceTokenizer) tokenizer =
        parse_good("= model gpt2\n= pre llama-bpe\n= bos 2\n= eos 99\n1 a\n1 b\n");

    ck_assert_int_eq(sluice_tokenizer_special(tokenizer, SLUICE_SPECIAL_BOS), -1);
    ck_assert_int_eq(sluice_tokenizer_special(tokenizer, SLUICE_SPECIAL_EOS), -1);
    ck_assert(!sluice_tokenizer_adds_bos(tokenizer));
    assert_ids(tokenizer, "a", SLUICE_ENCODE_ADD_SPECIAL, "0");
    ck_assert_str_eq(sluice_tokenizer_notes(tokenizer)[0],
                     "special token 2 is left out: the vocabulary ends at 1");
    ck_assert_ptr_nonnull(sluice_tokenizer_notes(tokenizer)[1]);
    ck_assert_ptr_null(sluice_tokenizer_notes(tokenizer)[2]);
}
END_TEST

START_TEST(a_missing_pre_tokenizer_is_said)
{
    g_autoptr(SluiceTokenizer) tokenizer = parse_good("= model gpt2\n1 a\n");

    ck_assert_ptr_nonnull(strstr(sluice_tokenizer_notes(tokenizer)[0], "'tokenizer.ggml.pre'"));
}
END_TEST

START_TEST(merges_without_tokens_are_left_out_and_said)
{
    g_auto(SluiceVocabData) data;
    static const char vocabulary[] = "= model gpt2\n= pre gpt-2\n1 a\n1 b\n1 ab\n";
    static const char *const merges[] = {"a b", "a x", "x b", "b a", "a",   "",
                                         " ",   "  ",  "a ",  " b",  "a b", "ab a b"};
    g_autoptr(SluiceTokenizer) tokenizer = NULL;

    test_vocab_parse(vocabulary, strlen(vocabulary), &data);
    g_free(data.merges);
    data.merges = g_new(SluiceGgufString, G_N_ELEMENTS(merges));
    data.n_merges = G_N_ELEMENTS(merges);
    for (size_t i = 0; i < G_N_ELEMENTS(merges); i++)
        data.merges[i] = (SluiceGgufString){merges[i], strlen(merges[i])};
    tokenizer = sluice_tokenizer_new_from_data(&data, NULL);
    assert_ids(tokenizer, "abba", SLUICE_ENCODE_PLAIN, "2 1 0");
    ck_assert_ptr_nonnull(strstr(sluice_tokenizer_notes(tokenizer)[0], "10 of 12 entries"));
}
END_TEST

/* The same pair twice: the first rank counts. The same text twice: the last id does. */
START_TEST(repetitions_have_a_winner)
{
    g_autoptr(SluiceTokenizer) tokenizer =
        parse_good("= model gpt2\n= pre gpt-2\n1 a\n1 b\n1 c\n1 ab\n1 bc\n1 a\n1 ab\n"
                   "+ b c\n+ a b\n+ b c\n");

    assert_ids(tokenizer, "abc", SLUICE_ENCODE_PLAIN, "5 4");
    assert_ids(tokenizer, "ab", SLUICE_ENCODE_PLAIN, "6");
    ck_assert_int_eq(sluice_tokenizer_find(tokenizer, "a", -1), 5);
}
END_TEST

START_TEST(empty_and_odd_texts_match_nothing)
{
    static const char vocabulary[] =
        "= model llama\n= add_space_prefix 0\n4 \n3 \n1  0\n1 \\x00 -1\n"
        "4 \\x00\\x00 0\n1 \\xFF -1\n1 a -1\n";
    g_auto(SluiceVocabData) data;
    g_autoptr(SluiceTokenizer) tokenizer = NULL;
    g_autoptr(GArray) ids = NULL;
    size_t n_bytes;

    test_vocab_parse(vocabulary, sizeof vocabulary - 1, &data);
    ck_assert_uint_eq(data.n_tokens, 7);
    tokenizer = sluice_tokenizer_new_from_data(&data, NULL);
    ids = encode(tokenizer, "a\0\0\0\xFF", 5, SLUICE_ENCODE_PARSE_SPECIAL);
    ck_assert_uint_eq(ids->len, 4);
    ck_assert_int_eq(g_array_index(ids, int32_t, 0), 6);
    ck_assert_int_eq(g_array_index(ids, int32_t, 1), 4);
    ck_assert_int_eq(g_array_index(ids, int32_t, 2), 3);
    ck_assert_int_eq(g_array_index(ids, int32_t, 3), 5);
    ck_assert_int_eq(sluice_tokenizer_find(tokenizer, "", -1), -1);
    ck_assert_ptr_null(sluice_tokenizer_text(tokenizer, 7, &n_bytes));
    ck_assert_ptr_null(sluice_tokenizer_text(tokenizer, -1, &n_bytes));
    ck_assert_ptr_nonnull(sluice_tokenizer_text(tokenizer, 4, &n_bytes));
    ck_assert_uint_eq(n_bytes, 2);
}
END_TEST

START_TEST(scores_that_are_no_numbers_come_last)
{
    static const char vocabulary[] =
        "= model llama\n= add_space_prefix 0\n1 a 0\n1 b 0\n1 c 0\n1 ab nan\n1 bc -1e30\n";
    g_autoptr(SluiceTokenizer) tokenizer = parse_good(vocabulary);

    assert_ids(tokenizer, "abc", SLUICE_ENCODE_PLAIN, "0 4");
    assert_ids(tokenizer, "ab", SLUICE_ENCODE_PLAIN, "3");
}
END_TEST

START_TEST(texts_beyond_the_limit_are_refused)
{
    g_autoptr(SluiceTokenizer) tokenizer = parse_good(CHAT);
    g_autoptr(GArray) ids = g_array_new(FALSE, FALSE, sizeof(int32_t));
    g_autoptr(GError) error = NULL;

    ck_assert(!sluice_tokenizer_encode(tokenizer, "x", SLUICE_TOKENIZER_MAX_TEXT_BYTES + 1,
                                       SLUICE_ENCODE_PLAIN, NULL, 0, ids, &error));
    ck_assert(g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT));
    ck_assert_str_eq(error->message, "the text has 536870913 bytes, at most 536870912 can be "
                                     "tokenized at once");
    ck_assert_uint_eq(ids->len, 0);
}
END_TEST

/* ---- model files ---------------------------------------------------------------------------- */

/* Writes a committed vocabulary as a model file. */
static char *
write_model(const char *name, bool has_pre)
{
    g_auto(SluiceVocabData) data;
    g_autoptr(GgufWriter) writer = gguf_writer_new();
    g_autofree int32_t *types = NULL;
    char *path = g_strdup_printf("check_tokenizer-%d.gguf", (int) getpid());

    test_vocab_load(name, &data);
    types = g_new(int32_t, data.n_tokens);
    for (size_t i = 0; i < data.n_tokens; i++)
        types[i] = (int32_t) data.types[i];
    gguf_writer_string(writer, "general.architecture", "llama");
    gguf_writer_string(writer, "tokenizer.ggml.model", data.model.data);
    if (has_pre)
        gguf_writer_string(writer, "tokenizer.ggml.pre", data.pre.data);
    gguf_writer_strings(writer, "tokenizer.ggml.tokens", data.n_tokens);
    for (size_t i = 0; i < data.n_tokens; i++)
        gguf_writer_item(writer, data.tokens[i].data, (gssize) data.tokens[i].n_bytes);
    gguf_writer_array(writer, "tokenizer.ggml.token_type", SLUICE_GGUF_I32, data.n_tokens, types,
                      data.n_tokens * sizeof *types);
    gguf_writer_strings(writer, "tokenizer.ggml.merges", data.n_merges);
    for (size_t i = 0; i < data.n_merges; i++)
        gguf_writer_item(writer, data.merges[i].data, (gssize) data.merges[i].n_bytes);
    gguf_writer_u32(writer, "tokenizer.ggml.bos_token_id", 1);
    gguf_writer_u32(writer, "tokenizer.ggml.eos_token_id", UINT32_MAX);
    gguf_writer_i32(writer, "tokenizer.ggml.padding_token_id", -1);
    gguf_writer_bool(writer, "tokenizer.ggml.add_bos_token", true);
    gguf_writer_save(writer, path);
    return path;
}

START_TEST(a_model_file_gives_the_same_tokenizer)
{
    g_autofree char *path = write_model("qwen2", true);
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceGguf) gguf = sluice_gguf_open(path, &error);
    g_autoptr(SluiceTokenizer) tokenizer = NULL;
    g_autoptr(SluiceTokenizer) other = load("qwen2");
    TestStrings strings;

    g_unlink(path);
    ck_assert_msg(gguf != NULL, "%s", error != NULL ? error->message : "");
    tokenizer = sluice_tokenizer_new(gguf, &error);
    ck_assert_msg(tokenizer != NULL, "%s", error != NULL ? error->message : "");
    /* The tokenizer keeps the mapping. */
    g_clear_pointer(&gguf, sluice_gguf_unref);
    ck_assert_int_eq(sluice_tokenizer_special(tokenizer, SLUICE_SPECIAL_BOS), 1);
    ck_assert_int_eq(sluice_tokenizer_special(tokenizer, SLUICE_SPECIAL_EOS), -1);
    ck_assert(sluice_tokenizer_adds_bos(tokenizer));
    test_strings_load(&strings);
    for (size_t i = 0; i < strings.n; i += 7) {
        g_autoptr(GArray) a = encode(tokenizer, strings.texts[i], strings.n_bytes[i], 0);
        g_autoptr(GArray) b = encode(other, strings.texts[i], strings.n_bytes[i], 0);
        ck_assert(are_equal(a, b));
    }
    test_strings_clear(&strings);
}
END_TEST

START_TEST(a_model_file_without_tokens_is_refused)
{
    g_autoptr(GgufWriter) writer = gguf_writer_new();
    g_autofree char *path = g_strdup_printf("check_tokenizer-%d.gguf", (int) getpid());
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceGguf) gguf = NULL;

    gguf_writer_string(writer, "general.architecture", "llama");
    gguf_writer_save(writer, path);
    gguf = sluice_gguf_open(path, NULL);
    g_unlink(path);
    ck_assert_ptr_nonnull(gguf);
    ck_assert_ptr_null(sluice_tokenizer_new(gguf, &error));
    ck_assert_ptr_nonnull(strstr(error->message, "tokenizer.ggml.model"));
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *tc = tcase_create("ids");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, ids_are_those_of_the_public_libraries, 0, G_N_ELEMENTS(VOCABULARIES));
    tcase_add_loop_test(tc, decoding_gives_the_text_back, 0, G_N_ELEMENTS(VOCABULARIES));
    tcase_add_loop_test(tc, bytes_of_any_kind_survive, 0, 4);
    tcase_add_test(tc, text_behind_a_nul_byte_is_not_lost);
    tcase_add_loop_test(tc, long_runs_finish, 0, 5);
    suite_add_tcase(suite, tc);

    tc = tcase_create("special");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, control_tokens_need_trust);
    tcase_add_test(tc, spans_do_not_change_merges);
    tcase_add_loop_test(tc, a_user_cannot_add_control_tokens, 0, 4);
    tcase_add_test(tc, no_merge_makes_a_control_token);
    tcase_add_test(tc, the_longest_token_takes_its_places_first);
    tcase_add_test(tc, bos_and_eos_follow_the_file);
    tcase_add_test(tc, a_text_that_begins_with_bos_keeps_one);
    tcase_add_test(tc, spm_puts_a_space_behind_special_tokens);
    tcase_add_test(tc, phi3_swallows_space_behind_special_tokens);
    tcase_add_test(tc, spm_falls_back_to_bytes_then_to_unknown);
    suite_add_tcase(suite, tc);

    tc = tcase_create("ends");
    tcase_add_test(tc, eog_has_ids_and_texts);
    tcase_add_test(tc, gpt_oss_goes_on_behind_end);
    tcase_add_test(tc, gemma4_goes_on_behind_an_end_of_strike);
    suite_add_tcase(suite, tc);

    tc = tcase_create("decoding");
    tcase_add_test(tc, control_tokens_show_on_request);
    tcase_add_test(tc, one_leading_space_comes_off);
    tcase_add_test(tc, malformed_byte_tokens_are_text);
    suite_add_tcase(suite, tc);

    tc = tcase_create("hostile");
    tcase_add_test(tc, bad_vocabularies_are_refused_by_name);
    tcase_add_test(tc, arrays_of_other_lengths_are_refused);
    tcase_add_test(tc, special_ids_out_of_range_are_left_out);
    tcase_add_test(tc, a_missing_pre_tokenizer_is_said);
    tcase_add_test(tc, merges_without_tokens_are_left_out_and_said);
    tcase_add_test(tc, repetitions_have_a_winner);
    tcase_add_test(tc, empty_and_odd_texts_match_nothing);
    tcase_add_test(tc, scores_that_are_no_numbers_come_last);
    tcase_add_test(tc, texts_beyond_the_limit_are_refused);
    suite_add_tcase(suite, tc);

    tc = tcase_create("files");
    tcase_add_test(tc, a_model_file_gives_the_same_tokenizer);
    tcase_add_test(tc, a_model_file_without_tokens_is_refused);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
