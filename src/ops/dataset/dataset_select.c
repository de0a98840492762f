/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_select.c - datasets that skip elements, or repeat their input. */
#include "ops/dataset/dataset_op.h"

typedef struct dataset_select_counting {
    mf_cursor cursor;
    int64_t at;
} dataset_select_counting;

/* ---- Take: the first ones; a negative number takes all ---- */

static mf_status take_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_select_counting *k = (dataset_select_counting *)c;
    const int64_t count = mf_dataset_op_int(c->set, 1);

    *end = count >= 0 && k->at >= count;
    if (*end)
        return MF_OK;
    MF_TRY(mf_cursor_next(c->input, w, row, end));
    k->at++;
    return MF_OK;
}

static int64_t dataset_select_take_size(const mf_dataset_op *d)
{
    const int64_t n = mf_dataset_op_input_size(d), count = mf_dataset_op_int(d, 1);

    if (n == MF_SIZE_UNKNOWN || count < 0)
        return n;
    return n == MF_SIZE_INFINITE || count < n ? count : n;
}

static const mf_dataset_op_kind take = { .name = "Take",
                                         .cursor_bytes = sizeof(dataset_select_counting),
                                         .like_input = true,
                                         .on_input = true,
                                         .next = take_next,
                                         .size = dataset_select_take_size };
MF_DATASET_OP_KERNEL(take)

/* ---- Skip: without the first ones; a negative number skips all ---- */

static mf_status skip_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_select_counting *k = (dataset_select_counting *)c;
    const int64_t count = mf_dataset_op_int(c->set, 1);

    *end = count < 0;
    for (; !*end && k->at < count; k->at++) {
        MF_TRY(mf_cursor_next(c->input, w, row, end));
        mf_row_clear(row, c->set->n_parts);
    }
    return *end ? MF_OK : mf_cursor_next(c->input, w, row, end);
}

static int64_t skip_size(const mf_dataset_op *d)
{
    const int64_t n = mf_dataset_op_input_size(d), count = mf_dataset_op_int(d, 1);

    if (count < 0)
        return 0;
    return n < 0 ? n : n > count ? n - count : 0;
}

static const mf_dataset_op_kind skip = { .name = "Skip",
                                         .cursor_bytes = sizeof(dataset_select_counting),
                                         .like_input = true,
                                         .on_input = true,
                                         .next = skip_next,
                                         .size = skip_size };
MF_DATASET_OP_KERNEL(skip)

/* ---- Shard: every n-th ---- */

static mf_status shard_check(mf_dataset_op *d)
{
    const int64_t n = mf_dataset_op_int(d, 1), index = mf_dataset_op_int(d, 2);

    if (n <= 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Number of shards must be greater than zero (currently num_shards = %lld).",
                       (long long)n);
    if (index < 0 || index >= n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Index must be between 0 and %lld (currently index = %lld).",
                       (long long)n - 1, (long long)index);
    return MF_OK;
}

static mf_status shard_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_select_counting *k = (dataset_select_counting *)c;
    const int64_t n = mf_dataset_op_int(c->set, 1), index = mf_dataset_op_int(c->set, 2);

    for (;;) {
        MF_TRY(mf_cursor_next(c->input, w, row, end));
        if (*end)
            break;
        if (k->at++ % n == index)
            return MF_OK;
        mf_row_clear(row, c->set->n_parts);
    }
    if (c->set->option && k->at < n)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "Could not apply FILE based sharding: the dataset only has %lld elements for "
            "%lld shards.",
            (long long)k->at, (long long)n);
    return MF_OK;
}

static int64_t shard_size(const mf_dataset_op *d)
{
    const int64_t n = mf_dataset_op_input_size(d), shards = mf_dataset_op_int(d, 1);

    return n < 0 ? n : n / shards + (mf_dataset_op_int(d, 2) < n % shards);
}

static const mf_dataset_op_kind shard = { .name = "Shard",
                                          .cursor_bytes = sizeof(dataset_select_counting),
                                          .like_input = true,
                                          .on_input = true,
                                          .option = "require_non_empty",
                                          .check = shard_check,
                                          .next = shard_next,
                                          .size = shard_size };
MF_DATASET_OP_KERNEL(shard)

/* ---- Repeat: again from the beginning; a negative number never ends ---- */

typedef struct repeating {
    mf_cursor cursor;
    int64_t round;
    bool some; /* this pass has had an element */
} repeating;

static mf_status repeat_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    repeating *r = (repeating *)c;
    const int64_t count = mf_dataset_op_int(c->set, 1);

    for (;;) {
        *end = count >= 0 && r->round >= count;
        if (*end)
            return MF_OK;
        if (!c->input)
            MF_TRY(mf_cursor_begin(w, mf_dataset_op_arg(c->set, 0), c, &c->input));
        MF_TRY(mf_cursor_next(c->input, w, row, end));
        if (!*end) {
            r->some = true;
            return MF_OK;
        }
        if (count < 0 && !r->some) /* repeating an empty input forever would never return */
            return MF_OK;
        mf_cursor_end(c->input);
        c->input = NULL;
        r->some = false;
        r->round++;
    }
}

static mf_status repeat_check(mf_dataset_op *d)
{
    mf_dataset_op *input;

    MF_TRY(mf_dataset_op_of(&d->args[0], &input));
    return mf_dataset_op_same_parts(d, input);
}

static int64_t repeat_size(const mf_dataset_op *d)
{
    const int64_t n = mf_dataset_op_input_size(d), count = mf_dataset_op_int(d, 1);
    int64_t all;

    if (count < 0)
        return n == 0 ? 0 : MF_SIZE_INFINITE;
    if (count == 0)
        return 0;
    return n < 0 ? n : mf_mul_i64(n, count, &all) ? all : INT64_MAX;
}

static const mf_dataset_op_kind repeat = { .name = "Repeat",
                                           .cursor_bytes = sizeof(repeating),
                                           .check = repeat_check,
                                           .next = repeat_next,
                                           .size = repeat_size };
MF_DATASET_OP_KERNEL(repeat)

#define COUNTED(NAME, KIND)                                                                        \
    MF_DATASET_OP_OP(NAME,                                                                         \
                     "(input_dataset:variant, count:int64" MF_DATASET_OP_OUT MF_DATASET_OP_TYPES   \
                         MF_DATASET_OP_META,                                                       \
                     KIND)

const mf_op mf_ops_dataset_select[] = {
    COUNTED("TakeDataset", take),
    COUNTED("SkipDataset", skip),
    COUNTED("RepeatDataset", repeat),
    MF_DATASET_OP_OP("ShardDataset",
                     "(input_dataset:variant, num_shards:int64, index:int64" MF_DATASET_OP_OUT
                     "require_non_empty:bool=false, " MF_DATASET_OP_TYPES MF_DATASET_OP_META,
                     shard),
    { 0 },
};
