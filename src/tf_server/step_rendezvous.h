/* SPDX-License-Identifier: Apache-2.0 */
/* step_rendezvous.h - a step's rendezvous, as one task sees it: what it sends waits in its room,
 * what it receives comes from its own room or from another task's. */
#ifndef MF_TF_SERVER_STEP_RENDEZVOUS_H
#define MF_TF_SERVER_STEP_RENDEZVOUS_H

#include "graph/rendezvous.h"
#include "runtime/rendezvous_table.h"
#include "tf_server/server.h"

typedef struct mf_step_rendezvous {
    mf_rendezvous base; /* first */
    mf_server *server;
    int64_t step;
    mf_rendezvous_table *room;
    int leader; /* of groups: a task; the first one, unless somebody says otherwise */
} mf_step_rendezvous;

/* CANCELLED: the step is over. */
MF_MUST mf_status mf_step_rendezvous_begin(mf_step_rendezvous *m, mf_server *server, int64_t step);
/* After all that runs in it has ended; status: how. Those who wait for what did not come learn it.
 */
void mf_step_rendezvous_end(mf_step_rendezvous *m, mf_status status);

#endif
