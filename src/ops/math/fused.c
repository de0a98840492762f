/* SPDX-License-Identifier: Apache-2.0 */
/* fused.c - the kernel of elementwise ops that the pass `fuse` has merged.
 *
 * Operands that do not have the result's shape are first broadcast into a tile; an operand that is
 * the same in all tiles (a bias) is broadcast once. */
#include "ops/math/fused.h"

#include "ops/math/elementwise.h"

#include <string.h>

/* A tile has at most TILE elements, fewer for large types: all tiles are on the stack, which may be
 * that of the caller's thread. */
enum { TILE = 1024, TILE_BYTES = 4096, MAX_STEPS = 32, MAX_INPUTS = 16, MAX_SLOTS = 12 };

typedef struct fused_step {
    mf_span_fn *fn;
    int arity;
    int arg[3]; /* >= 0: input; < 0: result of step -1-arg */
    int slot; /* tile that holds the result; -1: the output itself */
    double param;
} fused_step;

struct mf_fused {
    fused_step steps[MAX_STEPS];
    int n_steps;
    mf_dtype in_types[MAX_INPUTS];
    int n_in;
    int64_t tile; /* elements per tile */
};

/* A tile is free after the last step that reads it; that step may overwrite it. */
static mf_status assign_slots(mf_fused *f)
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
    }
    return MF_OK;
}

/* Loops trust their types: operands have the type that selects the loop or that of the signature;
 * the result has that type, the signature's, or is a part of a complex number. */
static bool types_fit(const mf_op *op, const mf_dtype *in, int n, mf_dtype out)
{
    const mf_opdef *def;
    const mf_dtype last = in[n - 1];
    const mf_dtype part = last == MF_DTYPE_C64    ? MF_DTYPE_F32
                          : last == MF_DTYPE_C128 ? MF_DTYPE_F64
                                                  : MF_DTYPE_INVALID;

    if (!mf_dtype_is_valid((int)last) || mf_op_def(op, &def) != MF_OK || def->n_in != n ||
        def->n_out != 1)
        return false;
    for (int i = 0; i < n; i++) {
        if (in[i] != (def->in[i].type_attr ? last : def->in[i].type))
            return false;
    }
    if (!def->out[0].type_attr)
        return out == def->out[0].type;
    return out ==
           (def->in[n - 1].type_attr && strcmp(def->out[0].type_attr, def->in[n - 1].type_attr) == 0
                ? last
                : part);
}

static mf_status fused_read_step(mf_fused *f, const mf_node *n, int i, int *at, mf_dtype *made)
{
    const mf_attr *ops = mf_node_attr(n, "ops"), *types = mf_node_attr(n, "types");
    const mf_attr *args = mf_node_attr(n, "args"), *params = mf_node_attr(n, "params");
    const mf_op *op = mf_op_find(ops->strings[i].data);
    const mf_loop *loop = op ? mf_kernel_of(op)->loop : NULL;
    mf_dtype in[3] = { 0 };
    fused_step *s = &f->steps[i];

    if (!loop || *at + loop->arity > args->n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "step %d is not an elementwise op", i);
    *s = (fused_step){ .arity = loop->arity, .param = (double)params->floats[i] };
    for (int a = 0; a < s->arity; a++) {
        const int64_t arg = args->ints[(*at)++];

        if (arg >= f->n_in || arg < -i)
            return MF_FAIL(MF_INVALID_ARGUMENT, "step %d has an operand that does not exist", i);
        s->arg[a] = (int)arg;
        in[a] = arg >= 0 ? f->in_types[arg] : made[-1 - arg];
    }
    made[i] = (mf_dtype)types->ints[i];
    if (!types_fit(op, in, s->arity, made[i]) || !mf_dtype_is_plain(made[i]) ||
        !loop->fn[in[s->arity - 1]])
        return MF_FAIL(MF_INVALID_ARGUMENT, "step %d (%s) has no loop for its types", i, op->name);
    s->fn = loop->fn[in[s->arity - 1]];
    return MF_OK;
}

static void fused_widen(size_t *widest, mf_dtype dtype)
{
    const size_t size = mf_dtype_cell(dtype);

    if (size > *widest)
        *widest = size;
}

/* The number of elements of any of the types that fit into a tile. */
static int64_t tile_of(const mf_fused *f, const mf_dtype *made)
{
    size_t widest = TILE_BYTES / TILE;

    for (int j = 0; j < f->n_in; j++)
        fused_widen(&widest, f->in_types[j]);
    for (int i = 0; i < f->n_steps; i++)
        fused_widen(&widest, made[i]);
    return (int64_t)(TILE_BYTES / widest);
}

mf_status mf_fused_read(const mf_node *node, const mf_dtype *in_types, int n_in, mf_arena *arena,
                        mf_fused **out)
{
    const mf_attr *ops = mf_node_attr(node, "ops"), *types = mf_node_attr(node, "types");
    const mf_attr *params = mf_node_attr(node, "params");
    mf_fused *f = MF_ARENA_NEW(arena, mf_fused);
    mf_dtype made[MAX_STEPS];
    int at = 0;

    if (!f)
        return MF_NOMEM("a fused op");
    if (ops->n < 1 || ops->n > MAX_STEPS || types->n != ops->n || params->n != ops->n || n_in < 1 ||
        n_in > MAX_INPUTS)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a fused op of %lld steps and %d inputs",
                       (long long)ops->n, n_in);
    f->n_in = n_in;
    memcpy(f->in_types, in_types, (size_t)n_in * sizeof *in_types);
    for (f->n_steps = 0; f->n_steps < ops->n; f->n_steps++)
        MF_TRY(fused_read_step(f, node, f->n_steps, &at, made));
    if (made[f->n_steps - 1] != node->out_types[0])
        return MF_FAIL(MF_INVALID_ARGUMENT, "the last step makes %s, not %s",
                       mf_dtype_name(made[f->n_steps - 1]), mf_dtype_name(node->out_types[0]));
    f->tile = tile_of(f, made);
    *out = f;
    return assign_slots(f);
}

/* ---- operands ---- */

static void operand_init(mf_fused_operand *o, const mf_broadcast *b, int j)
{
    int64_t natural = 1;
    int d = b->rank - 1;

    for (; d >= 0 && b->stride[j][d] == natural; d--)
        natural *= b->dims[d];
    o->whole = d < 0;
    for (; d >= 0 && b->stride[j][d] == 0; d--)
        ;
    o->scalar = d < 0 && natural == 1 && !o->whole;
    o->period = d < 0 ? natural : 0;
}

mf_status mf_fused_begin(mf_fused_run *run, const mf_fused *f, const mf_shape *shape,
                         const mf_shape *const *shapes, const void *const *data, void *out,
                         size_t out_size)
{
    mf_shape all = *shape;

    memset(run, 0, sizeof *run);
    run->f = f;
    run->out = out;
    run->out_size = out_size;
    for (int j = 0; j < f->n_in; j++)
        MF_TRY(mf_shape_broadcast(&all, shapes[j], &all));
    if (!mf_shape_equal(&all, shape))
        return MF_FAIL(MF_INVALID_ARGUMENT, "operands of a fused op do not fit its result");
    mf_broadcast_init(&run->b, shape, shapes, f->n_in);
    run->inner = run->b.dims[run->b.rank - 1];
    for (int j = 0; j < f->n_in; j++) {
        run->in[j] = (mf_fused_operand){ .data = data[j], .size = mf_dtype_cell(f->in_types[j]) };
        operand_init(&run->in[j], &run->b, j);
    }
    return MF_OK;
}

/* n copies of one element. */
static void fused_splat(const char *from, size_t size, int64_t n, char *to)
{
    size_t done = size;
    const size_t all = (size_t)n * size;

    memcpy(to, from, size);
    for (; done < all; done *= 2)
        memcpy(to + done, to, done <= all - done ? done : all - done);
}

/* Broadcasts elements at.. of operand j, row by row, into `to`. */
static void fused_spread(const mf_fused_run *run, int j, int64_t at, int64_t n, char *to)
{
    const mf_broadcast *b = &run->b;
    const mf_fused_operand *o = &run->in[j];

    while (n > 0) {
        const int64_t i = at % run->inner, left = run->inner - i < n ? run->inner - i : n;
        int64_t rest = at / run->inner, offset = 0;

        for (int d = b->rank - 2; d >= 0; d--) {
            offset += rest % b->dims[d] * b->stride[j][d];
            rest /= b->dims[d];
        }
        if (b->stride[j][b->rank - 1] == 0)
            fused_splat(o->data + (size_t)offset * o->size, o->size, left, to);
        else
            memcpy(to, o->data + (size_t)(offset + i) * o->size, (size_t)left * o->size);
        to += (size_t)left * o->size;
        at += left;
        n -= left;
    }
}

/* ---- tiles ---- */

/* Scratch memory of a range: results of steps, broadcast operands. */
typedef struct tiles {
    _Alignas(64) char slot[MAX_SLOTS][TILE_BYTES];
    _Alignas(64) char operand[MAX_INPUTS][TILE_BYTES];
    int64_t filled[MAX_INPUTS]; /* elements of operand[j] that are valid for all tiles */
} tiles;

/* Address of elements at.. of operand j. */
static const char *fused_fetch(const mf_fused_run *run, int j, int64_t at, int64_t n, tiles *t)
{
    const mf_fused_operand *o = &run->in[j];

    if (o->scalar)
        return o->data;
    if (o->whole)
        return o->data + (size_t)at * o->size;
    if (o->period > 0 && at % o->period + n <= o->period)
        return o->data + (size_t)(at % o->period) * o->size;
    if (t->filled[j] < n) {
        fused_spread(run, j, at, n, t->operand[j]);
        t->filled[j] = run->inner == o->period ? n : 0;
    }
    return t->operand[j];
}

static void fused_run_tile(const mf_fused_run *run, int64_t at, int64_t n, tiles *t)
{
    const char *in[MAX_INPUTS];
    const mf_fused *f = run->f;

    for (int j = 0; j < f->n_in; j++)
        in[j] = fused_fetch(run, j, at, n, t);
    for (int i = 0; i < f->n_steps; i++) {
        const fused_step *s = &f->steps[i];
        mf_span span = { .out =
                             s->slot < 0 ? run->out + (size_t)at * run->out_size : t->slot[s->slot],
                         .n = n,
                         .param = s->param };

        for (int a = 0; a < s->arity; a++) {
            const int arg = s->arg[a];

            span.in[a] = arg >= 0 ? in[arg] : t->slot[f->steps[-1 - arg].slot];
            span.scalar[a] = arg >= 0 && run->in[arg].scalar;
        }
        s->fn(&span);
    }
}

/* All tiles start at the same position of a row, or a row has several tiles: so operands that
 * repeat by rows are the same in each tile, or contiguous. */
void mf_fused_range(const mf_fused_run *run, int64_t from, int64_t to)
{
    const int64_t inner = run->inner, most = run->f->tile;
    const int64_t tile = inner <= most ? most - most % inner : most;
    tiles t;

    memset(t.filled, 0, sizeof t.filled);
    while (from < to) {
        int64_t n = to - from < tile ? to - from : tile;

        if (inner > most && n > inner - from % inner)
            n = inner - from % inner;
        fused_run_tile(run, from, n, &t);
        from += n;
    }
}

/* ---- _Fused ---- */

static mf_status fused_prepare(mf_prepare *p)
{
    mf_fused *f;

    MF_TRY(mf_fused_read(p->node, p->node->in_types, p->node->n_inputs, p->arena, &f));
    p->state = f;
    return MF_OK;
}

typedef struct fused_job {
    const mf_fused_run *run;
    int64_t count, grain;
} fused_job;

static void fused_run_piece(void *ctx, int64_t piece)
{
    const fused_job *job = ctx;
    const int64_t from = piece * job->grain, to = from + job->grain;

    mf_fused_range(job->run, from, to < job->count ? to : job->count);
}

static mf_status fused_run(mf_kernel *k)
{
    const mf_fused *f = k->state;
    const mf_shape *shapes[MAX_INPUTS];
    const void *data[MAX_INPUTS];
    mf_shape shape = k->in[0]->shape;
    mf_fused_run run;
    fused_job job = { .run = &run };
    mf_tensor *out;

    for (int i = 0; i < f->n_in; i++) {
        shapes[i] = &k->in[i]->shape;
        data[i] = k->in[i]->data;
        MF_TRY(mf_shape_broadcast(&shape, shapes[i], &shape));
    }
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (out->count == 0)
        return MF_OK;
    MF_TRY(mf_fused_begin(&run, f, &shape, shapes, data, out->data, mf_dtype_cell(out->dtype)));
    job.count = out->count;
    job.grain =
        run.inner <= MF_LOOP_GRAIN ? MF_LOOP_GRAIN - MF_LOOP_GRAIN % run.inner : MF_LOOP_GRAIN;
    return mf_kernel_parallel(k, (job.count + job.grain - 1) / job.grain, fused_run_piece, &job);
}

const mf_op mf_op_fused = {
    .name = "_Fused",
    .def = "(inputs:*Tin) -> (output:Tout) {Tin:list(type)>=1, Tout:type, " MF_FUSED_ATTRS "}",
    .infer = mf_loop_infer,
    .grad = mf_grad_missing,
    .prepare = fused_prepare,
    .run = fused_run,
    .samples = MF_SAMPLES("f32[2,3] f32[3] ; Tout=float ops=['AddV2','Relu'] types=[float,float] "
                          "args=[0,1,-1] params=[0,0]",
                          "f32[7,3,5] f32[3,1] f32[5] ; Tout=float ops=['AddV2','Mul'] "
                          "types=[float,float] args=[0,1,-1,2] params=[0,0]",
                          "f64[2,1500] f64[1500] f64[2,1] ; Tout=double ops=['AddV2','Mul'] "
                          "types=[double,double] args=[0,1,-1,2] params=[0,0]",
                          "f32[400,4,8] f32[4,1] f32[] ; Tout=float ops=['AddV2','Maximum'] "
                          "types=[float,float] args=[0,1,2,-1] params=[0,0]",
                          "bool[3] f32[3] ; Tout=float ops=['AddV2'] types=[float] args=[0,1] "
                          "params=[0] !fails",
                          "f32[3] ; Tout=double ops=['Relu'] types=[float] args=[0] params=[0] "
                          "!fails",
                          "f32[3] ; Tout=bool ops=['Relu'] types=[bool] args=[0] params=[0] "
                          "!fails"),
};
