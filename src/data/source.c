/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - finds the source that opens the data that a user names. */
#include "data/source.h"

#include "base/did_you_mean.h"
#include "base/file.h"
#include "base/host_state.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const mf_source mf_source_idx, mf_source_fashion_mnist, mf_source_cifar, mf_source_cifar10,
    mf_source_cifar100, mf_source_records, mf_source_npz, mf_source_npy, mf_source_csv,
    mf_source_libsvm, mf_source_images, mf_source_ctr, mf_source_text, mf_source_sequence,
    mf_source_language, mf_source_scenes;

/* In the order in which folders are offered to them. */
const mf_source *const mf_sources[] = {
    &mf_source_fashion_mnist,
    &mf_source_cifar10,
    &mf_source_cifar100,
    &mf_source_ctr,
    &mf_source_text,
    &mf_source_sequence,
    &mf_source_language,
    &mf_source_idx,
    &mf_source_cifar,
    &mf_source_records,
    &mf_source_npz,
    &mf_source_npy,
    &mf_source_csv,
    &mf_source_libsvm,
    &mf_source_images,
    &mf_source_scenes,
    NULL,
};

/* ---- paths ---- */

const char *mf_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

mf_status mf_path_wrong(mf_status st, const char *path)
{
    (void)mf_error_wrap(st, "': ", "");
    (void)mf_error_wrap(st, path, "");
    return mf_error_wrap(st, "'", "");
}

bool mf_path_ends(const char *path, const char *ending)
{
    const size_t n = strlen(path), e = strlen(ending);

    return n >= e && strcmp(path + n - e, ending) == 0;
}

static mf_status add_path(mf_paths *p, char *path)
{
    mf_status st = path ? mf_grow(&p->paths, &p->cap, p->n + 1, sizeof *p->paths)
                        : MF_NOMEM("a list of files");

    if (st == MF_OK)
        p->paths[p->n++] = path;
    else
        mf_free(path);
    return st;
}

void mf_paths_deinit(mf_paths *p)
{
    for (int64_t i = 0; i < p->n; i++)
        mf_free(p->paths[i]);
    mf_free(p->paths);
    *p = (mf_paths){ 0 };
}

mf_status mf_paths_glob(const char *pattern, mf_paths *out)
{
    struct stat s;
    glob_t g = { 0 };
    mf_status st = MF_OK;
    int result;

    *out = (mf_paths){ 0 };
    if (stat(pattern, &s) == 0) /* even if its name contains '*' or '[' */
        return add_path(out, mf_strdup(pattern));
    result = glob(pattern, GLOB_TILDE, NULL, &g);
    if (result == GLOB_NOSPACE)
        st = MF_NOMEM("a list of files");
    else if (result != 0)
        st = MF_FAIL(MF_NOT_FOUND, "there is no file '%s'", pattern);
    for (size_t i = 0; i < g.gl_pathc && st == MF_OK; i++)
        st = add_path(out, mf_strdup(g.gl_pathv[i]));
    globfree(&g);
    return st;
}

static int source_by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *source_join(const char *folder, const char *name)
{
    const size_t a = strlen(folder), b = strlen(name);
    char *path = mf_calloc((int64_t)(a + b + 2), 1);

    if (path) {
        memcpy(path, folder, a);
        path[a] = '/';
        memcpy(path + a + 1, name, b);
    }
    return path;
}

static mf_status list_entry(const char *folder, const char *name,
                            bool (*wanted)(const char *, bool is_dir), mf_paths *out)
{
    char *path;
    struct stat s;

    if (name[0] == '.')
        return MF_OK;
    path = source_join(folder, name);
    if (!path)
        return MF_NOMEM("a list of files");
    if (stat(path, &s) == 0 && (!wanted || wanted(name, S_ISDIR(s.st_mode))))
        return add_path(out, path);
    mf_free(path);
    return MF_OK;
}

mf_status mf_paths_list(const char *folder, bool (*wanted)(const char *, bool is_dir),
                        mf_paths *out)
{
    DIR *dir = opendir(folder);
    mf_status st = MF_OK;
    struct dirent *e;

    *out = (mf_paths){ 0 };
    if (!dir)
        return mf_errno_status(errno, "read the folder", folder);
    while (st == MF_OK && (e = readdir(dir)))
        st = list_entry(folder, e->d_name, wanted, out);
    closedir(dir);
    if (st == MF_OK && out->n > 0)
        qsort(out->paths, (size_t)out->n, sizeof *out->paths, source_by_name);
    return st;
}

/* ---- find the source ---- */

static const mf_source *source_find_source(const char *name, size_t len)
{
    for (int i = 0; mf_sources[i]; i++) {
        if (strlen(mf_sources[i]->name) == len && memcmp(mf_sources[i]->name, name, len) == 0)
            return mf_sources[i];
    }
    return NULL;
}

static const mf_source *source_of_file(const char *path)
{
    for (int i = 0; mf_sources[i]; i++) {
        for (const char *const *e = mf_sources[i]->endings; e && *e; e++) {
            if (mf_path_ends(path, *e))
                return mf_sources[i];
        }
    }
    return NULL;
}

static const mf_source *source_of_folder(const mf_paths *entries)
{
    struct stat s;

    for (int i = 0; mf_sources[i]; i++) {
        for (int64_t k = 0; k < entries->n && mf_sources[i]->in_folder; k++) {
            const char *path = entries->paths[k];

            if (stat(path, &s) == 0 &&
                mf_sources[i]->in_folder(mf_path_base(path), S_ISDIR(s.st_mode)))
                return mf_sources[i];
        }
    }
    return NULL;
}

static mf_status not_found(const char *data)
{
    mf_did_you_mean c = mf_did_you_mean_to(data);
    mf_buf names = { 0 };
    mf_status st;

    if (access(data, R_OK) != 0 && errno == EACCES)
        return MF_FAIL(MF_PERMISSION_DENIED, "cannot read '%.200s': Permission denied", data);
    for (int i = 0; mf_sources[i]; i++) {
        if (!mf_sources[i]->is_name)
            continue;
        mf_did_you_mean_try(&c, mf_sources[i]->name);
        mf_buf_printf(&names, "%s%s", names.len > 0 ? ", " : "", mf_sources[i]->name);
    }
    if (c.best && !strchr(data, '/'))
        st = MF_FAIL(MF_NOT_FOUND, "there is no data set or file '%.200s'; did you mean '%s'?",
                     data, c.best);
    else
        st = MF_FAIL(MF_NOT_FOUND,
                     "there is no data set or file '%.200s'; the known names are %.400s", data,
                     names.data ? names.data : "");
    mf_buf_deinit(&names);
    return st;
}

static mf_status guess(const char *data, const mf_source **out)
{
    mf_paths paths = { 0 }, entries = { 0 };
    struct stat s;
    mf_status st;

    *out = NULL;
    st = mf_paths_glob(data, &paths);
    if (st != MF_OK || paths.n == 0) {
        mf_paths_deinit(&paths);
        return st == MF_RESOURCE_EXHAUSTED ? st : not_found(data);
    }
    if (stat(paths.paths[0], &s) == 0 && S_ISDIR(s.st_mode)) {
        MF_TRY_TO(done, mf_paths_list(paths.paths[0], NULL, &entries));
        *out = source_of_folder(&entries);
    } else {
        *out = source_of_file(paths.paths[0]);
    }
    st = *out ? MF_OK
              : MF_FAIL(MF_INVALID_ARGUMENT,
                        "cannot tell the format of '%s' from its name; write it in front, as in "
                        "csv:%s",
                        data, data);
done:
    mf_paths_deinit(&paths);
    mf_paths_deinit(&entries);
    return st;
}

static mf_status source_read_settings(const mf_source *source, const mf_opening *how,
                                      mf_arena *arena, mf_options *o)
{
    const bool same = how->defaults && how->format && strcmp(how->format, source->name) == 0;

    MF_TRY(mf_options_parse(source->name, source->settings, same ? how->defaults : how->settings,
                            arena, o));
    return same ? mf_options_change(o, source->settings, how->settings, arena) : MF_OK;
}

static bool has_test(const mf_source *source, const char *data, const mf_options *o)
{
    if (!source->has_test && !source->is_name)
        return false;
    return !mf_options_given(o, "part") && (source->is_name || source->has_test(data, o));
}

static mf_status open_source(const mf_source *source, const char *data, const mf_opening *how,
                             mf_arena *arena, mf_opened *out)
{
    const char *path = source->is_name ? NULL : data;
    mf_options o;

    MF_TRY(source_read_settings(source, how, arena, &o));
    out->format = source->name;
    out->has_test = has_test(source, data, &o);
    if (how->test && out->has_test)
        MF_TRY(mf_options_change(&o, source->settings, "part=test", arena));
    return source->open_for ? source->open_for(path, &o, &how->expected, &out->set)
                            : source->open(path, &o, &out->set);
}

mf_status mf_source_open(const char *data, const mf_opening *how, mf_opened *out)
{
    MF_ENTRY;
    MF_NEED(data, out);

    const size_t head = strcspn(data, ":");
    const mf_source *source = source_find_source(data, head);
    mf_arena *arena = mf_arena_new();
    mf_status st;

    *out = (mf_opened){ 0 };
    if (!arena)
        return MF_NOMEM("settings");
    if (source && data[head] == ':' && !source->is_name)
        data += head + 1;
    else if (!source || !source->is_name || data[head])
        source = NULL;
    if (!source)
        MF_TRY_TO(done, guess(data, &source));
    MF_ASSERT(source);
    st = open_source(source, data, how, arena, out);
done:
    mf_arena_free(arena);
    return st;
}

mf_status mf_dataset_open(const char *data, const char *settings, mf_dataset **out)
{
    MF_ENTRY;
    MF_NEED(data, out);

    mf_opened opened;
    const mf_status st = mf_source_open(data, &(mf_opening){ .settings = settings }, &opened);

    *out = opened.set;
    return st;
}
