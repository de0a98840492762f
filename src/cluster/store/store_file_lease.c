/* SPDX-License-Identifier: Apache-2.0 */
/* store_file_lease.c - leases of a store in a folder, a file each, see store_file.h. Files are read
 * where that will do, and mapped only to change the one number that counts. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/process.h"
#include "cluster/store/store_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static mf_status store_file_lease_has_ended(int64_t id)
{
    return MF_FAIL(MF_FAILED_PRECONDITION, "lease %lld has ended", (long long)id);
}

/* ---- files ---- */

static mf_status store_file_lease_open_file(const mf_store_folder *f, int64_t id, int flags,
                                            int *fd)
{
    mf_buf path = { 0 };
    mf_status st;

    mf_buf_printf(&path, "%s/lease~%lld", f->path, (long long)id);
    st = mf_buf_finish(&path);
    if (st == MF_OK) {
        *fd = open(path.data, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (*fd < 0)
            st = mf_errno_status(errno, "open", path.data);
    }
    mf_buf_deinit(&path);
    return st;
}

static void store_file_lease_remove_file(const mf_store_folder *f, int64_t id)
{
    mf_buf path = { 0 };

    mf_buf_printf(&path, "%s/lease~%lld", f->path, (long long)id);
    if (mf_buf_finish(&path) == MF_OK)
        (void)unlink(path.data);
    mf_buf_deinit(&path);
}

mf_status mf_store_lease_decode(const void *data, size_t len, int64_t id, mf_store_lease *out)
{
    if (len != sizeof *out)
        return MF_FAIL(MF_DATA_LOSS, "%zu bytes are no lease", len);
    memcpy(out, data, sizeof *out);
    if (memcmp(out->magic, MF_STORE_LEASE_MAGIC, sizeof out->magic) != 0 ||
        out->boot[MF_STORE_BOOT - 1] != '\0' || out->id != id || out->pid <= 0 ||
        out->ttl_ns <= 0 || atomic_load(&out->until_ns) < 0)
        return MF_FAIL(MF_DATA_LOSS, "this is not lease %lld", (long long)id);
    return MF_OK;
}

static mf_status read_fd(int fd, int64_t id, mf_store_lease *out)
{
    char bytes[sizeof *out + 1];
    const ssize_t n = pread(fd, bytes, sizeof bytes, 0);

    return mf_store_lease_decode(bytes, n > 0 ? (size_t)n : 0, id, out);
}

/* ---- in force or not ---- */

bool mf_store_lease_has_process(const mf_store_folder *f, const mf_store_lease *l)
{
    return l->pid_space == f->pid_space;
}

/* It is expired even if another process renews it: its only possible writer has ended. */
static bool is_orphan(const mf_store_folder *f, const mf_store_lease *l)
{
    mf_process p;

    if (strcmp(l->boot, f->boot) != 0)
        return true;
    return mf_store_lease_has_process(f, l) &&
           (!mf_process_read(l->pid, &p) || p.start != l->start || p.state == 'Z');
}

typedef enum wish { LOOK, RENEW, FINISH } wish;

/* With the number that counts. False: it has ended. */
static bool store_file_lease_settle(atomic_llong *until_ns, wish what, int64_t ttl_ns)
{
    long long until = atomic_load(until_ns);

    for (;;) {
        const int64_t now = mf_clock_ns();
        const bool in_force = until > now && what != FINISH;
        const long long next = !in_force ? 0 : what == RENEW ? now + ttl_ns : until;

        if (until == 0)
            return false;
        if (until == next || atomic_compare_exchange_weak(until_ns, &until, next))
            return in_force;
    }
}

static mf_status settle_fd(int fd, const mf_store_lease *l, wish what)
{
    struct stat st;
    mf_store_lease *m;
    bool in_force;

    if (fstat(fd, &st) != 0 || st.st_size != (off_t)sizeof *m) /* accessing the mapping would raise
                                                                  SIGBUS */
        return store_file_lease_has_ended(l->id);
    m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m == MAP_FAILED)
        return MF_NOMEM("a lease");
    in_force = store_file_lease_settle(&m->until_ns, what, l->ttl_ns);
    (void)munmap(m, sizeof *m);
    return in_force ? MF_OK : store_file_lease_has_ended(l->id);
}

static mf_status with_lease(const mf_store_folder *f, int64_t id, wish what, mf_store_lease *out)
{
    mf_store_lease l;
    mf_status st;
    int fd = -1;

    st = store_file_lease_open_file(f, id, O_RDWR, &fd);
    if (st != MF_OK)
        return st == MF_NOT_FOUND ? store_file_lease_has_ended(id) : st;
    st = read_fd(fd, id, &l);
    if (st == MF_DATA_LOSS || (st == MF_OK && is_orphan(f, &l)))
        st = store_file_lease_has_ended(id);
    else if (what != LOOK || atomic_load(&l.until_ns) <= mf_clock_ns())
        st = settle_fd(fd, &l, what);
    (void)close(fd);
    if (st == MF_OK && out)
        *out = l;
    if (st == MF_FAILED_PRECONDITION)
        store_file_lease_remove_file(f, id);
    return st;
}

mf_status mf_store_lease_look(const mf_store_folder *f, int64_t id, mf_store_lease *out)
{
    return with_lease(f, id, LOOK, out);
}

mf_status mf_store_lease_renew(const mf_store_folder *f, int64_t id)
{
    return with_lease(f, id, RENEW, NULL);
}

mf_status mf_store_lease_finish(const mf_store_folder *f, int64_t id)
{
    const mf_status st = with_lease(f, id, FINISH, NULL);

    return st == MF_FAILED_PRECONDITION ? MF_OK : st;
}

/* ---- making and sweeping ---- */

mf_status mf_store_lease_make(const mf_store_folder *f, int64_t ttl_ns, int64_t *id)
{
    mf_store_lease l = { .magic = MF_STORE_LEASE_MAGIC,
                         .pid_space = f->pid_space,
                         .id = (int64_t)(mf_random_seed() >> 1 | 1),
                         .pid = getpid(),
                         .ttl_ns = ttl_ns,
                         .until_ns = mf_clock_ns() + ttl_ns };
    mf_process self;
    mf_status st;
    int fd;

    if (!mf_process_read(l.pid, &self)) /* other processes would consider this one dead */
        return MF_FAIL(MF_UNAVAILABLE, "/proc does not show this process");
    l.start = self.start;
    memcpy(l.boot, f->boot, sizeof l.boot);
    st = store_file_lease_open_file(f, l.id, O_RDWR | O_CREAT | O_EXCL, &fd);
    if (st != MF_OK) /* a missing folder is not NOT_FOUND */
        return st == MF_NOT_FOUND ? MF_DATA_LOSS : st;
    if (pwrite(fd, &l, sizeof l, 0) != (ssize_t)sizeof l) {
        st = MF_FAIL(MF_RESOURCE_EXHAUSTED, "no room for a lease in '%s'", f->path);
        store_file_lease_remove_file(f, l.id);
    }
    (void)close(fd);
    if (st == MF_OK)
        *id = l.id;
    return st;
}

/* One without bytes is just being made. */
static bool has_bytes(int dir, const char *name)
{
    struct stat st;

    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0;
}

void mf_store_leases_sweep(const mf_store_folder *f)
{
    DIR *d = opendir(f->path);
    const struct dirent *e;

    while (d && (e = readdir(d)) != NULL) {
        mf_status st = MF_OK;
        long long id;
        int end = 0;

        if (sscanf(e->d_name, "lease~%lld%n", &id, &end) == 1 && e->d_name[end] == '\0' && id > 0 &&
            has_bytes(dirfd(d), e->d_name))
            st = mf_store_lease_look(f, id, NULL); /* removes it if it has expired */
        (void)st;
    }
    if (d)
        (void)closedir(d);
}
