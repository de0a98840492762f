/* SPDX-License-Identifier: Apache-2.0 */
/* resolver.h - the interface of a convention, and helpers of the files that implement one. For this
 * folder only.
 *
 * A convention fills an empty description: tasks, which one is its own, facts. An error is recorded
 * in the description, and the convention continues, so that all errors are reported at once. An
 * out-of-memory condition is recorded in the description (no_memory). */
#ifndef MF_CLUSTER_RESOLVE_RESOLVER_H
#define MF_CLUSTER_RESOLVE_RESOLVER_H

#include "cluster/resolve/resolve.h"

typedef struct mf_resolver {
    const char *name;
    bool (*applies)(const mf_cluster_request *request); /* does the convention apply to this
                                                           process? */
    void (*resolve)(const mf_cluster_request *request, mf_cluster *cluster);
} mf_resolver;

/* Strongest first; ended by NULL. */
extern const mf_resolver *const mf_resolvers[];

extern const mf_resolver mf_resolver_flags, mf_resolver_tf_config, mf_resolver_torchrun,
    mf_resolver_open_mpi, mf_resolver_mpich, mf_resolver_slurm, mf_resolver_kubernetes,
    mf_resolver_hostfile;

/* ---- building (spec_build.c) ---- */

mf_cluster *mf_cluster_new(void); /* NULL: no memory */
/* Text in the arena; "" when out of memory. */
const char *mf_cluster_text(mf_cluster *c, const char *fmt, ...) MF_PRINTF(2, 3);
void mf_cluster_fact(mf_cluster *c, const char *what, const char *from, const char *fmt, ...)
    MF_PRINTF(4, 5);
void mf_cluster_note(mf_cluster *c, const char *fmt, ...) MF_PRINTF(2, 3);
/* `place` and `fix` live as long as the description. */
void mf_cluster_mistake(mf_cluster *c, const char *place, const char *fix, const char *fmt, ...)
    MF_PRINTF(4, 5);
/* A task; address NULL: unknown. An invalid address becomes an error at `from`. */
void mf_cluster_add(mf_cluster *c, mf_role role, int64_t index, const char *address,
                    const char *from);
/* Which one this process is. */
void mf_cluster_own(mf_cluster *c, mf_role role, int64_t index, const char *from);
/* A role by its name; an error suggests the closest one. */
bool mf_cluster_role(mf_cluster *c, const char *name, const char *place, mf_role *out);
/* Sort, number, find duplicates, find this process in the list. */
void mf_cluster_finish(mf_cluster *c, const mf_cluster_request *request);

/* ---- reading (resolve.c) ---- */

/* NULL for a variable that is not set or empty. */
const char *mf_request_env(const mf_cluster_request *request, const char *name);
/* The first of several names (ended by NULL) that is set; *name: which one. */
const char *mf_request_any(const mf_cluster_request *request, const char *const *names,
                           const char **name);
/* A variable that holds an integer: false when it is absent, or not an integer, which is an error.
 */
bool mf_request_int(const mf_cluster_request *request, mf_cluster *c, const char *name, int64_t min,
                    int64_t max, int64_t *out);

/* ---- engines that number processes (roles_from_ranks.c) ---- */

/* Names of variables, each in the order of preference. */
typedef struct mf_rank_names {
    const char *rank[3], *size[3], *local_rank[3], *local_size[3]; /* the last is NULL */
} mf_rank_names;

/* Tasks of a job whose processes are numbered; the last request->ps of them are servers. Returns
 * the number of processes; 0 after an error. */
int mf_cluster_ranks(const mf_cluster_request *request, mf_cluster *c, const mf_rank_names *names);
/* Where the tasks connect. MESHFLOW_RENDEZVOUS takes precedence. `host` NULL: unknown, an error. */
void mf_cluster_set_rendezvous(const mf_cluster_request *request, mf_cluster *c, const char *host,
                               int port, const char *from);
/* 20000 to 29999 for a name of the job: the same for all its processes, rarely that of another job.
 */
int mf_job_port(const char *id);

/* ---- descriptions in JSON (spec_json.c) ---- */

/* TF_CONFIG: {"cluster": {...}, "task": {...}}, or the value of "cluster" alone. */
void mf_tf_config_decode(mf_cluster *c, const char *text, size_t len, const char *place);
/* Does it have a cluster, or an error? False for "{}" and the like. */
bool mf_tf_config_speaks(const char *text, size_t len);

/* ---- hosts (nodelist.c, hostfile.c) ---- */

/* A host and the number of its processes. */
typedef struct mf_host {
    const char *name;
    int slots;
} mf_host;

typedef struct mf_hosts {
    mf_host *hosts;
    int64_t n, cap;
} mf_hosts;

/* Slurm's "n[1-3,07],login": names in the arena of c, array freed by mf_free(). False after an
 * error at `place`. */
bool mf_nodelist_decode(mf_cluster *c, const char *text, const char *place, mf_hosts *out);
/* Slurm's "3(x2),2" into the slots of existing hosts. */
bool mf_tasks_per_node_decode(mf_cluster *c, const char *text, const char *place, mf_hosts *hosts);
/* "host slots=4", "host:4", "host"; '#' begins a comment. */
bool mf_hostfile_decode(mf_cluster *c, const char *text, size_t len, const char *place,
                        mf_hosts *out);

#endif
