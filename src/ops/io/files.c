/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - reads and writes whole files as strings, and lists files that match a pattern. */
#include "base/file.h"
#include "base/mem.h"
#include "ops/io/op_path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static mf_status path_input(const mf_kernel *k, char path[PATH_MAX])
{
    if (k->in[0]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input filename tensor must be scalar");
    return mf_path_read(k->in[0], 0, path);
}

/* ---- ReadFile ---- */

static mf_status files_read_run(mf_kernel *k)
{
    char path[PATH_MAX], *data;
    mf_tensor *out;
    size_t len;
    mf_status st;
    int fd;

    MF_TRY(path_input(k, path));
    MF_TRY(mf_step_open(k->step, path, O_RDONLY, &fd));
    MF_TRY(mf_file_read_fd(fd, path, MF_PATH_STRING_MAX, &data, &len));
    st = mf_kernel_out(k, 0, &MF_SCALAR, &out);
    if (st == MF_OK)
        st = mf_string_set(out->data, data, len);
    mf_free(data);
    return st;
}

/* ---- WriteFile ---- */

/* Creates parent directories, each only within the allowed directories. */
static mf_status make_folders(const mf_step *step, const char *path)
{
    char part[PATH_MAX];

    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        const size_t n = (size_t)(slash - path);
        struct stat info;

        memcpy(part, path, n);
        part[n] = '\0';
        if (stat(part, &info) == 0)
            continue;
        MF_TRY(mf_step_file(step, part));
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return mf_errno_status(errno, "create directory", part);
    }
    return MF_OK;
}

static mf_status files_write_run(mf_kernel *k)
{
    const mf_string *contents = k->in[1]->data;
    char path[PATH_MAX];
    mf_step_pin pin;
    mf_status st;

    MF_TRY(path_input(k, path));
    if (k->in[1]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Contents tensor must be scalar");
    MF_TRY(make_folders(k->step, path));
    MF_TRY(mf_step_pin_file(k->step, path, &pin));
    st = mf_file_write(pin.path, contents->len ? contents->data : "", contents->len);
    return mf_step_unpin(&pin, st);
}

/* ---- MatchingFiles ---- */

typedef struct names {
    char **at;
    int64_t n, cap;
} names;

static void files_names_deinit(names *l)
{
    for (int64_t i = 0; i < l->n; i++)
        mf_free(l->at[i]);
    mf_free(l->at);
}

/* The path up to the first wildcard must be allowed: a graph must not learn which files exist
 * elsewhere. */
static mf_status check_root(const mf_step *step, const char *pattern)
{
    const size_t plain = strcspn(pattern, "*?[\\");
    char root[PATH_MAX];
    size_t n = plain;

    while (n > 0 && pattern[n - 1] != '/')
        n--;
    memcpy(root, n > 0 ? pattern : "./", n > 0 ? n : 2);
    root[n > 0 ? n : 2] = '\0';
    return mf_step_file(step, root);
}

static bool is_dots(const char *path)
{
    const char *last = strrchr(path, '/');

    last = last ? last + 1 : path;
    return strcmp(last, ".") == 0 || strcmp(last, "..") == 0;
}

static mf_status names_add(names *l, const char *name)
{
    MF_TRY(mf_grow(&l->at, &l->cap, l->n + 1, sizeof *l->at));
    l->at[l->n] = mf_strdup(name);
    if (!l->at[l->n])
        return MF_NOMEM("file names");
    l->n++;
    return MF_OK;
}

/* A path during matching. */
typedef struct match {
    const mf_step *step;
    names *out;
    char path[PATH_MAX];
    size_t len;
} match;

static bool files_append(match *m, const char *text, size_t n)
{
    if (m->len + n >= sizeof m->path)
        return false;
    memcpy(m->path + m->len, text, n);
    m->len += n;
    m->path[m->len] = '\0';
    return true;
}

/* Names in the directory that match one component of the pattern. The directory is closed before
 * its subdirectories are opened. */
static mf_status list_folder(const match *m, const char *part, names *found)
{
    DIR *dir = opendir(m->len > 0 ? m->path : ".");
    const struct dirent *e;
    mf_status st = MF_OK;

    while (st == MF_OK && dir && (e = readdir(dir)) != NULL) {
        st = mf_stop_check();
        if (st == MF_OK && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            fnmatch(part, e->d_name, 0) == 0)
            st = names_add(found, e->d_name);
    }
    if (dir)
        (void)closedir(dir);
    return st;
}

/* The whole pattern has been matched. */
static mf_status add_match(match *m)
{
    struct stat info;

    if (lstat(m->path, &info) != 0 || is_dots(m->path) || mf_step_file(m->step, m->path) != MF_OK)
        return MF_OK;
    return names_add(m->out, m->path);
}

static mf_status files_follow(match *m, const char *pattern);

/* `part` has wildcards; `rest` follows it. */
static mf_status follow_each(match *m, const char *part, const char *rest)
{
    const size_t len = m->len;
    names found = { 0 };
    mf_status st = list_folder(m, part, &found);

    for (int64_t i = 0; st == MF_OK && i < found.n; i++) {
        if (files_append(m, found.at[i], strlen(found.at[i])))
            st = files_follow(m, rest);
        m->len = len;
        m->path[len] = '\0';
    }
    files_names_deinit(&found);
    return st;
}

/* Matches the rest of the pattern below m->path. */
static mf_status files_follow(match *m, const char *pattern)
{
    const size_t slashes = strspn(pattern, "/"), n = strcspn(pattern + slashes, "/");
    char part[PATH_MAX];

    MF_TRY(mf_stop_check());
    if (!files_append(m, pattern, slashes))
        return MF_OK;
    memcpy(part, pattern + slashes, n); /* patterns are shorter than PATH_MAX */
    part[n] = '\0';
    pattern += slashes + n;
    if (strpbrk(part, "*?[\\"))
        return follow_each(m, part, pattern);
    if (!files_append(m, part, n))
        return MF_OK;
    return *pattern ? files_follow(m, pattern) : add_match(m);
}

static mf_status add_matches(const mf_step *step, const char *pattern, names *out)
{
    match m = { .step = step, .out = out };

    MF_TRY(check_root(step, pattern));
    return files_follow(&m, pattern);
}

static int files_by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static mf_status files_put_names(mf_kernel *k, const names *l)
{
    mf_tensor *out;

    if (l->n > 0)
        qsort(l->at, (size_t)l->n, sizeof *l->at, files_by_name);
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(l->n), &out));
    for (int64_t i = 0; i < l->n; i++)
        MF_TRY(mf_string_set((mf_string *)out->data + i, l->at[i], strlen(l->at[i])));
    return MF_OK;
}

static mf_status files_match_run(mf_kernel *k)
{
    names l = { 0 };
    char pattern[PATH_MAX];
    mf_status st = MF_OK;

    if (k->in[0]->shape.rank > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input patterns tensor must be scalar or vector");
    for (int64_t i = 0; st == MF_OK && i < k->in[0]->count; i++) {
        st = mf_path_read(k->in[0], i, pattern);
        if (st == MF_OK)
            st = add_matches(k->step, pattern, &l);
    }
    if (st == MF_OK)
        st = files_put_names(k, &l);
    files_names_deinit(&l);
    return st;
}

static mf_status match_infer(mf_infer *in)
{
    in->out[0] = MF_SHAPE(MF_UNKNOWN_DIM);
    return MF_OK;
}

#define FILE_OP(NAME, DEF, INFER, RUN, ...)                                                        \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = mf_grad_none, .run = RUN,                \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_files[] = {
    FILE_OP("ReadFile", "(filename:string) -> (contents:string) {}", mf_infer_scalar,
            files_read_run, "str[]{/no/such/file} !fails !notf", "str[2]{a,b} !fails"),
    FILE_OP("WriteFile", "(filename:string, contents:string) -> () {} is_stateful", mf_infer_none,
            files_write_run, "str[]{/no/such/file} str[]{x} !fails !notf",
            "str[2]{a,b} str[] !fails"),
    FILE_OP("MatchingFiles", "(pattern:string) -> (filenames:string) {}", match_infer,
            files_match_run, "str[0] !notf", "str[]{/no/such/*} !fails !notf"),
    { 0 },
};
