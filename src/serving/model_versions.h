/* SPDX-License-Identifier: Apache-2.0 */
/* model_versions.h - finds the checkpoint to serve. */
#ifndef MF_SERVING_MODEL_VERSIONS_H
#define MF_SERVING_MODEL_VERSIONS_H

#include "base/status.h"

typedef struct mf_serve_version {
    int64_t number; /* the step of a training, or the name of its folder */
    char *checkpoint; /* mf_free() */
} mf_serve_version;

/* The newest version at `where`: of the checkpoints in a folder (model.ckpt-300), of its subfolders
 * named by numbers, or the checkpoint itself. Fails: NOT_FOUND. */
MF_MUST mf_status mf_serve_newest(const char *where, mf_serve_version *out);

#endif
