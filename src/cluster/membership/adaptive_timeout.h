/* SPDX-License-Identifier: Apache-2.0 */
/* adaptive_timeout.h - how long a task may be silent before it is taken for lost.
 *
 * Usually for the usual time of a lease, which its holder keeps six times as often as it must. On a
 * machine that has too much to do, over a link that loses packets or with a slow store it gets
 * late; so whoever holds a lease measures the gaps between the times at which it was kept, and
 * twice the longest gap of the last minute is how long the lease has to be, if that is more than
 * usual; at most ten times the usual time. A lease that has ended counts as a gap of its length:
 * whoever was taken for lost comes back with one that is twice as long. After a calm minute all is
 * as usual.
 *
 * It is the holder that knows how late it is; others need not guess. But who has not looked for
 * long (it stood still itself, or the store did) gives the others as long to be seen before it
 * takes them for lost: they may have stood still with it. */
#ifndef MF_CLUSTER_MEMBERSHIP_ADAPTIVE_TIMEOUT_H
#define MF_CLUSTER_MEMBERSHIP_ADAPTIVE_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_adaptive_timeout {
    int64_t usual_ns;
    int64_t kept_at; /* when the call began that kept the lease last; 0: never */
    int64_t gap_ns[2]; /* the longest of this half of a minute, and of the one before */
    int64_t half_at; /* when this half began */
} mf_adaptive_timeout;

void mf_adaptive_timeout_init(mf_adaptive_timeout *p, int64_t usual_ns, int64_t now_ns);
/* The lease was kept, or another one was granted, by a call that began then and is over now. */
void mf_adaptive_timeout_kept(mf_adaptive_timeout *p, int64_t began_ns, int64_t now_ns);
/* A lease of this length has ended. */
void mf_adaptive_timeout_ended(mf_adaptive_timeout *p, int64_t length_ns, int64_t now_ns);
/* How long a lease has to be. */
int64_t mf_adaptive_timeout_length(mf_adaptive_timeout *p, int64_t now_ns);
/* The longest gap of late. */
int64_t mf_adaptive_timeout_gap(const mf_adaptive_timeout *p);
/* Is one of this length to be replaced? If it is too short, or more than twice as long as need be.
 */
bool mf_adaptive_timeout_is_unfit(mf_adaptive_timeout *p, int64_t length_ns, int64_t now_ns);

/* For how long nobody is taken for lost by one that has not looked for quiet_ns. */
int64_t mf_adaptive_timeout_grace(int64_t usual_ns, int64_t quiet_ns);

#endif
