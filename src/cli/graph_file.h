/* SPDX-License-Identifier: Apache-2.0 */
/* graph_file.h - reading graph files, and finding nodes by name. */
#ifndef MF_CLI_GRAPH_FILE_H
#define MF_CLI_GRAPH_FILE_H

#include "cli/command.h"
#include "graph/graph.h"
#include "proto/graph.pb-c.h"

/* Reads a graph file as a message in `arena`, without checking its ops. */
MF_MUST mf_status mf_cli_read_graph(mf_args *args, const char *path, mf_arena *arena,
                                    const Tensorflow__GraphDef **out);
/* Reads it as a graph. Owns: the caller frees *out. */
MF_MUST mf_status mf_cli_load_graph(mf_args *args, const char *path, mf_graph **out);
/* Adds the name of the file to the message of a failure; returns `st`. */
mf_status mf_cli_name_file(mf_status st, const char *path);

/* Finds "node" or "node:port"; what: "--fetch", for messages. A failure gets a hint with the
 * closest name. */
MF_MUST mf_status mf_cli_find_output(mf_args *args, const mf_graph *graph, const char *what,
                                     const char *text, mf_output *out);
MF_MUST mf_status mf_cli_find_node(mf_args *args, const mf_graph *graph, const char *what,
                                   const char *name, mf_node **out);
/* Hints at outputs that no node uses: probably the outputs of the graph. */
void mf_cli_hint_fetches(mf_args *args, const mf_graph *graph);

#endif
