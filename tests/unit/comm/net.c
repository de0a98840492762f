/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - tasks of one host meet, exchange messages, and learn of each other's end. */
#include "comm/net.h"

#include "mf_test.h"
#include "unit/comm/talk.h"

MF_TEST(comm_net_tasks_meet_with_addresses_or_with_a_place_to_meet)
{
    way w = { 0 };

    way_init(&w, "local", 5);
    talk_meet(&w);
}

MF_TEST(comm_net_tasks_that_do_not_fit_together_are_refused_with_both_sides_named)
{
    talk_refuse("local");
}

MF_TEST(comm_net_who_gives_up_tells_all_others_why)
{
    talk_give_up("local");
}

MF_TEST(comm_net_a_task_that_is_killed_is_named_at_once)
{
    way w = { 0 };

    way_init(&w, "local", 3);
    talk_kill(&w);
}
