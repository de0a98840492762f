/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_session_private.h - shared by the files of a session on a mesh. */
#ifndef MF_SPMD_SESSION_MESH_SESSION_PRIVATE_H
#define MF_SPMD_SESSION_MESH_SESSION_PRIVATE_H

#include "base/int_ranges.h"
#include "graph/spmd_op.h"
#include "runtime/active_runs.h"
#include "spmd/lower/spmd_compile.h"
#include "spmd/lower/spmd_lower.h"
#include "spmd/session/mesh_session.h"

typedef struct mf_mesh_session mf_mesh_session;

typedef struct mf_mesh_device {
    mf_mesh_link link; /* first */
    mf_mesh_session *of;
    mf_resources *resources, *node_state;
    int64_t planned; /* bytes received in all runs */
} mf_mesh_device;

/* A compiled run. */
typedef struct mf_mesh_run {
    struct mf_mesh_run *next;
    char *key;
    mf_arena *arena;
    mf_run_names names; /* copies, like the shapes of the feeds */
    mf_shape *shapes;
    int n_rows; /* the first n_rows feeds are rows of a batch; `shapes` holds the shape of the whole
                   batch */
    mf_ranges rows; /* the rows that local devices read and that are fed */
    int n; /* local devices */
    bool talks; /* devices communicate */
    int64_t *receives; /* by local device: received bytes */
    mf_mesh_costs costs; /* of the first local device */
    int64_t nodes; /* number of nodes of its graph */
    int64_t calls; /* successful ones */
    int64_t ns; /* their time, without the first, which includes compilation */
    mf_mesh_meter *meters; /* by local device: the last run, with the total time of all runs */
    mf_graph **graphs; /* by local device */
    mf_session **sessions;
    char (*feeds)[MF_MESH_END_NAME], (*fetches)[MF_MESH_END_NAME];
    const char **feed_names, **fetch_names;
    const char ***targets; /* by local device: its targets, and the sends */
    int *n_targets;
} mf_mesh_run;

struct mf_mesh_session {
    mf_session base; /* first */
    mf_mesh_setup setup;
    mf_graph *graph;
    mf_mesh_variables variables;
    mf_pool *pool;
    bool owns_pool;
    mf_mesh_device *devices;
    mf_rendezvous_tables *tables;
    mf_active_runs in_progress;
    struct mf_trace *trace; /* of all runs; NULL: not traced */
    pthread_mutex_t lock; /* serializes runs */
    mf_map runs; /* by key */
    mf_mesh_run *all;
    int n_rows; /* for the next run: see mf_mesh_session_feed_rows() */
    int64_t whole;
    int64_t number; /* number of the last run with communication: the same on all tasks */
    pthread_mutex_t table_lock;
    mf_rendezvous_table *table; /* of the current run; NULL: none. Guarded by room_lock for readers
                                  outside that run */
};

extern const mf_session_kind mf_mesh_session_kind;

static inline mf_mesh_session *mf_mesh_session_of(mf_session *base)
{
    return (mf_mesh_session *)base;
}

/* Sets the rendezvous table of the current run; NULL: none. */
void mf_mesh_set_run_table(mf_mesh_session *s, mf_rendezvous_table *table);
/* A collective has failed here with the thread's error, which is kept: unblocks waiting devices,
 * local and remote. */
void mf_mesh_give_up(mf_mesh_session *s, mf_status why, bool together);

/* ---- mesh_session_runs.c: the caller holds s->lock ---- */

/* Compiles the run on first use. */
MF_MUST mf_status mf_mesh_find_run(mf_mesh_session *s, const mf_run_names *names,
                                   const mf_tensor *const *feeds, mf_mesh_run **out);
/* The same run as `like`, for another setup. Owns: mf_mesh_run_free(). */
MF_MUST mf_status mf_mesh_compile_again(mf_mesh_session *s, const mf_mesh_run *like,
                                        const mf_mesh_setup *setup,
                                        const mf_mesh_variables *variables, mf_mesh_run **out);
MF_MUST mf_status mf_mesh_add_run(mf_mesh_session *s, mf_mesh_run *r);
/* The training step among the runs, rather than a run that reads or sets variables; NULL: none. */
mf_mesh_run *mf_mesh_largest_run(const mf_mesh_session *s);
void mf_mesh_run_free(mf_mesh_run *r);

/* ---- mesh_session_rows.c ---- */

/* Changes the graphs of a run so that feeds hold only the rows that they read. */
MF_MUST mf_status mf_mesh_run_shrink_feeds(mf_mesh_run *r);
/* Fails: INVALID_ARGUMENT (the feeds have another number of rows). */
MF_MUST mf_status mf_mesh_run_check_feeds(const mf_mesh_run *r, const mf_tensor *const *feeds);
void mf_mesh_free_runs(mf_mesh_session *s);

#endif
