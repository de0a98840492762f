/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_settings.h - a strategy and its settings. The text form is parsed once, here; strategies
 * take the struct. The text is printed again only to be shown or compared between tasks. */
#ifndef MF_DIST_STRATEGY_SETTINGS_H
#define MF_DIST_STRATEGY_SETTINGS_H

#include "collective/gradient_aggregation.h"
#include "dist/param_server/ps_settings.h"
#include "graph/settings.h"

struct mf_mesh_settings;
struct mf_strategy_kind;
struct mf_strategy_options;
struct mf_strategy;

/* How gradients become one update. */
typedef struct mf_aggregation_settings {
    mf_aggregate how; /* never WEIGHTED without weights: that is the mean */
    double trim; /* TRIMMED_MEAN: the fraction of the shards that is excluded at each end */
    const double *weights; /* WEIGHTED: one for each member */
    int n_weights;
} mf_aggregation_settings;

/* What happens to optimizer slots when the groups of local_sgd average their weights. */
typedef enum mf_local_slots { MF_SLOTS_AVERAGE, MF_SLOTS_KEEP, MF_SLOTS_RESET } mf_local_slots;

typedef struct mf_local_sgd_settings {
    int64_t groups; /* 0: each worker is a group */
    int64_t period; /* steps between two averages */
    mf_local_slots slots;
} mf_local_sgd_settings;

typedef struct mf_remote_settings {
    const char *target; /* "grpc://HOST:PORT" */
    bool by_bytes; /* the load of a server is counted in bytes of variables */
} mf_remote_settings;

/* Settings that several strategies have. */
enum {
    MF_STRATEGY_COLLECTIVE = 1,
    MF_STRATEGY_BALANCE = 2,
    MF_STRATEGY_AGGREGATION = 4,
};

/* Strings and arrays are borrowed: from the arena that the text was parsed into, or the caller. */
typedef struct mf_strategy_settings {
    const struct mf_strategy_kind *kind;
    const char *collective; /* "auto", "shared", "net" or an algorithm */
    bool balance; /* slow workers get smaller shards */
    mf_aggregation_settings aggregation;
    union {
        int64_t replicas; /* mirrored, central_storage; 0: one for each core */
        mf_local_sgd_settings local_sgd;
        mf_ps_settings ps;
        const struct mf_mesh_settings *mesh;
        mf_remote_settings remote;
    };
} mf_strategy_settings;

/* "local_sgd groups=4". Owns: what the struct points to is in the arena. Fails: NOT_FOUND (no such
 * strategy), INVALID_ARGUMENT naming the strategy and the setting. */
MF_MUST mf_status mf_strategy_parse(const char *text, mf_arena *arena, mf_strategy_settings *out);
/* As mf_strategy_parse() reads it: the strategy, and the settings that differ from their defaults.
 */
void mf_strategy_text(const mf_strategy_settings *s, mf_buf *out);
/* The strategies that options of the command line stand for (--mesh, --target). */
void mf_strategy_of_mesh(const struct mf_mesh_settings *mesh, mf_strategy_settings *out);
void mf_strategy_of_target(const char *target, mf_strategy_settings *out);
/* mf_strategy_open() with parsed settings; NULL: the default strategy of the cluster. The strategy
 * copies what it keeps. */
MF_MUST mf_status mf_strategy_open_with(const mf_strategy_settings *settings,
                                        const struct mf_strategy_options *options,
                                        struct mf_strategy **out);

/* The signature of mf_aggregation_settings. */
#define MF_AGGREGATION_SETTINGS                                                                    \
    "aggregation: string = 'mean', trim: float = 0.1, weights: list(float) = []"
/* Owns: weights are in the arena. INVALID_ARGUMENT naming the setting. */
MF_MUST mf_status mf_aggregation_settings_read(const mf_options *o, mf_arena *arena,
                                               mf_aggregation_settings *out);
void mf_aggregation_settings_print(const mf_aggregation_settings *s, const mf_setting_printer *p);

/* Rows of the table of strategies: what they have besides the common settings. */
MF_MUST mf_status mf_replicas_read(const mf_options *o, mf_arena *arena, mf_strategy_settings *out);
void mf_replicas_print(const mf_strategy_settings *s, const mf_setting_printer *p);
MF_MUST mf_status mf_local_sgd_settings_read(const mf_options *o, mf_arena *arena,
                                             mf_strategy_settings *out);
void mf_local_sgd_settings_print(const mf_strategy_settings *s, const mf_setting_printer *p);
MF_MUST mf_status mf_remote_settings_read(const mf_options *o, mf_arena *arena,
                                          mf_strategy_settings *out);
void mf_remote_settings_print(const mf_strategy_settings *s, const mf_setting_printer *p);

#endif
