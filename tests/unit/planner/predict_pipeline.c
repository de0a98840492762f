/* SPDX-License-Identifier: Apache-2.0 */
/* predict_pipeline.c - the time of pipelines whose stages take known times. */
#include "planner/predict_pipeline.h"

#include "mf_test.h"

enum { MAX = 3 * 17 };

/* Each micro-batch takes a stage 1 forwards and 2 backwards, and `talk` to get there. */
static double time_of(int stages, int micro_batches, mf_pipeline how, double cores, double talk)
{
    mf_stage_item items[MAX] = { 0 };
    mf_stages s = {
        .n = stages, .micro_batches = micro_batches, .how = how, .cores = cores, .items = items
    };
    const int n = mf_stage_items(micro_batches);
    double ns;

    for (int k = 0; k < stages; k++) {
        int place = 0, forwards = 0, back = 0;
        int ahead =
            how == MF_PIPELINE_GPIPE || stages - k > micro_batches ? micro_batches : stages - k;

        for (; place < 2 * micro_batches;
             place++) { /* 1F1B: a backward pass as soon as `ahead` micro-batches are in flight */
            const bool is_back = forwards - back == ahead || forwards == micro_batches;

            items[k * n + place] = (mf_stage_item){ talk, is_back ? 2 : 1, 1 };
            *(is_back ? &back : &forwards) += 1;
        }
    }
    T_OK(mf_stages_time(&s, &ns));
    return ns;
}

MF_TEST(pipeline_time_is_micro_batches_plus_one_pass_through_the_stages)
{
    T_NEAR(time_of(2, 4, MF_PIPELINE_1F1B, 0, 0), 3 * (4 + 2 - 1), 1e-9);
    T_NEAR(time_of(2, 4, MF_PIPELINE_GPIPE, 0, 0), 3 * (4 + 2 - 1), 1e-9);
    T_NEAR(time_of(3, 8, MF_PIPELINE_1F1B, 0, 0), 3 * (8 + 3 - 1), 1e-9);
    T_NEAR(time_of(3, 1, MF_PIPELINE_1F1B, 0, 0), 3 * 3, 1e-9);
}

MF_TEST(stages_share_the_cores)
{
    T_NEAR(time_of(2, 4, MF_PIPELINE_1F1B, 1, 0), 3 * 4 * 2, 1e-9); /* no stage waits */
    T_NEAR(time_of(3, 8, MF_PIPELINE_GPIPE, 1, 0), 3 * 8 * 3, 1e-9);
    T_TRUE(time_of(3, 8, MF_PIPELINE_1F1B, 2, 0) >= 3 * 8 * 3 / 2.0);
    T_TRUE(time_of(3, 8, MF_PIPELINE_1F1B, 2, 0) < 3 * 8 * 3);
}

MF_TEST(transfer_time_counts_in_every_stage)
{
    T_NEAR(time_of(2, 4, MF_PIPELINE_GPIPE, 0, 0.5), (3 + 2 * 0.5) * (4 + 2 - 1), 1e-9);
}

MF_TEST(a_single_mesh_computes_and_communicates_on_its_cores)
{
    const mf_stage_item item = { 5, 10, 4 };
    mf_stages s = { .n = 1, .cores = 2, .items = &item };
    double ns;

    T_OK(mf_stages_time(&s, &ns));
    T_NEAR(ns, 5 + 10 * 4 / 2.0, 1e-9);
    s.cores = 0;
    T_OK(mf_stages_time(&s, &ns));
    T_NEAR(ns, 5 + 10, 1e-9);
}
