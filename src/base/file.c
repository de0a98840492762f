/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - reads and writes complete files: temporary names, rename, private directories, status of
 * errno. */
#include "base/file.h"

#include "base/mem.h"
#include "base/observer.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
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
static mf_status file_read_all(int fd, const char *path, size_t max_bytes, char **data, size_t *len)
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

mf_status mf_file_read_fd(int fd, const char *path, size_t max_bytes, char **data, size_t *len)
{
    const int act = mf_observe_read(path);
    mf_status st;

    *data = NULL;
    *len = 0;
    st = file_read_all(fd, path, max_bytes, data, len);
    (void)close(fd);
    mf_observe_end(act);
    if (st != MF_OK) {
        mf_free(*data);
        *data = NULL;
    }
    return st;
}

/* Opening may block, too. */
static int open_to_read(const char *path)
{
    const int act = mf_observe_read(path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    mf_observe_end(act);
    return fd;
}

mf_status mf_file_read(const char *path, size_t max_bytes, char **data, size_t *len)
{
    const int fd = open_to_read(path);

    *data = NULL;
    *len = 0;
    return fd < 0 ? mf_errno_status(errno, "open", path)
                  : mf_file_read_fd(fd, path, max_bytes, data, len);
}

static mf_status write_bytes(int fd, const char *path, const char *data, size_t len)
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
    return MF_OK;
}

static mf_status file_write_all(int fd, const char *path, const mf_file_part *parts, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        MF_TRY(write_bytes(fd, path, parts[i].data, parts[i].len));
    return MF_OK;
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

/* A pipe or device: it cannot be replaced. */
static mf_status write_in_place(const char *path, const mf_file_part *parts, int64_t n)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    mf_status st;

    if (fd < 0)
        return mf_errno_status(errno, "create", path);
    st = file_write_all(fd, path, parts, n);
    (void)close(fd);
    return st;
}

/* open() applies the umask, which mkstemp() ignores. With O_EXCL an existing name is not used. */
static int create_new(char *name, size_t suffix)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ012345";
    unsigned char random[6];
    int fd = -1;

    for (int i = 0; i < 100 && fd < 0; i++) {
        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
            return -1;
        for (size_t k = 0; k < sizeof random; k++)
            name[suffix + k] = letters[random[k] % (sizeof letters - 1)];
        fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

mf_status mf_file_temporary(const char *path, char **name, int *fd)
{
    const size_t n = strlen(path), size = n + sizeof ".tmp-XXXXXX";
    struct stat old;

    *fd = -1;
    *name = mf_calloc((int64_t)size, 1);
    if (!*name)
        return MF_NOMEM("a file name");
    (void)snprintf(*name, size, "%s.tmp-XXXXXX", path);
    *fd = create_new(*name, size - sizeof "XXXXXX");
    if (*fd < 0) {
        const mf_status st = mf_errno_status(errno, "create", path);

        mf_free(*name);
        *name = NULL;
        return st;
    }
    if (stat(path, &old) == 0 && S_ISREG(old.st_mode))
        (void)fchmod(*fd, old.st_mode & 0777);
    return MF_OK;
}

static mf_status file_replace(const char *path, const mf_file_part *parts, int64_t n)
{
    mf_status st;
    char *tmp;
    int fd;

    MF_TRY(mf_file_temporary(path, &tmp, &fd));
    st = file_write_all(fd, path, parts, n);
    if (st == MF_OK && fsync(fd) != 0)
        st = mf_errno_status(errno, "fsync", path);
    if (close(fd) != 0 && st == MF_OK)
        st = mf_errno_status(errno, "close", path);
    if (st == MF_OK && rename(tmp, path) != 0)
        st = mf_errno_status(errno, "rename to", path);
    if (st == MF_OK)
        sync_directory_of(path);
    else
        (void)unlink(tmp);
    mf_free(tmp);
    return st;
}

static mf_status write_parts(const char *path, const mf_file_part *parts, int64_t n)
{
    struct stat info;

    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return write_in_place(path, parts, n);
    return file_replace(path, parts, n);
}

mf_status mf_file_write_parts(const char *path, const mf_file_part *parts, int64_t n)
{
    const int act = mf_observe_write(path);
    const mf_status st = write_parts(path, parts, n);

    mf_observe_end(act);
    return st;
}

mf_status mf_file_write(const char *path, const void *data, size_t len)
{
    return mf_file_write_parts(path, &(mf_file_part){ data, len }, 1);
}

/* ---- folders ---- */

mf_status mf_dir_check_own(const char *path)
{
    struct stat st;

    if (lstat(path, &st) != 0)
        return mf_errno_status(errno, "inspect", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        return MF_FAIL(MF_PERMISSION_DENIED,
                       "'%s' is not a folder of this user only (mode 0700); remove it, or name "
                       "another folder",
                       path);
    return MF_OK;
}

mf_status mf_dir_make_own(const char *path)
{
    char *copy = mf_strdup(path);
    mf_status st = copy ? MF_OK : MF_NOMEM("a file name");

    for (char *slash = copy; st == MF_OK && slash;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = '\0';
        if (mkdir(copy, 0700) != 0 && errno != EEXIST)
            st = mf_errno_status(errno, "make", copy);
        if (slash)
            *slash = '/';
    }
    mf_free(copy);
    return st == MF_OK ? mf_dir_check_own(path) : st;
}
