/* SPDX-License-Identifier: Apache-2.0 */
/* shares.h - shares of the time of a task, in percent. */
#ifndef MF_CLI_SHARES_H
#define MF_CLI_SHARES_H

#include "observe/status_page.h"

/* Tenths of a percent, 1000 in all; all 0 when no time has passed. */
void mf_time_shares(const int64_t ns[MF_USES], int tenths[MF_USES]);
/* {"compute":93.1,"communication":5.2,"input":1.7,"idle":0.0} */
void mf_time_shares_json(const int64_t ns[MF_USES], mf_buf *out);
/* "93.1 % compute, 5.2 % communication, 1.7 % input, 0.0 % idle" */
void mf_time_shares_text(const int64_t ns[MF_USES], mf_buf *out);

#endif
