/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h - a trained model behind TensorFlow Serving's REST paths.
 *
 * One process, the front, has the port and all connections; others, the replicas, each have the
 * model. The front gathers requests and hands them to a replica, many at once; what a replica that
 * dies has not answered goes to another. docs/guides/serving.md */
#ifndef MF_SERVING_SERVE_H
#define MF_SERVING_SERVE_H

#include "serving/served_model.h"

typedef struct mf_serve_options {
    const mf_serve_model *what;
    const char *name; /* in the paths */
    const char *where; /* a checkpoint, a folder of them, or one of folders named by version */
    const char *host; /* to listen at */
    int port; /* 0: a free one */
    int replicas;
    int batch; /* most requests of a run */
    int64_t wait_ms; /* the longest that a request waits for others to join it */
    int64_t max_body; /* bytes of a request */
    int64_t queue; /* most requests that wait; more are sent away */
    int64_t poll_ms; /* how often a newer checkpoint is looked for; 0: never */
    int64_t timeout_ms; /* a replica that takes longer for a run or a load is replaced */
    /* Called once, when all replicas can answer. */
    void (*ready)(void *ctx, const char *host, int port, int64_t version);
    void *ctx;
} mf_serve_options;

/* Serves until SIGINT or SIGTERM; requests that were taken by then are answered. Thread: the only
 * one of the process, which forks. Fails: what is wrong with the model or its first checkpoint,
 * ALREADY_EXISTS, PERMISSION_DENIED (the port). */
MF_MUST mf_status mf_serve(const mf_serve_options *options);

#endif
