/* SPDX-License-Identifier: Apache-2.0 */
/* shares.c - percentages of a task's time: compute, wait, input. */
#include "cli/shares.h"

/* Rounds the cumulative sum, so that the shares add up to 100 %. */
void mf_time_shares(const int64_t ns[MF_USES], int tenths[MF_USES])
{
    double total = 0, sum = 0;
    int before = 0;

    for (int i = 0; i < MF_USES; i++)
        total += (double)ns[i];
    for (int i = 0; i < MF_USES; i++) {
        int now;

        sum += (double)ns[i];
        now = total > 0 ? (int)(1000.0 * sum / total + 0.5) : 0;
        tenths[i] = now - before;
        before = now;
    }
}

void mf_time_shares_json(const int64_t ns[MF_USES], mf_buf *out)
{
    int tenths[MF_USES];

    mf_time_shares(ns, tenths);
    for (int i = 0; i < MF_USES; i++)
        mf_buf_printf(out, "%s\"%s\":%d.%d", i ? "," : "{", mf_use_names[i], tenths[i] / 10,
                      tenths[i] % 10);
    mf_buf_str(out, "}");
}

void mf_time_shares_text(const int64_t ns[MF_USES], mf_buf *out)
{
    int tenths[MF_USES];

    mf_time_shares(ns, tenths);
    for (int i = 0; i < MF_USES; i++)
        mf_buf_printf(out, "%s%d.%d %% %s", i ? ", " : "", tenths[i] / 10, tenths[i] % 10,
                      mf_use_names[i]);
}
