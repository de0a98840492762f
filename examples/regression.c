/* SPDX-License-Identifier: Apache-2.0 */
/* regression.c - linear regression in C: build a graph, add gradients, run it.
 *
 *   cc regression.c $(pkg-config --cflags --libs meshflow) && ./a.out */
#include <meshflow/graph.h>
#include <meshflow/session.h>

#include <stdio.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, mf_error_message());
    return 1;
}

/* loss = mean((x * w + b - y)^2) over 64 points; "train" is one step of gradient descent. */
static mf_status build(mf_graph *g)
{
    mf_output x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[64] name='x'");
    mf_output y = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[64] name='y'");
    mf_output zero = mf_scalar(g, MF_DTYPE_F32, 0), rate = mf_scalar(g, MF_DTYPE_F32, 0.3);
    mf_output var[2], value[2], slope[2], line, loss;

    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "w" : "b";

        var[i] = mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[] name='%s'", name);
        mf_applyf(g, "AssignVariableOp", MF_IN(var[i], zero), "name='init_%s'", name);
        value[i] = mf_applyf(g, "ReadVariableOp", MF_IN(var[i]), "dtype=float name='%s_now'", name);
    }
    line = mf_apply(g, "AddV2", MF_IN(mf_apply(g, "Mul", MF_IN(x, value[0])), value[1]));
    loss = mf_applyf(g, "Mean",
                     MF_IN(mf_apply(g, "SquaredDifference", MF_IN(line, y)),
                           mf_ints(g, (const int64_t[]){ 0 }, 1)),
                     "name='loss'");
    if (mf_gradients(g, &loss, 1, value, 2, NULL, slope) != MF_OK)
        return mf_graph_status(g);
    for (int i = 0; i < 2; i++)
        mf_applyf(g, "ResourceApplyGradientDescent", MF_IN(var[i], rate, slope[i]),
                  "name='train_%s'", i == 0 ? "w" : "b");
    return mf_graph_status(g);
}

int main(void)
{
    static const char *const init[] = { "init_w", "init_b" }, *const train[] = { "train_w",
                                                                                 "train_b" };
    static const char *const feeds[] = { "x:0", "y:0" };
    static const char *const fetches[] = { "w_now:0", "b_now:0", "loss:0" };
    const int64_t dims[] = { 64 };
    mf_tensor *points[2], *out[3] = { NULL };
    mf_graph *g;
    mf_session *s;
    float w, b, loss;

    if (mf_graph_new(&g) != MF_OK || build(g) != MF_OK || mf_session_new(g, NULL, &s) != MF_OK)
        return failed("building");
    for (int i = 0; i < 2; i++)
        if (mf_tensor_new(MF_DTYPE_F32, dims, 1, &points[i]) != MF_OK)
            return failed("points");
    for (int i = 0; i < 64; i++) {
        ((float *)mf_tensor_data(points[0]))[i] = (float)i / 32.0f - 1.0f;
        ((float *)mf_tensor_data(points[1]))[i] = 3.0f * ((float)i / 32.0f - 1.0f) - 2.0f;
    }
    if (mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, init, 2, NULL) != MF_OK)
        return failed("init");
    for (int step = 0; step < 100; step++)
        if (mf_session_run(s, NULL, feeds, (const mf_tensor *const *)points, 2, NULL, 0, train, 2,
                           NULL) != MF_OK)
            return failed("step");
    if (mf_session_run(s, NULL, feeds, (const mf_tensor *const *)points, 2, fetches, 3, NULL, 0,
                       out) != MF_OK)
        return failed("result");
    w = *(float *)mf_tensor_data(out[0]);
    b = *(float *)mf_tensor_data(out[1]);
    loss = *(float *)mf_tensor_data(out[2]);
    printf("y = %.3f x + %.3f, loss %.2g\n", (double)w, (double)b, (double)loss);
    for (int i = 0; i < 3; i++)
        mf_tensor_free(out[i]);
    mf_tensor_free(points[0]);
    mf_tensor_free(points[1]);
    mf_session_free(s);
    mf_graph_free(g);
    return loss < 1e-6f ? 0 : 1;
}
