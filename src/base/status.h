/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - making and passing errors inside the library. See <meshflow/status.h> for the rules.
 */
#ifndef MF_BASE_STATUS_H
#define MF_BASE_STATUS_H

#include <meshflow/status.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MF_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

enum { MF_ERROR_MESSAGE_MAX = 1024, MF_ERROR_TRACE_MAX = 1024 };

/* A failure copied out of a thread's record, to be copied into another thread's or sent in a reply.
 */
typedef struct mf_error {
    mf_status status;
    char message[MF_ERROR_MESSAGE_MAX];
    char trace[MF_ERROR_TRACE_MAX];
} mf_error;

/* Record a new failure: sets the thread's message, starts its trace, evaluates to `code`. It does
 * not evaluate to the result of mf_error_new(), so that compiler and analyser know that a failure
 * is never MF_OK. */
#define MF_FAIL(code, ...)                                                                         \
    ((void)mf_error_new((code), __FILE__, __LINE__, __func__, __VA_ARGS__), (mf_status)(code))

/* Return early, for a function that holds nothing to release. */
#define MF_TRY(call)                                                                               \
    do {                                                                                           \
        const mf_status st_ = (call);                                                              \
        if (__builtin_expect(st_ != MF_OK, 0)) {                                                   \
            (void)mf_error_at(st_, __FILE__, __LINE__, __func__);                                  \
            return st_;                                                                            \
        }                                                                                          \
    } while (0)

/* Jump to the release label, for a function that must release resources. Needs `mf_status st` in
 * scope. */
#define MF_TRY_TO(label, call)                                                                     \
    do {                                                                                           \
        st = (call);                                                                               \
        if (__builtin_expect(st != MF_OK, 0)) {                                                    \
            (void)mf_error_at(st, __FILE__, __LINE__, __func__);                                   \
            goto label;                                                                            \
        }                                                                                          \
    } while (0)

mf_status mf_error_new(mf_status code, const char *file, int line, const char *func,
                       const char *fmt, ...) MF_PRINTF(5, 6) __attribute__((cold));
mf_status mf_error_at(mf_status status, const char *file, int line, const char *func)
    __attribute__((cold));

/* Add text before and after the thread's message; returns `status`. */
mf_status mf_error_wrap(mf_status status, const char *before, const char *after);

/* Copy the thread's record out; copy one in (returns its status). */
void mf_error_save(mf_status status, mf_error *out);
mf_status mf_error_restore(const mf_error *error);

/* For internal errors only: no input of a peer, a file or a user may trigger it. Enabled in release
 * builds. */
#define MF_ASSERT(cond)                                                                            \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            mf_assert_failed(#cond, __FILE__, __LINE__, __func__);                                 \
    } while (0)

#ifdef MF_DEBUG
#define MF_DASSERT(cond) MF_ASSERT(cond)
#else
#define MF_DASSERT(cond) ((void)0)
#endif

_Noreturn void mf_assert_failed(const char *cond, const char *file, int line, const char *func)
    __attribute__((cold));

#endif
