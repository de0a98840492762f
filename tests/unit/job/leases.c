/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c - each batch goes to one worker, and nobody gets too far ahead. */
#include "job/ps_leases.h"
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

        mf_ps_leases_ask(l, rand() % 3, seq, &all);
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

MF_TEST(job_leases_hold_back_who_is_too_far_ahead)
{
    const mf_ps_lease all = { .total = 1000 };
    mf_ps_leases *l;
    mf_ps_grant g;
    uint32_t seq = 0;
    int n = 0;

    T_OK(mf_ps_leases_new(2, 3, &l));
    mf_ps_leases_ask(l, 1, ++seq, &all); /* worker 1 begins its first step, and is slow */
    T_TRUE(mf_ps_leases_next(l, &g));
    for (;; n++) { /* worker 0 goes on as far as it may */
        mf_ps_leases_ask(l, 0, ++seq, &all);
        if (!mf_ps_leases_next(l, &g))
            break;
        T_EQ(g.worker, 0);
    }
    T_EQ(n, 4); /* steps 0 to 3 */
    mf_ps_leases_ask(l, 1, ++seq, &all); /* worker 1 has done one */
    T_TRUE(mf_ps_leases_next(l, &g));
    T_TRUE(mf_ps_leases_next(l, &g));
    T_TRUE(!mf_ps_leases_next(l, &g));
    T_EQ(mf_ps_leases_staleness(l), 3);
    mf_ps_leases_free(l);
}
