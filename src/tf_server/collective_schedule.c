/* SPDX-License-Identifier: Apache-2.0 */
/* collective_schedule.c - chunks, hops and keys of TensorFlow's ring and tree collectives. Chunk
 * sizes, ranks and the numbers in keys equal those of TensorFlow's members: they would reject a
 * chunk of another size. */
#include "tf_server/collective_schedule.h"

#include <stdlib.h>

enum {
    PIECE_ALIGN = 64, /* bytes */
    PIECE_MAX = 4 << 20, /* bytes; larger chunks are split if the op does not set the number of
                            rings */
    RINGS_PER_DEVICE = 2,
    PIECES_MAX = 1 << 16,
};

static int tasks_of(const mf_collective_schedule_of *of)
{
    return of->task[of->n - 1] + 1;
}

/* ---- rings ---- */

/* A ring passes through the tasks in order, and through the devices of a task starting at `offset`,
 * or backwards if `offset` is negative. order: the members by their position in the ring. */
static void collective_schedule_make_ring(const mf_collective_schedule_of *of, int64_t offset,
                                          int *order)
{
    const int64_t by = llabs(offset);
    int first = 0;

    while (first < of->n) {
        int n = 1;

        while (first + n < of->n && of->task[first + n] == of->task[first])
            n++;
        for (int i = 0; i < n; i++) {
            const int at = (int)((i + by) % n);

            order[first + i] = first + (offset < 0 ? n - 1 - at : at);
        }
        first += n;
    }
}

/* Chosen to keep chunks small, unless the op sets it. */
static int64_t count_rings(const mf_collective_schedule_of *of)
{
    const int64_t bytes = of->count * (int64_t)mf_dtype_cell(of->collect->dtype);
    const int64_t most = (int64_t)RINGS_PER_DEVICE * (of->n / tasks_of(of));
    int64_t n = 1;

    while (bytes / (of->n * n) > PIECE_MAX && n < most)
        n++;
    return n;
}

static int64_t default_offset(const mf_collective_schedule_of *of, int64_t ring, int64_t rings)
{
    const int64_t stride = of->n / tasks_of(of) / rings, by = ring * (stride > 0 ? stride : 1);

    return ring % 2 == 1 ? -by : by;
}

/* Rounded up to cache lines. */
static int64_t piece_elements(const mf_collective_schedule_of *of, int64_t pieces)
{
    const int64_t bytes = (int64_t)mf_dtype_cell(of->collect->dtype);
    const int64_t least = ((of->count + pieces - 1) / pieces) * bytes;

    return (least / PIECE_ALIGN + 1) * PIECE_ALIGN / bytes;
}

/* The hops at rank `self` of the chunk that starts at rank `first` of a ring. */
static void collective_schedule_make_hops(mf_collective_route *r,
                                          const mf_collective_schedule_of *of, const int *order,
                                          int first, int section, bool is_sum)
{
    const int n = of->n;
    int self = 0, before;

    while (order[self] != of->self)
        self++;
    before = (self + n - 1) % n;
    r->n_hops = is_sum ? 2 : 1;
    for (int turn = 0; turn < r->n_hops; turn++) {
        const int begins = (first + (turn == 0 ? 0 : n - 1)) % n, ends = (begins + n - 1) % n;
        mf_hop *hop = &r->hops[turn];

        *hop = (mf_hop){ .from = self == begins ? -1 : order[before],
                         .key = { { turn, section, before } },
                         .merges = is_sum && turn == 0 && self != begins,
                         .finishes = is_sum && turn == 0 && self == ends };
        if (self != ends)
            hop->sends[hop->n_sends++] = (mf_hop_key){ { turn, section, self } };
    }
}

static mf_status make_reduction(const mf_collective_schedule_of *of, mf_arena *arena,
                                mf_collective_schedule *out)
{
    const mf_collective_op *c = of->collect;
    const int64_t rings = c->n_offsets > 0 ? c->n_offsets : count_rings(of);
    const int64_t pieces = rings * of->n, size = piece_elements(of, pieces);
    int *order = MF_ARENA_ARRAY(arena, int, of->n);

    if (pieces > PIECES_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%lld rings through %d members exceed the limit",
                       (long long)rings, of->n);
    out->all = MF_ARENA_ARRAY(arena, mf_collective_route, pieces);
    if (!order || !out->all)
        return MF_NOMEM("a collective");
    for (int64_t ring = 0; ring < rings; ring++) {
        collective_schedule_make_ring(
            of, c->n_offsets > 0 ? c->offsets[ring] : default_offset(of, ring, rings), order);
        for (int rank = 0; rank < of->n; rank++) {
            const int64_t section = rank * rings + ring, first = section * size;
            mf_collective_route *r = &out->all[out->n];

            if (first >= of->count)
                break;
            *r =
                (mf_collective_route){ .first = first,
                                       .count = of->count - first < size ? of->count - first : size,
                                       .own = first };
            collective_schedule_make_hops(r, of, order, rank, (int)section, true);
            out->n++;
        }
    }
    return MF_OK;
}

static mf_status make_gathering(const mf_collective_schedule_of *of, mf_arena *arena,
                                mf_collective_schedule *out)
{
    const int64_t size = of->count / of->n;
    int *order = MF_ARENA_ARRAY(arena, int, of->n);

    out->all = MF_ARENA_ARRAY(arena, mf_collective_route, of->n);
    if (!order || !out->all)
        return MF_NOMEM("a collective");
    collective_schedule_make_ring(of, 0, order);
    for (int rank = 0; rank < of->n && size > 0; rank++) {
        mf_collective_route *r = &out->all[out->n++];

        *r = (mf_collective_route){ .first = rank * size, .count = size };
        collective_schedule_make_hops(r, of, order, rank, rank, false);
    }
    return MF_OK;
}

/* ---- the tree ---- */

/* A tree of tasks: one device represents each task. If the first task is the source, r sends to
 * 2r+1 and 2r+2. Another source acts as an additional root before the first task and keeps its own
 * position, too. */
static int parent_of(int rank, int source)
{
    const int parent = source == 0 ? (rank - 1) / 2 : rank / 2 - 1;

    return rank == source ? -1 : parent < 0 ? source : parent;
}

static bool is_child(int rank, int of, int source)
{
    return rank != of && parent_of(rank, source) == of;
}

/* The device that represents a task. */
static int task_representative(const mf_collective_schedule_of *of, int task)
{
    int i = 0;

    if (of->task[of->source] == task)
        return of->source;
    while (of->task[i] != task)
        i++;
    return i;
}

static mf_status make_broadcast(const mf_collective_schedule_of *of, mf_arena *arena,
                                mf_collective_schedule *out)
{
    const int self = of->task[of->self], source = of->task[of->source];
    const int parent = parent_of(self, source);
    mf_collective_route *r = MF_ARENA_NEW(arena, mf_collective_route);
    mf_hop *hop;

    if (!r)
        return MF_NOMEM("a collective");
    *r = (mf_collective_route){ .count = of->count, .n_hops = 1 };
    hop = &r->hops[0];
    *hop = (mf_hop){ .from = parent < 0 ? -1 : task_representative(of, parent),
                     .key = { { 0, parent, self } } };
    for (int rank = 0; rank < tasks_of(of); rank++) {
        if (is_child(rank, self, source))
            hop->sends[hop->n_sends++] = (mf_hop_key){ { 0, self, rank } };
    }
    out->all = r;
    out->n = 1; /* an empty value is sent, too: the members wait for it */
    return MF_OK;
}

mf_status mf_collective_schedule_make(const mf_collective_schedule_of *of, mf_arena *arena,
                                      mf_collective_schedule *out)
{
    *out = (mf_collective_schedule){ 0 };
    switch (of->collect->kind) {
    case MF_COLLECTIVE_OP_REDUCE:
        return make_reduction(of, arena, out);
    case MF_COLLECTIVE_OP_GATHER:
        return make_gathering(of, arena, out);
    case MF_COLLECTIVE_OP_BROADCAST:
        break;
    }
    return make_broadcast(of, arena, out);
}
