/* SPDX-License-Identifier: Apache-2.0 */
/* lr_schedules.c - learning rates at known steps. */
#include "mf_test.h"
#include "train/optim/lr_schedule.h"

static double at(const char *text, int64_t total, int64_t done)
{
    mf_arena *arena = mf_arena_new();
    mf_schedule s;
    double rate;

    T_OK(mf_schedule_parse(text, 2.0, arena, &s));
    s.total = total;
    rate = (double)mf_schedule_at(&s, done);
    mf_arena_free(arena);
    return rate;
}

MF_TEST(train_schedules_have_the_known_values)
{
    T_EQ_F(at(NULL, 10, 0), 2.0);
    T_EQ_F(at("constant", 10, 1000), 2.0);
    T_EQ_F(at("step at=[3,5] drop=0.5", 10, 2), 2.0);
    T_EQ_F(at("step at=[3,5] drop=0.5", 10, 3), 1.0);
    T_EQ_F(at("step at=[3,5] drop=0.5", 10, 5), 0.5);
    T_EQ_F(at("step every=4 drop=0.5", 10, 8), 0.5);
    T_NEAR(at("exponential every=10 decay=0.25", 10, 5), 1.0, 1e-6);
    T_EQ_F(at("exponential every=10 decay=0.25 staircase=true", 10, 9), 2.0);
    T_EQ_F(at("exponential every=10 decay=0.25 staircase=true", 10, 20), 0.125);
}

MF_TEST(train_cosine_and_one_cycle_span_the_training)
{
    T_EQ_F(at("cosine", 100, 0), 2.0);
    T_NEAR(at("cosine", 100, 50), 1.0, 1e-6);
    T_NEAR(at("cosine", 100, 100), 0.0, 1e-6);
    T_NEAR(at("cosine end=0.1", 100, 200), 0.2, 1e-6); /* and stays there */
    T_NEAR(at("cosine steps=20", 100, 10), 1.0, 1e-6);
    T_NEAR(at("one_cycle start=0.1", 100, 0), 0.2, 1e-6);
    T_NEAR(at("one_cycle start=0.1", 100, 15), 1.1, 1e-6);
    T_NEAR(at("one_cycle", 100, 30), 2.0, 1e-6);
    T_NEAR(at("one_cycle end=0.5", 100, 65), 1.5, 1e-6);
    T_NEAR(at("one_cycle end=0.5", 100, 100), 1.0, 1e-6);
}

MF_TEST(train_schedules_warm_up_from_the_first_step_on)
{
    T_EQ_F(at("constant warmup=4", 10, 0), 0.5);
    T_EQ_F(at("constant warmup=4", 10, 3), 2.0);
    T_EQ_F(at("constant warmup=4", 10, 4), 2.0);
    T_EQ_F(at("cosine warmup=20", 100, 9), 1.0);
    T_EQ_F(at("cosine warmup=20", 100, 20), 2.0); /* the cosine takes the remaining steps */
    T_NEAR(at("cosine warmup=20", 100, 60), 1.0, 1e-6);
    T_NEAR(at("cosine warmup=20", 100, 100), 0.0, 1e-6);
}

MF_TEST(train_schedules_reject_invalid_settings)
{
    mf_arena *arena = mf_arena_new();
    mf_schedule s;

    T_FAILS(MF_NOT_FOUND, "there is no schedule 'cosin'; did you mean 'cosine'?",
            mf_schedule_parse("cosin", 1.0, arena, &s));
    T_FAILS(MF_NOT_FOUND, "expected one of constant, step, exponential, cosine, one_cycle",
            mf_schedule_parse("polynomial", 1.0, arena, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "every", mf_schedule_parse("exponential every=0", 1.0, arena, &s));
    mf_arena_free(arena);
}
