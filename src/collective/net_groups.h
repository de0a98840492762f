/* SPDX-License-Identifier: Apache-2.0 */
/* net_groups.h - groups of the tasks of a net, by the medium that connects their members. */
#ifndef MF_COLLECTIVE_NET_GROUPS_H
#define MF_COLLECTIVE_NET_GROUPS_H

#include "collective/group.h"
#include "net/net.h"

/* An all-reduce algorithm over connections. One per file. */
typedef struct mf_algorithm {
    const char *name, *about;
    /* Does it support this sum? NULL: always. */
    bool (*fits)(const mf_group *g, const mf_reduce *r);
    mf_status (*all_reduce)(mf_group *g, const mf_reduce *r);
} mf_algorithm;
extern const mf_algorithm *const mf_algorithms[]; /* NULL-terminated */

/* A group over the connections of a net, which must outlive it. members: tasks, ascending,
 * including this one. id: below 2^30, identifies the group; never reused on this net. All members
 * create the group. algorithm NULL: chosen by size; others are for tests and benchmarks. A member
 * that fails in a collective aborts the net, which releases the others. */
MF_MUST mf_status mf_group_net(mf_net *net, const int *members, int n, uint32_t id,
                               const mf_algorithm *algorithm, mf_group **out);
/* The same in shared memory; all members are on this host. Fails on all members or on none. */
MF_MUST mf_status mf_group_host(mf_net *net, const int *members, int n, uint32_t id,
                                mf_group **out);
/* Several members on each of several hosts: shared memory inside each, connections between the
 * first members of the hosts. */
MF_MUST mf_status mf_group_hosts(mf_net *net, const int *members, int n, uint32_t id,
                                 mf_group **out);
/* The best of these for the placement of the members. */
MF_MUST mf_status mf_group_auto(mf_net *net, const int *members, int n, uint32_t id,
                                mf_group **out);

#endif
