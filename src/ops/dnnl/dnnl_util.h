/* SPDX-License-Identifier: Apache-2.0 */
/* dnnl_util.h - oneDNN, called from many threads and using none of its own.
 *
 * oneDNN's bits and speed depend on how many threads it has; here it always has one, and our pieces
 * run side by side. All calls of oneDNN are in this folder. */
#ifndef MF_OPS_DNNL_UTIL_H
#define MF_OPS_DNNL_UTIL_H

#include "base/status.h"

#include <dnnl.h>

enum { MF_DNNL_ARGS = 4 };

/* A primitive and what is needed to run it. May run on several threads at once. */
typedef struct mf_dnnl_prim mf_dnnl_prim;

/* Before anything else on this thread. */
void mf_dnnl_enter(void);
/* The one engine of the process. */
MF_MUST mf_status mf_dnnl_engine(dnnl_engine_t *out);
/* MF_OK, or a failure that names what was being done. */
mf_status mf_dnnl_status(dnnl_status_t status, const char *what);

/* Takes `pd` over, also on failure. queries and args: the memory of each argument and its number.
 */
MF_MUST mf_status mf_dnnl_prim_new(dnnl_primitive_desc_t pd, const char *what,
                                   const dnnl_query_t *queries, const int *args, int n_args,
                                   mf_dnnl_prim **out);
/* A reorder from one layout to another. */
MF_MUST mf_status mf_dnnl_reorder_new(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                                      mf_dnnl_prim **out);
void mf_dnnl_prim_free(mf_dnnl_prim *prim);
const dnnl_memory_desc_t *mf_dnnl_prim_md(const mf_dnnl_prim *prim, int arg);
/* Bytes of argument i, and of the memory to be given to run(). */
size_t mf_dnnl_prim_bytes(const mf_dnnl_prim *prim, int arg);
size_t mf_dnnl_prim_scratch(const mf_dnnl_prim *prim);
/* data: one pointer per argument. */
MF_MUST mf_status mf_dnnl_prim_run(mf_dnnl_prim *prim, void *const *data, void *scratch);

#endif
