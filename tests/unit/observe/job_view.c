/* SPDX-License-Identifier: Apache-2.0 */
/* job_view.c - the cause of a stall, as status pages show it. */
#include "observe/job_view.h"

#include "mf_test.h"

#include <string.h>

enum { SECOND = 1000000000 };
static const int64_t now = 1000 * (int64_t)SECOND;

/* Worker 0 is the chief; worker 1 is on another host, reported last a minute ago, and computed
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
    t[1].page.reported_ns = now - 60 * (int64_t)SECOND;
}

static void check(const mf_status_page_seen t[2], const char *want)
{
    const mf_job_view_job job = { t, 2 };
    mf_buf out = { 0 };

    if (!mf_job_view_explain(&job, now, &out))
        mf_buf_str(&out, "no stall");
    T_OK(mf_buf_finish(&out));
    if (strncmp(out.data, want, strlen(want)) != 0)
        T_STREQ(out.data, want);
    mf_buf_deinit(&out);
}

MF_TEST(a_silent_task_of_another_host_is_the_cause_only_if_others_wait)
{
    mf_status_page_seen t[2];

    two_tasks(t);
    check(t, "no stall");
    t[0].page.waits[0] = (mf_status_page_wait){ .whom = "worker 1",
                                                .what = "x",
                                                .since_ns = now - 5 * (int64_t)SECOND };
    check(t, "worker 1 (pid 8) is on far and last reported 60.0 s ago; worker 0 has been waiting");
    t[1].alive = false;
    check(t, "worker 1 (pid 8) is dead");
}

MF_TEST(the_cause_names_the_op_and_the_file)
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
    check(t, "worker 1 (pid 8) has been computing step 3 for 6.0 s, op dense/MatMul for 5.0 s"
             "; worker 0");
    t[1].page.computing = 0;
    t[1].page.phase = MF_PHASE_INPUT;
    t[1].page.acts[0] =
        (mf_status_page_act){ MF_ACT_READ, now - 4 * (int64_t)SECOND, "/data/1.png" };
    check(t, "worker 1 (pid 8) has been waiting for input for 6.0 s: reading /data/1.png for "
             "4.0 s; worker");
    t[1].page.phase = MF_PHASE_LOAD;
    check(t, "worker 1 (pid 8) has been loading data for 6.0 s: reading /data/1.png for "
             "4.0 s; worker 0");
    t[1].page.phase = MF_PHASE_SAVE;
    t[1].page.acts[0].kind = MF_ACT_WRITE;
    check(t, "worker 1 (pid 8) has been saving for 6.0 s: writing /data/1.png for 4.0 s; worker 0");
}

MF_TEST(a_deadlock_names_all_its_tasks)
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
    check(t, "deadlock: worker 0 has been waiting for worker 1 for 5.0 s: x of step 0; "
             "worker 1 has been waiting for worker 0 for 4.0 s: y of step 0");
}

MF_TEST(a_starved_task_is_distinguished_from_an_idle_one)
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
    t[0].page.phase = MF_PHASE_INPUT; /* its requesting thread runs, but this is not computing */
    mf_job_view_starved(&t[0], &(mf_process_times){ .at_ns = 1000, .ran_ns = 20, .ready = 1 },
                        note);
    T_STREQ(note, "");
}

MF_TEST(a_task_with_one_shard_names_it)
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
    check(t, "worker 1 (pid 8) has been computing shards 4..7 of step 3 for 6.0 s");
    t[1].page.first_shard = 7;
    t[1].page.n_shards = 1;
    check(t, "worker 1 (pid 8) has been computing shard 7 of step 3 for 6.0 s");
}
