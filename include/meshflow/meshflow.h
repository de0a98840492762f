/* SPDX-License-Identifier: Apache-2.0 */
/* meshflow.h - everything.
 *
 * What holds for all functions:
 *
 * Locale and floating point. A call computes, reads and prints in the C locale and with the default
 * floating-point environment (to nearest, subnormals kept, no traps), whatever the calling thread
 * and the process have set; when it returns, the thread has its own again, exception flags
 * included. Functions of yours that the library calls (hooks, maps, release) run in the library's
 * environment; what they change of it is undone when they return.
 *
 * Mistakes. A NULL where none is allowed, an output of another graph, a call at the wrong time:
 * INVALID_ARGUMENT or FAILED_PRECONDITION, with a message that names it. Functions without a status
 * do nothing then. What was freed must not be used: that cannot be seen.
 *
 * Threads. Each header says which of its functions may be called at once. Threads of the library
 * block the signals of the process, so your handlers run in your threads. The library sets no
 * signal's handler, and what it writes to a closed socket or standard error raises no SIGPIPE.
 *
 * Stack. What reads, compiles or computes needs 384 KiB of the calling thread's stack: with less it
 * fails with FAILED_PRECONDITION. Tensors, graphs and coordinators can be made with 64 KiB. On a
 * stack of your own making (coroutines) nothing is checked.
 *
 * dlclose(). The library stays loaded: threads of its own and of its plugins may still run.
 *
 * fork(). Once a process has called the library, its children can only exec() or exit: every call
 * there fails with FAILED_PRECONDITION, and freeing does nothing. */
#ifndef MESHFLOW_MESHFLOW_H
#define MESHFLOW_MESHFLOW_H

#include <meshflow/coordinator.h>
#include <meshflow/data.h>
#include <meshflow/dispatch.h>
#include <meshflow/graph.h>
#include <meshflow/hooks.h>
#include <meshflow/mesh.h>
#include <meshflow/model.h>
#include <meshflow/monitored.h>
#include <meshflow/server.h>
#include <meshflow/session.h>
#include <meshflow/status.h>
#include <meshflow/strategy.h>
#include <meshflow/tensor.h>
#include <meshflow/train.h>
#include <meshflow/version.h>

#endif
