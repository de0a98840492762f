/* SPDX-License-Identifier: Apache-2.0 */
/* activation.c - activations by Keras's names. */
#include "models/layer.h"

#include <string.h>

static const struct {
    const char *name, *op;
} simple[] = {
    { "relu", "Relu" },
};

mf_output mf_layer_activation(mf_layer_call *l, const char *name, mf_output x)
{
    if (strcmp(name, "linear") == 0)
        return x;
    for (int i = 0; i < MF_COUNT(simple); i++) {
        if (strcmp(simple[i].name, name) == 0)
            return mf_apply(l->graph, simple[i].op, MF_IN(x));
    }
    return mf_layer_fail(l, "there is no activation '%.60s'", name);
}
