/* SPDX-License-Identifier: Apache-2.0 */
/* channel_layout.c - pass: between convolutions, images are stored with channels in blocks of
 * eight, [N,C/8,H,W,8] (ops/nn/blocked_channels.h), the format of oneDNN's kernels. Convolutions
 * with many channels use it; ops between them follow if all their image inputs are already blocked.
 * All other consumers use a plain copy, made once on demand.
 * Exact: a direct convolution adds in the same order in both layouts (pointwise ones do not, and
 * are left alone), and no other converted op depends on the layout. */
#include "compiler/compiler.h"

#include <string.h>

enum { BLOCK = 8, MIN_CHANNELS = 64 }; /* with fewer channels the copies cost more than they gain */

typedef struct layouter {
    mf_compile *c;
    mf_subst s;
    mf_output **blocked; /* by node id: NULL, or the blocked version of each port (or none) */
    bool *held; /* by node id: the node has control consumers */
    int64_t n;
} layouter;

/* AVX-512 kernels use other blocks, and plain images without loss. */
static bool blocks_help(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && !__builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}

static bool channel_layout_is_op(const mf_node *n, const char *name)
{
    return strcmp(n->op->name, name) == 0;
}

static const mf_shape *channel_layout_shape_of(const layouter *l, mf_output o)
{
    return &mf_compile_facts(l->c, o.node)->shapes[o.port];
}

static bool is_image(const layouter *l, mf_output o)
{
    const mf_shape *s = channel_layout_shape_of(l, o);
    int64_t count;

    return o.node->out_types[o.port] == MF_DTYPE_F32 && s->rank == 4 && mf_shape_is_static(s) &&
           mf_shape_count(s, &count) == MF_OK && count > 0 && s->dims[3] % BLOCK == 0;
}

/* ---- blocked versions ---- */

static mf_output channel_layout_none(void)
{
    return (mf_output){ 0 };
}

static mf_output blocked_of(const layouter *l, mf_output o)
{
    return l->blocked[o.node->id] ? l->blocked[o.node->id][o.port] : channel_layout_none();
}

static mf_status set_blocked(layouter *l, mf_output o, mf_output version)
{
    mf_output **ports = &l->blocked[o.node->id];

    if (!*ports)
        *ports = MF_ARENA_ARRAY(l->c->graph->arena, mf_output, o.node->n_outputs);
    if (!*ports)
        return MF_NOMEM("compiling");
    (*ports)[o.port] = version;
    return MF_OK;
}

static mf_status block(layouter *l, mf_output o, mf_output *out)
{
    *out = blocked_of(l, o);
    if (out->node)
        return MF_OK;
    *out =
        mf_applyf(l->c->graph, "_Block", MF_IN(o), "block=%d device='%s'", BLOCK, o.node->device);
    return set_blocked(l, o, *out);
}

/* From now on `version` produces the image o; consumers that need it plain get a copy. */
static mf_status channel_layout_replace(layouter *l, mf_output o, mf_output version)
{
    MF_TRY(set_blocked(l, o, version));
    return mf_subst_add(
        &l->s, l->c, o,
        mf_applyf(l->c->graph, "_Unblock", MF_IN(version), "device='%s'", o.node->device));
}

/* ---- rebuilding nodes ---- */

/* Copy of n with other inputs; `blocked`: its images are blocked. */
static mf_status rebuild(layouter *l, const mf_node *n, const mf_output *inputs, bool blocked,
                         mf_node **out)
{
    mf_arena *arena = l->c->graph->arena;
    mf_named_attr *attrs = MF_ARENA_ARRAY(arena, mf_named_attr, n->n_attrs + 1);
    mf_node_spec spec = { .op = n->op_name,
                          .name = mf_graph_unique_name(l->c->graph, n->name),
                          .device = n->device,
                          .inputs = inputs,
                          .n_inputs = n->n_inputs,
                          .attrs = attrs,
                          .n_attrs = n->n_attrs };

    if (!attrs)
        return MF_NOMEM("compiling");
    memcpy(attrs, n->attrs, (size_t)n->n_attrs * sizeof *attrs);
    if (blocked)
        attrs[spec.n_attrs++] =
            (mf_named_attr){ "_blocked", { .kind = MF_ATTR_BOOL, .n = 1, .b = true } };
    return mf_graph_add(l->c->graph, &spec, out);
}

static mf_output channel_layout_reshape(layouter *l, mf_output o, const int64_t *dims, int rank)
{
    return mf_applyf(l->c->graph, "Reshape", MF_IN(o, mf_ints(l->c->graph, dims, rank)),
                     "device='%s'", o.node->device);
}

/* ---- convolutions ---- */

typedef enum conv_kind { NO_CONV, FORWARD, TO_INPUT, TO_FILTER } conv_kind;

static conv_kind conv_of(const mf_node *n)
{
    if (channel_layout_is_op(n, "Conv2D"))
        return FORWARD;
    if (channel_layout_is_op(n, "Conv2DBackpropInput"))
        return TO_INPUT;
    return channel_layout_is_op(n, "Conv2DBackpropFilter") ? TO_FILTER : NO_CONV;
}

static bool all_ones(const mf_node *n, const char *attr)
{
    int64_t count;
    const int64_t *v = mf_node_ints(n, attr, &count);

    for (int64_t i = 0; i < count; i++) {
        if (v[i] != 1)
            return false;
    }
    return true;
}

static bool wants_blocks(const layouter *l, const mf_node *n, conv_kind kind)
{
    const mf_output self = { (mf_node *)(uintptr_t)n, 0 };
    const mf_output x = kind == TO_INPUT ? self : n->inputs[0];
    const mf_output y = kind == FORWARD ? self : n->inputs[2];
    const mf_shape *w = channel_layout_shape_of(l, kind == TO_FILTER ? self : n->inputs[1]);

    return strcmp(mf_node_string(n, "data_format"), "NHWC") == 0 && all_ones(n, "dilations") &&
           is_image(l, x) && is_image(l, y) && w->rank == 4 && mf_shape_is_static(w) &&
           w->dims[0] * w->dims[1] > 1 && w->dims[2] == channel_layout_shape_of(l, x)->dims[3] &&
           w->dims[2] >= MIN_CHANNELS && w->dims[3] >= MIN_CHANNELS;
}

static mf_status block_conv(layouter *l, mf_node *n, conv_kind kind)
{
    mf_output in[3] = { n->inputs[0], n->inputs[1],
                        n->n_inputs > 2 ? n->inputs[2] : channel_layout_none() };
    mf_node *node;

    if (kind != TO_INPUT)
        MF_TRY(block(l, n->inputs[0], &in[0]));
    if (kind != FORWARD)
        MF_TRY(block(l, n->inputs[2], &in[2]));
    MF_TRY(rebuild(l, n, in, true, &node));
    if (kind == TO_FILTER)
        return mf_subst_add(&l->s, l->c, (mf_output){ n, 0 }, (mf_output){ node, 0 });
    return channel_layout_replace(l, (mf_output){ n, 0 }, (mf_output){ node, 0 });
}

/* ---- elementwise ops and sums ---- */

/* The operand `o` of an op on images like `image`, converted for blocked images; none: impossible.
 */
static mf_output operand(layouter *l, mf_output o, const mf_shape *image)
{
    const mf_shape *s = channel_layout_shape_of(l, o);
    const int64_t channels = image->dims[3];
    const int64_t row[] = { channels / BLOCK, 1, 1, BLOCK };
    int64_t count;

    if (mf_shape_equal(s, image))
        return blocked_of(l, o);
    if (!mf_shape_is_static(s) || mf_shape_count(s, &count) != MF_OK || s->rank > 4)
        return channel_layout_none();
    if (count == 1)
        return o;
    return count == channels && s->dims[s->rank - 1] == channels
               ? channel_layout_reshape(l, o, row, 4)
               : channel_layout_none();
}

static mf_status block_elementwise(layouter *l, mf_node *n)
{
    const mf_output self = { n, 0 };
    mf_output *in = MF_ARENA_ARRAY(l->c->graph->arena, mf_output, n->n_inputs);
    bool any = false;
    mf_node *node;

    if (!in)
        return MF_NOMEM("compiling");
    if (!is_image(l, self))
        return MF_OK;
    for (int i = 0; i < n->n_inputs; i++)
        any = any || blocked_of(l, n->inputs[i]).node;
    for (int i = 0; any && i < n->n_inputs; i++) {
        in[i] = operand(l, n->inputs[i], channel_layout_shape_of(l, self));
        if (!in[i].node)
            return MF_OK;
    }
    if (!any)
        return MF_OK;
    MF_TRY(rebuild(l, n, in, false, &node));
    return channel_layout_replace(l, self, (mf_output){ node, 0 });
}

/* ---- pooling: a block is treated as an image of eight channels ---- */

static mf_output as_images(layouter *l, mf_output o, mf_output blocked)
{
    const mf_shape *s = channel_layout_shape_of(l, o);
    const int64_t dims[] = { s->dims[0] * s->dims[3] / BLOCK, s->dims[1], s->dims[2], BLOCK };

    return channel_layout_reshape(l, blocked, dims, 4);
}

static bool pools_by_channel(const mf_node *n)
{
    int64_t sizes, strides;
    const int64_t *size = mf_node_ints(n, "ksize", &sizes);
    const int64_t *stride = mf_node_ints(n, "strides", &strides);

    return strcmp(mf_node_string(n, "data_format"), "NHWC") == 0 && sizes == 4 && strides == 4 &&
           size[3] == 1 && stride[3] == 1;
}

/* MaxPool, AvgPool, MaxPoolGrad: all inputs are images; AvgPoolGrad: input 0 is a shape. */
static mf_status block_pool(layouter *l, mf_node *n)
{
    const mf_output self = { n, 0 };
    const bool shaped = channel_layout_is_op(n, "AvgPoolGrad");
    const mf_shape *s = channel_layout_shape_of(l, self);
    mf_output in[3];
    mf_node *node;

    if (!is_image(l, self) || !pools_by_channel(n))
        return MF_OK;
    for (int i = shaped; i < n->n_inputs; i++) {
        const mf_output blocked = blocked_of(l, n->inputs[i]);

        if (!blocked.node)
            return MF_OK;
        in[i] = as_images(l, n->inputs[i], blocked);
    }
    if (shaped)
        in[0] = mf_ints(
            l->c->graph,
            (const int64_t[]){ s->dims[0] * s->dims[3] / BLOCK, s->dims[1], s->dims[2], BLOCK }, 4);
    MF_TRY(rebuild(l, n, in, false, &node));
    return channel_layout_replace(
        l, self,
        channel_layout_reshape(
            l, (mf_output){ node, 0 },
            (const int64_t[]){ s->dims[0], s->dims[3] / BLOCK, s->dims[1], s->dims[2], BLOCK }, 5));
}

/* ---- sums by channel: the op supports blocks ---- */

/* The first n_images inputs are images and, with `image_out`, output 0. */
static mf_status block_by_channel(layouter *l, mf_node *n, int n_images, bool image_out)
{
    mf_output in[8];
    mf_node *node;

    if (n->n_inputs > MF_COUNT(in) || strcmp(mf_node_string(n, "data_format"), "NHWC") != 0)
        return MF_OK;
    for (int i = 0; i < n->n_inputs; i++) {
        in[i] = i < n_images ? blocked_of(l, n->inputs[i]) : n->inputs[i];
        if (!in[i].node)
            return MF_OK;
    }
    MF_TRY(rebuild(l, n, in, true, &node));
    if (image_out)
        MF_TRY(channel_layout_replace(l, (mf_output){ n, 0 }, (mf_output){ node, 0 }));
    for (int p = image_out; p < n->n_outputs; p++)
        MF_TRY(mf_subst_add(&l->s, l->c, (mf_output){ n, p }, (mf_output){ node, p }));
    return MF_OK;
}

/* ---- the pass ---- */

static mf_status block_follower(layouter *l, mf_node *n)
{
    if (n->n_inputs == 0 || n->n_outputs == 0)
        return MF_OK;
    if (channel_layout_is_op(n, "MaxPool") || channel_layout_is_op(n, "AvgPool") ||
        channel_layout_is_op(n, "MaxPoolGrad") || channel_layout_is_op(n, "AvgPoolGrad"))
        return block_pool(l, n);
    if (channel_layout_is_op(n, "FusedBatchNormV3") || channel_layout_is_op(n, "FusedBatchNormV2"))
        return block_by_channel(l, n, 1, true);
    if (channel_layout_is_op(n, "FusedBatchNormGradV3") ||
        channel_layout_is_op(n, "FusedBatchNormGradV2"))
        return block_by_channel(l, n, 2, true);
    if (channel_layout_is_op(n, "BiasAddGrad"))
        return block_by_channel(l, n, 1, false);
    if (mf_node_kernel(n)->loop || channel_layout_is_op(n, "AddN"))
        return block_elementwise(l, n);
    return MF_OK;
}

static mf_status layout_all(layouter *l, mf_node *const *order, int64_t n)
{
    bool any = false;

    for (int64_t i = 0; i < n; i++) {
        mf_node *node = order[i];
        const conv_kind kind = node->op ? conv_of(node) : NO_CONV;

        if (!node->op || node->n_controls > 0 || l->held[node->id])
            continue;
        if (kind != NO_CONV && wants_blocks(l, node, kind)) {
            MF_TRY(block_conv(l, node, kind));
            any = true;
        } else if (any) {
            MF_TRY(block_follower(l, node));
        }
    }
    return mf_graph_status(l->c->graph);
}

static void find_control_sources(layouter *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        const mf_node *n = l->c->graph->nodes[i];

        for (int k = 0; k < n->n_controls && !n->removed; k++)
            l->held[n->controls[k]->id] = true;
    }
    for (int i = 0; i < l->c->n_targets; i++)
        l->held[l->c->targets[i]->id] = true;
}

mf_status mf_pass_layout(mf_compile *c)
{
    layouter l = { .c = c, .n = c->graph->n_nodes };
    mf_node **order = NULL;
    int64_t n;
    mf_status st;

    if (!blocks_help())
        return MF_OK;
    l.blocked = mf_calloc(l.n, sizeof *l.blocked);
    l.held = mf_calloc(l.n, sizeof *l.held);
    st = l.blocked && l.held ? MF_OK : MF_NOMEM("compiling");
    if (st == MF_OK)
        st = mf_infer_graph(c);
    if (st == MF_OK)
        st = mf_compile_order(c, &order, &n);
    if (st == MF_OK)
        st = mf_subst_init(&l.s, c);
    if (st == MF_OK) {
        find_control_sources(&l);
        st = layout_all(&l, order, n);
    }
    if (st == MF_OK)
        st = mf_subst_apply(&l.s, c);
    mf_subst_deinit(&l.s);
    mf_free(order);
    mf_free(l.blocked);
    mf_free(l.held);
    return st;
}
