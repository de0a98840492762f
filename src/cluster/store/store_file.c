/* SPDX-License-Identifier: Apache-2.0 */
/* store_file.c - a store in a folder that processes of one host share, see store_file.h. A process
 * that reads the store removes the values of expired leases; this is a change with a revision, too,
 * and all processes see it at the same place in the order. */
#include "cluster/store/store_file.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

/* How often to read where the kernel cannot notify. */
static const int64_t LOOK_NS = 10000000;
/* And for processes that are stopped. */
static const int64_t LOOK_FOR_STOPPED_NS = 100000000;

typedef struct file_store {
    mf_store base;
    mf_store_folder folder;
    int64_t timeout_ns;
    int cancelled_fd; /* can be read from mf_store_cancel() on */
    mf_store_stopped stopped;
} file_store;

/* The state at one moment, with the leases of its entries, all of them in force. */
typedef struct store_file_view {
    mf_store_token token;
    mf_store_state state;
    mf_store_lease *leases;
    int64_t cap;
    int n;
} store_file_view;

static void store_file_view_deinit(store_file_view *v)
{
    mf_store_state_deinit(&v->state);
    mf_free(v->leases);
    *v = (store_file_view){ 0 };
}

/* ---- looking ---- */

static bool has_lease(const store_file_view *v, int64_t id)
{
    for (int i = 0; i < v->n; i++) {
        if (v->leases[i].id == id)
            return true;
    }
    return false;
}

/* Collect leases in force; remove entries of the others. *ended: raised if there were any. */
static mf_status look_at_leases(const file_store *s, store_file_view *v, bool *ended)
{
    int i = 0;

    *ended = false;
    while (i < v->state.all.n) {
        const int64_t id = v->state.all.entries[i].lease;
        mf_status st = MF_OK;

        if (id != 0 && !has_lease(v, id)) {
            MF_TRY(mf_grow(&v->leases, &v->cap, v->n + 1, sizeof *v->leases));
            st = mf_store_lease_look(&s->folder, id, &v->leases[v->n]);
            v->n += st == MF_OK;
        }
        if (st == MF_FAILED_PRECONDITION) {
            *ended |= mf_store_state_end_lease(&v->state, id);
            i = 0; /* the remaining entries have moved */
            continue;
        }
        MF_TRY(st);
        i++;
    }
    return MF_OK;
}

/* Fails: DEADLINE_EXCEEDED (other processes won every time). Owns: store_file_view_deinit(), also
 * after a failure. */
static mf_status store_file_look(const file_store *s, int64_t deadline_ns, store_file_view *v)
{
    bool ended, won;

    *v = (store_file_view){ 0 };
    for (;;) {
        MF_TRY(mf_store_folder_read(&s->folder, &v->token, &v->state));
        MF_TRY(look_at_leases(s, v, &ended));
        if (!ended)
            return MF_OK;
        MF_TRY(mf_store_folder_replace(&s->folder, &v->token, &v->state, &won));
        store_file_view_deinit(v);
        if (mf_clock_ns() > deadline_ns)
            return MF_FAIL(MF_DEADLINE_EXCEEDED, "the store in '%s' changes too fast",
                           s->folder.path);
    }
}

static int64_t store_file_deadline_of(const file_store *s)
{
    return mf_clock_ns() + s->timeout_ns;
}

static mf_status file_get(mf_store *base, const char *key, mf_store_entry *out, int64_t *revision)
{
    const file_store *s = (file_store *)base;
    store_file_view v;
    mf_status st = store_file_look(s, store_file_deadline_of(s), &v);

    if (st == MF_OK)
        st = mf_store_state_get(&v.state, key, out, revision);
    store_file_view_deinit(&v);
    return st;
}

static mf_status file_list(mf_store *base, const char *prefix, mf_store_entries *out)
{
    const file_store *s = (file_store *)base;
    store_file_view v;
    mf_status st = store_file_look(s, store_file_deadline_of(s), &v);

    if (st == MF_OK)
        st = mf_store_state_list(&v.state, prefix, out);
    store_file_view_deinit(&v);
    return st;
}

/* ---- changing ---- */

typedef struct store_file_change {
    const mf_store_entry *put; /* or NULL: */
    const char *remove;
    int64_t expected;
} store_file_change;

static mf_status store_file_apply(const file_store *s, const store_file_change *c,
                                  store_file_view *v, bool *won)
{
    if (!c->put) {
        MF_TRY(mf_store_state_remove(&v->state, c->remove, c->expected));
    } else {
        if (c->put->lease != 0)
            MF_TRY(mf_store_lease_look(&s->folder, c->put->lease, NULL));
        MF_TRY(mf_store_state_put(&v->state, c->put, c->expected));
    }
    return mf_store_folder_replace(&s->folder, &v->token, &v->state, won);
}

/* Other keys may change at the same time: then it is tried again. */
static mf_status change_state(const file_store *s, const store_file_change *c, int64_t *revision)
{
    const int64_t deadline = store_file_deadline_of(s);
    bool won = false;

    while (!won) {
        store_file_view v;
        mf_status st = store_file_look(s, deadline, &v);

        if (st == MF_OK)
            st = store_file_apply(s, c, &v, &won);
        *revision = v.state.all.revision;
        store_file_view_deinit(&v);
        if (st == MF_OK && !won && mf_clock_ns() > deadline)
            st = MF_FAIL(MF_DEADLINE_EXCEEDED,
                         "the store in '%s' changes too fast: nothing was changed", s->folder.path);
        MF_TRY(st);
    }
    return MF_OK;
}

static mf_status file_put(mf_store *base, const mf_store_entry *e, int64_t expected,
                          int64_t *version)
{
    return change_state((file_store *)base, &(store_file_change){ .put = e, .expected = expected },
                        version);
}

static mf_status file_remove(mf_store *base, const char *key, int64_t expected)
{
    int64_t revision;

    return change_state((file_store *)base,
                        &(store_file_change){ .remove = key, .expected = expected }, &revision);
}

/* ---- leases ---- */

static mf_status file_lease_grant(mf_store *base, int64_t ttl_ns, int64_t *lease)
{
    return mf_store_lease_make(&((file_store *)base)->folder, ttl_ns, lease);
}

static mf_status file_lease_keep(mf_store *base, int64_t lease)
{
    return mf_store_lease_renew(&((file_store *)base)->folder, lease);
}

static mf_status file_lease_end(mf_store *base, int64_t lease)
{
    const file_store *s = (file_store *)base;
    mf_status st;
    store_file_view v;

    MF_TRY(mf_store_lease_finish(&s->folder, lease));
    st = store_file_look(s, store_file_deadline_of(s), &v); /* removes the values under the lease */
    store_file_view_deinit(&v);
    return st;
}

/* ---- waiting ---- */

/* What ends a pause: descriptors for poll(), and the time. */
typedef struct alarm_set {
    struct pollfd *fds; /* cancelled, changed, processes that hold leases */
    int n;
    int64_t until_ns;
} alarm_set;

enum { CANCELLED, CHANGED, PROCESSES };

static void alarms_deinit(alarm_set *a)
{
    for (int i = PROCESSES; i < a->n; i++)
        (void)close(a->fds[i].fd);
    mf_free(a->fds);
}

static void store_file_sooner(int64_t *until_ns, int64_t ns)
{
    if (ns < *until_ns)
        *until_ns = ns;
}

/* Get notified when the process that holds a lease ends. */
static void watch_process(const file_store *s, const mf_store_lease *l, alarm_set *a)
{
    mf_process p;
    int fd;

    if (l->pid == getpid() || !mf_store_lease_has_process(&s->folder, l))
        return;
    fd = pidfd_open((pid_t)l->pid, 0);
    if (fd >= 0)
        a->fds[a->n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
    /* the process cannot be watched, or has ended and another one has its number */
    if (fd < 0 || !mf_process_read(l->pid, &p) || p.start != l->start)
        store_file_sooner(&a->until_ns, mf_clock_ns() + LOOK_NS);
}

static mf_status alarms_init(const file_store *s, const store_file_view *v, int changed_fd,
                             int64_t deadline_ns, alarm_set *a)
{
    *a = (alarm_set){ .fds = mf_calloc(PROCESSES + v->n, sizeof *a->fds), .until_ns = deadline_ns };
    if (!a->fds)
        return MF_NOMEM("waiting");
    a->fds[CANCELLED] = (struct pollfd){ .fd = s->cancelled_fd, .events = POLLIN };
    a->fds[CHANGED] = (struct pollfd){ .fd = changed_fd, .events = POLLIN }; /* or -1 */
    a->n = PROCESSES;
    if (changed_fd < 0)
        store_file_sooner(&a->until_ns, mf_clock_ns() + LOOK_NS);
    for (int i = 0; i < v->n; i++) {
        store_file_sooner(&a->until_ns, atomic_load(&v->leases[i].until_ns));
        watch_process(s, &v->leases[i], a);
    }
    return MF_OK;
}

/* True: an event arrived, or the time is up. */
static bool pause_for(const alarm_set *a, int64_t most_ns)
{
    const int64_t left = a->until_ns - mf_clock_ns();
    const int64_t ns = left < most_ns ? left : most_ns;
    const struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

    return left <= 0 || ppoll(a->fds, (nfds_t)a->n, &t, NULL) != 0 || left <= most_ns;
}

static void pause_until(const file_store *s, const store_file_view *v, const alarm_set *a)
{
    char events[4096];

    while (!pause_for(a, LOOK_FOR_STOPPED_NS) && !mf_store_stopped_any(&s->folder, v->leases, v->n))
        ;
    while (a->fds[CHANGED].fd >= 0 && read(a->fds[CHANGED].fd, events, sizeof events) > 0)
        ; /* any descriptor */
}

static mf_status check_time(const file_store *s, const char *prefix, int64_t deadline_ns)
{
    struct pollfd p = { .fd = s->cancelled_fd, .events = POLLIN };

    if (poll(&p, 1, 0) == 1)
        return MF_FAIL(MF_CANCELLED, "waiting for the store was cancelled");
    if (mf_clock_ns() >= deadline_ns)
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "no change below '%s'", prefix);
    return MF_OK;
}

/* Read, and if there is no change, wait. */
static mf_status store_file_wait_once(file_store *s, const char *prefix, int64_t after,
                                      int64_t deadline_ns, int changed_fd, bool *changed)
{
    alarm_set a = { 0 };
    bool ended = false;
    store_file_view v;
    mf_status st = store_file_look(s, store_file_deadline_of(s), &v);

    if (st == MF_OK)
        st = mf_store_stopped_look(&s->stopped, &s->folder, v.leases, v.n, &ended);
    *changed = st == MF_OK && mf_store_state_changed(&v.state, prefix, after);
    if (st == MF_OK && !*changed)
        st = check_time(s, prefix, deadline_ns);
    if (st == MF_OK && !*changed && !ended) {
        st = alarms_init(s, &v, changed_fd, deadline_ns, &a);
        if (st == MF_OK)
            pause_until(s, &v, &a);
        alarms_deinit(&a);
    }
    store_file_view_deinit(&v);
    return st;
}

/* -1: the kernel cannot notify (too many watches). */
static int watch_state(const file_store *s)
{
    const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    if (fd >= 0 && inotify_add_watch(fd, s->folder.state, IN_MOVED_TO) < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static mf_status file_wait(mf_store *base, const char *prefix, int64_t after, int64_t deadline_ns)
{
    file_store *s = (file_store *)base;
    const int changed_fd = watch_state(s);
    bool changed = false;
    mf_status st = MF_OK;

    while (st == MF_OK && !changed)
        st = store_file_wait_once(s, prefix, after, deadline_ns, changed_fd, &changed);
    if (changed_fd >= 0)
        (void)close(changed_fd);
    return st;
}

static void file_cancel(mf_store *base)
{
    (void)eventfd_write(((file_store *)base)->cancelled_fd, 1);
}

/* ---- opening ---- */

static void file_close(mf_store *base)
{
    file_store *s = (file_store *)base;

    if (s->cancelled_fd >= 0)
        (void)close(s->cancelled_fd);
    mf_store_folder_deinit(&s->folder);
    mf_store_stopped_deinit(&s->stopped);
    mf_free(s);
}

static mf_status file_open(const char *where, const mf_store_options *o, mf_store **out)
{
    file_store *s = mf_calloc(1, sizeof *s);
    mf_status st;

    if (!s)
        return MF_NOMEM("a store");
    s->base.kind = &mf_store_file;
    s->timeout_ns = o->timeout_ns;
    mf_store_stopped_init(&s->stopped);
    s->cancelled_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    st = s->cancelled_fd >= 0 ? mf_store_folder_open(where, &s->folder)
                              : MF_FAIL(MF_RESOURCE_EXHAUSTED, "too many files are open");
    if (st == MF_OK)
        *out = &s->base;
    else
        file_close(&s->base);
    return st;
}

const mf_store_kind mf_store_file = {
    .name = "file",
    .open = file_open,
    .get = file_get,
    .list = file_list,
    .put = file_put,
    .remove = file_remove,
    .lease_grant = file_lease_grant,
    .lease_keep = file_lease_keep,
    .lease_end = file_lease_end,
    .wait = file_wait,
    .cancel = file_cancel,
    .close = file_close,
};
