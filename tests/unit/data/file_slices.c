/* SPDX-License-Identifier: Apache-2.0 */
/* file_slices.c - slicing by file: each sample once, from the files of its shard, for any reader.
 */
#include "data/file_slices.h"

#include "data/dataset_view.h"
#include "mf_test.h"

#include <stdlib.h>
#include <string.h>

enum { FILES = 7, SAMPLES = 211, SHARDS = 4, BATCH = 12 };

/* First samples of the files; one file is large, one is empty. */
static const int64_t begins[FILES + 1] = { 0, 30, 55, 55, 130, 160, 171, SAMPLES };

static mf_status read_number(const mf_dataset *set, uint64_t epoch, int64_t index,
                             void *const *columns)
{
    (void)set, (void)epoch;
    memcpy(columns[0], &index, sizeof index);
    return MF_OK;
}

static int64_t file_of(const mf_dataset *set, int64_t index)
{
    int64_t f = 0;

    (void)set;
    while (begins[f + 1] <= index)
        f++;
    return f;
}

static mf_dataset *numbers(void)
{
    static const mf_dataset_ops ops = { .read = read_number, .file = file_of };
    static const char *const paths[FILES] = { "a", "b", "c", "d", "e", "f", "g" };
    mf_dataset *set;

    T_OK(mf_dataset_new(&ops, sizeof *set, 1, &set));
    T_OK(mf_dataset_set_column(set, 0, "x", MF_DTYPE_I64, &MF_SCALAR));
    set->count = set->id_count = SAMPLES;
    set->files = paths;
    set->n_files = FILES;
    return set;
}

static const mf_iterator_options by_file = {
    .batch = BATCH, .seed = 3, .slice = MF_SLICE_FILE, .shards = SHARDS, .n_shards = SHARDS
};

static void collect(mf_iterator *it, int64_t *ids, int64_t want)
{
    for (int64_t have = 0; have < want;) {
        const mf_batch *b;

        T_OK(mf_iterator_next(it, &b));
        for (int64_t i = 0; i < b->n && have < want; i++, have++) {
            ids[have] = b->ids[i];
            T_EQ(((const int64_t *)mf_tensor_data(b->columns[0]))[i], b->ids[i]);
        }
    }
}

static void expect_each_once(const int64_t *ids)
{
    char seen[SAMPLES] = { 0 };

    for (int64_t i = 0; i < SAMPLES; i++) {
        T_TRUE(ids[i] >= 0 && ids[i] < SAMPLES);
        T_EQ(seen[ids[i]]++, 0);
    }
}

MF_TEST(slices_by_file_have_every_sample_once_per_epoch_in_a_new_order)
{
    mf_dataset *set = numbers();
    int64_t ids[3 * SAMPLES];
    mf_iterator *it;

    T_OK(mf_iterator_new(set, &by_file, &it));
    collect(it, ids, 3 * SAMPLES);
    for (int e = 0; e < 3; e++)
        expect_each_once(ids + e * SAMPLES);
    T_TRUE(memcmp(ids, ids + SAMPLES, sizeof ids / 3) != 0);
    mf_iterator_free(it);
    mf_dataset_unref(set);
}

/* While no stream is empty, shard k has only samples of stream k's files. */
MF_TEST(slices_of_a_shard_come_from_its_files)
{
    mf_dataset *set = numbers();
    int64_t owner[FILES], order[SAMPLES], samples[SHARDS] = { 0 }, least = SAMPLES;
    mf_slices *s;

    T_OK(mf_slices_new(set, SHARDS, &s));
    for (int64_t k = 0, seen = 0; k < SHARDS; k++) {
        int64_t n;
        const int64_t *files = mf_slices_files(s, k, &n);

        seen += n;
        for (int64_t i = 0; i < n; i++) {
            owner[files[i]] = k;
            samples[k] += begins[files[i] + 1] - begins[files[i]];
        }
        least = samples[k] < least ? samples[k] : least;
        T_TRUE(k < SHARDS - 1 || seen == FILES);
    }
    T_EQ(samples[owner[3]], 75); /* the large file is alone in its stream */
    T_TRUE(least == 40);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        mf_slices_order(s, 9, epoch, BATCH, false, order);
        for (int64_t i = 0; i < least * SHARDS / BATCH * BATCH; i++)
            T_EQ(owner[file_of(set, order[i])], i % BATCH / (BATCH / SHARDS));
    }
    mf_slices_free(s);
    mf_dataset_unref(set);
}

/* With leased batches, each batch is from one stream, and the streams take turns. */
MF_TEST(slices_in_turns_take_each_batch_from_one_stream)
{
    enum { PER_EPOCH = (SAMPLES + BATCH - 1) / BATCH };
    mf_dataset *set = numbers();
    int64_t order[SAMPLES];
    mf_slices *s;

    T_OK(mf_slices_new(set, SHARDS, &s));
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        mf_slices_order(s, 9, epoch, BATCH, true, order);
        for (int64_t i = 0; i < 2 * SHARDS * BATCH; i++) { /* no stream is empty yet */
            const int64_t turn = ((int64_t)epoch * PER_EPOCH + i / BATCH) % SHARDS;
            bool found = false;
            int64_t n;
            const int64_t *files = mf_slices_files(s, turn, &n);

            for (int64_t f = 0; f < n; f++)
                found |= files[f] == file_of(set, order[i]);
            T_TRUE(found);
        }
    }
    mf_slices_free(s);
    mf_dataset_unref(set);
}

/* A stream finishes a file before it starts the next. */
MF_TEST(slices_read_files_sequentially)
{
    mf_dataset *set = numbers();
    int64_t order[SAMPLES];
    mf_slices *s;

    T_OK(mf_slices_new(set, 1, &s));
    mf_slices_order(s, 1, 0, BATCH, false, order);
    int64_t changes = 0;
    bool shuffled = false;

    for (int64_t i = 1; i < SAMPLES; i++) {
        changes += file_of(set, order[i]) != file_of(set, order[i - 1]);
        shuffled |= order[i] != order[i - 1] + 1 && file_of(set, order[i]) == 0;
    }
    T_EQ(changes, FILES - 2); /* one has no samples */
    T_TRUE(shuffled);
    mf_slices_free(s);
    mf_dataset_unref(set);
}

/* Parts of batches make up the batch, for any assignment of shards and from any position. */
MF_TEST(slices_do_not_depend_on_shard_assignment)
{
    mf_dataset *set = numbers();
    const mf_batch *whole, *b;
    mf_iterator *one, *part;

    T_OK(mf_iterator_new(set, &by_file, &one));
    T_OK(mf_iterator_new(set, &by_file, &part));
    for (int64_t i = 0; i < 40; i++) {
        const int64_t first = i % SHARDS;

        T_OK(mf_iterator_share(part, first, 1));
        T_OK(mf_iterator_next(one, &whole));
        T_OK(mf_iterator_next(part, &b));
        T_EQ(b->whole, whole->n);
        T_TRUE(memcmp(b->ids, whole->ids + b->place, (size_t)b->n * sizeof *b->ids) == 0);
        T_TRUE(memcmp(b->whole_ids, whole->ids, (size_t)whole->n * sizeof *b->ids) == 0);
    }
    T_OK(mf_iterator_share(part, 0, SHARDS));
    T_OK(mf_iterator_seek(one, 1, 3 * BATCH));
    T_OK(mf_iterator_seek(part, 1, 2 * BATCH));
    T_OK(mf_iterator_next(part, &b));
    T_OK(mf_iterator_next(part, &b));
    T_OK(mf_iterator_next(one, &whole));
    T_EQ(b->first, whole->first);
    T_TRUE(memcmp(b->ids, whole->ids, (size_t)whole->n * sizeof *b->ids) == 0);
    mf_iterator_free(one);
    mf_iterator_free(part);
    mf_dataset_unref(set);
}

/* Wrappers of a data set expose its files. */
MF_TEST(slices_see_files_through_views_caches_and_joins)
{
    mf_dataset *set = numbers(), *part, *cached, *joined;

    T_OK(mf_dataset_shard(set, 2, 1, &part));
    T_OK(mf_dataset_cache(part, 0, &cached));
    T_OK(mf_dataset_interleave((mf_dataset *[]){ cached, set }, 2, 5, &joined));
    T_EQ(joined->n_files, 2 * FILES);
    for (int64_t i = 0; i < joined->count; i++) {
        const int64_t id = mf_dataset_sample_id(joined, i);
        const int64_t f = mf_dataset_file(joined, i);

        T_EQ(f, id < SAMPLES ? file_of(set, id) : FILES + file_of(set, id - SAMPLES));
        T_STREQ(joined->files[f], set->files[f % FILES]);
    }
    mf_dataset_unref(joined);
    mf_dataset_unref(cached);
    mf_dataset_unref(part);
    mf_dataset_unref(set);
}

MF_TEST(slices_fingerprint_distinguishes_files)
{
    mf_dataset *set = numbers(), *fewer;
    mf_slices *a, *b, *c;

    T_OK(mf_dataset_range(set, 0, SAMPLES - 1, &fewer));
    T_OK(mf_slices_new(set, SHARDS, &a));
    T_OK(mf_slices_new(set, SHARDS, &b));
    T_OK(mf_slices_new(fewer, SHARDS, &c));
    T_EQ(mf_slices_fingerprint(a), mf_slices_fingerprint(b));
    T_TRUE(mf_slices_fingerprint(a) >= 0);
    T_TRUE(mf_slices_fingerprint(a) != mf_slices_fingerprint(c));
    mf_slices_free(a);
    mf_slices_free(b);
    mf_slices_free(c);
    mf_dataset_unref(fewer);
    mf_dataset_unref(set);
}

/* More shards than files, or than samples of a batch: shards without files take samples of other
 * streams. */
MF_TEST(slices_of_few_files_and_small_batches_are_complete)
{
    mf_dataset *set = numbers();

    for (int64_t shards = 1; shards <= 64; shards *= 4) {
        for (int64_t batch = 1; batch <= 300; batch = batch * 5 + 2) {
            mf_slices *s;
            int64_t order[SAMPLES];

            T_OK(mf_slices_new(set, shards, &s));
            mf_slices_order(s, 1, 2, batch, false, order);
            expect_each_once(order);
            mf_slices_order(s, 1, 2, batch, true, order);
            expect_each_once(order);
            mf_slices_free(s);
        }
    }
    T_FAILS(MF_INVALID_ARGUMENT, "in_order and slice exclude",
            mf_iterator_new(set, &(mf_iterator_options){ .slice = MF_SLICE_FILE, .in_order = true },
                            &(mf_iterator *){ NULL }));
    mf_dataset_unref(set);
}
