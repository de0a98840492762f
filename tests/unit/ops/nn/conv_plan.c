/* SPDX-License-Identifier: Apache-2.0 */
/* conv_plan.c - plans of convolutions and their limit of memory. */
#include "ops/dnnl/conv_plan.h"

#include "base/mem.h"
#include "mf_test.h"

#include <string.h>

enum { GUARD = 8192, MARK = 0x5a };

/* n zeros between guards. */
static unsigned char *guarded(size_t n)
{
    unsigned char *p = mf_calloc((int64_t)(n + 2 * GUARD), 1);

    T_TRUE(p != NULL);
    memset(p, MARK, n + 2 * GUARD);
    memset(p + GUARD, 0, n);
    return p;
}

static bool is_whole(const unsigned char *p, size_t n)
{
    bool whole = true;

    for (size_t i = 0; i < GUARD; i++)
        whole &= p[i] == MARK && p[GUARD + n + i] == MARK;
    return whole;
}

static mf_conv image_conv(int64_t size, int64_t stride, int64_t in, int64_t out, mf_conv_kind kind)
{
    mf_conv c;

    memset(&c, 0, sizeof c);
    c.window.nd = 2;
    c.window.batch = 3;
    c.window.channels = in;
    for (int d = 0; d < 2; d++) {
        c.window.in[d] = 16;
        c.window.out[d] = 16 / stride;
        c.window.size[d] = size;
        c.window.stride[d] = stride;
        c.window.dilation[d] = 1;
        c.window.pad_lo[d] = stride == 1 ? size / 2 : 0;
        c.window.pad_hi[d] = size / 2;
    }
    c.out_channels = out;
    c.groups = 1;
    c.kind = kind;
    return c;
}

static void check_bounds(const mf_conv *c)
{
    const size_t places[] = { 16 * 16, (size_t)(c->window.out[0] * c->window.out[1]) };
    size_t n[4] = { 12 * places[0] * (size_t)c->window.channels,
                    12 * places[1] * (size_t)c->out_channels };
    unsigned char *data[4];
    mf_conv_plans *plans;
    mf_conv_plan *plan;

    T_OK(mf_conv_plans_new(&plans));
    const mf_status st = mf_conv_plan_get(plans, c, &plan);
    if (st == MF_OK) {
        n[2] = mf_conv_plan_packed(plan);
        n[3] = mf_conv_plan_scratch(plan);
        for (int i = 0; i < 4; i++)
            data[i] = guarded(n[i]);
        T_OK(mf_conv_plan_run(plan, data[0] + GUARD, data[2] + GUARD, data[1] + GUARD,
                              data[3] + GUARD));
        for (int i = 0; i < 4; i++) {
            T_TRUE(is_whole(data[i], n[i]));
            mf_free(data[i]);
        }
    } else {
        T_EQ(st, MF_UNIMPLEMENTED);
    }
    mf_conv_plans_free(plans);
}

MF_TEST(conv_plans_stay_within_their_memory)
{
    for (int64_t in = 1; in <= 20; in++) {
        for (int i = 0; i < 12; i++) {
            const mf_conv c =
                image_conv(i % 2 ? 3 : 1, 1 + i / 2 % 2, in, 8, (mf_conv_kind)(i / 4));

            check_bounds(&c);
        }
    }
}
