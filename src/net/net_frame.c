/* SPDX-License-Identifier: Apache-2.0 */
/* net_frame.c - the header of a message on the wire: little-endian, with its own checksum. */
#include "formats/crc32c.h"
#include "net/transport.h"

static const uint32_t MAGIC = 0x3146464d; /* "MFF1" */

static void net_frame_put(unsigned char **p, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *(*p)++ = (unsigned char)(value >> (8 * i));
}

static uint64_t net_frame_get(const unsigned char **p, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value |= (uint64_t) * (*p)++ << (8 * i);
    return value;
}

static uint32_t check_of(const unsigned char *bytes)
{
    return mf_crc32c(0, bytes, MF_FRAME_BYTES - 4);
}

void mf_frame_write(const mf_frame *f, unsigned char bytes[MF_FRAME_BYTES])
{
    unsigned char *p = bytes;

    net_frame_put(&p, MAGIC, 4);
    net_frame_put(&p, f->kind, 2);
    net_frame_put(&p, f->flags, 2);
    net_frame_put(&p, f->epoch, 4);
    net_frame_put(&p, f->group, 4);
    net_frame_put(&p, f->seq, 4);
    net_frame_put(&p, (uint64_t)f->step, 8);
    net_frame_put(&p, f->size, 8);
    net_frame_put(&p, f->crc, 4);
    net_frame_put(&p, 0, 4);
    net_frame_put(&p, check_of(bytes), 4);
}

bool mf_frame_read(const unsigned char bytes[MF_FRAME_BYTES], mf_frame *f)
{
    const unsigned char *p = bytes;
    const bool ours = net_frame_get(&p, 4) == MAGIC;

    f->kind = (uint16_t)net_frame_get(&p, 2);
    f->flags = (uint16_t)net_frame_get(&p, 2);
    f->epoch = (uint32_t)net_frame_get(&p, 4);
    f->group = (uint32_t)net_frame_get(&p, 4);
    f->seq = (uint32_t)net_frame_get(&p, 4);
    f->step = (int64_t)net_frame_get(&p, 8);
    f->size = net_frame_get(&p, 8);
    f->crc = (uint32_t)net_frame_get(&p, 4);
    p += 4;
    return ours && net_frame_get(&p, 4) == check_of(bytes) && f->size <= MF_FRAME_MAX;
}
