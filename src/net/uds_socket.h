/* SPDX-License-Identifier: Apache-2.0 */
/* uds_socket.h - Unix sockets for the transport between processes of a host: names, peer
 * credentials, and reads and writes with deadlines. */
#ifndef MF_NET_UDS_SOCKET_H
#define MF_NET_UDS_SOCKET_H

#include "base/spin.h"
#include "net/transport.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

enum { MF_UDS_TEXT_MAX = 16 << 10 };

/* The socket name, in the abstract namespace, for this address. Returns 0 if it is too long. */
socklen_t mf_uds_name(const char *address, struct sockaddr_un *out);
/* Fails with PERMISSION_DENIED if the peer is a process of another user. */
MF_MUST mf_status mf_uds_check_user(int fd);

/* A write to a peer; NULL in a call: a greeting, before the peer is known. */
typedef struct mf_uds_writer {
    mf_inbox *inbox;
    int peer;
    const mf_frame *frame;
    bool begun; /* partially written */
    int64_t give_up_ns; /* 0: no failure so far */
    /* While the peer does not read: polled before a sleep. NULL: not polled. */
    mf_transport *polled;
    mf_spin *spin; /* of this thread */
    int64_t polls, limit; /* of the current wait */
} mf_uds_writer;

/* Writes all of these parts, which are modified. deadline_ns 0: none. After a failure elsewhere, a
 * partially written frame gets a short time to be completed: otherwise nothing could follow it, and
 * the peer could not be notified of the cause. */
MF_MUST mf_status mf_uds_write(int fd, struct iovec *at, int n, int64_t deadline_ns,
                               mf_uds_writer *w);
/* A greeting is a length and a text; the reply has a status in front. */
MF_MUST mf_status mf_uds_send_text(int fd, uint32_t code, const char *text, bool with_code,
                                   int64_t deadline_ns);
/* The reply: the identity of the peer, or the reason of a refusal. text has room for
 * MF_UDS_TEXT_MAX bytes. */
MF_MUST mf_status mf_uds_read_answer(int fd, char *text, int64_t deadline_ns);

#endif
