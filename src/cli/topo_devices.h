/* SPDX-License-Identifier: Apache-2.0 */
/* topo_devices.h - accelerators and displays of a machine, as far as they can be seen without their
 * vendors' libraries: hwloc's I/O objects, with what its plugins (CUDA, OpenCL, ROCm, Level Zero,
 * where installed) add to them; and where hwloc has no plugin for PCI, what the kernel shows. */
#ifndef MF_CLI_TOPO_DEVICES_H
#define MF_CLI_TOPO_DEVICES_H

#include "base/buf.h"

#include <hwloc.h>

typedef struct mf_device {
    char address[32]; /* of PCI: "0000:3b:00.0"; "": it has none */
    char name[128]; /* "NVIDIA Corporation GA100"; "10de:20b0" where nobody knows better */
    const char *kind; /* "display", "3D controller", "accelerator" */
    char handles[96]; /* how programs call it: "cuda0, opencl0d0"; or its driver */
    int64_t memory; /* bytes of its own; 0: nobody says */
    int node; /* NUMA, that it is near to; -1: none in particular */
} mf_device;

typedef struct mf_devices {
    mf_device *all;
    int n;
} mf_devices;

/* Before the topology is loaded. */
void mf_devices_want(hwloc_topology_t topology);
/* root: "", or where /sys and /proc are, for tests; used where the topology is this machine's and
 * has no device. Owns: mf_devices_deinit(), also after a failure. */
MF_MUST mf_status mf_devices_find(hwloc_topology_t topology, const char *root, mf_devices *out);
void mf_devices_deinit(mf_devices *d);

void mf_devices_print(const mf_devices *d, mf_buf *out);
/* ,"devices":[...] */
void mf_devices_json(const mf_devices *d, mf_buf *out);

#endif
