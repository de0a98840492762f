/* SPDX-License-Identifier: Apache-2.0 */
/* rbm_plot.c - pictures of the weights and samples of a restricted Boltzmann machine. */
#include "report/rbm_plot.h"

#include "base/mem.h"
#include "base/rng.h"
#include "models/model.h"
#include "report/image_grid.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FILTERS = 100, CHAINS = 64 };

static const char *layer_name(const mf_model *model)
{
    for (int64_t i = 0; i < model->n_made; i++) {
        if (strcmp(model->made[i].kind, "RBM") == 0)
            return model->made[i].name;
    }
    return NULL;
}

bool mf_model_has_rbm(const mf_model *model)
{
    return layer_name(model) != NULL;
}

static mf_status rbm_plot_weight(const mf_rbm *m, const char *what, mf_tensor **out)
{
    char name[200];

    (void)snprintf(name, sizeof name, "%s/%s", layer_name(m->model), what);
    return mf_trainer_get(m->trainer, name, out);
}

/* Height, width and channels of the images that the visible units represent. */
static mf_status image_dims(const mf_rbm *m, int64_t width, int64_t dims[3])
{
    const mf_column *columns;
    const int n = mf_dataset_columns(m->set, &columns);

    for (int i = 0; i < n; i++) {
        if (strcmp(columns[i].name, "image") != 0 || columns[i].rank != 3)
            continue;
        memcpy(dims, columns[i].dims, 3 * sizeof *dims);
        if (dims[0] * dims[1] * dims[2] == width && (dims[2] == 1 || dims[2] == 3))
            return MF_OK;
    }
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "the %lld visible units of the RBM are not an image of "
                   "the data",
                   (long long)width);
}

/* ---- filters ---- */

mf_status mf_rbm_plot_filters(const mf_rbm *m, const char *path)
{
    mf_tensor *kernel = NULL;
    float *pictures = NULL;
    int64_t dims[3], width, units, n;
    mf_status st;

    MF_TRY(rbm_plot_weight(m, "kernel", &kernel));
    width = mf_tensor_dim(kernel, 0);
    units = mf_tensor_dim(kernel, 1);
    n = units < FILTERS ? units : FILTERS;
    MF_TRY_TO(done, image_dims(m, width, dims));
    pictures = mf_calloc(n * width, sizeof *pictures);
    st = pictures ? MF_OK : MF_NOMEM("a picture");
    for (int64_t u = 0; st == MF_OK && u < n; u++) {
        const float *w = (const float *)mf_tensor_data(kernel) + u;
        float most = 1e-30f;

        for (int64_t i = 0; i < width; i++)
            most = fmaxf(most, fabsf(w[i * units]));
        for (int64_t i = 0; i < width; i++)
            pictures[u * width + i] = 0.5f + 0.5f * w[i * units] / most;
    }
    if (st == MF_OK)
        st = mf_image_grid_write(pictures, n, dims, path);
done:
    mf_free(pictures);
    mf_tensor_free(kernel);
    return st;
}

/* ---- samples ---- */

/* chance: the probabilities of the visible units after a Gibbs step from `v`; next: a sample of
 * them. */
static mf_status build_step(mf_graph *g)
{
    static const char *const inputs[] = { "v", "kernel", "visible", "hidden" };
    mf_output in[4], seed, p, u, h;

    for (int i = 0; i < 4; i++)
        in[i] = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='%s'", inputs[i]);
    seed = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=int64 shape=shape[2] name='seed'");
    p = mf_apply(g, "MatMul", MF_IN(in[0], in[1]));
    p = mf_apply(g, "Sigmoid", MF_IN(mf_apply(g, "BiasAdd", MF_IN(p, in[3]))));
    u = mf_apply(g, "StatelessRandomUniform", MF_IN(mf_apply(g, "Shape", MF_IN(p)), seed));
    h = mf_applyf(g, "Cast", MF_IN(mf_apply(g, "Less", MF_IN(u, p))), "DstT=float");
    p = mf_applyf(g, "MatMul", MF_IN(h, in[1]), "transpose_b=true");
    p = mf_apply(g, "BiasAdd", MF_IN(p, in[2]));
    p = mf_applyf(g, "Sigmoid", MF_IN(p), "name='chance'");
    seed = mf_apply(g, "AddV2", MF_IN(seed, mf_scalar(g, MF_DTYPE_I64, 1)));
    u = mf_apply(g, "StatelessRandomUniform", MF_IN(mf_apply(g, "Shape", MF_IN(p)), seed));
    (void)mf_applyf(g, "Cast", MF_IN(mf_apply(g, "Less", MF_IN(u, p))), "DstT=float name='next'");
    return mf_graph_status(g);
}

static mf_status first_values(const mf_rbm *m, int64_t width, mf_tensor **out)
{
    mf_philox gen = mf_philox_init(m->seed, 0x6472656d);
    mf_tensor *chains = NULL;
    uint32_t b[4] = { 0 };
    float *to;

    MF_TRY(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ CHAINS, width }, 2, out));
    to = mf_tensor_data(*out);
    for (int64_t i = 0; i < CHAINS * width; i++) {
        if (i % 4 == 0)
            mf_philox_next(&gen, b);
        to[i] = (float)(b[i % 4] & 1);
    }
    if (rbm_plot_weight(m, "chains", &chains) ==
        MF_OK) { /* else there are none, which is not an error */
        const int64_t n = mf_tensor_dim(chains, 0) < CHAINS ? mf_tensor_dim(chains, 0) : CHAINS;

        memcpy(to, mf_tensor_data(chains), (size_t)(n * width) * sizeof *to);
    }
    mf_tensor_free(chains);
    return MF_OK;
}

static mf_status rbm_plot_walk(const mf_rbm *m, mf_session *s, int64_t steps,
                               const mf_tensor *const w[3], mf_tensor **v, mf_tensor **chance)
{
    static const char *const feeds[] = { "v:0", "kernel:0", "visible:0", "hidden:0", "seed:0" };
    static const char *const fetches[] = { "next:0", "chance:0" };
    mf_tensor *seed = NULL, *results[2] = { 0 };
    mf_status st;

    MF_TRY(mf_tensor_new(MF_DTYPE_I64, (int64_t[]){ 2 }, 1, &seed));
    for (int64_t i = 0; i < steps; i++) {
        const mf_tensor *values[] = { *v, w[0], w[1], w[2], seed };
        mf_tensor *before;

        ((int64_t *)mf_tensor_data(seed))[0] = (int64_t)m->seed;
        ((int64_t *)mf_tensor_data(seed))[1] = 2 * i;
        MF_TRY_TO(done, mf_session_run(s, NULL, feeds, values, 5, fetches, 2, NULL, 0, results));
        before = *v;
        *v = results[0];
        results[0] = before;
    }
    *chance = results[1];
    results[1] = NULL;
    st = MF_OK;
done:
    mf_tensor_free(results[0]);
    mf_tensor_free(results[1]);
    mf_tensor_free(seed);
    return st;
}

mf_status mf_rbm_plot_samples(const mf_rbm *m, int64_t steps, const char *path)
{
    static const char *const names[] = { "kernel", "visible_bias", "hidden_bias" };
    mf_tensor *w[3] = { 0 }, *v = NULL, *chance = NULL;
    mf_session *session = NULL;
    mf_graph *graph = NULL;
    int64_t dims[3];
    mf_status st;

    for (int i = 0; i < 3; i++)
        MF_TRY_TO(done, rbm_plot_weight(m, names[i], &w[i]));
    MF_TRY_TO(done, image_dims(m, mf_tensor_dim(w[0], 0), dims));
    MF_TRY_TO(done, first_values(m, mf_tensor_dim(w[0], 0), &v));
    MF_TRY_TO(done, mf_graph_new(&graph));
    MF_TRY_TO(done, build_step(graph));
    MF_TRY_TO(done,
              mf_session_new(graph, &(mf_session_options){ .threads = m->threads }, &session));
    MF_TRY_TO(done, rbm_plot_walk(m, session, steps, (const mf_tensor *const *)w, &v, &chance));
    st = mf_image_grid_write(mf_tensor_data(chance), CHAINS, dims, path);
done:
    mf_session_free(session);
    mf_graph_free(graph);
    mf_tensor_free(v);
    mf_tensor_free(chance);
    for (int i = 0; i < 3; i++)
        mf_tensor_free(w[i]);
    return st;
}
