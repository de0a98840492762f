/* SPDX-License-Identifier: Apache-2.0 */
/* group_leader.c - resolution of collective groups: arrival, mismatches, cancellation, restarts. */
#include "tf_server/group_leader.h"

#include "base/clock.h"
#include "base/quota.h"
#include "mf_test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 3 };

/* A member that asks, and its answer. */
typedef struct asking {
    mf_cancel cancel;
    pthread_mutex_t lock;
    bool done;
    mf_status st;
    char error[MF_ERROR_MESSAGE_MAX];
    char names[MEMBERS][100];
    int n, source;
} asking;

static mf_server_tasks tasks;
static mf_group_leader *groups;

static void begin(void)
{
    T_OK(mf_server_tasks_list("{\"worker\": {\"0\": \"a:1\", \"2\": \"b:1\", \"10\": \"c:1\"}}",
                              &tasks));
    T_OK(mf_group_leader_new(&tasks, &groups));
}

static void end(void)
{
    mf_group_leader_free(groups);
    mf_server_tasks_deinit(&tasks);
}

static void device_of(int task, char name[100])
{
    (void)snprintf(name, 100, "/job:worker/replica:0/task:%d/device:CPU:0", task);
}

static void note(asking *a, mf_status st)
{
    pthread_mutex_lock(&a->lock);
    a->st = st;
    if (st != MF_OK)
        (void)snprintf(a->error, sizeof a->error, "%s", mf_error_message());
    a->done = true;
    pthread_mutex_unlock(&a->lock);
}

static bool is_done(asking *a)
{
    bool done;

    pthread_mutex_lock(&a->lock);
    done = a->done;
    pthread_mutex_unlock(&a->lock);
    return done;
}

static void group_answered(void *ctx, mf_status st, ProtobufCMessage *reply)
{
    const Tensorflow__CompleteGroupResponse *r = (const Tensorflow__CompleteGroupResponse *)reply;
    asking *a = ctx;

    for (size_t i = 0; st == MF_OK && i < r->n_device_attributes; i++)
        (void)snprintf(a->names[i], sizeof a->names[i], "%s", r->device_attributes[i]->name);
    a->n = st == MF_OK ? (int)r->n_device_attributes : 0;
    note(a, st);
}

static void instance_answered(void *ctx, mf_status st, ProtobufCMessage *reply)
{
    asking *a = ctx;

    a->source = st == MF_OK ? ((Tensorflow__CompleteInstanceResponse *)reply)->source_rank : -2;
    note(a, st);
}

static asking *asking_new(void)
{
    asking *a = mf_calloc(1, sizeof *a);

    mf_cancel_init(&a->cancel);
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

static mf_status forget(asking *a)
{
    const mf_status st = a->st;

    T_TRUE(is_done(a));
    if (st != MF_OK)
        (void)MF_FAIL(st, "%s", a->error);
    mf_cancel_deinit(&a->cancel);
    pthread_mutex_destroy(&a->lock);
    mf_free(a);
    return st;
}

static asking *join_as(int task, int size, uint64_t incarnation, int64_t timeout_ms,
                       const char *description)
{
    Tensorflow__CompleteGroupRequest q = TENSORFLOW__COMPLETE_GROUP_REQUEST__INIT;
    Tensorflow__DeviceAttributes d = TENSORFLOW__DEVICE_ATTRIBUTES__INIT;
    asking *a = asking_new();
    char name[100];

    device_of(task, name);
    d.name = name;
    d.incarnation = incarnation;
    d.physical_device_desc = (char *)(uintptr_t)description;
    q.group_key = 1;
    q.group_size = size;
    q.device_type = (char *)(uintptr_t) "CPU";
    q.device_attributes = &d;
    mf_group_leader_complete_group(
        groups, &q,
        &(mf_leader_call){ &a->cancel, timeout_ms ? mf_clock_ns() + timeout_ms * 1000000 : 0,
                           group_answered, a });
    return a;
}

static asking *join(int task, int size, uint64_t incarnation, int64_t timeout_ms)
{
    return join_as(task, size, incarnation, timeout_ms, "");
}

static asking *agree(int task, int size, const char *what, mf_dtype type, int64_t rows, bool source)
{
    Tensorflow__CompleteInstanceRequest q = TENSORFLOW__COMPLETE_INSTANCE_REQUEST__INIT;
    Tensorflow__TensorShapeProto shape = TENSORFLOW__TENSOR_SHAPE_PROTO__INIT;
    Tensorflow__TensorShapeProto__Dim dim = TENSORFLOW__TENSOR_SHAPE_PROTO__DIM__INIT, *dims = &dim;
    asking *a = asking_new();
    char name[100];

    device_of(task, name);
    dim.size = rows;
    shape.dim = &dims;
    shape.n_dim = 1;
    q.name = (char *)(uintptr_t)what;
    q.type = strstr(what, "Broadcast") ? 1 : 0;
    q.data_type = (int32_t)type;
    q.shape = &shape;
    q.group_key = 1;
    q.group_size = size;
    q.instance_key = 5;
    q.device_type = (char *)(uintptr_t) "CPU";
    q.device = name;
    q.is_source = source;
    mf_group_leader_complete_instance(groups, &q,
                                      &(mf_leader_call){ &a->cancel, 0, instance_answered, a });
    return a;
}

/* A group of the first n tasks. */
static void meet(int n)
{
    static const int numbers[MEMBERS] = { 0, 2, 10 };
    asking *a[MEMBERS];

    for (int i = 0; i < n; i++)
        a[i] = join(numbers[i], n, 7, 0);
    for (int i = 0; i < n; i++)
        T_OK(forget(a[i]));
}

MF_TEST(server_groups_complete_when_all_members_arrived_in_task_order)
{
    asking *a, *b, *c;

    begin();
    a = join(10, 3, 1, 0);
    b = join(2, 3, 1, 0);
    T_TRUE(!is_done(a) && !is_done(b));
    c = join(0, 3, 1, 0);
    T_EQ(a->n, 3);
    T_STREQ(a->names[0], "/job:worker/replica:0/task:0/device:CPU:0");
    T_STREQ(a->names[1], "/job:worker/replica:0/task:2/device:CPU:0");
    T_STREQ(a->names[2], "/job:worker/replica:0/task:10/device:CPU:0");
    T_OK(forget(a));
    T_OK(forget(b));
    T_OK(forget(c));
    a = join(2, 3, 1, 0); /* again: it is known */
    T_EQ(a->n, 3);
    T_OK(forget(a));
    end();
}

MF_TEST(server_groups_of_different_sizes_fail_and_name_both_members)
{
    asking *a, *b;

    begin();
    a = join(0, 2, 1, 0);
    b = join(2, 3, 1, 0);
    T_FAILS(MF_INVALID_ARGUMENT,
            "group 1: members must agree, but "
            "/job:worker/replica:0/task:2/device:CPU:0 has group_size 3 and "
            "/job:worker/replica:0/task:0/device:CPU:0 has group_size 2",
            forget(b));
    T_FAILS(MF_INVALID_ARGUMENT, "group_size 3", forget(a));
    meet(2); /* it was forgotten */
    T_FAILS(MF_INVALID_ARGUMENT, "'/job:worker/replica:0/task:7/device:CPU:0' is not a device",
            forget(join(7, 2, 1, 0)));
    T_FAILS(MF_INVALID_ARGUMENT, "group_size is 0", forget(join(0, 0, 1, 0)));
    end();
}

MF_TEST(server_groups_do_not_count_cancelled_members)
{
    asking *a, *b, *c;

    begin();
    a = join(0, 2, 1, 0);
    mf_cancel_raise(&a->cancel);
    T_FAILS(MF_CANCELLED, "with 1 of 2 members present: /job:worker/replica:0/task:0/", forget(a));
    b = join(2, 2, 1, 0);
    T_TRUE(!is_done(b));
    c = join(0, 2, 1, 0);
    T_OK(forget(b));
    T_OK(forget(c));
    end();
}

MF_TEST(server_groups_list_the_members_present_at_the_deadline)
{
    asking *a;

    begin();
    a = join(2, 3, 1, 50);
    while (!is_done(a))
        usleep(1000);
    T_FAILS(MF_DEADLINE_EXCEEDED,
            "with 1 of 3 members present: /job:worker/replica:0/task:2/device:CPU:0", forget(a));
    end();
}

MF_TEST(server_groups_are_formed_again_with_a_restarted_member)
{
    asking *a, *b;

    begin();
    meet(2);
    a = join(2, 2, 8, 0); /* another process */
    T_TRUE(!is_done(a));
    b = join(0, 2, 7, 0);
    T_OK(forget(a));
    T_OK(forget(b));
    end();
}

MF_TEST(server_groups_formed_again_end_waits_of_their_collectives)
{
    asking *a, *b, *c;

    begin();
    meet(2);
    a = agree(0, 2, "x: Reduce(Add,Id)", MF_DTYPE_F32, 3, false);
    T_TRUE(!is_done(a));
    b = join(2, 2, 8, 0); /* the other one was restarted before it came */
    T_FAILS(MF_ABORTED, "group 1, instance 5: its group is formed again", forget(a));
    c = join(0, 2, 7, 0);
    T_OK(forget(b));
    T_OK(forget(c));
    a = agree(0, 2, "x: Reduce(Add,Id)", MF_DTYPE_F32, 3, false);
    b = agree(2, 2, "x: Reduce(Add,Id)", MF_DTYPE_F32, 3, false);
    T_OK(forget(a));
    T_OK(forget(b));
    a = join(0, 3, 7, 0); /* what it meant is forgotten with the group */
    T_FAILS(MF_ABORTED, "no group of",
            forget(agree(2, 2, "x: Reduce(Add,Id)", MF_DTYPE_F32, 3, false)));
    mf_cancel_raise(&a->cancel);
    T_TRUE(forget(a) == MF_CANCELLED);
    end();
}

MF_TEST(server_groups_are_kept_when_a_non_member_uses_their_key)
{
    asking *a;

    begin();
    meet(2);
    T_FAILS(MF_INVALID_ARGUMENT, "task:10/device:CPU:0 is not a member", forget(join(10, 2, 1, 0)));
    a = join(0, 2, 7, 0);
    T_EQ(a->n, 2);
    T_OK(forget(a));
    end();
}

MF_TEST(server_groups_charge_member_attributes_as_memory)
{
    enum { LONG = 100000 };
    char *text = mf_calloc(LONG + 1, 1);
    int64_t room;
    asking *a;

    memset(text, 'x', LONG);
    begin();
    room = mf_quota_room();
    a = join_as(0, 2, 1, 0, text);
    T_TRUE(mf_quota_room() <= room - LONG);
    mf_cancel_raise(&a->cancel);
    T_TRUE(forget(a) == MF_CANCELLED);
    T_TRUE(mf_quota_room() > room - LONG);
    end();
    mf_free(text);
}

MF_TEST(server_groups_of_another_size_may_reuse_a_key)
{
    begin();
    meet(2);
    meet(3);
    meet(2);
    end();
}

MF_TEST(server_groups_run_a_collective_when_all_members_agree)
{
    asking *a, *b;

    begin();
    T_FAILS(MF_ABORTED, "there is no group of 2 members",
            forget(agree(0, 2, "x: Reduce(Add,Id)", MF_DTYPE_F32, 3, false)));
    meet(2);
    a = agree(0, 2, "x: Reduce(Add,Id)", MF_DTYPE_F32, 3, false);
    T_TRUE(!is_done(a));
    b = agree(2, 2, "x_1: Reduce(Add,Id)", MF_DTYPE_F32, 3, false);
    T_EQ(a->source, -1);
    T_OK(forget(a));
    T_OK(forget(b));
    /* Afterwards the shape may change, and what it is changes for all. */
    T_OK(forget(agree(2, 2, "x_1: Reduce(Add,Id)", MF_DTYPE_F32, 4, false)));
    a = agree(0, 2, "x: Reduce(Mul,Id)", MF_DTYPE_F32, 3, false);
    T_TRUE(!is_done(a));
    T_OK(forget(agree(2, 2, "x: Reduce(Mul,Id)", MF_DTYPE_F32, 3, false)));
    T_OK(forget(a));
    end();
}

MF_TEST(server_groups_name_members_that_disagree)
{
    static const struct {
        const char *what;
        mf_dtype type;
        int64_t rows;
        const char *error;
    } cases[] = {
        { "y: Reduce(Mul,Id)", MF_DTYPE_F32, 3, "has Reduce(Mul,Id) of float" },
        { "y: Reduce(Add,Id)", MF_DTYPE_F64, 3, "has Reduce(Add,Id) of double" },
        { "y: Reduce(Add,Id)", MF_DTYPE_F32, 4, "has Reduce(Add,Id) of float [4]" },
        { "y: Gather", MF_DTYPE_F32, 3, "has Gather of float" },
    };
    asking *a;

    begin();
    meet(2);
    for (int i = 0; i < MF_COUNT(cases); i++) {
        asking *b;

        a = agree(0, 2, "x: Reduce(Add,Id)", MF_DTYPE_F32, 3, false);
        b = agree(2, 2, cases[i].what, cases[i].type, cases[i].rows, false);
        T_FAILS(MF_INVALID_ARGUMENT, cases[i].error, forget(b));
        T_FAILS(MF_INVALID_ARGUMENT, cases[i].error, forget(a));
    }
    a = agree(0, 2, "x: Reduce(Add,Id)", MF_DTYPE_F32, 3, false);
    T_FAILS(MF_INVALID_ARGUMENT, "77 is not a dtype",
            forget(agree(2, 2, "y: Reduce(Add,Id)", 77, 3, false)));
    T_TRUE(!is_done(a)); /* that was no collective at all */
    mf_cancel_raise(&a->cancel);
    T_FAILS(MF_CANCELLED, "with 1 of 2 members present", forget(a));
    end();
}

MF_TEST(server_groups_find_the_sender_of_a_broadcast)
{
    asking *a, *b;

    begin();
    meet(2);
    a = agree(0, 2, "x: Broadcast(0)", MF_DTYPE_F32, 3, false);
    b = agree(2, 2, "y: Broadcast(1)", MF_DTYPE_F32, 3, true);
    T_EQ(a->source, 1);
    T_OK(forget(a));
    T_OK(forget(b));
    a = agree(0, 2, "x: Broadcast(1)", MF_DTYPE_F32, 3, true); /* now in reverse */
    T_TRUE(!is_done(a));
    b = agree(2, 2, "y: Broadcast(0)", MF_DTYPE_F32, 3, false);
    T_EQ(b->source, 0);
    T_OK(forget(a));
    T_OK(forget(b));
    meet(3);
    meet(2);
    a = agree(0, 2, "x: Broadcast(0)", MF_DTYPE_F32, 3, false);
    b = agree(2, 2, "y: Broadcast(0)", MF_DTYPE_F32, 3, false);
    T_FAILS(MF_INVALID_ARGUMENT, "all 2 members receive", forget(a));
    T_FAILS(MF_INVALID_ARGUMENT, "none sends", forget(b));
    a = agree(0, 2, "x: Broadcast(1)", MF_DTYPE_F32, 3, true);
    b = agree(2, 2, "y: Broadcast(1)", MF_DTYPE_F32, 3, true);
    T_FAILS(MF_INVALID_ARGUMENT, "both", forget(a));
    T_FAILS(MF_INVALID_ARGUMENT, "send", forget(b));
    end();
}
