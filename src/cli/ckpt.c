/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt.c - opens a checkpoint and summarizes its tensors, for the `ckpt` commands. */
#include "cli/ckpt.h"

#include "base/mem.h"
#include "train/checkpoint/checkpoint.h"

#include <math.h>
#include <string.h>

mf_status mf_ckpt_open(mf_args *args, const char *where, mf_tensors **out, char **path)
{
    mf_status st;

    *out = NULL;
    MF_TRY(mf_checkpoints_find(where, path));
    st = mf_tensors_open(*path, out);
    if (st == MF_NOT_FOUND)
        mf_args_hint(args,
                     "name a folder of checkpoints, a .npz, .safetensors or .mfz file, or the "
                     "common prefix of PREFIX.index and PREFIX.data-...");
    if (st != MF_OK) {
        mf_free(*path);
        *path = NULL;
    }
    return st;
}

bool mf_ckpt_is_state(const char *name)
{
    return strncmp(name, MF_CKPT_STATE, sizeof MF_CKPT_STATE - 1) == 0;
}

int64_t mf_ckpt_bytes(const mf_tensor *t)
{
    int64_t bytes = 0;

    if (t->dtype != MF_DTYPE_STRING)
        return t->count * (int64_t)mf_dtype_size(t->dtype);
    for (int64_t i = 0; i < t->count; i++)
        bytes += (int64_t)((const mf_string *)t->data)[i].len;
    return bytes;
}

double mf_ckpt_number(const mf_tensor *t, int64_t i)
{
    return t->dtype == MF_DTYPE_BOOL ? (double)mf_tensor_int_at(t, i) : mf_tensor_float_at(t, i);
}

mf_ckpt_summary mf_ckpt_summarize(const mf_tensor *t)
{
    mf_ckpt_summary g = { .min = INFINITY, .max = -INFINITY };
    double sum = 0;

    if (!mf_dtype_is_float(t->dtype) && !mf_dtype_is_int(t->dtype) && t->dtype != MF_DTYPE_BOOL)
        return (mf_ckpt_summary){ 0 };
    for (int64_t i = 0; i < t->count; i++) {
        const double v = mf_ckpt_number(t, i);

        if (isnan(v)) {
            g.nans++;
            continue;
        }
        g.min = v < g.min ? v : g.min;
        g.max = v > g.max ? v : g.max;
        sum += v;
        g.n++;
        g.zeros += v == 0;
    }
    g.mean = g.n > 0 ? sum / (double)g.n : 0;
    return g;
}
