/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h - a stream of bytes that is frames one after the other, cut anywhere: bytes of a frame
 * are copied once, to where the inbox says. */
#ifndef MF_PLUGINS_READING_H
#define MF_PLUGINS_READING_H

#include "net/transport.h"

typedef struct mf_reading {
    unsigned char head[MF_FRAME_BYTES];
    mf_frame frame;
    char *data; /* NULL: the head is not whole yet */
    size_t have; /* bytes of the head, or of the data */
} mf_reading;

/* The next bytes of this peer. Fails: the connection is to be ended. */
MF_MUST mf_status mf_reading_take(mf_reading *r, mf_inbox *in, int peer, const void *bytes,
                                  size_t size);

#endif
