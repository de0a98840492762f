/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_layout.c - layouts of tensors on a mesh: parsing, shard boxes, comparison. */
#include "spmd/layout/mesh_layout.h"

#include "graph/shard.h"
#include "graph/spmd_op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- meshes ---- */

enum { VALUE = MF_MESH_SHARES * 8 };

/* Parses one "name:value" of a list separated by ';'; the value is shorter than `size`. Returns the
 * rest of the text, or NULL when it does not parse. */
static const char *pair(const char *text, char name[MF_MESH_NAME], char *value, size_t size)
{
    const size_t n = strcspn(text, ":;"), v = text[n] == ':' ? strcspn(text + n + 1, ";:") : 0;

    if (n == 0 || v == 0 || n >= MF_MESH_NAME || v >= size || text[n + 1 + v] == ':')
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

/* "3,1": one share per index of the axis. Returns false when it does not parse. */
static bool read_shares(const char *text, int32_t before[MF_MESH_SHARES + 1], int *n)
{
    for (*n = 0; *n < MF_MESH_SHARES; text++) {
        char *end;
        const long share = strtol(text, &end, 10);

        if (end == text || share < 1 || share > MF_MESH_SHARE)
            return false;
        before[*n + 1] = before[*n] + (int32_t)share;
        ++*n;
        text = end;
        if (!*text)
            return true;
        if (*text != ',')
            return false;
    }
    return false;
}

/* Equal shares are the same as no shares: only the size counts. */
static void drop_equal(int32_t before[MF_MESH_SHARES + 1], int n)
{
    for (int i = 1; i < n; i++) {
        if (before[i + 1] - before[i] != before[1])
            return;
    }
    memset(before, 0, (size_t)(n + 1) * sizeof *before);
}

/* Size of an axis; 0: not a size. */
static long mesh_layout_read_size(const char *text, int32_t before[MF_MESH_SHARES + 1])
{
    char *end;
    const long n = strtol(text, &end, 10);
    int shares;

    if (!*end)
        return n < 0 ? 0 : n;
    if (!read_shares(text, before, &shares))
        return 0;
    drop_equal(before, shares);
    return shares;
}

static bool has_shares(const mf_mesh *m, int axis)
{
    return m->size[axis] <= MF_MESH_SHARES && m->before[axis][m->size[axis]];
}

bool mf_mesh_has_shares(const mf_mesh *m)
{
    for (int a = 0; a < m->n_axes; a++) {
        if (has_shares(m, a))
            return true;
    }
    return false;
}

void mf_mesh_text(const mf_mesh *m, mf_buf *out)
{
    for (int a = 0; a < m->n_axes; a++) {
        mf_buf_printf(out, "%s%s:", a ? ";" : "", m->name[a]);
        if (!has_shares(m, a))
            mf_buf_printf(out, "%d", m->size[a]);
        else
            for (int i = 0; i < m->size[a]; i++)
                mf_buf_printf(out, "%s%d", i ? "," : "", m->before[a][i + 1] - m->before[a][i]);
    }
}

mf_status mf_mesh_parse(const char *text, mf_mesh *out)
{
    const char *at = text;

    *out = (mf_mesh){ .n = 1 };
    while (*at) {
        char size[VALUE], name[MF_MESH_NAME];
        int32_t before[MF_MESH_SHARES + 1] = { 0 };
        long n;

        at = pair(at, name, size, sizeof size);
        if (!at)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "'%s' is not a mesh: write axes and sizes, as in \"rows:2;cols:2\"",
                           text);
        n = mesh_layout_read_size(size, before);
        if (n < 1 || n > MF_MESH_DEVICES || out->n * n > MF_MESH_DEVICES)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "mesh '%s': axis '%s' cannot have the size '%s' (1 to %d devices; or "
                           "one share per index, up to %d of them, as in \"rows:3,1\")",
                           text, name, size, MF_MESH_DEVICES, MF_MESH_SHARES);
        if (out->n_axes == MF_MESH_AXES)
            return MF_FAIL(MF_INVALID_ARGUMENT, "mesh '%s': at most %d axes are supported", text,
                           MF_MESH_AXES);
        if (axis_find(out, name) >= 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "mesh '%s': two axes are named '%s'", text, name);
        memcpy(out->name[out->n_axes], name, sizeof name);
        memcpy(out->before[out->n_axes], before, sizeof before);
        out->size[out->n_axes++] = (int)n;
        out->n *= (int)n;
    }
    if (out->n_axes == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the mesh has no axes: write \"all:4\", for example");
    return MF_OK;
}

void mf_mesh_add_axis(mf_mesh *m, const char *name, int size)
{
    (void)snprintf(m->name[m->n_axes], sizeof m->name[0], "%s", name);
    m->size[m->n_axes++] = size;
    m->n *= size;
}

static int stride(const mf_mesh *m, int axis)
{
    int s = 1;

    for (int a = axis + 1; a < m->n_axes; a++)
        s *= m->size[a];
    return s;
}

bool mf_mesh_alike(const mf_mesh *a, const mf_mesh *b)
{
    bool same = a->n_axes == b->n_axes;

    for (int i = 0; same && i < a->n_axes; i++)
        same = a->size[i] == b->size[i] && strcmp(a->name[i], b->name[i]) == 0 &&
               memcmp(a->before[i], b->before[i], sizeof a->before[i]) == 0;
    return same;
}

int mf_mesh_at(const mf_mesh *m, int device, int axis)
{
    return (device - m->first) / stride(m, axis) % m->size[axis];
}

int mf_mesh_count(const mf_mesh *m, mf_axes axes)
{
    int n = 1;

    for (int a = 0; a < m->n_axes; a++)
        n *= axes >> a & 1 ? m->size[a] : 1;
    return n;
}

int mf_mesh_index(const mf_mesh *m, mf_axes axes, int device)
{
    int i = 0;

    for (int a = 0; a < m->n_axes; a++) {
        if (axes >> a & 1)
            i = i * m->size[a] + mf_mesh_at(m, device, a);
    }
    return i;
}

int mf_mesh_nth(const mf_mesh *m, mf_axes axes, int device, int i)
{
    for (int a = m->n_axes - 1; a >= 0; a--) {
        if (axes >> a & 1) {
            device += (i % m->size[a] - mf_mesh_at(m, device, a)) * stride(m, a);
            i /= m->size[a];
        }
    }
    return device;
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

/* First index of the shard at position `at`, of n elements. */
static int64_t cut_at(const mf_mesh *m, int axis, int64_t n, int64_t at)
{
    const int size = m->size[axis];
    const int64_t all = size <= MF_MESH_SHARES ? m->before[axis][size] : 0;

    if (all == 0)
        return mf_shard_begin(n, size, at);
    return n / all * m->before[axis][at] + n % all * m->before[axis][at] / all;
}

void mf_layout_piece(const mf_mesh *m, mf_layout_dim cut, int64_t size, int device, int64_t *begin,
                     int64_t *end)
{
    const int64_t grain = cut.axes && cut.grain > 1 ? cut.grain : 1;

    *begin = 0;
    *end = size / grain;
    for (int a = 0; a < m->n_axes; a++) {
        if (cut.axes >> a & 1) {
            const int64_t from = *begin, n = *end - from, at = mf_mesh_at(m, device, a);

            *begin = from + cut_at(m, a, n, at);
            *end = from + cut_at(m, a, n, at + 1);
        }
    }
    *begin *= grain;
    *end *= grain;
}

mf_box mf_layout_box(const mf_mesh *m, const mf_layout *l, const mf_shape *shape, int device)
{
    mf_box box = { 0 };

    for (int d = 0; d < shape->rank; d++) {
        int64_t end;

        mf_layout_piece(m, l->dims[d], shape->dims[d], device, &box.begin[d], &end);
        box.size[d] = end - box.begin[d];
    }
    return box;
}

int64_t mf_box_count(const mf_box *b, int rank)
{
    return mf_mesh_box_count(b->size, rank);
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

/* ---- layout rules ---- */

mf_status mf_layout_rules_add(mf_layout_rules *r, const char *dim, const char *axis)
{
    if (r->n == MF_MESH_RULES)
        return MF_FAIL(MF_INVALID_ARGUMENT, "layout '%s:%s': at most %d rules are possible", dim,
                       axis, MF_MESH_RULES);
    (void)snprintf(r->dim[r->n], sizeof r->dim[0], "%s", dim);
    (void)snprintf(r->axis[r->n++], sizeof r->axis[0], "%s", axis);
    return MF_OK;
}

mf_status mf_layout_rules_parse(const char *text, mf_layout_rules *out)
{
    const char *at = text ? text : "";

    *out = (mf_layout_rules){ 0 };
    while (*at) {
        char axis[MF_MESH_NAME], dim[MF_MESH_NAME];

        at = pair(at, dim, axis, sizeof axis);
        if (!at)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "'%s' is not a layout: write dimensions and axes, as in "
                           "\"batch:rows;hidden:cols\"",
                           text);
        for (int i = 0; i < out->n; i++) {
            if (strcmp(out->axis[i], axis) == 0 && strcmp(out->dim[i], dim) == 0)
                return MF_FAIL(MF_INVALID_ARGUMENT, "layout '%s': '%s:%s' is given twice", text,
                               dim, axis);
        }
        MF_TRY(mf_layout_rules_add(out, dim, axis));
    }
    return MF_OK;
}

void mf_layout_rules_text(const mf_layout_rules *r, mf_buf *out)
{
    mf_buf_str(out, ""); /* no rules are a text, too */
    for (int i = 0; i < r->n; i++)
        mf_buf_printf(out, "%s%s:%s", i > 0 ? ";" : "", r->dim[i], r->axis[i]);
}

mf_axes mf_layout_rules_find(const mf_layout_rules *r, const mf_mesh *m, const char *name)
{
    mf_axes axes = 0;

    for (int i = 0; i < r->n; i++) {
        const int a = strcmp(r->dim[i], name) == 0 ? axis_find(m, r->axis[i]) : -1;

        if (a >= 0)
            axes |= (mf_axes)1 << a;
    }
    return axes;
}

bool mf_layout_rules_has(const mf_layout_rules *r, const char *name)
{
    for (int i = 0; i < r->n; i++) {
        if (strcmp(r->dim[i], name) == 0)
            return true;
    }
    return false;
}

/* ---- several meshes ---- */

/* A dimension of the model rather than of a tensor: its sequence of layers. */
static const char LAYERS[] = "layers";

void mf_meshes_one(const mf_mesh *m, mf_meshes *out)
{
    *out = (mf_meshes){ .n = 1, .devices = m->n };
    out->at[0] = *m;
    out->at[0].first = 0;
}

int mf_meshes_of(const mf_meshes *m, int device)
{
    int k = 0;

    while (k + 1 < m->n && device >= m->at[k + 1].first)
        k++;
    return k;
}

static mf_status add_mesh(mf_meshes *all, const mf_mesh *m)
{
    if (all->n == MF_MESHES)
        return MF_FAIL(MF_INVALID_ARGUMENT, "at most %d meshes or stages are supported", MF_MESHES);
    if (all->devices + m->n > MF_MESH_DEVICES)
        return MF_FAIL(MF_INVALID_ARGUMENT, "at most %d devices are supported", MF_MESH_DEVICES);
    all->at[all->n] = *m;
    all->at[all->n++].first = all->devices;
    all->devices += m->n;
    return MF_OK;
}

/* The mesh of each stage lacks the axes that split layers. A mesh without axes is one device. */
static mf_status add_stages(mf_meshes *all, const mf_mesh *m, mf_axes layers)
{
    mf_mesh rest = { .n = 1 };

    for (int a = 0; a < m->n_axes; a++) {
        if (layers >> a & 1)
            continue;
        memcpy(rest.name[rest.n_axes], m->name[a], MF_MESH_NAME);
        memcpy(rest.before[rest.n_axes], m->before[a], sizeof m->before[a]);
        rest.size[rest.n_axes++] = m->size[a];
        rest.n *= m->size[a];
    }
    for (int k = mf_mesh_count(m, layers); k > 0; k--)
        MF_TRY(add_mesh(all, &rest));
    return MF_OK;
}

static bool has_rule(const mf_layout_rules *r, const char *dim, const char *axis)
{
    for (int i = 0; i < r->n; i++) {
        if (strcmp(r->dim[i], dim) == 0 && strcmp(r->axis[i], axis) == 0)
            return true;
    }
    return false;
}

/* Gradients are sharded like the slots or weights that they update. */
static mf_status check_gradients(const mf_layout_rules *r)
{
    for (int i = 0; i < r->n; i++) {
        if (strcmp(r->dim[i], "gradients") == 0 && !has_rule(r, "slots", r->axis[i]) &&
            !has_rule(r, "weights", r->axis[i]))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "layout 'gradients:%s' needs slots:%s or weights:%s, too: gradients "
                           "are sharded like what they update",
                           r->axis[i], r->axis[i], r->axis[i]);
    }
    return MF_OK;
}

static mf_status check_rules(const mf_layout_rules *r, const mf_mesh *meshes, int n)
{
    for (int i = 0; i < r->n; i++) {
        bool found = false;

        for (int k = 0; k < n; k++)
            found = found || axis_find(&meshes[k], r->axis[i]) >= 0;
        if (!found)
            return MF_FAIL(MF_INVALID_ARGUMENT, "layout '%s:%s': the mesh has no axis '%s'",
                           r->dim[i], r->axis[i], r->axis[i]);
    }
    for (int i = 0; i < r->n; i++) {
        for (int k = 0; k < r->n; k++) {
            if (strcmp(r->dim[i], LAYERS) == 0 && strcmp(r->dim[k], LAYERS) != 0 &&
                strcmp(r->axis[i], r->axis[k]) == 0)
                return MF_FAIL(MF_INVALID_ARGUMENT,
                               "layout: the axis '%s' splits layers, so it cannot split '%s'",
                               r->axis[i], r->dim[k]);
        }
    }
    return MF_OK;
}

static mf_status mesh_layout_parse_one(const char *text, size_t n, mf_mesh *out)
{
    mf_buf one = { 0 };
    mf_status st;

    for (size_t i = 0; i < n; i++) {
        if (text[i] != ' ')
            mf_buf_bytes(&one, text + i, 1);
    }
    st = mf_buf_finish(&one);
    if (st == MF_OK)
        st = mf_mesh_parse(one.data ? one.data : "", out);
    mf_buf_deinit(&one);
    return st;
}

mf_status mf_mesh_spec_parse(const char *mesh, const char *layout, mf_mesh_spec *out)
{
    const char *at = mesh;

    out->n = 0;
    MF_TRY(mf_layout_rules_parse(layout, &out->rules));
    for (;; at++) {
        const size_t len = strcspn(at, "|");

        if (out->n == MF_MESHES)
            return MF_FAIL(MF_INVALID_ARGUMENT, "mesh '%s': at most %d meshes are possible", mesh,
                           MF_MESHES);
        MF_TRY(mesh_layout_parse_one(at, len, &out->at[out->n++]));
        at += len;
        if (!*at)
            return MF_OK;
    }
}

void mf_mesh_spec_text(const mf_mesh_spec *s, mf_buf *mesh, mf_buf *layout)
{
    for (int i = 0; i < s->n; i++) {
        mf_buf_str(mesh, i > 0 ? " | " : "");
        mf_mesh_text(&s->at[i], mesh);
    }
    mf_layout_rules_text(&s->rules, layout);
}

void mf_mesh_spec_one(const mf_mesh *m, mf_mesh_spec *out)
{
    out->n = 1;
    out->at[0] = *m;
    out->at[0].first = 0;
    out->rules = (mf_layout_rules){ 0 };
}

mf_status mf_mesh_spec_expand(const mf_mesh_spec *s, mf_meshes *out)
{
    *out = (mf_meshes){ 0 };
    for (int i = 0; i < s->n; i++)
        MF_TRY(add_stages(out, &s->at[i], mf_layout_rules_find(&s->rules, &s->at[i], LAYERS)));
    MF_TRY(check_gradients(&s->rules));
    return check_rules(&s->rules, s->at, s->n);
}

mf_status mf_meshes_parse(const char *text, const char *layout, mf_meshes *out,
                          mf_layout_rules *rules)
{
    mf_mesh_spec spec;

    MF_TRY(mf_mesh_spec_parse(text, layout, &spec));
    *rules = spec.rules;
    return mf_mesh_spec_expand(&spec, out);
}
