/* SPDX-License-Identifier: Apache-2.0 */
/* bundle.h - checkpoints in TensorFlow's second format, the "tensor bundle":
 *
 *   PREFIX.index                 a table (table.h): "" -> BundleHeaderProto, then
 *                                name -> BundleEntryProto, which says where the bytes stand
 *   PREFIX.data-00000-of-00002   the bytes of tensors, one after the other
 *
 * A tensor may be stored in slices, each under a key made of name and slice. */
#ifndef MF_FORMATS_BUNDLE_H
#define MF_FORMATS_BUNDLE_H

#include "base/mem.h"
#include "tensor/tensor.h"

/* Part of a tensor: [start, start + length) in each dimension; length -1: all of it. */
typedef struct mf_slice {
    int rank;
    int64_t start[MF_MAX_RANK], length[MF_MAX_RANK];
} mf_slice;

/* The shape_and_slices texts of SaveV2 and RestoreV2, "4 2 0,2:-": the whole tensor's shape, and
 * which part. INVALID_ARGUMENT quoting the text. */
MF_MUST mf_status mf_slice_parse(const char *text, size_t len, mf_shape *full, mf_slice *slice);
/* The shape of that part; INVALID_ARGUMENT when it is not inside. */
MF_MUST mf_status mf_slice_shape(const mf_slice *slice, const mf_shape *full, mf_shape *out);
bool mf_slice_is_full(const mf_slice *slice, const mf_shape *full);
/* Elements [from, to) of a tensor, in the order of memory, are slices one behind the other: the
 * first of them, and its shape. Returns how many elements it has: go on behind it. */
int64_t mf_slice_of_range(const mf_shape *full, int64_t from, int64_t to, mf_slice *slice,
                          mf_shape *shape);

typedef struct mf_bundle_entry {
    const char *key; /* the tensor's name; may hold NULs in keys of slices */
    size_t key_len;
    mf_dtype dtype; /* the file's number, which may be one we do not know */
    mf_shape shape;
    int32_t shard;
    int64_t offset, size;
    uint32_t crc; /* masked */
    mf_slice *slices;
    int n_slices;
} mf_bundle_entry;

/* ---- reading ---- */

typedef struct mf_bundle mf_bundle;

/* Opens a file to read, or says why it must not be opened. The paths of a bundle's files follow
 * from names and counts, and each may be a link to somewhere else. NULL: any file. */
typedef struct mf_bundle_guard {
    mf_status (*open)(const void *ctx, const char *path, int *fd);
    const void *ctx;
} mf_bundle_guard;

/* Read the index. The guard's ctx must live as long as the bundle. Fails: NOT_FOUND, DATA_LOSS,
 * UNIMPLEMENTED (big-endian), RESOURCE_EXHAUSTED, and as the guard does. */
MF_MUST mf_status mf_bundle_open(const char *prefix, const mf_bundle_guard *guard, mf_bundle **out);
void mf_bundle_close(mf_bundle *b);
/* Entries in the order of their keys, keys of slices among them. */
int64_t mf_bundle_count(const mf_bundle *b);
const mf_bundle_entry *mf_bundle_entry_at(const mf_bundle *b, int64_t i);
/* NULL when absent. */
const mf_bundle_entry *mf_bundle_find(const mf_bundle *b, const char *key, size_t len);
/* The tensor of that name, or a part of it (slice may be NULL), put together from however it is
 * stored. Owns: *out is empty before, and stays so on failure.
 * Fails: NOT_FOUND "Key X not found in checkpoint", DATA_LOSS (checksum, length), INVALID_ARGUMENT
 * (slice), UNIMPLEMENTED (type). */
MF_MUST mf_status mf_bundle_read(mf_bundle *b, const char *name, size_t len, const mf_slice *slice,
                                 mf_tensor *out);

/* ---- writing ---- */

typedef struct mf_bundle_writer mf_bundle_writer;

MF_MUST mf_status mf_bundle_writer_new(const char *prefix, mf_bundle_writer **out);
/* Add a tensor, or (slice != NULL) a part of a tensor of shape `full`.
 * Fails: INVALID_ARGUMENT (a name twice, shape), UNIMPLEMENTED (type), and as writing files does.
 */
MF_MUST mf_status mf_bundle_writer_add(mf_bundle_writer *w, const char *name, size_t len,
                                       const mf_tensor *tensor, const mf_shape *full,
                                       const mf_slice *slice);
/* Both files come into place under their names, the index last; or neither. */
MF_MUST mf_status mf_bundle_writer_finish(mf_bundle_writer *w);
void mf_bundle_writer_free(mf_bundle_writer *w); /* without finish: nothing is left behind */

/* One bundle out of several: data files are renamed, indices merged, the old ones removed.
 * allow_missing: prefixes without an index are skipped. */
MF_MUST mf_status mf_bundle_merge(const char *const *prefixes, int64_t n, const char *to,
                                  const mf_bundle_guard *guard, bool delete_old_dirs,
                                  bool allow_missing);

/* ---- the index by itself: what the fuzzer and the two sides share ---- */

/* Owns: entries live in the arena and refer to nothing else. */
MF_MUST mf_status mf_bundle_index_decode(const void *data, size_t len, mf_arena *arena,
                                         mf_bundle_entry **out, int64_t *n, int32_t *n_shards);
/* Entries in any order; INVALID_ARGUMENT when a key occurs twice. */
MF_MUST mf_status mf_bundle_index_encode(mf_bundle_entry *entries, int64_t n, int32_t n_shards,
                                         mf_buf *out);
/* The key under which a slice of a tensor is stored. */
void mf_bundle_slice_key(const char *name, size_t len, const mf_slice *slice, mf_buf *out);
MF_MUST mf_status mf_bundle_guard_open(const mf_bundle_guard *guard, const char *path, int *fd);
/* "PREFIX.data-00001-of-00004" and "PREFIX.index", in fresh memory; NULL: no memory. */
char *mf_bundle_data_path(const char *prefix, int32_t shard, int32_t n_shards);
char *mf_bundle_index_path(const char *prefix);

#endif
