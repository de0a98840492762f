/* SPDX-License-Identifier: Apache-2.0 */
/* long_op.c - a training in which one worker computes for long: what a step multiplies is as large
 * as its samples say, and the last sample of one batch says LARGE. For tests/train/hang.py.
 *
 * Usage: meshflow-long-op JOB, with the cluster in TF_CONFIG. */
#include <meshflow/meshflow.h>

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 8, STEPS = 60, STEP = 40, LARGE = 6000 };

/* Samples in order, so the last one of a batch is in the last worker's shards. */
static mf_status make_data(mf_dataset **out)
{
    static const char *const names[] = { "x", "label" };
    mf_tensor *x = NULL, *label = NULL;
    mf_status st = mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ (int64_t)BATCH * STEPS, 1 }, 2, &x);

    if (st == MF_OK)
        st = mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ (int64_t)BATCH * STEPS }, 1, &label);
    for (int i = 0; st == MF_OK && i < BATCH * STEPS; i++) {
        ((float *)mf_tensor_data(x))[i] = i == BATCH * STEP + BATCH - 1 ? (float)LARGE : 1.0f;
        ((int32_t *)mf_tensor_data(label))[i] = i % 2;
    }
    if (st == MF_OK)
        st = mf_dataset_of(names, (const mf_tensor *const[]){ x, label }, 2, out);
    mf_tensor_free(x);
    mf_tensor_free(label);
    return st;
}

/* y = Dense(1 + 0 * sum of ones [n, n] times ones [n, n]), with n the largest x. */
static mf_status make_model(mf_model **out)
{
    mf_model *m;
    mf_status st = mf_model_new(out);
    mf_output x, n, ones, sum;
    mf_graph *g;

    if (st != MF_OK)
        return st;
    m = *out;
    x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ 1 }, 1);
    g = mf_model_graph(m);
    n = mf_applyf(g, "Cast", MF_IN(mf_apply(g, "Max", MF_IN(x, mf_ints(g, (int64_t[]){ 0 }, 1)))),
                  "DstT=int32");
    ones =
        mf_apply(g, "Fill",
                 MF_IN(mf_applyf(g, "ConcatV2", MF_IN(n, n, mf_scalar(g, MF_DTYPE_I32, 0)), "N=2"),
                       mf_scalar(g, MF_DTYPE_F32, 1)));
    ones = mf_applyf(g, "MatMul", MF_IN(ones, ones), "name='LargeProduct'");
    sum = mf_apply(g, "Sum", MF_IN(ones, mf_ints(g, (int64_t[]){ 0, 1 }, 2)));
    sum = mf_apply(g, "Mul", MF_IN(sum, mf_scalar(g, MF_DTYPE_F32, 0)));
    x = mf_apply(g, "Add", MF_IN(mf_apply(g, "OnesLike", MF_IN(x)), sum));
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=2"));
    return mf_model_status(m);
}

int main(int argc, char **argv)
{
    mf_strategy *strategy = NULL;
    mf_trainer *trainer = NULL;
    mf_dataset *data = NULL;
    mf_model *model = NULL;
    mf_status st = make_data(&data);

    if (st == MF_OK)
        st = make_model(&model);
    if (st == MF_OK)
        st = mf_strategy_open(NULL, &(mf_strategy_options){ .job = argc > 1 ? argv[1] : "long" },
                              &strategy);
    if (st == MF_OK)
        st = mf_model_compile(model, &(mf_compile_options){ .strategy = strategy }, &trainer);
    if (st == MF_OK)
        st = mf_fit(trainer, data, NULL, &(mf_fit_options){ .batch = BATCH, .in_order = true });
    if (st != MF_OK)
        (void)fprintf(stderr, "%s\n", mf_error_message());
    mf_trainer_free(trainer);
    mf_strategy_close(strategy);
    mf_model_free(model);
    mf_dataset_unref(data);
    return st != MF_OK;
}
