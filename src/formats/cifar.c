/* SPDX-License-Identifier: Apache-2.0 */
/* cifar.c - reads CIFAR-10 and CIFAR-100 binary files. */
#include "formats/cifar.h"

#include "base/buf.h"
#include "formats/stream.h"

enum { PLANE = MF_CIFAR_SIDE * MF_CIFAR_SIDE };

static void interleave(const unsigned char *planes, unsigned char *to)
{
    for (int p = 0; p < PLANE; p++) {
        *to++ = planes[p];
        *to++ = planes[PLANE + p];
        *to++ = planes[2 * PLANE + p];
    }
}

static mf_status cifar_decode(const char *path, const mf_buf *file, int n_labels, int label,
                              mf_tensor *images, mf_tensor *labels)
{
    const size_t record = (size_t)n_labels + MF_CIFAR_IMAGE;
    const int64_t n = (int64_t)(file->len / record);
    const unsigned char *from = (const unsigned char *)file->data;

    if (file->len % record != 0 || n == 0)
        return MF_FAIL(MF_DATA_LOSS,
                       "'%s' has %zu bytes, which is not a multiple of the record size %zu", path,
                       file->len, record);
    MF_TRY(mf_tensor_alloc(images, MF_DTYPE_U8,
                           &MF_SHAPE(n, MF_CIFAR_SIDE, MF_CIFAR_SIDE, MF_CIFAR_CHANNELS)));
    MF_TRY(mf_tensor_alloc(labels, MF_DTYPE_I32, &MF_SHAPE(n)));
    for (int64_t i = 0; i < n; i++, from += record) {
        ((int32_t *)labels->data)[i] = from[label];
        interleave(from + n_labels, (unsigned char *)images->data + i * MF_CIFAR_IMAGE);
    }
    return MF_OK;
}

mf_status mf_cifar_read(const char *path, int n_labels, int label, mf_tensor *images,
                        mf_tensor *labels)
{
    mf_buf file = { 0 };
    mf_status st;

    MF_TRY_TO(done, mf_file_unpack(path, MF_DETECT, (size_t)1 << 32, &file));
    MF_TRY_TO(done, cifar_decode(path, &file, n_labels, label, images, labels));
done:
    mf_buf_deinit(&file);
    if (st != MF_OK) {
        mf_tensor_clear(images);
        mf_tensor_clear(labels);
    }
    return st;
}
