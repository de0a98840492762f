/* SPDX-License-Identifier: Apache-2.0 */
/* rooms.c - where values of a step wait. */
#include "mf_test.h"
#include "runtime/room.h"

static mf_status fail_and_end(mf_rooms *rooms)
{
    const mf_status st = MF_FAIL(MF_UNAVAILABLE, "worker 2 is gone");

    mf_rooms_end(rooms, 7);
    return st;
}

MF_TEST(runtime_the_end_of_a_step_keeps_the_error_that_ended_it)
{
    mf_rooms *rooms;
    mf_room *room;

    T_OK(mf_rooms_new(&rooms));
    T_OK(mf_rooms_enter(rooms, 7, &room));
    T_FAILS(MF_UNAVAILABLE, "worker 2 is gone", fail_and_end(rooms));
    mf_room_leave(room);
    T_FAILS(MF_CANCELLED, "the step is over", mf_rooms_enter(rooms, 7, &room));
    mf_rooms_free(rooms);
}
