/* SPDX-License-Identifier: Apache-2.0 */
/* conv_plan.c - oneDNN convolution primitives for one shape: creation, filter packing, execution.
 */
#include "ops/dnnl/conv_plan.h"

#include "base/mem.h"
#include "ops/dnnl/dnnl_util.h"

#include <pthread.h>
#include <string.h>

enum { MAX_PLANS = 64, MAX_MD = MF_WINDOW_DIMS + 3 };

struct mf_conv_plan {
    mf_conv conv;
    mf_dnnl_prim *prim, *reorder; /* prim NULL: not supported by oneDNN */
    struct mf_conv_plan *next;
};

struct mf_conv_plans {
    pthread_mutex_t lock;
    mf_conv_plan *first; /* guarded by lock */
    int count; /* guarded by lock */
};

mf_status mf_conv_plans_new(mf_conv_plans **out)
{
    *out = mf_calloc(1, sizeof **out);
    if (!*out)
        return MF_NOMEM("convolution plans");
    pthread_mutex_init(&(*out)->lock, NULL);
    return MF_OK;
}

static void plan_free(mf_conv_plan *plan)
{
    mf_dnnl_prim_free(plan->prim);
    mf_dnnl_prim_free(plan->reorder);
    mf_free(plan);
}

void mf_conv_plans_free(mf_conv_plans *plans)
{
    if (!plans)
        return;
    for (mf_conv_plan *p = plans->first, *next; p; p = next) {
        next = p->next;
        plan_free(p);
    }
    pthread_mutex_destroy(&plans->lock);
    mf_free(plans);
}

static dnnl_status_t blocked_md(const mf_conv *c, int64_t channels, const int64_t *spatial,
                                dnnl_memory_desc_t *md)
{
    const dnnl_dims_t dims = { c->window.batch, channels, spatial[0], spatial[1] };

    if (c->window.nd != 2 || (c->block != 8 && c->block != 16))
        return dnnl_unimplemented;
    return dnnl_memory_desc_init_by_tag(md, 4, dims, dnnl_f32,
                                        c->block == 8 ? dnnl_aBcd8b : dnnl_aBcd16b);
}

/* TensorFlow's layouts of input, filter and output. oneDNN's order of dimensions is batch,
 * channels, spatial; strides describe the memory. */
static dnnl_status_t image_md(const mf_conv *c, int64_t channels, const int64_t *spatial,
                              dnnl_memory_desc_t *md)
{
    const int nd = c->window.nd;
    dnnl_dims_t dims = { c->window.batch, channels }, strides;
    int64_t step = c->window.channels_first ? 1 : channels;

    if (c->block > 0)
        return blocked_md(c, channels, spatial, md);
    for (int d = nd - 1; d >= 0; d--) {
        dims[2 + d] = spatial[d];
        strides[2 + d] = step;
        step *= spatial[d];
    }
    strides[1] = c->window.channels_first ? step : 1;
    strides[0] = c->window.channels_first ? step * channels : step;
    return dnnl_memory_desc_init_by_strides(md, nd + 2, dims, dnnl_f32, strides);
}

static dnnl_status_t filter_md(const mf_conv *c, bool any, dnnl_memory_desc_t *md)
{
    const int nd = c->window.nd, g = c->groups > 1;
    const int64_t out = c->out_channels / c->groups, in = c->window.channels / c->groups;
    dnnl_dims_t dims = { c->groups }, strides = { out };
    int64_t step = in * c->out_channels;

    dims[g] = out;
    strides[g] = 1;
    dims[g + 1] = in;
    strides[g + 1] = c->out_channels;
    for (int d = nd - 1; d >= 0; d--) {
        dims[g + 2 + d] = c->window.size[d];
        strides[g + 2 + d] = step;
        step *= c->window.size[d];
    }
    if (any)
        return dnnl_memory_desc_init_by_tag(md, nd + 2 + g, dims, dnnl_f32, dnnl_format_tag_any);
    return dnnl_memory_desc_init_by_strides(md, nd + 2 + g, dims, dnnl_f32, strides);
}

typedef struct conv_mds {
    dnnl_memory_desc_t x, w, y, plain_w;
} conv_mds;

static dnnl_status_t make_mds(const mf_conv *c, conv_mds *m)
{
    dnnl_status_t s = image_md(c, c->window.channels, c->window.in, &m->x);

    if (s == dnnl_success)
        s = image_md(c, c->out_channels, c->window.out, &m->y);
    if (s == dnnl_success)
        s = filter_md(c, true, &m->w);
    if (s == dnnl_success)
        s = filter_md(c, false, &m->plain_w);
    return s;
}

/* The primitive descriptor; gradients need the forward one as a hint. */
static dnnl_status_t make_pd(const mf_conv *c, const conv_mds *m, dnnl_engine_t engine,
                             const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    dnnl_dims_t strides, dilates, lo, hi;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t s;

    for (int d = 0; d < c->window.nd; d++) {
        strides[d] = c->window.stride[d];
        dilates[d] = c->window.dilation[d] - 1;
        lo[d] = c->window.pad_lo[d];
        hi[d] = c->window.pad_hi[d];
    }
    s = dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_training,
                                                   dnnl_convolution_direct, &m->x, &m->w, NULL,
                                                   &m->y, strides, dilates, lo, hi);
    if (s == dnnl_success)
        s = dnnl_primitive_desc_create(&hint, &desc, attr, engine, NULL);
    if (s != dnnl_success || c->kind == MF_CONV_FORWARD) {
        *out = hint;
        return s;
    }
    if (c->kind == MF_CONV_INPUT)
        s = dnnl_dilated_convolution_backward_data_desc_init(
            &desc, dnnl_convolution_direct, &m->x, &m->w, &m->y, strides, dilates, lo, hi);
    else
        s = dnnl_dilated_convolution_backward_weights_desc_init(
            &desc, dnnl_convolution_direct, &m->x, &m->w, NULL, &m->y, strides, dilates, lo, hi);
    if (s == dnnl_success)
        s = dnnl_primitive_desc_create(out, &desc, attr, engine, hint);
    dnnl_primitive_desc_destroy(hint);
    return s;
}

/* oneDNN's reference loops are slower than Meshflow's kernel. */
static bool is_reference(dnnl_primitive_desc_t pd)
{
    const char *impl = "";

    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&impl) !=
               dnnl_success ||
           strstr(impl, "ref") != NULL;
}

/* oneDNN 2.6 writes beyond its scratch memory for the filter gradient of a pointwise convolution
 * with strides and fewer channels than vector lanes. */
static bool is_broken(const mf_conv *c)
{
    bool pointwise = c->kind == MF_CONV_FILTER, strides = false;

    for (int d = 0; d < c->window.nd; d++) {
        pointwise = pointwise && c->window.size[d] == 1;
        strides = strides || c->window.stride[d] > 1;
    }
    return pointwise && strides && c->window.channels / c->groups < 16;
}

static mf_status make_prims(mf_conv_plan *plan)
{
    static const struct {
        const char *name;
        dnnl_query_t queries[3];
        int args[3];
    } kinds[] = {
        [MF_CONV_FORWARD] = { "convolution",
                              { dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md },
                              { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST } },
        [MF_CONV_INPUT] = { "convolution's input gradient",
                            { dnnl_query_diff_src_md, dnnl_query_weights_md,
                              dnnl_query_diff_dst_md },
                            { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST } },
        [MF_CONV_FILTER] = { "convolution's filter gradient",
                             { dnnl_query_src_md, dnnl_query_diff_weights_md,
                               dnnl_query_diff_dst_md },
                             { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST } },
    };
    const mf_conv *c = &plan->conv;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    const dnnl_memory_desc_t *packed;
    dnnl_engine_t engine;
    dnnl_status_t s;
    conv_mds m;

    if (is_broken(c))
        return MF_OK; /* cached as a plan without a primitive */
    MF_TRY(mf_dnnl_engine(&engine));
    s = make_mds(c, &m);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_create(&attr);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (s == dnnl_success)
        s = make_pd(c, &m, engine, attr, &pd);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (s == dnnl_success && is_reference(pd)) {
        dnnl_primitive_desc_destroy(pd);
        s = dnnl_unimplemented;
    }
    if (s == dnnl_unimplemented)
        return MF_OK; /* the same */
    MF_TRY(mf_dnnl_status(s, kinds[c->kind].name));
    MF_TRY(mf_dnnl_prim_new(pd, kinds[c->kind].name, kinds[c->kind].queries, kinds[c->kind].args, 3,
                            &plan->prim));
    packed = mf_dnnl_prim_md(plan->prim, 1);
    return c->kind == MF_CONV_FILTER ? mf_dnnl_reorder_new(packed, &m.plain_w, &plan->reorder)
                                     : mf_dnnl_reorder_new(&m.plain_w, packed, &plan->reorder);
}

static mf_conv_plan *conv_plan_find(const mf_conv_plans *plans, const mf_conv *conv)
{
    for (mf_conv_plan *p = plans->first; p; p = p->next) {
        /* Differing padding bytes only cost an extra plan.
         * NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
        if (memcmp(&p->conv, conv, sizeof *conv) == 0)
            return p;
    }
    return NULL;
}

mf_status mf_conv_plan_get(mf_conv_plans *plans, const mf_conv *conv, mf_conv_plan **out)
{
    mf_conv_plan *p;
    mf_status st = MF_OK;

    *out = NULL;
    pthread_mutex_lock(&plans->lock);
    p = conv_plan_find(plans, conv);
    if (!p && plans->count >= MAX_PLANS) { /* ever-changing shapes are not worth a plan each */
        st = MF_UNIMPLEMENTED;
    } else if (!p) {
        p = mf_calloc(1, sizeof *p);
        st = p ? MF_OK : MF_NOMEM("a convolution plan");
        if (p) {
            p->conv = *conv;
            st = make_prims(p);
        }
        if (st == MF_OK) {
            p->next = plans->first;
            plans->first = p;
            plans->count++;
        } else if (p) {
            plan_free(p);
        }
    }
    pthread_mutex_unlock(&plans->lock);
    if (st != MF_OK)
        return st;
    if (!p->prim)
        return MF_UNIMPLEMENTED;
    *out = p;
    return MF_OK;
}

size_t mf_conv_plan_packed(const mf_conv_plan *plan)
{
    return mf_dnnl_prim_bytes(plan->prim, 1);
}

size_t mf_conv_plan_scratch(const mf_conv_plan *plan)
{
    const size_t a = mf_dnnl_prim_scratch(plan->prim), b = mf_dnnl_prim_scratch(plan->reorder);

    return a > b ? a : b;
}

mf_status mf_conv_plan_pack(mf_conv_plan *plan, const void *from, void *to, void *scratch)
{
    void *const data[] = { (void *)(uintptr_t)from, to };

    return mf_dnnl_prim_run(plan->reorder, data, scratch);
}

mf_status mf_conv_plan_run(mf_conv_plan *plan, void *x, void *w, void *y, void *scratch)
{
    void *const data[] = { x, w, y };

    return mf_dnnl_prim_run(plan->prim, data, scratch);
}
