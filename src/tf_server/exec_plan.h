/* SPDX-License-Identifier: Apache-2.0 */
/* exec_plan.h - the partitioned plan of a run on the tasks of a session: made once for each set of
 * names and used by all its steps. */
#ifndef MF_TF_SERVER_EXEC_PLAN_H
#define MF_TF_SERVER_EXEC_PLAN_H

#include "compiler/compiler.h"
#include "tf_server/collective_keys.h"
#include "tf_server/session_workers.h"

struct mf_session;

/* The part of a remote task. */
typedef struct mf_exec_plan_part {
    int task;
    char *graph; /* its handle there */
} mf_exec_plan_part;

typedef struct mf_exec_plan {
    mf_arena *arena;
    struct mf_session *own; /* the local part; NULL: the whole run is local and uses the session */
    const char **feeds, **fetches; /* their names in `own`, or keys, in the order of the request */
    const char **targets;
    int n_feeds, n_fetches, n_targets;
    mf_exec_plan_part *parts;
    int n_parts;
    mf_collectives collectives;
    int leader; /* leader of their groups: a task */
} mf_exec_plan;

typedef struct mf_exec_plan_options {
    const mf_graph *graph;
    const int *task; /* by node id */
    const mf_session_workers *workers;
    const char *session; /* its handle on remote tasks */
    mf_resources *resources, *node_state; /* for the local part; NULL: the server's */
    mf_cancel *cancel;
    bool gradual; /* see mf_graph_partition_options */
    int leader; /* leader of groups: a task */
} mf_exec_plan_options;

/* Registers the graphs on the remote tasks. Owns: mf_exec_plan_free(). */
MF_MUST mf_status mf_exec_plan_make(const mf_run_names *names, const mf_exec_plan_options *o,
                                    mf_exec_plan **out);
/* Deregisters the graphs on the remote tasks. */
void mf_exec_plan_free(mf_exec_plan *l, const mf_session_workers *workers, const char *session);

#endif
