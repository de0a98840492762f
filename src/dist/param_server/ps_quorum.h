/* SPDX-License-Identifier: Apache-2.0 */
/* ps_quorum.h - with a quorum the first server decides for all which pushes make an update. */
#ifndef MF_DIST_PARAM_SERVER_PS_QUORUM_H
#define MF_DIST_PARAM_SERVER_PS_QUORUM_H

#include "dist/param_server/ps_server.h"

/* Does this server wait for decisions of the first server? */
bool mf_ps_quorum_follows(const server *s);
/* The first server tells the others: these pushes make an update, or are discarded. Without a
 * quorum: nothing. */
MF_MUST mf_status mf_ps_quorum_decide(server *s, push *const *all, int n, bool discards);
/* A decision has arrived. Takes ownership of the mail. */
void mf_ps_quorum_take(server *s, mf_mail *r);
/* The next decision. False: it, or a push that it is about, has not arrived. all: at least
 * MF_REDUCTION_TREE_LEAVES places. */
bool mf_ps_quorum_next(server *s, push **all, int *n, bool *discards);
/* The connections of the servers are new: no decision is on its way. */
void mf_ps_quorum_reset(server *s);

#endif
