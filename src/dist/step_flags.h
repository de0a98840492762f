/* SPDX-License-Identifier: Apache-2.0 */
/* step_flags.h - what the workers of a step request for after it; the flags travel with the step.
 *
 * One integer: which requests at least one worker makes, and how many workers leave. */
#ifndef MF_DIST_STEP_FLAGS_H
#define MF_DIST_STEP_FLAGS_H

enum {
    MF_STEP_FLAG_STOP = 1, /* the step shall be the last one */
    MF_STEP_FLAG_RENDEZVOUS = 2, /* a task waits to join: rendezvous after the step */
    MF_STEP_FLAG_KINDS = 2, /* so many of these flags travel with sums */
    MF_STEP_FLAG_READ = 4, /* on a mesh: a worker reads variables after the step */
    MF_STEP_FLAG_LEAVE = 1 << 8, /* a worker leaves; counted from this bit on */
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
