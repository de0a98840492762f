/* SPDX-License-Identifier: Apache-2.0 */
/* fused.c - a tree of elementwise ops as one op, made by the pass `fuse`.
 *
 * The steps are the loops of the ops themselves, run one after another on a tile that stays in the
 * cache, so memory is read and written once and the bits are those of the single ops.
 *
 * Attributes: ops[i] is the name of step i, args its operands, flat: operand k >= 0 is input k of
 * the node, k < 0 is the result of step -1-k; types[i] is what step i makes, params[i] its
 * attribute. */
#include "ops/loop.h"

#include <string.h>

enum { TILE = 1024, MAX_STEPS = 32, MAX_INPUTS = 16, MAX_SLOTS = 12 };

typedef struct step {
    mf_span_fn *fn;
    int arity;
    int arg[3]; /* >= 0: input; < 0: result of step -1-arg */
    int slot; /* tile that takes the result; -1: the output itself */
    size_t size; /* bytes of an element of the result */
    double param;
} step;

typedef struct fused {
    step steps[MAX_STEPS];
    int n_steps, n_slots;
} fused;

/* A tile is free again after the last step that reads it; its reader may write over it. */
static mf_status assign_slots(fused *f)
{
    int last_use[MAX_STEPS], owner[MAX_SLOTS];

    for (int i = 0; i < MAX_SLOTS; i++)
        owner[i] = -1;
    for (int i = 0; i < f->n_steps; i++) {
        last_use[i] = i;
        for (int a = 0; a < f->steps[i].arity; a++) {
            if (f->steps[i].arg[a] < 0)
                last_use[-1 - f->steps[i].arg[a]] = i;
        }
    }
    for (int i = 0; i < f->n_steps; i++) {
        int slot = 0;

        if (i + 1 == f->n_steps) {
            f->steps[i].slot = -1;
            break;
        }
        while (slot < MAX_SLOTS && owner[slot] >= 0 && last_use[owner[slot]] >= i)
            slot++;
        if (slot == MAX_SLOTS)
            return MF_FAIL(MF_INTERNAL, "the fused tree needs more than %d tiles", MAX_SLOTS);
        owner[slot] = i;
        f->steps[i].slot = slot;
        if (slot + 1 > f->n_slots)
            f->n_slots = slot + 1;
    }
    return MF_OK;
}

/* The type that an operand or result of an elementwise op has when its last operand is a `t`. */
static mf_dtype type_of_arg(const mf_opdef *def, const mf_argdef *arg, mf_dtype t)
{
    static const mf_dtype partner[MF_DTYPE_COUNT] = { [MF_DTYPE_F32] = MF_DTYPE_C64,
                                                      [MF_DTYPE_F64] = MF_DTYPE_C128,
                                                      [MF_DTYPE_C64] = MF_DTYPE_F32,
                                                      [MF_DTYPE_C128] = MF_DTYPE_F64 };
    const char *last = def->in[def->n_in - 1].type_attr;

    if (arg->type != MF_DTYPE_INVALID)
        return arg->type;
    return last && strcmp(arg->type_attr, last) == 0 ? t : partner[t];
}

/* Steps may come from a stranger's file: what does not fit the loop's types is read and written out
 * of bounds. */
static mf_status check_types(const mf_node *n, const step *s, const mf_opdef *def,
                             const mf_dtype *made, mf_dtype last, mf_dtype result)
{
    bool good = type_of_arg(def, &def->out[0], last) == result;

    for (int a = 0; a < s->arity; a++) {
        const mf_dtype t = s->arg[a] >= 0 ? n->in_types[s->arg[a]] : made[-1 - s->arg[a]];

        good = good && type_of_arg(def, &def->in[a], last) == t;
    }
    return good ? MF_OK
                : MF_FAIL(MF_INVALID_ARGUMENT, "a step's types are not those of %s", def->name);
}

static mf_status read_step(const mf_node *n, int i, int *at, mf_dtype *made, step *s)
{
    const mf_attr *ops = mf_node_attr(n, "ops"), *types = mf_node_attr(n, "types");
    const mf_attr *args = mf_node_attr(n, "args"), *params = mf_node_attr(n, "params");
    const mf_op *op = mf_op_find(ops->strings[i].data);
    const mf_opdef *def;
    mf_dtype last = MF_DTYPE_INVALID;

    if (!op || !op->loop || *at + op->loop->arity > args->n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "step %d is no elementwise op", i);
    *s = (step){ .arity = op->loop->arity, .param = (double)params->floats[i] };
    for (int a = 0; a < s->arity; a++) {
        const int64_t arg = args->ints[(*at)++];

        if (arg >= n->n_inputs || arg < -i)
            return MF_FAIL(MF_INVALID_ARGUMENT, "step %d has an operand that does not exist", i);
        s->arg[a] = (int)arg;
        last = arg >= 0 ? n->in_types[arg] : made[-1 - arg];
    }
    made[i] = (mf_dtype)types->ints[i];
    s->size = mf_dtype_cell(made[i]);
    s->fn = mf_dtype_is_valid((int)last) ? op->loop->fn[last] : NULL;
    if (!s->fn || !mf_dtype_is_plain(made[i]))
        return MF_FAIL(MF_INVALID_ARGUMENT, "step %d (%s) has no loop for its type", i, op->name);
    MF_TRY(mf_op_def(op, &def));
    return check_types(n, s, def, made, last, made[i]);
}

static mf_status fused_prepare(mf_prepare *p)
{
    const mf_attr *ops = mf_node_attr(p->node, "ops"), *types = mf_node_attr(p->node, "types");
    const mf_attr *params = mf_node_attr(p->node, "params");
    fused *f = MF_ARENA_NEW(p->arena, fused);
    mf_dtype made[MAX_STEPS];
    int at = 0;

    if (!f)
        return MF_NOMEM("a fused op");
    if (ops->n < 1 || ops->n > MAX_STEPS || types->n != ops->n || params->n != ops->n ||
        p->node->n_inputs < 1 || p->node->n_inputs > MAX_INPUTS)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a fused op of %lld steps and %d inputs",
                       (long long)ops->n, p->node->n_inputs);
    for (f->n_steps = 0; f->n_steps < ops->n; f->n_steps++)
        MF_TRY(read_step(p->node, f->n_steps, &at, made, &f->steps[f->n_steps]));
    if (made[f->n_steps - 1] != p->node->out_types[0])
        return MF_FAIL(MF_INVALID_ARGUMENT, "the last step makes %s, not Tout",
                       mf_dtype_name(made[f->n_steps - 1]));
    p->state = f;
    return assign_slots(f);
}

typedef struct fused_job {
    const fused *f;
    mf_broadcast b;
    const char *in[MAX_INPUTS];
    size_t in_size[MAX_INPUTS];
    char *out;
    size_t out_size;
    int n_in;
    int64_t inner, rows, rows_per_piece, cuts;
} fused_job;

static void run_steps(const fused_job *job, const char *const *in, const bool *scalar, char *out,
                      int64_t n)
{
    _Alignas(64) char tiles[MAX_SLOTS][TILE * 16];
    const fused *f = job->f;

    for (int i = 0; i < f->n_steps; i++) {
        const step *s = &f->steps[i];
        mf_span span = { .out = s->slot < 0 ? out : tiles[s->slot], .n = n, .param = s->param };

        for (int a = 0; a < s->arity; a++) {
            const int arg = s->arg[a];

            span.in[a] = arg >= 0 ? in[arg] : tiles[f->steps[-1 - arg].slot];
            span.scalar[a] = arg >= 0 && scalar[arg];
        }
        s->fn(&span);
    }
}

static void run_row(const fused_job *job, int64_t row, int64_t from, int64_t to)
{
    const mf_broadcast *b = &job->b;
    const char *base[MAX_INPUTS];
    bool scalar[MAX_INPUTS];
    int64_t rest = row, offset[MAX_INPUTS] = { 0 };

    for (int d = b->rank - 2; d >= 0; d--) {
        const int64_t i = rest % b->dims[d];

        rest /= b->dims[d];
        for (int j = 0; j < job->n_in; j++)
            offset[j] += i * b->stride[j][d];
    }
    for (int j = 0; j < job->n_in; j++)
        scalar[j] = b->stride[j][b->rank - 1] == 0;
    for (int64_t at = from; at < to; at += TILE) {
        const int64_t n = to - at < TILE ? to - at : TILE;

        for (int j = 0; j < job->n_in; j++)
            base[j] = job->in[j] + (size_t)(offset[j] + (scalar[j] ? 0 : at)) * job->in_size[j];
        run_steps(job, base, scalar, job->out + (size_t)(row * job->inner + at) * job->out_size, n);
    }
}

static void run_piece(void *ctx, int64_t piece)
{
    const fused_job *job = ctx;

    if (job->cuts > 1) {
        const int64_t row = piece / job->cuts, cut = piece % job->cuts;
        const int64_t to = (cut + 1) * MF_LOOP_GRAIN;

        run_row(job, row, cut * MF_LOOP_GRAIN, to < job->inner ? to : job->inner);
    } else {
        const int64_t end = (piece + 1) * job->rows_per_piece;

        for (int64_t row = piece * job->rows_per_piece; row < end && row < job->rows; row++)
            run_row(job, row, 0, job->inner);
    }
}

static mf_status fused_run(mf_kernel *k)
{
    const mf_shape *shapes[MAX_INPUTS];
    mf_shape shape = k->in[0]->shape;
    fused_job job = { .f = k->state, .n_in = k->n_in };
    mf_tensor *out;

    for (int i = 0; i < k->n_in; i++) {
        shapes[i] = &k->in[i]->shape;
        job.in[i] = k->in[i]->data;
        job.in_size[i] = mf_dtype_cell(k->in[i]->dtype);
        MF_TRY(mf_shape_broadcast(&shape, shapes[i], &shape));
    }
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    job.out = out->data;
    job.out_size = mf_dtype_cell(out->dtype);
    if (out->count == 0)
        return MF_OK;
    mf_broadcast_init(&job.b, &shape, shapes, k->n_in);
    job.inner = job.b.dims[job.b.rank - 1];
    job.rows = out->count / job.inner;
    job.cuts = (job.inner + MF_LOOP_GRAIN - 1) / MF_LOOP_GRAIN;
    job.rows_per_piece = job.cuts > 1 ? 1 : MF_LOOP_GRAIN / job.inner;
    mf_kernel_parallel(k,
                       job.cuts > 1 ? job.rows * job.cuts
                                    : (job.rows + job.rows_per_piece - 1) / job.rows_per_piece,
                       run_piece, &job);
    return MF_OK;
}

const mf_op mf_op_fused = {
    .name = "_Fused",
    .def = "(inputs:*Tin) -> (output:Tout) {Tin:list(type)>=1, Tout:type, ops:list(string)>=1, "
           "types:list(type)>=1, args:list(int)>=1, params:list(float)>=1}",
    .infer = mf_loop_infer,
    .grad = mf_grad_missing,
    .prepare = fused_prepare,
    .run = fused_run,
    .samples =
        MF_SAMPLES("f32[2,3] f32[3] ; Tout=float ops=['AddV2','Relu'] types=[float,float] "
                   "args=[0,1,-1] params=[0,0]",
                   "bool[3] f32[3] ; Tout=float ops=['AddV2'] types=[float] args=[0,1] "
                   "params=[0] !fails",
                   "f32[3] ; Tout=double ops=['Relu'] types=[float] args=[0] params=[0] "
                   "!fails",
                   "f32[3] ; Tout=bool ops=['Relu'] types=[bool] args=[0] params=[0] !fails"),
};
