/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/idx.h"

#include "base/buf.h"
#include "base/mem.h"
#include "formats/stream.h"

#include <string.h>

enum { STEP = 1 << 24 }; /* bytes read at a time */

static mf_dtype type_of(unsigned char code)
{
    static const mf_dtype types[] = {
        [8] = MF_DTYPE_U8,   [9] = MF_DTYPE_I8,   [11] = MF_DTYPE_I16,
        [12] = MF_DTYPE_I32, [13] = MF_DTYPE_F32, [14] = MF_DTYPE_F64
    };

    return code < MF_COUNT(types) ? types[code] : MF_DTYPE_INVALID;
}

/* Big-endian elements in place. */
static void swap_bytes(unsigned char *p, int64_t count, size_t size)
{
    for (int64_t i = 0; i < count && size > 1; i++, p += size) {
        for (size_t a = 0, b = size - 1; a < b; a++, b--) {
            const unsigned char t = p[a];

            p[a] = p[b];
            p[b] = t;
        }
    }
}

static mf_status read_header(mf_reader *r, mf_dtype *type, mf_shape *shape)
{
    unsigned char head[4], dim[4];

    MF_TRY(mf_reader_read_all(r, head, sizeof head));
    *type = type_of(head[2]);
    if (head[0] != 0 || head[1] != 0 || *type == MF_DTYPE_INVALID || head[3] > MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "'%s' is no IDX file: it begins with %02x %02x %02x %02x", mf_reader_path(r),
                       head[0], head[1], head[2], head[3]);
    *shape = (mf_shape){ .rank = head[3] };
    for (int d = 0; d < shape->rank; d++) {
        MF_TRY(mf_reader_read_all(r, dim, sizeof dim));
        shape->dims[d] =
            (int64_t)dim[0] << 24 | (int64_t)dim[1] << 16 | (int64_t)dim[2] << 8 | (int64_t)dim[3];
    }
    return MF_OK;
}

/* A header may promise what the file does not have: memory grows with what has been read. */
static mf_status read_elements(mf_reader *r, mf_dtype type, const mf_shape *shape, mf_tensor *out)
{
    const size_t size = mf_dtype_size(type);
    int64_t count, bytes, have = 0;
    mf_buf data = { 0 };
    mf_status st;
    size_t got;
    char extra;

    MF_TRY(mf_shape_count(shape, &count));
    if (!mf_mul_i64(count, (int64_t)size, &bytes))
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is too large", mf_reader_path(r));
    while (have < bytes) {
        const size_t some = bytes - have < STEP ? (size_t)(bytes - have) : STEP;
        void *to = mf_buf_room(&data, some);

        st = to ? MF_OK : MF_NOMEM("an array");
        if (st == MF_OK)
            st = mf_reader_read_all(r, to, some);
        if (st != MF_OK)
            goto done;
        have += (int64_t)some;
    }
    MF_TRY_TO(done, mf_reader_read(r, &extra, 1, &got));
    if (got > 0) {
        st = MF_FAIL(MF_DATA_LOSS, "'%s' has more bytes than its header says", mf_reader_path(r));
        goto done;
    }
    MF_TRY_TO(done, mf_tensor_alloc(out, type, shape));
    if (bytes > 0) {
        memcpy(out->data, data.data, (size_t)bytes);
        swap_bytes(out->data, count, size);
    }
done:
    mf_buf_deinit(&data);
    return st;
}

mf_status mf_idx_read(const char *path, mf_tensor *out)
{
    mf_reader *r;
    mf_dtype type = MF_DTYPE_INVALID;
    mf_shape shape;
    mf_status st;

    MF_TRY(mf_reader_open(path, MF_DETECT, &r));
    st = read_header(r, &type, &shape);
    if (st == MF_OK)
        st = read_elements(r, type, &shape, out);
    mf_reader_close(r);
    return st;
}
