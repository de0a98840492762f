/* SPDX-License-Identifier: Apache-2.0 */
/* kills.c - a killed or stalled member unblocks all others, in every kind of group.
 * tests/comm/kills.c repeats this more often. */
#include "mf_test.h"
#include "unit/collective/kill_round.h"

#include <stdio.h>

MF_TEST_TIMEOUT(comm_a_member_that_is_killed_is_named_by_all_others_in_every_kind_of_group, 120)
{
    for (int kind = 0; kind < KILL_KINDS; kind++) {
        const kill_round r = { .kind = kind,
                               .tasks = 4,
                               .victim = kind % 4,
                               .after_us = 1000 + 1700 * kind,
                               .deadline_ms = 20000 };
        double ms;

        T_TRUE(kill_one(&r, &ms));
        T_TRUE(ms < 10000); /* the deadline is not needed */
    }
}

MF_TEST_TIMEOUT(comm_a_stalled_member_is_named_by_all_others_in_every_kind_of_group, 120)
{
    for (int kind = 0; kind < KILL_KINDS; kind++) {
        const kill_round r = { .kind = kind,
                               .tasks = 4,
                               .victim = (kind + 1) % 4,
                               .stop = true,
                               .after_us = 500 + 1300 * kind,
                               .deadline_ms = 1500 };
        double ms;

        T_TRUE(kill_one(&r, &ms));
    }
}
