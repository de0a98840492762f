/* SPDX-License-Identifier: Apache-2.0 */
/* lookup_ops.c - ops on tables, with handles on resource edges, or on references (older ops). */
#include "ops/state/handle.h"
#include "ops/state/lookup.h"

#include <string.h>

/* ---- making ---- */

typedef struct table_state {
    mf_handle handle; /* first */
    mf_table_spec spec;
    bool anonymous;
} table_state;

static mf_status table_prepare(mf_prepare *p)
{
    const char *op = p->node->op_name;
    table_state *s = MF_ARENA_NEW(p->arena, table_state);

    p->state = NULL;
    if (!s)
        return MF_NOMEM("a table");
    s->anonymous = strncmp(op, "Anonymous", 9) == 0;
    s->spec = (mf_table_spec){ .kind = strstr(op, "Dense")     ? MF_TABLE_DENSE
                                       : strstr(op, "Mutable") ? MF_TABLE_MUTABLE
                                                               : MF_TABLE_STATIC,
                               .key = mf_node_type(p->node, "key_dtype"),
                               .value = mf_node_type(p->node, "value_dtype") };
    if (mf_node_attr(p->node, "value_shape"))
        s->spec.shape = *mf_node_shape(p->node, "value_shape");
    if (!mf_shape_is_static(&s->spec.shape))
        return MF_FAIL(MF_INVALID_ARGUMENT, "value_shape must be fully known");
    MF_TRY(mf_handle_init(&s->handle, p, !mf_node_bool(p->node, "use_node_name_sharing")));
    p->state = s;
    return MF_OK;
}

static void table_release(void *state)
{
    if (state)
        mf_handle_deinit(&((table_state *)state)->handle);
}

static mf_status read_special_keys(const mf_kernel *k, mf_table_spec *spec)
{
    for (int i = 0; i < k->n_in; i++) {
        if (k->in[i]->shape.rank != 0)
            return MF_FAIL(MF_UNIMPLEMENTED, "keys of a dense table must be scalars");
    }
    spec->empty = k->n_in > 0 ? k->in[0] : NULL;
    spec->deleted = k->n_in > 1 ? k->in[1] : NULL;
    return MF_OK;
}

static mf_status put_anonymous(mf_kernel *k, mf_table_spec *spec)
{
    mf_object *o;
    mf_status st;

    MF_TRY(mf_table_make(spec, &o));
    st = mf_kernel_set_object(k, 0, o);
    mf_object_unref(o);
    return st;
}

static mf_status lookup_ops_make_run(mf_kernel *k)
{
    table_state *s = k->state;
    mf_table_spec spec = s->spec;
    const mf_table *t;

    MF_TRY(read_special_keys(k, &spec));
    if (s->anonymous)
        return put_anonymous(k, &spec);
    MF_TRY(mf_handle_run(&s->handle, k, &mf_table_type, mf_table_make, &spec));
    t = (const mf_table *)mf_handle_object(k->out[0]);
    if (t->key != spec.key || t->value != spec.value)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Conflicting key/value dtypes %s->%s with %s-%s for table %s",
                       mf_dtype_name(spec.key), mf_dtype_name(spec.value), mf_dtype_name(t->key),
                       mf_dtype_name(t->value), s->handle.name);
    return MF_OK;
}

/* ---- using ---- */

static mf_status input_table(const mf_kernel *k, mf_table **t)
{
    mf_object *o = NULL;
    const mf_status st = mf_kernel_object(k, 0, &mf_table_type, &o);

    *t = (mf_table *)o;
    return st;
}

static mf_status initialize_run(mf_kernel *k)
{
    mf_table *t;

    MF_TRY(input_table(k, &t));
    return mf_table_initialize(t, k->in[1], k->in[2]);
}

static mf_status lookup_ops_insert_run(mf_kernel *k)
{
    mf_table *t;

    MF_TRY(input_table(k, &t));
    return mf_table_insert(t, k->in[1], k->in[2], false);
}

static mf_status import_run(mf_kernel *k)
{
    mf_table *t;

    MF_TRY(input_table(k, &t));
    if (t->kind == MF_TABLE_STATIC) /* clients use this to initialize from tensors */
        return mf_table_initialize(t, k->in[1], k->in[2]);
    return mf_table_insert(t, k->in[1], k->in[2], true);
}

static mf_status remove_run(mf_kernel *k)
{
    mf_table *t;

    MF_TRY(input_table(k, &t));
    return mf_table_remove(t, k->in[1]);
}

static mf_status lookup_ops_find_run(mf_kernel *k)
{
    mf_table *t;

    MF_TRY(input_table(k, &t));
    if (k->node->out_types[0] != t->value)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Value must be type %s but got %s",
                       mf_dtype_name(t->value), mf_dtype_name(k->node->out_types[0]));
    return mf_table_find(t, k->in[1], k->in[2], k->out[0]);
}

static mf_status lookup_ops_size_run(mf_kernel *k)
{
    mf_table *t;
    mf_tensor *out;

    MF_TRY(input_table(k, &t));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    *(int64_t *)out->data = mf_table_size(t);
    return MF_OK;
}

/* The n entries of the table as two tensors. The caller holds the lock. */
static mf_status put_entries(mf_kernel *k, const mf_table *t)
{
    const mf_entries *e = &t->entries;
    mf_shape shape = { .rank = t->shape.rank + 1, .dims = { e->n } };

    memcpy(shape.dims + 1, t->shape.dims, (size_t)t->shape.rank * sizeof(int64_t));
    mf_tensor_clear(k->out[0]);
    mf_tensor_clear(k->out[1]);
    MF_TRY(mf_tensor_alloc(k->out[0], t->key, &MF_SHAPE(e->n)));
    MF_TRY(mf_tensor_alloc(k->out[1], t->value, &shape));
    if (e->n == 0)
        return MF_OK;
    MF_TRY(mf_cells_copy(t->key, k->out[0]->data, 0, e->keys.data, 0, e->n));
    return mf_cells_copy(t->value, k->out[1]->data, 0, e->values.data, 0, e->n * t->width);
}

static mf_status export_run(mf_kernel *k)
{
    mf_table *t;
    mf_status st;

    MF_TRY(input_table(k, &t));
    if (k->node->out_types[0] != t->key || k->node->out_types[1] != t->value)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the table leads from %s to %s", mf_dtype_name(t->key),
                       mf_dtype_name(t->value));
    pthread_mutex_lock(&t->lock);
    st = put_entries(k, t);
    pthread_mutex_unlock(&t->lock);
    return st;
}

/* ---- the table of ops ---- */

#define FLAGS (MF_OP_HEAP | MF_OP_UNPLANNED)
#define MAKER(NAME, DEF)                                                                           \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = FLAGS, .infer = mf_infer_scalar, .grad = mf_grad_none,  \
        .prepare = table_prepare, .release = table_release, .run = lookup_ops_make_run             \
    }
#define USER(NAME, DEF, INFER, RUN)                                                                \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = FLAGS, .infer = INFER, .grad = mf_grad_none, .run = RUN \
    }
#define BOTH(NAME, REST, INFER, RUN)                                                               \
    USER(NAME "V2", "(table_handle:resource" REST " is_stateful", INFER, RUN),                     \
        USER(NAME, "(table_handle:ref string" REST, INFER, RUN)

#define TYPES "key_dtype:type, value_dtype:type"
#define NAMED "container:string='', shared_name:string='', use_node_name_sharing:bool=false, " TYPES
#define SHAPE ", value_shape:shape=shape[]"
#define DENSE SHAPE ", initial_num_buckets:int=131072, max_load_factor:float=0.800000012"
#define MAKERS(NAME, ATTRS)                                                                        \
    MAKER(NAME "V2", "() -> (table_handle:resource) {" NAMED ATTRS "} is_stateful"),               \
        MAKER(NAME, "() -> (table_handle:ref string) {" NAMED ATTRS "} is_stateful"),              \
        MAKER("Anonymous" NAME, "() -> (table_handle:resource) {" TYPES ATTRS "} is_stateful")
#define PAIRS(K, V) ", keys:" K ", values:" V ") -> () {" K ":type, " V ":type}"

const mf_op mf_ops_lookup[] = {
    MAKERS("HashTable", ""),
    MAKERS("MutableHashTable", ""),
    MAKERS("MutableHashTableOfTensors", SHAPE),
    MAKER("MutableDenseHashTableV2",
          "(empty_key:key_dtype, deleted_key:key_dtype) -> (table_handle:resource) {" NAMED DENSE
          "} is_stateful"),
    MAKER("MutableDenseHashTable",
          "(empty_key:key_dtype) -> (table_handle:ref string) {" NAMED DENSE "} is_stateful"),
    MAKER("AnonymousMutableDenseHashTable",
          "(empty_key:key_dtype, deleted_key:key_dtype) -> (table_handle:resource) {" TYPES DENSE
          "} is_stateful"),
    BOTH("InitializeTable", PAIRS("Tkey", "Tval"), mf_infer_none, initialize_run),
    BOTH("LookupTableFind",
         ", keys:Tin, default_value:Tout) -> (values:Tout) {Tin:type, Tout:type}", mf_infer_unknown,
         lookup_ops_find_run),
    BOTH("LookupTableInsert", PAIRS("Tin", "Tout"), mf_infer_none, lookup_ops_insert_run),
    BOTH("LookupTableImport", PAIRS("Tin", "Tout"), mf_infer_none, import_run),
    BOTH("LookupTableSize", ") -> (size:int64) {}", mf_infer_scalar, lookup_ops_size_run),
    BOTH("LookupTableExport", ") -> (keys:Tkeys, values:Tvalues) {Tkeys:type, Tvalues:type}",
         mf_infer_unknown, export_run),
    USER("LookupTableRemoveV2", "(table_handle:resource, keys:Tin) -> () {Tin:type} is_stateful",
         mf_infer_none, remove_run),
    { 0 },
};
