/* SPDX-License-Identifier: Apache-2.0 */
/* ps_leases.h - batches are leased to workers, each to one worker, whoever asks first: of the next
 * few the one that is nearest to it, or the first. As only few are looked at, none waits for long.
 * A worker that has got too far ahead of the slowest one waits. */
#ifndef MF_JOB_PS_LEASES_H
#define MF_JOB_PS_LEASES_H

#include "job/ps.h"

typedef struct mf_ps_leases mf_ps_leases;

typedef struct mf_ps_grant {
    int worker;
    uint32_t seq; /* of its request */
    int64_t batch; /* -1: none is left */
} mf_ps_grant;

/* staleness: a worker may have begun so many steps more than any other one; -1: any. */
MF_MUST mf_status mf_ps_leases_new(int workers, int64_t staleness, mf_ps_leases **out);
void mf_ps_leases_free(mf_ps_leases *l);
/* As if nobody had asked for anything yet. */
void mf_ps_leases_reset(mf_ps_leases *l);
/* A worker has done its step and asks for the next batch. */
void mf_ps_leases_ask(mf_ps_leases *l, int worker, uint32_t seq, const mf_ps_lease *lease);
/* A worker does no more steps: nobody waits for it. */
void mf_ps_leases_leave(mf_ps_leases *l, int worker);
/* Somebody who may go on; false: nobody can. */
bool mf_ps_leases_next(mf_ps_leases *l, mf_ps_grant *out);
/* By how many steps a worker was ahead of another, at most. */
int64_t mf_ps_leases_staleness(const mf_ps_leases *l);

#endif
