/* SPDX-License-Identifier: Apache-2.0 */
/* search.h - predicts layouts, and takes the fastest layout that fits the memory.
 *
 * A layout maps each named dimension of the model, and its weights, to the mesh axes along which it
 * is sharded. A small number of layouts is searched exhaustively. Otherwise a beam search starts
 * from the best layouts, and predicts all layouts that differ in one dimension and axis, until none
 * is better. Then axes of the best layouts become pipeline stages, with several numbers of
 * micro-batches. If the devices are in this process, trials of the best layouts correct the
 * predictions of the others. */
#ifndef MF_PLANNER_SEARCH_H
#define MF_PLANNER_SEARCH_H

#include "planner/history.h"
#include "planner/trial.h"

enum { MF_PLAN_DIMS = 12 };

/* Dimensions that a layout may shard. */
typedef struct mf_plan_dims {
    int n;
    char name[MF_PLAN_DIMS][MF_MESH_NAME];
    int64_t size[MF_PLAN_DIMS]; /* the largest of this name; 0: unlimited ("weights") */
    int64_t layers; /* layers with weights: the most stages */
    int64_t batch; /* samples: the most micro-batches */
} mf_plan_dims;

/* A predicted layout. */
typedef struct mf_candidate {
    mf_mesh mesh;
    mf_axes cuts[MF_PLAN_DIMS]; /* by dimension: the axes that shard it */
    mf_axes layers; /* the axes of pipeline stages; 0: no pipeline */
    int micro_batches; /* 0: one */
    mf_status status; /* OK, or why the layout is not possible */
    mf_prediction is;
    double model_ns; /* the predicted step_ns, without correction and trial */
    int tried; /* number of trials; if not 0, step_ns and bytes are measured */
    double correction; /* factor in step_ns, from past trainings */
    bool all_devices; /* all devices were predicted, not only the first one */
} mf_candidate;

typedef struct mf_plan_request {
    const mf_planned_step *step;
    const mf_planned_machine *machine;
    const mf_mesh *meshes; /* mesh shapes to choose from */
    int n_meshes;
    const mf_layout_rules *layout; /* predict this one only, on the first mesh; NULL: choose */
    int64_t memory; /* bytes of a device; 0: unlimited */
    bool exact;
    const mf_history *history; /* NULL: no correction */
    const char *name; /* key of this training in the history */
    int micro_batches; /* of all layouts; 0: chosen for pipelines, one for others */
    double pipeline_seconds; /* budget for pipelines; 0: 2; negative: no pipelines */
    const mf_trial *trial; /* runs trials of the best layouts; NULL: no trials */
    double trial_seconds; /* budget of all trials together */
    int64_t trial_memory; /* bytes; no trials of layouts that need more, over all devices */
    int64_t limit; /* the search is exhaustive up to this number of layouts of all meshes; 0: 300 */
} mf_plan_request;

typedef struct mf_plan_result {
    mf_plan_dims dims;
    mf_candidate *all; /* the best one first, impossible ones last */
    int64_t n, cap;
    int64_t possible; /* number of layouts without pipelines */
    bool exhaustive; /* all of these were predicted */
    int64_t pipelines; /* predicted pipelines */
    bool pipelines_left; /* the deadline cut the search for pipelines */
    int trials; /* number of trials */
    bool fits; /* the best one fits the memory */
} mf_plan_result;

/* Owns: mf_plan_result_deinit(), also after a failure. If no layout fits, that is not a failure. */
MF_MUST mf_status mf_plan_search(const mf_plan_request *request, mf_plan_result *out);
void mf_plan_result_deinit(mf_plan_result *r);

/* Bytes of the device that needs most. */
static inline int64_t mf_prediction_memory(const mf_prediction *p)
{
    return p->memory_bytes;
}

/* True if they differ only by rules without effect. */
bool mf_candidate_same(const mf_candidate *a, const mf_candidate *b);

/* Names and sizes of the dimensions of feeds (`batch`) and variables. */
MF_MUST mf_status mf_plan_dims_find(const mf_planned_step *step, mf_plan_dims *out);
/* Shards as these rules say, on the candidate's mesh. INVALID_ARGUMENT: no such dimension or axis.
 */
MF_MUST mf_status mf_candidate_take_rules(const mf_plan_dims *d, const mf_layout_rules *rules,
                                          mf_candidate *c);
/* The mesh with its layout. INVALID_ARGUMENT: more rules than a layout may have. */
MF_MUST mf_status mf_candidate_spec(const mf_plan_dims *d, const mf_candidate *c,
                                    mf_mesh_spec *out);
/* Stages of its pipeline; 1: no pipeline. */
int mf_candidate_stages(const mf_candidate *c);
/* "batch:rows;hidden:cols" */
void mf_candidate_layout(const mf_plan_dims *d, const mf_candidate *c, mf_buf *out);
/* "rows:2;cols:2 batch:rows 1": with the micro-batches, the key in a history. */
void mf_candidate_name(const mf_plan_dims *d, const mf_candidate *c, mf_buf *out);
/* All mesh shapes of this number of devices with one or two axes, at most `max`. Returns their
 * number. */
int mf_plan_meshes(int devices, mf_mesh *out, int max);

#endif
