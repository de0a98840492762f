/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - a session whose graph runs on the processors of a mesh. Some of them, at least one,
 * are threads of this process; the others are reached by a wire. All processes that take part run
 * the same, in the same order. */
#ifndef MF_MESH_SESSION_H
#define MF_MESH_SESSION_H

#include "mesh/layout.h"
#include "runtime/room.h"
#include "runtime/session.h"

#include <meshflow/mesh.h>

typedef struct mf_mesh_wire mf_mesh_wire;
typedef struct mf_mesh_wire_kind {
    /* A piece of run `run` goes from a processor here to one elsewhere. Thread: any. */
    mf_status (*send)(mf_mesh_wire *w, int from, int to, int64_t run, int64_t key,
                      const mf_tensor *piece);
    /* What comes for processors here is to be put into these rooms, by run, with mf_mesh_put().
     * trouble(ctx) is to be called, by any thread, when somebody is gone or gives up. */
    void (*open)(mf_mesh_wire *w, mf_rooms *rooms, void (*trouble)(void *ctx), void *ctx);
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
MF_MUST mf_status mf_mesh_put(mf_rooms *rooms, int from, int to, int64_t run, int64_t key,
                              const mf_tensor *piece);

typedef struct mf_mesh_setup {
    mf_mesh mesh;
    mf_layout_rules rules;
    bool exact;
    int first, n; /* the processors here */
    mf_mesh_wire *wire; /* to the others; NULL: there are none. Must outlive the session */
    mf_session_options session;
    mf_pool *pool; /* that they share; NULL: their own. Must outlive the session */
} mf_mesh_setup;

MF_MUST mf_status mf_mesh_session_make(const mf_graph *graph, const mf_mesh_setup *setup,
                                       mf_session **out);

#endif
