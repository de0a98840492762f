/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_run.h - runs calls: graphs by digest, one session for each, created at its first call.
 * Sessions share threads and named state. */
#ifndef MF_DISPATCH_DISPATCH_RUN_H
#define MF_DISPATCH_DISPATCH_RUN_H

#include "dispatch/dispatch_wire.h"

#include <meshflow/dispatch.h>

typedef struct mf_dispatch_call_runner mf_dispatch_call_runner;

/* Uses threads and allow_dirs of the options; borrowed. */
MF_MUST mf_status mf_dispatch_call_runner_new(const mf_dispatch_options *o,
                                              mf_dispatch_call_runner **out);
/* After the last mf_dispatch_call_runner_run(). */
void mf_dispatch_call_runner_free(mf_dispatch_call_runner *r);

/* Adds a GraphDef that later calls may name; it is parsed at the first of them. Thread: any.
 * Copies. */
MF_MUST mf_status mf_dispatch_call_runner_add(mf_dispatch_call_runner *r, const void *graph,
                                              size_t len);
/* Runs an encoded call, and appends the encoded result, which may be a failure, to `result`.
 * Thread: any, several at once.
 * Fails: DATA_LOSS (not a call), RESOURCE_EXHAUSTED (not even enough memory to decode the call, or
 * to encode a failure). */
MF_MUST mf_status mf_dispatch_call_runner_run(mf_dispatch_call_runner *r, const void *call,
                                              size_t len, mf_buf *result);
/* Running and later calls fail with CANCELLED. Returns when no call runs. */
void mf_dispatch_call_runner_stop(mf_dispatch_call_runner *r);

#endif
