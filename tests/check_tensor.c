/* SPDX-License-Identifier: MIT */
/* The element types: their ids, names and sizes. */
#include "config.h"

#include "src/core/error.h"
#include "src/core/tensor.h"
#include "tests/suite.h"

START_TEST(unknown_and_withdrawn_ids_have_no_type)
{
    static const int ids[] = {-1, 4, 5, 9, 15, 31, 32, 33, 36, 37, 38, 43, 137, G_MAXINT};

    for (size_t i = 0; i < G_N_ELEMENTS(ids); i++)
        ck_assert_ptr_null(sluice_dtype_info((SluiceDtype) ids[i]));
}
END_TEST

START_TEST(row_bytes_counts_whole_blocks)
{
    size_t n_bytes = 7;

    ck_assert(sluice_dtype_row_bytes(SLUICE_DTYPE_Q4_K, 4096, &n_bytes));
    ck_assert_uint_eq(n_bytes, 4096 / 256 * 144);
    ck_assert(!sluice_dtype_row_bytes(SLUICE_DTYPE_Q4_K, 4095, &n_bytes));
    ck_assert(!sluice_dtype_row_bytes(SLUICE_DTYPE_F64, INT64_MAX, &n_bytes));
    ck_assert_uint_eq(n_bytes, 4096 / 256 * 144);
}
END_TEST

START_TEST(names_lead_back_to_types)
{
    for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
        const SluiceDtypeInfo *info = sluice_dtype_info((SluiceDtype) i);
        if (info != NULL)
            ck_assert_int_eq(sluice_dtype_from_name(info->name), i);
    }
    ck_assert_int_eq(sluice_dtype_from_name("q4_k"), SLUICE_DTYPE_Q4_K);
    ck_assert_int_eq(sluice_dtype_from_name("q9_k"), -1);
}
END_TEST

START_TEST(control_bytes_never_reach_a_message)
{
    g_autofree char *text = sluice_error_printable("a\x1b[31m\xff\u00e9", -1);

    ck_assert_str_eq(text, "a\\x1B[31m\\xFF\u00e9");
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("tensor");
    TCase *tc = tcase_create("dtypes");

    tcase_add_test(tc, unknown_and_withdrawn_ids_have_no_type);
    tcase_add_test(tc, row_bytes_counts_whole_blocks);
    tcase_add_test(tc, names_lead_back_to_types);
    tcase_add_test(tc, control_bytes_never_reach_a_message);
    suite_add_tcase(suite, tc);
    return sluice_test_run(suite);
}
