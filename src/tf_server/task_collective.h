/* SPDX-License-Identifier: Apache-2.0 */
/* task_collective.h - one member's part of a collective: it resolves the group and exchanges chunks
 * (collective_schedule.h) through the rendezvous tables of the step. */
#ifndef MF_TF_SERVER_TASK_COLLECTIVE_H
#define MF_TF_SERVER_TASK_COLLECTIVE_H

#include "tf_server/step_rendezvous.h"

/* See mf_rendezvous_kind. Errors name the group, the collective and the member. */
void mf_collective_start(const mf_step_rendezvous *m, mf_collective_op *c, const mf_shape *shape,
                         mf_kernel *k);

/* ---- RecvBuf (recv_buf.c) ---- */

enum { MF_COLLECTIVE_KEY = 160, MF_COLLECTIVE_PLACE = MF_COLLECTIVE_KEY + 8 };

/* Handles RecvBuf. */
void mf_collective_recv_buf(mf_request *r, const ProtobufCMessage *message);
/* The key of a chunk in a step's rendezvous table. */
void mf_collective_place(const char *key, char place[MF_COLLECTIVE_PLACE]);

#endif
