/* SPDX-License-Identifier: Apache-2.0 */
/* spin.h - how often a thread polls before it sleeps.
 *
 * Sleeping and waking takes longer than most waits of a collective, so a waiting thread polls
 * first. If other threads compete for the processor, the awaited one may be among them, and polling
 * is useless: the number of polls is reduced after a failure, set to twice the number that sufficed
 * after a success, and occasionally reset to the maximum, because conditions change. (Not
 * sched_yield(): on a busy machine it can take milliseconds to return.) */
#ifndef MF_BASE_SPIN_H
#define MF_BASE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* What one thread has learned; zero at first. */
typedef struct mf_spin {
    int64_t patience;
    unsigned waits;
} mf_spin;

/* Number of polls in the next wait: at least `least`, and at most the larger of the two. Do not
 * call it for waits that end at once: they would take the turns at which the maximum is tried. */
static inline int64_t mf_spin_limit(mf_spin *s, int64_t least, int64_t most)
{
    enum { TRY = 32 };

    if (s->patience < least)
        s->patience = least;
    return s->waits++ % TRY == 0 || s->patience > most ? most : s->patience;
}

/* The wait ended after this number of polls, or not at all. */
static inline void mf_spin_learn(mf_spin *s, int64_t polls, bool success)
{
    if (!success)
        s->patience /= 2;
    else if (2 * polls > s->patience)
        s->patience = 2 * polls;
}

static inline void mf_spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#endif
