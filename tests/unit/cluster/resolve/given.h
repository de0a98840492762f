/* SPDX-License-Identifier: Apache-2.0 */
/* given.h - an environment written down in a test: { "RANK=0", "WORLD_SIZE=2", NULL }. */
#ifndef MF_TEST_CLUSTER_GIVEN_H
#define MF_TEST_CLUSTER_GIVEN_H

#include "cluster/resolve/resolve.h"

#include <string.h>

static inline const char *given_env(void *ctx, const char *name)
{
    const char *const *list = ctx;
    const size_t n = strlen(name);

    for (int i = 0; list[i]; i++) {
        if (strncmp(list[i], name, n) == 0 && list[i][n] == '=')
            return list[i] + n + 1;
    }
    return NULL;
}

#define GIVEN_ON(name, ...)                                                                        \
    .env = given_env, .ctx = (void *)(const char *const[]){ __VA_ARGS__, NULL }, .host = name
#define GIVEN(...) GIVEN_ON("here", __VA_ARGS__)

#endif
