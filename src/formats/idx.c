/* SPDX-License-Identifier: Apache-2.0 */
/* idx.c - reads IDX files (MNIST). */
#include "formats/idx.h"

#include "base/mem.h"

static mf_dtype idx_type_of(unsigned char code)
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

static mf_status idx_read_header(mf_reader *r, mf_dtype *type, mf_shape *shape)
{
    unsigned char head[4], dim[4];

    MF_TRY(mf_reader_read_all(r, head, sizeof head));
    *type = idx_type_of(head[2]);
    if (head[0] != 0 || head[1] != 0 || *type == MF_DTYPE_INVALID || head[3] > MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "'%s' is not an IDX file: it begins with %02x %02x %02x %02x",
                       mf_reader_path(r), head[0], head[1], head[2], head[3]);
    *shape = (mf_shape){ .rank = head[3] };
    for (int d = 0; d < shape->rank; d++) {
        MF_TRY(mf_reader_read_all(r, dim, sizeof dim));
        shape->dims[d] =
            (int64_t)dim[0] << 24 | (int64_t)dim[1] << 16 | (int64_t)dim[2] << 8 | (int64_t)dim[3];
    }
    return MF_OK;
}

mf_status mf_idx_open(const char *path, mf_idx *out)
{
    int64_t count, bytes;

    *out = (mf_idx){ 0 };
    MF_TRY(mf_reader_open(path, MF_DETECT, &out->reader));
    MF_TRY(idx_read_header(out->reader, &out->dtype, &out->shape));
    if (mf_shape_count(&out->shape, &count) != MF_OK ||
        !mf_mul_i64(count, (int64_t)mf_dtype_size(out->dtype), &bytes) ||
        bytes > mf_reader_most(out->reader)) {
        char text[MF_SHAPE_TEXT];

        return MF_FAIL(MF_DATA_LOSS, "'%s' is truncated: its header says %s of type %s", path,
                       mf_shape_text(&out->shape, text), mf_dtype_name(out->dtype));
    }
    out->bytes = (size_t)bytes;
    return MF_OK;
}

void mf_idx_close(mf_idx *idx)
{
    mf_reader_close(idx->reader);
    idx->reader = NULL;
}

mf_status mf_idx_next(mf_idx *idx, void *to, size_t n)
{
    const size_t size = mf_dtype_size(idx->dtype);

    MF_TRY(mf_reader_read_all(idx->reader, to, n));
    swap_bytes(to, (int64_t)(n / size), size);
    return MF_OK;
}

mf_status mf_idx_end(mf_idx *idx)
{
    size_t got;
    char extra;

    MF_TRY(mf_reader_read(idx->reader, &extra, 1, &got));
    if (got > 0)
        return MF_FAIL(MF_DATA_LOSS, "'%s' has more bytes than its header says",
                       mf_reader_path(idx->reader));
    return MF_OK;
}

mf_status mf_idx_read(const char *path, mf_tensor *out)
{
    mf_idx idx;
    mf_status st;

    MF_TRY_TO(done, mf_idx_open(path, &idx));
    MF_TRY_TO(done, mf_tensor_alloc(out, idx.dtype, &idx.shape));
    MF_TRY_TO(done, mf_idx_next(&idx, out->data, idx.bytes));
    MF_TRY_TO(done, mf_idx_end(&idx));
done:
    mf_idx_close(&idx);
    if (st != MF_OK)
        mf_tensor_clear(out);
    return st;
}
