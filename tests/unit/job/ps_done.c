/* SPDX-License-Identifier: Apache-2.0 */
#include "job/ps_done.h"

#include "mf_test.h"

MF_TEST(servers_know_which_batches_are_done)
{
    enum { START = 7, N = 1000, STRIDE = 37 }; /* a stride that has nothing in common with N */
    mf_ps_done d = { 0 };

    mf_ps_done_reset(&d, START);
    T_TRUE(!mf_ps_done_has(&d, START) && !mf_ps_done_has(&d, 0));
    for (int64_t i = 0; i < N; i++) {
        const int64_t batch = START + i * STRIDE % N;

        T_TRUE(!mf_ps_done_has(&d, batch));
        T_OK(mf_ps_done_add(&d, batch));
        T_OK(mf_ps_done_add(&d, batch)); /* again: it counts once */
        T_TRUE(mf_ps_done_has(&d, batch));
        T_EQ(d.n, i + 1);
    }
    T_TRUE(!mf_ps_done_has(&d, START - 1) && !mf_ps_done_has(&d, START + N));
    T_TRUE(d.words <= 1); /* what is all done takes no memory */
    T_FAILS(MF_INVALID_ARGUMENT, "there is no batch 6", mf_ps_done_add(&d, START - 1));
    T_FAILS(MF_INVALID_ARGUMENT, "there is no batch", mf_ps_done_add(&d, INT64_MAX));
    mf_ps_done_reset(&d, 0);
    T_TRUE(d.n == 0 && !mf_ps_done_has(&d, START));
    mf_ps_done_deinit(&d);
}
