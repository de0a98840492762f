/* SPDX-License-Identifier: Apache-2.0 */
/* membership.c - views of a job: its tasks are in one process and share a store in memory. */
#include "cluster/membership/membership.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/membership/membership_snapshot.h"
#include "mf_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const TWO[] = { "worker 0", "worker 1" };

/* A task that registers, and waits for its next view in a separate thread. */
typedef struct task {
    mf_members *members;
    const mf_view *view;
    mf_status st;
    pthread_t thread;
    atomic_int news;
} task;

static void hear(void *ctx)
{
    atomic_fetch_add(&((task *)ctx)->news, 1);
}

static void come_for(task *t, const char *store, const char *name, int64_t lease_ns)
{
    T_OK(mf_members_open(&(mf_members_options){ .store = store,
                                                .name = name,
                                                .address = "here",
                                                .first = TWO,
                                                .n_first = 2,
                                                .lease_ns = lease_ns,
                                                .timeout_ns = 20000000000,
                                                .news = hear,
                                                .ctx = t },
                         &t->members));
}

static void come(task *t, const char *store, const char *name)
{
    come_for(t, store, name, 500000000);
}

static void *next(void *arg)
{
    task *t = arg;

    t->st = mf_members_next(t->members, &t->view);
    return NULL;
}

static void begin_next(task *t)
{
    T_TRUE(pthread_create(&t->thread, NULL, next, t) == 0);
}

static void end_next(task *t)
{
    T_TRUE(pthread_join(t->thread, NULL) == 0);
    T_OK(t->st);
}

static void both_next(task *a, task *b)
{
    begin_next(a);
    begin_next(b);
    end_next(a);
    end_next(b);
}

static void until(bool (*is)(mf_members *m), mf_members *m)
{
    const int64_t end = mf_clock_ns() + 20000000000;

    while (!is(m)) {
        T_TRUE(mf_clock_ns() < end);
        (void)nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    }
}

static bool a_member_is_missing(mf_members *m)
{
    return mf_members_check(m) == MF_UNAVAILABLE;
}

/* ---- */

MF_TEST(cluster_members_begin_when_all_are_registered)
{
    task a = { 0 }, b = { 0 };

    come(&a, "memory:begin", "worker 0");
    begin_next(&a);
    come(&b, "memory:begin", "worker 1");
    begin_next(&b);
    end_next(&a);
    end_next(&b);
    T_TRUE(a.view->epoch == 1 && a.view->n == 2 && a.view->self == 0);
    T_TRUE(b.view->epoch == 1 && b.view->n == 2 && b.view->self == 1);
    T_OK(mf_members_check(a.members));
    T_TRUE(!mf_members_wait_for_next(a.members));
    mf_members_close(a.members);
    mf_members_close(b.members);
}

MF_TEST(cluster_members_form_a_view_without_a_lost_task)
{
    task a = { 0 }, b = { 0 };

    come(&a, "memory:gone", "worker 0");
    come(&b, "memory:gone", "worker 1");
    both_next(&a, &b);
    mf_members_close(a.members);
    until(a_member_is_missing, b.members);
    T_TRUE(atomic_load(&b.news) > 0);
    T_TRUE(strstr(mf_error_message(), "worker 0") != NULL);
    T_OK(mf_members_next(b.members, &b.view));
    T_TRUE(b.view->epoch == 2 && b.view->n == 1 && b.view->self == 0);
    mf_members_close(b.members);
}

MF_TEST(cluster_members_append_a_new_task_to_the_view)
{
    task a = { 0 }, b = { 0 }, c = { 0 };

    come(&a, "memory:new", "worker 0");
    come(&b, "memory:new", "worker 1");
    both_next(&a, &b);
    come(&c, "memory:new", "extra 7");
    begin_next(&c);
    until(mf_members_wait_for_next, a.members);
    both_next(&a, &b);
    end_next(&c);
    T_TRUE(a.view->epoch == 2 && a.view->n == 3 && a.view->self == 0);
    T_TRUE(b.view->self == 1 && c.view->self == 2 && c.view->epoch == 2);
    T_TRUE(!mf_members_wait_for_next(b.members));
    mf_members_close(a.members);
    mf_members_close(b.members);
    mf_members_close(c.members);
}

MF_TEST(cluster_members_release_a_task_that_leaves)
{
    task a = { 0 }, b = { 0 };

    come(&a, "memory:leave", "worker 0");
    come(&b, "memory:leave", "worker 1");
    both_next(&a, &b);
    T_OK(mf_members_leave(a.members));
    until(mf_members_wait_for_next, b.members);
    begin_next(&a);
    T_OK(mf_members_next(b.members, &b.view));
    T_TRUE(pthread_join(a.thread, NULL) == 0);
    T_TRUE(a.st == MF_CANCELLED);
    T_TRUE(b.view->n == 1 && b.view->self == 0);
    mf_members_close(a.members);
    mf_members_close(b.members);
}

MF_TEST(cluster_members_names_are_unique)
{
    task a = { 0 };
    mf_members *second;

    come_for(&a, "memory:twice", "worker 0", 3000000000); /* it is also renewed on a busy machine */
    T_FAILS(MF_ALREADY_EXISTS, "worker 0 exists already, at here",
            mf_members_open(&(mf_members_options){ .store = "memory:twice",
                                                   .name = "worker 0",
                                                   .address = "there",
                                                   .lease_ns = 200000000,
                                                   .timeout_ns = 1000000000 },
                            &second));
    mf_members_close(a.members);
}

MF_TEST(cluster_members_refuse_a_task_that_joins_after_the_end)
{
    task a = { 0 }, b = { 0 }, c = { 0 };
    bool saved = true;

    come(&a, "memory:over", "worker 0");
    come(&b, "memory:over", "worker 1");
    both_next(&a, &b);
    T_OK(mf_members_marked(a.members, "saved", &saved));
    T_TRUE(!saved);
    T_OK(mf_members_mark(a.members, "saved"));
    T_OK(mf_members_marked(b.members, "saved", &saved));
    T_TRUE(saved);
    T_OK(mf_members_end(a.members, false));
    come(&c, "memory:over", "extra 7");
    T_FAILS(MF_OUT_OF_RANGE, "", mf_members_next(c.members, &c.view));
    mf_members_close(c.members);
    mf_members_close(a.members);
    until(a_member_is_missing, b.members);
    T_OK(mf_members_next(b.members, &b.view)); /* the remaining task continues */
    T_TRUE(b.view->n == 1);
    mf_members_close(b.members);
}

/* ---- doubts ---- */

/* The store's contents for tasks 0 to n - 1, all in the view, with these suspicions: pairs of
 * digits.
 */
static mf_view next_of(int n, const char *suspicions)
{
    mf_membership_snapshot s = { .view.self = -1 };
    mf_store_entries all = { 0 };
    mf_store_entry entries[16] = { 0 };
    char keys[16][16], values[16][80], view[1024] = "{\"epoch\":1,\"members\":[";
    mf_view next = { .self = -1 };

    for (int i = 0; i < n; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "task/%d", i);
        (void)snprintf(
            values[i], sizeof values[i],
            "{\"epoch\":1,\"members\":[{\"name\":\"%d\",\"address\":\"x\",\"id\":\"i%d\"}]}", i, i);
        (void)snprintf(view + strlen(view), sizeof view - strlen(view),
                       "%s{\"name\":\"%d\",\"address\":\"x\",\"id\":\"i%d\"}", i > 0 ? "," : "", i,
                       i);
        all.n++;
    }
    (void)snprintf(view + strlen(view), sizeof view - strlen(view), "]}");
    for (const char *d = suspicions; *d; d += 2, all.n++) {
        (void)snprintf(keys[all.n], sizeof keys[all.n], "doubt/%c/%c", d[0], d[1]);
        (void)snprintf(values[all.n], sizeof values[all.n], "i%c i%c", d[0], d[1]);
    }
    for (int i = 0; i < all.n; i++)
        entries[i] =
            (mf_store_entry){ .key = keys[i], .value = values[i], .size = strlen(values[i]) };
    entries[all.n++] = (mf_store_entry){
        .key = (char *)(uintptr_t) "view", .value = view, .size = strlen(view), .version = 1
    };
    all.entries = entries;
    T_OK(mf_membership_snapshot_read(&all, &s));
    T_OK(mf_membership_snapshot_next(&s, &next));
    mf_membership_snapshot_deinit(&s);
    return next;
}

/* Names of the next view. */
static void check_next(int n, const char *suspicions, const char *names)
{
    mf_view v = next_of(n, suspicions);
    char got[16] = "";

    for (int i = 0; i < v.n; i++)
        (void)strcat(got, v.members[i].name);
    T_STREQ(got, names);
    mf_view_deinit(&v);
}

MF_TEST(cluster_members_of_a_view_do_not_suspect_each_other)
{
    check_next(3, "", "012");
    check_next(3, "0212", "01"); /* 2 does not connect */
    check_next(3, "1012", "02"); /* 1 reaches no task */
    check_next(3, "12", "01"); /* they do not reach each other: the later member is excluded */
    check_next(3, "21", "01");
    check_next(2, "0110", "0");
    check_next(4, "0213", "01"); /* two pairs */
    check_next(4, "02030112", "13"); /* 0 has three suspicions, then 2 has most */
    check_next(3, "0712", "01"); /* 7 is not registered any more */
}

static bool is_out_and_waits(mf_members *m)
{
    return mf_members_check(m) == MF_ABORTED;
}

MF_TEST(cluster_members_exclude_a_suspected_task_which_rejoins)
{
    task a = { 0 }, b = { 0 };

    come(&a, "memory:doubt", "worker 0");
    come(&b, "memory:doubt", "worker 1");
    both_next(&a, &b);
    T_OK(mf_members_suspect(a.members, 1));
    T_OK(mf_members_next(a.members, &a.view));
    T_TRUE(a.view->epoch == 2 && a.view->n == 1 && a.view->self == 0);
    until(is_out_and_waits, b.members);
    T_TRUE(!mf_members_wait_for_next(a.members)); /* it is registered, but still excluded */
    begin_next(&b);
    until(mf_members_wait_for_next, a.members); /* after a while */
    T_OK(mf_members_next(a.members, &a.view));
    end_next(&b);
    T_TRUE(a.view->epoch == 3 && a.view->n == 2 && b.view->self == 1);
    mf_members_close(a.members);
    mf_members_close(b.members);
}

MF_TEST(cluster_members_refuse_invalid_views)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{\"epoch\":1}",
        "{\"epoch\":0,\"members\":[{\"name\":\"a\",\"address\":\"b\",\"id\":\"c\"}]}",
        "{\"epoch\":1,\"members\":[{\"name\":\"a\",\"address\":\"b\"}]}",
        "{\"epoch\":1,\"members\":[7]}",
        ("{\"epoch\":1,\"members\":[{\"name\":\"a\",\"address\":\"b\",\"id\":\"c\","
         "\"lease_ms\":-1}]}"),
        "{\"epoch\":99999999999,\"members\":[{\"name\":\"a\",\"address\":\"b\",\"id\":\"c\"}]}",
    };
    mf_view v;

    for (int i = 0; i < MF_COUNT(bad); i++)
        T_FAILS(MF_DATA_LOSS, "", mf_view_parse(bad[i], strlen(bad[i]), &v));
}
