/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - monotonic and wall-clock time and random seeds from the system, replaceable by a
 * simulation. */
#include "base/clock.h"

#include "base/process.h"

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

int64_t mf_clock_coarse_ns(void)
{
    return clock_read(CLOCK_MONOTONIC_COARSE);
}

int64_t mf_clock_wall_ns(void)
{
    return clock_read(CLOCK_REALTIME);
}

int64_t mf_clock_since_start_ns(void)
{
    mf_process self;

    if (!mf_process_read(getpid(), &self))
        return 0;
    return clock_read(CLOCK_BOOTTIME) - self.start * (1000000000 / sysconf(_SC_CLK_TCK));
}

uint64_t mf_random_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)mf_clock_wall_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid();
    return seed;
}
