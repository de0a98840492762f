/* SPDX-License-Identifier: Apache-2.0 */
/* machine_limits.c - quotas of control groups, in a copy of the layout of /proc and /sys. */
#include "base/machine_limits.h"

#include "base/file.h"
#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[64];

/* Creates a file and its folders. */
static void put(const char *path, const char *text)
{
    char full[512];

    (void)snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    T_OK(mf_file_write(full, text, strlen(text)));
}

static void begin(const char *groups)
{
    (void)strcpy(root, "/tmp/meshflow-limits-XXXXXX");
    T_TRUE(mkdtemp(root) != NULL);
    put("/proc/self/cgroup", groups);
}

static void end(void)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -r '%s'", root);
    T_EQ(system(command), 0);
}

MF_TEST(base_limits_use_the_lowest_quota_of_all_ancestor_groups)
{
    mf_limits l;

    begin("0::/pod/box\n");
    put("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/pod/box/memory.max", "1048576\n");
    put("/sys/fs/cgroup/pod/memory.max", "max\n");
    mf_limits_get(root, &l);
    T_EQ_F(l.quota, 1.5);
    T_TRUE(strstr(l.quota_from, "/pod/cpu.max") != NULL);
    T_EQ(l.memory, 1048576);
    T_TRUE(l.allowed >= 1 && l.allowed <= l.online);
    end();
}

MF_TEST(base_limits_read_control_groups_version_1)
{
    mf_limits l;

    begin("4:cpu,cpuacct:/a\n5:memory:/a\n1:name=systemd:/x\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    mf_limits_get(root, &l);
    T_EQ_F(l.quota, 0.5);
    T_EQ(l.memory, 0);
    end();
}

MF_TEST(base_limits_that_cannot_be_read_do_not_apply)
{
    mf_limits l;

    begin("nonsense\n0::/../..\n::::\n");
    put("/sys/fs/cgroup/cpu.max", "many of them\n");
    mf_limits_get(root, &l);
    T_EQ_F(l.quota, 0);
    mf_limits_get("/nowhere", &l);
    T_EQ_F(l.quota, 0);
    T_EQ(l.memory, 0);
    end();
}

MF_TEST(base_threads_default_to_the_openmp_setting)
{
    const char *why;

    T_EQ(unsetenv("MESHFLOW_THREADS"), 0);
    T_EQ(setenv("OMP_NUM_THREADS", "3,2", 1), 0);
    T_EQ(mf_default_threads(&why), 3);
    T_STREQ(why, "OMP_NUM_THREADS");
    T_EQ(setenv("OMP_NUM_THREADS", "none", 1), 0);
    T_EQ(mf_default_threads(&why), mf_usable_cores());
}

MF_TEST(base_threads_prefer_meshflow_threads)
{
    const char *why;

    T_EQ(setenv("MESHFLOW_THREADS", "5", 1), 0);
    T_EQ(setenv("OMP_NUM_THREADS", "3", 1), 0);
    T_EQ(mf_default_threads(&why), 5);
    T_STREQ(why, "MESHFLOW_THREADS");
}
