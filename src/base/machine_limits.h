/* SPDX-License-Identifier: Apache-2.0 */
/* machine_limits.h - how much of the machine this process may use: affinity and cpuset, the quotas
 * of its control group, OMP_NUM_THREADS. */
#ifndef MF_BASE_MACHINE_LIMITS_H
#define MF_BASE_MACHINE_LIMITS_H

#include "base/status.h"

typedef struct mf_limits {
    int online; /* cores of the machine */
    int allowed; /* of these, in the affinity mask (which a cpuset narrows) */
    double quota; /* CPU quota of the control group, in cores; 0: no limit */
    int64_t memory; /* bytes the control group may use; 0: no limit */
    char quota_from[256], memory_from[256]; /* the file with that limit; "" */
} mf_limits;

/* `root` is a prefix for /proc and /sys: "" except in tests. A limit that cannot be read is no
 * limit. */
void mf_limits_get(const char *root, mf_limits *out);

/* Cores this process can keep busy: those allowed, limited by the quota; at least 1. */
int mf_usable_cores(void);

/* Default number of threads: MESHFLOW_THREADS (the tunable `threads`), else OMP_NUM_THREADS, else
 * the usable cores. *why (unless NULL) names the source. */
int mf_default_threads(const char **why);

#endif
