/* SPDX-License-Identifier: MIT */
/* The scanners against the regular expressions that they stand for. */
#include "config.h"

#include <string.h>

#include "src/text/pretokenizer.h"
#include "tests/suite.h"
#include "tests/tokenizer_data.h"

/* One name of every pre-tokenizer. */
static const char *const FAMILIES[] = {
    "bailingmoe", "bloom",      "deepseek-coder", "deepseek-llm", "deepseek-v3", "default",
    "falcon",     "gemma4",     "gpt-2",          "gpt-4o",       "llama-bpe",   "qwen2",
    "qwen35",     "seed-coder", "smollm",         "tekken",       "viking",
};

/* The pieces of a text, joined by bars. */
static char *
split(const char *name, const char *text, size_t n_bytes)
{
    SluicePretokenizerIter iter;
    GString *out = g_string_new(NULL);
    size_t begin, end;

    sluice_pretokenizer_iter_init(&iter, sluice_pretokenizer_find(name, -1), (const uint8_t *) text,
                                  n_bytes);
    while (sluice_pretokenizer_iter_next(&iter, &begin, &end)) {
        if (begin > 0)
            g_string_append_c(out, '|');
        g_string_append_len(out, text + begin, (gssize) (end - begin));
    }
    return g_string_free(out, FALSE);
}

START_TEST(pieces_are_those_of_the_regular_expressions)
{
    const char *name = FAMILIES[_i];
    const SluicePretokenizer *pretokenizer = sluice_pretokenizer_find(name, -1);
    TestStrings strings;
    size_t n_digests;
    g_autofree uint32_t *digests = test_digests_load("pieces", name, &n_digests);

    test_strings_load(&strings);
    ck_assert_uint_ge(strings.n, 2000);
    ck_assert_uint_eq(n_digests, strings.n);
    for (size_t i = 0; i < strings.n; i++) {
        SluicePretokenizerIter iter;
        uint32_t digest = TEST_DIGEST_START;
        size_t begin, end;
        sluice_pretokenizer_iter_init(&iter, pretokenizer, (const uint8_t *) strings.texts[i],
                                      strings.n_bytes[i]);
        while (sluice_pretokenizer_iter_next(&iter, &begin, &end)) {
            uint32_t value = (uint32_t) end;
            digest = test_digest(digest, &value, 1);
        }
        if (digest != digests[i])
            ck_abort_msg("%s, string %zu", name, i);
    }
    test_strings_clear(&strings);
}
END_TEST

START_TEST(known_splits)
{
    static const struct {
        const char *name, *text, *pieces;
    } cases[] = {
        {"smollm", "w048 7", "w|0|4|8| |7"},
        {"gpt-2", "don't  DON'T\n\n x3333", "don|'t| | DON|'|T|\n\n| x|3333"},
        {"llama-bpe", "don't DON'T 33333333!\n\n", "don|'t| DON|'T| |333|333|33|!\n\n"},
        {"qwen2", "x=333;\r\n\r\n  y", "x|=|3|3|3|;\r\n\r\n| | y"},
        {"tekken", "HTTPServerError iPhone15", "HTTPServer|Error| i|Phone|1|5"},
        {"gpt-4o", "CAPS'LL they've", "CAPS'LL| they've"},
        {"deepseek-v3", "a.b c", "a|.b| c"},
        {"falcon", "1234`x", "123|4|`|x"},
        {"bloom", "Hi, you", "Hi|,| you"},
        {"gemma4", "a\n\nb", "a|\n\n|b"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *pieces = split(cases[i].name, cases[i].text, strlen(cases[i].text));
        ck_assert_str_eq(pieces, cases[i].pieces);
    }
}
END_TEST

/* Pieces cover the text without gaps and are never empty, whatever the bytes. */
START_TEST(any_bytes_are_covered_once)
{
    const char *name = sluice_pretokenizer_name((size_t) _i);
    const char *seed = g_getenv("SLUICE_TEST_SEED");
    GRand *rand = g_rand_new_with_seed(seed != NULL ? (guint32) atoi(seed) : 7);
    static const char alphabet[] =
        "aZ'sre 1\t\n\r!/\xC3\xA9\xE4\xB8\x80\xCC\x81\xF0\x9F\x98\x80\xFF";

    for (int round = 0; round < 500; round++) {
        uint8_t text[64];
        size_t n_bytes = (size_t) g_rand_int_range(rand, 0, sizeof text), begin, end, pos = 0;
        SluicePretokenizerIter iter;
        for (size_t i = 0; i < n_bytes; i++)
            text[i] = round % 2 == 0
                          ? (uint8_t) g_rand_int(rand)
                          : (uint8_t) alphabet[g_rand_int_range(rand, 0, sizeof alphabet)];
        sluice_pretokenizer_iter_init(&iter, sluice_pretokenizer_find(name, -1), text, n_bytes);
        while (sluice_pretokenizer_iter_next(&iter, &begin, &end)) {
            if (begin != pos || end <= begin || end > n_bytes)
                ck_abort_msg("%s, round %d: piece %zu to %zu at %zu", name, round, begin, end, pos);
            pos = end;
        }
        ck_assert_uint_eq(pos, n_bytes);
    }
    g_rand_free(rand);
}
END_TEST

/* A quarter of a megabyte of one character, and of white space that something follows, in every
 * family. A quadratic scanner would take hours. */
START_TEST(long_runs_take_linear_time)
{
    static const char *const units[] = {"A",  "a",   " ",  "\n",           "\t",
                                        "1",  "!",   "'",  "\xE4\xB8\x80", "\xCC\x81",
                                        " a", "\n ", "A!", "\xC7\x85",     "\xFF"};
    size_t n_bytes = 1 << 18;
    g_autofree char *text = g_malloc(n_bytes);

    for (size_t u = 0; u < G_N_ELEMENTS(units); u++) {
        size_t n_unit = strlen(units[u]), begin, end, pos = 0;
        SluicePretokenizerIter iter;
        for (size_t i = 0; i < n_bytes; i++)
            text[i] = units[u][i % n_unit];
        text[n_bytes - 1] = 'x';
        sluice_pretokenizer_iter_init(&iter, sluice_pretokenizer_find(FAMILIES[_i], -1),
                                      (const uint8_t *) text, n_bytes);
        while (sluice_pretokenizer_iter_next(&iter, &begin, &end))
            pos = end;
        ck_assert_uint_eq(pos, n_bytes);
    }
}
END_TEST

START_TEST(names_are_found_and_others_are_not)
{
    size_t n = 0;

    for (const char *name, *last = ""; (name = sluice_pretokenizer_name(n)) != NULL; n++) {
        ck_assert_str_lt(last, name);
        ck_assert_ptr_nonnull(sluice_pretokenizer_find(name, -1));
        last = name;
    }
    ck_assert_uint_ge(n, 50);
    ck_assert_ptr_null(sluice_pretokenizer_find("gpt-9", -1));
    ck_assert_ptr_null(sluice_pretokenizer_find("", -1));
    ck_assert_ptr_null(sluice_pretokenizer_find("qwen35", 4));
    ck_assert_ptr_eq(sluice_pretokenizer_find("qwen2x", 5), sluice_pretokenizer_find("qwen2", -1));
    ck_assert(sluice_pretokenizer_find("llama-bpe", -1)->ignores_merges);
    ck_assert(!sluice_pretokenizer_find("smaug-bpe", -1)->ignores_merges);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("pretokenizer");
    TCase *tc = tcase_create("pieces");
    int n_names = 0;

    while (sluice_pretokenizer_name((size_t) n_names) != NULL)
        n_names++;
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, pieces_are_those_of_the_regular_expressions, 0, G_N_ELEMENTS(FAMILIES));
    tcase_add_test(tc, known_splits);
    tcase_add_loop_test(tc, any_bytes_are_covered_once, 0, n_names);
    tcase_add_loop_test(tc, long_runs_take_linear_time, 0, G_N_ELEMENTS(FAMILIES));
    tcase_add_test(tc, names_are_found_and_others_are_not);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
