/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.c - gradients through functions, branches and loops, compared with finite differences:
 * x is a placeholder of doubles, the loss a scalar. Every model runs with all passes and without
 * passes. */
#include "mf_test.h"
#include "tensor/tensor.h"

#include <meshflow/session.h>

#include <stdio.h>
#include <string.h>

#define D "dtype=double"

enum { MAX_X = 16 };

static mf_output x_of(mf_graph *g)
{
    return mf_applyf(g, "Placeholder", MF_NO_IN, D " name='x'");
}

static mf_output arg(mf_graph *g, const char *type)
{
    return mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=%s", type);
}

static mf_output number(mf_graph *g, double v)
{
    return mf_scalar(g, MF_DTYPE_F64, v);
}

static mf_output integer(mf_graph *g, int v)
{
    return mf_scalar(g, MF_DTYPE_I32, v);
}

static mf_output op1(mf_graph *g, const char *op, mf_output a)
{
    return mf_apply(g, op, MF_IN(a));
}

static mf_output op2(mf_graph *g, const char *op, mf_output a, mf_output b)
{
    return mf_apply(g, op, MF_IN(a, b));
}

static mf_output port(mf_output o, int k)
{
    return (mf_output){ o.node, k };
}

/* The sum of all elements of a vector. */
static mf_output total(mf_graph *g, mf_output v)
{
    return op2(g, "Sum", v, mf_ints(g, (const int64_t[]){ 0 }, 1));
}

static mf_graph *graph(void)
{
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    return g;
}

/* ---- checking ---- */

static const char *name_of(mf_output o, char text[128])
{
    (void)snprintf(text, 128, "%s:%d", mf_node_name(o.node), o.port);
    return text;
}

static mf_session *session(const mf_graph *g, bool passes)
{
    const mf_session_options o = { .threads = 2,
                                   .disable = passes ? NULL : "fold,simplify,cse,fuse,place" };
    mf_session *s;

    T_OK(mf_graph_status(g));
    T_OK(mf_session_new(g, &o, &s));
    return s;
}

static mf_tensor *vector(const double *v, int n)
{
    const int64_t dims[] = { n };
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F64, dims, 1, &t));
    memcpy(mf_tensor_data(t), v, (size_t)n * sizeof *v);
    return t;
}

/* out[0..n): the fetched value at x = v. */
static void run(mf_session *s, const double *v, int n, const char *fetch, double *out)
{
    const char *feed = "x";
    mf_tensor *x = vector(v, n), *y = NULL;
    const mf_tensor *feeds[] = { x };

    T_OK(mf_session_run(s, NULL, &feed, feeds, 1, &fetch, 1, NULL, 0, &y));
    T_EQ(mf_tensor_dtype(y), MF_DTYPE_F64);
    memcpy(out, mf_tensor_data(y), mf_tensor_bytes(y));
    mf_tensor_free(x);
    mf_tensor_free(y);
}

/* Checks that the fetch `dx` is the gradient of the fetch `y`. */
static void holds(const mf_graph *g, const char *y, const char *dx, const double *v, int n)
{
    const double eps = 1e-6;
    double symbolic[MAX_X], plain[MAX_X], at[MAX_X], up, down;
    mf_session *s = session(g, true), *bare = session(g, false);

    run(s, v, n, dx, symbolic);
    run(bare, v, n, dx, plain);
    T_EQ(memcmp(symbolic, plain, (size_t)n * sizeof(double)), 0);
    for (int i = 0; i < n; i++) {
        memcpy(at, v, (size_t)n * sizeof *v);
        at[i] = v[i] + eps;
        run(s, at, n, y, &up);
        at[i] = v[i] - eps;
        run(s, at, n, y, &down);
        T_NEAR(symbolic[i], (up - down) / (2 * eps),
               1e-6 * (1 + (symbolic[i] < 0 ? -symbolic[i] : symbolic[i])));
    }
    mf_session_free(s);
    mf_session_free(bare);
}

static const double some[] = { 0.3, -0.7, 1.1 };

/* First and second derivatives of `loss`. */
static void check(mf_graph *g, mf_output x, mf_output loss, bool twice)
{
    char y[128], dy[128], d2y[128];
    mf_output dx, sum, d2x;

    T_OK(mf_graph_status(g));
    T_OK(mf_gradients(g, &loss, 1, &x, 1, NULL, &dx));
    T_TRUE(dx.node != NULL);
    sum = total(g, op2(g, "Mul", dx, dx));
    holds(g, name_of(loss, y), name_of(dx, dy), some, 3);
    if (twice) {
        T_OK(mf_gradients(g, &sum, 1, &x, 1, NULL, &d2x));
        T_TRUE(d2x.node != NULL);
        holds(g, name_of(sum, dy), name_of(d2x, d2y), some, 3);
    }
    mf_graph_free(g);
}

/* ---- functions ---- */

/* f(a, b) = (a * tanh(b), tanh(b)) */
static void define_f(mf_graph *g)
{
    const mf_output a = arg(g, "double"), b = arg(g, "double"), t = op1(g, "Tanh", b);

    mf_define(g, "f", MF_IN(a, b), MF_IN(op2(g, "Mul", a, t), t));
}

MF_TEST(gradients_pass_through_a_call)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), y;

    define_f(g);
    y = mf_applyf(g, "PartitionedCall", MF_IN(x, op1(g, "Sin", x)), "f=@f Tout=[double,double]");
    check(g, x, total(g, op2(g, "Mul", y, port(y, 1))), true);
}

MF_TEST(gradients_pass_through_a_function_called_by_name_and_twice)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), y, z;

    define_f(g);
    y = op2(g, "f", x, x);
    z = op2(g, "f", port(y, 1), y);
    check(g, x, total(g, z), true);
}

MF_TEST(gradients_pass_through_functions_that_call_functions)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), a = arg(g, "double"), b;

    define_f(g);
    b = op2(g, "f", op1(g, "Exp", a), a);
    b = mf_applyf(g, "StatefulPartitionedCall", MF_IN(b, port(b, 1)), "f=@f Tout=[double,double]");
    mf_define(g, "h", MF_IN(a), MF_IN(op2(g, "Mul", b, a)));
    check(g, x, total(g, op1(g, "h", op1(g, "h", x))), true);
}

MF_TEST(gradients_stop_at_unused_arguments_of_a_function)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), c = number(g, 2), y, dx[2];

    define_f(g);
    y = op2(g, "f", c, x);
    y = port(y, 1);
    T_OK(mf_gradients(g, &y, 1, (const mf_output[]){ c, x }, 2, NULL, dx));
    T_TRUE(dx[0].node == NULL);
    T_TRUE(dx[1].node != NULL);
    mf_graph_free(g);
}

/* The backward pass uses the random numbers of the forward pass: y = x * r, so dy/dx = r = y / x.
 */
MF_TEST(gradients_reuse_the_random_numbers_of_the_forward_pass)
{
    const char *feed = "x";
    mf_graph *g = graph();
    mf_output x = x_of(g), a = arg(g, "double"), y, dx;
    char names[2][128];
    const char *fetches[2];
    mf_tensor *in = vector(some, 3), *got[2] = { NULL };
    const mf_tensor *feeds[] = { in };
    mf_session *s;

    mf_define(g, "noisy", MF_IN(a),
              MF_IN(op2(g, "Mul", a,
                        mf_applyf(g, "RandomUniform", MF_IN(op1(g, "Shape", a)), "dtype=double"))));
    y = op1(g, "noisy", x);
    T_OK(mf_gradients(g, &y, 1, &x, 1, NULL, &dx));
    fetches[0] = name_of(y, names[0]);
    fetches[1] = name_of(dx, names[1]);
    s = session(g, true);
    for (int round = 0; round < 3; round++) {
        T_OK(mf_session_run(s, NULL, &feed, feeds, 1, fetches, 2, NULL, 0, got));
        for (int i = 0; i < 3; i++)
            T_EQ_F(((double *)mf_tensor_data(got[0]))[i],
                   some[i] * ((double *)mf_tensor_data(got[1]))[i]);
    }
    mf_tensor_free(in);
    mf_tensor_free(got[0]);
    mf_tensor_free(got[1]);
    mf_session_free(s);
    mf_graph_free(g);
}

/* Only a decoded graph can contain a recursive function. */
static const char recursive[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_DOUBLE } } }"
    "node { name: 'y' op: 'rec' input: 'x' }"
    "library { function {"
    "  signature { name: 'rec' input_arg { name: 'a' type: DT_DOUBLE }"
    "              output_arg { name: 'b' type: DT_DOUBLE } }"
    "  node_def { name: 'again' op: 'StatefulPartitionedCall' input: 'a'"
    "    attr { key: 'Tin' value { list { type: DT_DOUBLE } } }"
    "    attr { key: 'Tout' value { list { type: DT_DOUBLE } } }"
    "    attr { key: 'f' value { func { name: 'rec' } } } }"
    "  ret { key: 'b' value: 'again:output:0' } } }";

static mf_graph *from_text(const char *text)
{
    const char *path = "gradients_test.pbtxt";
    mf_graph *g = graph();
    FILE *f = fopen(path, "w");

    T_TRUE(f != NULL);
    (void)fputs(text, f);
    (void)fclose(f);
    T_OK(mf_graph_load(g, path));
    (void)remove(path);
    return g;
}

MF_TEST(gradients_refuse_a_recursive_function_and_name_it)
{
    mf_graph *g = from_text(recursive);
    const mf_output x = { mf_graph_find(g, "x"), 0 }, y = { mf_graph_find(g, "y"), 0 };
    mf_output dx;

    T_FAILS(MF_INVALID_ARGUMENT, "function 'rec' calls itself",
            mf_gradients(g, &y, 1, &x, 1, NULL, &dx));
    T_FAILS(MF_INVALID_ARGUMENT, "{{node y}}", mf_gradients(g, &y, 1, &x, 1, NULL, &dx));
    mf_graph_free(g);
}

/* f0 calls f1 twice, f1 calls f2 twice, ... */
MF_TEST(gradients_refuse_functions_that_call_each_other_too_often)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), y, dx;

    for (int i = 40; i >= 0; i--) {
        const mf_output a = arg(g, "double");
        char name[16], called[16];

        (void)snprintf(name, sizeof name, "f%d", i);
        (void)snprintf(called, sizeof called, "f%d", i + 1);
        y = i == 40 ? op1(g, "Tanh", a) : op1(g, called, op1(g, called, a));
        mf_define(g, name, MF_IN(a), MF_IN(y));
    }
    y = op1(g, "f0", x);
    T_OK(mf_graph_status(g));
    T_FAILS(MF_RESOURCE_EXHAUSTED, "call each other too often",
            mf_gradients(g, &y, 1, &x, 1, NULL, &dx));
    mf_graph_free(g);
}

/* A library may register the gradient of a function: here 3 dy, which is deliberately wrong. */
static const char registered[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_DOUBLE } } }"
    "node { name: 'y' op: 'twice' input: 'x' }"
    "library { gradient { function_name: 'twice' gradient_func: 'twice_grad' }"
    "  function { signature { name: 'twice' input_arg { name: 'a' type: DT_DOUBLE }"
    "                         output_arg { name: 'b' type: DT_DOUBLE } }"
    "    node_def { name: 's' op: 'AddV2' input: 'a' input: 'a'"
    "      attr { key: 'T' value { type: DT_DOUBLE } } }"
    "    ret { key: 'b' value: 's:z:0' } }"
    "  function { signature { name: 'twice_grad' input_arg { name: 'a' type: DT_DOUBLE }"
    "                         input_arg { name: 'd' type: DT_DOUBLE }"
    "                         output_arg { name: 'b' type: DT_DOUBLE } }"
    "    node_def { name: 's' op: 'AddN' input: 'd' input: 'd' input: 'd'"
    "      attr { key: 'N' value { i: 3 } } attr { key: 'T' value { type: DT_DOUBLE } } }"
    "    ret { key: 'b' value: 's:sum:0' } } }";

MF_TEST(gradients_use_the_gradient_function_of_the_library)
{
    mf_graph *g = from_text(registered), *copy = graph();
    mf_output x, y, dx;
    char name[128], *bytes;
    double got[MAX_X];
    mf_session *s;
    size_t len;

    T_OK(mf_graph_encode(g, &bytes, &len)); /* the registration is encoded and decoded */
    T_OK(mf_graph_decode(copy, bytes, len));
    mf_bytes_free(bytes);
    mf_graph_free(g);
    x = (mf_output){ mf_graph_find(copy, "x"), 0 };
    y = (mf_output){ mf_graph_find(copy, "y"), 0 };
    T_OK(mf_gradients(copy, &y, 1, &x, 1, NULL, &dx));
    s = session(copy, true);
    run(s, some, 3, name_of(dx, name), got);
    for (int i = 0; i < 3; i++)
        T_EQ_F(got[i], 3);
    mf_session_free(s);
    mf_graph_free(copy);
}

/* ---- branches ---- */

/* then: sin(a) * b; else: a */
static void define_branches(mf_graph *g)
{
    mf_output a = arg(g, "double"), b = arg(g, "double");

    mf_define(g, "then", MF_IN(a, b), MF_IN(op2(g, "Mul", op1(g, "Sin", a), b)));
    a = arg(g, "double");
    b = arg(g, "double");
    mf_define(g, "else", MF_IN(a, b), MF_IN(a));
}

static void branch(bool which)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), p, y;

    define_branches(g);
    p = op2(g, which ? "Less" : "Greater", total(g, x), number(g, 1));
    y = mf_applyf(g, "If", MF_IN(p, x, op1(g, "Exp", x)),
                  "then_branch=@then else_branch=@else Tout=[double]");
    check(g, x, total(g, op2(g, "Mul", y, x)), true);
}

MF_TEST(gradients_pass_through_the_branch_that_was_taken)
{
    branch(true);
    branch(false);
}

MF_TEST(gradients_pass_through_each_branch_of_a_case)
{
    for (int k = -1; k < 4; k++) {
        mf_graph *g = graph();
        mf_output x = x_of(g), a = arg(g, "double"), b = arg(g, "double"), y;

        define_branches(g);
        mf_define(g, "third", MF_IN(a, b), MF_IN(op1(g, "Tanh", op2(g, "Mul", b, b))));
        y = mf_applyf(g, "Case", MF_IN(integer(g, k), x, op1(g, "Exp", x)),
                      "branches=[@then,@else,@third] Tout=[double]");
        check(g, x, total(g, y), true);
    }
}

/* ---- loops ---- */

/* less(i, ...) = i < n, for a loop with these variables after the counter. */
static void define_less(mf_graph *g, const char *name, int n, const char *const *types, int n_types)
{
    mf_output in[8] = { arg(g, "int32") };

    for (int k = 0; k < n_types; k++)
        in[k + 1] = arg(g, types[k]);
    in[n_types + 1] = (mf_output)MF_END;
    mf_define(g, name, in, MF_IN(op2(g, "Less", in[0], integer(g, n))));
}

static mf_output next(mf_graph *g, mf_output i)
{
    return op2(g, "AddV2", i, integer(g, 1));
}

static const char *const doubles[] = { "double", "double", "double", "double" };

/* h = tanh(h * w + 0.1), with the same w in all n iterations. */
static void rnn(int n)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), i = arg(g, "int32"), h = arg(g, "double"), w = arg(g, "double"), y;

    define_less(g, "less", n, doubles, 2);
    mf_define(
        g, "step", MF_IN(i, h, w),
        MF_IN(next(g, i), op1(g, "Tanh", op2(g, "AddV2", op2(g, "Mul", h, w), number(g, 0.1))), w));
    y = mf_applyf(g, "While", MF_IN(integer(g, 0), op1(g, "Cos", x), op1(g, "Exp", x)),
                  "cond=@less body=@step");
    check(g, x, total(g, op2(g, "Mul", port(y, 1), port(y, 2))), true);
}

MF_TEST(gradients_pass_through_a_loop)
{
    rnn(4);
    rnn(1);
}

MF_TEST(gradients_pass_around_a_loop_without_iterations)
{
    rnn(0);
}

/* A dynamic RNN: each iteration reads a row of a matrix and writes its state to a list; the weights
 * are captured. */
MF_TEST(gradients_of_an_rnn_reach_its_weights_and_inputs)
{
    static const char *const types[] = { "double", "variant", "double", "double" };
    mf_graph *g = graph();
    mf_output x = x_of(g), i = arg(g, "int32"), h = arg(g, "double"), list = arg(g, "variant");
    mf_output w = arg(g, "double"), in = arg(g, "double"), row, state, y, inputs, weights, all;

    define_less(g, "less", 5, types, 4);
    row = mf_apply(g, "GatherV2", MF_IN(in, i, integer(g, 0)));
    row = op2(g, "ExpandDims", row, integer(g, 0));
    state = op1(g, "Tanh", op2(g, "AddV2", op2(g, "MatMul", h, w), row));
    mf_define(
        g, "step", MF_IN(i, h, list, w, in),
        MF_IN(next(g, i), state, mf_apply(g, "TensorListSetItem", MF_IN(list, i, state)), w, in));
    inputs =
        op2(g, "Mul",
            op2(g, "Reshape", mf_apply(g, "Range", MF_IN(number(g, 0), number(g, 5), number(g, 1))),
                mf_ints(g, (const int64_t[]){ 5, 1 }, 2)),
            x); /* [5, 3] */
    weights = op2(g, "Mul", op2(g, "Reshape", x, mf_ints(g, (const int64_t[]){ 3, 1 }, 2)),
                  op1(g, "Sin", x)); /* [3, 3] */
    list = mf_applyf(g, "TensorListReserve",
                     MF_IN(mf_ints(g, (const int64_t[]){ 1, 3 }, 2), integer(g, 5)),
                     "element_dtype=double");
    y = mf_applyf(
        g, "While",
        MF_IN(integer(g, 0), op2(g, "ExpandDims", x, integer(g, 0)), list, weights, inputs),
        "cond=@less body=@step parallel_iterations=3");
    all =
        mf_applyf(g, "TensorListStack", MF_IN(port(y, 2), mf_ints(g, (const int64_t[]){ 1, 3 }, 2)),
                  "element_dtype=double");
    check(g, x, op2(g, "Sum", op2(g, "Mul", all, all), mf_ints(g, (const int64_t[]){ 0, 1, 2 }, 3)),
          true);
}

/* Outer: h = inner loop(h); inner: h = sin(h) * w. */
MF_TEST(gradients_pass_through_a_loop_in_a_loop)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), i = arg(g, "int32"), h = arg(g, "double"), w = arg(g, "double"), y;

    define_less(g, "less", 3, doubles, 2);
    mf_define(g, "inner", MF_IN(i, h, w), MF_IN(next(g, i), op2(g, "Mul", op1(g, "Sin", h), w), w));
    i = arg(g, "int32");
    h = arg(g, "double");
    w = arg(g, "double");
    y = mf_applyf(g, "While", MF_IN(integer(g, 1), h, op2(g, "Mul", w, h)),
                  "cond=@less body=@inner");
    mf_define(g, "outer", MF_IN(i, h, w), MF_IN(next(g, i), port(y, 1), w));
    y = mf_applyf(g, "StatelessWhile", MF_IN(integer(g, 0), x, op1(g, "Exp", x)),
                  "cond=@less body=@outer");
    check(g, x, total(g, port(y, 1)), true);
}

/* Iterations alternate between two branches, through a function. */
MF_TEST(gradients_pass_through_branches_and_calls_in_a_loop)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), i, h, w, p, y;

    define_branches(g);
    define_f(g);
    define_less(g, "less", 4, doubles, 2);
    i = arg(g, "int32");
    h = arg(g, "double");
    w = arg(g, "double");
    p = op2(g, "Equal", op2(g, "FloorMod", i, integer(g, 2)), integer(g, 0));
    y = mf_applyf(g, "If", MF_IN(p, h, w), "then_branch=@then else_branch=@else Tout=[double]");
    y = op2(g, "f", y, number(g, 0.5));
    mf_define(g, "step", MF_IN(i, h, w), MF_IN(next(g, i), op2(g, "AddV2", y, h), w));
    y = mf_applyf(g, "While", MF_IN(integer(g, 0), x, op1(g, "Exp", x)), "cond=@less body=@step");
    check(g, x, total(g, port(y, 1)), true);
}

/* (a, b) -> (b, a * b): the gradient of one variable belongs to the other in the next iteration. */
MF_TEST(gradients_follow_swapped_loop_variables)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), i = arg(g, "int32"), a = arg(g, "double"), b = arg(g, "double"), y;

    define_less(g, "less", 3, doubles, 2);
    mf_define(g, "step", MF_IN(i, a, b), MF_IN(next(g, i), b, op2(g, "Mul", a, b)));
    y = mf_applyf(g, "While", MF_IN(integer(g, 0), x, op1(g, "Exp", x)), "cond=@less body=@step");
    check(g, x, total(g, port(y, 1)), true);
}

/* A variable that the body reads: its gradient is the sum over the iterations. */
MF_TEST(gradients_of_a_variable_that_a_loop_reads)
{
    static const char *const types[] = { "double", "resource" };
    mf_graph *g = graph();
    mf_output i = arg(g, "int32"), h = arg(g, "double"), r = arg(g, "resource"), v, x, y, dv;
    const char *fetches[1], *init = "init";
    mf_tensor *got = NULL;
    char name[128];
    mf_session *s;

    define_less(g, "less", 3, types, 2);
    mf_define(g, "step", MF_IN(i, h, r),
              MF_IN(next(g, i), op2(g, "Mul", h, mf_applyf(g, "ReadVariableOp", MF_IN(r), D)), r));
    v = mf_applyf(g, "VarHandleOp", MF_NO_IN, D " shape=shape[] name='v'");
    (void)mf_applyf(g, "AssignVariableOp", MF_IN(v, number(g, 2)), "name='init'");
    x = number(g, 5);
    y = mf_applyf(g, "While", MF_IN(integer(g, 0), x, v), "cond=@less body=@step");
    y = port(y, 1); /* 5 v^3 */
    T_OK(mf_gradients(g, &y, 1, &v, 1, NULL, &dv));
    s = session(g, true);
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL));
    fetches[0] = name_of(dv, name);
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, fetches, 1, NULL, 0, &got));
    T_EQ_F(*(double *)mf_tensor_data(got), 5 * 3 * 2 * 2);
    mf_tensor_free(got);
    mf_session_free(s);
    mf_graph_free(g);
}

/* A session that has already compiled the loop gets the extended loop that stores intermediate
 * values. */
MF_TEST(gradients_built_later_reach_a_session_that_is_extended)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), i = arg(g, "int32"), h = arg(g, "double"), y, dx;
    double before[MAX_X], after[MAX_X], d[MAX_X];
    char name[128], dname[128];
    mf_session *s;

    define_less(g, "less", 3, doubles, 1);
    mf_define(g, "step", MF_IN(i, h), MF_IN(next(g, i), op2(g, "Mul", h, h)));
    y = port(mf_applyf(g, "While", MF_IN(integer(g, 0), x), "cond=@less body=@step"), 1);
    s = session(g, true);
    run(s, some, 3, name_of(y, name), before);
    T_OK(mf_gradients(g, &y, 1, &x, 1, NULL, &dx));
    T_OK(mf_session_extend(s, g));
    run(s, some, 3, name, after);
    run(s, some, 3, name_of(dx, dname), d);
    for (int k = 0; k < 3; k++) {
        T_EQ_F(after[k], before[k]);
        T_NEAR(d[k], 8 * before[k] / some[k], 1e-12); /* x^8 */
    }
    mf_session_free(s);
    mf_graph_free(g);
}

/* ---- unsupported graphs ---- */

MF_TEST(gradients_of_a_loop_of_frames_are_refused_with_its_name)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), enter, merge, cond, turn, next_x, leave, dx;

    enter = mf_applyf(g, "Enter", MF_IN(x), "frame_name='around'");
    merge = op2(g, "Merge", enter, enter);
    cond = op1(g, "LoopCond", op2(g, "Less", total(g, merge), number(g, 9)));
    turn = op2(g, "Switch", merge, cond);
    next_x = op1(g, "NextIteration", op2(g, "AddV2", port(turn, 1), port(turn, 1)));
    (void)next_x;
    leave = op1(g, "Exit", turn);
    T_FAILS(MF_UNIMPLEMENTED, "the loop 'around'", mf_gradients(g, &leave, 1, &x, 1, NULL, &dx));
    mf_graph_free(g);
}

/* A chain of n functions, each calling the next. */
static mf_status nested(int n)
{
    mf_graph *g = graph();
    mf_output x = x_of(g), y, dx;
    char name[16] = "Tanh";
    mf_status st;

    for (int i = 0; i < n; i++) {
        const mf_output a = arg(g, "double");

        y = op1(g, name, a);
        (void)snprintf(name, sizeof name, "f%d", i);
        mf_define(g, name, MF_IN(a), MF_IN(y));
    }
    y = op1(g, name, x);
    T_OK(mf_graph_status(g));
    st = mf_gradients(g, &y, 1, &x, 1, NULL, &dx);
    mf_graph_free(g);
    return st;
}

MF_TEST(gradients_refuse_calls_that_are_nested_too_deep)
{
    T_OK(nested(60));
    T_FAILS(MF_RESOURCE_EXHAUSTED, "nested more than", nested(70));
}

static const char overridden[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_DOUBLE } } }"
    "node { name: 'y' op: 'Sign' input: 'x' attr { key: 'T' value { type: DT_DOUBLE } }"
    "  attr { key: '_gradient_op_type' value { s: '%s' } } }";

static mf_status override(const char *name, mf_output *dx)
{
    char text[sizeof overridden + 64];
    mf_graph *g;
    mf_output x, y;
    mf_status st;

    (void)snprintf(text, sizeof text, overridden, name);
    g = from_text(text);
    x = (mf_output){ mf_graph_find(g, "x"), 0 };
    y = (mf_output){ mf_graph_find(g, "y"), 0 };
    st = mf_gradients(g, &y, 1, &x, 1, NULL, dx);
    mf_graph_free(g);
    return st;
}

/* The straight-through estimator: the gradient of Sign is zero, so that of Identity replaces it. */
MF_TEST(gradients_follow_an_override_that_names_an_op_and_refuse_others)
{
    mf_output dx;

    T_OK(override("Identity", &dx));
    T_TRUE(dx.node != NULL);
    T_FAILS(MF_UNIMPLEMENTED, "CustomGradient-7", override("CustomGradient-7", &dx));
}

/* ---- defining functions ---- */

MF_TEST(define_names_the_placeholder_that_is_not_an_input)
{
    mf_graph *g = graph();
    const mf_output a = mf_applyf(g, "Placeholder", MF_NO_IN, D " name='forgotten'");

    mf_define(g, "f", MF_NO_IN, MF_IN(op1(g, "Neg", a)));
    T_FAILS(MF_INVALID_ARGUMENT, "{{node forgotten}}", mf_graph_status(g));
    mf_graph_free(g);
}

MF_TEST(define_refuses_a_name_that_is_taken)
{
    mf_graph *g = graph();
    const mf_output a = arg(g, "double");

    mf_define(g, "f", MF_IN(a), MF_IN(op1(g, "Neg", a)));
    mf_define(g, "f", MF_IN(a), MF_IN(op1(g, "Exp", a)));
    T_FAILS(MF_INVALID_ARGUMENT, "different function with the same name", mf_graph_status(g));
    mf_graph_free(g);
}
