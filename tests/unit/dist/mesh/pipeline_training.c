/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_training.c - stages run micro-batches in the order of the schedule; every schedule gives
 * the same weights. */
#include "mf_test.h"
#include "spmd/pipeline/pipeline_schedule.h"

#include <meshflow/meshflow.h>

#include <stdio.h>
#include <string.h>

enum { STAGES = 2, TURNS = 4, SAMPLES = 24, WIDTH = 5, LAYERS = 8, MOST = 64 };

static mf_dataset *numbers(void)
{
    mf_tensor *x, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ SAMPLES, WIDTH }, 2, &x));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ SAMPLES }, 1, &label));
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < WIDTH; k++)
            ((float *)mf_tensor_data(x))[i * WIDTH + k] = (float)((i * 7 + k * 3) % 11) * 0.1f;
        ((int32_t *)mf_tensor_data(label))[i] = i % 3;
    }
    T_OK(mf_dataset_of((const char *[]){ "x", "label" }, (const mf_tensor *[]){ x, label }, 2,
                       &set));
    mf_tensor_free(x);
    mf_tensor_free(label);
    return set;
}

static mf_model *deep(void)
{
    mf_model *m;
    mf_output x;

    T_OK(mf_model_new(&m));
    x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ WIDTH }, 1);
    for (int i = 0; i + 1 < LAYERS; i++)
        x = mf_layer(m, "Dense", MF_IN(x), "units=16 activation=tanh");
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=3"));
    return m;
}

/* Trains three steps; records the activity of stages in the last step, and a hash of the weights.
 */
static void train(const char *pipeline, mf_mesh_counts counts[STAGES], char sha[65])
{
    mf_dataset *set = numbers();
    mf_model *m = deep();
    mf_strategy *s;
    mf_trainer *t;
    char text[200];

    (void)snprintf(text, sizeof text, "mesh axes='stages:%d' layout='layers:stages' %s", STAGES,
                   pipeline);
    T_OK(mf_strategy_open(text, NULL, &s));
    T_OK(mf_model_compile(m,
                          &(mf_compile_options){ .optimizer = "momentum",
                                                 .shards = TURNS,
                                                 .micro_batches = TURNS,
                                                 .threads = 2,
                                                 .seed = 3,
                                                 .strategy = s },
                          &t));
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .epochs = 3, .batch = SAMPLES }));
    T_OK(mf_trainer_sha256(t, sha));
    T_EQ(mf_strategy_mesh_counts(s, counts, STAGES), STAGES);
    mf_trainer_free(t);
    mf_strategy_close(s);
    mf_model_free(m);
    mf_dataset_unref(set);
}

/* When a stage finished a micro-batch in this direction, for all its chunks; 0: it had none.
 */
static int64_t end_of(const mf_mesh_counts *c, mf_pipeline_way way, int64_t turn)
{
    int64_t end = 0;

    for (int64_t i = 0; i < c->n_intervals; i++) {
        const mf_mesh_interval *t = &c->intervals[i];

        if (t->micro_batch == turn + 1 && t->is_back == (int64_t)way && t->end_ns > end)
            end = t->end_ns;
    }
    return end;
}

static void check(const char *text, const mf_pipeline_plan *plan, const char *want)
{
    mf_mesh_counts counts[STAGES];
    char sha[65];

    train(text, counts, sha);
    T_STREQ(sha, want);
    for (int s = 0; s < STAGES; s++) {
        const int64_t n = mf_pipeline_items(plan);
        mf_pipeline_item items[MOST];
        bool seen[MF_PIPELINE_WAYS][TURNS] = { 0 };
        int64_t later = INT64_MAX;

        mf_pipeline_order(plan, s, items);
        for (int64_t i = n - 1; i >= 0; i--) { /* the last chunk counts */
            const int64_t end = end_of(&counts[s], items[i].way, items[i].micro_batch);

            if (seen[items[i].way][items[i].micro_batch])
                continue;
            seen[items[i].way][items[i].micro_batch] = true;
            T_TRUE(end > 0);
            T_TRUE(end <= later);
            later = end;
        }
    }
}

MF_TEST(stages_run_their_micro_batches_in_the_configured_order)
{
    mf_mesh_counts counts[STAGES];
    char want[65];

    train("pipeline=gpipe", counts, want);
    check("pipeline=gpipe", &(mf_pipeline_plan){ MF_PIPELINE_GPIPE, STAGES, 1, TURNS }, want);
    check("pipeline=1f1b", &(mf_pipeline_plan){ MF_PIPELINE_1F1B, STAGES, 1, TURNS }, want);
    check("pipeline=zero-bubble", &(mf_pipeline_plan){ MF_PIPELINE_ZERO_BUBBLE, STAGES, 1, TURNS },
          want);
    check("pipeline=interleaved chunks=2",
          &(mf_pipeline_plan){ MF_PIPELINE_INTERLEAVED, STAGES, 2, TURNS }, want);
    check("pipeline=interleaved chunks=3 stages='1,2,1,2,1,1'",
          &(mf_pipeline_plan){ MF_PIPELINE_INTERLEAVED, STAGES, 3, TURNS }, want);
}
