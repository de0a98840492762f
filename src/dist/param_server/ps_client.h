/* SPDX-License-Identifier: Apache-2.0 */
/* ps_client.h - the inside of a worker's side of parameter servers; shared by ps_client.c,
 * ps_worker_push.c, ps_round.c, ps_state.c and ps_save.c. */
#ifndef MF_DIST_PARAM_SERVER_PS_CLIENT_H
#define MF_DIST_PARAM_SERVER_PS_CLIENT_H

#include "dist/param_server/ps_accumulate.h"
#include "dist/param_server/ps_host_aggregate.h"
#include "dist/param_server/ps_shm.h"
#include "dist/param_server/strategy_param_server.h"

struct mf_ps_client {
    mf_net *net;
    int first_server, n_servers;
    mf_trainer *t;
    int64_t timeout_ns;
    mf_placement place;
    mf_push_pull *rounds;
    /* Positions of values; in the trainer's arena. */
    int *at, *ids; /* by gradient: its value of a round, and (rows; otherwise -1) that of its ids */
    int *gradient; /* by value of a round: its gradient; -1: none */
    int **of_slice; /* by server and slice: the value that is its gradient; -1: rows */
    int64_t *dense; /* by server: floats of all slices except those of rows */
    mf_ps_shm *lanes; /* by server */
    int *answer; /* by server: the area of its lane for the reply; -1: none */
    mf_ps_mode mode;
    uint32_t seq; /* of requests; grows */
    int64_t *replied; /* by server: bytes of its largest reply */
    int64_t *version; /* by server: of this worker's weights */
    int64_t done; /* batches of the training, as a server reported last */
    int64_t batches; /* that the next push is of */
    mf_ps_accumulate held;
    mf_ps_host_aggregate host_aggregate; /* the strategy's */
    float factor; /* of this worker's gradients, in this step */
    int step_flags; /* of the last round */
    int64_t pushed, pulled; /* bytes of pushes and of their answers, wherever these lay */
    mf_buf *push; /* by server: the last one's message, to be sent again if need be */
    int64_t again; /* pushes that were */
};

/* Send c->push[server]; receive its reply. Without a reply for a while, send again. Owns:
 * mf_free(*data). */
MF_MUST mf_status mf_ps_ask_push(mf_ps_client *c, int server, int64_t step);
MF_MUST mf_status mf_ps_answer_push(mf_ps_client *c, int server, int64_t step, void **data,
                                    size_t *size);
/* Send a request; receive its answer. Owns: mf_free(*data). */
MF_MUST mf_status mf_ps_ask(mf_ps_client *c, int server, mf_ps_request what, int64_t step,
                            const mf_buf *data);
MF_MUST mf_status mf_ps_answer(mf_ps_client *c, int server, mf_ps_request what, int64_t step,
                               void **data, size_t *size);
/* The same, for a request that may take longer than others. */
MF_MUST mf_status mf_ps_answer_by(mf_ps_client *c, int64_t deadline_ns, int server,
                                  mf_ps_request what, int64_t step, void **data, size_t *size);
/* An empty reply, or one with a failure: FAILED_PRECONDITION. */
MF_MUST mf_status mf_ps_answer_done(mf_ps_client *c, int server, mf_ps_request what, int64_t step);
/* The name of server s. */
static inline const char *mf_ps_server_name(const mf_ps_client *c, int server)
{
    return mf_net_name(c->net, c->first_server + server);
}
/* Is it a gradient of rows, of which this server holds some? */
static inline bool mf_ps_has_rows(const mf_ps_client *c, int server, int gradient)
{
    return c->ids[gradient] >= 0 &&
           mf_placement_find(&c->place, server, c->t->graph.gradients[gradient].weight);
}
/* A round of a step (ps_round.c), and its preparation (ps_worker_push.c). ctx: the client. */
MF_MUST mf_status mf_ps_round(void *ctx, mf_push_pull_round *r);
bool mf_ps_take(void *ctx, int value, int part, int n_parts, const mf_tensor *x);
/* Make the lanes of all servers of this host large enough for this round. */
MF_MUST mf_status mf_ps_open_lanes(mf_ps_client *c, const mf_push_pull_round *r);
MF_MUST mf_status mf_ps_write_push(mf_ps_client *c, const mf_push_pull_round *r, int server,
                                   mf_buf *message);

#endif
