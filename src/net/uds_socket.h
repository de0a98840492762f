/* SPDX-License-Identifier: Apache-2.0 */
/* uds_socket.h - Unix sockets as the transport between processes of a host uses them: their
 * names, whose they are, and bytes and short texts that are there in time. */
#ifndef MF_NET_UDS_SOCKET_H
#define MF_NET_UDS_SOCKET_H

#include "net/transport.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

enum { MF_UDS_TEXT_MAX = 16 << 10 };

/* The name, in the abstract name space, of the socket at this address. 0: it is too long. */
socklen_t mf_uds_name(const char *address, struct sockaddr_un *out);
/* PERMISSION_DENIED: another user is at the other end. */
MF_MUST mf_status mf_uds_check_user(int fd);

/* Whoever writes to a peer; NULL: greetings, nobody is known yet. */
typedef struct mf_uds_writer {
    mf_inbox *inbox;
    int peer;
    const mf_frame *frame;
    bool begun; /* some of it is out */
    int64_t give_up_ns; /* 0: there is no trouble yet */
} mf_uds_writer;

/* All of these parts; they are changed on the way. deadline_ns 0: whenever. When there is trouble
 * elsewhere a frame that is begun gets a moment to be finished: without it nothing could follow,
 * and the peer could not be told whose fault it is. */
MF_MUST mf_status mf_uds_write(int fd, struct iovec *at, int n, int64_t deadline_ns,
                               mf_uds_writer *w);
/* A greeting is its length and its text; so is the answer, behind a status. */
MF_MUST mf_status mf_uds_send_text(int fd, uint32_t code, const char *text, bool with_code,
                                   int64_t deadline_ns);
/* The answer: who is there, or why not. text has room for MF_UDS_TEXT_MAX bytes. */
MF_MUST mf_status mf_uds_read_answer(int fd, char *text, int64_t deadline_ns);

#endif
