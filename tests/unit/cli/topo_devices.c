/* SPDX-License-Identifier: Apache-2.0 */
/* topo_devices.c - devices from sysfs, for hwloc without its PCI plugin. */
#include "cli/topo_devices.h"

#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static void begin(void)
{
    (void)strcpy(root, "/tmp/meshflow-devices-XXXXXX");
    T_TRUE(mkdtemp(root) != NULL);
}

static void end(void)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -r '%s'", root);
    T_EQ(system(command), 0);
}

static void folders(const char *path)
{
    char at[512];

    for (const char *end = strchr(path + 1, '/');; end = strchr(end + 1, '/')) {
        (void)snprintf(at, sizeof at, "%s%.*s", root, end ? (int)(end - path) : (int)strlen(path),
                       path);
        (void)mkdir(at, 0700);
        if (!end)
            return;
    }
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[512];
    FILE *f;

    folders(folder);
    (void)snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    f = fopen(path, "w");
    T_TRUE(f != NULL);
    T_TRUE(fputs(text, f) >= 0);
    T_EQ(fclose(f), 0);
}

static void put_device(const char *address, const char *class_id, const char *vendor,
                       const char *device, const char *node)
{
    char folder[256];

    (void)snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%s", address);
    put(folder, "class", class_id);
    put(folder, "vendor", vendor);
    put(folder, "device", device);
    put(folder, "numa_node", node);
}

/* A topology without devices, so that sysfs is read. */
static hwloc_topology_t bare(void)
{
    hwloc_topology_t t;

    T_EQ(hwloc_topology_init(&t), 0);
    T_EQ(hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM), 0);
    T_EQ(hwloc_topology_set_synthetic(t, "pu:2"), 0);
    mf_devices_want(t);
    T_EQ(hwloc_topology_load(t), 0);
    return t;
}

MF_TEST(topo_devices_of_the_kernel_are_only_displays_and_accelerators)
{
    hwloc_topology_t t = bare();
    char link[512];
    mf_devices d;

    begin();
    put_device("0000:00:1f.0", "0x060100\n", "0x8086\n", "0x7a04\n", "-1\n");
    put_device("0000:01:00.0", "0x020000\n", "0x8086\n", "0x1533\n", "0\n");
    put_device("0000:03:00.0", "0x030200\n", "0x10de\n", "0x2335\n", "1\n");
    put_device("0000:04:00.0", "0x038000\n", "0x1002\n", "0x740f\n", "0\n");
    put_device("0000:05:00.0", "0x120000\n", "0x1da3\n", "0x1020\n", "-1\n");
    put("/sys/bus/pci/devices/0000:04:00.0", "mem_info_vram_total", "68702699520\n");
    put("/proc/driver/nvidia/gpus/0000:03:00.0", "information",
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 18\n");
    (void)snprintf(link, sizeof link, "%s/sys/bus/pci/devices/0000:03:00.0/driver", root);
    T_EQ(symlink("../../../bus/pci/drivers/nvidia", link), 0);

    T_OK(mf_devices_find(t, root, &d));
    T_EQ(d.n, 3);
    T_STREQ(d.all[0].address, "0000:03:00.0");
    T_STREQ(d.all[0].name, "NVIDIA H200");
    T_STREQ(d.all[0].kind, "3D controller");
    T_STREQ(d.all[0].handles, "nvidia");
    T_EQ(d.all[0].node, 1);
    T_EQ(d.all[0].memory, 0);
    T_STREQ(d.all[1].name, "1002:740f");
    T_STREQ(d.all[1].kind, "display");
    T_EQ(d.all[1].memory, INT64_C(68702699520));
    T_STREQ(d.all[2].kind, "accelerator");
    T_EQ(d.all[2].node, -1);
    mf_devices_deinit(&d);
    hwloc_topology_destroy(t);
    end();
}

MF_TEST(topo_devices_are_empty_without_pci)
{
    hwloc_topology_t t = bare();
    mf_devices d;

    begin();
    T_OK(mf_devices_find(t, root, &d));
    T_EQ(d.n, 0);
    mf_devices_deinit(&d);
    hwloc_topology_destroy(t);
    end();
}
