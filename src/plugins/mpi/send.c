/* SPDX-License-Identifier: Apache-2.0 */
/* send.c - sends messages, through a window of buffers per peer. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/mem.h"
#include "plugins/mpi/mpi_wire.h"

#include <sched.h>
#include <string.h>

enum { LOOK_NS = 20000000 }; /* interval of checks while a send is blocked */

mf_status wire_error(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;

    if (code == MPI_SUCCESS)
        return MF_OK;
    (void)MPI_Error_string(code, text, &n);
    return MF_FAIL(MF_UNAVAILABLE, "MPI cannot %s: %s", what, text);
}

void wire_pause(int *idle)
{
    const int n = (*idle)++;

    if (n < 20)
        (void)sched_yield();
    else
        (void)nanosleep(&(struct timespec){ 0, n < 200    ? 50000
                                               : n < 1000 ? 200000
                                                          : 1000000 },
                        NULL);
}

/* ---- slots of the window ---- */

static mf_status mpi_send_is_free(mpi_wire *t, outgoing *o, bool *done)
{
    int flag = 1, code = MPI_SUCCESS;

    pthread_mutex_lock(&t->lock);
    if (o->request != MPI_REQUEST_NULL)
        code = MPI_Test(&o->request, &flag, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&t->lock);
    *done = flag != 0;
    return wire_error(code, "send");
}

static mf_status wait_for_place(mpi_wire *t, int peer, outgoing *o, int64_t deadline_ns,
                                const mf_frame *f)
{
    int64_t look = mf_clock_ns() + LOOK_NS;
    bool done = false;

    for (int idle = 0;; wire_pause(&idle)) {
        const int64_t now = mf_clock_ns();

        MF_TRY(mpi_send_is_free(t, o, &done));
        if (done)
            return MF_OK;
        if (deadline_ns > 0 && now >= deadline_ns)
            return MF_FAIL(MF_DEADLINE_EXCEEDED, "the peer does not read fast enough");
        if (now >= look && f) {
            MF_TRY(t->inbox->kind->waits(t->inbox, peer, f));
            look = now + LOOK_NS;
        }
    }
}

mf_status wire_post(mpi_wire *t, int peer, int tag, const void *a, size_t n_a, const void *b,
                    size_t n_b, int64_t deadline_ns, const mf_frame *f)
{
    mpi_peer *p = &t->peers[peer];
    outgoing *o = &p->out[p->next_out];
    int code;

    MF_TRY(wait_for_place(t, peer, o, deadline_ns, f));
    if (!o->bytes)
        o->bytes = mf_calloc(PIECE, 1);
    if (!o->bytes)
        return MF_NOMEM("a message");
    p->next_out = (p->next_out + 1) % WINDOW;
    if (n_a > 0)
        memcpy(o->bytes, a, n_a);
    if (n_b > 0)
        memcpy(o->bytes + n_a, b, n_b);
    pthread_mutex_lock(&t->lock);
    code = MPI_Isend(o->bytes, (int)(n_a + n_b), MPI_BYTE, peer, tag, t->comm, &o->request);
    pthread_mutex_unlock(&t->lock);
    return wire_error(code, "send");
}

/* ---- frames ---- */

static mf_status mpi_send_parts(mpi_wire *t, int peer, const mf_frame *f, const char *data,
                                int64_t deadline_ns)
{
    unsigned char head[MF_FRAME_BYTES];
    const size_t small = f->size <= SMALL ? (size_t)f->size : 0;

    mf_frame_write(f, head);
    MF_TRY(wire_post(t, peer, TAG_FRAME, head, sizeof head, data, small, deadline_ns, f));
    for (uint64_t at = small; at < f->size; at += PIECE) {
        const size_t n = f->size - at < PIECE ? (size_t)(f->size - at) : PIECE;

        MF_TRY(wire_post(t, peer, TAG_DATA, data + at, n, NULL, 0, deadline_ns, f));
    }
    return MF_OK;
}

/* Frames must not interleave: one sender at a time. */
static mf_status begin_sending(mpi_peer *p, int64_t deadline_ns)
{
    mf_status st = MF_OK;

    pthread_mutex_lock(&p->lock);
    while (p->sending && !p->dead && st == MF_OK) {
        if (deadline_ns <= 0)
            (void)pthread_cond_wait(&p->changed, &p->lock);
        else if (!mf_cond_wait_until(&p->changed, &p->lock, deadline_ns))
            st = MF_FAIL(MF_DEADLINE_EXCEEDED, "the peer does not read fast enough");
    }
    if (st == MF_OK && p->dead)
        st = MF_FAIL(MF_UNAVAILABLE, "the connection is closed");
    if (st == MF_OK)
        p->sending = true;
    pthread_mutex_unlock(&p->lock);
    return st;
}

mf_status wire_send(mpi_wire *t, int peer, const mf_frame *f, const char *data, int64_t deadline_ns)
{
    mpi_peer *p = &t->peers[peer];
    mf_status st;

    MF_TRY(begin_sending(p, deadline_ns));
    st = mpi_send_parts(t, peer, f, data, deadline_ns);
    pthread_mutex_lock(&p->lock);
    p->sending = false;
    p->dead |= st != MF_OK; /* the frame may be partially sent */
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return st;
}

bool wire_flush(mpi_wire *t, int64_t deadline_ns)
{
    bool all = true;

    for (int i = 0; i < t->n_peers; i++) {
        for (int k = 0; k < WINDOW; k++)
            all &= wait_for_place(t, i, &t->peers[i].out[k], deadline_ns, NULL) == MF_OK;
    }
    return all;
}
