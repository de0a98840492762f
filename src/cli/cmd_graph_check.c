/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_graph_check.c - `meshflow graph check`: verifies a graph and lists unsupported ops. */
#include "cli/graph_file.h"
#include "graph/absent.h"
#include "graph/graphdef_codec.h"

#include <stdlib.h>
#include <string.h>

typedef struct use {
    const char *op;
    int64_t count;
} use;

/* Ops of the graph and of the bodies of its functions. */
typedef struct uses {
    use **list; /* in the arena */
    int64_t n, cap;
    mf_map index; /* op -> use */
    mf_map functions;
    mf_arena *arena;
} uses;

static mf_status cmd_graph_check_count_nodes(uses *u, Tensorflow__NodeDef *const *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *op = nodes[i]->op;
        use *found = mf_map_find(&u->index, op);

        if (!found) {
            found = MF_ARENA_NEW(u->arena, use);
            if (!found)
                return MF_NOMEM("counting ops");
            MF_TRY(mf_grow(&u->list, &u->cap, u->n + 1, sizeof(use *)));
            MF_TRY(mf_map_set(&u->index, op, found));
            u->list[u->n++] = found;
            found->op = op;
        }
        found->count++;
    }
    return MF_OK;
}

static int cmd_graph_check_by_count(const void *a, const void *b)
{
    const use *x = *(const use *const *)a, *y = *(const use *const *)b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return strcmp(x->op, y->op);
}

static mf_status count_ops(uses *u, const Tensorflow__GraphDef *def)
{
    const Tensorflow__FunctionDefLibrary *lib = def->library;

    MF_TRY(cmd_graph_check_count_nodes(u, def->node, def->n_node));
    for (size_t i = 0; lib && i < lib->n_function; i++) {
        Tensorflow__FunctionDef *f = lib->function[i];

        MF_TRY(cmd_graph_check_count_nodes(u, f->node_def, f->n_node_def));
        if (f->signature)
            MF_TRY(mf_map_set(&u->functions, f->signature->name, f));
    }
    if (u->n > 0)
        qsort(u->list, (size_t)u->n, sizeof(use *), cmd_graph_check_by_count);
    return MF_OK;
}

static const char *closest_op(const char *name)
{
    mf_did_you_mean c = mf_did_you_mean_to(name);
    int n;
    const mf_op *const *all = mf_op_all(&n);

    for (int i = 0; i < n; i++)
        mf_did_you_mean_try(&c, all[i]->name);
    return c.best && c.distance <= 2 ? c.best : NULL;
}

static bool cmd_graph_check_is_known(const uses *u, const char *op)
{
    return mf_op_find(op) || mf_map_find(&u->functions, op);
}

/* Prints both lists; returns the number of unknown ops. */
static int64_t print_uses(const uses *u, mf_buf *out)
{
    int64_t unknown = 0;

    mf_buf_str(out, "  count  op\n");
    for (int64_t i = 0; i < u->n; i++) {
        const bool known = cmd_graph_check_is_known(u, u->list[i]->op);
        const bool absent = !known && mf_op_absent(u->list[i]->op);
        const char *close = known || absent ? NULL : closest_op(u->list[i]->op);

        unknown += !known;
        mf_buf_printf(out, "%7lld  %s%s", (long long)u->list[i]->count, u->list[i]->op,
                      known    ? ""
                      : absent ? "  NOT SUPPORTED"
                               : "  UNKNOWN");
        if (close)
            mf_buf_printf(out, ", similar: %s", close);
        if (!mf_op_find(u->list[i]->op) && known)
            mf_buf_str(out, "  (a function of the graph)");
        mf_buf_str(out, "\n");
    }
    return unknown;
}

static void cmd_graph_check_print_json(const uses *u, mf_status st, const Tensorflow__GraphDef *def,
                                       mf_buf *out)
{
    mf_buf_printf(out, "{\"ok\":%s,\"nodes\":%zu,\"functions\":%zu,\"ops\":{",
                  st == MF_OK ? "true" : "false", def->n_node,
                  def->library ? def->library->n_function : 0);
    for (int64_t i = 0; i < u->n; i++) {
        mf_buf_str(out, i > 0 ? "," : "");
        mf_buf_json(out, u->list[i]->op, strlen(u->list[i]->op));
        mf_buf_printf(out, ":%lld", (long long)u->list[i]->count);
    }
    mf_buf_str(out, "},\"unknown\":[");
    for (int64_t i = 0, n = 0; i < u->n; i++) {
        if (cmd_graph_check_is_known(u, u->list[i]->op))
            continue;
        mf_buf_str(out, n++ > 0 ? "," : "");
        mf_buf_json(out, u->list[i]->op, strlen(u->list[i]->op));
    }
    mf_buf_str(out, "],\"error\":");
    if (st == MF_OK)
        mf_buf_str(out, "null");
    else
        mf_buf_json(out, mf_error_message(), strlen(mf_error_message()));
    mf_buf_str(out, "}\n");
}

/* A failure of printing does not replace `st`. */
static mf_status print_and_fail(mf_buf *text, mf_status st)
{
    mf_error why;

    mf_error_save(st, &why);
    (void)!mf_cli_print(text);
    return mf_error_restore(&why);
}

/* A graph loads with ops that only TensorFlow supports, and fails when a run needs them. */
static mf_status all_supported(const uses *u)
{
    for (int64_t i = 0; i < u->n; i++) {
        if (!cmd_graph_check_is_known(u, u->list[i]->op))
            return MF_FAIL(MF_UNIMPLEMENTED,
                           "Meshflow does not support the op %s: runs that need it fail; "
                           "docs/reference/ops.md lists the supported ops",
                           u->list[i]->op);
    }
    return MF_OK;
}

static mf_status cmd_graph_check_verdict(mf_args *args, const uses *u,
                                         const Tensorflow__GraphDef *def, mf_graph *graph)
{
    mf_buf text = { 0 };
    mf_status st = mf_graph_decode_message(graph, def);

    if (st == MF_OK)
        st = all_supported(u);
    if (mf_args_has(args, "json")) {
        cmd_graph_check_print_json(u, st, def, &text);
    } else {
        const int64_t unknown = print_uses(u, &text);

        mf_buf_printf(&text, "%zu nodes, %zu functions, %lld kinds of op, %lld unknown\n",
                      def->n_node, def->library ? def->library->n_function : 0, (long long)u->n,
                      (long long)unknown);
        mf_buf_str(&text, st == MF_OK ? "the graph is valid\n" : "");
    }
    return st == MF_OK ? mf_cli_print(&text) : print_and_fail(&text, st);
}

static mf_status cmd_graph_check_run(mf_args *args)
{
    const Tensorflow__GraphDef *def;
    mf_graph *graph = NULL;
    uses u = { 0 };
    mf_status st;

    MF_TRY_TO(done, mf_graph_new(&graph));
    MF_TRY_TO(done, mf_cli_read_graph(args, args->words[0], graph->arena, &def));
    u.arena = graph->arena;
    MF_TRY_TO(done, count_ops(&u, def));
    MF_TRY_TO(done, cmd_graph_check_verdict(args, &u, def, graph));

done:
    mf_map_deinit(&u.index);
    mf_map_deinit(&u.functions);
    mf_free(u.list);
    mf_graph_free(graph);
    return st;
}

static const mf_option options[] = {
    { .name = "json", .help = "print one JSON object: ok, nodes, functions, ops, unknown, error" },
    { 0 },
};

const mf_command mf_command_graph_check = {
    .name = "graph check",
    .arguments = "GRAPH",
    .summary = "verify a graph and list its ops",
    .about = "Checks names, inputs, types and attributes, and that there is no cycle. The first "
             "problem is reported, and the exit code is 1. Ops of the graph and of its functions "
             "are counted. An op that TensorFlow has and Meshflow does not support is marked NOT "
             "SUPPORTED: runs that need it fail, other runs do not.",
    .options = options,
    .examples = (const char *const[]){ "meshflow graph check model.pb", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = cmd_graph_check_run,
};
