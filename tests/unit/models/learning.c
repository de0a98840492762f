/* SPDX-License-Identifier: Apache-2.0 */
/* learning.c - every model of the zoo overfits a small batch, with two gradient shards. */
#include "mf_test.h"
#include "models/losses.h"
#include "models/zoo.h"
#include "unit/models/model_run.h"

#include <stdio.h>
#include <string.h>

enum { SAMPLES = 6, STEPS = 12 };

/* Random bytes, integers below `below`, or floats. */
static mf_tensor *random_column(const mf_column *c, int64_t below, uint64_t *seed)
{
    int64_t dims[MF_MAX_RANK] = { SAMPLES };
    mf_tensor *t;

    memcpy(dims + 1, c->dims, (size_t)c->rank * sizeof *dims);
    T_OK(mf_tensor_new(c->dtype, dims, c->rank + 1, &t));
    for (int64_t i = 0; i < mf_tensor_count(t); i++) {
        *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        const uint64_t r = *seed >> 33;

        if (c->dtype == MF_DTYPE_U8)
            ((uint8_t *)mf_tensor_data(t))[i] = (uint8_t)r;
        else if (c->dtype == MF_DTYPE_I32)
            ((int32_t *)mf_tensor_data(t))[i] = (int32_t)(r % (uint64_t)below);
        else if (c->dtype == MF_DTYPE_I64)
            ((int64_t *)mf_tensor_data(t))[i] = (int64_t)(r % (uint64_t)below);
        else
            ((float *)mf_tensor_data(t))[i] = (float)(r % 1000) / 1000.0f;
    }
    return t;
}

/* One step: every trained weight less `rate` times its gradient. Returns the losses before it. */
static mf_output training_step(mf_model *m, mf_output loss, double rate, const char **targets,
                               int *n_targets)
{
    mf_output xs[200], dxs[200], in[200] = { m->inputs[0] }, out[200], step, update;
    mf_weight *of[200];
    mf_buf types = { 0 }, join = { 0 }, results = { 0 };
    int n_in = 0, n = 0;

    for (int64_t i = 0; i < m->n_inputs; i++) {
        in[n_in++] = m->inputs[i];
        mf_buf_printf(&types, "%s%s", i ? "," : "", mf_dtype_name(m->inputs[i].node->out_types[0]));
    }
    mf_buf_str(&types, "] Tshared=[");
    for (int64_t i = 0; i < m->n_weights; i++) {
        mf_weight *w = m->weights[i];

        if (!w->lookups) {
            in[n_in++] = w->value;
            mf_buf_str(&types, "float,");
        }
        if (w->trained) {
            of[n] = w;
            xs[n++] = w->lookups ? w->handle : w->value;
        }
    }
    in[n_in++] = m->clock;
    in[n_in] = (mf_output)MF_END;
    T_OK(mf_gradients(m->graph, &loss, 1, xs, n, NULL, dxs));
    out[0] = loss;
    mf_buf_str(&join, "'concat'");
    mf_buf_str(&results, "float");
    for (int i = 0; i < n; i++) {
        if (!dxs[i].node)
            T_FAIL("no gradient reaches %s", of[i]->name);
        out[i + 1] = dxs[i];
        mf_buf_str(&join, ",'sum'");
        mf_buf_str(&results, ",float");
    }
    out[n + 1] = (mf_output)MF_END;
    mf_define(m->graph, "step", in, out);
    step = mf_applyf(m->graph, "_ShardMap", in,
                     "f=@step shards=2 join=[%s] Tbatched=[%sint64] Tout=[%s]", join.data,
                     types.data, results.data);
    T_OK(mf_model_status(m));
    for (int i = 0; i < n; i++) {
        update = mf_apply(m->graph, "Mul",
                          MF_IN(((mf_output){ step.node, i + 1 }),
                                mf_scalar(m->graph, MF_DTYPE_F32, rate / SAMPLES)));
        update = mf_apply(m->graph, "AssignSubVariableOp", MF_IN(of[i]->handle, update));
        T_OK(mf_model_status(m));
        targets[i] = mf_node_name(update.node);
    }
    *n_targets = n;
    mf_buf_deinit(&types);
    mf_buf_deinit(&join);
    mf_buf_deinit(&results);
    return step;
}

static double run_step(mf_session *s, const mf_model *m, mf_output loss, mf_tensor *const *inputs,
                       const char *const *targets, int n_targets, int64_t step)
{
    const char *names[8];
    const mf_tensor *values[8];
    char fetch[200];
    const char *fetches[1] = { fetch };
    mf_tensor *clock, *out = NULL;
    double sum = 0.0;
    int n = 0;

    for (; n < (int)m->n_inputs; n++) {
        names[n] = mf_node_name(m->inputs[n].node);
        values[n] = inputs[n];
    }
    T_OK(mf_tensor_new(MF_DTYPE_I64, (int64_t[]){ 2 }, 1, &clock));
    ((int64_t *)mf_tensor_data(clock))[1] = step;
    names[n] = "clock";
    values[n++] = clock;
    (void)snprintf(fetch, sizeof fetch, "%s:0", mf_node_name(loss.node));
    T_OK(mf_session_run(s, NULL, names, values, n, fetches, 1, targets, n_targets, &out));
    T_EQ(mf_tensor_count(out), SAMPLES);
    for (int64_t i = 0; i < SAMPLES; i++)
        sum += (double)t_at(out, i);
    mf_tensor_free(out);
    mf_tensor_free(clock);
    return sum / SAMPLES;
}

static void check_learns(const char *text, const char *columns, int64_t below, double rate)
{
    mf_arena *arena = mf_arena_new();
    mf_tensor *inputs[8] = { NULL };
    const char *targets[200];
    mf_column *list;
    int64_t classes;
    uint64_t seed = 1;
    int n, n_targets;
    double first = 0.0, last = 0.0;
    mf_model *m;

    T_OK(mf_zoo_columns(columns, arena, &list, &n, &classes));
    T_OK(mf_zoo_build(text, list, n, classes, &m));
    /* the label is the last column, and no input of the model yet */
    const mf_column *label = &list[n - 1];
    const mf_output y = mf_model_input(m, "label", label->dtype, label->dims, label->rank);
    const mf_output loss = mf_loss(m, m->loss, m->output, y);
    T_OK(mf_model_status(m));
    const mf_output step = training_step(m, loss, rate, targets, &n_targets);
    mf_session *s = t_model_start(m, 1);
    for (int i = 0; i < n; i++)
        inputs[i] =
            random_column(&list[i], i == n - 1 ? (classes > 0 ? classes : 2) : below, &seed);
    for (int i = 0; i < STEPS; i++) {
        last = run_step(s, m, step, inputs, targets, n_targets, i);
        first = i == 0 ? last : first;
    }
    if (!(last < 0.95 * first))
        T_FAIL("%s: the loss goes from %g to %g", text, first, last);
    for (int i = 0; i < n; i++)
        mf_tensor_free(inputs[i]);
    mf_session_free(s);
    mf_model_free(m);
    mf_arena_free(arena);
}

static const char MNIST[] = "image=uint8[28,28,1] label=int32[] classes=10";
static const char SMALL[] = "image=uint8[16,16,3] label=int32[] classes=10";
static const char REVIEWS[] = "tokens=int32[12] label=int32[] classes=2";
static const char WORDS[] = "tokens=int32[12] label=int32[12] classes=20";

MF_TEST(models_learning_images)
{
    check_learns("mlp dropout=0.1", MNIST, 0, 0.1);
    check_learns("fashion-cnn", MNIST, 0, 0.05);
    check_learns("cnn dropout=0.1", SMALL, 0, 0.05);
    check_learns("cnn-small", MNIST, 0, 0.1);
    check_learns("resnet8", SMALL, 0, 0.1);
}

MF_TEST(models_learning_a_deep_residual_network)
{
    check_learns("resnet20 width=4", SMALL, 0, 0.1);
}

MF_TEST(models_learning_tokens)
{
    check_learns("lstm vocabulary=20 dropout=0.1", REVIEWS, 20, 1.0);
    check_learns("lstm vocabulary=20", WORDS, 20, 4.0);
    check_learns("text-cnn vocabulary=20 dropout=0.1", REVIEWS, 20, 0.5);
    check_learns("transformer", WORDS, 20, 0.2);
    check_learns("transformer vocabulary=20 layers=1 dropout=0.0", REVIEWS, 20, 0.001);
}

MF_TEST(models_learning_fields)
{
    check_learns("wide-deep buckets=100", "ids=int64[5] dense=float[3] label=int32[]", 50, 0.2);
    check_learns("wide-deep buckets=100 units=[]", "ids=int32[5] label=int32[]", 50, 0.2);
}
