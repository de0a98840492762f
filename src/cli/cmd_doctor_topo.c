/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor_topo.c - `meshflow doctor topo`: the hardware of this machine and the limits of this
 * process, or a running cluster. */
#include "base/machine_limits.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/text.h"
#include "cli/topo_cluster.h"
#include "cli/topo_devices.h"

#include <hwloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

typedef struct cmd_doctor_topo_machine {
    hwloc_topology_t topology;
    mf_limits limits;
    char host[256];
    const char *model; /* of the processor */
    int64_t memory, available; /* bytes */
    struct rlimit files, locked;
    mf_devices devices;
} cmd_doctor_topo_machine;

/* Caches of the same kind. */
typedef struct cmd_doctor_topo_cache {
    const char *name;
    hwloc_obj_type_t type;
} cmd_doctor_topo_cache;

static const cmd_doctor_topo_cache caches[] = {
    { "L1d", HWLOC_OBJ_L1CACHE },
    { "L2", HWLOC_OBJ_L2CACHE },
    { "L3", HWLOC_OBJ_L3CACHE },
    { "L4", HWLOC_OBJ_L4CACHE },
};

static mf_status cmd_doctor_topo_discover(cmd_doctor_topo_machine *m)
{
    struct sysinfo info;
    hwloc_obj_t package;

    if (hwloc_topology_init(&m->topology) != 0)
        return MF_NOMEM("a topology");
    mf_devices_want(m->topology);
    if (hwloc_topology_load(m->topology) != 0)
        return MF_FAIL(MF_UNAVAILABLE, "hwloc cannot read the machine's topology");
    package = hwloc_get_obj_by_type(m->topology, HWLOC_OBJ_PACKAGE, 0);
    m->model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    if (!m->model)
        m->model = "unknown processor";
    mf_limits_get("", &m->limits);
    (void)gethostname(m->host, sizeof m->host - 1);
    if (sysinfo(&info) == 0) {
        m->memory = (int64_t)info.totalram * info.mem_unit;
        m->available = (int64_t)(info.freeram + info.bufferram) * info.mem_unit;
    }
    (void)getrlimit(RLIMIT_NOFILE, &m->files);
    (void)getrlimit(RLIMIT_MEMLOCK, &m->locked);
    return mf_devices_find(m->topology, "", &m->devices);
}

static int cmd_doctor_topo_count(const cmd_doctor_topo_machine *m, hwloc_obj_type_t type)
{
    const int n = hwloc_get_nbobjs_by_type(m->topology, type);

    return n > 0 ? n : 0;
}

static int64_t cache_bytes(const cmd_doctor_topo_machine *m, hwloc_obj_type_t type)
{
    const struct hwloc_obj *o = hwloc_get_obj_by_type(m->topology, type, 0);

    return o ? (int64_t)o->attr->cache.size : 0;
}

static void cmd_doctor_topo_cores_of(hwloc_const_bitmap_t set, char *text, size_t size)
{
    text[0] = '\0';
    if (set)
        (void)hwloc_bitmap_list_snprintf(text, size, set);
}

/* The cores in the affinity mask. */
static void own_cores(const cmd_doctor_topo_machine *m, char *text, size_t size)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();

    text[0] = '\0';
    if (set && hwloc_get_cpubind(m->topology, set, HWLOC_CPUBIND_PROCESS) == 0)
        cmd_doctor_topo_cores_of(set, text, size);
    hwloc_bitmap_free(set);
}

/* ---- text output ---- */

static void print_limit(mf_buf *out, const char *name, rlim_t value, bool bytes)
{
    mf_buf_printf(out, "  %-14s ", name);
    if (value == RLIM_INFINITY)
        mf_buf_str(out, "no limit");
    else if (bytes)
        mf_cli_put_bytes(out, (int64_t)value);
    else
        mf_buf_printf(out, "%llu", (unsigned long long)value);
    mf_buf_str(out, "\n");
}

static void print_caches(const cmd_doctor_topo_machine *m, mf_buf *out)
{
    const char *comma = "";

    mf_buf_printf(out, "%-16s ", "caches");
    for (int i = 0; i < MF_COUNT(caches); i++) {
        if (cmd_doctor_topo_count(m, caches[i].type) == 0)
            continue;
        mf_buf_printf(out, "%s%d x %s ", comma, cmd_doctor_topo_count(m, caches[i].type),
                      caches[i].name);
        mf_cli_put_bytes(out, cache_bytes(m, caches[i].type));
        comma = ", ";
    }
    mf_buf_str(out, *comma ? "\n" : "unknown\n");
}

static void print_nodes(const cmd_doctor_topo_machine *m, mf_buf *out)
{
    const int n = cmd_doctor_topo_count(m, HWLOC_OBJ_NUMANODE);

    for (int i = 0; i < n; i++) {
        const struct hwloc_obj *o =
            hwloc_get_obj_by_type(m->topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        char cores[256];

        cmd_doctor_topo_cores_of(o->cpuset, cores, sizeof cores);
        mf_buf_printf(out, "NUMA node %-6u ", o->os_index);
        mf_cli_put_bytes(out, (int64_t)o->attr->numanode.local_memory);
        mf_buf_printf(out, ", cores %s\n", cores);
    }
}

static void print_process(const cmd_doctor_topo_machine *m, mf_buf *out)
{
    const mf_limits *l = &m->limits;
    char cores[256];
    const char *why;
    const int threads = mf_default_threads(&why);

    own_cores(m, cores, sizeof cores);
    mf_buf_printf(out, "this process:\n  %-14s %d of %d%s%s\n", "cores", l->allowed, l->online,
                  *cores ? ": " : "", cores);
    if (l->quota > 0)
        mf_buf_printf(out, "  %-14s %.3g cores   (%s)\n", "quota", l->quota, l->quota_from);
    mf_buf_printf(out, "  %-14s %d   (%s)\n  %-14s ", "threads", threads, why, "memory");
    if (l->memory > 0) {
        mf_cli_put_bytes(out, l->memory);
        mf_buf_printf(out, "   (%s)\n", l->memory_from);
    } else {
        mf_buf_str(out, "no limit\n");
    }
    print_limit(out, "open files", m->files.rlim_cur, false);
    print_limit(out, "locked memory", m->locked.rlim_cur, true);
}

static void cmd_doctor_topo_print_text(const cmd_doctor_topo_machine *m, mf_buf *out)
{
    mf_buf_printf(out, "%-16s %s\n", "host", m->host);
    mf_buf_printf(out, "%-16s %s: packages %d, cores %d, hardware threads %d\n", "processor",
                  m->model, cmd_doctor_topo_count(m, HWLOC_OBJ_PACKAGE),
                  cmd_doctor_topo_count(m, HWLOC_OBJ_CORE), cmd_doctor_topo_count(m, HWLOC_OBJ_PU));
    print_caches(m, out);
    mf_buf_printf(out, "%-16s ", "memory");
    mf_cli_put_bytes(out, m->memory);
    mf_buf_str(out, ", free ");
    mf_cli_put_bytes(out, m->available);
    mf_buf_str(out, "\n");
    print_nodes(m, out);
    mf_devices_print(&m->devices, out);
    print_process(m, out);
}

/* ---- JSON output ---- */

static void json_caches(const cmd_doctor_topo_machine *m, mf_buf *out)
{
    const char *comma = "";

    mf_buf_str(out, ",\"caches\":[");
    for (int i = 0; i < MF_COUNT(caches); i++) {
        if (cmd_doctor_topo_count(m, caches[i].type) == 0)
            continue;
        mf_buf_printf(out, "%s{\"name\":\"%s\",\"count\":%d,\"bytes\":%lld}", comma, caches[i].name,
                      cmd_doctor_topo_count(m, caches[i].type),
                      (long long)cache_bytes(m, caches[i].type));
        comma = ",";
    }
    mf_buf_str(out, "]");
}

static void json_nodes(const cmd_doctor_topo_machine *m, mf_buf *out)
{
    const int n = cmd_doctor_topo_count(m, HWLOC_OBJ_NUMANODE);

    mf_buf_str(out, ",\"numa_nodes\":[");
    for (int i = 0; i < n; i++) {
        const struct hwloc_obj *o =
            hwloc_get_obj_by_type(m->topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        char cores[256];

        cmd_doctor_topo_cores_of(o->cpuset, cores, sizeof cores);
        mf_buf_printf(out, "%s{\"node\":%u,\"memory_bytes\":%lld,\"cores\":\"%s\"}",
                      i > 0 ? "," : "", o->os_index, (long long)o->attr->numanode.local_memory,
                      cores);
    }
    mf_buf_str(out, "]");
}

static void json_process(const cmd_doctor_topo_machine *m, mf_buf *out)
{
    const mf_limits *l = &m->limits;
    const char *why;
    const int threads = mf_default_threads(&why);

    mf_buf_printf(out, ",\"process\":{\"cores\":%d,\"threads\":%d,\"threads_from\":\"%s\"",
                  l->allowed, threads, why);
    mf_buf_printf(out, ",\"quota_cores\":%.6g,\"memory_limit_bytes\":%lld,\"open_files\":%lld}",
                  l->quota, (long long)l->memory,
                  m->files.rlim_cur == RLIM_INFINITY ? -1LL : (long long)m->files.rlim_cur);
}

static void cmd_doctor_topo_print_json(const cmd_doctor_topo_machine *m, mf_buf *out)
{
    mf_buf_str(out, "{\"host\":");
    mf_buf_json(out, m->host, strlen(m->host));
    mf_buf_str(out, ",\"processor\":");
    mf_buf_json(out, m->model, strlen(m->model));
    mf_buf_printf(out, ",\"packages\":%d,\"cores\":%d,\"hardware_threads\":%d,",
                  cmd_doctor_topo_count(m, HWLOC_OBJ_PACKAGE),
                  cmd_doctor_topo_count(m, HWLOC_OBJ_CORE), cmd_doctor_topo_count(m, HWLOC_OBJ_PU));
    mf_buf_printf(out, "\"memory_bytes\":%lld,\"free_bytes\":%lld", (long long)m->memory,
                  (long long)m->available);
    json_caches(m, out);
    json_nodes(m, out);
    mf_devices_json(&m->devices, out);
    json_process(m, out);
    mf_buf_str(out, "}\n");
}

static mf_status topo_run(mf_args *args)
{
    cmd_doctor_topo_machine m = { 0 };
    mf_buf text = { 0 };
    mf_status st;

    if (mf_args_has(args, "cluster"))
        return mf_topo_cluster(args);
    if (mf_args_has(args, "dot"))
        return mf_args_wrong(args, "--dot draws a cluster: give --cluster JSON as well");
    st = cmd_doctor_topo_discover(&m);
    if (st == MF_OK && mf_args_has(args, "json"))
        cmd_doctor_topo_print_json(&m, &text);
    else if (st == MF_OK)
        cmd_doctor_topo_print_text(&m, &text);
    if (st == MF_OK)
        st = mf_cli_print(&text);
    mf_devices_deinit(&m.devices);
    if (m.topology)
        hwloc_topology_destroy(m.topology);
    return st;
}

static const mf_option options[] = {
    { .name = "cluster",
      .value = "JSON",
      .help = "show the tasks of this cluster of servers instead of this machine; JSON or a file" },
    { .name = "dot", .help = "print the cluster as a graph for Graphviz" },
    { .name = "tls-dir", .value = "DIR", .help = "certificates, as written by `meshflow cert`" },
    { .name = "insecure-any-peer", .help = "without TLS: accept every answering peer" },
    { .name = "json", .help = "print one JSON object" },
    { 0 },
};

const mf_command mf_command_doctor_topo = {
    .name = "doctor topo",
    .arguments = "",
    .summary = "show the hardware of this machine, or a running cluster",
    .about = "Shows cores, caches, memory, NUMA nodes and devices (accelerators, displays), as "
             "reported by hwloc and the kernel, and the limits of this process: affinity and "
             "cpuset, the quotas of its control group, open files. HWLOC_XMLFILE shows another "
             "machine.\n\nWith --cluster: asks each task of a cluster of `meshflow server` or "
             "TensorFlow's servers for its state.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow doctor topo", "taskset -c 0 meshflow doctor topo --json",
                               "meshflow doctor topo --cluster cluster.json --dot | dot -Tsvg",
                               NULL },
    .run = topo_run,
};
