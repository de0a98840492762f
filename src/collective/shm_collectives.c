/* SPDX-License-Identifier: Apache-2.0 */
/* shm_collectives.c - collectives in shared memory (shm_segment.h). Long vectors are processed in
 * chunks that stay in the cache. */
#include "base/mem.h"
#include "collective/shm_segment.h"

#include <string.h>

typedef mf_shm_group shared;

/* Bytes of a sum that each member computes redundantly: this saves a synchronisation. Two members
 * do not move more bytes for it, but add more, which counts once the data comes from memory. */
enum { ALONE = 16 << 10, ALONE_PAIR = 8 << 20 };

static mf_segment_words *words(const shared *s, int rank)
{
    return &s->seg->head->words[rank];
}

static char *data_of(const shared *s, int rank, unsigned turn)
{
    return mf_segment_slot_of(s->seg, rank, turn)->data;
}

/* ---- turns ---- */

/* All members have finished reading the previous contents of this slot. */
static bool slot_is_free(const shared *s, unsigned turn)
{
    for (int r = 0; r < s->head.size; r++) {
        if (!mf_segment_reached(&words(s, r)->finished, turn + 1 - MF_SEGMENT_SLOTS))
            return false;
    }
    return true;
}

static mf_status await_slot(shared *s, const mf_collective *c, unsigned turn)
{
    for (int r = 0; r < s->head.size; r++)
        MF_TRY(mf_segment_wait(s->seg, &s->head, c, r, &words(s, r)->finished,
                               turn + 1 - MF_SEGMENT_SLOTS));
    return MF_OK;
}

/* Publish what this member has written. */
static void shm_collectives_post(shared *s, const mf_collective *c, unsigned turn, int64_t size)
{
    mf_segment_slot *slot = mf_segment_slot_of(s->seg, s->head.rank, turn);

    slot->step = c->step;
    slot->size = size;
    mf_segment_set(s->seg, s->head.rank, &words(s, s->head.rank)->posted, turn + 1);
}

/* Members in different collectives are out of step: detect it before data is mixed. */
static mf_status shm_collectives_compare(const shared *s, const mf_collective *c, int rank,
                                         unsigned turn)
{
    const mf_segment_slot *ours = mf_segment_slot_of(s->seg, s->head.rank, turn);
    const mf_segment_slot *theirs = mf_segment_slot_of(s->seg, rank, turn);

    if (ours->step == theirs->step && ours->size == theirs->size)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "%s is in %s of step %lld with %lld bytes, but %s is in step %lld with %lld "
                   "bytes",
                   s->head.names[s->head.rank], c->what, (long long)ours->step,
                   (long long)ours->size, s->head.names[rank], (long long)theirs->step,
                   (long long)theirs->size);
}

static mf_status begin_slot(shared *s, const mf_collective *c, char **mine)
{
    *mine = data_of(s, s->head.rank, s->turn);
    return await_slot(s, c, s->turn);
}

/* Publish this member's slot and wait for the others'. */
static mf_status shm_collectives_sync(shared *s, const mf_collective *c, int64_t size)
{
    shm_collectives_post(s, c, s->turn, size);
    for (int r = 0; r < s->head.size; r++) {
        MF_TRY(mf_segment_wait(s->seg, &s->head, c, r, &words(s, r)->posted, s->turn + 1));
        MF_TRY(shm_collectives_compare(s, c, r, s->turn));
    }
    return MF_OK;
}

static void end_turn(shared *s)
{
    s->turn++;
    mf_segment_set(s->seg, s->head.rank, &words(s, s->head.rank)->finished, s->turn);
}

/* ---- sums ---- */

/* A long vector is processed in chunks, one per turn. A member that waits for others publishes its
 * next chunks meanwhile. */
typedef struct reduction {
    shared *s;
    const mf_reduce *r;
    mf_reduction_tree_part *parts; /* of all members */
    int n;
    size_t cell;
    bool sliced; /* each member adds up a slice of every chunk, and does not publish its own */
    int64_t most; /* elements of a chunk */
    int64_t chunks, shown; /* number of chunks; number of published chunks */
    unsigned base; /* turn of the first chunk */
} reduction;

static mf_status reduction_init(reduction *x, shared *s, const mf_reduce *r)
{
    int most = 1;

    *x = (reduction){ .s = s, .r = r, .cell = mf_dtype_size(r->dtype), .base = s->turn };
    for (int i = 0; i < s->head.size; i++) {
        most = r->n_parts[i] > most ? r->n_parts[i] : most;
        x->n += r->n_parts[i];
    }
    x->most = s->seg->room / (most * (int64_t)x->cell) & ~(int64_t)15;
    if (x->most == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%d partial sums are too many", most);
    x->chunks = (r->count + x->most - 1) / x->most;
    x->parts = mf_calloc(x->n, sizeof *x->parts);
    return x->parts ? MF_OK : MF_NOMEM("a sum");
}

static int64_t shm_collectives_count_of(const reduction *x, int64_t chunk)
{
    const int64_t left = x->r->count - chunk * x->most;

    return left < x->most ? left : x->most;
}

static const char *own_part(const reduction *x, int i, int64_t chunk)
{
    return (const char *)x->r->data[i] + (size_t)(chunk * x->most) * x->cell;
}

/* First element of a member's slice of the chunk. */
static int64_t slice_begin(const reduction *x, int64_t chunk, int rank)
{
    return mf_group_cut(&x->s->head, shm_collectives_count_of(x, chunk), rank);
}

static void shm_collectives_copy(reduction *x, char *to, const char *from, int64_t first,
                                 int64_t end)
{
    const size_t at = (size_t)first * x->cell, bytes = (size_t)(end - first) * x->cell;

    memcpy(to + at, from + at, bytes);
    x->s->head.bytes += (int64_t)bytes;
}

/* Publishes this member's next chunk, in a free slot. */
static void shm_collectives_show(reduction *x)
{
    shared *s = x->s;
    const int64_t chunk = x->shown++, count = shm_collectives_count_of(x, chunk);
    const unsigned turn = x->base + (unsigned)chunk;
    const int64_t own = x->sliced ? slice_begin(x, chunk, s->head.rank) : count;
    const int64_t own_end = x->sliced ? slice_begin(x, chunk, s->head.rank + 1) : count;
    char *to = data_of(s, s->head.rank, turn);

    for (int i = 0; i < x->r->n_parts[s->head.rank]; i++, to += (size_t)count * x->cell) {
        shm_collectives_copy(x, to, own_part(x, i, chunk), 0, own);
        shm_collectives_copy(x, to, own_part(x, i, chunk), own_end, count);
    }
    shm_collectives_post(s, &x->r->call, turn, x->r->count * (int64_t)x->cell);
}

/* Waits until every member has published this chunk. */
static mf_status await_chunk(reduction *x, int64_t chunk)
{
    shared *s = x->s;
    const unsigned turn = x->base + (unsigned)chunk;

    if (x->shown <= chunk) {
        MF_TRY(await_slot(s, &x->r->call, turn));
        shm_collectives_show(x);
    }
    for (int r = 0; r < s->head.size; r++) {
        atomic_uint *posted = &words(s, r)->posted;

        while (!mf_segment_reached(posted, turn + 1) && x->shown < x->chunks &&
               slot_is_free(s, x->base + (unsigned)x->shown))
            shm_collectives_show(x);
        MF_TRY(mf_segment_wait(s->seg, &s->head, &x->r->call, r, posted, turn + 1));
        MF_TRY(shm_collectives_compare(s, &x->r->call, r, turn));
    }
    return MF_OK;
}

/* Elements [from, to) of the chunk: the others' parts are in their slots, this member's in its own
 * memory. */
static mf_status shm_collectives_add_up(reduction *x, int64_t chunk, int64_t from, int64_t to,
                                        void *out)
{
    const mf_reduction_tree_node all = { 0, x->r->leaves };
    const int64_t count = shm_collectives_count_of(x, chunk);
    int n = 0;

    for (int r = 0; r < x->s->head.size; r++) {
        const char *slot = data_of(x->s, r, x->base + (unsigned)chunk);

        for (int i = 0; i < x->r->n_parts[r]; i++) {
            const char *data =
                r == x->s->head.rank ? own_part(x, i, chunk) : slot + (size_t)(i * count) * x->cell;

            x->parts[n++] =
                (mf_reduction_tree_part){ x->r->parts[r][i], data + (size_t)from * x->cell };
        }
    }
    return mf_reduction_tree_sum(x->r->leaves, all, x->parts, x->n, x->r->dtype, to - from, out);
}

static void shm_collectives_finish(reduction *x, int64_t chunk)
{
    shared *s = x->s;

    s->turn = x->base + (unsigned)chunk + 1;
    mf_segment_set(s->seg, s->head.rank, &words(s, s->head.rank)->finished, s->turn);
}

/* Each member adds up a slice, into shared memory. */
static mf_status shm_collectives_add_slice(reduction *x, int64_t chunk)
{
    shared *s = x->s;
    const unsigned turn = x->base + (unsigned)chunk;
    const int64_t from = slice_begin(x, chunk, s->head.rank);
    const int64_t to = slice_begin(x, chunk, s->head.rank + 1);
    char *result = data_of(s, s->head.size, turn);

    MF_TRY(shm_collectives_add_up(x, chunk, from, to, result + (size_t)from * x->cell));
    s->head.bytes += (to - from) * (int64_t)x->cell;
    mf_segment_set(s->seg, s->head.rank, &words(s, s->head.rank)->reduced, turn + 1);
    return MF_OK;
}

static mf_status shm_collectives_copy_result(reduction *x, int64_t chunk, char *out)
{
    shared *s = x->s;
    const unsigned turn = x->base + (unsigned)chunk;

    for (int r = 0; r < s->head.size; r++)
        MF_TRY(mf_segment_wait(s->seg, &s->head, &x->r->call, r, &words(s, r)->reduced, turn + 1));
    memcpy(out + (size_t)(chunk * x->most) * x->cell, data_of(s, s->head.size, turn),
           (size_t)shm_collectives_count_of(x, chunk) * x->cell);
    shm_collectives_finish(x, chunk);
    return MF_OK;
}

/* Sums are read one chunk later, so that all members have had time to compute them. */
static mf_status sum_in_slices(reduction *x)
{
    for (int64_t k = 0; k <= x->chunks; k++) {
        if (k < x->chunks) {
            MF_TRY(await_chunk(x, k));
            MF_TRY(shm_collectives_add_slice(x, k));
        }
        if (k > 0)
            MF_TRY(shm_collectives_copy_result(x, k - 1, x->r->out));
    }
    return MF_OK;
}

/* Every member computes the complete sum. */
static mf_status sum_alone(reduction *x)
{
    for (int64_t k = 0; k < x->chunks; k++) {
        MF_TRY(await_chunk(x, k));
        MF_TRY(shm_collectives_add_up(x, k, 0, shm_collectives_count_of(x, k),
                                      (char *)x->r->out + (size_t)(k * x->most) * x->cell));
        shm_collectives_finish(x, k);
    }
    return MF_OK;
}

static bool is_sliced(const mf_group *g, int64_t bytes)
{
    return g->size > 1 && bytes > (g->size == 2 ? ALONE_PAIR : ALONE);
}

static mf_status shared_all_reduce(mf_group *g, const mf_reduce *r)
{
    reduction x;
    mf_status st = reduction_init(&x, (shared *)g, r);

    x.sliced = is_sliced(g, r->count * (int64_t)x.cell);
    if (st == MF_OK)
        st = x.sliced ? sum_in_slices(&x) : sum_alone(&x);
    mf_free(x.parts);
    return st;
}

/* Every member adds up the part of each chunk inside its own range. */
static mf_status shared_reduce_scatter(mf_group *g, const mf_reduce *r, const int64_t *from)
{
    const int64_t lo = from[g->rank], hi = from[g->rank + 1];
    reduction x;
    mf_status st = reduction_init(&x, (shared *)g, r);

    for (int64_t k = 0; st == MF_OK && k < x.chunks; k++) {
        const int64_t at = k * x.most, a = lo > at ? lo - at : 0;
        const int64_t b =
            hi - at < shm_collectives_count_of(&x, k) ? hi - at : shm_collectives_count_of(&x, k);

        st = await_chunk(&x, k);
        if (st == MF_OK && a < b)
            st = shm_collectives_add_up(&x, k, a, b,
                                        (char *)r->out + (size_t)(at + a - lo) * x.cell);
        if (st == MF_OK)
            shm_collectives_finish(&x, k);
    }
    mf_free(x.parts);
    return st;
}

/* ---- bytes ---- */

static int64_t shm_collectives_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static mf_status shared_all_gather(mf_group *g, const mf_gather *a)
{
    shared *s = (shared *)g;
    int64_t most = 0, area = s->seg->room;
    char *mine;

    for (int r = 0; r < g->size; r++)
        most = a->sizes[r] > most ? a->sizes[r] : most;
    for (int64_t at = 0; at < most; at += area) {
        const int64_t ours = shm_collectives_smaller(area, a->sizes[g->rank] - at);
        char *out = a->out;

        MF_TRY(begin_slot(s, &a->call, &mine));
        if (ours > 0)
            memcpy(mine, (const char *)a->data + at, (size_t)ours);
        g->bytes += ours > 0 ? ours : 0;
        MF_TRY(shm_collectives_sync(s, &a->call, most));
        for (int r = 0; r < g->size; out += a->sizes[r++]) {
            const int64_t n = shm_collectives_smaller(area, a->sizes[r] - at);

            if (n > 0)
                memcpy(out + at, data_of(s, r, s->turn), (size_t)n);
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

    for (int64_t at = 0; at < size; at += s->seg->room) {
        const size_t n = (size_t)shm_collectives_smaller(s->seg->room, size - at);

        MF_TRY(begin_slot(s, c, &mine));
        if (g->rank == root)
            memcpy(mine, (char *)data + at, n);
        g->bytes += g->rank == root ? (int64_t)n : 0;
        MF_TRY(shm_collectives_sync(s, c, size));
        if (g->rank != root)
            memcpy((char *)data + at, data_of(s, root, s->turn), n);
        end_turn(s);
    }
    return MF_OK;
}

/* The slots are divided into one box per receiver. */
static mf_status shared_all_to_all(mf_group *g, const mf_collective *c, const void *data,
                                   const int64_t *sizes, void *out)
{
    shared *s = (shared *)g;
    const int64_t box = s->seg->room / g->size & ~(int64_t)63;
    const int64_t *ours = sizes + (int64_t)g->rank * g->size;
    int64_t most = 0;
    char *mine;

    for (int64_t i = 0; i < (int64_t)g->size * g->size; i++)
        most = sizes[i] > most ? sizes[i] : most;
    for (int64_t at = 0; at < most; at += box) {
        const char *from = data;
        char *to = out;

        MF_TRY(begin_slot(s, c, &mine));
        for (int r = 0; r < g->size; from += ours[r++]) {
            const int64_t n = shm_collectives_smaller(box, ours[r] - at);

            if (n > 0)
                memcpy(mine + r * box, from + at, (size_t)n);
            g->bytes += n > 0 ? n : 0;
        }
        MF_TRY(shm_collectives_sync(s, c, most));
        for (int r = 0; r < g->size; r++) {
            const int64_t all = sizes[(int64_t)r * g->size + g->rank],
                          n = shm_collectives_smaller(box, all - at);

            if (n > 0)
                memcpy(to + at, data_of(s, r, s->turn) + g->rank * box, (size_t)n);
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

    MF_TRY(begin_slot(s, c, &mine));
    MF_TRY(shm_collectives_sync(s, c, 0));
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

void mf_shm_group_init(mf_shm_group *g, mf_segment *segment, const mf_group *like)
{
    *g = (mf_shm_group){ .head = *like, .seg = segment };
    g->head.kind = &SHARED;
    g->head.bytes = 0;
}

mf_status mf_group_shared(mf_segment *segment, const mf_group *like, mf_group **out)
{
    shared *s = mf_calloc(1, sizeof *s);

    *out = NULL;
    if (!s)
        return MF_NOMEM("a group");
    mf_shm_group_init(s, segment, like);
    *out = &s->head;
    return MF_OK;
}
