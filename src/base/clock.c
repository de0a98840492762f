/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

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

uint64_t mf_random_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)mf_clock_wall_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid();
    return seed;
}
