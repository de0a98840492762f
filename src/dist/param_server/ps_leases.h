/* SPDX-License-Identifier: Apache-2.0 */
/* ps_leases.h - batches are leased to workers, each batch to one worker, in the order of requests:
 * of the next few batches the most local one to the worker, or the first. As only few are
 * considered, no batch waits for long. A worker that is too far ahead of the slowest one waits.
 *
 * A worker has a batch until it requests another one, which confirms that the servers have the
 * batch's gradients. When workers are lost, the batches of all workers are leased again.
 *
 * With intermediate checkpoints, batches beyond the next checkpoint are leased when it is written:
 * no worker has a batch then, and the first worker saves.
 *
 * Where data is cut into blocks, batch b is of block b % blocks, which belongs to the worker of
 * that number. Further workers have no batches and repeat their requests until another worker is
 * lost. */
#ifndef MF_DIST_PARAM_SERVER_PS_LEASES_H
#define MF_DIST_PARAM_SERVER_PS_LEASES_H

#include "dist/param_server/strategy_param_server.h"

typedef struct mf_ps_leases mf_ps_leases;

typedef struct mf_ps_grant {
    int worker;
    uint32_t seq; /* of its request */
    int64_t batch; /* or mf_ps_no_batch */
} mf_ps_grant;

/* staleness: a worker may have begun so many more steps than any other one; -1: any number. */
MF_MUST mf_status mf_ps_leases_new(int workers, int64_t staleness, mf_ps_leases **out);
void mf_ps_leases_free(mf_ps_leases *l);
/* Set the number of blocks; 0: any worker may have any batch. */
MF_MUST mf_status mf_ps_leases_cut(mf_ps_leases *l, int64_t blocks);
/* Revoke the leases of all workers, and set the number of new workers, none of which has made a
 * request yet: batches that were not confirmed are leased again. */
MF_MUST mf_status mf_ps_leases_revoke_all(mf_ps_leases *l, int workers);
/* As if no worker had made a request yet. */
void mf_ps_leases_reset(mf_ps_leases *l);
/* A worker has done its step and asks for the next batch. */
MF_MUST mf_status mf_ps_leases_ask(mf_ps_leases *l, int worker, uint32_t seq,
                                   const mf_ps_lease *lease);
/* A worker does no more steps: others need not wait for it. */
void mf_ps_leases_leave(mf_ps_leases *l, int worker);
/* A worker whose request can be granted; false: none. */
bool mf_ps_leases_next(mf_ps_leases *l, mf_ps_grant *out);
/* Its bytes, and back: of leases of any number of workers, whose unconfirmed batches are leased
 * again at the next mf_ps_leases_revoke_all(). DATA_LOSS. */
void mf_ps_leases_write(const mf_ps_leases *l, mf_buf *out);
MF_MUST mf_status mf_ps_leases_read(mf_ps_leases *l, mf_ps_reader *in);
/* The most steps by which a worker was ahead of another. */
int64_t mf_ps_leases_staleness(const mf_ps_leases *l);

#endif
