/* SPDX-License-Identifier: Apache-2.0 */
/* topo_cluster.h - a running cluster of servers: its hosts, their tasks and the state of each task.
 */
#ifndef MF_CLI_TOPO_CLUSTER_H
#define MF_CLI_TOPO_CLUSTER_H

#include "cli/command.h"

/* `doctor topo --cluster`: as text, --json or --dot. */
MF_MUST mf_status mf_topo_cluster(mf_args *args);

#endif
