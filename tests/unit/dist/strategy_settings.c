/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_settings.c - strategies are parsed once; printed, they parse to the same struct. */
#include "dist/mesh/mesh_settings.h"
#include "dist/strategies.h"
#include "mf_test.h"

#include <string.h>

static const char *const TEXTS[] = {
    "multi_worker_mirrored",
    "multi_worker_mirrored collective=ring balance=false aggregation=trimmed_mean trim=0.2",
    "reduce_to_one aggregation=weighted weights=[1.5,2,0.1]",
    "mirrored replicas=3 aggregation=median",
    "central_storage",
    "local_sgd groups=2 period=7 slots=keep",
    "local_sgd slots=reset aggregation=adasum",
    "parameter_server",
    "parameter_server mode=async period=4 blocks=8 copies=0 by_host=false",
    "parameter_server mode=semi",
    "parameter_server mode=semi quorum=2",
    "parameter_server mode=semi quorum=2 staleness=5 balance=false",
    "parameter_server partition=fixed shards=3 place=by_size",
    "parameter_server partition=min_size shard_bytes=1000 max_shards=4",
    "mesh axes='rows:2;cols:3,1' layout='batch:rows;hidden:cols' exact=true",
    "mesh axes='stages:2;rows:2 | all:3' layout='layers:stages' stages='2,1,3' pipeline=gpipe",
    "mesh axes=stages:2 layout=layers:stages pipeline=interleaved chunks=3 balance=true",
    "mesh axes=a:2 pipeline=zero-bubble aggregation=weighted weights=[1,2]",
    "servers target=grpc://host:1 by_bytes=false",
};

static void same_mesh(const mf_mesh_settings *a, const mf_mesh_settings *b)
{
    T_EQ(a->mesh.n, b->mesh.n);
    for (int i = 0; i < a->mesh.n; i++)
        T_TRUE(mf_mesh_alike(&a->mesh.at[i], &b->mesh.at[i]));
    T_EQ(memcmp(&a->mesh.rules, &b->mesh.rules, sizeof a->mesh.rules), 0);
    T_TRUE(a->exact == b->exact && a->pipeline == b->pipeline && a->chunks == b->chunks);
    T_EQ(a->n_layers, b->n_layers);
    T_EQ(memcmp(a->layers, b->layers, (size_t)a->n_layers * sizeof *a->layers), 0);
}

static void same_ps(const mf_ps_settings *a, const mf_ps_settings *b)
{
    const mf_ps_mode *x = &a->mode, *y = &b->mode;
    const mf_weight_partition *p = &x->partition, *q = &y->partition;

    T_TRUE(x->sync == y->sync && a->by_host == b->by_host && a->copies == b->copies);
    T_TRUE(x->staleness == y->staleness && x->quorum == y->quorum && x->period == y->period &&
           x->blocks == y->blocks);
    T_TRUE(p->kind == q->kind && p->shards == q->shards && p->bytes == q->bytes &&
           p->max_shards == q->max_shards && p->by_size == q->by_size);
}

static void same_own(const mf_strategy_settings *a, const mf_strategy_settings *b)
{
    if (a->kind->open == mf_mesh_open) {
        same_mesh(a->mesh, b->mesh);
    } else if (a->kind->open == mf_ps_open) {
        same_ps(&a->ps, &b->ps);
    } else if (a->kind->open == mf_local_sgd_open) {
        T_TRUE(a->local_sgd.groups == b->local_sgd.groups &&
               a->local_sgd.period == b->local_sgd.period &&
               a->local_sgd.slots == b->local_sgd.slots);
    } else if (a->kind->open == mf_servers_open) {
        T_STREQ(a->remote.target, b->remote.target);
        T_TRUE(a->remote.by_bytes == b->remote.by_bytes);
    } else {
        T_EQ(a->replicas, b->replicas);
    }
}

static void same(const mf_strategy_settings *a, const mf_strategy_settings *b)
{
    T_TRUE(a->kind == b->kind);
    T_STREQ(a->collective, b->collective);
    T_TRUE(a->balance == b->balance);
    T_TRUE(a->aggregation.how == b->aggregation.how);
    T_EQ_F(a->aggregation.trim, b->aggregation.trim);
    T_EQ(a->aggregation.n_weights, b->aggregation.n_weights);
    for (int i = 0; i < a->aggregation.n_weights; i++)
        T_EQ_F(a->aggregation.weights[i], b->aggregation.weights[i]);
    same_own(a, b);
}

MF_TEST(strategy_settings_survive_printing)
{
    for (int i = 0; i < MF_COUNT(TEXTS); i++) {
        mf_arena *arena = mf_arena_new();
        mf_strategy_settings a, b;
        mf_buf text = { 0 };

        T_OK(mf_strategy_parse(TEXTS[i], arena, &a));
        mf_strategy_text(&a, &text);
        T_OK(mf_buf_finish(&text));
        T_OK(mf_strategy_parse(text.data, arena, &b));
        same(&a, &b);
        mf_buf_deinit(&text);
        mf_arena_free(arena);
    }
}

/* The text is compared between tasks, so it does not depend on how the user wrote it. */
MF_TEST(strategy_settings_that_are_equal_have_one_text)
{
    mf_arena *arena = mf_arena_new();
    mf_strategy_settings a, b;
    mf_buf x = { 0 }, y = { 0 };

    T_OK(mf_strategy_parse("local_sgd", arena, &a));
    T_OK(mf_strategy_parse(" local_sgd  period=16, slots='average'", arena, &b));
    mf_strategy_text(&a, &x);
    mf_strategy_text(&b, &y);
    T_STREQ(x.data, y.data);
    mf_buf_deinit(&x);
    mf_buf_deinit(&y);
    mf_arena_free(arena);
}

/* --mesh and --target are short forms of strategies. */
MF_TEST(strategy_settings_of_options_are_those_of_the_text)
{
    mf_arena *arena = mf_arena_new();
    mf_mesh_settings mesh;
    mf_strategy_settings a, b;

    T_OK(mf_mesh_settings_parse_mesh("rows:2;cols:2", "batch:rows", &mesh));
    mf_strategy_of_mesh(&mesh, &a);
    T_OK(mf_strategy_parse("mesh axes=rows:2;cols:2 layout=batch:rows", arena, &b));
    b.aggregation.trim = a.aggregation.trim; /* unused with the mean */
    same(&a, &b);
    mf_strategy_of_target("grpc://host:1", &a);
    T_OK(mf_strategy_parse("servers target=grpc://host:1", arena, &b));
    same(&a, &b);
    mf_arena_free(arena);
}

MF_TEST(strategy_settings_errors_name_the_problem)
{
    static const struct {
        mf_status code;
        const char *part, *text;
    } wrong[] = {
        { MF_NOT_FOUND, "no strategy 'mirored'; did you mean 'mirrored'?", "mirored" },
        { MF_INVALID_ARGUMENT, "did you mean 'replicas'", "mirrored replica=2" },
        { MF_INVALID_ARGUMENT, "there is no aggregation 'average'",
          "mirrored aggregation=average" },
        { MF_INVALID_ARGUMENT, "trim is 0.5", "mirrored aggregation=trimmed_mean trim=0.5" },
        { MF_INVALID_ARGUMENT, "trim needs aggregation=trimmed_mean", "mirrored trim=0.2" },
        { MF_INVALID_ARGUMENT, "weights need aggregation=weighted", "mirrored weights=[1]" },
        { MF_INVALID_ARGUMENT, "weight 1 is -1", "mirrored aggregation=weighted weights=[1,-1]" },
        { MF_INVALID_ARGUMENT, "not 'lose'", "local_sgd slots=lose" },
        { MF_INVALID_ARGUMENT, "not 'maybe'", "parameter_server mode=maybe" },
        { MF_INVALID_ARGUMENT, "period=2 is for", "parameter_server period=2" },
        { MF_INVALID_ARGUMENT, "belong together", "parameter_server shards=2" },
        { MF_INVALID_ARGUMENT, "use mode=sync", "parameter_server mode=async aggregation=median" },
        { MF_INVALID_ARGUMENT, "mesh needs the setting axes", "mesh" },
        { MF_INVALID_ARGUMENT, "no axis 'b'", "mesh axes=a:2 layout=batch:b" },
        { MF_INVALID_ARGUMENT, "no pipeline 'fast'", "mesh axes=a:2 pipeline=fast" },
        { MF_INVALID_ARGUMENT, "are 1, but the mesh has 2",
          "mesh axes=a:2 layout=layers:a stages='1'" },
    };

    for (int i = 0; i < MF_COUNT(wrong); i++) {
        mf_arena *arena = mf_arena_new();
        mf_strategy_settings s;

        T_FAILS(wrong[i].code, wrong[i].part, mf_strategy_parse(wrong[i].text, arena, &s));
        mf_arena_free(arena);
    }
}
