/* SPDX-License-Identifier: Apache-2.0 */
/* hook_summary.c - events for TensorBoard.
 *
 * A failure to write (a full disk) does not stop training: it is logged once, and no more events
 * are written. */
#include "base/host_state.h"
#include "base/log.h"
#include "train/loop/hook.h"
#include "train/step/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { IMAGES = 3, EVERY = 10 };

typedef struct summary {
    mf_summary_options o; /* without its strings */
    char *dir, *validation;
    mf_hook_names summaries;
    mf_timer timer, run_timer; /* scalars; the graph's summaries */
    mf_hook_loop *loop;
    bool broken; /* writing has failed */
    bool graph_written;

    /* Of the current run. */
    mf_hook_names fetches; /* space for all possible fetches; strings are borrowed */
    int n_summaries, n_gradients, n_images; /* fetched, in this order */
    char image[300], (*gradients)[300]; /* "name:0" */
} summary;

/* Log a failure to write; the loop continues. */
static mf_status tolerate(summary *h, mf_status st)
{
    if (st != MF_OK && !h->broken)
        MF_WARN("no events are written to %s any more: %s", h->dir, mf_error_message());
    h->broken |= st != MF_OK;
    return MF_OK;
}

/* ---- at the beginning ---- */

static mf_status hook_summary_write_graph(summary *h)
{
    mf_events *events;
    char *data = NULL;
    size_t len;
    mf_status st;

    MF_TRY(mf_hook_loop_events(h->loop, h->dir, &events));
    MF_TRY(mf_graph_encode(h->loop->graph, &data, &len));
    st = mf_events_graph(events, data, len);
    mf_bytes_free(data);
    return st;
}

/* The input that holds pictures: [samples, height, width, channels]. */
static void find_images(summary *h, mf_trainer *t)
{
    for (int64_t i = 0; i < t->model->n_inputs && !h->image[0]; i++) {
        const mf_shape shape = mf_model_shape(t->model, t->model->inputs[i]);
        const int64_t c = shape.rank == 4 ? shape.dims[3] : 0;

        if (c == 1 || c == 3 || c == 4)
            (void)snprintf(h->image, sizeof h->image, "%s:0",
                           mf_node_name(t->model->inputs[i].node));
    }
}

static mf_status name_gradients(summary *h, mf_trainer *t)
{
    h->gradients = mf_calloc(t->graph.n_weights, sizeof *h->gradients);
    if (!h->gradients)
        return MF_NOMEM("a hook");
    for (int i = 0; i < t->graph.n_weights; i++) {
        const mf_output g = t->graph.weights[i].gradient;

        (void)snprintf(h->gradients[i], sizeof h->gradients[i], "%s:%d", mf_node_name(g.node),
                       g.port);
    }
    return MF_OK;
}

static mf_status prepare_fetches(summary *h, mf_trainer *t)
{
    const int n = t ? t->graph.n_weights : 0;

    if (h->fetches.at)
        return MF_OK;
    h->fetches.at = mf_calloc(h->summaries.n + n + 1, sizeof *h->fetches.at);
    if (!h->fetches.at)
        return MF_NOMEM("a hook");
    if (t && h->o.image_steps > 0)
        find_images(h, t);
    return t && h->o.gradient_steps > 0 ? name_gradients(h, t) : MF_OK;
}

static mf_status summary_created(void *ctx, mf_hook_loop *loop)
{
    summary *h = ctx;
    mf_events *events;

    h->loop = loop;
    MF_TRY(prepare_fetches(h, loop->trainer));
    MF_TRY(tolerate(h, mf_hook_loop_events(loop, h->dir, &events)));
    if (h->o.graph && loop->start == 0 && !h->graph_written && !h->broken)
        MF_TRY(tolerate(h, hook_summary_write_graph(h)));
    h->graph_written = true;
    return MF_OK;
}

/* ---- fetches of a run ---- */

static bool hook_summary_is_time(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

static mf_status summary_before_run(void *ctx, mf_hook_loop *loop, mf_run_request *request)
{
    summary *h = ctx;
    mf_hook_names *f = &h->fetches;
    const mf_trainer *t = loop->trainer;
    const int64_t next = t ? t->step + 1 : 0;

    f->n = h->n_summaries = h->n_gradients = h->n_images = 0;
    if (h->broken)
        return MF_OK;
    if (h->summaries.n > 0) {
        int64_t step;

        MF_TRY(mf_hook_loop_step(loop, &step));
        if (mf_timer_is_due(&h->run_timer, step + 1))
            h->n_summaries = h->summaries.n;
    }
    for (int i = 0; i < h->n_summaries; i++)
        f->at[f->n++] = h->summaries.at[i];
    if (t && h->gradients && hook_summary_is_time(h->o.gradient_steps, next))
        h->n_gradients = t->graph.n_weights;
    for (int i = 0; i < h->n_gradients; i++)
        f->at[f->n++] = h->gradients[i];
    if (h->image[0] && hook_summary_is_time(h->o.image_steps, next)) {
        h->n_images = 1;
        f->at[f->n++] = h->image;
    }
    mf_hook_names_fetch(f, request);
    return MF_OK;
}

/* ---- pictures ---- */

/* Floats become bytes as in TensorFlow's image summaries: the largest value becomes 255; with
 * negative values 0 becomes 128. */
static void hook_summary_to_bytes(const mf_tensor *t, int64_t first, int64_t n, unsigned char *out)
{
    double least = INFINITY, most = -INFINITY, size, scale;

    for (int64_t i = 0; i < n; i++) {
        const double v = mf_tensor_float_at(t, first + i);

        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    size = fmax(fabs(least), fabs(most));
    scale = size >= 1e-6 && isfinite(size) ? (least < 0 ? 127.0 : 255.0) / size : 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double v = mf_tensor_float_at(t, first + i) * scale + (least < 0 ? 128.0 : 0.0);

        out[i] = (unsigned char)(v >= 0.0 && v <= 255.0 ? v : 0.0);
    }
}

static mf_status write_images(summary *h, mf_events *events, int64_t step, const mf_tensor *t)
{
    const mf_image size = { t->shape.dims[1], t->shape.dims[2], t->shape.dims[3] };
    const int64_t n = size.height * size.width * size.channels;
    const int most = h->o.images > 0 ? h->o.images : IMAGES;
    unsigned char *pixels = mf_calloc(n, 1);
    mf_status st = pixels ? MF_OK : MF_NOMEM("a picture");

    for (int64_t i = 0; st == MF_OK && i < t->shape.dims[0] && i < most; i++) {
        char tag[400];

        (void)snprintf(tag, sizeof tag, "%.*s/image/%d", (int)(strlen(h->image) - 2), h->image,
                       (int)i);
        if (t->dtype == MF_DTYPE_U8)
            memcpy(pixels, (const unsigned char *)t->data + i * n, (size_t)n);
        else
            hook_summary_to_bytes(t, i * n, n, pixels);
        st = mf_events_image(events, step, tag, pixels, &size);
    }
    mf_free(pixels);
    return st;
}

/* ---- after a run ---- */

static mf_status write_fetched(summary *h, int64_t step, mf_tensor *const *results)
{
    mf_events *events;
    char tag[400];

    MF_TRY(mf_hook_loop_events(h->loop, h->dir, &events));
    for (int i = 0; i < h->n_summaries; i++) {
        for (int64_t k = 0; k < results[i]->count; k++) {
            const char *data;
            size_t len;

            MF_TRY(mf_tensor_get_string(results[i], k, &data, &len));
            MF_TRY(mf_events_summary(events, step, data, len));
        }
    }
    results += h->n_summaries;
    for (int i = 0; i < h->n_gradients; i++) {
        (void)snprintf(tag, sizeof tag, "gradients/%s",
                       h->loop->trainer->graph.weights[i].weight->name);
        MF_TRY(mf_events_histogram(events, step, tag, results[i]));
    }
    results += h->n_gradients;
    return h->n_images ? write_images(h, events, step, results[0]) : MF_OK;
}

static mf_status summary_after_run(void *ctx, mf_hook_loop *loop, mf_tensor *const *results)
{
    summary *h = ctx;
    int64_t step;

    if (h->fetches.n == 0)
        return MF_OK;
    MF_TRY(mf_hook_loop_step(loop, &step));
    if (h->n_summaries > 0)
        mf_timer_fire(&h->run_timer, step, NULL, NULL);
    return tolerate(h, write_fetched(h, step, results));
}

/* ---- steps and epochs of mf_fit() ---- */

static mf_status write_weights(summary *h, mf_trainer *t)
{
    mf_events *events;

    MF_TRY(mf_hook_loop_events(h->loop, h->dir, &events));
    for (int64_t i = 0; i < t->n_trained; i++) {
        mf_tensor value = { 0 };
        mf_status st;

        if (!t->trained[i].is_weight)
            continue;
        MF_TRY(mf_trainer_read(t, &t->trained[i], &value));
        st = mf_events_histogram(events, t->step, t->trained[i].name, &value);
        mf_tensor_clear(&value);
        MF_TRY(st);
    }
    return MF_OK;
}

static mf_status write_results(summary *h, const char *dir, int64_t step, const mf_result *results,
                               int n, const mf_event_scalar *more, int n_more)
{
    mf_event_scalar scalars[MF_MAX_RESULTS + 3];
    mf_events *events;

    MF_TRY(mf_hook_loop_events(h->loop, dir, &events));
    for (int i = 0; i < n; i++)
        scalars[i] = (mf_event_scalar){ results[i].name, results[i].value };
    for (int i = 0; i < n_more; i++)
        scalars[n + i] = more[i];
    return mf_events_scalars(events, step, scalars, n + n_more);
}

static mf_status summary_after_step(void *ctx, mf_trainer *t, const mf_step_report *r)
{
    summary *h = ctx;
    mf_event_scalar more[3] = { { "learning_rate", r->learning_rate } };
    int64_t steps;
    int n = 1;
    double seconds;

    if (h->broken)
        return MF_OK;
    if (mf_timer_is_due(&h->timer, r->step)) {
        mf_timer_fire(&h->timer, r->step, &steps, &seconds);
        if (seconds > 0)
            more[n++] = (mf_event_scalar){ "global_step/sec", (double)steps / seconds };
        if (t->graph.guard.kind == MF_GUARD_SKIP)
            more[n++] = (mf_event_scalar){ "skipped_steps", (double)r->skipped_steps };
        MF_TRY(tolerate(h, write_results(h, h->dir, r->step, r->results, r->n_results, more, n)));
    }
    if (hook_summary_is_time(h->o.weight_steps, r->step) && !h->broken)
        MF_TRY(tolerate(h, write_weights(h, t)));
    return MF_OK;
}

static mf_status summary_after_epoch(void *ctx, mf_trainer *t, const mf_step_report *r,
                                     const mf_result *validation, int n)
{
    summary *h = ctx;

    if (n > 0 && !h->broken)
        MF_TRY(tolerate(h, write_results(h, h->validation, r->step, validation, n, NULL, 0)));
    if (h->o.weights_by_epoch && !h->broken)
        MF_TRY(tolerate(h, write_weights(h, t)));
    return MF_OK;
}

static bool summary_looks(void *ctx, mf_trainer *t, int64_t step)
{
    const summary *h = ctx;

    (void)t;
    return hook_summary_is_time(h->o.weight_steps, step) && !h->broken;
}

static mf_status summary_end(void *ctx, mf_trainer *t)
{
    const summary *h = ctx;

    (void)t;
    if (h->loop)
        mf_hook_loop_flush(h->loop);
    return MF_OK;
}

/* ---- making and freeing ---- */

static void summary_release(void *ctx)
{
    summary *h = ctx;

    mf_hook_names_deinit(&h->summaries);
    mf_free(h->fetches.at);
    mf_free(h->gradients);
    mf_free(h->dir);
    mf_free(h->validation);
    mf_free(h);
}

static mf_status summary_init(summary *h, const mf_summary_options *options)
{
    mf_buf validation = { 0 };

    h->o = *options;
    if (h->o.every.steps == 0 && !(h->o.every.seconds > 0))
        h->o.every.steps = EVERY;
    MF_TRY(mf_every_check(&h->o.every));
    h->timer.every = h->run_timer.every = h->o.every;
    MF_TRY(mf_hook_names_init(&h->summaries, options->summaries, options->n_summaries));
    h->dir = mf_strdup(options->dir);
    mf_buf_printf(&validation, "%s/validation", options->dir);
    h->validation = validation.data;
    return h->dir ? mf_buf_finish(&validation) : MF_NOMEM("a hook");
}

mf_status mf_hook_summary(const mf_summary_options *options, mf_hook *out)
{
    MF_ENTRY;
    MF_NEED(options, out);
    MF_NEED_ALL(options->summaries, options->n_summaries);

    summary *h;
    mf_status st;

    memset(out, 0, sizeof *out);
    if (!options->dir)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the hook needs a folder for events");
    h = mf_calloc(1, sizeof *h);
    if (!h)
        return MF_NOMEM("a hook");
    st = summary_init(h, options);
    if (st != MF_OK) {
        summary_release(h);
        return st;
    }
    *out = (mf_hook){ .ctx = h,
                      .after_create_session = summary_created,
                      .after_step = summary_after_step,
                      .after_epoch = summary_after_epoch,
                      .end = summary_end,
                      .looks = summary_looks,
                      .release = summary_release };
    if (h->summaries.n > 0 || options->gradient_steps > 0 || options->image_steps > 0) {
        out->before_run = summary_before_run; /* otherwise runs do not change */
        out->after_run = summary_after_run;
    }
    return MF_OK;
}
