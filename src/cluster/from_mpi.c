/* SPDX-License-Identifier: Apache-2.0 */
/* from_mpi.c - what mpirun tells its processes: Open MPI, and MPICH with others that speak PMI. No
 * library of theirs is needed to read it. */
#include "cluster/address.h"
#include "cluster/resolver.h"

#include <string.h>
#include <unistd.h>

static const mf_rank_names open_mpi_names = {
    .rank = { "OMPI_COMM_WORLD_RANK" },
    .size = { "OMPI_COMM_WORLD_SIZE" },
    .local_rank = { "OMPI_COMM_WORLD_LOCAL_RANK" },
    .local_size = { "OMPI_COMM_WORLD_LOCAL_SIZE" },
};

static const mf_rank_names mpich_names = {
    .rank = { "PMI_RANK" },
    .size = { "PMI_SIZE" },
    .local_rank = { "MPI_LOCALRANKID", "PMI_LOCAL_RANK" },
    .local_size = { "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE" },
};

/* Variables whose value is one job's and nobody else's. */
static const char *const job_ids[] = {
    "PMIX_NAMESPACE",
    "OMPI_MCA_orte_hnp_uri",
    "OMPI_MCA_ess_base_jobid",
    "PMI_JOBID",
    "PMI_PORT",
    "HYDRA_JOBID",
    "SLURM_JOB_ID",
    NULL,
};

/* Rank 0's host: this one if all are here; in a Slurm allocation its first. Nothing else says. */
static const char *first_host(const mf_cluster_request *request, mf_cluster *c, int size)
{
    const char *list = mf_request_env(request, "SLURM_JOB_NODELIST"), *host = NULL;
    mf_hosts hosts = { 0 };

    if (c->local_size == size)
        return "127.0.0.1";
    if (list && mf_nodelist_decode(c, list, "SLURM_JOB_NODELIST", &hosts) && hosts.n > 0)
        host = hosts.hosts[0].name;
    mf_free(hosts.hosts);
    return host;
}

static void meet(const mf_cluster_request *request, mf_cluster *c, int size)
{
    const char *name, *id = mf_request_any(request, job_ids, &name);
    const char *host;

    if (mf_request_env(request, "MESHFLOW_RENDEZVOUS"))
        return;
    host = first_host(request, c, size);
    if (!id) {
        /* All processes here are children of one mpirun (or of its proxy). */
        id = mf_cluster_text(c, "parent %d", (int)getppid());
        name = "the parent process";
        if (c->local_size != size)
            host = NULL;
    }
    mf_cluster_meet(request, c, host, mf_job_port(id), mf_cluster_text(c, "port from %s", name));
}

static bool open_mpi_applies(const mf_cluster_request *request)
{
    return mf_request_env(request, "OMPI_COMM_WORLD_RANK") ||
           mf_request_env(request, "OMPI_COMM_WORLD_SIZE");
}

static void open_mpi_resolve(const mf_cluster_request *request, mf_cluster *c)
{
    const int size = mf_cluster_ranks(request, c, &open_mpi_names);

    if (size > 1)
        meet(request, c, size);
}

static bool mpich_applies(const mf_cluster_request *request)
{
    return mf_request_env(request, "PMI_RANK") || mf_request_env(request, "PMI_SIZE");
}

static void mpich_resolve(const mf_cluster_request *request, mf_cluster *c)
{
    const int size = mf_cluster_ranks(request, c, &mpich_names);

    if (size > 1)
        meet(request, c, size);
}

const mf_resolver mf_resolver_open_mpi = {
    .name = "Open MPI",
    .applies = open_mpi_applies,
    .resolve = open_mpi_resolve,
};

const mf_resolver mf_resolver_mpich = {
    .name = "MPICH",
    .applies = mpich_applies,
    .resolve = mpich_resolve,
};
