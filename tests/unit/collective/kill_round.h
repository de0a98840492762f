/* SPDX-License-Identifier: Apache-2.0 */
/* kill_round.h - processes of a cluster run collectives until one of them is killed or stopped. All
 * others must fail with the name of that process. */
#ifndef MF_TEST_COMM_KILL_ROUND_H
#define MF_TEST_COMM_KILL_ROUND_H

#include "net/net.h"

/* Kinds of groups, 0 to KILL_KINDS - 1: every algorithm over connections, one host, several hosts.
 */
enum { KILL_KINDS = 8 };
const char *kill_kind_name(int kind);

typedef struct kill_round {
    int kind, tasks, victim;
    bool stop; /* SIGSTOP instead of SIGKILL */
    int64_t after_us; /* after all members have started */
    int64_t deadline_ms; /* of each collective */
} kill_round;

/* True: all others failed in time and named the victim. *ms: how long that took. */
bool kill_one(const kill_round *r, double *ms);

#endif
