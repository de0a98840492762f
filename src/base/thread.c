/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - starts threads with the library's locale, floating-point environment and signal mask.
 */
#include "base/thread.h"

#include "base/host_state.h"
#include "base/mem.h"

#include <errno.h>
#include <time.h>

enum { STACK_BYTES = 2 << 20, LONGEST_PAUSE_MS = 256 };

typedef struct start {
    void *(*fn)(void *);
    void *arg;
} start;

static void *thread_begin(void *arg)
{
    const start s = *(const start *)arg;
    mf_host_state state;

    mf_free(arg);
    mf_host_enter(&state); /* for the rest of the thread's life */
    return s.fn(s.arg);
}

static void thread_block_signals(sigset_t *before)
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

/* The default of the host program may be too small (ulimit -s). */
static int set_stack(pthread_attr_t *attr)
{
    size_t size;
    int error = pthread_attr_getstacksize(attr, &size);

    if (error == 0 && size < STACK_BYTES)
        error = pthread_attr_setstacksize(attr, STACK_BYTES);
    return error;
}

/* EAGAIN: the host has too many threads now; threads of other processes may end soon. */
static int create_patiently(pthread_t *thread, const pthread_attr_t *attr, start *s)
{
    int error = pthread_create(thread, attr, thread_begin, s);

    for (long ms = 1; error == EAGAIN && ms <= LONGEST_PAUSE_MS; ms *= 2) {
        (void)nanosleep(&(struct timespec){ 0, ms * 1000000 }, NULL);
        error = pthread_create(thread, attr, thread_begin, s);
    }
    return error;
}

static int thread_create(pthread_t *thread, start *s)
{
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);

    if (error != 0)
        return error;
    error = set_stack(&attr);
    if (error == 0)
        error = create_patiently(thread, &attr, s);
    (void)pthread_attr_destroy(&attr);
    return error;
}

int mf_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    start *s = mf_calloc(1, sizeof *s);
    sigset_t before;
    int error;

    if (!s)
        return ENOMEM;
    *s = (start){ fn, arg };
    thread_block_signals(&before); /* the new thread inherits the mask: signals blocked */
    error = thread_create(thread, s);
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

    if (!s->was_pending && is_pending()) /* raised by our own write: discard it */
        (void)sigtimedwait(&set, NULL, &(struct timespec){ 0 });
    (void)pthread_sigmask(SIG_SETMASK, &s->before, NULL);
    errno = error;
}
