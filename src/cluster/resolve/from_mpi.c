/* SPDX-License-Identifier: Apache-2.0 */
/* from_mpi.c - what mpirun sets for its processes: Open MPI, and MPICH and others that speak PMI.
 * Reading it needs no MPI library. */
#include "cluster/resolve/address.h"
#include "cluster/resolve/resolver.h"

#include <stdio.h>
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

/* Variables whose value is unique to a job. */
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

/* Rank 0's host: this host if all processes are here; in a Slurm allocation its first host. No
 * other source exists. */
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

/* The name and the parent of a process; false when it is not visible. */
static bool from_mpi_look_at(int pid, char name[64], int *parent)
{
    char path[64], text[512], *end;
    FILE *f;
    size_t n;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    f = fopen(path, "re");
    if (!f)
        return false;
    n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    end = strrchr(text, ')'); /* "17 (name) S 1 ...", and a name may have brackets */
    return end && sscanf(text, "%*d (%63[^)]", name) == 1 && sscanf(end, ") %*c %d", parent) == 1;
}

/* MPICH does not name its jobs, but all processes of a host descend from one proxy. */
static int proxy(void)
{
    char name[64];
    int pid = (int)getppid(), parent;

    for (int i = 0; i < 32 && pid > 1 && from_mpi_look_at(pid, name, &parent); i++, pid = parent) {
        if (strcmp(name, "hydra_pmi_proxy") == 0)
            return pid;
    }
    return (int)getppid();
}

static void from_mpi_set_rendezvous(const mf_cluster_request *request, mf_cluster *c, int size)
{
    const char *name, *id = mf_request_any(request, job_ids, &name);
    const char *host;

    if (mf_request_env(request, "MESHFLOW_RENDEZVOUS"))
        return;
    host = first_host(request, c, size);
    if (!id) {
        id = mf_cluster_text(c, "proxy %d", proxy());
        name = "the process that started this";
        if (c->local_size != size)
            host = NULL;
    }
    mf_cluster_set_rendezvous(request, c, host, mf_job_port(id),
                              mf_cluster_text(c, "port from %s", name));
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
        from_mpi_set_rendezvous(request, c, size);
}

/* srun --mpi=pmi2 speaks PMI as well, and names the job; Slurm's own variables have more
 * information then. */
static bool mpich_applies(const mf_cluster_request *request)
{
    if (mf_request_env(request, "SLURM_STEP_ID") && mf_request_env(request, "PMI_JOBID"))
        return false;
    return mf_request_env(request, "PMI_RANK") || mf_request_env(request, "PMI_SIZE");
}

static void mpich_resolve(const mf_cluster_request *request, mf_cluster *c)
{
    const int size = mf_cluster_ranks(request, c, &mpich_names);

    if (size > 1)
        from_mpi_set_rendezvous(request, c, size);
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
