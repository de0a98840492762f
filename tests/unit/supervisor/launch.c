/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - the delay before a task is restarted. */
#include "supervisor/launch.h"

#include "mf_test.h"

MF_TEST(launch_restart_delay_doubles_and_resets)
{
    const int64_t ms = 1000000, now = 100000 * ms;
    int in_row = 0;

    T_EQ(mf_launch_pause_ns(now - 3000 * ms, now, &in_row), 50 * ms);
    T_EQ(mf_launch_pause_ns(now - 4999 * ms, now, &in_row), 100 * ms);
    T_EQ(mf_launch_pause_ns(now, now, &in_row), 200 * ms);
    T_EQ(mf_launch_pause_ns(now - 5000 * ms, now, &in_row), 50 * ms);
    for (int i = 0; i < 100; i++)
        T_TRUE(mf_launch_pause_ns(now, now, &in_row) <= 12800 * ms);
    T_EQ(mf_launch_pause_ns(now, now, &in_row), 12800 * ms);
    T_EQ(mf_launch_pause_ns(0, now, &in_row),
         50 * ms); /* not known: it was not we who started it */
}
