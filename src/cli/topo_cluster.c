/* SPDX-License-Identifier: Apache-2.0 */
/* topo_cluster.c - hosts, tasks and task states of a running cluster, for `doctor topo`. */
#include "cli/topo_cluster.h"

#include "cli/probe.h"
#include "net/transport_registry.h"
#include "tf_server/task_table.h"

#include <string.h>

enum { TIMEOUT_MS = 3000 };

typedef struct cluster {
    mf_server_tasks tasks;
    mf_probe *probes; /* one for each task */
    mf_probe_options o;
    char *paths; /* strings of its security settings */
} cluster;

static mf_status topo_cluster_discover(mf_args *args, cluster *c)
{
    c->o.timeout_ms = TIMEOUT_MS;
    c->o.security.insecure_any_peer = mf_args_has(args, "insecure-any-peer");
    c->o.tls_dir = mf_args_value(args, "tls-dir");
    if (c->o.tls_dir)
        MF_TRY(mf_security_from_dir(c->o.tls_dir, "client", &c->o.security, &c->paths));
    else
        mf_security_fill(&c->o.security);
    MF_TRY(mf_server_tasks_list(mf_args_value(args, "cluster"), &c->tasks));
    c->probes = mf_calloc(c->tasks.n, sizeof *c->probes);
    if (!c->probes)
        return MF_NOMEM("tasks");
    for (int i = 0; i < c->tasks.n; i++)
        mf_probe_task(c->tasks.all[i].address, &c->o, &c->probes[i]);
    return MF_OK;
}

static bool is_up(const cluster *c, int i)
{
    return c->probes[i].reached == MF_PROBE_SERVER;
}

/* The length of the host in "host:port". */
static int host_len(const char *address)
{
    return (int)(strrchr(address, ':') - address);
}

static bool same_host(const char *a, const char *b)
{
    return host_len(a) == host_len(b) && strncmp(a, b, (size_t)host_len(a)) == 0;
}

/* No earlier task is on the same host. */
static bool topo_cluster_is_first(const cluster *c, int i)
{
    for (int k = 0; k < i; k++) {
        if (same_host(c->tasks.all[k].address, c->tasks.all[i].address))
            return false;
    }
    return true;
}

/* ---- text ---- */

static void print_task(const cluster *c, int i, mf_buf *out)
{
    const mf_server_task *t = &c->tasks.all[i];
    const mf_probe *p = &c->probes[i];

    mf_buf_printf(out, "  /job:%s/task:%d %s: ", t->job, t->index, t->address);
    if (is_up(c, i))
        mf_buf_printf(out, "%s, %d device%s, answers in %.1f ms\n", p->system, p->n_devices,
                      p->n_devices == 1 ? "" : "s", p->answer_ms);
    else
        mf_buf_printf(out, "not reachable: %s\n", p->why);
}

static void topo_cluster_print_text(const cluster *c, mf_buf *out)
{
    for (int i = 0; i < c->tasks.n; i++) {
        if (!topo_cluster_is_first(c, i))
            continue;
        mf_buf_printf(out, "host %.*s\n", host_len(c->tasks.all[i].address),
                      c->tasks.all[i].address);
        for (int k = i; k < c->tasks.n; k++) {
            if (same_host(c->tasks.all[i].address, c->tasks.all[k].address))
                print_task(c, k, out);
        }
    }
}

/* ---- graph ---- */

static void draw_task(const cluster *c, int i, mf_buf *out)
{
    const mf_server_task *t = &c->tasks.all[i];
    const mf_probe *p = &c->probes[i];

    mf_buf_printf(out, "    task%d [label=\"%s %d\\n%s\\n%s\"", i, t->job, t->index, t->address,
                  is_up(c, i) ? p->system : "not there");
    if (strcmp(t->job, "ps") == 0)
        mf_buf_str(out, ", shape=cylinder");
    if (!is_up(c, i))
        mf_buf_str(out, ", style=dashed, color=red, fontcolor=red");
    mf_buf_str(out, "];\n");
}

/* Workers exchange gradients and weights with parameter servers; without them, with each other. */
static bool topo_cluster_talk(const cluster *c, int a, int b)
{
    const bool a_serves = strcmp(c->tasks.all[a].job, "ps") == 0;
    const bool b_serves = strcmp(c->tasks.all[b].job, "ps") == 0;
    bool any = false;

    for (int i = 0; i < c->tasks.n; i++)
        any |= strcmp(c->tasks.all[i].job, "ps") == 0;
    return any ? a_serves != b_serves : true;
}

static void print_dot(const cluster *c, mf_buf *out)
{
    mf_buf_str(out, "graph cluster {\n  node [shape=box, fontname=sans];\n  edge [color=gray];\n");
    for (int i = 0; i < c->tasks.n; i++) {
        if (!topo_cluster_is_first(c, i))
            continue;
        mf_buf_printf(out, "  subgraph cluster_%d {\n    label=\"%.*s\";\n", i,
                      host_len(c->tasks.all[i].address), c->tasks.all[i].address);
        for (int k = i; k < c->tasks.n; k++) {
            if (same_host(c->tasks.all[i].address, c->tasks.all[k].address))
                draw_task(c, k, out);
        }
        mf_buf_str(out, "  }\n");
    }
    for (int a = 0; a < c->tasks.n; a++) {
        for (int b = a + 1; b < c->tasks.n; b++) {
            if (is_up(c, a) && is_up(c, b) && topo_cluster_talk(c, a, b))
                mf_buf_printf(out, "  task%d -- task%d;\n", a, b);
        }
    }
    mf_buf_str(out, "}\n");
}

/* ---- JSON ---- */

static void topo_cluster_put(mf_buf *out, const char *name, const char *value)
{
    mf_buf_printf(out, ",\"%s\":", name);
    mf_buf_json(out, value, strlen(value));
}

static void topo_cluster_print_json(const cluster *c, mf_buf *out)
{
    mf_buf_str(out, "[");
    for (int i = 0; i < c->tasks.n; i++) {
        const mf_server_task *t = &c->tasks.all[i];
        const mf_probe *p = &c->probes[i];

        mf_buf_printf(out, "%s{\"index\":%d", i ? ",\n " : "", t->index);
        topo_cluster_put(out, "job", t->job);
        topo_cluster_put(out, "address", t->address);
        mf_buf_printf(out, ",\"up\":%s", is_up(c, i) ? "true" : "false");
        topo_cluster_put(out, "says", p->task);
        topo_cluster_put(out, "system", p->system);
        topo_cluster_put(out, "why", p->why);
        mf_buf_printf(out, ",\"devices\":%d,\"connect_ms\":%.3f,\"answer_ms\":%.3f}", p->n_devices,
                      p->connect_ms, p->answer_ms);
    }
    mf_buf_str(out, "]\n");
}

mf_status mf_topo_cluster(mf_args *args)
{
    cluster c = { 0 };
    mf_buf text = { 0 };
    mf_status st = topo_cluster_discover(args, &c);

    if (st == MF_OK) {
        if (mf_args_has(args, "dot"))
            print_dot(&c, &text);
        else if (mf_args_has(args, "json"))
            topo_cluster_print_json(&c, &text);
        else
            topo_cluster_print_text(&c, &text);
        st = mf_cli_print(&text);
    }
    mf_server_tasks_deinit(&c.tasks);
    mf_free(c.probes);
    mf_free(c.paths);
    return st;
}
