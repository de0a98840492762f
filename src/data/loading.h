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

/* All are called by the loading's thread, but `release`: that one by whoever frees it (or fails to
 * start it). */
typedef struct mf_loading_job {
    mf_loading_fn *read;
    mf_status (*end)(void *ctx); /* all bytes are read: is there too much? */
    void (*after)(void *ctx); /* optional: all went well, and nobody waits for this */
    void (*release)(void *ctx);
    void *ctx;
} mf_loading_job;

/* Fill `bytes` bytes at `to`. */
MF_MUST mf_status mf_loading_start(const mf_loading_job *job, void *to, size_t bytes,
                                   mf_loading **out);
/* Stops it where it is not done. */
void mf_loading_free(mf_loading *l);
/* Wait until the first n bytes are there. Fails: as the reading did, for every byte behind the
 * place of the failure. Blocks: yes. Thread: any. */
MF_MUST mf_status mf_loading_wait(mf_loading *l, int64_t n);

#endif
