/* SPDX-License-Identifier: Apache-2.0 */
/* model_versions.c - finds the newest checkpoint at a path, to serve it. */
#include "serving/model_versions.h"

#include "base/file.h"
#include "base/mem.h"
#include "train/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* -1: not a number. */
static int64_t model_versions_number_of(const char *text)
{
    char *end;
    int64_t n;

    if (text[0] < '0' || text[0] > '9')
        return -1;
    errno = 0;
    n = strtoll(text, &end, 10);
    return errno == 0 && !*end ? n : -1;
}

/* The highest number among the folders that have a checkpoint. */
static mf_status newest_folder(const char *where, mf_serve_version *out)
{
    DIR *d = opendir(where);
    const struct dirent *e;
    mf_status st = MF_OK;

    if (!d)
        return mf_errno_status(errno, "read", where);
    while (st == MF_OK && (e = readdir(d)) != NULL) {
        const int64_t n = model_versions_number_of(e->d_name);
        mf_buf path = { 0 };
        char *found;

        if (n < 0 || (out->checkpoint && n <= out->number))
            continue;
        mf_buf_printf(&path, "%s/%s", where, e->d_name);
        st = mf_buf_finish(&path);
        if (st == MF_OK && mf_checkpoints_find(path.data, &found) == MF_OK) {
            mf_free(out->checkpoint);
            *out = (mf_serve_version){ n, found };
        }
        mf_buf_deinit(&path);
    }
    (void)closedir(d);
    if (st == MF_OK && !out->checkpoint)
        st = MF_FAIL(MF_NOT_FOUND,
                     "no checkpoint in %s, nor in its folders that are named by versions", where);
    return st;
}

mf_status mf_serve_newest(const char *where, mf_serve_version *out)
{
    struct stat info;
    int64_t *steps = NULL, n = 0, last = 0;
    const char *dash = strrchr(where, '-');

    *out = (mf_serve_version){ 0 };
    if (stat(where, &info) != 0 || !S_ISDIR(info.st_mode)) {
        out->number = dash && model_versions_number_of(dash + 1) >= 0
                          ? model_versions_number_of(dash + 1)
                          : 1;
        out->checkpoint = mf_strdup(where);
        return out->checkpoint ? MF_OK : MF_NOMEM("a checkpoint");
    }
    MF_TRY(mf_checkpoints_list(where, &steps, &n));
    last = n > 0 ? steps[n - 1] : 0;
    mf_free(steps);
    if (n == 0 && mf_checkpoints_find(where, &out->checkpoint) == MF_OK) {
        out->number = 1;
        return MF_OK;
    }
    if (n == 0)
        return newest_folder(where, out);
    out->number = last;
    return mf_checkpoints_prefix(where, last, &out->checkpoint);
}
