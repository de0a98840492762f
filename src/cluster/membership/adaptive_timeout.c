/* SPDX-License-Identifier: Apache-2.0 */
/* adaptive_timeout.c - adapts the length of a task's lease to measured delays of renewals. */
#include "cluster/membership/adaptive_timeout.h"

enum { GAPS = 2, MOST = 10 };

static const int64_t HALF_NS = 30000000000;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t adaptive_timeout_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void mf_adaptive_timeout_init(mf_adaptive_timeout *p, int64_t usual_ns, int64_t now_ns)
{
    *p = (mf_adaptive_timeout){ .usual_ns = usual_ns, .half_at = now_ns };
}

static void pass_time(mf_adaptive_timeout *p, int64_t now_ns)
{
    if (now_ns - p->half_at < HALF_NS)
        return;
    p->gap_ns[1] = now_ns - p->half_at < 2 * HALF_NS ? p->gap_ns[0] : 0;
    p->gap_ns[0] = 0;
    p->half_at = now_ns;
}

static void note_gap(mf_adaptive_timeout *p, int64_t gap_ns, int64_t now_ns)
{
    pass_time(p, now_ns);
    p->gap_ns[0] = larger(p->gap_ns[0], gap_ns);
}

void mf_adaptive_timeout_kept(mf_adaptive_timeout *p, int64_t began_ns, int64_t now_ns)
{
    if (p->kept_at > 0)
        note_gap(p, now_ns - p->kept_at, now_ns);
    p->kept_at = began_ns;
}

void mf_adaptive_timeout_ended(mf_adaptive_timeout *p, int64_t length_ns, int64_t now_ns)
{
    note_gap(p, length_ns, now_ns);
    p->kept_at = 0;
}

int64_t mf_adaptive_timeout_gap(const mf_adaptive_timeout *p)
{
    return larger(p->gap_ns[0], p->gap_ns[1]);
}

int64_t mf_adaptive_timeout_length(mf_adaptive_timeout *p, int64_t now_ns)
{
    pass_time(p, now_ns);
    return adaptive_timeout_smaller(larger(p->usual_ns, GAPS * mf_adaptive_timeout_gap(p)),
                                    MOST * p->usual_ns);
}

bool mf_adaptive_timeout_is_unfit(mf_adaptive_timeout *p, int64_t length_ns, int64_t now_ns)
{
    const int64_t wanted = mf_adaptive_timeout_length(p, now_ns);

    return wanted > length_ns || 2 * wanted < length_ns;
}

int64_t mf_adaptive_timeout_grace(int64_t usual_ns, int64_t quiet_ns)
{
    return quiet_ns > usual_ns / 2 ? adaptive_timeout_smaller(quiet_ns, usual_ns) : 0;
}
