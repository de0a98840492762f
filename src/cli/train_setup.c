/* SPDX-License-Identifier: Apache-2.0 */
/* train_setup.c - before the first step of `meshflow train`: data, strategy, model, weights. */
#include "base/log.h"
#include "cli/cluster_options.h"
#include "cli/job_data.h"
#include "cli/mesh_options.h"
#include "cli/train_run.h"
#include "dist/strategies.h"

#include <string.h>

/* Only training images are augmented. If they were normalised, test, predict and serve would read
 * values of another type and range. */
static mf_status check_types_are_kept(const mf_dataset *before, const mf_dataset *after)
{
    const mf_column *from, *to;
    const int n = mf_dataset_columns(before, &from);

    (void)mf_dataset_columns(after, &to);
    for (int i = 0; i < n; i++) {
        if (from[i].dtype != to[i].dtype)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "--augment: mean and std would change '%s' of the training data from %s "
                           "to %s, but not of the test data; remove them: models scale bytes "
                           "themselves",
                           from[i].name, mf_dtype_name(from[i].dtype), mf_dtype_name(to[i].dtype));
    }
    return MF_OK;
}

static mf_status change_data(mf_job *job, mf_args *args)
{
    const char *augment = mf_args_value(args, "augment");
    mf_dataset *part;
    mf_status st;

    MF_TRY(mf_job_cache(job, args));
    MF_TRY(mf_job_split_validation(job, args));
    if (!augment)
        return MF_OK;
    MF_TRY(mf_dataset_augment(job->train, augment, job->compile.seed, &part));
    st = check_types_are_kept(job->train, part);
    mf_dataset_unref(job->train);
    job->train = part;
    return st;
}

static mf_status change_weights(mf_job *job, mf_args *args)
{
    const char *from = mf_args_value(args, "init");
    int64_t loaded;

    if (!from)
        return MF_OK;
    MF_TRY(mf_trainer_load_weights(job->trainer, from, &loaded));
    if (loaded < job->model->n_weights) /* fine-tuning, or the wrong checkpoint */
        MF_WARN("--init %s has %lld of the model's %lld weights with the same name and shape; the "
                "others are initialised",
                from, (long long)loaded, (long long)job->model->n_weights);
    return MF_OK;
}

/* A batch larger than the data would be shortened silently. */
static mf_status check_batch(const mf_job *job, mf_args *args, int64_t batch)
{
    const int64_t samples = mf_dataset_count(job->train);

    if (!mf_args_has(args, "batch") || batch <= samples)
        return MF_OK;
    return mf_args_wrong(args, "--batch %lld is more than the %lld samples to train on",
                         (long long)batch, (long long)samples);
}

/* --auto chooses a mesh, so it counts as --mesh. */
static mf_status check_one_strategy(mf_args *args)
{
    const bool mesh = mf_args_has(args, "mesh") || mf_args_has(args, "auto");

    if (mf_args_has(args, "strategy") + mf_args_has(args, "target") + mesh > 1)
        return mf_args_wrong(args, "--target runs steps on servers, --mesh and --auto on the "
                                   "devices of a mesh, and --strategy selects another way: give "
                                   "only one of them");
    return MF_OK;
}

/* Options of a mesh whose layout may still be chosen by --auto are checked when it is known. */
static mf_status train_setup_check_pipeline(mf_args *args)
{
    const char *mesh = mf_args_value(args, "mesh"), *layout = mf_args_value(args, "layout"),
               *pipeline = mf_args_value(args, "pipeline");

    if (mf_args_has(args, "chunks") && (!pipeline || strcmp(pipeline, "interleaved") != 0))
        return mf_args_wrong(args, "--chunks needs --pipeline interleaved");
    if (mf_args_has(args, "auto"))
        return MF_OK;
    if (!mesh && (pipeline || mf_args_has(args, "explain")))
        return mf_args_wrong(args, "--pipeline and --explain need --mesh: \"rows:2;cols:2\"");
    if (mesh && !strchr(mesh, '|') && !(layout && strstr(layout, "layers:")) &&
        (pipeline || mf_args_has(args, "stages")))
        return mf_args_wrong(args, "--pipeline and --stages need a pipeline: --layout "
                                   "\"layers:AXIS\", or several meshes in --mesh");
    if (mf_args_has(args, "devices") || mf_args_has(args, "memory"))
        return mf_args_wrong(args, "--devices and --memory need --auto");
    return MF_OK;
}

/* Settings of the training that this strategy does not support. */
static mf_status train_setup_check_settings(const mf_train_run *run, mf_args *args)
{
    const char *strategy = mf_args_value(args, "strategy");
    mf_strategy_settings s = { 0 };

    if (mf_args_has(args, "target") && mf_args_has(args, "prune"))
        return mf_args_wrong(args, "--prune needs an op that the servers of --target do not have: "
                                   "train without --target, or prune the trained model with "
                                   "`meshflow compress`");
    if (strategy)
        MF_TRY(mf_strategy_parse(strategy, run->job->arena, &s));
    if (run->converged.ctx && s.kind && strcmp(s.kind->name, "local_sgd") == 0 &&
        s.local_sgd.slots == MF_SLOTS_KEEP)
        return mf_args_wrong(args, "--stop and --converged-after cannot be used with slots=keep: "
                                   "a group that keeps its slots cannot be given to other workers "
                                   "when it has converged; use slots=average or slots=reset");
    return MF_OK;
}

static mf_status check_options(const mf_train_run *run, mf_args *args)
{
    MF_TRY(check_one_strategy(args));
    MF_TRY(train_setup_check_pipeline(args));
    return train_setup_check_settings(run, args);
}

/* The strategy of --strategy, --target, --mesh or --auto; out->kind is NULL without any of them. */
static mf_status read_strategy(const mf_train_run *run, mf_args *args, mf_strategy_settings *out)
{
    const char *strategy = mf_args_value(args, "strategy"), *target = mf_args_value(args, "target");
    const mf_mesh_spec *chosen = run->chosen.mesh.data ? &run->chosen.spec : NULL;

    MF_TRY(mf_mesh_options_read(args, chosen, run->job->arena, out));
    if (target)
        mf_strategy_of_target(target, out);
    return strategy ? mf_strategy_parse(strategy, run->job->arena, out) : MF_OK;
}

static mf_status open_strategy(mf_train_run *run, mf_args *args)
{
    mf_job *job = run->job;
    mf_strategy_options o;
    mf_strategy_settings settings;
    mf_buf identity = { 0 }, name = { 0 };
    mf_status st;

    MF_TRY(mf_connect_options_read(args, &o));
    MF_TRY(read_strategy(run, args, &settings));
    st = mf_job_in_common("train", args, mf_dataset_count(job->train), &identity);
    o.identity = identity.data;
    o.codec = mf_args_value(args, "codec");
    mf_job_name(job, args, &name);
    o.job = name.data;
    if (st == MF_OK)
        st = mf_strategy_open_with(settings.kind ? &settings : NULL, &o, &job->strategy);
    mf_buf_deinit(&identity);
    mf_buf_deinit(&name);
    job->compile.strategy = job->strategy;
    return st;
}

/* With --auto the planner chooses the mesh first. */
static mf_status plan_and_open(mf_train_run *run, mf_args *args, int64_t batch)
{
    mf_job *job = run->job;

    if (mf_args_has(args, "auto")) {
        run->replan.call.job = job;
        run->replan.call.args = args;
        run->replan.call.batch = batch;
        run->replan.chosen = &run->chosen;
        MF_TRY(run->replan.call.workers > 1 ? mf_planning_start(&run->replan.call, &run->chosen)
                                            : mf_planning_choose(&run->replan.call, &run->chosen));
        if (run->chosen.micro_batches > 0)
            job->compile.micro_batches = run->chosen.micro_batches;
    }
    MF_TRY(open_strategy(run, args));
    if (run->replan.chosen && run->replan.call.workers > 1) {
        run->chosen.micro_batches = job->compile.micro_batches;
        MF_TRY(mf_replan_together(&run->replan));
    }
    return MF_OK;
}

mf_status mf_train_prepare(mf_train_run *run, mf_args *args, int64_t batch)
{
    mf_job *job = run->job;

    MF_TRY(check_options(run, args));
    MF_TRY(change_data(job, args));
    MF_TRY(check_batch(job, args, batch));
    MF_TRY(mf_job_freeze(args, job->model));
    MF_TRY(plan_and_open(run, args, batch));
    MF_TRY(mf_job_compile(job, args));
    return change_weights(job, args);
}
