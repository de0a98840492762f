/* SPDX-License-Identifier: Apache-2.0 */
/* slice_placement.c - weights are divided evenly over servers; each element is stored once. */
#include "dist/param_server/slice_placement.h"

#include "mf_test.h"

#include <string.h>

enum { ROW = 8 }; /* elements of a row of the table */

static void add_weight(mf_model *m, const char *name, mf_shape shape, bool table)
{
    mf_weight *w = MF_ARENA_NEW(m->graph->arena, mf_weight);

    T_OK(mf_grow(&m->weights, &m->cap_weights, m->n_weights + 1, sizeof(mf_weight *)));
    *w = (mf_weight){ .name = name, .dtype = MF_DTYPE_F32, .shape = shape, .trained = true };
    if (table)
        w->lookups = MF_ARENA_NEW(m->graph->arena, mf_lookup);
    m->weights[m->n_weights++] = w;
}

static mf_model *three_weights(void)
{
    mf_model *m;

    T_OK(mf_model_new(&m));
    add_weight(m, "kernel", MF_SHAPE(100, 33), false);
    add_weight(m, "bias", MF_SHAPE(33), false);
    add_weight(m, "table", MF_SHAPE(1001, ROW), true);
    add_weight(m, "small", MF_SHAPE(7, 3), false);
    return m;
}

static void check_whole(const mf_model *m, const mf_placement *p)
{
    for (int64_t i = 0; i < m->n_weights; i++) {
        const mf_weight *w = m->weights[i];
        int64_t at = 0;

        for (int s = 0; s < p->n_servers; s++) {
            const mf_piece *piece = mf_placement_find(p, s, w);

            if (!piece)
                continue;
            if (at > 0)
                T_EQ(piece->from, at);
            at = piece->to;
            if (w->lookups)
                T_EQ(piece->from % ROW, 0);
        }
        T_EQ(at, mf_shape_span(&w->shape, 0, w->shape.rank));
    }
}

/* The difference between the servers with the most and the fewest elements, of tables or of
 * all other weights. */
static int64_t spread(const mf_placement *p, bool tables)
{
    int64_t least = INT64_MAX, most = 0;

    for (int s = 0; s < p->n_servers; s++) {
        int64_t n = 0;

        for (int i = 0; i < p->n_slices[s]; i++) {
            const mf_piece *piece = &p->slices[s][i];

            if ((piece->weight->lookups != NULL) == tables)
                n += piece->to - piece->from;
        }
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    return most - least;
}

MF_TEST(parallel_placement_splits_weights_evenly_and_tables_between_rows)
{
    mf_model *m = three_weights();

    for (int servers = 1; servers <= 7; servers++) {
        mf_placement p;

        T_OK(mf_placement_make(m, servers, MF_CUT_ALL, m->graph->arena, &p));
        check_whole(m, &p);
        T_TRUE(spread(&p, false) <= 1);
        T_TRUE(spread(&p, true) <= ROW);
    }
    mf_model_free(m);
}

MF_TEST(parallel_placement_does_not_split_weights_that_must_be_whole)
{
    mf_model *m = three_weights();
    mf_placement p;

    T_OK(mf_placement_make(m, 2, MF_CUT_TABLES, m->graph->arena, &p));
    check_whole(m, &p);
    for (int i = 0; i < 4; i++) {
        const bool both = mf_placement_find(&p, 0, m->weights[i]) != NULL &&
                          mf_placement_find(&p, 1, m->weights[i]) != NULL;

        T_EQ(both, m->weights[i]->lookups != NULL);
    }
    T_TRUE(mf_placement_find(&p, 0, m->weights[0]) != NULL); /* the largest */
    T_TRUE(mf_placement_find(&p, 1, m->weights[1]) != NULL);
    T_TRUE(mf_placement_find(&p, 1, m->weights[3]) != NULL);
    mf_model_free(m);
}

MF_TEST(parallel_placement_does_not_split_tables_that_must_be_whole)
{
    mf_model *m = three_weights();
    const mf_weight_partition rule = { .kind = MF_WEIGHT_PARTITION_MIN_SIZE, .bytes = 20000 };
    mf_placement p;

    T_OK(mf_placement_make(m, 2, MF_CUT_NONE, m->graph->arena, &p));
    check_whole(m, &p);
    for (int i = 0; i < 4; i++) /* the table is the largest */
        T_TRUE(mf_placement_find(&p, i == 2 ? 0 : 1, m->weights[i]) != NULL &&
               mf_placement_find(&p, i == 2 ? 1 : 0, m->weights[i]) == NULL);
    T_OK(mf_placement_assign(m, 2, MF_CUT_TABLES, &rule, m->graph->arena, &p));
    T_FAILS(MF_INVALID_ARGUMENT, "table would be cut into 2 shards",
            mf_placement_assign(m, 2, MF_CUT_NONE, &rule, m->graph->arena, &p));
    mf_model_free(m);
}

/* ---- partitioners ---- */

/* Of every weight each element is held once; by how many servers. */
static int count_holders(const mf_placement *p, const mf_weight *w)
{
    const int64_t n = mf_shape_span(&w->shape, 0, w->shape.rank);
    int holders = 0;
    int64_t held = 0;

    for (int s = 0; s < p->n_servers; s++) {
        const mf_piece *a = mf_placement_find(p, s, w);

        if (!a)
            continue;
        holders++;
        held += a->to - a->from;
        T_EQ(a->from % (n / w->shape.dims[0]), 0); /* between rows */
        for (int r = 0; r < s; r++) {
            const mf_piece *b = mf_placement_find(p, r, w);

            T_TRUE(!b || b->to <= a->from || a->to <= b->from);
        }
    }
    T_EQ(held, n);
    return holders;
}

MF_TEST(parallel_placement_follows_partitioners)
{
    static const struct {
        mf_weight_partition rule;
        int64_t shards[4]; /* of kernel, bias, table, small */
    } cases[] = {
        { { .kind = MF_WEIGHT_PARTITION_WHOLE }, { 1, 1, 1, 1 } },
        { { .kind = MF_WEIGHT_PARTITION_FIXED, .shards = 9 }, { 9, 9, 9, 7 } },
        { { .kind = MF_WEIGHT_PARTITION_MIN_SIZE, .bytes = 4000 }, { 4, 1, 9, 1 } },
        { { .kind = MF_WEIGHT_PARTITION_MIN_SIZE, .bytes = 4000, .max_shards = 3 },
          { 3, 1, 3, 1 } },
        { { .kind = MF_WEIGHT_PARTITION_MAX_SIZE, .bytes = 1000 }, { 15, 1, 33, 1 } },
        { { .kind = MF_WEIGHT_PARTITION_MAX_SIZE, .bytes = 1, .max_shards = 5 }, { 5, 5, 5, 5 } },
    };
    mf_model *m = three_weights();

    for (int c = 0; c < MF_COUNT(cases); c++) {
        for (int servers = 1; servers <= 7; servers++) {
            for (int by_size = 0; by_size < 2; by_size++) {
                mf_weight_partition rule = cases[c].rule;
                mf_placement p;

                rule.by_size = by_size;
                T_OK(mf_placement_assign(m, servers, MF_CUT_ALL, &rule, m->graph->arena, &p));
                for (int64_t i = 0; i < 4; i++) {
                    const int64_t shards = mf_weight_partition_shards(&rule, &m->weights[i]->shape);

                    T_EQ(shards, cases[c].shards[i]);
                    T_EQ(count_holders(&p, m->weights[i]), shards < servers ? shards : servers);
                }
            }
        }
    }
    mf_model_free(m);
}

MF_TEST(parallel_placement_is_round_robin_or_least_loaded)
{
    mf_model *m = three_weights();
    mf_weight_partition rule = { .kind = MF_WEIGHT_PARTITION_WHOLE };
    mf_placement p;

    T_OK(mf_placement_assign(m, 3, MF_CUT_NONE, &rule, m->graph->arena, &p));
    for (int i = 0; i < 4; i++) /* kernel, bias, table, small: one after the other */
        T_TRUE(mf_placement_find(&p, i % 3, m->weights[i]) != NULL);
    rule.by_size = true;
    T_OK(mf_placement_assign(m, 2, MF_CUT_NONE, &rule, m->graph->arena, &p));
    T_TRUE(mf_placement_find(&p, 0, m->weights[0]) != NULL); /* 3300 elements */
    for (int i = 1; i < 3; i++) /* 33, 8008 */
        T_TRUE(mf_placement_find(&p, 1, m->weights[i]) != NULL);
    T_TRUE(mf_placement_find(&p, 0, m->weights[3]) !=
           NULL); /* 21: the server with the fewest bytes now */
    rule = (mf_weight_partition){ .kind = MF_WEIGHT_PARTITION_FIXED, .shards = 2 };
    T_FAILS(MF_INVALID_ARGUMENT, "kernel would be cut into 2 shards",
            mf_placement_assign(m, 3, MF_CUT_TABLES, &rule, m->graph->arena, &p));
    mf_model_free(m);
}
