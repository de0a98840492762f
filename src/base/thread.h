/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - starting threads of the library.
 *
 * Such a thread has the C locale and the default floating-point environment, whatever the host
 * program has set, and runs none of the host's signal handlers: it blocks all signals except those
 * raised by its own instructions and those of profilers. A write to a closed socket therefore
 * returns EPIPE. */
#ifndef MF_BASE_THREAD_H
#define MF_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/* As pthread_create() with default attributes, but with at least 2 MiB of stack. Returns 0 or an
 * error number. */
int mf_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);

/* Until the end of this block, a write of this thread to a closed pipe or socket returns EPIPE and
 * raises no signal, whatever the host has done with SIGPIPE. Our own sockets use MSG_NOSIGNAL; this
 * is for standard error and for libraries. */
#define MF_NO_SIGPIPE                                                                              \
    mf_sigpipe sigpipe_ __attribute__((cleanup(mf_sigpipe_allow)));                                \
    mf_sigpipe_refuse(&sigpipe_)
typedef struct mf_sigpipe {
    sigset_t before; /* signals that were blocked */
    bool was_pending;
} mf_sigpipe;
void mf_sigpipe_refuse(mf_sigpipe *s);
void mf_sigpipe_allow(const mf_sigpipe *s);

#endif
