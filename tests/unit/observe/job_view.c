/* SPDX-License-Identifier: Apache-2.0 */
/* job_view.c - who is the reason, by what tasks show. */
#include "observe/job_view.h"

#include "mf_test.h"

#include <string.h>

enum { SECOND = 1000000000 };
static const int64_t now = 1000 * (int64_t)SECOND;

/* Worker 0 is the chief; worker 1 is on another host, was last heard of a minute ago, and computed
 * then. */
static void two_tasks(mf_status_page_seen t[2])
{
    for (int i = 0; i < 2; i++)
        t[i] = (mf_status_page_seen){ .alive = true,
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

static void check(const mf_status_page_seen t[2], const char *want)
{
    const mf_job_view_job job = { t, 2 };
    mf_buf out = { 0 };

    if (!mf_job_view_explain(&job, now, &out))
        mf_buf_str(&out, "it goes on");
    T_OK(mf_buf_finish(&out));
    if (strncmp(out.data, want, strlen(want)) != 0)
        T_STREQ(out.data, want);
    mf_buf_deinit(&out);
}

MF_TEST(running_task_that_computes_elsewhere_for_long_is_the_reason_only_if_others_wait)
{
    mf_status_page_seen t[2];

    two_tasks(t);
    check(t, "it goes on");
    t[0].page.waits[0] = (mf_status_page_wait){ .whom = "worker 1",
                                                .what = "x",
                                                .since_ns = now - 5 * (int64_t)SECOND };
    check(t, "worker 1 (pid 8) is on far and was last heard of 60.0 s ago; worker 0 waits for it");
    t[1].alive = false;
    check(t, "worker 1 (pid 8) is dead");
}

MF_TEST(running_task_says_which_op_and_which_file)
{
    mf_status_page_seen t[2];

    two_tasks(t);
    t[1].page.keeper = 0;
    t[0].page.waits[0] = (mf_status_page_wait){ .whom = "worker 1",
                                                .what = "x",
                                                .since_ns = now - 5 * (int64_t)SECOND };
    t[1].page.phase_since_ns = now - 6 * (int64_t)SECOND;
    t[1].page.acts[0] = (mf_status_page_act){ MF_ACT_RUN, now - 1 * (int64_t)SECOND, "short" };
    t[1].page.acts[1] =
        (mf_status_page_act){ MF_ACT_RUN, now - 5 * (int64_t)SECOND, "dense/MatMul" };
    check(t, "worker 1 (pid 8) computes step 3 since 6.0 s, op dense/MatMul since 5.0 s; worker 0");
    t[1].page.computing = 0;
    t[1].page.phase = MF_PHASE_INPUT;
    t[1].page.acts[0] =
        (mf_status_page_act){ MF_ACT_READ, now - 4 * (int64_t)SECOND, "/data/1.png" };
    check(t, "worker 1 (pid 8) waits for input since 6.0 s: reads /data/1.png since 4.0 s; worker");
    t[1].page.phase = MF_PHASE_LOAD;
    check(t, "worker 1 (pid 8) loads data since 6.0 s: reads /data/1.png since 4.0 s; worker 0");
    t[1].page.phase = MF_PHASE_SAVE;
    t[1].page.acts[0].kind = MF_ACT_WRITE;
    check(t, "worker 1 (pid 8) saves since 6.0 s: writes /data/1.png since 4.0 s; worker 0");
}

MF_TEST(running_tasks_that_wait_for_each_other_are_all_named)
{
    mf_status_page_seen t[2];

    two_tasks(t);
    t[1].page.keeper = 0;
    t[1].page.computing = 0;
    t[0].page.waits[0] = (mf_status_page_wait){ .whom = "worker 1",
                                                .what = "x",
                                                .since_ns = now - 5 * (int64_t)SECOND };
    t[1].page.waits[0] = (mf_status_page_wait){ .whom = "worker 0",
                                                .what = "y",
                                                .since_ns = now - 4 * (int64_t)SECOND };
    check(t, "they wait for each other: worker 0 waits for worker 1: x of step 0, since 5.0 s; "
             "worker 1 waits for worker 0: y of step 0, since 4.0 s");
}

MF_TEST(running_task_that_gets_no_processor_is_told_from_one_that_wants_none)
{
    mf_status_page_seen t[2];
    char note[MF_JOB_VIEW_NOTE];

    two_tasks(t);
    mf_job_view_starved(&t[0], &(mf_process_times){ .at_ns = 1000, .ran_ns = 100, .ready_ns = 900 },
                        note);
    T_TRUE(strstr(note, "gets 10 % of the processor time") != NULL);
    mf_job_view_starved(&t[0], &(mf_process_times){ .at_ns = 1000, .ran_ns = 20, .ready = 1 },
                        note);
    T_TRUE(strstr(note, "gets 2 % of the processor time") != NULL); /* not counted yet */
    mf_job_view_starved(&t[0], &(mf_process_times){ .at_ns = 1000, .ran_ns = 20 }, note);
    T_STREQ(note, "");
    mf_job_view_starved(&t[0], &(mf_process_times){ .at_ns = 1000, .ran_ns = 990, .ready = 1 },
                        note);
    T_STREQ(note, "");
    t[0].page.phase = MF_PHASE_INPUT; /* its thread that asks runs, but that is no computing */
    mf_job_view_starved(&t[0], &(mf_process_times){ .at_ns = 1000, .ran_ns = 20, .ready = 1 },
                        note);
    T_STREQ(note, "");
}

MF_TEST(running_task_with_one_shard_names_it)
{
    mf_status_page_seen t[2];

    two_tasks(t);
    t[1].page.keeper = 0;
    t[0].page.waits[0] = (mf_status_page_wait){ .whom = "worker 1",
                                                .what = "x",
                                                .since_ns = now - 5 * (int64_t)SECOND };
    t[1].page.phase_since_ns = now - 6 * (int64_t)SECOND;
    t[1].page.first_shard = 4;
    t[1].page.n_shards = 4;
    check(t, "worker 1 (pid 8) computes shards 4..7 of step 3 since 6.0 s");
    t[1].page.first_shard = 7;
    t[1].page.n_shards = 1;
    check(t, "worker 1 (pid 8) computes shard 7 of step 3 since 6.0 s");
}
