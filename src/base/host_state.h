/* SPDX-License-Identifier: Apache-2.0 */
/* host_state.h - the state of a thread that belongs to the host program, and what the library does
 * with it.
 *
 * Three things of a calling thread decide what the library's code computes and prints: its locale,
 * its floating-point environment (rounding, flush-to-zero, traps) and whether its process is the
 * child of a fork(). Every public function begins with MF_ENTRY, MF_ENTRY_SMALL or MF_ENTRY_OR
 * (tools/check_host.py checks that): until it returns the thread has the C locale and the default
 * floating-point environment, and then again what it had, exception flags included. Threads of the
 * library have both for life (base/thread.h). So the code behind can use printf("%g"), strtod() and
 * <ctype.h>.
 */
#ifndef MF_BASE_HOST_STATE_H
#define MF_BASE_HOST_STATE_H

#include "base/status.h"

#include <fenv.h>
#include <locale.h>

typedef struct mf_host_state {
    locale_t locale;
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t x87_control, x87_status;
#else
    fenv_t fp;
#endif
} mf_host_state;

/* Remember the calling thread's state and set the library's. Costs about 30 ns. */
void mf_host_enter(mf_host_state *state);
/* Set what was remembered. */
void mf_host_leave(const mf_host_state *state);

/* For the rest of this block the thread has the library's state, whatever is called in it; for the
 * outside and for calls of the user's functions. */
#define MF_HOST_GUARD(name)                                                                        \
    mf_host_state name __attribute__((cleanup(mf_host_leave)));                                    \
    mf_host_enter(&name)

/* Around the call of a user's function: it runs in the library's state, and what it changes of it
 * ends with the block. */
#define MF_CALLBACK MF_HOST_GUARD(callback_)

/* The process was forked from one that had called the library: threads and locks are missing. */
bool mf_host_is_fork(void);
/* A child that knows that the library had no threads and objects there. Only for the program. */
void mf_host_adopt_fork(void);
/* What a call that reads, compiles or computes may take of its caller's stack: more than any test
 * has needed. */
enum { MF_HOST_STACK = 384 << 10 };
/* The calling thread has less than that left. False where the library has called the host and is
 * called again, and on stacks that are not the thread's own (coroutines), whose ends nobody knows.
 */
bool mf_host_lacks_stack(const mf_host_state *state);
/* Records FAILED_PRECONDITION, and is it: in a forked process, or for want of stack. */
mf_status mf_host_refuse(void) __attribute__((cold));

/* The first line of a public function that returns a status. */
#define MF_ENTRY                                                                                   \
    MF_HOST_GUARD(host_);                                                                          \
    if (__builtin_expect(mf_host_is_fork() || mf_host_lacks_stack(&host_), 0))                     \
    return mf_host_refuse()

/* The first line of one that needs little stack: it serves threads that have little. */
#define MF_ENTRY_SMALL                                                                             \
    MF_HOST_GUARD(host_);                                                                          \
    if (__builtin_expect(mf_host_is_fork(), 0))                                                    \
    return mf_host_refuse()

/* The first line of one that returns something else, or nothing: its value in a forked process. */
#define MF_ENTRY_OR(...)                                                                           \
    MF_HOST_GUARD(host_);                                                                          \
    if (__builtin_expect(mf_host_is_fork(), 0)) {                                                  \
        (void)mf_host_refuse();                                                                    \
        return __VA_ARGS__;                                                                        \
    }                                                                                              \
    (void)0

/* INVALID_ARGUMENT naming the first of these arguments that is NULL; MF_OK if none is. */
#define MF_NEEDED(...)                                                                             \
    mf_host_need(__func__, #__VA_ARGS__, (const void *const[]){ __VA_ARGS__ },                     \
                 MF_COUNT(((const void *const[]){ __VA_ARGS__ })))
/* Return that failure. */
#define MF_NEED(...) MF_TRY(MF_NEEDED(__VA_ARGS__))
mf_status mf_host_need(const char *function, const char *names, const void *const *arguments,
                       int n);

/* The same for a pointer to a function. */
#define MF_NEED_FUNCTION(fn)                                                                       \
    MF_TRY(mf_host_need(__func__, #fn, (const void *const[]){ (fn) ? "" : NULL }, 1))

/* Fail with INVALID_ARGUMENT where `array` cannot have n elements (n < 0, or NULL and n > 0). */
#define MF_NEED_ARRAY(array, n) MF_TRY(mf_host_need_array(__func__, #array, (array), (n)))
mf_status mf_host_need_array(const char *function, const char *name, const void *array, int64_t n);
/* Fail so, too, where one of its elements, which are pointers, is NULL. */
#define MF_NEED_ALL(array, n)                                                                      \
    MF_TRY(mf_host_need_all(__func__, #array, (const void *const *)(array), (n)))
mf_status mf_host_need_all(const char *function, const char *name, const void *const *array,
                           int64_t n);

#endif
