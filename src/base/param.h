/* SPDX-License-Identifier: Apache-2.0 */
/* param.h - tunables, each declared beside its use:
 *
 *     MF_PARAM_INT(pool_spin_rounds, 4000, "looks at the queue before an idle thread sleeps");
 *     ...
 *     for (int i = 0; i < MF_PARAM(pool_spin_rounds); i++)
 *
 * A line that begins with MF_PARAM_INT( or MF_PARAM_FROM( is found by tools/gen_param_table.sh.
 * Values are whole numbers from 0 on; MESHFLOW_POOL_SPIN_ROUNDS in the environment or `--param
 * pool_spin_rounds=0` replace the default. Not for what changes results: that belongs into
 * arguments. */
#ifndef MF_BASE_PARAM_H
#define MF_BASE_PARAM_H

#include "base/status.h"

#include <stdatomic.h>

typedef struct mf_param {
    const char *name;
    const char *help;
    int64_t initial; /* the default */
    int64_t least; /* smaller values are refused */
    const char *source; /* "default", "environment" or "command line" */
    atomic_llong value;
} mf_param;

#define MF_PARAM_INT(id, default_value, help_text) MF_PARAM_FROM(id, default_value, 0, help_text)
/* The same, of which values below `least_value` make no sense. */
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

/* Take over what the environment says, once; later calls return at once. Whoever reads parameters
 * before a session or a pool exists calls it. A malformed value is logged and left out. */
void mf_params_load(void);
/* "name=value". INVALID_ARGUMENT naming an unknown parameter or what is wrong with the value.
 * Thread: before others run. */
MF_MUST mf_status mf_param_set(const char *assignment);
/* All parameters by name; *n is their number. */
mf_param *const *mf_params(int *n);

#endif
