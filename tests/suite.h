/* SPDX-License-Identifier: MIT */
/* The main function that every suite shares: run the cases, and fail the program if one failed. */
#pragma once

#include <check.h>
#include <stdlib.h>

static inline int
sluice_test_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int n_failed;

    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
