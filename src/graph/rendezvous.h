/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h - passes values of a step between tasks.
 *
 * A graph on several tasks is partitioned into one graph per task, with _Send and _Recv on the
 * edges between them. A key names the edge, both devices, the loop and its iteration; each key is
 * sent once and received once in a step. Collectives also use this interface (collective_op.h). Ops
 * do not know the transport, which the server chooses. */
#ifndef MF_GRAPH_RENDEZVOUS_H
#define MF_GRAPH_RENDEZVOUS_H

#include "graph/collective_op.h"

typedef struct mf_rendezvous mf_rendezvous;

typedef struct mf_rendezvous_kind {
    /* value: NULL if it is dead; a reference to it is taken. is_ref: it is the handle of a
     * variable, which is read when the value is received. Thread: any. */
    mf_status (*send)(mf_rendezvous *r, const char *key, const mf_tensor *value, bool is_ref);
    /* Sets the kernel's output 0 and calls mf_kernel_done(), or mf_kernel_done_dead(), when the
     * value has arrived: immediately or later, from any thread; with CANCELLED if the step is
     * cancelled. */
    void (*recv)(mf_rendezvous *r, const char *key, mf_kernel *k);
    /* Sets output 0, of this shape, to the result of the group for the inputs 0 of its members, and
     * calls mf_kernel_done() like recv(). For groups of several members. */
    void (*collect)(mf_rendezvous *r, mf_collective_op *c, const mf_shape *shape, mf_kernel *k);
} mf_rendezvous_kind;

struct mf_rendezvous {
    const mf_rendezvous_kind *kind;
};

#endif
