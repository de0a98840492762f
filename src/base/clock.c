/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { STARTTIME = 22 }; /* the field of /proc/self/stat, in ticks since the machine began */

static int64_t clock_read(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t mf_clock_ns(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

int64_t mf_clock_wall_ns(void)
{
    return clock_read(CLOCK_REALTIME);
}

int64_t mf_clock_since_start_ns(void)
{
    char text[1024] = "";
    FILE *f = fopen("/proc/self/stat", "re");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    const char *p = strrchr(text, ')'); /* the program's name before it may hold anything */
    long long ticks = 0;

    if (f)
        (void)fclose(f);
    for (int field = 2; n > 0 && p && field < STARTTIME; field++)
        p = strchr(p + 1, ' ');
    if (!p || sscanf(p, "%lld", &ticks) != 1)
        return 0;
    return clock_read(CLOCK_BOOTTIME) - ticks * (1000000000 / sysconf(_SC_CLK_TCK));
}

uint64_t mf_random_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)mf_clock_wall_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid();
    return seed;
}
