/* SPDX-License-Identifier: Apache-2.0 */
/* loading.h - a file becomes a tensor in the background, from front to back, while whoever needs
 * its first rows already reads them. Training begins some 0.1 s sooner: Fashion-MNIST takes that
 * long to unpack. */
#ifndef MF_DATA_LOADING_H
#define MF_DATA_LOADING_H

#include "tensor/tensor.h"

typedef struct mf_loading mf_loading;

/* Reads the next n bytes. Thread: the loading's. */
typedef mf_status mf_loading_fn(void *ctx, void *to, size_t n);

/* Fill `bytes` bytes at `to` by calls of fn, then call end (with bytes = 0 read), which may find
 * that there is too much. `release` is called once, when the loading is freed, also if it fails to
 * start. */
typedef struct mf_loading_job {
    mf_loading_fn *read;
    mf_status (*end)(void *ctx);
    void (*release)(void *ctx);
    void *ctx;
} mf_loading_job;

MF_MUST mf_status mf_loading_start(const mf_loading_job *job, void *to, size_t bytes,
                                   mf_loading **out);
/* Stops it where it is not done. */
void mf_loading_free(mf_loading *l);
/* Wait until the first n bytes are there. Fails: as the reading did, for every byte behind the
 * place of the failure. Blocks: yes. Thread: any. */
MF_MUST mf_status mf_loading_wait(mf_loading *l, int64_t n);

#endif
