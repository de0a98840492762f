/* SPDX-License-Identifier: Apache-2.0 */
/* straggler.c - the cause of a slow worker, from its status page and the kernel. */
#include "train/loop/straggler.h"

#include "mf_test.h"

#include <string.h>

enum { SECOND = 1000000000 };

static void check(const mf_pace *now, const char *want)
{
    const mf_pace before = { .times.at_ns = 1 };
    mf_status_page_seen t = { .page.acts[3] = { MF_ACT_RUN, 0, "dense/MatMul" } };
    mf_buf out = { 0 };

    mf_straggler_cause(&t, &before, now, 2 * (int64_t)SECOND, &out);
    T_OK(mf_buf_finish(&out));
    T_STREQ(out.data, want);
    mf_buf_deinit(&out);
}

MF_TEST(straggler_has_one_of_five_causes)
{
    const int64_t s = SECOND;
    mf_pace p = { .own_ns[MF_USE_COMPUTE] = 4 * s,
                  .times = { .at_ns = 4 * s + 1, .ran_ns = 4 * s } };

    check(&p, "it computes slower (at op dense/MatMul just now)");
    p.times.ran_ns = 1 * s;
    check(&p, "75 % of its computing time it does not run (stopped by signals, or blocked "
              "in the kernel)");
    p.times.faults = 400;
    check(&p, "its memory is paged in from a disk (100 page faults a second)");
    p.times.ready_ns = 3 * s;
    check(&p,
          "it gets 25 % of the processor time that it needs (other processes run on its cores)");
    p.own_ns[MF_USE_INPUT] = 2 * s;
    check(&p, "it waits for input");
    p = (mf_pace){ .own_ns[MF_USE_COMPUTE] = 4 * s }; /* of another host */
    check(&p, "it computes slower (at op dense/MatMul just now)");
}
