/* SPDX-License-Identifier: Apache-2.0 */
/* ps_leases.c - see ps_leases.h. A worker's clock counts the steps that it has done; a worker that
 * is out of batches does not hold others back. */
#include "job/ps_leases.h"

#include "base/mem.h"

typedef struct lessee {
    int64_t clock; /* steps done */
    bool asks; /* waits for a batch */
    uint32_t seq;
    bool out; /* has been told that none is left */
} lessee;

struct mf_ps_leases {
    lessee *workers;
    int n;
    int64_t bound, next, total, seen;
};

mf_status mf_ps_leases_new(int workers, int64_t staleness, mf_ps_leases **out)
{
    mf_ps_leases *l = mf_calloc(1, sizeof *l);

    *out = l;
    if (l)
        l->workers = mf_calloc(workers, sizeof *l->workers);
    if (!l || !l->workers) {
        mf_free(l);
        *out = NULL;
        return MF_NOMEM("leases");
    }
    l->n = workers;
    l->bound = staleness;
    mf_ps_leases_reset(l);
    return MF_OK;
}

void mf_ps_leases_reset(mf_ps_leases *l)
{
    for (int i = 0; i < l->n; i++)
        l->workers[i] = (lessee){ .clock = -1 }; /* the first request comes before the first step */
    l->next = l->total = l->seen = 0;
}

void mf_ps_leases_free(mf_ps_leases *l)
{
    if (!l)
        return;
    mf_free(l->workers);
    mf_free(l);
}

void mf_ps_leases_ask(mf_ps_leases *l, int worker, uint32_t seq, const mf_ps_lease *lease)
{
    lessee *w = &l->workers[worker];

    if (w->asks && w->seq == seq)
        return; /* it asks twice */
    l->total = lease->total;
    l->next = lease->start > l->next ? lease->start : l->next;
    w->clock++;
    w->asks = true;
    w->seq = seq;
}

void mf_ps_leases_leave(mf_ps_leases *l, int worker)
{
    l->workers[worker].asks = false;
    l->workers[worker].out = true;
}

static int64_t slowest(const mf_ps_leases *l)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < l->n; i++) {
        if (!l->workers[i].out && l->workers[i].clock < least)
            least = l->workers[i].clock;
    }
    return least;
}

bool mf_ps_leases_next(mf_ps_leases *l, mf_ps_grant *out)
{
    const int64_t least = slowest(l) < 0 ? 0 : slowest(l);

    for (int i = 0; i < l->n; i++) {
        lessee *w = &l->workers[i];
        const int64_t ahead = w->clock - least;

        if (!w->asks || (l->next < l->total && l->bound >= 0 && ahead > l->bound))
            continue;
        *out = (mf_ps_grant){ i, w->seq, l->next < l->total ? l->next++ : -1 };
        w->asks = false;
        w->out = out->batch < 0;
        if (!w->out && ahead > l->seen)
            l->seen = ahead;
        return true;
    }
    return false;
}

int64_t mf_ps_leases_staleness(const mf_ps_leases *l)
{
    return l->seen;
}
