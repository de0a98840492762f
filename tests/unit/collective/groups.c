/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/collective/groups.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LEAVES = 33 };

/* Element i of leaf l. Sums depend on the order of additions. */
static float leaf(int64_t l, int64_t i)
{
    const uint32_t h = (uint32_t)(l * 2654435761u + i * 40503u + 12345u);

    return (float)(h >> 8) * 0x1p-20f * ((h & 1) ? 1.0f : -1e-4f);
}

/* The definition of the reduction tree. */
static float whole(int64_t from, int64_t to, int64_t i)
{
    float sum[MAX_LEAVES] = { 0 };

    for (int64_t l = from; l < to; l++)
        sum[l - from] = leaf(l, i);
    for (int64_t stride = 1; stride < to - from; stride *= 2) {
        for (int64_t l = 0; l + stride < to - from; l += 2 * stride)
            sum[l] += sum[l + stride];
    }
    return sum[0];
}

typedef struct owners {
    mf_reduction_tree_node node[16][MF_REDUCTION_TREE_PARTS];
    const mf_reduction_tree_node *parts[16];
    int n_parts[16];
    const void *data[MF_REDUCTION_TREE_PARTS];
} owners;

/* Leaves are divided unevenly: the leaves of rank r begin at cut(r); a rank may have none. */
static int64_t cut(int64_t leaves, int n, int r, int how)
{
    if (how == 0)
        return leaves * r / n;
    return r == 0 ? 0 : leaves * r * r / ((int64_t)n * n);
}

static void deal(const mf_group *g, int64_t leaves, int how, int64_t count, owners *o)
{
    for (int r = 0; r < g->size; r++) {
        o->n_parts[r] = mf_reduction_tree_parts(leaves, cut(leaves, g->size, r, how),
                                                cut(leaves, g->size, r + 1, how), o->node[r]);
        o->parts[r] = o->node[r];
    }
    for (int p = 0; p < o->n_parts[g->rank]; p++) {
        const mf_reduction_tree_node n = o->node[g->rank][p];
        float *x = mf_calloc(count, sizeof *x);

        for (int64_t i = 0; x && i < count; i++)
            x[i] = whole(n.lo, n.hi, i);
        o->data[p] = x;
    }
}

static bool one_sum(mf_group *g, int64_t leaves, int how, int64_t count, bool scatter, int64_t step)
{
    owners o = { 0 };
    int64_t from[17];
    float *out = mf_calloc(count + 1, sizeof *out);
    const mf_reduce r = { .call = { .step = step, .what = "a sum" },
                          .leaves = leaves,
                          .parts = o.parts,
                          .n_parts = o.n_parts,
                          .data = o.data,
                          .dtype = MF_DTYPE_F32,
                          .count = count,
                          .out = out };
    bool ok;

    for (int i = 0; i <= g->size; i++)
        from[i] = cut(count, g->size, i, how);
    deal(g, leaves, how, count, &o);
    ok = (scatter ? mf_reduce_scatter(g, &r, from) : mf_all_reduce(g, &r)) == MF_OK;
    const int64_t lo = scatter ? from[g->rank] : 0, hi = scatter ? from[g->rank + 1] : count;
    for (int64_t i = lo; ok && i < hi; i++)
        ok = out[i - lo] == whole(0, leaves, i);
    for (int p = 0; p < o.n_parts[g->rank]; p++)
        mf_free((void *)(uintptr_t)o.data[p]);
    mf_free(out);
    if (!ok)
        fprintf(stderr, "# rank %d: sum of %d leaves, %d elements: %s\n", g->rank, (int)leaves,
                (int)count, mf_error_message());
    return ok;
}

static unsigned char letter(int from, int to, int64_t i)
{
    return (unsigned char)(from * 31 + to * 7 + i);
}

static bool gathers(mf_group *g, int64_t step)
{
    const mf_collective c = { .step = step, .what = "a gathering" };
    int64_t sizes[16], total = 0, at = 0;
    unsigned char *mine, *all;
    bool ok = mf_group_sizes(g, &c, 1000 * g->rank * g->rank, sizes) == MF_OK;

    for (int r = 0; ok && r < g->size; r++) {
        ok = sizes[r] == 1000 * r * r;
        total += sizes[r];
    }
    mine = mf_calloc(sizes[g->rank] + 1, 1);
    all = mf_calloc(total + 1, 1);
    for (int64_t i = 0; i < sizes[g->rank]; i++)
        mine[i] = letter(g->rank, 0, i);
    ok = ok && mf_all_gather(g, &(mf_gather){ c, mine, sizes, all }) == MF_OK;
    for (int r = 0; ok && r < g->size; at += sizes[r++]) {
        for (int64_t i = 0; ok && i < sizes[r]; i++)
            ok = all[at + i] == letter(r, 0, i);
    }
    mf_free(mine);
    mf_free(all);
    return ok;
}

static bool trades(mf_group *g, int64_t step)
{
    const mf_collective c = { .step = step, .what = "a trade" };
    int64_t sizes[256], out_size = 0, in_size = 0, at = 0;
    unsigned char *out, *in;
    bool ok;

    for (int i = 0; i < g->size; i++) {
        for (int j = 0; j < g->size; j++)
            sizes[i * g->size + j] = (i * 5 + j * 11) % 7 * 300;
    }
    for (int r = 0; r < g->size; r++) {
        out_size += sizes[g->rank * g->size + r];
        in_size += sizes[r * g->size + g->rank];
    }
    out = mf_calloc(out_size + 1, 1);
    in = mf_calloc(in_size + 1, 1);
    for (int r = 0; r < g->size; r++) {
        for (int64_t i = 0; i < sizes[g->rank * g->size + r]; i++)
            out[at++] = letter(g->rank, r, i);
    }
    ok = mf_all_to_all(g, &c, out, sizes, in) == MF_OK;
    at = 0;
    for (int r = 0; ok && r < g->size; r++) {
        for (int64_t i = 0; ok && i < sizes[r * g->size + g->rank]; i++)
            ok = in[at++] == letter(r, g->rank, i);
    }
    mf_free(out);
    mf_free(in);
    return ok;
}

static bool broadcasts(mf_group *g, int64_t step)
{
    const mf_collective c = { .step = step, .what = "a broadcast" };
    static _Thread_local unsigned char data[20000];
    bool ok = true;

    for (int root = 0; ok && root < g->size; root++) {
        for (int i = 0; i < (int)sizeof data; i++)
            data[i] = g->rank == root ? letter(root, 0, i) : 0;
        ok = mf_broadcast(g, &c, root, data, sizeof data) == MF_OK;
        for (int i = 0; ok && i < (int)sizeof data; i++)
            ok = data[i] == letter(root, 0, i);
    }
    return ok;
}

bool test_group_member(mf_group *g)
{
    static const int64_t counts[] = { 1, 7, 1000, 5003, 40000 };
    static const int64_t leaves[] = { 1, 2, 3, 5, 8, 13, 32, 33 };
    int64_t step = 0;
    bool ok = true;

    for (int l = 0; ok && l < MF_COUNT(leaves); l++) {
        for (int c = 0; ok && c < MF_COUNT(counts); c++) {
            for (int how = 0; ok && how < 2; how++)
                ok = one_sum(g, leaves[l], how, counts[c], c % 2 == 1, ++step);
        }
    }
    for (int i = 0; ok && i < 3; i++)
        ok = gathers(g, ++step) && trades(g, ++step) && broadcasts(g, ++step) &&
             mf_barrier(g, &(mf_collective){ .step = ++step, .what = "a barrier" }) == MF_OK;
    return ok;
}
