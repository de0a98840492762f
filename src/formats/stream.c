/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - sequential files with transparent GZIP and ZLIB compression. */
#include "formats/stream.h"

#include "base/file.h"
#include "base/mem.h"
#include "observe/status_page.h"

#include <errno.h>
#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { CHUNK = 1 << 16, GZIP_WINDOW = 15 + 16, ZLIB_WINDOW = 15 };

mf_status mf_compression_find(const char *name, mf_compression *out)
{
    static const char *const names[] = { "", "GZIP", "ZLIB" };

    for (int i = 0; i < MF_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (mf_compression)i;
            return MF_OK;
        }
    }
    return MF_FAIL(MF_INVALID_ARGUMENT, "unknown compression '%s': expected '', GZIP or ZLIB",
                   name);
}

/* ---- reading ---- */

struct mf_reader {
    int fd;
    char *path;
    mf_compression compression;
    struct inflate_state *z; /* for compressed files; ISA-L is twice as fast as zlib */
    bool z_end;
    int64_t offset;
    unsigned char *from, *to; /* unread bytes of the buffer */
    unsigned char buffer[CHUNK];
};

static mf_status stream_damaged(const mf_reader *r, const char *what)
{
    return MF_FAIL(MF_DATA_LOSS, "'%s' %s at byte %lld", r->path, what, (long long)r->offset);
}

static mf_status stream_fill(mf_reader *r)
{
    const int act = mf_status_page_act_begin(MF_ACT_READ, r->path);
    ssize_t n;

    do
        n = read(r->fd, r->buffer, sizeof r->buffer);
    while (n < 0 && errno == EINTR);
    mf_status_page_act_end(act);
    if (n < 0)
        return mf_errno_status(errno, "read", r->path);
    r->from = r->buffer;
    r->to = r->buffer + n;
    return MF_OK;
}

static mf_status stream_begin(mf_reader *r)
{
    MF_TRY(stream_fill(r));
    if (r->compression == MF_DETECT)
        r->compression =
            r->to - r->from >= 2 && r->from[0] == 0x1f && r->from[1] == 0x8b ? MF_GZIP : MF_PLAIN;
    if (r->compression == MF_PLAIN)
        return MF_OK;
    if (!r->z)
        r->z = mf_calloc(1, sizeof *r->z);
    if (!r->z)
        return MF_NOMEM("decompression");
    isal_inflate_init(r->z);
    r->z->crc_flag = r->compression == MF_GZIP ? ISAL_GZIP : ISAL_ZLIB;
    r->z_end = false;
    return MF_OK;
}

mf_status mf_reader_open_fd(int fd, const char *path, mf_compression compression, mf_reader **out)
{
    mf_reader *r = mf_calloc(1, sizeof *r);
    mf_status st;

    *out = NULL;
    if (!r) {
        (void)close(fd);
        return MF_NOMEM("reading a file");
    }
    r->compression = compression;
    r->fd = fd;
    r->path = mf_strdup(path);
    st = r->path ? stream_begin(r) : MF_NOMEM("reading a file");
    if (st != MF_OK) {
        mf_reader_close(r);
        return st;
    }
    *out = r;
    return MF_OK;
}

mf_status mf_reader_open(const char *path, mf_compression compression, mf_reader **out)
{
    const int act = mf_status_page_act_begin(MF_ACT_READ, path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    mf_status_page_act_end(act);
    *out = NULL;
    return fd < 0 ? mf_errno_status(errno, "open", path)
                  : mf_reader_open_fd(fd, path, compression, out);
}

void mf_reader_close(mf_reader *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    mf_free(r->z);
    mf_free(r->path);
    mf_free(r);
}

static mf_status read_plain(mf_reader *r, unsigned char *to, size_t n, size_t *got)
{
    while (*got < n) {
        size_t have;

        if (r->from == r->to)
            MF_TRY(stream_fill(r));
        have = (size_t)(r->to - r->from);
        if (have == 0)
            return MF_OK;
        have = have < n - *got ? have : n - *got;
        memcpy(to + *got, r->from, have);
        r->from += have;
        *got += have;
    }
    return MF_OK;
}

/* The end of one compressed stream; a gzip file may contain several. */
static mf_status next_stream(mf_reader *r)
{
    if (r->from == r->to)
        MF_TRY(stream_fill(r));
    r->z_end = r->from == r->to || r->compression == MF_ZLIB;
    if (!r->z_end)
        isal_inflate_reset(r->z);
    return MF_OK;
}

static mf_status read_compressed(mf_reader *r, unsigned char *to, size_t n, size_t *got)
{
    while (*got < n && !r->z_end) {
        const size_t most = n - *got < (1u << 30) ? n - *got : 1u << 30;
        int result;

        if (r->from == r->to)
            MF_TRY(stream_fill(r));
        r->z->next_in = r->from;
        r->z->avail_in = (uint32_t)(r->to - r->from);
        r->z->next_out = to + *got;
        r->z->avail_out = (uint32_t)most;
        result = isal_inflate(r->z);
        *got += most - r->z->avail_out;
        if (result != ISAL_DECOMP_OK && result != ISAL_END_INPUT && result != ISAL_OUT_OVERFLOW)
            return stream_damaged(r, "has damaged compressed data");
        if (r->from == r->to && r->z->avail_out == most && r->z->block_state != ISAL_BLOCK_FINISH)
            return stream_damaged(r, "ends in the middle of compressed data");
        r->from = r->to - r->z->avail_in;
        if (r->z->block_state == ISAL_BLOCK_FINISH)
            MF_TRY(next_stream(r));
    }
    return MF_OK;
}

mf_status mf_reader_read(mf_reader *r, void *to, size_t n, size_t *got)
{
    *got = 0;
    MF_TRY(r->z ? read_compressed(r, to, n, got) : read_plain(r, to, n, got));
    r->offset += (int64_t)*got;
    return MF_OK;
}

mf_status mf_reader_read_all(mf_reader *r, void *to, size_t n)
{
    size_t got;

    MF_TRY(mf_reader_read(r, to, n, &got));
    return got == n ? MF_OK : stream_damaged(r, "ends too soon,");
}

int64_t mf_reader_offset(const mf_reader *r)
{
    return r->offset;
}

int64_t mf_reader_most(const mf_reader *r)
{
    const int64_t ratio = 1032; /* maximum compression ratio of deflate */
    struct stat s;
    int64_t most;

    if (fstat(r->fd, &s) != 0 || !S_ISREG(s.st_mode))
        return INT64_MAX;
    return !r->z ? s.st_size : mf_mul_i64(s.st_size, ratio, &most) ? most : INT64_MAX;
}

const char *mf_reader_path(const mf_reader *r)
{
    return r->path;
}

static mf_status rewind_to(mf_reader *r, int64_t offset)
{
    if (lseek(r->fd, offset, SEEK_SET) < 0)
        return mf_errno_status(errno, "seek in", r->path);
    r->from = r->to = r->buffer;
    r->offset = offset;
    return offset == 0 ? stream_begin(r) : MF_OK;
}

mf_status mf_reader_seek(mf_reader *r, int64_t offset)
{
    char skipped[4096];

    if (!r->z) {
        const off_t size = lseek(r->fd, 0, SEEK_END);

        if (size < 0 || offset < 0 || offset > size)
            return MF_FAIL(MF_OUT_OF_RANGE, "'%s' has no byte %lld", r->path, (long long)offset);
        return rewind_to(r, offset);
    }
    if (offset < r->offset)
        MF_TRY(rewind_to(r, 0));
    while (r->offset < offset) {
        const int64_t left = offset - r->offset;
        size_t got;

        MF_TRY(mf_reader_read(
            r, skipped, left < (int64_t)sizeof skipped ? (size_t)left : sizeof skipped, &got));
        if (got == 0)
            return MF_FAIL(MF_OUT_OF_RANGE, "'%s' has no byte %lld", r->path, (long long)offset);
    }
    return MF_OK;
}

/* Memory grows with the data that was read: the size in the file is untrusted. */
mf_status mf_file_unpack(const char *path, mf_compression compression, size_t max_bytes,
                         mf_buf *out)
{
    const size_t step = 1 << 20;
    size_t got = step;
    mf_reader *r;
    mf_status st;

    mf_buf_clear(out);
    MF_TRY(mf_reader_open(path, compression, &r));
    for (st = MF_OK; st == MF_OK && got == step && out->len <= max_bytes;) {
        void *to = mf_buf_room(out, step);

        got = 0;
        st = to ? mf_reader_read(r, to, step, &got) : MF_NOMEM("a file");
        if (to)
            out->len -= step - got;
    }
    if (st == MF_OK && out->len > max_bytes)
        st = MF_FAIL(MF_RESOURCE_EXHAUSTED, "'%s' has more than %zu bytes", path, max_bytes);
    mf_reader_close(r);
    return st;
}

/* ---- writing ---- */

struct mf_writer {
    int fd;
    char *path;
    z_stream z;
    bool compressed;
    size_t used; /* of the buffer */
    unsigned char buffer[CHUNK];
};

static mf_status stream_put_out(mf_writer *w)
{
    const int act = mf_status_page_act_begin(MF_ACT_WRITE, w->path);
    mf_status st = MF_OK;
    size_t done = 0;

    while (done < w->used && st == MF_OK) {
        const ssize_t n = write(w->fd, w->buffer + done, w->used - done);

        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            st = mf_errno_status(errno, "write", w->path);
    }
    mf_status_page_act_end(act);
    if (st == MF_OK)
        w->used = 0;
    return st;
}

static mf_status compress_some(mf_writer *w, const void *data, size_t n, int flush)
{
    int result;

    w->z.next_in = (unsigned char *)(uintptr_t)data;
    w->z.avail_in = (uInt)n;
    do {
        if (w->used == sizeof w->buffer)
            MF_TRY(stream_put_out(w));
        w->z.next_out = w->buffer + w->used;
        w->z.avail_out = (uInt)(sizeof w->buffer - w->used);
        result = deflate(&w->z, flush);
        w->used = sizeof w->buffer - w->z.avail_out;
        if (result == Z_STREAM_ERROR)
            return MF_FAIL(MF_INTERNAL, "compressing '%s' failed", w->path);
    } while (w->z.avail_out == 0);
    return MF_OK;
}

mf_status mf_writer_open(const char *path, mf_compression compression, bool append, mf_writer **out)
{
    mf_writer *w = mf_calloc(1, sizeof *w);
    mf_status st = MF_OK;

    *out = NULL;
    if (!w)
        return MF_NOMEM("writing a file");
    w->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (append ? 0 : O_TRUNC), 0666);
    w->path = mf_strdup(path);
    /* Not O_APPEND: a process that was stopped while another process took its file over rewrites
     * existing bytes, and appends nothing. */
    if (w->fd < 0 || (append && lseek(w->fd, 0, SEEK_END) < 0))
        st = mf_errno_status(errno, "create", path);
    else if (!w->path)
        st = MF_NOMEM("writing a file");
    else if (compression != MF_PLAIN &&
             deflateInit2(&w->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                          compression == MF_GZIP ? GZIP_WINDOW : ZLIB_WINDOW, 8,
                          Z_DEFAULT_STRATEGY) != Z_OK)
        st = MF_NOMEM("compression");
    else
        w->compressed = compression != MF_PLAIN;
    if (st != MF_OK) {
        if (w->fd >= 0)
            close(w->fd);
        mf_free(w->path);
        mf_free(w);
        return st;
    }
    *out = w;
    return MF_OK;
}

mf_status mf_writer_write(mf_writer *w, const void *data, size_t n)
{
    const unsigned char *p = data;

    while (n > 0) {
        size_t some = n < CHUNK ? n : CHUNK;

        if (w->compressed) {
            MF_TRY(compress_some(w, p, some, Z_NO_FLUSH));
        } else {
            if (w->used == sizeof w->buffer)
                MF_TRY(stream_put_out(w));
            if (some > sizeof w->buffer - w->used)
                some = sizeof w->buffer - w->used;
            memcpy(w->buffer + w->used, p, some);
            w->used += some;
        }
        p += some;
        n -= some;
    }
    return MF_OK;
}

mf_status mf_writer_flush(mf_writer *w, bool sync)
{
    if (w->compressed)
        MF_TRY(compress_some(w, NULL, 0, Z_SYNC_FLUSH));
    MF_TRY(stream_put_out(w));
    if (sync && fsync(w->fd) != 0)
        return mf_errno_status(errno, "sync", w->path);
    return MF_OK;
}

mf_status mf_writer_close(mf_writer *w)
{
    mf_status st = MF_OK;

    if (!w)
        return MF_OK;
    if (w->compressed) {
        st = compress_some(w, NULL, 0, Z_FINISH);
        deflateEnd(&w->z);
    }
    if (st == MF_OK)
        st = stream_put_out(w);
    if (close(w->fd) != 0 && st == MF_OK)
        st = mf_errno_status(errno, "close", w->path);
    mf_free(w->path);
    mf_free(w);
    return st;
}
