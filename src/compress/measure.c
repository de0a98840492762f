/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - measures quality and speed: of two models alternately. */
#include "base/clock.h"
#include "compress/compress.h"

enum { ROUNDS = 11, INFER_BATCH = 256, WARM = 2 };
#define ROUND_NS 100000000.0

mf_status mf_measure_value(const mf_compressed *s, const mf_compile_options *options,
                           mf_dataset *test, const char **name, double *value)
{
    mf_result results[MF_MAX_RESULTS];
    mf_compressed_trainer t;
    mf_status st = mf_compressed_train(s, options, &t);
    int n = 0;

    if (st == MF_OK)
        st = mf_evaluate(t.trainer, test, results, &n);
    if (st == MF_OK) {
        *value = results[n > 1].value;
        if (name)
            *name = results[n > 1].name;
    }
    mf_compressed_trainer_free(&t);
    return st;
}

/* ---- speed ---- */

/* One of the two models. */
typedef struct measure_runner {
    mf_compressed_trainer t;
    mf_dataset *data;
    mf_iterator *it;
    const mf_batch *samples; /* for inference */
    int64_t batch; /* of a training step */
} measure_runner;

static mf_status measure_infer(measure_runner *r, int64_t times)
{
    mf_trainer *t = r->t.trainer;
    const mf_tensor *out;
    mf_tensor *converted;
    mf_status st = mf_trainer_feed(t, &t->predict_names, r->data, r->samples, false, &converted);

    for (int64_t i = 0; st == MF_OK && i < times; i++)
        st = mf_trainer_infer(t, t->predict_names.values, &out);
    mf_tensor_free(converted);
    return st;
}

static mf_status step(measure_runner *r, int64_t times)
{
    mf_trainer *t = r->t.trainer;

    return mf_fit(t, r->data, NULL,
                  &(mf_fit_options){ .batch = r->batch,
                                     .in_order = true,
                                     .check_steps = -1,
                                     .steps = mf_trainer_step(t) + times });
}

typedef mf_status work(measure_runner *r, int64_t times);

static mf_status timed(work *w, measure_runner *r, int64_t times, double *ns)
{
    const int64_t begin = mf_clock_ns();
    const mf_status st = w(r, times);

    *ns = (double)(mf_clock_ns() - begin) / (double)times;
    return st;
}

/* Nanoseconds of one call of each model: of the fastest round, the one with the least other load.
 */
static mf_status by_turns(work *w, measure_runner both[2], double ns[2])
{
    int64_t times[2];

    for (int i = 0; i < 2; i++) {
        double once;

        MF_TRY(w(&both[i], WARM));
        MF_TRY(timed(w, &both[i], WARM, &once));
        times[i] = 1 + (int64_t)(ROUND_NS / (once + 1));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 2; i++) {
            double each;

            MF_TRY(timed(w, &both[i], times[i], &each));
            ns[i] = round == 0 || each < ns[i] ? each : ns[i];
        }
    }
    return MF_OK;
}

static mf_status measure_start(measure_runner *r, const mf_compressed *s,
                               const mf_compile_options *options)
{
    const mf_iterator_options order = { .batch = INFER_BATCH, .in_order = true, .epochs = 1 };

    MF_TRY(mf_compressed_train(s, options, &r->t));
    MF_TRY(mf_iterator_new(r->data, &order, &r->it));
    return mf_iterator_next(r->it, &r->samples);
}

mf_status mf_measure_speed(const mf_compressed *const both[2], const mf_compile_options *options,
                           mf_dataset *train, int64_t batch, mf_measured *const out[2])
{
    measure_runner r[2] = { { .data = train, .batch = batch }, { .data = train, .batch = batch } };
    double inferred[2], steps[2];
    mf_status st = MF_OK;

    for (int i = 0; st == MF_OK && i < 2; i++)
        st = measure_start(&r[i], both[i], options);
    if (st == MF_OK)
        st = by_turns(measure_infer, r, inferred);
    if (st == MF_OK)
        st = by_turns(step, r, steps);
    for (int i = 0; i < 2; i++) {
        if (st == MF_OK) {
            out[i]->inferred = (double)r[i].samples->n * 1e9 / inferred[i];
            out[i]->step = steps[i] * 1e-9;
        }
        mf_iterator_free(r[i].it);
        mf_compressed_trainer_free(&r[i].t);
    }
    return st;
}
