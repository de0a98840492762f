/* SPDX-License-Identifier: Apache-2.0 */
/* net_groups.h - groups of the tasks of a net, by how their members reach each other. */
#ifndef MF_COLLECTIVE_NET_GROUPS_H
#define MF_COLLECTIVE_NET_GROUPS_H

#include "collective/group.h"
#include "net/net.h"

/* How a sum is made over connections. One per file. */
typedef struct mf_algorithm {
    const char *name, *about;
    /* Can it do this? NULL: always. */
    bool (*fits)(const mf_group *g, const mf_reduce *r);
    mf_status (*all_reduce)(mf_group *g, const mf_reduce *r);
} mf_algorithm;
extern const mf_algorithm *const mf_algorithms[]; /* NULL ends it */

/* A group over the connections of a net, which must outlive it.
 * members: tasks, ascending; one of them is this one. id, below 2^30, tells groups apart; it is not
 * used again on this net. All members make the group. algorithm NULL: chosen by size; another is
 * for tests and benchmarks. A member that fails in a collective gives up on the whole net, so that
 * the others are freed. */
MF_MUST mf_status mf_group_net(mf_net *net, const int *members, int n, uint32_t id,
                               const mf_algorithm *algorithm, mf_group **out);
/* The same in shared memory; all members are on this host. Fails on all members alike. */
MF_MUST mf_status mf_group_host(mf_net *net, const int *members, int n, uint32_t id,
                                mf_group **out);
/* Several members on each of several hosts: shared memory inside of each, connections between the
 * first members of all. */
MF_MUST mf_status mf_group_hosts(mf_net *net, const int *members, int n, uint32_t id,
                                 mf_group **out);
/* Whichever of these is best for where the members are. */
MF_MUST mf_status mf_group_auto(mf_net *net, const int *members, int n, uint32_t id,
                                mf_group **out);

#endif
