/* SPDX-License-Identifier: Apache-2.0 */
/* votes.h - what workers that do a step together wish for afterwards; it travels with the step.
 *
 * A word: what at least one wishes for, and how many want to leave. */
#ifndef MF_PARALLEL_VOTES_H
#define MF_PARALLEL_VOTES_H

enum {
    MF_VOTE_STOP = 1, /* the step shall be the last one */
    MF_VOTE_MEET = 2, /* somebody waits to come in: all shall meet again after the step */
    MF_VOTE_KINDS = 2, /* so many of these travel with sums */
    MF_VOTE_LOOK = 4, /* on a mesh: somebody looks at variables after the step */
    MF_VOTE_LEAVE = 1 << 8, /* one wants to leave; counted from here on */
};

static inline int mf_votes_leaving(int votes)
{
    return votes / MF_VOTE_LEAVE;
}

static inline int mf_votes_join(int a, int b)
{
    return ((a | b) % MF_VOTE_LEAVE) + (mf_votes_leaving(a) + mf_votes_leaving(b)) * MF_VOTE_LEAVE;
}

#endif
