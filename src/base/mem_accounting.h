/* SPDX-License-Identifier: Apache-2.0 */
/* mem_accounting.h - attributes memory to accounts. Tensor storage allocated by a thread that has
 * entered an account counts for that account until any thread frees it. Threads of a pool count for
 * the thread they help. Every store of variables has an account (graph/resource.h), which runs
 * enter: so an account covers what a device holds: variables, values and workspaces of kernels. */
#ifndef MF_BASE_MEM_ACCOUNTING_H
#define MF_BASE_MEM_ACCOUNTING_H

#include "base/status.h"

#include <stdint.h>

typedef struct mf_mem_account mf_mem_account;

/* The needs of the largest run, without memory held before it: the run with the most ops; among
 * runs with about as many ops, the one with the largest planned need. */
typedef struct mf_mem_account_run {
    int64_t ops;
    int64_t bytes; /* maximum over all its executions */
    int64_t planned; /* as planned */
} mf_mem_account_run;

MF_MUST mf_status mf_mem_account_new(mf_mem_account **out);
mf_mem_account *mf_mem_account_ref(mf_mem_account *a);
void mf_mem_account_unref(mf_mem_account *a);

/* Count this thread's allocations for account a (NULL: for none). Returns the previous account,
 * which the caller enters again later. */
mf_mem_account *mf_mem_account_enter(mf_mem_account *a);
mf_mem_account *mf_mem_account_here(void);

/* Count bytes for the account of this thread. Returns a reference to the account, kept as long as
 * the bytes are held, or NULL. */
mf_mem_account *mf_mem_account_take(int64_t bytes);
void mf_mem_account_give(mf_mem_account *a, int64_t bytes); /* also drops the reference */

/* Begin and end of a run. Concurrent runs count as one. `run`: its description, without `bytes`. */
void mf_mem_account_begin(mf_mem_account *a);
void mf_mem_account_end(mf_mem_account *a, const mf_mem_account_run *run);
mf_mem_account_run mf_mem_account_largest(mf_mem_account *a);
void mf_mem_account_forget_runs(mf_mem_account *a); /* forget the largest run so far */

#endif
