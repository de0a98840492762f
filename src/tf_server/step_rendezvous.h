/* SPDX-License-Identifier: Apache-2.0 */
/* step_rendezvous.h - a task's rendezvous of a step: sent values wait in its own table, received
 * values come from its own table or another task's. */
#ifndef MF_TF_SERVER_STEP_RENDEZVOUS_H
#define MF_TF_SERVER_STEP_RENDEZVOUS_H

#include "graph/rendezvous.h"
#include "runtime/rendezvous_table.h"
#include "tf_server/server.h"

typedef struct mf_step_rendezvous {
    mf_rendezvous base; /* first */
    mf_server *server;
    int64_t step;
    mf_rendezvous_table *table;
    int leader; /* leader of groups: a task; default: the first */
} mf_step_rendezvous;

/* Fails: CANCELLED (the step has ended). */
MF_MUST mf_status mf_step_rendezvous_begin(mf_step_rendezvous *m, mf_server *server, int64_t step);
/* Called after all nodes of the step have ended; status: the step's. Pending receives fail. */
void mf_step_rendezvous_end(mf_step_rendezvous *m, mf_status status);

#endif
