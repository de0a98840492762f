/* SPDX-License-Identifier: Apache-2.0 */
/* global_loss.c - losses over all samples of a batch together (triplet mining), across shards and
 * workers. */
#include "train/step/global_loss.h"

#include "graph/gradients.h"
#include "models/losses.h"

static const char *global_loss_type_of(mf_output o)
{
    return mf_dtype_name(mf_type_base(o.node->out_types[o.port]));
}

/* Columns and label, then the inputs that all shards share. */
static mf_status global_loss_list_arguments(const mf_model *m, mf_output label, mf_outputs *in,
                                            mf_buf *batched, mf_buf *shared)
{
    mf_arena *arena = m->graph->arena;
    const mf_output end = MF_END;

    for (int64_t i = 0; i < m->n_inputs; i++) {
        mf_buf_printf(batched, "%s,", global_loss_type_of(m->inputs[i]));
        MF_TRY(mf_outputs_add(arena, in, m->inputs[i]));
    }
    mf_buf_str(batched, global_loss_type_of(label));
    MF_TRY(mf_outputs_add(arena, in, label));
    mf_buf_str(shared, global_loss_type_of(m->clock));
    MF_TRY(mf_outputs_add(arena, in, m->clock));
    for (int64_t i = 0; i < m->n_weights; i++) {
        if (!m->weights[i]->value.node)
            continue;
        mf_buf_printf(shared, ",%s", global_loss_type_of(m->weights[i]->value));
        MF_TRY(mf_outputs_add(arena, in, m->weights[i]->value));
    }
    MF_TRY(mf_outputs_add(arena, in, end));
    return batched->failed || shared->failed ? MF_NOMEM("a step") : MF_OK;
}

/* Outputs of a map have no static shape. */
static mf_output shaped(mf_model *m, mf_output x, mf_output like)
{
    mf_shape s = mf_model_shape(m, like);

    if (s.rank < 1)
        return x;
    s.dims[0] = -1;
    return mf_apply(m->graph, "Reshape", MF_IN(x, mf_ints(m->graph, s.dims, s.rank)));
}

static mf_status global_loss_gather(mf_model *m, const mf_compile_options *o, mf_output label,
                                    mf_whole *w)
{
    mf_buf batched = { 0 }, shared = { 0 };
    mf_outputs in = { 0 };
    mf_output map = { 0 };
    mf_status st = global_loss_list_arguments(m, label, &in, &batched, &shared);

    if (st == MF_OK) {
        mf_define(m->graph, "gather_step", in.at, MF_IN(m->output, label));
        map = mf_applyf(m->graph, "_ShardMap", in.at,
                        "f=@gather_step shards=%d turns=%d Tbatched=[%s] Tshared=[%s] "
                        "Tout=[%s,%s] join=['concat','concat'] buckets=[0,0] name='gather'",
                        o->shards, o->micro_batches > 1 ? o->micro_batches : 1, batched.data,
                        shared.data, global_loss_type_of(m->output), global_loss_type_of(label));
        st = mf_graph_status(m->graph);
    }
    mf_buf_deinit(&batched);
    mf_buf_deinit(&shared);
    if (st == MF_OK) {
        w->outputs = shaped(m, map, m->output);
        w->labels = shaped(m, (mf_output){ map.node, 1 }, label);
    }
    return st;
}

mf_status mf_step_whole(mf_model *m, const mf_compile_options *options, const char *loss,
                        mf_output label, mf_output dy, mf_whole *out)
{
    const mf_loss_kind *kind;
    mf_output sum;

    MF_TRY(mf_graph_status(m->graph));
    MF_TRY(mf_loss_find(loss, m->graph->arena, &kind));
    out->loss = kind->name;
    MF_TRY(global_loss_gather(m, options, label, out));
    out->losses = mf_loss(m, loss, out->outputs, out->labels);
    sum = mf_apply(m->graph, "Sum", MF_IN(out->losses, mf_ints(m->graph, (int64_t[]){ 0 }, 1)));
    MF_TRY(mf_graph_status(m->graph));
    return mf_gradients(m->graph, &sum, 1, &out->outputs, 1, &dy, &out->gradients);
}

mf_output mf_step_own(const mf_model *m, mf_output like, mf_output rows)
{
    return mf_apply(m->graph, "_SampleRows", MF_IN(like, rows, m->clock));
}

mf_status mf_step_check_together(const mf_step_graph *s, bool apart)
{
    static const char use[] = "use the strategy multi_worker_mirrored, reduce_to_one, mirrored or "
                              "central_storage";

    if (apart && s->whole.loss)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "the loss '%s' compares all samples of a step, and with this strategy no "
                       "worker has the outputs of other workers; %s",
                       s->whole.loss, use);
    if (apart && s->n_kept > 0)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "'%s' has a row for each sample of a step, and with this strategy no "
                       "worker has the rows of other workers; %s, or no persistent chains",
                       s->model->carried[0].weight->name, use);
    return MF_OK;
}
