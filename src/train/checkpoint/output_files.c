/* SPDX-License-Identifier: Apache-2.0 */
/* output_files.c - the files of trainings in an output directory. */
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/ledger.h"
#include "formats/events.h"
#include "formats/tensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/output_lock.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- existing files ---- */

/* Meshflow's event files have its name in their first events. */
static bool is_our_events(const char *dir, const char *name)
{
    mf_events_reader *r = NULL;
    const Tensorflow__Event *e;
    mf_buf path = { 0 };
    bool ours = false;

    if (!mf_events_is_name(name))
        return false;
    mf_buf_printf(&path, "%s/%s", dir, name);
    if (path.data && mf_events_reader_open(path.data, &r) == MF_OK) {
        for (int i = 0; i < 4 && !ours && mf_events_next(r, &e) == MF_OK; i++)
            ours = mf_events_run_of(e) != NULL;
        mf_events_reader_close(r);
    }
    mf_buf_deinit(&path);
    return ours;
}

mf_status mf_run_files_look(const char *dir, mf_run_files *out)
{
    int64_t *steps = NULL;
    DIR *d = opendir(dir);
    const struct dirent *e;
    mf_status st = mf_checkpoints_list(dir, &steps, &out->checkpoints);

    out->newest_step = st == MF_OK && out->checkpoints > 0 ? steps[out->checkpoints - 1] : -1;
    out->others = false;
    while (d && (e = readdir(d)) != NULL)
        out->others |= strcmp(e->d_name, MF_LEDGER_FILE) == 0 || is_our_events(dir, e->d_name);
    if (d)
        (void)closedir(d);
    mf_free(steps);
    return st;
}

/* "": it names none. */
static void read_run_of(const char *prefix, char run[MF_RUN_ID])
{
    mf_tensors *file = NULL;
    mf_tensor value = { 0 };
    int64_t at;

    run[0] = '\0';
    if (mf_tensors_open(prefix, &file) != MF_OK)
        return;
    at = mf_tensors_find(file, MF_RUN_NAME);
    if (at >= 0 && mf_tensors_read(file, at, &value) == MF_OK && value.dtype == MF_DTYPE_STRING &&
        value.count == 1) {
        const mf_string s = ((const mf_string *)value.data)[0];

        if (s.len == MF_RUN_ID - 1)
            (void)snprintf(run, MF_RUN_ID, "%.*s", (int)s.len, s.data);
        if (strlen(run) != strspn(run, "0123456789abcdef") || strlen(run) != MF_RUN_ID - 1)
            run[0] = '\0';
    }
    mf_tensor_clear(&value);
    mf_tensors_close(file);
}

mf_status mf_run_files_id(const char *dir, char run[MF_RUN_ID])
{
    int64_t *steps = NULL, n = 0;
    mf_status st = mf_checkpoints_list(dir, &steps, &n);

    run[0] = '\0';
    for (int64_t i = n - 1; st == MF_OK && i >= 0 && !run[0]; i--) {
        char *prefix;

        st = mf_checkpoints_prefix(dir, steps[i], &prefix);
        if (st == MF_OK)
            read_run_of(prefix, run);
        mf_free(prefix);
    }
    mf_free(steps);
    return st;
}

/* ---- removing ---- */

/* The writer of an unreadable checkpoint is unknown. */
static bool is_our_checkpoint(const char *prefix)
{
    mf_tensors *file;
    bool ours;

    if (mf_tensors_open(prefix, &file) != MF_OK)
        return false;
    ours = mf_tensors_find(file, "_meshflow/epoch") >= 0;
    mf_tensors_close(file);
    return ours;
}

static mf_status remove_checkpoints(const char *dir)
{
    int64_t *steps = NULL, n = 0;
    mf_status st = mf_checkpoints_list(dir, &steps, &n);

    for (int64_t i = 0; st == MF_OK && i < n; i++) {
        char *prefix;

        st = mf_checkpoints_prefix(dir, steps[i], &prefix);
        if (st != MF_OK)
            break;
        if (is_our_checkpoint(prefix))
            mf_checkpoints_remove(dir, steps[i]);
        else
            st = MF_FAIL(MF_INVALID_ARGUMENT,
                         "%s is not a checkpoint of Meshflow, or it is damaged: --overwrite does "
                         "not remove it; remove it, or choose another --out",
                         prefix);
        mf_free(prefix);
    }
    mf_free(steps);
    return st;
}

static bool output_files_is_ours(const char *dir, const char *name)
{
    static const char *const names[] = { MF_LEDGER_FILE, "curve.csv",  "curve.svg", "model.json",
                                         "schema.json",  "checkpoint", MF_RUN_FILE };

    for (int i = 0; i < MF_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return is_our_events(dir, name);
}

mf_status mf_run_files_remove(const char *dir)
{
    const struct dirent *e;
    DIR *d;
    mf_status st = remove_checkpoints(dir);

    MF_TRY(st);
    d = opendir(dir);
    if (!d)
        return mf_errno_status(errno, "read", dir);
    while (st == MF_OK && (e = readdir(d)) != NULL) {
        if (output_files_is_ours(dir, e->d_name) && unlinkat(dirfd(d), e->d_name, 0) != 0 &&
            errno != ENOENT)
            st = mf_errno_status(errno, "remove", e->d_name);
    }
    (void)closedir(d);
    return st;
}
