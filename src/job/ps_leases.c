/* SPDX-License-Identifier: Apache-2.0 */
/* ps_leases.c - see ps_leases.h. A worker's clock counts the steps that it has done; a worker that
 * is out of batches does not hold others back. */
#include "job/ps_leases.h"

#include "base/mem.h"

#include <string.h>

enum { WINDOW = 32 }; /* batches to choose from */

typedef struct lessee {
    int64_t clock; /* steps done */
    bool asks; /* waits for a batch */
    uint32_t seq;
    bool out; /* has been told that none is left */
    int64_t n_near; /* as it has said last; see mf_team */
    uint8_t near[MF_TEAM_STREAMS];
} lessee;

struct mf_ps_leases {
    lessee *workers;
    int n;
    int64_t bound, total, seen;
    int64_t next; /* the first batch that nobody has */
    uint32_t taken; /* bit i: somebody has batch next + i */
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
    l->taken = 0;
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
    if (lease->start > l->next) {
        l->next = lease->start;
        l->taken = 0;
    }
    w->n_near = lease->n_near > 0 && lease->n_near <= MF_TEAM_STREAMS ? lease->n_near : 0;
    memcpy(w->near, lease->near, sizeof w->near);
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

/* The nearest of the next few that nobody has; there is one. */
static int64_t take_batch(mf_ps_leases *l, const lessee *w)
{
    int64_t batch = l->next;

    for (int i = 1; i < WINDOW && i < l->total - l->next && w->n_near > 0; i++) {
        if (!(l->taken >> i & 1) && w->near[(l->next + i) % w->n_near] > w->near[batch % w->n_near])
            batch = l->next + i;
    }
    l->taken |= UINT32_C(1) << (batch - l->next);
    for (; l->taken & 1; l->taken >>= 1)
        l->next++;
    return batch;
}

bool mf_ps_leases_next(mf_ps_leases *l, mf_ps_grant *out)
{
    const int64_t least = slowest(l) < 0 ? 0 : slowest(l);

    for (int i = 0; i < l->n; i++) {
        lessee *w = &l->workers[i];
        const int64_t ahead = w->clock - least;

        if (!w->asks || (l->next < l->total && l->bound >= 0 && ahead > l->bound))
            continue;
        *out = (mf_ps_grant){ i, w->seq, l->next < l->total ? take_batch(l, w) : -1 };
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
