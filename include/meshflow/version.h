/* SPDX-License-Identifier: Apache-2.0 */
/* version.h - the version of the library. */
#ifndef MESHFLOW_VERSION_H
#define MESHFLOW_VERSION_H

#include <meshflow/status.h>

#define MESHFLOW_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is loaded. */
MF_API const char *mf_version(void);

#ifdef __cplusplus
}
#endif
#endif
