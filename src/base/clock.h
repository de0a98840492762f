/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - time and entropy from the system, in one place so that a simulation can replace them.
 */
#ifndef MF_BASE_CLOCK_H
#define MF_BASE_CLOCK_H

#include <stdint.h>

/* Monotonic nanoseconds; only differences mean something. */
int64_t mf_clock_ns(void);
/* The same clock, some milliseconds behind, for a few nanoseconds. */
int64_t mf_clock_coarse_ns(void);
/* Nanoseconds since 1970, UTC. */
int64_t mf_clock_wall_ns(void);
/* Since the kernel started this process, to a hundredth of a second. */
int64_t mf_clock_since_start_ns(void);
/* 64 bits that differ from process to process. */
uint64_t mf_random_seed(void);

#endif
