/* SPDX-License-Identifier: Apache-2.0 */
/* group_faults.c - members that are late, leave, never join, or call another collective; and
 * unexpected messages. For all kinds of groups. */
#include "base/clock.h"
#include "collective/group_net.h"
#include "mf_test.h"
#include "unit/collective/groups.h"
#include "unit/net/net_tasks.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int all[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

typedef struct plot {
    int kind; /* index in mf_algorithms, or HOST or HOSTS */
    atomic_int begun, done; /* members that have started, and members that got the expected result
                             */
} plot;

enum { HOST = 5, HOSTS = 6, KINDS = 7 };

static mf_status make(mf_net *net, const plot *p, mf_group **g)
{
    if (p->kind == HOST)
        return mf_group_host(net, all, net->n_tasks, 1, g);
    if (p->kind == HOSTS)
        return mf_group_hosts(net, all, net->n_tasks, 1, g);
    return mf_group_net(net, all, net->n_tasks, 1, mf_algorithms[p->kind], g);
}

static bool run_all(bool (*run)(mf_net *net, void *arg))
{
    bool ok = true;

    for (int kind = 0; kind < KINDS && ok; kind++) {
        plot p = { .kind = kind };

        ok = test_tasks_as_threads(
            &(test_tasks){ .n = 4, .hosts = kind == HOSTS ? 2 : 0, .run = run, .arg = &p });
        if (!ok)
            fprintf(stderr, "# kind %d\n", kind);
    }
    return ok;
}

static mf_status sum(mf_group *g, int64_t count, int64_t step, int64_t ms)
{
    float data[64] = { 0 }, out[64];
    mf_reduction_tree_node node[TEST_TASKS_MAX];
    const mf_reduction_tree_node *parts[TEST_TASKS_MAX];
    int n_parts[TEST_TASKS_MAX];
    const void *mine = data;

    for (int r = 0; r < g->size; r++) {
        n_parts[r] = 1;
        node[r] = (mf_reduction_tree_node){ r, r + 1 };
        parts[r] = &node[r];
    }
    return mf_all_reduce(
        g, &(mf_reduce){ .call = { step, mf_clock_ns() + ms * 1000000, "the gradients" },
                         .leaves = g->size,
                         .parts = parts,
                         .n_parts = n_parts,
                         .data = &mine,
                         .dtype = MF_DTYPE_F32,
                         .count = count,
                         .out = out });
}

static bool says(mf_status st, mf_status a, mf_status b, const char *name)
{
    const bool ok = (st == a || st == b) && strstr(mf_error_message(), name) != NULL;

    if (!ok)
        fprintf(stderr, "# status %d: %s\n", (int)st, st == MF_OK ? "" : mf_error_message());
    return ok;
}

static void await_others(atomic_int *count, int n)
{
    atomic_fetch_add(count, 1);
    for (int i = 0; i < 30000 && atomic_load(count) < n; i++)
        usleep(1000);
}

/* Creates the group and waits for all members. */
static bool ready(mf_net *net, plot *p, mf_group **g)
{
    const bool ok = make(net, p, g) == MF_OK &&
                    mf_barrier(*g, &(mf_collective){ .what = "a barrier" }) == MF_OK;

    await_others(&p->begun, net->n_tasks);
    return ok;
}

static bool wants_something_else(mf_net *net, void *arg)
{
    plot *p = arg;
    mf_group *g;
    bool ok = ready(net, p, &g);

    /* Every member detects the mismatch itself, or receives it from another member. */
    ok = ok && says(sum(g, net->self == 2 ? 40 : 41, 1, 20000), MF_INVALID_ARGUMENT, MF_ABORTED,
                    "worker ");
    await_others(&p->done, net->n_tasks);
    mf_group_free(g);
    return ok;
}

MF_TEST(comm_group_members_with_different_sums_fail)
{
    T_TRUE(run_all(wants_something_else));
}

static bool does_not_come(mf_net *net, void *arg)
{
    plot *p = arg;
    mf_group *g;
    bool ok = ready(net, p, &g);

    /* The member is alive and reads, but does not call the collective. */
    if (net->self != 3)
        ok = ok && says(sum(g, 40, 1, 900), MF_DEADLINE_EXCEEDED, MF_ABORTED, "worker 3");
    await_others(&p->done, net->n_tasks);
    if (net->self == 3) { /* the late member gets the error */
        for (int i = 0; i < 20000 && mf_net_check(net) == MF_OK; i++)
            usleep(1000);
        ok = ok && says(sum(g, 40, 1, 900), MF_ABORTED, MF_ABORTED, "worker 3");
    }
    mf_group_free(g);
    return ok;
}

MF_TEST(comm_group_missing_member_is_named_by_all_others)
{
    T_TRUE(run_all(does_not_come));
}

static bool leaves(mf_net *net, void *arg)
{
    plot *p = arg;
    mf_group *g;
    bool ok = ready(net, p, &g);

    if (net->self != 1)
        ok = ok && says(sum(g, 40, 1, 20000), MF_UNAVAILABLE, MF_ABORTED, "worker 1");
    if (net->self != 1)
        await_others(&p->done, net->n_tasks - 1);
    mf_group_free(g);
    return ok;
}

MF_TEST(comm_group_member_that_leaves_is_named)
{
    T_TRUE(run_all(leaves));
}

static bool comes_late(mf_net *net, void *arg)
{
    plot *p = arg;
    mf_group *g;
    bool ok = ready(net, p, &g);

    for (int step = 1; step < 4 && ok; step++) {
        if (net->self == step)
            usleep(60000);
        ok = sum(g, 40, step, 20000) == MF_OK;
    }
    mf_group_free(g);
    return ok;
}

MF_TEST(comm_group_late_member_is_waited_for)
{
    T_TRUE(run_all(comes_late));
}

/* Sends duplicates of old messages, messages of another group, and messages of other epochs. */
static bool sends_nonsense(mf_net *net, void *arg)
{
    plot *p = arg;
    mf_group *g;
    bool ok = ready(net, p, &g);
    char bytes[1000] = { 1 };

    for (int i = 0; i < 60 && ok; i++) {
        const mf_frame f = { .kind = i % 2 ? MF_MESSAGE_COLLECTIVE : MF_MESSAGE_READY,
                             .group = (uint32_t)(i % 5),
                             .epoch = (uint32_t)(i % 7),
                             .seq = i % 5 == 1 && i % 7 == 0 ? 0 : (uint32_t)(i % 3),
                             .step = i % 4,
                             .size = i % 2 ? 100 : 0 };

        if (f.group == 1 && f.epoch == 0 && f.step > 0)
            continue; /* this would be a valid message of this group */
        ok = mf_net_send(net, (net->self + 1) % net->n_tasks, &f, bytes, 0) == MF_OK;
    }
    ok = ok && test_group_member(g);
    mf_group_free(g);
    return ok;
}

MF_TEST(comm_group_ignores_unrequested_messages)
{
    T_TRUE(run_all(sends_nonsense));
}
