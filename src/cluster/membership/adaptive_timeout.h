/* SPDX-License-Identifier: Apache-2.0 */
/* adaptive_timeout.h - how long a task may be silent before it is considered lost.
 *
 * Default: the usual length of a lease, which its holder renews six times per length. On an
 * overloaded machine, over a lossy link or with a slow store renewals are late. So the holder
 * measures the gaps between renewals; a lease is at least twice the longest gap of the last minute,
 * and at most ten times the usual length. An expired lease counts as a gap of its length: a task
 * that was considered lost rejoins with a lease twice as long. After a minute without long gaps the
 * usual length applies again.
 *
 * Only the holder measures; other tasks need not guess. A task that has not read the store for long
 * (it was stopped, or the store did not answer) waits as long again before it considers others
 * lost: they may have been stopped at the same time. */
#ifndef MF_CLUSTER_MEMBERSHIP_ADAPTIVE_TIMEOUT_H
#define MF_CLUSTER_MEMBERSHIP_ADAPTIVE_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_adaptive_timeout {
    int64_t usual_ns;
    int64_t kept_at; /* when the call that last renewed the lease began; 0: never */
    int64_t gap_ns[2]; /* the longest of this half of a minute, and of the one before */
    int64_t half_at; /* when this half began */
} mf_adaptive_timeout;

void mf_adaptive_timeout_init(mf_adaptive_timeout *p, int64_t usual_ns, int64_t now_ns);
/* The lease was renewed or granted by a call that began at that time and has returned now. */
void mf_adaptive_timeout_kept(mf_adaptive_timeout *p, int64_t began_ns, int64_t now_ns);
/* A lease of this length has ended. */
void mf_adaptive_timeout_ended(mf_adaptive_timeout *p, int64_t length_ns, int64_t now_ns);
/* The length that the lease needs. */
int64_t mf_adaptive_timeout_length(mf_adaptive_timeout *p, int64_t now_ns);
/* The longest gap of late. */
int64_t mf_adaptive_timeout_gap(const mf_adaptive_timeout *p);
/* Should a lease of this length be replaced? True if it is too short, or more than twice as long as
 * needed. */
bool mf_adaptive_timeout_is_unfit(mf_adaptive_timeout *p, int64_t length_ns, int64_t now_ns);

/* How long a task that has not read the store for quiet_ns considers no other task lost. */
int64_t mf_adaptive_timeout_grace(int64_t usual_ns, int64_t quiet_ns);

#endif
