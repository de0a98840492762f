/* SPDX-License-Identifier: Apache-2.0 */
/* detector.c - boxes, matches, regions and average precision against plain loops. */
#include "mf_test.h"
#include "models/detection.h"
#include "models/metrics.h"
#include "unit/models/model_run.h"

#include <math.h>
#include <string.h>

/* A model with inputs [n,rows,columns], and the result of a function of the first two. */
typedef mf_output fn(mf_layer_call *l, mf_output a, mf_output b);

static mf_tensor *of_two(fn *f, const int64_t a[3], const float *x, const int64_t b[3],
                         const float *y)
{
    mf_tensor *in[2], *out;
    mf_model *m;

    T_OK(mf_model_new(&m));
    mf_layer_call l = { .model = m, .graph = mf_model_graph(m), .name = "test" };
    const mf_output p = mf_model_input(m, "a", MF_DTYPE_F32, a + 1, 2);
    const mf_output z = f(&l, p, mf_model_input(m, "b", MF_DTYPE_F32, b + 1, 2));

    T_OK(mf_model_status(m));
    mf_session *s = t_model_start(m, 1);
    in[0] = t_floats(a, 3, x, 0);
    in[1] = t_floats(b, 3, y, 0);
    out = t_model_fetch(s, m, z, in);
    mf_tensor_free(in[0]);
    mf_tensor_free(in[1]);
    mf_session_free(s);
    mf_model_free(m);
    return out;
}

/* ---- boxes ---- */

static const float BOXES[] = {
    0, 0, 0.5F, 0.5F, 0.25F, 0.25F, 0.75F, 0.75F, 0.2F, 0.2F, 0.2F, 0.2F
};

MF_TEST(detector_overlap_is_intersection_over_union)
{
    const int64_t dims[] = { 1, 3, 4 };
    mf_tensor *t = of_two(mf_boxes_overlap, dims, BOXES, dims, BOXES);

    T_EQ(mf_tensor_count(t), 9);
    T_NEAR(t_at(t, 0), 1, 1e-6);
    T_NEAR(t_at(t, 1), 0.0625 / (0.25 + 0.25 - 0.0625), 1e-6);
    T_NEAR(t_at(t, 3), t_at(t, 1), 0);
    for (int i = 6; i < 9; i++)
        T_EQ(t_at(t, i), 0); /* an empty box overlaps nothing, not even itself */
    mf_tensor_free(t);
}

static mf_output there_and_back(mf_layer_call *l, mf_output a, mf_output b)
{
    return mf_boxes_decode(l, mf_boxes_code(l, a, b), b);
}

MF_TEST(detector_box_codes_decode_to_the_same_boxes)
{
    static const float from[] = { 0.1F, 0.2F, 0.4F, 0.9F, 0, 0, 1, 0.5F };
    const int64_t dims[] = { 1, 2, 4 };
    mf_tensor *t = of_two(there_and_back, dims, BOXES, dims, from);

    for (int i = 0; i < 8; i++)
        T_NEAR(t_at(t, i), BOXES[i], 1e-6);
    mf_tensor_free(t);
}

MF_TEST(detector_box_codes_are_scaled_offsets_and_logarithms)
{
    static const float box[] = { 0.25F, 0.5F, 0.75F, 0.75F }, from[] = { 0, 0.5F, 0.5F, 1 };
    const int64_t dims[] = { 1, 1, 4 };
    mf_tensor *t = of_two(mf_boxes_code, dims, box, dims, from);

    T_NEAR(t_at(t, 0), 0.25 / 0.5 / 0.1, 1e-5);
    T_NEAR(t_at(t, 1), -0.125 / 0.5 / 0.1, 1e-5);
    T_NEAR(t_at(t, 2), 0, 1e-5);
    T_NEAR(t_at(t, 3), log(0.5) / 0.2, 1e-5);
    mf_tensor_free(t);
}

MF_TEST(detector_boxes_are_clipped_to_the_image)
{
    static const float far[] = { -90, 90, 50, 50 }, from[] = { 0.25F, 0.25F, 0.75F, 0.75F };
    const int64_t dims[] = { 1, 1, 4 };
    mf_tensor *t = of_two(mf_boxes_decode, dims, far, dims, from);

    for (int i = 0; i < 4; i++)
        T_TRUE(t_at(t, i) >= 0 && t_at(t, i) <= 1);
    mf_tensor_free(t);
}

static mf_output object_of(mf_layer_call *l, mf_output a, mf_output b)
{
    return mf_boxes_match_objects(l, a, b).object;
}

MF_TEST(detector_a_box_is_matched_with_the_object_it_overlaps_most)
{
    static const float label[] = { 0.3F, 0.3F, 0.8F, 0.8F, 7, 0, 0, 0.4F, 0.5F, 3, 0, 0, 0, 0, -1 };
    mf_tensor *t = of_two(object_of, (int64_t[]){ 1, 2, 4 }, BOXES, (int64_t[]){ 1, 3, 5 }, label);

    T_EQ(t_at(t, 4), 3);
    T_EQ(t_at(t, 9), 7);
    T_EQ(t_at(t, 5), label[0]);
    mf_tensor_free(t);
}

/* ---- regions ---- */

/* Linear features are sampled at the centres of a box's cells. */
MF_TEST(detector_regions_are_sampled_at_cell_centres)
{
    enum { SIDE = 8, GRID = 3 };
    static const float box[] = { 0.25F, 0.125F, 0.75F, 0.875F, 0.5F, 0.25F, 0.75F, 0.5F };
    float plane[2 * SIDE * SIDE];
    mf_tensor *in[2], *t;
    mf_model *m;
    mf_output y;

    for (int i = 0; i < 2 * SIDE * SIDE; i++) /* at the centre of a cell: 8 y + x, plus 100 */
        plane[i] = (float)(i / SIDE % SIDE * 8 + i % SIDE) + (i < SIDE * SIDE ? 4.5F : 104.5F);
    T_OK(mf_model_new(&m));
    y = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ SIDE, SIDE, 1 }, 3);
    y = mf_layer(m, "RoIAlign",
                 MF_IN(y, mf_model_input(m, "boxes", MF_DTYPE_F32, (int64_t[]){ 1, 4 }, 2)),
                 "size=%d", GRID);
    T_OK(mf_model_status(m));
    mf_session *s = t_model_start(m, 1);
    in[0] = t_floats(T_DIMS(2, SIDE, SIDE, 1), plane, 0);
    in[1] = t_floats(T_DIMS(2, 1, 4), box, 0);
    t = t_model_fetch(s, m, y, in);
    T_EQ(mf_tensor_count(t), 2 * GRID * GRID);
    for (int i = 0; i < 2 * GRID * GRID; i++) {
        const float *b = box + i / (GRID * GRID) * 4;
        const double v = (i / GRID % GRID + 0.5) / GRID, u = (i % GRID + 0.5) / GRID;
        const double at_y = (double)(b[0] + (float)v * (b[2] - b[0])) * SIDE;
        const double at_x = (double)(b[1] + (float)u * (b[3] - b[1])) * SIDE;

        T_NEAR(t_at(t, i), 8 * at_y + at_x + (i < GRID * GRID ? 0 : 100), 1e-3);
    }
    mf_tensor_free(t);
    mf_tensor_free(in[0]);
    mf_tensor_free(in[1]);
    mf_session_free(s);
    mf_model_free(m);
}

/* ---- average precision ---- */

enum { CLASSES = 2, FOUND = 3, OBJECTS = 2 };

static void keep_layers(mf_model *m)
{
    static const char *const names[] = { "anchors", "objectness", "anchor_codes", "proposals",
                                         "region_codes" };
    const mf_output scores =
        mf_model_input(m, "scores", MF_DTYPE_F32, (int64_t[]){ 1, CLASSES + 1 }, 2);

    for (int i = 0; i < MF_COUNT(names); i++)
        mf_model_name_output(m, names[i], scores);
    mf_model_name_output(m, "scores", scores);
}

/* For n samples with three detections and two objects each. */
static double precision_of(int64_t n, const float *found, const float *label)
{
    const mf_metric_kind *kind;
    mf_tensor *in[3], *sums;
    mf_model *m;
    mf_output y;
    double value;

    T_OK(mf_model_new(&m));
    y = mf_model_input(m, "found", MF_DTYPE_F32, (int64_t[]){ FOUND, 6 }, 2);
    const mf_output is = mf_model_input(m, "label", MF_DTYPE_F32, (int64_t[]){ OBJECTS, 5 }, 2);

    keep_layers(m);
    y = mf_metric(m, "mean_average_precision", y, is, &kind);
    T_OK(mf_model_status(m));
    mf_session *s = t_model_start(m, 1);
    in[0] = t_floats(T_DIMS(n, FOUND, 6), found, 0);
    in[1] = t_floats(T_DIMS(n, OBJECTS, 5), label, 0);
    in[2] = t_floats(T_DIMS(n, 1, CLASSES + 1), NULL, 1);
    sums = t_model_fetch(s, m, y, in);
    value = kind->value(mf_tensor_data(sums), mf_tensor_count(sums), n);
    mf_tensor_free(sums);
    for (int i = 0; i < 3; i++)
        mf_tensor_free(in[i]);
    mf_session_free(s);
    mf_model_free(m);
    return value;
}

#define A 0.1F, 0.1F, 0.5F, 0.5F
#define NEAR_A 0.1F, 0.1F, 0.5F, 0.45F
#define B 0.5F, 0.5F, 0.9F, 0.8F
#define NONE 0, 0, 0, 0
#define NOTHING NONE, 0, 0

MF_TEST(detector_average_precision_of_correct_detections_is_one)
{
    static const float label[] = { A, 0, B, 1 };

    T_NEAR(precision_of(1, (float[]){ A, 0.9F, 0, B, 0.8F, 1, NOTHING }, label), 1, 1e-9);
    T_NEAR(precision_of(1, (float[]){ NEAR_A, 0.9F, 0, B, 0.8F, 1, NOTHING }, label), 1, 1e-9);
    T_NEAR(precision_of(1, (float[]){ NOTHING, NOTHING, NOTHING }, label), 0, 1e-9);
    /* wrong class or wrong box: half of the classes are found */
    T_NEAR(precision_of(1, (float[]){ A, 0.9F, 0, B, 0.8F, 0, NOTHING }, label), 0.5, 1e-9);
    T_NEAR(precision_of(1, (float[]){ A, 0.9F, 0, A, 0.8F, 1, NOTHING }, label), 0.5, 1e-9);
}

MF_TEST(detector_average_precision_counts_an_object_once)
{
    /* Both objects of one class. Right 0.9, again the same 0.8, right 0.7: precision 1 up to half,
     * then 2/3. */
    static const float label[] = { A, 0, B, 0 };

    T_NEAR(precision_of(1, (float[]){ A, 0.9F, 0, NEAR_A, 0.8F, 0, B, 0.7F, 0 }, label),
           (1 + 2.0 / 3) / 2, 1e-9);
    /* A duplicate in the last position costs nothing. */
    T_NEAR(precision_of(1, (float[]){ A, 0.9F, 0, B, 0.8F, 0, NEAR_A, 0.7F, 0 }, label), 1, 1e-9);
}

MF_TEST(detector_average_precision_orders_detections_of_all_samples)
{
    /* Wrong with 0.95 in one, right with 0.9 and 0.3 in the other; four objects of one class. */
    static const float found[] = { NONE, 0.95F, 0, NOTHING, NOTHING, /* */
                                   A,    0.9F,  0, B,       0.3F,    0, NOTHING };
    static const float label[] = { A, 0, B, 0, A, 0, B, 0 };

    T_NEAR(precision_of(2, found, label), 2.0 / 3 * 0.5, 1e-9);
    /* Only classes with objects count; empty rows of the label do not. */
    T_NEAR(precision_of(1, found + 18, (float[]){ A, 0, NONE, -1 }), 1, 1e-9);
}

MF_TEST(detector_losses_name_the_layers_they_need)
{
    mf_model *m;

    T_OK(mf_model_new(&m));
    const mf_output x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ 3, 6 }, 2);

    (void)mf_loss(m, "detection", x, x);
    T_FAILS(MF_INVALID_ARGUMENT, "use the model faster-rcnn", mf_model_status(m));
    mf_model_free(m);
    T_OK(mf_model_new(&m));
    keep_layers(m);
    (void)mf_loss(m, "detection", m->inputs[0],
                  mf_model_input(m, "y", MF_DTYPE_F32, (int64_t[]){ 3, 4 }, 2));
    T_FAILS(MF_INVALID_ARGUMENT, "boxes with classes, [objects,5]", mf_model_status(m));
    mf_model_free(m);
}
