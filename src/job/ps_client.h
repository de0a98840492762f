/* SPDX-License-Identifier: Apache-2.0 */
/* ps_client.h - the inside of a worker's side of parameter servers; shared by ps_client.c,
 * ps_round.c and ps_state.c. */
#ifndef MF_JOB_PS_CLIENT_H
#define MF_JOB_PS_CLIENT_H

#include "job/ps.h"
#include "job/ps_held.h"

struct mf_ps_client {
    mf_net *net;
    int first_server, n_servers;
    mf_trainer *t;
    int64_t timeout_ns;
    mf_placement place;
    mf_rounds *rounds;
    mf_ps_mode mode;
    uint32_t seq; /* of requests; grows */
    int64_t *version; /* by server: of the weights we have */
    mf_ps_held held;
    bool stop; /* somebody wanted to, in the last round */
};

/* Send a request; receive its answer. Owns: mf_free(*data). */
MF_MUST mf_status mf_ps_ask(mf_ps_client *c, int server, mf_ps_request what, int64_t step,
                            const mf_buf *data);
MF_MUST mf_status mf_ps_answer(mf_ps_client *c, int server, mf_ps_request what, int64_t step,
                               void **data, size_t *size);
/* Who server s is. */
static inline const char *mf_ps_server_name(const mf_ps_client *c, int server)
{
    return mf_net_name(c->net, c->first_server + server);
}
/* A round of a step (ps_round.c). ctx: the client. */
MF_MUST mf_status mf_ps_round(void *ctx, mf_round *r);

#endif
