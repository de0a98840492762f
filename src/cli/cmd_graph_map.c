/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_graph_map.c - `meshflow graph map`: runs a graph over many rows in batches, in this process
 * or on the workers of a cluster. */
#include "base/clock.h"
#include "cli/cluster_options.h"
#include "cli/fetches.h"
#include "cli/restore.h"

#include <meshflow/dispatch.h>

#include <stdio.h>
#include <string.h>

typedef struct cmd_graph_map_job {
    mf_args *args;
    mf_dispatch *dispatch;
    mf_graph *graph;
    mf_feeds feeds, rows; /* feeds: the same for all calls; rows: split into batches */
    mf_restore restore;
    mf_fetches fetches;
    mf_strings dirs;
    mf_closure *closure;
    char **names; /* of feeds and rows */
    mf_tensor **given; /* inputs of a call */
    mf_tensor **results; /* of all rows */
    mf_future **calls;
    int64_t n_rows, batch, n_calls;
    double seconds;
} cmd_graph_map_job;

/* ---- arguments ---- */

static mf_status cmd_graph_map_read_rows(cmd_graph_map_job *j)
{
    MF_TRY(mf_feeds_load(j->args, "feed", false, j->graph, &j->feeds));
    MF_TRY(mf_feeds_load(j->args, "rows", true, j->graph, &j->rows));
    for (int64_t i = 0; i < j->rows.n; i++) {
        const mf_shape *s = &j->rows.values[i]->shape;

        if (s->rank < 1)
            return mf_args_wrong(j->args, "--rows %s: a single value has no rows; use --feed",
                                 j->rows.names[i]);
        if (i == 0)
            j->n_rows = s->dims[0];
        if (s->dims[0] != j->n_rows)
            return mf_args_wrong(j->args, "--rows %s has %lld rows, but %s has %lld",
                                 j->rows.names[i], (long long)s->dims[0], j->rows.names[0],
                                 (long long)j->n_rows);
    }
    if (j->n_rows < 1)
        return mf_args_wrong(j->args, "there are no rows: give --rows NAME=FILE.npy");
    j->n_calls = (j->n_rows + j->batch - 1) / j->batch;
    return MF_OK;
}

static mf_status cmd_graph_map_read_args(cmd_graph_map_job *j)
{
    const char *target;
    int64_t at = 0;
    mf_node *node;

    MF_TRY(mf_cli_load_graph(j->args, j->args->words[0], &j->graph));
    MF_TRY(mf_fetches_read(j->args, j->graph, &j->fetches));
    while ((target = mf_args_next(j->args, "target", &at)) != NULL)
        MF_TRY(mf_cli_find_node(j->args, j->graph, "--target", target, &node));
    if (j->fetches.names.n == 0) {
        mf_cli_hint_fetches(j->args, j->graph);
        return mf_args_wrong(j->args, "nothing to compute: name it with --save NODE:PORT=FILE or "
                                      "--fetch NODE:PORT");
    }
    return cmd_graph_map_read_rows(j);
}

static mf_status open_dispatch(cmd_graph_map_job *j)
{
    int64_t threads = 0, slots = 0;
    mf_strategy_options cluster;

    j->batch = 64;
    MF_TRY(mf_args_int(j->args, "batch", 1, INT32_MAX, &j->batch));
    MF_TRY(mf_args_int(j->args, "threads", 0, 4096, &threads));
    MF_TRY(mf_args_int(j->args, "slots", 1, 4096, &slots));
    MF_TRY(mf_connect_options_read(j->args, &cluster));
    MF_TRY(mf_fetches_dirs(j->args, &j->fetches, &j->dirs));
    return mf_dispatch_open(&(mf_dispatch_options){ .cluster = &cluster,
                                                    .slots = (int)slots,
                                                    .threads = (int)threads,
                                                    .allow_dirs = (const char *const *)j->dirs.s,
                                                    .n_allow_dirs = (int)j->dirs.n },
                            &j->dispatch);
}

/* ---- before the rows ---- */

static mf_status on_all(cmd_graph_map_job *j, const mf_closure_spec *spec, mf_tensor *const *feeds)
{
    mf_closure *c;
    mf_status st;

    MF_TRY(mf_closure_new(j->dispatch, spec, &c));
    st = mf_dispatch_run_on_all(j->dispatch, c, (const mf_tensor *const *)feeds);
    mf_closure_free(c);
    return st;
}

static mf_status cmd_graph_map_prepare(cmd_graph_map_job *j)
{
    const char *checkpoint = mf_args_value(j->args, "restore"), *target;
    int64_t at = 0;

    if (checkpoint) {
        const mf_restore *r = &j->restore;

        MF_TRY(mf_restore_add(j->args, j->graph, checkpoint, &j->restore));
        MF_TRY(on_all(j,
                      &(mf_closure_spec){ .graph = j->graph,
                                          .feeds = (const char *const *)r->feeds.names,
                                          .n_feeds = (int)r->feeds.n,
                                          .targets = (const char *const *)r->assign.names,
                                          .n_targets = (int)r->assign.n },
                      r->feeds.values));
    }
    while ((target = mf_args_next(j->args, "target", &at)) != NULL)
        MF_TRY(on_all(j,
                      &(mf_closure_spec){ .graph = j->graph,
                                          .feeds = (const char *const *)j->feeds.names,
                                          .n_feeds = (int)j->feeds.n,
                                          .targets = &target,
                                          .n_targets = 1 },
                      j->feeds.values));
    return MF_OK;
}

/* ---- rows ---- */

static mf_status make_closure(cmd_graph_map_job *j)
{
    const int64_t n = j->feeds.n + j->rows.n;

    j->names = mf_calloc(n, sizeof *j->names);
    j->given = mf_calloc(n, sizeof(mf_tensor *));
    j->results = mf_calloc(j->fetches.names.n, sizeof(mf_tensor *));
    j->calls = mf_calloc(j->n_calls, sizeof *j->calls);
    if (!j->names || !j->given || !j->results || !j->calls)
        return MF_NOMEM("calls");
    for (int64_t i = 0; i < n; i++)
        j->names[i] = i < j->feeds.n ? j->feeds.names[i] : j->rows.names[i - j->feeds.n];
    return mf_closure_new(j->dispatch,
                          &(mf_closure_spec){ .graph = j->graph,
                                              .feeds = (const char *const *)j->names,
                                              .n_feeds = (int)n,
                                              .fetches = (const char *const *)j->fetches.names.s,
                                              .n_fetches = (int)j->fetches.names.n },
                          &j->closure);
}

static int64_t rows_of_call(const cmd_graph_map_job *j, int64_t call)
{
    const int64_t left = j->n_rows - call * j->batch;

    return left < j->batch ? left : j->batch;
}

/* Rows of a tensor, borrowed. */
static void cmd_graph_map_cut(mf_tensor *out, const mf_tensor *whole, int64_t first, int64_t n)
{
    const int64_t of_each = whole->count / whole->shape.dims[0];

    mf_tensor_set(out, whole);
    out->shape.dims[0] = n;
    out->count = n * of_each;
    out->data = (char *)whole->data + (size_t)(first * of_each) * mf_dtype_cell(whole->dtype);
}

static mf_status cmd_graph_map_schedule(cmd_graph_map_job *j, int64_t call)
{
    mf_tensor *cuts = mf_calloc(j->rows.n, sizeof *cuts);
    mf_status st;

    if (!cuts)
        return MF_NOMEM("a call");
    for (int64_t i = 0; i < j->feeds.n; i++)
        j->given[i] = j->feeds.values[i];
    for (int64_t i = 0; i < j->rows.n; i++) {
        cmd_graph_map_cut(&cuts[i], j->rows.values[i], call * j->batch, rows_of_call(j, call));
        j->given[j->feeds.n + i] = &cuts[i];
    }
    st = mf_dispatch_schedule(j->dispatch, j->closure, (const mf_tensor *const *)j->given,
                              &j->calls[call]);
    for (int64_t i = 0; i < j->rows.n; i++)
        mf_tensor_clear(&cuts[i]);
    mf_free(cuts);
    return st;
}

/* Copies the fetched rows to their place in the result. */
static mf_status cmd_graph_map_place(cmd_graph_map_job *j, int64_t fetch, int64_t first, int64_t n,
                                     const mf_tensor *part)
{
    mf_tensor **all = &j->results[fetch];
    mf_shape whole = part->shape;
    char text[MF_SHAPE_TEXT];

    if (whole.rank < 1 || whole.dims[0] != n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "'%s' has shape %s for %lld rows: it has not one row for each",
                       j->fetches.names.s[fetch], mf_shape_text(&whole, text), (long long)n);
    whole.dims[0] = j->n_rows;
    if (!*all)
        MF_TRY(mf_tensor_new(part->dtype, whole.dims, whole.rank, all));
    if ((*all)->dtype != part->dtype || !mf_shape_equal(&(*all)->shape, &whole))
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' has another type or shape from row %lld on",
                       j->fetches.names.s[fetch], (long long)first);
    return mf_cells_copy(part->dtype, (*all)->data, first * (part->count / n), part->data, 0,
                         part->count);
}

static mf_status cmd_graph_map_collect(cmd_graph_map_job *j, int64_t call)
{
    const int64_t n = j->fetches.names.n;
    mf_tensor **values = mf_calloc(n, sizeof(mf_tensor *));
    mf_status st = values ? mf_future_wait(j->calls[call], -1, values) : MF_NOMEM("results");

    for (int64_t i = 0; st == MF_OK && i < n; i++)
        st = cmd_graph_map_place(j, i, call * j->batch, rows_of_call(j, call), values[i]);
    for (int64_t i = 0; values && i < n; i++)
        mf_tensor_free(values[i]);
    mf_free(values);
    mf_future_free(j->calls[call]);
    j->calls[call] = NULL;
    return st;
}

static mf_status map_rows(cmd_graph_map_job *j)
{
    const int64_t begin = mf_clock_ns();
    int64_t have = 0;

    MF_TRY(make_closure(j));
    for (int64_t i = 0; i < j->n_calls; i++) {
        MF_TRY(cmd_graph_map_schedule(j, i));
        while (have < i && mf_future_is_done(j->calls[have]))
            MF_TRY(cmd_graph_map_collect(j, have++));
    }
    while (have < j->n_calls)
        MF_TRY(cmd_graph_map_collect(j, have++));
    j->seconds = (double)(mf_clock_ns() - begin) * 1e-9;
    return MF_OK;
}

/* ---- output ---- */

static void cmd_graph_map_print_text(cmd_graph_map_job *j, mf_buf *out)
{
    mf_fetches_text(&j->fetches, j->results, out);
    mf_buf_printf(out, "%lld rows in %lld calls, %.3f s\n", (long long)j->n_rows,
                  (long long)j->n_calls, j->seconds);
    for (int w = 0; w < mf_dispatch_workers(j->dispatch); w++) {
        mf_worker_done d;

        mf_dispatch_done(j->dispatch, w, &d);
        mf_buf_printf(out,
                      "%s: %lld calls, %.3f s computing, %lld bytes sent and %lld "
                      "received%s\n",
                      d.name, (long long)d.calls, d.seconds, (long long)d.bytes_sent,
                      (long long)d.bytes_received, d.lost ? "; it was lost" : "");
    }
}

static void cmd_graph_map_print_json(cmd_graph_map_job *j, mf_buf *out)
{
    mf_buf_str(out, "{\"fetches\":");
    mf_fetches_json(&j->fetches, j->results, out);
    mf_buf_printf(out, ",\"rows\":%lld,\"calls\":%lld,\"seconds\":%.9f,\"workers\":[",
                  (long long)j->n_rows, (long long)j->n_calls, j->seconds);
    for (int w = 0; w < mf_dispatch_workers(j->dispatch); w++) {
        mf_worker_done d;

        mf_dispatch_done(j->dispatch, w, &d);
        mf_buf_printf(out,
                      "%s{\"name\":\"%s\",\"calls\":%lld,\"moved\":%lld,\"seconds\":%.9f,"
                      "\"bytes_sent\":%lld,\"bytes_received\":%lld,\"lost\":%s}",
                      w > 0 ? "," : "", d.name, (long long)d.calls, (long long)d.moved, d.seconds,
                      (long long)d.bytes_sent, (long long)d.bytes_received,
                      d.lost ? "true" : "false");
    }
    mf_buf_str(out, "]}\n");
}

static mf_status cmd_graph_map_lead(cmd_graph_map_job *j)
{
    mf_buf text = { 0 };

    MF_TRY(cmd_graph_map_read_args(j));
    MF_TRY(cmd_graph_map_prepare(j));
    MF_TRY(map_rows(j));
    MF_TRY(mf_fetches_save(j->args, &j->fetches, j->results));
    if (mf_args_has(j->args, "json"))
        cmd_graph_map_print_json(j, &text);
    else
        cmd_graph_map_print_text(j, &text);
    return mf_cli_print(&text);
}

static void cmd_graph_map_deinit(cmd_graph_map_job *j)
{
    for (int64_t i = 0; j->calls && i < j->n_calls; i++)
        mf_future_free(j->calls[i]);
    for (int64_t i = 0; j->results && i < j->fetches.names.n; i++)
        mf_tensor_free(j->results[i]);
    mf_closure_free(j->closure);
    mf_dispatch_close(j->dispatch);
    mf_free(j->calls);
    mf_free(j->results);
    mf_free(j->given);
    mf_free(j->names);
    mf_fetches_deinit(&j->fetches);
    mf_strings_deinit(&j->dirs);
    mf_restore_deinit(&j->restore);
    mf_feeds_deinit(&j->feeds);
    mf_feeds_deinit(&j->rows);
    mf_graph_free(j->graph);
}

static mf_status graph_map(mf_args *args)
{
    cmd_graph_map_job j = { .args = args };
    mf_status st = open_dispatch(&j);

    if (st == MF_OK)
        st = mf_dispatch_is_master(j.dispatch) ? cmd_graph_map_lead(&j)
                                               : mf_dispatch_serve(j.dispatch);
    cmd_graph_map_deinit(&j);
    return st;
}

static const mf_option options[] = {
    { .name = "rows",
      .value = "NAME=FILE",
      .help = "feed an output (NODE or NODE:PORT) with rows of FILE.npy or FILE.npz:MEMBER, in "
              "batches; all files must have the same number of rows",
      .many = true },
    { .name = "feed",
      .value = "NAME=VALUE",
      .help = "feed an output with the same value in every call, as in `meshflow graph run`",
      .many = true },
    MF_FETCH_OPTIONS,
    { .name = "batch", .value = "N", .help = "rows of one call (default: 64)" },
    { .name = "target",
      .value = "NODE",
      .help = "run this node first, once on every worker",
      .many = true },
    { .name = "restore",
      .value = "CHECKPOINT",
      .help = "first restore the variables of every worker, as in `meshflow graph run`" },
    { .name = "slots",
      .value = "N",
      .help = "calls that a worker runs at the same time (default: its number of threads)" },
    { .name = "threads",
      .value = "N",
      .help = "threads of each process (default: 0, one for each core)" },
    { .name = "allow-dir",
      .value = "DIR",
      .help = "allow the ops of the graph to read and write files in DIR",
      .many = true },
    MF_CONNECT_OPTIONS,
    { .name = "json",
      .help = "print one JSON object on the last line: fetches, rows, calls, seconds, and the "
              "work of each worker" },
    { 0 },
};

const mf_command mf_command_graph_map = {
    .name = "graph map",
    .arguments = "GRAPH",
    .summary = "run a graph over many rows, on many workers",
    .about =
        "Splits the rows into batches, sends each batch to a worker with capacity, and "
        "concatenates the results in the order of the rows. In a cluster the command is started "
        "once for every task: the master distributes and the workers compute; alone, this "
        "process computes. Results do not depend on the number of workers.\n\nA worker that is "
        "killed, or that does not answer for --timeout seconds, is excluded, and its calls are "
        "run by other workers. The graph must therefore be safe to run twice.",
    .options = options,
    .examples =
        (const char *const[]){
            "meshflow graph map model.pb --rows x=x.npy --save y:0=y.npy",
            "meshflow launch --masters 1 --workers 3 -- graph map model.pb --rows x=x.npy --save "
            "y:0=y.npy",
            NULL },
    .min_args = 1,
    .max_args = 1,
    .run = graph_map,
};
