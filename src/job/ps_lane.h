/* SPDX-License-Identifier: Apache-2.0 */
/* ps_lane.h - memory that a worker and a server of one host share: what a worker pushes lies in one
 * half, the answer in the other, and messages only say so. A half is its writer's until the message
 * is sent, and the reader's until it answers (the server) or pushes again (the worker): nobody else
 * writes there meanwhile, so a message that comes twice finds the same bytes. */
#ifndef MF_JOB_PS_LANE_H
#define MF_JOB_PS_LANE_H

#include "base/buf.h"
#include "comm/net.h"

#include <string.h>

typedef struct mf_ps_lane {
    mf_segment *memory; /* NULL: none, so all goes through messages */
    int64_t room; /* bytes of each half */
    bool refused; /* it was tried, and could not be had */
} mf_ps_lane;

void *mf_ps_lane_push(const mf_ps_lane *lane);
void *mf_ps_lane_reply(const mf_ps_lane *lane);

/* A worker: make memory with a name that only the server is told. */
MF_MUST mf_status mf_ps_lane_make(mf_ps_lane *lane, int64_t room);
/* "NAME ROOM", for the server; and when it has opened it, or not: nobody else will. */
void mf_ps_lane_tell(const mf_ps_lane *lane, mf_buf *out);
void mf_ps_lane_hide(const mf_ps_lane *lane);
/* The server: what a worker tells. An older one is closed. */
MF_MUST mf_status mf_ps_lane_open(mf_ps_lane *lane, const char *text);
void mf_ps_lane_close(mf_ps_lane *lane);

/* ---- writing, to a lane or to a message ---- */

typedef struct mf_ps_out {
    mf_buf *buf; /* of the message */
    char *at; /* in a lane; NULL: behind `buf` */
    size_t left; /* there */
    bool full; /* it does not fit in */
} mf_ps_out;

/* Room for the caller to fill; NULL: there is none. */
static inline void *mf_ps_out_room(mf_ps_out *o, size_t size)
{
    char *at = o->at;

    if (!at)
        return mf_buf_room(o->buf, size);
    if (o->full || size > o->left) {
        o->full = true;
        return NULL;
    }
    o->at += size;
    o->left -= size;
    return at;
}

static inline void mf_ps_out_put(mf_ps_out *o, const void *data, size_t size)
{
    void *to = size > 0 ? mf_ps_out_room(o, size) : NULL;

    if (to)
        memcpy(to, data, size);
}

#endif
