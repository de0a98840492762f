/* SPDX-License-Identifier: Apache-2.0 */
/* ps_shm.c - shared memory between a worker and a parameter server of one host: areas for pushes
 * and replies. */
#include "dist/param_server/ps_shm.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/param.h"
#include "collective/shm_segment.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

MF_PARAM_INT(ps_shared_memory, 1,
             "1: workers and parameter servers of one host use shared memory; 0: messages only");

/* A group has an area for each member, and one for results. */
enum { PUSH = 0, FIRST_ANSWER = 1, MEMBERS = MF_PS_ANSWERS };

void *mf_ps_shm_push(const mf_ps_shm *lane)
{
    return mf_segment_area(lane->memory, PUSH);
}

void *mf_ps_shm_answer(const mf_ps_shm *lane, int i)
{
    return mf_segment_area(lane->memory, FIRST_ANSWER + i);
}

int mf_ps_shm_free_answer(const mf_ps_shm *lane)
{
    for (int i = 0; lane->memory && i < MF_PS_ANSWERS; i++) {
        if (mf_buffer_is_sole(lane->answers[i]))
            return i;
    }
    return -1;
}

/* ---- a worker's ---- */

/* Tensors may refer to replies longer than the lane exists: the last reference frees it. */
typedef struct owners {
    mf_segment *memory;
    atomic_int refs;
} owners;

static void ps_shm_let_go(void *data, void *ctx)
{
    owners *o = ctx;

    (void)data;
    if (atomic_fetch_sub(&o->refs, 1) > 1)
        return;
    mf_segment_free(o->memory);
    mf_free(o);
}

mf_status mf_ps_shm_wrap(mf_ps_shm *lane)
{
    owners *o = mf_calloc(1, sizeof *o);
    mf_status st = MF_OK;

    if (!o) {
        mf_segment_free(lane->memory);
        *lane = (mf_ps_shm){ 0 };
        return MF_NOMEM("shared memory");
    }
    o->memory = lane->memory;
    atomic_init(&o->refs, 1); /* the lane's, while the others are made */
    for (int i = 0; i < MF_PS_ANSWERS && st == MF_OK; i++) {
        st = mf_buffer_wrap(mf_ps_shm_answer(lane, i), (size_t)lane->room, ps_shm_let_go, o,
                            &lane->answers[i]);
        if (st == MF_OK)
            atomic_fetch_add(&o->refs, 1);
    }
    if (st != MF_OK) {
        for (int i = 0; i < MF_PS_ANSWERS; i++)
            mf_buffer_unref(lane->answers[i]);
        *lane = (mf_ps_shm){ 0 };
    }
    ps_shm_let_go(NULL, o);
    return st;
}

mf_status mf_ps_shm_make(mf_ps_shm *lane, int64_t room)
{
    char name[64];

    *lane = (mf_ps_shm){ .room = room };
    (void)snprintf(name, sizeof name, "/meshflow-%d-%016llx", (int)getpid(),
                   (unsigned long long)mf_random_seed());
    MF_TRY(mf_segment_create(name, MEMBERS, room, &lane->memory));
    return mf_ps_shm_wrap(lane);
}

void mf_ps_shm_tell(const mf_ps_shm *lane, mf_buf *out)
{
    mf_buf_printf(out, "%s %lld", lane->memory->name, (long long)lane->room);
}

void mf_ps_shm_hide(const mf_ps_shm *lane)
{
    if (lane->memory)
        mf_segment_unlink(lane->memory);
}

/* ---- a server's ---- */

bool mf_ps_shm_may_be(const mf_net *net, int task)
{
    return MF_PARAM(ps_shared_memory) != 0 && mf_net_same_host(net, mf_net_self(net), task);
}

mf_status mf_ps_shm_open(mf_ps_shm *lane, const char *text)
{
    mf_ps_shm fresh = { 0 };
    char name[64];
    long long room;

    if (sscanf(text, "%63s %lld", name, &room) != 2 || room <= 0 || room > (1LL << 40))
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%.80s' is no shared memory", text);
    fresh.room = room;
    MF_TRY(mf_segment_open(name, MEMBERS, room, &fresh.memory));
    mf_ps_shm_close(lane);
    *lane = fresh;
    return MF_OK;
}

void mf_ps_shm_close(mf_ps_shm *lane)
{
    bool wrapped = false;

    for (int i = 0; i < MF_PS_ANSWERS; i++) {
        wrapped |= lane->answers[i] != NULL;
        mf_buffer_unref(lane->answers[i]);
    }
    if (!wrapped)
        mf_segment_free(lane->memory);
    *lane = (mf_ps_shm){ 0 };
}

/* ---- writing ---- */

void *mf_ps_out_room(mf_ps_out *o, size_t size)
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

void mf_ps_out_put(mf_ps_out *o, const void *data, size_t size)
{
    void *to = size > 0 ? mf_ps_out_room(o, size) : NULL;

    if (to)
        mf_ps_copy(o->pool, to, data, size);
}

void mf_ps_out_align(mf_ps_out *o)
{
    const size_t over = o->at ? (uintptr_t)o->at % MF_PS_ALIGN : 0;

    if (over > 0 && !mf_ps_out_room(o, MF_PS_ALIGN - over))
        o->full = true;
}

typedef struct copying {
    char *to;
    const char *from;
    size_t size;
} copying;

enum { PIECE = 1 << 20 };

static void copy_piece(void *ctx, int64_t piece)
{
    const copying *c = ctx;
    const size_t at = (size_t)piece * PIECE;

    memcpy(c->to + at, c->from + at, c->size - at < PIECE ? c->size - at : PIECE);
}

void mf_ps_copy(mf_pool *pool, void *to, const void *from, size_t size)
{
    copying c = { to, from, size };

    if (size <= PIECE)
        memcpy(to, from, size);
    else
        mf_pool_complete(pool, (int64_t)((size + PIECE - 1) / PIECE), copy_piece, &c);
}
