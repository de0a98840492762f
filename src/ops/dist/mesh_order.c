/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_order.c - ordering on a device of a mesh: pipeline items, reductions. */
#include "graph/op.h"
#include "graph/split.h"

static mf_status turn_run(mf_kernel *k)
{
    (void)k;
    return MF_OK;
}

static mf_status settle_run(mf_kernel *k)
{
    mf_kernel_view(k, 0, 0, &k->in[0]->shape);
    return MF_OK;
}

const mf_op mf_ops_mesh_order[] = {
    /* Separates two pipeline items (spmd/pipeline/pipeline_schedule.c). It is not part of a plan,
     * so no plan spans both items. */
    { .name = "_MeshOrder",
      .def = "() -> () is_stateful",
      .flags = MF_OP_UNPLANNED,
      .infer = mf_infer_none,
      .grad = mf_grad_missing,
      .run = turn_run },
    /* Identity; but a partial sum is reduced before it, not after it. */
    { .name = "_MeshSettle",
      .def = "(x:T) -> (y:T) {T:type}",
      .flags = MF_OP_VIEW,
      .infer = mf_infer_same,
      .grad = mf_grad_missing,
      .run = settle_run,
      .split = mf_split_same,
      .samples = MF_SAMPLES("f32[2,3] !notf", "f32[] !notf", "i64[0] !notf") },
    { 0 },
};
