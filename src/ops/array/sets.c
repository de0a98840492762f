/* SPDX-License-Identifier: Apache-2.0 */
/* sets.c - the last dimension of a dense or sparse tensor as sets: sizes, differences,
 * intersections and unions. A result has each value once, in ascending order. */
#include "ops/sparse/sparse_util.h"

#include <stdlib.h>
#include <string.h>

/* ---- elements by group and value ---- */

typedef struct element {
    const mf_tensor *values;
    int64_t group, at; /* group: index of the set, over all dimensions but the last */
} element;

typedef struct sets {
    mf_shape groups; /* all dimensions but the last */
    mf_tensor memory; /* of all elements; from the pool, because clients determine the size */
    element *all; /* sorted, without duplicates within a group */
    int64_t n;
} sets;

static int compare_values(const element *a, const element *b)
{
    if (a->values->dtype == MF_DTYPE_STRING) {
        const mf_string *x = (const mf_string *)a->values->data + a->at;
        const mf_string *y = (const mf_string *)b->values->data + b->at;
        const size_t n = x->len < y->len ? x->len : y->len;
        const int order = n > 0 ? memcmp(x->data, y->data, n) : 0;

        return order != 0 ? order : x->len < y->len ? -1 : x->len > y->len;
    } else {
        const int64_t x = mf_tensor_int_at(a->values, a->at),
                      y = mf_tensor_int_at(b->values, b->at);

        return x < y ? -1 : x > y;
    }
}

static int sets_compare(const void *a, const void *b)
{
    const element *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return compare_values(x, y);
}

static mf_status sets_init(sets *s, const int64_t *dims, int rank, int64_t n)
{
    int64_t words, count;

    if (rank < 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Shape rank %d < 2: the last dimension has the sets",
                       rank);
    s->groups = (mf_shape){ .rank = rank - 1 };
    memcpy(s->groups.dims, dims, (size_t)(rank - 1) * sizeof *dims);
    MF_TRY(mf_shape_count(&s->groups, &count));
    if (!mf_mul_i64(n, (int64_t)(sizeof(element) / sizeof(int64_t)), &words))
        return MF_NOMEM("sets");
    MF_TRY(mf_tensor_alloc(&s->memory, MF_DTYPE_I64, &MF_SHAPE(words)));
    s->all = s->memory.data;
    s->n = n;
    return MF_OK;
}

static void sets_sort(sets *s)
{
    int64_t n = 0;

    if (s->n > 0)
        qsort(s->all, (size_t)s->n, sizeof *s->all, sets_compare);
    for (int64_t i = 0; i < s->n; i++) {
        if (n == 0 || sets_compare(&s->all[n - 1], &s->all[i]) != 0)
            s->all[n++] = s->all[i];
    }
    s->n = n;
}

static mf_status sets_read_dense(const mf_tensor *t, sets *s)
{
    MF_TRY(sets_init(s, t->shape.dims, t->shape.rank, t->count));
    for (int64_t i = 0; i < t->count; i++)
        s->all[i] = (element){ t, i / t->shape.dims[t->shape.rank - 1], i };
    sets_sort(s);
    return MF_OK;
}

static mf_status sets_check_order(const mf_sparse *s)
{
    for (int64_t i = 1; i < s->n; i++) {
        const int order = mf_sparse_compare(s, i - 1, s, i);

        if (order >= 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "indices[%lld] is %s", (long long)i,
                           order > 0 ? "out of order" : "repeated");
    }
    return MF_OK;
}

static mf_status read_sparse(const mf_kernel *k, int first, sets *s)
{
    mf_sparse in;

    MF_TRY(mf_sparse_read(k, first, &in));
    MF_TRY(mf_sparse_check_bounds(&in));
    if (mf_node_bool(k->node, "validate_indices"))
        MF_TRY(sets_check_order(&in));
    MF_TRY(sets_init(s, in.size, in.rank, in.n));
    for (int64_t i = 0; i < in.n; i++) {
        int64_t group = 0;

        for (int d = 0; d < in.rank - 1; d++)
            group = group * in.size[d] + mf_sparse_at(&in, i, d);
        s->all[i] = (element){ in.values, group, i };
    }
    sets_sort(s);
    return MF_OK;
}

/* ---- two sets become one ---- */

typedef struct sets_merge {
    const sets *a, *b;
    int64_t i, j;
    bool only_a, only_b, both; /* the elements that the result keeps */
} sets_merge;

static mf_status merge_init(const mf_kernel *k, const sets *a, const sets *b, sets_merge *m)
{
    const char *name = mf_node_string(k->node, "set_operation");
    char x[MF_SHAPE_TEXT], y[MF_SHAPE_TEXT];

    *m = (sets_merge){ .a = a, .b = b };
    m->only_a = strcmp(name, "a-b") == 0 || strcmp(name, "union") == 0;
    m->only_b = strcmp(name, "b-a") == 0 || strcmp(name, "union") == 0;
    m->both = strcmp(name, "intersection") == 0 || strcmp(name, "union") == 0;
    if (!m->only_a && !m->only_b && !m->both)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Invalid set_operation %.60s: it is a-b, b-a, intersection or union", name);
    if (!mf_shape_equal(&a->groups, &b->groups))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Mismatched group shapes %s and %s",
                       mf_shape_text(&a->groups, x), mf_shape_text(&b->groups, y));
    return MF_OK;
}

/* The next element of the result; NULL: end. */
static const element *sets_next(sets_merge *m)
{
    while (m->i < m->a->n || m->j < m->b->n) {
        const element *a = m->i < m->a->n ? &m->a->all[m->i] : NULL;
        const element *b = m->j < m->b->n ? &m->b->all[m->j] : NULL;
        const int order = !a ? 1 : !b ? -1 : sets_compare(a, b);

        m->i += order <= 0;
        m->j += order >= 0;
        if (order < 0 ? m->only_a : order > 0 ? m->only_b : m->both)
            return a && order <= 0 ? a : b;
    }
    return NULL;
}

/* Number of elements, and size of the largest set. */
static void sets_measure(sets_merge m, int64_t *n, int64_t *largest)
{
    int64_t group = -1, size = 0;
    const element *e;

    *n = *largest = 0;
    while ((e = sets_next(&m)) != NULL) {
        size = e->group == group ? size + 1 : 1;
        group = e->group;
        *largest = size > *largest ? size : *largest;
        (*n)++;
    }
}

static void sets_put_index(const mf_shape *groups, int64_t group, int64_t place, int64_t *out)
{
    for (int d = groups->rank - 1; d >= 0; d--) {
        out[d] = group % groups->dims[d];
        group /= groups->dims[d];
    }
    out[groups->rank] = place;
}

static mf_status write_merged(mf_kernel *k, sets_merge m)
{
    const mf_shape *groups = &m.a->groups;
    const int rank = groups->rank + 1;
    int64_t n, largest, group = -1, place = 0;
    mf_tensor *index, *values, *shape;
    const element *e;

    sets_measure(m, &n, &largest);
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(n, rank), &index));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(n), &values));
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(rank), &shape));
    memcpy(shape->data, groups->dims, (size_t)groups->rank * sizeof(int64_t));
    ((int64_t *)shape->data)[groups->rank] = largest;
    mf_cells_zero(values->dtype, values->data, 0, n);
    for (int64_t i = 0; (e = sets_next(&m)) != NULL; i++) {
        const size_t cell = mf_dtype_cell(values->dtype);

        place = e->group == group ? place + 1 : 0;
        group = e->group;
        sets_put_index(groups, group, place, (int64_t *)index->data + i * rank);
        MF_TRY(mf_cells_fill(values->dtype, values->data, i, 1,
                             (const char *)e->values->data + (size_t)e->at * cell));
    }
    return MF_OK;
}

/* ---- the ops ---- */

/* Two inputs: both dense; four: the second is sparse; six: both are. */
static mf_status operation_run(mf_kernel *k)
{
    sets a = { 0 }, b = { 0 };
    sets_merge m;
    mf_status st = k->n_in < 6 ? sets_read_dense(k->in[0], &a) : read_sparse(k, 0, &a);

    if (st == MF_OK)
        st = k->n_in == 2 ? sets_read_dense(k->in[1], &b) : read_sparse(k, k->n_in - 3, &b);
    if (st == MF_OK)
        st = merge_init(k, &a, &b, &m);
    if (st == MF_OK)
        st = write_merged(k, m);
    mf_tensor_clear(&a.memory);
    mf_tensor_clear(&b.memory);
    return st;
}

static mf_status operation_infer(mf_infer *in)
{
    const int rank = in->n_in < 6 ? in->in[0].rank : -1;

    if (in->n_in < 6)
        MF_TRY(mf_infer_rank_at_least(in, 0, 2));
    if (in->n_in == 2)
        MF_TRY(mf_infer_rank_at_least(in, 1, 2));
    else
        MF_TRY(mf_sparse_infer(in, in->n_in - 3));
    if (in->n_in == 6)
        MF_TRY(mf_sparse_infer(in, 0));
    in->out[0] = MF_SHAPE(-1, rank);
    in->out[1] = MF_SHAPE(-1);
    in->out[2] = MF_SHAPE(rank);
    return MF_OK;
}

static mf_status sets_size_run(mf_kernel *k)
{
    sets s = { 0 };
    mf_tensor *out;
    mf_status st = read_sparse(k, 0, &s);

    if (st == MF_OK)
        st = mf_kernel_out(k, 0, &s.groups, &out);
    if (st == MF_OK) {
        mf_cells_zero(out->dtype, out->data, 0, out->count);
        for (int64_t i = 0; i < s.n; i++)
            ((int32_t *)out->data)[s.all[i].group]++;
    }
    mf_tensor_clear(&s.memory);
    return st;
}

static mf_status sets_size_infer(mf_infer *in)
{
    return mf_sparse_infer(in, 0);
}

#define VALUES "T:type in [int8,int16,int32,int64,uint8,uint16,string]}"
#define RESULT                                                                                     \
    "(result_indices:int64, result_values:T, result_shape:int64) {set_operation:string, "          \
    "validate_indices:bool=true, " VALUES
#define SPARSE(N) "set" N "_indices:int64, set" N "_values:T, set" N "_shape:int64"
#define ONE "i64[4,2]{0,0,0,1,1,0,1,2} "
#define TWO "i64[3,2]{0,1,0,2,1,0} "
#define SHAPE " i64[2]{2,3} "
#define OPERATION(NAME, IN, ...)                                                                   \
    {                                                                                              \
        .name = NAME, .def = "(" IN ") -> " RESULT, .infer = operation_infer,                      \
        .grad = mf_grad_none, .run = operation_run, .samples = MF_SAMPLES(__VA_ARGS__)             \
    }

const mf_op mf_ops_sets[] = {
    { .name = "SetSize",
      .def = "(set_indices:int64, set_values:T, set_shape:int64) -> (size:int32) "
             "{validate_indices:bool=true, " VALUES,
      .infer = sets_size_infer,
      .grad = mf_grad_none,
      .run = sets_size_run,
      .samples = MF_SAMPLES(ONE "i32[4]{5,5,1,2}" SHAPE, ONE "str[4]{a,b,a,c}" SHAPE,
                            "i64[0,2] i64[0] i64[2]{3,4}") },
    OPERATION("DenseToDenseSetOperation", "set1:T, set2:T",
              "i32[2,3]{1,2,2,9,1,0} i32[2,2]{2,5,0,0} ; set_operation='a-b'",
              "i64[2,3]{1,2,2,9,1,0} i64[2,2]{2,5,0,0} ; set_operation='b-a'",
              "u8[2,3]{1,2,2,9,1,0} u8[2,2]{2,5,0,0} ; set_operation='intersection'",
              "i16[1,2,3]{1,2,2,9,1,0} i16[1,2,2]{2,5,0,0} ; set_operation='union'",
              "str[2,3]{a,b,b,c,a,a} str[2,2]{b,x,a,a} ; set_operation='union'",
              "i32[0,3] i32[0,2] ; set_operation='union'",
              "i32[2,3] i32[3,2] ; set_operation='union' !fails"),
    OPERATION("DenseToSparseSetOperation", "set1:T, " SPARSE("2"),
              "i32[2,3]{1,2,2,9,1,0} " ONE "i32[4]{5,2,1,2}" SHAPE "; set_operation='a-b'",
              "i32[2,3]{1,2,2,9,1,0} " ONE "i32[4]{5,2,1,2}" SHAPE "; set_operation='union'"),
    OPERATION("SparseToSparseSetOperation", SPARSE("1") ", " SPARSE("2"),
              ONE "i32[4]{5,2,1,2}" SHAPE TWO "i32[3]{2,7,1}" SHAPE
                  "; set_operation='intersection'",
              ONE "i8[4]{5,2,1,2}" SHAPE TWO "i8[3]{2,7,1}" SHAPE "; set_operation='union'",
              ONE "str[4]{a,b,a,c}" SHAPE TWO "str[3]{b,x,a}" SHAPE "; set_operation='b-a'"),
    { 0 },
};
