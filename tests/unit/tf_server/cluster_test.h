/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_test.h - servers in one process, for tests. */
#ifndef MF_TESTS_UNIT_SERVER_CLUSTER_H
#define MF_TESTS_UNIT_SERVER_CLUSTER_H

#include "graph/graph.h"
#include "mf_test.h"
#include "unit/net/transport_kinds.h"

#include <meshflow/server.h>
#include <meshflow/session.h>

#include <stdio.h>

enum { TASKS = 3 };

static char cluster[400];
static mf_server *servers[TASKS];

static inline void find_addresses(int n)
{
    way w;
    size_t len = (size_t)snprintf(cluster, sizeof cluster, "{\"worker\": [");

    way_init(&w, "grpc", n);
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(cluster + len, sizeof cluster - len, "%s\"%s\"", i ? ", " : "",
                                w.addresses[i]);
    (void)snprintf(cluster + len, sizeof cluster - len, "]}");
}

static inline mf_server *serve(int at)
{
    const char digit[2] = { (char)('0' + at), '\0' };
    mf_server *s;

    T_OK(mf_server_new(
        &(mf_server_options){
            .cluster = cluster, .job_name = "worker", .task_index = digit, .threads = 2 },
        &s));
    return s;
}

static inline void serve_all(int n)
{
    find_addresses(n);
    for (int i = 0; i < n; i++)
        servers[i] = serve(i);
}

static inline void stop_all(void)
{
    for (int i = 0; i < TASKS; i++)
        mf_server_free(servers[i]);
}

static inline mf_graph *graph_new(void)
{
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    return g;
}

static inline void put_on(mf_output o, int at)
{
    static const char *const devices[TASKS] = { "/job:worker/task:0", "/job:worker/task:1",
                                                "/job:worker/task:2" };

    o.node->device = devices[at];
}

static inline mf_session *session_at(int at, const mf_graph *g, const char *filter)
{
    mf_session *s;

    T_OK(mf_session_new(g,
                        &(mf_session_options){ .target = mf_server_target(servers[at]),
                                               .device_filters = filter ? &filter : NULL,
                                               .n_device_filters = filter ? 1 : 0 },
                        &s));
    return s;
}

#endif
