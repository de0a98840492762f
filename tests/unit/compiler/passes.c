/* SPDX-License-Identifier: Apache-2.0 */
/* passes.c - the graphs that the passes produce, and that no pass changes a bit. */
#include "compiler/compiler.h"
#include "mf_test.h"

#include <meshflow/session.h>

#include <stdio.h>
#include <string.h>

enum { MOST = 24 };

/* A graph with its feeds and fetches. */
typedef struct model {
    mf_graph *g;
    mf_output feeds[MOST], fetches[MOST];
    mf_tensor *values[MOST];
    int n_feeds, n_fetches;
} model;

static void begin(model *m)
{
    memset(m, 0, sizeof *m);
    T_OK(mf_graph_new(&m->g));
}

static void end(model *m)
{
    for (int i = 0; i < m->n_feeds; i++)
        mf_tensor_free(m->values[i]);
    mf_graph_free(m->g);
}

/* An input fed with random numbers. dims ends with 0. */
static mf_output input(model *m, const int64_t *dims)
{
    uint64_t seed = (uint64_t)m->n_feeds + 1;
    mf_shape s = { .rank = 0 };
    char text[MF_SHAPE_TEXT];
    mf_tensor *t;
    mf_output o;

    for (; dims[s.rank]; s.rank++)
        s.dims[s.rank] = dims[s.rank];
    T_OK(mf_tensor_new(MF_DTYPE_F32, dims, s.rank, &t));
    for (int64_t i = 0; i < mf_tensor_count(t); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ((float *)mf_tensor_data(t))[i] = (float)(seed >> 40) / (float)(1 << 24) - 0.5f;
    }
    o = mf_applyf(m->g, "Placeholder", MF_NO_IN, "dtype=float shape=shape%s",
                  mf_shape_text(&s, text));
    m->feeds[m->n_feeds] = o;
    m->values[m->n_feeds++] = t;
    return o;
}
#define INPUT(m, ...) input(m, (const int64_t[]){ __VA_ARGS__, 0 })

static void fetch(model *m, mf_output o)
{
    T_TRUE(o.node != NULL);
    m->fetches[m->n_fetches++] = o;
}

/* d(sum of y)/dx for all inputs, fetched. */
static void fetch_gradients(model *m, mf_output y)
{
    mf_output dx[MOST];

    T_OK(mf_graph_status(m->g));
    T_OK(mf_gradients(m->g, &y, 1, m->feeds, m->n_feeds, NULL, dx));
    for (int i = 0; i < m->n_feeds; i++)
        fetch(m, dx[i]);
}

/* Number of nodes of this op after the passes; attr: only nodes with this attribute. */
static int count(const model *m, const char *disable, const char *op, const char *attr)
{
    const mf_signature sig = {
        .feeds = m->feeds, .fetches = m->fetches, .n_feeds = m->n_feeds, .n_fetches = m->n_fetches
    };
    mf_shape shapes[MOST];
    mf_signature shaped = sig;
    mf_compile c = { 0 };
    int n = 0;

    for (int i = 0; i < m->n_feeds; i++)
        shapes[i] = m->values[i]->shape;
    shaped.feed_shapes = shapes;
    T_OK(mf_passes_parse(disable, &c.disabled));
    T_OK(mf_compile_begin(&c, m->g, &shaped));
    T_OK(mf_compile_passes(&c));
    for (int64_t i = 0; i < c.graph->n_nodes; i++) {
        const mf_node *node = c.graph->nodes[i];

        n +=
            !node->removed && strcmp(node->op_name, op) == 0 && (!attr || mf_node_bool(node, attr));
    }
    mf_compile_end(&c);
    return n;
}

static void run(const model *m, const char *disable, mf_tensor **out)
{
    const mf_session_options o = { .threads = 2, .disable = disable };
    char names[2 * MOST][128];
    const char *feeds[MOST], *fetches[MOST];
    mf_session *s;

    for (int i = 0; i < m->n_feeds; i++) {
        snprintf(names[i], sizeof names[i], "%s:0", mf_node_name(m->feeds[i].node));
        feeds[i] = names[i];
    }
    for (int i = 0; i < m->n_fetches; i++) {
        char *name = names[MOST + i];

        snprintf(name, sizeof names[0], "%s:%d", mf_node_name(m->fetches[i].node),
                 m->fetches[i].port);
        fetches[i] = name;
    }
    T_OK(mf_session_new(m->g, &o, &s));
    T_OK(mf_session_run(s, NULL, feeds, (const mf_tensor *const *)m->values, m->n_feeds, fetches,
                        m->n_fetches, NULL, 0, out));
    mf_session_free(s);
}

static void expect_same_bits_without(const model *m, const char *disable)
{
    mf_tensor *on[MOST] = { 0 }, *off[MOST] = { 0 };

    run(m, NULL, on);
    run(m, disable, off);
    for (int i = 0; i < m->n_fetches; i++) {
        T_TRUE(mf_shape_equal(&on[i]->shape, &off[i]->shape));
        if (memcmp(on[i]->data, off[i]->data, (size_t)on[i]->count * sizeof(float)) != 0)
            T_FAIL("%s changes with %s", mf_node_name(m->fetches[i].node), disable);
        mf_tensor_free(on[i]);
        mf_tensor_free(off[i]);
    }
}

static mf_output relu_dense(model *m, mf_output x, int64_t in, int64_t out)
{
    const mf_output w = INPUT(m, in, out), b = INPUT(m, out);

    return mf_apply(
        m->g, "Relu",
        MF_IN(mf_apply(m->g, "BiasAdd", MF_IN(mf_apply(m->g, "MatMul", MF_IN(x, w)), b))));
}

MF_TEST(compile_fuse_makes_bias_and_activation_an_epilogue_of_the_product)
{
    model m;

    begin(&m);
    fetch(&m, relu_dense(&m, relu_dense(&m, INPUT(&m, 40, 30), 30, 70), 70, 10));
    T_EQ(count(&m, NULL, "_MatMulThen", NULL), 2);
    T_EQ(count(&m, NULL, "Relu", NULL), 0);
    T_EQ(count(&m, "fuse", "MatMul", NULL), 2);
    expect_same_bits_without(&m, "fuse");
    end(&m);
}

MF_TEST(compile_fuse_follows_a_product_used_twice_in_one_tree)
{
    model m;
    mf_output y;

    begin(&m);
    y = mf_apply(m.g, "MatMul", MF_IN(INPUT(&m, 33, 20), INPUT(&m, 20, 50)));
    fetch(&m, mf_apply(m.g, "Mul", MF_IN(y, mf_apply(m.g, "Sigmoid", MF_IN(y)))));
    T_EQ(count(&m, NULL, "_MatMulThen", NULL), 1);
    expect_same_bits_without(&m, "fuse");
    end(&m);
}

MF_TEST(compile_fuse_keeps_a_product_with_other_uses)
{
    model m;
    mf_output y;

    begin(&m);
    y = mf_apply(m.g, "MatMul", MF_IN(INPUT(&m, 33, 20), INPUT(&m, 20, 50)));
    fetch(&m, mf_apply(m.g, "Relu", MF_IN(y)));
    fetch(&m, y);
    T_EQ(count(&m, NULL, "_MatMulThen", NULL), 0);
    T_EQ(count(&m, NULL, "MatMul", NULL), 1);
    end(&m);
}

/* The tree has a consumer and a control edge: it is computed once. */
MF_TEST(compile_fuse_redirects_control_edges)
{
    model m;
    mf_output y, later;

    begin(&m);
    y = mf_apply(m.g, "MatMul", MF_IN(INPUT(&m, 33, 20), INPUT(&m, 20, 50)));
    y = mf_apply(m.g, "Relu", MF_IN(y));
    later = mf_apply(m.g, "MatMul", MF_IN(INPUT(&m, 30, 20), INPUT(&m, 20, 50)));
    mf_control(m.g, later.node, y.node);
    fetch(&m, y);
    fetch(&m, later);
    T_EQ(count(&m, NULL, "_MatMulThen", NULL), 1);
    T_EQ(count(&m, NULL, "Relu", NULL), 0);
    T_EQ(count(&m, NULL, "MatMul", NULL), 1);
    expect_same_bits_without(&m, "fuse");
    end(&m);
}

/* Operands of all broadcastable shapes, and sizes that are not multiples of the tile. */
MF_TEST(compile_fused_trees_broadcast_their_operands)
{
    model m;
    mf_output y;

    begin(&m);
    y = mf_apply(m.g, "AddV2", MF_IN(INPUT(&m, 7, 5, 11, 13), INPUT(&m, 13)));
    y = mf_apply(m.g, "Mul", MF_IN(y, INPUT(&m, 5, 1, 1)));
    y = mf_apply(m.g, "Sub", MF_IN(y, INPUT(&m, 7, 1, 11, 1)));
    y = mf_apply(m.g, "Maximum", MF_IN(y, INPUT(&m, 1)));
    fetch(&m, y);
    y = mf_apply(m.g, "AddV2", MF_IN(INPUT(&m, 3, 2500), INPUT(&m, 2500)));
    fetch(&m, mf_apply(m.g, "Mul", MF_IN(y, INPUT(&m, 3, 1))));
    T_EQ(count(&m, NULL, "_Fused", NULL), 2);
    expect_same_bits_without(&m, "fuse");
    end(&m);
}

static mf_output conv(model *m, mf_output x, int64_t in, int64_t out, int stride)
{
    return mf_applyf(m->g, "Conv2D", MF_IN(x, INPUT(m, 3, 3, in, out)),
                     "strides=[1,%d,%d,1] padding='SAME'", stride, stride);
}

static mf_output bias_relu(model *m, mf_output x, int64_t channels)
{
    return mf_apply(m->g, "Relu", MF_IN(mf_apply(m->g, "BiasAdd", MF_IN(x, INPUT(m, channels)))));
}

static mf_output norm(model *m, mf_output x, int64_t channels)
{
    const mf_output none = mf_applyf(m->g, "Const", MF_NO_IN, "dtype=float value=float[0]{}");

    return mf_apply(m->g, "FusedBatchNormV3",
                    MF_IN(x, INPUT(m, channels), INPUT(m, channels), none, none));
}

/* Two convolutions with bias, pooling, a residual block with batch normalisation, and gradients. */
static void small_net(model *m)
{
    mf_output x, y;

    begin(m);
    x = bias_relu(m, conv(m, INPUT(m, 3, 12, 10, 8), 8, 64, 1), 64);
    x = bias_relu(m, conv(m, x, 64, 64, 1), 64);
    x = mf_applyf(m->g, "MaxPool", MF_IN(x), "ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'");
    y = mf_apply(m->g, "Relu", MF_IN(norm(m, conv(m, x, 64, 64, 1), 64)));
    y = norm(m, conv(m, y, 64, 64, 1), 64);
    y = mf_apply(m->g, "Relu", MF_IN(mf_apply(m->g, "AddV2", MF_IN(x, y))));
    y = mf_applyf(m->g, "AvgPool", MF_IN(y), "ksize=[1,3,3,1] strides=[1,1,1,1] padding='SAME'");
    y = conv(m, y, 64, 72, 2);
    fetch(m, y);
    fetch_gradients(m, y);
}

static mf_output placeholder(const model *m, const char *attributes)
{
    return mf_applyf(m->g, "Placeholder", MF_NO_IN, "%s", attributes);
}

/* x = relu(conv(relu(conv(x, v)), w)), three iterations. */
static void looped_net(model *m)
{
    const char *image = "dtype=float shape=shape[2,6,5,64]";
    const char *filter = "dtype=float shape=shape[3,3,64,64]";
    const char *same = "strides=[1,1,1,1] padding='SAME'";
    mf_output i, x, v, w, y, more, next;

    begin(m);
    i = placeholder(m, "dtype=int32 shape=shape[]");
    x = placeholder(m, image);
    v = placeholder(m, filter);
    w = placeholder(m, filter);
    more = mf_apply(m->g, "Less", MF_IN(i, mf_scalar(m->g, MF_DTYPE_I32, 3)));
    next = mf_apply(m->g, "AddV2", MF_IN(i, mf_scalar(m->g, MF_DTYPE_I32, 1)));
    y = mf_apply(m->g, "Relu", MF_IN(mf_applyf(m->g, "Conv2D", MF_IN(x, v), "%s", same)));
    y = mf_apply(m->g, "Relu", MF_IN(mf_applyf(m->g, "Conv2D", MF_IN(y, w), "%s", same)));
    mf_define(m->g, "more", MF_IN(i, x, v, w), MF_IN(more));
    mf_define(m->g, "turn", MF_IN(i, x, v, w), MF_IN(next, y, v, w));
    y = mf_applyf(m->g, "While",
                  MF_IN(mf_scalar(m->g, MF_DTYPE_I32, 0), INPUT(m, 2, 6, 5, 64),
                        INPUT(m, 3, 3, 64, 64), INPUT(m, 3, 3, 64, 64)),
                  "cond=@more body=@turn");
    fetch(m, (mf_output){ y.node, 1 });
}

MF_TEST(compile_pooling_stores_the_place_of_maxima_and_includes_the_relu)
{
    model m;

    small_net(&m);
    T_EQ(count(&m, NULL, "_MaxPoolTaps", NULL), 1);
    T_EQ(count(&m, NULL, "_MaxPoolGradTaps", "relu"), 1);
    T_EQ(count(&m, NULL, "MaxPoolGrad", NULL), 0);
    T_EQ(count(&m, "pooling", "_MaxPoolTaps", NULL), 0);
    expect_same_bits_without(&m, "pooling");
    expect_same_bits_without(&m, "pooling,fuse");
    end(&m);
}

/* relu(x), pooled by windows of 2x2, and a gradient with windows of size x size; fetched with and
 * without its ReluGrad. */
static void pooled_net(model *m, const char *pool, const char *grad, bool fetched)
{
    mf_output x, y, dx;

    begin(m);
    x = mf_apply(m->g, "Relu", MF_IN(INPUT(m, 2, 6, 6, 5)));
    y = mf_applyf(m->g, "MaxPool", MF_IN(x), "%s", pool);
    dx = mf_applyf(m->g, "MaxPoolGrad", MF_IN(x, y, INPUT(m, 2, 3, 3, 5)), "%s", grad);
    if (fetched)
        fetch(m, dx);
    fetch(m, mf_apply(m->g, "ReluGrad", MF_IN(dx, x)));
}

MF_TEST(compile_pooling_needs_equal_windows_that_do_not_overlap)
{
    static const struct {
        const char *pool, *grad;
        bool fetched;
        int taps, relu;
    } cases[] = {
#define WINDOWS(n, padding) "ksize=[1," n "," n ",1] strides=[1,2,2,1] padding='" padding "'"
        { WINDOWS("2", "VALID"), WINDOWS("2", "VALID"), false, 1, 1 },
        { WINDOWS("2", "VALID"), WINDOWS("2", "VALID"), true, 1, 0 },
        { WINDOWS("2", "VALID"), WINDOWS("2", "SAME"), false, 0, 0 },
        { WINDOWS("2", "VALID"), WINDOWS("1", "VALID"), false, 0, 0 },
        { WINDOWS("1", "VALID"), WINDOWS("1", "VALID"), false, 1, 1 },
        { WINDOWS("3", "SAME"), WINDOWS("3", "SAME"), false, 0, 0 },
#undef WINDOWS
    };

    for (int i = 0; i < MF_COUNT(cases); i++) {
        model m;

        pooled_net(&m, cases[i].pool, cases[i].grad, cases[i].fetched);
        T_EQ(count(&m, NULL, "_MaxPoolGradTaps", NULL), cases[i].taps);
        T_EQ(count(&m, NULL, "_MaxPoolGradTaps", "relu"), cases[i].relu);
        expect_same_bits_without(&m, "pooling");
        end(&m);
    }
}

MF_TEST(compile_no_pass_changes_a_bit_of_a_loop)
{
    model m;

    looped_net(&m);
    expect_same_bits_without(&m, "fuse");
    expect_same_bits_without(&m, "region");
    end(&m);
}

MF_TEST(compile_no_pass_changes_a_bit_of_a_net)
{
    static const char *const passes[] = {
        "pooling", "fuse", "cse", "simplify", "fold", "region", "place", "pooling,fuse,cse,simplify"
    };
    model m;

    small_net(&m);
    for (int i = 0; i < MF_COUNT(passes); i++)
        expect_same_bits_without(&m, passes[i]);
    end(&m);
}

/* A constant may have a control input; the folded result keeps it. */
MF_TEST(compile_fold_keeps_nodes_that_wait_for_an_effect)
{
    mf_graph *g;
    mf_session *s;
    mf_tensor *result[1] = { NULL };
    mf_output v, one, sum, twice, set;
    const char *fetch;

    T_OK(mf_graph_new(&g));
    v = mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[] shared_name='v'");
    set = mf_apply(g, "AssignVariableOp", MF_IN(v, mf_scalar(g, MF_DTYPE_F32, 5.0)));
    one = mf_scalar(g, MF_DTYPE_F32, 1.0);
    mf_control(g, one.node, set.node);
    sum = mf_apply(g, "AddV2", MF_IN(one, mf_scalar(g, MF_DTYPE_F32, 2.0)));
    twice = mf_applyf(g, "AddV2", MF_IN(sum, sum), "name='twice'");
    (void)twice;
    (void)mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float name='read'");
    T_OK(mf_session_new(g, NULL, &s));
    fetch = "twice:0";
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, result));
    T_EQ_F(*(const float *)mf_tensor_data(result[0]), 6.0);
    fetch = "read:0";
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, result));
    T_EQ_F(*(const float *)mf_tensor_data(result[0]), 5.0);
    mf_tensor_free(result[0]);
    mf_session_free(s);
    mf_graph_free(g);
}
