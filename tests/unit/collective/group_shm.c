/* SPDX-License-Identifier: Apache-2.0 */
/* group_shm.c - groups in shared memory that connect over a net, on one host and on several. */
#include "base/param.h"
#include "collective/net_groups.h"
#include "mf_test.h"
#include "net/net_private.h"
#include "unit/collective/groups.h"
#include "unit/net/net_tasks.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int all[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

/* Number of shared memory segments of this user that still have a name. */
static int left_behind(void)
{
    DIR *d = opendir("/dev/shm");
    char ours[32];
    int n = 0;

    (void)snprintf(ours, sizeof ours, "meshflow-%d-", (int)getpid());
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        n += strncmp(e->d_name, ours, strlen(ours)) == 0;
    if (d)
        (void)closedir(d);
    return n;
}

static bool run_host(mf_net *net, void *arg)
{
    mf_group *g;
    bool ok = mf_group_host(net, all, net->n_tasks, 1, &g) == MF_OK && test_group_member(g);

    (void)arg;
    mf_group_free(g);
    return ok;
}

MF_TEST(comm_group_on_one_host_gives_the_sums_of_the_tree)
{
    for (int n = 1; n <= 8; n++)
        T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = n, .run = run_host }));
    T_TRUE(test_tasks_as_processes(&(test_tasks){ .n = 4, .run = run_host }));
    T_EQ(left_behind(), 0);
}

static bool run_auto(mf_net *net, void *arg)
{
    const char *kind = arg;
    mf_group *g;
    bool ok = mf_group_auto(net, all, net->n_tasks, 1, &g) == MF_OK &&
              strncmp(g->kind->name, kind, strlen(kind)) == 0 && test_group_member(g);

    mf_group_free(g);
    return ok;
}

MF_TEST(comm_group_of_several_hosts_gives_the_sums_of_the_tree)
{
    for (int n = 3; n <= 8; n++) {
        T_TRUE(test_tasks_as_threads(
            &(test_tasks){ .n = n, .hosts = 2, .run = run_auto, .arg = "shared memory on each" }));
        T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = n,
                                                    .hosts = n / 2 + (n == 3),
                                                    .in_turn = true,
                                                    .run = run_auto,
                                                    .arg = "shared memory on each" }));
    }
    T_TRUE(test_tasks_as_processes(
        &(test_tasks){ .n = 6, .hosts = 3, .run = run_auto, .arg = "shared memory on each" }));
    T_EQ(left_behind(), 0);
}

MF_TEST(comm_group_is_selected_by_placement)
{
    T_TRUE(test_tasks_as_threads(
        &(test_tasks){ .n = 3, .hosts = 3, .run = run_auto, .arg = "connections" }));
    T_TRUE(test_tasks_as_threads(
        &(test_tasks){ .n = 3, .hosts = 1, .run = run_auto, .arg = "shared memory" }));
    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 1, .run = run_auto, .arg = "connections" }));
}

MF_TEST(comm_group_uses_connections_without_shared_memory)
{
    T_OK(mf_param_set("comm_shm_chunk_kib=68719476736"));
    T_TRUE(test_tasks_as_threads(
        &(test_tasks){ .n = 3, .hosts = 1, .run = run_auto, .arg = "connections" }));
    T_TRUE(test_tasks_as_threads(
        &(test_tasks){ .n = 5, .hosts = 2, .run = run_auto, .arg = "connections" }));
    T_EQ(left_behind(), 0);
}
