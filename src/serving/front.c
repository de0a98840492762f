/* SPDX-License-Identifier: Apache-2.0 */
/* front.c - starts and stops serving. */
#include "serving/front.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { MS = 1000000, TICK_MS = 50, LAST_MS = 1000, HEADERS = 64 << 10, IDLE_S = 120 };

void mf_serve_give_up(mf_front *f, const char *why)
{
    if (!f->failure[0])
        (void)snprintf(f->failure, sizeof f->failure, "%s", why);
    (void)event_base_loopbreak(f->base);
}

/* ---- timers and signals ---- */

static void on_wait(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    mf_serve_dispatch(arg);
}

static void front_watch(mf_serve_replica *r, int64_t now)
{
    const mf_front *f = r->front;

    if (r->state == MF_REPLICA_DEAD && now >= r->start_ns) {
        if (mf_serve_start(r) != MF_OK) {
            MF_WARN("%s", mf_error_message());
            r->start_ns = now + INT64_C(1000) * MS;
        }
    } else if ((r->state == MF_REPLICA_RUNNING || r->state == MF_REPLICA_LOADING) &&
               now - r->since_ns > f->o->timeout_ms * MS) {
        mf_serve_replace_replica(r, "did not answer in time");
    }
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    mf_front *f = arg;
    const int64_t now = mf_clock_ns();

    (void)fd;
    (void)what;
    for (int i = 0; i < f->o->replicas; i++)
        front_watch(&f->replicas[i], now);
    mf_serve_keep_spare(f);
    if (f->o->poll_ms > 0 && now >= f->next_scan_ns) {
        f->next_scan_ns = now + f->o->poll_ms * MS;
        mf_serve_scan_versions(f);
    }
    if (f->bound)
        (void)evconnlistener_enable(evhttp_bound_socket_get_listener(f->bound));
    mf_serve_dispatch(f);
    if (f->stop_ns && ((f->n_calls == 0 && f->unsent == 0) || now >= f->stop_ns))
        (void)event_base_loopbreak(f->base);
}

/* The first signal stops serving after the pending answers, the second one at once. */
static void front_on_signal(evutil_socket_t fd, short what, void *arg)
{
    mf_front *f = arg;

    (void)fd;
    (void)what;
    if (f->stop_ns)
        (void)event_base_loopbreak(f->base);
    f->stop_ns = mf_clock_ns() + f->o->timeout_ms * MS;
    if (f->bound)
        evhttp_del_accept_socket(f->http, f->bound);
    f->bound = NULL;
}

/* ---- the port ---- */

/* Mostly: out of descriptors. Clients wait until the next tick. `arg` is evhttp's. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
    (void)arg;
    (void)evconnlistener_disable(listener);
}

/* Each connection takes a descriptor. */
static void allow_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static mf_status front_find_port(mf_front *f)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = { .v6 = { 0 } };
    socklen_t len = sizeof a;

    if (getsockname(evhttp_bound_socket_get_fd(f->bound), &a.any, &len) != 0)
        return MF_FAIL(MF_INTERNAL, "getsockname: %s", strerror(errno));
    f->port = ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
    (void)snprintf(f->host, sizeof f->host, "%s", f->o->host);
    return MF_OK;
}

static mf_status front_listen_at(mf_front *f)
{
    f->http = evhttp_new(f->base);
    if (!f->http)
        return MF_NOMEM("a server");
    evhttp_set_gencb(f->http, mf_serve_route, f);
    evhttp_set_max_body_size(f->http, (ev_ssize_t)f->o->max_body);
    evhttp_set_max_headers_size(f->http, HEADERS);
    evhttp_set_allowed_methods(f->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                            EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE);
    (void)evhttp_set_flags(f->http, EVHTTP_SERVER_LINGERING_CLOSE);
    evhttp_set_timeout(f->http, IDLE_S);
    errno = 0;
    f->bound = evhttp_bind_socket_with_handle(f->http, f->o->host, (ev_uint16_t)f->o->port);
    if (!f->bound)
        return MF_FAIL(errno == EADDRINUSE ? MF_ALREADY_EXISTS : MF_PERMISSION_DENIED,
                       "cannot listen at %s:%d: %s", f->o->host, f->o->port,
                       errno ? strerror(errno) : "no such address");
    evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(f->bound), on_accept_error);
    return front_find_port(f);
}

/* ---- start and stop ---- */

static mf_status add_events(mf_front *f)
{
    const struct timeval tick = { .tv_usec = TICK_MS * 1000 };

    f->tick = event_new(f->base, -1, EV_PERSIST, on_tick, f);
    f->wait = evtimer_new(f->base, on_wait, f);
    f->on_int = evsignal_new(f->base, SIGINT, front_on_signal, f);
    f->on_term = evsignal_new(f->base, SIGTERM, front_on_signal, f);
    if (!f->tick || !f->wait || !f->on_int || !f->on_term)
        return MF_NOMEM("a server");
    if (event_add(f->tick, &tick) != 0 || event_add(f->on_int, NULL) != 0 ||
        event_add(f->on_term, NULL) != 0)
        return MF_NOMEM("a server");
    return MF_OK;
}

/* Timers with the precision of the clock: waits are as short as a millisecond. */
static struct event_base *new_base(void)
{
    struct event_config *c = event_config_new();
    struct event_base *base = NULL;

    if (c && event_config_set_flag(c, EVENT_BASE_FLAG_PRECISE_TIMER) == 0)
        base = event_base_new_with_config(c);
    if (c)
        event_config_free(c);
    return base;
}

static mf_status front_begin(mf_front *f)
{
    const mf_serve_options *o = f->o;

    (void)signal(SIGPIPE, SIG_IGN); /* clients may disconnect */
    allow_descriptors();
    MF_TRY(mf_serve_model_build(o->what, &f->model));
    MF_TRY(
        mf_serve_signature_init(&f->signature, f->model, o->what->classes, o->what->class_names));
    MF_TRY(mf_serve_newest(o->where, &f->good));
    f->base = new_base();
    f->replicas = mf_calloc(o->replicas, sizeof *f->replicas);
    if (!f->base || !f->replicas)
        return MF_NOMEM("a server");
    MF_TRY(front_listen_at(f));
    MF_TRY(add_events(f));
    for (int i = 0; i < o->replicas; i++) {
        f->replicas[i].front = f;
        TAILQ_INIT(&f->replicas[i].running);
        MF_TRY(mf_serve_start(&f->replicas[i]));
    }
    return MF_OK;
}

static void free_event(struct event *e)
{
    if (e)
        event_free(e);
}

static void drop_calls(mf_serve_calls *calls)
{
    mf_serve_call *c;

    while ((c = TAILQ_FIRST(calls)) != NULL) {
        TAILQ_REMOVE(calls, c, link);
        mf_serve_answer_error(c, 503, "the server is shutting down");
    }
}

/* Sends the answers that are in flight. */
static void send_rest(mf_front *f)
{
    const int64_t until = mf_clock_ns() + (int64_t)LAST_MS * MS;

    while (f->unsent > 0 && mf_clock_ns() < until) {
        (void)event_base_loopexit(f->base, &(struct timeval){ .tv_usec = TICK_MS * 1000 });
        (void)event_base_dispatch(f->base);
    }
}

static void front_end(mf_front *f)
{
    free_event(f->tick);
    free_event(f->wait);
    f->over = true;
    for (int i = 0; f->replicas && i < f->o->replicas; i++) {
        if (!f->replicas[i].front)
            continue;
        mf_serve_end(&f->replicas[i]);
        drop_calls(&f->replicas[i].running);
    }
    drop_calls(&f->queue);
    if (f->base)
        send_rest(f);
    if (f->http)
        evhttp_free(f->http);
    free_event(f->on_int);
    free_event(f->on_term);
    if (f->base)
        event_base_free(f->base);
    mf_serve_drop_spare(f);
    mf_free(f->replicas);
    mf_free(f->good.checkpoint);
    mf_free(f->next.checkpoint);
    mf_free(f->bad.checkpoint);
    mf_model_free(f->model);
}

mf_status mf_serve(const mf_serve_options *options)
{
    mf_front f = { .o = options, .spare = { -1, -1 } };
    mf_status st;

    TAILQ_INIT(&f.queue);
    st = front_begin(&f);
    if (st == MF_OK && event_base_dispatch(f.base) < 0)
        st = MF_FAIL(MF_INTERNAL, "the event loop has failed");
    if (st == MF_OK && f.failure[0])
        st = MF_FAIL(MF_FAILED_PRECONDITION, "%s", f.failure);
    front_end(&f);
    return st;
}
