/* SPDX-License-Identifier: Apache-2.0 */
/* strategies.h - the rows of the table of strategies: how each finds its team. */
#ifndef MF_JOB_STRATEGIES_H
#define MF_JOB_STRATEGIES_H

#include "cluster/resolve.h"
#include "comm/net.h"
#include "graph/options.h"
#include "parallel/aggregate.h"
#include "train/team.h"
#include "train/trainer.h"

/* What a strategy is opened with. */
typedef struct mf_strategy_call {
    const char *name;
    const char *text; /* name and settings, as given: the same for all tasks */
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
MF_MUST mf_status mf_reduce_to_one_open(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_ps_open(const mf_strategy_call *call, mf_strategy **out); /* ps.c */
MF_MUST mf_status mf_mirrored_open(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_central_storage_open(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_local_sgd_open(const mf_strategy_call *call, mf_strategy **out);

/* The settings of a strategy that say what becomes of gradients. */
#define MF_AGGREGATION_SETTINGS                                                                    \
    "aggregation: string = 'sum', trim: float = 0.1, weights: list(float) = []"
/* For `size` members. Owns: mf_free(*owned), also after a failure. */
MF_MUST mf_status mf_aggregation_read(const mf_options *o, int size, mf_aggregation *out,
                                      double **owned);
/* INVALID_ARGUMENT: it is not for this model. */
MF_MUST mf_status mf_aggregation_join(const mf_aggregation *a, const mf_trainer *t);

/* Which tasks there are, by what the options and the environment say. Owns: mf_cluster_free(). */
MF_MUST mf_status mf_job_resolve(const mf_strategy_options *o, mf_cluster **out);
/* Others see this process as its task of o->job, if that is set, until mf_board_close(). Fails as
 * mf_strategy_open() does. */
MF_MUST mf_status mf_job_show(const mf_strategy_options *o);
/* How long somebody is waited for. */
int64_t mf_job_timeout_ns(const mf_strategy_options *o);
/* Those that compute together, by rank, then those of the role `others`, connected with each other;
 * hub: only with this one (NULL: all with all). Owns: mf_net_close(). */
MF_MUST mf_status mf_job_connect_with(const mf_strategy_call *call, mf_role others, const int *hub,
                                      mf_net **out);
/* All tasks connected with each other: those that train together first, by rank, then the parameter
 * servers. Owns: mf_net_close(). */
MF_MUST mf_status mf_job_connect(const mf_strategy_call *call, mf_net **out);
/* A group of all of them, of the kind that the setting `collective` names: "auto", "shared", "net"
 * or an algorithm. id: see mf_group_net(). */
MF_MUST mf_status mf_job_group(const mf_strategy_call *call, mf_net *net, uint32_t id,
                               mf_group **out);

#endif
