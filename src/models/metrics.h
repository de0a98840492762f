/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - metrics. A metric is a vector of sums over samples, which shards and batches add up,
 * and a value computed from the sums at the end. So it does not depend on how samples are sharded.
 */
#ifndef MF_MODELS_METRICS_H
#define MF_MODELS_METRICS_H

#include "models/losses.h"

typedef struct mf_metric_kind {
    const char *name; /* Keras's; NULL ends the table */
    const char *settings;
    const char *about;
    /* l->in: the model's output and the label. Returns the sums over the given samples, a scalar or
     * a vector of floats. */
    mf_output (*build)(mf_layer_call *l);
    /* The value of the sums over this many samples. */
    double (*value)(const float *sums, int64_t n_sums, int64_t samples);
} mf_metric_kind;

extern const mf_metric_kind mf_metrics[];

/* The sums of the metric, to be added up and passed to (*kind)->value(). `text` is a name and
 * settings ("top_k k=5"). Failures are recorded in the graph: NOT_FOUND, INVALID_ARGUMENT. */
mf_output mf_metric(mf_model *model, const char *text, mf_output output, mf_output label,
                    const mf_metric_kind **kind);

#endif
