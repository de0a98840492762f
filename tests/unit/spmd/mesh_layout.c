/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_layout.c - meshes, blocks, and resharding from any layout to any other. */
#include "spmd/layout/mesh_layout.h"

#include "mf_test.h"
#include "spmd/layout/reshard_plan.h"

#include <stdlib.h>
#include <string.h>

static mf_mesh mesh(const char *text)
{
    mf_mesh m;

    T_OK(mf_mesh_parse(text, &m));
    return m;
}

MF_TEST(mesh_texts_are_parsed_or_rejected_with_the_reason)
{
    mf_mesh m = mesh("rows:2;cols:3");
    mf_layout_rules r;
    mf_meshes all;

    T_EQ(m.n, 6);
    T_STREQ(m.name[1], "cols");
    T_EQ(mf_mesh_at(&m, 5, 0), 1);
    T_EQ(mf_mesh_at(&m, 5, 1), 2);
    T_FAILS(MF_INVALID_ARGUMENT, "write axes and sizes", mf_mesh_parse("rows", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "cannot have the size '0'", mf_mesh_parse("rows:0", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "cannot have the size '2x'", mf_mesh_parse("rows:2x", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "two axes are named 'a'", mf_mesh_parse("a:2;a:3", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "no axes", mf_mesh_parse("", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "cannot have the size '3,0'", mf_mesh_parse("rows:3,0", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "cannot have the size '3,'", mf_mesh_parse("rows:3,", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "cannot have the size '-2'", mf_mesh_parse("rows:-2", &m));
    m = mesh("rows:2;cols:2");
    T_OK(mf_layout_rules_parse("batch:rows;hidden:cols", &r));
    T_EQ(mf_layout_rules_find(&r, &m, "hidden"), 2);
    T_EQ(mf_layout_rules_find(&r, &m, "other"), 0);
    T_FAILS(MF_INVALID_ARGUMENT, "no axis 'depth'",
            mf_meshes_parse("rows:2;cols:3", "batch:depth", &all, &r));
    T_FAILS(MF_INVALID_ARGUMENT, "is not a layout", mf_layout_rules_parse("batch", &r));
}

MF_TEST(mesh_specs_survive_printing)
{
    static const char *const texts[][2] = { { "rows:2;cols:3,1",
                                              "batch:rows;batch:cols;hidden:cols" },
                                            { "a:1 | b:4;c:2", "layers:a" },
                                            { "all:4", "" } };

    for (int i = 0; i < MF_COUNT(texts); i++) {
        mf_buf axes = { 0 }, layout = { 0 };
        mf_mesh_spec a, b;

        T_OK(mf_mesh_spec_parse(texts[i][0], texts[i][1], &a));
        mf_mesh_spec_text(&a, &axes, &layout);
        T_STREQ(axes.data, texts[i][0]);
        T_STREQ(layout.data, texts[i][1]);
        T_OK(mf_mesh_spec_parse(axes.data, layout.data, &b));
        T_EQ(b.n, a.n);
        for (int k = 0; k < a.n; k++)
            T_TRUE(mf_mesh_alike(&a.at[k], &b.at[k]));
        T_EQ(memcmp(&a.rules, &b.rules, sizeof a.rules), 0);
        mf_buf_deinit(&axes);
        mf_buf_deinit(&layout);
    }
}

/* Shard sizes of `size` along all axes of the mesh, in device order. */
static void pieces(const char *text, int64_t size, int64_t grain, int64_t *out)
{
    const mf_mesh m = mesh(text);
    const mf_layout_dim cut = { ((mf_axes)1 << m.n_axes) - 1, grain };
    int64_t at = 0;

    for (int p = 0; p < m.n; p++) {
        int64_t begin, end;

        mf_layout_piece(&m, cut, size, p, &begin, &end);
        T_EQ(begin, at);
        out[p] = end - begin;
        at = end;
    }
    T_EQ(at, size);
}

MF_TEST(mesh_axis_shares_determine_shard_sizes)
{
    static const char *const SAME[] = { "rows:3,1;cols:2", "rows:2", "a:5,2,1" };
    int64_t got[8];

    pieces("rows:3,1", 100, 1, got);
    T_EQ(got[0], 75);
    pieces("rows:3,1;cols:2", 7, 1, got);
    T_EQ(got[0] + got[1], 5);
    T_EQ(got[2], 1);
    pieces("rows:1000,1", 7, 1, got);
    T_EQ(got[1], 1);
    pieces("rows:1,1,1", 7, 1, got); /* equal shares are one size */
    T_EQ(got[0], 3);
    pieces("rows:3,1", 16, 4, got);
    T_EQ(got[0], 12);
    for (int i = 0; i < MF_COUNT(SAME); i++) {
        const mf_mesh m = mesh(SAME[i]);
        mf_buf text = { 0 };

        mf_mesh_text(&m, &text);
        T_STREQ(text.data, SAME[i]);
        mf_buf_deinit(&text);
    }
}

MF_TEST(mesh_shards_of_seven_over_three_are_three_two_two)
{
    int64_t n[8];

    pieces("a:3", 7, 1, n);
    T_EQ(n[0], 3);
    T_EQ(n[1], 2);
    T_EQ(n[2], 2);
    pieces("a:3", 7 * 64, 64, n); /* seven heads of 64 */
    T_EQ(n[0], 192);
    T_EQ(n[2], 128);
    pieces("a:4", 2, 1, n);
    T_EQ(n[1], 1);
    T_EQ(n[2], 0);
}

MF_TEST(mesh_shard_sizes_along_several_axes_differ_by_at_most_one)
{
    static const char *const meshes[] = { "a:2;b:2", "a:2;b:3", "a:3;b:2;c:2", "a:7", "a:5;b:2" };
    int64_t n[16] = { 0 };

    for (int k = 0; k < MF_COUNT(meshes); k++) {
        for (int64_t size = 0; size < 40; size++) {
            const mf_mesh m = mesh(meshes[k]);

            pieces(meshes[k], size, 1, n);
            for (int p = 0; p < m.n; p++)
                T_TRUE(n[p] == size / m.n || n[p] == (size + m.n - 1) / m.n);
        }
    }
}

/* ---- resharding ---- */

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static mf_layout random_layout(const mf_mesh *m, int rank, uint64_t *seed)
{
    mf_layout l = { 0 };

    for (int a = 0; a < m->n_axes; a++) {
        const int d = (int)(next(seed) % (uint64_t)(rank + 1));

        if (d < rank)
            l.dims[d] = (mf_layout_dim){ l.dims[d].axes | (mf_axes)1 << a, 1 };
    }
    return l;
}

/* Every device receives each missing element of its new block exactly once, from a device that has
 * it, and no other element. */
static void check_move(const mf_mesh *m, const mf_shape *shape, const mf_layout *from,
                       const mf_layout *to, int p)
{
    mf_arena *arena = mf_arena_new();
    mf_box *boxes = calloc((size_t)m->n, sizeof *boxes);
    const mf_box old = mf_layout_box(m, from, shape, p);
    int64_t got = 0, lacks;
    mf_box both;
    mf_reshard_plan move;

    for (int k = 0; k < m->n; k++)
        boxes[k] = mf_layout_box(m, to, shape, k);
    T_OK(mf_reshard_plan_make(m, from, shape, boxes, p, arena, &move));
    lacks = mf_box_count(&boxes[p], shape->rank);
    if (mf_box_cut(&old, &boxes[p], shape->rank, &both))
        lacks -= mf_box_count(&both, shape->rank);
    for (int i = 0; i < move.n_receive; i++) {
        const mf_reshard_part *r = &move.receive[i];
        const mf_box theirs = mf_layout_box(m, from, shape, r->peer);
        mf_reshard_plan other;
        int found = 0;

        got += mf_box_count(&r->box, shape->rank);
        T_OK(mf_reshard_plan_make(m, from, shape, boxes, r->peer, arena, &other));
        for (int k = 0; k < other.n_send; k++) { /* the sent box equals the received box */
            if (other.send[k].peer != p)
                continue;
            found++;
            for (int d = 0; d < shape->rank; d++) {
                T_EQ(other.send[k].box.begin[d] + theirs.begin[d],
                     r->box.begin[d] + boxes[p].begin[d]);
                T_EQ(other.send[k].box.size[d], r->box.size[d]);
            }
        }
        T_EQ(found, 1);
        for (int k = 0; k < i; k++)
            T_TRUE(!mf_box_cut(&r->box, &move.receive[k].box, shape->rank, &both));
        if (move.keeps)
            T_TRUE(!mf_box_cut(&r->box, &move.keep_to, shape->rank, &both));
    }
    T_EQ(got, lacks);
    free(boxes);
    mf_arena_free(arena);
}

MF_TEST(mesh_reshard_between_any_layouts_sends_the_fewest_bytes)
{
    static const char *const meshes[] = { "a:4", "a:2;b:2", "a:3;b:2", "a:2;b:2;c:2", "a:5" };
    uint64_t seed = 7;

    for (int round = 0; round < 600; round++) {
        const mf_mesh m = mesh(meshes[round % MF_COUNT(meshes)]);
        mf_shape shape = { .rank = (int)(next(&seed) % 4) };
        mf_layout from, to;

        for (int d = 0; d < shape.rank; d++)
            shape.dims[d] = (int64_t)(next(&seed) % 11);
        from = random_layout(&m, shape.rank, &seed);
        to = random_layout(&m, shape.rank, &seed);
        for (int p = 0; p < m.n; p++)
            check_move(&m, &shape, &from, &to, p);
    }
}

MF_TEST(mesh_partial_sums_are_reduce_scattered_to_sharded_targets)
{
    const mf_mesh m = mesh("rows:2;cols:2");
    const mf_shape shape = MF_SHAPE(100, 64);
    const mf_layout part = { .partial = 1, .how = MF_CUT_SUM }, cut = { .dims = { { 1, 1 } } },
                    whole = { 0 };
    mf_reduction r = mf_reduction_plan(&m, &part, &cut, &shape);

    T_EQ(r.scatter, 1);
    T_EQ(r.all, 0);
    T_TRUE(mf_layout_equal(&r.reduced, &cut));
    T_EQ(mf_reshard_elements(&m, &part, &shape, &cut), 3200);
    r = mf_reduction_plan(&m, &part, &whole, &shape);
    T_EQ(r.scatter, 0);
    T_EQ(r.all, 1);
    T_EQ(mf_reshard_elements(&m, &part, &shape, &whole), 6400);
    T_EQ(mf_reshard_elements(&m, &cut, &shape, &whole), 3200);
    T_EQ(mf_reshard_elements(&m, &whole, &shape, &cut), 0);
}

MF_TEST(mesh_stages_come_from_an_axis_or_a_list)
{
    mf_layout_rules r;
    mf_meshes m;

    T_OK(mf_meshes_parse("rows:2;stages:3", "layers:stages;batch:rows", &m, &r));
    T_EQ(m.n, 3);
    T_EQ(m.devices, 6);
    T_EQ(m.at[2].first, 4);
    T_EQ(mf_layout_rules_find(&r, &m.at[2], "batch"), 1);
    T_EQ(mf_meshes_of(&m, 3), 1);
    T_OK(mf_meshes_parse("rows:2;cols:2 | rows:3", "batch:rows;hidden:cols", &m, &r));
    T_EQ(m.n, 2);
    T_EQ(m.devices, 7);
    T_EQ(mf_layout_rules_find(&r, &m.at[1], "hidden"), 0);
    T_TRUE(!mf_mesh_alike(&m.at[0], &m.at[1]));
    T_FAILS(MF_INVALID_ARGUMENT, "cannot split 'batch'",
            mf_meshes_parse("a:2", "layers:a;batch:a", &m, &r));
    T_FAILS(MF_INVALID_ARGUMENT, "write axes and sizes", mf_meshes_parse("a:2 | b", "", &m, &r));
    T_FAILS(MF_INVALID_ARGUMENT, "at most 32", mf_meshes_parse("a:33", "layers:a", &m, &r));
}
