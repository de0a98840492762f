/* SPDX-License-Identifier: Apache-2.0 */
/* step_file.c - opens files for graph ops below the allowed directories (--allow-dir), safe against
 * symbolic links. */
#include "graph/step_file.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A resolved path: an allowed directory and the rest, "" for the directory itself. */
typedef struct step_file_place {
    char root[PATH_MAX], rest[PATH_MAX];
} step_file_place;

static mf_status denied(const char *path)
{
    return MF_FAIL(MF_PERMISSION_DENIED,
                   "'%.500s' is outside the directories that graph ops may access; allow its "
                   "directory with --allow-dir",
                   path);
}

/* The allowed directory that contains the resolved path `real`. */
static bool find_root(const mf_step *step, const char *real, step_file_place *out)
{
    for (int i = 0; i < step->n_allow_dirs; i++) {
        size_t n;

        if (!realpath(step->allow_dirs[i], out->root))
            continue;
        n = strcmp(out->root, "/") == 0 ? 0 : strlen(out->root);
        if (strncmp(real, out->root, n) != 0 || (real[n] != '/' && real[n] != '\0'))
            continue;
        (void)snprintf(out->rest, sizeof out->rest, "%s", real[n] == '/' ? real + n + 1 : "");
        return true;
    }
    return false;
}

/* Resolves the directory of a path; the last component stays separate. */
static bool resolve_parent(const char *path, char real[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char parent[PATH_MAX] = ".";
    size_t n;

    if (strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
        return false;
    if (slash)
        (void)snprintf(parent, sizeof parent, "%.*s", (int)(slash == path ? 1 : slash - path),
                       path);
    if (!realpath(parent, real))
        return false;
    n = strlen(real);
    return snprintf(real + n, PATH_MAX - n, "%s%s", real[1] ? "/" : "", name) < (int)(PATH_MAX - n);
}

/* The longest existing prefix of the path, resolved. */
static void resolve_ancestor(const char *path, char real[PATH_MAX])
{
    char part[PATH_MAX];

    (void)snprintf(part, sizeof part, "%s", path);
    while (!realpath(part, real)) {
        char *slash = strrchr(part, '/');

        if (!slash)
            (void)strcpy(part, ".");
        else
            slash[slash == part ? 1 : 0] = '\0';
    }
}

static mf_status locate(const mf_step *step, const char *path, step_file_place *out)
{
    char real[PATH_MAX];
    struct stat info;

    if (strlen(path) >= PATH_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a path of %zu bytes", strlen(path));
    if (realpath(path, real))
        return find_root(step, real, out) ? MF_OK : denied(path);
    /* A dangling link cannot be resolved: a file created through it could be anywhere. */
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
        return denied(path);
    if (resolve_parent(path, real))
        return find_root(step, real, out) ? MF_OK : denied(path);
    resolve_ancestor(path, real);
    if (!find_root(step, real, out))
        return denied(path);
    return MF_FAIL(MF_NOT_FOUND, "%.500s; No such file or directory", path);
}

mf_status mf_step_file(const mf_step *step, const char *path)
{
    step_file_place at;

    return locate(step, path, &at);
}

/* The resolved path contains no links, unless one was created since. */
static int open_beneath(const step_file_place *at, const char *rest, int flags)
{
    const struct open_how how = { .flags = (unsigned)flags | O_CLOEXEC,
                                  .mode = flags & O_CREAT ? 0666 : 0,
                                  .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
    const int root = open(at->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd, why;

    if (root < 0)
        return -1;
    fd = (int)syscall(SYS_openat2, root, *rest ? rest : ".", &how, sizeof how);
    if (fd < 0 && errno == ENOSYS) /* Linux before 5.6: check at least that the last component is
                                      not a link */
        fd = openat(root, *rest ? rest : ".", flags | O_CLOEXEC | O_NOFOLLOW, 0666);
    why = errno;
    (void)close(root);
    errno = why;
    return fd;
}

static mf_status open_status(const char *path, int err)
{
    if (err == ELOOP || err == EXDEV)
        return denied(path);
    if (err == ENOENT || err == ENOTDIR)
        return MF_FAIL(MF_NOT_FOUND, "%.500s; No such file or directory", path);
    return mf_errno_status(err, "open", path);
}

/* Reading a pipe or a device could block the thread without limit; a deadline does not interrupt
 * it. */
static mf_status check_kind(const char *path, int fd)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return mf_errno_status(errno, "open", path);
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%.500s' is a pipe, a socket or a device, not a file",
                       path);
    return MF_OK;
}

mf_status mf_step_open(const mf_step *step, const char *path, int flags, int *fd)
{
    mf_status st;
    step_file_place at;

    *fd = -1;
    MF_TRY(locate(step, path, &at));
    /* Opening a pipe would wait for its other end. The flag has no effect on files. */
    *fd = open_beneath(&at, at.rest, flags | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0)
        return open_status(path, errno);
    st = check_kind(path, *fd);
    if (st != MF_OK) {
        (void)close(*fd);
        *fd = -1;
    }
    return st;
}

mf_status mf_step_pin_file(const mf_step *step, const char *path, mf_step_pin *out)
{
    char *name;
    step_file_place at;

    *out = (mf_step_pin){ .dir = -1, .name = path };
    MF_TRY(locate(step, path, &at));
    name = strrchr(at.rest, '/');
    if (!at.rest[0])
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%.500s' is a directory", path);
    if (name)
        *name++ = '\0';
    out->dir = open_beneath(&at, name ? at.rest : "", O_PATH | O_DIRECTORY);
    if (out->dir < 0)
        return open_status(path, errno);
    (void)snprintf(out->path, sizeof out->path, "/proc/self/fd/%d/%s", out->dir,
                   name ? name : at.rest);
    return MF_OK;
}

mf_status mf_step_unpin(mf_step_pin *pin, mf_status st)
{
    if (pin->dir >= 0)
        (void)close(pin->dir);
    pin->dir = -1;
    if (st == MF_OK)
        return st;
    return mf_error_wrap(mf_error_wrap(st, "", "; the path is "), "", pin->name);
}
