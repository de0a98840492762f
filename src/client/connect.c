/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c - the way to a server, which may not be there yet. */
#include "base/clock.h"
#include "base/log.h"
#include "client/remote.h"
#include "comm/inside_rpc.h"
#include "comm/transports.h"

#include <string.h>
#include <time.h>

enum { CONNECT_MS = 60000, PAUSE_MS = 100, COMPLAIN_S = 5 };

static const char scheme[] = "grpc://";

mf_status mf_remote_connect(const mf_session_options *options, mf_caller **out)
{
    const char *target = options->target;
    const bool inside = mf_is_inside(target);
    const char *address = inside ? target : target + strlen(scheme);
    mf_security security = { .insecure_any_peer = options->insecure_any_peer };
    const mf_rpc_kind *rpc = &mf_rpc_inside;
    char *memory = NULL;
    mf_status st;

    *out = NULL;
    if ((!inside && strncmp(target, scheme, strlen(scheme)) != 0) || !strchr(address, ':') ||
        strpbrk(address, "/, "))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "there is no target '%s': a server's is grpc://host:port", target);
    st = inside ? MF_OK : mf_rpc_find(&rpc);
    if (st == MF_OK && options->tls_dir)
        st = mf_security_from_dir(options->tls_dir, "client", &security, &memory);
    else
        mf_security_fill(&security);
    if (st == MF_OK)
        st = mf_caller_new(rpc, address, &security, out);
    mf_free(memory);
    return st;
}

mf_status mf_remote_ask_first(mf_caller *c, const mf_question *q, const mf_session_options *options,
                              mf_arena *arena, ProtobufCMessage **out)
{
    const int64_t start = mf_clock_ns();
    const int64_t patience = options->connect_ms > 0 ? options->connect_ms : CONNECT_MS;
    int64_t waited, said = 0;
    mf_error why;
    mf_status st;

    for (;;) {
        st = mf_caller_ask(c, q, arena, out);
        waited = (mf_clock_ns() - start) / 1000000;
        if (st != MF_UNAVAILABLE)
            return st;
        mf_error_save(st, &why);
        if (waited + PAUSE_MS > patience)
            return MF_FAIL(MF_UNAVAILABLE, "%s (tried for %.1f s)", why.message,
                           (double)waited / 1e3);
        if (waited / 1000 >= said + COMPLAIN_S) {
            said = waited / 1000;
            MF_INFO("waiting for the server at %s since %lld s: %s", mf_caller_address(c),
                    (long long)said, why.message);
        }
        (void)nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000L }, NULL);
    }
}
