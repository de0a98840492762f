/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_util.h - shared by ops between devices: parts of tensors, and waiting for several messages.
 */
#ifndef MF_OPS_DIST_MESH_UTIL_H
#define MF_OPS_DIST_MESH_UTIL_H

#include "graph/split.h"
#include "graph/spmd_op.h"

/* A part of a tensor. */
typedef struct mf_mesh_box {
    const int64_t *begin, *size;
} mf_mesh_box;

/* Box i of a list of begins and sizes. */
static inline mf_mesh_box mf_mesh_box_at(const int64_t *list, int64_t i, int rank)
{
    return (mf_mesh_box){ list + 2 * i * rank, list + (2 * i + 1) * rank };
}

/* The key of an op's messages; the next key is for its second phase. */
static inline int64_t mf_mesh_key(const mf_node *n)
{
    return 2 * mf_node_int(n, "id");
}

/* The output has the shape of the attribute. */
MF_MUST mf_status mf_mesh_infer_shape(mf_infer *in);

/* True if the box is inside a tensor of that shape. */
bool mf_mesh_box_fits(mf_mesh_box box, const mf_shape *shape);
/* Copies the box to a new vector. */
MF_MUST mf_status mf_mesh_pack(const mf_tensor *from, mf_mesh_box box, mf_tensor *out);
/* The inverse. Fails: INVALID_ARGUMENT (another dtype or size). */
MF_MUST mf_status mf_mesh_unpack(const mf_tensor *piece, mf_mesh_box box, mf_tensor *to);

/* A kernel that waits for messages. The thread that delivers the last one completes it. */
typedef struct mf_mesh_wait {
    mf_kernel *k;
    mf_mesh_link *link;
    atomic_int left;
    pthread_mutex_t lock;
    mf_error why; /* the first failure; guarded by lock */
    void (*free)(struct mf_mesh_wait *w);
} mf_mesh_wait;

/* The link of the kernel's step, or NULL with the thread's error set. */
mf_mesh_link *mf_mesh_link_of(const mf_kernel *k);
void mf_mesh_wait_init(mf_mesh_wait *w, mf_kernel *k, int pieces);
/* One of the awaited events has happened, with this status. After a failure, no further events are
 * awaited. After the last one, w is freed. */
void mf_mesh_wait_less(mf_mesh_wait *w, mf_status status);
/* Sends a message, and counts its bytes. */
MF_MUST mf_status mf_mesh_send(mf_mesh_link *l, int to, int64_t key, const mf_tensor *piece);
void mf_mesh_count_received(mf_mesh_link *l, const mf_tensor *piece);

/* Reduces the parts in order into out, `count` elements each: MF_CUT_SUM, MF_CUT_MAX, MF_CUT_MIN or
 * MF_CUT_ONE. Fails: INVALID_ARGUMENT (a dtype that cannot be added). */
MF_MUST mf_status mf_mesh_combine(mf_cut how, mf_dtype dtype, const void *const *parts, int n,
                                  int64_t count, void *out);

#endif
