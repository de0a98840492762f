/* SPDX-License-Identifier: Apache-2.0 */
/* host_state.c - saves and restores locale, floating-point environment and fork state of a thread
 * that calls the library. */
#include "base/host_state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static locale_t c_locale;
static atomic_bool is_fork;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    atomic_store(&is_fork, true);
}

static void host_state_begin(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* allocates nothing, cannot fail */
    (void)pthread_atfork(NULL, NULL, in_child);
}

bool mf_host_is_fork(void)
{
    return atomic_load_explicit(&is_fork, memory_order_relaxed);
}

void mf_host_adopt_fork(void)
{
    atomic_store(&is_fork, false);
}

/* The lowest and the highest address of the calling thread's stack. Both NULL: not determined yet.
 */
static _Thread_local const char *stack_low, *stack_high;

static void find_stack(void)
{
    pthread_attr_t attr;
    void *low;
    size_t size;

    stack_low = stack_high = (const char *)&attr; /* unknown: an empty range */
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &low, &size) == 0) {
        stack_low = low;
        stack_high = stack_low + size;
    }
    (void)pthread_attr_destroy(&attr);
}

static bool lacks_stack(void)
{
    const char *here = __builtin_frame_address(0);

    if (!stack_high)
        find_stack();
    return here >= stack_low && here < stack_high && here - stack_low < MF_HOST_STACK;
}

bool mf_host_lacks_stack(const mf_host_state *state)
{
    return state->locale != c_locale && lacks_stack();
}

mf_status mf_host_refuse(void)
{
    if (!mf_host_is_fork())
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "the calling thread has less than %d KiB of stack left: give it a larger "
                       "stack (pthread_attr_setstacksize(), ulimit -s, OMP_STACKSIZE)",
                       MF_HOST_STACK >> 10);
    return MF_FAIL(MF_FAILED_PRECONDITION,
                   "this process was forked from a process that had called Meshflow: call fork() "
                   "before the first call of the library, or exec() a program in the child");
}

#if defined(__x86_64__)

/* <fenv.h> does the same but is ten times slower, mostly because it writes the state of the x87
 * unit. */
enum { MXCSR_DEFAULT = 0x1F80, X87_DEFAULT = 0x037F, X87_FLAGS = 0x3F };

static uint16_t x87_status(void)
{
    uint16_t status;

    __asm__ volatile("fnstsw %0" : "=a"(status));
    return status;
}

static void set_x87_control(uint16_t control)
{
    __asm__ volatile("fldcw %0" : : "m"(control));
}

static void enter_fp(mf_host_state *state)
{
    const uint16_t control = X87_DEFAULT;

    state->mxcsr = _mm_getcsr();
    __asm__ volatile("fnstcw %0" : "=m"(state->x87_control));
    state->x87_status = x87_status();
    _mm_setcsr(MXCSR_DEFAULT);
    if (state->x87_control != control)
        set_x87_control(control);
}

static void leave_fp(const mf_host_state *state)
{
    struct {
        uint16_t control, unused, status, rest[11];
    } x87;

    uint16_t control;

    _mm_setcsr(state->mxcsr);
    __asm__ volatile("fnstcw %0" : "=m"(control));
    if ((x87_status() ^ state->x87_status) & X87_FLAGS) { /* rare: a long double operation was
                                                             inexact */
        __asm__ volatile("fnstenv %0" : "=m"(x87));
        x87.status = (uint16_t)((x87.status & ~X87_FLAGS) | (state->x87_status & X87_FLAGS));
        x87.control = state->x87_control;
        __asm__ volatile("fldenv %0" : : "m"(x87));
    } else if (control != state->x87_control) {
        set_x87_control(state->x87_control);
    }
}

#else

static void enter_fp(mf_host_state *state)
{
    (void)fegetenv(&state->fp);
    (void)fesetenv(FE_DFL_ENV);
}

static void leave_fp(const mf_host_state *state)
{
    (void)fesetenv(&state->fp);
}

#endif

void mf_host_enter(mf_host_state *state)
{
    (void)pthread_once(&once, host_state_begin);
    state->locale = uselocale(c_locale);
    enter_fp(state);
}

void mf_host_leave(const mf_host_state *state)
{
    leave_fp(state);
    (void)uselocale(state->locale);
}

mf_status mf_host_need(const char *function, const char *names, const void *const *arguments, int n)
{
    for (int i = 0; i < n; i++) {
        const size_t len = strcspn(names, ",");

        if (!arguments[i])
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s(): the argument '%.*s' is NULL", function,
                           (int)len, names);
        names += len + strspn(names + len, ", ");
    }
    return MF_OK;
}

mf_status mf_host_need_array(const char *function, const char *name, const void *array, int64_t n)
{
    if (n < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s(): the argument '%s' has %lld elements", function,
                       name, (long long)n);
    return n == 0 ? MF_OK : mf_host_need(function, name, &array, 1);
}

mf_status mf_host_need_all(const char *function, const char *name, const void *const *array,
                           int64_t n)
{
    MF_TRY(mf_host_need_array(function, name, array, n));
    for (int64_t i = 0; i < n; i++) {
        if (!array[i])
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s(): element %lld of the argument '%s' is NULL",
                           function, (long long)i, name);
    }
    return MF_OK;
}
