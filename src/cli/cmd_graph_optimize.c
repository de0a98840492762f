/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_graph_optimize.c - `meshflow graph optimize`: the graph after each compiler pass, and the
 * execution plan. */
#include "base/clock.h"
#include "cli/graph_file.h"
#include "compiler/compiler.h"
#include "compiler/rewritten_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cmd_graph_optimize_job {
    mf_args *args;
    mf_graph *graph;
    mf_arena *arena;
    mf_output *feeds, *fetches;
    mf_shape *shapes;
    mf_node **targets;
    mf_signature sig;
    mf_compile compile;
    mf_program *program;
    mf_resources *session;
    mf_pool *pool;
} cmd_graph_optimize_job;

/* ---- arguments ---- */

/* "[2,?,3]" or "2,?,3"; "" is a scalar. */
static mf_status cmd_graph_optimize_parse_shape(mf_args *args, const char *text, mf_shape *out)
{
    const char *at = text + (*text == '[');

    *out = MF_SCALAR;
    while (*at && *at != ']') {
        char *end = NULL;
        const bool unknown = *at == '?';
        const long long dim = unknown ? MF_UNKNOWN_DIM : strtoll(at, &end, 10);

        at = unknown ? at + 1 : end;
        if (out->rank == MF_MAX_RANK || (!unknown && dim < 0) ||
            (*at && *at != ',' && *at != ']') || (!unknown && at == text))
            return mf_args_wrong(args, "--feed: '%.100s' is not a shape such as [2,?,3]", text);
        out->dims[out->rank++] = dim;
        at += *at == ',';
    }
    return MF_OK;
}

static mf_status read_feed(cmd_graph_optimize_job *j, const char *given, int i)
{
    const char *equals = strchr(given, '=');
    const mf_shape *declared;
    char *name = equals ? mf_strndup(given, (size_t)(equals - given)) : mf_strdup(given);
    mf_status st;

    if (!name)
        return MF_NOMEM("arguments");
    st = mf_cli_find_output(j->args, j->graph, "--feed", name, &j->feeds[i]);
    mf_free(name);
    MF_TRY(st);
    if (equals)
        return cmd_graph_optimize_parse_shape(j->args, equals + 1, &j->shapes[i]);
    declared = mf_node_shape(j->feeds[i].node, "shape");
    j->shapes[i] = declared->rank > 0 ? *declared : MF_SHAPE_UNKNOWN;
    return MF_OK;
}

static mf_status cmd_graph_optimize_read_signature(cmd_graph_optimize_job *j)
{
    mf_signature *s = &j->sig;
    const int64_t max = j->args->n_given;
    const char *value;
    int64_t at = 0;

    j->feeds = MF_ARENA_ARRAY(j->arena, mf_output, max);
    j->fetches = MF_ARENA_ARRAY(j->arena, mf_output, max);
    j->shapes = MF_ARENA_ARRAY(j->arena, mf_shape, max);
    j->targets = MF_ARENA_ARRAY(j->arena, mf_node *, max);
    if (!j->feeds || !j->fetches || !j->shapes || !j->targets)
        return MF_NOMEM("arguments");
    while ((value = mf_args_next(j->args, "feed", &at)) != NULL)
        MF_TRY(read_feed(j, value, s->n_feeds++));
    for (at = 0; (value = mf_args_next(j->args, "fetch", &at)) != NULL;)
        MF_TRY(
            mf_cli_find_output(j->args, j->graph, "--fetch", value, &j->fetches[s->n_fetches++]));
    for (at = 0; (value = mf_args_next(j->args, "target", &at)) != NULL;)
        MF_TRY(mf_cli_find_node(j->args, j->graph, "--target", value, &j->targets[s->n_targets++]));
    s->feeds = j->feeds;
    s->fetches = j->fetches;
    s->feed_shapes = j->shapes;
    s->targets = j->targets;
    if (s->n_fetches > 0 || s->n_targets > 0)
        return MF_OK;
    mf_cli_hint_fetches(j->args, j->graph);
    return mf_args_wrong(j->args, "name an output or node with --fetch NODE:PORT or --target NODE");
}

/* ---- passes ---- */

static int64_t cmd_graph_optimize_count_nodes(const mf_graph *g)
{
    int64_t n = 0;

    for (int64_t i = 0; i < g->n_nodes; i++)
        n += !g->nodes[i]->removed;
    return n;
}

static mf_status run_passes(cmd_graph_optimize_job *j, mf_buf *out)
{
    mf_compile *c = &j->compile;
    int n;
    const mf_pass *passes = mf_passes(&n);

    mf_buf_printf(out, "%-10s %8s %8s %9s\n", "pass", "before", "after", "ms");
    MF_TRY(mf_compile_begin(c, j->graph, &j->sig));
    mf_buf_printf(out, "%-10s %8lld %8lld\n", "prune",
                  (long long)cmd_graph_optimize_count_nodes(j->graph),
                  (long long)cmd_graph_optimize_count_nodes(c->graph));
    for (int i = 0; i < n; i++) {
        const int64_t before = cmd_graph_optimize_count_nodes(c->graph), start = mf_clock_ns();

        if (c->disabled >> i & 1) {
            mf_buf_printf(out, "%-10s %8lld %8s\n", passes[i].name, (long long)before, "off");
            continue;
        }
        if (!passes[i].run) {
            mf_buf_printf(out, "%-10s %8lld %8s\n", passes[i].name, (long long)before, "below");
            continue; /* listed with the program */
        }
        MF_TRY(passes[i].run(c));
        MF_TRY(mf_graph_verify(c->graph));
        mf_buf_printf(out, "%-10s %8lld %8lld %9.3f\n", passes[i].name, (long long)before,
                      (long long)cmd_graph_optimize_count_nodes(c->graph),
                      (double)(mf_clock_ns() - start) / 1e6);
    }
    return MF_OK;
}

static void cmd_graph_optimize_say(const char *what, mf_output from, const char *to, mf_buf *out)
{
    char old[1100];

    (void)snprintf(old, sizeof old, "%.1000s:%d", from.node->name, from.port);
    if (to && strcmp(old, to) != 0) /* a feed that no node needs may have been removed */
        mf_buf_printf(out, "%s %s is now %s\n", what, old, to);
}

static mf_status cmd_graph_optimize_write_graph(cmd_graph_optimize_job *j, mf_buf *out)
{
    const char *path = mf_args_value(j->args, "output");
    mf_rewritten r;
    mf_status st;

    if (!path && !mf_args_has(j->args, "print"))
        return MF_OK;
    MF_TRY(mf_rewritten_graph(&j->compile, &j->sig, &r));
    for (int i = 0; i < j->sig.n_feeds; i++)
        cmd_graph_optimize_say("feed", j->sig.feeds[i], r.feeds[i], out);
    for (int i = 0; i < j->sig.n_fetches; i++)
        cmd_graph_optimize_say("fetch", j->sig.fetches[i], r.fetches[i], out);
    if (mf_args_has(j->args, "print")) {
        mf_buf_str(out, "\n");
        mf_graph_print(r.graph, out);
    }
    st = path ? mf_graph_save(r.graph, path) : MF_OK;
    mf_graph_free(r.graph);
    return st;
}

static mf_status optimize(cmd_graph_optimize_job *j, mf_buf *out)
{
    MF_TRY(mf_passes_parse(mf_args_value(j->args, "disable"), &j->compile.disabled));
    MF_TRY(mf_cli_load_graph(j->args, j->args->words[0], &j->graph));
    j->arena = mf_arena_new();
    if (!j->arena)
        return MF_NOMEM("arguments");
    MF_TRY(cmd_graph_optimize_read_signature(j));
    MF_TRY(mf_resources_new(&j->session));
    MF_TRY(mf_pool_new(1, &j->pool));
    j->compile.session = j->session;
    j->compile.pool = j->pool;
    MF_TRY(run_passes(j, out));
    MF_TRY(cmd_graph_optimize_write_graph(j, out));
    MF_TRY(mf_program_build(&j->compile, &j->program));
    mf_buf_str(out, "\n");
    mf_program_print(j->program, out);
    return MF_OK;
}

static mf_status list_passes(void)
{
    mf_buf text = { 0 };
    int n;
    const mf_pass *passes = mf_passes(&n);

    for (int i = 0; i < n; i++)
        mf_buf_printf(&text, "%-10s %-7s %s\n", passes[i].name,
                      passes[i].exact ? "exact" : "rounds", passes[i].about);
    return mf_cli_print(&text);
}

static mf_status optimize_run(mf_args *args)
{
    cmd_graph_optimize_job j = { .args = args };
    mf_buf text = { 0 };
    mf_status st;

    if (mf_args_has(args, "list"))
        return list_passes();
    if (args->n_words == 0)
        return mf_args_wrong(args, "meshflow graph optimize needs GRAPH, or --list");
    st = optimize(&j, &text);
    if (st == MF_OK)
        st = mf_cli_print(&text);
    mf_buf_deinit(&text);
    mf_program_free(j.program);
    mf_compile_end(&j.compile);
    mf_pool_free(j.pool);
    mf_resources_free(j.session);
    mf_arena_free(j.arena);
    mf_graph_free(j.graph);
    return st;
}

static const mf_option options[] = {
    { .name = "fetch", .value = "NODE:PORT", .help = "output to compute", .many = true },
    { .name = "target", .value = "NODE", .help = "node to run", .many = true },
    { .name = "feed",
      .value = "NAME[=SHAPE]",
      .help = "output to feed, with a shape such as [2,?,3] (default: that of the placeholder)",
      .many = true },
    { .name = "disable", .value = "PASS,...", .help = "passes to switch off, separated by commas" },
    { .name = "output",
      .value = "FILE",
      .help = "write the rewritten graph: .pbtxt as text, otherwise binary",
      .letter = 'o' },
    { .name = "print", .help = "print the rewritten graph" },
    { .name = "list",
      .help = "list the passes. exact: the pass changes no bit of a result; rounds: results may "
              "round differently" },
    { 0 },
};

const mf_command mf_command_graph_optimize = {
    .name = "graph optimize",
    .arguments = "GRAPH",
    .summary = "show how the compiler optimizes a graph",
    .about = "Prints each pass with the number of nodes before and after it, and the execution "
             "plan: its items, the regions that run as one item, the memory of each value. "
             "`meshflow graph run` performs the same passes.",
    .options = options,
    .examples = (const char *const[]){ "meshflow graph optimize --list",
                                       "meshflow graph optimize model.pb --fetch y --feed "
                                       "'x=[8,3]' -o small.pb",
                                       NULL },
    .max_args = 1,
    .run = optimize_run,
};
