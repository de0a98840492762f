/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - see layout.h. */
#include "mesh/layout.h"

#include "graph/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- meshes ---- */

/* "name:value" of a list separated by ';'. The rest is returned; NULL: it is not so. */
static const char *pair(const char *text, char name[MF_MESH_NAME], char value[MF_MESH_NAME])
{
    const size_t n = strcspn(text, ":;"), v = text[n] == ':' ? strcspn(text + n + 1, ";:") : 0;

    if (n == 0 || v == 0 || n >= MF_MESH_NAME || v >= MF_MESH_NAME || text[n + 1 + v] == ':')
        return NULL;
    memcpy(name, text, n);
    name[n] = '\0';
    memcpy(value, text + n + 1, v);
    value[v] = '\0';
    text += n + 1 + v;
    return text + (*text == ';');
}

static int axis_find(const mf_mesh *m, const char *name)
{
    for (int a = 0; a < m->n_axes; a++) {
        if (strcmp(m->name[a], name) == 0)
            return a;
    }
    return -1;
}

mf_status mf_mesh_parse(const char *text, mf_mesh *out)
{
    const char *at = text;

    *out = (mf_mesh){ .n = 1 };
    while (*at) {
        char size[MF_MESH_NAME], name[MF_MESH_NAME], *end;
        long n;

        at = pair(at, name, size);
        if (!at)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "'%s' is no mesh: write axes and sizes, as in \"rows:2;cols:2\"", text);
        n = strtol(size, &end, 10);
        if (*end || n < 1 || n > MF_MESH_PROCESSORS || out->n * n > MF_MESH_PROCESSORS)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "mesh '%s': axis '%s' cannot have the size '%s' (1 to %d processors)",
                           text, name, size, MF_MESH_PROCESSORS);
        if (out->n_axes == MF_MESH_AXES)
            return MF_FAIL(MF_INVALID_ARGUMENT, "mesh '%s': at most %d axes are possible", text,
                           MF_MESH_AXES);
        if (axis_find(out, name) >= 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "mesh '%s': two axes are called '%s'", text, name);
        memcpy(out->name[out->n_axes], name, sizeof name);
        out->size[out->n_axes++] = (int)n;
        out->n *= (int)n;
    }
    if (out->n_axes == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the mesh has no axes: write \"all:4\", for example");
    return MF_OK;
}

static int stride(const mf_mesh *m, int axis)
{
    int s = 1;

    for (int a = axis + 1; a < m->n_axes; a++)
        s *= m->size[a];
    return s;
}

int mf_mesh_at(const mf_mesh *m, int processor, int axis)
{
    return processor / stride(m, axis) % m->size[axis];
}

int mf_mesh_like(const mf_mesh *m, int processor, mf_axes axes, int there)
{
    for (int a = 0; a < m->n_axes; a++) {
        if (axes >> a & 1)
            processor += (mf_mesh_at(m, there, a) - mf_mesh_at(m, processor, a)) * stride(m, a);
    }
    return processor;
}

int mf_mesh_count(const mf_mesh *m, mf_axes axes)
{
    int n = 1;

    for (int a = 0; a < m->n_axes; a++)
        n *= axes >> a & 1 ? m->size[a] : 1;
    return n;
}

int mf_mesh_index(const mf_mesh *m, mf_axes axes, int processor)
{
    int i = 0;

    for (int a = 0; a < m->n_axes; a++) {
        if (axes >> a & 1)
            i = i * m->size[a] + mf_mesh_at(m, processor, a);
    }
    return i;
}

int mf_mesh_nth(const mf_mesh *m, mf_axes axes, int processor, int i)
{
    for (int a = m->n_axes - 1; a >= 0; a--) {
        if (axes >> a & 1) {
            processor += (i % m->size[a] - mf_mesh_at(m, processor, a)) * stride(m, a);
            i /= m->size[a];
        }
    }
    return processor;
}

/* ---- layouts ---- */

bool mf_layout_equal(const mf_layout *a, const mf_layout *b)
{
    if (a->partial != b->partial || (a->partial && a->how != b->how))
        return false;
    for (int d = 0; d < MF_MAX_RANK; d++) {
        if (a->dims[d].axes != b->dims[d].axes ||
            (a->dims[d].axes && a->dims[d].grain != b->dims[d].grain))
            return false;
    }
    return true;
}

mf_axes mf_layout_cuts(const mf_layout *l, int rank)
{
    mf_axes axes = 0;

    for (int d = 0; d < rank; d++)
        axes |= l->dims[d].axes;
    return axes;
}

bool mf_layout_is_whole(const mf_layout *l, int rank)
{
    return !l->partial && mf_layout_cuts(l, rank) == 0;
}

static void axes_text(const mf_mesh *m, mf_axes axes, mf_buf *out)
{
    const char *comma = "";

    for (int a = 0; a < m->n_axes; a++) {
        if (axes >> a & 1) {
            mf_buf_printf(out, "%s%s", comma, m->name[a]);
            comma = "+";
        }
    }
}

const char *mf_layout_text(const mf_mesh *m, const mf_layout *l, int rank,
                           char text[MF_LAYOUT_TEXT])
{
    static const char *const HOW[] = { "", "sum", "maximum", "minimum", "one" };
    mf_buf out = { 0 };

    mf_buf_str(&out, "[");
    for (int d = 0; d < rank; d++) {
        mf_buf_str(&out, d ? "," : "");
        axes_text(m, l->dims[d].axes, &out);
        if (!l->dims[d].axes)
            mf_buf_str(&out, ".");
        else if (l->dims[d].grain > 1)
            mf_buf_printf(&out, "*%lld", (long long)l->dims[d].grain);
    }
    mf_buf_str(&out, "]");
    if (l->partial) {
        mf_buf_printf(&out, " %s over ", HOW[l->how]);
        axes_text(m, l->partial, &out);
    }
    (void)snprintf(text, MF_LAYOUT_TEXT, "%s", out.data ? out.data : "");
    mf_buf_deinit(&out);
    return text;
}

void mf_layout_piece(const mf_mesh *m, mf_layout_dim cut, int64_t size, int processor,
                     int64_t *begin, int64_t *end)
{
    const int64_t grain = cut.axes && cut.grain > 1 ? cut.grain : 1;

    *begin = 0;
    *end = size / grain;
    for (int a = 0; a < m->n_axes; a++) {
        if (cut.axes >> a & 1) {
            const int64_t from = *begin, n = *end - from, at = mf_mesh_at(m, processor, a);

            *begin = from + mf_shard_begin(n, m->size[a], at);
            *end = from + mf_shard_begin(n, m->size[a], at + 1);
        }
    }
    *begin *= grain;
    *end *= grain;
}

mf_box mf_layout_box(const mf_mesh *m, const mf_layout *l, const mf_shape *shape, int processor)
{
    mf_box box = { 0 };

    for (int d = 0; d < shape->rank; d++) {
        int64_t end;

        mf_layout_piece(m, l->dims[d], shape->dims[d], processor, &box.begin[d], &end);
        box.size[d] = end - box.begin[d];
    }
    return box;
}

int64_t mf_box_count(const mf_box *b, int rank)
{
    int64_t n = 1;

    for (int d = 0; d < rank; d++)
        n *= b->size[d];
    return n;
}

bool mf_box_cut(const mf_box *a, const mf_box *b, int rank, mf_box *out)
{
    *out = (mf_box){ 0 };
    for (int d = 0; d < rank; d++) {
        const int64_t a_end = a->begin[d] + a->size[d], b_end = b->begin[d] + b->size[d];
        const int64_t end = a_end < b_end ? a_end : b_end;

        out->begin[d] = a->begin[d] > b->begin[d] ? a->begin[d] : b->begin[d];
        out->size[d] = end - out->begin[d];
        if (out->size[d] <= 0)
            return false;
    }
    return true;
}

/* ---- rules by names ---- */

mf_status mf_layout_rules_parse(const mf_mesh *m, const char *text, mf_layout_rules *out)
{
    const char *at = text ? text : "";

    *out = (mf_layout_rules){ 0 };
    while (*at) {
        char axis[MF_MESH_NAME], dim[MF_MESH_NAME];
        int a;

        at = pair(at, dim, axis);
        if (!at)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "'%s' is no layout: write dimensions and axes, as in "
                           "\"batch:rows;hidden:cols\"",
                           text);
        a = axis_find(m, axis);
        if (a < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "layout '%s': the mesh has no axis '%s'", text,
                           axis);
        for (int i = 0; i < out->n; i++) {
            if (out->axis[i] == a && strcmp(out->dim[i], dim) == 0)
                return MF_FAIL(MF_INVALID_ARGUMENT, "layout '%s': '%s:%s' is there twice", text,
                               dim, axis);
        }
        if (out->n == MF_MESH_RULES)
            return MF_FAIL(MF_INVALID_ARGUMENT, "layout '%s': at most %d rules are possible", text,
                           MF_MESH_RULES);
        memcpy(out->dim[out->n], dim, sizeof dim);
        out->axis[out->n++] = a;
    }
    return MF_OK;
}

mf_axes mf_layout_rules_find(const mf_layout_rules *r, const char *name)
{
    mf_axes axes = 0;

    for (int i = 0; i < r->n; i++) {
        if (strcmp(r->dim[i], name) == 0)
            axes |= (mf_axes)1 << r->axis[i];
    }
    return axes;
}
