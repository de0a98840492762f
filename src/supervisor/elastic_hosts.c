/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_hosts.c - follows a list of hosts, and starts or removes workers of a running job on this
 * host. Every host with workers of a job follows the list on its own, so no host needs to reach
 * another host. */
#include "supervisor/elastic_hosts.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cluster/membership/membership_snapshot.h"
#include "cluster/resolve/resolve.h"
#include "supervisor/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1024, LIST_MAX = 1 << 20 };
#define COMMAND "MESHFLOW_HOSTS_COMMAND"

/* A worker that this process started, or asked to leave. */
typedef struct tracked_process {
    pid_t pid;
    bool ours, leaving;
    int64_t started_ns; /* of our workers */
} tracked_process;

typedef struct follow {
    mf_elastic_hosts_options o;
    mf_recipe recipe;
    mf_store *store;
    tracked_process all[MOST];
    int n;
    int wanted; /* workers of this host; -1: not known yet */
    int failures; /* of our workers, one after another */
    int64_t again_ns; /* no worker is started before this time */
    int64_t next_poll_ns; /* the list command is not run before this time */
    int64_t revision; /* of the store */
    int taken; /* all lower indices are taken */
    bool over;
    mf_buf complaint; /* the last one logged: it is not repeated */
} follow;

/* ---- the list ---- */

/* A command that hangs is killed. The shell receives it through the environment, so nothing is
 * quoted. */
static mf_status ask_command(const char *command, mf_buf *out)
{
    FILE *from = setenv(COMMAND, command, 1) == 0
                     ? popen("exec timeout 30 sh -c \"$" COMMAND "\"", "re")
                     : NULL;
    char piece[4096];
    size_t n;
    int end;

    if (!from)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot run '%s': %s", command, strerror(errno));
    while ((n = fread(piece, 1, sizeof piece, from)) > 0) {
        if (out->len <= LIST_MAX)
            mf_buf_bytes(out, piece, n);
    }
    end = pclose(from);
    if (out->len > LIST_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' prints more than %d bytes", command, LIST_MAX);
    if (end != 0)
        return MF_FAIL(MF_ABORTED, "'%s' ended with %d", command,
                       WIFEXITED(end) ? WEXITSTATUS(end) : end);
    return mf_buf_finish(out);
}

const char *mf_elastic_hosts_key(const char *list)
{
    return strncmp(list, "key:", 4) == 0 ? list + 4 : NULL;
}

static mf_status ask_store(follow *f, const char *key, mf_buf *out)
{
    mf_store_entry e = { 0 };
    mf_status st = mf_store_get(f->store, key, &e, NULL);

    if (st == MF_OK)
        mf_buf_bytes(out, e.value, e.size);
    mf_store_entry_deinit(&e);
    return st == MF_OK ? mf_buf_finish(out) : st;
}

static mf_status read_list(follow *f, int *slots)
{
    const char *key = mf_elastic_hosts_key(f->o.list);
    mf_buf text = { 0 };
    mf_status st = key ? ask_store(f, key, &text) : ask_command(f->o.list, &text);

    if (st == MF_OK)
        st = mf_hostfile_slots(text.data ? text.data : "", text.len, f->o.list, f->o.host, slots);
    mf_buf_deinit(&text);
    return st;
}

static void read_host_list(follow *f)
{
    const int64_t now = mf_clock_ns();
    int slots;

    if (now < f->next_poll_ns && !mf_elastic_hosts_key(f->o.list))
        return;
    f->next_poll_ns = now + f->o.every_ns;
    if (read_list(f, &slots) == MF_OK) {
        mf_buf_clear(&f->complaint);
        if (slots != f->wanted)
            MF_INFO("the list gives this host %d workers of job '%s'", slots, f->o.job);
        f->wanted = slots < MOST / 2 ? slots : MOST / 2;
        return;
    }
    if (f->complaint.len > 0 && strcmp(f->complaint.data, mf_error_message()) == 0)
        return;
    MF_WARN("the list of hosts is not usable, so the previous list stays in force: %s",
            mf_error_message());
    mf_buf_clear(&f->complaint);
    mf_buf_str(&f->complaint, mf_error_message());
}

/* ---- processes ---- */

long long mf_elastic_hosts_start(mf_recipe *recipe, int index, const char *address)
{
    const pid_t pid = fork();

    if (pid < 0)
        (void)MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a worker: %s", strerror(errno));
    if (pid != 0)
        return pid;
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)setsid();
    for (int fd = 0; nothing >= 0 && fd < 3; fd++)
        (void)dup2(nothing, fd);
    (void)!mf_recipe_become(recipe, index, address);
    _exit(1);
}

static tracked_process *elastic_hosts_find(follow *f, long long pid)
{
    for (int i = 0; i < f->n; i++) {
        if (f->all[i].pid == pid)
            return &f->all[i];
    }
    return NULL;
}

/* NULL: the table is full. */
static tracked_process *track_process(follow *f, long long pid)
{
    tracked_process *k = elastic_hosts_find(f, pid);

    if (k || f->n == MOST)
        return k;
    f->all[f->n] = (tracked_process){ .pid = (pid_t)pid };
    return &f->all[f->n++];
}

/* Reaps our workers that have ended, and counts failures. */
static void elastic_hosts_reap(follow *f)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        tracked_process *k = elastic_hosts_find(f, pid);
        const int64_t since = k ? k->started_ns : 0, now = mf_clock_ns();
        const bool succeeded =
            WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 128 + SIGTERM);

        if (k)
            *k = f->all[--f->n];
        if (succeeded) {
            f->failures = 0;
            continue;
        }
        f->again_ns = now + mf_launch_pause_ns(since, now, &f->failures);
        MF_WARN("a worker (process %d) has ended with %d", (int)pid,
                WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
}

static bool is_shown(const mf_job_view_job *job, pid_t pid)
{
    for (int i = 0; i < job->n; i++) {
        if (job->tasks[i].page.pid == pid && job->tasks[i].alive)
            return true;
    }
    return false;
}

/* Forgets workers of other processes that have exited; own workers are reaped. */
static void forget_dead(follow *f, const mf_job_view_job *job)
{
    for (int i = f->n - 1; i >= 0; i--) {
        if (!f->all[i].ours && !is_shown(job, f->all[i].pid))
            f->all[i] = f->all[--f->n];
    }
}

/* Workers that run here or are starting, without leaving workers. */
static int elastic_hosts_count(follow *f, const mf_job_view_job *job)
{
    int n = 0;

    for (int i = 0; i < job->n; i++) {
        const tracked_process *k = elastic_hosts_find(f, job->tasks[i].page.pid);

        n += mf_worker_is_here(&job->tasks[i]) && !(k && k->leaving);
    }
    for (int i = 0; i < f->n; i++)
        n += f->all[i].ours && !f->all[i].leaving && !is_shown(job, f->all[i].pid);
    return n;
}

/* Asks the last worker that is not leaving yet to leave. */
static void request_one_leave(follow *f, const mf_job_view_job *job)
{
    const mf_status_page_seen *last = mf_worker_to_leave(job, NULL);
    tracked_process *k = last ? elastic_hosts_find(f, last->page.pid) : NULL;

    while (k && k->leaving) {
        last = mf_worker_to_leave(job, last);
        k = last ? elastic_hosts_find(f, last->page.pid) : NULL;
    }
    k = last ? track_process(f, last->page.pid) : NULL;
    if (!k || mf_worker_leave(last) != MF_OK)
        return;
    k->leaving = true;
    MF_INFO("%s leaves after its next step", last->page.task);
}

static void start_one(follow *f, const mf_job_view_job *job)
{
    int index = mf_worker_free_index(job, f->taken);
    long long pid;
    tracked_process *k;

    if (f->n == MOST)
        return;
    pid = mf_elastic_hosts_start(&f->recipe, index, f->o.address);
    k = pid > 0 ? track_process(f, pid) : NULL;
    if (!k)
        return;
    k->ours = true;
    k->started_ns = mf_clock_ns();
    f->taken = index + 1;
    MF_INFO("worker %d is started", index);
}

static void adjust(follow *f, const mf_job_view_job *job)
{
    int have = elastic_hosts_count(f, job);

    for (; have < f->wanted && mf_clock_ns() >= f->again_ns; have++)
        start_one(f, job);
    for (; have > f->wanted && f->wanted >= 0; have--)
        request_one_leave(f, job);
}

/* ---- the job ---- */

/* Which indices are taken, on any host, and whether the job is over. */
static mf_status read_job_store(follow *f)
{
    mf_store_entries all = { 0 };
    mf_membership_snapshot s = { 0 };
    mf_status st = mf_store_list(f->store, "", &all);

    if (st == MF_OK)
        st = mf_membership_snapshot_read(&all, &s);
    for (int i = 0; st == MF_OK && i < s.n_here; i++) {
        const int index = mf_worker_index(s.here[i].name);

        f->taken = index >= f->taken ? index + 1 : f->taken;
    }
    f->over = s.over;
    f->revision = st == MF_OK ? all.revision : f->revision;
    mf_membership_snapshot_deinit(&s);
    mf_store_entries_deinit(&all);
    return st;
}

/* A store that does not answer now may answer later. */
static bool elastic_hosts_is_gone(mf_status st)
{
    return st != MF_OK && st != MF_UNAVAILABLE && st != MF_DEADLINE_EXCEEDED;
}

/* Without a store and without workers here the job is over. */
static mf_status elastic_hosts_poll(follow *f)
{
    mf_job_view r = { 0 };
    mf_status seen = read_job_store(f), st = mf_job_view_read(f->o.job, &r);
    const mf_job_view_job none = { 0 }, *job = r.n_jobs > 0 ? &r.jobs[0] : &none;

    if (st == MF_OK && elastic_hosts_is_gone(seen) && elastic_hosts_count(f, job) == 0)
        f->over = true;
    if (st == MF_OK && seen == MF_OK && !f->over) {
        read_host_list(f);
        forget_dead(f, job);
        adjust(f, job);
    }
    mf_job_view_deinit(&r);
    if (st == MF_OK && f->failures > f->o.max_restarts)
        return MF_FAIL(MF_ABORTED,
                       "%d workers have failed, one after another; run `meshflow job join %s` to "
                       "see why",
                       f->failures, f->o.job);
    return st;
}

static mf_status follow_all(follow *f)
{
    for (;;) {
        mf_status st;

        elastic_hosts_reap(f);
        MF_TRY(elastic_hosts_poll(f));
        if (f->over)
            break;
        st = mf_store_wait(f->store, "", f->revision, mf_clock_ns() + f->o.every_ns);
        if (st != MF_OK && st != MF_DEADLINE_EXCEEDED)
            (void)usleep((useconds_t)(f->o.every_ns / 1000));
    }
    MF_INFO("job '%s' is over", f->o.job);
    return MF_OK;
}

mf_status mf_elastic_hosts(const mf_job_view_job *job, const mf_elastic_hosts_options *o)
{
    follow f = { .o = *o, .wanted = -1 };
    mf_status st = mf_recipe_read(job, &f.recipe);

    if (st == MF_OK)
        st = mf_store_open(mf_recipe_store(&f.recipe), NULL, &f.store);
    if (st == MF_OK)
        st = follow_all(&f);
    if (f.store)
        mf_store_close(f.store);
    mf_recipe_deinit(&f.recipe);
    mf_buf_deinit(&f.complaint);
    return st;
}

mf_status mf_elastic_hosts_put(const mf_job_view_job *job, const char *key, const char *path)
{
    mf_recipe recipe = { 0 };
    mf_store *store = NULL;
    char *text = NULL;
    size_t len = 0;
    int slots;
    mf_status st;

    MF_TRY_TO(done, mf_file_read(path, MF_STORE_VALUE_MAX, &text, &len));
    MF_TRY_TO(done, mf_hostfile_slots(text, len, path, NULL, &slots));
    MF_TRY_TO(done, mf_recipe_read(job, &recipe));
    MF_TRY_TO(done, mf_store_open(mf_recipe_store(&recipe), NULL, &store));
    st = mf_store_put(store, key, text, len, MF_STORE_ANY, 0, NULL);
done:
    if (store)
        mf_store_close(store);
    mf_recipe_deinit(&recipe);
    mf_free(text);
    return st;
}
