/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - common functions of all groups. */
#include "collective/group.h"

#include "base/clock.h"
#include "base/mem.h"

mf_status mf_group_sizes(mf_group *g, const mf_collective *c, int64_t mine, int64_t *sizes)
{
    int64_t *each = mf_calloc(g->size, sizeof *each);
    mf_status st;

    if (!each)
        return MF_NOMEM("sizes");
    for (int r = 0; r < g->size; r++)
        each[r] = sizeof mine;
    st = mf_all_gather(g, &(mf_gather){ *c, &mine, each, sizes });
    mf_free(each);
    return st;
}

mf_status mf_group_in_time(const mf_group *g, const mf_group_wait *w)
{
    const int64_t now = mf_clock_ns();

    if (w->call->deadline_ns <= 0 || now <= w->call->deadline_ns)
        return MF_OK;
    return MF_FAIL(MF_DEADLINE_EXCEEDED, "%s did not reach %s of step %lld; %s waited %.1f s",
                   g->names[w->rank], w->call->what, (long long)w->call->step, g->names[g->rank],
                   (double)(now - w->since) * 1e-9);
}
