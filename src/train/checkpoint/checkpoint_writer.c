/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_writer.c - a folder of checkpoints: a thread writes them and keeps the newest few;
 * finds the newest complete one.
 *
 * The file "checkpoint" lists them like TensorFlow's. It is a hint only: without it, or when it is
 * damaged, the folder itself is searched. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "formats/tensors.h"
#include "observe/stall_watchdog.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/output_lock.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char base_name[] = "model.ckpt-", list_name[] = "checkpoint";

enum { LOOK_NS = 250000000 }; /* how often a long wait checks for its cause */

struct mf_checkpoints {
    char *dir;
    int keep;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mf_snapshot *next; /* guarded by lock: to be written; NULL: none */
    bool busy, closing; /* guarded by lock */
    mf_error last; /* guarded by lock: of the last save */
};

/* ---- which there are ---- */

typedef struct checkpoint_writer_found {
    int64_t *steps; /* ascending */
    int64_t n, cap;
} checkpoint_writer_found;

static int checkpoint_writer_ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* "model.ckpt-300.index" -> 300; -1: another file. */
static int64_t checkpoint_writer_step_of(const char *file)
{
    const size_t n = sizeof base_name - 1;
    char *end;
    int64_t step;

    if (strncmp(file, base_name, n) != 0 || file[n] < '0' || file[n] > '9')
        return -1;
    errno = 0;
    step = strtoll(file + n, &end, 10);
    return errno == 0 && strcmp(end, ".index") == 0 ? step : -1;
}

static mf_status search(const char *dir, checkpoint_writer_found *f)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    mf_status st = MF_OK;

    *f = (checkpoint_writer_found){ 0 };
    if (!d)
        return errno == ENOENT ? MF_OK : mf_errno_status(errno, "read", dir);
    while (st == MF_OK && (e = readdir(d)) != NULL) {
        const int64_t step = checkpoint_writer_step_of(e->d_name);

        if (step < 0)
            continue;
        st = mf_grow(&f->steps, &f->cap, f->n + 1, sizeof(int64_t));
        if (st == MF_OK)
            f->steps[f->n++] = step;
    }
    (void)closedir(d);
    if (f->n > 1)
        qsort(f->steps, (size_t)f->n, sizeof(int64_t), checkpoint_writer_ascending);
    return st;
}

mf_status mf_checkpoints_prefix(const char *dir, int64_t step, char **prefix)
{
    mf_buf b = { 0 };

    mf_buf_printf(&b, "%s/%s%lld", dir, base_name, (long long)step);
    *prefix = b.data;
    return b.data ? MF_OK : MF_NOMEM("a checkpoint");
}

mf_status mf_checkpoints_list(const char *dir, int64_t **steps, int64_t *n)
{
    checkpoint_writer_found f;
    const mf_status st = search(dir, &f);

    *steps = f.steps;
    *n = f.n;
    return st;
}

/* ---- writing ---- */

static bool checkpoint_writer_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The index goes first: without it the checkpoint does not exist. Then its data files. */
void mf_checkpoints_remove(const char *dir, int64_t step)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    char name[64];

    if (!d)
        return;
    (void)snprintf(name, sizeof name, "%s%lld.index", base_name, (long long)step);
    (void)unlinkat(dirfd(d), name, 0);
    (void)snprintf(name, sizeof name, "%s%lld.data-", base_name, (long long)step);
    while ((e = readdir(d)) != NULL) {
        if (checkpoint_writer_begins(e->d_name, name))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    (void)closedir(d);
}

static mf_status write_list(const mf_checkpoints *c, const checkpoint_writer_found *f)
{
    mf_buf text = { 0 }, path = { 0 };
    mf_status st;

    mf_buf_printf(&text, "model_checkpoint_path: \"%s%lld\"\n", base_name,
                  (long long)f->steps[f->n - 1]);
    for (int64_t i = 0; i < f->n; i++)
        mf_buf_printf(&text, "all_model_checkpoint_paths: \"%s%lld\"\n", base_name,
                      (long long)f->steps[i]);
    mf_buf_printf(&path, "%s/%s", c->dir, list_name);
    st = text.data && path.data ? mf_file_write(path.data, text.data, text.len)
                                : MF_NOMEM("a checkpoint");
    mf_buf_deinit(&text);
    mf_buf_deinit(&path);
    return st;
}

/* Old ones are removed after the new one and the list are on disk. */
static mf_status write_one(const mf_checkpoints *c, const mf_snapshot *s)
{
    char *prefix = NULL;
    checkpoint_writer_found f = { 0 };
    mf_status st = mf_checkpoints_prefix(c->dir, mf_snapshot_step(s), &prefix);
    int64_t drop = 0;

    if (st == MF_OK)
        st = mf_snapshot_write(s, prefix);
    if (st == MF_OK)
        st = search(c->dir, &f);
    if (st == MF_OK && f.n > 0) {
        checkpoint_writer_found kept = f;

        drop = f.n > c->keep ? f.n - c->keep : 0;
        kept.steps += drop;
        kept.n -= drop;
        st = write_list(c, &kept);
    }
    for (int64_t i = 0; st == MF_OK && i < drop; i++) {
        if (f.steps[i] != mf_snapshot_step(s)) /* later checkpoints may be unusable */
            mf_checkpoints_remove(c->dir, f.steps[i]);
    }
    mf_free(f.steps);
    mf_free(prefix);
    return st;
}

static void *checkpoint_writer_write_all(void *arg)
{
    mf_checkpoints *c = arg;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        mf_snapshot *s;
        mf_status st;

        while (!c->next && !c->closing)
            pthread_cond_wait(&c->changed, &c->lock);
        if (!c->next)
            break;
        s = c->next;
        c->next = NULL;
        c->busy = true;
        pthread_mutex_unlock(&c->lock);
        st = write_one(c, s);
        if (st != MF_OK)
            MF_WARN("the checkpoint of step %lld was not written: %s",
                    (long long)mf_snapshot_step(s), mf_error_message());
        mf_snapshot_free(s);
        pthread_mutex_lock(&c->lock);
        c->busy = false;
        mf_error_save(st, &c->last);
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- the folder ---- */

/* Is this a remainder of a killed process: a temporary file, or data without an index? */
static bool is_rest(const char *dir, const char *file)
{
    const char *data = strstr(file, ".data-");
    mf_buf index = { 0 };
    bool rest = false;

    if (strstr(file, ".tmp-"))
        return checkpoint_writer_begins(file, base_name) ||
               checkpoint_writer_begins(file, "checkpoint.tmp-") ||
               checkpoint_writer_begins(file, "curve.") ||
               checkpoint_writer_begins(file, "model.json.tmp-") ||
               checkpoint_writer_begins(file, "schema.json.tmp-") ||
               checkpoint_writer_begins(file, "run.tmp-") ||
               checkpoint_writer_begins(file, "run.lock.tmp-");
    if (!data || !checkpoint_writer_begins(file, base_name))
        return false;
    mf_buf_printf(&index, "%s/%.*s.index", dir, (int)(data - file), file);
    rest = index.data && access(index.data, F_OK) != 0 && errno == ENOENT;
    mf_buf_deinit(&index);
    return rest;
}

static void remove_rest(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;

    while (d && (e = readdir(d)) != NULL) {
        if (is_rest(dir, e->d_name))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        (void)closedir(d);
}

static mf_status make_dir(const char *dir)
{
    if (mkdir(dir, 0777) == 0 || errno == EEXIST)
        return MF_OK;
    return mf_errno_status(errno, "create", dir);
}

mf_status mf_checkpoints_open(const char *dir, int keep, mf_checkpoints **out)
{
    mf_checkpoints *c;

    *out = NULL;
    MF_TRY(make_dir(dir));
    remove_rest(dir);
    c = mf_calloc(1, sizeof *c);
    if (!c || !(c->dir = mf_strdup(dir))) {
        mf_free(c);
        return MF_NOMEM("checkpoints");
    }
    c->keep = keep > 0 ? keep : 5;
    pthread_mutex_init(&c->lock, NULL);
    mf_cond_init(&c->changed);
    if (mf_thread_start(&c->thread, checkpoint_writer_write_all, c) != 0) {
        pthread_cond_destroy(&c->changed);
        pthread_mutex_destroy(&c->lock);
        mf_free(c->dir);
        mf_free(c);
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread for checkpoints");
    }
    *out = c;
    return MF_OK;
}

mf_status mf_checkpoints_save(mf_checkpoints *c, mf_trainer *t)
{
    mf_snapshot *s;

    MF_TRY(mf_snapshot_take(t, &s));
    return mf_checkpoints_put(c, s);
}

mf_status mf_checkpoints_put(mf_checkpoints *c, mf_snapshot *s)
{
    mf_stall stall = { 0 };

    mf_stall_begin(&stall);
    pthread_mutex_lock(&c->lock);
    while (c->next) {
        if (mf_cond_wait_until(&c->changed, &c->lock, mf_clock_ns() + LOOK_NS))
            continue;
        pthread_mutex_unlock(&c->lock);
        (void)mf_stall_check(&stall);
        pthread_mutex_lock(&c->lock);
    }
    mf_stall_end(&stall, true);
    c->next = s;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return MF_OK;
}

static mf_status status_of_last(const mf_error *last)
{
    if (last->status == MF_OK)
        return MF_OK;
    return MF_FAIL(last->status, "the last checkpoint could not be written: %.900s", last->message);
}

mf_status mf_checkpoints_wait(mf_checkpoints *c)
{
    mf_error last;

    pthread_mutex_lock(&c->lock);
    while (c->next || c->busy)
        pthread_cond_wait(&c->changed, &c->lock);
    last = c->last;
    pthread_mutex_unlock(&c->lock);
    return status_of_last(&last);
}

mf_status mf_checkpoints_drop_after(mf_checkpoints *c, int64_t step)
{
    checkpoint_writer_found f, kept;
    mf_status st;

    if (mf_checkpoints_wait(c) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    st = search(c->dir, &f);
    kept = f;
    while (kept.n > 0 && kept.steps[kept.n - 1] > step)
        kept.n--;
    if (st == MF_OK && kept.n > 0 && kept.n < f.n)
        st = write_list(c, &kept);
    for (int64_t i = kept.n; st == MF_OK && i < f.n; i++)
        mf_checkpoints_remove(c->dir, f.steps[i]);
    mf_free(f.steps);
    return st;
}

mf_status mf_checkpoints_close(mf_checkpoints *c)
{
    mf_error last;

    if (!c)
        return MF_OK;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    last = c->last;
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    mf_free(c->dir);
    mf_free(c);
    return status_of_last(&last);
}

/* ---- continuing ---- */

static bool is_damage(mf_status st)
{
    return st == MF_DATA_LOSS || st == MF_NOT_FOUND || st == MF_OUT_OF_RANGE ||
           st == MF_UNIMPLEMENTED;
}

static mf_status restore_trainer(void *t, const char *prefix)
{
    return mf_trainer_restore(t, prefix);
}

mf_status mf_checkpoints_restore(const char *dir, mf_trainer *t, char **prefix)
{
    return mf_checkpoints_try(dir, restore_trainer, t, prefix);
}

mf_status mf_checkpoints_try(const char *dir, mf_restore_fn *restore, void *ctx, char **prefix)
{
    checkpoint_writer_found f;
    mf_status st = search(dir, &f);

    *prefix = NULL;
    for (int64_t i = f.n - 1; st == MF_OK && i >= 0; i--) {
        char *p;

        st = mf_checkpoints_prefix(dir, f.steps[i], &p);
        if (st != MF_OK)
            break;
        st = restore(ctx, p);
        if (st == MF_OK) {
            *prefix = p;
            break;
        }
        if (st == MF_FAILED_PRECONDITION) { /* of another run */
            MF_WARN("%s: it is not used", mf_error_message());
            st = i > 0 ? MF_OK
                       : MF_FAIL(MF_INVALID_ARGUMENT,
                                 "no checkpoint in %s is of the run that '%s/" MF_RUN_FILE
                                 "' names; remove that file to continue the run of the newest "
                                 "checkpoint",
                                 dir, dir);
        }
        if (is_damage(st)) {
            MF_WARN("checkpoint %s is damaged (%s); %s", p, mf_error_message(),
                    i > 0 ? "the previous one is used" : "there is no earlier one");
            st = i > 0 ? MF_OK : MF_FAIL(MF_DATA_LOSS, "no checkpoint in %s is complete", dir);
        }
        mf_free(p);
    }
    mf_free(f.steps);
    return st;
}

/* The output of `meshflow compress`. */
static mf_status find_packed(const char *dir, char **path)
{
    mf_buf b = { 0 };

    mf_buf_printf(&b, "%s/" MF_PACKED_NAME, dir);
    MF_TRY(mf_buf_finish(&b));
    if (access(b.data, F_OK) != 0) {
        mf_buf_deinit(&b);
        return MF_FAIL(MF_NOT_FOUND, "there is no checkpoint in %s", dir);
    }
    *path = b.data;
    return MF_OK;
}

mf_status mf_checkpoints_find(const char *where, char **prefix)
{
    struct stat info;
    mf_status st;
    checkpoint_writer_found f;

    *prefix = NULL;
    if (stat(where, &info) != 0 || !S_ISDIR(info.st_mode)) {
        *prefix = mf_strdup(where);
        return *prefix ? MF_OK : MF_NOMEM("a checkpoint");
    }
    st = search(where, &f);
    if (st == MF_OK)
        st = f.n > 0 ? mf_checkpoints_prefix(where, f.steps[f.n - 1], prefix)
                     : find_packed(where, prefix);
    mf_free(f.steps);
    return st;
}
