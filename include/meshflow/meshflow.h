/* SPDX-License-Identifier: Apache-2.0 */
/* meshflow.h - everything. */
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
