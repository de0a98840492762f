/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - tasks of one host connect, exchange messages, and detect the end of each other. */
#include "net/net.h"

#include "base/clock.h"
#include "base/mem.h"
#include "mf_test.h"
#include "unit/net/net_tasks.h"
#include "unit/net/transport_conform.h"

#include <stdatomic.h>
#include <time.h>

MF_TEST(comm_net_tasks_connect_by_addresses_or_a_rendezvous_address)
{
    way w = { 0 };

    way_init(&w, "local", 5);
    talk_meet(&w);
}

MF_TEST(comm_net_incompatible_tasks_are_refused_and_both_are_named)
{
    talk_refuse("local");
}

MF_TEST(comm_net_an_abort_sends_its_reason_to_all_tasks)
{
    talk_give_up("local");
}

MF_TEST(comm_net_a_task_that_is_killed_is_named_at_once)
{
    way w = { 0 };

    way_init(&w, "local", 3);
    talk_kill(&w);
}

/* ---- a star: worker 0 aborts; worker 1 and the hub, worker 2, continue ---- */

static bool star_of_three(mf_net *net, void *arg)
{
    const int64_t until = mf_clock_ns() + 20000000000;
    const mf_frame word = { .kind = MF_MESSAGE_REQUEST, .group = 7, .size = 0 };
    const int self = mf_net_self(net);
    size_t size;
    void *data;

    (void)arg;
    if (self == 0) {
        mf_net_abort(net, MF_FAIL(MF_ABORTED, "tired"));
        return true;
    }
    while (self == 2 && mf_net_check_task(net, 0) == MF_OK && mf_clock_ns() < until)
        (void)nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    if (self == 2 && mf_net_send(net, 1, &word, NULL, until) != MF_OK)
        return false;
    if (mf_net_take(net, self == 2 ? 1 : 2, &word, &data, &size, until, "a word") != MF_OK)
        return false;
    mf_free(data);
    if (self == 1) /* it has no connection to worker 0 */
        return mf_net_send(net, 2, &word, NULL, until) == MF_OK && mf_net_check(net) == MF_OK;
    T_FAILS(MF_ABORTED, "worker 0 aborted: tired", mf_net_check_task(net, 0));
    return mf_net_check(net) == MF_OK;
}

MF_TEST(comm_net_a_lost_task_of_a_star_does_not_affect_the_others)
{
    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 3, .star = true, .run = star_of_three }));
}

/* ---- servers start and end while requests arrive ---- */

enum { REQUESTS = 20000 };

typedef struct clerk {
    atomic_bool serves;
    int64_t next; /* the number of the expected request */
} clerk;

static void serve_one(void *ctx, int from, const mf_frame *f, void *data)
{
    clerk *c = ctx;

    (void)from;
    T_TRUE(atomic_load(&c->serves));
    T_EQ(f->step, c->next);
    c->next++;
    mf_free(data);
}

static bool ask_or_serve(mf_net *net, void *arg)
{
    const int64_t until = mf_clock_ns() + 60000000000;
    mf_frame f = { .kind = MF_MESSAGE_REQUEST, .group = 7, .size = 0 };
    clerk c = { .next = 0 };

    (void)arg;
    if (mf_net_self(net) == 0) {
        for (; f.step < REQUESTS; f.step++) {
            if (mf_net_send(net, 1, &f, NULL, until) != MF_OK)
                return false;
        }
        f.kind = MF_MESSAGE_REPLY; /* otherwise this task would exit before all is read */
        return mf_net_recv(net, 1, &f, NULL, until, "thanks") == MF_OK;
    }
    while (c.next < REQUESTS && mf_clock_ns() < until) {
        atomic_store(&c.serves, true);
        mf_net_serve(net, serve_one, &c);
        mf_net_serve(net, NULL, NULL);
        atomic_store(&c.serves, false);
    }
    f = (mf_frame){ .kind = MF_MESSAGE_REPLY, .group = 7, .step = REQUESTS };
    return c.next == REQUESTS && mf_net_send(net, 0, &f, NULL, until) == MF_OK;
}

MF_TEST(comm_net_requests_are_served_in_order_by_the_current_server)
{
    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = ask_or_serve }));
}
