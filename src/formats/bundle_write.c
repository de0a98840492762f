/* SPDX-License-Identifier: Apache-2.0 */
/* bundle_write.c - writes and merges checkpoints in TensorFlow's bundle format (bundle.h). Data
 * goes to a temporary file; files are renamed only when all data is on disk, and the index, which
 * makes the checkpoint exist, comes last. */
#include "base/file.h"
#include "formats/bundle.h"
#include "formats/crc32c.h"
#include "formats/table.h"
#include "observe/status_page.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct bundle_write_entry_list {
    mf_bundle_entry *items;
    int64_t n, cap;
} bundle_write_entry_list;

struct mf_bundle_writer {
    mf_arena *arena; /* keys and slices */
    char *index_path, *data_path, *temporary;
    int fd, act;
    int64_t offset;
    bundle_write_entry_list entries;
};

/* ---- files ---- */

mf_status mf_bundle_writer_new(const char *prefix, mf_bundle_writer **out)
{
    mf_bundle_writer *w = mf_calloc(1, sizeof *w);
    mf_status st;

    *out = NULL;
    if (!w)
        return MF_NOMEM("a checkpoint");
    w->fd = w->act = -1;
    w->arena = mf_arena_new();
    w->index_path = mf_bundle_index_path(prefix);
    w->data_path = mf_bundle_data_path(prefix, 0, 1);
    if (!w->arena || !w->index_path || !w->data_path) {
        mf_bundle_writer_free(w);
        return MF_NOMEM("a checkpoint");
    }
    w->act = mf_status_page_act_begin(MF_ACT_WRITE, w->data_path);
    st = mf_file_temporary(w->data_path, &w->temporary, &w->fd);
    if (st != MF_OK) {
        mf_bundle_writer_free(w);
        return st;
    }
    *out = w;
    return MF_OK;
}

void mf_bundle_writer_free(mf_bundle_writer *w)
{
    if (!w)
        return;
    mf_status_page_act_end(w->act);
    if (w->fd >= 0) {
        (void)close(w->fd);
        (void)unlink(w->temporary);
    }
    mf_free(w->entries.items);
    mf_free(w->index_path);
    mf_free(w->data_path);
    mf_free(w->temporary);
    mf_arena_free(w->arena);
    mf_free(w);
}

static mf_status bundle_write_append(mf_bundle_writer *w, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        const ssize_t n = write(w->fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return mf_errno_status(errno, "write", w->data_path);
        p += n;
        len -= (size_t)n;
        w->offset += n;
    }
    return MF_OK;
}

mf_status mf_bundle_writer_finish(mf_bundle_writer *w)
{
    mf_buf index = { 0 };
    mf_status st;

    MF_TRY_TO(done, mf_bundle_index_encode(w->entries.items, w->entries.n, 1, &index));
    MF_TRY_TO(done, mf_buf_finish(&index));
    if (fsync(w->fd) != 0) {
        st = mf_errno_status(errno, "fsync", w->data_path);
        goto done;
    }
    if (rename(w->temporary, w->data_path) != 0) {
        st = mf_errno_status(errno, "rename to", w->data_path);
        goto done;
    }
    (void)close(w->fd);
    w->fd = -1;
    st = mf_file_write(w->index_path, index.data, index.len);
    if (st != MF_OK && access(w->index_path, F_OK) != 0)
        (void)unlink(w->data_path); /* without an index it belongs to no checkpoint */
done:
    mf_buf_deinit(&index);
    return st;
}

/* ---- tensors ---- */

static mf_status write_strings(mf_bundle_writer *w, const mf_tensor *t, uint32_t *crc)
{
    const mf_string *s = t->data;
    mf_buf lengths = { 0 };
    uint32_t sum = 0, stored;
    mf_status st;

    for (int64_t i = 0; i < t->count; i++) {
        const uint64_t len = s[i].len;
        const uint32_t narrow = (uint32_t)len;

        mf_varint_write(&lengths, len);
        sum = len <= UINT32_MAX ? mf_crc32c(sum, &narrow, 4) : mf_crc32c(sum, &len, 8);
    }
    stored = mf_crc32c_mask(sum);
    mf_buf_bytes(&lengths, &stored, 4);
    sum = mf_crc32c(sum, &stored, 4);
    MF_TRY_TO(done, mf_buf_finish(&lengths));
    MF_TRY_TO(done, bundle_write_append(w, lengths.data, lengths.len));
    for (int64_t i = 0; i < t->count; i++) {
        sum = mf_crc32c(sum, s[i].data, s[i].len);
        MF_TRY_TO(done, bundle_write_append(w, s[i].data, s[i].len));
    }
    *crc = sum;
done:
    mf_buf_deinit(&lengths);
    return st;
}

static mf_status bundle_write_tensor(mf_bundle_writer *w, const mf_tensor *t, mf_bundle_entry *e)
{
    uint32_t crc = 0;

    e->offset = w->offset;
    if (t->dtype == MF_DTYPE_STRING) {
        MF_TRY(write_strings(w, t, &crc));
    } else {
        const size_t bytes = (size_t)t->count * mf_dtype_size(t->dtype);

        crc = mf_crc32c(0, t->data, bytes);
        MF_TRY(bundle_write_append(w, t->data, bytes));
    }
    e->size = w->offset - e->offset;
    e->crc = mf_crc32c_mask(crc);
    return MF_OK;
}

/* A new entry with a copy of the key. */
static mf_status list_add(bundle_write_entry_list *list, mf_arena *arena, const char *key,
                          size_t len, mf_bundle_entry **out)
{
    mf_bundle_entry *e;

    MF_TRY(mf_grow(&list->items, &list->cap, list->n + 1, sizeof *list->items));
    e = &list->items[list->n];
    *e = (mf_bundle_entry){ .key = mf_arena_strndup(arena, key, len), .key_len = len };
    if (!e->key)
        return MF_NOMEM("a checkpoint's index");
    list->n++;
    *out = e;
    return MF_OK;
}

static mf_bundle_entry *list_find(const bundle_write_entry_list *list, const char *key, size_t len)
{
    for (int64_t i = 0; i < list->n; i++) {
        mf_bundle_entry *e = &list->items[i];

        if (e->key_len == len && memcmp(e->key, key, len) == 0)
            return e;
    }
    return NULL;
}

static mf_status add_slices(mf_bundle_entry *e, mf_arena *arena, const mf_slice *more, int n)
{
    mf_slice *all = MF_ARENA_ARRAY(arena, mf_slice, e->n_slices + n);

    if (!all)
        return MF_NOMEM("a checkpoint's index");
    if (e->n_slices > 0)
        memcpy(all, e->slices, (size_t)e->n_slices * sizeof *all);
    memcpy(all + e->n_slices, more, (size_t)n * sizeof *all);
    e->slices = all;
    e->n_slices += n;
    return MF_OK;
}

/* The entry of a full tensor that is stored in slices. */
static mf_status sliced_entry(bundle_write_entry_list *list, mf_arena *arena, const char *name,
                              size_t len, mf_dtype dtype, const mf_shape *shape,
                              mf_bundle_entry **out)
{
    *out = list_find(list, name, len);
    if (!*out) {
        MF_TRY(list_add(list, arena, name, len, out));
        (*out)->dtype = dtype;
        (*out)->shape = *shape;
        return MF_OK;
    }
    if ((*out)->n_slices == 0 || (*out)->dtype != dtype || !mf_shape_equal(&(*out)->shape, shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "tensor '%.200s' occurs twice, with different types or shapes", name);
    return MF_OK;
}

static mf_status bundle_write_add_part(mf_bundle_writer *w, const char *name, size_t len,
                                       const mf_tensor *t, const mf_shape *full,
                                       const mf_slice *slice)
{
    char want[MF_SHAPE_TEXT], have[MF_SHAPE_TEXT];
    mf_buf key = { 0 };
    mf_bundle_entry *e;
    mf_shape shape;
    mf_status st;

    MF_TRY(mf_slice_shape(slice, full, &shape));
    if (!mf_shape_equal(&shape, &t->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Slice in shape_and_slice specification has shape %s, which does not match "
                       "the shape of the tensor to save: %s",
                       mf_shape_text(&shape, want), mf_shape_text(&t->shape, have));
    MF_TRY(sliced_entry(&w->entries, w->arena, name, len, t->dtype, full, &e));
    MF_TRY(add_slices(e, w->arena, slice, 1));
    mf_bundle_slice_key(name, len, slice, &key);
    st = mf_buf_finish(&key);
    if (st == MF_OK)
        st = mf_bundle_writer_add(w, key.data, key.len, t, NULL, NULL);
    mf_buf_deinit(&key);
    return st;
}

mf_status mf_bundle_writer_add(mf_bundle_writer *w, const char *name, size_t len,
                               const mf_tensor *tensor, const mf_shape *full, const mf_slice *slice)
{
    mf_bundle_entry *e;

    if (!mf_dtype_is_plain(tensor->dtype) && tensor->dtype != MF_DTYPE_STRING)
        return MF_FAIL(MF_UNIMPLEMENTED, "tensors of type %s cannot be saved",
                       mf_dtype_name(tensor->dtype));
    if (slice && !mf_slice_is_full(slice, full))
        return bundle_write_add_part(w, name, len, tensor, full, slice);
    MF_TRY(list_add(&w->entries, w->arena, name, len, &e));
    e->dtype = tensor->dtype;
    e->shape = tensor->shape;
    return bundle_write_tensor(w, tensor, e);
}

/* ---- merging ---- */

typedef struct bundle_write_merge {
    mf_arena *arena;
    bundle_write_entry_list entries;
    int32_t shards; /* of all inputs so far */
} bundle_write_merge;

static mf_status merge_entry(bundle_write_merge *m, const mf_bundle_entry *from)
{
    mf_bundle_entry *e;

    if (from->n_slices > 0) {
        MF_TRY(sliced_entry(&m->entries, m->arena, from->key, from->key_len, from->dtype,
                            &from->shape, &e));
        return add_slices(e, m->arena, from->slices, from->n_slices);
    }
    MF_TRY(list_add(&m->entries, m->arena, from->key, from->key_len, &e));
    const char *key = e->key;

    *e = *from;
    e->key = key;
    e->shard = from->shard + m->shards;
    return MF_OK;
}

static mf_status merge_index(bundle_write_merge *m, const char *prefix,
                             const mf_bundle_guard *guard, int32_t *n_shards)
{
    char *path = mf_bundle_index_path(prefix), *data = NULL;
    mf_bundle_entry *entries;
    size_t len;
    int64_t n;
    int fd;
    mf_status st;

    *n_shards = 0;
    if (!path)
        return MF_NOMEM("a file name");
    MF_TRY_TO(done, mf_bundle_guard_open(guard, path, &fd));
    MF_TRY_TO(done, mf_file_read_fd(fd, path, (size_t)1 << 30, &data, &len));
    MF_TRY_TO(done, mf_bundle_index_decode(data, len, m->arena, &entries, &n, n_shards));
    for (int64_t i = 0; i < n; i++)
        MF_TRY_TO(done, merge_entry(m, &entries[i]));
done:
    mf_free(data);
    mf_free(path);
    return st;
}

/* Renames data file `shard` of one bundle to file `to_shard` of the other. */
static mf_status move_data(const char *from, int32_t shard, int32_t n, const char *to,
                           int32_t to_shard, int32_t to_n)
{
    char *a = mf_bundle_data_path(from, shard, n), *b = mf_bundle_data_path(to, to_shard, to_n);
    mf_status st = MF_OK;

    if (!a || !b)
        st = MF_NOMEM("a file name");
    else if (strcmp(a, b) != 0 && rename(a, b) != 0)
        st = mf_errno_status(errno, "rename", a);
    mf_free(a);
    mf_free(b);
    return st;
}

/* Remove the directory of a merged bundle if it is empty and not that of the new one. */
static void remove_directory(const char *prefix, const char *to)
{
    char *a = mf_strdup(prefix), *b = mf_strdup(to);

    if (a && b && strchr(a, '/') && strcmp(dirname(a), dirname(b)) != 0)
        (void)rmdir(a);
    mf_free(a);
    mf_free(b);
}

static void remove_old(const char *prefix, const char *to, bool directory)
{
    char *index = mf_bundle_index_path(prefix);

    if (index && strcmp(prefix, to) != 0)
        (void)unlink(index);
    mf_free(index);
    if (directory)
        remove_directory(prefix, to);
}

static mf_status merge_all(bundle_write_merge *m, const char *const *prefixes, int64_t n,
                           int32_t *shards, const char *to, const mf_bundle_guard *guard,
                           bool allow_missing)
{
    char *path;
    mf_buf index = { 0 };
    int32_t at = 0;
    mf_status st = MF_OK;

    for (int64_t i = 0; i < n; i++) {
        st = merge_index(m, prefixes[i], guard, &shards[i]);
        if (st == MF_NOT_FOUND && allow_missing)
            continue;
        MF_TRY(st);
        m->shards += shards[i];
    }
    for (int64_t i = 0; i < n; i++) {
        for (int32_t s = 0; s < shards[i]; s++, at++)
            MF_TRY(move_data(prefixes[i], s, shards[i], to, at, m->shards));
    }
    path = mf_bundle_index_path(to);
    if (!path)
        return MF_NOMEM("a file name");
    MF_TRY_TO(done, mf_bundle_index_encode(m->entries.items, m->entries.n, m->shards, &index));
    MF_TRY_TO(done, mf_buf_finish(&index));
    st = mf_file_write(path, index.data, index.len);
done:
    mf_buf_deinit(&index);
    mf_free(path);
    return st;
}

mf_status mf_bundle_merge(const char *const *prefixes, int64_t n, const char *to,
                          const mf_bundle_guard *guard, bool delete_old_dirs, bool allow_missing)
{
    bundle_write_merge m = { .arena = mf_arena_new() };
    int32_t *shards = mf_calloc(n + 1, sizeof *shards);
    mf_status st = m.arena && shards ? merge_all(&m, prefixes, n, shards, to, guard, allow_missing)
                                     : MF_NOMEM("merging checkpoints");

    for (int64_t i = 0; st == MF_OK && i < n; i++)
        remove_old(prefixes[i], to, delete_old_dirs);
    mf_free(shards);
    mf_free(m.entries.items);
    mf_arena_free(m.arena);
    return st;
}
