/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_session.h - a session whose graph runs on the devices of a mesh. At least one device is a
 * thread of this process; devices of other processes are reached by a wire. All processes run the
 * same steps in the same order. */
#ifndef MF_SPMD_SESSION_MESH_SESSION_H
#define MF_SPMD_SESSION_MESH_SESSION_H

#include "base/int_ranges.h"
#include "collective/gradient_aggregation.h"
#include "compiler/compiler.h"
#include "runtime/rendezvous_table.h"
#include "runtime/session.h"
#include "spmd/layout/mesh_layout.h"

#include <meshflow/mesh.h>

typedef struct mf_mesh_wire mf_mesh_wire;
typedef struct mf_mesh_wire_kind {
    /* Sends a shard of run `run` from a local device to a remote one. Thread: any. */
    mf_status (*send)(mf_mesh_wire *w, int from, int to, int64_t run, int64_t key,
                      const mf_tensor *piece);
    /* Puts messages for local devices into these tables, by run, with mf_mesh_put(). Any thread
     * calls trouble(ctx) when a peer is lost or fails. */
    void (*open)(mf_mesh_wire *w, mf_rendezvous_tables *tables, void (*trouble)(void *ctx),
                 void *ctx);
    /* Stops receiving: no calls of mf_mesh_put() or trouble() afterwards. */
    void (*close)(mf_mesh_wire *w);
    /* A run has failed here with the thread's error, which is kept: notify the peers. */
    void (*give_up)(mf_mesh_wire *w, mf_status why);
    /* The failure of a peer; MF_OK: none. */
    mf_status (*check)(mf_mesh_wire *w);
} mf_mesh_wire_kind;
struct mf_mesh_wire {
    const mf_mesh_wire_kind *kind;
};

/* Delivers a received shard. */
MF_MUST mf_status mf_mesh_put(mf_rendezvous_tables *tables, int from, int to, int64_t run,
                              int64_t key, const mf_tensor *piece);

/* Order of the micro-batches on the stages of a pipeline. */
typedef enum mf_pipeline {
    MF_PIPELINE_1F1B, /* one forward, one backward, once the first micro-batch has returned */
    MF_PIPELINE_GPIPE, /* all forward, then all backward */
    MF_PIPELINE_INTERLEAVED, /* 1F1B with several chunks of layers per stage */
    MF_PIPELINE_ZERO_BUBBLE, /* 1F1B with the gradients of weights postponed to idle time (ZB-H1) */
} mf_pipeline;

typedef struct mf_mesh_setup {
    mf_meshes meshes;
    mf_layout_rules rules;
    bool exact;
    int layers[MF_MESH_CHUNKS]; /* layers of a model per mesh or chunk; all 0: balanced by work */
    int chunks; /* chunks of layers per mesh, assigned round-robin; 0: one */
    int micro_batches; /* sequential parts of a batch; 0: one */
    const mf_aggregation *aggregation; /* of the micro-batches' gradients; NULL: mean */
    mf_pipeline pipeline;
    int first, n; /* the local devices */
    mf_mesh_wire *wire; /* to remote devices; NULL: none. Must outlive the session */
    mf_session_options session;
    /* For random ops without a seed: the same on all processes. 0: drawn, for a single process. */
    uint64_t seed;
    mf_pool *pool; /* shared by the local devices; NULL: one each. Must outlive the session */
} mf_mesh_setup;

/* The part of a variable of `rank` dimensions that a device, local or remote, holds. False: no run
 * has used the variable, or the device holds none of it. */
bool mf_mesh_session_holds(mf_session *session, const char *variable, int device, mf_box *box,
                           int *rank);

/* Excludes the runs so far from mf_mesh_session_counts(): they created variables, and only later
 * runs are training steps. */
void mf_mesh_session_forget_runs(mf_session *session);

/* The variable itself on the k-th local device; NULL: not there. Owns: mf_object_unref(). Thread:
 * between runs. */
struct mf_variable *mf_mesh_session_slice(mf_session *session, const char *variable, int k);

/* A change of layout has two parts. First the largest run so far is compiled for `next` (meshes,
 * rules, exact, layers, micro-batches, pipeline), which has the same number of devices. Fails:
 * INVALID_ARGUMENT (not possible). Nothing has changed yet. Owns: mf_mesh_change_free(); no other
 * runs until then. */
typedef struct mf_mesh_change mf_mesh_change;
MF_MUST mf_status mf_mesh_change_new(mf_session *session, const mf_mesh_setup *next,
                                     mf_mesh_change **out);
void mf_mesh_change_free(mf_mesh_change *c);
/* Then all processes apply it at the same time; variables keep their values. *bytes: received by
 * local devices. After a failure the session is unusable. */
MF_MUST mf_status mf_mesh_change_make(mf_mesh_change *c, const mf_run_options *options,
                                      int64_t *bytes);
/* From now on the first n feeds of a run hold rows of a batch of `whole` samples: only rows that
 * local devices read, packed. n 0: feeds hold the whole batch. */
void mf_mesh_session_feed_rows(mf_session *session, int n, int64_t whole);
/* The rows that such a run reads; compiles the run. Only dtypes and shapes of the feeds are used.
 * Owns: mf_ranges_deinit(out). */
MF_MUST mf_status mf_mesh_session_rows(mf_session *session, const mf_run_names *names,
                                       const mf_tensor *const *feeds, int n, int64_t whole,
                                       mf_ranges *out);
MF_MUST mf_status mf_mesh_session_make(const mf_graph *graph, const mf_mesh_setup *setup,
                                       mf_session **out);

#endif
