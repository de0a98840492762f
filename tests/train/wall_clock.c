/* SPDX-License-Identifier: Apache-2.0 */
/* wall_clock.c - loaded into a program before its libraries, it makes the time of day jump two
 * hours to and fro, every second; partition.py. Times that only go forward stay what they are. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t jump(void)
{
    struct timespec t;

    (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return t.tv_sec % 2 ? 3600 : -3600;
}

int clock_gettime(clockid_t which, struct timespec *t)
{
    const int r = (int)syscall(SYS_clock_gettime, which, t);

    if (r == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        t->tv_sec += jump();
    return r;
}

int gettimeofday(struct timeval *t, void *zone)
{
    struct timespec now;

    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){ now.tv_sec, now.tv_nsec / 1000 };
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
