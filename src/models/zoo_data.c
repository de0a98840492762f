/* SPDX-License-Identifier: Apache-2.0 */
/* zoo_data.c - models of the zoo for a data set. */
#include "base/host_state.h"
#include "models/zoo.h"

mf_status mf_model_zoo(const char *name, const mf_dataset *data, mf_model **out)
{
    MF_ENTRY;
    MF_NEED(name, data, out);

    const mf_column *columns;
    const int n = mf_dataset_columns(data, &columns);

    return mf_zoo_build(name, columns, n, mf_dataset_classes(data, NULL), out);
}

void mf_model_defaults(const mf_model *model, const char **loss, const char **metrics)
{
    if (!model || !loss || !metrics)
        return;

    *loss = model->loss;
    *metrics = model->metrics;
}
