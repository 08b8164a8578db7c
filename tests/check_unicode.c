/* SPDX-License-Identifier: MIT */
/* Classes of characters, and UTF-8 in every state. */
#include "config.h"

#include <glib.h>
#include <string.h>

#include "src/text/unicode.h"
#include "tests/suite.h"

START_TEST(classes_are_those_of_unicode_16)
{
    static const struct {
        uint32_t c, class;
    } cases[] = {
        {'A', SLUICE_UNICODE_LU},           {'z', SLUICE_UNICODE_LL},
        {0x1C5, SLUICE_UNICODE_LT},         {0x2B0, SLUICE_UNICODE_LM},
        {0x4E00, SLUICE_UNICODE_LO},        {0x301, SLUICE_UNICODE_MARK},
        {0x903, SLUICE_UNICODE_MARK},       {0x20DD, SLUICE_UNICODE_MARK},
        {'7', SLUICE_UNICODE_NUMBER},       {0x2167, SLUICE_UNICODE_NUMBER},
        {0xBD, SLUICE_UNICODE_NUMBER},      {'_', SLUICE_UNICODE_PUNCTUATION},
        {0xAB, SLUICE_UNICODE_PUNCTUATION}, {'$', SLUICE_UNICODE_SYMBOL},
        {'^', SLUICE_UNICODE_SYMBOL},       {0x1F600, SLUICE_UNICODE_SYMBOL},
        {0x200B, SLUICE_UNICODE_OTHER},     {0, SLUICE_UNICODE_OTHER},
        {0xE000, SLUICE_UNICODE_OTHER},     {0xD800, SLUICE_UNICODE_OTHER},
        {0x10FFFF, SLUICE_UNICODE_OTHER},   {0x110000, SLUICE_UNICODE_OTHER},
        {UINT32_MAX, SLUICE_UNICODE_OTHER}, {0x10D50, SLUICE_UNICODE_LU}, /* Garay, new in 16.0 */
        {0x20C1, SLUICE_UNICODE_OTHER}, /* a sign that only 17.0 has */
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        ck_assert_msg(sluice_unicode_class(cases[i].c) == cases[i].class, "U+%04X", cases[i].c);
}
END_TEST

/* Counts as the regular expressions of `tokenizers` 0.23.3 have them. */
START_TEST(each_class_has_its_number_of_characters)
{
    static const struct {
        uint32_t class;
        int n;
    } cases[] = {
        {SLUICE_UNICODE_LU, 1858},         {SLUICE_UNICODE_LL, 2258},
        {SLUICE_UNICODE_LT, 31},           {SLUICE_UNICODE_LM, 404},
        {SLUICE_UNICODE_LO, 136477},       {SLUICE_UNICODE_LETTER, 141028},
        {SLUICE_UNICODE_MARK, 2501},       {SLUICE_UNICODE_NUMBER, 1911},
        {SLUICE_UNICODE_PUNCTUATION, 855}, {SLUICE_UNICODE_SYMBOL, 8514},
        {SLUICE_UNICODE_SPACE, 25},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        int n = 0;
        for (uint32_t c = 0; c < 0x110000; c++)
            n += (sluice_unicode_class(c) & cases[i].class) != 0;
        ck_assert_int_eq(n, cases[i].n);
    }
}
END_TEST

START_TEST(white_space_is_the_unicode_property)
{
    static const uint32_t spaces[] = {9,      10,     11,     12,     13,     32,     0x85,
                                      0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
                                      0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028,
                                      0x2029, 0x202F, 0x205F, 0x3000};

    for (size_t i = 0; i < G_N_ELEMENTS(spaces); i++)
        ck_assert_uint_eq(sluice_unicode_class(spaces[i]), SLUICE_UNICODE_SPACE);
}
END_TEST

START_TEST(every_character_decodes_to_itself)
{
    for (uint32_t c = 0; c < 0x110000; c++) {
        char bytes[8];
        size_t n_used, n_bytes;
        bool is_prefix, is_good;
        if (c >= 0xD800 && c < 0xE000)
            continue;
        n_bytes = (size_t) g_unichar_to_utf8(c, bytes);
        is_good = sluice_utf8_decode((uint8_t *) bytes, n_bytes, &n_used) == c && n_used == n_bytes;
        for (size_t n = 1; n < n_bytes; n++)
            is_good =
                is_good && sluice_utf8_check((uint8_t *) bytes, n, &is_prefix) == 0 && is_prefix &&
                sluice_utf8_decode((uint8_t *) bytes, n, &n_used) == SLUICE_UNICODE_REPLACEMENT &&
                n_used == 1;
        if (!is_good)
            ck_abort_msg("U+%04X", c);
    }
}
END_TEST

/* All sequences of three bytes that do not begin in ASCII, against GLib's own validation. */
START_TEST(what_is_valid_is_what_glib_says)
{
    for (uint32_t v = 0x800000; v < 0x1000000; v++) {
        uint8_t bytes[4] = {(uint8_t) (v >> 16), (uint8_t) (v >> 8), (uint8_t) v, 0};
        bool is_prefix;
        size_t length = sluice_utf8_check(bytes, 3, &is_prefix);
        gunichar c = g_utf8_get_char_validated((const char *) bytes, 3);
        /* GLib takes four bytes that begin well for unfinished even if their range is wrong. */
        bool is_valid = c != (gunichar) -1 && c != (gunichar) -2;
        if (is_valid != (length > 0) || (is_prefix && c != (gunichar) -2))
            ck_abort_msg("%06X", v);
    }
}
END_TEST

START_TEST(overlong_forms_and_surrogates_cannot_be_completed)
{
    static const char *const broken[] = {"\xC0",     "\xC1",     "\xE0\x80", "\xE0\x9F",
                                         "\xED\xA0", "\xF0\x8F", "\xF4\x90", "\xF5",
                                         "\xFF",     "\x80",     "\xBF"};
    bool is_prefix;

    for (size_t i = 0; i < G_N_ELEMENTS(broken); i++) {
        ck_assert_uint_eq(
            sluice_utf8_check((const uint8_t *) broken[i], strlen(broken[i]), &is_prefix), 0);
        ck_assert(!is_prefix);
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("unicode");
    TCase *tc = tcase_create("classes");

    tcase_add_test(tc, classes_are_those_of_unicode_16);
    tcase_add_test(tc, each_class_has_its_number_of_characters);
    tcase_add_test(tc, white_space_is_the_unicode_property);
    suite_add_tcase(suite, tc);
    tc = tcase_create("utf8");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_character_decodes_to_itself);
    tcase_add_test(tc, what_is_valid_is_what_glib_says);
    tcase_add_test(tc, overlong_forms_and_surrogates_cannot_be_completed);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
