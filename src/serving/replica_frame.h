/* SPDX-License-Identifier: Apache-2.0 */
/* replica_frame.h - the protocol between the front and a replica, over a socket pair.
 *
 *     front:    REQUEST REQUEST RUN             LOAD
 *     replica:                  ANSWER ANSWER        LOADED
 *
 * A frame is a header and `len` bytes. Both ends are the same program, forked: headers are plain
 * structs. */
#ifndef MF_SERVING_REPLICA_FRAME_H
#define MF_SERVING_REPLICA_FRAME_H

#include "base/buf.h"

typedef enum mf_serve_kind {
    MF_SERVE_REQUEST = 1, /* detail: mf_serve_verb; bytes: the body */
    MF_SERVE_RUN, /* all requests of a run have been sent */
    MF_SERVE_LOAD, /* detail: version; bytes: the checkpoint */
    MF_SERVE_ANSWER, /* detail: HTTP status; bytes: the body. In the order of the requests */
    MF_SERVE_LOADED, /* detail: version; bytes: why the load failed; none: it succeeded */
} mf_serve_kind;

typedef struct mf_serve_head {
    uint64_t kind; /* mf_serve_kind */
    int64_t detail;
    uint64_t len;
} mf_serve_head;

/* Blocking, for the replica. UNAVAILABLE: the other end is closed. */
MF_MUST mf_status mf_serve_frame_read(int fd, mf_serve_head *head, mf_buf *body);
MF_MUST mf_status mf_serve_frame_write(int fd, mf_serve_kind kind, int64_t detail, const void *data,
                                       size_t len);

#endif
