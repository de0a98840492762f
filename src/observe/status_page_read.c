/* SPDX-License-Identifier: Apache-2.0 */
/* status_page_read.c - reads the status pages of all tasks of this user on this host. Files are
 * read, not mapped: access to a mapped file that another process truncates would raise SIGBUS. */
#include "base/file.h"
#include "base/mem.h"
#include "observe/status_page.h"
#include "observe/status_page_layout.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const mf_use_names[MF_USES] = { "compute", "communication", "input", "idle" };

const char *mf_phase_text(mf_phase phase)
{
    static const char *const texts[MF_PHASES] = {
        [MF_PHASE_START] = "starts",
        [MF_PHASE_LOAD] = "loads data",
        [MF_PHASE_INPUT] = "waits for input",
        [MF_PHASE_STEP] = "computes",
        [MF_PHASE_BETWEEN] = "is between steps",
        [MF_PHASE_EVALUATE] = "evaluates",
        [MF_PHASE_SAVE] = "saves",
        [MF_PHASE_SERVE] = "serves",
        [MF_PHASE_END] = "ends",
        [MF_PHASE_WATCH] = "supervises tasks",
        [MF_PHASE_IDLE] = "is idle: no data for this task",
    };

    return texts[phase];
}

/* ---- names and folders ---- */

mf_status mf_status_page_check_name(const char *job)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t n = strspn(job, known);

    if (n > 0 && n < MF_STATUS_PAGE_NAME && job[n] == '\0' &&
        job[0] != '.') /* readers skip such files */
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "'%s' is not a valid job name: expected 1 to %d letters, digits, '.', '_' and "
                   "'-', not starting with '.'",
                   job, MF_STATUS_PAGE_NAME - 1);
}

mf_status mf_status_page_dir(mf_buf *out)
{
    const char *own = getenv("MESHFLOW_RUN_DIR"), *user = getenv("XDG_RUNTIME_DIR");
    struct stat st;

    if (own && *own)
        mf_buf_str(out, own);
    else if (user && *user && stat(user, &st) == 0)
        mf_buf_printf(out, "%s/meshflow", user);
    else
        mf_buf_printf(out, "/dev/shm/meshflow-%u", (unsigned)geteuid());
    return mf_buf_finish(out);
}

mf_status mf_status_page_dir_check(const char *dir, bool create)
{
    mf_status st;

    if (create && mkdir(dir, 0700) != 0 && errno != EEXIST)
        return mf_errno_status(errno, "make", dir);
    st = mf_dir_check_own(dir);
    return st == MF_PERMISSION_DENIED ? mf_error_wrap(st, "", " in MESHFLOW_RUN_DIR") : st;
}

void mf_status_page_path(const char *dir, const char *job, const char *task, mf_buf *out)
{
    char name[MF_STATUS_PAGE_TASK + MF_STATUS_PAGE_NAME + 1] = "";

    for (size_t i = 0; task[i] && i + 1 < sizeof name; i++)
        name[i] = (char)(isalnum((unsigned char)task[i]) ? task[i] : '-');
    mf_buf_printf(out, "%s/%s~%s", dir, job, name);
}

/* ---- one page ---- */

void mf_status_page_sanitize_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (size_t i = 0; text[i]; i++)
        text[i] = (char)(text[i] < ' ' || text[i] > '~' ? '?' : text[i]);
}

void mf_status_page_sanitize_number(int64_t *n)
{
    if (*n < 0 || *n > INT64_MAX / 16) /* prevents overflow in sums and differences */
        *n = 0;
}

static void sanitize_rate(double *rate)
{
    if (!(*rate >= 0.0 && *rate < 1e15)) /* it is converted to an integer for output */
        *rate = 0.0;
}

static void sanitize_count(int32_t *n, int32_t most)
{
    if (*n < 0 || *n > most)
        *n = 0;
}

static void status_page_read_sanitize(mf_status_page *p)
{
    mf_status_page_sanitize_text(p->job, sizeof p->job);
    mf_status_page_sanitize_text(p->task, sizeof p->task);
    mf_status_page_sanitize_text(p->host, sizeof p->host);
    sanitize_count(&p->phase, MF_PHASES - 1);
    sanitize_count(&p->use, MF_USES - 1);
    sanitize_count(&p->tasks, INT32_MAX);
    sanitize_count(&p->threads, INT32_MAX);
    sanitize_count(&p->input_threads, INT32_MAX);
    sanitize_rate(&p->rate);
    mf_status_page_sanitize_number(&p->first_shard);
    mf_status_page_sanitize_number(&p->n_shards);
    mf_status_page_sanitize_number(&p->opened_ns);
    mf_status_page_sanitize_number(&p->reported_ns);
    mf_status_page_sanitize_number(&p->rate_since_ns);
    mf_status_page_sanitize_number(&p->began_ns);
    mf_status_page_sanitize_number(&p->changed_ns);
    mf_status_page_sanitize_number(&p->phase_since_ns);
    mf_status_page_sanitize_number(&p->use_since_ns);
    mf_status_page_sanitize_number(&p->stepped_ns);
    mf_status_page_sanitize_number(&p->usual_ns);
    for (int i = 0; i < MF_USES; i++)
        mf_status_page_sanitize_number(&p->used_ns[i]);
    for (int i = 0; i < MF_STATUS_PAGE_WAITS; i++) {
        mf_status_page_sanitize_text(p->waits[i].whom, sizeof p->waits[i].whom);
        mf_status_page_sanitize_text(p->waits[i].where, sizeof p->waits[i].where);
        mf_status_page_sanitize_text(p->waits[i].what, sizeof p->waits[i].what);
        mf_status_page_sanitize_number(&p->waits[i].since_ns);
    }
    for (int i = 0; i < MF_STATUS_PAGE_LINKS; i++)
        mf_status_page_sanitize_text(p->links[i].to, sizeof p->links[i].to);
    for (int i = 0; i < MF_STATUS_PAGE_COPIES; i++) {
        mf_status_page_sanitize_text(p->slices[i].of, sizeof p->slices[i].of);
        mf_status_page_sanitize_number(&p->slices[i].version);
    }
    for (int i = 0; i < MF_STATUS_PAGE_ACTS; i++) {
        mf_status_page_sanitize_text(p->acts[i].what, sizeof p->acts[i].what);
        mf_status_page_sanitize_number(&p->acts[i].since_ns);
        sanitize_count(&p->acts[i].kind, MF_ACTS - 1);
    }
}

mf_status mf_status_page_decode(const void *bytes, size_t n, mf_status_page *out)
{
    mf_status_page_file f;

    if (n != sizeof f)
        return MF_FAIL(MF_DATA_LOSS, "not a status page: %zu bytes", n);
    memcpy(&f, bytes, sizeof f);
    if (memcmp(f.magic, MF_STATUS_PAGE_MAGIC, sizeof f.magic) != 0 || f.bytes != sizeof f)
        return MF_FAIL(MF_DATA_LOSS, "not a status page");
    if (f.version != MF_STATUS_PAGE_VERSION)
        return MF_FAIL(MF_DATA_LOSS,
                       "status page of version %u, but this program reads version "
                       "%d",
                       f.version, MF_STATUS_PAGE_VERSION);
    if (f.page.pid <= 0)
        return MF_FAIL(MF_DATA_LOSS, "status page without a task");
    *out = f.page;
    status_page_read_sanitize(out);
    return MF_OK;
}

void mf_status_page_page_used(const mf_status_page *p, int64_t now, int64_t ns[MF_USES])
{
    for (int i = 0; i < MF_USES; i++)
        ns[i] = p->used_ns[i];
    if (now > p->use_since_ns)
        ns[p->use] += now - p->use_since_ns;
}

/* ---- files ---- */

static unsigned read_seq(int fd)
{
    unsigned seq = 1;

    if (pread(fd, &seq, sizeof seq, offsetof(mf_status_page_file, seq)) != (ssize_t)sizeof seq)
        return 1;
    return seq;
}

static bool status_page_read_process(const mf_status_page *p, mf_process *process)
{
    const bool kept = p->keeper != 0;

    return mf_process_read(kept ? p->keeper : p->pid, process) &&
           process->start == (kept ? p->keeper_start : p->start) && process->state != 'Z';
}

/* A process that was preempted while it wrote finishes its write; a stopped or dead one does not.
 */
static bool writer_runs(const char *bytes, ssize_t n)
{
    mf_process process;
    mf_status_page page;

    return n == (ssize_t)sizeof(mf_status_page_file) &&
           mf_status_page_decode(bytes, (size_t)n, &page) == MF_OK &&
           status_page_read_process(&page, &process) && process.state != 'T' &&
           process.state != 't';
}

/* A consistent page. Only a task that was stopped or killed during a write leaves an inconsistent
 * one, which is read as it is. */
static mf_status status_page_read_consistent(int fd, mf_status_page *out)
{
    char bytes[sizeof(mf_status_page_file)]; /* the flight recorder follows it */
    ssize_t n = 0;

    for (int i = 0; i < MF_STATUS_PAGE_TRIES; i++) {
        const unsigned before = read_seq(fd);

        n = pread(fd, bytes, sizeof bytes, 0);
        if (before % 2 == 0 && before == read_seq(fd))
            break;
        if (i % 100 == 99 && !writer_runs(bytes, n))
            break;
        (void)nanosleep(&(struct timespec){ 0, 100000 }, NULL);
    }
    return mf_status_page_decode(bytes, n > 0 ? (size_t)n : 0, out);
}

bool mf_status_page_is_alive(const mf_status_page_seen *b)
{
    mf_process process;

    return status_page_read_process(&b->page, &process);
}

mf_status mf_status_page_read(const char *path, mf_status_page_seen *out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    mf_status st;

    *out = (mf_status_page_seen){ 0 };
    if (fd < 0)
        return mf_errno_status(errno, "open", path);
    st = status_page_read_consistent(fd, &out->page);
    (void)close(fd);
    MF_TRY(st);
    out->alive = status_page_read_process(&out->page, &out->process);
    out->path = mf_strdup(path);
    return out->path ? MF_OK : MF_NOMEM("a status page");
}

static int status_page_read_compare(const void *a, const void *b)
{
    const mf_status_page *x = &((const mf_status_page_seen *)a)->page;
    const mf_status_page *y = &((const mf_status_page_seen *)b)->page;
    const int by_job = strcmp(x->job, y->job);

    return by_job != 0 ? by_job : strverscmp(x->task, y->task);
}

/* A task that shows itself does not need a copy of its page. */
static bool is_shown_twice(const mf_status_page_seen *all, int n, int i)
{
    for (int k = 0; all[i].page.keeper != 0 && k < n; k++) {
        if (all[k].page.keeper == 0 && status_page_read_compare(&all[k], &all[i]) == 0)
            return true;
    }
    return false;
}

static void drop_doubles(mf_status_page_seen *all, int *n)
{
    for (int i = *n - 1; i >= 0; i--) {
        if (!is_shown_twice(all, *n, i))
            continue;
        mf_free(all[i].path);
        all[i] = all[--*n];
    }
}

static mf_status status_page_read_all(DIR *d, const char *dir, mf_status_page_seen **all, int *n,
                                      int64_t *cap)
{
    const struct dirent *e;
    mf_buf path = { 0 };
    mf_status st = MF_OK;

    while (st == MF_OK && (e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        mf_buf_clear(&path);
        mf_buf_printf(&path, "%s/%s", dir, e->d_name);
        st = mf_buf_finish(&path);
        if (st == MF_OK)
            st = mf_grow(all, cap, *n + 1, sizeof **all);
        if (st == MF_OK) {
            const mf_status one = mf_status_page_read(path.data, &(*all)[*n]);

            *n += one == MF_OK;
            if (one == MF_RESOURCE_EXHAUSTED) /* not caused by the page */
                st = one;
        }
    }
    mf_buf_deinit(&path);
    return st;
}

mf_status mf_status_pages_read(mf_status_page_seen **out, int *n)
{
    mf_buf dir = { 0 };
    int64_t cap = 0;
    mf_status st = mf_status_page_dir(&dir);
    DIR *d;

    *out = NULL;
    *n = 0;
    if (st == MF_OK)
        st = mf_status_page_dir_check(dir.data, false);
    d = st == MF_OK ? opendir(dir.data) : NULL;
    if (d) {
        st = status_page_read_all(d, dir.data, out, n, &cap);
        (void)closedir(d);
    } else if (st == MF_OK) {
        st = mf_errno_status(errno, "open", dir.data);
    }
    mf_buf_deinit(&dir);
    if (st != MF_OK) {
        mf_status_pages_free(*out, *n);
        *out = NULL;
        *n = 0;
    }
    drop_doubles(*out, n);
    if (*n > 1)
        qsort(*out, (size_t)*n, sizeof **out, status_page_read_compare);
    return st == MF_NOT_FOUND ? MF_OK : st; /* no task has created the folder yet */
}

void mf_status_pages_free(mf_status_page_seen *boards, int n)
{
    for (int i = 0; i < n; i++)
        mf_free(boards[i].path);
    mf_free(boards);
}

static mf_status write_at(int fd, const char *path, const void *bytes, size_t n, size_t at)
{
    return pwrite(fd, bytes, n, (off_t)at) == (ssize_t)n ? MF_OK
                                                         : mf_errno_status(errno, "write", path);
}

mf_status mf_status_page_request_layout(const mf_status_page_seen *b,
                                        const mf_status_page_layout *layout)
{
    const int fd = open(b->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    const int32_t there = MF_VARIABLE_REQUEST_MADE;
    mf_status st;

    if (fd < 0)
        return mf_errno_status(errno, "open", b->path);
    st = write_at(fd, b->path, layout, sizeof *layout, offsetof(mf_status_page_area, layout));
    if (st == MF_OK)
        st = write_at(fd, b->path, &there, sizeof there,
                      offsetof(mf_status_page_area, layout_request));
    (void)close(fd);
    return st;
}

static mf_status status_page_read_at(int fd, const char *path, void *bytes, size_t n, size_t at)
{
    const ssize_t got = pread(fd, bytes, n, (off_t)at);

    if (got < 0)
        return mf_errno_status(errno, "read", path);
    return (size_t)got == n ? MF_OK : MF_FAIL(MF_DATA_LOSS, "%s is not a status page", path);
}

mf_status mf_status_page_layout_answer(const mf_status_page_seen *b, mf_variable_request *state,
                                       char words[MF_VARIABLE_REQUEST_TEXT])
{
    const int fd = open(b->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int32_t is = MF_VARIABLE_REQUEST_NONE;
    mf_status st;

    if (fd < 0)
        return mf_errno_status(errno, "open", b->path);
    st = status_page_read_at(fd, b->path, &is, sizeof is,
                             offsetof(mf_status_page_area, layout_request));
    if (st == MF_OK) /* the text is written before the state */
        st = status_page_read_at(fd, b->path, words, MF_VARIABLE_REQUEST_TEXT,
                                 offsetof(mf_status_page_area, layout_answer));
    (void)close(fd);
    if (st != MF_OK)
        return st;
    mf_status_page_sanitize_text(words, MF_VARIABLE_REQUEST_TEXT);
    *state = is >= MF_VARIABLE_REQUEST_NONE && is <= MF_VARIABLE_REQUEST_REFUSED
                 ? (mf_variable_request)is
                 : MF_VARIABLE_REQUEST_NONE;
    return MF_OK;
}

mf_status mf_status_page_ask(const mf_status_page_seen *b, const mf_status_page_question *question)
{
    const int fd = open(b->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    const int64_t requester = question->requester;
    mf_status st;

    if (fd < 0)
        return mf_errno_status(errno, "open", b->path);
    st = write_at(fd, b->path, question->name, sizeof question->name,
                  offsetof(mf_status_page_area, question));
    if (st == MF_OK)
        st = write_at(fd, b->path, &requester, sizeof requester,
                      offsetof(mf_status_page_area, requester));
    (void)close(fd);
    return st;
}

mf_status mf_status_page_request_threads(const mf_status_page_seen *b, int threads)
{
    const int fd = open(b->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    const int32_t wish = threads;
    mf_status st;

    if (fd < 0)
        return mf_errno_status(errno, "open", b->path);
    st = write_at(fd, b->path, &wish, sizeof wish, offsetof(mf_status_page_file, wish));
    (void)close(fd);
    return st;
}
