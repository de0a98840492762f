/* SPDX-License-Identifier: Apache-2.0 */
/* strategies.h - the rows of the table of strategies: how each finds its team. */
#ifndef MF_DIST_STRATEGIES_H
#define MF_DIST_STRATEGIES_H

#include "cluster/membership/membership.h"
#include "cluster/resolve/resolve.h"
#include "collective/gradient_aggregation.h"
#include "collective/net_groups.h"
#include "dist/codec/codec.h"
#include "dist/strategy_settings.h"
#include "net/net.h"
#include "train/loop/team.h"
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
/* One server has all variables, and workers compute each batch together. */
MF_MUST mf_status mf_ps_open_central(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_mirrored_open(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_central_storage_open(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_local_sgd_open(const mf_strategy_call *call, mf_strategy **out);
MF_MUST mf_status mf_mesh_open(const mf_strategy_call *call,
                               mf_strategy **out); /* strategy_mesh.c */
/* Of a strategy mesh: its processors, and the wire to those elsewhere; NULL: it is another one. */
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

/* Which tasks there are, by what the options and the environment say. Owns: mf_cluster_free(). */
MF_MUST mf_status mf_job_resolve(const mf_strategy_options *o, mf_cluster **out);
/* Others see this process as its task of o->job, if that is set, until mf_status_page_close().
 * Fails as mf_strategy_open() does. */
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

/* A group of one, who meets itself. Owns: mf_group_free(), then mf_segment_free(*memory), also
 * after a failure. */
MF_MUST mf_status mf_job_group_alone(mf_segment **memory, mf_group **out);

/* Parts of these. What all must have in common, as lines; how frames travel between tasks at these
 * addresses; a group of a kind. */
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

/* ---- tasks that come and go (rejoin.c) ---- */

/* What is needed to connect again and again: see mf_members. */
typedef struct mf_job_members {
    mf_members *members; /* NULL: not registered yet */
    char *store, *name, *address, *identity, *collective;
    char **first; /* names of all tasks that begin */
    int n_first;
    mf_job_way way;
    int64_t timeout_ns;
    const mf_view *view; /* at hand; NULL: none yet */
    int n_workers, n_servers; /* of the view */
    int self; /* among its tasks, of which workers come first, in the order of the view */
    pthread_mutex_t lock; /* of net */
    mf_net *net; /* of the view at hand; NULL: not connected */
    const mf_dist_worker
        *team; /* that meets, with this trainer, which may be told to end; NULL: none yet */
    const mf_trainer *trainer;
} mf_job_members;

/* Is there a store, and can this transport lose a task? Else nobody may be missing. */
bool mf_job_may_change(const mf_strategy_options *o, const mf_cluster *cluster);
/* Those that train together, and parameter servers. Copies what it needs of the call. Owns:
 * mf_job_members_deinit(), also after a failure. */
MF_MUST mf_status mf_job_members_init(const mf_strategy_call *call, mf_job_members *out);
void mf_job_members_deinit(mf_job_members *j);
/* Give up the view at hand, and be connected with the members of a later one. Fails where it is no
 * matter of others: see mf_members_next(). */
MF_MUST mf_status mf_job_members_meet(mf_job_members *j);
/* Let go of the connections; those who wait for us are told `why` (MF_OK: we leave). */
void mf_job_members_part(mf_job_members *j, mf_status why);
/* Is this failure due to others, who may be missing next time? */
bool mf_job_others_failed(mf_status st);
/* What this worker votes for in its next step (dist/step_flags.h). */
int mf_job_members_votes(mf_job_members *j, mf_dist_worker *team, bool wants_stop);
/* What has become of everybody's votes: *stop, and whether all meet again. */
void mf_job_take_votes(mf_dist_worker *team, int votes, bool *stop);
/* mf_dist_worker_kind.meet: part() from those of the epoch that is over, telling them why; then
 * once() with those of the next, until that does not fail because of others. */
typedef struct mf_job_meeting {
    void (*part)(mf_dist_worker *team, mf_status why);
    mf_status (*once)(mf_dist_worker *team, mf_trainer *t);
} mf_job_meeting;
MF_MUST mf_status mf_job_meet(mf_dist_worker *team, mf_trainer *t, const mf_job_meeting *m,
                              mf_status why);
/* mf_dist_worker_kind.note_saved and .over. Nothing, where all must stay. */
MF_MUST mf_status mf_job_note_saved(mf_dist_worker *team);
MF_MUST mf_status mf_job_note_end(mf_dist_worker *team);
/* What mf_dist_worker_kind.meet has to say of the view at hand. */
MF_MUST mf_status mf_job_describe_view(mf_job_members *j, mf_dist_worker *team);
/* A group of all members that train. */
MF_MUST mf_status mf_job_members_group(mf_job_members *j, uint32_t id, mf_group **out);

#endif
