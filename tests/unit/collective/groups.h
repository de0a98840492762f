/* SPDX-License-Identifier: Apache-2.0 */
/* groups.h - what every kind of group has to do, told once: the tests of each kind run these. */
#ifndef MF_TEST_COMM_GROUPS_H
#define MF_TEST_COMM_GROUPS_H

#include "collective/group.h"

/* All collectives, many sizes and owners, compared with sums made in one place. Called by every
 * member of the group at once. True: all was as it should be. */
bool test_group_member(mf_group *g);

#endif
