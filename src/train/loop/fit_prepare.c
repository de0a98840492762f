/* SPDX-License-Identifier: Apache-2.0 */
/* fit_prepare.c - before the first step: order of the data, place in it, outputs, hooks. */
#include "base/log.h"
#include "train/loop/fit_private.h"
#include "train/loop/sample_order.h"

#include <stdio.h>
#include <string.h>

enum { TRACED = 10 }; /* default of the step that is traced: warm-up is over by then */

/* ---- hooks ---- */

static mf_status fit_prepare_read_step(mf_hook_loop *l, int64_t *step)
{
    mf_tensor value = { 0 };

    MF_TRY(mf_variable_read(mf_trainer_find(l->trainer, "global_step")->variable, &value));
    *step = ((const int64_t *)value.data)[0];
    mf_tensor_clear(&value);
    return MF_OK;
}

static mf_status fit_prepare_take_snapshot(mf_hook_loop *l, mf_snapshot **out)
{
    return mf_snapshot_take(l->trainer, out);
}

mf_status mf_fit_add_events(mf_fit_ctx *f)
{
    const mf_summary_options events = { .dir = f->o.out,
                                        .every = { .steps = f->o.summary_steps },
                                        .graph = true,
                                        .weights_by_epoch = true };

    return mf_hook_summary(&events, &f->hooks[f->loop.n_hooks++]);
}

/* The caller's hooks, and that which writes events. */
static mf_status add_hooks(mf_fit_ctx *f)
{
    f->hooks = mf_calloc(f->o.n_hooks + 1, sizeof *f->hooks);
    if (!f->hooks)
        return MF_NOMEM("hooks");
    for (int i = 0; i < f->o.n_hooks; i++)
        f->hooks[i] = f->o.hooks[i];
    f->loop = (mf_hook_loop){ .session = f->t->session,
                              .trainer = f->t,
                              .graph = f->t->model->graph,
                              .hooks = f->hooks,
                              .n_hooks = f->o.n_hooks,
                              .read_step = fit_prepare_read_step,
                              .snapshot = fit_prepare_take_snapshot };
    if (f->o.out)
        MF_TRY(mf_fit_add_events(f));
    return mf_hook_loop_init(&f->loop);
}

/* ---- where to begin ---- */

/* Has this job written there before, by this process or others? */
static bool was_here(const mf_fit_ctx *f)
{
    return mf_dist_may_recover(f->t->dist) || f->t->step > 0 || mf_job_is_restarted();
}

mf_status mf_fit_claim(mf_fit_ctx *f)
{
    mf_dist *dist = f->t->dist;
    char job[MF_JOB_ID];

    if (!f->out || f->claim)
        return MF_OK;
    mf_job_id(job);
    MF_TRY(mf_output_lock_take(
        &(mf_output_lock_options){ .dir = f->out,
                                   .job = dist && dist->job[0] ? dist->job : job,
                                   .resume = f->o.resume,
                                   .overwrite = f->o.overwrite,
                                   .again = was_here(f),
                                   .take_over = mf_dist_may_recover(dist) },
        &f->claim));
    (void)snprintf(f->t->run, sizeof f->t->run, "%s", mf_output_lock_run(f->claim));
    return MF_OK;
}

/* A job that has lost progress reports it at once, and in its result. */
static void log_start(mf_fit_ctx *f, const char *prefix)
{
    const bool lost = mf_job_is_restarted() || (f->t->dist && f->t->dist->history.trained);

    if (lost)
        f->t->progress.restarted = (prefix ? f->t->step : 0) + 1;
    if (lost && !prefix)
        MF_WARN("training restarts from step 0: no remaining task has the weights, and there is "
                "no checkpoint yet; give --out and --save-steps to lose less");
    else if (lost)
        MF_WARN("no remaining task has the weights: training continues from the checkpoint %s",
                prefix);
    else if (prefix)
        MF_INFO("training continues from the checkpoint %s", prefix);
}

static mf_status fit_prepare_restore(mf_fit_ctx *f)
{
    char *prefix = NULL;
    mf_status st = MF_OK;

    MF_TRY(mf_fit_claim(f));
    if (f->out && mf_fit_continues(f))
        st = mf_checkpoints_restore(f->out, f->t, &prefix);
    f->t->lost = st == MF_DATA_LOSS ||
                 (f->t->dist && f->t->dist->history.trained && !prefix && f->t->step > 0);
    MF_TRY(st);
    if (f->t->lost)
        return MF_FAIL(MF_DATA_LOSS,
                       "the state of the training is lost with the tasks that had it, and there "
                       "is no checkpoint; give --out and --save-steps, or more parameter servers");
    log_start(f, prefix);
    f->restored = prefix ? f->t->step : -1;
    mf_free(prefix);
    return mf_input_check_order(f->t, f->train, &f->order);
}

/* mf_dist.init_state: no worker has weights. */
static mf_status init_training_state(void *ctx)
{
    return fit_prepare_restore(ctx);
}

/* Where all workers contribute to a checkpoint, all must know when the chief makes one. */
static mf_status agree_on_saves(mf_fit_ctx *f)
{
    int64_t plan[] = { f->saves, f->o.save_steps, f->saved };
    const mf_collective c = mf_dist_collective(f->t->dist, f->t->step, "when to save");

    MF_TRY(mf_broadcast(f->t->dist->group, &c, 0, plan, sizeof plan));
    f->saves = plan[0] != 0;
    f->o.save_steps = plan[1];
    f->saved = plan[2];
    return MF_OK;
}

/* With other workers: all begin at the chief's step, or join a training in progress. */
static mf_status fit_prepare_find_place(mf_fit_ctx *f)
{
    mf_trainer *t = f->t;
    mf_dist *dist = t->dist;

    t->progress.traced = !f->o.trace ? 0 : f->o.trace_step > 0 ? f->o.trace_step : TRACED;
    if (mf_dist_may_recover(dist)) {
        MF_TRY(mf_input_check_order(t, f->train, &f->order));
        dist->init_state = init_training_state;
        dist->init_ctx = f;
        if (!dist->group)
            MF_TRY(mf_dist_rendezvous(dist, t, MF_OK));
        return mf_fit_follow_rendezvous(f);
    }
    t->has_state = mf_dist_is_chief(dist); /* the chief has the initial state */
    MF_TRY(t->has_state ? fit_prepare_restore(f) : mf_input_check_order(t, f->train, &f->order));
    return dist ? mf_dist_align_state(dist, t) : MF_OK;
}

static void set_order(mf_fit_ctx *f, bool leased)
{
    const int64_t batch = f->o.batch > 0 ? f->o.batch : 32, count = mf_dataset_count(f->train);

    f->order =
        (mf_iterator_options){ .batch = batch,
                               .in_order = f->o.in_order,
                               .slice = leased && f->o.slice == MF_SLICE_FILE ? MF_SLICE_FILE_BATCH
                                                                              : f->o.slice,
                               .seed = f->t->options.seed,
                               .shards = f->t->options.shards,
                               .n_shards = f->t->options.shards };
    f->per_epoch = count / batch + (count % batch != 0);
    f->batch = batch < count ? batch : count;
}

static mf_status open_outputs(mf_fit_ctx *f, bool leased)
{
    const mf_output_dir_data data = { f->train, &f->order, f->per_epoch, leased };

    if (!mf_dist_is_chief(f->t->dist))
        f->o.out = NULL; /* only the chief writes */
    f->saves = f->o.out != NULL;
    f->saved = f->restored; /* state received from other workers may be on no disk yet */
    f->written = f->restored;
    if (mf_dist_has_aux_state(f->t->dist))
        MF_TRY(agree_on_saves(f));
    if (!f->o.out)
        return MF_OK;
    MF_TRY(mf_fit_claim(f));
    return mf_output_dir_open(&f->dir, f->o.out, f->o.keep, f->t, &data,
                              f->t->step > 0 && mf_fit_continues(f));
}

mf_status mf_fit_prepare(mf_fit_ctx *f)
{
    mf_dist *dist = f->t->dist;
    const bool leased = mf_dist_leases_batches(dist); /* then the next batches are not known */
    const int64_t epochs = f->o.epochs > 0 ? f->o.epochs : 1;
    mf_needed needed[MF_NEEDED] = { { 0 } };
    int n;

    if (mf_dataset_count(f->train) == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the data set to train on is empty");
    set_order(f, leased);
    f->total = f->o.steps > 0 ? f->o.steps : epochs * f->per_epoch;
    f->t->schedule.total = f->total;
    f->out = f->o.out;
    MF_TRY(fit_prepare_find_place(f));
    if (dist) {
        if (!mf_dist_may_recover(dist) ||
            leased) /* tasks that join later do not know the locality of others */
            MF_TRY(mf_input_take_near(f->t, f->train, &f->order, f->o.near));
        f->order.shards = dist->shards.total;
        f->order.first_shard = dist->shards.first;
        f->order.n_shards = dist->shards.n;
        f->order.part_first = dist->shards.part_first;
        f->order.part_n = dist->shards.part_n;
    }
    f->followed = f->reported_step = f->reported_epoch = f->t->step;
    f->progress = -1;
    MF_TRY(open_outputs(f, leased));
    MF_TRY(add_hooks(f));
    mf_input_autotune_init(&f->feeding, f->t,
                           leased && f->o.input_threads == 0 ? 1 : f->o.input_threads);
    f->order.threads = f->feeding.input;
    MF_TRY(mf_replica_check_init(&f->agreement, f->t, f->o.check_steps));
    MF_TRY(mf_fit_find_rows(f, needed, &n));
    MF_TRY(mf_iterator_new_needed(f->train, &f->order, needed, n, &f->it));
    return mf_iterator_seek(f->it, f->t->epoch, f->t->first);
}
