/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_to_one.c - reduces gradients to the first worker, which updates the variables and
 * broadcasts them. The other workers run the same graph as the first, but only up to the sums of
 * the shards; optimizer, regularisation and clipping never run there. Variables are packed into one
 * message. */
#include "dist/data_parallel/reduce_to_one.h"

#include "base/mem.h"

#include <string.h>

struct mf_reduce_to_one {
    mf_trainer *t;
    const char **fetches; /* the step's results, then all outputs of the shards */
    int n_fetches;
    mf_tensor **results;
    mf_variable **given; /* all variables except slots; borrowed */
    int64_t n_given;
    char *message;
    int64_t size; /* its bytes */
};

static bool reduce_to_one_is_first(const mf_reduce_to_one *u)
{
    return u->t->dist->rank == 0;
}

/* ---- giving ---- */

static mf_status reduce_to_one_pack(mf_reduce_to_one *u)
{
    char *to = u->message;

    for (int64_t i = 0; i < u->n_given; i++) {
        mf_tensor value = { 0 };

        MF_TRY(mf_variable_read(u->given[i], &value));
        memcpy(to, value.data, mf_tensor_bytes(&value));
        to += mf_tensor_bytes(&value);
        mf_tensor_clear(&value);
    }
    return MF_OK;
}

static mf_status reduce_to_one_unpack(mf_reduce_to_one *u)
{
    char *from = u->message;

    for (int64_t i = 0; i < u->n_given; i++) {
        mf_tensor value = { .dtype = u->given[i]->dtype, .shape = u->given[i]->declared };

        value.count = mf_shape_span(&value.shape, 0, value.shape.rank);
        value.data = from; /* without a buffer: the value is copied */
        MF_TRY(mf_variable_assign(u->given[i], &value, true));
        from += mf_tensor_bytes(&value);
    }
    return MF_OK;
}

static mf_status reduce_to_one_give(mf_reduce_to_one *u)
{
    mf_dist *dist = u->t->dist;
    const mf_collective c = mf_dist_collective(dist, u->t->step, "the new weights");

    if (reduce_to_one_is_first(u))
        MF_TRY(reduce_to_one_pack(u));
    MF_TRY(mf_broadcast(dist->group, &c, 0, u->message, u->size));
    return reduce_to_one_is_first(u) ? MF_OK : reduce_to_one_unpack(u);
}

/* ---- a step ---- */

/* Fetches all outputs of the shards, so that none of them is pruned. */
static mf_status reduce_to_one_compute(mf_reduce_to_one *u, const mf_run_options *options,
                                       const mf_loop_call *call)
{
    mf_loop_call sums = *call;

    sums.n_targets = 0;
    sums.fetches = u->fetches;
    sums.n_fetches = u->n_fetches;
    sums.results = u->results;
    MF_TRY(mf_trainer_call(u->t, options, &sums));
    for (int i = 0; i < call->n_fetches; i++) {
        mf_tensor *old = call->results[i];

        call->results[i] = u->results[i];
        u->results[i] = old;
    }
    return MF_OK;
}

mf_status mf_reduce_to_one_run(mf_reduce_to_one *u, const mf_run_options *options,
                               const mf_loop_call *call)
{
    MF_TRY(reduce_to_one_is_first(u) ? mf_trainer_call(u->t, options, call)
                                     : reduce_to_one_compute(u, options, call));
    return reduce_to_one_give(u);
}

/* ---- making and freeing ---- */

static mf_status reduce_to_one_name_fetches(mf_reduce_to_one *u)
{
    const mf_trainer *t = u->t;
    const mf_node *map = t->graph.reports[0].of_step.node;
    const int n = t->step_names.n_fetches;

    u->fetches = MF_ARENA_ARRAY(t->arena, const char *, n + map->n_outputs);
    u->results = mf_calloc(n + map->n_outputs, sizeof *u->results);
    if (!u->fetches || !u->results)
        return MF_NOMEM("a step");
    for (int i = 0; i < n; i++)
        u->fetches[i] = t->step_names.fetches[i];
    for (int i = 0; i < map->n_outputs; i++) {
        u->fetches[n + i] = mf_arena_printf(t->arena, "%s:%d", map->name, i);
        if (!u->fetches[n + i])
            return MF_NOMEM("a step");
    }
    u->n_fetches = n + map->n_outputs;
    return MF_OK;
}

static mf_status reduce_to_one_init(mf_reduce_to_one *u)
{
    const mf_trainer *t = u->t;

    u->given = mf_calloc(t->n_trained, sizeof *u->given);
    if (!u->given)
        return MF_NOMEM("a step");
    for (int64_t i = 0; i < t->n_trained; i++) {
        mf_variable *v = t->trained[i].variable;

        if (!mf_train_var_is_slot(&t->trained[i])) {
            u->given[u->n_given++] = v;
            u->size +=
                mf_shape_span(&v->declared, 0, v->declared.rank) * (int64_t)mf_dtype_cell(v->dtype);
        } else if (!reduce_to_one_is_first(u)) {
            mf_variable_reset(v);
        }
    }
    u->message = mf_calloc(u->size, 1);
    if (!u->message)
        return MF_NOMEM("a step");
    return reduce_to_one_name_fetches(u);
}

mf_status mf_reduce_to_one_new(mf_trainer *t, mf_reduce_to_one **out)
{
    mf_reduce_to_one *u = mf_calloc(1, sizeof *u);
    mf_status st;

    *out = NULL;
    if (!u)
        return MF_NOMEM("a step");
    u->t = t;
    st = reduce_to_one_init(u);
    if (st != MF_OK)
        mf_reduce_to_one_free(u);
    else
        *out = u;
    return st;
}

void mf_reduce_to_one_free(mf_reduce_to_one *u)
{
    if (!u)
        return;
    for (int i = 0; u->results && i < u->n_fetches; i++)
        mf_tensor_free(u->results[i]);
    mf_free(u->results);
    mf_free(u->given);
    mf_free(u->message);
    mf_free(u);
}
