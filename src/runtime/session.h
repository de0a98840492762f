/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - sessions inside a server share threads and state; see <meshflow/session.h>. */
#ifndef MF_RUNTIME_SESSION_H
#define MF_RUNTIME_SESSION_H

#include "base/pool.h"
#include "graph/resource.h"

#include <meshflow/session.h>

/* As mf_session_new(), with the caller's pool and resources (NULL: the session's own), which must
 * outlive the session. */
MF_MUST mf_status mf_session_new_shared(const mf_graph *graph, const mf_session_options *options,
                                        mf_pool *pool, mf_resources *resources, mf_session **out);

#endif
