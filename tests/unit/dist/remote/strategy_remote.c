/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_remote.c - parameter servers and workers as threads. tests/train/servers.py runs
 * processes.
 */
#include "base/clock.h"
#include "dist/param_server/strategy_param_server.h"
#include "net/net.h"
#include "unit/dist/dist_test.h"
#include "unit/net/net_tasks.h"
#include "unit/train/loop/toy.h"

#include <stddef.h>

enum { STEPS = 12 };

static void fit_once(job_worker *w, mf_fit_options options)
{
    toy p;

    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "adam", .strategy = w->s });
    options.batch = 13;
    job_note(w, mf_fit(p.trainer, p.data, NULL, &options));
    if (w->st == MF_OK && w->rank < w->n)
        T_OK(mf_trainer_sha256(p.trainer, w->sha));
    toy_end(&p);
}

/* ---- one strategy, two trainers ---- */

static void fit_twice(job_worker *w)
{
    char first[65];

    fit_once(w, (mf_fit_options){ .steps = STEPS });
    if (w->st != MF_OK || w->rank >= w->n)
        return; /* a server serves both */
    memcpy(first, w->sha, sizeof first);
    fit_once(w, (mf_fit_options){ .steps = STEPS });
    if (w->st == MF_OK && w->arg)
        T_STREQ(w->sha, first);
}

MF_TEST(servers_forget_an_earlier_trainer)
{
    static const char *const kinds[] = { "parameter_server", "parameter_server mode=async",
                                         "parameter_server mode=semi quorum=2" };
    job_worker w[JOB_MOST];

    for (int k = 0; k < MF_COUNT(kinds); k++) {
        job_run_served(w, 2, 2, kinds[k], fit_twice, k == 0 ? (void *)(uintptr_t)kinds : NULL);
        for (int i = 0; i < 4; i++) {
            if (w[i].st != MF_OK)
                T_FAIL("%s: task %d: %s", kinds[k], i, w[i].message);
        }
    }
}

/* ---- stopping ---- */

static mf_status stop_after(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    job_worker *w = ctx;

    (void)t;
    (void)report;
    if (w->rank == 1)
        mf_strategy_stop(w->s);
    return MF_OK;
}

/* The other workers have batches for hours. */
static void fit_until_stopped(job_worker *w)
{
    fit_once(w, (mf_fit_options){ .steps = 100000000,
                                  .hooks = &(mf_hook){ .ctx = w, .after_step = stop_after },
                                  .n_hooks = 1 });
}

MF_TEST(servers_notify_all_workers_of_a_stop_request)
{
    static const char *const kinds[] = { "parameter_server", "parameter_server mode=async",
                                         "parameter_server mode=semi staleness=1",
                                         "parameter_server mode=async period=3 collective=net" };
    job_worker w[JOB_MOST];

    for (int k = 0; k < MF_COUNT(kinds); k++) {
        job_run_served(w, 3, 1, kinds[k], fit_until_stopped, NULL);
        for (int i = 0; i < 4; i++) {
            if (w[i].st != MF_OK)
                T_FAIL("%s: task %d: %s", kinds[k], i, w[i].message);
        }
    }
}

/* ---- weights that a reader holds ---- */

enum { KEPT = 6 }; /* more than there are areas for answers */

typedef struct keeper {
    mf_tensor held[KEPT], copy[KEPT];
} keeper;

static mf_status keep_weights(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    keeper *k = ctx;
    const int i = (int)(report->step % KEPT);

    for (int n = 0; n < KEPT; n++) {
        if (k->held[n].data)
            T_EQ(memcmp(k->held[n].data, k->copy[n].data, mf_tensor_bytes(&k->copy[n])), 0);
    }
    mf_tensor_clear(&k->held[i]);
    mf_tensor_clear(&k->copy[i]);
    MF_TRY(mf_variable_read(mf_trainer_find(t, "dense/kernel")->variable, &k->held[i]));
    return mf_tensor_clone(&k->copy[i], &k->held[i]);
}

static void fit_and_keep(job_worker *w)
{
    keeper k = { 0 };

    fit_once(w, (mf_fit_options){ .steps = 4 * KEPT,
                                  .hooks = &(mf_hook){ .ctx = &k, .after_step = keep_weights },
                                  .n_hooks = 1 });
    for (int n = 0; n < KEPT; n++) {
        mf_tensor_clear(&k.held[n]);
        mf_tensor_clear(&k.copy[n]);
    }
}

MF_TEST(servers_do_not_modify_weights_that_a_reader_holds)
{
    static const char *const kinds[] = { "parameter_server", "parameter_server mode=async" };
    job_worker w[JOB_MOST];

    for (int k = 0; k < MF_COUNT(kinds); k++) {
        job_run_served(w, 2, 1, kinds[k], fit_and_keep, NULL);
        for (int i = 0; i < 3; i++) {
            if (w[i].st != MF_OK)
                T_FAIL("%s: task %d: %s", kinds[k], i, w[i].message);
        }
    }
}

/* ---- invalid pushes ---- */

enum { SERVER = 1 };

static uint32_t seq;

/* The server's answer. Owns: mf_free(). */
static void *ask(mf_net *net, mf_ps_request what, const void *data, size_t *size)
{
    const int64_t deadline = mf_clock_ns() + 20000000000;
    mf_frame f = { .kind = MF_MESSAGE_REQUEST, .group = what, .seq = ++seq, .size = *size };
    void *answer;

    T_OK(mf_net_send(net, SERVER, &f, data, deadline));
    f.kind = MF_MESSAGE_REPLY;
    T_OK(mf_net_take(net, SERVER, &f, &answer, size, deadline, "an answer"));
    return answer;
}

typedef struct full_push {
    mf_ps_push head;
    mf_reduction_tree_node part;
    float gradients[TOY_INPUTS + 1];
} full_push;

/* Each is of a batch of its own. */
static mf_ps_reply push(mf_net *net, const full_push *p, size_t size, char *text)
{
    full_push numbered = *p;
    mf_ps_reply head = { 0 };
    char *answer;

    numbered.head.step = seq;
    answer = ask(net, MF_PS_PUSH, &numbered, &size);

    T_TRUE(size >= sizeof head);
    memcpy(&head, answer, sizeof head);
    (void)snprintf(text, 200, "%.*s", (int)(size - sizeof head), answer + sizeof head);
    mf_free(answer);
    return head;
}

static full_push good_push(void)
{
    return (full_push){ .head = { .samples = 1,
                                  .leaves = 1,
                                  .n_parts = 1,
                                  .workers = 1,
                                  .batches = 1,
                                  .learning_rate = 0.1f,
                                  .in_lane = -1,
                                  .answer = -1 },
                        .part = { 0, 1 } };
}

static void be_a_bad_worker(mf_net *net, void *arg)
{
    const full_push good = good_push();
    full_push bad = good;
    const size_t size = offsetof(full_push, gradients) + sizeof good.gradients;
    char text[200];

    (void)arg;
    T_EQ(push(net, &good, size, text).version, 1);
    for (size_t n = 0; n <= sizeof good; n += n + 1 == size ? 2 : 1) { /* cut anywhere, or longer */
        T_EQ(push(net, &good, n, text).status, MF_INVALID_ARGUMENT);
        T_TRUE(strstr(text, "worker 0 pushed") != NULL);
    }
    for (int lane = 0; lane < 3; lane++) { /* there is none */
        bad.head.in_lane = lane;
        T_EQ(push(net, &bad, size, text).status, MF_INVALID_ARGUMENT);
        T_EQ(push(net, &bad, offsetof(full_push, gradients), text).status, MF_INVALID_ARGUMENT);
    }
    bad = good;
    bad.head.n_parts = MF_REDUCTION_TREE_PARTS + 1;
    T_EQ(push(net, &bad, size, text).status, MF_INVALID_ARGUMENT);
    bad.head.n_parts = 1;
    bad.head.n_extra = INT64_MAX / 4;
    T_EQ(push(net, &bad, size, text).status, MF_INVALID_ARGUMENT);
    bad = good;
    bad.part.hi = 5; /* of one leaf */
    T_EQ(push(net, &bad, size, text).status, MF_INVALID_ARGUMENT);
    T_EQ(push(net, &good, size, text).version, 2); /* and it still serves */
}

/* Its push waits for another worker's, and may be in the shared memory that a new one would
 * replace. */
static void be_an_impatient_worker(mf_net *net, void *arg)
{
    const int64_t deadline = mf_clock_ns() + 20000000000;
    const full_push good = good_push();
    mf_frame f = { .kind = MF_MESSAGE_REQUEST, .group = MF_PS_PUSH, .seq = ++seq };
    size_t size = sizeof "/none 64", nothing = 0;
    char *answer;

    (void)arg;
    f.size = offsetof(full_push, gradients) + sizeof good.gradients;
    T_OK(mf_net_send(net, SERVER, &f, &good, deadline));
    answer = ask(net, MF_PS_SHM, "/none 64", &size);
    T_TRUE(size == strlen("a push is waiting") && memcmp(answer, "a push is waiting", size) == 0);
    mf_free(answer);
    mf_free(ask(net, MF_PS_LEAVE, NULL, &nothing)); /* the remaining workers suffice */
    f.kind = MF_MESSAGE_REPLY;
    T_OK(mf_net_take(net, SERVER, &f, (void **)&answer, &size, deadline, "an answer"));
    T_TRUE(size > sizeof(mf_ps_reply));
    mf_free(answer);
}

/* ---- repeated pushes ---- */

enum { UPDATES = 100, AGAIN = 1000, AT_ONCE = 50 };

typedef struct answers {
    int again; /* how often each push, and one before it, is repeated */
    char last[256]; /* the last answer: the weights */
    size_t size;
} answers;

static void send_batch(mf_net *net, const full_push *p, uint32_t number)
{
    const mf_frame f = { .kind = MF_MESSAGE_REQUEST,
                         .group = MF_PS_PUSH,
                         .seq = number,
                         .size = offsetof(full_push, gradients) + sizeof p->gradients };

    T_OK(mf_net_send(net, SERVER, &f, p, mf_clock_ns() + 20000000000));
}

/* Each number is a batch of its own. */
static void send_push(mf_net *net, full_push *p, uint32_t number)
{
    p->head.step = number;
    send_batch(net, p, number);
}

static void take_answer(mf_net *net, uint32_t number, int64_t version, answers *a)
{
    const mf_frame f = { .kind = MF_MESSAGE_REPLY, .group = MF_PS_PUSH, .seq = number };
    mf_ps_reply head;
    char *answer;

    T_OK(mf_net_take(net, SERVER, &f, (void **)&answer, &a->size, mf_clock_ns() + 20000000000,
                     "an answer"));
    T_TRUE(a->size >= sizeof head && a->size <= sizeof a->last);
    memcpy(a->last, answer, a->size);
    memcpy(&head, answer, sizeof head);
    mf_free(answer);
    T_EQ(head.status, MF_OK);
    T_EQ(head.version, version);
}

/* All kinds of late: the last push, and earlier ones, in any order. */
static void be_an_echo(mf_net *net, void *arg)
{
    answers *a = arg;
    full_push p = good_push();
    uint64_t random = 1, other = 2;

    for (uint32_t u = 1; u <= UPDATES; u++) {
        uint32_t late[AT_ONCE];

        for (int i = 0; i <= TOY_INPUTS; i++)
            p.gradients[i] = toy_noise(&random);
        send_push(net, &p, u);
        take_answer(net, u, u, a);
        for (int n = 0; n < a->again; n += AT_ONCE) {
            for (int i = 0; i < AT_ONCE; i++) {
                p.gradients[0] = toy_noise(&other);
                late[i] = i % 2 ? u : 1 + (uint32_t)(other >> 20) % u;
                send_push(net, &p, late[i]);
            }
            for (int i = 0; i < AT_ONCE; i++)
                take_answer(net, late[i], u, a);
        }
    }
    seq = UPDATES; /* of other requests */
}

/* A lost worker had pushed a batch to this server, but not to all: another worker repeats it.
 */
static void be_a_second_worker(mf_net *net, void *arg)
{
    full_push p = good_push();
    answers first = { 0 }, again = { 0 };
    char text[200];

    (void)arg;
    p.gradients[0] = 1.0f;
    p.head.step = 5;
    send_batch(net, &p, 1);
    take_answer(net, 1, 1, &first);
    p.gradients[0] = 2.0f; /* with other weights, it is another gradient */
    send_batch(net, &p, 2);
    take_answer(net, 2, 1, &again);
    T_EQ(again.size, first.size);
    T_EQ(memcmp(again.last, first.last, first.size), 0);
    seq = 2;
    T_EQ(push(net, &p, offsetof(full_push, gradients) + sizeof p.gradients, text).version, 2);
}

/* n_workers 2: the server waits for a second worker, which does not connect. */
typedef struct service {
    int n_workers;
    void (*work)(mf_net *net, void *arg);
    void *arg;
} service;

static bool serve_or_push(mf_net *net, void *arg)
{
    const service *x = arg;
    size_t nothing = 0;
    toy p;
    mf_status st;

    if (mf_net_self(net) != SERVER) {
        x->work(net, x->arg);
        mf_free(ask(net, MF_PS_END, NULL, &nothing));
        return true;
    }
    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "sgd" });
    st = mf_ps_serve(
        &(mf_ps_server_options){
            .net = net,
            .n_workers = x->n_workers,
            .n_servers = 1,
            .mode = { .staleness = -1, .quorum = x->n_workers > 1 ? 2 : 0, .period = 1 },
            .timeout_ns = 20000000000 },
        p.trainer);
    toy_end(&p);
    return st == MF_OK;
}

MF_TEST(servers_refuse_invalid_pushes_and_continue)
{
    service x = { 1, be_a_bad_worker, NULL };

    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = serve_or_push, .arg = &x }));
}

MF_TEST(servers_accept_no_new_shared_memory_while_a_push_waits)
{
    service x = { 2, be_an_impatient_worker, NULL };

    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = serve_or_push, .arg = &x }));
}

MF_TEST(servers_apply_a_repeated_or_late_push_once)
{
    answers once = { 0 }, often = { .again = AGAIN };
    service x = { 1, be_an_echo, &once }, y = { 1, be_an_echo, &often };

    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = serve_or_push, .arg = &x }));
    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = serve_or_push, .arg = &y }));
    printf("0 of %d repeated or late pushes were applied\n", UPDATES * AGAIN);
    T_EQ(often.size, once.size);
    T_EQ(memcmp(often.last, once.last, once.size), 0);
}

MF_TEST(servers_apply_a_batch_once_for_any_sender)
{
    service x = { 1, be_a_second_worker, NULL };

    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = serve_or_push, .arg = &x }));
}
