/* SPDX-License-Identifier: Apache-2.0 */
/* replica_devices.c - the device of each variable; tests/tf/devices.py compares with TensorFlow. */
#include "graph/graph.h"
#include "mf_test.h"

static mf_graph *variables(void)
{
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    (void)mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[100] name='large'");
    (void)mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[2] name='small'");
    (void)mf_applyf(g, "VariableV2", MF_NO_IN, "dtype=float shape=shape[3] name='third'");
    (void)mf_applyf(g, "NoOp", MF_NO_IN, "name='step'");
    (void)mf_applyf(g, "NoOp", MF_NO_IN, "name='with' _class=['loc:@small']");
    T_OK(mf_graph_status(g));
    return g;
}

static const char *device_of(const mf_graph *g, const char *name)
{
    return mf_graph_find(g, name)->device;
}

MF_TEST(replica_devices_are_assigned_round_robin_or_by_bytes)
{
    mf_graph *turns = variables(), *bytes = variables();

    T_OK(mf_graph_set_devices(turns, &(mf_replica_devices){ .ps_tasks = 2 }));
    T_STREQ(device_of(turns, "large"), "/job:ps/task:0");
    T_STREQ(device_of(turns, "small"), "/job:ps/task:1");
    T_STREQ(device_of(turns, "third"), "/job:ps/task:0");
    T_STREQ(device_of(turns, "step"), "/job:worker");
    T_STREQ(device_of(turns, "with"), "/job:ps/task:1");
    T_OK(mf_graph_set_devices(bytes, &(mf_replica_devices){ .ps_tasks = 2,
                                                            .ps_device = "/job:ps/cpu:0",
                                                            .worker_device = "/job:worker/task:3",
                                                            .by_bytes = true }));
    T_STREQ(device_of(bytes, "large"), "/job:ps/task:0/device:CPU:0");
    T_STREQ(device_of(bytes, "small"), "/job:ps/task:1/device:CPU:0");
    T_STREQ(device_of(bytes, "third"), "/job:ps/task:1/device:CPU:0");
    T_STREQ(device_of(bytes, "step"), "/job:worker/task:3");
    mf_graph_free(turns);
    mf_graph_free(bytes);
}

MF_TEST(replica_devices_are_idempotent)
{
    mf_graph *g = variables();

    T_OK(mf_graph_set_devices(g, &(mf_replica_devices){ .ps_tasks = 3 }));
    (void)mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[] name='more'");
    T_OK(mf_graph_set_devices(g, &(mf_replica_devices){ .ps_tasks = 3 }));
    T_STREQ(device_of(g, "third"), "/job:ps/task:2");
    T_STREQ(device_of(g, "more"), "/job:ps/task:0");
    mf_graph_free(g);
}

MF_TEST(replica_devices_name_the_error)
{
    mf_graph *g = variables();

    T_FAILS(MF_INVALID_ARGUMENT, "'job:' lacks a name",
            mf_graph_set_devices(g, &(mf_replica_devices){ .worker_device = "/job:" }));
    (void)mf_applyf(g, "NoOp", MF_NO_IN, "name='bad' device='/joob:a'");
    T_FAILS(MF_INVALID_ARGUMENT, "node 'bad': device '/joob:a'",
            mf_graph_set_devices(g, &(mf_replica_devices){ .ps_tasks = 1 }));
    mf_graph_free(g);
    g = variables();
    (void)mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[?] name='open'");
    T_OK(mf_graph_status(g));
    T_OK(mf_graph_set_devices(g, &(mf_replica_devices){ .ps_tasks = 1 }));
    T_FAILS(MF_INVALID_ARGUMENT, "cannot place variable 'open' by its bytes",
            mf_graph_set_devices(g, &(mf_replica_devices){ .ps_tasks = 1, .by_bytes = true }));
    (void)mf_applyf(g, "NoOp", MF_NO_IN, "name='lonely' _class=['loc:@nobody']");
    T_FAILS(MF_INVALID_ARGUMENT, "'lonely' is colocated with 'nobody'",
            mf_graph_set_devices(g, &(mf_replica_devices){ .ps_tasks = 1 }));
    mf_graph_free(g);
}
