/* SPDX-License-Identifier: Apache-2.0 */
/* ps_settings.h - the settings of the strategy parameter_server, parsed and checked. */
#ifndef MF_DIST_PARAM_SERVER_PS_SETTINGS_H
#define MF_DIST_PARAM_SERVER_PS_SETTINGS_H

#include "collective/gradient_aggregation.h"
#include "dist/param_server/weight_partition.h"
#include "graph/settings.h"

struct mf_strategy_settings;

/* How workers and servers synchronize. */
typedef struct mf_ps_mode {
    bool sync; /* all workers share each batch; else each worker has batches of its own */
    int64_t staleness; /* the most steps that one worker may be ahead of another; -1: no limit */
    int64_t quorum; /* an update waits for this many pushes and discards the others; 0: every push
                       is an update */
    int64_t period; /* steps between two pushes */
    int64_t blocks; /* of data, each for one worker, see ps_leases.h; 0: none */
    mf_weight_partition partition; /* of weights */
    mf_aggregation aggregation; /* sync; else the mean. Its weights must outlive all users */
} mf_ps_mode;

typedef struct mf_ps_settings {
    mf_ps_mode mode; /* without its aggregation, which mf_aggregation_make() makes */
    int64_t copies; /* servers that hold a copy of each slice */
    bool by_host; /* workers of one host push together */
} mf_ps_settings;

/* out->aggregation has been read. INVALID_ARGUMENT naming settings that exclude each other. */
MF_MUST mf_status mf_ps_settings_read(const mf_options *o, mf_arena *arena,
                                      struct mf_strategy_settings *out);
void mf_ps_settings_print(const struct mf_strategy_settings *s, const mf_setting_printer *p);

#endif
