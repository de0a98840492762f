/* SPDX-License-Identifier: Apache-2.0 */
/* recompute_layers.c - selects the layers whose values are recomputed in the backward pass
 * (--recompute). */
#include "train/step/recompute_layers.h"

#include "graph/recompute.h"

#include <stdlib.h>
#include <string.h>

static mf_status recompute_layers_parse(const char *text, int64_t *layers)
{
    char *end = NULL;

    *layers = 0;
    if (!text)
        return MF_OK;
    *layers = strcmp(text, "layers") == 0 ? 1 : strtoll(text, &end, 10);
    if (*layers < 1 || *layers > INT32_MAX || (end && *end))
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "recompute '%.60s' is invalid: expected 'layers', or the number of layers in a "
            "group, at least 1",
            text);
    return MF_OK;
}

/* The layers that the model marks. */
static bool mark_named(const mf_model *m, int64_t *segment)
{
    int64_t layer = 0, n = 0;

    for (int64_t i = 0; i < m->n_made; i++) {
        if (m->made[i].depth > 0)
            continue;
        layer++;
        if (m->made[i].recompute)
            segment[layer] = ++n;
    }
    return n > 0;
}

/* The gradients of the last segment follow immediately: it gains nothing, so its values are kept.
 */
static void mark_all(const mf_model *m, int64_t *segment, int64_t each)
{
    const int64_t n = (m->n_layers + each - 1) / each;

    for (int64_t i = 1; i <= m->n_layers; i++)
        segment[i] = (i - 1) / each < n - 1 ? (i - 1) / each + 1 : 0;
}

mf_status mf_recompute_layers(mf_model *model, const char *text)
{
    int64_t *segment = MF_ARENA_ARRAY(model->graph->arena, int64_t, model->n_layers + 1);
    int64_t each;

    if (!segment)
        return MF_NOMEM("recomputation");
    MF_TRY(recompute_layers_parse(text, &each));
    if (each > 0)
        mark_all(model, segment, each);
    else if (!mark_named(model, segment))
        return MF_OK;
    return mf_recompute(model->graph, segment, model->n_layers);
}
