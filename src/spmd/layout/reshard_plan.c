/* SPDX-License-Identifier: Apache-2.0 */
/* reshard_plan.c - plans resharding: reduce-scatter, all-gather or point-to-point moves between two
 * layouts. */
#include "spmd/layout/reshard_plan.h"

MF_PARAM_INT(mesh_direct_reduce_elements, 1024,
             "largest reduction, in elements, that each device computes completely "
             "in one round");

/* ---- reductions ---- */

/* True if `axes` come after all axes of `before`: shards along `axes` are parts of shards along
 * `before`. */
static bool reshard_plan_is_behind(mf_axes before, mf_axes axes)
{
    return before == 0 || (axes & (((mf_axes)2 << (31 - __builtin_clz(before))) - 1)) == 0;
}

/* Axes along which `to` splits a dimension further and which still have to be reduced; 0: the
 * dimension cannot be reduce-scattered. */
static mf_axes scatter_dim(const mf_layout *from, mf_layout_dim a, mf_layout_dim b)
{
    const mf_axes more = b.axes & ~a.axes;

    if ((a.axes & ~b.axes) || !more || (more & ~from->partial) ||
        !reshard_plan_is_behind(a.axes, more) || (a.axes && a.grain != b.grain))
        return 0;
    return more;
}

mf_reduction mf_reduction_plan(const mf_mesh *m, const mf_layout *from, const mf_layout *to,
                               const mf_shape *shape)
{
    mf_reduction r = { .scattered = *from };

    (void)m;
    for (int d = 0; d < shape->rank; d++) {
        const mf_axes more = scatter_dim(from, from->dims[d], to->dims[d]);

        if (more) {
            r.scatter |= more;
            r.scattered.dims[d] = to->dims[d];
        }
    }
    r.scattered.partial &= ~r.scatter;
    r.all = r.scattered.partial;
    r.reduced = r.scattered;
    r.reduced.partial = 0;
    return r;
}

/* ---- moves ---- */

static mf_box reshard_plan_relative(const mf_box *part, const mf_box *block, int rank)
{
    mf_box r = *part;

    for (int d = 0; d < rank; d++)
        r.begin[d] -= block->begin[d];
    return r;
}

mf_status mf_reshard_plan_make(const mf_mesh *m, const mf_layout *from, const mf_shape *shape,
                               const mf_box *to, int device, mf_arena *arena, mf_reshard_plan *out)
{
    const mf_axes cuts = mf_layout_cuts(from, shape->rank);
    const mf_box mine = mf_layout_box(m, from, shape, device);
    const int n = mf_mesh_count(m, cuts);
    mf_box part;

    *out = (mf_reshard_plan){ .send = MF_ARENA_ARRAY(arena, mf_reshard_part, n),
                              .receive = MF_ARENA_ARRAY(arena, mf_reshard_part, n) };
    if (!out->send || !out->receive)
        return MF_NOMEM("a new layout");
    for (int i = 0; i < n; i++) {
        const int peer = mf_mesh_nth(m, cuts, device, i);
        const mf_box theirs = mf_layout_box(m, from, shape, peer);

        if (peer == device)
            continue;
        if (mf_box_cut(&mine, &to[peer - m->first], shape->rank, &part))
            out->send[out->n_send++] =
                (mf_reshard_part){ peer, reshard_plan_relative(&part, &mine, shape->rank) };
        if (mf_box_cut(&theirs, &to[device - m->first], shape->rank, &part))
            out->receive[out->n_receive++] =
                (mf_reshard_part){ peer, reshard_plan_relative(&part, &to[device - m->first],
                                                               shape->rank) };
    }
    out->keeps = mf_box_cut(&mine, &to[device - m->first], shape->rank, &part);
    if (out->keeps) {
        out->keep_from = reshard_plan_relative(&part, &mine, shape->rank);
        out->keep_to = reshard_plan_relative(&part, &to[device - m->first], shape->rank);
    }
    return MF_OK;
}

/* The device of `a` that serves a device of `b`: the device itself, or one of several devices with
 * the same shard, so that requests are spread over them. */
static int serving_device(const mf_mesh *a, const mf_mesh *b, int device)
{
    if (mf_mesh_has(a, device))
        return device;
    return a->first + (device - b->first) % a->n;
}

static void plan_receiving(const mf_cross_mesh *c, int device, mf_reshard_plan *out)
{
    const mf_axes cuts = mf_layout_cuts(c->from, c->shape->rank);
    const mf_box mine = mf_layout_box(c->b, c->to, c->shape, device);
    mf_box part;

    for (int i = 0; i < mf_mesh_count(c->a, cuts); i++) {
        const int peer = mf_mesh_nth(c->a, cuts, serving_device(c->a, c->b, device), i);
        const mf_box theirs = mf_layout_box(c->a, c->from, c->shape, peer);

        if (!mf_box_cut(&theirs, &mine, c->shape->rank, &part))
            continue;
        if (peer == device) {
            out->keeps = true;
            out->keep_from = reshard_plan_relative(&part, &theirs, c->shape->rank);
            out->keep_to = reshard_plan_relative(&part, &mine, c->shape->rank);
        } else
            out->receive[out->n_receive++] =
                (mf_reshard_part){ peer, reshard_plan_relative(&part, &mine, c->shape->rank) };
    }
}

static void plan_sending(const mf_cross_mesh *c, int device, mf_reshard_plan *out)
{
    const mf_axes cuts = mf_layout_cuts(c->from, c->shape->rank);
    const mf_box mine = mf_layout_box(c->a, c->from, c->shape, device);
    const int index = mf_mesh_index(c->a, cuts, device);
    mf_box part;

    for (int peer = c->b->first; peer < c->b->first + c->b->n; peer++) {
        const mf_box theirs = mf_layout_box(c->b, c->to, c->shape, peer);

        if (peer != device &&
            mf_mesh_nth(c->a, cuts, serving_device(c->a, c->b, peer), index) == device &&
            mf_box_cut(&mine, &theirs, c->shape->rank, &part))
            out->send[out->n_send++] =
                (mf_reshard_part){ peer, reshard_plan_relative(&part, &mine, c->shape->rank) };
    }
}

mf_status mf_cross_mesh_plan(const mf_cross_mesh *c, int device, mf_arena *arena,
                             mf_reshard_plan *out)
{
    *out = (mf_reshard_plan){ .send = MF_ARENA_ARRAY(arena, mf_reshard_part, c->b->n),
                              .receive = MF_ARENA_ARRAY(arena, mf_reshard_part, c->a->n) };
    if (!out->send || !out->receive)
        return MF_NOMEM("a cross-mesh plan");
    if (mf_mesh_has(c->b, device))
        plan_receiving(c, device, out);
    if (mf_mesh_has(c->a, device))
        plan_sending(c, device, out);
    return MF_OK;
}

/* Elements of its new block that a device has to receive. */
static int64_t missing_elements(const mf_mesh *m, const mf_layout *from, const mf_shape *shape,
                                const mf_layout *to, int device)
{
    const mf_box a = mf_layout_box(m, from, shape, device), b = mf_layout_box(m, to, shape, device);
    mf_box both;
    const int64_t n = mf_box_count(&b, shape->rank);

    return mf_box_cut(&a, &b, shape->rank, &both) ? n - mf_box_count(&both, shape->rank) : n;
}

/* Above this number of devices only a sample is examined: shard sizes differ by at most one. */
enum { MOST_ASKED = 64 };

/* Along all other axes, devices hold the same data before and after. */
static mf_axes reshard_plan_axes_of(const mf_layout *from, const mf_layout *to, int rank)
{
    return from->partial | mf_layout_cuts(from, rank) | mf_layout_cuts(to, rank);
}

bool mf_reshard_is_local(const mf_mesh *m, const mf_layout *from, const mf_shape *shape,
                         const mf_layout *to)
{
    const mf_axes axes = reshard_plan_axes_of(from, to, shape->rank);
    const int n = mf_mesh_count(m, axes);

    for (int i = 0; i < n; i++) {
        const int p = mf_mesh_nth(m, axes, m->first, i);
        const mf_box a = mf_layout_box(m, from, shape, p), b = mf_layout_box(m, to, shape, p);

        for (int d = 0; d < shape->rank; d++) {
            if (b.size[d] > 0 &&
                (b.begin[d] < a.begin[d] || b.begin[d] + b.size[d] > a.begin[d] + a.size[d]))
                return false;
        }
    }
    return true;
}

/* Elements that a device receives for the sum of n blocks of `block` elements, of which each device
 * keeps a shard or all. */
static int64_t reduce_elements(int64_t block, int n, bool all)
{
    if (!all)
        return block * (n - 1);
    return block <= MF_REDUCE_DIRECT ? block * (n - 1) : 2 * block * (n - 1) / n;
}

int64_t mf_reshard_elements(const mf_mesh *m, const mf_layout *from, const mf_shape *shape,
                            const mf_layout *to)
{
    const mf_reduction r = mf_reduction_plan(m, from, to, shape);
    const mf_axes axes = reshard_plan_axes_of(from, to, shape->rank);
    const int different = mf_layout_equal(from, to) ? 0 : mf_mesh_count(m, axes);
    int64_t most = 0;

    for (int i = 0; i < different; i += 1 + different / MOST_ASKED) {
        const int p = mf_mesh_nth(m, axes, m->first, i);
        const mf_box block = mf_layout_box(m, &r.scattered, shape, p);
        const int64_t n = mf_box_count(&block, shape->rank);
        int64_t sum = missing_elements(m, &r.reduced, shape, to, p);

        if (r.scatter)
            sum += reduce_elements(n, mf_mesh_count(m, r.scatter), false);
        if (r.all)
            sum += reduce_elements(n, mf_mesh_count(m, r.all), true);
        most = sum > most ? sum : most;
    }
    return most;
}
