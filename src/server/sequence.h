/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.h - numbers of steps that several masters run together: members of a group find each
 * other by them. A run with collectives has a key, the same at all masters; the steps of a key have
 * numbers one after the other, and the leader of groups says where they begin. Where all members of
 * its groups belong to one master, any number will do. */
#ifndef MF_SERVER_SEQUENCE_H
#define MF_SERVER_SEQUENCE_H

#include "graph/graph.h"
#include "server/server.h"

typedef struct mf_sequences mf_sequences;

MF_MUST mf_status mf_sequences_new(mf_sequences **out);
void mf_sequences_free(mf_sequences *q);

typedef struct mf_collectives {
    int64_t key; /* TensorFlow's: it follows from the keys of all of them; 0: there are none */
    bool is_shared; /* groups have members elsewhere */
} mf_collectives;

/* What a run has of them that lies in these graphs (each may be NULL). */
MF_MUST mf_status mf_collectives_find(mf_graph *const *graphs, int n, mf_collectives *out);

/* Whose number it is. */
typedef struct mf_sequence {
    mf_server *server;
    int leader; /* a task */
    int64_t key;
} mf_sequence;

/* The number of the next step. Asks the leader for the first one, and after a failure. */
MF_MUST mf_status mf_sequence_begin(const mf_sequence *s, mf_cancel *cancel, int64_t *step);
/* It has ended. What others may not have fetched yet of a step that went well stays in its room
 * until the next one has gone well, too: then all are past it. */
void mf_sequence_end(const mf_sequence *s, int64_t step, bool well);

/* The call GetStepSequence. */
MF_MUST mf_status mf_sequence_called(mf_request *r, const ProtobufCMessage *message);

#endif
