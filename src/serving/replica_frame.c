/* SPDX-License-Identifier: Apache-2.0 */
/* replica_frame.c - encodes, sends and receives frames between the front and its replicas. */
#include "serving/replica_frame.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static mf_status replica_frame_read_all(int fd, void *to, size_t len)
{
    for (size_t done = 0; done < len;) {
        const ssize_t n = recv(fd, (char *)to + done, len - done, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return MF_FAIL(MF_UNAVAILABLE, "the front has closed the connection");
        done += (size_t)n;
    }
    return MF_OK;
}

static mf_status replica_frame_write_all(int fd, const void *from, size_t len)
{
    for (size_t done = 0; done < len;) {
        const ssize_t n = send(fd, (const char *)from + done, len - done, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return MF_FAIL(MF_UNAVAILABLE, "the front has closed the connection");
        done += (size_t)n;
    }
    return MF_OK;
}

mf_status mf_serve_frame_read(int fd, mf_serve_head *head, mf_buf *body)
{
    void *room;

    MF_TRY(replica_frame_read_all(fd, head, sizeof *head));
    mf_buf_clear(body);
    room = mf_buf_room(body, head->len);
    if (!room)
        return MF_NOMEM("a request");
    return replica_frame_read_all(fd, room, head->len);
}

mf_status mf_serve_frame_write(int fd, mf_serve_kind kind, int64_t detail, const void *data,
                               size_t len)
{
    const mf_serve_head head = { kind, detail, len };

    MF_TRY(replica_frame_write_all(fd, &head, sizeof head));
    return replica_frame_write_all(fd, data, len);
}
