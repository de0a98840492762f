/* SPDX-License-Identifier: Apache-2.0 */
/* meshflow.h - includes all public headers.
 *
 * Rules for all functions:
 *
 * Options. A zero or NULL field of an options struct selects the default that its comment names.
 *
 * Locale and floating point. A call computes, reads and prints in the C locale and with the default
 * floating-point environment (round to nearest, subnormals kept, no traps), whatever the calling
 * thread and the process have set. On return the thread has its own environment again, exception
 * flags included. The caller's functions that the library calls (hooks, maps, release) run in the
 * library's environment; their changes to it are undone when they return.
 *
 * Misuse. A NULL that is not allowed, an output of another graph, or a call at the wrong time fails
 * with INVALID_ARGUMENT or FAILED_PRECONDITION and a message that names the mistake. A function
 * without a status then does nothing. Use after free is not detected.
 *
 * Threads. Each header says which of its functions may be called concurrently. Threads of the
 * library block all signals, so signal handlers run in the caller's threads. The library installs
 * no signal handlers, and its writes to closed sockets or standard error raise no SIGPIPE.
 *
 * Stack. Reading, compiling and computing need 384 KiB of the calling thread's stack; with less
 * they fail with FAILED_PRECONDITION. Creating tensors, graphs and coordinators needs 64 KiB.
 * Stacks made by the caller (coroutines) are not checked.
 *
 * dlclose(). The library stays loaded, because its threads and those of its plugins may still run.
 *
 * fork(). Once a process has called the library, its children can only exec() or exit: every call
 * in a child fails with FAILED_PRECONDITION, and the functions that free do nothing. */
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
#include <meshflow/numerics.h>
#include <meshflow/server.h>
#include <meshflow/session.h>
#include <meshflow/status.h>
#include <meshflow/strategy.h>
#include <meshflow/tensor.h>
#include <meshflow/train.h>
#include <meshflow/version.h>

#endif
