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
    .about = "The format of a line is\n\n  name = Op(input:0, ^control) {attr=value} @device : "
             "output types\n\nAttributes with their default value are omitted. Nodes are in the "
             "order of the file, followed by functions in the order of their names, so that two "
             "graphs can be compared with diff(1).",
    .examples = (const char *const[]){ "meshflow graph print model.pb", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = cmd_graph_print_run,
};

const mf_command mf_command_graph_dot = {
    .name = "graph dot",
    .arguments = "GRAPH",
    .summary = "print a graph for Graphviz",
    .about = "Dashed edges are control edges. The number at the tail of an edge is the output "
             "port.",
    .examples = (const char *const[]){ "meshflow graph dot model.pb | dot -Tsvg >model.svg", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = dot_run,
};
