/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - see thread.h. */
#include "base/thread.h"

#include "base/host.h"
#include "base/mem.h"

#include <errno.h>
#include <time.h>

typedef struct start {
    void *(*fn)(void *);
    void *arg;
} start;

static void *begin(void *arg)
{
    const start s = *(const start *)arg;
    mf_host_state state;

    mf_free(arg);
    mf_host_enter(&state); /* and never leaves */
    return s.fn(s.arg);
}

static void block_signals(sigset_t *before)
{
    static const int kept[] = {
        SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF
    };
    sigset_t blocked;

    (void)sigfillset(&blocked);
    for (int i = 0; i < MF_COUNT(kept); i++)
        (void)sigdelset(&blocked, kept[i]);
    (void)pthread_sigmask(SIG_BLOCK, &blocked, before);
}

int mf_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    start *s = mf_calloc(1, sizeof *s);
    sigset_t before;
    int error;

    if (!s)
        return ENOMEM;
    *s = (start){ fn, arg };
    block_signals(&before); /* the new thread inherits them blocked */
    error = pthread_create(thread, NULL, begin, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        mf_free(s);
    return error;
}

static bool is_pending(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

static sigset_t only_sigpipe(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGPIPE);
    return set;
}

void mf_sigpipe_refuse(mf_sigpipe *s)
{
    const sigset_t set = only_sigpipe();

    s->was_pending = is_pending();
    (void)pthread_sigmask(SIG_BLOCK, &set, &s->before);
}

void mf_sigpipe_allow(const mf_sigpipe *s)
{
    const sigset_t set = only_sigpipe();
    const int error = errno;

    if (!s->was_pending && is_pending()) /* ours, then; nobody hears of it */
        (void)sigtimedwait(&set, NULL, &(struct timespec){ 0 });
    (void)pthread_sigmask(SIG_SETMASK, &s->before, NULL);
    errno = error;
}
