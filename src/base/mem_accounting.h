/* SPDX-License-Identifier: Apache-2.0 */
/* mem_accounting.h - whose memory it is. Storage of tensors that is taken on a thread while an
 * account is entered there counts for that account until it is given back, by whatever thread. The
 * threads of a pool count for whoever they help. Every store of variables has an account
 * (graph/resource.h), and runs enter it: so it has what a processor holds, variables, values and
 * what kernels need for themselves. */
#ifndef MF_BASE_MEM_ACCOUNTING_H
#define MF_BASE_MEM_ACCOUNTING_H

#include "base/status.h"

#include <stdint.h>

typedef struct mf_mem_account mf_mem_account;

/* What the largest run has needed, besides what was there before: the one with the most ops, of
 * those with about as many the one that was planned to need most. */
typedef struct mf_mem_account_run {
    int64_t ops;
    int64_t bytes; /* at most, of all times it ran */
    int64_t planned; /* what its plan says */
} mf_mem_account_run;

MF_MUST mf_status mf_mem_account_new(mf_mem_account **out);
mf_mem_account *mf_mem_account_ref(mf_mem_account *a);
void mf_mem_account_unref(mf_mem_account *a);

/* From now on this thread's memory counts there (NULL: nowhere). Returns where it counted before,
 * to be entered again. */
mf_mem_account *mf_mem_account_enter(mf_mem_account *a);
mf_mem_account *mf_mem_account_here(void);

/* Count bytes for the account of this thread: a reference to it for as long as they are held, or
 * NULL. */
mf_mem_account *mf_mem_account_take(int64_t bytes);
void mf_mem_account_give(mf_mem_account *a, int64_t bytes); /* and the reference */

/* Around a run. Runs at the same time count as one. `run`: what it is, without `bytes`. */
void mf_mem_account_begin(mf_mem_account *a);
void mf_mem_account_end(mf_mem_account *a, const mf_mem_account_run *run);
mf_mem_account_run mf_mem_account_largest(mf_mem_account *a);
void mf_mem_account_forget_runs(mf_mem_account *a); /* those so far are not looked at any more */

#endif
