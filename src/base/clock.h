/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - time and entropy of the system, in one place so that a simulation can replace them. */
#ifndef MF_BASE_CLOCK_H
#define MF_BASE_CLOCK_H

#include <stdint.h>

/* Monotonic nanoseconds; only differences are meaningful. */
int64_t mf_clock_ns(void);
/* The same clock with a resolution of milliseconds; a call takes a few nanoseconds. */
int64_t mf_clock_coarse_ns(void);
/* Nanoseconds since 1970, UTC. */
int64_t mf_clock_wall_ns(void);
/* Nanoseconds since the kernel started this process; resolution: 10 ms. */
int64_t mf_clock_since_start_ns(void);
/* 64 bits that differ between processes. */
uint64_t mf_random_seed(void);

#endif
