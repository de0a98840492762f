/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_move.c - devices send each other parts of a tensor and assemble a new one from the received
 * parts, within a mesh (both) or from one mesh to another (either). spmd/lower/reshard.c inserts
 * these ops and decides what each device sends.
 *
 * Waiting holds no thread: parts are packed and sent when the op starts, and unpacked by the thread
 * that delivers them. */
#include "base/mem.h"
#include "ops/dist/mesh_util.h"

/* Peers, and begin and size of a box for each. */
typedef struct reshard_parts {
    mf_shape shape; /* of the block that contains the boxes */
    int n;
    const int64_t *peers, *boxes;
} reshard_parts;

typedef struct move_state {
    int64_t key;
    reshard_parts send, receive; /* empty for an op without an input, or without an output */
    const int64_t *keep; /* NULL, or begin in the old block, begin in the new block, size */
} move_state;

static const int64_t nowhere[1]; /* begin and size for scalars */

static mf_mesh_box mesh_move_box_of(const reshard_parts *p, int i)
{
    return mf_mesh_box_at(p->boxes, i, p->shape.rank);
}

/* Nodes may come from a file, so everything is checked. */
static mf_status parcels_read(const mf_node *n, const char *shape, const char *peers,
                              const char *boxes, reshard_parts *out)
{
    int64_t n_peers, n_boxes;
    bool good;

    out->shape = *mf_node_shape(n, shape);
    out->peers = mf_node_ints(n, peers, &n_peers);
    out->boxes = mf_node_ints(n, boxes, &n_boxes);
    out->boxes = out->boxes ? out->boxes : nowhere;
    out->n = (int)n_peers;
    good = n_boxes == 2 * n_peers * out->shape.rank && mf_shape_is_static(&out->shape);
    for (int i = 0; good && i < out->n; i++)
        good = mf_mesh_box_fits(mesh_move_box_of(out, i), &out->shape);
    return good ? MF_OK
                : MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: the parts do not fit the tensor",
                          n->name);
}

/* Reads the local part. */
static mf_status keep_read(const mf_node *n, move_state *s)
{
    const int rank = s->send.shape.rank;
    int64_t n_keep;

    s->keep = mf_node_ints(n, "keep", &n_keep);
    if (rank != s->receive.shape.rank || (n_keep > 0 && n_keep != 3LL * rank) ||
        (n_keep > 0 &&
         (!mf_mesh_box_fits((mf_mesh_box){ s->keep, s->keep + 2 * rank }, &s->send.shape) ||
          !mf_mesh_box_fits((mf_mesh_box){ s->keep + rank, s->keep + 2 * rank },
                            &s->receive.shape))))
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: what stays does not fit the tensor",
                       n->name);
    if (n_keep == 0)
        s->keep = mf_node_bool(n, "keeps") && rank == 0 ? nowhere : NULL;
    return MF_OK;
}

static mf_status move_prepare(mf_prepare *p)
{
    const mf_node *n = p->node;
    move_state *s = MF_ARENA_NEW(p->arena, move_state);

    if (!s)
        return MF_NOMEM("a move");
    s->key = mf_mesh_key(n);
    if (n->n_inputs > 0)
        MF_TRY(parcels_read(n, "from_shape", "to", "send", &s->send));
    if (n->n_outputs > 0)
        MF_TRY(parcels_read(n, "shape", "from", "receive", &s->receive));
    if (n->n_inputs > 0 && n->n_outputs > 0)
        MF_TRY(keep_read(n, s));
    p->state = s;
    return MF_OK;
}

/* ---- sending ---- */

static mf_status mesh_move_check_shape(const move_state *s, const mf_tensor *x)
{
    return mf_shape_equal(&x->shape, &s->send.shape)
               ? MF_OK
               : MF_FAIL(MF_INVALID_ARGUMENT, "the block does not have the shape of the attribute");
}

static mf_status mesh_move_send_all(const move_state *s, mf_mesh_link *l, const mf_tensor *x)
{
    for (int i = 0; i < s->send.n; i++) {
        mf_tensor piece = { 0 };
        mf_status st = mf_mesh_pack(x, mesh_move_box_of(&s->send, i), &piece);

        if (st == MF_OK)
            st = mf_mesh_send(l, (int)s->send.peers[i], s->key, &piece);
        mf_tensor_clear(&piece);
        MF_TRY(st);
    }
    return MF_OK;
}

static mf_status mesh_move_send_run(mf_kernel *k)
{
    mf_mesh_link *link = mf_mesh_link_of(k);

    if (!link)
        return MF_FAILED_PRECONDITION;
    MF_TRY(mesh_move_check_shape(k->state, k->in[0]));
    return mesh_move_send_all(k->state, link, k->in[0]);
}

/* ---- receiving ---- */

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

static mf_status mesh_move_keep(const move_state *s, const mf_tensor *x, mf_tensor *out)
{
    const int rank = s->send.shape.rank;
    const int64_t *size = s->keep + 2 * rank;
    mf_tensor piece = { 0 };
    mf_status st = mf_mesh_pack(x, (mf_mesh_box){ s->keep, size }, &piece);

    if (st == MF_OK)
        st = mf_mesh_unpack(&piece, (mf_mesh_box){ s->keep + rank, size }, out);
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
    if (k->n_in > 0)
        MF_TRY(mesh_move_check_shape(s, k->in[0]));
    MF_TRY(mf_kernel_out(k, 0, &s->receive.shape, &y));
    if (s->keep)
        MF_TRY(mesh_move_keep(s, k->in[0], y));
    w = mf_calloc(1, sizeof *w + (size_t)s->receive.n * sizeof *w->pieces);
    if (!w)
        return MF_NOMEM("a move");
    mf_mesh_wait_init(&w->base, k, s->receive.n + 1);
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
    for (int i = 0; i < s->receive.n; i++) {
        w->pieces[i] = (move_piece){ w, mesh_move_box_of(&s->receive, i) };
        w->base.link->kind->receive(w->base.link, (int)s->receive.peers[i], s->key, k->step->cancel,
                                    move_got, &w->pieces[i]);
    }
    mf_mesh_wait_less(&w->base,
                      k->n_in > 0 ? mesh_move_send_all(s, w->base.link, k->in[0]) : MF_OK);
}

const mf_op mf_ops_mesh_move[] = {
    /* Sends parts of a block and assembles a new block from received parts. send, receive: by peer,
     * begin and size of a box in the old and in the new block; keep: begin in each block and size
     * of the local part; keeps: there is a local part. */
    { .name = "_MeshMove",
      .def = "(x:T) -> (y:T) {T:type, id:int, from_shape:shape, shape:shape, to:list(int)>=0=[], "
             "send:list(int)>=0=[], from:list(int)>=0=[], receive:list(int)>=0=[], "
             "keep:list(int)>=0=[], keeps:bool=false} is_stateful",
      .flags = MF_OP_UNPLANNED | MF_OP_JOINT,
      .infer = mf_mesh_infer_shape,
      .grad = mf_grad_missing,
      .prepare = move_prepare,
      .start = move_start },
    /* Sends parts of a block to devices of another mesh: begin and size of a box for each. */
    { .name = "_MeshSend",
      .def = "(x:T) -> () {T:type, id:int, from_shape:shape, to:list(int)>=0=[], "
             "send:list(int)>=0=[]} is_stateful",
      .flags = MF_OP_UNPLANNED,
      .infer = mf_infer_none,
      .grad = mf_grad_missing,
      .prepare = move_prepare,
      .run = mesh_move_send_run },
    /* Assembles a block from parts of another mesh. */
    { .name = "_MeshReceive",
      .def = "() -> (y:T) {T:type, id:int, shape:shape, from:list(int)>=0=[], "
             "receive:list(int)>=0=[]} is_stateful",
      .flags = MF_OP_UNPLANNED, /* not joint: a received value may depend on another value that this
                                   device sends */
      .infer = mf_mesh_infer_shape,
      .grad = mf_grad_missing,
      .prepare = move_prepare,
      .start = move_start },
    { 0 },
};
