/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - reads state, priority and CPU time of a process from /proc. */
#include "base/process.h"

#include "base/clock.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Fields of /proc/PID/stat, counted from 1 as in proc(5). */
enum { STATE = 3, SESSION = 6, MAJFLT = 12, UTIME = 14, STIME = 15, NICE = 19, STARTTIME = 22 };

/* All of a small file of /proc; "" if it does not exist. */
static void process_read_text(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "re");
    size_t n = 0;

    if (f) {
        n = fread(text, 1, size - 1, f);
        (void)fclose(f);
    }
    text[n] = '\0';
}

bool mf_process_read(int64_t pid, mf_process *out)
{
    long long fields[STARTTIME + 1] = { 0 };
    char path[64], text[1024] = "";
    const char *p;

    *out = (mf_process){ 0 };
    (void)snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (pid > 0)
        process_read_text(path, text, sizeof text);
    p = strrchr(text, ')'); /* the program's name before it may contain any character */
    if (!p || p[1] != ' ')
        return false;
    out->state = p[2];
    p = p[2] ? p + 3 : p + 2;
    for (int field = STATE + 1; field <= STARTTIME; field++) {
        char *end;

        fields[field] = strtoll(p, &end, 10);
        if (end == p)
            return false;
        p = end;
    }
    out->nice = (int)fields[NICE];
    out->session = fields[SESSION];
    out->start = fields[STARTTIME];
    out->faults = fields[MAJFLT];
    out->cpu_ns = (fields[UTIME] + fields[STIME]) * (1000000000 / sysconf(_SC_CLK_TCK));
    return true;
}

/* ---- threads ---- */

/* Calls fn with the id of each thread until it returns false. Returns false if the process does not
 * exist. */
static bool each_thread(int64_t pid, bool (*fn)(void *ctx, long long tid), void *ctx)
{
    const struct dirent *e;
    char path[64];
    DIR *threads;

    (void)snprintf(path, sizeof path, "/proc/%lld/task", (long long)pid);
    threads = opendir(path);
    if (!threads)
        return false;
    while ((e = readdir(threads)) != NULL) {
        const long long tid = strtoll(e->d_name, NULL, 10);

        if (tid > 0 && !fn(ctx, tid))
            break;
    }
    (void)closedir(threads);
    return true;
}

typedef struct process_search {
    int64_t pid;
    long long found; /* a thread; 0: none */
    mf_process_times *times;
    bool known;
} process_search;

static bool is_not_blocked(void *ctx, long long tid)
{
    process_search *s = ctx;
    mf_process thread;

    if (mf_process_read(tid, &thread) && thread.state == 'D')
        s->found = tid;
    return s->found == 0;
}

bool mf_process_is_blocked(int64_t pid, char *where, size_t size)
{
    process_search s = { .pid = pid };
    char path[64];

    where[0] = '\0';
    if (!each_thread(pid, is_not_blocked, &s) || s.found == 0)
        return false;
    (void)snprintf(path, sizeof path, "/proc/%lld/wchan", s.found);
    process_read_text(path, where, size);
    if (strcmp(where, "0") == 0) /* hidden from other users */
        where[0] = '\0';
    return true;
}

static bool process_add_times(void *ctx, long long tid)
{
    process_search *s = ctx;
    long long ran, ready;
    char path[64], text[128];
    mf_process thread;

    (void)snprintf(path, sizeof path, "/proc/%lld/task/%lld/schedstat", (long long)s->pid, tid);
    process_read_text(path, text, sizeof text);
    if (sscanf(text, "%lld %lld", &ran, &ready) == 2) {
        s->known = true;
        s->times->ran_ns += ran;
        s->times->ready_ns += ready;
    }
    s->times->ready += mf_process_read(tid, &thread) && thread.state == 'R';
    return true;
}

bool mf_process_time(int64_t pid, mf_process_times *out)
{
    process_search s = { .pid = pid, .times = out };
    mf_process process;

    *out = (mf_process_times){ .at_ns = mf_clock_ns() };
    if (!each_thread(pid, process_add_times, &s) || !s.known || !mf_process_read(pid, &process))
        return false;
    out->faults = process.faults;
    return true;
}

mf_process_times mf_process_time_between(const mf_process_times *from, const mf_process_times *to)
{
    return (mf_process_times){ .at_ns = to->at_ns - from->at_ns,
                               .ran_ns = to->ran_ns - from->ran_ns,
                               .ready_ns = to->ready_ns - from->ready_ns,
                               .faults = to->faults - from->faults,
                               .ready = from->ready < to->ready ? from->ready : to->ready };
}

/* ---- priorities ---- */

static const double LEVEL = 1.25; /* ratio of the kernel's weights of two neighbouring levels */

int mf_priority_nice(int priority)
{
    return (int)lround(log((double)MF_PRIORITY_MAX / priority) / log(LEVEL));
}

int mf_priority_of(int nice)
{
    const double p = (double)MF_PRIORITY_MAX / pow(LEVEL, nice);

    return p < 1 ? 1 : p > MF_PRIORITY_MAX ? MF_PRIORITY_MAX : (int)lround(p);
}

/* If the kernel groups by session, niceness has an effect only inside a session. A process that
 * shares its session with others, as in a terminal, must not change the share of the session. */
static void set_session(int64_t pid, int nice)
{
    char path[64];
    FILE *f;

    if (getsid((pid_t)pid) != pid)
        return;
    (void)snprintf(path, sizeof path, "/proc/%lld/autogroup", (long long)pid);
    f = fopen(path, "we");
    if (!f)
        return;
    (void)fprintf(f, "%d", nice);
    (void)fclose(f); /* without such groups the kernel refuses the write, and it is not needed */
}

typedef struct process_setting {
    int nice;
    mf_status st;
} process_setting;

static bool set_thread(void *ctx, long long tid)
{
    process_setting *s = ctx;

    if (setpriority(PRIO_PROCESS, (id_t)tid, s->nice) == 0 || errno == ESRCH)
        return true;
    s->st = errno == EACCES || errno == EPERM
                ? MF_FAIL(MF_PERMISSION_DENIED,
                          "an unprivileged user cannot raise a priority, only lower it")
                : MF_FAIL(MF_INTERNAL, "cannot set the priority: %s", strerror(errno));
    return false;
}

mf_status mf_priority_set(int64_t pid, int priority)
{
    process_setting s = { .nice = mf_priority_nice(priority), .st = MF_OK };

    if (priority < 1 || priority > MF_PRIORITY_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "priorities are 1 to %d, not %d", MF_PRIORITY_MAX,
                       priority);
    if (!each_thread(pid, set_thread, &s))
        return MF_FAIL(MF_NOT_FOUND, "no such process: %lld", (long long)pid);
    if (s.st == MF_OK)
        set_session(pid, s.nice);
    return s.st;
}
