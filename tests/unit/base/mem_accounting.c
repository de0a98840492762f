/* SPDX-License-Identifier: Apache-2.0 */
/* mem_accounting.c - memory is charged to the account that is active when it is allocated. */
#include "base/mem_accounting.h"

#include "base/pool.h"
#include "mf_test.h"
#include "tensor/tensor.h"

enum { KIB = 1024 };

static mf_tensor taken(int64_t bytes)
{
    mf_tensor t = { 0 };

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_U8, &MF_SHAPE(bytes)));
    return t;
}

/* The largest memory of a run with one op. */
static int64_t end_of_run(mf_mem_account *a, int64_t ops)
{
    mf_mem_account_end(a, &(mf_mem_account_run){ .ops = ops, .planned = 7 });
    return mf_mem_account_largest(a).bytes;
}

MF_TEST(account_counts_the_peak_of_concurrent_use)
{
    mf_mem_account *a;
    mf_tensor before, x, y;

    T_OK(mf_mem_account_new(&a));
    (void)mf_mem_account_enter(a);
    before = taken(64 * KIB);
    mf_mem_account_begin(a);
    x = taken(16 * KIB);
    y = taken(8 * KIB);
    mf_tensor_clear(&x);
    x = taken(4 * KIB);
    (void)mf_mem_account_enter(NULL);
    mf_tensor_clear(&y);
    y = taken(512 * KIB); /* not charged to an account */
    T_EQ(end_of_run(a, 1), 24 * KIB);
    T_EQ(mf_mem_account_largest(a).planned, 7);
    mf_mem_account_unref(a);
    mf_tensor_clear(&x); /* the tensor outlives the account */
    mf_tensor_clear(&y);
    mf_tensor_clear(&before);
}

MF_TEST(account_remembers_the_run_with_the_most_ops)
{
    mf_mem_account *a;
    mf_tensor x;

    T_OK(mf_mem_account_new(&a));
    for (int i = 0; i < 4; i++) {
        static const int64_t ops[] = { 5, 9, 9, 3 }, kib[] = { 64, 16, 32, 128 };
        static const int64_t most[] = { 64, 16, 32, 32 };

        mf_mem_account_begin(a);
        (void)mf_mem_account_enter(a);
        x = taken(kib[i] * KIB);
        mf_tensor_clear(&x);
        (void)mf_mem_account_enter(NULL);
        T_EQ(end_of_run(a, ops[i]), most[i] * KIB);
    }
    mf_mem_account_unref(a);
}

MF_TEST(account_remembers_a_full_batch_rather_than_a_small_last_one)
{
    mf_mem_account *a;

    T_OK(mf_mem_account_new(&a));
    for (int i = 0; i < 4; i++) {
        static const mf_mem_account_run runs[] = { { .ops = 4, .planned = 900 },
                                                   { .ops = 100, .planned = 800 },
                                                   { .ops = 104, .planned = 200 },
                                                   { .ops = 30, .planned = 5000 } };
        static const int64_t ops[] = { 4, 100, 100, 100 };

        mf_mem_account_begin(a);
        mf_mem_account_end(a, &runs[i]);
        T_EQ(mf_mem_account_largest(a).ops, ops[i]);
    }
    mf_mem_account_unref(a);
}

static void take_piece(void *ctx, int64_t piece)
{
    ((mf_tensor *)ctx)[piece] = taken(16 * KIB);
}

MF_TEST(account_counts_memory_of_helper_threads)
{
    enum { PIECES = 64 };
    mf_tensor x[PIECES] = { 0 };
    mf_mem_account *a;
    mf_pool *pool;

    T_OK(mf_mem_account_new(&a));
    T_OK(mf_pool_new(4, &pool));
    mf_mem_account_begin(a);
    (void)mf_mem_account_enter(a);
    mf_pool_complete(pool, PIECES, take_piece, x);
    (void)mf_mem_account_enter(NULL);
    T_EQ(end_of_run(a, 1), (int64_t)PIECES * 16 * KIB);
    for (int i = 0; i < PIECES; i++)
        mf_tensor_clear(&x[i]);
    mf_pool_free(pool);
    mf_mem_account_unref(a);
}
