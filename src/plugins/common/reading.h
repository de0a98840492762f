/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h - decodes a byte stream of consecutive frames that arrives in arbitrary pieces. Bytes
 * of a frame are copied once, to the memory that the inbox provides. */
#ifndef MF_PLUGINS_READING_H
#define MF_PLUGINS_READING_H

#include "net/transport.h"

typedef struct mf_reading {
    unsigned char head[MF_FRAME_BYTES];
    mf_frame frame;
    char *data; /* NULL: the header is incomplete */
    size_t have; /* bytes received of the header, or of the data */
} mf_reading;

/* The next bytes of this peer. On failure the caller closes the connection. */
MF_MUST mf_status mf_reading_take(mf_reading *r, mf_inbox *in, int peer, const void *bytes,
                                  size_t size);

#endif
