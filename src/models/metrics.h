/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - how good a model is. A metric is sums over samples, which shards and batches add up,
 * and a value made of the sums at the end: so it does not depend on how the samples were cut. */
#ifndef MF_MODELS_METRICS_H
#define MF_MODELS_METRICS_H

#include "models/losses.h"

typedef struct mf_metric_kind {
    const char *name; /* Keras's; NULL ends the table */
    const char *settings;
    const char *about;
    /* l->in: the model's output and the label. Returns the sums over the samples at hand, a scalar
     * or a vector of floats. */
    mf_output (*build)(mf_layer_call *l);
    /* What they come to, over so many samples. */
    double (*value)(const float *sums, int64_t n_sums, int64_t samples);
} mf_metric_kind;

extern const mf_metric_kind mf_metrics[];

/* The sums of the metric, to be added up and given to (*kind)->value(). `text` is a name and
 * settings ("top_k k=5"). Errors go to the graph: NOT_FOUND, INVALID_ARGUMENT. */
mf_output mf_metric(mf_model *model, const char *text, mf_output output, mf_output label,
                    const mf_metric_kind **kind);

#endif
