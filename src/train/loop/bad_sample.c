/* SPDX-License-Identifier: Apache-2.0 */
/* bad_sample.c - finds the sample that made a step fail. */
#include "train/loop/bad_sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double value_at(const mf_tensor *t, int64_t i)
{
    return t->dtype == MF_DTYPE_F32   ? (double)((const float *)t->data)[i]
           : t->dtype == MF_DTYPE_F64 ? ((const double *)t->data)[i]
                                      : 0.0;
}

/* Of a column; -1: all are finite. */
static int64_t first_bad(const mf_tensor *t)
{
    for (int64_t i = 0; mf_dtype_is_float(t->dtype) && i < t->count; i++) {
        if (!isfinite(value_at(t, i)))
            return i;
    }
    return -1;
}

static mf_status bad_sample_blame(const mf_dataset *set, const mf_batch *batch, int column,
                                  int64_t at, mf_status st)
{
    const mf_tensor *t = batch->columns[column];
    const int64_t each = t->count / t->shape.dims[0], sample = batch->ids[at / each];
    char text[200];

    (void)snprintf(
        text, sizeof text, "; sample %lld of the data has %g in column '%.60s', element %lld",
        (long long)sample, value_at(t, at), set->columns[column].name, (long long)(at % each));
    return mf_error_wrap(st, "", text);
}

mf_status mf_batch_blame(const mf_dataset *set, const mf_batch *batch, mf_status st)
{
    for (int i = 0; i < batch->n_columns && batch->n > 0; i++) {
        const int64_t at = first_bad(batch->columns[i]);

        if (at >= 0)
            return bad_sample_blame(set, batch, i, at, st);
    }
    if (strstr(mf_error_message(), "the loss is NaN/Inf"))
        return mf_error_wrap(st, "",
                             "; its samples are numbers, so training diverges: a smaller learning "
                             "rate, clipping or smaller numbers in the data may help");
    return st;
}
