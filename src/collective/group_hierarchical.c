/* SPDX-License-Identifier: Apache-2.0 */
/* group_hierarchical.c - several members on each of several hosts. Sums are computed inside each
 * host in shared memory, as far as the tree allows; the first members of the hosts exchange them
 * over connections; the result is distributed inside the hosts. all_to_all uses connections. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/param.h"
#include "collective/group_net.h"

#include <string.h>

MF_PARAM_INT(comm_inter_host_block_kib, 4096, "KiB of a reduction sent between hosts at a time");

typedef struct hosts_group {
    mf_group head;
    mf_group *flat; /* all members, over connections */
    mf_group *inside; /* members of this host */
    mf_group *leaders; /* the first member of each host; NULL: this one is none */
    int n_hosts, host; /* host: index of this host */
    int *host_of; /* by rank */
    int *ranks; /* ranks grouped by host */
    int *first; /* by host: index of its first rank; n_hosts + 1 elements */
    void *memory; /* reused by later calls */
    int64_t room;
} hosts_group;

/* ---- placement ---- */

static int ranks_of(const hosts_group *g, int host, const int **ranks)
{
    *ranks = g->ranks + g->first[host];
    return g->first[host + 1] - g->first[host];
}

static int place_inside(const hosts_group *g, int rank)
{
    const int *ranks;
    const int n = ranks_of(g, g->host_of[rank], &ranks);

    for (int i = 0; i < n; i++) {
        if (ranks[i] == rank)
            return i;
    }
    return -1;
}

static mf_status group_hierarchical_need(hosts_group *g, int64_t bytes)
{
    void *memory;

    if (bytes <= g->room)
        return MF_OK;
    memory = mf_realloc(g->memory, bytes, 1);
    if (!memory)
        return MF_NOMEM("a collective");
    g->memory = memory;
    g->room = bytes;
    return MF_OK;
}

/* ---- sums ---- */

/* A sum over hosts: the nodes of the tree that each host can compute. */
typedef struct plan {
    mf_reduction_tree_node *nodes; /* of all hosts, concatenated */
    const mf_reduction_tree_node **by_host;
    int *n_by_host;
    mf_reduction_tree_node
        *shifted; /* the parts of one host's members within one node, relative to the node */
    const mf_reduction_tree_node **parts; /* by member of this host */
    int *n_parts;
    int most; /* maximum number of parts */
} plan;

static void group_hierarchical_plan_deinit(plan *p)
{
    mf_free(p->nodes);
    mf_free((void *)(uintptr_t)p->by_host);
    mf_free(p->n_by_host);
    mf_free(p->shifted);
    mf_free((void *)(uintptr_t)p->parts);
    mf_free(p->n_parts);
}

static mf_status group_hierarchical_plan_init(plan *p, const hosts_group *g, const mf_reduce *r)
{
    mf_reduction_tree_node *at;

    *p = (plan){ 0 };
    for (int i = 0; i < g->head.size; i++)
        p->most += r->n_parts[i];
    p->nodes = mf_calloc(p->most + 1, sizeof *p->nodes);
    p->by_host = mf_calloc(g->n_hosts, sizeof *p->by_host);
    p->n_by_host = mf_calloc(g->n_hosts, sizeof *p->n_by_host);
    p->shifted = mf_calloc(p->most + 1, sizeof *p->shifted);
    p->parts = mf_calloc(g->inside->size, sizeof *p->parts);
    p->n_parts = mf_calloc(g->inside->size, sizeof *p->n_parts);
    if (!p->nodes || !p->by_host || !p->n_by_host || !p->shifted || !p->parts || !p->n_parts)
        return MF_NOMEM("a sum");
    at = p->nodes;
    for (int h = 0; h < g->n_hosts; h++) {
        const int *ranks;
        const int n = ranks_of(g, h, &ranks);

        p->by_host[h] = at;
        p->n_by_host[h] = mf_partial_sums_nodes(r, ranks, n, at);
        for (int i = 0; i < n; i++)
            at += r->n_parts[ranks[i]];
    }
    return MF_OK;
}

/* The parts of this host's members within `node`, as a tree of its own: the subtree of a node has
 * the shape of any tree with that many leaves. data: this member's parts. */
static void find_host_subtrees(plan *p, const hosts_group *g, const mf_reduce *r,
                               mf_reduction_tree_node node, const void **data)
{
    mf_reduction_tree_node *at = p->shifted;
    const int *ranks;
    const int n = ranks_of(g, g->host, &ranks);

    for (int i = 0; i < n; i++) {
        p->parts[i] = at;
        p->n_parts[i] = 0;
        for (int k = 0; k < r->n_parts[ranks[i]]; k++) {
            const mf_reduction_tree_node part = r->parts[ranks[i]][k];

            if (part.lo < node.lo || part.hi > node.hi)
                continue;
            if (ranks[i] == g->head.rank)
                data[p->n_parts[i]] = r->data[k];
            p->n_parts[i]++;
            *at++ = (mf_reduction_tree_node){ part.lo - node.lo, part.hi - node.lo };
        }
    }
}

/* Sums up the host's nodes at its first member, in g->memory. */
static mf_status sum_inside(hosts_group *g, const mf_reduce *r, plan *p)
{
    const int64_t bytes = r->count * (int64_t)mf_dtype_size(r->dtype);
    const int n = p->n_by_host[g->host];
    int64_t *from = mf_calloc(g->inside->size + 1, sizeof *from);
    const void *data[MF_REDUCTION_TREE_PARTS] = { 0 };
    mf_status st =
        from ? group_hierarchical_need(g, g->leaders ? bytes * n : 0) : MF_NOMEM("a sum");

    for (int i = 1; from && i <= g->inside->size; i++)
        from[i] = r->count; /* everything goes to the first member */
    for (int i = 0; i < n && st == MF_OK; i++) {
        const mf_reduction_tree_node node = p->by_host[g->host][i];
        mf_reduce below = *r;

        find_host_subtrees(p, g, r, node, data);
        below.leaves = node.hi - node.lo;
        below.parts = p->parts;
        below.n_parts = p->n_parts;
        below.data = data;
        below.out = g->leaders ? (char *)g->memory + i * bytes : r->out;
        st = mf_reduce_scatter(g->inside, &below, from);
    }
    mf_free(from);
    return st;
}

static mf_status sum_block(hosts_group *g, const mf_reduce *r, plan *p)
{
    const int64_t bytes = r->count * (int64_t)mf_dtype_size(r->dtype);

    MF_TRY(sum_inside(g, r, p));
    if (g->leaders) {
        const void *data[MF_REDUCTION_TREE_PARTS] = { 0 };
        mf_reduce between = *r;

        for (int i = 0; i < p->n_by_host[g->host]; i++)
            data[i] = (char *)g->memory + i * bytes;
        between.parts = p->by_host;
        between.n_parts = p->n_by_host;
        between.data = data;
        MF_TRY(mf_all_reduce(g->leaders, &between));
    }
    return mf_broadcast(g->inside, &r->call, 0, r->out, bytes);
}

static mf_status group_hierarchical_check_parts(const hosts_group *g, const mf_reduce *r,
                                                const plan *p)
{
    for (int i = 0; i < g->head.size; i++) {
        if (r->n_parts[i] > MF_REDUCTION_TREE_PARTS)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%d partial sums exceed the limit of %d",
                           r->n_parts[i], MF_REDUCTION_TREE_PARTS);
    }
    for (int h = 0; h < g->n_hosts; h++) {
        if (p->n_by_host[h] > MF_REDUCTION_TREE_PARTS)
            return MF_UNIMPLEMENTED; /* members are scattered: use the flat group */
    }
    return MF_OK;
}

static mf_status hosts_all_reduce(mf_group *group, const mf_reduce *r)
{
    hosts_group *g = (hosts_group *)group;
    const int64_t cell = (int64_t)mf_dtype_size(r->dtype);
    const int64_t block = (MF_PARAM(comm_inter_host_block_kib) + 4) * 1024 / cell;
    const void *data[MF_REDUCTION_TREE_PARTS] = { 0 };
    plan p;
    mf_status st = group_hierarchical_plan_init(&p, g, r);

    if (st == MF_OK)
        st = group_hierarchical_check_parts(g, r, &p);
    for (int64_t at = 0; at < r->count && st == MF_OK; at += block) {
        mf_reduce part = *r;

        for (int i = 0; i < r->n_parts[group->rank]; i++)
            data[i] = mf_at(r, r->data[i], at);
        part.data = data;
        part.count = r->count - at < block ? r->count - at : block;
        part.out = mf_at(r, r->out, at);
        st = sum_block(g, &part, &p);
    }
    group_hierarchical_plan_deinit(&p);
    return st == MF_UNIMPLEMENTED ? mf_all_reduce(g->flat, r) : st;
}

/* Every member gets the full sum and keeps its own part: there are few hosts, and this call is not
 * performance-critical. */
static mf_status hosts_reduce_scatter(mf_group *group, const mf_reduce *r, const int64_t *from)
{
    const int64_t lo = from[group->rank], n = from[group->rank + 1] - lo;
    const int64_t cell = (int64_t)mf_dtype_size(r->dtype);
    mf_reduce whole = *r;
    mf_status st;

    whole.out = mf_calloc(r->count + 1, (size_t)cell);
    if (!whole.out)
        return MF_NOMEM("a sum");
    st = hosts_all_reduce(group, &whole);
    if (st == MF_OK && n > 0)
        memcpy(r->out, mf_at(r, whole.out, lo), (size_t)(n * cell));
    mf_free(whole.out);
    return st;
}

/* ---- bytes ---- */

/* From the order of hosts to the order of ranks. */
static void order_by_rank(const hosts_group *g, const int64_t *sizes, const char *by_host,
                          char *out)
{
    for (int r = 0; r < g->head.size; out += sizes[r++]) {
        const char *from = by_host;

        for (int i = 0; g->ranks[i] != r; i++)
            from += sizes[g->ranks[i]];
        if (sizes[r] > 0)
            memcpy(out, from, (size_t)sizes[r]);
    }
}

static mf_status group_hierarchical_gather(hosts_group *g, const mf_gather *a, int64_t *inside,
                                           int64_t *between)
{
    const int *ranks;
    const int n = ranks_of(g, g->host, &ranks);
    int64_t total = 0;
    char *mine;

    for (int i = 0; i < n; i++)
        inside[i] = a->sizes[ranks[i]];
    for (int r = 0; r < g->head.size; r++) {
        between[g->host_of[r]] += a->sizes[r];
        total += a->sizes[r];
    }
    MF_TRY(group_hierarchical_need(g, total + between[g->host]));
    mine = (char *)g->memory + total;
    MF_TRY(mf_all_gather(g->inside, &(mf_gather){ a->call, a->data, inside, mine }));
    if (g->leaders)
        MF_TRY(mf_all_gather(g->leaders, &(mf_gather){ a->call, mine, between, g->memory }));
    MF_TRY(mf_broadcast(g->inside, &a->call, 0, g->memory, total));
    order_by_rank(g, a->sizes, g->memory, a->out);
    return MF_OK;
}

static mf_status hosts_all_gather(mf_group *group, const mf_gather *a)
{
    hosts_group *g = (hosts_group *)group;
    int64_t *inside = mf_calloc(g->inside->size, sizeof *inside);
    int64_t *between = mf_calloc(g->n_hosts, sizeof *between);
    mf_status st = inside && between ? group_hierarchical_gather(g, a, inside, between)
                                     : MF_NOMEM("a collective");

    mf_free(inside);
    mf_free(between);
    return st;
}

static mf_status hosts_broadcast(mf_group *group, const mf_collective *c, int root, void *data,
                                 int64_t size)
{
    hosts_group *g = (hosts_group *)group;
    const int host = g->host_of[root];

    if (g->host == host)
        MF_TRY(mf_broadcast(g->inside, c, place_inside(g, root), data, size));
    if (g->leaders)
        MF_TRY(mf_broadcast(g->leaders, c, host, data, size));
    return g->host == host ? MF_OK : mf_broadcast(g->inside, c, 0, data, size);
}

static mf_status hosts_all_to_all(mf_group *group, const mf_collective *c, const void *data,
                                  const int64_t *sizes, void *out)
{
    return mf_all_to_all(((hosts_group *)group)->flat, c, data, sizes, out);
}

static mf_status hosts_barrier(mf_group *group, const mf_collective *c)
{
    hosts_group *g = (hosts_group *)group;

    MF_TRY(mf_barrier(g->inside, c));
    if (g->leaders)
        MF_TRY(mf_barrier(g->leaders, c));
    return mf_barrier(g->inside, c);
}

/* ---- the group ---- */

static void hosts_free(mf_group *group)
{
    hosts_group *g = (hosts_group *)group;

    mf_group_free(g->flat);
    mf_group_free(g->inside);
    mf_group_free(g->leaders);
    mf_group_names_free(group);
    mf_free(g->host_of);
    mf_free(g->ranks);
    mf_free(g->first);
    mf_free(g->memory);
    mf_free(g);
}

static const mf_group_kind HOSTS = {
    .name = "shared memory on each host, connections between them",
    .all_reduce = hosts_all_reduce,
    .reduce_scatter = hosts_reduce_scatter,
    .all_gather = hosts_all_gather,
    .broadcast = hosts_broadcast,
    .all_to_all = hosts_all_to_all,
    .barrier = hosts_barrier,
    .free = hosts_free,
};

/* Hosts are numbered by their first members, so these ascend. */
static void find_hosts(hosts_group *g, const mf_net *net, const int *members)
{
    int at = 0;

    for (int r = 0; r < g->head.size; r++) {
        int same = 0;

        while (same < r && !mf_net_same_host(net, members[same], members[r]))
            same++;
        g->host_of[r] = same < r ? g->host_of[same] : g->n_hosts++;
    }
    for (int h = 0; h < g->n_hosts; h++) {
        g->first[h] = at;
        for (int r = 0; r < g->head.size; r++) {
            if (g->host_of[r] == h)
                g->ranks[at++] = r;
        }
    }
    g->first[g->n_hosts] = at;
    g->host = g->host_of[g->head.rank];
}

/* Does every host have its memory? Either all members continue or none does. */
static mf_status agree(hosts_group *g, mf_status inside)
{
    const mf_collective c = { .deadline_ns = mf_clock_ns() + 60000000000,
                              .what = "the creation of a group" };
    int64_t *all = mf_calloc(g->head.size, sizeof *all);
    mf_error e;
    mf_status st;

    mf_error_save(inside, &e);
    st = all ? mf_group_sizes(g->flat, &c, inside, all) : MF_NOMEM("a group");
    for (int r = 0; r < g->head.size && st == MF_OK; r++) {
        if (all[r] != MF_OK)
            st = MF_FAIL(MF_FAILED_PRECONDITION, "%s has no shared memory", g->head.names[r]);
    }
    mf_free(all);
    return inside == MF_OK ? st : mf_error_restore(&e);
}

static mf_status group_hierarchical_make_groups(hosts_group *g, mf_net *net, const int *members,
                                                uint32_t id)
{
    const int *ranks;
    const int n = ranks_of(g, g->host, &ranks);
    int *tasks = mf_calloc(g->head.size + 1, sizeof *tasks);
    mf_status st = tasks ? MF_OK : MF_NOMEM("a group");

    if (st == MF_OK)
        st = mf_group_net(net, members, g->head.size, mf_group_part(id, 1), NULL, &g->flat);
    for (int i = 0; i < n && st == MF_OK; i++)
        tasks[i] = members[ranks[i]];
    if (st == MF_OK)
        st = agree(g, mf_group_host(net, tasks, n, mf_group_part(id, 2), &g->inside));
    for (int h = 0; h < g->n_hosts && st == MF_OK; h++)
        tasks[h] = members[g->ranks[g->first[h]]];
    if (st == MF_OK && ranks[0] == g->head.rank)
        st = mf_group_net(net, tasks, g->n_hosts, mf_group_part(id, 3), NULL, &g->leaders);
    mf_free(tasks);
    return st;
}

mf_status mf_group_hosts(mf_net *net, const int *members, int n, uint32_t id, mf_group **out)
{
    hosts_group *g = mf_calloc(1, sizeof *g);
    mf_status st;

    *out = NULL;
    if (!g)
        return MF_NOMEM("a group");
    g->head.kind = &HOSTS;
    st = mf_net_group_head(net, members, n, &g->head);
    g->head.kind = &HOSTS;
    g->host_of = mf_calloc(n, sizeof *g->host_of);
    g->ranks = mf_calloc(n, sizeof *g->ranks);
    g->first = mf_calloc(n + 1, sizeof *g->first);
    if (st == MF_OK && (!g->host_of || !g->ranks || !g->first))
        st = MF_NOMEM("a group");
    if (st == MF_OK) {
        find_hosts(g, net, members);
        st = group_hierarchical_make_groups(g, net, members, id);
    }
    if (st != MF_OK)
        hosts_free(&g->head);
    else
        *out = &g->head;
    return st;
}
