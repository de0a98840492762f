/* SPDX-License-Identifier: Apache-2.0 */
/* update_norms.c - adds the norms of weights and of their updates to a step. */
#include "train/step/update_norms.h"

#include <math.h>

void mf_update_norms_add(mf_update_norms *m, const mf_tensor *now, const mf_tensor *then)
{
    const float *a = now->data, *b = then->data;
    double squares = 0.0, moved = 0.0;

    for (int64_t i = 0; i < now->count; i++) {
        const double d = b ? (double)a[i] - (double)b[i] : 0.0;

        squares += (double)a[i] * (double)a[i];
        moved += d * d;
    }
    m->squares += squares;
    m->moved += moved;
}

double mf_update_norms_norm(const mf_update_norms *m)
{
    return sqrt(m->squares);
}

double mf_update_norms_by_size(const mf_update_norms *m)
{
    return m->squares > 0.0 ? sqrt(m->moved / m->squares) : 0.0;
}
