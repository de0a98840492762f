/* SPDX-License-Identifier: Apache-2.0 */
/* optional_ops.c - optional elements as values: an iterator returns them without failing at the
 * end. */
#include "ops/array/array_util.h"
#include "ops/dataset/dataset_iterator.h"
#include "ops/state/handle.h"

typedef struct optional {
    mf_object object;
    mf_tensor *row; /* NULL: none */
    int n;
} optional;

static void optional_destroy(mf_object *o)
{
    optional *x = (optional *)o;

    mf_row_free(x->row, x->n);
    mf_free(x);
}
static const mf_object_type optional_type = { .name = "optional", .destroy = optional_destroy };

/* Takes ownership of the row, even on failure. */
static mf_status put_optional(mf_kernel *k, mf_tensor *row, int n)
{
    optional *x = mf_calloc(1, sizeof *x);
    mf_status st =
        x ? mf_tensor_alloc(k->out[0], MF_DTYPE_VARIANT, &MF_SCALAR) : MF_NOMEM("an optional");

    if (st != MF_OK) {
        mf_row_free(row, n);
        mf_free(x);
        return st;
    }
    x->object.type = &optional_type;
    atomic_store(&x->object.refs, 1);
    x->row = row;
    x->n = n;
    *(mf_object **)k->out[0]->data = &x->object;
    return MF_OK;
}

static mf_status input_optional(const mf_kernel *k, optional **out)
{
    mf_object *o = NULL;
    const mf_status st = mf_kernel_object(k, 0, &optional_type, &o);

    *out = (optional *)o;
    return st;
}

static mf_status none_run(mf_kernel *k)
{
    return put_optional(k, NULL, 0);
}

static mf_status from_value_run(mf_kernel *k)
{
    mf_tensor *row = mf_row_new(k->n_in);

    if (!row)
        return MF_NOMEM("an optional");
    for (int i = 0; i < k->n_in; i++) {
        const mf_status st = mf_tensor_keep(&row[i], k->in[i]);

        if (st != MF_OK) {
            mf_row_free(row, k->n_in);
            return st;
        }
    }
    return put_optional(k, row, k->n_in);
}

static mf_status optional_ops_next_run(mf_kernel *k)
{
    mf_seq_iterator *it;
    mf_object *o = NULL;
    mf_tensor *row;
    bool end = false;
    mf_status st;

    MF_TRY(mf_kernel_object(k, 0, &mf_seq_iterator_type, &o));
    it = (mf_seq_iterator *)o;
    row = mf_row_new(it->n_parts);
    st = row ? mf_seq_iterator_next(it, k->step, row, &end) : MF_NOMEM("an element");
    if (st == MF_OK && !end)
        return put_optional(k, row, it->n_parts);
    mf_row_free(row, it->n_parts);
    return st == MF_OK ? put_optional(k, NULL, 0) : st;
}

static mf_status has_value_run(mf_kernel *k)
{
    optional *x;
    mf_tensor *out;

    MF_TRY(input_optional(k, &x));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    *(uint8_t *)out->data = x->row != NULL;
    return MF_OK;
}

static mf_status get_value_run(mf_kernel *k)
{
    mf_tensor *row;
    optional *x;
    mf_status st;

    MF_TRY(input_optional(k, &x));
    if (!x->row)
        return MF_FAIL(MF_INVALID_ARGUMENT, "The given optional does not have a value.");
    row = mf_row_new(x->n);
    if (!row)
        return MF_NOMEM("an element");
    for (int i = 0; i < x->n; i++)
        mf_tensor_set(&row[i], &x->row[i]);
    st = mf_row_put(k, row, x->n);
    mf_row_free(row, x->n);
    return st;
}

static mf_status value_infer(mf_infer *in)
{
    const mf_attr *shapes = mf_node_list(in->node, "output_shapes", MF_ATTR_SHAPE);

    for (int i = 0; shapes && i < shapes->n && i < in->n_out; i++)
        in->out[i] = shapes->shapes[i];
    return MF_OK;
}

/* ---- gradients: the gradient of an optional is an optional of gradients ---- */

static mf_status from_value_grad(mf_grad *g)
{
    mf_buf types = { 0 };
    mf_output value = { 0 };
    mf_status st;

    mf_buf_str(&types, "output_types=[");
    for (int i = 0; i < g->n_in; i++)
        mf_buf_printf(&types, "%s%s", i ? "," : "", mf_dtype_name(g->node->in_types[i]));
    mf_buf_str(&types, "] output_shapes=[");
    for (int i = 0; i < g->n_in; i++)
        mf_buf_str(&types, i ? ",shape?" : "shape?");
    mf_buf_str(&types, "]");
    st = mf_buf_finish(&types);
    if (st == MF_OK)
        value = mf_applyf(g->graph, "OptionalGetValue", MF_IN(g->dy[0]), "%s", types.data);
    mf_buf_deinit(&types);
    for (int i = 0; value.node && i < g->n_in; i++)
        g->dx[i] = (mf_output){ value.node, i };
    return st;
}

static mf_status get_value_grad(mf_grad *g)
{
    mf_output *dy = mf_calloc(g->n_out + 1, sizeof *dy);

    if (!dy)
        return MF_NOMEM("a gradient");
    for (int i = 0; i < g->n_out; i++)
        dy[i] = mf_grad_dy_or_zeros(g, i);
    g->dx[0] = mf_apply(g->graph, "OptionalFromValue", dy);
    mf_free(dy);
    return MF_OK;
}

#define OPTIONAL(NAME, DEF, INFER, GRAD, RUN)                                                      \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_HEAP | MF_OP_UNPLANNED, .infer = INFER,           \
        .grad = GRAD, .run = RUN                                                                   \
    }

const mf_op mf_ops_optional[] = {
    OPTIONAL("OptionalNone", "() -> (optional:variant) {}", mf_infer_scalar, mf_grad_none,
             none_run),
    OPTIONAL("OptionalFromValue",
             "(components:*Toutput_types) -> (optional:variant) {Toutput_types:list(type)>=1}",
             mf_infer_scalar, from_value_grad, from_value_run),
    OPTIONAL("OptionalHasValue", "(optional:variant) -> (has_value:bool) {}", mf_infer_scalar,
             mf_grad_none, has_value_run),
    OPTIONAL("OptionalGetValue",
             "(optional:variant) -> (components:*output_types) {" MF_DATASET_OP_TYPES "}",
             value_infer, get_value_grad, get_value_run),
    OPTIONAL("IteratorGetNextAsOptional",
             "(iterator:resource) -> (optional:variant) {" MF_DATASET_OP_TYPES "} is_stateful",
             mf_infer_scalar, mf_grad_none, optional_ops_next_run),
    { 0 },
};
