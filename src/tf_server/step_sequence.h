/* SPDX-License-Identifier: Apache-2.0 */
/* step_sequence.h - step ids that several masters share: members of a group find each other by
 * them. A run with collectives has a key that is the same at all masters. The steps of a key are
 * numbered consecutively, and the leader of groups determines the first number. If all members of
 * its groups belong to one master, any number works. */
#ifndef MF_TF_SERVER_STEP_SEQUENCE_H
#define MF_TF_SERVER_STEP_SEQUENCE_H

#include "tf_server/server.h"

typedef struct mf_step_sequences mf_step_sequences;

MF_MUST mf_status mf_step_sequences_new(mf_step_sequences **out);
void mf_step_sequences_free(mf_step_sequences *q);

/* The key and its leader. */
typedef struct mf_step_sequence {
    mf_server *server;
    int leader; /* a task */
    int64_t key;
    int64_t deadline_ns; /* of the step; 0: none */
} mf_step_sequence;

/* Returns the number of the next step. Asks the leader for the first one, and after a failure.
 * Values that a step has sent are kept until other members have fetched them, so that no member
 * waits for slow ones; but a step does not begin until all but the last step are fetched, otherwise
 * a member that only sends would run ahead without bound. Fails: DEADLINE_EXCEEDED, CANCELLED. */
MF_MUST mf_status mf_step_sequence_begin(const mf_step_sequence *s, mf_cancel *cancel,
                                         int64_t *step);
/* Ends a step. After a failure, its values can no longer be fetched, those of earlier steps can;
 * and a step that begins then does not wait for earlier fetches, because the members may be gone.
 */
void mf_step_sequence_end(const mf_step_sequence *s, int64_t step, bool well);

/* Handles GetStepSequence. */
MF_MUST mf_status mf_step_sequence_called(mf_request *r, const ProtobufCMessage *message);

#endif
