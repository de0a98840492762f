/* SPDX-License-Identifier: Apache-2.0 */
/* nms.c - NonMaxSuppression: of boxes that overlap too much, keeps the one with the best score.
 * With soft_nms_sigma, a box loses score for every better box that it overlaps instead of being
 * removed. */
#include "ops/image/nms.h"

#include "base/mem.h"
#include "ops/control/grad_util.h"

#include <math.h>
#include <string.h>

/* ---- a heap of candidates ---- */

static bool is_better(const mf_nms_candidate *a, const mf_nms_candidate *b)
{
    return a->score != b->score ? a->score > b->score : a->box < b->box;
}

static void nms_heap_push(mf_suppression *s, mf_nms_candidate c)
{
    int64_t at = s->n_heap++;

    while (at > 0 && is_better(&c, &s->heap[(at - 1) / 2])) {
        s->heap[at] = s->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    s->heap[at] = c;
}

static mf_nms_candidate nms_heap_pop(mf_suppression *s)
{
    const mf_nms_candidate best = s->heap[0], last = s->heap[--s->n_heap];
    int64_t at = 0;

    for (;;) {
        int64_t child = 2 * at + 1;

        if (child >= s->n_heap)
            break;
        if (child + 1 < s->n_heap && is_better(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!is_better(&s->heap[child], &last))
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
    return best;
}

/* ---- choosing ---- */

/* Intersection over union. */
static float overlap_of(const mf_nms_box *a, const mf_nms_box *b)
{
    const float h = fminf(a->y1, b->y1) - fmaxf(a->y0, b->y0);
    const float w = fminf(a->x1, b->x1) - fmaxf(a->x0, b->x0);
    const float both = fmaxf(h, 0) * fmaxf(w, 0);

    return a->area <= 0 || b->area <= 0 ? 0 : both / (a->area + b->area - both);
}

/* Compares the candidate with boxes selected since its last comparison; false: suppressed. */
static bool survives(const mf_suppression *s, mf_nms_candidate *c)
{
    for (int64_t j = s->chosen - 1; j >= c->seen; j--) {
        const float shared = overlap_of(&s->boxes[c->box], &s->boxes[s->index[j]]);

        if (s->sigma <= 0 && shared > s->overlap)
            return false;
        if (s->sigma > 0)
            c->score *= expf(-0.5f / s->sigma * shared * shared);
        if (c->score <= s->least)
            break;
    }
    c->seen = (int32_t)s->chosen;
    return true;
}

void mf_nms_offer(mf_suppression *s, int32_t i, const float corners[4], float score)
{
    const float y0 = corners[0], x0 = corners[1], y1 = corners[2], x1 = corners[3];
    mf_nms_box *b = &s->boxes[i];

    *b = (mf_nms_box){ fminf(y0, y1), fminf(x0, x1), fmaxf(y0, y1), fmaxf(x0, x1), 0 };
    b->area = (b->y1 - b->y0) * (b->x1 - b->x0);
    if (score > s->least)
        nms_heap_push(s, (mf_nms_candidate){ i, 0, score });
}

void mf_nms_choose(mf_suppression *s)
{
    while (s->chosen < s->max && s->n_heap > 0) {
        mf_nms_candidate c = nms_heap_pop(s);
        const float before = c.score;

        if (mf_stopped_after(10 * (1 + s->chosen - c.seen)))
            return;
        if (!survives(s, &c))
            continue;
        if (c.score == before) {
            s->index[s->chosen] = c.box;
            s->score[s->chosen++] = c.score;
        } else if (c.score > s->least) {
            nms_heap_push(s, c);
        }
    }
}

/* ---- inputs ---- */

static mf_status nms_check_shapes(const mf_shape *boxes, const mf_shape *scores)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if ((boxes->rank >= 0 && boxes->rank != 2) || (scores->rank >= 0 && scores->rank != 1) ||
        (boxes->rank == 2 && boxes->dims[1] >= 0 && boxes->dims[1] != 4) ||
        (boxes->rank == 2 && scores->rank == 1 && boxes->dims[0] >= 0 && scores->dims[0] >= 0 &&
         boxes->dims[0] != scores->dims[0]))
        return MF_FAIL(MF_INVALID_ARGUMENT, "boxes must be [n,4] and scores [n], got %s and %s",
                       mf_shape_text(boxes, a), mf_shape_text(scores, b));
    return MF_OK;
}

/* Input i as a number, or a default if the op has no such input. */
static mf_status nms_number(const mf_kernel *k, int i, float otherwise, float *out)
{
    char text[MF_SHAPE_TEXT];

    *out = otherwise;
    if (i >= k->n_in)
        return MF_OK;
    if (k->in[i]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be 0-D, got shape %s",
                       k->node->def->in[i].name, mf_shape_text(&k->in[i]->shape, text));
    *out = (float)mf_tensor_float_at(k->in[i], 0);
    return MF_OK;
}

static mf_status nms_read_numbers(const mf_kernel *k, mf_suppression *s)
{
    float max;

    MF_TRY(nms_check_shapes(&k->in[0]->shape, &k->in[1]->shape));
    MF_TRY(nms_number(k, 2, 0, &max));
    s->max = mf_tensor_int_at(k->in[2], 0);
    MF_TRY(nms_number(k, 3, mf_node_float(k->node, "iou_threshold"), &s->overlap));
    MF_TRY(nms_number(k, 4, -INFINITY, &s->least));
    MF_TRY(nms_number(k, 5, 0, &s->sigma));
    if (!(s->overlap >= 0 && s->overlap <= 1))
        return MF_FAIL(MF_INVALID_ARGUMENT, "iou_threshold must be in [0, 1], got %g",
                       (double)s->overlap);
    if (s->max < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "output size must be non-negative, got %lld",
                       (long long)s->max);
    if (!(s->sigma >= 0))
        return MF_FAIL(MF_INVALID_ARGUMENT, "soft_nms_sigma should be >= 0, got %g",
                       (double)s->sigma);
    s->n = k->in[0]->shape.dims[0];
    return MF_OK;
}

static float nms_at(const mf_tensor *t, int64_t i)
{
    return (float)mf_tensor_float_at(t, i);
}

static mf_status nms_fill(const mf_kernel *k, mf_arena *arena, mf_suppression *s)
{
    const mf_tensor *boxes = k->in[0];
    const int64_t most = s->max < s->n ? s->max : s->n;

    s->boxes = MF_ARENA_ARRAY(arena, mf_nms_box, s->n + 1);
    s->heap = MF_ARENA_ARRAY(arena, mf_nms_candidate, s->n + 1);
    s->index = MF_ARENA_ARRAY(arena, int32_t, most + 1);
    s->score = MF_ARENA_ARRAY(arena, float, most + 1);
    if (!s->boxes || !s->heap || !s->index || !s->score)
        return MF_NOMEM("boxes");
    for (int64_t i = 0; i < s->n; i++) {
        const float corners[] = { nms_at(boxes, 4 * i), nms_at(boxes, 4 * i + 1),
                                  nms_at(boxes, 4 * i + 2), nms_at(boxes, 4 * i + 3) };

        mf_nms_offer(s, (int32_t)i, corners, nms_at(k->in[1], i));
    }
    return MF_OK;
}

/* ---- the op ---- */

static mf_status suppress_infer(mf_infer *in)
{
    int64_t max = MF_UNKNOWN_DIM;

    MF_TRY(nms_check_shapes(&in->in[0], &in->in[1]));
    for (int i = 2; i < in->n_in; i++)
        MF_TRY(mf_infer_rank(in, i, 0));
    if (!mf_node_bool(in->node, "pad_to_max_output_size") || !mf_infer_int_input(in, 2, &max) ||
        max < 0)
        max = MF_UNKNOWN_DIM;
    for (int i = 0; i < in->n_out; i++)
        in->out[i] = i > 0 && i == in->n_out - 1 ? MF_SCALAR : MF_SHAPE(max);
    return MF_OK;
}

static mf_status nms_write_chosen(mf_kernel *k, const mf_suppression *s)
{
    const int64_t n = mf_node_bool(k->node, "pad_to_max_output_size") ? s->max : s->chosen;
    mf_tensor *index, *score = NULL, *valid;

    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(n), &index));
    if (k->n_out == 3)
        MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(n), &score));
    for (int64_t i = 0; i < n; i++) {
        ((int32_t *)index->data)[i] = i < s->chosen ? s->index[i] : 0;
        if (score)
            mf_tensor_put(score, i, i < s->chosen ? (double)s->score[i] : 0);
    }
    if (k->n_out == 1)
        return MF_OK;
    MF_TRY(mf_kernel_out(k, k->n_out - 1, &MF_SCALAR, &valid));
    ((int32_t *)valid->data)[0] = (int32_t)s->chosen;
    return MF_OK;
}

static mf_status suppress_run(mf_kernel *k)
{
    mf_suppression s = { 0 };
    mf_arena *arena;
    mf_status st;

    MF_TRY(nms_read_numbers(k, &s));
    arena = mf_arena_new();
    st = arena ? nms_fill(k, arena, &s) : MF_NOMEM("boxes");
    if (st == MF_OK) {
        mf_nms_choose(&s);
        st = mf_stop_check();
        if (st == MF_OK)
            st = nms_write_chosen(k, &s);
    }
    mf_arena_free(arena);
    return st;
}

#define SUPPRESS(NAME, DEF, ...)                                                                   \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = suppress_infer, .grad = mf_grad_none,                   \
        .run = suppress_run, .samples = MF_SAMPLES(__VA_ARGS__)                                    \
    }
#define TYPES "{T:type=float in [half,float], T_threshold:type=float in [half,float]"
#define FIVE "f32[5,4]{0,0,1,1,0,0.1,1,1.1,0,-0.1,1,0.9,0,10,1,11,0,10.1,1,11.1} "

const mf_op mf_ops_suppress[] = {
    SUPPRESS("NonMaxSuppression",
             "(boxes:float, scores:float, max_output_size:int32) -> (selected_indices:int32) "
             "{iou_threshold:float=0.5}",
             FIVE "f32[5]{0.9,0.75,0.6,0.95,0.5} i32[]{3}", "f32[7,4] f32[7] i32[]{4}",
             "f32[0,4] f32[0] i32[]{3}", FIVE "f32[5] i32[]{-1} !fails",
             FIVE "f32[4] i32[]{1} !fails", "f32[2,4] f32[2] i32[]{1} ; iou_threshold=1.5 !fails"),
    SUPPRESS("NonMaxSuppressionV2",
             "(boxes:T, scores:T, max_output_size:int32, iou_threshold:T_threshold) -> "
             "(selected_indices:int32) " TYPES "}",
             FIVE "f32[5]{0.9,0.75,0.6,0.95,0.5} i32[]{3} f32[]{0.5}",
             "f32[9,4] f32[9] i32[]{5} f32[]{0.1}"),
    SUPPRESS("NonMaxSuppressionV3",
             "(boxes:T, scores:T, max_output_size:int32, iou_threshold:T_threshold, "
             "score_threshold:T_threshold) -> (selected_indices:int32) " TYPES "}",
             FIVE "f32[5]{0.9,0.75,0.6,0.95,0.5} i32[]{3} f32[]{0.5} f32[]{0.4}",
             "f32[9,4] f32[9] i32[]{5} f32[]{0.3} f32[]{0}",
             "f32[2,4] f32[2] i32[]{1} f32[]{-0.5} f32[]{0} !fails"),
    SUPPRESS("NonMaxSuppressionV4",
             "(boxes:T, scores:T, max_output_size:int32, iou_threshold:T_threshold, "
             "score_threshold:T_threshold) -> (selected_indices:int32, valid_outputs:int32) " TYPES
             ", pad_to_max_output_size:bool=false}",
             FIVE "f32[5]{0.9,0.75,0.6,0.95,0.5} i32[]{4} f32[]{0.5} f32[]{0.4}",
             "f32[9,4] f32[9] i32[]{7} f32[]{0.3} f32[]{0} ; pad_to_max_output_size=true"),
    SUPPRESS("NonMaxSuppressionV5",
             "(boxes:T, scores:T, max_output_size:int32, iou_threshold:T, score_threshold:T, "
             "soft_nms_sigma:T) -> (selected_indices:int32, selected_scores:T, "
             "valid_outputs:int32) {T:type=float in [half,float], "
             "pad_to_max_output_size:bool=false}",
             FIVE "f32[5]{0.9,0.75,0.6,0.95,0.5} i32[]{4} f32[]{0.5} f32[]{0} f32[]{0.5}",
             "f32[9,4] f32[9] i32[]{7} f32[]{0.3} f32[]{0} f32[]{0} ; pad_to_max_output_size=true",
             "f32[9,4] f32[9]@0:2 i32[]{7} f32[]{0.3} f32[]{0.1} f32[]{0.3}"),
    { 0 },
};
