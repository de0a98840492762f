/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_options.h - options that describe the cluster, for the option tables of all commands that
 * can be one task of several. */
#ifndef MF_CLI_CLUSTER_OPTIONS_H
#define MF_CLI_CLUSTER_OPTIONS_H

#include "cli/command.h"
#include "cluster/resolve/resolve.h"

#include <meshflow/strategy.h>

#define MF_CLUSTER_OPTIONS                                                                         \
    { .name = "cluster",                                                                           \
      .value = "JSON",                                                                             \
      .group = MF_GROUP_DISTRIBUTION,                                                              \
      .scope = MF_OPTION_TASK_WITH_STORE,                                                          \
      .help = "tasks of the cluster, as in the \"cluster\" of TF_CONFIG, or a file that contains " \
              "them" },                                                                            \
        { .name = "job-name",                                                                      \
          .value = "ROLE",                                                                         \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_TASK,                                                                 \
          .help = "role of this task, called job name in TensorFlow: worker, ps, ..." },           \
        { .name = "task-index",                                                                    \
          .value = "N",                                                                            \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_TASK,                                                                 \
          .help = "index of this task among the tasks of its role" },                              \
        { .name = "worker-hosts",                                                                  \
          .value = "LIST",                                                                         \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_TASK_WITH_STORE,                                                      \
          .help = "addresses of the workers, e.g. a:2222,b:2222" },                                \
        { .name = "ps-hosts",                                                                      \
          .value = "LIST",                                                                         \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_TASK_WITH_STORE,                                                      \
          .help = "addresses of the parameter servers" },                                          \
    {                                                                                              \
        .name = "hostfile", .value = "FILE", .group = MF_GROUP_DISTRIBUTION,                       \
        .scope = MF_OPTION_TASK_WITH_STORE,                                                        \
        .help = "hosts and their slots, one per line, e.g. 'a slots=4'"                            \
    }

/* The same, and how the tasks communicate. */
#define MF_CONNECT_OPTIONS                                                                         \
    { .name = "timeout",                                                                           \
      .value = "SECONDS",                                                                          \
      .group = MF_GROUP_FAULTS,                                                                    \
      .scope = MF_OPTION_TASK,                                                                     \
      .help = "time to wait for another task, a store or a server (default: 60)" },                \
        MF_CLUSTER_OPTIONS,                                                                        \
        { .name = "transport",                                                                     \
          .value = "T",                                                                            \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "transport between tasks: local, grpc, ucx or mpi (default: chosen by the "      \
                  "addresses)" },                                                                  \
        { .name = "store",                                                                         \
          .value = "URL",                                                                          \
          .group = MF_GROUP_FAULTS,                                                                \
          .scope = MF_OPTION_TASK,                                                                 \
          .help = "membership store: file:DIR or etcd://HOST:PORT/PREFIX; with a store, "          \
                  "tasks may join, leave and fail" },                                              \
        { .name = "tls-dir",                                                                       \
          .value = "DIR",                                                                          \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_TASK,                                                                 \
          .help = "certificates of this task, as written by `meshflow cert`" },                    \
        { .name = "trusted-network",                                                               \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "let ucx and mpi connect hosts without encryption" },                            \
    {                                                                                              \
        .name = "insecure-any-peer", .group = MF_GROUP_DISTRIBUTION, .scope = MF_OPTION_JOB,       \
        .help = "accept connections from any host without TLS (unsafe)"                            \
    }

/* Reads MF_CONNECT_OPTIONS. Owns: strings are borrowed from args. Fails as invalid usage. */
MF_MUST mf_status mf_connect_options_read(mf_args *args, mf_strategy_options *out);

/* Reads MF_CLUSTER_OPTIONS and --ps, the number of processes of a launcher that are parameter
 * servers. Owns: strings are borrowed from args. Fails as invalid usage. */
MF_MUST mf_status mf_cluster_request_read(mf_args *args, mf_cluster_request *out);

#endif
