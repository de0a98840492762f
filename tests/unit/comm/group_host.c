/* SPDX-License-Identifier: Apache-2.0 */
/* group_host.c - groups in shared memory over a net, on one host and on several. */
#include "comm/net_private.h"
#include "mf_test.h"
#include "unit/comm/groups.h"
#include "unit/comm/tasks.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int all[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

/* Memory of ours that still has a name. */
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
