/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.h - one graph on many devices, sharded by named dimensions.
 *
 * The terms are those of Mesh TensorFlow. A *mesh* is an array of devices with named axes:
 * "rows:2;cols:2" has four devices. *Dimensions* of tensors have names (mf_name_dims). *Layout
 * rules* say which dimensions are split along which axes: "batch:rows;hidden:cols". The layout of
 * all other values is inferred. The same graph runs under every layout with the same results; the
 * layout decides which device holds and computes which part, and what is communicated. Random ops
 * without a seed draw one seed that all devices share.
 *
 *     mf_name_dims(g, x, "batch,pixels");
 *     mf_name_dims(g, w, "pixels,hidden");             // a variable's handle
 *     mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = "rows:2;cols:2",
 *                                                .layout = "batch:rows;hidden:cols" }, &session);
 *
 * Sizes need not be multiples: 7 over 3 devices is split into 3, 2 and 2.
 *
 * The dimension "weights" denotes the storage of variables: "batch:rows;weights:rows" splits stored
 * weights and optimizer slots along rows, independent of the layout they are computed with. "slots"
 * denotes the optimizer slots alone, "gradients" the gradients of micro-batches. */
#ifndef MESHFLOW_MESH_H
#define MESHFLOW_MESH_H

#include <meshflow/session.h>
#include <meshflow/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Name the dimensions of a tensor, or of a variable given its handle: "batch,hidden". The layout of
 * a dimension with an empty name is inferred. A dimension whose name is in no rule is not split.
 * Fails (sticky): INVALID_ARGUMENT (the node has several outputs). */
MF_API void mf_name_dims(mf_graph *graph, mf_output tensor, const char *names);

/* With several meshes: assign the node that produces this tensor, or the variable with this handle,
 * to the mesh of this index (from 0). An unassigned node runs on the mesh of the variable it uses,
 * or else of its largest input. */
MF_API void mf_put_on_mesh(mf_graph *graph, mf_output tensor, int mesh);

typedef struct mf_mesh_options {
    const char *mesh; /* "rows:2;cols:2": axes and their sizes; several meshes: "rows:2;cols:2 |
                         rows:3" */
    const char *layout; /* "batch:rows;hidden:cols"; NULL or "": nothing is split */
    bool exact; /* never split a dimension that is summed over: results are bitwise equal to
                   those of one device, at the cost of more communication */
    mf_session_options session;
} mf_mesh_options;

/* When a device worked on a micro-batch. */
typedef struct mf_mesh_interval {
    int64_t micro_batch; /* from 1 */
    int64_t is_back; /* 0: forward; 1: backward; 2: only gradients of weights, which no other
                        device waits for */
    int64_t begin_ns, end_ns; /* since the start of the step */
} mf_mesh_interval;

enum { MF_MESH_INTERVALS = 128 };

/* Statistics of a device since its session began. */
typedef struct mf_mesh_counts {
    int64_t variable_bytes; /* held by variables that have a value */
    int64_t sent_bytes, received_bytes; /* to and from other devices */
    int64_t planned_bytes; /* to be received, as planned: equal to received_bytes unless a run
                              failed */
    int64_t collectives; /* of this device */
    int64_t step_bytes; /* peak memory of the largest run, without variables */
    int64_t planned_step_bytes; /* the same, as planned */
    int64_t mesh; /* with several meshes, the one of this device: the pipeline stage */
    /* The total duration of the runs with the most computation, without the first one, and the part
     * of it in which the device was busy. */
    int64_t run_ns, busy_ns;
    int64_t n_intervals;
    mf_mesh_interval intervals[MF_MESH_INTERVALS]; /* of the last run: the first MF_MESH_INTERVALS
                                          of them, in the order of their ends */
} mf_mesh_counts;

/* A session whose devices are threads of this process. Feeds and fetches are unsharded tensors.
 * Runs are serialised.
 * Fails: INVALID_ARGUMENT (mesh or layout; named dimensions of the graph that contradict each
 * other). */
MF_API MF_MUST mf_status mf_mesh_session_new(const mf_graph *graph, const mf_mesh_options *options,
                                             mf_session **out);
/* Fails: INVALID_ARGUMENT (not a session on a mesh, or no such device in this process). */
MF_API MF_MUST mf_status mf_mesh_session_counts(mf_session *session, int device,
                                                mf_mesh_counts *out);

/* From the next run on, use another mesh of as many devices and another layout: variables keep
 * their values. *bytes (may be NULL): what devices received from others for it. Not during a run.
 * Fails: INVALID_ARGUMENT (impossible layout; nothing changes), FAILED_PRECONDITION (a variable has
 * no value yet). */
MF_API MF_MUST mf_status mf_mesh_session_relayout(mf_session *session,
                                                  const mf_mesh_options *options, int64_t *bytes);

/* The cost of a run for one device, by kind of op; of the run with the most ops so far. */
typedef struct mf_mesh_cost {
    const char *op; /* "MatMul"; "fed" for the feeds */
    int64_t nodes;
    double work; /* computed elements; for a matrix product, its multiplications */
    int64_t made_bytes; /* of all results */
    int64_t received_bytes; /* to move the results to where they are needed */
} mf_mesh_cost;

typedef void mf_mesh_cost_fn(void *ctx, const mf_mesh_cost *cost);
/* each() is called for every kind of op, ordered by received bytes, then by work. The costs are
 * those of the first device of this process; all devices have similar costs. Fails:
 * INVALID_ARGUMENT (not a session on a mesh). */
MF_API MF_MUST mf_status mf_mesh_session_costs(mf_session *session, mf_mesh_cost_fn *each,
                                               void *ctx);

/* Continue a training with the strategy mesh under another mesh and layout of as many devices,
 * after the current step: variables keep their values. The outcome is logged; if the layout is
 * impossible, nothing changes. The request of one worker is enough. Thread: any. Fails:
 * INVALID_ARGUMENT (the text; another strategy). */
MF_API MF_MUST mf_status mf_strategy_mesh_relayout(mf_strategy *strategy, const char *axes,
                                                   const char *layout);

/* For a training with the strategy mesh ("mesh axes='rows:2;cols:2' layout='batch:rows'"): the
 * statistics of all devices, taken when the weights were gathered last. Returns the number of
 * devices and fills in the first `max`. Returns 0 with another strategy, or before the first
 * gathering. */
MF_API int mf_strategy_mesh_counts(const mf_strategy *strategy, mf_mesh_counts *out, int max);
/* What a worker of such a training has read and holds unsharded. */
typedef struct mf_mesh_worker {
    int64_t samples; /* in the batches of all steps */
    int64_t samples_read; /* of these, read by this worker: the samples that its devices use */
    int64_t whole_bytes; /* weights and slots held in its last step besides the shards of its
                            devices: scalars and, where workers may be lost, copies to recover
                            from (mesh_snapshot_steps) */
} mf_mesh_worker;
/* For all workers, by rank, at the same moment. Returns the number of workers and fills in the
 * first `max`. Returns 0 with another strategy, or before the first gathering. */
MF_API int mf_strategy_mesh_workers(const mf_strategy *strategy, mf_mesh_worker *out, int max);
/* As mf_mesh_session_costs(), for a training step while its trainer exists. Fails:
 * FAILED_PRECONDITION (no trainer, or another strategy). */
MF_API MF_MUST mf_status mf_strategy_mesh_costs(const mf_strategy *strategy, mf_mesh_cost_fn *each,
                                                void *ctx);

#ifdef __cplusplus
}
#endif
#endif
