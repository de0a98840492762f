/* SPDX-License-Identifier: Apache-2.0 */
/* groups.h - the contract of all kinds of groups, as tests that every kind runs. */
#ifndef MF_TEST_COMM_GROUPS_H
#define MF_TEST_COMM_GROUPS_H

#include "collective/group.h"

/* Runs all collectives with many sizes and owners, and compares the results with local sums. All
 * members must call it concurrently. Returns true on success. */
bool test_group_member(mf_group *g);

#endif
