/* SPDX-License-Identifier: Apache-2.0 */
/* net_open.c - tasks connect, and check that they are compatible. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/hostname.h"
#include "net/net_private.h"
#include "net/transport_registry.h"
#include "observe/status_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PROTOCOL = 1,
    TABLE = 0x54424c45, /* the step number reserved for the table of addresses */
    CHECK_NS = 20000000, /* between two checks whether the wait is still useful */
};

static const int64_t TRY_NS = 2000000000;

/* ---- greetings: "name=value" lines ---- */

/* Identifies the machine since boot, /dev/shm and the network namespace: processes with equal
 * values share memory. Network namespaces of one machine count as separate hosts. */
static void host_id(char *text, size_t size)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    char boot[64] = "unknown";
    struct stat shm = { 0 }, network = { 0 };

    if (f) {
        if (!fgets(boot, sizeof boot, f))
            (void)snprintf(boot, sizeof boot, "unknown");
        boot[strcspn(boot, "\n")] = '\0';
        (void)fclose(f);
    }
    if (stat("/dev/shm", &shm) != 0)
        shm.st_dev = 0;
    if (stat("/proc/self/ns/net", &network) != 0)
        network.st_ino = 0;
    (void)snprintf(text, size, "%s shm %llx net %llx", boot, (unsigned long long)shm.st_dev,
                   (unsigned long long)network.st_ino);
}

static mf_status make_hello(mf_net *n, const char *address)
{
    mf_peer *self = &n->peers[n->self];
    mf_buf b = { 0 };
    char host[160];
    mf_status st;

    host_id(host, sizeof host);
    if (!self->host)
        self->host = mf_strdup(host);
    if (!self->host)
        return MF_NOMEM("a greeting");
    mf_buf_printf(&b, "protocol=%d\ntask=%d\ntasks=%d\nepoch=%u\nname=%s\nhost=%s\npid=%d\n",
                  PROTOCOL, n->self, n->n_tasks, n->epoch, self->name, self->host, (int)getpid());
    mf_buf_printf(&b, "note=%s\naddress=%s\njob=%s\n%s", n->note, address, mf_status_page_job(),
                  n->identity);
    st = mf_buf_finish(&b);
    if (st == MF_OK)
        n->hello = mf_strdup(b.data);
    mf_buf_deinit(&b);
    return st == MF_OK && !n->hello ? MF_NOMEM("a greeting") : st;
}

/* The value after "name=" at the beginning of a line; returns its length. */
static const char *net_open_find_line(const char *text, const char *name, size_t *len)
{
    const size_t n = strlen(name);

    for (const char *p = text; *p;) {
        const size_t line = strcspn(p, "\n");

        if (line > n && memcmp(p, name, n) == 0 && p[n] == '=') {
            *len = line - n - 1;
            return p + n + 1;
        }
        p += line + (p[line] == '\n');
    }
    return NULL;
}

static char *copy_line(const char *text, const char *name)
{
    size_t len;
    const char *value = net_open_find_line(text, name, &len);

    return value ? mf_strndup(value, len) : NULL;
}

static int64_t int_line(const char *text, const char *name)
{
    size_t len;
    const char *value = net_open_find_line(text, name, &len);

    return value ? strtoll(value, NULL, 10) : -1;
}

/* ---- settings that all tasks must share ---- */

/* The settings of a greeting follow the line of the job. */
static const char *settings_of(const char *greeting)
{
    size_t len;
    const char *job = net_open_find_line(greeting, "job", &len);

    if (!job)
        return "";
    return job[len] ? job + len + 1 : job + len;
}

typedef struct net_open_setting {
    char name[64];
    const char *value;
    size_t len;
} net_open_setting;

/* The next line of *text; false: there is none. Lines that are not settings are skipped. */
static bool next_setting(const char **text, net_open_setting *out)
{
    while (**text) {
        const char *line = *text;
        const size_t n = strcspn(line, "\n"), key = strcspn(line, "=");

        *text += n + (line[n] == '\n');
        if (key >= n || key >= sizeof out->name)
            continue;
        memcpy(out->name, line, key);
        out->name[key] = '\0';
        out->value = line + key + 1;
        out->len = n - key - 1;
        return true;
    }
    return false;
}

static void net_open_put_value(const char *who, const char *value, size_t len, mf_buf *out)
{
    if (value)
        mf_buf_printf(out, "'%.*s' for %s", (int)(len < 200 ? len : 200), value, who);
    else
        mf_buf_printf(out, "not set for %s", who);
}

/* Appends each setting of `a` whose value differs in `b` or is missing; with only_missing: is
 * missing. */
static void put_differences(const char *a, const char *who_a, const char *b, const char *who_b,
                            bool only_missing, mf_buf *out)
{
    net_open_setting s;

    while (next_setting(&a, &s)) {
        size_t len = 0;
        const char *value = net_open_find_line(b, s.name, &len);

        if (value && (only_missing || (len == s.len && memcmp(value, s.value, len) == 0)))
            continue;
        mf_buf_printf(out, "%s%s is ", out->len > 0 ? "; " : "", s.name);
        net_open_put_value(who_a, s.value, s.len, out);
        mf_buf_str(out, " and ");
        net_open_put_value(who_b, value, len, out);
    }
}

void mf_net_differences(const char *a, const char *who_a, const char *b, const char *who_b,
                        mf_buf *out)
{
    put_differences(a, who_a, b, who_b, false, out);
    put_differences(b, who_b, a, who_a, true, out);
}

/* Both sides find the same differences and name the task of each value. */
static mf_status net_open_compare(const mf_net *n, const char *theirs, const char *who)
{
    const char *self = n->peers[n->self].name;
    mf_buf text = { 0 };
    mf_status st;

    theirs = settings_of(theirs);
    mf_net_differences(n->identity, self, theirs, who, &text);
    st = text.len > 0 ? mf_buf_finish(&text) : MF_OK;
    if (st == MF_OK && text.len > 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT,
                     "%s and %s have different settings: %s; start all tasks with the same ones",
                     self, who, text.data);
    mf_buf_deinit(&text);
    return st;
}

/* A task with other settings is refused and cannot recover by itself. A task that waits for it
 * therefore fails, too, once the refused task was notified. */
static void note_mismatch(mf_net *n, mf_status st)
{
    pthread_mutex_lock(&n->lock);
    if (n->mismatch.status == MF_OK && n->check) /* the members wait for another task */
        MF_WARN("a task was refused: %s", mf_error_message());
    if (n->mismatch.status == MF_OK)
        mf_error_save(st, &n->mismatch);
    pthread_mutex_unlock(&n->lock);
}

void mf_net_refused(mf_inbox *in)
{
    mf_net *n = (mf_net *)in;

    pthread_mutex_lock(&n->lock);
    n->sent_mismatch = n->mismatch.status != MF_OK;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static mf_status net_open_remember(mf_net *n, const char *text, int task)
{
    mf_peer *p = &n->peers[task];
    char *address = copy_line(text, "address"), *host = copy_line(text, "host");
    char *note = copy_line(text, "note");

    pthread_mutex_lock(&n->lock);
    if (p->claimed) {
        pthread_mutex_unlock(&n->lock);
        mf_free(address);
        mf_free(host);
        mf_free(note);
        return MF_FAIL(MF_ALREADY_EXISTS, "%s exists already: process %lld", p->name,
                       (long long)p->pid);
    }
    if (!p->address)
        p->address = address;
    else
        mf_free(address);
    p->host = host;
    p->note = note;
    if (task == 0)
        n->job = copy_line(text, "job");
    p->pid = int_line(text, "pid");
    p->claimed = true;
    pthread_mutex_unlock(&n->lock);
    return MF_OK;
}

const char *mf_net_greeting(mf_inbox *in, const char *address)
{
    mf_net *n = (mf_net *)in;

    if (make_hello(n, address) != MF_OK)
        return NULL;
    if (!n->peers[n->self].address)
        n->peers[n->self].address = mf_strdup(address);
    if (!n->peers[n->self].address) {
        (void)MF_NOMEM("an address");
        return NULL;
    }
    return n->hello;
}

void mf_net_ready(mf_inbox *in, int peer)
{
    mf_net *n = (mf_net *)in;

    pthread_mutex_lock(&n->lock);
    n->peers[peer].here = true;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

/* A task that is ahead connects again; a task that is behind must learn the current epoch. */
static mf_status compare_epochs(const mf_net *n, int64_t theirs)
{
    if (theirs < (int64_t)n->epoch)
        return MF_FAIL(MF_ABORTED, "epoch %lld has ended: %s is in epoch %u", (long long)theirs,
                       n->peers[n->self].name, n->epoch);
    if (theirs > (int64_t)n->epoch)
        return MF_FAIL(MF_UNAVAILABLE, "%s is still in epoch %u, not in %lld",
                       n->peers[n->self].name, n->epoch, (long long)theirs);
    return MF_OK;
}

mf_status mf_net_hello(mf_inbox *in, const char *text, int *peer)
{
    mf_net *n = (mf_net *)in;
    const int64_t task = int_line(text, "task"), tasks = int_line(text, "tasks");
    const int64_t protocol = int_line(text, "protocol");
    mf_status st;

    if (protocol != PROTOCOL)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "task %lld speaks protocol %lld, task %d protocol %d: run the same "
                       "version of Meshflow everywhere",
                       (long long)task, (long long)protocol, n->self, PROTOCOL);
    MF_TRY(compare_epochs(n, int_line(text, "epoch")));
    if (tasks != n->n_tasks || task < 0 || task >= n->n_tasks || task == n->self)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "task %lld of %lld connects to task %d of %d: their cluster descriptions "
                       "differ",
                       (long long)task, (long long)tasks, n->self, n->n_tasks);
    st = net_open_compare(n, text, n->peers[task].name);
    if (st != MF_OK) {
        note_mismatch(n, st);
        return st;
    }
    MF_TRY(net_open_remember(n, text, (int)task));
    *peer = (int)task;
    return MF_OK;
}

const char *mf_net_peer_text(const mf_net *n, const char *before, int task)
{
    static _Thread_local char text[256];
    const mf_peer *p = &n->peers[task];

    (void)snprintf(text, sizeof text, "%s%s%s%s: ", before, p->name, p->address ? " at " : "",
                   p->address ? p->address : "");
    return text;
}

/* ---- connecting ---- */

/* The report of a wait for a task to connect. */
static mf_wait_report arrival(const mf_net *n, int task)
{
    return (mf_wait_report){ .who = n->peers[n->self].name,
                             .whom = n->peers[task].name,
                             .where = n->peers[task].address,
                             .what = "a connection",
                             .step = -1 };
}

static mf_status too_late(const mf_net *n, int task, int64_t since, const char *why)
{
    if (n->missing)
        *n->missing = task;
    return MF_FAIL(MF_DEADLINE_EXCEEDED, "%s timed out after %.0f s waiting %s%s",
                   n->peers[n->self].name, (double)(mf_clock_ns() - since) * 1e-9,
                   mf_net_peer_text(n, "for ", task), why);
}

/* While the wait is checked periodically, a task that accepts the connection and sends nothing must
 * not block the checks. */
static mf_status try_once(mf_net *n, int task, int64_t deadline_ns, int64_t *heard_at)
{
    const int64_t soon = mf_clock_ns() + TRY_NS;
    const bool hasty = n->check && soon < deadline_ns;
    const mf_status st = n->transport->kind->connect(n->transport, task, n->peers[task].address,
                                                     hasty ? soon : deadline_ns);

    if (st != MF_DEADLINE_EXCEEDED)
        *heard_at = mf_clock_ns();
    return st == MF_DEADLINE_EXCEEDED && mf_clock_ns() < deadline_ns ? MF_UNAVAILABLE : st;
}

static mf_status connect_until(mf_net *n, int task, int64_t deadline_ns, mf_wait_report *waiting)
{
    const int64_t since = mf_clock_ns();
    int64_t pause = 1000000, heard_at = since;

    for (;;) {
        const int64_t now = mf_clock_ns();
        const mf_status st = try_once(n, task, deadline_ns, &heard_at);

        if (st == MF_OK)
            return MF_OK;
        if (st != MF_UNAVAILABLE && st != MF_DEADLINE_EXCEEDED)
            return mf_error_wrap(st, mf_net_peer_text(n, "cannot connect to ", task), "");
        if (now >= deadline_ns || st == MF_DEADLINE_EXCEEDED ||
            (n->silence_ns > 0 && mf_clock_ns() - heard_at >= n->silence_ns))
            return too_late(n, task, since, mf_error_message());
        waiting->why = mf_error_message();
        mf_wait_report_check(waiting);
        if (n->check)
            MF_TRY(n->check(n->check_ctx));
        (void)nanosleep(&(struct timespec){ 0, pause }, NULL);
        pause = pause < (n->check ? CHECK_NS : 100000000) ? pause * 3 / 2 : pause;
    }
}

static mf_status connect_to(mf_net *n, int task, int64_t deadline_ns)
{
    mf_wait_report waiting = arrival(n, task);
    mf_status st;

    waiting.until_ns = deadline_ns;
    mf_wait_report_begin(&waiting);
    st = connect_until(n, task, deadline_ns, &waiting);
    mf_wait_report_end(&waiting, st == MF_OK);
    return st;
}

/* The caller holds the lock, which is released meanwhile: is the wait still useful? */
static mf_status net_open_check(mf_net *n)
{
    mf_status st;

    if (!n->check)
        return MF_OK;
    pthread_mutex_unlock(&n->lock);
    st = n->check(n->check_ctx);
    pthread_mutex_lock(&n->lock);
    return st;
}

/* A task that has not connected. */
typedef struct absent {
    int task;
    int64_t since, ask_at; /* next name lookup: 0: done */
    mf_wait_report waiting;
    char why[300]; /* why its name does not resolve here; "": it resolves, or that is unknown */
} absent;

/* The caller holds the lock, which is released meanwhile: name servers may be slow. */
static void net_open_look_up(mf_net *n, absent *a)
{
    const char *address = n->peers[a->task].address;

    a->ask_at = 0;
    if (!address || n->transport->kind == &mf_transport_local || n->transport->kind->knows_peers)
        return; /* addresses of these transports are not host names */
    pthread_mutex_unlock(&n->lock);
    if (mf_hostname_is_unknown(address, a->why, sizeof a->why))
        a->waiting.why = a->why;
    pthread_mutex_lock(&n->lock);
}

/* The caller holds the lock. */
static mf_status await_once(mf_net *n, absent *a, int64_t deadline_ns)
{
    const int64_t now = mf_clock_ns();
    const bool late = now >= deadline_ns;
    mf_status st = net_open_check(n);

    if (a->ask_at > 0 && (late || now >= a->ask_at))
        net_open_look_up(n, a);
    if (n->trouble.status != MF_OK)
        st = mf_error_restore(&n->trouble);
    else if (n->sent_mismatch && !n->check)
        st = mf_error_restore(&n->mismatch);
    else if (late && !n->peers[a->task].here)
        st = too_late(n, a->task, a->since, *a->why ? a->why : "it has not connected");
    mf_wait_report_check(&a->waiting);
    if (st == MF_OK)
        (void)mf_cond_wait_until(&n->changed, &n->lock, now + (n->check ? CHECK_NS : 500000000));
    return st;
}

/* Tasks with higher numbers connect by themselves. */
static mf_status await_peers(mf_net *n, int from, int64_t deadline_ns)
{
    const int64_t since = mf_clock_ns();
    mf_status st = MF_OK;

    pthread_mutex_lock(&n->lock);
    for (int i = from; i < n->n_tasks && st == MF_OK; i++) {
        absent a = { .task = i, .since = since, .waiting = arrival(n, i) };

        if (n->peers[i].here || !mf_net_connects_to(n, i))
            continue;
        a.ask_at = mf_clock_ns() + mf_stall_patience_ns() / 2;
        a.waiting.until_ns = deadline_ns;
        mf_wait_report_begin(&a.waiting);
        while (!n->peers[i].here && st == MF_OK)
            st = await_once(n, &a, deadline_ns);
        mf_wait_report_end(&a.waiting, st == MF_OK);
    }
    pthread_mutex_unlock(&n->lock);
    return st;
}

/* ---- unknown addresses ---- */

static mf_status send_table(mf_net *n, int64_t deadline_ns)
{
    mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .epoch = n->epoch, .step = TABLE };
    mf_buf b = { 0 };
    mf_status st;

    for (int i = 0; i < n->n_tasks; i++)
        mf_buf_printf(&b, "%d=%s\n", i, n->peers[i].address ? n->peers[i].address : "");
    st = mf_buf_finish(&b);
    f.size = b.len;
    for (int i = 1; i < n->n_tasks && st == MF_OK; i++)
        st = mf_net_send(n, i, &f, b.data, deadline_ns);
    mf_buf_deinit(&b);
    return st;
}

static mf_status take_table(mf_net *n, int64_t deadline_ns)
{
    const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .epoch = n->epoch, .step = TABLE };
    bool known = true;
    void *text;
    size_t size;

    MF_TRY(mf_net_take(n, 0, &f, &text, &size, deadline_ns, "the addresses of all tasks"));
    for (int i = 1; i < n->n_tasks; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "%d", i);
        pthread_mutex_lock(&n->lock);
        if (!n->peers[i].address)
            n->peers[i].address = copy_line(text, name);
        known &= n->peers[i].address != NULL;
        pthread_mutex_unlock(&n->lock);
    }
    mf_free(text);
    if (!known)
        return MF_FAIL(MF_FAILED_PRECONDITION, "%s sent an incomplete list of addresses",
                       n->peers[0].name);
    return MF_OK;
}

static mf_status net_open_connect_all(mf_net *n, bool known, int64_t deadline_ns)
{
    if (n->self > 0 && mf_net_connects_to(n, 0))
        MF_TRY(connect_to(n, 0, deadline_ns));
    if (!known && n->self == 0) {
        MF_TRY(await_peers(n, 1, deadline_ns));
        MF_TRY(send_table(n, deadline_ns));
    } else if (!known) {
        MF_TRY(take_table(n, deadline_ns));
    }
    for (int i = 1; i < n->self; i++) {
        if (mf_net_connects_to(n, i))
            MF_TRY(connect_to(n, i, deadline_ns));
    }
    return await_peers(n, n->self + 1, deadline_ns);
}

/* ---- opening ---- */

static mf_status net_open_copy_tasks(mf_net *n, const mf_net_options *o)
{
    n->peers = mf_calloc(o->n_tasks, sizeof *n->peers);
    n->identity = mf_strdup(o->identity ? o->identity : "");
    n->note = mf_strdup(o->note ? o->note : "");
    if (!n->peers || !n->identity || !n->note)
        return MF_NOMEM("connections");
    n->n_tasks = o->n_tasks;
    n->self = o->self;
    n->epoch = o->epoch;
    n->check = o->check;
    n->check_ctx = o->check_ctx;
    n->silence_ns = o->silence_ns;
    n->missing = o->missing;
    n->star = o->star;
    n->hub = o->hub;
    for (int i = 0; i < o->n_tasks; i++) {
        const char *address = o->tasks[i].address;

        if (!address && i == 0)
            address = o->rendezvous;
        n->peers[i].name = mf_strdup(o->tasks[i].name);
        n->peers[i].address = address ? mf_strdup(address) : NULL;
        if (!n->peers[i].name || (address && !n->peers[i].address))
            return MF_NOMEM("connections");
    }
    return MF_OK;
}

static mf_status net_open_all(mf_net *n, const mf_net_options *o)
{
    const mf_transport_kind *kind = o->transport ? o->transport : &mf_transport_local;
    const int64_t timeout = o->timeout_ns > 0 ? o->timeout_ns : 300000000000;
    mf_transport_options t = {
        .inbox = &n->inbox, .self = o->self, .n_peers = o->n_tasks, .security = o->security
    };
    bool known = true;

    MF_TRY(net_open_copy_tasks(n, o));
    for (int i = 0; i < o->n_tasks; i++)
        known &= o->tasks[i].address != NULL || kind->knows_peers;
    if (!known && !n->peers[0].address)
        return MF_FAIL(MF_INVALID_ARGUMENT, "neither addresses nor a rendezvous address are given");
    t.address = n->peers[n->self].address;
    t.meet = n->peers[0].address;
    mf_security_fill(&t.security);
    if (o->host)
        n->peers[n->self].host = mf_strdup(o->host);
    if (o->host && !n->peers[n->self].host)
        return MF_NOMEM("connections");
    n->peers[n->self].here = true;
    MF_TRY(kind->open(&t, &n->transport));
    MF_TRY(net_open_connect_all(n, known, mf_clock_ns() + timeout));
    if (n->job && n->job[0] && mf_status_page_rename(n->job) != MF_OK)
        MF_WARN("`meshflow job status` shows this task as part of %s: %s", mf_status_page_job(),
                mf_error_message());
    return MF_OK;
}

mf_status mf_net_open(const mf_net_options *o, mf_net **out)
{
    mf_net *n = mf_calloc(1, sizeof *n);
    mf_status st;

    *out = NULL;
    if (!n)
        return MF_NOMEM("connections");
    n->inbox.kind = &mf_net_inbox;
    pthread_mutex_init(&n->lock, NULL);
    pthread_mutex_init(&n->serving, NULL);
    pthread_mutex_init(&n->watching, NULL);
    mf_cond_init(&n->changed);
    st = net_open_all(n, o);
    if (st != MF_OK) {
        mf_error why;

        mf_error_save(st, &why);
        mf_net_close(n);
        return mf_error_restore(&why);
    }
    *out = n;
    return MF_OK;
}
