/* SPDX-License-Identifier: Apache-2.0 */
/* observer.h - what base/ reports of its work to observe/, which stands above it: files that are
 * read and written, and lines of the log. Without an observer nothing happens. Thread: any. */
#ifndef MF_BASE_OBSERVER_H
#define MF_BASE_OBSERVER_H

typedef struct mf_observer {
    /* A file is about to be read or written; returns a number for end(). */
    int (*begin_read)(const char *path);
    int (*begin_write)(const char *path);
    void (*end)(int activity);
    void (*logged)(const char *text);
} mf_observer;

/* From here on; `observer` is never released. */
void mf_observer_set(const mf_observer *observer);

int mf_observe_read(const char *path);
int mf_observe_write(const char *path);
void mf_observe_end(int activity);
void mf_observe_log(const char *text);

#endif
