/* SPDX-License-Identifier: Apache-2.0 */
/* ps_dedup.c - the record of applied batches, which prevents a second application. */
#include "dist/param_server/ps_dedup.h"

#include "dist/param_server/strategy_param_server.h"
#include "mf_test.h"

MF_TEST(servers_record_applied_batches)
{
    enum { START = 7, N = 1000, STRIDE = 37 }; /* a stride coprime to N */
    mf_ps_dedup d = { 0 };

    mf_ps_dedup_reset(&d, START);
    T_TRUE(!mf_ps_dedup_has(&d, START) && !mf_ps_dedup_has(&d, 0));
    for (int64_t i = 0; i < N; i++) {
        const int64_t batch = START + i * STRIDE % N;

        T_TRUE(!mf_ps_dedup_has(&d, batch));
        T_OK(mf_ps_dedup_add(&d, batch));
        T_OK(mf_ps_dedup_add(&d, batch)); /* again: it counts once */
        T_TRUE(mf_ps_dedup_has(&d, batch));
        T_EQ(d.n, i + 1);
    }
    T_TRUE(!mf_ps_dedup_has(&d, START - 1) && !mf_ps_dedup_has(&d, START + N));
    T_TRUE(d.words <= 1); /* a complete range takes no memory */
    T_FAILS(MF_INVALID_ARGUMENT, "there is no batch 6", mf_ps_dedup_add(&d, START - 1));
    T_FAILS(MF_INVALID_ARGUMENT, "there is no batch", mf_ps_dedup_add(&d, INT64_MAX));
    mf_ps_dedup_reset(&d, 0);
    T_TRUE(d.n == 0 && !mf_ps_dedup_has(&d, START));
    mf_ps_dedup_deinit(&d);
}

MF_TEST(job_applied_batches_survive_copying)
{
    mf_ps_dedup d = { 0 }, copy = { 0 };
    mf_buf bytes = { 0 };
    mf_ps_reader in;

    mf_ps_dedup_reset(&d, 7);
    for (int64_t batch = 7; batch < 300; batch += batch < 200 ? 1 : 3)
        T_OK(mf_ps_dedup_add(&d, batch));
    mf_ps_dedup_write(&d, &bytes);
    T_OK(mf_buf_finish(&bytes));
    for (size_t size = 0; size < bytes.len; size++) {
        in = (mf_ps_reader){ bytes.data, size, false };
        T_FAILS(MF_DATA_LOSS, "cut short", mf_ps_dedup_read(&copy, &in));
    }
    in = (mf_ps_reader){ bytes.data, bytes.len, false };
    T_OK(mf_ps_dedup_read(&copy, &in));
    T_EQ(copy.n, d.n);
    for (int64_t batch = 0; batch < 400; batch++)
        T_EQ(mf_ps_dedup_has(&copy, batch), mf_ps_dedup_has(&d, batch));
    mf_buf_deinit(&bytes);
    mf_ps_dedup_deinit(&d);
    mf_ps_dedup_deinit(&copy);
}
