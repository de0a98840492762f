/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - data sets and the order in which training reads them.
 *
 * A data set is a numbered list of samples. A sample has named columns of fixed type and shape,
 * such as an image and its label. Every sample can be read at any time by its number. An epoch is
 * therefore a permutation, a position is two numbers, and the samples of a worker do not depend on
 * the other workers. Transformations (map, augment) are functions of (seed, epoch, sample id)
 * alone. */
#ifndef MESHFLOW_DATA_H
#define MESHFLOW_DATA_H

#include <meshflow/tensor.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- data sets: reference-counted, immutable ---- */

typedef struct mf_dataset mf_dataset;

typedef struct mf_column {
    const char *name; /* "image", "label" */
    mf_dtype dtype;
    int rank;
    int64_t dims[MF_MAX_RANK]; /* of one sample */
} mf_column;

/* Open the data that `data` names: a known data set ("fashion-mnist"), a folder (of IDX files,
 * CIFAR batches, or images by class), or files, possibly as a pattern ("train-*.tfrecord"): IDX,
 * CIFAR binary, TFRecord, npy, npz, CSV, libsvm. A prefix names the format where the file name does
 * not: "csv:measures.txt". `settings` is text ("part=test label=y") or NULL; docs/guides/data.md
 * lists the settings of each format. Owns: the caller calls mf_dataset_unref(). Fails: NOT_FOUND
 * (naming the data and the places searched), INVALID_ARGUMENT, DATA_LOSS (naming file and
 * position). */
MF_API MF_MUST mf_status mf_dataset_open(const char *data, const char *settings, mf_dataset **out);
/* A data set whose columns are tensors in memory. The first dimension of each tensor counts the
 * samples. */
MF_API MF_MUST mf_status mf_dataset_of(const char *const *names, const mf_tensor *const *columns,
                                       int n_columns, mf_dataset **out);
MF_API mf_dataset *mf_dataset_ref(mf_dataset *set);
MF_API void mf_dataset_unref(mf_dataset *set);

MF_API int64_t mf_dataset_count(const mf_dataset *set);
MF_API int mf_dataset_columns(const mf_dataset *set, const mf_column **columns);
/* Number of classes of the label column (0: unknown) and their names (NULL: none). */
MF_API int64_t mf_dataset_classes(const mf_dataset *set, const char *const **names);

/* The results of the following functions hold a reference to `set`; the caller may drop its own. */

/* Two disjoint parts, drawn by seed; `first` gets the given fraction of the samples. */
MF_API MF_MUST mf_status mf_dataset_split(mf_dataset *set, double fraction, uint64_t seed,
                                          mf_dataset **first, mf_dataset **second);
/* Samples from <= i < to. */
MF_API MF_MUST mf_status mf_dataset_range(mf_dataset *set, int64_t from, int64_t to,
                                          mf_dataset **out);
/* Shard `index` of `parts`: every parts-th sample. The shards partition the set. */
MF_API MF_MUST mf_status mf_dataset_shard(mf_dataset *set, int64_t parts, int64_t index,
                                          mf_dataset **out);
/* Concatenate sets with equal columns; or, with block > 0, interleave them in blocks of `block`
 * samples. */
MF_API MF_MUST mf_status mf_dataset_interleave(mf_dataset *const *sets, int n_sets, int64_t block,
                                               mf_dataset **out);
/* Cache samples in memory after their first read, up to `max_bytes` (0: data_memory_percent of the
 * machine's memory, a tunable parameter).
 * Fails: INVALID_ARGUMENT (samples depend on the epoch: map, augment). */
MF_API MF_MUST mf_status mf_dataset_cache(mf_dataset *set, size_t max_bytes, mf_dataset **out);

/* in and out: one pointer per column to the elements of one sample. */
typedef mf_status mf_map_fn(void *ctx, uint64_t epoch, int64_t sample_id, const void *const *in,
                            void *const *out);
/* fn is called by several threads at once; ctx must outlive the result. The output of fn must
 * depend only on its input, epoch and sample id. */
MF_API MF_MUST mf_status mf_dataset_map(mf_dataset *set, const mf_column *columns, int n_columns,
                                        mf_map_fn *fn, void *ctx, mf_dataset **out);
/* Augment the image column: "crop=4 flip=true cutout=8 mean=[..] std=[..]". crop: pad by that many
 * pixels and crop at a random place; flip: mirror left to right with probability 1/2; cutout: a
 * black square of that size; mean and std, per channel: (x/255 - mean) / std as floats. */
MF_API MF_MUST mf_status mf_dataset_augment(mf_dataset *set, const char *settings, uint64_t seed,
                                            mf_dataset **out);

/* Pairs of augmented views, rotated by up to `rotate` degrees and shifted by up to `crop` pixels
 * ("rotate=20 crop=3"). Columns: "pair" (uint8 [2,height,width,channels]), "label" (1: both are
 * views of sample i; 0: the second is a view of another sample; both equally likely) and, if the
 * set has classes, "class" (of the first view). */
MF_API MF_MUST mf_status mf_dataset_pairs(mf_dataset *set, const char *settings, uint64_t seed,
                                          mf_dataset **out);

/* Copy one sample into the caller's memory: columns[i] has room for it, or is NULL to skip that
 * column.
 * Thread: any. Fails: OUT_OF_RANGE. */
MF_API MF_MUST mf_status mf_dataset_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                                         void *const *columns);
/* The id of a sample: its number in the original data set, which splits and shards preserve. */
MF_API int64_t mf_dataset_sample_id(const mf_dataset *set, int64_t index);

/* ---- batches in order ---- */

typedef struct mf_iterator mf_iterator;

/* How the samples of an epoch are assigned to the shards of its batches (TensorFlow's
 * AutoShardPolicy DATA and FILE). With every policy an epoch contains each sample once, for any
 * number of workers. */
typedef enum mf_slicing {
    MF_SLICE_ELEMENT, /* by sample: an epoch is a permutation of all samples by Philox(seed,
                         epoch) */
    MF_SLICE_FILE, /* by file, so that a worker reads few files: files are assigned to shards; in
                      each epoch a shard shuffles its files and the samples of each; a shard
                      without remaining files takes over files of others. docs/guides/data.md */
    MF_SLICE_FILE_BATCH, /* by file, but each batch comes from a single shard, in turn: for workers
                            with separate batches */
} mf_slicing;

typedef struct mf_iterator_options {
    int64_t batch; /* samples; default: 32 */
    bool in_order; /* no shuffling */
    mf_slicing slice; /* the policy; by file: over the number of shards in `shards` */
    bool drop_partial; /* drop the last batch of an epoch if it is not full */
    int64_t epochs; /* 0: no limit */
    uint64_t seed;
    int prefetch; /* batches prepared ahead; default: 2 */
    int threads; /* that prepare batches; default: 1 */
    /* The shards to read: of each batch, split into `shards`, the n_shards shards from first_shard
     * on. Used when workers share a batch. Positions are those of the global batch, so training can
     * continue with another number of workers. A small last batch may leave these shards without
     * samples. shards 0: read the complete batch. */
    int64_t shards, first_shard, n_shards;
    /* The part to read of those shards: split again into `shards` parts, the part_n parts from
     * part_first on. part_n 0: all of it. */
    int64_t part_first, part_n;
} mf_iterator_options;

typedef struct mf_batch {
    int64_t n; /* samples */
    int64_t epoch, first; /* the batch is permutation[first .. first + n) of the epoch */
    const int64_t *ids; /* sample ids */
    mf_tensor *const *columns; /* [n, ...], one per column of the set */
    int n_columns;
    /* If only some shards of each batch are read: the number of samples of the global batch, the
     * position of this batch's first sample in it, and all of its ids. */
    int64_t whole, place;
    const int64_t *whole_ids;
} mf_batch;

MF_API MF_MUST mf_status mf_iterator_new(mf_dataset *set, const mf_iterator_options *options,
                                         mf_iterator **out);
MF_API void mf_iterator_free(mf_iterator *it);
/* Owns: *batch belongs to the iterator and is valid until the next call; mf_tensor_copy() keeps its
 * tensors longer. Fails: OUT_OF_RANGE (all epochs are done), or with the failure of a read. After a
 * failed read the position does not advance, and every call fails again until mf_iterator_seek()
 * moves past it. */
MF_API MF_MUST mf_status mf_iterator_next(mf_iterator *it, const mf_batch **batch);
/* The position of the next batch; seeking to it yields exactly that batch. */
MF_API void mf_iterator_position(const mf_iterator *it, int64_t *epoch, int64_t *first);
MF_API MF_MUST mf_status mf_iterator_seek(mf_iterator *it, int64_t epoch, int64_t first);
/* From the next batch on, read these shards of each batch: all their samples, or a part of them. */
MF_API MF_MUST mf_status mf_iterator_share(mf_iterator *it, int64_t first_shard, int64_t n_shards);
MF_API MF_MUST mf_status mf_iterator_share_part(mf_iterator *it, int64_t first_shard,
                                                int64_t n_shards, int64_t part_first,
                                                int64_t part_n);
/* From the next batch on, use this number of threads. Batches do not change. After a failure the
 * iterator can only be freed. */
MF_API MF_MUST mf_status mf_iterator_set_threads(mf_iterator *it, int threads);

#ifdef __cplusplus
}
#endif
#endif
