/* SPDX-License-Identifier: Apache-2.0 */
/* bundle.h - checkpoints in TensorFlow's version 2 format, the "tensor bundle":
 *
 *   PREFIX.index                 a table (table.h): "" -> BundleHeaderProto, then
 *                                name -> BundleEntryProto, which has the position of the bytes
 *   PREFIX.data-00000-of-00002   the bytes of tensors, concatenated
 *
 * A tensor may be stored in slices, each under a key composed of name and slice. */
#ifndef MF_FORMATS_BUNDLE_H
#define MF_FORMATS_BUNDLE_H

#include "base/mem.h"
#include "tensor/tensor.h"

/* Part of a tensor: [start, start + length) in each dimension; length -1: all of it. */
typedef struct mf_slice {
    int rank;
    int64_t start[MF_MAX_RANK], length[MF_MAX_RANK];
} mf_slice;

/* Parses a text of shape_and_slices of SaveV2 and RestoreV2, "4 2 0,2:-": the shape of the full
 * tensor, and a slice of it. Fails: INVALID_ARGUMENT quoting the text. */
MF_MUST mf_status mf_slice_parse(const char *text, size_t len, mf_shape *full, mf_slice *slice);
/* The shape of that slice. Fails: INVALID_ARGUMENT (out of bounds). */
MF_MUST mf_status mf_slice_shape(const mf_slice *slice, const mf_shape *full, mf_shape *out);
bool mf_slice_is_full(const mf_slice *slice, const mf_shape *full);
/* Elements [from, to) of a tensor, in memory order, are a sequence of slices. Returns the number of
 * elements of the first slice, and its shape; call it again for the rest. */
int64_t mf_slice_of_range(const mf_shape *full, int64_t from, int64_t to, mf_slice *slice,
                          mf_shape *shape);

typedef struct mf_bundle_entry {
    const char *key; /* the tensor's name; keys of slices may contain NULs */
    size_t key_len;
    mf_dtype dtype; /* the number in the file, which may be unknown */
    mf_shape shape;
    int32_t shard;
    int64_t offset, size;
    uint32_t crc; /* masked */
    mf_slice *slices;
    int n_slices;
} mf_bundle_entry;

/* ---- reading ---- */

typedef struct mf_bundle mf_bundle;

/* Opens a file for reading, or fails if access is not allowed. The paths of a bundle's files follow
 * from names and counts, and each may be a link. NULL: allow all files. */
typedef struct mf_bundle_guard {
    mf_status (*open)(const void *ctx, const char *path, int *fd);
    const void *ctx;
} mf_bundle_guard;

/* Read the index. The guard's ctx must outlive the bundle. Fails: NOT_FOUND, DATA_LOSS,
 * UNIMPLEMENTED (big-endian), RESOURCE_EXHAUSTED, and with failures of the guard. */
MF_MUST mf_status mf_bundle_open(const char *prefix, const mf_bundle_guard *guard, mf_bundle **out);
void mf_bundle_close(mf_bundle *b);
/* Entries ordered by key, including keys of slices. */
int64_t mf_bundle_count(const mf_bundle *b);
const mf_bundle_entry *mf_bundle_entry_at(const mf_bundle *b, int64_t i);
/* NULL when absent. */
const mf_bundle_entry *mf_bundle_find(const mf_bundle *b, const char *key, size_t len);
/* The tensor of that name, or a slice of it (slice may be NULL), assembled from its stored slices.
 * Owns: *out is empty before, and stays empty on failure.
 * Fails: NOT_FOUND "Key X not found in checkpoint", DATA_LOSS (checksum, length), INVALID_ARGUMENT
 * (slice), UNIMPLEMENTED (type). */
MF_MUST mf_status mf_bundle_read(mf_bundle *b, const char *name, size_t len, const mf_slice *slice,
                                 mf_tensor *out);

/* ---- writing ---- */

typedef struct mf_bundle_writer mf_bundle_writer;

MF_MUST mf_status mf_bundle_writer_new(const char *prefix, mf_bundle_writer **out);
/* Add a tensor, or (slice != NULL) a slice of a tensor of shape `full`.
 * Fails: INVALID_ARGUMENT (duplicate name, shape), UNIMPLEMENTED (type), and as writing files does.
 */
MF_MUST mf_status mf_bundle_writer_add(mf_bundle_writer *w, const char *name, size_t len,
                                       const mf_tensor *tensor, const mf_shape *full,
                                       const mf_slice *slice);
/* Renames both files to their final names, the index last. Either both exist afterwards, or none.
 */
MF_MUST mf_status mf_bundle_writer_finish(mf_bundle_writer *w);
void mf_bundle_writer_free(mf_bundle_writer *w); /* without finish: removes the temporary files */

/* Merge several bundles into one: data files are renamed, indices merged, the old ones removed.
 * allow_missing: prefixes without an index are skipped. */
MF_MUST mf_status mf_bundle_merge(const char *const *prefixes, int64_t n, const char *to,
                                  const mf_bundle_guard *guard, bool delete_old_dirs,
                                  bool allow_missing);

/* ---- the index: shared by reader, writer and fuzzer ---- */

/* Owns: entries are allocated in the arena and refer to nothing else. */
MF_MUST mf_status mf_bundle_index_decode(const void *data, size_t len, mf_arena *arena,
                                         mf_bundle_entry **out, int64_t *n, int32_t *n_shards);
/* Entries in any order. Fails: INVALID_ARGUMENT (duplicate key). */
MF_MUST mf_status mf_bundle_index_encode(mf_bundle_entry *entries, int64_t n, int32_t n_shards,
                                         mf_buf *out);
/* The key under which a slice of a tensor is stored. */
void mf_bundle_slice_key(const char *name, size_t len, const mf_slice *slice, mf_buf *out);
MF_MUST mf_status mf_bundle_guard_open(const mf_bundle_guard *guard, const char *path, int *fd);
/* "PREFIX.data-00001-of-00004" and "PREFIX.index", allocated for the caller; NULL: no memory. */
char *mf_bundle_data_path(const char *prefix, int32_t shard, int32_t n_shards);
char *mf_bundle_index_path(const char *prefix);

#endif
