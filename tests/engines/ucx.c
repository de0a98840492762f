/* SPDX-License-Identifier: Apache-2.0 */
/* ucx.c - the transport on UCX. */
#include "mf_test.h"
#include "unit/net/transport_conform.h"

#include <stdio.h>

MF_TEST(comm_ucx_tasks_connect_by_addresses_or_a_rendezvous_address)
{
    way w = { 0 };

    way_init(&w, "ucx", 5);
    talk_meet(&w);
}

MF_TEST(comm_ucx_incompatible_tasks_are_refused_and_both_are_named)
{
    talk_refuse("ucx");
}

MF_TEST(comm_ucx_an_abort_sends_its_reason_to_all_tasks)
{
    talk_give_up("ucx");
}

MF_TEST(comm_ucx_a_task_that_is_killed_is_named_at_once)
{
    way w = { 0 };

    way_init(&w, "ucx", 3);
    talk_kill(&w);
}

MF_TEST(comm_ucx_other_addresses_than_loopback_must_be_trusted)
{
    way w = { 0 };
    task t = { .n = 2, .known = true, .way = &w };

    way_init(&w, "ucx", 2);
    (void)snprintf(w.addresses[0], sizeof w.addresses[0], "0.0.0.0:0");
    T_FAILS(MF_FAILED_PRECONDITION, "does not encrypt", open_task(&t));
    w.security[0].trusted = true;
    t.timeout_ns = 100000000;
    T_FAILS(MF_DEADLINE_EXCEEDED, "worker 1", open_task(&t));
}

MF_TEST(comm_ucx_carries_100_megabytes)
{
    way w = { 0 };

    way_init(&w, "ucx", 2);
    talk_big(&w);
}

MF_TEST(comm_ucx_carries_many_small_messages_in_order)
{
    talk_small("ucx");
}

MF_TEST(comm_ucx_a_peer_that_stops_reading_costs_neither_memory_nor_the_deadline)
{
    talk_stop_reading("ucx");
}
