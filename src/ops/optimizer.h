/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.h - one engine for all Apply* ops: dense and sparse, reference and resource variables.
 *
 * A rule is a scalar step over (variable, slots, gradient, hyperparameters) as loops over spans;
 * the engine finds out from the op's signature which input is what, checks shapes, locks the
 * variables and hands out spans. */
#ifndef MF_OPS_OPTIMIZER_H
#define MF_OPS_OPTIMIZER_H

#include "ops/loop.h"

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
    const char *name; /* what follows "Apply" in the names of its ops */
    const char *flag; /* the boolean attribute that changes the step, or NULL */
    mf_rule_fn *fn[MF_DTYPE_COUNT];
} mf_rule;

/* All rules, ended by a NULL name (optimizer_rules.c). */
extern const mf_rule mf_rules[];

/* The parts of an Apply* op (optimizer.c). */
MF_MUST mf_status mf_rule_infer(mf_infer *in);
MF_MUST mf_status mf_rule_prepare(mf_prepare *p);
MF_MUST mf_status mf_rule_run(mf_kernel *k);

#endif
