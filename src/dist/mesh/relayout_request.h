/* SPDX-License-Identifier: Apache-2.0 */
/* relayout_request.h - what the workers of a mesh request before the next step: to stop, a
 * rendezvous, another layout. */
#ifndef MF_DIST_MESH_RELAYOUT_REQUEST_H
#define MF_DIST_MESH_RELAYOUT_REQUEST_H

#include "observe/status_page.h"
#include "spmd/layout/mesh_layout.h"
#include "train/loop/dist.h"

typedef struct mf_relayout_request {
    pthread_mutex_t lock;
    bool there; /* guarded by lock, as are the texts */
    mf_status_page_layout is;
} mf_relayout_request;

void mf_relayout_request_init(mf_relayout_request *w);
void mf_relayout_request_deinit(mf_relayout_request *w);
/* Thread: any. INVALID_ARGUMENT: the spec describes no meshes, or its text is too long. */
MF_MUST mf_status mf_relayout_request_set(mf_relayout_request *w, const mf_mesh_spec *to);
/* As workers and status pages exchange it. False: the text is too long, and incomplete. */
bool mf_relayout_request_text(const mf_mesh_spec *s, mf_status_page_layout *out);

/* The common decision of all workers: the request of the worker with the lowest rank applies.
 * Includes requests of the command line (mf_status_page_request_layout). Collective. After a
 * failure the requests remain pending. */
typedef struct mf_mesh_agreed {
    int flags; /* dist/step_flags.h: of all workers */
    bool change;
    mf_status_page_layout to;
    bool by_board, by_call; /* this worker had requested it, or another one */
} mf_mesh_agreed;
MF_MUST mf_status mf_relayout_request_agree(mf_relayout_request *w, mf_dist *dist, int64_t step,
                                            int flags, mf_mesh_agreed *out);
/* Report the result to the requester on this worker. MF_VARIABLE_REQUEST_MADE: none yet. */
void mf_relayout_request_answer(mf_relayout_request *w, const mf_mesh_agreed *a,
                                mf_variable_request what, const char *words);

#endif
