/* SPDX-License-Identifier: Apache-2.0 */
/* model_versions.h - which checkpoint is to be served. */
#ifndef MF_SERVING_MODEL_VERSIONS_H
#define MF_SERVING_MODEL_VERSIONS_H

#include "base/status.h"

typedef struct mf_serve_version {
    int64_t number; /* the step of a training, or the name of its folder */
    char *checkpoint; /* mf_free() */
} mf_serve_version;

/* The newest at `where`: of model.ckpt-300 and so on in a folder, of checkpoints in its folders
 * named by numbers, or the checkpoint itself. Fails: NOT_FOUND. */
MF_MUST mf_status mf_serve_newest(const char *where, mf_serve_version *out);

#endif
