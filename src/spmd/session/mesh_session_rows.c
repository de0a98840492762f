/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_session_rows.c - finds the samples of a batch that the local devices read. Lowering assumes
 * whole feeds and slices them; if slices are their only use here, rows outside all slices need not
 * be fed. */
#include "base/mem.h"
#include "spmd/session/mesh_session_private.h"

#include <stdio.h>
#include <string.h>

/* A node that reads a feed: rows [begin, end) of the batch. */
typedef struct mesh_session_rows_reading {
    mf_node *n;
    mf_node *feed; /* NULL: it reads no feed of rows */
    int64_t begin, end;
    bool slice; /* a slice of the feed or of its rows: may be narrowed */
    bool rows; /* a row range itself: its readers count */
} mesh_session_rows_reading;

static bool mesh_session_rows_is_op(const mf_node *n, const char *op)
{
    return strcmp(n->op_name, op) == 0;
}

/* True for one of the run's first n_rows feeds. */
static bool is_fed_in_rows(const mf_mesh_run *r, const mf_node *n)
{
    if (!mesh_session_rows_is_op(n, "Placeholder"))
        return false;
    for (int k = 0; k < r->n_rows; k++) {
        if (strcmp(n->name, r->feeds[k]) == 0)
            return true;
    }
    return false;
}

/* The value of input i; NULL: not a constant. */
static const mf_tensor *mesh_session_rows_constant(const mf_node *n, int i)
{
    const mf_node *in = n->inputs[i].node;
    const mf_attr *a = mesh_session_rows_is_op(in, "Const") ? mf_node_attr(in, "value") : NULL;

    return a ? a->tensor : NULL;
}

static void read_slice_bounds(mesh_session_rows_reading *at)
{
    const mf_tensor *begin = mesh_session_rows_constant(at->n, 1),
                    *size = mesh_session_rows_constant(at->n, 2);
    int64_t first, rows;

    if (!begin || !size || begin->count < 1 || size->count < 1)
        return;
    first = mf_tensor_int_at(begin, 0);
    rows = mf_tensor_int_at(size, 0);
    if (first < 0 || first > at->end - at->begin || rows > at->end - at->begin - first)
        return; /* the kernel reports the error */
    for (int64_t d = 1; d < size->count; d++) { /* an empty slice needs no rows */
        if (mf_tensor_int_at(size, d) == 0)
            rows = 0;
    }
    at->slice = true;
    at->begin += first;
    at->end = rows < 0 ? at->end : at->begin + rows;
}

/* What the node reads through its input k. */
static mesh_session_rows_reading mesh_session_rows_read(const mf_mesh_run *r, mf_node *n, int k,
                                                        int64_t whole)
{
    mf_node *in = n->inputs[k].node;
    mesh_session_rows_reading at = { .n = n, .end = whole };

    if (mesh_session_rows_is_op(in, "_Rows") && is_fed_in_rows(r, in->inputs[0].node)) {
        at.feed = in->inputs[0].node;
        at.begin = mf_node_int(in, "from");
        at.end = mf_node_int(in, "to");
    } else if (is_fed_in_rows(r, in)) {
        at.feed = in;
        at.rows = mesh_session_rows_is_op(n, "_Rows");
    }
    if (at.feed && k == 0 && mesh_session_rows_is_op(n, "Slice"))
        read_slice_bounds(&at);
    return at;
}

static mf_status add_readings(mf_mesh_run *r, const mf_graph *g, int64_t whole)
{
    for (int64_t i = 0; i < g->n_nodes; i++) {
        for (int k = 0; k < g->nodes[i]->n_inputs; k++) {
            const mesh_session_rows_reading at = mesh_session_rows_read(r, g->nodes[i], k, whole);

            if (at.feed && !at.rows)
                MF_TRY(mf_ranges_add(&r->rows, at.begin, at.end));
        }
    }
    return MF_OK;
}

/* ---- shrink feeds ---- */

static mf_status set_int(mf_graph *g, mf_node *n, const char *name, int64_t value)
{
    const mf_attr a = { .kind = MF_ATTR_INT, .n = 1, .i = value };

    return mf_node_set_attr(g, n, name, &a);
}

/* Moves the start of a slice to the position of its rows in the packed feed. */
static mf_status shift_slice(const mf_mesh_run *r, mf_graph *g, const mesh_session_rows_reading *at)
{
    const mf_tensor *begin = mesh_session_rows_constant(at->n, 1);
    mf_tensor moved = { 0 };
    const mf_status st = mf_tensor_clone(&moved, begin);

    if (st != MF_OK)
        return st;
    mf_tensor_put(&moved, 0,
                  at->begin < at->end ? (double)mf_ranges_before(&r->rows, at->begin) : 0);
    at->n->inputs[0] = (mf_output){ at->feed, 0 };
    at->n->inputs[1] = mf_constant(g, &moved, NULL);
    mf_tensor_clear(&moved);
    return mf_graph_status(g);
}

/* The same for row ranges that are read completely: their rows are contiguous in the packed feed.
 */
static mf_status shift_rows(const mf_mesh_run *r, mf_graph *g, mf_node *rows)
{
    const int64_t from = mf_ranges_before(&r->rows, mf_node_int(rows, "from")),
                  to = mf_ranges_before(&r->rows, mf_node_int(rows, "to"));

    MF_TRY(set_int(g, rows, "from", from));
    return set_int(g, rows, "to", to);
}

static mf_status shrink_feed(mf_graph *g, mf_node *feed, int64_t rows)
{
    const mf_shape *known = mf_node_shape(feed, "shape");
    mf_attr a = { .kind = MF_ATTR_SHAPE, .n = 1, .shape = MF_ARENA_NEW(g->arena, mf_shape) };

    if (!a.shape)
        return MF_NOMEM("a feed");
    *a.shape = *known;
    a.shape->dims[0] = rows;
    return mf_node_set_attr(g, feed, "shape", &a);
}

static mf_status shrink(const mf_mesh_run *r, mf_graph *g, int64_t whole)
{
    const int64_t n = g->n_nodes, rows = mf_ranges_count(&r->rows);

    for (int64_t i = 0; i < n; i++) { /* slices first: _Rows nodes still hold the old positions */
        const mesh_session_rows_reading at = g->nodes[i]->n_inputs > 0
                                                 ? mesh_session_rows_read(r, g->nodes[i], 0, whole)
                                                 : (mesh_session_rows_reading){ 0 };

        if (at.feed && at.slice)
            MF_TRY(shift_slice(r, g, &at));
    }
    for (int64_t i = 0; i < n; i++) {
        mf_node *node = g->nodes[i];

        if (mesh_session_rows_is_op(node, "_Rows") && is_fed_in_rows(r, node->inputs[0].node))
            MF_TRY(shift_rows(r, g, node));
    }
    for (int64_t i = 0; i < n; i++) {
        if (is_fed_in_rows(r, g->nodes[i]))
            MF_TRY(shrink_feed(g, g->nodes[i], rows));
    }
    return MF_OK;
}

mf_status mf_mesh_run_shrink_feeds(mf_mesh_run *r)
{
    const int64_t whole = r->n_rows > 0 ? r->shapes[0].dims[0] : 0;

    mf_ranges_deinit(&r->rows);
    for (int i = 0; r->n_rows > 0 && i < r->n; i++)
        MF_TRY(add_readings(r, r->graphs[i], whole));
    if (r->n_rows == 0 || mf_ranges_count(&r->rows) == whole)
        return MF_OK;
    for (int i = 0; i < r->n; i++)
        MF_TRY(shrink(r, r->graphs[i], whole));
    return MF_OK;
}

mf_status mf_mesh_run_check_feeds(const mf_mesh_run *r, const mf_tensor *const *feeds)
{
    const int64_t rows = mf_ranges_count(&r->rows);

    for (int k = 0; k < r->n_rows; k++) {
        if (feeds[k]->shape.rank < 1 || feeds[k]->shape.dims[0] != rows)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "local devices read %lld samples of the batch, but %lld are fed",
                           (long long)rows,
                           (long long)(feeds[k]->shape.rank < 1 ? 0 : feeds[k]->shape.dims[0]));
    }
    return MF_OK;
}

/* ---- interface ---- */

void mf_mesh_session_feed_rows(mf_session *base, int n, int64_t whole)
{
    mf_mesh_session *s = mf_mesh_session_of(base);

    pthread_mutex_lock(&s->lock);
    s->n_rows = n;
    s->whole = whole;
    pthread_mutex_unlock(&s->lock);
}

mf_status mf_mesh_session_rows(mf_session *base, const mf_run_names *names,
                               const mf_tensor *const *feeds, int n, int64_t whole, mf_ranges *out)
{
    mf_mesh_session *s = mf_mesh_session_of(base);
    mf_mesh_run *r = NULL;
    mf_status st;

    *out = (mf_ranges){ 0 };
    pthread_mutex_lock(&s->lock);
    s->n_rows = n;
    s->whole = whole;
    st = mf_mesh_find_run(s, names, feeds, &r);
    s->n_rows = 0;
    if (st == MF_OK)
        st = mf_ranges_copy(&r->rows, out);
    pthread_mutex_unlock(&s->lock);
    return st;
}
