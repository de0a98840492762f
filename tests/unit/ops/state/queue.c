/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - queues and staging areas: order, capacity, timeouts, closing, cancellation. */
#include "unit/ops/bench_graph.h"

#include <pthread.h>
#include <time.h>

static mf_output fifo(bench *b, int capacity)
{
    return mf_applyf(b->g, "FIFOQueueV2", MF_NO_IN,
                     "component_types=[float] shapes=[shape[]] capacity=%d name='q'", capacity);
}

static mf_output enqueue(bench *b, mf_output q, double v)
{
    return mf_apply(b->g, "QueueEnqueueV2", MF_IN(q, FLOAT(b, v)));
}

static mf_output dequeue(bench *b, mf_output q)
{
    return mf_applyf(b->g, "QueueDequeueV2", MF_IN(q), "component_types=[float]");
}

MF_TEST(queue_dequeues_in_order_and_reports_when_closed)
{
    bench b = bench_new();
    const mf_output q = fifo(&b, 3), one = enqueue(&b, q, 1), two = enqueue(&b, q, 2),
                    out = dequeue(&b, q), close = mf_apply(b.g, "QueueCloseV2", MF_IN(q)),
                    size = mf_apply(b.g, "QueueSizeV2", MF_IN(q)),
                    closed = mf_apply(b.g, "QueueIsClosedV2", MF_IN(q));

    bench_start(&b);
    DO(&b, one);
    DO(&b, two);
    T_EQ(VALUE(&b, size), 2);
    T_EQ_F(VALUE(&b, out), 1);
    T_EQ(VALUE(&b, closed), 0);
    DO(&b, close);
    T_EQ(VALUE(&b, closed), 1);
    CANNOT(&b, one, MF_CANCELLED, "FIFOQueue '_0_q' is closed.");
    CANNOT(&b, close, MF_CANCELLED, "Queue '_0_q' is already closed.");
    T_EQ_F(VALUE(&b, out), 2);
    CANNOT(&b, out, MF_OUT_OF_RANGE,
           "FIFOQueue '_0_q' is closed and has insufficient elements (requested 1, current size "
           "0)");
    bench_end(&b);
}

MF_TEST(queue_dequeue_timeout_leaves_the_queue_unchanged)
{
    bench b = bench_new();
    const mf_output q = fifo(&b, 8), one = enqueue(&b, q, 1), out = dequeue(&b, q),
                    many = mf_applyf(b.g, "QueueDequeueManyV2", MF_IN(q, INT(&b, 3)),
                                     "component_types=[float]");

    bench_start(&b);
    T_FAILS(MF_DEADLINE_EXCEEDED, "", run_for(&b, out, 50, NULL));
    DO(&b, one);
    DO(&b, one);
    T_FAILS(MF_DEADLINE_EXCEEDED, "", run_for(&b, many, 50, NULL));
    DO(&b, one);
    T_EQ_F(value_at(&b, many, 2), 1);
    T_FAILS(MF_DEADLINE_EXCEEDED, "", run_for(&b, out, 50, NULL));
    bench_end(&b);
}

typedef struct background {
    bench *b;
    mf_output x;
    mf_status status;
    double value;
} background;

static void *run_in_background(void *arg)
{
    background *r = arg;
    mf_tensor *t = NULL;

    r->status = run_for(r->b, r->x, 0, r->x.port >= 0 ? &t : NULL);
    r->value = t ? mf_tensor_float_at(t, 0) : 0;
    mf_tensor_free(t);
    return NULL;
}

static void pause_ms(long ms)
{
    (void)nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

MF_TEST(queue_wakes_waiting_ops)
{
    bench b = bench_new();
    const mf_output q = fifo(&b, 1), put = enqueue(&b, q, 7), out = dequeue(&b, q);
    background taker = { .b = &b, .x = out }, putter = { .b = &b, .x = { put.node, -1 } };
    pthread_t thread;

    bench_start(&b);
    T_EQ(pthread_create(&thread, NULL, run_in_background, &taker), 0);
    pause_ms(20);
    DO(&b, put);
    (void)pthread_join(thread, NULL);
    T_OK(taker.status);
    T_EQ_F(taker.value, 7);
    DO(&b, put); /* full: the next one waits for room */
    T_EQ(pthread_create(&thread, NULL, run_in_background, &putter), 0);
    pause_ms(20);
    T_EQ_F(VALUE(&b, out), 7);
    (void)pthread_join(thread, NULL);
    T_OK(putter.status);
    bench_end(&b);
}

MF_TEST(queue_closing_with_cancel_ends_waiting_enqueues)
{
    bench b = bench_new();
    const mf_output q = fifo(&b, 1), put = enqueue(&b, q, 7),
                    close =
                        mf_applyf(b.g, "QueueCloseV2", MF_IN(q), "cancel_pending_enqueues=true");
    background putter = { .b = &b, .x = { put.node, -1 } };
    pthread_t thread;

    bench_start(&b);
    DO(&b, put);
    T_EQ(pthread_create(&thread, NULL, run_in_background, &putter), 0);
    pause_ms(20);
    DO(&b, close);
    (void)pthread_join(thread, NULL);
    T_EQ(putter.status, MF_CANCELLED);
    bench_end(&b);
}

MF_TEST(queue_waits_end_when_the_session_is_cancelled)
{
    bench b = bench_new();
    const mf_output q = fifo(&b, 1), out = dequeue(&b, q);
    background taker = { .b = &b, .x = out };
    pthread_t thread;

    bench_start(&b);
    T_EQ(pthread_create(&thread, NULL, run_in_background, &taker), 0);
    while (pthread_tryjoin_np(thread, NULL) != 0) { /* its run may begin late */
        mf_session_cancel(b.s);
        pause_ms(2);
    }
    T_EQ(taker.status, MF_CANCELLED);
    bench_end(&b);
}

MF_TEST(queue_passes_more_than_its_capacity_in_one_call)
{
    bench b = bench_new();
    const mf_output q = fifo(&b, 2), v = VEC(&b, 1, 2, 3, 4, 5),
                    put = mf_apply(b.g, "QueueEnqueueManyV2", MF_IN(q, v)),
                    many = mf_applyf(b.g, "QueueDequeueManyV2", MF_IN(q, INT(&b, 5)),
                                     "component_types=[float]");
    background putter = { .b = &b, .x = { put.node, -1 } };
    pthread_t thread;

    bench_start(&b);
    T_EQ(pthread_create(&thread, NULL, run_in_background, &putter), 0);
    T_EQ_F(value_at(&b, many, 4), 5);
    (void)pthread_join(thread, NULL);
    T_OK(putter.status);
    bench_end(&b);
}

MF_TEST(queue_ops_on_references_work)
{
    bench b = bench_new();
    const mf_output q = mf_applyf(b.g, "FIFOQueue", MF_NO_IN, "component_types=[float] capacity=3"),
                    put = mf_apply(b.g, "QueueEnqueue", MF_IN(q, VEC(&b, 4, 5))),
                    out = mf_applyf(b.g, "QueueDequeue", MF_IN(q), "component_types=[float]"),
                    many = mf_applyf(b.g, "QueueDequeueMany", MF_IN(q, INT(&b, 1)),
                                     "component_types=[float]");

    bench_start(&b);
    DO(&b, put);
    CANNOT(&b, many, MF_INVALID_ARGUMENT, "require the components to have specified shapes");
    T_EQ_F(value_at(&b, out, 1), 5);
    bench_end(&b);
}

MF_TEST(queue_by_priority_dequeues_the_smallest_first_and_is_stable)
{
    bench b = bench_new();
    const mf_output q =
        mf_applyf(b.g, "PriorityQueueV2", MF_NO_IN, "component_types=[float] shapes=[shape[]]");
    mf_output put[4], out;
    const double priority[] = { 3, 1, 3, 2 };

    for (int i = 0; i < 4; i++)
        put[i] = mf_apply(b.g, "QueueEnqueueV2", MF_IN(q, LONG(&b, priority[i]), FLOAT(&b, i)));
    out = mf_applyf(b.g, "QueueDequeueV2", MF_IN(q), "component_types=[int64,float]");
    bench_start(&b);
    for (int i = 0; i < 4; i++)
        DO(&b, put[i]);
    out.port = 1;
    T_EQ_F(VALUE(&b, out), 1);
    T_EQ_F(VALUE(&b, out), 3);
    T_EQ_F(VALUE(&b, out), 0);
    T_EQ_F(VALUE(&b, out), 2);
    bench_end(&b);
}

MF_TEST(queue_padding_makes_rows_equal)
{
    bench b = bench_new();
    const mf_output q = mf_applyf(b.g, "PaddingFIFOQueueV2", MF_NO_IN,
                                  "component_types=[float] shapes=[shape[?]]"),
                    one = mf_apply(b.g, "QueueEnqueueV2", MF_IN(q, VEC(&b, 1))),
                    three = mf_apply(b.g, "QueueEnqueueV2", MF_IN(q, VEC(&b, 2, 3, 4))),
                    bad = mf_apply(b.g, "QueueEnqueueV2", MF_IN(q, FLOAT(&b, 1))),
                    many = mf_applyf(b.g, "QueueDequeueManyV2", MF_IN(q, INT(&b, 2)),
                                     "component_types=[float]");
    const double want[] = { 1, 0, 0, 2, 3, 4 };
    mf_tensor *t = NULL;

    bench_start(&b);
    DO(&b, one);
    DO(&b, three);
    CANNOT(&b, bad, MF_INVALID_ARGUMENT, "Expected [?], got []");
    T_OK(run_for(&b, many, 0, &t));
    T_EQ(mf_tensor_dim(t, 1), 3);
    for (int i = 0; i < 6; i++)
        T_EQ_F(mf_tensor_float_at(t, i), want[i]);
    mf_tensor_free(t);
    bench_end(&b);
}

MF_TEST(queue_shuffles_like_tensorflow_for_the_same_seeds)
{
    bench b = bench_new();
    const mf_output q = mf_applyf(b.g, "RandomShuffleQueueV2", MF_NO_IN,
                                  "component_types=[float] shapes=[shape[]] seed=87654321 seed2=7"),
                    put = mf_apply(b.g, "QueueEnqueueManyV2",
                                   MF_IN(q, VEC(&b, 1, 2, 3, 4, 5, 6, 7, 8))),
                    out = dequeue(&b, q);
    const double want[] = { 8, 5, 2, 7, 1, 3 }; /* TensorFlow 2.21 */

    bench_start(&b);
    DO(&b, put);
    for (int i = 0; i < MF_COUNT(want); i++)
        T_EQ_F(VALUE(&b, out), want[i]);
    bench_end(&b);
}

MF_TEST(staging_area_passes_tuples)
{
    bench b = bench_new();
    const mf_output put =
        mf_applyf(b.g, "Stage", MF_IN(FLOAT(&b, 1), INT(&b, 2)), "shared_name='s'");
    mf_output get = mf_applyf(b.g, "Unstage", MF_NO_IN, "dtypes=[float,int32] shared_name='s'");
    const mf_output size = mf_applyf(b.g, "StageSize", MF_NO_IN,
                                     "dtypes=[float,int32] shared_name='s'"),
                    clear = mf_applyf(b.g, "StageClear", MF_NO_IN,
                                      "dtypes=[float,int32] shared_name='s'");

    bench_start(&b);
    DO(&b, put);
    DO(&b, put);
    T_EQ(VALUE(&b, size), 2);
    get.port = 1;
    T_EQ(VALUE(&b, get), 2);
    DO(&b, clear);
    T_EQ(VALUE(&b, size), 0);
    T_FAILS(MF_DEADLINE_EXCEEDED, "", run_for(&b, get, 50, NULL));
    bench_end(&b);
}
