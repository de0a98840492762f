/* SPDX-License-Identifier: Apache-2.0 */
/* Averages over members that are threads. */
#include "parallel/average.h"

#include "base/mem.h"
#include "mf_test.h"

#include <pthread.h>
#include <string.h>

enum { MEMBERS = 3, VARIABLES = 4 };

static const char *const names[] = { "worker 0", "worker 1", "worker 2" };
static const int64_t lengths[VARIABLES] = { 5, 200000, 1, 140000 };

typedef struct member {
    mf_group *group;
    mf_variable *v[VARIABLES];
    const int64_t *weights;
    mf_status st;
} member;

static mf_variable *new_variable(mf_dtype dtype, int64_t n)
{
    const mf_shape shape = MF_SHAPE(n);
    mf_variable_spec spec = { dtype, &shape, "v" };
    mf_tensor value = { 0 };
    mf_object *object;

    T_OK(mf_variable_make(&spec, &object));
    T_OK(mf_tensor_alloc(&value, dtype, &shape));
    memset(value.data, 0, mf_tensor_bytes(&value));
    T_OK(mf_variable_assign((mf_variable *)object, &value, true));
    mf_tensor_clear(&value);
    return (mf_variable *)object;
}

static void *average(void *arg)
{
    member *m = arg;
    const mf_collective c = { .step = 1, .what = "the averages" };

    m->st = mf_average(m->group, &c, m->weights, m->v, VARIABLES);
    return NULL;
}

static void average_all(member *members)
{
    mf_segment *segment;
    pthread_t threads[MEMBERS];

    T_OK(mf_segment_new(MEMBERS, 1 << 16, &segment));
    for (int r = 0; r < MEMBERS; r++) {
        const mf_group like = { .rank = r, .size = MEMBERS, .names = names };

        T_OK(mf_group_shared(segment, &like, &members[r].group));
        T_EQ(pthread_create(&threads[r], NULL, average, &members[r]), 0);
    }
    for (int r = 0; r < MEMBERS; r++) {
        pthread_join(threads[r], NULL);
        T_OK(members[r].st);
        mf_group_free(members[r].group);
    }
    mf_segment_free(segment);
}

static float *floats(const member *m, int i)
{
    return m->v[i]->value.data;
}

static void make(member *members, const int64_t *weights)
{
    for (int r = 0; r < MEMBERS; r++) {
        members[r].weights = weights;
        for (int i = 0; i < VARIABLES; i++)
            members[r].v[i] = new_variable(i == 2 ? MF_DTYPE_I64 : MF_DTYPE_F32, lengths[i]);
    }
}

static void unmake(member *members)
{
    for (int r = 0; r < MEMBERS; r++) {
        for (int i = 0; i < VARIABLES; i++)
            mf_object_unref(&members[r].v[i]->object);
    }
}

MF_TEST(average_is_weighted_and_the_same_for_all)
{
    const int64_t weights[] = { 10, 0, 30 };
    member m[MEMBERS] = { 0 };

    make(m, weights);
    for (int r = 0; r < MEMBERS; r++) {
        for (int64_t i = 0; i < lengths[1]; i++)
            floats(&m[r], 1)[i] = (float)(i % 1000) + (float)r;
        ((int64_t *)m[r].v[2]->value.data)[0] = r;
    }
    average_all(m);
    for (int r = 0; r < MEMBERS; r++) {
        for (int64_t i = 0; i < lengths[1]; i++)
            T_NEAR(floats(&m[r], 1)[i], (double)(i % 1000) + 1.5, 0.0); /* (0*10 + 2*30) / 40 */
        T_EQ(((int64_t *)m[r].v[2]->value.data)[0], r); /* no float */
    }
    unmake(m);
}

/* Whatever the weights are: no rounding may creep in. */
MF_TEST(average_of_equal_values_is_that_value)
{
    const int64_t weights[] = { 7, 11, 2999 };
    member m[MEMBERS] = { 0 };

    make(m, weights);
    for (int r = 0; r < MEMBERS; r++) {
        for (int64_t i = 0; i < lengths[3]; i++)
            floats(&m[r], 3)[i] = 1.0f / (float)(i + 3);
    }
    average_all(m);
    for (int r = 0; r < MEMBERS; r++) {
        for (int64_t i = 0; i < lengths[3]; i++)
            T_TRUE(floats(&m[r], 3)[i] == 1.0f / (float)(i + 3));
    }
    unmake(m);
}

MF_TEST(average_without_samples_changes_nothing)
{
    const int64_t weights[] = { 0, 0, 0 };
    member m[MEMBERS] = { 0 };

    make(m, weights);
    floats(&m[1], 0)[3] = 5.0f;
    average_all(m);
    T_NEAR(floats(&m[1], 0)[3], 5.0, 0.0);
    T_NEAR(floats(&m[0], 0)[3], 0.0, 0.0);
    unmake(m);
}
