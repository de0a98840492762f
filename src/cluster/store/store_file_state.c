/* SPDX-License-Identifier: Apache-2.0 */
/* store_file_state.c - the state of a store in a folder, see store_file.h. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cluster/store/store_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Reading fails when the state is replaced under it. So often in a row it cannot be. */
enum { READ_TRIES = 2000, PAUSE_NS = 100000, PATH_ROOM = 64, SMALL_FILE = 4096 };

static mf_status store_file_state_gone(const mf_store_folder *f)
{
    return MF_FAIL(MF_DATA_LOSS,
                   "the store in '%s' is missing or incomplete: remove what remains of it, and "
                   "start the job again",
                   f->path);
}

/* A missing file of the folder is not a missing key. */
static mf_status store_file_state_never_not_found(const mf_store_folder *f, mf_status st)
{
    return st == MF_NOT_FOUND ? store_file_state_gone(f) : st;
}

/* ---- names ---- */

static void store_file_state_print_name(char out[PATH_ROOM], const char *kind,
                                        const mf_store_token *t)
{
    (void)snprintf(out, PATH_ROOM, "%s@%lld~%016llx", kind, (long long)t->revision,
                   (unsigned long long)t->id);
}

static bool parse_name(const char *name, const char *kind, mf_store_token *out)
{
    const size_t n = strlen(kind);
    char again[PATH_ROOM];
    unsigned long long id;
    long long revision;

    if (strncmp(name, kind, n) != 0 || sscanf(name + n, "@%lld~%llx", &revision, &id) != 2)
        return false;
    *out = (mf_store_token){ revision, id };
    store_file_state_print_name(again, kind, out);
    return revision >= 0 && strcmp(name, again) == 0;
}

/* Owns: mf_free(). NULL: no memory. */
static char *path_in(const char *dir, const char *name)
{
    mf_buf path = { 0 };

    mf_buf_printf(&path, "%s/%s", dir, name);
    if (mf_buf_finish(&path) == MF_OK)
        return path.data;
    mf_buf_deinit(&path);
    return NULL;
}

static char *store_file_state_path_of(const char *dir, const char *kind, const mf_store_token *t)
{
    char name[PATH_ROOM];

    store_file_state_print_name(name, kind, t);
    return path_in(dir, name);
}

/* ---- reading ---- */

/* NOT_FOUND: none at the moment; listing a folder is not atomic. */
static mf_status find_token(const mf_store_folder *f, mf_store_token *out)
{
    DIR *d = opendir(f->state);
    const struct dirent *e;
    mf_store_token t;
    bool found = false;

    if (!d)
        return mf_errno_status(errno, "open", f->state);
    while ((e = readdir(d)) != NULL) {
        if (parse_name(e->d_name, "now", &t) && (!found || t.revision > out->revision)) {
            *out = t;
            found = true;
        }
    }
    (void)closedir(d);
    return found ? MF_OK : MF_NOT_FOUND;
}

static mf_status read_data(const mf_store_folder *f, const mf_store_token *t, mf_store_state *out)
{
    char *path = store_file_state_path_of(f->state, "data", t), *data = NULL;
    size_t len;
    mf_status st = path ? mf_file_read(path, (size_t)MF_STORE_STATE_MAX + SMALL_FILE, &data, &len)
                        : MF_NOMEM("a name");

    if (st == MF_OK) {
        st = mf_store_state_decode(data, len, out);
        if (st == MF_OK && out->all.revision != t->revision)
            st = MF_FAIL(MF_DATA_LOSS, "its contents are of revision %lld",
                         (long long)out->all.revision);
        if (st == MF_DATA_LOSS)
            st = MF_FAIL(st, "'%s': %.600s; end the job and remove '%s'", path, mf_error_message(),
                         f->path);
    }
    mf_free(data);
    mf_free(path);
    return st;
}

/* DIR, or a part of it, was removed while it was in use; a new task may have made another store
 * there since then. */
static bool is_removed(const mf_store_folder *f)
{
    char *path = path_in(f->state, "host");
    struct stat ours, there;
    const bool same = path && fstat(f->host_fd, &ours) == 0 && stat(path, &there) == 0 &&
                      ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;

    mf_free(path);
    return !same;
}

mf_status mf_store_folder_read(const mf_store_folder *f, mf_store_token *token,
                               mf_store_state *state)
{
    *state = (mf_store_state){ 0 };
    for (int i = 0; i < READ_TRIES; i++) {
        mf_status st = is_removed(f) ? store_file_state_gone(f) : find_token(f, token);

        if (st == MF_OK)
            st = read_data(f, token, state);
        if (st != MF_NOT_FOUND)
            return st;
        if (i > READ_TRIES / 2) /* an error, or a very busy machine */
            (void)nanosleep(&(struct timespec){ 0, PAUSE_NS }, NULL);
    }
    return store_file_state_gone(f);
}

/* ---- replacing ---- */

/* data@ files that are not current, complete or not. */
static void sweep_data(const mf_store_folder *f, const mf_store_token *now)
{
    DIR *d = opendir(f->state);
    const struct dirent *e;
    char current[PATH_ROOM];
    long long revision;

    store_file_state_print_name(current, "data", now);
    while (d && (e = readdir(d)) != NULL) {
        if (sscanf(e->d_name, "data@%lld~", &revision) == 1 && revision <= now->revision &&
            strcmp(e->d_name, current) != 0)
            (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        (void)closedir(d);
}

static mf_status write_data(const mf_store_state *state, const char *path)
{
    mf_buf bytes = { 0 };
    mf_status st = mf_store_state_encode(state, &bytes);

    if (st == MF_OK)
        st = mf_file_write(path, bytes.data, bytes.len);
    mf_buf_deinit(&bytes);
    return st;
}

/* The one instruction that counts. */
static mf_status rename_token(const char *from, const char *to, bool *won)
{
    *won = rename(from, to) == 0;
    return *won || errno == ENOENT ? MF_OK : mf_errno_status(errno, "replace", from);
}

mf_status mf_store_folder_replace(const mf_store_folder *f, const mf_store_token *token,
                                  const mf_store_state *state, bool *won)
{
    const mf_store_token next = { state->all.revision, mf_random_seed() };
    char *data = store_file_state_path_of(f->state, "data", &next);
    char *from = store_file_state_path_of(f->state, "now", token),
         *to = store_file_state_path_of(f->state, "now", &next);
    mf_status st = data && from && to ? write_data(state, data) : MF_NOMEM("names");

    *won = false;
    if (st == MF_OK)
        st = rename_token(from, to, won);
    if (*won)
        sweep_data(f, &next);
    else if (data)
        (void)unlink(data);
    mf_free(data);
    mf_free(from);
    mf_free(to);
    return st == MF_NOT_FOUND ? MF_OK : st; /* another process removed the file: the state has
                                               changed */
}

/* ---- making ---- */

static void remove_folder(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;

    while (d && (e = readdir(d)) != NULL)
        (void)unlinkat(dirfd(d), e->d_name, 0); /* of "." and ".." it refuses */
    if (d)
        (void)closedir(d);
    (void)rmdir(path);
}

static mf_status write_host(const mf_store_folder *f, const char *path)
{
    char name[256] = "unknown", text[320];

    if (gethostname(name, sizeof name - 1) != 0)
        (void)strcpy(name, "unknown");
    return mf_file_write(path, text,
                         (size_t)snprintf(text, sizeof text, "%s\n%s\n", name, f->boot));
}

static mf_status fill_folder(const mf_store_folder *f, const char *dir)
{
    static const mf_store_state empty;
    const mf_store_token first = { 0, mf_random_seed() };
    char *host = path_in(dir, "host"), *data = store_file_state_path_of(dir, "data", &first);
    char *now = store_file_state_path_of(dir, "now", &first);
    mf_status st = host && data && now ? write_host(f, host) : MF_NOMEM("names");

    if (st == MF_OK)
        st = write_data(&empty, data);
    if (st == MF_OK)
        st = mf_file_write(now, "", 0);
    mf_free(host);
    mf_free(data);
    mf_free(now);
    return st;
}

static mf_status make_state(const mf_store_folder *f)
{
    char name[PATH_ROOM], *dir;
    mf_status st;

    (void)snprintf(name, sizeof name, "new~%016llx", (unsigned long long)mf_random_seed());
    dir = path_in(f->path, name);
    if (!dir)
        return MF_NOMEM("a name");
    st = mkdir(dir, 0700) == 0 ? fill_folder(f, dir) : mf_errno_status(errno, "make", dir);
    if (st == MF_OK && rename(dir, f->state) != 0)
        st = mf_errno_status(errno, "make", f->state);
    if (st != MF_OK) {
        remove_folder(dir);
        if (access(f->state, F_OK) == 0) /* another process was first, and may have removed this
                                            folder */
            st = MF_OK;
    }
    mf_free(dir);
    return st;
}

/* DIR/new~ folders of processes that were not first. */
static void sweep_new(const mf_store_folder *f)
{
    DIR *d = opendir(f->path);
    const struct dirent *e;

    while (d && (e = readdir(d)) != NULL) {
        char *path = strncmp(e->d_name, "new~", 4) == 0 ? path_in(f->path, e->d_name) : NULL;

        if (path)
            remove_folder(path);
        mf_free(path);
    }
    if (d)
        (void)closedir(d);
}

/* Another host would see neither the processes nor the clock of this one. A boot time distinguishes
 * two boots of a machine, and a namespace the containers of one machine. */
static mf_status check_host(const mf_store_folder *f)
{
    char name[256] = "unknown", *path = path_in(f->state, "host"), *text = NULL, *boot;
    size_t len;
    mf_status st = path ? mf_file_read(path, SMALL_FILE, &text, &len) : MF_NOMEM("a name");

    (void)gethostname(name, sizeof name - 1);
    if (st == MF_OK) {
        boot = strchr(text, '\n');
        if (boot)
            *boot++ = '\0';
        if (!boot || !strchr(boot, '\n'))
            st = store_file_state_gone(f);
        else if (strcmp(text, name) != 0 &&
                 (strncmp(boot, f->boot, strlen(f->boot)) != 0 || boot[strlen(f->boot)] != '\n'))
            st = MF_FAIL(MF_FAILED_PRECONDITION,
                         "'%s' is the store of host '%.200s', and this is '%s': several hosts need "
                         "etcd; or remove it",
                         f->path, text, name);
    }
    mf_free(text);
    mf_free(path);
    return store_file_state_never_not_found(f, st);
}

static mf_status hold_host(mf_store_folder *f)
{
    char *path = path_in(f->state, "host");

    if (!path)
        return MF_NOMEM("a name");
    f->host_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    mf_free(path);
    return f->host_fd >= 0 ? MF_OK : store_file_state_gone(f);
}

static mf_status store_file_state_look_around(mf_store_folder *f)
{
    struct stat space;
    char *text = NULL;
    size_t len;

    MF_TRY(mf_file_read("/proc/sys/kernel/random/boot_id", SMALL_FILE, &text, &len));
    (void)snprintf(f->boot, sizeof f->boot, "%.*s", (int)strcspn(text, "\n"), text);
    mf_free(text);
    if (stat("/proc/self/ns/pid", &space) != 0)
        return mf_errno_status(errno, "examine", "/proc/self/ns/pid");
    f->pid_space = (uint64_t)space.st_ino;
    return MF_OK;
}

mf_status mf_store_folder_open(const char *path, mf_store_folder *out)
{
    *out = (mf_store_folder){ .path = mf_strdup(path),
                              .state = path_in(path, "state"),
                              .host_fd = -1 };
    if (!out->path || !out->state)
        return MF_NOMEM("a store");
    MF_TRY(store_file_state_look_around(out));
    MF_TRY(mf_dir_make_own(path));
    if (access(out->state, F_OK) != 0)
        MF_TRY(make_state(out));
    MF_TRY(check_host(out));
    MF_TRY(hold_host(out));
    sweep_new(out);
    mf_store_leases_sweep(out);
    return MF_OK;
}

void mf_store_folder_deinit(mf_store_folder *f)
{
    if (f->path && f->host_fd >= 0)
        (void)close(f->host_fd);
    mf_free(f->path);
    mf_free(f->state);
    *f = (mf_store_folder){ 0 };
}
