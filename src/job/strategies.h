/* SPDX-License-Identifier: Apache-2.0 */
/* strategies.h - the rows of the table of strategies: how each finds its team. */
#ifndef MF_JOB_STRATEGIES_H
#define MF_JOB_STRATEGIES_H

#include "cluster/resolve.h"
#include "comm/net.h"
#include "graph/options.h"
#include "train/team.h"

/* What a strategy is opened with. */
typedef struct mf_strategy_call {
    const char *name;
    const mf_options *settings;
    const mf_strategy_options *o;
    const mf_cluster *cluster;
    int64_t timeout_ns;
    mf_arena *arena;
} mf_strategy_call;

typedef struct mf_strategy_kind {
    const char *name, *settings, *about;
    mf_status (*open)(const mf_strategy_call *call, mf_strategy **out);
} mf_strategy_kind;

extern const mf_strategy_kind mf_strategies[]; /* name NULL ends it */

MF_MUST mf_status mf_workers_open(const mf_strategy_call *call, mf_strategy **out); /* workers.c */
MF_MUST mf_status mf_ps_open(const mf_strategy_call *call, mf_strategy **out); /* ps.c */

/* All tasks connected with each other: those that train together first, by rank, then the parameter
 * servers. Owns: mf_net_close(). */
MF_MUST mf_status mf_job_connect(const mf_strategy_call *call, mf_net **out);

#endif
