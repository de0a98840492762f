/* SPDX-License-Identifier: Apache-2.0 */
/* host_names.c - Slurm's node lists, hostfiles and addresses. */
#include "base/file.h"
#include "cluster/resolve/address.h"
#include "cluster/resolve/resolve.h"
#include "cluster/resolve/resolver.h"
#include "mf_test.h"
#include "unit/cluster/resolve/given.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* "n1 n2:3": hosts with their slots where these are not 1. */
static const char *joined(const mf_hosts *h)
{
    static char text[4096];
    size_t n = 0;

    text[0] = '\0';
    for (int64_t i = 0; i < h->n && n < sizeof text; i++) {
        n +=
            (size_t)snprintf(text + n, sizeof text - n, "%s%s", i > 0 ? " " : "", h->hosts[i].name);
        if (h->hosts[i].slots != 1 && n < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, ":%d", h->hosts[i].slots);
    }
    return text;
}

typedef struct row {
    const char *text, *hosts; /* NULL: a mistake */
} row;

MF_TEST(cluster_node_lists_expand_as_in_slurm)
{
    static const row rows[] = {
        { "n1", "n1" },
        { "n[1-3,7],login", "n1 n2 n3 n7 login" },
        { "n[08-11]", "n08 n09 n10 n11" },
        { "n[1,03-04]x", "n1x n03x n04x" },
        { "r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2" },
        { "a,b.c,d-e", "a b.c d-e" },
        { "n[3-1]", NULL },
        { "n[]", NULL },
        { "n[1", NULL },
        { "n]1[", NULL },
        { "n[1-2[3]]", NULL },
        { "n[a-b]", NULL },
        { "n[1-3", NULL },
        { "n[0-99999999]", NULL },
        { "n[0-9999][0-9999]", NULL },
        { "a,,b", NULL },
        { "a b", NULL },
        { "", NULL },
    };

    for (int i = 0; i < MF_COUNT(rows); i++) {
        mf_cluster *c = mf_cluster_new();
        mf_hosts hosts = { 0 };
        const bool good = mf_nodelist_decode(c, rows[i].text, "LIST", &hosts);

        (void)fprintf(stderr, "# %s\n", rows[i].text);
        T_EQ(good, rows[i].hosts != NULL);
        T_EQ(c->n_mistakes > 0, !good);
        if (good)
            T_STREQ(joined(&hosts), rows[i].hosts);
        mf_free(hosts.hosts);
        mf_cluster_free(c);
    }
}

MF_TEST(cluster_tasks_per_node_are_given_to_nodes_in_order)
{
    static const row rows[] = {
        { "3(x2),2", "a:3 b:3 c:2" },
        { "2(x3)", "a:2 b:2 c:2" },
        { "1,2,3", "a b:2 c:3" },
        { "3(x2)", NULL },
        { "3(x4)", NULL },
        { "3(x0),1", NULL },
        { "3(y2),2", NULL },
        { "", NULL },
        { "1,2,3x", NULL },
        { "99999999999", NULL },
        { "3(x99999999999)", NULL },
    };

    for (int i = 0; i < MF_COUNT(rows); i++) {
        mf_cluster *c = mf_cluster_new();
        mf_hosts hosts = { 0 };
        bool good;

        (void)fprintf(stderr, "# %s\n", rows[i].text);
        T_TRUE(mf_nodelist_decode(c, "a,b,c", "LIST", &hosts));
        good = mf_tasks_per_node_decode(c, rows[i].text, "TASKS", &hosts);
        T_EQ(good, rows[i].hosts != NULL);
        if (good)
            T_STREQ(joined(&hosts), rows[i].hosts);
        mf_free(hosts.hosts);
        mf_cluster_free(c);
    }
}

MF_TEST(cluster_hostfiles_of_all_styles_have_the_same_result)
{
    static const row rows[] = {
        { "a slots=4\nb\n", "a:4 b" },
        { "# all of them\n\n  a:4   # the large one\r\n\tb slots=2 max_slots=4", "a:4 b:2" },
        { "a\na\na\nb\n", "a:3 b" },
        { "10.0.0.1:2\n", "10.0.0.1:2" },
        { "a slots=x\n", NULL },
        { "a slots=0\n", NULL },
        { "a:\n", NULL },
        { "a b\n", NULL },
        { "a/b\n", NULL },
        { "# nothing\n", NULL },
        { "", NULL },
    };

    for (int i = 0; i < MF_COUNT(rows); i++) {
        mf_cluster *c = mf_cluster_new();
        mf_hosts hosts = { 0 };
        const bool good =
            mf_hostfile_decode(c, rows[i].text, strlen(rows[i].text), "hosts", &hosts);

        (void)fprintf(stderr, "# %s\n", rows[i].text);
        T_EQ(good, rows[i].hosts != NULL);
        T_EQ(c->n_mistakes > 0, !good);
        if (good)
            T_STREQ(joined(&hosts), rows[i].hosts);
        mf_free(hosts.hosts);
        mf_cluster_free(c);
    }
}

static const char *hostfile_with(const char *text)
{
    static char path[] = "/tmp/meshflow-hosts-XXXXXX";
    const int fd = mkstemp(path);

    T_TRUE(fd >= 0);
    (void)close(fd);
    T_OK(mf_file_write(path, text, strlen(text)));
    return path;
}

MF_TEST(cluster_a_hostfile_gives_workers_and_ports)
{
    const char *path = hostfile_with("a slots=2\nhere.example.org\n");
    mf_cluster_request request = { GIVEN("MESHFLOW_PORT=3000"), .hostfile = path };
    mf_cluster *c;

    T_OK(mf_cluster_resolve(&request, &c));
    T_STREQ(c->convention, "hostfile");
    T_EQ(c->rank, 2);
    T_EQ(c->size, 3);
    T_STREQ(c->tasks[1].address, "a:3001");
    T_STREQ(c->tasks[2].address, "here.example.org:3000");
    mf_cluster_free(c);

    request.host = "a"; /* it has two slots, so the index is ambiguous */
    T_FAILS(MF_INVALID_ARGUMENT, "which of its 3 tasks", mf_cluster_resolve(&request, &c));
    request.task_index = "1";
    T_OK(mf_cluster_resolve(&request, &c));
    T_EQ(c->rank, 1);
    T_EQ(c->local_rank, 1);
    mf_cluster_free(c);
    (void)unlink(path);
}

MF_TEST(cluster_addresses_keep_host_and_port_apart)
{
    mf_address a;
    mf_address_error error;

    T_TRUE(mf_address_parse("worker-0.ns.svc:2222", &a, &error));
    T_STREQ(a.host, "worker-0.ns.svc");
    T_EQ(a.port, 2222);
    T_TRUE(mf_address_parse("[fe80::1%eth0]:1", &a, &error));
    T_STREQ(a.host, "fe80::1%eth0");
    T_TRUE(!mf_address_parse("[::1]x:1", &a, &error));
    T_TRUE(!mf_address_parse("[]:1", &a, &error));
    T_TRUE(!mf_address_parse(":1", &a, &error));
    T_TRUE(!mf_address_parse("a:1:2", &a, &error));
    T_TRUE(!mf_address_parse("a:99999999999999999999999", &a, &error));
}

MF_TEST(cluster_host_lists_give_the_slots_of_this_host)
{
    static const char list[] = "node1 slots=2\nnode2:3 # the new one\nnode1.example.org\n";
    int slots;

    T_OK(mf_hostfile_slots(list, sizeof list - 1, "the list", "node1", &slots));
    T_EQ(slots, 3);
    T_OK(mf_hostfile_slots(list, sizeof list - 1, "the list", "node2", &slots));
    T_EQ(slots, 3);
    T_OK(mf_hostfile_slots(list, sizeof list - 1, "the list", "node3", &slots));
    T_EQ(slots, 0);
    T_FAILS(MF_INVALID_ARGUMENT, "the list:1",
            mf_hostfile_slots("node1 two", 9, "the list", NULL, &slots));
}
