/* SPDX-License-Identifier: Apache-2.0 */
/* link_speed.c - measures and models the time of collectives between devices. A graph sums over a
 * sharded dimension several times: one sum after the other, or all at once. */
#include "planner/link_speed.h"

#include "base/clock.h"
#include "graph/op.h"

#include <meshflow/mesh.h>

#include <math.h>
#include <stdio.h>

enum { SMALL = 64, LARGE = 1 << 17, SUMS = 8, LARGE_SUMS = 3, RUNS = 40 };

typedef struct link_speed_bench {
    int devices, threads;
    const mf_link_peers *team; /* NULL: all devices are in this process */
    int64_t width; /* elements of a sum */
    int sums;
    bool at_once;
} link_speed_bench;

/* A replicated result: an all-reduce, because dimension 0 is sharded over all devices. */
static mf_output sum_all(mf_graph *g, mf_output x)
{
    const mf_output y = mf_apply(g, "Sum", MF_IN(x, mf_ints(g, (int64_t[]){ 0 }, 1)));

    mf_name_dims(g, y, "whole");
    return y;
}

static mf_output mul(mf_graph *g, mf_output a, mf_output b)
{
    return mf_apply(g, "Mul", MF_IN(a, b));
}

/* Squares: otherwise the sums could be merged into one. */
static mf_output sums_at_once(mf_graph *g, const link_speed_bench *b, mf_output x)
{
    mf_output y = { 0 };

    for (int i = 0; i < b->sums; i++) {
        const mf_output part = mul(g, x, mf_scalar(g, MF_DTYPE_F32, 2.0 + i));
        const mf_output z = mf_apply(g, "Square", MF_IN(sum_all(g, part)));

        y = y.node ? mf_apply(g, "AddV2", MF_IN(y, z)) : z;
    }
    return y;
}

static mf_output sums_in_turn(mf_graph *g, const link_speed_bench *b, mf_output x, mf_output ones)
{
    mf_output y = x;

    for (int i = 0; i < b->sums; i++)
        y = mul(g, ones, sum_all(g, y));
    return y;
}

static mf_status link_speed_build(mf_graph *g, const link_speed_bench *b)
{
    const mf_output fed =
        mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[%d,%lld] name='x'",
                  b->devices, (long long)b->width);
    const mf_output x = mf_apply(g, "Square", MF_IN(fed)); /* feeds are replicated */
    const mf_output ones = mf_applyf(g, "Placeholder", MF_NO_IN,
                                     "dtype=float shape=shape[%d,1] name='ones'", b->devices);
    mf_output y;

    mf_name_dims(g, x, "cut,");
    mf_name_dims(g, ones, "cut,");
    y = b->at_once ? sums_at_once(g, b, x) : sums_in_turn(g, b, x, ones);
    y = mf_apply(g, "Square", MF_IN(y));
    (void)mf_applyf(g, "NoOp", MF_NO_IN, "name='run'");
    if (y.node)
        mf_control(g, mf_graph_find(g, "run"), y.node);
    return mf_graph_status(g);
}

static mf_status ones_of(int64_t rows, int64_t width, mf_tensor **out)
{
    MF_TRY(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ rows, width }, 2, out));
    for (int64_t i = 0; i < (*out)->count; i++)
        ((float *)(*out)->data)[i] = 1.0f / (float)rows;
    return MF_OK;
}

/* The shortest of several runs. */
static mf_status link_speed_run(mf_session *s, const mf_tensor *x, const mf_tensor *ones,
                                double *ns)
{
    static const char *const names[] = { "x", "ones" }, *const target = "run";
    const mf_tensor *feeds[] = { x, ones };

    *ns = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        const int64_t begin = mf_clock_ns();
        double took;

        MF_TRY(mf_session_run(s, NULL, names, feeds, 2, NULL, 0, &target, 1, NULL));
        took = (double)(mf_clock_ns() - begin);
        *ns = i > 0 && took < *ns ? took : *ns;
    }
    return MF_OK;
}

static mf_status open_session(const link_speed_bench *b, const mf_graph *g, mf_session **out)
{
    mf_mesh_setup setup = { .n = b->devices };
    mf_mesh all = { .n = 1 };
    mf_mesh_spec spec;

    if (b->team)
        setup = *b->team->setup;
    setup.session.threads = b->threads;
    mf_mesh_add_axis(&all, "all", b->devices);
    mf_mesh_spec_one(&all, &spec);
    MF_TRY(mf_layout_rules_add(&spec.rules, "cut", "all"));
    MF_TRY(mf_mesh_spec_expand(&spec, &setup.meshes));
    setup.rules = spec.rules;
    return mf_mesh_session_make(g, &setup, out);
}

static mf_status link_speed_measure(const link_speed_bench *b, double *ns)
{
    mf_graph *g = NULL;
    mf_session *s = NULL;
    mf_tensor *x = NULL, *ones = NULL;
    mf_status st;

    st = mf_graph_new(&g);
    if (st == MF_OK)
        st = link_speed_build(g, b);
    if (st == MF_OK)
        st = open_session(b, g, &s);
    if (st == MF_OK)
        st = ones_of(b->devices, b->width, &x);
    if (st == MF_OK)
        st = ones_of(b->devices, 1, &ones);
    if (st == MF_OK)
        st = link_speed_run(s, x, ones, ns);
    mf_tensor_free(x);
    mf_tensor_free(ones);
    mf_session_free(s);
    mf_graph_free(g);
    if (st == MF_OK && b->team) /* barrier: no process sends for the next session before all have
                                   ended this one */
        st = b->team->barrier(b->team->ctx);
    return st;
}

static double link_speed_above(double x, double least)
{
    return x > least ? x : least;
}

static mf_status measure_all(const link_speed_bench *b, mf_links *out)
{
    link_speed_bench small = *b, wide = *b, large = *b;
    double none, in_turn, at_once, bytes;

    *out = (mf_links){ 0 };
    MF_TRY(link_speed_measure(b, &none));
    out->step_ns = none;
    if (b->devices == 1)
        return MF_OK;
    small.sums = wide.sums = SUMS;
    wide.at_once = true;
    large.sums = LARGE_SUMS;
    large.width = LARGE;
    MF_TRY(link_speed_measure(&small, &in_turn));
    MF_TRY(link_speed_measure(&wide, &at_once));
    out->round_ns = link_speed_above((in_turn - none) / SUMS, 100);
    out->collective_ns = link_speed_above((at_once - none - out->round_ns) / (SUMS - 1), 100);
    MF_TRY(link_speed_measure(&large, &in_turn));
    bytes = (double)LARGE_SUMS * 4 * 2 * LARGE * (b->devices - 1);
    out->byte_ns = link_speed_above((in_turn - none - LARGE_SUMS * out->round_ns) / bytes, 1e-3);
    return MF_OK;
}

mf_status mf_links_measure(int devices, int threads, mf_links *out)
{
    return measure_all(
        &(link_speed_bench){ .devices = devices, .threads = threads, .width = SMALL }, out);
}

mf_status mf_links_measure_together(const mf_link_peers *team, mf_links *out)
{
    return measure_all(&(link_speed_bench){ .devices = team->setup->meshes.devices,
                                            .threads = team->setup->session.threads,
                                            .team = team,
                                            .width = SMALL },
                       out);
}
