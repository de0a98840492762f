/* SPDX-License-Identifier: Apache-2.0 */
/* listening.c - binds a server of gRPC to its port, and finds the reason of a failure. */
#include "plugins/grpc/grpc_wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* gRPC reports only that it failed; the kernel knows why. */
static mf_status try_address(const mf_endpoint *at, const char *address)
{
    const int fd = socket(at->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    mf_status st = MF_OK;

    if (fd < 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no more sockets: %s", strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&at->at, at->size) != 0)
        st = MF_FAIL(errno == EADDRINUSE ? MF_ALREADY_EXISTS : MF_INVALID_ARGUMENT,
                     "cannot listen at %s: %s", address,
                     errno == EADDRINUSE ? "another task or program listens there"
                                         : strerror(errno));
    close(fd);
    return st;
}

mf_status listen_at(grpc_server *server, const mf_security *security, mf_endpoint *at,
                    char address[MF_ADDRESS_MAX], grpc_channel_credentials **channels)
{
    grpc_server_credentials *credentials = NULL;
    char numbers[MF_ADDRESS_MAX];
    mf_status st;
    int port = 0;

    MF_TRY(try_address(at, address));
    st = security_check_serves(security);
    if (st == MF_OK)
        st = security_open(security, &credentials, channels);
    if (st == MF_OK) {
        mf_endpoint_print(at, numbers);
        port = grpc_server_add_http2_port(server, numbers, credentials);
        if (port <= 0)
            st = try_address(at, address); /* did another process bind it meanwhile? */
        if (port <= 0 && st == MF_OK)
            st = MF_FAIL(MF_INTERNAL, "cannot listen at %s%s", address,
                         security->ca ? ": check that certificate and key match" : "");
    }
    if (credentials)
        grpc_server_credentials_release(credentials);
    if (st == MF_OK && mf_endpoint_port(at) == 0) {
        char *colon = strrchr(address, ':');

        mf_endpoint_set_port(at, port);
        (void)snprintf(colon, MF_ADDRESS_MAX - (size_t)(colon - address), ":%d", port);
    }
    return st;
}
