/* SPDX-License-Identifier: Apache-2.0 */
/* ps_quorum.c - with a quorum the first server decides for all servers which pushes make an update
 * and which are discarded. If each server decided by itself, the parts of an update would come from
 * different workers; and when a worker ends, each server could wait for a worker that waits for
 * another server. */
#include "dist/param_server/ps_quorum.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

/* The message: this, then the workers, whose pushes are summed in this order. */
typedef struct decision_head {
    int64_t discards; /* 0: they make an update */
    int64_t n;
} decision_head;

typedef struct decision {
    decision_head head;
    int32_t workers[MF_REDUCTION_TREE_LEAVES];
} decision;

bool mf_ps_quorum_follows(const server *s)
{
    return s->o.mode.quorum > 0 && s->o.index > 0;
}

/* ---- the first server ---- */

static size_t size_of(int64_t n)
{
    return sizeof(decision_head) + (size_t)n * sizeof(int32_t);
}

mf_status mf_ps_quorum_decide(server *s, push *const *all, int n, bool discards)
{
    decision d = { .head = { discards, n } };
    mf_frame f = { .kind = MF_MESSAGE_REQUEST,
                   .epoch = mf_net_epoch(s->o.net),
                   .group = MF_PS_DECISION,
                   .size = size_of(n) };

    if (s->o.mode.quorum == 0 || mf_ps_quorum_follows(s))
        return MF_OK;
    for (int i = 0; i < n; i++)
        d.workers[i] = all[i]->of->from;
    f.seq = ++s->decided;
    for (int i = 1; i < s->o.n_servers; i++)
        MF_TRY(mf_net_send(s->o.net, s->o.n_workers + i, &f, &d, mf_clock_ns() + s->o.timeout_ns));
    return MF_OK;
}

/* ---- the others ---- */

void mf_ps_quorum_take(server *s, mf_mail *r)
{
    if (!mf_ps_quorum_follows(s) || r->from != s->o.n_workers || r->frame.size > sizeof(decision)) {
        mf_mail_free(r);
        return;
    }
    r->next = s->decisions;
    s->decisions = r;
}

/* The link to the decision that comes next; to NULL: it has not arrived. A server that waits for
 * copies puts messages back, so they may be in another order. */
static mf_mail **find_next(server *s)
{
    mf_mail **at = &s->decisions;

    while (*at && (*at)->frame.seq != s->decided + 1)
        at = &(*at)->next;
    return at;
}

/* False: it is no decision about pushes that are here. */
static bool find_pushes(server *s, const mf_mail *r, decision *d, push **all)
{
    memcpy(d, r->data, r->frame.size);
    if (d->head.n < 1 || d->head.n > MF_REDUCTION_TREE_LEAVES ||
        r->frame.size != size_of(d->head.n))
        return false;
    for (int64_t i = 0; i < d->head.n; i++) {
        const int32_t w = d->workers[i];

        if (w < 0 || w >= s->o.n_workers || !s->pushes[w].of)
            return false;
        all[i] = &s->pushes[w];
    }
    return true;
}

bool mf_ps_quorum_next(server *s, push **all, int *n, bool *discards)
{
    mf_mail **at = find_next(s), *r = *at;
    decision d = { 0 };

    if (!r || !find_pushes(s, r, &d, all))
        return false;
    *n = (int)d.head.n;
    *discards = d.head.discards != 0;
    *at = r->next;
    mf_mail_free(r);
    s->decided++;
    return true;
}

void mf_ps_quorum_reset(server *s)
{
    while (s->decisions) {
        mf_mail *next = s->decisions->next;

        mf_mail_free(s->decisions);
        s->decisions = next;
    }
    s->decided = 0;
}
