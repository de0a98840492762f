/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c - what a task has to compute with, as TensorFlow describes it. */
#include "proto/master.pb-c.h"
#include "server/server.h"

#include <meshflow/version.h>

mf_status mf_server_device(const mf_server *s, mf_arena *arena,
                           struct Tensorflow__DeviceAttributes **out)
{
    Tensorflow__DeviceAttributes *d = MF_ARENA_NEW(arena, Tensorflow__DeviceAttributes);
    Tensorflow__DeviceLocality *near = MF_ARENA_NEW(arena, Tensorflow__DeviceLocality);

    *out = d;
    if (!d || !near)
        return MF_NOMEM("a device");
    tensorflow__device_attributes__init(d);
    tensorflow__device_locality__init(near);
    d->name = (char *)(uintptr_t)mf_server_self(s)->device;
    d->device_type = (char *)(uintptr_t) "CPU";
    d->memory_limit = 256 << 20; /* TensorFlow's own word for "some" */
    d->locality = near;
    d->physical_device_desc = (char *)(uintptr_t) "Meshflow " MESHFLOW_VERSION;
    d->incarnation = s->incarnation;
    d->xla_global_id = -1;
    return MF_OK;
}
