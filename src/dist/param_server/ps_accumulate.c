/* SPDX-License-Identifier: Apache-2.0 */
/* ps_accumulate.c - gradient accumulation on a worker that pushes every n steps. */
#include "dist/param_server/ps_accumulate.h"

#include "base/mem.h"

#include <string.h>

mf_status mf_ps_accumulate_init(mf_ps_accumulate *h, int n)
{
    *h = (mf_ps_accumulate){ .sum = mf_calloc(n, sizeof *h->sum), .n = n };
    return h->sum ? MF_OK : MF_NOMEM("gradients");
}

void mf_ps_accumulate_deinit(mf_ps_accumulate *h)
{
    for (int v = 0; h->sum && v < h->n; v++)
        mf_tensor_clear(&h->sum[v]);
    mf_free(h->sum);
    *h = (mf_ps_accumulate){ 0 };
}

/* Append the rows of this step to those of earlier steps. */
static mf_status ps_accumulate_append(mf_tensor *to, const mf_tensor *more)
{
    mf_shape shape = more->shape;
    mf_tensor all = { 0 };
    const size_t had = to->buffer ? mf_tensor_bytes(to) : 0;

    shape.dims[0] += to->buffer ? to->shape.dims[0] : 0;
    MF_TRY(mf_tensor_alloc(&all, more->dtype, &shape));
    if (had > 0)
        memcpy(all.data, to->data, had);
    if (more->count > 0)
        memcpy((char *)all.data + had, more->data, mf_tensor_bytes(more));
    mf_tensor_clear(to);
    *to = all;
    return MF_OK;
}

mf_status mf_ps_accumulate_add(mf_ps_accumulate *h, const mf_push_pull_round *r, int v)
{
    const mf_tensor *x = &r->values[v].part[0];
    mf_tensor *sum = &h->sum[v];

    if (r->values[v].concat)
        return ps_accumulate_append(sum, x);
    if (!sum->buffer) {
        MF_TRY(mf_tensor_alloc(sum, x->dtype, &x->shape));
        memcpy(sum->data, x->data, mf_tensor_bytes(x));
        return MF_OK;
    }
    for (int64_t i = 0; i < sum->count; i++)
        ((float *)sum->data)[i] += ((const float *)x->data)[i];
    return MF_OK;
}

mf_status mf_ps_accumulate_give(mf_ps_accumulate *h, mf_push_pull_round *r, int v, bool ids)
{
    mf_tensor *sum = &h->sum[v];

    for (int64_t i = 0; i < sum->count && !ids; i++)
        ((float *)sum->data)[i] *= 1.0f / (float)h->steps;
    mf_tensor_clear(&r->values[v].part[0]);
    r->values[v].part[0] = *sum;
    *sum = (mf_tensor){ 0 };
    return MF_OK;
}
