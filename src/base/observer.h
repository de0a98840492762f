/* SPDX-License-Identifier: Apache-2.0 */
/* observer.h - events that base/ reports to observe/, a folder above it: files read and written,
 * and log lines. Without an observer they are ignored. Thread: any. */
#ifndef MF_BASE_OBSERVER_H
#define MF_BASE_OBSERVER_H

typedef struct mf_observer {
    /* A file is about to be read or written. Returns a handle for end(). */
    int (*begin_read)(const char *path);
    int (*begin_write)(const char *path);
    void (*end)(int activity);
    void (*logged)(const char *text);
} mf_observer;

/* Set the observer for the rest of the process; it is never released. */
void mf_observer_set(const mf_observer *observer);

int mf_observe_read(const char *path);
int mf_observe_write(const char *path);
void mf_observe_end(int activity);
void mf_observe_log(const char *text);

#endif
