/* SPDX-License-Identifier: MIT */
/* Stop strings in text that arrives in pieces of any size. */
#include "config.h"

#include "src/cli/stop-match.h"
#include "tests/suite.h"

#include <string.h>

/* What is shown of @text if it arrives in pieces of @n_piece bytes. */
static char *
shown(const char *text, gsize n_piece, const char *const *stops, bool *has_stopped)
{
    SluiceStopMatch match;
    GString *out = g_string_new(NULL);
    gsize n_text = strlen(text);

    *has_stopped = false;
    sluice_stop_match_init(&match, stops, g_strv_length((char **) stops));
    for (gsize at = 0; at < n_text && !*has_stopped; at += n_piece) {
        *has_stopped = sluice_stop_match_push(&match, text + at, MIN(n_piece, n_text - at), out);
        /* Nothing that is shown may have to be taken back. */
        ck_assert(g_str_has_prefix(text, out->str));
    }
    sluice_stop_match_end(&match, out);
    sluice_stop_match_clear(&match);
    return g_string_free(out, FALSE);
}

static void
expect(const char *text, const char *expected, bool stops_here, const char *const *stops)
{
    for (gsize n_piece = 1; n_piece <= strlen(text) + 1; n_piece++) {
        bool has_stopped;
        g_autofree char *got = shown(text, n_piece, stops, &has_stopped);

        ck_assert_str_eq(got, expected);
        ck_assert_int_eq(has_stopped, stops_here);
    }
}

START_TEST(text_without_stop_strings_passes)
{
    static const char *const none[] = {NULL};

    expect("abc", "abc", false, none);
}
END_TEST

START_TEST(the_text_ends_in_front_of_the_stop_string)
{
    static const char *const stops[] = {"\nUser:", NULL};

    expect("Hello.\nUser: and more", "Hello.", true, stops);
    expect("\nUser:", "", true, stops);
    expect("a\nUse:\nUser", "a\nUse:\nUser", false, stops);
}
END_TEST

START_TEST(a_prefix_that_repeats_itself_is_followed)
{
    static const char *const stops[] = {"aab", NULL};

    expect("aaaab.", "aa", true, stops);
    expect("aaaa", "aaaa", false, stops);
}
END_TEST

START_TEST(the_first_of_several_stop_strings_counts)
{
    static const char *const stops[] = {"world", "lo", "xyz", NULL};

    expect("hello world", "hel", true, stops);
}
END_TEST

START_TEST(characters_of_several_bytes_are_matched_whole)
{
    static const char *const stops[] = {"€é", NULL};

    expect("10 €, 20 €é", "10 €, 20 ", true, stops);
}
END_TEST

START_TEST(what_could_become_a_stop_string_is_held_back)
{
    static const char *const stops[] = {"END", NULL};
    SluiceStopMatch match;
    g_autoptr(GString) out = g_string_new(NULL);

    sluice_stop_match_init(&match, stops, 1);
    ck_assert(!sluice_stop_match_push(&match, "the E", 5, out));
    ck_assert_str_eq(out->str, "the ");
    ck_assert(!sluice_stop_match_push(&match, "N", 1, out));
    ck_assert_str_eq(out->str, "the ");
    ck_assert(!sluice_stop_match_push(&match, "S", 1, out));
    ck_assert_str_eq(out->str, "the ENS");
    ck_assert(sluice_stop_match_push(&match, "EENDX", 5, out));
    ck_assert_str_eq(out->str, "the ENSE");
    ck_assert(sluice_stop_match_push(&match, "more", 4, out));
    ck_assert_str_eq(out->str, "the ENSE");
    sluice_stop_match_clear(&match);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("stops");
    TCase *tc = tcase_create("match");

    tcase_add_test(tc, text_without_stop_strings_passes);
    tcase_add_test(tc, the_text_ends_in_front_of_the_stop_string);
    tcase_add_test(tc, a_prefix_that_repeats_itself_is_followed);
    tcase_add_test(tc, the_first_of_several_stop_strings_counts);
    tcase_add_test(tc, characters_of_several_bytes_are_matched_whole);
    tcase_add_test(tc, what_could_become_a_stop_string_is_held_back);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
