/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_session.h - a session whose graph runs on the processors of a mesh. Some of them, at least
 * one, are threads of this process; the others are reached by a wire. All processes that take part
 * run the same, in the same order. */
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
    /* A piece of run `run` goes from a processor here to one elsewhere. Thread: any. */
    mf_status (*send)(mf_mesh_wire *w, int from, int to, int64_t run, int64_t key,
                      const mf_tensor *piece);
    /* What comes for processors here is to be put into these rooms, by run, with mf_mesh_put().
     * trouble(ctx) is to be called, by any thread, when somebody is gone or gives up. */
    void (*open)(mf_mesh_wire *w, mf_rendezvous_tables *rooms, void (*trouble)(void *ctx),
                 void *ctx);
    /* Not any more. */
    void (*close)(mf_mesh_wire *w);
    /* A run has failed here, with the thread's error, which stays: let the others know. */
    void (*give_up)(mf_mesh_wire *w, mf_status why);
    /* What has happened to the others; MF_OK: nothing. */
    mf_status (*check)(mf_mesh_wire *w);
} mf_mesh_wire_kind;
struct mf_mesh_wire {
    const mf_mesh_wire_kind *kind;
};

/* A piece has come. */
MF_MUST mf_status mf_mesh_put(mf_rendezvous_tables *rooms, int from, int to, int64_t run,
                              int64_t key, const mf_tensor *piece);

/* In which order the micro-batches go through the stages of a pipeline. */
typedef enum mf_pipeline {
    MF_PIPELINE_1F1B, /* one forwards, one backwards, as soon as the first has come back */
    MF_PIPELINE_GPIPE, /* all forwards, then all backwards */
    MF_PIPELINE_INTERLEAVED, /* 1F1B, with several chunks of layers on each stage */
    MF_PIPELINE_ZERO_BUBBLE, /* 1F1B, with gradients of weights done where there is time (ZB-H1) */
} mf_pipeline;

typedef struct mf_mesh_setup {
    mf_meshes meshes;
    mf_layout_rules rules;
    bool exact;
    int layers[MF_MESH_CHUNKS]; /* of a model, by mesh, or chunk if there are several; all 0: so
                                   that each has about as much work */
    int chunks; /* of layers that each mesh has, dealt out in turn; 0: one */
    int micro_batches; /* parts of a batch that are done one after the other; 0: one */
    const mf_aggregation *aggregation; /* of the gradients of micro-batches; NULL: their mean */
    mf_pipeline pipeline;
    int first, n; /* the processors here */
    mf_mesh_wire *wire; /* to the others; NULL: there are none. Must outlive the session */
    mf_session_options session;
    /* Of random ops that have none: the same for all processes. 0: there is but this one, and it
     * draws one. */
    uint64_t seed;
    mf_pool *pool; /* that they share; NULL: their own. Must outlive the session */
} mf_mesh_setup;

/* What a processor, also one elsewhere, holds of a variable, which has `rank` dimensions. False: no
 * run has had the variable, or the processor has nothing of it. */
bool mf_mesh_session_holds(mf_session *session, const char *variable, int processor, mf_box *box,
                           int *rank);

/* The step of mf_mesh_session_counts() is among the runs that come: those so far have made
 * variables. */
void mf_mesh_session_forget_runs(mf_session *session);

/* That very variable, as the k-th processor here has it; NULL: it has not. Owns:
 * mf_object_unref(). Thread: between runs. */
struct mf_variable *mf_mesh_session_slice(mf_session *session, const char *variable, int k);

/* A change of layout, in two parts. First the largest run that there was is compiled for what
 * `next` says (meshes, rules, exact, layers, micro-batches, pipeline), which has as many
 * processors. Fails: INVALID_ARGUMENT (it cannot be so). Nothing has changed yet. Owns:
 * mf_mesh_change_free(); there are no other runs until then. */
typedef struct mf_mesh_change mf_mesh_change;
MF_MUST mf_status mf_mesh_change_new(mf_session *session, const mf_mesh_setup *next,
                                     mf_mesh_change **out);
void mf_mesh_change_free(mf_mesh_change *c);
/* Then all processes do so at the same time: variables keep their values. *bytes: that processors
 * here got from others. After a failure the session is of no use any more. */
MF_MUST mf_status mf_mesh_change_make(mf_mesh_change *c, const mf_run_options *options,
                                      int64_t *bytes);
/* The first n feeds of the runs from now on are rows of a batch of `whole` samples: only those that
 * processors here look at, one behind the other. n 0: all feeds are whole. */
void mf_mesh_session_feed_rows(mf_session *session, int n, int64_t whole);
/* Which rows these are, for such a run, which is compiled for it. Of the feeds it looks at types
 * and shapes alone. Owns: mf_ranges_deinit(out). */
MF_MUST mf_status mf_mesh_session_rows(mf_session *session, const mf_run_names *names,
                                       const mf_tensor *const *feeds, int n, int64_t whole,
                                       mf_ranges *out);
MF_MUST mf_status mf_mesh_session_make(const mf_graph *graph, const mf_mesh_setup *setup,
                                       mf_session **out);

#endif
