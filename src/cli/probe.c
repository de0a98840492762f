/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - asks a server of a cluster for its state over RPC. */
#include "cli/probe.h"

#include "base/clock.h"
#include "graph/device_name.h"
#include "proto/worker.pb-c.h"
#include "rpc/rpc_stub.h"

#include <meshflow/session.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static double ms_since(int64_t ns)
{
    return (double)(mf_clock_ns() - ns) / 1e6;
}

static void stopped(mf_probe *p, mf_status st, const char *why)
{
    p->status = st;
    (void)snprintf(p->why, sizeof p->why, "%s", why);
}

/* ---- host ---- */

static void note_numbers(const struct addrinfo *a, mf_probe *p)
{
    const void *at =
        a->ai_family == AF_INET6
            ? (const void *)&((const struct sockaddr_in6 *)(void *)a->ai_addr)->sin6_addr
            : (const void *)&((const struct sockaddr_in *)(void *)a->ai_addr)->sin_addr;

    (void)inet_ntop(a->ai_family, at, p->numbers, sizeof p->numbers);
    p->loopback = strncmp(p->numbers, "127.", 4) == 0 || strcmp(p->numbers, "::1") == 0;
}

/* "host:port", "[::1]:port" */
static bool probe_look_up(const char *address, struct addrinfo **out, mf_probe *p)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    const char *colon = strrchr(address, ':');
    const bool brackets = address[0] == '[' && colon && colon > address + 2 && colon[-1] == ']';
    char host[256];
    int bad;

    (void)snprintf(host, sizeof host, "%.*s",
                   (int)(colon ? colon - address - (brackets ? 2 : 0) : 0), address + brackets);
    bad = getaddrinfo(host, colon ? colon + 1 : NULL, &hints, out);
    if (bad) {
        stopped(p, MF_NOT_FOUND, gai_strerror(bad));
        return false;
    }
    note_numbers(*out, p);
    p->reached = MF_PROBE_HOST;
    return true;
}

/* ---- port ---- */

static int connect_within(const struct addrinfo *a, int64_t timeout_ms)
{
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd ready = { .fd = fd, .events = POLLOUT };
    int error = 0;
    socklen_t size = sizeof error;

    if (fd < 0)
        return errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)
        error = errno;
    else if (poll(&ready, 1, (int)timeout_ms) <= 0)
        error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    (void)close(fd);
    return error;
}

static bool connect_any(const struct addrinfo *all, int64_t timeout_ms, mf_probe *p)
{
    int error = ENOENT;

    for (const struct addrinfo *a = all; a && error; a = a->ai_next) {
        const int64_t start = mf_clock_ns();

        error = connect_within(a, timeout_ms);
        p->connect_ms = ms_since(start);
        if (!error)
            note_numbers(a, p);
    }
    if (error) {
        stopped(p, error == ETIMEDOUT ? MF_DEADLINE_EXCEEDED : MF_UNAVAILABLE, strerror(error));
        return false;
    }
    p->reached = MF_PROBE_PORT;
    return true;
}

/* ---- server ---- */

static void probe_note_device(const Tensorflow__DeviceAttributes *d, mf_probe *p)
{
    mf_device_name name;
    char text[MF_DEVICE_NAME_MAX];

    if (mf_device_name_parse(d->name, &name) != MF_OK)
        return;
    name.type[0] = '\0';
    name.index = -1;
    (void)snprintf(p->task, sizeof p->task, "%s", mf_device_name_print(&name, text));
    (void)snprintf(p->system, sizeof p->system, "%s",
                   strncmp(d->physical_device_desc, "Meshflow ", 9) == 0 ? d->physical_device_desc
                                                                         : "TensorFlow");
}

static void probe_ask_status(const char *address, const mf_probe_options *o, mf_probe *p)
{
    Tensorflow__GetStatusRequest request = TENSORFLOW__GET_STATUS_REQUEST__INIT;
    const Tensorflow__GetStatusResponse *r;
    mf_rpc_stub *c = NULL;
    mf_arena *arena = mf_arena_new();
    ProtobufCMessage *reply;
    const int64_t start = mf_clock_ns();
    const mf_rpc_stub_call q = { .method = "/tensorflow.WorkerService/GetStatus",
                                 .message = &request.base,
                                 .reply = &tensorflow__get_status_response__descriptor,
                                 .waits = true, /* for TLS, too */
                                 .deadline_ns = start + o->timeout_ms * 1000000 };
    const mf_rpc_kind *rpc;
    mf_status st = arena ? mf_rpc_find(&rpc) : MF_NOMEM("a question");

    if (st == MF_OK)
        st = mf_rpc_stub_new(rpc, address, &o->security, &c);
    if (st == MF_OK)
        st = mf_rpc_stub_ask(c, &q, arena, &reply);
    if (st == MF_OK) {
        r = (const Tensorflow__GetStatusResponse *)reply;
        p->n_devices = (int)r->n_device_attributes;
        if (p->n_devices > 0)
            probe_note_device(r->device_attributes[0], p);
        p->answer_ms = ms_since(start);
        p->reached = MF_PROBE_SERVER;
    } else {
        stopped(p, st, mf_error_message());
    }
    mf_rpc_stub_free(c);
    mf_arena_free(arena);
}

/* ---- clock ---- */

static mf_status ask_clock(mf_session *s, const mf_probe_options *o, mf_probe *p)
{
    static const char *const fetch = "now";
    mf_tensor *now = NULL;

    for (int i = 0; i < 2; i++) { /* the first run compiles */
        const int64_t before = mf_clock_wall_ns();
        int64_t after;

        MF_TRY(mf_session_run(s, &(mf_run_options){ .timeout_ms = o->timeout_ms }, NULL, NULL, 0,
                              &fetch, 1, NULL, 0, &now));
        after = mf_clock_wall_ns();
        p->ahead_s = *(const double *)mf_tensor_data(now) - (double)(before / 2 + after / 2) / 1e9;
        p->ahead_error_s = (double)(after - before) / 2e9;
    }
    mf_tensor_free(now);
    p->has_clock = true;
    return MF_OK;
}

/* The session knows only this task, so missing tasks do not matter. */
static void probe_check_clock(const char *address, const mf_probe_options *o, mf_probe *p)
{
    const char *filter = p->task;
    char target[300];
    const mf_session_options options = { .target = target,
                                         .connect_ms = o->timeout_ms,
                                         .device_filters = &filter,
                                         .n_device_filters = 1,
                                         .tls_dir = o->tls_dir,
                                         .insecure_any_peer = o->security.insecure_any_peer };
    mf_session *s = NULL;
    mf_graph *g = NULL;
    mf_status st = mf_graph_new(&g);

    (void)snprintf(target, sizeof target, "grpc://%s", address);
    if (st == MF_OK) {
        (void)mf_applyf(g, "Timestamp", MF_NO_IN, "name='now' device='%s'", p->task);
        st = mf_session_new(g, &options, &s);
    }
    if (st == MF_OK)
        (void)!ask_clock(s, o, p);
    mf_session_free(s);
    mf_graph_free(g);
}

void mf_probe_task(const char *address, const mf_probe_options *o, mf_probe *out)
{
    struct addrinfo *all = NULL;

    *out = (mf_probe){ .reached = MF_PROBE_NOTHING };
    if (probe_look_up(address, &all, out) && connect_any(all, o->timeout_ms, out))
        probe_ask_status(address, o, out);
    if (all)
        freeaddrinfo(all);
    if (out->reached == MF_PROBE_SERVER && out->task[0] && o->clock)
        probe_check_clock(address, o, out);
}

int mf_probe_listen(const char *address)
{
    struct addrinfo *all = NULL;
    mf_probe unused = { 0 };
    int fd, error = ENOENT;

    if (!probe_look_up(address, &all, &unused))
        return EADDRNOTAVAIL;
    fd = socket(all->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    error = fd < 0 ? errno : 0;
    if (!error && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) != 0)
        error = errno;
    if (!error && bind(fd, all->ai_addr, all->ai_addrlen) != 0)
        error = errno;
    if (fd >= 0)
        (void)close(fd);
    freeaddrinfo(all);
    return error;
}
