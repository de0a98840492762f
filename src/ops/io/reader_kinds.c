/* SPDX-License-Identifier: Apache-2.0 */
/* reader_kinds.c - kinds of records: lines, TFRecords, fixed length, whole files; or the names
 * themselves. */
#include "formats/record.h"
#include "ops/io/reader.h"
#include "ops/string/tensor_text.h"

static mf_status reader_kinds_open_file(mf_record_reading *r, const mf_step *step)
{
    mf_string name = { r->work.data, r->work.len };
    const mf_tensor t = { .dtype = MF_DTYPE_STRING, .count = 1, .data = &name };
    char path[PATH_MAX];

    MF_TRY(mf_path_read(&t, 0, path));
    return mf_path_open(step, path, r->spec.compression, &r->file);
}

static void put_key(const mf_record_reading *r, int64_t number, mf_buf *key)
{
    mf_buf_bytes(key, r->work.data, r->work.len);
    mf_buf_printf(key, ":%lld", (long long)number);
}

/* ---- lines; their number counts from 1 ---- */

static mf_status line_open(mf_record_reading *r, const mf_step *step)
{
    mf_buf skipped = { 0 };
    bool end = false;
    mf_status st;

    MF_TRY(reader_kinds_open_file(r, step));
    r->lines = (mf_lines){ .reader = r->file };
    for (st = MF_OK; st == MF_OK && !end && r->at < r->spec.skip_lines; r->at += !end)
        st = mf_lines_next(&r->lines, MF_PATH_STRING_MAX, &skipped, &end);
    mf_buf_deinit(&skipped);
    return st;
}

static mf_status reader_kinds_line_next(mf_record_reading *r, mf_buf *key, mf_buf *value, bool *end)
{
    MF_TRY(mf_lines_next(&r->lines, MF_PATH_STRING_MAX, value, end));
    if (!*end)
        put_key(r, ++r->at, key);
    return MF_OK;
}

/* ---- TFRecords; a key says where it begins ---- */

static mf_status reader_kinds_record_next(mf_record_reading *r, mf_buf *key, mf_buf *value,
                                          bool *end)
{
    const int64_t at = mf_reader_offset(r->file);
    const mf_status st = mf_record_read(r->file, MF_PATH_STRING_MAX, value);

    *end = st == MF_OUT_OF_RANGE;
    if (st == MF_OK)
        put_key(r, at, key);
    return *end ? MF_OK : st;
}

/* ---- pieces of one length; their number counts from 0 ---- */

static mf_status piece_open(mf_record_reading *r, const mf_step *step)
{
    MF_TRY(reader_kinds_open_file(r, step));
    r->limit = mf_reader_most(r->file) - r->spec.footer;
    return MF_OK;
}

static mf_status reader_kinds_piece_next(mf_record_reading *r, mf_buf *key, mf_buf *value,
                                         bool *end)
{
    const mf_reader_spec *s = &r->spec;
    const int64_t from = s->header + r->at * (s->hop > 0 ? s->hop : s->record);
    void *to;

    *end = from > r->limit - s->record;
    if (*end)
        return MF_OK;
    if (mf_reader_offset(r->file) != from)
        MF_TRY(mf_reader_seek(r->file, from));
    to = mf_buf_room(value, (size_t)s->record);
    if (!to)
        return MF_NOMEM("a record");
    MF_TRY(mf_reader_read_all(r->file, to, (size_t)s->record));
    put_key(r, r->at++, key);
    return MF_OK;
}

/* ---- whole files, and names ---- */

enum { PIECE = 1 << 16 };

static mf_status whole_next(mf_record_reading *r, mf_buf *key, mf_buf *value, bool *end)
{
    size_t got = PIECE;

    *end = false;
    mf_buf_bytes(key, r->work.data, r->work.len);
    while (got == PIECE) {
        void *to = mf_buf_room(value, PIECE);

        if (!to)
            return MF_NOMEM("a file");
        MF_TRY(mf_reader_read(r->file, to, PIECE, &got));
        value->len -= PIECE - got;
        if (value->len > MF_PATH_STRING_MAX)
            return MF_FAIL(MF_RESOURCE_EXHAUSTED, "'%s' is larger than %zu bytes",
                           mf_reader_path(r->file), MF_PATH_STRING_MAX);
    }
    return MF_OK;
}

static mf_status name_next(mf_record_reading *r, mf_buf *key, mf_buf *value, bool *end)
{
    *end = false;
    mf_buf_bytes(key, r->work.data, r->work.len);
    mf_buf_bytes(value, r->work.data, r->work.len);
    return MF_OK;
}

const mf_reader_kind *const mf_reader_kinds[] = {
    &(const mf_reader_kind){
        .op = "TextLineReader", .open = line_open, .next = reader_kinds_line_next },
    &(const mf_reader_kind){
        .op = "TFRecordReader", .open = reader_kinds_open_file, .next = reader_kinds_record_next },
    &(const mf_reader_kind){
        .op = "FixedLengthRecordReader", .open = piece_open, .next = reader_kinds_piece_next },
    &(const mf_reader_kind){
        .op = "WholeFileReader", .open = reader_kinds_open_file, .next = whole_next, .one = true },
    &(const mf_reader_kind){ .op = "IdentityReader", .next = name_next, .one = true },
    NULL,
};
