/* SPDX-License-Identifier: Apache-2.0 */
/* slice_placement.c - assigns slices of the weights to parameter servers. */
#include "dist/param_server/slice_placement.h"

static int64_t slice_placement_count_of(const mf_weight *w)
{
    return mf_shape_span(&w->shape, 0, w->shape.rank);
}

static void slice_placement_add(mf_placement *p, int server, const mf_weight *w, int64_t from,
                                int64_t to)
{
    if (from < to)
        p->slices[server][p->n_slices[server]++] = (mf_piece){ w, from, to };
}

/* A table: rows over all servers. */
static void cut_rows(mf_placement *p, const mf_weight *w)
{
    const int64_t rows = w->shape.dims[0], row = rows > 0 ? slice_placement_count_of(w) / rows : 0;

    for (int s = 0; s < p->n_servers; s++)
        slice_placement_add(p, s, w, rows * s / p->n_servers * row,
                            rows * (s + 1) / p->n_servers * row);
}

/* The weight is at offset `at` in the sequence of all weights, which has `total` elements. */
static void cut_evenly(mf_placement *p, const mf_weight *w, int64_t at, int64_t total)
{
    const int64_t n = slice_placement_count_of(w);

    for (int s = 0; s < p->n_servers; s++) {
        const int64_t lo = total * s / p->n_servers - at, hi = total * (s + 1) / p->n_servers - at;

        slice_placement_add(p, s, w, lo > 0 ? lo : 0, hi < n ? hi : n);
    }
}

static bool may_cut(mf_placement_cut cut, const mf_weight *w)
{
    return cut == MF_CUT_ALL || (cut == MF_CUT_TABLES && w->lookups);
}

/* Largest first, each to the server with the fewest bytes so far. */
static mf_status keep_whole(mf_placement *p, const mf_model *m, mf_placement_cut cut,
                            mf_arena *arena)
{
    int *owner = MF_ARENA_ARRAY(arena, int, m->n_weights);
    int64_t *load = MF_ARENA_ARRAY(arena, int64_t, p->n_servers);

    if (!owner || !load)
        return MF_NOMEM("placement");
    for (int64_t i = 0; i < m->n_weights; i++)
        owner[i] = -1;
    for (;;) {
        int64_t best = -1;
        int to = 0;

        for (int64_t i = 0; i < m->n_weights; i++) {
            if (m->weights[i]->trained && !may_cut(cut, m->weights[i]) && owner[i] < 0 &&
                (best < 0 || slice_placement_count_of(m->weights[i]) >
                                 slice_placement_count_of(m->weights[best])))
                best = i;
        }
        if (best < 0)
            break;
        for (int s = 1; s < p->n_servers; s++)
            to = load[s] < load[to] ? s : to;
        owner[best] = to;
        load[to] += slice_placement_count_of(m->weights[best]);
    }
    for (int64_t i = 0; i < m->n_weights; i++) {
        if (owner[i] >= 0)
            slice_placement_add(p, owner[i], m->weights[i], 0,
                                slice_placement_count_of(m->weights[i]));
        else if (m->weights[i]->trained)
            cut_rows(p, m->weights[i]);
    }
    return MF_OK;
}

static mf_status slice_placement_begin(const mf_model *m, int servers, mf_arena *arena,
                                       mf_placement *out)
{
    *out = (mf_placement){ .n_servers = servers,
                           .slices = MF_ARENA_ARRAY(arena, mf_piece *, servers),
                           .n_slices = MF_ARENA_ARRAY(arena, int, servers) };
    if (!out->slices || !out->n_slices)
        return MF_NOMEM("placement");
    for (int s = 0; s < servers; s++) {
        out->slices[s] = MF_ARENA_ARRAY(arena, mf_piece, m->n_weights + 1);
        if (!out->slices[s])
            return MF_NOMEM("placement");
    }
    return MF_OK;
}

/* ---- by a rule ---- */

/* The first row of shard k of n: the first shards have a row more where rows do not divide. */
static int64_t first_row(int64_t rows, int64_t n, int64_t k)
{
    return rows / n * k + (k < rows % n ? k : rows % n);
}

/* The server with the fewest bytes and no part of this weight yet. */
static int find_light(const mf_placement *p, const mf_weight *w, const int64_t *load)
{
    int best = -1;

    for (int s = 0; s < p->n_servers; s++) {
        if (!mf_placement_find(p, s, w) && (best < 0 || load[s] < load[best]))
            best = s;
    }
    return best;
}

static void slice_placement_deal(mf_placement *p, const mf_weight *w,
                                 const mf_weight_partition *rule, int64_t *load, int64_t *turn)
{
    const int64_t rows = w->shape.rank > 0 ? w->shape.dims[0] : 1,
                  row = slice_placement_count_of(w) / rows;
    const int64_t shards = mf_weight_partition_shards(rule, &w->shape);
    const int64_t slices = shards < p->n_servers ? shards : p->n_servers;

    for (int64_t i = 0; i < slices; i++) {
        const int to = rule->by_size ? find_light(p, w, load) : (int)((*turn)++ % p->n_servers);
        const int64_t from = first_row(rows, shards, shards * i / slices) * row;
        const int64_t until = first_row(rows, shards, shards * (i + 1) / slices) * row;

        slice_placement_add(p, to, w, from, until);
        load[to] += until - from;
    }
}

mf_status mf_placement_assign(const mf_model *m, int servers, mf_placement_cut cut,
                              const mf_weight_partition *rule, mf_arena *arena, mf_placement *out)
{
    int64_t *load = MF_ARENA_ARRAY(arena, int64_t, servers), turn = 0;

    MF_TRY(slice_placement_begin(m, servers, arena, out));
    if (!load)
        return MF_NOMEM("placement");
    for (int64_t i = 0; i < m->n_weights; i++) {
        const mf_weight *w = m->weights[i];

        if (!w->trained || slice_placement_count_of(w) == 0)
            continue;
        if (!may_cut(cut, w) && mf_weight_partition_shards(rule, &w->shape) > 1)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "%s would be cut into %lld shards, and this optimizer, --clip, "
                           "--prune or aggregation=adasum needs complete weights: use "
                           "partition=whole",
                           w->name, (long long)mf_weight_partition_shards(rule, &w->shape));
        slice_placement_deal(out, w, rule, load, &turn);
    }
    return MF_OK;
}

/* ---- evenly ---- */

mf_status mf_placement_make(const mf_model *m, int servers, mf_placement_cut cut, mf_arena *arena,
                            mf_placement *out)
{
    int64_t total = 0, at = 0;

    MF_TRY(slice_placement_begin(m, servers, arena, out));
    if (cut != MF_CUT_ALL)
        return keep_whole(out, m, cut, arena);
    for (int64_t i = 0; i < m->n_weights; i++)
        total += m->weights[i]->trained && !m->weights[i]->lookups
                     ? slice_placement_count_of(m->weights[i])
                     : 0;
    for (int64_t i = 0; i < m->n_weights; i++) {
        const mf_weight *w = m->weights[i];

        if (!w->trained)
            continue;
        if (w->lookups) {
            cut_rows(out, w);
        } else {
            cut_evenly(out, w, at, total);
            at += slice_placement_count_of(w);
        }
    }
    return MF_OK;
}

const mf_piece *mf_placement_find(const mf_placement *p, int server, const mf_weight *weight)
{
    for (int i = 0; i < p->n_slices[server]; i++) {
        if (p->slices[server][i].weight == weight)
            return &p->slices[server][i];
    }
    return NULL;
}

mf_shape mf_piece_shape(const mf_piece *s)
{
    const mf_weight *w = s->weight;
    mf_shape shape = w->shape;

    if (s->to - s->from == slice_placement_count_of(w))
        return shape;
    if (w->lookups) {
        shape.dims[0] = (s->to - s->from) / (slice_placement_count_of(w) / w->shape.dims[0]);
        return shape;
    }
    return w->shape.rank < 2 ? MF_SHAPE(s->to - s->from) : MF_SHAPE(s->to - s->from, 1);
}
