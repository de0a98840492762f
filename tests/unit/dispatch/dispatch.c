/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.c - a master and its workers as threads. tests/train/closures.py kills processes. */
#include "base/clock.h"
#include "dispatch/dispatch_private.h"
#include "mf_test.h"
#include "proto/dispatch.pb-c.h"
#include "proto/wire.h"

#include <meshflow/meshflow.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4 };

typedef struct task {
    char cluster[600];
    const char *job;
    char index[16];
    int slots;
    mf_status st; /* the result of serving */
    char message[400];
    pthread_t thread;
} task;

typedef struct team {
    task tasks[MOST];
    int n; /* serving tasks */
    mf_dispatch *d;
} team;

static mf_dispatch_options options_of(task *t, mf_strategy_options *o)
{
    *o = (mf_strategy_options){
        .cluster = t->cluster, .job_name = t->job, .task_index = t->index, .timeout_ms = 20000
    };
    return (mf_dispatch_options){ .cluster = o, .slots = t->slots, .threads = 1 };
}

static void describe(task *t, const char *job, int index, int workers, int masters)
{
    size_t at = (size_t)snprintf(t->cluster, sizeof t->cluster, "{\"worker\":[");

    for (int i = 0; i < workers + masters; i++)
        at += (size_t)snprintf(t->cluster + at, sizeof t->cluster - at, "%s\"d%d:%d\"",
                               i == workers ? "],\"master\":["
                               : i > 0      ? ","
                                            : "",
                               (int)getpid(), 1000 + i);
    (void)snprintf(t->cluster + at, sizeof t->cluster - at, "]}");
    (void)snprintf(t->index, sizeof t->index, "%d", index);
    t->job = job;
    t->slots = 2;
}

static void *serve(void *arg)
{
    task *t = arg;
    mf_strategy_options o;
    const mf_dispatch_options options = options_of(t, &o);
    mf_dispatch *d;

    t->st = mf_dispatch_open(&options, &d);
    if (t->st == MF_OK)
        t->st = mf_dispatch_serve(d);
    (void)snprintf(t->message, sizeof t->message, "%s", t->st == MF_OK ? "" : mf_error_message());
    mf_dispatch_close(d);
    return NULL;
}

/* Starts a master with `workers` workers, and optionally more masters. */
static void begin_with(team *m, int workers, int masters, mf_dispatch_options more)
{
    task self = { 0 };
    mf_strategy_options o;
    mf_dispatch_options options;

    m->n = workers + masters - 1;
    for (int i = 0; i < m->n; i++) {
        describe(&m->tasks[i], i < workers ? "worker" : "master", i < workers ? i : i - workers + 1,
                 workers, masters);
        T_EQ(pthread_create(&m->tasks[i].thread, NULL, serve, &m->tasks[i]), 0);
    }
    describe(&self, "master", 0, workers, masters);
    options = options_of(&self, &o);
    options.queue = more.queue;
    options.refuse = more.refuse;
    T_OK(mf_dispatch_open(&options, &m->d));
    T_TRUE(mf_dispatch_is_master(m->d));
    T_EQ(mf_dispatch_workers(m->d), workers);
}

static void begin(team *m, int workers)
{
    begin_with(m, workers, 1, (mf_dispatch_options){ 0 });
}

static void end(team *m)
{
    mf_dispatch_close(m->d);
    for (int i = 0; i < m->n; i++) {
        pthread_join(m->tasks[i].thread, NULL);
        if (m->tasks[i].st != MF_OK)
            T_FAIL("%s %s: %s", m->tasks[i].job, m->tasks[i].index, m->tasks[i].message);
    }
}

/* ---- closures ---- */

static mf_tensor *number(float value)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &t));
    *(float *)mf_tensor_data(t) = value;
    return t;
}

/* y = x * x; log(x) fails if x is not positive; v counts the calls of a worker; `never` waits for
 * an empty queue. */
static mf_graph *toy_graph(void)
{
    mf_output x, v, q, one, far;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[] name='x'");
    mf_applyf(g, "Mul", MF_IN(x, x), "name='y'");
    mf_applyf(g, "CheckNumerics", MF_IN(mf_apply(g, "Log", MF_IN(x))),
              "message='no logarithm' name='log'");
    one = mf_scalar(g, MF_DTYPE_F32, 1);
    far = mf_scalar(g, MF_DTYPE_F32, 100);
    v = mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[] name='v'");
    mf_applyf(g, "AssignVariableOp", MF_IN(v, far), "name='init'");
    mf_applyf(g, "AssignAddVariableOp", MF_IN(v, one), "name='count'");
    mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float name='counted'");
    q = mf_applyf(g, "FIFOQueueV2", MF_NO_IN, "component_types=[float] capacity=1 name='q'");
    mf_applyf(g, "QueueDequeueV2", MF_IN(q), "component_types=[float] name='never'");
    T_OK(mf_graph_status(g));
    return g;
}

static mf_closure *closure_of(team *m, const char *feed, const char *fetch, const char *target)
{
    mf_graph *g = toy_graph();
    mf_closure *c;

    T_OK(mf_closure_new(m->d,
                        &(mf_closure_spec){ .graph = g,
                                            .feeds = &feed,
                                            .n_feeds = feed != NULL,
                                            .fetches = &fetch,
                                            .n_fetches = fetch != NULL,
                                            .targets = &target,
                                            .n_targets = target != NULL },
                        &c));
    mf_graph_free(g);
    return c;
}

static mf_future *call(team *m, const mf_closure *c, float x)
{
    mf_tensor *t = number(x);
    mf_future *f;

    T_OK(mf_dispatch_schedule(m->d, c, (const mf_tensor *const *)&t, &f));
    mf_tensor_free(t);
    return f;
}

static float value_of(mf_future *f)
{
    mf_tensor *t = NULL;
    float value;

    T_OK(mf_future_wait(f, -1, &t));
    value = *(const float *)mf_tensor_data(t);
    mf_tensor_free(t);
    return value;
}

enum { CALLS = 200 };

static void square_many(team *m)
{
    mf_closure *c = closure_of(m, "x:0", "y:0", NULL);
    mf_future *f[CALLS];

    for (int i = 0; i < CALLS; i++)
        f[i] = call(m, c, (float)i);
    mf_closure_free(c); /* running calls continue */
    for (int i = CALLS - 1; i >= 0; i--) {
        T_EQ_F(value_of(f[i]), i * i);
        T_TRUE(mf_future_is_done(f[i]));
        mf_future_free(f[i]);
    }
    T_OK(mf_dispatch_join(m->d, -1));
}

MF_TEST(dispatch_returns_every_result_and_counts_per_worker)
{
    int64_t calls = 0;
    mf_worker_done done;
    mf_closure *init;
    team m;

    begin(&m, 3);
    init = closure_of(&m, NULL, NULL, "init");
    T_OK(mf_dispatch_run_on_all(m.d, init, NULL)); /* all workers are ready */
    mf_closure_free(init);
    square_many(&m);
    for (int w = 0; w < 3; w++) {
        mf_dispatch_done(m.d, w, &done);
        T_EQ(done.slots, 2);
        T_TRUE(!done.lost && done.failed == 0 && done.running == 0 && done.calls > 0);
        T_TRUE(done.bytes_sent > done.bytes_received && done.seconds > 0);
        calls += done.calls;
    }
    T_EQ(calls, CALLS + 3);
    end(&m);
}

MF_TEST(dispatch_with_one_process_runs_calls_locally)
{
    team m = { .n = 0 };

    T_OK(mf_dispatch_open(NULL, &m.d));
    T_TRUE(mf_dispatch_is_master(m.d));
    square_many(&m);
    end(&m);
}

MF_TEST(dispatch_failure_names_worker_and_node_and_affects_no_other_call)
{
    mf_closure *c;
    mf_future *good, *bad;
    mf_tensor *t = NULL;
    mf_worker_done done;
    team m;

    begin(&m, 1);
    c = closure_of(&m, "x:0", "log:0", NULL);
    bad = call(&m, c, -1);
    good = call(&m, c, 1);
    T_FAILS(MF_INVALID_ARGUMENT, "worker 0: ", mf_future_wait(bad, -1, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "{{node log}}", mf_future_wait(bad, -1, &t));
    T_EQ_F(value_of(good), 0);
    T_FAILS(MF_INVALID_ARGUMENT, "no logarithm", mf_dispatch_join(m.d, -1));
    T_OK(mf_dispatch_join(m.d, -1)); /* the failure was already reported */
    mf_dispatch_done(m.d, 0, &done);
    T_EQ(done.calls, 2);
    T_EQ(done.failed, 1);
    mf_future_free(good);
    mf_future_free(bad);
    mf_closure_free(c);
    end(&m);
}

MF_TEST(dispatch_variables_are_per_worker_and_found_by_name)
{
    mf_closure *init, *count, *counted;
    mf_future *f;
    team m;

    begin(&m, 2);
    init = closure_of(&m, NULL, NULL, "init");
    count = closure_of(&m, NULL, NULL, "count");
    counted = closure_of(&m, NULL, "counted:0", NULL);
    T_OK(mf_dispatch_run_on_all(m.d, init, NULL));
    for (int i = 0; i < 5; i++)
        T_OK(mf_dispatch_schedule_on(m.d, 1, count, NULL, NULL));
    T_OK(mf_dispatch_join(m.d, -1));
    for (int w = 0; w < 2; w++) {
        T_OK(mf_dispatch_schedule_on(m.d, w, counted, NULL, &f));
        T_EQ_F(value_of(f), w == 1 ? 105 : 100);
        mf_future_free(f);
    }
    T_FAILS(MF_INVALID_ARGUMENT, "no worker 2", mf_dispatch_schedule_on(m.d, 2, count, NULL, NULL));
    mf_closure_free(init);
    mf_closure_free(count);
    mf_closure_free(counted);
    end(&m);
}

MF_TEST(dispatch_full_queue_rejects_or_blocks)
{
    mf_tensor *x = number(3);
    mf_future *f[3] = { NULL };
    mf_closure *c;
    int refused = 0;
    team m;

    begin_with(&m, 1, 1, (mf_dispatch_options){ .queue = 2, .refuse = true });
    c = closure_of(&m, "x:0", "y:0", NULL);
    for (int i = 0; i < 3; i++) { /* one worker may run a call alone, but not every time */
        const mf_status st = mf_dispatch_schedule(m.d, c, (const mf_tensor *const *)&x, &f[i]);

        refused += st == MF_RESOURCE_EXHAUSTED;
        T_TRUE(st == MF_OK || st == MF_RESOURCE_EXHAUSTED);
    }
    T_TRUE(f[0] && f[1] && refused <= 1);
    for (int i = 0; i < 3; i++)
        mf_future_free(f[i]);
    mf_closure_free(c);
    end(&m);
    begin_with(&m, 2, 1, (mf_dispatch_options){ .queue = 2 });
    square_many(&m);
    end(&m);
    mf_tensor_free(x);
}

MF_TEST(dispatch_cancel_ends_pending_calls_and_later_calls_work)
{
    mf_future *f[CALLS];
    mf_tensor *t = NULL;
    mf_closure *c;
    team m;

    begin(&m, 1);
    c = closure_of(&m, "x:0", "y:0", NULL);
    for (int i = 0; i < CALLS; i++)
        f[i] = call(&m, c, 2);
    mf_dispatch_cancel(m.d);
    for (int i = 0; i < CALLS; i++) {
        const mf_status st = mf_future_wait(f[i], 0, &t);

        T_TRUE(st == MF_OK || st == MF_CANCELLED);
        mf_future_free(f[i]);
    }
    mf_tensor_free(t);
    mf_closure_free(c);
    (void)!mf_dispatch_join(m.d, -1);
    square_many(&m);
    end(&m);
}

/* Calls that would never end, at the moment in which they begin. */
static void close_while_calls_wait(team *m, int64_t running)
{
    mf_closure *c = closure_of(m, NULL, "never:0", NULL);
    mf_worker_done done = { 0 };

    for (int64_t i = 0; i < running; i++)
        T_OK(mf_dispatch_schedule(m->d, c, NULL, NULL));
    while (done.running < running)
        mf_dispatch_done(m->d, 0, &done);
    mf_closure_free(c);
    end(m);
}

MF_TEST(dispatch_shutdown_ends_blocked_calls)
{
    team m = { .n = 0 };

    for (int i = 0; i < 10; i++) {
        T_OK(mf_dispatch_open(NULL, &m.d));
        close_while_calls_wait(&m, 1);
    }
    begin(&m, 1);
    close_while_calls_wait(&m, 2);
}

MF_TEST(dispatch_failure_on_all_workers_is_reported_once)
{
    mf_tensor *x = number(-1);
    mf_closure *c;
    team m;

    begin(&m, 2);
    c = closure_of(&m, "x:0", "log:0", NULL);
    T_FAILS(MF_INVALID_ARGUMENT, "no logarithm",
            mf_dispatch_run_on_all(m.d, c, (const mf_tensor *const *)&x));
    T_OK(mf_dispatch_join(m.d, INT64_MAX));
    mf_tensor_free(x);
    mf_closure_free(c);
    end(&m);
}

MF_TEST(dispatch_second_master_waits_for_the_end)
{
    team m;

    begin_with(&m, 1, 2, (mf_dispatch_options){ 0 });
    square_many(&m);
    end(&m);
}

MF_TEST(dispatch_carries_strings_and_other_types)
{
    mf_tensor *text, *got = NULL;
    const char *feed = "s:0", *fetch = "same:0", *data;
    mf_closure *c;
    mf_future *f;
    mf_graph *g;
    size_t len;
    team m;

    begin(&m, 1);
    T_OK(mf_graph_new(&g));
    mf_applyf(g, "Identity", MF_IN(mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=string name='s'")),
              "name='same'");
    T_OK(mf_closure_new(
        m.d,
        &(mf_closure_spec){
            .graph = g, .feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1 },
        &c));
    T_OK(mf_tensor_new(MF_DTYPE_STRING, (const int64_t[]){ 2 }, 1, &text));
    T_OK(mf_tensor_set_string(text, 1, "a\0b", 3));
    T_OK(mf_dispatch_schedule(m.d, c, (const mf_tensor *const *)&text, &f));
    T_OK(mf_future_wait(f, -1, &got));
    T_OK(mf_tensor_get_string(got, 1, &data, &len));
    T_TRUE(len == 3 && memcmp(data, "a\0b", 3) == 0);
    mf_future_free(f);
    mf_closure_free(c);
    mf_graph_free(g);
    mf_tensor_free(text);
    mf_tensor_free(got);
    end(&m);
}

MF_TEST(dispatch_invalid_graph_fails_its_calls)
{
    mf_closure *c;
    mf_future *f;
    mf_tensor *t = NULL;
    team m;

    begin(&m, 1);
    c = closure_of(&m, "x:0", "nothing:0", NULL);
    f = call(&m, c, 1);
    T_FAILS(MF_NOT_FOUND, "nothing", mf_future_wait(f, -1, &t));
    mf_future_free(f);
    mf_closure_free(c);
    end(&m);
}

/* ---- invalid messages ---- */

/* The answer to the first call: a tensor larger than anything. */
static void write_huge_answer(mf_buf *out)
{
    Tensorflow__TensorShapeProto__Dim dim = TENSORFLOW__TENSOR_SHAPE_PROTO__DIM__INIT;
    Tensorflow__TensorShapeProto__Dim *dims[] = { &dim };
    Tensorflow__TensorShapeProto shape = TENSORFLOW__TENSOR_SHAPE_PROTO__INIT;
    Tensorflow__TensorProto value = TENSORFLOW__TENSOR_PROTO__INIT, *values[] = { &value };
    Meshflow__Result result = MESHFLOW__RESULT__INIT;

    dim.size = (int64_t)1 << 40;
    shape.n_dim = 1;
    shape.dim = dims;
    value.dtype = MF_DTYPE_F32;
    value.tensor_shape = &shape;
    result.id = 1;
    result.n_values = 1;
    result.values = values;
    T_OK(mf_wire_encode(&result.base, out));
}

/* A worker that answers its first call with `result`: it is no mf_dispatch_serve(). */
static void answer_once(task *t, const mf_buf *result)
{
    mf_strategy_options o;
    const mf_dispatch_options options = options_of(t, &o);
    mf_dispatch *d;
    mf_mailbox box;
    mf_buf ready = { 0 };

    T_OK(mf_dispatch_open(&options, &d));
    mf_mailbox_init(&box);
    mf_net_serve(d->net, mf_mailbox_put, &box);
    T_OK(mf_ready_encode(1, &ready));
    T_OK(mf_dispatch_send(d->net, d->hub, MF_DISPATCH_READY, ready.data, ready.len, d->timeout_ns));
    for (bool over = false; !over;) {
        mf_mail *mail = mf_mailbox_take(&box, mf_clock_ns() + d->timeout_ns);

        T_TRUE(mail);
        over = mail->frame.flags == MF_DISPATCH_CALL;
        mf_mail_free(mail);
    }
    T_OK(mf_dispatch_send(d->net, d->hub, MF_DISPATCH_RESULT, result->data, result->len,
                          d->timeout_ns));
    mf_buf_deinit(&ready);
    mf_mail_free(mf_mailbox_take(&box, mf_clock_ns() + 200000000));
    mf_net_serve(d->net, NULL, NULL);
    mf_mailbox_deinit(&box);
    mf_dispatch_close(d);
}

static void *babble(void *arg)
{
    mf_buf nonsense = { 0 };

    mf_buf_str(&nonsense, "\x08\x63\x10\x20");
    answer_once(arg, &nonsense);
    mf_buf_deinit(&nonsense);
    return NULL;
}

static void *boast(void *arg)
{
    mf_buf huge = { 0 };

    write_huge_answer(&huge);
    answer_once(arg, &huge);
    mf_buf_deinit(&huge);
    return NULL;
}

MF_TEST(dispatch_result_that_is_too_large_fails_only_its_call)
{
    mf_strategy_options o;
    mf_dispatch_options options;
    task self = { 0 };
    mf_tensor *t = NULL;
    mf_worker_done done;
    mf_closure *c;
    mf_future *f;
    team m = { .n = 0 };

    describe(&m.tasks[0], "worker", 0, 1, 1);
    describe(&self, "master", 0, 1, 1);
    T_EQ(pthread_create(&m.tasks[0].thread, NULL, boast, &m.tasks[0]), 0);
    options = options_of(&self, &o);
    T_OK(mf_dispatch_open(&options, &m.d));
    c = closure_of(&m, "x:0", "y:0", NULL);
    f = call(&m, c, 1);
    T_FAILS(MF_RESOURCE_EXHAUSTED, "worker 0: not enough memory for its result",
            mf_future_wait(f, -1, &t));
    mf_dispatch_done(m.d, 0, &done);
    T_TRUE(done.calls == 1 && done.failed == 1 && done.moved == 0);
    mf_future_free(f);
    mf_closure_free(c);
    end(&m);
    pthread_join(m.tasks[0].thread, NULL);
}

MF_TEST(dispatch_worker_with_invalid_messages_is_dropped_and_its_calls_run_elsewhere)
{
    mf_strategy_options o;
    mf_dispatch_options options;
    task self = { 0 };
    mf_worker_done done;
    team m = { .n = 1 };

    describe(&m.tasks[0], "worker", 0, 2, 1);
    describe(&m.tasks[1], "worker", 1, 2, 1);
    describe(&self, "master", 0, 2, 1);
    T_EQ(pthread_create(&m.tasks[0].thread, NULL, serve, &m.tasks[0]), 0);
    T_EQ(pthread_create(&m.tasks[1].thread, NULL, babble, &m.tasks[1]), 0);
    options = options_of(&self, &o);
    T_OK(mf_dispatch_open(&options, &m.d));
    do { /* until it had a call, too */
        square_many(&m);
        mf_dispatch_done(m.d, 1, &done);
    } while (!done.lost);
    T_EQ(done.moved, 1);
    T_EQ(done.calls, 0);
    pthread_join(m.tasks[1].thread, NULL);
    end(&m);
}

MF_TEST(dispatch_worker_exits_on_invalid_messages_of_the_master)
{
    mf_strategy_options o;
    mf_dispatch_options options;
    task self = { 0 };
    team m = { .n = 1 };

    describe(&m.tasks[0], "worker", 0, 1, 1);
    describe(&self, "master", 0, 1, 1);
    T_EQ(pthread_create(&m.tasks[0].thread, NULL, serve, &m.tasks[0]), 0);
    options = options_of(&self, &o);
    T_OK(mf_dispatch_open(&options, &m.d));
    T_OK(mf_dispatch_send(m.d->net, 0, MF_DISPATCH_CALL, "\xff\xff", 2, m.d->timeout_ns));
    pthread_join(m.tasks[0].thread, NULL);
    T_EQ(m.tasks[0].st, MF_DATA_LOSS);
    mf_closure *c = closure_of(&m, "x:0", "y:0", NULL);
    mf_tensor *x = number(1);
    mf_status st = MF_OK;

    while (st == MF_OK) /* it is known soon */
        st = mf_dispatch_schedule(m.d, c, (const mf_tensor *const *)&x, NULL);
    T_FAILS(MF_UNAVAILABLE, "worker 0 aborted", st);
    mf_tensor_free(x);
    mf_closure_free(c);
    mf_dispatch_close(m.d);
}
