/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - a training that waits for its input gets threads that read; one that does not gives
 * them back. */
#include "train/pace.h"

#include "base/limits.h"
#include "data/dataset.h"
#include "unit/train/toy.h"

#include <unistd.h>

MF_TEST(input_gets_threads_while_they_help)
{
    mf_pace p;

    mf_pace_init(&p, 0);
    p.most = 4;
    T_EQ(p.threads, 1);
    mf_pace_look(&p, 0.6);
    T_EQ(p.threads, 2);
    mf_pace_look(&p, 0.3);
    T_EQ(p.threads, 3);
    mf_pace_look(&p, 0.05); /* is enough */
    T_EQ(p.threads, 3);
    mf_pace_look(&p, 0.2);
    T_EQ(p.threads, 4);
    mf_pace_look(&p, 0.19); /* the fourth has not helped */
    T_EQ(p.threads, 3);
}

MF_TEST(input_never_gets_more_threads_than_there_are_cores)
{
    mf_pace p;

    mf_pace_init(&p, 0);
    T_EQ(p.most, mf_usable_cores());
    p.most = 2;
    mf_pace_look(&p, 0.9);
    mf_pace_look(&p, 0.4);
    mf_pace_look(&p, 0.4);
    T_EQ(p.threads, 2);
}

MF_TEST(input_gives_threads_back_that_nobody_waits_for)
{
    mf_pace p;

    mf_pace_init(&p, 0);
    p.most = 4;
    mf_pace_look(&p, 0.6);
    mf_pace_look(&p, 0.3);
    for (int i = 0; i < 3; i++)
        mf_pace_look(&p, 0.0); /* as when all is cached */
    T_EQ(p.threads, 1);
    mf_pace_init(&p, 3); /* unless they were asked for */
    for (int i = 0; i < 3; i++)
        mf_pace_look(&p, i % 2 ? 0.9 : 0.0);
    T_EQ(p.threads, 3);
}

MF_TEST(input_that_goes_to_and_fro_is_looked_at_less_and_less)
{
    int64_t steps = 0;
    mf_pace p;

    mf_pace_init(&p, 0);
    p.most = 2;
    for (int i = 0; i < 20; i++) { /* one thread is too few, two are too many */
        mf_pace_look(&p, p.threads == 1 ? 0.2 : 0.0);
        steps += p.pause;
    }
    T_TRUE(steps > 14 * 512);
}

/* ---- in a training ---- */

static atomic_int reading, most_reading;

static mf_status read_slowly(void *ctx, uint64_t epoch, int64_t id, const void *const *in,
                             void *const *out)
{
    const mf_dataset *set = ctx;
    const int n = atomic_fetch_add(&reading, 1) + 1;

    (void)epoch, (void)id;
    if (n > atomic_load(&most_reading))
        atomic_store(&most_reading, n);
    usleep(1000);
    for (int i = 0; i < set->n_columns; i++)
        memcpy(out[i], in[i], set->bytes[i]);
    atomic_fetch_sub(&reading, 1);
    return MF_OK;
}

static void train_slowly(int input_threads, char sha[65])
{
    mf_dataset *slow;
    toy p;

    toy_line(&p);
    T_OK(mf_dataset_map(p.data, p.data->columns, p.data->n_columns, read_slowly, p.data, &slow));
    toy_compile(&p, (mf_compile_options){ .optimizer = "sgd" });
    atomic_store(&most_reading, 0);
    T_OK(mf_fit(p.trainer, slow, NULL,
                &(mf_fit_options){ .steps = 40, .batch = 5, .input_threads = input_threads }));
    T_OK(mf_trainer_sha256(p.trainer, sha));
    mf_dataset_unref(slow);
    toy_end(&p);
}

MF_TEST(input_that_is_slow_is_read_by_more_threads_and_the_weights_are_the_same)
{
    char one[65], many[65];

    train_slowly(1, one);
    T_EQ(atomic_load(&most_reading), 1);
    train_slowly(0, many);
    T_TRUE(atomic_load(&most_reading) > 1 || mf_usable_cores() == 1);
    T_STREQ(many, one);
    train_slowly(3, many);
    T_EQ(atomic_load(&most_reading), 3);
    T_STREQ(many, one);
}
