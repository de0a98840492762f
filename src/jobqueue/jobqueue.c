/* SPDX-License-Identifier: Apache-2.0 */
/* jobqueue.c - submits, reads, cancels and removes jobs of a queue directory. */
#include "jobqueue/jobqueue.h"

#include "base/exit_code.h"
#include "base/file.h"
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

static const char *const STATES[] = { "queued",    "runs",    "done", "failed",
                                      "cancelled", "stopped", "lost" };

const char *mf_jobqueue_state_text(mf_jobqueue_state state)
{
    return STATES[state];
}

mf_status mf_jobqueue_dir(const char *given, mf_buf *out)
{
    const char *dir = given ? given : getenv("MESHFLOW_SPOOL"), *home = getenv("HOME");

    if (dir && dir[0])
        mf_buf_str(out, dir);
    else if (home && home[0])
        mf_buf_printf(out, "%s/.meshflow/jobs", home);
    else
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "no folder for the queue: give --dir, or set MESHFLOW_SPOOL");
    MF_TRY(mf_buf_finish(out));
    return mf_dir_make_own(out->data);
}

mf_status mf_jobqueue_path(const char *dir, const char *name, const char *file, mf_buf *out)
{
    mf_buf_clear(out);
    mf_buf_printf(out, "%s/%s%s%s", dir, name, file[0] ? "/" : "", file);
    return mf_buf_finish(out);
}

/* ---- small files ---- */

static mf_status jobqueue_read_text(const char *dir, const char *name, const char *file, char **out)
{
    mf_buf path = { 0 };
    size_t n;
    mf_status st = mf_jobqueue_path(dir, name, file, &path);

    *out = NULL;
    if (st == MF_OK)
        st = mf_file_read(path.data, MF_JOBQUEUE_BYTES, out, &n);
    mf_buf_deinit(&path);
    return st;
}

static bool queue_file_exists(const char *dir, const char *name, const char *file)
{
    mf_buf path = { 0 };
    const bool there =
        mf_jobqueue_path(dir, name, file, &path) == MF_OK && access(path.data, F_OK) == 0;

    mf_buf_deinit(&path);
    return there;
}

/* "a b": two numbers; false: the file does not hold them. */
static bool jobqueue_read_numbers(const char *dir, const char *name, const char *file, int64_t n[2])
{
    char *text;
    bool read = false;

    if (jobqueue_read_text(dir, name, file, &text) == MF_OK) {
        char *rest;

        n[0] = strtoll(text, &rest, 10);
        n[1] = strtoll(rest, NULL, 10);
        read = rest != text;
    }
    mf_free(text);
    return read;
}

/* ---- the state of a job ---- */

/* "done 0 ended well", as mf_jobqueue_write_end() writes it. */
static bool read_end(const char *dir, mf_jobqueue_job *job)
{
    char *text, state[16];
    long long code;
    int at = 0;
    bool over = false;

    if (jobqueue_read_text(dir, job->name, "end", &text) == MF_OK &&
        sscanf(text, "%15s %lld %n", state, &code, &at) == 2) {
        job->state = MF_JOBQUEUE_FAILED;
        for (int i = 0; i < MF_COUNT(STATES); i++) {
            if (strcmp(state, STATES[i]) == 0 && mf_jobqueue_is_over((mf_jobqueue_state)i))
                job->state = (mf_jobqueue_state)i;
        }
        job->exit_code = code & 255;
        (void)snprintf(job->how, sizeof job->how, "%.*s", (int)strcspn(text + at, "\n"), text + at);
        over = true;
    }
    mf_free(text);
    return over;
}

static bool process_is_alive(int64_t pid, int64_t start)
{
    mf_process p;

    return pid > 0 && mf_process_read(pid, &p) && p.start == start && p.state != 'Z';
}

static void jobqueue_find_state(const char *dir, mf_jobqueue_job *job)
{
    int64_t n[2] = { 0 };

    if (jobqueue_read_numbers(dir, job->name, "tries", n))
        job->tries = n[0];
    if (jobqueue_read_numbers(dir, job->name, "run", n)) {
        job->pid = n[0];
        job->state = process_is_alive(n[0], n[1]) ? MF_JOBQUEUE_RUNS : MF_JOBQUEUE_LOST;
    }
    (void)read_end(dir, job); /* read last: it may have ended in between */
}

mf_status mf_jobqueue_read(const char *dir, const char *name, mf_arena *arena, mf_jobqueue_job *out)
{
    mf_buf path = { 0 };
    char *bytes = NULL;
    size_t n;
    mf_status st;

    *out = (mf_jobqueue_job){ .name = mf_arena_strdup(arena, name) };
    if (!out->name)
        return MF_NOMEM("a job");
    st = mf_status_page_check_name(name);
    if (st == MF_OK)
        st = mf_jobqueue_path(dir, name, "job", &path);
    if (st == MF_OK)
        st = mf_file_read(path.data, MF_JOBQUEUE_BYTES, &bytes, &n);
    if (st == MF_OK)
        st = mf_jobqueue_decode(bytes, n, arena, &out->order);
    else if (st == MF_NOT_FOUND)
        st = MF_FAIL(MF_NOT_FOUND, "there is no job '%s' in '%s'", name, dir);
    mf_free(bytes);
    mf_buf_deinit(&path);
    if (st == MF_OK)
        jobqueue_find_state(dir, out);
    return st;
}

static int by_age(const void *a, const void *b)
{
    const mf_jobqueue_job *x = a, *y = b;

    if (x->order.submitted_ns != y->order.submitted_ns)
        return x->order.submitted_ns < y->order.submitted_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

static mf_status jobqueue_make_room(mf_arena *arena, mf_jobqueue_job **list, int n, int *room)
{
    mf_jobqueue_job *larger;

    *room = *room ? 2 * *room : 64;
    larger = MF_ARENA_ARRAY(arena, mf_jobqueue_job, *room);
    if (!larger)
        return MF_NOMEM("jobs");
    if (n > 0)
        memcpy(larger, *list, (size_t)n * sizeof *larger);
    *list = larger;
    return MF_OK;
}

mf_status mf_jobqueue_list(const char *dir, mf_arena *arena, mf_jobqueue_job **out, int *n)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    mf_status st = MF_OK;
    int room = 0;

    *n = 0;
    *out = NULL;
    if (!d)
        return mf_errno_status(errno, "read", dir);
    while (st == MF_OK && (e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        if (*n == room)
            st = jobqueue_make_room(arena, out, *n, &room);
        if (st == MF_OK)
            *n += mf_jobqueue_read(dir, e->d_name, arena, &(*out)[*n]) == MF_OK;
    }
    (void)closedir(d);
    if (st == MF_OK && *n > 0)
        qsort(*out, (size_t)*n, sizeof **out, by_age);
    return st;
}

const mf_jobqueue_job *mf_jobqueue_find_waiting(const mf_jobqueue_job *jobs, int n,
                                                const char *name)
{
    for (int i = 0; i < n; i++) {
        const mf_jobqueue_job *j = &jobs[i];

        for (int64_t k = 0; j->state == MF_JOBQUEUE_QUEUED && k < j->order.n_after; k++) {
            if (strcmp(j->order.after[k], name) == 0)
                return j;
        }
    }
    return NULL;
}

/* ---- changes ---- */

static mf_status jobqueue_check_order(const char *dir, const mf_jobqueue_order *o)
{
    for (int64_t i = 0; i < o->n_after; i++) {
        MF_TRY(mf_status_page_check_name(o->after[i]));
        if (!queue_file_exists(dir, o->after[i], "job"))
            return MF_FAIL(MF_NOT_FOUND, "there is no job '%s' for --after", o->after[i]);
    }
    return MF_OK;
}

static mf_status jobqueue_remove_file(const char *dir, const char *name, const char *file)
{
    mf_buf path = { 0 };
    mf_status st = mf_jobqueue_path(dir, name, file, &path);

    if (st == MF_OK && unlink(path.data) != 0 && errno != ENOENT)
        st = mf_errno_status(errno, "remove", path.data);
    mf_buf_deinit(&path);
    return st;
}

/* The record first: a job with a record and without an end would start again. Then all other files,
 * also unfinished ones of a killed writer. */
static mf_status empty_folder(const char *dir, const char *name)
{
    mf_buf path = { 0 };
    const struct dirent *e;
    mf_status st = jobqueue_remove_file(dir, name, "job");
    DIR *d = NULL;

    if (st == MF_OK)
        st = mf_jobqueue_path(dir, name, "", &path);
    if (st == MF_OK && !(d = opendir(path.data)))
        st = mf_errno_status(errno, "read", path.data);
    while (st == MF_OK && d && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            st = jobqueue_remove_file(dir, name, e->d_name);
    }
    if (d)
        (void)closedir(d);
    mf_buf_deinit(&path);
    return st;
}

/* An empty folder of a job whose removal was interrupted is reused. */
static bool move_there(const char *dir, const char *name, const char *draft, const char *path)
{
    if (rename(draft, path) == 0)
        return true;
    return (errno == EEXIST || errno == ENOTEMPTY) && !queue_file_exists(dir, name, "job") &&
           empty_folder(dir, name) == MF_OK && rename(draft, path) == 0;
}

/* Writes the record into a folder that is not a job yet. Owns: mf_buf_deinit(draft). */
static mf_status write_draft(const char *dir, const mf_buf *bytes, mf_buf *draft)
{
    mf_buf path = { 0 };
    mf_status st;

    mf_buf_printf(draft, "%s/.new-%d", dir, (int)getpid());
    MF_TRY(mf_buf_finish(draft));
    if (mkdir(draft->data, 0700) != 0 && errno != EEXIST) /* left by a dead process with the same
                                                             process id */
        return mf_errno_status(errno, "make", draft->data);
    st = mf_jobqueue_path(draft->data, "job", "", &path);
    if (st == MF_OK)
        st = mf_file_write(path.data, bytes->data, bytes->len);
    mf_buf_deinit(&path);
    return st;
}

static void drop_draft(const char *draft)
{
    mf_buf path = { 0 };

    if (mf_jobqueue_path(draft, "job", "", &path) == MF_OK)
        (void)unlink(path.data);
    (void)rmdir(draft);
    mf_buf_deinit(&path);
}

mf_status mf_jobqueue_submit(const char *dir, const char *name, const mf_jobqueue_order *order)
{
    mf_buf path = { 0 }, bytes = { 0 }, draft = { 0 };
    mf_status st = mf_status_page_check_name(name);

    if (st == MF_OK)
        st = jobqueue_check_order(dir, order);
    if (st == MF_OK)
        st = mf_jobqueue_encode(order, &bytes);
    if (st == MF_OK && bytes.len > MF_JOBQUEUE_BYTES)
        st = MF_FAIL(MF_INVALID_ARGUMENT,
                     "the command and its environment have %zu bytes; at "
                     "most %d are possible",
                     bytes.len, MF_JOBQUEUE_BYTES);
    if (st == MF_OK)
        st = write_draft(dir, &bytes, &draft);
    if (st == MF_OK)
        st = mf_jobqueue_path(dir, name, "", &path);
    if (st == MF_OK && !move_there(dir, name, draft.data, path.data))
        st = errno == EEXIST || errno == ENOTEMPTY
                 ? MF_FAIL(MF_ALREADY_EXISTS,
                           "there is a job '%s' already: give another name, or remove it "
                           "(`meshflow queue list --forget %s`)",
                           name, name)
                 : mf_errno_status(errno, "make", path.data);
    if (st != MF_OK && draft.data)
        drop_draft(draft.data);
    mf_buf_deinit(&bytes);
    mf_buf_deinit(&draft);
    mf_buf_deinit(&path);
    return st;
}

mf_status mf_jobqueue_write_end(const char *dir, const char *name, mf_jobqueue_state state,
                                int code, const char *how)
{
    mf_buf path = { 0 }, text = { 0 };
    mf_status st = MF_OK;

    if (queue_file_exists(dir, name, "end"))
        return MF_OK;
    mf_buf_printf(&text, "%s %d %s\n", mf_jobqueue_state_text(state), code, how);
    st = mf_buf_finish(&text);
    if (st == MF_OK)
        st = mf_jobqueue_path(dir, name, "end", &path);
    if (st == MF_OK)
        st = mf_file_write(path.data, text.data, text.len);
    mf_buf_deinit(&text);
    mf_buf_deinit(&path);
    return st;
}

/* A watcher records its process before it checks for a cancellation, and this function checks for
 * the process after it recorded the cancellation: at least one of them sees the other. */
mf_status mf_jobqueue_cancel(const char *dir, mf_arena *arena, mf_jobqueue_job *job)
{
    mf_buf path = { 0 };
    mf_status st;

    if (mf_jobqueue_is_over(job->state))
        return MF_FAIL(MF_FAILED_PRECONDITION, "the job '%s' %s already", job->name, job->how);
    st = mf_jobqueue_path(dir, job->name, "cancel", &path);
    if (st == MF_OK)
        st = mf_file_write(path.data, "", 0);
    mf_buf_deinit(&path);
    if (st == MF_OK)
        st = mf_jobqueue_read(dir, job->name, arena, job);
    if (st == MF_OK && job->state == MF_JOBQUEUE_RUNS && kill((pid_t)job->pid, SIGTERM) != 0 &&
        errno != ESRCH)
        st = MF_FAIL(MF_PERMISSION_DENIED, "cannot end process %lld: %s", (long long)job->pid,
                     strerror(errno));
    if (st == MF_OK && job->state != MF_JOBQUEUE_RUNS && !mf_jobqueue_is_over(job->state))
        st = mf_jobqueue_write_end(dir, job->name, MF_JOBQUEUE_CANCELLED, MF_EXIT_STOPPED,
                                   "was cancelled before it ran");
    return st;
}

mf_status mf_jobqueue_forget(const char *dir, const mf_jobqueue_job *job)
{
    mf_buf path = { 0 };
    mf_status st;

    if (!mf_jobqueue_is_over(job->state))
        return MF_FAIL(MF_FAILED_PRECONDITION, "the job '%s' has not ended: cancel it first",
                       job->name);
    st = empty_folder(dir, job->name);
    if (st == MF_OK)
        st = mf_jobqueue_path(dir, job->name, "", &path);
    if (st == MF_OK && rmdir(path.data) != 0)
        st = mf_errno_status(errno, "remove", path.data);
    mf_buf_deinit(&path);
    return st;
}

bool mf_jobqueue_has_daemon(const char *dir)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    mf_buf path = { 0 };
    int fd = -1;
    bool locked = false;

    if (mf_jobqueue_path(dir, ".daemon", "", &path) == MF_OK)
        fd = open(path.data, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        locked = fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
        (void)close(fd);
    }
    mf_buf_deinit(&path);
    return locked;
}
