/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_record.c - the first byte selects the input: records with one of the compressions, or an IDX
 * file.
 * Files are read through a descriptor, so none is left on disk. */
#include "formats/idx.h"
#include "formats/record.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void read_records(const char *path, mf_compression c)
{
    mf_reader *r;
    mf_buf record = { 0 };

    if (mf_reader_open(path, c, &r) != MF_OK)
        return;
    while (mf_reader_offset(r) < 1 << 22 && mf_record_read(r, 1 << 20, &record) == MF_OK)
        ;
    (void)!mf_reader_seek(r, 1);
    mf_reader_close(r);
    mf_buf_deinit(&record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_tensor t = { 0 };
    char path[40];
    int fd;

    if (size < 1)
        return 0;
    fd = memfd_create("fuzz", 0);
    MF_ASSERT(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (data[0] < 4) {
        read_records(path, (mf_compression)data[0]);
    } else {
        (void)!mf_idx_read(path, &t);
        mf_tensor_clear(&t);
    }
    close(fd);
    return 0;
}
