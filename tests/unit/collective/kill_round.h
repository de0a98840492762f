/* SPDX-License-Identifier: Apache-2.0 */
/* kill_round.h - a cluster of processes that do collectives without end, until one of them is
 * killed or stopped: all others must say so, and whom they miss. */
#ifndef MF_TEST_COMM_KILL_ROUND_H
#define MF_TEST_COMM_KILL_ROUND_H

#include "net/net.h"

/* Kinds of groups, 0 to KILL_KINDS - 1: every algorithm over connections, one host, several. */
enum { KILL_KINDS = 8 };
const char *kill_kind_name(int kind);

typedef struct kill_round {
    int kind, tasks, victim;
    bool stop; /* SIGSTOP instead of SIGKILL */
    int64_t after_us; /* all have begun */
    int64_t deadline_ms; /* of each collective */
} kill_round;

/* True: all others ended in time and named the victim. *ms: how long that took. */
bool kill_one(const kill_round *r, double *ms);

#endif
