/* SPDX-License-Identifier: Apache-2.0 */
/* parse_example_ops.c - ops that parse tf.Example messages. They differ in the source of the keys:
 * vectors, single strings, attributes. */
#include "ops/io/parse_example.h"
#include "ops/string/tensor_text.h"

/* ---- keys ---- */

static mf_status set_key(mf_parse *p, mf_column *c, const mf_string *s)
{
    c->key = mf_arena_strndup(p->arena, mf_string_data(s), s->len);
    return c->key ? MF_OK : MF_NOMEM("a key");
}

/* All strings of a vector. */
static mf_status vector_keys(mf_parse *p, const mf_tensor *keys, int n, const char *what,
                             mf_column *out)
{
    if (keys->shape.rank != 1 || keys->count != n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Expected len(%s) == %d, got %lld", what, n,
                       (long long)keys->count);
    for (int i = 0; i < n; i++)
        MF_TRY(set_key(p, &out[i], mf_strings(keys) + i));
    return MF_OK;
}

/* One string per input, from `first` on. */
static mf_status single_keys(mf_parse *p, int first, int n, mf_column *out)
{
    for (int i = 0; i < n; i++) {
        if (p->k->in[first + i]->count != 1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "a key must be a scalar");
        MF_TRY(set_key(p, &out[i], p->k->in[first + i]->data));
    }
    return MF_OK;
}

static mf_status attr_keys(mf_parse *p, const char *name, int n, mf_column *out)
{
    const mf_attr *a = mf_node_attr(p->k->node, name);

    if ((a && a->is_list ? a->n : 0) != n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s has %lld keys, but there are %d types", name,
                       (long long)(a && a->is_list ? a->n : 0), n);
    for (int i = 0; i < n; i++) {
        out[i].key = a->strings[i].data;
    }
    return MF_OK;
}

/* ---- columns ---- */

static int64_t list_length(const mf_node *node, const char *name)
{
    const mf_attr *a = mf_node_attr(node, name);

    return a && a->is_list ? a->n : 0;
}

static mf_status make_columns(mf_parse *p, const char *types, mf_column **out, int *n)
{
    const mf_attr *a = mf_node_attr(p->k->node, types);

    *n = (int)list_length(p->k->node, types);
    *out = MF_ARENA_ARRAY(p->arena, mf_column, *n + 1);
    if (!*out)
        return MF_NOMEM("columns");
    for (int i = 0; i < *n; i++)
        (*out)[i].type = (mf_dtype)a->ints[i];
    return MF_OK;
}

/* `defaults`: index of the first default input. */
static mf_status set_dense(mf_parse *p, int defaults)
{
    const mf_attr *shapes = mf_node_attr(p->k->node, "dense_shapes");

    if (list_length(p->k->node, "dense_shapes") != p->n_dense)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%d dense types but %lld dense shapes", p->n_dense,
                       (long long)list_length(p->k->node, "dense_shapes"));
    for (int i = 0; i < p->n_dense; i++) {
        p->dense[i].shape = shapes->shapes[i];
        p->dense[i].missing = p->k->in[defaults + i];
    }
    return MF_OK;
}

static mf_status check_outputs(const mf_parse *p)
{
    const int want = 3 * p->n_sparse + p->n_dense + 2 * p->n_ragged;

    if (p->k->n_out != want)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the op has %d outputs, its columns need %d",
                       p->k->n_out, want);
    return MF_OK;
}

static mf_status parse_example_ops_begin(mf_parse *p)
{
    p->serialized = p->k->in[0];
    MF_TRY(make_columns(p, "sparse_types", &p->sparse, &p->n_sparse));
    MF_TRY(make_columns(p, "Tdense", &p->dense, &p->n_dense));
    MF_TRY(make_columns(p, "ragged_value_types", &p->ragged, &p->n_ragged));
    return check_outputs(p);
}

/* ---- the ops ---- */

static mf_status parse_v2(mf_parse *p)
{
    const mf_kernel *k = p->k;

    MF_TRY(parse_example_ops_begin(p));
    if (list_length(k->node, "ragged_split_types") != p->n_ragged)
        return MF_FAIL(MF_INVALID_ARGUMENT, "ragged columns need a type of their splits each");
    p->names = k->in[1];
    MF_TRY(vector_keys(p, k->in[2], p->n_sparse, "sparse_keys", p->sparse));
    MF_TRY(vector_keys(p, k->in[3], p->n_dense, "dense_keys", p->dense));
    MF_TRY(vector_keys(p, k->in[4], p->n_ragged, "ragged_keys", p->ragged));
    MF_TRY(set_dense(p, 5));
    return mf_parse_run(p);
}

static mf_status parse_v1(mf_parse *p)
{
    const mf_kernel *k = p->k;

    MF_TRY(parse_example_ops_begin(p));
    if (k->n_in != 2 + p->n_sparse + 2 * p->n_dense)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the op has %d inputs, its columns need %d", k->n_in,
                       2 + p->n_sparse + 2 * p->n_dense);
    p->names = k->in[1];
    MF_TRY(single_keys(p, 2, p->n_sparse, p->sparse));
    MF_TRY(single_keys(p, 2 + p->n_sparse, p->n_dense, p->dense));
    MF_TRY(set_dense(p, 2 + p->n_sparse + p->n_dense));
    if (p->serialized->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "serialized must be a vector");
    return mf_parse_run(p);
}

static mf_status parse_example_ops_parse_single(mf_parse *p)
{
    MF_TRY(parse_example_ops_begin(p));
    MF_TRY(attr_keys(p, "sparse_keys", p->n_sparse, p->sparse));
    MF_TRY(attr_keys(p, "dense_keys", p->n_dense, p->dense));
    MF_TRY(set_dense(p, 1));
    if (p->serialized->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input serialized must be a scalar");
    return mf_parse_run(p);
}

static mf_status parse_example_ops_run(mf_kernel *k, mf_status (*parse)(mf_parse *p))
{
    mf_parse p = { .k = k, .arena = mf_arena_new() };
    const mf_status st = p.arena ? parse(&p) : MF_NOMEM("examples");

    mf_arena_free(p.arena);
    return st;
}

static mf_status v2_run(mf_kernel *k)
{
    return parse_example_ops_run(k, parse_v2);
}
static mf_status v1_run(mf_kernel *k)
{
    return parse_example_ops_run(k, parse_v1);
}
static mf_status parse_example_ops_single_run(mf_kernel *k)
{
    return parse_example_ops_run(k, parse_example_ops_parse_single);
}

/* Dense columns have known shapes, except for the number of examples. */
static mf_status parse_example_ops_infer(mf_infer *in)
{
    const mf_attr *shapes = mf_node_attr(in->node, "dense_shapes");
    const int sparse = (int)list_length(in->node, "sparse_types");
    const int n = (int)list_length(in->node, "dense_shapes");
    const mf_shape *batch = &in->in[0];

    for (int i = 0; batch->rank >= 0 && batch->rank <= 1 && i < n; i++) {
        const mf_shape *one = &shapes->shapes[i];
        mf_shape *out = &in->out[3 * sparse + i];

        if (3 * sparse + i >= in->n_out || one->rank < 0 || one->rank >= MF_MAX_RANK)
            continue;
        *out = (mf_shape){ .rank = one->rank + batch->rank, .dims = { batch->dims[0] } };
        memcpy(out->dims + batch->rank, one->dims, (size_t)one->rank * sizeof(int64_t));
    }
    return MF_OK;
}

#define PARSE_OP(NAME, DEF, RUN, ...)                                                              \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = parse_example_ops_infer, .grad = mf_grad_none,          \
        .run = RUN, .samples = MF_SAMPLES(__VA_ARGS__)                                             \
    }
#define SPARSE(N)                                                                                  \
    "(sparse_indices:" N "*int64, sparse_values:*sparse_types, sparse_shapes:" N                   \
    "*int64, dense_values:*Tdense"
#define LIST(NAME) NAME ":list(type)>=0 in [float,int64,string]"
#define DENSE_SHAPES "dense_shapes:list(shape)>=0}"

const mf_op mf_ops_parse_example[] = {
    PARSE_OP(
        "ParseExampleV2",
        "(serialized:string, names:string, sparse_keys:string, dense_keys:string, "
        "ragged_keys:string, dense_defaults:*Tdense) -> " SPARSE(
            "num_sparse") ", ragged_values:*ragged_value_types, "
                          "ragged_row_splits:*ragged_split_types) "
                          "{" LIST("Tdense") ", num_sparse:int>=0, " LIST("sparse_types") ", " LIST(
                              "ragged_value_types") ", "
                                                    "ragged_split_"
                                                    "types:list(type)"
                                                    ">=0 in "
                                                    "index,"
                                                    " " DENSE_SHAPES,
        v2_run,
        "str[0] str[0] str[0] str[1]{a} str[0] f32[2]{1,2} ; num_sparse=0 sparse_types=[] "
        "ragged_value_types=[] ragged_split_types=[] dense_shapes=[shape[2]]",
        "str[2]{,} str[0] str[1]{s} str[1]{a} str[1]{r} i64[1]{7} ; num_sparse=1 "
        "sparse_types=[float] ragged_value_types=[string] ragged_split_types=[int64] "
        "dense_shapes=[shape[1]]",
        "str[1]{junkjunk} str[0] str[0] str[0] str[0] ; num_sparse=0 sparse_types=[] "
        "ragged_value_types=[] ragged_split_types=[] dense_shapes=[]"),
    PARSE_OP(
        "ParseExample",
        "(serialized:string, names:string, sparse_keys:Nsparse*string, "
        "dense_keys:Ndense*string, dense_defaults:*Tdense) -> " SPARSE(
            "Nsparse") ") {Nsparse:int>=0, Ndense:int>=0, " LIST("sparse_types") ", " LIST("Tde"
                                                                                           "ns"
                                                                                           "e") ","
                                                                                                " " DENSE_SHAPES,
        v1_run,
        "str[2]{,} str[0] str[]{s} str[]{d} f32[]{3} ; Nsparse=1 Ndense=1 "
        "sparse_types=[int64] dense_shapes=[shape[]]"),
    PARSE_OP("ParseSingleExample",
             "(serialized:string, dense_defaults:*Tdense) -> " SPARSE(
                 "num_sparse") ") {num_sparse:int>=0, sparse_keys:list(string)>=0, "
                               "dense_keys:list(string)>=0, " LIST("sparse_types") ", " LIST(
                                   "Tdens"
                                   "e") ","
                                        " " DENSE_SHAPES,
             parse_example_ops_single_run,
             "str[]{} f32[]{3} ; num_sparse=1 sparse_keys=['s'] dense_keys=['d'] "
             "sparse_types=[string] dense_shapes=[shape[]]"),
    { 0 },
};
