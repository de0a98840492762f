/* SPDX-License-Identifier: Apache-2.0 */
/* conv_plan.h - convolutions by oneDNN: float, several images at a time, on the calling thread.
 *
 * The filter is [spatial..., channels in per group, channels out]; oneDNN needs its own layout, so
 * a run packs the filter first (or unpacks the filter's gradient last). */
#ifndef MF_OPS_CONV_PLAN_H
#define MF_OPS_CONV_PLAN_H

#include "ops/nn/window.h"

typedef enum mf_conv_kind { MF_CONV_FORWARD, MF_CONV_INPUT, MF_CONV_FILTER } mf_conv_kind;

/* A convolution of `window.batch` images of window.channels. All bytes are compared: zero it first.
 */
typedef struct mf_conv {
    mf_window window;
    int64_t out_channels, groups;
    int64_t block; /* > 0: channels of input and output are in blocks of this size (layout.h) */
    mf_conv_kind kind; /* the result: output, gradient of input or gradient of filter */
} mf_conv;

typedef struct mf_conv_plan mf_conv_plan;
/* Cached plans of a node; shared by its runs. */
typedef struct mf_conv_plans mf_conv_plans;

MF_MUST mf_status mf_conv_plans_new(mf_conv_plans **out);
void mf_conv_plans_free(mf_conv_plans *plans);
/* The plan for `conv`, made on first use; it lives as long as `plans`. Fails: UNIMPLEMENTED (not
 * supported well by oneDNN: use another kernel), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_conv_plan_get(mf_conv_plans *plans, const mf_conv *conv, mf_conv_plan **out);

/* Bytes of the filter in oneDNN's layout, and of scratch memory for run(). */
size_t mf_conv_plan_packed(const mf_conv_plan *plan);
size_t mf_conv_plan_scratch(const mf_conv_plan *plan);
/* Converts to oneDNN's layout: packs the filter, or (MF_CONV_FILTER) unpacks its gradient. */
MF_MUST mf_status mf_conv_plan_pack(mf_conv_plan *plan, const void *from, void *to, void *scratch);
/* x: input or its gradient, w: packed filter or its gradient, y: output or its gradient. */
MF_MUST mf_status mf_conv_plan_run(mf_conv_plan *plan, void *x, void *w, void *y, void *scratch);

#endif
