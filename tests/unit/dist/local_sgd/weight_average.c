/* SPDX-License-Identifier: Apache-2.0 */
/* weight_average.c - averages of weights over members of a group. Members are threads. */
#include "dist/local_sgd/weight_average.h"

#include "base/mem.h"
#include "mf_test.h"

#include <pthread.h>
#include <string.h>

enum { MEMBERS = 3, LEAVES = 5, TENSORS = 3 };

static const char *const names[] = { "worker 0", "worker 1", "worker 2" };
static const int64_t lengths[TENSORS] = { 5, 200000, 140000 };
static mf_tensor leaves[LEAVES][TENSORS];

typedef struct member {
    mf_group *group;
    const double *weights;
    const mf_share *of;
    mf_tensor means[TENSORS];
    mf_status st;
} member;

static float *floats(const mf_tensor *t)
{
    return t->data;
}

static void *average(void *arg)
{
    member *m = arg;
    const mf_collective c = { .step = 1, .what = "the averages" };
    const mf_share own = m->of[m->group->rank];
    const mf_tensor *values[LEAVES];

    for (int64_t k = 0; k < own.n; k++)
        values[k] = leaves[own.first + k];
    m->st = mf_average(m->group, &c,
                       &(mf_average_of){ .leaves = LEAVES,
                                         .weights = m->weights,
                                         .of = m->of,
                                         .values = values,
                                         .n = TENSORS,
                                         .means = m->means });
    return NULL;
}

static void make_tensors(mf_tensor *t)
{
    for (int i = 0; i < TENSORS; i++) {
        T_OK(mf_tensor_alloc(&t[i], MF_DTYPE_F32, &MF_SHAPE(lengths[i])));
        memset(t[i].data, 0, mf_tensor_bytes(&t[i]));
    }
}

static void make_leaves(void)
{
    for (int k = 0; k < LEAVES; k++)
        make_tensors(leaves[k]);
}

/* The number of members, and the owner of each leaf. */
static void average_all(member *members, int n, const mf_share *of, const double *weights)
{
    mf_segment *segment;
    pthread_t threads[MEMBERS];

    T_OK(mf_segment_new(n, 1 << 16, &segment));
    for (int r = 0; r < n; r++) {
        const mf_group like = { .rank = r, .size = n, .names = names };

        members[r] = (member){ .weights = weights, .of = of };
        make_tensors(members[r].means);
        T_OK(mf_group_shared(segment, &like, &members[r].group));
        T_EQ(pthread_create(&threads[r], NULL, average, &members[r]), 0);
    }
    for (int r = 0; r < n; r++) {
        pthread_join(threads[r], NULL);
        T_OK(members[r].st);
        mf_group_free(members[r].group);
    }
    mf_segment_free(segment);
}

static void unmake(member *members, int n)
{
    for (int i = 0; i < TENSORS; i++) {
        for (int r = 0; r < n; r++)
            mf_tensor_clear(&members[r].means[i]);
        for (int k = 0; k < LEAVES; k++)
            mf_tensor_clear(&leaves[k][i]);
    }
}

MF_TEST(average_is_weighted_and_the_same_for_all)
{
    const double weights[] = { 10, 0, 30, 0, 0 };
    const mf_share of[] = { { 0, 2 }, { 2, 3 }, { 5, 0 } };
    member m[MEMBERS];

    make_leaves();
    for (int k = 0; k < LEAVES; k++) {
        for (int64_t i = 0; i < lengths[1]; i++)
            floats(&leaves[k][1])[i] = (float)(i % 1000) + (float)k;
    }
    average_all(m, MEMBERS, of, weights);
    for (int r = 0; r < MEMBERS; r++) {
        for (int64_t i = 0; i < lengths[1]; i++)
            T_NEAR(floats(&m[r].means[1])[i], (double)(i % 1000) + 1.5, 0.0); /* (0*10+2*30)/40 */
    }
    unmake(m, MEMBERS);
}

/* Values whose sum rounds differently in another order of addition. */
MF_TEST(average_does_not_depend_on_the_owner_of_each_value)
{
    const double weights[] = { 7, 11, 13, 2999, 1 };
    const mf_share alone[] = { { 0, 5 } };
    const mf_share some[][MEMBERS] = { { { 0, 2 }, { 2, 2 }, { 4, 1 } },
                                       { { 0, 1 }, { 1, 4 }, { 5, 0 } },
                                       { { 0, 3 }, { 3, 0 }, { 3, 2 } } };
    member one, m[MEMBERS];

    make_leaves();
    for (int k = 0; k < LEAVES; k++) {
        for (int64_t i = 0; i < lengths[2]; i++)
            floats(&leaves[k][2])[i] = 1.0f / (float)(i * 7 + 3 + k * k) * (k % 2 ? -1e9f : 1.0f);
    }
    average_all(&one, 1, alone, weights);
    for (int w = 0; w < MF_COUNT(some); w++) {
        average_all(m, MEMBERS, some[w], weights);
        for (int r = 0; r < MEMBERS; r++) {
            T_EQ(memcmp(m[r].means[2].data, one.means[2].data, mf_tensor_bytes(&one.means[2])), 0);
            for (int i = 0; i < TENSORS; i++)
                mf_tensor_clear(&m[r].means[i]);
        }
    }
    unmake(&one, 1);
}

/* For any weights, the average of equal values is exact. */
MF_TEST(average_of_equal_values_is_that_value)
{
    const double weights[] = { 7, 11, 2999, 0, 64 };
    const mf_share of[] = { { 0, 1 }, { 1, 3 }, { 4, 1 } };
    member m[MEMBERS];

    make_leaves();
    for (int k = 0; k < LEAVES; k++) {
        for (int64_t i = 0; i < lengths[2]; i++)
            floats(&leaves[k][2])[i] = 1.0f / (float)(i + 3);
    }
    average_all(m, MEMBERS, of, weights);
    for (int r = 0; r < MEMBERS; r++) {
        for (int64_t i = 0; i < lengths[2]; i++)
            T_TRUE(floats(&m[r].means[2])[i] == 1.0f / (float)(i + 3));
    }
    unmake(m, MEMBERS);
}

MF_TEST(average_without_samples_changes_nothing)
{
    const double weights[LEAVES] = { 0 };
    const mf_share of[] = { { 0, 2 }, { 2, 2 }, { 4, 1 } };
    member m[MEMBERS];

    make_leaves();
    floats(&leaves[1][0])[3] = 5.0f;
    average_all(m, MEMBERS, of, weights);
    T_NEAR(floats(&m[1].means[0])[3], 0.0, 0.0);
    unmake(m, MEMBERS);
}
