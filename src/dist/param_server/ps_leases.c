/* SPDX-License-Identifier: Apache-2.0 */
/* ps_leases.c - leases of batches to workers: requests, grants, bounded staleness, revocation. A
 * worker's clock counts its completed steps; a worker without batches does not hold up others. */
#include "dist/param_server/ps_leases.h"

#include "base/mem.h"

#include <string.h>

enum { WINDOW = 32 }; /* batches to choose from */

typedef struct lessee {
    int64_t clock; /* steps done */
    bool asks; /* waits for a batch */
    uint32_t seq;
    bool out; /* was notified that no batch is left */
    bool has; /* a batch */
    int64_t n_near; /* as it reported last; see mf_dist_locality */
    uint8_t near[MF_DIST_STREAMS];
} lessee;

typedef struct ps_leases_given {
    int64_t batch;
    int worker;
} ps_leases_given;

struct mf_ps_leases {
    lessee *workers;
    int n;
    int64_t bound, start, total, seen;
    int64_t save_every; /* batches; 0: no checkpoints */
    int64_t saved; /* all batches before this one are saved, or not to be */
    bool saves; /* the first worker is saving now */
    int64_t next; /* the first batch that is not leased */
    uint32_t taken; /* bit i: batch next + i is leased */
    int64_t blocks;
    int64_t *used; /* by block: the number of its batches that were leased */
    ps_leases_given *given; /* and may not be done yet; in the order of leasing */
    int64_t n_given, cap_given;
    int64_t *back; /* batches that were returned, unordered */
    int64_t n_back, cap_back;
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
        l->workers[i] = (lessee){ .clock = -1 }; /* the first request precedes the first step */
    for (int64_t k = 0; k < l->blocks; k++)
        l->used[k] = 0;
    l->next = l->start = l->total = l->seen = 0;
    l->save_every = l->saved = 0;
    l->saves = false;
    l->taken = 0;
    l->n_given = l->n_back = 0;
}

mf_status mf_ps_leases_cut(mf_ps_leases *l, int64_t blocks)
{
    int64_t *used = mf_calloc(blocks + 1, sizeof *used);

    if (!used)
        return MF_NOMEM("leases");
    mf_free(l->used);
    l->used = used;
    l->blocks = blocks;
    return MF_OK;
}

mf_status mf_ps_leases_revoke_all(mf_ps_leases *l, int workers)
{
    lessee *fresh = mf_calloc(workers, sizeof *fresh);

    if (!fresh || mf_grow(&l->back, &l->cap_back, l->n_back + l->n_given, sizeof *l->back)) {
        mf_free(fresh);
        return MF_NOMEM("leases");
    }
    for (int64_t i = 0; i < l->n_given; i++)
        l->back[l->n_back++] = l->given[i].batch;
    l->n_given = 0;
    mf_free(l->workers);
    l->saves = false;
    l->workers = fresh;
    l->n = workers;
    for (int i = 0; i < l->n; i++)
        l->workers[i].clock = -1;
    return MF_OK;
}

void mf_ps_leases_free(mf_ps_leases *l)
{
    if (!l)
        return;
    mf_free(l->workers);
    mf_free(l->used);
    mf_free(l->given);
    mf_free(l->back);
    mf_free(l);
}

/* All batches of this worker, except the last `but`, are done. */
static void ps_leases_confirm(mf_ps_leases *l, int worker, int64_t but)
{
    int64_t kept = 0, its = 0;

    for (int64_t i = 0; i < l->n_given; i++)
        its += l->given[i].worker == worker;
    for (int64_t i = 0; i < l->n_given; i++) {
        if (l->given[i].worker != worker || its-- <= but)
            l->given[kept++] = l->given[i];
    }
    l->n_given = kept;
}

/* Batches from this one on are not leased yet. When the first worker has left, no worker saves. */
static int64_t limit(const mf_ps_leases *l)
{
    const bool saves = l->save_every > 0 && l->n > 0 && !l->workers[0].out;
    int64_t next;

    if (!saves || !mf_mul_i64(l->saved / l->save_every + 1, l->save_every, &next))
        return l->total;
    return next < l->total ? next : l->total;
}

mf_status mf_ps_leases_ask(mf_ps_leases *l, int worker, uint32_t seq, const mf_ps_lease *lease)
{
    lessee *w = &l->workers[worker];

    if (w->asks && w->seq == seq)
        return MF_OK; /* a repeated request */
    MF_TRY(mf_grow(&l->given, &l->cap_given, l->n_given + l->n, sizeof *l->given));
    ps_leases_confirm(l, worker, lease->held);
    l->total = lease->total;
    l->save_every = lease->save_every > 0 ? lease->save_every : 0;
    if (lease->start > l->next) {
        l->next = l->start = l->saved = lease->start;
        l->taken = 0;
    }
    if (l->saves && worker == 0) {
        l->saved = limit(l);
        l->saves = false;
    }
    w->n_near = lease->n_near > 0 && lease->n_near <= MF_DIST_STREAMS ? lease->n_near : 0;
    memcpy(w->near, lease->near, sizeof w->near);
    w->clock += w->clock < 0 || w->has;
    w->has = false;
    w->asks = true;
    w->seq = seq;
    return MF_OK;
}

void mf_ps_leases_leave(mf_ps_leases *l, int worker)
{
    ps_leases_confirm(l, worker, 0);
    l->saves = l->saves && worker != 0;
    l->workers[worker].has = l->workers[worker].asks = false;
    l->workers[worker].out = true;
}

/* The owner of a block: with fewer workers than blocks, some workers have several. */
static int ps_leases_owner_of(const mf_ps_leases *l, int64_t block)
{
    return (int)(block % (l->n < l->blocks ? l->n : l->blocks));
}

/* Is there a block for this worker, or are there no blocks at all? */
static bool has_block(const mf_ps_leases *l, int worker)
{
    return l->blocks == 0 || worker < l->blocks;
}

static int64_t slowest(const mf_ps_leases *l)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < l->n; i++) {
        if (!l->workers[i].out && has_block(l, i) && l->workers[i].clock < least)
            least = l->workers[i].clock;
    }
    return least;
}

/* The next batch of a block that was not leased. */
static int64_t next_of_block(const mf_ps_leases *l, int64_t block)
{
    const int64_t first = (block - l->start % l->blocks + l->blocks) % l->blocks;

    return l->start + first + l->used[block] * l->blocks;
}

/* The first returned batch for this worker; -1: none. */
static int64_t find_back(const mf_ps_leases *l, int worker)
{
    int64_t best = -1;

    for (int64_t i = 0; i < l->n_back; i++) {
        if ((l->blocks == 0 || ps_leases_owner_of(l, l->back[i] % l->blocks) == worker) &&
            (best < 0 || l->back[i] < l->back[best]))
            best = i;
    }
    return best;
}

/* Of this worker's blocks, the one with the lowest next batch; -1: all are done. */
static int64_t next_block(const mf_ps_leases *l, int worker)
{
    int64_t best = -1;

    for (int64_t k = 0; k < l->blocks; k++) {
        if (ps_leases_owner_of(l, k) == worker && next_of_block(l, k) < limit(l) &&
            (best < 0 || next_of_block(l, k) < next_of_block(l, best)))
            best = k;
    }
    return best;
}

static bool has_more(const mf_ps_leases *l, int worker)
{
    if (find_back(l, worker) >= 0)
        return true;
    if (l->blocks == 0)
        return l->next < limit(l);
    return next_block(l, worker) >= 0;
}

static bool another_has_more(const mf_ps_leases *l)
{
    for (int i = 0; i < l->n; i++) {
        if (has_more(l, i))
            return true;
    }
    return false;
}

/* The most local of the next few batches that are not leased; there is one. */
static int64_t ps_leases_take_batch(mf_ps_leases *l, const lessee *w)
{
    int64_t batch = l->next;

    for (int i = 1; i < WINDOW && i < limit(l) - l->next && w->n_near > 0; i++) {
        if (!(l->taken >> i & 1) && w->near[(l->next + i) % w->n_near] > w->near[batch % w->n_near])
            batch = l->next + i;
    }
    l->taken |= UINT32_C(1) << (batch - l->next);
    for (; l->taken & 1; l->taken >>= 1)
        l->next++;
    return batch;
}

static int64_t lease(mf_ps_leases *l, int worker)
{
    const int64_t back = find_back(l, worker);
    int64_t batch;

    if (back >= 0) {
        batch = l->back[back];
        l->back[back] = l->back[--l->n_back];
    } else if (l->blocks > 0) {
        const int64_t block = next_block(l, worker);

        batch = next_of_block(l, block);
        l->used[block]++;
    } else {
        batch = ps_leases_take_batch(l, &l->workers[worker]);
    }
    l->given[l->n_given++] =
        (ps_leases_given){ batch, worker }; /* the array has space: one element for each request */
    return batch;
}

/* The reply to a worker that cannot get a batch; 0: none yet. */
static int64_t refusal(mf_ps_leases *l, int worker)
{
    if (!has_block(l, worker) && (another_has_more(l) || limit(l) < l->total))
        return MF_PS_NO_BLOCK;
    if (limit(l) == l->total)
        return MF_PS_NONE_LEFT;
    for (int i = 0; i < l->n; i++) {
        if (l->workers[i].has || has_more(l, i))
            return 0;
    }
    l->saves = worker == 0;
    return worker == 0 ? MF_PS_SAVE_FIRST : 0;
}

/* Reply to its request; false: it has to wait. */
static bool ps_leases_answer(mf_ps_leases *l, int worker, int64_t least, mf_ps_grant *out)
{
    lessee *w = &l->workers[worker];
    const int64_t ahead = w->clock - least;
    const bool more = has_more(l, worker);
    int64_t no = 0;

    if (!w->asks || l->saves || (more && l->bound >= 0 && ahead > l->bound))
        return false;
    no = more ? 0 : refusal(l, worker);
    if (!more && no == 0)
        return false;
    *out = (mf_ps_grant){ worker, w->seq, more ? lease(l, worker) : no };
    w->asks = false;
    w->has = more;
    w->out = no == MF_PS_NONE_LEFT;
    if (more && ahead > l->seen)
        l->seen = ahead;
    return true;
}

bool mf_ps_leases_next(mf_ps_leases *l, mf_ps_grant *out)
{
    const int64_t least = slowest(l) < 0 ? 0 : slowest(l);

    for (int i = 0; i < l->n; i++) {
        if (ps_leases_answer(l, i, least, out))
            return true;
    }
    return false;
}

int64_t mf_ps_leases_staleness(const mf_ps_leases *l)
{
    return l->seen;
}

/* ---- as bytes ---- */

enum { HEAD = 9 };

void mf_ps_leases_write(const mf_ps_leases *l, mf_buf *out)
{
    const int64_t head[HEAD] = { l->start,  l->total,   l->seen,   l->next, l->taken,
                                 l->blocks, l->n_given, l->n_back, l->saved };

    mf_buf_bytes(out, head, sizeof head);
    mf_buf_bytes(out, l->used, (size_t)l->blocks * sizeof *l->used);
    for (int64_t i = 0; i < l->n_given; i++)
        mf_buf_bytes(out, &l->given[i].batch, sizeof l->given[i].batch);
    mf_buf_bytes(out, l->back, (size_t)l->n_back * sizeof *l->back);
}

/* All batches that were leased at that time count as returned. */
mf_status mf_ps_leases_read(mf_ps_leases *l, mf_ps_reader *in)
{
    const void *from = mf_ps_reader_take(in, HEAD, sizeof(int64_t)), *used, *back;
    int64_t head[HEAD] = { 0 }, n;

    if (from)
        memcpy(head, from, sizeof head);
    used = mf_ps_reader_take(in, head[5], sizeof *l->used);
    if (!mf_add_i64(head[6], head[7], &n))
        n = -1;
    back = mf_ps_reader_take(in, n, sizeof *l->back);
    if (!from || !used || !back || head[5] != l->blocks)
        return MF_FAIL(MF_DATA_LOSS, "a copy of a parameter server's leases is invalid");
    MF_TRY(mf_grow(&l->back, &l->cap_back, n, sizeof *l->back));
    mf_ps_leases_reset(l);
    l->start = head[0];
    l->total = head[1];
    l->seen = head[2];
    l->next = head[3];
    l->taken = (uint32_t)head[4];
    l->saved = head[8];
    if (l->blocks > 0)
        memcpy(l->used, used, (size_t)l->blocks * sizeof *l->used);
    if (n > 0)
        memcpy(l->back, back, (size_t)n * sizeof *l->back);
    l->n_back = n;
    return MF_OK;
}
