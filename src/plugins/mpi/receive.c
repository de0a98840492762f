/* SPDX-License-Identifier: Apache-2.0 */
/* receive.c - the polling thread: greetings, frames, and the end of connections. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "plugins/mpi/mpi_wire.h"

#include <stdio.h>
#include <string.h>

static MPI_Request *recv_requests_of(mpi_wire *t, int peer)
{
    return &t->recv_requests[1 + peer * WINDOW];
}

static void mpi_receive_ask(mpi_wire *t, void *to, size_t n, int from, int tag,
                            MPI_Request *request)
{
    pthread_mutex_lock(&t->lock);
    (void)MPI_Irecv(to, (int)n, MPI_BYTE, from, tag, t->comm, request);
    pthread_mutex_unlock(&t->lock);
}

void wire_await_greeting(mpi_wire *t)
{
    mpi_receive_ask(t, t->greeting, HELLO_MAX - 1, MPI_ANY_SOURCE, TAG_HELLO, &t->recv_requests[0]);
}

static void mpi_receive_await_frame(mpi_wire *t, int peer)
{
    mpi_receive_ask(t, t->peers[peer].first, MF_FRAME_BYTES + SMALL, peer, TAG_FRAME,
                    recv_requests_of(t, peer));
}

/* ---- the end of a connection ---- */

static void end_peer(mpi_wire *t, int peer, const char *why)
{
    mpi_peer *p = &t->peers[peer];

    if (!p->open)
        return;
    p->open = false;
    pthread_mutex_lock(&t->lock);
    for (int k = 0; k < WINDOW; k++) {
        MPI_Request *r = recv_requests_of(t, peer) + k;

        if (*r != MPI_REQUEST_NULL) { /* a cancelled receive completes immediately */
            (void)MPI_Cancel(r);
            (void)MPI_Wait(r, MPI_STATUS_IGNORE);
        }
    }
    pthread_mutex_unlock(&t->lock);
    pthread_mutex_lock(&p->lock);
    p->dead = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    t->inbox->kind->gone(t->inbox, peer, why);
}

/* ---- greetings ---- */

static void mpi_receive_take_greeting(mpi_wire *t, const MPI_Status *status)
{
    const int from = status->MPI_SOURCE;
    int n = 0, who = -1;
    mf_status st;
    unsigned char code;
    const char *text;

    (void)MPI_Get_count(status, MPI_BYTE, &n);
    t->greeting[n > 0 ? n : 0] = '\0';
    st = t->inbox->kind->hello(t->inbox, t->greeting, &who);
    if (st == MF_OK && who != from)
        st = MF_FAIL(MF_FAILED_PRECONDITION,
                     "task %d is rank %d: the order of tasks differs in "
                     "MPI",
                     who, from);
    code = (unsigned char)st;
    text = st == MF_OK ? t->hello : mf_error_message();
    if (wire_post(t, from, TAG_ANSWER, &code, 1, text, strlen(text), mf_clock_ns() + 5000000000,
                  NULL) != MF_OK) {
        MF_WARN("cannot reply to rank %d: %s", from, mf_error_message());
    } else if (st == MF_OK) {
        t->peers[from].open = true;
        mpi_receive_await_frame(t, from);
        t->inbox->kind->ready(t->inbox, from);
    } else {
        t->inbox->kind->refused(t->inbox);
    }
    wire_await_greeting(t);
}

/* ---- frames ---- */

static size_t piece_at(const mpi_peer *p, size_t at)
{
    return p->frame.size - at < PIECE ? (size_t)p->frame.size - at : PIECE;
}

/* Pieces arrive in the order of the posted receives, so slots are used in rotation. */
static void ask_for_pieces(mpi_wire *t, int peer)
{
    mpi_peer *p = &t->peers[peer];

    for (int k = 0; k < WINDOW && p->asked < p->frame.size; k++) {
        MPI_Request *r = recv_requests_of(t, peer) + k;
        const size_t n = piece_at(p, p->asked);

        if (*r != MPI_REQUEST_NULL)
            continue;
        mpi_receive_ask(t, p->data + p->asked, n, peer, TAG_DATA, r);
        p->asked += n;
    }
}

static void mpi_receive_take_frame(mpi_wire *t, int peer, int n)
{
    mpi_peer *p = &t->peers[peer];
    const bool head = n >= MF_FRAME_BYTES && mf_frame_read((unsigned char *)p->first, &p->frame);
    const size_t small = head && p->frame.size <= SMALL ? (size_t)p->frame.size : 0;
    char *data;

    if (n == 0) {
        end_peer(t, peer, "its connection was closed");
        return;
    }
    if (!head || (size_t)n != MF_FRAME_BYTES + small) {
        end_peer(t, peer, "the peer sent an invalid message");
        return;
    }
    data = t->inbox->kind->begin(t->inbox, peer, &p->frame);
    if (!data) {
        end_peer(t, peer, mf_error_message());
        return;
    }
    if (p->frame.size > SMALL) {
        p->data = data;
        p->asked = p->have = 0;
        ask_for_pieces(t, peer);
        return;
    }
    if (small > 0)
        memcpy(data, p->first + MF_FRAME_BYTES, small);
    t->inbox->kind->end(t->inbox, peer, &p->frame);
    mpi_receive_await_frame(t, peer);
}

static void take_piece(mpi_wire *t, int peer, int n)
{
    mpi_peer *p = &t->peers[peer];

    p->have += (size_t)n;
    if (p->have < p->frame.size) {
        ask_for_pieces(t, peer);
        return;
    }
    p->data = NULL;
    t->inbox->kind->end(t->inbox, peer, &p->frame);
    mpi_receive_await_frame(t, peer);
}

static void mpi_receive_take(mpi_wire *t, int index, const MPI_Status *status, int code)
{
    const int peer = (index - 1) / WINDOW;
    int n = 0;

    if (index == 0) {
        mpi_receive_take_greeting(t, status);
        return;
    }
    if (!t->peers[peer].open)
        return;
    if (wire_error(code, "receive") != MF_OK) {
        end_peer(t, peer, mf_error_message());
        return;
    }
    (void)MPI_Get_count(status, MPI_BYTE, &n);
    if (t->peers[peer].data)
        take_piece(t, peer, n);
    else
        mpi_receive_take_frame(t, peer, n);
}

/* ---- the thread ---- */

/* Requests of other threads. */
static bool take_requests(mpi_wire *t)
{
    bool closing;

    for (int i = 0; i < t->n_peers; i++) {
        unsigned char want;

        pthread_mutex_lock(&t->lock);
        want = t->wanted[i];
        t->wanted[i] = 0;
        pthread_mutex_unlock(&t->lock);
        if (want & WANT_OPEN) {
            t->peers[i].open = true;
            mpi_receive_await_frame(t, i);
        }
        if (want & WANT_DROP)
            end_peer(t, i, "the connection was abandoned");
    }
    pthread_mutex_lock(&t->lock);
    closing = t->closing;
    pthread_mutex_unlock(&t->lock);
    return closing;
}

void *wire_poll(void *arg)
{
    mpi_wire *t = arg;
    const int all = 1 + t->n_peers * WINDOW;

    for (int idle = 0; !take_requests(t);) {
        int n = 0, code;

        pthread_mutex_lock(&t->lock);
        code = MPI_Testsome(all, t->recv_requests, &n, t->indices, t->statuses);
        pthread_mutex_unlock(&t->lock);
        for (int i = 0; n != MPI_UNDEFINED && i < n; i++)
            mpi_receive_take(t, t->indices[i], &t->statuses[i],
                             code == MPI_ERR_IN_STATUS ? t->statuses[i].MPI_ERROR : MPI_SUCCESS);
        if (n != MPI_UNDEFINED && n > 0)
            idle = 0;
        else
            wire_pause(&idle);
    }
    return NULL;
}
