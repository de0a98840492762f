/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_ops.c - begin and end of a gradient exchange with other workers.
 * compiler/sharding/shard_exchange.c inserts them; the step computes on between them. */
#include "graph/step_exchange.h"

static mf_status bucket_prepare(mf_prepare *p)
{
    mf_exchange_bucket *b = MF_ARENA_NEW(p->arena, mf_exchange_bucket);
    const mf_attr *parts = mf_node_attr(p->node, "parts");
    const mf_attr *shapes = mf_node_attr(p->node, "shapes"),
                  *types = mf_node_attr(p->node, "types"), *named = mf_node_attr(p->node, "names");
    const char **names = MF_ARENA_ARRAY(p->arena, const char *, types->n);

    if (!b || !names)
        return MF_NOMEM("an exchange");
    for (int64_t i = 0; i < types->n; i++)
        names[i] = named && i < named->n ? named->strings[i].data : "";
    *b = (mf_exchange_bucket){ .id = mf_node_int(p->node, "bucket"),
                               .concat = mf_node_bool(p->node, "concat"),
                               .n_parts = parts ? (int)(parts->n / 2) : 0,
                               .parts = parts ? parts->ints : NULL,
                               .n_items = (int)types->n,
                               .shapes = shapes->shapes,
                               .types = types->ints,
                               .names = names };
    if (shapes->n != types->n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%lld shapes for %lld items", (long long)shapes->n,
                       (long long)types->n);
    p->state = b;
    return MF_OK;
}

static mf_exchange *exchange_of(const mf_kernel *k)
{
    if (!k->step->exchange)
        (void)MF_FAIL(MF_FAILED_PRECONDITION, "this session has no exchange with other workers");
    return k->step->exchange;
}

static mf_status begin_run(mf_kernel *k)
{
    const mf_exchange_bucket *b = k->state;
    mf_exchange *x = exchange_of(k);
    mf_tensor *ticket;

    if (!x)
        return MF_FAILED_PRECONDITION;
    if (k->n_in != b->n_parts * b->n_items)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%d values for %d parts of %d", k->n_in, b->n_parts,
                       b->n_items);
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &ticket));
    ((int32_t *)ticket->data)[0] = (int32_t)b->id;
    return x->kind->begin(x, b, k->in);
}

static void end_start(mf_kernel *k)
{
    mf_exchange *x = exchange_of(k);

    if (x)
        x->kind->end(x, k->state, k);
    else
        mf_kernel_done(k, MF_FAILED_PRECONDITION);
}

static mf_status end_infer(mf_infer *in)
{
    const mf_attr *shapes = mf_node_attr(in->node, "shapes");

    for (int i = 0; i < in->n_out && shapes && i < shapes->n; i++)
        in->out[i] = shapes->shapes[i];
    return MF_OK;
}

const mf_op mf_ops_exchange[] = {
    /* Starts the exchange of a bucket. The ticket identifies it for _ExchangeEnd. */
    { .name = "_ExchangeBegin",
      .def = "(values:*T) -> (ticket:int32) {T:list(type)>=0, bucket:int, concat:bool=false, "
             "parts:list(int)>=0=[], types:list(type)>=1, shapes:list(shape)>=1, "
             "names:list(string)>=0=[]} is_stateful",
      .infer = mf_infer_scalar,
      .grad = mf_grad_missing,
      .prepare = bucket_prepare,
      .run = begin_run },
    /* Returns the reduced bucket. */
    { .name = "_ExchangeEnd",
      .def = "(ticket:int32) -> (values:*types) {types:list(type)>=1, bucket:int, "
             "concat:bool=false, shapes:list(shape)>=1, names:list(string)>=0=[]} is_stateful",
      .flags = MF_OP_UNPLANNED | MF_OP_HEAP | MF_OP_JOINT,
      .infer = end_infer,
      .grad = mf_grad_missing,
      .prepare = bucket_prepare,
      .start = end_start },
    { 0 },
};
