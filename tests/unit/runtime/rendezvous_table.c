/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous_table.c - where values of a step wait. */
#include "runtime/rendezvous_table.h"

#include "mf_test.h"

static mf_status fail_and_end(mf_rendezvous_tables *rooms)
{
    const mf_status st = MF_FAIL(MF_UNAVAILABLE, "worker 2 is gone");

    mf_rendezvous_tables_end(rooms, 7);
    return st;
}

MF_TEST(runtime_the_end_of_a_step_keeps_the_error_that_ended_it)
{
    mf_rendezvous_tables *rooms;
    mf_rendezvous_table *room;

    T_OK(mf_rendezvous_tables_new(&rooms));
    T_OK(mf_rendezvous_tables_enter(rooms, 7, &room));
    T_FAILS(MF_UNAVAILABLE, "worker 2 is gone", fail_and_end(rooms));
    mf_rendezvous_table_leave(room);
    T_FAILS(MF_CANCELLED, "the step has ended", mf_rendezvous_tables_enter(rooms, 7, &room));
    mf_rendezvous_tables_free(rooms);
}
