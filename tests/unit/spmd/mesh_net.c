/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_net.c - values from another process are stored in their rendezvous table or rejected. */
#include "spmd/session/mesh_net.h"

#include "base/clock.h"
#include "unit/net/net_tasks.h"
#include "unit/spmd/mesh_test.h"

typedef struct waiting {
    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t changed;
    bool came;
    int troubles, troubles_then; /* failures now, and when the value arrived */
} waiting;

static void came(void *ctx, mf_status st, const mf_tensor *value)
{
    waiting *w = ctx;

    T_OK(st);
    T_EQ(value->count, 1);
    pthread_mutex_lock(&w->lock);
    w->came = true;
    w->troubles_then = w->troubles;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void trouble(void *ctx)
{
    waiting *w = ctx;

    pthread_mutex_lock(&w->lock);
    w->troubles++;
    pthread_mutex_unlock(&w->lock);
}

/* Checks that the table has no value for the key. */
static void check_empty(mf_rendezvous_tables *rooms, int64_t run, const char *key)
{
    mf_tensor *t = mesh_numbers(&MF_SHAPE(1), 1);
    mf_rendezvous_table *room;

    T_OK(mf_rendezvous_tables_enter(rooms, run, &room));
    T_OK(mf_rendezvous_table_send(room, key, t));
    mf_rendezvous_table_leave(room);
    mf_tensor_free(t);
}

/* Task i has device i. The first task listens. */
static void listen(mf_net *net)
{
    static const int first[] = { 0, 1, 2, 3 };
    waiting w = { 0 };
    mf_cancel never;
    mf_mesh_wire *wire;
    mf_rendezvous_tables *rooms;
    mf_rendezvous_table *room;

    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.changed, NULL);
    mf_cancel_init(&never);
    T_OK(mf_rendezvous_tables_new(&rooms));
    T_OK(mf_mesh_wire_net_new(net, first, 3, 20000000000, &wire));
    wire->kind->open(wire, rooms, trouble, &w);
    T_OK(mf_rendezvous_tables_enter(rooms, 1, &room));
    mf_rendezvous_table_fetch(room, "1>0:7", &never, came, &w);
    pthread_mutex_lock(&w.lock);
    while (!w.came)
        pthread_cond_wait(&w.changed, &w.lock);
    pthread_mutex_unlock(&w.lock);
    check_empty(rooms, 1, "2>0:7"); /* a task cannot send for another task, */
    check_empty(rooms, 1, "1>1:7"); /* nor to a device of another task, */
    check_empty(rooms, 0, "1>0:7"); /* nor for an invalid run */
    check_empty(rooms, -3, "1>0:7");
    mf_rendezvous_table_leave(room);
    wire->kind->close(wire);
    mf_mesh_wire_net_free(wire);
    mf_rendezvous_tables_free(rooms);
    mf_cancel_deinit(&never);
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.changed);
}

static void speak(mf_net *net, uint32_t from, uint32_t to, int64_t run)
{
    const float data = 1;
    const mf_frame f = { .kind = MF_MESSAGE_REQUEST,
                         .flags = MF_DTYPE_F32,
                         .epoch = mf_net_epoch(net),
                         .group = from << 16 | to,
                         .seq = 7,
                         .step = run,
                         .size = sizeof data };

    T_OK(mf_net_send(net, 0, &f, &data, mf_clock_ns() + 20000000000));
}

static bool talk(mf_net *net, void *arg)
{
    (void)arg;
    if (mf_net_self(net) == 0)
        listen(net);
    if (mf_net_self(net) == 1) {
        speak(net, 2, 0, 1);
        speak(net, 1, 1, 1);
        speak(net, 1, 0, 0);
        speak(net, 1, 0, -3);
        speak(net, 1, 0, 1); /* the only valid message */
    }
    return true;
}

MF_TEST(mesh_net_drops_messages_for_other_tasks)
{
    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 3, .run = talk }));
}

/* Task 0 waits for a value of task 1, which probes it and reports its status. */
static void wait_for_one(mf_net *net)
{
    static const int first[] = { 0, 1, 2 };
    const mf_frame ready = { .kind = MF_MESSAGE_REPLY, .epoch = mf_net_epoch(net) };
    waiting w = { 0 };
    mf_cancel never;
    mf_mesh_wire *wire;
    mf_rendezvous_tables *rooms;
    mf_rendezvous_table *room;

    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.changed, NULL);
    mf_cancel_init(&never);
    T_OK(mf_rendezvous_tables_new(&rooms));
    T_OK(mf_mesh_wire_net_new(net, first, 2, 20000000000, &wire));
    wire->kind->open(wire, rooms, trouble, &w);
    T_OK(mf_rendezvous_tables_enter(rooms, 1, &room));
    mf_rendezvous_table_fetch(room, "1>0:7", &never, came, &w);
    T_OK(mf_net_send(net, 1, &ready, NULL, mf_clock_ns() + 20000000000));
    pthread_mutex_lock(&w.lock);
    while (!w.came)
        pthread_cond_wait(&w.changed, &w.lock);
    T_EQ(w.troubles_then, 0);
    pthread_mutex_unlock(&w.lock);
    mf_rendezvous_table_leave(room);
    wire->kind->close(wire);
    mf_mesh_wire_net_free(wire);
    mf_rendezvous_tables_free(rooms);
    mf_cancel_deinit(&never);
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.changed);
}

static bool ask(mf_net *net, void *arg)
{
    const mf_frame ready = { .kind = MF_MESSAGE_REPLY, .epoch = mf_net_epoch(net) };
    static const uint16_t words[] = { MF_MESSAGE_ASK, MF_MESSAGE_STATE };

    (void)arg;
    if (mf_net_self(net) == 0) {
        wait_for_one(net);
        return true;
    }
    T_OK(mf_net_recv(net, 0, &ready, NULL, mf_clock_ns() + 20000000000, "that it listens"));
    for (int i = 0; i < MF_COUNT(words); i++) {
        const mf_frame f = { .kind = words[i], .epoch = mf_net_epoch(net) };

        T_OK(mf_net_send(net, 0, &f, NULL, mf_clock_ns() + 20000000000));
    }
    speak(net, 1, 0, 1);
    return true;
}

MF_TEST(mesh_net_request_is_not_a_failure)
{
    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = ask }));
}
