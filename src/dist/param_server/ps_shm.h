/* SPDX-License-Identifier: Apache-2.0 */
/* ps_shm.h - memory shared by a worker and a server of one host: one area for the worker's pushes,
 * some for replies; messages only carry offsets.
 *
 * The worker owns the area of pushes until it has sent the message, the server until it has
 * replied. Weights are used in place, so the worker names, with each push, an area for the reply
 * that nothing refers to any more. A repeated message finds the same bytes. */
#ifndef MF_DIST_PARAM_SERVER_PS_SHM_H
#define MF_DIST_PARAM_SERVER_PS_SHM_H

#include "base/buf.h"
#include "base/pool.h"
#include "collective/group.h"
#include "net/net.h"
#include "tensor/buffer.h"

enum {
    MF_PS_ANSWERS = 3, /* areas: the weights in use, the next ones, the ones being saved */
    MF_PS_ALIGN = 64, /* alignment of weights in a reply in a lane */
};

typedef struct mf_ps_shm {
    mf_segment *memory; /* NULL: none, so everything goes through messages */
    int64_t room; /* bytes of each area */
    mf_buffer *answers[MF_PS_ANSWERS]; /* the areas, as storage of tensors; NULL: a server's */
    bool refused; /* one, or a wider one, was tried and could not be had */
} mf_ps_shm;

void *mf_ps_shm_push(const mf_ps_shm *lane);
void *mf_ps_shm_answer(const mf_ps_shm *lane, int i);
/* An area for a reply that nothing refers to; -1: none, or no lane. */
int mf_ps_shm_free_answer(const mf_ps_shm *lane);

/* A worker: create memory under a name that only the server gets. */
MF_MUST mf_status mf_ps_shm_make(mf_ps_shm *lane, int64_t room);
/* "NAME ROOM", for the server; and unlink the name after the server has opened it, or failed. */
void mf_ps_shm_tell(const mf_ps_shm *lane, mf_buf *out);
void mf_ps_shm_hide(const mf_ps_shm *lane);
/* The server: open the memory that a worker named. The previous one is closed, unless this fails.
 */
MF_MUST mf_status mf_ps_shm_open(mf_ps_shm *lane, const char *text);
/* Allow references to replies here, too. */
MF_MUST mf_status mf_ps_shm_wrap(mf_ps_shm *lane);
/* May these two tasks share memory? Those of one host, unless configured otherwise. */
bool mf_ps_shm_may_be(const mf_net *net, int task);
/* The memory stays as long as a tensor refers to an answer. */
void mf_ps_shm_close(mf_ps_shm *lane);

/* ---- writing, to a lane or to a message ---- */

typedef struct mf_ps_out {
    mf_pool *pool; /* for large copies */
    mf_buf *buf; /* of the message */
    char *at; /* in a lane; NULL: after `buf` */
    size_t left; /* there */
    bool full; /* it does not fit in */
} mf_ps_out;

/* Space for the caller to fill; NULL: none. */
void *mf_ps_out_room(mf_ps_out *o, size_t size);
void mf_ps_out_put(mf_ps_out *o, const void *data, size_t size);
/* In a lane: advance to the alignment of weights. */
void mf_ps_out_align(mf_ps_out *o);

/* Like memcpy(), with several threads for large copies. */
void mf_ps_copy(mf_pool *pool, void *to, const void *from, size_t size);

#endif
