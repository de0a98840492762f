/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - running graphs: loops, branches, waiting, cancelling, many runs at once. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/param.h"
#include "graph/graph.h"
#include "mf_test.h"
#include "tensor/tensor.h"

#include <meshflow/session.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static mf_tensor *scalar(float v)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &t));
    *(float *)mf_tensor_data(t) = v;
    return t;
}

static float value(const mf_tensor *t)
{
    T_EQ(mf_tensor_dtype(t), MF_DTYPE_F32);
    T_TRUE(mf_tensor_count(t) >= 1);
    return *(const float *)mf_tensor_data(t);
}

static mf_session *session_of(mf_graph *g, int threads)
{
    const mf_session_options o = { .threads = threads };
    mf_session *s;

    T_OK(mf_graph_status(g));
    T_OK(mf_session_new(g, &o, &s));
    mf_graph_free(g);
    return s;
}

static mf_status run1(mf_session *s, const char *feed, const mf_tensor *x, const char *fetch,
                      mf_tensor **y)
{
    return mf_session_run(s, NULL, &feed, &x, feed ? 1 : 0, &fetch, 1, NULL, 0, y);
}

/* y = relu(x * w + b), w and b variables; train: w -= 0.1 * dy/dw. */
static mf_graph *small_model(void)
{
    const int64_t all[] = { 0, 1 };
    mf_graph *g;
    mf_output x, w, wv, y, loss, dw;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'");
    w = mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[3,2] name='w'");
    (void)mf_applyf(g, "AssignVariableOp",
                    MF_IN(w, mf_apply(g, "Fill",
                                      MF_IN(mf_ints(g, (const int64_t[]){ 3, 2 }, 2),
                                            mf_scalar(g, MF_DTYPE_F32, 0.5)))),
                    "name='init'");
    wv = mf_applyf(g, "ReadVariableOp", MF_IN(w), "dtype=float");
    y = mf_applyf(g, "Relu", MF_IN(mf_apply(g, "MatMul", MF_IN(x, wv))), "name='y'");
    loss = mf_applyf(g, "Sum", MF_IN(y, mf_ints(g, all, 2)), "name='loss'");
    T_OK(mf_gradients(g, &loss, 1, &wv, 1, NULL, &dw));
    (void)mf_applyf(g, "ResourceApplyGradientDescent",
                    MF_IN(w, mf_scalar(g, MF_DTYPE_F32, 0.1), dw), "name='train'");
    return g;
}

static mf_tensor *ones(int64_t rows)
{
    const int64_t dims[] = { rows, 3 };
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F32, dims, 2, &t));
    for (int64_t i = 0; i < rows * 3; i++)
        ((float *)mf_tensor_data(t))[i] = 1;
    return t;
}

MF_TEST(runtime_session_trains_a_small_model)
{
    mf_session *s = session_of(small_model(), 2);
    const char *init = "init", *train = "train", *feed = "x:0", *fetch = "loss:0";
    mf_tensor *x = ones(4), *loss = NULL;

    T_FAILS(MF_FAILED_PRECONDITION, "{{node", run1(s, feed, x, fetch, &loss));
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL));
    T_OK(run1(s, feed, x, fetch, &loss));
    T_EQ_F(value(loss), 12);
    T_OK(mf_session_run(s, NULL, &feed, (const mf_tensor *const *)&x, 1, NULL, 0, &train, 1, NULL));
    T_OK(run1(s, feed, x, fetch, &loss));
    T_NEAR(value(loss), 2.4, 1e-5);
    mf_tensor_free(x);
    mf_tensor_free(loss);
    mf_session_free(s);
}

MF_TEST(runtime_a_steady_step_allocates_nothing)
{
    mf_session *s = session_of(small_model(), 2);
    const char *init = "init", *train = "train", *feed = "x:0", *fetch = "loss:0";
    mf_tensor *x = ones(64), *loss = NULL;
    int64_t heap, blocks;

    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL));
    for (int i = 0; i < 5; i++)
        T_OK(mf_session_run(s, NULL, &feed, (const mf_tensor *const *)&x, 1, &fetch, 1, &train, 1,
                            &loss));
    heap = mf_mem_calls();
    blocks = mf_buffer_heap_calls();
    for (int i = 0; i < 100; i++)
        T_OK(mf_session_run(s, NULL, &feed, (const mf_tensor *const *)&x, 1, &fetch, 1, &train, 1,
                            &loss));
    T_EQ(mf_mem_calls() - heap, 0);
    T_EQ(mf_buffer_heap_calls() - blocks, 0);
    mf_tensor_free(x);
    mf_tensor_free(loss);
    mf_session_free(s);
}

MF_TEST(runtime_an_allocation_that_fails_anywhere_is_an_error_and_nothing_else)
{
    for (int64_t nth = 1; nth < 4000; nth += nth < 200 ? 1 : 37) {
        const char *feed = "x:0", *fetch = "loss:0", *init = "init";
        mf_session_options o = { .threads = 1 };
        mf_graph *g = small_model();
        mf_session *s = NULL;
        mf_tensor *x = ones(2), *loss = NULL;
        mf_status st;

        mf_mem_fail_at(nth);
        st = mf_session_new(g, &o, &s);
        if (st == MF_OK)
            st = mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL);
        if (st == MF_OK)
            st = run1(s, feed, x, fetch, &loss);
        mf_mem_fail_at(0);
        T_TRUE(st == MF_OK || st == MF_RESOURCE_EXHAUSTED);
        if (st != MF_OK && s) { /* and it works again afterwards */
            T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL));
            T_OK(run1(s, feed, x, fetch, &loss));
        }
        mf_session_free(s);
        mf_graph_free(g);
        mf_tensor_free(x);
        mf_tensor_free(loss);
    }
}

/* i < n: i = i + 1, a = a * 2, as a frame of its own. */
static mf_graph *loop_graph(void)
{
    mf_graph *g;
    mf_output n, i0, a0, en, ei, ea, mi, ma, cond, si, sa, i1, a1;

    T_OK(mf_graph_new(&g));
    n = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='n'");
    i0 = mf_scalar(g, MF_DTYPE_F32, 0);
    a0 = mf_scalar(g, MF_DTYPE_F32, 1);
    en = mf_applyf(g, "Enter", MF_IN(n), "frame_name='f' is_constant=true");
    ei = mf_applyf(g, "Enter", MF_IN(i0), "frame_name='f'");
    ea = mf_applyf(g, "Enter", MF_IN(a0), "frame_name='f'");
    mi = mf_apply(g, "Merge", MF_IN(ei, ei));
    ma = mf_apply(g, "Merge", MF_IN(ea, ea));
    cond = mf_apply(g, "LoopCond", MF_IN(mf_apply(g, "Less", MF_IN(mi, en))));
    si = mf_apply(g, "Switch", MF_IN(mi, cond));
    sa = mf_apply(g, "Switch", MF_IN(ma, cond));
    si.port = sa.port = 1;
    i1 = mf_apply(g, "AddV2", MF_IN(si, mf_scalar(g, MF_DTYPE_F32, 1)));
    a1 = mf_apply(g, "Mul", MF_IN(sa, mf_scalar(g, MF_DTYPE_F32, 2)));
    T_OK(mf_graph_status(g));
    mi.node->inputs[1] = mf_apply(g, "NextIteration", MF_IN(i1));
    ma.node->inputs[1] = mf_apply(g, "NextIteration", MF_IN(a1));
    sa.port = 0;
    (void)mf_applyf(g, "Exit", MF_IN(sa), "name='out'");
    return g;
}

MF_TEST(runtime_a_loop_runs_as_often_as_its_condition_says)
{
    mf_session *s = session_of(loop_graph(), 2);

    for (int n = 0; n < 20; n++) {
        mf_tensor *x = scalar((float)n), *y = NULL;

        T_OK(run1(s, "n:0", x, "out:0", &y));
        T_EQ_F(value(y), (double)(1 << n));
        mf_tensor_free(x);
        mf_tensor_free(y);
    }
    mf_session_free(s);
}

/* Merge of both sides of a Switch; one side is dead. */
MF_TEST(runtime_a_dead_branch_does_not_run)
{
    mf_graph *g;
    mf_output x, p, sw, yes, no;
    mf_session *s;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'");
    p = mf_apply(g, "Less", MF_IN(x, mf_scalar(g, MF_DTYPE_F32, 0)));
    sw = mf_apply(g, "Switch", MF_IN(x, p));
    no = mf_apply(g, "Neg", MF_IN(sw));
    sw.port = 1;
    yes = mf_apply(g, "Square", MF_IN(sw));
    (void)mf_applyf(g, "Merge", MF_IN(no, yes), "name='y'");
    s = session_of(g, 1);
    for (int i = -3; i < 4; i++) {
        mf_tensor *v = scalar((float)i), *y = NULL;

        T_OK(run1(s, "x:0", v, "y:0", &y));
        T_EQ_F(value(y), i < 0 ? i * i : -i);
        mf_tensor_free(v);
        mf_tensor_free(y);
    }
    mf_session_free(s);
}

/* A queue without a producer. */
static mf_graph *waiting_graph(void)
{
    mf_graph *g;
    mf_output q;

    T_OK(mf_graph_new(&g));
    q = mf_applyf(g, "FIFOQueueV2", MF_NO_IN, "component_types=[float] capacity=4 name='q'");
    (void)mf_applyf(g, "QueueDequeueV2", MF_IN(q), "component_types=[float] name='take'");
    (void)mf_applyf(g, "QueueEnqueueV2", MF_IN(q, mf_scalar(g, MF_DTYPE_F32, 7)), "name='put'");
    return g;
}

MF_TEST(runtime_a_run_that_waits_too_long_ends_at_its_deadline)
{
    const mf_run_options o = { .timeout_ms = 100 };
    mf_session *s = session_of(waiting_graph(), 1);
    const char *fetch = "take:0", *put = "put";
    const int64_t start = mf_clock_ns();
    mf_tensor *y = NULL;

    T_FAILS(MF_DEADLINE_EXCEEDED, "deadline",
            mf_session_run(s, &o, NULL, NULL, 0, &fetch, 1, NULL, 0, &y));
    T_TRUE(mf_clock_ns() - start < (int64_t)20 * 1000000000);
    /* The cancelled waiter must not swallow what comes later. */
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &put, 1, NULL));
    T_OK(run1(s, NULL, NULL, "take:0", &y));
    T_EQ_F(value(y), 7);
    mf_tensor_free(y);
    mf_session_free(s);
}

static mf_output queue(mf_graph *g, const char *name)
{
    return mf_applyf(g, "FIFOQueueV2", MF_NO_IN, "component_types=[float] capacity=4 name='%s'",
                     name);
}

static mf_output take(mf_graph *g, mf_output q)
{
    return mf_applyf(g, "QueueDequeueV2", MF_IN(q), "component_types=[float]");
}

/* What goes into each queue follows from what comes out of the one before it, in the same step. */
MF_TEST(runtime_waiting_ops_delay_only_their_consumers)
{
    const mf_run_options o = { .timeout_ms = 20000 };
    const char *fetch = "last:0", *targets[] = { "put1", "put2", "put3" };
    mf_output q1, q2, q3, two;
    mf_tensor *y = NULL;
    mf_session *s;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    q1 = queue(g, "q1");
    q2 = queue(g, "q2");
    q3 = queue(g, "q3");
    two = mf_scalar(g, MF_DTYPE_F32, 2);
    (void)mf_applyf(g, "Mul", MF_IN(take(g, q3), two), "name='last'");
    (void)mf_applyf(g, "QueueEnqueueV2", MF_IN(q3, mf_apply(g, "Mul", MF_IN(take(g, q2), two))),
                    "name='put3'");
    (void)mf_applyf(g, "QueueEnqueueV2", MF_IN(q2, mf_apply(g, "Mul", MF_IN(take(g, q1), two))),
                    "name='put2'");
    (void)mf_applyf(g, "QueueEnqueueV2", MF_IN(q1, two), "name='put1'");
    s = session_of(g, 1);
    T_OK(mf_session_run(s, &o, NULL, NULL, 0, &fetch, 1, targets, 3, &y));
    T_EQ_F(value(y), 16);
    mf_tensor_free(y);
    mf_session_free(s);
}

/* As TensorFlow's clients expect: see compiler/late_reads.c. */
MF_TEST(runtime_a_value_read_from_a_reference_is_the_variable)
{
    const char *init = "init", *fetch = "later:0";
    mf_output v, read, added, later;
    mf_tensor *y = NULL;
    mf_session *s;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    v = mf_applyf(g, "VariableV2", MF_NO_IN, "shape=shape[] dtype=float name='v'");
    (void)mf_applyf(g, "Assign", MF_IN(v, mf_scalar(g, MF_DTYPE_F32, 1)), "name='init'");
    read = mf_applyf(g, "Identity", MF_IN(v), "name='read'");
    added = mf_applyf(g, "AssignAdd", MF_IN(v, mf_scalar(g, MF_DTYPE_F32, 4)), "name='added'");
    later = mf_applyf(g, "Mul", MF_IN(read, mf_scalar(g, MF_DTYPE_F32, 2)), "name='later'");
    mf_control(g, later.node, added.node);
    s = session_of(g, 1);
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL));
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &y));
    T_EQ_F(value(y), 10);
    mf_tensor_free(y);
    mf_session_free(s);
}

typedef struct taker {
    mf_session *session;
    const char *take; /* NULL: "take:0" */
    mf_status status;
    float got;
} taker;

static void *take_one(void *arg)
{
    taker *t = arg;
    mf_tensor *y = NULL;

    t->status = run1(t->session, NULL, NULL, t->take ? t->take : "take:0", &y);
    if (t->status == MF_OK)
        t->got = value(y);
    mf_tensor_free(y);
    return NULL;
}

MF_TEST(runtime_waiting_runs_hold_no_thread_of_the_pool)
{
    mf_session *s = session_of(waiting_graph(), 1);
    const char *put = "put";
    taker takers[6];
    pthread_t ids[6];

    for (int i = 0; i < 6; i++) {
        takers[i] = (taker){ .session = s };
        pthread_create(&ids[i], NULL, take_one, &takers[i]);
    }
    usleep(50000);
    for (int i = 0; i < 6; i++)
        T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &put, 1, NULL));
    for (int i = 0; i < 6; i++) {
        pthread_join(ids[i], NULL);
        T_EQ(takers[i].status, MF_OK);
        T_EQ_F(takers[i].got, 7);
    }
    mf_session_free(s);
}

/* More plans than a session keeps when they are idle. */
MF_TEST(runtime_any_number_of_different_runs_may_wait_at_the_same_time)
{
    static const char *const takes[] = { "take0", "take1", "take2", "take3", "take4" };
    mf_graph *g = waiting_graph();
    const mf_output q = { mf_graph_find(g, "q"), 0 };
    const char *put = "put";
    taker takers[5];
    pthread_t ids[5];
    mf_session *s;

    for (int i = 0; i < 5; i++)
        (void)mf_applyf(g, "QueueDequeueV2", MF_IN(q), "component_types=[float] name='take%d'", i);
    s = session_of(g, 1);
    T_OK(mf_param_set("session_cache_runs=2"));
    for (int i = 0; i < 5; i++) {
        takers[i] = (taker){ .session = s, .take = takes[i] };
        pthread_create(&ids[i], NULL, take_one, &takers[i]);
    }
    usleep(50000);
    for (int i = 0; i < 5; i++)
        T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &put, 1, NULL));
    for (int i = 0; i < 5; i++) {
        pthread_join(ids[i], NULL);
        T_EQ(takers[i].status, MF_OK);
        T_EQ_F(takers[i].got, 7);
    }
    mf_session_free(s);
}

MF_TEST(runtime_cancelling_a_session_ends_its_waiting_runs)
{
    mf_session *s = session_of(waiting_graph(), 2);
    taker t = { .session = s };
    pthread_t id;

    pthread_create(&id, NULL, take_one, &t);
    while (pthread_tryjoin_np(id, NULL) != 0) { /* its run may begin late */
        mf_session_cancel(s);
        usleep(2000);
    }
    T_EQ(t.status, MF_CANCELLED);
    mf_session_free(s);
}

typedef struct hammer {
    mf_session *session;
    int n;
} hammer;

static void *hammer_main(void *arg)
{
    const hammer *h = arg;

    for (int i = 0; i < 200; i++) {
        const int n = (h->n + i) % 12;
        mf_tensor *x = scalar((float)n), *y = NULL;

        T_OK(run1(h->session, "n:0", x, "out:0", &y));
        T_EQ_F(value(y), (double)(1 << n));
        mf_tensor_free(x);
        mf_tensor_free(y);
    }
    return NULL;
}

MF_TEST(runtime_many_threads_may_run_one_session_at_once)
{
    mf_session *s = session_of(loop_graph(), 3);
    hammer h[4];
    pthread_t ids[4];

    for (int i = 0; i < 4; i++) {
        h[i] = (hammer){ s, i };
        pthread_create(&ids[i], NULL, hammer_main, &h[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(ids[i], NULL);
    mf_session_free(s);
}

/* tf.tuple and tf.group make such edges: what waits for a placeholder has waited when it is fed. */
MF_TEST(runtime_a_fed_placeholder_does_not_run_for_its_control_consumers)
{
    mf_tensor *x = scalar(3), *y = NULL;
    mf_output in, out;
    mf_session *s;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    in = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'");
    out = mf_applyf(g, "Neg", MF_IN(in), "name='y'");
    mf_control(g, out.node, in.node);
    s = session_of(g, 1);
    T_OK(run1(s, "x:0", x, "y:0", &y));
    T_EQ(value(y), -3);
    mf_tensor_free(x);
    mf_tensor_free(y);
    mf_session_free(s);
}

MF_TEST(runtime_errors_name_the_invalid_request)
{
    mf_session *s = session_of(small_model(), 1);
    mf_tensor *x = ones(2), *y = NULL;
    const char *none = NULL, *nowhere = "nowhere";

    T_FAILS(MF_NOT_FOUND, "FetchOutputs node nope:0: not found", run1(s, "x:0", x, "nope:0", &y));
    T_FAILS(MF_NOT_FOUND, "FeedInputs node nope:0: not found", run1(s, "nope:0", x, "y:0", &y));
    T_FAILS(MF_INVALID_ARGUMENT, "output 9 does not exist", run1(s, "x:0", x, "y:9", &y));
    T_FAILS(MF_NOT_FOUND, "nowhere",
            mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &nowhere, 1, NULL));
    T_FAILS(MF_INVALID_ARGUMENT, "Must specify at least one target",
            mf_session_run(s, NULL, NULL, NULL, 0, &none, 0, NULL, 0, NULL));
    mf_tensor_free(x);
    mf_session_free(s);
}
