/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - data sets and the order in which training sees them.
 *
 * A data set is a numbered list of samples. A sample has named columns of fixed type and shape (an
 * image and its label, say). Every sample can be read at any time by its number, so an epoch is a
 * permutation, a position is two numbers, and what a worker reads never depends on who else reads.
 * What changes samples (map, augment) does so as a function of (seed, epoch, sample id) alone. */
#ifndef MESHFLOW_DATA_H
#define MESHFLOW_DATA_H

#include <meshflow/tensor.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- data sets: counted, never changed after they were made ---- */

typedef struct mf_dataset mf_dataset;

typedef struct mf_column {
    const char *name; /* "image", "label" */
    mf_dtype dtype;
    int rank;
    int64_t dims[MF_MAX_RANK]; /* of one sample */
} mf_column;

/* What `data` names: a set known by name ("fashion-mnist"), a folder (of IDX files, CIFAR batches,
 * images by class), or files, which may be a pattern ("train-*.tfrecord"): IDX, CIFAR binary,
 * TFRecord, npy, npz, CSV, libsvm. Where the name does not tell the format, it stands in front:
 * "csv:measures.txt". `settings` is text ("part=test label=y"), may be NULL;
 * docs/guides/data.md lists what each format takes. Owns: the caller calls mf_dataset_unref().
 * Fails: NOT_FOUND (naming what was looked for and where), INVALID_ARGUMENT, DATA_LOSS (naming file
 * and place). */
MF_API MF_MUST mf_status mf_dataset_open(const char *data, const char *settings, mf_dataset **out);
/* Columns from tensors in memory, whose first dimension counts the samples. */
MF_API MF_MUST mf_status mf_dataset_of(const char *const *names, const mf_tensor *const *columns,
                                       int n_columns, mf_dataset **out);
MF_API mf_dataset *mf_dataset_ref(mf_dataset *set);
MF_API void mf_dataset_unref(mf_dataset *set);

MF_API int64_t mf_dataset_count(const mf_dataset *set);
MF_API int mf_dataset_columns(const mf_dataset *set, const mf_column **columns);
/* Number of classes of the label column, or 0 where there is none; and their names or NULL. */
MF_API int64_t mf_dataset_classes(const mf_dataset *set, const char *const **names);

/* The results refer to `set`, which may be unreferenced afterwards. */

/* Two parts without common samples, drawn by seed; `first` gets the given fraction. */
MF_API MF_MUST mf_status mf_dataset_split(mf_dataset *set, double fraction, uint64_t seed,
                                          mf_dataset **first, mf_dataset **second);
/* Samples from <= i < to. */
MF_API MF_MUST mf_status mf_dataset_range(mf_dataset *set, int64_t from, int64_t to,
                                          mf_dataset **out);
/* Part `index` of `parts`: every parts-th sample. All parts together are the set, each sample once.
 */
MF_API MF_MUST mf_status mf_dataset_shard(mf_dataset *set, int64_t parts, int64_t index,
                                          mf_dataset **out);
/* Sets of equal columns one after the other, or taking turns with `block` samples each (0: one
 * after the other). */
MF_API MF_MUST mf_status mf_dataset_interleave(mf_dataset *const *sets, int n_sets, int64_t block,
                                               mf_dataset **out);
/* Keep in memory what was read once, up to `max_bytes` (0: as many percent of the machine's
 * memory as the parameter data_memory_percent says).
 * INVALID_ARGUMENT: samples that depend on the epoch (map, augment) are not kept. */
MF_API MF_MUST mf_status mf_dataset_cache(mf_dataset *set, size_t max_bytes, mf_dataset **out);

/* in and out: one pointer per column to the elements of one sample. */
typedef mf_status mf_map_fn(void *ctx, uint64_t epoch, int64_t sample_id, const void *const *in,
                            void *const *out);
/* fn is called from several threads at once; ctx must outlive the result. What fn does must follow
 * from epoch and id alone. */
MF_API MF_MUST mf_status mf_dataset_map(mf_dataset *set, const mf_column *columns, int n_columns,
                                        mf_map_fn *fn, void *ctx, mf_dataset **out);
/* Change the image column: "crop=4 flip=true cutout=8 mean=[..] std=[..]". crop: pad by so many
 * pixels and cut at a random place; flip: left to right, every other time; cutout: a black square
 * of that size; mean and std, by channel: (x/255 - mean) / std as floats. */
MF_API MF_MUST mf_status mf_dataset_augment(mf_dataset *set, const char *settings, uint64_t seed,
                                            mf_dataset **out);

/* Two views of pictures, turned by up to `rotate` degrees and moved by up to `crop` pixels
 * ("rotate=20 crop=3"): columns "pair" (uint8 [2,height,width,channels]), "label" (1: both are
 * views of sample i; 0: the second is one of another sample; either as often) and, where the set
 * has classes, "class" (of the first). */
MF_API MF_MUST mf_status mf_dataset_pairs(mf_dataset *set, const char *settings, uint64_t seed,
                                          mf_dataset **out);

/* One sample into the caller's memory: columns[i] has room for it; NULL: not wanted.
 * Thread: any. OUT_OF_RANGE. */
MF_API MF_MUST mf_status mf_dataset_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                                         void *const *columns);
/* The number that a sample has in the set it comes from: what splits and shards keep. */
MF_API int64_t mf_dataset_sample_id(const mf_dataset *set, int64_t index);

/* ---- batches in order ---- */

typedef struct mf_iterator mf_iterator;

/* What the shards of a batch take their samples from (TensorFlow's AutoShardPolicy DATA and FILE).
 * Either way an epoch has each sample once, whatever the number of workers. */
typedef enum mf_slicing {
    MF_SLICE_ELEMENT, /* from all of them: an epoch is a permutation by Philox(seed, epoch) */
    MF_SLICE_FILE, /* from files of their own, so a worker reads few files: the files are dealt out
                      to the shards, and in an epoch each shard shuffles its files, and the samples
                      of each; without files left it helps others. docs/guides/data.md */
    MF_SLICE_FILE_BATCH, /* the same, but shards take turns, and the one whose turn it is gives a
                            whole batch: for workers that have batches of their own */
} mf_slicing;

typedef struct mf_iterator_options {
    int64_t batch; /* samples; 0: 32 */
    bool in_order; /* no shuffling */
    mf_slicing slice; /* by file: of as many shards as `shards` says */
    bool drop_partial; /* leave out the last batch of an epoch where it is not full */
    int64_t epochs; /* 0: for ever */
    uint64_t seed;
    int prefetch; /* batches made ahead; 0: 2 */
    int threads; /* that make them; 0: 1 */
    /* Of each batch, cut into `shards`, only those from first_shard on, n_shards of them: what a
     * worker takes of a batch that several share. Positions stay those of the whole, so the same
     * training may go on with another number of workers. Of a small last batch there may be no
     * samples left. shards 0: all of it. */
    int64_t shards, first_shard, n_shards;
    /* And of what these have, cut into as many shards once more, only those from part_first on,
     * part_n of them; part_n 0: all of it. */
    int64_t part_first, part_n;
} mf_iterator_options;

typedef struct mf_batch {
    int64_t n; /* samples */
    int64_t epoch, first; /* this is permutation[first .. first + n) of the epoch */
    const int64_t *ids; /* sample ids */
    mf_tensor *const *columns; /* [n, ...], one per column of the set */
    int n_columns;
    /* Where only some shards of each batch are taken: how many samples the whole batch has, the
     * place of the first one of ours in it, and all of its ids. */
    int64_t whole, place;
    const int64_t *whole_ids;
} mf_batch;

MF_API MF_MUST mf_status mf_iterator_new(mf_dataset *set, const mf_iterator_options *options,
                                         mf_iterator **out);
MF_API void mf_iterator_free(mf_iterator *it);
/* Owns: *batch is the iterator's until the next call; its tensors may be kept with
 * mf_tensor_copy(). Fails: OUT_OF_RANGE (all epochs are over), and as reading did: then the
 * position stays where it is, and so does the failure, until somebody seeks past it. */
MF_API MF_MUST mf_status mf_iterator_next(mf_iterator *it, const mf_batch **batch);
/* Where the next batch begins, and to go there: the next batch is then exactly the one that would
 * have come. */
MF_API void mf_iterator_position(const mf_iterator *it, int64_t *epoch, int64_t *first);
MF_API MF_MUST mf_status mf_iterator_seek(mf_iterator *it, int64_t epoch, int64_t first);
/* From the next batch on, take these shards of each, all that they have; or a part of it. */
MF_API MF_MUST mf_status mf_iterator_share(mf_iterator *it, int64_t first_shard, int64_t n_shards);
MF_API MF_MUST mf_status mf_iterator_share_part(mf_iterator *it, int64_t first_shard,
                                                int64_t n_shards, int64_t part_first,
                                                int64_t part_n);
/* From the next batch on, so many threads make them. Batches stay the same. After a failure the
 * iterator can only be freed. */
MF_API MF_MUST mf_status mf_iterator_set_threads(mf_iterator *it, int threads);

#ifdef __cplusplus
}
#endif
#endif
