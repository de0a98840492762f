/* SPDX-License-Identifier: Apache-2.0 */
/* step_rendezvous.c - the rendezvous of a step on a task: local values from its table, values of
 * other tasks by RecvTensor. */
#include "tf_server/step_rendezvous.h"

#include "base/clock.h"
#include "graph/device_name.h"
#include "proto/tensor_message.h"
#include "proto/worker.pb-c.h"
#include "tf_server/peer_tasks.h"
#include "tf_server/task_collective.h"

#include <stdio.h>
#include <string.h>

enum { VALUE_MAX = INT32_MAX }; /* bytes of one */

static mf_status step_rendezvous_send(mf_rendezvous *r, const char *key, const mf_tensor *value,
                                      bool is_ref)
{
    mf_rendezvous_table *table = ((mf_step_rendezvous *)r)->table;

    return is_ref && value ? mf_rendezvous_table_send_ref(table, key, value)
                           : mf_rendezvous_table_send(table, key, value);
}

static void step_rendezvous_give(mf_kernel *k, mf_status st, const mf_tensor *value)
{
    if (st == MF_OK && value && value->dtype != mf_type_base(k->node->out_types[0]))
        st = MF_FAIL(MF_INVALID_ARGUMENT, "received %s instead of %s", mf_dtype_name(value->dtype),
                     mf_dtype_name(k->node->out_types[0]));
    if (st == MF_OK && !value) {
        mf_kernel_done_dead(k);
        return;
    }
    if (st == MF_OK)
        mf_kernel_set(k, 0, value);
    mf_kernel_done(k, st);
}

static void step_rendezvous_fetched(void *ctx, mf_status st, const mf_tensor *value)
{
    step_rendezvous_give(ctx, st, value);
}

/* Names the task that does not answer. Errors of another task name it already. */
static mf_status name_source(const mf_kernel *k, mf_status st)
{
    char before[MF_DEVICE_NAME_MAX + 2];

    (void)snprintf(before, sizeof before, "%.190s: ", mf_node_string(k->node, "send_device"));
    return strncmp(mf_error_message(), "From ", 5) == 0 ? st : mf_error_wrap(st, before, "");
}

static void step_rendezvous_received(void *ctx, mf_status st, mf_iovec *parts, int n)
{
    mf_tensor value = { 0 };
    bool dead = false;

    if (st == MF_OK)
        st = mf_tensor_message_read(parts, n, VALUE_MAX, &value, &dead);
    if (st != MF_OK)
        st = name_source(ctx, st);
    step_rendezvous_give(ctx, st, dead ? NULL : &value);
    mf_tensor_clear(&value);
}

static void step_rendezvous_ask(const mf_step_rendezvous *m, int task, const char *key,
                                mf_kernel *k)
{
    Tensorflow__RecvTensorRequest request = TENSORFLOW__RECV_TENSOR_REQUEST__INIT;
    const mf_rpc_stub_call q = { .method = "/tensorflow.WorkerService/RecvTensor",
                                 .message = &request.base,
                                 .cancel = k->step->cancel };
    mf_rpc_stub *caller;
    const mf_status st = mf_peer_tasks_caller(m->server->peers, task, &caller);

    if (st != MF_OK) {
        mf_kernel_done(k, st);
        return;
    }
    request.step_id = m->step;
    request.rendezvous_key = (char *)(uintptr_t)key;
    request.request_id = (int64_t)(mf_random_seed() | 1);
    mf_rpc_stub_start_parts(caller, &q, step_rendezvous_received, k);
}

/* The source task is the part before the first ';'. */
static mf_status step_rendezvous_find_source(const mf_server *s, const char *key, int *task)
{
    const size_t n = strcspn(key, ";");
    char text[MF_DEVICE_NAME_MAX];
    mf_device_name from;

    *task = -1;
    if (n < sizeof text) {
        memcpy(text, key, n);
        text[n] = '\0';
        MF_TRY(mf_device_name_parse(text, &from));
        *task = mf_server_tasks_find(&s->tasks, from.job, from.task);
    }
    if (*task < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the cluster has no task '%.*s'", (int)n, key);
    return MF_OK;
}

static void step_rendezvous_recv(mf_rendezvous *r, const char *key, mf_kernel *k)
{
    const mf_step_rendezvous *m = (const mf_step_rendezvous *)r;
    const mf_server *s = m->server;
    int task;
    const mf_status st = step_rendezvous_find_source(s, key, &task);

    if (st != MF_OK)
        mf_kernel_done(k, st);
    else if (task == s->tasks.self)
        mf_rendezvous_table_fetch(m->table, key, k->step->cancel, step_rendezvous_fetched, k);
    else
        step_rendezvous_ask(m, task, key, k);
}

static void step_rendezvous_collect(mf_rendezvous *r, mf_collective_op *c, const mf_shape *shape,
                                    mf_kernel *k)
{
    mf_collective_start((const mf_step_rendezvous *)r, c, shape, k);
}

static const mf_rendezvous_kind KIND = { step_rendezvous_send, step_rendezvous_recv,
                                         step_rendezvous_collect };

mf_status mf_step_rendezvous_begin(mf_step_rendezvous *m, mf_server *server, int64_t step)
{
    *m = (mf_step_rendezvous){ .base.kind = &KIND, .server = server, .step = step };
    return mf_rendezvous_tables_enter(server->tables, step, &m->table);
}

void mf_step_rendezvous_end(mf_step_rendezvous *m, mf_status status)
{
    mf_error why;

    mf_error_save(status, &why);
    if (status != MF_OK)
        mf_rendezvous_table_fail(m->table, status);
    mf_rendezvous_table_leave(m->table);
    (void)mf_error_restore(&why);
}
