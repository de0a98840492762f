/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_wish.h - what workers of a mesh want before the next step: to stop, to meet others, another
 * layout. */
#ifndef MF_JOB_MESH_WISH_H
#define MF_JOB_MESH_WISH_H

#include "base/board.h"
#include "train/team.h"

typedef struct mf_mesh_wish {
    pthread_mutex_t lock;
    bool there; /* guarded by lock, as are the texts */
    mf_board_layout is;
} mf_mesh_wish;

void mf_mesh_wish_init(mf_mesh_wish *w);
void mf_mesh_wish_deinit(mf_mesh_wish *w);
/* Thread: any. INVALID_ARGUMENT: it is no mesh, or no layout. */
MF_MUST mf_status mf_mesh_wish_set(mf_mesh_wish *w, const char *axes, const char *layout);

/* What all together want, if this worker votes so; of those who want another layout, the first gets
 * it. Wishes of the command line (mf_board_wish_layout) count. Collective. After a failure they are
 * wishes still. */
typedef struct mf_mesh_agreed {
    int votes; /* parallel/votes.h: of all together */
    bool change;
    mf_board_layout to;
    bool by_board, by_call; /* it, or another one, was wished here */
} mf_mesh_agreed;
MF_MUST mf_status mf_mesh_wish_agree(mf_mesh_wish *w, mf_team *team, int64_t step, int votes,
                                     mf_mesh_agreed *out);
/* What has become of it, for whoever wished it here. MF_WISH_MADE: nothing yet. */
void mf_mesh_wish_answer(mf_mesh_wish *w, const mf_mesh_agreed *a, mf_wish what, const char *words);

#endif
