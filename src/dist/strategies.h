/* SPDX-License-Identifier: Apache-2.0 */
/* strategies.h - the table of strategies, and how a strategy finds and connects its tasks. */
#ifndef MF_DIST_STRATEGIES_H
#define MF_DIST_STRATEGIES_H

#include "cluster/membership/membership.h"
#include "cluster/resolve/resolve.h"
#include "collective/gradient_aggregation.h"
#include "collective/net_groups.h"
#include "dist/codec/codec.h"
#include "dist/strategy_settings.h"
#include "net/net.h"
#include "train/loop/dist.h"
#include "train/step/trainer.h"

#include <pthread.h>

struct mf_mesh_spec;

/* What a strategy is opened with. */
typedef struct mf_strategy_call {
    const char *name;
    const mf_strategy_settings *settings; /* the same for all tasks; NULL: it is no strategy */
    mf_codecs *codecs; /* o->codec, parsed; ownership is transferred to the strategy. NULL: none */
    const mf_strategy_options *o;
    const mf_cluster *cluster;
    int64_t timeout_ns;
    mf_arena *arena;
} mf_strategy_call;

typedef struct mf_strategy_kind {
    const char *name, *settings, *about; /* settings: a signature, see graph/settings.h */
    unsigned common; /* MF_STRATEGY_COLLECTIVE and so on: settings that this strategy has */
    /* The settings of this strategy alone; NULL: there are none. */
    mf_status (*read)(const mf_options *o, mf_arena *arena, mf_strategy_settings *out);
    void (*print)(const mf_strategy_settings *s, const mf_setting_printer *p);
    mf_status (*open)(const mf_strategy_call *call, mf_strategy **out);
} mf_strategy_kind;

extern const mf_strategy_kind mf_strategies[]; /* name NULL ends it */

MF_MUST mf_status mf_workers_open(const mf_strategy_call *call,
                                  mf_strategy **out); /* strategy_multi_worker.c */
MF_MUST mf_status mf_reduce_to_one_open(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_ps_open(const mf_strategy_call *call,
                             mf_strategy **out); /* strategy_param_server.c */
/* One server holds all variables, and workers compute each batch together. */
MF_MUST mf_status mf_ps_open_central(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_mirrored_open(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_central_storage_open(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_local_sgd_open(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_mesh_open(const mf_strategy_call *call,
                               mf_strategy **out); /* strategy_mesh.c */
/* Of a strategy mesh: its devices, and the connection to devices of other processes; NULL: another
 * strategy. */
const struct mf_mesh_setup *mf_strategy_mesh_setup(const mf_strategy *strategy);
/* mf_strategy_mesh_relayout() to a parsed mesh and layout. */
MF_MUST mf_status mf_strategy_mesh_relayout_to(mf_strategy *strategy,
                                               const struct mf_mesh_spec *to);
MF_MUST mf_status mf_servers_open(const mf_strategy_call *call,
                                  mf_strategy **out); /* strategy_remote.c */

/* Of these settings, for `size` members; member: "worker", for messages. Owns: mf_free(*owned),
 * also after a failure. INVALID_ARGUMENT: another number of weights. */
MF_MUST mf_status mf_aggregation_make(const mf_strategy_settings *settings, const char *member,
                                      int size, mf_aggregation *out, double **owned);
/* INVALID_ARGUMENT: it is not for this model; or for its number of shards. */
MF_MUST mf_status mf_aggregation_check(const mf_aggregation *a, const mf_trainer *t);
MF_MUST mf_status mf_aggregation_join(const mf_aggregation *a, const mf_trainer *t);

/* The cluster that the options and the environment describe. Owns: mf_cluster_free(). */
MF_MUST mf_status mf_job_resolve(const mf_strategy_options *o, mf_cluster **out);
/* Show this process as its task of o->job, if that is set, until mf_status_page_close(). Fails as
 * mf_strategy_open() does. */
MF_MUST mf_status mf_job_show(const mf_strategy_options *o);
/* How long a task waits for a peer. */
int64_t mf_job_timeout_ns(const mf_strategy_options *o);
/* Connect the tasks that train together, by rank, then those of the role `others`; hub: only with
 * this task (NULL: all with all). Owns: mf_net_close(). */
MF_MUST mf_status mf_job_connect_with(const mf_strategy_call *call, mf_role others, const int *hub,
                                      mf_net **out);
/* Connect all tasks with each other: the tasks that train together first, by rank, then the
 * parameter servers. Owns: mf_net_close(). */
MF_MUST mf_status mf_job_connect(const mf_strategy_call *call, mf_net **out);
/* A group of all workers, of the kind that the setting `collective` names: "auto", "shared", "net"
 * or an algorithm. id: see mf_group_net(). */
MF_MUST mf_status mf_job_group(const mf_strategy_call *call, mf_net *net, uint32_t id,
                               mf_group **out);

/* A group of one member. Owns: mf_group_free(), then mf_segment_free(*memory), also after a
 * failure. */
MF_MUST mf_status mf_job_group_alone(mf_segment **memory, mf_group **out);

/* Parts of the calls above: the properties that all tasks must share, as lines; the transport
 * between tasks at these addresses; a group of a kind. */
typedef struct mf_job_way {
    const mf_transport_kind *transport;
    mf_security security;
    char *paths; /* that security points to. Owns: mf_free(), also after a failure */
} mf_job_way;
MF_MUST mf_status mf_job_identity(const mf_strategy_call *call, mf_buf *out);
MF_MUST mf_status mf_job_transport(const mf_strategy_call *call, const char *const *addresses,
                                   int n, const char *self, mf_job_way *out);
MF_MUST mf_status mf_job_group_of(mf_net *net, const int *members, int n, uint32_t id,
                                  const char *how, mf_group **out);

#endif
