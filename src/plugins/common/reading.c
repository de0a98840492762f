/* SPDX-License-Identifier: Apache-2.0 */
/* reading.c - decodes frames from a byte stream. */
#include "plugins/common/reading.h"

#include <string.h>

/* The header or the data is complete. */
static mf_status common_reading_take_step(mf_reading *r, mf_inbox *in, int peer)
{
    r->have = 0;
    if (!r->data) {
        if (!mf_frame_read(r->head, &r->frame))
            return MF_FAIL(MF_DATA_LOSS, "the peer sent an invalid message");
        r->data = in->kind->begin(in, peer, &r->frame);
        if (!r->data)
            return MF_RESOURCE_EXHAUSTED;
        if (r->frame.size > 0)
            return MF_OK;
    }
    r->data = NULL;
    in->kind->end(in, peer, &r->frame);
    return MF_OK;
}

mf_status mf_reading_take(mf_reading *r, mf_inbox *in, int peer, const void *bytes, size_t size)
{
    const char *from = bytes;

    while (size > 0) {
        const size_t whole = r->data ? (size_t)r->frame.size : MF_FRAME_BYTES;
        const size_t n = size < whole - r->have ? size : whole - r->have;

        memcpy((r->data ? r->data : (char *)r->head) + r->have, from, n);
        from += n;
        size -= n;
        r->have += n;
        if (r->have == whole)
            MF_TRY(common_reading_take_step(r, in, peer));
    }
    return MF_OK;
}
