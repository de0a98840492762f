/* SPDX-License-Identifier: Apache-2.0 */
/* run_stall_report.h - reports runs without computation, whose remaining nodes all wait. After a
 * while one line on standard error says which nodes wait, for which value, and from which task; the
 * status page shows the tasks meanwhile (observe/status_page.h). Another line says when the run
 * continues.
 *
 * Waiting is often normal: a queue is full, a barrier is incomplete. A process therefore reports
 * one run at a time, and the next one only a while later. */
#ifndef MF_RUNTIME_RUN_STALL_REPORT_H
#define MF_RUNTIME_RUN_STALL_REPORT_H

#include "observe/status_page.h"

struct mf_run_state;

typedef struct mf_run_stall {
    int64_t next_check_ns; /* time of the next check */
    int64_t since; /* start of the reported wait; 0: none */
    int waits[MF_STATUS_PAGE_WAITS], n_waits; /* on the status page */
} mf_run_stall;

void mf_run_stall_begin(mf_run_stall *s);
/* The run continues to wait. Reports it if it is time to. The caller holds the run's lock, which is
 * released while a line is written. */
void mf_run_stall_check(mf_run_stall *s, struct mf_run_state *run);
/* The run has ended. well: without an error. */
void mf_run_stall_end(mf_run_stall *s, const struct mf_run_state *run, bool well);

#endif
