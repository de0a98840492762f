/* SPDX-License-Identifier: Apache-2.0 */
/* leftovers.c - removes status pages, sockets and temporary files of killed processes. File names
 * hold the process id of their creator. */
#include "supervisor/leftovers.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/process.h"
#include "observe/status_page.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MEMORY[] = "/dev/shm";

void mf_leftovers_remove_tree(int parent, const char *name, int depth)
{
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *e;

    while (dir && (e = readdir(dir)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, e->d_name, 0) != 0 && (errno == EISDIR || errno == EPERM) && depth > 0)
            mf_leftovers_remove_tree(fd, e->d_name, depth - 1);
    }
    if (dir)
        (void)closedir(dir);
    else if (fd >= 0)
        (void)close(fd);
    if (unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        MF_LOG(MF_LOG_DEBUG, "cannot remove %s: %s", name, strerror(errno));
}

/* ---- owners ---- */

/* "PREFIX123" or "PREFIX123-...": 123; 0: another file. */
static int maker_of(const char *name, const char *prefix)
{
    const size_t n = strlen(prefix);
    char *end;
    long pid;

    if (strncmp(name, prefix, n) != 0 || name[n] < '1' || name[n] > '9')
        return 0;
    pid = strtol(name + n, &end, 10);
    return (*end == '\0' || *end == '-') && pid <= INT32_MAX ? (int)pid : 0;
}

static bool leftovers_is_gone(int pid)
{
    mf_process p;

    return pid > 0 && (!mf_process_read(pid, &p) || p.state == 'Z');
}

/* True if the environment or the command line of a process names this store. The kernel does not
 * report their sizes. */
static bool leftovers_names(const char *pid, const char *file, const char *store)
{
    char path[64], part[4096];
    mf_buf text = { 0 };
    bool found;
    FILE *in;
    size_t n;

    (void)snprintf(path, sizeof path, "/proc/%.20s/%s", pid, file);
    in = fopen(path, "re");
    while (in && (n = fread(part, 1, sizeof part, in)) > 0)
        mf_buf_bytes(&text, part, n);
    if (in)
        (void)fclose(in);
    found = text.len > 0 && memmem(text.data, text.len, store, strlen(store)) != NULL;
    mf_buf_deinit(&text);
    return found;
}

/* Checks processes, not the launcher: tasks outlive their launcher. */
static bool leftovers_is_used(const char *store)
{
    DIR *all = opendir("/proc");
    const struct dirent *e;
    bool used = !all;

    while (all && !used && (e = readdir(all)) != NULL) {
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            used = leftovers_names(e->d_name, "environ", store) ||
                   leftovers_names(e->d_name, "cmdline", store);
    }
    if (all)
        (void)closedir(all);
    return used;
}

/* ---- removing ---- */

static void sweep_store(const char *dir, int fd, const char *name)
{
    mf_buf path = { 0 };

    mf_buf_printf(&path, "file:%s/%s", dir, name);
    if (mf_buf_finish(&path) == MF_OK && !leftovers_is_used(path.data))
        mf_leftovers_remove_tree(fd, name, 2);
    mf_buf_deinit(&path);
}

static void sweep_file(int fd, const char *name)
{
    struct stat st;

    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
        st.st_uid == geteuid() && unlinkat(fd, name, 0) != 0)
        MF_WARN("cannot remove %s: %s", name, strerror(errno));
}

static void sweep_dir(const char *dir, const char *files, const char *stores)
{
    DIR *all = opendir(dir);
    const struct dirent *e;

    while (all && (e = readdir(all)) != NULL) {
        if (leftovers_is_gone(maker_of(e->d_name, files)))
            sweep_file(dirfd(all), e->d_name);
        else if (stores && leftovers_is_gone(maker_of(e->d_name, stores)))
            sweep_store(dir, dirfd(all), e->d_name);
    }
    if (all)
        (void)closedir(all);
}

mf_status mf_leftovers_sweep(void)
{
    mf_buf dir = { 0 };
    mf_status st = mf_status_page_dir(&dir);

    if (st == MF_OK)
        st = mf_buf_finish(&dir);
    if (st == MF_OK)
        sweep_dir(dir.data, ".", "store-");
    mf_buf_deinit(&dir);
    sweep_dir(MEMORY, "meshflow-", NULL);
    return st;
}
