/* SPDX-License-Identifier: Apache-2.0 */
/* cond.h - condition variables with deadlines on mf_clock_ns(), so changes of the date do not
 * affect them. */
#ifndef MF_BASE_COND_H
#define MF_BASE_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Free with pthread_cond_destroy(). */
static inline void mf_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* Returns false at the deadline. */
static inline bool mf_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ns)
{
    const struct timespec at = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

    return pthread_cond_timedwait(cond, lock, &at) == 0;
}

#endif
