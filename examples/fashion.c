/* SPDX-License-Identifier: Apache-2.0 */
/* fashion.c - five steps: split a data set, describe a model, compile, fit, evaluate.
 *
 *     cc fashion.c -o fashion $(pkg-config --cflags --libs meshflow) && ./fashion */
#include <meshflow/meshflow.h>

#include <stdio.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != MF_OK) {                                                                     \
            fprintf(stderr, "%s\n", mf_error_message());                                           \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static mf_status after_epoch(void *ctx, mf_trainer *t, const mf_step_report *r, const mf_result *v,
                             int n)
{
    (void)ctx, (void)t;
    printf("epoch %d: loss %.4f, validation accuracy %.4f\n", (int)r->epoch + 1,
           r->results[0].value, n > 1 ? v[1].value : 0.0);
    return MF_OK;
}

int main(void)
{
    mf_dataset *all, *train, *validation, *test;
    mf_model *m;
    mf_trainer *t;
    mf_result results[MF_MAX_RESULTS];
    int n;

    TRY(mf_dataset_open("fashion-mnist", "part=train", &all));
    TRY(mf_dataset_open("fashion-mnist", "part=test", &test));
    TRY(mf_dataset_split(all, 0.9, 1, &train, &validation));

    TRY(mf_model_new(&m));
    mf_output x = mf_model_input(m, "image", MF_DTYPE_U8, (int64_t[]){ 28, 28, 1 }, 3);
    x = mf_layer(m, "Rescaling", MF_IN(x), "scale=%g", 1.0 / 255);
    x = mf_layer(m, "Flatten", MF_IN(x), NULL);
    x = mf_layer(m, "Dense", MF_IN(x), "units=128 activation=relu");
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=10"));

    TRY(mf_model_compile(
        m, &(mf_compile_options){ .optimizer = "adam", .metrics = "accuracy", .seed = 1 }, &t));
    TRY(mf_fit(t, train, validation,
               &(mf_fit_options){
                   .epochs = 3, .hooks = &(mf_hook){ .after_epoch = after_epoch }, .n_hooks = 1 }));
    TRY(mf_evaluate(t, test, results, &n));
    printf("test accuracy %.4f\n", results[1].value);

    mf_trainer_free(t);
    mf_model_free(m);
    for (int i = 0; i < 4; i++)
        mf_dataset_unref((mf_dataset *[]){ all, train, validation, test }[i]);
    return 0;
}
