/* SPDX-License-Identifier: Apache-2.0 */
/* aggregation_settings.c - the settings of a strategy that choose how gradients are aggregated. */
#include "dist/strategies.h"

#include <math.h>
#include <string.h>

/* Without weights each member counts by its samples, as in the mean. */
static mf_status aggregation_settings_read_weights(const mf_options *o, mf_arena *arena,
                                                   mf_aggregation_settings *out)
{
    const mf_attr *given = mf_options_get(o, "weights");
    double *weights = MF_ARENA_ARRAY(arena, double, given->n);

    if (given->n == 0) {
        out->how = MF_AGGREGATE_MEAN;
        return MF_OK;
    }
    if (!weights)
        return MF_NOMEM("weights");
    for (int64_t i = 0; i < given->n; i++) {
        weights[i] = (double)given->floats[i];
        if (!(weights[i] > 0.0) || isinf(weights[i]))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "%s: weight %lld is %g; weights must be finite and above 0", o->subject,
                           (long long)i, weights[i]);
    }
    out->weights = weights;
    out->n_weights = (int)given->n;
    return MF_OK;
}

mf_status mf_aggregation_settings_read(const mf_options *o, mf_arena *arena,
                                       mf_aggregation_settings *out)
{
    const char *name = mf_options_string(o, "aggregation");

    *out = (mf_aggregation_settings){ .trim = mf_options_float(o, "trim") };
    if (!mf_aggregate_find(name, &out->how))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%s: there is no aggregation '%s'; there are sum, mean, weighted, "
                       "trimmed_mean, median and adasum",
                       o->subject, name);
    if (!(out->trim >= 0.0 && out->trim < 0.5))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: trim is %g; it must be at least 0 and below 0.5",
                       o->subject, out->trim);
    if (mf_options_given(o, "trim") && out->how != MF_AGGREGATE_TRIMMED_MEAN)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: trim needs aggregation=trimmed_mean", o->subject);
    if (mf_options_given(o, "weights") && out->how != MF_AGGREGATE_WEIGHTED)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: weights need aggregation=weighted", o->subject);
    return out->how == MF_AGGREGATE_WEIGHTED ? aggregation_settings_read_weights(o, arena, out)
                                             : MF_OK;
}

void mf_aggregation_settings_print(const mf_aggregation_settings *s, const mf_setting_printer *p)
{
    mf_setting_string(p, "aggregation", mf_aggregate_name(s->how));
    if (s->how == MF_AGGREGATE_TRIMMED_MEAN)
        mf_setting_float(p, "trim", s->trim);
    for (int i = 0; i < s->n_weights; i++)
        mf_buf_printf(p->out, "%s%.9g", i > 0 ? "," : " weights=[", s->weights[i]);
    mf_buf_str(p->out, s->n_weights > 0 ? "]" : "");
}

mf_status mf_aggregation_make(const mf_strategy_settings *settings, const char *member, int size,
                              mf_aggregation *out, double **owned)
{
    const mf_aggregation_settings *s = &settings->aggregation;

    *out = (mf_aggregation){ .how = s->how, .trim = s->trim };
    if (s->how != MF_AGGREGATE_WEIGHTED)
        return MF_OK;
    if (s->n_weights != size)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%s: there are %d weights for %d members: give one for each %s",
                       settings->kind->name, s->n_weights, size, member);
    *owned = mf_calloc(size, sizeof **owned);
    if (!*owned)
        return MF_NOMEM("weights");
    memcpy(*owned, s->weights, (size_t)size * sizeof **owned);
    out->weights = *owned;
    return MF_OK;
}

/* Sparse gradients cannot be compared shard by shard. */
mf_status mf_aggregation_check(const mf_aggregation *a, const mf_trainer *t)
{
    for (int i = 0; i < t->graph.n_weights && mf_aggregate_is_apart(a->how); i++) {
        if (t->graph.weights[i].ids.node)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "aggregation=%s needs dense gradients, but '%s' is updated by the "
                           "rows that were looked up; use aggregation=mean",
                           mf_aggregate_name(a->how), t->graph.weights[i].weight->name);
    }
    return MF_OK;
}

mf_status mf_aggregation_join(const mf_aggregation *a, const mf_trainer *t)
{
    const int64_t shards = t->options.shards;

    if (a->how == MF_AGGREGATE_SUM && (shards & (shards - 1)) != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "aggregation=sum needs a number of shards that is a power of two, so that "
                       "the result does not depend on the workers; --shards is %lld",
                       (long long)shards);
    return mf_aggregation_check(a, t);
}
