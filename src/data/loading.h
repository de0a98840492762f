/* SPDX-License-Identifier: Apache-2.0 */
/* loading.h - reads a file into a tensor in the background, front to back, while readers already
 * use its first rows. Training starts about 0.1 s earlier: Fashion-MNIST takes that long to
 * decompress. */
#ifndef MF_DATA_LOADING_H
#define MF_DATA_LOADING_H

#include "tensor/tensor.h"

typedef struct mf_loading mf_loading;

/* Reads the next n bytes. Thread: the loading thread. */
typedef mf_status mf_loading_fn(void *ctx, void *to, size_t n);

/* All are called by the loading thread, except `release`, which is called by mf_loading_free() or
 * after a failed start. */
typedef struct mf_loading_job {
    mf_loading_fn *read;
    mf_status (*end)(void *ctx); /* after the last byte: checks for extra data */
    void (*after)(void *ctx); /* optional: after success; no reader waits for it */
    void (*release)(void *ctx);
    void *ctx;
} mf_loading_job;

/* Fills `bytes` bytes at `to`. */
MF_MUST mf_status mf_loading_start(const mf_loading_job *job, void *to, size_t bytes,
                                   mf_loading **out);
/* Stops loading if it is in progress. */
void mf_loading_free(mf_loading *l);
/* Waits until the first n bytes are loaded. Fails with the error of the read, for every byte after
 * the place of the failure. Blocks: yes. Thread: any. */
MF_MUST mf_status mf_loading_wait(mf_loading *l, int64_t n);

#endif
