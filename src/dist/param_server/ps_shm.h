/* SPDX-License-Identifier: Apache-2.0 */
/* ps_shm.h - memory that a worker and a server of one host share: one area for what the worker
 * pushes, some for answers; messages only say what lies where.
 *
 * The area of pushes is the worker's until it has sent the message, and the server's until that has
 * answered. Weights are used where the server has put them, so the worker names, with each push, an
 * area for the answer that nobody refers to any more. A message that comes twice finds the same
 * bytes. */
#ifndef MF_DIST_PARAM_SERVER_PS_SHM_H
#define MF_DIST_PARAM_SERVER_PS_SHM_H

#include "base/buf.h"
#include "base/pool.h"
#include "collective/group.h"
#include "net/net.h"
#include "tensor/buffer.h"

enum {
    MF_PS_ANSWERS = 3, /* areas: the weights in use, the next ones, those that are being saved */
    MF_PS_ALIGN = 64, /* where weights begin in an answer that lies in a lane */
};

typedef struct mf_ps_shm {
    mf_segment *memory; /* NULL: none, so all goes through messages */
    int64_t room; /* bytes of each area */
    mf_buffer *answers[MF_PS_ANSWERS]; /* the areas, as storage of tensors; NULL: a server's */
    bool refused; /* one, or a wider one, was tried and could not be had */
} mf_ps_shm;

void *mf_ps_shm_push(const mf_ps_shm *lane);
void *mf_ps_shm_answer(const mf_ps_shm *lane, int i);
/* An area for an answer that nobody refers to; -1: there is none, or no lane. */
int mf_ps_shm_free_answer(const mf_ps_shm *lane);

/* A worker: make memory with a name that only the server is told. */
MF_MUST mf_status mf_ps_shm_make(mf_ps_shm *lane, int64_t room);
/* "NAME ROOM", for the server; and when it has opened it, or not: nobody else will. */
void mf_ps_shm_tell(const mf_ps_shm *lane, mf_buf *out);
void mf_ps_shm_hide(const mf_ps_shm *lane);
/* The server: what a worker tells. An older one is closed, unless this fails. */
MF_MUST mf_status mf_ps_shm_open(mf_ps_shm *lane, const char *text);
/* It wants to refer to answers, too. */
MF_MUST mf_status mf_ps_shm_wrap(mf_ps_shm *lane);
/* May these two tasks have one? Of one host, unless told otherwise. */
bool mf_ps_shm_may_be(const mf_net *net, int task);
/* The memory stays as long as a tensor refers to an answer. */
void mf_ps_shm_close(mf_ps_shm *lane);

/* ---- writing, to a lane or to a message ---- */

typedef struct mf_ps_out {
    mf_pool *pool; /* for what is long */
    mf_buf *buf; /* of the message */
    char *at; /* in a lane; NULL: behind `buf` */
    size_t left; /* there */
    bool full; /* it does not fit in */
} mf_ps_out;

/* Room for the caller to fill; NULL: there is none. */
void *mf_ps_out_room(mf_ps_out *o, size_t size);
void mf_ps_out_put(mf_ps_out *o, const void *data, size_t size);
/* In a lane: go on where weights may begin. */
void mf_ps_out_align(mf_ps_out *o);

/* As memcpy(), by several threads where it is worth it. */
void mf_ps_copy(mf_pool *pool, void *to, const void *from, size_t size);

#endif
