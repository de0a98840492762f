/* SPDX-License-Identifier: Apache-2.0 */
/* slow_input.c - a training whose steps take as long as a worker's samples are many: reading one
 * sleeps for a fixed time, in one thread. How fast it is depends on the number of workers and not
 * on that of cores. For tests/train/jobs.py and tests/train/members.py.
 *
 * Usage: meshflow-slow-input JOB [STRATEGY [MS]], with the cluster in TF_CONFIG; reading a sample
 * takes MS milliseconds (default: 4). Runs until it is stopped. */
#include <meshflow/meshflow.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 24, SAMPLES = 240, SAMPLE_MS = 4, STEPS = 100000 };

static mf_trainer *trainer;
static long sample_ms = SAMPLE_MS;

static void stop(int signal_number)
{
    (void)signal_number;
    mf_trainer_stop(trainer);
}

static mf_status sleep_over(void *ctx, uint64_t epoch, int64_t id, const void *const *in,
                            void *const *out)
{
    (void)ctx, (void)epoch, (void)id;
    (void)nanosleep(&(struct timespec){ sample_ms / 1000, sample_ms % 1000 * 1000000 }, NULL);
    memcpy(out[0], in[0], sizeof(float));
    memcpy(out[1], in[1], sizeof(int32_t));
    return MF_OK;
}

static mf_status make_data(mf_dataset **out)
{
    static const char *const names[] = { "x", "label" };
    mf_tensor *x = NULL, *label = NULL;
    mf_dataset *quick = NULL;
    const mf_column *columns;
    mf_status st = mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ SAMPLES, 1 }, 2, &x);
    int n;

    if (st == MF_OK)
        st = mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ SAMPLES }, 1, &label);
    for (int i = 0; st == MF_OK && i < SAMPLES; i++) {
        ((float *)mf_tensor_data(x))[i] = (float)(i % 7);
        ((int32_t *)mf_tensor_data(label))[i] = i % 2;
    }
    if (st == MF_OK)
        st = mf_dataset_of(names, (const mf_tensor *const[]){ x, label }, 2, &quick);
    if (st == MF_OK) {
        n = mf_dataset_columns(quick, &columns);
        st = mf_dataset_map(quick, columns, n, sleep_over, NULL, out);
    }
    mf_dataset_unref(quick);
    mf_tensor_free(x);
    mf_tensor_free(label);
    return st;
}

static mf_status make_model(mf_model **out)
{
    mf_status st = mf_model_new(out);
    mf_output x;

    if (st != MF_OK)
        return st;
    x = mf_model_input(*out, "x", MF_DTYPE_F32, (int64_t[]){ 1 }, 1);
    mf_model_output(*out, mf_layer(*out, "Dense", MF_IN(x), "units=2"));
    return mf_model_status(*out);
}

int main(int argc, char **argv)
{
    const mf_strategy_options job = { .job = argc > 1 ? argv[1] : "slow" };
    mf_strategy *strategy = NULL;
    mf_dataset *data = NULL;
    mf_model *model = NULL;
    mf_status st = make_data(&data);

    if (argc > 3)
        sample_ms = strtol(argv[3], NULL, 10);
    if (st == MF_OK)
        st = make_model(&model);
    if (st == MF_OK)
        st = mf_strategy_open(argc > 2 ? argv[2] : NULL, &job, &strategy);
    if (st == MF_OK)
        st = mf_model_compile(model, &(mf_compile_options){ .strategy = strategy }, &trainer);
    (void)signal(SIGINT, stop);
    (void)signal(SIGTERM, stop);
    if (st == MF_OK)
        st = mf_fit(trainer, data, NULL,
                    &(mf_fit_options){ .batch = BATCH, .steps = STEPS, .input_threads = 1 });
    if (st != MF_OK)
        (void)fprintf(stderr, "%s\n", mf_error_message());
    mf_trainer_free(trainer);
    mf_strategy_close(strategy);
    mf_model_free(model);
    mf_dataset_unref(data);
    return st != MF_OK;
}
