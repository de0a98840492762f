/* SPDX-License-Identifier: Apache-2.0 */
/* step_flags.h - what workers that do a step together wish for afterwards; it travels with the
 * step.
 *
 * A word: what at least one wishes for, and how many want to leave. */
#ifndef MF_DIST_STEP_FLAGS_H
#define MF_DIST_STEP_FLAGS_H

enum {
    MF_STEP_FLAG_STOP = 1, /* the step shall be the last one */
    MF_STEP_FLAG_RENDEZVOUS =
        2, /* somebody waits to come in: all shall meet again after the step */
    MF_STEP_FLAG_KINDS = 2, /* so many of these travel with sums */
    MF_STEP_FLAG_READ = 4, /* on a mesh: somebody looks at variables after the step */
    MF_STEP_FLAG_LEAVE = 1 << 8, /* one wants to leave; counted from here on */
};

static inline int mf_step_flags_leaving(int flags)
{
    return flags / MF_STEP_FLAG_LEAVE;
}

static inline int mf_step_flags_join(int a, int b)
{
    return ((a | b) % MF_STEP_FLAG_LEAVE) +
           (mf_step_flags_leaving(a) + mf_step_flags_leaving(b)) * MF_STEP_FLAG_LEAVE;
}

#endif
