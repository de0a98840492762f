/* SPDX-License-Identifier: Apache-2.0 */
/* apply_many.c - _ApplyMany: one Apply op on many variables, in loops over all their elements. The
 * pass `updates` inserts it. It uses the same rule as the op `rule`, so the bits are the same; they
 * do not depend on how elements are divided into pieces.
 *
 * As many variables are processed together as may be locked at once: small ones one by one would be
 * loops of a few microseconds each, too short to wake threads. */
#include "ops/optim/apply_engine.h"
#include "ops/state/handle.h"

typedef struct many_state {
    const mf_rule *rule;
    const mf_opdef *def; /* the op that is merged */
    int n_slots, n_vars;
    int first_grad, first_hyper, n_hyper; /* inputs */
    bool flag, concurrent;
} many_state;

static mf_status read_node(const mf_node *node, many_state *s)
{
    const char *name = mf_node_string(node, "rule");
    const mf_op *op = mf_op_find(name);
    const int64_t handles = mf_node_int(node, "M"), vars = mf_node_int(node, "N");

    *s = (many_state){ .rule = mf_rule_find(name), .n_vars = (int)vars };
    s->n_slots = (int)(handles / vars);
    s->first_grad = (int)handles;
    s->first_hyper = (int)(handles + vars);
    s->n_hyper = node->n_inputs - s->first_hyper;
    if (!s->rule || !op || handles % vars != 0 || s->n_slots > MF_RULE_SLOTS ||
        s->n_hyper > MF_RULE_HYPER)
        return MF_FAIL(MF_INVALID_ARGUMENT, "rule '%.60s' does not fit %lld variables for %lld",
                       name, (long long)handles, (long long)vars);
    MF_TRY(mf_op_def(op, &s->def));
    if (s->def->n_in != s->n_slots + 1 + s->n_hyper)
        return MF_FAIL(MF_INVALID_ARGUMENT, "rule %s has other inputs", name);
    s->flag = s->rule->flag && mf_node_bool(node, s->rule->flag);
    s->concurrent = mf_node_bool(node, "_hogwild");
    return MF_OK;
}

static mf_status many_prepare(mf_prepare *p)
{
    many_state *s = MF_ARENA_NEW(p->arena, many_state);

    if (!s)
        return MF_NOMEM("an optimizer");
    p->state = s;
    return read_node(p->node, s);
}

static mf_status many_infer(mf_infer *in)
{
    many_state s;

    MF_TRY(read_node(in->node, &s));
    for (int i = 0; i < s.n_vars; i++) {
        mf_shape shape = in->in[s.first_grad + i];

        for (int k = 0; k < s.n_slots; k++) {
            const mf_shape slot = mf_infer_variable(in, i * s.n_slots + k);

            MF_TRY(mf_shape_merge(&shape, &slot, &shape));
        }
    }
    for (int i = 0; i < s.n_hyper; i++)
        MF_TRY(mf_infer_rank(in, s.first_hyper + i, 0));
    return MF_OK;
}

/* ---- running ---- */

/* Some variables, with their elements treated as one sequence. */
typedef struct batch {
    mf_rule_job jobs[MF_UPDATE_MAX];
    int64_t ends[MF_UPDATE_MAX]; /* end of the i-th variable in the sequence */
    int n;
} batch;

static void batch_piece(void *ctx, int64_t piece)
{
    const batch *b = ctx;
    int64_t at = piece * MF_LOOP_GRAIN;
    const int64_t to = at + MF_LOOP_GRAIN;
    int i = 0;

    while (b->ends[i] <= at)
        i++;
    for (; i < b->n && at < to; i++) {
        const int64_t begin = i > 0 ? b->ends[i - 1] : 0, end = b->ends[i] < to ? b->ends[i] : to;

        if (end > at)
            mf_rule_job_run(&b->jobs[i], at - begin, at - begin, end - at);
        at = end;
    }
}

static mf_status apply_many_run_batch(const mf_kernel *k, int first, int n, const double *hyper,
                                      const mf_tensor *values)
{
    const many_state *s = k->state;
    char a[MF_SHAPE_TEXT], c[MF_SHAPE_TEXT];
    batch b = { .n = n };
    int64_t total = 0;

    for (int i = 0; i < n; i++) {
        const mf_tensor *grad = k->in[s->first_grad + first + i], *var = &values[i * s->n_slots];
        mf_rule_job *job = &b.jobs[i];

        MF_TRY(mf_rule_job_init(job, s->def, s->rule, var, s->n_slots, grad));
        if (!mf_shape_equal(&var->shape, &grad->shape))
            return MF_FAIL(MF_INVALID_ARGUMENT, "var and %s do not have the same shape%s %s",
                           "grad", mf_shape_text(&var->shape, a), mf_shape_text(&grad->shape, c));
        job->all.flag = s->flag;
        job->concurrent = s->concurrent;
        for (int h = 0; h < s->n_hyper; h++)
            job->all.hyper[h] = hyper[h];
        total += job->all.n;
        b.ends[i] = total;
    }
    mf_kernel_complete(k, (total + MF_LOOP_GRAIN - 1) / MF_LOOP_GRAIN, batch_piece, &b);
    return MF_OK;
}

static mf_status read_hyper(const mf_kernel *k, double *hyper)
{
    const many_state *s = k->state;
    char text[MF_SHAPE_TEXT];

    for (int i = 0; i < s->n_hyper; i++) {
        const mf_tensor *t = k->in[s->first_hyper + i];

        if (t->shape.rank != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "a setting of %s is not a scalar: %s", s->def->name,
                           mf_shape_text(&t->shape, text));
        hyper[i] = mf_tensor_float_at(t, 0);
    }
    return MF_OK;
}

static mf_status many_run(mf_kernel *k)
{
    const many_state *s = k->state;
    const int at_once = MF_UPDATE_MAX / s->n_slots;
    mf_variable *v[MF_UPDATE_MAX];
    mf_tensor values[MF_UPDATE_MAX];
    double hyper[MF_RULE_HYPER];

    MF_TRY(read_hyper(k, hyper));
    for (int first = 0; first < s->n_vars; first += at_once) {
        const int n = s->n_vars - first < at_once ? s->n_vars - first : at_once;
        mf_status st;

        for (int i = 0; i < n * s->n_slots; i++)
            MF_TRY(mf_kernel_variable(k, first * s->n_slots + i, &v[i]));
        MF_TRY(mf_slots_begin(v, n * s->n_slots, s->concurrent, values));
        st = apply_many_run_batch(k, first, n, hyper, values);
        mf_slots_end(v, n * s->n_slots, s->concurrent, values);
        MF_TRY(st);
    }
    return MF_OK;
}

const mf_op mf_ops_apply_many[] = {
    { .name = "_ApplyMany",
      .def = "(handles:M*resource, grads:N*T, hyper:*Thyper) -> () {M:int>=1, N:int>=1, "
             "T:type in numbers, Thyper:list(type)>=0, rule:string, use_locking:bool=false, "
             "use_nesterov:bool=false, update_slots:bool=true, multiply_linear_by_lr:bool=false} "
             "is_stateful",
      .flags = MF_OP_HEAP,
      .infer = many_infer,
      .grad = mf_grad_missing,
      .prepare = many_prepare,
      .run = many_run,
      .samples = MF_SAMPLES(
          "var:f32[2,3] var:f32[5] f32[2,3] f32[5] f32[]@0.1:0.9 ; M=2 N=2 "
          "rule='ResourceApplyGradientDescent' Thyper=[float] !notf",
          "var:f32[2,3] var:f32[2,3] var:f32[0] var:f32[0] f32[2,3] f32[0] f32[]@0.1:0.9 "
          "f32[]@0.1:0.9 ; M=4 N=2 rule='ResourceApplyMomentum' Thyper=[float,float] "
          "use_nesterov=true !notf",
          "var:f64[3] var:f64[3] f64[3] f64[2] f64[] ; M=2 N=2 "
          "rule='ResourceApplyGradientDescent' Thyper=[double] !fails !notf",
          "var:f32[3] f32[3] f32[] ; M=1 N=1 rule='Relu' Thyper=[float] !fails !notf") },
    { 0 },
};
