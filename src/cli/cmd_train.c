/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_train.c - `meshflow train`: data, model, compile, fit, test. */
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cluster_options.h"
#include "cli/job.h"
#include "cli/job_data.h"
#include "cli/mesh_options.h"
#include "cli/mesh_timeline.h"
#include "cli/progress.h"
#include "cli/replan.h"
#include "cli/resume.h"
#include "cli/shares.h"
#include "cli/train_options.h"
#include "dist/strategies.h"
#include "graph/op.h"
#include "observe/status_page.h"
#include "supervisor/supervisor.h"
#include "train/loop/dist.h"
#include "train/loop/guard.h"
#include "train/step/trainer.h"

#include <meshflow/mesh.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* What is measured of a training. */
typedef struct measured {
    mf_job *job;
    int64_t first_step_ns; /* since the process began, at the end of the first step */
    int64_t steps, samples; /* without the first step */
    int64_t begin_ns; /* of the second step */
    int64_t last_ns;
    double loss; /* of the last step */
    bool loss_known; /* there was one */
    int64_t total; /* steps that were asked for */
    const char *out; /* the output directory; NULL: none */
    const mf_args *args;
    bool failed;
    bool works; /* data, model and settings are good: what fails now fails at work */
    mf_chosen chosen; /* by --auto */
    mf_replan replan; /* and looked at; all zero without it */
    mf_buf told; /* of it, at the end */
    mf_result validation[MF_MAX_RESULTS]; /* in the end */
    int n_validation;
    mf_hook converged; /* empty: training ends with the last step */
} measured;

/* The output directory is ours by now. */
static mf_status note_model(void *ctx, mf_trainer *t)
{
    const measured *m = ctx;
    mf_model_note note;

    (void)t;
    if (!m->out || !mf_strategy_is_chief(m->job->strategy))
        return MF_OK;
    mf_job_note(m->job, m->args, &note);
    MF_TRY(mf_resume_note(m->job, m->args, &note));
    return mf_model_note_write(m->out, &note);
}

static mf_status cmd_train_count_step(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    measured *m = ctx;
    const int64_t now = mf_clock_ns();

    (void)t;
    m->loss = report->results[0].value;
    m->loss_known = true;
    m->last_ns = now;
    if (m->first_step_ns == 0) {
        m->first_step_ns = mf_clock_since_start_ns();
        m->begin_ns = now;
        return MF_OK;
    }
    m->steps++;
    m->samples += report->samples;
    return MF_OK;
}

/* ---- stopping ---- */

static mf_trainer *volatile to_stop; /* what a signal stops; the program trains one at a time */
static mf_strategy *volatile to_leave; /* and SIGTERM leaves; NULL: nobody else */

static void cmd_train_on_signal(int signal_number)
{
    if (signal_number == SIGTERM && to_leave)
        mf_strategy_leave(to_leave);
    else if (to_stop)
        mf_trainer_stop(to_stop);
}

/* Nothing is under way that could be stopped in order. */
static void leave_at_once(int signal_number)
{
    (void)signal_number;
    _exit(MF_EXIT_STOPPED);
}

/* The next one does nothing, and the one after that ends us. */
static void forget_signals(void)
{
    to_stop = NULL;
    to_leave = NULL;
}

static void stop_on_signals(mf_trainer *t, mf_strategy *strategy)
{
    struct sigaction action = { .sa_handler = cmd_train_on_signal, .sa_flags = (int)SA_RESETHAND };

    to_stop = t;
    to_leave = strategy;
    sigemptyset(&action.sa_mask);
    if (!t)
        action.sa_handler = leave_at_once;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

/* ---- settings ---- */

/* Only training images are augmented. Normalised ones would be floats of another range than those
 * of the test, of predict and of serve. */
static mf_status check_types_are_kept(const mf_dataset *before, const mf_dataset *after)
{
    const mf_column *from, *to;
    const int n = mf_dataset_columns(before, &from);

    (void)mf_dataset_columns(after, &to);
    for (int i = 0; i < n; i++) {
        if (from[i].dtype != to[i].dtype)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "--augment: mean and std would change '%s' of the training data from %s "
                           "to %s, and the test data would stay as it is; leave them out: the "
                           "models scale bytes themselves",
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
    if (loaded < job->model->n_weights) /* as fine-tuning wants it; or a checkpoint by mistake */
        MF_WARN("--init %s has %lld of the model's %lld weights under the same name and shape; the "
                "others begin anew",
                from, (long long)loaded, (long long)job->model->n_weights);
    return MF_OK;
}

/* ---- the end ---- */

static double cmd_train_seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

/* Of this worker; all have about as much. */
static void print_traffic(const mf_strategy *strategy, mf_buf *out)
{
    mf_traffic t;

    mf_strategy_traffic(strategy, &t);
    if (t.bytes > 0)
        mf_buf_printf(out, ",\"sent_bytes\":%lld,\"sent_bytes_without_codec\":%lld",
                      (long long)t.bytes, (long long)t.plain_bytes);
    if (t.pushed_bytes > 0)
        mf_buf_printf(out, ",\"pushed_bytes\":%lld,\"pulled_bytes\":%lld",
                      (long long)t.pushed_bytes, (long long)t.pulled_bytes);
    if (t.updates[1] > 0)
        mf_buf_printf(out, ",\"updates\":[%lld,%lld],\"late_pushes\":%lld", (long long)t.updates[0],
                      (long long)t.updates[1], (long long)t.late_pushes);
    if (t.updates[1] > 0 && t.staleness >= 0)
        mf_buf_printf(out, ",\"staleness\":%lld", (long long)t.staleness);
    if (t.batches[1] > 0)
        mf_buf_printf(out, ",\"batches\":[%lld,%lld]", (long long)t.batches[0],
                      (long long)t.batches[1]);
}

/* Where steps run here. */
static void print_memory(const mf_trainer *trainer, mf_buf *out)
{
    mf_step_memory m;

    mf_trainer_memory(trainer, &m);
    if (m.step > 0)
        mf_buf_printf(out,
                      ",\"memory\":{\"variable_bytes\":%lld,\"step_bytes\":%lld,"
                      "\"planned_step_bytes\":%lld}",
                      (long long)m.variables, (long long)m.step, (long long)m.planned);
}

/* Of every worker of a mesh. */
static void print_mesh_workers(const mf_strategy *strategy, mf_buf *out)
{
    mf_mesh_worker *w;
    const int n = mf_strategy_mesh_workers(strategy, NULL, 0);

    if (n == 0 || !(w = mf_calloc(n, sizeof *w)))
        return;
    (void)mf_strategy_mesh_workers(strategy, w, n);
    for (int i = 0; i < n; i++)
        mf_buf_printf(out, "%s{\"samples\":%lld,\"samples_read\":%lld,\"whole_bytes\":%lld}",
                      i ? "," : ",\"processes\":[", (long long)w[i].samples,
                      (long long)w[i].samples_read, (long long)w[i].whole_bytes);
    mf_buf_str(out, "]");
    mf_free(w);
}

/* Of every processor of a mesh. */
static void print_mesh(const mf_strategy *strategy, mf_buf *out)
{
    mf_mesh_counts *c;
    const int n = mf_strategy_mesh_counts(strategy, NULL, 0);

    if (n == 0 || !(c = mf_calloc(n, sizeof *c)))
        return;
    (void)mf_strategy_mesh_counts(strategy, c, n);
    for (int i = 0; i < n; i++)
        mf_buf_printf(out,
                      "%s{\"variable_bytes\":%lld,\"sent_bytes\":%lld,\"received_bytes\":%lld,"
                      "\"planned_bytes\":%lld,\"collectives\":%lld,\"step_bytes\":%lld,"
                      "\"planned_step_bytes\":%lld,\"run_ns\":%lld,\"busy_ns\":%lld}",
                      i ? "," : ",\"processors\":[", (long long)c[i].variable_bytes,
                      (long long)c[i].sent_bytes, (long long)c[i].received_bytes,
                      (long long)c[i].planned_bytes, (long long)c[i].collectives,
                      (long long)c[i].step_bytes, (long long)c[i].planned_step_bytes,
                      (long long)c[i].run_ns, (long long)c[i].busy_ns);
    mf_buf_str(out, "]");
    mf_free(c);
    print_mesh_workers(strategy, out);
}

static void add_cost(void *ctx, const mf_mesh_cost *c)
{
    mf_buf_printf(ctx, "%-40s %6lld %14.0f %14lld %14lld\n", c->op, (long long)c->nodes, c->work,
                  (long long)c->made_bytes, (long long)c->received_bytes);
}

/* What a step costs a processor. */
static mf_status cmd_train_explain(const mf_strategy *strategy)
{
    mf_buf out = { 0 };

    mf_buf_printf(&out, "%-40s %6s %14s %14s %14s\n", "a step on a processor", "nodes", "work",
                  "bytes made", "bytes received");
    MF_TRY(mf_strategy_mesh_costs(strategy, add_cost, &out));
    MF_TRY(mf_timeline_print(strategy, &out));
    return mf_cli_print(&out);
}

/* Of --auto: what was chosen, and how good the prediction was. */
static double step_seconds(const measured *m)
{
    return m->steps > 0 ? cmd_train_seconds(m->last_ns - m->begin_ns) / (double)m->steps : 0.0;
}

static void print_chosen(const measured *m, mf_buf *out)
{
    if (m->chosen.mesh.data)
        mf_buf_printf(out,
                      ",\"mesh\":\"%s\",\"layout\":\"%s\",\"micro_batches\":%d,"
                      "\"predicted_step_seconds\":%.6g,\"measured_step_seconds\":%.6g,"
                      "\"replanned\":%d",
                      m->chosen.mesh.data, m->chosen.layout.data,
                      m->chosen.micro_batches > 1 ? m->chosen.micro_batches : 1,
                      m->chosen.is.step_ns * 1e-9, step_seconds(m), m->replan.times);
}

/* The same for people. */
static mf_status cmd_train_write_chosen(measured *m, const char **out)
{
    if (!m->chosen.mesh.data || m->steps == 0)
        return MF_OK;
    mf_buf_printf(&m->told, "mesh '%s', layout '%s': a step took %.3f ms, %.3f were predicted",
                  m->chosen.mesh.data, m->chosen.layout.data, step_seconds(m) * 1e3,
                  m->chosen.is.step_ns * 1e-6);
    MF_TRY(mf_buf_finish(&m->told));
    *out = m->told.data;
    return MF_OK;
}

static void put_result(const char *name, double value, mf_buf *out)
{
    mf_buf_printf(out, ",\"%s\":", name);
    mf_buf_json_number(out, value);
}

static void print_validation(const measured *m, mf_buf *out)
{
    for (int i = 0; i < m->n_validation; i++) {
        mf_buf_printf(out, "%s\"%s\":", i > 0 ? "," : ",\"validation\":{", m->validation[i].name);
        mf_buf_json_number(out, m->validation[i].value);
    }
    mf_buf_str(out, m->n_validation > 0 ? "}" : "");
}

/* "converged", "diverged", with a sentence; NULL: nobody says so, or was asked. */
static const char *decided(const measured *m, const char **why)
{
    const char *sentence, *state;

    if (!m->converged.ctx)
        return NULL;
    state = mf_hook_converged_state(&m->converged, &sentence);
    if (strcmp(state, "converged") != 0 && strcmp(state, "diverged") != 0)
        return NULL;
    *why = sentence;
    return state;
}

/* Was it stopped before it was done? */
static bool cmd_train_was_stopped(const measured *m)
{
    const mf_trainer *t = m->job->trainer;
    const char *why;

    if (decided(m, &why))
        return false;
    return mf_dist_leases_batches(t->dist) ? t->progress.stop != 0 : t->step < m->total;
}

/* What training has ended by. */
static void cmd_train_put_end(const measured *m, mf_buf *out)
{
    const char *why = "", *state = decided(m, &why);

    mf_buf_printf(out, ",\"ended\":\"%s\"",
                  m->failed                  ? "failed"
                  : state                    ? state
                  : cmd_train_was_stopped(m) ? "stopped"
                                             : "steps");
    if (state) {
        mf_buf_str(out, ",\"ended_because\":");
        mf_buf_json(out, why, strlen(why));
    }
}

static mf_status cmd_train_print_json(const measured *m, const mf_result *test, int n_test)
{
    struct rusage usage;
    char sha[65];
    mf_buf out = { 0 };
    const double time = cmd_train_seconds(m->last_ns - m->begin_ns);
    int64_t used[MF_USES];

    MF_TRY(mf_trainer_sha256(m->job->trainer, sha));
    (void)getrusage(RUSAGE_SELF, &usage);
    mf_buf_str(&out, "{\"model\":");
    mf_buf_json(&out, m->job->model_text, strlen(m->job->model_text));
    mf_buf_printf(&out, ",\"steps\":%lld,\"shards\":%d,\"workers\":%d,\"loss\":",
                  (long long)mf_trainer_step(m->job->trainer), m->job->compile.shards,
                  mf_strategy_size(m->job->strategy));
    mf_buf_json_number(&out, m->loss_known ? m->loss : NAN);
    cmd_train_put_end(m, &out);
    if (m->job->trainer->progress.restarted > 0)
        mf_buf_printf(&out, ",\"restarted_from_step\":%lld",
                      (long long)m->job->trainer->progress.restarted - 1);
    mf_buf_printf(&out, ",\"skipped_steps\":%lld", (long long)mf_guard_skipped(m->job->trainer));
    mf_job_print_samples(m->job, &out);
    print_traffic(m->job->strategy, &out);
    if (mf_strategy_mesh_counts(m->job->strategy, NULL, 0) > 0)
        print_mesh(m->job->strategy, &out);
    else
        print_memory(m->job->trainer, &out);
    print_chosen(m, &out);
    if (mf_status_page_used(used)) {
        mf_buf_str(&out, ",\"utilisation\":");
        mf_time_shares_json(used, &out);
    }
    print_validation(m, &out);
    for (int i = 1; i < n_test; i++)
        put_result(test[i].name, test[i].value, &out);
    if (n_test > 0)
        put_result("test_loss", test[0].value, &out);
    mf_buf_printf(&out,
                  ",\"seconds\":%.6g,\"samples_per_second\":%.6g,"
                  "\"start_to_first_step_seconds\":%.6g,\"peak_rss_bytes\":%lld,"
                  "\"weights_sha256\":\"%s\",\"numerics_class\":\"%s\"}\n",
                  cmd_train_seconds(mf_clock_since_start_ns()),
                  time > 0 ? (double)m->samples / time : 0.0, cmd_train_seconds(m->first_step_ns),
                  (long long)usage.ru_maxrss * 1024, sha, mf_numerics_class());
    return mf_cli_print(&out);
}

/* ---- with others ---- */

/* --strategy, or what --target, --mesh and --auto are short for. */
static mf_status write_strategy(mf_args *args, const mf_chosen *chosen, mf_buf *out)
{
    const char *strategy = mf_args_value(args, "strategy"), *target = mf_args_value(args, "target"),
               *mesh = mf_args_value(args, "mesh"), *layout = mf_args_value(args, "layout"),
               *pipeline = mf_args_value(args, "pipeline"), *chunks = mf_args_value(args, "chunks");

    mesh = chosen->mesh.data ? chosen->mesh.data : mesh;
    layout = chosen->mesh.data ? chosen->layout.data : layout;

    if ((strategy != NULL) + (target != NULL) + (mesh != NULL) > 1)
        return mf_args_wrong(args,
                             "--target says that servers do the steps, --mesh that processors "
                             "of a mesh do, --strategy says who else: give one of them");
    if (!mesh && (pipeline || mf_args_has(args, "explain")))
        return mf_args_wrong(args, "--pipeline and --explain need --mesh: \"rows:2;cols:2\"");
    if (!mf_args_has(args, "auto") &&
        (mf_args_has(args, "processors") || mf_args_has(args, "memory")))
        return mf_args_wrong(args, "--processors and --memory need --auto");
    MF_TRY(mf_mesh_options_write(args, mesh, layout, out));
    if (chunks && (!pipeline || strcmp(pipeline, "interleaved") != 0))
        return mf_args_wrong(args, "--chunks needs --pipeline interleaved");
    if (pipeline)
        mf_buf_printf(out, " pipeline='%s'", pipeline);
    if (chunks)
        mf_buf_printf(out, " chunks=%s", chunks);
    if (strategy)
        mf_buf_str(out, strategy);
    if (target)
        mf_buf_printf(out, "servers target='%s'", target);
    return out->len > 0 ? mf_buf_finish(out) : MF_OK;
}

static mf_status open_strategy(measured *m, mf_args *args)
{
    mf_job *job = m->job;
    mf_strategy_options o;
    mf_buf identity = { 0 }, name = { 0 }, strategy = { 0 };
    mf_status st;

    MF_TRY(mf_connect_options_read(args, &o));
    MF_TRY(write_strategy(args, &m->chosen, &strategy));
    st = mf_job_in_common("train", args, mf_dataset_count(job->train), &identity);
    o.identity = identity.data;
    o.codec = mf_args_value(args, "codec");
    mf_job_name(job, args, &name);
    o.job = name.data;
    if (st == MF_OK)
        st = mf_strategy_open(strategy.data, &o, &job->strategy);
    mf_buf_deinit(&strategy);
    mf_buf_deinit(&identity);
    mf_buf_deinit(&name);
    job->compile.strategy = job->strategy;
    return st;
}

/* The chief tells; should it die over that, the next one does. */
static mf_status cmd_train_tell(const measured *m, bool json, const mf_result *test, int n_test)
{
    mf_strategy *strategy = m->job->strategy;
    bool told = !json;
    mf_status st;

    do {
        if (!told && mf_strategy_is_chief(strategy)) {
            MF_TRY(cmd_train_print_json(m, test, n_test));
            told = true;
        }
        st = mf_strategy_barrier(strategy, "the result");
        if (st != MF_OK && !mf_dist_may_recover(strategy->dist))
            return st;
        if (st != MF_OK) /* who is alone by now has nobody to wait for */
            st = mf_dist_rendezvous(strategy->dist, m->job->trainer, st) == MF_OK ? MF_ABORTED
                                                                                  : MF_OK;
    } while (st != MF_OK);
    return MF_OK;
}

/* Does this worker look whether training has converged? A wish to stop reaches all, so the chief
 * would do; but where it may be lost all workers look, and come to the same result. */
static bool is_judge(const mf_strategy *s)
{
    return mf_strategy_is_chief(s) || mf_dist_judges_groups(s->dist) ||
           mf_dist_may_recover(s->dist);
}

static mf_status fit_with_hooks(measured *m, mf_progress *progress, mf_fit_options fit)
{
    mf_job *job = m->job;
    mf_hook hooks[4] = { { .ctx = m,
                           .begin = note_model,
                           .after_step = cmd_train_count_step,
                           .take_over = note_model },
                         mf_progress_hook(progress) };
    mf_status st;
    bool over;

    m->total = progress->total;
    m->out = fit.out;
    fit.hooks = hooks;
    fit.n_hooks = 2;
    if (m->converged.ctx && is_judge(job->strategy))
        hooks[fit.n_hooks++] = m->converged;
    if (m->replan.chosen && mf_strategy_is_chief(job->strategy))
        hooks[fit.n_hooks++] = mf_replan_hook(&m->replan);
    stop_on_signals(job->trainer, job->strategy);
    st = mf_fit(job->trainer, job->train, job->validation, &fit);
    /* A launcher tells tasks one after the other. Whoever has ended because another was told is
     * told, too, and shall not die of it; nor shall one that is about to say why it failed. */
    over = decided(m, &progress->ended) || mf_trainer_step(job->trainer) >= m->total;
    if (st == MF_OK && over)
        stop_on_signals(NULL, NULL);
    else
        forget_signals();
    m->failed = st != MF_OK;
    return st;
}

/* A batch that was asked for and cannot be had would be another one in silence. */
static mf_status check_batch(const mf_job *job, mf_args *args, int64_t batch)
{
    const int64_t samples = mf_dataset_count(job->train);

    if (!mf_args_has(args, "batch") || batch <= samples)
        return MF_OK;
    return mf_args_wrong(args, "--batch %lld is more than the %lld samples to train on",
                         (long long)batch, (long long)samples);
}

/* Of the weights in the end, whichever step the last epoch has ended with. */
static mf_status validate(measured *m, mf_progress *progress)
{
    int n = 0;

    if (!m->job->validation)
        return MF_OK;
    MF_TRY(mf_evaluate(m->job->trainer, m->job->validation, m->validation, &n));
    m->n_validation = n;
    mf_progress_validated(progress, m->validation, n);
    return MF_OK;
}

/* The checkpoint is on the disk, if there was to be one. */
static mf_status say_stopped(const measured *m, mf_args *args)
{
    const char *out = mf_args_value(args, "out");

    args->exit_code = MF_EXIT_STOPPED;
    if (out && mf_strategy_is_chief(m->job->strategy))
        mf_args_hint(args, "--resume continues the training in '%s'", out);
    return MF_FAIL(MF_CANCELLED, "training was stopped after step %lld of %lld%s",
                   (long long)mf_trainer_step(m->job->trainer), (long long)m->total,
                   out ? "" : "; without --out nothing of it was saved");
}

/* The strategy, after the planner has chosen it if it was asked to. */
static mf_status plan_and_open(measured *m, mf_args *args, int64_t batch)
{
    mf_job *job = m->job;

    if (mf_args_has(args, "auto")) {
        m->replan.call.job = job;
        m->replan.call.args = args;
        m->replan.call.batch = batch;
        m->replan.chosen = &m->chosen;
        MF_TRY(m->replan.call.workers > 1 ? mf_planning_start(&m->replan.call, &m->chosen)
                                          : mf_planning_choose(&m->replan.call, &m->chosen));
        if (m->chosen.micro_batches > 0)
            job->compile.micro_batches = m->chosen.micro_batches;
    }
    MF_TRY(open_strategy(m, args));
    if (m->replan.chosen && m->replan.call.workers > 1) {
        m->chosen.micro_batches = job->compile.micro_batches;
        MF_TRY(mf_replan_together(&m->replan));
    }
    return MF_OK;
}

/* Before the result of a job that has lost progress on its way. */
static void tell_restart(const mf_job *job)
{
    const int64_t from = job->trainer->progress.restarted - 1;

    if (from >= 0 && mf_strategy_is_chief(job->strategy))
        MF_WARN("training was restarted from step %lld after all tasks that had the weights were "
                "lost: what came after it was computed again",
                (long long)from);
}

static mf_status train(measured *m, mf_args *args)
{
    mf_job *job = m->job;
    const char *state, *ended = "";
    mf_progress progress = { .quiet = mf_args_has(args, "quiet"),
                             .json = mf_args_has(args, "json") };
    mf_fit_options fit = { 0 };
    mf_result test[MF_MAX_RESULTS];
    mf_status fitted, st;
    mf_error why;
    int n_test = 0;

    MF_TRY(mf_train_options_read(args, &job->compile, &fit));
    MF_TRY(change_data(job, args));
    MF_TRY(check_batch(job, args, fit.batch));
    MF_TRY(mf_job_freeze(args, job->model));
    MF_TRY(plan_and_open(m, args, fit.batch));
    MF_TRY(mf_job_compile(job, args));
    MF_TRY(change_weights(job, args));
    MF_TRY(mf_progress_init(&progress, job, &fit));
    m->works = true;
    fitted = fit_with_hooks(m, &progress, fit);
    MF_TRY(cmd_train_write_chosen(m, &progress.planned));
    if (fitted != MF_OK) /* a checkpoint that could not be written is no reason to show nothing */
        mf_error_save(fitted, &why);
    st = fitted == MF_OK || m->loss_known ? MF_OK : fitted;
    if (fitted == MF_OUT_OF_RANGE && mf_strategy_is_over(job->strategy)) {
        MF_WARN("%s", why.message); /* it came too late, which is no mistake */
        if (job->trainer->dist->stopped)
            args->exit_code = MF_EXIT_STOPPED;
        mf_progress_deinit(&progress);
        return MF_OK;
    }
    if (fitted == MF_CANCELLED && mf_strategy_has_left(job->strategy)) {
        MF_INFO("%s after step %lld", why.message, (long long)mf_trainer_step(job->trainer));
        args->exit_code = MF_EXIT_STOPPED;
        mf_progress_deinit(&progress);
        return fitted;
    }
    if (mf_strategy_serves(job->strategy)) {
        mf_progress_deinit(&progress);
        return fitted;
    }
    if (fitted != MF_OK &&
        mf_strategy_size(job->strategy) > 1) { /* nobody else takes part any more */
        if (st == MF_OK && mf_args_has(args, "json") && mf_strategy_is_chief(job->strategy))
            st = cmd_train_print_json(m, NULL, 0);
        mf_progress_deinit(&progress);
        return mf_error_restore(&why);
    }
    if (st == MF_OK)
        st = validate(m, &progress);
    if (st == MF_OK && !mf_args_has(args, "no-test"))
        st = mf_evaluate(job->trainer, job->test, test, &n_test);
    if (st == MF_OK)
        st = mf_progress_end(&progress, test, n_test);
    if (st == MF_OK && mf_args_has(args, "explain") && mf_strategy_is_chief(job->strategy))
        st = cmd_train_explain(job->strategy);
    tell_restart(job);
    if (st == MF_OK) /* last: programs read the last line */
        st = cmd_train_tell(m, mf_args_has(args, "json"), test, n_test);
    state = decided(m, &ended);
    if (fitted != MF_OK)
        st = mf_error_restore(&why);
    else if (st == MF_OK && state && strcmp(state, "diverged") == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "training %s", ended);
    else if (st == MF_OK && cmd_train_was_stopped(m))
        st = say_stopped(m, args);
    mf_progress_deinit(&progress);
    return st;
}

/* Opening data may take long: who waits for us shall see it. */
static mf_status open_shown(mf_job *job, mf_args *args)
{
    mf_strategy_options o;
    mf_buf name = { 0 };
    mf_status st;

    MF_TRY(mf_resume_open(job, args));
    MF_TRY(mf_connect_options_read(args, &o));
    mf_job_name(job, args, &name);
    o.job = name.data;
    st = mf_job_show(&o);
    mf_buf_deinit(&name);
    MF_TRY(st);
    job->shown = true;
    mf_status_page_phase(MF_PHASE_LOAD);
    MF_TRY(mf_job_load(job, args, true));
    MF_TRY(mf_resume_check(job, args));
    mf_status_page_phase(MF_PHASE_START);
    return MF_OK;
}

/* Under the name that the tasks have, too. */
static mf_status watch_over(mf_args *args, const mf_cluster *c)
{
    mf_buf name = { 0 };
    mf_strategy_options o = { 0 };
    mf_job job;
    mf_status st = mf_resume_open(&job, args);

    if (st == MF_OK)
        st = mf_connect_options_read(args, &o);
    if (st == MF_OK)
        mf_job_name(&job, args, &name);
    if (st == MF_OK)
        st = mf_buf_finish(&name);
    if (st == MF_OK)
        st = mf_supervisor_run(c, name.data, mf_job_timeout_ns(&o), &args->exit_code);
    if (st == MF_CANCELLED && args->exit_code == 0) /* told to end while it waited for its store */
        args->exit_code = MF_EXIT_STOPPED;
    mf_buf_deinit(&name);
    mf_job_deinit(&job);
    return st;
}

/* A master sees to it that others train. What is wrong with the cluster is said later. */
static mf_status be_master(measured *m, mf_args *args, bool *done)
{
    mf_cluster_request r;
    mf_cluster *c;
    mf_status st = MF_OK;

    *done = false;
    MF_TRY(mf_cluster_request_read(args, &r));
    MF_TRY(mf_cluster_examine(&r, &c));
    m->replan.call.workers = c->size;
    m->replan.call.hosts = c->local_size > 0 ? c->size / c->local_size : 1;
    if (c->n_mistakes == 0 && mf_supervisor_is_one(c)) {
        st = watch_over(args, c);
        *done = st == MF_OK;
    }
    mf_cluster_free(c);
    return st;
}

static mf_status be_worker(measured *m, mf_args *args)
{
    stop_on_signals(NULL, NULL);
    MF_TRY(mf_train_options_stop(args, &m->converged));
    MF_TRY(open_shown(m->job, args));
    return train(m, args);
}

static int exit_code_of(const measured *m, mf_status st)
{
    if (!m->works)
        return mf_exit_of_setup(st);
    return m->job->trainer && m->job->trainer->lost ? MF_EXIT_LOST : mf_exit_of_work(st);
}

static mf_status train_run(mf_args *args)
{
    int64_t priority = 0;
    bool done;
    mf_job job;
    measured m = { .job = &job, .args = args };
    mf_status st;

    MF_TRY(mf_args_int(args, "priority", 1, MF_PRIORITY_MAX, &priority));
    if (priority > 0) /* before there are threads, which inherit it */
        MF_TRY(mf_priority_set(getpid(), (int)priority));
    job = (mf_job){ 0 };
    st = be_master(&m, args, &done);
    if (st == MF_OK && !done)
        st = be_worker(&m, args);
    if (st != MF_OK && args->exit_code == 0 && !args->usage) {
        /* Peers that lose us end, too, and their launcher then stops this task: the reason and its
         * code must come out all the same. */
        (void)signal(SIGTERM, SIG_IGN);
        args->exit_code = exit_code_of(&m, st);
    }
    mf_job_deinit(&job);
    mf_hook_free(&m.converged);
    mf_chosen_deinit(&m.chosen);
    mf_buf_deinit(&m.told);
    return st;
}

static const mf_option options[] = {
    MF_JOB_OPTIONS,
    { "epochs", "N", "how often all samples are seen; once unless told", 0, false },
    { "steps", "N", "how many steps in all; wins over --epochs", 0, false },
    { "stop", "HOW",
      "before the last step: 'converged tolerance=0.005'; docs/guides/convergence.md", 0, false },
    { "converged-after", "S", "stop when no step has moved the weights for so many seconds", 0,
      false },
    { "batch", "N", "samples of a step; 32 unless told", 0, false },
    { "slice", "BY", "what the shards of a batch read: any element, or each files of its own: file",
      0, false },
    { "near", "PATTERNS", "files that this worker has near, as in '/data/a-*:/data/b-*'", 0,
      false },
    { "cache", "WHEN",
      "keep samples in memory: auto (what is read from files, if it fits), on, off", 0, false },
    { "optimizer", "OPT", "with settings: 'momentum momentum=0.9'; sgd unless told", 0, false },
    { "lr", "RATE", "learning rate; the optimizer's own unless told", 0, false },
    { "schedule", "S", "of the learning rate: 'cosine warmup=100'", 0, false },
    { "clip", "HOW", "gradients: value=1, norm=1 or global_norm=1", 0, false },
    { "prune", "HOW",
      "make weights zero on the way: 'magnitude sparsity=0.9 end=2000'; hold: those that are zero "
      "stay so; docs/guides/model-compression.md",
      0, false },
    { "guard", "HOW",
      "steps whose gradients are no numbers: stop, 'skip in_row=10' or off; "
      "docs/guides/nan-guards.md",
      0, false },
    { "check-steps", "N",
      "workers compare their weights every so many steps; 100 unless told, 0: never", 0, false },
    { "weight-decay", "W", "of all weights but biases and normalisations", 0, false },
    { "offload", "FOLDER",
      "keep what the optimizer needs (slots) in files there instead of in memory", 0, false },
    { "ema", "DECAY", "keep a moving average of the weights", 0, false },
    { "ema-eval", NULL, "test with the moving average instead of the weights", 0, false },
    { "micro-batches", "N", "do a batch in so many turns, with less memory", 0, false },
    { "recompute", "layers|N",
      "keep only what passes between layers, or groups of N layers, for gradients, and compute the "
      "rest again: less memory, the same bits",
      0, false },
    { "hogwild", NULL, "update without locks; matters where several train at once", 0, false },
    { "augment", "HOW", "change images: 'crop=4 flip=true cutout=8'", 0, false },
    { "validation", "F", "keep this fraction of the samples for validation", 0, false },
    { "freeze", "PATTERN", "do not train weights of such names", 0, true },
    { "init", "CKPT", "begin with the weights of a checkpoint", 0, false },
    { "out", "DIR", "where checkpoints, events and pictures go", 'o', false },
    { "save-steps", "N", "a checkpoint every so many steps; else every epoch", 0, false },
    { "summary-steps", "N", "events for TensorBoard every so many steps; 10 unless told", 0,
      false },
    { "keep", "N", "checkpoints to keep; 5 unless told", 0, false },
    { "trace", "FILE", "write a Chrome trace of the tenth step", 0, false },
    { "resume", NULL, "continue the training in --out from its newest whole checkpoint", 0, false },
    { "allow-changes", NULL, "with --resume: continue although settings differ from the run's", 0,
      false },
    { "overwrite", NULL, "remove the training in --out, and begin anew there", 0, false },
    { "strategy", "S",
      "how to train with others: 'multi_worker_mirrored aggregation=median', 'local_sgd groups=4'; "
      "docs/guides/distributed-training.md",
      0, false },
    { "target", "grpc://HOST:PORT",
      "let the cluster of this server do the steps: TensorFlow's servers, or `meshflow server`", 0,
      false },
    MF_MESH_OPTIONS,
    { "balance", NULL, "on a mesh: let slow workers have less of what is cut", 0, false },
    { "pipeline", "ORDER",
      "order of the micro-batches: one back as soon as it can (1f1b), all forwards first (gpipe), "
      "several chunks of layers on each stage (interleaved), gradients of weights where there is "
      "time (zero-bubble)",
      0, false },
    { "chunks", "N", "of an interleaved pipeline: chunks of layers on each stage; 2 unless told", 0,
      false },
    { "explain", NULL,
      "on a mesh: in the end, a table of what a step costs a processor, by op; "
      "of a pipeline, what its stages did when, and how long they were idle",
      0, false },
    { "auto", NULL,
      "let the planner choose mesh and layout, or the layout on --mesh; docs/guides/planner.md", 0,
      false },
    { "processors", "N", "for --auto: threads of a mesh; as many as there are cores unless told", 0,
      false },
    { "memory", "MIB", "for --auto: that each processor has; any number unless told", 0, false },
    { "codec", "RULES",
      "send gradients in fewer bytes: 'fp16', 'top_k ratio=0.01'; docs/guides/codecs.md", 0,
      false },
    MF_CONNECT_OPTIONS,
    { "ps", "N", "of an engine's processes, so many are parameter servers: the last ones", 0,
      false },
    { "input-threads", "N", "that make batches; one, and more where steps wait for them", 0,
      false },
    { "name", "JOB", "what `meshflow jobs` and `meshflow status` call it; MODEL-PID unless told", 0,
      false },
    { "priority", "P", "1 to 10: its share of cores that others want, too; 10 unless told", 0,
      false },
    { "no-test", NULL, "leave out the test at the end", 0, false },
    { "quiet", NULL, "say nothing on the way", 'q', false },
    { 0 },
};

const mf_command mf_command_train = {
    .name = "train",
    .arguments = "",
    .summary = "train a model",
    .about =
        "Reads data, builds a model of the zoo, trains it, tests it. The weights depend on data, "
        "settings, seed and number of shards, and on nothing else: not on threads, not on how "
        "often "
        "training was killed and resumed.",
    .options = options,
    .examples = (const char *const[]){ "meshflow train --model mlp --data fashion-mnist --epochs 3",
                                       "meshflow train --model cnn-small --data fashion-mnist "
                                       "--optimizer adam --epochs 5 --out run",
                                       NULL },
    .min_args = 0,
    .max_args = 0,
    .exits = MF_EXITS_OF_JOBS,
    .run = train_run,
};
