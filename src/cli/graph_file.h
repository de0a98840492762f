/* SPDX-License-Identifier: Apache-2.0 */
/* graph_file.h - what the graph commands share: reading the file, finding what is named in it. */
#ifndef MF_CLI_GRAPH_FILE_H
#define MF_CLI_GRAPH_FILE_H

#include "cli/command.h"
#include "graph/graph.h"
#include "proto/graph.pb-c.h"

/* A graph file as a message in `arena`, its ops not looked at. */
MF_MUST mf_status mf_cli_read_graph(mf_args *args, const char *path, mf_arena *arena,
                                    const Tensorflow__GraphDef **out);
/* The same as a graph. Owns: the caller frees *out. */
MF_MUST mf_status mf_cli_load_graph(mf_args *args, const char *path, mf_graph **out);
/* Put the file's name in front of the message of a failure; returns `st`. */
mf_status mf_cli_name_file(mf_status st, const char *path);

/* "node" or "node:port"; what: "--fetch". Hints at the name that may have been meant. */
MF_MUST mf_status mf_cli_find_output(mf_args *args, const mf_graph *graph, const char *what,
                                     const char *text, mf_output *out);
MF_MUST mf_status mf_cli_find_node(mf_args *args, const mf_graph *graph, const char *what,
                                   const char *name, mf_node **out);
/* Hint at outputs that no node uses: probably what the graph is for. */
void mf_cli_hint_fetches(mf_args *args, const mf_graph *graph);

#endif
