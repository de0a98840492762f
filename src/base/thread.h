/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - starting threads of the library.
 *
 * Such a thread has the C locale and the default floating-point environment whatever the host
 * program has set, and no handler of the host's runs on it: it blocks all signals but those that an
 * instruction of its own raises, and profilers'. So a write to a closed socket is EPIPE there. */
#ifndef MF_BASE_THREAD_H
#define MF_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/* As pthread_create() with default attributes, but with 2 MiB of stack at least: 0 or an error
 * number. */
int mf_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);

/* Until the end of this block, what this thread writes to a closed pipe or socket is EPIPE and no
 * signal, whatever the host has done with SIGPIPE. Sockets of ours have MSG_NOSIGNAL; this is for
 * standard error and for libraries. */
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
