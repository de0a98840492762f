/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_options.h - the options that say which cluster this is, for the tables of all commands
 * that may be one of several processes. */
#ifndef MF_CLI_CLUSTER_OPTIONS_H
#define MF_CLI_CLUSTER_OPTIONS_H

#include "cli/command.h"
#include "cluster/resolve/resolve.h"

#include <meshflow/strategy.h>

#define MF_CLUSTER_OPTIONS                                                                         \
    { "cluster", "JSON", "the tasks, as in TF_CONFIG's \"cluster\"; or a file with it", 0,         \
      false },                                                                                     \
        { "job-name", "JOB", "which job this task is of: worker, ps, ...", 0, false },             \
        { "task-index", "N", "which task of its job this is", 0, false },                          \
        { "worker-hosts", "LIST", "addresses of the workers: a:2222,b:2222", 0, false },           \
        { "ps-hosts", "LIST", "addresses of the parameter servers", 0, false },                    \
    {                                                                                              \
        "hostfile", "FILE", "hosts and their slots, a line each: 'a slots=4'", 0, false            \
    }

/* The same, and how its tasks talk. */
#define MF_CONNECT_OPTIONS                                                                         \
    { "timeout", "SECONDS",                                                                        \
      "how long to wait for another task, a store or a server (default: 60)", 0, false },          \
        MF_CLUSTER_OPTIONS,                                                                        \
        { "transport", "T",                                                                        \
          "between tasks: local, grpc, ucx or mpi; by their addresses unless told", 0, false },    \
        { "store", "URL",                                                                          \
          "who belongs to the job: file:DIR, etcd://HOST:PORT/PREFIX; with it tasks may come, "    \
          "leave and die",                                                                         \
          0, false },                                                                              \
        { "tls-dir", "DIR", "certificates, as `meshflow cert` makes them", 0, false },             \
        { "trusted-network", NULL, "ucx and mpi may go between hosts: they do not encrypt", 0,     \
          false },                                                                                 \
    {                                                                                              \
        "insecure-any-peer", NULL, "between hosts without TLS: whoever comes is let in", 0, false  \
    }

/* What they say. Owns: strings are borrowed from args. Fails as a wrong call. */
MF_MUST mf_status mf_connect_options_read(mf_args *args, mf_strategy_options *out);

/* With `ps`: the option --ps N of the command, how many of an engine's processes are servers.
 * Owns: strings are borrowed from args. Fails as a wrong call. */
MF_MUST mf_status mf_cluster_request_read(mf_args *args, mf_cluster_request *out);

#endif
