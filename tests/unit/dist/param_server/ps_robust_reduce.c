/* SPDX-License-Identifier: Apache-2.0 */
/* ps_robust_reduce.c - robust aggregation on a parameter server, which receives shards separately.
 */
#include "dist/param_server/ps_server.h"
#include "mf_test.h"

enum { SHARDS = 3, DENSE = 2 };

typedef struct bench {
    mf_trainer trainer;
    server server;
    mf_reduction_tree_node parts[2][2];
    float dense[2][2][DENSE];
    push pushes[2]; /* of shards 0 and 2, and of shard 1 */
    const push *all[2];
} bench;

static void make(bench *b, mf_aggregate how)
{
    *b = (bench){ .parts = { { { 0, 1 }, { 2, 3 } }, { { 1, 2 } } },
                  .dense = { { { 1, 9 }, { 4, 1 } }, { { 2, 3 } } } };
    b->trainer.options.shards = SHARDS;
    b->server = (server){ .t = &b->trainer, .dense = DENSE };
    b->server.o.mode.aggregation.how = how;
    for (int i = 0; i < 2; i++) {
        b->pushes[i] = (push){ .parts = b->parts[i], .dense = b->dense[i][0] };
        b->pushes[i].head = (mf_ps_push){ .samples = SHARDS, .leaves = SHARDS, .n_parts = 2 - i };
        b->all[i] = &b->pushes[i];
    }
}

static mf_status look(const bench *b, mf_ps_shards *x)
{
    return mf_ps_shards_init(x, &b->server, b->all, 2);
}

static void expect_refusal(const bench *b)
{
    mf_ps_shards x;

    T_FAILS(MF_INVALID_ARGUMENT, "are not one gradient of each shard", look(b, &x));
    mf_ps_shards_deinit(&x);
}

MF_TEST(servers_aggregate_shards_in_their_order)
{
    float out[DENSE];
    mf_ps_shards x;
    bench b;

    make(&b, MF_AGGREGATE_MEDIAN);
    T_OK(look(&b, &x));
    T_OK(mf_ps_shards_aggregate(&x, 0, DENSE, out)); /* every shard has a third of the samples */
    T_EQ_F(out[0], 6);
    T_EQ_F(out[1], 9);
    T_OK(mf_ps_shards_aggregate(&x, 1, 1, out));
    T_EQ_F(out[0], 9);
    mf_ps_shards_deinit(&x);
}

MF_TEST(servers_do_not_modify_pushes_in_adasum)
{
    float out[1];
    mf_ps_shards x;
    bench b;

    make(&b, MF_AGGREGATE_ADASUM);
    T_OK(look(&b, &x));
    T_OK(mf_ps_shards_aggregate(&x, 0, 1, out)); /* of scalars: the mean of siblings in the tree */
    T_EQ_F(out[0], 8.25f);
    T_EQ_F(b.dense[0][0][0], 1);
    T_EQ_F(b.dense[1][0][0], 2);
    mf_ps_shards_deinit(&x);
}

MF_TEST(servers_refuse_pushes_that_are_not_one_gradient_of_each_shard)
{
    bench b;

    make(&b, MF_AGGREGATE_MEDIAN);
    b.parts[1][0] = (mf_reduction_tree_node){ 2, 3 }; /* twice */
    expect_refusal(&b);
    b.parts[1][0] = (mf_reduction_tree_node){ 1, 3 };
    expect_refusal(&b);
    b.parts[1][0] = (mf_reduction_tree_node){ 3, 4 };
    expect_refusal(&b);
    b.parts[1][0] = (mf_reduction_tree_node){ -1, 0 };
    expect_refusal(&b);
    make(&b, MF_AGGREGATE_MEDIAN);
    b.pushes[1].head.n_parts = 0; /* shard 1 is missing */
    expect_refusal(&b);
    make(&b, MF_AGGREGATE_MEDIAN);
    b.pushes[1].head.samples = 4;
    expect_refusal(&b);
    make(&b, MF_AGGREGATE_MEDIAN);
    b.pushes[0].head.samples = b.pushes[1].head.samples = 2; /* too few for three */
    expect_refusal(&b);
}
