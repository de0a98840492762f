/* SPDX-License-Identifier: Apache-2.0 */
/* run_stall_report.h - a run has nothing to compute: all that is left waits. After a while one line
 * on standard error says which nodes wait, for which value, and from which task; the board shows
 * the tasks meanwhile (observe/status_page.h). Another line says when the run continues.
 *
 * Waiting is often right: a queue is full, a barrier is not complete. So a process reports one run
 * at a time, and the next one only a while later. */
#ifndef MF_RUNTIME_RUN_STALL_REPORT_H
#define MF_RUNTIME_RUN_STALL_REPORT_H

#include "observe/status_page.h"

struct mf_run_state;

typedef struct mf_run_stall {
    int64_t look_at; /* when to look next */
    int64_t since; /* of the wait that was reported; 0: none was */
    int waits[MF_STATUS_PAGE_WAITS], n_waits; /* on the board */
} mf_run_stall;

void mf_run_stall_begin(mf_run_stall *s);
/* The run lasts. Reports what it waits for if it is time to. With the run's lock, which is released
 * while a line is written. */
void mf_run_stall_look(mf_run_stall *s, struct mf_run_state *run);
/* The run is over. well: not because of an error. */
void mf_run_stall_end(mf_run_stall *s, const struct mf_run_state *run, bool well);

#endif
