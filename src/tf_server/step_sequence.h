/* SPDX-License-Identifier: Apache-2.0 */
/* step_sequence.h - numbers of steps that several masters run together: members of a group find
 * each other by them. A run with collectives has a key, the same at all masters; the steps of a key
 * have numbers one after the other, and the leader of groups says where they begin. Where all
 * members of its groups belong to one master, any number will do. */
#ifndef MF_TF_SERVER_STEP_SEQUENCE_H
#define MF_TF_SERVER_STEP_SEQUENCE_H

#include "tf_server/server.h"

typedef struct mf_step_sequences mf_step_sequences;

MF_MUST mf_status mf_step_sequences_new(mf_step_sequences **out);
void mf_step_sequences_free(mf_step_sequences *q);

/* Whose number it is. */
typedef struct mf_step_sequence {
    mf_server *server;
    int leader; /* a task */
    int64_t key;
    int64_t deadline_ns; /* of a step that begins; 0: none */
} mf_step_sequence;

/* The number of the next step. Asks the leader for the first one, and after a failure. What a step
 * has sent stays in its room until others have fetched it, so that nobody waits for slow members;
 * but a step does not begin before that was done with all but the last one, or whoever only sends
 * would be ahead of them without bound. DEADLINE_EXCEEDED, CANCELLED. */
MF_MUST mf_status mf_step_sequence_begin(const mf_step_sequence *s, mf_cancel *cancel,
                                         int64_t *step);
/* It has ended. After a failure nobody shall fetch of it, but of earlier ones; and a step that
 * begins then does not wait for those, who may be gone. */
void mf_step_sequence_end(const mf_step_sequence *s, int64_t step, bool well);

/* The call GetStepSequence. */
MF_MUST mf_status mf_step_sequence_called(mf_request *r, const ProtobufCMessage *message);

#endif
