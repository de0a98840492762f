/* SPDX-License-Identifier: Apache-2.0 */
/* roles_from_ranks.c - roles and indices of tasks from rank and number of processes, for torchrun,
 * MPI and Slurm: the first ranks are workers, the last ones parameter servers. */
#include "base/map.h"
#include "cluster/resolve/address.h"
#include "cluster/resolve/resolver.h"

#include <string.h>

enum { FIRST_PORT = 20000, PORTS = 10000 }; /* below the kernel's own, 32768 to 60999 */

int mf_job_port(const char *id)
{
    return FIRST_PORT + (int)(mf_hash(id, strlen(id), 0) % PORTS);
}

/* The number in the first variable that is set; -1: none is set, or it is not a number. */
static int64_t read_one(const mf_cluster_request *request, mf_cluster *c, const char *const *names,
                        const char *what, int64_t min)
{
    const char *name;
    int64_t value;

    if (!mf_request_any(request, names, &name) ||
        !mf_request_int(request, c, name, min, MF_CLUSTER_MAX_TASKS, &value))
        return -1;
    mf_cluster_fact(c, what, name, "%lld", (long long)value);
    return value;
}

static void ranks_missing(const mf_cluster_request *request, mf_cluster *c,
                          const char *const *missing, const char *const *other)
{
    const char *name;

    if (mf_request_any(request, missing, &name)) /* it is set, and its error is recorded already */
        return;
    (void)mf_request_any(request, other, &name);
    mf_cluster_mistake(c, name,
                       mf_cluster_text(c, "set %s too, or unset %s to run alone", missing[0], name),
                       "%s is set, but %s is not", name, missing[0]);
}

static void read_local(const mf_cluster_request *request, mf_cluster *c, const mf_rank_names *names,
                       int64_t size)
{
    const int64_t rank = read_one(request, c, names->local_rank, "local rank", 0);
    const int64_t n = read_one(request, c, names->local_size, "local size", 1);
    const char *name;

    if (n > size) {
        (void)mf_request_any(request, names->local_size, &name);
        mf_cluster_mistake(c, name, "at most as many as all processes",
                           "%lld processes on this host are more than the %lld in all",
                           (long long)n, (long long)size);
    } else if (n >= 0 && rank >= n) {
        (void)mf_request_any(request, names->local_rank, &name);
        mf_cluster_mistake(c, name, mf_cluster_text(c, "use 0 to %lld", (long long)n - 1),
                           "local rank %lld is out of range: this host has %lld processes",
                           (long long)rank, (long long)n);
    }
    c->local_rank = (int)rank;
    c->local_size = (int)n;
}

int mf_cluster_ranks(const mf_cluster_request *request, mf_cluster *c, const mf_rank_names *names)
{
    const int64_t rank = read_one(request, c, names->rank, "process", 0);
    const int64_t size = read_one(request, c, names->size, "processes", 1);
    const int64_t workers = size - request->ps;
    const char *rank_name, *size_name;

    if (rank < 0)
        ranks_missing(request, c, names->rank, names->size);
    if (size < 0)
        ranks_missing(request, c, names->size, names->rank);
    if (rank < 0 || size < 0)
        return 0;
    (void)mf_request_any(request, names->rank, &rank_name);
    (void)mf_request_any(request, names->size, &size_name);
    read_local(request, c, names, size);
    if (rank >= size) {
        mf_cluster_mistake(c, rank_name, mf_cluster_text(c, "use 0 to %lld", (long long)size - 1),
                           "%s=%lld is out of range: %s=%lld", rank_name, (long long)rank,
                           size_name, (long long)size);
        return 0;
    }
    if (request->ps < 0 || workers < 1) {
        mf_cluster_mistake(c, "--ps", "start more processes, or use fewer servers",
                           "--ps %d leaves no worker of %s=%lld", request->ps, size_name,
                           (long long)size);
        return 0;
    }
    for (int64_t i = 0; i < size && !c->no_memory; i++)
        mf_cluster_add(c, i < workers ? MF_ROLE_WORKER : MF_ROLE_PS, i < workers ? i : i - workers,
                       NULL, size_name);
    if (rank < workers)
        mf_cluster_own(c, MF_ROLE_WORKER, rank, rank_name);
    else
        mf_cluster_own(c, MF_ROLE_PS, rank - workers, rank_name);
    return (int)size;
}

void mf_cluster_set_rendezvous(const mf_cluster_request *request, mf_cluster *c, const char *host,
                               int port, const char *from)
{
    if (mf_request_env(request, "MESHFLOW_RENDEZVOUS"))
        return; /* the same for every convention */
    if (!host) {
        mf_cluster_mistake(
            c, from,
            "set MESHFLOW_RENDEZVOUS=HOST:PORT for all processes, where HOST runs "
            "process 0 (Open MPI: mpirun -x MESHFLOW_RENDEZVOUS=...; MPICH: mpiexec "
            "-genv)",
            "the processes are on several hosts, and nothing names that of process 0");
        return;
    }
    c->rendezvous = mf_cluster_text(c, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    mf_cluster_fact(c, "rendezvous", from, "%s", c->rendezvous);
}
