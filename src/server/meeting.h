/* SPDX-License-Identifier: Apache-2.0 */
/* meeting.h - a step's rendezvous, as one task sees it: what it sends waits in its room, what it
 * receives comes from its own room or from another task's. */
#ifndef MF_SERVER_MEETING_H
#define MF_SERVER_MEETING_H

#include "graph/rendezvous.h"
#include "runtime/room.h"
#include "server/server.h"

typedef struct mf_meeting {
    mf_rendezvous base; /* first */
    mf_server *server;
    int64_t step;
    mf_room *room;
    int leader; /* of groups: a task; the first one, unless somebody says otherwise */
} mf_meeting;

/* CANCELLED: the step is over. */
MF_MUST mf_status mf_meeting_begin(mf_meeting *m, mf_server *server, int64_t step);
/* After all that runs in it has ended; status: how. Those who wait for what did not come learn it.
 */
void mf_meeting_end(mf_meeting *m, mf_status status);

#endif
