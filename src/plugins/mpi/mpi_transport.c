/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_transport.c - the transport `mpi`: opening, greetings, closing. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "plugins/mpi/mpi_plugin.h"
#include "plugins/mpi/mpi_wire.h"

#include <stdio.h>
#include <string.h>

/* ---- opening ---- */

static mf_status start_mpi(mpi_wire *t)
{
    int has = 0, over = 0, provided = MPI_THREAD_SINGLE;

    (void)MPI_Finalized(&over);
    if (over)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "MPI was finalized in this process and cannot be started again");
    (void)MPI_Initialized(&has);
    if (has) {
        (void)MPI_Query_thread(&provided);
    } else {
        MF_TRY(wire_error(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), "start"));
        t->ours = true;
    }
    if (provided < MPI_THREAD_SERIALIZED)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "MPI was started without threads: it needs MPI_THREAD_SERIALIZED");
    MF_TRY(wire_error(MPI_Comm_dup(MPI_COMM_WORLD, &t->comm), "make a communicator"));
    (void)MPI_Comm_set_errhandler(t->comm, MPI_ERRORS_RETURN);
    return MF_OK;
}

static mf_status check_ranks(const mpi_wire *t)
{
    int rank = -1, size = 0;

    (void)MPI_Comm_rank(t->comm, &rank);
    (void)MPI_Comm_size(t->comm, &size);
    if (size != t->n_peers)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "MPI started %d processes, but the job has %d "
                       "tasks",
                       size, t->n_peers);
    if (rank != t->self)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "this process is rank %d of MPI but task %d of the job: they must be equal",
                       rank, t->self);
    return MF_OK;
}

/* MPI neither encrypts nor authenticates. Collective: all ranks get the same result. */
static mf_status check_hosts(const mpi_wire *t, bool trusted)
{
    MPI_Comm host = MPI_COMM_NULL;
    int here = t->n_peers;

    if (trusted ||
        MPI_Comm_split_type(t->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) != MPI_SUCCESS)
        return MF_OK;
    (void)MPI_Comm_size(host, &here);
    (void)MPI_Comm_free(&host);
    if (here == t->n_peers)
        return MF_OK;
    return MF_FAIL(MF_FAILED_PRECONDITION,
                   "only %d of %d tasks are on this host, and MPI does not encrypt: declare the "
                   "network trusted (--trusted-network), or use transport 'grpc' with "
                   "certificates (`meshflow cert`)",
                   here, t->n_peers);
}

static mf_status mpi_transport_make_room(mpi_wire *t)
{
    const int64_t all = 1 + (int64_t)t->n_peers * WINDOW;

    t->peers = mf_calloc(t->n_peers, sizeof *t->peers);
    t->greeting = mf_calloc(HELLO_MAX, 1);
    t->recv_requests = mf_calloc(all, sizeof *t->recv_requests);
    t->statuses = mf_calloc(all, sizeof *t->statuses);
    t->indices = mf_calloc(all, sizeof *t->indices);
    t->wanted = mf_calloc(t->n_peers, 1);
    if (!t->peers || !t->greeting || !t->recv_requests || !t->statuses || !t->indices || !t->wanted)
        return MF_NOMEM("connections");
    for (int64_t i = 0; i < all; i++)
        t->recv_requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < t->n_peers; i++) {
        mpi_peer *p = &t->peers[i];

        pthread_mutex_init(&p->lock, NULL);
        mf_cond_init(&p->changed);
        for (int k = 0; k < WINDOW; k++)
            p->out[k].request = MPI_REQUEST_NULL;
        p->first = mf_calloc(MF_FRAME_BYTES + SMALL, 1);
        if (!p->first)
            return MF_NOMEM("connections");
    }
    return MF_OK;
}

static mf_status mpi_transport_start(mpi_wire *t, bool trusted)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int n = 0;

    MF_TRY(mpi_transport_make_room(t));
    MF_TRY(start_mpi(t));
    MF_TRY(check_ranks(t));
    MF_TRY(check_hosts(t, trusted));
    (void)MPI_Get_processor_name(name, &n);
    (void)snprintf(t->address, sizeof t->address, "rank %d on %.40s", t->self, name);
    t->hello = t->inbox->kind->greeting(t->inbox, t->address);
    if (!t->hello)
        return MF_RESOURCE_EXHAUSTED;
    wire_await_greeting(t);
    if (mf_thread_start(&t->thread, wire_poll, t) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread");
    t->has_thread = true;
    return MF_OK;
}

static void mpi_close(mf_transport *transport);

static mf_status mpi_open(const mf_transport_options *o, mf_transport **out)
{
    mpi_wire *t = mf_calloc(1, sizeof *t);
    mf_status st;

    *out = NULL;
    if (!t)
        return MF_NOMEM("connections");
    t->base.kind = &mf_transport_mpi;
    t->inbox = o->inbox;
    t->self = o->self;
    t->n_peers = o->n_peers;
    t->comm = MPI_COMM_NULL;
    pthread_mutex_init(&t->lock, NULL);
    st = mpi_transport_start(t, o->security.trusted);
    if (st != MF_OK)
        mpi_close(&t->base);
    else
        *out = &t->base;
    return st;
}

static const char *mpi_address(const mf_transport *transport)
{
    return ((const mpi_wire *)transport)->address;
}

/* ---- greetings ---- */

static mf_status mpi_transport_await_answer(mpi_wire *t, int peer, char *text, int64_t deadline_ns)
{
    MPI_Request request;
    MPI_Status status;
    int done = 0, n = 0, code;

    pthread_mutex_lock(&t->lock);
    code = MPI_Irecv(text, HELLO_MAX - 1, MPI_BYTE, peer, TAG_ANSWER, t->comm, &request);
    pthread_mutex_unlock(&t->lock);
    MF_TRY(wire_error(code, "receive"));
    for (int idle = 0; !done; wire_pause(&idle)) {
        const bool late = deadline_ns > 0 && mf_clock_ns() >= deadline_ns;

        pthread_mutex_lock(&t->lock);
        code = MPI_Test(&request, &done, &status);
        if (!done && late) {
            (void)MPI_Cancel(&request);
            (void)MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        pthread_mutex_unlock(&t->lock);
        MF_TRY(wire_error(code, "receive"));
        if (!done && late)
            return MF_FAIL(MF_DEADLINE_EXCEEDED, "no response");
    }
    (void)MPI_Get_count(&status, MPI_BYTE, &n);
    text[n] = '\0';
    if (n < 1 || text[0] < 0 || text[0] > MF_UNAUTHENTICATED)
        return MF_FAIL(MF_DATA_LOSS, "invalid reply");
    return text[0] == MF_OK ? MF_OK : MF_FAIL((mf_status)text[0], "%s", text + 1);
}

static mf_status mpi_connect(mf_transport *transport, int peer, const char *address,
                             int64_t deadline_ns)
{
    mpi_wire *t = (mpi_wire *)transport;
    char text[HELLO_MAX];
    int who = -1;

    (void)address;
    MF_TRY(wire_post(t, peer, TAG_HELLO, t->hello, strlen(t->hello), NULL, 0, deadline_ns, NULL));
    MF_TRY(mpi_transport_await_answer(t, peer, text, deadline_ns));
    MF_TRY(t->inbox->kind->hello(t->inbox, text + 1, &who));
    if (who != peer)
        return MF_FAIL(MF_FAILED_PRECONDITION, "rank %d is task %d", peer, who);
    pthread_mutex_lock(&t->lock);
    t->wanted[peer] |= WANT_OPEN;
    pthread_mutex_unlock(&t->lock);
    t->inbox->kind->ready(t->inbox, peer);
    return MF_OK;
}

/* ---- sending, closing ---- */

static mf_status mpi_send(mf_transport *transport, int peer, const mf_frame *f, const void *data,
                          int64_t deadline_ns)
{
    return wire_send((mpi_wire *)transport, peer, f, data, deadline_ns);
}

static void mpi_drop(mf_transport *transport, int peer)
{
    mpi_wire *t = (mpi_wire *)transport;

    pthread_mutex_lock(&t->lock);
    t->wanted[peer] |= WANT_DROP;
    pthread_mutex_unlock(&t->lock);
}

/* Notifies the peers, and waits a short time for sent messages to leave. */
static bool mpi_transport_send_end(mpi_wire *t)
{
    const int64_t soon = mf_clock_ns() + 1000000000;

    for (int i = 0; i < t->n_peers; i++) {
        if (t->peers[i].open && !t->peers[i].dead &&
            wire_post(t, i, TAG_FRAME, NULL, 0, NULL, 0, soon, NULL) != MF_OK)
            MF_LOG(MF_LOG_DEBUG, "rank %d: %s", i, mf_error_message());
    }
    return wire_flush(t, soon);
}

static void cancel_receives(mpi_wire *t)
{
    for (int i = 0; t->recv_requests && i < 1 + t->n_peers * WINDOW; i++) {
        if (t->recv_requests[i] == MPI_REQUEST_NULL)
            continue;
        (void)MPI_Cancel(&t->recv_requests[i]);
        (void)MPI_Wait(&t->recv_requests[i], MPI_STATUS_IGNORE);
    }
}

static void free_peer(mpi_peer *p)
{
    for (int k = 0; k < WINDOW; k++) {
        if (p->out[k].request == MPI_REQUEST_NULL)
            mf_free(p->out[k].bytes); /* otherwise MPI may still read it: leaking is safer */
    }
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    mf_free(p->first);
}

/* Finalizes MPI when all tasks end together: MPI_Finalize() waits for the others. If a message is
 * stuck, it would wait without limit; the process then exits without it, which mpirun reports. */
static void mpi_close(mf_transport *transport)
{
    mpi_wire *t = (mpi_wire *)transport;
    bool clean = true;

    pthread_mutex_lock(&t->lock);
    t->closing = true;
    pthread_mutex_unlock(&t->lock);
    if (t->has_thread) {
        pthread_join(t->thread, NULL);
        clean = mpi_transport_send_end(t);
        cancel_receives(t);
    }
    if (t->comm != MPI_COMM_NULL && clean && t->ours)
        (void)MPI_Finalize();
    for (int i = 0; t->peers && i < t->n_peers; i++)
        free_peer(&t->peers[i]);
    pthread_mutex_destroy(&t->lock);
    mf_free(t->peers);
    mf_free(t->greeting);
    mf_free(t->recv_requests);
    mf_free(t->statuses);
    mf_free(t->indices);
    mf_free(t->wanted);
    mf_free(t);
}

const mf_transport_kind mf_transport_mpi = {
    .name = "mpi",
    .about = "MPI messages between tasks that mpirun or srun started",
    .knows_peers = true,
    .open = mpi_open,
    .address = mpi_address,
    .connect = mpi_connect,
    .send = mpi_send,
    .drop = mpi_drop,
    .close = mpi_close,
};
