/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - how a run lies on the tasks of a session: made once for each set of names, and used by
 * all its steps. */
#ifndef MF_SERVER_LAYOUT_H
#define MF_SERVER_LAYOUT_H

#include "compile/compile.h"
#include "server/cast.h"
#include "server/collective_keys.h"

struct mf_session;

/* What another task does of it. */
typedef struct mf_layout_part {
    int task;
    char *graph; /* its handle there */
} mf_layout_part;

typedef struct mf_layout {
    mf_arena *arena;
    struct mf_session *own; /* the part done here; NULL: all of it is, by the session */
    const char **feeds, **fetches; /* their names in `own`, or keys, as they were asked for */
    const char **targets;
    int n_feeds, n_fetches, n_targets;
    mf_layout_part *parts;
    int n_parts;
    mf_collectives collectives;
    int leader; /* of their groups: a task */
} mf_layout;

typedef struct mf_layout_options {
    const mf_graph *graph;
    const int *task; /* by node id */
    const mf_cast *cast;
    const char *session; /* its handle on other tasks */
    mf_resources *resources, *node_state; /* of the own part; NULL: the server's */
    mf_cancel *cancel;
    bool gradual; /* see mf_partition_options */
    int leader; /* of groups: a task */
} mf_layout_options;

/* Owns: mf_layout_free(). Other tasks have their graphs afterwards. */
MF_MUST mf_status mf_layout_make(const mf_run_names *names, const mf_layout_options *o,
                                 mf_layout **out);
/* They forget them. */
void mf_layout_free(mf_layout *l, const mf_cast *cast, const char *session);

#endif
