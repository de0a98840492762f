/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - sessions inside a server share threads and state; see <meshflow/session.h>. */
#ifndef MF_RUNTIME_SESSION_H
#define MF_RUNTIME_SESSION_H

#include "base/cancel.h"
#include "base/pool.h"
#include "graph/resource.h"

#include <meshflow/session.h>

struct mf_exchange;
struct mf_trace;

/* As mf_session_new(), with the caller's pool and resources (NULL: the session's own), which must
 * outlive the session. */
MF_MUST mf_status mf_session_new_shared(const mf_graph *graph, const mf_session_options *options,
                                        mf_pool *pool, mf_resources *resources, mf_session **out);

/* As mf_session_run(); `until` (NULL: none) ends this run alone, with CANCELLED, when it is raised.
 */
MF_MUST mf_status mf_session_run_until(mf_session *session, const mf_run_options *options,
                                       mf_cancel *until, const char *const *feed_names,
                                       const mf_tensor *const *feeds, int n_feeds,
                                       const char *const *fetches, int n_fetches,
                                       const char *const *targets, int n_targets,
                                       mf_tensor **results);

/* From the next run on, shards are exchanged with other workers (NULL: not any more). To be called
 * again when the exchange has other shards than before. The exchange must outlive the session.
 * Thread: while nothing runs. */
void mf_session_set_exchange(mf_session *session, struct mf_exchange *exchange);
/* What runs from now on is noted there (NULL: not any more). Thread: while nothing runs. */
void mf_session_set_trace(mf_session *session, struct mf_trace *trace);

#endif
