/* SPDX-License-Identifier: Apache-2.0 */
/* ps_wire.c - shared by workers and parameter servers. */
#include "base/log.h"
#include "dist/param_server/strategy_param_server.h"
#include "train/step/prune_weights.h"

#include <string.h>

/* Pruning and Adasum leave tables alone. */
static mf_placement_cut find_cut(const mf_trainer *t, const mf_ps_mode *mode)
{
    const char *clip = t->options.clip;

    if (t->graph.updates.kind->whole || (clip && strncmp(clip, "norm", 4) == 0))
        return MF_CUT_NONE;
    return t->options.prune || mode->aggregation.how == MF_AGGREGATE_ADASUM ? MF_CUT_TABLES
                                                                            : MF_CUT_ALL;
}

mf_status mf_ps_place(const mf_trainer *t, int servers, const mf_ps_mode *mode, mf_placement *out)
{
    const mf_weight_partition *rule = &mode->partition;
    const mf_placement_cut cut = find_cut(t, mode);
    const char *clip = t->options.clip;
    bool global = false;

    MF_TRY(mf_prune_is_global(t->options.prune, t->arena, &global));
    if (global && servers > 1)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "no parameter server has all weights, so --prune with scope=global needs "
                       "one server (--ps 1), scope=layer, or another strategy");
    if (clip && strncmp(clip, "global_norm", 11) == 0 && servers > 1)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "no parameter server has all gradients, so --clip %s needs one server "
                       "(--ps 1), or another strategy",
                       clip);
    return rule->kind == MF_WEIGHT_PARTITION_EVEN
               ? mf_placement_make(t->model, servers, cut, t->arena, out)
               : mf_placement_assign(t->model, servers, cut, rule, t->arena, out);
}

void mf_ps_log_placement(const mf_placement *place, const mf_weight_partition *rule)
{
    for (int s = 0; s < place->n_servers; s++) {
        for (int i = 0; i < place->n_slices[s]; i++) {
            const mf_piece *x = &place->slices[s][i];

            MF_INFO("ps %d has elements %lld to %lld of %s, which is cut into %lld shards", s,
                    (long long)x->from, (long long)x->to, x->weight->name,
                    (long long)mf_weight_partition_shards(rule, &x->weight->shape));
        }
    }
}

/* The weight of a variable: the weight itself, or the weight of a slot; NULL: none. */
static const mf_weight *ps_wire_owner_of(const mf_trainer *t, const char *name)
{
    const mf_weight *best = NULL;

    for (int64_t i = 0; i < t->model->n_weights; i++) {
        const mf_weight *w = t->model->weights[i];
        const size_t n = strlen(w->name);

        if (strncmp(w->name, name, n) == 0 && (name[n] == '\0' || name[n] == '/') &&
            (!best || n > strlen(best->name)))
            best = w;
    }
    return best;
}

bool mf_ps_range(const mf_trainer *t, const mf_placement *place, int server, const char *name,
                 int64_t count, int64_t *from, int64_t *to)
{
    const mf_weight *w = ps_wire_owner_of(t, name);
    const mf_piece *s = w ? mf_placement_find(place, server, w) : NULL;

    *from = 0;
    *to = count;
    if (!w)
        return true;
    if (!s)
        return false;
    if (count == mf_shape_span(&w->shape, 0, w->shape.rank)) {
        *from = s->from;
        *to = s->to;
    }
    return true;
}

void mf_ps_write_variable_head(mf_ps_out *out, const char *name, int64_t bytes)
{
    const int64_t head[2] = { (int64_t)strlen(name) + 1, bytes };

    mf_ps_out_put(out, head, sizeof head);
    mf_ps_out_put(out, name, (size_t)head[0]);
}

void mf_ps_write_variable(mf_ps_out *out, const char *name, const void *data, int64_t count,
                          size_t cell)
{
    mf_ps_write_variable_head(out, name, count * (int64_t)cell);
    mf_ps_out_put(out, data, (size_t)count * cell);
}

bool mf_ps_read_variable(mf_ps_reader *r, const char **name, const void **data, int64_t *bytes)
{
    const char *head;
    int64_t sizes[2];

    if (r->left == 0 || r->bad)
        return false;
    head = mf_ps_reader_take(r, 2, sizeof(int64_t));
    if (!head)
        return false;
    memcpy(sizes, head, sizeof sizes);
    *name = mf_ps_reader_take(r, sizes[0], 1);
    *data = mf_ps_reader_take(r, sizes[1], 1);
    *bytes = sizes[1];
    r->bad |= sizes[0] < 1 || !*name || (*name)[sizes[0] - 1] != '\0';
    return !r->bad;
}
