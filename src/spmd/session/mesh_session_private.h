/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_session_private.h - what the files of a session on a mesh share. */
#ifndef MF_SPMD_SESSION_MESH_SESSION_PRIVATE_H
#define MF_SPMD_SESSION_MESH_SESSION_PRIVATE_H

#include "base/int_ranges.h"
#include "graph/spmd_op.h"
#include "runtime/active_runs.h"
#include "spmd/lower/spmd_compile.h"
#include "spmd/lower/spmd_lower.h"
#include "spmd/session/mesh_session.h"

typedef struct mf_mesh_session mf_mesh_session;

typedef struct mf_mesh_processor {
    mf_mesh_link link; /* first */
    mf_mesh_session *of;
    mf_resources *resources, *node_state;
    int64_t planned; /* bytes to be received in the runs so far */
} mf_mesh_processor;

/* A run that was compiled. */
typedef struct mf_mesh_run {
    struct mf_mesh_run *next;
    char *key;
    mf_arena *arena;
    mf_run_names names; /* copies, as are the shapes of what is fed */
    mf_shape *shapes;
    int n_rows; /* so many feeds, the first ones, are rows of a batch, and `shapes` of all of it */
    mf_ranges rows; /* those of them that processors here look at: what is fed */
    int n; /* processors here */
    bool talks; /* processors do something together */
    int64_t *receives; /* by processor here: bytes */
    mf_mesh_costs costs; /* of the first of them */
    int64_t nodes; /* of its graph */
    int64_t calls; /* that went well */
    int64_t ns; /* they took, but for the first, which compiles */
    mf_mesh_meter *meters; /* by processor here: of the last one, with the time of all of these */
    mf_graph **graphs; /* the same */
    mf_session **sessions;
    char (*feeds)[MF_MESH_END_NAME], (*fetches)[MF_MESH_END_NAME];
    const char **feed_names, **fetch_names;
    const char ***targets; /* by processor here: those that it has, and that all is sent */
    int *n_targets;
} mf_mesh_run;

struct mf_mesh_session {
    mf_session base; /* first */
    mf_mesh_setup setup;
    mf_graph *graph;
    mf_mesh_variables variables;
    mf_pool *pool;
    bool owns_pool;
    mf_mesh_processor *processors;
    mf_rendezvous_tables *rooms;
    mf_active_runs in_progress;
    struct mf_trace *trace; /* of all runs; NULL: none */
    pthread_mutex_t lock; /* runs come one after the other */
    mf_map runs; /* by key */
    mf_mesh_run *all;
    int n_rows; /* of the next run: see mf_mesh_session_feed_rows() */
    int64_t whole;
    int64_t number; /* of the last run that talked to others: the same for all of them */
    pthread_mutex_t room_lock;
    mf_rendezvous_table *room; /* of the run in hand; NULL: there is none. Guarded by room_lock
                      where others than that run look */
};

extern const mf_session_kind mf_mesh_session_kind;

static inline mf_mesh_session *mf_mesh_session_of(mf_session *base)
{
    return (mf_mesh_session *)base;
}

/* The room of the run in hand; NULL: there is none. */
void mf_mesh_set_room(mf_mesh_session *s, mf_rendezvous_table *room);
/* Something that processors do together has failed here, with the thread's error, which stays:
 * frees those who wait, here and elsewhere. */
void mf_mesh_give_up(mf_mesh_session *s, mf_status why, bool together);

/* ---- mesh_session_runs.c: the caller has s->lock ---- */

/* Compiled, if it was not yet. */
MF_MUST mf_status mf_mesh_find_run(mf_mesh_session *s, const mf_run_names *names,
                                   const mf_tensor *const *feeds, mf_mesh_run **out);
/* The same run as `like`, for another setup. Owns: mf_mesh_run_free(). */
MF_MUST mf_status mf_mesh_compile_again(mf_mesh_session *s, const mf_mesh_run *like,
                                        const mf_mesh_setup *setup,
                                        const mf_mesh_variables *variables, mf_mesh_run **out);
MF_MUST mf_status mf_mesh_add_run(mf_mesh_session *s, mf_mesh_run *r);
/* A step of a training, among runs that set or get something; NULL: there was none. */
mf_mesh_run *mf_mesh_largest_run(const mf_mesh_session *s);
void mf_mesh_run_free(mf_mesh_run *r);

/* ---- mesh_session_rows.c ---- */

/* Its graphs are made: of feeds that are rows of a batch, they are given only what they look at. */
MF_MUST mf_status mf_mesh_run_shrink_feeds(mf_mesh_run *r);
/* INVALID_ARGUMENT: something else is fed. */
MF_MUST mf_status mf_mesh_run_check_feeds(const mf_mesh_run *r, const mf_tensor *const *feeds);
void mf_mesh_free_runs(mf_mesh_session *s);

#endif
