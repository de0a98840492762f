/* SPDX-License-Identifier: Apache-2.0 */
/* boxes.c - graphs of bounding-box arithmetic: overlap (IoU), encoding, decoding, matching with
 * objects. */
#include "models/boxes.h"

/* Typical offsets and logarithms of size ratios: codes are divided by them. */
static const double OFFSET = 0.1, SIZE = 0.2;
static const double LEAST = 1e-3; /* minimum side of a box in divisions and logarithms */
static const double LARGEST = 2.0; /* maximum logarithm of a box's size relative to its reference */

static mf_output boxes_two(mf_layer_call *l, const char *op, mf_output a, mf_output b)
{
    return mf_apply(l->graph, op, MF_IN(a, b));
}

static mf_output boxes_times(mf_layer_call *l, mf_output x, double factor)
{
    return boxes_two(l, "Mul", x, mf_layer_number(l, factor));
}

mf_output mf_boxes_columns(mf_layer_call *l, mf_output x, int64_t from, int64_t to)
{
    return mf_apply(l->graph, "Slice",
                    MF_IN(x, mf_ints(l->graph, (int64_t[]){ 0, 0, from }, 3),
                          mf_ints(l->graph, (int64_t[]){ -1, -1, to - from }, 3)));
}

/* The four coordinates of boxes, each [n,boxes,1]; for transposed boxes ([n,4,boxes]), [n,1,boxes].
 */
static void sides(mf_layer_call *l, mf_output boxes, int axis, mf_output out[4])
{
    const mf_output first = mf_applyf(
        l->graph, "Split", MF_IN(mf_scalar(l->graph, MF_DTYPE_I32, axis), boxes), "num_split=4");

    for (int i = 0; i < 4; i++)
        out[i] = (mf_output){ first.node, i };
}

static mf_output boxes_joined(mf_layer_call *l, const mf_output parts[4])
{
    return mf_apply(
        l->graph, "ConcatV2",
        MF_IN(parts[0], parts[1], parts[2], parts[3], mf_scalar(l->graph, MF_DTYPE_I32, 2)));
}

/* ---- overlap ---- */

static mf_output boxes_shared(mf_layer_call *l, const mf_output a[4], const mf_output b[4],
                              int side)
{
    const mf_output end = boxes_two(l, "Minimum", a[side + 2], b[side + 2]);

    return mf_apply(l->graph, "Relu",
                    MF_IN(boxes_two(l, "Sub", end, boxes_two(l, "Maximum", a[side], b[side]))));
}

static mf_output boxes_area(mf_layer_call *l, const mf_output s[4])
{
    return boxes_two(l, "Mul", boxes_two(l, "Sub", s[2], s[0]), boxes_two(l, "Sub", s[3], s[1]));
}

mf_output mf_boxes_overlap(mf_layer_call *l, mf_output a, mf_output b)
{
    mf_output as[4], bs[4], both, all;

    sides(l, a, 2, as);
    sides(l,
          mf_apply(l->graph, "Transpose", MF_IN(b, mf_ints(l->graph, (int64_t[]){ 0, 2, 1 }, 3))),
          1, bs);
    both = boxes_two(l, "Mul", boxes_shared(l, as, bs, 0), boxes_shared(l, as, bs, 1));
    all = boxes_two(l, "Sub", boxes_two(l, "AddV2", boxes_area(l, as), boxes_area(l, bs)), both);
    return boxes_two(l, "RealDiv", both, boxes_two(l, "Maximum", all, mf_layer_number(l, 1e-9)));
}

mf_output mf_boxes_present(mf_layer_call *l, mf_output boxes)
{
    mf_output s[4];

    sides(l, boxes, 2, s);
    return mf_applyf(l->graph, "Cast",
                     MF_IN(boxes_two(l, "Greater", boxes_area(l, s), mf_layer_number(l, 0.0))),
                     "DstT=float");
}

/* ---- codes ---- */

/* Centre and size along y (0) or x (1). */
static void span_of(mf_layer_call *l, const mf_output s[4], int side, mf_output *middle,
                    mf_output *size)
{
    *middle = boxes_times(l, boxes_two(l, "AddV2", s[side], s[side + 2]), 0.5);
    *size = boxes_two(l, "Maximum", boxes_two(l, "Sub", s[side + 2], s[side]),
                      mf_layer_number(l, LEAST));
}

mf_output mf_boxes_code(mf_layer_call *l, mf_output boxes, mf_output references)
{
    mf_output b[4], r[4], code[4];

    sides(l, boxes, 2, b);
    sides(l, references, 2, r);
    for (int i = 0; i < 2; i++) {
        mf_output middle, size, from, unit;

        span_of(l, b, i, &middle, &size);
        span_of(l, r, i, &from, &unit);
        code[i] = boxes_times(l, boxes_two(l, "RealDiv", boxes_two(l, "Sub", middle, from), unit),
                              1 / OFFSET);
        code[i + 2] = boxes_times(
            l, mf_apply(l->graph, "Log", MF_IN(boxes_two(l, "RealDiv", size, unit))), 1 / SIZE);
    }
    return boxes_joined(l, code);
}

static mf_output clip_to_unit(mf_layer_call *l, mf_output x)
{
    return mf_apply(l->graph, "ClipByValue",
                    MF_IN(x, mf_layer_number(l, 0.0), mf_layer_number(l, 1.0)));
}

mf_output mf_boxes_decode(mf_layer_call *l, mf_output code, mf_output references)
{
    mf_output c[4], r[4], box[4];

    sides(l, code, 2, c);
    sides(l, references, 2, r);
    for (int i = 0; i < 2; i++) {
        mf_output from, unit, middle, half;

        span_of(l, r, i, &from, &unit);
        middle =
            boxes_two(l, "AddV2", from, boxes_two(l, "Mul", boxes_times(l, c[i], OFFSET), unit));
        half = boxes_two(l, "Minimum", boxes_times(l, c[i + 2], SIZE), mf_layer_number(l, LARGEST));
        half =
            boxes_times(l, boxes_two(l, "Mul", mf_apply(l->graph, "Exp", MF_IN(half)), unit), 0.5);
        box[i] = clip_to_unit(l, boxes_two(l, "Sub", middle, half));
        box[i + 2] = clip_to_unit(l, boxes_two(l, "AddV2", middle, half));
    }
    return boxes_joined(l, box);
}

/* ---- matching ---- */

/* Maximum number of objects in a label. */
static mf_output objects_of(mf_layer_call *l, mf_output label)
{
    const mf_output one = mf_ints(l->graph, (int64_t[]){ 1 }, 1);

    return mf_applyf(l->graph, "StridedSlice",
                     MF_IN(mf_apply(l->graph, "Shape", MF_IN(label)), one,
                           mf_ints(l->graph, (int64_t[]){ 2 }, 1), one),
                     "shrink_axis_mask=1");
}

mf_boxes_match mf_boxes_match_objects(mf_layer_call *l, mf_output boxes, mf_output label)
{
    const mf_output last = mf_scalar(l->graph, MF_DTYPE_I32, 2);
    mf_boxes_match m;
    mf_output which;

    m.overlaps = mf_boxes_overlap(l, boxes, mf_boxes_columns(l, label, 0, 4));
    m.best = mf_layer_reduce(l, "Max", m.overlaps, (int64_t[]){ 2 }, 1, false);
    which = mf_applyf(l->graph, "ArgMax", MF_IN(m.overlaps, last), "output_type=int32");
    which =
        mf_apply(l->graph, "OneHot",
                 MF_IN(which, objects_of(l, label), mf_layer_number(l, 1), mf_layer_number(l, 0)));
    m.object = boxes_two(l, "BatchMatMulV2", which, label);
    return m;
}
