/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.h - one graph on many processors, by names.
 *
 * The words are Mesh TensorFlow's. A *mesh* is an array of processors with named axes:
 * "rows:2;cols:2" are four. The *dimensions* of some tensors have names (mf_name_dims). *Layout
 * rules* say which dimensions are cut along which axes: "batch:rows;hidden:cols". What has no name
 * follows from what has. The same graph runs under every layout and gives the same results; the
 * layout decides who holds and computes what, and what travels. Random ops without a seed draw one
 * that is the same for all processors.
 *
 *     mf_name_dims(g, x, "batch,pixels");
 *     mf_name_dims(g, w, "pixels,hidden");             // a variable's handle
 *     mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = "rows:2;cols:2",
 *                                                .layout = "batch:rows;hidden:cols" }, &session);
 *
 * Sizes need not be multiples: 7 over 3 processors are 3, 2 and 2.
 *
 * The dimension "weights" stands for variables as such: "batch:rows;weights:rows" cuts what is
 * stored (weights and what the optimizer keeps) along rows, whatever is computed with it. "slots"
 * stands for what the optimizer keeps alone, "gradients" for gradients of micro-batches. */
#ifndef MESHFLOW_MESH_H
#define MESHFLOW_MESH_H

#include <meshflow/session.h>
#include <meshflow/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Name the dimensions of a tensor, or of a variable whose handle it is: "batch,hidden"; an empty
 * name leaves the dimension to what follows from others. A dimension whose name no rule has is not
 * cut. Fails (sticky): INVALID_ARGUMENT (the node has several outputs). */
MF_API void mf_name_dims(mf_graph *graph, mf_output tensor, const char *names);

/* Of several meshes, the node that makes this tensor, or the variable whose handle it is, belongs
 * to this one, 0 being the first. What was not put anywhere is where the variable is that it works
 * on, or where the largest of what it needs is. */
MF_API void mf_put_on_mesh(mf_graph *graph, mf_output tensor, int mesh);

typedef struct mf_mesh_options {
    const char *mesh; /* "rows:2;cols:2": axes and their sizes; several: "rows:2;cols:2 | rows:3" */
    const char *layout; /* "batch:rows;hidden:cols"; NULL or "": nothing is cut */
    bool exact; /* no dimension that is summed over is cut: the bits of one processor, for more
                   bytes */
    mf_session_options session;
} mf_mesh_options;

/* When a processor was at a micro-batch. */
typedef struct mf_mesh_turn {
    int64_t micro_batch; /* from 1 */
    int64_t is_back; /* 1: backwards; 2: only gradients of weights, which nobody waits for */
    int64_t begin_ns, end_ns; /* since the step began */
} mf_mesh_turn;

enum { MF_MESH_TURNS = 128 };

/* What a processor has done since its session began. */
typedef struct mf_mesh_counts {
    int64_t variable_bytes; /* held: of all variables that have a value */
    int64_t sent_bytes, received_bytes; /* to and from other processors */
    int64_t planned_bytes; /* to be received, by what was planned: the same, unless a run failed */
    int64_t collectives; /* that it took part in */
    int64_t step_bytes; /* memory that the largest run has held at most, besides variables */
    int64_t planned_step_bytes; /* the same, as it was planned */
    int64_t mesh; /* of several, the one it belongs to: a pipeline's stage */
    /* Of the runs that compute most, but for the first: how long they took, and how much of that it
     * was at work. */
    int64_t run_ns, busy_ns;
    int64_t n_turns;
    mf_mesh_turn turns[MF_MESH_TURNS]; /* of the last one: the first of them, as they ended */
} mf_mesh_counts;

/* A session whose processors are threads of this process. Feeds and fetches are whole tensors. Runs
 * come one after the other.
 * Fails: INVALID_ARGUMENT (mesh or layout; the graph names dimensions that cannot be as said). */
MF_API MF_MUST mf_status mf_mesh_session_new(const mf_graph *graph, const mf_mesh_options *options,
                                             mf_session **out);
/* INVALID_ARGUMENT: this is no session on a mesh, or has no such processor here. */
MF_API MF_MUST mf_status mf_mesh_session_counts(mf_session *session, int processor,
                                                mf_mesh_counts *out);

/* Another mesh of as many processors, another layout, from the next run on: variables keep their
 * values. *bytes (may be NULL): that processors got from others for it. Not while a run is under
 * way. Fails: INVALID_ARGUMENT (it cannot be so; all stays as it was), FAILED_PRECONDITION (a
 * variable has no value yet). */
MF_API MF_MUST mf_status mf_mesh_session_relayout(mf_session *session,
                                                  const mf_mesh_options *options, int64_t *bytes);

/* What a run costs a processor, by kind of op: of the run with the most ops so far. */
typedef struct mf_mesh_cost {
    const char *op; /* "MatMul"; "fed" for what goes in */
    int64_t nodes;
    double work; /* elements that are computed: multiplications of a matrix product */
    int64_t made_bytes; /* of results, all together */
    int64_t received_bytes; /* to bring their results to where they are needed */
} mf_mesh_cost;

typedef void mf_mesh_cost_fn(void *ctx, const mf_mesh_cost *cost);
/* each() is called for every kind, in the order of received bytes, then of work. All processors
 * have about as much; this is the first one here. INVALID_ARGUMENT: this is no session on a mesh.
 */
MF_API MF_MUST mf_status mf_mesh_session_costs(mf_session *session, mf_mesh_cost_fn *each,
                                               void *ctx);

/* Let a training with the strategy mesh go on under another mesh and layout, of as many processors,
 * after the step at hand: variables keep their values. What has become of it is logged; where it
 * cannot be, all stays as it was. One worker that asks is enough. Thread: any. Fails:
 * INVALID_ARGUMENT (the text; another strategy). */
MF_API MF_MUST mf_status mf_strategy_mesh_relayout(mf_strategy *strategy, const char *axes,
                                                   const char *layout);

/* Of a training with the strategy mesh ("mesh axes='rows:2;cols:2' layout='batch:rows'"): what all
 * processors had done when the weights were looked at last. Returns how many processors there are,
 * of which the first `max` are told; 0: it is another strategy, or nobody has looked. */
MF_API int mf_strategy_mesh_counts(const mf_strategy *strategy, mf_mesh_counts *out, int max);
/* What a worker of such a training has read, and holds whole. */
typedef struct mf_mesh_worker {
    int64_t samples; /* of the batches of all its steps */
    int64_t samples_read; /* of these, by this worker: what its processors look at */
    int64_t whole_bytes; /* weights and slots that it had during its last step besides what its
                            processors hold: single numbers, and, where workers may be lost, copies
                            to go on from (mesh_keep_steps) */
} mf_mesh_worker;
/* Of all workers, at the same moment, by rank. Returns how many there are, of which the first `max`
 * are told; 0: it is another strategy, or nobody has looked. */
MF_API int mf_strategy_mesh_workers(const mf_strategy *strategy, mf_mesh_worker *out, int max);
/* The same of the costs of a step, while its trainer is there. FAILED_PRECONDITION: it is not, or
 * this is another strategy. */
MF_API MF_MUST mf_status mf_strategy_mesh_costs(const mf_strategy *strategy, mf_mesh_cost_fn *each,
                                                void *ctx);

#ifdef __cplusplus
}
#endif
#endif
