/* SPDX-License-Identifier: Apache-2.0 */
/* group_net.c - a group over connections. Sums are computed by the algorithms in allreduce_*.c; the
 * other collectives are here. Long sums are processed block by block, to limit the memory. */
#include "collective/group_net.h"

#include "base/mem.h"
#include "base/param.h"

#include <string.h>

MF_PARAM_INT(comm_block_kib, 4096, "KiB of a reduction or broadcast sent at a time");
MF_PARAM_INT(allreduce_exchange_kib, 16, "largest all-reduce, in KiB, for the exchange algorithm");
MF_PARAM_INT(allreduce_exchange_members, 4, "largest group for the exchange algorithm");
MF_PARAM_INT(allreduce_tree_kib, 64, "largest all-reduce, in KiB, for the tree algorithm");
MF_PARAM_INT(allreduce_direct_members, 16, "largest group for the direct algorithm");

const mf_algorithm *const mf_algorithms[] = { &mf_algorithm_exchange, &mf_algorithm_direct,
                                              &mf_algorithm_ring,     &mf_algorithm_halving,
                                              &mf_algorithm_tree,     NULL };

/* ---- memory of a call ---- */

struct mf_group_scratch {
    mf_group_scratch *next;
    size_t size, used;
    char data[]; /* at the first full cache line */
};

static void free_blocks(mf_group_scratch *b)
{
    while (b) {
        mf_group_scratch *next = b->next;

        mf_free(b);
        b = next;
    }
}

static mf_group_scratch *new_block(size_t size)
{
    mf_group_scratch *b = mf_realloc(NULL, (int64_t)(sizeof *b + size + 64), 1);

    if (b)
        *b = (mf_group_scratch){ .size = size };
    return b;
}

/* Merges the blocks of the last call into one for the next call. */
static void reset_blocks(mf_net_group *g)
{
    size_t all = 0;

    for (const mf_group_scratch *b = g->blocks; b; b = b->next)
        all += b->size;
    if (g->blocks && g->blocks->next) {
        free_blocks(g->blocks);
        g->blocks = new_block(all);
    }
    if (g->blocks)
        g->blocks->used = 0;
}

void *mf_net_group_alloc(mf_net_group *g, int64_t count, size_t size)
{
    mf_group_scratch *b = g->blocks;
    int64_t bytes;
    size_t need;
    char *at;

    if (!mf_mul_i64(count, (int64_t)size, &bytes) || bytes > INT64_MAX / 2) {
        (void)MF_NOMEM("a collective");
        return NULL;
    }
    need = ((size_t)bytes + 63) & ~(size_t)63;
    if (!b || b->size - b->used < need) {
        b = new_block(need > 65536 ? need : 65536);
        if (!b) {
            (void)MF_NOMEM("a collective");
            return NULL;
        }
        b->next = g->blocks;
        g->blocks = b;
    }
    at = b->data + (64 - (uintptr_t)b->data % 64) % 64 + b->used;
    b->used += need;
    return at;
}

static mf_net_group *group_net_begin_call(mf_group *group)
{
    mf_net_group *g = (mf_net_group *)group;

    g->seq++;
    reset_blocks(g);
    return g;
}

static int64_t group_net_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t block_bytes(void)
{
    const int64_t bytes = MF_PARAM(comm_block_kib) * 1024;

    return bytes < 4096 ? 4096 : bytes;
}

/* ---- sums ---- */

const mf_algorithm *mf_net_group_choose(const mf_net_group *g, const mf_reduce *r)
{
    const int64_t bytes = r->count * (int64_t)mf_dtype_size(r->dtype);
    const int n = g->head.size;

    if (g->algorithm && (!g->algorithm->fits || g->algorithm->fits(&g->head, r)))
        return g->algorithm;
    if (bytes <= MF_PARAM(allreduce_exchange_kib) * 1024 &&
        n <= MF_PARAM(allreduce_exchange_members))
        return &mf_algorithm_exchange;
    if (bytes <= MF_PARAM(allreduce_tree_kib) * 1024)
        return &mf_algorithm_tree;
    return n <= MF_PARAM(allreduce_direct_members) ? &mf_algorithm_direct : &mf_algorithm_ring;
}

/* Elements [from, from + count) of a sum, as a sum. */
static mf_reduce group_net_cut(const mf_net_group *g, const mf_reduce *r, int64_t from,
                               int64_t count, const void **data)
{
    mf_reduce part = *r;

    for (int i = 0; i < r->n_parts[g->head.rank]; i++)
        data[i] = mf_at(r, r->data[i], from);
    part.data = data;
    part.count = count;
    part.out = mf_at(r, r->out, from);
    return part;
}

static mf_status check_reduce(const mf_net_group *g, const mf_reduce *r)
{
    if (r->n_parts[g->head.rank] > MF_REDUCTION_TREE_PARTS)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%d partial sums exceed the limit of %d",
                       r->n_parts[g->head.rank], MF_REDUCTION_TREE_PARTS);
    return MF_OK;
}

static mf_status net_all_reduce(mf_group *group, const mf_reduce *r)
{
    mf_net_group *g = group_net_begin_call(group);
    const mf_algorithm *a = mf_net_group_choose(g, r);
    const int64_t block = block_bytes() / (int64_t)mf_dtype_size(r->dtype);
    const void *data[MF_REDUCTION_TREE_PARTS] = { 0 };

    MF_TRY(check_reduce(g, r));
    for (int64_t at = 0; at < r->count; at += block) {
        const mf_reduce part =
            group_net_cut(g, r, at, group_net_smaller(block, r->count - at), data);

        reset_blocks(g);
        MF_TRY(a->all_reduce(group, &part));
    }
    return MF_OK;
}

/* One block of each member's range at a time. */
static mf_status net_reduce_scatter(mf_group *group, const mf_reduce *r, const int64_t *from)
{
    mf_net_group *g = group_net_begin_call(group);
    const int64_t block = block_bytes() / (int64_t)mf_dtype_size(r->dtype) / group->size + 1;
    int64_t *lo = mf_calloc(2 * (int64_t)group->size, sizeof *lo), *hi = lo + group->size;
    int64_t most = 0;
    mf_status st = lo ? check_reduce(g, r) : MF_NOMEM("a sum");

    for (int i = 0; i < group->size; i++)
        most = from[i + 1] - from[i] > most ? from[i + 1] - from[i] : most;
    for (int64_t at = 0; at < most && st == MF_OK; at += block) {
        for (int i = 0; i < group->size; i++) {
            lo[i] = group_net_smaller(from[i] + at, from[i + 1]);
            hi[i] = group_net_smaller(from[i] + at + block, from[i + 1]);
        }
        reset_blocks(g);
        st = mf_direct_scatter(g, r, lo, hi, mf_at(r, r->out, at));
    }
    mf_free(lo);
    return st;
}

/* ---- bytes ---- */

/* Sends to all and receives from all; each starts with its neighbour, so that they do not all send
 * to the same member. */
static mf_status net_all_gather(mf_group *group, const mf_gather *a)
{
    mf_net_group *g = group_net_begin_call(group);
    const int n = group->size, self = group->rank;
    mf_message_flow *flows = mf_net_group_alloc(g, 2 * (int64_t)n, sizeof *flows);
    char *out = a->out;
    int count = 0;

    if (!flows)
        return MF_RESOURCE_EXHAUSTED;
    for (int i = 0; i < n; i++) {
        if (a->sizes[self] > 0)
            flows[count++] = mf_message_flow_to((self + i) % n, a->data, a->sizes[self]);
    }
    for (int r = 0; r < n; out += a->sizes[r++]) {
        if (a->sizes[r] > 0)
            flows[count++] = mf_message_flow_from(r, out, a->sizes[r]);
    }
    return mf_net_flow(g, &a->call, flows, count);
}

static mf_status net_broadcast(mf_group *group, const mf_collective *c, int root, void *data,
                               int64_t size)
{
    mf_net_group *g = group_net_begin_call(group);

    for (int64_t at = 0; at < size; at += block_bytes()) {
        reset_blocks(g);
        MF_TRY(mf_net_tree_broadcast(g, c, root, (char *)data + at,
                                     group_net_smaller(block_bytes(), size - at)));
    }
    return MF_OK;
}

static mf_status net_all_to_all(mf_group *group, const mf_collective *c, const void *data,
                                const int64_t *sizes, void *out)
{
    mf_net_group *g = group_net_begin_call(group);
    const int n = group->size, self = group->rank;
    mf_message_flow *flows = mf_net_group_alloc(g, 2 * (int64_t)n, sizeof *flows);
    const char *from = data;
    char *to = out;
    int count = 0;

    if (!flows)
        return MF_RESOURCE_EXHAUSTED;
    for (int r = 0; r < n; r++) {
        const int64_t mine = sizes[(int64_t)self * n + r], theirs = sizes[(int64_t)r * n + self];

        if (mine > 0)
            flows[count++] = mf_message_flow_to(r, from, mine);
        if (theirs > 0)
            flows[count++] = mf_message_flow_from(r, to, theirs);
        from += mine;
        to += theirs;
    }
    return mf_net_flow(g, c, flows, count);
}

/* After round k each member has heard from 2^k others. */
static mf_status net_barrier(mf_group *group, const mf_collective *c)
{
    mf_net_group *g = group_net_begin_call(group);
    const int n = group->size, self = group->rank;
    char nothing;

    for (int d = 1; d < n; d *= 2) {
        const mf_message_flow flows[] = { mf_message_flow_to((self + d) % n, &nothing, 0),
                                          mf_message_flow_from((self + n - d) % n, &nothing, 0) };

        MF_TRY(mf_net_flow(g, c, flows, MF_COUNT(flows)));
    }
    return MF_OK;
}

/* ---- the group ---- */

static void net_free(mf_group *group)
{
    mf_net_group *g = (mf_net_group *)group;

    if (g->net)
        mf_net_forget(g->net, g->id);
    free_blocks(g->blocks);
    mf_group_names_free(group);
    mf_free(g->tasks);
    mf_free(g);
}

static const mf_group_kind NET = {
    .name = "connections",
    .all_reduce = net_all_reduce,
    .reduce_scatter = net_reduce_scatter,
    .all_gather = net_all_gather,
    .broadcast = net_broadcast,
    .all_to_all = net_all_to_all,
    .barrier = net_barrier,
    .free = net_free,
};

static mf_status group_net_healthy(void *ctx)
{
    return mf_net_check(ctx);
}

static void group_net_give_up(void *ctx, mf_status why)
{
    mf_net_abort(ctx, why);
}

mf_status mf_net_group_head(mf_net *net, const int *members, int n, mf_group *head)
{
    const char **names = mf_calloc(n, sizeof *names);

    *head = (mf_group){ .rank = -1,
                        .size = n,
                        .epoch = net->epoch,
                        .names = names,
                        .healthy = group_net_healthy,
                        .give_up = group_net_give_up,
                        .ctx = net };
    if (!names)
        return MF_NOMEM("a group");
    for (int i = 0; i < n; i++) {
        if (members[i] < 0 || members[i] >= net->n_tasks || (i > 0 && members[i] <= members[i - 1]))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "member %d of a group is task %d; members must ascend and be below %d",
                           i, members[i], net->n_tasks);
        names[i] = mf_net_name(net, members[i]);
        if (members[i] == net->self)
            head->rank = i;
    }
    if (head->rank < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s is not a member of the group",
                       mf_net_name(net, net->self));
    return MF_OK;
}

void mf_group_names_free(mf_group *head)
{
    mf_free((void *)(uintptr_t)head->names);
}

mf_status mf_group_net(mf_net *net, const int *members, int n, uint32_t id,
                       const mf_algorithm *algorithm, mf_group **out)
{
    mf_net_group *g = mf_calloc(1, sizeof *g);
    mf_status st;

    *out = NULL;
    if (!g)
        return MF_NOMEM("a group");
    g->tasks = mf_calloc(n, sizeof *g->tasks);
    st = mf_net_group_head(net, members, n, &g->head);
    if (st == MF_OK && !g->tasks)
        st = MF_NOMEM("a group");
    if (st != MF_OK) {
        net_free(&g->head);
        return st;
    }
    memcpy(g->tasks, members, (size_t)n * sizeof *g->tasks);
    g->head.kind = &NET;
    g->net = net;
    g->id = id;
    g->algorithm = algorithm;
    *out = &g->head;
    return MF_OK;
}
