/* SPDX-License-Identifier: Apache-2.0 */
/* train_report.c - the result of a training: the JSON line, the tables of --explain, the summary of
 * --auto. */
#include "base/clock.h"
#include "cli/job_data.h"
#include "cli/mesh_timeline.h"
#include "cli/shares.h"
#include "cli/train_run.h"
#include "graph/op.h"
#include "observe/status_page.h"
#include "train/loop/dist.h"
#include "train/loop/nan_guard.h"

#include <meshflow/mesh.h>

#include <math.h>
#include <string.h>
#include <sys/resource.h>

static double train_report_seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

/* Of this worker; the traffic of the others is about the same. */
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

/* Of steps that run in this process. */
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

/* Of every device of a mesh. */
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
                      i ? "," : ",\"devices\":[", (long long)c[i].variable_bytes,
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

mf_status mf_train_explain(const mf_strategy *strategy)
{
    mf_buf out = { 0 };

    mf_buf_printf(&out, "%-40s %6s %14s %14s %14s\n", "one step on one device", "nodes", "work",
                  "bytes made", "bytes received");
    MF_TRY(mf_strategy_mesh_costs(strategy, add_cost, &out));
    MF_TRY(mf_timeline_print(strategy, &out));
    return mf_cli_print(&out);
}

static double step_seconds(const mf_train_run *run)
{
    return run->steps > 0 ? train_report_seconds(run->last_ns - run->begin_ns) / (double)run->steps
                          : 0.0;
}

static void print_chosen(const mf_train_run *run, mf_buf *out)
{
    if (run->chosen.mesh.data)
        mf_buf_printf(out,
                      ",\"mesh\":\"%s\",\"layout\":\"%s\",\"micro_batches\":%d,"
                      "\"predicted_step_seconds\":%.6g,\"measured_step_seconds\":%.6g,"
                      "\"replanned\":%d",
                      run->chosen.mesh.data, run->chosen.layout.data,
                      run->chosen.micro_batches > 1 ? run->chosen.micro_batches : 1,
                      run->chosen.is.step_ns * 1e-9, step_seconds(run), run->replan.times);
}

mf_status mf_train_summarize_plan(mf_train_run *run, const char **out)
{
    if (!run->chosen.mesh.data || run->steps == 0)
        return MF_OK;
    mf_buf_printf(&run->summary, "mesh '%s', layout '%s': a step took %.3f ms; predicted: %.3f ms",
                  run->chosen.mesh.data, run->chosen.layout.data, step_seconds(run) * 1e3,
                  run->chosen.is.step_ns * 1e-6);
    MF_TRY(mf_buf_finish(&run->summary));
    *out = run->summary.data;
    return MF_OK;
}

static void put_result(const char *name, double value, mf_buf *out)
{
    mf_buf_printf(out, ",\"%s\":", name);
    mf_buf_json_number(out, value);
}

static void print_validation(const mf_train_run *run, mf_buf *out)
{
    for (int i = 0; i < run->n_validation; i++) {
        mf_buf_printf(out, "%s\"%s\":", i > 0 ? "," : ",\"validation\":{", run->validation[i].name);
        mf_buf_json_number(out, run->validation[i].value);
    }
    mf_buf_str(out, run->n_validation > 0 ? "}" : "");
}

const char *mf_train_verdict(const mf_train_run *run, const char **why)
{
    const char *sentence, *state;

    if (!run->converged.ctx)
        return NULL;
    state = mf_hook_converged_state(&run->converged, &sentence);
    if (strcmp(state, "converged") != 0 && strcmp(state, "diverged") != 0)
        return NULL;
    *why = sentence;
    return state;
}

bool mf_train_was_stopped(const mf_train_run *run)
{
    const mf_trainer *t = run->job->trainer;
    const char *why;

    if (mf_train_verdict(run, &why))
        return false;
    return mf_dist_leases_batches(t->dist) ? t->progress.stop != 0 : t->step < run->total;
}

static void train_report_put_end(const mf_train_run *run, mf_buf *out)
{
    const char *why = "", *state = mf_train_verdict(run, &why);

    mf_buf_printf(out, ",\"ended\":\"%s\"",
                  run->failed                 ? "failed"
                  : state                     ? state
                  : mf_train_was_stopped(run) ? "stopped"
                                              : "steps");
    if (state) {
        mf_buf_str(out, ",\"ended_because\":");
        mf_buf_json(out, why, strlen(why));
    }
}

mf_status mf_train_print_json(const mf_train_run *run, const mf_result *test, int n_test)
{
    struct rusage usage;
    char sha[65];
    mf_buf out = { 0 };
    const double time = train_report_seconds(run->last_ns - run->begin_ns);
    int64_t used[MF_USES];

    MF_TRY(mf_trainer_sha256(run->job->trainer, sha));
    (void)getrusage(RUSAGE_SELF, &usage);
    mf_buf_str(&out, "{\"model\":");
    mf_buf_json(&out, run->job->model_text, strlen(run->job->model_text));
    mf_buf_printf(&out, ",\"steps\":%lld,\"shards\":%d,\"workers\":%d,\"loss\":",
                  (long long)mf_trainer_step(run->job->trainer), run->job->compile.shards,
                  mf_strategy_size(run->job->strategy));
    mf_buf_json_number(&out, run->loss_known ? run->loss : NAN);
    train_report_put_end(run, &out);
    if (run->job->trainer->progress.restarted > 0)
        mf_buf_printf(&out, ",\"restarted_from_step\":%lld",
                      (long long)run->job->trainer->progress.restarted - 1);
    mf_buf_printf(&out, ",\"skipped_steps\":%lld", (long long)mf_guard_skipped(run->job->trainer));
    mf_job_print_samples(run->job, &out);
    print_traffic(run->job->strategy, &out);
    if (mf_strategy_mesh_counts(run->job->strategy, NULL, 0) > 0)
        print_mesh(run->job->strategy, &out);
    else
        print_memory(run->job->trainer, &out);
    print_chosen(run, &out);
    if (mf_status_page_used(used)) {
        mf_buf_str(&out, ",\"utilisation\":");
        mf_time_shares_json(used, &out);
    }
    print_validation(run, &out);
    for (int i = 1; i < n_test; i++)
        put_result(test[i].name, test[i].value, &out);
    if (n_test > 0)
        put_result("test_loss", test[0].value, &out);
    mf_buf_printf(&out,
                  ",\"seconds\":%.6g,\"samples_per_second\":%.6g,"
                  "\"start_to_first_step_seconds\":%.6g,\"peak_rss_bytes\":%lld,"
                  "\"weights_sha256\":\"%s\",\"numerics_class\":\"%s\"}\n",
                  train_report_seconds(mf_clock_since_start_ns()),
                  time > 0 ? (double)run->samples / time : 0.0,
                  train_report_seconds(run->first_step_ns), (long long)usage.ru_maxrss * 1024, sha,
                  mf_numerics_class(run->job->trainer->bf16));
    return mf_cli_print(&out);
}
