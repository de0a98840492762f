/* SPDX-License-Identifier: Apache-2.0 */
/* replica_pool.c - starts replicas (fork), receives their frames, and replaces dead ones.
 * front_watch() in front.c decides when a replica is started again. */
#include "base/clock.h"
#include "base/host_state.h"
#include "base/log.h"
#include "base/mem.h"
#include "serving/front.h"
#include "serving/replica.h"
#include "serving/replica_frame.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* CALM_NS: delay of the next start after a replica died before it had a model. */
enum { CALM_NS = 1000000000, MOST_BEFORE_READY = 5 };

static void set_state(mf_serve_replica *r, mf_replica_state state)
{
    r->state = state;
    r->since_ns = mf_clock_ns();
}

bool mf_serve_has_version(const mf_front *f, int64_t version)
{
    for (int i = 0; i < f->o->replicas; i++) {
        const mf_serve_replica *r = &f->replicas[i];

        if (r->state != MF_REPLICA_DEAD && r->version == version)
            return true;
    }
    return version == f->good.number; /* all replicas may still be starting */
}

/* ---- frames ---- */

static void send_frame(mf_serve_replica *r, mf_serve_kind kind, int64_t detail, const void *data,
                       size_t len)
{
    const mf_serve_head head = { kind, detail, len };

    (void)bufferevent_write(r->line, &head, sizeof head);
    if (len > 0)
        (void)bufferevent_write(r->line, data, len);
}

void mf_serve_load(mf_serve_replica *r, const mf_serve_version *version)
{
    mf_free(r->loads.checkpoint);
    r->loads = (mf_serve_version){ version->number, mf_strdup(version->checkpoint) };
    set_state(r, MF_REPLICA_LOADING);
    if (r->loads.checkpoint)
        send_frame(r, MF_SERVE_LOAD, version->number, version->checkpoint,
                   strlen(version->checkpoint));
}

void mf_serve_send_run(mf_serve_replica *r)
{
    mf_serve_call *c;

    TAILQ_FOREACH(c, &r->running, link)
    send_frame(r, MF_SERVE_REQUEST, c->verb, evbuffer_pullup(c->body, -1),
               evbuffer_get_length(c->body));
    send_frame(r, MF_SERVE_RUN, 0, NULL, 0);
    set_state(r, MF_REPLICA_RUNNING);
}

static void replica_pool_on_answer(mf_serve_replica *r, const mf_serve_head *head, const void *body)
{
    mf_serve_call *c = TAILQ_FIRST(&r->running);

    if (!c) {
        mf_serve_replace_replica(r, "sent an answer without a request");
        return;
    }
    TAILQ_REMOVE(&r->running, c, link);
    mf_serve_answer(c, (int)head->detail, body, head->len);
    if (TAILQ_EMPTY(&r->running))
        set_state(r, MF_REPLICA_IDLE);
}

static void on_loaded(mf_serve_replica *r, const mf_serve_head *head, const char *why)
{
    if (head->len == 0)
        r->version = head->detail;
    set_state(r, MF_REPLICA_IDLE);
    mf_serve_loaded(r, head->detail, head->len > 0 ? why : NULL);
}

/* Handles one frame, if it has been received completely. */
static bool replica_pool_take_frame(mf_serve_replica *r)
{
    struct evbuffer *in = bufferevent_get_input(r->line);
    mf_serve_head head;
    char *frame;

    if (evbuffer_copyout(in, &head, sizeof head) < (ssize_t)sizeof head ||
        evbuffer_get_length(in) - sizeof head < head.len)
        return false;
    frame = (char *)evbuffer_pullup(in, (ssize_t)(sizeof head + head.len));
    if (!frame) {
        mf_serve_replace_replica(r, "sent an answer larger than the free memory");
        return false;
    }
    if (head.kind == MF_SERVE_ANSWER)
        replica_pool_on_answer(r, &head, frame + sizeof head);
    else
        on_loaded(r, &head, frame + sizeof head);
    if (!r->line) /* handling the frame removed the replica */
        return false;
    (void)evbuffer_drain(in, sizeof head + head.len);
    return true;
}

static void on_read(struct bufferevent *line, void *arg)
{
    mf_serve_replica *r = arg;

    (void)line;
    while (r->line && replica_pool_take_frame(r))
        ;
    mf_serve_dispatch(r->front);
}

static void on_event(struct bufferevent *line, short what, void *arg)
{
    mf_serve_replica *r = arg;

    (void)line;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) {
        mf_serve_replace_replica(r, "has died");
        mf_serve_dispatch(r->front);
    }
}

/* ---- processes ---- */

/* Runs in the new process, which keeps no descriptor of the front but its end of the socket pair.
 */
static _Noreturn void replica_process_main(const mf_front *f, pid_t front, int fd)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != front)
        _exit(0);
    mf_host_adopt_fork(); /* safe: the front runs no graph and has no thread of the library */
    (void)signal(SIGINT, SIG_IGN); /* sent by a terminal to all processes: the front decides when to
                                      end */
    (void)signal(SIGTERM, SIG_DFL);
    if (fd > 3)
        (void)close_range(3, (unsigned)fd - 1, 0);
    (void)close_range((unsigned)fd + 1, ~0U, 0);
    _exit(mf_replica_main(f->o->what, fd));
}

void mf_serve_keep_spare(mf_front *f)
{
    for (int i = 0; i < MF_COUNT(f->spare); i++) {
        if (f->spare[i] < 0)
            f->spare[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
}

void mf_serve_drop_spare(mf_front *f)
{
    for (int i = 0; i < MF_COUNT(f->spare); i++) {
        if (f->spare[i] >= 0)
            (void)close(f->spare[i]);
        f->spare[i] = -1;
    }
}

mf_status mf_serve_start(mf_serve_replica *r)
{
    mf_front *f = r->front;
    const pid_t front = getpid();
    int pair[2];

    mf_serve_drop_spare(f);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no sockets for a replica: %s", strerror(errno));
    r->pid = fork();
    if (r->pid == 0)
        replica_process_main(f, front, pair[1]);
    (void)close(pair[1]);
    mf_serve_keep_spare(f);
    if (r->pid < 0) {
        (void)close(pair[0]);
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no process for a replica: %s", strerror(errno));
    }
    (void)evutil_make_socket_nonblocking(pair[0]);
    r->line = bufferevent_socket_new(f->base, pair[0], BEV_OPT_CLOSE_ON_FREE);
    if (!r->line) {
        (void)close(pair[0]); /* which ends the replica */
        (void)waitpid(r->pid, NULL, 0);
        return MF_NOMEM("a replica");
    }
    bufferevent_setcb(r->line, on_read, NULL, on_event, r);
    (void)bufferevent_enable(r->line, EV_READ | EV_WRITE);
    r->version = -1;
    mf_serve_load(r, &f->good);
    return MF_OK;
}

void mf_serve_end(mf_serve_replica *r)
{
    if (r->line)
        bufferevent_free(r->line);
    if (r->pid > 0) {
        (void)kill(r->pid, SIGKILL);
        while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    r->line = NULL;
    r->pid = 0;
    r->version = -1;
    mf_free(r->loads.checkpoint);
    r->loads = (mf_serve_version){ 0 };
    set_state(r, MF_REPLICA_DEAD);
}

void mf_serve_replace_replica(mf_serve_replica *r, const char *why)
{
    mf_front *f = r->front;
    const bool had_model = r->version >= 0;
    mf_serve_call *c;

    MF_WARN("replica %d (process %d) %s; replacing it", (int)(r - f->replicas), (int)r->pid, why);
    f->metrics.crashes++;
    if (r->state == MF_REPLICA_LOADING && r->loads.checkpoint && f->next.checkpoint &&
        r->loads.number == f->next.number)
        mf_serve_load_failed(r, "the replica that loaded it has died");
    if (!f->was_ready && f->metrics.crashes >= MOST_BEFORE_READY)
        mf_serve_give_up(f, "replicas die before they are ready");
    mf_serve_end(r);
    r->start_ns = mf_clock_ns() + (had_model ? 0 : CALM_NS);
    while ((c = TAILQ_LAST(&r->running, mf_serve_calls)) != NULL) {
        TAILQ_REMOVE(&r->running, c, link);
        mf_serve_retry(c);
    }
}
