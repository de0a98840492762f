/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.c - the engine of the Apply* ops; see optimizer.h.
 *
 * Sparse updates work on rows of the variable in the order of `indices`, as often as a row occurs
 * there. Their pieces are ranges of rows, so that a row has one writer and its updates keep order.
 */
#include "ops/optimizer.h"

#include "ops/handle.h"

#include <string.h>

/* Which input is what. */
typedef struct rule_state {
    const mf_rule *rule;
    int n_slots, n_hyper;
    int hyper[MF_RULE_HYPER];
    int grad, indices; /* indices: -1 when dense */
    bool flag;
} rule_state;

static const mf_rule *find_rule(const char *op)
{
    const char *name = strstr(op, "Apply");

    for (const mf_rule *r = mf_rules; name && r->name; r++) {
        if (strcmp(r->name, name + strlen("Apply")) == 0)
            return r;
    }
    return NULL;
}

/* Handles come first; "grad" (or "delta") and "indices" are known by name; the rest are
 * hyperparameters. */
static mf_status read_signature(const mf_node *node, rule_state *s)
{
    const mf_opdef *def = node->def;

    *s = (rule_state){ .rule = find_rule(node->op_name), .grad = -1, .indices = -1 };
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
    return MF_OK;
}

mf_status mf_rule_prepare(mf_prepare *p)
{
    rule_state *s = MF_ARENA_NEW(p->arena, rule_state);

    if (!s)
        return MF_NOMEM("an optimizer");
    p->state = s;
    return read_signature(p->node, s);
}

mf_status mf_rule_infer(mf_infer *in)
{
    rule_state s;
    mf_shape shape = MF_SHAPE_UNKNOWN;

    MF_TRY(read_signature(in->node, &s));
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

static mf_status check_slots(const mf_kernel *k, const rule_state *s, mf_variable *const *v)
{
    const mf_shape *var = &v[0]->value.shape;
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    for (int i = 0; i < s->n_slots; i++) {
        if (v[i]->value.dtype != k->in[s->grad]->dtype)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s is of type %s but the gradient is of type %s",
                           k->node->def->in[i].name, mf_dtype_name(v[i]->value.dtype),
                           mf_dtype_name(k->in[s->grad]->dtype));
        if (!mf_shape_equal(var, &v[i]->value.shape))
            return MF_FAIL(MF_INVALID_ARGUMENT, "var and %s do not have the same shape%s %s",
                           k->node->def->in[i].name, mf_shape_text(var, a),
                           mf_shape_text(&v[i]->value.shape, b));
    }
    return MF_OK;
}

static mf_status check_dense(const mf_kernel *k, const rule_state *s, const mf_shape *var)
{
    const mf_shape *grad = &k->in[s->grad]->shape;
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (mf_shape_equal(var, grad))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "var and %s do not have the same shape%s %s",
                   k->node->def->in[s->grad].name, mf_shape_text(var, a), mf_shape_text(grad, b));
}

static mf_status check_sparse(const mf_kernel *k, const rule_state *s, const mf_shape *var)
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

/* ---- running ---- */

typedef struct rule_job {
    mf_rule_fn *fn;
    mf_rule_span all; /* slots and gradient from their first element */
    int n_slots;
    size_t cell;
    const mf_tensor *indices;
    int64_t rows, row_len, rows_per_piece;
} rule_job;

static void run_span(const rule_job *job, int64_t slot_at, int64_t grad_at, int64_t n)
{
    mf_rule_span s = job->all;

    for (int i = 0; i < job->n_slots; i++)
        s.slot[i] = (char *)s.slot[i] + (size_t)slot_at * job->cell;
    s.grad = (const char *)s.grad + (size_t)grad_at * job->cell;
    s.n = n;
    job->fn(&s);
}

static void dense_piece(void *ctx, int64_t piece)
{
    const rule_job *job = ctx;
    const int64_t from = piece * MF_LOOP_GRAIN, left = job->all.n - from;

    run_span(job, from, from, left < MF_LOOP_GRAIN ? left : MF_LOOP_GRAIN);
}

static void sparse_piece(void *ctx, int64_t piece)
{
    const rule_job *job = ctx;
    const int64_t from = piece * job->rows_per_piece, to = from + job->rows_per_piece;

    for (int64_t i = 0; i < job->indices->count; i++) {
        const int64_t row = mf_tensor_int_at(job->indices, i);

        if (row >= from && row < to)
            run_span(job, row * job->row_len, i * job->row_len, job->row_len);
    }
}

enum { SPARSE_PIECES = 16 }; /* each reads all indices, so not too many */

static void run_sparse(const mf_kernel *k, rule_job *job)
{
    int64_t pieces = job->indices->count * job->row_len / MF_LOOP_GRAIN + 1;

    if (job->indices->count == 0 || job->row_len == 0)
        return;
    pieces = pieces < SPARSE_PIECES ? pieces : SPARSE_PIECES;
    job->rows_per_piece = (job->rows + pieces - 1) / pieces;
    mf_kernel_parallel(k, (job->rows + job->rows_per_piece - 1) / job->rows_per_piece, sparse_piece,
                       job);
}

static mf_status run_locked(const mf_kernel *k, mf_variable *const *v)
{
    const rule_state *s = k->state;
    const mf_tensor *var = &v[0]->value;
    rule_job job = { .fn = s->rule->fn[var->dtype], .n_slots = s->n_slots };

    MF_TRY(check_slots(k, s, v));
    if (!job.fn)
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel for type %s", k->node->op_name,
                       mf_dtype_name(var->dtype));
    job.cell = mf_dtype_cell(var->dtype);
    job.all = (mf_rule_span){ .grad = k->in[s->grad]->data, .n = var->count, .flag = s->flag };
    for (int i = 0; i < s->n_slots; i++)
        job.all.slot[i] = v[i]->value.data;
    for (int i = 0; i < s->n_hyper; i++)
        job.all.hyper[i] = mf_tensor_float_at(k->in[s->hyper[i]], 0);
    if (s->indices < 0) {
        MF_TRY(check_dense(k, s, &var->shape));
        mf_kernel_parallel(k, (var->count + MF_LOOP_GRAIN - 1) / MF_LOOP_GRAIN, dense_piece, &job);
        return MF_OK;
    }
    MF_TRY(check_sparse(k, s, &var->shape));
    job.indices = k->in[s->indices];
    job.rows = var->shape.dims[0];
    job.row_len = mf_shape_span(&var->shape, 1, var->shape.rank);
    run_sparse(k, &job);
    return MF_OK;
}

mf_status mf_rule_run(mf_kernel *k)
{
    const rule_state *s = k->state;
    mf_variable *v[MF_RULE_SLOTS];
    mf_status st;

    MF_TRY(check_hyper(k, s));
    for (int i = 0; i < s->n_slots; i++)
        MF_TRY(mf_kernel_variable(k, i, &v[i]));
    MF_TRY(mf_variables_begin(v, s->n_slots));
    st = run_locked(k, v);
    mf_variables_end(v, s->n_slots);
    if (st == MF_OK && k->n_out > 0)
        mf_kernel_set(k, 0, k->in[0]);
    return st;
}
