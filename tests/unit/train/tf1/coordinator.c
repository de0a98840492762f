/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator.c - the Coordinator, which stops threads, and QueueRunner. */
#include "base/clock.h"
#include "base/status.h"
#include "mf_test.h"

#include <meshflow/coordinator.h>

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

typedef struct work {
    mf_coordinator *c;
    atomic_int turns, ended;
    int fail_at; /* 0: never */
} work;

static mf_status do_work(void *ctx)
{
    work *w = ctx;

    while (!mf_coordinator_should_stop(w->c)) {
        const int turn = atomic_fetch_add(&w->turns, 1) + 1;

        if (turn == w->fail_at) {
            atomic_fetch_add(&w->ended, 1);
            return MF_FAIL(MF_DATA_LOSS, "turn %d went wrong", turn);
        }
        (void)mf_coordinator_wait_for_stop(w->c, 1);
    }
    atomic_fetch_add(&w->ended, 1);
    return MF_OK;
}

MF_TEST(coordinator_returns_the_first_failure_and_stops_the_others)
{
    work w = { .fail_at = 20 };

    T_OK(mf_coordinator_new(&w.c));
    for (int i = 0; i < 8; i++)
        T_OK(mf_coordinator_start(w.c, "worker", do_work, &w));
    T_FAILS(MF_DATA_LOSS, "turn 20 went wrong", mf_coordinator_join(w.c, 5000));
    T_EQ(atomic_load(&w.ended), 8);
    T_TRUE(mf_coordinator_should_stop(w.c));
    mf_coordinator_request_stop(w.c, MF_FAIL(MF_INTERNAL, "too late"));
    T_FAILS(MF_DATA_LOSS, "turn 20", mf_coordinator_failure(w.c));
    mf_coordinator_clear_stop(w.c);
    T_TRUE(!mf_coordinator_should_stop(w.c));
    T_OK(mf_coordinator_join(w.c, 1));
    mf_coordinator_free(w.c);
}

MF_TEST(coordinator_stops_cleanly_when_the_input_has_ended)
{
    work w = { 0 };

    T_OK(mf_coordinator_new(&w.c));
    T_TRUE(!mf_coordinator_wait_for_stop(w.c, 1));
    T_OK(mf_coordinator_start(w.c, "worker", do_work, &w));
    mf_coordinator_request_stop(w.c, MF_FAIL(MF_OUT_OF_RANGE, "no more"));
    T_TRUE(mf_coordinator_wait_for_stop(w.c, -1));
    T_OK(mf_coordinator_join(w.c, 5000));
    mf_coordinator_free(w.c);
}

typedef struct sleeper {
    mf_coordinator *c;
    atomic_bool wake;
} sleeper;

static mf_status sleep_on(void *ctx)
{
    sleeper *s = ctx;

    while (!atomic_load(&s->wake))
        usleep(1000);
    return MF_OK;
}

MF_TEST(coordinator_names_threads_that_outlive_the_grace_time)
{
    static sleeper s; /* outlives the test's frame, as the thread does */
    const int64_t begin = mf_clock_ns();

    T_OK(mf_coordinator_new(&s.c));
    T_OK(mf_coordinator_start(s.c, "deaf one", sleep_on, &s));
    mf_coordinator_request_stop(s.c, MF_OK);
    T_FAILS(MF_DEADLINE_EXCEEDED, "still running: deaf one", mf_coordinator_join(s.c, 50));
    T_TRUE(mf_clock_ns() - begin >= 50 * 1000000);
    T_TRUE(mf_clock_ns() - begin < 20000 * 1000000LL);
    mf_coordinator_free(s.c); /* while it runs */
    atomic_store(&s.wake, true);
    usleep(20000);
}

static void *foreign(void *ctx)
{
    (void)do_work(ctx);
    return NULL;
}

MF_TEST(coordinator_joins_threads_that_others_started)
{
    work w = { 0 };
    pthread_t id;

    T_OK(mf_coordinator_new(&w.c));
    T_EQ(pthread_create(&id, NULL, foreign, &w), 0);
    T_OK(mf_coordinator_register_thread(w.c, "foreign", id));
    T_TRUE(!mf_coordinator_wait_for_stop(w.c, 5));
    mf_coordinator_request_stop(w.c, MF_OK);
    T_OK(mf_coordinator_join(w.c, 5000));
    T_EQ(atomic_load(&w.ended), 1);
    mf_coordinator_free(w.c);
}

MF_TEST(coordinator_accepts_concurrent_stops_and_joins)
{
    for (int round = 0; round < 50; round++) {
        work w = { .fail_at = round % 3 ? 5 : 0 };
        mf_status st;

        T_OK(mf_coordinator_new(&w.c));
        for (int i = 0; i < 6; i++)
            T_OK(mf_coordinator_start(w.c, "worker", do_work, &w));
        if (round % 2)
            mf_coordinator_request_stop(w.c, MF_OK);
        else if (!w.fail_at)
            mf_coordinator_request_stop(w.c, MF_FAIL(MF_ABORTED, "enough"));
        st = mf_coordinator_join(w.c, 10000);
        T_TRUE(st == MF_OK || st == MF_DATA_LOSS || st == MF_ABORTED);
        T_EQ(atomic_load(&w.ended), 6);
        mf_coordinator_free(w.c);
    }
}

/* ---- queues ---- */

typedef struct pipe_graph {
    mf_graph *g;
    mf_session *s;
    mf_coordinator *c;
} pipe_graph;

/* A queue of this capacity, filled with the values of a counter up to a limit. */
static pipe_graph pipe_new(int capacity, int limit)
{
    pipe_graph p;
    mf_output q, n, count;

    T_OK(mf_graph_new(&p.g));
    q = mf_applyf(p.g, "FIFOQueueV2", MF_NO_IN,
                  "component_types=[int64] shapes=[shape[]] capacity=%d name='q'", capacity);
    n = mf_applyf(p.g, "VariableV2", MF_NO_IN, "dtype=int64 shape=shape[] name='n'");
    (void)mf_applyf(p.g, "Assign", MF_IN(n, mf_scalar(p.g, MF_DTYPE_I64, 0)), "name='init'");
    count = mf_applyf(p.g, "CountUpTo", MF_IN(n), "limit=%d", limit);
    (void)mf_applyf(p.g, "QueueEnqueueV2", MF_IN(q, count), "name='enqueue'");
    (void)mf_applyf(p.g, "QueueDequeueV2", MF_IN(q), "component_types=[int64] name='dequeue'");
    (void)mf_applyf(p.g, "QueueCloseV2", MF_IN(q), "name='close'");
    (void)mf_applyf(p.g, "QueueCloseV2", MF_IN(q), "cancel_pending_enqueues=true name='cancel'");
    T_OK(mf_graph_status(p.g));
    T_OK(mf_session_new(p.g, &(mf_session_options){ .threads = 2 }, &p.s));
    T_OK(mf_session_run(p.s, NULL, NULL, NULL, 0, NULL, 0, (const char *[]){ "init" }, 1, NULL));
    T_OK(mf_coordinator_new(&p.c));
    return p;
}

static void pipe_free(pipe_graph *p)
{
    mf_coordinator_free(p->c);
    mf_session_free(p->s);
    mf_graph_free(p->g);
}

static void pipe_start(pipe_graph *p, int threads)
{
    const mf_queue_runner runner = { .enqueue = (const char *[]){ "enqueue" },
                                     .n_enqueue = 1,
                                     .threads = threads,
                                     .close = "close",
                                     .cancel = "cancel" };

    T_OK(mf_queue_runner_start(&runner, p->s, p->c));
}

static mf_status take(pipe_graph *p, int64_t *value)
{
    const char *fetch = "dequeue:0";
    mf_tensor *t = NULL;
    const mf_status st = mf_session_run(p->s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &t);

    if (st == MF_OK)
        *value = *(const int64_t *)mf_tensor_data(t);
    mf_tensor_free(t);
    return st;
}

MF_TEST(queue_runner_fills_a_queue_until_the_input_ends)
{
    enum { LIMIT = 200 };
    pipe_graph p = pipe_new(4, LIMIT);
    char seen[LIMIT] = { 0 };
    int64_t value = 0, n = 0;
    mf_status st;

    pipe_start(&p, 3);
    while ((st = take(&p, &value)) == MF_OK) {
        T_TRUE(value >= 0 && value < LIMIT && !seen[value]);
        seen[value] = 1;
        n++;
    }
    T_EQ(st, MF_OUT_OF_RANGE);
    T_EQ(n, LIMIT);
    mf_coordinator_request_stop(p.c, st);
    T_OK(mf_coordinator_join(p.c, 10000));
    pipe_free(&p);
}

MF_TEST(queue_runner_stops_with_a_full_queue_and_waiting_threads)
{
    for (int round = 0; round < 30; round++) {
        pipe_graph p = pipe_new(1 + round % 3, 1 << 30);
        int64_t value;

        pipe_start(&p, 4);
        for (int i = 0; i < round; i++)
            T_OK(take(&p, &value));
        mf_coordinator_request_stop(p.c, MF_OK); /* at any moment */
        T_OK(mf_coordinator_join(p.c, 20000));
        pipe_free(&p);
    }
}

MF_TEST(queue_runner_reports_an_error_and_ends_the_other_threads)
{
    pipe_graph p = pipe_new(2, 1 << 30);
    const mf_queue_runner bad = { .enqueue = (const char *[]){ "enqueue", "nowhere" },
                                  .n_enqueue = 2,
                                  .close = "close",
                                  .cancel = "cancel" };

    T_FAILS(MF_INVALID_ARGUMENT, "needs targets",
            mf_queue_runner_start(&(mf_queue_runner){ 0 }, p.s, p.c));
    T_OK(mf_queue_runner_start(&bad, p.s, p.c));
    T_FAILS(MF_NOT_FOUND, "nowhere", mf_coordinator_join(p.c, 20000));
    pipe_free(&p);
}
