/* SPDX-License-Identifier: Apache-2.0 */
/* ps_leases.h - batches are leased to workers, each to one worker, whoever asks first: of the next
 * few the one that is nearest to it, or the first. As only few are looked at, none waits for long.
 * A worker that has got too far ahead of the slowest one waits.
 *
 * A batch is a worker's until it asks for another one, which says that the servers have what came
 * of it. When workers are lost, those of all workers are leased once more.
 *
 * Where there are checkpoints on the way, batches beyond the next one are leased when it is
 * written: no worker has a batch then, and the first one saves.
 *
 * Where data is cut into blocks, batch b is of block b % blocks, which is the worker's of that
 * number alone. Workers beyond these have nothing to do, and ask again: their turn comes when
 * another is lost. */
#ifndef MF_DIST_PARAM_SERVER_PS_LEASES_H
#define MF_DIST_PARAM_SERVER_PS_LEASES_H

#include "dist/param_server/strategy_param_server.h"

typedef struct mf_ps_leases mf_ps_leases;

typedef struct mf_ps_grant {
    int worker;
    uint32_t seq; /* of its request */
    int64_t batch; /* or mf_ps_no_batch */
} mf_ps_grant;

/* staleness: a worker may have begun so many steps more than any other one; -1: any. */
MF_MUST mf_status mf_ps_leases_new(int workers, int64_t staleness, mf_ps_leases **out);
void mf_ps_leases_free(mf_ps_leases *l);
/* From here on there are so many blocks; 0: any batch is for anybody. */
MF_MUST mf_status mf_ps_leases_cut(mf_ps_leases *l, int64_t blocks);
/* There are other workers, and nobody has asked for anything yet: batches of which nobody has said
 * that they are done are leased again. */
MF_MUST mf_status mf_ps_leases_renew(mf_ps_leases *l, int workers);
/* As if nobody had asked for anything yet. */
void mf_ps_leases_reset(mf_ps_leases *l);
/* A worker has done its step and asks for the next batch. */
MF_MUST mf_status mf_ps_leases_ask(mf_ps_leases *l, int worker, uint32_t seq,
                                   const mf_ps_lease *lease);
/* A worker does no more steps: nobody waits for it. */
void mf_ps_leases_leave(mf_ps_leases *l, int worker);
/* Somebody who may go on; false: nobody can. */
bool mf_ps_leases_next(mf_ps_leases *l, mf_ps_grant *out);
/* All of it as bytes, and back: of leases of any number of workers, whose batches that may not be
 * done are leased again at the next mf_ps_leases_renew(). DATA_LOSS. */
void mf_ps_leases_write(const mf_ps_leases *l, mf_buf *out);
MF_MUST mf_status mf_ps_leases_read(mf_ps_leases *l, mf_ps_reader *in);
/* By how many steps a worker was ahead of another, at most. */
int64_t mf_ps_leases_staleness(const mf_ps_leases *l);

#endif
