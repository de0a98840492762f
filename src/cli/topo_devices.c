/* SPDX-License-Identifier: Apache-2.0 */
/* topo_devices.c - accelerators and displays of this machine as hwloc reports them. */
#include "cli/topo_devices.h"

#include "base/mem.h"
#include "cli/text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4096 }; /* limit of devices, for invalid files */

/* The kind of a PCI class of 16 bits; NULL: not of interest. */
static const char *topo_devices_kind_of(unsigned class_id)
{
    if (class_id == 0x0302)
        return "3D controller";
    if (class_id >> 8 == 0x03)
        return "display";
    return class_id >> 8 == 0x12 || class_id == 0x0b40 ? "accelerator" : NULL;
}

static mf_device *topo_devices_add(mf_devices *d)
{
    mf_device *all = d->n < MOST ? mf_realloc(d->all, d->n + 1, sizeof *all) : NULL;

    if (!all)
        return NULL;
    d->all = all;
    all[d->n] = (mf_device){ .kind = "accelerator", .node = -1 };
    return &all[d->n++];
}

/* Appends as much as fits. */
static void topo_devices_append(char *to, size_t size, const char *between, const char *text)
{
    const size_t len = strlen(to);

    (void)snprintf(to + len, size - len, "%s%s", len > 0 ? between : "", text);
}

/* ---- hwloc ---- */

void mf_devices_want(hwloc_topology_t topology)
{
    (void)hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
}

/* In KiB, as all plugins of hwloc report it. */
static int64_t topo_devices_memory_of(hwloc_obj_t o)
{
    static const char *const names[] = { "CUDAGlobalMemorySize", "OpenCLGlobalMemorySize",
                                         "RSMIVRAMSize", "LevelZeroHBMSize", "LevelZeroDDRSize" };

    for (int i = 0; i < MF_COUNT(names); i++) {
        const char *text = hwloc_obj_get_info_by_name(o, names[i]);
        const long long kib = text ? atoll(text) : 0;

        if (kib > 0 && kib < INT64_MAX / 1024)
            return kib * 1024;
    }
    return 0;
}

static bool computes(hwloc_obj_t o)
{
    return o->type == HWLOC_OBJ_OS_DEVICE && (o->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC ||
                                              o->attr->osdev.type == HWLOC_OBJ_OSDEV_GPU);
}

static void add_handle(mf_device *d, hwloc_obj_t o)
{
    const char *model = hwloc_obj_get_info_by_name(o, "GPUModel");

    topo_devices_append(d->handles, sizeof d->handles, ", ", o->name ? o->name : "unnamed");
    if (d->memory == 0)
        d->memory = topo_devices_memory_of(o);
    if (model)
        (void)snprintf(d->name, sizeof d->name, "%s", model);
}

static void topo_devices_place(mf_device *d, hwloc_topology_t topology, hwloc_obj_t o)
{
    const struct hwloc_obj *near = hwloc_get_non_io_ancestor_obj(topology, o);

    if (near && near->nodeset && hwloc_bitmap_weight(near->nodeset) == 1)
        d->node = hwloc_bitmap_first(near->nodeset);
}

static mf_status take_pci(hwloc_topology_t topology, hwloc_obj_t o, mf_devices *out)
{
    const struct hwloc_pcidev_attr_s *pci = &o->attr->pcidev;
    const char *kind = topo_devices_kind_of(pci->class_id);
    const char *vendor = hwloc_obj_get_info_by_name(o, "PCIVendor");
    const char *name = hwloc_obj_get_info_by_name(o, "PCIDevice");
    mf_device *d = kind ? topo_devices_add(out) : NULL;

    if (!d)
        return kind ? MF_NOMEM("devices") : MF_OK;
    d->kind = kind;
    (void)snprintf(d->address, sizeof d->address, "%04x:%02x:%02x.%x", pci->domain, pci->bus,
                   pci->dev, pci->func);
    if (name)
        (void)snprintf(d->name, sizeof d->name, "%s%s%s", vendor ? vendor : "", vendor ? " " : "",
                       name);
    else
        (void)snprintf(d->name, sizeof d->name, "%04x:%04x", pci->vendor_id, pci->device_id);
    topo_devices_place(d, topology, o);
    for (hwloc_obj_t c = o->io_first_child; c; c = c->next_sibling) {
        if (computes(c))
            add_handle(d, c);
    }
    return MF_OK;
}

static mf_status ask_hwloc(hwloc_topology_t topology, mf_devices *out)
{
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(topology, o)) != NULL;)
        MF_TRY(take_pci(topology, o, out));
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(topology, o)) != NULL;) {
        mf_device *d;

        if (!computes(o) || o->parent->type == HWLOC_OBJ_PCI_DEVICE)
            continue;
        d = topo_devices_add(out);
        if (!d)
            return MF_NOMEM("devices");
        topo_devices_place(d, topology, o);
        add_handle(d, o);
        if (!d->name[0])
            (void)snprintf(d->name, sizeof d->name, "%s", o->subtype ? o->subtype : "unknown");
    }
    return MF_OK;
}

/* ---- kernel ---- */

/* The first line of a small file, without the newline; "": there is none. */
static void first_line(const char *root, const char *path, char *text, size_t size)
{
    char file[512];
    FILE *f;

    text[0] = '\0';
    if (snprintf(file, sizeof file, "%s%s", root, path) >= (int)sizeof file)
        return;
    f = fopen(file, "re");
    if (!f)
        return;
    if (!fgets(text, (int)size, f))
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    (void)fclose(f);
}

static void attribute(const char *root, const char *address, const char *name, char *text,
                      size_t size)
{
    char path[320];

    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", address, name);
    first_line(root, path, text, size);
}

/* The NVIDIA driver reports names as "Model: \t NVIDIA H100". */
static void take_model(const char *root, mf_device *d)
{
    char path[128], line[160];
    const char *name;

    (void)snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", d->address);
    first_line(root, path, line, sizeof line);
    if (strncmp(line, "Model:", 6) != 0)
        return;
    name = line + 6 + strspn(line + 6, " \t");
    (void)snprintf(d->name, sizeof d->name, "%.127s", name);
}

static void take_driver(const char *root, mf_device *d)
{
    char path[512], to[256];
    const char *name;
    ssize_t n;

    if (snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/driver", root, d->address) >=
        (int)sizeof path)
        return;
    n = readlink(path, to, sizeof to - 1);
    if (n <= 0)
        return;
    to[n] = '\0';
    name = strrchr(to, '/');
    topo_devices_append(d->handles, sizeof d->handles, ", ", name ? name + 1 : to);
}

static mf_status take_address(const char *root, const char *address, mf_devices *out)
{
    char text[64], vendor[32];
    const char *kind;
    mf_device *d;

    attribute(root, address, "class", text, sizeof text); /* 0x030200, with the interface */
    kind = topo_devices_kind_of((unsigned)(strtoul(text, NULL, 16) >> 8) & 0xffff);
    if (!kind || strlen(address) >= sizeof d->address)
        return MF_OK;
    d = topo_devices_add(out);
    if (!d)
        return MF_NOMEM("devices");
    d->kind = kind;
    (void)snprintf(d->address, sizeof d->address, "%s", address);
    attribute(root, address, "vendor", vendor, sizeof vendor);
    attribute(root, address, "device", text, sizeof text);
    (void)snprintf(d->name, sizeof d->name, "%04lx:%04lx", strtoul(vendor, NULL, 16) & 0xffff,
                   strtoul(text, NULL, 16) & 0xffff);
    take_model(root, d);
    take_driver(root, d);
    attribute(root, address, "numa_node", text, sizeof text);
    d->node = text[0] ? atoi(text) : -1;
    attribute(root, address, "mem_info_vram_total", text, sizeof text); /* of amdgpu, in bytes */
    d->memory = atoll(text) > 0 ? atoll(text) : 0;
    return MF_OK;
}

static mf_status ask_kernel(const char *root, mf_devices *out)
{
    char path[512];
    struct dirent **names = NULL;
    mf_status st = MF_OK;
    int n;

    if (snprintf(path, sizeof path, "%s/sys/bus/pci/devices", root) >= (int)sizeof path)
        return MF_OK;
    n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (st == MF_OK && names[i]->d_name[0] != '.')
            st = take_address(root, names[i]->d_name, out);
        free(names[i]);
    }
    free(names);
    return st;
}

/* ---- both ---- */

mf_status mf_devices_find(hwloc_topology_t topology, const char *root, mf_devices *out)
{
    *out = (mf_devices){ 0 };
    MF_TRY(ask_hwloc(topology, out));
    return out->n == 0 && hwloc_topology_is_thissystem(topology) ? ask_kernel(root, out) : MF_OK;
}

void mf_devices_deinit(mf_devices *d)
{
    mf_free(d->all);
    *d = (mf_devices){ 0 };
}

void mf_devices_print(const mf_devices *d, mf_buf *out)
{
    if (d->n == 0)
        mf_buf_printf(out, "%-16s none found\n", "devices");
    for (int i = 0; i < d->n; i++) {
        const mf_device *x = &d->all[i];

        mf_buf_printf(out, "%-16s %s (%s)", "device", x->name, x->kind);
        mf_buf_str(out, x->memory > 0 ? ", " : "");
        if (x->memory > 0)
            mf_cli_put_bytes(out, x->memory);
        if (x->node >= 0)
            mf_buf_printf(out, ", NUMA node %d", x->node);
        mf_buf_printf(out, "%s%s%s%s\n", x->address[0] ? ", PCI " : "", x->address,
                      x->handles[0] ? ", " : "", x->handles);
    }
}

void mf_devices_json(const mf_devices *d, mf_buf *out)
{
    mf_buf_str(out, ",\"devices\":[");
    for (int i = 0; i < d->n; i++) {
        const mf_device *x = &d->all[i];

        mf_buf_str(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        mf_buf_json(out, x->name, strlen(x->name));
        mf_buf_printf(out, ",\"kind\":\"%s\",\"pci\":", x->kind);
        mf_buf_json(out, x->address, strlen(x->address));
        mf_buf_str(out, ",\"handles\":");
        mf_buf_json(out, x->handles, strlen(x->handles));
        mf_buf_printf(out, ",\"memory_bytes\":%lld,\"numa_node\":%d}", (long long)x->memory,
                      x->node);
    }
    mf_buf_str(out, "]");
}
