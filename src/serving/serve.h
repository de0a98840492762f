/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h - serves a trained model behind TensorFlow Serving's REST paths.
 *
 * One process, the front, has the port and all connections; other processes, the replicas, each
 * have the model. The front batches requests and sends them to a replica. Requests that a dead
 * replica has not answered are sent to another replica. docs/guides/serving.md */
#ifndef MF_SERVING_SERVE_H
#define MF_SERVING_SERVE_H

#include "serving/served_model.h"

typedef struct mf_serve_options {
    const mf_serve_model *what;
    const char *name; /* in the paths */
    const char *where; /* a checkpoint, a folder of checkpoints, or a folder of folders named by
                          versions */
    const char *host; /* listen address */
    int port; /* 0: any free port */
    int replicas;
    int batch; /* requests of a run, at most */
    int64_t wait_ms; /* how long a request waits for others to join its run, at most */
    int64_t max_body; /* bytes of a request, at most */
    int64_t queue; /* waiting requests, at most; further requests get 503 */
    int64_t poll_ms; /* poll interval for newer checkpoints; 0: never */
    int64_t timeout_ms; /* a replica that takes longer for a run or a load is replaced */
    /* Called once, when all replicas are ready. */
    void (*ready)(void *ctx, const char *host, int port, int64_t version);
    void *ctx;
} mf_serve_options;

/* Serves until SIGINT or SIGTERM; accepted requests are still answered. Thread: the only one of the
 * process, which forks. Fails: as reading the model or its first checkpoint does, ALREADY_EXISTS,
 * PERMISSION_DENIED (the port). */
MF_MUST mf_status mf_serve(const mf_serve_options *options);

#endif
