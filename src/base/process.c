/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

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
enum { STATE = 3, UTIME = 14, STIME = 15, NICE = 19, STARTTIME = 22 };

bool mf_process_look(int64_t pid, mf_process *out)
{
    long long fields[STARTTIME + 1] = { 0 };
    char path[64], text[1024] = "";
    const char *p;
    FILE *f;

    *out = (mf_process){ 0 };
    (void)snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    f = pid > 0 ? fopen(path, "re") : NULL;
    if (!f)
        return false;
    (void)!fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    p = strrchr(text, ')'); /* the program's name before it may hold anything */
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
    out->start = fields[STARTTIME];
    out->cpu_ns = (fields[UTIME] + fields[STIME]) * (1000000000 / sysconf(_SC_CLK_TCK));
    return true;
}

/* ---- priorities ---- */

static const double LEVEL = 1.25; /* the kernel's weights of two neighbours */

int mf_priority_nice(int priority)
{
    return (int)lround(log((double)MF_PRIORITY_MAX / priority) / log(LEVEL));
}

int mf_priority_of(int nice)
{
    const double p = (double)MF_PRIORITY_MAX / pow(LEVEL, nice);

    return p < 1 ? 1 : p > MF_PRIORITY_MAX ? MF_PRIORITY_MAX : (int)lround(p);
}

/* Where the kernel groups by session, niceness counts inside of a session only. Whoever shares one
 * with others, as in a terminal, must not change what they get. */
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
    (void)fclose(f); /* a kernel without such groups refuses, and needs none */
}

static mf_status set_thread(int64_t tid, int nice)
{
    if (setpriority(PRIO_PROCESS, (id_t)tid, nice) == 0 || errno == ESRCH)
        return MF_OK;
    if (errno == EACCES || errno == EPERM)
        return MF_FAIL(MF_PERMISSION_DENIED,
                       "the kernel lets an ordinary user lower a priority, not raise it");
    return MF_FAIL(MF_INTERNAL, "the priority cannot be set: %s", strerror(errno));
}

mf_status mf_priority_set(int64_t pid, int priority)
{
    const int nice = mf_priority_nice(priority);
    const struct dirent *e;
    mf_status st = MF_OK;
    char path[64];
    DIR *threads;

    if (priority < 1 || priority > MF_PRIORITY_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a priority is 1 to %d, not %d", MF_PRIORITY_MAX,
                       priority);
    (void)snprintf(path, sizeof path, "/proc/%lld/task", (long long)pid);
    threads = opendir(path);
    if (!threads)
        return MF_FAIL(MF_NOT_FOUND, "there is no process %lld", (long long)pid);
    while (st == MF_OK && (e = readdir(threads)) != NULL) {
        const long long tid = strtoll(e->d_name, NULL, 10);

        if (tid > 0)
            st = set_thread(tid, nice);
    }
    (void)closedir(threads);
    if (st == MF_OK)
        set_session(pid, nice);
    return st;
}
