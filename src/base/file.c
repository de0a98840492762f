/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mf_status errno_code(int err)
{
    switch (err) {
    case ENOENT:
    case ENOTDIR:
        return MF_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return MF_PERMISSION_DENIED;
    case EEXIST:
        return MF_ALREADY_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return MF_RESOURCE_EXHAUSTED;
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
        return MF_INVALID_ARGUMENT;
    default:
        return MF_UNKNOWN;
    }
}

mf_status mf_errno_status(int err, const char *verb, const char *path)
{
    char text[128] = "";
    const char *reason = strerror_r(err, text, sizeof text);

    return MF_FAIL(errno_code(err), "cannot %s '%s': %s", verb, path, reason);
}

/* Reads until end of file, so that pipes and /dev/stdin work too. */
static mf_status read_all(int fd, const char *path, size_t max_bytes, char **data, size_t *len)
{
    int64_t cap = 0;
    size_t used = 0;

    for (;;) {
        ssize_t n;

        MF_TRY(mf_grow(data, &cap, (int64_t)used + 65536 + 1, 1));
        n = read(fd, *data + used, (size_t)cap - used - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return mf_errno_status(errno, "read", path);
        if (n == 0)
            break;
        used += (size_t)n;
        if (used > max_bytes)
            return MF_FAIL(MF_RESOURCE_EXHAUSTED, "'%s' is larger than the limit of %zu bytes",
                           path, max_bytes);
    }
    (*data)[used] = '\0';
    *len = used;
    return MF_OK;
}

mf_status mf_file_read(const char *path, size_t max_bytes, char **data, size_t *len)
{
    mf_status st;
    int fd;

    *data = NULL;
    *len = 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return mf_errno_status(errno, "open", path);
    st = read_all(fd, path, max_bytes, data, len);
    (void)close(fd);
    if (st != MF_OK) {
        mf_free(*data);
        *data = NULL;
    }
    return st;
}

static mf_status write_all(int fd, const char *path, const char *data, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return mf_errno_status(errno, "write", path);
        data += n;
        len -= (size_t)n;
    }
    return fsync(fd) != 0 ? mf_errno_status(errno, "fsync", path) : MF_OK;
}

static void sync_directory_of(const char *path)
{
    char *copy = mf_strdup(path);
    const int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
    mf_free(copy);
}

mf_status mf_file_write(const char *path, const void *data, size_t len)
{
    const size_t tmp_size = strlen(path) + 16;
    char *tmp = mf_calloc((int64_t)tmp_size, 1);
    mf_status st = MF_OK;
    struct stat info;
    int fd;

    if (!tmp)
        return MF_NOMEM("a file name");
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        /* A pipe or device: there is nothing to replace. */
        fd = open(path, O_WRONLY | O_CLOEXEC);
        (void)snprintf(tmp, tmp_size, "%s", "");
    } else {
        (void)snprintf(tmp, tmp_size, "%s.tmp-XXXXXX", path);
        fd = mkostemp(tmp, O_CLOEXEC);
    }
    if (fd < 0) {
        st = mf_errno_status(errno, "create", path);
        goto done;
    }
    if (tmp[0] == '\0') {
        while (len > 0 && st == MF_OK) {
            const ssize_t n = write(fd, data, len);

            if (n < 0 && errno != EINTR)
                st = mf_errno_status(errno, "write", path);
            if (n > 0) {
                data = (const char *)data + n;
                len -= (size_t)n;
            }
        }
        (void)close(fd);
        goto done;
    }
    (void)fchmod(fd, 0644);
    st = write_all(fd, path, data, len);
    if (close(fd) != 0 && st == MF_OK)
        st = mf_errno_status(errno, "close", path);
    if (st == MF_OK && rename(tmp, path) != 0)
        st = mf_errno_status(errno, "rename to", path);
    if (st == MF_OK)
        sync_directory_of(path);
    else
        (void)unlink(tmp);

done:
    mf_free(tmp);
    return st;
}
