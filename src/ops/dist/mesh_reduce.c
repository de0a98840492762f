/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_reduce.c - reductions between the devices of a mesh. spmd/lower/spmd_lower.c inserts these
 * ops and decides the members.
 *
 * Waiting holds no thread: parts are packed and sent when the op starts, and the thread that
 * delivers the last one reduces them in member order, by the tree of tensor/reduction_tree.h. So
 * the bits do not depend on which thread reduces, nor when. */
#include "base/mem.h"
#include "graph/shard.h"
#include "ops/dist/mesh_util.h"

/* Every member has a block; the result is divided into one piece per member. First, members
 * exchange their parts of the pieces (reduce-scatter); then, for an all-reduce, the reduced pieces
 * (all-gather). */
typedef struct reduce_state {
    int64_t key;
    mf_shape in, out;
    int n, index;
    const int64_t *members;
    const int64_t *boxes; /* by member: its piece; NULL: all-reduce */
    mf_cut how;
    bool direct; /* direct exchange: every member reduces the whole block */
} reduce_state;

typedef struct reduce_wait reduce_wait;

typedef struct reduce_piece {
    reduce_wait *wait;
    int member;
    mf_tensor part; /* this member's part of its piece */
} reduce_piece;

struct reduce_wait {
    mf_mesh_wait base; /* first */
    const reduce_state *s;
    mf_tensor *out;
    atomic_int parts; /* parts of the piece that have not arrived */
    reduce_piece pieces[];
};

static mf_status mesh_reduce_prepare(mf_prepare *p)
{
    reduce_state *s = MF_ARENA_NEW(p->arena, reduce_state);
    int64_t n, n_boxes, count = 0;

    if (!s)
        return MF_NOMEM("a sum");
    s->key = mf_mesh_key(p->node);
    s->in = *mf_node_shape(p->node, "from_shape");
    s->out = *mf_node_shape(p->node, "shape");
    s->members = mf_node_ints(p->node, "members", &n);
    s->boxes = mf_node_ints(p->node, "boxes", &n_boxes);
    s->n = (int)n;
    s->index = (int)mf_node_int(p->node, "index");
    s->how = (mf_cut)mf_node_int(p->node, "how");
    if (s->index < 0 || s->index >= n || s->how < MF_CUT_SUM || s->how > MF_CUT_ONE ||
        (n_boxes > 0 && n_boxes != 2 * n * s->in.rank) || mf_shape_count(&s->in, &count) != MF_OK ||
        !mf_shape_is_static(&s->out))
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: members and pieces do not fit",
                       p->node->name);
    if (n_boxes == 0)
        s->boxes = NULL;
    for (int i = 0; s->boxes && i < s->n; i++) {
        if (!mf_mesh_box_fits(mf_mesh_box_at(s->boxes, i, s->in.rank), &s->in))
            return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: piece %d is not in the block",
                           p->node->name, i);
    }
    s->direct = !s->boxes && (n == 2 || count <= mf_node_int(p->node, "direct"));
    p->state = s;
    return MF_OK;
}

/* For an all-reduce, pieces are contiguous in memory. */
static void flat_piece(const reduce_state *s, int64_t count, int i, int64_t *from, int64_t *size)
{
    *from = s->direct ? 0 : mf_shard_begin(count, s->n, i);
    *size = s->direct ? count : mf_shard_begin(count, s->n, i + 1) - *from;
}

/* Member i's piece of this block. */
static mf_status cut_piece(const reduce_state *s, const mf_tensor *x, int i, mf_tensor *out)
{
    mf_tensor flat = *x; /* borrowed */
    int64_t from, size;

    if (s->boxes)
        return mf_mesh_pack(x, mf_mesh_box_at(s->boxes, i, s->in.rank), out);
    flat_piece(s, x->count, i, &from, &size);
    flat.shape = MF_SHAPE(x->count);
    return mf_mesh_pack(&flat, (mf_mesh_box){ &from, &size }, out);
}

static void reduce_free(mf_mesh_wait *base)
{
    reduce_wait *w = (reduce_wait *)base;

    for (int i = 0; i < w->s->n; i++)
        mf_tensor_clear(&w->pieces[i].part);
    mf_free(w);
}

static mf_status mesh_reduce_combine(reduce_wait *w, void *out, int64_t count)
{
    const int n = w->s->n;
    const void **parts = mf_calloc(n, sizeof *parts);
    mf_status st = parts ? MF_OK : MF_NOMEM("a sum");

    for (int i = 0; st == MF_OK && i < n; i++) {
        parts[i] = w->pieces[i].part.data;
        if (w->pieces[i].part.count != count || w->pieces[i].part.dtype != w->out->dtype)
            st = MF_FAIL(MF_INVALID_ARGUMENT,
                         "device %lld has sent %lld of %s instead of %lld of %s",
                         (long long)w->s->members[i], (long long)w->pieces[i].part.count,
                         mf_dtype_name(w->pieces[i].part.dtype), (long long)count,
                         mf_dtype_name(w->out->dtype));
    }
    if (st == MF_OK)
        st = mf_mesh_combine(w->s->how, w->out->dtype, parts, n, count, out);
    mf_free(parts);
    return st;
}

/* The piece is reduced: send it to the other members. */
static mf_status mesh_reduce_spread(const reduce_wait *w, int64_t from, int64_t size)
{
    const size_t cell = mf_dtype_cell(w->out->dtype);
    mf_tensor piece = { 0 };
    mf_status st = mf_mesh_pack(&(mf_tensor){ .dtype = w->out->dtype,
                                              .shape = MF_SHAPE(size),
                                              .count = size,
                                              .data = (char *)w->out->data + (size_t)from * cell,
                                              .buffer = w->out->buffer },
                                (mf_mesh_box){ (const int64_t[]){ 0 }, &size }, &piece);

    for (int i = 0; st == MF_OK && i < w->s->n; i++) {
        if (i != w->s->index)
            st = mf_mesh_send(w->base.link, (int)w->s->members[i], w->s->key + 1, &piece);
    }
    mf_tensor_clear(&piece);
    return st;
}

static mf_status make_piece(reduce_wait *w)
{
    const reduce_state *s = w->s;
    int64_t from = 0, size = w->out->count;

    if (!s->boxes)
        flat_piece(s, w->out->count, s->index, &from, &size);
    MF_TRY(mesh_reduce_combine(
        w, (char *)w->out->data + (size_t)from * mf_dtype_cell(w->out->dtype), size));
    return s->boxes || s->direct ? MF_OK : mesh_reduce_spread(w, from, size);
}

/* A part of the piece has arrived, or has failed. */
static void part_done(reduce_wait *w, mf_status st)
{
    const bool last = atomic_fetch_sub(&w->parts, 1) == 1;

    if (last && st == MF_OK) {
        bool all = true;

        for (int i = 0; all && i < w->s->n; i++)
            all = w->pieces[i].part.dtype != MF_DTYPE_INVALID;
        if (all)
            st = make_piece(w);
    }
    mf_mesh_wait_less(&w->base, st);
}

static void got_part(void *ctx, mf_status st, const mf_tensor *piece)
{
    reduce_piece *p = ctx;

    if (st == MF_OK) {
        mf_mesh_count_received(p->wait->base.link, piece);
        mf_tensor_set(&p->part, piece);
    }
    part_done(p->wait, st);
}

static void got_sum(void *ctx, mf_status st, const mf_tensor *piece)
{
    const reduce_piece *p = ctx;
    reduce_wait *w = p->wait;
    mf_tensor flat = { .dtype = w->out->dtype,
                       .shape = MF_SHAPE(w->out->count),
                       .count = w->out->count,
                       .data = w->out->data };
    int64_t from, size;

    flat_piece(w->s, w->out->count, p->member, &from, &size);
    if (st == MF_OK) {
        mf_mesh_count_received(w->base.link, piece);
        st = mf_mesh_unpack(piece, (mf_mesh_box){ &from, &size }, &flat);
    }
    mf_mesh_wait_less(&w->base, st);
}

static mf_status mesh_reduce_begin(mf_kernel *k, reduce_wait **out)
{
    const reduce_state *s = k->state;
    const bool two = !s->boxes && !s->direct;
    mf_tensor *y;
    reduce_wait *w;

    if (!mf_mesh_link_of(k))
        return MF_FAILED_PRECONDITION;
    if (!mf_shape_equal(&k->in[0]->shape, &s->in))
        return MF_FAIL(MF_INVALID_ARGUMENT, "the block does not have the shape of the attribute");
    MF_TRY(mf_kernel_out(k, 0, &s->out, &y));
    w = mf_calloc(1, sizeof *w + (size_t)s->n * sizeof *w->pieces);
    if (!w)
        return MF_NOMEM("a sum");
    for (int i = 0; i < s->n; i++) {
        w->pieces[i].wait = w;
        w->pieces[i].member = i;
    }
    w->s = s;
    w->out = y;
    atomic_init(&w->parts, s->n);
    mf_mesh_wait_init(&w->base, k, s->n + (two ? s->n - 1 : 0) + 1);
    w->base.free = reduce_free;
    *out = w;
    return MF_OK;
}

static mf_status mesh_reduce_send_parts(const reduce_wait *w, const mf_tensor *x)
{
    const reduce_state *s = w->s;

    for (int i = 0; i < s->n; i++) {
        mf_tensor piece = { 0 };
        mf_status st;

        if (i == s->index)
            continue;
        st = cut_piece(s, x, i, &piece);
        if (st == MF_OK)
            st = mf_mesh_send(w->base.link, (int)s->members[i], s->key, &piece);
        mf_tensor_clear(&piece);
        MF_TRY(st);
    }
    return MF_OK;
}

static void reduce_start(mf_kernel *k)
{
    const reduce_state *s = k->state;
    const bool two = !s->boxes && !s->direct;
    reduce_wait *w;
    mf_mesh_link *l;
    mf_status st = mesh_reduce_begin(k, &w);

    if (st != MF_OK) {
        mf_kernel_done(k, st);
        return;
    }
    l = w->base.link;
    st = mesh_reduce_send_parts(w, k->in[0]);
    for (int i = 0; i < s->n; i++) {
        const int from = (int)s->members[i];

        if (i == s->index)
            continue;
        l->kind->receive(l, from, s->key, k->step->cancel, got_part, &w->pieces[i]);
        if (two)
            l->kind->receive(l, from, s->key + 1, k->step->cancel, got_sum, &w->pieces[i]);
    }
    part_done(w, cut_piece(s, k->in[0], s->index, &w->pieces[s->index].part));
    mf_mesh_wait_less(&w->base, st);
}

const mf_op mf_ops_mesh_reduce[] = {
    /* Reduces the members' blocks element by element: each member gets a box, or all get
     * everything. index: rank of this member; how: mf_cut; direct: maximum number of elements for
     * direct exchange, which is always used for two members, because it sends the same number of
     * bytes. */
    { .name = "_MeshReduce",
      .def = "(x:T) -> (y:T) {T:type, id:int, from_shape:shape, shape:shape, "
             "members:list(int)>=1, index:int, boxes:list(int)>=0=[], how:int, direct:int=0} "
             "is_stateful",
      .flags = MF_OP_UNPLANNED | MF_OP_JOINT,
      .infer = mf_mesh_infer_shape,
      .grad = mf_grad_missing,
      .prepare = mesh_reduce_prepare,
      .start = reduce_start },
    { 0 },
};
