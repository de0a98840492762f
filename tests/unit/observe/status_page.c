/* SPDX-License-Identifier: Apache-2.0 */
/* status_page.c - status pages are read as written; readers check every field. */
#include "observe/status_page.h"

#include "base/clock.h"
#include "base/pool.h"
#include "mf_test.h"
#include "observe/stall_watchdog.h"
#include "observe/status_page_layout.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static void begin(void)
{
    (void)strcpy(dir, "/tmp/meshflow-page-XXXXXX");
    T_TRUE(mkdtemp(dir) != NULL);
    T_EQ(setenv("MESHFLOW_RUN_DIR", dir, 1), 0);
}

static void finish(void)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -r '%s'", dir);
    T_EQ(system(command), 0);
}

static mf_status_page read_one(bool *alive)
{
    mf_status_page_seen *all;
    mf_status_page page = { 0 };
    int n;

    T_OK(mf_status_pages_read(&all, &n));
    T_EQ(n, 1);
    if (n == 1) {
        page = all[0].page;
        *alive = all[0].alive;
    }
    mf_status_pages_free(all, n);
    return page;
}

/* The page of a task that is being created. */
static void make_empty_page(void)
{
    char path[128];
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/empty", dir);
    f = fopen(path, "w");
    T_TRUE(f != NULL);
    if (f)
        T_EQ(fclose(f), 0);
}

MF_TEST(status_page_stall_report_preserves_the_error_of_its_caller)
{
    mf_stall s;
    mf_status st;

    begin();
    T_OK(mf_status_page_open("waits", "worker 0", 2));
    make_empty_page();
    mf_stall_begin(&s);
    s.next_check_ns = 0;
    st = MF_FAIL(MF_DEADLINE_EXCEEDED, "worker 1 has not connected");
    T_EQ(mf_stall_check(&s), MF_STALL_SEEN);
    T_EQ(st, MF_DEADLINE_EXCEEDED);
    T_STREQ(mf_error_message(), "worker 1 has not connected");
    mf_status_page_close();
    finish();
}

MF_TEST(status_page_shows_a_task_and_is_removed_with_it)
{
    int64_t ns[MF_USES], sum = 0;
    mf_status_page p;
    mf_status_page_seen *all;
    bool alive;
    int wait, n;

    begin();
    T_OK(mf_status_page_open("a.job", "worker 1", 3));
    mf_status_page_begin(7, 100);
    mf_status_page_shards(4, 4);
    mf_status_page_step(8, 2, 64, 0.5);
    mf_status_page_threads(3, 1);
    wait = mf_status_page_wait_begin("worker 2", "127.0.0.1:4001", "the gradients", 8);
    p = read_one(&alive);
    T_TRUE(alive);
    T_STREQ(p.job, "a.job");
    T_STREQ(p.task, "worker 1");
    T_EQ(p.pid, getpid());
    T_EQ(p.step, 8);
    T_EQ(p.steps, 100);
    T_EQ(p.threads, 3);
    T_STREQ(p.waits[0].whom, "worker 2");
    T_STREQ(p.waits[0].where, "127.0.0.1:4001");
    T_EQ(p.use, MF_USE_COMMUNICATION);
    mf_status_page_computing(+1);
    T_EQ(read_one(&alive).use, MF_USE_COMPUTE);
    mf_status_page_computing(-1);
    mf_status_page_wait_end(wait);
    T_EQ(read_one(&alive).use, MF_USE_IDLE);
    p = read_one(&alive);
    mf_status_page_page_used(&p, p.changed_ns + 1000, ns);
    for (int i = 0; i < MF_USES; i++)
        sum += ns[i];
    T_EQ(sum, p.changed_ns + 1000 - p.began_ns); /* all time since it began */
    mf_status_page_close();
    T_OK(mf_status_pages_read(&all, &n));
    T_EQ(n, 0);
    mf_status_pages_free(all, n);
    finish();
}

/* A child opens a page and is killed. */
static void killed_task(const char *job)
{
    int ready[2];
    char byte;
    pid_t pid;

    T_EQ(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        if (mf_status_page_open(job, "worker 0", 1) != MF_OK || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    T_EQ(read(ready[0], &byte, 1), 1);
    T_FAILS(MF_ALREADY_EXISTS, "choose another name", mf_status_page_open(job, "worker 0", 1));
    (void)kill(pid, SIGKILL);
    T_EQ(waitpid(pid, NULL, 0), pid);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

MF_TEST(status_page_of_a_killed_task_is_dead_until_the_job_restarts)
{
    bool alive = true;

    begin();
    killed_task("job");
    (void)read_one(&alive);
    T_TRUE(!alive);
    T_OK(mf_status_page_open("job", "worker 3", 1)); /* another task: dead pages are swept */
    T_STREQ(read_one(&alive).task, "worker 3");
    T_TRUE(alive);
    T_OK(mf_status_page_rename("other"));
    T_STREQ(read_one(&alive).job, "other");
    mf_status_page_close();
    finish();
}

/* A child that is kept from its processor in the middle of a write: with `stopped`, by a signal. */
static pid_t writer(int ready, bool stopped)
{
    const pid_t pid = fork();
    mf_status_page *p;

    if (pid != 0)
        return pid;
    if (mf_status_page_open("job", "worker 0", 1) != MF_OK)
        _exit(1);
    p = mf_status_page_change();
    p->step = 99;
    if (write(ready, "x", 1) != 1)
        _exit(1);
    if (stopped)
        (void)raise(SIGSTOP);
    (void)usleep(200000);
    p->epoch = 99;
    mf_status_page_changed(p);
    for (;;)
        (void)pause();
}

static mf_status_page read_from(bool stopped)
{
    mf_status_page p;
    int ready[2], status;
    bool alive;
    char byte;
    pid_t pid;

    T_EQ(pipe(ready), 0);
    pid = writer(ready[1], stopped);
    T_EQ(read(ready[0], &byte, 1), 1);
    if (stopped)
        T_EQ(waitpid(pid, &status, WUNTRACED), pid);
    p = read_one(&alive);
    T_TRUE(alive);
    (void)kill(pid, SIGKILL);
    T_EQ(waitpid(pid, NULL, 0), pid);
    (void)close(ready[0]);
    (void)close(ready[1]);
    return p;
}

MF_TEST(status_page_of_a_task_preempted_during_a_write_is_read_consistently)
{
    mf_status_page p;

    begin();
    p = read_from(false);
    T_EQ(p.step, 99);
    T_EQ(p.epoch, 99);
    p = read_from(true); /* it will not finish: the current contents */
    T_EQ(p.step, 99);
    T_EQ(p.epoch, 0);
    finish();
}

/* ---- the recorder ---- */

/* The writes of a child before it is killed. */
static void record_and_wait(int ready)
{
    int64_t began;
    int wait;

    if (mf_status_page_open("job", "worker 0", 1) != MF_OK)
        _exit(1);
    for (int64_t i = 0; i < 300; i++) /* more than fit */
        mf_status_page_step(i + 1, 0, 1, 0.0);
    mf_status_page_phase(MF_PHASE_STEP);
    began = mf_status_page_call_begin("the gradients", 300, 4096);
    wait = mf_status_page_wait_begin("worker 1", NULL, "the gradients", 300);
    (void)usleep(20000);
    mf_status_page_wait_end(wait);
    mf_status_page_call_end("the gradients", 300, began);
    mf_status_page_logged("half a line\n");
    (void)mf_status_page_act_begin(MF_ACT_READ, "/data/images/1.png");
    mf_status_page_computing(+1);
    mf_status_page_runs("dense/MatMul");
    if (write(ready, "x", 1) != 1)
        _exit(1);
    for (;;)
        (void)pause();
}

static void check_event(const mf_status_page_event *e, const char *want)
{
    mf_buf text = { 0 };

    mf_status_page_event_text(e, &text);
    T_OK(mf_buf_finish(&text));
    if (strncmp(text.data, want, strlen(want)) != 0)
        T_STREQ(text.data, want);
    mf_buf_deinit(&text);
}

MF_TEST(status_page_of_a_killed_task_keeps_its_last_events_and_activities)
{
    static mf_status_page_event events[MF_STATUS_PAGE_EVENTS];
    mf_status_page_seen *all;
    int ready[2], n;
    char byte;
    pid_t pid;

    begin();
    T_EQ(pipe(ready), 0);
    pid = fork();
    if (pid == 0)
        record_and_wait(ready[1]);
    T_EQ(read(ready[0], &byte, 1), 1);
    (void)kill(pid, SIGKILL);
    T_EQ(waitpid(pid, NULL, 0), pid);
    T_OK(mf_status_pages_read(&all, &n));
    T_EQ(n, 1);
    T_EQ(all[0].page.acts[0].kind, MF_ACT_READ);
    T_STREQ(all[0].page.acts[0].what, "/data/images/1.png");
    T_EQ(all[0].page.acts[1].kind, MF_ACT_RUN);
    T_STREQ(all[0].page.acts[1].what, "dense/MatMul");
    T_OK(mf_status_page_events_read(&all[0], events, &n));
    T_EQ(n, MF_STATUS_PAGE_EVENTS);
    for (int i = 1; i < n; i++)
        T_TRUE(events[i].at_ns >= events[i - 1].at_ns);
    check_event(&events[n - 6], "step 299 is done");
    check_event(&events[n - 5], "computes step 300");
    check_event(&events[n - 4], "the gradients of step 300: started, 4096 bytes");
    check_event(&events[n - 3], "waited 0.0");
    check_event(&events[n - 2], "the gradients of step 300: done after 0.0");
    check_event(&events[n - 1], "logged: half a line?");
    mf_status_pages_free(all, 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    finish();
}

MF_TEST(status_page_shows_a_limited_number_of_threads)
{
    int acts[MF_STATUS_PAGE_ACTS + 2];
    char name[300];
    mf_status_page p;
    bool alive;

    begin();
    T_OK(mf_status_page_open("job", "worker 0", 1));
    memset(name, 'x', sizeof name);
    memcpy(name + sizeof name - 5, ".png", 5);
    for (int i = 0; i < MF_STATUS_PAGE_ACTS + 2; i++)
        acts[i] = mf_status_page_act_begin(MF_ACT_READ, name);
    T_EQ(acts[MF_STATUS_PAGE_ACTS - 1], MF_STATUS_PAGE_ACTS - 1);
    T_EQ(acts[MF_STATUS_PAGE_ACTS], -1);
    p = read_one(&alive);
    T_EQ(strlen(p.acts[0].what), MF_STATUS_PAGE_WHAT - 1); /* the end of it */
    T_STREQ(p.acts[0].what + MF_STATUS_PAGE_WHAT - 5, ".png");
    for (int i = 0; i < MF_STATUS_PAGE_ACTS + 2; i++)
        mf_status_page_act_end(acts[i]);
    T_EQ(read_one(&alive).acts[3].kind, MF_ACT_NONE);
    mf_status_page_runs("no activity runs ops");
    mf_status_page_computing(+1);
    mf_status_page_computing(+1); /* nested */
    mf_status_page_runs("a");
    mf_status_page_computing(-1);
    T_STREQ(read_one(&alive).acts[0].what, "a");
    mf_status_page_close(); /* while a thread has an activity: its entry still exists */
    mf_status_page_runs("b");
    mf_status_page_computing(-1);
    finish();
}

/* A dead task with the PID of this process: the kernel reuses PIDs. */
static void leave_dead(const char *name, const char *job, int64_t changed_ns)
{
    mf_status_page_file f = { .magic = MF_STATUS_PAGE_MAGIC,
                              .version = MF_STATUS_PAGE_VERSION,
                              .bytes = sizeof f };
    char path[128];
    FILE *out;

    f.page = (mf_status_page){
        .task = "worker 0", .pid = getpid(), .start = 1, .changed_ns = changed_ns
    };
    (void)strcpy(f.page.job, job);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    out = fopen(path, "w");
    T_TRUE(out && fwrite(&f, sizeof f, 1, out) == 1 && fclose(out) == 0);
}

MF_TEST(status_page_of_a_reused_process_number_is_dead_and_replaced)
{
    bool alive = true;

    begin();
    leave_dead("job~worker-0", "job", mf_clock_ns());
    (void)read_one(&alive);
    T_TRUE(!alive);
    T_OK(mf_status_page_open("job", "worker 0", 1));
    (void)read_one(&alive);
    T_TRUE(alive);
    leave_dead("other~worker-0", "other", mf_clock_ns());
    T_OK(mf_status_pages_sweep());
    (void)read_one(&alive);
    T_TRUE(alive);
    mf_status_page_close();
    finish();
}

/* Sweeping reads, then removes: a page that appears in between must stay. */
MF_TEST(status_page_that_replaces_a_dead_one_is_not_swept)
{
    char path[128];
    bool stays = true;
    pid_t sweeper;

    begin();
    (void)snprintf(path, sizeof path, "%s/job~worker-0", dir);
    sweeper = fork();
    while (sweeper == 0) {
        if (mf_status_pages_sweep() != MF_OK)
            _exit(1);
        (void)usleep(100);
    }
    for (int i = 0; i < 300; i++) {
        leave_dead("job~worker-0", "job", mf_clock_ns());
        T_OK(mf_status_page_open("job", "worker 0", 1));
        for (int k = 0; k < 50; k++)
            stays &= access(path, F_OK) == 0;
        mf_status_page_close();
    }
    T_TRUE(stays);
    T_EQ(waitpid(sweeper, NULL, WNOHANG), 0); /* it has not failed */
    (void)kill(sweeper, SIGKILL);
    T_EQ(waitpid(sweeper, NULL, 0), sweeper);
    finish();
}

MF_TEST(status_page_of_another_job_is_removed_a_day_after_its_death)
{
    mf_status_page_seen *all;
    int n;

    begin();
    leave_dead("new~worker-0", "new", mf_clock_ns());
    leave_dead("old~worker-0", "old", mf_clock_ns() + 3600000000000); /* before a restart */
    T_OK(mf_status_page_open("job", "worker 0", 1));
    T_OK(mf_status_pages_read(&all, &n));
    T_EQ(n, 2);
    T_TRUE(n == 2 && strcmp(all[0].page.job, "job") == 0 && strcmp(all[1].page.job, "new") == 0);
    mf_status_pages_free(all, n);
    mf_status_page_close();
    finish();
}

MF_TEST(status_page_is_private_if_its_name_is_a_foreign_file)
{
    char path[128];
    int64_t ns[MF_USES];

    begin();
    (void)snprintf(path, sizeof path, "%s/job~worker-0", dir);
    T_EQ(mkdir(path, 0700), 0);
    T_OK(mf_status_page_open("job", "worker 0", 1));
    T_TRUE(mf_status_page_used(ns));
    mf_status_page_close();
    T_EQ(access(path, F_OK), 0);
    finish();
}

MF_TEST(status_page_folder_that_cannot_be_opened_is_an_error)
{
    struct rlimit before, few;
    mf_status_page_seen *all;
    int n;

    begin();
    T_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 0;
    T_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    T_FAILS(MF_RESOURCE_EXHAUSTED, dir, mf_status_pages_read(&all, &n));
    T_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    T_EQ(n, 0);
    finish();
}

MF_TEST(status_page_delivers_a_request_once)
{
    mf_status_page_seen *all;
    int n;

    begin();
    T_OK(mf_status_page_open("job", "worker 0", 1));
    T_EQ(mf_status_page_take_thread_request(), 0);
    T_OK(mf_status_pages_read(&all, &n));
    T_OK(mf_status_page_request_threads(&all[0], 5));
    T_EQ(mf_status_page_take_thread_request(), 5);
    T_EQ(mf_status_page_take_thread_request(), 0);
    T_OK(mf_status_page_request_threads(&all[0], -7)); /* nonsense from elsewhere */
    T_EQ(mf_status_page_take_thread_request(), 0);
    mf_status_pages_free(all, n);
    mf_status_page_close();
    finish();
}

MF_TEST(status_page_of_another_host_is_shown_by_the_chief_in_local_time)
{
    mf_status_page_seen *all;
    mf_status_page_file f;
    mf_buf page = { 0 };
    int n;

    begin();
    T_OK(mf_status_page_open("job", "worker 0", 2));
    T_TRUE(mf_status_page_copy(&page));
    memcpy(&f, page.data, sizeof f);
    (void)strcpy(f.page.task,
                 "worker 7"); /* the page claims this, but the connection identifies the sender */
    (void)strcpy(f.page.host, "far/away");
    f.page.reported_ns = 5000000000; /* by a clock that started long after the local one */
    f.page.waits[0] = (mf_status_page_wait){ .whom = "worker 0", .since_ns = 4000000000 };
    mf_status_page_keep("worker 1", &f, sizeof f);
    (void)strcpy(f.page.host, "elsewhere");
    mf_status_page_keep("worker 1", &f, sizeof f); /* in the same file */
    mf_status_page_keep("worker 1", &f, sizeof f / 2); /* none */
    T_OK(mf_status_pages_read(&all, &n));
    T_EQ(n, 2);
    T_STREQ(all[1].page.task, "worker 1");
    T_TRUE(all[1].alive);
    T_EQ(all[1].page.keeper, getpid());
    T_EQ(all[1].page.reported_ns - all[1].page.waits[0].since_ns, 1000000000);
    T_TRUE(mf_clock_ns() - all[1].page.reported_ns < 1000000000);
    mf_status_pages_free(all, n);
    mf_status_page_close();
    T_OK(mf_status_pages_read(&all, &n));
    T_EQ(n, 0);
    mf_status_pages_free(all, n);
    mf_buf_deinit(&page);
    finish();
}

MF_TEST(status_page_folder_of_another_user_is_not_used)
{
    mf_status_page_seen *all;
    int64_t ns[MF_USES];
    int n;

    begin();
    T_EQ(chmod(dir, 0755), 0);
    T_FAILS(MF_PERMISSION_DENIED, "0700", mf_status_pages_read(&all, &n));
    T_OK(mf_status_page_open("job", "worker 0",
                             1)); /* no other process sees it, but times are counted */
    T_TRUE(mf_status_page_used(ns));
    mf_status_page_close();
    T_FAILS(MF_INVALID_ARGUMENT, "not a valid job name",
            mf_status_page_open("../x", "worker 0", 1));
    T_FAILS(MF_INVALID_ARGUMENT, "not a valid job name", mf_status_page_open(".x", "worker 0", 1));
    finish();
}

MF_TEST(status_page_decoding_refuses_other_bytes)
{
    mf_status_page_file f = { .magic = MF_STATUS_PAGE_MAGIC,
                              .version = MF_STATUS_PAGE_VERSION,
                              .bytes = sizeof f };
    mf_status_page p;

    f.page.pid = 1;
    f.page.phase = 99;
    f.page.rate = NAN;
    f.page.first_shard = f.page.n_shards = INT64_MAX;
    memset(f.page.task, 'x', sizeof f.page.task); /* without an end */
    T_OK(mf_status_page_decode(&f, sizeof f, &p));
    T_EQ(p.phase, 0);
    T_TRUE(p.rate == 0.0);
    T_EQ(p.first_shard + p.n_shards, 0);
    T_EQ(strlen(p.task), sizeof p.task - 1);
    T_FAILS(MF_DATA_LOSS, "not a status page", mf_status_page_decode(&f, sizeof f - 1, &p));
    f.version++;
    T_FAILS(MF_DATA_LOSS, "version", mf_status_page_decode(&f, sizeof f, &p));
    f.magic[0] = '?';
    T_FAILS(MF_DATA_LOSS, "not a status page", mf_status_page_decode(&f, sizeof f, &p));
}

/* A process that called vfork() is blocked until the child ends. */
MF_TEST(process_blocked_in_the_kernel_is_detected)
{
    mf_process_times before, after, between;
    char where[64];
    bool blocked = false;
    pid_t pid = fork();

    if (pid == 0) {
        (void)setpgid(0, 0);
        const pid_t child = vfork();

        if (child == 0) {
            (void)sleep(60); /* NOLINT(clang-analyzer-unix.Vfork): that is what is tested */
            _exit(0);
        }
        _exit(1);
    }
    for (int i = 0; i < 500 && !blocked; i++) {
        blocked = mf_process_is_blocked(pid, where, sizeof where);
        (void)usleep(10000);
    }
    T_TRUE(blocked);
    (void)kill(-pid, SIGKILL);
    T_EQ(waitpid(pid, NULL, 0), pid);
    T_TRUE(!mf_process_is_blocked(getpid(), where, sizeof where));
    if (!mf_process_time(getpid(), &before))
        return; /* a kernel without these counters */
    (void)usleep(20000);
    T_TRUE(mf_process_time(getpid(), &after));
    between = mf_process_time_between(&before, &after);
    T_TRUE(between.at_ns >= 20000000 && between.ran_ns >= 0 && between.ran_ns < between.at_ns);
    T_TRUE(!mf_process_time(-1, &after));
}

MF_TEST(process_priorities_are_ratios)
{
    mf_process self, nobody;

    T_TRUE(mf_process_read(getpid(), &self));
    T_EQ(self.state, 'R');
    T_TRUE(self.start > 0);
    T_TRUE(!mf_process_read(-1, &nobody));
    T_EQ(mf_priority_nice(10), 0);
    T_EQ(mf_priority_nice(5), 3);
    T_EQ(mf_priority_nice(1), 10);
    for (int p = 1; p <= MF_PRIORITY_MAX; p++) {
        T_NEAR(pow(1.25, -mf_priority_nice(p)), p / 10.0, 0.12 * p / 10.0);
        T_TRUE(abs(mf_priority_of(mf_priority_nice(p)) - p) <= 1);
    }
    T_FAILS(MF_INVALID_ARGUMENT, "1 to 10", mf_priority_set(getpid(), 11));
}

/* ---- resizing the pool ---- */

static void add(void *ctx, int64_t piece)
{
    atomic_fetch_add((atomic_llong *)ctx, piece);
}

MF_TEST(pool_runs_every_piece_once_while_it_is_resized)
{
    static const int sizes[] = { 2, 8, 1, 3, 1, 16, 2 };
    mf_pool *pool;

    T_OK(mf_pool_new(1, &pool));
    for (int i = 0; i < 7; i++) {
        atomic_llong sum = 0;

        T_OK(mf_pool_resize(pool, sizes[i]));
        T_EQ(mf_pool_threads(pool), sizes[i]);
        mf_pool_complete(pool, 1000, add, &sum);
        T_EQ(sum, 499500);
    }
    mf_pool_free(pool);
}
