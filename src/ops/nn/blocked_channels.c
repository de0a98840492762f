/* SPDX-License-Identifier: Apache-2.0 */
/* blocked_channels.c - conversion between NHWC and the blocked-channels layout, and the ops for it.
 */
#include "ops/nn/blocked_channels.h"

#include "ops/control/grad_util.h"

enum { MAX_BLOCK = 64, STRIP = 128 /* pixels copied at a time, with all their channels */ };

mf_status mf_unblocked_shape(const mf_shape *s, mf_shape *out)
{
    char text[MF_SHAPE_TEXT];

    *out = MF_SHAPE(-1, -1, -1, -1);
    if (s->rank < 0)
        return MF_OK;
    if (s->rank != 5)
        return MF_FAIL(MF_INVALID_ARGUMENT, "an image in blocks must be 5-dimensional: %s",
                       mf_shape_text(s, text));
    *out = MF_SHAPE(s->dims[0], s->dims[2], s->dims[3],
                    s->dims[1] < 0 || s->dims[4] < 0 ? -1 : s->dims[1] * s->dims[4]);
    return MF_OK;
}

mf_shape mf_blocked_shape(const mf_shape *s, int64_t b)
{
    return MF_SHAPE(s->dims[0], s->dims[3] < 0 ? -1 : s->dims[3] / b, s->dims[1], s->dims[2], b);
}

/* ---- moving ---- */

typedef struct blocked_channels_move_job {
    const float *from;
    float *to;
    int64_t groups, pixels, block, strips; /* of one image */
    bool to_blocks;
} blocked_channels_move_job;

static inline void move_pixels(const float *from, int64_t from_step, float *to, int64_t to_step,
                               int64_t pixels, const int64_t block)
{
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t i = 0; i < block; i++)
            to[p * to_step + i] = from[p * from_step + i];
}

static void move_strip(void *ctx, int64_t piece)
{
    const blocked_channels_move_job *j = ctx;
    const int64_t image = piece / j->strips, p0 = piece % j->strips * STRIP;
    const int64_t pixels = j->pixels - p0 < STRIP ? j->pixels - p0 : STRIP;
    const int64_t b = j->block, channels = j->groups * b, at = image * j->pixels * channels;

    for (int64_t g = 0; g < j->groups; g++) {
        const int64_t plain = at + p0 * channels + g * b, blocked = at + (g * j->pixels + p0) * b;
        const float *from = j->from + (j->to_blocks ? plain : blocked);
        float *to = j->to + (j->to_blocks ? blocked : plain);
        const int64_t from_step = j->to_blocks ? channels : b,
                      to_step = j->to_blocks ? b : channels;

        if (b == 8)
            move_pixels(from, from_step, to, to_step, pixels, 8);
        else
            move_pixels(from, from_step, to, to_step, pixels, b);
    }
}

static void blocked_channels_move(const mf_kernel *k, const mf_shape *s, const float *from,
                                  float *to, bool to_blocks)
{
    blocked_channels_move_job j = { .from = from,
                                    .to = to,
                                    .groups = s->dims[1],
                                    .pixels = s->dims[2] * s->dims[3],
                                    .block = s->dims[4],
                                    .to_blocks = to_blocks };

    j.strips = (j.pixels + STRIP - 1) / STRIP;
    mf_kernel_complete(k, s->dims[0] * j.strips, move_strip, &j);
}

void mf_layout_block(const mf_kernel *k, const mf_shape *blocked, const float *plain, float *to)
{
    blocked_channels_move(k, blocked, plain, to, true);
}

void mf_layout_unblock(const mf_kernel *k, const mf_shape *blocked, const float *from, float *plain)
{
    blocked_channels_move(k, blocked, from, plain, false);
}

/* ---- ops ---- */

static mf_status check_block(const mf_node *node, const mf_shape *x, mf_shape *out)
{
    const int64_t b = mf_node_int(node, "block");
    char text[MF_SHAPE_TEXT];

    if (b < 1 || b > MAX_BLOCK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "block must be 1 to %d, not %lld", MAX_BLOCK,
                       (long long)b);
    *out = MF_SHAPE(-1, -1, -1, -1, b);
    if (x->rank < 0)
        return MF_OK;
    if (x->rank != 4 || x->dims[3] % b != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s is not an image with channels in blocks of %lld",
                       mf_shape_text(x, text), (long long)b);
    *out = mf_blocked_shape(x, b);
    return MF_OK;
}

static mf_status block_infer(mf_infer *in)
{
    return check_block(in->node, &in->in[0], &in->out[0]);
}

static mf_status block_run(mf_kernel *k)
{
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(check_block(k->node, &k->in[0]->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (out->count > 0)
        mf_layout_block(k, &shape, k->in[0]->data, out->data);
    return MF_OK;
}

static mf_status unblock_infer(mf_infer *in)
{
    return mf_unblocked_shape(&in->in[0], &in->out[0]);
}

static mf_status unblock_run(mf_kernel *k)
{
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(mf_unblocked_shape(&k->in[0]->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (out->count > 0)
        mf_layout_unblock(k, &k->in[0]->shape, k->in[0]->data, out->data);
    return MF_OK;
}

const mf_op mf_ops_layout[] = {
    { .name = "_Block",
      .def = "(input:float) -> (output:float) {block:int=8}",
      .infer = block_infer,
      .grad = mf_grad_missing,
      .run = block_run,
      .samples = MF_SAMPLES("f32[2,3,4,16]", "f32[1,20,20,6] ; block=3", "f32[0,3,4,16]",
                            "f32[2,3,4,12] !fails", "f32[2,3,16] !fails",
                            "f32[2,3,4,16] ; block=0 !fails") },
    { .name = "_Unblock",
      .def = "(input:float) -> (output:float)",
      .infer = unblock_infer,
      .grad = mf_grad_missing,
      .run = unblock_run,
      .samples = MF_SAMPLES("f32[2,2,3,4,8]", "f32[1,2,20,20,3]", "f32[2,2,3,0,8]",
                            "f32[2,2,3,4] !fails") },
    { 0 },
};
