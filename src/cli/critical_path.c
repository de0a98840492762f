/* SPDX-License-Identifier: Apache-2.0 */
/* critical_path.c - finds the longest chain of dependent nodes of a traced run. */
#include "cli/critical_path.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* Indexed by node id. */
typedef struct chain {
    int64_t own; /* time of the node */
    int64_t until; /* time of the longest chain that ends with it */
    const mf_node *before; /* predecessor on that chain; NULL: none */
} chain;

typedef struct critical_path_counting {
    const mf_graph *graph;
    chain *chains;
    int64_t all_ns, n;
} critical_path_counting;

/* ---- times of nodes ---- */

/* NULL: the graph has no such node. */
static const mf_node *node_of(const mf_graph *g, const char *name)
{
    char scope[512];
    const mf_node *node = mf_map_find(&g->names, name);

    (void)snprintf(scope, sizeof scope, "%s", name);
    for (char *slash; !node && (slash = strrchr(scope, '/')) != NULL;) {
        *slash = '\0';
        node = mf_map_find(&g->names, scope);
    }
    return node;
}

static void critical_path_count(void *ctx, const char *name, const char *op, int64_t start,
                                int64_t end, int thread)
{
    critical_path_counting *c = ctx;
    const mf_node *node = node_of(c->graph, name);

    (void)op;
    (void)thread;
    c->n++;
    c->all_ns += end - start;
    if (node)
        c->chains[node->id].own += end - start;
}

/* ---- the longest chain ---- */

static void critical_path_follow(const mf_node *node, const mf_node *before, chain *chains)
{
    chain *own = &chains[node->id];

    if (chains[before->id].until > own->until) {
        own->until = chains[before->id].until;
        own->before = before;
    }
}

/* Returns the last node of the chain; NULL: there is none. */
static const mf_node *longest(mf_node *const *order, int64_t n, chain *chains)
{
    const mf_node *last = NULL;

    for (int64_t i = 0; i < n; i++) {
        const mf_node *node = order[i];

        for (int k = 0; k < node->n_inputs; k++)
            critical_path_follow(node, node->inputs[k].node, chains);
        for (int k = 0; k < node->n_controls; k++)
            critical_path_follow(node, node->controls[k], chains);
        chains[node->id].until += chains[node->id].own;
        if (!last || chains[node->id].until > chains[last->id].until)
            last = node;
    }
    return last;
}

static mf_status write_down(const mf_node *last, const chain *chains, mf_critical_path *out)
{
    int64_t n = 0;

    for (const mf_node *node = last; node; node = chains[node->id].before)
        n += chains[node->id].own > 0;
    out->nodes = mf_calloc(n + 1, sizeof *out->nodes);
    if (!out->nodes)
        return MF_NOMEM("a critical path");
    out->n = n;
    out->ns = last ? chains[last->id].until : 0;
    for (const mf_node *node = last; node; node = chains[node->id].before) {
        if (chains[node->id].own > 0)
            out->nodes[--n] = (mf_critical_node){ node, chains[node->id].own };
    }
    return MF_OK;
}

mf_status mf_critical_path_find(const mf_graph *graph, mf_trace *trace, mf_critical_path *out)
{
    chain *chains = mf_calloc(graph->n_nodes, sizeof *chains);
    mf_node **order = mf_calloc(graph->n_nodes, sizeof(mf_node *));
    critical_path_counting c = { .graph = graph, .chains = chains };
    int64_t n = 0;
    mf_status st = chains && order ? MF_OK : MF_NOMEM("a critical path");

    *out = (mf_critical_path){ 0 };
    if (st == MF_OK)
        st = mf_graph_order(graph, order, &n);
    if (st == MF_OK) {
        mf_trace_each(trace, critical_path_count, &c);
        out->all_ns = c.all_ns;
        out->n_ran = c.n;
        st = write_down(longest(order, n, chains), chains, out);
    }
    mf_free(chains);
    mf_free(order);
    return st;
}

void mf_critical_path_deinit(mf_critical_path *p)
{
    mf_free(p->nodes);
    *p = (mf_critical_path){ 0 };
}

/* ---- output ---- */

void mf_critical_path_text(const mf_critical_path *p, mf_buf *out)
{
    const double ns = p->ns > 0 ? (double)p->ns : 1;

    mf_buf_printf(out,
                  "critical path: %lld nodes of %lld executions, %.3f of %.3f ms: at most %.2f "
                  "times faster with more devices\n",
                  (long long)p->n, (long long)p->n_ran, (double)p->ns / 1e6,
                  (double)p->all_ns / 1e6, (double)p->all_ns / ns);
    for (int64_t i = 0; i < p->n; i++)
        mf_buf_printf(out, "  %9.3f ms %3.0f %%  %s  %s\n", (double)p->nodes[i].ns / 1e6,
                      100 * (double)p->nodes[i].ns / ns, p->nodes[i].node->op_name,
                      p->nodes[i].node->name);
}

void mf_critical_path_json(const mf_critical_path *p, mf_buf *out)
{
    mf_buf_printf(out, "{\"seconds\":%.9f,\"all_seconds\":%.9f,\"nodes\":[", (double)p->ns / 1e9,
                  (double)p->all_ns / 1e9);
    for (int64_t i = 0; i < p->n; i++) {
        const mf_node *node = p->nodes[i].node;

        mf_buf_str(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        mf_buf_json(out, node->name, strlen(node->name));
        mf_buf_str(out, ",\"op\":");
        mf_buf_json(out, node->op_name, strlen(node->op_name));
        mf_buf_printf(out, ",\"seconds\":%.9f}", (double)p->nodes[i].ns / 1e9);
    }
    mf_buf_str(out, "]}");
}
