/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_run.h - running calls: graphs by their digests, a session for each when it is first
 * needed, threads and named state of all of them in common. */
#ifndef MF_DISPATCH_DISPATCH_RUN_H
#define MF_DISPATCH_DISPATCH_RUN_H

#include "dispatch/dispatch_wire.h"

#include <meshflow/dispatch.h>

typedef struct mf_dispatch_call_runner mf_dispatch_call_runner;

/* Of the options, threads and allow_dirs; borrowed. */
MF_MUST mf_status mf_dispatch_call_runner_new(const mf_dispatch_options *o,
                                              mf_dispatch_call_runner **out);
/* After the last mf_dispatch_call_runner_run(). */
void mf_dispatch_call_runner_free(mf_dispatch_call_runner *r);

/* A GraphDef that calls may name from now on; looked at when one does. Thread: any. Copies. */
MF_MUST mf_status mf_dispatch_call_runner_add(mf_dispatch_call_runner *r, const void *graph,
                                              size_t len);
/* Run a call, of which these are the bytes; those of its result, which may be a failure, are
 * appended to `result`. Thread: any, several at once.
 * Fails: DATA_LOSS (this is no call), RESOURCE_EXHAUSTED (even for finding out which call it is, or
 * for an answer). */
MF_MUST mf_status mf_dispatch_call_runner_run(mf_dispatch_call_runner *r, const void *call,
                                              size_t len, mf_buf *result);
/* Calls that run, and all that come, end with CANCELLED. Returns when none runs any more. */
void mf_dispatch_call_runner_stop(mf_dispatch_call_runner *r);

#endif
