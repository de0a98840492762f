/* SPDX-License-Identifier: Apache-2.0 */
/* iterator.c - batches: each sample once, the same for any number of threads, and from any
 * position. */
#include "base/mem.h"
#include "data/dataset.h"
#include "data/sample_subset.h"
#include "mf_test.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 103 };

/* Column x is [2] floats (i, -i), label is i % 7. */
static mf_dataset *numbers(int64_t n)
{
    static const char *const names[] = { "x", "label" };
    mf_tensor *x, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ n, 2 }, 2, &x));
    T_OK(mf_tensor_new(MF_DTYPE_I32, &n, 1, &label));
    for (int64_t i = 0; i < n; i++) {
        ((float *)x->data)[2 * i] = (float)i;
        ((float *)x->data)[2 * i + 1] = (float)-i;
        ((int32_t *)label->data)[i] = (int32_t)(i % 7);
    }
    T_OK(mf_dataset_of(names, (const mf_tensor *const[]){ x, label }, 2, &set));
    mf_tensor_free(x);
    mf_tensor_free(label);
    return set;
}

/* The ids of the next `want` samples, with their columns checked. */
static void collect(mf_iterator *it, int64_t *ids, int64_t want)
{
    for (int64_t have = 0; have < want;) {
        const mf_batch *b;

        T_OK(mf_iterator_next(it, &b));
        T_EQ(b->n_columns, 2);
        T_EQ(mf_tensor_dim(b->columns[0], 0), b->n);
        T_EQ(mf_tensor_count(b->columns[0]), 2 * b->n);
        for (int64_t i = 0; i < b->n && have < want; i++, have++) {
            const float *x = (const float *)mf_tensor_data(b->columns[0]) + 2 * i;

            ids[have] = b->ids[i];
            T_EQ_F(x[0], b->ids[i]);
            T_EQ_F(x[1], -b->ids[i]);
            T_EQ(((const int32_t *)mf_tensor_data(b->columns[1]))[i], b->ids[i] % 7);
        }
    }
}

static void expect_each_once(const int64_t *ids, int64_t n)
{
    char *seen = calloc((size_t)n, 1);

    for (int64_t i = 0; i < n; i++) {
        T_TRUE(ids[i] >= 0 && ids[i] < n);
        T_EQ(seen[ids[i]]++, 0);
    }
    free(seen);
}

MF_TEST(data_every_sample_is_read_once_per_epoch_in_a_new_order)
{
    mf_dataset *set = numbers(SAMPLES);
    mf_iterator *it;
    int64_t ids[3 * SAMPLES];

    T_OK(mf_iterator_new(set, &(mf_iterator_options){ .batch = 10, .seed = 5 }, &it));
    collect(it, ids, 3 * SAMPLES);
    for (int e = 0; e < 3; e++)
        expect_each_once(ids + e * SAMPLES, SAMPLES);
    T_TRUE(memcmp(ids, ids + SAMPLES, SAMPLES * sizeof *ids) != 0);
    T_TRUE(memcmp(ids + SAMPLES, ids + 2 * SAMPLES, SAMPLES * sizeof *ids) != 0);
    mf_iterator_free(it);
    mf_dataset_unref(set);
}

MF_TEST(data_order_depends_only_on_the_seed)
{
    mf_dataset *set = numbers(SAMPLES);
    int64_t expected[3 * SAMPLES], ids[3 * SAMPLES];

    for (int64_t batch = 1; batch < 200; batch = batch * 2 + 1) {
        for (int threads = 1; threads <= 4; threads++) {
            const mf_iterator_options o = {
                .batch = batch, .seed = 9, .threads = threads, .prefetch = 1 + threads % 3 * 4
            };
            mf_iterator *it;

            T_OK(mf_iterator_new(set, &o, &it));
            collect(it, ids, 3 * SAMPLES);
            if (batch == 1 && threads == 1)
                memcpy(expected, ids, sizeof ids);
            T_TRUE(memcmp(expected, ids, sizeof ids) == 0);
            mf_iterator_free(it);
        }
    }
    mf_dataset_unref(set);
}

MF_TEST(data_seek_resumes_exactly_at_a_saved_position)
{
    mf_dataset *set = numbers(SAMPLES);
    const mf_iterator_options o = { .batch = 8, .seed = 3, .threads = 2 };
    int64_t all[3 * SAMPLES], ids[SAMPLES], epoch, first, at = 0;
    mf_iterator *it, *again;

    T_OK(mf_iterator_new(set, &o, &it));
    collect(it, all, 3 * SAMPLES);
    T_OK(mf_iterator_seek(it, 0, 0));
    T_OK(mf_iterator_new(set, &o, &again));
    while (at < 2 * SAMPLES) {
        const mf_batch *b;

        mf_iterator_position(it, &epoch, &first);
        T_EQ(epoch * SAMPLES + first, at);
        T_OK(mf_iterator_seek(again, epoch, first));
        collect(again, ids, SAMPLES);
        T_TRUE(memcmp(ids, all + at, sizeof ids) == 0);
        T_OK(mf_iterator_next(it, &b));
        T_EQ(b->epoch, epoch);
        T_EQ(b->first, first);
        at += b->n;
    }
    T_OK(mf_iterator_seek(it, 1, SAMPLES)); /* the end of one epoch is the beginning of the next */
    mf_iterator_position(it, &epoch, &first);
    T_TRUE(epoch == 2 && first == 0);
    T_FAILS(MF_OUT_OF_RANGE, "no sample 104", mf_iterator_seek(it, 0, SAMPLES + 1));
    mf_iterator_free(it);
    mf_iterator_free(again);
    mf_dataset_unref(set);
}

MF_TEST(data_epochs_end_with_or_without_a_partial_batch)
{
    mf_dataset *set = numbers(SAMPLES);

    for (int drop = 0; drop < 2; drop++) {
        const mf_iterator_options o = {
            .batch = 10, .epochs = 2, .in_order = true, .drop_partial = drop != 0
        };
        const mf_batch *b;
        mf_iterator *it;
        int64_t n = 0, batches = 0;

        T_OK(mf_iterator_new(set, &o, &it));
        while (mf_iterator_next(it, &b) == MF_OK) {
            T_EQ(b->ids[0], b->first);
            n += b->n;
            batches++;
        }
        T_FAILS(MF_OUT_OF_RANGE, "all 2 epochs", mf_iterator_next(it, &b));
        T_EQ(n, drop ? 200 : 2 * SAMPLES);
        T_EQ(batches, drop ? 20 : 22);
        T_OK(mf_iterator_seek(it, 1, 90));
        T_OK(mf_iterator_next(it, &b));
        T_EQ(b->first, 90);
        mf_iterator_free(it);
    }
    mf_dataset_unref(set);
}

MF_TEST(data_batches_held_by_the_caller_do_not_change)
{
    mf_dataset *set = numbers(SAMPLES);
    mf_tensor *kept[20];
    const mf_batch *b;
    mf_iterator *it;

    T_OK(mf_iterator_new(set, &(mf_iterator_options){ .batch = 4, .in_order = true }, &it));
    for (int i = 0; i < 20; i++) {
        T_OK(mf_iterator_next(it, &b));
        T_OK(mf_tensor_copy(b->columns[0], &kept[i]));
    }
    for (int i = 0; i < 20; i++) {
        T_EQ_F(*(const float *)mf_tensor_data(kept[i]), 4 * i);
        mf_tensor_free(kept[i]);
    }
    mf_iterator_free(it);
    mf_dataset_unref(set);
}

MF_TEST(data_batches_do_not_allocate)
{
    mf_dataset *set = numbers(SAMPLES);
    const mf_batch *b;
    mf_iterator *it;
    int64_t calls, blocks;

    T_OK(mf_iterator_new(set, &(mf_iterator_options){ .batch = 16, .seed = 1 }, &it));
    for (int i = 0; i < 20; i++)
        T_OK(mf_iterator_next(it, &b));
    calls = mf_mem_calls();
    blocks = mf_buffer_heap_calls();
    for (int i = 0; i < 100; i++)
        T_OK(mf_iterator_next(it, &b));
    T_EQ(mf_mem_calls(), calls);
    T_EQ(mf_buffer_heap_calls(), blocks);
    mf_iterator_free(it);
    mf_dataset_unref(set);
}

/* A data set whose sample 50 cannot be read. */
static mf_status broken_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                             void *const *columns)
{
    (void)set, (void)epoch;
    memset(columns[0], 0, 4);
    return index == 50 ? MF_FAIL(MF_DATA_LOSS, "sample 50 is damaged") : MF_OK;
}

MF_TEST(data_errors_of_reader_threads_are_returned_by_next)
{
    static const mf_dataset_ops ops = { .read = broken_read };
    mf_dataset *set;
    mf_iterator *it;
    const mf_batch *b;
    int64_t epoch, first;

    T_OK(mf_dataset_new(&ops, sizeof *set, 1, &set));
    T_OK(mf_dataset_set_column(set, 0, "x", MF_DTYPE_F32, &MF_SCALAR));
    set->count = set->id_count = 100;
    T_OK(mf_iterator_new(set, &(mf_iterator_options){ .batch = 10, .in_order = true, .threads = 3 },
                         &it));
    for (int i = 0; i < 5; i++)
        T_OK(mf_iterator_next(it, &b));
    T_FAILS(MF_DATA_LOSS, "sample 50 is damaged", mf_iterator_next(it, &b));
    T_FAILS(MF_DATA_LOSS, "sample 50 is damaged", mf_iterator_next(it, &b));
    mf_iterator_position(it, &epoch, &first);
    T_TRUE(epoch == 0 && first == 50);
    T_OK(mf_iterator_seek(it, 0, 60));
    T_OK(mf_iterator_next(it, &b));
    T_EQ(b->first, 60);
    mf_iterator_free(it);
    mf_dataset_unref(set);
}

MF_TEST(data_iterators_reject_invalid_options)
{
    mf_dataset *set = numbers(5), *none;
    mf_iterator *it;

    T_OK(mf_dataset_range(set, 2, 2, &none));
    T_FAILS(MF_INVALID_ARGUMENT, "no samples", mf_iterator_new(none, NULL, &it));
    T_FAILS(MF_INVALID_ARGUMENT, "are less than one batch",
            mf_iterator_new(set, &(mf_iterator_options){ .batch = 6, .drop_partial = true }, &it));
    T_FAILS(MF_INVALID_ARGUMENT, "invalid options",
            mf_iterator_new(set, &(mf_iterator_options){ .batch = -1 }, &it));
    T_OK(mf_iterator_new(set, NULL, &it));
    mf_iterator_free(it);
    mf_dataset_unref(none);
    mf_dataset_unref(set);
}

/* For any number of workers, all together read the batches that a single worker would read. */
MF_TEST(data_parts_of_batches_make_up_the_batch)
{
    mf_dataset *set = numbers(SAMPLES);

    for (int64_t parts = 1; parts <= 5; parts++) {
        const mf_iterator_options o = { .batch = 12, .seed = 2, .epochs = 2 };
        const mf_batch *whole, *b;
        mf_iterator *one, *some[5];

        T_OK(mf_iterator_new(set, &o, &one));
        for (int64_t p = 0; p < parts; p++) {
            mf_iterator_options of_part = o;

            of_part.shards = 7;
            of_part.first_shard = 7 * p / parts;
            of_part.n_shards = 7 * (p + 1) / parts - of_part.first_shard;
            T_OK(mf_iterator_new(set, &of_part, &some[p]));
        }
        while (mf_iterator_next(one, &whole) == MF_OK) {
            int64_t n = 0, at[2], expected[2];

            mf_iterator_position(one, &expected[0], &expected[1]);
            for (int64_t p = 0; p < parts; p++) {
                T_OK(mf_iterator_next(some[p], &b));
                T_EQ(b->first, whole->first + n);
                T_EQ(b->place, n);
                T_EQ(b->whole, whole->n);
                T_TRUE(memcmp(b->whole_ids, whole->ids, (size_t)whole->n * sizeof *b->ids) == 0);
                T_EQ(mf_tensor_dim(b->columns[0], 0), b->n);
                T_TRUE(memcmp(b->ids, whole->ids + n, (size_t)b->n * sizeof *b->ids) == 0);
                n += b->n;
                mf_iterator_position(some[p], &at[0], &at[1]);
                T_TRUE(at[0] == expected[0] && at[1] == expected[1]);
            }
            T_EQ(n, whole->n);
        }
        for (int64_t p = 0; p < parts; p++) {
            T_FAILS(MF_OUT_OF_RANGE, "epochs", mf_iterator_next(some[p], &b));
            mf_iterator_free(some[p]);
        }
        mf_iterator_free(one);
    }
    mf_dataset_unref(set);
}

MF_TEST(data_threads_may_change_between_batches)
{
    const mf_iterator_options o = { .batch = 7, .seed = 9 };
    mf_dataset *set = numbers(SAMPLES);
    int64_t expected[4 * SAMPLES], ids[4 * SAMPLES];
    mf_iterator *it;

    T_OK(mf_iterator_new(set, &o, &it));
    collect(it, expected, 4 * SAMPLES);
    T_OK(mf_iterator_seek(it, 0, 0));
    for (int64_t at = 0, i = 0; at < 4 * SAMPLES; i++) {
        const int64_t left = SAMPLES - at % SAMPLES, n = left < 7 ? left : 7;

        T_OK(mf_iterator_set_threads(it, (int)(1 + i * 5 % 9)));
        collect(it, ids + at, n);
        at += n;
    }
    T_TRUE(memcmp(ids, expected, sizeof ids) == 0);
    T_FAILS(MF_INVALID_ARGUMENT, "threads is 0, but must be 1 to", mf_iterator_set_threads(it, 0));
    mf_iterator_free(it);
    mf_dataset_unref(set);
}

MF_TEST(data_parts_of_batches_may_change_between_batches)
{
    const mf_iterator_options o = { .batch = 12, .seed = 2, .shards = 6, .n_shards = 2 };
    mf_dataset *set = numbers(SAMPLES);
    const mf_batch *b, *whole;
    mf_iterator *one, *part;

    T_OK(mf_iterator_new(set, &(mf_iterator_options){ .batch = 12, .seed = 2 }, &one));
    T_OK(mf_iterator_new(set, &o, &part));
    for (int64_t i = 0; i < 20; i++) {
        const int64_t first = i % 4, n = i % 3;

        T_OK(mf_iterator_share(part, first, n));
        T_OK(mf_iterator_next(one, &whole));
        T_OK(mf_iterator_next(part, &b));
        T_EQ(b->whole, whole->n);
        T_EQ(mf_tensor_dim(b->columns[0], 0), b->n);
        T_TRUE(b->n == 0 ||
               memcmp(b->ids, whole->ids + b->place, (size_t)b->n * sizeof *b->ids) == 0);
        if (whole->n == 12)
            T_TRUE(b->place == 2 * first && b->n == 2 * n);
    }
    T_FAILS(MF_INVALID_ARGUMENT, "3 shards from 4 on are out of range",
            mf_iterator_share(part, 4, 3));
    mf_iterator_free(part);
    mf_iterator_free(one);
    mf_dataset_unref(set);
}

/* The part of some shards is divided into shards again, for several readers. */
MF_TEST(data_parts_of_parts_make_up_the_part)
{
    enum { SHARDS = 5, PARTS = 3 };
    const mf_iterator_options o = { .batch = 23, .seed = 2, .shards = SHARDS, .n_shards = SHARDS };
    mf_dataset *set = numbers(SAMPLES);
    const mf_batch *b, *whole;
    mf_iterator *one, *part[PARTS];

    T_OK(mf_iterator_new(set, &o, &one));
    for (int p = 0; p < PARTS; p++)
        T_OK(mf_iterator_new(set, &o, &part[p]));
    T_OK(mf_iterator_share(one, 1, 3));
    for (int p = 0; p < PARTS; p++) {
        const int64_t first = SHARDS * p / PARTS;

        T_OK(mf_iterator_share_part(part[p], 1, 3, first, SHARDS * (p + 1) / PARTS - first));
    }
    for (int64_t i = 0; i < 30; i++) {
        int64_t n = 0;

        T_OK(mf_iterator_next(one, &whole));
        for (int p = 0; p < PARTS; p++) {
            T_OK(mf_iterator_next(part[p], &b));
            T_EQ(b->place, whole->place + n);
            T_EQ(b->whole, whole->whole);
            T_EQ(mf_tensor_dim(b->columns[0], 0), b->n);
            T_TRUE(b->n == 0 || memcmp(b->ids, whole->ids + n, (size_t)b->n * sizeof *b->ids) == 0);
            n += b->n;
        }
        T_EQ(n, whole->n);
    }
    T_FAILS(MF_INVALID_ARGUMENT, "4 shards from 2 on are out of range",
            mf_iterator_share_part(one, 0, 1, 2, 4));
    for (int p = 0; p < PARTS; p++)
        mf_iterator_free(part[p]);
    mf_iterator_free(one);
    mf_dataset_unref(set);
}

/* Rows that are not contiguous, of batches of two sizes. */
MF_TEST(data_iterators_read_only_needed_rows_of_a_batch)
{
    const mf_iterator_options o = { .batch = 12, .seed = 2 };
    const int64_t last = SAMPLES % 12;
    mf_needed needed[MF_NEEDED] = { { .whole = 12 }, { .whole = last } };
    mf_dataset *set = numbers(SAMPLES);
    const mf_batch *b, *whole;
    mf_iterator *one, *part;

    T_TRUE(last > 2);
    T_OK(mf_ranges_add(&needed[0].rows, 1, 3));
    T_OK(mf_ranges_add(&needed[0].rows, 7, 12));
    T_OK(mf_ranges_add(&needed[1].rows, 2, last));
    T_OK(mf_iterator_new(set, &o, &one));
    T_OK(mf_iterator_new_needed(set, &o, needed, 2, &part));
    for (int64_t i = 0; i < 40; i++) {
        int64_t k = 0;

        if (i == 20) { /* from here on all of an epoch's last batch, and less of the others */
            needed[0].whole = 12;
            T_OK(mf_ranges_add(&needed[0].rows, 0, 1));
            T_OK(mf_iterator_need(part, needed, 1));
        }
        if (i == 30)
            T_OK(mf_iterator_need(part, NULL, 0));
        T_OK(mf_iterator_next(one, &whole));
        T_OK(mf_iterator_next(part, &b));
        T_EQ(b->whole, whole->n);
        T_EQ(b->place, 0);
        for (int64_t row = 0; row < whole->n; row++) {
            const bool wanted = i >= 30         ? true
                                : whole->n < 12 ? i >= 20 || row >= 2
                                : i >= 20       ? row == 0
                                                : (row >= 1 && row < 3) || row >= 7;

            if (!wanted)
                continue;
            T_EQ(b->ids[k], whole->ids[row]);
            T_EQ_F(mf_tensor_float_at(b->columns[0], 2 * k), whole->ids[row]);
            k++;
        }
        T_EQ(b->n, k);
        T_EQ(mf_tensor_dim(b->columns[0], 0), k);
        T_EQ(b->whole_ids[whole->n - 1], whole->ids[whole->n - 1]);
    }
    T_OK(mf_ranges_add(&needed[0].rows, 10, 13));
    needed[0].whole = 12;
    T_FAILS(MF_INVALID_ARGUMENT, "10 to 13 of a batch of 12", mf_iterator_need(part, needed, 1));
    mf_iterator_free(part);
    mf_iterator_free(one);
    mf_dataset_unref(set);
}
