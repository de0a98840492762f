/* SPDX-License-Identifier: Apache-2.0 */
/* ps_host_aggregate.c - sums of the workers of one host; mismatched sums are refused. */
#include "dist/param_server/ps_host_aggregate.h"

#include "collective/net_groups.h"
#include "mf_test.h"
#include "unit/net/net_tasks.h"

enum { SHARDS = 4 };

typedef struct trick {
    mf_reduction_tree_node second; /* the sum that worker 1 announces */
    const char *said; /* the error of worker 0, DATA_LOSS; NULL: none */
} trick;

/* Worker 0 has the first two shards. */
static bool gather(mf_net *net, void *arg)
{
    const trick *x = arg;
    const int self = mf_net_self(net);
    mf_push_pull_round mine = { .samples = SHARDS, .n_parts = 1 }, all;
    mf_ps_host_aggregate host_aggregate = { .timeout_ns = 20000000000 };
    mf_status st;

    T_OK(mf_push_pull_round_init(&mine, 1, 1));
    mine.parts[0] = self == 0 ? (mf_reduction_tree_node){ 0, 2 } : x->second;
    mine.values[0].dtype = MF_DTYPE_F32;
    T_OK(mf_tensor_alloc(&mine.values[0].part[0], MF_DTYPE_F32, &MF_SCALAR));
    *(float *)mine.values[0].part[0].data = (float)(self + 1);
    T_OK(mf_group_net(net, (const int[]){ 0, 1 }, 2, 1, NULL, &host_aggregate.group));
    st = mf_ps_host_aggregate_gather(&host_aggregate, SHARDS, &mine, &all);
    if (self == 0 && x->said)
        T_FAILS(MF_DATA_LOSS, x->said, st);
    else
        T_OK(st);
    if (self == 0 && !x->said) {
        T_EQ(all.n_parts, 1);
        T_EQ_F(*(const float *)all.values[0].part[0].data, 3);
    }
    mf_push_pull_round_deinit(&all);
    mf_push_pull_round_deinit(&mine);
    mf_ps_host_aggregate_close(&host_aggregate);
    return true;
}

MF_TEST(servers_host_aggregate_refuses_mismatched_sums)
{
    const char *gap = "the sums of worker 0 to worker 1 do not fit together";
    trick tricks[] = { { { 2, 4 }, NULL },
                       { { 3, 4 }, gap },
                       { { 1, 4 }, gap }, /* not a branch of the tree */
                       { { 2, 5 }, "worker 1 has summed up shards 2 to 5 of 4" },
                       { { -1, 4 }, "worker 1 has" },
                       { { 3, 3 }, "worker 1 has" } };

    for (int i = 0; i < MF_COUNT(tricks); i++)
        T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = gather, .arg = &tricks[i] }));
}
