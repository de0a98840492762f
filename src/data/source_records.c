/* SPDX-License-Identifier: Apache-2.0 */
/* source_records.c - TFRecord files of tf.Examples. Opening them indexes the records for random
 * access; compressed files are decompressed into memory. */
#include "base/file.h"
#include "data/columns.h"
#include "data/source.h"
#include "formats/record.h"
#include "observe/status_page.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_RECORD = 1 << 30 };

typedef struct record_file {
    const char *path;
    int fd; /* -1: in memory */
    mf_buf memory;
    int64_t size;
} record_file;

typedef struct source_records_place {
    int64_t offset; /* of the data */
    uint32_t len;
    int32_t file;
} source_records_place;

typedef struct records {
    mf_dataset base;
    record_file *files;
    int64_t n_files;
    source_records_place *places;
    int64_t cap;
    mf_field fields[MF_DATASET_COLUMNS];
} records;

/* ---- bytes ---- */

static mf_status source_records_damaged(const record_file *f, int64_t offset, const char *what)
{
    return MF_FAIL(MF_DATA_LOSS, "'%s': the record at byte %lld %s", f->path, (long long)offset,
                   what);
}

static mf_status source_records_read_at(const record_file *f, int64_t offset, void *to, size_t n)
{
    size_t have = 0;

    if (offset + (int64_t)n > f->size)
        return source_records_damaged(f, offset, "is cut");
    if (f->fd < 0) {
        memcpy(to, f->memory.data + offset, n);
        return MF_OK;
    }
    while (have < n) {
        const ssize_t got = pread(f->fd, (char *)to + have, n - have, offset + (int64_t)have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mf_errno_status(errno, "read", f->path);
        if (got == 0)
            return source_records_damaged(f, offset, "is cut");
        have += (size_t)got;
    }
    return MF_OK;
}

/* A plain file begins with a length and its valid checksum. */
static mf_status detect(const char *path, mf_compression *out)
{
    unsigned char head[MF_RECORD_HEADER] = { 0 };
    uint64_t len;
    mf_reader *r;
    size_t got;
    mf_status st;

    MF_TRY(mf_reader_open(path, MF_PLAIN, &r));
    st = mf_reader_read(r, head, sizeof head, &got);
    mf_reader_close(r);
    *out = MF_PLAIN;
    if (st != MF_OK || got < 2 || (got == sizeof head && mf_record_length(head, &len)))
        return st;
    if (head[0] == 0x1f && head[1] == 0x8b)
        *out = MF_GZIP;
    else if ((head[0] & 15) == 8 && (head[0] * 256 + head[1]) % 31 == 0)
        *out = MF_ZLIB;
    return MF_OK;
}

static mf_status source_records_open_file(record_file *f, const mf_options *o)
{
    const char *name = mf_options_string(o, "compression");
    mf_compression c;
    struct stat s;

    if (strcmp(name, "auto") == 0)
        MF_TRY(detect(f->path, &c));
    else
        MF_TRY(mf_compression_find(name, &c));
    if (c != MF_PLAIN) {
        MF_TRY(mf_file_unpack(f->path, c, (size_t)1 << 38, &f->memory));
        f->size = (int64_t)f->memory.len;
        return MF_OK;
    }
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &s) != 0)
        return mf_errno_status(errno, "open", f->path);
    f->size = s.st_size;
    return MF_OK;
}

static mf_status source_records_find_places(records *r, int32_t file)
{
    const record_file *f = &r->files[file];

    for (int64_t at = 0; at < f->size;) {
        char header[MF_RECORD_HEADER];
        uint64_t len;

        MF_TRY(source_records_read_at(f, at, header, sizeof header));
        if (!mf_record_length(header, &len))
            return source_records_damaged(f, at, "has a damaged length");
        if (len > MAX_RECORD)
            return source_records_damaged(f, at, "is longer than the maximum");
        if (at + MF_RECORD_HEADER + (int64_t)len + MF_RECORD_TRAILER > f->size)
            return source_records_damaged(f, at, "is cut");
        MF_TRY(mf_grow(&r->places, &r->cap, r->base.count + 1, sizeof *r->places));
        r->places[r->base.count++] = (source_records_place){ .offset = at + MF_RECORD_HEADER,
                                                             .len = (uint32_t)len,
                                                             .file = file };
        at += MF_RECORD_HEADER + (int64_t)len + MF_RECORD_TRAILER;
    }
    return MF_OK;
}

static mf_status open_and_look(records *r, int32_t file, const mf_options *o)
{
    record_file *f = &r->files[file];
    const int act = mf_status_page_act_begin(MF_ACT_READ, f->path);
    mf_status st = source_records_open_file(f, o);

    if (st == MF_OK)
        st = source_records_find_places(r, file);
    mf_status_page_act_end(act);
    return st;
}

/* ---- samples ---- */

/* Rejects labels beyond classes=, and fractions. */
static mf_status source_records_check_label(const mf_dataset *set, int i, const void *value)
{
    const mf_column *c = &set->columns[i];
    double class;

    if (set->classes == 0 || !mf_schema_is_class_number(c) || strcmp(c->name, "label") != 0)
        return MF_OK;
    class = mf_schema_class_number(c, value);
    if (class >= 0 && class < (double)set->classes && class == floor(class))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "the label is %.9g, but with classes=%lld the classes are 0 to %lld", class,
                   (long long)set->classes, (long long)set->classes - 1);
}

static mf_status read_example(const records *r, int64_t index, mf_arena *arena, mf_buf *bytes,
                              mf_example *out)
{
    const source_records_place *p = &r->places[index];
    const record_file *f = &r->files[p->file];
    char *to = mf_buf_room(bytes, p->len + MF_RECORD_TRAILER);
    mf_status st;
    int act;

    if (!to)
        return MF_NOMEM("a record");
    act = mf_status_page_act_begin(MF_ACT_READ, f->path);
    st = source_records_read_at(f, p->offset, to, p->len + MF_RECORD_TRAILER);
    mf_status_page_act_end(act);
    MF_TRY(st);
    if (!mf_record_is_whole(to, p->len, to + p->len))
        return source_records_damaged(f, p->offset - MF_RECORD_HEADER, "is damaged");
    return mf_example_decode(to, p->len, arena, out);
}

/* Prepends "'FILE', record N: " to the message; records of a file are numbered from 0. */
static mf_status wrong_record(const records *r, int64_t index, mf_status st)
{
    char where[64];
    int64_t first = index;

    while (first > 0 && r->places[first - 1].file == r->places[index].file)
        first--;
    (void)snprintf(where, sizeof where, "', record %lld: ", (long long)(index - first));
    (void)mf_error_wrap(st, where, "");
    (void)mf_error_wrap(st, r->files[r->places[index].file].path, "");
    return mf_error_wrap(st, "'", "");
}

static mf_status records_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                              void *const *columns)
{
    const records *r = (const records *)set;
    mf_arena *arena = mf_arena_new();
    mf_buf bytes = { 0 };
    mf_example e;
    mf_status st = arena ? read_example(r, index, arena, &bytes, &e) : MF_NOMEM("a record");

    (void)epoch;
    for (int i = 0; i < set->n_columns && st == MF_OK; i++) {
        if (columns[i])
            st = mf_field_read(&r->fields[i], &e, columns[i]);
        if (columns[i] && st == MF_OK)
            st = source_records_check_label(set, i, columns[i]);
    }
    if (st != MF_OK && st != MF_DATA_LOSS)
        (void)wrong_record(r, index, st);
    mf_buf_deinit(&bytes);
    mf_arena_free(arena);
    return st;
}

static int64_t records_file(const mf_dataset *set, int64_t index)
{
    return ((const records *)set)->places[index].file;
}

static void records_deinit(mf_dataset *set)
{
    records *r = (records *)set;

    for (int64_t i = 0; i < r->n_files; i++) {
        if (r->files[i].fd >= 0)
            close(r->files[i].fd);
        mf_buf_deinit(&r->files[i].memory);
    }
    mf_free(r->places);
}

static const mf_dataset_ops records_ops = { .read = records_read,
                                            .file = records_file,
                                            .deinit = records_deinit };

/* ---- open ---- */

static mf_status open_files(records *r, const mf_paths *paths, const mf_options *o)
{
    const char **names = MF_ARENA_ARRAY(r->base.arena, const char *, paths->n);

    r->files = MF_ARENA_ARRAY(r->base.arena, record_file, paths->n);
    if (!r->files || !names)
        return MF_NOMEM("a list of files");
    for (int64_t i = 0; i < paths->n; i++) {
        record_file *f = &r->files[r->n_files++];

        f->fd = -1;
        f->path = names[i] = mf_arena_strdup(r->base.arena, paths->paths[i]);
        MF_TRY(f->path ? open_and_look(r, (int32_t)i, o) : MF_NOMEM("a list of files"));
    }
    r->base.files = names;
    r->base.n_files = paths->n;
    return r->base.count > 0 ? MF_OK
                             : MF_FAIL(MF_INVALID_ARGUMENT, "'%s' has no records", paths->paths[0]);
}

/* Drops a label column that is optional and absent. */
static void leave_label_out(records *r, const mf_example *first, int *n)
{
    for (int i = 0; i < *n; i++) {
        if (strcmp(r->fields[i].column, "label") != 0 ||
            mf_example_find(first, r->fields[i].feature))
            continue;
        memmove(&r->fields[i], &r->fields[i + 1], (size_t)(*n - i - 1) * sizeof *r->fields);
        --*n;
        return;
    }
}

static mf_status find_fields(records *r, const mf_options *o, const mf_expected *expected, int *n)
{
    const char *text = mf_options_string(o, "columns");
    mf_buf bytes = { 0 };
    mf_arena *arena;
    mf_example e;
    mf_status st;

    if (text[0])
        MF_TRY(mf_fields_parse(text, r->base.arena, r->fields, n));
    if (text[0] && !expected->label_optional)
        return MF_OK;
    arena = mf_arena_new();
    st = arena ? read_example(r, 0, arena, &bytes, &e) : MF_NOMEM("a record");
    if (st == MF_OK && text[0])
        leave_label_out(r, &e, n);
    else if (st == MF_OK)
        st = mf_fields_guess(&e, r->base.arena, r->fields, n);
    mf_buf_deinit(&bytes);
    mf_arena_free(arena);
    return st;
}

static mf_status source_records_fill(records *r, const mf_paths *paths, const mf_options *o,
                                     const mf_expected *e)
{
    MF_TRY(open_files(r, paths, o));
    MF_TRY(find_fields(r, o, e, &r->base.n_columns));
    for (int i = 0; i < r->base.n_columns; i++)
        MF_TRY(mf_dataset_set_column(&r->base, i, r->fields[i].column, r->fields[i].dtype,
                                     &r->fields[i].shape));
    r->base.id_count = r->base.count;
    r->base.classes = mf_options_int(o, "classes");
    return MF_OK;
}

static mf_status records_open(const char *data, const mf_options *o, const mf_expected *e,
                              mf_dataset **out)
{
    mf_paths paths;
    records *r = NULL;
    mf_status st;

    MF_TRY_TO(done, mf_paths_glob(data, &paths));
    MF_TRY_TO(done, mf_dataset_new(&records_ops, sizeof *r, MF_DATASET_COLUMNS, &r));
    MF_TRY_TO(done, source_records_fill(r, &paths, o, e));
    *out = mf_dataset_ref(&r->base);
done:
    mf_dataset_unref(r ? &r->base : NULL);
    mf_paths_deinit(&paths);
    return st;
}

static const char *const record_endings[] = { ".tfrecord",     ".tfrecords",     ".tfrecord.gz",
                                              ".tfrecords.gz", ".tfrecord.zlib", NULL };

const mf_source mf_source_records = {
    .name = "tfrecord",
    .summary = "files of tf.Examples: plain, GZIP, ZLIB",
    .settings = "{columns: string = '', compression: string = 'auto', classes: int >= 0 = 0}",
    .open_for = records_open,
    .endings = record_endings,
};
