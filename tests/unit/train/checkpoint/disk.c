/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/train/checkpoint/disk.h"

#include "mf_test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static disk *watched; /* guarded by lock */

void disk_watch(disk *d)
{
    pthread_mutex_lock(&lock);
    watched = d;
    pthread_mutex_unlock(&lock);
}

void disk_leave(void)
{
    disk_watch(NULL);
}

void disk_deinit(disk *d)
{
    for (int64_t i = 0; i < d->n; i++)
        free(d->acts[i].data);
    free(d->acts);
}

/* ---- the calls ---- */

/* "DIR/file" -> "file", "DIR" -> ""; NULL: elsewhere. */
static const char *inside(const char *path)
{
    const size_t n = watched ? strlen(watched->folder) : 0;

    if (!watched || strncmp(path, watched->folder, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return NULL;
    return path + n + (path[n] == '/');
}

/* The file of a descriptor. */
static const char *inside_fd(int fd, char *path)
{
    char link[32];
    ssize_t n;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    return inside(path);
}

/* Counts a call; true: this call fails. */
static bool count(void)
{
    return ++watched->calls == watched->fail_at;
}

static void note(disk_kind kind, const char *name, const char *to, const void *data, size_t len)
{
    disk *d = watched;
    disk_act *a;

    if (d->n == d->cap) {
        d->cap = d->cap > 0 ? 2 * d->cap : 64;
        d->acts = realloc(d->acts, (size_t)d->cap * sizeof *d->acts);
        T_TRUE(d->acts != NULL);
    }
    a = &d->acts[d->n++];
    *a = (disk_act){ .kind = kind, .len = len };
    (void)snprintf(a->name, sizeof a->name, "%s", name);
    (void)snprintf(a->to, sizeof a->to, "%s", to ? to : "");
    if (len > 0) {
        a->data = malloc(len);
        T_TRUE(a->data != NULL);
        memcpy(a->data, data, len);
    }
}

ssize_t write(int fd, const void *data, size_t len)
{
    char path[PATH_MAX];
    const char *name;
    bool fails = false;
    int error = 0;

    pthread_mutex_lock(&lock);
    name = watched ? inside_fd(fd, path) : NULL;
    if (name) {
        fails = count();
        error = watched->error;
        if (fails && error == 0) /* the next call writes the rest */
            len = (len + 1) / 2;
        if (!fails || error == 0)
            note(DISK_WRITE, name, NULL, data, len);
    }
    pthread_mutex_unlock(&lock);
    if (fails && error != 0) {
        errno = error;
        return -1;
    }
    return syscall(SYS_write, fd, data, len);
}

/* For calls that are atomic. */
static bool goes_wrong(const char *name, disk_kind kind, const char *to)
{
    if (!name)
        return false;
    if (count() && watched->error != 0) {
        errno = watched->error;
        return true;
    }
    note(kind, name, to, NULL, 0);
    return false;
}

int fsync(int fd)
{
    char path[PATH_MAX];
    const char *name;
    bool wrong;

    pthread_mutex_lock(&lock);
    name = watched ? inside_fd(fd, path) : NULL;
    wrong = goes_wrong(name, name && name[0] == '\0' ? DISK_SYNC_FOLDER : DISK_SYNC, NULL);
    pthread_mutex_unlock(&lock);
    return wrong ? -1 : 0; /* no simulated power failure here */
}

int rename(const char *from, const char *to)
{
    bool wrong;

    pthread_mutex_lock(&lock);
    wrong = watched && goes_wrong(inside(from), DISK_RENAME, inside(to));
    pthread_mutex_unlock(&lock);
    return wrong ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

/* Removing does not fail: a full or failing disk still removes files. */
int unlinkat(int folder, const char *file, int flags)
{
    char path[PATH_MAX];
    const char *name;

    pthread_mutex_lock(&lock);
    if (watched) {
        name = folder == AT_FDCWD ? inside(file) : inside_fd(folder, path);
        if (name)
            note(DISK_REMOVE, folder == AT_FDCWD ? name : file, NULL, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return (int)syscall(SYS_unlinkat, folder, file, flags);
}

/* ---- power failures ---- */

enum { FILES = 512, PENDING = 512, PIECE = 64 };

typedef struct file {
    char *data;
    size_t len, synced;
} file;

typedef struct name {
    char text[DISK_NAME];
    file *of; /* NULL: the name was removed */
} name;

typedef struct names {
    name list[FILES];
    int n;
} names;

typedef struct change { /* of names, and not synced yet */
    char name[DISK_NAME];
    file *of; /* NULL: it vanishes */
} change;

typedef struct platter {
    file files[FILES];
    int n_files;
    names now, synced;
    struct {
        change changes[2]; /* a renaming is two changes: both or none */
    } pending[PENDING];
    int n_pending;
} platter;

static uint64_t chance(uint64_t *random, uint64_t below)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (*random >> 33) % below;
}

static name *find(names *all, const char *text)
{
    for (int i = 0; i < all->n; i++) {
        if (strcmp(all->list[i].text, text) == 0)
            return &all->list[i];
    }
    T_TRUE(all->n < FILES);
    memcpy(all->list[all->n].text, text, strnlen(text, DISK_NAME - 1) + 1);
    all->list[all->n].of = NULL;
    return &all->list[all->n++];
}

static void put(names *all, const change *c)
{
    if (c->name[0] != '\0')
        find(all, c->name)->of = c->of;
}

static change *pend(platter *p)
{
    T_TRUE(p->n_pending < PENDING);
    memset(&p->pending[p->n_pending], 0, sizeof p->pending[0]);
    return p->pending[p->n_pending++].changes;
}

static void set_change(change *c, const char *text, file *of)
{
    (void)snprintf(c->name, sizeof c->name, "%s", text);
    c->of = of;
}

/* The file of this name, which may be new. */
static file *file_of(platter *p, const char *text)
{
    name *at = find(&p->now, text);

    if (!at->of) {
        T_TRUE(p->n_files < FILES);
        at->of = &p->files[p->n_files++];
        set_change(&pend(p)[0], text, at->of);
    }
    return at->of;
}

static void do_act(platter *p, const disk_act *a)
{
    file *f = a->kind == DISK_WRITE || a->kind == DISK_SYNC || a->kind == DISK_RENAME
                  ? file_of(p, a->name)
                  : NULL;
    change *c;

    switch (a->kind) {
    case DISK_WRITE:
        f->data = realloc(f->data, f->len + a->len);
        T_TRUE(f->data != NULL);
        memcpy(f->data + f->len, a->data, a->len);
        f->len += a->len;
        break;
    case DISK_SYNC:
        f->synced = f->len;
        break;
    case DISK_SYNC_FOLDER:
        p->synced = p->now;
        p->n_pending = 0;
        break;
    case DISK_RENAME:
    case DISK_REMOVE:
        c = pend(p);
        set_change(&c[0], a->name, NULL);
        if (a->kind == DISK_RENAME)
            set_change(&c[1], a->to, f);
        put(&p->now, &c[0]);
        put(&p->now, &c[1]);
        break;
    }
}

/* Which of the pending changes have reached the disk. */
static void lose_names(platter *p, uint64_t *random)
{
    const bool in_order = chance(random, 2) == 0;
    const int until = (int)chance(random, (uint64_t)p->n_pending + 1);

    for (int i = 0; i < p->n_pending; i++) {
        if (in_order ? i >= until : chance(random, 2) == 0)
            continue;
        put(&p->synced, &p->pending[i].changes[0]);
        put(&p->synced, &p->pending[i].changes[1]);
    }
}

/* Bytes that were not synced: none, some of them, or some pieces. The result is the new length of
 * the file. */
static size_t lose_bytes(file *f, uint64_t *random)
{
    const size_t tail = f->len - f->synced;
    const uint64_t how = chance(random, 4);

    if (tail == 0 || how == 0)
        return f->synced;
    if (how == 1)
        return f->synced + chance(random, tail + 1);
    for (size_t at = f->synced; how == 2 && at < f->len; at += PIECE) {
        if (chance(random, 2) == 0)
            memset(f->data + at, 0, f->len - at < PIECE ? f->len - at : PIECE);
    }
    return f->len;
}

static void write_out(const platter *p, const char *folder, const size_t *len)
{
    for (int i = 0; i < p->synced.n; i++) {
        const file *of = p->synced.list[i].of;
        char path[PATH_MAX];
        FILE *f;

        if (!of)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, p->synced.list[i].text);
        f = fopen(path, "wb");
        T_TRUE(f != NULL);
        T_EQ(fwrite(of->data, 1, len[of - p->files], f), len[of - p->files]);
        T_EQ(fclose(f), 0);
    }
}

void disk_cut(const disk *d, int64_t n, const char *folder, uint64_t *random)
{
    platter *p = calloc(1, sizeof *p);
    size_t len[FILES];

    T_TRUE(p != NULL);
    for (int64_t i = 0; i < n; i++)
        do_act(p, &d->acts[i]);
    lose_names(p, random);
    for (int i = 0; i < p->n_files; i++)
        len[i] = lose_bytes(&p->files[i], random);
    write_out(p, folder, len);
    for (int i = 0; i < p->n_files; i++)
        free(p->files[i].data);
    free(p);
}
