/* SPDX-License-Identifier: Apache-2.0 */
/* ps_lane.c - see ps_lane.h. */
#include "job/ps_lane.h"

#include "base/clock.h"
#include "comm/segment.h"

#include <stdio.h>
#include <unistd.h>

/* A group of one has memory for itself and for the result: two halves. */
enum { MEMBERS = 1, PUSH = 0, REPLY = 1 };

void *mf_ps_lane_push(const mf_ps_lane *lane)
{
    return mf_segment_area(lane->memory, PUSH);
}

void *mf_ps_lane_reply(const mf_ps_lane *lane)
{
    return mf_segment_area(lane->memory, REPLY);
}

mf_status mf_ps_lane_make(mf_ps_lane *lane, int64_t room)
{
    char name[64];

    *lane = (mf_ps_lane){ .room = room };
    (void)snprintf(name, sizeof name, "/meshflow-%d-%016llx", (int)getpid(),
                   (unsigned long long)mf_random_seed());
    return mf_segment_create(name, MEMBERS, room, &lane->memory);
}

void mf_ps_lane_tell(const mf_ps_lane *lane, mf_buf *out)
{
    mf_buf_printf(out, "%s %lld", lane->memory->name, (long long)lane->room);
}

void mf_ps_lane_hide(const mf_ps_lane *lane)
{
    if (lane->memory)
        mf_segment_unlink(lane->memory);
}

mf_status mf_ps_lane_open(mf_ps_lane *lane, const char *text)
{
    char name[64];
    long long room;

    mf_ps_lane_close(lane);
    if (sscanf(text, "%63s %lld", name, &room) != 2 || room <= 0 || room > (1LL << 40))
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%.80s' is no shared memory", text);
    lane->room = room;
    return mf_segment_open(name, MEMBERS, room, &lane->memory);
}

void mf_ps_lane_close(mf_ps_lane *lane)
{
    mf_segment_free(lane->memory);
    *lane = (mf_ps_lane){ 0 };
}
