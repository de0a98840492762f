/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h - where values of a step change hands between tasks.
 *
 * A graph that lies on several tasks is cut into one for each, with _Send and _Recv where it was
 * cut. A key names the edge, both devices, the loop and its iteration; each is sent once and
 * received once in a step. Members of a group meet here, too (collective_op.h). Ops know nothing
 * else: who is asked over which wire is the server's business. */
#ifndef MF_GRAPH_RENDEZVOUS_H
#define MF_GRAPH_RENDEZVOUS_H

#include "graph/collective_op.h"

typedef struct mf_rendezvous mf_rendezvous;

typedef struct mf_rendezvous_kind {
    /* value: NULL where it is dead; a reference to it is taken. is_ref: it is the handle of a
     * variable, which is read when the value is received. Thread: any. */
    mf_status (*send)(mf_rendezvous *r, const char *key, const mf_tensor *value, bool is_ref);
    /* Sets the kernel's output 0 and calls mf_kernel_done(), or mf_kernel_done_dead(), once it has
     * come: at once or later, from any thread; CANCELLED when the step is. */
    void (*recv)(mf_rendezvous *r, const char *key, mf_kernel *k);
    /* Output 0, of this shape, becomes what a group makes of the inputs 0 of its members, and
     * mf_kernel_done() is called as by recv(). There are several members. */
    void (*collect)(mf_rendezvous *r, mf_collective_op *c, const mf_shape *shape, mf_kernel *k);
} mf_rendezvous_kind;

struct mf_rendezvous {
    const mf_rendezvous_kind *kind;
};

#endif
