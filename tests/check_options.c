/* SPDX-License-Identifier: MIT */
/* The command line: what is taken, what is refused and in which words, and the texts made from
 * the same table. */
#include "config.h"

#include "src/cli/option-docs.h"
#include "src/core/error.h"
#include "tests/suite.h"

#include <string.h>

/* Parses words separated by '|' for @command. */
static gboolean
parse(SluiceOptions *options, SluiceCommandId command, const char *words, GError **error)
{
    g_auto(GStrv) args = g_strsplit(words, "|", -1);

    sluice_options_init(options, command);
    return sluice_options_parse(options, (int) g_strv_length(args), args, error);
}

static void
expect_error(SluiceCommandId command, const char *words, const char *message)
{
    g_auto(SluiceOptions) options = {0};
    g_autoptr(GError) error = NULL;

    ck_assert_msg(!parse(&options, command, words, &error), "%s was taken", words);
    ck_assert(g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT));
    ck_assert_str_eq(error->message, message);
}

START_TEST(every_form_sets_its_field)
{
    g_auto(SluiceOptions) o = {0};
    g_autoptr(GError) error = NULL;

    ck_assert(parse(&o, SLUICE_COMMAND_RUN,
                    "-m|a.gguf|-p|hi|-n|7|-c|4096|-t|3|-tb|4|-b|64|-ub|32|-s|42|-sys|be kind|"
                    "--temp|0.5|--top-k|9|-ctk|q8_0|-ctv|q4_0|-fa|--no-mmap|--stop|x|-r|yy|"
                    "-no-cnv|-v|-v|-q|--think|off|--ignore-eos|--mlock",
                    &error));
    ck_assert_str_eq(sluice_options_model(&o), "a.gguf");
    ck_assert_str_eq(o.prompt, "hi");
    ck_assert_int_eq(o.n_predict, 7);
    ck_assert_int_eq(o.engine.n_ctx, 4096);
    ck_assert_int_eq(o.engine.n_threads, 3);
    ck_assert_int_eq(o.engine.n_threads_batch, 4);
    ck_assert_int_eq(o.engine.n_batch, 64);
    ck_assert_int_eq(o.engine.n_ubatch, 32);
    ck_assert_uint_eq(o.sampler.seed, 42);
    ck_assert_str_eq(o.system, "be kind");
    ck_assert(o.sampler.temperature == 0.5f);
    ck_assert_int_eq(o.sampler.top_k, 9);
    ck_assert_int_eq(o.engine.type_k, SLUICE_KV_Q8_0);
    ck_assert_int_eq(o.engine.type_v, SLUICE_KV_Q4_0);
    ck_assert_int_eq(o.engine.load_mode, SLUICE_LOAD_MEMORY);
    ck_assert_int_eq(o.engine.lock_memory, TRUE);
    ck_assert_uint_eq(o.stops->len, 2);
    ck_assert_str_eq(g_ptr_array_index(o.stops, 1), "yy");
    ck_assert_int_eq(o.raw, 1);
    ck_assert_int_eq(o.verbose, 2);
    ck_assert_int_eq(o.quiet, 1);
    ck_assert_int_eq(o.thinking, SLUICE_THINKING_OFF);
    ck_assert_int_eq(o.sampler.ignore_end, TRUE);
}
END_TEST

START_TEST(options_and_arguments_mix_until_two_dashes)
{
    g_auto(SluiceOptions) o = {0};

    ck_assert(parse(&o, SLUICE_COMMAND_RUN, "a.gguf|--n-predict=5|why|-|--|-n|9", NULL));
    ck_assert_int_eq(o.n_predict, 5);
    ck_assert_uint_eq(o.args->len, 5);
    ck_assert_str_eq(g_ptr_array_index(o.args, 0), "a.gguf");
    ck_assert_str_eq(g_ptr_array_index(o.args, 2), "-");
    ck_assert_str_eq(g_ptr_array_index(o.args, 4), "9");
}
END_TEST

START_TEST(a_value_may_look_like_an_option_behind_an_equals_sign)
{
    g_auto(SluiceOptions) o = {0};

    ck_assert(parse(&o, SLUICE_COMMAND_RUN, "--prompt=-n|-p=--a=b", NULL));
    ck_assert_str_eq(o.prompt, "--a=b");
    expect_error(SLUICE_COMMAND_RUN, "-p|-n",
                 "option '--prompt' needs a value (TEXT), and '-n' is an option; write it behind "
                 "'=' if it is meant");
    expect_error(SLUICE_COMMAND_RUN, "-p", "option '--prompt' needs a value (TEXT)");
    expect_error(SLUICE_COMMAND_RUN, "--raw=1", "option '--raw' takes no value, but has '1'");
}
END_TEST

START_TEST(an_optional_value_is_taken_only_if_it_is_one)
{
    g_auto(SluiceOptions) with = {0};
    g_auto(SluiceOptions) without = {0};

    ck_assert(parse(&with, SLUICE_COMMAND_RUN, "-fa|auto|hello", NULL));
    ck_assert_int_eq(with.flash_attn, 1);
    ck_assert_uint_eq(with.args->len, 1);
    ck_assert(parse(&without, SLUICE_COMMAND_RUN, "-fa|hello", NULL));
    ck_assert_uint_eq(without.args->len, 1);
    expect_error(SLUICE_COMMAND_RUN, "-fa=off",
                 "option '--flash-attn' is 'off', must be one of on, auto, 1");
}
END_TEST

START_TEST(absurd_numbers_are_refused_with_value_and_limit)
{
    static const char *const wrong[] = {"5000",
                                        "-1",
                                        "",
                                        " 4",
                                        "4 ",
                                        "0x10",
                                        "1e2",
                                        "four",
                                        "4.5",
                                        "99999999999999999999999999",
                                        "-9223372036854775809",
                                        "+",
                                        "--"};

    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autofree char *words = g_strdup_printf("-t=%s", wrong[i]);
        g_autofree char *message = g_strdup_printf(
            "option '--threads' is '%s', must be a whole number from 0 to 1024", wrong[i]);

        expect_error(SLUICE_COMMAND_RUN, words, message);
    }
}
END_TEST

START_TEST(numbers_that_are_not_numbers_are_refused)
{
    static const char *const wrong[] = {"nan", "-nan", "inf", "1e999", "-0.5", "101", "0x1p2", ""};

    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autofree char *words = g_strdup_printf("--temp=%s", wrong[i]);
        g_autofree char *message =
            g_strdup_printf("option '--temp' is '%s', must be a number from 0 to 100", wrong[i]);

        expect_error(SLUICE_COMMAND_RUN, words, message);
    }
    expect_error(SLUICE_COMMAND_RUN, "--top-p|1.01",
                 "option '--top-p' is '1.01', must be a number from 0 to 1");
}
END_TEST

START_TEST(seeds_span_32_bits_and_minus_one_draws)
{
    g_auto(SluiceOptions) o = {0};
    g_auto(SluiceOptions) drawn = {0};

    ck_assert(parse(&o, SLUICE_COMMAND_RUN, "--seed|4294967294", NULL));
    ck_assert_uint_eq(o.sampler.seed, 4294967294u);
    ck_assert(parse(&drawn, SLUICE_COMMAND_RUN, "-s|-1", NULL));
    ck_assert_uint_eq(drawn.sampler.seed, SLUICE_SEED_RANDOM);
    expect_error(SLUICE_COMMAND_RUN, "-s|You are a pirate.",
                 "option '--seed' is 'You are a pirate.', must be a whole number from -1 to "
                 "4294967295");
}
END_TEST

START_TEST(unknown_options_name_what_was_meant)
{
    expect_error(SLUICE_COMMAND_RUN, "--treads|4",
                 "'--treads' is not an option of 'sluice run'; did you mean '--threads'?");
    expect_error(SLUICE_COMMAND_RUN, "--tmep=1",
                 "'--tmep' is not an option of 'sluice run'; did you mean '--temp'?");
    expect_error(SLUICE_COMMAND_RUN, "-x",
                 "'-x' is not an option of 'sluice run'; see 'sluice help run'");
    expect_error(SLUICE_COMMAND_RUN, "--chunks|3",
                 "'--chunks' is an option of 'sluice perplexity', not of 'sluice run'");
    expect_error(SLUICE_COMMAND_BENCH, "-ngl|99",
                 "'-ngl' is not an option of 'sluice bench': this version computes on the "
                 "processor alone; leave it out");
    expect_error(SLUICE_COMMAND_RUN, "--\x1b[31m",
                 "'--\\x1B[31m' is not an option of 'sluice run'; see 'sluice help run'");
}
END_TEST

START_TEST(lists_take_ranges_steps_and_factors)
{
    g_auto(SluiceOptions) o = {0};
    static const int32_t prompts[] = {5, 128, 256, 384, 512, 0};
    static const int32_t threads[] = {1, 2, 4, 8};

    ck_assert(parse(&o, SLUICE_COMMAND_BENCH,
                    "-p|5,128-512+128|-p|0|-t|1-8*2|-pg|512,128|-pg|0,1|-ctk|f16,q8_0|-mmp|0,1|-d|"
                    "7-9",
                    NULL));
    ck_assert_uint_eq(o.prompts->len, G_N_ELEMENTS(prompts));
    ck_assert_mem_eq(o.prompts->data, prompts, sizeof prompts);
    ck_assert_uint_eq(o.threads->len, G_N_ELEMENTS(threads));
    ck_assert_mem_eq(o.threads->data, threads, sizeof threads);
    ck_assert_uint_eq(o.depths->len, 3);
    ck_assert_uint_eq(o.pgs->len, 2);
    ck_assert_int_eq(g_array_index(o.pgs, SluicePromptGen, 0).n_prompt, 512);
    ck_assert_int_eq(g_array_index(o.pgs, SluicePromptGen, 0).n_gen, 128);
    ck_assert_uint_eq(o.types_k->len, 2);
    ck_assert_int_eq(g_array_index(o.types_k, int, 1), SLUICE_KV_Q8_0);
    ck_assert_uint_eq(o.mmaps->len, 2);
}
END_TEST

START_TEST(wrong_lists_are_refused)
{
    static const char *const wrong[] = {"",      ",",     "1,",         "4-2",    "1-4*1", "0-8*2",
                                        "1-4+0", "1-4/2", "1-16777217", "1-9999", "1,x"};

    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autofree char *words = g_strdup_printf("-p=%s", wrong[i]);
        g_auto(SluiceOptions) o = {0};
        g_autoptr(GError) error = NULL;

        ck_assert_msg(!parse(&o, SLUICE_COMMAND_BENCH, words, &error), "%s was taken", words);
        ck_assert(g_error_matches(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT));
    }
    expect_error(SLUICE_COMMAND_BENCH, "-pg|512",
                 "option '-pg' is '512', must be two numbers P,G, not both 0, from 0 to 16777216");
    expect_error(SLUICE_COMMAND_BENCH, "-o|xml",
                 "option '--output' is 'xml', must be one of md, csv, json, jsonl");
    expect_error(SLUICE_COMMAND_RUN,
                 "--stop=", "option '--stop' is '', must be at least one character long");
}
END_TEST

START_TEST(only_given_values_reach_the_sampler)
{
    g_auto(SluiceOptions) o = {0};
    SluiceSamplerParams params = {.temperature = 0.25f, .top_k = 12, .seed = 5, .order = "top_k"};

    ck_assert(parse(&o, SLUICE_COMMAND_RUN, "--top-k|0|--min-p|0.5|--ignore-eos", NULL));
    sluice_options_sampler(&o, &params);
    ck_assert(params.temperature == 0.25f);
    ck_assert_int_eq(params.top_k, 0);
    ck_assert(params.min_p == 0.5f);
    ck_assert_uint_eq(params.seed, 5);
    ck_assert_int_eq(params.ignore_end, TRUE);
    ck_assert_str_eq(params.order, "top_k");
    ck_assert(sluice_options_given(&o, "--min-p"));
    ck_assert(!sluice_options_given(&o, "--temperature"));
}
END_TEST

/* The table itself: a form that two rows of a command share would hide one of them. */
START_TEST(no_form_has_two_meanings_in_a_command)
{
    for (size_t c = 0; c < sluice_command_table_n; c++) {
        g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

        for (size_t i = 0; i < sluice_option_table_n; i++) {
            g_auto(GStrv) forms = g_strsplit(sluice_option_table[i].forms, " ", -1);

            if ((sluice_option_table[i].commands & sluice_command_table[c].id) == 0)
                continue;
            for (char **form = forms; *form != NULL; form++)
                ck_assert_msg(g_hash_table_add(seen, g_strdup(*form)), "%s twice in %s", *form,
                              sluice_command_table[c].name);
        }
    }
}
END_TEST

START_TEST(every_row_is_complete)
{
    for (size_t i = 0; i < sluice_option_table_n; i++) {
        const SluiceOption *row = &sluice_option_table[i];
        bool is_flag = row->kind == SLUICE_OPTION_FLAG || row->kind == SLUICE_OPTION_COUNT;
        bool is_choice = row->kind == SLUICE_OPTION_CHOICE || row->kind == SLUICE_OPTION_CHOICES;

        ck_assert_msg((row->value == NULL) == is_flag, "%s", row->forms);
        ck_assert_msg((row->choices != NULL) == is_choice, "%s", row->forms);
        ck_assert_msg(g_str_has_suffix(row->help, "."), "%s", row->forms);
        ck_assert_msg(row->min <= row->max, "%s", row->forms);
    }
}
END_TEST

START_TEST(all_texts_have_every_option)
{
    g_autofree char *completion = sluice_option_docs_completion();

    for (size_t c = 0; c < sluice_command_table_n; c++) {
        const SluiceCommandInfo *command = &sluice_command_table[c];
        g_autofree char *help = sluice_option_docs_help(command);
        g_autofree char *man = sluice_option_docs_man(command);

        for (size_t i = 0; i < sluice_option_table_n; i++) {
            g_auto(GStrv) forms = g_strsplit(sluice_option_table[i].forms, " ", -1);

            if ((sluice_option_table[i].commands & command->id) == 0)
                continue;
            for (char **form = forms; *form != NULL; form++) {
                g_autofree char *bold = g_strdup_printf("*%s*", *form);

                ck_assert_msg(strstr(help, *form) != NULL, "%s: %s", command->name, *form);
                ck_assert_msg(strstr(man, bold) != NULL, "%s: %s", command->name, *form);
                ck_assert_msg(strstr(completion, *form) != NULL, "%s", *form);
            }
        }
    }
}
END_TEST

START_TEST(help_keeps_to_80_columns)
{
    for (size_t c = 0; c < sluice_command_table_n; c++) {
        g_autofree char *help = sluice_option_docs_help(&sluice_command_table[c]);
        g_auto(GStrv) lines = g_strsplit(help, "\n", -1);

        for (char **line = lines; *line != NULL; line++)
            ck_assert_msg(strlen(*line) <= 80, "%s", *line);
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("options");
    TCase *parser = tcase_create("parser");
    TCase *table = tcase_create("table");

    tcase_add_test(parser, every_form_sets_its_field);
    tcase_add_test(parser, options_and_arguments_mix_until_two_dashes);
    tcase_add_test(parser, a_value_may_look_like_an_option_behind_an_equals_sign);
    tcase_add_test(parser, an_optional_value_is_taken_only_if_it_is_one);
    tcase_add_test(parser, absurd_numbers_are_refused_with_value_and_limit);
    tcase_add_test(parser, numbers_that_are_not_numbers_are_refused);
    tcase_add_test(parser, seeds_span_32_bits_and_minus_one_draws);
    tcase_add_test(parser, unknown_options_name_what_was_meant);
    tcase_add_test(parser, lists_take_ranges_steps_and_factors);
    tcase_add_test(parser, wrong_lists_are_refused);
    tcase_add_test(parser, only_given_values_reach_the_sampler);
    suite_add_tcase(suite, parser);
    tcase_add_test(table, no_form_has_two_meanings_in_a_command);
    tcase_add_test(table, every_row_is_complete);
    tcase_add_test(table, all_texts_have_every_option);
    tcase_add_test(table, help_keeps_to_80_columns);
    suite_add_tcase(suite, table);
    return sluice_test_run(suite);
}
