/* SPDX-License-Identifier: Apache-2.0 */
/* group_auto.c - selects the best group for the placement of its members. */
#include "base/log.h"
#include "collective/group_net.h"

#include <string.h>

bool mf_net_same_host(const mf_net *net, int a, int b)
{
    const char *x = net->peers[a].host, *y = net->peers[b].host;

    return a == b || (x && y && strcmp(x, y) == 0);
}

/* Counts pairs of members on one host, among all pairs: none, some or all. */
static mf_status group_auto_make(mf_net *net, const int *members, int n, uint32_t id,
                                 mf_group **out)
{
    int64_t together = 0;

    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            together += mf_net_same_host(net, members[i], members[k]);
    }
    if (together == 0)
        return mf_group_net(net, members, n, id, NULL, out);
    if (together == (int64_t)n * (n - 1) / 2)
        return mf_group_host(net, members, n, id, out);
    return mf_group_hosts(net, members, n, id, out);
}

/* Without shared memory the group works over connections: all members learn of the failure. */
static bool can_fall_back(mf_status st)
{
    return st == MF_FAILED_PRECONDITION || st == MF_RESOURCE_EXHAUSTED || st == MF_NOT_FOUND ||
           st == MF_PERMISSION_DENIED;
}

mf_status mf_group_auto(mf_net *net, const int *members, int n, uint32_t id, mf_group **out)
{
    const mf_status st = group_auto_make(net, members, n, id, out);

    if (!can_fall_back(st))
        return st;
    MF_WARN("%s uses connections instead of shared memory: %s", mf_net_name(net, net->self),
            mf_error_message());
    return mf_group_net(net, members, n, id, NULL, out);
}
