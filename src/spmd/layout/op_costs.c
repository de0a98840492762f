/* SPDX-License-Identifier: Apache-2.0 */
/* op_costs.c - adds up time, traffic and memory of a device's run by op type. */
#include "spmd/layout/op_costs.h"

#include <stdlib.h>
#include <string.h>

mf_status mf_mesh_costs_init(mf_mesh_costs *c)
{
    *c = (mf_mesh_costs){ .arena = mf_arena_new() };
    return c->arena ? MF_OK : MF_NOMEM("costs");
}

void mf_mesh_costs_deinit(mf_mesh_costs *c)
{
    mf_map_deinit(&c->kinds);
    mf_free(c->list);
    mf_arena_free(c->arena);
    *c = (mf_mesh_costs){ 0 };
}

mf_mesh_cost *mf_mesh_costs_of(mf_mesh_costs *c, const char *op)
{
    mf_mesh_cost *row = mf_map_find(&c->kinds, op);

    if (row)
        return row;
    row = MF_ARENA_NEW(c->arena, mf_mesh_cost);
    if (!row || !(row->op = mf_arena_strdup(c->arena, op)) ||
        mf_grow(&c->list, &c->cap, c->n + 1, sizeof *c->list) != MF_OK ||
        mf_map_set(&c->kinds, row->op, row) != MF_OK)
        return NULL;
    c->list[c->n++] = row;
    return row;
}

static int by_cost(const void *a, const void *b)
{
    const mf_mesh_cost *x = *(mf_mesh_cost *const *)a, *y = *(mf_mesh_cost *const *)b;

    if (x->received_bytes != y->received_bytes)
        return x->received_bytes < y->received_bytes ? 1 : -1;
    if (x->work != y->work)
        return x->work < y->work ? 1 : -1;
    return strcmp(x->op, y->op);
}

void mf_mesh_costs_sort(mf_mesh_costs *c)
{
    if (c->n > 0)
        qsort(c->list, (size_t)c->n, sizeof *c->list, by_cost);
}
