/* SPDX-License-Identifier: Apache-2.0 */
/* pad.c - pads a tensor with a constant, or with its own elements mirrored.
 *
 * The borders of dimension d are boxes: the whole extent of dimensions inside d, only the interior
 * of those outside it. So no cell is written twice, and a mirror reads only cells already written.
 */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/array/strided_copy.h"
#include "ops/control/grad_util.h"
#include "ops/math/elementwise.h"

static mf_status pad_padded_shape(const mf_shape *x, const mf_pairs *pads, mf_shape *out)
{
    *out = (mf_shape){ .rank = x->rank };
    for (int d = 0; d < x->rank; d++) {
        int64_t dim = x->dims[d];

        if (dim >= 0 &&
            (!mf_add_i64(dim, pads->before[d], &dim) || !mf_add_i64(dim, pads->after[d], &dim)))
            return MF_FAIL(MF_INVALID_ARGUMENT, "dimension %d padded exceeds 2^63", d);
        out->dims[d] = dim;
    }
    return MF_OK;
}

static mf_status pad_infer(mf_infer *in)
{
    const mf_shape *x = &in->in[0], *p = &in->in[1];
    mf_pairs pads;

    MF_TRY(mf_infer_rank(in, 1, 2));
    if (x->rank < 0) {
        if (p->rank == 2 && p->dims[0] >= 0 && p->dims[0] <= MF_MAX_RANK) {
            in->out[0].rank = (int)p->dims[0];
            for (int d = 0; d < in->out[0].rank; d++)
                in->out[0].dims[d] = MF_UNKNOWN_DIM;
        }
        return MF_OK;
    }
    in->out[0].rank = x->rank;
    for (int d = 0; d < x->rank; d++)
        in->out[0].dims[d] = MF_UNKNOWN_DIM;
    if (!in->in_value[1])
        return MF_OK;
    MF_TRY(mf_pairs_read(in->in_value[1], x->rank, "paddings", &pads));
    return pad_padded_shape(x, &pads, &in->out[0]);
}

/* The interior of a padded tensor as a copy with `m->dims` = the inner shape. Returns its offset.
 */
static int64_t interior(const mf_shape *inner, const mf_shape *outer, const mf_pairs *pads,
                        int64_t *inner_stride, int64_t *outer_stride)
{
    int64_t at = 0;

    mf_strides_of(inner, inner_stride);
    mf_strides_of(outer, outer_stride);
    for (int d = 0; d < inner->rank; d++)
        at += pads->before[d] * outer_stride[d];
    return at;
}

static mf_status copy_interior(mf_kernel *k, const mf_tensor *x, mf_tensor *out,
                               const mf_pairs *pads)
{
    int64_t in_stride[MF_MAX_RANK], out_stride[MF_MAX_RANK];
    mf_strided_copy m = { .dtype = x->dtype, .src = x->data };

    m.dst = mf_cell_at(x->dtype, out->data,
                       interior(&x->shape, &out->shape, pads, in_stride, out_stride));
    for (int d = 0; d < x->shape.rank; d++)
        mf_strided_copy_add(&m, x->shape.dims[d], out_stride[d], in_stride[d]);
    return mf_strided_copy_run(k->step->pool, &m);
}

/* The box of border cells of dimension d, `n` thick, starting at index `at`; strides only. */
static mf_strided_copy border(const mf_tensor *out, const mf_shape *x, const mf_pairs *pads, int d,
                              int64_t at, int64_t n)
{
    mf_strided_copy m = { .dtype = out->dtype };
    int64_t stride[MF_MAX_RANK], first = 0;

    mf_strides_of(&out->shape, stride);
    for (int e = 0; e < x->rank; e++) {
        mf_strided_copy_add(&m, e < d ? x->dims[e] : e == d ? n : out->shape.dims[e], stride[e], 0);
        first += stride[e] * (e < d ? pads->before[e] : e == d ? at : 0);
    }
    m.dst = mf_cell_at(out->dtype, out->data, first);
    return m;
}

/* ---- Pad, PadV2 ---- */

static mf_status fill_border(mf_kernel *k, const mf_tensor *out, const mf_pairs *pads, int d,
                             int64_t at, int64_t n, const void *value)
{
    mf_strided_copy m = border(out, &k->in[0]->shape, pads, d, at, n);

    m.src = value;
    return mf_strided_copy_run(k->step->pool, &m);
}

static mf_status pad_run(mf_kernel *k)
{
    static _Alignas(16) const char zero[16]; /* zero of any type, including the empty string */
    const mf_tensor *x = k->in[0];
    const void *value = k->n_in > 2 ? k->in[2]->data : zero;
    char text[MF_SHAPE_TEXT];
    mf_pairs pads;
    mf_shape shape;
    mf_tensor *out;

    if (k->n_in > 2 && k->in[2]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "constant_values must be a scalar. Found: %s",
                       mf_shape_text(&k->in[2]->shape, text));
    MF_TRY(mf_pairs_read(k->in[1], x->shape.rank, "Paddings", &pads));
    MF_TRY(pad_padded_shape(&x->shape, &pads, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    for (int d = 0; d < shape.rank; d++) {
        MF_TRY(fill_border(k, out, &pads, d, 0, pads.before[d], value));
        MF_TRY(
            fill_border(k, out, &pads, d, pads.before[d] + x->shape.dims[d], pads.after[d], value));
    }
    return copy_interior(k, x, out, &pads);
}

static mf_status pad_grad(mf_grad *g)
{
    const mf_output begin = mf_applyf(g->graph, "Unpack", MF_IN(g->x[1]), "num=2 axis=1");
    const mf_output size = mf_applyf(g->graph, "Shape", MF_IN(g->x[0]), "out_type=%s",
                                     mf_dtype_name(mf_grad_type(g->x[1])));

    g->dx[0] = MF_G3("Slice", g->dy[0], begin, size);
    return MF_OK;
}

/* ---- MirrorPad, MirrorPadGrad ---- */

/* REFLECT does not repeat the edge element. */
static int64_t edge_offset(const mf_node *node)
{
    return mf_node_string(node, "mode")[0] == 'R' ? 1 : 0;
}

static mf_status mirror_prepare(mf_prepare *p)
{
    int64_t *offset = MF_ARENA_NEW(p->arena, int64_t);

    if (!offset)
        return MF_NOMEM("a kernel");
    *offset = edge_offset(p->node);
    p->state = offset;
    return MF_OK;
}

static mf_status check_mirror(const mf_shape *x, const mf_pairs *pads, int64_t offset)
{
    for (int d = 0; d < x->rank; d++) {
        const int64_t most = x->dims[d] - offset;

        if (pads->before[d] > most || pads->after[d] > most) /* also rejects 0 for a size of 0 */
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "paddings must be %s the dimension size: %" PRId64 ", %" PRId64
                           " %s %" PRId64,
                           offset ? "less than" : "no greater than", pads->before[d],
                           pads->after[d], offset ? "not less than" : "greater than", x->dims[d]);
    }
    return MF_OK;
}

/* A border and the cells that it mirrors: dst is the border, src their images in the interior. */
static mf_strided_copy pad_mirror(const mf_tensor *out, const mf_shape *x, const mf_pairs *pads,
                                  int d, bool after, int64_t offset)
{
    const int64_t first = pads->before[d], dim = x->dims[d];
    const int64_t n = after ? pads->after[d] : first, at = after ? first + dim : 0;
    const int64_t image = after ? first + dim - 1 - offset : 2 * first - 1 + offset;
    mf_strided_copy m = border(out, x, pads, d, at, n);

    for (int e = 0; e < m.rank; e++)
        m.from[e] = e == d ? -m.to[e] : m.to[e];
    m.src = mf_cell_at(out->dtype, m.dst, (image - at) * m.to[d]);
    return m;
}

static mf_status mirror_run(mf_kernel *k)
{
    const int64_t offset = *(const int64_t *)k->state;
    const mf_tensor *x = k->in[0];
    mf_pairs pads;
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(mf_pairs_read(k->in[1], x->shape.rank, "paddings", &pads));
    MF_TRY(check_mirror(&x->shape, &pads, offset));
    MF_TRY(pad_padded_shape(&x->shape, &pads, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    MF_TRY(copy_interior(k, x, out, &pads));
    for (int d = shape.rank - 1; d >= 0; d--) {
        for (int after = 0; after < 2; after++) {
            const mf_strided_copy m = pad_mirror(out, &x->shape, &pads, d, after, offset);

            MF_TRY(mf_strided_copy_run(k->step->pool, &m));
        }
    }
    return MF_OK;
}

/* image += border, n elements at the given strides. */
typedef void add_fn(void *image, int64_t image_step, const void *border, int64_t border_step,
                    int64_t n);

#define ADD_STRIDED(NAME, kind, EXPR)                                                              \
    static void add_##kind(void *pa, int64_t sa, const void *pb, int64_t sb, int64_t n)            \
    {                                                                                              \
        MF_S_##kind *a = pa;                                                                       \
        const MF_S_##kind *b = pb;                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const MF_C_##kind x = MF_LD_##kind(a, i * sa), y = MF_LD_##kind(b, i * sb);            \
            a[i * sa] = MF_ST_##kind(EXPR(x, y));                                                  \
        }                                                                                          \
    }
#define ADD(x, y) ((x) + (y))
#define ADD_INT(x, y) ((uint64_t)(x) + (uint64_t)(y))
MF_EACH_FLOAT(ADD_STRIDED, add, ADD)
MF_EACH_COMPLEX(ADD_STRIDED, add, ADD)
MF_EACH_INT(ADD_STRIDED, add, ADD_INT)
static add_fn *const add_fns[MF_DTYPE_COUNT] = { MF_FN_FLOATS(add), MF_FN_COMPLEX(add),
                                                 MF_FN_INTS(add) };

static void add_back(add_fn *fn, const mf_strided_copy *m, int d, char *border_at, char *image_at)
{
    const int64_t cell = (int64_t)mf_dtype_cell(m->dtype);

    if (d == m->rank - 1) {
        fn(image_at, m->from[d], border_at, m->to[d], m->dims[d]);
        return;
    }
    for (int64_t i = 0; i < m->dims[d]; i++)
        add_back(fn, m, d + 1, border_at + i * m->to[d] * cell, image_at + i * m->from[d] * cell);
}

static mf_status unpadded_shape(const mf_shape *y, const mf_pairs *pads, mf_shape *out)
{
    *out = *y;
    for (int d = 0; d < y->rank; d++) {
        if (y->dims[d] < 0)
            continue;
        if (pads->before[d] > y->dims[d] || pads->after[d] > y->dims[d] - pads->before[d])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "dimension %d of %" PRId64 " is smaller than its paddings %" PRId64
                           " and %" PRId64,
                           d, y->dims[d], pads->before[d], pads->after[d]);
        out->dims[d] = y->dims[d] - pads->before[d] - pads->after[d];
    }
    return MF_OK;
}

static mf_status mirror_grad_infer(mf_infer *in)
{
    const mf_shape *y = &in->in[0];
    mf_pairs pads;

    MF_TRY(mf_infer_rank(in, 1, 2));
    if (y->rank < 0)
        return MF_OK;
    in->out[0].rank = y->rank;
    for (int d = 0; d < y->rank; d++)
        in->out[0].dims[d] = MF_UNKNOWN_DIM;
    if (!in->in_value[1])
        return MF_OK;
    MF_TRY(mf_pairs_read(in->in_value[1], y->rank, "paddings", &pads));
    return unpadded_shape(y, &pads, &in->out[0]);
}

/* The inverse of MirrorPad: adds the borders to the cells that they mirrored, outermost dimension
 * first. */
static mf_status mirror_grad_run(mf_kernel *k)
{
    const int64_t offset = *(const int64_t *)k->state;
    const mf_tensor *y = k->in[0];
    add_fn *fn = add_fns[y->dtype];
    int64_t in_stride[MF_MAX_RANK], out_stride[MF_MAX_RANK];
    mf_tensor sums = { 0 }, *out;
    mf_strided_copy m = { .dtype = y->dtype };
    mf_status st = MF_OK;
    mf_pairs pads;
    mf_shape shape;

    if (!fn)
        return MF_FAIL(MF_UNIMPLEMENTED, "op MirrorPadGrad has no kernel for type %s",
                       mf_dtype_name(y->dtype));
    MF_TRY(mf_pairs_read(k->in[1], y->shape.rank, "paddings", &pads));
    MF_TRY(unpadded_shape(&y->shape, &pads, &shape));
    MF_TRY(check_mirror(&shape, &pads, offset));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    MF_TRY(mf_tensor_clone(&sums, y));
    for (int d = 0; d < 2 * shape.rank; d++) {
        const mf_strided_copy back = pad_mirror(&sums, &shape, &pads, d / 2, d % 2, offset);

        add_back(fn, &back, 0, back.dst, (char *)(uintptr_t)back.src);
    }
    m.src =
        mf_cell_at(y->dtype, sums.data, interior(&shape, &y->shape, &pads, out_stride, in_stride));
    m.dst = out->data;
    for (int d = 0; d < shape.rank; d++)
        mf_strided_copy_add(&m, shape.dims[d], out_stride[d], in_stride[d]);
    st = mf_strided_copy_run(k->step->pool, &m);
    mf_tensor_clear(&sums);
    return st;
}

/* Each is the other's gradient. */
static mf_status mirror_grad(mf_grad *g)
{
    g->dx[0] = mf_applyf(g->graph, g->node->op_name[9] ? "MirrorPad" : "MirrorPadGrad",
                         MF_IN(g->dy[0], g->x[1]), "mode='%s'", mf_node_string(g->node, "mode"));
    return MF_OK;
}

/* Dimensions that get nothing. */
static void pad_split(mf_split *s)
{
    for (int d = 0; s->in_value[1] && d < s->in[0].rank; d++) {
        if (s->in[0].dims[d] == s->out[0].dims[d])
            mf_split_through(s, 0, d, d);
    }
}

/* TensorFlow refuses to mirror what is empty, so no piece may be. */
static void mirror_split(mf_split *s)
{
    pad_split(s);
    for (int i = 0; i < s->n_letters; i++)
        s->letters[i].some = true;
}

const mf_op mf_ops_pad[] = {
    { .name = "Pad",
      .rows = mf_rows_pad,
      .def = "(input:T, paddings:Tpaddings) -> (output:T) {T:type, "
             "Tpaddings:type=int32 in index}",
      .infer = pad_infer,
      .grad = pad_grad,
      .run = pad_run,
      .split = pad_split,
      .samples = MF_SAMPLES("f32[2,3] i32[2,2]{1,2,0,1}", "f64[3] i64[1,2]{0,0}", "f32[] i32[0,2]",
                            "f32[0,2] i32[2,2]{1,1,0,2}", "bool[3] i32[1,2]{2,1}",
                            "i16[2,1,3] i32[3,2]{1,0,2,1,0,3}", "f32[2] i32[1,2]{-1,0} !fails",
                            "f32[2] i32[2,2]{1,0,0,0} !fails", "f32[2] i32[1,3]{0,0,0} !fails") },
    { .name = "PadV2",
      .def = "(input:T, paddings:Tpaddings, constant_values:T) -> (output:T) {T:type, "
             "Tpaddings:type=int32 in index}",
      .infer = pad_infer,
      .grad = pad_grad,
      .run = pad_run,
      .split = pad_split,
      .samples =
          MF_SAMPLES("f32[2,3] i32[2,2]{1,2,0,1} f32[]~", "i64[3] i64[1,2]{2,0} i64[]{7}",
                     "str[2] i32[1,2]{1,1} str[]{pad}", "f32[2] i32[1,2]{1,0} f32[2] !fails") },
    { .name = "MirrorPad",
      .def = "(input:T, paddings:Tpaddings) -> (output:T) {T:type, "
             "Tpaddings:type=int32 in index, mode:string in ['REFLECT','SYMMETRIC']}",
      .infer = pad_infer,
      .grad = mirror_grad,
      .prepare = mirror_prepare,
      .run = mirror_run,
      .split = mirror_split,
      .samples = MF_SAMPLES("f32[3,4] i32[2,2]{2,1,1,3} ; mode='REFLECT'",
                            "f32[3,4] i32[2,2]{2,3,4,0} ; mode='SYMMETRIC'",
                            "f64[5] i64[1,2]{0,0} ; mode='REFLECT'",
                            "i32[2,2,3] i32[3,2]{1,1,0,1,2,2} ; mode='REFLECT'",
                            "f32[3] i32[1,2]{3,0} ; mode='REFLECT' !fails",
                            "f32[3] i32[1,2]{4,0} ; mode='SYMMETRIC' !fails") },
    { .name = "MirrorPadGrad",
      .def = "(input:T, paddings:Tpaddings) -> (output:T) {T:type, "
             "Tpaddings:type=int32 in index, mode:string in ['REFLECT','SYMMETRIC']}",
      .infer = mirror_grad_infer,
      .grad = mirror_grad,
      .prepare = mirror_prepare,
      .run = mirror_grad_run,
      .samples = MF_SAMPLES("f32[6,8] i32[2,2]{2,1,1,3} ; mode='REFLECT'",
                            "f32[8,8] i32[2,2]{2,3,4,0} ; mode='SYMMETRIC'",
                            "f64[5] i64[1,2]{0,0} ; mode='REFLECT'",
                            "f32[3] i32[1,2]{2,2} ; mode='REFLECT' !fails") },
    { 0 },
};
