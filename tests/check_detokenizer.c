/* SPDX-License-Identifier: MIT */
/* Text that arrives token by token. */
#include "config.h"

#include <string.h>

#include "src/text/detokenizer.h"
#include "tests/suite.h"
#include "tests/tokenizer_data.h"

/* One token per byte: token 0 to 255; 256 is a control token, 257 a user-defined one. */
static SluiceTokenizer *
bytes_tokenizer(void)
{
    GString *text = g_string_new("= model llama\n= add_space_prefix 0\n");
    g_auto(SluiceVocabData) data;
    SluiceTokenizer *tokenizer;

    for (int b = 0; b < 256; b++)
        g_string_append_printf(text, "6 <0x%02X> 0\n", (unsigned) b);
    g_string_append(text, "3 <|end|> 0\n4 \xC3\xA9 0\n");
    test_vocab_parse(text->str, text->len, &data);
    g_string_free(text, TRUE);
    tokenizer = sluice_tokenizer_new_from_data(&data, NULL);
    ck_assert_ptr_nonnull(tokenizer);
    return tokenizer;
}

static bool
is_utf8(const char *text, gsize n_bytes)
{
    for (gsize i = 0; i < n_bytes; i++)
        if (text[i] == '\0')
            return is_utf8(text, i) && is_utf8(text + i + 1, n_bytes - i - 1);
    return g_utf8_validate(text, (gssize) n_bytes, NULL);
}

/* Pushes @bytes one by one and writes what came out, each push in brackets, then the flush. */
static char *
stream(SluiceTokenizer *tokenizer, const char *bytes, size_t n)
{
    g_autoptr(SluiceDetokenizer) detokenizer =
        sluice_detokenizer_new(tokenizer, SLUICE_DECODE_PLAIN);
    GString *out = g_string_new(NULL);
    const char *text;
    gsize n_bytes;

    for (size_t i = 0; i < n; i++) {
        text = sluice_detokenizer_push(detokenizer, (uint8_t) bytes[i], &n_bytes);
        ck_assert(is_utf8(text, n_bytes));
        g_string_append_printf(out, "[%.*s]", (int) n_bytes, text);
    }
    text = sluice_detokenizer_flush(detokenizer, &n_bytes);
    g_string_append_len(out, text, (gssize) n_bytes);
    return g_string_free(out, FALSE);
}

START_TEST(only_whole_characters_come_out)
{
#define BAD "\xEF\xBF\xBD"
    static const struct {
        const char *bytes, *expected;
    } cases[] = {
        {"ab", "[a][b]"},
        {"\xC3\xA9", "[][\xC3\xA9]"},
        {"\xF0\x9F\xA6\x99.", "[][][][\xF0\x9F\xA6\x99][.]"},
        {"\xE4\xB8", "[][]" BAD},
        {"\xF0\x9F\xA6", "[][][]" BAD},
        {"\xC3x", "[][" BAD "x]"},
        {"\xE4\xB8x", "[][][" BAD "x]"},
        {"\x80\xFF", "[" BAD "][" BAD "]"},
        {"\xE0\x80\x80", "[][" BAD BAD "][" BAD "]"},
        {"\xED\xA0\x80", "[][" BAD BAD "][" BAD "]"},
        {"\xF4\x90\x80\x80", "[][" BAD BAD "][" BAD "][" BAD "]"},
        {"\xC3\xC3\xA9", "[][" BAD "][\xC3\xA9]"},
    };
    g_autoptr(SluiceTokenizer) tokenizer = bytes_tokenizer();

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *out = stream(tokenizer, cases[i].bytes, strlen(cases[i].bytes));
        ck_assert_str_eq(out, cases[i].expected);
    }
}
END_TEST

START_TEST(other_tokens_break_an_unfinished_character)
{
    g_autoptr(SluiceTokenizer) tokenizer = bytes_tokenizer();
    g_autoptr(SluiceDetokenizer) plain = sluice_detokenizer_new(tokenizer, SLUICE_DECODE_PLAIN);
    g_autoptr(SluiceDetokenizer) all =
        sluice_detokenizer_new(tokenizer, SLUICE_DECODE_SHOW_SPECIAL);
    gsize n_bytes;

    sluice_detokenizer_push(plain, 0xC3, &n_bytes);
    ck_assert_str_eq(sluice_detokenizer_push(plain, 257, &n_bytes), BAD "\xC3\xA9");
    ck_assert_str_eq(sluice_detokenizer_push(plain, 256, &n_bytes), "");
    ck_assert_uint_eq(n_bytes, 0);
    ck_assert_str_eq(sluice_detokenizer_push(all, 256, &n_bytes), "<|end|>");
    ck_assert_str_eq(sluice_detokenizer_push(all, 4096, &n_bytes), "");
    /* A flush leaves nothing behind. */
    sluice_detokenizer_push(all, 0xE4, &n_bytes);
    ck_assert_str_eq(sluice_detokenizer_flush(all, &n_bytes), BAD);
    ck_assert_str_eq(sluice_detokenizer_flush(all, &n_bytes), "");
    ck_assert_str_eq(sluice_detokenizer_push(all, 'x', &n_bytes), "x");
}
END_TEST

START_TEST(nul_bytes_pass)
{
    g_autoptr(SluiceTokenizer) tokenizer = bytes_tokenizer();
    g_autoptr(SluiceDetokenizer) detokenizer =
        sluice_detokenizer_new(tokenizer, SLUICE_DECODE_PLAIN);
    gsize n_bytes;
    const char *text = sluice_detokenizer_push(detokenizer, 0, &n_bytes);

    ck_assert_uint_eq(n_bytes, 1);
    ck_assert_int_eq(text[0], 0);
}
END_TEST

/* Tokens of real text end inside characters; the stream must come to the whole all the same. */
START_TEST(the_stream_is_the_text)
{
    static const char *const names[] = {"smollm", "qwen35", "gemma4", "spm-gemma"};
    g_auto(SluiceVocabData) data;
    g_autoptr(SluiceTokenizer) tokenizer = NULL;
    g_autoptr(SluiceDetokenizer) detokenizer = NULL;
    TestStrings strings;
    int n_held = 0;

    test_vocab_load(names[_i], &data);
    tokenizer = sluice_tokenizer_new_from_data(&data, NULL);
    detokenizer = sluice_detokenizer_new(tokenizer, SLUICE_DECODE_PLAIN);
    test_strings_load(&strings);
    for (size_t i = 0; i < strings.n; i++) {
        g_autoptr(GArray) ids = g_array_new(FALSE, FALSE, sizeof(int32_t));
        g_autoptr(GString) out = g_string_new(NULL);
        g_autofree char *whole = NULL;
        const char *text;
        gsize n_bytes, n_whole;
        ck_assert(sluice_tokenizer_encode(tokenizer, strings.texts[i], strings.n_bytes[i],
                                          SLUICE_ENCODE_PLAIN, NULL, 0, ids, NULL));
        for (guint k = 0; k < ids->len; k++) {
            text = sluice_detokenizer_push(detokenizer, g_array_index(ids, int32_t, k), &n_bytes);
            ck_assert(is_utf8(text, n_bytes));
            n_held += n_bytes == 0;
            g_string_append_len(out, text, (gssize) n_bytes);
        }
        text = sluice_detokenizer_flush(detokenizer, &n_bytes);
        ck_assert_uint_eq(n_bytes, 0);
        whole = sluice_tokenizer_decode(tokenizer, (const int32_t *) (gpointer) ids->data, ids->len,
                                        SLUICE_DECODE_PLAIN, &n_whole);
        ck_assert_uint_eq(out->len, n_whole);
        ck_assert_mem_eq(out->str, whole, n_whole);
    }
    ck_assert_int_gt(n_held, 100);
    test_strings_clear(&strings);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("detokenizer");
    TCase *tc = tcase_create("stream");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, only_whole_characters_come_out);
    tcase_add_test(tc, other_tokens_break_an_unfinished_character);
    tcase_add_test(tc, nul_bytes_pass);
    tcase_add_loop_test(tc, the_stream_is_the_text, 0, 4);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
