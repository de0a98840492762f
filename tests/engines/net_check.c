/* SPDX-License-Identifier: Apache-2.0 */
/* net_check.c - one task of a job that only talks: started by mpirun, or once for each host.
 *
 * Usage: net-check mpi                             under mpirun or mpiexec
 *        net-check TRANSPORT ADDRESS,... TASK      one of these
 *
 * All tasks send to all others: messages of all sizes, at once and in both directions, checked byte
 * by byte. Prints "task 1 of 4: ok", and how fast it was. */
#include "base/clock.h"
#include "base/mem.h"
#include "net/net.h"
#include "net/transport_registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 64, ROUNDS = 200, LARGE = 16 << 20, TIMES = 16 };

static const uint64_t sizes[] = { 0,     1,     48,      8191,          8192,    8193,
                                  16384, 16385, 1 << 20, (1 << 20) + 1, 5000003, 64 << 20 };

static unsigned char byte_of(int from, int k, uint64_t i)
{
    return (unsigned char)((uint64_t)from * 31 + (uint64_t)k * 7 + i * 131 + (i >> 13));
}

typedef struct one {
    mf_net *net;
    int to;
    mf_status st;
    char error[400];
} one;

static int64_t soon(void)
{
    return mf_clock_ns() + 60000000000;
}

static void *send_all(void *arg)
{
    one *o = arg;

    for (int k = 0; k < MF_COUNT(sizes) && o->st == MF_OK; k++) {
        const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = (uint32_t)k, .size = sizes[k] };
        unsigned char *data = malloc(sizes[k] + 1);

        for (uint64_t i = 0; i < sizes[k]; i++)
            data[i] = byte_of(mf_net_self(o->net), k, i);
        o->st = mf_net_send(o->net, o->to, &f, data, soon());
        free(data);
    }
    if (o->st != MF_OK)
        (void)snprintf(o->error, sizeof o->error, "%s", mf_error_message());
    return NULL;
}

static mf_status receive_all(mf_net *net, int from)
{
    for (int k = 0; k < MF_COUNT(sizes); k++) {
        const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = (uint32_t)k, .size = sizes[k] };
        unsigned char *data = malloc(sizes[k] + 1);
        mf_status st = mf_net_recv(net, from, &f, data, soon(), "a message");

        for (uint64_t i = 0; st == MF_OK && i < sizes[k]; i++) {
            if (data[i] != byte_of(from, k, i))
                st = MF_FAIL(MF_DATA_LOSS, "message %d of task %d: byte %llu is wrong", k, from,
                             (unsigned long long)i);
        }
        free(data);
        MF_TRY(st);
    }
    return MF_OK;
}

static mf_status exchange(mf_net *net, int n)
{
    one out[MAX_TASKS] = { 0 };
    pthread_t thread[MAX_TASKS] = { 0 };
    mf_status st = MF_OK;
    mf_error e = { 0 };

    for (int i = 0; i < n; i++) {
        out[i] = (one){ .net = net, .to = i };
        if (i != mf_net_self(net) && pthread_create(&thread[i], NULL, send_all, &out[i]) != 0)
            abort();
    }
    for (int i = 0; i < n && st == MF_OK; i++) {
        if (i != mf_net_self(net))
            st = receive_all(net, i);
    }
    if (st != MF_OK)
        mf_error_save(st, &e);
    for (int i = 0; i < n; i++) {
        if (i == mf_net_self(net))
            continue;
        pthread_join(thread[i], NULL);
        if (st == MF_OK && out[i].st != MF_OK)
            return MF_FAIL(out[i].st, "%s", out[i].error);
    }
    return st == MF_OK ? MF_OK : mf_error_restore(&e);
}

/* ---- how fast: tasks 0 and 1; the others wait for task 0's word ---- */

static mf_status small_ones(mf_net *net, int self)
{
    mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .step = 1, .size = 8 };
    char word[8] = "word";
    const int64_t since = mf_clock_ns();

    for (int i = 0; i < ROUNDS; i++) {
        f.seq = (uint32_t)i;
        if (self == 0)
            MF_TRY(mf_net_send(net, 1, &f, word, soon()));
        MF_TRY(mf_net_recv(net, 1 - self, &f, word, soon(), "a word"));
        if (self == 1)
            MF_TRY(mf_net_send(net, 0, &f, word, soon()));
    }
    if (self == 0)
        printf("a small message takes %.1f us\n",
               (double)(mf_clock_ns() - since) * 1e-3 / (2 * ROUNDS));
    return MF_OK;
}

static mf_status large_ones(mf_net *net, int self, char *data)
{
    mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .step = 2, .size = LARGE };
    const mf_frame done = { .kind = MF_MESSAGE_COLLECTIVE, .step = 3, .size = 1 };
    const int64_t since = mf_clock_ns();

    for (int i = 0; i < TIMES; i++) {
        f.seq = (uint32_t)i;
        MF_TRY(self == 0 ? mf_net_send(net, 1, &f, data, soon())
                         : mf_net_recv(net, 0, &f, data, soon(), "much"));
    }
    MF_TRY(self == 1 ? mf_net_send(net, 0, &done, "x", soon())
                     : mf_net_recv(net, 1, &done, data, soon(), "a word"));
    if (self == 0)
        printf("large messages travel with %.0f MB/s\n",
               1e-6 * LARGE * TIMES / ((double)(mf_clock_ns() - since) * 1e-9));
    return MF_OK;
}

static mf_status measure(mf_net *net, int n)
{
    const int self = mf_net_self(net);
    const mf_frame last = { .kind = MF_MESSAGE_COLLECTIVE, .step = 4, .size = 1 };
    char *data = calloc(1, LARGE);
    mf_status st = MF_OK;

    if (data && self < 2 && n > 1) {
        st = small_ones(net, self);
        if (st == MF_OK)
            st = large_ones(net, self, data);
    }
    for (int i = 1; self == 0 && i < n && st == MF_OK; i++)
        st = mf_net_send(net, i, &last, "x", soon());
    if (self > 0 && st == MF_OK)
        st = mf_net_recv(net, 0, &last, data, soon(), "the last word");
    free(data);
    return st;
}

static int rank_of(const char *a, const char *b)
{
    const char *text = getenv(a) ? getenv(a) : getenv(b);

    return text ? atoi(text) : 0;
}

static mf_status run(int argc, char **argv)
{
    const bool mpi = strcmp(argv[1], "mpi") == 0;
    mf_net_task tasks[MAX_TASKS];
    char names[MAX_TASKS][16], *list = argc > 3 ? argv[2] : NULL;
    mf_net_options o = { .tasks = tasks,
                         .timeout_ns = 30000000000,
                         .security.trusted = getenv("MESHFLOW_TEST_TRUSTED") != NULL };
    mf_net *net;
    mf_status st;

    o.n_tasks = mpi ? rank_of("OMPI_COMM_WORLD_SIZE", "PMI_SIZE") : 0;
    o.self = mpi ? rank_of("OMPI_COMM_WORLD_RANK", "PMI_RANK") : atoi(argv[argc - 1]);
    for (char *p = list; p && o.n_tasks < MAX_TASKS; o.n_tasks++)
        tasks[o.n_tasks].address = strsep(&p, ",");
    for (int i = 0; i < o.n_tasks && i < MAX_TASKS; i++) {
        (void)snprintf(names[i], sizeof names[i], "worker %d", i);
        tasks[i].name = names[i];
        tasks[i].address = mpi ? NULL : tasks[i].address;
    }
    MF_TRY(mf_transport_find(argv[1], &o.transport));
    MF_TRY(mf_net_open(&o, &net));
    st = exchange(net, o.n_tasks);
    if (st == MF_OK)
        st = measure(net, o.n_tasks);
    if (st == MF_OK)
        printf("task %d of %d: ok\n", o.self, o.n_tasks);
    else
        fprintf(stderr, "task %d: %s\n", o.self, mf_error_message());
    (void)fflush(stdout);
    mf_net_close(net);
    return st;
}

int main(int argc, char **argv)
{
    mf_status st;

    if (argc != 4 && !(argc == 2 && strcmp(argv[1], "mpi") == 0)) {
        fprintf(stderr, "usage: net-check mpi | net-check TRANSPORT ADDRESS,... TASK\n");
        return 2;
    }
    st = run(argc, argv);
    if (st != MF_OK)
        fprintf(stderr, "net-check: %s\n", mf_error_message());
    return st == MF_OK ? 0 : 1;
}
