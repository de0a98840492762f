/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_op_join.c - concatenates datasets, or zips them. */
#include "ops/dataset/dataset_op.h"

/* ---- Concatenate ---- */

typedef struct chained {
    mf_cursor cursor;
    int at; /* index of the input; n_inputs: all have ended */
} chained;

static mf_status chain_check(mf_dataset_op *d)
{
    for (int i = 0; i < d->n_args; i++) {
        mf_dataset_op *input;

        MF_TRY(mf_dataset_op_of(&d->args[i], &input));
        MF_TRY(mf_dataset_op_same_parts(d, input));
    }
    return MF_OK;
}

static mf_status chain_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    chained *k = (chained *)c;

    for (; k->at < c->set->n_args; k->at++) {
        if (!c->input)
            MF_TRY(mf_cursor_begin(w, mf_dataset_op_arg(c->set, k->at), c, &c->input));
        MF_TRY(mf_cursor_next(c->input, w, row, end));
        if (!*end)
            return MF_OK;
        mf_cursor_end(c->input);
        c->input = NULL;
    }
    *end = true;
    return MF_OK;
}

static int64_t chain_size(const mf_dataset_op *d)
{
    const int64_t a = mf_dataset_op_size(mf_dataset_op_arg(d, 0));
    const int64_t b = mf_dataset_op_size(mf_dataset_op_arg(d, 1));
    int64_t sum;

    if (a == MF_SIZE_INFINITE || b == MF_SIZE_INFINITE)
        return MF_SIZE_INFINITE;
    if (a < 0 || b < 0)
        return MF_SIZE_UNKNOWN;
    return mf_add_i64(a, b, &sum) ? sum : INT64_MAX;
}

static const mf_dataset_op_kind chain = { .name = "Concatenate",
                                          .cursor_bytes = sizeof(chained),
                                          .check = chain_check,
                                          .next = chain_next,
                                          .size = chain_size };
MF_DATASET_OP_KERNEL(chain)

/* ---- Zip: an element of each, until one ends ---- */

typedef struct zipped {
    mf_cursor cursor;
    mf_cursor **inputs;
} zipped;

static mf_status zip_check(mf_dataset_op *d)
{
    int at = 0;

    for (int i = 0; i < d->n_args; i++) {
        mf_dataset_op *input;

        MF_TRY(mf_dataset_op_of(&d->args[i], &input));
        for (int k = 0; k < input->n_parts; k++, at++) {
            if (at >= d->n_parts || d->types[at] != input->types[k])
                return MF_FAIL(MF_INVALID_ARGUMENT,
                               "output_types has %d components, but component %d of the inputs "
                               "is %s",
                               d->n_parts, at, mf_dtype_name(input->types[k]));
        }
    }
    if (at != d->n_parts)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "output_types has %d components, but the inputs have "
                       "%d",
                       d->n_parts, at);
    return MF_OK;
}

static mf_status zip_begin(mf_cursor *c, mf_walk *w)
{
    zipped *z = (zipped *)c;

    z->inputs = mf_calloc(c->set->n_args, sizeof *z->inputs);
    if (!z->inputs)
        return MF_NOMEM("an iterator");
    for (int i = 0; i < c->set->n_args; i++)
        MF_TRY(mf_cursor_begin(w, mf_dataset_op_arg(c->set, i), c, &z->inputs[i]));
    return MF_OK;
}

static void zip_end(mf_cursor *c)
{
    zipped *z = (zipped *)c;

    for (int i = 0; z->inputs && i < c->set->n_args; i++)
        mf_cursor_end(z->inputs[i]);
    mf_free(z->inputs);
    z->inputs = NULL;
}

static mf_status zip_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    zipped *z = (zipped *)c;

    *end = !z->inputs;
    for (int i = 0; !*end && i < c->set->n_args; i++) {
        MF_TRY(mf_cursor_next(z->inputs[i], w, row, end));
        row += z->inputs[i]->set->n_parts;
    }
    if (*end)
        zip_end(c);
    return MF_OK;
}

static int64_t zip_size(const mf_dataset_op *d)
{
    int64_t least = MF_SIZE_INFINITE;

    for (int i = 0; i < d->n_args; i++) {
        const int64_t n = mf_dataset_op_size(mf_dataset_op_arg(d, i));

        if (n == MF_SIZE_UNKNOWN)
            return MF_SIZE_UNKNOWN;
        if (n >= 0 && (least < 0 || n < least))
            least = n;
    }
    return least;
}

static const mf_dataset_op_kind zip = { .name = "Zip",
                                        .cursor_bytes = sizeof(zipped),
                                        .check = zip_check,
                                        .begin = zip_begin,
                                        .next = zip_next,
                                        .end = zip_end,
                                        .size = zip_size };
MF_DATASET_OP_KERNEL(zip)

const mf_op mf_ops_dataset_join[] = {
    MF_DATASET_OP_OP("ConcatenateDataset",
                     "(input_dataset:variant, another_dataset:variant" MF_DATASET_OP_OUT
                         MF_DATASET_OP_TYPES MF_DATASET_OP_META,
                     chain),
    MF_DATASET_OP_OP("ZipDataset",
                     "(input_datasets:N*variant" MF_DATASET_OP_OUT MF_DATASET_OP_TYPES
                     ", N:int>=1" MF_DATASET_OP_META,
                     zip),
    { 0 },
};
