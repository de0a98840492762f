/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_files.c - datasets from files: records, lines, fixed-length records. A file is opened
 * when it is reached, by the step that requests the element. */
#include "formats/record.h"
#include "ops/dataset/dataset_op.h"
#include "ops/io/op_path.h"
#include "ops/string/tensor_text.h"

/* Iteration over a list of files. */
typedef struct dataset_files_reading {
    mf_cursor cursor;
    mf_compression compression;
    int64_t file; /* the next file */
    mf_reader *reader; /* NULL: none is open */
    mf_lines lines;
    mf_buf buf; /* the last data read; fixed length: read ahead */
} dataset_files_reading;

/* The position of the argument depends on the op. */
static const mf_tensor *compression_arg(const mf_dataset_op *d)
{
    for (int i = 1; i < d->n_args; i++) {
        if (d->args[i].dtype == MF_DTYPE_STRING)
            return &d->args[i];
    }
    return NULL;
}

static mf_status files_check(mf_dataset_op *d)
{
    const mf_tensor *packed = compression_arg(d);
    mf_compression unused;

    if (d->args[0].shape.rank > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "`filenames` must be a scalar or a vector.");
    return packed ? mf_path_compression(packed, &unused) : MF_OK;
}

static mf_status files_begin(mf_cursor *c, mf_walk *w)
{
    const mf_tensor *packed = compression_arg(c->set);

    (void)w;
    return packed ? mf_path_compression(packed, &((dataset_files_reading *)c)->compression) : MF_OK;
}

/* Opens the next file; *end: there is none. */
static mf_status open_next(dataset_files_reading *r, mf_walk *w, bool *end)
{
    const mf_tensor *names = &r->cursor.set->args[0];
    char path[PATH_MAX];

    *end = r->file >= names->count;
    if (*end)
        return MF_OK;
    MF_TRY(mf_path_read(names, r->file++, path)); /* a retry continues with the next file */
    MF_TRY(mf_path_open(w->step, path, r->compression, &r->reader));
    r->lines = (mf_lines){ .reader = r->reader };
    return MF_OK;
}

static void close_file(dataset_files_reading *r)
{
    mf_lines_deinit(&r->lines);
    mf_reader_close(r->reader);
    r->reader = NULL;
    mf_buf_clear(&r->buf);
}

static void files_end(mf_cursor *c)
{
    dataset_files_reading *r = (dataset_files_reading *)c;

    close_file(r);
    mf_buf_deinit(&r->buf);
}

static mf_status dataset_files_put_string(mf_tensor *out, const void *data, size_t len)
{
    MF_TRY(mf_tensor_alloc(out, MF_DTYPE_STRING, &MF_SCALAR));
    return mf_string_set(out->data, data, len);
}

/* ---- records ---- */

static mf_status record_check(mf_dataset_op *d)
{
    const int offsets = 3;

    MF_TRY(files_check(d));
    if (d->n_args > offsets && d->args[offsets].count != 0 &&
        d->args[offsets].count != d->args[0].count)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "TFRecordDatasetV2: `byte_offsets` must be of same size as `filenames`");
    return MF_OK;
}

static mf_status seek_record(dataset_files_reading *r)
{
    const mf_dataset_op *d = r->cursor.set;
    const mf_tensor *offsets = d->n_args > 3 ? &d->args[3] : NULL;
    const int64_t at = offsets && offsets->count > 0 ? mf_tensor_int_at(offsets, r->file - 1) : 0;

    if (at < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a byte offset of %lld", (long long)at);
    return at > 0 ? mf_reader_seek(r->reader, at) : MF_OK;
}

static mf_status dataset_files_record_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_files_reading *r = (dataset_files_reading *)c;

    for (;;) {
        mf_status st;

        if (!r->reader) {
            MF_TRY(open_next(r, w, end));
            if (*end)
                return MF_OK;
            MF_TRY(seek_record(r));
        }
        st = mf_record_read(r->reader, MF_PATH_STRING_MAX, &r->buf);
        if (st == MF_OK)
            return dataset_files_put_string(row, r->buf.data, r->buf.len);
        close_file(r); /* records after a damaged one cannot be located */
        if (st != MF_OUT_OF_RANGE)
            return st;
    }
}

#define FILES(KIND, NAME, CHECK, NEXT)                                                             \
    static const mf_dataset_op_kind KIND = { .name = NAME,                                         \
                                             .cursor_bytes = sizeof(dataset_files_reading),        \
                                             .check = CHECK,                                       \
                                             .begin = files_begin,                                 \
                                             .next = NEXT,                                         \
                                             .end = files_end };                                   \
    MF_DATASET_OP_KERNEL(KIND)

FILES(record, "TFRecord", record_check, dataset_files_record_next)

/* ---- lines ---- */

static mf_status dataset_files_line_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_files_reading *r = (dataset_files_reading *)c;

    for (;;) {
        if (!r->reader) {
            MF_TRY(open_next(r, w, end));
            if (*end)
                return MF_OK;
        }
        MF_TRY(mf_lines_next(&r->lines, MF_PATH_STRING_MAX, &r->buf, end));
        if (!*end)
            return dataset_files_put_string(row, r->buf.data, r->buf.len);
        close_file(r);
    }
}

FILES(line, "TextLine", files_check, dataset_files_line_next)

/* ---- pieces of one length ---- */

enum { HEADER = 1, RECORD, FOOTER };

static mf_status piece_check(mf_dataset_op *d)
{
    static const char *const names[] = { [HEADER] = "header_bytes", [FOOTER] = "footer_bytes" };

    MF_TRY(files_check(d));
    for (int i = HEADER; i <= FOOTER; i += 2) {
        if (mf_dataset_op_int(d, i) < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "`%s` must be >= 0", names[i]);
    }
    if (mf_dataset_op_int(d, RECORD) <= 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "`record_bytes` must be > 0");
    for (int i = HEADER; i <= FOOTER; i++) {
        if (mf_dataset_op_int(d, i) > (int64_t)MF_PATH_STRING_MAX)
            return MF_FAIL(MF_INVALID_ARGUMENT, "pieces of %lld bytes are too long",
                           (long long)mf_dataset_op_int(d, i));
    }
    return MF_OK;
}

static mf_status dataset_files_does_not_fit(const dataset_files_reading *r, int64_t body)
{
    const mf_dataset_op *d = r->cursor.set;

    return MF_FAIL(
        MF_INVALID_ARGUMENT,
        "Excluding the header (%lld bytes) and footer (%lld bytes), input file \"%s\" has "
        "body length %lld bytes, which is not an exact multiple of the record length "
        "(%lld bytes).",
        (long long)mf_dataset_op_int(d, HEADER), (long long)mf_dataset_op_int(d, FOOTER),
        mf_reader_path(r->reader), (long long)body, (long long)mf_dataset_op_int(d, RECORD));
}

static mf_status begin_pieces(dataset_files_reading *r)
{
    const mf_dataset_op *d = r->cursor.set;
    const int64_t body =
        mf_reader_most(r->reader) - mf_dataset_op_int(d, HEADER) - mf_dataset_op_int(d, FOOTER);

    if (r->compression == MF_PLAIN && (body < 0 || body % mf_dataset_op_int(d, RECORD) != 0))
        return dataset_files_does_not_fit(r, body);
    return mf_reader_seek(r->reader, mf_dataset_op_int(d, HEADER));
}

/* Fills the buffer with a record and a possible footer, if the file has that much left. */
static mf_status read_ahead(dataset_files_reading *r, bool *whole)
{
    const mf_dataset_op *d = r->cursor.set;
    const size_t want = (size_t)(mf_dataset_op_int(d, RECORD) + mf_dataset_op_int(d, FOOTER));

    if (r->buf.len < want) {
        const size_t some = want - r->buf.len;
        void *to = mf_buf_room(&r->buf, some);
        size_t got;

        if (!to)
            return MF_NOMEM("a record");
        MF_TRY(mf_reader_read(r->reader, to, some, &got));
        r->buf.len -= some - got;
    }
    *whole = r->buf.len == want;
    return MF_OK;
}

static mf_status piece_read(dataset_files_reading *r, mf_tensor *row, bool *end)
{
    const mf_dataset_op *d = r->cursor.set;
    const size_t n = (size_t)mf_dataset_op_int(d, RECORD);
    bool whole;

    MF_TRY(read_ahead(r, &whole));
    *end = !whole;
    if (!whole)
        return r->buf.len == (size_t)mf_dataset_op_int(d, FOOTER)
                   ? MF_OK
                   : dataset_files_does_not_fit(r, mf_reader_offset(r->reader));
    MF_TRY(dataset_files_put_string(row, r->buf.data, n));
    r->buf.len -= n;
    memmove(r->buf.data, r->buf.data + n, r->buf.len);
    return MF_OK;
}

static mf_status dataset_files_piece_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_files_reading *r = (dataset_files_reading *)c;

    for (;;) {
        mf_status st = MF_OK;

        if (!r->reader) {
            MF_TRY(open_next(r, w, end));
            if (*end)
                return MF_OK;
            st = begin_pieces(r);
        }
        if (st == MF_OK)
            st = piece_read(r, row, end);
        if (st == MF_OK && !*end)
            return MF_OK;
        close_file(r);
        MF_TRY(st);
    }
}

FILES(piece, "FixedLengthRecord", piece_check, dataset_files_piece_next)

#define META MF_DATASET_OP_OUT "metadata:string=''} is_stateful"
#define LINES "(filenames:string, compression_type:string, buffer_size:int64"
#define PIECES                                                                                     \
    "(filenames:string, header_bytes:int64, record_bytes:int64, footer_bytes:int64, "              \
    "buffer_size:int64"

const mf_op mf_ops_dataset_files[] = {
    MF_DATASET_OP_OP("TFRecordDataset", LINES META, record),
    MF_DATASET_OP_OP("TFRecordDatasetV2", LINES ", byte_offsets:int64" META, record),
    MF_DATASET_OP_OP("TextLineDataset", LINES META, line),
    MF_DATASET_OP_OP("FixedLengthRecordDataset", PIECES META, piece),
    MF_DATASET_OP_OP("FixedLengthRecordDatasetV2", PIECES ", compression_type:string" META, piece),
    { 0 },
};
