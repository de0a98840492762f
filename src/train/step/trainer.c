/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - mf_model_compile(): a step graph, a session, initial weights. */
#include "train/step/trainer.h"

#include "base/host_state.h"
#include "train/loop/dist.h"
#include "train/loop/loop.h"
#include "train/step/global_loss.h"
#include "train/step/offload.h"
#include "train/step/precision.h"

#include <string.h>

/* ---- names of a run ---- */

static const char *output_name(mf_trainer *t, mf_output o)
{
    return mf_arena_printf(t->arena, "%s:%d", mf_node_name(o.node), o.port);
}

static mf_status names_init(mf_trainer *t, mf_names *n, const mf_output *feeds, int n_feeds,
                            const mf_output *fetches, int n_fetches)
{
    n->feeds = MF_ARENA_ARRAY(t->arena, const char *, n_feeds);
    n->values = MF_ARENA_ARRAY(t->arena, const mf_tensor *, n_feeds);
    n->fetches = MF_ARENA_ARRAY(t->arena, const char *, n_fetches);
    n->results = MF_ARENA_ARRAY(t->arena, mf_tensor *, n_fetches);
    n->n_feeds = n_feeds;
    n->n_fetches = n_fetches;
    if (!n->feeds || !n->values || !n->fetches || !n->results)
        return MF_NOMEM("a trainer");
    for (int i = 0; i < n_feeds; i++) {
        n->feeds[i] = output_name(t, feeds[i]);
        if (!n->feeds[i])
            return MF_NOMEM("a trainer");
    }
    for (int i = 0; i < n_fetches; i++) {
        n->fetches[i] = output_name(t, fetches[i]);
        if (!n->fetches[i])
            return MF_NOMEM("a trainer");
    }
    return MF_OK;
}

mf_status mf_names_copy(const mf_names *names, mf_names *out)
{
    *out = *names;
    out->values = mf_calloc(names->n_feeds, sizeof *out->values);
    out->results = mf_calloc(names->n_fetches, sizeof *out->results);
    if (out->values && out->results)
        return MF_OK;
    mf_names_copy_deinit(out);
    return MF_NOMEM("a run");
}

void mf_names_copy_deinit(mf_names *n)
{
    for (int i = 0; n->results && i < n->n_fetches; i++)
        mf_tensor_free(n->results[i]);
    mf_free(n->results);
    mf_free(n->values);
    *n = (mf_names){ 0 };
}

static void trainer_names_deinit(mf_names *n)
{
    for (int i = 0; n->results && i < n->n_fetches; i++)
        mf_tensor_free(n->results[i]);
}

/* Columns first, then the label: the order of mf_feed_batch(). */
static mf_status name_runs(mf_trainer *t)
{
    const mf_step_graph *s = &t->graph;
    const int n_in = (int)t->model->n_inputs;
    mf_output *feeds = MF_ARENA_ARRAY(t->arena, mf_output, n_in + 4);
    mf_output batch[MF_MAX_RESULTS], step[MF_MAX_RESULTS];

    if (!feeds)
        return MF_NOMEM("a trainer");
    for (int i = 0; i < n_in; i++)
        feeds[i] = t->model->inputs[i];
    feeds[n_in] = s->label;
    feeds[n_in + 1] = t->model->clock;
    feeds[n_in + 2] = s->learning_rate;
    feeds[n_in + 3] = s->inverse;
    for (int i = 0; i < s->n_reports; i++) {
        batch[i] = s->reports[i].of_batch;
        step[i] = s->reports[i].of_step;
    }
    MF_TRY(names_init(t, &t->step_names, feeds, n_in + 4, step, s->n_reports));
    MF_TRY(names_init(t, &t->eval_names, feeds, n_in + 1, batch, s->n_reports));
    return names_init(t, &t->predict_names, feeds, n_in, &t->model->output, 1);
}

/* ---- variables ---- */

static mf_status trainer_add_variable(mf_trainer *t, const char *name, mf_dtype dtype,
                                      const mf_shape *shape, bool is_weight)
{
    mf_variable_spec spec = { .dtype = dtype, .declared = shape, .name = name };
    mf_object *object;

    MF_TRY(mf_resources_get(t->resources, "", name, &mf_variable_type, mf_variable_make, &spec,
                            &object));
    t->trained[t->n_trained++] = (mf_train_var){ name, (mf_variable *)object, is_weight };
    return MF_OK;
}

static mf_status trainer_list_variables(mf_trainer *t)
{
    const mf_updates *u = &t->graph.updates;

    t->trained = MF_ARENA_ARRAY(t->arena, mf_train_var, t->model->n_weights + u->n_states + 1);
    if (!t->trained)
        return MF_NOMEM("a trainer");
    for (int64_t i = 0; i < t->model->n_weights; i++) {
        const mf_weight *w = t->model->weights[i];

        MF_TRY(trainer_add_variable(t, w->name, w->dtype, &w->shape, true));
    }
    for (int64_t i = 0; i < u->n_states; i++)
        MF_TRY(trainer_add_variable(t, u->states[i].name, u->states[i].dtype, &u->states[i].shape,
                                    false));
    return trainer_add_variable(t, "global_step", MF_DTYPE_I64, &MF_SCALAR, false);
}

mf_train_var *mf_trainer_find(const mf_trainer *t, const char *name)
{
    for (int64_t i = 0; i < t->n_trained; i++) {
        if (strcmp(t->trained[i].name, name) == 0)
            return &t->trained[i];
    }
    return NULL;
}

bool mf_trainer_has_variables(const mf_trainer *t)
{
    for (int64_t i = 0; i < t->n_trained; i++) {
        if (!mf_variable_is_initialized(t->trained[i].variable))
            return false;
    }
    return true;
}

mf_status mf_trainer_read(const mf_trainer *t, const mf_train_var *v, mf_tensor *out)
{
    if (mf_dist_can(t->dist, MF_DIST_STATE_IN_SLICES) && !mf_variable_is_initialized(v->variable))
        return MF_FAIL(
            MF_FAILED_PRECONDITION,
            "%s is in slices on the mesh while steps run; a hook that reads variables must "
            "request them before the step (mf_hook.looks)",
            v->name);
    return mf_variable_read(v->variable, out);
}

bool mf_train_var_is_slot(const mf_train_var *v)
{
    static const char average[] = "/ExponentialMovingAverage", scale[] = "loss_scale";
    const size_t n = strlen(v->name), tail = sizeof average - 1;

    return !v->is_weight && strcmp(v->name, "global_step") != 0 && !mf_guard_is_count(v->name) &&
           strncmp(v->name, scale, sizeof scale - 1) != 0 &&
           !(n > tail && strcmp(v->name + n - tail, average) == 0);
}

/* By a session that goes again: its program has constants as large as the slots. */
static mf_status trainer_initialise(mf_trainer *t)
{
    const mf_session_options options = { .disable = t->options.disable };
    const char *feed = "seed:0", *target = mf_node_name(t->graph.init);
    mf_session *once = NULL;
    mf_tensor seed = { 0 };
    const mf_tensor *value = &seed;
    mf_status st;

    MF_TRY(mf_tensor_alloc(&seed, MF_DTYPE_I64, &MF_SCALAR));
    ((int64_t *)seed.data)[0] = (int64_t)t->options.seed;
    st = mf_session_new_shared(t->model->graph, &options,
                               &(mf_session_shared){ t->pool, t->resources, NULL }, &once);
    if (st == MF_OK)
        st = mf_session_run(once, NULL, &feed, &value, 1, NULL, 0, &target, 1, NULL);
    mf_session_free(once);
    mf_tensor_clear(&seed);
    return st;
}

/* ---- compile ---- */

/* Twice would add a second step to the same graph. */
static mf_status check_model(mf_model *m)
{
    MF_TRY(mf_model_status(m));
    if (m->compiled)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "the model has been compiled already, with or without success; a model is "
                       "compiled once: make a new one for another trainer");
    if (!m->output.node)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "the model has no output: call mf_model_output() before mf_model_compile()");
    return MF_OK;
}

static mf_status trainer_start(mf_trainer *t)
{
    const mf_session_options session = { .disable = t->options.disable };
    double rate = t->options.learning_rate;
    mf_precision precision;

    MF_TRY(mf_precision_parse(t->options.precision, t->arena, &precision));
    t->stored = precision.stored;
    t->bf16 = precision.compute == MF_DTYPE_BF16;
    MF_TRY(mf_step_graph_init(&t->graph, t->model, &t->options,
                              mf_dist_can(t->dist, MF_DIST_PULLS_WEIGHTS) ? MF_STEP_PULLS
                                                                          : MF_STEP_UPDATES));
    MF_TRY(mf_step_check_together(&t->graph, mf_dist_can(t->dist, MF_DIST_OWN_BATCHES)));
    if (mf_dist_can(t->dist, MF_DIST_OWN_BATCHES) && t->graph.guard.kind == MF_GUARD_SKIP)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "guard skip needs workers that have the sums of all gradients; use guard "
                       "stop, or another strategy");
    if (mf_dist_can(t->dist, MF_DIST_OWN_BATCHES) && t->options.prune)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "workers that average their variables would prune different weights, and "
                       "the means of those are not zero; prune with another strategy");
    MF_TRY(mf_offload_check(t));
    if (rate == 0.0)
        rate = mf_options_float(&t->graph.updates.o, "learning_rate");
    MF_TRY(mf_schedule_parse(t->options.schedule, rate, t->arena, &t->schedule));
    MF_TRY(mf_resources_new(&t->resources));
    MF_TRY(mf_pool_new(t->options.threads, &t->pool));
    MF_TRY(mf_session_new_shared(t->model->graph, &session,
                                 &(mf_session_shared){ t->pool, t->resources, NULL }, &t->session));
    MF_TRY(name_runs(t));
    MF_TRY(trainer_list_variables(t));
    MF_TRY(trainer_initialise(t));
    MF_TRY(mf_offload_slots(t));
    return t->dist ? t->dist->ops.lifecycle->join(t->dist, t) : MF_OK;
}

/* Copies: the caller's texts may be freed when a parameter server, for example, reads them again.
 */
static mf_status keep_options(mf_trainer *t, const mf_compile_options *options)
{
    mf_compile_options *o = &t->options;
    const char **texts[] = { &o->optimizer, &o->loss,  &o->metrics,   &o->label,
                             &o->schedule,  &o->clip,  &o->precision, &o->recompute,
                             &o->disable,   &o->prune, &o->guard };

    *o = *options;
    if (o->strategy)
        mf_strategy_ref(o->strategy);
    for (int i = 0; i < MF_COUNT(texts); i++) {
        if (!*texts[i])
            continue;
        *texts[i] = mf_arena_strdup(t->arena, *texts[i]);
        if (!*texts[i])
            return MF_NOMEM("settings");
    }
    return MF_OK;
}

/* Before the graph changes: the model can still be compiled with other options. */
static mf_status check_numbers(const mf_compile_options *o)
{
    if (o->shards < 0 || o->micro_batches < 0 || o->threads < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "mf_model_compile(): shards %d, micro_batches %d, threads %d: none may be "
                       "negative",
                       o->shards, o->micro_batches, o->threads);
    if (!(o->learning_rate >= 0.0 && o->learning_rate <= 1e38))
        return MF_FAIL(MF_INVALID_ARGUMENT, "learning_rate is %g; it must be from 0 to 1e38",
                       o->learning_rate);
    return MF_OK;
}

mf_status mf_model_compile(mf_model *model, const mf_compile_options *options, mf_trainer **out)
{
    MF_ENTRY;
    MF_NEED(model, out);

    const int64_t nodes = model->graph->n_nodes;
    mf_trainer *t = mf_calloc(1, sizeof *t);
    mf_status st;

    *out = NULL;
    if (!t)
        return MF_NOMEM("a trainer");
    mf_trainer_lock_init(&t->turns);
    t->model = model;
    mf_model_ref(model);
    t->arena = model->graph->arena;
    st = check_model(model);
    if (st == MF_OK && options)
        st = check_numbers(options);
    if (st == MF_OK && options)
        st = keep_options(t, options);
    t->dist = t->options.strategy ? t->options.strategy->dist : NULL;
    if (t->options.shards == 0)
        t->options.shards = MF_DEFAULT_SHARDS;
    if (st == MF_OK)
        st = trainer_start(t);
    model->compiled |= model->graph->n_nodes != nodes;
    if (st != MF_OK)
        mf_trainer_free(t);
    else
        *out = t;
    return st;
}

void mf_trainer_free(mf_trainer *t)
{
    MF_ENTRY_OR();

    if (!t)
        return;
    trainer_names_deinit(&t->step_names);
    trainer_names_deinit(&t->eval_names);
    trainer_names_deinit(&t->predict_names);
    for (int64_t i = 0; i < t->n_trained; i++)
        mf_object_unref(&t->trained[i].variable->object);
    mf_session_free(t->session);
    if (MF_DIST_HAS(t->dist, lifecycle, leave))
        t->dist->ops.lifecycle->leave(t->dist, t);
    mf_tensor_clear(&t->judged);
    mf_pool_free(t->pool);
    mf_resources_free(t->resources);
    mf_step_graph_deinit(&t->graph);
    mf_trainer_lock_deinit(&t->turns);
    if (t->options.strategy)
        mf_strategy_unref(t->options.strategy);
    mf_model_free(t->model);
    mf_free(t);
}

mf_status mf_trainer_need_no_fit(mf_trainer *t)
{
    if (atomic_load(&t->fitting) && !mf_trainer_lock_is_mine(&t->turns))
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "mf_fit() of this trainer runs in another thread; wait until it has ended");
    return MF_OK;
}

mf_session *mf_trainer_session(mf_trainer *t)
{
    return t ? t->session : NULL;
}

int64_t mf_trainer_step(const mf_trainer *t)
{
    return t ? t->step : 0;
}

void mf_trainer_stop(mf_trainer *t)
{
    if (!t)
        return;

    atomic_store(&t->stop, true);
}

bool mf_trainer_wants_stop(const mf_trainer *t)
{
    const mf_strategy *s = t->options.strategy;

    return atomic_load(&t->stop) || (s && atomic_load(&s->stop));
}

void mf_trainer_memory(const mf_trainer *t, mf_step_memory *out)
{
    MF_ENTRY_OR();
    if (!t || !out)
        return;

    const mf_mem_account_run most = mf_mem_account_largest(mf_resources_account(t->resources));

    *out = (mf_step_memory){ .step = most.bytes, .planned = most.planned };
    for (int64_t i = 0; i < t->n_trained; i++) {
        mf_tensor value = { 0 };

        if (mf_variable_is_initialized(t->trained[i].variable) &&
            mf_variable_read(t->trained[i].variable, &value) == MF_OK)
            out->variables += value.count * (int64_t)mf_dtype_cell(value.dtype);
        mf_tensor_clear(&value);
    }
}
