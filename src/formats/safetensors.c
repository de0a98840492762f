/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - reads safetensors files. The file is untrusted: sizes are checked against the
 * size of the file before memory is allocated. */
#include "formats/safetensors.h"

#include "base/file.h"
#include "formats/safetensors_types.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are little-endian");

enum { LENGTH = 8, MAX_HEADER = 100000000 };

struct mf_safetensors {
    mf_arena *arena;
    const char *path;
    int fd;
    int64_t data; /* where the elements begin */
    mf_safetensor *tensors;
    int64_t n;
};

/* ---- the header ---- */

static mf_status safetensors_decode_shape(const json_t *list, mf_shape *out)
{
    int64_t dims[MF_MAX_RANK];
    const size_t rank = json_array_size(list);

    if (!json_is_array(list))
        return MF_FAIL(MF_DATA_LOSS, "its shape is not a list");
    if (rank > MF_MAX_RANK)
        return MF_FAIL(MF_UNIMPLEMENTED, "it has %zu dimensions, more than %d", rank, MF_MAX_RANK);
    for (size_t d = 0; d < rank; d++) {
        const json_t *dim = json_array_get(list, d);

        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return MF_FAIL(MF_DATA_LOSS, "dimension %zu is invalid", d);
        dims[d] = json_integer_value(dim);
    }
    return mf_shape_from_dims(dims, (int64_t)rank, out);
}

static mf_status decode_offsets(const json_t *list, int64_t data_bytes, mf_safetensor *t)
{
    const json_t *begin = json_array_get(list, 0), *end = json_array_get(list, 1);
    int64_t count, bytes;

    if (json_array_size(list) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return MF_FAIL(MF_DATA_LOSS, "its data_offsets are not two numbers");
    t->offset = json_integer_value(begin);
    t->size = json_integer_value(end);
    if (t->offset < 0 || t->size < t->offset || t->size > data_bytes)
        return MF_FAIL(MF_DATA_LOSS, "its bytes %lld to %lld are outside the data of %lld bytes",
                       (long long)t->offset, (long long)t->size, (long long)data_bytes);
    t->size -= t->offset;
    MF_TRY(mf_shape_count(&t->shape, &count));
    if (!mf_mul_i64(count, (int64_t)mf_dtype_size(t->dtype), &bytes) || bytes != t->size)
        return MF_FAIL(MF_DATA_LOSS, "%lld bytes for %lld elements of type %s", (long long)t->size,
                       (long long)count, mf_dtype_name(t->dtype));
    return MF_OK;
}

static mf_status safetensors_decode_tensor(const json_t *value, int64_t data_bytes,
                                           mf_safetensor *t)
{
    const char *dtype = json_string_value(json_object_get(value, "dtype"));

    if (!json_is_object(value) || !dtype)
        return MF_FAIL(MF_DATA_LOSS, "it has no type");
    for (int i = 0; i < MF_COUNT(mf_safetensors_types); i++) {
        if (strcmp(mf_safetensors_types[i].name, dtype) == 0)
            t->dtype = mf_safetensors_types[i].dtype;
    }
    if (t->dtype == MF_DTYPE_INVALID)
        return MF_FAIL(MF_UNIMPLEMENTED, "type '%.20s' is not supported", dtype);
    MF_TRY(safetensors_decode_shape(json_object_get(value, "shape"), &t->shape));
    return decode_offsets(json_object_get(value, "data_offsets"), data_bytes, t);
}

static mf_status decode_text(const json_t *value, mf_arena *arena, mf_safetensor *t)
{
    if (!json_is_string(value))
        return MF_FAIL(MF_DATA_LOSS, "metadata is not text");
    t->dtype = MF_DTYPE_STRING;
    t->text_len = json_string_length(value);
    t->text = mf_arena_strndup(arena, json_string_value(value), t->text_len);
    return t->text ? MF_OK : MF_NOMEM("a safetensors header");
}

static int safetensors_by_name(const void *a, const void *b)
{
    return strcmp(((const mf_safetensor *)a)->name, ((const mf_safetensor *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
    const mf_safetensor *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size); /* empty ones first */
}

/* Sorts, and checks that tensors are contiguous and names unique. */
static mf_status check_all(mf_safetensor *all, int64_t n, int64_t data_bytes)
{
    int64_t at = 0;

    if (n > 1)
        qsort(all, (size_t)n, sizeof *all, by_offset);
    for (int64_t i = 0; i < n; i++) {
        if (all[i].text)
            continue;
        if (all[i].offset != at)
            return MF_FAIL(MF_DATA_LOSS,
                           "tensor '%.200s' begins at %lld, not at the end of "
                           "another one",
                           all[i].name, (long long)all[i].offset);
        at += all[i].size;
    }
    if (at != data_bytes)
        return MF_FAIL(MF_DATA_LOSS, "the tensors have %lld bytes, the file has %lld",
                       (long long)at, (long long)data_bytes);
    if (n > 1)
        qsort(all, (size_t)n, sizeof *all, safetensors_by_name);
    for (int64_t i = 1; i < n; i++) {
        if (strcmp(all[i - 1].name, all[i].name) == 0)
            return MF_FAIL(MF_DATA_LOSS, "the name '%.200s' occurs twice", all[i].name);
    }
    return MF_OK;
}

/* The entries of one JSON object: the header, or (text) its metadata. */
static mf_status safetensors_decode_entries(json_t *object, bool text, int64_t data_bytes,
                                            mf_arena *arena, mf_safetensor *all, int64_t *n)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        mf_safetensor *t = &all[*n];
        mf_status st;

        if (!text && strcmp(name, MF_SAFETENSORS_METADATA) == 0)
            continue;
        t->name = mf_arena_strdup(arena, name);
        if (!t->name)
            return MF_NOMEM("a safetensors header");
        st = text ? decode_text(value, arena, t) : safetensors_decode_tensor(value, data_bytes, t);
        if (st != MF_OK)
            return mf_error_wrap(mf_error_wrap(mf_error_wrap(st, "': ", ""), name, ""), "tensor '",
                                 "");
        (*n)++;
    }
    return MF_OK;
}

static mf_status safetensors_decode_root(json_t *root, int64_t data_bytes, mf_arena *arena,
                                         mf_safetensor **out, int64_t *n)
{
    json_t *metadata = json_object_get(root, MF_SAFETENSORS_METADATA);
    mf_safetensor *all;

    if (!json_is_object(root) || (metadata && !json_is_object(metadata)))
        return MF_FAIL(MF_DATA_LOSS, "the header is not an object");
    all = MF_ARENA_ARRAY(arena, mf_safetensor,
                         (int64_t)(json_object_size(root) + json_object_size(metadata)) + 1);
    if (!all)
        return MF_NOMEM("a safetensors header");
    MF_TRY(safetensors_decode_entries(root, false, data_bytes, arena, all, n));
    if (metadata)
        MF_TRY(safetensors_decode_entries(metadata, true, data_bytes, arena, all, n));
    *out = all;
    return check_all(all, *n, data_bytes);
}

mf_status mf_safetensors_decode(const char *json, size_t len, int64_t data_bytes, mf_arena *arena,
                                mf_safetensor **out, int64_t *n)
{
    json_error_t error;
    json_t *root;
    mf_status st;

    *out = NULL;
    *n = 0;
    if (len == 0 || json[0] != '{') /* required by the format; jansson would accept leading
                                       spaces */
        return MF_FAIL(MF_DATA_LOSS, "the header does not begin with '{'");
    root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return MF_FAIL(MF_DATA_LOSS, "the header is not valid JSON: %s at byte %d", error.text,
                       error.position);
    st = safetensors_decode_root(root, data_bytes, arena, out, n);
    json_decref(root);
    return st;
}

/* ---- the file ---- */

static mf_status safetensors_read_at(const mf_safetensors *s, void *to, size_t len, int64_t at)
{
    char *p = to;

    while (len > 0) {
        const ssize_t n = pread(s->fd, p, len, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return mf_errno_status(errno, "read", s->path);
        if (n == 0)
            return MF_FAIL(MF_DATA_LOSS, "'%s' is truncated", s->path);
        p += n;
        len -= (size_t)n;
        at += n;
    }
    return MF_OK;
}

static mf_status safetensors_read_header(mf_safetensors *s)
{
    struct stat info;
    uint64_t len;
    char *json;
    mf_status st;

    if (fstat(s->fd, &info) != 0)
        return mf_errno_status(errno, "inspect", s->path);
    if (S_ISDIR(info.st_mode))
        return mf_errno_status(EISDIR, "read", s->path);
    MF_TRY(safetensors_read_at(s, &len, LENGTH, 0));
    if (len > MAX_HEADER || (int64_t)len > info.st_size - LENGTH)
        return MF_FAIL(MF_DATA_LOSS, "a header of %llu bytes in a file of %lld",
                       (unsigned long long)len, (long long)info.st_size);
    s->data = LENGTH + (int64_t)len;
    json = mf_calloc((int64_t)len + 1, 1);
    if (!json)
        return MF_NOMEM("a safetensors header");
    st = safetensors_read_at(s, json, len, LENGTH);
    if (st == MF_OK)
        st = mf_safetensors_decode(json, len, info.st_size - s->data, s->arena, &s->tensors, &s->n);
    mf_free(json);
    return st;
}

mf_status mf_safetensors_open(const char *path, mf_safetensors **out)
{
    mf_safetensors *s = mf_calloc(1, sizeof *s);
    mf_status st = MF_OK;

    *out = NULL;
    if (!s)
        return MF_NOMEM("a safetensors file");
    s->fd = -1;
    s->arena = mf_arena_new();
    if (s->arena)
        s->path = mf_arena_strdup(s->arena, path);
    if (!s->path) {
        mf_safetensors_close(s);
        return MF_NOMEM("a safetensors file");
    }
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0)
        st = mf_errno_status(errno, "open", path);
    else if ((st = safetensors_read_header(s)) != MF_OK)
        st = mf_error_wrap(mf_error_wrap(st, ": ", ""), path, "");
    if (st == MF_OK)
        *out = s;
    else
        mf_safetensors_close(s);
    return st;
}

void mf_safetensors_close(mf_safetensors *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        (void)close(s->fd);
    mf_arena_free(s->arena);
    mf_free(s);
}

int64_t mf_safetensors_count(const mf_safetensors *s)
{
    return s->n;
}

const mf_safetensor *mf_safetensors_at(const mf_safetensors *s, int64_t i)
{
    MF_ASSERT(i >= 0 && i < s->n);
    return &s->tensors[i];
}

mf_status mf_safetensors_read(mf_safetensors *s, int64_t i, mf_tensor *out)
{
    const mf_safetensor *t = mf_safetensors_at(s, i);
    mf_status st;

    MF_TRY(mf_tensor_alloc(out, t->dtype, &t->shape));
    if (t->text)
        st = mf_string_set(out->data, t->text, t->text_len);
    else
        st = safetensors_read_at(s, out->data, (size_t)t->size, s->data + t->offset);
    if (st != MF_OK)
        mf_tensor_clear(out);
    return st;
}
