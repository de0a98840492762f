/* SPDX-License-Identifier: Apache-2.0 */
/* ps_host_aggregate.c - workers of one host add their gradients before one of them pushes the sum.
 * A member sends one message: a head, its parts, the values of every part, the rows. */
#include "dist/param_server/ps_host_aggregate.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "collective/net_groups.h"
#include "dist/param_server/strategy_param_server.h"
#include "dist/step_flags.h"

#include <string.h>

/* ---- the group ---- */

enum { GROUP = 2 };

mf_status mf_ps_host_aggregate_open(mf_net *net, int n_workers, int n_servers, int64_t timeout_ns,
                                    mf_ps_host_aggregate *out)
{
    const int self = mf_net_self(net);
    int *members = mf_calloc(n_workers, sizeof *members), n = 0;
    bool far = false, neighbours = true;
    mf_status st = members ? MF_OK : MF_NOMEM("workers");

    *out = (mf_ps_host_aggregate){ .timeout_ns = timeout_ns };
    for (int s = 0; s < n_servers; s++)
        far |= !mf_net_same_host(net, self, n_workers + s);
    for (int w = 0; members && w < n_workers; w++) {
        if (!mf_net_same_host(net, self, w))
            continue;
        neighbours &= n == 0 || members[n - 1] == w - 1;
        members[n++] = w;
    }
    if (st == MF_OK && far && neighbours && n > 1)
        st = mf_group_auto(net, members, n, GROUP, &out->group);
    mf_free(members);
    return st;
}

void mf_ps_host_aggregate_close(mf_ps_host_aggregate *host_aggregate)
{
    mf_group_free(host_aggregate->group);
    host_aggregate->group = NULL;
}

static mf_collective call_of(const mf_ps_host_aggregate *host_aggregate, int64_t step,
                             const char *what)
{
    return (mf_collective){ .step = step,
                            .deadline_ns = mf_clock_ns() + host_aggregate->timeout_ns,
                            .what = what };
}

/* ---- a member's piece ---- */

typedef struct piece_head {
    int64_t n_parts, step_flags;
} piece_head;

static mf_status write_piece(const mf_push_pull_round *r, mf_buf *out)
{
    const piece_head head = { r->n_parts, r->step_flags };

    mf_buf_bytes(out, &head, sizeof head);
    mf_buf_bytes(out, r->parts, (size_t)r->n_parts * sizeof r->parts[0]);
    for (int v = 0; v < r->n_values && r->n_parts > 0; v++) {
        const mf_push_pull_round_value *x = &r->values[v];

        if (x->concat)
            mf_buf_bytes(out, &x->part[0].shape.dims[0], sizeof(int64_t));
        for (int p = 0; p < (x->concat ? 1 : r->n_parts); p++)
            mf_buf_bytes(out, x->part[p].data, mf_tensor_bytes(&x->part[p]));
    }
    return mf_buf_finish(out);
}

/* The messages of all members, decoded. */
typedef struct gathered {
    int n; /* members */
    const char *const *names; /* by member, like the fields below */
    mf_ps_reader *in;
    piece_head *heads;
    mf_reduction_tree_node (*parts)[MF_REDUCTION_TREE_PARTS];
} gathered;

static mf_status look_at_piece(gathered *g, int i)
{
    const void *head = mf_ps_reader_take(&g->in[i], 1, sizeof g->heads[i]), *parts = NULL;

    if (head)
        memcpy(&g->heads[i], head, sizeof g->heads[i]);
    if (head && g->heads[i].n_parts >= 0 && g->heads[i].n_parts <= MF_REDUCTION_TREE_PARTS)
        parts = mf_ps_reader_take(&g->in[i], g->heads[i].n_parts, sizeof(mf_reduction_tree_node));
    if (!parts)
        return MF_FAIL(MF_DATA_LOSS, "the sums of %s are invalid", g->names[i]);
    memcpy(g->parts[i], parts, (size_t)g->heads[i].n_parts * sizeof(mf_reduction_tree_node));
    return MF_OK;
}

/* ---- adding up ---- */

/* Do the parts cover all leaves from lo to hi? */
static mf_status check_covered(const gathered *g, int64_t leaves, int64_t lo, int64_t hi)
{
    mf_reduction_tree_part *parts =
        mf_calloc((int64_t)(g->n + 2) * MF_REDUCTION_TREE_PARTS, sizeof *parts);
    mf_reduction_tree_node others[2 * MF_REDUCTION_TREE_PARTS];
    int n_others = mf_reduction_tree_parts(leaves, 0, lo, others), n = 0;
    bool covered;

    if (!parts)
        return MF_NOMEM("a sum");
    n_others += mf_reduction_tree_parts(leaves, hi, leaves, others + n_others);
    for (int k = 0; k < n_others; k++)
        parts[n++].node = others[k];
    for (int i = 0; i < g->n; i++) {
        for (int64_t p = 0; p < g->heads[i].n_parts; p++)
            parts[n++].node = g->parts[i][p];
    }
    covered = mf_reduction_tree_covers(leaves, parts, n);
    mf_free(parts);
    if (!covered)
        return MF_FAIL(MF_DATA_LOSS, "the sums of %s to %s do not fit together", g->names[0],
                       g->names[g->n - 1]);
    return MF_OK;
}

/* All members together cover a few branches of the tree. */
static mf_status ps_host_aggregate_merge_parts(const gathered *g, int64_t leaves,
                                               mf_push_pull_round *all)
{
    int64_t lo = leaves, hi = 0;

    for (int i = 0; i < g->n; i++) {
        for (int64_t p = 0; p < g->heads[i].n_parts; p++) {
            const mf_reduction_tree_node *node = &g->parts[i][p];

            if (node->lo < 0 || node->lo >= node->hi || node->hi > leaves)
                return MF_FAIL(MF_DATA_LOSS, "%s has summed up shards %lld to %lld of %lld",
                               g->names[i], (long long)node->lo, (long long)node->hi,
                               (long long)leaves);
            lo = node->lo < lo ? node->lo : lo;
            hi = node->hi > hi ? node->hi : hi;
        }
        all->step_flags = mf_step_flags_join(all->step_flags, (int)g->heads[i].step_flags);
    }
    if (lo >= hi)
        return MF_OK;
    MF_TRY(check_covered(g, leaves, lo, hi));
    all->n_parts = mf_reduction_tree_parts(leaves, lo, hi, all->parts);
    return MF_OK;
}

static mf_status sum_value(gathered *g, int64_t leaves, mf_push_pull_round *all,
                           mf_push_pull_round_value *x)
{
    const int64_t count = mf_shape_span(&x->shape, 0, x->shape.rank);
    mf_reduction_tree_part *parts =
        mf_calloc((int64_t)g->n * MF_REDUCTION_TREE_PARTS, sizeof *parts);
    mf_status st = parts ? MF_OK : MF_NOMEM("a sum");
    int n = 0;

    for (int i = 0; i < g->n && st == MF_OK; i++) {
        for (int64_t p = 0; p < g->heads[i].n_parts; p++) {
            const void *data = mf_ps_reader_take(&g->in[i], count, mf_dtype_cell(x->dtype));

            parts[n++] = (mf_reduction_tree_part){ g->parts[i][p], data };
            if (!data)
                st = MF_FAIL(MF_DATA_LOSS, "a worker of this host has too few sums");
        }
    }
    for (int k = 0; k < all->n_parts && st == MF_OK; k++) {
        st = mf_tensor_alloc(&x->part[k], x->dtype, &x->shape);
        if (st == MF_OK)
            st = mf_reduction_tree_sum(leaves, all->parts[k], parts, n, x->dtype, count,
                                       x->part[k].data);
    }
    mf_free(parts);
    return st;
}

/* Worker after worker, as a server would. */
static mf_status join_value(gathered *g, mf_push_pull_round_value *x)
{
    const size_t row = (size_t)mf_shape_span(&x->shape, 1, x->shape.rank) * mf_dtype_cell(x->dtype);
    mf_buf rows = { 0 };
    int64_t total = 0;
    mf_status st;

    for (int i = 0; i < g->n; i++) {
        const void *count =
            g->heads[i].n_parts > 0 ? mf_ps_reader_take(&g->in[i], 1, sizeof(int64_t)) : NULL;
        const void *data;
        int64_t n = 0;

        if (count)
            memcpy(&n, count, sizeof n);
        data = mf_ps_reader_take(&g->in[i], n, row);
        if (data && n > 0)
            mf_buf_bytes(&rows, data, (size_t)n * row);
        total += data ? n : 0;
    }
    x->shape.dims[0] = total;
    st = mf_buf_finish(&rows);
    if (st == MF_OK)
        st = mf_tensor_alloc(&x->part[0], x->dtype, &x->shape);
    if (st == MF_OK && x->part[0].data && rows.len > 0)
        memcpy(x->part[0].data, rows.data, rows.len);
    mf_buf_deinit(&rows);
    return st;
}

static mf_status ps_host_aggregate_add_up(gathered *g, int64_t shards,
                                          const mf_push_pull_round *mine, mf_push_pull_round *all)
{
    const int64_t leaves = mine->samples < shards ? mine->samples : shards;

    MF_TRY(ps_host_aggregate_merge_parts(g, leaves, all));
    for (int v = 0; v < all->n_values; v++) {
        mf_push_pull_round_value *x = &all->values[v];

        x->concat = mine->values[v].concat;
        x->dtype = mine->values[v].dtype;
        x->shape = mine->values[v].shape;
        MF_TRY(x->concat ? join_value(g, x) : sum_value(g, leaves, all, x));
        x->shape = mine->values[v].shape;
    }
    for (int i = 0; i < g->n; i++) {
        if (g->in[i].bad || g->in[i].left > 0)
            return MF_FAIL(MF_DATA_LOSS, "a worker of this host has other values than this one");
    }
    return MF_OK;
}

/* ---- gathering ---- */

/* pieces: those of all other members, concatenated; sizes: of all. */
static mf_status ps_host_aggregate_look_at_all(const mf_group *group, const mf_buf *own,
                                               const char *pieces, const int64_t *sizes,
                                               gathered *g)
{
    g->n = group->size;
    g->names = group->names;
    g->in = mf_calloc(g->n, sizeof *g->in);
    g->heads = mf_calloc(g->n, sizeof *g->heads);
    g->parts = mf_calloc(g->n, sizeof *g->parts);
    if (!g->in || !g->heads || !g->parts)
        return MF_NOMEM("a sum");
    for (int i = 0; i < g->n; i++) {
        g->in[i] = (mf_ps_reader){ .at = i == 0 ? own->data : pieces,
                                   .left = i == 0 ? own->len : (size_t)sizes[i] };
        pieces += i == 0 ? 0 : sizes[i];
        MF_TRY(look_at_piece(g, i));
    }
    return MF_OK;
}

/* The first member gets the pieces of all others. Owns: mf_free(*pieces). */
static mf_status exchange(mf_ps_host_aggregate *host_aggregate, int64_t step, const mf_buf *own,
                          int64_t *sizes, char **pieces)
{
    const int n = host_aggregate->group->size;
    const mf_collective call = call_of(host_aggregate, step, "the gradients of a host");
    int64_t *matrix = mf_calloc((int64_t)n * n, sizeof *matrix), total = 0;
    mf_status st = matrix ? mf_group_sizes(host_aggregate->group, &call, (int64_t)own->len, sizes)
                          : MF_NOMEM("a sum");

    for (int i = 1; i < n && st == MF_OK; i++)
        total += matrix[(int64_t)i * n] = sizes[i];
    *pieces = mf_calloc((host_aggregate->group->rank == 0 ? total : 0) + 1, 1);
    if (st == MF_OK && !*pieces)
        st = MF_NOMEM("a sum");
    if (st == MF_OK)
        st = mf_all_to_all(host_aggregate->group, &call, own->data, matrix, *pieces);
    mf_free(matrix);
    return st;
}

mf_status mf_ps_host_aggregate_gather(mf_ps_host_aggregate *host_aggregate, int64_t shards,
                                      const mf_push_pull_round *mine, mf_push_pull_round *all)
{
    int64_t *sizes = mf_calloc(host_aggregate->group->size, sizeof *sizes);
    gathered g = { 0 };
    char *pieces = NULL;
    mf_buf own = { 0 };
    mf_status st = sizes ? write_piece(mine, &own) : MF_NOMEM("a sum");

    *all = (mf_push_pull_round){ .step = mine->step, .samples = mine->samples };
    if (st == MF_OK)
        st = exchange(host_aggregate, mine->step, &own, sizes, &pieces);
    if (st == MF_OK && host_aggregate->group->rank == 0) {
        st = mf_push_pull_round_init(all, mine->n_values, MF_REDUCTION_TREE_PARTS);
        if (st == MF_OK)
            st = ps_host_aggregate_look_at_all(host_aggregate->group, &own, pieces, sizes, &g);
        if (st == MF_OK)
            st = ps_host_aggregate_add_up(&g, shards, mine, all);
    }
    mf_free(g.in);
    mf_free(g.heads);
    mf_free(g.parts);
    mf_free(pieces);
    mf_free(sizes);
    mf_buf_deinit(&own);
    return st;
}

/* ---- sharing ---- */

static mf_status share_value(mf_ps_host_aggregate *host_aggregate, const mf_collective *call,
                             mf_push_pull_round_value *x)
{
    mf_shape shape = x->shape;

    if (x->concat) {
        if (host_aggregate->group->rank == 0)
            shape.dims[0] = x->result.shape.dims[0];
        MF_TRY(mf_broadcast(host_aggregate->group, call, 0, &shape.dims[0], sizeof shape.dims[0]));
    }
    if (host_aggregate->group->rank != 0) {
        mf_tensor_clear(&x->result);
        MF_TRY(mf_tensor_alloc(&x->result, x->dtype, &shape));
    }
    return mf_broadcast(host_aggregate->group, call, 0, x->result.data,
                        (int64_t)mf_tensor_bytes(&x->result));
}

mf_status mf_ps_host_aggregate_share(mf_ps_host_aggregate *host_aggregate, mf_push_pull_round *r,
                                     int *step_flags)
{
    const mf_collective call = call_of(host_aggregate, r->step, "the new weights");
    int64_t word = *step_flags;

    MF_TRY(mf_broadcast(host_aggregate->group, &call, 0, &word, sizeof word));
    *step_flags = (int)word;
    for (int v = 0; v < r->n_values; v++)
        MF_TRY(share_value(host_aggregate, &call, &r->values[v]));
    return MF_OK;
}
