/* SPDX-License-Identifier: Apache-2.0 */
/* run_step.c - one step of a trainer: feed a batch, run the session, read the results. */
#include "models/metrics.h"
#include "train/loop/bad_sample.h"
#include "train/loop/dist.h"
#include "train/loop/loop.h"
#include "train/step/trainer.h"

#include <string.h>

/* ---- batches ---- */

/* Labels may be stored as any integer type, and with dimensions of 1 that the loss does not have.
 */
static mf_status convert_label(const mf_tensor *label, mf_dtype wanted, const mf_shape *shape,
                               mf_tensor **out)
{
    mf_shape to = *shape;

    to.dims[0] = label->shape.dims[0];
    MF_TRY(mf_tensor_new(wanted, to.dims, to.rank, out));
    for (int64_t i = 0; i < label->count; i++)
        mf_tensor_put(*out, i, mf_tensor_float_at(label, i));
    return MF_OK;
}

static int trainer_find_column(const mf_dataset *set, const char *name)
{
    const mf_column *columns;
    const int n = mf_dataset_columns(set, &columns);

    for (int i = 0; i < n; i++) {
        if (strcmp(columns[i].name, name) == 0)
            return i;
    }
    return -1;
}

static mf_status no_column(const mf_dataset *set, const char *name)
{
    const mf_column *columns;
    const int n = mf_dataset_columns(set, &columns);
    mf_buf known = { 0 };
    mf_status st;

    for (int i = 0; i < n; i++)
        mf_buf_printf(&known, "%s%s", i ? ", " : "", columns[i].name);
    st = MF_FAIL(MF_INVALID_ARGUMENT, "the model needs a column '%s', the data has %s%s", name,
                 known.data ? known.data : "none",
                 strcmp(name, "label") == 0 ? "; of a table, label=COLUMN selects it" : "");
    mf_buf_deinit(&known);
    return st;
}

/* Does the label have as many numbers for each sample as the loss needs? */
static mf_status trainer_check_label(const mf_tensor *label, const mf_shape *wanted)
{
    char is[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];

    if (wanted->rank < 1 || mf_shape_span(wanted, 1, wanted->rank) ==
                                mf_shape_span(&label->shape, 1, label->shape.rank))
        return MF_OK;
    return MF_FAIL(
        MF_INVALID_ARGUMENT,
        "the data has labels of shape %s, the loss takes %s for the output of this model: "
        "another model or another loss is needed",
        mf_shape_text(&label->shape, is), mf_shape_text(wanted, want));
}

/* The label in the form that the loss takes; *converted: the caller's, if one was made. */
static mf_status feed_label(const mf_trainer *t, const mf_tensor *label, const mf_tensor **out,
                            mf_tensor **converted)
{
    const mf_dtype dtype = t->graph.label.node->out_types[0];
    const mf_shape wanted = t->graph.label_shape;
    bool known = wanted.rank > 0;

    for (int i = 1; i < wanted.rank; i++)
        known &= wanted.dims[i] >= 0;
    if (known)
        MF_TRY(trainer_check_label(label, &wanted));
    *out = label;
    if (label->dtype == dtype && (!known || label->shape.rank == wanted.rank))
        return MF_OK;
    MF_TRY(convert_label(label, dtype, known ? &wanted : &label->shape, converted));
    *out = *converted;
    return MF_OK;
}

/* Otherwise the first op that uses it would fail, or broadcast it. */
static mf_status trainer_check_column(const mf_node *in, const mf_tensor *value)
{
    const mf_shape *wanted = mf_node_shape(in, "shape");
    char have[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];

    if (mf_shape_compatible(wanted, &value->shape))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "column '%s' has the shape %s, the model was made for %s",
                   in->name, mf_shape_text(&value->shape, have), mf_shape_text(wanted, want));
}

mf_status mf_trainer_feed(mf_trainer *t, mf_names *names, const mf_dataset *set,
                          const mf_batch *batch, bool with_label, mf_tensor **converted)
{
    const int n_in = (int)t->model->n_inputs, n = n_in + with_label;

    *converted = NULL;
    for (int i = 0; i < n; i++) {
        const mf_node *in = i < n_in ? t->model->inputs[i].node : t->graph.label.node;
        const int column = trainer_find_column(set, in->name);

        if (column < 0)
            return no_column(set, in->name);
        names->values[i] = batch->columns[column];
        if (i == n_in)
            MF_TRY(feed_label(t, batch->columns[column], &names->values[i], converted));
        else if (names->values[i]->dtype != in->out_types[0])
            return MF_FAIL(MF_INVALID_ARGUMENT, "column '%s' is %s, the model was made for %s",
                           in->name, mf_dtype_name(names->values[i]->dtype),
                           mf_dtype_name(in->out_types[0]));
        else
            MF_TRY(trainer_check_column(in, names->values[i]));
    }
    return MF_OK;
}

/* ---- one step ---- */

double mf_report_value(const mf_report *r, const float *sums, int64_t n_sums, int64_t samples)
{
    if (r->metric)
        return r->metric->value(sums, n_sums, samples);
    return (double)sums[0] / (double)samples;
}

mf_status mf_trainer_call(mf_trainer *t, const mf_run_options *options, const mf_loop_call *call)
{
    if (t->loop)
        return mf_hook_loop_run(t->loop, options, call);
    return mf_session_run(t->session, options, call->feed_names, call->feeds, call->n_feeds,
                          call->fetches, call->n_fetches, call->targets, call->n_targets,
                          call->results);
}

static void use_session(mf_trainer *t, mf_session *session)
{
    t->session = session;
    if (t->loop)
        t->loop->session = session;
}

mf_status mf_trainer_call_at(mf_trainer *t, mf_session *session, int64_t timeout_ms,
                             const mf_run_options *options, const mf_loop_call *call)
{
    const mf_run_options o = { .timeout_ms = timeout_ms, .trace_path = options->trace_path };
    mf_session *here = t->session;
    mf_status st;

    mf_session_set_trace(session, mf_session_trace(here));
    use_session(t, session);
    st = mf_trainer_call(t, &o, call);
    use_session(t, here);
    mf_session_set_trace(session, NULL);
    return st;
}

/* Over which results are means. */
static int64_t trainer_samples_of(const mf_trainer *t, const mf_batch *batch)
{
    return mf_dist_can(t->dist, MF_DIST_OWN_BATCHES) ? t->dist->samples.own : batch->whole;
}

static mf_status trainer_run(mf_trainer *t, const mf_batch *batch)
{
    mf_names *n = &t->step_names;
    const int at = (int)t->model->n_inputs + 1;
    const char *target = mf_node_name(t->graph.train);
    const mf_run_options options = { .trace_path = t->trace };
    const mf_loop_call call = { n->feeds,   n->values,    n->fetches, &target,
                                n->n_feeds, n->n_fetches, 1,          n->results };
    mf_tensor clock = { 0 }, rate = { 0 }, inverse = { 0 };
    mf_status st = mf_tensor_alloc(&clock, MF_DTYPE_I64, &MF_SHAPE(3));

    if (st == MF_OK)
        st = mf_tensor_alloc(&rate, MF_DTYPE_F32, &MF_SCALAR);
    if (st == MF_OK)
        st = mf_tensor_alloc(&inverse, MF_DTYPE_F32, &MF_SCALAR);
    if (st == MF_OK) {
        ((int64_t *)clock.data)[0] = (int64_t)t->options.seed;
        ((int64_t *)clock.data)[1] = t->step;
        ((int64_t *)clock.data)[2] = batch->place;
        ((float *)rate.data)[0] = mf_schedule_at(&t->schedule, t->step);
        ((float *)inverse.data)[0] = 1.0f / (float)trainer_samples_of(t, batch);
        n->values[at] = &clock;
        n->values[at + 1] = &rate;
        n->values[at + 2] = &inverse;
        st = MF_DIST_HAS(t->dist, step, run) ? t->dist->ops.step->run(t->dist, t, &options, &call)
                                             : mf_trainer_call(t, &options, &call);
    }
    mf_tensor_clear(&clock);
    mf_tensor_clear(&rate);
    mf_tensor_clear(&inverse);
    return st;
}

static mf_status trainer_run_batch(mf_trainer *t, const mf_dataset *set, const mf_batch *batch,
                                   mf_result *results)
{
    mf_names *n = &t->step_names;
    mf_tensor *converted;
    mf_status st = mf_trainer_feed(t, n, set, batch, true, &converted);

    if (st == MF_OK)
        st = trainer_run(t, batch);
    if (st == MF_INVALID_ARGUMENT)
        st = mf_batch_blame(set, batch, st);
    mf_tensor_free(converted);
    for (int i = 0; st == MF_OK && i < n->n_fetches; i++)
        results[i].value = mf_report_value(&t->graph.reports[i], n->results[i]->data,
                                           n->results[i]->count, trainer_samples_of(t, batch));
    return st;
}

mf_status mf_trainer_count_step(mf_trainer *t)
{
    mf_tensor step = { 0 };
    mf_status st = mf_tensor_alloc(&step, MF_DTYPE_I64, &MF_SCALAR);

    if (st == MF_OK) {
        ((int64_t *)step.data)[0] = t->step + 1;
        st = mf_variable_assign(mf_trainer_find(t, "global_step")->variable, &step, true);
    }
    mf_tensor_clear(&step);
    return st;
}

mf_status mf_trainer_run_step(mf_trainer *t, const mf_dataset *set, const mf_batch *batch,
                              mf_result *results)
{
    for (int i = 0; i < t->graph.n_reports; i++)
        results[i].name = t->graph.reports[i].name;
    MF_TRY(trainer_samples_of(t, batch) > 0 ? trainer_run_batch(t, set, batch, results)
                                            : mf_trainer_count_step(t));
    t->step++;
    t->epoch = batch->epoch;
    t->first = batch->first - batch->place + batch->whole;
    return MF_OK;
}
