/* SPDX-License-Identifier: Apache-2.0 */
/* topo_devices.h - accelerators and displays of a machine, without the libraries of their vendors:
 * the I/O objects of hwloc and of its plugins (CUDA, OpenCL, ROCm, Level Zero, where installed).
 * Where hwloc has no PCI plugin, the devices that the kernel reports. */
#ifndef MF_CLI_TOPO_DEVICES_H
#define MF_CLI_TOPO_DEVICES_H

#include "base/buf.h"

#include <hwloc.h>

typedef struct mf_device {
    char address[32]; /* PCI address: "0000:3b:00.0"; "": none */
    char name[128]; /* "NVIDIA Corporation GA100"; "10de:20b0" if the name is unknown */
    const char *kind; /* "display", "3D controller", "accelerator" */
    char handles[96]; /* names in programs: "cuda0, opencl0d0"; or the driver */
    int64_t memory; /* bytes of device memory; 0: unknown */
    int node; /* nearest NUMA node; -1: none */
} mf_device;

typedef struct mf_devices {
    mf_device *all;
    int n;
} mf_devices;

/* Call before the topology is loaded. */
void mf_devices_want(hwloc_topology_t topology);
/* root: "", or a directory with /sys and /proc, for tests; read if the topology is that of this
 * machine and has no device. Owns: mf_devices_deinit(), also after a failure. */
MF_MUST mf_status mf_devices_find(hwloc_topology_t topology, const char *root, mf_devices *out);
void mf_devices_deinit(mf_devices *d);

void mf_devices_print(const mf_devices *d, mf_buf *out);
/* ,"devices":[...] */
void mf_devices_json(const mf_devices *d, mf_buf *out);

#endif
