/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_test.c - see mesh_test.h. */
#include "unit/spmd/mesh_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

mf_tensor *mesh_numbers(const mf_shape *shape, uint64_t seed)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F32, shape->dims, shape->rank, &t));
    for (int64_t i = 0; i < t->count; i++)
        ((float *)t->data)[i] = (float)next(&seed) / (float)(1u << 30) - 1.0f;
    return t;
}

mf_tensor *mesh_classes(int64_t count, int32_t n, uint64_t seed)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_I32, &count, 1, &t));
    for (int64_t i = 0; i < count; i++)
        ((int32_t *)t->data)[i] = (int32_t)(next(&seed) % (uint64_t)n);
    return t;
}

double mesh_distance(const mf_tensor *a, const mf_tensor *b)
{
    double most = 0;

    T_EQ(a->dtype, b->dtype);
    T_TRUE(mf_shape_equal(&a->shape, &b->shape));
    for (int64_t i = 0; i < a->count; i++) {
        const double x = mf_tensor_float_at(a, i), y = mf_tensor_float_at(b, i);
        const double d = isnan(x) && isnan(y) ? 0 : x == y ? 0 : fabs(x - y) / (1 + fabs(x));

        if (!(d <= most)) /* also catches NaN */
            most = isnan(d) ? INFINITY : d;
    }
    return most;
}

/* ---- one device and a mesh ---- */

static int count(const char *const *names)
{
    int n = 0;

    while (names[n])
        n++;
    return n;
}

static mf_status run(mf_session *s, const mesh_run *r, mf_tensor **out)
{
    return mf_session_run(s, NULL, r->feeds, r->values, count(r->feeds), r->fetches,
                          count(r->fetches), NULL, 0, out);
}

void mesh_compare(const mf_graph *g, const char *mesh, const char *layout, const mesh_run *r)
{
    const mf_mesh_options o = { .mesh = mesh, .layout = layout, .session.threads = 2 };
    mf_tensor *want[MESH_RUN_ENDS] = { NULL }, *got[MESH_RUN_ENDS] = { NULL };
    mf_session *one, *many;
    mf_mesh_counts counts;
    mf_status st;

    T_OK(mf_graph_status(g));
    T_OK(mf_session_new(g, &(mf_session_options){ .threads = 2 }, &one));
    T_OK(mf_mesh_session_new(g, &o, &many));
    st = run(one, r, want);
    T_EQ(run(many, r, got), st);
    for (int i = 0; st == MF_OK && r->fetches[i]; i++) {
        const double d = mesh_distance(want[i], got[i]);

        if (mf_dtype_is_int(want[i]->dtype)
                ? memcmp(want[i]->data, got[i]->data,
                         (size_t)want[i]->count * mf_dtype_cell(want[i]->dtype)) != 0
                : !(d <= 1e-5))
            T_FAIL("%s is %g away", r->fetches[i], d);
        mf_tensor_free(want[i]);
        mf_tensor_free(got[i]);
    }
    T_OK(mf_mesh_session_counts(many, 0, &counts));
    if (st == MF_OK)
        T_TRUE(counts.collectives > 0);
    mf_session_free(one);
    mf_session_free(many);
}

/* ---- an MLP ---- */

static mf_output variable(mf_graph *g, mf_node *init, const char *name, const mf_shape *shape,
                          const char *dims, uint64_t seed)
{
    char text[MF_SHAPE_TEXT];
    const mf_output v = mf_applyf(g, "VarHandleOp", MF_NO_IN,
                                  "dtype=float shape=shape%s shared_name='%s' name='%s'",
                                  mf_shape_text(shape, text), name, name);
    mf_tensor *first = mesh_numbers(shape, seed);

    if (dims)
        mf_name_dims(g, v, dims);
    mf_control(g, init,
               mf_apply(g, "AssignVariableOp", MF_IN(v, mf_constant(g, first, NULL))).node);
    mf_tensor_free(first);
    return v;
}

static mf_output read(mf_graph *g, mf_output v)
{
    return mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float name='%s/read'", v.node->name);
}

mf_graph *mesh_mlp_graph(const mesh_mlp *s)
{
    static const char *const slots[] = { "w1/Momentum", "b1/Momentum", "w2/Momentum",
                                         "b2/Momentum" };
    const mf_shape shapes[] = { MF_SHAPE(s->pixels, s->hidden), MF_SHAPE(s->hidden),
                                MF_SHAPE(s->hidden, s->classes), MF_SHAPE(s->classes) };
    mf_graph *g;
    mf_output x, label, v[4], w[4], d[4], h, logits, losses, loss;
    mf_node *init, *train;

    T_OK(mf_graph_new(&g));
    init = mf_applyf(g, "NoOp", MF_NO_IN, "name='init'").node;
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[?,%d] name='x'",
                  (int)s->pixels);
    label = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=int32 shape=shape[?] name='label'");
    mf_name_dims(g, x, "batch,pixels");
    mf_name_dims(g, label, "batch");
    v[0] = variable(g, init, "w1", &shapes[0], "pixels,hidden", 1);
    v[1] = variable(g, init, "b1", &shapes[1], "hidden", 2);
    v[2] = variable(g, init, "w2", &shapes[2], "hidden,classes", 3);
    v[3] = variable(g, init, "b2", &shapes[3], "classes", 4);
    for (int i = 0; i < 4; i++)
        w[i] = read(g, v[i]);
    h = mf_apply(g, "Relu",
                 MF_IN(mf_apply(g, "BiasAdd", MF_IN(mf_apply(g, "MatMul", MF_IN(x, w[0])), w[1]))));
    logits = mf_apply(g, "BiasAdd", MF_IN(mf_apply(g, "MatMul", MF_IN(h, w[2])), w[3]));
    losses = mf_apply(g, "SparseSoftmaxCrossEntropyWithLogits", MF_IN(logits, label));
    loss = mf_applyf(g, "Mean", MF_IN(losses, mf_ints(g, (int64_t[]){ 0 }, 1)), "name='loss'");
    T_OK(mf_gradients(g, &loss, 1, w, 4, NULL, d));
    train = mf_applyf(g, "NoOp", MF_NO_IN, "name='train'").node;
    for (int i = 0; i < 4; i++) {
        const mf_output slot = variable(g, init, slots[i], &shapes[i], NULL, 0);

        mf_control(g, train,
                   mf_apply(g, "ResourceApplyMomentum",
                            MF_IN(v[i], slot, mf_scalar(g, MF_DTYPE_F32, 0.1), d[i],
                                  mf_scalar(g, MF_DTYPE_F32, 0.9)))
                       .node);
    }
    T_OK(mf_graph_status(g));
    return g;
}

void mesh_mlp_train(mf_session *session, const mesh_mlp *s, int steps,
                    mf_tensor *results[MESH_MLP_RESULTS])
{
    static const char *const feeds[] = { "x", "label" }, *const fetches[] = { "loss:0" },
                             *const train[] = { "train" }, *const init[] = { "init" },
                             *const reads[] = { "w1/read", "b1/read", "w2/read", "b2/read" };

    memset(results, 0, MESH_MLP_RESULTS * sizeof *results);
    T_OK(mf_session_run(session, NULL, NULL, NULL, 0, NULL, 0, init, 1, NULL));
    for (int i = 0; i < steps; i++) {
        mf_tensor *x = mesh_numbers(&MF_SHAPE(s->batch, s->pixels), (uint64_t)i + 100);
        mf_tensor *label = mesh_classes(s->batch, (int32_t)s->classes, (uint64_t)i + 200);
        const mf_tensor *in[] = { x, label };

        T_OK(mf_session_run(session, NULL, feeds, in, 2, fetches, 1, train, 1, results));
        mf_tensor_free(x);
        mf_tensor_free(label);
    }
    T_OK(mf_session_run(session, NULL, NULL, NULL, 0, reads, 4, NULL, 0, results + 1));
}
