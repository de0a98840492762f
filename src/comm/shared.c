/* SPDX-License-Identifier: Apache-2.0 */
/* shared.c - collectives in memory that all members see (segment.h). Long vectors go through it in
 * chunks that stay in the cache. */
#include "base/mem.h"
#include "comm/segment.h"

#include <string.h>

typedef mf_shared_group shared;

enum { ALONE = 16 << 10 }; /* bytes of a sum that each member makes for itself, to save a meeting */

static mf_segment_words *words(const shared *s, int rank)
{
    return &s->seg->head->words[rank];
}

/* ---- turns ---- */

/* Our area of this turn, once nobody reads what it held two turns ago. */
static mf_status begin_turn(shared *s, const mf_collective *c, char **mine)
{
    for (int r = 0; r < s->head.size; r++)
        MF_TRY(mf_segment_wait(s->seg, &s->head, c, r, &words(s, r)->finished, s->turn - 1));
    *mine = mf_segment_area(s->seg, s->head.rank, s->turn);
    return MF_OK;
}

/* Members that do not come for the same have lost each other: better here than in the numbers. */
static mf_status compare(const shared *s, const mf_collective *c, int rank)
{
    const unsigned t = s->turn & 1;
    const mf_segment_words *ours = words(s, s->head.rank), *theirs = words(s, rank);

    if (ours->step[t] == theirs->step[t] && ours->size[t] == theirs->size[t])
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "%s came to %s of step %lld with %lld bytes, %s to step %lld with %lld",
                   s->head.names[s->head.rank], c->what, (long long)ours->step[t],
                   (long long)ours->size[t], s->head.names[rank], (long long)theirs->step[t],
                   (long long)theirs->size[t]);
}

/* What we have written can be read; so can what the others have. */
static mf_status meet(shared *s, const mf_collective *c, int64_t size)
{
    mf_segment_words *ours = words(s, s->head.rank);

    ours->step[s->turn & 1] = c->step;
    ours->size[s->turn & 1] = size;
    mf_segment_say(s->seg, s->head.rank, &ours->posted, s->turn + 1);
    for (int r = 0; r < s->head.size; r++) {
        MF_TRY(mf_segment_wait(s->seg, &s->head, c, r, &words(s, r)->posted, s->turn + 1));
        MF_TRY(compare(s, c, r));
    }
    return MF_OK;
}

static void end_turn(shared *s)
{
    s->turn++;
    mf_segment_say(s->seg, s->head.rank, &words(s, s->head.rank)->finished, s->turn);
}

static const char *area_of(const shared *s, int rank)
{
    return mf_segment_area(s->seg, rank, s->turn);
}

/* ---- sums ---- */

typedef struct reduction {
    shared *s;
    const mf_reduce *r;
    mf_tree_part *parts; /* of all members */
    int n;
    size_t cell;
    int64_t at, count, most; /* the chunk in hand; elements of a chunk */
} reduction;

static mf_status reduction_init(reduction *x, shared *s, const mf_reduce *r)
{
    int most = 1;

    *x = (reduction){ .s = s, .r = r, .cell = mf_dtype_size(r->dtype) };
    for (int i = 0; i < s->head.size; i++) {
        most = r->n_parts[i] > most ? r->n_parts[i] : most;
        x->n += r->n_parts[i];
    }
    x->most = s->seg->area / (most * (int64_t)x->cell) & ~(int64_t)15;
    x->parts = mf_calloc(x->n, sizeof *x->parts);
    return x->parts ? MF_OK : MF_NOMEM("a sum");
}

static void copy_in(const reduction *x, char *area)
{
    const size_t bytes = (size_t)x->count * x->cell;

    for (int i = 0; i < x->r->n_parts[x->s->head.rank]; i++)
        memcpy(area + (size_t)i * bytes, (const char *)x->r->data[i] + (size_t)x->at * x->cell,
               bytes);
    x->s->head.bytes += (int64_t)bytes * x->r->n_parts[x->s->head.rank];
}

/* Where the parts of this chunk lie: the others' in their areas, ours where it always was. */
static void find_parts(reduction *x, int64_t from)
{
    int n = 0;

    for (int r = 0; r < x->s->head.size; r++) {
        const char *area = area_of(x->s, r);

        for (int i = 0; i < x->r->n_parts[r]; i++) {
            const char *data = r == x->s->head.rank
                                   ? (const char *)x->r->data[i] + (size_t)x->at * x->cell
                                   : area + (size_t)(i * x->count) * x->cell;

            x->parts[n++] = (mf_tree_part){ x->r->parts[r][i], data + (size_t)from * x->cell };
        }
    }
}

/* Elements [from, to) of the chunk. */
static mf_status add_up(reduction *x, int64_t from, int64_t to, void *out)
{
    const mf_tree_node all = { 0, x->r->leaves };

    find_parts(x, from);
    return mf_tree_sum(x->r->leaves, all, x->parts, x->n, x->r->dtype, to - from, out);
}

/* Each member adds up a slice, into memory that all see. */
static mf_status add_slices(reduction *x, char *out)
{
    shared *s = x->s;
    char *result = mf_segment_area(s->seg, s->head.size, s->turn);
    const int64_t from = mf_group_cut(&s->head, x->count, s->head.rank);
    const int64_t to = mf_group_cut(&s->head, x->count, s->head.rank + 1);

    MF_TRY(add_up(x, from, to, result + (size_t)from * x->cell));
    mf_segment_say(s->seg, s->head.rank, &words(s, s->head.rank)->reduced, s->turn + 1);
    for (int r = 0; r < s->head.size; r++)
        MF_TRY(
            mf_segment_wait(s->seg, &s->head, &x->r->call, r, &words(s, r)->reduced, s->turn + 1));
    memcpy(out, result, (size_t)x->count * x->cell);
    return MF_OK;
}

static mf_status reduce_chunk(reduction *x)
{
    char *out = (char *)x->r->out + (size_t)x->at * x->cell, *mine;
    const bool alone = x->s->head.size <= 2 || x->count * (int64_t)x->cell <= ALONE;

    MF_TRY(begin_turn(x->s, &x->r->call, &mine));
    copy_in(x, mine);
    MF_TRY(meet(x->s, &x->r->call, x->r->count * (int64_t)x->cell));
    MF_TRY(alone ? add_up(x, 0, x->count, out) : add_slices(x, out));
    end_turn(x->s);
    return MF_OK;
}

static mf_status shared_all_reduce(mf_group *g, const mf_reduce *r)
{
    reduction x;
    mf_status st = reduction_init(&x, (shared *)g, r);

    for (x.at = 0; st == MF_OK && x.at < r->count; x.at += x.count) {
        x.count = r->count - x.at < x.most ? r->count - x.at : x.most;
        st = reduce_chunk(&x);
    }
    mf_free(x.parts);
    return st;
}

/* Of each chunk, everybody adds up what falls into its own range. */
static mf_status shared_reduce_scatter(mf_group *g, const mf_reduce *r, const int64_t *from)
{
    const int64_t lo = from[g->rank], hi = from[g->rank + 1];
    reduction x;
    mf_status st = reduction_init(&x, (shared *)g, r);
    char *mine;

    for (x.at = 0; st == MF_OK && x.at < r->count; x.at += x.count) {
        int64_t a, b;

        x.count = r->count - x.at < x.most ? r->count - x.at : x.most;
        a = lo > x.at ? lo - x.at : 0;
        b = hi - x.at < x.count ? hi - x.at : x.count;
        MF_TRY_TO(done, begin_turn(x.s, &r->call, &mine));
        copy_in(&x, mine);
        MF_TRY_TO(done, meet(x.s, &r->call, r->count * (int64_t)x.cell));
        if (a < b)
            MF_TRY_TO(done, add_up(&x, a, b, (char *)r->out + (size_t)(x.at + a - lo) * x.cell));
        end_turn(x.s);
    }
done:
    mf_free(x.parts);
    return st;
}

/* ---- bytes ---- */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static mf_status shared_all_gather(mf_group *g, const mf_gather *a)
{
    shared *s = (shared *)g;
    int64_t most = 0, area = s->seg->area;
    char *mine;

    for (int r = 0; r < g->size; r++)
        most = a->sizes[r] > most ? a->sizes[r] : most;
    for (int64_t at = 0; at < most; at += area) {
        const int64_t ours = smaller(area, a->sizes[g->rank] - at);
        char *out = a->out;

        MF_TRY(begin_turn(s, &a->call, &mine));
        if (ours > 0)
            memcpy(mine, (const char *)a->data + at, (size_t)ours);
        g->bytes += ours > 0 ? ours : 0;
        MF_TRY(meet(s, &a->call, most));
        for (int r = 0; r < g->size; out += a->sizes[r++]) {
            const int64_t n = smaller(area, a->sizes[r] - at);

            if (n > 0)
                memcpy(out + at, area_of(s, r), (size_t)n);
        }
        end_turn(s);
    }
    return MF_OK;
}

static mf_status shared_broadcast(mf_group *g, const mf_collective *c, int root, void *data,
                                  int64_t size)
{
    shared *s = (shared *)g;
    char *mine;

    for (int64_t at = 0; at < size; at += s->seg->area) {
        const size_t n = (size_t)smaller(s->seg->area, size - at);

        MF_TRY(begin_turn(s, c, &mine));
        if (g->rank == root)
            memcpy(mine, (char *)data + at, n);
        g->bytes += g->rank == root ? (int64_t)n : 0;
        MF_TRY(meet(s, c, size));
        if (g->rank != root)
            memcpy((char *)data + at, area_of(s, root), n);
        end_turn(s);
    }
    return MF_OK;
}

/* The areas are cut into one box for each receiver. */
static mf_status shared_all_to_all(mf_group *g, const mf_collective *c, const void *data,
                                   const int64_t *sizes, void *out)
{
    shared *s = (shared *)g;
    const int64_t box = s->seg->area / g->size & ~(int64_t)63;
    const int64_t *ours = sizes + (int64_t)g->rank * g->size;
    int64_t most = 0;
    char *mine;

    for (int64_t i = 0; i < (int64_t)g->size * g->size; i++)
        most = sizes[i] > most ? sizes[i] : most;
    for (int64_t at = 0; at < most; at += box) {
        const char *from = data;
        char *to = out;

        MF_TRY(begin_turn(s, c, &mine));
        for (int r = 0; r < g->size; from += ours[r++]) {
            const int64_t n = smaller(box, ours[r] - at);

            if (n > 0)
                memcpy(mine + r * box, from + at, (size_t)n);
            g->bytes += n > 0 ? n : 0;
        }
        MF_TRY(meet(s, c, most));
        for (int r = 0; r < g->size; r++) {
            const int64_t all = sizes[(int64_t)r * g->size + g->rank], n = smaller(box, all - at);

            if (n > 0)
                memcpy(to + at, area_of(s, r) + g->rank * box, (size_t)n);
            to += all;
        }
        end_turn(s);
    }
    return MF_OK;
}

static mf_status shared_barrier(mf_group *g, const mf_collective *c)
{
    shared *s = (shared *)g;
    char *mine;

    MF_TRY(begin_turn(s, c, &mine));
    MF_TRY(meet(s, c, 0));
    end_turn(s);
    return MF_OK;
}

static void shared_free(mf_group *g)
{
    mf_free(g);
}

static const mf_group_kind SHARED = {
    .name = "shared memory",
    .all_reduce = shared_all_reduce,
    .reduce_scatter = shared_reduce_scatter,
    .all_gather = shared_all_gather,
    .broadcast = shared_broadcast,
    .all_to_all = shared_all_to_all,
    .barrier = shared_barrier,
    .free = shared_free,
};

void mf_shared_init(mf_shared_group *g, mf_segment *segment, const mf_group *like)
{
    *g = (mf_shared_group){ .head = *like, .seg = segment };
    g->head.kind = &SHARED;
    g->head.bytes = 0;
}

mf_status mf_group_shared(mf_segment *segment, const mf_group *like, mf_group **out)
{
    shared *s = mf_calloc(1, sizeof *s);

    *out = NULL;
    if (!s)
        return MF_NOMEM("a group");
    mf_shared_init(s, segment, like);
    *out = &s->head;
    return MF_OK;
}
