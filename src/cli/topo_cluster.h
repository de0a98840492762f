/* SPDX-License-Identifier: Apache-2.0 */
/* topo_cluster.h - a running cluster of servers: which hosts, which tasks on them, what they are.
 */
#ifndef MF_CLI_TOPO_CLUSTER_H
#define MF_CLI_TOPO_CLUSTER_H

#include "cli/command.h"

/* `topo --cluster`: as text, --json or --dot. */
MF_MUST mf_status mf_topo_cluster(mf_args *args);

#endif
