/* SPDX-License-Identifier: Apache-2.0 */
/* op_path.c - checks the paths of file ops against the allowed directories. */
#include "ops/io/op_path.h"

#include <fcntl.h>
#include <string.h>

mf_status mf_path_read(const mf_tensor *t, int64_t i, char out[PATH_MAX])
{
    const mf_string *s = (const mf_string *)t->data + i;

    if (s->len == 0 || s->len >= PATH_MAX - 64 || memchr(s->data, '\0', s->len))
        return MF_FAIL(MF_INVALID_ARGUMENT, "a path of %zu bytes, or with a NUL in it", s->len);
    memcpy(out, s->data, s->len);
    out[s->len] = '\0';
    return MF_OK;
}

mf_status mf_path_open(const mf_step *step, const char *path, mf_compression compression,
                       mf_reader **out)
{
    int fd;

    *out = NULL;
    MF_TRY(mf_step_open(step, path, O_RDONLY, &fd));
    return mf_reader_open_fd(fd, path, compression, out);
}

mf_status mf_path_compression(const mf_tensor *t, mf_compression *out)
{
    const mf_string *s = t->data;
    char name[16] = "";

    if (t->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "`compression_type` must be a scalar");
    if (s->len < sizeof name)
        memcpy(name, s->len ? s->data : "", s->len);
    else
        memcpy(name, "?", 2);
    return mf_compression_find(name, out);
}
