/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_graph_run.c - `meshflow graph run`: one session; each target in its own run, then the fetches
 * together, repeated as requested. */
#include "base/clock.h"
#include "cli/critical_path.h"
#include "cli/fetches.h"
#include "cli/job.h"
#include "cli/restore.h"
#include "observe/wait_report.h"
#include "runtime/session.h"

#include <meshflow/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cmd_graph_run_state {
    mf_args *args;
    mf_graph *graph;
    mf_session *session;
    mf_feeds feeds;
    mf_restore restore;
    mf_fetches fetches;
    mf_strings dirs, filters;
    mf_tensor **results;
    int64_t *ns; /* duration of each repetition */
    mf_trace *trace; /* of the last run; NULL: not requested */
    mf_critical_path path;
    int64_t repeat, timeout_ms, threads;
    double wait_s; /* for a server that is not up yet */
} cmd_graph_run_state;

/* ---- arguments ---- */

/* A target is a node to run or the address of a server to run on; no node has such a name. */
static bool cmd_graph_run_is_server(const char *target)
{
    return strncmp(target, "grpc://", strlen("grpc://")) == 0;
}

static const char *next_target(const cmd_graph_run_state *j, int64_t *at, bool server)
{
    const char *target;

    do
        target = mf_args_next(j->args, "target", at);
    while (target && cmd_graph_run_is_server(target) != server);
    return target;
}

static mf_status check_targets(cmd_graph_run_state *j)
{
    const char *name;
    int64_t at = 0, n = 0;
    mf_node *node;

    for (; (name = next_target(j, &at, false)) != NULL; n++)
        MF_TRY(mf_cli_find_node(j->args, j->graph, "--target", name, &node));
    if (n > 0 || j->fetches.names.n > 0)
        return MF_OK;
    mf_cli_hint_fetches(j->args, j->graph);
    return mf_args_wrong(j->args, "nothing to run: name an output with --fetch NODE:PORT or a "
                                  "node with --target NODE");
}

static mf_status read_filters(cmd_graph_run_state *j)
{
    const char *filter;
    int64_t at = 0;

    while ((filter = mf_args_next(j->args, "device-filter", &at)) != NULL)
        MF_TRY(mf_strings_add(&j->filters, mf_strdup(filter)));
    return MF_OK;
}

static mf_status cmd_graph_run_read_args(cmd_graph_run_state *j)
{
    j->repeat = 1;
    MF_TRY(mf_args_int(j->args, "repeat", 1, 1000000000, &j->repeat));
    MF_TRY(mf_args_int(j->args, "timeout", 1, INT32_MAX, &j->timeout_ms));
    j->wait_s = 60;
    MF_TRY(mf_args_double(j->args, "wait", 0.001, 1e6, &j->wait_s));
    MF_TRY(mf_args_int(j->args, "threads", 0, 4096, &j->threads));
    MF_TRY(mf_cli_load_graph(j->args, j->args->words[0], &j->graph));
    MF_TRY(mf_fetches_read(j->args, j->graph, &j->fetches));
    MF_TRY(check_targets(j));
    MF_TRY(mf_feeds_load(j->args, "feed", false, j->graph, &j->feeds));
    j->results = mf_calloc(j->fetches.names.n, sizeof(mf_tensor *));
    j->ns = mf_calloc(j->repeat, sizeof *j->ns);
    if (!j->results || !j->ns)
        return MF_NOMEM("results");
    MF_TRY(read_filters(j));
    return mf_fetches_dirs(j->args, &j->fetches, &j->dirs);
}

/* ---- running ---- */

/* last: only the last run is traced. */
static mf_status cmd_graph_run_once(cmd_graph_run_state *j, const char *target, bool last)
{
    const char *path = mf_args_value(j->args, "trace");
    const bool chain = last && mf_args_has(j->args, "critical-path");
    const mf_run_options options = { .timeout_ms = j->timeout_ms,
                                     .trace_path = last && !chain ? path : NULL };

    if (chain)
        MF_TRY(mf_trace_new(&j->trace));
    MF_TRY(mf_session_run_with(
        j->session, &options, &(mf_run_with){ .trace = j->trace },
        (const char *const *)j->feeds.names, (const mf_tensor *const *)j->feeds.values,
        (int)j->feeds.n, (const char *const *)j->fetches.names.s,
        target ? 0 : (int)j->fetches.names.n, &target, target ? 1 : 0, j->results));
    if (chain && path)
        MF_TRY(mf_trace_write(j->trace, path));
    return chain ? mf_critical_path_find(j->graph, j->trace, &j->path) : MF_OK;
}

static mf_status run_targets(cmd_graph_run_state *j)
{
    const char *name, *next;
    int64_t at = 0;

    for (name = next_target(j, &at, false); name; name = next) {
        next = next_target(j, &at, false);
        MF_TRY(cmd_graph_run_once(j, name, !next && j->fetches.names.n == 0));
    }
    return MF_OK;
}

static mf_status run_fetches(cmd_graph_run_state *j)
{
    for (int64_t i = 0; j->fetches.names.n > 0 && i < j->repeat; i++) {
        const int64_t start = mf_clock_ns();

        MF_TRY(cmd_graph_run_once(j, NULL, i == j->repeat - 1));
        j->ns[i] = mf_clock_ns() - start;
    }
    return MF_OK;
}

static void hint_failure(mf_args *args, mf_status st)
{
    const char *message = mf_error_message();
    const char *name = strstr(message, "placeholder tensor '");

    if (name) {
        name += strlen("placeholder tensor '");
        mf_args_hint(args, "--feed %.*s=FILE.npy", (int)strcspn(name, "'"), name);
    } else if (strstr(message, "uninitialized")) {
        mf_args_hint(args, "initialise the variables first: --target INIT_NODE or --restore "
                           "CHECKPOINT");
    } else if (st == MF_DEADLINE_EXCEEDED) {
        mf_args_hint(args, "allow more time with --timeout MILLISECONDS");
    }
}

static mf_status run_session(cmd_graph_run_state *j)
{
    const mf_session_options options = {
        .threads = (int)j->threads,
        .disable = mf_args_value(j->args, "disable"),
        .allow_dirs = (const char *const *)j->dirs.s,
        .n_allow_dirs = (int)j->dirs.n,
        .target = next_target(j, &(int64_t){ 0 }, true),
        .connect_ms = (int64_t)(j->wait_s * 1000),
        .device_filters = (const char *const *)j->filters.s,
        .n_device_filters = (int)j->filters.n,
        .tls_dir = mf_args_value(j->args, "tls-dir"),
        .insecure_any_peer = mf_args_has(j->args, "insecure-any-peer"),
    };
    const char *checkpoint = mf_args_value(j->args, "restore");
    mf_status st;

    if (checkpoint)
        MF_TRY(mf_restore_add(j->args, j->graph, checkpoint, &j->restore));
    mf_wait_report_name_option("--wait");
    st = mf_session_new(j->graph, &options, &j->session);
    if (st == MF_UNAVAILABLE)
        mf_args_hint(j->args, "start the server at that address, or wait longer with --wait "
                              "SECONDS");
    MF_TRY(st);
    st = checkpoint ? mf_restore_run(&j->restore, j->session) : MF_OK;
    if (st != MF_OK)
        return mf_cli_name_file(st, checkpoint);
    st = run_targets(j);
    if (st == MF_OK)
        st = run_fetches(j);
    if (st != MF_OK)
        hint_failure(j->args, st);
    return st;
}

/* ---- results ---- */

static int cmd_graph_run_by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double median_seconds(const cmd_graph_run_state *j) /* ns is sorted */
{
    const int64_t middle = j->ns[j->repeat / 2];

    return (double)middle / 1e9;
}

static void cmd_graph_run_print_text(cmd_graph_run_state *j, mf_buf *out)
{
    const int64_t first = j->ns[0];

    mf_fetches_text(&j->fetches, j->results, out);
    if (j->trace)
        mf_critical_path_text(&j->path, out);
    if (j->repeat == 1 || j->fetches.names.n == 0)
        return;
    qsort(j->ns, (size_t)j->repeat, sizeof *j->ns, cmd_graph_run_by_value);
    mf_buf_printf(
        out, "%lld runs: median %.3f ms, fastest %.3f ms, first (with compiling) %.3f ms\n",
        (long long)j->repeat, median_seconds(j) * 1e3, (double)j->ns[0] / 1e6, (double)first / 1e6);
}

static void cmd_graph_run_print_json(cmd_graph_run_state *j, mf_buf *out)
{
    const int64_t first = j->ns[0];

    qsort(j->ns, (size_t)j->repeat, sizeof *j->ns, cmd_graph_run_by_value);
    mf_buf_str(out, "{\"fetches\":");
    mf_fetches_json(&j->fetches, j->results, out);
    if (j->trace) {
        mf_buf_str(out, ",\"critical_path\":");
        mf_critical_path_json(&j->path, out);
    }
    mf_buf_printf(out, ",\"runs\":%lld,\"seconds\":%.9f,\"first_seconds\":%.9f}\n",
                  (long long)(j->fetches.names.n > 0 ? j->repeat : 0), median_seconds(j),
                  (double)first / 1e9);
}

/* The failure stays the thread's error: main() prints it on standard error. */
static void print_json_error(mf_status st)
{
    mf_buf text = { 0 };
    mf_error why;

    mf_error_save(st, &why);
    mf_buf_printf(&text, "{\"error\":{\"code\":\"%s\",\"message\":", mf_status_name(st));
    mf_buf_json(&text, why.message, strlen(why.message));
    mf_buf_str(&text, "}}\n");
    (void)!mf_cli_print(&text);
    (void)mf_error_restore(&why);
}

static mf_status cmd_graph_run_job(cmd_graph_run_state *j)
{
    mf_buf text = { 0 };

    MF_TRY(cmd_graph_run_read_args(j));
    MF_TRY(run_session(j));
    MF_TRY(mf_fetches_save(j->args, &j->fetches, j->results));
    if (mf_args_has(j->args, "json"))
        cmd_graph_run_print_json(j, &text);
    else
        cmd_graph_run_print_text(j, &text);
    return mf_cli_print(&text);
}

static mf_status graph_run(mf_args *args)
{
    cmd_graph_run_state j = { .args = args };
    const mf_status st = cmd_graph_run_job(&j);

    if (st != MF_OK && mf_args_has(args, "json"))
        print_json_error(st);
    mf_session_free(j.session);
    for (int64_t i = 0; j.results && i < j.fetches.names.n; i++)
        mf_tensor_free(j.results[i]);
    mf_free(j.results);
    mf_free(j.ns);
    mf_critical_path_deinit(&j.path);
    mf_trace_free(j.trace);
    mf_fetches_deinit(&j.fetches);
    mf_strings_deinit(&j.dirs);
    mf_strings_deinit(&j.filters);
    mf_feeds_deinit(&j.feeds);
    mf_restore_deinit(&j.restore);
    mf_graph_free(j.graph);
    return st;
}

static const mf_option options[] = {
    { .name = "feed",
      .value = "NAME=VALUE",
      .help = "feed an output (NODE or NODE:PORT) in every run: FILE.npy, FILE.npz:MEMBER, or "
              "values written like [[1,2],[3,4]]",
      .many = true },
    MF_FETCH_OPTIONS,
    { .name = "target",
      .value = "NODE",
      .help = "run this node before the fetches, in a run of its own; or grpc://HOST:PORT: run "
              "everything on this server of Meshflow or TensorFlow",
      .many = true },
    { .name = "device-filter",
      .value = "DEVICE",
      .help = "on a server: use only these tasks of the cluster (/job:ps, /job:worker/task:0), "
              "and wait for no others",
      .many = true },
    { .name = "restore",
      .value = "CHECKPOINT",
      .help = "first restore the variables of the graph from this TensorFlow checkpoint, the "
              "prefix of CHECKPOINT.index; variables that it lacks stay uninitialised" },
    { .name = "threads",
      .value = "N",
      .help = "threads (default: 0, one for each core); results do not depend on it" },
    { .name = "disable",
      .value = "PASS,...",
      .help = "passes to switch off, separated by commas; `meshflow graph optimize --list` lists "
              "them" },
    { .name = "timeout",
      .value = "MS",
      .help = "time limit of each run in milliseconds "
              "(default: none)" },
    { .name = "wait",
      .value = "SECONDS",
      .help = "time to wait for a server that is not up yet (default: 60)" },
    { .name = "trace",
      .value = "FILE",
      .help = "write a trace of the last run for chrome://tracing" },
    { .name = "critical-path",
      .help = "print the critical path of the last run: the chain of dependent nodes that took "
              "longest" },
    { .name = "repeat",
      .value = "N",
      .help =
          "run the fetches N times and print the times; the results are those of the last run" },
    { .name = "allow-dir",
      .value = "DIR",
      .help = "allow the ops of the graph to read and write files in DIR",
      .many = true },
    { .name = "tls-dir",
      .value = "DIR",
      .help = "certificates for servers on other hosts, as written by `meshflow cert`" },
    { .name = "insecure-any-peer", .help = "without TLS: accept every answering peer" },
    { .name = "json",
      .help = "print one JSON object on the last line: fetches (name, dtype, shape, values, "
              "crc32), runs, seconds (median), first_seconds (with compilation), critical_path; "
              "or error (code, message)" },
    { 0 },
};

const mf_command mf_command_graph_run = {
    .name = "graph run",
    .arguments = "GRAPH",
    .summary = "run a graph and print its outputs",
    .about = "GRAPH is a GraphDef: text if its name ends in .pbtxt, otherwise binary.\n\nOpens "
             "one session. Runs each --target in the given order, then all fetches together. "
             "Variables keep their values from run to run; --restore precedes all runs.\n\nThe "
             "ops of the graph can access files in the working directory, in the directories of "
             "the files named here, and in those allowed by --allow-dir. Tensors of more than "
             "1000 elements are printed in part, or as null with --json; --save writes them "
             "completely.",
    .options = options,
    .examples =
        (const char *const[]){
            "meshflow graph run hello.pbtxt --feed 'x=[[1,2,3]]' --fetch y",
            "meshflow graph run model.pb --feed x=x.npy --fetch y:0 --save y:0=y.npy",
            "meshflow graph run train_step.pbtxt --target init --target train --fetch w",
            "meshflow graph run hello.pbtxt --target grpc://localhost:2222 --feed 'x=[[1,2,3]]' "
            "--fetch y",
            NULL },
    .min_args = 1,
    .max_args = 1,
    .run = graph_run,
};
