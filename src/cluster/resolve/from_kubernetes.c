/* SPDX-License-Identifier: Apache-2.0 */
/* from_kubernetes.c - pods that Kubernetes numbers by itself, without an operator: an Indexed Job,
 * whose pods get JOB_COMPLETION_INDEX, and a StatefulSet, whose pods do not. Both name pod number 2
 * of `fit` "fit-2", and a headless service gives it the address "fit-2.SERVICE".
 *
 *     MESHFLOW_SERVICE  the service's name: selects this convention when no other applies
 *     MESHFLOW_PODS     the number of pods, which Kubernetes does not provide
 *     MESHFLOW_PORT     the port that all of them listen on; default: 2222
 *
 * Tasks are workers; the last request->ps of them are servers. */
#include "cluster/resolve/address.h"
#include "cluster/resolve/resolver.h"

#include <string.h>
#include <unistd.h>

enum { DEFAULT_PORT = 2222 };

/* A pod's name, split into the common part and the pod's number. */
typedef struct pod {
    char name[MF_HOST_MAX];
    int64_t index;
} pod;

static bool kubernetes_applies(const mf_cluster_request *request)
{
    return mf_request_env(request, "MESHFLOW_SERVICE") != NULL;
}

/* "fit-2" or "fit-2.fit.default.svc.cluster.local". */
static bool read_host(const mf_cluster_request *request, mf_cluster *c, pod *out)
{
    const char *told = mf_request_env(request, "HOSTNAME"); /* Kubernetes sets it for pods */
    char *dash;

    if (told || request->host)
        (void)strncpy(out->name, told ? told : request->host, sizeof out->name - 1);
    else
        (void)gethostname(out->name, sizeof out->name - 1);
    out->name[strcspn(out->name, ".")] = '\0';
    dash = strrchr(out->name, '-');
    if (dash &&
        mf_number_parse(dash + 1, strlen(dash + 1), 0, MF_CLUSTER_MAX_TASKS - 1, &out->index)) {
        *dash = '\0';
        return true;
    }
    mf_cluster_mistake(c, "the host's name",
                       "run it as a pod of an Indexed Job or a StatefulSet, whose names end so, or "
                       "unset MESHFLOW_SERVICE",
                       "'%.60s' does not end in '-' and the pod's number", out->name);
    return false;
}

static bool read_pod(const mf_cluster_request *request, mf_cluster *c, pod *out)
{
    const bool numbered = mf_request_env(request, "JOB_COMPLETION_INDEX") != NULL;
    int64_t told;

    if (!read_host(request, c, out))
        return false;
    if (!numbered) {
        mf_cluster_fact(c, "pod", "the host's name", "%s-%lld", out->name, (long long)out->index);
        return true;
    }
    if (!mf_request_int(request, c, "JOB_COMPLETION_INDEX", 0, MF_CLUSTER_MAX_TASKS - 1, &told))
        return false;
    mf_cluster_fact(c, "pod", "JOB_COMPLETION_INDEX", "%lld", (long long)told);
    if (told != out->index)
        mf_cluster_mistake(c, "JOB_COMPLETION_INDEX", "remove hostname from the pod's template",
                           "it is %lld, but the host is called '%.60s-%lld'", (long long)told,
                           out->name, (long long)out->index);
    return told == out->index;
}

static bool from_kubernetes_read_size(const mf_cluster_request *request, mf_cluster *c,
                                      const pod *own, int64_t *n)
{
    if (!mf_request_env(request, "MESHFLOW_PODS")) {
        mf_cluster_mistake(c, "MESHFLOW_PODS", "set it to the manifest's completions or replicas",
                           "it is not set, so the number of pods is unknown");
        return false;
    }
    if (!mf_request_int(request, c, "MESHFLOW_PODS", 1, MF_CLUSTER_MAX_TASKS, n))
        return false;
    if (own->index >= *n)
        mf_cluster_mistake(c, "MESHFLOW_PODS", "set it to the manifest's completions or replicas",
                           "this is pod %lld, but there are %lld", (long long)own->index,
                           (long long)*n);
    else if (request->ps >= *n)
        mf_cluster_mistake(c, "--ps", "leave at least one worker",
                           "%d of %lld pods cannot be servers", request->ps, (long long)*n);
    return own->index < *n && request->ps < *n;
}

static void kubernetes_resolve(const mf_cluster_request *request, mf_cluster *c)
{
    const char *service = mf_request_env(request, "MESHFLOW_SERVICE");
    int64_t port = DEFAULT_PORT, n;
    pod own = { .index = 0 };

    mf_cluster_fact(c, "service", "MESHFLOW_SERVICE", "%s", service);
    (void)mf_request_int(request, c, "MESHFLOW_PORT", 1, MF_PORT_MAX, &port);
    if (!mf_host_is_name(service, strlen(service))) {
        mf_cluster_mistake(c, "MESHFLOW_SERVICE", "set it to the name of a headless service",
                           "'%.60s' is no service's name", service);
        return;
    }
    if (!read_pod(request, c, &own) || !from_kubernetes_read_size(request, c, &own, &n))
        return;
    for (int64_t i = 0; i < n && !c->no_memory; i++) {
        const int64_t workers = n - request->ps;
        const mf_role role = i < workers ? MF_ROLE_WORKER : MF_ROLE_PS;
        const int64_t index = i < workers ? i : i - workers;

        mf_cluster_add(
            c, role, index,
            mf_cluster_text(c, "%s-%lld.%s:%lld", own.name, (long long)i, service, (long long)port),
            "MESHFLOW_SERVICE");
        if (i == own.index)
            mf_cluster_own(c, role, index, "the pod's number");
    }
}

const mf_resolver mf_resolver_kubernetes = {
    .name = "Kubernetes",
    .applies = kubernetes_applies,
    .resolve = kubernetes_resolve,
};
