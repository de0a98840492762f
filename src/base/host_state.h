/* SPDX-License-Identifier: Apache-2.0 */
/* host_state.h - saves the state of a calling thread and sets that of the library.
 *
 * Three properties of a calling thread affect what the library computes and prints: its locale, its
 * floating-point environment (rounding, flush-to-zero, traps), and whether its process is the child
 * of a fork(). Every public function begins with MF_ENTRY, MF_ENTRY_SMALL or MF_ENTRY_OR
 * (tools/check_host.py checks that): until it returns the thread has the C locale and the default
 * floating-point environment; then its own state is restored, exception flags included. Threads of
 * the library always have the library's state (base/thread.h). Code below a public function can
 * therefore use printf("%g"), strtod() and <ctype.h>. */
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

/* Save the calling thread's state and set the library's. Takes about 30 ns. */
void mf_host_enter(mf_host_state *state);
/* Restore the saved state. */
void mf_host_leave(const mf_host_state *state);

/* For the rest of this block the thread has the library's state. On exit from the block its former
 * state is restored. Used at public entry points and around calls of the user's functions. */
#define MF_HOST_GUARD(name)                                                                        \
    mf_host_state name __attribute__((cleanup(mf_host_leave)));                                    \
    mf_host_enter(&name)

/* Around a call of a user's function: the function runs in the library's state, and its changes to
 * that state end with the block. */
#define MF_CALLBACK MF_HOST_GUARD(callback_)

/* The process was forked from a process that had called the library: threads and locks are missing.
 */
bool mf_host_is_fork(void);
/* For a child that knows that the library had no threads and objects in its parent. Only for the
 * program. */
void mf_host_adopt_fork(void);
/* Stack that a call that reads, compiles or computes may use: more than any test has needed. */
enum { MF_HOST_STACK = 384 << 10 };
/* The calling thread has less than MF_HOST_STACK left. Returns false for nested calls (the library
 * called the host, which calls the library) and on stacks that are not the thread's own
 * (coroutines), whose bounds are unknown. */
bool mf_host_lacks_stack(const mf_host_state *state);
/* Records and returns FAILED_PRECONDITION: in a forked process, or for lack of stack. */
mf_status mf_host_refuse(void) __attribute__((cold));

/* The first line of a public function that returns a status. */
#define MF_ENTRY                                                                                   \
    MF_HOST_GUARD(host_);                                                                          \
    if (__builtin_expect(mf_host_is_fork() || mf_host_lacks_stack(&host_), 0))                     \
    return mf_host_refuse()

/* The first line of a public function that needs little stack, and may be called by threads with
 * small stacks. */
#define MF_ENTRY_SMALL                                                                             \
    MF_HOST_GUARD(host_);                                                                          \
    if (__builtin_expect(mf_host_is_fork(), 0))                                                    \
    return mf_host_refuse()

/* The first line of a public function without a status; the argument is its return value in a
 * forked process. */
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
/* Return that failure, if there is one. */
#define MF_NEED(...) MF_TRY(MF_NEEDED(__VA_ARGS__))
mf_status mf_host_need(const char *function, const char *names, const void *const *arguments,
                       int n);

/* The same for a pointer to a function. */
#define MF_NEED_FUNCTION(fn)                                                                       \
    MF_TRY(mf_host_need(__func__, #fn, (const void *const[]){ (fn) ? "" : NULL }, 1))

/* Fail with INVALID_ARGUMENT if `array` cannot have n elements (n < 0, or NULL and n > 0). */
#define MF_NEED_ARRAY(array, n) MF_TRY(mf_host_need_array(__func__, #array, (array), (n)))
mf_status mf_host_need_array(const char *function, const char *name, const void *array, int64_t n);
/* The same, and fail if one of its elements, which are pointers, is NULL. */
#define MF_NEED_ALL(array, n)                                                                      \
    MF_TRY(mf_host_need_all(__func__, #array, (const void *const *)(array), (n)))
mf_status mf_host_need_all(const char *function, const char *name, const void *const *array,
                           int64_t n);

#endif
