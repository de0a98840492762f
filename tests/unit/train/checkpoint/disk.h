/* SPDX-License-Identifier: Apache-2.0 */
/* disk.h - a simulated disk: it fails on request and records its system calls.
 *
 * The calls that change files (write, fsync, rename, unlink, unlinkat) are the test program's own,
 * in front of the C library's. While a folder is watched, calls on its files are counted and
 * recorded, and one of them may fail. */
#ifndef MF_TEST_TRAIN_DISK_H
#define MF_TEST_TRAIN_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DISK_NAME = 96 };

typedef enum disk_kind {
    DISK_WRITE, /* at the end of a file */
    DISK_SYNC, /* a file */
    DISK_SYNC_FOLDER,
    DISK_RENAME,
    DISK_REMOVE,
} disk_kind;

typedef struct disk_act {
    disk_kind kind;
    char name[DISK_NAME], to[DISK_NAME]; /* in the folder */
    char *data; /* that was written */
    size_t len;
} disk_act;

typedef struct disk {
    const char *folder;
    int64_t fail_at; /* the call that fails, from 1 on; 0: none */
    int error; /* with this errno; 0: a short write, which it reports */
    int64_t calls; /* so far */
    disk_act *acts;
    int64_t n, cap;
} disk;

/* Until disk_leave(). Thread: one at a time; calls may come from any. */
void disk_watch(disk *d);
void disk_leave(void);
void disk_deinit(disk *d);

/* ---- power that fails ----
 *
 * What is on the disk if the power fails after `n` acts is put into another, empty folder. What was
 * synced is there. Of what was not: names appear and vanish in order up to some point, or some do
 * and others do not; bytes are there, or not, or zeros, piece by piece. */
void disk_cut(const disk *d, int64_t n, const char *folder, uint64_t *random);

#endif
