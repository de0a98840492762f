/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_server.c - a sequence of requests to TensorFlow's MasterService and WorkerService of a
 * cluster with
 * two tasks in this process. The whole server runs: parsing, graphs, placement, partitions, steps,
 * values
 * between tasks.
 *
 *     call    selector (1 byte: bits 0-4 the method, 5: do not wait for the response, 6: the second
 *     task)
 *             size (3 bytes, little-endian)
 *             the request
 *
 * In a request the text "@latest@session@" stands for the session that was created last. The
 * incarnations
 * of the tasks, which are part of rendezvous keys, are 1 and 2. A call that takes long is
 * cancelled, and
 * must end then. */
#include "base/clock.h"
#include "base/quota.h"
#include "proto/master.pb-c.h"
#include "proto/wire.h"
#include "rpc/inproc_rpc.h"
#include "tensor/buffer.h"
#include "tf_server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TASKS = 2,
    HEAD = 4,
    CALLS_MAX = 256,
    PATIENCE_MS = 400,
    MEMORY = 256 << 20,
    HANDLE = 16, /* length of a session handle */
};

/* The corpus refers to them by index: append new ones. */
static const char *const methods[] = {
    "/tensorflow.MasterService/CreateSession",
    "/tensorflow.MasterService/ExtendSession",
    "/tensorflow.MasterService/PartialRunSetup",
    "/tensorflow.MasterService/RunStep",
    "/tensorflow.MasterService/CloseSession",
    "/tensorflow.MasterService/ListDevices",
    "/tensorflow.MasterService/Reset",
    "/tensorflow.MasterService/MakeCallable",
    "/tensorflow.MasterService/RunCallable",
    "/tensorflow.MasterService/ReleaseCallable",
    "/tensorflow.WorkerService/GetStatus",
    "/tensorflow.WorkerService/CreateWorkerSession",
    "/tensorflow.WorkerService/DeleteWorkerSession",
    "/tensorflow.WorkerService/RegisterGraph",
    "/tensorflow.WorkerService/DeregisterGraph",
    "/tensorflow.WorkerService/RunGraph",
    "/tensorflow.WorkerService/CleanupGraph",
    "/tensorflow.WorkerService/CleanupAll",
    "/tensorflow.WorkerService/RecvTensor",
    "/tensorflow.WorkerService/MarkRecvFinished",
    "/tensorflow.WorkerService/Logging",
    "/tensorflow.WorkerService/Tracing",
    "/tensorflow.WorkerService/CompleteGroup",
    "/tensorflow.WorkerService/CompleteInstance",
    "/tensorflow.WorkerService/GetStepSequence",
    "/tensorflow.WorkerService/RecvBuf",
};

/* ---- responses ---- */

typedef struct client {
    mf_server *servers[TASKS];
    mf_rpc_channel *channels[TASKS];
    bool tells; /* prints how calls end */
    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t changed;
    int answered;
    char session[HANDLE + 1];
} client;

typedef struct asked {
    client *c;
    const char *method;
} asked;

static void note_session(client *c, const void *data, size_t size)
{
    mf_arena *arena = mf_arena_new();
    ProtobufCMessage *m;

    MF_ASSERT(arena && mf_wire_decode(&tensorflow__create_session_response__descriptor, data, size,
                                      NULL, arena, &m) == MF_OK);
    (void)snprintf(c->session, sizeof c->session, "%s",
                   ((Tensorflow__CreateSessionResponse *)m)->session_handle);
    mf_arena_free(arena);
}

static void done(void *ctx, mf_status status, const char *message, mf_iovec *parts, int n)
{
    asked *a = ctx;
    client *c = a->c;

    if (c->tells)
        fprintf(stderr, "    %s: %s %.300s\n", strrchr(a->method, '/') + 1, mf_status_name(status),
                message);
    pthread_mutex_lock(&c->lock);
    if (status == MF_OK && n == 1 && a->method == methods[0])
        note_session(c, parts->data, parts->size);
    c->answered++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    free(a);
}

/* ---- requests ---- */

static void name_session(const client *c, uint8_t *data, size_t size)
{
    const uint8_t *end = data + size;

    while (c->session[0] != '\0' &&
           (data = memmem(data, (size_t)(end - data), "@latest@session@", HANDLE)) != NULL)
        memcpy(data, c->session, HANDLE);
}

static void ask(client *c, uint8_t which, const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    asked *a = malloc(sizeof *a);
    const mf_iovec part = { .data = copy, .size = size };

    MF_ASSERT(copy && a);
    if (size > 0)
        memcpy(copy, data, size);
    name_session(c, copy, size);
    *a = (asked){ c, methods[(which & 31) % MF_COUNT(methods)] };
    (void)mf_rpc_inproc.ask(
        c->channels[which >> 6 & 1],
        &(mf_rpc_question){ .method = a->method,
                            .parts = &part,
                            .n_parts = 1,
                            .deadline_ns = mf_clock_ns() + PATIENCE_MS * INT64_C(1000000),
                            .done = done,
                            .ctx = a });
    free(copy);
}

static void await(client *c, int n)
{
    pthread_mutex_lock(&c->lock);
    while (c->answered < n)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

static void ask_all(client *c, const uint8_t *data, size_t size)
{
    int n = 0;

    while (size >= HEAD && n < CALLS_MAX) {
        const size_t told = (size_t)data[1] | (size_t)data[2] << 8 | (size_t)data[3] << 16;
        const size_t len = told < size - HEAD ? told : size - HEAD;

        ask(c, data[0], data + HEAD, len);
        n++;
        if (!(data[0] & 32))
            await(c, n);
        data += HEAD + len;
        size -= HEAD + len;
    }
    await(c, n);
}

/* ---- the cluster ---- */

static void open_servers(client *c)
{
    static const char *const jobs[TASKS] = { "worker", "ps" };

    for (int i = 0; i < TASKS; i++) {
        const mf_server_options o = { .cluster = "{\"worker\": [\"a:1\"], \"ps\": [\"b:1\"]}",
                                      .job_name = jobs[i],
                                      .threads = 2 };

        MF_ASSERT(mf_server_open(&o, &mf_rpc_inproc, &c->servers[i]) == MF_OK);
        c->servers[i]->incarnation = (uint64_t)i + 1;
    }
    for (int i = 0; i < TASKS; i++) {
        const mf_server *other = c->servers[1 - i];

        MF_ASSERT(mf_server_tasks_move(&c->servers[i]->tasks, other->tasks.self,
                                       mf_server_self(other)->address) == MF_OK);
        MF_ASSERT(mf_rpc_inproc.connect(mf_server_self(c->servers[i])->address, &(mf_security){ 0 },
                                        &c->channels[i]) == MF_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    client c = { .lock = PTHREAD_MUTEX_INITIALIZER,
                 .changed = PTHREAD_COND_INITIALIZER,
                 .tells = getenv("FUZZ_TELL") != NULL };

    mf_quota_set(MEMORY);
    open_servers(&c);
    ask_all(&c, data, size);
    for (int i = 0; i < TASKS; i++)
        mf_rpc_inproc.disconnect(c.channels[i]);
    for (int i = 0; i < TASKS; i++)
        mf_server_free(c.servers[i]);
    mf_buffer_trim();
    return 0;
}
