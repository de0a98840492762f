/* SPDX-License-Identifier: Apache-2.0 */
/* runner.h - the interface between the runner and its assertions; tests include mf_test.h. */
#ifndef MF_RUNNER_H
#define MF_RUNNER_H

/* Called in a test's process: reports that the test cannot run here, and why. */
void mf_runner_report_skip(const char *why);

#endif
