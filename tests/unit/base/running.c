/* SPDX-License-Identifier: Apache-2.0 */
/* running.c - who is the reason, by what tasks show. */
#include "base/running.h"

#include "mf_test.h"

#include <string.h>

enum { SECOND = 1000000000 };
static const int64_t now = 1000 * (int64_t)SECOND;

/* Worker 0 is the chief; worker 1 is on another host, was last heard of a minute ago, and computed
 * then. */
static void two_tasks(mf_board_seen t[2])
{
    for (int i = 0; i < 2; i++)
        t[i] = (mf_board_seen){ .alive = true,
                                .page = { .job = "job",
                                          .task = "worker 0",
                                          .pid = 7 + i,
                                          .tasks = 2,
                                          .phase = MF_PHASE_STEP,
                                          .step = 3,
                                          .steps = 10 } };
    (void)strcpy(t[1].page.task, "worker 1");
    (void)strcpy(t[1].page.host, "far");
    t[1].page.keeper = 7;
    t[1].page.computing = 1;
    t[1].page.told_ns = now - 60 * (int64_t)SECOND;
}

static void check(const mf_board_seen t[2], const char *want)
{
    const mf_running_job job = { t, 2 };
    mf_buf out = { 0 };

    if (!mf_running_explain(&job, now, &out))
        mf_buf_str(&out, "it goes on");
    T_OK(mf_buf_finish(&out));
    if (strncmp(out.data, want, strlen(want)) != 0)
        T_STREQ(out.data, want);
    mf_buf_deinit(&out);
}

MF_TEST(running_task_that_computes_elsewhere_for_long_is_the_reason_only_if_others_wait)
{
    mf_board_seen t[2];

    two_tasks(t);
    check(t, "it goes on");
    t[0].page.waits[0] =
        (mf_board_wait){ .whom = "worker 1", .what = "x", .since_ns = now - 5 * (int64_t)SECOND };
    check(t, "worker 1 (pid 8) is on far and was last heard of 60.0 s ago; worker 0 waits for it");
    t[1].alive = false;
    check(t, "worker 1 (pid 8) is dead");
}
