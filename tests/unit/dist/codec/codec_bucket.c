/* SPDX-License-Identifier: Apache-2.0 */
/* codec_bucket.c - encoded gradients of a group: the same bits for any number of members, and
 * residuals that move when the number changes. */
#include "dist/codec/codec_bucket.h"

#include "base/mem.h"
#include "base/rng.h"
#include "mf_test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 8, ROWS = 40, COLUMNS = 30, COUNT = ROWS * COLUMNS, STEPS = 4, MOST = 8 };

static const char *const names[] = { "worker 0", "worker 1", "worker 2", "worker 3",
                                     "worker 4", "worker 5", "worker 6", "worker 7" };

typedef struct job {
    const char *codec;
    int members;
    int64_t samples;
    int from, to; /* steps */
    mf_segment *segment;
    mf_aux_state_list *before; /* residuals before and after; of the first member */
    float result[COUNT]; /* of the last step; of the first member */
} job;

typedef struct member {
    job *j;
    int rank;
    float result[COUNT];
    bool ok;
} member;

/* The gradient of some shards: sums in the tree, as the step makes them. */
static void gradient(mf_reduction_tree_node node, int step, float *out)
{
    if (node.hi - node.lo > 1) {
        int64_t half = 1;
        float right[COUNT];

        while (half * 2 < node.hi - node.lo)
            half *= 2;
        gradient((mf_reduction_tree_node){ node.lo, node.lo + half }, step, out);
        gradient((mf_reduction_tree_node){ node.lo + half, node.hi }, step, right);
        for (int i = 0; i < COUNT; i++)
            out[i] += right[i];
        return;
    }
    mf_philox gen = mf_philox_init((uint64_t)node.lo, (uint64_t)step);
    uint32_t r[4];

    for (int i = 0; i < COUNT; i++) {
        mf_philox_next(&gen, r);
        out[i] = ((float)r[0] * 0x1p-32f - 0.5f) * (float)(r[1] % 100) + 1.0f;
    }
}

static bool exchange(member *m, mf_codec_bucket *c, const mf_shard_owners *s, mf_group *g, int step)
{
    const int n = mf_shard_owners_grains(s, m->rank);
    float *values = calloc((size_t)(n + 1) * COUNT, sizeof *values), *grains[SHARDS];
    mf_status st;

    for (int i = 0; i < n; i++) {
        grains[i] = values + i * COUNT;
        gradient(s->grains[s->first_grain[m->rank] + i], step, grains[i]);
    }
    st = mf_codec_bucket_exchange(
        c, &(mf_codec_bucket_call){ .group = g,
                                    .call = { .step = step, .what = "a test" },
                                    .shares = s,
                                    .grains = grains,
                                    .result = m->result });
    free(values);
    return st == MF_OK;
}

static bool run_steps(member *m, mf_codec_bucket *c, mf_shard_owners *s, mf_codecs *codecs,
                      mf_group *g)
{
    const mf_codec_item item = { .count = COUNT, .rows = ROWS, .columns = COLUMNS, .seed = 9 };
    const mf_codec *codec = mf_codecs_find(codecs, "w", MF_DTYPE_F32, &item);
    mf_aux_state_list kept = { 0 };
    bool ok =
        codec && mf_codec_bucket_add(c, s, m->rank, "w", codec, &item, 0, m->j->before) == MF_OK;

    mf_shard_owners_set(s, m->j->samples);
    for (int step = m->j->from; ok && step < m->j->to; step++)
        ok = exchange(m, c, s, g, step);
    ok = ok &&
         mf_codec_bucket_collect(c, s, g, &(mf_collective){ .what = "a test" }, &kept) == MF_OK;
    if (m->rank == 0) {
        mf_aux_state_clear(m->j->before);
        *m->j->before = kept;
    }
    return ok;
}

static void *run_member(void *arg)
{
    member *m = arg;
    const mf_group like = { .rank = m->rank, .size = m->j->members, .names = names };
    mf_share of[MOST];
    int64_t grain;
    mf_codec_bucket coded = { 0 };
    mf_codecs *codecs;
    mf_shard_owners shares;
    mf_group *g;

    T_OK(mf_codecs_parse(m->j->codec, &codecs));
    grain = mf_codecs_grain(codecs);
    for (int r = 0; r < m->j->members; r++) {
        of[r].first = SHARDS / grain * r / m->j->members * grain;
        of[r].n = SHARDS / grain * (r + 1) / m->j->members * grain - of[r].first;
    }
    T_OK(mf_group_shared(m->j->segment, &like, &g));
    T_OK(mf_shard_owners_init(&shares, m->j->members, SHARDS, grain, of));
    m->ok = run_steps(m, &coded, &shares, codecs, g);
    mf_codec_bucket_deinit(&coded);
    mf_shard_owners_deinit(&shares);
    mf_group_free(g);
    mf_codecs_free(codecs);
    return NULL;
}

static void run(job *j)
{
    member m[MOST];
    pthread_t thread[MOST];

    T_OK(mf_segment_new(j->members, 4096, &j->segment));
    for (int r = 0; r < j->members; r++) {
        m[r] = (member){ .j = j, .rank = r };
        T_EQ(pthread_create(&thread[r], NULL, run_member, &m[r]), 0);
    }
    for (int r = 0; r < j->members; r++) {
        pthread_join(thread[r], NULL);
        T_TRUE(m[r].ok);
        T_EQ(memcmp(m[r].result, m[0].result, sizeof m[r].result), 0);
    }
    memcpy(j->result, m[0].result, sizeof j->result);
    mf_segment_free(j->segment);
}

static void check(const char *codec, int64_t samples)
{
    static const int sizes[] = { 2, 3, 4, 8 };
    mf_aux_state_list alone_kept = { 0 };
    job *alone = calloc(1, sizeof *alone), *j = calloc(1, sizeof *j);

    *alone = (job){ codec, 1, samples, 0, STEPS, .before = &alone_kept };
    run(alone);
    for (int s = 0; s < MF_COUNT(sizes); s++) {
        mf_aux_state_list kept = { 0 };

        if (strstr(codec, "grain=2") && sizes[s] > 4)
            continue;
        *j = (job){ codec, sizes[s], samples, 0, 2, .before = &kept };
        run(j);
        j->members = sizes[MF_COUNT(sizes) - 1 - s]; /* another number of members continues */
        j->members = strstr(codec, "grain=2") && j->members > 4 ? 4 : j->members;
        j->from = 2;
        j->to = STEPS;
        run(j);
        T_EQ(memcmp(j->result, alone->result, sizeof j->result), 0);
        T_EQ(kept.n, alone_kept.n);
        for (int64_t i = 0; i < kept.n; i++)
            T_EQ(memcmp(kept.at[i].value.data, alone_kept.at[i].value.data,
                        (size_t)kept.at[i].value.count * sizeof(float)),
                 0);
        mf_aux_state_clear(&kept);
    }
    mf_aux_state_clear(&alone_kept);
    free(alone);
    free(j);
}

MF_TEST(coded_gradients_are_the_same_when_the_number_of_members_changes)
{
    static const char *const codecs[] = { "fp16",
                                          "bf16",
                                          "int8",
                                          "int8 rounding=stochastic",
                                          "top_k ratio=0.1",
                                          "top_k ratio=0.1 momentum=0.9 warmup=3",
                                          "power_sgd rank=3",
                                          "grain=2; top_k ratio=0.1",
                                          "grain=2; power_sgd" };

    for (int i = 0; i < MF_COUNT(codecs); i++) {
        check(codecs[i], 100);
        check(codecs[i], 5); /* the last shards have no samples */
    }
}

/* With a constant gradient the mean of the received values converges to it: nothing is lost. */
MF_TEST(coded_residuals_are_sent_in_later_steps)
{
    static const char *const codecs[] = { "top_k ratio=0.1 values=fp32", "power_sgd rank=4" };
    float whole[COUNT];

    for (int c = 0; c < MF_COUNT(codecs); c++) {
        const mf_share all = { 0, SHARDS };
        const mf_codec_item item = { .count = COUNT, .rows = ROWS, .columns = COLUMNS };
        double sum[COUNT] = { 0 }, off = 0.0, size = 0.0;
        mf_aux_state_list none = { 0 };
        member m = { .rank = 0 };
        mf_codec_bucket coded = { 0 };
        mf_segment *segment;
        mf_codecs *codec;
        mf_shard_owners s;
        mf_group *g;

        T_OK(mf_codecs_parse(codecs[c], &codec));
        T_OK(mf_segment_new(1, 4096, &segment));
        T_OK(mf_group_shared(segment, &(mf_group){ .size = 1, .names = names }, &g));
        T_OK(mf_shard_owners_init(&s, 1, SHARDS, 1, &all));
        mf_shard_owners_set(&s, 100);
        T_OK(mf_codec_bucket_add(&coded, &s, 0, "w",
                                 mf_codecs_find(codec, "w", MF_DTYPE_F32, &item), &item, 0, &none));
        for (int turn = 0; turn < 100; turn++) {
            T_TRUE(exchange(&m, &coded, &s, g, 1));
            for (int i = 0; i < COUNT; i++)
                sum[i] += (double)m.result[i] / 100.0;
        }
        gradient((mf_reduction_tree_node){ 0, SHARDS }, 1, whole);
        for (int i = 0; i < COUNT; i++) {
            off += (sum[i] - (double)whole[i]) * (sum[i] - (double)whole[i]);
            size += (double)whole[i] * (double)whole[i];
        }
        T_TRUE(off < 0.02 * size);
        mf_codec_bucket_deinit(&coded);
        mf_shard_owners_deinit(&s);
        mf_group_free(g);
        mf_segment_free(segment);
        mf_codecs_free(codec);
    }
}

/* ---- grains ---- */

MF_TEST(tree_shares_are_split_at_multiples_of_the_grain)
{
    for (int64_t grain = 1; grain <= 8; grain *= 2) {
        for (int64_t samples = 1; samples < 20; samples++) {
            const int64_t leaves = samples < SHARDS ? samples : SHARDS;
            mf_reduction_tree_node parts[MF_REDUCTION_TREE_PARTS + SHARDS];
            const int n = mf_reduction_tree_share(SHARDS, 0, SHARDS, samples, grain, parts);
            int64_t at = 0;

            for (int i = 0; i < n; i++) {
                T_EQ(parts[i].lo, at);
                T_EQ(parts[i].lo % grain, 0);
                at = at + grain < leaves ? at + grain : leaves;
                T_EQ(parts[i].hi, at);
            }
            T_EQ(at, leaves);
        }
    }
}
