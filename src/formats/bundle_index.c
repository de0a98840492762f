/* SPDX-License-Identifier: Apache-2.0 */
/* bundle_index.c - converts the entries of a bundle from and to a table of messages. */
#include "formats/bundle.h"
#include "formats/table.h"
#include "proto/bundle.pb-c.h"
#include "proto/tensor_codec.h"
#include "proto/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *mf_bundle_data_path(const char *prefix, int32_t shard, int32_t n_shards)
{
    const size_t size = strlen(prefix) + 48;
    char *path = mf_calloc((int64_t)size, 1);

    if (path)
        (void)snprintf(path, size, "%s.data-%05d-of-%05d", prefix, (int)shard, (int)n_shards);
    return path;
}

char *mf_bundle_index_path(const char *prefix)
{
    const size_t size = strlen(prefix) + 8;
    char *path = mf_calloc((int64_t)size, 1);

    if (path)
        (void)snprintf(path, size, "%s.index", prefix);
    return path;
}

/* ---- reading ---- */

static mf_status slice_decode(const Tensorflow__TensorSliceProto *p, const mf_shape *full,
                              mf_slice *out)
{
    mf_shape part;

    if (p->n_extent > MF_MAX_RANK)
        return MF_FAIL(MF_DATA_LOSS, "a slice of rank %zu", p->n_extent);
    out->rank = (int)p->n_extent;
    for (int d = 0; d < out->rank; d++) {
        const Tensorflow__TensorSliceProto__Extent *e = p->extent[d];
        const bool has =
            e->has_length_case == TENSORFLOW__TENSOR_SLICE_PROTO__EXTENT__HAS_LENGTH_LENGTH;

        out->start[d] = has ? e->start : 0;
        out->length[d] = has ? e->length : -1;
    }
    return mf_slice_shape(out, full, &part);
}

static mf_status entry_decode(const mf_table_entry *t, int32_t n_shards, mf_arena *arena,
                              mf_bundle_entry *e)
{
    const Tensorflow__BundleEntryProto *p;
    ProtobufCMessage *message;

    MF_TRY(mf_wire_decode(&tensorflow__bundle_entry_proto__descriptor, t->value, t->value_len, NULL,
                          arena, &message));
    p = (const Tensorflow__BundleEntryProto *)message;
    *e = (mf_bundle_entry){ .key = t->key,
                            .key_len = t->key_len,
                            .dtype = (mf_dtype)p->dtype,
                            .shard = p->shard_id,
                            .offset = p->offset,
                            .size = p->size,
                            .crc = p->crc32c };
    MF_TRY(mf_shape_decode(p->shape, &e->shape));
    if (!mf_shape_is_static(&e->shape) || p->offset < 0 || p->size < 0 || p->shard_id < 0 ||
        p->shard_id >= n_shards)
        return MF_FAIL(MF_DATA_LOSS, "invalid entry: shard %d of %d, %lld bytes at %lld",
                       (int)p->shard_id, (int)n_shards, (long long)p->size, (long long)p->offset);
    e->slices = MF_ARENA_ARRAY(arena, mf_slice, (int64_t)p->n_slices + 1);
    if (!e->slices)
        return MF_NOMEM("a checkpoint's index");
    e->n_slices = (int)p->n_slices;
    for (size_t i = 0; i < p->n_slices; i++)
        MF_TRY(slice_decode(p->slices[i], &e->shape, &e->slices[i]));
    return MF_OK;
}

static mf_status header_decode(const mf_table_entry *t, mf_arena *arena, int32_t *n_shards)
{
    const Tensorflow__BundleHeaderProto *p;
    ProtobufCMessage *message;

    MF_TRY(mf_wire_decode(&tensorflow__bundle_header_proto__descriptor, t->value, t->value_len,
                          NULL, arena, &message));
    p = (const Tensorflow__BundleHeaderProto *)message;
    if (p->endianness != 0)
        return MF_FAIL(MF_UNIMPLEMENTED, "checkpoints of big-endian machines are not supported");
    if (p->version && p->version->min_consumer > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the checkpoint needs a reader of version %d",
                       (int)p->version->min_consumer);
    if (p->num_shards < 0 || p->num_shards > 99999)
        return MF_FAIL(MF_DATA_LOSS, "invalid number of shards: %d", (int)p->num_shards);
    *n_shards = p->num_shards;
    return MF_OK;
}

mf_status mf_bundle_index_decode(const void *data, size_t len, mf_arena *arena,
                                 mf_bundle_entry **out, int64_t *n, int32_t *n_shards)
{
    mf_table_entry *table;
    mf_bundle_entry *entries;
    int64_t count;

    *out = NULL;
    *n = 0;
    *n_shards = 0;
    MF_TRY(mf_table_decode(data, len, arena, &table, &count));
    if (count == 0 || table[0].key_len != 0)
        return MF_FAIL(MF_DATA_LOSS, "the index has no header");
    MF_TRY(header_decode(&table[0], arena, n_shards));
    entries = MF_ARENA_ARRAY(arena, mf_bundle_entry, count);
    if (!entries)
        return MF_NOMEM("a checkpoint's index");
    for (int64_t i = 1; i < count; i++) {
        const mf_status st = entry_decode(&table[i], *n_shards, arena, &entries[i - 1]);

        if (st != MF_OK) {
            char before[160];

            (void)snprintf(before, sizeof before, "entry '%.100s': ", table[i].key);
            return mf_error_wrap(st, before, "");
        }
    }
    *out = entries;
    *n = count - 1;
    return MF_OK;
}

/* ---- writing ---- */

static mf_status slices_encode(const mf_bundle_entry *e, mf_arena *arena,
                               Tensorflow__BundleEntryProto *p)
{
    p->n_slices = (size_t)e->n_slices;
    p->slices = MF_ARENA_ARRAY(arena, Tensorflow__TensorSliceProto *, e->n_slices + 1);
    for (int i = 0; p->slices && i < e->n_slices; i++) {
        const mf_slice *s = &e->slices[i];
        Tensorflow__TensorSliceProto *q = MF_ARENA_NEW(arena, Tensorflow__TensorSliceProto);
        Tensorflow__TensorSliceProto__Extent *x =
            MF_ARENA_ARRAY(arena, Tensorflow__TensorSliceProto__Extent, s->rank + 1);

        if (!q || !x)
            return MF_NOMEM("a checkpoint's index");
        tensorflow__tensor_slice_proto__init(q);
        q->n_extent = (size_t)s->rank;
        q->extent = MF_ARENA_ARRAY(arena, Tensorflow__TensorSliceProto__Extent *, s->rank + 1);
        for (int d = 0; q->extent && d < s->rank; d++) {
            tensorflow__tensor_slice_proto__extent__init(&x[d]);
            if (s->length[d] >= 0) {
                x[d].start = s->start[d];
                x[d].length = s->length[d];
                x[d].has_length_case = TENSORFLOW__TENSOR_SLICE_PROTO__EXTENT__HAS_LENGTH_LENGTH;
            }
            q->extent[d] = &x[d];
        }
        if (!q->extent)
            return MF_NOMEM("a checkpoint's index");
        p->slices[i] = q;
    }
    return p->slices ? MF_OK : MF_NOMEM("a checkpoint's index");
}

/* Stores the encoded message, in the arena, as the value of a table entry. */
static mf_status set_value(mf_table_entry *t, const ProtobufCMessage *message, mf_arena *arena)
{
    mf_buf bytes = { 0 };
    mf_status st = mf_wire_encode(message, &bytes);

    if (st == MF_OK) {
        t->value = mf_arena_strndup(arena, bytes.data ? bytes.data : "", bytes.len);
        t->value_len = bytes.len;
        st = t->value ? MF_OK : MF_NOMEM("a checkpoint's index");
    }
    mf_buf_deinit(&bytes);
    return st;
}

static mf_status entry_encode(const mf_bundle_entry *e, mf_arena *arena, mf_table_entry *t)
{
    Tensorflow__BundleEntryProto p = TENSORFLOW__BUNDLE_ENTRY_PROTO__INIT;

    p.dtype = (int32_t)e->dtype;
    p.shard_id = e->shard;
    p.offset = e->offset;
    p.size = e->size;
    p.crc32c = e->crc;
    MF_TRY(mf_shape_encode(&e->shape, arena, &p.shape));
    MF_TRY(slices_encode(e, arena, &p));
    t->key = e->key;
    t->key_len = e->key_len;
    return set_value(t, &p.base, arena);
}

static int by_key(const void *a, const void *b)
{
    const mf_bundle_entry *x = a, *y = b;
    const size_t n = x->key_len < y->key_len ? x->key_len : y->key_len;
    const int c = n > 0 ? memcmp(x->key, y->key, n) : 0;

    return c != 0 ? c : (x->key_len > y->key_len) - (x->key_len < y->key_len);
}

static mf_status encode_into(mf_bundle_entry *entries, int64_t n, int32_t n_shards, mf_arena *arena,
                             mf_buf *out)
{
    Tensorflow__BundleHeaderProto header = TENSORFLOW__BUNDLE_HEADER_PROTO__INIT;
    Tensorflow__VersionDef version = TENSORFLOW__VERSION_DEF__INIT;
    mf_table_entry *table = MF_ARENA_ARRAY(arena, mf_table_entry, n + 1);

    if (!table)
        return MF_NOMEM("a checkpoint's index");
    version.producer = 1;
    header.num_shards = n_shards;
    header.version = &version;
    table[0].key = "";
    MF_TRY(set_value(&table[0], &header.base, arena));
    if (n > 1)
        qsort(entries, (size_t)n, sizeof *entries, by_key);
    for (int64_t i = 0; i < n; i++) {
        if (entries[i].key_len == 0 || (i > 0 && by_key(&entries[i - 1], &entries[i]) == 0))
            return MF_FAIL(MF_INVALID_ARGUMENT, "tensor name '%.200s' occurs twice or is empty",
                           entries[i].key);
        MF_TRY(entry_encode(&entries[i], arena, &table[i + 1]));
    }
    mf_table_encode(table, n + 1, out);
    return MF_OK;
}

mf_status mf_bundle_index_encode(mf_bundle_entry *entries, int64_t n, int32_t n_shards, mf_buf *out)
{
    mf_arena *arena = mf_arena_new();
    mf_status st =
        arena ? encode_into(entries, n, n_shards, arena, out) : MF_NOMEM("a checkpoint's index");

    mf_arena_free(arena);
    return st;
}
