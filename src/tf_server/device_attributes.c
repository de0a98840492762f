/* SPDX-License-Identifier: Apache-2.0 */
/* device_attributes.c - the devices of a task, as TensorFlow describes them. */
#include "proto/master.pb-c.h"
#include "tf_server/server.h"

#include <meshflow/version.h>

mf_status mf_server_device(const mf_server *s, mf_arena *arena,
                           struct Tensorflow__DeviceAttributes **out)
{
    Tensorflow__DeviceAttributes *d = MF_ARENA_NEW(arena, Tensorflow__DeviceAttributes);
    Tensorflow__DeviceLocality *uds = MF_ARENA_NEW(arena, Tensorflow__DeviceLocality);

    *out = d;
    if (!d || !uds)
        return MF_NOMEM("a device");
    tensorflow__device_attributes__init(d);
    tensorflow__device_locality__init(uds);
    d->name = (char *)(uintptr_t)mf_server_self(s)->device;
    d->device_type = (char *)(uintptr_t) "CPU";
    d->memory_limit = 256 << 20; /* TensorFlow's placeholder value */
    d->locality = uds;
    d->physical_device_desc = (char *)(uintptr_t) "Meshflow " MESHFLOW_VERSION;
    d->incarnation = s->incarnation;
    d->xla_global_id = -1;
    return MF_OK;
}

mf_status mf_server_leader(const mf_server *s, const struct Tensorflow__ConfigProto *config,
                           int *out)
{
    const char *name =
        config && config->experimental ? config->experimental->collective_group_leader : "";
    mf_device_name leader;

    *out = 0;
    if (name[0] == '\0')
        return MF_OK;
    MF_TRY(mf_device_name_parse(name, &leader));
    *out = mf_server_tasks_find(&s->tasks, leader.job, leader.task);
    if (*out < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "collective_group_leader is '%.200s', which is not a task of this cluster",
                       name);
    return MF_OK;
}
