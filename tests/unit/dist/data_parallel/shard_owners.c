/* SPDX-License-Identifier: Apache-2.0 */
/* shard_owners.c - all-reduce without a central worker: no worker sends more than twice the mean.
 */
#include "base/mem.h"
#include "unit/dist/dist_test.h"
#include "unit/train/loop/everything.h"

enum { WORKERS = 4 };

static void train(job_worker *w)
{
    mf_dataset *set = corners();
    mf_model *m = everything();
    mf_traffic *sent = (mf_traffic *)w->arg + w->rank;
    mf_trainer *t;
    mf_status st = mf_model_compile(
        m,
        &(mf_compile_options){
            .optimizer = "momentum", .shards = WORKERS, .threads = 1, .seed = 5, .strategy = w->s },
        &t);

    if (st == MF_OK) {
        st = mf_fit(t, set, NULL, &(mf_fit_options){ .steps = 3, .batch = 16 });
        mf_strategy_traffic(w->s, sent);
        mf_trainer_free(t);
    }
    job_note(w, st);
    mf_model_free(m);
    mf_dataset_unref(set);
}

static void check(const char *strategy)
{
    mf_traffic sent[WORKERS] = { 0 };
    job_worker workers[JOB_MOST];
    int64_t sum = 0;

    job_run(workers, WORKERS, strategy, train, sent);
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i].st != MF_OK)
            T_FAIL("%s, worker %d: %s", strategy, i, workers[i].message);
        T_TRUE(sent[i].bytes > 0);
        sum += sent[i].bytes;
    }
    printf("# %s: %lld %lld %lld %lld\n", strategy, (long long)sent[0].bytes,
           (long long)sent[1].bytes, (long long)sent[2].bytes, (long long)sent[3].bytes);
    for (int i = 0; i < WORKERS; i++)
        T_TRUE(sent[i].bytes * WORKERS <= 2 * sum);
}

MF_TEST(no_worker_sends_more_than_twice_the_mean)
{
    static const char *const collectives[] = { "auto",   "ring",     "halving",
                                               "direct", "exchange", "tree" };
    char text[100];

    for (int i = 0; i < MF_COUNT(collectives); i++) {
        (void)snprintf(text, sizeof text, "multi_worker_mirrored collective=%s", collectives[i]);
        check(text);
    }
    check("mesh axes='all:4' layout='batch:all'");
    check("mesh axes='all:4' layout='batch:all;slots:all'");
}
