/* SPDX-License-Identifier: Apache-2.0 */
/* red.c - tests that fail, crash, hang and exit early, to prove that the runner reports it. Not
 * part of the suite: tests/runner/selftest.sh runs this program and checks its output. */
#include "mf_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

MF_TEST(red_passes)
{
    puts("output of a test that passes");
    T_EQ(2 + 2, 4);
    T_NEAR(0.1 + 0.2, 0.3, 1e-15);
    T_STREQ("a", "a");
    T_OK(MF_OK);
}

MF_TEST(red_fails_on_integers)
{
    puts("output of a test that fails");
    T_EQ(2 + 2, 5);
}

MF_TEST(red_fails_on_floats)
{
    T_EQ_F(0.1 + 0.2, 0.3);
}

MF_TEST(red_fails_on_strings)
{
    T_STREQ("left", NULL);
}

MF_TEST(red_fails_on_a_success)
{
    T_FAILS(MF_INVALID_ARGUMENT, "some words", MF_OK);
}

MF_TEST(red_crashes)
{
    raise(SIGSEGV);
}

MF_TEST_TIMEOUT(red_hangs, 1)
{
    for (;;)
        pause();
}

MF_TEST(red_leaves_by_exit)
{
    exit(0);
}

MF_TEST(red_skips)
{
    T_SKIP("nothing to see");
}
