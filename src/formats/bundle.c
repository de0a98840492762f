/* SPDX-License-Identifier: Apache-2.0 */
/* bundle.c - reads checkpoints in TensorFlow's bundle format. The files are untrusted: sizes are
 * checked against the size of the files before memory is allocated, and every byte that is used is
 * covered by a checksum. */
#include "formats/bundle.h"

#include "base/file.h"
#include "formats/crc32c.h"
#include "formats/table.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct mf_bundle {
    mf_arena *arena;
    const char *prefix;
    mf_bundle_guard guard;
    mf_bundle_entry *entries;
    int64_t n;
    int32_t n_shards;
    int *files; /* one per shard; -1: not open yet */
};

mf_status mf_bundle_guard_open(const mf_bundle_guard *guard, const char *path, int *fd)
{
    if (guard && guard->open)
        return guard->open(guard->ctx, path, fd);
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    return *fd < 0 ? mf_errno_status(errno, "open", path) : MF_OK;
}

static mf_status open_index(mf_bundle *b, const char *path)
{
    char *data = NULL;
    size_t len = 0;
    int fd;
    mf_status st = mf_bundle_guard_open(&b->guard, path, &fd);

    if (st == MF_OK)
        st = mf_file_read_fd(fd, path, (size_t)1 << 30, &data, &len);
    if (st == MF_OK) {
        /* Keys share prefixes, so an index may expand when decoded, but only within this limit. */
        mf_arena_limit(b->arena, ((size_t)64 << 20) + 64 * len);
        st = mf_bundle_index_decode(data, len, b->arena, &b->entries, &b->n, &b->n_shards);
        if (st != MF_OK)
            st = mf_error_wrap(mf_error_wrap(st, ": ", ""), path, "");
    }
    mf_free(data);
    return st;
}

mf_status mf_bundle_open(const char *prefix, const mf_bundle_guard *guard, mf_bundle **out)
{
    char *path = mf_bundle_index_path(prefix);
    mf_bundle *b = mf_calloc(1, sizeof *b);
    mf_status st = MF_OK;

    *out = NULL;
    if (b)
        *b = (mf_bundle){ .arena = mf_arena_new(),
                          .guard = guard ? *guard : (mf_bundle_guard){ 0 } };
    if (!path || !b || !b->arena || !(b->prefix = mf_arena_strdup(b->arena, prefix)))
        st = MF_NOMEM("a checkpoint");
    else
        st = open_index(b, path);
    if (st == MF_OK) {
        b->files = MF_ARENA_ARRAY(b->arena, int, b->n_shards + 1);
        if (!b->files)
            st = MF_NOMEM("a checkpoint");
    }
    for (int32_t i = 0; st == MF_OK && i < b->n_shards; i++)
        b->files[i] = -1;
    if (st == MF_OK)
        *out = b;
    else
        mf_bundle_close(b);
    mf_free(path);
    return st;
}

void mf_bundle_close(mf_bundle *b)
{
    if (!b)
        return;
    for (int32_t i = 0; b->files && i < b->n_shards; i++) {
        if (b->files[i] >= 0)
            (void)close(b->files[i]);
    }
    mf_arena_free(b->arena);
    mf_free(b);
}

int64_t mf_bundle_count(const mf_bundle *b)
{
    return b->n;
}

const mf_bundle_entry *mf_bundle_entry_at(const mf_bundle *b, int64_t i)
{
    return &b->entries[i];
}

const mf_bundle_entry *mf_bundle_find(const mf_bundle *b, const char *key, size_t len)
{
    int64_t lo = 0, hi = b->n;

    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        const mf_bundle_entry *e = &b->entries[mid];
        const size_t n = e->key_len < len ? e->key_len : len;
        int c = n > 0 ? memcmp(e->key, key, n) : 0;

        if (c == 0)
            c = (e->key_len > len) - (e->key_len < len);
        if (c == 0)
            return e;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* ---- the bytes of an entry ---- */

static mf_status open_shard(mf_bundle *b, int32_t shard, const char *path)
{
    if (b->files[shard] >= 0)
        return MF_OK;
    return mf_bundle_guard_open(&b->guard, path, &b->files[shard]);
}

static mf_status shard_file(mf_bundle *b, const mf_bundle_entry *e, int *fd)
{
    char *path = mf_bundle_data_path(b->prefix, e->shard, b->n_shards);
    struct stat info;
    mf_status st;

    *fd = -1;
    if (!path)
        return MF_NOMEM("a file name");
    st = open_shard(b, e->shard, path);
    *fd = b->files[e->shard];
    if (st != MF_OK)
        *fd = -1;
    else if (fstat(*fd, &info) != 0)
        st = mf_errno_status(errno, "inspect", path);
    else if (e->offset > info.st_size || e->size > info.st_size - e->offset)
        st = MF_FAIL(MF_DATA_LOSS, "'%s' has %lld bytes, but %lld are to be read at %lld", path,
                     (long long)info.st_size, (long long)e->size, (long long)e->offset);
    mf_free(path);
    return st;
}

static mf_status bundle_read_at(int fd, char *to, size_t len, off_t at)
{
    while (len > 0) {
        const ssize_t n = pread(fd, to, len, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return MF_FAIL(MF_DATA_LOSS, "cannot read a checkpoint's data: %s",
                           n < 0 ? strerror(errno) : "it ends too early");
        to += n;
        len -= (size_t)n;
        at += n;
    }
    return MF_OK;
}

static mf_status check_crc(const mf_bundle_entry *e, uint32_t crc)
{
    if (mf_crc32c_mask(crc) == e->crc)
        return MF_OK;
    return MF_FAIL(MF_DATA_LOSS,
                   "tensor '%.200s': Checksum does not match: stored %u vs. calculated on the "
                   "restored bytes %u",
                   e->key, e->crc, mf_crc32c_mask(crc));
}

/* Lengths as varints, a masked checksum of the lengths, then the strings. *text: the position of
 * the checksum. */
static mf_status strings_check(const mf_bundle_entry *e, const char *p, const char *end,
                               int64_t count, const char **text)
{
    uint32_t crc = 0, stored;

    for (int64_t i = 0; i < count; i++) {
        uint32_t narrow;
        uint64_t len;

        if (!mf_varint_read(&p, end, &len) || len > (uint64_t)(end - p))
            return MF_FAIL(MF_DATA_LOSS, "tensor '%.200s': bad length of a string", e->key);
        narrow = (uint32_t)len;
        crc = len <= UINT32_MAX ? mf_crc32c(crc, &narrow, 4) : mf_crc32c(crc, &len, 8);
    }
    if (end - p < 4)
        return MF_FAIL(MF_DATA_LOSS, "tensor '%.200s': its strings are cut off", e->key);
    memcpy(&stored, p, 4);
    if (stored != mf_crc32c_mask(crc))
        return MF_FAIL(MF_DATA_LOSS, "tensor '%.200s': the lengths' checksum does not match",
                       e->key);
    *text = p;
    return check_crc(e, mf_crc32c(crc, p, (size_t)(end - p)));
}

static mf_status strings_decode(const mf_bundle_entry *e, const char *p, const char *end,
                                mf_tensor *t)
{
    mf_string *s = t->data;
    const char *text = p;

    MF_TRY(strings_check(e, p, end, t->count, &text));
    text += 4;
    for (int64_t i = 0; i < t->count; i++) {
        uint64_t len = 0;

        (void)mf_varint_read(&p, end, &len);
        if (len > (uint64_t)(end - text))
            return MF_FAIL(MF_DATA_LOSS, "tensor '%.200s': its strings are cut off", e->key);
        MF_TRY(mf_string_set(&s[i], text, len));
        text += len;
    }
    if (text != end)
        return MF_FAIL(MF_DATA_LOSS, "tensor '%.200s': bytes behind its strings", e->key);
    return MF_OK;
}

static mf_status bundle_read_strings(const mf_bundle_entry *e, int fd, mf_tensor *t)
{
    char *bytes;
    mf_status st;

    bytes = mf_calloc(e->size + 1, 1);
    if (!bytes)
        return MF_NOMEM("the strings of a checkpoint");
    st = bundle_read_at(fd, bytes, (size_t)e->size, e->offset);
    if (st == MF_OK)
        st = strings_decode(e, bytes, bytes + e->size, t);
    mf_free(bytes);
    return st;
}

static mf_status bundle_check_entry(const mf_bundle_entry *e)
{
    int64_t count, bytes;

    if (!mf_dtype_is_valid((int)e->dtype) ||
        (!mf_dtype_is_plain(e->dtype) && e->dtype != MF_DTYPE_STRING))
        return MF_FAIL(MF_UNIMPLEMENTED, "tensor '%.200s' is of type %d, which cannot be restored",
                       e->key, (int)e->dtype);
    MF_TRY(mf_shape_count(&e->shape, &count));
    if (e->dtype == MF_DTYPE_STRING) {
        if (count > e->size)
            return MF_FAIL(MF_DATA_LOSS, "tensor '%.200s': %lld bytes for %lld strings", e->key,
                           (long long)e->size, (long long)count);
    } else if (!mf_mul_i64(count, (int64_t)mf_dtype_size(e->dtype), &bytes) || bytes != e->size) {
        return MF_FAIL(MF_DATA_LOSS, "tensor '%.200s': %lld bytes for %lld elements of type %s",
                       e->key, (long long)e->size, (long long)count, mf_dtype_name(e->dtype));
    }
    return MF_OK;
}

static mf_status bundle_read_entry(mf_bundle *b, const mf_bundle_entry *e, mf_tensor *out)
{
    mf_status st;
    int fd;

    MF_TRY(bundle_check_entry(e));
    MF_TRY(shard_file(b, e, &fd));
    MF_TRY(mf_tensor_alloc(out, e->dtype, &e->shape));
    if (e->dtype == MF_DTYPE_STRING) {
        st = bundle_read_strings(e, fd, out);
    } else {
        st = bundle_read_at(fd, out->data, (size_t)e->size, e->offset);
        if (st == MF_OK)
            st = check_crc(e, mf_crc32c(0, out->data, (size_t)e->size));
    }
    if (st != MF_OK)
        mf_tensor_clear(out);
    return st;
}

/* ---- parts ---- */

/* Start and length of a slice in dimension d. */
static void bundle_extent(const mf_slice *s, const mf_shape *full, int d, int64_t *start,
                          int64_t *len)
{
    *start = s && s->length[d] >= 0 ? s->start[d] : 0;
    *len = s && s->length[d] >= 0 ? s->length[d] : full->dims[d];
}

/* Copy the intersection of two slices of a tensor; *n: its number of elements. */
static mf_status copy_common(mf_tensor *dst, const mf_slice *to, const mf_tensor *src,
                             const mf_slice *from, const mf_shape *full, int64_t *n)
{
    int64_t begin[2][MF_MAX_RANK], size[MF_MAX_RANK], rows = 1;
    const int rank = full->rank;
    const int64_t run_dim = rank - 1;

    MF_ASSERT(rank >= 0);
    for (int d = 0; d < rank; d++) {
        int64_t a, a_len, b, b_len, lo, hi;

        bundle_extent(to, full, d, &a, &a_len);
        bundle_extent(from, full, d, &b, &b_len);
        lo = a > b ? a : b;
        hi = a + a_len < b + b_len ? a + a_len : b + b_len;
        size[d] = hi > lo ? hi - lo : 0;
        begin[0][d] = lo - a;
        begin[1][d] = lo - b;
        if (d < run_dim)
            rows *= size[d];
    }
    const int64_t run = rank > 0 ? size[run_dim] : 1;

    *n = rows * run;
    for (int64_t r = 0; *n > 0 && r < rows; r++) {
        int64_t rest = r, at[2] = { 0, 0 }, step[2] = { 1, 1 };

        for (int d = rank - 1; d >= 0; d--) {
            const int64_t i = d < run_dim ? rest % size[d] : 0;

            if (d < run_dim)
                rest /= size[d];
            at[0] += (begin[0][d] + i) * step[0];
            at[1] += (begin[1][d] + i) * step[1];
            step[0] *= dst->shape.dims[d];
            step[1] *= src->shape.dims[d];
        }
        MF_TRY(mf_cells_copy(dst->dtype, dst->data, at[0], src->data, at[1], run));
    }
    return MF_OK;
}

/* Copy one stored slice of tensor `e` into the requested part. */
static mf_status bundle_add_slice(mf_bundle *b, const mf_bundle_entry *e, const mf_slice *stored,
                                  const mf_slice *asked, mf_tensor *out, int64_t *n)
{
    const mf_bundle_entry *part;
    mf_tensor t = { 0 };
    mf_shape shape;
    mf_buf key = { 0 };
    mf_status st;

    mf_bundle_slice_key(e->key, e->key_len, stored, &key);
    MF_TRY_TO(done, mf_buf_finish(&key));
    part = mf_bundle_find(b, key.data, key.len);
    MF_TRY_TO(done, mf_slice_shape(stored, &e->shape, &shape));
    if (!part || part->dtype != e->dtype || !mf_shape_equal(&part->shape, &shape)) {
        st = MF_FAIL(MF_DATA_LOSS, "tensor '%.200s': one of its slices is missing or different",
                     e->key);
        goto done;
    }
    MF_TRY_TO(done, bundle_read_entry(b, part, &t));
    st = copy_common(out, asked, &t, stored, &e->shape, n);
done:
    mf_buf_deinit(&key);
    mf_tensor_clear(&t);
    return st;
}

/* A stored slice that does not intersect the requested part need not be read. */
static bool is_disjoint(const mf_slice *a, const mf_slice *b, const mf_shape *full)
{
    for (int d = 0; d < full->rank; d++) {
        int64_t x, x_len, y, y_len;

        bundle_extent(a, full, d, &x, &x_len);
        bundle_extent(b, full, d, &y, &y_len);
        if (x + x_len <= y || y + y_len <= x)
            return true;
    }
    return false;
}

static mf_status read_slices(mf_bundle *b, const mf_bundle_entry *e, const mf_slice *asked,
                             mf_tensor *out)
{
    int64_t have = 0, n;

    if (mf_dtype_is_plain(out->dtype) && out->count > 0) /* slices of an untrusted file may leave
                                                            gaps */
        memset(out->data, 0, (size_t)out->count * mf_dtype_cell(out->dtype));
    for (int i = 0; i < e->n_slices; i++) {
        if (is_disjoint(&e->slices[i], asked, &e->shape))
            continue;
        MF_TRY(bundle_add_slice(b, e, &e->slices[i], asked, out, &n));
        have += n;
    }
    if (have < out->count)
        return MF_FAIL(MF_DATA_LOSS, "tensor '%.200s': its slices cover %lld of %lld elements",
                       e->key, (long long)have, (long long)out->count);
    return MF_OK;
}

/* Storage for a sliced tensor is allocated only if the entries of its slices could hold that much.
 */
static mf_status alloc_sliced(const mf_bundle *b, const mf_bundle_entry *e, const mf_shape *shape,
                              mf_tensor *out)
{
    int64_t total = 0, count, bytes;

    for (int64_t i = 0; i < b->n; i++) {
        if (!mf_add_i64(total, b->entries[i].size, &total))
            total = INT64_MAX;
    }
    MF_TRY(mf_shape_count(shape, &count));
    if (!mf_dtype_is_valid((int)e->dtype) ||
        (!mf_dtype_is_plain(e->dtype) && e->dtype != MF_DTYPE_STRING))
        return MF_FAIL(MF_UNIMPLEMENTED, "tensor '%.200s' is of type %d, which cannot be restored",
                       e->key, (int)e->dtype);
    bytes = e->dtype == MF_DTYPE_STRING ? 1 : (int64_t)mf_dtype_size(e->dtype);
    if (!mf_mul_i64(count, bytes, &bytes) || bytes > total)
        return MF_FAIL(MF_DATA_LOSS, "tensor '%.200s' is larger than the complete checkpoint",
                       e->key);
    return mf_tensor_alloc(out, e->dtype, shape);
}

static mf_status bundle_read_part(mf_bundle *b, const mf_bundle_entry *e, const mf_slice *slice,
                                  mf_tensor *out)
{
    mf_tensor all = { 0 };
    mf_shape shape = e->shape;
    mf_status st;
    int64_t n;

    if (slice)
        MF_TRY(mf_slice_shape(slice, &e->shape, &shape));
    if (e->n_slices > 0) {
        MF_TRY(alloc_sliced(b, e, &shape, out));
        return read_slices(b, e, slice, out);
    }
    if (mf_shape_equal(&shape, &e->shape))
        return bundle_read_entry(b, e, out);
    MF_TRY_TO(done, bundle_read_entry(b, e, &all));
    MF_TRY_TO(done, mf_tensor_alloc(out, e->dtype, &shape));
    st = copy_common(out, slice, &all, NULL, &e->shape, &n);
done:
    mf_tensor_clear(&all);
    return st;
}

mf_status mf_bundle_read(mf_bundle *b, const char *name, size_t len, const mf_slice *slice,
                         mf_tensor *out)
{
    const mf_bundle_entry *e = mf_bundle_find(b, name, len);
    mf_status st;

    if (!e)
        return MF_FAIL(MF_NOT_FOUND, "Key %.*s not found in checkpoint",
                       (int)(len < 500 ? len : 500), name);
    st = bundle_read_part(b, e, slice, out);
    if (st != MF_OK)
        mf_tensor_clear(out);
    return st;
}
