/* SPDX-License-Identifier: Apache-2.0 */
/* update_fusion.c - the pass that merges updates: which updates it merges, and that no bit changes.
 */
#include "compiler/compiler.h"
#include "mf_test.h"

#include <meshflow/session.h>

#include <stdio.h>
#include <string.h>

enum { MOST = 40 };

typedef struct net {
    mf_graph *g;
    mf_output vars[MOST], reads[MOST];
    int n;
    mf_node *init, *train;
} net;

static void begin(net *x)
{
    memset(x, 0, sizeof *x);
    T_OK(mf_graph_new(&x->g));
    x->init = mf_applyf(x->g, "NoOp", MF_NO_IN, "name='init'").node;
    x->train = mf_applyf(x->g, "NoOp", MF_NO_IN, "name='train'").node;
}

static mf_output numbers(net *x, int64_t n, uint64_t seed)
{
    mf_tensor *t;
    mf_output o;

    T_OK(mf_tensor_new(MF_DTYPE_F32, &n, 1, &t));
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ((float *)t->data)[i] = (float)(seed >> 40) / (float)(1 << 24) - 0.5f;
    }
    o = mf_constant(x->g, t, NULL);
    mf_tensor_free(t);
    return o;
}

/* A variable of n numbers with an initial value, and its read. */
static mf_output variable(net *x, int64_t n)
{
    const int i = x->n++;
    const mf_output v = mf_applyf(x->g, "VarHandleOp", MF_NO_IN,
                                  "dtype=float shape=shape[%d] shared_name='v%d'", (int)n, i);

    mf_control(x->g, x->init,
               mf_apply(x->g, "AssignVariableOp", MF_IN(v, numbers(x, n, (uint64_t)i + 1))).node);
    x->vars[i] = v;
    x->reads[i] = mf_applyf(x->g, "ReadVariableOp", MF_IN(v), "dtype=float name='read%d'", i);
    return v;
}

static mf_output scalar(net *x, double value)
{
    return mf_scalar(x->g, MF_DTYPE_F32, value);
}

/* A momentum update of two new variables, as part of the step. */
static mf_node *momentum(net *x, int64_t n, double rate, const char *attributes)
{
    const mf_output v = variable(x, n), slot = variable(x, n);
    mf_node *node =
        mf_applyf(x->g, "ResourceApplyMomentum",
                  MF_IN(v, slot, scalar(x, rate), numbers(x, n, (uint64_t)n + 100), scalar(x, 0.9)),
                  "%s", attributes)
            .node;

    mf_control(x->g, x->train, node);
    return node;
}

static int count(const net *x, const char *op)
{
    const mf_signature sig = { .targets = &x->train, .n_targets = 1 };
    mf_compile c = { 0 };
    int n = 0;

    T_OK(mf_graph_status(x->g));
    T_OK(mf_compile_begin(&c, x->g, &sig));
    T_OK(mf_compile_passes(&c));
    for (int64_t i = 0; i < c.graph->n_nodes; i++)
        n += !c.graph->nodes[i]->removed && strcmp(c.graph->nodes[i]->op_name, op) == 0;
    mf_compile_end(&c);
    return n;
}

/* All variables after three steps. */
static void run(const net *x, const char *disable, mf_tensor **out)
{
    const mf_session_options o = { .threads = 3, .disable = disable };
    const char *init = "init", *train = "train", *fetches[MOST];
    char names[MOST][16];
    mf_session *s;

    for (int i = 0; i < x->n; i++) {
        snprintf(names[i], sizeof names[i], "read%d:0", i);
        fetches[i] = names[i];
    }
    T_OK(mf_session_new(x->g, &o, &s));
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL));
    for (int i = 0; i < 3; i++)
        T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &train, 1, NULL));
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, fetches, x->n, NULL, 0, out));
    mf_session_free(s);
}

static void expect_same_bits(net *x)
{
    mf_tensor *on[MOST] = { 0 }, *off[MOST] = { 0 };

    run(x, NULL, on);
    run(x, "updates", off);
    for (int i = 0; i < x->n; i++) {
        T_TRUE(mf_shape_equal(&on[i]->shape, &off[i]->shape));
        if (memcmp(on[i]->data, off[i]->data, mf_tensor_bytes(on[i])) != 0)
            T_FAIL("variable %d differs", i);
        mf_tensor_free(on[i]);
        mf_tensor_free(off[i]);
    }
    mf_graph_free(x->g);
}

/* Sizes around the chunk size of the loops. */
MF_TEST(compile_updates_merges_ops_of_one_rule)
{
    static const int64_t sizes[] = { 1, 8191, 3, 0, 8192, 8193, 40000, 5, 1, 16384 };
    net x;

    begin(&x);
    for (int i = 0; i < MF_COUNT(sizes); i++)
        (void)momentum(&x, sizes[i], 0.1, "use_nesterov=true");
    T_EQ(count(&x, "_ApplyMany"), 1);
    T_EQ(count(&x, "ResourceApplyMomentum"), 0);
    expect_same_bits(&x);
}

MF_TEST(compile_updates_does_not_merge_different_rules)
{
    net x;

    begin(&x);
    for (int i = 0; i < 2; i++) {
        (void)momentum(&x, 10 + i, 0.1, "use_nesterov=true");
        (void)momentum(&x, 20 + i, 0.1, "use_nesterov=false");
        (void)momentum(&x, 30 + i, 0.2, "use_nesterov=false");
    }
    (void)momentum(&x, 40, 0.3, "");
    T_EQ(count(&x, "_ApplyMany"), 3);
    T_EQ(count(&x, "ResourceApplyMomentum"), 1);
    expect_same_bits(&x);
}

/* a depends on b and c on a: merging all three would create a cycle, so updates of equal depth are
 * merged. */
MF_TEST(compile_updates_never_merges_dependent_ops)
{
    mf_node *first[3], *second[3];
    net x;

    begin(&x);
    for (int i = 0; i < 3; i++)
        first[i] = momentum(&x, 10 + i, 0.1, "");
    for (int i = 0; i < 3; i++) {
        second[i] = momentum(&x, 20 + i, 0.1, "");
        mf_control(x.g, second[i], first[i]);
    }
    T_EQ(count(&x, "_ApplyMany"), 2);
    T_EQ(count(&x, "ResourceApplyMomentum"), 0);
    expect_same_bits(&x);
}

MF_TEST(compile_updates_does_not_merge_two_updates_of_one_variable)
{
    net x;
    mf_output v;

    begin(&x);
    v = variable(&x, 10);
    for (int i = 0; i < 3; i++) { /* through different handle nodes; integers, so that the order
                                     does not change the result */
        const mf_output other = i == 0 ? v
                                       : mf_applyf(x.g, "VarHandleOp", MF_NO_IN,
                                                   "dtype=float shape=shape[10] shared_name='v0'");
        const mf_output ones =
            mf_apply(x.g, "Fill", MF_IN(mf_ints(x.g, (int64_t[]){ 10 }, 1), scalar(&x, 1.0)));

        mf_control(
            x.g, x.train,
            mf_apply(x.g, "ResourceApplyGradientDescent", MF_IN(other, scalar(&x, 1.0), ones))
                .node);
    }
    T_EQ(count(&x, "_ApplyMany"), 0);
    T_EQ(count(&x, "ResourceApplyGradientDescent"), 3);
    expect_same_bits(&x);
}

/* More variables than one op can lock. */
MF_TEST(compile_updates_takes_any_number)
{
    net x;

    begin(&x);
    for (int i = 0; i < MOST; i++)
        mf_control(x.g, x.train,
                   mf_apply(x.g, "ResourceApplyGradientDescent",
                            MF_IN(variable(&x, 100 + i), scalar(&x, 0.1), numbers(&x, 100 + i, 7)))
                       .node);
    T_EQ(count(&x, "_ApplyMany"), 1);
    expect_same_bits(&x);
}
