/* SPDX-License-Identifier: Apache-2.0 */
/* connect_server.c - connects to a server that may not have started yet. */
#include "base/clock.h"
#include "net/transport_registry.h"
#include "observe/wait_report.h"
#include "rpc/inproc_rpc.h"
#include "tf_client/remote_session.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CONNECT_MS = 60000, PAUSE_MS = 100 };

static const char scheme[] = "grpc://";

mf_status mf_remote_connect(const mf_session_options *options, mf_rpc_stub **out)
{
    const char *target = options->target;
    const bool inside = mf_is_inproc(target);
    const char *address = inside ? target : target + strlen(scheme);
    mf_security security = { .insecure_any_peer = options->insecure_any_peer };
    const mf_rpc_kind *rpc = &mf_rpc_inproc;
    char *memory = NULL;
    mf_status st;

    *out = NULL;
    if ((!inside && strncmp(target, scheme, strlen(scheme)) != 0) || !strchr(address, ':') ||
        strpbrk(address, "/, "))
        return MF_FAIL(MF_INVALID_ARGUMENT, "invalid target '%s': write grpc://host:port", target);
    st = inside ? MF_OK : mf_rpc_find(&rpc);
    if (st == MF_OK && options->tls_dir)
        st = mf_security_from_dir(options->tls_dir, "client", &security, &memory);
    else
        mf_security_fill(&security);
    if (st == MF_OK)
        st = mf_rpc_stub_new(rpc, address, &security, out);
    mf_free(memory);
    return st;
}

/* ---- wait for a server ---- */

typedef struct first {
    mf_rpc_stub *caller;
    mf_cancel too_late; /* the connection timeout has expired */
    bool reached; /* set by the request in flight: gRPC fails it if the connection breaks */
    mf_wait_report waiting;
    char why[300]; /* the last connection error */
} first;

/* Called while the request is in flight. The timeout applies only to the connection: TensorFlow's
 * server replies once all tasks of its cluster have started. */
static void connect_server_poll(void *ctx)
{
    first *f = ctx;

    if (mf_rpc_stub_reaches(f->caller)) {
        f->reached = true;
        f->waiting.until_ns = 0;
        f->waiting.why = "connected, waiting for its reply; a TensorFlow server replies when all "
                         "tasks of its cluster, or of the device filters, have started";
    } else if (!f->reached && mf_clock_ns() > f->waiting.until_ns) {
        mf_cancel_raise(&f->too_late);
    }
    mf_wait_report_check(&f->waiting);
}

/* Strips the prefix with the server's address. */
static void note_why(first *f, const char *message)
{
    const char *who = strstr(message, mf_rpc_stub_address(f->caller));

    if (who && strncmp(message, "request to ", strlen("request to ")) == 0) {
        message = who + strlen(mf_rpc_stub_address(f->caller));
        message += strspn(message, ": ");
    }
    (void)snprintf(f->why, sizeof f->why, "%s", message);
}

static mf_status connect_server_ask_until(first *f, const mf_rpc_stub_call *q, mf_arena *arena,
                                          ProtobufCMessage **out)
{
    const int64_t start = mf_clock_ns(), until = f->waiting.until_ns;
    mf_rpc_stub_call asked = *q;

    asked.cancel = &f->too_late;
    asked.poll = connect_server_poll;
    asked.ctx = f;
    for (;;) {
        mf_status st;

        f->reached = false;
        st = mf_rpc_stub_ask(f->caller, &asked, arena, out);
        if (mf_cancel_is_raised(&f->too_late) ? st != MF_CANCELLED : st != MF_UNAVAILABLE)
            return st;
        if (st == MF_UNAVAILABLE)
            note_why(f, mf_error_message());
        f->waiting.why = f->why;
        f->waiting.until_ns = until;
        if (mf_clock_ns() + PAUSE_MS * INT64_C(1000000) > until)
            return MF_FAIL(MF_UNAVAILABLE, "request to the server at %s: %s (tried for %.1f s)",
                           mf_rpc_stub_address(f->caller), f->why,
                           (double)(mf_clock_ns() - start) / 1e9);
        mf_wait_report_check(&f->waiting);
        (void)nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000L }, NULL);
    }
}

mf_status mf_remote_ask_first(mf_rpc_stub *c, const mf_rpc_stub_call *q,
                              const mf_session_options *options, mf_arena *arena,
                              ProtobufCMessage **out)
{
    const int64_t patience_ms = options->connect_ms > 0 ? options->connect_ms : CONNECT_MS;
    first f = { .caller = c };
    mf_status st;

    note_why(&f, "no reply and no refusal: the host or its name server is down, unreachable or "
                 "behind a firewall, or the listener is not a TensorFlow server");
    f.waiting = (mf_wait_report){ .who = "this client",
                                  .whom = "the server",
                                  .where = mf_rpc_stub_address(c),
                                  .what = "a session",
                                  .step = -1,
                                  .why = f.why,
                                  .until_ns = mf_clock_ns() + patience_ms * 1000000 };
    mf_cancel_init(&f.too_late);
    mf_wait_report_begin(&f.waiting);
    st = connect_server_ask_until(&f, q, arena, out);
    mf_wait_report_end(&f.waiting, st == MF_OK);
    mf_cancel_deinit(&f.too_late);
    return st;
}
