/* SPDX-License-Identifier: Apache-2.0 */
/* group_resolver.c - asks the group leader for the members of a collective's group. Two requests to
 * the leader: the members of the group, and whether they agree on the collective. */
#include "tf_server/group_resolver.h"

#include "base/clock.h"
#include "proto/tensor_codec.h"
#include "tf_server/group_leader.h"
#include "tf_server/peer_tasks.h"
#include "tf_server/session_workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct group_resolver_search {
    mf_group_resolver_search s;
    mf_group_resolver *group;
} group_resolver_search;

static void destroy(mf_object *object)
{
    mf_group_resolver *c = (mf_group_resolver *)(void *)object;

    mf_arena_free(c->arena);
    mf_free(c);
}

static const mf_object_type TYPE = { "members of a group", destroy };

static mf_status resolved_group_new(mf_group_resolver **out)
{
    mf_group_resolver *c = mf_calloc(1, sizeof *c);

    *out = NULL;
    if (!c)
        return MF_NOMEM("a group");
    *c = (mf_group_resolver){ .base = { .type = &TYPE, .refs = 1 },
                              .arena = mf_arena_new(),
                              .self = -1 };
    if (!c->arena) {
        mf_object_unref(&c->base);
        return MF_NOMEM("a group");
    }
    *out = c;
    return MF_OK;
}

/* ---- requests ---- */

static void group_resolver_finish(group_resolver_search *f, mf_status st)
{
    char before[200];

    if (st != MF_OK) {
        (void)snprintf(before, sizeof before,
                       "group %d, instance %d, led by %s: ", f->s.collect->group,
                       f->s.collect->instance, f->s.server->tasks.all[f->s.leader].name);
        if (!strstr(mf_error_message(), "group "))
            (void)mf_error_wrap(st, before, "");
        mf_object_unref(f->group ? &f->group->base : NULL);
        f->group = NULL;
    }
    f->s.done(f->s.ctx, st, f->group);
    mf_free(f);
}

static void group_resolver_ask_leader(group_resolver_search *f, const char *method,
                                      const ProtobufCMessage *message,
                                      const ProtobufCMessageDescriptor *reply,
                                      mf_rpc_answer_fn *done)
{
    const mf_rpc_stub_call q = { .method = method,
                                 .message = message,
                                 .reply = reply,
                                 .deadline_ns = f->s.deadline_ns,
                                 .cancel = f->s.cancel };
    mf_rpc_stub *caller;
    const mf_status st = mf_peer_tasks_caller(f->s.server->peers, f->s.leader, &caller);

    if (st == MF_OK)
        mf_rpc_stub_start(caller, &q, NULL, done, f);
    else
        group_resolver_finish(f, st);
}

static bool group_resolver_leads(const group_resolver_search *f)
{
    return f->s.leader == f->s.server->tasks.self;
}

static mf_leader_call group_resolver_call_of(group_resolver_search *f, mf_rpc_answer_fn *done)
{
    return (mf_leader_call){
        .cancel = f->s.cancel, .deadline_ns = f->s.deadline_ns, .done = done, .ctx = f
    };
}

/* ---- CompleteInstance ---- */

static void agreed(void *ctx, mf_status st, ProtobufCMessage *reply)
{
    const Tensorflow__CompleteInstanceResponse *answer =
        (const Tensorflow__CompleteInstanceResponse *)reply;
    group_resolver_search *f = ctx;

    if (st == MF_OK && f->s.collect->kind == MF_COLLECTIVE_OP_BROADCAST) {
        f->group->source = answer->source_rank;
        if (f->group->source < 0 || f->group->source >= f->group->n)
            st = MF_FAIL(MF_INTERNAL, "the leader returned rank %d of %d as the sender",
                         answer->source_rank, f->group->n);
    }
    group_resolver_finish(f, st);
}

static mf_status fill_instance(const group_resolver_search *f, mf_arena *arena,
                               Tensorflow__CompleteInstanceRequest *q)
{
    const mf_collective_op *c = f->s.collect;

    q->name = (char *)(uintptr_t)c->name;
    q->type = (int32_t)c->kind;
    q->data_type = (int32_t)c->dtype;
    q->group_key = c->group;
    q->group_size = c->size;
    q->instance_key = c->instance;
    q->device_type = (char *)(uintptr_t) "CPU";
    q->device = (char *)(uintptr_t)mf_server_self(f->s.server)->device;
    q->is_source = c->is_source;
    q->n_subdiv_offset = (size_t)c->n_offsets;
    q->subdiv_offset = MF_ARENA_ARRAY(arena, int32_t, c->n_offsets + 1);
    if (!q->subdiv_offset)
        return MF_NOMEM("a group");
    for (int64_t i = 0; i < c->n_offsets; i++)
        q->subdiv_offset[i] = (int32_t)c->offsets[i];
    return mf_shape_encode(&f->s.shape, arena, &q->shape);
}

static void ask_instance(group_resolver_search *f)
{
    Tensorflow__CompleteInstanceRequest q = TENSORFLOW__COMPLETE_INSTANCE_REQUEST__INIT;
    const mf_leader_call asks = group_resolver_call_of(f, agreed);
    mf_arena *arena = mf_arena_new();
    mf_status st = arena ? fill_instance(f, arena, &q) : MF_NOMEM("a group");

    if (st != MF_OK)
        group_resolver_finish(f, st);
    else if (group_resolver_leads(f))
        mf_group_leader_complete_instance(f->s.server->groups, &q, &asks);
    else
        group_resolver_ask_leader(f, "/tensorflow.WorkerService/CompleteInstance", &q.base,
                                  &tensorflow__complete_instance_response__descriptor, agreed);
    mf_arena_free(arena);
}

/* ---- CompleteGroup ---- */

static int by_rank(const void *a, const void *b)
{
    return mf_group_compare(((const mf_group_resolver_member *)a)->device,
                            ((const mf_group_resolver_member *)b)->device);
}

static mf_status group_resolver_add_member(const mf_server *server,
                                           const Tensorflow__DeviceAttributes *d,
                                           mf_group_resolver *c)
{
    mf_group_resolver_member *m = &c->members[c->n];

    *m = (mf_group_resolver_member){ .device = mf_arena_strdup(c->arena, d->name),
                                     .incarnation = d->incarnation,
                                     .task = mf_group_task(&server->tasks, d->name) };
    if (!m->device)
        return MF_NOMEM("a group");
    if (m->task < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%.200s' is not a device of this cluster", d->name);
    c->n++;
    return MF_OK;
}

/* Finds this task in the group: it must be there once, with the incarnation of this process. */
static mf_status group_resolver_find_self(const mf_server *server, mf_group_resolver *c)
{
    for (int i = 0; i < c->n; i++) {
        c->task[i] = i == 0 ? 0 : c->task[i - 1] + (c->members[i].task != c->members[i - 1].task);
        if (c->members[i].task != server->tasks.self)
            continue;
        if (c->self >= 0 || strcmp(c->members[i].device, mf_server_self(server)->device) != 0 ||
            c->members[i].incarnation != server->incarnation)
            return MF_FAIL(MF_ABORTED,
                           "the leader still has %s from before its restart; restart the leader, "
                           "too, or use another group_key",
                           c->members[i].device);
        c->self = i;
    }
    return c->self >= 0 ? MF_OK : MF_FAIL(MF_INTERNAL, "the leader's group lacks this task");
}

static mf_status read_members(const group_resolver_search *f,
                              const Tensorflow__CompleteGroupResponse *answer)
{
    const int64_t n = (int64_t)answer->n_device_attributes;
    mf_group_resolver *c = f->group;

    if (n != f->s.collect->size)
        return MF_FAIL(MF_INTERNAL, "the leader returned %lld members instead of %d", (long long)n,
                       f->s.collect->size);
    c->members = MF_ARENA_ARRAY(c->arena, mf_group_resolver_member, n);
    c->task = MF_ARENA_ARRAY(c->arena, int, n);
    if (!c->members || !c->task)
        return MF_NOMEM("a group");
    for (int64_t i = 0; i < n; i++)
        MF_TRY(group_resolver_add_member(f->s.server, answer->device_attributes[i], c));
    qsort(c->members, (size_t)n, sizeof *c->members, by_rank);
    return group_resolver_find_self(f->s.server, c);
}

static void gathered(void *ctx, mf_status st, ProtobufCMessage *reply)
{
    group_resolver_search *f = ctx;

    if (st == MF_OK)
        st = read_members(f, (const Tensorflow__CompleteGroupResponse *)reply);
    if (st == MF_OK)
        ask_instance(f);
    else
        group_resolver_finish(f, st);
}

static mf_status fill_group(const mf_server *s, const mf_collective_op *c, mf_arena *arena,
                            Tensorflow__CompleteGroupRequest *q)
{
    q->group_key = c->group;
    q->group_size = c->size;
    q->device_type = (char *)(uintptr_t) "CPU";
    q->collective_type = (int32_t)c->kind;
    return mf_server_device(s, arena, &q->device_attributes);
}

static void ask_group(group_resolver_search *f)
{
    Tensorflow__CompleteGroupRequest q = TENSORFLOW__COMPLETE_GROUP_REQUEST__INIT;
    const mf_leader_call asks = group_resolver_call_of(f, gathered);
    const mf_status st = fill_group(f->s.server, f->s.collect, f->group->arena, &q);

    if (st != MF_OK)
        group_resolver_finish(f, st);
    else if (group_resolver_leads(f))
        mf_group_leader_complete_group(f->s.server->groups, &q, &asks);
    else
        group_resolver_ask_leader(f, "/tensorflow.WorkerService/CompleteGroup", &q.base,
                                  &tensorflow__complete_group_response__descriptor, gathered);
}

void mf_group_resolver_find(const mf_group_resolver_search *s)
{
    group_resolver_search *f = mf_calloc(1, sizeof *f);
    mf_status st = f ? MF_OK : MF_NOMEM("a group");

    if (st != MF_OK) {
        s->done(s->ctx, st, NULL);
        return;
    }
    f->s = *s;
    st = resolved_group_new(&f->group);
    if (st == MF_OK)
        ask_group(f);
    else
        group_resolver_finish(f, st);
}

void mf_group_resolver_suspect(mf_server *server, int leader, const mf_collective_op *collect,
                               const mf_group_resolver_member *member)
{
    Tensorflow__CompleteGroupRequest q = TENSORFLOW__COMPLETE_GROUP_REQUEST__INIT;
    Tensorflow__DeviceAttributes suspected = TENSORFLOW__DEVICE_ATTRIBUTES__INIT;
    mf_arena *arena = mf_arena_new();

    suspected.name = (char *)(uintptr_t)member->device;
    suspected.incarnation = member->incarnation;
    q.suspected = &suspected;
    if (leader == server->tasks.self)
        mf_group_leader_suspect(server, collect->group, member->device, member->incarnation);
    else if (arena && fill_group(server, collect, arena, &q) == MF_OK)
        mf_server_notify(server, leader, "/tensorflow.WorkerService/CompleteGroup", &q.base,
                         &tensorflow__complete_group_response__descriptor);
    mf_arena_free(arena);
}
