/* SPDX-License-Identifier: Apache-2.0 */
/* monitored_session.c - MonitoredSession: hooks, checkpoints, lost sessions, workers, queues. */
#include "base/buf.h"
#include "runtime/session.h"
#include "unit/train/loop/folder.h"

#include <meshflow/meshflow.h>

#include <math.h>
#include <pthread.h>

/* A step adds x to w and counts. */
static mf_graph *counting(void)
{
    mf_graph *g;
    mf_output step, w, x, add, count, init, train;
    mf_tensor *tag;

    T_OK(mf_graph_new(&g));
    step = mf_applyf(g, "VarHandleOp", MF_NO_IN,
                     "dtype=int64 shape=shape[] shared_name='global_step' name='global_step'");
    w = mf_applyf(g, "VariableV2", MF_NO_IN, "dtype=float shape=shape[] name='w'");
    x = mf_applyf(g, "PlaceholderWithDefault", MF_IN(mf_scalar(g, MF_DTYPE_F32, 1)),
                  "shape=shape[] name='x'");
    add = mf_applyf(g, "AssignAdd", MF_IN(w, x), "name='add'");
    count = mf_apply(g, "AssignAddVariableOp", MF_IN(step, mf_scalar(g, MF_DTYPE_I64, 1)));
    train = mf_applyf(g, "NoOp", MF_NO_IN, "name='train'");
    mf_control(g, train.node, add.node);
    mf_control(g, train.node, count.node);
    T_OK(mf_tensor_new(MF_DTYPE_STRING, NULL, 0, &tag));
    T_OK(mf_tensor_set_string(tag, 0, "w", 1));
    (void)mf_applyf(g, "ScalarSummary", MF_IN(mf_constant(g, tag, NULL), x), "name='summary'");
    mf_tensor_free(tag);
    init = mf_applyf(g, "NoOp", MF_NO_IN, "name='init'");
    mf_control(g, init.node,
               mf_apply(g, "AssignVariableOp", MF_IN(step, mf_scalar(g, MF_DTYPE_I64, 0))).node);
    mf_control(g, init.node, mf_apply(g, "Assign", MF_IN(w, mf_scalar(g, MF_DTYPE_F32, 0))).node);
    T_OK(mf_graph_status(g));
    return g;
}

static mf_status train(mf_monitored_session *s)
{
    const char *target = "train";

    return mf_monitored_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &target, 1, NULL);
}

static double value(mf_session *s, const char *fetch)
{
    mf_tensor *t = NULL;
    double v;

    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &t));
    v = mf_tensor_float_at(t, 0);
    mf_tensor_free(t);
    return v;
}

/* ---- a hook that records its calls ---- */

typedef struct noter {
    char name;
    mf_buf *log;
    int stop_after; /* runs; 0: never */
    int fail_at; /* run; 0: never */
    mf_status failure;
    int runs;
} noter;

static mf_status note(noter *n, const char *what)
{
    mf_buf_printf(n->log, "%c.%s ", n->name, what);
    return MF_OK;
}
static mf_status note_begin(void *ctx, mf_trainer *t)
{
    T_TRUE(t == NULL);
    return note(ctx, "begin");
}
static mf_status note_created(void *ctx, mf_hook_loop *l)
{
    T_TRUE(mf_hook_loop_coordinator(l) != NULL && mf_hook_loop_trainer(l) == NULL);
    return note(ctx, "created");
}
static mf_status note_before(void *ctx, mf_hook_loop *l, mf_run_request *r)
{
    (void)l, (void)r;
    return note(ctx, "before");
}
static mf_status note_after(void *ctx, mf_hook_loop *l, mf_tensor *const *results)
{
    noter *n = ctx;

    (void)results;
    (void)note(n, "after");
    n->runs++;
    if (n->runs == n->stop_after)
        mf_hook_loop_stop(l);
    if (n->runs == n->fail_at)
        return MF_FAIL(n->failure, "as configured");
    return MF_OK;
}
static mf_status note_end(void *ctx, mf_trainer *t)
{
    (void)t;
    return note(ctx, "end");
}
static mf_hook note_hook(noter *n)
{
    return (mf_hook){ .ctx = n,
                      .begin = note_begin,
                      .after_create_session = note_created,
                      .before_run = note_before,
                      .after_run = note_after,
                      .end = note_end };
}

static mf_status run_all(mf_graph *g, const mf_monitored_options *o)
{
    mf_monitored_session *s;
    mf_status st = mf_monitored_session_new(g, o, &s), closed;

    if (st != MF_OK)
        return st;
    while (st == MF_OK && !mf_monitored_session_should_stop(s))
        st = train(s);
    closed = mf_monitored_session_close(s);
    return st == MF_OK ? closed : st;
}

#define CALLS(...) "a.begin b.begin a.created b.created " __VA_ARGS__
#define RUN "a.before b.before a.after b.after "

MF_TEST(monitored_session_calls_hooks_in_tensorflows_order)
{
    mf_graph *g = counting();
    mf_buf log = { 0 };
    noter a = { .name = 'a', .log = &log }, b = { .name = 'b', .log = &log, .stop_after = 2 };
    mf_monitored_options o = { .hooks = (mf_hook[]){ note_hook(&a), note_hook(&b) }, .n_hooks = 2 };

    T_OK(run_all(g, &o));
    T_STREQ(log.data, CALLS(RUN RUN "a.end b.end "));
    mf_buf_clear(&log);
    a = (noter){ .name = 'a', .log = &log, .fail_at = 1, .failure = MF_INTERNAL };
    T_FAILS(MF_INTERNAL, "as configured", run_all(g, &o));
    T_STREQ(log.data, CALLS("a.before b.before a.after ")); /* no end after a failure */
    mf_buf_clear(&log);
    a = (noter){ .name = 'a', .log = &log, .fail_at = 1, .failure = MF_UNAVAILABLE };
    b.runs = 0;
    T_OK(run_all(g, &o));
    T_STREQ(log.data,
            CALLS("a.before b.before a.after a.created b.created " RUN RUN "a.end b.end "));
    mf_buf_clear(&log);
    a = (noter){ .name = 'a', .log = &log, .fail_at = 1, .failure = MF_OUT_OF_RANGE };
    T_FAILS(MF_OUT_OF_RANGE, "as configured", run_all(g, &o));
    T_STREQ(log.data, CALLS("a.before b.before a.after a.end b.end ")); /* the input has ended */
    mf_buf_deinit(&log);
    mf_graph_free(g);
}

MF_TEST(monitored_session_refuses_invalid_runs_and_runs_after_a_stop)
{
    mf_graph *g = counting(), *bare;
    mf_hook hook;
    mf_monitored_session *s;

    T_OK(mf_hook_stop_at_step(0, 3, &hook));
    T_OK(mf_monitored_session_new(g, &(mf_monitored_options){ .hooks = &hook, .n_hooks = 1 }, &s));
    for (int i = 0; i < 3; i++)
        T_OK(train(s));
    T_TRUE(mf_monitored_session_should_stop(s));
    T_FAILS(MF_FAILED_PRECONDITION, "a stop of the session was requested", train(s));
    T_EQ_F(value(mf_monitored_session_raw(s), "w:0"), 3);
    T_OK(mf_monitored_session_close(s));
    mf_hook_free(&hook);
    T_FAILS(MF_INVALID_ARGUMENT, "last step", mf_hook_stop_at_step(3, 3, &hook));
    T_OK(mf_graph_new(&bare));
    (void)mf_applyf(bare, "VariableV2", MF_NO_IN, "dtype=float shape=shape[] name='v'");
    T_FAILS(MF_FAILED_PRECONDITION, "'v' has no value", mf_monitored_session_new(bare, NULL, &s));
    mf_graph_free(bare);
    mf_graph_free(g);
}

/* ---- checkpoints ---- */

MF_TEST(monitored_session_restores_its_checkpoint_at_the_start_and_after_a_loss)
{
    mf_graph *g = counting();
    char dir[32];
    mf_hook hooks[4];
    mf_buf log = { 0 };
    noter n = { .name = 'n', .log = &log, .fail_at = 8, .failure = MF_ABORTED };
    mf_monitored_options o = { .checkpoint_dir = dir, .hooks = hooks, .n_hooks = 4 };
    folder_tag tag;

    folder_new(dir);
    T_OK(mf_hook_checkpoint(dir, (mf_every){ .steps = 5 }, 2, &hooks[0]));
    T_OK(mf_hook_stop_at_step(12, 0, &hooks[1]));
    T_OK(mf_hook_step_counter((mf_every){ .steps = 1 }, dir, &hooks[2]));
    hooks[3] = note_hook(&n);
    T_OK(run_all(g, &o));
    T_TRUE(n.runs >= 12 + 3 &&
           n.runs <=
               12 + 8); /* returns to step 5, or to 0 if the checkpoint of 5 is not written yet */
    T_TRUE(folder_has(dir, "model.ckpt-12.index") && !folder_has(dir, "model.ckpt-0.index"));
    tag = folder_events(dir, "global_step/sec");
    T_EQ(tag.files, 1);
    T_EQ(tag.starts, 2);
    T_TRUE(tag.start == 6 || tag.start == 1);
    mf_hook_free(&hooks[1]);
    T_OK(mf_hook_stop_at_step(0, 2, &hooks[1]));
    T_OK(run_all(g, &o));
    T_TRUE(folder_has(dir, "model.ckpt-14.index"));
    T_EQ(folder_events(dir, "global_step/sec").start, 13);
    for (int i = 0; i < 3; i++)
        mf_hook_free(&hooks[i]);
    mf_buf_deinit(&log);
    mf_graph_free(g);
    folder_remove(dir);
}

static mf_status always_lost(void *ctx, mf_hook_loop *l, mf_run_request *r)
{
    (void)l, (void)r;
    ++*(int *)ctx;
    return MF_FAIL(MF_UNAVAILABLE, "no server answers");
}

MF_TEST(monitored_session_fails_after_repeated_losses)
{
    mf_graph *g = counting();
    int tries = 0;
    const mf_hook hook = { .ctx = &tries, .before_run = always_lost };

    T_FAILS(
        MF_UNAVAILABLE, "no server answers",
        run_all(g, &(mf_monitored_options){ .hooks = &hook, .n_hooks = 1, .max_recoveries = 3 }));
    T_EQ(tries, 3);
    mf_graph_free(g);
}

/* ---- several in one process ---- */

typedef struct shared {
    mf_resources *resources;
    mf_graph *graph;
    mf_hook hook;
    double w;
} shared;

static mf_status connect_shared(void *ctx, const mf_graph *graph, mf_session **out)
{
    return mf_session_new_shared(graph, &(mf_session_options){ .threads = 1 },
                                 &(mf_session_shared){ .resources = ((shared *)ctx)->resources },
                                 out);
}

static void *work(void *ctx)
{
    shared *sh = ctx;
    const mf_monitored_options o = { .is_worker = true,
                                     .connect = connect_shared,
                                     .connect_ctx = sh,
                                     .hooks = &sh->hook,
                                     .n_hooks = 1 };
    mf_monitored_session *s;

    T_OK(mf_monitored_session_new(sh->graph, &o, &s));
    T_OK(train(s)); /* waits for step 5 */
    sh->w = value(mf_monitored_session_raw(s), "w:0");
    T_OK(mf_monitored_session_close(s));
    return NULL;
}

MF_TEST(monitored_worker_waits_for_the_chief_and_for_its_step)
{
    shared sh = { .graph = counting() };
    const mf_monitored_options o = { .connect = connect_shared, .connect_ctx = &sh };
    mf_monitored_options worker = {
        .is_worker = true, .wait_ms = 20, .connect = connect_shared, .connect_ctx = &sh
    };
    mf_monitored_session *s;
    pthread_t id;

    T_OK(mf_resources_new(&sh.resources));
    T_FAILS(MF_DEADLINE_EXCEEDED, "is the chief there?",
            mf_monitored_session_new(sh.graph, &worker, &s));
    T_OK(mf_hook_global_step_waiter(5, &sh.hook));
    T_EQ(pthread_create(&id, NULL, work, &sh), 0);
    usleep(5000);
    T_OK(mf_monitored_session_new(sh.graph, &o, &s));
    for (int i = 0; i < 5; i++)
        T_OK(train(s));
    T_EQ(pthread_join(id, NULL), 0);
    T_EQ_F(sh.w, 6);
    T_OK(mf_monitored_session_close(s));
    mf_hook_free(&sh.hook);
    mf_resources_free(sh.resources);
    mf_graph_free(sh.graph);
}

/* ---- the other hooks ---- */

static mf_status feed_two(void *ctx, mf_run_request *r)
{
    static const char *const name = "x:0";

    r->feed_names = &name;
    r->feeds = ctx;
    r->n_feeds = 1;
    return MF_OK;
}

MF_TEST(monitored_session_feeds_traces_and_ends_with_final_ops)
{
    mf_graph *g = counting();
    char dir[32];
    mf_hook hooks[5];
    const mf_tensor *two;
    mf_tensor *t;

    folder_new(dir);
    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &t));
    ((float *)mf_tensor_data(t))[0] = 2;
    two = t;
    T_OK(mf_hook_feed(feed_two, &two, &hooks[0]));
    T_OK(mf_hook_stop_at_step(7, 0, &hooks[1]));
    T_OK(mf_hook_profiler(dir, (mf_every){ .steps = 3 }, &hooks[2]));
    T_OK(mf_hook_final_ops((const char *[]){ "w:0" }, 1, &hooks[3]));
    T_OK(mf_hook_summary(&(mf_summary_options){ .dir = dir,
                                                .every = { .steps = 2 },
                                                .graph = true,
                                                .summaries = (const char *[]){ "summary:0" },
                                                .n_summaries = 1 },
                         &hooks[4]));
    T_TRUE(mf_hook_final_values(&hooks[3]) == NULL);
    T_OK(run_all(g, &(mf_monitored_options){ .hooks = hooks, .n_hooks = 5 }));
    T_EQ_F(mf_tensor_float_at(mf_hook_final_values(&hooks[3])[0], 0), 14);
    T_TRUE(folder_has(dir, "timeline-4.json") && folder_has(dir, "timeline-7.json") &&
           !folder_has(dir, "timeline-1.json"));
    T_EQ(folder_events(dir, "w").n, 4); /* of steps 1, 3, 5, 7 */
    T_EQ(folder_events(dir, "w").steps[3], 7);
    T_EQ_F(folder_events(dir, "w").last, 2);
    T_EQ(folder_events(dir, "w").graphs, 1);
    for (int i = 0; i < 5; i++)
        mf_hook_free(&hooks[i]);
    mf_tensor_free(t);
    mf_graph_free(g);
    folder_remove(dir);
}

MF_TEST(monitored_session_stops_or_fails_at_a_nan_loss)
{
    mf_graph *g = counting();
    const mf_tensor *nan_value;
    mf_hook hooks[3];
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &t));
    ((float *)mf_tensor_data(t))[0] = NAN;
    nan_value = t;
    T_OK(mf_hook_feed(feed_two, &nan_value, &hooks[0]));
    T_OK(mf_hook_logging((const char *[]){ "w:0" }, 1, (mf_every){ .steps = 1 }, true, &hooks[2]));
    for (int fail = 0; fail < 2; fail++) {
        T_OK(mf_hook_nan_guard("x:0", fail != 0, &hooks[1]));
        if (fail)
            T_FAILS(MF_INVALID_ARGUMENT, "x:0 is NaN",
                    run_all(g, &(mf_monitored_options){ .hooks = hooks, .n_hooks = 3 }));
        else
            T_OK(run_all(g, &(mf_monitored_options){ .hooks = hooks, .n_hooks = 3 }));
        mf_hook_free(&hooks[1]);
    }
    mf_hook_free(&hooks[0]);
    mf_hook_free(&hooks[2]);
    mf_tensor_free(t);
    mf_graph_free(g);
}

MF_TEST(monitored_session_refuses_two_feeds_of_one_tensor)
{
    mf_graph *g = counting();
    const mf_tensor *one;
    mf_hook hooks[2];
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &t));
    one = t;
    T_OK(mf_hook_feed(feed_two, &one, &hooks[0]));
    T_OK(mf_hook_feed(feed_two, &one, &hooks[1]));
    T_FAILS(MF_INVALID_ARGUMENT, "'x:0' is fed twice",
            run_all(g, &(mf_monitored_options){ .hooks = hooks, .n_hooks = 2 }));
    mf_hook_free(&hooks[0]);
    mf_hook_free(&hooks[1]);
    mf_tensor_free(t);
    mf_graph_free(g);
}

/* Steps consume the rows of a queue; then the session ends. */
MF_TEST(monitored_session_runs_queues_until_their_input_ends)
{
    mf_graph *g = counting();
    const mf_output q = mf_applyf(g, "FIFOQueueV2", MF_NO_IN,
                                  "component_types=[int64] shapes=[shape[]] capacity=2 name='q'"),
                    n = mf_applyf(g, "VariableV2", MF_NO_IN, "dtype=int64 shape=shape[] name='n'");
    const mf_queue_runner runner = { .enqueue = (const char *[]){ "enqueue" },
                                     .n_enqueue = 1,
                                     .threads = 2,
                                     .close = "close",
                                     .cancel = "cancel" };
    mf_monitored_session *s;
    const char *fetch = "dequeue:0";
    mf_tensor *t = NULL;
    int rows = 0;

    mf_control(g, mf_graph_find(g, "init"),
               mf_apply(g, "Assign", MF_IN(n, mf_scalar(g, MF_DTYPE_I64, 0))).node);
    (void)mf_applyf(g, "QueueEnqueueV2", MF_IN(q, mf_applyf(g, "CountUpTo", MF_IN(n), "limit=30")),
                    "name='enqueue'");
    (void)mf_applyf(g, "QueueDequeueV2", MF_IN(q), "component_types=[int64] name='dequeue'");
    (void)mf_applyf(g, "QueueCloseV2", MF_IN(q), "name='close'");
    (void)mf_applyf(g, "QueueCloseV2", MF_IN(q), "cancel_pending_enqueues=true name='cancel'");
    T_OK(mf_monitored_session_new(
        g, &(mf_monitored_options){ .queue_runners = &runner, .n_queue_runners = 1 }, &s));
    while (!mf_monitored_session_should_stop(s) &&
           mf_monitored_session_run(s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &t) == MF_OK)
        rows++;
    T_EQ(rows, 30);
    T_TRUE(mf_monitored_session_should_stop(s));
    T_OK(mf_monitored_session_close(s));
    /* A session that is closed while its queue is full. */
    T_OK(mf_monitored_session_new(
        g, &(mf_monitored_options){ .queue_runners = &runner, .n_queue_runners = 1 }, &s));
    T_OK(mf_monitored_session_run(s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &t));
    T_OK(mf_monitored_session_close(s));
    mf_tensor_free(t);
    mf_graph_free(g);
}
