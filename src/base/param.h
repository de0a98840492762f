/* SPDX-License-Identifier: Apache-2.0 */
/* param.h - tunables, each declared beside its use:
 *
 *     MF_PARAM_INT(pool_spin_rounds, 4000, "polls of the queue before an idle thread sleeps");
 *     ...
 *     for (int i = 0; i < MF_PARAM(pool_spin_rounds); i++)
 *
 * tools/gen_param_table.sh finds lines that begin with MF_PARAM_INT( or MF_PARAM_FROM(.
 * Values are non-negative integers. MESHFLOW_POOL_SPIN_ROUNDS in the environment or `--param
 * pool_spin_rounds=0` override the default. A value that changes results must be an argument, not a
 * tunable. */
#ifndef MF_BASE_PARAM_H
#define MF_BASE_PARAM_H

#include "base/status.h"

#include <stdatomic.h>

typedef struct mf_param {
    const char *name;
    const char *help;
    int64_t initial; /* the default */
    int64_t least; /* smallest valid value */
    const char *source; /* "default", "environment" or "command line" */
    atomic_llong value;
} mf_param;

#define MF_PARAM_INT(id, default_value, help_text) MF_PARAM_FROM(id, default_value, 0, help_text)
/* The same with a smallest valid value. */
#define MF_PARAM_FROM(id, default_value, least_value, help_text)                                   \
    extern mf_param mf_param_##id;                                                                 \
    mf_param mf_param_##id = { .name = #id,                                                        \
                               .help = (help_text),                                                \
                               .initial = (default_value),                                         \
                               .least = (least_value),                                             \
                               .source = "default",                                                \
                               .value = (default_value) }

/* One plain load. */
#define MF_PARAM(id) ((int64_t)atomic_load_explicit(&mf_param_##id.value, memory_order_relaxed))

/* Read the environment, once; later calls return at once. Code that reads parameters before a
 * session or a pool exists must call it. A malformed value is logged and ignored. */
void mf_params_load(void);
/* "name=value". Fails: INVALID_ARGUMENT naming the unknown parameter or the error in the value.
 * Thread: before other threads exist. */
MF_MUST mf_status mf_param_set(const char *assignment);
/* All parameters by name; *n is their number. */
mf_param *const *mf_params(int *n);

#endif
