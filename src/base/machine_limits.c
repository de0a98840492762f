/* SPDX-License-Identifier: Apache-2.0 */
/* machine_limits.c - reads CPU affinity, cgroup quotas and memory limits, OMP_NUM_THREADS. */
#include "base/machine_limits.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/param.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

MF_PARAM_INT(threads, 0,
             "default number of threads; 0: OMP_NUM_THREADS, or the number of usable cores");

enum { PATH = 1024, MAX_FILE = 1 << 20 };

/* ---- files of the kernel ---- */

/* The first two words of a small file; false when it cannot be read. */
static bool machine_limits_read_words(const char *path, char a[32], char b[32])
{
    FILE *f = fopen(path, "re");
    int n;

    if (!f)
        return false;
    a[0] = b[0] = '\0';
    n = fscanf(f, "%31s %31s", a, b);
    (void)fclose(f);
    return n >= 1;
}

/* 0 for "max" and malformed text. */
static double machine_limits_number(const char *text)
{
    char *end;
    const double v = strtod(text, &end);

    return end != text && isfinite(v) && v > 0 ? v : 0;
}

/* ---- control groups ---- */

static void least_quota(mf_limits *l, double cores, const char *path)
{
    if (cores <= 0 || (l->quota > 0 && l->quota <= cores))
        return;
    l->quota = cores;
    (void)snprintf(l->quota_from, sizeof l->quota_from, "%.255s", path);
}

static void least_memory(mf_limits *l, double bytes, const char *path)
{
    /* Version 1 of control groups writes "no limit" as a number near 2^63. */
    if (bytes <= 0 || bytes > 0x1p60 || (l->memory > 0 && (double)l->memory <= bytes))
        return;
    l->memory = (int64_t)bytes;
    (void)snprintf(l->memory_from, sizeof l->memory_from, "%.255s", path);
}

static void read_group(mf_limits *l, const char *dir)
{
    char path[PATH + 64], a[32], b[32], c[32];

    (void)snprintf(path, sizeof path, "%s/cpu.max", dir); /* "150000 100000" */
    if (machine_limits_read_words(path, a, b) && machine_limits_number(b) > 0)
        least_quota(l, machine_limits_number(a) / machine_limits_number(b), path);
    (void)snprintf(path, sizeof path, "%s/memory.max", dir);
    if (machine_limits_read_words(path, a, b))
        least_memory(l, machine_limits_number(a), path);
    /* version 1 */
    (void)snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
    if (machine_limits_read_words(path, a, c)) {
        (void)snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
        if (machine_limits_read_words(path, b, c) && machine_limits_number(a) > 0)
            least_quota(l, machine_limits_number(b) / machine_limits_number(a), path);
    }
    (void)snprintf(path, sizeof path, "%s/memory.limit_in_bytes", dir);
    if (machine_limits_read_words(path, a, b))
        least_memory(l, machine_limits_number(a), path);
}

/* A group and all its ancestors: any of them may have the lowest limit. */
static void machine_limits_read_groups(mf_limits *l, const char *mount, const char *group)
{
    char dir[PATH];
    const size_t top = strlen(mount);

    if (strstr(group, "..") ||
        (size_t)snprintf(dir, sizeof dir, "%s%s", mount, group) >= sizeof dir)
        return;
    for (;;) {
        char *slash;

        read_group(l, dir);
        slash = strrchr(dir, '/');
        if (!slash || strlen(dir) <= top)
            return;
        *slash = '\0';
        if (strlen(dir) < top)
            return;
    }
}

/* One line of /proc/self/cgroup: "4:cpu,cpuacct:/path", or "0::/path" in version 2. */
static void machine_limits_read_line(mf_limits *l, const char *root, char *line)
{
    char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL, mount[PATH];

    if (!group)
        return;
    *names++ = '\0';
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (!*names) {
        (void)snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        machine_limits_read_groups(l, mount, group);
        return;
    }
    if (strcmp(names, "memory") == 0 || strncmp(names, "cpu", 3) == 0) {
        (void)snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%.200s", root, names);
        machine_limits_read_groups(l, mount, group);
    }
}

void mf_limits_get(const char *root, mf_limits *out)
{
    char path[PATH], *text = NULL, *rest, *line;
    cpu_set_t set;
    size_t len;

    *out = (mf_limits){ .online = (int)sysconf(_SC_NPROCESSORS_ONLN) };
    if (out->online < 1)
        out->online = 1;
    out->allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (mf_file_read(path, MAX_FILE, &text, &len) != MF_OK)
        return;
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        machine_limits_read_line(out, root, line);
    mf_free(text);
}

/* ---- derived values ---- */

int mf_usable_cores(void)
{
    mf_limits l;
    int n;

    mf_limits_get("", &l);
    n = l.allowed > 0 ? l.allowed : 1;
    if (l.quota > 0 && ceil(l.quota) < n)
        n = (int)ceil(l.quota);
    return n;
}

int mf_default_threads(const char **why)
{
    const char *text = getenv("OMP_NUM_THREADS"), *dummy;
    const long omp = text ? strtol(text, NULL, 10) : 0; /* "4,2": the first number is the outermost
                                                           level */

    if (!why)
        why = &dummy;
    mf_params_load();
    if (MF_PARAM(threads) > 0 && MF_PARAM(threads) <= 1024) {
        *why = "MESHFLOW_THREADS";
        return (int)MF_PARAM(threads);
    }
    if (omp > 0 && omp <= 1024) {
        *why = "OMP_NUM_THREADS";
        return (int)omp;
    }
    *why = "usable cores";
    return mf_usable_cores();
}
