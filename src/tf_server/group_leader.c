/* SPDX-License-Identifier: Apache-2.0 */
/* group_leader.c - the leader of collective groups: resolves members and checks that they agree.
 * The barrier of a group has the key "1", that of a collective "1:3". */
#include "tf_server/group_leader.h"

#include "base/clock.h"
#include "graph/collective_op.h"
#include "graph/device_name.h"
#include "proto/tensor_codec.h"
#include "tf_server/group_barrier.h"
#include "tf_server/peer_tasks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 32, TITLE_MAX = 64, WHAT_MAX = 256, LOOK_S = 5 };

struct mf_group_leader {
    mf_group_barriers barriers; /* first */
    const mf_server_tasks *tasks;
};

/* ---- members ---- */

int mf_group_compare(const char *device, const char *other)
{
    mf_device_name a, b;
    int by;

    if (mf_device_name_parse(device, &a) != MF_OK || mf_device_name_parse(other, &b) != MF_OK)
        return strcmp(device, other);
    by = strcmp(a.job, b.job);
    if (by == 0)
        by = (a.replica > b.replica) - (a.replica < b.replica);
    if (by == 0)
        by = (a.task > b.task) - (a.task < b.task);
    if (by == 0)
        by = strcmp(a.type, b.type);
    return by == 0 ? (a.index > b.index) - (a.index < b.index) : by;
}

int mf_group_task(const mf_server_tasks *tasks, const char *device)
{
    mf_device_name name;

    if (mf_device_name_parse(device, &name) != MF_OK || !mf_device_name_is_full(&name))
        return -1;
    return mf_server_tasks_find(tasks, name.job, name.task);
}

static int compare_arrivals(const void *a, const void *b)
{
    return mf_group_compare(((const mf_arrival *)a)->device, ((const mf_arrival *)b)->device);
}

static mf_status check_member(const mf_group_leader *g, const char *title, const char *device,
                              int32_t size)
{
    if (size < 1 || size > MF_GROUP_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: group_size is %d, but must be 1 to %d", title,
                       size, MF_GROUP_MAX);
    if (mf_group_task(g->tasks, device) < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: '%.200s' is not a device of this cluster", title,
                       device);
    return MF_OK;
}

/* ---- groups ---- */

static mf_status complete_group(mf_group_barriers *m, mf_group_barrier *a)
{
    Tensorflow__CompleteGroupResponse *out =
        MF_ARENA_NEW(a->arena, Tensorflow__CompleteGroupResponse);
    const mf_server_tasks *tasks = ((mf_group_leader *)(void *)m)->tasks;

    if (!out)
        return MF_NOMEM("a group");
    tensorflow__complete_group_response__init(out);
    out->device_attributes = MF_ARENA_ARRAY(a->arena, Tensorflow__DeviceAttributes *, a->n);
    out->device_type = mf_arena_strdup(a->arena, "CPU");
    if (!out->device_attributes || !out->device_type)
        return MF_NOMEM("a group");
    qsort(a->all, (size_t)a->n, sizeof *a->all, compare_arrivals);
    for (int i = 0; i < a->n; i++) {
        out->device_attributes[i] = a->all[i].attributes;
        out->num_tasks += i == 0 || mf_group_task(tasks, a->all[i].device) !=
                                        mf_group_task(tasks, a->all[i - 1].device);
    }
    out->n_device_attributes = (size_t)a->n;
    out->group_key = (int32_t)strtol(a->key, NULL, 10);
    out->group_size = a->size;
    a->answer = &out->base;
    return MF_OK;
}

void mf_group_leader_complete_group(mf_group_leader *g, const Tensorflow__CompleteGroupRequest *q,
                                    const mf_leader_call *asks)
{
    char key[KEY_MAX], title[TITLE_MAX], what[WHAT_MAX];
    mf_status st;

    (void)snprintf(key, sizeof key, "%" PRId32, q->group_key);
    (void)snprintf(title, sizeof title, "group %" PRId32, q->group_key);
    (void)snprintf(what, sizeof what, "group_size %" PRId32, q->group_size);
    if (!q->device_attributes)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "%s: a member did not send its device", title);
    else
        st = check_member(g, title, q->device_attributes->name, q->group_size);
    if (st == MF_OK && strcmp(q->device_type, "CPU") != 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT,
                     "%s: %s has the device type '%.30s', but only CPU is "
                     "supported",
                     title, q->device_attributes->name, q->device_type);
    if (st != MF_OK) {
        asks->done(asks->ctx, st, NULL);
        return;
    }
    mf_group_barriers_arrive(
        &g->barriers,
        &(mf_barrier_request){ .key = key,
                               .title = title,
                               .size = q->group_size,
                               .what = what,
                               .detail = "",
                               .who = { .device = q->device_attributes->name,
                                        .incarnation = q->device_attributes->incarnation,
                                        .attributes = q->device_attributes },
                               .complete = complete_group,
                               .cancel = asks->cancel,
                               .deadline_ns = asks->deadline_ns,
                               .done = asks->done,
                               .ctx = asks->ctx });
}

/* ---- collectives ---- */

/* Rank of the sender; -1: not a broadcast. */
static mf_status group_leader_find_source(const mf_group_barrier *a, const mf_group_barrier *group,
                                          bool wanted, int *out)
{
    const mf_arrival *source = NULL;

    *out = -1;
    for (int i = 0; i < a->n; i++) {
        if (!a->all[i].is_source)
            continue;
        if (source)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s: both %s and %s send", a->title, source->device,
                           a->all[i].device);
        source = &a->all[i];
    }
    if (wanted && !source)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: all %d members receive, and none sends", a->title,
                       a->n);
    for (int i = 0; source && i < group->n; i++) {
        if (strcmp(group->all[i].device, source->device) == 0)
            *out = i;
    }
    return MF_OK;
}

/* The barrier of the collective's group: "1" for "1:3". */
static const mf_group_barrier *group_of(const mf_group_barriers *m, const char *key)
{
    char group[KEY_MAX];

    (void)snprintf(group, sizeof group, "%.*s", (int)strcspn(key, ":"), key);
    return mf_group_barriers_find(m, group);
}

static mf_status complete_instance(mf_group_barriers *m, mf_group_barrier *a)
{
    Tensorflow__CompleteInstanceResponse *out =
        MF_ARENA_NEW(a->arena, Tensorflow__CompleteInstanceResponse);
    const mf_group_barrier *group = group_of(m, a->key);
    int source;

    if (!out)
        return MF_NOMEM("a group");
    MF_ASSERT(group); /* collectives end with their group */
    tensorflow__complete_instance_response__init(out);
    MF_TRY(group_leader_find_source(a, group, strncmp(a->what, "Broadcast", 9) == 0, &source));
    out->instance_key = (int32_t)strtol(strchr(a->key, ':') + 1, NULL, 10);
    out->source_rank = source;
    a->answer = &out->base;
    return MF_OK;
}

/* Checks that the member's group is complete here and contains it. */
static mf_status check_group(const mf_group_barriers *m, mf_barrier_request *c)
{
    const mf_group_barrier *group = group_of(m, c->key);
    const mf_arrival *known =
        group && group->size == c->size ? mf_group_barrier_find(group, c->who.device) : NULL;

    if (!known)
        return MF_FAIL(MF_ABORTED,
                       "%s: there is no group of %d members with %.200s here; one of them may "
                       "have been restarted",
                       c->title, c->size, c->who.device);
    c->who.incarnation = known->incarnation;
    return MF_OK;
}

/* The operation in TensorFlow's notation, without the node's name: "Reduce(Add,Div)". */
static const char *words_of(const Tensorflow__CompleteInstanceRequest *q)
{
    const char *at = strrchr(q->name, ':');

    if (q->type == MF_COLLECTIVE_OP_BROADCAST)
        return "Broadcast";
    return at && at[1] == ' ' ? at + 2 : q->name;
}

static mf_status group_leader_describe(const Tensorflow__CompleteInstanceRequest *q,
                                       char what[WHAT_MAX], char detail[MF_SHAPE_TEXT])
{
    static const Tensorflow__TensorShapeProto scalar = TENSORFLOW__TENSOR_SHAPE_PROTO__INIT;
    mf_shape shape;

    if (!mf_dtype_is_valid(q->data_type))
        return MF_FAIL(MF_INVALID_ARGUMENT, "group %d, instance %d: %d is not a dtype",
                       q->group_key, q->instance_key, q->data_type);
    MF_TRY(mf_shape_decode(q->shape ? q->shape : &scalar, &shape));
    (void)snprintf(what, WHAT_MAX, "%.200s of %s", words_of(q),
                   mf_dtype_name((mf_dtype)q->data_type));
    (void)mf_shape_text(&shape, detail);
    return MF_OK;
}

void mf_group_leader_complete_instance(mf_group_leader *g,
                                       const Tensorflow__CompleteInstanceRequest *q,
                                       const mf_leader_call *asks)
{
    char key[KEY_MAX], title[TITLE_MAX], what[WHAT_MAX], detail[MF_SHAPE_TEXT];
    mf_status st;

    (void)snprintf(key, sizeof key, "%" PRId32 ":%" PRId32, q->group_key, q->instance_key);
    (void)snprintf(title, sizeof title, "group %" PRId32 ", instance %" PRId32, q->group_key,
                   q->instance_key);
    st = check_member(g, title, q->device, q->group_size);
    if (st == MF_OK)
        st = group_leader_describe(q, what, detail);
    if (st != MF_OK) {
        asks->done(asks->ctx, st, NULL);
        return;
    }
    mf_group_barriers_arrive(
        &g->barriers,
        &(mf_barrier_request){ .key = key,
                               .title = title,
                               .size = q->group_size,
                               .what = what,
                               .detail = detail,
                               .who = { .device = q->device, .is_source = q->is_source },
                               .admit = check_group,
                               .complete = complete_instance,
                               .cancel = asks->cancel,
                               .deadline_ns = asks->deadline_ns,
                               .done = asks->done,
                               .ctx = asks->ctx });
}

/* ---- restarted members ---- */

typedef struct suspect_check {
    mf_group_leader *groups;
    char key[KEY_MAX];
    char device[MF_DEVICE_NAME_MAX];
    uint64_t incarnation;
} suspect_check;

/* True if a new process answers at this address, or the device no longer exists. */
static bool is_another(const Tensorflow__GetStatusResponse *now, const suspect_check *d)
{
    for (size_t i = 0; i < now->n_device_attributes; i++) {
        if (strcmp(now->device_attributes[i]->name, d->device) == 0)
            return now->device_attributes[i]->incarnation != d->incarnation;
    }
    return now->n_device_attributes > 0;
}

static void on_member_status(void *ctx, mf_status st, ProtobufCMessage *reply)
{
    suspect_check *d = ctx;

    if (st == MF_OK && is_another((const Tensorflow__GetStatusResponse *)reply, d))
        mf_group_barriers_invalidate(&d->groups->barriers, d->key, d->device, d->incarnation);
    mf_free(d);
}

void mf_group_leader_suspect(mf_server *s, int32_t group, const char *device, uint64_t incarnation)
{
    Tensorflow__GetStatusRequest request = TENSORFLOW__GET_STATUS_REQUEST__INIT;
    const mf_rpc_stub_call q = { .method = "/tensorflow.WorkerService/GetStatus",
                                 .message = &request.base,
                                 .reply = &tensorflow__get_status_response__descriptor,
                                 .deadline_ns = mf_clock_ns() + LOOK_S * INT64_C(1000000000) };
    const int task = mf_group_task(&s->tasks, device);
    suspect_check *d = task < 0 ? NULL : mf_calloc(1, sizeof *d);
    mf_rpc_stub *caller;

    if (!d || mf_peer_tasks_caller(s->peers, task, &caller) != MF_OK) {
        mf_free(d);
        return;
    }
    *d = (suspect_check){ .groups = s->groups, .incarnation = incarnation };
    (void)snprintf(d->key, sizeof d->key, "%" PRId32, group);
    (void)snprintf(d->device, sizeof d->device, "%s", device);
    mf_rpc_stub_start(caller, &q, NULL, on_member_status, d);
}

/* ---- the calls ---- */

static void group_leader_answer(void *ctx, mf_status st, ProtobufCMessage *reply)
{
    mf_request *r = ctx;

    mf_request_done(r, st == MF_OK ? mf_request_reply(r, reply) : st);
}

static mf_leader_call group_leader_call_of(mf_request *r)
{
    return (mf_leader_call){ .cancel = &r->cancel,
                             .deadline_ns = r->call->deadline_ns,
                             .done = group_leader_answer,
                             .ctx = r };
}

void mf_group_leader_group_called(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__CompleteGroupRequest *q = (const Tensorflow__CompleteGroupRequest *)message;
    const mf_leader_call asks = group_leader_call_of(r);

    if (q->suspected) {
        mf_group_leader_suspect(r->server, q->group_key, q->suspected->name,
                                q->suspected->incarnation);
        mf_request_done(r, MF_OK);
        return;
    }
    mf_group_leader_complete_group(r->server->groups, q, &asks);
}

void mf_group_leader_instance_called(mf_request *r, const ProtobufCMessage *message)
{
    const mf_leader_call asks = group_leader_call_of(r);

    mf_group_leader_complete_instance(r->server->groups,
                                      (const Tensorflow__CompleteInstanceRequest *)message, &asks);
}

/* ---- opening and closing ---- */

mf_status mf_group_leader_new(const mf_server_tasks *tasks, mf_group_leader **out)
{
    mf_group_leader *g = mf_calloc(1, sizeof *g);

    *out = g;
    if (!g)
        return MF_NOMEM("groups");
    g->tasks = tasks;
    mf_group_barriers_init(&g->barriers);
    return MF_OK;
}

void mf_group_leader_free(mf_group_leader *g)
{
    if (!g)
        return;
    mf_group_barriers_deinit(&g->barriers);
    mf_free(g);
}
