/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_graph_print.c - `meshflow graph print` and `meshflow graph dot`. */
#include "cli/graph_file.h"

static mf_status print_as(mf_args *args, void (*print)(const mf_graph *graph, mf_buf *out))
{
    mf_graph *graph;
    mf_buf text = { 0 };

    MF_TRY(mf_cli_load_graph(args, args->words[0], &graph));
    print(graph, &text);
    mf_graph_free(graph);
    return mf_cli_print(&text);
}

static mf_status cmd_graph_print_run(mf_args *args)
{
    return print_as(args, mf_graph_print);
}

static mf_status dot_run(mf_args *args)
{
    return print_as(args, mf_graph_dot);
}

const mf_command mf_command_graph_print = {
    .name = "graph print",
    .arguments = "GRAPH",
    .summary = "print a graph as text, one line per node",
    .about = "A line is\n\n"
             "  name = Op(input:0, ^control) {attr=value} @device : output types\n\n"
             "Attributes that have their default are left out. Nodes stand in the order of the "
             "file, functions follow by name, so texts of two graphs can be compared with diff.",
    .examples = (const char *const[]){ "meshflow graph print model.pb", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = cmd_graph_print_run,
};

const mf_command mf_command_graph_dot = {
    .name = "graph dot",
    .arguments = "GRAPH",
    .summary = "print a graph for Graphviz",
    .about = "Dashed edges are control edges; a number at an edge's tail is the output it leaves.",
    .examples = (const char *const[]){ "meshflow graph dot model.pb | dot -Tsvg >model.svg", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = dot_run,
};
