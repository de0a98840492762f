/* SPDX-License-Identifier: Apache-2.0 */
/* apply_engine.h - the engine of all Apply* ops: dense and sparse, on reference and resource
 * variables.
 *
 * A rule is a scalar step over (variable, slots, gradient, hyperparameters), implemented by loops
 * over spans; the engine derives the roles of the inputs from the op's signature, checks shapes,
 * locks the variables and distributes spans. */
#ifndef MF_OPS_OPTIM_APPLY_ENGINE_H
#define MF_OPS_OPTIM_APPLY_ENGINE_H

#include "graph/split.h"
#include "ops/math/elementwise.h"

enum { MF_RULE_SLOTS = 4, MF_RULE_HYPER = 6 };

/* Elements [0, n) of the variable (slot 0), its other slots and the gradient. */
typedef struct mf_rule_span {
    void *slot[MF_RULE_SLOTS];
    const void *grad;
    int64_t n;
    double hyper[MF_RULE_HYPER]; /* in the order of the signature */
    bool flag; /* the rule's attribute */
} mf_rule_span;

typedef void mf_rule_fn(const mf_rule_span *s);

typedef struct mf_rule {
    const char *name; /* the name of its ops after "Apply" */
    const char *flag; /* the boolean attribute that changes the step, or NULL */
    mf_rule_fn *fn[MF_DTYPE_COUNT];
} mf_rule;

/* All rules, terminated by a NULL name (apply_rules.c). */
extern const mf_rule mf_rules[];

/* An update of one variable, ready to run on any range of its elements. */
typedef struct mf_rule_job {
    mf_rule_fn *fn;
    mf_rule_span all; /* starting at the first element */
    int n_slots;
    size_t cell; /* bytes of an element */
    bool concurrent; /* other threads may write the same elements concurrently */
} mf_rule_job;

/* ---- what Apply* ops and _ApplyMany share (apply_engine.c) ---- */

/* The rule for an op's name ("ResourceSparseApplyAdagrad"); NULL: none. */
const mf_rule *mf_rule_find(const char *op);
/* Gives access to the values of variables. Locked: exclusive for this thread until mf_slots_end(),
 * and changes become visible then. Racing (Hogwild): nothing is locked or copied; concurrent
 * readers and writers see, and may overwrite, parts of the update. */
MF_MUST mf_status mf_slots_begin(mf_variable *const *v, int n, bool concurrent, mf_tensor *values);
void mf_slots_end(mf_variable *const *v, int n, bool concurrent, mf_tensor *values);
/* `values`: of the variable and its slots, named as in `def`. The caller sets hyper, flag and
 * racing.
 * Fails: INVALID_ARGUMENT (types or shapes of slots differ), UNIMPLEMENTED. */
MF_MUST mf_status mf_rule_job_init(mf_rule_job *job, const mf_opdef *def, const mf_rule *rule,
                                   const mf_tensor *values, int n_slots, const mf_tensor *grad);
/* Updates n elements of the variable from `slot_at`, with the gradient from `grad_at`. */
void mf_rule_job_run(const mf_rule_job *job, int64_t slot_at, int64_t grad_at, int64_t n);

/* Parts of an Apply* op (apply_engine.c). */
MF_MUST mf_status mf_rule_infer(mf_infer *in);
/* Split rule of the ops with indices. */
void mf_rule_sparse_split(mf_split *s);
MF_MUST mf_status mf_rule_prepare(mf_prepare *p);
MF_MUST mf_status mf_rule_run(mf_kernel *k);

#endif
