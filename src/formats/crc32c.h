/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.h - CRC-32C (Castagnoli), and TensorFlow's mask over it. */
#ifndef MF_FORMATS_CRC32C_H
#define MF_FORMATS_CRC32C_H

#include <isa-l/crc.h>
#include <stddef.h>
#include <stdint.h>

/* The checksum of the bytes that have checksum `crc` (0: none) followed by these bytes. */
static inline uint32_t mf_crc32c(uint32_t crc, const void *data, size_t len)
{
    const size_t most = (size_t)1 << 30; /* the library counts in int */
    unsigned char *p = (unsigned char *)(uintptr_t)data; /* the library does not write to it */

    crc = ~crc;
    while (len > 0) {
        const size_t n = len < most ? len : most;

        crc = crc32_iscsi(p, (int)n, crc);
        p += n;
        len -= n;
    }
    return ~crc;
}

/* A stored checksum is masked: the plain checksum of data that includes its own checksum would be a
 * constant. */
static inline uint32_t mf_crc32c_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

#endif
