/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - what processors of a mesh do together: move parts of a tensor to where they are needed,
 * and reduce what is partial. mesh/lower.c puts these ops in and says who sends what to whom.
 *
 * Both wait without a thread: pieces are packed and sent when the op starts, and put in place by
 * whoever brings them. What is reduced is so in the order of the members, as the tree of
 * comm/tree.h has it; so neither who adds nor when shows in the bits. */
#include "base/mem.h"
#include "graph/shard.h"
#include "ops/mesh_util.h"

enum { PHASES = 2 }; /* keys of one op */

static const int64_t *ints(const mf_node *n, const char *name, int64_t *count)
{
    return mf_node_ints(n, name, count);
}

static mf_status shape_infer(mf_infer *in)
{
    in->out[0] = *mf_node_shape(in->node, "shape");
    return MF_OK;
}

/* Does this lie in a tensor of that shape? Nodes may come from a file. */
static bool box_fits(mf_mesh_box box, const mf_shape *shape)
{
    for (int d = 0; d < shape->rank; d++) {
        if (box.begin[d] < 0 || box.size[d] < 0 || box.size[d] > shape->dims[d] ||
            box.begin[d] > shape->dims[d] - box.size[d])
            return false;
    }
    return true;
}

/* ---- moving ---- */

typedef struct move_state {
    int64_t key;
    mf_shape in, out;
    int n_send, n_receive;
    const int64_t *to, *from; /* processors */
    const int64_t *send, *receive; /* for each, begin and size of a box */
    const int64_t *keep; /* NULL, or begin here, begin there, size */
} move_state;

typedef struct move_wait move_wait;

typedef struct move_piece {
    move_wait *wait;
    mf_mesh_box box;
} move_piece;

struct move_wait {
    mf_mesh_wait base; /* first */
    mf_tensor *out;
    move_piece pieces[];
};

static mf_mesh_box box_of(const int64_t *list, int64_t i, int rank)
{
    return (mf_mesh_box){ list + 2 * i * rank, list + (2 * i + 1) * rank };
}

static mf_status move_check(const move_state *s, int64_t n_send, int64_t n_receive, int64_t n_keep)
{
    bool good = n_send == 2LL * s->n_send * s->in.rank &&
                n_receive == 2LL * s->n_receive * s->out.rank && s->in.rank == s->out.rank &&
                (n_keep == 0 || n_keep == 3LL * s->in.rank) && mf_shape_is_static(&s->in) &&
                mf_shape_is_static(&s->out);

    for (int i = 0; good && i < s->n_send; i++)
        good = box_fits(box_of(s->send, i, s->in.rank), &s->in);
    for (int i = 0; good && i < s->n_receive; i++)
        good = box_fits(box_of(s->receive, i, s->out.rank), &s->out);
    if (good && n_keep > 0)
        good = box_fits((mf_mesh_box){ s->keep, s->keep + 2 * s->in.rank }, &s->in) &&
               box_fits((mf_mesh_box){ s->keep + s->in.rank, s->keep + 2 * s->in.rank }, &s->out);
    return good ? MF_OK : MF_FAIL(MF_INVALID_ARGUMENT, "the parts do not fit the tensor");
}

static mf_status move_prepare(mf_prepare *p)
{
    static const int64_t nowhere[1]; /* where scalars begin and end */
    move_state *s = MF_ARENA_NEW(p->arena, move_state);
    int64_t n_to, n_from, n_send, n_receive, n_keep;

    if (!s)
        return MF_NOMEM("a move");
    s->key = PHASES * mf_node_int(p->node, "id");
    s->in = *mf_node_shape(p->node, "from_shape");
    s->out = *mf_node_shape(p->node, "shape");
    s->to = ints(p->node, "to", &n_to);
    s->from = ints(p->node, "from", &n_from);
    s->send = ints(p->node, "send", &n_send);
    s->receive = ints(p->node, "receive", &n_receive);
    s->keep = ints(p->node, "keep", &n_keep);
    s->n_send = (int)n_to;
    s->n_receive = (int)n_from;
    MF_TRY(move_check(s, n_send, n_receive, n_keep));
    if (n_keep == 0 && !(mf_node_bool(p->node, "keeps") && s->in.rank == 0))
        s->keep = NULL;
    else if (!s->keep)
        s->keep = nowhere;
    p->state = s;
    return MF_OK;
}

static void move_free(mf_mesh_wait *w)
{
    mf_free(w);
}

static void move_got(void *ctx, mf_status st, const mf_tensor *piece)
{
    const move_piece *p = ctx;
    move_wait *w = p->wait;

    if (st == MF_OK) {
        mf_mesh_count_received(w->base.link, piece);
        st = mf_mesh_unpack(piece, p->box, w->out);
    }
    mf_mesh_wait_less(&w->base, st);
}

static mf_status move_send(const move_state *s, mf_mesh_link *l, const mf_tensor *x)
{
    for (int i = 0; i < s->n_send; i++) {
        mf_tensor piece = { 0 };
        mf_status st = mf_mesh_pack(x, box_of(s->send, i, s->in.rank), &piece);

        if (st == MF_OK)
            st = mf_mesh_send(l, (int)s->to[i], s->key, &piece);
        mf_tensor_clear(&piece);
        MF_TRY(st);
    }
    return MF_OK;
}

static mf_status move_keep(const move_state *s, const mf_tensor *x, mf_tensor *out)
{
    const int64_t *size = s->keep + 2 * s->in.rank;
    mf_tensor piece = { 0 };
    mf_status st = mf_mesh_pack(x, (mf_mesh_box){ s->keep, size }, &piece);

    if (st == MF_OK)
        st = mf_mesh_unpack(&piece, (mf_mesh_box){ s->keep + s->in.rank, size }, out);
    mf_tensor_clear(&piece);
    return st;
}

static mf_status move_begin(mf_kernel *k, move_wait **out)
{
    const move_state *s = k->state;
    mf_tensor *y;
    move_wait *w;

    if (!mf_mesh_link_of(k))
        return MF_FAILED_PRECONDITION;
    if (!mf_shape_equal(&k->in[0]->shape, &s->in))
        return MF_FAIL(MF_INVALID_ARGUMENT, "the block has another shape than was said");
    MF_TRY(mf_kernel_out(k, 0, &s->out, &y));
    if (s->keep)
        MF_TRY(move_keep(s, k->in[0], y));
    w = mf_calloc(1, sizeof *w + (size_t)s->n_receive * sizeof *w->pieces);
    if (!w)
        return MF_NOMEM("a move");
    mf_mesh_wait_init(&w->base, k, s->n_receive + 1);
    w->base.free = move_free;
    w->out = y;
    *out = w;
    return MF_OK;
}

static void move_start(mf_kernel *k)
{
    const move_state *s = k->state;
    move_wait *w;
    const mf_status st = move_begin(k, &w);

    if (st != MF_OK) {
        mf_kernel_done(k, st);
        return;
    }
    for (int i = 0; i < s->n_receive; i++) {
        w->pieces[i] = (move_piece){ w, box_of(s->receive, i, s->out.rank) };
        w->base.link->kind->receive(w->base.link, (int)s->from[i], s->key, k->step->cancel,
                                    move_got, &w->pieces[i]);
    }
    mf_mesh_wait_less(&w->base, move_send(s, w->base.link, k->in[0]));
}

/* ---- reducing ---- */

/* Everybody has a block; the result is cut into a piece for each member. First, members send each
 * other their parts of the pieces; then, where everybody wants all, what has become of them. */
typedef struct reduce_state {
    int64_t key;
    mf_shape in, out;
    int n, index;
    const int64_t *members;
    const int64_t *boxes; /* by member: its piece; NULL: all want all */
    mf_cut how;
    bool direct; /* all of it is a piece of everybody */
} reduce_state;

typedef struct reduce_wait reduce_wait;

typedef struct reduce_piece {
    reduce_wait *wait;
    int member;
    mf_tensor part; /* of our piece, by this member */
} reduce_piece;

struct reduce_wait {
    mf_mesh_wait base; /* first */
    const reduce_state *s;
    mf_tensor *out;
    atomic_int parts; /* still to come, before our piece can be made */
    reduce_piece pieces[];
};

static mf_status reduce_prepare(mf_prepare *p)
{
    reduce_state *s = MF_ARENA_NEW(p->arena, reduce_state);
    int64_t n, n_boxes, count = 0;

    if (!s)
        return MF_NOMEM("a sum");
    s->key = PHASES * mf_node_int(p->node, "id");
    s->in = *mf_node_shape(p->node, "from_shape");
    s->out = *mf_node_shape(p->node, "shape");
    s->members = ints(p->node, "members", &n);
    s->boxes = ints(p->node, "boxes", &n_boxes);
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
        if (!box_fits(box_of(s->boxes, i, s->in.rank), &s->in))
            return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: piece %d is not in the block",
                           p->node->name, i);
    }
    s->direct = !s->boxes && count <= mf_node_int(p->node, "direct");
    p->state = s;
    return MF_OK;
}

/* Where all want all, pieces are what lies together in memory. */
static void flat_piece(const reduce_state *s, int64_t count, int i, int64_t *from, int64_t *size)
{
    *from = s->direct ? 0 : mf_shard_begin(count, s->n, i);
    *size = s->direct ? count : mf_shard_begin(count, s->n, i + 1) - *from;
}

/* Member i's piece of our block. */
static mf_status cut_piece(const reduce_state *s, const mf_tensor *x, int i, mf_tensor *out)
{
    mf_tensor flat = { .dtype = x->dtype, .count = x->count, .data = x->data };
    int64_t from, size;

    if (s->boxes)
        return mf_mesh_pack(x, box_of(s->boxes, i, s->in.rank), out);
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

static mf_status combine(reduce_wait *w, void *out, int64_t count)
{
    const int n = w->s->n;
    const void **parts = mf_calloc(n, sizeof *parts);
    mf_status st = parts ? MF_OK : MF_NOMEM("a sum");

    for (int i = 0; st == MF_OK && i < n; i++) {
        parts[i] = w->pieces[i].part.data;
        if (w->pieces[i].part.count != count || w->pieces[i].part.dtype != w->out->dtype)
            st = MF_FAIL(MF_INVALID_ARGUMENT,
                         "processor %lld has sent %lld of %s instead of %lld of %s",
                         (long long)w->s->members[i], (long long)w->pieces[i].part.count,
                         mf_dtype_name(w->pieces[i].part.dtype), (long long)count,
                         mf_dtype_name(w->out->dtype));
    }
    if (st == MF_OK)
        st = mf_mesh_combine(w->s->how, w->out->dtype, parts, n, count, out);
    mf_free(parts);
    return st;
}

/* Our piece is done: the others want it, too. */
static mf_status spread(const reduce_wait *w, int64_t from, int64_t size)
{
    const size_t cell = mf_dtype_cell(w->out->dtype);
    mf_tensor piece = { 0 };
    mf_status st = mf_mesh_pack(&(mf_tensor){ .dtype = w->out->dtype,
                                              .shape = MF_SHAPE(size),
                                              .count = size,
                                              .data = (char *)w->out->data + (size_t)from * cell },
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
    MF_TRY(combine(w, (char *)w->out->data + (size_t)from * mf_dtype_cell(w->out->dtype), size));
    return s->boxes || s->direct ? MF_OK : spread(w, from, size);
}

/* One of the parts of our piece is there, or has failed. */
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

static mf_status reduce_begin(mf_kernel *k, reduce_wait **out)
{
    const reduce_state *s = k->state;
    const bool two = !s->boxes && !s->direct;
    mf_tensor *y;
    reduce_wait *w;

    if (!mf_mesh_link_of(k))
        return MF_FAILED_PRECONDITION;
    if (!mf_shape_equal(&k->in[0]->shape, &s->in))
        return MF_FAIL(MF_INVALID_ARGUMENT, "the block has another shape than was said");
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

static mf_status send_parts(const reduce_wait *w, const mf_tensor *x)
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
    mf_status st = reduce_begin(k, &w);

    if (st != MF_OK) {
        mf_kernel_done(k, st);
        return;
    }
    l = w->base.link;
    st = send_parts(w, k->in[0]);
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

const mf_op mf_ops_mesh[] = {
    /* Parts of a block go to others, and a new block is made of what comes. send, receive: for each
     * peer begin and size of a box in the old and in the new block; keep: of what stays, where it
     * begins in each, and its size; keeps: there is such a part. */
    { .name = "_MeshMove",
      .def = "(x:T) -> (y:T) {T:type, id:int, from_shape:shape, shape:shape, to:list(int)>=0=[], "
             "send:list(int)>=0=[], from:list(int)>=0=[], receive:list(int)>=0=[], "
             "keep:list(int)>=0=[], keeps:bool=false} is_stateful",
      .flags = MF_OP_UNPLANNED | MF_OP_JOINT,
      .infer = shape_infer,
      .grad = mf_grad_missing,
      .prepare = move_prepare,
      .start = move_start },
    /* What the members' blocks are together, element by element: of each a box, or all of it to
     * everybody. index: which of them this is; how: mf_cut; direct: up to so many elements,
     * everybody adds all. */
    { .name = "_MeshReduce",
      .def = "(x:T) -> (y:T) {T:type, id:int, from_shape:shape, shape:shape, "
             "members:list(int)>=1, index:int, boxes:list(int)>=0=[], how:int, direct:int=0} "
             "is_stateful",
      .flags = MF_OP_UNPLANNED | MF_OP_JOINT,
      .infer = shape_infer,
      .grad = mf_grad_missing,
      .prepare = reduce_prepare,
      .start = reduce_start },
    { 0 },
};
