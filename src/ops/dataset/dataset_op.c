/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_op.c - creates datasets from the inputs of an op. See dataset_op.h. */
#include "ops/dataset/dataset_op.h"

#include "ops/state/handle.h"

#include <string.h>

/* ---- the value ---- */

static void sequence_destroy(mf_object *o)
{
    mf_dataset_op *d = (mf_dataset_op *)o;

    mf_row_free(d->args, d->n_args);
    mf_callee_unref(d->function);
    mf_free(d->types);
    mf_free(d->shapes);
    mf_free(d);
}

const mf_object_type mf_dataset_op_type = { .name = "data set", .destroy = sequence_destroy };

mf_status mf_dataset_op_new(const mf_dataset_op_kind *kind, int n_parts, const mf_dtype *types,
                            const mf_shape *shapes, int n_args, mf_dataset_op **out)
{
    mf_dataset_op *d = mf_calloc(1, sizeof *d);

    *out = NULL;
    if (!d)
        return MF_NOMEM("a data set");
    d->object.type = &mf_dataset_op_type;
    atomic_store(&d->object.refs, 1);
    d->kind = kind;
    d->n_parts = n_parts;
    d->n_args = n_args;
    d->depth = 1;
    d->types = mf_calloc(n_parts + 1, sizeof *d->types);
    d->shapes = mf_calloc(n_parts + 1, sizeof *d->shapes);
    d->args = mf_row_new(n_args);
    if (!d->types || !d->shapes || !d->args) {
        mf_object_unref(&d->object);
        return MF_NOMEM("a data set");
    }
    for (int i = 0; i < n_parts; i++) {
        d->types[i] = types[i];
        d->shapes[i] = shapes ? shapes[i] : MF_SHAPE_UNKNOWN;
    }
    *out = d;
    return MF_OK;
}

mf_status mf_dataset_op_wrap(mf_dataset_op *d, mf_tensor *t)
{
    mf_tensor holder = { 0 };
    const mf_status st = mf_tensor_alloc(&holder, MF_DTYPE_VARIANT, &MF_SCALAR);

    if (st != MF_OK) {
        mf_object_unref(&d->object);
        return st;
    }
    *(mf_object **)holder.data = &d->object;
    mf_tensor_move(t, &holder);
    return MF_OK;
}

mf_status mf_dataset_op_of(const mf_tensor *t, mf_dataset_op **out)
{
    mf_object *o = t->dtype == MF_DTYPE_VARIANT && t->count == 1 ? *(mf_object **)t->data : NULL;

    *out = NULL;
    if (!o || o->type != &mf_dataset_op_type)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a data set is expected, but there is %s",
                       o ? o->type->name : "none");
    *out = (mf_dataset_op *)o;
    return MF_OK;
}

mf_dataset_op *mf_dataset_op_arg(const mf_dataset_op *d, int i)
{
    return (mf_dataset_op *)*(mf_object **)d->args[i].data;
}

int64_t mf_dataset_op_size(const mf_dataset_op *d)
{
    return d->kind->size ? d->kind->size(d) : MF_SIZE_UNKNOWN;
}

int64_t mf_dataset_op_input_size(const mf_dataset_op *d)
{
    return mf_dataset_op_size(mf_dataset_op_arg(d, 0));
}

mf_status mf_dataset_op_same_parts(const mf_dataset_op *a, const mf_dataset_op *b)
{
    bool same = a->n_parts == b->n_parts;

    for (int i = 0; same && i < a->n_parts; i++)
        same = a->types[i] == b->types[i];
    if (!same)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%sDataset: the data sets have elements of different types", a->kind->name);
    return MF_OK;
}

/* ---- rows ---- */

mf_tensor *mf_row_new(int n)
{
    return mf_calloc(n + 1, sizeof(mf_tensor));
}

void mf_row_clear(mf_tensor *row, int n)
{
    for (int i = 0; i < n; i++)
        mf_tensor_clear(&row[i]);
}

void mf_row_free(mf_tensor *row, int n)
{
    if (row)
        mf_row_clear(row, n);
    mf_free(row);
}

void mf_row_move(mf_tensor *to, mf_tensor *from, int n)
{
    for (int i = 0; i < n; i++)
        mf_tensor_move(&to[i], &from[i]);
}

mf_status mf_rows_add(mf_dataset_rows *rows, mf_tensor *row)
{
    const int n = rows->n_parts;

    MF_TRY(mf_grow(&rows->parts, &rows->cap, (rows->n + 1) * n, sizeof *rows->parts));
    mf_row_move(rows->parts + rows->n * n, row, n);
    rows->n++;
    return MF_OK;
}

void mf_rows_deinit(mf_dataset_rows *rows)
{
    for (int64_t i = 0; i < rows->n; i++)
        mf_row_clear(rows->parts + i * rows->n_parts, rows->n_parts);
    mf_free(rows->parts);
    rows->parts = NULL;
    rows->n = rows->cap = 0;
}

/* ---- the ops ---- */

/* Attributes of the node, read once. */
typedef struct sequence_state {
    mf_callee *function;
    mf_dtype *types;
    mf_shape *shapes; /* NULL: not given */
    int n_types, captured, n_captured;
    bool *is_number; /* by input: it must be a scalar */
    const char **names; /* of the inputs' arguments */
} sequence_state;

static mf_status dataset_op_read_parts(mf_prepare *p, sequence_state *s)
{
    const mf_attr *types = mf_node_list(p->node, "output_types", MF_ATTR_TYPE);
    const mf_attr *shapes = mf_node_list(p->node, "output_shapes", MF_ATTR_SHAPE);

    if (!types)
        types = mf_node_list(p->node, "Toutput_types", MF_ATTR_TYPE);
    s->n_types = types ? (int)types->n : 1;
    s->types = MF_ARENA_ARRAY(p->arena, mf_dtype, s->n_types + 1);
    if (!s->types)
        return MF_NOMEM("a data set");
    for (int i = 0; i < s->n_types; i++) /* sources of lines and records have no such attribute */
        s->types[i] = types ? (mf_dtype)types->ints[i] : MF_DTYPE_STRING;
    if (!types || !shapes || shapes->n != s->n_types)
        return MF_OK;
    s->shapes = MF_ARENA_ARRAY(p->arena, mf_shape, s->n_types);
    if (!s->shapes)
        return MF_NOMEM("a data set");
    memcpy(s->shapes, shapes->shapes, (size_t)s->n_types * sizeof *s->shapes);
    return MF_OK;
}

static mf_status dataset_op_read_inputs(mf_prepare *p, sequence_state *s)
{
    const mf_opdef *def = p->node->def;

    s->is_number = MF_ARENA_ARRAY(p->arena, bool, p->node->n_inputs + 1);
    s->names = MF_ARENA_ARRAY(p->arena, const char *, p->node->n_inputs + 1);
    if (!s->is_number || !s->names)
        return MF_NOMEM("a data set");
    for (int i = 0; i < def->n_in; i++) {
        const mf_argdef *a = &def->in[i];
        const bool number = (a->type == MF_DTYPE_I64 || a->type == MF_DTYPE_I32 ||
                             a->type == MF_DTYPE_BOOL || a->type == MF_DTYPE_F32) &&
                            !a->number_attr && strcmp(a->name, "byte_offsets") != 0;
        int first, count;

        mf_node_arg_range(p->node, false, i, &first, &count);
        for (int k = first; k < first + count; k++) {
            s->is_number[k] = number;
            s->names[k] = a->name;
        }
        if (strcmp(a->name, "other_arguments") == 0) {
            s->captured = first;
            s->n_captured = count;
        }
    }
    return MF_OK;
}

mf_status mf_dataset_op_prepare(mf_prepare *p)
{
    sequence_state *s = MF_ARENA_NEW(p->arena, sequence_state);

    p->state = NULL;
    if (!s)
        return MF_NOMEM("a data set");
    MF_TRY(dataset_op_read_parts(p, s));
    MF_TRY(dataset_op_read_inputs(p, s));
    if (mf_node_attr(p->node, "f"))
        MF_TRY(mf_callee_new(p, "f", &s->function));
    else if (mf_node_attr(p->node, "predicate"))
        MF_TRY(mf_callee_new(p, "predicate", &s->function));
    p->state = s;
    return MF_OK;
}

void mf_dataset_op_release(void *state)
{
    if (state)
        mf_callee_unref(((sequence_state *)state)->function);
}

/* Copies inputs to arguments: datasets are checked to be datasets, numbers to be scalars. */
static mf_status take_inputs(const mf_kernel *k, mf_dataset_op *d)
{
    const sequence_state *s = k->state;

    for (int i = 0; i < k->n_in; i++) {
        mf_dataset_op *below;

        if (s->is_number[i] && k->in[i]->shape.rank != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be a scalar", s->names[i]);
        MF_TRY(mf_tensor_keep(&d->args[i], k->in[i]));
        if (k->in[i]->dtype != MF_DTYPE_VARIANT || !strstr(s->names[i], "dataset"))
            continue;
        MF_TRY(mf_dataset_op_of(k->in[i], &below));
        if (below->depth >= d->depth)
            d->depth = below->depth + 1;
    }
    if (d->depth > MF_DATASET_OP_DEPTH)
        return MF_FAIL(MF_INVALID_ARGUMENT, "datasets are nested more than %d deep",
                       MF_DATASET_OP_DEPTH);
    return MF_OK;
}

static mf_status dataset_op_fill(const mf_kernel *k, const mf_dataset_op_kind *kind,
                                 mf_dataset_op *d)
{
    const sequence_state *s = k->state;

    MF_TRY(take_inputs(k, d));
    d->function = mf_callee_ref(s->function);
    d->captured = s->captured;
    d->n_captured = s->n_captured;
    d->option = kind->option && mf_node_bool(k->node, kind->option);
    return kind->check ? kind->check(d) : MF_OK;
}

mf_status mf_dataset_op_make(const mf_kernel *k, const mf_dataset_op_kind *kind,
                             mf_dataset_op **out)
{
    const sequence_state *s = k->state;
    mf_dataset_op *d, *input = NULL;
    mf_status st;

    *out = NULL;
    if (kind->on_input)
        MF_TRY(mf_dataset_op_of(k->in[0], &input));
    if (kind->like_input && input)
        MF_TRY(mf_dataset_op_new(kind, input->n_parts, input->types, input->shapes, k->n_in, &d));
    else
        MF_TRY(mf_dataset_op_new(kind, s->n_types, s->types, s->shapes, k->n_in, &d));
    st = dataset_op_fill(k, kind, d);
    if (st != MF_OK)
        mf_object_unref(&d->object);
    else
        *out = d;
    return st;
}

mf_status mf_dataset_op_run(mf_kernel *k, const mf_dataset_op_kind *kind)
{
    mf_dataset_op *d;

    MF_TRY(mf_dataset_op_make(k, kind, &d));
    return mf_dataset_op_wrap(d, k->out[0]);
}

/* ---- elements as outputs ---- */

mf_status mf_element_spec_fit(mf_element_spec wanted, mf_element_spec have)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (have.n != wanted.n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Number of components does not match: expected %d types but got %d.",
                       wanted.n, have.n);
    for (int i = 0; i < have.n; i++) {
        if (wanted.types[i] != have.types[i])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Data type mismatch at component %d: expected %s but got %s.", i,
                           mf_dtype_name(wanted.types[i]), mf_dtype_name(have.types[i]));
    }
    for (int i = 0; wanted.shapes && have.shapes && i < have.n; i++) {
        if (!mf_shape_compatible(&wanted.shapes[i], &have.shapes[i]))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Incompatible shapes at component %d: expected %s but got %s.", i,
                           mf_shape_text(&wanted.shapes[i], a), mf_shape_text(&have.shapes[i], b));
    }
    return MF_OK;
}

mf_status mf_row_put(mf_kernel *k, mf_tensor *row, int n)
{
    const mf_attr *shapes = mf_node_list(k->node, "output_shapes", MF_ATTR_SHAPE);

    if (n != k->n_out)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Number of components does not match: expected %d types but got %d.",
                       k->n_out, n);
    for (int i = 0; i < n; i++) {
        const mf_element_spec wanted = { 1, &k->node->out_types[i],
                                         shapes && i < shapes->n ? &shapes->shapes[i] : NULL };

        MF_TRY(mf_element_spec_fit(wanted, (mf_element_spec){ 1, &row[i].dtype, &row[i].shape }));
    }
    for (int i = 0; i < n; i++)
        mf_tensor_move(k->out[i], &row[i]);
    return MF_OK;
}
