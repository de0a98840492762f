/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.c - bytes that a device sends and receives in a step. Counts what ops/dist/mesh_move.c
 * and ops/dist/mesh_reduce.c send. */
#include "planner/traffic.h"

#include "base/mem.h"
#include "graph/shard.h"
#include "graph/spmd_op.h"

#include <string.h>

static bool traffic_is_op(const mf_node *n, const char *op)
{
    return strcmp(n->op_name, op) == 0;
}

bool mf_node_is_collective(const mf_node *n)
{
    return traffic_is_op(n, "_MeshMove") || traffic_is_op(n, "_MeshReduce") ||
           traffic_is_op(n, "_MeshReceive");
}

/* Elements of box i in a list of begins and sizes. */
static int64_t box_count(const int64_t *list, int64_t i, int rank)
{
    return rank > 0 ? mf_mesh_box_count(list + (2 * i + 1) * rank, rank) : 1;
}

static int64_t traffic_cell_of(const mf_node *n)
{
    return (int64_t)mf_dtype_cell(mf_type_base(n->in_types[0]));
}

static void traffic_send(mf_traffic_counts *out, int64_t to, int64_t bytes)
{
    out->sent += bytes;
    out->to[to] += bytes;
}

/* Boxes of a block of this shape are sent. */
static void add_sends(const mf_node *n, const char *shape, mf_traffic_counts *out)
{
    int64_t n_to, size;
    const int64_t *to = mf_node_ints(n, "to", &n_to), *boxes = mf_node_ints(n, "send", &size);

    for (int64_t i = 0; i < n_to; i++)
        traffic_send(out, to[i],
                     traffic_cell_of(n) * box_count(boxes, i, mf_node_shape(n, shape)->rank));
}

/* Boxes are received. */
static void add_receives(const mf_node *n, mf_traffic_counts *out)
{
    const int64_t cell = (int64_t)mf_dtype_cell(mf_type_base(n->out_types[0]));
    int64_t n_from, size;
    const int64_t *from = mf_node_ints(n, "from", &n_from);
    const int64_t *boxes = mf_node_ints(n, "receive", &size);

    (void)from;
    for (int64_t i = 0; i < n_from; i++)
        out->received += cell * box_count(boxes, i, mf_node_shape(n, "shape")->rank);
}

/* A reduce-scatter: each member gets our part of its shard; an all-reduce also all-gathers the
 * shards. */
static void traffic_add_reduce(const mf_node *n, mf_traffic_counts *out)
{
    const mf_shape *shape = mf_node_shape(n, "from_shape");
    const int64_t index = mf_node_int(n, "index"), cell = traffic_cell_of(n);
    int64_t members, n_boxes, count = 0;
    const int64_t *who = mf_node_ints(n, "members", &members);
    const int64_t *boxes = mf_node_ints(n, "boxes", &n_boxes);
    bool direct;

    (void)!mf_shape_count(shape, &count);
    direct = n_boxes == 0 && count <= mf_node_int(n, "direct");
    for (int64_t i = 0; i < members; i++) {
        const int64_t piece =
            n_boxes > 0 ? box_count(boxes, i, shape->rank)
            : direct    ? count
                        : mf_shard_begin(count, members, i + 1) - mf_shard_begin(count, members, i);

        if (i == index) {
            out->received += cell * piece * (members - 1);
            for (int64_t k = 0; n_boxes == 0 && !direct && k < members; k++) {
                if (k != index)
                    traffic_send(out, who[k], cell * piece);
            }
        } else {
            traffic_send(out, who[i], cell * piece);
            if (n_boxes == 0 && !direct)
                out->received += cell * piece;
        }
    }
}

void mf_traffic_add(const mf_node *n, mf_traffic_counts *out)
{
    out->collectives += mf_node_is_collective(n);
    if (traffic_is_op(n, "_MeshReduce"))
        traffic_add_reduce(n, out);
    if (traffic_is_op(n, "_MeshMove"))
        add_sends(n, "shape", out);
    if (traffic_is_op(n, "_MeshSend"))
        add_sends(n, "from_shape", out);
    if (traffic_is_op(n, "_MeshMove") || traffic_is_op(n, "_MeshReceive"))
        add_receives(n, out);
}

mf_status mf_traffic_of(mf_node *const *order, int64_t n, int64_t n_ids, const int *part,
                        mf_traffic_counts *out)
{
    int64_t *depth = mf_calloc(n_ids + 1, sizeof *depth); /* by node id: collectives on the longest
                                                             path to it */

    if (!depth)
        return MF_NOMEM("a prediction");
    for (int64_t i = 0; i < n; i++) {
        const mf_node *node = order[i];
        mf_traffic_counts *its = &out[part[node->id]];
        int64_t d = 0;

        for (int k = 0; k < node->n_inputs + node->n_controls; k++) {
            const mf_node *from =
                k < node->n_inputs ? node->inputs[k].node : node->controls[k - node->n_inputs];

            if (part[from->id] == part[node->id] && depth[from->id] > d)
                d = depth[from->id];
        }
        mf_traffic_add(node, its);
        depth[node->id] = d + mf_node_is_collective(node);
        its->rounds = depth[node->id] > its->rounds ? depth[node->id] : its->rounds;
    }
    mf_free(depth);
    return MF_OK;
}
