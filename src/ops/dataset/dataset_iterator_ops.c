/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_iterator_ops.c - ops on iterators: create, start, next element, name. */
#include "ops/dataset/dataset_iterator.h"
#include "ops/state/handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

typedef struct iterator_state {
    mf_handle handle; /* first */
    mf_seq_iterator_spec spec;
    mf_callee *factory; /* OneShotIterator: makes the dataset */
    mf_resources *session;
} iterator_state;

static mf_status dataset_iterator_ops_read_parts(mf_prepare *p, mf_element_spec *parts)
{
    const mf_attr *types = mf_node_list(p->node, "output_types", MF_ATTR_TYPE);
    const mf_attr *shapes = mf_node_list(p->node, "output_shapes", MF_ATTR_SHAPE);
    mf_dtype *t;

    parts->n = types ? (int)types->n : 0;
    t = MF_ARENA_ARRAY(p->arena, mf_dtype, parts->n + 1);
    if (!t)
        return MF_NOMEM("an iterator");
    for (int i = 0; i < parts->n; i++)
        t[i] = (mf_dtype)types->ints[i];
    parts->types = t;
    if (shapes && shapes->n == parts->n && shapes->n > 0)
        parts->shapes = shapes->shapes;
    return MF_OK;
}

/* Reads names and parts; what the op has no attribute for stays empty. */
static mf_status iterator_prepare(mf_prepare *p)
{
    iterator_state *s = MF_ARENA_NEW(p->arena, iterator_state);
    mf_status st = MF_OK;

    p->state = NULL;
    if (!s)
        return MF_NOMEM("an iterator");
    s->session = p->session;
    MF_TRY(dataset_iterator_ops_read_parts(p, &s->spec.parts));
    MF_TRY(mf_handle_init(&s->handle, p, true));
    s->spec.container = s->handle.container;
    s->spec.name = s->handle.name;
    s->spec.is_private = s->handle.owner != NULL;
    if (mf_node_attr(p->node, "dataset_factory"))
        st = mf_callee_new(p, "dataset_factory", &s->factory);
    if (st != MF_OK)
        mf_handle_deinit(&s->handle);
    else
        p->state = s;
    return st;
}

static void iterator_release(void *state)
{
    iterator_state *s = state;

    if (!s)
        return;
    mf_callee_unref(s->factory);
    mf_handle_deinit(&s->handle);
}

static mf_status dataset_iterator_ops_make_run(mf_kernel *k)
{
    iterator_state *s = k->state;
    mf_seq_iterator *it;

    MF_TRY(mf_handle_run(&s->handle, k, &mf_seq_iterator_type, mf_seq_iterator_make, &s->spec));
    it = (mf_seq_iterator *)mf_handle_object(k->out[0]);
    return mf_element_spec_fit(s->spec.parts, mf_seq_iterator_parts(it));
}

/* The graph's function makes the dataset, once. */
static mf_status one_shot_run(mf_kernel *k)
{
    iterator_state *s = k->state;
    const mf_dtype variant = MF_DTYPE_VARIANT;
    mf_function_calls calls = { 0 };
    mf_tensor made = { 0 };
    mf_seq_iterator *it;
    mf_dataset_op *d;
    bool started;
    mf_status st;

    MF_TRY(dataset_iterator_ops_make_run(k));
    it = (mf_seq_iterator *)mf_handle_object(k->out[0]);
    MF_TRY(mf_seq_iterator_has_started(it, k->step, &started));
    if (started)
        return MF_OK;
    st = mf_function_calls_run(&calls, s->factory, k->step, &(mf_call_args){ 0 }, &variant, 1,
                               &made);
    if (st == MF_OK)
        st = mf_dataset_op_of(&made, &d);
    if (st == MF_OK)
        st = mf_seq_iterator_start(it, k->step, d, true);
    mf_tensor_clear(&made);
    mf_function_calls_deinit(&calls);
    return st;
}

/* ---- without a name: they end with their handle ---- */

static void deleter_destroy(mf_object *o)
{
    mf_free(o);
}
static const mf_object_type deleter_type = { .name = "deleter", .destroy = deleter_destroy };

/* TensorFlow's older clients keep this to delete the iterator; here it is reference-counted. */
static mf_status put_deleter(mf_tensor *out)
{
    mf_object *o;

    MF_TRY(mf_tensor_alloc(out, MF_DTYPE_VARIANT, &MF_SCALAR));
    o = mf_calloc(1, sizeof *o);
    if (!o)
        return MF_NOMEM("an iterator");
    o->type = &deleter_type;
    atomic_store(&o->refs, 1);
    *(mf_object **)out->data = o;
    return MF_OK;
}

static mf_status anonymous_run(mf_kernel *k)
{
    mf_seq_iterator_spec spec = ((iterator_state *)k->state)->spec;
    mf_object *o;
    mf_status st;

    spec.name = NULL;
    MF_TRY(mf_seq_iterator_make(&spec, &o));
    st = mf_kernel_set_object(k, 0, o);
    mf_object_unref(o);
    if (st == MF_OK && k->n_out > 1)
        st = put_deleter(k->out[1]);
    return st;
}

static mf_status delete_run(mf_kernel *k)
{
    (void)k;
    return MF_OK;
}

/* ---- using ---- */

static mf_status input_iterator(const mf_kernel *k, int i, mf_seq_iterator **out)
{
    mf_object *o = NULL;
    const mf_status st = mf_kernel_object(k, i, &mf_seq_iterator_type, &o);

    *out = (mf_seq_iterator *)o;
    return st;
}

static mf_status start_run(mf_kernel *k)
{
    mf_seq_iterator *it;
    mf_dataset_op *d;

    MF_TRY(mf_dataset_op_of(k->in[0], &d));
    MF_TRY(input_iterator(k, 1, &it));
    return mf_seq_iterator_start(it, k->step, d, false);
}

static mf_status dataset_iterator_ops_next_run(mf_kernel *k)
{
    mf_seq_iterator *it;
    mf_tensor *row;
    bool end = false;
    mf_status st;

    MF_TRY(input_iterator(k, 0, &it));
    row = mf_row_new(it->n_parts);
    st = row ? mf_seq_iterator_next(it, k->step, row, &end) : MF_NOMEM("an element");
    if (st == MF_OK && end)
        st = MF_FAIL(MF_OUT_OF_RANGE, "End of sequence");
    if (st == MF_OK)
        st = mf_row_put(k, row, it->n_parts);
    mf_row_free(row, it->n_parts);
    return st;
}

static mf_status next_infer(mf_infer *in)
{
    const mf_attr *shapes = mf_node_list(in->node, "output_shapes", MF_ATTR_SHAPE);

    for (int i = 0; shapes && i < shapes->n && i < in->n_out; i++)
        in->out[i] = shapes->shapes[i];
    return MF_OK;
}

/* ---- names ---- */

static mf_status to_text_run(mf_kernel *k)
{
    mf_seq_iterator *it;
    mf_tensor *out;

    MF_TRY(input_iterator(k, 0, &it));
    if (!it->text)
        return MF_FAIL(MF_INVALID_ARGUMENT, "an anonymous iterator has no string handle");
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    return mf_string_set(out->data, it->text, strlen(it->text));
}

/* The object described by write_text() of dataset_iterator.c, or NULL. */
static mf_object *find_by_text(const iterator_state *s, const mf_step *step, const char *text)
{
    char whose, *container, *end;
    unsigned long len;
    mf_object *o;

    if (strncmp(text, "iterator:", 9) != 0 || (text[9] != 's' && text[9] != 'r') || text[10] != ':')
        return NULL;
    whose = text[9];
    len = strtoul(text + 11, &end, 10);
    if (end == text + 11 || *end != ':' || len > strlen(end + 1) || end[1 + len] != ':')
        return NULL;
    container = mf_strndup(end + 1, len);
    if (!container)
        return NULL;
    o = mf_resources_find(whose == 's' ? s->session : step->resources, container, end + len + 2);
    mf_free(container);
    return o;
}

static mf_status from_text_run(mf_kernel *k)
{
    const iterator_state *s = k->state;
    const mf_string *text = k->in[0]->data;
    mf_object *o = NULL;
    char *ended;
    mf_status st;

    if (k->in[0]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "string_handle must be a scalar");
    ended = mf_strndup(text->len ? text->data : "", text->len);
    if (!ended)
        return MF_NOMEM("an iterator");
    o = find_by_text(s, k->step, ended);
    mf_free(ended);
    if (!o || o->type != &mf_seq_iterator_type)
        st = MF_FAIL(MF_INVALID_ARGUMENT,
                     "Could not parse string_handle into a valid ResourceHandle");
    else
        st = s->spec.parts.n > 0
                 ? mf_element_spec_fit(s->spec.parts, mf_seq_iterator_parts((mf_seq_iterator *)o))
                 : MF_OK;
    if (st == MF_OK)
        st = mf_kernel_set_object(k, 0, o);
    mf_object_unref(o);
    return st;
}

/* ---- the table ---- */

#define FLAGS (MF_OP_HEAP | MF_OP_UNPLANNED)
#define STATED(NAME, DEF, INFER, RUN)                                                              \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = FLAGS, .infer = INFER, .grad = mf_grad_none,            \
        .prepare = iterator_prepare, .release = iterator_release, .run = RUN                       \
    }
#define PLAIN(NAME, DEF, INFER, RUN)                                                               \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = FLAGS, .infer = INFER, .grad = mf_grad_none, .run = RUN \
    }
#define NAMED                                                                                      \
    "() -> (handle:resource) {shared_name:string, container:string, " MF_DATASET_OP_TYPES "} "     \
    "is_stateful"
#define NEXT                                                                                       \
    "(iterator:resource) -> (components:*output_types) {" MF_DATASET_OP_TYPES "} is_stateful"
#define FOUND                                                                                      \
    "(string_handle:string) -> (resource_handle:resource) {output_types:list(type)>=0=[], "        \
    "output_shapes:list(shape)>=0=[]} is_stateful"

const mf_op mf_ops_iterator[] = {
    STATED("Iterator", NAMED, mf_infer_scalar, dataset_iterator_ops_make_run),
    STATED("IteratorV2", NAMED, mf_infer_scalar, dataset_iterator_ops_make_run),
    STATED("OneShotIterator",
           "() -> (handle:resource) {dataset_factory:func, " MF_DATASET_OP_TYPES
           ", container:string='', shared_name:string=''} is_stateful",
           mf_infer_scalar, one_shot_run),
    STATED("AnonymousIterator", "() -> (handle:resource) {" MF_DATASET_OP_TYPES "} is_stateful",
           mf_infer_scalar, anonymous_run),
    STATED("AnonymousIteratorV2",
           "() -> (handle:resource, deleter:variant) {" MF_DATASET_OP_TYPES "} is_stateful",
           mf_infer_scalar, anonymous_run),
    STATED("AnonymousIteratorV3", "() -> (handle:resource) {" MF_DATASET_OP_TYPES "} is_stateful",
           mf_infer_scalar, anonymous_run),
    PLAIN("DeleteIterator", "(handle:resource, deleter:variant) -> () {} is_stateful",
          mf_infer_none, delete_run),
    PLAIN("MakeIterator", "(dataset:variant, iterator:resource) -> () {} is_stateful",
          mf_infer_none, start_run),
    PLAIN("IteratorGetNext", NEXT, next_infer, dataset_iterator_ops_next_run),
    PLAIN("IteratorGetNextSync", NEXT, next_infer, dataset_iterator_ops_next_run),
    PLAIN("IteratorToStringHandle",
          "(resource_handle:resource) -> (string_handle:string) {} is_stateful", mf_infer_scalar,
          to_text_run),
    STATED("IteratorFromStringHandle", FOUND, mf_infer_scalar, from_text_run),
    STATED("IteratorFromStringHandleV2", FOUND, mf_infer_scalar, from_text_run),
    { 0 },
};
