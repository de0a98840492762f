/* SPDX-License-Identifier: Apache-2.0 */
/* relayout_request.h - what the workers of a mesh request before the next step: to stop, a
 * rendezvous, another layout. */
#ifndef MF_DIST_MESH_RELAYOUT_REQUEST_H
#define MF_DIST_MESH_RELAYOUT_REQUEST_H

#include "observe/status_page.h"
#include "train/loop/dist.h"

typedef struct mf_relayout_request {
    pthread_mutex_t lock;
    bool there; /* guarded by lock, as are the texts */
    mf_status_page_layout is;
} mf_relayout_request;

void mf_relayout_request_init(mf_relayout_request *w);
void mf_relayout_request_deinit(mf_relayout_request *w);
/* Thread: any. INVALID_ARGUMENT: an invalid mesh or layout. */
MF_MUST mf_status mf_relayout_request_set(mf_relayout_request *w, const char *axes,
                                          const char *layout);

/* The requests of all workers, with this worker's flags; of several requested layouts the first one
 * counts. Includes requests of the command line (mf_status_page_wish_layout). Collective. After a
 * failure requests remain pending. */
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
