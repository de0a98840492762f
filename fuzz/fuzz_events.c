/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_events.c - the first byte selects the input: an event file, or one Event inside a valid
 * record, so
 * that mutations need not guess checksums. */
#include "formats/events.h"
#include "formats/record.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void read_all(const char *path)
{
    mf_events_reader *r;
    const Tensorflow__Event *event;

    if (mf_events_reader_open(path, &r) != MF_OK)
        return;
    while (mf_events_next(r, &event) == MF_OK)
        MF_ASSERT(event != NULL);
    mf_events_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40];
    int fd;

    if (size < 1)
        return 0;
    fd = memfd_create("fuzz", 0);
    MF_ASSERT(fd >= 0);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (data[0] % 2 == 0) {
        MF_ASSERT(write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    } else {
        mf_writer *w;

        MF_ASSERT(mf_writer_open(path, MF_PLAIN, false, &w) == MF_OK);
        MF_ASSERT(mf_record_write(w, data + 1, size - 1) == MF_OK);
        MF_ASSERT(mf_writer_close(w) == MF_OK);
    }
    read_all(path);
    close(fd);
    return 0;
}
