/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spin.h"

#include "mf_test.h"

enum { LEAST = 4, MOST = 100 };

static int64_t next_limit(mf_spin *s)
{
    return mf_spin_limit(s, LEAST, MOST);
}

MF_TEST(spin_useless_polls_become_fewer)
{
    mf_spin s = { 0 };

    T_EQ(next_limit(&s), MOST); /* the first try */
    mf_spin_learn(&s, 30, true);
    T_EQ(next_limit(&s), 60);
    mf_spin_learn(&s, 60, false);
    T_EQ(next_limit(&s), 30);
    for (int i = 0; i < 10; i++) {
        mf_spin_learn(&s, 30, false);
        (void)next_limit(&s);
    }
    T_EQ(next_limit(&s), LEAST);
}

MF_TEST(spin_polls_that_sufficed_are_doubled_up_to_the_maximum)
{
    mf_spin s = { 0 };

    (void)next_limit(&s);
    mf_spin_learn(&s, 20, true);
    T_EQ(next_limit(&s), 40);
    mf_spin_learn(&s, 3, true); /* a short wait teaches nothing */
    T_EQ(next_limit(&s), 40);
    mf_spin_learn(&s, 90, true);
    T_EQ(next_limit(&s), MOST);
}

MF_TEST(spin_after_failures_the_maximum_is_tried_again)
{
    mf_spin s = { 0 };
    int tries = 0;

    for (int i = 0; i < 320; i++) {
        const int64_t limit = next_limit(&s);

        tries += limit == MOST;
        mf_spin_learn(&s, limit, false);
    }
    T_EQ(tries, 10);
}
