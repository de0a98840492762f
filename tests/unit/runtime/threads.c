/* SPDX-License-Identifier: Apache-2.0 */
/* threads.c - many threads at one session: variables, queues, closing, cancelling, deadlines. Also
 * run under the thread sanitizer (make tsan). */
#include "base/clock.h"
#include "base/mem.h"
#include "graph/graph.h"
#include "mf_test.h"
#include "tensor/tensor.h"

#include <meshflow/session.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 4, WRITERS = THREADS / 2, TURNS = 60, WIDTH = 300 };
/* Threads of a session in which each of THREADS runs may keep one busy: others are left. */
enum { LOOPERS = THREADS + 2 };

typedef struct lf {
    mf_session *session;
    void (*work)(struct lf *c, int me);
    atomic_int next; /* hands out the members' numbers */
    atomic_int counts[THREADS * TURNS];
    atomic_bool stop;
} lf;

static void *member(void *arg)
{
    lf *c = arg;

    c->work(c, atomic_fetch_add(&c->next, 1));
    return NULL;
}

/* n threads do c->work(c, 0), ..., c->work(c, n - 1). */
static void start_crew(lf *c, int n, pthread_t *ids)
{
    for (int i = 0; i < n; i++)
        T_EQ(pthread_create(&ids[i], NULL, member, c), 0);
}

static void join_crew(const pthread_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        pthread_join(ids[i], NULL);
}

static mf_session *session_of(mf_graph *g, int threads)
{
    mf_session *s;

    T_OK(mf_graph_status(g));
    T_OK(mf_session_new(g, &(mf_session_options){ .threads = threads }, &s));
    mf_graph_free(g);
    return s;
}

static mf_status run_target(mf_session *s, const char *target)
{
    return mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &target, 1, NULL);
}

static mf_status fetch(mf_session *s, const char *name, mf_tensor **y)
{
    return mf_session_run(s, NULL, NULL, NULL, 0, &name, 1, NULL, 0, y);
}

static float at(const mf_tensor *t, int64_t i)
{
    return ((const float *)mf_tensor_data(t))[i];
}

static mf_output filled(mf_graph *g, double v)
{
    return mf_apply(
        g, "Fill", MF_IN(mf_ints(g, (const int64_t[]){ WIDTH }, 1), mf_scalar(g, MF_DTYPE_F32, v)));
}

/* ---- variables ---- */

static mf_graph *counter_graph(bool resource)
{
    mf_graph *g;
    mf_output v;

    T_OK(mf_graph_new(&g));
    if (resource) {
        v = mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[%d]", WIDTH);
        (void)mf_applyf(g, "AssignVariableOp", MF_IN(v, filled(g, 0)), "name='init'");
        (void)mf_applyf(g, "AssignAddVariableOp", MF_IN(v, filled(g, 1)), "name='add'");
        (void)mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float name='read'");
    } else {
        v = mf_applyf(g, "VariableV2", MF_NO_IN, "dtype=float shape=shape[%d]", WIDTH);
        (void)mf_applyf(g, "Assign", MF_IN(v, filled(g, 0)), "name='init'");
        (void)mf_applyf(g, "AssignAdd", MF_IN(v, filled(g, 1)), "use_locking=true name='add'");
        (void)mf_applyf(g, "Identity", MF_IN(v), "name='read'");
    }
    return g;
}

/* Even members add, odd ones read; what is read never changes, and is one value all over. */
static void add_or_read(lf *c, int me)
{
    float last = 0;

    for (int i = 0; i < TURNS; i++) {
        mf_tensor *y = NULL;

        if (me % 2 == 0) {
            T_OK(run_target(c->session, "add"));
            continue;
        }
        T_OK(fetch(c->session, "read:0", &y));
        T_TRUE(at(y, 0) >= last);
        last = at(y, 0);
        for (int64_t k = 0; k < WIDTH; k++)
            T_EQ_F(at(y, k), last);
        mf_tensor_free(y);
    }
}

static void count_with(bool resource)
{
    lf c = { .session = session_of(counter_graph(resource), 2), .work = add_or_read };
    pthread_t ids[THREADS];
    mf_tensor *y = NULL;

    T_OK(run_target(c.session, "init"));
    start_crew(&c, THREADS, ids);
    join_crew(ids, THREADS);
    T_OK(fetch(c.session, "read:0", &y));
    T_EQ_F(at(y, 0), WRITERS * TURNS);
    T_EQ_F(at(y, WIDTH - 1), WRITERS * TURNS);
    mf_tensor_free(y);
    mf_session_free(c.session);
}

MF_TEST(runtime_concurrent_additions_to_a_variable_are_atomic)
{
    count_with(true);
}

MF_TEST(runtime_concurrent_additions_to_a_reference_variable_are_atomic)
{
    count_with(false);
}

/* ---- queues ---- */

static mf_graph *queue_graph(int capacity)
{
    mf_graph *g;
    mf_output q, x;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[] name='x'");
    q = mf_applyf(g, "FIFOQueueV2", MF_NO_IN,
                  "component_types=[float] shapes=[shape[]] capacity=%d name='q'", capacity);
    (void)mf_applyf(g, "QueueEnqueueV2", MF_IN(q, x), "name='put'");
    (void)mf_applyf(g, "QueueDequeueV2", MF_IN(q), "component_types=[float] name='take'");
    (void)mf_applyf(g, "QueueCloseV2", MF_IN(q), "name='close'");
    (void)mf_applyf(g, "QueueCloseV2", MF_IN(q), "cancel_pending_enqueues=true name='abandon'");
    return g;
}

static mf_status put(mf_session *s, float v)
{
    const char *feed = "x:0", *target = "put";
    const mf_tensor *feeds[1];
    mf_tensor *x = NULL;
    mf_status st;

    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &x));
    *(float *)mf_tensor_data(x) = v;
    feeds[0] = x;
    st = mf_session_run(s, NULL, &feed, feeds, 1, NULL, 0, &target, 1, NULL);
    mf_tensor_free(x);
    return st;
}

static void put_or_take(lf *c, int me)
{
    for (int i = 0; i < TURNS; i++) {
        mf_tensor *y = NULL;

        if (me % 2 == 0) {
            const int first = me / 2 * TURNS;

            T_OK(put(c->session, (float)(first + i)));
            continue;
        }
        T_OK(fetch(c->session, "take:0", &y));
        atomic_fetch_add(&c->counts[(int)at(y, 0)], 1);
        mf_tensor_free(y);
    }
}

MF_TEST(runtime_threads_pass_every_value_through_a_small_queue_once)
{
    lf c = { .session = session_of(queue_graph(2), 2), .work = put_or_take };
    pthread_t ids[THREADS];

    start_crew(&c, THREADS, ids);
    join_crew(ids, THREADS);
    for (int i = 0; i < THREADS / 2 * TURNS; i++)
        T_EQ(atomic_load(&c.counts[i]), 1);
    mf_session_free(c.session);
}

/* What a queue makes ready must run also when there is no memory for another runner. */
MF_TEST(runtime_an_allocation_that_fails_while_a_run_waits_is_an_error_and_nothing_else)
{
    const mf_run_options o = { .timeout_ms = 20000 };
    const char *fetches[] = { "out:0" };
    mf_output put, take;
    mf_session *s;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    take = mf_applyf(g, "FIFOQueueV2", MF_NO_IN, "component_types=[float] capacity=1 name='q'");
    put = mf_apply(g, "QueueEnqueueV2", MF_IN(take, mf_scalar(g, MF_DTYPE_F32, 4)));
    (void)mf_applyf(g, "QueueDequeueV2", MF_IN(take), "component_types=[float] name='rest'");
    take = mf_applyf(g, "QueueDequeueV2", MF_IN(take), "component_types=[float]");
    mf_control(g, take.node, put.node);
    (void)mf_applyf(g, "Neg", MF_IN(take), "name='out'");
    s = session_of(g, 1);
    for (int64_t nth = 1; nth < 300; nth++) {
        const mf_run_options soon = { .timeout_ms = 1 };
        const char *rest[] = { "rest:0" };
        mf_tensor *y = NULL;
        mf_status st;

        mf_mem_fail_at(nth);
        st = mf_session_run(s, &o, NULL, NULL, 0, fetches, 1, NULL, 0, &y);
        mf_mem_fail_at(0);
        T_TRUE(st == MF_OK || st == MF_RESOURCE_EXHAUSTED);
        if (st != MF_OK) { /* it may have ended between putting and taking */
            st = mf_session_run(s, &soon, NULL, NULL, 0, rest, 1, NULL, 0, &y);
            T_TRUE(st == MF_OK || st == MF_DEADLINE_EXCEEDED);
        }
        mf_tensor_free(y);
    }
    mf_session_free(s);
}

static void take_what_never_comes(lf *c, int me)
{
    mf_tensor *y = NULL;

    (void)me;
    T_FAILS(MF_OUT_OF_RANGE, "is closed and has insufficient elements",
            fetch(c->session, "take:0", &y));
}

MF_TEST(runtime_closing_a_queue_ends_waiting_dequeues)
{
    lf c = { .session = session_of(queue_graph(2), 1), .work = take_what_never_comes };
    pthread_t ids[THREADS];

    start_crew(&c, THREADS, ids);
    usleep(20000);
    T_OK(run_target(c.session, "close"));
    join_crew(ids, THREADS);
    mf_session_free(c.session);
}

static void put_too_much(lf *c, int me)
{
    (void)me;
    T_FAILS(MF_CANCELLED, "", put(c->session, 9));
}

MF_TEST(runtime_closing_a_queue_can_cancel_waiting_enqueues)
{
    lf c = { .session = session_of(queue_graph(1), 1), .work = put_too_much };
    pthread_t ids[THREADS];
    mf_tensor *y = NULL;

    T_OK(put(c.session, 5));
    start_crew(&c, THREADS, ids);
    usleep(20000);
    T_OK(run_target(c.session, "abandon"));
    join_crew(ids, THREADS);
    T_OK(fetch(c.session, "take:0", &y)); /* what was in it before can still be had */
    T_EQ_F(at(y, 0), 5);
    T_FAILS(MF_OUT_OF_RANGE, "", fetch(c.session, "take:0", &y));
    mf_tensor_free(y);
    mf_session_free(c.session);
}

/* ---- cancelling ---- */

/* A loop without end, and something short. Each run of the loop first puts an element into a queue;
 * "begun" takes those of THREADS runs, so it waits until all of them are in progress. */
static mf_graph *endless_graph(void)
{
    mf_graph *g;
    mf_output enter, merge, yes, more, q, put, zero, first;

    T_OK(mf_graph_new(&g));
    q = mf_applyf(g, "FIFOQueueV2", MF_NO_IN, "component_types=[float] shapes=[shape[]]");
    zero = mf_scalar(g, MF_DTYPE_F32, 0);
    put = mf_apply(g, "QueueEnqueueV2", MF_IN(q, zero));
    (void)mf_applyf(g, "QueueDequeueManyV2", MF_IN(q, mf_scalar(g, MF_DTYPE_I32, THREADS)),
                    "component_types=[float] name='begun'");
    first = mf_apply(g, "Identity", MF_IN(zero));
    mf_control(g, first.node, put.node);
    enter = mf_applyf(g, "Enter", MF_IN(first), "frame_name='f'");
    merge = mf_apply(g, "Merge", MF_IN(enter, enter));
    yes = mf_apply(g, "LoopCond",
                   MF_IN(mf_apply(g, "Less", MF_IN(merge, mf_scalar(g, MF_DTYPE_F32, 1)))));
    more = mf_apply(g, "Switch", MF_IN(merge, yes));
    (void)mf_applyf(g, "Exit", MF_IN(more), "name='never'");
    more.port = 1;
    T_OK(mf_graph_status(g));
    merge.node->inputs[1] =
        mf_apply(g, "NextIteration", MF_IN(mf_apply(g, "Identity", MF_IN(more))));
    (void)mf_applyf(g, "Neg", MF_IN(mf_scalar(g, MF_DTYPE_F32, 3)), "name='short'");
    return g;
}

static void await_all(mf_session *s)
{
    mf_tensor *begun = NULL;

    T_OK(fetch(s, "begun:0", &begun));
    mf_tensor_free(begun);
}

static void run_for_ever(lf *c, int me)
{
    mf_tensor *y = NULL;

    (void)me;
    T_FAILS(MF_CANCELLED, "", fetch(c->session, "never:0", &y));
}

MF_TEST(runtime_cancelling_ends_computing_runs)
{
    lf c = { .session = session_of(endless_graph(), LOOPERS), .work = run_for_ever };
    pthread_t ids[THREADS];
    mf_tensor *y = NULL;

    start_crew(&c, THREADS, ids);
    await_all(c.session);
    mf_session_cancel(c.session);
    join_crew(ids, THREADS);
    T_OK(fetch(c.session, "short:0", &y));
    T_EQ_F(at(y, 0), -3);
    mf_tensor_free(y);
    mf_session_free(c.session);
}

MF_TEST(runtime_a_run_that_computes_too_long_ends_at_its_deadline)
{
    const mf_run_options o = { .timeout_ms = 50 };
    mf_session *s = session_of(endless_graph(), 2);
    const char *never = "never:0";
    const int64_t start = mf_clock_ns();
    mf_tensor *y = NULL;

    T_FAILS(MF_DEADLINE_EXCEEDED, "", mf_session_run(s, &o, NULL, NULL, 0, &never, 1, NULL, 0, &y));
    T_TRUE(mf_clock_ns() - start >= 50000000);
    T_OK(fetch(s, "short:0", &y));
    mf_tensor_free(y);
    mf_session_free(s);
}

/* Waits, dequeues, enqueues and deadlines while another thread cancels repeatedly. */
static void be_cancelled(lf *c, int me)
{
    for (int i = 0; i < TURNS; i++) {
        const mf_run_options o = { .timeout_ms = 1 + i % 5 };
        const char *take = "take:0";
        mf_tensor *y = NULL;
        mf_status st = me % 2 == 0
                           ? put(c->session, 1)
                           : mf_session_run(c->session, &o, NULL, NULL, 0, &take, 1, NULL, 0, &y);

        T_TRUE(st == MF_OK || st == MF_CANCELLED || (me % 2 && st == MF_DEADLINE_EXCEEDED));
        T_EQ(y != NULL, me % 2 && st == MF_OK);
        mf_tensor_free(y);
    }
}

static void cancel_on_and_on(lf *c, int me)
{
    (void)me;
    while (!atomic_load(&c->stop)) {
        mf_session_cancel(c->session);
        usleep(500);
    }
}

MF_TEST(runtime_runs_that_are_cancelled_leave_a_session_that_works)
{
    lf c = { .session = session_of(queue_graph(2), 2), .work = be_cancelled };
    lf enemy = { .session = c.session, .work = cancel_on_and_on };
    pthread_t ids[THREADS], id;
    mf_tensor *y = NULL;

    start_crew(&enemy, 1, &id);
    start_crew(&c, THREADS, ids);
    join_crew(ids, THREADS);
    atomic_store(&enemy.stop, true);
    join_crew(&id, 1);
    T_OK(run_target(c.session, "close")); /* and the queue holds at most its two elements */
    for (int i = 0; fetch(c.session, "take:0", &y) == MF_OK; i++)
        T_TRUE(i < 2);
    mf_tensor_free(y);
    mf_session_free(c.session);
}

static void run_until_the_end(lf *c, int me)
{
    mf_tensor *y = NULL;

    (void)me;
    T_EQ(fetch(c->session, "never:0", &y), MF_CANCELLED);
    atomic_fetch_add(&c->counts[0], 1);
}

MF_TEST(runtime_freeing_a_session_ends_its_runs_first)
{
    lf c = { .session = session_of(endless_graph(), LOOPERS), .work = run_until_the_end };
    pthread_t ids[THREADS];

    start_crew(&c, THREADS, ids);
    await_all(c.session);
    mf_session_free(c.session);
    join_crew(ids, THREADS);
    T_EQ(atomic_load(&c.counts[0]), THREADS);
}

/* ---- compiling while others run ---- */

static void run_many_shapes(lf *c, int me)
{
    const char *feed = "x:0", *sum = "sum:0";

    for (int i = 0; i < TURNS; i++) {
        const int64_t dims[] = { 1 + (i + me) % 7, 1 + i % 3 }, n = dims[0] * dims[1];
        mf_tensor *x = NULL, *y = NULL;
        const mf_tensor *feeds[1];

        T_OK(mf_tensor_new(MF_DTYPE_F32, dims, 2, &x));
        for (int64_t k = 0; k < n; k++)
            ((float *)mf_tensor_data(x))[k] = 2;
        feeds[0] = x;
        T_OK(mf_session_run(c->session, NULL, &feed, feeds, 1, &sum, 1, NULL, 0, &y));
        T_EQ_F(at(y, 0), (double)(4 * n));
        mf_tensor_free(x);
        mf_tensor_free(y);
    }
}

MF_TEST(runtime_threads_may_feed_different_shapes_at_once)
{
    lf c = { .work = run_many_shapes };
    pthread_t ids[THREADS];
    mf_output x;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'");
    (void)mf_applyf(g, "Sum",
                    MF_IN(mf_apply(g, "Square", MF_IN(x)), mf_ints(g, (int64_t[]){ 0, 1 }, 2)),
                    "name='sum'");
    c.session = session_of(g, 3);
    start_crew(&c, THREADS, ids);
    join_crew(ids, THREADS);
    mf_session_free(c.session);
}

static void run_short(lf *c, int me)
{
    (void)me;
    while (!atomic_load(&c->stop)) {
        mf_tensor *y = NULL;

        T_OK(fetch(c->session, "a0:0", &y));
        T_EQ_F(at(y, 0), -1);
        mf_tensor_free(y);
    }
}

MF_TEST(runtime_a_session_may_be_extended_while_it_runs)
{
    lf c = { .work = run_short };
    pthread_t ids[2];
    mf_output x;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    x = mf_scalar(g, MF_DTYPE_F32, 1);
    (void)mf_applyf(g, "Neg", MF_IN(x), "name='a0'");
    T_OK(mf_session_new(g, &(mf_session_options){ .threads = 2 }, &c.session));
    start_crew(&c, 2, ids);
    for (int i = 1; i < 30; i++) {
        char name[16];
        mf_tensor *y = NULL;

        x = mf_apply(g, "AddV2", MF_IN(x, mf_scalar(g, MF_DTYPE_F32, 1)));
        (void)mf_applyf(g, "Neg", MF_IN(x), "name='a%d'", i);
        T_OK(mf_session_extend(c.session, g));
        (void)snprintf(name, sizeof name, "a%d:0", i);
        T_OK(fetch(c.session, name, &y));
        T_EQ_F(at(y, 0), -1 - i);
        mf_tensor_free(y);
    }
    atomic_store(&c.stop, true);
    join_crew(ids, 2);
    mf_session_free(c.session);
    mf_graph_free(g);
}
