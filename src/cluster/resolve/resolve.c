/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.c - tries one convention after the other. */
#include "cluster/resolve/resolve.h"

#include "cluster/resolve/address.h"
#include "cluster/resolve/resolver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const mf_resolver *const mf_resolvers[] = {
    &mf_resolver_flags,
    &mf_resolver_tf_config,
    &mf_resolver_torchrun,
    &mf_resolver_open_mpi, /* mpirun inside of a Slurm allocation: MPI started this process */
    &mf_resolver_mpich,
    &mf_resolver_slurm,
    &mf_resolver_kubernetes,
    &mf_resolver_hostfile,
    NULL,
};

/* ---- the environment ---- */

const char *mf_request_env(const mf_cluster_request *request, const char *name)
{
    const char *value = request->env ? request->env(request->ctx, name) : getenv(name);

    return value && *value ? value : NULL;
}

const char *mf_request_any(const mf_cluster_request *request, const char *const *names,
                           const char **name)
{
    for (int i = 0; names[i]; i++) {
        const char *value = mf_request_env(request, names[i]);

        if (value) {
            *name = names[i];
            return value;
        }
    }
    *name = NULL;
    return NULL;
}

bool mf_request_int(const mf_cluster_request *request, mf_cluster *c, const char *name, int64_t min,
                    int64_t max, int64_t *out)
{
    const char *text = mf_request_env(request, name);

    if (!text)
        return false;
    if (mf_number_parse(text, strlen(text), min, max, out))
        return true;
    mf_cluster_mistake(c, name,
                       mf_cluster_text(c, "set it to a whole number from %lld to %lld",
                                       (long long)min, (long long)max),
                       "'%.40s' is not a whole number from %lld to %lld", text, (long long)min,
                       (long long)max);
    return false;
}

/* ---- rules for every convention ---- */

/* --job_name and --task_index override every other source of this task's role and index. */
static void own_from_flags(const mf_cluster_request *request, mf_cluster *c)
{
    const char *from = request->task_index ? "--task_index" : "--job_name";
    mf_role role = MF_ROLE_WORKER;
    int64_t index = 0;

    if (!request->job_name && !request->task_index)
        return;
    if (request->job_name && !mf_cluster_role(c, request->job_name, "--job_name", &role))
        return;
    if (request->task_index &&
        !mf_number_parse(request->task_index, strlen(request->task_index), 0, INT32_MAX, &index)) {
        mf_cluster_mistake(c, "--task_index", "number tasks from 0 on",
                           "'%.40s' is not a whole number from 0 on", request->task_index);
        return;
    }
    mf_cluster_own(c, role, index, from);
}

/* They select a task of a cluster; without a cluster this process would silently train alone. */
static void refuse_own_without_cluster(const mf_cluster_request *request, mf_cluster *c)
{
    const char *flag = request->job_name     ? "--job_name"
                       : request->task_index ? "--task_index"
                                             : NULL;

    if (flag)
        mf_cluster_mistake(
            c, flag, "give --cluster, --worker_hosts or --hostfile, set TF_CONFIG, or omit it",
            "it selects a task of a cluster, but no cluster is configured");
}

static void rendezvous_from_env(const mf_cluster_request *request, mf_cluster *c)
{
    const char *text = mf_request_env(request, "MESHFLOW_RENDEZVOUS");
    mf_address_error error;
    mf_address parts;

    if (!text)
        return;
    if (mf_address_parse(text, &parts, &error)) {
        c->rendezvous = mf_cluster_text(c, "%s", text);
        mf_cluster_fact(c, "rendezvous", "MESHFLOW_RENDEZVOUS", "%s", text);
    } else {
        mf_cluster_mistake(c, "MESHFLOW_RENDEZVOUS", error.fix, "%s", error.problem);
    }
}

static bool only_numbers(const mf_cluster *c)
{
    return c->n_tasks > 0 && !c->tasks[0].address;
}

static mf_status resolve_one(const mf_cluster_request *request, const mf_resolver *r,
                             mf_cluster **out)
{
    mf_cluster *c = mf_cluster_new();

    *out = c;
    if (!c)
        return MF_NOMEM("the description of a cluster");
    c->convention = r ? r->name : "none";
    rendezvous_from_env(request, c);
    if (r) {
        r->resolve(request, c);
    } else {
        mf_cluster_add(c, MF_ROLE_WORKER, 0, NULL, "no cluster is configured");
        mf_cluster_own(c, MF_ROLE_WORKER, 0, "no cluster is configured");
        c->local_rank = 0;
        c->local_size = 1;
        refuse_own_without_cluster(request, c);
    }
    if (r && !only_numbers(c))
        own_from_flags(request, c);
    mf_cluster_finish(c, request);
    return MF_OK;
}

/* ---- conventions that disagree ---- */

/* Two lists with addresses have the same ones. */
static bool same_addresses(const mf_cluster *a, const mf_cluster *b)
{
    for (int i = 0; i < a->n_tasks && i < b->n_tasks; i++) {
        const char *x = a->tasks[i].address, *y = b->tasks[i].address;

        if (x && y && strcmp(x, y) != 0)
            return false;
    }
    return true;
}

static void resolve_compare(mf_cluster *c, const mf_cluster *other)
{
    char mine[MF_TASK_NAME_MAX] = "no task", its[MF_TASK_NAME_MAX] = "no task";

    if (other->n_mistakes > 0) {
        mf_cluster_note(c, "%s is also set, wrongly; it is not used because %s is there",
                        other->convention, c->convention);
        return;
    }
    if (c->self == other->self && c->n_tasks == other->n_tasks && c->rank == other->rank) {
        if (!same_addresses(c, other))
            mf_cluster_note(c, "%s and %s list different addresses: %s has priority", c->convention,
                            other->convention, c->convention);
        return;
    }
    if (mf_cluster_self(c))
        (void)mf_cluster_task_name(mf_cluster_self(c), mine);
    if (mf_cluster_self(other))
        (void)mf_cluster_task_name(mf_cluster_self(other), its);
    mf_cluster_note(c, "%s specifies %s of %d, %s specifies %s of %d: %s has priority",
                    c->convention, mine, c->n_tasks, other->convention, its, other->n_tasks,
                    c->convention);
}

static mf_status compare_weaker(const mf_cluster_request *request, int used, mf_cluster *c)
{
    mf_cluster_request plain = *request; /* its own description */

    plain.job_name = plain.task_index = NULL;
    plain.client = true;
    for (int i = used + 1; mf_resolvers[i]; i++) {
        mf_cluster *other = NULL;
        mf_status st = MF_OK;

        if (!mf_resolvers[i]->applies(request))
            continue;
        st = resolve_one(&plain, mf_resolvers[i], &other);
        if (st == MF_OK)
            resolve_compare(c, other);
        mf_cluster_free(other);
        MF_TRY(st);
    }
    return MF_OK;
}

mf_status mf_cluster_examine(const mf_cluster_request *request, mf_cluster **out)
{
    int i = 0;
    mf_status st;

    while (mf_resolvers[i] && !mf_resolvers[i]->applies(request))
        i++;
    st = resolve_one(request, mf_resolvers[i], out);
    if (st == MF_OK && mf_resolvers[i])
        st = compare_weaker(request, i, *out);
    if (st == MF_OK && (*out)->no_memory)
        st = MF_NOMEM("the description of a cluster");
    if (st != MF_OK) {
        mf_cluster_free(*out);
        *out = NULL;
    }
    return st;
}

mf_status mf_cluster_resolve(const mf_cluster_request *request, mf_cluster **out)
{
    mf_status st = mf_cluster_examine(request, out);
    char more[64] = "";

    if (st != MF_OK || (*out)->n_mistakes == 0)
        return st;
    if ((*out)->n_mistakes > 1)
        (void)snprintf(more, sizeof more, " (and %d more: see `meshflow doctor env`)",
                       (*out)->n_mistakes - 1);
    st = MF_FAIL(MF_INVALID_ARGUMENT, "%s: %s; %s%s", (*out)->mistakes[0].place,
                 (*out)->mistakes[0].problem, (*out)->mistakes[0].fix, more);
    mf_cluster_free(*out);
    *out = NULL;
    return st;
}
