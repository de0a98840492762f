/* SPDX-License-Identifier: Apache-2.0 */
/* dead_branches.c - an invalid op fails only the runs that execute it. */
#include "graph/graph.h"
#include "mf_test.h"
#include "tensor/tensor.h"

#include <meshflow/session.h>

static mf_tensor *vector(int64_t n)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F32, &n, 1, &t));
    for (int64_t i = 0; i < n; i++)
        ((float *)mf_tensor_data(t))[i] = (float)i + 1;
    return t;
}

static mf_tensor *truth(bool b)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_BOOL, NULL, 0, &t));
    *(uint8_t *)mf_tensor_data(t) = b;
    return t;
}

static mf_output input(mf_graph *g, const char *name, const char *type)
{
    return mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=%s name='%s'", type, name);
}

static mf_output port(mf_output o, int i)
{
    return (mf_output){ o.node, i };
}

static mf_status run(const mf_graph *g, const char *disable, bool p, mf_tensor **out)
{
    const char *const feeds[] = { "x:0", "y:0", "p:0" }, *const fetch = "out:0";
    mf_tensor *values[] = { vector(2), vector(3), truth(p) };
    mf_session *s;
    mf_status st;

    T_OK(mf_session_new(g, &(mf_session_options){ .threads = 2, .disable = disable }, &s));
    st = mf_session_run(s, NULL, feeds, (const mf_tensor *const *)values, 3, &fetch, 1, NULL, 0,
                        out);
    mf_session_free(s);
    for (int i = 0; i < 3; i++)
        mf_tensor_free(values[i]);
    return st;
}

/* The run succeeds if the branch is not taken, and fails with these words if it is taken, with all
 * passes. */
static void check(mf_graph *g, const char *words)
{
    static const char *const disable[] = { "", "fold", "simplify", "cse,fuse",
                                           "fold,simplify,cse,fuse,region" };

    for (int i = 0; i < MF_COUNT(disable); i++) {
        mf_tensor *t = NULL;

        T_OK(run(g, disable[i], false, &t));
        T_EQ(mf_tensor_count(t), 2);
        T_EQ_F(((const float *)mf_tensor_data(t))[1], 2);
        mf_tensor_free(t);
        T_FAILS(MF_INVALID_ARGUMENT, words, run(g, disable[i], true, &t));
    }
    mf_graph_free(g);
}

typedef struct branch {
    mf_graph *g;
    mf_output x, y, sides; /* sides: x, switched by p */
} branch;

static branch begin(void)
{
    branch b;

    T_OK(mf_graph_new(&b.g));
    b.x = input(b.g, "x", "float");
    b.y = input(b.g, "y", "float");
    b.sides = mf_apply(b.g, "Switch", MF_IN(b.x, input(b.g, "p", "bool")));
    return b;
}

/* "out": `taken` if p, else x. */
static void finish(const branch *b, mf_output taken, const char *words)
{
    (void)mf_applyf(b->g, "Merge",
                    MF_IN(mf_apply(b->g, "Identity", MF_IN(port(b->sides, 0))), taken),
                    "name='out'");
    T_OK(mf_graph_status(b->g));
    check(b->g, words);
}

MF_TEST(untaken_branch_with_an_invalid_reshape_does_not_fail)
{
    const branch b = begin();

    finish(&b,
           mf_applyf(b.g, "Reshape",
                     MF_IN(port(b.sides, 1), mf_ints(b.g, (const int64_t[]){ 7 }, 1)),
                     "name='bad'"),
           "bad");
}

MF_TEST(untaken_branch_with_operands_that_do_not_broadcast_does_not_fail)
{
    const branch b = begin();

    finish(&b, mf_applyf(b.g, "AddV2", MF_IN(port(b.sides, 1), b.y), "name='bad'"), "bad");
}

/* Reshape to [7] and back to [2]: simplification would keep only the last shape. */
MF_TEST(untaken_branch_with_two_reshapes_fails_only_when_taken)
{
    const branch b = begin();
    const mf_output seven =
        mf_applyf(b.g, "Reshape", MF_IN(port(b.sides, 1), mf_ints(b.g, (const int64_t[]){ 7 }, 1)),
                  "name='bad'");

    finish(&b, mf_apply(b.g, "Reshape", MF_IN(seven, mf_ints(b.g, (const int64_t[]){ 2 }, 1))),
           "bad");
}

/* A bias of one element would broadcast in an addition, but is invalid for two channels. */
MF_TEST(untaken_branch_with_an_invalid_bias_fails_only_when_taken)
{
    const branch b = begin();
    const mf_output rows = mf_apply(
        b.g, "Reshape", MF_IN(port(b.sides, 1), mf_ints(b.g, (const int64_t[]){ 1, 2 }, 2)));

    finish(&b,
           mf_applyf(b.g, "BiasAdd",
                     MF_IN(rows, mf_apply(b.g, "Reshape",
                                          MF_IN(mf_scalar(b.g, MF_DTYPE_F32, 1),
                                                mf_ints(b.g, (const int64_t[]){ 1 }, 1)))),
                     "name='bad'"),
           "bad");
}

/* All inputs become constants, and the op must still depend on its branch. */
MF_TEST(untaken_branch_with_a_known_value_that_cannot_be_computed_does_not_fail)
{
    const branch b = begin();
    const mf_output shape = mf_apply(b.g, "Shape", MF_IN(port(b.sides, 1)));
    const mf_output dim =
        mf_applyf(b.g, "GatherV2",
                  MF_IN(shape, mf_scalar(b.g, MF_DTYPE_I32, 5), mf_scalar(b.g, MF_DTYPE_I32, 0)),
                  "name='bad'");

    finish(&b, mf_applyf(b.g, "Cast", MF_IN(dim), "DstT=float"), "bad");
}

MF_TEST(assert_that_ends_a_run_comes_before_the_shapes_that_it_guards)
{
    const branch b = begin();
    const mf_output no = mf_apply(b.g, "LogicalNot", MF_IN(input(b.g, "q", "bool")));
    mf_tensor *t = NULL;
    const char *const feeds[] = { "x:0", "y:0", "q:0" }, *const fetch = "sum:0";
    mf_tensor *values[] = { vector(2), vector(3), truth(true) };
    const mf_output words = mf_apply(b.g, "AsString", MF_IN(mf_scalar(b.g, MF_DTYPE_I32, 77)));
    const mf_output guard = mf_apply(b.g, "Assert", MF_IN(no, words));
    const mf_output sum = mf_applyf(b.g, "AddV2", MF_IN(b.x, b.y), "name='sum'");
    mf_session *s;

    mf_control(b.g, sum.node, guard.node);
    T_OK(mf_graph_status(b.g));
    T_OK(mf_session_new(b.g, NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "77",
            mf_session_run(s, NULL, feeds, (const mf_tensor *const *)values, 3, &fetch, 1, NULL, 0,
                           &t));
    mf_session_free(s);
    for (int i = 0; i < 3; i++)
        mf_tensor_free(values[i]);
    mf_graph_free(b.g);
}
