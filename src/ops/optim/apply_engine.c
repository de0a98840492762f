/* SPDX-License-Identifier: Apache-2.0 */
/* apply_engine.c - the engine of the Apply* ops; see apply_engine.h.
 *
 * Sparse updates process rows of the variable in the order of `indices`, including duplicates.
 * Their pieces are ranges of rows, so that each row has one writer and its updates stay in order.
 */
#include "ops/optim/apply_engine.h"

#include "base/race.h"
#include "ops/state/handle.h"

#include <string.h>

/* Roles of the inputs. */
typedef struct rule_state {
    const mf_rule *rule;
    int n_slots, n_hyper;
    int hyper[MF_RULE_HYPER];
    int grad, indices; /* indices: -1 when dense */
    bool flag, concurrent;
} rule_state;

const mf_rule *mf_rule_find(const char *op)
{
    const char *name = strstr(op, "Apply");

    for (const mf_rule *r = mf_rules; name && r->name; r++) {
        if (strcmp(r->name, name + strlen("Apply")) == 0)
            return r;
    }
    return NULL;
}

/* Handles come first; "grad" (or "delta") and "indices" are found by name; the others are
 * hyperparameters. */
static mf_status apply_engine_read_signature(const mf_node *node, rule_state *s)
{
    const mf_opdef *def = node->def;

    *s = (rule_state){ .rule = mf_rule_find(node->op_name), .grad = -1, .indices = -1 };
    for (int i = 0; i < def->n_in; i++) {
        const mf_argdef *arg = &def->in[i];

        if ((arg->is_ref || arg->type == MF_DTYPE_RESOURCE) && s->n_slots < MF_RULE_SLOTS)
            s->n_slots++;
        else if (strcmp(arg->name, "grad") == 0 || strcmp(arg->name, "delta") == 0)
            s->grad = i;
        else if (strcmp(arg->name, "indices") == 0)
            s->indices = i;
        else if (s->n_hyper < MF_RULE_HYPER)
            s->hyper[s->n_hyper++] = i;
    }
    if (!s->rule || s->grad < 0)
        return MF_FAIL(MF_INTERNAL, "op %s has no update rule", node->op_name);
    s->flag = s->rule->flag && mf_node_bool(node, s->rule->flag);
    s->concurrent = mf_node_bool(node, "_hogwild");
    return MF_OK;
}

mf_status mf_rule_prepare(mf_prepare *p)
{
    rule_state *s = MF_ARENA_NEW(p->arena, rule_state);

    if (!s)
        return MF_NOMEM("an optimizer");
    p->state = s;
    return apply_engine_read_signature(p->node, s);
}

mf_status mf_rule_infer(mf_infer *in)
{
    rule_state s;
    mf_shape shape = MF_SHAPE_UNKNOWN;

    MF_TRY(apply_engine_read_signature(in->node, &s));
    for (int i = 0; i < s.n_slots; i++) {
        const mf_shape slot = mf_infer_variable(in, i);

        MF_TRY(mf_shape_merge(&shape, &slot, &shape));
    }
    for (int i = 0; i < s.n_hyper; i++)
        MF_TRY(mf_infer_rank(in, s.hyper[i], 0));
    if (s.indices >= 0)
        MF_TRY(mf_infer_rank(in, s.indices, 1));
    else
        MF_TRY(mf_shape_merge(&shape, &in->in[s.grad], &shape));
    if (in->n_out > 0)
        in->out[0] = shape;
    return MF_OK;
}

void mf_rule_sparse_split(mf_split *s)
{
    rule_state state;

    if (apply_engine_read_signature(s->node, &state) == MF_OK && state.indices >= 0)
        mf_split_own_rows(s, state.n_slots, state.indices, state.grad);
}

/* ---- checks ---- */

static mf_status check_hyper(const mf_kernel *k, const rule_state *s)
{
    char text[MF_SHAPE_TEXT];

    for (int i = 0; i < s->n_hyper; i++) {
        const mf_tensor *t = k->in[s->hyper[i]];

        if (t->shape.rank != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s is not a scalar: %s",
                           k->node->def->in[s->hyper[i]].name, mf_shape_text(&t->shape, text));
    }
    return MF_OK;
}

static mf_status apply_engine_check_dense(const mf_kernel *k, const rule_state *s,
                                          const mf_shape *var)
{
    const mf_shape *grad = &k->in[s->grad]->shape;
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (mf_shape_equal(var, grad))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "var and %s do not have the same shape%s %s",
                   k->node->def->in[s->grad].name, mf_shape_text(var, a), mf_shape_text(grad, b));
}

static mf_status apply_engine_check_sparse(const mf_kernel *k, const rule_state *s,
                                           const mf_shape *var)
{
    const mf_tensor *indices = k->in[s->indices];
    const mf_shape *grad = &k->in[s->grad]->shape;
    char text[MF_SHAPE_TEXT];

    if (var->rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "var must be at least 1 dimensional");
    if (indices->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "indices must be one-dimensional");
    if (grad->rank != var->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT, "grad must have the rank of var, but has shape %s",
                       mf_shape_text(grad, text));
    for (int d = 1; d < var->rank; d++) {
        if (grad->dims[d] != var->dims[d])
            return MF_FAIL(MF_INVALID_ARGUMENT, "var and grad must match in dimension %d", d);
    }
    if (grad->dims[0] != indices->count)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "grad must be the same size as indices in the first dimension.");
    for (int64_t i = 0; i < indices->count; i++) {
        const int64_t row = mf_tensor_int_at(indices, i);

        if (row < 0 || row >= var->dims[0])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Index %lld at offset %lld in indices is out of range [0, %lld)",
                           (long long)row, (long long)i, (long long)var->dims[0]);
    }
    return MF_OK;
}

/* ---- jobs ---- */

static mf_status check_slots(const mf_opdef *def, const mf_tensor *values, int n_slots,
                             const mf_tensor *grad)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    for (int i = 0; i < n_slots; i++) {
        if (values[i].dtype != grad->dtype)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s is of type %s but the gradient is of type %s",
                           def->in[i].name, mf_dtype_name(values[i].dtype),
                           mf_dtype_name(grad->dtype));
        if (!mf_shape_equal(&values[0].shape, &values[i].shape))
            return MF_FAIL(MF_INVALID_ARGUMENT, "var and %s do not have the same shape%s %s",
                           def->in[i].name, mf_shape_text(&values[0].shape, a),
                           mf_shape_text(&values[i].shape, b));
    }
    return MF_OK;
}

mf_status mf_rule_job_init(mf_rule_job *job, const mf_opdef *def, const mf_rule *rule,
                           const mf_tensor *values, int n_slots, const mf_tensor *grad)
{
    MF_TRY(check_slots(def, values, n_slots, grad));
    *job = (mf_rule_job){ .fn = rule->fn[values[0].dtype],
                          .n_slots = n_slots,
                          .cell = mf_dtype_cell(values[0].dtype) };
    if (!job->fn)
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel for type %s", def->name,
                       mf_dtype_name(values[0].dtype));
    job->all = (mf_rule_span){ .grad = grad->data, .n = values[0].count };
    for (int i = 0; i < n_slots; i++)
        job->all.slot[i] = values[i].data;
    return MF_OK;
}

void mf_rule_job_run(const mf_rule_job *job, int64_t slot_at, int64_t grad_at, int64_t n)
{
    mf_rule_span s = job->all;

    for (int i = 0; i < job->n_slots; i++)
        s.slot[i] = (char *)s.slot[i] + (size_t)slot_at * job->cell;
    s.grad = (const char *)s.grad + (size_t)grad_at * job->cell;
    s.n = n;
    if (job->concurrent)
        mf_race_begin();
    job->fn(&s);
    if (job->concurrent)
        mf_race_end();
}

mf_status mf_slots_begin(mf_variable *const *v, int n, bool concurrent, mf_tensor *values)
{
    mf_status st = MF_OK;

    memset(values, 0, (size_t)n * sizeof *values);
    if (!concurrent) {
        MF_TRY(mf_variables_begin(v, n));
        for (int i = 0; i < n; i++)
            values[i] = v[i]->value;
        return MF_OK;
    }
    for (int i = 0; i < n && st == MF_OK; i++)
        st = mf_variable_read(v[i], &values[i]);
    if (st != MF_OK)
        mf_slots_end(v, n, true, values);
    return st;
}

void mf_slots_end(mf_variable *const *v, int n, bool concurrent, mf_tensor *values)
{
    if (!concurrent)
        mf_variables_end(v, n);
    for (int i = 0; i < n && concurrent; i++)
        mf_tensor_clear(&values[i]);
}

/* ---- running ---- */

typedef struct sparse_job {
    mf_rule_job job;
    const mf_tensor *indices;
    int64_t rows, row_len, rows_per_piece;
} sparse_job;

static void dense_piece(void *ctx, int64_t piece)
{
    const mf_rule_job *job = ctx;
    const int64_t from = piece * MF_LOOP_GRAIN, left = job->all.n - from;

    mf_rule_job_run(job, from, from, left < MF_LOOP_GRAIN ? left : MF_LOOP_GRAIN);
}

static void sparse_piece(void *ctx, int64_t piece)
{
    const sparse_job *s = ctx;
    const int64_t from = piece * s->rows_per_piece, to = from + s->rows_per_piece;

    for (int64_t i = 0; i < s->indices->count; i++) {
        const int64_t row = mf_tensor_int_at(s->indices, i);

        if (row >= from && row < to)
            mf_rule_job_run(&s->job, row * s->row_len, i * s->row_len, s->row_len);
    }
}

enum { SPARSE_PIECES = 16 }; /* each reads all indices, so there are only a few */

static void run_sparse(const mf_kernel *k, const mf_rule_job *job, const mf_tensor *indices,
                       const mf_shape *shape)
{
    sparse_job s = { .job = *job,
                     .indices = indices,
                     .rows = shape->dims[0],
                     .row_len = mf_shape_span(shape, 1, shape->rank) };
    int64_t pieces = indices->count * s.row_len / MF_LOOP_GRAIN + 1;

    if (indices->count == 0 || s.row_len == 0)
        return;
    pieces = pieces < SPARSE_PIECES ? pieces : SPARSE_PIECES;
    s.rows_per_piece = (s.rows + pieces - 1) / pieces;
    mf_kernel_complete(k, (s.rows + s.rows_per_piece - 1) / s.rows_per_piece, sparse_piece, &s);
}

static mf_status run_rule(const mf_kernel *k, const mf_tensor *values)
{
    const rule_state *s = k->state;
    const mf_shape *shape = &values[0].shape;
    mf_rule_job job;

    MF_TRY(mf_rule_job_init(&job, k->node->def, s->rule, values, s->n_slots, k->in[s->grad]));
    job.all.flag = s->flag;
    job.concurrent = s->concurrent;
    for (int i = 0; i < s->n_hyper; i++)
        job.all.hyper[i] = mf_tensor_float_at(k->in[s->hyper[i]], 0);
    if (s->indices >= 0) {
        MF_TRY(apply_engine_check_sparse(k, s, shape));
        run_sparse(k, &job, k->in[s->indices], shape);
        return MF_OK;
    }
    MF_TRY(apply_engine_check_dense(k, s, shape));
    mf_kernel_complete(k, (job.all.n + MF_LOOP_GRAIN - 1) / MF_LOOP_GRAIN, dense_piece, &job);
    return MF_OK;
}

mf_status mf_rule_run(mf_kernel *k)
{
    const rule_state *s = k->state;
    mf_variable *v[MF_RULE_SLOTS];
    mf_tensor values[MF_RULE_SLOTS];
    mf_status st;

    MF_TRY(check_hyper(k, s));
    for (int i = 0; i < s->n_slots; i++)
        MF_TRY(mf_kernel_variable(k, i, &v[i]));
    MF_TRY(mf_slots_begin(v, s->n_slots, s->concurrent, values));
    st = run_rule(k, values);
    mf_slots_end(v, s->n_slots, s->concurrent, values);
    if (st == MF_OK && k->n_out > 0)
        mf_kernel_set(k, 0, k->in[0]);
    return st;
}
