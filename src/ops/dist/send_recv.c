/* SPDX-License-Identifier: Apache-2.0 */
/* send_recv.c - the two ends of an edge between tasks. They run on dead inputs, too, to tell the
 * other end.
 *
 * A reference that is sent to another task is read when the value is received. The receiver waits
 * for the inputs of the reading op, the sender does not: it may run before the variable is written.
 * TensorFlow's masters rely on this, because there the sent tensor is the variable's memory. */
#include "graph/rendezvous.h"
#include "graph/resource.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PLACE_MAX = 64 }; /* "frame:iteration" */

/* The key without frame and iteration. */
static mf_status send_recv_prepare(mf_prepare *p)
{
    const char *from = mf_node_string(p->node, "send_device"),
               *to = mf_node_string(p->node, "recv_device"),
               *name = mf_node_string(p->node, "tensor_name");
    const size_t size = strlen(from) + strlen(to) + strlen(name) + 32;
    char *key = MF_ARENA_ARRAY(p->arena, char, (int64_t)size);

    if (!key)
        return MF_NOMEM("an edge between tasks");
    (void)snprintf(key, size, "%s;%016" PRIx64 ";%s;%s;", from,
                   (uint64_t)mf_node_int(p->node, "send_device_incarnation"), to, name);
    p->state = key;
    return MF_OK;
}

static mf_status send_recv_make_key(const mf_kernel *k, mf_buf *key)
{
    char place[PLACE_MAX];

    (void)snprintf(place, sizeof place, "%" PRIu64 ":%" PRId64, k->frame, k->iteration);
    mf_buf_str(key, k->state);
    mf_buf_str(key, place);
    if (!k->step->rendezvous)
        return MF_FAIL(MF_FAILED_PRECONDITION, "this session has no other tasks");
    return mf_buf_finish(key);
}

static bool send_recv_is_ref(const mf_kernel *k)
{
    const mf_output in = k->node->inputs[0];

    return !k->dead && mf_type_is_ref(in.node->out_types[in.port]);
}

/* Between an op and the master's client, the value is read immediately. */
static bool leaves_the_task(const mf_node *n)
{
    return strcmp(mf_node_string(n, "send_device"), mf_node_string(n, "recv_device")) != 0;
}

static mf_status send_recv_send_run(mf_kernel *k)
{
    mf_rendezvous *r = k->step->rendezvous;
    const bool late = send_recv_is_ref(k) && leaves_the_task(k->node);
    mf_tensor value = { 0 };
    mf_buf key = { 0 };
    mf_status st = send_recv_make_key(k, &key);

    if (!k->dead)
        mf_tensor_set(&value, k->in[0]);
    if (st == MF_OK && send_recv_is_ref(k) && !late)
        st = mf_reference_read(&value);
    if (st == MF_OK)
        st = r->kind->send(r, key.data, k->dead ? NULL : &value, late);
    mf_tensor_clear(&value);
    mf_buf_deinit(&key);
    return st;
}

static void recv_start(mf_kernel *k)
{
    mf_rendezvous *r = k->step->rendezvous;
    mf_buf key = { 0 };
    const mf_status st = send_recv_make_key(k, &key);

    if (st == MF_OK)
        r->kind->recv(r, key.data, k);
    else
        mf_kernel_done(k, st);
    mf_buf_deinit(&key);
}

#define EDGE_ATTRS                                                                                 \
    "tensor_name:string, send_device:string, send_device_incarnation:int, recv_device:string, "    \
    "client_terminated:bool=false"

#define SEND(NAME)                                                                                 \
    {                                                                                              \
        .name = NAME, .def = "(tensor:T) -> () {T:type, " EDGE_ATTRS "} is_stateful",              \
        .flags = MF_OP_UNPLANNED | MF_OP_SEES_DEAD | MF_OP_TAKES_REFS, .infer = mf_infer_none,     \
        .grad = mf_grad_missing, .prepare = send_recv_prepare, .run = send_recv_send_run           \
    }

#define RECV(NAME)                                                                                 \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "() -> (tensor:tensor_type) {tensor_type:type, " EDGE_ATTRS "} is_stateful "        \
               "is_distributed_communication",                                                     \
        .flags = MF_OP_UNPLANNED | MF_OP_HEAP | MF_OP_SEES_DEAD, .infer = mf_infer_unknown,        \
        .grad = mf_grad_missing, .prepare = send_recv_prepare, .start = recv_start                 \
    }

const mf_op mf_ops_send_recv[] = {
    SEND("_Send"), SEND("_HostSend"), RECV("_Recv"), RECV("_HostRecv"), { 0 },
};
