/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_hosts.c - see elastic_hosts.h. Every host that has workers of a job follows the list by
 * itself, so nobody needs to reach another host. */
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

/* A worker that we have started, or told to leave. */
typedef struct known {
    pid_t pid;
    bool ours, told;
    int64_t started_ns; /* of ours */
} known;

typedef struct follow {
    mf_elastic_hosts_options o;
    mf_recipe recipe;
    mf_store *store;
    known all[MOST];
    int n;
    int wanted; /* workers of this host; -1: nobody has said yet */
    int failures; /* of ours in a row */
    int64_t again_ns; /* none is started before that */
    int64_t look_ns; /* the command is not run before that */
    int64_t revision; /* of the store */
    int taken; /* indices below that are somebody's */
    bool over;
    mf_buf complaint; /* the last one: the same is not said again */
} follow;

/* ---- the list ---- */

/* One that hangs is given up: the shell gets it by the environment, as it is. */
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

static void look_at_list(follow *f)
{
    const int64_t now = mf_clock_ns();
    int slots;

    if (now < f->look_ns && !mf_elastic_hosts_key(f->o.list))
        return;
    f->look_ns = now + f->o.every_ns;
    if (read_list(f, &slots) == MF_OK) {
        mf_buf_clear(&f->complaint);
        if (slots != f->wanted)
            MF_INFO("this host is to have %d workers of '%s'", slots, f->o.job);
        f->wanted = slots < MOST / 2 ? slots : MOST / 2;
        return;
    }
    if (f->complaint.len > 0 && strcmp(f->complaint.data, mf_error_message()) == 0)
        return;
    MF_WARN("the list of hosts cannot be used, so the last one holds: %s", mf_error_message());
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

static known *elastic_hosts_find(follow *f, long long pid)
{
    for (int i = 0; i < f->n; i++) {
        if (f->all[i].pid == pid)
            return &f->all[i];
    }
    return NULL;
}

/* NULL: there is no room for more. */
static known *know(follow *f, long long pid)
{
    known *k = elastic_hosts_find(f, pid);

    if (k || f->n == MOST)
        return k;
    f->all[f->n] = (known){ .pid = (pid_t)pid };
    return &f->all[f->n++];
}

/* Ours that have ended: well, told to, or badly. */
static void bury(follow *f)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        known *k = elastic_hosts_find(f, pid);
        const int64_t since = k ? k->started_ns : 0, now = mf_clock_ns();
        const bool well =
            WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 128 + SIGTERM);

        if (k)
            *k = f->all[--f->n];
        if (well) {
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

/* Those of others that are not there any more; ours are waited for. */
static void forget_dead(follow *f, const mf_job_view_job *job)
{
    for (int i = f->n - 1; i >= 0; i--) {
        if (!f->all[i].ours && !is_shown(job, f->all[i].pid))
            f->all[i] = f->all[--f->n];
    }
}

/* Workers that are here, or will be, and stay. */
static int elastic_hosts_count(follow *f, const mf_job_view_job *job)
{
    int n = 0;

    for (int i = 0; i < job->n; i++) {
        const known *k = elastic_hosts_find(f, job->tasks[i].page.pid);

        n += mf_worker_is_here(&job->tasks[i]) && !(k && k->told);
    }
    for (int i = 0; i < f->n; i++)
        n += f->all[i].ours && !f->all[i].told && !is_shown(job, f->all[i].pid);
    return n;
}

/* The last one of those that stay leaves. */
static void let_one_leave(follow *f, const mf_job_view_job *job)
{
    const mf_status_page_seen *last = mf_worker_to_leave(job, NULL);
    known *k = last ? elastic_hosts_find(f, last->page.pid) : NULL;

    while (k && k->told) {
        last = mf_worker_to_leave(job, last);
        k = last ? elastic_hosts_find(f, last->page.pid) : NULL;
    }
    k = last ? know(f, last->page.pid) : NULL;
    if (!k || mf_worker_leave(last) != MF_OK)
        return;
    k->told = true;
    MF_INFO("%s leaves after its next step", last->page.task);
}

static void start_one(follow *f, const mf_job_view_job *job)
{
    int index = mf_worker_free_index(job, f->taken);
    long long pid;
    known *k;

    if (f->n == MOST)
        return;
    pid = mf_elastic_hosts_start(&f->recipe, index, f->o.address);
    k = pid > 0 ? know(f, pid) : NULL;
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
        let_one_leave(f, job);
}

/* ---- the job ---- */

/* Whose names are taken, on any host; and is it over? */
static mf_status look_at_store(follow *f)
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

/* A store that does not answer may do so again. */
static bool elastic_hosts_is_gone(mf_status st)
{
    return st != MF_OK && st != MF_UNAVAILABLE && st != MF_DEADLINE_EXCEEDED;
}

/* Without a store, and without workers here, there is nothing left of it. */
static mf_status elastic_hosts_look_around(follow *f)
{
    mf_job_view r = { 0 };
    mf_status seen = look_at_store(f), st = mf_job_view_read(f->o.job, &r);
    const mf_job_view_job none = { 0 }, *job = r.n_jobs > 0 ? &r.jobs[0] : &none;

    if (st == MF_OK && elastic_hosts_is_gone(seen) && elastic_hosts_count(f, job) == 0)
        f->over = true;
    if (st == MF_OK && seen == MF_OK && !f->over) {
        look_at_list(f);
        forget_dead(f, job);
        adjust(f, job);
    }
    mf_job_view_deinit(&r);
    if (st == MF_OK && f->failures > f->o.max_restarts)
        return MF_FAIL(
            MF_ABORTED,
            "%d workers have ended badly, one after another; try `meshflow job join %s` to "
            "see why",
            f->failures, f->o.job);
    return st;
}

static mf_status follow_all(follow *f)
{
    for (;;) {
        mf_status st;

        bury(f);
        MF_TRY(elastic_hosts_look_around(f));
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
