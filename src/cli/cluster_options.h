/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_options.h - the options that say which cluster this is, for the tables of all commands
 * that may be one of several processes. */
#ifndef MF_CLI_CLUSTER_OPTIONS_H
#define MF_CLI_CLUSTER_OPTIONS_H

#include "cli/command.h"
#include "cluster/resolve.h"

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

/* With `ps`: the option --ps N of the command, how many of an engine's processes are servers.
 * Owns: strings are borrowed from args. Fails as a wrong call. */
MF_MUST mf_status mf_cluster_request_read(mf_args *args, mf_cluster_request *out);

#endif
