/* SPDX-License-Identifier: Apache-2.0 */
/* uds_transport.c - threads that wait poll the connections themselves, next to the transport's
 * thread. */
#include "base/clock.h"
#include "base/mem.h"
#include "mf_test.h"
#include "net/net_private.h"
#include "unit/net/net_tasks.h"

#include <pthread.h>
#include <stdatomic.h>

enum { REQUESTS = 300 };

static void poll_once(mf_net *net)
{
    (void)net->transport->kind->poll(net->transport);
}

typedef struct servant {
    pthread_t poller;
    atomic_llong served, by_poller;
    atomic_bool ordered;
} servant;

static void serve_request(void *ctx, int from, const mf_frame *f, void *data)
{
    servant *s = ctx;

    (void)from;
    if (f->step != atomic_fetch_add(&s->served, 1))
        atomic_store(&s->ordered, false);
    if (pthread_equal(pthread_self(), s->poller))
        atomic_fetch_add(&s->by_poller, 1);
    mf_free(data);
}

/* Task 1 sends messages of a collective and requests in turn; task 0 polls. */
static bool serve_while_polling(mf_net *net, void *arg)
{
    const int64_t until = mf_clock_ns() + 60000000000;
    mf_frame word = { .kind = MF_MESSAGE_COLLECTIVE, .group = 7, .size = 4 };
    mf_frame request = { .kind = MF_MESSAGE_REQUEST, .group = 8 };
    servant s = { .poller = pthread_self(), .ordered = true };
    int told = 0;

    (void)arg;
    word.step = -1; /* task 0 serves: earlier requests would be served by this thread */
    if (mf_net_self(net) == 0)
        mf_net_serve(net, serve_request, &s);
    if ((mf_net_self(net) == 0 ? mf_net_send(net, 1, &word, &told, until)
                               : mf_net_recv(net, 0, &word, &told, until, "a word")) != MF_OK)
        return false;
    for (int i = 0; i < REQUESTS; i++) {
        word.step = request.step = i;
        if (mf_net_self(net) == 1 && (mf_net_send(net, 0, &word, &i, until) != MF_OK ||
                                      mf_net_send(net, 0, &request, NULL, until) != MF_OK))
            return false;
        if (mf_net_self(net) == 0 &&
            (mf_net_recv(net, 1, &word, &told, until, "a word") != MF_OK || told != i))
            return false;
    }
    word.step = REQUESTS; /* task 1 stays until all requests are served */
    if (mf_net_self(net) == 1)
        return mf_net_recv(net, 0, &word, &told, until, "thanks") == MF_OK;
    while (atomic_load(&s.served) < REQUESTS && mf_clock_ns() < until)
        poll_once(net);
    mf_net_serve(net, NULL, NULL);
    T_EQ(atomic_load(&s.by_poller), 0);
    return atomic_load(&s.served) == REQUESTS && atomic_load(&s.ordered) &&
           mf_net_send(net, 1, &word, &told, until) == MF_OK;
}

MF_TEST(comm_net_a_thread_that_polls_leaves_requests_to_the_transport)
{
    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = serve_while_polling }));
}

static bool lose_while_polling(mf_net *net, void *arg)
{
    const int64_t until = mf_clock_ns() + 60000000000;

    (void)arg;
    if (mf_net_self(net) == 1)
        mf_net_drop(net, 0);
    while (mf_net_check(net) == MF_OK && mf_clock_ns() < until)
        poll_once(net);
    T_FAILS(MF_UNAVAILABLE, "is lost: its connection", mf_net_check(net));
    return true;
}

MF_TEST(comm_net_a_connection_that_ends_during_polls_is_reported)
{
    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = lose_while_polling }));
}

/* Both send more than the connection holds before they receive. */
static bool send_while_sending(mf_net *net, void *arg)
{
    enum { COUNT = 1 << 20 };
    const int64_t until = mf_clock_ns() + 60000000000;
    const int other = 1 - mf_net_self(net);
    int *out = mf_calloc(COUNT, sizeof *out), *in = mf_calloc(COUNT, sizeof *in);
    mf_net_waiter w = {
        .frame = { .kind = MF_MESSAGE_COLLECTIVE, .group = 7, .size = COUNT * sizeof *in },
        .from = other,
        .data = in,
        .what = "numbers"
    };
    bool ok;

    (void)arg;
    net->transport->polls = 1 << 30; /* never sleep */
    for (int i = 0; i < COUNT; i++)
        out[i] = i * (other + 2);
    mf_net_post(net, &w);
    ok = mf_net_send(net, other, &w.frame, out, until) == MF_OK;
    ok = mf_net_finish(net, &w, until) == MF_OK && ok;
    for (int i = 0; i < COUNT && ok; i++)
        ok = in[i] == i * (3 - other);
    mf_free(out);
    mf_free(in);
    return ok;
}

MF_TEST(comm_net_a_thread_that_sends_reads_what_its_peer_sends_meanwhile)
{
    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = send_while_sending }));
}
