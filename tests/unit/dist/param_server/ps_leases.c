/* SPDX-License-Identifier: Apache-2.0 */
/* ps_leases.c - each batch is granted to one worker, and the staleness of workers is bounded. */
#include "dist/param_server/ps_leases.h"

#include "mf_test.h"

#include <stdlib.h>

MF_TEST(job_leases_give_every_batch_to_one_worker)
{
    const mf_ps_lease all = { .start = 10, .total = 50 };
    bool given[50] = { 0 };
    int out = 0;
    mf_ps_leases *l;

    T_OK(mf_ps_leases_new(3, -1, &l));
    srand(1);
    for (uint32_t seq = 1; out < 3; seq++) {
        mf_ps_grant g;

        T_OK(mf_ps_leases_ask(l, rand() % 3, seq, &all));
        while (mf_ps_leases_next(l, &g)) {
            if (g.batch < 0) {
                out++;
                continue;
            }
            T_TRUE(g.batch >= 10 && g.batch < 50 && !given[g.batch]);
            given[g.batch] = true;
        }
    }
    for (int i = 10; i < 50; i++)
        T_TRUE(given[i]);
    mf_ps_leases_free(l);
}

MF_TEST(job_leases_delay_a_worker_that_is_too_far_ahead)
{
    const mf_ps_lease all = { .total = 1000 };
    mf_ps_leases *l;
    mf_ps_grant g;
    uint32_t seq = 0;
    int n = 0;

    T_OK(mf_ps_leases_new(2, 3, &l));
    T_OK(mf_ps_leases_ask(l, 1, ++seq, &all)); /* worker 1 begins its first step, and is slow */
    T_TRUE(mf_ps_leases_next(l, &g));
    for (;; n++) { /* worker 0 continues up to the limit */
        T_OK(mf_ps_leases_ask(l, 0, ++seq, &all));
        if (!mf_ps_leases_next(l, &g))
            break;
        T_EQ(g.worker, 0);
    }
    T_EQ(n, 4); /* steps 0 to 3 */
    T_OK(mf_ps_leases_ask(l, 1, ++seq, &all)); /* worker 1 has finished one */
    T_TRUE(mf_ps_leases_next(l, &g));
    T_TRUE(mf_ps_leases_next(l, &g));
    T_TRUE(!mf_ps_leases_next(l, &g));
    T_EQ(mf_ps_leases_staleness(l), 3);
    mf_ps_leases_free(l);
}

MF_TEST(job_leases_grant_local_batches_first_and_all_eventually)
{
    /* Streams 0 and 1 are near to worker 0, 2 and 3 to worker 1; worker 2 has nothing near. */
    const mf_ps_lease of[] = { { .total = 200, .n_near = 4, .near = { 200, 255, 0, 0 } },
                               { .total = 200, .n_near = 4, .near = { 0, 0, 9, 9 } },
                               { .total = 200, .n_near = 0 } };
    bool given[200] = { 0 };
    int near = 0, out = 0;
    int64_t oldest = 0;
    mf_ps_leases *l;

    T_OK(mf_ps_leases_new(3, -1, &l));
    for (uint32_t seq = 1; out < 2; seq++) { /* two workers, one as fast as the other */
        const int worker = (int)(seq % 2);
        mf_ps_grant g;

        T_OK(mf_ps_leases_ask(l, worker, seq, &of[worker]));
        T_TRUE(mf_ps_leases_next(l, &g));
        T_EQ(g.worker, worker);
        if (g.batch < 0) {
            out++;
            continue;
        }
        T_TRUE(g.batch < 200 && !given[g.batch] && g.batch < oldest + 32);
        given[g.batch] = true;
        near += of[worker].near[g.batch % 4] > 0;
        while (oldest < 200 && given[oldest])
            oldest++;
    }
    T_EQ(oldest, 200);
    T_EQ(near, 200);
    mf_ps_leases_free(l);
}

MF_TEST(job_leases_of_local_batches_do_not_starve_remote_ones)
{
    const mf_ps_lease greedy = { .total = 100, .n_near = 2, .near = { 0, 255 } };
    int64_t last_even = -2, since = 0;
    mf_ps_leases *l;
    mf_ps_grant g;

    T_OK(mf_ps_leases_new(1, -1, &l));
    for (uint32_t seq = 1;; seq++) {
        T_OK(mf_ps_leases_ask(l, 0, seq, &greedy));
        T_TRUE(mf_ps_leases_next(l, &g));
        if (g.batch < 0)
            break;
        since = g.batch % 2 ? since + 1 : 0;
        T_TRUE(since < 32); /* remote batches come last, in order */
        if (g.batch % 2 == 0) {
            T_EQ(g.batch, last_even + 2);
            last_even = g.batch;
        }
    }
    T_EQ(last_even, 98);
    mf_ps_leases_free(l);
}

/* Training restarts: all earlier grants are dropped. */
MF_TEST(job_leases_grant_all_batches_after_a_reset)
{
    const mf_ps_lease from_behind = { .total = 8, .n_near = 8, .near = { [5] = 1 } };
    mf_ps_leases *l;
    mf_ps_grant g;

    T_OK(mf_ps_leases_new(1, -1, &l));
    T_OK(mf_ps_leases_ask(l, 0, 1, &from_behind));
    T_TRUE(mf_ps_leases_next(l, &g));
    T_EQ(g.batch, 5);
    mf_ps_leases_reset(l);
    for (uint32_t i = 0; i < 8; i++) {
        T_OK(mf_ps_leases_ask(l, 0, i + 2, &(mf_ps_lease){ .total = 8 }));
        T_TRUE(mf_ps_leases_next(l, &g));
        T_EQ(g.batch, (int64_t)i);
    }
    mf_ps_leases_free(l);
}

/* Batches are leased for any locality report of a worker, even an invalid one. */
MF_TEST(job_leases_check_requests_of_workers)
{
    const int64_t numbers[] = { -1, 65, INT64_MAX, INT64_MIN };
    mf_ps_leases *l;
    mf_ps_grant g;

    T_OK(mf_ps_leases_new(1, -1, &l));
    for (uint32_t i = 0; i < 4; i++) {
        T_OK(mf_ps_leases_ask(l, 0, i + 1, &(mf_ps_lease){ .total = 4, .n_near = numbers[i] }));
        T_TRUE(mf_ps_leases_next(l, &g));
        T_EQ(g.batch, (int64_t)i);
    }
    mf_ps_leases_free(l);
}

/* A lost worker did not confirm its batch: another worker repeats it. Confirmed batches are not
 * repeated. */
MF_TEST(job_leases_of_lost_workers_are_granted_again_once)
{
    const mf_ps_lease all = { .total = 12 }, holds_two = { .total = 12, .held = 2 };
    int given[12] = { 0 };
    mf_ps_leases *l;
    mf_ps_grant g;

    T_OK(mf_ps_leases_new(3, -1, &l));
    for (uint32_t i = 0; i < 6; i++) { /* batches 0 to 5; 0, 1 and 2 are done */
        T_OK(mf_ps_leases_ask(l, (int)(i % 3), i + 1, &all));
        T_TRUE(mf_ps_leases_next(l, &g));
        T_EQ(g.batch, (int64_t)i);
    }
    T_OK(mf_ps_leases_revoke_all(l,
                                 2)); /* worker 2 is lost; the others do not know what was taken */
    for (uint32_t i = 0; i < 9; i++) {
        T_OK(mf_ps_leases_ask(l, 0, i + 1, &all));
        T_TRUE(mf_ps_leases_next(l, &g));
        T_TRUE(g.batch >= 3 && g.batch < 12);
        given[g.batch]++;
    }
    for (int b = 3; b < 12; b++)
        T_EQ(given[b], 1);
    T_OK(mf_ps_leases_ask(l, 1, 1, &all));
    T_TRUE(mf_ps_leases_next(l, &g));
    T_EQ(g.batch, -1);
    mf_ps_leases_reset(l);
    for (uint32_t i = 0; i < 4;
         i++) { /* a period: the last two were not pushed before its request */
        T_OK(mf_ps_leases_ask(l, 0, i + 1, &holds_two));
        T_TRUE(mf_ps_leases_next(l, &g));
    }
    T_OK(mf_ps_leases_revoke_all(l, 1));
    for (int64_t want = 1; want < 6; want++) { /* 0 was done, 1 to 3 come back */
        T_OK(mf_ps_leases_ask(l, 0, (uint32_t)want, &all));
        T_TRUE(mf_ps_leases_next(l, &g));
        T_EQ(g.batch, want);
    }
    mf_ps_leases_free(l);
}

MF_TEST(job_leases_of_blocks_leave_other_workers_idle_until_one_is_lost)
{
    const mf_ps_lease all = { .start = 4, .total = 16 };
    mf_ps_leases *l;
    mf_ps_grant g;
    uint32_t seq = 0;
    int n = 0;

    T_OK(mf_ps_leases_new(5, 1, &l)); /* idle workers do not delay others */
    T_OK(mf_ps_leases_cut(l, 3));
    for (int w = 3; w < 5; w++) {
        T_OK(mf_ps_leases_ask(l, w, ++seq, &all));
        T_TRUE(mf_ps_leases_next(l, &g));
        T_TRUE(g.worker == w && g.batch == MF_PS_NO_BLOCK);
    }
    for (int round = 0; round < 2; round++) { /* batches 4 to 9 */
        for (int w = 0; w < 3; w++) {
            T_OK(mf_ps_leases_ask(l, w, ++seq, &all));
            T_TRUE(mf_ps_leases_next(l, &g));
            T_EQ(g.worker, w);
            T_EQ(g.batch % 3, w);
            T_TRUE(!mf_ps_leases_next(l, &g));
        }
    }
    T_OK(mf_ps_leases_revoke_all(
        l, 4)); /* a worker is lost: worker 3 of five is now the third of four */
    for (int w = 0; w < 4; w++)
        T_OK(mf_ps_leases_ask(l, w, ++seq, &all));
    for (int64_t seen = 0; mf_ps_leases_next(l, &g); n += g.batch != MF_PS_NO_BLOCK) {
        if (g.batch == MF_PS_NO_BLOCK)
            T_EQ(g.worker, 3);
        if (g.batch == MF_PS_NO_BLOCK && seen == 0xff80)
            T_FAIL("no batch is left, and worker 3 is to wait for one");
        if (g.batch == MF_PS_NO_BLOCK)
            T_OK(mf_ps_leases_ask(l, 3, ++seq, &all));
        if (g.batch < 0)
            continue;
        T_TRUE(g.worker < 3 && g.batch % 3 == g.worker && g.batch >= 7 && !(seen >> g.batch & 1));
        seen |= INT64_C(1) << g.batch;
        T_OK(mf_ps_leases_ask(l, g.worker, ++seq, &all));
    }
    T_EQ(n, 9 + 4); /* batches 7 to 15, and four answers that none is left */
    mf_ps_leases_free(l);
}

MF_TEST(job_leases_of_more_blocks_than_workers_are_all_done)
{
    const mf_ps_lease all = { .start = 4, .total = 40 };
    bool seen[40] = { 0 };
    int owners[7] = { -1, -1, -1, -1, -1, -1, -1 }, n = 0, out = 0;
    mf_ps_leases *l;
    mf_ps_grant g;
    uint32_t seq = 0;

    T_OK(mf_ps_leases_new(3, 2, &l));
    T_OK(mf_ps_leases_cut(l, 7));
    for (int w = 0; w < 3; w++)
        T_OK(mf_ps_leases_ask(l, w, ++seq, &all));
    while (mf_ps_leases_next(l, &g)) {
        out += g.batch == MF_PS_NONE_LEFT;
        if (g.batch < 0)
            continue;
        T_TRUE(g.batch >= 4 && g.batch < 40 && !seen[g.batch]);
        seen[g.batch] = true;
        T_TRUE(owners[g.batch % 7] == -1 || owners[g.batch % 7] == g.worker); /* its block */
        owners[g.batch % 7] = g.worker;
        T_OK(mf_ps_leases_ask(l, g.worker, ++seq, &all));
        n++;
    }
    T_EQ(n, 36);
    T_EQ(out, 3);
    mf_ps_leases_free(l);
}

/* The worker that receives a grant; -9: none does. */
static int64_t grant_of(mf_ps_leases *l, int *worker)
{
    mf_ps_grant g;

    if (!mf_ps_leases_next(l, &g))
        return -9;
    *worker = g.worker;
    return g.batch;
}

MF_TEST(job_leases_stop_at_a_checkpoint_until_the_first_worker_has_saved)
{
    const mf_ps_lease four = { .total = 6, .save_every = 4 };
    mf_ps_leases *l;
    uint32_t seq = 0;
    int who = -1;

    T_OK(mf_ps_leases_new(2, -1, &l));
    for (int i = 0; i < 4; i++) {
        T_OK(mf_ps_leases_ask(l, i % 2, ++seq, &four));
        T_EQ(grant_of(l, &who), i);
    }
    T_OK(mf_ps_leases_ask(l, 0, ++seq, &four));
    T_EQ(grant_of(l, &who), -9); /* worker 1 has batch 3 */
    T_OK(mf_ps_leases_ask(l, 1, ++seq, &four));
    T_EQ(grant_of(l, &who), MF_PS_SAVE_FIRST);
    T_EQ(who, 0);
    T_EQ(grant_of(l, &who), -9);
    T_OK(mf_ps_leases_ask(l, 0, ++seq, &four)); /* it has saved */
    T_EQ(grant_of(l, &who), 4);
    T_EQ(grant_of(l, &who), 5);
    mf_ps_leases_free(l);
}

MF_TEST(job_leases_do_not_wait_for_a_first_worker_that_leaves_instead_of_saving)
{
    const mf_ps_lease one = { .total = 3, .save_every = 1 };
    mf_ps_leases *l;
    int who = -1;

    T_OK(mf_ps_leases_new(2, -1, &l));
    T_OK(mf_ps_leases_ask(l, 0, 1, &one));
    T_EQ(grant_of(l, &who), 0);
    T_OK(mf_ps_leases_ask(l, 0, 2, &one));
    T_EQ(grant_of(l, &who), MF_PS_SAVE_FIRST);
    T_OK(mf_ps_leases_ask(l, 1, 3, &one));
    T_EQ(grant_of(l, &who), -9);
    mf_ps_leases_leave(l, 0);
    T_EQ(grant_of(l, &who), 1);
    T_EQ(who, 1);
    mf_ps_leases_free(l);
}

MF_TEST(job_leases_grant_unapplied_batches_after_copying)
{
    const mf_ps_lease all = { .total = 5 };
    mf_ps_leases *l, *copy;
    mf_buf bytes = { 0 };
    mf_ps_reader in;
    int who = -1;

    T_OK(mf_ps_leases_new(2, -1, &l));
    for (int i = 0; i < 3; i++) { /* worker 0 has done batch 0 and has 2, worker 1 has 1 */
        T_OK(mf_ps_leases_ask(l, i % 2, (uint32_t)i + 1, &all));
        T_EQ(grant_of(l, &who), i);
    }
    mf_ps_leases_write(l, &bytes);
    T_OK(mf_buf_finish(&bytes));
    T_OK(mf_ps_leases_new(1, -1, &copy));
    in = (mf_ps_reader){ bytes.data, bytes.len, false };
    T_OK(mf_ps_leases_read(copy, &in));
    T_EQ(in.left, 0);
    T_OK(mf_ps_leases_revoke_all(copy, 1));
    for (int i = 1; i < 5; i++) {
        T_OK(mf_ps_leases_ask(copy, 0, (uint32_t)i, &all));
        T_EQ(grant_of(copy, &who), i);
    }
    for (size_t size = 0; size < bytes.len; size++) {
        in = (mf_ps_reader){ bytes.data, size, false };
        T_FAILS(MF_DATA_LOSS, "is invalid", mf_ps_leases_read(copy, &in));
    }
    mf_buf_deinit(&bytes);
    mf_ps_leases_free(l);
    mf_ps_leases_free(copy);
}
