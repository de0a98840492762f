/* SPDX-License-Identifier: Apache-2.0 */
/* dnnl_util.h - runs oneDNN from many threads without its own threads.
 *
 * oneDNN's bits and speed depend on its number of threads; here it is always one, and pieces of
 * work run in parallel. All calls of oneDNN are in this folder. */
#ifndef MF_OPS_DNNL_UTIL_H
#define MF_OPS_DNNL_UTIL_H

#include "base/status.h"

#include <dnnl.h>

enum { MF_DNNL_ARGS = 4 };

/* A primitive and its arguments. May run on several threads at once. */
typedef struct mf_dnnl_prim mf_dnnl_prim;

/* Must be the first call on a thread. */
void mf_dnnl_enter(void);
/* The one engine of the process. */
MF_MUST mf_status mf_dnnl_engine(dnnl_engine_t *out);
/* MF_OK, or a failure that names the operation. */
mf_status mf_dnnl_status(dnnl_status_t status, const char *what);

/* Takes ownership of `pd`, even on failure. queries and args: the memory of each argument and its
 * index. */
MF_MUST mf_status mf_dnnl_prim_new(dnnl_primitive_desc_t pd, const char *what,
                                   const dnnl_query_t *queries, const int *args, int n_args,
                                   mf_dnnl_prim **out);
/* A reorder from one layout to another. */
MF_MUST mf_status mf_dnnl_reorder_new(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                                      mf_dnnl_prim **out);
void mf_dnnl_prim_free(mf_dnnl_prim *prim);
const dnnl_memory_desc_t *mf_dnnl_prim_md(const mf_dnnl_prim *prim, int arg);
/* Bytes of argument i, and of scratch memory for run(). */
size_t mf_dnnl_prim_bytes(const mf_dnnl_prim *prim, int arg);
size_t mf_dnnl_prim_scratch(const mf_dnnl_prim *prim);
/* data: one pointer per argument. */
MF_MUST mf_status mf_dnnl_prim_run(mf_dnnl_prim *prim, void *const *data, void *scratch);

#endif
