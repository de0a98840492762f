/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - reads and writes LevelDB tables, the index of TensorFlow checkpoints. */
#include "formats/table.h"

#include "formats/crc32c.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fixed numbers are little-endian");

static const uint64_t MAGIC = 0xdb4775248b80fb57u;
enum { FOOTER = 48, HANDLES = 40, TRAILER = 5, BLOCK_BYTES = 4096, RESTART_EVERY = 16 };

/* ---- numbers ---- */

bool mf_varint_read(const char **p, const char *end, uint64_t *out)
{
    uint64_t value = 0;

    for (int shift = 0; shift < 64 && *p < end; shift += 7) {
        const uint8_t byte = (uint8_t) * (*p)++;

        if (shift == 63 && byte > 1)
            return false;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

void mf_varint_write(mf_buf *out, uint64_t value)
{
    char bytes[10];
    size_t n = 0;

    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (char)(value | 0x80);
    bytes[n++] = (char)value;
    mf_buf_bytes(out, bytes, n);
}

static uint32_t fixed32(const char *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return v;
}

static void write_fixed32(mf_buf *out, uint32_t v)
{
    mf_buf_bytes(out, &v, 4);
}

/* ---- reading ---- */

typedef struct table_block {
    const char *entries, *end; /* end: where the restart points begin */
} table_block;

/* `at` points to a handle and is moved after it. */
static mf_status read_block(const char *file, size_t len, const char **at, const char *at_end,
                            table_block *out)
{
    uint64_t offset, size, restarts;
    const char *data;

    if (!mf_varint_read(at, at_end, &offset) || !mf_varint_read(at, at_end, &size))
        return MF_FAIL(MF_DATA_LOSS, "bad block handle in the table");
    if (offset > len || size > len - offset || len - offset - size < TRAILER || size < 4)
        return MF_FAIL(MF_DATA_LOSS,
                       "a block of %llu bytes at %llu is outside the file of %zu "
                       "bytes",
                       (unsigned long long)size, (unsigned long long)offset, len);
    data = file + offset;
    if (mf_crc32c_mask(mf_crc32c(0, data, size + 1)) != fixed32(data + size + 1))
        return MF_FAIL(MF_DATA_LOSS, "block checksum mismatch at %llu", (unsigned long long)offset);
    if (data[size] != 0)
        return MF_FAIL(MF_UNIMPLEMENTED, "compressed table blocks are not supported");
    restarts = fixed32(data + size - 4);
    if (restarts > (size - 4) / 4)
        return MF_FAIL(MF_DATA_LOSS, "bad entry in block: %llu restart points",
                       (unsigned long long)restarts);
    *out = (table_block){ data, data + size - 4 - 4 * restarts };
    return MF_OK;
}

/* Reads the entry at b->entries and advances; `prev` is the entry before it in this block. */
static mf_status table_read_entry(table_block *b, const mf_table_entry *prev, mf_arena *arena,
                                  mf_table_entry *out)
{
    uint64_t shared, rest, value;
    char *key;

    if (!mf_varint_read(&b->entries, b->end, &shared) ||
        !mf_varint_read(&b->entries, b->end, &rest) ||
        !mf_varint_read(&b->entries, b->end, &value) || shared > prev->key_len ||
        rest > (uint64_t)(b->end - b->entries) || value > (uint64_t)(b->end - b->entries) - rest)
        return MF_FAIL(MF_DATA_LOSS, "bad entry in block");
    key = mf_arena_alloc(arena, (int64_t)(shared + rest + 1), 1);
    if (!key)
        return MF_NOMEM("the keys of a table");
    if (shared > 0)
        memcpy(key, prev->key, shared);
    memcpy(key + shared, b->entries, rest);
    *out = (mf_table_entry){ key, b->entries + rest, shared + rest, value };
    b->entries += rest + value;
    return MF_OK;
}

static int compare_keys(const mf_table_entry *a, const mf_table_entry *b)
{
    const size_t n = a->key_len < b->key_len ? a->key_len : b->key_len;
    const int c = n > 0 ? memcmp(a->key, b->key, n) : 0;

    return c != 0 ? c : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

typedef struct table_entry_list {
    mf_table_entry *items;
    int64_t n, cap;
} table_entry_list;

static mf_status table_read_entries(table_block *b, mf_arena *arena, table_entry_list *list)
{
    mf_table_entry prev = { 0 }, e;

    while (b->entries < b->end) {
        MF_TRY(table_read_entry(b, &prev, arena, &e));
        if (list->n > 0 && compare_keys(&list->items[list->n - 1], &e) >= 0)
            return MF_FAIL(MF_DATA_LOSS, "the keys of the table are not in order");
        MF_TRY(mf_grow(&list->items, &list->cap, list->n + 1, sizeof e));
        list->items[list->n++] = e;
        prev = e;
    }
    return MF_OK;
}

static mf_status table_read_all(const char *file, size_t len, mf_arena *arena,
                                table_entry_list *list)
{
    const char *at, *end;
    table_block index, b;
    mf_table_entry prev = { 0 }, e;
    uint64_t magic, meta_offset, meta_size; /* of the meta data block: unused */

    if (len < FOOTER)
        return MF_FAIL(MF_DATA_LOSS, "file is too short to be an sstable: %zu bytes", len);
    at = file + len - FOOTER;
    end = at + HANDLES;
    memcpy(&magic, end, sizeof magic);
    if (magic != MAGIC)
        return MF_FAIL(MF_DATA_LOSS, "not an sstable (bad magic number)");
    if (!mf_varint_read(&at, end, &meta_offset) || !mf_varint_read(&at, end, &meta_size))
        return MF_FAIL(MF_DATA_LOSS, "bad block handle in the table");
    MF_TRY(read_block(file, len - FOOTER, &at, end, &index));
    while (index.entries < index.end) {
        MF_TRY(table_read_entry(&index, &prev, arena, &e));
        prev = e;
        MF_TRY(read_block(file, len - FOOTER, &e.value, e.value + e.value_len, &b));
        MF_TRY(table_read_entries(&b, arena, list));
    }
    return MF_OK;
}

mf_status mf_table_decode(const void *data, size_t len, mf_arena *arena, mf_table_entry **out,
                          int64_t *n)
{
    table_entry_list list = { 0 };
    mf_status st;

    *out = NULL;
    *n = 0;
    MF_TRY_TO(done, table_read_all(data, len, arena, &list));
    *out = mf_arena_alloc(arena, list.n + 1, sizeof **out);
    if (!*out) {
        st = MF_NOMEM("the entries of a table");
        goto done;
    }
    if (list.n > 0)
        memcpy(*out, list.items, (size_t)list.n * sizeof **out);
    *n = list.n;
done:
    mf_free(list.items);
    return st;
}

/* ---- writing ---- */

typedef struct block_writer {
    mf_buf body, restarts;
    const mf_table_entry *last; /* NULL: empty */
    int64_t n;
    int every; /* entries between two restart points */
} block_writer;

static void block_add(block_writer *w, const mf_table_entry *e, const char *value, size_t value_len)
{
    size_t shared = 0;

    if (w->n % w->every == 0)
        write_fixed32(&w->restarts, (uint32_t)w->body.len);
    else
        while (shared < w->last->key_len && shared < e->key_len &&
               w->last->key[shared] == e->key[shared])
            shared++;
    mf_varint_write(&w->body, shared);
    mf_varint_write(&w->body, e->key_len - shared);
    mf_varint_write(&w->body, value_len);
    mf_buf_bytes(&w->body, e->key + shared, e->key_len - shared);
    mf_buf_bytes(&w->body, value, value_len);
    w->last = e;
    w->n++;
}

/* Append the block to the file and its handle to `handle`; the writer is empty afterwards. */
static void block_finish(block_writer *w, mf_buf *file, mf_buf *handle)
{
    const char type = 0;
    uint32_t crc;

    if (w->n == 0)
        write_fixed32(&w->restarts, 0);
    mf_buf_bytes(&w->body, w->restarts.data, w->restarts.len);
    write_fixed32(&w->body, (uint32_t)(w->restarts.len / 4));
    mf_varint_write(handle, file->len);
    mf_varint_write(handle, w->body.len);
    crc = mf_crc32c(mf_crc32c(0, w->body.data, w->body.len), &type, 1);
    mf_buf_bytes(file, w->body.data, w->body.len);
    mf_buf_bytes(file, &type, 1);
    write_fixed32(file, mf_crc32c_mask(crc));
    if (w->body.failed || w->restarts.failed || handle->failed)
        file->failed = true;
    w->body.len = w->restarts.len = 0;
    w->n = 0;
}

static void flush(block_writer *data, block_writer *index, mf_buf *out, mf_buf *handle)
{
    const mf_table_entry *last = data->last;

    if (data->n == 0)
        return;
    handle->len = 0;
    block_finish(data, out, handle);
    block_add(index, last, handle->data, handle->len);
}

void mf_table_encode(const mf_table_entry *entries, int64_t n, mf_buf *out)
{
    block_writer data = { .every = RESTART_EVERY }, index = { .every = 1 },
                 meta = { .every = RESTART_EVERY };
    mf_buf handle = { 0 };
    static const char zeros[HANDLES];

    for (int64_t i = 0; i < n; i++) {
        block_add(&data, &entries[i], entries[i].value, entries[i].value_len);
        if (data.body.len >= BLOCK_BYTES)
            flush(&data, &index, out, &handle);
    }
    flush(&data, &index, out, &handle);
    handle.len = 0;
    block_finish(&meta, out, &handle);
    block_finish(&index, out, &handle);
    mf_buf_bytes(out, handle.data, handle.len);
    mf_buf_bytes(out, zeros, HANDLES - handle.len);
    mf_buf_bytes(out, &MAGIC, sizeof MAGIC);
    mf_buf_deinit(&handle);
    for (block_writer *const *w = (block_writer *const[]){ &data, &index, &meta, NULL }; *w; w++) {
        mf_buf_deinit(&(*w)->body);
        mf_buf_deinit(&(*w)->restarts);
    }
}
